//! Failures that people met with load generators, as inputs with the right value. Times are the
//! server's own waits, so a bound from below is exact and one from above is generous.

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use support::*;
use tokenring::base::{Ns, limits};
use tokenring::engine::{GatePlan, PhasePlan, RequestLimits};
use tokenring::schedule::Law;
use tokenring::stats::{FailureKind, Phase, Record, Stage};

fn failure(record: &Record) -> (FailureKind, &str) {
    let failure = record.failure.as_ref().expect("a failure");
    (failure.kind, failure.name.as_str())
}

fn data(text: &str) -> String {
    format!("data: {text}\n\n")
}

#[test]
fn several_events_in_one_read_share_its_time() {
    let three = [ev("a"), ev("b"), ev("c")]
        .map(|event| data(&event))
        .concat();
    let record = one(vec![
        send(CHUNKED),
        Act::Wait(100),
        send(chunk(&three)),
        Act::Wait(30),
        send(chunk("data: [DONE]\n\n") + "0\r\n\r\n"),
    ]);
    assert_eq!(record.failure, None);
    assert_eq!(record.events_count, 3);
    let times = &record.buffers.content_times;
    assert!(times.iter().all(|&at| at == times[0]));
    assert!(ms(&record, record.first_content) >= 100.0);
    assert_eq!(record.first_content, record.last_content);
    assert!(record.done > record.last_content.unwrap());
}

#[test]
fn comments_before_the_first_token_are_not_it() {
    let record = one(vec![
        send(STREAM),
        send(": PROCESSING\n\n"),
        Act::Wait(60),
        send(":\n\nid: 7\n: ping\n\nevent: keepalive\n\n"),
        Act::Wait(60),
        send(data(&ev("hi")) + "data: [DONE]\n\n"),
        Act::Close,
    ]);
    assert_eq!(record.failure, None);
    assert_eq!(record.events_count, 1);
    assert!(ms(&record, record.first_content) >= 120.0);
    assert!(ms(&record, record.first_byte) < ms(&record, record.first_content));
}

