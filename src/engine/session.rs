//! Sessions of several turns: which come next on a core, and what they have said so far.

use super::claim::{Ticket, Want};
use super::core::Core;
use super::pace::Pace;
use super::plan::{Request, Talk};
use super::slots::Slot;
use crate::base::Ns;
use crate::endpoint;
use crate::runtime::Token;
use crate::stats::Record;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// A session between two turns, or in one.
#[derive(Debug)]
pub(super) struct Session {
    /// Number in the run.
    pub number: u64,
    /// Its phase: it does not outlive it.
    pub part: u8,
    /// Turns that it has had, with the one in flight.
    pub turn: u32,
    /// Turns that it may have; a user who was there before has fewer left.
    turns: u32,
    talk: Arc<Talk>,
    /// Messages so far, as they stand in the body.
    said: Vec<u8>,
    /// The slot that it holds in a closed loop.
    pub slot: Option<Slot>,
    /// The connection that it keeps, and where that leads to.
    pub line: Option<(Token, usize)>,
    /// When its last turn was sent, and when that was over.
    sent: Ns,
    pub done: Ns,
}

impl Session {
    /// The session of a first request; `None` when it has one turn only.
    pub fn new(ticket: &Ticket, request: &Request, turns: Option<u32>) -> Option<Box<Session>> {
        let talk = request.talk.clone()?;
        let all = u32::try_from(talk.turns.len()).unwrap_or(u32::MAX);
        Some(Box::new(Session {
            number: ticket.session,
            part: ticket.part,
            turn: 1,
            turns: turns.unwrap_or(all).min(all),
            talk,
            said: Vec::new(),
            slot: None,
            line: None,
            sent: Ns::ZERO,
            done: Ns::ZERO,
        }))
    }

    /// The request of the next turn.
    pub fn next(&mut self) -> Request {
        let turn = &self.talk.turns[self.turn as usize];
        self.turn += 1;
        Request {
            body: self.talk.body(&self.said, turn).into(),
            input_tokens: turn.tokens,
            output_tokens: turn.output_tokens,
            media: turn.media,
            talk: None,
        }
    }

    /// Takes a turn's answer in, as it came; false when it was the last one.
    fn hear(&mut self, record: &Record, at: Ns) -> bool {
        (self.sent, self.done) = (record.start, at);
        if self.turn >= self.turns || record.failure.is_some() {
            return false;
        }
        let turn = &self.talk.turns[self.turn as usize - 1];
        self.said.extend_from_slice(&turn.message);
        self.said
            .extend_from_slice(br#",{"role":"assistant","content":"#);
        endpoint::quote(&record.buffers.answer, &mut self.said);
        self.said.extend_from_slice(b"},");
        true
    }

    /// When the turn after one that was done at `done` is due. `start` is the phase's.
    fn due(&self, done: Ns, start: Ns) -> Ns {
        let turn = &self.talk.turns[self.turn as usize];
        match turn.at {
            Some(at) => (start + at).max(done),
            None => done + turn.think,
        }
    }
}

/// What comes next on a core.
#[derive(Debug)]
pub(super) enum Next {
    /// The next turn of a session.
    Turn(Box<Session>),
    /// A user's first turn, of so many.
    User(u32),
}

impl Next {
    pub fn want(&self) -> Want {
        match self {
            Next::Turn(_) => Want::Turn,
            Next::User(_) => Want::Session,
        }
    }
}

#[derive(Debug)]
struct Entry {
    at: Ns,
    serial: u64,
    next: Next,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, as the heap wants it.
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

/// The sessions of a core that are between two turns, by the time of the next.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    later: BinaryHeap<Entry>,
    /// Due, in order.
    ready: VecDeque<(Ns, Next)>,
    serial: u64,
}

impl Agenda {
    pub fn add(&mut self, at: Ns, next: Next) {
        self.serial += 1;
        let serial = self.serial;
        self.later.push(Entry { at, serial, next });
    }

    /// Puts one back that could not go yet.
    pub fn put_back(&mut self, at: Ns, next: Next) {
        self.ready.push_front((at, next));
    }

