//! Exact statistics of a long column without sorting it: only the values around the percentiles
//! are put in order.

use super::distribution::{float_len, floor_index};
use super::summary::{Distribution, PERCENTILES};

/// Values up to which a plain sort is as fast.
const SORTED_MAX: usize = 2_048;
/// Pieces of the range of keys.
const PIECES: usize = 4_096;

/// Buffers for one column after another.
#[derive(Debug, Default)]
pub(super) struct Select {
    present: Vec<f64>,
    keys: Vec<u64>,
    counts: Vec<u32>,
    near: Vec<u64>,
}

/// A key in the order of [`f64::total_cmp`].
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    let flip = if bits >> 63 == 1 { u64::MAX } else { 1 << 63 };
    bits ^ flip
}

/// The value of a key.
fn value(key: u64) -> f64 {
    let flip = if key >> 63 == 1 { 1 << 63 } else { u64::MAX };
    f64::from_bits(key ^ flip)
}

impl Select {
    /// The statistics of the values that are no NaN; `None` without any.
    ///
    /// As [`Distribution::from_values`] gives them; `std` may differ in its last digits. Cost: some
    /// ns per value.
    pub(super) fn distribution(&mut self, values: &[f64]) -> Option<Distribution> {
        let absent = values.iter().filter(|value| value.is_nan()).count();
        if absent > 0 {
            self.present.clear();
            let present = values.iter().copied().filter(|value| !value.is_nan());
            self.present.extend(present);
        }
        let present = std::mem::take(&mut self.present);
        let dense = if absent > 0 { &present } else { values };
        let found = self.of_dense(dense);
        self.present = present;
        found
    }

    fn of_dense(&mut self, values: &[f64]) -> Option<Distribution> {
        let first = *values.first()?;
        if values.iter().all(|v| v.to_bits() == first.to_bits()) {
            return Distribution::constant(first, values.len() as u64);
        }
        // In the order of arrival, as a run sums them up.
        let sum: f64 = values.iter().sum();
        self.keys.clear();
        self.keys.extend(values.iter().map(|value| key(*value)));
        let (low, high) = ends(&self.keys);
        let (min, max) = (value(low), value(high));
        let avg = (sum / float_len(values.len())).clamp(min, max);
        let at = self.near_percentiles(low, high);
        Some(Distribution {
            avg,
            min,
            max,
            std: (squares(values, avg) / float_len(values.len())).sqrt(),
            sum,
            count: values.len() as u64,
            percentiles: std::array::from_fn(|i| self.percentile(PERCENTILES[i], &at)),
            exact: true,
        })
    }

    /// Puts the keys in order that percentiles fall on. What is left out: pairs of the rank up to
    /// which, and how many.
    fn near_percentiles(&mut self, low: u64, high: u64) -> Vec<(usize, usize)> {
        self.near.clear();
        if self.keys.len() <= SORTED_MAX {
            self.near.extend_from_slice(&self.keys);
            self.near.sort_unstable();
            return Vec::new();
        }
        let bits = 64 - (high - low).leading_zeros();
        let shift = bits.saturating_sub(PIECES.ilog2());
        let piece = |key: u64| ((key - low) >> shift) as usize & (PIECES - 1);
        self.counts.clear();
        self.counts.resize(PIECES, 0);
        for key in &self.keys {
            self.counts[piece(*key)] += 1;
        }
        let last = self.keys.len() - 1;
        let ranks = PERCENTILES.map(|percent| floor_index(percent / 100.0 * float_len(last)));
        let is_wanted = |from: usize, to: usize| {
            let mut both = ranks.iter().flat_map(|rank| [*rank, (rank + 1).min(last)]);
            both.any(|rank| (from..to).contains(&rank))
        };
        let (mut begin, mut skipped) = (0, Vec::new());
        for count in &mut self.counts {
            let end = begin + *count as usize;
            let wanted = is_wanted(begin, end);
            if !wanted && end > begin {
                skipped.push((end, end - begin));
            }
            // From here on a mark.
            *count = u32::from(wanted);
            begin = end;
        }
        let marks = &self.counts;
        let wanted = self.keys.iter().filter(|key| marks[piece(**key)] != 0);
        self.near.extend(wanted);
        self.near.sort_unstable();
        skipped
    }

    /// As `distribution::percentile`, of the keys that are in order.
    fn percentile(&self, percent: f64, skipped: &[(usize, usize)]) -> f64 {
        let last = self.keys.len() - 1;
        let rank = percent / 100.0 * float_len(last);
        let low = floor_index(rank).min(last);
        let at = |rank: usize| {
            let before = skipped.iter().take_while(|(end, _)| *end <= rank);
            let place = rank - before.map(|(_, count)| count).sum::<usize>();
            value(self.near[place])
        };
        let (a, b) = (at(low), at((low + 1).min(last)));
        (a + (rank - float_len(low)) * (b - a)).clamp(a, b)
    }
}

fn ends(keys: &[u64]) -> (u64, u64) {
    let fold = |(low, high): (u64, u64), key: &u64| (low.min(*key), high.max(*key));
    keys.iter().fold((u64::MAX, 0), fold)
}

/// The sum of squared deviations, in four parts side by side.
fn squares(values: &[f64], avg: f64) -> f64 {
    let mut sums = [0.0; 4];
    let chunks = values.chunks_exact(4);
    let rest: f64 = chunks
        .remainder()
        .iter()
        .map(|v| (v - avg) * (v - avg))
        .sum();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += (value - avg) * (value - avg);
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[f64]) {
        let found = Select::default().distribution(values);
        let mut present: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        let exact = Distribution::from_values(&mut present);
        let (Some(mut found), Some(exact)) = (found.clone(), exact.clone()) else {
            return assert_eq!(found, exact);
        };
        let is_far = found.std.is_infinite() && exact.std.is_infinite();
        assert!(
            is_far || (found.std - exact.std).abs() <= 1e-12 * exact.max.abs().max(exact.min.abs())
        );
        found.std = exact.std;
        if exact.min == exact.max {
            (found.sum, found.avg) = (exact.sum, exact.avg);
        }
        assert_eq!(found, exact);
    }

    #[test]
    fn a_long_column_has_the_statistics_of_a_sorted_one() {
        let uneven = |n: u64| {
            let x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
            100.0 + float_len(usize::try_from(x).unwrap_or(0) % 100_003) / 7.0
        };
        let long: Vec<f64> = (0..50_000).map(uneven).collect();
        check(&long);
        check(&long.iter().map(|v| v.round()).collect::<Vec<_>>());
        check(
            &long
                .iter()
                .map(|v| (v / 4_000.0).floor())
                .collect::<Vec<_>>(),
        );
        check(&long.iter().map(|v| 5_000.0 - v).collect::<Vec<_>>());
        // One value far off leaves all others in one piece.
        let mut far = vec![1.5; 5_000];
        far.push(1e300);
        far.extend((0..5_000).map(|n| 1.5 + float_len(n) * 1e-12));
        check(&far);
        check(&[f64::NAN, 1.0, 2.0, f64::NAN]);
        check(&[f64::NAN]);
        check(&[7.25; 5_000]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_column_has_the_statistics_of_a_sorted_one(
            values in prop::collection::vec(-1e6..1e6f64, 0..6_000),
            places in 1..7i32,
            every in 1..5usize,
        ) {
            let scale = 10f64.powi(places - 4);
            let rounded = values.iter().map(|v| (v * scale).round() / scale).enumerate();
            let some = rounded.map(|(n, v)| if n % every == 1 { f64::NAN } else { v });
            check(&some.collect::<Vec<_>>());
        }
    }
}
