//! Embeddings, rankings, images and recordings: every endpoint whose answer is no text, by the
//! built binary.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokenring::endpoint::form_parts;

mod mock;
mod ran;
mod support;
use mock::Mock;
use ran::{Ran, code, command, run, text};
use support::{send, serve, serve_asked};

/// Metrics that an answer without tokens cannot have.
const OF_TOKENS: [&str; 14] = [
    "time_to_first_token",
    "time_to_second_token",
    "time_to_first_output_token",
    "inter_token_latency",
    "inter_chunk_latency",
    "output_sequence_length",
    "output_token_count",
    "output_token_throughput",
    "output_token_throughput_per_user",
    "e2e_output_token_throughput",
    "total_osl",
    "total_output_tokens",
    "usage_completion_tokens",
    "osl_mismatch_count",
];
const SIZE: [&str; 4] = ["--image-width-mean", "12", "--image-height-mean", "7"];

fn mock() -> Mock {
    Mock::start(&["--ttft-ms", "5"])
}

/// The bodies of the requests of a run against a server that says `answer`.
fn bodies(answer: &str, flags: &[&str]) -> (Ran, Vec<Vec<u8>>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeper = kept.clone();
    let answer = whole(answer);
    let addr = serve_asked(move |_, request| {
        keeper.lock().unwrap().push(request.to_vec());
        vec![send(answer.clone())]
    });
    let flags = [flags, &["--no-preflight", "--request-count", "2"]].concat();
    let ran = run(&addr.to_string(), &flags);
    let requests = kept.lock().unwrap().clone();
    (ran, requests)
}

fn whole(answer: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
        answer.len()
    )
}

fn body(request: &[u8]) -> &[u8] {
    let end = request
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    &request[end + 4..]
}

