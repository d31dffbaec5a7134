//! What a run leaves, read back by the library; and conditions on its figures: by the built binary.

use std::path::Path;
use tokenring::archive::{Maker, RunFolder};
use tokenring::stats::{Columns, Figures};

mod mock;
mod ran;
use mock::Mock;
use ran::fits;

/// The same to the digit but for the last ones of a standard deviation.
fn assert_alike(found: &Figures, run: &Figures) {
    for metric in &found.0 {
        let of_run = run
            .metric(&metric.tag)
            .unwrap_or_else(|| panic!("{}", metric.tag));
        for (stat, value) in &metric.stats {
            let want = of_run.get(stat).unwrap();
            let room = if stat == "std" {
                1e-9 * want.max(1.0)
            } else {
                0.0
            };
            assert!(
                (value - want).abs() <= room,
                "{} {stat}: {value} {want}",
                metric.tag
            );
        }
    }
}

fn requests(dir: &Path) -> Columns {
    let read = RunFolder::open(dir).unwrap().columns().unwrap().unwrap();
    assert!(read.notes.is_empty(), "{:?}", read.notes);
    read.columns
}

#[test]
fn a_run_is_read_back_to_the_digit_from_its_shard_and_from_its_lines() {
    let mock = Mock::start(&["--ttft-ms", "3", "--itl-ms", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--concurrency=4",
        "--request-count=40",
        "--warmup-request-count=8",
        "--random-seed=7",
        "--osl=5",
        "--goodput",
        "request_latency:1000",
    ];
    let output = ran::command(&mock.url, dir.path(), &flags)
        .output()
        .unwrap();
    let ran = ran::read(&output, dir.path());
    let run = RunFolder::open(dir.path()).unwrap();
    assert_eq!((run.maker, &*run.schema_version), (Maker::Tokenring, "1.4"));
    assert!(
        run.verdict
            .is_some_and(|v| v.name() == ran.json["client"]["verdict"])
    );
    assert!(run.is_complete && !run.was_cancelled);
    let p99 = ran.json["request_latency"]["p99"].as_f64();
    assert_eq!(run.figures.get("request_latency", "p99"), p99);
    assert!(run.figures.metric("request_latency_from_due").is_some());
    assert_eq!(run.workload.concurrency, Some(4));
    assert_eq!(
        (run.workload.seed, run.workload.request_count),
        (Some(7), Some(40))
    );
    let by_shard = requests(dir.path());
    assert_eq!(by_shard.len(), 40, "no warm-up");
    assert_alike(&by_shard.figures(), &run.figures);
    let shard = dir.path().join("profile_export_records.bin");
    assert_eq!(run.columns().unwrap().unwrap().source, shard);
    std::fs::remove_file(shard).unwrap();
    let by_lines = requests(dir.path());
    assert_eq!(by_lines.start_ns(), by_shard.start_ns());
    assert_eq!(by_lines.end_ns(), by_shard.end_ns());
    for (tag, unit) in by_lines.metrics() {
        // By their bits: absent is NaN.
        let bits = |columns: &Columns| -> Option<Vec<u64>> {
            Some(columns.get(tag)?.iter().map(|v| v.to_bits()).collect())
        };
        assert_eq!(bits(&by_lines), bits(&by_shard), "{tag}");
        assert_eq!(by_shard.unit(tag), Some(unit));
    }
    assert_eq!(by_lines.figures().0.len(), by_shard.figures().0.len());
}

#[test]
fn a_prefix_names_the_shard_too_and_a_summary_alone_has_none() {
    let mock = Mock::start(&["--ttft-ms", "3", "--itl-ms", "1"]);
    let parent = tempfile::tempdir().unwrap();
    // The first run is moved aside, beside it.
    let dir = parent.path().join("run");
    let run = |flags: &[&str]| {
        let all = [&["--request-count=5", "--osl=3"], flags].concat();
        let output = ran::command(&mock.url, &dir, &all).output().unwrap();
        ran::code(&output, 0);
    };
    run(&["--profile-export-prefix=foo"]);
    assert!(dir.join("foo_records.bin").is_file());
    assert_eq!(requests(&dir).len(), 5);
    // The next run moves it aside with the others.
    run(&["--export-level=summary"]);
    assert!(!dir.join("foo_records.bin").exists());
    assert!(RunFolder::open(&dir).unwrap().columns().unwrap().is_none());
}

/// A short run with these flags: its exit code, screen, messages and assertions.
fn asserted(url: &str, flags: &[&str]) -> (Option<i32>, String, String, serde_json::Value) {
    let parent = tempfile::tempdir().unwrap();
    // The first run is moved aside, beside it.
    let dir = parent.path().join("run");
    let all = [&["--request-count=6", "--osl=3"], flags].concat();
    let output = ran::command(url, &dir, &all).output().unwrap();
    let (screen, told) = (ran::text(&output.stdout), ran::text(&output.stderr));
    let path = dir.join("profile_export_aiperf.json");
    let json = std::fs::read_to_string(path).unwrap_or("{}".into());
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    if !json["client"].is_null() {
        fits(
            &json,
            include_str!("../schema/profile_export_aiperf.schema.json"),
        );
    }
    (
        output.status.code(),
        screen,
        told,
        json["client"]["assertions"].take(),
    )
}

#[test]
fn assertions_that_hold_end_a_run_well_and_others_by_4() {
    let mock = Mock::start(&["--ttft-ms", "3", "--itl-ms", "1"]);
    let good = [
        "--assert",
        "p99(ttft)<60s",
        "--assert",
        "request_latency_from_due>0",
    ];
    let (code, screen, told, found) = asserted(&mock.url, &good);
    assert_eq!(code, Some(0), "{told}");
    assert!(!screen.contains("assertion"), "{screen}");
    assert_eq!(found[0]["text"], "p99(ttft)<60s");
    assert_eq!(
        (&found[0]["holds"], &found[1]["holds"]),
        (&true.into(), &true.into())
    );
    assert!(found[1]["value"].as_f64().unwrap() > 0.0);

    let bad = ["--assert", "rps>=1", "ttft < 1us", "goodput>1", "errors<=0"];
    let (code, screen, told, found) = asserted(&mock.url, &bad);
    assert_eq!(code, Some(4), "{told}");
    for text in [&screen, &told] {
        assert!(
            text.contains("assertion failed: avg(time_to_first_token) is "),
            "{text}"
        );
        assert!(text.contains(", not < 0.001 ms"), "{text}");
        assert!(
            text.contains("the run has no goodput; it is not > 1 requests/sec"),
            "{text}"
        );
        assert_eq!(text.matches("assertion failed").count(), 2, "{text}");
    }
    let holds: Vec<bool> = (0..4).map(|at| found[at]["holds"] == true).collect();
    assert_eq!(holds, [true, false, false, true]);
    assert!(found[2]["value"].is_null());
}

#[test]
fn an_assertion_that_cannot_be_judged_is_refused_before_the_run() {
    // Nobody listens there: nothing is sent.
    for (text, part) in [
        ("p99(time_to_frist_token)<5", "time_to_first_token"),
        ("p99(ttft)>+5%", "another run"),
        ("ttft", "p99(time_to_first_token)<500ms"),
    ] {
        let (code, _, told, _) = asserted("127.0.0.1:9", &["--assert", text]);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains("--assert: ") && told.contains(part), "{told}");
    }
}
