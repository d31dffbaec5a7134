//! The end of a run in which too many requests fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Counts what has ended, and knows when too much of it has failed. Shared by all cores.
#[derive(Debug)]
pub struct FailureLimit {
    share_max: f64,
    least: u64,
    ended: AtomicU64,
    failed: AtomicU64,
    crossed: AtomicBool,
}

impl FailureLimit {
    /// Crossed when of at least `least` requests a greater share than `share_max` has failed.
    pub fn new(share_max: f64, least: u64) -> FailureLimit {
        FailureLimit {
            share_max,
            least,
            ended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            crossed: AtomicBool::new(false),
        }
    }

    /// A measured request has ended; true from the one on that crosses the limit.
    #[expect(clippy::cast_precision_loss, reason = "counts")]
    pub(super) fn ended(&self, failed: bool) -> bool {
        // What has failed was counted as ended before, and is read before: cores that race make the
        // share too small for a moment, never too great.
        self.ended.fetch_add(1, SeqCst);
        let failed = self.failed.fetch_add(u64::from(failed), SeqCst) + u64::from(failed);
        let ended = self.ended.load(SeqCst);
        if ended >= self.least && failed as f64 > self.share_max * ended as f64 {
            self.crossed.store(true, SeqCst);
        }
        self.is_crossed()
    }

    /// Too many have failed.
    pub fn is_crossed(&self) -> bool {
        self.crossed.load(SeqCst)
    }

    /// The greatest share that may fail, 0..1.
    pub fn share_max(&self) -> f64 {
        self.share_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greater_share_than_the_limit_crosses_it_once_there_are_enough() {
        let limit = FailureLimit::new(0.5, 4);
        for (failed, crosses) in [
            (true, false),
            (true, false),
            (true, false),
            (false, true),
            (false, true),
        ] {
            assert_eq!(limit.ended(failed), crosses);
        }
        let half = FailureLimit::new(0.5, 2);
        assert!(
            ![true, false, false, true]
                .map(|f| half.ended(f))
                .contains(&true)
        );
        let all = FailureLimit::new(1.0, 1);
        assert!(!all.ended(true));
        let none = FailureLimit::new(0.0, 1);
        assert!(!none.ended(false) && none.ended(true));
    }
}
