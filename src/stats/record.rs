//! The narrow waist: what one request left behind. Plain data; left of it nothing knows metrics,
//! right of it nothing knows sockets.

use crate::base::Ns;

/// Which part of a run a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Phase {
    /// Before the measurement; in no figure.
    Warmup,
    /// Measured.
    #[default]
    Profiling,
}

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// A status that is not 2xx.
    Server,
    /// Connect refused, reset, closed.
    Network,
    /// A time limit of ours.
    Timeout,
    /// A 200 whose stream is cut, empty, of the wrong type, or holds an error.
    Stream,
    /// The proxy: it is not there, wants a password, or opens no tunnel.
    Proxy,
    /// Ours: file descriptors, ports, cancelled at the end of the run.
    Client,
    /// Nobody's: cancelled as asked for.
    Cancelled,
}

/// The part of a request in which it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// TCP, a proxy's tunnel, or TLS.
    Connect,
    /// Writing the request.
    Send,
    /// Written, nothing (or no content) received.
    FirstToken,
    /// Content has begun.
    Stream,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whose fault.
    pub kind: FailureKind,
    /// Where.
    pub stage: Stage,
    /// HTTP status, 499 for cancelled, 0 where there is none: AIPerf's `code`.
    pub code: u16,
    /// AIPerf's `type`: reason phrase, or a name such as `timeout`, `stream_truncated`,
    /// `incomplete_body`, `no_content`, `stream_error`, `content_type`, `connection_refused`.
    pub name: String,
    /// What happened, never empty, capped by `limits::ERROR_BODY_BYTES_MAX`.
    pub message: String,
    /// For timeouts: after how long.
    pub after: Option<Ns>,
}

/// The server's own counts; each absent when not sent. The last that is not null wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// `prompt_tokens`.
    pub prompt: Option<u32>,
    /// `completion_tokens`.
    pub completion: Option<u32>,
    /// `total_tokens`.
    pub total: Option<u32>,
    /// `completion_tokens_details.reasoning_tokens`.
    pub reasoning: Option<u32>,
    /// `prompt_tokens_details.cached_tokens`.
    pub cache_read: Option<u32>,
    /// `cache_creation_input_tokens`: what the cache has taken in.
    pub cache_write: Option<u32>,
    /// The server counts the two beside its prompt; they are in `prompt` here.
    pub is_cache_apart: bool,
    /// `completion_tokens_details.accepted_prediction_tokens`.
    pub accepted_prediction: Option<u32>,
    /// `completion_tokens_details.rejected_prediction_tokens`.
    pub rejected_prediction: Option<u32>,
}

impl Usage {
    /// Takes a later usage of the same answer: each count that it has wins, the others stay.
    pub fn take(&mut self, later: &Usage) {
        let is_apart = self.is_cache_apart || later.is_cache_apart;
        self.prompt = later.bare_prompt().or(self.bare_prompt());
        self.cache_write = later.cache_write.or(self.cache_write);
        self.completion = later.completion.or(self.completion);
        self.total = later.total.or(self.total);
        self.reasoning = later.reasoning.or(self.reasoning);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.accepted_prediction = later.accepted_prediction.or(self.accepted_prediction);
        self.rejected_prediction = later.rejected_prediction.or(self.rejected_prediction);
        if is_apart {
            self.add_cache();
        }
    }

    /// Adds what was counted of the cache to a prompt that is without it.
    pub fn add_cache(&mut self) {
        self.is_cache_apart = true;
        let cache = self.cache();
        self.prompt = self.prompt.map(|prompt| prompt.saturating_add(cache));
    }

    fn cache(&self) -> u32 {
        let [read, write] = [self.cache_read, self.cache_write].map(Option::unwrap_or_default);
        read.saturating_add(write)
    }

    /// The prompt as the server counts it.
    fn bare_prompt(&self) -> Option<u32> {
        match self.is_cache_apart {
            true => self
                .prompt
                .map(|prompt| prompt.saturating_sub(self.cache())),
            false => self.prompt,
        }
    }
}

/// What a request held beside text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Media {
    /// Images sent.
    pub images: u32,
    /// Recordings sent, how long they are together.
    pub audio: Ns,
}

/// Where a token count comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TokenSource {
    /// Nobody counted.
    #[default]
    None,
    /// The server's `usage`.
    Server,
    /// Our tokenizer.
    Client,
}

/// Token counts as used by the metrics; set by the record thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TokenCounts {
    /// Input sequence length.
    pub input: Option<u32>,
    /// Answer tokens without reasoning.
    pub output: Option<u32>,
    /// Reasoning tokens.
    pub reasoning: Option<u32>,
    /// Source of `output` and `reasoning`.
    pub output_source: TokenSource,
    /// Source of `input`.
    pub input_source: TokenSource,
    /// Our tokenizer's count of the output (answer + reasoning), when it kept up.
    pub client_output: Option<u32>,
    /// Our tokenizer's count of the reasoning, when it kept up.
    pub client_reasoning: Option<u32>,
    /// Our tokenizer's count of the prompt.
    pub client_input: Option<u32>,
}

