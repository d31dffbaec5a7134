//! What a server can do at most: a ladder of closed loops whose throughput no longer grows.
//!
//! Means of whole runs with their standard errors; no largest value of a noisy series, which only
//! grows with the time that one looks. Source: inference-perf's pull request 711.

use super::confidence::t_quantile;
use super::course::WINDOW_REQUESTS_MIN;
use super::distribution::float_len;
use super::summary::{Figure, Summary};
use serde::{Deserialize, Serialize};

/// By how much requests in flight may differ from throughput times latency (Little's law).
pub const LITTLE_TOLERANCE: f64 = 0.1;
/// Growth of throughput per doubling of the load below which a server is full.
pub const GAIN_MIN: f64 = 0.05;
/// Rungs in a row of small gain that stand for one whose noise is known.
pub const SMALL_GAINS: usize = 2;
/// Where the knee is: a share of the capacity.
const KNEE_RATIO: f64 = 0.95;
/// One-sided confidence of a gain.
const CONFIDENCE: f64 = 0.95;

/// One closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Requests in flight.
    pub concurrency: u32,
    /// Requests per second in equal windows of the steady part of the run, one after the other.
    pub batches: Vec<f64>,
    /// Mean latency of a request, seconds.
    pub latency_s: f64,
    /// Successful requests.
    pub requests: u64,
}

impl Rung {
    /// Of a run in a closed loop: the windows of its course but the first, which holds the ramp.
    /// `None` without latencies, or with windows of too few requests.
    pub fn of(summary: &Summary, concurrency: u32) -> Option<Rung> {
        let windows = summary.client.course.windows.as_ref()?;
        if windows
            .iter()
            .any(|window| window.ended < WINDOW_REQUESTS_MIN)
        {
            return None;
        }
        let Figure::Distribution(latency) = &summary.metric("request_latency")?.figure else {
            return None;
        };
        Some(Rung {
            concurrency,
            batches: windows[1..].iter().map(|w| w.throughput_per_s).collect(),
            latency_s: latency.avg / 1e3,
            requests: latency.count,
        })
    }

    /// Requests per second: the mean of the batches; `None` without any.
    pub fn throughput_per_s(&self) -> Option<f64> {
        let count = self.batches.len();
        (count > 0).then(|| self.batches.iter().sum::<f64>() / float_len(count))
    }

    /// Standard error of that; `None` with fewer than two batches.
    pub fn std_error_per_s(&self) -> Option<f64> {
        let mean = self.throughput_per_s()?;
        let count = float_len(self.batches.len());
        let squares = self.batches.iter().map(|x| (x - mean) * (x - mean));
        (count >= 2.0).then(|| (squares.sum::<f64>() / (count - 1.0) / count).sqrt())
    }

    /// Throughput times latency over requests in flight: 1 in a closed loop that is measured right.
    pub fn little_ratio(&self) -> Option<f64> {
        Some(self.throughput_per_s()? * self.latency_s / f64::from(self.concurrency.max(1)))
    }

    /// Does Little's law hold, within its tolerance?
    pub fn is_consistent(&self) -> bool {
        let is_near = |ratio: f64| (ratio - 1.0).abs() <= LITTLE_TOLERANCE;
        self.little_ratio().is_some_and(is_near)
    }
}

/// Growth of throughput per doubling of the load from one rung to the next, and the most that it
/// may be, one-sided at 95 %; without an error of both, that is absent.
///
/// Range: -1 up; 0.05 is 5 %. `None` where one rung has no throughput.
pub fn gain(from: &Rung, to: &Rung) -> Option<(f64, Option<f64>)> {
    let (before, after) = (from.throughput_per_s()?, to.throughput_per_s()?);
    let doublings = (f64::from(to.concurrency) / f64::from(from.concurrency)).log2();
    if before <= 0.0 || doublings <= 0.0 {
        return None;
    }
    let per_doubling = |ratio: f64| ratio.max(0.0).powf(1.0 / doublings) - 1.0;
    let ratio = after / before;
    let most = from
        .std_error_per_s()
        .zip(to.std_error_per_s())
        .map(|(a, b)| {
            let relative = (a / before).hypot(if after > 0.0 { b / after } else { 0.0 });
            let freedom = from.batches.len() + to.batches.len() - 2;
            // Two-sided at 90 % is one-sided at 95 %.
            let errors = t_quantile(2.0 * CONFIDENCE - 1.0, float_len(freedom));
            per_doubling(ratio + errors * relative * ratio)
        });
    Some((per_doubling(ratio), most))
}

