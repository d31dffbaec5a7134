//! A run's statistics by name: what sweeps, gates and comparisons read, of a run that is just over
//! as of one that lies on disk.

use super::summary::{Figure, MetricResult, PERCENTILES};
use serde::{Deserialize, Serialize};

/// Names of [`PERCENTILES`], in their order.
pub const PERCENTILE_KEYS: [&str; 11] = [
    "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99_9", "p99_99",
];
const _: () = assert!(PERCENTILES.len() == PERCENTILE_KEYS.len());
/// Names of a time-weighted figure's percentiles.
pub const WEIGHTED_KEYS: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// The statistics of one metric, in display units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricFigures {
    /// `time_to_first_token`.
    pub tag: String,
    /// `ms`.
    pub unit: String,
    /// `avg`, `p1` to `p99_99`, `min`, `max`, `std`, `count`, `sum`, as far as there are; a number
    /// for the run is its `avg`.
    pub stats: Vec<(String, f64)>,
}

/// All statistics of a run.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures(pub Vec<MetricFigures>);

impl Figures {
    /// Of metrics, in their order. What is not finite is left out.
    pub fn of(metrics: &[MetricResult]) -> Figures {
        let figures =
            |metric: &MetricResult| MetricFigures::of(metric.tag, metric.unit, &metric.figure);
        Figures(metrics.iter().map(figures).collect())
    }

    /// The metric with this tag.
    pub fn metric(&self, tag: &str) -> Option<&MetricFigures> {
        self.0.iter().find(|metric| metric.tag == tag)
    }

    /// One statistic of a metric, such as `time_to_first_token`, `p99`.
    pub fn get(&self, tag: &str, stat: &str) -> Option<f64> {
        self.metric(tag)?.get(stat)
    }
}

impl MetricFigures {
    /// Of one figure.
    pub fn of(tag: &str, unit: &str, figure: &Figure) -> MetricFigures {
        let stats = named(figure)
            .into_iter()
            .filter(|(_, value)| value.is_finite());
        MetricFigures {
            tag: tag.into(),
            unit: unit.into(),
            stats: stats.map(|(name, value)| (name.into(), value)).collect(),
        }
    }

    /// One statistic.
    pub fn get(&self, stat: &str) -> Option<f64> {
        let found = self.stats.iter().find(|(name, _)| name == stat);
        found.map(|(_, value)| *value)
    }
}

/// The statistics of a figure, in AIPerf's order. A count is a whole number.
#[expect(clippy::cast_precision_loss, reason = "counts")]
pub fn named(figure: &Figure) -> Vec<(&'static str, f64)> {
    match figure {
        Figure::Scalar(value) => vec![("avg", *value)],
        Figure::Distribution(d) => {
            let percentiles = PERCENTILE_KEYS.into_iter().zip(d.percentiles);
            let ends = [("min", d.min), ("max", d.max), ("std", d.std)];
            let totals = [("count", d.count as f64), ("sum", d.sum)];
            let rest = percentiles.chain(ends).chain(totals);
            std::iter::once(("avg", d.avg)).chain(rest).collect()
        }
        Figure::Weighted(w) => {
            let percentiles = WEIGHTED_KEYS.into_iter().zip(w.percentiles);
            let ends = [("min", w.min), ("max", w.max), ("std", w.std)];
            let rest = percentiles.chain(ends);
            std::iter::once(("avg", w.avg)).chain(rest).collect()
        }
        Figure::Adjusted(a) => {
            let percentiles = PERCENTILE_KEYS.into_iter().zip(a.percentiles);
            let bounded = percentiles.filter_map(|(name, value)| Some((name, value?)));
            let ends = [("min", a.min), ("count", a.count as f64)];
            bounded.chain(ends).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::summary::Distribution;

    #[test]
    fn a_statistic_is_found_by_its_names_and_survives_json() {
        let figure = Figure::Distribution(
            Distribution::from_values(&mut [20.202_020_202_020_204, 30.0]).unwrap(),
        );
        let metric = MetricResult {
            tag: "inter_token_latency",
            header: "Inter Token Latency",
            unit: "ms",
            figure,
        };
        let figures = Figures::of(&[metric]);
        assert_eq!(
            figures.get("inter_token_latency", "min"),
            Some(20.202_020_202_020_204)
        );
        assert_eq!(figures.get("inter_token_latency", "count"), Some(2.0));
        assert_eq!(figures.get("inter_token_latency", "p2"), None);
        assert_eq!(figures.get("time_to_first_token", "avg"), None);
        let text = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<Figures>(&text).unwrap(), figures);
    }
}
