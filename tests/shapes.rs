//! Every shape of load, by the built binary.

use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

mod mock;
mod ran;
mod support;
use mock::Mock;
use ran::{Ran, run};
use support::{CHUNKED, chunk, ev, send, serve_asked};

/// A mock whose answers take so many ms, in one token or more.
fn mock(ttft_ms: &str, tokens: &str) -> Mock {
    Mock::start(&["--ttft-ms", ttft_ms, "--itl-ms", "10", "--tokens", tokens])
}

/// The most requests at once, from one moment of each to another.
fn most(ran: &Ran, from: &str, to: &str) -> i32 {
    let begins = ran.times(from).into_iter().map(|at| (at, 1));
    let mut steps: Vec<(u64, i32)> = begins
        .chain(ran.times(to).into_iter().map(|at| (at, -1)))
        .collect();
    // At one moment an end comes first.
    steps.sort_unstable();
    let mut now = 0;
    steps
        .iter()
        .map(|(_, step)| {
            now += step;
            now
        })
        .max()
        .unwrap()
}

#[test]
fn a_session_says_what_was_said_before_with_the_real_answers() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = bodies.clone();
    let addr = serve_asked(move |number, request| {
        kept.lock()
            .unwrap()
            .push(String::from_utf8(request.to_vec()).unwrap());
        let said = format!("answer \\\"{number}\\\"");
        vec![
            send(CHUNKED),
            send(chunk(&format!("data: {}\n\n", ev(&said)))),
            send(chunk("data: [DONE]\n\n") + "0\r\n\r\n"),
        ]
    });
    let flags = [
        "--num-sessions",
        "2",
        "--session-turns-mean",
        "3",
        "--no-preflight",
    ];
    let ran = run(
        &addr.to_string(),
        &[&flags[..], &["--session-header", "X-User"]].concat(),
    );
    assert_eq!(ran.records.len(), 6);
    let turns = ran.records.iter().map(|record| {
        let metadata = &record["metadata"];
        (
            metadata["session_num"].as_u64().unwrap(),
            metadata["turn_index"].as_u64().unwrap(),
        )
    });
    let turns: Vec<_> = turns.collect();
    assert_eq!(turns, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    let requests = bodies.lock().unwrap();
    let messages: Vec<Vec<Value>> = requests
        .iter()
        .map(|request| {
            let body: Value =
                serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap();
            body["messages"].as_array().unwrap().clone()
        })
        .collect();
    for (number, said) in messages.iter().enumerate() {
        let turn = number % 3;
        assert_eq!(said.len(), 2 * turn + 1);
        for (place, message) in said.iter().enumerate() {
            let role = if place % 2 == 0 { "user" } else { "assistant" };
            assert_eq!(message["role"], role);
        }
        if turn > 0 {
            let before = &messages[number - 1];
            assert_eq!(said[..before.len()], before[..]);
            let answer = format!("answer \"{}\"", number - 1);
            assert_eq!(said[said.len() - 2]["content"], answer.as_str());
        }
    }
    let id = |number: usize, name: &str| {
        let lines = requests[number].lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| *key == name)
            .map(|(_, id)| id.to_string())
    };
    assert_eq!(id(0, "X-User"), id(2, "X-User"));
    assert_eq!(id(0, "X-User"), id(0, "X-Correlation-ID"));
    assert_ne!(id(0, "X-User"), id(3, "X-User"));
    assert_ne!(id(0, "X-Request-ID"), id(1, "X-Request-ID"));
    let correlation = &ran.records[1]["metadata"]["x_correlation_id"];
    assert_eq!(correlation.as_str().map(String::from), id(1, "X-User"));
}

