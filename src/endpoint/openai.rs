//! What chat and completions have in common: settings, choices, the envelope of an answer.

use super::shapes::{self, escaped};
use super::voice::Voice;
use super::{BodySpec, Part, usage};
use serde_json::{Map, Value, json};

/// Model, stream, the longest answer under `length_key`, usage, a fixed length.
pub(super) fn settings(members: &mut Map<String, Value>, spec: &BodySpec<'_>, length_key: &str) {
    members.insert("model".into(), spec.model.into());
    members.insert("stream".into(), spec.streaming.into());
    if let Some(count) = spec.max_tokens {
        members.insert(length_key.into(), count.into());
    }
    if spec.streaming {
        let mut options = json!({ "include_usage": true });
        if spec.per_chunk_usage {
            options["continuous_usage_stats"] = true.into();
        }
        members.insert("stream_options".into(), options);
    }
    spec.fix_length(members);
}

/// What an event or a whole answer says.
pub(super) fn read(value: &Value) -> Part<'static> {
    let mut part = Part {
        usage: usage::read(value),
        ..Part::default()
    };
    for choice in value["choices"].as_array().into_iter().flatten() {
        take_choice(&mut part, choice);
    }
    part
}

/// Joins what a choice says to what those before it in the same event have said.
fn take_choice(part: &mut Part<'static>, choice: &Value) {
    part.finished |= !choice["finish_reason"].is_null();
    let mut answer = choice["text"].as_str().and_then(escaped);
    let (mut reasoning, mut tool_call) = (None, None);
    for delta in [&choice["delta"], &choice["message"]] {
        let text = |key: &str| delta[key].as_str().and_then(escaped);
        answer = text("content").or(answer);
        reasoning = text("reasoning_content")
            .or_else(|| text("reasoning"))
            .or(reasoning);
        let calls = delta["tool_calls"].as_array().into_iter().flatten();
        let joined: String = calls.map(|call| shapes::call(&call["function"])).collect();
        tool_call = escaped(&joined).or(tool_call);
    }
    part.append(Part {
        answer,
        reasoning,
        tool_call,
        ..Part::default()
    });
}

/// What the mock's answers are in.
pub(super) fn envelope(
    voice: &Voice<'_>,
    prefix: &str,
    object: &str,
    choices: &str,
    tail: &str,
) -> String {
    let Voice {
        id,
        stamp,
        model,
        created,
    } = voice;
    format!(
        "{{\"id\":\"{prefix}-{id}\",\"object\":\"{object}\",\"created\":{created},\
         \"model\":{model},\"system_fingerprint\":\"{stamp}\",\"choices\":[{choices}]{tail}}}"
    )
}
