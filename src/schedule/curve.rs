//! A rate over time: how many arrivals it expects by a time, and when it has expected so many.
//!
//! A process of mean gap 1 becomes one of any rate by this warp of its time: exact for Poisson, and
//! the obvious thing for every other renewal process.

use super::ramp::{Ramp, RampKind};

/// Requests per second as a function of the time since the start: pieces one after the other, the
/// last without end.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pieces: Vec<Piece>,
}

/// A part of a curve; times in s, rates per s.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    from: f64,
    length: f64,
    /// Arrivals expected before it.
    before: f64,
    shape: Shape,
}

/// The rate within a piece.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// From `start` on, by `slope` more each second.
    Linear { start: f64, slope: f64 },
    /// From `start`, by `rise` in all over the piece, as the square of the time.
    Square { start: f64, rise: f64 },
}

/// A rate's ramp begins with what it would reach after so long.
const FIRST_STEP_S: f64 = 0.1;

impl Shape {
    /// The same rate all the time.
    fn level(rate: f64) -> Shape {
        Shape::Linear {
            start: rate,
            slope: 0.0,
        }
    }
}

impl Piece {
    /// Arrivals expected in its first `x` seconds.
    fn expected(&self, x: f64) -> f64 {
        match self.shape {
            Shape::Linear { start, slope } => x * (start + 0.5 * slope * x),
            Shape::Square { start, rise } => {
                let part = x / self.length;
                x * (start + rise * part * part / 3.0)
            }
        }
    }

    /// The second of it by which `count` arrivals are expected.
    fn when(&self, count: f64) -> f64 {
        match self.shape {
            _ if count <= 0.0 => 0.0,
            Shape::Linear { start, slope: 0.0 } => count / start,
            Shape::Linear { start, slope } => {
                2.0 * count / (start + (start * start + 2.0 * slope * count).max(0.0).sqrt())
            }
            Shape::Square { start, rise } => {
                // The one real root of x^3 + 3 p x = 2 q, whose p and q are positive.
                let square = self.length * self.length / rise;
                let (p, q) = (square * start, 1.5 * square * count);
                let root = p.sqrt();
                2.0 * root * ((q / (p * root)).asinh() / 3.0).sinh()
            }
        }
    }
}

impl Curve {
    /// The same rate for ever.
    pub fn flat(rate_per_s: f64) -> Curve {
        let mut curve = Curve { pieces: Vec::new() };
        curve.add(f64::INFINITY, Shape::level(rate_per_s));
        curve
    }

    /// Up to `rate_per_s` over the ramp, and then that.
    pub fn ramp(rate_per_s: f64, ramp: &Ramp, seed: u64) -> Curve {
        let length = ramp.over.as_secs();
        let start = rate_per_s * (FIRST_STEP_S / length).min(1.0);
        let rise = rate_per_s - start;
        let mut curve = Curve { pieces: Vec::new() };
        match ramp.kind {
            RampKind::Linear => curve.add(
                length,
                Shape::Linear {
                    start,
                    slope: rise / length,
                },
            ),
            // As high as it gets from the first step on.
            _ if rise <= 0.0 => {}
            RampKind::Exponential => curve.add(length, Shape::Square { start, rise }),
            RampKind::Poisson => {
                let steps = (length / FIRST_STEP_S).clamp(1.0, 10_000.0) as u32;
                let ends = ramp.openings(steps + 1, seed);
                for step in 0..steps {
                    let (from, to) = (ends[step as usize], ends[step as usize + 1]);
                    let at = start + rise * f64::from(step) / f64::from(steps);
                    let length = to.saturating_since(from).as_secs();
                    curve.add(length, Shape::level(at));
                }
            }
        }
        curve.add(f64::INFINITY, Shape::level(rate_per_s));
        curve
    }

