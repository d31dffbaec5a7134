//! The values of one metric: one constant, then exact values, then a histogram.

use super::distribution::float;
use super::histogram::Histogram;
use super::summary::Distribution;
use crate::base::limits::EXACT_REQUESTS_MAX;

/// Histogram steps per display unit: ns per ms.
const PER_UNIT: f64 = 1e6;
/// Signed percentages start here.
const SIGNED_FLOOR: f64 = -100.0;

#[derive(Clone, Debug)]
pub(super) struct Column {
    /// What the histogram counts from: 3 digits of the value itself unless it can be negative.
    floor: f64,
    /// Values above which the histogram takes over.
    exact_max: usize,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    Constant(f64, u64),
    Exact(Vec<f64>),
    Rough(Box<Histogram>),
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
pub(super) fn whole(value: f64) -> u64 {
    value.round() as u64
}

impl Column {
    /// An empty one, of values that may be negative or may not.
    pub(super) fn new(is_signed: bool) -> Column {
        Column {
            floor: if is_signed { SIGNED_FLOOR } else { 0.0 },
            exact_max: EXACT_REQUESTS_MAX,
            values: Values::Constant(0.0, 0),
        }
    }

    /// An empty one of values that are not negative, exact up to so many of them.
    pub(super) fn exact_up_to(exact_max: usize) -> Column {
        Column {
            exact_max,
            ..Column::new(false)
        }
    }

    /// Adds a value.
    pub(super) fn push(&mut self, value: f64) {
        let step = |value: f64| whole((value - self.floor) * PER_UNIT);
        match &mut self.values {
            Values::Constant(held, count @ 0) => (*held, *count) = (value, 1),
            Values::Constant(held, count) if held.to_bits() == value.to_bits() => *count += 1,
            Values::Constant(held, count) => {
                let len = usize::try_from(*count).unwrap_or(usize::MAX);
                self.values = if len < self.exact_max {
                    let mut values = vec![*held; len];
                    values.push(value);
                    Values::Exact(values)
                } else {
                    let mut rough = Box::new(Histogram::new());
                    rough.record_n(step(*held), *count);
                    rough.record(step(value));
                    Values::Rough(rough)
                };
            }
            Values::Exact(values) if values.len() < self.exact_max => values.push(value),
            Values::Exact(values) => {
                let mut rough = Box::new(Histogram::new());
                values.iter().for_each(|v| rough.record(step(*v)));
                rough.record(step(value));
                self.values = Values::Rough(rough);
            }
            Values::Rough(rough) => rough.record(step(value)),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        match &self.values {
            Values::Constant(_, count) => *count,
            Values::Exact(values) => values.len() as u64,
            Values::Rough(rough) => rough.count(),
        }
    }

    /// Statistics; exact values are sorted by it.
    pub(super) fn distribution(&mut self) -> Option<Distribution> {
        let floor = self.floor;
        match &mut self.values {
            Values::Constant(value, count) => Distribution::constant(*value, *count),
            Values::Exact(values) => Distribution::from_values(values),
            Values::Rough(rough) => rough.distribution(PER_UNIT).map(|mut d| {
                d.avg += floor;
                d.min += floor;
                d.max += floor;
                d.sum += floor * float(d.count);
                d.percentiles = d.percentiles.map(|p| p + floor);
                d
            }),
        }
    }

    /// The value of this rank; after [`Column::distribution`].
    pub(super) fn at(&self, rank: u64) -> Option<f64> {
        match &self.values {
            Values::Constant(value, count) => (rank < *count).then_some(*value),
            Values::Exact(values) => values.get(usize::try_from(rank).ok()?).copied(),
            Values::Rough(h) => {
                let quantile = float(rank + 1) / float(h.count());
                h.quantile(quantile)
                    .map(|v| float(v) / PER_UNIT + self.floor)
            }
        }
    }

    /// The values in ns, when they are milliseconds that cannot be negative; `None` when empty.
    pub(super) fn histogram(&self) -> Option<Histogram> {
        let mut h = Histogram::new();
        match &self.values {
            Values::Constant(value, count) => h.record_n(whole(value * PER_UNIT), *count),
            Values::Exact(values) => values.iter().for_each(|v| h.record(whole(v * PER_UNIT))),
            Values::Rough(rough) => h.merge(rough),
        }
        (!h.is_empty()).then_some(h)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(is_signed: bool, exact_max: usize, values: &[f64]) -> Column {
        let mut column = Column {
            exact_max,
            ..Column::new(is_signed)
        };
        values.iter().for_each(|value| column.push(*value));
        column
    }

    #[test]
    fn beyond_the_limit_values_keep_three_digits_and_exact_ends() {
        for values in [&[2.0, 3.004, 5.25, 7.5][..], &[2.0, 2.0, 2.0, 7.5]] {
            let exact = column(false, 10, values).distribution().unwrap();
            let rough = column(false, 3, values).distribution().unwrap();
            assert!(exact.exact && !rough.exact);
            assert_eq!((rough.min, rough.max, rough.count), (2.0, 7.5, 4));
            assert!((rough.sum - exact.sum).abs() < 1e-9);
            // A histogram names a value that is there, not one between two.
            let found = rough.percentiles[4];
            assert!(
                values.iter().any(|v| (found / v - 1.0).abs() < 1e-3),
                "{found}"
            );
        }
    }

    #[test]
    fn signed_values_stay_signed_beyond_the_limit() {
        let mut signed = column(true, 2, &[-25.0, -12.5, 25.0, 0.0]);
        let d = signed.distribution().unwrap();
        assert_eq!((d.min, d.max, d.sum, d.count), (-25.0, 25.0, -12.5, 4));
        assert_eq!(signed.at(0).map(f64::round), Some(-25.0));
    }

    #[test]
    fn the_log_has_every_value_however_many_there_were() {
        for exact_max in [2, 10] {
            let h = column(false, exact_max, &[1.0, 2.0, 3.0])
                .histogram()
                .unwrap();
            assert_eq!((h.count(), h.sum()), (3, 6_000_000));
        }
        assert!(column(false, 1, &[]).histogram().is_none());
    }
}
