//! Secrets that a stream deals over several events.

use crate::base::{REDACTED, Secrets};
use serde_json::Value;
use std::collections::BTreeMap;

/// The strings that stand at one place in each event, joined: what a reader of the answer sees.
#[derive(Default)]
struct Track {
    text: String,
    /// Event, and where its piece of the text begins and ends.
    pieces: Vec<(usize, usize, usize)>,
}

/// Hides what no event holds whole. Events without a piece of it stay as they came. Cost: each
/// event is read as JSON, where there are secrets at all.
pub(super) fn hide(events: &mut [String], secrets: &Secrets) {
    if secrets.is_empty() || events.len() < 2 {
        return;
    }
    let mut tracks: BTreeMap<String, Track> = BTreeMap::new();
    let mut parsed: Vec<Value> = events
        .iter()
        .map(|text| serde_json::from_str(text).unwrap_or(Value::Null))
        .collect();
    for (event, value) in parsed.iter().enumerate() {
        match value {
            // No JSON: the whole is the text.
            Value::Null => tracks
                .entry(String::new())
                .or_default()
                .push(event, &events[event]),
            value => collect(value, &mut String::new(), event, &mut tracks),
        }
    }
    for (path, track) in tracks {
        let mut cuts: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (start, end) in secrets.spans(&track.text) {
            // Pieces are in order: one that is far away is not looked at.
            let first = track.pieces.partition_point(|(_, _, to)| *to <= start);
            let touched = track.pieces[first..].iter();
            let touched: Vec<_> = touched
                .take_while(|(_, from, _)| *from < end)
                .filter(|(_, from, to)| from < to)
                .collect();
            if touched.len() > 1 {
                for (event, from, to) in touched {
                    let cut = (start.max(*from) - from, end.min(*to) - from);
                    cuts.entry(*event).or_default().push(cut);
                }
            }
        }
        for (event, cuts) in cuts {
            let whole = match parsed[event].pointer_mut(&path) {
                Some(Value::String(text)) => {
                    cut(text, &cuts);
                    parsed[event].to_string()
                }
                _ => {
                    let mut text = events[event].clone();
                    cut(&mut text, &cuts);
                    text
                }
            };
            events[event] = whole;
        }
    }
}

impl Track {
    fn push(&mut self, event: usize, piece: &str) {
        let from = self.text.len();
        self.text.push_str(piece);
        self.pieces.push((event, from, self.text.len()));
    }
}

/// Every string of a value under its JSON pointer.
fn collect(value: &Value, path: &mut String, event: usize, out: &mut BTreeMap<String, Track>) {
    let here = path.len();
    let mut under = |key: &str, value: &Value, out: &mut BTreeMap<String, Track>| {
        path.push('/');
        path.push_str(key);
        collect(value, path, event, out);
        path.truncate(here);
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                under(&key.replace('~', "~0").replace('/', "~1"), value, out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                under(&at.to_string(), item, out);
            }
        }
        Value::String(text) => match out.get_mut(path.as_str()) {
            Some(track) => track.push(event, text),
            None => out.entry(path.clone()).or_default().push(event, text),
        },
        _ => {}
    }
}

/// Replaces the parts, which are in order.
fn cut(text: &mut String, parts: &[(usize, usize)]) {
    for (from, to) in parts.iter().rev() {
        text.replace_range(*from..*to, REDACTED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(events: &[&str]) -> Vec<String> {
        let secrets = Secrets::new(["sk-very\"secret".to_string()]);
        let mut events: Vec<String> = events.iter().map(|text| text.to_string()).collect();
        hide(&mut events, &secrets);
        events
    }

    #[test]
    fn a_secret_over_several_events_is_in_none_of_them() {
        let events = hidden(&[
            r#"{"c":[{"d": {"content":"key sk-v"},"id":"a"}]}"#,
            r#"{"c":[{"d": {"content":"ery\"s"},"id":"a"}]}"#,
            r#"{"c":[{"d": {},"id":"a"}]}"#,
            r#"{"c":[{"d": {"content":"ecret is bad"},"id":"a"}]}"#,
            r#"{"c":[{"d": {"content":"kept"},"id":"a"}]}"#,
        ]);
        assert_eq!(
            events,
            [
                r#"{"c":[{"d":{"content":"key <redacted>"},"id":"a"}]}"#,
                r#"{"c":[{"d":{"content":"<redacted>"},"id":"a"}]}"#,
                r#"{"c":[{"d": {},"id":"a"}]}"#,
                r#"{"c":[{"d":{"content":"<redacted> is bad"},"id":"a"}]}"#,
                r#"{"c":[{"d": {"content":"kept"},"id":"a"}]}"#,
            ]
        );
        let plain = hidden(&["x sk-very\"", "secret y", "{}"]);
        assert_eq!(plain, ["x <redacted>", "<redacted> y", "{}"]);
    }

    #[test]
    fn places_are_not_mixed_and_whole_secrets_are_for_the_mask() {
        for events in [
            [r#"{"a":"sk-very"}"#, r#"{"b":"\"secret"}"#],
            [r#"{"a": "sk-very\"secret"}"#, r#"{"a": "x"}"#],
        ] {
            assert_eq!(hidden(&events), events);
        }
    }
}
