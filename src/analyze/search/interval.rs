//! Where the boundary may lie, given noise: rising fits that change sign at each place in turn
//! against the best one.

use crate::stats::distribution::float_len;
use crate::stats::isotonic::rising;

/// What was seen at one load: `excess` is below zero where the condition holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) value: f64,
    /// Mean over the visits.
    pub(super) excess: f64,
    pub(super) visits: usize,
}

/// The loads between which the boundary may lie; `None` is an open end.
///
/// Shape: `points` by rising load. `variance` is of one visit; `cut` is how many times it a fit may
/// be worse than the best one. Source: Banerjee and Wellner 2005, with Student's quantile in the
/// place of their limit, which holds for many loads only and is smaller.
pub(super) fn interval(points: &[Point], variance: f64, cut: f64) -> (Option<f64>, Option<f64>) {
    let means: Vec<f64> = points.iter().map(|point| point.excess).collect();
    let weights: Vec<f64> = points.iter().map(|p| float_len(p.visits)).collect();
    let rest = |fit: &[f64]| -> f64 {
        let errors = fit.iter().zip(&means).map(|(fit, mean)| fit - mean);
        errors.zip(&weights).map(|(e, weight)| weight * e * e).sum()
    };
    let best = rest(&rising(&means, &weights));
    // The first `holding` loads hold, the others do not.
    let worse = |holding: usize| {
        let fit = |from: usize, to: usize| rising(&means[from..to], &weights[from..to]);
        let below = fit(0, holding).into_iter().map(|excess| excess.min(0.0));
        let above = fit(holding, means.len()).into_iter();
        let fit: Vec<f64> = below.chain(above.map(|excess| excess.max(0.0))).collect();
        rest(&fit) - best
    };
    let kept = (0..=points.len()).filter(|&holding| worse(holding) <= cut * variance);
    let kept: Vec<usize> = kept.collect();
    let value = |at: usize| points.get(at).map(|point| point.value);
    let low = kept.first().and_then(|first| value(first.checked_sub(1)?));
    (low, kept.last().and_then(|&last| value(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(all: &[(f64, f64, usize)]) -> Vec<Point> {
        let point = |&(value, excess, visits): &(f64, f64, usize)| Point {
            value,
            excess,
            visits,
        };
        all.iter().map(point).collect()
    }

    #[test]
    fn what_the_noise_cannot_tell_apart_stays_in() {
        let seen = points(&[
            (1.0, -0.9, 1),
            (8.0, -0.3, 1),
            (12.0, -0.05, 3),
            (13.0, 0.04, 3),
            (16.0, 0.3, 1),
            (32.0, 0.8, 1),
        ]);
        // 12 and 13 are within two standard errors of 0.1 / sqrt(3).
        assert_eq!(interval(&seen, 0.01, 3.84), (Some(8.0), Some(16.0)));
        assert_eq!(interval(&seen, 1e-6, 3.84), (Some(12.0), Some(13.0)));
        assert_eq!(interval(&seen, 1.0, 3.84), (None, None));
    }

    #[test]
    fn a_range_without_a_failure_or_a_pass_is_open_there() {
        let holds = points(&[(1.0, -0.9, 1), (2.0, -0.5, 3)]);
        assert_eq!(interval(&holds, 0.01, 3.84), (Some(2.0), None));
        let fails = points(&[(1.0, 0.5, 3), (2.0, 0.9, 1)]);
        assert_eq!(interval(&fails, 0.01, 3.84), (None, Some(1.0)));
        assert_eq!(interval(&[], 0.01, 3.84), (None, None));
    }

    #[test]
    fn many_visits_of_both_sides_make_up_for_noise() {
        let seen = points(&[(100.0, -0.05, 40), (101.0, 0.05, 40)]);
        assert_eq!(interval(&seen, 0.01, 3.84), (Some(100.0), Some(101.0)));
    }
}
