//! Each metric of a record against AIPerf's own record, and by hand where that has none.

use super::*;
use crate::base::Anchor;
use crate::stats::{AccumulateOptions, Accumulator, TokenSource, Value as Found};
use serde_json::Value;

fn golden() -> Value {
    let line = include_str!("../../tests/data/golden/aiperf/profile_export.head1.jsonl");
    serde_json::from_str(line.lines().next().unwrap()).unwrap()
}

/// AIPerf's first record as ours: its moments, as its trace and its gaps tell them.
fn record(golden: &Value) -> Record {
    let (meta, trace) = (&golden["metadata"], &golden["trace_data"]);
    let start = meta["request_start_ns"].as_u64().unwrap();
    let base = start - 1_000_000_000;
    let at = |value: &Value| Ns(value.as_u64().unwrap() - base);
    let number = |tag: &str| golden["metrics"][tag]["value"].as_f64().unwrap();
    let whole = |tag: &str| golden["metrics"][tag]["value"].as_u64().map(|v| v as u32);
    let ns = |ms: f64| Ns((ms * 1e6).round() as u64);
    let mut times = vec![Ns(start - base) + ns(number("time_to_first_token"))];
    for gap in golden["metrics"]["inter_chunk_latency"]["value"]
        .as_array()
        .unwrap()
    {
        times.push(*times.last().unwrap() + ns(gap.as_f64().unwrap()));
    }
    let mut r = Record {
        due: at(&meta["credit_issued_ns"]),
        start: Ns(start - base),
        connect_start: Some(at(&trace["tcp_connect_start_ns"])),
        connect_done: Some(at(&trace["tcp_connect_end_ns"])),
        sent: Some(at(&trace["request_send_start_ns"])),
        written: Some(at(&trace["request_send_end_ns"])),
        headers: Some(at(&trace["response_headers_received_ns"])),
        first_byte: Some(at(&trace["response_receive_start_ns"])),
        first_content: times.first().copied(),
        first_output: times.first().copied(),
        second_content: times.get(1).copied(),
        last_content: times.last().copied(),
        done: at(&trace["response_receive_end_ns"]),
        streamed: true,
        sent_bytes: trace["request_bytes_total"].as_u64().unwrap(),
        received_bytes: trace["response_bytes_total"].as_u64().unwrap(),
        reads_count: 16,
        requested_output: Some(16),
        ..Record::default()
    };
    r.buffers.content_times = times;
    r.tokens.input = whole("input_sequence_length");
    r.tokens.input_source = TokenSource::Client;
    r.tokens.output = whole("output_token_count");
    r.tokens.client_output = r.tokens.output;
    r.usage.prompt = whole("usage_prompt_tokens");
    r.usage.completion = whole("usage_completion_tokens");
    r.usage.total = whole("usage_total_tokens");
    r.usage.reasoning = whole("usage_reasoning_tokens");
    r.usage.cache_read = whole("usage_prompt_cache_read_tokens");
    r.usage.accepted_prediction = whole("usage_accepted_prediction_tokens");
    r.usage.rejected_prediction = whole("usage_rejected_prediction_tokens");
    r
}

fn values(r: &Record) -> Vec<(&'static Metric, Found)> {
    let sum = Accumulator::new(AccumulateOptions {
        streaming: true,
        // One that this record misses, as in AIPerf's run.
        goodput: vec![("time_to_first_token".into(), 50.0)],
        anchor: Anchor::at(Ns::ZERO, 0),
        concurrency: None,
        capped: false,
        phases: Vec::new(),
    });
    sum.per_record(r)
}

/// AIPerf takes the start of sending before it connects, so that its sending and its duration have
/// the connect in them, and its total has it twice. Ours add up to start to done, 285.845936.
const WITHOUT_DOUBLE_COUNT: &[(&str, f64)] = &[
    ("http_req_blocked", 0.537_153),
    ("http_req_connection_overhead", 2.332_123),
    ("http_req_sending", 0.363_047),
    ("http_req_duration", 283.513_813),
    ("http_req_total", 285.845_936),
];

