//! Tokens of a text: a model's own tokenizer by path or name, or the builtin o200k.

use super::chat_template::ChatTemplate;
use super::hub::{self, Hub, HubError, Listener, Repository, Snapshot};
use super::tiktoken;
use crate::base::limits;
use crate::config::{TokenizerSource, TokenizerSpec};
use std::path::{Path, PathBuf};
use tiktoken_rs::CoreBPE;

/// The answer that stands for any, to see what a template puts around it.
const ANSWER: &str = "yes";

/// Why there is no tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// Nothing at the path, and no name of a hub either.
    #[error(
        "--tokenizer {0}: no such file or folder, and no name of the hub (org/name); give a folder \
         or file with tokenizer.json, or `builtin`"
    )]
    Missing(String),
    /// The hub does not give it.
    #[error("--tokenizer {name}: {error}")]
    Hub {
        /// Repository.
        name: String,
        /// Why, and what to do.
        error: HubError,
    },
    /// A path has no revisions.
    #[error("--tokenizer-revision: {0} is on this machine and has none; leave it out")]
    Revision(String),
    /// The file is no tokenizer.
    #[error("--tokenizer {path}: {reason}; a `tokenizer.json` is needed")]
    Invalid {
        /// File.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No chat template, or one that cannot be used.
    #[error("--apply-chat-template: {0}; give a --tokenizer that has one")]
    Template(String),
}

/// Which tokenizer was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizerChoice {
    /// For reports: `builtin (o200k)`, the path, or the name with its commit.
    pub name: String,
    /// True when nobody asked for the builtin and the model's own is not here.
    pub stands_in: bool,
}

/// Counts and makes tokens; never adds special ones.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    template: Option<ChatTemplate>,
}

enum Vocabulary {
    Builtin(&'static CoreBPE),
    Tiktoken(Box<CoreBPE>),
    File(Box<tokenizers::Tokenizer>),
}

/// A tokenizer on this machine.
struct Found {
    file: PathBuf,
    /// Where its chat template is.
    folder: PathBuf,
    name: String,
    repository: Option<String>,
}

impl Tokenizer {
    /// The builtin o200k, without a chat template.
    pub fn builtin() -> Tokenizer {
        Tokenizer {
            vocabulary: Vocabulary::Builtin(tiktoken_rs::o200k_base_singleton()),
            template: None,
        }
    }

    /// Loads what was asked for. The hub is asked for what has been named only; where nothing was,
    /// the own of `model` is looked for on this machine.
    pub fn load(
        spec: &TokenizerSpec,
        model: Option<&str>,
        hub: &Hub,
        listener: &mut Listener,
    ) -> Result<(Tokenizer, TokenizerChoice), TokenizerError> {
        let found = match &spec.source {
            TokenizerSource::Builtin => None,
            TokenizerSource::Named(name) => Some(find_named(name, spec, hub, listener)?),
            TokenizerSource::ModelOrBuiltin => {
                model.and_then(|model| find_model(model, spec.revision.as_deref(), hub))
            }
        };
        let Some(found) = found else {
            if spec.has_template {
                let text = "the builtin tokenizer has no chat template";
                return Err(TokenizerError::Template(text.into()));
            }
            let choice = TokenizerChoice {
                name: "builtin (o200k)".into(),
                stands_in: spec.source == TokenizerSource::ModelOrBuiltin,
            };
            return Ok((Tokenizer::builtin(), choice));
        };
        let template = match spec.has_template {
            true => Some(ChatTemplate::load(&found.folder).map_err(TokenizerError::Template)?),
            false => None,
        };
        let (vocabulary, note) = read(&found)?;
        let choice = TokenizerChoice {
            name: format!("{}{note}", found.name),
            stands_in: false,
        };
        let tokenizer = Tokenizer {
            vocabulary,
            template,
        };
        Ok((tokenizer, choice))
    }

