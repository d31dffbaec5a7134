//! Triton's generate extension. The TensorRT-LLM backend takes flat inputs; the vLLM backend takes
//! sampling parameters under `parameters`.

use super::kind::Kind;
use super::shapes::escaped;
use super::usage;
use super::voice::{Line, Said, Voice, data};
use super::{BodySpec, Part};
use serde_json::{Map, Value};

#[derive(Debug)]
pub(super) struct Triton {
    /// Inputs of the vLLM backend.
    pub vllm: bool,
}

impl Kind for Triton {
    fn path(&self, streaming: bool, model: &str) -> String {
        let model = segment(model);
        match streaming {
            true => format!("/v2/models/{model}/generate_stream"),
            false => format!("/v2/models/{model}/generate"),
        }
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("text_input".into(), spec.prompt().into());
        let mut parameters = Map::new();
        if let Some(count) = spec.max_tokens {
            parameters.insert("max_tokens".into(), count.into());
        }
        if self.vllm {
            members.insert("stream".into(), spec.streaming.into());
            members.insert("exclude_input_in_output".into(), true.into());
            if spec.deterministic {
                parameters.insert("ignore_eos".into(), true.into());
                if let Some(count) = spec.max_tokens {
                    parameters.insert("min_tokens".into(), count.into());
                }
            }
            members.insert("parameters".into(), parameters.into());
            return members;
        }
        members.append(&mut parameters);
        members.insert("stream".into(), spec.streaming.into());
        if spec.deterministic
            && let Some(count) = spec.max_tokens
        {
            members.insert("min_length".into(), count.into());
        }
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        Part {
            answer: value["text_output"].as_str().and_then(escaped),
            usage: usage::read(value),
            ..Part::default()
        }
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        match line {
            Line::Answer { text, .. } | Line::Reasoning(text) => Some(data(&output(voice, text))),
            _ => None,
        }
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        output(voice, &format!("{}{}", said.reasoning, said.answer))
    }
}

fn output(voice: &Voice<'_>, text: &str) -> String {
    let Voice {
        id, stamp, model, ..
    } = voice;
    format!(
        "{{\"id\":\"cmpl-{id}\",\"model_name\":{model},\"model_version\":\"1\",\
         \"stamp\":\"{stamp}\",\"text_output\":\"{text}\"}}"
    )
}

/// A model's name as one segment of a path: Triton takes a slash in it as `%2F` only.
fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let each = name.bytes().map(|byte| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    each.collect()
}
