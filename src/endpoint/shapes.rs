//! What answers of all APIs have in common, read from a JSON value: errors, counts, texts.

use super::ErrorPart;
use serde_json::Value;
use std::borrow::Cow;

/// The inside of the JSON string of `text`, absent when empty.
pub(super) fn escaped(text: &str) -> Option<Cow<'static, [u8]>> {
    let quoted = Value::from(text).to_string();
    let inside = &quoted.as_bytes()[1..quoted.len() - 1];
    (!inside.is_empty()).then(|| Cow::Owned(inside.to_vec()))
}

/// True for what is an error, whichever API says it.
pub(super) fn is_error(value: &Value) -> bool {
    value["object"] == "error" || says_something(&value["error"])
}

/// Servers send an `error` beside content that says there is none: null, false, 0, or empty.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(set) => *set,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => values.iter().any(says_something),
        Value::Object(members) => members.values().any(says_something),
    }
}

/// An error object; servers differ in where they put what. Without a member `error`, the whole
/// value is it.
pub(super) fn error(value: &Value) -> ErrorPart {
    let inner = match says_something(&value["error"]) {
        true => &value["error"],
        false => value,
    };
    let text = |value: &Value| value.as_str().map(String::from);
    let code = [&inner["code"], &inner["status"], &value["code"]]
        .iter()
        .find_map(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()))
        .and_then(|code| u16::try_from(code).ok());
    let message = text(inner)
        .or_else(|| text(&inner["message"]))
        .or_else(|| text(&value["message"]))
        .unwrap_or_else(|| inner.to_string());
    ErrorPart {
        code,
        name: text(&inner["type"]).or_else(|| text(&value["error_type"])),
        message,
    }
}

/// A count of tokens; some servers write it as a float. What no request can have (4 billion tokens
/// and more, less than none, a fraction) is ignored: a bound in its place would enter sums.
pub(super) fn count(value: &Value) -> Option<u32> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and in range"
    )]
    let by_float = |float: f64| {
        let fits = float.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&float);
        fits.then_some(float as u32)
    };
    match value.as_u64() {
        Some(whole) => u32::try_from(whole).ok(),
        None => value.as_f64().and_then(by_float),
    }
}

/// Name and arguments of a function that is called, joined.
pub(super) fn call(function: &Value) -> String {
    let field = |key: &str| function[key].as_str().unwrap_or_default();
    format!("{}{}", field("name"), field("arguments"))
}
