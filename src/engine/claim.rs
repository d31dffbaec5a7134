//! What a core asks of the pace and is answered, and what a pace is planned by.

use super::gate::GatePlan;
use crate::base::Ns;
use crate::schedule::{Law, Users};
use crate::stats::Phase;
use std::sync::Arc;

/// What to do about requests not sent, and those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    Run,
    /// Send no more; let what is in flight end.
    Drain,
    /// Send no more; cancel what is in flight.
    Cancel,
}

/// What a core asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The first turn of a session; a request of its own is a session of one turn.
    Session,
    /// A further turn of a session that runs.
    Turn,
}

/// Answer to "may I send?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Send this one.
    Take(Ticket),
    /// Not before this time.
    NotBefore(Ns),
    /// No slot: ask again when one frees.
    Full,
    /// Nothing more to send.
    Finished,
}

/// A request that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Number of the request in the run.
    pub index: u64,
    /// Number of its session in the run, where it is the first turn of one.
    pub session: u64,
    /// The same among those of its kind.
    pub drawn: u64,
    /// Planned time; `None` in a closed loop, where the slot knows.
    pub due: Option<Ns>,
    /// Number of its phase in the run.
    pub part: u8,
    /// Warm-up or measured.
    pub phase: Phase,
    /// When a place was granted, if it had to be waited for.
    pub granted: Option<Ns>,
}

/// What the pace must know of a phase.
#[derive(Clone, Debug, Default)]
pub struct PhasePlan {
    /// False for a warm-up.
    pub measured: bool,
    /// Due times; absent in a closed loop.
    pub law: Option<Law>,
    /// Slots of a closed loop, over all cores.
    pub slots: Option<GatePlan>,
    /// Users in place of law and slots.
    pub users: Option<Arc<Users>>,
    /// Cap on sessions at a time, in an open loop.
    pub cap: Option<GatePlan>,
    /// Cap on requests without content.
    pub prefill: Option<GatePlan>,
    /// Cap on requests in flight towards each url.
    pub per_url: Option<u32>,
    /// Requests, or
    pub count: Option<u64>,
    /// sessions,
    pub sessions: Option<u64>,
    /// or the time after which nothing more is sent.
    pub duration: Option<Ns>,
    /// How long what is in flight may take after the duration.
    pub grace: Option<Ns>,
    /// What follows waits until nothing is in flight.
    pub drains: bool,
}

/// How to build a [`Pace`](super::Pace).
#[derive(Clone, Debug, Default)]
pub struct PaceOptions {
    /// In their order, at least one.
    pub phases: Vec<PhasePlan>,
    /// Sessions may have several turns.
    pub turns: bool,
    /// Urls, among which requests are dealt in turn.
    pub urls: usize,
    /// Skip what no slot is free for when it is due, instead of waiting for one.
    pub skip_capped: bool,
    /// Skip what the client comes to too late, instead of sending it at once.
    pub skip_late: bool,
    /// Workers.
    pub cores: u32,
}
