//! What the mock says, in the words of each API: client and mock agree by construction.

use serde_json::Value;

/// One line of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The stream opens.
    Open,
    /// A piece of answer.
    Answer {
        /// Plain letters that need no escape.
        text: &'a str,
        /// All of the answer with it, for an API that repeats that.
        so_far: &'a str,
    },
    /// A piece of reasoning, likewise.
    Reasoning(&'a str),
    /// It ends for this reason: `stop` or `length`.
    Finish(&'a str),
    /// Usage as JSON in OpenAI's words, with the reason of the end.
    Usage {
        /// The counts.
        usage: &'a str,
        /// `stop` or `length`.
        reason: &'a str,
    },
    /// The last word of all, which with some APIs says both again.
    Done {
        /// As before; absent where it is not wanted.
        usage: Option<&'a str>,
        /// `stop` or `length`.
        reason: &'a str,
    },
}

/// Who says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voice<'a> {
    /// Of the answer: hexadecimal digits.
    pub id: &'a str,
    /// `fp_` and the stamp's bytes.
    pub stamp: &'a str,
    /// The model's name as JSON, quotes included.
    pub model: &'a str,
    /// Unix time in seconds.
    pub created: u64,
}

/// What a whole answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// Plain letters that need no escape.
    pub answer: &'a str,
    /// Likewise; empty without.
    pub reasoning: &'a str,
    /// `stop` or `length`.
    pub reason: &'a str,
    /// As JSON in OpenAI's words.
    pub usage: Option<&'a str>,
    /// Texts, images or passages that were sent: what has an answer for each has so many.
    pub inputs: usize,
}

impl Said<'_> {
    /// Usage as JSON, or null.
    pub(super) fn usage_or_null(&self) -> &str {
        self.usage.unwrap_or("null")
    }
}

/// A plain event.
pub(super) fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}

/// An event with a name.
pub(super) fn named(name: &str, json: &str) -> String {
    format!("event: {name}\ndata: {json}\n\n")
}

/// Prompt, cached part of it, completion, reasoning part of that; 0 where nothing is said.
pub(super) fn usage_counts(usage: &str) -> [u64; 4] {
    let value: Value = serde_json::from_str(usage).unwrap_or_default();
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    [
        count(&value["prompt_tokens"]),
        count(&value["prompt_tokens_details"]["cached_tokens"]),
        count(&value["completion_tokens"]),
        count(&value["completion_tokens_details"]["reasoning_tokens"]),
    ]
}

/// A text that stands alone, for APIs without a shape of their own.
fn text_alone(voice: &Voice<'_>, text: &str, usage: Option<&str>) -> String {
    let Voice { id, stamp, .. } = voice;
    let usage = usage.map_or(String::new(), |usage| format!(",\"usage\":{usage}"));
    format!("{{\"id\":\"{id}\",\"stamp\":\"{stamp}\",\"text\":\"{text}\"{usage}}}")
}

/// The same of a whole answer.
pub(super) fn text_answer(voice: &Voice<'_>, said: &Said<'_>) -> String {
    let text = format!("{}{}", said.reasoning, said.answer);
    text_alone(voice, &text, said.usage)
}

/// The same as the events of a stream.
pub(super) fn text_event(line: Line<'_>, voice: &Voice<'_>) -> Option<String> {
    match line {
        Line::Answer { text, .. } | Line::Reasoning(text) => {
            Some(data(&text_alone(voice, text, None)))
        }
        Line::Usage { usage, .. } => Some(data(&text_alone(voice, "", Some(usage)))),
        Line::Open | Line::Finish(_) | Line::Done { .. } => None,
    }
}
