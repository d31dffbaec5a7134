//! `plot` and `--generate-plots`: the built binary, its files, and recorded runs that are broken.

mod mock;
mod ran;
#[path = "../src/report/plot/well_formed.rs"]
mod well_formed;

use assert_cmd::cargo::cargo_bin;
use mock::Mock;
use ran::{code, command, text};
use std::path::Path;
use std::process::{Command, Output};
use well_formed::xml_fault;

const FIVE: [&str; 5] = [
    "time_to_first_token",
    "request_latency",
    "distribution_of_input_sequence_lengths_to_output_sequence_lengths",
    "time_to_first_token_vs_input_sequence_lengths",
    "token-to-token_latency_vs_output_token_position",
];

fn tokenring(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(cargo_bin("tokenring"));
    let command = command
        .args(args)
        .current_dir(dir)
        .env_remove("OPENAI_API_KEY");
    command.output().unwrap()
}

/// Both files of a plot are sound.
fn check(folder: &Path, name: &str) {
    let svg = std::fs::read_to_string(folder.join(format!("{name}.svg"))).unwrap();
    assert_eq!(xml_fault(&svg), None, "{name}");
    let png = std::fs::read(folder.join(format!("{name}.png"))).unwrap();
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n", "{name}");
    assert_eq!(png[16..20], 700u32.to_be_bytes(), "{name}");
    assert_eq!(png[20..24], 450u32.to_be_bytes(), "{name}");
}

/// Makes a run of 30 requests.
fn run(dir: &Path, ttft_ms: &str, flags: &[&str]) {
    let mock = Mock::start(&["--ttft-ms", ttft_ms, "--itl-ms", "1", "--tokens", "6"]);
    let load = ["--concurrency", "5", "--request-count", "30"];
    let output = command(&mock.url, dir, &[&load[..], flags].concat()).output();
    code(&output.unwrap(), 0);
}

#[test]
fn a_demo_leaves_the_five_plots() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "profile --demo --streaming --generate-plots --request-count 40 --concurrency 4 \
                 --isl 32 --isl-stddev 8 --osl 8 --artifact-dir run --allow-invalid --ui none \
                 --no-gpu-telemetry";
    let output = tokenring(dir.path(), &flags.split_whitespace().collect::<Vec<_>>());
    code(&output, 0);
    let plots = dir.path().join("run/plots");
    FIVE.iter().for_each(|name| check(&plots, name));
    check(&plots, "input_sequence_lengths");
    let svg = plots.join("token-to-token_latency_vs_output_token_position.svg");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(
        svg.contains("n = ") && !svg.contains("n = 0"),
        "gaps are drawn"
    );
    // A closed loop has no schedule.
    assert!(!plots.join("dispatch_delay.svg").exists());
}

#[test]
fn an_open_loop_has_its_dispatch_delay_and_no_stream_no_first_token() {
    let dir = tempfile::tempdir().unwrap();
    let mock = Mock::start(&["--ttft-ms", "5", "--itl-ms", "1", "--tokens", "4"]);
    let flags = [
        "--request-rate",
        "100",
        "--request-count",
        "30",
        "--generate-plots",
    ];
    let run = dir.path().join("run");
    let output = command(&mock.url, &run, &[&flags[..], &["--no-streaming"]].concat()).output();
    let output = output.unwrap();
    code(&output, 0);
    check(&run.join("plots"), "dispatch_delay");
    check(&run.join("plots"), "request_latency");
    assert!(!run.join("plots/time_to_first_token.svg").exists());
    let told = text(&output.stderr);
    assert_eq!(told.matches("no answer was streamed").count(), 1, "{told}");
}

#[test]
fn two_runs_are_laid_over_each_other() {
    let dir = tempfile::tempdir().unwrap();
    run(&dir.path().join("before"), "5", &[]);
    run(&dir.path().join("after"), "30", &[]);
    let output = tokenring(dir.path(), &["plot", "before", "after"]);
    code(&output, 0);
    check(&dir.path().join("plots"), "time_to_first_token_histograms");
    let listed = text(&output.stdout);
    assert!(
        listed.lines().all(|line| dir.path().join(line).is_file()),
        "{listed}"
    );
    // Of a folder that is no run, the runs below it.
    let flags = [
        "plot", ".", "--output", "dark", "--theme", "dark", "--format", "svg",
    ];
    code(&tokenring(dir.path(), &flags), 0);
    let dark = dir.path().join("dark");
    let svg = std::fs::read_to_string(dark.join("request_latency.svg")).unwrap();
    assert!(svg.contains("#15191e") && svg.contains("before") && svg.contains("after"));
    assert!(!dark.join("request_latency.png").exists());
}

