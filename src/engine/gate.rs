//! A cap on what is held at a time, over all cores: how many there may be, and since when the place
//! that a request gets was free.

use crate::base::Ns;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A place that has been free from the start.
const FROM_START: u64 = 1;

/// How many places, and when each opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatePlan {
    /// The most at a time, at least 1.
    pub most: u32,
    /// When each opens, from the phase's start, ascending; empty where all do at once.
    pub openings: Vec<Ns>,
}

impl GatePlan {
    /// So many from the start.
    pub fn flat(most: u32) -> GatePlan {
        GatePlan {
            most,
            openings: Vec::new(),
        }
    }

    /// When place `number` opens, from the phase's start.
    pub fn opening(&self, number: usize) -> Ns {
        self.openings.get(number).copied().unwrap_or(Ns::ZERO)
    }

    fn open_at_start(&self) -> u32 {
        match self.openings.is_empty() {
            true => self.most,
            false => {
                let at_once = self.openings.iter().take_while(|at| **at == Ns::ZERO);
                u32::try_from(at_once.count()).unwrap_or(self.most)
            }
        }
    }
}

/// Places are had in order: request `k` gets the `k`th that becomes free, by opening or by an end.
/// No more than `most` can be free and not yet had, which is all that must be known.
#[derive(Debug)]
pub(super) struct Gate {
    plan: GatePlan,
    start: AtomicU64,
    opened: AtomicU32,
    /// Places that an earlier phase held when this one began: they are the first ones.
    before: AtomicU64,
    /// When each place became free, by its number modulo the most; 0 once it is had.
    freed: Box<[AtomicU64]>,
    posted: AtomicU64,
    /// The latest of these times.
    last: AtomicU64,
}

impl Gate {
    pub fn new(plan: GatePlan) -> Gate {
        Gate {
            freed: (0..plan.most).map(|_| AtomicU64::new(0)).collect(),
            plan,
            start: AtomicU64::new(0),
            opened: AtomicU32::new(0),
            before: AtomicU64::new(0),
            posted: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }

    /// The phase begins, with so many held from before.
    pub fn begin(&self, start: Ns, held: u32) {
        let open = self.plan.open_at_start();
        for place in self.freed.iter().take(open as usize) {
            place.store(FROM_START, Ordering::Release);
        }
        self.before.store(u64::from(held), Ordering::Release);
        self.posted.store(u64::from(open), Ordering::Release);
        self.start.store(start.0, Ordering::Release);
        self.opened.store(open, Ordering::Release);
    }

    /// How many there may be at `at`.
    pub fn limit(&self, at: Ns) -> u32 {
        loop {
            let open = self.opened.load(Ordering::Acquire);
            let Some(&opening) = self.plan.openings.get(open as usize) else {
                return open;
            };
            let opening = Ns(self.start.load(Ordering::Acquire)) + opening;
            if at < opening {
                return open;
            }
            let won =
                self.opened
                    .compare_exchange(open, open + 1, Ordering::AcqRel, Ordering::Acquire);
            if won.is_ok() {
                self.post(opening);
            }
        }
    }

    /// Since when the place of the phase's request `number` (of those sent, from 0) is free; absent
    /// when it has been so from the start.
    pub fn free_since(&self, number: u64) -> Option<Ns> {
        match self
            .place(number + self.before.load(Ordering::Acquire))
            .load(Ordering::Acquire)
        {
            FROM_START => None,
            // Another core has counted this one and not yet noted its time.
            0 => Some(Ns(self.last.load(Ordering::Acquire))),
            at => Some(Ns(at)),
        }
    }

    /// Request `number` has its place.
    pub fn taken(&self, number: u64) {
        let place = self.place(number + self.before.load(Ordering::Acquire));
        place.store(0, Ordering::Release);
    }

    /// One that was held is free since `at`.
    pub fn freed(&self, at: Ns) {
        self.post(at);
    }

    fn post(&self, at: Ns) {
        self.last.fetch_max(at.0, Ordering::AcqRel);
        let number = self.posted.fetch_add(1, Ordering::AcqRel);
        self.place(number)
            .store(at.0.max(FROM_START + 1), Ordering::Release);
    }

    fn place(&self, number: u64) -> &AtomicU64 {
        let index = number % u64::from(self.plan.most);
        // Below the length, which is a `u32`.
        &self.freed[usize::try_from(index).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(plan: GatePlan, held: u32) -> Gate {
        let gate = Gate::new(plan);
        gate.begin(Ns(2), held);
        gate
    }

    #[test]
    fn each_request_has_the_place_of_its_own_turn_not_the_last_one_freed() {
        let gate = gate(GatePlan::flat(2), 0);
        assert_eq!((gate.free_since(0), gate.free_since(1)), (None, None));
        gate.taken(0);
        gate.taken(1);
        gate.freed(Ns(10));
        gate.freed(Ns(30));
        assert_eq!(gate.free_since(2), Some(Ns(10)));
        gate.taken(2);
        assert_eq!(gate.free_since(3), Some(Ns(30)));
        gate.taken(3);
        gate.freed(Ns(40));
        assert_eq!(gate.free_since(4), Some(Ns(40)));
    }

    #[test]
    fn an_end_that_is_counted_and_not_yet_noted_is_at_most_the_last_one() {
        let gate = gate(GatePlan::flat(1), 0);
        gate.taken(0);
        gate.freed(Ns(5));
        gate.taken(1);
        assert_eq!(gate.free_since(2), Some(Ns(5)));
    }

    #[test]
    fn a_place_of_a_ramp_is_free_since_it_opened_or_one_before_it_ended() {
        let openings = vec![Ns(0), Ns(100), Ns(200)];
        let gate = gate(GatePlan { most: 3, openings }, 0);
        assert_eq!((gate.limit(Ns(2)), gate.free_since(0)), (1, None));
        gate.taken(0);
        gate.freed(Ns(50));
        assert_eq!((gate.limit(Ns(60)), gate.free_since(1)), (1, Some(Ns(50))));
        gate.taken(1);
        // However late somebody looks.
        assert_eq!(
            (gate.limit(Ns(500)), gate.free_since(2)),
            (3, Some(Ns(102)))
        );
        gate.taken(2);
        assert_eq!(gate.free_since(3), Some(Ns(202)));
    }

    #[test]
    fn what_an_earlier_phase_holds_stands_before_its_own() {
        let gate = gate(GatePlan::flat(2), 3);
        gate.freed(Ns(10));
        gate.freed(Ns(20));
        // Three were held of two: the second end leaves one place.
        assert_eq!(gate.free_since(0), Some(Ns(20)));
    }
}
