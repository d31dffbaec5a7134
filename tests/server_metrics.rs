//! Server metrics as a user meets them: the built binary against the mock and its page, and against
//! pages that a test makes up.

mod mock;
mod ran;
mod support;

use assert_cmd::cargo::cargo_bin;
use mock::Mock;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

const VLLM: &str = include_str!("data/pages/vllm.prom");
const SGLANG: &str = include_str!("data/pages/sglang.prom");
const SCHEMA: &str = include_str!("../schema/server_metrics_export.schema.json");

/// A server whose answer to its n-th request, from 0, is what `page` makes, all bytes; then it
/// closes. Gives its url.
fn pages(page: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let page = Arc::new(page);
    std::thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let page = page.clone();
            std::thread::spawn(move || answer(socket.unwrap(), &page(number)));
        }
    });
    format!("http://{addr}/metrics")
}

fn answer(mut socket: TcpStream, bytes: &[u8]) {
    let mut request = Vec::new();
    let mut buffer = [0u8; 4096];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        match socket.read(&mut buffer) {
            Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    // The client may have had enough of it.
    let _ = socket.write_all(bytes);
}

fn http(status: &str, length: usize, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
    format!("{head}{body}").into_bytes()
}

fn ok(body: &str) -> Vec<u8> {
    http("200 OK", body.len(), body)
}

fn command(mock: &Mock, dir: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("tokenring"));
    command
        .args(["profile", "-m", "m", "-u", &mock.url, "--streaming"])
        .args([
            "--tokenizer",
            "builtin",
            "--isl",
            "8",
            "--osl",
            "4",
            "--cores",
            "1",
        ])
        .args(["--no-gpu-telemetry", "--allow-invalid", "--ui", "none"])
        .arg("--artifact-dir")
        .arg(dir)
        .args(flags)
        .env_remove("OPENAI_API_KEY");
    command
}

/// What a run has left of the servers' own figures.
struct Told {
    screen: String,
    run: Value,
    export: Value,
    dir: tempfile::TempDir,
}

impl Told {
    fn read(output: &Output, dir: tempfile::TempDir) -> Told {
        ran::code(output, 0);
        let json = |name: &str| -> Value {
            let text = std::fs::read_to_string(dir.path().join(name)).unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let run = json("profile_export_aiperf.json");
        ran::fits(
            &run,
            include_str!("../schema/profile_export_aiperf.schema.json"),
        );
        let export = json("server_metrics_export.json");
        ran::fits(&export, SCHEMA);
        Told {
            screen: ran::text(&output.stdout),
            run,
            export,
            dir,
        }
    }

    /// The lines of every scrape of a page.
    fn scrapes(&self, url: &str) -> Vec<Value> {
        let path = self.dir.path().join("server_metrics_export.jsonl");
        let lines = std::fs::read_to_string(path).unwrap();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["endpoint_url"] == url)
            .collect()
    }

    /// A statistic of a name's series on a page, summed over them.
    fn sum(&self, url: &str, name: &str, key: &str) -> f64 {
        let series = self.export["metrics"][name]["series"].as_array().unwrap();
        let own = series.iter().filter(|series| series["endpoint_url"] == url);
        own.map(|series| series["stats"][key].as_f64().unwrap())
            .sum()
    }

    fn info(&self, url: &str) -> &Value {
        &self.export["summary"]["endpoint_info"][url]
    }
}

fn run(mock: &Mock, flags: &[&str]) -> Told {
    let dir = tempfile::tempdir().unwrap();
    let output = command(mock, dir.path(), flags).output().unwrap();
    Told::read(&output, dir)
}

/// A server that takes its time: what it counts lies clearly after the begin of a request.
fn slow() -> Mock {
    Mock::start(&["--ttft-ms", "100", "--itl-ms", "1"])
}

