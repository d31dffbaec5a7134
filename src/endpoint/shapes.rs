//! The shapes of answers, read from a JSON value: the slow way, and the only one for what is rare.

use super::{ErrorPart, Part};
use crate::config::Api;
use crate::stats::Usage;
use serde_json::Value;
use std::borrow::Cow;

/// The inside of the JSON string of `text`, absent when empty.
fn escaped(text: &str) -> Option<Cow<'static, [u8]>> {
    let quoted = Value::from(text).to_string();
    let inside = &quoted.as_bytes()[1..quoted.len() - 1];
    (!inside.is_empty()).then(|| Cow::Owned(inside.to_vec()))
}

pub(super) fn from_value(api: Api, value: &Value) -> Part<'static> {
    let mut part = Part {
        usage: usage_value(&value["usage"]),
        ..Part::default()
    };
    if !value["error"].is_null() {
        part.error = Some(error(value));
        return part;
    }
    if matches!(api, Api::TritonTensorrtllm | Api::TritonVllm) {
        part.answer = value["text_output"].as_str().and_then(escaped);
        return part;
    }
    let choice = &value["choices"][0];
    part.finished = !choice["finish_reason"].is_null();
    part.answer = choice["text"].as_str().and_then(escaped);
    for delta in [&choice["delta"], &choice["message"]] {
        let text = |key: &str| delta[key].as_str().and_then(escaped);
        if let Some(content) = text("content") {
            part.answer = Some(content);
        }
        part.reasoning = text("reasoning_content")
            .or_else(|| text("reasoning"))
            .or(part.reasoning);
        let calls = delta["tool_calls"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let joined: String = calls.iter().map(tool_call).collect();
        part.tool_call = escaped(&joined).or(part.tool_call);
    }
    part
}

fn tool_call(call: &Value) -> String {
    let field = |key: &str| call["function"][key].as_str().unwrap_or_default();
    format!("{}{}", field("name"), field("arguments"))
}

/// An error object; servers differ in where they put what.
fn error(value: &Value) -> ErrorPart {
    let inner = &value["error"];
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

/// The data of an event named `error`.
pub(super) fn error_event(data: &[u8]) -> ErrorPart {
    match serde_json::from_slice::<Value>(data) {
        Ok(value) if !value["error"].is_null() => error(&value),
        Ok(value) => error(&serde_json::json!({ "error": value })),
        Err(_) => ErrorPart {
            message: String::from_utf8_lossy(data).into_owned(),
            ..ErrorPart::default()
        },
    }
}

/// Usage from its JSON.
pub(super) fn usage(slice: &[u8]) -> Option<Usage> {
    usage_value(&serde_json::from_slice(slice).ok()?)
}

fn usage_value(value: &Value) -> Option<Usage> {
    if !value.is_object() {
        return None;
    }
    let number = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
    let first = |keys: [&str; 2]| keys.iter().find_map(|key| number(&value[*key]));
    let detail =
        |groups: [&str; 2], key: &str| groups.iter().find_map(|group| number(&value[*group][key]));
    let output = ["completion_tokens_details", "output_tokens_details"];
    let usage = Usage {
        prompt: first(["prompt_tokens", "input_tokens"]),
        completion: first(["completion_tokens", "output_tokens"]),
        total: number(&value["total_tokens"]),
        reasoning: detail(output, "reasoning_tokens"),
        cache_read: detail(
            ["prompt_tokens_details", "input_tokens_details"],
            "cached_tokens",
        ),
        accepted_prediction: detail(output, "accepted_prediction_tokens"),
        rejected_prediction: detail(output, "rejected_prediction_tokens"),
    };
    (usage != Usage::default()).then_some(usage)
}
