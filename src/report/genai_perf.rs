//! GenAI-Perf's `profile_export_genai_perf.json` and `.csv`: its keys, its rows, our numbers.
//!
//! What a run does not have is left out, as there. One thing differs on purpose: without a
//! stream GenAI-Perf gives the latency once more as the time to first token; here it is absent.

use super::RunInfo;
use super::csv::line;
use super::gpus::labels;
use super::input_config::tokenizer;
use super::text::{grouped, stat};
use crate::config::{Api, Config, ExportLevel, Lengths, hide_target};
use crate::stats::Summary;
use crate::stats::summary::{Figure, GpuSummary, MetricResult};
use serde_json::{Map, Value, json};

/// Our tag, its key, its unit: the JSON's metrics in order.
const METRICS: [(&str, &str, &str); 11] = [
    ("request_throughput", "request_throughput", "requests/sec"),
    ("request_latency", "request_latency", "ms"),
    ("goodput", "request_goodput", "requests/sec"),
    ("request_count", "request_count", "count"),
    ("time_to_first_token", "time_to_first_token", "ms"),
    ("time_to_second_token", "time_to_second_token", "ms"),
    ("inter_token_latency", "inter_token_latency", "ms"),
    (
        "output_token_throughput",
        "output_token_throughput",
        "tokens/sec",
    ),
    (
        "output_token_throughput_per_user",
        "output_token_throughput_per_user",
        "tokens/sec/user",
    ),
    ("output_sequence_length", "output_sequence_length", "tokens"),
    ("input_sequence_length", "input_sequence_length", "tokens"),
];
/// Our tag and its row: the CSV's distributions in order.
const SPREAD_ROWS: [(&str, &str); 7] = [
    ("time_to_first_token", "Time To First Token (ms)"),
    ("time_to_second_token", "Time To Second Token (ms)"),
    ("request_latency", "Request Latency (ms)"),
    ("inter_token_latency", "Inter Token Latency (ms)"),
    (
        "output_token_throughput_per_user",
        "Output Token Throughput Per User (tokens/sec/user)",
    ),
    ("output_sequence_length", "Output Sequence Length (tokens)"),
    ("input_sequence_length", "Input Sequence Length (tokens)"),
];
/// Our tag and its row: the CSV's single numbers in order.
const SCALAR_ROWS: [(&str, &str); 4] = [
    (
        "output_token_throughput",
        "Output Token Throughput (tokens/sec)",
    ),
    ("request_throughput", "Request Throughput (per sec)"),
    ("goodput", "Request Goodput (per sec)"),
    ("request_count", "Request Count (count)"),
];
/// Statistics of the CSV.
const COLUMNS: [&str; 12] = [
    "avg", "min", "max", "p99", "p95", "p90", "p75", "p50", "p25", "p10", "p5", "p1",
];
/// Statistics of the JSON.
const KEYS: [&str; 13] = [
    "avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max", "std",
];

/// How GenAI-Perf names what is sampled of a GPU; but for PCIe the units are ours too.
struct Gauge {
    tag: &'static str,
    key: &'static str,
    header: &'static str,
    unit: &'static str,
    /// One number per GPU.
    is_fixed: bool,
}

