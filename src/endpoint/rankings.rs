//! Rankings of passages by a query: NIM's `/v1/ranking`, Cohere's `/v2/rerank`, and `/rerank` of
//! text-embeddings-inference.

use super::kind::Kind;
use super::voice::{Line, Said, Voice};
use super::{BodySpec, Part, lists, usage};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(super) enum Rankings {
    Nim,
    Cohere,
    Tei,
}

impl Kind for Rankings {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        let path = match self {
            Rankings::Nim => "/v1/ranking",
            Rankings::Cohere => "/v2/rerank",
            Rankings::Tei => "/rerank",
        };
        path.into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let query = spec.content.query.as_deref().unwrap_or_default();
        let passages = &spec.content.texts;
        let mut members = Map::new();
        let mut add = |key: &str, value: Value| members.insert(key.into(), value);
        match self {
            Rankings::Nim => {
                add("model", spec.model.into());
                add("query", json!({ "text": query }));
                let passages = passages.iter().map(|text| json!({ "text": text }));
                add("passages", passages.collect());
            }
            Rankings::Cohere => {
                add("model", spec.model.into());
                add("query", query.into());
                add("documents", passages.clone().into());
            }
            Rankings::Tei => {
                add("query", query.into());
                add("texts", passages.clone().into());
            }
        }
        members
    }

    fn read(&self, value: &Value) -> Part<'static> {
        let is_number = |entry: &Value, key: &str| entry[key].is_number();
        let part = match self {
            Rankings::Nim => lists::read(&value["rankings"], "`rankings`", |entry| {
                is_number(entry, "logit") || is_number(entry, "score")
            }),
            Rankings::Cohere => lists::read(&value["results"], "`results`", |entry| {
                is_number(entry, "relevance_score")
            }),
            Rankings::Tei => {
                lists::read(value, "list of scores", |entry| is_number(entry, "score"))
            }
        };
        Part {
            usage: usage::read(value),
            ..part
        }
    }

    fn event(&self, _line: Line<'_>, _voice: &Voice<'_>) -> Option<String> {
        None
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let score = match self {
            Rankings::Nim => "logit",
            Rankings::Cohere => "relevance_score",
            Rankings::Tei => "score",
        };
        // The first passage is the best, and each has less than the one before.
        let entry = |at: usize| format!("{{\"index\":{at},\"{score}\":{}}}", 1.0 / (at + 1) as f64);
        let entries: Vec<String> = (0..said.inputs).map(entry).collect();
        let entries = entries.join(",");
        let Voice {
            id, stamp, model, ..
        } = voice;
        let list = match self {
            Rankings::Nim => "rankings",
            Rankings::Cohere => "results",
            Rankings::Tei => return format!("[{entries}]"),
        };
        format!(
            "{{\"id\":\"rank-{id}\",\"model\":{model},\"system_fingerprint\":\"{stamp}\",\
             \"{list}\":[{entries}],\"usage\":{}}}",
            said.usage_or_null()
        )
    }
}