#[test]
fn a_user_thinks_after_the_answer_and_a_session_keeps_its_slot() {
    let mock = mock("20", "2");
    let flags = [
        "--concurrency",
        "2",
        "--num-sessions",
        "4",
        "--session-turns-mean",
        "3",
    ];
    let ran = run(
        &mock.url,
        &[&flags[..], &["--session-turn-delay-mean", "50"]].concat(),
    );
    assert_eq!(ran.records.len(), 12);
    let mut sessions: BTreeMap<u64, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for record in &ran.records {
        let at = |key: &str| record["timeline"][key].as_u64().unwrap();
        let number = record["metadata"]["session_num"].as_u64().unwrap();
        sessions
            .entry(number)
            .or_default()
            .push((at("due_ns"), at("start_ns"), at("done_ns")));
    }
    assert_eq!(sessions.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    for turns in sessions.values() {
        for pair in turns.windows(2) {
            // Exactly the time to think after the answer, and never before it.
            assert_eq!(pair[1].0 - pair[0].2, 50_000_000);
            assert!(pair[1].1 >= pair[1].0);
        }
    }
    // A session that thinks holds its slot.
    let held = &ran.json["client"]["concurrency_held"];
    assert!((1.5..2.001).contains(&held.as_f64().unwrap()), "{held}");
    // From its first turn to its last answer: two at a time, thinking included.
    let ends = sessions.values().map(|turns| (turns[0].1, turns[2].2));
    let spans: Vec<(u64, u64)> = ends.collect();
    let begun = |at: u64| {
        spans
            .iter()
            .filter(|span| span.0 <= at && at < span.1)
            .count()
    };
    assert!(spans.iter().all(|span| begun(span.0) <= 2), "{spans:?}");
}

#[test]
fn users_have_their_turns_at_even_times_and_all_together_the_rate() {
    let mock = mock("5", "1");
    let flags = [
        "--user-centric-rate",
        "40",
        "--num-users",
        "8",
        "--session-turns-mean",
        "3",
    ];
    let ran = run(
        &mock.url,
        &[&flags[..], &["--request-count", "80"]].concat(),
    );
    assert_eq!(ran.records.len(), 80);
    let begin = *ran.times("due_ns").iter().min().unwrap();
    let mut before: BTreeMap<u64, u64> = BTreeMap::new();
    for record in &ran.records {
        let at = |key: &str| record["timeline"][key].as_u64().unwrap();
        let session = record["metadata"]["session_num"].as_u64().unwrap();
        match before.insert(session, at("start_ns")) {
            // Places are taken by the clock, one each 25 ms.
            None => assert_eq!((at("due_ns") - begin) % 25_000_000, 0, "{record}"),
            // Of 8 users at 40/s each has a turn every 200 ms, or later on a machine that is busy.
            Some(sent) => assert!(at("due_ns") >= sent + 200_000_000, "{record}"),
        }
    }
    let turns = ran
        .records
        .iter()
        .map(|record| record["metadata"]["turn_index"].as_u64().unwrap());
    assert_eq!(turns.max(), Some(2));
}

#[test]
fn a_rate_sends_waiting_turns_before_new_sessions_and_counts_both() {
    let mock = mock("5", "1");
    let flags = ["--request-rate", "100", "--arrival-pattern", "constant"];
    let more = ["--session-turns-mean", "2", "--request-count", "60"];
    let ran = run(&mock.url, &[&flags[..], &more[..]].concat());
    assert_eq!(ran.records.len(), 60);
    let mut due = ran.times("due_ns");
    due.sort_unstable();
    assert!(
        due.windows(2).all(|pair| pair[1] - pair[0] == 10_000_000),
        "{due:?}"
    );
    let second = ran
        .records
        .iter()
        .filter(|record| record["metadata"]["turn_index"] == 1)
        .count();
    assert!((20..=30).contains(&second), "{second}");
}

#[test]
fn no_more_requests_wait_for_their_first_token_than_may() {
    let mock = mock("60", "4");
    let flags = [
        "--concurrency",
        "6",
        "--prefill-concurrency",
        "2",
        "--request-count",
        "24",
    ];
    let ran = run(&mock.url, &flags);
    assert_eq!(ran.records.len(), 24);
    assert!(most(&ran, "start_ns", "first_content_ns") <= 2);
    assert!(most(&ran, "start_ns", "done_ns") <= 6);
    // The wait for it is told.
    let wait = ran.json["client"]["slot_wait"]["max"].as_f64().unwrap();
    assert!(wait > 30.0, "{wait}");
    assert!(
        ran.screen.contains("requests waited for a place"),
        "{}",
        ran.screen
    );
}

#[test]
fn each_url_has_no_more_in_flight_than_it_may() {
    let (one, two) = (mock("40", "1"), mock("5", "1"));
    let flags = [
        "-u",
        &two.url,
        "--request-rate",
        "inf",
        "--request-count",
        "24",
    ];
    let ran = run(
        &one.url,
        &[&flags[..], &["--concurrency-per-url", "3"]].concat(),
    );
    assert_eq!(ran.records.len(), 24);
    assert!(most(&ran, "start_ns", "done_ns") <= 6);
    let wait = ran.json["client"]["slot_wait"]["max"].as_f64().unwrap();
    assert!(wait > 100.0, "{wait}");
}

#[test]
fn a_ramp_opens_slots_one_by_one() {
    let mock = mock("5", "1");
    let flags = ["--concurrency", "5", "--concurrency-ramp-duration", "1"];
    let ran = run(
        &mock.url,
        &[&flags[..], &["--benchmark-duration", "1.2"]].concat(),
    );
    let due = ran.times("due_ns");
    let begin = due.iter().min().unwrap();
    // By the clock: k + 1 slots from k quarters of the second on; their requests may come late.
    for (from, until, slots) in [(0, 240, 1), (260, 490, 2), (510, 740, 3), (760, 990, 4)] {
        let at = |ms: u64| begin + ms * 1_000_000;
        let window = |record: &&Value| {
            let due = record["timeline"]["due_ns"].as_u64().unwrap();
            (at(from)..at(until)).contains(&due)
        };
        let inside = ran.records.iter().filter(window).cloned().collect();
        let part = Ran {
            screen: String::new(),
            stderr: String::new(),
            json: Value::Null,
            records: inside,
        };
        assert!(!part.records.is_empty());
        assert!(most(&part, "due_ns", "done_ns") <= slots, "{from} ms");
    }
}

#[test]
fn all_at_once_is_due_at_once() {
    let mock = mock("5", "1");
    let ran = run(
        &mock.url,
        &["--request-rate", "inf", "--request-count", "40"],
    );
    let due = ran.times("due_ns");
    assert_eq!(due.len(), 40);
    assert!(due.iter().all(|at| *at == due[0]));
}

#[test]
fn a_warm_up_by_time_has_a_load_of_its_own_and_leaks_into_nothing() {
    // Field case SC-4: the warm-up's answers are slow, the measured ones are not.
    let flags = [
        "--warmup-duration",
        "0.5",
        "--warmup-concurrency",
        "2",
        "--concurrency",
        "4",
    ];
    let slow = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let seen = slow.clone();
    let addr = serve_asked(move |_, _| {
        let number = seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let wait = if number < 2 { 700 } else { 20 };
        vec![
            support::Act::Wait(wait),
            send(CHUNKED),
            send(chunk(&format!("data: {}\n\ndata: [DONE]\n\n", ev("a"))) + "0\r\n\r\n"),
        ]
    });
    let more = ["--request-count", "12", "--no-preflight"];
    let ran = run(&addr.to_string(), &[&flags[..], &more[..]].concat());
    let of = |phase: &str| {
        let is_it = |record: &&Value| record["metadata"]["benchmark_phase"] == phase;
        ran.records.iter().filter(is_it).count()
    };
    assert_eq!((of("warmup"), of("profiling")), (2, 12));
    let max = ran.json["time_to_first_token"]["max"].as_f64().unwrap();
    assert!(max < 600.0, "{max}");
    assert_eq!(ran.json["request_count"]["avg"], 12.0);
    assert_eq!(ran.json["client"]["warmup_in_flight_count"], 2);
}

#[test]
fn the_same_seed_makes_the_same_schedule_on_one_core_and_on_two() {
    let mock = mock("1", "1");
    let flags = [
        "--request-rate",
        "200",
        "--arrival-smoothness",
        "0.5",
        "--random-seed",
        "7",
    ];
    let due = |cores: &str| {
        let flags = [&flags[..], &["--request-count", "100", "--cores", cores]].concat();
        let mut due = run(&mock.url, &flags).times("due_ns");
        due.sort_unstable();
        due.iter().map(|at| at - due[0]).collect::<Vec<_>>()
    };
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let one = due("1");
    assert_eq!(one.len(), 100);
    if usable < 2 {
        eprintln!("SKIPPED: one CPU only, two workers cannot be compared with one");
        return;
    }
    // Wall times of one anchor, rounded by no more than a clock does.
    let two = due("2");
    assert!(
        one.iter().zip(&two).all(|(a, b)| a.abs_diff(*b) <= 2),
        "{one:?} {two:?}"
    );
}

#[test]
fn the_phases_of_a_file_are_each_reported_and_none_leaks() {
    let mock = mock("10", "2");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.yaml");
    let phases = "phases:\n\
        - {name: warmup, concurrency: 2, requests: 4}\n\
        - {name: low, concurrency: 1, requests: 5}\n\
        - {name: high, concurrency: 4, requests: 20, drain: true}\n\
        - {name: open, rate: 50, arrival_pattern: constant, requests: 10}\n";
    std::fs::write(&file, phases).unwrap();
    let ran = run(&mock.url, &["--config", file.to_str().unwrap()]);
    assert_eq!(ran.records.len(), 39);
    let told = ran.json["client"]["phases"].as_array().unwrap();
    let count = |phase: &Value| phase["metrics"]["request_count"]["avg"].as_f64().unwrap();
    let found: Vec<_> = told
        .iter()
        .map(|phase| {
            (
                phase["name"].as_str().unwrap(),
                phase["kind"].as_str().unwrap(),
                count(phase),
            )
        })
        .collect();
    let expected = [
        ("warmup", "warmup", 4.0),
        ("low", "profiling", 5.0),
        ("high", "profiling", 20.0),
        ("open", "profiling", 10.0),
    ];
    assert_eq!(found, expected);
    assert_eq!(ran.json["request_count"]["avg"], 35.0);
    assert!(ran.screen.contains("low "), "{}", ran.screen);
    // In their order, and the one that drains before the one after it.
    let of = |name: &str, key: &str| -> Vec<u64> {
        let is_it = |record: &&Value| record["metadata"]["phase_name"] == name;
        let time = |record: &Value| record["timeline"][key].as_u64().unwrap();
        ran.records.iter().filter(is_it).map(time).collect()
    };
    let last_of_high = of("high", "done_ns").into_iter().max();
    assert!(of("open", "due_ns").into_iter().min() >= last_of_high);
    let is_open = |record: &&Value| record["metadata"]["phase_name"] == "open";
    let first = ran.records.iter().find(is_open).unwrap();
    assert_eq!(first["metadata"]["phase_index"], 3);
    assert_eq!(first["metadata"]["profiling_index"], 2);
}

/// Runs a trace of these lines; times are from the first due one, in ms.
fn replay(mock: &Mock, lines: &str, flags: &[&str]) -> (Ran, Vec<(u64, u64, f64)>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.jsonl");
    std::fs::write(&file, lines).unwrap();
    let flags = [&["--input-file", file.to_str().unwrap()], flags].concat();
    let ran = run(&mock.url, &flags);
    let first = *ran.times("due_ns").iter().min().unwrap();
    let turn = |record: &Value| {
        let metadata = &record["metadata"];
        let due = record["timeline"]["due_ns"].as_u64().unwrap();
        (
            metadata["session_num"].as_u64().unwrap(),
            metadata["turn_index"].as_u64().unwrap(),
            (due - first) as f64 / 1e6,
        )
    };
    let mut turns: Vec<_> = ran.records.iter().map(turn).collect();
    turns.sort_by(|a, b| a.partial_cmp(b).unwrap());
    (ran, turns)
}

#[test]
fn a_trace_is_replayed_at_its_times_and_with_its_lengths() {
    // Field case DT-3: epoch stamps that are equal and go back; a fraction.
    let mock = mock("5", "4");
    let line = |ms: &str, isl: u32| {
        format!("{{\"timestamp\": {ms}, \"input_length\": {isl}, \"output_length\": 3}}\n")
    };
    let lines = [
        line("1787000000000", 11),
        line("1787000000250", 12),
        line("1787000000250", 13),
        line("1787000000100.5", 14),
    ]
    .concat();
    let (ran, turns) = replay(&mock, &lines, &[]);
    let near = |found: &[(u64, u64, f64)], expected: &[f64]| {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.2 - expected).abs() < 0.01, "{found:?} {expected}");
        }
    };
    near(&turns, &[0.0, 100.5, 250.0, 250.0]);
    let mut lengths: Vec<(u64, f64)> = ran
        .records
        .iter()
        .map(|record| {
            let isl = record["metrics"]["input_sequence_length"]["value"].as_f64();
            (
                record["metadata"]["session_num"].as_u64().unwrap(),
                isl.unwrap(),
            )
        })
        .collect();
    lengths.sort_by_key(|pair| pair.0);
    assert_eq!(lengths, [(0, 11.0), (1, 14.0), (2, 12.0), (3, 13.0)]);
    assert_eq!(ran.json["output_sequence_length"]["max"], 3.0);
    assert!(ran.stderr.contains("back in time"), "{}", ran.stderr);
    let lag = &ran.json["client"]["open_loop"]["replay"]["replay_sched_lag_p99"];
    assert!(lag.as_f64().unwrap() >= 0.0);
    let (_, turns) = replay(
        &mock,
        &lines,
        &["--trace-speedup", "2", "--concurrency", "1"],
    );
    near(&turns, &[0.0, 50.25, 125.0, 125.0]);
    let ends = [
        "--fixed-schedule-start-offset",
        "100",
        "--fixed-schedule-end-offset",
        "249",
    ];
    let (_, turns) = replay(&mock, &lines, &ends);
    near(&turns, &[0.0]);
    // Another load says when; the rows are taken once.
    let (ran, turns) = replay(
        &mock,
        &lines,
        &["--no-fixed-schedule", "--concurrency", "2"],
    );
    assert_eq!(turns.len(), 4);
    assert!(most(&ran, "start_ns", "done_ns") <= 2);
}

