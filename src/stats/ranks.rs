//! Do two samples come from one law? By ranks alone, whatever that law may be.
//!
//! Both tests take values as independent of each other. Requests of one run are not quite: their
//! p is then too small, and the interval of `bootstrap` is what to believe.

use super::confidence::normal_two_sided;
use super::distribution::{float, float_len};

/// What Mann and Whitney's test says of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Pairs of a value of A and one of B in which A's is the greater; a tie is half a pair.
    pub u: f64,
    /// Standard errors from what two equal laws would give, after the correction for continuity.
    pub z: f64,
    /// How often two equal laws differ by as much or more; two-sided.
    pub p: f64,
    /// Chance that a value of A is below one of B, a tie counted as a half: 0.5 of equal laws, 1
    /// when all of A lies below all of B.
    pub below_ratio: f64,
}

/// Mann and Whitney's test, by the normal approximation with corrections for ties and continuity.
///
/// Shape: any order; NaN is left out; `None` when either sample is empty. Cost: one sort.
/// Range: the approximation is good from about 8 values each.
/// Source: Mann and Whitney 1947; scipy's `mannwhitneyu(method="asymptotic")` gives the same.
///
/// ```
/// use tokenring::stats::ranks::mann_whitney;
/// let found = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
/// assert_eq!((found.u, found.below_ratio), (0.0, 1.0));
/// ```
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    let (a, b) = (sorted(a), sorted(b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (n, m) = (float_len(a.len()), float_len(b.len()));
    let (mut above, mut ties) = (0.0, 0.0);
    for group in Groups::of(&a, &b) {
        // A's values of this group beat B's of all groups before, and tie with B's of this one.
        let (own, other) = (float_len(group.in_a), float_len(group.in_b));
        above += own * (float_len(group.b_before) + other / 2.0);
        let size = own + other;
        ties += (size * size - 1.0) * size;
    }
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    let gap = above - n * m / 2.0;
    let z = if variance > 0.0 {
        (gap.abs() - 0.5).max(0.0).copysign(gap) / variance.sqrt()
    } else {
        0.0
    };
    Some(MannWhitney {
        u: above,
        z,
        p: normal_two_sided(z),
        below_ratio: 1.0 - above / (n * m),
    })
}

/// What Kolmogorov and Smirnov's test says of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KolmogorovSmirnov {
    /// Greatest distance between the two distribution functions, 0 to 1.
    pub distance: f64,
    /// How often two equal laws are as far apart or further.
    pub p: f64,
}

/// Cells of the table by which small samples get an exact p; beyond, the limit law's error is
/// below 1 %.
const EXACT_CELLS_MAX: usize = 1_000_000;

/// Kolmogorov and Smirnov's test of two samples.
///
/// Shape: any order; NaN is left out; `None` when either sample is empty. Cost: one sort, and one
/// table of n times m cells when it has at most a million. Ties make p larger than it is, not
/// smaller.
/// Source: Hodges 1957 (exact); Stephens 1970 (the limit law at finite counts).
///
/// ```
/// use tokenring::stats::ranks::kolmogorov_smirnov;
/// let found = kolmogorov_smirnov(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
/// // Two of the six ways to mix two and two keep them apart.
/// assert_eq!(found.distance, 1.0);
/// assert!((found.p - 2.0 / 6.0).abs() < 1e-12);
/// ```
pub fn kolmogorov_smirnov(a: &[f64], b: &[f64]) -> Option<KolmogorovSmirnov> {
    let (a, b) = (sorted(a), sorted(b));
    let (n, m) = (a.len() as u64, b.len() as u64);
    if n == 0 || m == 0 {
        return None;
    }
    // In units of 1 / (n m), where it is a whole number.
    let mut gap = 0;
    for group in Groups::of(&a, &b) {
        let past_a = (group.a_before + group.in_a) as u64;
        let past_b = (group.b_before + group.in_b) as u64;
        gap = gap.max((past_a * m).abs_diff(past_b * n));
    }
    let distance = float(gap) / (float(n) * float(m));
    let is_small = a.len().saturating_mul(b.len()) <= EXACT_CELLS_MAX;
    let p = if is_small {
        exact_p(a.len(), b.len(), gap)
    } else {
        let root = (float(n) * float(m) / (float(n) + float(m))).sqrt();
        limit_p((root + 0.12 + 0.11 / root) * distance)
    };
    Some(KolmogorovSmirnov { distance, p })
}