#[test]
fn a_record_of_aiperf_gives_its_figures_to_the_digit() {
    let golden = golden();
    let found = values(&record(&golden));
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs().max(1.0);
    for (tag, want) in golden["metrics"].as_object().unwrap() {
        let (metric, value) = found
            .iter()
            .find(|(metric, _)| metric.tag == tag)
            .unwrap_or_else(|| panic!("{tag} is absent"));
        assert_eq!(want["unit"], metric.unit, "{tag}");
        let own = WITHOUT_DOUBLE_COUNT.iter().find(|(own, _)| own == tag);
        let own = own.map(|&(_, value)| Value::from(value));
        let want = own.as_ref().unwrap_or(&want["value"]);
        match value {
            Found::Integer(count) => assert_eq!(want.as_u64(), Some(*count), "{tag}"),
            Found::Number(number) => {
                assert!(
                    want.is_f64() && near(*number, want.as_f64().unwrap()),
                    "{tag}: {number}"
                );
            }
            Found::List(list) => {
                let want: Vec<f64> = serde_json::from_value(want.clone()).unwrap();
                assert_eq!(list.len(), want.len(), "{tag}");
                assert!(
                    list.iter().zip(&want).all(|(a, b)| near(*a, *b)),
                    "{tag}: {list:?}"
                );
            }
        }
    }
}

#[test]
fn what_only_ours_has_of_a_record_is_exact_too() {
    let mut r = record(&golden());
    r.tokens.reasoning = Some(9);
    r.tokens.client_reasoning = Some(9);
    r.usage.reasoning = Some(6);
    let found = values(&r);
    let get = |tag: &str| match &found.iter().find(|(m, _)| m.tag == tag).unwrap().1 {
        Found::Number(number) => *number,
        Found::Integer(count) => *count as f64,
        Found::List(_) => panic!("{tag}"),
    };
    assert_eq!(get("stream_setup_latency"), 16.142_084);
    assert_eq!(get("stream_prefill_latency"), 34.001_861);
    assert_eq!(get("thinking_efficiency"), 0.5);
    assert_eq!(get("reasoning_token_count"), 9.0);
    assert_eq!(get("output_sequence_length"), 27.0);
    assert!((get("usage_reasoning_tokens_diff_pct") - 100.0 / 3.0).abs() < 1e-12);
    assert_eq!(get("credit_to_start_latency"), 1.437_096);
    assert_eq!(get("time_to_first_token_from_due"), 51.581_041);
    assert_eq!(get("time_to_first_output_token_from_due"), 51.581_041);
    assert_eq!(get("http_req_tls_handshaking"), 0.0);
}

#[test]
fn a_whole_answer_has_no_figure_of_a_stream() {
    let mut r = record(&golden());
    r.streamed = false;
    let found = values(&r);
    let stream = found.iter().find(|(m, _)| m.need == Need::Streaming);
    assert_eq!(stream.map(|(m, _)| m.tag), None);
}

#[test]
fn tags_are_unique_and_headers_those_of_aiperf_csv() {
    let csv = include_str!("../../tests/data/golden/aiperf/profile_export_aiperf.csv");
    for (at, metric) in METRICS.iter().enumerate() {
        assert!(
            METRICS[..at].iter().all(|other| other.tag != metric.tag),
            "{}",
            metric.tag
        );
    }
    let labels = csv
        .lines()
        .filter_map(|line| line.split_once(',').map(|cells| cells.0));
    let ours: Vec<String> = METRICS
        .iter()
        .flat_map(|m| [m.header.to_owned(), format!("{} ({})", m.header, m.unit)])
        .collect();
    for label in labels.filter(|label| !matches!(*label, "Metric" | "Endpoint")) {
        let is_gpu = label.starts_with("127.0.0.1");
        assert!(is_gpu || ours.iter().any(|own| own == label), "{label}");
    }
}
