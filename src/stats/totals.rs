//! What all records of a run amount to.

use super::arrivals::ArrivalCv;
use super::course::Course;
use super::histogram::Histogram;
use super::slices::Sliced;
use super::summary::{ErrorGroup, MetricResult, PhaseResult};
use crate::base::Ns;

/// The closed loop from the first to the last moment with all slots busy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyState {
    /// All slots busy for the first time.
    pub start: Ns,
    /// And for the last time.
    pub end: Ns,
    /// Valid requests that ended in it, per second.
    pub request_throughput: f64,
    /// Output tokens in it, spread evenly over each request's decode time, per second.
    pub output_token_throughput: Option<f64>,
    /// Time-weighted requests in flight in it.
    pub concurrency_held: f64,
}

/// How one service level was met.
#[derive(Clone, Debug, PartialEq)]
pub struct Attainment {
    /// Tag.
    pub tag: String,
    /// Limit.
    pub limit: f64,
    /// Of all requests, failed ones included; 0..1.
    pub met_ratio: f64,
}

/// All that the records say.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Totals {
    /// Measured metrics, in AIPerf's order of keys.
    pub metrics: Vec<MetricResult>,
    /// Warm-up metrics; empty without warm-up.
    pub warmup: Vec<MetricResult>,
    /// Of each phase that is told apart.
    pub phases: Vec<PhaseResult>,
    /// Those that AIPerf lacks, for `client`: `<tag>_from_due`, stages of ours.
    pub client: Vec<MetricResult>,
    /// Failures by kind, most first.
    pub errors: Vec<ErrorGroup>,
    /// Of them, requests that were cancelled as asked for.
    pub cancelled: u64,
    /// Wall time of the first measured start; 0 without a request.
    pub start_wall_ns: u64,
    /// Wall time of the last measured end.
    pub end_wall_ns: u64,
    /// First measured start and last end, monotonic.
    pub window: Option<(Ns, Ns)>,
    /// Open loop only.
    pub arrivals: Option<ArrivalCv>,
    /// Closed loop only.
    pub steady: Option<SteadyState>,
    /// Per service level.
    pub attainment: Vec<Attainment>,
    /// Output tokens of good requests per second.
    pub good_token_throughput: Option<f64>,
    /// ns histograms by tag, for the interval log.
    pub histograms: Vec<(&'static str, Histogram)>,
    /// Windows, waits, slowest requests.
    pub course: Course,
    /// Slices of the measurement, where they were asked for.
    pub sliced: Sliced,
}
