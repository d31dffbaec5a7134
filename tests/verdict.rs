//! Each way in which the client can be the limit, driven into being with the built binary, and the
//! reason that the verdict names for it. A stopped client: `tests/profile.rs`. What only the host
//! can do (steal, throttling, a clock that is set) is judged by unit tests in `profile/verdict.rs`.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

mod mock;
use mock::Mock;

/// Runs with these flags through `sh`, which says `before` first; gives the output and the export.
fn profile(before: &str, mock: &Mock, flags: &[&str]) -> (Output, Value) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
        .arg(cargo_bin("tokenring"))
        .args(["profile", "-m", "m", "--streaming", "--url", &mock.url])
        .args(["--tokenizer", "builtin", "--isl", "8", "--ui", "none"])
        .arg("--artifact-dir")
        .arg(dir.path().join("run"))
        .args(flags)
        .output()
        .unwrap();
    let export = std::fs::read(dir.path().join("run/profile_export_aiperf.json"));
    let export = export.map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap());
    (output, export)
}

/// The run is INVALID, exits with 5, says so first and last, and gives this reason; returns the
/// reason's advice.
fn is_invalid_by(output: &Output, export: &Value, code: &str) -> String {
    let screen = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{screen}");
    assert_eq!(export["client"]["verdict"], "INVALID", "{screen}");
    let first = screen.lines().next().unwrap();
    assert!(first.starts_with("Verdict: INVALID"), "{first}");
    assert_eq!(screen.matches(first).count(), 2, "{screen}");
    let reasons = export["client"]["reasons"].as_array().unwrap();
    let reason = reasons.iter().find(|reason| reason["code"] == code);
    let reason = reason.unwrap_or_else(|| panic!("{code} is not among {reasons:?}"));
    assert!(
        reason["measured"].as_f64() > reason["limit"].as_f64(),
        "{reason}"
    );
    assert!(screen.contains(&format!("{code}: ")), "{screen}");
    reason["advice"].as_str().unwrap().to_string()
}

#[test]
fn a_rate_that_no_client_can_send_is_told() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "1", "--tokens", "1"]);
    let flags = ["--request-rate", "400000", "--arrival-pattern", "constant"];
    let rest = [
        "--request-count",
        "20000",
        "--concurrency",
        "200",
        "--osl",
        "1",
    ];
    let (output, export) = profile("", &mock, &[&flags[..], &rest].concat());
    is_invalid_by(&output, &export, "delivered_rate");
}

#[test]
fn a_cap_below_what_the_rate_needs_is_told() {
    // 100 requests/s of 100 ms each need 10 in flight.
    let mock = Mock::start(&["--ttft-ms", "50", "--itl-ms", "10", "--tokens", "6"]);
    let flags = ["--request-rate", "100", "--arrival-pattern", "constant"];
    let rest = ["--concurrency", "2", "--request-count", "30"];
    let (output, export) = profile("", &mock, &[&flags[..], &rest].concat());
    let advice = is_invalid_by(&output, &export, "delivered_rate");
    assert!(advice.contains("--concurrency"), "{advice}");
}

#[test]
fn too_few_descriptors_are_told_before_the_run_or_as_the_reason() {
    let mock = Mock::start(&["--ttft-ms", "1500", "--itl-ms", "1", "--tokens", "1"]);
    let flags = ["--concurrency", "300", "--request-count", "300"];
    let (output, _) = profile("ulimit -n 200;", &mock, &flags);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("ulimit -n") && told.contains("--concurrency"),
        "{told}"
    );
    // How many an open loop needs depends on the server: it is seen only as it happens.
    let flags = ["--request-rate", "600", "--request-count", "600"];
    let (output, export) = profile("ulimit -n 400;", &mock, &flags);
    is_invalid_by(&output, &export, "resources_short");
}

#[test]
fn a_core_that_another_program_uses_is_told() {
    let mock = Mock::start(&["--ttft-ms", "20", "--itl-ms", "10"]);
    let cpu = tokenring::runtime::usable()
        .into_iter()
        .next_back()
        .unwrap();
    let stop = AtomicBool::new(false);
    let (output, export) = std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                assert!(tokenring::runtime::pin(cpu));
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let cores = format!("{cpu}-{cpu}");
        let flags = [
            "--concurrency",
            "64",
            "--request-count",
            "640",
            "--osl",
            "20",
        ];
        let done = profile("", &mock, &[&flags[..], &["--cores", &cores]].concat());
        stop.store(true, Ordering::Relaxed);
        done
    });
    let advice = is_invalid_by(&output, &export, "receive_lag");
    assert!(advice.contains("something else uses this CPU"), "{advice}");
    let waited = &export["client"]["cores"][0]["run_queue_wait_ratio"];
    assert!(waited.as_f64() > Some(0.05), "{waited}");
}
