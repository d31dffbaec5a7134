//! Time slices, as a user meets them.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

mod mock;
mod ran;
use mock::Mock;
use ran::{Ran, code, fits, text};

const SCHEMA: &str = include_str!("../schema/profile_export_aiperf_timeslices.schema.json");
const FAST: &[&str] = &["--ttft-ms", "10", "--itl-ms", "2"];
const GOLDEN: &str = include_str!("data/golden/aiperf/profile_export_aiperf_timeslices.head40.csv");

fn words(flags: &str) -> Vec<&str> {
    flags.split_whitespace().collect()
}

/// The slices of a file, which is what its schema says.
fn slices(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut document: Value = serde_json::from_str(&text).unwrap();
    fits(&document, SCHEMA);
    serde_json::from_value(document["timeslices"].take()).unwrap()
}

/// A run that ends well, and its slices.
fn run(url: &str, flags: &str) -> (Ran, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let output = ran::command(url, dir.path(), &words(flags))
        .output()
        .unwrap();
    let ran = ran::read(&output, dir.path());
    let name = "profile_export_aiperf_timeslices";
    let found = slices(&dir.path().join(format!("{name}.json")));
    let csv = std::fs::read_to_string(dir.path().join(format!("{name}.csv"))).unwrap();
    assert_eq!(csv.lines().next(), GOLDEN.lines().next());
    assert_eq!(csv.matches('\n').count(), csv.matches("\r\n").count());
    (ran, found)
}

fn sum(slices: &[Value], value: impl Fn(&Value) -> &Value) -> f64 {
    slices
        .iter()
        .filter_map(|slice| value(slice).as_f64())
        .sum()
}

fn ns(slice: &Value, key: &str) -> u64 {
    slice[key].as_u64().unwrap()
}

/// Slices of a run follow each other, and add up to it.
fn add_up(ran: &Ran, slices: &[Value], length_ns: u64) {
    for pair in slices.windows(2) {
        assert_eq!(pair[0]["is_complete"], true);
        assert_eq!(ns(&pair[0], "end_ns"), ns(&pair[1], "start_ns"));
        assert_eq!(ns(&pair[0], "end_ns") - ns(&pair[0], "start_ns"), length_ns);
    }
    for tag in [
        "request_count",
        "total_osl",
        "total_isl",
        "completed_request_count",
    ] {
        let whole = ran.json[tag]["avg"].as_f64().unwrap();
        assert_eq!(sum(slices, |slice| &slice[tag]["avg"]), whole, "{tag}");
    }
    let whole = ran.json["request_count"]["avg"].as_f64().unwrap();
    assert_eq!(
        sum(slices, |slice| &slice["in_slice"]["requests_ended_count"]),
        whole
    );
    let tokens = sum(slices, |slice| &slice["in_slice"]["output_tokens"]);
    let whole = ran.json["total_osl"]["avg"].as_f64().unwrap();
    assert!((tokens - whole).abs() < 1e-6, "{tokens} {whole}");
    // The last one ends with the last request.
    let ends = ran
        .records
        .iter()
        .map(|record| ns(&record["metadata"], "request_end_ns"));
    assert_eq!(ns(slices.last().unwrap(), "end_ns"), ends.max().unwrap());
    // Each request is where it began.
    let starts = ran
        .records
        .iter()
        .map(|record| ns(&record["metadata"], "request_start_ns"));
    let starts: Vec<u64> = starts.collect();
    for slice in slices {
        let (from, to) = (ns(slice, "start_ns"), ns(slice, "end_ns"));
        let began = starts
            .iter()
            .filter(|start| (from..to).contains(start))
            .count();
        assert_eq!(slice["request_count"]["avg"], began as f64);
    }
}

