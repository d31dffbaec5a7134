//! Many runs of one command: what is kept of each, and what they amount to.

use super::bootstrap::Interval;
use super::figures::{Figures, MetricFigures};
use super::gate::Gate;
use super::knee::{Knee, LoadPoint};
use super::plateau::{Plateau, Rung};
use serde::{Deserialize, Serialize};

/// What is kept of one run: all that the summary of many needs, now and after a crash.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct RunRecord {
    /// Of its point: `concurrency_4`.
    pub label: String,
    /// What varies, by its key, and its value here.
    pub values: Values,
    /// Which repeat, from 0.
    pub trial: u32,
    /// Its seed.
    pub seed: u64,
    /// Its folder below the sweep's.
    pub folder: String,
    /// Requests in flight that were asked for; absent in an open loop.
    pub concurrency: Option<u32>,
    /// Requests per second that were asked for.
    pub request_rate: Option<f64>,
    /// Distinct prompts, as asked for.
    pub dataset_entries: Option<u64>,
    /// `VALID`, `DEGRADED` or `INVALID`.
    pub verdict: String,
    /// Codes of its reasons.
    pub reasons: Vec<String>,
    /// Requests that failed, 0..1.
    pub failed_share: f64,
    /// Why it did not end as planned, such as all of its requests having failed.
    pub fault: Option<String>,
    /// It had fewer requests than it was to have in flight: its load was never there.
    pub is_short: bool,
    /// Conditions of `--assert` that did not hold.
    pub failed_asserts: Vec<String>,
    /// What it tells of the server's capacity; of a closed loop.
    pub rung: Option<Rung>,
    /// All statistics.
    pub figures: Figures,
    /// Of each GPU, by a name that no other has: its index, of several machines with theirs.
    pub gpus: Vec<(String, Figures)>,
}

/// Percent of its requests of which a point that meets service levels may have lost.
const FAILED_MAX: f64 = 1.0;

impl RunRecord {
    /// Its value of the setting with this key, where that varies.
    pub fn value(&self, key: &str) -> Option<f64> {
        let found = self.values.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| *value)
    }

    /// The client or its machine is in its numbers.
    pub fn is_invalid(&self) -> bool {
        self.verdict == "INVALID"
    }
}

/// Settings by their keys, and their values.
pub type Values = Vec<(String, f64)>;

/// A setting that varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Varied {
    /// Its key: `isl`.
    pub key: &'static str,
    /// Its name in a table.
    pub header: &'static str,
    /// More of it is more load.
    pub is_load: bool,
    /// Its values in their order.
    pub values: Vec<f64>,
}

/// How far a statistic over the requests of all runs of a point can be off by which requests those
/// were.
#[derive(Clone, Debug, PartialEq)]
pub struct Redrawn {
    /// The point.
    pub label: String,
    /// Metric.
    pub tag: String,
    /// `avg`, `p99`.
    pub stat: String,
    /// Estimate and interval.
    pub over: Interval,
}

/// The runs of a command.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Runs {
    /// Model.
    pub model: String,
    /// What varies.
    pub axes: Vec<Varied>,
    /// Labels of all points that were planned, in their order.
    pub points: Vec<String>,
    /// Repeats that were planned.
    pub trials: u32,
    /// Those that are over, in their order.
    pub runs: Vec<RunRecord>,
    /// Nothing that was planned is missing.
    pub is_complete: bool,
    /// The points were picked by a search, which says itself where the limit is.
    pub is_search: bool,
    /// Points count for the knee though the client was the limit.
    pub allows_invalid: bool,
    /// By blocks of requests, as far as the runs' requests are there.
    pub redrawn: Vec<Redrawn>,
    /// Service levels.
    pub slos: Vec<Gate>,
    /// Price of an hour.
    pub price_per_hour: Option<f64>,
    /// Level of confidence intervals.
    pub level: f64,
    /// Pause between repeats, in seconds.
    pub cooldown_s: f64,
    /// `repeated` or `independent`.
    pub order: &'static str,
}

/// A point with its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// Its first run, for what all have in common.
    pub first: &'a RunRecord,
    /// Those that ended well, in order.
    pub good: Vec<&'a RunRecord>,
    /// All.
    pub runs: Vec<&'a RunRecord>,
    /// Each statistic's mean over the good ones; of the first alone where none is.
    pub figures: Figures,
}

impl Point<'_> {
    /// The value of one setting that varies, and all others.
    pub fn split(&self, key: &str) -> (Option<f64>, Values) {
        let values = self.first.values.iter().cloned();
        let (own, others): (Values, Values) = values.partition(|(name, _)| name == key);
        (own.first().map(|(_, value)| *value), others)
    }
}

