//! Every API of text, by the built binary against the mock, and what goes wrong with an endpoint.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

mod mock;
mod ran;
mod support;
use mock::Mock;
use ran::{Ran, code, command, run, text};
use support::{CHUNKED, chunk, send, serve, serve_asked};

/// A payload of the user's, in a shape that the mock knows.
const TEMPLATE: &str = r#"payload_template:{"prompt": {{ text|tojson }},
    "model": {{ model|tojson }}, "max_tokens": {{ max_tokens }}, "stream": {{ stream|tojson }}}"#;

/// Each type with what it takes beside that; whether usage comes in a stream, and in a whole one.
const TYPES: [(&str, &[&str], [bool; 2]); 12] = [
    ("chat", &[], [true, true]),
    ("vision", &[], [true, true]),
    ("completions", &[], [true, true]),
    ("responses", &[], [true, true]),
    ("messages", &[], [true, true]),
    ("huggingface_generate", &[], [true, true]),
    ("huggingface_generate", &["--endpoint", "."], [true, true]),
    ("sglang_generate", &[], [true, true]),
    ("solido_rag", &[], [true, true]),
    ("template", &["--extra-inputs", TEMPLATE], [true, true]),
    ("triton-vllm", &[], [false, false]),
    ("generate", &[], [false, false]),
];

fn figure(ran: &Ran, tag: &str) -> Option<f64> {
    ran.json[tag]["avg"].as_f64()
}

/// A run of four requests for five tokens each.
fn of_type(url: &str, kind: &str, more: &[&str], streaming: bool) -> Ran {
    let mut flags = vec![
        "--endpoint-type",
        kind,
        "--osl",
        "5",
        "--request-count",
        "4",
    ];
    flags.extend(more);
    if !streaming {
        flags.push("--no-streaming");
    }
    run(url, &flags)
}

#[test]
fn every_type_has_its_counts_streaming_and_not() {
    let mock = Mock::start(&["--ttft-ms", "5", "--itl-ms", "2", "--tokens", "9"]);
    for (kind, more, usage) in TYPES {
        // The same API by another name, or at another place, is not asked twice for a whole answer.
        let is_again = kind == "vision" || more.first() == Some(&"--endpoint");
        let ways = [true, false].into_iter().zip(usage);
        for (streaming, usage) in ways.take(if is_again { 1 } else { 2 }) {
            let ran = of_type(&mock.url, kind, more, streaming);
            let told = format!("{kind} {more:?} {streaming}: {}", ran.stderr);
            assert_eq!(figure(&ran, "request_count"), Some(4.0), "{told}");
            assert_eq!(figure(&ran, "error_request_count"), None, "{told}");
            let length = if kind == "solido_rag" { 9.0 } else { 5.0 };
            assert_eq!(
                figure(&ran, "output_sequence_length"),
                Some(length),
                "{told}"
            );
            let ttft = figure(&ran, "time_to_first_token");
            assert_eq!(
                ttft.is_some_and(|ms| ms >= 5.0),
                streaming,
                "{told} {ttft:?}"
            );
            let gap = figure(&ran, "inter_token_latency");
            assert_eq!(gap.is_some_and(|ms| ms >= 1.0), streaming, "{told} {gap:?}");
            let counted = figure(&ran, "usage_completion_tokens");
            assert_eq!(counted, usage.then_some(length), "{told}");
        }
    }
}

