//! A run of the built binary, and what it has printed and written.
#![allow(dead_code)]

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A profile of short prompts on one core, ready to start.
pub fn command(url: &str, dir: &Path, flags: &[&str]) -> Command {
    let given = |flag: &str| flags.contains(&flag);
    let unless = |flag, pair: [&'static str; 2]| pair.into_iter().filter(move |_| !given(flag));
    let mut command = Command::new(cargo_bin("tokenring"));
    command
        .args(["profile", "-u", url, "--streaming"])
        .args(["--tokenizer", "builtin"])
        .args(["--no-gpu-telemetry", "--no-server-metrics"])
        .args(["--allow-invalid", "--ui", "none"])
        .arg("--artifact-dir")
        .arg(dir)
        .args(flags)
        .args(unless("-m", ["-m", "m"]))
        .args(unless("--cores", ["--cores", "1"]))
        .args(unless("--input-file", ["--isl", "8"]))
        .env_remove("OPENAI_API_KEY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a program has printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// It has ended so, and by no panic.
pub fn code(output: &Output, expected: i32) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(expected), "{told}");
    assert!(!told.contains("panicked"), "{told}");
}

/// The document is what its schema says.
pub fn fits(document: &Value, schema: &str) {
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let faults: Vec<String> = schema
        .iter_errors(document)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}

/// What a run has left.
pub struct Ran {
    pub screen: String,
    pub stderr: String,
    pub json: Value,
    /// In the order of their ends.
    pub records: Vec<Value>,
}

impl Ran {
    /// A moment of each record, in ns of wall time.
    pub fn times(&self, key: &str) -> Vec<u64> {
        let time = |record: &Value| record["timeline"][key].as_u64().unwrap();
        self.records.iter().map(time).collect()
    }
}

/// Reads what a good run has left.
pub fn read(output: &Output, dir: &Path) -> Ran {
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("profile_export_aiperf.json")).unwrap();
    fits(
        &json,
        include_str!("../../schema/profile_export_aiperf.schema.json"),
    );
    let lines = read("profile_export.jsonl");
    let line = |line| serde_json::from_str(line).unwrap();
    Ran {
        screen: text(&output.stdout),
        stderr,
        json,
        records: lines.lines().map(line).collect(),
    }
}

/// Runs a profile to its end.
pub fn run(url: &str, flags: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let output = command(url, dir.path(), flags).output().unwrap();
    read(&output, dir.path())
}
