//! Sweeps, repeats, searches and checkpoints, by the built binary.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

mod mock;
mod ran;
use mock::Mock;
use ran::{code, fits, text};

const FAST: &[&str] = &["--ttft-ms", "2", "--itl-ms", "1"];

/// `analyze` or `profile` of short prompts and answers on one core, in a folder of its own.
fn command(verb: &str, url: &str, dir: &Path, flags: &[&str]) -> Command {
    let given = |flag: &str| flags.contains(&flag);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
    command
        .args([
            verb,
            "-m",
            "m",
            "-u",
            url,
            "--streaming",
            "--tokenizer",
            "builtin",
        ])
        .args([
            "--no-gpu-telemetry",
            "--allow-invalid",
            "--ui",
            "none",
            "--cores",
            "1",
        ])
        .args(["--artifact-dir", "out"])
        .args(flags)
        .current_dir(dir)
        .env_remove("OPENAI_API_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for (flag, value) in [("--isl", "8"), ("--osl", "4"), ("--request-count", "8")] {
        if !given(flag) && !flags.contains(&"input_sequence_length") {
            command.args([flag, value]);
        }
    }
    command
}

fn run(verb: &str, url: &str, dir: &Path, flags: &[&str], expected: i32) -> Output {
    let output = command(verb, url, dir, flags).output().unwrap();
    code(&output, expected);
    output
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Names in a folder, those of runs that were moved aside left out.
fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn analyze_writes_a_folder_for_each_point_and_genai_perf_s_table() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--sweep-type",
        "concurrency",
        "--sweep-range",
        "1:4",
        "--price-per-hour",
        "3.6",
    ];
    let output = run("analyze", &mock.url, dir.path(), &flags, 0);
    let out = dir.path().join("out");
    let mut expected: Vec<String> = [1, 2, 4]
        .map(|n| format!("m-openai-chat-concurrency{n}"))
        .to_vec();
    expected.insert(0, "analyze_export_genai_perf.csv".into());
    expected.push("sweep_aggregate".into());
    assert_eq!(
        names(&out),
        expected,
        "and no checkpoint after a complete report"
    );
    for n in [1, 2, 4] {
        let run = json(&out.join(format!(
            "m-openai-chat-concurrency{n}/profile_export_aiperf.json"
        )));
        assert_eq!(run["client"]["concurrency_asked"], n, "{}", run["client"]);
        assert_eq!(run["request_count"]["avg"], 8.0);
    }
    let csv = std::fs::read_to_string(out.join("analyze_export_genai_perf.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    let golden = "Config Name,Concurrency,ISL,Num Dataset Entries,p99 Time To First Token (ms),p99 \
                  Inter Token Latency (ms),p99 Request Latency (ms),p99 Output Sequence Length \
                  (tokens),Avg. Output Token Throughput (tokens/sec),Request Throughput \
                  (requests/sec)";
    assert_eq!(lines[0], golden);
    assert_eq!(lines.len(), 4);
    let rates: Vec<f64> = lines[1..]
        .iter()
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(rates.is_sorted_by(|a, b| a >= b), "best first: {rates:?}");
    assert!(
        lines[1..]
            .iter()
            .any(|line| line.starts_with("m_run_config_0,1,8,,")),
        "{csv}"
    );
    let screen = text(&output.stdout);
    for told in ["last within SLO", "knee not reached", "price/1M"] {
        assert!(screen.contains(told), "{told}: {screen}");
    }
    let sweep = json(&out.join("sweep_aggregate/profile_export_aiperf_sweep.json"));
    assert_eq!(
        sweep["metadata"]["sweep_parameters"][0]["name"],
        "concurrency"
    );
    let price = &sweep["client"]["points"][0]["price_per_million_output_tokens"];
    let first = &sweep["per_combination_metrics"][0]["metrics"];
    let rate = first["output_token_throughput_avg"]["mean"]
        .as_f64()
        .unwrap();
    assert!((price.as_f64().unwrap() - 1e3 / rate).abs() < 1e-6 * 1e3 / rate);
}

#[test]
fn every_value_of_a_sweep_is_applied() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    for (name, key, values) in [
        (
            "input_sequence_length",
            "input_sequence_length",
            ["16", "33"],
        ),
        (
            "output_sequence_length",
            "output_sequence_length",
            ["3", "5"],
        ),
    ] {
        let list = values.join(",");
        let mut flags = vec![
            "--sweep-type",
            name,
            "--sweep-list",
            &list,
            "--request-count",
            "4",
        ];
        match name {
            "input_sequence_length" => flags.extend(["--osl", "4"]),
            _ => flags.extend(["--isl", "8"]),
        }
        let mut command = command("analyze", &mock.url, dir.path(), &[]);
        let args: Vec<String> = command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        let end = args.iter().position(|arg| arg == "--isl").unwrap();
        let mut again = Command::new(command.get_program());
        again
            .args(&args[..end])
            .args(&flags)
            .current_dir(dir.path());
        command = again;
        let output = command.output().unwrap();
        code(&output, 0);
        for value in values {
            let folder = dir.path().join(format!("out/m-openai-chat-{name}{value}"));
            let run = json(&folder.join("profile_export_aiperf.json"));
            let found = run[key]["avg"].as_f64().unwrap();
            assert_eq!(found.to_string(), value, "{name}");
        }
    }
    let flags = ["--sweep-type", "request_rate", "--sweep-list", "50,100"];
    run("analyze", &mock.url, dir.path(), &flags, 0);
    let csv = dir.path().join("out/analyze_export_genai_perf.csv");
    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("Config Name,Request Rate,"), "{csv}");
    let rate = |value: &str| {
        csv.lines()
            .any(|line| line.split(',').nth(1) == Some(value))
    };
    assert!(rate("50") && rate("100"), "{csv}");
    let moved = names(&dir.path().join("out"));
    let kept = moved
        .iter()
        .filter(|name| name.starts_with("analyze_export_genai_perf.csv."))
        .count();
    assert_eq!(kept, 2, "earlier tables are moved aside: {moved:?}");
}

