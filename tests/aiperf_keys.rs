//! A reader of AIPerf's files reads ours: every key, unit, type, row and column of its recorded
//! files, against a run of the built binary. What differs stands in a table, with the reason.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const GOLDEN_JSON: &str = include_str!("data/golden/aiperf/profile_export_aiperf.json");
const GOLDEN_ERRORS: &str =
    include_str!("data/golden/aiperf/profile_export_aiperf.with_errors_and_warmup.json");
const GOLDEN_CSV: &str = include_str!("data/golden/aiperf/profile_export_aiperf.csv");
const GOLDEN_RECORD: &str = include_str!("data/golden/aiperf/profile_export.head1.jsonl");
const GOLDEN_FAILED: &str = include_str!("data/golden/aiperf/error_record.jsonl");

/// A difference that is meant: the beginning of a path or, after `*`, its end; and why.
type Meant = (&'static str, &'static str);

/// Keys of AIPerf that ours lacks.
const LACKING: &[Meant] = &[
    (
        "aiperf_version",
        "it is not AIPerf: tokenring_version stands in its place",
    ),
    (
        "telemetry_data",
        "no GPU in this test; report::json checks the block",
    ),
    (
        "nvidia_",
        "no GPU in this test; stats::energy checks the values",
    ),
    ("Energy ", "no GPU in this test"),
    ("Average GPU Power", "no GPU in this test"),
    ("Total GPU ", "no GPU in this test"),
    ("Goodput per Watt", "no GPU in this test"),
    ("Performance per Watt", "no GPU in this test"),
    ("Output Tokens per ", "no GPU in this test"),
    (
        "context_overflow_count",
        "counts the rejections of agentic replay, which is not there",
    ),
    (
        "warmup_metrics.context_overflow_count",
        "as without warm-up",
    ),
    (
        "input_config.datasets[].entries",
        "each prompt is its own unless --num-dataset-entries",
    ),
    (
        "input_config.artifacts.slice_duration",
        "no time slices were asked for",
    ),
    (
        "input_config.artifacts.trace",
        "there is no --export-http-trace: timeline has the moments",
    ),
    (
        "input_config.gpu_telemetry.",
        "this machine's driver is asked, no url",
    ),
    (
        "metadata.profiling_index",
        "only in the measured phase, as in AIPerf",
    ),
    (
        "warmup_metrics.usage_completion_tokens_diff_pct",
        "texts of the warm-up that the server has counted are not counted again",
    ),
    (
        "trace_data",
        "only with --export-http-trace in AIPerf; timeline has the moments",
    ),
];

/// Keys of ours that AIPerf lacks.
const ADDED: &[Meant] = &[
    (
        "server_metrics.",
        "what the servers say by common names, beside AIPerf's file of all they say",
    ),
    (
        "input_config.server_metrics.",
        "AIPerf had them switched off in the run with errors",
    ),
    ("client", "our own account"),
    ("tokenring_version", "see aiperf_version"),
    ("*.p99_9", "a percentile more"),
    ("*.p99_99", "a percentile more"),
    (
        "stream_setup_latency",
        "AIPerf's, which it shows to developers only",
    ),
    (
        "stream_prefill_latency",
        "AIPerf's, which it shows to developers only",
    ),
    (
        "warmup_metrics.stream_",
        "AIPerf's, which it shows to developers only",
    ),
    (
        "metrics.stream_",
        "AIPerf's, which it shows to developers only",
    ),
    ("Stream ", "AIPerf's, which it shows to developers only"),
    (
        "metrics.credit_to_start_latency",
        "AIPerf has it for the run only",
    ),
    (
        "metrics.effective_latency",
        "AIPerf has it for the run only",
    ),
    ("*_from_due.unit", "latency from the planned moment"),
    ("*_from_due.value", "latency from the planned moment"),
    (
        "metadata.request_ack_ns",
        "a failure whose head came keeps it",
    ),
    ("timeline", "every moment of the request"),
    ("stages", "where the request's time went"),
    (
        "metrics.http_req_tls_handshaking",
        "AIPerf has it in its connecting",
    ),
    ("failure", "kind and stage of a failure"),
];

mod mock;
use mock::Mock;

fn start(flags: &[&str]) -> Mock {
    let common = ["--usage", "details", "--ttft-ms", "5", "--itl-ms", "1"];
    Mock::start(&[&common[..], flags].concat())
}

fn profile(mock: &Mock, dir: &Path, flags: &[&str]) {
    let output = Command::new(cargo_bin("tokenring"))
        .args([
            "profile",
            "-m",
            "test/mock-model",
            "-u",
            &mock.url,
            "--endpoint-type",
            "chat",
        ])
        .args([
            "--streaming",
            "--tokenizer",
            "builtin",
            "--isl",
            "64",
            "--osl",
            "16",
        ])
        .args([
            "--random-seed",
            "42",
            "--no-preflight",
            "--allow-invalid",
            "--ui",
            "none",
        ])
        .args(["--artifact-dir", dir.to_str().unwrap()])
        .args(flags)
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Every path of a value with what a reader sees there: the type and, of a unit, the text.
fn shape(value: &Value, path: &str, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let dot = if path.is_empty() { "" } else { "." };
                shape(value, &format!("{path}{dot}{key}"), out);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| shape(item, &format!("{path}[]"), out)),
        _ => {
            let kind = match value {
                Value::String(text) if path.ends_with("unit") => text.as_str(),
                Value::String(_) => "string",
                Value::Number(n) if n.is_f64() => "float",
                Value::Number(_) => "integer",
                Value::Bool(_) => "bool",
                _ => "null",
            };
            out.insert(path.to_owned(), kind.to_owned());
        }
    }
}

