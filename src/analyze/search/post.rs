//! What is made of a grid's figures: the knee of a ramp, curves of prefill and decode, the Pareto
//! front, the largest load that holds.

use super::gate;
use crate::config::PostProcess;
use crate::stats::Figures;
use crate::stats::distribution::float_len;
use serde_json::{Map, Value, json};

/// A point of a grid: its settings by key, and what its run came to.
pub type Point = (Vec<(String, f64)>, Figures);

/// Least share of the variance that a line must explain; else a parabola is fitted.
const LINE_R2_MIN: f64 = 0.85;

/// The result as a document, by the kind of the post-process; `post_process` names it.
///
/// Shape: points in any order; a point without the metric is left out and counted in `missing`.
/// Errors: a condition that is none.
pub fn process(post: &PostProcess, points: &[Point]) -> Result<Value, String> {
    Ok(match post {
        PostProcess::Knee {
            tag,
            stat,
            threshold,
        } => knee(points, (tag, stat), *threshold),
        PostProcess::PrefillCurve => {
            let fit = curve(&series(points, "isl", ("time_to_first_token", "avg")));
            with(
                json!({"post_process": "prefill_ttft_curve", "x": "isl",
                "y": "avg(time_to_first_token)", "unit": "ms"}),
                fit,
            )
        }
        PostProcess::DecodeCurve => decode(points),
        PostProcess::Pareto => pareto(points),
        PostProcess::Feasible(conditions) => feasible(points, conditions)?,
    })
}