#[test]
fn turns_of_a_trace_follow_their_stamp_or_their_delay_and_never_the_answer_before() {
    let mock = mock("50", "1");
    let lines = "\
        {\"session_id\": \"a\", \"timestamp\": 0, \"text_input\": \"one\"}\n\
        {\"session_id\": \"b\", \"timestamp\": 20, \"text_input\": \"two\"}\n\
        {\"session_id\": \"a\", \"timestamp\": 10, \"text_input\": \"three\"}\n\
        {\"session_id\": \"b\", \"delay\": 30, \"text_input\": \"four\"}\n\
        {\"session_id\": \"a\", \"timestamp\": 400, \"text_input\": \"five\"}\n";
    let (ran, turns) = replay(
        &mock,
        lines,
        &["--warmup-concurrency", "1", "--num-warmup-sessions", "1"],
    );
    let turns: Vec<_> = turns.iter().filter(|turn| turn.0 > 0).collect();
    assert_eq!(turns.len(), 5);
    let of = |session: u64, turn: u64, key: &str| {
        let is_it = |record: &&Value| {
            let metadata = &record["metadata"];
            metadata["session_num"] == session && metadata["turn_index"] == turn
        };
        let record = ran.records.iter().find(is_it).unwrap();
        record["timeline"][key].as_u64().unwrap()
    };
    let start = of(1, 0, "due_ns");
    assert_eq!(of(2, 0, "due_ns"), start + 20_000_000);
    // Due at 10 ms, and its session's answer took 50.
    assert_eq!(of(1, 1, "due_ns"), of(1, 0, "done_ns"));
    assert_eq!(of(2, 1, "due_ns"), of(2, 0, "done_ns") + 30_000_000);
    assert_eq!(of(1, 2, "due_ns"), start + 400_000_000);
    // Only first turns have a rate: the others follow their answers.
    let client = &ran.json["client"];
    let rate = |key: &str| client[key].as_f64().unwrap();
    assert!(
        (rate("scheduled_rate_per_s") - 50.0).abs() < 1e-6,
        "{client}"
    );
}

