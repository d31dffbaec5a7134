//! Tokens of a text: a model's own tokenizer from a file, or the builtin o200k.

use crate::config::TokenizerSpec;
use std::path::{Path, PathBuf};
use tiktoken_rs::CoreBPE;

/// Why there is no tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// Nothing at the path, and no name of a hub either.
    #[error(
        "--tokenizer {0}: no such file or folder; give a folder or file with tokenizer.json, or \
         `builtin`"
    )]
    Missing(String),
    /// A hub's name.
    #[error(
        "--tokenizer {0}: names of a hub come with a later version; give a local folder with \
         tokenizer.json, or `builtin`"
    )]
    Hub(String),
    /// The file is no tokenizer.
    #[error("--tokenizer {path}: {reason}; a `tokenizer.json` is needed")]
    Invalid {
        /// File.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Which tokenizer was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerChoice {
    /// For reports: `builtin (o200k)` or the path.
    pub name: String,
    /// True when nobody asked for the builtin and the model's own is not here.
    pub stands_in: bool,
}

/// Counts and makes tokens; never adds special ones.
pub enum Tokenizer {
    /// o200k by tiktoken.
    Builtin(&'static CoreBPE),
    /// A `tokenizer.json`.
    File(Box<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// Loads what was asked for; `model` is looked for on this machine when nothing was.
    pub fn load(
        spec: &TokenizerSpec,
        model: Option<&str>,
    ) -> Result<(Tokenizer, TokenizerChoice), TokenizerError> {
        let builtin = |stands_in| {
            let choice = TokenizerChoice {
                name: "builtin (o200k)".into(),
                stands_in,
            };
            (
                Tokenizer::Builtin(tiktoken_rs::o200k_base_singleton()),
                choice,
            )
        };
        match spec {
            TokenizerSpec::Builtin => Ok(builtin(false)),
            TokenizerSpec::Path(path) => from_path(path),
            TokenizerSpec::ModelOrBuiltin => match model.and_then(find_model) {
                Some(path) => from_path(&path),
                None => Ok(builtin(true)),
            },
        }
    }

    /// Tokens of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match self {
            Tokenizer::Builtin(bpe) => bpe.encode_ordinary(text),
            // A text that a tokenizer cannot take has no tokens that could be counted.
            Tokenizer::File(file) => file
                .encode_fast(text, false)
                .map(|encoding| encoding.get_ids().to_vec())
                .unwrap_or_default(),
        }
    }

    /// Number of tokens of a text.
    pub fn count(&self, text: &str) -> usize {
        match self {
            Tokenizer::Builtin(bpe) => bpe.count_ordinary(text),
            Tokenizer::File(_) => self.encode(text).len(),
        }
    }

    /// Text of tokens; a character that is cut at an end becomes the replacement character.
    pub fn decode(&self, ids: &[u32]) -> String {
        match self {
            Tokenizer::Builtin(bpe) => {
                String::from_utf8_lossy(&bpe.decode_bytes(ids).unwrap_or_default()).into_owned()
            }
            Tokenizer::File(file) => file.decode(ids, true).unwrap_or_default(),
        }
    }
}

fn from_path(path: &Path) -> Result<(Tokenizer, TokenizerChoice), TokenizerError> {
    let shown = path.display().to_string();
    if !path.exists() {
        let parts: Vec<&str> = shown.split('/').collect();
        let hub = parts.len() == 2 && parts.iter().all(|part| !part.is_empty() && *part != "..");
        return Err(match hub && !shown.ends_with(".json") {
            true => TokenizerError::Hub(shown),
            false => TokenizerError::Missing(shown),
        });
    }
    let file = if path.is_dir() {
        path.join("tokenizer.json")
    } else {
        path.to_path_buf()
    };
    let invalid = |reason: String| TokenizerError::Invalid {
        path: file.display().to_string(),
        reason,
    };
    let bytes = std::fs::read(&file).map_err(|error| invalid(error.to_string()))?;
    let tokenizer =
        tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| invalid(error.to_string()))?;
    let choice = TokenizerChoice {
        name: shown,
        stands_in: false,
    };
    Ok((Tokenizer::File(Box::new(tokenizer)), choice))
}

/// A model's folder: as a path, or in the cache of Hugging Face.
fn find_model(model: &str) -> Option<PathBuf> {
    let local = PathBuf::from(model);
    if local.join("tokenizer.json").is_file() {
        return Some(local);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let hub = std::env::var_os("HF_HUB_CACHE")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HF_HOME").map(|home| PathBuf::from(home).join("hub")))
        .or_else(|| home.map(|home| home.join(".cache/huggingface/hub")))?;
    let snapshots = hub
        .join(format!("models--{}", model.replace('/', "--")))
        .join("snapshots");
    let mut found: Vec<PathBuf> = std::fs::read_dir(snapshots)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("tokenizer.json").is_file())
        .collect();
    found.sort();
    found.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &str) -> String {
        match Tokenizer::load(&TokenizerSpec::Path(path.into()), None) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{path} was taken"),
        }
    }

    #[test]
    fn a_tokenizer_that_cannot_be_had_says_what_to_do() {
        assert!(refusal("meta-llama/Llama-3.1-8B").contains("later version"));
        assert!(refusal("./no/such/thing.json").contains("no such file"));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
        assert!(refusal(dir.path().to_str().unwrap()).contains("tokenizer.json"));
    }

    #[test]
    fn the_builtin_stands_in_only_when_nobody_asked() {
        let stands_in = |spec| Tokenizer::load(&spec, Some("a/b")).unwrap().1.stands_in;
        assert!(!stands_in(TokenizerSpec::Builtin));
        assert!(stands_in(TokenizerSpec::ModelOrBuiltin));
    }

    #[test]
    fn text_goes_round() {
        let tokenizer = Tokenizer::load(&TokenizerSpec::Builtin, None).unwrap().0;
        let text = "naïve 😀 fn main() {}\n\n  x";
        assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
        assert_eq!(tokenizer.count("hello"), 1);
    }
}
