use super::*;
use crate::base::Anchor;
use crate::stats::accumulate::Accumulator;
use crate::stats::record::{Failure, FailureKind, Stage};
use crate::stats::{Series, Totals};
use proptest::prelude::*;

/// A streamed request with its content times, all in ms.
fn request(start: u64, content: &[u64]) -> Record {
    let times: Vec<Ns> = content.iter().map(|ms| Ns::from_ms(*ms)).collect();
    let mut record = Record {
        due: Ns::from_ms(start),
        slot: Ns::from_ms(start),
        start: Ns::from_ms(start),
        streamed: true,
        first_content: times.first().copied(),
        first_output: times.first().copied(),
        second_content: times.get(1).copied(),
        last_content: times.last().copied(),
        done: times.last().copied().unwrap_or_default(),
        ..Record::default()
    };
    record.tokens.output = u32::try_from(content.len()).ok();
    record.tokens.input = Some(10);
    record.buffers.content_times = times;
    record
}

fn failed(start: u64, done: u64) -> Record {
    Record {
        failure: Some(Box::new(Failure {
            kind: FailureKind::Server,
            stage: Stage::FirstToken,
            code: 500,
            name: "Internal Server Error".into(),
            message: "no".into(),
            after: None,
        })),
        done: Ns::from_ms(done),
        ..request(start, &[])
    }
}

fn options() -> AccumulateOptions {
    AccumulateOptions {
        streaming: true,
        goodput: Vec::new(),
        anchor: Anchor::at(Ns::ZERO, 0),
        concurrency: None,
        capped: false,
        phases: Vec::new(),
    }
}

fn totals(begin: Option<u64>, length: u64, records: &[Record]) -> Totals {
    let mut sum = Accumulator::new(options()).sliced(Some(Ns::from_ms(length)));
    begin.into_iter().for_each(|ms| sum.begin(Ns::from_ms(ms)));
    records.iter().for_each(|record| sum.push(record));
    sum.finish()
}

fn number(slice: &Slice, tag: &str) -> Option<f64> {
    match slice.metric(tag)? {
        Figure::Scalar(value) => Some(*value),
        Figure::Distribution(found) => Some(found.avg),
        Figure::Weighted(found) => Some(found.avg),
        Figure::Adjusted(found) => Some(found.min),
    }
}

#[test]
fn a_request_is_in_the_slice_of_its_start_and_the_last_slice_ends_with_the_last_request() {
    // In the order of their ends.
    let records = [
        request(0, &[50, 150]),
        request(400, &[450, 600]),
        request(100, &[600, 1_200]),
        request(1_000, &[1_100, 1_300]),
    ];
    let slices = totals(Some(0), 500, &records).sliced.slices;
    let edges: Vec<(u64, u64, bool)> = slices
        .iter()
        .map(|s| (s.from.0 / 1_000_000, s.to.0 / 1_000_000, s.is_complete))
        .collect();
    assert_eq!(
        edges,
        [(0, 500, true), (500, 1_000, true), (1_000, 1_300, false)]
    );
    let counts: Vec<_> = slices.iter().map(|s| number(s, "request_count")).collect();
    assert_eq!(counts, [Some(3.0), Some(0.0), Some(1.0)]);
    // Rates are over the slice: 3 in half a second, 1 in 0.3 s.
    assert_eq!(number(&slices[0], "request_throughput"), Some(6.0));
    let last = number(&slices[2], "request_throughput").unwrap();
    assert!((last - 1.0 / 0.3).abs() < 1e-9, "{last}");
    // Nothing began in the second, but two requests were in flight: one all the time, one for 100.
    assert_eq!(number(&slices[1], "request_latency"), None);
    assert_eq!(number(&slices[1], "effective_concurrency"), Some(1.2));
    assert_eq!(slices[1].in_flight(), Some(1.2));
    let inside = slices[1].inside;
    assert_eq!((inside.ended, inside.failed), (1, 0));
    assert_eq!(inside.output_tokens, 2.0);
}

#[test]
fn one_slice_over_all_has_the_figures_of_the_run() {
    let records = [
        request(5, &[50, 150, 180]),
        request(100, &[450, 600]),
        request(30, &[640, 1_205]),
    ];
    let all = totals(None, 60_000, &records);
    assert_eq!(all.sliced.slices.len(), 1);
    let slice = &all.sliced.slices[0];
    assert_eq!(slice.metrics, all.metrics);
    assert_eq!(slice.client, all.client);
    assert!(!slice.is_complete && !slice.metrics.is_empty());
    assert_eq!((slice.from, slice.to), (Ns::from_ms(5), Ns::from_ms(1_205)));
}

#[test]
fn the_grid_begins_where_the_measurement_did() {
    // The first to end is not the first that began; a warm-up request is in none.
    let mut warmup = request(0, &[10, 20]);
    warmup.phase = crate::stats::Phase::Warmup;
    let records = [warmup, request(150, &[160, 170]), request(90, &[300, 400])];
    let slices = totals(Some(90), 100, &records).sliced.slices;
    assert_eq!(slices[0].from, Ns::from_ms(90));
    let counts: Vec<_> = slices.iter().map(|s| number(s, "request_count")).collect();
    assert_eq!(counts, [2.0, 0.0, 0.0, 0.0].map(Some));
    assert!(totals(Some(90), 100, &[]).sliced.slices.is_empty());
    let not_asked = Accumulator::new(options());
    assert_eq!(not_asked.finish().sliced, Sliced::default());
}

