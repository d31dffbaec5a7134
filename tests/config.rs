//! Files of settings: ours, AIPerf's and GenAI-Perf's, and the commands that write, check and show
//! them.

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

mod mock;
mod ran;
use mock::Mock;
use ran::{code, text};

fn tokenring(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("tokenring"));
    command
        .current_dir(dir)
        .env_remove("OPENAI_API_KEY")
        .env_remove("UNSET");
    command
        .env("HF_HOME", dir)
        .env("HF_HUB_OFFLINE", "1")
        .env("SET", "7");
    command.env("SECRET_KEY", "K9-very-secret-1234567890");
    command.args(args).output().unwrap()
}

/// The settings of a file, and what was said of it.
fn show(content: &str) -> Result<(Value, String), String> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.yaml"), content).unwrap();
    let output = tokenring(dir.path(), &["config", "show", "a.yaml"]);
    let told = text(&output.stderr);
    if !output.status.success() {
        code(&output, 2);
        assert_eq!(told.lines().count(), 1, "{told}");
        return Err(told);
    }
    Ok((serde_saphyr::from_str(&text(&output.stdout)).unwrap(), told))
}

fn settings(content: &str) -> Value {
    show(content).unwrap().0
}

#[test]
fn a_file_of_aiperf_s_becomes_flags() {
    let shown = settings(
        r#"
schemaVersion: "2.0"
randomSeed: ${SET}
benchmark:
  model: org/m
  endpoint:
    urls: ["http://h:8000", "http://i:8000"]
    type: chat
    streaming: true
    timeout: 5m
    transport: http
    apiKey: ${SECRET_KEY}
    headers: {X-Trace: on}
    extra: {temperature: 0, nested: {a: 1}}
    connectionReuse: sticky-user-sessions
    waitForModelTimeout: 0
  dataset:
    type: synthetic
    entries: "${UNSET:50}"
    prompts: {isl: {mean: 512, stddev: 50}, osl: 128, batchSize: 1}
    turns: {mean: 5, stddev: 2}
    turnDelay: 2000
  warmup: {type: concurrency, requests: 10, concurrency: 4}
  profiling: {type: concurrency, concurrency: 16, duration: 2m, gracePeriod: 30s,
    cancellation: {rate: 10, delay: 0.5}}
  slos: {request_latency: 5000, time_to_first_token: 500.5}
  artifacts: {dir: out/x, summary: [json], records: [jsonl], raw: true, sliceDuration: 30s}
  gpuTelemetry: {enabled: true, collector: pynvml}
  serverMetrics: {enabled: false}
  runtime: {ui: simple, workers: 3, recordProcessors: 2}
  otel: {}
"#,
    );
    let expected = json!({
        "random-seed": 7, "model": "org/m", "url": ["http://h:8000", "http://i:8000"],
        "endpoint-type": "chat", "streaming": true, "request-timeout-seconds": 300.0,
        "api-key": "<redacted>", "header": {"X-Trace": "<redacted>"},
        "extra-inputs": {"temperature": 0, "nested": {"a": 1}},
        "connection-reuse-strategy": "sticky-user-sessions", "num-dataset-entries": 50,
        "isl": 512, "isl-stddev": 50, "osl": 128, "session-turns-mean": 5,
        "session-turns-stddev": 2, "session-turn-delay-mean": 2000,
        "warmup-request-count": 10, "warmup-concurrency": 4, "concurrency": 16,
        "benchmark-duration": 120.0, "benchmark-grace-period": 30.0,
        "request-cancellation-rate": 10, "request-cancellation-delay": 0.5,
        "goodput": ["request_latency:5000", "time_to_first_token:500.5"],
        "artifact-dir": "out/x", "export-level": "raw", "slice-duration": 30.0,
        "gpu-telemetry": ["pynvml"], "no-server-metrics": true, "ui": "simple", "workers-max": 3,
    });
    assert_eq!(shown, expected);
}

