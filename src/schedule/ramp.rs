//! Ramps: how a number of slots, or a rate, comes up over time.

use crate::base::{Ns, Rng, rng::Stream};

pub use crate::config::{Ramp, RampKind};

impl Ramp {
    /// When each of `count` slots opens, ascending, from the start: the first at once, the last
    /// when the ramp is over.
    #[expect(clippy::cast_precision_loss, reason = "slots are few")]
    pub fn openings(&self, count: u32, seed: u64) -> Vec<Ns> {
        let steps = count.saturating_sub(1).max(1);
        let over = self.over.0 as f64;
        let at = |part: f64| Ns::from_secs_f64(over * part / 1e9);
        let part = |step: u32| f64::from(step) / f64::from(steps);
        match self.kind {
            RampKind::Linear => (0..count).map(|step| at(part(step))).collect(),
            RampKind::Exponential => {
                let when = |step| at(part(step).sqrt());
                (0..count).map(when).collect()
            }
            RampKind::Poisson => {
                let gap = |step: u32| Rng::new(seed, Stream::Ramp, u64::from(step)).exponential();
                let whole: f64 = (1..count).map(gap).sum();
                let mut sum = 0.0;
                let next = |step: u32| {
                    sum += if step > 0 { gap(step) } else { 0.0 };
                    at((sum / whole.max(f64::MIN_POSITIVE)).min(1.0))
                };
                (0..count).map(next).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openings(kind: RampKind, count: u32, ms: u64) -> Vec<f64> {
        let over = Ns::from_ms(ms);
        let all = Ramp { kind, over }.openings(count, 42);
        all.iter().map(|at| at.as_ms()).collect()
    }

    #[test]
    fn each_step_of_a_linear_ramp_has_its_time() {
        let all = openings(RampKind::Linear, 100, 10_000);
        assert!((all[1] - 10_000.0 / 99.0).abs() < 1e-3);
        assert!((all[50] - 500_000.0 / 99.0).abs() < 1e-3);
        assert_eq!((all[0], all[99]), (0.0, 10_000.0));
        assert_eq!(openings(RampKind::Linear, 2, 1_000), [0.0, 1_000.0]);
        assert_eq!(openings(RampKind::Linear, 1, 1_000), [0.0]);
    }

    #[test]
    fn the_others_begin_and_end_with_the_ramp() {
        let all = openings(RampKind::Exponential, 100, 1_000);
        assert!(all[1] > 90.0 && all[99] - all[98] < 20.0);
        assert_eq!(all[99], 1_000.0);
        let all = openings(RampKind::Poisson, 100, 10_000);
        assert!((all[99] - 10_000.0).abs() < 1e-3 && all[0] == 0.0);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(all, openings(RampKind::Poisson, 100, 10_000));
    }
}
