//! Arrival laws as pure functions: number of a request to its due time, computed as it goes on and
//! never stored.
//!
//! Knows nothing of workers. Start at [`Arrivals`].

mod curve;
mod ramp;
mod trace;
mod users;

pub use curve::Curve;
pub use ramp::{Ramp, RampKind};
pub use trace::{TraceSchedule, TraceTimes, TraceTimesError, trace_times};
pub use users::{FirstUser, Users};

use crate::base::{Ns, Rng, rng::Stream};
use std::sync::Arc;

/// What is due after so long, in s (thirty years), is never due.
const NEVER_S: f64 = 1e9;

/// The gaps of a renewal process, of mean 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// All the same; the first request goes at once.
    Constant,
    /// Exponential: a Poisson process.
    Exponential,
    /// Gamma; shape 1 is exponential, below it burstier, above it smoother.
    Gamma {
        /// Over 0.
        shape: f64,
    },
}

impl Gaps {
    /// The gap before arrival `index` under `seed`: the same on any core.
    fn draw(self, seed: u64, index: u64) -> f64 {
        let rng = || Rng::new(seed, Stream::Arrival, index);
        match self {
            Gaps::Constant => 1.0,
            Gaps::Exponential => rng().exponential(),
            Gaps::Gamma { shape } => rng().gamma(shape) / shape,
        }
    }
}

/// How requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// All at once.
    Burst,
    /// A renewal process whose rate follows a curve.
    Renewal {
        /// Its gaps.
        gaps: Gaps,
        /// Its rate.
        curve: Curve,
        /// Of the gaps.
        seed: u64,
        /// Of all times: 1, but for a process that is stretched to a length.
        stretch: f64,
    },
    /// At these times, ascending.
    Times(Arc<[Ns]>),
}

impl Law {
    /// vLLM's variant: as if the first `count` had arrived by exactly `count / rate`, whatever the
    /// gaps were. No renewal process any more: for comparison. Cost: a pass over `count` gaps.
    #[expect(clippy::cast_precision_loss, reason = "2^53 requests")]
    pub fn normalized(self, count: u64) -> Law {
        let Law::Renewal {
            gaps, curve, seed, ..
        } = self
        else {
            return self;
        };
        let sum: f64 = (0..count).map(|index| gaps.draw(seed, index)).sum();
        let stretch = if sum > 0.0 { count as f64 / sum } else { 1.0 };
        Law::Renewal {
            gaps,
            curve,
            seed,
            stretch,
        }
    }
}

/// The due times of one phase, in order, as one core reads them: each core has its own and finds
/// the same. Memory is flat; cost: some 50 ns a time.
#[derive(Clone, Debug)]
pub struct Arrivals {
    law: Law,
    /// Number in the run of the phase's first request: gaps are keyed by it.
    first: u64,
    /// The first request goes at once, since the phase carries on from another.
    carries_on: bool,
    index: u64,
    /// Arrivals that the curve expects by the time of `index`.
    sum: f64,
    piece: usize,
    at: Option<Ns>,
}

impl Arrivals {
    /// From the phase's first request, which is number `first` of the run. A phase that carries on
    /// from another begins with a request, as if its gap had passed.
    pub fn new(law: Law, first: u64, carries_on: bool) -> Arrivals {
        let mut arrivals = Arrivals {
            law,
            first,
            carries_on,
            index: 0,
            sum: 0.0,
            piece: 0,
            at: None,
        };
        arrivals.sum = arrivals.gap(0);
        arrivals.at = arrivals.time();
        arrivals
    }

    fn gap(&self, index: u64) -> f64 {
        match &self.law {
            Law::Renewal {
                gaps,
                seed,
                stretch,
                ..
            } => match index {
                0 if self.carries_on || *gaps == Gaps::Constant => 0.0,
                _ => gaps.draw(*seed, self.first + index) * stretch,
            },
            Law::Burst | Law::Times(_) => 0.0,
        }
    }

    fn time(&mut self) -> Option<Ns> {
        match &self.law {
            Law::Burst => Some(Ns::ZERO),
            Law::Times(times) => times.get(usize::try_from(self.index).ok()?).copied(),
            Law::Renewal { curve, .. } => {
                let at = curve.when(self.sum, &mut self.piece);
                at.filter(|at| *at < NEVER_S).map(Ns::from_secs_f64)
            }
        }
    }

    /// When request `index` of the phase is due, from the phase's start; `None` when the law has no
    /// more. Asked in ascending order; a step back is answered as the last one was.
    #[expect(clippy::cast_precision_loss, reason = "2^53 requests")]
    pub fn due(&mut self, index: u64) -> Option<Ns> {
        if index <= self.index {
            return self.at;
        }
        match &self.law {
            // Multiplied, not summed: the last of a million is as exact as the first.
            Law::Renewal {
                gaps: Gaps::Constant,
                stretch,
                ..
            } => self.sum = index as f64 * stretch,
            Law::Renewal { .. } => {
                for at in self.index + 1..=index {
                    self.sum += self.gap(at);
                }
            }
            Law::Burst | Law::Times(_) => {}
        }
        self.index = index;
        self.at = self.time();
        self.at
    }
}

#[cfg(test)]
mod tests;