#[test]
fn phases_of_aiperf_s_become_flags_only_where_a_warm_up_takes_nothing_over() {
    let base = "endpoint: {url: h:1}\nmodels: [m]\n";
    let closed = settings(&format!(
        "{base}phases:\n- {{name: warmup, requests: 5}}\n- {{name: a, requests: 9, concurrency: 4}}"
    ));
    assert_eq!(
        closed,
        json!({"url": "h:1", "model": ["m"], "warmup-request-count": 5, "warmup-concurrency": 1,
            "request-count": 9, "concurrency": 4})
    );
    let open = settings(&format!(
        "{base}warmup: {{type: concurrency, requests: 5, concurrency: 2}}\n\
         profiling: {{type: gamma, smoothness: 1.5, rate: 50, duration: 10, \
         rateRamp: {{duration: 5, strategy: exponential}}}}"
    ));
    assert_eq!(
        open,
        json!({"url": "h:1", "model": ["m"], "phases": [
            {"name": "warmup", "kind": "warmup", "request_count": 5, "concurrency": 2},
            {"name": "profiling", "kind": "profiling", "arrival_pattern": "gamma",
             "arrival_smoothness": 1.5, "request_rate": 50, "benchmark_duration": 10.0,
             "ramp_shape": "exponential", "request_rate_ramp_duration": 5.0},
        ]})
    );
    let users = settings(&format!(
        "{base}phases: {{type: user_centric, rate: 2, users: 4, sessions: 8}}\n\
         dataset: {{turns: 3}}"
    ));
    assert_eq!(users["user-centric-rate"], 2);
    assert_eq!(users["num-users"], 4);
}

#[test]
fn sweeps_and_searches_of_aiperf_s_become_ours() {
    let base = "benchmark:\n  model: m\n  endpoint: {url: h:1}\n  profiling: {concurrency: 2, \
                requests: 4}\n  dataset: {isl: 9}\n";
    let grid = settings(&format!(
        "{base}sweep: {{type: zip, sameSeed: true, parameters: \
         {{phases.profiling.concurrency: [1, 2], datasets.default.prompts.isl: [8, 16]}}}}\n\
         multiRun: {{numRuns: 3, cooldownSeconds: 1.5, confidenceLevel: 0.9}}"
    ));
    assert_eq!(
        (&grid["sweep-type"], &grid["isl"]),
        (&json!("zip"), &json!([8, 16]))
    );
    assert_eq!(
        (&grid["concurrency"], &grid["num-profile-runs"]),
        (&json!([1, 2]), &json!(3))
    );
    assert_eq!(grid["parameter-sweep-same-seed"], true);
    let search = "benchmark: {model: m, endpoint: {url: h:1}, profiling: {duration: 5}}\n\
        sweep:\n  type: adaptive_search\n  planner: smooth_isotonic\n  searchSpace:\n  - {path: \
        phases.profiling.concurrency, lo: 1, hi: 64, kind: int}\n  slaFilters:\n  - {metricTag: \
        time_to_first_token, stat: p95, op: lt, threshold: 500}\n";
    let search = settings(search);
    assert_eq!(
        search["search-space"],
        json!(["phases.profiling.concurrency:1,64:int"])
    );
    assert_eq!(
        search["search-sla"],
        json!(["time_to_first_token:p95:lt:500"])
    );
}

#[test]
fn what_a_file_of_aiperf_s_has_and_we_have_not_is_named_with_its_line() {
    let base = "benchmark:\n  model: m\n  endpoint:\n    url: h:1\n";
    for (more, told) in [
        (
            "    tipe: chat\n",
            "a.yaml: line 5: endpoint.tipe: there is no such setting",
        ),
        (
            "  dataset:\n    prefixPrompts:\n      poolSize: 4\n",
            "line 7: dataset.prefix_prompts.pool_size: shared prefixes are not made",
        ),
        (
            "  datasets: [{name: a}, {name: b}]\n",
            "line 5: datasets: a run has one data set",
        ),
        (
            "  dataset: {isl: {mean: 5, median: 4}}\n",
            "lengths are normal",
        ),
        (
            "  dataset: {isl: '{{ isl }}'}\n",
            "line 5: no template is filled in",
        ),
        ("  profiling: {type: adaptive}\n", "line 5: phases"),
        (
            "  profiling: {requests: 4, duration: 5 parsecs}\n",
            "line 5: ",
        ),
        ("variables: {a: 1}\n", "line 5: variables: no templates"),
        (
            "sweep: {type: sobol}\n",
            "line 5: sweep.type: give grid, zip",
        ),
        (
            "  artifacts: {dir: '${UNSET}'}\n",
            "line 5: `${UNSET}` is not set",
        ),
        (
            "  runtime: {apiPort: 80}\n",
            "line 5: runtime.api_port: there is no API",
        ),
        (
            "  endpoint2: 1\n",
            "line 5: endpoint2: there is no such setting",
        ),
    ] {
        let error = show(&format!("{base}{more}")).unwrap_err();
        let told = told.replace("phases", "profiling.type: give concurrency");
        assert!(error.contains(&told), "{more}: {error}");
    }
    let (_, told) = show(&format!("{base}  runtime: {{recordProcessors: 4}}\n")).unwrap();
    assert!(told.contains("a.yaml: line 5: runtime.record_processors: it changes nothing"));
}