impl Runs {
    /// The points that have a run, in the order planned.
    pub fn by_point(&self) -> Vec<Point<'_>> {
        let of = |label: &String| -> Option<Point<'_>> {
            let own = self.runs.iter().filter(|run| run.label == *label);
            let runs: Vec<&RunRecord> = own.collect();
            let first = *runs.first()?;
            let good: Vec<&RunRecord> = runs
                .iter()
                .copied()
                .filter(|run| run.fault.is_none())
                .collect();
            let figures = means(&good.iter().map(|run| &run.figures).collect::<Vec<_>>());
            Some(Point {
                first,
                good,
                runs,
                figures,
            })
        };
        self.points.iter().filter_map(of).collect()
    }

    /// How far a statistic of a point can be off by which requests its runs had.
    pub fn redrawn(&self, label: &str, tag: &str, stat: &str) -> Option<&Interval> {
        let is_it = |own: &&Redrawn| own.label == label && own.tag == tag && own.stat == stat;
        self.redrawn.iter().find(is_it).map(|own| &own.over)
    }

    /// The setting that is the load, where one varies.
    pub fn load_axis(&self) -> Option<&Varied> {
        self.axes.iter().rev().find(|axis| axis.is_load)
    }

    /// The knee of each series of points that differ in their load only, with what they have in
    /// common; none where no load varies. A point whose load was never there is left out, and one
    /// that is INVALID, unless those are allowed.
    pub fn knees(&self) -> Vec<(Values, Knee)> {
        let Some(axis) = self.load_axis() else {
            return Vec::new();
        };
        let mut series: Vec<(Values, Vec<LoadPoint>)> = Vec::new();
        for point in self.by_point() {
            let is_invalid = point.good.iter().any(|run| run.is_invalid());
            let is_out = is_invalid && !self.allows_invalid;
            if point.good.is_empty() || point.first.is_short || is_out {
                continue;
            }
            let (load, others) = point.split(axis.key);
            let Some(load) = load else {
                continue;
            };
            let found = self.load_point(load, &point.figures);
            match series.iter_mut().find(|(common, _)| *common == others) {
                Some((_, points)) => points.push(found),
                None => series.push((others, vec![found])),
            }
        }
        let knee = |(common, points): (Values, Vec<LoadPoint>)| (common, Knee::of(&points));
        series.into_iter().map(knee).collect()
    }

    /// The capacity of the server by a sweep of nothing but concurrency, of two points or more that
    /// all had enough requests.
    pub fn capacity(&self) -> Option<Plateau> {
        let is_ladder = matches!(&self.axes[..], [only] if only.key == "concurrency");
        let points = self.by_point();
        let rung = |point: &Point<'_>| point.good.first()?.rung.clone();
        let mut rungs: Vec<Rung> = points.iter().filter_map(rung).collect();
        rungs.sort_by_key(|rung| rung.concurrency);
        // Of a point without windows nobody knows whether it was the highest.
        let is_whole = rungs.len() > 1 && rungs.len() == points.len();
        (is_ladder && is_whole).then(|| Plateau::of(rungs))
    }

    fn load_point(&self, load: f64, figures: &Figures) -> LoadPoint {
        LoadPoint {
            load,
            ttft_p99: first_latency(figures).map(|(_, value)| value),
            throughput: throughput(figures),
            meets: self.meets(figures),
        }
    }

    /// Do the figures meet all service levels? Not with more than 1 % of the requests failed.
    /// `None` where one of them has no figure, or there is none.
    pub fn meets(&self, figures: &Figures) -> Option<bool> {
        if figures
            .get("request_error_rate", "avg")
            .is_some_and(|failed| failed > FAILED_MAX)
        {
            return (!self.slos.is_empty()).then_some(false);
        }
        let each = self
            .slos
            .iter()
            .map(|slo| slo.value(figures).map(|value| slo.holds(value)));
        let all: Option<Vec<bool>> = each.collect();
        all.filter(|all| !all.is_empty())
            .map(|all| all.into_iter().all(|holds| holds))
    }

    /// The price of a million output tokens.
    pub fn price_per_million(&self, figures: &Figures) -> Option<f64> {
        let tokens_per_s = figures.get("output_token_throughput", "avg")?;
        let price = self.price_per_hour? / (tokens_per_s * 3_600.0) * 1e6;
        price.is_finite().then_some(price)
    }
}

/// p99 of the time to the first token in ms, and its tag; of a whole answer where none is streamed.
pub fn first_latency(figures: &Figures) -> Option<(&'static str, f64)> {
    ["time_to_first_token", "request_latency"]
        .into_iter()
        .find_map(|tag| Some((tag, figures.get(tag, "p99")?)))
}

/// Output tokens per second; requests where no tokens are counted.
pub fn throughput(figures: &Figures) -> Option<f64> {
    let of = |tag| figures.get(tag, "avg").filter(|rate| *rate > 0.0);
    of("output_token_throughput").or_else(|| of("request_throughput"))
}

