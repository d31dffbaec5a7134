//! A search for the load that a server bears: what it is, checked.

use super::Slo;

/// What a search varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchAxis {
    /// Requests in flight, whole.
    Concurrency,
    /// Requests per second.
    RequestRate,
}

impl SearchAxis {
    /// The setting's key.
    pub fn name(self) -> &'static str {
        match self {
            SearchAxis::Concurrency => "concurrency",
            SearchAxis::RequestRate => "request_rate",
        }
    }

    /// AIPerf's path to it.
    pub fn path(self) -> &'static str {
        match self {
            SearchAxis::Concurrency => "phases.profiling.concurrency",
            SearchAxis::RequestRate => "phases.profiling.rate",
        }
    }

    /// Takes whole numbers only.
    pub fn is_whole(self) -> bool {
        self == SearchAxis::Concurrency
    }
}

/// How a search picks its next load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planner {
    /// Doubling, a smooth rising fit, its root; repeats until the boundary's interval is narrow.
    SmoothIsotonic,
    /// Doubling, then halving; no repeats unless they are asked for.
    MonotonicSla,
}

impl Planner {
    /// AIPerf's name.
    pub fn name(self) -> &'static str {
        match self {
            Planner::SmoothIsotonic => "smooth_isotonic",
            Planner::MonotonicSla => "monotonic_sla",
        }
    }
}

/// What is best among the loads that hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objective {
    /// Metric tag.
    pub tag: String,
    /// Statistic.
    pub stat: String,
    /// More is better.
    pub is_maximized: bool,
}

/// Conditions that are searched for together with others, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierSpec {
    /// As given.
    pub label: String,
    /// As typed, for `stats::Gate`.
    pub slas: Vec<String>,
}

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchSpec {
    /// The recipe that it came from.
    pub recipe: Option<String>,
    /// How the next load is picked.
    pub planner: Planner,
    /// What is varied.
    pub axis: SearchAxis,
    /// The first load, above 0.
    pub lo: f64,
    /// The largest, above `lo`.
    pub hi: f64,
    /// Conditions that all hold at a load that is borne, as typed, for `stats::Gate`.
    pub slas: Vec<String>,
    /// Per request, what makes one good: in the place of the run's own `goodput`, unless empty.
    pub goodput: Vec<Slo>,
    /// More sets of conditions, searched for one after the other; empty for none.
    pub tiers: Vec<TierSpec>,
    /// What is best.
    pub objective: Objective,
    /// Requests of a probe; absent when a duration ends it.
    pub requests: Option<u64>,
    /// Probes at most, repeats included.
    pub iterations_max: u32,
    /// Visits of a load at the boundary; absent when the noise decides.
    pub replicates: Option<u32>,
    /// As given, for the record: no planner draws.
    pub seed: Option<u64>,
}

impl SearchSpec {
    /// The load nearest to `wanted` that the axis takes strictly between both; `None` when there
    /// is none.
    pub fn between(&self, low: f64, high: f64, wanted: f64) -> Option<f64> {
        let value = match self.axis.is_whole() {
            true => {
                let (first, last) = (low.floor() + 1.0, high.ceil() - 1.0);
                wanted.round().min(last).max(first)
            }
            false => rounded(wanted, low, high),
        };
        (low < value && value < high).then_some(value)
    }

    /// True when both are as near as `ratio` of the higher, or as whole numbers can be.
    pub fn is_close(&self, low: f64, high: f64, ratio: f64) -> bool {
        (high - low) < ratio * high || (self.axis.is_whole() && high - low <= 1.0)
    }
}

/// `wanted` with as few digits as tell it from both ends.
fn rounded(wanted: f64, low: f64, high: f64) -> f64 {
    let width = high - low;
    let digits = (2.0 - width.log10().floor()).clamp(0.0, 9.0);
    let scale = 10f64.powf(digits);
    (wanted * scale).round() / scale
}
