//! What each API's file says of it, and the one way to all of them: [`Endpoint`].

use super::voice::{Line, Voice};
use super::{BodySpec, ErrorPart, Part, scan, shapes, text};
use super::{audio, chat, completions, embeddings, huggingface, images, messages, rankings, raw};
use super::{responses, sglang, solido, template, triton, usage};
use crate::config::{Api, Config};
use crate::workload::Content;
use serde_json::{Map, Value};
use std::fmt::Debug;
use std::sync::Arc;

/// One API. Its file is the only place that knows its members.
pub(super) trait Kind: Debug + Send + Sync {
    /// Where requests go, below the server's base path.
    fn path(&self, streaming: bool, model: &str) -> String;

    /// Members of a body, in the order of the wire; `--extra-inputs` come after them.
    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value>;

    /// The body's bytes: JSON, where the API does not want another form.
    fn encode(&self, members: Map<String, Value>, _spec: &BodySpec<'_>) -> Vec<u8> {
        Value::Object(members).to_string().into_bytes()
    }

    /// Errors: a body cannot be made by what the user has given.
    fn check(&self, _spec: &BodySpec<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Of the body.
    fn content_type(&self) -> &'static str {
        "application/json"
    }

    /// Headers of its own, the key's among them.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let bearer = key.map(|key| ("Authorization", format!("Bearer {key}")));
        bearer.into_iter().collect()
    }

    /// The same as [`Kind::read`] from a whole answer's bytes, where most of them need no reading.
    fn skim(&self, _data: &[u8]) -> Option<Part<'static>> {
        None
    }

    /// What an event or a whole answer says that is no error of the common shapes.
    fn read(&self, value: &Value) -> Part<'static>;

    /// What is said of an answer in which the user's own path has found nothing.
    fn no_content(&self) -> Option<String> {
        None
    }

    /// The mock's event for a line; `None` where the API has none.
    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String>;

    /// The mock's whole answer.
    fn answer(&self, voice: &Voice<'_>, said: &super::voice::Said<'_>) -> String;
}

/// An API as a run uses it: payloads out, parts in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Endpoint {
    api: Api,
    kind: Arc<dyn Kind>,
}

impl From<Api> for Endpoint {
    fn from(api: Api) -> Endpoint {
        let kind: Arc<dyn Kind> = match api {
            Api::Chat => Arc::new(chat::Chat),
            Api::Completions => Arc::new(completions::Completions),
            Api::HuggingfaceGenerate => Arc::new(huggingface::Huggingface),
            Api::Messages => Arc::new(messages::Messages),
            Api::Raw => Arc::new(raw::Raw::default()),
            Api::Responses => Arc::new(responses::Responses),
            Api::SglangGenerate => Arc::new(sglang::Sglang),
            Api::SolidoRag => Arc::new(solido::Solido),
            Api::Template => Arc::new(template::Template::default()),
            Api::TritonTensorrtllm => Arc::new(triton::Triton { vllm: false }),
            Api::TritonVllm => Arc::new(triton::Triton { vllm: true }),
            Api::Embeddings => Arc::new(embeddings::Embeddings::Texts),
            Api::ChatEmbeddings => Arc::new(embeddings::Embeddings::Chat),
            Api::NimEmbeddings => Arc::new(embeddings::Embeddings::Nim),
            Api::NimRankings => Arc::new(rankings::Rankings::Nim),
            Api::CohereRankings => Arc::new(rankings::Rankings::Cohere),
            Api::HfTeiRankings => Arc::new(rankings::Rankings::Tei),
            Api::ImageRetrieval => Arc::new(images::Retrieval),
            Api::ImageGeneration => Arc::new(images::Generation),
            Api::ImageEdit => Arc::new(images::Edit),
            Api::AudioTranscription => Arc::new(audio::Transcription),
        };
        Endpoint { api, kind }
    }
}

impl Endpoint {
    /// The one that a run speaks; [`Endpoint::check`] has found no fault in its templates.
    pub fn of(config: &Config) -> Endpoint {
        Endpoint::try_of(config).unwrap_or_else(|_| config.api.into())
    }

    fn try_of(config: &Config) -> Result<Endpoint, String> {
        let own = &config.by_template;
        let kind: Arc<dyn Kind> = match config.api {
            Api::Raw => Arc::new(raw::Raw {
                field: template::Field::new(own.response_field.as_deref())?,
            }),
            Api::Template => Arc::new(template::Template::new(own)?),
            api => return Ok(api.into()),
        };
        let api = config.api;
        Ok(Endpoint { api, kind })
    }

    /// Tries the run's templates on a prompt of one word. Errors: a template or a path does not
    /// parse, or makes no JSON; names the flag and the line.
    pub fn check(config: &Config) -> Result<(), String> {
        let content = Content::of("word".into());
        Endpoint::try_of(config)?.kind.check(&BodySpec {
            model: config.model.as_deref().unwrap_or("model"),
            content: &content,
            streaming: config.streaming,
            max_tokens: config.osl.map(|_| 1),
            legacy_max_tokens: config.legacy_max_tokens,
            deterministic: config.osl_deterministic,
            needs_usage: false,
            per_chunk_usage: false,
            extra: &config.extra_inputs,
        })
    }

    /// Which one it is.
    pub fn api(&self) -> Api {
        self.api
    }

    /// Where requests go, below the server's base path.
    pub fn path(&self, streaming: bool, model: &str) -> String {
        self.kind.path(streaming, model)
    }

