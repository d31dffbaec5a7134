//! Tokenizers by name, from a hub of loopback; and counts that are those of Python.

use assert_cmd::cargo::cargo_bin;
use hub::{Asked, COMMIT, FakeHub, Reply};
use mock::Mock;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use tokenring::config::TokenizerSpec;
use tokenring::workload::{Hub, Tokenizer};

mod hub;
mod mock;
mod ran;

const SMALL: &[u8] = include_bytes!("data/tokenizers/small.json");
const TOKEN: &str = "hf_K9secretvalue0123";
const CHATML: &str = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + \
    '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}";

fn sha(bytes: &[u8]) -> String {
    let hex = |byte: &u8| format!("{byte:02x}");
    Sha256::digest(bytes).iter().map(hex).collect()
}

/// A command that sees this hub and this cache, and nothing of the machine's own.
fn command(hub: &str, home: &Path) -> Command {
    let mut command = Command::new(cargo_bin("tokenring"));
    for name in [
        "HF_TOKEN_PATH",
        "HF_HUB_CACHE",
        "HUGGINGFACE_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HUGGING_FACE_HUB_TOKEN",
        "OPENAI_API_KEY",
    ] {
        command.env_remove(name);
    }
    command
        .env("HF_ENDPOINT", hub)
        .env("HF_HOME", home)
        .env("HF_TOKEN", TOKEN)
        .current_dir(home);
    command
}

/// A plan needs the tokenizer, and no server.
fn plan(hub: &str, home: &Path, flags: &[&str]) -> Command {
    let mut command = command(hub, home);
    command.args([
        "profile",
        "-m",
        "org/small",
        "-u",
        "localhost:1",
        "--dry-run",
    ]);
    command
        .args(["--isl", "8", "--request-count", "1"])
        .args(flags);
    command
}

/// What was said; never the token, and never a panic.
fn said(output: &Output) -> String {
    let all = ran::text(&output.stdout) + &ran::text(&output.stderr);
    assert!(!all.contains(TOKEN) && !all.contains("panicked"), "{all}");
    all
}

fn taken(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    said
}

fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        ["--tokenizer", "--apply-chat"]
            .iter()
            .any(|flag| said.contains(flag)),
        "{said}"
    );
    said
}

const NAMED: &[&str] = &["--tokenizer", "org/small"];

/// The repository's folder in the cache.
fn cached(home: &Path) -> PathBuf {
    home.join("hub/models--org--small")
}

/// A hub with one small tokenizer, served by itself.
fn whole() -> FakeHub {
    FakeHub::start(|asked| match asked.path.ends_with("tokenizer.json") {
        true => Reply::range(asked, SMALL).told(&sha(SMALL), SMALL.len()),
        false => Reply::error(404, "EntryNotFound"),
    })
}

#[test]
fn the_token_goes_to_the_endpoint_and_never_to_where_it_redirects() {
    let store = FakeHub::start(|asked| Reply::range(asked, SMALL));
    // Another host by name, and another port.
    let far = store.url.replace("127.0.0.1", "localhost");
    for place in [far, store.url.clone()] {
        let home = tempfile::tempdir().unwrap();
        let hub = FakeHub::start(move |_| {
            Reply {
                status: 302,
                headers: vec![("Location", format!("{place}/store?X-Sig=1"))],
                ..Reply::default()
            }
            .told(&sha(SMALL), SMALL.len())
        });
        let before = store.asked().len();
        taken(plan(&hub.url, home.path(), NAMED));
        let bearer = format!("Bearer {TOKEN}");
        let at_home = hub.asked();
        assert!(at_home.len() == 2 && at_home.iter().all(|a| a.header("authorization") == bearer));
        assert_eq!(at_home[0].path, "/org/small/resolve/main/tokenizer.json");
        let away = &store.asked()[before..];
        assert_eq!(away.len(), 2);
        for asked in away {
            assert!(!format!("{asked:?}").contains(TOKEN), "{asked:?}");
            assert_eq!(asked.header("authorization"), "");
        }
        // The layout of Hugging Face's own tools.
        let folder = cached(home.path());
        let text = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
        assert_eq!(text("refs/main"), COMMIT);
        let link = folder.join(format!("snapshots/{COMMIT}/tokenizer.json"));
        let target = std::fs::read_link(link).unwrap();
        assert_eq!(target, Path::new("../../blobs").join(sha(SMALL)));
        assert_eq!(text(&format!("blobs/{}", sha(SMALL))).as_bytes(), SMALL);
        assert_eq!(std::fs::read_dir(folder.join("blobs")).unwrap().count(), 1);
    }
}

