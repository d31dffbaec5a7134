//! The slots of a closed loop on one core: free, or at rest after a connection that failed.

use crate::base::{Ns, limits};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A slot, and what its last request taught it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Slot {
    /// When it became free, or will.
    pub free: Ns,
    /// Connections in a row that failed.
    failures: u32,
}

/// A core's slots. A server that is gone refuses at once: without a rest, its slots would ask it
/// again tens of thousands of times a second.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: VecDeque<Slot>,
    at_rest: BinaryHeap<Reverse<Slot>>,
    /// All there are, those in use among them.
    count: usize,
    /// That many there shall be: the others go when they are free.
    wanted: usize,
}

impl Slots {
    /// Sets how many there shall be; those that are added open at their own times.
    pub fn set(&mut self, wanted: usize, opening: impl Fn(usize) -> Ns) {
        self.wanted = wanted;
        for number in self.count..wanted {
            self.at_rest.push(Reverse(Slot {
                free: opening(number),
                failures: 0,
            }));
        }
        self.count = self.count.max(wanted);
        while self.count > wanted && self.drop_one() {
            self.count -= 1;
        }
    }

    fn drop_one(&mut self) -> bool {
        self.at_rest.pop().is_some() || self.free.pop_back().is_some()
    }

    /// True when a slot is free at `at`.
    pub fn has_free(&mut self, at: Ns) -> bool {
        while let Some(Reverse(slot)) = self.at_rest.peek()
            && slot.free <= at
        {
            self.free.extend(self.at_rest.pop().map(|slot| slot.0));
        }
        !self.free.is_empty()
    }

    /// The slot that has been free for longest, of those that [`Slots::has_free`] found.
    pub fn take(&mut self) -> Option<Slot> {
        self.free.pop_front()
    }

    /// When the next rest ends.
    pub fn next_free(&self) -> Option<Ns> {
        self.at_rest.peek().map(|slot| slot.0.free)
    }

    /// Takes a slot back whose request ended at `at`; `has_server` is false when no server was met.
    pub fn give_back(&mut self, slot: Slot, at: Ns, has_server: bool) {
        if self.count > self.wanted {
            self.count -= 1;
            return;
        }
        if has_server {
            let failures = 0;
            self.free.push_back(Slot { free: at, failures });
            return;
        }
        let doubled = limits::SLOT_REST_MIN.0 << slot.failures.min(32);
        let rest = Ns(doubled.min(limits::SLOT_REST_MAX.0));
        self.at_rest.push(Reverse(Slot {
            free: at + rest,
            failures: slot.failures.saturating_add(1),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_without_a_server_rests_longer_each_time_until_one_answers() {
        let mut slots = Slots::default();
        slots.set(2, |_| Ns(5));
        let mut at = Ns(5);
        let mut rests = Vec::new();
        for _ in 0..9 {
            assert!(slots.has_free(at));
            let slot = slots.take().unwrap();
            assert_eq!(slot.free, at);
            slots.give_back(slot, at, false);
            // The other slot waits for nobody.
            assert!(slots.has_free(at));
            let other = slots.take().unwrap();
            assert!(!slots.has_free(at));
            let next = slots.next_free().unwrap();
            rests.push(next.saturating_since(at).as_ms());
            assert!(!slots.has_free(Ns(next.0 - 1)));
            slots.give_back(other, next, true);
            at = next;
            // Turns it to the front, behind the one that has just been given back.
            assert!(slots.has_free(at));
            let other = slots.take().unwrap();
            slots.give_back(other, at, true);
        }
        let expected = [10, 20, 40, 80, 160, 320, 640, 1000, 1000];
        assert_eq!(rests, expected.map(f64::from));
    }

    #[test]
    fn slots_open_at_their_times_and_go_when_they_are_free() {
        let mut slots = Slots::default();
        slots.set(3, |number| Ns(100 * number as u64));
        assert!(slots.has_free(Ns(0)));
        let first = slots.take().unwrap();
        assert!(!slots.has_free(Ns(99)));
        assert_eq!(slots.next_free(), Some(Ns(100)));
        assert!(slots.has_free(Ns(250)));
        let (second, third) = (slots.take().unwrap(), slots.take().unwrap());
        assert_eq!((second.free, third.free), (Ns(100), Ns(200)));
        // One shall be left: the next two that end are gone.
        slots.set(1, |_| Ns::ZERO);
        slots.give_back(first, Ns(300), true);
        slots.give_back(second, Ns(310), true);
        assert!(!slots.has_free(Ns(400)));
        slots.give_back(third, Ns(320), true);
        assert!(slots.has_free(Ns(400)));
        slots.set(2, |_| Ns(500));
        slots.take().unwrap();
        assert_eq!(
            (slots.has_free(Ns(400)), slots.next_free()),
            (false, Some(Ns(500)))
        );
    }

    #[test]
    fn an_answer_ends_the_row_of_failures() {
        let mut slots = Slots::default();
        slots.set(1, |_| Ns::ZERO);
        let mut at = Ns::ZERO;
        for has_server in [false, false, true, false] {
            at = slots.next_free().unwrap_or(at);
            assert!(slots.has_free(at));
            let slot = slots.take().unwrap();
            slots.give_back(slot, at, has_server);
        }
        assert_eq!(slots.next_free(), Some(Ns::from_ms(10 + 20 + 10)));
    }
}
