//! A run written by hand, for the tests of every format.

use super::RunInfo;
use super::mask::Secrets;
use crate::base::{Anchor, Ns};
use crate::config::{Config, Draft};
use crate::stats::Summary;
use crate::stats::summary::{Distribution, Figure, GpuSummary, MetricResult};

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
            uuid: "GPU-0".into(),
            name: "NVIDIA H200".into(),
            metrics: vec![spread(metric(
                "nvidia_power_usage",
                "NVIDIA GPU Power Usage",
                "W",
            ))],
            ..GpuSummary::default()
        }],
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
        has_warmup: false,
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