#[test]
fn a_trace_that_is_none_names_file_and_line_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.jsonl");
    let row = "{\"input_length\": 4, \"timestamp\": 1}\n";
    for (lines, flags, told) in [
        (format!("{row}\n{{\"text\":\n"), &[][..], "t.jsonl:3: "),
        (
            [row, "{\"input_length\": 4}\n"].concat(),
            &[],
            "t.jsonl:2: ",
        ),
        (
            "{\"input_length\": 4, \"timestamp\": -5}".into(),
            &[],
            "t.jsonl:1: timestamp is",
        ),
        (
            "{\"input_length\": 4}".into(),
            &["--fixed-schedule"],
            "--fixed-schedule: ",
        ),
        (
            row.into(),
            &["--fixed-schedule", "--request-rate", "5"],
            "--fixed-schedule: it contra",
        ),
        (row.into(), &["--isl", "7"], "--isl: --input-file has"),
        (
            row.into(),
            &["--trace-speedup", "0"],
            "--trace-speedup: 0.0 is",
        ),
        (
            row.into(),
            &["--fixed-schedule-start-offset", "9"],
            "no request lies between",
        ),
        (
            row.into(),
            &["--custom-dataset-type", "dag_jsonl"],
            "--custom-dataset-type: `dag",
        ),
    ] {
        std::fs::write(&file, lines).unwrap();
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("tokenring"));
        command.args([
            "profile",
            "-m",
            "m",
            "-u",
            "127.0.0.1:9",
            "--input-file",
            "t.jsonl",
        ]);
        let output = command
            .args(flags)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}: {stderr}");
        assert!(stderr.contains(told), "{told}: {stderr}");
    }
}

