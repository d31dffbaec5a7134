//! The pace of all cores together: one ticket for the whole run, exact over any number of cores.

use super::claim::{Claim, PaceOptions, PhasePlan, Stop, Ticket, Want};
use super::gates::{Entry, Gates, Held};
use super::phases::PhaseState;
use super::place::Place;
use crate::base::{Ns, limits, now};
use crate::schedule::{Arrivals, Law};
use crate::stats::Phase;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A slot that the kernel knows to be free may lie in a read that its core has not come to.
const READING: Ns = Ns(1_000_000);
/// How soon to ask again while another core opens a phase.
const SOON: Ns = Ns(20_000);
/// Where a core is in the phases; each core has its own.
#[derive(Debug, Default)]
pub struct Cursor {
    /// Phase that the times are of.
    part: Option<usize>,
    arrivals: Option<Arrivals>,
}

/// Why a measured request of the schedule is not sent. A warm-up is sent whole: it stands for
/// nothing but itself, and the measurement waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    /// No slot was free when it was due.
    Capped,
    /// The client came so long after.
    Late(Ns),
}

/// The same, and its numbers in its phase.
#[derive(Clone, Copy, Debug)]
struct Seat {
    place: Place,
    part: usize,
    index: u64,
    number: u64,
    session: u64,
}

/// Shared by all cores; atomics only, a few per request.
#[derive(Debug)]
pub struct Pace {
    options: PaceOptions,
    states: Vec<PhaseState>,
    gates: Vec<Gates>,
    held: Held,
    start: AtomicU64,
    ready: AtomicU32,
    /// The next request, packed.
    ticket: AtomicU64,
    in_flight: AtomicU32,
    turns_ready: AtomicU32,
    events: AtomicU64,
    pub(super) first_tokens: AtomicU64,
    pub(super) first_tokens_ns: AtomicU64,
    stop: AtomicU8,
    pub(super) stopped_at: AtomicU64,
}

impl Pace {
    /// A pace that has not started.
    pub fn new(options: PaceOptions) -> Pace {
        let gates = |plan| Gates::new(plan, options.urls);
        Pace {
            states: options
                .phases
                .iter()
                .map(|_| PhaseState::default())
                .collect(),
            gates: options.phases.iter().map(gates).collect(),
            held: Held::new(options.urls),
            options,
            start: AtomicU64::new(0),
            ready: AtomicU32::new(0),
            ticket: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            turns_ready: AtomicU32::new(0),
            events: AtomicU64::new(0),
            first_tokens: AtomicU64::new(0),
            first_tokens_ns: AtomicU64::new(0),
            stop: AtomicU8::new(0),
            stopped_at: AtomicU64::new(0),
        }
    }

    /// A core has opened its connections.
    pub fn core_is_ready(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
    }

    /// Cores that are ready.
    pub fn ready_count(&self) -> u32 {
        self.ready.load(Ordering::Acquire)
    }

    /// Starts the clock.
    pub fn begin(&self, at: Ns) {
        let at = Ns(at.0.max(1));
        self.states[0].begin(at);
        self.open(Place {
            part: 0,
            session: 0,
            index: 0,
        });
        self.start.store(at.0, Ordering::Release);
    }

    /// The start, once there is one.
    pub fn started(&self) -> Option<Ns> {
        let at = self.start.load(Ordering::Acquire);
        (at > 0).then_some(Ns(at))
    }

    /// The phases, as planned.
    pub fn phases(&self) -> &[PhasePlan] {
        &self.options.phases
    }

    /// Number of the phase that sends.
    pub fn part(&self) -> usize {
        self.place().part
    }

    fn place(&self) -> Place {
        Place::unpack(self.ticket.load(Ordering::Acquire), self.options.turns)
    }

