//! One file per API: builds a payload's bytes, and reads text, reasoning, tool calls, usage and
//! errors from an event or a whole body. No I/O. The mock's shapes and stamps are here too.

use crate::config::Api;
use crate::stats::Usage;
use std::borrow::Cow;

/// What one event or one whole body says. Text is the inside of a JSON string, still escaped.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Part<'a> {
    /// Non-empty answer text.
    pub answer: Option<Cow<'a, [u8]>>,
    /// Non-empty reasoning text.
    pub reasoning: Option<Cow<'a, [u8]>>,
    /// Non-empty tool call fragment: names and arguments joined.
    pub tool_call: Option<Cow<'a, [u8]>>,
    /// A finish reason that is not null.
    pub finished: bool,
    /// `[DONE]`.
    pub done: bool,
    /// Usage.
    pub usage: Option<Usage>,
    /// An error object.
    pub error: Option<ErrorPart>,
}

/// An error object inside an event or body.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ErrorPart {
    /// `code` when it is a number.
    pub code: Option<u16>,
    /// `type` or `error_type`.
    pub name: Option<String>,
    /// `message`, or the whole object.
    pub message: String,
}

impl Part<'_> {
    /// True when this event bears content: the only kind that moves a token time.
    pub fn has_content(&self) -> bool {
        self.answer.is_some() || self.reasoning.is_some() || self.tool_call.is_some()
    }
}

mod body;
mod reader;
mod scan;
mod shapes;
pub mod stamp;

pub use body::{BodySpec, body, join, path};
pub use reader::EventReader;

/// What an event of a stream says. `name` is the event's name, empty for a plain one.
///
/// Never fails: what is no JSON, and an event named `error`, is an error part.
/// Cost: `benches/parser.rs`; [`EventReader`] is the faster way through a whole stream.
pub fn read_event<'a>(api: Api, name: &[u8], data: &'a [u8]) -> Part<'a> {
    if data.trim_ascii() == b"[DONE]" {
        return Part {
            done: true,
            ..Part::default()
        };
    }
    if name == b"error" {
        return Part {
            error: Some(shapes::error_event(data)),
            ..Part::default()
        };
    }
    read(api, data).unwrap_or_else(|reason| Part {
        error: Some(ErrorPart {
            code: None,
            name: Some("invalid_event".into()),
            message: format!("an event is no JSON: {reason}"),
        }),
        ..Part::default()
    })
}

/// What a whole answer says. Errors: it is no JSON.
pub fn read_body(api: Api, body: &[u8]) -> Result<Part<'_>, String> {
    read(api, body).map_err(|reason| format!("the answer is no JSON: {reason}"))
}

fn read(api: Api, data: &[u8]) -> Result<Part<'_>, serde_json::Error> {
    if let Some(part) = scan::scan(api, data) {
        return Ok(part);
    }
    let value: serde_json::Value = serde_json::from_slice(data)?;
    Ok(shapes::from_value(api, &value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(data: &str) -> Part<'_> {
        read_event(Api::Chat, b"", data.as_bytes())
    }

    fn answer(part: &Part<'_>) -> Option<String> {
        part.answer
            .as_ref()
            .map(|text| String::from_utf8_lossy(text).into_owned())
    }

    #[test]
    fn nulls_missing_members_and_unknown_ones_are_no_content() {
        let part = chat(r#"{"choices":[{"index":0,"delta":{"content":"a","tool_calls":null}}]}"#);
        assert_eq!(answer(&part).as_deref(), Some("a"));
        for nothing in [
            r#"{"choices":[{"index":0,"delta":{"role":"assistant"}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":null,"finish_reason":"stop"}]}"#,
            r#"{"choices":[{"index":0,"text":null}],"usage":null,"native_finish_reason":"x"}"#,
            r#"{"choices":[],"prompt_filter_results":[{}]}"#,
            r#"{"choices":null}"#,
        ] {
            let part = chat(nothing);
            assert!(!part.has_content() && part.error.is_none(), "{nothing}");
        }
    }

    #[test]
    fn content_is_found_in_any_order_with_spaces_and_escapes() {
        let data = r#" { "id" : "\"content\":\"no\"" , "choices" : [ { "finish_reason" : null ,
            "delta" : { "x" : {"content":"no"} , "content" : "say \"hi\" \\" } } ] } "#;
        let part = chat(data);
        assert_eq!(answer(&part).as_deref(), Some(r#"say \"hi\" \\"#));
        assert!(!part.finished);
    }

    #[test]
    fn reasoning_has_two_names_and_tool_calls_are_content() {
        for key in ["reasoning_content", "reasoning"] {
            let data = format!(r#"{{"choices":[{{"delta":{{"{key}":"r","content":null}}}}]}}"#);
            let part = chat(&data);
            assert_eq!(part.reasoning.as_deref(), Some(&b"r"[..]));
            assert!(part.answer.is_none());
        }
        let part = chat(
            r#"{"choices":[{"delta":{"tool_calls":[
                {"index":0,"function":{"name":"f","arguments":"{"}}]}}]}"#,
        );
        assert_eq!(part.tool_call.as_deref(), Some(&b"f{"[..]));
    }

    #[test]
    fn errors_inside_a_stream_keep_code_name_and_message() {
        let error = |data| chat(data).error.unwrap();
        let told = error(r#"{"error":{"message":"engine died","code":500}}"#);
        assert_eq!(
            (told.code, told.message.as_str()),
            (Some(500), "engine died")
        );
        let told = error(r#"{"error":"oom","error_type":"generation"}"#);
        assert_eq!(
            (told.name.as_deref(), told.message.as_str()),
            (Some("generation"), "oom")
        );
        let told = read_event(Api::Chat, b"error", br#"{"message":"x"}"#)
            .error
            .unwrap();
        assert_eq!(told.message, "x");
        assert!(chat(r#"{"error":null,"choices":[]}"#).error.is_none());
        assert!(chat("not json").error.is_some());
    }

    #[test]
    fn usage_comes_with_its_details() {
        let part = chat(
            r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":120,
                "completion_tokens_details":{"reasoning_tokens":100},
                "prompt_tokens_details":{"cached_tokens":3}}}"#,
        );
        let usage = part.usage.unwrap();
        assert_eq!(usage.prompt, Some(11));
        assert_eq!((usage.completion, usage.reasoning), (Some(120), Some(100)));
        assert_eq!(usage.cache_read, Some(3));
    }

    #[test]
    fn the_fast_way_and_the_slow_way_agree() {
        let texts = ["a", "", "\\u00e9\\n", "\"", "x\\\\"];
        for text in texts {
            for shape in [
                json!({"choices":[{"index":0,"delta":{"content":text},"finish_reason":null}]}),
                json!({"choices":[{"text":text,"finish_reason":"stop"}],
                    "usage":{"total_tokens":4}}),
                json!({"choices":[{"message":{"content":text,"reasoning":text}}]}),
            ] {
                let bytes = shape.to_string().into_bytes();
                let fast = scan::scan(Api::Chat, &bytes).unwrap();
                assert_eq!(fast, shapes::from_value(Api::Chat, &shape));
            }
        }
    }

    use serde_json::json;
}
