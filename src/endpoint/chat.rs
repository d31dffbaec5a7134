//! OpenAI's chat completions: `/v1/chat/completions`.

use super::kind::Kind;
use super::openai;
use super::voice::{Line, Said, Voice, data};
use super::{BodySpec, Part};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(super) struct Chat;

/// What a user says: one text alone is a string, all else a list of parts.
pub(super) fn message(spec: &BodySpec<'_>) -> Value {
    let content = spec.content;
    let has_media = [&content.images, &content.videos]
        .iter()
        .any(|all| !all.is_empty())
        || !content.audios.is_empty();
    if content.texts.len() <= 1 && !has_media {
        return json!({ "role": "user", "content": spec.prompt() });
    }
    let texts = content.texts.iter();
    let mut parts: Vec<Value> = texts
        .map(|text| json!({ "type": "text", "text": text }))
        .collect();
    let at = |kind: &str, url: &String| json!({ "type": kind, kind: { "url": url } });
    parts.extend(content.images.iter().map(|url| at("image_url", url)));
    parts.extend(content.audios.iter().map(|audio| {
        let data = json!({ "data": audio.data, "format": audio.format });
        json!({ "type": "input_audio", "input_audio": data })
    }));
    parts.extend(content.videos.iter().map(|url| at("video_url", url)));
    json!({ "role": "user", "content": parts })
}

impl Kind for Chat {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/chat/completions".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("messages".into(), json!([message(spec)]));
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