    /// Those that are due have their turn from now on; how many that makes more.
    pub fn wake(&mut self, at: Ns) -> u32 {
        let before = self.ready.len();
        while self.later.peek().is_some_and(|entry| entry.at <= at)
            && let Some(entry) = self.later.pop()
        {
            self.ready.push_back((entry.at, entry.next));
        }
        u32::try_from(self.ready.len() - before).unwrap_or(u32::MAX)
    }

    /// The next that is due, with its time.
    pub fn take(&mut self) -> Option<(Ns, Next)> {
        self.ready.pop_front()
    }

    /// When the next one is due that is not yet.
    pub fn next_at(&self) -> Option<Ns> {
        self.later.peek().map(|entry| entry.at)
    }

    pub fn ready_count(&self) -> u32 {
        u32::try_from(self.ready.len()).unwrap_or(u32::MAX)
    }

    /// All of them, in no order.
    fn drain(&mut self) -> Vec<Next> {
        let ready = self.ready.drain(..).map(|(_, next)| next);
        ready
            .chain(self.later.drain().map(|entry| entry.next))
            .collect()
    }
}

impl Core {
    /// Sessions that rest are given up: their phase is over.
    pub(super) fn drop_sessions(&mut self, at: Ns) {
        self.plan.pace.take_turns_ready(self.agenda.ready_count());
        for next in self.agenda.drain() {
            if let Next::Turn(mut session) = next {
                if let Some(slot) = session.slot.take() {
                    self.slots.give_back(slot, at, true);
                }
                self.drop_kept(&session);
                self.plan.pace.session_ended(at, session.part);
            }
        }
    }

    /// Puts the users of this core on its agenda.
    pub(super) fn invite(&mut self, pace: &Pace, part: usize) {
        let Some(users) = &pace.phases()[part].users else {
            return;
        };
        let start = pace.phase_start(part).unwrap_or_default();
        let own = users.first.iter().skip(usize::from(self.plan.core));
        for user in own.step_by(self.plan.cores.max(1)) {
            self.agenda.add(start + user.at, Next::User(user.turns));
        }
    }

    /// A user's place is taken by the next one when its turns are over, by the clock.
    pub(super) fn succeed(&mut self, due: Ns, turns: u32, ticket: &Ticket, all: u32) {
        let part = usize::from(ticket.part);
        if let Some(users) = &self.plan.pace.phases()[part].users {
            self.agenda.add(due + users.life(turns), Next::User(all));
        }
    }

    /// A session that is over keeps no connection.
    pub(super) fn drop_kept(&mut self, session: &Session) {
        if let Some((token, _)) = session.line {
            self.drop_idle(token);
        }
    }

    /// A turn is over: the session rests until its next, or ends. True when it goes on.
    pub(super) fn rest(&mut self, mut session: Box<Session>, record: &Record, at: Ns) -> bool {
        let pace = &self.plan.pace;
        let part = usize::from(session.part);
        let is_current = pace.part() == part && !self.finished;
        if !is_current || !session.hear(record, at) {
            self.drop_kept(&session);
            return false;
        }
        let pace = &self.plan.pace;
        let start = pace.phase_start(part).unwrap_or_default();
        let due = match &pace.phases()[part].users {
            Some(users) => (session.sent + users.gap).max(at),
            None => session.due(at, start),
        };
        self.agenda.add(due, Next::Turn(session));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agenda_goes_by_time_and_then_by_order() {
        let mut agenda = Agenda::default();
        for (at, turns) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            agenda.add(Ns(at), Next::User(turns));
        }
        let turns = |agenda: &mut Agenda| match agenda.take() {
            Some((at, Next::User(turns))) => Some((at.0, turns)),
            _ => None,
        };
        assert_eq!((agenda.wake(Ns(9)), agenda.next_at()), (0, Some(Ns(10))));
        assert_eq!(agenda.wake(Ns(25)), 3);
        assert_eq!(turns(&mut agenda), Some((10, 2)));
        agenda.put_back(Ns(10), Next::User(2));
        assert_eq!(agenda.ready_count(), 3);
        for expected in [Some((10, 2)), Some((10, 4)), Some((20, 3)), None] {
            assert_eq!(turns(&mut agenda), expected);
        }
    }
}