    /// Moves from one place to another; false when another core has moved.
    fn advance(&self, from: Place, to: Place) -> bool {
        let turns = self.options.turns;
        let (from, to) = (from.pack(turns), to.pack(turns));
        self.ticket
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Asks every core to stop; never weakens an earlier stop.
    pub fn stop(&self, stop: Stop) {
        // Only the first one may set it; that another was first is no error.
        let _ = self
            .stopped_at
            .compare_exchange(0, now().0, Ordering::AcqRel, Ordering::Acquire);
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
    }

    /// What was asked, or what the time says.
    pub fn stopping(&self, at: Ns) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => {}
            1 => return Stop::Drain,
            _ => return Stop::Cancel,
        }
        let part = self.part();
        let is_last = part + 1 == self.options.phases.len();
        match self.send_until(part).filter(|_| is_last) {
            Some(end) if at < end => Stop::Run,
            Some(end) => match self.options.phases[part].grace {
                Some(grace) if at >= end + grace => Stop::Cancel,
                _ => Stop::Drain,
            },
            None => Stop::Run,
        }
    }

    /// The counters of each phase.
    pub(super) fn states(&self) -> &[PhaseState] {
        &self.states
    }

    /// Requests whose turn has come so far, skipped ones included.
    pub fn claimed_count(&self) -> u64 {
        self.place().index
    }

    /// Requests of a phase whose turn has come.
    pub fn claimed_in(&self, part: usize) -> u64 {
        self.count_in(part, PhaseState::first, |place| place.index)
    }

    /// Sessions of a phase that have begun.
    pub fn sessions_in(&self, part: usize) -> u64 {
        self.count_in(part, PhaseState::first_session, |place| place.session)
    }

    fn count_in(
        &self,
        part: usize,
        first: impl Fn(&PhaseState) -> Option<u64>,
        next: impl Fn(Place) -> u64,
    ) -> u64 {
        let place = self.place();
        let Some(begin) = first(&self.states[part]) else {
            return 0;
        };
        let following = match part < place.part {
            true => first(&self.states[part + 1]),
            false => None,
        };
        following.unwrap_or(next(place)).saturating_sub(begin)
    }

    /// A core has read so many content events more.
    pub fn add_events(&self, count: u64) {
        self.events.fetch_add(count, Ordering::Relaxed);
    }

    /// Content events so far, of all requests; a core's own come a moment late.
    pub fn events_count(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// In flight now.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// True while the phase that sends is a closed loop.
    pub fn is_closed(&self) -> bool {
        self.options.phases[self.part()].law.is_none()
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Ns {
        self.started()
            .map_or(Ns::ZERO, |start| now().saturating_since(start))
    }

    /// Sees to it that the phase of `at` sends. Gives what is to be done where there is none: wait,
    /// or end.
    pub fn look(&self, at: Ns) -> Result<(), Claim> {
        self.seat(at).map(|_| ())
    }

    fn seat(&self, at: Ns) -> Result<Seat, Claim> {
        if self.started().is_none() {
            return Err(Claim::Full);
        }
        loop {
            if self.stop.load(Ordering::Acquire) != 0 {
                return Err(Claim::Finished);
            }
            let place = self.place();
            let state = &self.states[place.part];
            let (Some(first), Some(session)) = (state.first(), state.first_session()) else {
                return Err(Claim::NotBefore(at + SOON));
            };
            let seat = Seat {
                place,
                part: place.part,
                index: place.index,
                number: place.index.saturating_sub(first),
                session: place.session.saturating_sub(session),
            };
            if !self.is_over(seat, at) {
                return Ok(seat);
            }
            self.turn(seat, at)?;
        }
    }

    /// True when a phase sends nothing more.
    fn is_over(&self, seat: Seat, at: Ns) -> bool {
        self.has_no_more(seat.part, seat.number)
            || self.send_until(seat.part).is_some_and(|end| at >= end)
    }

    /// True when a phase has sent all that it has; `number` of its requests had their turn.
    pub(super) fn has_no_more(&self, part: usize, number: u64) -> bool {
        let plan = &self.options.phases[part];
        // A session of several turns is told when the last of them is over.
        let told = match self.options.turns {
            true => self.states[part].sessions_ended(),
            false => self.sessions_in(part),
        };
        let is_told = |sessions| told >= sessions;
        plan.count.is_some_and(|count| number >= count) || plan.sessions.is_some_and(is_told)
    }

    /// Opens the phase after one that is over, once it may begin.
    fn turn(&self, seat: Seat, at: Ns) -> Result<(), Claim> {
        let next = seat.part + 1;
        if next == self.options.phases.len() {
            return Err(Claim::Finished);
        }
        let begin = self.end_of(seat.part, at).ok_or(Claim::Full)?;
        if at < begin {
            return Err(Claim::NotBefore(begin));
        }
        self.states[next].begin(begin);
        let place = Place {
            part: next,
            ..seat.place
        };
        if self.advance(seat.place, place) {
            self.open(place);
        }
        Ok(())
    }

    /// Opens a phase that has begun, from `place` on.
    fn open(&self, place: Place) {
        let state = &self.states[place.part];
        self.gates[place.part].begin(state.start().unwrap_or_default(), &self.held);
        state.open(place.index, place.session, self.in_flight());
    }

    /// When a phase that sends nothing more gives way to the next; absent while it does not. One
    /// that is counted hands over with its first end: those after it take its slots over.
    fn end_of(&self, part: usize, at: Ns) -> Option<Ns> {
        let (plan, state) = (&self.options.phases[part], &self.states[part]);
        let by_time = self.send_until(part).filter(|end| at >= *end);
        let end = match by_time {
            Some(end) => end,
            // With its last answer, where a phase is over only then.
            None if self.options.turns && plan.sessions.is_some() => state.last_end(),
            None if plan.drains => state.last_sent().max(state.next_due()),
            None => state.first_end()?.max(state.next_due()),
        };
        if !plan.drains || self.claimed_in(part) == 0 {
            return Some(end);
        }
        let sent = by_time.unwrap_or(state.last_sent());
        let is_patient = plan.grace.is_none_or(|grace| at < sent + grace);
        let is_busy = self.in_flight() > 0 || self.held.sessions.load(Ordering::Acquire) > 0;
        match is_busy {
            true if is_patient => None,
            true => {
                self.states[part + 1].lose_patience();
                Some(end.max(sent + plan.grace.unwrap_or_default()))
            }
            false => Some(end.max(state.last_end())),
        }
    }

    /// Claims the next request for a core that has a slot of its own (closed loop) or asks for a
    /// global one (open loop).
    pub fn claim(&self, at: Ns, core: u16, cursor: &mut Cursor, want: Want) -> Claim {
        loop {
            let seat = match self.seat(at) {
                Ok(seat) => seat,
                Err(claim) => return claim,
            };
            let due = match self.due(seat, want, cursor) {
                Ok(due) => due,
                // The law has no more.
                Err(()) if self.held.sessions.load(Ordering::Acquire) > 0 => return Claim::Full,
                Err(()) => match self.turn(seat, at) {
                    Ok(()) => continue,
                    Err(claim) => return claim,
                },
            };
            if let Some(due) = due
                && let Some(early) = self.too_early(seat, want, due, at, core)
            {
                return Claim::NotBefore(early);
            }
            let measured = self.options.phases[seat.part].measured;
            let state = &self.states[seat.part];
            if want == Want::Session && !self.has_session_left(seat) {
                return Claim::Full;
            }
            let entry = self.entry(seat, want);
            let gates = &self.gates[seat.part];
            let was_taken = |free: &Ns| due.is_none_or(|due| *free > due);
            let granted = gates.enter(&self.held, &entry, at);
            let granted = granted.map(|free| free.filter(was_taken));
            let skip = match due.filter(|_| measured) {
                Some(due) => self.reason_to_skip(granted, due, at),
                None => None,
            };
            if granted.is_none() && skip.is_none() {
                return Claim::Full;
            }
            let next = Place {
                index: seat.index + 1,
                session: seat.place.session + u64::from(want == Want::Session),
                ..seat.place
            };
            let won = self.advance(seat.place, next);
            if granted.is_some() && (!won || skip.is_some()) {
                gates.leave(&self.held, &entry);
            }
            if !won {
                continue;
            }
            if skip.is_some() {
                state.session_ended(at);
            }
            match skip {
                Some(Skip::Capped) => state.skip_capped(),
                Some(Skip::Late(late)) => state.skip_late(late),
                None => {
                    gates.taken(&entry);
                    self.in_flight.fetch_add(1, Ordering::AcqRel);
                    state.sent(at, due);
                    self.note_next_due(seat, due, cursor);
                    let granted = granted.flatten();
                    return Claim::Take(self.ticket_for(seat, due, granted));
                }
            }
        }
    }

    fn ticket_for(&self, seat: Seat, due: Option<Ns>, granted: Option<Ns>) -> Ticket {
        Ticket {
            index: seat.index,
            session: seat.place.session,
            drawn: self.drawn_before(seat.part) + seat.session,
            due,
            part: u8::try_from(seat.part).unwrap_or(u8::MAX),
            phase: match self.options.phases[seat.part].measured {
                true => Phase::Profiling,
                false => Phase::Warmup,
            },
            granted,
        }
    }

    /// When to come back for a request that must wait for its time, or for another's turn; absent
    /// when it may go. Nothing holds one back for longer than 1 ms.
    fn too_early(&self, seat: Seat, want: Want, due: Ns, at: Ns, core: u16) -> Option<Ns> {
        if at >= due + Ns(1_000_000) {
            return None;
        }
        let due_here = due + self.patience(seat.index, core);
        // A session that waits for its next turn goes before a new one.
        let law = &self.options.phases[seat.part].law;
        let is_rate = matches!(law, Some(Law::Renewal { .. }));
        let gives_way = is_rate && want == Want::Session && self.turns_ready() > 0;
        match at < due_here {
            true => Some(due_here),
            false => gives_way.then_some(at + SOON),
        }
    }

    /// The planned time of a request; an error when there is none any more.
    fn due(&self, seat: Seat, want: Want, cursor: &mut Cursor) -> Result<Option<Ns>, ()> {
        let state = &self.states[seat.part];
        let Some(law) = &self.options.phases[seat.part].law else {
            return Ok(None);
        };
        let arrivals = match &mut cursor.arrivals {
            Some(arrivals) if cursor.part == Some(seat.part) => arrivals,
            place => {
                let first = state.first().unwrap_or(0);
                place.insert(Arrivals::new(law.clone(), first, seat.part > 0))
            }
        };
        cursor.part = Some(seat.part);
        let start = state.start().unwrap_or_default();
        // Times are those of sessions, a rate is that of requests.
        let number = match law {
            Law::Renewal { .. } => seat.number,
            Law::Burst | Law::Times(_) if want == Want::Turn => return Ok(None),
            Law::Burst | Law::Times(_) => seat.session,
        };
        let offset = arrivals.due(number).ok_or(())?;
        Ok(Some(start + offset))
    }

    /// So many sessions more wait for their next turn on some core.
    pub fn add_turns_ready(&self, count: u32) {
        self.turns_ready.fetch_add(count, Ordering::AcqRel);
    }

    /// So many of them have had it, or are given up.
    pub fn take_turns_ready(&self, count: u32) {
        self.turns_ready.fetch_sub(count, Ordering::AcqRel);
    }

    fn turns_ready(&self) -> u32 {
        self.turns_ready.load(Ordering::Acquire)
    }

    fn has_session_left(&self, seat: Seat) -> bool {
        let most = self.options.phases[seat.part].sessions;
        most.is_none_or(|most| seat.session < most)
    }

    /// After the last request of a phase: when the next one of its schedule would be due.
    fn note_next_due(&self, seat: Seat, due: Option<Ns>, cursor: &mut Cursor) {
        let state = &self.states[seat.part];
        let count = self.options.phases[seat.part].count;
        if due.is_some() && count == Some(seat.number + 1) {
            let arrivals = cursor.arrivals.as_mut();
            let next = arrivals.and_then(|arrivals| arrivals.due(seat.number + 1));
            let start = state.start().unwrap_or_default();
            state.set_next_due(next.map_or(Ns::ZERO, |next| start + next));
        }
    }

    fn entry(&self, seat: Seat, want: Want) -> Entry {
        let skipped = self.states[seat.part].skipped().count();
        let sent = |number: u64| number.saturating_sub(skipped);
        let url = self.url(seat.index);
        Entry {
            session: (want == Want::Session).then_some(sent(seat.session)),
            sent: sent(seat.number),
            url,
            towards: self.number_towards(seat, url),
        }
    }

    /// Requests are dealt in turn.
    fn url(&self, index: u64) -> usize {
        let urls = self.options.urls.max(1) as u64;
        usize::try_from(index % urls).unwrap_or(0)
    }

    /// Requests of the phase towards a url before this one.
    fn number_towards(&self, seat: Seat, url: usize) -> u64 {
        let urls = self.options.urls.max(1) as u64;
        let before = |index: u64| (index + urls - 1 - url as u64) / urls;
        before(seat.index) - before(seat.index - seat.number)
    }

    /// Which core wakes for a due time: one at the time itself, the others as its stand-ins.
    fn patience(&self, index: u64, core: u16) -> Ns {
        let cores = u64::from(self.options.cores.max(1));
        if index % cores == u64::from(core) % cores {
            Ns::ZERO
        } else {
            Ns(300_000)
        }
    }

    /// `granted` is as [`Gates::enter`] gives it, when it was after `due`.
    fn reason_to_skip(&self, granted: Option<Option<Ns>>, due: Ns, at: Ns) -> Option<Skip> {
        let had_none = match granted {
            Some(granted) => granted.is_some(),
            None => at > due + READING,
        };
        if self.options.skip_capped && had_none {
            return Some(Skip::Capped);
        }
        let late = at.saturating_since(granted.flatten().unwrap_or(due));
        let is_late = granted.is_some() && late > limits::LATE_MAX;
        (self.options.skip_late && is_late).then_some(Skip::Late(late))
    }

    /// True when requests of this phase hold a prefill slot until their first content.
    pub fn caps_prefill(&self, part: u8) -> bool {
        self.gates[usize::from(part)].prefill.is_some()
    }

    /// A request has its first content, or ended without.
    pub fn prefilled(&self, at: Ns) {
        if let Some(prefill) = &self.gates[self.part()].prefill {
            prefill.freed(at);
        }
        self.held.prefill.fetch_sub(1, Ordering::AcqRel);
    }

    /// A request has ended at `at` (kernel time of its last byte).
    pub fn ended(&self, at: Ns, part: u8, url: u16, failed: bool) {
        let (url, state) = (usize::from(url), &self.states[usize::from(part)]);
        if let Some(gate) = self.gates[self.part()].urls.get(url) {
            gate.freed(at);
        }
        if !self.gates[usize::from(part)].urls.is_empty()
            && let Some(held) = self.held.urls.get(url)
        {
            held.fetch_sub(1, Ordering::AcqRel);
        }
        state.ended(at, failed);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// A session has ended at `at`, or is given up.
    pub fn session_ended(&self, at: Ns, part: u8) {
        if let Some(cap) = &self.gates[self.part()].cap {
            cap.freed(at);
        }
        self.states[usize::from(part)].session_ended(at);
        self.held.sessions.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
