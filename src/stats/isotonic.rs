//! Isotonic regression, and a smooth rising curve through it: where a noisy margin crosses zero.
//!
//! Pool adjacent violators (Ayer and others 1955), then the monotone cubic of Fritsch and Carlson
//! with the slopes of Fritsch and Butland (1984), as scipy's `PchipInterpolator` has them.

use super::distribution::float_len;

/// Rise of each step added to a fit, as a share of its span: a flat piece has no single root.
const RAMP: f64 = 1e-9;
/// Halvings of an interval: more than a double has digits.
const HALVINGS: usize = 200;

/// The rising list nearest to `ys`, by least squares with these weights.
///
/// Shape: as long as the shorter of both. Weights above zero. Cost: linear.
pub fn rising(ys: &[f64], weights: &[f64]) -> Vec<f64> {
    // Value, weight and length of each block so far.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::with_capacity(ys.len());
    for (&y, &weight) in ys.iter().zip(weights) {
        let mut block = (y, weight, 1);
        while let Some(last) = blocks.pop_if(|last| last.0 > block.0) {
            let sum = last.1 + block.1;
            let mean = (last.0 * last.1 + block.0 * block.1) / sum;
            block = (mean, sum, last.2 + block.2);
        }
        blocks.push(block);
    }
    let repeat = |&(y, _, len): &(f64, f64, usize)| std::iter::repeat_n(y, len);
    blocks.iter().flat_map(repeat).collect()
}

/// Makes a rising list rise at every step, by a billionth of its span each.
///
/// Source: AIPerf's smooth isotonic planner.
pub fn strictify(ys: &mut [f64]) {
    let span = match (ys.first(), ys.last()) {
        (Some(first), Some(last)) => last - first,
        _ => return,
    };
    for (index, y) in ys.iter_mut().enumerate() {
        *y += float_len(index) * RAMP * span;
    }
}

/// A piecewise cubic that rises wherever its points do.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    xs: Vec<f64>,
    ys: Vec<f64>,
    slopes: Vec<f64>,
}

impl Curve {
    /// Through these points; `None` for fewer than two or where `xs` does not rise at each.
    pub fn new(xs: &[f64], ys: &[f64]) -> Option<Curve> {
        let is_rising = xs.windows(2).all(|pair| pair[0] < pair[1]);
        (xs.len() >= 2 && xs.len() == ys.len() && is_rising).then(|| Curve {
            xs: xs.to_vec(),
            ys: ys.to_vec(),
            slopes: slopes(xs, ys),
        })
    }

    /// The curve through the isotonic fit of `ys`, made to rise at every step.
    pub fn fit(xs: &[f64], ys: &[f64]) -> Option<Curve> {
        let mut ys = rising(ys, &vec![1.0; ys.len()]);
        strictify(&mut ys);
        Curve::new(xs, &ys)
    }

    /// The value at `x`; beyond the ends, that of the nearest end.
    pub fn at(&self, x: f64) -> f64 {
        let last = self.xs.len() - 1;
        if x <= self.xs[0] {
            return self.ys[0];
        }
        if x >= self.xs[last] {
            return self.ys[last];
        }
        let low = self.xs.partition_point(|&known| known <= x) - 1;
        let width = self.xs[low + 1] - self.xs[low];
        let s = (x - self.xs[low]) / width;
        let t = 1.0 - s;
        self.ys[low] * (1.0 + 2.0 * s) * t * t
            + self.slopes[low] * width * s * t * t
            + self.ys[low + 1] * s * s * (3.0 - 2.0 * s)
            - self.slopes[low + 1] * width * s * s * t
    }

    /// Where a rising curve is zero between `low` and `high`; `None` when it does not cross there.
    pub fn root_in(&self, low: f64, high: f64) -> Option<f64> {
        if !(low < high && self.at(low) <= 0.0 && self.at(high) >= 0.0) {
            return None;
        }
        let (mut low, mut high) = (low, high);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                break;
            }
            match self.at(middle) < 0.0 {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(high)
    }
}

