//! The shape of a load: how requests arrive, how many may be in flight, and for how long.

use super::Lengths;
use crate::base::Ns;
use std::path::PathBuf;

/// How something comes up over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RampKind {
    /// By the same step in the same time.
    Linear,
    /// By the square of the time that has passed.
    Exponential,
    /// By steps at random times.
    Poisson,
}

/// A ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// Its form.
    pub kind: RampKind,
    /// How long it takes.
    pub over: Ns,
}

/// How many at a time, and how they come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The most.
    pub most: u32,
    /// From one to `most`; absent means all at once.
    pub ramp: Option<Ramp>,
}

impl Level {
    /// So many from the start.
    pub fn flat(most: u32) -> Level {
        Level { most, ramp: None }
    }
}

/// The law of the gaps between arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps of this shape: burstier than Poisson below 1, smoother above.
    Gamma(f64),
    /// All at once (`--request-rate inf`).
    Burst,
}

impl Pattern {
    /// As AIPerf calls it.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Constant => "constant",
            Pattern::Poisson => "poisson",
            Pattern::Gamma(_) => "gamma",
            Pattern::Burst => "concurrency_burst",
        }
    }
}

/// The rate of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// Gaps.
    pub pattern: Pattern,
    /// Requests per second; of a series, its last.
    pub per_s: f64,
    /// How it comes up.
    pub ramp: Option<Ramp>,
    /// `--request-rate-series`: seconds and requests per second, instead of one rate.
    pub series: Vec<(f64, f64)>,
    /// `--arrival-normalize`: vLLM's stretch to exactly count / rate.
    pub normalized: bool,
}

impl Rate {
    /// The same gap for ever.
    pub fn constant(per_s: f64) -> Rate {
        Rate::of(Pattern::Constant, per_s)
    }

    fn of(pattern: Pattern, per_s: f64) -> Rate {
        Rate {
            pattern,
            per_s,
            ramp: None,
            series: Vec::new(),
            normalized: false,
        }
    }
}

/// How requests arrive, and how many may be in flight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Of an open loop; absent in a closed one.
    pub rate: Option<Rate>,
    /// Slots of a closed loop, where it is always there; the cap of an open one.
    pub concurrency: Option<Level>,
    /// Cap on requests that have no content yet.
    pub prefill: Option<Level>,
    /// Cap on requests in flight towards each url.
    pub per_url: Option<u32>,
    /// `--user-centric-rate`: so many users, each with a turn every `users / rate` seconds.
    pub users: Option<u32>,
    /// Requests go at the times of the trace.
    pub scheduled: bool,
}

impl Load {
    /// A closed loop of so many slots.
    pub fn closed(slots: u32) -> Load {
        Load {
            concurrency: Some(Level::flat(slots)),
            ..Load::default()
        }
    }

    /// An open loop, with a cap where one is given.
    pub fn open(pattern: Pattern, per_s: f64, cap: Option<u32>) -> Load {
        Load {
            rate: Some(Rate::of(pattern, per_s)),
            concurrency: cap.map(Level::flat),
            ..Load::default()
        }
    }

    /// True without times of its own: the next request goes when one ends.
    pub fn is_closed(&self) -> bool {
        self.rate.is_none() && !self.scheduled
    }

    /// Slots of a closed loop.
    pub fn slots(&self) -> Option<u32> {
        let slots = self.concurrency.map(|level| level.most);
        slots.filter(|_| self.is_closed())
    }

    /// The cap of an open loop.
    pub fn cap(&self) -> Option<u32> {
        let cap = self.concurrency.map(|level| level.most);
        cap.filter(|_| !self.is_closed())
    }

    /// True when a request may have to wait for something else than its time or its slot.
    pub fn is_capped(&self) -> bool {
        self.cap().is_some() || self.prefill.is_some() || self.per_url.is_some()
    }

    /// Requests per second of an open loop.
    pub fn rate_per_s(&self) -> Option<f64> {
        self.rate.as_ref().map(|rate| rate.per_s)
    }
}

/// One part of a run, with a load and an end of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseSpec {
    /// Its name.
    pub name: String,
    /// False for a warm-up, which is in no figure.
    pub measured: bool,
    /// Its load.
    pub load: Load,
    /// Ends after so many requests,
    pub requests: Option<u64>,
    /// or sessions,
    pub sessions: Option<u64>,
    /// or so long, whichever comes first.
    pub duration: Option<Ns>,
    /// How long what is in flight may take after the end of sending; absent means as long as it
    /// takes.
    pub grace: Option<Ns>,
    /// What follows waits until this phase has nothing in flight, instead of taking its slots over.
    pub drains: bool,
}

impl Default for PhaseSpec {
    fn default() -> PhaseSpec {
        PhaseSpec {
            name: "profiling".into(),
            measured: true,
            load: Load::closed(1),
            requests: None,
            sessions: None,
            duration: None,
            grace: None,
            drains: false,
        }
    }
}

/// Sessions of several turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionSpec {
    /// How many turns.
    pub turns: Lengths,
    /// How long a user thinks before each turn but the first, in ms; 0 is not at all.
    pub think_ms: Lengths,
    /// Factor of that time.
    pub think_ratio: f64,
}

/// A trace file to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpec {
    /// Where it is.
    pub path: PathBuf,
    /// `--concurrency` is given: it caps the replay.
    pub capped: bool,
    /// At its own times; absent means where it has some and no other load is given.
    pub scheduled: Option<bool>,
    /// The first request is due at once.
    pub auto_offset: bool,
    /// From this stamp on,
    pub start: Option<Ns>,
    /// up to this one.
    pub end: Option<Ns>,
    /// So many times as fast.
    pub speedup: f64,
    /// Requests of one stamp are spread up to the next.
    pub jitter: bool,
}
