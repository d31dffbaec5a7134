//! `profile_export_aiperf_timeslices.{json,csv}`: AIPerf's keys, columns and order; what is ours
//! comes after them.

use super::csv::{COLUMNS, line};
use super::json::figure;
use super::text::{fixed, stat};
use super::{RunInfo, input_config};
use crate::config::Config;
use crate::stats::Summary;
use crate::stats::peaks::{Cause, Flag};
use crate::stats::slices::{Level, Reading, Slice};
use crate::stats::summary::MetricResult;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Version of what is ours in the JSON file.
pub const SCHEMA_VERSION: &str = "1.0";

/// The whole document: the slices, the configuration, then what AIPerf's file lacks. Written slice
/// by slice: as one value thousands of them would take ten times the room.
pub fn json(summary: &Summary, config: &Config, run: &RunInfo) -> Vec<u8> {
    let mut out = String::from("{\n  \"timeslices\": [");
    for (index, slice) in summary.slices.iter().enumerate() {
        let mut value = self::slice(slice, run);
        run.secrets.mask_value(&mut value);
        let text = format!("{value:#}").replace('\n', "\n    ");
        let comma = if index > 0 { "," } else { "" };
        // Writing to a String does not fail.
        let _ = write!(out, "{comma}\n    {text}");
    }
    let mut rest = json!({
        "input_config": input_config::aiperf(summary, config, run),
        "schema_version": SCHEMA_VERSION,
        "tokenring_version": run.version,
        "benchmark_id": run.benchmark_id,
    });
    run.secrets.mask_value(&mut rest);
    // What follows the brace that opens it.
    let rest = format!("{rest:#}\n");
    let _ = write!(out, "\n  ],{}", rest.strip_prefix('{').unwrap_or(&rest));
    out.into_bytes()
}

fn slice(slice: &Slice, run: &RunInfo) -> Value {
    let mut out = Map::new();
    out.insert("start_ns".into(), run.anchor.wall(slice.from).into());
    out.insert("end_ns".into(), run.anchor.wall(slice.to).into());
    out.insert("is_complete".into(), slice.is_complete.into());
    for metric in &slice.metrics {
        out.insert(metric.tag.into(), figure(metric));
    }
    let ours = figures(&slice.client);
    let inside: Map<String, Value> = inside(slice)
        .into_iter()
        .filter_map(|(key, _, value)| Some((key.into(), value?)))
        .collect();
    for (key, block) in [
        ("client", ours),
        ("in_slice", inside),
        ("gpus", levels(&slice.gpus)),
        ("server", levels(&slice.servers)),
    ] {
        if !block.is_empty() {
            out.insert(key.into(), block.into());
        }
    }
    out.insert("flags".into(), slice.flags.iter().map(flag).collect());
    Value::Object(out)
}

fn figures(metrics: &[MetricResult]) -> Map<String, Value> {
    let each = metrics.iter().map(|m| (m.tag.to_owned(), figure(m)));
    each.collect()
}

/// What happened in a slice: key, unit, value.
fn inside(slice: &Slice) -> [(&'static str, &'static str, Option<Value>); 6] {
    let inside = &slice.inside;
    let number = |value: Option<f64>| value.map(Value::from);
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let ended = slice.per_s(inside.ended as f64);
    let tokens = slice.per_s(inside.output_tokens);
    [
        (
            "requests_ended_count",
            "requests",
            Some(inside.ended.into()),
        ),
        (
            "requests_failed_count",
            "requests",
            Some(inside.failed.into()),
        ),
        ("requests_ended_per_s", "requests/sec", number(ended)),
        (
            "requests_in_flight_avg",
            "requests",
            number(slice.in_flight()),
        ),
        ("output_tokens", "tokens", Some(inside.output_tokens.into())),
        ("output_tokens_per_s", "tokens/sec", number(tokens)),
    ]
}

