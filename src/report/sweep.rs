//! `profile_export_aiperf_sweep.{json,csv}`: all points of a sweep, the best of them and those that
//! no other beats, as AIPerf writes it; the knee under `client`.

use super::aggregate::{metrics, parameters};
use super::csv::line;
use crate::stats::Figures;
use crate::stats::knee::Knee;
use crate::stats::many::{Point, Runs, first_latency};
use crate::stats::plateau::{Plateau, Rung};
use serde_json::{Map, Value, json};

/// What a million output tokens cost, where an hour has a price.
const PRICE: &str = "price_per_million_output_tokens";
/// Statistics that the table has of each metric.
const STATS: [&str; 7] = ["avg", "p50", "p90", "p95", "p99", "min", "max"];

/// The document.
pub fn json(runs: &Runs) -> Value {
    let points = runs.by_point();
    let good: Vec<&Point<'_>> = points
        .iter()
        .filter(|point| !point.good.is_empty())
        .collect();
    let parameter =
        |axis: &crate::stats::many::Varied| json!({"name": axis.key, "values": axis.values});
    let failed = runs.runs.iter().filter(|run| run.fault.is_some());
    let failed: Vec<Value> = failed
        .map(|run| json!({"label": run.folder, "error": run.fault}))
        .collect();
    let combination = |point: &&Point<'_>| {
        let metrics = metrics(point, runs.level);
        json!({"parameters": parameters(point.first), "metrics": metrics})
    };
    json!({
        "schema_version": "1.0",
        "tokenring_version": env!("CARGO_PKG_VERSION"),
        "aggregation_type": "sweep",
        "num_profile_runs": runs.runs.len(),
        "num_successful_runs": runs.runs.len() - failed.len(),
        "failed_runs": failed,
        "metadata": {
            "sweep_parameters": runs.axes.iter().map(parameter).collect::<Vec<Value>>(),
            "num_combinations": runs.points.len(),
            "sweep_mode": runs.order,
            "confidence_level": runs.level,
            "num_trials_per_value": runs.trials,
            "model": runs.model,
            "is_complete": runs.is_complete,
        },
        "per_combination_metrics": good.iter().map(combination).collect::<Vec<Value>>(),
        "best_configurations": best(&good),
        "pareto_optimal": pareto(&good),
        "client": client(runs, &points),
    })
}

/// Highest throughput, and lowest p99 latency.
fn best(points: &[&Point<'_>]) -> Value {
    let throughput = |point: &Point<'_>| point.figures.get("request_throughput", "avg");
    let latency = |point: &Point<'_>| first_latency(&point.figures).map(|(_, value)| value);
    let most = |of: &dyn Fn(&Point<'_>) -> Option<f64>| {
        let known = points.iter().filter_map(|point| Some((point, of(point)?)));
        known
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .map(|(point, _)| *point)
    };
    let described = |point: &Point<'_>, value: Option<f64>, unit: &str| {
        let parameters = parameters(point.first);
        json!({"parameters": parameters, "metric": value, "unit": unit})
    };
    let mut out = Map::new();
    if let Some(point) = most(&throughput) {
        let value = described(point, throughput(point), "requests/sec");
        out.insert("best_throughput".into(), value);
    }
    if let Some(point) = most(&|point| latency(point).map(|value| -value)) {
        out.insert(
            "best_latency_p99".into(),
            described(point, latency(point), "ms"),
        );
    }
    Value::Object(out)
}