#[test]
fn a_sticky_session_keeps_its_connection_and_nobody_else_has_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    // Each connection has a thread of its own.
    let addr = serve_asked(move |_, request| {
        let text = String::from_utf8_lossy(request).into_owned();
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("X-Correlation-ID: "));
        let id = id.unwrap_or_default().to_string();
        kept.lock().unwrap().push((id, std::thread::current().id()));
        vec![
            send(CHUNKED),
            send(chunk(&format!("data: {}\n\ndata: [DONE]\n\n", ev("a"))) + "0\r\n\r\n"),
        ]
    });
    let sticky = [
        "--connection-reuse-strategy",
        "sticky-user-sessions",
        "--no-preflight",
    ];
    let load = [
        "--concurrency",
        "2",
        "--num-sessions",
        "5",
        "--session-turns-mean",
        "3",
    ];
    let ran = run(&addr.to_string(), &[&sticky[..], &load[..]].concat());
    assert_eq!(ran.records.len(), 15);
    let seen = seen.lock().unwrap();
    let mut lines: BTreeMap<&str, Vec<std::thread::ThreadId>> = BTreeMap::new();
    for (session, line) in seen.iter() {
        lines.entry(session).or_default().push(*line);
    }
    assert_eq!(lines.len(), 5);
    for own in lines.values() {
        assert!(
            own.len() == 3 && own.iter().all(|line| line == &own[0]),
            "{lines:?}"
        );
    }
    let all: std::collections::HashSet<_> = seen.iter().map(|(_, line)| *line).collect();
    assert_eq!(all.len(), 5);
}

