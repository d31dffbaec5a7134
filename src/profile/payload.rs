//! Request bodies, each a function of its number.

use super::replay::{Replay, ReplayTurn};
use crate::base::{Ns, Rng, rng::Stream};
use crate::config::{Config, Lengths, SessionSpec, TokenCount};
use crate::endpoint::{self, BodySpec, Endpoint};
use crate::engine::{Drawn, Request, Talk, Turn};
use crate::stats::Media;
use crate::workload::{self, Content, Prompt, PromptSource, TraceInput, draw};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Tokens of a block that a trace's hash id stands for, as Mooncake has them.
const BLOCK_TOKENS: u32 = 512;
/// Blocks that are kept: some 300 MB.
const BLOCKS_MAX: usize = 100_000;
/// Keys of prompts that must be no other's.
const BLOCK_SALT: u64 = 1 << 62;
const WARMUP_SALT: u64 = 1 << 61;
/// More than the turns of any session: each has a prompt of its own.
const TURNS_STRIDE: u64 = 10_007;

/// Of the further texts of a request.
const BATCH_SALT: u64 = 1 << 63;
/// More than the texts of any request.
const BATCH_STRIDE: u64 = 100_003;
/// Of a key, the part that says which entry it is.
const NUMBER: u64 = (1 << 60) - 1;

/// What one request asks, and how much that is.
struct Asked {
    content: Content,
    tokens: u32,
    media: Media,
}

/// Builds the request of any number; the same on any core.
pub struct Builder {
    config: Arc<Config>,
    endpoint: Endpoint,
    model: String,
    prompts: PromptSource,
    replay: Option<Arc<Replay>>,
    media: workload::Media,
    /// Texts of a trace's blocks, with their tokens after a space.
    blocks: Mutex<HashMap<(u64, u32), Block>>,
}

/// A block of a trace's prompts.
type Block = Arc<(String, u32)>;

impl Builder {
    /// A builder for a run.
    pub fn new(
        config: Arc<Config>,
        model: String,
        prompts: PromptSource,
        replay: Option<Arc<Replay>>,
        media: workload::Media,
    ) -> Builder {
        Builder {
            endpoint: Endpoint::of(&config),
            config,
            model,
            prompts,
            replay,
            media,
            blocks: Mutex::default(),
        }
    }

    /// The first request of a session. What warms up has words that no measurement has.
    pub fn build(&self, drawn: Drawn) -> Request {
        let salt = if drawn.measured { 0 } else { WARMUP_SALT };
        let number = self
            .entries()
            .map_or(drawn.number, |entries| drawn.number % entries);
        if let Some(replay) = &self.replay {
            return self.replay(replay, number, salt);
        }
        match &self.config.session {
            Some(session) => self.talk(session, number ^ salt),
            None => self.alone(number ^ salt),
        }
    }

    /// Sessions that are used again and again, in their order; absent where each is new.
    pub fn entries(&self) -> Option<u64> {
        let replayed = self
            .replay
            .as_ref()
            .map(|replay| replay.sessions.len() as u64);
        replayed
            .or(self.config.dataset_entries)
            .map(|entries| entries.max(1))
    }

    /// True where the sessions are those of a trace.
    pub fn is_replay(&self) -> bool {
        self.replay.is_some()
    }

    /// True where a session may be of many prompts, or of long ones.
    pub fn is_heavy(&self) -> bool {
        self.config.session.is_some() || self.replay.is_some()
    }

    fn alone(&self, entry: u64) -> Request {
        let osl = self.config.osl;
        let output_tokens = osl.map(|osl| self.drawn(osl, Stream::OutputLength, entry));
        self.one(self.asked(entry, None, true), output_tokens)
    }

    /// A request that stands alone.
    fn one(&self, asked: Asked, output_tokens: Option<u32>) -> Request {
        let body = self
            .endpoint
            .body(&self.spec(&asked.content, output_tokens));
        Request {
            body: body.into(),
            input_tokens: asked.tokens,
            output_tokens,
            media: asked.media,
            talk: None,
        }
    }

