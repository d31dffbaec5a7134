//! What a run amounts to: the input of every report.

use super::arrivals::ArrivalCv;
use super::capacity::Headroom;
use super::course::Course;
use super::environment::Environment;
use super::gate::Assertion;
use super::record::Phase;
use super::saturation::Saturation;
use super::server::ServerReport;
use super::slices::Slice;
use super::stability::Stability;
use crate::base::{Ns, limits::LATE_MAX};

/// Percentiles that every distribution has, in percent, ascending.
pub const PERCENTILES: [f64; 11] = [
    1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99,
];

/// A distribution over requests or events, in display units.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Arithmetic mean.
    pub avg: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Sum.
    pub sum: f64,
    /// Number of values, at least 1.
    pub count: u64,
    /// In the order of [`PERCENTILES`].
    pub percentiles: [f64; 11],
    /// False when a histogram of 3 digits stands in for the values.
    pub exact: bool,
}

/// A time-weighted step function's statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// Time-weighted mean.
    pub avg: f64,
    /// Smallest value held.
    pub min: f64,
    /// Largest value held.
    pub max: f64,
    /// Time-weighted standard deviation.
    pub std: f64,
    /// p50, p90, p95, p99 by held time.
    pub percentiles: [f64; 4],
}

/// Error-adjusted percentiles (failures count as infinite); absent where infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct Adjusted {
    /// Smallest.
    pub min: f64,
    /// Successes and failures.
    pub count: u64,
    /// p1, p5, p10, p25, p50, p75, p90, p95, p99; `None` is unbounded.
    pub percentiles: [Option<f64>; 9],
}

/// The figure of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// One number for the run.
    Scalar(f64),
    /// Over requests or events.
    Distribution(Distribution),
    /// Over time.
    Weighted(Weighted),
    /// Error-adjusted.
    Adjusted(Adjusted),
}

/// A metric with its figure. Tags, headers, units are AIPerf's where it has them.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricResult {
    /// `time_to_first_token`.
    pub tag: &'static str,
    /// `Time to First Token`.
    pub header: &'static str,
    /// Display unit: `ms`, `tokens`, `requests/sec`.
    pub unit: &'static str,
    /// The figure.
    pub figure: Figure,
}

/// One phase of a run that has several.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseResult {
    /// Its name.
    pub name: String,
    /// False for a warm-up, which is in no other figure.
    pub measured: bool,
    /// Its metrics, as those of the run.
    pub metrics: Vec<MetricResult>,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorGroup {
    /// AIPerf's code.
    pub code: u16,
    /// AIPerf's type.
    pub name: String,
    /// Message, secrets masked.
    pub message: String,
    /// How many.
    pub count: u64,
}

/// One reason for a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// `send_lag`.
    pub code: &'static str,
    /// DEGRADED or INVALID.
    pub level: Verdict,
    /// What was measured.
    pub measured: f64,
    /// The limit that it crossed.
    pub limit: f64,
    /// Of both: `us (p99)`.
    pub unit: &'static str,
    /// What to do.
    pub advice: &'static str,
}

/// Can the client be believed?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Verdict {
    /// Yes.
    #[default]
    Valid,
    /// With care.
    Degraded,
    /// No.
    Invalid,
}

impl Verdict {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Valid => "VALID",
            Verdict::Degraded => "DEGRADED",
            Verdict::Invalid => "INVALID",
        }
    }

    /// The one with this name.
    pub fn of_name(name: &str) -> Option<Verdict> {
        let all = [Verdict::Valid, Verdict::Degraded, Verdict::Invalid];
        all.into_iter().find(|verdict| verdict.name() == name)
    }
}

/// Spread of a client quantity, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// Largest.
    pub max: u64,
}

/// Spreads of [`super::StampErrors`], in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StampSpreads {
    /// Of each content event's time.
    pub event_time: Spread,
    /// Of TTFT.
    pub ttft: Spread,
    /// Of ITL.
    pub itl: Spread,
}

