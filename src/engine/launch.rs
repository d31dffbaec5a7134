//! From a ticket to a request on its way: which session it is of, its record, its body.

use super::claim::Ticket;
use super::core::Core;
use super::flight::Flight;
use super::plan::{Drawn, Request};
use super::session::{Next, Session};
use super::slots::Slot;
use crate::base::{Ns, Rng, limits, rng::Stream};
use crate::stats::{Phase, Record};

/// Bytes that an event is taken to have when raw events are kept.
const RAW_EVENT_BYTES: usize = 320;

impl Core {
    /// Sends what a ticket allows: a further turn or a user's first, else the first of a session.
    pub(super) fn launch(&mut self, ticket: &Ticket, next: Option<(Ns, Next)>) {
        self.sends_left = self.sends_left.saturating_sub(1);
        let part = usize::from(ticket.part);
        let opened = self.plan.pace.phase_start(part).unwrap_or_default();
        let at = next.as_ref().map(|(at, _)| *at);
        let (mut slot, mut turns) = (None, None);
        let mut session = match next {
            Some((_, Next::Turn(session))) => {
                self.plan.pace.take_turns_ready(1);
                Some(session)
            }
            Some((_, Next::User(left))) => {
                self.plan.pace.take_turns_ready(1);
                turns = Some(left);
                None
            }
            None if ticket.due.is_none() && self.plan.pace.phases()[part].law.is_none() => {
                slot = self.slots.take();
                None
            }
            None => None,
        };
        let turn_since = session.as_ref().map(|session| session.done);
        let free = at.or(slot.map(|slot: Slot| slot.free)).unwrap_or_default();
        let due = ticket.due.unwrap_or(free.max(opened));
        let request = match &mut session {
            Some(session) => session.next(),
            None => self.plan.requests.get(Drawn {
                measured: ticket.phase == Phase::Profiling,
                number: ticket.drawn,
            }),
        };
        if session.is_none() {
            session = Session::new(ticket, &request, turns);
        }
        if let (Some(turns), Some(talk)) = (turns, &request.talk) {
            let all = u32::try_from(talk.turns.len()).unwrap_or(u32::MAX);
            self.succeed(due, turns, ticket, all);
        }
        let record = Record {
            index: ticket.index,
            session: session
                .as_ref()
                .map_or(ticket.session, |session| session.number),
            turn: session.as_ref().map_or(0, |session| session.turn - 1),
            due,
            // A turn of a rate waits for the answer before it, too.
            slot: due.max(ticket.granted.unwrap_or_default()).max(free),
            turn_since,
            part: ticket.part,
            phase: ticket.phase,
            ..Record::default()
        };
        let slot = slot.or(session.as_mut().and_then(|session| session.slot.take()));
        self.start(record, request, slot, session);
    }

    fn start(
        &mut self,
        mut record: Record,
        request: Request,
        slot: Option<Slot>,
        session: Option<Box<Session>>,
    ) {
        let kept = session.as_ref().and_then(|session| session.line);
        let dealt = usize::try_from(record.index).unwrap_or(0) % self.plan.targets.len();
        let target = kept.map_or(dealt, |(_, target)| target);
        let mut rng = Rng::new(self.plan.seed, Stream::RequestId, record.index);
        record.request_id = (u128::from(rng.bits()) << 64) | u128::from(rng.bits());
        let mut rng = Rng::new(self.plan.seed, Stream::Session, record.session);
        record.correlation_id = (u128::from(rng.bits()) << 64) | u128::from(rng.bits());
        record.core = self.plan.core;
        record.url = u16::try_from(target).unwrap_or(u16::MAX);
        record.requested_input = Some(request.input_tokens);
        record.requested_output = request.output_tokens;
        record.media = request.media;
        record.buffers = self.plan.buffers.try_recv().unwrap_or_default();
        let plan = &self.plan;
        if plan.raw {
            // Streams that began together would otherwise grow together, and stall the core.
            record.buffers.asked.extend_from_slice(&request.body);
            let events = record.requested_output.unwrap_or(0) as usize;
            let bytes = events.saturating_mul(RAW_EVENT_BYTES);
            record
                .buffers
                .raw
                .reserve(bytes.min(limits::RAW_RESERVE_BYTES_MAX));
            record
                .buffers
                .raw_marks
                .reserve(events.min(limits::RAW_RESERVE_BYTES_MAX / RAW_EVENT_BYTES));
        }
        let holds_prefill = plan.pace.caps_prefill(record.part);
        let mut flight = match self.spare.pop() {
            Some(mut flight) => {
                flight.renew(record, slot, request.body);
                flight
            }
            None => Box::new(Flight::new(record, slot, request.body, plan)),
        };
        (flight.holds_prefill, flight.session) = (holds_prefill, session);
        self.in_flight += 1;
        self.put_on_line(target, flight, kept.map(|(token, _)| token));
    }
}
