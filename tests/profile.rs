//! The built binary against the bundled mock, as a user runs it.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

mod mock;
mod ran;
use mock::Mock;
use ran::fits;

fn run(dir: &Path, flags: &[&str]) -> Output {
    Command::new(cargo_bin("tokenring"))
        .arg("profile")
        .args([
            "--artifact-dir",
            dir.to_str().unwrap(),
            "--tokenizer",
            "builtin",
            "--isl",
            "20",
        ])
        // A busy machine may make any run INVALID; that is not what these tests are about.
        .arg("--allow-invalid")
        .args(flags)
        .env_remove("OPENAI_API_KEY")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn export(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("profile_export_aiperf.json")).unwrap()).unwrap()
}

fn code(output: &Output, expected: i32) {
    assert_eq!(
        output.status.code(),
        Some(expected),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_demo_profiles_the_bundled_mock_and_writes_everything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let load = [
        "--demo",
        "--streaming",
        "--concurrency",
        "8",
        "--request-count",
        "24",
    ];
    let flags = [&load[..], &["--goodput", "request_latency:10000"]].concat();
    let output = run(&path, &flags);
    code(&output, 0);
    let screen = text(&output.stdout);
    assert!(screen.starts_with("Verdict: "), "{screen}");
    assert!(screen.contains("Time to First Token (ms)"));
    assert!(!screen.contains('\u{1b}') && !text(&output.stderr).contains('\u{1b}'));
    let json = export(&path);
    fits(
        &json,
        include_str!("../schema/profile_export_aiperf.schema.json"),
    );
    assert!(
        json["client"]["steady_state"]["concurrency_held"]
            .as_f64()
            .unwrap()
            > 4.0
    );
    assert_eq!(
        json["client"]["goodput_attainment"][0]["tag"],
        "request_latency"
    );
    assert_eq!(json["schema_version"], "1.4");
    assert_eq!(json["request_count"]["avg"], 24.0);
    assert_eq!(json["output_sequence_length"]["avg"], 64.0);
    assert_eq!(json["input_sequence_length"]["avg"], 20.0);
    assert!(json["time_to_first_token"]["min"].as_f64().unwrap() >= 20.0);
    assert_eq!(
        json["client"].as_object().unwrap().keys().next().unwrap(),
        "verdict"
    );
    let lines = std::fs::read_to_string(path.join("profile_export.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 24);
    for line in lines.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let metadata = &record["metadata"];
        let span = metadata["request_end_ns"].as_u64().unwrap()
            - metadata["request_start_ns"].as_u64().unwrap();
        let latency = record["metrics"]["request_latency"]["value"]
            .as_f64()
            .unwrap();
        assert!((latency - span as f64 / 1e6).abs() < 1e-6);
    }
    let inputs: Value =
        serde_json::from_slice(&std::fs::read(path.join("inputs.json")).unwrap()).unwrap();
    assert_eq!(inputs["data"].as_array().unwrap().len(), 24);
    for name in [
        "profile_export_aiperf.csv",
        "profile_export_genai_perf.json",
        "profile_export_genai_perf.csv",
        "profile_export_console.txt",
        "profile_export.hlog",
    ] {
        assert!(path.join(name).is_file(), "{name}");
    }
    // A reader of HdrHistogram's logs finds every request, and every gap between events.
    let log = std::fs::read(path.join("profile_export.hlog")).unwrap();
    let log = tokenring::stats::IntervalLog::read(&log).unwrap();
    let total = |tag: &str| {
        let found = log.iter().find(|interval| interval.tag == tag);
        found.map(|interval| interval.histogram.count())
    };
    for tag in [
        "time_to_first_token",
        "request_latency",
        "inter_token_latency",
        "decode_duration",
    ] {
        assert_eq!(total(tag), Some(24), "{tag}");
    }
    assert_eq!(
        total("inter_chunk_latency"),
        json["inter_chunk_latency"]["count"].as_u64()
    );
    // A second run moves the first aside.
    code(&run(&path, &flags), 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn completions_whole_answers_and_triton_are_measured_too() {
    let mock = Mock::start(&["--ttft-ms", "5", "--itl-ms", "1", "--tokens", "8"]);
    for flags in [
        &["--endpoint-type", "completions", "--streaming"][..],
        &["--endpoint-type", "chat"],
        &["--endpoint-type", "completions"],
        &["--backend", "tensorrtllm", "--streaming"],
        &["--backend", "vllm"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let base = [
            "-m",
            "m",
            "-u",
            &mock.url,
            "--concurrency",
            "3",
            "--request-count",
            "9",
        ];
        let output = run(dir.path(), &[&base[..], flags].concat());
        code(&output, 0);
        let json = export(dir.path());
        assert_eq!(json["request_count"]["avg"], 9.0, "{flags:?}");
        let streaming = flags.contains(&"--streaming");
        assert_eq!(
            json.get("time_to_first_token").is_some(),
            streaming,
            "{flags:?}"
        );
    }
}

#[test]
fn the_same_seed_sends_the_same_requests_over_any_number_of_cores() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "0", "--tokens", "2"]);
    let digest = |cores: &str| {
        let dir = tempfile::tempdir().unwrap();
        let flags = [
            "-m",
            "m",
            "-u",
            &mock.url,
            "--streaming",
            "--random-seed",
            "7",
            "--cores",
        ];
        let more = [
            "--concurrency",
            "4",
            "--request-count",
            "20",
            "--isl-stddev",
            "5",
        ];
        code(&run(dir.path(), &[&flags[..], &[cores], &more].concat()), 0);
        let inputs = std::fs::read(dir.path().join("inputs.json")).unwrap();
        serde_json::from_slice::<Value>(&inputs).unwrap()["sha256"].clone()
    };
    assert_eq!(digest("1"), digest("2"));
}

#[test]
fn failures_are_counted_by_kind_and_are_in_no_latency() {
    let mock = Mock::start(&[
        "--ttft-ms",
        "1",
        "--itl-ms",
        "0",
        "--fault",
        "status=429:0.5",
    ]);
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-m", "m", "-u", &mock.url, "--streaming", "--no-preflight"];
    code(
        &run(
            dir.path(),
            &[&flags[..], &["--request-count", "40"]].concat(),
        ),
        0,
    );
    let json = export(dir.path());
    let count = |tag: &str| json[tag]["avg"].as_f64().unwrap();
    assert_eq!(count("request_count") + count("error_request_count"), 40.0);
    assert!(count("error_request_count") > 5.0);
    assert_eq!(json["error_summary"][0]["error_details"]["code"], 429);
    assert_eq!(
        json["request_latency"]["count"].as_f64().unwrap(),
        count("request_count")
    );
}

#[test]
fn a_run_in_which_all_fails_writes_everything_and_exits_3() {
    let mock = Mock::start(&["--error-rate", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-m", "m", "-u", &mock.url, "--streaming", "--no-preflight"];
    code(&run(dir.path(), &flags), 3);
    let json = export(dir.path());
    assert_eq!(json["request_count"]["avg"], 0.0);
    assert_eq!(json["error_request_count"]["avg"], 10.0);
    assert_eq!(json.get("request_latency"), None);
}

#[test]
fn a_port_that_refuses_exits_3_without_files() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let output = run(&path, &["-m", "m", "-u", &format!("127.0.0.1:{port}")]);
    code(&output, 3);
    assert!(
        text(&output.stderr).contains("--url"),
        "{}",
        text(&output.stderr)
    );
    assert!(!path.exists());
}

#[test]
fn the_probe_explains_what_the_server_refuses() {
    let mock = Mock::start(&["--model", "real"]);
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["-m", "wrong", "-u", &mock.url, "--streaming"]);
    code(&output, 2);
    assert!(
        text(&output.stderr).contains("real"),
        "{}",
        text(&output.stderr)
    );
    // The only model of the server needs no -m.
    let output = run(dir.path(), &["-u", &mock.url, "--streaming"]);
    code(&output, 0);
}

#[test]
fn ctrl_c_drains_writes_and_exits_130() {
    for (signal, expected) in [("-INT", 130), ("-TERM", 143)] {
        let mock = Mock::start(&["--ttft-ms", "50", "--itl-ms", "10", "--tokens", "10"]);
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(cargo_bin("tokenring"))
            .args([
                "profile",
                "-m",
                "m",
                "-u",
                &mock.url,
                "--streaming",
                "--isl",
                "20",
            ])
            .args([
                "--benchmark-duration",
                "30",
                "--concurrency",
                "2",
                "--tokenizer",
                "builtin",
            ])
            .args(["--artifact-dir", dir.path().to_str().unwrap()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The run has begun, and some of its requests are done.
        let enough = mock.events_count() + 100;
        while mock.events_count() < enough {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
        let output = child.wait_with_output().unwrap();
        code(&output, expected);
        let json = export(dir.path());
        assert_eq!(json["was_cancelled"], true);
        assert!(json["request_count"]["avg"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn secrets_are_in_no_file_and_on_no_screen() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "0"]);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "-m",
        "m",
        "-u",
        &mock.url,
        "--streaming",
        "--api-key",
        "sk-verysecret",
        "-v",
    ];
    let more = [
        "-H",
        "Authorization: Bearer tok-alsosecret",
        "-H",
        "Cookie: session=coo-alsosecret",
        "--extra-inputs",
        "api_key:bod-alsosecret",
        "--export-level",
        "raw",
    ];
    let url = format!("{}/?api_key=url-alsosecret", mock.url);
    let flags = [&flags[..], &more].concat();
    let flags: Vec<&str> = flags
        .into_iter()
        .map(|flag| if flag == mock.url { &url } else { flag })
        .collect();
    let output = run(dir.path(), &flags);
    code(&output, 0);
    let dry = run(dir.path(), &[&flags[..], &["--dry-run"]].concat());
    assert!(text(&dry.stdout).contains("api_key=<redacted>"));
    let user = run(dir.path(), &["-u", "http://me:use-alsosecret@h"]);
    code(&user, 2);
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("a.yaml");
    std::fs::write(&path, "api_key: [fil-alsosecret\n").unwrap();
    let broken = run(dir.path(), &["-f", path.to_str().unwrap()]);
    code(&broken, 2);
    let mut all = Vec::new();
    for output in [output, dry, user, broken] {
        all.extend([output.stdout, output.stderr]);
    }
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        all.push(std::fs::read(entry.unwrap().path()).unwrap());
    }
    for bytes in all {
        assert!(!text(&bytes).contains("sk-verysecret") && !text(&bytes).contains("alsosecret"));
    }
}

/// A server that answers every request with these bytes, and closes.
fn answering(answer: &'static [u8]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut bytes = [0; 65_536];
            let _ = socket.read(&mut bytes);
            let _ = socket.write_all(answer);
        }
    });
    addr.to_string()
}

#[test]
fn what_a_server_says_steers_no_terminal_and_shows_no_secret() {
    let url = answering(
        b"HTTP/1.1 500 no \x9b2J SK-VERYSECRET\r\nContent-Length: 37\r\n\r\n\
        a\x1b[31m\r\nVerdict: VALID sk%2Dverysecret",
    );
    let base = ["-m", "m\x1b[2J", "-u", &url, "--api-key", "sk-verysecret"];
    for flags in [&[][..], &["--no-preflight", "--request-count", "2"]] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let output = run(&path, &[&base[..], flags].concat());
        assert!(!output.status.success());
        let mut all = vec![output.stdout, output.stderr];
        all.extend(std::fs::read(path.join("profile_export_console.txt")));
        for bytes in &all {
            let shown = text(bytes);
            let steers = |c: char| c.is_control() && c != '\n';
            assert!(!shown.contains(steers), "{shown}");
            assert!(
                !shown
                    .lines()
                    .any(|line| line.starts_with("Verdict: VALID s"))
            );
        }
        all.extend(std::fs::read(path.join("profile_export.jsonl")));
        for bytes in all {
            let lower = text(&bytes).to_lowercase();
            assert!(!lower.contains("verysecret"), "{lower}");
        }
    }
}

