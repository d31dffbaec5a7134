//! What ends requests and runs before their time, and what servers are told beside requests: by
//! the built binary.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

mod mock;
mod ran;
mod support;
use mock::Mock;
use ran::{code, fits, text};
use support::{Act, Ask, CHUNKED, STREAM, chunk, ev, send, serve};
use tokenring::base::Ns;
use tokenring::engine::RequestLimits;
use tokenring::stats::{Failure, FailureKind, Stage};

fn command(dir: &Path, url: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("tokenring"));
    command
        .args(["profile", "-m", "m", "-u", url, "--streaming"])
        .args(["--isl", "8", "--tokenizer", "builtin", "--random-seed", "7"])
        .args(["--no-gpu-telemetry", "--allow-invalid", "--ui", "none"])
        .arg("--artifact-dir")
        .arg(dir)
        .args(flags)
        .env_remove("OPENAI_API_KEY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a run has printed and written.
struct Ran {
    screen: String,
    stderr: String,
    json: Value,
    records: Vec<Value>,
}

fn run(url: &str, flags: &[&str], expected: i32) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let output = command(dir.path(), url, flags).output().unwrap();
    code(&output, expected);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("profile_export_aiperf.json")).unwrap();
    fits(
        &json,
        include_str!("../schema/profile_export_aiperf.schema.json"),
    );
    let lines = read("profile_export.jsonl");
    let records = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    Ran {
        screen: text(&output.stdout),
        stderr: text(&output.stderr),
        json,
        records: records.collect(),
    }
}

/// A run that is refused before its first request: what it says. It leaves no files.
fn refused(url: &str, flags: &[&str], expected: i32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let output = command(&path, url, flags).output().unwrap();
    code(&output, expected);
    assert!(!path.exists());
    text(&output.stderr)
}

fn avg(ran: &Ran, tag: &str) -> f64 {
    ran.json[tag]["avg"].as_f64().unwrap()
}

/// Numbers of the requests that were cancelled.
fn cancelled(ran: &Ran) -> Vec<u64> {
    let is_cancelled = |record: &&Value| record["metadata"]["was_cancelled"] == true;
    let number = |record: &Value| record["metadata"]["session_num"].as_u64().unwrap();
    let mut numbers: Vec<u64> = ran
        .records
        .iter()
        .filter(is_cancelled)
        .map(number)
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_share_of_the_measured_requests_is_cancelled_the_same_on_any_number_of_cores() {
    let mut seen = Vec::new();
    for cores in ["1", "2"] {
        let mock = Mock::start(&["--ttft-ms", "300", "--itl-ms", "1", "--tokens", "4"]);
        let ran = run(
            &mock.url,
            &[
                "--cores",
                cores,
                "--concurrency",
                "16",
                "--request-count",
                "60",
                "--warmup-request-count",
                "4",
                "--request-cancellation-rate",
                "30",
                "--no-preflight",
            ],
            0,
        );
        let numbers = cancelled(&ran);
        let count = numbers.len();
        assert!((5..=35).contains(&count), "{count} of 60");
        assert!(numbers.iter().all(|&number| number >= 4), "{numbers:?}");
        assert_eq!(avg(&ran, "request_count"), (60 - count) as f64);
        assert_eq!(avg(&ran, "error_request_count"), count as f64);
        let latencies = &ran.json["request_latency"]["count"];
        assert_eq!(latencies.as_u64(), Some(60 - count as u64));
        assert_eq!(ran.json["client"]["cancelled_count"], count);
        assert_eq!(ran.json.get("adj_request_latency"), None);
        let summary = ran.json["error_summary"].as_array().unwrap();
        assert_eq!(summary.len(), 1, "{summary:?}");
        assert_eq!(
            summary[0]["error_details"]["type"],
            "RequestCancellationError"
        );
        // As asked for: the run is whole, and nobody has cut it.
        assert_eq!(ran.json["is_complete"], true);
        assert_eq!(ran.json["was_cancelled"], false);
        let told = format!("{count} cancelled as asked");
        assert!(ran.screen.contains(&told) && !ran.screen.contains("failed)"));
        for record in &ran.records {
            let is_cancelled = record["metadata"]["was_cancelled"] == true;
            assert_eq!(record.get("error").is_some(), is_cancelled, "{record}");
            if is_cancelled {
                assert_eq!(record["error"]["code"], 499);
                assert_eq!(record["error"]["type"], "RequestCancellationError");
                assert_eq!(record["failure"]["kind"], "cancelled");
                let metrics = record["metrics"].as_object().unwrap();
                assert_eq!(metrics.keys().collect::<Vec<_>>(), ["error_isl"]);
            }
        }
        // The server has met a closed connection for each.
        assert_eq!(mock.stat("aborted"), count as u64);
        seen.push(numbers);
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_chosen_request_that_ends_before_its_cancellation_is_a_success() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "1", "--tokens", "2"]);
    let flags = ["--request-cancellation-rate", "100"];
    let late = ["--request-cancellation-delay", "600"];
    let ran = run(&mock.url, &[&flags[..], &late].concat(), 0);
    assert_eq!(avg(&ran, "request_count"), 10.0);
    assert_eq!(ran.json["client"]["cancelled_count"], 0);
    assert!(ran.screen.contains("100 % of the measured requests"));
}