fn keys(body: &Value) -> Vec<&str> {
    body.as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// One request of an endpoint by its body, which is JSON.
fn asked(kind: &str, answer: &str, flags: &[&str]) -> Value {
    let flags = [&["--endpoint-type", kind], flags].concat();
    let (ran, requests) = bodies(answer, &flags);
    assert_eq!(ran.json["request_count"]["avg"], 2.0, "{kind}");
    serde_json::from_slice(body(&requests[0])).unwrap()
}

#[test]
fn each_endpoint_answers_and_has_no_metric_that_it_cannot_have() {
    let mock = mock();
    let audio = ["--audio-length-mean", "0.5"];
    let tei = ["--extra-inputs", "rankings:tei"];
    for (kind, flags, has_text, images) in [
        ("embeddings", &["-b", "3"][..], true, 0),
        ("chat_embeddings", &SIZE, true, 1),
        ("nim_embeddings", &SIZE, true, 1),
        ("nvclip", &SIZE, true, 1),
        ("nim_rankings", &[], true, 0),
        ("rankings", &tei, true, 0),
        ("cohere_rankings", &[], true, 0),
        ("hf_tei_rankings", &[], true, 0),
        ("image_retrieval", &SIZE, false, 1),
        ("image_generation", &[], true, 0),
        ("image_edit", &SIZE, true, 1),
        ("audio_transcription", &audio, false, 0),
    ] {
        let flags = [&["--endpoint-type", kind, "--request-count", "4"], flags].concat();
        let ran = run(&mock.url, &flags);
        let avg = |tag: &str| ran.json[tag]["avg"].as_f64();
        assert_eq!(avg("request_count"), Some(4.0), "{kind}");
        assert!(avg("error_request_count").is_none(), "{kind}");
        for tag in OF_TOKENS {
            assert!(ran.json[tag].is_null(), "{kind} {tag}");
            assert!(ran.records[0]["metrics"][tag].is_null(), "{kind} {tag}");
        }
        assert_eq!(avg("input_sequence_length").is_some(), has_text, "{kind}");
        let shown = (images > 0).then(|| f64::from(images));
        assert_eq!(avg("num_images"), shown, "{kind}");
        let throughput = avg("image_throughput").zip(avg("image_latency"));
        assert_eq!(throughput.is_some(), images > 0, "{kind}");
        let has_audio = kind == "audio_transcription";
        assert_eq!(avg("audio_duration"), has_audio.then_some(0.5), "{kind}");
        assert_eq!(avg("rtfx").is_some(), has_audio, "{kind}");
        let is_off = ran.stderr.contains("--streaming: answers of");
        assert_eq!(is_off, kind != "image_generation", "{kind}: {}", ran.stderr);
    }
}

#[test]
fn images_and_rtfx_are_over_the_latency() {
    let mock = Mock::start(&["--ttft-ms", "100"]);
    let flags = [
        "--endpoint-type",
        "image_retrieval",
        "--image-batch-size",
        "5",
    ];
    let ran = run(
        &mock.url,
        &[&flags[..], &SIZE, &["--request-count", "3"]].concat(),
    );
    for record in &ran.records {
        let value = |tag: &str| record["metrics"][tag]["value"].as_f64().unwrap();
        let latency = value("request_latency");
        assert_eq!(value("num_images"), 5.0);
        assert!((value("image_latency") - latency / 5.0).abs() < 1e-6);
        assert!((value("image_throughput") - 5e3 / latency).abs() < 1e-6);
    }
}

#[test]
fn lists_have_as_many_texts_as_the_batch() {
    let embedding = r#"{"data":[{"embedding":[0.5]}]}"#;
    let body = asked(
        "embeddings",
        embedding,
        &["-b", "3", "--extra-inputs", "dimensions:64"],
    );
    assert_eq!(keys(&body), ["model", "input", "dimensions"]);
    let input = body["input"].as_array().unwrap();
    assert_eq!(input.len(), 3);
    assert!(input[0] != input[1] && input[1] != input[2]);
    let body = asked("embeddings", embedding, &[]);
    assert_eq!(body["input"].as_array().unwrap().len(), 1);

    let body = asked("chat_embeddings", embedding, &[]);
    assert_eq!(keys(&body), ["messages", "model"]);
    assert!(body["messages"][0]["content"].is_string());

    let body = asked("nim_embeddings", embedding, &SIZE);
    let input = body["input"][0].as_str().unwrap();
    let (words, image) = input.rsplit_once(' ').unwrap();
    assert!(
        !words.is_empty() && image.starts_with("data:image/png;base64,"),
        "{input}"
    );
}

#[test]
fn a_ranking_has_a_query_and_ten_passages() {
    let lengths = ["--rankings-query-prompt-token-mean", "4"];
    let nim = asked(
        "nim_rankings",
        r#"{"rankings":[{"index":0,"logit":1}]}"#,
        &lengths,
    );
    assert_eq!(keys(&nim), ["model", "query", "passages"]);
    assert!(nim["query"]["text"].is_string() && nim["passages"][9]["text"].is_string());
    assert_eq!(nim["passages"].as_array().unwrap().len(), 10);

    let answer = r#"{"results":[{"index":0,"relevance_score":0.5}]}"#;
    let cohere = asked("cohere_rankings", answer, &["-b", "4"]);
    assert_eq!(keys(&cohere), ["model", "query", "documents"]);
    assert!(cohere["query"].is_string());
    assert_eq!(cohere["documents"].as_array().unwrap().len(), 4);

    let passages = ["--rankings-passages-mean", "3"];
    let tei = asked("hf_tei_rankings", r#"[{"index":0,"score":0.5}]"#, &passages);
    assert_eq!(keys(&tei), ["query", "texts"]);
    assert_eq!(tei["texts"].as_array().unwrap().len(), 3);
}

#[test]
fn the_input_of_a_ranking_is_its_query_and_its_passages() {
    let mock = mock();
    let flags = [
        "--endpoint-type",
        "cohere_rankings",
        "--rankings-passages-mean",
        "3",
        "--rankings-passages-prompt-token-mean",
        "20",
        "--rankings-query-prompt-token-mean",
        "6",
        "--request-count",
        "3",
    ];
    let ran = run(&mock.url, &flags);
    assert_eq!(ran.json["input_sequence_length"]["min"], 66.0);
    assert_eq!(ran.json["input_sequence_length"]["max"], 66.0);
}

/// Width and height of an image of a data URL.
fn decoded(url: &str) -> (u32, u32) {
    let (head, data) = url.split_once(";base64,").unwrap();
    let bytes = STANDARD.decode(data).unwrap();
    let format = match head {
        "data:image/png" => image::ImageFormat::Png,
        "data:image/jpeg" => image::ImageFormat::Jpeg,
        other => panic!("{other}"),
    };
    let picture = image::load_from_memory_with_format(&bytes, format).unwrap();
    (picture.width(), picture.height())
}

#[test]
fn a_chat_has_parts_where_it_holds_more_than_one_text() {
    let answer = r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}"#;
    let flags = [
        "--no-streaming",
        "--image-format",
        "jpeg",
        "--audio-length-mean",
        "0.1",
    ];
    let body = asked("chat", answer, &[&flags[..], &SIZE].concat());
    let content = body["messages"][0]["content"].as_array().unwrap();
    let kinds: Vec<&Value> = content.iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, ["text", "image_url", "input_audio"]);
    assert!(content[0]["text"].is_string());
    assert_eq!(
        decoded(content[1]["image_url"]["url"].as_str().unwrap()),
        (12, 7)
    );
    let audio = &content[2]["input_audio"];
    assert_eq!(audio["format"], "wav");
    let wav = STANDARD.decode(audio["data"].as_str().unwrap()).unwrap();
    // A tenth of a second of 16000 samples of 16 bits.
    assert_eq!((&wav[..4], wav.len()), (&b"RIFF"[..], 44 + 3_200));

    let alone = asked("chat", answer, &["--no-streaming"]);
    assert!(alone["messages"][0]["content"].is_string());
    let two = asked("chat", answer, &["--no-streaming", "-b", "2"]);
    assert_eq!(two["messages"][0]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn images_go_out_as_items_or_as_files_of_a_form() {
    let data = r#"{"data":[{"b64_json":"AAAA"}]}"#;
    let body_ = asked(
        "image_retrieval",
        data,
        &[&SIZE[..], &["--batch-size-image", "2"]].concat(),
    );
    assert_eq!(keys(&body_), ["input"]);
    assert_eq!(body_["input"][1]["type"], "image_url");
    assert_eq!(decoded(body_["input"][1]["url"].as_str().unwrap()), (12, 7));

    let flags = [
        "--endpoint-type",
        "image_edit",
        "--extra-inputs",
        "size:256x256",
    ];
    let (ran, requests) = bodies(data, &[&flags[..], &SIZE].concat());
    let head = text(&requests[0]);
    assert!(
        head.contains("Content-Type: multipart/form-data; boundary="),
        "{head}"
    );
    assert!(head.starts_with("POST /v1/images/edits "), "{head}");
    let parts = form_parts(body(&requests[0])).unwrap();
    let field = |name: &str| parts.iter().find(|part| part.name == name).unwrap().bytes;
    assert_eq!(
        (field("model"), field("size")),
        (&b"m"[..], &b"256x256"[..])
    );
    assert!(!field("prompt").is_empty());
    assert!(image::load_from_memory(field("image")).is_ok());
    assert_eq!(ran.json["num_images"]["avg"], 1.0);

    let flags = [
        "--endpoint-type",
        "audio_transcription",
        "--audio-length-mean",
        "0.2",
    ];
    let (_, requests) = bodies(r#"{"text":""}"#, &flags);
    let parts = form_parts(body(&requests[0])).unwrap();
    let names: Vec<_> = parts
        .iter()
        .map(|part| (part.name, part.filename))
        .collect();
    assert_eq!(names, [("model", None), ("file", Some("audio-0.wav"))]);
    assert_eq!(parts[1].bytes.len(), 44 + 6_400);
}

#[test]
fn partial_images_are_events_and_no_tokens() {
    let mock = mock();
    let flags = [
        "--endpoint-type",
        "image_generation",
        "--request-count",
        "3",
    ];
    let partial = [
        "--extra-inputs",
        "partial_images:3",
        "--export-level",
        "raw",
    ];
    let ran = run(&mock.url, &[&flags[..], &partial].concat());
    assert_eq!(ran.json["request_count"]["avg"], 3.0);
    assert!(ran.json["time_to_first_token"].is_null());
    let body = asked(
        "image_generation",
        r#"{"data":[{"url":"http://x"}]}"#,
        &["--no-streaming"],
    );
    assert_eq!(keys(&body), ["prompt", "model", "response_format", "n"]);
    assert_eq!(
        (&body["response_format"], &body["n"]),
        (&json!("b64_json"), &json!(1))
    );
}

#[test]
fn an_answer_without_what_was_asked_for_is_an_error_of_its_own() {
    let chat = r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}"#;
    let inside = r#"{"error":{"message":"no room","type":"overloaded","code":503}}"#;
    for (kind, answer, name) in [
        ("embeddings", chat, "wrong_answer"),
        ("embeddings", r#"{"data":[]}"#, "no_content"),
        (
            "embeddings",
            r#"{"data":[{"embedding":[]}]}"#,
            "wrong_answer",
        ),
        ("embeddings", inside, "overloaded"),
        ("embeddings", "<html>", "invalid_body"),
        ("nim_rankings", r#"{"rankings":[]}"#, "no_content"),
        (
            "cohere_rankings",
            r#"{"rankings":[{"index":0}]}"#,
            "wrong_answer",
        ),
        (
            "cohere_rankings",
            r#"{"results":[{"index":0}]}"#,
            "wrong_answer",
        ),
        ("hf_tei_rankings", chat, "wrong_answer"),
        ("hf_tei_rankings", "[]", "no_content"),
        (
            "image_generation",
            r#"{"data":[{"b64_json":""}]}"#,
            "wrong_answer",
        ),
    ] {
        let answer = whole(answer);
        let addr = serve(move |_| vec![send(answer.clone())]);
        let flags = [
            "--endpoint-type",
            kind,
            "--no-preflight",
            "--request-count",
            "2",
        ];
        let dir = tempfile::tempdir().unwrap();
        let flags = [&flags[..], &["--no-streaming"]].concat();
        let output = command(&addr.to_string(), dir.path(), &flags)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{kind}");
        let lines = std::fs::read_to_string(dir.path().join("profile_export.jsonl")).unwrap();
        let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(first["error"]["type"], name, "{kind}: {}", first["error"]);
    }
}

#[test]
fn what_cannot_be_sent_is_refused_before_anything_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (flags, told) in [
        (
            &["--image-width-mean", "0", "--image-height-mean", "9"][..],
            "--image-width-mean: an",
        ),
        (
            &["--image-width-mean", "99999", "--image-height-mean", "9"],
            "--image-width-mean: 9999",
        ),
        (
            &["--audio-format", "mp3", "--audio-length-mean", "1"],
            "--audio-format: mp3 needs",
        ),
        (&["--video-width", "64"], "--video-width: no small encoder"),
        (&["--image-source", path], "has no file that ends in .png"),
        (
            &["--image-source", "/nowhere/at/all"],
            "--image-source: /nowhere/at/all: ",
        ),
        (
            &["--endpoint-type", "image_edit"],
            "--image-width-mean: image_edit sends an image",
        ),
        (
            &["--endpoint-type", "completions", SIZE[0], "9", SIZE[2], "9"],
            "no place for images",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = command(
            "127.0.0.1:9",
            dir.path(),
            &[flags, &["--no-preflight"]].concat(),
        )
        .output()
        .unwrap();
        code(&output, 2);
        let stderr = text(&output.stderr);
        assert!(stderr.contains(told), "{flags:?}: {stderr}");
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "{flags:?}"
        );
    }
}

#[test]
fn a_folder_s_images_go_out_as_they_are_or_in_the_size_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (name, width) in [("a.png", 3), ("b.jpg", 5)] {
        image::RgbImage::new(width, 4)
            .save(folder.path().join(name))
            .unwrap();
    }
    let data = r#"{"data":[{"index":0}]}"#;
    let source = [
        "--image-source",
        folder.path().to_str().unwrap(),
        "--batch-size-image",
        "2",
    ];
    let order = ["--image-source-sampling", "sequential-cycle"];
    let sent = |flags: &[&str]| {
        let body = asked(
            "image_retrieval",
            data,
            &[&source[..], &order, flags].concat(),
        );
        let urls = body["input"].as_array().unwrap().iter();
        urls.map(|item| decoded(item["url"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(sent(&[]), [(3, 4), (5, 4)]);
    assert_eq!(sent(&SIZE), [(12, 7), (12, 7)]);
}

#[test]
fn a_dry_run_and_the_inputs_file_show_a_form_by_its_parts() {
    let dir = tempfile::tempdir().unwrap();
    let flags = [
        "--endpoint-type",
        "audio_transcription",
        "--audio-length-mean",
        "0.1",
    ];
    let dry = command(
        "127.0.0.1:9",
        dir.path(),
        &[&flags[..], &["--dry-run"]].concat(),
    );
    let output = { dry }.output().unwrap();
    code(&output, 0);
    let shown = text(&output.stdout);
    assert!(
        shown.contains(r#""filename":"audio-0.wav","bytes":3244"#),
        "{shown}"
    );
    assert!(
        shown.contains("--form-string 'model=m' -F 'file=@audio-0.wav'"),
        "{shown}"
    );
    assert!(!shown.contains("-H 'Content-Type"), "{shown}");

    let mock = mock();
    let flags = [&flags[..], &["--request-count", "2"]].concat();
    let output = command(&mock.url, dir.path(), &flags).output().unwrap();
    code(&output, 0);
    let inputs = std::fs::read(dir.path().join("inputs.json")).unwrap();
    let inputs: Value = serde_json::from_slice(&inputs).unwrap();
    assert_eq!(inputs["data"][0]["payloads"][0]["files"][0]["bytes"], 3_244);
}

#[test]
fn captured_answers_of_servers_are_read() {
    for (kind, bytes, name) in [
        (
            "embeddings",
            &include_bytes!("data/captures/vllm-cpu-emb.emb.raw")[..],
            None,
        ),
        (
            "cohere_rankings",
            include_bytes!("data/captures/vllm-cpu-emb.rerank.raw"),
            None,
        ),
        (
            "embeddings",
            include_bytes!("data/captures/llama-server.emb.raw"),
            Some("Not Implemented"),
        ),
    ] {
        let addr = serve(move |_| vec![send(bytes), support::Act::Close]);
        let flags = [
            "--endpoint-type",
            kind,
            "--no-preflight",
            "--request-count",
            "1",
        ];
        let dir = tempfile::tempdir().unwrap();
        let output = command(&addr.to_string(), dir.path(), &flags)
            .output()
            .unwrap();
        assert_eq!(
            output.status.success(),
            name.is_none(),
            "{}",
            text(&output.stderr)
        );
        let lines = std::fs::read_to_string(dir.path().join("profile_export.jsonl")).unwrap();
        let record: Value = serde_json::from_str(lines.trim()).unwrap();
        assert_eq!(record["error"]["type"].as_str(), name, "{record}");
        if name.is_none() {
            let prompt = record["metrics"]["usage_prompt_tokens"]["value"].as_f64();
            assert!(prompt.is_some_and(|count| count > 0.0), "{record}");
        }
    }
}

#[test]
fn a_sweep_over_the_batch_size_has_a_run_for_each() {
    let mock = mock();
    let dir = tempfile::tempdir().unwrap();
    let sweep = ["--sweep-type", "batch_size", "--sweep-list", "1,3"];
    let flags = [
        "--endpoint-type",
        "embeddings",
        "--request-count",
        "4",
        "--no-streaming",
    ];
    let mut analyze = std::process::Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
    analyze.args([
        "analyze",
        "-m",
        "m",
        "-u",
        &mock.url,
        "--tokenizer",
        "builtin",
    ]);
    analyze.args([
        "--no-gpu-telemetry",
        "--no-server-metrics",
        "--allow-invalid",
    ]);
    analyze.args([
        "--ui",
        "none",
        "--isl",
        "8",
        "--cores",
        "1",
        "--artifact-dir",
    ]);
    let output = analyze
        .arg(dir.path())
        .args(sweep)
        .args(flags)
        .output()
        .unwrap();
    code(&output, 0);
    let lengths: Vec<f64> = found(dir.path());
    assert_eq!(lengths, [8.0, 24.0]);
}

/// The mean input length of each run below a folder, ascending.
fn found(dir: &std::path::Path) -> Vec<f64> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(found(&path));
        } else if path
            .file_name()
            .is_some_and(|name| name == "profile_export_aiperf.json")
        {
            let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            all.extend(json["input_sequence_length"]["avg"].as_f64());
        }
    }
    all.sort_by(f64::total_cmp);
    all
}
