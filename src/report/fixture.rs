//! A run written by hand, for the tests of every format.

use super::{RunInfo, Secrets};
use crate::base::{Anchor, Ns};
use crate::config::{Config, Draft};
use crate::stats::Summary;
use crate::stats::metric::METRICS;
use crate::stats::slices::Slice;
use crate::stats::summary::{
    Adjusted, Distribution, ErrorGroup, Figure, GpuSummary, MetricResult, TelemetrySources,
    Weighted,
};
use serde_json::Value;

fn metric(tag: &'static str, header: &'static str, unit: &'static str) -> MetricResult {
    MetricResult {
        tag,
        header,
        unit,
        figure: Figure::Scalar(1_525.5),
    }
}

fn spread(mut metric: MetricResult) -> MetricResult {
    metric.figure = Figure::Distribution(Distribution {
        avg: 5.0,
        min: 1.0,
        max: 12.0,
        std: 2.5,
        sum: 50.0,
        count: 10,
        percentiles: [1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 9.0, 10.0, 11.0, 11.9, 11.99],
        exact: true,
    });
    metric
}

pub(super) fn summary() -> Summary {
    Summary {
        metrics: vec![
            metric("request_throughput", "Request Throughput", "requests/sec"),
            spread(metric("request_latency", "Request Latency", "ms")),
            metric("request_count", "Request Count", "requests"),
            spread(metric("decode_duration", "Decode Duration", "ms")),
        ],
        gpus: vec![GpuSummary {
            source: "nvml://localhost".into(),
            uuid: "GPU-0".into(),
            name: "NVIDIA H200".into(),
            metrics: vec![spread(metric(
                "nvidia_power_usage",
                "NVIDIA GPU Power Usage",
                "W",
            ))],
            ..GpuSummary::default()
        }],
        telemetry: TelemetrySources {
            configured: vec!["nvml://localhost".into()],
            successful: vec!["nvml://localhost".into()],
            ..TelemetrySources::default()
        },
        ..Summary::default()
    }
}

pub(super) fn run() -> RunInfo {
    RunInfo {
        benchmark_id: "0123456789ab".into(),
        version: "0.1.0".into(),
        trial: 0,
        cli_command: "tokenring profile".into(),
        anchor: Anchor::at(Ns(0), 1_796_003_780_000_000_000),
        urls: vec!["http://127.0.0.1:8000".into()],
        models: vec!["org/model".into()],
        artifact_dir: "artifacts/x".into(),
        hostname: "localhost".into(),
        phases: vec![("profiling".into(), true)],
        dataset_entries: None,
        secrets: Secrets::default(),
    }
}

pub(super) fn config() -> Config {
    let draft = Draft {
        model: Some("org/model".into()),
        streaming: Some(true),
        concurrency: Some(4),
        osl: Some(12.0),
        random_seed: Some(7),
        ..Draft::default()
    };
    draft.check("tokenring profile").unwrap().config
}

/// AIPerf's own run as a summary of ours: every figure that it exported.
pub(super) fn golden() -> Summary {
    from_aiperf(include_str!(
        "../../tests/data/golden/aiperf/profile_export_aiperf.json"
    ))
}

/// The same of its run with failures and a warm-up.
pub(super) fn golden_with_errors() -> Summary {
    from_aiperf(include_str!(
        "../../tests/data/golden/aiperf/profile_export_aiperf.with_errors_and_warmup.json"
    ))
}

/// The slices of AIPerf's own run.
pub(super) fn golden_slices() -> Vec<Slice> {
    let golden: Value = serde_json::from_str(include_str!(
        "../../tests/data/golden/aiperf/profile_export_aiperf_timeslices.json"
    ))
    .unwrap();
    let at = |value: &Value| run().anchor.mono(value.as_u64().unwrap());
    let slice = |slice: &Value| Slice {
        from: at(&slice["start_ns"]),
        to: at(&slice["end_ns"]),
        is_complete: slice["is_complete"].as_bool().unwrap(),
        metrics: metrics(slice),
        ..Slice::default()
    };
    let slices = golden["timeslices"].as_array().unwrap();
    slices.iter().map(slice).collect()
}