/// One less the share of the ways to mix n and m values that never are `gap` apart.
fn exact_p(n: usize, m: usize, gap: u64) -> f64 {
    let mut row = vec![0.0f64; m + 1];
    for i in 0..=n {
        for j in 0..=m {
            let apart = (i as u64 * m as u64).abs_diff(j as u64 * n as u64);
            row[j] = if apart >= gap {
                0.0
            } else if i + j == 0 {
                1.0
            } else {
                let left = if j > 0 { row[j - 1] } else { 0.0 };
                let (from_a, from_b) = (float_len(i), float_len(j));
                (row[j] * from_a + left * from_b) / (from_a + from_b)
            };
        }
    }
    (1.0 - row[m]).clamp(0.0, 1.0)
}

/// Share of Kolmogorov's law above `x`.
fn limit_p(x: f64) -> f64 {
    // Below, the series converges slowly and is 1 to ten digits.
    if x < 0.2 {
        return 1.0;
    }
    let (mut sum, mut sign) = (0.0, 1.0);
    for k in 1..=100 {
        let k = f64::from(k);
        let term = (-2.0 * k * k * x * x).exp();
        sum += sign * term;
        sign = -sign;
        if term < 1e-18 {
            break;
        }
    }
    (2.0 * sum).clamp(0.0, 1.0)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    out.sort_unstable_by(f64::total_cmp);
    out
}

/// Equal values of two sorted samples.
struct Group {
    in_a: usize,
    in_b: usize,
    a_before: usize,
    b_before: usize,
}

/// The groups of two sorted samples, ascending.
struct Groups<'a> {
    a: &'a [f64],
    b: &'a [f64],
    at: (usize, usize),
}

impl<'a> Groups<'a> {
    fn of(a: &'a [f64], b: &'a [f64]) -> Groups<'a> {
        Groups { a, b, at: (0, 0) }
    }
}