#[test]
fn a_way_back_to_the_endpoint_does_not_bring_the_token_back() {
    let home = tempfile::tempdir().unwrap();
    let place = std::sync::Arc::new(Mutex::new(String::new()));
    let back = place.clone();
    let store = FakeHub::start(move |_| Reply {
        status: 307,
        headers: vec![("Location", format!("{}/back", back.lock().unwrap()))],
        ..Reply::default()
    });
    let away = store.url.clone();
    let hub = FakeHub::start(move |asked| match asked.path.as_str() {
        "/back" => Reply::range(asked, SMALL),
        _ => Reply {
            status: 302,
            headers: vec![("Location", away.clone())],
            ..Reply::default()
        }
        .told(&sha(SMALL), SMALL.len()),
    });
    *place.lock().unwrap() = hub.url.clone();
    taken(plan(&hub.url, home.path(), NAMED));
    let has_token = |asked: &Asked| !asked.header("authorization").is_empty();
    let asked = hub.asked();
    let (back, first): (Vec<&Asked>, Vec<&Asked>) = asked.iter().partition(|a| a.path == "/back");
    assert!(back.len() == 2 && !back.into_iter().any(has_token));
    assert!(first.len() == 2 && first.into_iter().all(has_token));
}

#[test]
fn what_the_hub_does_not_give_is_named_with_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let answers = |status, code: &'static str| FakeHub::start(move |_| Reply::error(status, code));
    for (status, code, told) in [
        (
            401,
            "GatedRepo",
            &["tokenizer.json is gated (401)", "accept the licence at"][..],
        ),
        (403, "GatedRepo", &["gated (403)", "HF_TOKEN"]),
        (401, "RepoNotFound", &["(401)", "HF_TOKEN"]),
        (404, "RepoNotFound", &["no such repository", "404"]),
        (
            404,
            "RevisionNotFound",
            &["no revision `main`", "--tokenizer-revision"],
        ),
        (404, "EntryNotFound", &["no such repository"]),
        (500, "", &["status 500", "HF_ENDPOINT"]),
    ] {
        let hub = answers(status, code);
        let said = refused(plan(&hub.url, home.path(), NAMED));
        for part in told {
            assert!(said.contains(part), "{status} {code}: {said}");
        }
        assert!(said.contains("org/small"), "{said}");
    }
    let hub = answers(401, "GatedRepo");
    let mut without = plan(&hub.url, home.path(), NAMED);
    without.env_remove("HF_TOKEN");
    let said = refused(without);
    assert!(
        said.contains(&format!("{}/org/small, and set HF_TOKEN", hub.url)),
        "{said}"
    );
    assert_eq!(hub.asked()[0].header("authorization"), "");
    // Nobody listens there.
    let said = refused(plan("http://127.0.0.1:1", home.path(), NAMED));
    assert!(
        said.contains("tokenizer.json cannot be had from 127.0.0.1"),
        "{said}"
    );
    // A server, but no hub.
    let odd = FakeHub::start(|asked| Reply::range(asked, SMALL));
    let said = refused(plan(&odd.url, home.path(), NAMED));
    assert!(said.contains("X-Repo-Commit"), "{said}");
    let large = FakeHub::start(|asked| {
        let mut reply = Reply::range(asked, SMALL);
        reply.headers = vec![("Content-Range", format!("bytes 0-0/{}", 1_u64 << 40))];
        reply.told(&sha(SMALL), 1 << 40)
    });
    let said = refused(plan(&large.url, home.path(), NAMED));
    assert!(said.contains("1099511627776 bytes"), "{said}");
}

