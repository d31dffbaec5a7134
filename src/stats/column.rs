//! The values of one metric: one constant, then exact values, then a histogram.

use super::distribution::float;
use super::histogram::Histogram;
use super::summary::Distribution;
use crate::base::limits::EXACT_REQUESTS_MAX;

/// Histogram steps per display unit: ns per ms.
const PER_UNIT: f64 = 1e6;
/// Signed percentages start here.
const FLOOR: f64 = -100.0;
#[derive(Clone, Debug)]
pub(super) enum Column {
    Constant(f64, u64),
    Exact(Vec<f64>),
    Rough(Box<Histogram>),
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
fn steps(value: f64) -> u64 {
    ((value - FLOOR) * PER_UNIT).round() as u64
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
    /// Adds a value.
    pub(super) fn push(&mut self, value: f64) {
        match self {
            Column::Constant(_, count @ 0) => *self = Column::Constant(value, *count + 1),
            Column::Constant(held, count) if held.to_bits() == value.to_bits() => *count += 1,
            Column::Constant(held, count) => {
                let len = usize::try_from(*count).unwrap_or(usize::MAX);
                if len < EXACT_REQUESTS_MAX {
                    let mut values = vec![*held; len];
                    values.push(value);
                    *self = Column::Exact(values);
                } else {
                    let mut rough = Box::new(Histogram::new());
                    rough.record_n(steps(*held), *count);
                    rough.record(steps(value));
                    *self = Column::Rough(rough);
                }
            }
            Column::Exact(values) if values.len() < EXACT_REQUESTS_MAX => values.push(value),
            Column::Exact(values) => {
                let mut rough = Box::new(Histogram::new());
                values.iter().for_each(|v| rough.record(steps(*v)));
                rough.record(steps(value));
                *self = Column::Rough(rough);
            }
            Column::Rough(rough) => rough.record(steps(value)),
        }
    }

    /// Statistics; exact values are sorted by it.
    pub(super) fn distribution(&mut self) -> Option<Distribution> {
        match self {
            Column::Constant(value, count) => Distribution::constant(*value, *count),
            Column::Exact(values) => Distribution::from_values(values),
            Column::Rough(rough) => rough.distribution(PER_UNIT).map(|mut d| {
                d.avg += FLOOR;
                d.min += FLOOR;
                d.max += FLOOR;
                d.sum += FLOOR * float(d.count);
                d.percentiles = d.percentiles.map(|p| p + FLOOR);
                d
            }),
        }
    }

    /// The value of this rank; after [`Column::distribution`].
    pub(super) fn at(&self, rank: u64) -> Option<f64> {
        match self {
            Column::Constant(value, count) => (rank < *count).then_some(*value),
            Column::Exact(values) => values.get(usize::try_from(rank).ok()?).copied(),
            Column::Rough(h) => {
                let quantile = float(rank + 1) / float(h.count());
                h.quantile(quantile).map(|v| float(v) / PER_UNIT + FLOOR)
            }
        }
    }

    /// The values in ns, when they are exact milliseconds; `None` when empty or rough.
    pub(super) fn histogram(&self) -> Option<Histogram> {
        let mut h = Histogram::new();
        match self {
            Column::Constant(value, count) => h.record_n(whole(value * PER_UNIT), *count),
            Column::Exact(values) => values.iter().for_each(|v| h.record(whole(v * PER_UNIT))),
            Column::Rough(_) => return None,
        }
        (!h.is_empty()).then_some(h)
    }
}
