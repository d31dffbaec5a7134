//! Over-saturation of an open loop: is more due than the server takes?
//!
//! Two votes over the last three quarters of the run so far, and both must say so. *Trend*, after
//! GuideLLM's detector: requests in flight and the time to the first token both rise, by regression
//! against time. *Backlog*, after Little's law: more came than was done, by more than chance, and
//! more is in flight than the rate explains. Both are asked because each errs alone:
//! a start from empty looks like a backlog, and a queue at 95 % of its capacity wanders far.
//!
//! Knows no clock: whoever feeds it says when.

use super::distribution::float;
use crate::base::Ns;

/// Samples that are kept; beyond, every other one goes, and those to come are taken half as often.
const SAMPLES_MAX: usize = 512;
/// A run is not judged before this: less is its ramp.
const TIME_MIN: Ns = Ns::from_ms(5_000);
/// Nor with fewer points of time in the window: a regression through them would say anything.
const POINTS_MIN: usize = 8;
/// The window leaves this part of the run out at its front.
const FRONT: f64 = 0.25;
/// Requests that must be done by the window's begin: their time tells how long a request takes.
const BASE_REQUESTS_MIN: u64 = 5;
/// The run has lasted so many times as long as a request takes: before, the ramp goes on.
const TURNS_MIN: f64 = 4.0;
/// In flight at the end is so many times what the rate of the late half and that time explain.
const EXCESS_MIN: f64 = 1.5;
/// A request of the late half is so many times as long in flight as one of the early half: else it
/// is the rate that has come up.
const STAY_RATIO_MIN: f64 = 1.5;
/// The second half of the window adds at least this part of what the first does: a ramp that levels
/// off does not.
const STEADY_MIN: f64 = 0.5;
/// The late half's time to the first token over the early half's.
const TTFT_RATIO_MIN: f64 = 1.5;
/// Confidence that both rise, two-sided, as GuideLLM has it.
const TREND_CONFIDENCE: f64 = 0.95;
/// Confidence that requests in flight rise, of the other vote.
const BACKLOG_CONFIDENCE: f64 = 0.99;
/// What came beyond what was done, in standard deviations of the difference of two Poisson counts.
const SIGMAS_MIN: f64 = 3.0;

/// An over-saturated run, in figures of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saturation {
    /// From the first sample to the last.
    pub after: Ns,
    /// Length of the window, which ends with the last sample.
    pub window: Ns,
    /// Requests that came, per second.
    pub arrived_per_s: f64,
    /// Requests that were done, per second.
    pub done_per_s: f64,
    /// In flight at the window's begin.
    pub in_flight_first: u64,
    /// In flight at its end.
    pub in_flight_last: u64,
    /// Mean time to the first token in the early half of the window.
    pub ttft_early: Ns,
    /// The same in the late half.
    pub ttft_late: Ns,
}

/// Totals at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Seconds since the first sample.
    at: f64,
    in_flight: u64,
    arrived: u64,
    done: u64,
    ttft_ns: u64,
    ttft_count: u64,
    /// Requests in flight, summed over the seconds so far.
    busy: f64,
}

impl Sample {
    /// Requests that came beyond those that were done since `earlier`.
    fn growth(&self, earlier: &Sample) -> f64 {
        float(self.arrived - earlier.arrived) - float(self.done - earlier.done)
    }

    /// How long a request is in flight by Little's law, s, of those that came since `earlier`.
    fn stay(&self, earlier: &Sample) -> f64 {
        (self.busy - earlier.busy) / float(self.arrived - earlier.arrived)
    }

    /// Mean time to the first token, ns, and the number of requests, since `earlier`.
    fn ttft(&self, earlier: &Sample) -> Option<(f64, f64)> {
        let count = self.ttft_count - earlier.ttft_count;
        (count > 0).then(|| {
            let sum = self.ttft_ns.saturating_sub(earlier.ttft_ns);
            (float(sum) / float(count), float(count))
        })
    }
}

/// Judges a run as it goes on.
#[derive(Clone, Debug, Default)]
pub struct SaturationWatch {
    start: Option<Ns>,
    samples: Vec<Sample>,
    /// Of the samples offered one in `2^halvings` is kept.
    halvings: u32,
    offered: u64,
    last: Sample,
}

impl SaturationWatch {
    /// One that has seen nothing.
    pub fn new() -> SaturationWatch {
        SaturationWatch::default()
    }

    /// The state at a moment: requests in flight, and since any moment before the first sample,
    /// those that came, those that are done, and the first tokens with the sum of their times.
    /// Meant to be called some times a second; what is not later than the last sample is passed
    /// over.
    pub fn push(
        &mut self,
        at: Ns,
        in_flight: u64,
        arrived: u64,
        done: u64,
        ttft_sum: Ns,
        ttft_count: u64,
    ) {
        let start = *self.start.get_or_insert(at);
        let at = at.saturating_since(start).as_secs();
        let last = &self.last;
        if self.offered > 0 && at <= last.at {
            return;
        }
        let busy = last.busy + (at - last.at) * (float(last.in_flight) + float(in_flight)) / 2.0;
        self.last = Sample {
            at,
            in_flight,
            // Counters of other threads are read one after the other: none may seem to go back.
            arrived: arrived.max(last.arrived),
            done: done.max(last.done),
            ttft_ns: ttft_sum.0.max(last.ttft_ns),
            ttft_count: ttft_count.max(last.ttft_count),
            busy,
        };
        if self.offered.is_multiple_of(1 << self.halvings) {
            if self.samples.len() == SAMPLES_MAX {
                let mut index = 0;
                self.samples.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.halvings += 1;
            }
            self.samples.push(self.last);
        }
        self.offered += 1;
    }