#[test]
fn the_input_of_a_turn_counts_the_answers_before_it_whoever_counts_them() {
    let flags = [
        "--usage",
        "off",
        "--tokens-per-chunk",
        "10",
        "--ttft-ms",
        "5",
        "--itl-ms",
        "1",
    ];
    let mock = Mock::start(&flags);
    let load = [
        "--osl",
        "100",
        "--session-turns-mean",
        "3",
        "--num-sessions",
        "2",
    ];
    let ran = run(&mock.url, &load);
    let length = |record: &Value, tag: &str| record["metrics"][tag]["value"].as_u64().unwrap();
    for session in 0..2 {
        let is_it = |record: &&Value| record["metadata"]["session_num"] == session;
        let turns: Vec<&Value> = ran.records.iter().filter(is_it).collect();
        assert_eq!(turns.len(), 3);
        for pair in turns.windows(2) {
            let said = length(pair[0], "input_sequence_length")
                + length(pair[0], "output_sequence_length");
            assert_eq!(length(pair[1], "input_sequence_length"), said + 8);
        }
    }
}

#[test]
fn half_a_character_of_an_answer_goes_back_whole() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = bodies.clone();
    let addr = serve_asked(move |_, request| {
        kept.lock().unwrap().push(request.to_vec());
        vec![
            send(CHUNKED),
            send(chunk(&format!("data: {}\n\n", ev("\\ud83d lone \\u00e9")))),
            send(chunk("data: [DONE]\n\n") + "0\r\n\r\n"),
        ]
    });
    let flags = [
        "--num-sessions",
        "1",
        "--session-turns-mean",
        "2",
        "--no-preflight",
    ];
    run(&addr.to_string(), &flags);
    let bodies = bodies.lock().unwrap();
    let second = String::from_utf8(bodies[1].clone()).unwrap();
    let body: Value = serde_json::from_str(second.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["messages"][1]["content"], "\u{fffd} lone \u{e9}");
}

