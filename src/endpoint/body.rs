//! What payloads are made of, and what chats and urls are put together from.

use super::{Endpoint, chat};
use crate::config::Api;
use crate::workload::Content;
use serde_json::{Map, Value};

/// What a body is made of.
#[derive(Clone, Copy, Debug)]
pub struct BodySpec<'a> {
    /// Model name.
    pub model: &'a str,
    /// What is asked, of every kind.
    pub content: &'a Content,
    /// Ask for a stream.
    pub streaming: bool,
    /// Longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// Chat: `max_tokens` instead of `max_completion_tokens`.
    pub legacy_max_tokens: bool,
    /// Fix the length of the answer.
    pub deterministic: bool,
    /// The server's counts are needed, so that they are asked for where they come on demand.
    pub needs_usage: bool,
    /// Ask for them with every event.
    pub per_chunk_usage: bool,
    /// Members that come last and win; null removes a member of ours, another goes out as null.
    pub extra: &'a Map<String, Value>,
}

impl BodySpec<'_> {
    /// The one text; the first of several.
    pub fn prompt(&self) -> &str {
        self.content.texts.first().map_or("", String::as_str)
    }

    /// Fixes the answer's length, where that is asked for, as vLLM has it in all of its APIs.
    pub(super) fn fix_length(&self, members: &mut Map<String, Value>) {
        if !self.deterministic {
            return;
        }
        members.insert("ignore_eos".into(), true.into());
        if let Some(count) = self.max_tokens {
            members.insert("min_tokens".into(), count.into());
        }
    }

    /// A text that is alone, else the list of all.
    pub(super) fn one_or_all(&self) -> Value {
        match self.content.texts.as_slice() {
            [one] => one.as_str().into(),
            all => all.into(),
        }
    }
}

/// A chat's body in three: up to its one message, the message, and what follows. `None` where the
/// extra members have taken the messages away.
pub fn chat_parts(spec: &BodySpec<'_>) -> Option<[Vec<u8>; 3]> {
    let body = Endpoint::from(Api::Chat).body(spec);
    let message = chat::message(spec).to_string();
    let head = br#"{"messages":["#;
    let rest = body.strip_prefix(head)?.strip_prefix(message.as_bytes())?;
    Some([head.to_vec(), message.into_bytes(), rest.to_vec()])
}

/// Joins a base path and an API's path: a `/v1` that both have stands once, a base that already
/// ends in the whole path stays as it is, and Azure's deployments have no `/v1`.
pub fn join(base: &str, path: &str) -> String {
    let base = base.trim_end_matches('/');
    if base.ends_with(path) && !path.is_empty() {
        return base.to_string();
    }
    let is_deployment = base.contains("/openai/deployments/");
    match (base.strip_suffix("/v1"), path.strip_prefix("/v1")) {
        (_, Some(rest)) if is_deployment => format!("{base}{rest}"),
        (Some(front), Some(_)) => format!("{front}{path}"),
        _ => format!("{base}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(api: Api, change: impl Fn(&mut BodySpec<'_>), expected: &str) {
        let extra = Map::new();
        let content = Content::of("hi".into());
        let mut spec = BodySpec {
            model: "m",
            content: &content,
            streaming: true,
            max_tokens: Some(8),
            legacy_max_tokens: false,
            deterministic: false,
            needs_usage: false,
            per_chunk_usage: false,
            extra: &extra,
        };
        change(&mut spec);
        assert_eq!(
            String::from_utf8(Endpoint::from(api).body(&spec)).unwrap(),
            expected
        );
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
        let content = Content::of("hi".into());
        let spec = BodySpec {
            model: "m",
            content: &content,
            streaming: true,
            max_tokens: None,
            legacy_max_tokens: false,
            deterministic: false,
            needs_usage: false,
            per_chunk_usage: false,
            extra: &extra,
        };
        assert_eq!(
            String::from_utf8(Endpoint::from(Api::Completions).body(&spec)).unwrap(),
            r#"{"prompt":"hi","model":"m","stream":true,"stop":null}"#
        );
    }

    #[test]
    fn a_chat_s_parts_are_its_body() {
        let extra = Map::new();
        let content = Content::of("say \"hi\"\n".into());
        let spec = BodySpec {
            model: "m",
            content: &content,
            streaming: true,
            max_tokens: Some(8),
            legacy_max_tokens: false,
            deterministic: false,
            needs_usage: false,
            per_chunk_usage: false,
            extra: &extra,
        };
        let parts = chat_parts(&spec).unwrap();
        assert_eq!(parts.concat(), Endpoint::from(Api::Chat).body(&spec));
        let message: Value = serde_json::from_slice(&parts[1]).unwrap();
        assert_eq!(message["content"], spec.prompt());
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
        let azure = "/openai/deployments/gpt";
        assert_eq!(
            join(azure, "/v1/chat/completions"),
            format!("{azure}/chat/completions")
        );
    }
}
