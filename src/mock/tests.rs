//! The server as a client in the same process sees it.

use super::options::LineEnd;
use super::{Faults, MockError, Options, run};
use crate::base::Ns;
use crate::endpoint::stamp;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::Duration;

/// Runs the mock on a free port while `client` talks to it.
fn with_mock(options: Options, client: impl FnOnce(SocketAddr)) {
    let options = Options {
        port: 0,
        handles_signals: false,
        ..options
    };
    let stop = std::sync::Arc::clone(&options.stop);
    let (told, address) = mpsc::channel();
    let server = std::thread::spawn(move || run(options, |at| told.send(at).unwrap()));
    client(address.recv().unwrap());
    stop.store(true, Relaxed);
    server.join().unwrap().unwrap();
}

fn fast() -> Options {
    Options {
        ttft: Ns::from_ms(2),
        itl: Ns::from_ms(1),
        ..Options::default()
    }
}

/// All bytes until the server closes: the request asks for that.
fn exchange(at: SocketAddr, method: &str, path: &str, body: &str) -> (String, std::io::Result<()>) {
    let mut socket = TcpStream::connect(at).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\nx-request-id: 1\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut bytes = Vec::new();
    let end = socket.read_to_end(&mut bytes).map(drop);
    (String::from_utf8(bytes).unwrap(), end)
}

fn call(at: SocketAddr, method: &str, path: &str, body: &str) -> (String, String) {
    let (text, end) = exchange(at, method, path, body);
    end.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn chat(at: SocketAddr, body: &str) -> (String, String) {
    call(at, "POST", "/v1/chat/completions", body)
}

fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&tail[..size]);
        rest = &tail[size + 2..];
    }
    whole
}

fn datas(stream: &str) -> Vec<String> {
    unchunked(stream)
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .map(str::to_owned)
        .collect()
}

const STREAMED: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,
    "stream":true,"stream_options":{"include_usage":true}}"#;

#[test]
fn a_chat_stream_has_role_tokens_finish_usage_and_done() {
    with_mock(fast(), |at| {
        let (head, body) = chat(at, STREAMED);
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"));
        let events = datas(&body);
        assert_eq!(events.len(), 1 + 5 + 1 + 1 + 1);
        assert_eq!(events.last().unwrap(), "[DONE]");
        let json = |i: usize| serde_json::from_str::<Value>(&events[i]).unwrap();
        assert_eq!(json(0)["choices"][0]["delta"]["role"], "assistant");
        assert_eq!(json(1)["choices"][0]["delta"]["content"], " the");
        assert_eq!(json(1)["model"], "m");
        assert_eq!(json(6)["choices"][0]["finish_reason"], "length");
        assert_eq!(json(7)["usage"]["completion_tokens"], 5);
        let (first, sent) = stamp::find(events[1].as_bytes()).unwrap();
        let (fifth, _) = stamp::find(events[5].as_bytes()).unwrap();
        assert_eq!(fifth.since(first), Some(Ns::from_ms(4)));
        assert!(sent >= first);
    });
}