#[test]
fn an_excerpt_ends_in_no_half_of_a_key() {
    let body = format!("{}sk-verysecret", "x".repeat(290));
    let head = format!("HTTP/1.1 400 No\r\nContent-Length: {}", body.len());
    let url = answering(format!("{head}\r\n\r\n{body}").leak().as_bytes());
    let dir = tempfile::tempdir().unwrap();
    let flags = ["-m", "m", "-u", &url, "--api-key", "sk-verysecret"];
    let output = run(&dir.path().join("run"), &flags);
    code(&output, 2);
    let told = text(&output.stderr);
    assert!(told.contains("xxx<redacted>"), "{told}");
    assert!(!told.contains("sk-v"), "{told}");
}

#[test]
fn what_is_typed_wrong_steers_no_terminal() {
    for args in [
        &["man", "\x1b[2J"][..],
        &["\x1b[2J"],
        &["profile", "--\x1b[2J"],
        &["profile", "--concurrency", "\x1b[2J"],
        &["profile", "--config", "\x1b[2J.yaml"],
    ] {
        let mut command = Command::new(cargo_bin("tokenring"));
        let output = command.args(args).output().unwrap();
        code(&output, 2);
        let told = text(&output.stderr);
        assert!(told.starts_with("error: "), "{told}");
        assert!(!told.contains(|c: char| c.is_control() && c != '\n'));
    }
}