#[test]
fn the_mocks_own_page_has_what_was_measured_and_no_warm_up() {
    let mock = slow();
    let told = run(
        &mock,
        &[
            "--request-count",
            "12",
            "--concurrency",
            "1",
            "--warmup-request-count",
            "5",
        ],
    );
    let url = format!("http://{}/metrics", mock.url);
    assert_eq!(told.sum(&url, "vllm:request_success", "total"), 12.0);
    assert_eq!(told.sum(&url, "vllm:generation_tokens", "total"), 48.0);
    assert_eq!(
        told.sum(&url, "vllm:time_to_first_token_seconds", "count"),
        12.0
    );
    assert_eq!(told.info(&url)["is_settled"], true);
    let servers = &told.run["server_metrics"];
    assert_eq!(servers["finished_request_count"], 12);
    let vllm = &servers["servers"][0];
    assert_eq!(
        (&vllm["engine"], &vllm["endpoint"]),
        (&"vLLM".into(), &mock.url.as_str().into())
    );
    assert!(vllm["requests_running"]["max"].as_f64().unwrap() <= 1.0);
    let real = |value: &Value| value.as_f64().unwrap();
    let (ours, theirs) = (
        real(&told.run["time_to_first_token"]["avg"]),
        real(&vllm["time_to_first_token"]["avg"]),
    );
    let difference = real(&servers["client_minus_server_ttft_ms"]["avg"]);
    assert!((ours - theirs - difference).abs() < 1e-6);
    // A client sees no token before the server has sent it.
    assert!(theirs >= 100.0 && difference > 0.0, "{ours} {theirs}");
    for text in [
        &format!("Server | vLLM at {}", mock.url),
        "Requests Running",
        "the client's (ms)",
    ] {
        assert!(told.screen.contains(text), "{}", told.screen);
    }
    assert!(!told.screen.contains("other clients"), "{}", told.screen);
    let file = |name: &str| told.dir.path().join(name).exists();
    assert!(file("server_metrics_export.csv") && !file("server_metrics_export.jsonl"));
}

#[test]
fn another_clients_requests_are_noticed() {
    let mock = slow();
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--request-count", "10", "--concurrency", "1"];
    let other = [
        "--request-count",
        "200",
        "--concurrency",
        "10",
        "--no-server-metrics",
    ];
    let other_dir = tempfile::tempdir().unwrap();
    let mut other = command(&mock, other_dir.path(), &other)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = command(&mock, dir.path(), &flags).output().unwrap();
    other.wait().unwrap();
    assert!(!other_dir.path().join("server_metrics_export.json").exists());
    let told = Told::read(&output, dir);
    assert!(
        told.screen.contains("other clients use it too"),
        "{}",
        told.screen
    );
}

#[test]
fn files_have_the_asked_forms_and_names() {
    let mock = slow();
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--request-count",
        "2",
        "--server-metrics-formats",
        "csv,jsonl",
        "--profile-export-prefix",
        "mine",
    ];
    let output = command(&mock, dir.path(), &flags).output().unwrap();
    ran::code(&output, 0);
    let file = |name: &str| std::fs::read_to_string(dir.path().join(name));
    assert!(file("mine_server_metrics.json").is_err());
    let csv = file("mine_server_metrics.csv").unwrap();
    assert!(
        csv.starts_with("# tokenring Server Metrics Export (CSV)\n"),
        "{csv}"
    );
    assert!(
        csv.contains(&format!(
            "{},counter,vllm:request_success,requests,",
            mock.url
        )),
        "{csv}"
    );
    let lines = file("mine_server_metrics.jsonl").unwrap();
    assert!(lines.lines().count() >= 3);
    for line in lines.lines() {
        let scrape: Value = serde_json::from_str(line).unwrap();
        assert!(scrape["timestamp_ns"].as_u64() > Some(1_700_000_000_000_000_000));
        let ttft = &scrape["metrics"]["vllm:time_to_first_token_seconds"][0];
        assert_eq!(ttft["labels"]["model_name"], "mock-model");
        assert_eq!(ttft["buckets"]["+Inf"], ttft["count"]);
    }
}