fn with(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

fn setting(point: &Point, key: &str) -> Option<f64> {
    let found = point.0.iter().find(|(known, _)| known == key);
    found.map(|(_, value)| *value)
}

fn settings(point: &Point) -> Value {
    let pairs = point
        .0
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn figure(figures: &Figures, (tag, stat): (&str, &str)) -> Option<f64> {
    figures.get(tag, stat).filter(|value| value.is_finite())
}

/// Setting and figure of each point that has both, by rising setting.
fn series(points: &[Point], key: &str, of: (&str, &str)) -> Vec<(f64, f64)> {
    let pair = |point: &Point| Some((setting(point, key)?, figure(&point.1, of)?));
    let mut found: Vec<(f64, f64)> = points.iter().filter_map(pair).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found
}

/// The first load whose statistic is above the least load's by more than the threshold.
fn knee(points: &[Point], of: (&str, &str), threshold: f64) -> Value {
    let found = series(points, "concurrency", of);
    let baseline = found.first().map(|(_, value)| *value);
    let limit = baseline.map(|baseline| baseline * (1.0 + threshold));
    let beyond = |pair: &&(f64, f64)| limit.is_some_and(|limit| pair.1 > limit);
    let knee = found.iter().find(beyond);
    json!({
        "post_process": "concurrency_knee",
        "metric": of.0,
        "stat": of.1,
        "threshold": threshold,
        "baseline": baseline,
        "knee": knee.map(|(load, value)| json!({"concurrency": load, "value": value})),
        "missing": points.len() - found.len(),
    })
}

/// A line by least squares, and a parabola where the line explains too little.
///
/// Source: AIPerf's prefill curve, which takes the parabola below an r squared of 0.85.
fn curve(points: &[(f64, f64)]) -> Value {
    let line = fitted(points, 1);
    let is_poor = |fit: &Fit| fit.r2 < LINE_R2_MIN;
    let parabola = line
        .as_ref()
        .filter(|fit| is_poor(fit))
        .and(fitted(points, 2));
    let xy: Vec<Value> = points.iter().map(|(x, y)| json!([x, y])).collect();
    match parabola.or(line) {
        Some(fit) => json!({
            "fit": if fit.coefficients.len() == 3 { "quadratic" } else { "linear" },
            "coefficients": fit.coefficients,
            "r_squared": fit.r2,
            "points": xy,
        }),
        None => json!({"fit": null, "coefficients": [], "r_squared": null, "points": xy}),
    }
}

/// A polynomial: its coefficients from the constant up, and the share of the variance it explains.
struct Fit {
    coefficients: Vec<f64>,
    r2: f64,
}

/// Least squares by the normal equations over x scaled to 1; `None` with too few distinct x.
fn fitted(points: &[(f64, f64)], degree: usize) -> Option<Fit> {
    let scale = points.iter().map(|(x, _)| x.abs()).fold(0.0, f64::max);
    let mut distinct: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    distinct.dedup();
    if distinct.len() <= degree || scale == 0.0 {
        return None;
    }
    let size = degree + 1;
    let powers = |x: f64| -> Vec<f64> {
        std::iter::successors(Some(1.0), |power| Some(power * x / scale))
            .take(size)
            .collect()
    };
    let mut rows = vec![vec![0.0; size + 1]; size];
    for &(x, y) in points {
        let powers = powers(x);
        for (row, power) in rows.iter_mut().zip(&powers) {
            for (cell, other) in row.iter_mut().zip(powers.iter().chain([&y])) {
                *cell += power * other;
            }
        }
    }
    let scaled = solved(rows)?;
    let at = |x: f64| -> f64 { scaled.iter().zip(powers(x)).map(|(c, p)| c * p).sum() };
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / float_len(points.len());
    let square = |d: f64| d * d;
    let rest: f64 = points.iter().map(|&(x, y)| square(y - at(x))).sum();
    let total: f64 = points.iter().map(|&(_, y)| square(y - mean)).sum();
    let r2 = if total > 0.0 { 1.0 - rest / total } else { 1.0 };
    let unscale = std::iter::successors(Some(1.0), |power| Some(power * scale));
    let coefficients = scaled.iter().zip(unscale).map(|(c, power)| c / power);
    Some(Fit {
        coefficients: coefficients.collect(),
        r2,
    })
}

/// Gauss with pivots; each row ends with its right side. `None` when singular.
fn solved(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = rows.len();
    for at in 0..size {
        let pivot = (at..size).max_by(|&a, &b| rows[a][at].abs().total_cmp(&rows[b][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at].abs() < 1e-12 {
            return None;
        }
        let row = rows[at].clone();
        for other in (0..size).filter(|&other| other != at) {
            let factor = rows[other][at] / row[at];
            for (cell, own) in rows[other].iter_mut().zip(&row) {
                *cell -= factor * own;
            }
        }
    }
    Some((0..size).map(|at| rows[at][size] / rows[at][at]).collect())
}

/// A line of ITL by concurrency for each output length.
fn decode(points: &[Point]) -> Value {
    let mut lengths: Vec<f64> = points.iter().filter_map(|p| setting(p, "osl")).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    let of_length = |osl: &f64| {
        let same = points
            .iter()
            .filter(|point| setting(point, "osl") == Some(*osl));
        let same: Vec<Point> = same.cloned().collect();
        let found = series(&same, "concurrency", ("inter_token_latency", "avg"));
        with(json!({"osl": osl}), curve(&found))
    };
    json!({
        "post_process": "decode_itl_curve",
        "x": "concurrency",
        "y": "avg(inter_token_latency)",
        "unit": "ms",
        "curves": lengths.iter().map(of_length).collect::<Vec<_>>(),
    })
}

/// Points that none is at least as good as in both and better in one: throughput up, latency down.
fn pareto(points: &[Point]) -> Value {
    let up = ("request_throughput", "avg");
    let ttft = ("time_to_first_token", "p99");
    let has_ttft = points.iter().any(|point| figure(&point.1, ttft).is_some());
    let down = if has_ttft {
        ttft
    } else {
        ("request_latency", "p99")
    };
    let of = |point: &Point| Some((figure(&point.1, up)?, figure(&point.1, down)?));
    let all: Vec<(&Point, (f64, f64))> = points
        .iter()
        .filter_map(|point| Some((point, of(point)?)))
        .collect();
    let is_beaten = |own: (f64, f64)| {
        let beats = |other: (f64, f64)| {
            other.0 >= own.0 && other.1 <= own.1 && (other.0 > own.0 || other.1 < own.1)
        };
        all.iter().any(|(_, other)| beats(*other))
    };
    let front = all.iter().filter(|(_, own)| !is_beaten(*own));
    let shown = |(point, own): &(&Point, (f64, f64))| {
        let (parameters, values) = (settings(point), [own.0, own.1]);
        json!({"parameters": parameters, "values": values})
    };
    json!({
        "post_process": "pareto",
        "objectives": [
            {"metric": up.0, "stat": up.1, "direction": "MAXIMIZE"},
            {"metric": down.0, "stat": down.1, "direction": "MINIMIZE"},
        ],
        "pareto_optimal": front.map(shown).collect::<Vec<_>>(),
        "missing": points.len() - all.len(),
    })
}

/// The largest load that meets every condition, and the smallest that does not.
fn feasible(points: &[Point], conditions: &[String]) -> Result<Value, String> {
    let gates = conditions
        .iter()
        .map(|text| gate(text))
        .collect::<Result<Vec<_>, _>>()?;
    let holds = |point: &Point| {
        let mut gates = gates.iter();
        gates.all(|gate| gate.value(&point.1).is_some_and(|value| gate.holds(value)))
    };
    let load = |point: &Point| point.0.first().map_or(0.0, |(_, value)| *value);
    let of = |wanted: bool| points.iter().filter(move |point| holds(point) == wanted);
    let shown = |point: Option<&Point>| point.map(settings);
    Ok(json!({
        "post_process": "feasible",
        "conditions": gates.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "feasible_max": shown(of(true).max_by(|a, b| load(a).total_cmp(&load(b)))),
        "infeasible_min": shown(of(false).min_by(|a, b| load(a).total_cmp(&load(b)))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::MetricFigures;

    fn point(settings: &[(&str, f64)], figures: &[(&str, &str, f64)]) -> Point {
        let metric = |&(tag, stat, value): &(&str, &str, f64)| MetricFigures {
            tag: tag.into(),
            unit: String::new(),
            stats: vec![(stat.into(), value)],
        };
        let settings = settings.iter().map(|&(key, value)| (key.into(), value));
        (
            settings.collect(),
            Figures(figures.iter().map(metric).collect()),
        )
    }

    #[test]
    fn the_knee_is_the_first_load_a_fifth_above_the_first() {
        let of = |load, value| {
            point(
                &[("concurrency", load)],
                &[("request_latency", "p99", value)],
            )
        };
        let points = [
            of(7.0, 119.0),
            of(1.0, 100.0),
            of(3.0, 120.0),
            of(19.0, 121.0),
            of(52.0, 900.0),
            point(&[("concurrency", 99.0)], &[]),
        ];
        let post = PostProcess::Knee {
            tag: "request_latency".into(),
            stat: "p99".into(),
            threshold: 0.2,
        };
        let found = process(&post, &points).unwrap();
        assert_eq!(found["knee"], json!({"concurrency": 19.0, "value": 121.0}));
        assert_eq!(
            (&found["baseline"], &found["missing"]),
            (&json!(100.0), &json!(1))
        );
        let none = process(&post, &points[..2]).unwrap();
        assert_eq!(none["knee"], Value::Null);
    }

    #[test]
    fn a_line_is_taken_where_it_fits_and_a_parabola_where_not() {
        let of = |isl, ttft| point(&[("isl", isl)], &[("time_to_first_token", "avg", ttft)]);
        let line: Vec<Point> = [256.0, 512.0, 4_096.0]
            .iter()
            .map(|x| of(*x, 5.0 + 0.02 * x))
            .collect();
        let found = process(&PostProcess::PrefillCurve, &line).unwrap();
        assert_eq!(found["fit"], "linear");
        let near = |at: usize, wanted: f64| {
            let value = found["coefficients"][at].as_f64().unwrap();
            assert!((value - wanted).abs() < 1e-6, "{found}");
        };
        near(0, 5.0);
        near(1, 0.02);
        let bent: Vec<Point> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
            .iter()
            .map(|x| of(*x, (x - 3.0) * (x - 3.0)))
            .collect();
        let found = process(&PostProcess::PrefillCurve, &bent).unwrap();
        assert_eq!(found["fit"], "quadratic");
        assert!((found["r_squared"].as_f64().unwrap() - 1.0).abs() < 1e-9);
        let none = process(&PostProcess::PrefillCurve, &bent[..1]).unwrap();
        assert_eq!(none["fit"], Value::Null);
    }

    #[test]
    fn decode_has_a_curve_for_each_length() {
        let of = |osl: f64, load: f64| {
            let itl = 10.0 + osl / 64.0 * load;
            let settings = [("osl", osl), ("concurrency", load)];
            point(&settings, &[("inter_token_latency", "avg", itl)])
        };
        let points = [of(64.0, 1.0), of(64.0, 8.0), of(128.0, 1.0), of(128.0, 8.0)];
        let found = process(&PostProcess::DecodeCurve, &points).unwrap();
        let slope = |at: usize| found["curves"][at]["coefficients"][1].as_f64().unwrap();
        assert!(
            (slope(0) - 1.0).abs() < 1e-9 && (slope(1) - 2.0).abs() < 1e-9,
            "{found}"
        );
    }

    #[test]
    fn the_front_has_what_nothing_beats() {
        let of = |load, rate, ttft| {
            let figures = [
                ("request_throughput", "avg", rate),
                ("time_to_first_token", "p99", ttft),
            ];
            point(&[("concurrency", load)], &figures)
        };
        let points = [
            of(1.0, 10.0, 5.0),
            of(4.0, 30.0, 9.0),
            of(16.0, 29.0, 10.0),
            of(64.0, 40.0, 90.0),
        ];
        let found = process(&PostProcess::Pareto, &points).unwrap();
        let front = found["pareto_optimal"].as_array().unwrap();
        let loads: Vec<&Value> = front
            .iter()
            .map(|p| &p["parameters"]["concurrency"])
            .collect();
        assert_eq!(loads, [&json!(1.0), &json!(4.0), &json!(64.0)]);
    }

    #[test]
    fn the_largest_feasible_point_of_a_grid_is_found() {
        let of = |load, ttft| {
            point(
                &[("concurrency", load)],
                &[("time_to_first_token", "p95", ttft)],
            )
        };
        let points = [of(1.0, 5.0), of(2.0, 6.0), of(4.0, 9.0)];
        let post = PostProcess::Feasible(vec!["time_to_first_token:p95:lt:9".into()]);
        let found = process(&post, &points).unwrap();
        assert_eq!(found["feasible_max"], json!({"concurrency": 2.0}));
        assert_eq!(found["infeasible_min"], json!({"concurrency": 4.0}));
        assert!(process(&PostProcess::Feasible(vec!["x".into()]), &points).is_err());
    }
}
