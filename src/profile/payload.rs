//! Request bodies: built before the clock starts, or by a bounded builder ahead of need.

use super::replay::{Replay, ReplayTurn};
use crate::base::{Ns, Rng, limits, rng::Stream};
use crate::config::{Config, Lengths, SessionSpec};
use crate::endpoint::{self, BodySpec};
use crate::engine::{Request, Requests, Talk, Turn};
use crate::runtime;
use crate::workload::{Prompt, PromptSource, TraceInput, draw};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Bodies kept ready ahead of the run when it is too long to build whole.
const RING_SLOTS: u64 = 16_384;
/// And as few as this when each is large.
const RING_SLOTS_MIN: u64 = 64;
/// Requests built at once before the start.
const BUILD_AHEAD: u64 = 20_000;
/// Of a ring, those that are there before the start; of sessions there are fewer, of more prompts.
const FIRST_LAP: u64 = 2_048;
const FIRST_SESSIONS: u64 = 128;
/// Tokens of a block that a trace's hash id stands for, as Mooncake has them.
const BLOCK_TOKENS: u32 = 512;
/// Keys of prompts that must be no other's.
const BLOCK_SALT: u64 = 1 << 62;
const WARMUP_SALT: u64 = 1 << 61;
/// More than the turns of any session: each has a prompt of its own.
const TURNS_STRIDE: u64 = 10_007;

/// Builds the request of any number; the same on any core.
pub struct Builder {
    config: Arc<Config>,
    model: String,
    prompts: PromptSource,
    replay: Option<Arc<Replay>>,
}

impl Builder {
    /// A builder for a run.
    pub fn new(
        config: Arc<Config>,
        model: String,
        prompts: PromptSource,
        replay: Option<Arc<Replay>>,
    ) -> Builder {
        Builder {
            config,
            model,
            prompts,
            replay,
        }
    }

    /// The first request of session `number` of the run.
    pub fn build(&self, number: u64) -> Request {
        if let Some(replay) = &self.replay {
            return self.replay(replay, number);
        }
        let entries = self.config.dataset_entries;
        let entry = entries.map_or(number, |entries| number % entries.max(1));
        match &self.config.session {
            Some(session) => self.talk(session, entry),
            None => self.alone(entry),
        }
    }

    fn alone(&self, entry: u64) -> Request {
        let (prompt, output_tokens) = self.ask(entry);
        let body = endpoint::body(self.config.api, &self.spec(&prompt.text, output_tokens));
        Request {
            body: body.into(),
            input_tokens: prompt.tokens,
            output_tokens,
            talk: None,
        }
    }

    fn talk(&self, session: &SessionSpec, entry: u64) -> Request {
        let seed = self.config.seed;
        let turns = draw(session.turns, seed, Stream::Session, entry);
        let turn = |number: u32| {
            let key = entry.wrapping_mul(TURNS_STRIDE) + u64::from(number);
            let (prompt, output_tokens) = self.ask(key);
            let think_ms = match number {
                0 => 0.0,
                _ => think(session, seed, key),
            };
            (
                prompt,
                output_tokens,
                Ns::from_secs_f64(think_ms / 1e3),
                None,
            )
        };
        self.say((0..turns).map(turn))
    }

