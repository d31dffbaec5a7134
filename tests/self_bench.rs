//! `self-bench`, and what later runs know by it: the built binary, small steps, no claim on time.

mod mock;
mod ran;
mod support;

use assert_cmd::cargo::cargo_bin;
use mock::Mock;
use ran::{code, fits, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use support::{CHUNKED, chunk, ev, send, serve};
use tokenring::archive::machine;
use tokenring::runtime::usable;
use tokenring::stats::capacity::{Capacity, Shape, Unit};

fn tokenring(cache: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("tokenring"))
        .args(args)
        .current_dir(cache)
        .env("XDG_CACHE_HOME", cache)
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap()
}

/// The document of a self-bench that shows it, checked against its schema.
fn json(output: &Output) -> Value {
    code(output, 0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    fits(&document, include_str!("../schema/self_bench.schema.json"));
    document
}

fn has_other_cpus() -> bool {
    usable().len() > 1
}

#[test]
fn each_step_has_its_figures_in_the_table_and_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--streams", "2,20", "--seconds", "0.5", "--json", "s.json"];
    let output = tokenring(dir.path(), &[&["self-bench"], &flags[..]].concat());
    code(&output, 0);
    let screen = text(&output.stdout);
    for part in ["streams of 40 events/s each", "ITL", "Largest VALID load: "] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let document: Value =
        serde_json::from_slice(&std::fs::read(dir.path().join("s.json")).unwrap()).unwrap();
    let steps = document["steps"].as_array().unwrap();
    assert_eq!(
        (&steps[0]["load"], &steps[1]["load"]),
        (&2.into(), &20.into())
    );
    for step in steps {
        let events = step["events_count"].as_u64().unwrap();
        let stamped = step["event_time_error_ns"]["count"].as_u64().unwrap();
        assert!(stamped > 0 && stamped <= events, "{step}");
        assert!(step["ttft_error_ns"]["p50"].as_u64().unwrap() > 0, "{step}");
        assert!(
            step["memory_bytes_max"].as_u64().unwrap() > 1 << 20,
            "{step}"
        );
        assert_eq!(step["failed_count"], 0);
    }
    assert_eq!(
        document["mock_cpus"].as_array().unwrap().is_empty(),
        !has_other_cpus()
    );
    // No folder of a run.
    assert!(!dir.path().join("artifacts").exists());
}

#[test]
fn requests_tls_and_long_events_are_shapes_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let all = [&["self-bench", "--seconds", "0.3", "--json", "-"], flags].concat();
        json(&tokenring(dir.path(), &all))
    };
    let found = run(&["--request-rate", "50"]);
    assert_eq!(found["shape"]["mode"], "requests");
    assert_eq!(found["steps"][0]["requests_count"], 15);
    let found = run(&["--streams", "3", "--tls", "--chunk-bytes", "3000"]);
    assert_eq!(found["shape"]["tls"], true);
    assert_eq!(found["steps"][0]["failed_count"], 0);
    assert!(found["steps"][0]["itl_error_ns"]["count"].as_u64().unwrap() > 0);
}

#[test]
fn a_mock_elsewhere_is_measured_and_of_another_server_what_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let run = |url: &str| {
        let flags = [
            "--streams",
            "2",
            "--seconds",
            "0.3",
            "--json",
            "-",
            "--against",
            url,
        ];
        tokenring(dir.path(), &[&["self-bench"], &flags[..]].concat())
    };
    let mock = Mock::start(&["--itl-ms", "5"]);
    let found = json(&run(&mock.url));
    assert!(
        found["steps"][0]["ttft_error_ns"]["count"]
            .as_u64()
            .unwrap()
            > 0
    );
    assert_eq!(found["notes"], serde_json::json!([]));
    let events = format!("data: {}\n\ndata: [DONE]\n\n", ev("a"));
    let answer = format!("{CHUNKED}{}0\r\n\r\n", chunk(&events));
    let other = serve(move |_| vec![send(answer.clone())]);
    let flags = [
        "--streams",
        "2",
        "--seconds",
        "0.3",
        "--json",
        "-",
        "-m",
        "m",
        "--against",
    ];
    let url = other.to_string();
    let output = tokenring(dir.path(), &[&["self-bench"], &flags[..], &[&url]].concat());
    let found = json(&output);
    assert!(found["steps"][0]["events_per_s"].as_f64().unwrap() > 0.0);
    assert!(found["steps"][0].get("ttft_error_ns").is_none());
    let note = found["notes"][0].as_str().unwrap();
    assert!(
        note.contains("writes no stamps") && text(&output.stderr).contains(note),
        "{note}"
    );
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = listener.local_addr().unwrap().to_string();
    drop(listener);
    code(&run(&refusing), 3);
}

