//! Payloads: the bytes of a request's body, and where it goes.

use crate::config::Api;
use serde_json::{Map, Value, json};

/// What a body is made of.
#[derive(Clone, Copy, Debug)]
pub struct BodySpec<'a> {
    /// Model name.
    pub model: &'a str,
    /// Prompt text.
    pub prompt: &'a str,
    /// Ask for a stream.
    pub streaming: bool,
    /// Longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// Chat: `max_tokens` instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Fix the length of the answer.
    pub deterministic: bool,
    /// Members that come last and win; null removes a member of ours, another goes out as null.
    pub extra: &'a Map<String, Value>,
}

/// The body's bytes, members in AIPerf's order.
pub fn body(api: Api, spec: &BodySpec<'_>) -> Vec<u8> {
    let mut members = match api {
        Api::Chat | Api::Completions => openai(api, spec),
        Api::TritonTensorrtllm | Api::TritonVllm => triton(api, spec),
    };
    for (key, value) in spec.extra {
        let removed = value.is_null() && members.shift_remove(key).is_some();
        if !removed {
            members.insert(key.clone(), value.clone());
        }
    }
    Value::Object(members).to_string().into_bytes()
}

/// A chat's body in three: up to its one message, the message, and what follows. `None` where the
/// extra members have taken the messages away.
pub fn chat_parts(spec: &BodySpec<'_>) -> Option<[Vec<u8>; 3]> {
    let body = body(Api::Chat, spec);
    let message = json!({ "role": "user", "content": spec.prompt }).to_string();
    let head = br#"{"messages":["#;
    let rest = body.strip_prefix(head)?.strip_prefix(message.as_bytes())?;
    Some([head.to_vec(), message.into_bytes(), rest.to_vec()])
}

