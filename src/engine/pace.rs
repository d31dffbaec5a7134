//! The pace of all cores together: one ticket for the whole run, exact over any number of cores.

use super::claim::{Claim, PaceOptions, PhasePlan, Stop, Ticket, Want};
use super::gates::{Entry, Gates, Held};
use super::phases::PhaseState;
use crate::base::{Ns, limits, now};
use crate::schedule::Arrivals;
use crate::stats::Phase;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A slot that the kernel knows to be free may lie in a read that its core has not come to.
const READING: Ns = Ns(1_000_000);
/// How soon to ask again while another core opens a phase.
const SOON: Ns = Ns(20_000);
/// Bits of a ticket that number the request; those above it number the phase.
const INDEX_BITS: u32 = 48;

/// Where a core is in the phases; each core has its own.
#[derive(Debug, Default)]
pub struct Cursor {
    /// Number of the phase, once one has begun.
    pub part: Option<usize>,
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

/// The next request: its phase, its number in the run and in the phase.
#[derive(Clone, Copy, Debug)]
struct Seat {
    part: usize,
    index: u64,
    number: u64,
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
    /// Phase and number of the next request.
    ticket: AtomicU64,
    in_flight: AtomicU32,
    events: AtomicU64,
    stop: AtomicU8,
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
            events: AtomicU64::new(0),
            stop: AtomicU8::new(0),
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
        self.open(0, 0);
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
        self.ticket().0
    }

    /// When a phase began, once it has.
    pub fn phase_start(&self, part: usize) -> Option<Ns> {
        self.states[part].start()
    }

    /// When the next phase begins, where that is known.
    pub fn next_phase(&self) -> Option<Ns> {
        let part = self.part();
        let is_last = part + 1 == self.options.phases.len();
        self.send_until(part).filter(|_| !is_last)
    }

    fn ticket(&self) -> (usize, u64) {
        let ticket = self.ticket.load(Ordering::Acquire);
        let part = usize::try_from(ticket >> INDEX_BITS).unwrap_or(0);
        (part, ticket & ((1 << INDEX_BITS) - 1))
    }

