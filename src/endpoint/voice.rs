//! What the mock says, in the words of each API: client and mock agree by construction.

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
    /// Usage as JSON in OpenAI's words.
    Usage(&'a str),
    /// The last word of all.
    Done,
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
