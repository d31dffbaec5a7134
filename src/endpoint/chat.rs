//! OpenAI's chat completions: `/v1/chat/completions`.

use super::kind::Kind;
use super::openai;
use super::voice::{Line, Said, Voice, data};
use super::{BodySpec, Part};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(super) struct Chat;

impl Kind for Chat {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/chat/completions".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        let messages = json!([{ "role": "user", "content": spec.prompt() }]);
        members.insert("messages".into(), messages);
        let key = match spec.legacy_max_tokens {
            true => "max_tokens",
            false => "max_completion_tokens",
        };
        openai::settings(&mut members, spec, key);
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        openai::read(value)
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        let choice = |delta: &str, reason: &str| {
            format!(
                "{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":{reason}}}"
            )
        };
        let (choices, tail) = match line {
            Line::Open => (
                choice("\"role\":\"assistant\",\"content\":\"\"", "null"),
                String::new(),
            ),
            Line::Answer { text, .. } => (
                choice(&format!("\"content\":\"{text}\""), "null"),
                String::new(),
            ),
            Line::Reasoning(text) => (
                choice(&format!("\"reasoning_content\":\"{text}\""), "null"),
                String::new(),
            ),
            Line::Finish(reason) => (choice("", &format!("\"{reason}\"")), String::new()),
            Line::Usage { usage, .. } => (String::new(), format!(",\"usage\":{usage}")),
            Line::Done { .. } => return Some(data("[DONE]")),
        };
        let event = openai::envelope(voice, "chatcmpl", "chat.completion.chunk", &choices, &tail);
        Some(data(&event))
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let reasoning = match said.reasoning {
            "" => String::new(),
            text => format!("\"reasoning_content\":\"{text}\","),
        };
        let (answer, reason) = (said.answer, said.reason);
        let choices = format!(
            "{{\"index\":0,\"message\":{{\"role\":\"assistant\",{reasoning}\
             \"content\":\"{answer}\"}},\"logprobs\":null,\"finish_reason\":\"{reason}\"}}"
        );
        let tail = format!(",\"usage\":{}", said.usage_or_null());
        openai::envelope(voice, "chatcmpl", "chat.completion", &choices, &tail)
    }
}