#[test]
fn on_one_cpu_it_says_that_client_and_mock_share_it() {
    let dir = tempfile::tempdir().unwrap();
    let cpu = usable()[0].to_string();
    let flags = [
        "self-bench",
        "--streams",
        "2",
        "--seconds",
        "0.3",
        "--json",
        "-",
    ];
    let output = Command::new("taskset")
        .args(["-c", &cpu])
        .arg(cargo_bin("tokenring"))
        .args(flags)
        .env("XDG_CACHE_HOME", dir.path())
        .output()
        .unwrap();
    let found = json(&output);
    let note = found["notes"][0].as_str().unwrap();
    assert!(
        note.contains("share the CPUs") && note.contains("upper bounds"),
        "{note}"
    );
    assert!(text(&output.stderr).contains(note));
    assert_eq!(found["mock_cpus"], serde_json::json!([]));
    assert!(!dir.path().join("tokenring").exists());
}

/// A run whose export and screen are wanted.
fn profile(cache: &Path, flags: &[&str]) -> (Value, Output) {
    let own = [
        "profile",
        "--demo",
        "--streaming",
        "--concurrency",
        "2",
        "--request-count",
        "4",
    ];
    let more = [
        "--tokenizer",
        "builtin",
        "--isl",
        "20",
        "--allow-invalid",
        "--overwrite",
    ];
    let dir = ["--artifact-dir", "run"];
    let output = tokenring(cache, &[&own[..], &more, &dir, flags].concat());
    code(&output, 0);
    let bytes = std::fs::read(cache.join("run/profile_export_aiperf.json")).unwrap();
    (serde_json::from_slice(&bytes).unwrap(), output)
}

#[test]
fn a_report_has_its_headroom_from_what_is_kept_and_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (export, output) = profile(dir.path(), &[]);
    assert!(export["client"].get("headroom_ratio").is_none());
    assert!(!text(&output.stdout).contains("self-bench"));
    assert!(!dir.path().join("tokenring").exists());

    let known = Capacity {
        machine: machine(&cargo_bin("tokenring")),
        shape: Shape {
            unit: Unit::Events,
            bytes_max: 1_024,
            tls: false,
        },
        per_s: 1e9,
        measured_wall_ns: 1_796_003_780_483_785_999,
    };
    let file = dir.path().join("tokenring/self-bench.json");
    let kept = serde_json::json!({"schema_version": "1", "capacities": [known]});
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::write(&file, kept.to_string()).unwrap();
    let (export, output) = profile(dir.path(), &[]);
    let ratio = export["client"]["headroom_ratio"].as_f64().unwrap();
    assert!(ratio > 1_000.0, "{ratio}");
    let screen = text(&output.stdout);
    let line = "x this load (self-bench of 2026-11-30)";
    assert!(screen.contains(line), "{screen}");

    std::fs::write(&file, "{ broken").unwrap();
    let (export, output) = profile(dir.path(), &[]);
    assert!(export["client"].get("headroom_ratio").is_none());
    let told = text(&output.stderr);
    assert!(
        told.contains("self-bench.json") && told.contains("note: "),
        "{told}"
    );
}

#[test]
fn a_run_is_calibrated_first_when_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (_, output) = profile(dir.path(), &["--calibrate"]);
    assert!(text(&output.stderr).contains("Largest VALID load"));
    assert!(text(&output.stdout).starts_with("Verdict: "));
    let flags = ["profile", "-m", "m", "--calibrate", "--dry-run"];
    let output = tokenring(dir.path(), &flags);
    code(&output, 0);
    assert!(!text(&output.stderr).contains("calibrating"));
}

#[test]
fn what_cannot_be_is_bad_usage_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, told) in [
        (&["--streams", "1,x"][..], "--streams"),
        (&["--streams", "900000"], "--streams 900000"),
        (&["--cores", "4000-4001"], "--cores"),
        (&["--against", "h", "--tls"], "https://"),
        (&["--json", "no/such/folder/x"], "--json no/such/folder/x"),
        (&["--model", "m"], "--against"),
    ] {
        let output = tokenring(dir.path(), &[&["self-bench"], flags].concat());
        code(&output, 2);
        assert!(text(&output.stderr).contains(told), "{flags:?}");
        assert!(output.stdout.is_empty());
    }
    let output = tokenring(dir.path(), &["man", "self-bench"]);
    code(&output, 0);
    assert!(text(&output.stdout).contains("rate\\-per\\-stream"));
}