#[test]
fn a_vocabulary_of_another_form_is_taken_or_refused_with_the_reason() {
    let listed = |files: &'static str| {
        FakeHub::start(move |asked| match asked.path.as_str() {
            "/api/models/org/small/revision/main" => Reply {
                status: 200,
                body: files.into(),
                ..Reply::default()
            },
            "/org/small/resolve/main/qwen.tiktoken" => {
                let file = vocabulary();
                Reply::range(asked, &file).told(&sha(&file), file.len())
            }
            _ => Reply::error(404, "EntryNotFound"),
        })
    };
    let home = tempfile::tempdir().unwrap();
    let hub = listed(r#"{"siblings": [{"rfilename": "tokenizer.model"}]}"#);
    let said = refused(plan(&hub.url, home.path(), NAMED));
    assert!(said.contains("SentencePiece"), "{said}");
    let hub = listed(r#"{"siblings": [{"rfilename": "README.md"}]}"#);
    let said = refused(plan(&hub.url, home.path(), NAMED));
    assert!(said.contains("has no tokenizer.json"), "{said}");
    let hub = listed(r#"{"siblings": [{"rfilename": "qwen.tiktoken"}]}"#);
    taken(plan(&hub.url, home.path(), NAMED));
    assert!(
        cached(home.path())
            .join(format!("snapshots/{COMMIT}/qwen.tiktoken"))
            .exists()
    );
}

/// Every byte as a line of tiktoken.
fn vocabulary() -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let line = |byte: u8| format!("{} {byte}\n", STANDARD.encode([byte]));
    (0..=u8::MAX).map(line).collect::<String>().into_bytes()
}

#[test]
fn a_download_that_is_cut_goes_on_from_there() {
    let home = tempfile::tempdir().unwrap();
    // A thousand bytes at a time, whatever is announced.
    let hub = FakeHub::start(|asked| {
        let mut reply = Reply::range(asked, SMALL);
        reply.length = Some(reply.body.len());
        reply.body.truncate(1_000);
        reply.told(&sha(SMALL), SMALL.len())
    });
    taken(plan(&hub.url, home.path(), NAMED));
    let from: Vec<usize> = hub.asked().iter().skip(1).map(Asked::from).collect();
    assert_eq!(from, [0, 1_000, 2_000, 3_000]);
}

#[test]
fn a_download_that_stays_cut_is_refused_and_the_next_run_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let half = SMALL.len() / 2;
    let hub = FakeHub::start(move |asked| {
        let mut reply = Reply::range(asked, SMALL);
        reply.length = Some(reply.body.len());
        reply.body.truncate(half.saturating_sub(asked.from()));
        reply.told(&sha(SMALL), SMALL.len())
    });
    let said = refused(plan(&hub.url, home.path(), NAMED));
    let told = format!(
        "tokenizer.json was cut short: {half} of {} bytes came",
        SMALL.len()
    );
    assert!(said.contains(&told), "{said}");
    assert!(!cached(home.path()).join("snapshots").exists());
    let hub = whole();
    taken(plan(&hub.url, home.path(), NAMED));
    assert_eq!(hub.asked()[1].from(), half);
    // A store that knows no ranges sends all of it.
    let home = tempfile::tempdir().unwrap();
    let blobs = cached(home.path()).join("blobs");
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::write(blobs.join(format!("{}.incomplete", sha(SMALL))), "old").unwrap();
    let plain = FakeHub::start(|_| {
        Reply {
            status: 200,
            body: SMALL.to_vec(),
            ..Reply::default()
        }
        .told(&sha(SMALL), SMALL.len())
    });
    taken(plan(&plain.url, home.path(), NAMED));
}