#[test]
fn how_a_stream_may_end() {
    let hello = data(&ev("Hello"));
    let finish = data(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    let done = data("[DONE]");
    let end = "0\r\n\r\n";
    let ended = |events: String, tail: &str, last: Act| {
        one(vec![send(CHUNKED), send(chunk(&events)), send(tail), last])
    };
    let well = |record: &Record| {
        assert_eq!(record.failure, None);
        (record.done_missing, record.finish_reason_missing)
    };
    let keep = || Act::Wait(0);
    assert_eq!(
        well(&ended(format!("{hello}{finish}{done}"), end, keep())),
        (false, false)
    );
    assert_eq!(
        well(&ended(format!("{hello}{finish}"), end, keep())),
        (true, false)
    );
    assert_eq!(
        well(&ended(format!("{hello}{done}"), end, keep())),
        (false, true)
    );
    let cut = ended(hello.clone(), end, keep());
    assert_eq!(failure(&cut), (FailureKind::Stream, "stream_truncated"));
    let short = ended(hello.clone(), "", Act::Close);
    assert_eq!(failure(&short), (FailureKind::Stream, "incomplete_body"));
    let empty = ended(done.clone(), end, keep());
    assert_eq!(failure(&empty), (FailureKind::Stream, "no_content"));
    assert_eq!(empty.first_content, None);
    let reset = one(vec![
        send(CHUNKED),
        send(chunk(&format!("{hello}{done}"))),
        Act::Wait(50),
        Act::Reset,
    ]);
    assert_eq!(reset.failure, None);
}

/// A whole answer of one content event, ended in order.
fn answer(text: &str) -> String {
    CHUNKED.to_string() + &chunk(&(data(&ev(text)) + &data("[DONE]"))) + "0\r\n\r\n"
}

#[test]
fn nothing_that_comes_after_done_moves_a_time_or_fails_the_request() {
    let (hello, done) = (data(&ev("Hello")), data("[DONE]"));
    let error = data(r#"{"error":{"message":"late","code":500}}"#);
    let late = data(&ev("late"));
    for after in [
        chunk(&late) + "0\r\n\r\n",
        chunk(&error) + "0\r\n\r\n",
        chunk("data: no json\n\n") + "0\r\n\r\n",
        "zz\r\n".into(),
        chunk(&late),
        chunk(&done) + &chunk(&late),
    ] {
        for same_read in [true, false] {
            let mut script = vec![send(CHUNKED), send(chunk(&format!("{hello}{done}")))];
            if !same_read {
                script.push(Act::Wait(20));
            }
            script.extend([send(&after), Act::Wait(20), Act::Close]);
            let record = one(script);
            assert_eq!(record.failure, None, "{after:?}");
            assert_eq!(record.buffers.answer, b"Hello", "{after:?}");
            assert_eq!((record.events_count, record.done_missing), (1, false));
        }
    }
}

#[test]
fn a_body_that_does_not_end_after_done_ends_at_it_and_its_connection_is_not_used_again() {
    for ring in [true, false] {
        let addr = serve(|_| {
            let events = data(&ev("a")) + &data("[DONE]");
            vec![send(CHUNKED), Act::Wait(20), send(chunk(&events))]
        });
        let (records, _) = run(&Ask {
            ring,
            ..Ask::new(addr, 2)
        });
        for record in &records {
            assert_eq!(record.failure, None);
            assert_eq!(record.last_content, Some(record.done));
        }
        assert!(records[1].connect_start.is_some());
        // The slot is free when the wait is over, not before; and then at once.
        let wait = records[1].due.saturating_since(records[0].done);
        assert!(wait >= limits::BODY_END_WAIT && wait < Ns::from_ms(10_000));
    }
}

#[test]
fn each_count_of_usage_is_the_last_one_that_is_not_null() {
    let usage = |counts: &str| data(&format!(r#"{{"choices":[],"usage":{counts}}}"#));
    let record = one(vec![
        send(CHUNKED),
        send(chunk(&data(&ev("a")))),
        send(chunk(&usage(
            r#"{"prompt_tokens":11,"completion_tokens":40}"#,
        ))),
        send(chunk(&usage(
            r#"{"completion_tokens":50.0,"prompt_tokens":null}"#,
        ))),
        send(chunk(&usage(r#"{"total_tokens":61}"#))),
        send(chunk(&(usage("null") + &data("[DONE]"))) + "0\r\n\r\n"),
    ]);
    let usage = record.usage;
    assert_eq!(
        (usage.prompt, usage.completion, usage.total),
        (Some(11), Some(50), Some(61))
    );
}

#[test]
fn several_choices_keep_alives_and_lone_halves_of_a_character_are_no_failure() {
    let second = r#"{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"b"}}]}"#;
    let events = [
        "event: ping\ndata: keep\n\n".to_string(),
        "data:   \n\ndata:\ndata:\n\n".into(),
        data(r#"{"choices":[{"delta":{"content":"\ud83d"},"tool_calls":[{}]}],"error":false}"#),
        data(second),
        data("[DONE]"),
    ];
    let record = one(vec![
        send(CHUNKED),
        send(chunk(&events.concat()) + "0\r\n\r\n"),
    ]);
    assert_eq!(record.failure, None);
    assert_eq!(record.events_count, 2);
    let text = tokenring::endpoint::unescape(&record.buffers.answer);
    assert_eq!(text, "\u{fffd}b");
}

#[test]
fn any_2xx_with_folded_headers_may_carry_a_good_stream() {
    let head = "HTTP/1.1 201 Created\r\nContent-Type:\r\n text/event-stream;\r\n\tx=y\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let record = one(vec![send(answer("a").replace(CHUNKED, head))]);
    assert_eq!(record.failure, None);
    assert_eq!((record.status, record.events_count), (Some(201), 1));
}

#[test]
fn an_answer_that_nobody_asked_for_is_never_that_of_the_next_request() {
    for ring in [true, false] {
        let told = Arc::new(AtomicBool::new(false));
        let flag = told.clone();
        let addr = serve(move |n| match n {
            0 => vec![
                send(answer("a")),
                Act::Wait(20),
                send(answer("stray")),
                Act::Tell(flag.clone()),
            ],
            _ => vec![send(answer("b"))],
        });
        let (records, _) = run(&Ask {
            ring,
            hold: Some(told),
            ..Ask::new(addr, 2)
        });
        let texts: Vec<&[u8]> = records.iter().map(|r| &r.buffers.answer[..]).collect();
        assert_eq!(texts, [b"a", b"b"], "{records:?}");
        assert!(records.iter().all(|record| record.failure.is_none()));
        assert!(records[1].connect_start.is_some());
    }
}

#[test]
fn a_server_that_refuses_is_asked_less_and_less_often_and_no_other_waits_for_it() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let phases = vec![PhasePlan {
        measured: true,
        duration: Some(Ns::from_ms(500)),
        ..PhasePlan::default()
    }];
    let (records, _) = run(&Ask {
        phases: phases.clone(),
        slots: 3,
        ..Ask::new(closed, 0)
    });
    // Rests of 10, 20, 40, 80, 160 and 320 ms fill the time.
    assert!((3..=18).contains(&records.len()), "{}", records.len());
    let (records, _) = run(&Ask {
        phases,
        slots: 3,
        targets: vec![serve(|_| short_answer()), closed],
        ..Ask::new(closed, 0)
    });
    assert!(records.len() > 18, "{}", records.len());
    // A rest is no lateness: a request is due when its slot may send again.
    assert!(records.iter().all(|record| record.slot == record.due));
}

#[test]
fn an_error_inside_a_200_is_an_error_and_keeps_the_partial_text() {
    let record = one(vec![
        send(CHUNKED),
        send(chunk(&data(&ev("Hel")))),
        send(chunk(&data(
            r#"{"error":{"message":"engine died","code":500}}"#,
        ))),
        send(chunk(&data("[DONE]")) + "0\r\n\r\n"),
    ]);
    assert_eq!(failure(&record).0, FailureKind::Stream);
    let told = record.failure.as_ref().unwrap();
    assert_eq!((told.code, told.message.as_str()), (500, "engine died"));
    assert_eq!(record.buffers.answer, b"Hel");
    let named = one(vec![
        send(CHUNKED),
        send(chunk("event: error\ndata: {\"message\":\"x\"}\n\n") + "0\r\n\r\n"),
    ]);
    assert_eq!(named.failure.as_ref().unwrap().message, "x");
}

#[test]
fn refusals_are_kept_with_status_and_body_and_are_not_retried() {
    let refusal =
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nslow";
    let record = one(vec![send(refusal)]);
    assert_eq!(failure(&record), (FailureKind::Server, "Too Many Requests"));
    assert_eq!(record.failure.as_ref().unwrap().message, "slow");
    assert_eq!((record.status, record.attempt), (Some(429), 0));
    let page = "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\n\r\n<html>oh</html>";
    let record = one(vec![send(page), Act::Close]);
    assert_eq!(record.failure.as_ref().unwrap().message, "<html>oh</html>");
}

#[test]
fn a_wrong_content_type_and_an_empty_200_are_errors_of_their_own() {
    let whole = r#"{"choices":[{"message":{"content":"a"}}]}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let record = one(vec![send(format!(
        "{head}Content-Length: {}\r\n\r\n{whole}",
        whole.len()
    ))]);
    assert_eq!(failure(&record), (FailureKind::Stream, "content_type"));
    let record = one(vec![send(format!("{head}Content-Length: 0\r\n\r\n"))]);
    assert_eq!(failure(&record), (FailureKind::Stream, "no_content"));
    let record = one(vec![send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\
         Content-Length: 2\r\n\r\n\x1f\x08",
    )]);
    assert_eq!(failure(&record), (FailureKind::Stream, "content_encoding"));
}

#[test]
fn first_tokens_of_reasoning_and_of_the_answer_are_two_times() {
    let event = |delta: &str| data(&format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#));
    let record = one(vec![
        send(STREAM),
        send(event(r#"{"role":"assistant","content":""}"#)),
        Act::Wait(40),
        send(event(r#"{"reasoning_content":"a","content":null}"#)),
        Act::Wait(40),
        send(event(r#"{"content":"x"}"#) + "data: [DONE]\n\n"),
        Act::Close,
    ]);
    let (first, output) = (
        ms(&record, record.first_content),
        ms(&record, record.first_output),
    );
    assert!(first >= 40.0 && output >= first + 39.0, "{first} {output}");
    assert_eq!(record.buffers.reasoning, b"a");
}

/// Nothing but a limit on the whole request.
fn within(total: Ns) -> RequestLimits {
    RequestLimits {
        total,
        ..Ask::new(([127, 0, 0, 1], 1).into(), 0).limits
    }
}

#[test]
fn a_timeout_says_in_which_part_and_after_how_long() {
    let slow = |script: Vec<Act>| {
        let ask = Ask {
            limits: within(Ns::from_ms(200)),
            ..Ask::new(serve(move |_| script.clone()), 1)
        };
        run(&ask).0.pop().unwrap()
    };
    let silent = slow(vec![Act::Wait(600)]);
    let told = silent.failure.unwrap();
    assert_eq!(
        (told.kind, told.stage),
        (FailureKind::Timeout, Stage::FirstToken)
    );
    assert!(told.after.unwrap() >= Ns::from_ms(200) && !told.message.is_empty());
    let stalled = slow(vec![send(STREAM), send(data(&ev("a"))), Act::Wait(600)]);
    assert_eq!(stalled.failure.unwrap().stage, Stage::Stream);
}

fn short_answer() -> Vec<Act> {
    vec![
        send(CHUNKED),
        send(chunk(&(data(&ev("a")) + "data: [DONE]\n\n")) + "0\r\n\r\n"),
    ]
}

#[test]
fn a_stale_connection_is_tried_once_more_on_a_fresh_one() {
    // Every second request of a connection meets a close without an answer.
    let addr = serve(|n| {
        if n == 1 {
            vec![Act::Close]
        } else {
            short_answer()
        }
    });
    let (records, _) = run(&Ask::new(addr, 3));
    assert!(
        records.iter().all(|record| record.failure.is_none()),
        "{records:?}"
    );
    assert_eq!(
        records
            .iter()
            .map(|record| record.attempt)
            .collect::<Vec<_>>(),
        [0, 1, 0]
    );
    // A fresh connection that closes is the server's fault.
    let addr = serve(|_| vec![Act::Close]);
    let (records, _) = run(&Ask::new(addr, 1));
    assert_eq!(
        failure(&records[0]),
        (FailureKind::Network, "connection_closed")
    );
}

#[test]
fn urls_are_dealt_in_turn_over_all_cores_together() {
    let target = || serve(|_| short_answer());
    for (count, cores) in [(7, 1), (7, 2), (3, 2)] {
        let ask = Ask {
            targets: vec![target(), target(), target()],
            cores,
            slots: 2,
            ..Ask::new(target(), count)
        };
        let (records, _) = run(&ask);
        let urls: Vec<u64> = records.iter().map(|record| u64::from(record.url)).collect();
        assert_eq!(urls, (0..count).map(|n| n % 3).collect::<Vec<_>>());
        assert!(records.iter().all(|record| record.failure.is_none()));
    }
}

#[test]
fn a_url_that_refuses_keeps_its_share_as_errors() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let ask = Ask {
        targets: vec![serve(|_| short_answer()), closed],
        slots: 2,
        ..Ask::new(closed, 6)
    };
    let (records, _) = run(&ask);
    for record in records {
        match record.url {
            0 => assert_eq!(record.failure, None),
            _ => assert_eq!(
                failure(&record),
                (FailureKind::Network, "connection_refused")
            ),
        }
    }
}

#[test]
fn waiting_for_a_slot_is_in_the_due_based_latency_and_not_in_the_other() {
    // Rate 20/s, cap 1, the server takes 100 ms: request i waits i x 50 ms.
    let addr = serve(|_| [vec![Act::Wait(100)], short_answer()].concat());
    let due = (0..5).map(|i| Ns::from_ms(i * 50)).collect::<Vec<_>>();
    let phase = PhasePlan {
        measured: true,
        count: Some(5),
        law: Some(Law::Times(due.into())),
        cap: Some(GatePlan::flat(1)),
        ..PhasePlan::default()
    };
    let (records, _) = run(&Ask {
        phases: vec![phase],
        slots: 0,
        ..Ask::new(addr, 5)
    });
    for (record, i) in records.iter().zip(0u32..) {
        let own = ms(record, record.last_content);
        let wait = record.start.saturating_since(record.due).as_ms();
        // With its wait in it the last one would be 300 ms; the rest is a busy machine.
        assert!((99.0..250.0).contains(&own), "{own}");
        assert!(
            wait >= f64::from(i) * 50.0 - 1.0,
            "request {i} waited {wait}"
        );
    }
}

#[test]
fn warm_up_is_marked_and_no_request_stalls_behind_it() {
    let addr = serve(|_| [vec![Act::Wait(20)], short_answer()].concat());
    let phase = |measured, count| PhasePlan {
        measured,
        count: Some(count),
        ..PhasePlan::default()
    };
    let (records, _) = run(&Ask {
        phases: vec![phase(false, 2), phase(true, 20)],
        slots: 10,
        ..Ask::new(addr, 20)
    });
    assert_eq!(records.len(), 22);
    let warm = records
        .iter()
        .filter(|record| record.phase == Phase::Warmup)
        .count();
    assert_eq!(warm, 2);
}

#[test]
fn cancelled_requests_are_recorded_as_such() {
    let addr = serve(|_| vec![send(STREAM), send(data(&ev("a"))), Act::Wait(3_000)]);
    let ask = Ask {
        slots: 3,
        cancel_after: Some(Ns::from_ms(150)),
        ..Ask::new(addr, 100)
    };
    let (records, _) = run(&ask);
    assert_eq!(records.len(), 3);
    for record in &records {
        assert_eq!(failure(record), (FailureKind::Client, "cancelled"));
        assert_eq!(record.failure.as_ref().unwrap().code, 499);
        assert_eq!(record.buffers.answer, b"a");
    }
}

#[test]
fn hostile_bytes_are_errors_and_never_a_panic() {
    for bytes in [
        &b"\x16\x03\x01\x00\x00"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"choices\":[{]}\n\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\n\n\n\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: \xff\xfe\n\n",
    ] {
        let record = one(vec![send(bytes), Act::Close]);
        assert!(
            record.failure.is_some(),
            "{:?}",
            String::from_utf8_lossy(bytes)
        );
    }
}