/// Each statistic's mean over runs; one that some lack is left out.
pub fn means(runs: &[&Figures]) -> Figures {
    let Some((first, rest)) = runs.split_first() else {
        return Figures::default();
    };
    let metric = |metric: &MetricFigures| {
        let stat = |(name, value): &(String, f64)| {
            let others: Option<f64> = rest.iter().map(|other| other.get(&metric.tag, name)).sum();
            #[expect(clippy::cast_precision_loss, reason = "a few runs")]
            let count = runs.len() as f64;
            Some((name.clone(), (value + others?) / count))
        };
        MetricFigures {
            tag: metric.tag.clone(),
            unit: metric.unit.clone(),
            stats: metric.stats.iter().filter_map(stat).collect(),
        }
    };
    let all = first
        .0
        .iter()
        .map(metric)
        .filter(|metric| !metric.stats.is_empty());
    Figures(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(label: &str, trial: u32, concurrency: f64, ttft: f64, rate: f64) -> RunRecord {
        let metric = |tag: &str, stat: &str, value| MetricFigures {
            tag: tag.into(),
            unit: "ms".into(),
            stats: vec![(stat.into(), value)],
        };
        RunRecord {
            label: label.into(),
            trial,
            values: vec![("isl".into(), 128.0), ("concurrency".into(), concurrency)],
            figures: Figures(vec![
                metric("time_to_first_token", "p99", ttft),
                metric("output_token_throughput", "avg", rate),
            ]),
            ..RunRecord::default()
        }
    }

    fn runs() -> Runs {
        let varied = |key, is_load| Varied {
            key,
            header: key,
            is_load,
            values: Vec::new(),
        };
        Runs {
            axes: vec![varied("isl", false), varied("concurrency", true)],
            points: vec!["a".into(), "b".into(), "c".into()],
            runs: vec![
                run("a", 0, 1.0, 10.0, 100.0),
                run("b", 0, 2.0, 30.0, 101.0),
                run("a", 1, 1.0, 20.0, 200.0),
            ],
            slos: vec![Gate::parse("p99(ttft)<25ms").unwrap()],
            price_per_hour: Some(3.6),
            ..Runs::default()
        }
    }

    #[test]
    fn a_point_is_the_mean_of_its_runs() {
        let runs = runs();
        let points = runs.by_point();
        assert_eq!(points.len(), 2, "one has no run yet");
        assert_eq!(
            points[0].figures.get("time_to_first_token", "p99"),
            Some(15.0)
        );
        assert_eq!(runs.meets(&points[0].figures), Some(true));
        assert_eq!(runs.meets(&points[1].figures), Some(false));
        assert_eq!(runs.meets(&Figures::default()), None);
        let price = runs.price_per_million(&points[0].figures).unwrap();
        assert!((price - 3.6 / (150.0 * 3_600.0) * 1e6).abs() < 1e-9);
    }

    #[test]
    fn the_knee_is_of_points_that_differ_in_their_load() {
        let knees = runs().knees();
        assert_eq!(knees.len(), 1);
        assert_eq!(knees[0].0, [("isl".to_string(), 128.0)]);
        assert_eq!(knees[0].1.doubled, Some(2.0));
        assert_eq!(knees[0].1.meets, Some(1.0));
    }

    #[test]
    fn a_point_whose_load_was_not_there_or_that_is_invalid_is_no_knee() {
        let mut runs = runs();
        assert_eq!(runs.knees()[0].1.doubled, Some(2.0));
        runs.runs[1].verdict = "INVALID".into();
        assert_eq!(runs.knees()[0].1.doubled, None);
        runs.allows_invalid = true;
        assert_eq!(runs.knees()[0].1.doubled, Some(2.0));
        runs.runs[1].is_short = true;
        assert_eq!(runs.knees()[0].1.doubled, None);
    }

    #[test]
    fn a_point_that_lost_requests_meets_no_service_level() {
        let mut runs = runs();
        let lost = |percent| MetricFigures {
            tag: "request_error_rate".into(),
            unit: "%".into(),
            stats: vec![("avg".into(), percent)],
        };
        for (percent, meets) in [(0.9, true), (1.1, false)] {
            let mut figures = runs.runs[0].figures.clone();
            figures.0.push(lost(percent));
            assert_eq!(runs.meets(&figures), Some(meets), "{percent}");
        }
        runs.slos.clear();
        assert_eq!(runs.meets(&runs.runs[0].figures), None);
    }

    #[test]
    fn a_run_that_failed_is_in_no_mean() {
        let mut runs = runs();
        runs.runs[2].fault = Some("all requests failed".into());
        let points = runs.by_point();
        assert_eq!((points[0].good.len(), points[0].runs.len()), (1, 2));
        assert_eq!(
            points[0].figures.get("time_to_first_token", "p99"),
            Some(10.0)
        );
    }
}