    /// The contents of a key, after a prompt that is there already. The first of a talk is shorter
    /// by what the chat template puts around it, so that the request has the asked length.
    fn asked(&self, key: u64, prompt: Option<Prompt>, is_first: bool) -> Asked {
        let contents = &self.config.contents;
        let measured = key & WARMUP_SALT == 0;
        let images = self.media.images(key & NUMBER, measured);
        let (audios, audio) = self.media.audios(key & NUMBER, measured);
        let media = Media {
            images: u32::try_from(images.len()).unwrap_or(u32::MAX),
            audio,
        };
        let mut prompts = Vec::new();
        let mut query = None;
        if let Some(ranking) = contents.ranking {
            let length = self.drawn(ranking.query, Stream::QueryLength, key);
            query = Some(self.prompts.prompt(key, length));
            let count = self.drawn(ranking.passages, Stream::Passages, key);
            prompts.extend((1..=count).map(|at| self.prompt(further(key, at), ranking.passage)));
        } else if self.config.api.takes_text() && contents.texts > 0 {
            let own = || {
                let length = self.drawn(self.config.isl, Stream::InputLength, key);
                let frame = if is_first { self.prompts.frame() } else { 0 };
                self.prompts.prompt(key, length.saturating_sub(frame))
            };
            let first = self.as_message(prompt.unwrap_or_else(own), is_first);
            let rest = (1..contents.texts).map(|at| self.prompt(further(key, at), self.config.isl));
            prompts = std::iter::once(first).chain(rest).collect();
        }
        let tokens = prompts.iter().chain(&query).map(|prompt| prompt.tokens);
        Asked {
            tokens: tokens.fold(0, u32::saturating_add),
            content: Content {
                texts: prompts.into_iter().map(|prompt| prompt.text).collect(),
                query: query.map(|query| query.text),
                images,
                audios,
                videos: Vec::new(),
            },
            media,
        }
    }

    fn prompt(&self, key: u64, lengths: Lengths) -> Prompt {
        let length = self.drawn(lengths, Stream::InputLength, key);
        self.prompts.prompt(key, length)
    }

    fn drawn(&self, lengths: Lengths, stream: Stream, key: u64) -> u32 {
        draw(lengths, self.config.seed, stream, key)
    }

    fn talk(&self, session: &SessionSpec, entry: u64) -> Request {
        let seed = self.config.seed;
        let turns = draw(session.turns, seed, Stream::Session, entry);
        let turn = |number: u32| {
            let key = entry.wrapping_mul(TURNS_STRIDE) + u64::from(number);
            let osl = self.config.osl;
            let output_tokens = osl.map(|osl| self.drawn(osl, Stream::OutputLength, key));
            let think_ms = match number {
                0 => 0.0,
                _ => think(session, seed, key),
            };
            let think = Ns::from_secs_f64(think_ms / 1e3);
            (
                self.asked(key, None, number == 0),
                output_tokens,
                think,
                None,
            )
        };
        self.say((0..turns).map(turn))
    }

    /// A session of these turns: content, length, time to think, time at the earliest.
    fn say(&self, turns: impl Iterator<Item = (Asked, Option<u32>, Ns, Option<Ns>)>) -> Request {
        let mut head = Vec::new();
        // A turn's body has the images and recordings of those before it, too.
        let mut media = Media::default();
        let turn = |(asked, output_tokens, think, at): (Asked, Option<u32>, Ns, Option<Ns>)| {
            media.images = media.images.saturating_add(asked.media.images);
            media.audio = media.audio + asked.media.audio;
            // Only `messages` of the extra inputs takes them away, and is refused.
            let parts = endpoint::chat_parts(&self.spec(&asked.content, output_tokens));
            let [front, message, tail] = parts.unwrap_or_default();
            head = front;
            Turn {
                message: message.into(),
                tail: tail.into(),
                tokens: asked.tokens,
                output_tokens,
                media,
                think,
                at,
            }
        };
        let turns: Vec<Turn> = turns.map(turn).collect();
        let head = head.into();
        let talk = Talk { head, turns };
        Request {
            body: talk.body(&[], &talk.turns[0]).into(),
            input_tokens: talk.turns[0].tokens,
            output_tokens: talk.turns[0].output_tokens,
            media: talk.turns[0].media,
            talk: Some(Arc::new(talk)),
        }
    }

