//! A ladder of closed loops, each twice the one before, until a server is surely full.

use crate::stats::plateau::{Plateau, Rung, is_saturated};

/// Makes the rungs of a ladder.
pub trait Climber {
    /// Why no more rungs are made, such as a signal.
    type Stop;

    /// One closed loop with so many requests in flight; `None` when it failed as a whole. `visit`
    /// counts the earlier ones of this load. `Err` ends the ladder; what there is is kept.
    fn rung(&mut self, concurrency: u32, visit: u32) -> Result<Option<Rung>, Self::Stop>;
}

/// Climbs from `lo` to `hi` at most, a rung that contradicts Little's law is made twice.
///
/// Range: `lo` at least 1. Cost: two runs for each doubling of the range, at most. Second: what
/// stopped it.
pub fn capacity<C: Climber>(lo: u32, hi: u32, climber: &mut C) -> (Plateau, Option<C::Stop>) {
    let mut rungs: Vec<Rung> = Vec::new();
    let mut load = lo.max(1);
    let stop = loop {
        match rung(load, climber) {
            Ok(Some(rung)) => rungs.push(rung),
            // Too much for it: what it did before stands.
            Ok(None) => break None,
            Err(stop) => break Some(stop),
        }
        if is_saturated(&rungs) || load >= hi {
            break None;
        }
        load = load.saturating_mul(2).min(hi);
    };
    (Plateau::of(rungs), stop)
}

fn rung<C: Climber>(load: u32, climber: &mut C) -> Result<Option<Rung>, C::Stop> {
    let first = climber.rung(load, 0)?;
    match first {
        Some(rung) if rung.is_consistent() => Ok(Some(rung)),
        first => Ok(climber.rung(load, 1)?.or(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Rng;
    use crate::base::rng::Stream;

    /// A server that does `most` requests a second, and one by itself in `alone_s`.
    struct Server {
        most: f64,
        alone_s: f64,
        noise: f64,
        rng: Rng,
        rungs: u32,
        fails_from: u32,
    }

    impl Climber for Server {
        type Stop = ();

        fn rung(&mut self, concurrency: u32, visit: u32) -> Result<Option<Rung>, ()> {
            self.rungs += 1;
            if concurrency >= self.fails_from {
                return Ok(None);
            }
            let load = f64::from(concurrency);
            let mean = self.most * load / (load + self.most * self.alone_s);
            let batch = |_| mean * (1.0 + self.noise * self.rng.normal());
            let batches: Vec<f64> = (0..8).map(batch).collect();
            // The first visit of 4 is spoilt.
            let spoilt = if concurrency == 4 && visit == 0 {
                0.5
            } else {
                1.0
            };
            Ok(Some(Rung {
                concurrency,
                batches,
                latency_s: spoilt * load / mean,
                requests: 100,
            }))
        }
    }

    #[test]
    fn the_capacity_of_a_noisy_server_is_found_without_bias() {
        let (mut sum, mut rungs) = (0.0, 0);
        for seed in 0..100 {
            let mut server = Server {
                most: 200.0,
                alone_s: 0.1,
                noise: 0.04,
                rng: Rng::new(seed, Stream::Test, 3),
                rungs: 0,
                fails_from: u32::MAX,
            };
            let (found, _) = capacity(1, 4_096, &mut server);
            assert!(found.is_saturated, "{seed}");
            let ratio = found.estimated_capacity.unwrap() / 200.0;
            assert!((0.85..1.06).contains(&ratio), "{seed}: {ratio}");
            sum += ratio;
            rungs += server.rungs;
        }
        // Still growing a little where the ladder ends: never above, a few percent below.
        let mean = sum / 100.0;
        assert!((0.92..1.0).contains(&mean), "{mean}");
        assert!(rungs < 1_300, "{rungs}");
    }

    #[test]
    fn a_ladder_that_ends_early_says_so() {
        let mut server = Server {
            most: 1e6,
            alone_s: 0.1,
            noise: 0.0,
            rng: Rng::new(1, Stream::Test, 3),
            rungs: 0,
            fails_from: 64,
        };
        let (found, _) = capacity(1, 24, &mut server);
        let loads: Vec<u32> = found.rungs.iter().map(|rung| rung.concurrency).collect();
        assert_eq!(
            (loads, found.is_saturated),
            (vec![1, 2, 4, 8, 16, 24], false)
        );
        let (found, _) = capacity(1, 1_000, &mut server);
        assert_eq!(found.rungs.len(), 6);
    }
}