/// The page with its counters moved by so much; histograms by as many values of 50 ms.
fn moved(page: &str, by: usize) -> String {
    let by = u32::try_from(by).unwrap();
    let line = |line: &str| {
        let Some((start, value)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else {
            return format!("{line}\n");
        };
        let value: f64 = value.parse().unwrap();
        let name = start.split('{').next().unwrap();
        let le = start
            .split("le=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let is_above = le.is_some_and(|le| le == "+Inf" || le.parse::<f64>().unwrap() >= 0.05);
        let grown = match name {
            _ if le.is_some() => f64::from(by) * f64::from(u8::from(is_above)),
            _ if name.ends_with("_seconds_sum") => 0.05 * f64::from(by),
            _ if name.ends_with("_seconds_count") => f64::from(by),
            _ if name.ends_with("_total") => 3.0 * f64::from(by),
            _ => 0.0,
        };
        format!("{start} {}\n", value + grown)
    };
    page.lines().map(line).collect()
}

/// What a counter grew by between the last scrape before the measurement and the last of all, by
/// the lines of every scrape.
fn growth(told: &Told, url: &str, value: impl Fn(&Value) -> f64) -> f64 {
    let window = &told.export["summary"]["phase_time_ranges"]["profiling"];
    let scrapes = told.scrapes(url);
    let time = |scrape: &Value| scrape["timestamp_ns"].as_u64().unwrap();
    let start = window["start_ns"].as_u64().unwrap();
    let base = scrapes
        .iter()
        .rfind(|scrape| time(scrape) <= start)
        .unwrap();
    let after = scrapes
        .iter()
        .skip_while(|scrape| time(scrape) <= time(base));
    let mut last = value(base);
    let mut grown = 0.0;
    for now in after.map(&value) {
        grown += if now < last { now } else { now - last };
        last = now;
    }
    grown
}

#[test]
fn replayed_pages_of_engines_are_differences_over_the_measurement() {
    let mock = slow();
    let vllm = pages(|number| ok(&moved(VLLM, number.min(6))));
    let sglang = pages(|number| ok(&moved(SGLANG, number.min(6))));
    let told = run(
        &mock,
        &[
            "--request-count",
            "12",
            "--concurrency",
            "1",
            "--server-metrics",
            &vllm,
            "--server-metrics",
            &sglang,
            "--server-metrics-formats",
            "json,csv,jsonl",
        ],
    );
    let name = "vllm:prompt_tokens";
    let of = |scrape: &Value| scrape["metrics"][name][0]["value"].as_f64().unwrap();
    let grown = growth(&told, &vllm, of);
    assert!(grown >= 3.0, "{grown}");
    assert_eq!(told.sum(&vllm, name, "total"), grown);
    let name = "vllm:time_to_first_token_seconds";
    let of = |scrape: &Value| scrape["metrics"][name][0]["count"].as_f64().unwrap();
    let count = growth(&told, &vllm, of);
    assert_eq!(told.sum(&vllm, name, "count"), count);
    let servers = told.run["server_metrics"]["servers"].as_array().unwrap();
    let names: Vec<&str> = servers
        .iter()
        .map(|one| one["engine"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["vLLM", "SGLang", "vLLM"]);
    for server in &servers[..2] {
        let ttft = &server["time_to_first_token"];
        // All that came was of 50 ms: the mean is exact, percentiles lie in its bucket.
        assert!(
            (ttft["avg"].as_f64().unwrap() - 50.0).abs() < 1e-6,
            "{server}"
        );
        assert!(
            (0.0..=60.0).contains(&ttft["p99"].as_f64().unwrap()),
            "{server}"
        );
        assert!((server["queue_time"]["avg"].as_f64().unwrap() - 50.0).abs() < 1e-6);
    }
    assert_eq!(servers[0]["requests_queued"]["avg"], 6.06);
    assert_eq!(told.info(&vllm)["failed_fetches"], 0);
    let metrics = told.export["metrics"].as_object().unwrap();
    assert!(metrics.keys().all(|name| !name.ends_with("_created")));
    // The counters stand for several seconds only: not ours, and said so.
    assert!(
        told.screen.contains("Server | SGLang at "),
        "{}",
        told.screen
    );
}

#[test]
fn pages_that_break_in_mid_run_are_counted_and_harm_nothing() {
    let mock = slow();
    let page = |value: &str| format!("# TYPE a counter\na_total {value}\n# TYPE g gauge\ng 1\n");
    let url = pages(move |number| {
        let whole = page(&format!("{}", 100 + number.min(12)));
        match number {
            4 => http("500 Internal Server Error", 2, "no"),
            5 => http("200 OK", whole.len() + 50, &whole),
            6 => ok("<html><body>a 1</body></html>\n"),
            7 => ok(&whole
                .replace("g 1", "g NaN")
                .replace("a_total", "?? bad\na_total")),
            8 => ok(&whole[..whole.len() - 3]),
            // More than the cap, and no end.
            9 => http("200 OK", 200 << 20, &"# endless\n".repeat(1_800_000)),
            _ => ok(&whole),
        }
    });
    let told = run(
        &mock,
        &[
            "--benchmark-duration",
            "7",
            "--request-rate",
            "5",
            "--server-metrics",
            &url,
            "--server-metrics-formats",
            "json,jsonl",
        ],
    );
    let info = told.info(&url);
    let count = |key: &str| info[key].as_u64().unwrap();
    assert_eq!(info["first_failure"], "the server answered 500", "{info}");
    assert_eq!(
        (count("invalid_values"), count("bad_lines")),
        (1, 1),
        "{info}"
    );
    assert!(count("failed_fetches") >= 4, "{info}");
    assert_eq!(count("counter_resets"), 0, "{info}");
    let of = |scrape: &Value| scrape["metrics"]["a"][0]["value"].as_f64().unwrap();
    assert_eq!(told.sum(&url, "a", "total"), growth(&told, &url, of));
    for text in [
        "gave no page; first: the server answered 500",
        "1 values that are no numbers",
    ] {
        let flat = told.screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(text), "{}", told.screen);
    }
}

#[test]
fn a_restarted_server_loses_no_counts() {
    let mock = slow();
    let url = pages(|number| {
        let value = match number {
            0..3 => 1_000 + number,
            _ => 5 + number.min(5),
        };
        ok(&format!("# TYPE a counter\na_total {value}\n"))
    });
    let told = run(
        &mock,
        &[
            "--benchmark-duration",
            "3",
            "--request-rate",
            "5",
            "--server-metrics",
            &url,
            "--server-metrics-formats",
            "json,jsonl",
        ],
    );
    let of = |scrape: &Value| scrape["metrics"]["a"][0]["value"].as_f64().unwrap();
    let grown = growth(&told, &url, of);
    assert!((10.0..=12.0).contains(&grown), "{grown}");
    assert_eq!(told.sum(&url, "a", "total"), grown);
    assert_eq!(told.info(&url)["counter_resets"], 1);
    assert!(
        told.screen.contains("counters fell on 1 reads"),
        "{}",
        told.screen
    );
}

#[test]
fn a_page_that_is_asked_for_must_be_there_before_anything_is_sent() {
    let mock = slow();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/metrics", listener.local_addr().unwrap())
    };
    let no = |bytes: Vec<u8>| pages(move |_| bytes.clone());
    let cases = [
        (closed, "refused"),
        (
            format!("http://{}/nothing", mock.url),
            "the server answered 404",
        ),
        (no(ok("<html>a 1</html>\n")), "an HTML page"),
        (
            no(ok("{\"iteration\": 1}\n")),
            "no line of it is a metric (line 1: ",
        ),
        (no(ok("a 1\nb 2")), "its last line has no end"),
        (
            no(http("200 OK", 200 << 20, &"# endless\n".repeat(1_800_000))),
            "more than 16777216 bytes",
        ),
        (no(ok("")), "it has no metric"),
    ];
    for (url, reason) in cases {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--no-preflight", "--server-metrics", &url];
        let output = command(&mock, dir.path(), &flags).output().unwrap();
        ran::code(&output, 3);
        let told = ran::text(&output.stderr);
        assert!(
            told.contains(&format!("--server-metrics {url}: ")),
            "{told}"
        );
        assert!(told.contains(reason), "{told}");
    }
    assert_eq!(mock.stat("requests"), 0);
}

#[test]
fn a_target_without_a_page_is_no_matter() {
    let answer = format!(
        "{}data: {}\n\ndata: [DONE]\n\n",
        support::STREAM,
        support::ev("a")
    );
    // It never answers a GET.
    let target = support::serve(move |_| vec![support::send(&answer), support::Act::Close]);
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(cargo_bin("tokenring"))
        .args([
            "profile",
            "-m",
            "m",
            "-u",
            &target.to_string(),
            "--streaming",
            "--no-preflight",
        ])
        .args([
            "--tokenizer",
            "builtin",
            "--isl",
            "8",
            "--cores",
            "1",
            "--request-count",
            "3",
        ])
        .args([
            "--no-gpu-telemetry",
            "--allow-invalid",
            "--ui",
            "none",
            "--artifact-dir",
        ])
        .arg(dir.path())
        .output()
        .unwrap();
    ran::code(&output, 0);
    assert!(!dir.path().join("server_metrics_export.json").exists());
    let told = ran::text(&output.stdout) + &ran::text(&output.stderr);
    assert!(
        !told.contains("/metrics") && !told.contains("Server |"),
        "{told}"
    );
}
