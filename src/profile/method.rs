//! What a reader must know to quote a report: the lines of the method block that this run calls
//! for. Those that every run has, and the slowest requests, are the console's own.

use crate::config::{Api, Config};
use crate::stats::course::Window;
use crate::stats::stability::Stability;
use crate::stats::summary::{ClientReport, Figure, MetricResult};

/// A warm-up has at least so many requests, and at least so much of the run.
const WARMUP_REQUESTS_MIN: f64 = 10.0;
const WARMUP_RATIO_MIN: f64 = 0.05;
/// A run is stable when its last three windows differ by no more than this.
const STABLE_RATIO_MAX: f64 = 1.10;
/// An open loop is above capacity when the time from due to done grows by more than this, in
/// seconds per second.
const GROWTH_MAX: f64 = 0.05;

/// The lines that apply, each a sentence.
pub fn lines(config: &Config, metrics: &[MetricResult], client: &ClientReport) -> Vec<String> {
    let stable = match &client.stability {
        Some(windows) => Some(stability(windows)),
        // Loads that differ make windows that do.
        None => instability(client).filter(|_| config.has_one_load()),
    };
    let all = [
        warmup(config, metrics),
        stable,
        overload(config, client),
        missed_lengths(config, metrics),
    ];
    all.into_iter().flatten().collect()
}