const fn gauge(names: [&'static str; 4], is_fixed: bool) -> Gauge {
    let [tag, key, header, unit] = names;
    Gauge {
        tag,
        key,
        header,
        unit,
        is_fixed,
    }
}

/// Those of GenAI-Perf's 29 that we have, in its order. Energy is that of the run, once per GPU,
/// and so are the other counters; GenAI-Perf spreads them since boot.
#[rustfmt::skip]
const GAUGES: [Gauge; 23] = [
    gauge(["nvidia_power_usage", "gpu_power_usage", "GPU Power Usage", "W"], false),
    gauge(["nvidia_power_limit", "gpu_power_limit", "GPU Power Limit", "W"], true),
    gauge(["nvidia_energy_consumption", "energy_consumption", "Energy Consumption", "MJ"], true),
    gauge(["nvidia_memory_total", "total_gpu_memory", "Total GPU Memory", "GB"], true),
    gauge(["nvidia_memory_used", "gpu_memory_used", "GPU Memory Used", "GB"], false),
    gauge(["nvidia_memory_free", "gpu_memory_free", "GPU Memory Free", "GB"], false),
    gauge(["nvidia_gpu_utilization", "gpu_utilization", "GPU Utilization", "%"], false),
    gauge(["nvidia_sm_utilization", "sm_utilization", "Sm Utilization", "%"], false),
    gauge(["nvidia_memory_utilization", "memory_copy_utilization", "Memory Copy Utilization", "%"],
        false),
    gauge(["nvidia_encoder_utilization", "video_encoder_utilization", "Video Encoder Utilization",
        "%"], false),
    gauge(["nvidia_decoder_utilization", "video_decoder_utilization", "Video Decoder Utilization",
        "%"], false),
    gauge(["nvidia_sm_clock", "gpu_clock_sm", "GPU Clock Sm", "MHz"], false),
    gauge(["nvidia_memory_clock", "gpu_clock_memory", "GPU Clock Memory", "MHz"], false),
    gauge(["nvidia_temperature", "gpu_temperature", "GPU Temperature", "C"], false),
    gauge(["nvidia_memory_temperature", "gpu_memory_temperature", "GPU Memory Temperature", "C"],
        false),
    gauge(["nvidia_ecc_corrected", "total_ecc_sbe_volatile", "Total Ecc Sbe Volatile", "errors"],
        true),
    gauge(["nvidia_ecc_uncorrected", "total_ecc_dbe_volatile", "Total Ecc Dbe Volatile", "errors"],
        true),
    gauge(["nvidia_xid_errors", "xid_last_error", "Xid Last Error", "errors"], true),
    gauge(["nvidia_power_violation", "power_throttle_duration", "Power Throttle Duration", "us"],
        true),
    gauge(["nvidia_thermal_violation", "thermal_throttle_duration", "Thermal Throttle Duration",
        "us"], true),
    gauge(["nvidia_pcie_sent", "pcie_transmit_throughput", "Pcie Transmit Throughput", "KB/s"],
        false),
    gauge(["nvidia_pcie_received", "pcie_receive_throughput", "Pcie Receive Throughput", "KB/s"],
        false),
    gauge(["nvidia_pcie_replays", "pcie_replay_counter", "Pcie Replay Counter", "retries"], true),
];

impl Gauge {
    fn stat(&self, gpu: &GpuSummary, key: &str) -> Option<f64> {
        let metric = gpu.metrics.iter().find(|metric| metric.tag == self.tag)?;
        let value = stat(&metric.figure, key)?;
        // Ours are bytes.
        Some(if self.unit == "KB/s" {
            value / 1e3
        } else {
            value
        })
    }
}

/// `profile_export_genai_perf.json`; secrets are masked.
pub fn json(summary: &Summary, config: &Config, run: &RunInfo) -> Value {
    let telemetry = telemetry(&summary.gpus);
    let settings = input_config(summary, config, run);
    let mut value = json_of(&summary.metrics, &telemetry, settings);
    run.secrets.mask_value(&mut value);
    value
}

/// The same of figures that lie on disk, with the telemetry and the settings that lie beside them.
pub fn json_of(
    metrics: &[MetricResult],
    telemetry: &Map<String, Value>,
    input_config: Value,
) -> Value {
    let mut out = Map::new();
    for (tag, key, unit) in METRICS {
        if let Some(metric) = metrics.iter().find(|metric| metric.tag == tag) {
            out.insert(key.into(), figure(metric, unit));
        }
    }
    if !telemetry.is_empty() {
        out.insert("telemetry_stats".into(), telemetry.clone().into());
    }
    if !input_config.is_null() {
        out.insert("input_config".into(), input_config);
    }
    Value::Object(out)
}

/// `profile_export_genai_perf.csv`: CRLF, two decimals, thousands separated and then quoted.
pub fn csv(summary: &Summary) -> Vec<u8> {
    csv_of(&summary.metrics, &telemetry(&summary.gpus))
}

/// The same of figures that lie on disk, with the `telemetry_stats` that lie beside them.
pub fn csv_of(metrics: &[MetricResult], telemetry: &Map<String, Value>) -> Vec<u8> {
    let mut out = Vec::new();
    let find = |tag: &str| metrics.iter().find(|metric| metric.tag == tag);
    line(&mut out, ["Metric"].iter().chain(&COLUMNS));
    for (tag, label) in SPREAD_ROWS {
        if let Some(metric) = find(tag) {
            let cells = COLUMNS.iter().map(|key| cell(stat(&metric.figure, key)));
            line(&mut out, std::iter::once(label.to_owned()).chain(cells));
        }
    }
    line(&mut out, [""]);
    line(&mut out, ["Metric", "Value"]);
    for (tag, label) in SCALAR_ROWS {
        if let Some(metric) = find(tag) {
            line(
                &mut out,
                [label.to_owned(), cell(stat(&metric.figure, "avg"))],
            );
        }
    }
    gpu_rows(telemetry, &["Metric", "GPU"], &COLUMNS, &mut out);
    gpu_rows(telemetry, &["Metric", "GPU", "Value"], &[], &mut out);
    out
}

/// Tags in the order of its rows.
pub(super) fn rows() -> impl Iterator<Item = &'static str> {
    SPREAD_ROWS.iter().chain(&SCALAR_ROWS).map(|(tag, _)| *tag)
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "N/A".to_owned(), grouped)
}