#[test]
fn slices_add_up_to_the_run_and_stand_on_the_screen() {
    let mock = Mock::start(FAST);
    let load = "--concurrency 4 --osl 8 --benchmark-duration 2.3 --slice-duration 1";
    let (ran, found) = run(&mock.url, load);
    // Of a busy machine the drain may take longer.
    assert!(found.len() >= 3, "{}", found.len());
    add_up(&ran, &found, 1_000_000_000);
    // By time: what is in flight is not only what began in the slice.
    let in_flight = found[1]["in_slice"]["requests_in_flight_avg"]
        .as_f64()
        .unwrap();
    let swept = found[1]["effective_concurrency"]["avg"].as_f64().unwrap();
    assert!((swept - in_flight).abs() < 1e-9, "{swept} {in_flight}");
    assert!(in_flight > 0.0 && in_flight <= 4.0, "{in_flight}");
    assert!(
        ran.screen.contains("Time slices of 1 s; TTFT in ms"),
        "{}",
        ran.screen
    );
    let rows = ran
        .screen
        .lines()
        .filter(|line| line.trim().starts_with("1  "))
        .count();
    assert_eq!(rows, 1, "{}", ran.screen);
    let asked = &ran.json["input_config"]["artifacts"]["slice_duration"];
    assert_eq!(*asked, 1.0);
}

#[test]
fn the_grid_begins_after_the_warm_up() {
    let mock = Mock::start(FAST);
    let load = "--concurrency 2 --osl 4 --warmup-request-count 40 --request-count 60";
    let (ran, found) = run(&mock.url, &format!("{load} --slice-duration 0.25"));
    let warmup = ran
        .records
        .iter()
        .filter(|r| r["metadata"]["benchmark_phase"] == "warmup");
    assert_eq!(warmup.count(), 40);
    let measured: Vec<Value> = ran
        .records
        .iter()
        .filter(|record| record["metadata"]["benchmark_phase"] == "profiling")
        .cloned()
        .collect();
    let starts = measured
        .iter()
        .map(|record| ns(&record["metadata"], "request_start_ns"));
    // From the moment at which the first was handed out to be sent.
    assert!(ns(&found[0], "start_ns") <= starts.min().unwrap());
    let ran = Ran {
        records: measured,
        ..ran
    };
    add_up(&ran, &found, 250_000_000);
}

#[test]
fn a_second_in_which_the_server_stands_still_is_flagged_and_unexplained() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let load = "--concurrency 4 --osl 4 --benchmark-duration 4 --slice-duration 0.4";
    let child = ran::command(&mock.url, dir.path(), &words(load))
        .spawn()
        .unwrap();
    while mock.events_count() < 200 {
        sleep(Duration::from_millis(20));
    }
    mock.signal("-STOP");
    sleep(Duration::from_millis(900));
    mock.signal("-CONT");
    let output = child.wait_with_output().unwrap();
    let ran = ran::read(&output, dir.path());
    let found = slices(&dir.path().join("profile_export_aiperf_timeslices.json"));
    add_up(&ran, &found, 400_000_000);
    let flags: Vec<&Value> = found
        .iter()
        .flat_map(|slice| slice["flags"].as_array().unwrap())
        // A stop in mid-stream is a gap, of which a request's mean of three has a third.
        .filter(|flag| flag["value"].as_f64().unwrap() > 200.0)
        .collect();
    assert!(!flags.is_empty(), "{}", ran.screen);
    assert!(
        flags
            .iter()
            .all(|flag| flag["causes"] == serde_json::json!([]))
    );
    assert!(ran.screen.contains("peak: unexplained"), "{}", ran.screen);
    // A slice in which nothing began is there all the same, with what was in flight.
    let still = found
        .iter()
        .find(|slice| slice["request_count"]["avg"] == 0.0)
        .unwrap();
    assert_eq!(still["in_slice"]["requests_in_flight_avg"], 4.0);
    assert_eq!(still["time_to_first_token"], Value::Null);
}

