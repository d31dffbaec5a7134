//! A generic time series: what a sampler saw, and its statistics over a window.

use super::distribution::float_len;
use super::summary::Distribution;
use crate::base::Ns;

/// Values with their times.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Series {
    /// Times, ascending.
    pub times: Vec<Ns>,
    /// Values, one for each time.
    pub values: Vec<f64>,
}

/// Which standard deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// Divides by n.
    Population,
    /// Divides by n - 1; 0 for one value.
    Sample,
}

impl Series {
    /// Adds a sample. One that is older than the last, or not finite, is left out: false then.
    pub fn push(&mut self, at: Ns, value: f64) -> bool {
        let is_usable = value.is_finite() && self.times.last().is_none_or(|&last| last <= at);
        if is_usable {
            self.times.push(at);
            self.values.push(value);
        }
        is_usable
    }

    /// The values whose times lie in the window, ends included.
    pub fn window(&self, start: Ns, end: Ns) -> &[f64] {
        let from = self.times.partition_point(|&t| t < start);
        let to = self.times.partition_point(|&t| t <= end);
        self.values.get(from..to).unwrap_or(&[])
    }

    /// Statistics over the window; `None` without a sample in it.
    pub fn distribution(&self, start: Ns, end: Ns, deviation: Deviation) -> Option<Distribution> {
        distribution_of(&mut self.window(start, end).to_vec(), deviation)
    }

    /// The value at a time, by straight lines between samples, the end values beyond them.
    pub fn at(&self, at: Ns) -> Option<f64> {
        let next = self.times.partition_point(|&t| t < at);
        let Some(&after) = self.values.get(next) else {
            return self.values.last().copied();
        };
        if next == 0 || self.times[next] == at {
            return Some(after);
        }
        let (t0, before) = (self.times[next - 1], self.values[next - 1]);
        let span = self.times[next].saturating_since(t0).as_secs();
        Some(before + (after - before) * at.saturating_since(t0).as_secs() / span)
    }

    /// Growth of a counter over the window, its edges interpolated: read a sample before and one
    /// after, it would cover more time than the window.
    ///
    /// `None` when no sample lies at or beyond either edge, or when the counter fell: it was reset,
    /// and what it counted until then is unknown.
    pub fn counter_delta(&self, start: Ns, end: Ns) -> Option<f64> {
        let is_covered = *self.times.first()? <= start && *self.times.last()? >= end;
        let points = self.points(start, end).filter(|_| is_covered)?;
        let before = self.times.partition_point(|&t| t <= start).checked_sub(1)?;
        let after = self.times.partition_point(|&t| t < end);
        let around = self.values.get(before..=after)?;
        Some(points.last()?.1 - points.first()?.1).filter(|_| around.is_sorted())
    }

    /// The samples at which the value had changed, without the first: when that was new is not
    /// known. A source that moves its counter seldom says between two changes what was.
    pub fn steps(&self) -> Series {
        let mut steps = Series::default();
        for (two, &at) in self.values.windows(2).zip(self.times.iter().skip(1)) {
            if two[0] != two[1] {
                steps.push(at, two[1]);
            }
        }
        steps
    }

    /// Integral over the window in value x seconds, by trapezoids, edges interpolated (the end
    /// values hold beyond the samples).
    pub fn integral(&self, start: Ns, end: Ns) -> Option<f64> {
        self.points(start, end).map(|points| {
            let area = |w: &[(Ns, f64)]| {
                w[1].0.saturating_since(w[0].0).as_secs() * (w[0].1 + w[1].1) / 2.0
            };
            points.windows(2).map(area).sum()
        })
    }

    /// The window's edges and the samples between them.
    fn points(&self, start: Ns, end: Ns) -> Option<Vec<(Ns, f64)>> {
        let (first, last) = (*self.times.first()?, *self.times.last()?);
        if first == last || end <= start || first > end || last < start {
            return None;
        }
        let from = self.times.partition_point(|&t| t <= start);
        let to = self.times.partition_point(|&t| t < end);
        let mut points = vec![(start, self.at(start)?)];
        points.extend((from..to).map(|i| (self.times[i], self.values[i])));
        points.push((end, self.at(end)?));
        Some(points)
    }
}