/// What a ladder came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Plateau {
    /// All rungs, by rising load.
    pub rungs: Vec<Rung>,
    /// The last doubling confidently brought less than [`GAIN_MIN`].
    pub is_saturated: bool,
    /// Requests per second that the server can do: the mean of the rungs on the plateau, each by
    /// its certainty. Not saturated, it is the last rung's, and the capacity is at least that.
    pub estimated_capacity: Option<f64>,
    /// Standard error of that; `None` where a rung has too few batches.
    pub std_error_per_s: Option<f64>,
    /// The least load that reaches 95 % of it.
    pub knee: Option<u32>,
}

impl Plateau {
    /// Reads a ladder. Rungs that contradict Little's law are shown and not used.
    pub fn of(rungs: Vec<Rung>) -> Plateau {
        let used: Vec<&Rung> = rungs.iter().filter(|rung| rung.is_consistent()).collect();
        let is_saturated = is_saturated(&rungs);
        let top = match used.as_slice() {
            [.., before, last] if is_saturated => match gain(before, last) {
                // More load makes it slower: what it did before counts.
                Some((fall, _)) if fall < -GAIN_MIN => vec![*before],
                _ => vec![*before, *last],
            },
            [.., last] => vec![*last],
            [] => Vec::new(),
        };
        let mean = pooled(&top);
        let reaches = |rung: &&&Rung| {
            let found = rung.throughput_per_s().zip(mean);
            found.is_some_and(|(own, (mean, _))| own >= KNEE_RATIO * mean)
        };
        let knee = used.iter().find(reaches).map(|rung| rung.concurrency);
        Plateau {
            is_saturated,
            estimated_capacity: mean.map(|(mean, _)| mean),
            std_error_per_s: mean.and_then(|(_, error)| error),
            knee: knee.filter(|_| is_saturated),
            rungs,
        }
    }
}

/// Has the throughput of these rungs ceased to grow, for sure?
pub fn is_saturated(rungs: &[Rung]) -> bool {
    let used: Vec<&Rung> = rungs.iter().filter(|rung| rung.is_consistent()).collect();
    let gains: Vec<_> = used
        .windows(2)
        .filter_map(|two| gain(two[0], two[1]))
        .collect();
    match gains.last() {
        Some((_, Some(most))) if *most < GAIN_MIN => true,
        // Twice below stands for once for sure.
        Some(_) if gains.len() >= SMALL_GAINS => {
            let last = &gains[gains.len() - SMALL_GAINS..];
            last.iter().all(|(gain, _)| *gain < GAIN_MIN)
        }
        _ => false,
    }
}

