//! Anthropic's messages: `/v1/messages`. Events have names, and usage comes in two of them.

use super::kind::Kind;
use super::shapes::escaped;
use super::usage;
use super::voice::{Line, Said, Voice, named, usage_counts};
use super::{BodySpec, Part};
use serde_json::{Map, Value, json};

/// The longest answer when none is asked for: the API wants a number.
const MAX_TOKENS: u32 = 1024;

#[derive(Debug)]
pub(super) struct Messages;

impl Kind for Messages {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/messages".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("model".into(), spec.model.into());
        let messages = json!([{ "role": "user", "content": spec.prompt() }]);
        members.insert("messages".into(), messages);
        let most = spec.max_tokens.unwrap_or(MAX_TOKENS);
        members.insert("max_tokens".into(), most.into());
        if spec.streaming {
            members.insert("stream".into(), true.into());
        }
        spec.fix_length(&mut members);
        members
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let key = key.map(|key| ("x-api-key", key.to_string()));
        let version = ("anthropic-version", "2023-06-01".to_string());
        key.into_iter().chain([version]).collect()
    }

    fn read(&self, value: &Value) -> Part<'static> {
        let text = |value: &Value| value.as_str().and_then(escaped);
        let block = |block: &Value| match block["type"].as_str() {
            Some("tool_use") => Part {
                tool_call: tool_use(block),
                ..Part::default()
            },
            _ => Part {
                answer: text(&block["text"]),
                reasoning: text(&block["thinking"]),
                tool_call: text(&block["partial_json"]),
                ..Part::default()
            },
        };
        match value["type"].as_str() {
            Some("message_start") => Part {
                usage: usage::read(&value["message"]),
                ..Part::default()
            },
            Some("content_block_start") => block(&value["content_block"]),
            Some("content_block_delta") => block(&value["delta"]),
            Some("message_delta") => Part {
                finished: !value["delta"]["stop_reason"].is_null(),
                usage: usage::read(value),
                ..Part::default()
            },
            Some("message_stop") => Part {
                done: true,
                ..Part::default()
            },
            Some("message") => {
                let blocks = value["content"].as_array().into_iter().flatten();
                let mut part = Part {
                    finished: !value["stop_reason"].is_null(),
                    usage: usage::read(value),
                    ..Part::default()
                };
                blocks.for_each(|one| part.append(block(one)));
                part
            }
            _ => Part::default(),
        }
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        let Voice { id, stamp, .. } = voice;
        let delta = |kind: &str, key: &str, text: &str| {
            let data = format!(
                "{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"{kind}\",\
                 \"{key}\":\"{text}\"}},\"id\":\"msg_{id}\",\"stamp\":\"{stamp}\"}}"
            );
            named("content_block_delta", &data)
        };
        Some(match line {
            Line::Open => {
                let message = message(
                    voice,
                    "",
                    "null",
                    "{\"input_tokens\":0,\"output_tokens\":0}",
                );
                let start = format!("{{\"type\":\"message_start\",\"message\":{message}}}");
                let block = "{\"type\":\"content_block_start\",\"index\":0,\
                             \"content_block\":{\"type\":\"text\",\"text\":\"\"}}";
                named("message_start", &start) + &named("content_block_start", block)
            }
            Line::Answer { text, .. } => delta("text_delta", "text", text),
            Line::Reasoning(text) => delta("thinking_delta", "thinking", text),
            Line::Finish(_) => named(
                "content_block_stop",
                "{\"type\":\"content_block_stop\",\"index\":0}",
            ),
            Line::Usage { usage, reason } => {
                let (reason, usage) = (stop_reason(reason), anthropic(usage));
                let data = format!(
                    "{{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\",\
                     \"stop_sequence\":null}},\"usage\":{usage}}}"
                );
                named("message_delta", &data)
            }
            Line::Done { .. } => named("message_stop", "{\"type\":\"message_stop\"}"),
        })
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let thinking = match said.reasoning {
            "" => String::new(),
            text => format!("{{\"type\":\"thinking\",\"thinking\":\"{text}\"}},"),
        };
        let content = format!(
            "{thinking}{{\"type\":\"text\",\"text\":\"{}\"}}",
            said.answer
        );
        let reason = format!("\"{}\"", stop_reason(said.reason));
        let usage = said.usage.map_or("null".into(), anthropic);
        message(voice, &content, &reason, &usage)
    }
}

/// A call as a whole; in a stream its input comes later, in pieces.
fn tool_use(block: &Value) -> Option<std::borrow::Cow<'static, [u8]>> {
    let input = match &block["input"] {
        Value::Object(input) if !input.is_empty() => block["input"].to_string(),
        _ => String::new(),
    };
    escaped(&format!(
        "{}{input}",
        block["name"].as_str().unwrap_or_default()
    ))
}

fn message(voice: &Voice<'_>, content: &str, reason: &str, usage: &str) -> String {
    let Voice {
        id, stamp, model, ..
    } = voice;
    format!(
        "{{\"id\":\"msg_{id}\",\"type\":\"message\",\"role\":\"assistant\",\"model\":{model},\
         \"content\":[{content}],\"stop_reason\":{reason},\"stop_sequence\":null,\
         \"usage\":{usage},\"stamp\":\"{stamp}\"}}"
    )
}

fn stop_reason(reason: &str) -> &'static str {
    match reason {
        "length" => "max_tokens",
        _ => "end_turn",
    }
}

/// What was read from the cache is counted apart from the input.
fn anthropic(usage: &str) -> String {
    let [prompt, cached, completion, _] = usage_counts(usage);
    json!({
        "input_tokens": prompt - cached.min(prompt),
        "cache_read_input_tokens": cached,
        "output_tokens": completion,
    })
    .to_string()
}
