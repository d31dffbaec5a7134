//! Recorded runs, reported anew by the built binary: our own to the digit, GenAI-Perf's goldens to
//! the digit, and files that are none.

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod mock;
mod ran;
use mock::Mock;

const GENAI: &str = "profile_export_genai_perf.json";
const GENAI_CSV: &str = "profile_export_genai_perf.csv";
const AIPERF: &str = "profile_export_aiperf.json";
const EXPORT: &str = "profile_export.json";

fn report(args: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("tokenring"));
    command.arg("report").args(args).output().unwrap()
}

fn reported(path: &Path, to: &Path, flags: &[&str]) -> String {
    let (path, to) = (path.to_str().unwrap(), to.to_str().unwrap());
    let args = [&[path, "--artifact-dir", to], flags].concat();
    let output = report(&args);
    ran::code(&output, 0);
    ran::text(&output.stdout)
}

fn refused(args: &[&str], told: &[&str]) {
    let output = report(args);
    ran::code(&output, 2);
    let text = ran::text(&output.stderr);
    for told in told {
        assert!(text.contains(told), "{args:?}: {text}");
    }
}

fn text(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn document(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&text(folder, name)).unwrap()
}

/// Without what says how it came about.
fn plain(folder: &Path, name: &str) -> Value {
    let mut found = document(folder, name);
    found.as_object_mut().unwrap().remove("recomputed");
    found
}

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden/genai-perf/runs")
}

/// GenAI-Perf's own files of a run come out again, to the digit and the byte.
fn comes_out_again(run: &Path, is_counted: bool) {
    let dir = tempfile::tempdir().unwrap();
    reported(run, dir.path(), &[]);
    // Python writes an exponent of two digits; all else is the same to the byte.
    let written = serde_json::to_string_pretty(&plain(dir.path(), GENAI)).unwrap();
    let golden = text(run, GENAI).replace("e-07", "e-7");
    assert!(written == golden.trim_end(), "{run:?}: {written}");
    assert_eq!(text(dir.path(), GENAI_CSV), text(run, GENAI_CSV), "{run:?}");
    if !is_counted {
        return;
    }
    // All but the prompts' lengths needs no tokenizer but one that knows ` the`.
    let counted = dir.path().join("counted");
    reported(run, &counted, &["--tokenizer", "builtin"]);
    let (mut found, mut golden) = (plain(&counted, GENAI), document(run, GENAI));
    for one in [&mut found, &mut golden] {
        one.as_object_mut().unwrap().remove("input_sequence_length");
    }
    assert_eq!(found, golden, "{run:?}");
}

#[test]
fn genai_perfs_files_come_out_again_from_perf_analyzers() {
    for name in ["c1-concurrency1", "te1-concurrency2"] {
        comes_out_again(&golden_folder().join(name), name.starts_with("c1"));
    }
}