/// A table of gauges, each over all GPUs; nothing at all where there is no row. Without `columns`
/// it is that of the gauges with one number per GPU.
fn gpu_rows(telemetry: &Map<String, Value>, head: &[&str], columns: &[&str], out: &mut Vec<u8>) {
    let mut rows = Vec::new();
    for (gauge, block) in GAUGES
        .iter()
        .filter_map(|gauge| Some((gauge, telemetry.get(gauge.key)?.as_object()?)))
    {
        let unit = block
            .get("unit")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let gpus = block.iter().filter(|(label, _)| *label != "unit");
        let is_wanted = |stats: &Value| stats.get("p99").is_some() != columns.is_empty();
        for (label, stats) in gpus.filter(|(_, stats)| is_wanted(stats)) {
            let value = |key: &str| cell(stats.get(key).and_then(Value::as_f64));
            let mut row = vec![format!("{} ({unit})", gauge.header), label.clone()];
            match columns {
                [] => row.push(value("avg")),
                columns => row.extend(columns.iter().map(|key| value(key))),
            }
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return;
    }
    line(out, [""]);
    line(out, head.iter().chain(columns));
    for row in rows {
        line(out, row);
    }
}

fn figure(metric: &MetricResult, unit: &str) -> Value {
    let mut out = Map::new();
    out.insert("unit".into(), unit.into());
    let keys: &[&str] = match metric.figure {
        Figure::Scalar(_) => &["avg"],
        _ => &KEYS,
    };
    for key in keys {
        if let Some(value) = stat(&metric.figure, key) {
            out.insert((*key).into(), value.into());
        }
    }
    Value::Object(out)
}

fn telemetry(gpus: &[GpuSummary]) -> Map<String, Value> {
    let mut out = Map::new();
    let labels = labels(gpus);
    for gauge in &GAUGES {
        let keys: &[&str] = if gauge.is_fixed { &["avg"] } else { &KEYS };
        let mut per_gpu = Map::new();
        for (gpu, label) in gpus.iter().zip(&labels) {
            let stats: Map<String, Value> = keys
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), gauge.stat(gpu, key)?.into())))
                .collect();
            if !stats.is_empty() {
                per_gpu.insert(label.clone(), stats.into());
            }
        }
        if !per_gpu.is_empty() {
            let mut block = Map::new();
            block.insert("unit".into(), gauge.unit.into());
            block.append(&mut per_gpu);
            out.insert(gauge.key.into(), block.into());
        }
    }
    out
}

