//! An answer of an API that nobody names: whichever usual shape it has.

use super::shapes::escaped;
use super::{Part, openai, usage};
use serde_json::Value;

/// Where servers put a text that stands alone.
const TEXTS: [&str; 9] = [
    "text",
    "content",
    "response",
    "answer",
    "output",
    "generated_text",
    "text_output",
    "result",
    "completion",
];

/// Vectors first, then scores, then text, OpenAI's shapes before others.
pub(super) fn read(value: &Value) -> Part<'static> {
    let first = |key: &str, member: &str| !value[key][0][member].is_null();
    let has_vectors = first("data", "embedding") || value["embeddings"].is_array();
    let has_scores = value["rankings"].is_array() || first("results", "relevance_score");
    if has_vectors || has_scores {
        return Part {
            has_data: true,
            usage: usage::read(value),
            ..Part::default()
        };
    }
    let mut part = openai::read(value);
    if !part.has_content() {
        let found = TEXTS.iter().find_map(|key| text(&value[*key]));
        part.answer = found.as_deref().and_then(escaped);
    }
    part
}

/// A text, or several in a list.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) if !list.is_empty() => list.iter().map(text).collect(),
        _ => None,
    }
}