#[test]
fn a_limit_on_files_leaves_what_fits_and_names_the_rest() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "0", "--tokens", "2"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    // 160 blocks of 512 bytes or 1 KiB: room for each summary, not for 240 requests.
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 160; exec \"$0\" \"$@\""])
        .arg(cargo_bin("tokenring"))
        .args(["profile", "-m", "m", "-u", &mock.url, "--streaming"])
        .args([
            "--request-count",
            "240",
            "--isl",
            "400",
            "--tokenizer",
            "builtin",
        ])
        .args(["--artifact-dir", path.to_str().unwrap(), "--allow-invalid"])
        .output()
        .unwrap();
    code(&output, 6);
    let stderr = text(&output.stderr);
    for name in ["inputs.json", "profile_export.jsonl"] {
        assert!(stderr.contains(&format!("{name}: writing: ")), "{stderr}");
    }
    assert_eq!(export(&path)["request_count"]["avg"], 240.0);
    assert!(text(&output.stdout).contains("Time to First Token"));
    let lines = std::fs::read_to_string(path.join("profile_export.jsonl")).unwrap();
    assert!(lines.ends_with('\n') && lines.lines().count() > 3);
    for line in lines.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    for entry in std::fs::read_dir(&path).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.contains(".tmp."), "{name}");
        assert_ne!(name, "inputs.json");
    }
}

