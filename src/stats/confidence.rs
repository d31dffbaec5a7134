//! How far the mean of a few runs can be off: Student's t over values that are independent of each
//! other, one per run. Requests within a run are not: see `bootstrap`.

use super::distribution::float_len;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Mean and spread of a list of values, and an interval that holds the true mean.
///
/// Units: those of the values; `cv` and `level` are ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confidence {
    /// Values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation of the sample (n - 1); 0 of one value.
    pub std: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// `std` over the mean's size; infinite when the mean is 0.
    pub cv: f64,
    /// Standard error of the mean.
    pub se: f64,
    /// Lower end of the two-sided interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Standard errors from the mean to either end; `None` of one value, which says nothing of
    /// spread (AIPerf writes NaN) and whose interval is the value itself.
    pub t_critical: Option<f64>,
    /// Share of such intervals that hold the true mean.
    pub level: f64,
}

impl Confidence {
    /// Of `values` at `level`.
    ///
    /// Range: `level` between 0 and 1, neither included; `None` otherwise, and without a value.
    /// Source: Student 1908; AIPerf's `confidence` aggregation has the same definitions.
    ///
    /// ```
    /// use tokenring::stats::confidence::Confidence;
    /// let runs = Confidence::of(&[100.0, 105.0, 110.0], 0.95).unwrap();
    /// assert_eq!((runs.mean, runs.std), (105.0, 5.0));
    /// assert!((runs.low - 92.579).abs() < 0.001 && (runs.high - 117.421).abs() < 0.001);
    /// ```
    pub fn of(values: &[f64], level: f64) -> Option<Confidence> {
        let count = values.len();
        if count == 0 || !(level > 0.0 && level < 1.0) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / float_len(count);
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let std = (squares / float_len((count - 1).max(1))).sqrt();
        let se = std / float_len(count).sqrt();
        let t_critical = (count > 1).then(|| t_quantile(level, float_len(count - 1)));
        let reach = t_critical.map_or(0.0, |t| t * se);
        Some(Confidence {
            count,
            mean,
            std,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            cv: if mean == 0.0 {
                f64::INFINITY
            } else {
                std / mean.abs()
            },
            se,
            low: mean - reach,
            high: mean + reach,
            t_critical,
            level,
        })
    }
}

/// Standard errors to either side of the mean that hold `level` of Student's t with this many
/// degrees of freedom, more than 0.
///
/// Range: `level` in 0 to 1; from 0.1 to 0.999,999 the relative error is below 1e-10 (tested). 0
/// where Student's t is not defined.
pub fn t_quantile(level: f64, freedom: f64) -> f64 {
    let tail = (1.0 - level.clamp(0.0, 1.0)) / 2.0;
    if freedom > SERIES_FROM {
        return t_series(normal_quantile(tail).abs(), freedom);
    }
    StudentsT::new(0.0, 1.0, freedom).map_or(0.0, |t| t.inverse_cdf(tail).abs())
}

/// Degrees of freedom from which the normal law is near enough to start from, and the crate's
/// inverse begins to lose digits.
const SERIES_FROM: f64 = 1_000.0;

/// Source: Abramowitz and Stegun 26.7.5.
fn t_series(z: f64, freedom: f64) -> f64 {
    let square = z * z;
    let terms = [
        (square + 1.0) / 4.0,
        ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
        ((((79.0 * square + 776.0) * square + 1_482.0) * square - 1_920.0) * square - 945.0)
            / 92_160.0,
    ];
    let sum = terms
        .iter()
        .rev()
        .fold(0.0, |sum, term| (sum + term) / freedom);
    z * (1.0 + sum)
}

/// The standard normal's value below which lies `share`; 1.96 of 0.975.
pub fn normal_quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share.clamp(0.0, 1.0))
}

