//! Secrets out of everything that is printed or written.

use super::text::printable;
use serde_json::Value;
use std::borrow::Cow;

/// What stands in for a secret.
pub const REDACTED: &str = "<redacted>";
/// Shorter values are hidden where they are typed, not looked for in texts: `EMPTY` or `abc` would
/// redact half of every report and protect nothing.
pub const SECRET_BYTES_MIN: usize = 6;

/// Backslashes before an escaped character: JSON three deep. A longer run is no escape of ours, and
/// must not be counted anew from each of its bytes.
const SLASHES_MAX: usize = 8;

/// Values that must never be printed, in every form in which a server might echo them: in any case,
/// percent-encoded, escaped for JSON, HTML or a shell, or in base64.
#[derive(Clone, Default)]
pub struct Secrets {
    needles: Vec<Needle>,
    /// Bytes with which a form of any needle can begin.
    begins: Vec<bool>,
}

#[derive(Clone, PartialEq, Eq)]
struct Needle {
    chars: Vec<char>,
    /// Base64 has one form only.
    exact: bool,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secrets({})", self.needles.len())
    }
}

impl Secrets {
    /// From plain values; those under [`SECRET_BYTES_MIN`] are left out.
    pub fn new(values: impl IntoIterator<Item = String>) -> Secrets {
        let mut needles = Vec::new();
        for value in values {
            let value = value.trim();
            if value.len() < SECRET_BYTES_MIN {
                continue;
            }
            let (begin, whole) = base64(value.as_bytes());
            for (text, exact) in [
                (begin.as_str(), true),
                (whole.as_str(), true),
                (value, false),
            ] {
                let chars = text.chars().collect();
                needles.push(Needle { chars, exact });
            }
        }
        // The longest first: a secret may be the beginning of another.
        needles.sort_by(|a, b| (b.chars.len(), &a.chars).cmp(&(a.chars.len(), &b.chars)));
        needles.dedup();
        let mut begins = vec![false; 256];
        for needle in &needles {
            for c in needle.chars[0]
                .to_lowercase()
                .chain(needle.chars[0].to_uppercase())
            {
                let mut bytes = [0; 4];
                begins[usize::from(c.encode_utf8(&mut bytes).as_bytes()[0])] = true;
            }
            for byte in if needle.exact { "" } else { "%\\&'+" }.bytes() {
                begins[usize::from(byte)] = true;
            }
        }
        Secrets { needles, begins }
    }

    /// True when there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// Where secrets stand in a text, in order. A text that ends inside of one has been cut there:
    /// the beginning counts too.
    pub fn spans(&self, text: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        if self.is_empty() {
            return found;
        }
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(step) = bytes[at..]
            .iter()
            .position(|b| self.begins[usize::from(*b)])
        {
            let start = at + step;
            let ends = self.needles.iter().map(|needle| needle.end(text, start));
            match ends.flatten().max() {
                Some(end) => {
                    found.push((start, end));
                    at = end;
                }
                None => at = start + 1,
            }
        }
        found
    }

    /// The text with every secret replaced by [`REDACTED`].
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for (start, end) in spans {
            out.push_str(&text[from..start]);
            out.push_str(REDACTED);
            from = end;
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// As it may be printed: no secret, nothing that steers a terminal.
    pub fn shown(&self, text: &str) -> String {
        printable(&self.mask(text)).into_owned()
    }

    /// Masks every string inside a JSON value; keys stay.
    pub fn mask_value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.mask(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_value(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.mask_value(item)),
            _ => {}
        }
    }
}

impl Needle {
    /// Where the needle that begins at `start` ends.
    fn end(&self, text: &str, start: usize) -> Option<usize> {
        if self.exact {
            let rest = text.as_bytes()[start..].iter();
            let same = rest
                .zip(&self.chars)
                .take_while(|(b, c)| char::from(**b) == **c)
                .count();
            let is_cut = start + same == text.len() && same >= SECRET_BYTES_MIN;
            return (same == self.chars.len() || is_cut).then_some(start + same);
        }
        end_of(text, start, &self.chars, 0)
    }
}