/// What the client did and added; exported under `client`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ClientReport {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, worst first.
    pub reasons: Vec<Reason>,
    /// `io_uring, multishot recvmsg, kernel receive times` or what stood in, and why.
    pub receive_path: String,
    /// Workers.
    pub cores: Vec<CoreReport>,
    /// User time minus kernel time of each read.
    pub receive_lag: Spread,
    /// Start minus max(due, slot).
    pub send_lag: Spread,
    /// Bound on the error of event times.
    pub event_time_error: Spread,
    /// Errors against the mock's stamps, when they were asked for.
    pub stamp_errors: Option<StampSpreads>,
    /// Slot minus due.
    pub slot_wait: Spread,
    /// How late waits for a time have ended.
    pub timer_lateness: Spread,
    /// Smoothed round-trip time of a connection at the end of each request.
    pub rtt: Spread,
    /// Segments that we had to send again.
    pub retransmits: u64,
    /// Segments that came out of order: one before them was lost or late.
    pub reordered: u64,
    /// Evenness of the arrivals (open loop).
    pub arrivals: Option<ArrivalCv>,
    /// Requests per second dispatched over the measured window.
    pub delivered_rate: Option<f64>,
    /// Requests per second that the schedule's own due times ask for (open loop).
    pub scheduled_rate: Option<f64>,
    /// Time-weighted requests in flight while all slots were meant to be busy.
    pub concurrency_held: Option<f64>,
    /// Asked concurrency.
    pub concurrency_asked: Option<u32>,
    /// Content and other events per read.
    pub events_per_read: Option<f64>,
    /// Reads with a kernel time, of all reads.
    pub kernel_stamped_ratio: Option<f64>,
    /// Requests that were cancelled as asked for; AIPerf counts them as errors.
    pub cancelled: u64,
    /// The share of failed requests that ended the run by being exceeded, 0..1.
    pub failure_limit: Option<f64>,
    /// Requests that failed for want of file descriptors or ports of this machine.
    pub resources_short: u64,
    /// Records that could not be handed over; must be 0.
    pub records_lost: u64,
    /// Warm-up requests still in flight when the measurement began.
    pub warmup_in_flight: u64,
    /// CPU time of the record thread, in ns.
    pub record_thread_cpu_ns: u64,
    /// Tokenizer name and whether it is the model's own.
    pub tokenizer: String,
    /// True when the builtin stood in.
    pub tokenizer_stands_in: bool,
    /// Seed of the run.
    pub seed: u64,
    /// Time from launch to the first request, ns.
    pub startup_ns: u64,
    /// The machine as the run found it.
    pub environment: Environment,
    /// Phases that are told apart.
    pub phases: Vec<PhaseResult>,
    /// What holds for an open loop only.
    pub open_loop: Option<OpenLoop>,
    /// Windows, waits, slowest requests.
    pub course: Course,
    /// What the windows of `--measurement-interval` came to.
    pub stability: Option<Stability>,
    /// How much more the client could drive, where a self-benchmark of this shape is kept.
    pub headroom: Option<Headroom>,
    /// Conditions of `--assert`.
    pub assertions: Vec<Assertion>,
    /// Notes for the method block, each a sentence.
    pub notes: Vec<String>,
}

/// What an open loop did with requests that could not go at their time.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct OpenLoop {
    /// Cap on requests in flight.
    pub cap: Option<u32>,
    /// Under a full cap requests are skipped, else they wait for a slot.
    pub skips_capped: bool,
    /// Requests that the client comes to late are skipped, else sent at once.
    pub skips_late: bool,
    /// Skipped, since no slot was free.
    pub skipped_capped: u64,
    /// Skipped, since the client was late.
    pub skipped_late: u64,
    /// Due within `--benchmark-duration` and still waiting at its end: never sent.
    pub unsent: u64,
    /// How late the client came to a request at the most, sent or skipped.
    pub lag_max: Ns,
    /// The schedule is a trace's.
    pub replays: bool,
    /// Figures of the run when it was over-saturated.
    pub saturation: Option<Saturation>,
    /// That has ended it.
    pub stopped_oversaturated: bool,
}

impl ClientReport {
    /// True when the client came to some request so late that the schedule shows it: by more than
    /// its mean gap, and than a timer's hiccup.
    pub fn fell_behind(&self) -> bool {
        let gap = self.scheduled_rate.map_or(0.0, |rate| 1.0 / rate);
        let least = Ns::from_secs_f64(gap).max(LATE_MAX);
        self.open_loop.is_some_and(|open| open.lag_max > least)
    }