fn is_meant(path: &str, meant: &[Meant]) -> bool {
    meant.iter().any(|(pattern, reason)| {
        assert!(!reason.is_empty());
        match pattern.strip_prefix('*') {
            Some(end) => path.ends_with(end),
            None => path.starts_with(pattern),
        }
    })
}

/// What is in one and not the other, beyond what is meant.
fn compare(ours: &BTreeMap<String, String>, golden: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, kind) in golden {
        match ours.get(path) {
            Some(own) if own != kind => faults.push(format!("{path} is {own}, not {kind}")),
            None if !is_meant(path, LACKING) => faults.push(format!("{path} is lacking")),
            _ => {}
        }
    }
    let added = ours.keys().filter(|path| !golden.contains_key(*path));
    faults.extend(
        added
            .filter(|path| !is_meant(path, ADDED))
            .map(|path| format!("{path} is added")),
    );
    faults
}

fn faults(ours: &Value, golden: &str) -> Vec<String> {
    let golden: Value = serde_json::from_str(golden.lines().next().unwrap())
        .or_else(|_| serde_json::from_str(golden))
        .unwrap();
    let of = |value: &Value| {
        let mut out = BTreeMap::new();
        shape(value, "", &mut out);
        // Which percentiles are unbounded, and then absent, is the share of failures.
        out.retain(|path, _| !(path.contains("adj_") && path.contains(".p")));
        out
    };
    compare(&of(ours), &of(&golden))
}

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

/// Rows by label and the two heads; GPU rows apart.
fn table(csv: &str) -> (Vec<&str>, BTreeSet<&str>) {
    let lines = csv.lines().take_while(|line| !line.starts_with("Endpoint"));
    let (heads, rows): (Vec<&str>, Vec<&str>) = lines
        .filter(|line| !line.is_empty())
        .partition(|line| line.starts_with("Metric,"));
    let labels = rows.iter().filter_map(|row| row.split(',').next());
    (heads, labels.collect())
}

#[test]
fn the_files_of_a_run_have_what_a_reader_of_aiperf_expects() {
    let mock = start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let load = [
        "--concurrency",
        "4",
        "--request-count",
        "20",
        "--export-level",
        "raw",
        "--no-gpu-telemetry",
    ];
    let slos = [
        "--goodput",
        "time_to_first_token:100 inter_token_latency:10",
    ];
    profile(&mock, dir.path(), &[&load[..], &slos].concat());
    let json: Value =
        serde_json::from_str(&read(dir.path(), "profile_export_aiperf.json")).unwrap();
    assert_eq!(faults(&json, GOLDEN_JSON), Vec::<String>::new());

    let csv = read(dir.path(), "profile_export_aiperf.csv");
    let ((heads, rows), (golden_heads, golden_rows)) = (table(&csv), table(GOLDEN_CSV));
    assert_eq!(heads.len(), 2);
    assert!(
        heads[0].starts_with(golden_heads[0]) && heads[1] == golden_heads[1],
        "{heads:?}"
    );
    let lacking = golden_rows
        .difference(&rows)
        .filter(|row| !is_meant(row, LACKING));
    assert_eq!(lacking.collect::<Vec<_>>(), Vec::<&&str>::new());
    let added = rows
        .difference(&golden_rows)
        .filter(|row| !is_meant(row, ADDED));
    assert_eq!(added.collect::<Vec<_>>(), Vec::<&&str>::new());

    for line in read(dir.path(), "profile_export.jsonl").lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert_eq!(faults(&record, GOLDEN_RECORD), Vec::<String>::new());
    }
}

#[test]
fn failures_and_warmup_are_where_a_reader_of_aiperf_expects_them() {
    let mock = start(&["--error-rate", "0.3"]);
    let dir = tempfile::tempdir().unwrap();
    let load = [
        "--request-rate",
        "200",
        "--request-count",
        "40",
        "--warmup-request-count",
        "20",
    ];
    profile(
        &mock,
        dir.path(),
        &[&load[..], &["--no-gpu-telemetry"]].concat(),
    );
    let json: Value =
        serde_json::from_str(&read(dir.path(), "profile_export_aiperf.json")).unwrap();
    assert_eq!(faults(&json, GOLDEN_ERRORS), Vec::<String>::new());
    let lines = read(dir.path(), "profile_export.jsonl");
    let records = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let failed: Vec<Value> = records.filter(|r| r.get("error").is_some()).collect();
    let is_warmup = |record: &&Value| record["metadata"]["benchmark_phase"] == "warmup";
    // The recorded one is of the warm-up.
    let failed = failed.iter().find(is_warmup).unwrap();
    assert_eq!(faults(failed, GOLDEN_FAILED), Vec::<String>::new());
}
