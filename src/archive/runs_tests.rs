use super::*;
use crate::stats::Row;
use crate::stats::wire::Writer;
use serde_json::json;
use tempfile::TempDir;

const AIPERF: &str = include_str!("../../tests/data/golden/aiperf/profile_export_aiperf.json");
const AIPERF_LINE: &str = include_str!("../../tests/data/golden/aiperf/profile_export.head1.jsonl");

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    dir
}

fn summary() -> Value {
    json!({
        "schema_version": "1.4",
        "tokenring_version": "0.1.0",
        "request_latency": {"unit": "ms", "avg": 20.202_020_202_020_204, "p99": 1e-300, "count": 3},
        "request_throughput": {"unit": "requests/sec", "avg": 3.0},
        "telemetry_data": {"summary": {}},
        "input_config": {
            "models": {"items": [{"name": "m"}]},
            "endpoint": {"urls": ["http://a:1"], "type": "chat", "streaming": true,
                "extra": {"ignore_eos": true}},
            "datasets": [{"random_seed": 7, "prompts": {"isl": {"mean": 100.0, "stddev": 5.0}}}],
            "phases": [
                {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 1},
                {"name": "profiling", "kind": "profiling", "type": "poisson", "rate": 5.5,
                    "requests": 30, "concurrency": 8},
            ],
            "tokenizer": {"name": "builtin"},
        },
        "run_info": {"random_seed": 9},
        "was_cancelled": false,
        "is_complete": true,
        "warmup_metrics": {"request_latency": {"unit": "ms", "avg": 1.0}},
        "client": {
            "verdict": "DEGRADED",
            "reasons": [{"code": "send_lag", "level": "DEGRADED", "unit": "us"}],
            "request_latency_from_due": {"unit": "ms", "avg": 21.0, "p50": null},
            "limits": {"request_timeout_s": 1.0},
        },
    })
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn shard(requests: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let metrics = Columns::new([("request_latency".into(), "ms".into())]);
    let mut writer = Writer::new(metrics, &mut out);
    for index in 0..requests {
        let row = Row {
            index,
            is_valid: true,
            ..Row::default()
        };
        writer.push(row, &[20.0], &mut out);
    }
    writer.finish(&mut out);
    out
}

#[test]
fn a_run_of_ours_gives_its_figures_verdict_and_workload() {
    let dir = folder(&[(SUMMARY, &bytes(&summary()))]);
    for path in [dir.path().to_path_buf(), dir.path().join(SUMMARY)] {
        let run = RunFolder::open(&path).unwrap();
        let tags: Vec<&str> = run.figures.0.iter().map(|m| m.tag.as_str()).collect();
        let all = [
            "request_latency",
            "request_throughput",
            "request_latency_from_due",
        ];
        assert_eq!(tags, all);
        let latency = |stat| run.figures.get("request_latency", stat);
        assert_eq!(latency("avg"), Some(20.202_020_202_020_204));
        assert_eq!(
            (latency("p99"), latency("count")),
            (Some(1e-300), Some(3.0))
        );
        assert_eq!(run.figures.get("request_latency_from_due", "p50"), None);
        assert_eq!(
            (run.maker, run.version.as_str()),
            (Maker::Tokenring, "0.1.0")
        );
        assert_eq!(run.verdict, Some(Verdict::Degraded));
        assert_eq!(run.reasons, ["send_lag"]);
        assert!(run.is_complete && !run.was_cancelled);
        assert_eq!(run.path, dir.path());
        let asked = &run.workload;
        assert_eq!(
            (asked.concurrency, asked.request_rate_per_s),
            (Some(8), Some(5.5))
        );
        assert_eq!((asked.seed, asked.isl), (Some(9), Some((100.0, 5.0))));
        assert_eq!((asked.osl, asked.phases.len()), (None, 1));
        assert!(run.columns().unwrap().is_none());
    }
}

#[test]
fn workloads_say_what_differs() {
    let document = |value: &Value| value.as_object().unwrap().clone();
    let one = Workload::of(&document(&summary()));
    let mut other = summary();
    other["input_config"]["endpoint"]["streaming"] = false.into();
    other["input_config"]["datasets"][0]["prompts"]["osl"] = json!({"mean": 64.0});
    let other = Workload::of(&document(&other));
    let text = String::from;
    let differing = [
        ("streaming", text("true"), text("false")),
        ("output tokens", text(""), text("64")),
    ];
    assert_eq!(one.differences(&other), differing);
    assert!(one.differences(&one).is_empty());
    assert_eq!(Workload::of(&Map::new()).models, Vec::<String>::new());
}

#[test]
fn a_run_of_aiperf_is_read_too() {
    let dir = folder(&[
        (SUMMARY, AIPERF.as_bytes()),
        (LINES, AIPERF_LINE.as_bytes()),
    ]);
    let run = RunFolder::open(dir.path()).unwrap();
    assert_eq!((run.maker, run.verdict), (Maker::Aiperf, None));
    let golden: Value = serde_json::from_str(AIPERF).unwrap();
    let p99 = golden["request_latency"]["p99"].as_f64();
    assert_eq!(run.figures.get("request_latency", "p99"), p99);
    assert_eq!(run.workload.concurrency, Some(4));
    assert_eq!(run.workload.models, ["test/mock-model"]);
    let read = run.columns().unwrap().unwrap();
    assert_eq!((read.columns.len(), read.notes.len()), (1, 0));
    let latency = read.columns.get("request_latency").unwrap();
    assert_eq!(latency, [285.867_876_999_999_96]);
    assert_eq!(read.columns.unit("http_req_data_sent"), Some("KB"));
    assert_eq!(read.columns.get("inter_chunk_latency"), None);
    assert_eq!(
        read.columns.figures().get("request_count", "avg"),
        Some(1.0)
    );
}

#[test]
fn a_run_under_a_prefix_is_found_and_two_are_asked_about() {
    let one = bytes(&summary());
    let files: [(&str, &[u8]); 4] = [
        ("foo.json", &one),
        ("foo_records.bin", &shard(3)),
        ("other.json", b"{}"),
        ("inputs.json", b"{"),
    ];
    let dir = folder(&files);
    let run = RunFolder::open(dir.path()).unwrap();
    assert_eq!(run.columns().unwrap().unwrap().columns.len(), 3);
    std::fs::write(dir.path().join("bar.json"), &one).unwrap();
    let error = RunFolder::open(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("bar.json") && error.contains("foo.json"),
        "{error}"
    );
    assert!(RunFolder::open(&dir.path().join("bar.json")).is_ok());
}

#[test]
fn no_run_is_an_error_that_names_the_path_and_the_runs_below() {
    let one = bytes(&summary());
    let dir = folder(&[
        ("a/profile_export_aiperf.json", &one),
        ("b/c/foo.json", &one),
        ("b/c/foo.hlog", b""),
        ("b/d/inputs.json", b"{}"),
        ("sweep.json", b"{\"runs\": []}"),
    ]);
    let path = dir.path().display().to_string();
    let error = RunFolder::open(dir.path()).unwrap_err().to_string();
    for part in [&path, SUMMARY, "a, ", "b/c"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("b/d"), "{error}");
    for (name, part) in [("a", ""), ("none", "no run in")] {
        let found = RunFolder::open(&dir.path().join(name));
        assert_eq!(found.is_err(), name == "none");
        if let Err(error) = found {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    let sweep = dir.path().join("sweep.json");
    let error = RunFolder::open(&sweep).unwrap_err().to_string();
    assert!(error.contains("tokenring_version"), "{error}");
}

#[test]
fn a_broken_summary_is_named() {
    for text in ["", "[]", "{\"a\":", "{\"schema_version\": \"1.4\"}"] {
        let dir = folder(&[(SUMMARY, text.as_bytes())]);
        let error = RunFolder::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains(SUMMARY), "{error}");
    }
}

/// The requests of a run with these files: how many, from which file, and what is noted.
fn requests(files: &[(&str, &[u8])]) -> Result<(usize, String, String), String> {
    let dir = folder(files);
    std::fs::write(dir.path().join(SUMMARY), bytes(&summary())).unwrap();
    let run = RunFolder::open(dir.path()).unwrap();
    let read = run.columns().map_err(|error| error.to_string())?.unwrap();
    Ok((
        read.columns.len(),
        name_of(&read.source),
        read.notes.join(" "),
    ))
}

#[test]
fn a_torn_or_foreign_shard_gives_way_to_the_lines_and_is_told() {
    let long = shard(5_000);
    let torn = &long[..long.len() - 30];
    let mut foreign = shard(3);
    foreign[8] = 77;
    let (count, source, notes) = requests(&[(SHARD, &long), (LINES, b"no line\n")]).unwrap();
    assert_eq!((count, &*source, &*notes), (5_000, SHARD, ""));
    let (count, _, notes) = requests(&[(SHARD, torn)]).unwrap();
    assert!(
        count == 4_096 && notes.contains("torn") && notes.contains("4096"),
        "{notes}"
    );
    for (shard, part) in [
        (torn, "is torn"),
        (&foreign, "version 77"),
        (b"{}", "no shard"),
    ] {
        let files = [(SHARD, shard), (LINES, AIPERF_LINE.as_bytes())];
        let (count, source, notes) = requests(&files).unwrap();
        assert_eq!((count, &*source), (1, LINES));
        assert!(notes.contains(part), "{notes}");
    }
    let error = requests(&[(SHARD, &foreign)]).unwrap_err();
    assert!(
        error.contains(SHARD) && error.contains("version 77"),
        "{error}"
    );
}

#[test]
fn lines_are_read_as_far_as_they_are_whole() {
    let line = |phase: &str, rest: &str| {
        let times = r#""session_num":4,"request_start_ns":1,"request_end_ns":5"#;
        format!(r#"{{"metadata":{{{times},"benchmark_phase":"{phase}"}},{rest}}}"#)
    };
    let metrics = r#""metrics":{"request_latency":{"value":2.5,"unit":"ms"},"x":{"value":[1]}}"#;
    let failed = r#""metrics":{"error_isl":{"value":9,"unit":"tokens"}},"error":{"code":500}"#;
    let text = [
        line("warmup", metrics),
        line("profiling", failed),
        line("profiling", metrics),
        "{\"metadata\":".into(),
    ]
    .join("\n");
    let dir = folder(&[(SUMMARY, &bytes(&summary())), (LINES, text.as_bytes())]);
    let read = RunFolder::open(dir.path())
        .unwrap()
        .columns()
        .unwrap()
        .unwrap();
    assert!(
        read.notes[0].contains("line 4 is cut off"),
        "{:?}",
        read.notes
    );
    let columns = read.columns;
    assert_eq!(columns.is_valid(), [false, true]);
    assert!(columns.get("request_latency").unwrap()[0].is_nan());
    assert_eq!(columns.get("request_latency").unwrap()[1], 2.5);
    assert_eq!(columns.get("error_isl").unwrap()[0], 9.0);
    assert_eq!(columns.row(1).unwrap().index, 4);
    for (text, part) in [("{}\n", "line 1"), ("1\n{\"metadata\":1}\n", "line 1")] {
        let error = requests(&[(LINES, text.as_bytes())]).unwrap_err();
        assert!(error.contains(part) && error.contains(LINES), "{error}");
    }
    assert_eq!(requests(&[(LINES, b"")]).unwrap().0, 0);
}
