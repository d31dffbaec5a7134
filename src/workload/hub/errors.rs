//! Why the hub gives no file, and what helps.

/// Reads after `--tokenizer NAME: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// The licence of the repository was not accepted, or not by this token's account.
    #[error("{file} is gated ({status}): accept the licence at {page}, and {token}")]
    Gated {
        /// File.
        file: String,
        /// Status of the answer.
        status: u16,
        /// Where the licence is.
        page: String,
        /// What to do with the token.
        token: &'static str,
    },
    /// A private repository, or none at all: the hub does not tell which.
    #[error(
        "{file} is not for everybody, or there is no such repository ({status}): look at {page}, \
         and {token}"
    )]
    Unauthorized {
        /// File.
        file: String,
        /// Status of the answer.
        status: u16,
        /// The repository's page.
        page: String,
        /// What to do with the token.
        token: &'static str,
    },
    /// No such repository.
    #[error(
        "no such file or folder here, and no such repository at {page} (404): look at the name"
    )]
    NoRepository {
        /// The repository's page.
        page: String,
    },
    /// No such revision.
    #[error("there is no revision `{revision}` at {page} (404): give another --tokenizer-revision")]
    NoRevision {
        /// What was asked for.
        revision: String,
        /// The repository's page.
        page: String,
    },
    /// A repository without a tokenizer that can be used.
    #[error("{page} has no tokenizer.json: {instead}")]
    NoFile {
        /// The repository's page.
        page: String,
        /// What it has, and what to do.
        instead: String,
    },
    /// Forbidden to ask.
    #[error(
        "no tokenizer.json in the cache at {cache}, and HF_HUB_OFFLINE forbids to fetch it: unset \
         it, or run `hf download {name}` where there is a network, and copy the folder"
    )]
    Offline {
        /// Where the cache would have it.
        cache: String,
        /// Repository.
        name: String,
    },
    /// Nobody there, or the connection broke too often.
    #[error(
        "{file} cannot be had from {host}: {reason}; try again, set HF_ENDPOINT to a mirror, or \
         give a folder with tokenizer.json"
    )]
    Network {
        /// File.
        file: String,
        /// Whom it was asked from.
        host: String,
        /// What the system says.
        reason: String,
    },
    /// An end before the end.
    #[error(
        "{file} was cut short: {done} of {total} bytes came; run it again, it goes on from there"
    )]
    Truncated {
        /// File.
        file: String,
        /// Bytes that came.
        done: u64,
        /// Bytes that it has.
        total: u64,
    },
    /// Not what the hub says it is; nothing of it is kept.
    #[error("{file} has the SHA-256 {has}, and the hub says {says}; nothing is kept: try again")]
    Hash {
        /// File.
        file: String,
        /// Of what came.
        has: String,
        /// Of what should have come.
        says: String,
    },
    /// Larger than any tokenizer.
    #[error("{file} has {size} bytes, and no tokenizer has more than {most}")]
    TooLarge {
        /// File.
        file: String,
        /// Its bytes.
        size: u64,
        /// The cap.
        most: u64,
    },
    /// An answer that a hub does not give.
    #[error("{file}: {host} does not answer as a hub does: {reason}; look at HF_ENDPOINT")]
    Answer {
        /// File.
        file: String,
        /// Who answered.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// HF_ENDPOINT.
    #[error("HF_ENDPOINT {endpoint}: {reason}")]
    Endpoint {
        /// Its value, without secrets.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// --tokenizer-revision.
    #[error("--tokenizer-revision `{0}` is no branch, tag or commit")]
    Revision(String),
    /// Nowhere to keep it.
    #[error("no folder to keep it in: set HF_HOME")]
    NoHome,
    /// The disk.
    #[error("{path}: {reason}")]
    Disk {
        /// File or folder.
        path: String,
        /// What the system says.
        reason: String,
    },
}
