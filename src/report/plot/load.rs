//! A sweep: latency against throughput, and the loads where it begins to hurt.

use super::data::range;
use super::frame::{Frame, Key, Labels, Mark, SERIES_MAX, Theme};
use super::scale::{Scale, TimeUnit, VALUE_MAX};
use super::scene::{Anchor, Color, Point, Scene, Shape};
use super::{Picture, font::Font};
use crate::config::axis;
use crate::stats::knee::{Knee, LoadPoint};
use serde_json::{Map, Value};

/// Rates in the order of preference: tag, name, unit.
const RATES: [(&str, &str, &str); 2] = [
    (
        "output_token_throughput_avg",
        "Output Token Throughput",
        "tokens/s",
    ),
    ("request_throughput_avg", "Request Throughput", "requests/s"),
];
/// Latencies likewise: tag, name.
const LATENCIES: [(&str, &str); 2] = [
    ("time_to_first_token_p99", "Time to First Token p99"),
    ("request_latency_p99", "Request Latency p99"),
];

/// A point of a sweep.
struct At {
    load: f64,
    rate: f64,
    ms: f64,
    is_invalid: bool,
}

/// Points that differ in their load only.
struct Series {
    name: String,
    points: Vec<At>,
    knee: Knee,
}

/// The plot of a sweep, of its `profile_export_aiperf_sweep.json`, ours or AIPerf's. Errors: why it
/// cannot be drawn.
pub fn of_sweep(document: &Value, name: &str, theme: Theme) -> Result<Picture, String> {
    let scene = draw(document, name, theme)
        .map_err(|why| format!("no plot latency_vs_throughput: {why}"))?;
    Ok(Picture {
        name: "latency_vs_throughput",
        scene,
    })
}

