//! Recordings turned to text: `/v1/audio/transcriptions`.

use super::kind::Kind;
use super::shapes::escaped;
use super::voice::{Line, Said, Voice};
use super::{BodySpec, Part, lists, multipart, usage};
use serde_json::{Map, Value};

#[derive(Debug)]
pub(super) struct Transcription;

impl Kind for Transcription {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/audio/transcriptions".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        Map::from_iter([("model".to_string(), spec.model.into())])
    }

    fn encode(&self, members: Map<String, Value>, spec: &BodySpec<'_>) -> Vec<u8> {
        let audios = spec.content.audios.iter();
        multipart::form(
            &members,
            audios.filter_map(|audio| multipart::audio("file", audio)),
        )
    }

    fn content_type(&self) -> &'static str {
        multipart::CONTENT_TYPE
    }

    /// A text may be empty: in noise nothing is said.
    fn read(&self, value: &Value) -> Part<'static> {
        let Some(text) = value["text"].as_str() else {
            return lists::wrong(
                "the answer has no `text`: is it of another API than --endpoint-type?",
            );
        };
        Part {
            answer: escaped(text),
            has_data: true,
            usage: usage::read(value),
            ..Part::default()
        }
    }

    fn event(&self, _line: Line<'_>, _voice: &Voice<'_>) -> Option<String> {
        None
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        format!(
            "{{\"text\":\"{}\",\"stamp\":\"{}\",\"usage\":{}}}",
            said.answer,
            voice.stamp,
            said.usage_or_null()
        )
    }
}
