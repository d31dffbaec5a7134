//! Images made (`/v1/images/generations`), changed (`/v1/images/edits`) and looked at
//! (`/v1/infer`).

use super::kind::Kind;
use super::voice::{Line, Said, Voice};
use super::{BodySpec, Part, lists, multipart, usage};
use serde_json::{Map, Value, json};

/// A PNG of one pixel, in base64: what the mock draws.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk\
    +M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// What an answer that is images says.
fn read_images(value: &Value) -> Part<'static> {
    Part {
        usage: usage::read(value),
        ..lists::read(&value["data"], "`data`", bears_image)
    }
}

fn bears_image(value: &Value) -> bool {
    let texts = [&value["b64_json"], &value["url"]];
    texts
        .into_iter()
        .any(|text| text.is_string() && lists::is_filled(text))
}

/// The mock's images.
fn answer_images(voice: &Voice<'_>, said: &Said<'_>) -> String {
    format!(
        "{{\"created\":{},\"system_fingerprint\":\"{}\",\"data\":[{{\"b64_json\":\"{PIXEL}\"}}],\
         \"usage\":{}}}",
        voice.created,
        voice.stamp,
        said.usage_or_null()
    )
}

/// What asks for one image, in base64.
fn wish(spec: &BodySpec<'_>) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("prompt".into(), spec.prompt().into());
    members.insert("model".into(), spec.model.into());
    members.insert("response_format".into(), "b64_json".into());
    members.insert("n".into(), 1.into());
    members
}

#[derive(Debug)]
pub(super) struct Generation;

impl Kind for Generation {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/images/generations".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let mut members = wish(spec);
        if spec.streaming {
            members.insert("stream".into(), true.into());
        }
        members
    }

    /// A whole answer has a list; an event is one image, partial or the last.
    fn read(&self, value: &Value) -> Part<'static> {
        let Some(name) = value["type"].as_str().filter(|_| value["data"].is_null()) else {
            return read_images(value);
        };
        Part {
            has_data: bears_image(value),
            finished: name.ends_with(".completed"),
            usage: usage::read(value),
            ..Part::default()
        }
    }

    fn event(&self, line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
        let name = match line {
            Line::Answer { .. } => "image_generation.partial_image",
            Line::Finish(_) => "image_generation.completed",
            _ => return None,
        };
        Some(format!(
            "event: {name}\ndata: {{\"type\":\"{name}\",\"id\":\"{}\",\"stamp\":\"{}\",\
             \"b64_json\":\"{PIXEL}\"}}\n\n",
            voice.id, voice.stamp
        ))
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        answer_images(voice, said)
    }
}

/// A form of prompt, model and images.
#[derive(Debug)]
pub(super) struct Edit;

impl Kind for Edit {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/images/edits".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        wish(spec)
    }

    fn encode(&self, members: Map<String, Value>, spec: &BodySpec<'_>) -> Vec<u8> {
        let images = &spec.content.images;
        let name = if images.len() > 1 { "image[]" } else { "image" };
        multipart::form(
            &members,
            images.iter().filter_map(|url| multipart::image(name, url)),
        )
    }

    fn content_type(&self) -> &'static str {
        multipart::CONTENT_TYPE
    }

    fn read(&self, value: &Value) -> Part<'static> {
        read_images(value)
    }

    fn event(&self, _line: Line<'_>, _voice: &Voice<'_>) -> Option<String> {
        None
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        answer_images(voice, said)
    }
}

#[derive(Debug)]
pub(super) struct Retrieval;

impl Kind for Retrieval {
    fn path(&self, _streaming: bool, _model: &str) -> String {
        "/v1/infer".into()
    }

    fn members(&self, spec: &BodySpec<'_>) -> Map<String, Value> {
        let images = spec.content.images.iter();
        let input: Value = images
            .map(|url| json!({ "type": "image_url", "url": url }))
            .collect();
        Map::from_iter([("input".to_string(), input)])
    }

    fn read(&self, value: &Value) -> Part<'static> {
        Part {
            usage: usage::read(value),
            ..lists::read(&value["data"], "`data`", lists::is_filled)
        }
    }

    fn event(&self, _line: Line<'_>, _voice: &Voice<'_>) -> Option<String> {
        None
    }

    fn answer(&self, voice: &Voice<'_>, said: &Said<'_>) -> String {
        let entry = |at: usize| {
            format!(
                "{{\"index\":{at},\"bounding_boxes\":{{\"table\":[{{\"x_min\":0.1,\"y_min\":0.2,\
                 \"x_max\":0.8,\"y_max\":0.9,\"confidence\":0.97}}]}}}}"
            )
        };
        let data: Vec<String> = (0..said.inputs).map(entry).collect();
        format!(
            "{{\"id\":\"infer-{}\",\"system_fingerprint\":\"{}\",\"data\":[{}]}}",
            voice.id,
            voice.stamp,
            data.join(",")
        )
    }
}
