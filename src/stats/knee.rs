//! Where a load begins to hurt: the point where the time to the first token has doubled, the last
//! one that meets the service levels, and the one beyond which more load brings no more tokens.

/// TTFT has doubled when it is so many times what it is at the lowest load.
const DOUBLED: f64 = 2.0;
/// Throughput that grows by less than this per doubling of the load has reached its limit.
pub const GROWTH_MIN: f64 = 0.05;

/// One point of a sweep, by its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPoint {
    /// Concurrency or rate, above 0.
    pub load: f64,
    /// p99 of the time to the first token, in ms.
    pub ttft_p99: Option<f64>,
    /// Tokens, or requests, per second.
    pub throughput: Option<f64>,
    /// It meets all service levels; absent where one of them cannot be judged.
    pub meets: Option<bool>,
}

/// What a sweep says of the load.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Knee {
    /// The first load at which TTFT p99 is twice that of the lowest load.
    pub doubled: Option<f64>,
    /// The highest load up to which every point meets the service levels.
    pub meets: Option<f64>,
    /// A higher load met them too, after one that did not.
    pub meets_again: bool,
    /// The load beyond which throughput grows by less than 5 % per doubling, up to every later
    /// point.
    pub saturated: Option<f64>,
    /// That growth from the last point but one to the last, as a ratio per doubling of the load.
    pub growth_last: Option<f64>,
}

impl Knee {
    /// Of points in any order.
    ///
    /// ```
    /// use tokenring::stats::knee::{Knee, LoadPoint};
    /// let point = |&(load, ttft, rate): &(f64, f64, f64)| LoadPoint {
    ///     load,
    ///     ttft_p99: Some(ttft),
    ///     throughput: Some(rate),
    ///     meets: Some(ttft < 500.0),
    /// };
    /// let sweep = [
    ///     (1.0, 45.2, 128.3), (4.0, 48.1, 510.7), (8.0, 61.3, 989.2),
    ///     (16.0, 98.7, 1741.6), (32.0, 284.1, 2134.2), (64.0, 892.4, 2251.8),
    /// ];
    /// let knee = Knee::of(&sweep.iter().map(point).collect::<Vec<_>>());
    /// assert_eq!((knee.doubled, knee.meets, knee.saturated), (Some(16.0), Some(32.0), None));
    /// assert_eq!(format!("{:.1}", 100.0 * knee.growth_last.unwrap()), "5.5");
    /// assert!(!knee.is_reached());
    /// ```
    pub fn of(points: &[LoadPoint]) -> Knee {
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        let low = points.first().and_then(|point| point.ttft_p99);
        let has_doubled = |point: &&LoadPoint| {
            point
                .ttft_p99
                .zip(low)
                .is_some_and(|(ttft, low)| ttft >= DOUBLED * low)
        };
        let good = points.iter().take_while(|point| point.meets == Some(true));
        let good = good.count();
        // Whatever comes later: a point that was slow by chance is no limit.
        let is_flat = |at: &usize| {
            let later = &points[at + 1..];
            let grows = |to: &LoadPoint| growth(&points[*at], to);
            let growths: Vec<f64> = later.iter().filter_map(grows).collect();
            !growths.is_empty() && growths.iter().all(|growth| *growth < GROWTH_MIN)
        };
        let flat = (0..points.len()).find(is_flat);
        let last = points.len().checked_sub(2);
        Knee {
            doubled: points
                .iter()
                .skip(1)
                .find(has_doubled)
                .map(|point| point.load),
            meets: good.checked_sub(1).map(|last| points[last].load),
            meets_again: points[good..].iter().any(|point| point.meets == Some(true)),
            saturated: flat.map(|at| points[at].load),
            growth_last: last.and_then(|at| growth(&points[at], &points[at + 1])),
        }
    }

    /// Both the doubling and the saturation have been seen.
    pub fn is_reached(&self) -> bool {
        self.doubled.is_some() && self.saturated.is_some()
    }
}

/// How much throughput grows per doubling of the load, as a ratio.
fn growth(from: &LoadPoint, to: &LoadPoint) -> Option<f64> {
    let (before, after) = from.throughput.zip(to.throughput)?;
    let doublings = (to.load / from.load).log2();
    (before > 0.0 && doublings > 0.0).then(|| (after / before).powf(1.0 / doublings) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(sweep: &[(f64, f64, f64)]) -> Vec<LoadPoint> {
        let point = |&(load, ttft, rate)| LoadPoint {
            load,
            ttft_p99: Some(ttft),
            throughput: Some(rate),
            meets: Some(ttft < 500.0),
        };
        sweep.iter().map(point).collect()
    }

    #[test]
    fn a_sweep_past_the_knee_has_all_three_points() {
        // Out of order, and a point that is no power of two: 96 to 128 is less than a doubling.
        let sweep = [
            (128.0, 4_000.0, 2_020.0),
            (64.0, 900.0, 1_900.0),
            (1.0, 50.0, 100.0),
        ];
        let knee = Knee::of(&points(&[&sweep[..], &[(96.0, 1_500.0, 2_000.0)]].concat()));
        assert_eq!(knee.doubled, Some(64.0));
        assert_eq!(knee.meets, Some(1.0));
        assert_eq!(knee.saturated, Some(96.0));
        assert!(knee.is_reached() && !knee.meets_again);
    }

    #[test]
    fn a_point_that_was_slow_by_chance_is_no_limit() {
        let sweep = [
            (16.0, 50.0, 1_000.0),
            (32.0, 51.0, 1_010.0),
            (64.0, 52.0, 3_000.0),
            (128.0, 53.0, 3_010.0),
        ];
        assert_eq!(Knee::of(&points(&sweep)).saturated, Some(64.0));
    }

    #[test]
    fn throughput_that_falls_has_saturated_too() {
        let knee = Knee::of(&points(&[(1.0, 10.0, 100.0), (2.0, 11.0, 90.0)]));
        assert_eq!((knee.saturated, knee.doubled), (Some(1.0), None));
        assert!(!knee.is_reached());
    }

    #[test]
    fn a_good_point_after_a_bad_one_is_told_and_not_taken() {
        let knee = Knee::of(&points(&[
            (1.0, 10.0, 1.0),
            (2.0, 600.0, 2.0),
            (4.0, 20.0, 4.0),
        ]));
        assert_eq!((knee.meets, knee.meets_again), (Some(1.0), true));
    }

    #[test]
    fn what_is_not_there_is_no_point() {
        assert_eq!(Knee::of(&[]), Knee::default());
        let lone = LoadPoint {
            load: 1.0,
            ttft_p99: None,
            throughput: None,
            meets: None,
        };
        assert_eq!(Knee::of(&[lone]), Knee::default());
        assert_eq!(
            Knee::of(&[lone, LoadPoint { load: 2.0, ..lone }]),
            Knee::default()
        );
    }
}
