//! What one request asks: texts, and what goes with them.

/// The contents of a request, before any API has put them into its own members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Prompts; passages of a ranking. One, as a rule.
    pub texts: Vec<String>,
    /// What a ranking ranks its texts by.
    pub query: Option<String>,
    /// Data URLs or plain ones.
    pub images: Vec<String>,
    /// Recordings.
    pub audios: Vec<Audio>,
    /// Data URLs or plain ones.
    pub videos: Vec<String>,
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    /// `wav` or `mp3`.
    pub format: &'static str,
    /// In base64.
    pub data: String,
}

impl Content {
    /// One text alone.
    pub fn of(text: String) -> Content {
        Content {
            texts: vec![text],
            ..Content::default()
        }
    }
}
