//! Searches for the largest load that a server bears, under conditions on a run's figures.
//!
//! Pure: no clock and no server. Whoever asks for a search gives a [`Prober`], which makes one run;
//! a simulated one proves the planners. Start at [`search`].

mod gates;
mod interval;
mod monotonic;
pub mod post;
mod seen;
mod settle;
#[cfg(test)]
mod simulated;
mod smooth;

use crate::config::{Planner, SearchSpec};
use crate::stats::search::{Bound, Iteration, LoadInterval, Reason, Search, Tier};
use crate::stats::{Figures, Gate};
pub use gates::{gate, gates};
use seen::{Seen, judged};

/// Both sides of a boundary are close: AIPerf's 5 %.
const PRECISION: f64 = 0.05;

/// One run that a search asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// The load: requests in flight, or per second.
    pub value: f64,
    /// Requests to measure; absent when something else ends the run.
    pub requests: Option<u64>,
    /// How often this load was probed before.
    pub visit: u32,
    /// It is made to learn the noise.
    pub is_replicate: bool,
}

/// Makes runs.
pub trait Prober {
    /// Why no more runs are made, such as a signal.
    type Stop;

    /// One run: the figures of each trial that succeeded, none when the run failed. `Err` ends the
    /// search; what was found so far is kept.
    fn probe(&mut self, probe: &Probe) -> Result<Vec<Figures>, Self::Stop>;
}

/// Conditions under a name; the search's own have none.
pub type TierGates = (Option<String>, Vec<Gate>);

/// Searches for the boundary of each set of conditions, one after the other; all share the probes.
///
/// Shape: `tiers` is not empty; a set without conditions holds everywhere. Cost: at most
/// `spec.iterations_max` probes. Second: what stopped it.
pub fn search<P: Prober>(
    spec: &SearchSpec,
    tiers: &[TierGates],
    prober: &mut P,
) -> (Search, Option<P::Stop>) {
    let mut log = Log::default();
    let mut found = Vec::new();
    let mut stop = None;
    for (index, (label, gates)) in tiers.iter().enumerate() {
        let mut session = Session::new(spec, gates, index, &mut log, prober);
        let ended = match stop {
            Some(_) => Err(Halt::Budget),
            None => match spec.planner {
                Planner::SmoothIsotonic => smooth::run(&mut session),
                Planner::MonotonicSla => monotonic::run(&mut session),
            },
        };
        let mut reason = ended.unwrap_or_else(|halt| match halt {
            Halt::Budget => Reason::MaxIterations,
            Halt::Stop(why) => {
                stop = Some(why);
                Reason::Stopped
            }
        });
        if stop.is_some() {
            reason = Reason::Stopped;
        }
        found.push(session.finish(label.clone(), reason));
    }
    let best = log.best(spec.objective.is_maximized);
    let search = Search {
        iterations: log.iterations,
        tiers: found,
        best,
    };
    (search, stop)
}

/// Why a planner gets no further probe.
enum Halt<S> {
    Budget,
    Stop(S),
}

/// All probes of a search.
#[derive(Default)]
struct Log {
    iterations: Vec<Iteration>,
    figures: Vec<Vec<Figures>>,
}

impl Log {
    fn best(&self, is_maximized: bool) -> Option<usize> {
        let feasible = self
            .iterations
            .iter()
            .enumerate()
            .filter(|i| i.1.is_feasible);
        let valued = feasible.filter_map(|(at, i)| Some((at, i.objective?)));
        let sign = if is_maximized { 1.0 } else { -1.0 };
        // Of equals the first.
        let better = |a: (usize, f64), b: (usize, f64)| match sign * b.1 > sign * a.1 {
            true => b,
            false => a,
        };
        valued.reduce(better).map(|(at, _)| at)
    }
}

/// The search for one boundary: what was seen, and how to see more.
struct Session<'a, P: Prober> {
    spec: &'a SearchSpec,
    gates: &'a [Gate],
    tier: usize,
    seen: Seen,
    log: &'a mut Log,
    prober: &'a mut P,
}