/// Statistics of values, which are sorted in place; `None` when empty.
pub fn distribution_of(values: &mut [f64], deviation: Deviation) -> Option<Distribution> {
    let mut found = Distribution::from_values(values)?;
    let n = float_len(values.len());
    if deviation == Deviation::Sample && n > 1.0 {
        found.std *= (n / (n - 1.0)).sqrt();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: &[(u64, f64)]) -> Series {
        let mut series = Series::default();
        for &(ms, value) in points {
            assert!(series.push(Ns::from_ms(ms), value));
        }
        series
    }

    #[test]
    fn an_energy_counter_is_interpolated_at_the_edges() {
        let energy = series(&[(0, 100.0), (1000, 200.0), (2000, 400.0)]);
        let delta = energy.counter_delta(Ns::from_ms(500), Ns::from_ms(1500));
        assert_eq!(delta, Some(150.0));
        assert_eq!(
            energy.counter_delta(Ns::from_ms(5000), Ns::from_ms(6000)),
            None
        );
        assert_eq!(series(&[(0, 1.0)]).counter_delta(Ns::ZERO, Ns(9)), None);
    }

    #[test]
    fn a_counter_that_is_reset_or_does_not_cover_the_window_tells_nothing() {
        let energy = series(&[(0, 100.0), (1000, 200.0), (2000, 0.0), (3000, 50.0)]);
        let delta = |from, to| energy.counter_delta(Ns::from_ms(from), Ns::from_ms(to));
        assert_eq!(delta(0, 3000), None);
        // The fall lies between the edge and the sample behind it.
        assert_eq!(delta(500, 1500), None);
        assert_eq!(delta(500, 1000), Some(50.0));
        assert_eq!(delta(2000, 3000), Some(50.0));
        assert_eq!(delta(2500, 3001), None);
        let late = series(&[(10, 1.0), (20, 2.0)]);
        assert_eq!(late.counter_delta(Ns::from_ms(5), Ns::from_ms(15)), None);
    }

    #[test]
    fn steps_are_where_a_value_is_new() {
        let energy = series(&[(0, 5.0), (10, 5.0), (20, 8.0), (30, 8.0), (40, 9.0)]);
        assert_eq!(energy.steps(), series(&[(20, 8.0), (40, 9.0)]));
        assert_eq!(series(&[(0, 1.0)]).steps(), Series::default());
    }

    #[test]
    fn power_integrates_to_energy() {
        let power = series(&[(0, 100.0), (1000, 300.0), (2000, 300.0)]);
        assert_eq!(power.integral(Ns::ZERO, Ns::from_ms(2000)), Some(500.0));
        assert_eq!(
            power.integral(Ns::from_ms(500), Ns::from_ms(1500)),
            Some(275.0)
        );
    }

    #[test]
    fn windows_take_their_ends_and_the_sample_deviation() {
        let power = series(&[(0, 1.0), (10, 2.0), (20, 4.0), (30, 9.0)]);
        let window = (Ns::from_ms(10), Ns::from_ms(20));
        let d = power
            .distribution(window.0, window.1, Deviation::Sample)
            .unwrap();
        assert_eq!((d.count, d.avg), (2, 3.0));
        assert!((d.std - 2f64.sqrt()).abs() < 1e-12);
        let d = power
            .distribution(window.0, window.1, Deviation::Population)
            .unwrap();
        assert!((d.std - 1.0).abs() < 1e-12);
    }

    #[test]
    fn samples_out_of_order_or_not_finite_are_left_out() {
        let mut s = series(&[(10, 1.0)]);
        assert!(!s.push(Ns::from_ms(5), 1.0) && !s.push(Ns::from_ms(11), f64::NAN));
        assert_eq!(s.times.len(), 1);
    }
}