/// Follows a needle's characters from `done` on, each in any of its forms.
fn end_of(text: &str, mut at: usize, chars: &[char], mut done: usize) -> Option<usize> {
    while let Some(&c) = chars.get(done) {
        let rest = text.get(at..)?;
        if done >= SECRET_BYTES_MIN && is_remnant(rest) {
            return Some(text.len());
        }
        let forms = forms(rest, c);
        let mut lengths = forms.into_iter().flatten();
        let first = lengths.next()?;
        // Nearly always there is one; a backslash may be one character or the half of an escape.
        for other in lengths {
            if let Some(end) = end_of(text, at + other, chars, done + 1) {
                return Some(end);
            }
        }
        at += first;
        done += 1;
    }
    Some(at)
}

/// What is left of a form when a text was cut in its middle.
fn is_remnant(rest: &str) -> bool {
    let cut = rest.starts_with(['%', '\\', '&', '\u{fffd}']) && rest.len() < 6;
    rest.is_empty() || cut && !rest.contains(|c: char| c.is_whitespace() || c == ';' || c == '"')
}

/// Lengths of the forms of `c` with which `rest` begins.
fn forms(rest: &str, c: char) -> [Option<usize>; 2] {
    let first = rest.chars().next().unwrap_or('\0');
    let plain = (first == c || first.eq_ignore_ascii_case(&c)).then(|| first.len_utf8());
    let coded = match first {
        '%' => percent(rest, c),
        '\\' => escaped(rest, c),
        '&' => html(rest, c),
        '+' if c == ' ' => Some(1),
        '\'' if c == '\'' && rest.starts_with(r"'\''") => Some(4),
        _ => None,
    };
    [plain, coded]
}

fn percent(rest: &str, c: char) -> Option<usize> {
    let (mut bytes, mut at) = ([0; 4], 0);
    for byte in c.encode_utf8(&mut bytes).bytes() {
        let digits = rest.get(at..at + 3)?.strip_prefix('%')?;
        let coded = u8::from_str_radix(digits, 16).ok()?;
        if !coded.eq_ignore_ascii_case(&byte) {
            return None;
        }
        at += 3;
    }
    Some(at)
}

/// JSON's escapes; several backslashes where JSON stands in JSON.
fn escaped(rest: &str, c: char) -> Option<usize> {
    let run = rest
        .bytes()
        .take(SLASHES_MAX)
        .take_while(|byte| *byte == b'\\');
    let slashes = run.count();
    let after = &rest[slashes..];
    if c == '\\' {
        return (slashes >= 2).then_some(2);
    }
    let letter = match c {
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        other => other,
    };
    let mut units = [0; 2];
    let mut at = slashes;
    for (n, unit) in c.encode_utf16(&mut units).iter().enumerate() {
        let start = if n == 0 { at } else { at + slashes };
        let digits = rest
            .get(start..start + 5)
            .and_then(|text| text.strip_prefix('u'));
        match digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            Some(coded) if coded == *unit => at = start + 5,
            _ => {
                return after
                    .starts_with(letter)
                    .then(|| slashes + letter.len_utf8());
            }
        }
    }
    Some(at)
}

fn html(rest: &str, c: char) -> Option<usize> {
    let end = rest.bytes().take(12).position(|byte| byte == b';')?;
    let name = &rest[1..end];
    let number = match name.strip_prefix('#') {
        Some(hex) if hex.starts_with(['x', 'X']) => u32::from_str_radix(&hex[1..], 16).ok(),
        Some(decimal) => decimal.parse().ok(),
        None => [
            ("amp", '&'),
            ("lt", '<'),
            ("gt", '>'),
            ("quot", '"'),
            ("apos", '\''),
        ]
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, c)| u32::from(*c)),
    };
    (number? == u32::from(c)).then_some(end + 1)
}

