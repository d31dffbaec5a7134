//! Whether a document is XML: for tests, here and beside the package.

/// The first fault of a document that has elements, attributes and text; an empty text is good.
pub fn xml_fault(document: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = document.trim_end();
    while let Some(at) = rest.find('<') {
        let (text, from) = rest.split_at(at);
        let end = from.find('>')?;
        let tag = &from[1..end];
        rest = &from[end + 1..];
        if let Some(bad) = bad_text(text).or_else(|| bad_text(tag)) {
            return Some(bad);
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(format!("</{name}> closes another element"));
            }
        } else {
            if tag.matches('"').count() % 2 == 1 {
                return Some(format!("<{tag}>: an open quote"));
            }
            if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap_or_default());
            }
        }
        if open.is_empty() && !rest.is_empty() {
            return Some("something after the root".into());
        }
    }
    (!open.is_empty() || !rest.is_empty()).then(|| format!("open at the end: {open:?}"))
}

fn bad_text(text: &str) -> Option<String> {
    let entities = ["amp;", "lt;", "gt;", "quot;"];
    let mut parts = text.split('&').skip(1);
    let bad = parts.find(|part| !entities.iter().any(|entity| part.starts_with(entity)));
    let control = text.chars().any(|c| c.is_control() && c != '\n');
    match (bad, control) {
        (Some(part), _) => Some(format!("&{part}")),
        (None, true) => Some(format!("a control character in {text:?}")),
        (None, false) => None,
    }
}