#[test]
fn bodies_models_errors_and_stats_are_served() {
    let options = Options {
        model: "m".to_owned(),
        prompt_tokens: Some(9),
        ..fast()
    };
    with_mock(options, |at| {
        let (_, body) = chat(
            at,
            r#"{"model":"m","messages":[],"max_completion_tokens":3}"#,
        );
        let value: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["choices"][0]["message"]["content"], " the of and");
        assert_eq!(value["usage"]["total_tokens"], 12);
        let (_, models) = call(at, "GET", "/v1/models", "");
        assert!(models.contains("\"id\":\"m\""));
        assert!(call(at, "GET", "/nope", "").0.starts_with("HTTP/1.1 404"));
        assert!(chat(at, r#"{"model":"x"}"#).0.starts_with("HTTP/1.1 404"));
        assert!(chat(at, "{").0.starts_with("HTTP/1.1 400"));
        let (_, stats) = call(at, "GET", "/stats", "");
        let stats: Value = serde_json::from_str(&stats).unwrap();
        assert_eq!(stats["requests"], 2);
        assert_eq!(stats["completed"], 2);
        assert_eq!(stats["request_ids"], 6);
        assert_eq!(stats["status"]["404"], 2);
        assert_eq!(stats["in_flight"], 0);
    });
}

#[test]
fn fragments_and_batches_give_the_same_text() {
    let variants = [
        fast(),
        Options {
            fragment: Some(3),
            ..fast()
        },
        Options {
            unpaced: true,
            batch: 16,
            threads: 2,
            ..fast()
        },
    ];
    for options in variants {
        with_mock(options, |at| {
            let body = r#"{"prompt":"a","max_tokens":70,"stream":true}"#;
            let (_, stream) = call(at, "POST", "/v1/completions", body);
            let events = datas(&stream);
            assert_eq!(events.len(), 72);
            let text: String = events[..70]
                .iter()
                .map(|event| serde_json::from_str::<Value>(event).unwrap())
                .map(|event| event["choices"][0]["text"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(text, super::render::words(0, 70));
        });
    }
}

#[test]
fn reasoning_splits_chunks_at_its_border() {
    let options = Options {
        reasoning: 3,
        tokens_per_chunk: 2,
        ..fast()
    };
    with_mock(options, |at| {
        let (_, body) = chat(at, STREAMED);
        let deltas: Vec<Value> = datas(&body)[1..4]
            .iter()
            .map(|event| serde_json::from_str::<Value>(event).unwrap())
            .map(|event| event["choices"][0]["delta"].clone())
            .collect();
        assert_eq!(deltas[0]["reasoning_content"], " the of");
        assert_eq!(deltas[1]["reasoning_content"], " and");
        assert_eq!(deltas[2]["content"], " to in");
    });
}

#[test]
fn triton_answers_in_its_own_shapes() {
    with_mock(fast(), |at| {
        let ask = r#"{"text_input":"hi","parameters":{"max_tokens":2}}"#;
        let (_, body) = call(at, "POST", "/v2/models/m/generate", ask);
        let value: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["text_output"], " the of");
        let (_, stream) = call(at, "POST", "/v2/models/m/generate_stream", ask);
        let events = datas(&stream);
        assert_eq!(events.len(), 2);
        assert!(stamp::find(events[1].as_bytes()).is_some());
    });
}

#[test]
fn faults_break_the_stream_as_named() {
    let with = |faults| Options { faults, ..fast() };
    let none = Faults::default();
    with_mock(with(Faults { cut: 1.0, ..none }), |at| {
        let (text, end) = exchange(at, "POST", "/v1/chat/completions", STREAMED);
        assert!(end.is_ok() && text.contains(" the") && !text.contains("[DONE]"));
        assert!(!text.ends_with("0\r\n\r\n"));
    });
    with_mock(with(Faults { reset: 1.0, ..none }), |at| {
        let (_, end) = exchange(at, "POST", "/v1/chat/completions", STREAMED);
        assert!(end.is_err());
    });
    let faults = Faults {
        error_in_stream: 1.0,
        ..none
    };
    with_mock(with(faults), |at| {
        let (_, body) = chat(at, STREAMED);
        assert!(datas(&body).last().unwrap().starts_with("{\"error\""));
    });
    let faults = Faults {
        status: 1.0,
        retry_after_s: Some(2),
        ..none
    };
    with_mock(with(faults), |at| {
        let (head, _) = chat(at, STREAMED);
        assert!(head.starts_with("HTTP/1.1 429") && head.contains("retry-after: 2"));
    });
    with_mock(
        with(Faults {
            no_done: 1.0,
            ..none
        }),
        |at| {
            let (_, body) = chat(at, STREAMED);
            assert!(!body.contains("[DONE]") && body.ends_with("0\r\n\r\n"));
        },
    );
    with_mock(with(Faults { empty: 1.0, ..none }), |at| {
        let (_, body) = chat(at, STREAMED);
        assert!(!body.contains(" the") && body.contains("[DONE]"));
    });
}

#[test]
fn a_concurrency_limit_queues_and_a_request_limit_ends() {
    let options = Options {
        concurrency_limit: Some(1),
        requests_limit: Some(4),
        line_end: LineEnd::CrLf,
        keepalive: Some(Ns::from_ms(1)),
        threads: 2,
        port: 0,
        handles_signals: false,
        ..fast()
    };
    let (told, address) = mpsc::channel();
    let server = std::thread::spawn(move || run(options, |at| told.send(at).unwrap()));
    let at = address.recv().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (_, body) = chat(at, STREAMED);
                assert!(unchunked(&body).contains("data: [DONE]\r\n\r\n"));
            });
        }
    });
    server.join().unwrap().unwrap();
}