fn draw(document: &Value, name: &str, theme: Theme) -> Result<Scene, String> {
    let points = document["per_combination_metrics"].as_array();
    let points = points.ok_or("the file has no per_combination_metrics")?;
    let has = |tag: &str| points.iter().any(|point| figure(point, tag).is_some());
    let rate = RATES.into_iter().find(|(tag, _, _)| has(tag));
    let (rate, rate_name, rate_unit) = rate.ok_or("no point has a throughput")?;
    let latency = LATENCIES.into_iter().find(|(tag, _)| has(tag));
    let (latency, latency_name) = latency.ok_or("no point has a latency")?;
    let load = load_key(document).ok_or("no load varies: concurrency, request rate or users")?;
    let mut series = series(document, &load, (rate, latency));
    series.truncate(SERIES_MAX);
    let all = || series.iter().flat_map(|own| &own.points);
    let (low, high) = range(all().map(|at| at.ms)).ok_or("no point has both")?;
    let (_, fastest) = range(all().map(|at| at.rate)).ok_or("no point has both")?;
    let unit = TimeUnit::of(high);
    let model = document["metadata"]["model"].as_str().unwrap_or_default();
    let dot = if model.is_empty() { "" } else { " · " };
    let load_name = load.replace('_', " ");
    let slos: Vec<&str> = document["client"]["slos"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut foot = format!("Numbers at the points: {load_name}.");
    if !slos.is_empty() {
        foot.push_str(&format!(" Service levels: {}.", slos.join(", ")));
    }
    let labels = Labels {
        title: format!("{latency_name} vs {rate_name}"),
        subtitle: format!("{name} · {model}{dot}{} points", all().count()),
        x: format!("{rate_name} ({rate_unit})"),
        y: format!("{latency_name} ({})", unit.1),
        foot,
        legend: legend(&series, theme),
    };
    let y = match high > 8.0 * low && low > 0.0 {
        true => Scale::log(low * unit.0, high * unit.0),
        false => Scale::linear(low.min(high / 2.0) * unit.0, high * unit.0, false),
    };
    let x = Scale::linear(0.0, fastest, false);
    let mut frame = Frame::new(&labels, (x, y), theme, 0.0);
    for (at, own) in series.iter().enumerate() {
        curve(
            &mut frame,
            own,
            theme.series(3 * usize::from(series.len() > 1) + at),
            unit,
        );
    }
    Ok(frame.finish())
}

/// The statistic of a point: a number between 0 and what can be drawn.
fn figure(point: &Value, tag: &str) -> Option<f64> {
    let value = point["metrics"][tag]["mean"].as_f64()?;
    (0.0..=VALUE_MAX).contains(&value).then_some(value)
}

/// The setting that is the load: the last of them that varies.
fn load_key(document: &Value) -> Option<String> {
    let varied = document["metadata"]["sweep_parameters"].as_array()?;
    let mut keys = varied
        .iter()
        .filter_map(|parameter| parameter["name"].as_str());
    // AIPerf names some by the whole path of the setting.
    let is_load = |key: &&str| {
        let last = key.rsplit('.').next().unwrap_or(key);
        axis(last).is_some_and(|axis| axis.is_load) || last == "rate"
    };
    keys.rfind(is_load).map(String::from)
}

fn series(document: &Value, load: &str, (rate, latency): (&str, &str)) -> Vec<Series> {
    let points = document["per_combination_metrics"].as_array();
    let mut all: Vec<(Map<String, Value>, Vec<At>)> = Vec::new();
    for point in points.into_iter().flatten() {
        let mut others = point["parameters"].as_object().cloned().unwrap_or_default();
        let value = others.shift_remove(load).and_then(|value| value.as_f64());
        let (Some(load), Some(rate), Some(ms)) =
            (value, figure(point, rate), figure(point, latency))
        else {
            continue;
        };
        let at = At {
            load,
            rate,
            ms,
            is_invalid: is_invalid(document, &point["parameters"]),
        };
        match all.iter_mut().find(|(common, _)| *common == others) {
            Some((_, points)) => points.push(at),
            None => all.push((others, vec![at])),
        }
    }
    let one = |(common, mut points): (Map<String, Value>, Vec<At>)| {
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        let name = common.iter().map(|(key, value)| format!("{key} {value}"));
        Series {
            name: name.collect::<Vec<_>>().join(", "),
            knee: knee(document, &common, &points),
            points,
        }
    };
    all.into_iter().map(one).collect()
}

/// Was a run of this point INVALID?
fn is_invalid(document: &Value, parameters: &Value) -> bool {
    let points = document["client"]["points"]
        .as_array()
        .into_iter()
        .flatten();
    let own = points.filter(|point| point["parameters"] == *parameters);
    let verdicts = own.flat_map(|point| point["verdicts"].as_array().into_iter().flatten());
    verdicts.into_iter().any(|verdict| verdict == "INVALID")
}

/// The three points as the file has them; AIPerf's has none, and no service levels.
fn knee(document: &Value, common: &Map<String, Value>, points: &[At]) -> Knee {
    let Some(knees) = document["client"]["knees"].as_array() else {
        let point = |at: &At| LoadPoint {
            load: at.load,
            ttft_p99: Some(at.ms),
            throughput: Some(at.rate),
            meets: None,
        };
        return Knee::of(&points.iter().map(point).collect::<Vec<_>>());
    };
    let is_own = |knee: &&Value| knee["parameters"].as_object() == Some(common);
    let own = knees.iter().find(is_own).unwrap_or(&Value::Null);
    Knee {
        doubled: own["ttft_doubled_at"].as_f64(),
        meets: own["slos_met_up_to"].as_f64(),
        saturated: own["saturated_at"].as_f64(),
        ..Knee::default()
    }
}

/// The three, with their marks.
fn marks(knee: &Knee, theme: Theme) -> [(&'static str, Mark, Color, Option<f64>); 3] {
    [
        ("last within SLO", Mark::Square, theme.series(2), knee.meets),
        (
            "TTFT doubled",
            Mark::Triangle,
            theme.series(4),
            knee.doubled,
        ),
        ("saturated", Mark::Diamond, theme.series(1), knee.saturated),
    ]
}

fn legend(series: &[Series], theme: Theme) -> Vec<Key> {
    let mut keys = Vec::new();
    if let [own] = series {
        for (name, mark, color, load) in marks(&own.knee, theme) {
            let text = load.map_or(format!("{name}: not reached"), |load| {
                format!("{name}: {load}")
            });
            keys.push(Key { mark, color, text });
        }
    } else {
        for (at, own) in series.iter().enumerate() {
            keys.push(Key {
                mark: Mark::Line,
                color: theme.series(3 + at),
                text: own.name.clone(),
            });
        }
        let known = marks(&Knee::default(), theme).into_iter();
        keys.extend(known.map(|(name, mark, color, _)| Key {
            mark,
            color,
            text: name.into(),
        }));
    }
    if series
        .iter()
        .flat_map(|own| &own.points)
        .any(|at| at.is_invalid)
    {
        keys.push(Key {
            mark: Mark::Dot,
            color: theme.grid(),
            text: "INVALID".into(),
        });
    }
    keys
}

fn curve(frame: &mut Frame, own: &Series, color: Color, unit: TimeUnit) {
    let theme = frame.theme();
    let place = |at: &At| (at.rate, at.ms * unit.0);
    let points: Vec<Point> = own.points.iter().map(place).collect();
    frame.line(&points, color, 2.0, false);
    for at in &own.points {
        let place = frame.place(place(at));
        let fill = if at.is_invalid { theme.grid() } else { color };
        frame.push(Shape::Dots(vec![place], 4.0, color));
        frame.push(Shape::Dots(vec![place], 3.0, fill));
    }
    let mut taken: Vec<Point> = Vec::new();
    for (_, mark, color, load) in marks(&own.knee, theme) {
        let Some(at) = own.points.iter().find(|at| Some(at.load) == load) else {
            continue;
        };
        let (x, y) = frame.place(place(at));
        // Two marks of one point stand beside each other.
        let before = taken.iter().filter(|other| **other == (x, y)).count();
        taken.push((x, y));
        frame.mark((x - 13.0 * super::float_len(before), y), mark, color);
    }
    let font = Font::new(false);
    let mut last: Option<Point> = None;
    for at in &own.points {
        let text = at.load.to_string();
        let (x, y) = frame.place(place(at));
        let half = font.width(&text, 12.0) / 2.0;
        let [left, right, top, _] = frame.sides();
        // Left above the point, where the curve does not go on; inside at the edges.
        let spot = (
            (x - 6.0 - half).max(left + half + 2.0).min(right - half),
            (y - 11.0).max(top + 10.0),
        );
        let is_free = last.is_none_or(|(x, y)| {
            (x - spot.0).abs() > 2.0 * half + 4.0 || (y - spot.1).abs() > 13.0
        });
        if is_free {
            frame.text(spot, &text, 12.0, Anchor::Middle);
            last = Some(spot);
        }
    }
}
