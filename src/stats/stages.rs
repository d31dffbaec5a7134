//! The stages of a request: where its time went, from due to done, with nothing left over.

use super::record::Record;
use crate::base::Ns;

/// One part of a request's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Due, and no slot under the cap.
    SlotWait,
    /// A slot, and the client had not come to it yet.
    SendLag,
    /// Dispatched, and no connection was being made: a kept one that turned out dead.
    Blocked,
    /// TCP.
    Connect,
    /// TLS.
    Tls,
    /// Until the kernel had taken the last byte of the request.
    Send,
    /// Until the first byte of the answer's body.
    Wait,
    /// Until the last.
    Receive,
}

use Part::{Blocked, Connect, Receive, Send, SendLag, SlotWait, Tls, Wait};

/// All parts, in the order in which they happen.
pub const PARTS: [Part; 8] = [
    SlotWait, SendLag, Blocked, Connect, Tls, Send, Wait, Receive,
];

/// Those of a connection of its own.
pub const MAKING: &[Part] = &[Blocked, Connect, Tls];

impl Part {
    /// As in the records, without the unit.
    pub fn name(self) -> &'static str {
        match self {
            SlotWait => "slot_wait",
            SendLag => "send_lag",
            Blocked => "blocked",
            Connect => "connect",
            Tls => "tls",
            Send => "send",
            Wait => "wait",
            Receive => "receive",
        }
    }
}

/// How long each part of a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Stages([Option<Ns>; PARTS.len()]);

impl Stages {
    /// Of a request. What it did not come to is absent; a failed one has the rest of its time in
    /// the part in which it failed. The sum is `done - due`, whatever the moments are: an unknown
    /// one leaves its part's time to the next, and one that lies before its predecessor (the
    /// kernel's receive time may lie before our own "written") ends a part of no length.
    ///
    /// ```
    /// use tokenring::base::Ns;
    /// use tokenring::stats::{Record, Stages, stages::Part};
    /// let at = |ms| Some(Ns::from_ms(ms));
    /// let r = Record {
    ///     due: Ns::from_ms(0),
    ///     slot: Ns::from_ms(400),
    ///     start: Ns::from_ms(401),
    ///     written: at(403),
    ///     first_byte: at(450),
    ///     done: Ns::from_ms(900),
    ///     ..Record::default()
    /// };
    /// let stages = Stages::of(&r);
    /// assert_eq!(stages.get(Part::SlotWait), at(400));
    /// assert_eq!(stages.get(Part::Connect), None);
    /// assert_eq!(stages.get(Part::Wait), at(47));
    /// assert_eq!(stages.total(), Ns::from_ms(900));
    /// ```
    pub fn of(r: &Record) -> Stages {
        // A kept connection was not made by this request.
        let is_here = |(part, _): &(Part, _)| r.connect_start.is_some() || !MAKING.contains(part);
        let ends = [
            (SlotWait, Some(r.slot)),
            (SendLag, Some(r.start)),
            (Blocked, r.connect_start),
            (Connect, r.connect_done),
            (Tls, r.tls_done),
            (Send, r.written),
            (Wait, r.first_byte),
        ];
        let mut stages = Stages::default();
        let mut from = r.due;
        for (part, end) in ends.into_iter().filter(is_here) {
            let Some(end) = end else { continue };
            let to = end.clamp(from, r.done.max(from));
            stages.0[part as usize] = to.since(from);
            from = to;
        }
        // What came after the last known moment is the part in which it ended.
        let unknown = ends.into_iter().filter(is_here).rev();
        let ended_in = unknown.take_while(|(_, end)| end.is_none()).last();
        let ended_in = ended_in.map_or(Receive, |(part, _)| part);
        stages.0[ended_in as usize] = r.done.since(from);
        stages
    }

    /// The length of a part.
    pub fn get(&self, part: Part) -> Option<Ns> {
        self.0[part as usize]
    }

    /// The parts that there were, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Part, Ns)> + '_ {
        PARTS
            .into_iter()
            .filter_map(|part| Some((part, self.get(part)?)))
    }

    /// Of these parts together; those that are absent took no time.
    pub fn sum(&self, parts: &[Part]) -> Ns {
        let lengths = parts.iter().filter_map(|part| self.get(*part));
        lengths.fold(Ns::ZERO, |sum, length| sum + length)
    }

    /// Of all parts: from due to done.
    pub fn total(&self) -> Ns {
        self.sum(&PARTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::array::uniform9;
    use proptest::prelude::*;

    fn moment() -> impl Strategy<Value = Option<Ns>> {
        proptest::option::of((0..1_000u64).prop_map(Ns))
    }

    proptest! {
        #[test]
        fn the_stages_of_any_record_add_up_to_its_whole_time(
            (due, slot, start, done) in (0..1_000u64, 0..1_000u64, 0..1_000u64, 0..1_000u64),
            (connect_start, connect_done, tls_done) in (moment(), moment(), moment()),
            (written, first_byte) in (moment(), moment()),
        ) {
            let record = Record {
                due: Ns(due),
                slot: Ns(slot),
                start: Ns(start),
                done: Ns(done),
                connect_start,
                connect_done,
                tls_done,
                written,
                first_byte,
                ..Record::default()
            };
            let stages = Stages::of(&record);
            prop_assert_eq!(stages.total(), Ns(done).saturating_since(Ns(due)));
            if connect_start.is_none() {
                prop_assert_eq!(stages.sum(MAKING), Ns::ZERO);
            }
        }

        #[test]
        fn moments_in_order_each_end_their_own_stage(mut at in uniform9(0..1_000u64)) {
            at.sort_unstable();
            let [due, slot, start, begin, tcp, tls, written, first, done] = at.map(Ns);
            let record = Record {
                due,
                slot,
                start,
                connect_start: Some(begin),
                connect_done: Some(tcp),
                tls_done: Some(tls),
                written: Some(written),
                first_byte: Some(first),
                done,
                ..Record::default()
            };
            let stages = Stages::of(&record);
            for (index, part) in PARTS.into_iter().enumerate() {
                prop_assert_eq!(stages.get(part), Some(Ns(at[index + 1] - at[index])));
            }
        }
    }

    #[test]
    fn a_failure_has_the_rest_of_its_time_where_it_failed() {
        let mut record = Record {
            start: Ns(1),
            connect_start: Some(Ns(1)),
            done: Ns(50),
            ..Record::default()
        };
        let stages = Stages::of(&record);
        assert_eq!(stages.get(Connect), Some(Ns(49)));
        assert_eq!((stages.get(Tls), stages.get(Wait)), (None, None));
        record.connect_done = Some(Ns(10));
        record.tls_done = Some(Ns(11));
        record.written = Some(Ns(20));
        let stages = Stages::of(&record);
        assert_eq!(stages.get(Wait), Some(Ns(30)));
        assert_eq!((stages.get(Receive), stages.total()), (None, Ns(50)));
    }
}
