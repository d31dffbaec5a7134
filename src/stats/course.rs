//! The course of a run: equal windows of its time, its waits for a slot, its slowest requests.

use super::distribution::float;
use super::record::Record;
use super::stages::Stages;
use crate::base::Ns;
use crate::base::limits::EXACT_REQUESTS_MAX;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Equal windows that a run is cut into. The first holds the ramp; the last three are compared, as
/// perf_analyzer does.
pub const WINDOWS: usize = 4;
/// Requests that a window needs for a judgement.
pub const WINDOW_REQUESTS_MIN: u64 = 5;
/// Slowest requests that are kept.
const SLOWEST: usize = 10;
/// The studentised range of three groups at 99 % confidence: chance makes no wider difference
/// between the means of three windows, in standard errors of one.
const RANGE_99: f64 = 4.12;

/// One of the equal windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Valid requests that ended in it.
    pub ended: u64,
    /// The same per second.
    pub throughput_per_s: f64,
    /// Mean latency of those, from start, ms.
    pub latency_ms: Option<f64>,
    /// Requests that were due in it.
    pub due: u64,
    /// Mean time from due to done of those, ms; failures too: they wait as well.
    pub due_to_done_ms: Option<f64>,
}

/// How the last three windows differ; 1 where chance explains the difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Largest throughput over the smallest.
    pub throughput_ratio: f64,
    /// The same of the mean latencies.
    pub latency_ratio: f64,
}

/// Waits for a slot in a capped open loop, over all measured requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotWaits {
    /// Measured requests.
    pub requests: u64,
    /// Those that waited.
    pub waited: u64,
    /// Together.
    pub sum: Ns,
    /// The longest.
    pub max: Ns,
}

impl SlotWaits {
    /// Mean wait of those that waited.
    pub fn mean(&self) -> Ns {
        Ns(self.sum.0.checked_div(self.waited).unwrap_or(0))
    }
}

/// One of the slowest requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Number in the run.
    pub index: u64,
    /// Its `X-Request-ID`.
    pub request_id: u128,
    /// Where its time went.
    pub stages: Stages,
}

/// What the records say about the course.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// From the first start to the last; absent beyond the exact limit.
    pub windows: Option<[Window; WINDOWS]>,
    /// Between the last three windows; `None` without enough requests in each.
    pub drift: Option<Drift>,
    /// By how much the time from due to done grows per second of the run, when it does so through
    /// the last three windows and by more than chance. Of a rate r the server takes r / (1 + it).
    pub growth: Option<f64>,
    /// Waits for a slot.
    pub slot_waits: SlotWaits,
    /// The slowest valid requests from due to done, slowest first.
    pub slowest: Vec<Slow>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
struct Point {
    due: Ns,
    start: Ns,
    /// Absent for a failure.
    end: Option<Ns>,
    done: Ns,
}

/// Gathers the course from measured records, in any order.
#[derive(Debug, Default)]
pub(super) struct Gather {
    points: Vec<Point>,
    slot_waits: SlotWaits,
    /// Time, number, id, stages: the least of them on top.
    slowest: BinaryHeap<Reverse<(Ns, u64, u128, Stages)>>,
}

impl Gather {
    pub fn push(&mut self, record: &Record) {
        let waits = &mut self.slot_waits;
        let wait = record.slot.saturating_since(record.due);
        waits.requests += 1;
        waits.waited += u64::from(wait > Ns::ZERO);
        waits.sum = waits.sum + wait;
        waits.max = waits.max.max(wait);
        // One over the limit tells that the points are not all.
        if self.points.len() <= EXACT_REQUESTS_MAX {
            self.points.push(Point {
                due: record.due,
                start: record.start,
                end: record.end().filter(|_| record.is_valid()),
                done: record.done,
            });
        }
        if record.is_valid() {
            let stages = Stages::of(record);
            let total = stages.total();
            let least = self.slowest.peek().map(|Reverse(least)| least.0);
            if self.slowest.len() < SLOWEST || least.is_some_and(|least| total > least) {
                let slow = (total, record.index, record.request_id, stages);
                self.slowest.push(Reverse(slow));
            }
            if self.slowest.len() > SLOWEST {
                self.slowest.pop();
            }
        }
    }

    pub fn finish(self) -> Course {
        let sorted = self.slowest.into_sorted_vec().into_iter();
        let slowest = sorted.map(|Reverse((_, index, request_id, stages))| Slow {
            index,
            request_id,
            stages,
        });
        let cut = Cut::of(&self.points);
        let latencies = cut.as_ref().map(|cut| cut.latencies(&self.points));
        let waits = cut.as_ref().map(|cut| cut.waits(&self.points));
        let both = cut.zip(latencies.as_ref()).zip(waits.as_ref());
        Course {
            windows: both.map(|((cut, latencies), waits)| cut.windows(latencies, waits)),
            drift: both.and_then(|((_, latencies), _)| drift(latencies, &self.points)),
            growth: both.and_then(|((cut, _), waits)| growth(cut.width_ms, waits)),
            slot_waits: self.slot_waits,
            slowest: slowest.collect(),
        }
    }
}