    /// Of the body.
    pub fn content_type(&self) -> &'static str {
        self.kind.content_type()
    }

    /// Headers of its own, the key's among them.
    pub fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        self.kind.headers(key)
    }

    /// The body's bytes. Extra members come last and win; null removes a member of ours, another
    /// goes out as null.
    pub fn body(&self, spec: &BodySpec<'_>) -> Vec<u8> {
        let mut members = self.kind.members(spec);
        for (key, value) in spec.extra {
            let removed = value.is_null() && members.shift_remove(key).is_some();
            if !removed {
                members.insert(key.clone(), value.clone());
            }
        }
        self.kind.encode(members, spec)
    }

    /// What an event of a stream says. `name` is the event's name, empty for a plain one.
    ///
    /// Never fails: an event named `error`, and a plain one that is no JSON, is an error part. One
    /// of white space alone, and one of another name that is no JSON (a keep-alive), says nothing.
    /// Cost: `benches/parser.rs`; [`super::EventReader`] is the faster way through a whole stream.
    pub fn read_event<'a>(&self, name: &[u8], data: &'a [u8]) -> Part<'a> {
        let bare = data.trim_ascii();
        if bare == b"[DONE]" {
            return Part {
                done: true,
                ..Part::default()
            };
        }
        if name == b"error" {
            return error_event(data);
        }
        if bare.is_empty() {
            return Part::default();
        }
        match self.read(data) {
            Ok(part) => part,
            Err(_) if !name.is_empty() && name != b"message" => Part::default(),
            Err(reason) => Part {
                error: Some(Box::new(ErrorPart {
                    code: None,
                    name: Some("invalid_event".into()),
                    message: format!("an event is no JSON: {reason}"),
                })),
                ..Part::default()
            },
        }
    }

    /// What a whole answer says. Errors: it is no JSON.
    pub fn read_body<'a>(&self, body: &'a [u8]) -> Result<Part<'a>, String> {
        if let Some(part) = self.kind.skim(body) {
            return Ok(part);
        }
        let read = self.read(body);
        read.map_err(|reason| format!("the answer is no JSON: {reason}"))
    }

    /// [`Endpoint::read_body`] by `serde_json` alone: what tests hold the scan against.
    #[doc(hidden)]
    pub fn read_by_value(&self, data: &[u8]) -> Result<Part<'static>, String> {
        by_value(data, |value| self.part(value)).map_err(|reason| reason.to_string())
    }

    fn read<'a>(&self, data: &'a [u8]) -> Result<Part<'a>, serde_json::Error> {
        match scan::scan(self.api, data) {
            Some(part) => Ok(part),
            None => by_value(data, |value| self.part(value)),
        }
    }

    /// Which other API an answer without content is one of: its whole, or an event of it.
    pub fn other(&self, data: &[u8]) -> Option<Api> {
        let value: Value = serde_json::from_slice(data).ok()?;
        let guesses = matches!(self.api, Api::Raw | Api::SolidoRag | Api::Template);
        let marked = match &value["object"] {
            Value::String(object) if object == "text_completion" => Api::Completions,
            _ if !value["meta_info"].is_null() => Api::SglangGenerate,
            _ => Api::Chat,
        };
        let mut others = [
            marked,
            Api::Responses,
            Api::Messages,
            Api::TritonVllm,
            Api::HuggingfaceGenerate,
        ]
        .into_iter()
        .filter(|&api| api != self.api && !guesses);
        others.find(|&api| Endpoint::from(api).part(&value).has_content())
    }

    /// Name and words of the failure of an answer that bears no content: nothing at the place that
    /// the user has given, another API's answer, or just nothing.
    pub fn without_content(&self, data: &[u8], nothing: &str) -> (&'static str, String) {
        if let Some(text) = self.kind.no_content() {
            return ("no_match", text);
        }
        let mut lines = data.split(|&byte| byte == b'\n');
        match self
            .other(data)
            .or_else(|| lines.find_map(|line| self.other(line)))
        {
            Some(api) => {
                let (own, other) = (self.api.name(), api.name());
                let text = format!("no answer of {own}, but one of --endpoint-type {other}");
                ("wrong_endpoint", text)
            }
            None => ("no_content", nothing.into()),
        }
    }

    pub(super) fn part(&self, value: &Value) -> Part<'static> {
        match shapes::is_error(value) {
            true => Part {
                usage: usage::read(value),
                error: Some(Box::new(shapes::error(value))),
                ..Part::default()
            },
            false => self.kind.read(value),
        }
    }

    /// The mock's event for a line; `None` where the API has none.
    pub fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        self.kind.event(line, voice)
    }

    /// The mock's whole answer.
    pub fn answer(&self, voice: &Voice<'_>, said: &super::voice::Said<'_>) -> String {
        self.kind.answer(voice, said)
    }
}

/// An event named `error`: what it says, or its bytes.
fn error_event(data: &[u8]) -> Part<'static> {
    let part = |error: ErrorPart| Part {
        error: Some(Box::new(error)),
        ..Part::default()
    };
    by_value(data, |value| part(shapes::error(value))).unwrap_or_else(|_| {
        part(ErrorPart {
            message: String::from_utf8_lossy(data).into_owned(),
            ..ErrorPart::default()
        })
    })
}

/// Reads JSON; `serde_json` refuses half a surrogate pair, which says something all the same.
fn by_value(
    data: &[u8],
    part_of: impl FnOnce(&Value) -> Part<'static>,
) -> Result<Part<'static>, serde_json::Error> {
    let refusal = match serde_json::from_slice(data) {
        Ok(value) => return Ok(part_of(&value)),
        Err(refusal) => refusal,
    };
    let (mended, is_marked) = text::mark(data).ok_or(refusal)?;
    let mut part = part_of(&serde_json::from_slice(&mended)?);
    if is_marked {
        text::unmark(&mut part);
    }
    Ok(part)
}
