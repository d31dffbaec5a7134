//! `profile_export_aiperf_aggregate.{json,csv}`: what repeats of a point have in common, as AIPerf
//! writes it.

use super::csv::line;
use crate::stats::confidence::Confidence;
use crate::stats::many::{Point, RunRecord, Runs};
use serde_json::{Map, Value, json};

/// AIPerf's version of the format.
const SCHEMA_VERSION: &str = "1.0";
#[rustfmt::skip]
const COLUMNS: [&str; 11] = [
    "metric",
    "mean",
    "std",
    "min",
    "max",
    "cv",
    "se",
    "ci_low",
    "ci_high",
    "t_critical",
    "unit",
];

/// A statistic over the repeats.
struct Repeated {
    /// `time_to_first_token_p99`.
    pub name: String,
    pub unit: String,
    pub over: Confidence,
}

/// Each statistic that all good runs of a point have.
fn repeated(point: &Point<'_>, level: f64) -> Vec<Repeated> {
    let mut all = Vec::new();
    for metric in &point.figures.0 {
        for (stat, _) in &metric.stats {
            let values: Vec<f64> = point
                .good
                .iter()
                .filter_map(|run| run.figures.get(&metric.tag, stat))
                .collect();
            all.extend(Confidence::of(&values, level).map(|over| Repeated {
                name: format!("{}_{stat}", metric.tag),
                unit: metric.unit.clone(),
                over,
            }));
        }
    }
    all
}

/// The document of one point.
pub fn json(runs: &Runs, point: &Point<'_>) -> Value {
    let label = |run: &&RunRecord| run.folder.clone();
    let error = |run: &RunRecord| run.fault.clone().unwrap_or_default();
    let failed = |run: &&RunRecord| json!({"label": run.folder, "error": error(run)});
    let broken = point.runs.iter().filter(|run| run.fault.is_some());
    json!({
        "schema_version": SCHEMA_VERSION,
        "tokenring_version": env!("CARGO_PKG_VERSION"),
        "metadata": {
            "aggregation_type": "confidence",
            "num_profile_runs": point.runs.len(),
            "num_successful_runs": point.good.len(),
            "failed_runs": broken.map(failed).collect::<Vec<Value>>(),
            "confidence_level": runs.level,
            "run_labels": point.runs.iter().map(label).collect::<Vec<String>>(),
            "cooldown_seconds": runs.cooldown_s,
            "variation_label": point.first.label,
            "variation_values": parameters(point.first),
            "sweep_mode": runs.order,
            "model": runs.model,
            "quotable": super::many::is_quotable(point),
            "verdicts": point.runs.iter().map(|run| &run.verdict).collect::<Vec<&String>>(),
        },
        "metrics": metrics(point, runs.level),
        "client": {"block_bootstrap": redrawn(runs, point)},
    })
}

/// Intervals by the requests of all runs of the point.
fn redrawn(runs: &Runs, point: &Point<'_>) -> Map<String, Value> {
    let own = runs
        .redrawn
        .iter()
        .filter(|own| own.label == point.first.label);
    own.map(|own| {
        let over = &own.over;
        let value = json!({
            "estimate": over.estimate,
            "ci_low": over.low,
            "ci_high": over.high,
            "std_error": over.std_error,
        });
        (format!("{}_{}", own.tag, own.stat), value)
    })
    .collect()
}

/// All of them, by name.
pub(super) fn metrics(point: &Point<'_>, level: f64) -> Map<String, Value> {
    let each = repeated(point, level).into_iter();
    each.map(|metric| {
        let value = statistics(&metric);
        (metric.name, value)
    })
    .collect()
}

/// `{mean, std, ...}`; one run has no t, a mean of zero no cv.
fn statistics(metric: &Repeated) -> Value {
    let over = &metric.over;
    let cv = over.cv.is_finite().then_some(over.cv);
    json!({
        "mean": over.mean,
        "std": over.std,
        "min": over.min,
        "max": over.max,
        "cv": cv,
        "se": over.se,
        "ci_low": over.low,
        "ci_high": over.high,
        "t_critical": over.t_critical,
        "unit": metric.unit,
    })
}

/// What varies, by its key.
pub(super) fn parameters(run: &RunRecord) -> Map<String, Value> {
    let whole = |value: f64| match value.fract() == 0.0 && value.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        true => Value::from(value as i64),
        false => value.into(),
    };
    let each = run.values.iter();
    each.map(|(key, value)| (key.clone(), whole(*value)))
        .collect()
}

/// The same as lines.
pub fn csv(runs: &Runs, point: &Point<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    line(&mut out, COLUMNS);
    for metric in repeated(point, runs.level) {
        let over = &metric.over;
        let two = |value: f64| format!("{value:.2}");
        let four = |value: f64| format!("{value:.4}");
        line(
            &mut out,
            [
                metric.name.clone(),
                two(over.mean),
                two(over.std),
                two(over.min),
                two(over.max),
                four(over.cv),
                four(over.se),
                two(over.low),
                two(over.high),
                over.t_critical.map_or(String::new(), four),
                metric.unit.clone(),
            ],
        );
    }
    out
}