fn metrics(values: &Value) -> Vec<MetricResult> {
    let plain = METRICS.iter().map(|m| (m.tag, m.header, m.unit));
    let adjusted = METRICS
        .iter()
        .filter_map(|m| m.adjusted.map(|(tag, header)| (tag, header, m.unit)));
    plain
        .chain(adjusted)
        .filter_map(|(tag, header, unit)| exported(&values[tag], tag, header, unit))
        .collect()
}

fn from_aiperf(text: &str) -> Summary {
    let golden: Value = serde_json::from_str(text).unwrap();
    let error = |group: &Value| ErrorGroup {
        code: 500,
        name: group["error_details"]["type"].as_str().unwrap().into(),
        message: group["error_details"]["message"].as_str().unwrap().into(),
        count: group["count"].as_u64().unwrap(),
    };
    let endpoints = golden["telemetry_data"]["endpoints"].as_object();
    let first = endpoints.and_then(|all| all.values().next()?["gpus"].as_object());
    let source = golden["telemetry_data"]["summary"]["endpoints_configured"][0].as_str();
    Summary {
        metrics: metrics(&golden),
        warmup: metrics(&golden["warmup_metrics"]),
        errors: golden["error_summary"]
            .as_array()
            .unwrap()
            .iter()
            .map(error)
            .collect(),
        gpus: first.map_or(Vec::new(), |gpus| {
            let source = source.unwrap();
            gpus.values().map(|own| gpu(own, source)).collect()
        }),
        ..Summary::default()
    }
}

fn gpu(golden: &Value, source: &str) -> GpuSummary {
    let metrics = golden["metrics"].as_object().unwrap().iter();
    let metrics = metrics.filter_map(|(tag, value)| {
        let header = match tag.as_str() {
            "nvidia_power_usage" => "NVIDIA GPU Power Usage",
            "nvidia_energy_consumption" => "NVIDIA Energy Consumption",
            "nvidia_gpu_utilization" => "NVIDIA GPU Utilization",
            "nvidia_memory_utilization" => "NVIDIA Memory Utilization",
            "nvidia_memory_used" => "NVIDIA GPU Memory Used",
            "nvidia_temperature" => "NVIDIA GPU Temperature",
            "nvidia_xid_errors" => "NVIDIA XID Errors",
            _ => "NVIDIA Power Violation",
        };
        let still = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        exported(value, still(tag), header, still(value["unit"].as_str()?))
    });
    GpuSummary {
        source: source.into(),
        hostname: golden["hostname"].as_str().unwrap().into(),
        index: u32::try_from(golden["gpu_index"].as_u64().unwrap()).unwrap(),
        uuid: golden["gpu_uuid"].as_str().unwrap().into(),
        name: golden["gpu_name"].as_str().unwrap().into(),
        metrics: metrics.collect(),
        ..GpuSummary::default()
    }
}

fn exported(
    value: &Value,
    tag: &'static str,
    header: &'static str,
    unit: &'static str,
) -> Option<MetricResult> {
    let at = |key: &str| value[key].as_f64();
    let must = |key: &str| at(key).unwrap_or_else(|| panic!("{tag} has no {key}"));
    let count = value["count"].as_u64();
    let avg = at("avg");
    assert!(value.is_null() || value["unit"] == unit, "{tag}: {unit}");
    let figure = match (avg, count) {
        (Some(avg), Some(count)) => Figure::Distribution(Distribution {
            avg,
            min: must("min"),
            max: must("max"),
            std: must("std"),
            sum: must("sum"),
            count,
            percentiles: [
                "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max", "max",
            ]
            .map(must),
            exact: true,
        }),
        (Some(avg), None) if value.get("p50").is_some() => Figure::Weighted(Weighted {
            avg,
            min: must("min"),
            max: must("max"),
            std: must("std"),
            percentiles: ["p50", "p90", "p95", "p99"].map(must),
        }),
        (Some(avg), None) => Figure::Scalar(avg),
        (None, Some(count)) => Figure::Adjusted(Adjusted {
            min: must("min"),
            count,
            percentiles: ["p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"].map(at),
        }),
        (None, None) => return None,
    };
    Some(MetricResult {
        tag,
        header,
        unit,
        figure,
    })
}