#[test]
fn a_template_of_genai_perf_s_is_written_and_read_as_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let theirs = include_str!("data/peers/genai-perf-template.yaml");
    for more in [&[][..], &["-v"]] {
        let output = tokenring(
            dir.path(),
            &[&["create-template", "-f", "-"], more].concat(),
        );
        code(&output, 0);
        let ours: Value = serde_saphyr::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(ours, serde_saphyr::from_str::<Value>(theirs).unwrap());
    }
    let filled = theirs.replace("model_names:", "model_names: [m]");
    let (shown, told) = show(&filled).unwrap();
    assert_eq!(
        shown,
        json!({"model": ["m"], "endpoint-type": "kserve", "concurrency": 1,
            "num-dataset-entries": 100, "random-seed": 0, "isl": 550})
    );
    assert!(
        told.contains("line 13: endpoint.url: that is the port of gRPC"),
        "{told}"
    );
    let filled = filled
        .replace("type: kserve", "type: chat")
        .replace("streaming: False", "streaming: True")
        .replace("mode: request_count", "mode: interval")
        .replace("{'concurrency': 1}", "{'request_rate': 2.5}")
        .replace("goodput:", "goodput: {time_to_first_token: 75}")
        .replace("url: localhost:8001", "url: h:1")
        .replace("stddev: 0\n\n    prefix", "stddev: 4\n\n    prefix")
        .replace("analyze:", "analyze: {concurrency: {start: 1, stop: 8}}");
    let shown = settings(&filled);
    for (key, value) in [
        ("endpoint-type", json!("chat")),
        ("measurement-interval", json!(10_000)),
        ("request-rate", json!(2.5)),
        ("arrival-pattern", json!("constant")),
        ("goodput", json!(["time_to_first_token:75"])),
        ("url", json!("h:1")),
        ("isl-stddev", json!(4)),
        ("sweep-type", json!("concurrency")),
        ("sweep-range", json!("1:8")),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    let error = show(&filled.replace("num: 0\n      length", "num: 3\n      length")).unwrap_err();
    assert!(
        error.contains("input.prefix_prompt.num: shared prefixes"),
        "{error}"
    );
}

#[test]
fn files_of_both_peers_run() {
    let mock = Mock::start(&["--model", "any", "--ttft-ms", "2", "--itl-ms", "0.2"]);
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let more = [
        "--cores",
        "1",
        "--allow-invalid",
        "--no-gpu-telemetry",
        "--no-server-metrics",
    ];
    let run = |args: &[&str]| {
        let output = tokenring(dir.path(), &[args, &more].concat());
        code(&output, 0);
        output
    };
    let aiperf = format!(
        "benchmark:\n  model: m\n  endpoint: {{url: 'http://{}', streaming: true}}\n  tokenizer: \
         {{name: builtin}}\n  dataset: {{isl: 8, osl: 4}}\n  phases:\n  - {{name: warmup, type: \
         concurrency, requests: 2}}\n  - {{name: profiling, type: poisson, rate: 200, requests: \
         12}}\n  artifacts: {{dir: a}}\n",
        mock.url
    );
    write("aiperf.yaml", &aiperf);
    run(&["profile", "-f", "aiperf.yaml"]);
    let read = |file: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(dir.path().join(file)).unwrap()).unwrap()
    };
    let first = read("a/profile_export_aiperf.json");
    assert_eq!(first["request_count"]["avg"], 12.0);
    // What a report says of its run is such a file, too.
    write("again.yaml", &first["input_config"].to_string());
    run(&["profile", "-f", "again.yaml", "--artifact-dir", "b"]);
    let second = read("b/profile_export_aiperf.json");
    assert_eq!(second["request_count"]["avg"], 12.0);
    assert_eq!(
        second["input_config"]["phases"],
        first["input_config"]["phases"]
    );

    code(&tokenring(dir.path(), &["create-template"]), 0);
    let template = std::fs::read_to_string(dir.path().join("genai_perf_config.yaml")).unwrap();
    let template = template
        .replace("model_names:", "model_names: [m]")
        .replace("type: kserve", "type: chat")
        .replace("request_count\n    num:", "request_count\n    num: 6")
        .replace("mean: 550", "mean: 8")
        .replace("localhost:8001", &mock.url)
        .replace("  name:", "  name: builtin");
    write("one.yaml", &template);
    run(&[
        "config",
        "-f",
        "one.yaml",
        "--override-config",
        "--streaming",
    ]);
    let folder = "artifacts/m-openai-chat-concurrency1";
    assert_eq!(
        read(&format!("{folder}/profile_export_aiperf.json"))["request_count"]["avg"],
        6.0
    );
    write(
        "many.yaml",
        &template.replace("analyze:", "analyze: {concurrency: [1, 2]}"),
    );
    run(&["config", "-f", "many.yaml"]);
    assert!(
        dir.path()
            .join("artifacts/analyze_export_genai_perf.csv")
            .is_file()
    );
    // What is there already is not written over.
    code(&tokenring(dir.path(), &["create-template"]), 2);
}