#[test]
fn lists_of_profile_make_grids_and_pairs_with_aiperf_s_files() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--concurrency",
        "1,2",
        "--isl",
        "8,16",
        "--num-profile-runs",
        "2",
    ];
    let output = run("profile", &mock.url, dir.path(), &flags, 0);
    let out = dir.path().join("out");
    let runs = names(&out.join("profile_runs"));
    assert_eq!(runs, ["trial_0001", "trial_0002"]);
    let points = names(&out.join("profile_runs/trial_0002"));
    let labels = [
        "isl_16__concurrency_1",
        "isl_16__concurrency_2",
        "isl_8__concurrency_1",
        "isl_8__concurrency_2",
    ];
    assert_eq!(points, labels);
    let aggregate = out.join("aggregate");
    let one = json(
        &aggregate
            .join(labels[1])
            .join("profile_export_aiperf_aggregate.json"),
    );
    assert_eq!(one["metadata"]["num_successful_runs"], 2);
    assert_eq!(one["metadata"]["quotable"], false);
    assert_eq!(one["metadata"]["variation_values"]["isl"], 16);
    let isl = &one["metrics"]["input_sequence_length_avg"];
    assert_eq!(
        (&isl["mean"], &isl["unit"]),
        (&16.0.into(), &"tokens".into())
    );
    let t = one["metrics"]["time_to_first_token_p99"]["t_critical"]
        .as_f64()
        .unwrap();
    assert!((t - 12.7062).abs() < 1e-4, "{t}");
    assert!(text(&output.stdout).contains("NOT TO BE QUOTED"));
    let csv = aggregate
        .join(labels[0])
        .join("profile_export_aiperf_aggregate.csv");
    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("metric,mean,std,min,max,cv,se,ci_low,ci_high,t_critical,unit\r\n"));
    let sweep = json(&aggregate.join("sweep_aggregate/profile_export_aiperf_sweep.json"));
    assert_eq!(sweep["metadata"]["num_combinations"], 4);
    assert_eq!(sweep["num_profile_runs"], 8);
    assert_eq!(sweep["client"]["knees"].as_array().unwrap().len(), 2);
    // Every run has prompts of its own: no cache is warm for it.
    let mut seeds: Vec<u64> = sweep["client"]["points"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|point| point["seeds"].as_array().unwrap().clone())
        .map(|seed| seed.as_u64().unwrap())
        .collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 8);

    let flags = [
        "--concurrency",
        "1,2",
        "--isl",
        "8,16",
        "--sweep-type",
        "zip",
    ];
    run("profile", &mock.url, dir.path(), &flags, 0);
    let all = names(&out);
    assert!(all.contains(&"isl_8__concurrency_1".into()), "{all:?}");
    assert!(all.contains(&"isl_16__concurrency_2".into()), "{all:?}");
    assert!(!all.contains(&"isl_16__concurrency_1".into()), "{all:?}");
}

