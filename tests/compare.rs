//! `compare`: the built binary over folders that `profile` has made.

mod mock;
mod ran;

use assert_cmd::cargo::cargo_bin;
use mock::Mock;
use ran::{code, command, fits, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Makes a run of 100 requests in `dir/name`.
fn profile(dir: &Path, name: &str, ttft_ms: &str, flags: &[&str]) {
    let mock = Mock::start(&["--ttft-ms", ttft_ms, "--itl-ms", "1", "--tokens", "4"]);
    let load = ["--concurrency", "10", "--request-count", "100"];
    let seed = ["--random-seed", "7"];
    let seed: &[&str] = if flags.contains(&"--random-seed") {
        &[]
    } else {
        &seed
    };
    let all = [&load[..], seed, flags].concat();
    code(
        &command(&mock.url, &dir.join(name), &all).output().unwrap(),
        0,
    );
}

fn compare(dir: &Path, args: &[&str], expected: i32) -> Output {
    let mut command = Command::new(cargo_bin("tokenring"));
    let command = command.arg("compare").args(args).current_dir(dir);
    let output = command.output().unwrap();
    code(&output, expected);
    output
}

/// The document on stdout, checked against its schema.
fn json(output: &Output) -> Value {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    fits(&document, include_str!("../schema/compare.schema.json"));
    document
}

fn stat<'a>(versus: &'a Value, tag: &str, stat: &str) -> &'a Value {
    let metrics = versus["metrics"].as_array().unwrap();
    let metric = metrics.iter().find(|m| m["tag"] == tag).unwrap();
    let stats = metric["stats"].as_array().unwrap();
    stats.iter().find(|s| s["stat"] == stat).unwrap()
}

#[test]
fn a_slower_server_is_worse_by_about_what_it_is_slower() {
    let dir = tempfile::tempdir().unwrap();
    for (name, ttft_ms) in [("before", "40"), ("after", "120"), ("again", "40")] {
        profile(dir.path(), name, ttft_ms, &[]);
    }
    let gate = ["--fail-if", "p90(ttft)>+50%"];
    let output = compare(
        dir.path(),
        &[&["before", "after", "again"], &gate[..]].concat(),
        4,
    );
    let screen = text(&output.stdout);
    for part in [
        "one by one",
        "Time to First Token (ms)",
        "worse",
        "FAILED: fail if p90",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let output = compare(dir.path(), &["before", "after", "again", "--json", "-"], 0);
    let document = json(&output);
    let after = &document["comparisons"][0];
    assert_eq!(after["is_paired"], true, "{after}");
    for key in ["avg", "p50", "p90"] {
        let ttft = stat(after, "time_to_first_token", key);
        assert_eq!(ttft["finding"], "worse", "{ttft}");
        let low = ttft["change_interval"]["low"].as_f64().unwrap();
        assert!(
            low > 0.2 && low <= ttft["change_ratio"].as_f64().unwrap(),
            "{ttft}"
        );
    }
    let p99 = stat(after, "time_to_first_token", "p99");
    assert_eq!(p99["finding"], "too_few_requests");
    let rate = stat(after, "request_throughput", "avg");
    assert_eq!(rate["finding"], "worse", "{rate}");
    assert_eq!(
        stat(after, "output_sequence_length", "avg")["change_ratio"],
        0.0
    );
    assert_eq!(document["comparisons"][1]["run"]["path"], "again");
    // Into a file, and the table as ever.
    let output = compare(dir.path(), &["before", "again", "--json", "c.json"], 0);
    assert!(text(&output.stdout).contains("Request Throughput"));
    let file: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("c.json")).unwrap()).unwrap();
    assert_eq!(file["comparisons"].as_array().unwrap().len(), 1);
}

#[test]
fn requests_come_from_the_shard_else_from_the_lines_else_there_are_figures_only() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        profile(dir.path(), name, "10", &[]);
    }
    let args = ["a", "b", "--json", "-", "--metric", "p50(ttft)"];
    let whole = json(&compare(dir.path(), &args, 0));
    let versus = &whole["comparisons"][0];
    assert_eq!(versus["run"]["requests_from"], "shard");
    for name in ["a", "b"] {
        std::fs::remove_file(dir.path().join(name).join("profile_export_records.bin")).unwrap();
    }
    let lines = json(&compare(dir.path(), &args, 0));
    assert_eq!(lines["comparisons"][0]["run"]["requests_from"], "jsonl");
    // To the digit the same requests.
    assert_eq!(lines["comparisons"][0]["metrics"], versus["metrics"]);
    std::fs::remove_file(dir.path().join("b/profile_export.jsonl")).unwrap();
    let bare = json(&compare(dir.path(), &args, 0));
    let bare = &bare["comparisons"][0];
    assert_eq!(bare["run"]["requests_from"], "figures");
    assert_eq!(bare["metrics"][0]["stats"][0]["finding"], "no_interval");
    let screen = text(&compare(dir.path(), &["a", "b"], 0).stdout);
    assert!(
        screen.contains("b: its requests are not there: only figures"),
        "{screen}"
    );
}

#[test]
fn other_workloads_are_compared_with_a_warning_for_each_difference() {
    let dir = tempfile::tempdir().unwrap();
    profile(dir.path(), "a", "5", &[]);
    profile(dir.path(), "b", "5", &["--osl", "9", "--random-seed", "8"]);
    let screen = text(&compare(dir.path(), &["a", "b"], 0).stdout);
    for part in [
        "two samples: another",
        "Warning: output tokens differs: none, and 9",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let screen = text(&compare(dir.path(), &["a", "./a"], 0).stdout);
    assert!(screen.contains("both are the same folder"), "{screen}");
    assert!(screen.contains("no difference seen") && !screen.contains("worse"));
}

#[test]
fn what_cannot_be_compared_says_what_was_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    profile(dir.path(), "a", "5", &[]);
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    for (args, parts) in [
        (&["a"][..], &["2 "][..]),
        (&["a", "empty"], &["`empty`", "profile_export_aiperf.json"]),
        (&["gone", "a"], &["`gone`"]),
        (
            &["a", "a", "--metric", "tftt"],
            &["--metric: `tftt`", "nearest", "ttft"],
        ),
        (
            &["a", "a", "--fail-if", "tftt>+5%"],
            &["--fail-if: `tftt`", "nearest"],
        ),
        (
            &["a", "a", "--fail-if", "goodput<1"],
            &["--fail-if", "no goodput in a"],
        ),
        (
            &["a", "a", "--json", "empty"],
            &["--json empty: no regular file"],
        ),
    ] {
        let output = compare(dir.path(), args, 2);
        let told = text(&output.stderr);
        for part in parts {
            assert!(told.contains(part), "{args:?}: {told}");
        }
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