#[test]
fn a_peak_while_requests_of_others_fill_the_queue_names_it() {
    let mock = Mock::start(&[FAST, &["--concurrency-limit", "4"]].concat());
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let load = "--concurrency 4 --osl 4 --benchmark-duration 6 --slice-duration 0.5";
    let load = format!("{load} --server-metrics {}/metrics", mock.url);
    let child = ran::command(&mock.url, dir.path(), &words(&load))
        .spawn()
        .unwrap();
    while mock.events_count() < 2_000 {
        sleep(Duration::from_millis(20));
    }
    let burst = "--concurrency 16 --osl 100 --request-count 16 --no-preflight";
    let burst = ran::command(&mock.url, other.path(), &words(burst)).output();
    assert!(burst.unwrap().stdout.starts_with(b"Verdict"));
    let ran = ran::read(&child.wait_with_output().unwrap(), dir.path());
    let found = slices(&dir.path().join("profile_export_aiperf_timeslices.json"));
    let kinds: Vec<&str> = found
        .iter()
        .flat_map(|slice| slice["flags"].as_array().unwrap())
        .flat_map(|flag| flag["causes"].as_array().unwrap())
        .filter_map(|cause| cause["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"queue"), "{}", ran.screen);
}

#[test]
fn a_prefix_names_the_files_and_without_the_flag_there_are_none() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let load = "--request-count 4 --osl 4 --profile-export-prefix mine";
    let sliced = format!("{load} --slice-duration 1");
    let output = ran::command(&mock.url, dir.path(), &words(&sliced))
        .output()
        .unwrap();
    code(&output, 0);
    assert_eq!(slices(&dir.path().join("mine_timeslices.json")).len(), 1);
    assert!(dir.path().join("mine_timeslices.csv").exists());
    // The same folder: those of the run before are moved aside with it.
    let output = ran::command(&mock.url, dir.path(), &words(load))
        .output()
        .unwrap();
    code(&output, 0);
    assert!(!dir.path().join("mine_timeslices.json").exists());
    assert!(!text(&output.stdout).contains("Time slices"));
}

#[test]
fn a_dry_run_takes_slices_and_too_many_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let url = "127.0.0.1:9";
    let dry = "--slice-duration 1 --benchmark-duration 60 --dry-run";
    let output = ran::command(url, dir.path(), &words(dry)).output().unwrap();
    code(&output, 0);
    let tiny = "--slice-duration 0.01 --benchmark-duration 60 --dry-run";
    let output = ran::command(url, dir.path(), &words(tiny))
        .output()
        .unwrap();
    code(&output, 2);
    let told = text(&output.stderr);
    assert!(
        told.contains("--slice-duration") && told.contains("3600 slices"),
        "{told}"
    );
}

#[test]
fn a_run_that_is_interrupted_keeps_its_slices() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let load = "--concurrency 2 --osl 4 --benchmark-duration 60 --slice-duration 0.5";
    let child = ran::command(&mock.url, dir.path(), &words(load))
        .spawn()
        .unwrap();
    while mock.events_count() < 400 {
        sleep(Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    code(&output, 130);
    let found = slices(&dir.path().join("profile_export_aiperf_timeslices.json"));
    assert!(sum(&found, |slice| &slice["request_count"]["avg"]) > 50.0);
}

#[test]
fn each_run_of_a_sweep_has_slices_of_its_own() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let load = "--concurrency 1,2 --osl 4 --request-count 40 --slice-duration 0.2";
    let output = ran::command(&mock.url, dir.path(), &words(load))
        .output()
        .unwrap();
    code(&output, 0);
    let mut folders: Vec<_> = walk(dir.path());
    folders.sort();
    assert_eq!(folders.len(), 2, "{folders:?}");
    let mut ends = Vec::new();
    for folder in folders {
        let found = slices(&folder.join("profile_export_aiperf_timeslices.json"));
        assert_eq!(sum(&found, |slice| &slice["request_count"]["avg"]), 40.0);
        ends.push((
            ns(&found[0], "start_ns"),
            ns(found.last().unwrap(), "end_ns"),
        ));
    }
    ends.sort_unstable();
    assert!(ends[0].1 <= ends[1].0);
}

/// The folders with slices below this one.
fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else if path.ends_with("profile_export_aiperf_timeslices.json") {
            found.push(dir.to_path_buf());
        }
    }
    found
}

#[test]
fn without_streams_and_with_failures_slices_stand_too() {
    let mock = Mock::start(&[
        "--ttft-ms",
        "5",
        "--tokens",
        "4",
        "--fault",
        "status=500:0.3",
    ]);
    let dir = tempfile::tempdir().unwrap();
    let load = "--no-streaming --concurrency 4 --request-count 80 --slice-duration 0.2";
    let output = ran::command(&mock.url, dir.path(), &words(load))
        .output()
        .unwrap();
    code(&output, 0);
    let found = slices(&dir.path().join("profile_export_aiperf_timeslices.json"));
    let failed = sum(&found, |slice| &slice["error_request_count"]["avg"]);
    assert!(failed > 0.0);
    assert_eq!(
        failed + sum(&found, |slice| &slice["request_count"]["avg"]),
        80.0
    );
    assert!(text(&output.stdout).contains("latency in ms"));
}