#[test]
fn a_phase_that_drains_gives_up_what_outlasts_its_grace() {
    let mock = mock("2000", "1");
    let flags = [
        "--warmup-request-count",
        "2",
        "--concurrency",
        "2",
        "--warmup-drain",
    ];
    let more = ["--warmup-grace-period", "0.2", "--request-count", "2"];
    let ran = run(&mock.url, &[&flags[..], &more[..]].concat());
    let of = |phase: &str| {
        let is_it = move |record: &&Value| record["metadata"]["benchmark_phase"] == phase;
        ran.records.iter().filter(is_it).collect::<Vec<_>>()
    };
    assert_eq!((of("warmup").len(), of("profiling").len()), (2, 2));
    for record in of("warmup") {
        assert_eq!(record["error"]["type"], "cancelled", "{record}");
    }
    let at = |record: &Value, key: &str| record["timeline"][key].as_u64().unwrap();
    let sent = of("warmup")
        .iter()
        .map(|record| at(record, "start_ns"))
        .max()
        .unwrap();
    let due = of("profiling")
        .iter()
        .map(|record| at(record, "due_ns"))
        .min()
        .unwrap();
    assert!(due >= sent + 190_000_000, "{}", due - sent);
}

#[test]
fn a_turn_that_fails_ends_its_session_and_no_other() {
    let addr = serve_asked(|number, _| match number {
        // The second turn of the first session.
        1 => vec![send("HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno")],
        _ => vec![
            send(CHUNKED),
            send(chunk(&format!("data: {}\n\ndata: [DONE]\n\n", ev("a"))) + "0\r\n\r\n"),
        ],
    });
    let flags = [
        "--num-sessions",
        "2",
        "--session-turns-mean",
        "3",
        "--no-preflight",
    ];
    let ran = run(&addr.to_string(), &flags);
    let turns: Vec<_> = ran
        .records
        .iter()
        .map(|record| {
            let metadata = &record["metadata"];
            let number = |key: &str| metadata[key].as_u64().unwrap();
            (
                number("session_num"),
                number("turn_index"),
                record["error"].is_null(),
            )
        })
        .collect();
    let good = |session, turn| (session, turn, true);
    let expected = [
        good(0, 0),
        (0, 1, false),
        good(1, 0),
        good(1, 1),
        good(1, 2),
    ];
    assert_eq!(turns, expected);
    assert_eq!(ran.json["is_complete"], true);
}
