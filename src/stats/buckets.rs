//! Histograms of fixed buckets, as servers export them, and the percentiles of what fell in.

use super::distribution::{float_len, floor_index};

/// Percentiles that are estimated, in percent.
pub const ESTIMATED: [f64; 9] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];

/// More values than this are laid out as so many in the same shares.
const VALUES_MAX: f64 = 100_000.0;
/// Share of the values in one bucket from which on the mean of all is that bucket's.
const DOMINANT: f64 = 0.95;
/// Means of so many intervals have a spread that means something.
const INTERVALS_MIN: u32 = 3;
/// A value moves by so much of its bucket's width at most to meet the sum.
const MOVE_MAX: f64 = 0.4;
/// A sum is met when it is so close.
const SUM_TOLERANCE: f64 = 0.001;

/// How many values fell into each bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    /// Upper bounds, finite and ascending.
    bounds: Vec<f64>,
    /// One for each bound, then that of all above.
    counts: Vec<f64>,
}

/// What the intervals that touched one bucket only have told of the values in each.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned(Vec<Place>);

/// Where the values of a bucket lie.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Place {
    count: f64,
    sum: f64,
    intervals: u32,
    /// Of the intervals' means, and the sum of their squared distances from it.
    mean: f64,
    squares: f64,
}

impl Learned {
    /// Nothing yet, of a histogram with so many finite bounds.
    pub fn new(bounds: usize) -> Learned {
        Learned(vec![Place::default(); bounds + 1])
    }

    /// Takes what an interval added: values up to each bound and in all, and their sum. It tells
    /// something when all of them fell into one bucket.
    pub fn push(&mut self, cumulative: &[f64], sum: f64) {
        let mut touched = per_bucket(cumulative)
            .enumerate()
            .filter(|(_, count)| *count > 0.0);
        let (Some((at, count)), None) = (touched.next(), touched.next()) else {
            return;
        };
        let Some(place) = self.0.get_mut(at) else {
            return;
        };
        let mean = sum / count;
        place.count += count;
        place.sum += sum;
        place.intervals += 1;
        let off = mean - place.mean;
        place.mean += off / f64::from(place.intervals);
        place.squares += off * (mean - place.mean);
    }
}

impl Place {
    /// The mean, where it is one that lies inside.
    fn mean(&self, lower: f64, upper: f64) -> Option<f64> {
        let mean = self.sum / self.count;
        (self.count > 0.0 && lower < mean && mean < upper).then_some(mean)
    }

    /// Standard deviation of the intervals' means.
    fn std(&self) -> Option<f64> {
        let variance = self.squares / f64::from(self.intervals.max(2) - 1);
        (self.intervals >= INTERVALS_MIN && variance > 0.0).then(|| variance.sqrt())
    }
}

fn per_bucket(cumulative: &[f64]) -> impl Iterator<Item = f64> {
    let before = std::iter::once(&0.0).chain(cumulative);
    cumulative
        .iter()
        .zip(before)
        .map(|(count, before)| (count - before).max(0.0))
}

impl Buckets {
    /// From cumulative counts as the text format has them. `None` when they do not fit: `bounds`
    /// are finite and ascend, `cumulative` has one count for each and then that of all.
    pub fn new(bounds: &[f64], cumulative: &[f64]) -> Option<Buckets> {
        let ascend = bounds.windows(2).all(|two| two[0] < two[1]);
        let is_finite = bounds.iter().chain(cumulative).all(|x| x.is_finite());
        let fits = ascend && is_finite && cumulative.len() == bounds.len() + 1;
        fits.then(|| Buckets {
            bounds: bounds.to_vec(),
            counts: per_bucket(cumulative).collect(),
        })
    }

