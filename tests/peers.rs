//! What a person brings from AIPerf or GenAI-Perf: commands with the program's name changed, flags,
//! and the page that says what becomes of each.

use assert_cmd::cargo::cargo_bin;
use std::path::Path;
use std::process::{Command, Output};

mod mock;
mod ran;
use mock::Mock;
use ran::{code, text};

/// Commands with `genai-perf` or `aiperf` in front where `tokenring` stands: those of GenAI-Perf's
/// and AIPerf's own guides.
const COMMANDS: [&str; 9] = [
    "profile -m meta-llama/Llama-3.1-70B-Instruct --endpoint-type chat --streaming --concurrency \
     16 --synthetic-input-tokens-mean 1024 --synthetic-input-tokens-stddev 128 \
     --output-tokens-mean 256 --output-tokens-stddev 0 --output-tokens-mean-deterministic \
     --request-count 200 --warmup-request-count 20 --tokenizer meta-llama/Llama-3.1-70B-Instruct",
    "profile -m meta-llama/Llama-3.1-70B-Instruct --endpoint-type completions --concurrency 32 \
     --synthetic-input-tokens-mean 512 --synthetic-input-tokens-stddev 64 --output-tokens-mean \
     128 --request-count 200 --warmup-request-count 20",
    "profile -m meta/llama-3.1-70b-instruct --backend tensorrtllm --streaming --concurrency 8 \
     --synthetic-input-tokens-mean 2048 --synthetic-input-tokens-stddev 0 --output-tokens-mean \
     512 --output-tokens-mean-deterministic --request-count 100 --warmup-request-count 10 \
     --generate-plots",
    "profile -m meta-llama/Llama-3.1-70B-Instruct --endpoint-type chat --streaming \
     --request-rate 5.0 --synthetic-input-tokens-mean 1024 --output-tokens-mean 256 \
     --request-count 300 --warmup-request-count 30",
    "analyze -m meta-llama/Llama-3.1-70B-Instruct --endpoint-type chat --streaming --sweep-type \
     concurrency --sweep-range 1:256 --synthetic-input-tokens-mean 1024 --output-tokens-mean 256 \
     --request-count 200 --warmup-request-count 20",
    "analyze -m meta-llama/Llama-3.1-70B-Instruct --endpoint-type chat --streaming --sweep-type \
     request_rate --sweep-list 2,4,6,8,10,12 --synthetic-input-tokens-mean 1024 \
     --output-tokens-mean 256 --request-count 200 --warmup-request-count 20",
    "analyze -m meta-llama/Llama-3.1-70B-Instruct --endpoint-type chat --streaming --sweep-type \
     input_sequence_length --sweep-list 256,512,1024,2048,4096 --concurrency 16 \
     --output-tokens-mean 256 --request-count 200 --warmup-request-count 20",
    "profile --model Qwen/Qwen3-0.6B --endpoint-type chat --streaming --url localhost:8000 \
     --synthetic-input-tokens-mean 128 --synthetic-input-tokens-stddev 0 --output-tokens-mean 128 \
     --output-tokens-stddev 0 --extra-inputs min_tokens:128 --extra-inputs ignore_eos:true",
    "profile --model Qwen/Qwen3-0.6B --endpoint-type chat --streaming --url localhost:8000 \
     --request-rate 10 --arrival-pattern poisson --synthetic-input-tokens-mean 512 \
     --synthetic-input-tokens-stddev 128 --output-tokens-mean 128 --output-tokens-stddev 32 \
     --random-seed 42 --request-count 200",
];

/// A command in `dir` as typed, with what this test adds in the end: the later word wins.
fn start(line: &str, more: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(cargo_bin("tokenring"));
    command.current_dir(dir).env_remove("OPENAI_API_KEY");
    // No cache of a hub, and no hub.
    command.env("HF_HOME", dir).env("HF_HUB_OFFLINE", "1");
    command
        .args(line.split_whitespace())
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn the_peers_commands_print_their_plan_as_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    for line in COMMANDS {
        // A tokenizer by the name of a hub is had from there; the others need nothing.
        let local: &[&str] = match line.contains("--tokenizer") {
            true => &["--tokenizer", "builtin"],
            false => &[],
        };
        let output = start(line, &[local, &["--dry-run"]].concat(), dir.path());
        code(&output, 0);
        let plan = text(&output.stdout);
        assert!(plan.contains("localhost:8000"), "{line}: {plan}");
        assert!(!plan.is_empty(), "{line}");
    }
}

