//! The laws, against what they promise.

use super::*;
use proptest::prelude::*;

fn renewal(gaps: Gaps, rate: f64, seed: u64) -> Law {
    Law::Renewal {
        gaps,
        curve: Curve::flat(rate),
        seed,
        stretch: 1.0,
    }
}

fn times(law: &Law, count: u64) -> Vec<Ns> {
    let mut arrivals = Arrivals::new(law.clone(), 0, false);
    (0..count).map_while(|index| arrivals.due(index)).collect()
}

fn gaps_s(due: &[Ns]) -> Vec<f64> {
    let gap = |pair: &[Ns]| pair[1].since(pair[0]).unwrap().as_secs();
    due.windows(2).map(gap).collect()
}

/// Kolmogorov-Smirnov: the distance between values and a law, in units of its bound at 1 %.
fn distance(mut values: Vec<f64>, law: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let far = |(i, x): (usize, &f64)| {
        let (below, above) = (i as f64 / n, (i + 1) as f64 / n);
        (law(*x) - below).abs().max((law(*x) - above).abs())
    };
    let most = values.iter().enumerate().map(far).fold(0.0, f64::max);
    most * n.sqrt() / 1.63
}

/// Gamma's distribution for a whole shape (Erlang), of mean 1.
fn erlang(shape: u32, x: f64) -> f64 {
    let y = x * f64::from(shape);
    let mut term = 1.0;
    let mut sum = 1.0;
    for n in 1..shape {
        term *= y / f64::from(n);
        sum += term;
    }
    1.0 - (-y).exp() * sum
}

#[test]
fn constant_gaps_do_not_drift() {
    let due = times(&renewal(Gaps::Constant, 200.0, 0), 10_000);
    assert_eq!((due[0], due[9_999]), (Ns::ZERO, Ns(49_995_000_000)));
    // A day at 1000/s: the last is where it belongs, to the nanosecond.
    let mut day = Arrivals::new(renewal(Gaps::Constant, 1_000.0, 0), 0, false);
    assert_eq!(day.due(86_400_000 - 1), Some(Ns(86_399_999_000_000)));
}

#[test]
fn each_law_has_its_distribution() {
    let n = 10_000;
    let of = |gaps| gaps_s(&times(&renewal(gaps, 200.0, 42), n));
    let scaled = |gaps| of(gaps).iter().map(|gap| gap * 200.0).collect::<Vec<_>>();
    assert!(distance(scaled(Gaps::Exponential), |x| 1.0 - (-x).exp()) < 1.0);
    for shape in [1, 2, 4, 9] {
        let gaps = Gaps::Gamma {
            shape: f64::from(shape),
        };
        assert!(
            distance(scaled(gaps), |x| erlang(shape, x)) < 1.0,
            "{shape}"
        );
    }
    // A half: the square of a normal; its distribution is erf, checked by its spread.
    for shape in [0.25, 0.5] {
        let gaps = scaled(Gaps::Gamma { shape });
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.06, "{shape}: {mean}");
        assert!(
            (variance.sqrt() * shape.sqrt() - 1.0).abs() < 0.1,
            "{shape}: {variance}"
        );
    }
    // The law, not another: exponential gaps fail Erlang's test by far.
    assert!(distance(scaled(Gaps::Exponential), |x| erlang(2, x)) > 5.0);
}

#[test]
fn poisson_counts_in_equal_times_are_poisson() {
    // Chi-square of counts in 2,000 slots of 5 expected each.
    let due = times(&renewal(Gaps::Exponential, 100.0, 9), 10_000);
    let slot = |at: &Ns| (at.as_secs() / 0.05) as usize;
    let mut counts = vec![0u32; slot(&due[9_999])];
    for at in due
        .iter()
        .filter(|at| slot(at) < counts.len())
        .map(slot)
        .collect::<Vec<_>>()
    {
        counts[at] += 1;
    }
    let mut seen = [0.0; 12];
    for &count in &counts {
        seen[(count as usize).min(11)] += 1.0;
    }
    let n = counts.len() as f64;
    let mut rest = 1.0;
    let mut chance = (-5.0f64).exp();
    let mut chi = 0.0;
    for (k, seen) in seen.iter().enumerate() {
        let p = if k == 11 { rest } else { chance };
        chi += (seen - n * p).powi(2) / (n * p);
        rest -= chance;
        chance *= 5.0 / (k as f64 + 1.0);
    }
    // 11 degrees of freedom: 24.7 at 1 %.
    assert!(chi < 24.7, "{chi}");
}

