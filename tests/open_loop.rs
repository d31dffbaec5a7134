//! An open loop told straight: the field cases on scheduling and rates, by the built binary.

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

mod mock;
mod ran;
use mock::Mock;
use ran::Ran;

/// A profile of a constant rate.
fn command(mock: &Mock, dir: &Path, flags: &[&str]) -> Command {
    let mut command = ran::command(&mock.url, dir, flags);
    command.args(["--arrival-pattern", "constant"]);
    command
}

fn run(mock: &Mock, flags: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let output = command(mock, dir.path(), flags).output().unwrap();
    ran::read(&output, dir.path())
}

/// A moment of a record, in ms of wall time.
fn moment(record: &Value, key: &str) -> f64 {
    record["timeline"][key].as_u64().unwrap() as f64 / 1e6
}

/// How late a request was sent.
fn lag_ns(record: &Value) -> u64 {
    let at = |key: &str| record["timeline"][key].as_u64().unwrap();
    at("start_ns").checked_sub(at("due_ns")).unwrap()
}

/// The right value, or somewhat more on a machine that is busy with other things.
fn is_about(value: &Value, right: f64) {
    let value = value.as_f64().unwrap();
    assert!(
        (right * 0.98..right * 1.25).contains(&value),
        "{value} for {right}"
    );
}

#[test]
fn the_wait_for_a_slot_is_in_the_latency_from_due_and_a_stage_of_its_own() {
    // Field case SC-1: 10/s, 8 requests, one slot, 500 ms each. Request i waits i x 400 ms.
    let mock = Mock::start(&["--ttft-ms", "500", "--itl-ms", "0", "--tokens", "1"]);
    let load = ["--request-rate", "10", "--concurrency", "1"];
    let ran = run(&mock, &[&load[..], &["--request-count", "8"]].concat());
    let (json, client) = (&ran.json, &ran.json["client"]);
    is_about(&json["request_latency"]["avg"], 500.0);
    is_about(&client["slot_wait"]["avg"], 1_400.0);
    is_about(&client["slot_wait"]["max"], 2_800.0);
    for tag in [
        "time_to_first_token_from_due",
        "time_to_first_output_token_from_due",
        "request_latency_from_due",
    ] {
        is_about(&client[tag]["avg"], 1_900.0);
        is_about(&client[tag]["max"], 3_300.0);
    }
    let open = &client["open_loop"];
    assert_eq!(
        (&open["cap"], &open["when_capped"]),
        (&1.into(), &"wait".into())
    );
    assert_eq!(
        (&open["requests_count"], &open["waited_count"]),
        (&8.into(), &7.into())
    );
    is_about(&open["wait_ns_avg"], 1_600e6);
    is_about(&open["wait_ns_max"], 2_800e6);
    let screen = &ran.screen;
    for said in [
        "open loop, capped at 1 in flight: 7 of 8 requests waited for a slot",
        "Time to First Token (from due)",
        "Request Latency (from due) (ms)",
        "Slot Wait (ms)",
        "the warm-up had 0 requests",
        "slowest requests",
    ] {
        assert!(screen.contains(said), "{said}: {screen}");
    }
    let slowest = client["slowest_requests"].as_array().unwrap();
    assert_eq!(slowest.len(), 8);
    assert_eq!(slowest[0]["session_num"], 7);
    let id = slowest[0]["x_request_id"].as_str().unwrap();
    assert!(screen.contains(id), "{screen}");
    // The stages of each request add up to its whole time, to the nanosecond.
    for record in &ran.records {
        let at = |key: &str| record["timeline"][key].as_u64().unwrap();
        let stages = record["stages"].as_object().unwrap().iter();
        let total = record["stages"]["total_ns"].as_u64().unwrap();
        let parts: u64 = stages.map(|(_, length)| length.as_u64().unwrap()).sum();
        assert_eq!(parts - total, total, "{record}");
        assert_eq!(total, at("done_ns") - at("due_ns"), "{record}");
        let metric = |tag: &str| record["metrics"][tag]["value"].as_f64().unwrap();
        let http: f64 = [
            "blocked",
            "dns_lookup",
            "connecting",
            "sending",
            "waiting",
            "receiving",
        ]
        .map(|name| metric(&format!("http_req_{name}")))
        .iter()
        .sum();
        assert!((http - metric("http_req_total")).abs() < 1e-6, "{record}");
    }
}