/// What was asked for, in GenAI-Perf's shape; settings that only it has are left out.
fn input_config(summary: &Summary, config: &Config, run: &RunInfo) -> Value {
    json!({
        "model_names": run.models,
        "subcommand": "profile",
        "verbose": config.verbose,
        "endpoint": endpoint(config, run),
        "perf_analyzer": load(config),
        "input": input(config),
        "output": {
            "artifact_directory": run.artifact_dir,
            "profile_export_file": profile_export_file(config),
            "generate_plots": config.generate_plots,
        },
        "tokenizer": { "name": tokenizer(summary, config) },
    })
}

fn endpoint(config: &Config, run: &RunInfo) -> Value {
    let mut out = Map::new();
    let (backend, kind) = match config.api {
        Api::TritonTensorrtllm => (Some("tensorrtllm"), "triton"),
        Api::TritonVllm => (Some("vllm"), "triton"),
        _ => (None, "openai"),
    };
    if let Some(backend) = backend {
        out.insert("backend".into(), backend.into());
    }
    if let Some(path) = &config.path {
        let path = hide_target(path, &mut Vec::new());
        out.insert("custom".into(), path.into());
    }
    out.insert("type".into(), config.api.name().into());
    out.insert("streaming".into(), config.streaming.into());
    // Its one address; the others are in AIPerf's file.
    out.insert("url".into(), run.urls.first().cloned().into());
    out.insert("service_kind".into(), kind.into());
    Value::Object(out)
}

fn load(config: &Config) -> Value {
    let mut stimulus = Map::new();
    let main = config.main();
    match main.load.rate_per_s() {
        None => stimulus.insert("concurrency".into(), main.load.slots().into()),
        Some(rate_per_s) => stimulus.insert("request_rate".into(), rate_per_s.into()),
    };
    let measurement = match (main.requests, main.duration) {
        (Some(count), _) => json!({"mode": "request_count", "num": count}),
        (None, Some(span)) => json!({"mode": "time_windows", "num": span.as_ms()}),
        (None, None) => json!({}),
    };
    json!({
        "verbose": config.verbose,
        "stimulus": stimulus,
        "measurement": measurement,
        "warmup_request_count": config.warmup_requests(),
    })
}

fn input(config: &Config) -> Value {
    let lengths = |lengths: Lengths| json!({"mean": lengths.mean, "stddev": lengths.stddev});
    let mut out = Map::new();
    out.insert("batch_size".into(), config.contents.texts.into());
    if !config.extra_inputs.is_empty() {
        out.insert("extra".into(), config.extra_inputs_shown().into());
    }
    if !config.goodput.is_empty() {
        let slos = config.goodput.iter();
        let slos: Map<_, _> = slos
            .map(|slo| (slo.tag.clone(), slo.limit.into()))
            .collect();
        out.insert("goodput".into(), slos.into());
    }
    if let Some(entries) = config.dataset_entries {
        out.insert("num_dataset_entries".into(), entries.into());
    }
    out.insert("random_seed".into(), config.seed.into());
    if let Some(osl) = config.osl {
        let fixed = config.osl_deterministic;
        let osl = json!({"mean": osl.mean, "deterministic": fixed, "stddev": osl.stddev});
        out.insert("output_tokens".into(), osl);
    }
    out.insert("synthetic_tokens".into(), lengths(config.isl));
    out.insert("prompt_source".into(), "synthetic".into());
    Value::Object(out)
}

