//! How long a block of requests must be to be about independent of the next one.

use super::distribution::{float_len, floor_index};

/// Lags in a row without correlation that end the search.
const QUIET_LAGS: usize = 5;
/// Blocks of which more tell nothing new, and the length up to which they are as few as that:
/// memory is read faster in rows.
const BLOCKS_ENOUGH: usize = 10_000;
const ROW: usize = 64;
/// Greatest lag that is looked at: a million requests of a drifting run still take a second.
const LAG_MAX: usize = 1_000;

/// The length of circular blocks at which the error of a bootstrapped mean's variance is least.
///
/// 1 of independent values, longer by how far their correlation reaches, growing with the cube root
/// of the count; at most a third of the values, and three roots of their count. From 20,000 values
/// on not less than a ten-thousandth of them, up to 64: longer blocks than needed cost precision
/// only where there are few.
///
/// Shape: values in time order; NaN is absent and counts as the mean. Cost: one pass for each lag
/// up to where correlation ends, a thousand at the most.
/// Source: Politis and White 2004, as corrected by Patton, Politis and White 2009: flat-top window
/// over the autocovariances up to twice the last lag before five that could be none.
///
/// ```
/// use tokenring::stats::blocks::block_length;
/// let alternating: Vec<f64> = (0..1_000).map(|i| f64::from(i / 10 % 2)).collect();
/// assert!(block_length(&alternating) > 10);
/// assert_eq!(block_length(&[5.0; 1_000]), 1);
/// ```
pub fn block_length(values: &[f64]) -> usize {
    let count = values.len();
    let least = (count / BLOCKS_ENOUGH).clamp(1, ROW);
    let Some(deviations) = deviations(values) else {
        return least;
    };
    let n = float_len(count);
    let cap = floor_index((3.0 * n.sqrt()).min(n / 3.0)).max(1);
    let lag_max = (floor_index(n.sqrt()) + QUIET_LAGS)
        .min(LAG_MAX)
        .min(count - 1);
    let bound = 2.0 * (n.log10() / n).sqrt();
    let variance = covariance(&deviations, 0);
    let mut covariances = vec![variance];
    let (mut last, mut quiet) = (0, 0);
    while quiet < QUIET_LAGS && covariances.len() <= lag_max {
        let lag = covariances.len();
        let found = covariance(&deviations, lag);
        covariances.push(found);
        if (found / variance).abs() > bound {
            (last, quiet) = (lag, 0);
        } else {
            quiet += 1;
        }
    }
    let reach = (2 * last.max(1)).min(lag_max);
    while covariances.len() <= reach {
        covariances.push(covariance(&deviations, covariances.len()));
    }
    let (mut spectrum, mut slope) = (variance, 0.0);
    for (lag, covariance) in covariances.iter().enumerate().take(reach + 1).skip(1) {
        let lag = float_len(lag);
        let weight = (2.0 * (1.0 - lag / float_len(reach))).min(1.0);
        spectrum += 2.0 * weight * covariance;
        slope += 2.0 * weight * lag * covariance;
    }
    // (2 g^2 / D)^(1/3) with D = 4/3 s^2.
    let length = (1.5 * (slope / spectrum).powi(2) * n).cbrt();
    if length.is_finite() {
        floor_index(length.ceil()).min(cap).max(least)
    } else {
        cap
    }
}

/// What each value is off the mean; `None` when there is no spread.
fn deviations(values: &[f64]) -> Option<Vec<f64>> {
    let (mut sum, mut present) = (0.0, 0);
    for value in values.iter().filter(|v| !v.is_nan()) {
        sum += value;
        present += 1;
    }
    let mean = sum / float_len(present);
    let off = |v: &f64| if v.is_nan() { 0.0 } else { v - mean };
    let out: Vec<f64> = values.iter().map(off).collect();
    let least = 1e-12 * mean.abs();
    let is_spread = present > 2 && out.iter().any(|v| v.abs() > least);
    is_spread.then_some(out)
}

/// Sum of products `lag` apart, over the count.
fn covariance(deviations: &[f64], lag: usize) -> f64 {
    let (early, late) = (&deviations[..deviations.len() - lag], &deviations[lag..]);
    // Eight sums side by side, which the compiler may keep in vector registers.
    let (early, early_rest) = early.as_chunks::<8>();
    let (late, late_rest) = late.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in early.iter().zip(late) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f64 = early_rest.iter().zip(late_rest).map(|(a, b)| a * b).sum();
    (sums.iter().sum::<f64>() + rest) / float_len(deviations.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Rng, Stream};
    use proptest::prelude::*;

    /// Each value is `rho` times the last one and news.
    fn autoregressive(rho: f64, count: usize, index: u64) -> Vec<f64> {
        let mut rng = Rng::new(11, Stream::Test, index);
        let mut last = rng.normal() / (1.0 - rho * rho).sqrt();
        let mut step = || {
            last = rho * last + rng.normal();
            last
        };
        (0..count).map(|_| step()).collect()
    }

    #[test]
    fn the_length_is_that_of_the_closed_form() {
        for (rho, count) in [(0.3, 20_000), (0.5, 20_000), (0.8, 20_000), (0.5, 160_000)] {
            // Of such a law, slope over spectrum is 2 rho / (1 - rho^2).
            let ratio = 2.0 * rho / (1.0 - rho * rho);
            let expected = (1.5 * ratio * ratio * float_len(count)).cbrt();
            let found: usize = (0..8)
                .map(|i| block_length(&autoregressive(rho, count, i)))
                .sum();
            let error = float_len(found) / 8.0 / expected;
            assert!((0.8..1.25).contains(&error), "{rho} {count}: {error}");
        }
    }

    #[test]
    fn independent_values_need_short_blocks() {
        let mut rng = Rng::new(5, Stream::Test, 9);
        let values: Vec<f64> = (0..50_000).map(|_| rng.exponential()).collect();
        let found = block_length(&values);
        assert!(found <= 10, "{found}");
    }

    #[test]
    fn many_values_are_drawn_in_rows_of_some() {
        for (count, expected) in [(19_999, 1), (50_000, 5), (1_000_000, 64)] {
            assert_eq!(block_length(&vec![1.0; count]), expected);
        }
    }

    #[test]
    fn few_or_equal_or_absent_values_have_blocks_of_one() {
        for values in [
            &[][..],
            &[1.0],
            &[1.0, 2.0],
            &[3.0; 50],
            &[0.1; 50],
            &[f64::NAN; 9],
        ] {
            assert_eq!(block_length(values), 1, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn a_block_is_at_most_a_third_and_does_not_see_scale(
            values in prop::collection::vec(0.0..100.0f64, 3..300),
            scale in 0.5..20.0f64,
        ) {
            let found = block_length(&values);
            prop_assert!(found >= 1 && found <= (values.len() / 3).max(1));
            let scaled: Vec<f64> = values.iter().map(|v| v * scale).collect();
            prop_assert!(block_length(&scaled).abs_diff(found) <= 1);
        }
    }
}
