//! Percentiles that the number of values cannot carry: which they are, and what bounds them.

use crate::stats::distribution::{is_supported, samples_bounded_by_max, samples_needed};
use crate::stats::figures::PERCENTILE_KEYS;
use crate::stats::summary::{Figure, MetricResult, PERCENTILES};
use serde_json::{Map, Value, json};

/// Stands behind a number that its samples do not carry.
pub(super) const MARK: char = '*';

/// Is this statistic of the figure a percentile that the number of values does not carry?
pub(super) fn is_unsupported(figure: &Figure, key: &str) -> bool {
    let count = match figure {
        Figure::Distribution(d) => d.count,
        Figure::Adjusted(a) => a.count,
        Figure::Scalar(_) | Figure::Weighted(_) => return false,
    };
    percent(key).is_some_and(|percent| !is_supported(count, percent))
}

fn percent(key: &str) -> Option<f64> {
    let at = PERCENTILE_KEYS.iter().position(|known| *known == key)?;
    Some(PERCENTILES[at])
}

/// What a mark in this column means, for the method block.
pub(super) fn note(key: &str) -> Option<String> {
    let percent = percent(key)?;
    Some(format!(
        "{}{MARK}: needs {} samples at 99 % confidence; from {} on the maximum bounds it, with \
         fewer nothing does",
        key.replace('_', "."),
        samples_needed(percent),
        samples_bounded_by_max(percent)
    ))
}

/// The keys of a metric's percentiles that its values do not carry; `None` when all are.
pub(super) fn unsupported(metric: &MetricResult) -> Option<Value> {
    let keys = PERCENTILE_KEYS.iter();
    let keys: Vec<_> = keys
        .filter(|key| is_unsupported(&metric.figure, key))
        .collect();
    (!keys.is_empty()).then(|| json!(keys))
}

/// The block of the JSON: what each percentile needs, and by tag which ones lack it.
pub(super) fn block(metrics: &[MetricResult]) -> Value {
    let each = |samples: fn(f64) -> u64| -> Map<String, Value> {
        let pairs = PERCENTILE_KEYS.iter().zip(PERCENTILES);
        pairs
            .map(|(key, percent)| ((*key).to_owned(), samples(percent).into()))
            .collect()
    };
    let unsupported: Map<String, Value> = metrics
        .iter()
        .filter_map(|metric| Some((metric.tag.to_owned(), unsupported(metric)?)))
        .collect();
    json!({
        "confidence_pct": 99,
        "samples_needed": each(samples_needed),
        "samples_bounded_by_max": each(samples_bounded_by_max),
        "unsupported": unsupported,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn metric(count: u64) -> MetricResult {
        let mut metric = fixture::summary()
            .metric("request_latency")
            .unwrap()
            .clone();
        let Figure::Distribution(d) = &mut metric.figure else {
            panic!("no distribution");
        };
        d.count = count;
        metric
    }

    #[test]
    fn a_percentile_is_marked_below_its_number_of_samples() {
        for (count, key, is_marked) in [
            (10, "p50", true),
            (11, "p50", false),
            (63, "p90", true),
            (64, "p90", false),
            (129, "p95", true),
            (130, "p95", false),
            (661, "p99", true),
            (662, "p99", false),
            (6_635, "p99_9", true),
            (6_636, "p99_9", false),
            (1, "avg", false),
            (1, "max", false),
        ] {
            let figure = metric(count).figure;
            assert_eq!(is_unsupported(&figure, key), is_marked, "{count} {key}");
        }
        assert!(!is_unsupported(&Figure::Scalar(1.0), "p99"));
    }

    #[test]
    fn the_block_names_what_lacks_samples() {
        let out = block(&[metric(100)]);
        let lacking = json!(["p1", "p5", "p95", "p99", "p99_9", "p99_99"]);
        assert_eq!(out["unsupported"]["request_latency"], lacking);
        let large = block(&[metric(60_000)]);
        assert_eq!(large["unsupported"]["request_latency"], json!(["p99_99"]));
        assert_eq!(block(&[metric(100_000)])["unsupported"], json!({}));
        assert_eq!(out["samples_needed"]["p99"], 662);
        assert_eq!(out["samples_bounded_by_max"]["p99"], 459);
    }
}
