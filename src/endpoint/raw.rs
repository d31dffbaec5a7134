//! A body that is sent as it is: each line of the input file has one. What comes back is guessed,
//! or found by `response_field`.

use super::kind::Kind;
use super::template::Field;
use super::voice::{Line, Said, Voice, text_answer, text_event};
use super::{BodySpec, Part};
use serde_json::{Map, Value};

#[derive(Debug, Default)]
pub(super) struct Raw {
    /// Where the answer's text is.
    pub field: Field,
}

impl Kind for Raw {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        String::new()
    }

    fn members(&self, _spec: &BodySpec<'_>) -> Map<String, Value> {
        Map::new()
    }

    fn encode(&self, _members: Map<String, Value>, spec: &BodySpec<'_>) -> Vec<u8> {
        spec.prompt().as_bytes().to_vec()
    }

    fn read(&self, value: &Value) -> Part<'static> {
        self.field.read(value)
    }

    fn no_content(&self) -> Option<String> {
        self.field.no_match()
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        text_event(line, voice)
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        text_answer(voice, said)
    }
}
