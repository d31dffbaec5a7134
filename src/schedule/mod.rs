//! Arrival laws as pure functions: number of a request to its due time.
//!
//! Knows nothing of workers. Start at [`due_times`].

use crate::base::{Ns, Rng, limits, rng::Stream};

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Equal gaps, the first at once.
    Constant {
        /// Requests per second.
        rate_per_s: f64,
    },
    /// Exponential gaps, the first after one gap.
    Poisson {
        /// Requests per second.
        rate_per_s: f64,
        /// Seed of the gaps.
        seed: u64,
    },
}

impl Law {
    /// Nominal requests per second.
    pub fn rate_per_s(&self) -> f64 {
        match self {
            Law::Constant { rate_per_s } | Law::Poisson { rate_per_s, .. } => *rate_per_s,
        }
    }
}

/// A schedule that cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// Neither a number of requests nor a time.
    #[error("a rate needs an end: give --request-count or --benchmark-duration")]
    Endless,
    /// More due times than memory should hold.
    #[error(
        "the schedule has over {} requests; shorten it or lower the rate",
        limits::DUE_TIMES_MAX
    )]
    TooLong,
}

/// Due times as offsets from the start, ascending: the first `count`, or all before `span`,
/// whichever is fewer. The first n of a longer schedule are the schedule of n.
pub fn due_times(law: Law, count: Option<u64>, span: Option<Ns>) -> Result<Vec<Ns>, ScheduleError> {
    if count.is_none() && span.is_none() {
        return Err(ScheduleError::Endless);
    }
    let count = count.unwrap_or(u64::MAX);
    let end = span.unwrap_or(Ns::MAX);
    let mut due = Vec::new();
    let mut at_s = 0.0;
    for index in 0..count {
        let at = match law {
            // Multiplied, not summed: the last of a million is as exact as the first.
            #[expect(clippy::cast_precision_loss, reason = "2^53 requests")]
            Law::Constant { rate_per_s } => Ns::from_secs_f64(index as f64 / rate_per_s),
            Law::Poisson { rate_per_s, seed } => {
                at_s += Rng::new(seed, Stream::Arrival, index).exponential() / rate_per_s;
                Ns::from_secs_f64(at_s)
            }
        };
        if at >= end {
            break;
        }
        if due.len() == limits::DUE_TIMES_MAX {
            return Err(ScheduleError::TooLong);
        }
        due.push(at);
    }
    Ok(due)
}

/// Requests per second of a schedule's own due times; absent for fewer than two.
#[expect(clippy::cast_precision_loss, reason = "a count")]
pub fn realised_rate(due: &[Ns]) -> Option<f64> {
    let (first, last) = (due.first()?, due.last()?);
    let span = last.saturating_since(*first).as_secs();
    (due.len() > 1 && span > 0.0).then(|| (due.len() - 1) as f64 / span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POISSON: Law = Law::Poisson {
        rate_per_s: 200.0,
        seed: 42,
    };

    #[test]
    fn constant_gaps_do_not_drift() {
        let due = due_times(Law::Constant { rate_per_s: 200.0 }, Some(10_000), None).unwrap();
        assert_eq!(due[0], Ns::ZERO);
        assert_eq!(due[9_999], Ns(49_995_000_000));
        assert!((realised_rate(&due).unwrap() - 200.0).abs() < 1e-9);
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let due = due_times(POISSON, Some(10_000), None).unwrap();
        let total = due[9_999].as_secs();
        assert!((total - 50.0).abs() < 1.5, "{total}");
        // Kolmogorov-Smirnov against 1 - exp(-200 t): 1.63 / sqrt(n) at 1 %.
        let mut gaps: Vec<f64> = due
            .windows(2)
            .map(|w| w[1].since(w[0]).unwrap().as_secs())
            .collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, gap)| (1.0 - (-200.0 * gap).exp() - i as f64 / n).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.63 / n.sqrt(), "{distance}");
    }

    #[test]
    fn a_short_schedule_is_the_start_of_a_long_one() {
        let long = due_times(POISSON, Some(1_000), None).unwrap();
        assert_eq!(due_times(POISSON, Some(10), None).unwrap(), long[..10]);
        let span = due_times(POISSON, None, Some(Ns::from_ms(1_000))).unwrap();
        assert_eq!(span, long[..span.len()]);
        assert!(long[span.len()] >= Ns::from_ms(1_000));
    }

    #[test]
    fn a_schedule_without_an_end_is_refused() {
        assert_eq!(due_times(POISSON, None, None), Err(ScheduleError::Endless));
    }
}
