//! One file per API: builds a payload's bytes, and reads text, reasoning, tool calls, usage and
//! errors from an event or a whole body. No I/O. The mock's shapes and stamps are here too.

pub mod stamp;

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