#[test]
fn a_full_cap_can_thin_the_schedule_instead_and_says_by_how_much() {
    let mock = Mock::start(&["--ttft-ms", "300", "--itl-ms", "0", "--tokens", "1"]);
    let load = [
        "--request-rate",
        "20",
        "--concurrency",
        "1",
        "--request-count",
        "20",
    ];
    let ran = run(&mock, &[&load[..], &["--when-capped", "skip"]].concat());
    let open = &ran.json["client"]["open_loop"];
    let skipped = open["skipped_capped_count"].as_u64().unwrap();
    let sent = ran.json["request_count"]["avg"].as_f64().unwrap();
    assert_eq!(skipped as f64 + sent, 20.0);
    // A slot for 300 ms of every 350, at the best; a busy machine sends fewer still.
    assert!((13..20).contains(&skipped), "{skipped}");
    assert_eq!(open["waited_count"], 0);
    assert_eq!(ran.json["is_complete"], true);
    let said = format!("{skipped} of 20 requests found no slot and were skipped");
    assert!(ran.screen.contains(&said), "{}", ran.screen);
}

#[test]
fn due_times_are_absolute_and_the_largest_lag_is_told() {
    // Field case RA-1, shortened; that late sends put off no other is shown on the pace itself.
    let mock = Mock::start(&["--ttft-ms", "0", "--itl-ms", "0", "--tokens", "1"]);
    let ran = run(&mock, &["--request-rate", "200", "--request-count", "400"]);
    let mut records = ran.records;
    assert_eq!(records.len(), 400);
    records.sort_by_key(|record| record["timeline"]["due_ns"].as_u64());
    let span = moment(&records[399], "due_ns") - moment(&records[0], "due_ns");
    assert!((span - 1_995.0).abs() < 1.0, "{span}");
    // Whatever a busy machine does to the lags: none is negative, and the largest is the one told.
    let lags: Vec<u64> = records.iter().map(lag_ns).collect();
    let most = &ran.json["client"]["open_loop"]["lag_ns_max"];
    assert_eq!(most.as_u64(), lags.iter().copied().max());
}

#[test]
fn a_client_that_was_frozen_says_so_and_sends_or_skips_as_told() {
    // Field case RA-2 B: 100/s, the client stopped after about 1.5 s, for 2.
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "0", "--tokens", "1"]);
    for policy in ["send", "skip"] {
        let dir = tempfile::tempdir().unwrap();
        let load = ["--request-rate", "100", "--request-count", "600"];
        let flags = [&load[..], &["--when-late", policy, "--no-preflight"]].concat();
        let enough = mock.events_count() + 150;
        let child = command(&mock, dir.path(), &flags).spawn().unwrap();
        while mock.events_count() < enough {
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = child.id().to_string();
        let signal = |name: &str| {
            let sent = Command::new("kill").args([name, &pid]).status().unwrap();
            assert!(sent.success());
        };
        signal("-STOP");
        let since = Instant::now();
        std::thread::sleep(Duration::from_secs(2));
        signal("-CONT");
        let frozen_ms = since.elapsed().as_secs_f64() * 1e3;
        let output = child.wait_with_output().unwrap();
        let ran = ran::read(&output, dir.path());
        let open = &ran.json["client"]["open_loop"];
        assert_eq!(open["when_late"], policy);
        // By the closed form; a busy machine may add to it.
        let most_ms = open["lag_ns_max"].as_f64().unwrap() / 1e6;
        assert!(most_ms > 0.9 * frozen_ms, "{most_ms} of {frozen_ms}");
        let skipped = open["skipped_late_count"].as_u64().unwrap();
        let lags: Vec<u64> = ran.records.iter().map(lag_ns).collect();
        assert_eq!(lags.len() as u64 + skipped, 600);
        let late = lags.iter().filter(|lag| **lag > 100_000_000).count() as u64;
        // One for each 10 ms of the freeze but its last 100.
        let least = (frozen_ms / 10.0 * 0.8) as u64;
        let became = match policy {
            "send" => {
                assert_eq!(skipped, 0);
                assert_eq!(open["lag_ns_max"].as_u64(), lags.iter().copied().max());
                assert!(late > least, "{late} late");
                "late requests were sent at once".to_string()
            }
            _ => {
                assert!(
                    skipped > least && late < least / 4,
                    "{skipped} skipped, {late} late"
                );
                format!("{skipped} requests were skipped")
            }
        };
        let said =
            format!("the client fell behind its schedule by up to {most_ms:.1} ms: {became}");
        assert!(ran.screen.contains(&said), "{said}: {}", ran.screen);
        assert!(
            ran.stderr.contains("warning: the client fell behind"),
            "{}",
            ran.stderr
        );
    }
}