/// Recycled buffers: they go to the record thread with the record and come back.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Buffers {
    /// Times of the content events, ascending.
    pub content_times: Vec<Ns>,
    /// Answer text (content, then tool call fragments), the inside of a JSON string, still escaped.
    pub answer: Vec<u8>,
    /// Reasoning text, in the same form.
    pub reasoning: Vec<u8>,
    /// With `--export-level raw`: every event's data, each with its time and length; a whole answer
    /// is one.
    pub raw: Vec<u8>,
    /// Time and end offset into `raw` of each event.
    pub raw_marks: Vec<(Ns, usize)>,
    /// Where `raw` is kept: the body of the request.
    pub asked: Vec<u8>,
}

/// One request. Times are monotonic; absent means it did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Record {
    /// Number of the request in the run, over all cores, warm-up included.
    pub index: u64,
    /// Warm-up or measured.
    pub phase: Phase,
    /// Number of its phase in the run.
    pub part: u8,
    /// Number of its session in the run.
    pub session: u64,
    /// Number of its turn in the session, from 0.
    pub turn: u32,
    /// Worker that ran it.
    pub core: u16,
    /// Index into the run's urls.
    pub url: u16,
    /// 128 random bits, sent as `X-Request-ID` in UUID form.
    pub request_id: u128,
    /// 128 random bits, the same for each turn of its session.
    pub correlation_id: u128,
    /// 0, or 1 after the one retry on a stale connection.
    pub attempt: u8,
    /// Planned send time; in a closed loop the moment its slot became free.
    pub due: Ns,
    /// Of a further turn: when the answer before it ended. The session held its slot since.
    pub turn_since: Option<Ns>,
    /// A concurrency slot was granted.
    pub slot: Ns,
    /// Start of the request as the metrics see it (spec: `sent` on an open connection, dispatch
    /// when it must connect first).
    pub start: Ns,
    /// TCP connect began; only on a new connection.
    pub connect_start: Option<Ns>,
    /// TCP connected.
    pub connect_done: Option<Ns>,
    /// TLS done.
    pub tls_done: Option<Ns>,
    /// Read just before the first send call.
    pub sent: Option<Ns>,
    /// The last byte was taken by the kernel.
    pub written: Option<Ns>,
    /// The response head was complete.
    pub headers: Option<Ns>,
    /// First byte of the body.
    pub first_byte: Option<Ns>,
    /// First content event (reasoning counts); for a whole answer, the end of the body.
    pub first_content: Option<Ns>,
    /// First content event that is not reasoning.
    pub first_output: Option<Ns>,
    /// Second content event.
    pub second_content: Option<Ns>,
    /// Last content event.
    pub last_content: Option<Ns>,
    /// Last byte of the body, or the moment it failed.
    pub done: Ns,
    /// True when the answer came as a stream of events.
    pub streamed: bool,
    /// HTTP status.
    pub status: Option<u16>,
    /// Why it failed; absent when it did not.
    pub failure: Option<Box<Failure>>,
    /// The stream ended without `[DONE]`.
    pub done_missing: bool,
    /// The stream ended without a finish reason.
    pub finish_reason_missing: bool,
    /// Request bytes, head and body.
    pub sent_bytes: u64,
    /// Response body bytes.
    pub received_bytes: u64,
    /// Reads that brought body bytes.
    pub reads_count: u32,
    /// Content events.
    pub events_count: u32,
    /// Tokens asked for in the prompt.
    pub requested_input: Option<u32>,
    /// `max_tokens` of the request.
    pub requested_output: Option<u32>,
    /// Images and recordings.
    pub media: Media,
    /// Tokens of the first content event, when the server says.
    pub first_content_tokens: Option<u32>,
    /// The server's counts.
    pub usage: Usage,
    /// Counts for the metrics.
    pub tokens: TokenCounts,
    /// Times and text.
    pub buffers: Buffers,
}

impl Record {
    /// True when it is in the latency figures.
    pub fn is_valid(&self) -> bool {
        self.failure.is_none()
    }

    /// True when it was cancelled as asked for: no failure, and no figure either.
    pub fn is_cancelled(&self) -> bool {
        let kind = self.failure.as_deref().map(|failure| failure.kind);
        kind == Some(FailureKind::Cancelled)
    }

    /// End of the request as the metrics see it: last content.
    pub fn end(&self) -> Option<Ns> {
        self.last_content
    }
}
