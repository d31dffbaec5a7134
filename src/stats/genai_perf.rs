//! GenAI-Perf's definitions of a run's figures, to the digit: they differ from AIPerf's in the gap
//! between tokens, which is rounded to ns, and in what rates count.

use super::catalogue::find;
use super::distribution::{float, float_len};
use super::summary::{Distribution, Figure, MetricResult, PERCENTILES};

/// A request with content; times are ns since some moment that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PeerRequest {
    /// When it went.
    pub start_ns: u64,
    /// First response with content.
    pub first_ns: u64,
    /// Second one.
    pub second_ns: Option<u64>,
    /// Last one.
    pub end_ns: u64,
    /// Tokens of the prompt; absent where nobody counted.
    pub input: Option<u64>,
    /// Tokens of the answer; absent where there are none.
    pub output: Option<u64>,
}

/// A run in GenAI-Perf's view.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PeerRun {
    /// Requests with content.
    pub kept: Vec<PeerRequest>,
    /// All of them: its request throughput counts those without content too.
    pub count: u64,
}

impl PeerRequest {
    fn latency(&self) -> f64 {
        float(self.end_ns.saturating_sub(self.start_ns))
    }

    fn ttft(&self) -> f64 {
        float(self.first_ns.saturating_sub(self.start_ns))
    }

    fn ttst(&self) -> Option<f64> {
        let second = self.second_ns?;
        Some(float(second.saturating_sub(self.first_ns)))
    }

    /// A whole number of ns, halves to even; only with a second response and a second token.
    fn itl(&self) -> Option<f64> {
        let output = self.output.filter(|output| *output > 1)?;
        self.second_ns?;
        Some(((self.latency() - self.ttft()) / float(output - 1)).round_ties_even())
    }

    fn per_user(&self) -> Option<f64> {
        self.itl()
            .filter(|itl| *itl > 0.0)
            .map(|itl| 1.0 / (itl / 1e9))
    }

    /// A metric by its tag: times in ns.
    fn value(&self, tag: &str) -> Option<f64> {
        match tag {
            "request_latency" => Some(self.latency()),
            "time_to_first_token" => Some(self.ttft()),
            "time_to_second_token" => self.ttst(),
            "inter_token_latency" => self.itl(),
            "output_token_throughput_per_user" => self.per_user(),
            "output_sequence_length" => self.output.map(float),
            "input_sequence_length" => self.input.map(float),
            _ => None,
        }
    }
}

/// Metrics of a request, with what makes their display unit of ours.
const PER_REQUEST: [(&str, f64); 7] = [
    ("request_latency", 1e-6),
    ("time_to_first_token", 1e-6),
    ("time_to_second_token", 1e-6),
    ("inter_token_latency", 1e-6),
    ("output_token_throughput_per_user", 1.0),
    ("output_sequence_length", 1.0),
    ("input_sequence_length", 1.0),
];

/// The figures of one run or of several, under our tags. Of several the latencies are of all
/// requests together and the rates are added, as its `process-export-files` does. `goodput` are
/// service levels: tag and limit in display units.
///
/// Nothing but the counts when no request has content.
pub fn figures(runs: &[PeerRun], goodput: &[(String, f64)]) -> Vec<MetricResult> {
    let all = || runs.iter().flat_map(|run| &run.kept);
    let mut results = Vec::new();
    let mut add = |tag: &str, figure: Option<Figure>| {
        results.extend(figure.and_then(|figure| result(tag, figure)));
    };
    for (tag, scale) in PER_REQUEST {
        let values: Vec<f64> = all().filter_map(|request| request.value(tag)).collect();
        add(tag, distribution(&values, scale).map(Figure::Distribution));
    }
    let sum = |of: &dyn Fn(&PeerRun) -> f64| -> f64 {
        let rate = |run: &PeerRun| duration_s(run).map_or(0.0, |seconds| of(run) / seconds);
        runs.iter().map(rate).sum()
    };
    let outputs = |run: &PeerRun| {
        let outputs = run.kept.iter().filter_map(|request| request.output);
        float(outputs.sum())
    };
    if all().any(|request| request.output.is_some()) {
        add(
            "output_token_throughput",
            Some(Figure::Scalar(sum(&outputs))),
        );
    }
    add(
        "request_throughput",
        Some(Figure::Scalar(sum(&|run| float(run.count)))),
    );
    add(
        "request_count",
        Some(Figure::Scalar(float_len(all().count()))),
    );
    if !goodput.is_empty() {
        let good = |run: &PeerRun| {
            let good = run.kept.iter().filter(|request| is_good(request, goodput));
            float_len(good.count())
        };
        add("goodput", Some(Figure::Scalar(sum(&good))));
    }
    results
}

