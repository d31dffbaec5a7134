//! Every cap in the program, with its reason. Reaching one is counted and reported.

use super::Ns;

/// Bytes of a response head: nginx and Node stop at 8 to 32 KiB; servers behind gateways add more.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Headers in a response head.
pub const HEADERS_MAX: usize = 128;
/// Bytes of one chunk-size line with its extensions.
pub const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;
/// Bytes of one event: a whole answer in one event (16 MiB is 4 million tokens) still fits.
pub const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of one response body.
pub const BODY_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of an error body kept in the record; the rest is counted.
pub const ERROR_BODY_BYTES_MAX: usize = 4 * 1024;
/// Requests whose values are kept exactly; beyond, histograms with 3 digits.
pub const EXACT_REQUESTS_MAX: usize = 1 << 20;
/// Slices of `--slice-duration`, an hour of seconds: each is some 25 kB of the JSON file.
pub const SLICES_MAX: usize = 3_600;
/// Gaps between events that a slice keeps exactly: a histogram of more takes less room.
pub const SLICE_GAPS_MAX: usize = 1 << 15;
/// Streams for which one more core is worth its wake-ups.
pub const STREAMS_PER_CORE: usize = 256;
/// Runs of one sweep: GenAI-Perf's longest has 901; each is some 20 kB of the checkpoint, which is
/// written whole after every run.
pub const RUNS_MAX: usize = 1_000;
/// Concurrency above which the flag is a typing error.
pub const CONCURRENCY_MAX: u32 = 1_000_000;
/// Greatest random seed: larger whole numbers lose digits in JSON readers that use doubles (jq).
pub const RANDOM_SEED_MAX: u64 = (1 << 53) - 1;
/// Reads of one connection in a row on the readiness path (64 KiB each): a server that floods one
/// stream must not keep the loop from the others, from deadlines and from signals.
pub const READS_PER_TURN_MAX: u32 = 16;
/// Connections opened at a time before a run: below every common listen backlog (128).
pub const CONNECTS_IN_FLIGHT_MAX: usize = 64;
/// Rest between the last connection and the first request, for each connection: a server takes them
/// in one after the other, and what it has not taken in yet would be in the first TTFT.
pub const SETTLE_PER_CONNECTION: Ns = Ns(20_000);
/// Longest such rest.
pub const SETTLE_MAX: Ns = Ns(200_000_000);
/// Bytes of built request bodies held in memory; a longer run streams them through a ring.
pub const PAYLOAD_ARENA_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of images and of recordings, in base64, that a run has ready: beyond, they come again. An
/// eighth of a small machine's memory, beside the bodies that hold them.
pub const MEDIA_POOL_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of a ring of large bodies, beyond which it has fewer than its least number of places.
pub const PAYLOAD_RING_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Bytes of payloads written to `inputs.json`; beyond, the seed and a hash of the sequence.
pub const INPUTS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Sessions in it: each is made once more for it, which takes 0.1 ms and more.
pub const INPUTS_SESSIONS_MAX: usize = 10_000;
/// Batches of finished requests that may wait for the record thread, per core.
pub const RECORD_BATCHES_MAX: usize = 1024;
/// Content events of one request whose times are kept; beyond, they are only counted.
pub const EVENT_TIMES_MAX: usize = 1 << 22;
/// Room that a request's raw events get before they come; address space until it is used.
pub const RAW_RESERVE_BYTES_MAX: usize = 1 << 20;
/// Wait for the end of a body after its `[DONE]`: a server that ends it does so in its next write,
/// which a busy event loop may put off for tens of ms; one that never does holds a slot no longer.
pub const BODY_END_WAIT: Ns = Ns(100_000_000);
/// Entries of a trace file: 5 GB of them would be a mistake.
pub const TRACE_ENTRIES_MAX: usize = 50_000_000;
/// Runs of one comparison: each is held in memory, and read by a person.
pub const COMPARED_RUNS_MAX: usize = 32;
/// Windows of `--measurement-interval` before a run ends unstable: perf_analyzer's trials.
pub const STABLE_WINDOWS_MAX: usize = 10;
/// How late an open loop may send a request where late ones are skipped: AIPerf's catch-up window.
pub const LATE_MAX: Ns = Ns(10_000_000);
/// Rest of a slot after its first connection that failed: a restart of a server takes longer.
pub const SLOT_REST_MIN: Ns = Ns(10_000_000);
/// Longest rest of a slot; each failure in a row doubles it: a server that is back is found within
/// this, and until then a slot asks no more often.
pub const SLOT_REST_MAX: Ns = Ns(1_000_000_000);
/// Bytes of a tokenizer's file: the largest known vocabulary has 34 MB.
pub const TOKENIZER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of a file with a chat template, some kilobytes, or of a list of a repository's files.
pub const TEMPLATE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Steps of one rendering of a chat template, which comes from elsewhere and may loop.
pub const TEMPLATE_STEPS_MAX: u64 = 10_000_000;
/// Hosts that a file of the hub may be passed on to; the hub itself uses two.
pub const REDIRECTS_MAX: usize = 8;
/// Bytes of a name of the hub, of a revision, and of a file that holds one.
pub const NAME_BYTES_MAX: usize = 200;