/// The standard normal's share that lies further from 0 than `z`, on both sides.
pub fn normal_two_sided(z: f64) -> f64 {
    (2.0 * Normal::standard().cdf(-z.abs())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, expected: f64) {
        let error = (found - expected).abs() / expected.abs().max(1e-300);
        assert!(error < 1e-10, "{found}, not {expected}: off by {error:e}");
    }

    /// Mean, std, cv, se, low, high, t: of scipy 1.x.
    fn check(values: &[f64], level: f64, expected: [f64; 7]) {
        let c = Confidence::of(values, level).unwrap();
        let t = c.t_critical.unwrap();
        for (found, expected) in [c.mean, c.std, c.cv, c.se, c.low, c.high, t]
            .into_iter()
            .zip(expected)
        {
            near(found, expected);
        }
    }

    #[test]
    fn intervals_are_scipys() {
        check(
            &[100.0, 105.0, 110.0],
            0.95,
            [
                105.0,
                5.0,
                0.047_619_047_619_047_616,
                2.886_751_345_948_129,
                92.579_311_441_248_35,
                117.420_688_558_751_65,
                4.302_652_729_749_462,
            ],
        );
        check(
            &[90.0, 95.0, 100.0, 105.0, 110.0],
            0.99,
            [
                100.0,
                7.905_694_150_420_948,
                0.079_056_941_504_209_48,
                3.535_533_905_932_737_3,
                83.722_066_476_211_08,
                116.277_933_523_788_92,
                4.604_094_871_349_992,
            ],
        );
    }

    #[test]
    fn quantiles_are_those_of_closed_forms() {
        // One degree is Cauchy's law, two have a root.
        for level in [0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.999_999] {
            let cauchy = (std::f64::consts::FRAC_PI_2 * level).tan();
            near(t_quantile(level, 1.0), cauchy);
            let two = level * (2.0 / (1.0 - level * level)).sqrt();
            near(t_quantile(level, 2.0), two);
        }
        near(t_quantile(0.95, 1.0), 12.706_204_736_174_7);
        near(normal_quantile(0.975), 1.959_963_984_540_054);
        near(normal_quantile(0.8), 0.841_621_233_572_914_4);
        near(normal_two_sided(1.959_963_984_540_054), 0.05);
        for level in [0.5, 0.95, 0.99, 0.999] {
            let z = normal_quantile((1.0 + level) / 2.0);
            near(t_series(z, 500.0), t_quantile(level, 500.0));
            assert!((t_quantile(level, 1e9) - z).abs() < 1e-7);
        }
    }

    #[test]
    fn one_value_is_its_own_interval_and_a_mean_of_zero_has_no_cv() {
        let one = Confidence::of(&[7.0], 0.95).unwrap();
        assert_eq!((one.std, one.se, one.low, one.high), (0.0, 0.0, 7.0, 7.0));
        assert_eq!((one.t_critical, one.cv), (None, 0.0));
        assert_eq!(Confidence::of(&[-1.0, 1.0], 0.9).unwrap().cv, f64::INFINITY);
        assert_eq!(Confidence::of(&[], 0.95), None);
        for level in [0.0, 1.0, -0.5, f64::NAN] {
            assert_eq!(Confidence::of(&[1.0, 2.0], level), None);
        }
    }

    proptest! {
        #[test]
        fn the_interval_moves_and_stretches_with_the_values(
            values in prop::collection::vec(-100.0..100.0f64, 2..20),
            shift in -50.0..50.0f64,
            scale in 0.1..10.0f64,
        ) {
            let a = Confidence::of(&values, 0.95).unwrap();
            let moved: Vec<f64> = values.iter().map(|v| v * scale + shift).collect();
            let b = Confidence::of(&moved, 0.95).unwrap();
            prop_assert!((b.low - (a.low * scale + shift)).abs() < 1e-8);
            prop_assert!((b.high - (a.high * scale + shift)).abs() < 1e-8);
            let wider = Confidence::of(&values, 0.99).unwrap();
            prop_assert!(wider.low <= a.low && a.low <= a.mean && a.mean <= a.high);
        }
    }
}