#[test]
fn the_peers_commands_run_as_they_stand() {
    let mock = Mock::start(&["--model", "any", "--ttft-ms", "2", "--itl-ms", "0.2"]);
    for line in COMMANDS {
        let dir = tempfile::tempdir().unwrap();
        // The words of the command win over none of these but sizes and places.
        let mut more = vec!["--tokenizer", "builtin", "--request-count", "8"];
        more.extend(["--warmup-request-count", "2", "--output-tokens-mean", "8"]);
        more.extend(["--cores", "1", "--allow-invalid", "--no-gpu-telemetry"]);
        if line.contains("--sweep-range") {
            more.extend(["--sweep-range", "1:4"]);
        }
        if line.contains("--sweep-list 2,") {
            more.extend(["--sweep-list", "100,200"]);
        }
        if line.contains("--request-rate") {
            more.extend(["--request-rate", "100"]);
        }
        let owned = line.replace("localhost:8000", &mock.url);
        if !line.contains("--url") {
            more.extend(["-u", &mock.url]);
        }
        let output = start(&owned, &more, dir.path());
        code(&output, 0);
        let artifacts = dir.path().join("artifacts");
        let names = |ending: &str| {
            let folders = std::fs::read_dir(&artifacts).unwrap();
            let folders = folders.map(|entry| entry.unwrap().path());
            folders
                .filter(|folder| folder.join(ending).is_file())
                .count()
        };
        let runs = names("profile_export_aiperf.json");
        for folder in std::fs::read_dir(&artifacts).unwrap() {
            let file = folder.unwrap().path().join("profile_export_aiperf.json");
            let Ok(json) = std::fs::read_to_string(file) else {
                continue;
            };
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(json["request_count"]["avg"], 8.0, "{line}");
        }
        match line.starts_with("analyze") {
            true => {
                assert!(runs >= 2, "{line}: {runs} runs");
                assert!(
                    artifacts.join("analyze_export_genai_perf.csv").is_file(),
                    "{line}"
                );
            }
            false => assert_eq!(runs, 1, "{line}"),
        }
        assert_eq!(names("profile_export_genai_perf.csv"), runs, "{line}");
    }
}

#[test]
fn the_page_of_flags_is_what_the_program_prints() {
    let output = Command::new(cargo_bin("tokenring"))
        .arg("flags")
        .output()
        .unwrap();
    code(&output, 0);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/flags.md");
    let committed = std::fs::read_to_string(page).unwrap();
    let hint = "renew it: cargo run -q -- flags > docs/flags.md";
    assert!(
        text(&output.stdout) == committed,
        "docs/flags.md is old; {hint}"
    );
}

#[test]
fn flags_that_change_nothing_are_taken_with_a_line_each() {
    let dir = tempfile::tempdir().unwrap();
    let line = "profile -m m --service-kind openai --transport http --record-processors 4 \
                --zmq-host 127.0.0.1 --tokenizer-trust-remote-code --log-level DEBUG --ui \
                dashboard --extra-verbose --max-workers 8 --url-strategy round_robin \
                --streaming=true --tokenizer builtin --dry-run -- --max-threads 32 \
                --request-distribution constant --request-rate-range 5";
    let output = start(line, &[], dir.path());
    code(&output, 0);
    let told = text(&output.stderr);
    for flag in [
        "--service-kind",
        "--transport",
        "--record-processors",
        "--zmq-host",
        "--log-level",
        "--tokenizer-trust-remote-code",
        "--url-strategy",
        "-- --max-threads",
    ] {
        let says = |line: &str| line.contains(&format!("{flag} changes nothing"));
        assert!(told.lines().any(says), "{flag}: {told}");
    }
    assert!(told.contains("--ui: simple is shown"), "{told}");
    assert!(
        told.contains("-- --request-distribution: taken as --arrival-pattern"),
        "{told}"
    );
}

#[test]
fn a_refused_flag_says_in_one_line_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    for (line, told) in [
        (
            "profile --public-dataset sharegpt",
            "error: --public-dataset: nothing is fetched",
        ),
        ("profile --num-prefix-prompts 4", "give --input-file"),
        ("profile --transport grpc", "HTTP/1.1 is the only one"),
        (
            "profile -m m -- --binary-search",
            "error: -- --binary-search: analyze --search",
        ),
        (
            "profile -u http://h --api-key K9secret-value -- --no K9secret-value",
            "error: -- --no",
        ),
        ("kube generate", "error: kube: run `profile` in a pod"),
    ] {
        let output = start(line, &[], dir.path());
        code(&output, 2);
        let said = text(&output.stderr);
        assert!(
            said.contains(told) && said.lines().count() == 1,
            "{line}: {said}"
        );
        assert!(!said.contains("K9secret"), "{said}");
    }
}