#[test]
fn a_file_of_ours_is_written_checked_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    for template in ["minimal", "full"] {
        let name = format!("{template}.yaml");
        let init = ["config", "init", &name, "--template", template];
        code(&tokenring(dir.path(), &init), 0);
        let output = tokenring(dir.path(), &["config", "validate", &name]);
        code(&output, 0);
        assert_eq!(text(&output.stdout), format!("{name}: good: one run\n"));
        code(&tokenring(dir.path(), &init), 2);
    }
    let output = tokenring(
        dir.path(),
        &[
            "config",
            "show",
            "minimal.yaml",
            "--concurrency",
            "1,2",
            "--no-streaming",
        ],
    );
    let shown: Value = serde_saphyr::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(
        (&shown["concurrency"], &shown["streaming"]),
        (&json!([1, 2]), &json!(false))
    );
    // What is shown is a file that says the same.
    std::fs::write(dir.path().join("again.yaml"), &output.stdout).unwrap();
    let again = tokenring(dir.path(), &["config", "show", "again.yaml"]);
    assert_eq!(text(&again.stdout), text(&output.stdout));
    let output = tokenring(dir.path(), &["config", "validate", "again.yaml"]);
    assert!(text(&output.stdout).contains("2 points, 1 runs of each"));
    // Flags alone are shown, too.
    let output = tokenring(dir.path(), &["config", "show", "--isl", "5", "-u", "h:1"]);
    assert_eq!(text(&output.stdout), "url:\n- h:1\nisl: 5.0\n");
}

#[test]
fn no_command_shows_a_secret_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("a.yaml"), text).unwrap();
    let said = |args: &[&str]| {
        let output = tokenring(dir.path(), args);
        text(&output.stdout) + &text(&output.stderr)
    };
    let ours = "api-key: ${SECRET_KEY}\nheader: ['X-Api-Key: K9-other-secret-55', 'A: b']\n\
                url: 'http://u:K9-password@h:1/v1?api_key=K9-query-5'\n\
                extra-inputs: {password: K9-extra, a: K9-very-secret-1234567890}\n";
    write(ours);
    for args in [
        &["config", "show", "a.yaml"][..],
        &["config", "validate", "a.yaml"],
        &["config", "show", "a.yaml", "--isl", "x"],
        &[
            "config",
            "show",
            "a.yaml",
            "--api-key",
            "K9-typed-secret",
            "--zzz",
        ],
        &[
            "profile",
            "-f",
            "a.yaml",
            "--dry-run",
            "-m",
            "m",
            "--tokenizer",
            "builtin",
        ],
    ] {
        let said = said(args);
        assert!(!said.contains("K9-"), "{args:?}: {said}");
    }
    assert!(said(&["config", "show", "a.yaml"]).contains("redacted"));
    for bad in [
        "zzz: 1\n",
        "concurrency: K9-very-secret-1234567890\n",
        "isl: ${SECRET_KEY}\n",
    ] {
        write(&format!("{ours}{bad}"));
        let said = said(&["config", "validate", "a.yaml"]);
        assert!(
            said.contains("a.yaml: line 5") && !said.contains("K9-"),
            "{said}"
        );
    }
    let theirs = "benchmark:\n  model: m\n  endpoint: {url: h:1, apiKey: K9-very-secret-12345, \
                  headers: {Authorization: Bearer K9-header}}\n  zzz: K9-very-secret-12345\n";
    write(theirs);
    let error = said(&["config", "show", "a.yaml"]);
    assert!(
        error.contains("line 4: zzz") && !error.contains("K9-"),
        "{error}"
    );
    write(&theirs.replace("  zzz: K9-very-secret-12345\n", ""));
    let shown = said(&["config", "show", "a.yaml"]);
    assert!(
        shown.contains("redacted") && !shown.contains("K9-"),
        "{shown}"
    );
}
