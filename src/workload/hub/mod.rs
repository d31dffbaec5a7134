//! Tokenizers by name: the cache of Hugging Face, and its hub where one was asked for.
//!
//! The token goes to the endpoint alone. Redirects are followed by hand, because a client that
//! follows them with its headers hands the token to whatever host stores the files.

mod cache;
mod client;
mod errors;

pub use cache::{Snapshot, TEMPLATE_FILES, vocabulary};
pub use errors::HubError;

use crate::base::limits;
use crate::config::hide_target;
use cache::Cache;
use client::Client;
use std::path::PathBuf;
use url::Url;

/// How far a download is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which file of which repository.
    pub file: String,
    /// Bytes that are here.
    pub done: u64,
    /// Bytes of the whole file.
    pub total: u64,
}

/// Called after every piece of a download.
pub type Listener<'a> = dyn FnMut(&Progress) + 'a;

/// A repository of the hub at a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repository<'a> {
    /// `org/name`, or `name`.
    pub name: &'a str,
    /// Branch, tag or commit.
    pub revision: &'a str,
}

/// The hub as the environment has it.
pub struct Hub {
    endpoint: Result<Url, HubError>,
    token: Option<String>,
    cache: Option<Cache>,
    offline: bool,
}

/// Where Hugging Face's tools keep what is theirs.
fn home(get: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    get("HF_HOME").map(PathBuf::from).or_else(|| {
        let caches = get("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| Some(PathBuf::from(get("HOME")?).join(".cache")));
        Some(caches?.join("huggingface"))
    })
}

/// The token for the hub, from where its own tools have it: a variable, else the file that
/// `hf auth login` writes.
pub fn hub_token_of_env() -> Option<String> {
    token_of(&|name| std::env::var(name).ok())
}

fn token_of(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let get = |name: &str| variable(name).filter(|value| !value.is_empty());
    let file = || {
        let named = get("HF_TOKEN_PATH").map(PathBuf::from);
        let path = named.or_else(|| Some(home(&get)?.join("token")))?;
        let size = std::fs::metadata(&path).ok()?.len();
        (size <= limits::NAME_BYTES_MAX as u64).then(|| std::fs::read_to_string(path).ok())?
    };
    let token = get("HF_TOKEN").or_else(|| get("HUGGING_FACE_HUB_TOKEN"));
    let token = token.or_else(file)?.trim().to_string();
    (!token.is_empty()).then_some(token)
}

/// The name that a tokenizer has in the hub; `None` for what can only be a path.
pub fn repository_name(text: &str) -> Option<&str> {
    let is_part = |part: &str| {
        let first = part.bytes().next().unwrap_or(b'.');
        let rest = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        first.is_ascii_alphanumeric() && part.bytes().all(rest) && !part.contains("..")
    };
    let is_file = [".json", ".tiktoken", ".model"]
        .iter()
        .any(|end| text.ends_with(end));
    let parts: Vec<&str> = text.split('/').collect();
    let fits = text.len() <= limits::NAME_BYTES_MAX && parts.len() <= 2;
    (fits && !is_file && parts.into_iter().all(is_part)).then_some(text)
}

impl Hub {
    /// By the variables that Hugging Face's own tools know; `token` as the configuration has it.
    pub fn from_env(token: Option<&str>) -> Hub {
        Hub::new(token, |name| std::env::var(name).ok())
    }

    fn new(token: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Hub {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_on = |name| {
            let value = get(name).unwrap_or_default().to_ascii_lowercase();
            ["1", "true", "yes", "on"].contains(&value.as_str())
        };
        let own = get("HF_HUB_CACHE").or_else(|| get("HUGGINGFACE_HUB_CACHE"));
        let own = own.map(PathBuf::from);
        let folder = own.or_else(|| Some(home(&get)?.join("hub")));
        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        Hub {
            endpoint: parse_endpoint(&endpoint),
            token: token.map(String::from),
            cache: folder.map(Cache::new),
            offline: is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE"),
        }
    }

    /// What the cache has of a repository; asks nobody.
    pub fn cached(&self, repository: Repository) -> Option<Snapshot> {
        self.cache.as_ref()?.snapshot(repository)
    }

    /// A repository with its tokenizer, and with its chat template where one `is_talk`: from the
    /// cache, else from the hub. Errors name the file and what to do.
    pub fn fetch(
        &self,
        repository: Repository,
        is_talk: bool,
        listener: &mut Listener,
    ) -> Result<Snapshot, HubError> {
        if !is_revision(repository.revision) {
            return Err(HubError::Revision(repository.revision.into()));
        }
        let known = self.cached(repository);
        let is_whole =
            |known: &Snapshot| known.tokenizer().is_some() && (!is_talk || known.has_template());
        if let Some(known) = known.as_ref().filter(|known| is_whole(known)) {
            return Ok(known.clone());
        }
        let cache = self.cache.as_ref().ok_or(HubError::NoHome)?;
        if self.offline {
            // What is here decides: a template that is not will be named.
            return match known.filter(|known| known.tokenizer().is_some()) {
                Some(known) => Ok(known),
                None => Err(HubError::Offline {
                    cache: cache.of(repository).display().to_string(),
                    name: repository.name.into(),
                }),
            };
        }
        let endpoint = self.endpoint.clone()?;
        let client = Client::new(endpoint, self.token.clone(), cache, repository);
        client.fetch_all(is_talk, listener)
    }
}

fn parse_endpoint(text: &str) -> Result<Url, HubError> {
    let bad = |reason: &str| HubError::Endpoint {
        endpoint: hide_target(text, &mut Vec::new()),
        reason: reason.into(),
    };
    let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    let is_http = ["http", "https"].contains(&url.scheme());
    if !is_http || url.host_str().is_none() {
        return Err(bad("no url of http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("a url without user and password is needed"));
    }
    Ok(url)
}

/// True for what may stand in the path of a url and of the cache.
fn is_revision(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    let is_char = |b: u8| b.is_ascii_alphanumeric() || b"-_./+".contains(&b);
    text.len() <= limits::NAME_BYTES_MAX
        && text.bytes().all(is_char)
        && text.split('/').all(is_part)
        && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_the_hub_is_no_path() {
        for name in ["gpt2", "meta-llama/Llama-3.1-8B", "a/b_c.d"] {
            assert_eq!(repository_name(name), Some(name));
        }
        for path in [
            "./a",
            "../a",
            "/a/b",
            "a/b/c",
            "a/",
            "",
            "a/tokenizer.json",
            "~/m",
            "a/..",
            "a b/c",
            "a/x.tiktoken",
            "a/-b",
            "a/b..c",
        ] {
            assert_eq!(repository_name(path), None, "{path}");
        }
    }

    #[test]
    fn a_revision_stays_in_its_folder() {
        assert!(["main", "refs/pr/1", "v1.0"].into_iter().all(is_revision));
        let bad = ["", "../x", "a/../b", "/a", "a//b", ".x", "a?b", "a b"];
        assert!(!bad.into_iter().any(is_revision));
    }

    fn cache_of(pairs: &[(&str, &str)]) -> String {
        let find = |name: &str| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| value.to_string())
        };
        let cache = Hub::new(None, find).cache.unwrap();
        let repository = Repository {
            name: "a/b",
            revision: "main",
        };
        cache.of(repository).display().to_string()
    }

    #[test]
    fn the_cache_lies_where_the_hubs_own_tools_have_it() {
        let mut pairs = vec![("HOME", "/h")];
        assert_eq!(cache_of(&pairs), "/h/.cache/huggingface/hub/models--a--b");
        pairs.push(("XDG_CACHE_HOME", "/x"));
        assert_eq!(cache_of(&pairs), "/x/huggingface/hub/models--a--b");
        pairs.push(("HF_HOME", "/hf"));
        assert_eq!(cache_of(&pairs), "/hf/hub/models--a--b");
        pairs.push(("HUGGINGFACE_HUB_CACHE", "/old"));
        assert_eq!(cache_of(&pairs), "/old/models--a--b");
        pairs.push(("HF_HUB_CACHE", "/new"));
        assert_eq!(cache_of(&pairs), "/new/models--a--b");
    }

    #[test]
    fn a_token_is_that_of_the_variable_else_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "hf_file\n").unwrap();
        std::fs::write(dir.path().join("other"), "hf_other").unwrap();
        let home = dir.path().display().to_string();
        let other = format!("{home}/other");
        let token = |pairs: &[(&str, &str)]| {
            token_of(&|name| {
                let pair = pairs.iter().find(|(key, _)| *key == name);
                pair.map(|(_, value)| value.to_string())
            })
        };
        let home = ("HF_HOME", home.as_str());
        assert_eq!(token(&[home]).as_deref(), Some("hf_file"));
        let path = ("HF_TOKEN_PATH", other.as_str());
        assert_eq!(token(&[home, path]).as_deref(), Some("hf_other"));
        let own = ("HF_TOKEN", " hf_own ");
        assert_eq!(token(&[home, path, own]).as_deref(), Some("hf_own"));
        assert_eq!(token(&[("HOME", "/no/such")]), None);
    }

    #[test]
    fn an_endpoint_that_is_none_is_named_without_its_password() {
        for text in ["ftp://h", "h", "https://u:K9secret@h"] {
            let error = parse_endpoint(text).unwrap_err().to_string();
            assert!(
                error.contains("HF_ENDPOINT") && !error.contains("K9"),
                "{error}"
            );
        }
        assert!(parse_endpoint("http://127.0.0.1:8080/mirror").is_ok());
    }
}
