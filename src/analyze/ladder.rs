//! Which load comes next: up until the client or the server is full, then closer.

/// Steps of a search at most.
const STEPS_MAX: usize = 11;
/// Below this a search ends: something else is wrong.
const LOAD_MIN: u32 = 16;

/// A search for the largest load that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// Where the search begins.
    pub first: u32,
    /// How fast it climbs.
    pub factor: u32,
    /// Where it ends.
    pub last: u32,
    /// Steps at most.
    pub steps_max: usize,
}

impl Ladder {
    /// From `first` up to 64 times as much and beyond; `quick` climbs faster and looks less close.
    pub fn new(first: u32, quick: bool) -> Ladder {
        Ladder {
            first,
            factor: if quick { 4 } else { 2 },
            last: first.saturating_mul(64),
            steps_max: if quick { STEPS_MAX / 2 } else { STEPS_MAX },
        }
    }

    /// The next load, given those so far and whether each held; `None` when it is found. One that
    /// failed is tried again: a neighbour may have spoilt it.
    pub fn next(&self, done: &[(u32, bool)]) -> Option<u32> {
        if done.len() >= self.steps_max {
            return None;
        }
        let loads = |held: bool| done.iter().filter(move |d| d.1 == held).map(|d| d.0);
        let best = loads(true).max();
        let above = loads(false).filter(|&load| Some(load) > best).min();
        let next = match (best, above) {
            (None, None) => self.first,
            (Some(best), None) => best.saturating_mul(self.factor),
            (_, Some(above)) if loads(false).filter(|&load| load == above).count() == 1 => above,
            (best, Some(above)) => {
                let best = best.unwrap_or(0);
                // Closer than an eighth is within what two runs of one load differ by.
                let is_close = above - best <= best / 8;
                return Some((best + above) / 2).filter(|&load| !is_close && load >= LOAD_MIN);
            }
        };
        (next <= self.last).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All steps of a search on a client that holds up to `limit`.
    fn climb(ladder: Ladder, limit: u32) -> Vec<(u32, bool)> {
        let mut done = Vec::new();
        while let Some(load) = ladder.next(&done) {
            done.push((load, load <= limit));
        }
        done
    }

    fn best(done: &[(u32, bool)]) -> u32 {
        done.iter().filter(|d| d.1).map(|d| d.0).max().unwrap_or(0)
    }

    #[test]
    fn a_search_ends_near_the_limit_below_it() {
        for limit in [20, 150, 300, 1_000, 3_500, 9_000, 1_000_000] {
            let done = climb(Ladder::new(256, false), limit);
            assert!(done.len() <= STEPS_MAX, "{done:?}");
            let found = best(&done);
            let reachable = limit.min(256 * 64);
            assert!(
                found <= limit && found * 5 >= reachable * 3,
                "{limit}: {done:?}"
            );
        }
        assert_eq!(best(&climb(Ladder::new(256, true), 5_000)), 4_096);
        assert_eq!(climb(Ladder::new(256, false), 0).len(), 10);
    }

    #[test]
    fn a_load_that_failed_once_is_tried_again() {
        let ladder = Ladder::new(100, false);
        assert_eq!(ladder.next(&[(100, false)]), Some(100));
        assert_eq!(ladder.next(&[(100, false), (100, true)]), Some(200));
        let twice = [(100, true), (200, false), (200, false)];
        assert_eq!(ladder.next(&twice), Some(150));
    }
}
