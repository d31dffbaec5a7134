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
    /// From the first start to the last, since what follows only drains; absent beyond the exact
    /// limit.
    pub windows: Option<[Window; WINDOWS]>,
    /// Between the last three windows; `None` without enough requests in each.
    pub drift: Option<Drift>,
    /// By how much the time from due to done grows, in seconds per second of the schedule, when it
    /// does so through the last three windows of that and by more than chance. Failures count: they
    /// wait as well. Of a rate r the server takes r / (1 + it).
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
        let points = &self.points;
        let sent = Cut::of(points, |point| point.start);
        let latencies = sent.map(|cut| cut.latencies(points));
        let scheduled = Cut::of(points, |point| point.due);
        Course {
            windows: sent.zip(latencies).map(|(cut, sums)| cut.windows(&sums)),
            drift: latencies.and_then(|sums| drift(&sums, points)),
            growth: scheduled.and_then(|cut| growth(cut.width_ms, &cut.waits(points))),
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

/// How a time is cut into windows.
#[derive(Clone, Copy, Debug)]
struct Cut {
    from: Ns,
    to: Ns,
    width_ms: f64,
}

impl Cut {
    /// From the first of these moments to the last; absent when the points are not all.
    fn of(points: &[Point], moment: fn(&Point) -> Ns) -> Option<Cut> {
        let moments = || points.iter().map(moment);
        let (from, to) = (moments().min()?, moments().max()?);
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

    fn windows(&self, latencies: &[Sum; WINDOWS]) -> [Window; WINDOWS] {
        latencies.map(|sum| Window {
            ended: sum.count,
            throughput_per_s: float(sum.count) / (self.width_ms / 1e3),
            latency_ms: sum.mean(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A request: due, start and done in ms.
    fn record(index: u64, due: u64, start: u64, done: u64) -> Record {
        Record {
            index,
            due: Ns::from_ms(due),
            slot: Ns::from_ms(start),
            start: Ns::from_ms(start),
            last_content: Some(Ns::from_ms(done)),
            done: Ns::from_ms(done),
            ..Record::default()
        }
    }

    fn course(records: impl IntoIterator<Item = Record>) -> Course {
        let mut gather = Gather::default();
        records.into_iter().for_each(|record| gather.push(&record));
        gather.finish()
    }

    #[test]
    fn the_time_of_sending_is_cut_into_equal_windows() {
        // A start each 100 ms from 0 to 4,000, 50 ms long: the last one ends after the windows.
        let course = course((0..=40).map(|n| record(n, 100 * n, 100 * n, 100 * n + 50)));
        let windows = course.windows.unwrap();
        assert_eq!(windows.map(|window| window.ended), [10, 10, 10, 10]);
        assert_eq!(windows[2].throughput_per_s, 10.0);
        assert_eq!(windows[2].latency_ms, Some(50.0));
        let drift = course.drift.unwrap();
        assert_eq!((drift.throughput_ratio, drift.latency_ratio), (1.0, 1.0));
        assert_eq!(course.growth, None);
    }

    #[test]
    fn a_backlog_is_found_by_the_schedule_also_where_a_cap_stretches_the_run() {
        // 40/s are due for 5 s, 20/s are sent: for 10 s.
        let course = course((0..200).map(|n| record(n, 25 * n, 50 * n, 50 * n + 500)));
        let growth = course.growth.unwrap();
        assert!((growth - 1.0).abs() < 0.02, "{growth}");
        let waits = course.slot_waits;
        assert_eq!((waits.requests, waits.waited), (200, 199));
        assert_eq!(waits.max, Ns::from_ms(199 * 25));
        assert_eq!(waits.mean(), Ns::from_ms(100 * 25));
    }

    #[test]
    fn too_few_requests_are_not_judged() {
        let few = course((0..16).map(|n| record(n, 10 * n, 10 * n, 20 * n + 10)));
        assert_eq!((few.drift, few.growth), (None, None));
        let one = course([record(0, 0, 0, 10)]);
        assert_eq!((one.windows, one.slowest.len()), (None, 1));
        assert_eq!(course([]), Course::default());
    }

    #[test]
    fn the_ten_slowest_are_kept_slowest_first_and_failures_are_not_among_them() {
        let mut failed = record(99, 0, 0, 9_000);
        failed.failure = Some(Box::new(crate::stats::Failure {
            kind: crate::stats::FailureKind::Timeout,
            stage: crate::stats::Stage::Stream,
            code: 0,
            name: "timeout".into(),
            message: "timeout".into(),
            after: None,
        }));
        // 7 n modulo 31 visits every length once.
        let mixed = (0..31).map(|n| record(n, 0, 0, 100 + 7 * n % 31));
        let course = course(mixed.chain([failed]));
        let lengths: Vec<u64> = course
            .slowest
            .iter()
            .map(|slow| slow.stages.total().0 / 1_000_000)
            .collect();
        assert_eq!(lengths, (121..=130).rev().collect::<Vec<_>>());
        assert_eq!(course.slot_waits.requests, 32);
    }
}