#[test]
fn a_table_of_runs_that_differ_has_the_columns_of_all() {
    // EX-1: runs without a stream have no ITL; every line has as many fields.
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--variant",
        "a: streaming=false",
        "--variant",
        "b: streaming=true, osl=6",
    ];
    run("profile", &mock.url, dir.path(), &flags, 0);
    let csv = dir
        .path()
        .join("out/aggregate/sweep_aggregate/profile_export_aiperf_sweep.csv");
    let mut csv = csv::ReaderBuilder::new().from_path(csv).unwrap();
    let header = csv.headers().unwrap().clone();
    let at = header
        .iter()
        .position(|name| name == "inter_token_latency_p99")
        .unwrap();
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    assert_eq!((&rows[0][0], &rows[1][0]), ("a", "b"));
    assert_eq!(&rows[0][at], "", "no stream, no ITL");
    assert!(rows[1][at].parse::<f64>().unwrap() > 0.0);
}

/// Waits until a file holds so many lines.
fn await_lines(path: &Path, count: usize) {
    let began = Instant::now();
    while std::fs::read_to_string(path).map_or(0, |text| text.lines().count()) < count {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{}",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn labels(path: &Path) -> Vec<String> {
    let checkpoint = json(path);
    let runs = checkpoint["runs"].as_array().unwrap().clone();
    runs.iter()
        .map(|run| run["label"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn a_sweep_that_was_stopped_goes_on_where_it_ended() {
    // RS-1: what is over is kept, whatever the signal finds in flight; only the rest is run.
    let mock = Mock::start(&["--ttft-ms", "150", "--itl-ms", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--concurrency",
        "1,2,3,4",
        "--request-count",
        "4",
        "--random-seed",
        "5",
    ];
    let checkpoint = dir.path().join("out/checkpoint.json");
    let child = command("profile", &mock.url, dir.path(), &flags)
        .spawn()
        .unwrap();
    // The head and two runs.
    await_lines(&checkpoint, 4);
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    code(&output, 130);
    let told = text(&output.stderr);
    assert!(told.contains("--resume goes on from here"), "{told}");
    assert!(text(&output.stdout).contains("INCOMPLETE"));
    let before = labels(&checkpoint);
    assert!((2..4).contains(&before.len()), "{before:?}");

    // Another configuration is refused by its name, and nothing is sent.
    let sent = mock.stat("requests");
    let other = [&flags[..], &["--resume", "--osl", "9"]].concat();
    let output = run("profile", &mock.url, dir.path(), &other, 2);
    assert!(
        text(&output.stderr).contains("osl: 4 then, 9 now"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(mock.stat("requests"), sent);

    let again = [&flags[..], &["--resume"]].concat();
    let output = run("profile", &mock.url, dir.path(), &again, 0);
    let told = text(&output.stderr);
    assert!(
        told.contains(&format!("{} runs are taken from", before.len())),
        "{told}"
    );
    let new = 4 * (4 - before.len() as u64);
    // One probe, and the requests of the points that were missing.
    assert!(mock.stat("requests") - sent <= new + 1, "{told}");
    assert!(!checkpoint.exists(), "all is reported");
    let sweep = dir
        .path()
        .join("out/aggregate/sweep_aggregate/profile_export_aiperf_sweep.json");
    let sweep = json(&sweep);
    assert_eq!(sweep["num_successful_runs"], 4);
    assert_eq!(sweep["metadata"]["is_complete"], true);
}

#[test]
fn a_server_that_is_lost_ends_the_sweep_and_another_takes_over() {
    // One probe and the requests of the first two points.
    let mock = Mock::start(&["--ttft-ms", "2", "--itl-ms", "1", "--requests", "17"]);
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--sweep-type", "concurrency", "--sweep-list", "1,2,4"];
    let output = command("analyze", &mock.url, dir.path(), &flags)
        .output()
        .unwrap();
    assert!(
        [3, 6].contains(&output.status.code().unwrap()),
        "{}",
        text(&output.stderr)
    );
    let checkpoint = dir.path().join("out/checkpoint.json");
    assert_eq!(labels(&checkpoint), ["concurrency_1", "concurrency_2"]);
    assert!(
        dir.path()
            .join("out/analyze_export_genai_perf.csv")
            .exists()
    );
    let address = mock.url.clone();
    drop(mock);
    let port = address.rsplit(':').next().unwrap().to_string();
    let mut second = Command::new(assert_cmd::cargo::cargo_bin("tokenring"))
        .args([
            "mock",
            "--port",
            &port,
            "--seconds",
            "60",
            "--exit-with-stdin",
        ])
        .args(FAST)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() && began.elapsed().as_secs() < 20 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let again = [&flags[..], &["--resume"]].concat();
    let output = command("analyze", &address, dir.path(), &again)
        .output()
        .unwrap();
    let _ = second.kill();
    let _ = second.wait();
    code(&output, 0);
    assert!(!checkpoint.exists());
    let csv =
        std::fs::read_to_string(dir.path().join("out/analyze_export_genai_perf.csv")).unwrap();
    assert_eq!(csv.lines().count(), 4, "{csv}");
}

#[test]
fn a_kept_checkpoint_saves_the_points_that_are_in_it() {
    // As GenAI-Perf: 1 to 2, then 1 to 4 makes one new run.
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let of = |range| {
        let flags = ["--sweep-type", "concurrency", "--sweep-range", range];
        [
            &flags[..],
            &[
                "--enable-checkpointing",
                "--checkpoint-dir",
                "kept",
                "--random-seed",
                "3",
            ],
        ]
        .concat()
    };
    run("analyze", &mock.url, dir.path(), &of("1:2"), 0);
    let before = mock.stat("requests");
    run("analyze", &mock.url, dir.path(), &of("1:4"), 0);
    assert_eq!(
        mock.stat("requests") - before,
        8 + 1,
        "one point and a probe"
    );
    assert_eq!(labels(&dir.path().join("kept/checkpoint.json")).len(), 3);
}

#[test]
fn a_search_finds_the_cliff_of_the_mock() {
    let law = [
        "--ttft-ms",
        "4",
        "--itl-ms",
        "1",
        "--cliff-at",
        "12",
        "--cliff-factor",
        "40",
    ];
    let mock = Mock::start(&law);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--search",
        "concurrency:1:64",
        "--search-sla",
        "p50(ttft)<60ms",
        "--request-count",
        "60",
        "--osl",
        "2",
    ];
    let output = run("profile", &mock.url, dir.path(), &flags, 0);
    let out = dir.path().join("out");
    let history = json(&out.join("search_history.json"));
    let largest = history["boundary_summary"]["feasible_max"]["value"]
        .as_f64()
        .unwrap();
    assert!(
        (10.0..=14.0).contains(&largest),
        "{largest}: {}",
        text(&output.stdout)
    );
    assert!(
        out.join("search_iter_0000/profile_runs/run_0001/profile_export_aiperf.json")
            .exists()
    );
    assert!(!out.join("checkpoint.json").exists());
    fits(
        &history,
        include_str!("../schema/search_history.schema.json"),
    );
}

#[test]
fn until_saturated_goes_on_until_the_knee() {
    // Four at a time: beyond, more load only waits.
    let mock = Mock::start(&[
        "--ttft-ms",
        "20",
        "--itl-ms",
        "1",
        "--concurrency-limit",
        "4",
    ]);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--concurrency",
        "1,2",
        "--until-saturated",
        "--request-count",
        "120",
        "--osl",
        "2",
    ];
    let output = command("profile", &mock.url, dir.path(), &flags)
        .output()
        .unwrap();
    code(&output, 0);
    let sweep = dir
        .path()
        .join("out/aggregate/sweep_aggregate/profile_export_aiperf_sweep.json");
    let sweep = json(&sweep);
    let knee = &sweep["client"]["knees"][0];
    assert_eq!(knee["is_reached"], true, "{}", text(&output.stdout));
    let at = knee["saturated_at"].as_f64().unwrap();
    assert!((2.0..=8.0).contains(&at), "{knee}");
    // Four at a time, some 21 ms each: 190 a second, on a quiet machine.
    let most = sweep["client"]["capacity"]["estimated_capacity"]
        .as_f64()
        .unwrap();
    assert!(
        (60.0..=200.0).contains(&most),
        "{}",
        sweep["client"]["capacity"]
    );
}

#[test]
fn what_cannot_be_swept_is_named_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    // Nobody listens there: each is refused before that is found out.
    let url = "127.0.0.1:9";
    for (verb, flags, told) in [
        (
            "analyze",
            &["--sweep-type", "concurrency", "--sweep-range", "1:0"][..],
            "--sweep-range: `1:0`: it ends before",
        ),
        (
            "analyze",
            &["--sweep-type", "concurrency", "--sweep-range", "0:4"],
            "--sweep-range: `0:4`: 0 is not",
        ),
        (
            "analyze",
            &["--sweep-type", "concurrency", "--sweep-range", "a:b"],
            "two or three whole numbers",
        ),
        (
            "analyze",
            &["--sweep-type", "concurrency", "--sweep-range", "5:7"],
            "no power of two lies in it",
        ),
        (
            "analyze",
            &["--sweep-type", "concurrency", "--sweep-list", ""],
            "--sweep-list: the list is empty",
        ),
        (
            "analyze",
            &["--sweep-type", "concurrency", "--sweep-list", "2,2,2"],
            "--sweep-list: 2 is there twice",
        ),
        (
            "analyze",
            &["--sweep-type", "concurrency", "--sweep-list", "1,x"],
            "--sweep-list: `x`",
        ),
        (
            "analyze",
            &["--sweep-type", "nothing"],
            "--sweep-type: `nothing`",
        ),
        (
            "analyze",
            &["--sweep-list", "1,2"],
            "--sweep-list: it needs --sweep-type",
        ),
        ("analyze", &[], "analyze: nothing varies"),
        (
            "profile",
            &["--concurrency", "2,2"],
            "--concurrency: 2 is there twice",
        ),
        (
            "profile",
            &["--concurrency", "1,,2"],
            "the list has an empty place",
        ),
        ("profile", &["--concurrency", "0,2"], "--concurrency: 0"),
        (
            "profile",
            &[
                "--concurrency",
                "1,2",
                "--osl",
                "1,2,3",
                "--sweep-type",
                "zip",
            ],
            "all lists have as many",
        ),
        (
            "profile",
            &["--concurrency", "1,2", "--slo", "p99(tftt)<5"],
            "time_to_first_token",
        ),
        ("profile", &["--resume"], "--resume: it is for many runs"),
        (
            "profile",
            &["--concurrency", "1,2", "--isl", "8,9", "--until-saturated"],
            "--until-saturated: it goes with one list",
        ),
        (
            "profile",
            &["--dry-run", "--concurrency", "1,2", "--slo", "garbage"],
            "--slo: ",
        ),
        (
            "profile",
            &[
                "--dry-run",
                "--search",
                "concurrency:1:4",
                "--search-sla",
                "nope<1",
            ],
            "--search-sla: ",
        ),
        (
            "profile",
            &[
                "--search",
                "concurrency:1:4",
                "--ttft-sla-ms",
                "5",
                "--search-metric",
                "nope",
            ],
            "--search-metric",
        ),
        (
            "profile",
            &["--variant", "a: dry_run=true"],
            "dry_run is the whole command's",
        ),
        (
            "profile",
            &["--variant", "aggregate: isl=5"],
            "no folder of ours",
        ),
        (
            "profile",
            &["--concurrency", "1,2", "--checkpoint-dir", "/dev/null"],
            "--checkpoint-dir /dev/null",
        ),
        (
            "profile",
            &["--num-profile-runs", "0"],
            "--num-profile-runs: 0",
        ),
        (
            "profile",
            &["--num-profile-runs", "3", "--convergence-metric", "nope"],
            "--convergence-metric",
        ),
        (
            "profile",
            &["--variant", "a: concurency=2"],
            "concurency: no such setting",
        ),
        (
            "profile",
            &[
                "--search",
                "concurrency",
                "--concurrency",
                "3",
                "--ttft-sla-ms",
                "9",
            ],
            "--concurrency: --search gives",
        ),
    ] {
        let output = run(verb, url, dir.path(), flags, 2);
        let stderr = text(&output.stderr);
        assert!(stderr.contains(told), "{flags:?}: {stderr}");
        assert!(
            stderr
                .lines()
                .filter(|line| line.starts_with("error:"))
                .count()
                == 1,
            "{stderr}"
        );
    }
    assert!(!dir.path().join("out").exists(), "nothing is left");
}

#[test]
fn a_file_holds_the_same_lists_as_the_flags() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("sweep.yaml");
    std::fs::write(
        &file,
        "concurrency: [1, 2]\nnum_profile_runs: 1\nslo: ['p99(ttft)<1s']\n",
    )
    .unwrap();
    run(
        "profile",
        &mock.url,
        dir.path(),
        &["--config", "sweep.yaml"],
        0,
    );
    let all = names(&dir.path().join("out"));
    assert_eq!(all, ["aggregate", "concurrency_1", "concurrency_2"]);
}

#[test]
fn two_servers_take_turns_and_are_compared() {
    let slow = Mock::start(&["--ttft-ms", "40", "--itl-ms", "1"]);
    let fast = Mock::start(&["--ttft-ms", "10", "--itl-ms", "1"]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
    command
        .args([
            "compare",
            "--interleave=2",
            &fast.url,
            &slow.url,
            "--json",
            "out.json",
        ])
        .args([
            "--fail-if",
            "p50(ttft)>+50%",
            "--",
            "-m",
            "m",
            "--streaming",
            "--isl",
            "8",
        ])
        .args([
            "--osl",
            "2",
            "--request-count",
            "60",
            "--tokenizer",
            "builtin",
            "--cores",
            "1",
        ])
        .args([
            "--no-gpu-telemetry",
            "--allow-invalid",
            "--ui",
            "none",
            "--artifact-dir",
            "out",
        ])
        .current_dir(dir.path())
        .env_remove("OPENAI_API_KEY");
    let output = command.output().unwrap();
    code(&output, 4);
    let found = json(&dir.path().join("out.json"));
    let text = text(&output.stdout);
    assert!(text.contains("worse"), "{text}");
    assert!(text.contains("(2 runs)"), "{text}");
    let trials = names(&dir.path().join("out/profile_runs"));
    assert_eq!(trials, ["trial_0001", "trial_0002"]);
    // The same prompts for both in each round, others in the next.
    let seed = |trial: u32, side: u32| {
        let folder = format!("out/profile_runs/trial_000{trial}/side_{side}");
        json(&dir.path().join(folder).join("profile_export_aiperf.json"))["run_info"]["random_seed"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(seed(1, 1), seed(1, 2));
    assert_eq!(seed(2, 1), seed(2, 2));
    assert_ne!(seed(1, 1), seed(2, 1));
    assert!(!found.is_null());
}

#[test]
fn a_resumed_report_is_that_of_a_sweep_without_a_break() {
    // RS-3: what the checkpoint gives back is what was put in, to the last digit.
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--concurrency",
        "1,2",
        "--enable-checkpointing",
        "--random-seed",
        "1",
        "--price-per-hour",
        "2",
    ];
    run("profile", &mock.url, dir.path(), &flags, 0);
    let read = |name: &str| {
        let path = dir.path().join("out/aggregate/sweep_aggregate").join(name);
        std::fs::read(path).unwrap()
    };
    let files = [
        "profile_export_aiperf_sweep.json",
        "profile_export_aiperf_sweep.csv",
    ];
    let before = files.map(read);
    let sent = mock.stat("requests");
    run("profile", &mock.url, dir.path(), &flags, 0);
    assert_eq!(mock.stat("requests"), sent, "all is in the checkpoint");
    assert!(files.map(read) == before, "a digit has changed");
}

#[test]
fn conditions_are_judged_on_what_a_checkpoint_gives_back_too() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let kept = [
        "--concurrency",
        "1,2",
        "--enable-checkpointing",
        "--random-seed",
        "2",
    ];
    run("profile", &mock.url, dir.path(), &kept, 0);
    let sent = mock.stat("requests");
    let strict = [&kept[..], &["--assert", "ttft<1us"]].concat();
    let output = run("profile", &mock.url, dir.path(), &strict, 4);
    assert_eq!(mock.stat("requests"), sent);
    let screen = text(&output.stdout);
    assert!(
        screen.contains("assertion failed: concurrency_2"),
        "{screen}"
    );
}

/// All files below a folder.
fn files(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let (folders, mut found): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    found.extend(folders.iter().flat_map(|folder| files(folder)));
    found
}

#[test]
fn no_secret_of_a_sweep_is_in_any_of_its_files() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let with_key = format!("b: url=http://{}/v1?key=SEKRIT-2, concurrency=2", mock.url);
    let flags = [
        "-H",
        "X-Tok: SEKRIT-1",
        "--variant",
        "a: api_key=SEKRIT-3, concurrency=1",
        "--variant",
        &with_key,
        "--enable-checkpointing",
    ];
    let output = run("profile", &mock.url, dir.path(), &flags, 0);
    let mut all = vec![text(&output.stdout), text(&output.stderr)];
    for file in files(&dir.path().join("out")) {
        all.push(String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned());
    }
    assert!(all.len() > 15, "{}", all.len());
    for text in all {
        let at = text.find("SEKRIT");
        let near = at.map(|at| &text[at.saturating_sub(80)..(at + 20).min(text.len())]);
        assert_eq!(near, None);
    }
}

#[test]
fn what_is_no_file_in_a_checkpoint_s_place_is_not_waited_for() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("kept");
    std::fs::create_dir(&folder).unwrap();
    let made = Command::new("mkfifo")
        .arg(folder.join("checkpoint.json"))
        .status()
        .unwrap();
    assert!(made.success());
    let flags = [
        "--concurrency",
        "1,2",
        "--checkpoint-dir",
        "kept",
        "--resume",
    ];
    let output = run("profile", &mock.url, dir.path(), &flags, 2);
    assert!(
        text(&output.stderr).contains("no regular file"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn pairs_may_share_a_length() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
    command
        .args([
            "profile",
            "-m",
            "m",
            "-u",
            &mock.url,
            "--streaming",
            "--tokenizer",
            "builtin",
        ])
        .args([
            "--search-recipe",
            "pareto-sweep",
            "--isl-osl-pairs",
            "16/4,16/8",
            "--dry-run",
        ])
        .current_dir(dir.path());
    let output = command.output().unwrap();
    code(&output, 0);
    let told = text(&output.stderr);
    assert!(
        told.contains("10 runs") && told.contains("isl_16__osl_8__concurrency_256"),
        "{told}"
    );
}

#[test]
fn a_report_that_cannot_be_written_keeps_the_checkpoint() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("aggregate"), "in the way").unwrap();
    let flags = ["--concurrency", "1,2", "--random-seed", "4"];
    run("profile", &mock.url, dir.path(), &flags, 6);
    assert_eq!(labels(&out.join("checkpoint.json")).len(), 2);
    let sent = mock.stat("requests");
    std::fs::remove_file(out.join("aggregate")).unwrap();
    let again = [&flags[..], &["--resume"]].concat();
    run("profile", &mock.url, dir.path(), &again, 0);
    assert_eq!(mock.stat("requests"), sent, "nothing is run again");
    assert!(!out.join("checkpoint.json").exists());
}

#[test]
fn a_key_in_a_url_of_an_interleaved_comparison_is_shown_nowhere() {
    let mock = Mock::start(FAST);
    let dir = tempfile::tempdir().unwrap();
    let with_key = format!("http://{}/v1?key=SEKRIT-4", mock.url);
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
    command
        .args([
            "compare",
            "--interleave=1",
            &with_key,
            &mock.url,
            "--json",
            "out.json",
            "--",
        ])
        .args([
            "-m",
            "m",
            "--streaming",
            "--isl",
            "8",
            "--osl",
            "2",
            "--request-count",
            "4",
        ])
        .args([
            "--tokenizer",
            "builtin",
            "--cores",
            "1",
            "--no-gpu-telemetry",
            "--ui",
            "none",
        ])
        .args(["--allow-invalid", "--artifact-dir", "out"])
        .current_dir(dir.path())
        .env_remove("OPENAI_API_KEY");
    let output = command.output().unwrap();
    code(&output, 0);
    let mut all = vec![text(&output.stdout), text(&output.stderr)];
    for file in files(dir.path()) {
        all.push(String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned());
    }
    for text in all {
        assert!(!text.contains("SEKRIT"), "{text:.2000}");
    }
}