#[test]
fn a_sweep_has_its_curve_at_its_end_and_later() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "analyze --demo --streaming --sweep-type concurrency --sweep-range 1:4 --isl 16 \
                 --osl 4 --request-count 20 --allow-invalid --ui none --artifact-dir sweep \
                 --no-gpu-telemetry --generate-plots";
    code(
        &tokenring(dir.path(), &flags.split_whitespace().collect::<Vec<_>>()),
        0,
    );
    let names = [
        "latency_vs_throughput",
        "time_to_first_token",
        "request_latency",
    ];
    names
        .iter()
        .for_each(|name| check(&dir.path().join("sweep/plots"), name));
    code(
        &tokenring(dir.path(), &["plot", "sweep", "--output", "again"]),
        0,
    );
    for name in names {
        let read = |folder: &str| {
            std::fs::read_to_string(dir.path().join(folder).join(format!("{name}.svg"))).unwrap()
        };
        assert_eq!(read("sweep/plots"), read("again"), "{name}");
    }
}

#[test]
fn a_run_of_aiperf_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden/aiperf");
    let copy = |from: &str, to: &str| std::fs::copy(golden.join(from), dir.path().join(to));
    copy("profile_export_aiperf.json", "profile_export_aiperf.json").unwrap();
    copy("profile_export.head1.jsonl", "profile_export.jsonl").unwrap();
    code(&tokenring(dir.path(), &["plot", "."]), 0);
    FIVE.iter()
        .for_each(|name| check(&dir.path().join("plots"), name));
}

#[test]
fn broken_records_end_with_an_error_or_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("run");
    run(&whole, "5", &[]);
    let lines = std::fs::read(whole.join("profile_export.jsonl")).unwrap();
    let shard = std::fs::read(whole.join("profile_export_records.bin")).unwrap();
    let put = |lines: &[u8], shard: &[u8]| {
        std::fs::write(whole.join("profile_export.jsonl"), lines).unwrap();
        std::fs::write(whole.join("profile_export_records.bin"), shard).unwrap();
        tokenring(dir.path(), &["plot", "run", "--format", "svg"])
    };
    // Cut: what is before the cut is drawn.
    code(
        &put(&lines[..lines.len() - 40], &shard[..shard.len() / 2]),
        0,
    );
    // Empty files: no requests, no plots.
    let output = put(b"", b"");
    code(&output, 6);
    assert!(text(&output.stderr).contains("no plot could be made"));
    // No records at all, and lines that are none.
    let output = put(b"{}\n", &shard);
    code(&output, 2);
    assert!(text(&output.stderr).contains("line 1 is no request"));
    // Values that no clock has measured.
    let mut huge = String::from_utf8(lines.clone()).unwrap();
    for tag in [
        "request_latency",
        "time_to_first_token",
        "input_sequence_length",
    ] {
        let before = format!("\"{tag}\":{{\"value\":");
        assert!(huge.contains(&before), "{tag}");
        huge = huge.replace(&before, &format!("{before}9999999999999999"));
    }
    code(&put(huge.as_bytes(), b""), 6);
    for file in ["profile_export.jsonl", "profile_export_records.bin"] {
        std::fs::remove_file(whole.join(file)).unwrap();
    }
    let output = tokenring(dir.path(), &["plot", "run"]);
    code(&output, 2);
    assert!(text(&output.stderr).contains("no records were kept"));
}

#[test]
fn what_cannot_be_is_said_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], told: &str| {
        let output = tokenring(dir.path(), args);
        code(&output, 2);
        assert!(
            text(&output.stderr).contains(told),
            "{}",
            text(&output.stderr)
        );
    };
    let run = [
        "profile",
        "--demo",
        "--generate-plots",
        "--export-level",
        "summary",
    ];
    refused(&run, "--generate-plots: plots are drawn from the records");
    refused(&["plot", "--mlflow-upload"], "plots are files");
    refused(&["plot", "nowhere"], "no run in `nowhere`");
}
