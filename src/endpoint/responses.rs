//! OpenAI's responses: `/v1/responses`. Events have names; the last one has all of the answer.

use super::kind::Kind;
use super::shapes::{self, escaped};
use super::usage;
use super::voice::{Line, Said, Voice, named, usage_counts};
use super::{BodySpec, Part};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(super) struct Responses;

impl Kind for Responses {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/responses".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        let text = json!({ "type": "input_text", "text": spec.prompt() });
        let input = json!([{ "role": "user", "content": [text] }]);
        members.insert("input".into(), input);
        members.insert("model".into(), spec.model.into());
        members.insert("stream".into(), spec.streaming.into());
        if let Some(count) = spec.max_tokens {
            members.insert("max_output_tokens".into(), count.into());
        }
        // Usage comes with the last event unasked; some servers want to be asked as in a chat.
        if spec.streaming && spec.needs_usage {
            members.insert("stream_options".into(), json!({ "include_usage": true }));
        }
        spec.fix_length(&mut members);
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        let delta = || value["delta"].as_str().and_then(escaped);
        match value["type"].as_str() {
            None => whole(value),
            Some("response.output_text.delta" | "response.refusal.delta") => Part {
                answer: delta(),
                ..Part::default()
            },
            Some("response.reasoning_text.delta" | "response.reasoning_summary_text.delta") => {
                Part {
                    reasoning: delta(),
                    ..Part::default()
                }
            }
            Some("response.function_call_arguments.delta") => Part {
                tool_call: delta(),
                ..Part::default()
            },
            Some("response.output_item.added") => Part {
                tool_call: value["item"]["name"].as_str().and_then(escaped),
                ..Part::default()
            },
            // Says again what the pieces have said, or says it first where there were none.
            Some("response.output_text.done") => Part {
                answer: value["text"].as_str().and_then(escaped),
                is_whole_text: true,
                ..Part::default()
            },
            Some("response.completed" | "response.incomplete") => Part {
                done: true,
                finished: true,
                usage: usage::read(&value["response"]),
                ..Part::default()
            },
            Some("response.failed") => failed(&value["response"]),
            Some("error") => failed(value),
            Some(_) => Part::default(),
        }
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        let Voice { id, stamp, .. } = voice;
        let delta = |name: &str, text: &str| {
            let data = format!(
                "{{\"type\":\"{name}\",\"item_id\":\"msg_{id}\",\"output_index\":0,\
                 \"content_index\":0,\"delta\":\"{text}\",\"stamp\":\"{stamp}\"}}"
            );
            named(name, &data)
        };
        match line {
            Line::Open => {
                let response = response(voice, "", "in_progress", "null");
                let created = format!("{{\"type\":\"response.created\",\"response\":{response}}}");
                let item = format!(
                    "{{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{}}}",
                    item(id, "", "in_progress")
                );
                let part = format!(
                    "{{\"type\":\"response.content_part.added\",\"item_id\":\"msg_{id}\",\
                     \"output_index\":0,\"content_index\":0,\"part\":{}}}",
                    text_part("")
                );
                Some(
                    named("response.created", &created)
                        + &named("response.output_item.added", &item)
                        + &named("response.content_part.added", &part),
                )
            }
            Line::Answer { text, .. } => Some(delta("response.output_text.delta", text)),
            Line::Reasoning(text) => Some(delta("response.reasoning_text.delta", text)),
            // Both are in the last event of all.
            Line::Finish(_) | Line::Usage { .. } => None,
            Line::Done { usage, reason } => {
                let (name, status) = match reason {
                    "length" => ("response.incomplete", "incomplete"),
                    _ => ("response.completed", "completed"),
                };
                let usage = usage.map_or("null".into(), counts);
                let response = response(voice, "", status, &usage);
                let data = format!("{{\"type\":\"{name}\",\"response\":{response}}}");
                Some(named(name, &data))
            }
        }
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let reasoning = match said.reasoning {
            "" => String::new(),
            text => format!(
                "{{\"type\":\"reasoning\",\"id\":\"rs_{}\",\"summary\":[],\"content\":\
                 [{{\"type\":\"reasoning_text\",\"text\":\"{text}\"}}]}},",
                voice.id
            ),
        };
        let status = match said.reason {
            "length" => "incomplete",
            _ => "completed",
        };
        let message = item(voice.id, &text_part(said.answer), "completed");
        let usage = said.usage.map_or("null".into(), counts);
        response(voice, &format!("{reasoning}{message}"), status, &usage)
    }
}

/// A whole response: its output's items, joined.
fn whole(value: &Value) -> Part<'static> {
    let texts = |list: &Value| -> String {
        let parts = list.as_array().into_iter().flatten();
        parts.filter_map(|part| part["text"].as_str()).collect()
    };
    let mut part = Part {
        finished: value["status"].is_string(),
        usage: usage::read(value),
        ..Part::default()
    };
    for item in value["output"].as_array().into_iter().flatten() {
        part.append(match item["type"].as_str() {
            Some("reasoning") => Part {
                reasoning: escaped(&(texts(&item["summary"]) + &texts(&item["content"]))),
                ..Part::default()
            },
            Some("function_call") => Part {
                tool_call: escaped(&shapes::call(item)),
                ..Part::default()
            },
            _ => Part {
                answer: escaped(&texts(&item["content"])),
                ..Part::default()
            },
        });
    }
    part
}

fn failed(value: &Value) -> Part<'static> {
    Part {
        error: Some(Box::new(shapes::error(value))),
        usage: usage::read(value),
        ..Part::default()
    }
}

fn text_part(text: &str) -> String {
    format!("{{\"type\":\"output_text\",\"text\":\"{text}\",\"annotations\":[]}}")
}

fn item(id: &str, content: &str, status: &str) -> String {
    format!(
        "{{\"type\":\"message\",\"id\":\"msg_{id}\",\"role\":\"assistant\",\
         \"status\":\"{status}\",\"content\":[{content}]}}"
    )
}

fn response(voice: &Voice<'_>, output: &str, status: &str, usage: &str) -> String {
    let Voice {
        id,
        stamp,
        model,
        created,
    } = voice;
    let details = match status {
        "incomplete" => "{\"reason\":\"max_output_tokens\"}",
        _ => "null",
    };
    format!(
        "{{\"id\":\"resp_{id}\",\"object\":\"response\",\"created_at\":{created},\
         \"status\":\"{status}\",\"error\":null,\"incomplete_details\":{details},\
         \"model\":{model},\"output\":[{output}],\"parallel_tool_calls\":true,\"tools\":[],\
         \"tool_choice\":\"auto\",\"usage\":{usage},\"stamp\":\"{stamp}\"}}"
    )
}

/// OpenAI has other names here.
fn counts(usage: &str) -> String {
    let [prompt, cached, completion, reasoning] = usage_counts(usage);
    json!({
        "input_tokens": prompt,
        "input_tokens_details": { "cached_tokens": cached },
        "output_tokens": completion,
        "output_tokens_details": { "reasoning_tokens": reasoning },
        "total_tokens": prompt + completion,
    })
    .to_string()
}
