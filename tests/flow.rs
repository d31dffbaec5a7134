//! How a run begins and ends: the wait, the probe, signals, lost outputs; what is left behind.

mod ran;
mod support;

use assert_cmd::cargo::cargo_bin;
use ran::{code, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use support::{Act, CHUNKED, STREAM, chunk, ev, send, serve, serve_on};

/// A busy machine may take this long for what is a second's work; hangs take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer than any turn of a loop that looks at its deadlines.
const FLOOD: Duration = Duration::from_secs(60);

fn profile(dir: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("tokenring"));
    command
        .args(["profile", "-m", "m", "--streaming", "--allow-invalid"])
        .args(["--tokenizer", "builtin", "--isl", "20", "--artifact-dir"])
        .arg(dir)
        .args(flags)
        .env_remove("OPENAI_API_KEY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(dir: &Path, flags: &[&str]) -> Output {
    profile(dir, flags).output().unwrap()
}

fn export(dir: &Path) -> Value {
    let bytes = std::fs::read(dir.join("profile_export_aiperf.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn good() -> Vec<Act> {
    let events = format!("data: {}\n\ndata: [DONE]\n\n", ev("a"));
    vec![send(format!("{CHUNKED}{}0\r\n\r\n", chunk(&events)))]
}

fn status(line: &str) -> Vec<Act> {
    vec![send(format!(
        "HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n"
    ))]
}

/// An address that refuses.
fn refusing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn kill(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_wait_outlasts_a_port_that_is_not_open_yet() {
    let addr = refusing();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(1_500));
        serve_on(TcpListener::bind(addr).unwrap(), |n| match n {
            0 => status("503 Loading"),
            _ => good(),
        });
    });
    let dir = tempfile::tempdir().unwrap();
    let url = addr.to_string();
    code(
        &run(
            dir.path(),
            &[
                "-u",
                &url,
                "--wait-for-model-timeout",
                "60",
                "--wait-for-model-interval",
                "0.2",
            ],
        ),
        0,
    );
    assert_eq!(export(dir.path())["request_count"]["avg"], 10.0);
}

#[test]
fn a_wait_ends_when_it_is_over_whatever_the_server_does() {
    let silent = serve(|_| vec![Act::Wait(600_000)]);
    for addr in [silent, refusing()] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let begun = Instant::now();
        let output = run(
            &path,
            &["-u", &addr.to_string(), "--wait-for-model-timeout", "1"],
        );
        code(&output, 3);
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_signal_before_the_first_request_ends_at_once_without_files() {
    for (signal, expected, wait) in [("-INT", 130, false), ("-TERM", 143, true)] {
        let (asked, heard) = channel();
        let addr = serve(move |_| {
            asked.send(()).unwrap();
            vec![Act::Wait(600_000)]
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let url = addr.to_string();
        let mut flags = vec!["-u", &url];
        if wait {
            flags.extend(["--wait-for-model-timeout", "500"]);
        }
        let child = profile(&path, &flags).spawn().unwrap();
        heard.recv_timeout(PATIENCE).unwrap();
        kill(&child, signal);
        let begun = Instant::now();
        let output = child.wait_with_output().unwrap();
        code(&output, expected);
        assert!(begun.elapsed() < PATIENCE);
        assert!(text(&output.stderr).contains("no files"), "{signal}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_signal_while_a_closed_port_is_waited_for_ends_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let url = refusing().to_string();
    let flags = ["-u", &url, "--wait-for-model-timeout", "500"];
    let mut child = profile(&dir.path().join("run"), &flags).spawn().unwrap();
    // A step that lasts is named.
    let told = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut named = told.map_while(Result::ok);
    assert!(named.any(|line| line.contains("connecting to the server")));
    kill(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_run_s_own_limits_bound_the_probe() {
    let silent = serve(|_| vec![Act::Wait(600_000)]);
    let endless = serve(|_| vec![send(STREAM.replace("200 OK", "404 No")), Act::Wait(600_000)]);
    for addr in [silent, endless] {
        let dir = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let url = addr.to_string();
        let path = dir.path().join("run");
        let output = run(&path, &["-u", &url, "--request-timeout-seconds", "1"]);
        code(&output, 3);
        assert!(text(&output.stderr).contains("no answer in time"));
        assert!(begun.elapsed() < PATIENCE);
        assert!(!path.exists());
    }
}

#[test]
fn a_dead_url_beside_a_live_one_makes_errors_of_its_share() {
    for dead in [refusing().to_string(), "no-such-host.invalid:80".into()] {
        let live = serve(|_| good()).to_string();
        let dir = tempfile::tempdir().unwrap();
        let output = run(
            dir.path(),
            &["-u", &dead, "-u", &live, "--request-count", "7"],
        );
        code(&output, 0);
        assert!(text(&output.stderr).contains("its share"), "{dead}");
        let json = export(dir.path());
        assert_eq!(json["request_count"]["avg"], 3.0, "{dead}");
        assert_eq!(json["error_request_count"]["avg"], 4.0, "{dead}");
    }
}

#[test]
fn an_unknown_host_alone_exits_3_without_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let output = run(&path, &["-u", "no-such-host.invalid:80"]);
    code(&output, 3);
    assert!(text(&output.stderr).contains("not found"));
    assert!(!path.exists());
}

#[test]
fn an_overloaded_server_gets_a_warning_and_the_run() {
    for answer in ["503 Busy", "429 Too Many Requests"] {
        let addr = serve(move |n| match n {
            0 => status(answer),
            _ => good(),
        });
        let dir = tempfile::tempdir().unwrap();
        let output = run(dir.path(), &["-u", &addr.to_string()]);
        code(&output, 0);
        assert!(text(&output.stderr).contains("warning: "), "{answer}");
        assert_eq!(export(dir.path())["request_count"]["avg"], 10.0);
    }
}

#[test]
fn a_failed_probe_leaves_an_earlier_run_where_it_is() {
    let refusal = serve(|_| status("400 No")).to_string();
    let closing = serve(|_| vec![Act::Close]).to_string();
    for (url, expected) in [(refusal, 2), (closing, 3), (refusing().to_string(), 3)] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("profile_export_aiperf.json"), "{}").unwrap();
        code(&run(&path, &["-u", &url]), expected);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        code(&run(&dir.path().join("a/b"), &["-u", &url]), expected);
        assert!(!dir.path().join("a").exists());
    }
}

#[test]
fn a_plan_without_requests_is_bad_usage() {
    let dir = tempfile::tempdir().unwrap();
    let url = refusing().to_string();
    let seed = ["-u", &url, "--random-seed", "1", "--request-rate"];
    for (flags, named) in [
        (
            &["0.5", "--benchmark-duration", "0.01"][..],
            "--benchmark-duration",
        ),
        (&["1e-300", "--request-count", "3"], "--request-rate"),
    ] {
        let output = run(dir.path(), &[&seed[..], flags].concat());
        code(&output, 2);
        assert!(text(&output.stderr).contains(named), "{flags:?}");
        assert!(text(&output.stderr).contains("--request-rate"), "{flags:?}");
    }
}

#[test]
fn a_lost_screen_loses_no_run() {
    let url = serve(|_| good()).to_string();
    let full = || {
        std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let flags = ["-u", &url, "-v"];
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let output = profile(&path("err"), &flags)
        .stderr(full())
        .output()
        .unwrap();
    code(&output, 0);
    assert!(text(&output.stdout).starts_with("Verdict: "));
    let output = profile(&path("out"), &flags)
        .stdout(full())
        .output()
        .unwrap();
    code(&output, 1);
    assert!(text(&output.stderr).contains("stdout: No space left"));
    // Both go to a pipe that nobody reads, as with `2>&1 | head -1`.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = profile(&path("pipe"), &flags);
    let child = command
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .spawn();
    drop((reader, command));
    assert_eq!(child.unwrap().wait().unwrap().code(), Some(0));
    for name in ["err", "out", "pipe"] {
        assert_eq!(export(&path(name))["request_count"]["avg"], 10.0, "{name}");
    }
    let mut help = Command::new(cargo_bin("tokenring"));
    assert_eq!(
        help.arg("man").stdout(full()).status().unwrap().code(),
        Some(1)
    );
}

#[test]
fn a_server_that_floods_one_stream_stops_no_deadline() {
    let flood = chunk(&": x\n\n".repeat(8_000));
    let addr = serve(move |n| match n {
        0 => vec![
            send(CHUNKED),
            Act::Flood(flood.clone().into_bytes(), FLOOD.as_secs()),
        ],
        _ => good(),
    });
    let dir = tempfile::tempdir().unwrap();
    let url = addr.to_string();
    let flags = [
        "-u",
        &url,
        "--no-preflight",
        "--request-timeout-seconds",
        "2",
    ];
    let begun = Instant::now();
    let output = profile(dir.path(), &flags)
        .env("TOKENRING_NO_URING", "1")
        .args(["--concurrency", "2"])
        .output()
        .unwrap();
    code(&output, 0);
    assert!(begun.elapsed() < FLOOD, "{:?}", begun.elapsed());
    let json = export(dir.path());
    assert_eq!(json["error_summary"][0]["error_details"]["type"], "timeout");
    assert!(json["request_count"]["avg"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_interrupted_run_says_so_on_every_output() {
    let (asked, heard) = channel();
    let addr = serve(move |n| {
        // Only the first few are waited for.
        let _ = asked.send(n);
        [vec![Act::Wait(50)], good()].concat()
    });
    let dir = tempfile::tempdir().unwrap();
    let url = addr.to_string();
    let child = profile(dir.path(), &["-u", &url, "--request-count", "5000"])
        .spawn()
        .unwrap();
    while heard.recv_timeout(PATIENCE).unwrap() < 4 {}
    kill(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    code(&output, 130);
    let screen = text(&output.stdout);
    assert!(screen.starts_with("Verdict: "), "{screen}");
    assert!(
        screen
            .lines()
            .nth(1)
            .unwrap()
            .contains("INTERRUPTED by Ctrl-C"),
        "{screen}"
    );
    assert!(text(&output.stderr).contains("of 5000 measured requests"));
    let file = std::fs::read_to_string(dir.path().join("profile_export_console.txt")).unwrap();
    assert!(file.contains("INTERRUPTED"));
    assert_eq!(export(dir.path())["was_cancelled"], true);
}

#[test]
fn a_dry_run_lists_all_that_the_run_would_do() {
    let dir = tempfile::tempdir().unwrap();
    let urls = ["-u", "a.invalid:1", "-u", "b.invalid:2", "--dry-run"];
    let output = run(
        dir.path(),
        &[&urls[..], &["-g", "request_latency:100"]].concat(),
    );
    code(&output, 0);
    let plan = text(&output.stdout);
    for part in [
        "http://a.invalid:1",
        "http://b.invalid:2",
        "request_latency 100 ms",
        "-H 'X-Request-ID: ",
    ] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
}

#[test]
fn a_random_seed_is_a_number_that_every_reader_of_json_keeps() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let output = run(dir.path(), &["-u", "a.invalid:1", "--dry-run"]);
        let plan = text(&output.stdout);
        let line = plan.lines().find(|line| line.starts_with("seed")).unwrap();
        let seed: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(seed < 1 << 53, "{seed}");
    }
}

#[test]
fn what_is_known_and_not_served_is_refused_by_one_line() {
    for (args, told) in [
        (
            &["kube", "profile"][..],
            "kube: run `profile` in a pod of your own; today: profile, analyze",
        ),
        (&["plot", "--dashboard"], "open the SVG"),
        (&["trace"], "today: profile"),
        (&["profile", "--service-kind", "triton"], "--backend"),
        (
            &["profile", "--isl", "5", "--", "--binary-search"],
            "analyze --search",
        ),
    ] {
        let output = Command::new(cargo_bin("tokenring"))
            .args(args)
            .output()
            .unwrap();
        code(&output, 2);
        let line = text(&output.stderr);
        assert!(line.contains(told) && line.lines().count() == 1, "{line}");
    }
}

#[test]
fn the_manual_has_a_page_with_every_flag_of_a_subcommand() {
    let page = |args: &[&str]| {
        let output = Command::new(cargo_bin("tokenring"))
            .args(args)
            .output()
            .unwrap();
        code(&output, 0);
        text(&output.stdout)
    };
    assert!(page(&["man"]).contains("profile"));
    let profile = page(&["man", "profile"]);
    for flag in [
        "concurrency",
        "request\\-rate",
        "warmup\\-request\\-count",
        "cores",
    ] {
        assert!(profile.contains(flag), "{flag}");
    }
    assert!(page(&["man", "mock"]).contains("ttft\\-ms"));
}
