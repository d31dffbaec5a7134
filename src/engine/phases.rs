//! The counters of each phase, and what they say of a run.

use super::claim::PhasePlan;
use super::pace::Pace;
use super::plan::Drawn;
use crate::base::Ns;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Measured requests of the schedule that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// No slot was free.
    pub capped: u64,
    /// The client was late.
    pub late: u64,
    /// By how much at the most.
    pub late_max: Ns,
}

impl Skipped {
    /// For either reason.
    pub fn count(&self) -> u64 {
        self.capped + self.late
    }
}

/// One phase as it goes; times are 0 until they are known.
#[derive(Debug)]
pub(super) struct PhaseState {
    start: AtomicU64,
    /// Number in the run of its first request.
    first: AtomicU64,
    in_flight_before: AtomicU32,
    /// What earlier phases have in flight is to be cancelled.
    is_impatient: AtomicBool,
    first_session: AtomicU64,
    sessions_ended: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
    first_end: AtomicU64,
    last_end: AtomicU64,
    /// Of those that the law has a time for.
    scheduled: AtomicU64,
    first_scheduled: AtomicU64,
    last_scheduled: AtomicU64,
    first_sent: AtomicU64,
    last_sent: AtomicU64,
    first_due: AtomicU64,
    last_due: AtomicU64,
    /// When the request after the last would be due.
    next_due: AtomicU64,
    skipped_capped: AtomicU64,
    skipped_late: AtomicU64,
    skipped_late_max: AtomicU64,
}

impl Default for PhaseState {
    fn default() -> PhaseState {
        let zero = || AtomicU64::new(0);
        PhaseState {
            start: zero(),
            first: AtomicU64::new(u64::MAX),
            in_flight_before: AtomicU32::new(0),
            is_impatient: AtomicBool::new(false),
            first_session: AtomicU64::new(u64::MAX),
            sessions_ended: zero(),
            finished: zero(),
            failed: zero(),
            first_end: zero(),
            last_end: zero(),
            scheduled: zero(),
            first_scheduled: AtomicU64::new(u64::MAX),
            last_scheduled: zero(),
            first_sent: AtomicU64::new(u64::MAX),
            last_sent: zero(),
            first_due: AtomicU64::new(u64::MAX),
            last_due: zero(),
            next_due: zero(),
            skipped_capped: zero(),
            skipped_late: zero(),
            skipped_late_max: zero(),
        }
    }
}

fn get(value: &AtomicU64) -> u64 {
    value.load(Ordering::Acquire)
}

