//! Do runs, repeated, agree well enough that one more would tell nothing new?

use super::confidence::Confidence;
use super::ranks::kolmogorov_smirnov;

/// Fewest runs that can agree: two may do so by chance.
pub const RUNS_MIN: usize = 3;

/// By what runs are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Criterion {
    /// The interval of their mean, over the mean, is narrower than the threshold.
    CiWidth {
        /// Of the interval, between 0 and 1.
        level: f64,
        /// A ratio: 0.1 is five percent to either side.
        threshold: f64,
    },
    /// Their standard deviation over their mean is below the threshold.
    Cv {
        /// A ratio.
        threshold: f64,
    },
    /// The requests of the last two runs could come from one law: Kolmogorov and Smirnov's p is
    /// above the threshold.
    Distribution {
        /// A share.
        threshold: f64,
    },
}

impl Criterion {
    /// [`Criterion::CiWidth`] with AIPerf's threshold.
    pub const CI_WIDTH: Criterion = Criterion::CiWidth {
        level: 0.95,
        threshold: 0.1,
    };
    /// [`Criterion::Cv`] with AIPerf's threshold.
    pub const CV: Criterion = Criterion::Cv { threshold: 0.05 };
    /// [`Criterion::Distribution`] with AIPerf's threshold.
    pub const DISTRIBUTION: Criterion = Criterion::Distribution { threshold: 0.05 };

    /// The number that must pass it.
    pub fn threshold(&self) -> f64 {
        match *self {
            Criterion::CiWidth { threshold, .. }
            | Criterion::Cv { threshold }
            | Criterion::Distribution { threshold } => threshold,
        }
    }

    /// What is held against the threshold: the width, the cv, or p.
    ///
    /// Shape: `values` has one per run; `last` has the values of the requests of the last two
    /// runs, which only [`Criterion::Distribution`] reads. `None` with fewer than [`RUNS_MIN`]
    /// runs, or when it cannot be said: a mean of 0, an empty sample, no number.
    pub fn measure(&self, values: &[f64], last: [&[f64]; 2]) -> Option<f64> {
        if values.len() < RUNS_MIN {
            return None;
        }
        let found = match *self {
            Criterion::CiWidth { level, .. } => {
                let of = Confidence::of(values, level)?;
                (of.high - of.low) / of.mean.abs()
            }
            Criterion::Cv { .. } => Confidence::of(values, 0.5)?.cv,
            Criterion::Distribution { .. } => kolmogorov_smirnov(last[0], last[1])?.p,
        };
        found.is_finite().then_some(found)
    }

    /// Do the runs agree? See [`Criterion::measure`]; false when that cannot be said.
    ///
    /// ```
    /// use tokenring::stats::convergence::Criterion;
    /// let runs = [100.0, 102.0, 98.0, 101.0, 99.0];
    /// assert!(Criterion::CI_WIDTH.is_met(&runs, [&[], &[]]));
    /// assert!(!Criterion::CI_WIDTH.is_met(&runs[..2], [&[], &[]]));
    /// ```
    pub fn is_met(&self, values: &[f64], last: [&[f64]; 2]) -> bool {
        self.measure(values, last).is_some_and(|found| match self {
            Criterion::Distribution { threshold } => found > *threshold,
            _ => found < self.threshold(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: [f64; 5] = [100.0, 102.0, 98.0, 101.0, 99.0];

    #[test]
    fn width_and_cv_are_those_of_the_mean() {
        let none: [&[f64]; 2] = [&[], &[]];
        let width = Criterion::CI_WIDTH.measure(&RUNS, none).unwrap();
        assert!((width - 0.039_264_9).abs() < 1e-6, "{width}");
        let cv = Criterion::CV.measure(&RUNS, none).unwrap();
        assert!((cv - 0.015_811_388).abs() < 1e-8, "{cv}");
        assert!(Criterion::CV.is_met(&RUNS, none));
        let strict = Criterion::CiWidth {
            level: 0.95,
            threshold: 0.039,
        };
        assert!(!strict.is_met(&RUNS, none));
        let wild = [100.0, 150.0, 60.0];
        assert!(!Criterion::CI_WIDTH.is_met(&wild, none) && !Criterion::CV.is_met(&wild, none));
    }

    #[test]
    fn negative_means_count_by_size_and_zero_means_never_agree() {
        let none: [&[f64]; 2] = [&[], &[]];
        let negative = RUNS.map(|v| -v);
        for criterion in [Criterion::CI_WIDTH, Criterion::CV] {
            assert_eq!(
                criterion.measure(&negative, none),
                criterion.measure(&RUNS, none)
            );
            assert_eq!(criterion.measure(&[-1.0, 0.0, 1.0], none), None);
            assert!(!criterion.is_met(&[0.0; 4], none));
            assert!(!criterion.is_met(&[1.0, f64::NAN, 1.0], none));
        }
    }

    #[test]
    fn two_runs_never_agree() {
        let same: Vec<f64> = (0..50).map(f64::from).collect();
        for criterion in [Criterion::CI_WIDTH, Criterion::CV, Criterion::DISTRIBUTION] {
            assert!(!criterion.is_met(&[1.0; 2], [&same, &same]));
            assert!(criterion.is_met(&[1.0; 3], [&same, &same]));
        }
    }

    #[test]
    fn distributions_agree_while_p_is_above_the_threshold() {
        let one: Vec<f64> = (0..200).map(f64::from).collect();
        let near: Vec<f64> = one.iter().map(|v| v + 3.0).collect();
        let far: Vec<f64> = one.iter().map(|v| v + 60.0).collect();
        let criterion = Criterion::DISTRIBUTION;
        assert!(criterion.is_met(&RUNS, [&one, &near]));
        assert!(!criterion.is_met(&RUNS, [&one, &far]));
        assert!(!criterion.is_met(&RUNS, [&one, &[]]));
    }
}