#[test]
fn a_run_of_cancellations_alone_is_as_asked_and_none_of_them_a_failure() {
    let mock = Mock::start(&["--ttft-ms", "60000"]);
    let flags = ["--request-cancellation-rate", "100", "--no-preflight"];
    let limit = ["--failed-request-threshold", "0"];
    let ran = run(&mock.url, &[&flags[..], &limit].concat(), 0);
    assert_eq!(cancelled(&ran).len(), 10);
    assert_eq!(ran.json["client"].get("ended_early"), None);
    assert_eq!(ran.json["is_complete"], true);
}

#[test]
fn what_the_end_of_the_run_cuts_is_no_cancellation_on_purpose() {
    let mock = Mock::start(&["--ttft-ms", "60000"]);
    let time = ["--benchmark-duration", "0.3", "--benchmark-grace-period"];
    let ran = run(
        &mock.url,
        &[&time[..], &["0", "--no-preflight"]].concat(),
        3,
    );
    assert_eq!(cancelled(&ran), [0]);
    assert_eq!(ran.records[0]["error"]["type"], "cancelled");
    assert_eq!(ran.records[0]["failure"]["kind"], "client");
    assert_eq!(ran.json["client"]["cancelled_count"], 0);
}

fn data(text: &str) -> String {
    format!("data: {text}\n\n")
}

fn good() -> String {
    let events = data(&ev("a")) + &data("[DONE]");
    format!("{CHUNKED}{}0\r\n\r\n", chunk(&events))
}

/// A server of one script.
fn slow(script: Vec<Act>) -> String {
    serve(move |_| script.clone()).to_string()
}

#[test]
fn no_limit_cuts_a_slow_answer_unasked_and_a_total_says_that_it_is_one() {
    let late = slow(vec![Act::Wait(1_000), send(good())]);
    let stalled = slow(stall(1_000));
    let ran = run(&late, &["--request-count", "1", "--no-preflight"], 0);
    assert_eq!(ran.json["client"]["limits"]["request_timeout_s"], 21_600.0);
    assert!(ran.screen.contains("21600 s in total"), "{}", ran.screen);
    for (url, expected) in [(&late, "first_token"), (&stalled, "stream")] {
        let flag = "--request-timeout-seconds";
        let flags = [flag, "0.3", "--request-count", "1", "--no-preflight"];
        let ran = run(url, &flags, 3);
        let (error, failure) = (&ran.records[0]["error"], &ran.records[0]["failure"]);
        assert_eq!(error["type"], "timeout");
        assert_eq!(failure["phase"], expected);
        assert!(failure["after_ms"].as_f64().unwrap() >= 300.0);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("within 0.3 s"), "{message}");
        assert!(message.contains(flag) && message.contains("whole request"));
    }
}

/// A content event, silence, and the end.
fn stall(wait: u64) -> Vec<Act> {
    vec![
        send(STREAM),
        send(data(&ev("a"))),
        Act::Wait(wait),
        send(data("[DONE]")),
        Act::Close,
    ]
}

/// The failure of one request under limits on the first token and on silence.
fn limited(script: Vec<Act>, first_token: Option<Ns>, idle: Option<Ns>) -> Option<Box<Failure>> {
    let ask = Ask::new(serve(move |_| script.clone()), 1);
    let limits = RequestLimits {
        first_token,
        idle,
        ..ask.limits
    };
    support::run(&Ask { limits, ..ask })
        .0
        .pop()
        .unwrap()
        .failure
}

#[test]
fn each_limit_holds_for_its_own_part_and_is_named() {
    let limit = Some(Ns::from_ms(200));
    let late = || vec![Act::Wait(600), send(good())];
    for (script, first_token, idle, stage, named) in [
        (late(), limit, None, Stage::FirstToken, "--first-token-"),
        (stall(600), None, limit, Stage::Stream, "--idle-"),
        // Bytes that are no content begin the answer, and are no first token.
        (
            vec![send(STREAM), send(": ping\n\n"), Act::Wait(600)],
            limit,
            None,
            Stage::FirstToken,
            "--first-token-",
        ),
    ] {
        let failure = limited(script, first_token, idle).unwrap();
        assert_eq!((failure.kind, failure.stage), (FailureKind::Timeout, stage));
        assert!(failure.message.contains(named), "{}", failure.message);
        assert!(failure.after >= limit);
    }
    let limit = Some(Ns::from_ms(1_000));
    for (script, first_token, idle) in [
        (vec![Act::Wait(1_300), send(good())], None, limit),
        (stall(1_300), limit, None),
    ] {
        assert_eq!(limited(script, first_token, idle), None);
    }
}