impl PhaseState {
    /// Sets the start; the first to do so wins.
    pub fn begin(&self, at: Ns) {
        let at = at.0.max(1);
        // That another was first is no error.
        let _ = self
            .start
            .compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Lets requests go, from these numbers in the run on.
    pub fn open(&self, index: u64, session: u64, in_flight: u32) {
        self.in_flight_before.store(in_flight, Ordering::Release);
        self.first_session.store(session, Ordering::Release);
        self.first.store(index, Ordering::Release);
    }

    /// The grace of the phase before is over.
    pub fn lose_patience(&self) {
        self.is_impatient.store(true, Ordering::Release);
    }

    pub fn is_impatient(&self) -> bool {
        self.is_impatient.load(Ordering::Acquire)
    }

    pub fn start(&self) -> Option<Ns> {
        Some(Ns(get(&self.start))).filter(|at| at.0 > 0)
    }

    /// Number in the run of its first request, once it is open.
    pub fn first(&self) -> Option<u64> {
        Some(get(&self.first)).filter(|index| *index < u64::MAX)
    }

    /// Number in the run of its first session.
    pub fn first_session(&self) -> Option<u64> {
        Some(get(&self.first_session)).filter(|number| *number < u64::MAX)
    }

    pub fn sessions_ended(&self) -> u64 {
        get(&self.sessions_ended)
    }

    pub fn session_ended(&self, at: Ns) {
        self.sessions_ended.fetch_add(1, Ordering::AcqRel);
        self.last_end.fetch_max(at.0, Ordering::AcqRel);
    }

    pub fn sent(&self, at: Ns, due: Option<Ns>) {
        self.first_sent.fetch_min(at.0, Ordering::AcqRel);
        self.last_sent.fetch_max(at.0, Ordering::AcqRel);
        if let Some(due) = due {
            self.scheduled.fetch_add(1, Ordering::AcqRel);
            self.first_scheduled.fetch_min(at.0, Ordering::AcqRel);
            self.last_scheduled.fetch_max(at.0, Ordering::AcqRel);
            self.first_due.fetch_min(due.0, Ordering::AcqRel);
            self.last_due.fetch_max(due.0, Ordering::AcqRel);
        }
        if due.is_none() {
            self.next_due.fetch_max(at.0, Ordering::AcqRel);
        }
    }

    pub fn set_next_due(&self, at: Ns) {
        self.next_due.fetch_max(at.0, Ordering::AcqRel);
    }

    pub fn ended(&self, at: Ns, failed: bool) {
        let at = at.0.max(1);
        let _ = self
            .first_end
            .compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire);
        self.last_end.fetch_max(at, Ordering::AcqRel);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::AcqRel);
    }

    pub fn skip_capped(&self) {
        self.skipped_capped.fetch_add(1, Ordering::AcqRel);
    }

    pub fn skip_late(&self, late: Ns) {
        self.skipped_late.fetch_add(1, Ordering::AcqRel);
        self.skipped_late_max.fetch_max(late.0, Ordering::AcqRel);
    }

    pub fn skipped(&self) -> Skipped {
        Skipped {
            capped: get(&self.skipped_capped),
            late: get(&self.skipped_late),
            late_max: Ns(get(&self.skipped_late_max)),
        }
    }

    pub fn first_end(&self) -> Option<Ns> {
        Some(Ns(get(&self.first_end))).filter(|at| at.0 > 0)
    }

    pub fn last_end(&self) -> Ns {
        Ns(get(&self.last_end))
    }

    pub fn last_sent(&self) -> Ns {
        Ns(get(&self.last_sent))
    }

    pub fn next_due(&self) -> Ns {
        Ns(get(&self.next_due))
    }
}

impl Pace {
    fn measured(&self) -> impl Iterator<Item = (usize, &PhaseState)> {
        let phases = self.phases();
        let all = self.states().iter().enumerate();
        all.filter(move |(part, _)| phases[*part].measured)
    }

    /// When a phase began, once it has.
    pub fn phase_start(&self, part: usize) -> Option<Ns> {
        self.states()[part].start()
    }

    /// True when a phase waits no longer for what earlier ones have in flight.
    pub fn is_impatient(&self, part: usize) -> bool {
        self.states()[part].is_impatient()
    }

    /// When the next phase begins, where that is known.
    pub fn next_phase(&self) -> Option<Ns> {
        let part = self.part();
        let is_last = part + 1 == self.phases().len();
        self.send_until(part).filter(|_| !is_last)
    }

    /// When a phase sends no more by its duration.
    pub(super) fn send_until(&self, part: usize) -> Option<Ns> {
        let duration = self.phases()[part].duration?;
        Some(self.states()[part].start()? + duration)
    }

    /// When the measurement began: when its first request was sent.
    pub fn measured_from(&self) -> Option<Ns> {
        let first = self
            .measured()
            .map(|(_, state)| get(&state.first_sent))
            .min()?;
        (first < u64::MAX).then_some(Ns(first))
    }

    /// Requests of the warm-up in flight when the measurement began.
    pub fn warmup_in_flight(&self) -> u64 {
        let first = self.measured().next();
        first.map_or(0, |(_, state)| {
            u64::from(state.in_flight_before.load(Ordering::Acquire))
        })
    }

    /// Sessions of earlier phases of the same kind, measured or not.
    pub fn drawn_before(&self, part: usize) -> u64 {
        let phases = self.phases();
        let alike = |before: &usize| phases[*before].measured == phases[part].measured;
        let before = (0..part).filter(alike);
        before.map(|before| self.sessions_in(before)).sum()
    }

    /// Which session each of the run's was, by its number in the run.
    pub fn all_drawn(&self) -> impl Iterator<Item = Drawn> {
        let phases = self.phases().iter().enumerate();
        phases.flat_map(|(part, phase)| {
            let before = self.drawn_before(part);
            let numbers = before..before + self.sessions_in(part);
            let measured = phase.measured;
            numbers.map(move |number| Drawn { measured, number })
        })
    }