/// Can a service level of GenAI-Perf name this metric?
pub fn is_level(tag: &str) -> bool {
    PER_REQUEST[..5].iter().any(|(known, _)| *known == tag)
}

fn is_good(request: &PeerRequest, goodput: &[(String, f64)]) -> bool {
    goodput.iter().all(|(tag, limit)| {
        let scale = PER_REQUEST.iter().find(|(known, _)| known == tag);
        let value = request.value(tag);
        value
            .zip(scale)
            .is_some_and(|(value, (_, scale))| match tag.as_str() {
                "output_token_throughput_per_user" => value >= *limit,
                _ => value <= limit / scale,
            })
    })
}

/// From the first start to the last content; `None` without one.
fn duration_s(run: &PeerRun) -> Option<f64> {
    let start = run.kept.iter().map(|request| request.start_ns).min()?;
    let end = run.kept.iter().map(|request| request.end_ns).max()?;
    (end > start).then(|| float(end - start) / 1e9)
}

fn result(tag: &str, figure: Figure) -> Option<MetricResult> {
    let named = find(tag)?;
    Some(MetricResult {
        tag: named.tag,
        header: named.header,
        unit: named.unit,
        figure,
    })
}

/// numpy's statistics, scaled when they are done, as there: the digits depend on both.
fn distribution(values: &[f64], scale: f64) -> Option<Distribution> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let (sum, count) = (pairwise(values), float_len(values.len()));
    let avg = sum / count;
    let squares: Vec<f64> = values.iter().map(|v| (v - avg) * (v - avg)).collect();
    let std = (pairwise(&squares) / count).sqrt();
    Some(Distribution {
        avg: avg * scale,
        min: min * scale,
        max: max * scale,
        std: std * scale,
        sum: sum * scale,
        count: values.len() as u64,
        percentiles: PERCENTILES.map(|percent| percentile(&sorted, percent) * scale),
        exact: true,
    })
}

/// The sum as numpy adds: eight sums side by side over 128 values at the most, then halves.
fn pairwise(values: &[f64]) -> f64 {
    let len = values.len();
    if len < 8 {
        return values.iter().sum();
    }
    if len <= 128 {
        let mut sums: [f64; 8] = std::array::from_fn(|at| values[at]);
        let rest = len % 8;
        for eight in values[8..len - rest].chunks_exact(8) {
            sums.iter_mut()
                .zip(eight)
                .for_each(|(sum, value)| *sum += value);
        }
        let [a, b, c, d, e, f, g, h] = sums;
        let whole = ((a + b) + (c + d)) + ((e + f) + (g + h));
        return values[len - rest..]
            .iter()
            .fold(whole, |sum, value| sum + value);
    }
    let half = len / 2 - (len / 2) % 8;
    pairwise(&values[..half]) + pairwise(&values[half..])
}