/// Quantities by their source and tag.
fn levels(levels: &[Level]) -> Map<String, Value> {
    let mut out = Map::new();
    for level in levels {
        let source = out.entry(level.source.clone());
        let source = source.or_insert_with(|| json!({}));
        let mut value = json!({"unit": level.unit});
        for (key, number) in readings(level.reading) {
            value[key] = number.into();
        }
        source[level.tag.as_ref()] = value;
    }
    out
}

fn readings(reading: Reading) -> Vec<(&'static str, f64)> {
    match reading {
        Reading::Gauge { avg, min, max } => vec![("avg", avg), ("min", min), ("max", max)],
        Reading::Counter { growth, rate_per_s } => {
            vec![("growth", growth), ("rate_per_s", rate_per_s)]
        }
    }
}

fn flag(flag: &Flag) -> Value {
    let cause = |cause: &Cause| {
        json!({
            "kind": cause.kind.name(),
            "source": cause.source,
            "tag": cause.tag,
            "unit": cause.unit,
            "value": cause.value,
            "usual": cause.usual,
        })
    };
    json!({
        "metric": flag.metric,
        "stat": "p99",
        "unit": "ms",
        "value": flag.value,
        "usual": flag.usual,
        "causes": flag.causes.iter().map(cause).collect::<Vec<_>>(),
    })
}