fn figure(metrics: &[MetricResult], tag: &str) -> Option<f64> {
    match metrics.iter().find(|metric| metric.tag == tag)?.figure {
        Figure::Scalar(value) => Some(value),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count")]
fn warmup(config: &Config, metrics: &[MetricResult]) -> Option<String> {
    let measured = figure(metrics, "completed_request_count")?;
    let wanted = WARMUP_REQUESTS_MIN.max((measured * WARMUP_RATIO_MIN).ceil());
    // Of a time or of sessions nobody knows the number before.
    let by_count = config.warmups().all(|phase| phase.requests.is_some());
    let count = config.warmup_requests() as f64;
    (by_count && count < wanted).then(|| {
        format!(
            "the warm-up had {count} requests, fewer than 10 or 5 % of the run: what a server does \
             for its first ones is in the figures (--warmup-request-count {wanted})"
        )
    })
}

/// Throughputs and mean latencies of windows, as words.
fn values(windows: &[Window]) -> (String, String) {
    let join = |values: Vec<f64>| {
        let shown: Vec<String> = values.iter().map(|value| format!("{value:.1}")).collect();
        shown.join(", ")
    };
    let throughputs = join(windows.iter().map(|w| w.throughput_per_s).collect());
    let latencies = join(windows.iter().filter_map(|w| w.latency_ms).collect());
    let latencies = format!("latency {latencies} ms on average");
    (format!("{throughputs} requests/s"), latencies)
}

/// What the windows of `--measurement-interval` came to.
pub fn stability(found: &Stability) -> String {
    let (count, length) = (found.windows.len(), found.length.as_secs());
    let percent = 100.0 * found.tolerance;
    let Some(first) = count.checked_sub(3) else {
        return format!(
            "not stable: the run ended after {count} whole windows of {length} s, and three are \
             compared"
        );
    };
    let (throughputs, latencies) = values(&found.windows[first..]);
    let (says, agree) = match found.is_stable {
        true => ("stable", "agree"),
        false => ("not stable", "do not agree"),
    };
    format!(
        "{says}: the last three of {count} windows of {length} s {agree} within {percent:.0} %: \
         {throughputs}; {latencies}"
    )
}

fn instability(client: &ClientReport) -> Option<String> {
    let (drift, windows) = (client.course.drift?, client.course.windows?);
    let (throughputs, latencies) = values(&windows[windows.len() - 3..]);
    let mut found = Vec::new();
    if drift.throughput_ratio > STABLE_RATIO_MAX {
        found.push(throughputs);
    }
    if drift.latency_ratio > STABLE_RATIO_MAX {
        found.push(latencies);
    }
    (!found.is_empty()).then(|| {
        format!(
            "not stable: over the last three quarters {}; more than 10 % apart, so a longer run \
             would give other figures",
            found.join(", ")
        )
    })
}

/// What is due and not done yet grows with the time from due to done, see
/// [`crate::stats::course::Course::growth`], or the run was found to be over-saturated while it
/// went on, see [`crate::stats::saturation`].
fn overload(config: &Config, client: &ClientReport) -> Option<String> {
    let rate = config.load().rate_per_s().filter(|rate| rate.is_finite());
    let growth = client.course.growth.filter(|&growth| growth > GROWTH_MAX);
    let growth = growth.zip(rate).map(|(growth, rate_per_s)| {
        let taken = rate_per_s / (1.0 + growth);
        let under = match config.load().cap() {
            Some(cap) => format!(" with {cap} in flight"),
            None => String::new(),
        };
        format!(
            "the backlog grew through the run, each second of it by {:.0} ms from due to done: of \
             {rate_per_s} requests/s about {taken:.1} were served{under}",
            growth * 1e3
        )
    });
    let saturation = client.open_loop.and_then(|open| open.saturation);
    let saturation = saturation.map(|found| {
        format!(
            "over-saturated: in {:.0} s {:.1} requests/s came and {:.1} were done, those not done \
             rose from {} to {}, the time to the first token from {:.0} to {:.0} ms",
            found.window.as_secs(),
            found.arrived_per_s,
            found.done_per_s,
            found.in_flight_first,
            found.in_flight_last,
            found.ttft_early.as_ms(),
            found.ttft_late.as_ms(),
        )
    });
    let found: Vec<String> = growth.into_iter().chain(saturation).collect();
    (!found.is_empty()).then(|| {
        format!(
            "open loop above capacity: {}; latency tells how long the run was, not how fast the \
             server is",
            found.join("; ")
        )
    })
}

/// How many answers missed the asked length, and what fixes it on this endpoint.
fn missed_lengths(config: &Config, metrics: &[MetricResult]) -> Option<String> {
    let missed = figure(metrics, "osl_mismatch_count").filter(|&count| count > 0.0)?;
    let all = figure(metrics, "request_count")?;
    let fields = match config.api {
        Api::TritonTensorrtllm => "min_length",
        _ => "ignore_eos and min_tokens",
    };
    let advice = match config.osl_deterministic {
        true => format!("the server does not hold to {fields}, which were sent"),
        false => format!("--output-tokens-mean-deterministic fixes it, by {fields}"),
    };
    Some(format!(
        "{missed} of {all} answers missed the asked length by more than 5 % or 50 tokens: {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Anchor, Ns};
    use crate::config::Draft;
    use crate::stats::course::Drift;
    use crate::stats::saturation::Saturation;
    use crate::stats::summary::OpenLoop;
    use crate::stats::{AccumulateOptions, Accumulator, Record};

    fn config(draft: Draft) -> Config {
        draft.check("tokenring profile").unwrap().config
    }

    fn open(rate: f64, cap: Option<i64>) -> Config {
        config(Draft {
            request_rate: Some(rate),
            concurrency: cap,
            warmup_request_count: Some(1_000),
            ..Draft::default()
        })
    }

    fn closed(warmup: i64) -> Config {
        config(Draft {
            concurrency: Some(4),
            warmup_request_count: Some(warmup),
            ..Draft::default()
        })
    }

    /// A request: due and start, and the end, in ms.
    fn request(due: u64, start: u64, end: u64) -> Record {
        let at = Ns::from_ms;
        let mut record = Record {
            due: at(due),
            slot: at(start),
            start: at(start),
            sent: Some(at(start)),
            first_content: Some(at(end)),
            last_content: Some(at(end)),
            done: at(end),
            requested_output: Some(100),
            ..Record::default()
        };
        record.tokens.output = Some(100);
        record
    }

    fn found(config: &Config, records: impl IntoIterator<Item = Record>) -> Vec<String> {
        let mut sum = Accumulator::new(AccumulateOptions {
            streaming: false,
            goodput: Vec::new(),
            anchor: Anchor::at(Ns::ZERO, 0),
            concurrency: None,
            capped: config.load().cap().is_some(),
            phases: Vec::new(),
        });
        records.into_iter().for_each(|record| sum.push(&record));
        let totals = sum.finish();
        let client = ClientReport {
            course: totals.course,
            ..ClientReport::default()
        };
        lines(config, &totals.metrics, &client)
    }

    /// Begins of the lines, in order.
    fn begins(config: &Config, records: impl IntoIterator<Item = Record>) -> Vec<String> {
        let lines = found(config, records).into_iter();
        lines
            .map(|line| line.split([':', ',']).next().unwrap_or_default().into())
            .collect()
    }

    /// Four slots that each take 100 ms.
    fn steady(count: u64) -> impl Iterator<Item = Record> {
        (0..count).map(|n| request(n / 4 * 100, n / 4 * 100, n / 4 * 100 + 100))
    }

    #[test]
    fn a_short_warm_up_is_named_with_the_one_that_would_do() {
        let none = Vec::<String>::new();
        assert_eq!(begins(&closed(10), steady(200)), none);
        let nine = found(&closed(9), steady(200));
        assert!(nine[0].contains("had 9 requests"), "{nine:?}");
        assert!(nine[0].contains("--warmup-request-count 10)"), "{nine:?}");
        assert_eq!(begins(&closed(50), steady(1_000)), none);
        let part = found(&closed(49), steady(1_000));
        assert!(part[0].contains("--warmup-request-count 50)"), "{part:?}");
    }

    #[test]
    fn a_run_that_drifts_is_not_stable_and_one_that_only_has_waves_is() {
        let none = Vec::<String>::new();
        for count in [1, 7, 20, 41, 400] {
            assert_eq!(begins(&closed(1_000), steady(count)), none, "{count}");
        }
        // Each answer takes 0.1 ms longer than the one before.
        let mut at = 0.0;
        let slower = (0..2_000).map(|n| {
            let (start, length) = (at, 100.0 + 0.1 * f64::from(n));
            at += length;
            request(start as u64, start as u64, at as u64)
        });
        let lines = found(&closed(1_000), slower);
        assert!(lines[0].starts_with("not stable: over the"), "{lines:?}");
        assert!(lines[0].contains("requests/s, latency"), "{lines:?}");
    }

    #[test]
    fn latency_that_only_scatters_is_stable() {
        let scattered = (0..400u64).map(|n| {
            let length = 50 + n * 7_919 % 101;
            request(n * 100, n * 100, n * 100 + length)
        });
        assert_eq!(begins(&closed(1_000), scattered), Vec::<String>::new());
    }

    #[test]
    fn an_open_loop_above_capacity_is_told_from_long_answers() {
        // 10/s are due and 8/s are served, one after the other.
        let queue = || (0..200).map(|n| request(100 * n, 100 * n, 125 * n + 125));
        let lines = found(&open(10.0, None), queue());
        let overload = lines.iter().find(|line| line.starts_with("open loop"));
        let overload = overload.unwrap();
        assert!(
            overload.contains("by 251 ms from due to done"),
            "{overload}"
        );
        assert!(overload.contains("about 8.0 were served;"), "{overload}");
        // The same under a cap: the wait is before the start.
        let capped = (0..200).map(|n| request(100 * n, 125 * n, 125 * n + 125));
        let lines = found(&open(10.0, Some(1)), capped);
        assert!(lines.iter().any(|line| line.contains("served with 1 in")));
        // Answers that take as long as half the run pile up too, and no line says so.
        let long = (0..200).map(|n| request(100 * n, 100 * n, 100 * n + 10_000));
        assert_eq!(begins(&open(10.0, None), long), Vec::<String>::new());
        // A closed loop has no backlog.
        let lines = begins(&closed(1_000), queue());
        assert!(!lines.iter().any(|line| line.starts_with("open loop")));
    }

    #[test]
    fn an_over_saturated_run_is_said_where_the_backlog_is() {
        let found = Saturation {
            window: Ns::from_ms(15_000),
            arrived_per_s: 20.0,
            done_per_s: 9.96,
            in_flight_first: 50,
            in_flight_last: 200,
            ttft_early: Ns::from_ms(4_000),
            ttft_late: Ns::from_ms(8_000),
            ..Saturation::default()
        };
        let mut client = ClientReport {
            open_loop: Some(OpenLoop {
                saturation: Some(found),
                ..OpenLoop::default()
            }),
            ..ClientReport::default()
        };
        let said = "open loop above capacity: over-saturated: in 15 s 20.0 requests/s came and \
                    10.0 were done, those not done rose from 50 to 200, the time to the first \
                    token from 4000 to 8000 ms; latency tells how long the run was, not how fast \
                    the server is";
        assert_eq!(lines(&open(20.0, None), &[], &client), [said]);
        // A trace that is replayed has no rate of its own.
        let mut replay = config(Draft::default());
        (
            replay.phases[0].load.scheduled,
            replay.phases[0].load.concurrency,
        ) = (true, None);
        assert_eq!(lines(&replay, &[], &client), [said]);
        client.course.growth = Some(1.0);
        let both = lines(&open(20.0, None), &[], &client);
        assert_eq!(both.len(), 1);
        assert!(both[0].contains("about 10.0 were served; over-saturated: in 15 s"));
    }

    #[test]
    fn windows_say_whether_they_agree_and_take_the_place_of_the_quarters() {
        let window = |throughput_per_s| Window {
            ended: 1,
            throughput_per_s,
            latency_ms: Some(50.0),
        };
        let said = |rates: &[f64], is_stable| {
            let found = Stability {
                length: Ns::from_ms(500),
                tolerance: 0.1,
                windows: rates.iter().map(|&rate| window(rate)).collect(),
                is_stable,
            };
            let mut client = ClientReport {
                stability: Some(found),
                ..ClientReport::default()
            };
            client.course.windows = Some([window(1.0); 4]);
            client.course.drift = Some(Drift {
                throughput_ratio: 9.0,
                latency_ratio: 9.0,
            });
            lines(&closed(20), &[], &client).concat()
        };
        assert_eq!(
            said(&[1.0, 20.0, 21.0, 20.5], true),
            "stable: the last three of 4 windows of 0.5 s agree within 10 %: 20.0, 21.0, 20.5 \
             requests/s; latency 50.0, 50.0, 50.0 ms on average"
        );
        assert!(said(&[1.0, 2.0, 3.0], false).starts_with("not stable: the last three of 3"));
        assert!(said(&[1.0], false).starts_with("not stable: the run ended after 1 whole"));
    }

    #[test]
    fn missed_lengths_name_what_fixes_them_on_this_endpoint() {
        let short = || {
            steady(8).enumerate().map(|(n, mut record)| {
                record.tokens.output = Some(if n < 3 { 40 } else { 100 });
                record
            })
        };
        let advice = |draft: Draft| {
            let draft = Draft {
                warmup_request_count: Some(10),
                model: Some("m".into()),
                osl: Some(100.0),
                ..draft
            };
            let lines = found(&config(draft), short());
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert!(lines[0].starts_with("3 of 8 answers missed"), "{lines:?}");
            lines[0].split(": ").nth(1).unwrap().to_string()
        };
        let fixes = "--output-tokens-mean-deterministic fixes it, by ";
        let openai = Draft::default();
        assert_eq!(advice(openai), format!("{fixes}ignore_eos and min_tokens"));
        let triton = Draft {
            backend: Some("tensorrtllm".into()),
            ..Draft::default()
        };
        assert_eq!(advice(triton), format!("{fixes}min_length"));
        let sent = Draft {
            output_tokens_mean_deterministic: Some(true),
            ..Draft::default()
        };
        let held = "the server does not hold to ignore_eos and min_tokens, which were sent";
        assert_eq!(advice(sent), held);
    }
}
