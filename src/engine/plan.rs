//! All that a core needs, built once before the clock starts.

use super::deadlines::RequestLimits;
use super::failures::FailureLimit;
use super::pace::Pace;
use crate::base::Ns;
use crate::endpoint::Endpoint;
use crate::http::{Template, TlsClient, Via};
use crate::runtime::Dial;
use crate::stats::summary::CoreReport;
use crate::stats::{Buffers, CoreRecorder, Media, Record};
use crossbeam_channel::{Receiver, Sender};
use std::net::SocketAddr;
use std::sync::Arc;

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    /// Addresses, resolved once, that connections go to in turn: its own or its proxy's. None for
    /// a host that nobody knows.
    pub addrs: Vec<SocketAddr>,
    /// The way there.
    pub via: Via,
    /// TLS, for https.
    pub tls: Option<TlsClient>,
    /// Head of its requests.
    pub template: Template,
}

/// One request's body and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// JSON, or a form.
    pub body: Arc<[u8]>,
    /// Tokens in the prompt.
    pub input_tokens: u32,
    /// `max_tokens`, when asked.
    pub output_tokens: Option<u32>,
    /// Images and recordings in it.
    pub media: Media,
    /// The session that it opens; absent where it stands alone.
    pub talk: Option<Arc<Talk>>,
}

/// A session of several turns: all but the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talk {
    /// Of each body, up to its first message.
    pub head: Arc<[u8]>,
    /// At least one.
    pub turns: Vec<Turn>,
}

/// One turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What the user says: a JSON object.
    pub message: Box<[u8]>,
    /// Of the body, from its last message on.
    pub tail: Box<[u8]>,
    /// Tokens of the message.
    pub tokens: u32,
    /// `max_tokens`, when asked.
    pub output_tokens: Option<u32>,
    /// Images and recordings of the message.
    pub media: Media,
    /// How long the user thinks after the answer before.
    pub think: Ns,
    /// When it is due at the earliest, from the phase's start, in place of `think`.
    pub at: Option<Ns>,
}

impl Talk {
    /// The body of a turn after what was said: messages, each with its comma.
    pub fn body(&self, said: &[u8], turn: &Turn) -> Vec<u8> {
        [&self.head, said, &turn.message, &turn.tail].concat()
    }
}

/// Which session of a run: those that are measured are numbered for themselves, so that a warm-up
/// of any length takes none of them away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// False for a warm-up's.
    pub measured: bool,
    /// From 0, over all phases of its kind.
    pub number: u64,
}

/// Gives the requests of a run; the same for any core.
pub trait Requests: Send + Sync {
    /// The first request of a session. Cost on the hot path: a lookup; building is done ahead.
    fn get(&self, drawn: Drawn) -> Request;
}

/// The plan of one core.
pub struct CorePlan {
    /// Number of the worker.
    pub core: u16,
    /// CPU to pin to.
    pub cpu: Option<usize>,
    /// Where to.
    pub targets: Arc<[Target]>,
    /// Reads the answers.
    pub endpoint: Endpoint,
    /// Answers come as events.
    pub streaming: bool,
    /// Keep every event's bytes.
    pub raw: bool,
    /// Compare the times of events with the stamps that the mock writes into them.
    pub check_stamps: bool,
    /// What to send.
    pub requests: Arc<dyn Requests>,
    /// A session has a connection of its own.
    pub sticky: bool,
    /// When to send.
    pub pace: Arc<Pace>,
    /// Seed for request ids.
    pub seed: u64,
    /// What ends a request before its answer does.
    pub limits: RequestLimits,
    /// Ends the run when too many fail.
    pub failures: Option<Arc<FailureLimit>>,
    /// How sockets are made.
    pub dial: Dial,
    /// A connection may carry another request.
    pub keeps_connections: bool,
    /// Connections to open before the start.
    pub connections: usize,
    /// Workers, among which slots are dealt in turn.
    pub cores: usize,
    /// Longest wait for a batch of reads; zero wakes for each.
    pub batch: Ns,
    /// Use the private ring where there is one.
    pub ring: bool,
    /// Finished requests, in batches.
    pub records: Sender<Vec<Record>>,
    /// Their buffers, coming back.
    pub buffers: Receiver<Buffers>,
}

/// What a core has to say at the end.
pub struct CoreOutput {
    /// Its account.
    pub report: CoreReport,
    /// Client quantities.
    pub recorder: CoreRecorder,
    /// The path that received.
    pub receive_path: String,
    /// Records that found no room.
    pub records_lost: u64,
    /// Steps of the realtime clock.
    pub clock_steps_count: u32,
    /// Something that ended the core early.
    pub fault: Option<String>,
}
