//! OpenAI's completions: `/v1/completions`.

use super::kind::Kind;
use super::openai;
use super::voice::{Line, Said, Voice, data};
use super::{BodySpec, Part};
use serde_json::{Map, Value};

#[derive(Debug)]
pub(super) struct Completions;

impl Kind for Completions {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/completions".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("prompt".into(), spec.one_or_all());
        openai::settings(&mut members, spec, "max_tokens");
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        openai::read(value)
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        let choice = |text: &str, reason: &str| {
            format!(
                "{{\"index\":0,\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":{reason}}}"
            )
        };
        let (choices, tail) = match line {
            Line::Open => return None,
            Line::Answer { text, .. } | Line::Reasoning(text) => {
                (choice(text, "null"), String::new())
            }
            Line::Finish(reason) => (choice("", &format!("\"{reason}\"")), String::new()),
            Line::Usage { usage, .. } => (String::new(), format!(",\"usage\":{usage}")),
            Line::Done { .. } => return Some(data("[DONE]")),
        };
        let event = openai::envelope(voice, "cmpl", "text_completion", &choices, &tail);
        Some(data(&event))
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let (reasoning, answer, reason) = (said.reasoning, said.answer, said.reason);
        let choices = format!(
            "{{\"index\":0,\"text\":\"{reasoning}{answer}\",\"logprobs\":null,\
             \"finish_reason\":\"{reason}\"}}"
        );
        let tail = format!(",\"usage\":{}", said.usage_or_null());
        openai::envelope(voice, "cmpl", "text_completion", &choices, &tail)
    }
}