#[test]
fn a_raw_run_sends_the_lines_of_its_file_as_they_are() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = bodies.clone();
    let addr = serve_asked(move |_, request| {
        let request = String::from_utf8(request.to_vec()).unwrap();
        kept.lock().unwrap().push(request);
        let event = |text| chunk(&format!("data: {{\"answer\":\"{text}\"}}\n\n"));
        vec![
            send(CHUNKED),
            send(event("one ")),
            send(event("two") + "0\r\n\r\n"),
        ]
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bodies.jsonl");
    let lines = ["{\"a\": 1,  \"q\":\"x\"}", "{\"b\":[2]}"];
    std::fs::write(&file, lines.join("\n\n")).unwrap();
    let file = file.to_str().unwrap();
    let flags = [
        "--endpoint-type",
        "raw",
        "--input-file",
        file,
        "--no-preflight",
    ];
    let more = ["--endpoint", "/own", "--custom-dataset-type", "raw_payload"];
    let ran = run(&addr.to_string(), &[&flags[..], &more].concat());
    assert_eq!(figure(&ran, "request_count"), Some(2.0), "{}", ran.stderr);
    assert_eq!(figure(&ran, "output_sequence_length"), Some(2.0));
    let bodies = bodies.lock().unwrap();
    for (body, line) in bodies.iter().zip(lines) {
        assert!(body.starts_with("POST /own HTTP/1.1\r\n"), "{body}");
        assert!(body.ends_with(&format!("\r\n\r\n{line}")), "{body}");
    }
}

/// The heads and bodies that a run of one request sends; the answers are none.
fn sent(flags: &[&str]) -> String {
    let bodies = Arc::new(Mutex::new(String::new()));
    let kept = bodies.clone();
    let addr = serve_asked(move |_, request| {
        *kept.lock().unwrap() = String::from_utf8(request.to_vec()).unwrap();
        vec![send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")]
    });
    let base = ["--no-preflight", "--request-count", "1", "--osl", "3", "-u"];
    let url = flags.iter().find(|flag| flag.starts_with('/')).copied();
    let url = format!("{addr}{}", url.unwrap_or_default());
    let dir = tempfile::tempdir().unwrap();
    let flags: Vec<&str> = flags
        .iter()
        .filter(|flag| !flag.starts_with('/'))
        .copied()
        .collect();
    let output = command(&url, dir.path(), &[&base[..5], &flags].concat()).output();
    let bodies = bodies.lock().unwrap();
    assert!(!bodies.is_empty(), "{}", text(&output.unwrap().stderr));
    bodies.clone()
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

#[test]
fn what_goes_out_has_each_api_s_own_members_and_headers() {
    let request = sent(&["--endpoint-type", "messages", "--api-key", "k3y"]);
    assert!(
        request.starts_with("POST /v1/messages HTTP/1.1\r\n"),
        "{request}"
    );
    for header in ["x-api-key: k3y\r\n", "anthropic-version: 2023-06-01\r\n"] {
        assert!(request.contains(header), "{request}");
    }
    assert!(!request.contains("Bearer"), "{request}");
    let sent_body = body(&request);
    assert_eq!(
        (&sent_body["max_tokens"], &sent_body["stream"]),
        (&json!(3), &json!(true))
    );

    let request = sent(&["--endpoint-type", "responses", "--use-server-token-count"]);
    let sent_body = body(&request);
    assert_eq!(sent_body["input"][0]["content"][0]["type"], "input_text");
    assert_eq!(sent_body["max_output_tokens"], 3);
    assert_eq!(sent_body["stream_options"]["include_usage"], true);
    let sent_body = body(&sent(&["--endpoint-type", "responses"]));
    assert_eq!(sent_body["stream_options"], Value::Null);

    let sent_body = body(&sent(&["--per-chunk-usage"]));
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    assert_eq!(sent_body["stream_options"], options);

    let request = sent(&["--endpoint-type", "triton-vllm", "-m", "org/a model"]);
    let path = "POST /v2/models/org%2Fa%20model/generate_stream HTTP/1.1\r\n";
    assert!(request.starts_with(path), "{request}");

    let azure = "/openai/deployments/gpt-4o?api-version=2024-10-21";
    let request = sent(&[azure, "-H", "api-key: s3cret"]);
    let path = "POST /openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21 HTTP/1.1";
    assert!(request.starts_with(path), "{request}");
    assert!(request.contains("api-key: s3cret\r\n"), "{request}");

    let embedqa = ["--endpoint-type", "template", "--extra-inputs"];
    let request = sent(&[&embedqa[..], &["payload_template:nv-embedqa"]].concat());
    assert!(request.starts_with("POST / HTTP/1.1\r\n"), "{request}");
}

#[test]
fn the_mock_takes_azure_s_paths_and_models_with_slashes() {
    let mock = Mock::start(&["--ttft-ms", "1", "--itl-ms", "1", "--model", "org/one"]);
    let url = format!("{}/openai/deployments/x?api-version=1", mock.url);
    for (url, kind) in [(&url, "chat"), (&mock.url, "triton-vllm")] {
        let ran = of_type(url, kind, &["-m", "org/one"], true);
        assert_eq!(figure(&ran, "request_count"), Some(4.0), "{}", ran.stderr);
    }
    // One that it does not have is named before the run.
    let dir = tempfile::tempdir().unwrap();
    for kind in ["messages", "responses", "sglang_generate", "triton-vllm"] {
        let flags = [
            "--endpoint-type",
            kind,
            "-m",
            "org/two",
            "--request-count",
            "2",
        ];
        let output = command(&mock.url, dir.path(), &flags).output().unwrap();
        if kind == "sglang_generate" {
            // Its bodies have no model.
            continue;
        }
        code(&output, 2);
        assert!(
            text(&output.stderr).contains("org/two"),
            "{}",
            text(&output.stderr)
        );
    }
}

/// A server with this one answer, to the probe too.
fn always(answer: &str) -> String {
    let whole = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}",
        answer.len()
    );
    serve(move |_| vec![send(&whole)]).to_string()
}

/// What the first request of a run has failed with.
fn failure(url: &str, flags: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let asked = [flags, &["--no-preflight", "--request-count", "2"]].concat();
    let output = command(url, dir.path(), &asked).output().unwrap();
    let lines = std::fs::read_to_string(dir.path().join("profile_export.jsonl"));
    let lines = lines.unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let record: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    record["error"]["type"].clone()
}

fn refused(url: &str, dir: &Path, flags: &[&str], expected: &str) -> Output {
    let output = command(url, dir, flags).output().unwrap();
    code(&output, 2);
    let told = text(&output.stderr);
    assert!(told.contains(expected), "{flags:?}: {told}");
    output
}

#[test]
fn another_api_s_answer_is_named_before_the_run_and_as_a_failure() {
    let chat = r#"{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}"#;
    let url = always(chat);
    let dir = tempfile::tempdir().unwrap();
    for kind in ["messages", "triton-vllm"] {
        let flags = ["--endpoint-type", kind, "--no-streaming"];
        refused(&url, dir.path(), &flags, "one of --endpoint-type chat");
        assert_eq!(failure(&url, &flags), "wrong_endpoint", "{kind}");
    }
    // A stream is told by its events.
    let event = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n\
                 event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\
                 \"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n";
    let answer = format!("{CHUNKED}{}0\r\n\r\n", chunk(event));
    let url = serve(move |_| vec![send(&answer)]).to_string();
    refused(&url, dir.path(), &[], "one of --endpoint-type messages");
    assert_eq!(failure(&url, &[]), "wrong_endpoint");
}

#[test]
fn a_place_where_nothing_stands_is_an_error_of_its_own_and_said_early() {
    let url = always(r#"{"data":{"texts":["one","two"]},"usage":{"prompt_tokens":3}}"#);
    let dir = tempfile::tempdir().unwrap();
    let flags = |place: &'static str| {
        let template = "payload_template:{\"text\": {{ text|tojson }}}";
        ["--endpoint-type", "template", "--no-streaming"]
            .into_iter()
            .chain(["--extra-inputs", template, "--extra-inputs", place])
            .collect::<Vec<&str>>()
    };
    let mut good = flags("response_field:data.texts[1]");
    good.extend(["--request-count", "2"]);
    let ran = run(&url, &good);
    assert_eq!(figure(&ran, "request_count"), Some(2.0), "{}", ran.stderr);
    assert_eq!(figure(&ran, "output_sequence_length"), Some(1.0));
    let wrong = flags("response_field:data.words");
    refused(
        &url,
        dir.path(),
        &wrong,
        "response_field:data.words matches nothing",
    );
    assert_eq!(failure(&url, &wrong), "no_match");
}

#[test]
fn a_template_that_is_none_is_refused_with_its_line_before_anything_is_sent() {
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let addr = serve(move |_| {
        *count.lock().unwrap() += 1;
        vec![]
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body.jinja");
    let file = file.to_str().unwrap();
    let given = format!("payload_template:{file}");
    let at = |line: u32| format!("body.jinja:{line}");
    for (template, expected) in [
        ("{\n\"a\": {{ text|tojson }\n}", at(2)),
        ("{\n\n\"a\": {{ nobody.knows }}}", at(3)),
        ("{\"a\": {{ text|nofilter }}}", at(1)),
        ("{\"a\": {{ text }}}", "is no JSON".into()),
        ("[{{ text|tojson }}]", "no JSON object".into()),
    ] {
        std::fs::write(file, template).unwrap();
        let flags = ["--endpoint-type", "template", "--extra-inputs", &given];
        let output = refused(&addr.to_string(), dir.path(), &flags, &expected);
        assert!(text(&output.stderr).contains("payload_template"));
    }
    for (kind, extra, expected) in [
        ("template", "x:1", "needs payload_template"),
        ("template", "payload_template:no.such.file", "no.such.file"),
        ("raw", "x:1", "response_field only"),
        ("raw", "response_field:a", "--input-file"),
        ("dynamic_grpc", "x:1", "is not HTTP"),
        ("tensorrtllm_engine", "x:1", "is not HTTP"),
    ] {
        let flags = ["--endpoint-type", kind, "--extra-inputs", extra];
        refused(&addr.to_string(), dir.path(), &flags, expected);
    }
    let template = ["--extra-inputs", "payload_template:{}", "--extra-inputs"];
    let flags = [
        &["--endpoint-type", "template"],
        &template[..],
        &["response_field:a[["],
    ];
    refused(
        &addr.to_string(),
        dir.path(),
        &flags.concat(),
        "is no JMESPath",
    );
    let fixed = ["--osl", "4", "--output-tokens-mean-deterministic"];
    let flags = [&["--endpoint-type", "huggingface_generate"], &fixed[..]].concat();
    refused(
        &addr.to_string(),
        dir.path(),
        &flags,
        "no member that fixes",
    );
    assert_eq!(*asked.lock().unwrap(), 0);
}

#[test]
fn the_end_of_a_stream_that_has_one_is_missed() {
    let mock = Mock::start(&[
        "--ttft-ms",
        "1",
        "--itl-ms",
        "1",
        "--fault",
        "no-done:1",
        "--usage",
        "off",
    ]);
    for kind in ["messages", "responses"] {
        let flags = ["--endpoint-type", kind, "--osl", "5"];
        assert_eq!(failure(&mock.url, &flags), "stream_truncated", "{kind}");
    }
}

#[test]
fn a_text_that_repeats_itself_counts_once() {
    let event = |text: &str, end: &str| {
        chunk(&format!(
            "data: {{\"text\":\"{text}\",\"meta_info\":{{{end}}}}}\n\n"
        ))
    };
    let answer = [
        CHUNKED.to_string(),
        event("one", ""),
        event("one two", ""),
        event("one two", ""),
        event("one two three", ""),
        event(
            "one two three",
            "\"finish_reason\":{\"type\":\"stop\"},\"prompt_tokens\":8,\"completion_tokens\":3",
        ),
        chunk("data: [DONE]\n\n") + "0\r\n\r\n",
    ];
    let url = serve(move |_| vec![send(answer.concat())]).to_string();
    let ran = run(
        &url,
        &["--endpoint-type", "sglang_generate", "--request-count", "1"],
    );
    assert_eq!(
        figure(&ran, "output_sequence_length"),
        Some(3.0),
        "{}",
        ran.stderr
    );
    assert_eq!(figure(&ran, "usage_prompt_tokens"), Some(8.0));
    let ran = run(
        &url,
        &[
            "--endpoint-type",
            "sglang_generate",
            "--request-count",
            "1",
            "--token-count",
            "client",
        ],
    );
    assert_eq!(
        figure(&ran, "output_sequence_length"),
        Some(3.0),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_page_of_endpoints_has_them_all_and_shows_code_that_is_there() {
    let page = include_str!("../docs/endpoints.md");
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for api in tokenring::config::Api::all() {
        let cell = format!("| `{}`", api.name());
        let row = rows.iter().find(|row| row.starts_with(&cell));
        let streams = row.unwrap_or_else(|| panic!("no row of {}", api.name()));
        let streams = streams.split('|').nth(3).map(str::trim);
        assert_eq!(
            streams.map(|cell| cell.starts_with("yes")),
            Some(api.streams()),
            "{cell}"
        );
    }
    let shown = page
        .split("```rust\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let code = include_str!("../src/endpoint/solido.rs");
    assert!(
        code.contains(shown.trim_end()),
        "docs/endpoints.md shows other code"
    );
}