    fn total(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Where a finite bucket begins and ends: the first begins at 0.
    fn edges(&self, at: usize) -> (f64, f64) {
        let upper = self.bounds[at];
        let lower = at.checked_sub(1).map_or(0.0, |before| self.bounds[before]);
        (lower.min(upper), upper)
    }

    /// The percentile as Prometheus' `histogram_quantile` has it: values are spread evenly over
    /// their bucket, and what lies above all bounds counts as the last of them. `None` without
    /// values or bounds.
    ///
    /// Source: Prometheus, `histogram_quantile`.
    ///
    /// ```
    /// use tokenring::stats::buckets::Buckets;
    /// let of = Buckets::new(&[0.1, 0.5, 1.0, 5.0], &[10.0, 60.0, 90.0, 99.0, 100.0]).unwrap();
    /// assert!((of.interpolated(50.0).unwrap() - 0.42).abs() < 1e-12);
    /// assert_eq!(of.interpolated(99.0), Some(5.0));
    /// ```
    pub fn interpolated(&self, percent: f64) -> Option<f64> {
        let last = *self.bounds.last()?;
        let total = self.total();
        let rank = percent / 100.0 * total;
        let mut below = 0.0;
        for (at, &count) in self.counts[..self.bounds.len()].iter().enumerate() {
            if count > 0.0 && below + count >= rank {
                let (lower, upper) = self.edges(at);
                return Some(lower + (upper - lower) * (rank - below) / count);
            }
            below += count;
        }
        (total > 0.0).then_some(last)
    }

    /// The percentiles of [`ESTIMATED`], of values that are laid out so that they have this sum, as
    /// AIPerf does: each bucket's about its learned mean, those above all bounds about what is left
    /// of the sum. `None` without values or bounds, and for a sum that cannot be one.
    ///
    /// Source: AIPerf's polynomial histograms, after arXiv 2504.00001. Cost: a few ns for each
    /// value, at most 100,000 of them.
    pub fn estimated(&self, sum: f64, learned: &Learned) -> Option<[f64; 9]> {
        let total = self.total();
        let last = *self.bounds.last()?;
        if total <= 0.0 || !sum.is_finite() || sum < 0.0 {
            return None;
        }
        if sum == 0.0 {
            return Some([0.0; 9]);
        }
        let scale = (VALUES_MAX / total).min(1.0);
        let (counts, sum): (Vec<f64>, f64) = (
            self.counts.iter().map(|count| count * scale).collect(),
            sum * scale,
        );
        let above = self.above(&counts, sum, last, learned);
        let rest = sum - above.iter().map(Part::sum).sum::<f64>();
        let mut parts = self.laid_out(&counts, rest, learned);
        meet(rest, &mut parts);
        parts.extend(above);
        let count: usize = parts.iter().map(|part| part.count).sum();
        let last = count.checked_sub(1)?;
        Some(ESTIMATED.map(|percent| {
            let rank = percent / 100.0 * float_len(last);
            let low = floor_index(rank);
            let (a, b) = (nth(&parts, low), nth(&parts, (low + 1).min(last)));
            a + (rank - float_len(low)) * (b - a)
        }))
    }

    /// Values above all bounds: about the mean that the sum leaves them, evenly.
    fn above(&self, counts: &[f64], sum: f64, last: f64, learned: &Learned) -> Option<Part> {
        let count = floor_index(counts.last()?.ceil());
        let below = counts[..self.bounds.len()].iter().enumerate();
        let below: f64 = below
            .map(|(at, count)| {
                let (lower, upper) = self.edges(at);
                let mean = learned.0[at].mean(lower, upper);
                count * mean.unwrap_or((lower + upper) / 2.0)
            })
            .sum();
        let mean = match (sum - below) / float_len(count) {
            mean if mean > last => mean,
            // The sum leaves them too little: the buckets below were taken for too much.
            _ => last * 1.5,
        };
        let (lower, upper) = match count {
            1 => (mean, mean),
            _ => (last, (2.0 * mean - last).max(last)),
        };
        (count > 0).then_some(Part {
            lower,
            upper,
            count,
            law: Law::Ends,
            shift: 0.0,
        })
    }

    /// The values of each finite bucket.
    fn laid_out(&self, counts: &[f64], sum: f64, learned: &Learned) -> Vec<Part> {
        let counts = &counts[..self.bounds.len()];
        let total: f64 = counts.iter().sum();
        let most = counts.iter().copied().fold(0.0, f64::max);
        let dominant = counts.iter().position(|&count| count == most);
        let dominant = dominant.filter(|_| most / total >= DOMINANT);
        let part = |(at, &count): (usize, &f64)| {
            let (lower, upper) = self.edges(at);
            let own = learned.0[at].mean(lower, upper);
            let all = sum / total;
            let all = (dominant == Some(at) && lower < all && all < upper).then_some(all);
            let law = match own.zip(learned.0[at].std()) {
                Some((mean, std)) => Law::known(lower, upper, mean, std),
                None => Law::Even {
                    center: all.or(own).unwrap_or((lower + upper) / 2.0),
                },
            };
            Part {
                lower,
                upper,
                count: floor_index(count),
                law,
                shift: 0.0,
            }
        };
        let parts = counts.iter().enumerate().map(part);
        parts.filter(|part| part.count > 0).collect()
    }
}

/// Values of one bucket, ascending, each known by its place.
#[derive(Clone, Copy, Debug)]
struct Part {
    lower: f64,
    upper: f64,
    count: usize,
    law: Law,
    /// Added to all of them, as far as the bucket reaches.
    shift: f64,
}

/// How the values of a bucket lie in it.
#[derive(Clone, Copy, Debug)]
enum Law {
    /// Evenly from end to end, both taken.
    Ends,
    /// Evenly over the bucket's width about a center.
    Even { center: f64 },
    /// So large a share at the lower end, the others at one point.
    Two { share: f64, point: f64 },
    /// Towards both ends from the mean, by three deviations at most.
    Spread { mean: f64, std: f64 },
    /// Half of the way between even and spread.
    Both { mean: f64, std: f64 },
}

impl Law {
    /// For a bucket whose mean and spread are known.
    fn known(lower: f64, upper: f64, mean: f64, std: f64) -> Law {
        let width = upper - lower;
        let off = (mean - (lower + upper) / 2.0).abs() / width;
        match 4.0 * std / width {
            spread if spread < 0.01 => {
                let (variance, reach) = (std * std, mean - lower);
                Law::Two {
                    share: variance / (variance + reach * reach),
                    point: (mean + variance / reach).min(upper),
                }
            }
            spread if spread < 0.2 && off < 0.3 => Law::Both { mean, std },
            _ => Law::Spread { mean, std },
        }
    }
}

impl Part {
    fn within(&self, value: f64) -> f64 {
        value.max(self.lower).min(self.upper)
    }