    /// Moves from one ticket to another; false when another core has moved.
    fn advance(&self, part: usize, index: u64, to: (usize, u64)) -> bool {
        let pack = |part: usize, index: u64| (part as u64) << INDEX_BITS | index;
        let (from, to) = (pack(part, index), pack(to.0, to.1));
        self.ticket
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Asks every core to stop; never weakens an earlier stop.
    pub fn stop(&self, stop: Stop) {
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

    /// When a phase sends no more by its duration.
    pub(super) fn send_until(&self, part: usize) -> Option<Ns> {
        let duration = self.options.phases[part].duration?;
        Some(self.states[part].start()? + duration)
    }

    /// The counters of each phase.
    pub(super) fn states(&self) -> &[PhaseState] {
        &self.states
    }

    /// Requests whose turn has come so far, skipped ones included.
    pub fn claimed_count(&self) -> u64 {
        self.ticket().1
    }

    /// Requests of a phase whose turn has come.
    pub(super) fn claimed_in(&self, part: usize) -> u64 {
        let (now, index) = self.ticket();
        let Some(first) = self.states[part].first() else {
            return 0;
        };
        let end = match part < now {
            true => self.states[part + 1].first().unwrap_or(index),
            false => index,
        };
        end.saturating_sub(first)
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
            let (part, index) = self.ticket();
            let Some(first) = self.states[part].first() else {
                return Err(Claim::NotBefore(at + SOON));
            };
            let number = index.saturating_sub(first);
            let seat = Seat {
                part,
                index,
                number,
            };
            if !self.is_over(seat, at) {
                return Ok(seat);
            }
            self.turn(seat, at)?;
        }
    }

    /// True when a phase sends nothing more.
    fn is_over(&self, seat: Seat, at: Ns) -> bool {
        let plan = &self.options.phases[seat.part];
        let state = &self.states[seat.part];
        let is_sent = plan.count.is_some_and(|count| seat.number >= count);
        let is_told = plan
            .sessions
            .is_some_and(|sessions| state.sessions_ended() >= sessions);
        is_sent || is_told || self.send_until(seat.part).is_some_and(|end| at >= end)
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
        if self.advance(seat.part, seat.index, (next, seat.index)) {
            self.open(next, seat.index);
        }
        Ok(())
    }

    /// Opens a phase that has begun, from request `index` of the run on.
    fn open(&self, part: usize, index: u64) {
        let start = self.states[part].start().unwrap_or_default();
        self.gates[part].begin(start, &self.held);
        self.states[part].open(index, self.in_flight());
    }

    /// When a phase that sends nothing more gives way to the next; absent while it does not. One
    /// that is counted hands over with its first end: those after it take its slots over.
    fn end_of(&self, part: usize, at: Ns) -> Option<Ns> {
        let (plan, state) = (&self.options.phases[part], &self.states[part]);
        let by_time = self.send_until(part).filter(|end| at >= *end);
        let end = match by_time {
            Some(end) => end,
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
            true => Some(end.max(sent + plan.grace.unwrap_or_default())),
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
            let due = match self.due(seat, cursor) {
                Ok(due) => due,
                // The law has no more.
                Err(()) => match self.turn(seat, at) {
                    Ok(()) => continue,
                    Err(claim) => return claim,
                },
            };
            if let Some(due) = due {
                let due_here = due + self.patience(seat.index, core);
                if at < due_here && at < due + Ns(1_000_000) {
                    return Claim::NotBefore(due_here);
                }
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
            let won = self.advance(seat.part, seat.index, (seat.part, seat.index + 1));
            if granted.is_some() && (!won || skip.is_some()) {
                gates.leave(&self.held, &entry);
            }
            if !won {
                continue;
            }
            match skip {
                Some(Skip::Capped) => state.skip_capped(),
                Some(Skip::Late(late)) => state.skip_late(late),
                None => {
                    let Some(session) = self.number_session(seat, want) else {
                        gates.leave(&self.held, &entry);
                        continue;
                    };
                    gates.taken(&entry);
                    self.in_flight.fetch_add(1, Ordering::AcqRel);
                    state.sent(at, due);
                    self.note_next_due(seat, due, cursor);
                    let granted = granted.flatten();
                    return Claim::Take(self.ticket_for(seat, session, due, granted));
                }
            }
        }
    }

    fn ticket_for(&self, seat: Seat, session: u64, due: Option<Ns>, granted: Option<Ns>) -> Ticket {
        Ticket {
            index: seat.index,
            session: session + self.sessions_before(seat.part),
            due,
            part: u8::try_from(seat.part).unwrap_or(u8::MAX),
            phase: match self.options.phases[seat.part].measured {
                true => Phase::Profiling,
                false => Phase::Warmup,
            },
            granted,
        }
    }

    /// The planned time of a request; an error when there is none any more.
    fn due(&self, seat: Seat, cursor: &mut Cursor) -> Result<Option<Ns>, ()> {
        let state = &self.states[seat.part];
        let Some(law) = &self.options.phases[seat.part].law else {
            cursor.part = Some(seat.part);
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
        let offset = arrivals.due(seat.number).ok_or(())?;
        Ok(Some(start + offset))
    }

    fn has_session_left(&self, seat: Seat) -> bool {
        let most = self.options.phases[seat.part].sessions;
        most.is_none_or(|most| self.states[seat.part].sessions() < most)
    }

    /// The number of a new session in its phase; absent when another core has had the last: the
    /// request's number is then used up, and nothing is sent under it.
    fn number_session(&self, seat: Seat, want: Want) -> Option<u64> {
        let state = &self.states[seat.part];
        if want == Want::Turn {
            return Some(0);
        }
        let number = state.add_session();
        let most = self.options.phases[seat.part].sessions;
        if most.is_some_and(|most| number >= most) {
            state.take_session_back();
            return None;
        }
        Some(number)
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
        let state = &self.states[seat.part];
        let url = self.url(seat.index);
        Entry {
            session: (want == Want::Session).then(|| state.sessions()),
            sent: seat.number.saturating_sub(state.unsent_count()),
            url,
            towards: self.number_towards(seat, url),
        }
    }

    fn sessions_before(&self, part: usize) -> u64 {
        self.states[..part].iter().map(PhaseState::sessions).sum()
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
        if let Some(held) = self.held.urls.get(url) {
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
