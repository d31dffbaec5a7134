//! What ends a request before its answer does: time limits, and cancellations that were asked for.
//!
//! One queue per kind: each kind has one length, so that a new entry belongs at or near the end.

use super::core::Core;
use super::flight::Flight;
use super::lines::{Doing, Line};
use crate::base::{Ns, Rng, rng::Stream};
use crate::config::Cancellation;
use crate::runtime::Token;
use crate::stats::{FailureKind, Phase, Record};
use std::collections::VecDeque;

/// Limits on each request of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestLimits {
    /// TCP and TLS together.
    pub connect: Ns,
    /// A whole request, from its start.
    pub total: Ns,
    /// From the start to the first content.
    pub first_token: Option<Ns>,
    /// Without a byte, once the answer has begun.
    pub idle: Option<Ns>,
    /// Some are cancelled on purpose.
    pub cancellation: Option<Cancellation>,
}

impl RequestLimits {
    /// The time from the last byte sent to the cancellation of a request that was chosen for one;
    /// the same for any number of cores.
    fn cancels(&self, seed: u64, record: &Record) -> Option<Ns> {
        let asked = self.cancellation?;
        let draw = || 100.0 * Rng::new(seed, Stream::Cancellation, record.index).unit();
        (record.phase == Phase::Profiling && draw() < asked.percent).then_some(asked.delay)
    }

    /// Notes that a request has come to its `limit`, `after` so long.
    fn fail(&self, limit: Limit, flight: &mut Flight, after: Ns) {
        let time = |limit: Option<Ns>| limit.unwrap_or_default().as_secs();
        let text = match limit {
            Limit::Cancel => {
                let delay = time(self.cancellation.map(|asked| asked.delay));
                let text = format!(
                    "cancelled on purpose, {delay} s after it was sent \
                     (--request-cancellation-rate)"
                );
                let name = "RequestCancellationError";
                return flight.fail(FailureKind::Cancelled, 499, name, text);
            }
            Limit::Connect => format!(
                "no connection within {} s (--connect-timeout-seconds)",
                self.connect.as_secs()
            ),
            Limit::FirstToken => format!(
                "no content within {} s (--first-token-timeout-seconds)",
                time(self.first_token)
            ),
            Limit::Idle => format!(
                "no byte for {} s within the answer (--idle-timeout-seconds)",
                time(self.idle)
            ),
            Limit::BodyEnd | Limit::Total => format!(
                "no end of the answer within {} s (--request-timeout-seconds, a limit on the \
                 whole request)",
                self.total.as_secs()
            ),
        };
        flight.fail_after(FailureKind::Timeout, 0, "timeout", text, Some(after));
    }
}

/// A reason to end a request at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The wait for a body's end after `[DONE]`: the answer is whole.
    BodyEnd,
    /// A cancellation that was asked for.
    Cancel,
    /// On connecting.
    Connect,
    /// On the time to the first content.
    FirstToken,
    /// On silence within an answer.
    Idle,
    /// On the whole request.
    Total,
}

impl Limit {
    const ALL: [Limit; 6] = [
        Limit::BodyEnd,
        Limit::Cancel,
        Limit::Connect,
        Limit::FirstToken,
        Limit::Idle,
        Limit::Total,
    ];
}

/// A time, the line that it is for, and the line's serial then.
type Deadline = (Ns, Token, u64);

/// The deadlines of a core.
#[derive(Debug, Default)]
pub(super) struct Deadlines([VecDeque<Deadline>; Limit::ALL.len()]);

impl Deadlines {
    /// Adds one; cost: a step for each of its kind that is later.
    pub fn add(&mut self, limit: Limit, at: Ns, token: Token, serial: u64) {
        let queue = &mut self.0[limit as usize];
        let place = queue.iter().rposition(|&(other, ..)| other <= at);
        queue.insert(place.map_or(0, |place| place + 1), (at, token, serial));
    }

    /// The next one of any kind.
    pub fn next(&self) -> Option<Ns> {
        let fronts = self.0.iter().filter_map(VecDeque::front);
        fronts.map(|&(at, ..)| at).min()
    }