    /// Times that a slot of any worker rested, since no server was met.
    pub fn rests_count(&self) -> u64 {
        self.cores.iter().map(|core| core.rests_count).sum()
    }
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CoreReport {
    /// CPU number that it was pinned to; absent when pinning failed.
    pub cpu: Option<usize>,
    /// Thread CPU time over the measured window's length, 0..1.
    pub busy_ratio: f64,
    /// The same over its busiest second, 0..1; over the whole run when that was shorter.
    pub busy_ratio_1s_max: f64,
    /// User CPU, ns.
    pub user_ns: u64,
    /// System CPU, ns.
    pub system_ns: u64,
    /// Share of the CPU's time that its host gave to other machines, 0..1.
    pub steal_ratio: Option<f64>,
    /// Share of the CPU's time spent on deferred work of the kernel, as the network's, 0..1.
    pub softirq_ratio: Option<f64>,
    /// Time that the worker was ready and another thread ran on its CPU, ns.
    pub run_queue_wait_ns: Option<u64>,
    /// The same over the run's length, 0..1.
    pub run_queue_wait_ratio: Option<f64>,
    /// Times that the scheduler took the CPU away.
    pub involuntary_switches_count: u64,
    /// Longest time between two turns of the loop while there was work, ns.
    pub loop_stall_ns_max: u64,
    /// Times that a slot rested, since no server was met.
    pub rests_count: u64,
    /// Requests done.
    pub requests_count: u64,
    /// Reads.
    pub reads_count: u64,
    /// Events.
    pub events_count: u64,
}

/// A run, summed up.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Summary {
    /// Measured metrics, in AIPerf's order of keys.
    pub metrics: Vec<MetricResult>,
    /// Warm-up metrics, same tags; empty without warm-up.
    pub warmup: Vec<MetricResult>,
    /// Failures by kind, most first.
    pub errors: Vec<ErrorGroup>,
    /// Wall time, ns since 1970, of the first measured start.
    pub start_wall_ns: u64,
    /// Wall time of the last measured end.
    pub end_wall_ns: u64,
    /// Ctrl-C or SIGTERM.
    pub was_cancelled: bool,
    /// Every planned request was sent and ended.
    pub is_complete: bool,
    /// The client's own account.
    pub client: ClientReport,
    /// GPU rows, ready for exports; empty without telemetry.
    pub gpus: Vec<GpuSummary>,
    /// Where they come from.
    pub telemetry: TelemetrySources,
    /// What the servers say of themselves.
    pub server: ServerReport,
    /// Slices of the measurement, where they were asked for.
    pub slices: Vec<Slice>,
}

/// Where GPU rows come from.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TelemetrySources {
    /// Names of all sources that were looked for, as given or found.
    pub configured: Vec<String>,
    /// Those that gave samples.
    pub successful: Vec<String>,
    /// Sentences on those that did not, or not always, with how often.
    pub errors: Vec<(String, u64)>,
    /// Values that could not be, and were dropped.
    pub invalid_samples: u64,
}

/// One GPU over the measured window.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GpuSummary {
    /// `nvml://localhost`, or the url of the page that tells.
    pub source: String,
    /// The machine that it is in; empty for this one.
    pub hostname: String,
    /// `nvidia` or `amd`.
    pub platform: &'static str,
    /// Index as the driver counts.
    pub index: u32,
    /// UUID.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// Id of the MIG instance; empty for a whole GPU.
    pub instance: String,
    /// Tag (`nvidia_power_usage`), header, unit and distribution (sample std).
    pub metrics: Vec<MetricResult>,
    /// Energy used, J, by the counter or by integration.
    pub energy_j: Option<f64>,
    /// `counter` or `power_integration`.
    pub energy_source: &'static str,
    /// The same by integration, beside a counter, J.
    pub energy_check_j: Option<f64>,
    /// `high` or `low`; empty without energy.
    pub energy_confidence: &'static str,
    /// Mean power before the first request, W.
    pub idle_power_w: Option<f64>,
    /// The run's energy figures for this GPU alone: key in the JSON, value.
    pub energy_ratios: Vec<(&'static str, f64)>,
    /// Mean time between two updates of its source, where that is what limits it.
    pub update_period: Option<Ns>,
    /// Sentences on how its figures came about; they go to the method block.
    pub notes: Vec<String>,
}

impl GpuSummary {
    /// How a sentence calls it: `GPU 0`, `node1: GPU 0, instance 3`.
    pub fn called(&self) -> String {
        let host = match self.hostname.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let instance = match self.instance.as_str() {
            "" => String::new(),
            id => format!(", instance {id}"),
        };
        format!("{host}GPU {}{instance}", self.index)
    }

    /// Both are of one GPU: what it draws counts once. A source may not tell the machine.
    pub fn is_of_same(&self, other: &GpuSummary) -> bool {
        let (here, there) = (&self.hostname, &other.hostname);
        let is_one_place = here == there || here.is_empty() || there.is_empty();
        !self.uuid.is_empty() && self.uuid == other.uuid && is_one_place
    }
}

impl Summary {
    /// The metric with this tag.
    pub fn metric(&self, tag: &str) -> Option<&MetricResult> {
        self.metrics.iter().find(|metric| metric.tag == tag)
    }
}

impl Phase {
    /// As in AIPerf's records.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Warmup => "warmup",
            Phase::Profiling => "profiling",
        }
    }
}
