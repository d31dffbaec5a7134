//! Exact statistics of a list of values.

use super::summary::{Adjusted, Distribution, PERCENTILES};

/// Percentiles of the error-adjusted view, in percent.
pub const ADJUSTED_PERCENTILES: [f64; 9] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];

/// Percentiles with the fewest samples that carry them at 99 % confidence.
///
/// Source: MLPerf LoadGen's early stopping.
pub const SAMPLES_NEEDED: [(f64, u64); 5] = [
    (50.0, 11),
    (90.0, 64),
    (95.0, 130),
    (99.0, 662),
    (99.9, 6_636),
];

/// A count as a float: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// A length as a float.
pub fn float_len(len: usize) -> f64 {
    float(len as u64)
}

/// The percentile by linear interpolation between the two nearest ranks (numpy's default).
///
/// Shape: `sorted` ascending; `None` when empty. Range: `percent` 0 to 100, clamped.
///
/// ```
/// use tokenring::stats::distribution::percentile;
/// assert_eq!(percentile(&[10.0, 20.0, 30.0, 40.0], 90.0), Some(37.0));
/// assert_eq!(percentile(&[], 50.0), None);
/// ```
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = percent.clamp(0.0, 100.0) / 100.0 * float_len(last);
    let low = floor_index(rank).min(last);
    let high = (low + 1).min(last);
    let (a, b) = (sorted[low], sorted[high]);
    Some((a + (rank - float_len(low)) * (b - a)).clamp(a, b))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; ranks are not negative"
)]
pub(super) fn floor_index(rank: f64) -> usize {
    rank.floor() as usize
}

/// Can `count` samples carry this percentile at 99 % confidence?
///
/// A percentile between two of the table needs what the higher one needs; above 99.9 the need grows
/// as one over the tail; 50 and below (mirrored) need 11 to 64.
pub fn is_supported(count: u64, percent: f64) -> bool {
    count >= samples_needed(percent)
}

/// The fewest samples that carry a percentile at 99 % confidence; a low percentile needs what its
/// mirror image needs.
pub fn samples_needed(percent: f64) -> u64 {
    let tail = percent.max(100.0 - percent);
    for (bound, needed) in SAMPLES_NEEDED {
        if tail <= bound + 1e-9 {
            return needed;
        }
    }
    // Ten times the tail, ten times the samples: 662 to 6,636 is the same step.
    let ratio = (100.0 - 99.9) / (100.0 - tail).max(1e-9);
    floor_index(6_636.0 * ratio).try_into().unwrap_or(u64::MAX)
}

/// The fewest samples of which the largest bounds a percentile from above at 99 % confidence: with
/// fewer, nothing in them does.
///
/// ```
/// use tokenring::stats::distribution::samples_bounded_by_max;
/// // 0.9^44 is 0.0097: as rarely are all of 44 samples below the true p90.
/// assert_eq!(samples_bounded_by_max(90.0), 44);
/// assert_eq!(samples_bounded_by_max(99.0), 459);
/// ```
pub fn samples_bounded_by_max(percent: f64) -> u64 {
    let below = (percent / 100.0).clamp(1e-9, 1.0 - 1e-9);
    floor_index((0.01f64.ln() / below.ln()).ceil()) as u64
}

impl Distribution {
    /// Statistics of `values`, which are sorted in place; `None` when empty.
    ///
    /// Units: those of the values. Cost: one sort.
    pub fn from_values(values: &mut [f64]) -> Option<Distribution> {
        if values.is_empty() {
            return None;
        }
        // Summed before the sort, so that the digits are those of the order of arrival.
        let count = float_len(values.len());
        let sum: f64 = values.iter().sum();
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (values[0], values[values.len() - 1]);
        // A sum may be beyond all numbers.
        let avg = (sum / count).max(min).min(max);
        let variance = values.iter().map(|v| (v - avg) * (v - avg)).sum::<f64>() / count;
        Some(Distribution {
            avg,
            min,
            max,
            std: variance.sqrt(),
            sum,
            count: values.len() as u64,
            percentiles: PERCENTILES.map(|p| percentile(values, p).unwrap_or(min)),
            exact: true,
        })
    }