    /// The next line whose time is up; entries of requests that are over are dropped on the way.
    fn expired(&mut self, limit: Limit, lines: &[Line], at: Ns, idle: Option<Ns>) -> Option<Token> {
        while let Some(&(deadline, token, serial)) = self.0[limit as usize].front() {
            let line = lines.get(token.slot as usize);
            let line = line.filter(|line| line.is_bound(limit, token, serial));
            if line.is_some() && deadline > at {
                return None;
            }
            self.0[limit as usize].pop_front();
            let Some(line) = line else { continue };
            // Not moved on with each read, but here, when its time has come.
            match idle.filter(|_| limit == Limit::Idle) {
                Some(idle) if line.last_read + idle > at => {
                    self.add(limit, line.last_read + idle, token, serial);
                }
                _ => return Some(token),
            }
        }
        None
    }
}

impl Line {
    /// Does a deadline of this kind still hold?
    fn is_bound(&self, limit: Limit, token: Token, serial: u64) -> bool {
        let is_over = matches!(self.doing, Doing::Idle | Doing::Closed);
        let has_content = |flight: &Flight| flight.record.first_content.is_some();
        let is_met = limit == Limit::FirstToken && self.flight.as_deref().is_some_and(has_content);
        self.token == token && self.serial == serial && !is_over && !is_met
    }
}

impl Core {
    /// A request that began at `start` is on a line.
    pub(super) fn bound_request(&mut self, token: Token, start: Ns) {
        let limits = self.plan.limits;
        let mut add = |limit, at| self.deadlines.add(limit, at, token, self.serial);
        add(Limit::Total, start + limits.total);
        if let Some(first_token) = limits.first_token {
            add(Limit::FirstToken, start + first_token);
        }
    }

    /// A request's last byte was written.
    pub(super) fn bound_written(&mut self, token: Token, written: Ns) {
        let (limits, seed) = (self.plan.limits, self.plan.seed);
        let Some(line) = self.line(token) else { return };
        let delay = line
            .flight
            .as_ref()
            .and_then(|flight| limits.cancels(seed, &flight.record));
        let serial = line.serial;
        if let Some(delay) = delay {
            let at = written + delay;
            self.deadlines.add(Limit::Cancel, at, token, serial);
        }
    }

    /// Ends the requests whose time is up.
    pub(super) fn check_deadlines(&mut self, at: Ns) {
        let limits = self.plan.limits;
        for limit in Limit::ALL {
            while let Some(token) = self.deadlines.expired(limit, &self.lines, at, limits.idle) {
                let last_read = self.line(token).map_or(at, |line| line.last_read);
                let Some(flight) = self.drop_line(token) else {
                    continue;
                };
                self.give_up(flight, at, |flight| {
                    let from = match limit {
                        Limit::Idle => last_read,
                        _ => flight.record.start,
                    };
                    limits.fail(limit, flight, at.saturating_since(from));
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(percent: f64, phase: Phase) -> Vec<u64> {
        let limits = RequestLimits {
            connect: Ns::ZERO,
            total: Ns::ZERO,
            first_token: None,
            idle: None,
            cancellation: Some(Cancellation {
                percent,
                delay: Ns(5),
            }),
        };
        let is_chosen = |index: &u64| {
            let record = Record {
                index: *index,
                phase,
                ..Record::default()
            };
            limits.cancels(7, &record) == Some(Ns(5))
        };
        (0..10_000).filter(is_chosen).collect()
    }

    #[test]
    fn each_measured_request_is_chosen_by_its_number_alone() {
        let some = chosen(25.0, Phase::Profiling);
        assert!((2_300..2_700).contains(&some.len()), "{}", some.len());
        assert_eq!(some, chosen(25.0, Phase::Profiling));
        assert_eq!(chosen(100.0, Phase::Profiling).len(), 10_000);
        assert!(chosen(100.0, Phase::Warmup).is_empty());
    }

    #[test]
    fn deadlines_of_a_kind_stay_in_order() {
        let mut deadlines = Deadlines::default();
        let token = Token {
            slot: 0,
            generation: 0,
        };
        for at in [5, 9, 7, 9, 6] {
            deadlines.add(Limit::Total, Ns(at), token, at);
        }
        deadlines.add(Limit::Connect, Ns(8), token, 8);
        assert_eq!(deadlines.next(), Some(Ns(5)));
        let total = &deadlines.0[Limit::Total as usize];
        assert!(total.iter().map(|&(at, ..)| at.0).eq([5, 6, 7, 9, 9]));
    }
}
