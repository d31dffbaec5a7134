//! How evenly requests were sent, beside how evenly they were due.

use super::distribution::float;
use super::record::Record;
use crate::base::Ns;
use crate::base::limits::EXACT_REQUESTS_MAX;

/// Coefficients of variation of the gaps between arrivals: 0 for equal gaps, 1 for a Poisson
/// process, more for bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArrivalCv {
    /// Of the requests as they were sent.
    pub delivered: f64,
    /// Of the same requests' due times: what the law and its seed have made.
    pub scheduled: f64,
}

/// Start and due times of requests, in any order; the first [`EXACT_REQUESTS_MAX`] are kept.
#[derive(Debug, Default)]
pub struct Arrivals {
    starts: Vec<Ns>,
    dues: Vec<Ns>,
}

impl Arrivals {
    /// Adds a request.
    pub fn push(&mut self, record: &Record) {
        if self.starts.len() < EXACT_REQUESTS_MAX {
            self.starts.push(record.start);
            self.dues.push(record.due);
        }
    }

    /// Both coefficients; absent for fewer than three requests.
    pub fn cv(&mut self) -> Option<ArrivalCv> {
        Some(ArrivalCv {
            delivered: cv(&mut self.starts)?,
            scheduled: cv(&mut self.dues)?,
        })
    }
}

/// Standard deviation of the gaps over their mean (population).
fn cv(times: &mut [Ns]) -> Option<f64> {
    times.sort_unstable();
    let gaps = || {
        times
            .windows(2)
            .map(|w| float(w[1].saturating_since(w[0]).0))
    };
    let count = times.len().checked_sub(1).filter(|&gaps| gaps > 1)?;
    let mean = gaps().sum::<f64>() / float(count as u64);
    let variance = gaps().map(|gap| (gap - mean).powi(2)).sum::<f64>() / float(count as u64);
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[(u64, u64)]) -> Option<ArrivalCv> {
        let mut arrivals = Arrivals::default();
        for &(start, due) in times {
            arrivals.push(&Record {
                start: Ns(start),
                due: Ns(due),
                ..Record::default()
            });
        }
        arrivals.cv()
    }

    #[test]
    fn equal_gaps_have_none_and_any_order_is_the_same() {
        let even = of(&[(300, 300), (100, 100), (200, 200), (400, 400)]).unwrap();
        assert_eq!((even.delivered, even.scheduled), (0.0, 0.0));
        // Gaps 0, 0, 300: mean 100, deviation sqrt(20,000).
        let burst = of(&[(100, 100), (100, 200), (100, 300), (400, 400)]).unwrap();
        assert!((burst.delivered - 2f64.sqrt()).abs() < 1e-12, "{burst:?}");
        assert_eq!(burst.scheduled, 0.0);
    }

    #[test]
    fn too_few_requests_have_none() {
        assert_eq!(of(&[(1, 1), (2, 2)]), None);
        assert_eq!(of(&[(1, 1), (1, 1), (1, 1)]), None);
    }
}