fn openai(api: Api, spec: &BodySpec<'_>) -> Map<String, Value> {
    let mut members = Map::new();
    let chat = api == Api::Chat;
    if chat {
        let messages = json!([{ "role": "user", "content": spec.prompt }]);
        members.insert("messages".into(), messages);
    } else {
        members.insert("prompt".into(), spec.prompt.into());
    }
    members.insert("model".into(), spec.model.into());
    members.insert("stream".into(), spec.streaming.into());
    if let Some(count) = spec.max_tokens {
        let legacy = !chat || spec.legacy_max_tokens;
        let key = if legacy {
            "max_tokens"
        } else {
            "max_completion_tokens"
        };
        members.insert(key.into(), count.into());
    }
    if spec.streaming {
        members.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    if spec.deterministic {
        members.insert("ignore_eos".into(), true.into());
        if let Some(count) = spec.max_tokens {
            members.insert("min_tokens".into(), count.into());
        }
    }
    members
}

/// Triton's generate extension. The TensorRT-LLM backend takes flat inputs; the vLLM backend takes
/// sampling parameters under `parameters`.
fn triton(api: Api, spec: &BodySpec<'_>) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("text_input".into(), spec.prompt.into());
    let mut parameters = Map::new();
    if let Some(count) = spec.max_tokens {
        parameters.insert("max_tokens".into(), count.into());
    }
    if api == Api::TritonVllm {
        members.insert("stream".into(), spec.streaming.into());
        members.insert("exclude_input_in_output".into(), true.into());
        if spec.deterministic {
            parameters.insert("ignore_eos".into(), true.into());
            if let Some(count) = spec.max_tokens {
                parameters.insert("min_tokens".into(), count.into());
            }
        }
        members.insert("parameters".into(), parameters.into());
        return members;
    }
    members.append(&mut parameters);
    members.insert("stream".into(), spec.streaming.into());
    if spec.deterministic
        && let Some(count) = spec.max_tokens
    {
        members.insert("min_length".into(), count.into());
    }
    members
}

/// The path of an API.
pub fn path(api: Api, streaming: bool, model: &str) -> String {
    match (api, streaming) {
        (Api::Chat, _) => "/v1/chat/completions".into(),
        (Api::Completions, _) => "/v1/completions".into(),
        (Api::TritonTensorrtllm | Api::TritonVllm, true) => {
            format!("/v2/models/{model}/generate_stream")
        }
        (Api::TritonTensorrtllm | Api::TritonVllm, false) => {
            format!("/v2/models/{model}/generate")
        }
    }
}

/// Joins a base path and an API's path: a `/v1` that both have stands once, a base that already
/// ends in the whole path stays as it is.
pub fn join(base: &str, path: &str) -> String {
    let base = base.trim_end_matches('/');
    if base.ends_with(path) && !path.is_empty() {
        return base.to_string();
    }
    match (base.strip_suffix("/v1"), path.strip_prefix("/v1")) {
        (Some(front), Some(_)) => format!("{front}{path}"),
        _ => format!("{base}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(api: Api, change: impl Fn(&mut BodySpec<'_>), expected: &str) {
        let extra = Map::new();
        let mut spec = BodySpec {
            model: "m",
            prompt: "hi",
            streaming: true,
            max_tokens: Some(8),
            legacy_max_tokens: false,
            deterministic: false,
            extra: &extra,
        };
        change(&mut spec);
        assert_eq!(String::from_utf8(body(api, &spec)).unwrap(), expected);
    }

    #[test]
    fn bodies_have_the_members_of_the_wire_in_its_order() {
        check(
            Api::Chat,
            |_| {},
            concat!(
                r#"{"messages":[{"role":"user","content":"hi"}],"model":"m","stream":true,"#,
                r#""max_completion_tokens":8,"stream_options":{"include_usage":true}}"#
            ),
        );
        check(
            Api::Completions,
            |spec| spec.streaming = false,
            r#"{"prompt":"hi","model":"m","stream":false,"max_tokens":8}"#,
        );
        check(
            Api::TritonTensorrtllm,
            |spec| spec.deterministic = true,
            r#"{"text_input":"hi","max_tokens":8,"stream":true,"min_length":8}"#,
        );
    }

    #[test]
    fn null_takes_a_member_of_ours_away_and_goes_out_else() {
        let extra: Map<String, Value> =
            serde_json::from_str(r#"{"stream_options":null,"stop":null}"#).unwrap();
        let spec = BodySpec {
            model: "m",
            prompt: "hi",
            streaming: true,
            max_tokens: None,
            legacy_max_tokens: false,
            deterministic: false,
            extra: &extra,
        };
        assert_eq!(
            String::from_utf8(body(Api::Completions, &spec)).unwrap(),
            r#"{"prompt":"hi","model":"m","stream":true,"stop":null}"#
        );
    }

    #[test]
    fn a_chat_s_parts_are_its_body() {
        let extra = Map::new();
        let spec = BodySpec {
            model: "m",
            prompt: "say \"hi\"\n",
            streaming: true,
            max_tokens: Some(8),
            legacy_max_tokens: false,
            deterministic: false,
            extra: &extra,
        };
        let parts = chat_parts(&spec).unwrap();
        assert_eq!(parts.concat(), body(Api::Chat, &spec));
        let message: Value = serde_json::from_slice(&parts[1]).unwrap();
        assert_eq!(message["content"], spec.prompt);
        let extra = serde_json::from_str(r#"{"messages":null}"#).unwrap();
        assert_eq!(
            chat_parts(&BodySpec {
                extra: &extra,
                ..spec
            }),
            None
        );
    }

    #[test]
    fn a_base_path_and_an_api_path_share_v1() {
        assert_eq!(join("", "/v1/models"), "/v1/models");
        assert_eq!(join("/v1", "/v1/models"), "/v1/models");
        assert_eq!(join("/proxy/v1/", "/v1/models"), "/proxy/v1/models");
        assert_eq!(join("/x/v1/models", "/v1/models"), "/x/v1/models");
        assert_eq!(join("/x", ""), "/x");
    }
}