#[test]
fn a_second_run_with_a_prefix_in_the_current_folder_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let output = Command::new(cargo_bin("tokenring"))
            .args([
                "profile",
                "--demo",
                "--streaming",
                "--request-count",
                "2",
                "--isl",
                "20",
            ])
            .args(["--artifact-dir", ".", "--profile-export-prefix", "foo"])
            .args(["--allow-invalid", "--tokenizer", "builtin"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        code(&output, 0);
    }
    let inner: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert_eq!(inner.len(), 1, "{inner:?}");
    for folder in [dir.path(), &inner[0]] {
        for name in ["foo.json", "foo.jsonl", "inputs.json"] {
            assert!(folder.join(name).is_file(), "{name}");
        }
    }
}

#[test]
fn bad_input_names_its_flag_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let in_file = dir.path().join("file/run");
    for (flags, named) in [
        (&["--concurrency", "0"][..], "--concurrency"),
        (&["--concurrency", "1,x"], "--concurrency"),
        (&["--model", "a", "b"], "--model"),
        (&["--request-rate", "nan"], "--request-rate"),
        (
            &["--request-rate", "inf", "--arrival-pattern", "constant"],
            "--request-rate",
        ),
        (&["--request-rate", "1e-300"], "--request-rate"),
        (
            &["--request-count", "99999999999999999999"],
            "--request-count",
        ),
        (&["--benchmark-duration", "-1"], "--benchmark-duration"),
        (&["--osl", "0"], "--osl"),
        (&["--isl-stddev", "-1"], "--isl-stddev"),
        (&["--artifact-dir", ""], "--artifact-dir"),
        (&["--request-rate", "x"], "--request-rate"),
        (&["--input-file", "x.jsonl"], "--input-file"),
        (&["--endpoint-type", "embedings"], "--endpoint-type"),
        (&["--endpoint-type", "video_generation"], "--endpoint-type"),
        (&["--tokenizer", "/no/such/file.json"], "--tokenizer"),
        (&["--tokenizer", "org/model"], "--tokenizer"),
        (&["--url", "http://"], "--url"),
        (&["--goodput", "nonsense:1"], "--goodput"),
        (&["--header", "a\r\nb: c"], "--header"),
        (&["--cores", "9999"], "--cores"),
        (&["--config", "/no/such.yaml"], "--config"),
        (
            &["--artifact-dir", in_file.to_str().unwrap(), "--demo"],
            "--artifact-dir",
        ),
        (&["--no-such-flag"], "--no-such-flag"),
    ] {
        let output = Command::new(cargo_bin("tokenring"))
            .args(["profile", "-m", "m"])
            .args(flags)
            .env("HF_HUB_OFFLINE", "1")
            .current_dir(dir.path())
            .output()
            .unwrap();
        code(&output, 2);
        assert!(
            text(&output.stderr).contains(named),
            "{flags:?}: {}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "{flags:?} left files"
        );
    }
}