/// Mean of rungs by their certainty, where all have one, else plain; and its standard error.
fn pooled(rungs: &[&Rung]) -> Option<(f64, Option<f64>)> {
    let means: Vec<f64> = rungs.iter().filter_map(|r| r.throughput_per_s()).collect();
    let plain = (!means.is_empty()).then(|| means.iter().sum::<f64>() / float_len(means.len()))?;
    let errors: Option<Vec<f64>> = rungs.iter().map(|r| r.std_error_per_s()).collect();
    let Some(errors) = errors else {
        return Some((plain, None));
    };
    // Batches that agree by chance do not count without end.
    let weight = |error: &f64| 1.0 / error.max(1e-3 * plain).powi(2);
    let sum: f64 = errors.iter().map(weight).sum();
    let mean = means
        .iter()
        .zip(&errors)
        .map(|(mean, error)| mean * weight(error))
        .sum::<f64>();
    Some((mean / sum, Some(sum.sqrt().recip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(concurrency: u32, batches: &[f64]) -> Rung {
        let mean = batches.iter().sum::<f64>() / float_len(batches.len());
        Rung {
            concurrency,
            batches: batches.to_vec(),
            latency_s: f64::from(concurrency) / mean,
            requests: 100,
        }
    }

    #[test]
    fn a_rung_is_a_mean_an_error_and_a_law() {
        let mut one = rung(4, &[38.0, 40.0, 42.0]);
        assert_eq!(one.throughput_per_s(), Some(40.0));
        assert!((one.std_error_per_s().unwrap() - 1.1547).abs() < 1e-4);
        assert!(one.is_consistent());
        one.latency_s *= 0.8;
        assert!((one.little_ratio().unwrap() - 0.8).abs() < 1e-12 && !one.is_consistent());
        one.batches.clear();
        assert_eq!((one.throughput_per_s(), one.little_ratio()), (None, None));
        assert_eq!(rung(4, &[40.0]).std_error_per_s(), None);
    }

    #[test]
    fn a_gain_is_per_doubling_and_has_an_upper_end() {
        let (value, most) = gain(&rung(1, &[10.0, 10.0]), &rung(4, &[40.0, 40.0])).unwrap();
        assert!((value - 1.0).abs() < 1e-12 && (most.unwrap() - 1.0).abs() < 1e-12);
        let noisy = [
            rung(8, &[90.0, 110.0, 100.0]),
            rung(16, &[92.0, 112.0, 102.0]),
        ];
        let (value, most) = gain(&noisy[0], &noisy[1]).unwrap();
        assert!((value - 0.02).abs() < 1e-9 && most.unwrap() > 0.15);
        assert!(!is_saturated(&noisy));
    }

    #[test]
    fn the_capacity_is_that_of_the_plateau() {
        let all = vec![
            rung(1, &[10.0, 10.1, 9.9]),
            rung(2, &[20.0, 20.1, 19.9]),
            rung(4, &[38.0, 38.2, 37.8]),
            rung(8, &[50.0, 50.2, 49.8]),
            rung(16, &[50.5, 50.6, 50.4]),
        ];
        assert!(!is_saturated(&all[..4]) && is_saturated(&all));
        let found = Plateau::of(all.clone());
        let capacity = found.estimated_capacity.unwrap();
        assert!((50.0..50.6).contains(&capacity), "{capacity}");
        assert_eq!((found.is_saturated, found.knee), (true, Some(8)));
        assert!(found.std_error_per_s.unwrap() < 0.1);
        let open = Plateau::of(all[..3].to_vec());
        assert_eq!((open.is_saturated, open.knee), (false, None));
        assert!((open.estimated_capacity.unwrap() - 38.0).abs() < 1e-9);
        assert_eq!(Plateau::of(Vec::new()).estimated_capacity, None);
    }

    #[test]
    fn a_fall_is_a_plateau_and_a_rung_that_breaks_the_law_is_not_used() {
        let falls = vec![rung(8, &[50.0, 50.2, 49.8]), rung(16, &[30.0, 30.2, 29.8])];
        let found = Plateau::of(falls);
        assert!(found.is_saturated);
        assert!((found.estimated_capacity.unwrap() - 50.0).abs() < 1e-9);
        let mut broken = rung(16, &[80.0, 80.0]);
        broken.latency_s *= 3.0;
        let found = Plateau::of(vec![rung(8, &[50.0, 50.2, 49.8]), broken]);
        assert!(!found.is_saturated);
        assert!((found.estimated_capacity.unwrap() - 50.0).abs() < 1e-9);
        let single = |n: u32, x: f64| rung(n, &[x]);
        let two = [single(4, 50.0), single(8, 51.0)];
        assert!(!is_saturated(&two));
        assert!(is_saturated(&[
            single(4, 50.0),
            single(8, 51.0),
            single(16, 51.0)
        ]));
    }
}