    fn even(&self, share: f64, center: f64) -> f64 {
        let half = (self.upper - self.lower) / 2.0;
        self.within(center + half * (2.0 * share - 1.0))
    }

    fn spread(&self, share: f64, mean: f64, std: f64) -> f64 {
        let reach = match share < 0.5 {
            true => (mean - self.lower).min(3.0 * std),
            false => (self.upper - mean).min(3.0 * std),
        };
        self.within(mean + reach * (2.0 * share - 1.0))
    }

    fn value(&self, index: usize) -> f64 {
        let share = (float_len(index) + 0.5) / float_len(self.count);
        let value = match self.law {
            Law::Ends => {
                let step = (self.upper - self.lower) / float_len(self.count.max(2) - 1);
                self.lower + step * float_len(index)
            }
            Law::Even { center } => self.even(share, center),
            Law::Two { share, point } => {
                let is_low = index < floor_index(float_len(self.count) * share);
                if is_low { self.lower } else { point }
            }
            Law::Spread { mean, std } => self.spread(share, mean, std),
            Law::Both { mean, std } => {
                (self.even(share, mean) + self.spread(share, mean, std)) / 2.0
            }
        };
        self.within(value + self.shift)
    }

    fn sum(&self) -> f64 {
        (0..self.count).map(|index| self.value(index)).sum()
    }
}

/// Moves the values so that they come closer to their sum: each bucket in proportion to its own.
fn meet(sum: f64, parts: &mut [Part]) {
    let sums: Vec<f64> = parts.iter().map(Part::sum).collect();
    let laid: f64 = sums.iter().sum();
    if laid <= 0.0 || sum <= 0.0 || (sum - laid).abs() / sum < SUM_TOLERANCE {
        return;
    }
    for (part, own) in parts.iter_mut().zip(sums) {
        let most = (part.upper - part.lower) * MOVE_MAX;
        let shift = (sum - laid) * (own / laid) / float_len(part.count);
        part.shift = shift.max(-most).min(most);
    }
}

/// The value with so many below it.
fn nth(parts: &[Part], mut index: usize) -> f64 {
    for part in parts {
        if index < part.count {
            return part.value(index);
        }
        index -= part.count;
    }
    f64::NAN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buckets(bounds: &[f64], cumulative: &[f64]) -> Buckets {
        Buckets::new(bounds, cumulative).unwrap()
    }

    fn golden() -> Buckets {
        buckets(&[0.1, 0.5, 1.0, 5.0], &[10.0, 60.0, 90.0, 99.0, 100.0])
    }

    fn close(found: &[f64], want: &[f64], tolerance: f64) {
        let pairs = found.iter().zip(want);
        let far: Vec<_> = pairs.filter(|(a, b)| (*a - *b).abs() > tolerance).collect();
        assert!(far.is_empty() && found.len() == want.len(), "{far:?}");
    }

    #[test]
    fn percentiles_are_those_of_prometheus() {
        let found = [50.0, 75.0, 90.0, 95.0, 99.0].map(|p| golden().interpolated(p).unwrap());
        close(&found, &[0.42, 0.75, 1.0, 3.222_222, 5.0], 1e-6);
        assert_eq!(buckets(&[1.0], &[0.0, 0.0]).interpolated(50.0), None);
        assert_eq!(buckets(&[], &[5.0]).interpolated(50.0), None);
        assert_eq!(buckets(&[2.0], &[0.0, 5.0]).interpolated(1.0), Some(2.0));
    }

    #[test]
    fn estimates_are_those_of_aiperf() {
        let found = golden().estimated(75.0, &Learned::new(4)).unwrap();
        let want = [
            0.014_9, 0.054_5, 0.103_1, 0.222, 0.42, 0.745_83, 1.014_72, 3.022_22, 4.83,
        ];
        close(&found, &want, 5e-5);
    }

    /// The values of a run of AIPerf's; what its scrapes have taught is one number, sought here.
    #[test]
    fn estimates_with_a_learned_mean_are_those_of_aiperf() {
        let mut bounds = vec![0.075, 0.1, 0.25, 0.5];
        let latency = buckets(&bounds, &[0.0, 0.0, 18.0, 20.0, 20.0]);
        let mut learned = Learned::new(4);
        learned.push(&[0.0, 0.0, 1.0, 1.0, 1.0], 0.134_352);
        let found = latency.estimated(3.162_803_392, &learned).unwrap();
        let want = [
            0.1, 0.1, 0.1, 0.100_530, 0.138_207, 0.177_790, 0.210_686, 0.306_747, 0.401_747,
        ];
        close(&found, &want, 2e-5);
        bounds.truncate(0);
        assert_eq!(
            buckets(&bounds, &[3.0]).estimated(1.0, &Learned::new(0)),
            None
        );
    }

    #[test]
    fn what_lies_above_all_bounds_takes_the_rest_of_the_sum() {
        let learned = Learned::new(1);
        let tail = buckets(&[0.001], &[1.0, 2.0]);
        assert!(tail.estimated(100_000.0, &learned).unwrap()[8] > 1_000.0);
        let all = buckets(&[1.0], &[0.0, 4.0]);
        let found = all.estimated(20.0, &learned).unwrap();
        assert_eq!((found[4], found[8] <= 9.0), (5.0, true));
        // A sum too small for them cannot be right: they are above all the same.
        assert!(all.estimated(2.0, &learned).unwrap()[0] >= 1.0);
        assert_eq!(buckets(&[1.0], &[0.0, 0.0]).estimated(1.0, &learned), None);
        assert_eq!(all.estimated(0.0, &learned), Some([0.0; 9]));
        for sum in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(all.estimated(sum, &learned), None);
        }
    }