/// The slope at each point: a weighted harmonic mean of the secants beside it, 0 at a turn.
fn slopes(xs: &[f64], ys: &[f64]) -> Vec<f64> {
    let widths: Vec<f64> = xs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rises = ys.windows(2).map(|pair| pair[1] - pair[0]);
    let secants: Vec<f64> = rises.zip(&widths).map(|(rise, w)| rise / w).collect();
    let last = secants.len() - 1;
    if last == 0 {
        return vec![secants[0]; 2];
    }
    let mut slopes = vec![end_slope([widths[0], widths[1]], [secants[0], secants[1]])];
    for at in 1..=last {
        let (before, after) = (secants[at - 1], secants[at]);
        let (near, far) = (
            2.0 * widths[at] + widths[at - 1],
            widths[at] + 2.0 * widths[at - 1],
        );
        slopes.push(match before * after > 0.0 {
            true => (near + far) / (near / before + far / after),
            false => 0.0,
        });
    }
    let widths = [widths[last], widths[last - 1]];
    slopes.push(end_slope(widths, [secants[last], secants[last - 1]]));
    slopes
}

/// The slope at an end by three points, kept from turning the curve; the outer piece comes first.
fn end_slope(widths: [f64; 2], secants: [f64; 2]) -> f64 {
    let sum = widths[0] + widths[1];
    let slope = ((widths[0] + sum) * secants[0] - widths[0] * secants[1]) / sum;
    if slope * secants[0] <= 0.0 {
        0.0
    } else if secants[0] * secants[1] <= 0.0 && slope.abs() > 3.0 * secants[0].abs() {
        3.0 * secants[0]
    } else {
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const XS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
    const MARGINS: [f64; 6] = [-100.0, -90.0, -95.0, -40.0, 20.0, 150.0];

    #[test]
    fn the_fit_and_its_curve_are_aiperfs() {
        let fit = rising(&MARGINS, &[1.0; 6]);
        assert_eq!(fit, [-100.0, -92.5, -92.5, -40.0, 20.0, 150.0]);
        let curve = Curve::fit(&XS, &MARGINS).unwrap();
        let root = curve.root_in(8.0, 16.0).unwrap();
        assert!((root - 13.173_345_037_819_097).abs() < 1e-12, "{root}");
        let middle = curve.at(12.0);
        assert!((middle + 7.921_735_832_162_145).abs() < 1e-12, "{middle}");
    }

    #[test]
    fn weights_draw_a_block_to_the_heavier_side() {
        assert_eq!(rising(&[3.0, 0.0, 9.0], &[2.0, 1.0, 1.0]), [2.0, 2.0, 9.0]);
        assert_eq!(rising(&[], &[]), [0.0; 0]);
    }

    #[test]
    fn points_that_make_no_curve_are_refused() {
        assert_eq!(Curve::new(&[1.0], &[0.0]), None);
        assert_eq!(Curve::new(&[1.0, 1.0], &[0.0, 1.0]), None);
        assert_eq!(Curve::new(&[1.0, 2.0], &[0.0]), None);
        let line = Curve::fit(&[1.0, 3.0], &[-1.0, 1.0]).unwrap();
        assert!((line.root_in(1.0, 3.0).unwrap() - 2.0).abs() < 1e-6);
        assert_eq!(line.root_in(2.5, 3.0), None);
        assert_eq!((line.at(0.0), line.at(9.0) > 0.999), (-1.0, true));
    }

    proptest! {
        #[test]
        fn a_fit_never_falls_and_keeps_the_sum(
            ys in prop::collection::vec(-100.0..100.0f64, 1..30)
        ) {
            let fit = rising(&ys, &vec![1.0; ys.len()]);
            prop_assert!(fit.windows(2).all(|pair| pair[0] <= pair[1]));
            let sums = (ys.iter().sum::<f64>(), fit.iter().sum::<f64>());
            prop_assert!((sums.0 - sums.1).abs() < 1e-9);
        }

        #[test]
        fn a_curve_through_rising_points_rises_between_them(
            ys in prop::collection::vec(-100.0..100.0f64, 2..12)
        ) {
            let xs: Vec<f64> = (0..ys.len()).map(|x| (float_len(x) + 1.0).powi(2)).collect();
            let curve = Curve::fit(&xs, &ys).unwrap();
            let last = xs[xs.len() - 1];
            let share = |step: i32| f64::from(step) / 200.0;
            let at = |step| curve.at(1.0 + share(step) * (last - 1.0));
            let values: Vec<f64> = (0..=200).map(at).collect();
            prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9));
        }
    }
}
