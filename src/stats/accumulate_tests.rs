//! Lists of hand-written records and what they must amount to.

use super::*;
use crate::stats::record::{Failure, FailureKind, Stage};

/// A streamed request, times in ms.
fn streamed(start: u64, content: &[u64], osl: u32) -> Record {
    let at = |i: usize| content.get(i).map(|ms| Ns::from_ms(*ms));
    let mut r = Record {
        due: Ns::from_ms(start),
        slot: Ns::from_ms(start),
        start: Ns::from_ms(start),
        streamed: true,
        first_content: at(0),
        first_output: at(0),
        second_content: at(1),
        last_content: content.last().map(|ms| Ns::from_ms(*ms)),
        done: Ns::from_ms(content.last().copied().unwrap_or(start)),
        ..Record::default()
    };
    r.tokens.output = Some(osl);
    r.tokens.input = Some(10);
    r.buffers.content_times = content.iter().map(|ms| Ns::from_ms(*ms)).collect();
    r
}

fn failed() -> Record {
    let mut r = streamed(0, &[], 0);
    r.failure = Some(Box::new(Failure {
        kind: FailureKind::Server,
        stage: Stage::FirstToken,
        code: 500,
        name: "Internal Server Error".to_owned(),
        message: "no".to_owned(),
        after: None,
    }));
    r
}

fn cancelled() -> Record {
    let mut r = failed();
    if let Some(failure) = &mut r.failure {
        failure.kind = FailureKind::Cancelled;
    }
    r
}

#[test]
fn a_cancellation_on_purpose_is_an_error_of_aiperf_and_not_slow() {
    let good = || streamed(0, &[10, 20], 2);
    let tag = "adj_request_latency";
    let totals = total(options(true), &[good(), cancelled(), cancelled()]);
    assert_eq!(totals.cancelled, 2);
    let count = find(&totals, "error_request_count");
    assert_eq!(count, Some(Figure::Scalar(2.0)));
    assert_eq!(find(&totals, tag), None);
    let totals = total(options(true), &[good(), cancelled(), failed()]);
    let Some(Figure::Adjusted(adjusted)) = find(&totals, tag) else {
        panic!("no {tag}");
    };
    assert_eq!((adjusted.count, totals.cancelled), (2, 1));
}

fn options(streaming: bool) -> AccumulateOptions {
    AccumulateOptions {
        streaming,
        goodput: Vec::new(),
        anchor: Anchor::at(Ns::ZERO, 0),
        concurrency: None,
        capped: false,
        phases: Vec::new(),
    }
}

fn total(options: AccumulateOptions, records: &[Record]) -> Totals {
    let mut sum = Accumulator::new(options);
    records.iter().for_each(|r| sum.push(r));
    sum.finish()
}

fn find(totals: &Totals, tag: &str) -> Option<Figure> {
    totals
        .metrics
        .iter()
        .find(|m| m.tag == tag)
        .map(|m| m.figure.clone())
}

/// Mean or number.
fn avg(totals: &Totals, tag: &str) -> Option<f64> {
    match find(totals, tag)? {
        Figure::Scalar(v) => Some(v),
        Figure::Distribution(d) => Some(d.avg),
        Figure::Weighted(w) => Some(w.avg),
        Figure::Adjusted(_) => None,
    }
}

#[test]
fn usage_without_text_moves_no_time() {
    // TC-1
    let t = total(options(true), &[streamed(0, &[200, 210, 220, 230, 240], 5)]);
    assert_eq!(avg(&t, "time_to_first_token"), Some(200.0));
    assert_eq!(avg(&t, "request_latency"), Some(240.0));
    assert_eq!(avg(&t, "inter_token_latency"), Some(10.0));
    assert_eq!(avg(&t, "inter_chunk_latency"), Some(10.0));
    assert_eq!(avg(&t, "output_sequence_length"), Some(5.0));
    assert_eq!(avg(&t, "error_request_count"), None);
}

