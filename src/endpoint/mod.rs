//! One file per API: builds a payload's bytes, and reads text, reasoning, tool calls, usage and
//! errors from an event or a whole body. No I/O. The mock's shapes and stamps are here too.

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
    /// The answer text is all of it so far, and takes the place of what came before.
    pub is_whole_text: bool,
    /// It bears something that is no text: vectors, scores, images.
    pub has_data: bool,
    /// A finish reason that is not null.
    pub finished: bool,
    /// `[DONE]`.
    pub done: bool,
    /// Usage.
    pub usage: Option<Usage>,
    /// An error object.
    pub error: Option<Box<ErrorPart>>,
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

impl<'a> Part<'a> {
    /// Joins the texts of another one to its own, for an answer of several pieces.
    fn append(&mut self, more: Part<'a>) {
        for (all, more) in [
            (&mut self.answer, more.answer),
            (&mut self.reasoning, more.reasoning),
            (&mut self.tool_call, more.tool_call),
        ] {
            match (all, more) {
                (Some(all), Some(more)) => all.to_mut().extend_from_slice(&more),
                (all, more) => *all = more.or(all.take()),
            }
        }
    }

    /// True when this event bears content: the only kind that moves a token time.
    pub fn has_content(&self) -> bool {
        let has_text = self.answer.is_some() || self.reasoning.is_some();
        has_text || self.tool_call.is_some() || self.has_data
    }
}

mod audio;
mod body;
mod chat;
mod completions;
mod embeddings;
mod guess;
mod huggingface;
mod images;
mod kind;
mod lists;
mod messages;
mod multipart;
mod openai;
mod rankings;
mod raw;
mod reader;
mod responses;
mod scan;
mod sglang;
mod shapes;
mod solido;
pub mod stamp;
mod template;
mod text;
mod triton;
mod usage;
pub mod voice;

pub use body::{BodySpec, chat_parts, join};
pub use kind::Endpoint;
pub use multipart::{FormPart, form_parts};
pub use reader::EventReader;
pub use text::{quote, unescape};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;

    fn read_event<'a>(api: Api, name: &[u8], data: &'a [u8]) -> Part<'a> {
        Endpoint::from(api).read_event(name, data)
    }

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
    fn counts_of_usage_are_whole_numbers_that_a_request_can_have() {
        let completion = |count: &str| {
            let data = format!(r#"{{"choices":[],"usage":{{"completion_tokens":{count}}}}}"#);
            chat(&data).usage.and_then(|usage| usage.completion)
        };
        assert_eq!(completion("5.0"), Some(5));
        assert_eq!(completion("5e2"), Some(500));
        assert_eq!(completion("0"), Some(0));
        assert_eq!(completion("4294967295"), Some(u32::MAX));
        for nothing in [
            "4294967296",
            "4294967296.0",
            "1e300",
            "5.5",
            "-1",
            "-5.0",
            "null",
            "\"5\"",
        ] {
            assert_eq!(completion(nothing), None, "{nothing}");
        }
        assert_eq!(chat(r#"{"usage":[1,2]}"#).usage, None);
    }

    #[test]
    fn the_texts_of_all_choices_of_an_event_are_joined() {
        let two = chat(
            r#"{"choices":[{"index":0,"delta":{"content":"a b "},"finish_reason":"stop"},
                {"index":1,"delta":{"content":"c d","reasoning":"r"},"finish_reason":null}]}"#,
        );
        assert_eq!(answer(&two).as_deref(), Some("a b c d"));
        assert_eq!(two.reasoning.as_deref(), Some(&b"r"[..]));
        assert!(two.finished);
        let second =
            chat(r#"{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"x"}}]}"#);
        assert_eq!(answer(&second).as_deref(), Some("x"));
        let calls = chat(
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f"}}]}},
                {"message":{"content":"y","tool_calls":[{"function":{"arguments":"{}"}}]}}]}"#,
        );
        assert_eq!(calls.tool_call.as_deref(), Some(&b"f{}"[..]));
        assert_eq!(answer(&calls).as_deref(), Some("y"));
    }

    #[test]
    fn an_object_that_is_an_error_is_one_and_an_error_that_says_nothing_is_none() {
        let told = r#"{"object":"error","message":"ctx too long","type":"BadRequestError",
            "param":null,"code":400}"#;
        for api in [Api::Chat, Api::Completions, Api::TritonVllm] {
            let error = Endpoint::from(api)
                .read_body(told.as_bytes())
                .unwrap()
                .error
                .unwrap();
            assert_eq!(
                (error.code, error.message.as_str()),
                (Some(400), "ctx too long")
            );
            assert_eq!(error.name.as_deref(), Some("BadRequestError"));
        }
        for nothing in [
            "false",
            "{}",
            "\"\"",
            "null",
            "[]",
            "0",
            r#"{"code":0,"message":""}"#,
        ] {
            let data = format!(
                r#"{{"object":"chat.completion.chunk","error":{nothing},
                    "choices":[{{"delta":{{"content":"a"}}}}]}}"#
            );
            let part = chat(&data);
            assert_eq!(part.error, None, "{nothing}");
            assert_eq!(answer(&part).as_deref(), Some("a"), "{nothing}");
        }
        for something in ["true", "\"x\"", "7", r#"{"code":1}"#, "[{\"a\":1}]"] {
            let data = format!(r#"{{"error":{something},"choices":[]}}"#);
            assert!(chat(&data).error.is_some(), "{something}");
        }
    }

    #[test]
    fn an_event_without_data_says_nothing_and_a_keep_alive_need_not_be_json() {
        let event = |name: &str, data: &'static str| {
            read_event(Api::Chat, name.as_bytes(), data.as_bytes())
        };
        for (name, data) in [
            ("", "  "),
            ("", "\n"),
            ("message", " \t"),
            ("ping", "keep"),
            ("keepalive", "2026-01-01"),
            ("ping", r#"{"type":"ping"}"#),
        ] {
            assert_eq!(event(name, data), Part::default(), "{name} {data:?}");
        }
        for (name, data) in [
            ("", "keep"),
            ("message", "keep"),
            ("error", "oh"),
            ("error", " "),
        ] {
            assert!(event(name, data).error.is_some(), "{name} {data:?}");
        }
        assert!(event("delta", r#"{"choices":[{"delta":{"content":"a"}}]}"#).has_content());
        assert!(event("done", " [DONE] ").done);
    }

    #[test]
    fn half_a_surrogate_pair_is_a_text_on_both_ways_and_meets_its_other_half() {
        let text = |content: &str, more: &str| {
            let data = format!(r#"{{"choices":[{{"delta":{{"content":"{content}"{more}}}}}]}}"#);
            let part = chat(&data);
            assert_eq!(part.error, None);
            part.answer.unwrap().into_owned()
        };
        let rare = r#","tool_calls":[{}],"x":"\udfff""#;
        for (first, second) in [("", ""), ("", rare), (rare, ""), (rare, rare)] {
            let joined = [text(r"a\ud83d", first), text(r"\uDE00b", second)].concat();
            assert_eq!(unescape(&joined), "a😀b");
            assert_eq!(unescape(&text(r"\u00e9\ud83d!", first)), "é\u{fffd}!");
        }
        let told = chat(r#"{"error":{"message":"x\ud83d"}}"#).error.unwrap();
        assert_eq!(told.message, "x\u{fffd}");
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
                assert_eq!(fast, Endpoint::from(Api::Chat).part(&shape));
            }
        }
    }

    use serde_json::json;
}