    /// Tokens of a text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.vocabulary {
            Vocabulary::Builtin(bpe) => bpe.encode_ordinary(text),
            Vocabulary::Tiktoken(bpe) => bpe.encode_ordinary(text),
            // A text that a tokenizer cannot take has no tokens that could be counted.
            Vocabulary::File(file) => file
                .encode_fast(text, false)
                .map(|encoding| encoding.get_ids().to_vec())
                .unwrap_or_default(),
        }
    }

    /// Number of tokens of a text.
    pub fn count(&self, text: &str) -> usize {
        match &self.vocabulary {
            Vocabulary::Builtin(bpe) => bpe.count_ordinary(text),
            Vocabulary::Tiktoken(bpe) => bpe.count_ordinary(text),
            Vocabulary::File(_) => self.encode(text).len(),
        }
    }

    /// Number of tokens that a message of a user adds to a talk: by the chat template, where it
    /// counts by one, with the tokens around the message and those that open the answer. `is_first`
    /// is false for a message after an answer, whose end is counted then too.
    pub fn count_message(&self, text: &str, is_first: bool) -> usize {
        let Some(template) = &self.template else {
            return self.count(text);
        };
        let said = |messages: &[(&str, &str)]| {
            let text = template.render(messages).ok()?;
            Some(match &self.vocabulary {
                Vocabulary::Tiktoken(bpe) => bpe.count_with_special_tokens(&text),
                _ => self.count(&text),
            })
        };
        let asked = ("user", ANSWER);
        let count = match is_first {
            true => said(&[("user", text)]),
            false => said(&[asked, ("assistant", ANSWER), ("user", text)])
                .zip(said(&[asked]))
                .map(|(all, before)| all.saturating_sub(before + self.count(ANSWER))),
        };
        // It has rendered a message when it was loaded; one that it refuses has its own tokens.
        count.unwrap_or_else(|| self.count(text))
    }

    /// Tokens that a chat template puts around a talk's first message; 0 without one.
    pub fn frame(&self) -> usize {
        let whole = self.count_message(ANSWER, true);
        whole.saturating_sub(self.count(ANSWER))
    }

    /// Text of tokens; a character that is cut at an end becomes the replacement character.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes = match &self.vocabulary {
            Vocabulary::Builtin(bpe) => bpe.decode_bytes(ids),
            Vocabulary::Tiktoken(bpe) => bpe.decode_bytes(ids),
            Vocabulary::File(file) => return file.decode(ids, true).unwrap_or_default(),
        };
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }
}

/// A path of this machine, else a name of the hub.
fn find_named(
    name: &str,
    spec: &TokenizerSpec,
    hub: &Hub,
    listener: &mut Listener,
) -> Result<Found, TokenizerError> {
    let path = Path::new(name);
    if path.exists() {
        if spec.revision.is_some() {
            return Err(TokenizerError::Revision(name.into()));
        }
        return on_disk(path);
    }
    let Some(name) = hub::repository_name(name) else {
        return Err(TokenizerError::Missing(name.into()));
    };
    let repository = Repository {
        name,
        revision: spec.revision.as_deref().unwrap_or("main"),
    };
    let named = |error| TokenizerError::Hub {
        name: name.into(),
        error,
    };
    let snapshot = hub
        .fetch(repository, spec.has_template, listener)
        .map_err(named)?;
    in_snapshot(name, snapshot).ok_or_else(|| TokenizerError::Missing(name.into()))
}

/// A file, or the folder that has one.
fn on_disk(path: &Path) -> Result<Found, TokenizerError> {
    let name = path.display().to_string();
    let is_folder = path.is_dir();
    let file = match is_folder {
        false => path.to_path_buf(),
        true => hub::vocabulary(path).ok_or_else(|| TokenizerError::Invalid {
            path: name.clone(),
            reason: match path.join("tokenizer.model").exists() {
                true => "a SentencePiece model (tokenizer.model) is not read".into(),
                false => "no tokenizer in the folder".into(),
            },
        })?,
    };
    let folder = match is_folder {
        true => path.to_path_buf(),
        false => file.parent().unwrap_or(Path::new("")).to_path_buf(),
    };
    Ok(Found {
        file,
        folder,
        name,
        repository: None,
    })
}

fn in_snapshot(name: &str, snapshot: Snapshot) -> Option<Found> {
    let commit: String = snapshot.commit.chars().take(12).collect();
    Some(Found {
        file: snapshot.tokenizer()?,
        folder: snapshot.folder,
        name: format!("{name}@{commit}"),
        repository: Some(name.into()),
    })
}

/// A model's own tokenizer: in the folder that its name is, or in the cache.
fn find_model(model: &str, revision: Option<&str>, hub: &Hub) -> Option<Found> {
    let local = Path::new(model);
    if let (Some(_), None) = (hub::vocabulary(local), revision) {
        return on_disk(local).ok();
    }
    let repository = Repository {
        name: hub::repository_name(model)?,
        revision: revision.unwrap_or("main"),
    };
    in_snapshot(model, hub.cached(repository)?)
}

