//! A counter-based generator: every draw is a pure function of (seed, stream, index, draw number),
//! so that a run is the same on one core and on sixty-four.
//!
//! SplitMix64 (Steele, Lea, Flood 2014) over a mixed key. Not for secrets.

/// Names a purpose, so that two purposes never share draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Input lengths.
    InputLength = 1,
    /// Output lengths.
    OutputLength,
    /// Text of prompts.
    Prompt,
    /// Gaps between arrivals.
    Arrival,
    /// Faults and delays of the mock.
    Mock,
    /// Request ids.
    RequestId,
    /// Anything in a test.
    Test,
    /// Steps of a ramp.
    Ramp,
    /// Turns of a session, and its id.
    Session,
    /// Times to think between turns.
    Think,
    /// Requests that are cancelled on purpose.
    Cancellation,
    /// Blocks of requests that are drawn again, for intervals.
    Bootstrap,
    /// Pixels and format of an image.
    Image,
    /// Its width.
    ImageWidth,
    /// Its height.
    ImageHeight,
    /// Which of a folder's images.
    ImageSource,
    /// Recordings.
    Audio,
    /// Passages of a ranking.
    Passages,
    /// Length of its query.
    QueryLength,
}

/// The generator for one (seed, stream, index).
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The generator for request (or event) `index` of `stream` under `seed`.
    pub fn new(seed: u64, stream: Stream, index: u64) -> Rng {
        let key = mix(seed ^ mix((stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        Rng {
            state: mix(key ^ mix(index.wrapping_add(0x9e37_79b9_7f4a_7c15))),
        }
    }

    /// 64 uniform bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Uniform in `[0, 1)`, 53 bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..n`, without bias (Lemire 2019). Panics when `n` is 0.
    #[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0) has no value");
        let mut wide = u128::from(self.bits()) * u128::from(n);
        if (wide as u64) < n {
            let floor = n.wrapping_neg() % n;
            while (wide as u64) < floor {
                wide = u128::from(self.bits()) * u128::from(n);
            }
        }
        (wide >> 64) as u64
    }

    /// Standard normal (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit_above_0().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Exponential with mean 1, by inversion.
    pub fn exponential(&mut self) -> f64 {
        -self.unit_above_0().ln()
    }

    /// Gamma with this shape (over 0) and scale 1 (Marsaglia and Tsang 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let power = self.unit_above_0().powf(1.0 / shape);
            return self.gamma(shape + 1.0) * power;
        }
        let d = shape - 1.0 / 3.0;
        let c = (9.0 * d).sqrt().recip();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            let bound = 0.5 * x * x + d - d * v;
            if v > 0.0 && self.unit_above_0().ln() < bound + d * v.ln() {
                return d * v;
            }
        }
    }

    /// Uniform in `(0, 1]`.
    fn unit_above_0(&mut self) -> f64 {
        1.0 - self.unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_depends_on_seed_stream_and_index_only() {
        let draw = |seed, stream, index| Rng::new(seed, stream, index).bits();
        assert_eq!(draw(1, Stream::Prompt, 7), draw(1, Stream::Prompt, 7));
        assert_ne!(draw(1, Stream::Prompt, 7), draw(2, Stream::Prompt, 7));
        assert_ne!(draw(1, Stream::Prompt, 7), draw(1, Stream::Arrival, 7));
        assert_ne!(draw(1, Stream::Prompt, 7), draw(1, Stream::Prompt, 8));
    }

    #[test]
    fn moments_are_those_of_the_laws() {
        let mut rng = Rng::new(42, Stream::Test, 0);
        let n = 200_000;
        let (mut unit, mut normal, mut square, mut exponential) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..n {
            unit += rng.unit();
            let z = rng.normal();
            normal += z;
            square += z * z;
            exponential += rng.exponential();
        }
        let n = f64::from(n);
        assert!((unit / n - 0.5).abs() < 0.005);
        assert!((normal / n).abs() < 0.01);
        assert!((square / n - 1.0).abs() < 0.02);
        assert!((exponential / n - 1.0).abs() < 0.01);
    }

    #[test]
    fn gamma_has_its_mean_and_variance_below_one_and_above() {
        for shape in [0.25, 0.5, 1.0, 4.0, 16.0] {
            let mut rng = Rng::new(7, Stream::Test, 2);
            let n = 200_000;
            let draws: Vec<f64> = (0..n).map(|_| rng.gamma(shape)).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(n);
            let square = |x: &f64| (x - mean) * (x - mean);
            let variance = draws.iter().map(square).sum::<f64>() / f64::from(n);
            assert!((mean / shape - 1.0).abs() < 0.02, "{shape}: {mean}");
            assert!((variance / shape - 1.0).abs() < 0.05, "{shape}: {variance}");
        }
    }

    #[test]
    fn below_reaches_every_value_and_no_other() {
        let mut rng = Rng::new(3, Stream::Test, 1);
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[usize::try_from(rng.below(7)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1_200).contains(&count)));
    }
}