    /// A session of these turns: prompt, length, time to think, time at the earliest.
    fn say(&self, turns: impl Iterator<Item = (Prompt, Option<u32>, Ns, Option<Ns>)>) -> Request {
        let mut head = Vec::new();
        let turn = |(prompt, output_tokens, think, at): (Prompt, Option<u32>, Ns, Option<Ns>)| {
            // Only `messages` of the extra inputs takes them away, and is refused.
            let parts = endpoint::chat_parts(&self.spec(&prompt.text, output_tokens));
            let [front, message, tail] = parts.unwrap_or_default();
            head = front;
            Turn {
                message: message.into(),
                tail: tail.into(),
                tokens: prompt.tokens,
                output_tokens,
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
            talk: Some(Arc::new(talk)),
        }
    }

    /// A session of a trace. A warm-up takes them from the front, too, with other words.
    fn replay(&self, replay: &Replay, number: u64) -> Request {
        let warmups = self.config.warmups();
        let warmup: u64 = warmups
            .filter_map(|phase| phase.sessions.or(phase.requests))
            .sum();
        let (number, salt) = match number.checked_sub(warmup) {
            Some(number) => (number, 0),
            None => (number, WARMUP_SALT),
        };
        let all = replay.sessions.len() as u64;
        let turns = &replay.sessions[usize::try_from(number % all).unwrap_or(0)];
        let asked = |turn: &ReplayTurn| {
            let osl = self.config.osl;
            let drawn =
                || osl.map(|osl| draw(osl, self.config.seed, Stream::OutputLength, turn.entry));
            (
                self.replay_prompt(turn, salt),
                turn.output_tokens.or_else(drawn),
            )
        };
        match turns.as_slice() {
            [turn] => {
                let (prompt, output_tokens) = asked(turn);
                let spec = self.spec(&prompt.text, output_tokens);
                Request {
                    body: endpoint::body(self.config.api, &spec).into(),
                    input_tokens: prompt.tokens,
                    output_tokens,
                    talk: None,
                }
            }
            turns => self.say(turns.iter().map(|turn| {
                let (prompt, output_tokens) = asked(turn);
                (prompt, output_tokens, turn.delay, turn.at)
            })),
        }
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
        let mut parts = Vec::new();
        for id in &turn.hash_ids {
            let length = left.min(BLOCK_TOKENS);
            if length > 0 {
                parts.push(self.prompts.prompt(id ^ salt ^ BLOCK_SALT, length).text);
            }
            left -= length;
        }
        if left > 0 {
            parts.push(self.prompts.prompt(turn.entry ^ salt, left).text);
        }
        let text = parts.join(" ");
        let tokens = self.prompts.count(&text);
        Prompt { text, tokens }
    }

    /// Prompt and length of an entry.
    fn ask(&self, entry: u64) -> (Prompt, Option<u32>) {
        let config = &*self.config;
        let input_tokens = draw(config.isl, config.seed, Stream::InputLength, entry);
        let output = |osl| draw(osl, config.seed, Stream::OutputLength, entry);
        (
            self.prompts.prompt(entry, input_tokens),
            config.osl.map(output),
        )
    }

    fn spec<'a>(&'a self, prompt: &'a str, max_tokens: Option<u32>) -> BodySpec<'a> {
        BodySpec {
            model: &self.model,
            prompt,
            streaming: self.config.streaming,
            max_tokens,
            legacy_max_tokens: self.config.legacy_max_tokens,
            deterministic: self.config.osl_deterministic,
            extra: &self.config.extra_inputs,
        }
    }
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

/// All requests of a run, as the cores ask for them.
pub enum Payloads {
    /// Built whole; number n is the one at n modulo their count.
    Arena(Vec<Request>),
    /// Built ahead by a thread.
    Ring(Arc<RingState>),
}

/// A ring of requests; each slot holds one number at a time.
pub struct RingState {
    builder: Builder,
    slots: Vec<Mutex<Option<(u64, Request)>>>,
    /// Numbers below this have been asked for; the builder stays within a ring of it.
    asked: AtomicU64,
    built_late: AtomicU64,
    wake: (Mutex<bool>, Condvar),
}

impl Payloads {
    /// Builds `total` requests, or starts a builder when they are too many or without number; it
    /// keeps off the workers' CPUs.
    pub fn new(builder: Builder, total: Option<u64>, workers: &[usize]) -> Payloads {
        let size = size(&builder.build(0)) as u64;
        let fits = |n: u64| {
            n <= BUILD_AHEAD && n.saturating_mul(size) <= limits::PAYLOAD_ARENA_BYTES_MAX as u64
        };
        // Entries that are used again and again are built once.
        let entries = builder.config.dataset_entries.map(|entries| entries.max(1));
        // How many sessions the requests make is not known.
        let total = total.filter(|_| builder.config.session.is_none() && builder.replay.is_none());
        match total.into_iter().chain(entries).min() {
            Some(total) if fits(total) => Payloads::Arena(build_all(&builder, total)),
            _ => Payloads::Ring(RingState::start(builder, size, workers.to_vec())),
        }
    }

    /// Requests that a core had to build itself, because the builder was behind.
    pub fn built_late_count(&self) -> u64 {
        match self {
            Payloads::Arena(_) => 0,
            Payloads::Ring(ring) => ring.built_late.load(Ordering::Relaxed),
        }
    }

    /// Ends the builder.
    pub fn stop(&self) {
        if let Payloads::Ring(ring) = self {
            if let Ok(mut stop) = ring.wake.0.lock() {
                *stop = true;
            }
            ring.wake.1.notify_all();
        }
    }
}

/// Bytes that a request takes, with the session that it opens.
fn size(request: &Request) -> usize {
    let turns = request.talk.iter().flat_map(|talk| &talk.turns);
    let turns = turns.map(|turn| turn.message.len() + turn.tail.len());
    request.body.len() + turns.sum::<usize>()
}

/// Builds on as many threads as there are cores: the clock has not started.
fn build_all(builder: &Builder, total: u64) -> Vec<Request> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = total.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                let range = (part * share).min(total)..((part + 1) * share).min(total);
                scope.spawn(move || range.map(|index| builder.build(index)).collect::<Vec<_>>())
            })
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_default())
            .collect()
    })
}

