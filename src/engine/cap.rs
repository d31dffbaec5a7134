//! The cap on requests in flight of an open loop: since when a slot was free.

use crate::base::Ns;
use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of a capped open loop get their slots in order: number `k` gets the one that the
/// `k - cap`th end freed. The last `cap` ends are therefore all that must be known.
#[derive(Debug)]
pub(super) struct Cap {
    /// When each end of the last round was, by its number modulo the cap; 0 once it is used.
    freed: Box<[AtomicU64]>,
    ended: AtomicU64,
    /// The latest of them.
    last: AtomicU64,
}

impl Cap {
    pub fn new(most: u32) -> Cap {
        Cap {
            freed: (0..most).map(|_| AtomicU64::new(0)).collect(),
            ended: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }

    /// The most requests in flight.
    pub fn most(&self) -> u32 {
        u32::try_from(self.freed.len()).unwrap_or(u32::MAX)
    }

    /// When the slot of request `number` (of those sent, from 0) became free; absent when it has
    /// been so from the start.
    pub fn free_since(&self, number: u64) -> Option<Ns> {
        if number < u64::from(self.most()) {
            return None;
        }
        let at = match self.place(number).load(Ordering::Acquire) {
            // Another core has counted this end and not yet noted its time.
            0 => self.last.load(Ordering::Acquire),
            at => at,
        };
        Some(Ns(at))
    }

    /// Request `number` has its slot.
    pub fn taken(&self, number: u64) {
        self.place(number).store(0, Ordering::Release);
    }

    /// A request has ended at `at`.
    pub fn ended(&self, at: Ns) {
        self.last.fetch_max(at.0, Ordering::AcqRel);
        let number = self.ended.fetch_add(1, Ordering::AcqRel);
        self.place(number).store(at.0.max(1), Ordering::Release);
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        let index = number % u64::from(self.most());
        // Below the length, which is a `u32`.
        &self.freed[usize::try_from(index).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_the_slot_of_its_own_turn_not_the_last_one_freed() {
        let cap = Cap::new(2);
        assert_eq!((cap.free_since(0), cap.free_since(1)), (None, None));
        cap.taken(0);
        cap.taken(1);
        cap.ended(Ns(10));
        cap.ended(Ns(30));
        assert_eq!(cap.free_since(2), Some(Ns(10)));
        cap.taken(2);
        assert_eq!(cap.free_since(3), Some(Ns(30)));
        cap.taken(3);
        cap.ended(Ns(40));
        assert_eq!(cap.free_since(4), Some(Ns(40)));
    }

    #[test]
    fn an_end_that_is_counted_and_not_yet_noted_is_at_most_the_last_one() {
        let cap = Cap::new(1);
        cap.taken(0);
        cap.ended(Ns(5));
        cap.taken(1);
        cap.last.store(9, Ordering::Release);
        assert_eq!(cap.free_since(2), Some(Ns(9)));
    }
}
