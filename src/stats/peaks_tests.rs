use super::*;
use crate::stats::Series;
use crate::stats::summary::{Distribution, MetricResult};
use proptest::prelude::*;

/// Slices of a second each with this p99 in ms, NaN for none.
fn slices(tag: &'static str, values: &[f64]) -> Vec<Slice> {
    let figure = |value: f64| {
        let mut found = Distribution::constant(value, 10)?;
        // Only the 99th is looked at.
        found.percentiles = [1.0; 11];
        found.percentiles[P99] = value;
        Some(Figure::Distribution(found))
    };
    let slice = |(at, value): (usize, &f64)| Slice {
        from: Ns::from_ms(1_000 * at as u64),
        to: Ns::from_ms(1_000 * (at as u64 + 1)),
        metrics: figure(*value)
            .filter(|_| !value.is_nan())
            .map(|figure| MetricResult {
                tag,
                header: "",
                unit: "ms",
                figure,
            })
            .into_iter()
            .collect(),
        ..Slice::default()
    };
    values.iter().enumerate().map(slice).collect()
}

/// A value for each 250 ms, from 0 on.
fn track(source: &str, tag: &'static str, kind: TrackKind, values: &[f64]) -> Track {
    let mut series = Series::default();
    for (at, value) in values.iter().enumerate() {
        series.push(Ns::from_ms(250 * at as u64), *value);
    }
    Track {
        source: source.into(),
        tag: tag.into(),
        unit: "ratio".into(),
        kind,
        series,
    }
}

/// The same value for seven seconds, and another in the fourth.
fn bump(usual: f64, bump: f64) -> Vec<f64> {
    let value = |at: usize| if (13..16).contains(&at) { bump } else { usual };
    (0..29).map(value).collect()
}

const PEAK: [f64; 7] = [100.0, 104.0, 98.0, 400.0, 101.0, 99.0, 103.0];

fn flags(slices: &[Slice]) -> Vec<(usize, &Flag)> {
    let each = slices.iter().enumerate();
    each.flat_map(|(at, slice)| slice.flags.iter().map(move |flag| (at, flag)))
        .collect()
}

#[test]
fn a_peak_without_anything_else_is_unexplained() {
    let mut found = slices(TTFT, &PEAK);
    flag(&mut found, &[]);
    let flags = flags(&found);
    assert_eq!(flags.len(), 1);
    let (at, flag) = flags[0];
    assert_eq!(
        (at, flag.metric, flag.value, flag.usual),
        (3, TTFT, 400.0, 101.0)
    );
    assert!(flag.causes.is_empty());
}

fn causes(tracks: &[Track]) -> Vec<(CauseKind, String)> {
    let mut found = slices(TTFT, &PEAK);
    flag(&mut found, tracks);
    let causes = flags(&found)[0].1.causes.iter();
    causes
        .map(|cause| (cause.kind, cause.tag.to_string()))
        .collect()
}

#[test]
fn what_was_unusual_at_the_time_of_the_peak_is_its_cause() {
    use TrackKind::{Counter, Gauge};
    let growing = |step: fn(usize) -> f64| -> Vec<f64> {
        let steps = (0..29).scan(0.0, |sum, at| {
            *sum += step(at);
            Some(*sum)
        });
        steps.collect()
    };
    let violations = growing(|at| if (13..16).contains(&at) { 500.0 } else { 0.0 });
    let preempted = growing(|at| if at == 14 { 3.0 } else { 0.0 });
    for (kind, tag, values, form) in [
        (
            CauseKind::Throttle,
            "nvidia_throttle_thermal",
            bump(0.0, 1.0),
            Gauge,
        ),
        (
            CauseKind::Throttle,
            "nvidia_power_violation",
            violations,
            Counter,
        ),
        (
            CauseKind::Throttle,
            "nvidia_sm_clock",
            bump(1_980.0, 900.0),
            Gauge,
        ),
        (CauseKind::Memory, "kv_cache_usage", bump(60.0, 97.0), Gauge),
        (CauseKind::Memory, "preemptions", preempted, Counter),
        (CauseKind::Queue, "requests_queued", bump(0.0, 9.0), Gauge),
        (
            CauseKind::Memory,
            "requests_retracted",
            bump(2.0, 9.0),
            Gauge,
        ),
    ] {
        let found = causes(&[track("a", tag, form, &values)]);
        assert_eq!(found, [(kind, tag.to_string())], "{tag}");
    }
    let used = track("gpu_1", "nvidia_memory_used", Gauge, &bump(70.0, 100.0));
    let total = track("gpu_1", "nvidia_memory_total", Gauge, &bump(80.0, 80.0));
    assert!(causes(std::slice::from_ref(&used)).is_empty());
    assert_eq!(
        causes(&[used, total]),
        [(CauseKind::Memory, "nvidia_memory_used".into())]
    );
}