/// numpy's linear interpolation: from the nearer of the two neighbours. Shape: not empty.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let last = sorted.len() - 1;
    let rank = float_len(last) * (percent / 100.0);
    let low = super::distribution::floor_index(rank).min(last);
    let (a, b) = (sorted[low], sorted[(low + 1).min(last)]);
    let part = rank - float_len(low);
    match part >= 0.5 {
        true => b - (b - a) * (1.0 - part),
        false => a + (b - a) * part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(start: u64, contents: &[u64], input: u64, output: u64) -> PeerRequest {
        PeerRequest {
            start_ns: start,
            first_ns: contents[0],
            second_ns: contents.get(1).copied(),
            end_ns: contents[contents.len() - 1],
            input: Some(input),
            output: Some(output),
        }
    }

    fn run(kept: Vec<PeerRequest>) -> PeerRun {
        let count = kept.len() as u64;
        PeerRun { kept, count }
    }

    fn values(run: &PeerRun, tag: &str) -> Vec<Option<f64>> {
        run.kept.iter().map(|request| request.value(tag)).collect()
    }

    fn scalar(results: &[MetricResult], tag: &str) -> f64 {
        let found = results.iter().find(|metric| metric.tag == tag).unwrap();
        match found.figure {
            Figure::Scalar(value) => value,
            _ => panic!("{tag}"),
        }
    }

    #[test]
    fn the_gap_between_tokens_is_a_whole_number_of_ns_and_halves_are_even() {
        // GenAI-Perf's own test of a chat: the empty responses are gone already.
        let chat = run(vec![
            request(1, &[5, 8, 12], 3, 3),
            request(2, &[7, 11, 15], 4, 6),
        ]);
        assert_eq!(values(&chat, "request_latency"), [Some(11.0), Some(13.0)]);
        assert_eq!(values(&chat, "time_to_first_token"), [Some(4.0), Some(5.0)]);
        assert_eq!(
            values(&chat, "time_to_second_token"),
            [Some(3.0), Some(4.0)]
        );
        assert_eq!(values(&chat, "inter_token_latency"), [Some(4.0), Some(2.0)]);
        let found = figures(std::slice::from_ref(&chat), &[]);
        assert_eq!(scalar(&found, "request_throughput"), 2.0 / 14e-9);
        assert_eq!(scalar(&found, "output_token_throughput"), 9.0 / 14e-9);
        let triton = run(vec![
            request(1, &[3, 5, 8], 3, 3),
            request(2, &[4, 7, 11], 4, 6),
        ]);
        assert_eq!(
            values(&triton, "inter_token_latency"),
            [Some(2.0), Some(1.0)]
        );
        let single = run(vec![request(1, &[5], 3, 4), request(14, &[17], 10, 4)]);
        assert_eq!(values(&single, "inter_token_latency"), [None, None]);
        let both = figures(&[chat.clone(), chat], &[]);
        assert!((scalar(&both, "request_throughput") - 4.0 / 14e-9).abs() < 1.0);
        assert_eq!(scalar(&both, "request_count"), 4.0);
    }

    #[test]
    fn what_has_no_content_counts_in_the_throughput_alone() {
        let mut one = run(vec![request(0, &[500_000_000, 1_000_000_000], 1, 2)]);
        one.count = 2;
        let found = figures(&[one], &[]);
        assert_eq!(scalar(&found, "request_throughput"), 2.0);
        assert_eq!(scalar(&found, "request_count"), 1.0);
        let none = figures(
            &[PeerRun {
                kept: vec![],
                count: 3,
            }],
            &[],
        );
        assert_eq!(scalar(&none, "request_throughput"), 0.0);
        assert_eq!(none.len(), 2);
    }

    #[test]
    fn a_good_request_is_within_every_level() {
        let levels = |list: &[(&str, f64)]| -> Vec<(String, f64)> {
            list.iter()
                .map(|(tag, limit)| ((*tag).to_string(), *limit))
                .collect()
        };
        let triton = run(vec![
            request(1, &[3, 5, 8], 3, 3),
            request(2, &[4, 7, 11], 4, 6),
        ]);
        let at = |list| {
            scalar(
                &figures(std::slice::from_ref(&triton), &levels(list)),
                "goodput",
            )
        };
        let both = at(&[
            ("time_to_first_token", 2.5e-6),
            ("inter_token_latency", 2.5e-6),
        ]);
        assert_eq!(both, 2.0 / 10e-9);
        assert_eq!(at(&[("inter_token_latency", 1.5e-6)]), 1.0 / 10e-9);
        assert_eq!(
            at(&[("output_token_throughput_per_user", 0.6e9)]),
            1.0 / 10e-9
        );
        assert!(is_level("inter_token_latency") && !is_level("input_sequence_length"));
    }

    #[test]
    fn sums_and_percentiles_are_numpys() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let found = distribution(&values, 1.0).unwrap();
        for (at, want) in [(0, 1.99), (3, 25.75), (6, 90.1), (8, 99.01)] {
            assert!((found.percentiles[at] - want).abs() < 1e-12, "{want}");
        }
        assert!((found.std - 28.866_070_047_722_12).abs() < 1e-12);
        assert_eq!(pairwise(&values), 5050.0);
        let many: Vec<f64> = (0..1_000).map(f64::from).collect();
        assert_eq!(pairwise(&many), 499_500.0);
        assert_eq!(distribution(&[], 1.0), None);
    }
}