impl<'a, P: Prober> Session<'a, P> {
    fn new(
        spec: &'a SearchSpec,
        gates: &'a [Gate],
        tier: usize,
        log: &'a mut Log,
        prober: &'a mut P,
    ) -> Session<'a, P> {
        let mut seen = Seen::new(gates);
        for (iteration, trials) in log.iterations.iter().zip(&log.figures) {
            seen.add(gates, iteration.value, trials);
        }
        Session {
            spec,
            gates,
            tier,
            seen,
            log,
            prober,
        }
    }

    /// Probes a load.
    fn measure(&mut self, value: f64, is_replicate: bool) -> Result<(), Halt<P::Stop>> {
        let made = u32::try_from(self.log.iterations.len()).unwrap_or(u32::MAX);
        if made >= self.spec.iterations_max {
            return Err(Halt::Budget);
        }
        let visit = u32::try_from(self.seen.visits(value)).unwrap_or(u32::MAX);
        let probe = Probe {
            value,
            requests: self.spec.requests,
            visit,
            is_replicate,
        };
        let trials = self.prober.probe(&probe).map_err(Halt::Stop)?;
        self.seen.add(self.gates, value, &trials);
        let iteration = self.iteration(&probe, &trials);
        self.log.iterations.push(iteration);
        self.log.figures.push(trials);
        Ok(())
    }

    fn iteration(&self, probe: &Probe, trials: &[Figures]) -> Iteration {
        let holds = |figures: &Figures| {
            let mut gates = self.gates.iter();
            gates.all(|gate| judged(gate, figures).is_some_and(|value| gate.holds(value)))
        };
        let is_feasible = trials.iter().any(holds);
        let objective = &self.spec.objective;
        let contradicts = |other: &Iteration| {
            other.tier == self.tier
                && other.is_feasible != is_feasible
                && other.value != probe.value
                && is_feasible == (probe.value > other.value)
        };
        let average = |of: &dyn Fn(&Figures) -> Option<f64>| mean(trials.iter().filter_map(of));
        Iteration {
            tier: self.tier,
            value: probe.value,
            visit: probe.visit,
            is_replicate: probe.is_replicate,
            observed: self
                .gates
                .iter()
                .map(|gate| average(&|figures| judged(gate, figures)))
                .collect(),
            objective: average(&|figures| {
                let value = figures.get(&objective.tag, &objective.stat);
                value.filter(|value| value.is_finite())
            }),
            is_feasible,
            is_non_monotonic: self.log.iterations.iter().any(contradicts),
            diagnosis: diagnosis(self.gates, trials),
        }
    }

    /// A bound at this load, by the probes of it.
    fn bound(&self, value: f64) -> Option<Bound> {
        let of = |i: &&Iteration| i.value == value;
        let iteration = self.log.iterations.iter().position(|i| i.value == value)?;
        let all = self.log.iterations.iter().filter(of);
        Some(Bound {
            value,
            iteration,
            objective: mean(all.filter_map(|i| i.objective)),
        })
    }

    fn interval(&self) -> Option<LoadInterval> {
        self.seen.interval()
    }

    fn finish(self, label: Option<String>, reason: Reason) -> Tier {
        let (low, high) = self.seen.bracket();
        Tier {
            label,
            gates: self.gates.to_vec(),
            feasible_max: low.and_then(|value| self.bound(value)),
            infeasible_min: high.and_then(|value| self.bound(value)),
            interval: self.interval(),
            reason,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), v| (sum + v, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Why no trial could be judged.
fn diagnosis(gates: &[Gate], trials: &[Figures]) -> Option<String> {
    if trials.is_empty() {
        return Some("the run failed".into());
    }
    let lacks = |gate: &&Gate| trials.iter().all(|figures| judged(gate, figures).is_none());
    let gate = gates.iter().find(lacks)?;
    Some(format!("{} is absent or not finite", gate.subject()))
}