/// Base64 without padding: the part that stays when more follows, and the whole.
pub(crate) fn base64(bytes: &[u8]) -> (String, String) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    let (mut held, mut bits) = (0u32, 0u32);
    for byte in bytes {
        held = (held << 8 | u32::from(*byte)) & 0xffff;
        bits += 8;
        while bits >= 6 {
            bits -= 6;
            out.push(char::from(ALPHABET[(held >> bits & 63) as usize]));
        }
    }
    let mut whole = out.clone();
    if bits > 0 {
        whole.push(char::from(ALPHABET[((held << (6 - bits)) & 63) as usize]));
    }
    (out, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Secrets {
        Secrets::new(values.iter().map(|text| text.to_string()))
    }

    #[test]
    fn a_secret_is_hidden_in_all_its_forms() {
        let secrets = of(&["sk-a b/c\"d'é", "abc"]);
        for echo in [
            "key sk-a b/c\"d'é is bad",
            "key SK-A B/C\"D'é is bad",
            "key sk-a+b%2Fc%22d%27%C3%A9 is bad",
            "key %73k-a%20b%2fc%22d'%c3%a9 is bad",
            r#"key sk-a b\/c\"d'\u00e9 is bad"#,
            r#"key sk-a b/c\\\"d'é is bad"#,
            r#"key sk-a b/c"d'\''é is bad"#,
            "key sk-a b/c&quot;d&#39;é is bad",
            "key c2stYSBiL2MiZCfDqQ is bad",
        ] {
            assert_eq!(secrets.mask(echo), "key <redacted> is bad", "{echo}");
        }
        assert_eq!(
            secrets.mask("abc stays, so does SK-A"),
            "abc stays, so does SK-A"
        );
    }

    #[test]
    fn a_secret_that_begins_another_leaves_no_tail() {
        let secrets = of(&["tokens", "tokens-two"]);
        assert_eq!(secrets.mask("tokens-two, tokens"), "<redacted>, <redacted>");
    }

    #[test]
    fn a_text_cut_inside_of_a_secret_shows_none_of_it() {
        let secret = "sk-verysecret/é";
        let secrets = of(&[secret]);
        for echo in [secret, "sk-verysecret%2F%C3%A9", "sk-verysecret\\/\\u00e9"] {
            for cut in 6..=echo.len() {
                let text = String::from_utf8_lossy(&echo.as_bytes()[..cut]);
                assert_eq!(secrets.mask(&format!("x {text}")), "x <redacted>", "{text}");
            }
        }
        assert_eq!(secrets.mask("sk-ver y"), "sk-ver y", "only at the end");
    }

    #[test]
    fn values_are_masked_at_every_depth_and_debug_shows_none() {
        let secrets = of(&["hunter22"]);
        let mut value = serde_json::json!({"a": [{"b": "x hunter22"}], "n": 1});
        secrets.mask_value(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"a": [{"b": "x <redacted>"}], "n": 1})
        );
        assert!(!format!("{secrets:?}").contains("hunter"));
        assert_eq!(secrets.shown("\x1bhunter22\n"), "\\x1b<redacted>\n");
    }

    #[test]
    fn any_text_is_taken() {
        let secrets = of(&["\\\\\\%%%&&&+++   ", "ééééé%%"]);
        for text in [
            "%",
            "\\",
            "&",
            "%é",
            "\\u12",
            "\\\\\\\\\\%",
            "&#xé;",
            "&;",
            "é%C3",
            "\\u00e",
        ] {
            secrets.mask(&text.repeat(3));
            secrets.mask(&format!("éé{text}"));
        }
        // Counted from each byte this would take an hour.
        let long = "\\".repeat(1 << 20);
        assert_eq!(of(&["sk-\"secret"]).mask(&long), long);
    }
}
