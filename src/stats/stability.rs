//! Windows of a run until the last three agree, as perf_analyzer measures: in throughput and in
//! mean latency, within a tolerance; ten windows at the most.
//!
//! Knows no clock: whoever feeds it says when.

use super::course::Window;
use super::distribution::float;
use crate::base::Ns;
use crate::base::limits::STABLE_WINDOWS_MAX;

/// Windows that must agree.
const AGREEING: usize = 3;

/// What the windows of a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Stability {
    /// Of a window.
    pub length: Ns,
    /// Largest over smallest, less one, that still agrees.
    pub tolerance: f64,
    /// Those that are over, the deciding one last.
    pub windows: Vec<Window>,
    /// The last three agree.
    pub is_stable: bool,
}

impl Stability {
    /// The run had all the windows that it may have, and no three in a row agree.
    pub fn is_used_up(&self) -> bool {
        !self.is_stable && self.windows.len() == STABLE_WINDOWS_MAX
    }
}

/// Follows a run and says when it need not go on.
#[derive(Clone, Debug)]
pub struct StabilityWatch {
    from: Ns,
    length: Ns,
    tolerance: f64,
    /// Requests that ended in each window, and their latencies together, ms.
    sums: [(u64, f64); STABLE_WINDOWS_MAX],
    /// Windows that are over.
    over: usize,
    is_stable: bool,
}

impl StabilityWatch {
    /// Windows of `length`, more than zero, from `from` on.
    pub fn new(from: Ns, length: Ns, tolerance: f64) -> StabilityWatch {
        StabilityWatch {
            from,
            length,
            tolerance,
            sums: [(0, 0.0); STABLE_WINDOWS_MAX],
            over: 0,
            is_stable: false,
        }
    }

    /// A valid request that ended at `end`. What ended in a window that is over comes too late.
    pub fn push(&mut self, end: Ns, latency: Ns) {
        let Some(past) = end.since(self.from) else {
            return;
        };
        let window = usize::try_from(past.0 / self.length.0).unwrap_or(usize::MAX);
        if window >= self.over
            && let Some(sum) = self.sums.get_mut(window)
        {
            *sum = (sum.0 + 1, sum.1 + latency.as_ms());
        }
    }

    /// Closes the windows that are over at `at`, one after the other, until three in a row agree;
    /// true when they do.
    pub fn settle(&mut self, at: Ns) -> bool {
        let past = at.saturating_since(self.from).0 / self.length.0;
        while !self.is_stable && self.over < STABLE_WINDOWS_MAX && (self.over as u64) < past {
            self.over += 1;
            self.is_stable = self.agree();
        }
        self.is_stable
    }

    fn agree(&self) -> bool {
        let Some(first) = self.over.checked_sub(AGREEING) else {
            return false;
        };
        let last = &self.sums[first..self.over];
        let is_within = |values: &dyn Fn(&(u64, f64)) -> f64| {
            let most = last.iter().map(values).fold(0.0, f64::max);
            let least = last.iter().map(values).fold(f64::INFINITY, f64::min);
            // Not a hair's breadth: 110 and 100 agree within 10 %.
            most <= least * (1.0 + self.tolerance) * (1.0 + 1e-9)
        };
        last.iter().all(|sum| sum.0 > 0)
            && is_within(&|sum| float(sum.0))
            && is_within(&|sum| sum.1 / float(sum.0))
    }

    /// What the windows came to.
    pub fn finish(self) -> Stability {
        let window = |&(ended, sum): &(u64, f64)| Window {
            ended,
            throughput_per_s: float(ended) / self.length.as_secs(),
            latency_ms: (ended > 0).then(|| sum / float(ended)),
        };
        Stability {
            length: self.length,
            tolerance: self.tolerance,
            windows: self.sums[..self.over].iter().map(window).collect(),
            is_stable: self.is_stable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of windows of one second with so many requests and so long a latency in each, in ms,
    /// settled as they end: how many windows it had, and whether it is stable.
    fn run(windows: &[(u64, u64)]) -> (usize, bool) {
        let from = Ns::from_ms(7);
        let mut watch = StabilityWatch::new(from, Ns::from_ms(1_000), 0.1);
        for (index, &(count, latency)) in (0u64..).zip(windows) {
            for request in 0..count {
                let end = from + Ns(1_000_000_000 * index + 1_000_000 * (request % 1_000));
                watch.push(end, Ns::from_ms(latency));
            }
            if watch.settle(from + Ns::from_ms(1_000 * (index + 1))) {
                break;
            }
        }
        let found = watch.finish();
        (found.windows.len(), found.is_stable)
    }

    #[test]
    fn three_windows_in_a_row_agree_in_throughput_and_latency() {
        let same = |counts: &[u64]| run(&counts.iter().map(|&n| (n, 50)).collect::<Vec<_>>());
        assert_eq!(same(&[1, 1_000, 500]), (3, false));
        assert_eq!(same(&[500, 520, 510]), (3, true));
        assert_eq!(same(&[100, 110, 105]), (3, true));
        assert_eq!(same(&[100, 111, 105]), (3, false));
        assert_eq!(same(&[1, 1_000, 510, 505, 515, 1]), (5, true));
        assert_eq!(same(&[500, 520]), (2, false));
        assert_eq!(same(&[0, 0, 0, 0]), (4, false));
        let slow = |latencies: [u64; 3]| run(&latencies.map(|ms| (10, ms)));
        assert_eq!(slow([100, 106, 112]), (3, false));
        assert_eq!(slow([100, 104, 108]), (3, true));
    }

    #[test]
    fn ten_windows_that_do_not_agree_are_the_end_of_it() {
        let wild: Vec<(u64, u64)> = (0..14).map(|n| (10 + 10 * (n % 2), 50)).collect();
        let mut watch = StabilityWatch::new(Ns::ZERO, Ns(100), 0.1);
        for (index, (count, latency)) in (0u64..).zip(wild) {
            (0..count).for_each(|_| watch.push(Ns(100 * index), Ns(latency)));
        }
        assert!(!watch.settle(Ns(100_000)));
        let found = watch.finish();
        assert_eq!((found.windows.len(), found.is_stable), (10, false));
        assert!(found.is_used_up());
    }

    #[test]
    fn a_window_counts_what_ends_in_it_before_it_is_over() {
        let mut watch = StabilityWatch::new(Ns(1_000), Ns(100), 0.5);
        for end in [999, 1_000, 1_099, 1_100, u64::MAX] {
            watch.push(Ns(end), Ns(2_000_000));
        }
        watch.settle(Ns(1_199));
        watch.push(Ns(1_050), Ns(0));
        watch.settle(Ns(1_250));
        let found = watch.finish();
        let counts: Vec<u64> = found.windows.iter().map(|window| window.ended).collect();
        assert_eq!(counts, [2, 1]);
        assert_eq!(found.windows[0].latency_ms, Some(2.0));
        assert!(!found.is_used_up());
    }
}
