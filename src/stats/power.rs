//! How small a difference two samples can show, and how many more requests one would take.

use super::confidence::normal_quantile;
use super::distribution::float;

/// How often a test may be wrong, and how often it must be right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// Share of equal systems that are called different, two-sided.
    pub alpha: f64,
    /// Share of different systems that are called so.
    pub power: f64,
}

impl Default for Power {
    /// 5 % and 80 %, as is the custom.
    fn default() -> Power {
        Power {
            alpha: 0.05,
            power: 0.8,
        }
    }
}

impl Power {
    /// The smallest true difference that would be found with this standard error: 2.8 of them by
    /// default.
    ///
    /// Units: those of `std_error`, which is that of the difference, dependence between requests
    /// included.
    ///
    /// ```
    /// use tokenring::stats::power::Power;
    /// assert!((Power::default().detectable(10.0) - 28.016).abs() < 0.001);
    /// ```
    pub fn detectable(&self, std_error: f64) -> f64 {
        let factor = normal_quantile(1.0 - self.alpha / 2.0) + normal_quantile(self.power);
        factor * std_error.abs()
    }

    /// Requests beyond the `count` of now that a difference of `effect` needs to be found, in each
    /// sample: errors shrink with the root of the count. 0 when it would be found already; `None`
    /// when no number is enough or can be said.
    ///
    /// Units: `effect` and `std_error` alike.
    ///
    /// ```
    /// use tokenring::stats::power::Power;
    /// let power = Power::default();
    /// let detectable = power.detectable(1.0);
    /// assert_eq!(power.more_requests(1_000, 1.0, detectable / 2.0), Some(3_000));
    /// assert_eq!(power.more_requests(1_000, 1.0, detectable * 2.0), Some(0));
    /// assert_eq!(power.more_requests(1_000, 1.0, 0.0), None);
    /// ```
    pub fn more_requests(&self, count: u64, std_error: f64, effect: f64) -> Option<u64> {
        let times = (self.detectable(std_error) / effect.abs()).powi(2) - 1.0;
        // A hair over a whole number is that number.
        let more = (float(count) * times.max(0.0) * (1.0 - 1e-12)).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked: between 0 and 10^15"
        )]
        (times.is_finite() && more < 1e15).then_some(more as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_factor_is_that_of_the_custom() {
        assert!((Power::default().detectable(1.0) - 2.801_585).abs() < 1e-6);
        assert_eq!(Power::default().detectable(0.0), 0.0);
        assert_eq!(Power::default().more_requests(10, 0.0, 0.0), None);
        assert_eq!(Power::default().more_requests(10, 0.0, 1.0), Some(0));
        assert_eq!(Power::default().more_requests(10, 1.0, 1e-12), None);
        assert_eq!(Power::default().more_requests(10, f64::NAN, 1.0), None);
    }

    proptest! {
        #[test]
        fn with_that_many_more_it_would_be_found(
            count in 10..1_000_000u64,
            std_error in 0.01..100.0f64,
            effect in 0.01..100.0f64,
        ) {
            let power = Power::default();
            let more = power.more_requests(count, std_error, effect).unwrap();
            let left = std_error * (float(count) / float(count + more)).sqrt();
            prop_assert!(power.detectable(left) <= effect.abs().max(0.0) * (1.0 + 1e-9)
                || more == 0 && power.detectable(std_error) <= effect);
            if more > 1 {
                let fewer = std_error * (float(count) / float(count + more - 2)).sqrt();
                prop_assert!(power.detectable(fewer) > effect);
            }
        }
    }
}