#[test]
fn failures_are_in_the_slice_of_their_start_and_end_in_that_of_their_end() {
    let records = [request(0, &[50, 100]), failed(20, 1_500)];
    let slices = totals(Some(0), 1_000, &records).sliced.slices;
    assert_eq!(number(&slices[0], "error_request_count"), Some(1.0));
    assert_eq!((slices[0].inside.failed, slices[1].inside.failed), (0, 1));
    // To the failure's end.
    assert_eq!(slices[1].to, Ns::from_ms(1_500));
    assert_eq!(slices[1].in_flight(), Some(1.0));
}

#[test]
fn slices_have_a_limit_and_say_so() {
    let records = [request(0, &[1, 2]), request(5_000, &[5_001, 5_002])];
    let sliced = totals(Some(0), 1, &records).sliced;
    assert_eq!(sliced.slices.len(), 2);
    assert!(
        sliced.notes[0].contains("3600 slices at the most"),
        "{:?}",
        sliced.notes
    );
    let sliced = totals(Some(0), 6, &records).sliced;
    assert_eq!((sliced.slices.len(), sliced.notes.len()), (834, 0));
}

#[test]
fn telemetry_stands_beside_the_requests_of_its_time() {
    let records = [request(0, &[500, 1_000]), request(1_200, &[1_500, 3_000])];
    let mut sliced = totals(Some(0), 1_000, &records).sliced;
    let track = |tag: &'static str, kind| {
        let mut series = Series::default();
        // One that grows by 100 a second, with samples each half.
        for n in 0..6u32 {
            series.push(Ns::from_ms(u64::from(n) * 500), f64::from(n) * 50.0);
        }
        Track {
            source: "gpu_0".into(),
            tag: tag.into(),
            unit: "J".into(),
            kind,
            series,
        }
    };
    let gauge = track("gauge", TrackKind::Gauge);
    let counter = track("counter", TrackKind::Counter);
    sliced.add_telemetry(&[gauge.clone(), counter], &[gauge]);
    let readings = |at: usize| -> Vec<Reading> {
        sliced.slices[at]
            .gpus
            .iter()
            .map(|level| level.reading)
            .collect()
    };
    let growth = Reading::Counter {
        growth: 100.0,
        rate_per_s: 100.0,
    };
    let (avg, min, max) = (150.0, 100.0, 200.0);
    assert_eq!(readings(1), [Reading::Gauge { avg, min, max }, growth]);
    assert_eq!(sliced.slices[1].servers.len(), 1);
    // The samples end at 2.5 s: what the counter grew by until 3 s is not known.
    assert_eq!(readings(2).len(), 1);
}

proptest! {
    #[test]
    fn slices_add_up_to_the_run(
        requests in prop::collection::vec(
            (0..5_000u64, 1..2_000u64, 1..2_000u64, any::<bool>()),
            1..40,
        ),
        length in 100..3_000u64,
    ) {
        let records: Vec<Record> = requests
            .iter()
            .map(|&(start, first, rest, fails)| match fails {
                true => failed(start, start + first),
                false => request(start, &[start + first, start + first + rest]),
            })
            .collect();
        let begin = requests.iter().map(|request| request.0).min();
        let all = totals(begin, length, &records);
        let slices = &all.sliced.slices;
        let sum = |tag: &str| slices.iter().filter_map(|s| number(s, tag)).sum::<f64>();
        let failures = records.iter().filter(|record| !record.is_valid()).count();
        let valid = records.len() - failures;
        prop_assert_eq!(sum("request_count"), float_len(valid));
        prop_assert_eq!(sum("error_request_count"), float_len(failures));
        prop_assert_eq!(sum("total_osl"), float_len(2 * valid));
        let tokens: f64 = slices.iter().map(|s| s.inside.output_tokens).sum();
        prop_assert!((tokens - float_len(2 * valid)).abs() < 1e-6);
        let ended: u64 = slices.iter().map(|s| s.inside.ended + s.inside.failed).sum();
        prop_assert_eq!(ended, records.len() as u64);
        let area: f64 = slices.iter().map(|s| s.inside.in_flight_ns).sum();
        let flights = records.iter().map(|r| float(r.done.0 - r.start.0)).sum::<f64>();
        prop_assert!((area - flights).abs() <= 1e-9 * flights);
        for pair in slices.windows(2) {
            prop_assert!(pair[0].is_complete && pair[0].to == pair[1].from);
        }
    }
}

#[test]
fn beyond_what_is_kept_slices_have_their_time_and_no_figures_of_some_requests_only() {
    let mut slices = Slices::new(Ns::from_ms(1_000));
    slices.kept = EXACT_REQUESTS_MAX - 2;
    // The third to end began in the second slice.
    for record in [
        request(0, &[500, 900]),
        request(1_100, &[1_200, 1_300]),
        request(1_050, &[1_400, 1_500]),
        request(2_000, &[2_100, 2_500]),
    ] {
        slices.push(&record, &[], &options());
    }
    let sliced = slices.finish(&options(), None);
    let counts: Vec<_> = sliced
        .slices
        .iter()
        .map(|s| number(s, "request_count"))
        .collect();
    assert_eq!(counts, [Some(1.0), None, None]);
    let ended: Vec<u64> = sliced.slices.iter().map(|s| s.inside.ended).collect();
    assert_eq!(ended, [1, 2, 1]);
    assert!(
        sliced.notes[0].contains("beyond 1.1 s"),
        "{:?}",
        sliced.notes
    );
}