/// A line for each statistic of each slice, metrics by tag, two decimals; then what happened in the
/// slice, and what GPUs and servers did, as `in_slice/<key>` and `<source>/<tag>`.
pub fn csv(summary: &Summary, run: &RunInfo) -> Vec<u8> {
    let mut out = Vec::new();
    line(
        &mut out,
        [
            "Timeslice",
            "Start_NS",
            "End_NS",
            "Metric",
            "Unit",
            "Stat",
            "Value",
        ],
    );
    for (index, slice) in summary.slices.iter().enumerate() {
        let (start, end) = (run.anchor.wall(slice.from), run.anchor.wall(slice.to));
        let head = [index.to_string(), start.to_string(), end.to_string()];
        let mut row = |metric: &str, unit: &str, stat: &str, value: f64| {
            let texts = [metric, unit, stat].map(|text| run.secrets.mask(text).into_owned());
            let value = fixed(value);
            line(&mut out, head.iter().chain(&texts).chain([&value]));
        };
        let mut metrics: Vec<&MetricResult> = slice.metrics.iter().collect();
        metrics.sort_by_key(|metric| metric.tag);
        for metric in metrics {
            for key in COLUMNS {
                if let Some(value) = stat(&metric.figure, key) {
                    row(metric.header, metric.unit, key, value);
                }
            }
        }
        for (key, unit, value) in inside(slice) {
            if let Some(value) = value.and_then(|value| value.as_f64()) {
                row(&format!("in_slice/{key}"), unit, "avg", value);
            }
        }
        for level in slice.gpus.iter().chain(&slice.servers) {
            let name = format!("{}/{}", level.source, level.tag);
            for (key, value) in readings(level.reading) {
                row(&name, &level.unit, key, value);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::base::Ns;
    use crate::stats::peaks::CauseKind;

    const GOLDEN_JSON: &str =
        include_str!("../../tests/data/golden/aiperf/profile_export_aiperf_timeslices.json");
    const GOLDEN_CSV: &str =
        include_str!("../../tests/data/golden/aiperf/profile_export_aiperf_timeslices.head40.csv");

    fn golden() -> Summary {
        Summary {
            slices: fixture::golden_slices(),
            ..Summary::default()
        }
    }

    fn json(summary: &Summary) -> Value {
        let bytes = super::json(summary, &fixture::config(), &fixture::run());
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        // As every other file is written.
        assert_eq!(crate::report::json::bytes(&value), bytes);
        value
    }

    /// Two slices with all that there may be.
    fn full() -> Summary {
        let mut summary = fixture::summary();
        let start = fixture::run().anchor.mono(1_796_003_780_490_813_235);
        let level = |source: &str, tag: &'static str, unit: &'static str, reading| Level {
            source: source.into(),
            tag: tag.into(),
            unit: unit.into(),
            reading,
        };
        let gauge = |avg: f64| Reading::Gauge {
            avg,
            min: avg / 2.0,
            max: avg * 2.0,
        };
        let counter = Reading::Counter {
            growth: 250.0,
            rate_per_s: 500.0,
        };
        let flag = Flag {
            metric: "time_to_first_token",
            value: 812.5,
            usual: 95.25,
            causes: vec![Cause {
                kind: CauseKind::Throttle,
                source: "gpu_0".into(),
                tag: "nvidia_throttle_thermal".into(),
                unit: "ratio".into(),
                value: 0.75,
                usual: 0.0,
            }],
        };
        let first = Slice {
            from: start,
            to: start + Ns::from_ms(500),
            is_complete: true,
            metrics: summary.metrics.clone(),
            client: summary.metrics[..1].to_vec(),
            gpus: vec![
                level("gpu_0", "nvidia_power_usage", "W", gauge(400.0)),
                level("gpu_0", "nvidia_energy_consumption", "J", counter),
                level("gpu_1", "nvidia_power_usage", "W", gauge(300.0)),
            ],
            servers: vec![level("127.0.0.1:8000", "requests_queued", "", gauge(2.0))],
            flags: vec![flag],
            ..Slice::default()
        };
        let last = Slice {
            from: first.to,
            to: first.to + Ns::from_ms(120),
            ..Slice::default()
        };
        summary.slices = vec![first, last];
        summary
    }

    #[test]
    fn the_files_are_as_committed() {
        let document = json(&full());
        insta::assert_snapshot!("json", format!("{:#}", document["timeslices"]));
        let text = String::from_utf8(csv(&full(), &fixture::run())).unwrap();
        insta::assert_snapshot!("csv", text.replace("\r\n", "\n"));
    }

    #[test]
    fn the_slices_of_aiperf_make_its_csv_to_the_byte() {
        let ours = String::from_utf8(csv(&golden(), &fixture::run())).unwrap();
        let is_its = |line: &&str| !line.contains(",p99_9");
        let lines = ours.split_inclusive("\r\n").filter(is_its);
        let first: String = lines.take(GOLDEN_CSV.lines().count()).collect();
        assert_eq!(first, GOLDEN_CSV);
    }

    #[test]
    fn the_slices_of_aiperf_make_its_json_and_ours_comes_after() {
        let golden_json: Value = serde_json::from_str(GOLDEN_JSON).unwrap();
        let ours = json(&golden());
        let keys =
            |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
        let (ours_top, top) = (keys(&ours), keys(&golden_json));
        assert_eq!(ours_top[..top.len()], top);
        let (own, its) = (&ours["timeslices"][0], &golden_json["timeslices"][0]);
        assert_eq!(keys(own)[..3], keys(its)[..3]);
        let mut compared = 0;
        for (tag, figure) in its.as_object().unwrap() {
            let Some(figure) = figure.as_object() else {
                assert_eq!(own[tag], its[tag]);
                continue;
            };
            // Of AIPerf's tags those that we have, its statistics in its order.
            let Some(found) = own.get(tag) else { continue };
            let found = found.as_object().unwrap().iter();
            let found: Vec<_> = found.filter(|(key, _)| !key.starts_with("p99_")).collect();
            assert_eq!(found, figure.iter().collect::<Vec<_>>(), "{tag}");
            compared += 1;
        }
        assert_eq!(compared, its.as_object().unwrap().len() - 3);
    }

    #[test]
    fn the_file_fits_its_schema() {
        let schema = include_str!("../../schema/profile_export_aiperf_timeslices.schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for summary in [full(), golden()] {
            let document = json(&summary);
            let faults: Vec<String> = validator
                .iter_errors(&document)
                .map(|fault| format!("{}: {fault}", fault.instance_path()))
                .collect();
            assert_eq!(faults, Vec::<String>::new());
        }
        assert!(validator.is_valid(&serde_json::from_str(GOLDEN_JSON).unwrap()));
        let mut broken = json(&full());
        broken["timeslices"][0]["flags"][0]["causes"][0]["kind"] = "weather".into();
        assert!(!validator.is_valid(&broken));
    }
}