#[test]
fn what_is_always_so_or_says_nothing_of_the_kind_is_no_cause() {
    use TrackKind::Gauge;
    for (tag, values) in [
        ("nvidia_throttle_power", bump(0.8, 0.9)),
        ("kv_cache_usage", bump(99.0, 100.0)),
        ("requests_queued", bump(20.0, 24.0)),
        ("nvidia_sm_clock", bump(1_980.0, 1_900.0)),
        ("nvidia_power_usage", bump(300.0, 700.0)),
        ("nvidia_throttle_other", vec![]),
        ("nvidia_throttle_other", vec![1.0]),
    ] {
        assert_eq!(causes(&[track("a", tag, Gauge, &values)]), [], "{tag}");
    }
}

#[test]
fn a_cause_may_come_after_the_slice_while_its_requests_still_wait() {
    // Sent in the third second, answered two seconds later; the queue is there in the fifth.
    let mut found = slices(TTFT, &[100.0, 100.0, 2_000.0, 100.0, 100.0, 100.0, 100.0]);
    let queue: Vec<f64> = (0..29)
        .map(|at| f64::from(u8::from((16..20).contains(&at))))
        .collect();
    let queue = track("s", "requests_queued", TrackKind::Gauge, &queue);
    flag(&mut found, &[queue]);
    assert_eq!(flags(&found)[0].1.causes[0].kind, CauseKind::Queue);
}

#[test]
fn few_slices_even_ones_and_small_differences_are_no_peaks() {
    let nan = f64::NAN;
    for values in [
        &[100.0, 100.0, 900.0, 100.0][..],
        &[100.0, nan, 100.0, 900.0, nan, 100.0],
        &[100.0; 12],
        &[0.0; 12],
        // Ties: no spread at all, and less than half more.
        &[100.0, 100.0, 100.0, 149.0, 100.0, 100.0, 100.0],
        // As uneven as the others.
        &[50.0, 200.0, 100.0, 310.0, 80.0, 150.0, 260.0],
    ] {
        let mut found = slices(TTFT, values);
        flag(&mut found, &[]);
        assert!(flags(&found).is_empty(), "{values:?}");
    }
    let mut none: Vec<Slice> = Vec::new();
    flag(&mut none, &[]);
}

#[test]
fn without_streams_the_latency_is_judged_and_with_them_the_gaps_too() {
    let mut found = slices(LATENCY, &PEAK);
    flag(&mut found, &[]);
    assert_eq!(flags(&found)[0].1.metric, LATENCY);
    let mut found = slices(TTFT, &[100.0; 7]);
    let gaps = slices(ITL, &PEAK);
    for (slice, with_gaps) in found.iter_mut().zip(gaps) {
        slice.metrics.extend(with_gaps.metrics);
    }
    flag(&mut found, &[]);
    assert_eq!(flags(&found).len(), 1);
    assert_eq!(flags(&found)[0].1.metric, ITL);
}

proptest! {
    #[test]
    fn values_within_a_third_are_never_flagged_and_one_ten_times_as_high_always(
        values in prop::collection::vec(90.0..120.0f64, 9..60),
        at in any::<prop::sample::Index>(),
    ) {
        let mut flat = slices(TTFT, &values);
        flag(&mut flat, &[]);
        prop_assert!(flags(&flat).is_empty());
        let mut values = values;
        let at = at.index(values.len());
        values[at] *= 10.0;
        let mut found = slices(TTFT, &values);
        flag(&mut found, &[]);
        let found: Vec<usize> = flags(&found).iter().map(|(at, _)| *at).collect();
        prop_assert_eq!(found, [at]);
    }
}
