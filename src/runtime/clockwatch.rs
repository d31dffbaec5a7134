//! The bridge from kernel receive times (realtime clock) to the monotonic clock, kept fresh.

use crate::base::{Anchor, Ns, now};

/// How often the two clocks are compared: NTP slews by at most 500 ppm, 50 us in this time.
const RESAMPLE: Ns = Ns(100_000_000);
/// A change of the offset above this is a step, not slewing.
const STEP_NS: i128 = 1_000_000;

/// Keeps an [`Anchor`] fresh and notices steps of the realtime clock.
#[derive(Clone, Debug)]
pub struct ClockWatch {
    anchor: Anchor,
    taken: Ns,
    steps_count: u32,
}

impl Default for ClockWatch {
    fn default() -> Self {
        Self::new()
    }
}

impl ClockWatch {
    /// Compares the clocks for the first time.
    pub fn new() -> ClockWatch {
        ClockWatch {
            anchor: Anchor::take(),
            taken: now(),
            steps_count: 0,
        }
    }

    /// Compares again when the last time is long enough ago. Cost: 1 ns, 0.5 us when it compares.
    pub fn refresh(&mut self, at: Ns) {
        if at.saturating_since(self.taken) < RESAMPLE {
            return;
        }
        self.replace(Anchor::take(), at);
    }

    fn replace(&mut self, fresh: Anchor, at: Ns) {
        let moved = i128::from(fresh.wall(at)) - i128::from(self.anchor.wall(at));
        if moved.abs() > STEP_NS {
            self.steps_count += 1;
        }
        self.anchor = fresh;
        self.taken = at;
    }

    /// The monotonic time of a kernel stamp, never later than `seen`, when the bytes were read.
    pub fn mono(&self, wall_ns: u64, seen: Ns) -> Ns {
        self.anchor.mono(wall_ns).min(seen)
    }

    /// Steps of the realtime clock seen so far.
    pub fn steps_count(&self) -> u32 {
        self.steps_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_is_counted_and_slewing_is_not() {
        let mut watch = ClockWatch::new();
        let at = now();
        let wall = watch.anchor.wall(at);
        watch.replace(Anchor::at(at, wall + 50_000), at);
        assert_eq!(watch.steps_count(), 0);
        watch.replace(Anchor::at(at, wall + 50_000_000), at);
        assert_eq!(watch.steps_count(), 1);
    }
}