#[test]
fn a_rate_that_moves_keeps_its_law_in_its_own_time() {
    let curve = Curve::series(&[(0.0, 20.0), (10.0, 200.0), (20.0, 50.0)]);
    let law = Law::Renewal {
        gaps: Gaps::Exponential,
        curve,
        seed: 5,
        stretch: 1.0,
    };
    let due = times(&law, 2_300);
    // 1,100 are expected in the first ten seconds, 1,250 in the next.
    let by = |s: f64| due.iter().filter(|at| at.as_secs() < s).count() as f64;
    assert!((by(10.0) - 1_100.0).abs() < 4.0 * 1_100f64.sqrt());
    assert!((by(5.0) - 325.0).abs() < 4.0 * 325f64.sqrt());
    // Warped back, gaps are exponential.
    let back = |at: &Ns| match at.as_secs() {
        t if t < 10.0 => 20.0 * t + 9.0 * t * t,
        t => 1_100.0 + 200.0 * (t - 10.0) - 7.5 * (t - 10.0).powi(2),
    };
    let back: Vec<f64> = due
        .iter()
        .filter(|at| at.as_secs() < 20.0)
        .map(back)
        .collect();
    let gaps = back.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(distance(gaps, |x| 1.0 - (-x).exp()) < 1.0);
}

#[test]
fn a_normalized_schedule_has_its_length_exactly_and_an_honest_one_has_not() {
    let honest = renewal(Gaps::Gamma { shape: 0.5 }, 10.0, 3);
    let last = |law: &Law| times(law, 500)[499].as_secs();
    assert!((last(&honest.clone().normalized(500)) - 50.0).abs() < 1e-6);
    assert!((last(&honest) - 50.0).abs() > 1e-3);
}

#[test]
fn a_phase_that_carries_on_begins_at_once_and_has_the_gaps_of_one_long_schedule() {
    let law = renewal(Gaps::Exponential, 10.0, 1);
    let whole = times(&law, 20);
    let mut rest = Arrivals::new(law, 8, true);
    for index in 0..12 {
        let expected = whole[8 + index].saturating_since(whole[8]);
        let found = rest.due(index as u64).unwrap();
        assert!(
            found.0.abs_diff(expected.0) <= 2,
            "{index}: {found:?} {expected:?}"
        );
    }
}

#[test]
fn laws_end_where_their_times_do() {
    let law = Law::Times(Arc::from([Ns(0), Ns(5), Ns(5)]));
    assert_eq!(times(&law, 10), [Ns(0), Ns(5), Ns(5)]);
    assert_eq!(times(&Law::Burst, 3), [Ns::ZERO; 3]);
}

proptest! {
    #[test]
    fn a_core_that_reads_only_some_of_the_times_reads_the_same(
        seed: u64,
        shape in 0.1f64..20.0,
        steps in proptest::collection::vec(1u64..50, 1..20),
    ) {
        for gaps in [Gaps::Constant, Gaps::Exponential, Gaps::Gamma { shape }] {
            let law = renewal(gaps, 100.0, seed);
            let all = times(&law, 1_000);
            let mut some = Arrivals::new(law, 0, false);
            let mut index = 0;
            for step in &steps {
                index += step;
                prop_assert_eq!(some.due(index), Some(all[index as usize]));
                prop_assert_eq!(some.due(index), Some(all[index as usize]));
            }
        }
    }

    #[test]
    fn times_never_step_back(seed: u64, rate in 1e-3f64..1e6, shape in 0.05f64..50.0) {
        for gaps in [Gaps::Constant, Gaps::Exponential, Gaps::Gamma { shape }] {
            let due = times(&renewal(gaps, rate, seed), 200);
            prop_assert!(due.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}
