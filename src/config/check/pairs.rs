//! `name:value` pairs, as both peers take them.

use super::{ConfigError, no};
use serde::de::IgnoredAny;
use serde_json::Value;

/// What a comma between pairs means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commas {
    /// The next pair begins, as in AIPerf.
    Part,
    /// It belongs to the value: a header's may well have some.
    Stay,
}

/// Pairs in the order given: each text is one pair, several by commas or a JSON object; a file may
/// have an object. `read` reads a typed value; a bare name comes with null.
pub(super) fn pairs(
    flag: &'static str,
    given: &Value,
    commas: Commas,
    read: fn(&str) -> Value,
) -> Result<Vec<(String, Value)>, ConfigError> {
    match given {
        Value::Null => Ok(Vec::new()),
        Value::Object(map) => Ok(map.clone().into_iter().collect()),
        Value::Array(list) => {
            let each: Result<Vec<_>, _> = list
                .iter()
                .map(|one| pairs(flag, one, commas, read))
                .collect();
            Ok(each?.concat())
        }
        Value::String(text) if text.trim_start().starts_with('{') => {
            match serde_json::from_str::<serde_json::Map<String, Value>>(text) {
                Ok(map) => Ok(map.into_iter().collect()),
                Err(error) => no(flag, format!("no JSON object: {error}")),
            }
        }
        Value::String(text) if commas == Commas::Stay => Ok(vec![pair(flag, text, read)?]),
        Value::String(text) => split(text)
            .into_iter()
            .map(|part| pair(flag, part, read))
            .collect(),
        _ => no(flag, "give name:value or a JSON object"),
    }
}

/// Comma lists are AIPerf's: where each part is a pair, and the commas are not JSON's.
fn split(text: &str) -> Vec<&str> {
    let (name, value) = text.split_once(':').unwrap_or(("", ""));
    if matches!(name.trim(), "payload_template" | "response_field") {
        // A template and a path have commas of their own.
        return vec![text];
    }
    let parts: Vec<&str> = text.split(',').collect();
    let word = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    let is_pair = |part: &&str| {
        part.split_once(':')
            .is_some_and(|(name, _)| word(name.trim()))
    };
    match serde_json::from_str::<IgnoredAny>(value) {
        Err(_) if parts.iter().all(is_pair) => parts,
        _ => vec![text],
    }
}

fn pair(
    flag: &'static str,
    text: &str,
    read: fn(&str) -> Value,
) -> Result<(String, Value), ConfigError> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name.trim(), read(value.trim())),
        None => (text.trim(), Value::Null),
    };
    match name.is_empty() {
        true => no(flag, "give name:value or a JSON object"),
        false => Ok((name.to_string(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pairs_come_one_by_one_by_commas_or_as_json() {
        let expected = [("a".to_string(), json!("1")), ("b".into(), json!("x:y"))];
        for given in [
            json!(["a:1", "b:x:y"]),
            json!("a: 1, b: x:y"),
            json!(r#" {"a": "1", "b": "x:y"}"#),
            json!({"a": "1", "b": "x:y"}),
            json!([{"a": "1"}, "b:x:y"]),
        ] {
            let found = pairs("f", &given, Commas::Part, |text| text.into()).unwrap();
            assert_eq!(found, expected, "{given}");
        }
    }

    #[test]
    fn commas_that_part_no_pairs_stay() {
        for text in ["a:x, y", "a:Mon, 30 Nov 08:00", r#"a:["b:1","c:2"]"#] {
            assert_eq!(split(text), [text]);
        }
        let header = pairs("f", &json!("a: u=1,b:2"), Commas::Stay, |text| text.into());
        assert_eq!(header.unwrap(), [("a".to_string(), json!("u=1,b:2"))]);
        assert_eq!(
            pairs("f", &json!("a"), Commas::Part, |text| text.into()).unwrap(),
            [("a".into(), Value::Null)]
        );
        for given in [json!(":x"), json!(""), json!(7), json!("{\"a\"")] {
            let found = pairs("f", &given, Commas::Part, |text| text.into());
            assert!(found.is_err(), "{given}");
        }
    }
}
