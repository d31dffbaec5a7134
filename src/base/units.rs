//! Units as types.

use std::fmt;
use std::ops::Add;

/// A point in time or a span, in nanoseconds of `CLOCK_MONOTONIC`.
///
/// Units: ns. Range: 0 to `u64::MAX`. Points are as the kernel's clock reads, so that two
/// processes on one machine (client and mock) share them; exports turn them into wall time through
/// one [`crate::base::Anchor`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ns(pub u64);

impl Ns {
    /// Zero.
    pub const ZERO: Ns = Ns(0);
    /// The far end: never reached.
    pub const MAX: Ns = Ns(u64::MAX);

    /// A span of whole milliseconds.
    pub const fn from_ms(ms: u64) -> Ns {
        Ns(ms * 1_000_000)
    }

    /// A span of seconds; negative and not-a-number give zero.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates"
    )]
    pub fn from_secs_f64(secs: f64) -> Ns {
        Ns((secs * 1e9).round() as u64)
    }

    /// The span from `earlier` to `self`, or `None` when `earlier` is later.
    pub fn since(self, earlier: Ns) -> Option<Ns> {
        self.0.checked_sub(earlier.0).map(Ns)
    }

    /// The span from `earlier` to `self`, zero when `earlier` is later.
    pub fn saturating_since(self, earlier: Ns) -> Ns {
        Ns(self.0.saturating_sub(earlier.0))
    }

    /// As milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// As seconds.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for Ns {
    type Output = Ns;
    fn add(self, other: Ns) -> Ns {
        Ns(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_would_be_negative_is_absent() {
        assert_eq!(Ns(5).since(Ns(7)), None);
        assert_eq!(Ns(7).since(Ns(5)), Some(Ns(2)));
        assert_eq!(Ns(5).saturating_since(Ns(7)), Ns::ZERO);
    }

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(Ns::from_secs_f64(0.1), Ns(100_000_000));
        assert_eq!(Ns::from_secs_f64(-1.0), Ns::ZERO);
        assert_eq!(Ns::from_secs_f64(f64::NAN), Ns::ZERO);
    }
}
