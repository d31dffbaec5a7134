//! What a run leaves, read back by the library; and conditions on its figures: by the built binary.

use std::path::Path;
use tokenring::archive::{Maker, RunFolder};
use tokenring::stats::{Columns, Figures};

mod mock;
mod ran;
use mock::Mock;

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
    let dir = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let all = [&["--request-count=5", "--osl=3"], flags].concat();
        let output = ran::command(&mock.url, dir.path(), &all).output().unwrap();
        ran::code(&output, 0);
    };
    run(&["--profile-export-prefix=foo"]);
    assert!(dir.path().join("foo_records.bin").is_file());
    assert_eq!(requests(dir.path()).len(), 5);
    // The next run moves it aside with the others.
    run(&["--export-level=summary"]);
    assert!(!dir.path().join("foo_records.bin").exists());
    assert!(
        RunFolder::open(dir.path())
            .unwrap()
            .columns()
            .unwrap()
            .is_none()
    );
}
