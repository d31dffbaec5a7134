//! Once both sides of the boundary are close: repeats that tell the noise, then probes where they
//! narrow the interval most.

use super::{Halt, PRECISION, Prober, Session};
use crate::config::Planner;
use crate::stats::search::LoadInterval;

/// An interval this narrow is good enough: twice the precision of the bracket.
const INTERVAL_RATIO: f64 = 2.0 * PRECISION;
/// A load visited this near is visited again, in the place of a new one.
const SAME_RATIO: f64 = 0.015;
/// At an open end: a margin further than this from its threshold needs no repeats.
const SURE_EXCESS: f64 = 0.25;

/// The boundary load that still lacks visits; `None` when none does.
pub(super) fn needs_visits<P: Prober>(session: &Session<'_, P>) -> Option<f64> {
    let spec = session.spec;
    let wanted = match (spec.replicates, spec.planner) {
        (Some(asked), _) => usize::try_from(asked).unwrap_or(usize::MAX),
        (None, Planner::SmoothIsotonic) => session.seen.replicates(),
        (None, Planner::MonotonicSla) => 1,
    };
    let lacks = |value: &f64| session.seen.visits(*value) < wanted;
    let (low, high) = session.seen.bracket();
    let is_open = low.is_none() || high.is_none();
    let is_near = |value: &f64| {
        let excess = session.seen.excess_at(*value).unwrap_or(0.0);
        !is_open || excess.abs() < SURE_EXCESS
    };
    let both = [low, high].into_iter().flatten();
    let lacking = both.filter(lacks).filter(is_near);
    lacking.min_by_key(|value| session.seen.visits(*value))
}

/// One more probe near the boundary; false when none is needed. What it moves, the caller looks at
/// before the next. A budget that ends here ends nothing but this.
pub(super) fn step<P: Prober>(session: &mut Session<'_, P>) -> Result<bool, Halt<P::Stop>> {
    let wanted = match needs_visits(session) {
        Some(value) => Some(value),
        None if session.spec.planner == Planner::MonotonicSla => None,
        None => session.interval().and_then(|found| next(session, &found)),
    };
    let Some(value) = wanted else {
        return Ok(false);
    };
    match session.measure(value, true) {
        Err(Halt::Budget) => Ok(false),
        other => other.map(|()| true),
    }
}

/// Where a probe narrows the interval most: halfway from its further end to the estimate. `None`
/// when it is narrow enough.
fn next<P: Prober>(session: &Session<'_, P>, found: &LoadInterval) -> Option<f64> {
    let spec = session.spec;
    if session.spec.replicates.is_some_and(|asked| asked <= 1) {
        return None;
    }
    let low = found.low.unwrap_or(spec.lo);
    let high = found.high.unwrap_or(spec.hi);
    if spec.is_close(low, high, INTERVAL_RATIO) {
        return None;
    }
    let (below, above) = session.seen.bracket();
    let middle = match found.estimate {
        Some(estimate) => estimate,
        None => below.or(above)?,
    };
    let (from, to) = match middle / low >= high / middle {
        true => (low, middle),
        false => (middle, high),
    };
    let wanted = (from * to).sqrt();
    let again = session.seen.near(wanted, SAME_RATIO, low, high);
    let new = || spec.between(low, high, wanted);
    let nearest = || {
        let sides = [below, above].into_iter().flatten();
        sides.min_by_key(|value| session.seen.visits(*value))
    };
    again.or_else(new).or_else(nearest)
}