#[test]
fn a_file_with_another_hash_is_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let hub = FakeHub::start(|asked| {
        let mut file = SMALL.to_vec();
        file[100] ^= 1;
        Reply::range(asked, &file).told(&sha(SMALL), SMALL.len())
    });
    let said = refused(plan(&hub.url, home.path(), NAMED));
    assert!(
        said.contains("SHA-256") && said.contains("nothing is kept"),
        "{said}"
    );
    assert!(!cached(home.path()).join("snapshots").exists());
    let left = std::fs::read_dir(cached(home.path()).join("blobs")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn offline_takes_the_cache_and_asks_nobody() {
    let home = tempfile::tempdir().unwrap();
    let hub = whole();
    let offline = |flags: &[&str]| {
        let mut command = plan(&hub.url, home.path(), flags);
        command.env("HF_HUB_OFFLINE", "1");
        command
    };
    let said = refused(offline(NAMED));
    assert!(
        said.contains("HF_HUB_OFFLINE") && said.contains("hf download org/small"),
        "{said}"
    );
    assert!(hub.asked().is_empty());
    taken(plan(&hub.url, home.path(), NAMED));
    let asked = hub.asked().len();
    taken(offline(NAMED));
    // With a network the cache is enough, too.
    taken(plan(&hub.url, home.path(), NAMED));
    assert_eq!(hub.asked().len(), asked);
    let said = refused(offline(&[NAMED, &["--tokenizer-revision", "v2"]].concat()));
    assert!(said.contains("HF_HUB_OFFLINE"), "{said}");
}

#[test]
fn a_revision_is_asked_for_and_kept_by_its_name() {
    let home = tempfile::tempdir().unwrap();
    let hub = whole();
    let at = |revision| [NAMED, &["--tokenizer-revision", revision]].concat();
    taken(plan(&hub.url, home.path(), &at("refs/pr/1")));
    let path = "/org/small/resolve/refs%2Fpr%2F1/tokenizer.json";
    assert!(hub.asked().iter().all(|asked| asked.path == path));
    let kept = cached(home.path()).join("refs/refs/pr/1");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), COMMIT);
    let asked = hub.asked().len();
    taken(plan(&hub.url, home.path(), &at(COMMIT)));
    assert_eq!(hub.asked().len(), asked);
    let said = refused(plan(&hub.url, home.path(), &at("../x")));
    assert!(said.contains("--tokenizer-revision"), "{said}");
}

#[test]
fn the_hub_is_not_asked_for_what_nobody_named() {
    let home = tempfile::tempdir().unwrap();
    let hub = whole();
    let said = taken(plan(&hub.url, home.path(), &[]));
    assert!(said.contains("stands in for the model's own"), "{said}");
    assert!(hub.asked().is_empty());
    // What the cache has is the model's own.
    taken(plan(&hub.url, home.path(), NAMED));
    let asked = hub.asked().len();
    let said = taken(plan(&hub.url, home.path(), &[]));
    assert!(!said.contains("stands in"), "{said}");
    assert_eq!(hub.asked().len(), asked);
}