#[test]
fn a_kept_alive_connection_serves_pipelined_requests() {
    with_mock(fast(), |at| {
        let mut socket = TcpStream::connect(at).unwrap();
        let one = "GET /health HTTP/1.1\r\n\r\n";
        let last = "GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n";
        socket
            .write_all(format!("{one}{one}{last}").as_bytes())
            .unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3);
    });
}

#[test]
fn clients_that_leave_an_unpaced_stream_count_as_aborted_and_harm_nobody() {
    let options = Options {
        unpaced: true,
        ..fast()
    };
    with_mock(options, |at| {
        let body = r#"{"prompt":"a","max_tokens":1000000,"stream":true}"#;
        for _ in 0..8 {
            let mut socket = TcpStream::connect(at).unwrap();
            write!(
                socket,
                "POST /v1/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            socket.read_exact(&mut [0; 4096]).unwrap();
        }
        let aborted = || {
            let (_, stats) = call(at, "GET", "/stats", "");
            let stats: Value = serde_json::from_str(&stats).unwrap();
            (stats["aborted"].as_u64(), stats["in_flight"].as_u64())
        };
        // A close takes a moment to arrive.
        let arrived = (0..2_000).any(|_| aborted() == (Some(8), Some(0)));
        assert!(arrived, "{:?}", aborted());
    });
}

#[test]
fn options_out_of_range_are_refused() {
    let options = Options {
        batch: 0,
        ..Options::default()
    };
    let refused = run(options, |_| ());
    assert!(matches!(
        refused,
        Err(MockError::Option { name: "batch", .. })
    ));
}

#[test]
fn a_port_that_another_mock_listens_on_is_refused() {
    let threads = |threads, port| Options {
        threads,
        port,
        handles_signals: false,
        ..fast()
    };
    with_mock(threads(2, 0), |at| {
        for count in [1, 2] {
            let error = run(threads(count, at.port()), |_| ())
                .unwrap_err()
                .to_string();
            assert!(error.contains(&at.port().to_string()), "{error}");
        }
    });
}

#[test]
fn gaps_grow_with_the_requests_in_flight_and_a_cliff_delays_the_first_token() {
    let options = Options {
        ttft: Ns::from_ms(20),
        itl: Ns::from_ms(1),
        itl_per_stream: Ns::from_ms(2),
        cliff: Some(super::Cliff { at: 1, factor: 5.0 }),
        ..Options::default()
    };
    // First and last stamp of a stream: intended times, whatever the machine does.
    let stamps = |body: &str| {
        let events = datas(body);
        let at = |event: usize| stamp::find(events[event].as_bytes()).unwrap().0;
        (at(1), at(5))
    };
    with_mock(options, |at| {
        let (first, last) = stamps(&chat(at, STREAMED).1);
        // Alone: 1 + 2 ms.
        assert_eq!(last.since(first), Some(Ns::from_ms(12)));
        // Two of them, and the longer one is in flight all the while.
        let long = STREAMED.replace("\"max_tokens\":5", "\"max_tokens\":400");
        let other = std::thread::spawn(move || chat(at, &long));
        let in_flight = || {
            let (_, body) = call(at, "GET", "/stats", "");
            serde_json::from_str::<Value>(&body).unwrap()["in_flight"].as_u64()
        };
        while in_flight() != Some(1) {
            std::thread::yield_now();
        }
        let begin = crate::base::now();
        let (first, last) = stamps(&chat(at, STREAMED).1);
        assert_eq!(last.since(first), Some(Ns::from_ms(20)));
        assert!(first.saturating_since(begin) >= Ns::from_ms(100));
        other.join().unwrap();
    });
}
