//! Histograms of 3 significant digits, with exact count, sum, min and max beside.

use super::summary::{Distribution, PERCENTILES, Spread};

/// Largest value kept: 30 hours in ns. Larger ones are counted there.
const VALUE_MAX: u64 = 108_000_000_000_000;

/// A histogram of ns.
#[derive(Clone, Debug)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one; memory grows with the largest value seen.
    pub fn new() -> Histogram {
        let mut inner = hdrhistogram::Histogram::new_with_bounds(1, 1_000_000_000, 3)
            .expect("1 to 10^9 in 3 digits is valid");
        inner.auto(true);
        Histogram {
            inner,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// Adds a value. Cost: about 5 ns; a value beyond all earlier ones may allocate.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.inner.saturating_record(value.min(VALUE_MAX));
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Histogram) {
        // An auto-resizing histogram takes any other of the same precision.
        let _ = self.inner.add(&other.inner);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// Value below which `percent` of the values lie, never beyond min and max.
    pub fn percentile(&self, percent: f64) -> u64 {
        match self.count() {
            0 => 0,
            _ => self
                .inner
                .value_at_percentile(percent)
                .clamp(self.min, self.max),
        }
    }

    /// The usual percentiles.
    pub fn spread(&self) -> Spread {
        Spread {
            count: self.count(),
            p50: self.percentile(50.0),
            p90: self.percentile(90.0),
            p99: self.percentile(99.0),
            p99_9: self.percentile(99.9),
            max: self.max,
        }
    }

    /// As a distribution in units of `ns_per_unit`; absent when empty.
    #[expect(clippy::cast_precision_loss, reason = "3 digits are kept anyway")]
    pub fn distribution(&self, ns_per_unit: f64) -> Option<Distribution> {
        let count = self.count();
        (count > 0).then(|| Distribution {
            avg: self.sum as f64 / count as f64 / ns_per_unit,
            min: self.min as f64 / ns_per_unit,
            max: self.max as f64 / ns_per_unit,
            std: self.inner.stdev() / ns_per_unit,
            sum: self.sum as f64 / ns_per_unit,
            count,
            percentiles: PERCENTILES.map(|p| self.percentile(p) as f64 / ns_per_unit),
            exact: false,
        })
    }
}
