//! Doubling until a load fails, three probes between, then the root of a smooth rising fit; halving
//! where that finds a cliff or gets no nearer. Repeats at the boundary end it.

use super::{Halt, PRECISION, Prober, Session, settle};
use crate::stats::search::Reason;

/// Where the probes after the bracket go, as shares of it.
const INTERIOR: [f64; 3] = [0.5, 0.25, 0.75];
/// Where a probe goes when the fit has no root between both sides.
const WITHOUT_ROOT: [f64; 2] = [0.125, 0.625];
/// Fits and probes of their roots.
const REFITS_MAX: usize = 3;
/// A margin further from the fit than so many sigmas of the last three is a cliff.
const CLIFF_SIGMAS: f64 = 3.0;

/// How far the search between both sides has come.
#[derive(Default)]
struct Inside {
    /// Loads still to probe before the first fit.
    interior: Vec<f64>,
    has_begun: bool,
    refits: usize,
    /// Halving, and why.
    halving: Option<Reason>,
}

pub(super) fn run<P: Prober>(session: &mut Session<'_, P>) -> Result<Reason, Halt<P::Stop>> {
    let (lo, hi) = (session.spec.lo, session.spec.hi);
    let mut inside = Inside::default();
    loop {
        let reason = match session.seen.bracket() {
            (None, None) => {
                session.measure(lo, false)?;
                continue;
            }
            // A first run may find a cold server.
            (None, Some(_)) if session.seen.visits(lo) < 2 => {
                session.measure(lo, true)?;
                continue;
            }
            (None, Some(_)) => Reason::SmoothNoPass,
            (Some(low), None) if low >= hi => Reason::SmoothNoFailure,
            (Some(low), None) => {
                session.measure((2.0 * low).min(hi), false)?;
                continue;
            }
            (Some(low), Some(high)) if !session.spec.is_close(low, high, PRECISION) => {
                inside.step(session, low, high)?;
                continue;
            }
            _ => inside.halving.unwrap_or(Reason::SmoothPrecision),
        };
        if !settle::step(session)? {
            return Ok(reason);
        }
    }
}

impl Inside {
    /// One probe strictly between both.
    fn step<P: Prober>(
        &mut self,
        session: &mut Session<'_, P>,
        low: f64,
        high: f64,
    ) -> Result<(), Halt<P::Stop>> {
        if !self.has_begun {
            self.has_begun = true;
            self.interior = INTERIOR.map(|share| low + share * (high - low)).to_vec();
        }
        // What a probe has decided since needs no other.
        self.interior.retain(|load| low < *load && *load < high);
        if !self.interior.is_empty() {
            let wanted = self.interior.remove(0);
            return self.probe(session, (low, high), wanted);
        }
        if self.halving.is_none() && self.refits == REFITS_MAX {
            self.halving = Some(Reason::SmoothFallback);
        }
        if self.halving.is_some() {
            return self.probe(session, (low, high), f64::midpoint(low, high));
        }
        self.refits += 1;
        let curve = session.seen.curve();
        let root = curve.as_ref().and_then(|curve| curve.root_in(low, high));
        let share = WITHOUT_ROOT[self.refits % WITHOUT_ROOT.len()];
        let wanted = root.unwrap_or(low + share * (high - low));
        let load = session.spec.between(low, high, wanted);
        self.probe(session, (low, high), wanted)?;
        if let (Some(curve), Some(load)) = (curve, load)
            && let Some(margin) = session.seen.margin_at(load)
            && let (Some(low), Some(high)) = session.seen.bracket()
        {
            let is_wide = high - low > PRECISION * session.spec.hi;
            let off = (margin - curve.at(load)).abs();
            if is_wide && off > CLIFF_SIGMAS * session.last_margins_sigma() {
                self.halving = Some(Reason::SmoothCliffPrecision);
            }
        }
        Ok(())
    }

    fn probe<P: Prober>(
        &mut self,
        session: &mut Session<'_, P>,
        (low, high): (f64, f64),
        wanted: f64,
    ) -> Result<(), Halt<P::Stop>> {
        match session.spec.between(low, high, wanted) {
            Some(load) => session.measure(load, false),
            // Digits have run out: the side that was seen less often tells more.
            None => {
                let is_low = session.seen.visits(low) <= session.seen.visits(high);
                session.measure(if is_low { low } else { high }, true)
            }
        }
    }
}

impl<P: Prober> Session<'_, P> {
    /// Standard deviation of the margins of the last three probes.
    fn last_margins_sigma(&self) -> f64 {
        let last = self.log.iterations.iter().rev().take(3);
        let margins: Vec<f64> = last
            .filter_map(|iteration| self.seen.margin_at(iteration.value))
            .collect();
        let count = crate::stats::distribution::float_len(margins.len().max(1));
        let mean = margins.iter().sum::<f64>() / count;
        let squares = margins.iter().map(|m| (m - mean) * (m - mean));
        (squares.sum::<f64>() / count).sqrt()
    }
}
