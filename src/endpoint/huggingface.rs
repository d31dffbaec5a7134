//! Text Generation Inference: `/generate` and `/generate_stream`.

use super::kind::Kind;
use super::shapes::{self, escaped};
use super::usage;
use super::voice::{Line, Said, Voice, data, usage_counts};
use super::{BodySpec, Part};
use crate::stats::Usage;
use serde_json::{Map, Value};

#[derive(Debug)]
pub(super) struct Huggingface;

impl Kind for Huggingface {
    fn path(&self, streaming: bool, _model: &str) -> String {
        match streaming {
            true => "/generate_stream".into(),
            false => "/generate".into(),
        }
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("inputs".into(), spec.prompt().into());
        let mut parameters = Map::new();
        if let Some(count) = spec.max_tokens {
            parameters.insert("max_new_tokens".into(), count.into());
        }
        members.insert("parameters".into(), parameters.into());
        if spec.streaming {
            // Only the server's root path reads it, which GenAI-Perf uses.
            members.insert("stream".into(), true.into());
        }
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        // The root path answers with a list of one.
        let value = value.get(0).unwrap_or(value);
        let token = &value["token"];
        let text = match token.is_object() {
            true if token["special"] == true => None,
            true => token["text"].as_str(),
            false => value["generated_text"].as_str(),
        };
        let details = &value["details"];
        Part {
            answer: text.and_then(escaped),
            finished: !details["finish_reason"].is_null(),
            usage: usage::read(value).or_else(|| counted(details)),
            ..Part::default()
        }
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        let Voice { id, stamp, .. } = voice;
        let event = |text: &str, special: bool, tail: &str| {
            data(&format!(
                "{{\"id\":\"{id}\",\"stamp\":\"{stamp}\",\"token\":{{\"id\":1,\
                 \"text\":\"{text}\",\"logprob\":0.0,\"special\":{special}}},{tail}}}"
            ))
        };
        match line {
            Line::Answer { text, .. } | Line::Reasoning(text) => Some(event(
                text,
                false,
                "\"generated_text\":null,\"details\":null",
            )),
            Line::Usage { usage, reason } => {
                let tail = format!(
                    "\"generated_text\":\"\",\"details\":{}",
                    details(usage, reason)
                );
                Some(event("</s>", true, &tail))
            }
            Line::Open | Line::Finish(_) | Line::Done { .. } => None,
        }
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let details = said
            .usage
            .map_or("null".into(), |usage| details(usage, said.reason));
        format!(
            "{{\"generated_text\":\"{}{}\",\"details\":{details},\"stamp\":\"{}\"}}",
            said.reasoning, said.answer, voice.stamp
        )
    }
}

/// The server counts what it has generated, and lists the prompt's tokens when asked to.
fn counted(details: &Value) -> Option<Usage> {
    let prefill = details["prefill"]
        .as_array()
        .filter(|list| !list.is_empty());
    let usage = Usage {
        completion: shapes::count(&details["generated_tokens"]),
        prompt: prefill.and_then(|list| u32::try_from(list.len()).ok()),
        ..Usage::default()
    };
    (usage != Usage::default()).then_some(usage)
}

fn details(usage: &str, reason: &str) -> String {
    let [_, _, completion, _] = usage_counts(usage);
    let reason = match reason {
        "length" => "length",
        _ => "eos_token",
    };
    format!(
        "{{\"finish_reason\":\"{reason}\",\"generated_tokens\":{completion},\"seed\":null,\
         \"prefill\":[]}}"
    )
}
