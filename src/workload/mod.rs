//! What is asked: tokenizer, corpus, lengths, prompts, images and recordings.
//!
//! Knows nothing of APIs or sockets. Start at [`PromptSource`].

mod chat_template;
mod content;
mod corpus;
mod hub;
mod lengths;
mod media;
mod prompt;
mod tiktoken;
mod tokenizer;
mod trace;

pub use content::{Audio, Content};
pub use corpus::unpack_corpus;
pub use hub::{Hub, HubError, Progress, hub_token_of_env};
pub use lengths::draw;
pub use media::Media;
pub use prompt::{Prompt, PromptSource};
pub use tokenizer::{Tokenizer, TokenizerChoice, TokenizerError};
pub use trace::{TraceEntry, TraceError, TraceInput, read_bodies, read_trace};
