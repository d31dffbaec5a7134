//! Embeddings, `/v1/embeddings`: of texts, of a chat's messages (vLLM, images among them), and of
//! strings that hold an image beside their text (NIM, NV-CLIP).

use super::kind::Kind;
use super::voice::{Line, Said, Voice};
use super::{BodySpec, Part, chat, lists, usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub(super) enum Embeddings {
    Texts,
    Chat,
    Nim,
}

/// What is looked at of a usual answer; its numbers are passed over, which is some ten times as
/// fast as reading them.
#[derive(Deserialize)]
struct Answer<'a> {
    object: Option<Value>,
    error: Option<Value>,
    usage: Option<Value>,
    #[serde(borrow)]
    data: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    embedding: &'a RawValue,
}

impl Entry<'_> {
    fn is_filled(&self) -> bool {
        let text = self.embedding.get();
        let inside = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let inside = inside.or_else(|| text.strip_prefix('"')?.strip_suffix('"'));
        inside.is_some_and(|inside| !inside.trim_ascii().is_empty())
    }
}

impl Kind for Embeddings {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/embeddings".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = Map::new();
        let content = spec.content;
        if let Embeddings::Chat = self {
            members.insert("messages".into(), json!([chat::message(spec)]));
        }
        members.insert("model".into(), spec.model.into());
        match self {
            Embeddings::Texts => members.insert("input".into(), content.texts.clone().into()),
            Embeddings::Nim => {
                let count = content.texts.len().max(content.images.len());
                let input: Vec<String> = (0..count)
                    .map(|at| {
                        let text = content.texts.get(at).map(String::as_str);
                        let image = content.images.get(at).map(String::as_str);
                        let both: Vec<&str> = text.into_iter().chain(image).collect();
                        both.join(" ")
                    })
                    .collect();
                members.insert("input".into(), input.into())
            }
            Embeddings::Chat => None,
        };
        members
    }

    fn skim(&self, data: &[u8]) -> Option<Part<'static>> {
        let answer: Answer = serde_json::from_slice(data).ok()?;
        let is_plain = answer.object.is_none_or(|object| object != "error")
            && answer.error.is_none_or(|error| error.is_null())
            && !answer.data.is_empty()
            && answer.data.iter().all(Entry::is_filled);
        is_plain.then(|| Part {
            has_data: true,
            usage: answer.usage.as_ref().and_then(usage::counts),
            ..Part::default()
        })
    }

    fn read(&self, value: &Value) -> Part<'static> {
        Part {
            usage: usage::read(value),
            ..lists::read(&value["data"], "`data`", |entry| {
                let embedding = &entry["embedding"];
                (embedding.is_array() || embedding.is_string()) && lists::is_filled(embedding)
            })
        }
    }

    fn event(&self, _line: Line<'_>, _voice: &Voice<'_>) -> Option<String> {
        None
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let Voice {
            id, stamp, model, ..
        } = voice;
        let entry = |at: usize| {
            format!(
                "{{\"object\":\"embedding\",\"index\":{at},\
                 \"embedding\":[0.25,-0.5,0.125,0.0,0.75,-0.25,0.5,-0.125]}}"
            )
        };
        let data: Vec<String> = (0..said.inputs).map(entry).collect();
        format!(
            "{{\"id\":\"embd-{id}\",\"object\":\"list\",\"model\":{model},\
             \"system_fingerprint\":\"{stamp}\",\"data\":[{}],\"usage\":{}}}",
            data.join(","),
            said.usage_or_null()
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Api;
    use crate::endpoint::Endpoint;

    #[test]
    fn an_answer_skimmed_is_the_answer_read() {
        let endpoint = Endpoint::from(Api::Embeddings);
        for (body, has_data, is_error) in [
            (
                r#"{"data":[{"embedding":[1e-3,2]}],"usage":{"prompt_tokens":3}}"#,
                true,
                false,
            ),
            (
                r#"{"data":[{"embedding":"AAA="},{"embedding":[0]}]}"#,
                true,
                false,
            ),
            (
                r#"{"data":[{"embedding":[1]},{"embedding":[ ]}]}"#,
                false,
                true,
            ),
            (r#"{"data":[{"embedding":null}]}"#, false, true),
            (r#"{"data":[{"embedding":{"a":1}}]}"#, false, true),
            (r#"{"data":[{}]}"#, false, true),
            (r#"{"data":[]}"#, false, false),
            (r#"{"data":{"embedding":[1]}}"#, false, true),
            (r#"{"choices":[{"message":{"content":"hi"}}]}"#, false, true),
            (
                r#"{"error":{"message":"no"},"data":[{"embedding":[1]}]}"#,
                false,
                true,
            ),
            (r#"{"error":null,"data":[{"embedding":[1]}]}"#, true, false),
            (
                r#"{"object":"error","data":[{"embedding":[1]}]}"#,
                false,
                true,
            ),
            ("[]", false, true),
        ] {
            let part = endpoint.read_body(body.as_bytes()).unwrap();
            assert_eq!(
                (part.has_data, part.error.is_some()),
                (has_data, is_error),
                "{body}"
            );
            assert_eq!(
                endpoint.read_by_value(body.as_bytes()).unwrap(),
                part,
                "{body}"
            );
        }
        assert!(endpoint.read_body(br#"{"data":[{"embedding":[1"#).is_err());
    }
}