/// Points that no other beats in both request throughput and p99 latency.
fn pareto(points: &[&Point<'_>]) -> Value {
    let goals = |figures: &Figures| {
        let throughput = figures.get("request_throughput", "avg")?;
        Some((throughput, first_latency(figures)?.1))
    };
    let all: Vec<(&Point<'_>, (f64, f64))> = points
        .iter()
        .filter_map(|point| Some((*point, goals(&point.figures)?)))
        .collect();
    let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 >= b.0 && a.1 <= b.1 && a != b;
    let is_best = |(_, own): &&(&Point<'_>, (f64, f64))| !all.iter().any(|(_, o)| beats(o, own));
    all.iter()
        .filter(is_best)
        .map(|(point, _)| Value::Object(parameters(point.first)))
        .collect()
}

/// What is ours: verdicts, prices, and where the load begins to hurt.
fn client(runs: &Runs, points: &[Point<'_>]) -> Value {
    let point = |point: &Point<'_>| {
        json!({
            "parameters": parameters(point.first),
            "label": point.first.label,
            "folders": point.runs.iter().map(|run| &run.folder).collect::<Vec<&String>>(),
            "seeds": point.runs.iter().map(|run| run.seed).collect::<Vec<u64>>(),
            "verdicts": point.runs.iter().map(|run| &run.verdict).collect::<Vec<&String>>(),
            "reasons": point.runs.iter().map(|run| &run.reasons).collect::<Vec<&Vec<String>>>(),
            "failed_ratio": point.runs.iter().map(|run| run.failed_share).collect::<Vec<f64>>(),
            "meets_slos": runs.meets(&point.figures),
            PRICE: runs.price_per_million(&point.figures),
        })
    };
    let knee = |(common, knee): &(Vec<(String, f64)>, Knee)| {
        let common: Map<String, Value> = common
            .iter()
            .map(|(key, value)| (key.clone(), (*value).into()))
            .collect();
        json!({
            "parameters": common,
            "ttft_doubled_at": knee.doubled,
            "slos_met_up_to": knee.meets,
            "saturated_at": knee.saturated,
            "throughput_growth_per_doubling": knee.growth_last,
            "is_reached": knee.is_reached(),
        })
    };
    json!({
        "slos": runs.slos.iter().map(ToString::to_string).collect::<Vec<String>>(),
        "points": points.iter().map(point).collect::<Vec<Value>>(),
        "knees": runs.knees().iter().map(knee).collect::<Vec<Value>>(),
        "capacity": runs.capacity().map(|found| capacity(&found)),
    })
}

/// What the server can do at most, by which closed loops.
fn capacity(found: &Plateau) -> Value {
    let rung = |rung: &Rung| {
        json!({
            "concurrency": rung.concurrency,
            "requests": rung.requests,
            "throughput_per_s": rung.throughput_per_s(),
            "std_error_per_s": rung.std_error_per_s(),
            "latency_s": rung.latency_s,
            "little_ratio": rung.little_ratio(),
            "is_consistent": rung.is_consistent(),
        })
    };
    json!({
        "estimated_capacity": found.estimated_capacity,
        "unit": "requests/sec",
        "std_error": found.std_error_per_s,
        "is_saturated": found.is_saturated,
        "knee_concurrency": found.knee,
        "rungs": found.rungs.iter().map(rung).collect::<Vec<Value>>(),
    })
}

/// A line for each point. The columns are those of all points together, in the order in which they
/// first appear; a cell is blank where a point has no such figure.
pub fn csv(runs: &Runs) -> Vec<u8> {
    let points = runs.by_point();
    let mut columns: Vec<(String, &str)> = Vec::new();
    for point in &points {
        for metric in &point.figures.0 {
            for stat in STATS {
                let is_known = || {
                    columns
                        .iter()
                        .any(|(tag, s)| *tag == metric.tag && *s == stat)
                };
                if metric.get(stat).is_some() && !is_known() {
                    columns.push((metric.tag.clone(), stat));
                }
            }
        }
    }
    let mut out = Vec::new();
    let names = columns.iter().map(|(tag, stat)| format!("{tag}_{stat}"));
    let keys = runs.axes.iter().map(|axis| axis.key.to_string());
    let fixed = ["label", "num_runs", "verdict", "failed_ratio", PRICE].map(String::from);
    line(&mut out, fixed.iter().cloned().chain(keys).chain(names));
    for point in &points {
        let own = |key: &str| {
            let value = point.first.value(key);
            value.map_or(String::new(), |value| value.to_string())
        };
        let first = [
            point.first.label.clone(),
            point.good.len().to_string(),
            super::many::verdict(point),
            format!("{:.4}", super::many::mean_share(point)),
            runs.price_per_million(&point.figures)
                .map_or(String::new(), |price| format!("{price:.4}")),
        ];
        let cell = |(tag, stat): &(String, &str)| {
            let value = point.figures.get(tag, stat);
            value.map_or(String::new(), |value| format!("{value:.4}"))
        };
        let keys = runs.axes.iter().map(|axis| own(axis.key));
        line(
            &mut out,
            first
                .into_iter()
                .chain(keys)
                .chain(columns.iter().map(cell)),
        );
    }
    out
}
