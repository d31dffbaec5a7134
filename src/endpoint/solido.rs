//! Solido's RAG: `/rag/api/prompt`.

use super::guess;
use super::kind::Kind;
use super::voice::{Line, Said, Voice, text_answer, text_event};
use super::{BodySpec, Part};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(super) struct Solido;

impl Kind for Solido {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/rag/api/prompt".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("query".into(), spec.content.texts.as_slice().into());
        let filters = json!({ "family": "Solido", "tool": "SDE" });
        members.insert("filters".into(), filters);
        members.insert("inference_model".into(), spec.model.into());
        if spec.streaming {
            members.insert("stream".into(), true.into());
        }
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        guess::read(value)
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        text_event(line, voice)
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        text_answer(voice, said)
    }
}
