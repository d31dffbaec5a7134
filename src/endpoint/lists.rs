//! What answers that are no text have in common: a list in which each entry bears something.

use super::{ErrorPart, Part};
use serde_json::Value;

/// True for what is neither null nor empty.
pub(super) fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(values) => !values.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// The part of an answer whose list is `list`, called `name`; `bears` says whether an entry has
/// what was asked for. An empty list has no content, and what is no such list is an error: the
/// answer is of another API, or cut.
pub(super) fn read(list: &Value, name: &str, bears: impl Fn(&Value) -> bool) -> Part<'static> {
    let Some(list) = list.as_array() else {
        return wrong(&format!(
            "the answer has no {name}: is it of another API than --endpoint-type?"
        ));
    };
    match list.iter().position(|entry| !bears(entry)) {
        Some(at) => wrong(&format!("entry {at} of the answer's {name} is empty")),
        None => Part {
            has_data: !list.is_empty(),
            ..Part::default()
        },
    }
}

/// An answer that is not what its API says.
pub(super) fn wrong(message: &str) -> Part<'static> {
    let error = ErrorPart {
        code: None,
        name: Some("wrong_answer".into()),
        message: message.into(),
    };
    Part {
        error: Some(Box::new(error)),
        ..Part::default()
    }
}