    /// True when each phase that ends by a number has reached it, and all of it is over.
    pub fn is_complete(&self) -> bool {
        let told = |(part, plan): (usize, &PhasePlan)| {
            let state = &self.states()[part];
            let by_law = plan.count.is_none() && plan.sessions.is_none();
            by_law
                || plan.duration.is_some()
                || plan
                    .count
                    .is_some_and(|count| self.claimed_in(part) >= count)
                || plan
                    .sessions
                    .is_some_and(|all| state.sessions_ended() >= all)
        };
        let is_over = self.ended_count() >= self.claimed_count();
        is_over && self.phases().iter().enumerate().all(told)
    }

    /// The plan: warm-up requests, measured requests if they are counted.
    pub fn planned(&self) -> (Option<u64>, Option<u64>) {
        let count = |measured: bool| {
            let phases = self.phases().iter();
            let own = phases.filter(|phase| phase.measured == measured);
            own.map(|phase| phase.count).sum()
        };
        (count(false), count(true))
    }

    /// Sent so far.
    pub fn sent_count(&self) -> u64 {
        self.claimed_count().saturating_sub(self.skipped().count())
    }

    /// Skipped so far.
    pub fn skipped(&self) -> Skipped {
        let mut all = Skipped::default();
        for state in self.states() {
            let own = state.skipped();
            all.capped += own.capped;
            all.late += own.late;
            all.late_max = all.late_max.max(own.late_max);
        }
        all
    }

    /// Ended so far.
    pub fn finished_count(&self) -> u64 {
        self.states().iter().map(|state| get(&state.finished)).sum()
    }

    /// Requests that are over so far: ended, or skipped.
    pub fn ended_count(&self) -> u64 {
        self.finished_count() + self.skipped().count()
    }

    /// Measured requests that have ended so far.
    pub fn measured_count(&self) -> u64 {
        self.measured().map(|(_, state)| get(&state.finished)).sum()
    }

    /// Measured requests that have failed so far.
    pub fn failed_count(&self) -> u64 {
        self.measured().map(|(_, state)| get(&state.failed)).sum()
    }

    /// Measured requests that were due before their phase's sending ended, by the time or by a
    /// stop, and never had their turn. Cost: a pass over the schedule.
    pub fn unsent_count(&self) -> u64 {
        let unsent = |(part, state): (usize, &PhaseState)| -> Option<u64> {
            let mut arrivals = self.arrivals(part)?;
            let stopped = self.stopped_at().into_iter();
            let end = stopped.chain(self.send_until(part)).min()?;
            let start = state.start()?;
            let claimed = self.claimed_in(part);
            let most = self.phases()[part].count.unwrap_or(u64::MAX);
            let due = |index| arrivals.due(index).is_some_and(|due| start + due < end);
            Some(
                (claimed..most)
                    .map(due)
                    .take_while(|is_due| *is_due)
                    .count() as u64,
            )
        };
        self.measured().filter_map(unsent).sum()
    }

    /// Measured requests sent per second, from the first to the last of each phase; absent for
    /// fewer than two.
    pub fn delivered_rate(&self) -> Option<f64> {
        self.rate(|state| {
            let sent = get(&state.scheduled);
            let (first, last) = (&state.first_scheduled, &state.last_scheduled);
            (sent, get(first), get(last))
        })
    }

    /// What [`Pace::delivered_rate`] would be if every request had left at its due time. Those that
    /// a full cap has skipped were not meant to leave; those that a late client has were.
    pub fn scheduled_rate(&self) -> Option<f64> {
        self.rate(|state| {
            let meant = get(&state.scheduled) + state.skipped().late;
            (meant, get(&state.first_due), get(&state.last_due))
        })
    }

    /// Of the open loops among the measured phases: so many requests from one time to another.
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    fn rate(&self, count: impl Fn(&PhaseState) -> (u64, u64, u64)) -> Option<f64> {
        let (mut gaps, mut span_s) = (0, 0.0);
        for (part, state) in self.measured() {
            if self.phases()[part].law.is_none() {
                continue;
            }
            let (count, first, last) = count(state);
            if let (Some(more), Some(span)) = (count.checked_sub(1), last.checked_sub(first)) {
                gaps += more;
                span_s += Ns(span).as_secs();
            }
        }
        (gaps > 0 && span_s > 0.0).then(|| gaps as f64 / span_s)
    }
}