#[test]
fn undefined_metrics_are_absent() {
    // MF-4: one token; then five tokens in one read.
    let t = total(options(true), &[streamed(0, &[100], 1)]);
    assert_eq!(avg(&t, "time_to_first_token"), Some(100.0));
    assert_eq!(avg(&t, "inter_token_latency"), None);
    let t = total(options(true), &[streamed(0, &[100, 100, 100, 100, 100], 5)]);
    assert_eq!(avg(&t, "inter_token_latency"), Some(0.0));
    assert_eq!(avg(&t, "output_token_throughput_per_user"), None);
}

#[test]
fn without_a_stream_no_stream_metric_is_published() {
    let mut r = streamed(0, &[100], 5);
    r.streamed = false;
    let t = total(options(false), &[r]);
    assert_eq!(avg(&t, "request_latency"), Some(100.0));
    for tag in [
        "time_to_first_token",
        "decode_duration",
        "inter_token_latency",
    ] {
        assert_eq!(find(&t, tag), None, "{tag}");
    }
}

#[test]
fn failures_are_counted_and_in_no_latency() {
    // PC-1
    let mut records = vec![streamed(0, &[50, 100], 2); 9];
    records.push(failed());
    let t = total(options(true), &records);
    assert_eq!(avg(&t, "request_error_rate"), Some(10.0));
    assert_eq!(avg(&t, "completed_request_count"), Some(10.0));
    assert_eq!(t.errors[0].count, 1);
    let Some(Figure::Adjusted(a)) = find(&t, "adj_request_latency") else {
        panic!("no adjusted view");
    };
    assert_eq!(
        (a.percentiles[6], a.percentiles[7], a.count),
        (Some(100.0), None, 10)
    );
}

#[test]
fn all_failed_leaves_counts_only() {
    let t = total(options(true), &[failed(), failed()]);
    assert_eq!(avg(&t, "request_count"), Some(0.0));
    assert_eq!(avg(&t, "error_request_count"), Some(2.0));
    assert_eq!(find(&t, "request_latency"), None);
    assert_eq!(find(&t, "request_throughput"), None);
}

#[test]
fn waiting_for_a_slot_is_in_the_view_from_due() {
    // SC-1: 8 requests at 10/s, one slot, 500 ms each.
    let make = |i: u64| {
        let mut r = streamed(500 * i, &[500 * i + 500], 1);
        r.due = Ns::from_ms(100 * i);
        r
    };
    let t = total(options(true), &(0..8).map(make).collect::<Vec<_>>());
    assert_eq!(avg(&t, "request_latency"), Some(500.0));
    assert_eq!(avg(&t, "credit_to_start_latency"), Some(1400.0));
    let due = t
        .client
        .iter()
        .find(|m| m.tag == "request_latency_from_due")
        .unwrap();
    let Figure::Distribution(d) = &due.figure else {
        panic!()
    };
    assert_eq!((d.avg, d.max), (1900.0, 3300.0));
}

#[test]
fn warmup_is_apart() {
    // SC-4
    let mut warm = streamed(0, &[900], 2);
    warm.phase = Phase::Warmup;
    let measured = streamed(1000, &[1100], 2);
    let records = [
        warm.clone(),
        warm,
        measured.clone(),
        measured.clone(),
        measured,
    ];
    let t = total(options(true), &records);
    assert_eq!(avg(&t, "time_to_first_token"), Some(100.0));
    assert!(t.warmup.iter().any(|m| m.tag == "time_to_first_token"));
}

#[test]
fn good_requests_meet_their_limit() {
    let mut o = options(true);
    o.goodput = vec![("request_latency".to_owned(), 250.0)];
    let records = [100, 300, 250].map(|ms| streamed(0, &[ms], 2));
    let t = total(o, &records);
    assert_eq!(avg(&t, "good_request_count"), Some(2.0));
    assert!((t.attainment[0].met_ratio - 2.0 / 3.0).abs() < 1e-12);
}

#[test]
fn the_steady_view_leaves_ramp_and_drain_out() {
    let mut o = options(true);
    o.concurrency = Some(2);
    let records = [
        streamed(0, &[100], 2),
        streamed(50, &[150], 2),
        streamed(100, &[200], 2),
    ];
    let s = total(o, &records).steady.unwrap();
    assert_eq!((s.start, s.end), (Ns::from_ms(50), Ns::from_ms(150)));
    assert_eq!((s.request_throughput, s.concurrency_held), (20.0, 2.0));
}