    /// The figures, when the run so far is over-saturated.
    pub fn verdict(&self) -> Option<Saturation> {
        let last = self.last;
        if last.at < TIME_MIN.as_secs() {
            return None;
        }
        let begin = self
            .samples
            .partition_point(|sample| sample.at < FRONT * last.at);
        let (front, window) = self.samples.split_at(begin);
        let first = *window.first()?;
        if window.len() < POINTS_MIN {
            return None;
        }
        let half = first.at + (last.at - first.at) / 2.0;
        let half = window.partition_point(|sample| sample.at < half);
        let middle = *window.get(half)?;
        let seconds = last.at - first.at;
        let (early, late) = (middle.ttft(&first)?.0, last.ttft(&middle)?.0);
        let confidence = |points: &[Point]| rises(points, seconds);
        let busy = points(window, |_, sample| Some((float(sample.in_flight), 1.0)));
        let busy = confidence(&busy);
        let tokens = points(window, |before, sample| sample.ttft(before?));
        let trend = busy >= TREND_CONFIDENCE
            && confidence(&tokens) >= TREND_CONFIDENCE
            && late >= TTFT_RATIO_MIN * early;
        let backlog = busy >= BACKLOG_CONFIDENCE && has_backlog(front, &first, &middle, &last);
        (trend && backlog).then(|| Saturation {
            after: Ns::from_secs_f64(last.at),
            window: Ns::from_secs_f64(seconds),
            arrived_per_s: float(last.arrived - first.arrived) / seconds,
            done_per_s: float(last.done - first.done) / seconds,
            in_flight_first: first.in_flight,
            in_flight_last: last.in_flight,
            ttft_early: Ns::from_secs_f64(early / 1e9),
            ttft_late: Ns::from_secs_f64(late / 1e9),
        })
    }
}

/// More came than was done, and is in flight, than chance, a ramp and the rate explain.
fn has_backlog(front: &[Sample], first: &Sample, middle: &Sample, last: &Sample) -> bool {
    let (came, done) = (last.arrived - first.arrived, last.done - first.done);
    let growth = last.growth(first);
    let is_chance = growth < SIGMAS_MIN * float(came + done).sqrt();
    let levels_off = last.growth(middle) < STEADY_MIN * middle.growth(first);
    let Some(base) = base_latency(front.first(), front) else {
        return false;
    };
    let explained = float(last.arrived - middle.arrived) / (last.at - middle.at) * base;
    let excess = float(last.in_flight) >= EXCESS_MIN * explained;
    let stays = last.stay(middle) >= STAY_RATIO_MIN * middle.stay(first);
    !is_chance && !levels_off && excess && stays && last.at >= TURNS_MIN * base
}

/// How long a request takes, in seconds, before a backlog can have grown much: the time in flight
/// of all requests per one that is done (which holds for those still in flight, too), at the moment
/// when it is least.
fn base_latency(origin: Option<&Sample>, front: &[Sample]) -> Option<f64> {
    let origin = origin?;
    let each = front.iter().filter_map(|sample| {
        let done = sample.done - origin.done;
        (done >= BASE_REQUESTS_MIN).then(|| (sample.busy - origin.busy) / float(done))
    });
    each.min_by(f64::total_cmp)
}

/// x, y, weight.
type Point = (f64, f64, f64);

/// A value and its weight per sample, where there is one, against time.
fn points(
    window: &[Sample],
    value: impl Fn(Option<&Sample>, &Sample) -> Option<(f64, f64)>,
) -> Vec<Point> {
    let before = std::iter::once(None).chain(window.iter().map(Some));
    let pairs = before.zip(window);
    pairs
        .filter_map(|(before, sample)| {
            let (y, weight) = value(before, sample)?;
            Some((sample.at, y, weight))
        })
        .collect()
}

/// Confidence (two-sided) that the points rise, 0 where they do not. What lies within one second is
/// taken for one point: requests of the same second depend on each other.
fn rises(points: &[Point], seconds: f64) -> f64 {
    let sum = |f: &dyn Fn(&Point) -> f64| points.iter().map(f).sum::<f64>();
    let weight = sum(&|p| p.2);
    let (mean_x, mean_y) = (sum(&|p| p.0 * p.2) / weight, sum(&|p| p.1 * p.2) / weight);
    let xx = sum(&|p| p.2 * (p.0 - mean_x).powi(2));
    let slope = sum(&|p| p.2 * (p.0 - mean_x) * (p.1 - mean_y)) / xx;
    let rest = sum(&|p| p.2 * (p.1 - mean_y - slope * (p.0 - mean_x)).powi(2));
    let freedom = float(points.len() as u64).min(seconds.floor()) - 2.0;
    if !(slope > 0.0 && freedom >= 1.0) {
        return 0.0;
    }
    student(slope / (rest / freedom / xx).sqrt(), freedom)
}

/// The probability that Student's t of so many degrees of freedom, a whole number from 1, lies
/// within `-t..t` (the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn student(t: f64, freedom: f64) -> f64 {
    // Beyond, the normal law is as good.
    let freedom = freedom.min(1_000.0);
    let angle = (t / freedom.sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2.0 == 1.0;
    let (mut term, mut sum, mut k) = if is_odd {
        (cosine, if freedom > 1.0 { cosine } else { 0.0 }, 2.0)
    } else {
        (1.0, 1.0, 1.0)
    };
    while k < freedom - 2.0 {
        term *= cosine * cosine * k / (k + 1.0);
        sum += term;
        k += 2.0;
    }
    match is_odd {
        true => (angle + sine * sum) / std::f64::consts::FRAC_PI_2,
        false => sine * sum,
    }
}

#[cfg(test)]
#[path = "saturation_tests.rs"]
mod tests;