/// The vocabulary of a file, and what is to be said of it.
fn read(found: &Found) -> Result<(Vocabulary, String), TokenizerError> {
    let invalid = |reason: String| TokenizerError::Invalid {
        path: found.file.display().to_string(),
        reason,
    };
    let size = std::fs::metadata(&found.file).map_or(0, |known| known.len());
    if size > limits::TOKENIZER_BYTES_MAX {
        return Err(invalid(format!("{size} bytes are no tokenizer")));
    }
    let ends = |end: &str| found.file.extension().is_some_and(|own| own == end);
    if ends("model") {
        return Err(invalid("a SentencePiece model is not read".into()));
    }
    let bytes = std::fs::read(&found.file).map_err(|error| invalid(error.to_string()))?;
    if ends("tiktoken") {
        let pattern = tiktoken::pattern(&found.file, found.repository.as_deref());
        let pattern = pattern.map_err(invalid)?;
        let text = String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
        let bpe = tiktoken::read(&text, pattern).map_err(invalid)?;
        let note = format!(" (tiktoken, texts parted as {} does)", pattern.name);
        return Ok((Vocabulary::Tiktoken(Box::new(bpe)), note));
    }
    let read = tokenizers::Tokenizer::from_bytes(bytes);
    let mut tokenizer = read.map_err(|error| invalid(error.to_string()))?;
    // Made for batches of a model: a count must know neither.
    tokenizer.with_padding(None);
    let cut = tokenizer.with_truncation(None);
    cut.map_err(|error| invalid(error.to_string()))?;
    Ok((Vocabulary::File(Box::new(tokenizer)), String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn load(spec: &TokenizerSpec) -> Result<(Tokenizer, TokenizerChoice), TokenizerError> {
        Tokenizer::load(spec, Some("a/b"), &Hub::from_env(None), &mut |_| {})
    }

    fn ask(name: &str) -> TokenizerSpec {
        TokenizerSpec::named(name)
    }

    fn refusal(spec: &TokenizerSpec) -> String {
        match load(spec) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{spec:?} was taken"),
        }
    }

    /// Words apart by spaces, with padding and truncation that would change every count.
    fn words(more: &[(&str, Value)]) -> String {
        let vocabulary = json!({"u": 0, "yes": 1, "hi": 2, "[S]": 3, "[E]": 4});
        let added = |id: u32, text: &str| {
            json!({"id": id, "content": text, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true})
        };
        let mut file = json!({
            "version": "1.0",
            "pre_tokenizer": {"type": "Whitespace"},
            "added_tokens": [added(3, "[S]"), added(4, "[E]")],
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "u"}
        });
        for (key, value) in more {
            file[key] = value.clone();
        }
        file.to_string()
    }

    #[test]
    fn a_tokenizer_that_cannot_be_had_says_what_to_do() {
        assert!(refusal(&ask("./no/such/thing.json")).contains("no such file"));
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        assert!(refusal(&ask(folder)).contains("no tokenizer in the folder"));
        std::fs::write(dir.path().join("tokenizer.model"), "x").unwrap();
        assert!(refusal(&ask(folder)).contains("SentencePiece"));
        std::fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
        assert!(refusal(&ask(folder)).contains("tokenizer.json"));
        let revision = TokenizerSpec {
            revision: Some("v1".into()),
            ..ask(folder)
        };
        assert!(refusal(&revision).contains("--tokenizer-revision"));
    }

    #[test]
    fn the_builtin_stands_in_only_when_nobody_asked() {
        let stands_in = |spec: &TokenizerSpec| load(spec).unwrap().1.stands_in;
        assert!(!stands_in(&TokenizerSpec::builtin()));
        assert!(stands_in(&TokenizerSpec::default()));
    }

    #[test]
    fn text_goes_round() {
        let tokenizer = Tokenizer::builtin();
        let text = "naïve 😀 fn main() {}\n\n  x";
        assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
        assert_eq!(tokenizer.count("hello"), 1);
    }

    #[test]
    fn padding_and_truncation_change_no_count() {
        let dir = tempfile::tempdir().unwrap();
        let truncation = json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst",
            "stride": 0});
        let padding = json!({"strategy": {"Fixed": 9}, "direction": "Right",
            "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "u"});
        let file = words(&[("truncation", truncation), ("padding", padding)]);
        let path = dir.path().join("tokenizer.json");
        std::fs::write(&path, file).unwrap();
        let (tokenizer, _) = load(&ask(path.to_str().unwrap())).unwrap();
        assert_eq!(tokenizer.count("hi hi hi hi"), 4);
        assert_eq!(tokenizer.count("hi"), 1);
    }

    #[test]
    fn a_message_has_the_tokens_that_the_template_puts_around_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tokenizer.json"), words(&[])).unwrap();
        let plain = ask(dir.path().to_str().unwrap());
        let templated = TokenizerSpec {
            has_template: true,
            ..plain.clone()
        };
        assert!(refusal(&templated).contains("--apply-chat-template: no chat template"));
        let template = "{% for m in messages %}[S] {{ m.role }} {{ m.content }} [E]{% endfor %}\
                        {% if add_generation_prompt %}[S] hi{% endif %}";
        // Larger than any integer.
        let config = format!(
            r#"{{"model_max_length": 1{}, "chat_template": {}}}"#,
            "0".repeat(30),
            json!(template)
        );
        std::fs::write(dir.path().join("tokenizer_config.json"), config).unwrap();
        let tokenizer = load(&templated).unwrap().0;
        // [S] user hi [E] [S] hi
        assert_eq!(tokenizer.count_message("hi", true), 6);
        assert_eq!(tokenizer.frame(), 5);
        // [E] [S] user hi hi [E] [S] hi
        assert_eq!(tokenizer.count_message("hi hi", false), 8);
        assert_eq!(tokenizer.count("hi"), 1);
        let tokenizer = load(&plain).unwrap().0;
        assert_eq!(
            (tokenizer.count_message("hi", true), tokenizer.frame()),
            (1, 0)
        );
        let builtin = TokenizerSpec {
            source: TokenizerSource::Builtin,
            ..templated
        };
        assert!(refusal(&builtin).contains("builtin"));
    }
}