#[test]
fn a_limit_on_silence_is_none_on_the_length_of_an_answer() {
    let mut script = vec![send(STREAM)];
    for _ in 0..25 {
        script.extend([Act::Wait(100), send(data(&ev("a")))]);
    }
    script.extend([send(data("[DONE]")), Act::Close]);
    assert_eq!(limited(script, None, Some(Ns::from_ms(2_000))), None);
}

#[test]
fn a_request_that_cannot_connect_ends_by_the_total_if_that_is_less() {
    // TLS that nobody speaks: the connection is never done.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let rate = ["--request-rate", "1000", "--tls-insecure"];
    let limits = ["--request-timeout-seconds", "0.3", "--no-preflight"];
    let ran = run(
        &url,
        &[&rate[..], &limits, &["--connect-timeout-seconds", "1.5"]].concat(),
        3,
    );
    let phase = |record: &Value| record["failure"]["phase"] == "connect";
    assert!(ran.records.iter().all(phase));
    let message = |record: &Value| record["error"]["message"].to_string();
    assert!(message(&ran.records[0]).contains("--request-timeout-seconds"));
}

#[test]
fn a_dry_run_says_which_limits_are_in_force() {
    let flags = [
        "--idle-timeout-seconds",
        "5",
        "--request-cancellation-rate",
        "10",
        "--reset-kv-cache",
        "--dry-run",
    ];
    let dir = tempfile::tempdir().unwrap();
    let output = command(dir.path(), "127.0.0.1:1", &flags).output().unwrap();
    code(&output, 0);
    let told = text(&output.stdout);
    for part in [
        "21600 s in total",
        "30 s to connect",
        "5 s without a byte",
        "10 % of the measured requests are cancelled",
        "POST /reset_prefix_cache",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_run_ends_when_too_many_requests_fail_with_what_it_has() {
    let mock = Mock::start(&["--ttft-ms", "1", "--fault", "status=429:0.5"]);
    let flags = ["--concurrency", "4", "--no-preflight", "--request-count"];
    let limit = ["20000", "--failed-request-threshold", "0.2"];
    let ran = run(&mock.url, &[&flags[..], &limit].concat(), 6);
    assert!((10..20_000).contains(&ran.records.len()));
    assert_eq!(ran.json["is_complete"], false);
    let ended = &ran.json["client"]["ended_early"];
    assert_eq!(ended["by"], "failed_request_threshold");
    assert_eq!(ended["limit"], 0.2);
    for told in [&ran.screen, &ran.stderr] {
        assert!(told.contains("--failed-request-threshold 0.2"), "{told}");
    }
    // A share that is not exceeded ends nothing.
    let flags = ["--failed-request-threshold", "1", "--no-preflight"];
    let ran = run(&mock.url, &flags, 0);
    assert_eq!(ran.json["is_complete"], true);
}

#[test]
fn a_wait_may_be_for_the_list_of_models() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "1", "--model", "m"]);
    for mode in ["models", "both"] {
        let wait = ["--wait-for-model-timeout", "60", "--wait-for-model-mode"];
        run(&mock.url, &[&wait[..], &[mode]].concat(), 0);
    }
    let other = Mock::start(&["--model", "other"]);
    let wait = ["--wait-for-model-timeout", "1", "--wait-for-model-mode"];
    let often = ["both", "--wait-for-model-interval", "0.1"];
    let told = refused(&other.url, &[&wait[..], &often].concat(), 3);
    assert!(told.contains("/v1/models lists no model `m`"), "{told}");
    assert_eq!(other.stat("requests"), 0);
}

type Log = Arc<Mutex<Vec<String>>>;

/// A server that keeps the paths that it was asked for, and gives each the status of `status`.
fn logged(status: impl Fn(&str) -> u16 + Send + Sync + 'static) -> (String, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let log = Log::default();
    let (status, kept) = (Arc::new(status), log.clone());
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (status, log) = (status.clone(), kept.clone());
            thread::spawn(move || answer(socket.unwrap(), &*status, &log));
        }
    });
    (addr, log)
}

