//! OpenAI's own Python client talks to the mock. Skipped, loudly, where Python has no `openai`;
//! `PYTHON` names another interpreter.

use std::process::Command;

mod mock;
use mock::Mock;

#[test]
fn the_python_client_of_openai_understands_the_mock() {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let has_client = Command::new(&python).args(["-c", "import openai"]).output();
    if !has_client.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: {python} has no package openai (pip install openai)");
        return;
    }
    let mock = Mock::start(&["--ttft-ms", "2", "--itl-ms", "1", "--model", "m"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/openai_client.py");
    let url = format!("http://{}", mock.url);
    let output = Command::new(&python).args([script, &url]).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    assert!(output.status.success(), "{told}");
    assert_eq!(
        told.lines().filter(|line| line.ends_with(": ok")).count(),
        10,
        "{told}"
    );
}