    #[test]
    fn a_bucket_is_learned_from_intervals_that_touch_no_other() {
        let mut learned = Learned::new(2);
        for (cumulative, sum) in [
            ([4.0, 4.0, 4.0], 4.0 * 0.2),
            ([1.0, 2.0, 2.0], 9.0),
            ([0.0, 0.0, 0.0], 0.0),
            ([2.0, 2.0, 2.0], 2.0 * 0.5),
        ] {
            learned.push(&cumulative, sum);
        }
        let mean = learned.0[0].mean(0.0, 1.0).unwrap();
        assert!((mean - 0.3).abs() < 1e-12 && learned.0[0].std().is_none());
        learned.push(&[1.0, 1.0, 1.0], 0.35);
        let std = learned.0[0].std().unwrap();
        assert!((std - 0.15).abs() < 1e-12, "{std}");
        assert_eq!(learned.0[1], Place::default());
    }

    #[test]
    fn what_does_not_fit_is_no_histogram() {
        assert_eq!(Buckets::new(&[1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(Buckets::new(&[1.0], &[1.0]), None);
        assert_eq!(Buckets::new(&[f64::INFINITY], &[1.0, 1.0]), None);
        assert_eq!(Buckets::new(&[1.0], &[f64::NAN, 1.0]), None);
    }

    proptest! {
        #[test]
        fn estimates_ascend_and_lie_in_buckets(
            steps in proptest::collection::vec((0.001f64..10.0, 0u32..200_000), 1..12),
            above in 0u32..50,
            sum in 0.0f64..1e7,
            taught in proptest::collection::vec((0usize..12, 0.0f64..40.0), 0..12),
        ) {
            let mut bound = -0.5;
            let bounds: Vec<f64> = steps.iter().map(|s| { bound += s.0; bound }).collect();
            let mut seen = 0.0;
            let mut cumulative: Vec<f64> = steps.iter().map(|s| { seen += f64::from(s.1); seen })
                .collect();
            cumulative.push(seen + f64::from(above));
            let mut learned = Learned::new(bounds.len());
            for (at, mean) in taught {
                let step = |i: usize| if i >= at { 1.0 } else { 0.0 };
                let delta: Vec<f64> = (0..=bounds.len()).map(step).collect();
                learned.push(&delta, mean);
            }
            let of = Buckets::new(&bounds, &cumulative).unwrap();
            if let Some(found) = of.estimated(sum, &learned) {
                prop_assert!(found.iter().all(|value| value.is_finite()), "{found:?}");
                prop_assert!(found.windows(2).all(|two| two[0] <= two[1] + 1e-9), "{found:?}");
            }
        }
    }
}