#[test]
fn a_file_sets_what_flags_do_not_take_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let keys = "model-names: m\nstreaming: true\noutput_tokens_mean: 9\nconcurrency: 3\n";
    std::fs::write(&file, keys).unwrap();
    let file = file.to_str().unwrap();
    let flags = [
        "--config",
        file,
        "--dry-run",
        "--no-streaming",
        "--concurrency",
        "2",
    ];
    let output = run(&dir.path().join("run"), &flags);
    code(&output, 0);
    let plan = text(&output.stdout);
    for part in [
        r#""stream":false"#,
        r#""max_completion_tokens":9"#,
        "2 in flight",
    ] {
        assert!(plan.contains(part), "{plan}");
    }
}

#[test]
fn a_dry_run_prints_the_request_and_sends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let output = run(
        &path,
        &["-m", "m", "--dry-run", "--streaming", "--osl", "9"],
    );
    code(&output, 0);
    let plan = text(&output.stdout);
    assert!(
        plan.contains("curl -N 'http://localhost:8000/v1/chat/completions'"),
        "{plan}"
    );
    assert!(plan.contains(r#""max_completion_tokens":9"#), "{plan}");
    assert!(!path.exists());
}

#[test]
fn doctor_and_completions_print_to_stdout() {
    for (args, expected) in [(&["doctor"][..], "receive path"), (&["man"], "tokenring")] {
        let output = Command::new(cargo_bin("tokenring"))
            .args(args)
            .output()
            .unwrap();
        code(&output, 0);
        assert!(text(&output.stdout).contains(expected));
    }
}

#[test]
fn a_folder_that_a_run_writes_to_is_left_alone() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "0", "--tokens", "2"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut first = Command::new(cargo_bin("tokenring"))
        .args(["profile", "-m", "m", "-u", &mock.url, "--streaming"])
        .args(["--benchmark-duration", "40", "--isl", "20"])
        .args(["--tokenizer", "builtin", "--allow-invalid"])
        .args(["--artifact-dir", path.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Its records' file is there once it has begun.
    let began = || {
        path.join(format!("profile_export.jsonl.tmp.{}", first.id()))
            .is_file()
    };
    for _ in 0..600 {
        if began() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(began());
    let second = run(&path, &["-m", "m", "-u", &mock.url, "--request-count", "1"]);
    code(&second, 2);
    let stderr = text(&second.stderr);
    assert!(stderr.contains("a run writes there"), "{stderr}");
    let pid = first.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
    assert!(sent.success());
    assert_eq!(first.wait().unwrap().code(), Some(143));
    assert!(path.join("profile_export_aiperf.json").is_file());
}

#[test]
fn a_client_that_was_stopped_says_how_far_off_its_times_are() {
    let mock = Mock::start(&["--ttft-ms", "20", "--itl-ms", "5", "--tokens", "60"]);
    for fallback in [false, true] {
        for (stop_ms, streams, requests) in [(30, "2", "8"), (200, "20", "80")] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("run");
            let mut child = Command::new(cargo_bin("tokenring"))
                .args(["profile", "-m", "m", "-u", &mock.url, "--streaming"])
                .args(["--concurrency", streams, "--request-count", requests])
                .args(["--isl", "8", "--cores", "1", "--tokenizer", "builtin"])
                .args(["--check-stamps", "--allow-invalid", "--ui", "none"])
                .arg("--artifact-dir")
                .arg(&path)
                .envs(fallback.then_some(("TOKENRING_NO_URING", "1")))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let pid = child.id().to_string();
            let begun = std::time::Instant::now();
            while child.try_wait().unwrap().is_none() {
                if begun.elapsed().as_secs() < 3 {
                    for signal in ["-STOP", "-CONT"] {
                        let _ = Command::new("kill").args([signal, &pid]).status();
                        std::thread::sleep(std::time::Duration::from_millis(stop_ms));
                    }
                } else {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
            }
            let client = &export(&path)["client"];
            let of = |name: &Value| name["p90"].as_f64().unwrap() / 1e6;
            let claimed = of(&client["event_time_error_ns"]);
            let actual = of(&client["stamp_error_ns"]["event_time"]);
            // The mock may be held up too, between its stamp and its send: a few events are left
            // out, and some ms forgiven.
            assert!(
                claimed + 5.0 >= actual,
                "{fallback} {stop_ms} {streams}: {claimed} of {actual} ms"
            );
        }
    }
}