    /// Straight lines between points of time (s, ascending) and rate; the first rate holds before
    /// the first point, the last one after the last.
    pub fn series(points: &[(f64, f64)]) -> Curve {
        let mut curve = Curve { pieces: Vec::new() };
        if let Some(&(at, rate)) = points.first() {
            curve.add(at, Shape::level(rate));
        }
        for pair in points.windows(2) {
            let ((from, start), (to, end)) = (pair[0], pair[1]);
            let slope = (end - start) / (to - from).max(f64::MIN_POSITIVE);
            curve.add(to - from, Shape::Linear { start, slope });
        }
        curve.add(
            f64::INFINITY,
            Shape::level(points.last().map_or(0.0, |point| point.1)),
        );
        curve
    }

    fn add(&mut self, length: f64, shape: Shape) {
        let (from, before) = self.pieces.last().map_or((0.0, 0.0), |last| {
            (
                last.from + last.length,
                last.before + last.expected(last.length),
            )
        });
        if length > 0.0 {
            self.pieces.push(Piece {
                from,
                length,
                before,
                shape,
            });
        }
    }

    /// When `count` arrivals are expected, in s from the start; `None` when never. `piece` is where
    /// the last call for a smaller count left it.
    pub fn when(&self, count: f64, piece: &mut usize) -> Option<f64> {
        while let Some(next) = self.pieces.get(*piece + 1)
            && count >= next.before
        {
            *piece += 1;
        }
        let at = self.pieces.get(*piece)?;
        let when = at.from + at.when(count - at.before);
        when.is_finite().then_some(when)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Ns;

    fn by(curve: &Curve, at: f64) -> f64 {
        let piece = curve.pieces.iter().rfind(|piece| piece.from <= at).unwrap();
        piece.before + piece.expected(at - piece.from)
    }

    #[test]
    fn the_time_of_a_count_is_the_count_of_that_time() {
        let over = Ns::from_ms(10_000);
        let ramp = |kind| Curve::ramp(50.0, &Ramp { kind, over }, 7);
        for curve in [
            Curve::flat(3.0),
            ramp(RampKind::Linear),
            ramp(RampKind::Exponential),
            ramp(RampKind::Poisson),
            Curve::series(&[(0.0, 10.0), (5.0, 0.0), (6.0, 0.0), (9.0, 40.0)]),
            Curve::series(&[(2.0, 10.0), (2.5, 5.0)]),
        ] {
            let mut piece = 0;
            let mut last = 0.0;
            for n in 0..2_000 {
                let count = f64::from(n) * 0.37;
                let at = curve.when(count, &mut piece).unwrap();
                assert!(at >= last, "{curve:?}: {at} after {last}");
                assert!((by(&curve, at) - count).abs() < 1e-6, "{curve:?} at {at}");
                last = at;
            }
        }
    }

    #[test]
    fn a_ramp_expects_what_its_area_is() {
        let over = Ns::from_ms(10_000);
        let linear = Curve::ramp(
            100.0,
            &Ramp {
                kind: RampKind::Linear,
                over,
            },
            0,
        );
        // From 1 to 100 per s over 10 s.
        assert!((by(&linear, 10.0) - 505.0).abs() < 1e-9);
        let power = Curve::ramp(
            100.0,
            &Ramp {
                kind: RampKind::Exponential,
                over,
            },
            0,
        );
        assert!((by(&power, 10.0) - (10.0 + 99.0 * 10.0 / 3.0)).abs() < 1e-9);
        assert!((by(&power, 5.0) - (5.0 + 99.0 * 5.0 * 0.25 / 3.0)).abs() < 1e-9);
        let steps = Curve::ramp(
            100.0,
            &Ramp {
                kind: RampKind::Poisson,
                over,
            },
            3,
        );
        assert!((steps.pieces.last().unwrap().from - 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_series_that_ends_at_nothing_ends() {
        let curve = Curve::series(&[(0.0, 10.0), (2.0, 0.0)]);
        let mut piece = 0;
        assert!(curve.when(9.9, &mut piece).unwrap() < 2.0);
        assert_eq!(curve.when(10.1, &mut piece), None);
    }
}
