//! What a comparison of runs has found, as plain data: made by `analyze`, shown by `report`.

use super::bootstrap::{Contrast, Interval};
use super::catalogue::Named;
use super::ranks::MannWhitney;

/// A run, as the report names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// As it was given.
    pub path: String,
    /// `VALID`, or absent where the run does not say.
    pub verdict: Option<String>,
    /// Requests that did not fail.
    pub requests: Option<u64>,
    /// Where its requests were read.
    pub source: Source,
}

/// Where the requests of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The binary shard.
    Shard,
    /// `profile_export.jsonl`.
    Lines,
    /// Nowhere: only figures are there, so there are no intervals.
    None,
}

impl Source {
    /// For people and files.
    pub fn name(self) -> &'static str {
        match self {
            Source::Shard => "shard",
            Source::Lines => "jsonl",
            Source::None => "figures",
        }
    }
}

/// Runs against the first of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The first run.
    pub base: Side,
    /// Each of the others.
    pub others: Vec<Versus>,
    /// Of all intervals.
    pub level: f64,
    /// Times that the requests were drawn again.
    pub resamples: u32,
}

/// One run against the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Versus {
    /// The run.
    pub side: Side,
    /// Why requests are not compared one by one with those of the same number; `None`: they are.
    pub unpaired: Option<String>,
    /// What makes the comparison doubtful, a line each.
    pub warnings: Vec<String>,
    /// In the order that was asked for.
    pub metrics: Vec<MetricChange>,
    /// Of `--fail-if`, in their order.
    pub judged: Vec<Judged>,
}

/// A metric in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricChange {
    /// Its definition.
    pub metric: Named,
    /// Of its values by request.
    pub ranks: Option<MannWhitney>,
    /// Its statistics.
    pub stats: Vec<StatChange>,
}

/// A statistic in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct StatChange {
    /// `p99`.
    pub stat: &'static str,
    /// Of the first run, in display units.
    pub base: Option<f64>,
    /// Of the other.
    pub other: Option<f64>,
    /// Other over first, less 1.
    pub change: Option<f64>,
    /// Of the change.
    pub interval: Option<Interval>,
    /// The smallest change that would be found four times out of five.
    pub detectable: Option<f64>,
    /// Requests more, in each run, by which a change of this size would be found; only where none
    /// is seen.
    pub more_requests: Option<u64>,
    /// In a word.
    pub finding: Finding,
}

/// What is seen of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The interval lies on the good side of no change.
    Better,
    /// It lies on the bad one.
    Worse,
    /// It holds no change out, and neither side is the good one: a length, a count.
    Different,
    /// It holds no change.
    NotSeen,
    /// The statistic needs so many requests to say anything.
    TooFew(u64),
    /// There is one number of each run, and no interval.
    Unknown,
    /// One of the runs does not have it.
    Absent,
}

impl Finding {
    /// For people.
    pub fn text(self) -> String {
        match self {
            Finding::Better => "better".into(),
            Finding::Worse => "worse".into(),
            Finding::Different => "different".into(),
            Finding::NotSeen => "no difference seen".into(),
            Finding::TooFew(needed) => format!("needs {needed} requests"),
            Finding::Unknown => "no interval".into(),
            Finding::Absent => "not in both".into(),
        }
    }

    /// For files.
    pub fn name(self) -> &'static str {
        match self {
            Finding::Better => "better",
            Finding::Worse => "worse",
            Finding::Different => "different",
            Finding::NotSeen => "no_difference_seen",
            Finding::TooFew(_) => "too_few_requests",
            Finding::Unknown => "no_interval",
            Finding::Absent => "absent",
        }
    }

    /// Of a contrast whose interval can be believed.
    pub fn of(contrast: &Contrast, metric: &Named) -> Finding {
        // Of the ratio where there is one: it is what is shown.
        let interval = contrast.change.unwrap_or(contrast.difference);
        match (interval.excludes(0.0), better(metric)) {
            (false, _) => Finding::NotSeen,
            (true, None) => Finding::Different,
            (true, Some(is_more)) if is_more == (contrast.difference.estimate > 0.0) => {
                Finding::Better
            }
            (true, Some(_)) => Finding::Worse,
        }
    }
}

/// Is more better? `None` for lengths and counts: they say what was asked, not how it went.
pub fn better(metric: &Named) -> Option<bool> {
    let is_amount = ["tokens", "requests", "count", "KB", ""].contains(&metric.unit);
    let is_failures = metric.tag.starts_with("error_");
    (!is_amount || is_failures).then_some(metric.larger_is_better)
}

/// A condition of `--fail-if`, held against the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// `p99(time_to_first_token) > +5 %`.
    pub text: String,
    /// The limit: a change as a ratio, or a value in display units.
    pub limit: f64,
    /// The limit is a change.
    pub is_relative: bool,
    /// What is held against it: of the other run, or from the first to it.
    pub found: f64,
    /// It is so: the comparison fails.
    pub is_so: bool,
    /// Of what was found.
    pub interval: Option<Interval>,
    /// Requests more, in each run, by which the interval would come clear of the limit; only where
    /// it holds it.
    pub more_requests: Option<u64>,
}

impl Judged {
    /// Does the interval lie on one side of the limit? `None` without one.
    pub fn is_sure(&self) -> Option<bool> {
        self.interval.map(|interval| interval.excludes(self.limit))
    }
}

impl Comparison {
    /// A condition of `--fail-if` is so.
    pub fn is_failed(&self) -> bool {
        let judged = |versus: &Versus| versus.judged.iter().any(|judged| judged.is_so);
        self.others.iter().any(judged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::catalogue::find;

    fn contrast(low: f64, high: f64) -> Contrast {
        let interval = |low: f64, high: f64| Interval {
            estimate: (low + high) / 2.0,
            low,
            high,
            std_error: 1.0,
        };
        Contrast {
            a: interval(99.0, 101.0),
            b: interval(100.0 + low, 100.0 + high),
            difference: interval(low, high),
            change: Some(interval(low / 100.0, high / 100.0)),
        }
    }

    #[test]
    fn a_finding_knows_which_side_is_good() {
        let check = |name: &str, low, high, expected| {
            let metric = find(name).unwrap();
            assert_eq!(
                Finding::of(&contrast(low, high), &metric),
                expected,
                "{name}"
            );
        };
        check("ttft", 1.0, 3.0, Finding::Worse);
        check("ttft", -3.0, -1.0, Finding::Better);
        check("ttft", -1.0, 3.0, Finding::NotSeen);
        check("throughput", 1.0, 3.0, Finding::Better);
        check("throughput", -3.0, -1.0, Finding::Worse);
        check("osl", 1.0, 3.0, Finding::Different);
        check("error_request_count", 1.0, 3.0, Finding::Worse);
    }
}
