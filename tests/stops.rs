//! What ends a run before its count or its time, as a user meets it.

use serde_json::Value;

mod mock;
mod ran;
use mock::Mock;
use ran::Ran;

/// A run that ends well.
fn run(mock: &Mock, flags: &str) -> Ran {
    let flags: Vec<&str> = flags.split_whitespace().collect();
    ran::run(&mock.url, &flags)
}

/// 100 requests/s at the most: four at a time, 40 ms each.
fn busy() -> Mock {
    let answers = ["--ttft-ms", "30", "--itl-ms", "10", "--tokens", "2"];
    Mock::start(&[&answers[..], &["--concurrency-limit", "4"]].concat())
}

#[test]
fn a_rate_above_capacity_ends_early_when_that_is_asked_and_says_so_everywhere() {
    let mock = busy();
    let load = "--request-rate 200 --request-count 4000 --random-seed 7";
    let ran = run(&mock, &format!("{load} --stop-when-oversaturated"));
    let said = "STOPPED by --stop-when-oversaturated:";
    assert!(ran.screen.lines().nth(1).unwrap().contains(said));
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert!(ran.screen.contains("open loop above capacity:"));
    assert!(ran.screen.contains("over-saturated: in "), "{}", ran.screen);
    assert_eq!(ran.json["is_complete"], false);
    assert_eq!(ran.json["was_cancelled"], false);
    let found = &ran.json["client"]["open_loop"]["oversaturation"];
    assert_eq!(found["stopped"], true);
    let number = |key: &str| found[key].as_f64().unwrap();
    assert!(number("arrived_per_s") > number("done_per_s"));
    assert!(number("not_done_count_last") > number("not_done_count_first"));
    assert!(number("ttft_from_due_ns_late") > number("ttft_from_due_ns_early"));
    // What was in flight has ended: the mock takes it in within the grace.
    assert_eq!(ran.json["error_request_count"], Value::Null);
    let measured = ran.json["request_count"]["avg"].as_f64().unwrap();
    assert!((100.0..4_000.0).contains(&measured), "{measured}");
}

#[test]
fn without_the_flag_the_run_goes_on_and_is_labelled_and_under_a_cap_too() {
    let mock = busy();
    for cap in ["", "--concurrency 8"] {
        let load = "--request-rate 200 --benchmark-duration 8 --benchmark-grace-period 0";
        let ran = run(&mock, &format!("{load} --random-seed 7 {cap}"));
        let found = &ran.json["client"]["open_loop"]["oversaturation"];
        assert_eq!(found["stopped"], false, "{}", ran.screen);
        assert!(!ran.screen.contains("STOPPED"));
        assert!(ran.screen.contains("over-saturated: in "), "{}", ran.screen);
    }
}

#[test]
fn the_grace_bounds_the_drain_after_an_early_end() {
    let mock = busy();
    let load = "--request-rate 200 --request-count 4000 --random-seed 7";
    let stop = "--stop-when-oversaturated --benchmark-grace-period 0";
    let ran = run(&mock, &format!("{load} {stop}"));
    // Hundreds are in flight then.
    let errors = ran.json["error_request_count"]["avg"].as_f64().unwrap();
    assert!(errors > 0.0);
}

#[test]
fn windows_that_agree_end_the_run_of_either_loop() {
    let mock = Mock::start(&["--ttft-ms", "20", "--itl-ms", "5", "--tokens", "5"]);
    for load in ["--concurrency 4", "--request-rate 50"] {
        // Far apart, so that no machine is too busy for them to agree.
        let ran = run(&mock, &format!("{load} -p 300 -s 900"));
        let found = &ran.json["client"]["stability"];
        assert_eq!(found["is_stable"], true, "{}", ran.screen);
        assert_eq!(found["interval_ns"], 300_000_000);
        let windows = found["windows"].as_array().unwrap();
        assert!((3..=10).contains(&windows.len()));
        assert!(ran.screen.contains("  stable: the last three of "));
        assert!(!ran.screen.contains("not stable"));
        assert_eq!(ran.json["error_request_count"], Value::Null);
    }
}

#[test]
fn ten_windows_without_agreement_end_the_run_with_a_code_of_their_own() {
    // One answer in four windows: between them nothing ends, and nothing agrees.
    let mock = Mock::start(&["--ttft-ms", "400", "--itl-ms", "0", "--tokens", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let command = &mut ran::command(&mock.url, dir.path(), &["-p", "100"]);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (screen, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    let said = "not stable: the last three of 10 windows of 0.1 s do not agree within 10 %";
    assert!(stderr.contains(&format!("warning: {said}")), "{stderr}");
    assert!(screen.contains(said), "{screen}");
    let file = std::fs::read(dir.path().join("profile_export_aiperf.json")).unwrap();
    let json: Value = serde_json::from_slice(&file).unwrap();
    let found = &json["client"]["stability"];
    assert_eq!(found["is_stable"], false);
    assert_eq!(found["windows"].as_array().unwrap().len(), 10);
    assert_eq!(json["error_request_count"], Value::Null);
}

#[test]
fn a_count_that_is_reached_first_ends_a_run_of_windows() {
    let mock = Mock::start(&["--ttft-ms", "5", "--itl-ms", "1", "--tokens", "2"]);
    let ran = run(&mock, "-p 60000 --request-count 20");
    assert_eq!(ran.json["request_count"]["avg"].as_f64(), Some(20.0));
    assert_eq!(ran.json["is_complete"], true);
    let said = "not stable: the run ended after 0 whole windows of 60 s";
    assert!(ran.screen.contains(said), "{}", ran.screen);
}
