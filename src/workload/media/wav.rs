//! Recordings: noise as WAV, 44 bytes of head and its samples as PCM.

use crate::base::{Ns, Rng, rng::Stream};
use crate::config::{AudioSpec, MEDIA_BYTES_MAX};

/// Shortest recording in seconds, where the mean is no less: AIPerf's.
const SECONDS_MIN: f64 = 0.1;
/// Draws below that before the mean is taken.
const TRIES_MAX: u32 = 10_000;

/// Recording `number`, and its length. Depth, rate and length are drawn.
pub(super) fn make(spec: &AudioSpec, seed: u64, number: u64) -> (Vec<u8>, Ns) {
    let mut rng = Rng::new(seed, Stream::Audio, number);
    let depth = one_of(&spec.depths, &mut rng).unwrap_or(16);
    let rate_hz = one_of(&spec.rates_hz, &mut rng).unwrap_or(16_000);
    let frame = u64::from(depth / 8) * u64::from(spec.channels);
    let frames_max = MEDIA_BYTES_MAX / frame;
    let seconds = length(spec, &mut rng);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds are not negative, and it saturates"
    )]
    let frames = ((seconds * f64::from(rate_hz)).round() as u64).clamp(1, frames_max);
    let mut out = head(spec.channels, rate_hz, depth, frames * frame);
    noise(
        &mut rng,
        usize::try_from(frames * frame).unwrap_or(0),
        &mut out,
    );
    (out, Ns(frames * 1_000_000_000 / u64::from(rate_hz)))
}

fn one_of<T: Copy>(all: &[T], rng: &mut Rng) -> Option<T> {
    match all {
        [] => None,
        [one] => Some(*one),
        all => all
            .get(usize::try_from(rng.below(all.len() as u64)).unwrap_or(0))
            .copied(),
    }
}

fn length(spec: &AudioSpec, rng: &mut Rng) -> f64 {
    let (mean, stddev) = (spec.seconds.mean, spec.seconds.stddev);
    if stddev <= 0.0 {
        return mean;
    }
    let least = SECONDS_MIN.min(mean);
    let mut draws = (0..TRIES_MAX).map(|_| mean + stddev * rng.normal());
    draws.find(|&seconds| seconds >= least).unwrap_or(mean)
}

/// RIFF, `fmt ` and the head of `data`. All numbers fit: a recording has 48 MiB at most.
fn head(channels: u16, rate_hz: u32, depth: u16, data_bytes: u64) -> Vec<u8> {
    let data_bytes = u32::try_from(data_bytes).unwrap_or(u32::MAX);
    let frame = channels * (depth / 8);
    let mut out = Vec::with_capacity(44 + data_bytes as usize);
    out.extend_from_slice(b"RIFF");
    out.extend_from_slice(&data_bytes.saturating_add(36).to_le_bytes());
    out.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0");
    out.extend_from_slice(&channels.to_le_bytes());
    out.extend_from_slice(&rate_hz.to_le_bytes());
    out.extend_from_slice(&rate_hz.saturating_mul(frame.into()).to_le_bytes());
    out.extend_from_slice(&frame.to_le_bytes());
    out.extend_from_slice(&depth.to_le_bytes());
    out.extend_from_slice(b"data");
    out.extend_from_slice(&data_bytes.to_le_bytes());
    out
}

/// Appends `count` random bytes: samples of any depth.
pub(super) fn noise(rng: &mut Rng, count: usize, out: &mut Vec<u8>) {
    let end = out.len() + count;
    out.reserve(count + 8);
    while out.len() < end {
        out.extend_from_slice(&rng.bits().to_le_bytes());
    }
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Lengths;

    fn spec(mean: f64, stddev: f64) -> AudioSpec {
        AudioSpec {
            count: 1,
            seconds: Lengths { mean, stddev },
            depths: vec![8, 16, 24, 32],
            rates_hz: vec![8_000, 44_100],
            channels: 2,
        }
    }

    /// Channels, rate, depth and bytes of samples of a file that says nothing wrong.
    fn read(bytes: &[u8]) -> (u16, u32, u16, usize) {
        let two = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        let four = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(
            (&bytes[..4], &bytes[8..16]),
            (&b"RIFF"[..], &b"WAVEfmt "[..])
        );
        assert_eq!((four(16), two(20), &bytes[36..40]), (16, 1, &b"data"[..]));
        assert_eq!(four(4) as usize, bytes.len() - 8);
        assert_eq!(four(40) as usize, bytes.len() - 44);
        let (channels, rate, depth) = (two(22), four(24), two(34));
        assert_eq!(two(32), channels * depth / 8);
        assert_eq!(four(28), rate * u32::from(two(32)));
        (channels, rate, depth, bytes.len() - 44)
    }

    #[test]
    fn a_recording_is_a_wav_file_of_its_length() {
        let mut kinds = std::collections::HashSet::new();
        for number in 0..60 {
            let (bytes, length) = make(&spec(0.25, 0.0), 1, number);
            let (channels, rate, depth, size) = read(&bytes);
            assert_eq!((channels, length), (2, Ns::from_ms(250)));
            assert_eq!(size, rate as usize / 4 * usize::from(depth) / 8 * 2);
            kinds.insert((rate, depth));
        }
        assert_eq!(kinds.len(), 8);
    }

    #[test]
    fn lengths_follow_their_law_and_are_never_too_short() {
        let mut rng = Rng::new(3, Stream::Test, 0);
        let all: Vec<f64> = (0..20_000)
            .map(|_| length(&spec(5.0, 1.0), &mut rng))
            .collect();
        let mean = all.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 5.0).abs() < 0.05, "{mean}");
        assert!((0..2_000).all(|_| length(&spec(0.2, 1.0), &mut rng) >= SECONDS_MIN));
        assert!((0..2_000).all(|_| length(&spec(0.05, 1.0), &mut rng) >= 0.05));
    }
}