#[test]
fn a_record_gives_whole_tokens_and_a_list_of_gaps() {
    let sum = Accumulator::new(options(true));
    let values = sum.per_record(&streamed(0, &[100, 110, 130], 3));
    let get = |tag: &str| values.iter().find(|v| v.0.tag == tag).map(|v| v.1.clone());
    assert_eq!(get("output_sequence_length"), Some(Value::Integer(3)));
    assert_eq!(
        get("inter_chunk_latency"),
        Some(Value::List(vec![10.0, 20.0]))
    );
    let values = sum.per_record(&failed());
    assert_eq!(values.len(), 1);
    assert_eq!(values[0].0.tag, "error_isl");
}

#[test]
fn the_figures_of_a_run_are_exact() {
    let mut o = options(true);
    o.goodput = vec![("request_latency".to_owned(), 150.0)];
    let mut first = streamed(0, &[100, 110, 130], 3);
    first.tokens.reasoning = Some(2);
    first.requested_output = Some(5);
    first.usage = crate::stats::Usage {
        prompt: Some(20),
        completion: Some(5),
        total: Some(25),
        reasoning: Some(2),
        cache_read: Some(12),
        accepted_prediction: Some(1),
        rejected_prediction: Some(3),
        cache_write: Some(6),
        ..crate::stats::Usage::default()
    };
    first.tokens.client_input = Some(10);
    let mut second = streamed(50, &[150, 250], 2);
    second.requested_output = Some(4);
    second.usage.prompt = Some(10);
    second.tokens.client_input = Some(10);
    let t = total(o, &[first, second, failed()]);
    // 0 to 250 ms; the first is good; the server's 20 prompt tokens are 100 % off our 10.
    for (tag, want) in [
        ("benchmark_duration", 0.25),
        ("request_throughput", 8.0),
        ("request_count", 2.0),
        ("error_request_count", 1.0),
        ("completed_request_count", 3.0),
        ("request_error_rate", 100.0 / 3.0),
        ("good_request_count", 1.0),
        ("goodput", 4.0),
        ("good_request_fraction", 1.0 / 3.0),
        ("total_isl", 20.0),
        ("total_osl", 7.0),
        ("total_output_tokens", 5.0),
        ("total_reasoning_tokens", 2.0),
        ("overall_thinking_efficiency", 0.4),
        ("output_token_throughput", 28.0),
        ("input_token_throughput", 80.0),
        ("total_token_throughput", 108.0),
        ("error_isl", 10.0),
        ("total_error_isl", 10.0),
        ("osl_mismatch_count", 1.0),
        ("osl_mismatch_diff_pct", -25.0),
        ("usage_discrepancy_count", 1.0),
        ("total_usage_prompt_tokens", 30.0),
        ("total_usage_completion_tokens", 5.0),
        ("total_usage_total_tokens", 25.0),
        ("total_usage_reasoning_tokens", 2.0),
        ("total_usage_prompt_cache_read_tokens", 12.0),
        ("total_usage_prompt_cache_write_tokens", 6.0),
        ("total_usage_accepted_prediction_tokens", 1.0),
        ("total_usage_rejected_prediction_tokens", 3.0),
        ("overall_usage_prompt_cache_read_pct", 40.0),
    ] {
        assert_eq!(avg(&t, tag), Some(want), "{tag}");
    }
}

#[test]
fn failures_bring_the_four_error_adjusted_metrics() {
    let t = total(options(true), &[streamed(0, &[100, 110], 2), failed()]);
    let adjusted = t.metrics.iter().filter(|m| m.tag.starts_with("adj_"));
    let adjusted: Vec<_> = adjusted.map(|m| (m.tag, m.header)).collect();
    assert_eq!(
        adjusted,
        [
            ("adj_request_latency", "Request Latency (error-adjusted)"),
            (
                "adj_time_to_first_token",
                "Time to First Token (error-adjusted)"
            ),
            (
                "adj_inter_token_latency",
                "Inter Token Latency (error-adjusted)"
            ),
            ("adj_decode_duration", "Decode Duration (error-adjusted)"),
        ]
    );
}
