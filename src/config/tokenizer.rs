//! Which tokenizer counts, and where it comes from.

/// Where a tokenizer comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenizerSource {
    /// Asked for: the builtin o200k.
    Builtin,
    /// Not asked for: the model's own if it lies on this machine, else the builtin, loudly.
    #[default]
    ModelOrBuiltin,
    /// A folder, a file, or a name of the hub.
    Named(String),
}

/// A tokenizer as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerSpec {
    /// Where it comes from.
    pub source: TokenizerSource,
    /// Branch, tag or commit in the hub and its cache; absent is `main`.
    pub revision: Option<String>,
    /// Count messages by the model's chat template.
    pub has_template: bool,
    /// Token for the hub; masked everywhere.
    pub token: Option<String>,
}

impl TokenizerSpec {
    /// The builtin, asked for.
    pub fn builtin() -> TokenizerSpec {
        TokenizerSpec::of(TokenizerSource::Builtin)
    }

    /// A folder, a file, or a name of the hub.
    pub fn named(name: impl Into<String>) -> TokenizerSpec {
        TokenizerSpec::of(TokenizerSource::Named(name.into()))
    }

    fn of(source: TokenizerSource) -> TokenizerSpec {
        TokenizerSpec {
            source,
            ..TokenizerSpec::default()
        }
    }
}
