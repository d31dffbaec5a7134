//! Token lengths of each request.

use crate::base::{Rng, rng::Stream};
use crate::config::Lengths;

/// Draws that may be negative before the mean is taken.
const TRIES_MAX: u32 = 10_000;

/// The length of request `index`: at least 1.
///
/// Source: AIPerf. Without a deviation the rounded mean; else a normal value that is not negative,
/// rounded up.
pub fn draw(lengths: Lengths, seed: u64, stream: Stream, index: u64) -> u32 {
    if lengths.stddev <= 0.0 {
        return whole(lengths.mean.round());
    }
    let mut rng = Rng::new(seed, stream, index);
    for _ in 0..TRIES_MAX {
        let value = lengths.mean + lengths.stddev * rng.normal();
        if value >= 0.0 {
            return whole(value.ceil());
        }
    }
    whole(lengths.mean.round())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped before"
)]
fn whole(value: f64) -> u32 {
    value.clamp(1.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_follow_their_law_and_are_never_zero() {
        let of =
            |mean, stddev, index| draw(Lengths { mean, stddev }, 7, Stream::InputLength, index);
        assert_eq!(of(550.4, 0.0, 3), 550);
        assert_eq!(of(0.2, 0.0, 3), 1);
        let n = 20_000;
        let all: Vec<f64> = (0..n)
            .map(|index| f64::from(of(550.0, 50.0, index)))
            .collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean - 550.5).abs() < 1.5, "{mean}");
        assert!((0..2_000).all(|index| of(2.0, 10.0, index) >= 1));
    }
}