    /// A session of a trace.
    fn replay(&self, replay: &Replay, number: u64, salt: u64) -> Request {
        let turns = &replay.sessions[usize::try_from(number).unwrap_or(0)];
        let asked = |turn: &ReplayTurn, is_first: bool| {
            let osl = self.config.osl;
            let drawn =
                || osl.map(|osl| draw(osl, self.config.seed, Stream::OutputLength, turn.entry));
            let prompt = self.replay_prompt(turn, salt);
            (
                self.asked(turn.entry ^ salt, Some(prompt), is_first),
                turn.output_tokens.or_else(drawn),
            )
        };
        match turns.as_slice() {
            [turn] => {
                let (prompt, output_tokens) = asked(turn, true);
                self.one(prompt, output_tokens)
            }
            turns => self.say(turns.iter().enumerate().map(|(number, turn)| {
                let (prompt, output_tokens) = asked(turn, number == 0);
                (prompt, output_tokens, turn.delay, turn.at)
            })),
        }
    }

    /// A block after a space, and its tokens there: tokenizers part words at their spaces.
    fn block(&self, key: u64, length: u32) -> Block {
        let known = |blocks: &HashMap<(u64, u32), Block>| blocks.get(&(key, length)).cloned();
        if let Some(block) = self.blocks.lock().ok().and_then(|blocks| known(&blocks)) {
            return block;
        }
        let text = format!(" {}", self.prompts.prompt(key, length).text);
        let block = Arc::new((text.clone(), self.prompts.count(&text)));
        if let Ok(mut blocks) = self.blocks.lock()
            && blocks.len() < BLOCKS_MAX
        {
            blocks.insert((key, length), block.clone());
        }
        block
    }

    /// The prompt of a trace's entry: blocks of equal ids are equal.
    fn replay_prompt(&self, turn: &ReplayTurn, salt: u64) -> Prompt {
        let tokens = match &turn.input {
            TraceInput::Text(text) => {
                return Prompt {
                    tokens: self.prompts.count(text),
                    text: text.clone(),
                };
            }
            TraceInput::Tokens(tokens) => *tokens,
        };
        if turn.hash_ids.is_empty() {
            return self.prompts.prompt(turn.entry ^ salt, tokens);
        }
        let mut left = tokens;
        let mut text = String::new();
        let mut tokens = 0;
        let mut add = |key: u64, length: u32| {
            let block = self.block(key ^ salt, length);
            text.push_str(&block.0[usize::from(text.is_empty())..]);
            tokens += block.1;
        };
        for id in &turn.hash_ids {
            let length = left.min(BLOCK_TOKENS);
            if length > 0 {
                add(id ^ BLOCK_SALT, length);
            }
            left -= length;
        }
        if left > 0 {
            add(turn.entry, left);
        }
        Prompt { text, tokens }
    }

    /// A prompt with the tokens that its message has, where a chat template is counted.
    fn as_message(&self, prompt: Prompt, is_first: bool) -> Prompt {
        match self.config.tokenizer.has_template {
            false => prompt,
            true => Prompt {
                tokens: self.prompts.count_message(&prompt.text, is_first),
                ..prompt
            },
        }
    }

    fn spec<'a>(&'a self, content: &'a Content, max_tokens: Option<u32>) -> BodySpec<'a> {
        BodySpec {
            model: &self.model,
            content,
            streaming: self.config.streaming,
            max_tokens,
            legacy_max_tokens: self.config.legacy_max_tokens,
            deterministic: self.config.osl_deterministic,
            needs_usage: self.config.token_count == TokenCount::Server,
            per_chunk_usage: self.config.per_chunk_usage,
            extra: &self.config.extra_inputs,
        }
    }
}

/// The key of a further text of a request.
fn further(key: u64, at: u32) -> u64 {
    key.wrapping_mul(BATCH_STRIDE).wrapping_add(at.into()) ^ BATCH_SALT
}

/// How long a user thinks before a turn, in ms: normal, never below 0.
fn think(session: &SessionSpec, seed: u64, key: u64) -> f64 {
    let Lengths { mean, stddev } = session.think_ms;
    let spread = match stddev > 0.0 {
        true => stddev * Rng::new(seed, Stream::Think, key).normal(),
        false => 0.0,
    };
    (mean + spread).max(0.0) * session.think_ratio
}