/// The values of one window, summed up.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / float(self.count))
    }

    /// Squared standard error of the mean.
    fn error_squared(&self) -> f64 {
        let (n, mean) = (float(self.count), self.mean().unwrap_or(0.0));
        (self.squares / n - mean * mean).max(0.0) / (n - 1.0).max(1.0)
    }
}

/// How the time of sending is cut: what follows the last start only drains.
#[derive(Clone, Copy, Debug)]
struct Cut {
    from: Ns,
    to: Ns,
    width_ms: f64,
}

impl Cut {
    fn of(points: &[Point]) -> Option<Cut> {
        let starts = || points.iter().map(|point| point.start);
        let (from, to) = (starts().min()?, starts().max()?);
        let width_ms = to.since(from).filter(|span| span.0 > 0)?.as_ms() / 4.0;
        (points.len() <= EXACT_REQUESTS_MAX).then_some(Cut { from, to, width_ms })
    }

    /// The window of a moment; the last one has its end.
    fn window(&self, at: Ns) -> Option<usize> {
        let past = at.since(self.from).filter(|_| at <= self.to)?.as_ms();
        (1..=WINDOWS)
            .find(|&n| past < self.width_ms * float(n as u64) || n == WINDOWS)
            .map(|n| n - 1)
    }

    fn sums(&self, values: impl Iterator<Item = (Ns, f64)>) -> [Sum; WINDOWS] {
        let mut sums = [Sum::default(); WINDOWS];
        for (at, value) in values {
            if let Some(window) = self.window(at) {
                sums[window].add(value);
            }
        }
        sums
    }

    /// From start, by the window in which each ended.
    fn latencies(&self, points: &[Point]) -> [Sum; WINDOWS] {
        let ended = points.iter().filter_map(|point| Some((point.end?, point)));
        self.sums(ended.map(|(end, point)| (end, end.saturating_since(point.start).as_ms())))
    }

    /// From due, by the window in which each was due.
    fn waits(&self, points: &[Point]) -> [Sum; WINDOWS] {
        let each = |point: &Point| (point.due, point.done.saturating_since(point.due).as_ms());
        self.sums(points.iter().map(each))
    }

    fn windows(&self, latencies: &[Sum; WINDOWS], waits: &[Sum; WINDOWS]) -> [Window; WINDOWS] {
        std::array::from_fn(|at| Window {
            ended: latencies[at].count,
            throughput_per_s: float(latencies[at].count) / (self.width_ms / 1e3),
            latency_ms: latencies[at].mean(),
            due: waits[at].count,
            due_to_done_ms: waits[at].mean(),
        })
    }
}

/// The means of the last three windows, when each has enough.
fn last_three(sums: &[Sum; WINDOWS]) -> Option<([f64; 3], f64)> {
    let last = &sums[WINDOWS - 3..];
    let enough = last.iter().all(|sum| sum.count >= WINDOW_REQUESTS_MIN);
    let means = [last[0].mean()?, last[1].mean()?, last[2].mean()?];
    let error = last.iter().map(Sum::error_squared).sum::<f64>() / 3.0;
    enough.then_some((means, error.sqrt()))
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(0.0, f64::max))
}

/// What differs between the last three windows by more than chance and waves explain.
fn drift(latencies: &[Sum; WINDOWS], points: &[Point]) -> Option<Drift> {
    let (means, error) = last_three(latencies)?;
    let (low, high) = ends(&means);
    let ratio = |is_chance: bool, high: f64, low: f64| if is_chance { 1.0 } else { high / low };
    let latency_ratio = ratio(high - low <= RANGE_99 * error || low == 0.0, high, low);
    let counts: Vec<f64> = latencies[1..].iter().map(|sum| float(sum.count)).collect();
    let (low, high) = ends(&counts);
    // Requests that began together end together: a window's edge may cut a wave off.
    let wave = float(most_in_flight(points));
    let chance = RANGE_99 * (counts.iter().sum::<f64>() / 3.0).sqrt();
    let throughput_ratio = ratio(high - low <= chance.max(wave), high, low);
    Some(Drift {
        throughput_ratio,
        latency_ratio,
    })
}

fn most_in_flight(points: &[Point]) -> u64 {
    let mut steps: Vec<(Ns, i64)> = Vec::with_capacity(2 * points.len());
    for point in points {
        steps.push((point.start, 1));
        steps.push((point.done.max(point.start), -1));
    }
    steps.sort_unstable();
    let sums = steps.iter().scan(0i64, |sum, (_, step)| {
        *sum += step;
        Some(*sum)
    });
    u64::try_from(sums.max().unwrap_or(0)).unwrap_or(0)
}

/// See [`Course::growth`]. Little's law: the backlog is the rate times the time from due to done,
/// so the one grows as the other does, and that one does not depend on how long answers take.
fn growth(width_ms: f64, waits: &[Sum; WINDOWS]) -> Option<f64> {
    let ([first, middle, last], error) = last_three(waits)?;
    let grows = first < middle && middle < last && last - first > RANGE_99 * error;
    grows.then(|| (last - first) / (2.0 * width_ms))
}