fn answer(mut socket: TcpStream, status: &dyn Fn(&str) -> u16, log: &Log) {
    let (mut held, mut buffer) = (Vec::new(), [0; 65536]);
    loop {
        let head = held.windows(4).position(|four| four == b"\r\n\r\n");
        let whole = head.and_then(|end| {
            let text = String::from_utf8_lossy(&held[..end]).to_ascii_lowercase();
            let path = text.split(' ').nth(1)?.to_string();
            let length = text.split("content-length: ").nth(1)?;
            let length: usize = length.split("\r\n").next()?.parse().ok()?;
            (held.len() >= end + 4 + length).then_some((path, end + 4 + length))
        });
        let Some((path, length)) = whole else {
            match socket.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => held.extend_from_slice(&buffer[..count]),
            }
            continue;
        };
        held.drain(..length);
        log.lock().unwrap().push(path.clone());
        let answer = match status(&path) {
            200 if path.starts_with("/v1/") => good(),
            status => format!("HTTP/1.1 {status} X\r\nContent-Length: 4\r\n\r\nsaid"),
        };
        if socket.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The paths so far, each run of requests for tokens as one.
fn paths(log: &Log) -> Vec<String> {
    let mut paths = log.lock().unwrap().clone();
    paths.dedup();
    paths
}

const CHAT: &str = "/v1/chat/completions";

#[test]
fn hooks_are_sent_once_to_each_server_and_in_their_order() {
    let (url, log) = logged(|_| 200);
    let same = format!("{url}/v1");
    let flags = ["--reset-kv-cache", "--server-profiler", "-u", &same];
    let ran = run(&url, &flags, 0);
    assert_eq!(avg(&ran, "request_count"), 10.0);
    let hooks = ["/reset_prefix_cache", "/start_profile", "/stop_profile"];
    let expected = [CHAT, hooks[0], hooks[1], CHAT, hooks[2]];
    assert_eq!(paths(&log), expected);
    let (url, log) = logged(|_| 200);
    let flags = [
        "--server-profiler",
        "--server-profiler-start-path",
        "on",
        "--server-profiler-stop-path",
        "/off",
        "--no-preflight",
    ];
    // After the first of the warm-up, and before the last of the measurement as far as that lasts.
    let warmup = ["--warmup-request-count", "5", "--request-count", "300"];
    run(&url, &[&flags[..], &warmup].concat(), 0);
    let paths = paths(&log);
    assert_eq!(paths[0], CHAT);
    assert_eq!(paths.last().unwrap(), "/off");
    let count = |path: &str| paths.iter().filter(|p| *p == path).count();
    assert_eq!((count("/on"), count("/off")), (1, 1));
}

#[test]
fn a_refused_reset_ends_the_run_before_it_and_names_flag_and_path() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "1"]);
    let flags = ["--reset-kv-cache", "--reset-kv-cache-path", "/nowhere"];
    let told = refused(&mock.url, &flags, 2);
    for part in ["--reset-kv-cache: POST", "/nowhere", "404", "-path"] {
        assert!(told.contains(part), "{told}");
    }
    let flags = ["--reset-kv-cache", "--request-count", "2"];
    run(&mock.url, &flags, 0);
    assert_eq!(mock.stat("cache_resets"), 1);
    // Twice the probe, and the two requests.
    assert_eq!(mock.stat("requests"), 4);
}

#[test]
fn a_profiler_that_does_not_start_is_an_error_and_those_that_have_are_stopped() {
    let (deaf, _) = logged(|path| if path == "/start_profile" { 404 } else { 200 });
    let (good, log) = logged(|_| 200);
    let flags = ["--server-profiler", "--no-preflight", "-u", &good];
    let told = refused(&deaf, &flags, 2);
    for part in ["--server-profiler: POST", "/start_profile", "404", &deaf] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(paths(&log), ["/start_profile", "/stop_profile"]);
}

#[test]
fn a_profiler_that_fails_later_is_a_warning_and_loses_nothing() {
    let (url, _) = logged(|path| if path == "/stop_profile" { 500 } else { 200 });
    let ran = run(&url, &["--server-profiler"], 0);
    assert!(ran.stderr.contains("/stop_profile"), "{}", ran.stderr);
    assert_eq!(avg(&ran, "request_count"), 10.0);
    let (url, log) = logged(|path| if path == "/start_profile" { 404 } else { 200 });
    let flags = ["--server-profiler", "--warmup-request-count", "3"];
    let ran = run(&url, &flags, 0);
    assert!(ran.stderr.contains("no profile"), "{}", ran.stderr);
    assert!(!paths(&log).contains(&"/stop_profile".to_string()));
}

#[test]
fn ctrl_c_still_stops_the_profiler() {
    let mock = Mock::start(&["--ttft-ms", "5", "--itl-ms", "1", "--tokens", "5"]);
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--server-profiler", "--benchmark-duration", "600"];
    let child = command(dir.path(), &mock.url, &flags).spawn().unwrap();
    while mock.events_count() < 50 {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(mock.stat("profile_starts"), 1);
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    code(&child.wait_with_output().unwrap(), 130);
    assert_eq!(mock.stat("profile_stops"), 1);
}
