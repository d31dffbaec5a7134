//! Doubling until a load fails, then halving.

use super::{Halt, PRECISION, Prober, Session, settle};
use crate::stats::search::Reason;

pub(super) fn run<P: Prober>(session: &mut Session<'_, P>) -> Result<Reason, Halt<P::Stop>> {
    let (lo, hi) = (session.spec.lo, session.spec.hi);
    loop {
        let next = match session.seen.bracket() {
            (None, None) => lo,
            (None, Some(_)) => return Ok(Reason::MonotonicNoPass),
            (Some(low), None) if low >= hi => return Ok(Reason::MonotonicNoFailure),
            (Some(low), None) => (2.0 * low).min(hi),
            (Some(low), Some(high)) => {
                let middle = session.spec.between(low, high, f64::midpoint(low, high));
                match middle.filter(|_| !session.spec.is_close(low, high, PRECISION)) {
                    Some(middle) => middle,
                    None if settle::needs_visits(session).is_none() => {
                        return Ok(Reason::MonotonicPrecision);
                    }
                    None => {
                        // Asked for: what it moves, the next turn follows.
                        if !settle::step(session)? {
                            return Ok(Reason::MonotonicPrecision);
                        }
                        continue;
                    }
                }
            }
        };
        session.measure(next, false)?;
    }
}