#[test]
fn a_run_counts_by_the_chat_template_and_says_which_tokenizer_it_had() {
    let home = tempfile::tempdir().unwrap();
    let config = serde_json::json!({"chat_template": CHATML}).to_string();
    let hub = FakeHub::start(move |asked| {
        let file = match asked.path.rsplit('/').next().unwrap() {
            "tokenizer.json" => SMALL,
            "tokenizer_config.json" => config.as_bytes(),
            _ => return Reply::error(404, "EntryNotFound"),
        };
        Reply::range(asked, file).told(&sha(file), file.len())
    });
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "1", "--tokens", "4"]);
    let run = |flags: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(&hub.url, home.path());
        command
            .args([
                "profile",
                "-m",
                "m",
                "-u",
                &mock.url,
                "--streaming",
                "--allow-invalid",
            ])
            .args([
                "--no-gpu-telemetry",
                "--no-server-metrics",
                "--ui",
                "none",
                "--cores",
                "1",
            ])
            .args(["--isl", "64", "--request-count", "3"])
            .args(flags)
            .arg("--artifact-dir")
            .arg(dir.path());
        let output = command.output().unwrap();
        said(&output);
        let files = std::fs::read_dir(dir.path()).unwrap();
        for file in files
            .map(|file| file.unwrap().path())
            .filter(|file| file.is_file())
        {
            let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
            assert!(!text.contains(TOKEN), "{}", file.display());
        }
        // The small tokenizer has a token for each byte.
        let inputs = std::fs::read(dir.path().join("inputs.json")).unwrap();
        let inputs: Value = serde_json::from_slice(&inputs).unwrap();
        let body = &inputs["data"][0]["payloads"][0];
        let prompt = body["messages"][0]["content"].as_str().unwrap().len();
        (ran::read(&output, dir.path()), prompt)
    };
    let (templated, prompt) = run(&[NAMED, &["--apply-chat-template"]].concat());
    let client = &templated.json["client"];
    assert_eq!(client["tokenizer"], format!("org/small@{}", &COMMIT[..12]));
    assert_eq!(client["tokenizer_stands_in"], false);
    let name = &templated.json["input_config"]["tokenizer"]["name"];
    assert_eq!(name, "org/small");
    let length =
        |ran: &ran::Ran| ran.records[0]["metrics"]["input_sequence_length"]["value"].clone();
    // The asked length, of which the prompt is what the template leaves.
    assert_eq!(length(&templated), 64);
    assert_eq!(prompt, 64 - "user\n".len() - 3);
    let (plain, prompt) = run(NAMED);
    assert_eq!(length(&plain), 64);
    assert_eq!(prompt, 64);
    let asked = |flags: &[&str]| refused(plan(&hub.url, home.path(), flags));
    let with = |flags: &[&'static str]| [flags, &["--apply-chat-template"]].concat();
    assert!(asked(&with(&["--tokenizer", "builtin"])).contains("--apply-chat-template"));
    let completions = with(&["--tokenizer", "org/small", "--endpoint-type", "completions"]);
    assert!(asked(&completions).contains("--apply-chat-template"));
}

/// Where scripts/tokenizers/fetch.py puts them.
fn vocabularies() -> Option<PathBuf> {
    let get = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let caches = || get("XDG_CACHE_HOME").or_else(|| Some(get("HOME")?.join(".cache")));
    let folder =
        get("TOKENRING_VOCABULARIES").or_else(|| Some(caches()?.join("tokenring/vocabularies")))?;
    folder.join("qwen3").is_dir().then_some(folder)
}

#[test]
fn counts_are_those_of_python() {
    let Some(folder) = vocabularies() else {
        eprintln!("SKIPPED: no vocabularies; scripts/tokenizers/fetch.py gets them");
        return;
    };
    let table: Value = serde_json::from_str(include_str!("data/tokenizers/counts.json")).unwrap();
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.len() >= 10);
    let load = |name: &str, has_template| {
        let spec = TokenizerSpec {
            has_template,
            ..TokenizerSpec::named(folder.join(name).display().to_string())
        };
        let loaded = Tokenizer::load(&spec, None, &Hub::from_env(None), &mut |_| {});
        loaded.unwrap().0
    };
    let (deepseek, qwen3) = (load("deepseek", false), load("qwen3", true));
    // The same vocabulary as a file of tiktoken.
    let qwen = load("qwen/qwen.tiktoken", false);
    for row in rows {
        let text = row["text"].as_str().unwrap();
        let is = |key: &str, count: usize| assert_eq!(row[key], count, "{key} of {text:?}");
        is("deepseek", deepseek.count(text));
        is("qwen3", qwen3.count(text));
        is("qwen3_first_message", qwen3.count_message(text, true));
        is("qwen3_later_message", qwen3.count_message(text, false));
        // Only a tokenizer.json takes special tokens out of a text, and composes its characters.
        if !text.contains("<|") && !text.contains('\u{301}') {
            is("qwen3", qwen.count(text));
        }
    }
}