#[test]
fn all_of_genai_perfs_recorded_runs_come_out_again() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/golden/genai-perf");
    if !root.is_dir() {
        eprintln!("SKIPPED: the full set of GenAI-Perf's runs is not beside this repository");
        return;
    }
    let mut seen = 0;
    for group in ["c1", "te1", "w1"] {
        for entry in std::fs::read_dir(root.join(group).join("artifacts")).unwrap() {
            let run = entry.unwrap().path();
            if run.join(EXPORT).is_file() {
                comes_out_again(&run, group == "w1");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 7);
}

#[test]
fn rates_of_several_clients_are_added_in_genai_perfs_definitions() {
    let folders = ["c1-concurrency1", "te1-concurrency2"].map(|name| golden_folder().join(name));
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<&str> = folders.iter().map(|path| path.to_str().unwrap()).collect();
    let to = dir.path().join("both");
    let to = to.to_str().unwrap();
    ran::code(&report(&[&paths[..], &["--artifact-dir", to]].concat()), 0);
    let found = document(Path::new(to), GENAI);
    let of = |folder: &Path, key: &str| document(folder, GENAI)[key]["avg"].as_f64().unwrap();
    for key in [
        "request_throughput",
        "output_token_throughput",
        "request_count",
    ] {
        let sum = of(&folders[0], key) + of(&folders[1], key);
        assert_eq!(found[key]["avg"].as_f64(), Some(sum), "{key}");
    }
    // GenAI-Perf's own name for it, over the folder that holds them.
    let mut command = Command::new(cargo_bin("tokenring"));
    let named = dir.path().join("named");
    command
        .args(["process-export-files", "-d"])
        .arg(golden_folder());
    let output = command.arg("--artifact-dir").arg(&named).output().unwrap();
    ran::code(&output, 0);
    assert_eq!(document(&named, GENAI)["request_count"]["avg"], 20.0);
}

#[test]
fn a_peers_run_has_figures_in_aiperfs_definitions() {
    let dir = tempfile::tempdir().unwrap();
    let run = golden_folder().join("c1-concurrency1");
    reported(&run, dir.path(), &["--as", "aiperf"]);
    let (found, golden) = (document(dir.path(), AIPERF), document(&run, GENAI));
    for key in [
        "request_latency",
        "time_to_first_token",
        "inter_token_latency",
    ] {
        let (ours, theirs) = (&found[key]["p99"], &golden[key]["p99"]);
        let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
        assert!((ours - theirs).abs() < 2e-6, "{key}: {ours} {theirs}");
    }
    assert_eq!(found["inter_chunk_latency"]["count"], 30);
    assert!(found["effective_concurrency"]["avg"].as_f64().unwrap() > 0.5);
    assert_eq!(found["recomputed"]["definitions"], "aiperf");
    fits_recomputed(&found);
}

fn fits_recomputed(document: &Value) {
    let schema = include_str!("../schema/recomputed.schema.json");
    ran::fits(&document["recomputed"], schema);
}

/// A run of ours, with some of its requests failed.
fn run(flags: &[&str], mock: &[&str]) -> tempfile::TempDir {
    let mock = Mock::start(mock);
    let dir = tempfile::tempdir().unwrap();
    let base = [
        "--concurrency=4",
        "--request-count=40",
        "--osl=6",
        "--token-count=client",
    ];
    let flags = [&base, flags].concat();
    let output = ran::command(&mock.url, dir.path(), &flags)
        .output()
        .unwrap();
    ran::code(&output, 0);
    dir
}

#[test]
fn our_own_run_comes_out_again_to_the_digit() {
    let mock = ["--ttft-ms", "4", "--itl-ms", "1", "--error-rate", "0.1"];
    let flags = [
        "--warmup-request-count=4",
        "--goodput",
        "request_latency:1000",
    ];
    let dir = run(&flags, &mock);
    let to = dir.path().join("again");
    let screen = reported(dir.path(), &to, &[]);
    assert!(screen.contains("Verdict of the run: "), "{screen}");
    for name in [AIPERF, GENAI] {
        assert_eq!(plain(&to, name), document(dir.path(), name), "{name}");
    }
    for name in ["profile_export_aiperf.csv", GENAI_CSV] {
        assert_eq!(text(&to, name), text(dir.path(), name), "{name}");
    }
    let account = &document(&to, AIPERF)["recomputed"];
    assert_eq!(account["taken_over"], json!([]), "{account}");
    fits_recomputed(&document(&to, AIPERF));
    // From the columns alone: what needs every event's time is taken over, and named.
    std::fs::remove_file(dir.path().join("profile_export.jsonl")).unwrap();
    reported(dir.path(), &to, &["--overwrite"]);
    assert_eq!(plain(&to, AIPERF), document(dir.path(), AIPERF));
    let account = document(&to, AIPERF)["recomputed"].to_string();
    assert!(account.contains("inter_chunk_latency"), "{account}");
}

#[test]
fn two_halves_are_one_whole() {
    let dir = run(&[], &["--ttft-ms", "3"]);
    let lines = text(dir.path(), "profile_export.jsonl");
    let lines: Vec<&str> = lines.lines().collect();
    for (name, half) in [("a.jsonl", &lines[..20]), ("b.jsonl", &lines[20..])] {
        std::fs::write(dir.path().join(name), half.join("\n") + "\n").unwrap();
    }
    let whole = dir.path().join("profile_export.jsonl");
    let one = dir.path().join("one");
    reported(&whole, &one, &[]);
    let both = dir.path().join("both");
    let paths = ["a.jsonl", "b.jsonl"].map(|name| dir.path().join(name));
    let args = [paths[0].to_str().unwrap(), paths[1].to_str().unwrap()];
    let to = ["--artifact-dir", both.to_str().unwrap()];
    ran::code(&report(&[args, to].concat()), 0);
    let (whole, halves) = (document(&one, AIPERF), document(&both, AIPERF));
    for key in [
        "request_throughput",
        "request_latency",
        "inter_chunk_latency",
    ] {
        assert_eq!(whole[key], halves[key], "{key}");
    }
    assert_eq!(
        whole["effective_concurrency"],
        halves["effective_concurrency"]
    );
}

#[test]
fn genai_perfs_rules_over_our_export_find_what_the_run_found() {
    for is_streaming in [true, false] {
        let flags: &[&str] = match is_streaming {
            true => &["--artifact-format=genai-perf"],
            false => &["--artifact-format=genai-perf", "--no-streaming"],
        };
        let dir = run(flags, &["--ttft-ms", "4", "--itl-ms", "1"]);
        let export = document(dir.path(), EXPORT);
        ran::fits(
            &export,
            include_str!("../schema/profile_export.schema.json"),
        );
        let requests = &export["experiments"][0]["requests"];
        assert_eq!(requests.as_array().unwrap().len(), 40);
        let body = requests[0]["request_inputs"]["payload"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(body).unwrap()["model"], "m");
        let inputs = document(dir.path(), "inputs.json");
        assert_eq!(inputs["data"][0]["payload"][0]["model"], "m");
        assert!(!dir.path().join("profile_export_raw.jsonl").exists());
        let to = dir.path().join("again");
        let export = dir.path().join(EXPORT);
        let tokenizer = ["--tokenizer", "builtin"];
        reported(
            &export,
            &to,
            &[&["--as", "aiperf"], &tokenizer[..]].concat(),
        );
        let (run, found) = (document(dir.path(), AIPERF), document(&to, AIPERF));
        for key in [
            "request_latency",
            "request_throughput",
            "output_sequence_length",
        ] {
            assert_eq!(found[key], run[key], "{key}");
        }
        for key in [
            "time_to_first_token",
            "inter_token_latency",
            "inter_chunk_latency",
        ] {
            assert_eq!(found[key], run[key], "{key}");
            assert_eq!(found[key].is_null(), !is_streaming, "{key}");
        }
        let peer = dir.path().join("peer");
        reported(
            dir.path(),
            &peer,
            &[&["--as", "genai-perf"], &tokenizer[..]].concat(),
        );
        let found = document(&peer, GENAI);
        let by_file = found["recomputed"]["from"][0]
            .as_str()
            .unwrap()
            .ends_with(EXPORT);
        assert!(by_file, "{found}");
        let near = |key: &str, stat: &str| {
            let (ours, theirs) = (run[key][stat].as_f64(), found[key][stat].as_f64());
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            assert!(
                (ours - theirs).abs() < 1e-6 * ours.max(1.0),
                "{key}: {ours} {theirs}"
            );
        };
        near("request_latency", "p99");
        near("request_throughput", "avg");
        near("output_token_throughput", "avg");
        if is_streaming {
            near("time_to_first_token", "p50");
            near("inter_token_latency", "avg");
        }
        assert!(
            found["time_to_first_token"]["avg"].is_f64(),
            "there without a stream too"
        );
        let has_row = text(&peer, GENAI_CSV).contains("Time To First Token");
        assert_eq!(has_row, is_streaming);
    }
}

#[test]
fn what_is_no_recorded_run_is_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let whole = text(&golden_folder().join("c1-concurrency1"), EXPORT);
    let write = |name: &str, text: &str| std::fs::write(path(name), text).unwrap();
    let start = "\"timestamp\": 1700000000000000000";
    assert!(whole.contains(start));
    for (name, content, told) in [
        ("cut.json", whole[..whole.len() / 2].to_string(), "EOF"),
        (
            "nan.json",
            whole.replacen(start, "\"timestamp\": NaN", 1),
            "expected",
        ),
        (
            "before.json",
            whole.replacen(start, "\"timestamp\": -5", 1),
            "request 1",
        ),
        (
            "kind.json",
            whole.replacen(start, "\"timestamp\": \"x\"", 1),
            "request 1",
        ),
        (
            "late.json",
            whole.replacen(start, "\"timestamp\": 1900000000000000000", 1),
            "before",
        ),
        (
            "none.json",
            r#"{"experiments":[]}"#.to_string(),
            "0 experiments",
        ),
        ("empty.jsonl", String::new(), "no measured request"),
        (
            "other.jsonl",
            "{\"a\":1}\n{\"a\":1}\n".to_string(),
            "line 1",
        ),
        ("short.bin", "TR".to_string(), "short.bin"),
        ("other.json", "[]".to_string(), "other.json"),
    ] {
        write(name, &content);
        refused(&[&path(name)], &[name, told]);
        assert!(!dir.path().join("report").exists(), "{name}");
    }
    let large = std::fs::File::create(path("large.json")).unwrap();
    std::io::Write::write_all(&mut &large, b"{\"experiments\":").unwrap();
    large.set_len(5 << 30).unwrap();
    refused(&[&path("large.json")], &["large.json", "bytes"]);
    refused(&[&path("no/such")], &["no/such"]);
    let run = golden_folder().join("c1-concurrency1");
    let run = run.to_str().unwrap();
    refused(&[run, "--as", "vllm"], &["--as vllm", "later version"]);
    refused(&[run, "--as", "x"], &["--as x", "genai-perf"]);
    refused(
        &[run, "--artifact-dir", run],
        &["--artifact-dir", "the run itself"],
    );
    refused(
        &[run, "--goodput", "x:1"],
        &["--goodput x:1", "inter_token_latency"],
    );
    refused(&[run, "--tokenizer", "no/such/thing"], &["--tokenizer"]);
}