/// The records' file, whose stem names ours; absent when none is written.
fn profile_export_file(config: &Config) -> Option<String> {
    let prefix = config.export_prefix.as_deref().unwrap_or("profile_export");
    (config.export_level >= ExportLevel::Records).then(|| format!("{prefix}.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    const CSV: &str =
        include_str!("../../tests/data/golden/genai-perf/profile_export_genai_perf.csv");

    fn golden() -> Value {
        serde_json::from_str(include_str!(
            "../../tests/data/golden/genai-perf/profile_export_genai_perf.json"
        ))
        .unwrap()
    }

    fn keys(value: &Value) -> Vec<&str> {
        let map = value.as_object().unwrap();
        map.keys().map(String::as_str).collect()
    }

    /// True when `ours` are some of `theirs`, in their order.
    fn is_subsequence(ours: &[&str], theirs: &[&str]) -> bool {
        let mut theirs = theirs.iter();
        ours.iter().all(|key| theirs.any(|other| other == key))
    }

    /// A run with every metric that GenAI-Perf has.
    fn full() -> Summary {
        let mut summary = fixture::summary();
        let given = |tag: &str| summary.metric(tag).unwrap().figure.clone();
        let (scalar, spread) = (given("request_throughput"), given("request_latency"));
        summary.metrics = METRICS
            .iter()
            .map(|(tag, _, unit)| {
                let is_spread = SPREAD_ROWS.iter().any(|row| row.0 == *tag);
                let figure = if is_spread { &spread } else { &scalar };
                MetricResult {
                    tag,
                    header: tag,
                    unit,
                    figure: figure.clone(),
                }
            })
            .collect();
        summary
    }

    fn written(summary: &Summary) -> Value {
        json(summary, &fixture::config(), &fixture::run())
    }

    fn table(summary: &Summary) -> String {
        String::from_utf8(csv(summary)).unwrap()
    }

    #[test]
    fn metrics_have_the_keys_and_units_of_genai_perf_in_its_order() {
        let (ours, golden) = (
            written(&Summary {
                gpus: Vec::new(),
                ..full()
            }),
            golden(),
        );
        assert_eq!(keys(&ours), keys(&golden));
        for key in keys(&golden)
            .into_iter()
            .filter(|key| *key != "input_config")
        {
            assert_eq!(keys(&ours[key]), keys(&golden[key]), "{key}");
            assert_eq!(ours[key]["unit"], golden[key]["unit"], "{key}");
        }
    }

    #[test]
    fn the_settings_keep_the_order_of_genai_perf() {
        let (ours, golden) = (&written(&full())["input_config"], &golden()["input_config"]);
        assert!(is_subsequence(&keys(ours), &keys(golden)));
        for key in ["endpoint", "perf_analyzer", "input", "output", "tokenizer"] {
            assert!(
                is_subsequence(&keys(&ours[key]), &keys(&golden[key])),
                "{key}"
            );
        }
    }

    #[test]
    fn the_table_has_the_rows_and_line_ends_of_genai_perf() {
        let labels = |text: &str| -> Vec<String> {
            let lines = text.split("\r\n");
            lines
                .map(|line| line.split(',').next().unwrap().to_owned())
                .collect()
        };
        let ours = table(&Summary {
            gpus: Vec::new(),
            ..full()
        });
        assert_eq!(labels(&ours), labels(CSV));
        assert_eq!(ours.lines().next(), CSV.lines().next());
        assert!(ours.contains("Request Count (count),\"1,525.50\"\r\n"));
        assert!(!ours.replace("\r\n", "").contains('\n'));
    }

    #[test]
    fn without_a_stream_the_four_streaming_rows_are_gone() {
        let mut summary = full();
        summary.metrics.retain(|metric| {
            let need = crate::stats::metric::find(metric.tag).unwrap().need;
            need != crate::stats::metric::Need::Streaming
        });
        let rows = |summary: &Summary| table(summary).lines().count();
        assert_eq!(rows(&summary), rows(&full()) - 4);
        assert!(written(&summary).get("time_to_first_token").is_none());
    }

    #[test]
    fn the_files_are_as_committed() {
        insta::assert_snapshot!("genai_perf_json", format!("{:#}", written(&full())));
        insta::assert_snapshot!("genai_perf_csv", table(&full()).replace("\r\n", "\n"));
    }
}
