//! Every command of the README and of docs/ runs as it stands, against the mock in the place of
//! `localhost:8000`.
//!
//! A block of `sh` holds commands. `sh bench` holds those that take a quiet machine and minutes:
//! of them only the words are checked. A block with `file=NAME` is that file.

use assert_cmd::cargo::cargo_bin;
use std::path::Path;
use std::process::Command;

mod mock;
use mock::Mock;

/// A fenced block: what stands behind its fence, and its text.
struct Block {
    info: String,
    text: String,
}

fn blocks(markdown: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in markdown.lines() {
        if let Some(info) = line.strip_prefix("```") {
            if !is_open {
                found.push(Block {
                    info: info.to_string(),
                    text: String::new(),
                });
            }
            is_open = !is_open;
        } else if is_open {
            let text = &mut found.last_mut().unwrap().text;
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

/// The words of a command as a shell splits them: double quotes hold words together.
fn words(command: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (index, part) in command.split('"').enumerate() {
        if index % 2 == 1 {
            out.push(part.to_string());
        } else {
            out.extend(part.split_whitespace().map(String::from));
        }
    }
    out
}

fn commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    joined
        .lines()
        .map(words)
        .filter(|w| !w.is_empty())
        .collect()
}

/// Runs one command in `dir`.
fn run(words: &[String], dir: &Path, url: &str, is_bench: bool) {
    let shown = words.join(" ");
    match words[0].as_str() {
        // `.ci/run` and cargo itself run these; here only what they name must exist.
        "cargo" => {
            let manifest = words.iter().skip_while(|w| *w != "--manifest-path").nth(1);
            let manifest = manifest.map_or("Cargo.toml", String::as_str);
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            assert!(root.join(manifest).is_file(), "{shown}: no {manifest}");
        }
        "python3" if is_bench => {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            assert!(root.join(&words[1]).is_file(), "{shown}: no {}", words[1]);
        }
        "tokenring" => {
            let mut command = Command::new(cargo_bin("tokenring"));
            command.current_dir(dir).env_remove("OPENAI_API_KEY");
            command.env("XDG_CACHE_HOME", dir);
            command.args(words[1..].iter().map(|w| w.replace("localhost:8000", url)));
            match (words[1].as_str(), is_bench) {
                ("profile", false) => {
                    if !words.contains(&"--url".to_string()) {
                        command.args(["--url", url]);
                    }
                    command.arg("--allow-invalid")
                }
                ("profile", true) => command.arg("--dry-run"),
                ("mock", _) | ("self-bench", true) => command.args(["--help"]),
                _ => &mut command,
            };
            let output = command.output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success(),
                "{shown}: {}\n{stderr}",
                output.status
            );
        }
        other => panic!("no test runs `{other}`, so docs do not show it: {shown}"),
    }
}

#[test]
fn every_command_of_the_docs_runs_as_it_stands() {
    let mock = Mock::start(&["--ttft-ms", "5", "--itl-ms", "1"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md")];
    let docs = std::fs::read_dir(root.join("docs")).unwrap();
    files.extend(docs.map(|entry| entry.unwrap().path()));
    let mut count = 0;
    for file in files {
        let dir = tempfile::tempdir().unwrap();
        let markdown = std::fs::read_to_string(&file).unwrap();
        for block in blocks(&markdown) {
            let mut info = block.info.split_whitespace();
            let language = info.next().unwrap_or_default();
            let note = info.next();
            if let Some(name) = note.and_then(|note| note.strip_prefix("file=")) {
                std::fs::write(dir.path().join(name), &block.text).unwrap();
            }
            if language == "sh" {
                for words in commands(&block.text) {
                    run(&words, dir.path(), &mock.url, note == Some("bench"));
                    count += 1;
                }
            }
        }
    }
    assert!(count >= 10, "only {count} commands were found");
}