impl Iterator for Groups<'_> {
    type Item = Group;

    fn next(&mut self) -> Option<Group> {
        let (a, b) = (&self.a[self.at.0..], &self.b[self.at.1..]);
        let value = match (a.first(), b.first()) {
            (Some(a), Some(b)) => a.min(*b),
            (Some(one), None) | (None, Some(one)) => *one,
            (None, None) => return None,
        };
        let same = |of: &[f64]| of.iter().take_while(|other| **other == value).count();
        let group = Group {
            in_a: same(a),
            in_b: same(b),
            a_before: self.at.0,
            b_before: self.at.1,
        };
        self.at = (self.at.0 + group.in_a, self.at.1 + group.in_b);
        Some(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Rng, Stream};
    use proptest::prelude::*;

    #[test]
    fn mann_whitney_is_scipys() {
        // The example of scipy's own page, and one with ties worked by hand.
        let males = [19.0, 22.0, 16.0, 29.0, 24.0];
        let females = [20.0, 11.0, 17.0, 12.0];
        let found = mann_whitney(&males, &females).unwrap();
        assert_eq!(found.u, 17.0);
        assert!(
            (found.p - 0.111_346_886_533_140_41).abs() < 1e-9,
            "{}",
            found.p
        );
        assert!((found.below_ratio - 3.0 / 20.0).abs() < 1e-12);
        // Groups of 2, 3 and 1: ties 6 + 24 + 0; variance 9/12 * (7 - 30/30) = 4.5; the gap is 2.
        let found = mann_whitney(&[1.0, 2.0, 2.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(found.u, 3.5);
        assert!(
            (found.z - -0.5 / 4.5f64.sqrt()).abs() < 1e-12,
            "{}",
            found.z
        );
    }

    #[test]
    fn equal_values_everywhere_are_no_difference() {
        let found = mann_whitney(&[5.0; 10], &[5.0; 20]).unwrap();
        assert_eq!((found.p, found.below_ratio), (1.0, 0.5));
        assert_eq!(mann_whitney(&[f64::NAN], &[1.0]), None);
        assert_eq!(kolmogorov_smirnov(&[], &[1.0]), None);
    }

    /// P of a distance as great or greater, over every way to mix n and m.
    fn brute(n: usize, m: usize, distance: f64) -> f64 {
        let all = n + m;
        let (mut hits, mut ways) = (0u32, 0u32);
        for mask in (0u32..1 << all).filter(|mask| mask.count_ones() as usize == n) {
            let (mut i, mut j, mut greatest) = (0, 0, 0.0f64);
            for at in 0..all {
                if mask >> at & 1 == 1 {
                    i += 1
                } else {
                    j += 1
                }
                let gap = float_len(i) / float_len(n) - float_len(j) / float_len(m);
                greatest = greatest.max(gap.abs());
            }
            ways += 1;
            hits += u32::from(greatest > distance - 1e-9);
        }
        f64::from(hits) / f64::from(ways)
    }

    #[test]
    fn small_samples_get_the_share_of_all_ways_to_mix_them() {
        let mut rng = Rng::new(1, Stream::Test, 0);
        for (n, m) in [(1, 1), (2, 5), (4, 4), (6, 7), (9, 3)] {
            let mut draw = |count: usize| (0..count).map(|_| rng.unit()).collect::<Vec<_>>();
            let found = kolmogorov_smirnov(&draw(n), &draw(m)).unwrap();
            let expected = brute(n, m, found.distance);
            assert!((found.p - expected).abs() < 1e-12, "{n} {m}: {}", found.p);
        }
    }

    #[test]
    fn the_limit_law_meets_the_exact_one() {
        // Tabled: 1.3581 cuts off 5 %, 1.6276 cuts off 1 %.
        assert!((limit_p(1.358_1) - 0.05).abs() < 1e-5);
        assert!((limit_p(1.627_6) - 0.01).abs() < 1e-5);
        let (n, m) = (900u64, 1_000u64);
        let root = (float(n) * float(m) / float(n + m)).sqrt();
        for gap in [n * m / 25, n * m / 20, n * m / 15] {
            let distance = float(gap) / float(n * m);
            let limit = limit_p((root + 0.12 + 0.11 / root) * distance);
            let exact = exact_p(900, 1_000, gap);
            assert!((limit - exact).abs() < 0.01, "{distance}: {limit}, {exact}");
        }
    }

    #[test]
    fn equal_laws_are_refused_as_often_as_p_says() {
        let (mut by_ranks, mut by_distance) = (0, 0);
        for trial in 0..2_000 {
            let mut rng = Rng::new(trial, Stream::Test, 3);
            let mut draw = |count: usize| (0..count).map(|_| rng.exponential()).collect::<Vec<_>>();
            let (a, b) = (draw(30), draw(40));
            by_ranks += u32::from(mann_whitney(&a, &b).unwrap().p < 0.05);
            by_distance += u32::from(kolmogorov_smirnov(&a, &b).unwrap().p < 0.05);
        }
        // 100 of 2,000 are expected; six standard errors are 58. Steps of the distance cost some.
        assert!((50..150).contains(&by_ranks), "{by_ranks}");
        assert!((40..150).contains(&by_distance), "{by_distance}");
    }

    proptest! {
        #[test]
        fn ranks_see_only_order(
            a in prop::collection::vec(0..20i32, 1..60),
            b in prop::collection::vec(0..20i32, 1..60),
        ) {
            let of = |v: &[i32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let bent = |v: &[f64]| v.iter().map(|v| (v / 3.0).exp()).collect::<Vec<_>>();
            let (a, b) = (of(&a), of(&b));
            let found = mann_whitney(&a, &b).unwrap();
            prop_assert_eq!(found, mann_whitney(&bent(&a), &bent(&b)).unwrap());
            let back = mann_whitney(&b, &a).unwrap();
            prop_assert_eq!(found.p, back.p);
            prop_assert_eq!(found.u + back.u, float_len(a.len() * b.len()));
            let mut pairs = 0.0;
            for x in &a {
                pairs += b.iter().map(|y| if x > y { 1.0 } else if x == y { 0.5 } else { 0.0 })
                    .sum::<f64>();
            }
            prop_assert_eq!(found.u, pairs);
            let (one, other) = (kolmogorov_smirnov(&a, &b), kolmogorov_smirnov(&b, &a));
            let (one, other) = (one.unwrap(), other.unwrap());
            prop_assert_eq!(one.distance, other.distance);
            prop_assert!((one.p - other.p).abs() < 1e-9 && (0.0..=1.0).contains(&one.p));
        }
    }
}