    /// A distribution of one value, `count` times over.
    pub fn constant(value: f64, count: u64) -> Option<Distribution> {
        (count > 0).then(|| Distribution {
            avg: value,
            min: value,
            max: value,
            std: 0.0,
            sum: value * float(count),
            count,
            percentiles: [value; PERCENTILES.len()],
            exact: true,
        })
    }

    /// The percentile, when it is one of [`PERCENTILES`].
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let index = PERCENTILES
            .iter()
            .position(|p| (p - percent).abs() < 1e-9)?;
        Some(self.percentiles[index])
    }
}

/// The error-adjusted view: each failure is an infinite value; nearest rank, half to even.
///
/// Shape: `at(index)` gives the successes in ascending order; `None` without a success.
pub fn adjusted(
    successes: u64,
    failures: u64,
    at: impl Fn(u64) -> Option<f64>,
) -> Option<Adjusted> {
    let count = successes + failures;
    let min = at(0)?;
    Some(Adjusted {
        min,
        count,
        percentiles: ADJUSTED_PERCENTILES.map(|p| {
            let rank = (p / 100.0 * float(count - 1)).round_ties_even();
            let index = floor_index(rank) as u64;
            if index < successes { at(index) } else { None }
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[f64], percents: &[(f64, f64)]) {
        let d = Distribution::from_values(&mut values.to_vec()).unwrap();
        for &(percent, expected) in percents {
            let found = d.percentile(percent).unwrap();
            assert!((found - expected).abs() < 1e-12, "p{percent}: {found}");
        }
    }

    #[test]
    fn percentiles_are_numpys() {
        check(
            &[15.0, 20.0, 35.0, 40.0, 50.0],
            &[
                (1.0, 15.2),
                (5.0, 16.0),
                (10.0, 17.0),
                (25.0, 20.0),
                (50.0, 35.0),
                (75.0, 40.0),
                (90.0, 46.0),
                (95.0, 48.0),
                (99.0, 49.6),
            ],
        );
        check(
            &[10.0, 20.0, 30.0, 40.0],
            &[
                (1.0, 10.3),
                (25.0, 17.5),
                (50.0, 25.0),
                (75.0, 32.5),
                (90.0, 37.0),
                (95.0, 38.5),
                (99.0, 39.7),
            ],
        );
        let mut ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let d = Distribution::from_values(&mut ten).unwrap();
        assert_eq!(d.percentile(95.0), Some(9.549_999_999_999_999));
        assert!((d.std - 2.872_281_323_269_014_3).abs() < 1e-15);
        assert_eq!((d.sum, d.count, d.avg), (55.0, 10, 5.5));
    }

    #[test]
    fn one_value_is_every_percentile_and_no_value_is_absent() {
        let d = Distribution::from_values(&mut [7.0]).unwrap();
        assert_eq!((d.percentiles, d.std), ([7.0; 11], 0.0));
        assert_eq!(Distribution::from_values(&mut []), None);
    }

    #[test]
    fn failures_count_as_unbounded_by_nearest_rank() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let at = |i: u64| values.get(usize::try_from(i).unwrap()).copied();
        let a = adjusted(10, 2, at).unwrap();
        let expected = [1.0, 2.0, 2.0, 4.0, 7.0, 9.0].map(Some);
        assert_eq!(a.percentiles[..6], expected);
        assert_eq!(a.percentiles[6..], [None; 3]);
        // PC-1: nine successes of 100 ms and one failure.
        let a = adjusted(9, 1, |_| Some(100.0)).unwrap();
        assert_eq!((a.percentiles[6], a.percentiles[7]), (Some(100.0), None));
    }

    #[test]
    fn a_percentile_needs_its_samples() {
        assert!(is_supported(64, 90.0) && !is_supported(63, 90.0));
        assert!(is_supported(130, 95.0) && !is_supported(661, 99.0));
        assert!(is_supported(6_636, 99.9) && !is_supported(60_000, 99.99));
        assert!(is_supported(662, 1.0) && !is_supported(661, 1.0));
    }

    proptest! {
        #[test]
        fn percentiles_ascend_within_min_and_max(
            mut values in prop::collection::vec(-1e9..1e9f64, 1..200)
        ) {
            let d = Distribution::from_values(&mut values).unwrap();
            prop_assert!(d.percentiles.is_sorted());
            prop_assert!(d.min <= d.percentiles[0] && d.percentiles[10] <= d.max);
            prop_assert!(d.min <= d.avg && d.avg <= d.max);
        }
    }
}