impl RingState {
    fn start(builder: Builder, size: u64, workers: Vec<usize>) -> Arc<RingState> {
        let fit = limits::PAYLOAD_ARENA_BYTES_MAX as u64 / size.max(1);
        let slots = fit.clamp(RING_SLOTS_MIN, RING_SLOTS);
        let first = match builder.config.session {
            Some(_) => FIRST_SESSIONS,
            None => FIRST_LAP,
        };
        let first = first.min(slots / 2);
        let ring = Arc::new(RingState {
            builder,
            slots: (0..slots).map(|_| Mutex::new(None)).collect(),
            asked: AtomicU64::new(0),
            built_late: AtomicU64::new(0),
            wake: (Mutex::new(false), Condvar::new()),
        });
        // The first lap is there before the clock starts.
        for index in 0..first {
            ring.fill(index);
        }
        let worker = ring.clone();
        let spawned = std::thread::Builder::new()
            .name("payloads".into())
            .spawn(move || {
                runtime::avoid(&workers);
                worker.work(first);
            });
        // Without a builder the cores build their own, and that is counted.
        drop(spawned);
        ring
    }

    fn work(&self, first: u64) {
        let mut next = first;
        let ahead = self.slots.len() as u64 * 3 / 4;
        loop {
            while next < self.asked.load(Ordering::Acquire) + ahead {
                self.fill(next);
                next += 1;
            }
            let Ok(stop) = self.wake.0.lock() else { return };
            let pause = std::time::Duration::from_millis(2);
            match self.wake.1.wait_timeout(stop, pause) {
                Ok((stop, _)) if !*stop => {}
                _ => return,
            }
        }
    }

    fn slot(&self, index: u64) -> &Mutex<Option<(u64, Request)>> {
        &self.slots[usize::try_from(index % self.slots.len() as u64).unwrap_or(0)]
    }

    fn fill(&self, index: u64) {
        let request = self.builder.build(index);
        if let Ok(mut slot) = self.slot(index).lock() {
            *slot = Some((index, request));
        }
    }

    fn get(&self, index: u64) -> Request {
        self.asked.fetch_max(index, Ordering::AcqRel);
        if let Ok(slot) = self.slot(index).lock()
            && let Some((number, request)) = &*slot
            && *number == index
        {
            return request.clone();
        }
        self.built_late.fetch_add(1, Ordering::Relaxed);
        self.builder.build(index)
    }
}

impl Requests for Payloads {
    fn get(&self, index: u64) -> Request {
        match self {
            Payloads::Arena(all) => {
                let place = usize::try_from(index).unwrap_or(0);
                all[place % all.len()].clone()
            }
            Payloads::Ring(ring) => ring.get(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Lengths, TokenizerSpec};
    use crate::workload::Tokenizer;

    #[test]
    fn entries_are_built_once_and_used_in_turn_however_long_the_run() {
        let (tokenizer, _) = Tokenizer::load(&TokenizerSpec::Builtin, None).unwrap();
        let config = Arc::new(Config {
            dataset_entries: Some(3),
            isl: Lengths {
                mean: 8.0,
                stddev: 2.0,
            },
            ..Config::default()
        });
        let tokenizer = Arc::new(tokenizer);
        let prompts = || PromptSource::new(tokenizer.clone(), config.seed);
        let build = || Builder::new(config.clone(), "m".into(), prompts(), None);
        for total in [None, Some(2), Some(1_000_000)] {
            let payloads = Payloads::new(build(), total, &[]);
            assert!(matches!(payloads, Payloads::Arena(_)), "{total:?}");
            let count = total.unwrap_or(10).min(10);
            for index in 0..count {
                assert_eq!(payloads.get(index), build().build(index), "{total:?}");
            }
        }
    }
}
