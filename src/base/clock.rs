//! One monotonic clock, and the one anchor that turns its points into wall time.

use super::Ns;
use rustix::time::{ClockId, Timespec, clock_gettime};

fn as_ns(t: Timespec) -> u64 {
    u64::try_from(t.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// Now, on `CLOCK_MONOTONIC`. Cost: about 30 ns.
pub fn now() -> Ns {
    Ns(as_ns(clock_gettime(ClockId::Monotonic)))
}

/// Now, on `CLOCK_REALTIME`, in ns since 1970: only for anchors and kernel receive times.
pub fn wall_ns() -> u64 {
    as_ns(clock_gettime(ClockId::Realtime))
}

/// A pair of readings of both clocks at one moment: the bridge between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    mono: Ns,
    wall_ns: u64,
}

impl Anchor {
    /// Reads both clocks, a few times over, and keeps the tightest pair. Cost: about 0.5 us.
    pub fn take() -> Anchor {
        let mut best = (
            u64::MAX,
            Anchor {
                mono: Ns::ZERO,
                wall_ns: 0,
            },
        );
        for _ in 0..5 {
            let before = now();
            let wall_ns = wall_ns();
            let after = now();
            let width = after.0 - before.0;
            if width < best.0 {
                best = (
                    width,
                    Anchor {
                        mono: Ns(before.0 + width / 2),
                        wall_ns,
                    },
                );
            }
        }
        best.1
    }

    /// An anchor with given readings, for tests and for replayed records.
    pub fn at(mono: Ns, wall_ns: u64) -> Anchor {
        Anchor { mono, wall_ns }
    }

    /// Wall time of a monotonic point, in ns since 1970; saturates at both ends.
    pub fn wall(&self, at: Ns) -> u64 {
        if at >= self.mono {
            self.wall_ns.saturating_add(at.0 - self.mono.0)
        } else {
            self.wall_ns.saturating_sub(self.mono.0 - at.0)
        }
    }

    /// Monotonic point of a wall time in ns since 1970; saturates at both ends.
    pub fn mono(&self, wall_ns: u64) -> Ns {
        if wall_ns >= self.wall_ns {
            Ns(self.mono.0.saturating_add(wall_ns - self.wall_ns))
        } else {
            Ns(self.mono.0.saturating_sub(self.wall_ns - wall_ns))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_and_monotonic_are_inverse() {
        let anchor = Anchor::at(Ns(1_000), 50_000);
        assert_eq!(anchor.wall(Ns(1_250)), 50_250);
        assert_eq!(anchor.wall(Ns(900)), 49_900);
        assert_eq!(anchor.mono(anchor.wall(Ns(1_777))), Ns(1_777));
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let first = now();
        assert!(now() >= first);
    }
}
