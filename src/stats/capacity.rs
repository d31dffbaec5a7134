//! What a client can drive: the shape of a load, and a self-benchmark's steps.

use super::Summary;
use super::summary::{ClientReport, CoreReport, Figure, MetricResult, Reason, Spread, Verdict};
use crate::base::Ns;
use serde::{Deserialize, Serialize};

/// An answer of fewer events than this costs by the request: a chat answer of one token has five.
const STREAM_EVENTS_MIN: f64 = 6.0;
/// Bytes up to which loads are alike: reading them costs less than waking up for them.
const BYTES_MIN: u64 = 1_024;

/// What a core's work is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Events of streams.
    Events,
    /// Requests of short answers.
    Requests,
}

impl Unit {
    /// As printed: `events/s`.
    pub fn per_s(self) -> &'static str {
        match self {
            Unit::Events => "events/s",
            Unit::Requests => "requests/s",
        }
    }
}

/// A sort of load, as far as it decides how much of it a core can drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// What is counted.
    pub unit: Unit,
    /// Bytes of one of them, at most: 1 KiB times a power of four.
    pub bytes_max: u64,
    /// Over TLS.
    pub tls: bool,
}

/// The load on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreLoad {
    /// Of which sort.
    pub shape: Shape,
    /// So many a second, above 0.
    pub per_s: f64,
}

impl CoreLoad {
    /// The load of a run's busiest core; absent when nothing was received.
    pub fn busiest(cores: &[CoreReport], metrics: &[MetricResult], tls: bool) -> Option<CoreLoad> {
        let requests = sum(cores, |core| core.requests_count);
        let events = sum(cores, |core| core.events_count);
        let (unit, count) = match events >= requests * STREAM_EVENTS_MIN {
            true => (Unit::Events, events),
            false => (Unit::Requests, requests),
        };
        let per_s = |core: &CoreReport| {
            let count = match unit {
                Unit::Events => core.events_count,
                Unit::Requests => core.requests_count,
            };
            core.elapsed_s().map(|elapsed| float(count) / elapsed)
        };
        let per_s = cores.iter().filter_map(per_s).fold(0.0, f64::max);
        let shape = Shape {
            unit,
            bytes_max: bytes_class(received_bytes(metrics)? / count.max(1.0)),
            tls,
        };
        (per_s > 0.0).then_some(CoreLoad { shape, per_s })
    }
}

impl CoreReport {
    /// Length of the measurement, as [`CoreReport::busy_ratio`] has it; absent on an idle core.
    pub fn elapsed_s(&self) -> Option<f64> {
        let cpu = Ns(self.user_ns + self.system_ns).as_secs();
        (cpu > 0.0 && self.busy_ratio > 0.0).then(|| cpu / self.busy_ratio)
    }
}

/// The smallest class that holds so many bytes.
fn bytes_class(bytes: f64) -> u64 {
    let mut class = BYTES_MIN;
    while float(class) < bytes && class < u64::MAX / 4 {
        class *= 4;
    }
    class
}

/// Body bytes of all answers.
fn received_bytes(metrics: &[MetricResult]) -> Option<f64> {
    let tag = "http_req_data_received";
    match &metrics.iter().find(|metric| metric.tag == tag)?.figure {
        Figure::Distribution(kib) => Some(kib.sum * 1024.0),
        _ => None,
    }
}

fn sum(cores: &[CoreReport], of: impl Fn(&CoreReport) -> u64) -> f64 {
    float(cores.iter().map(of).sum())
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes")]
fn float(count: u64) -> f64 {
    count as f64
}

/// The computer and the program that a figure holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// CPU model.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// Version and build of this program.
    pub build: String,
}

/// What one core of a machine was seen to drive with a VALID verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Where.
    pub machine: Machine,
    /// Of which sort of load.
    pub shape: Shape,
    /// So many a second.
    pub per_s: f64,
    /// When, in ns since 1970.
    pub measured_wall_ns: u64,
}

/// How much more of a run's own load the client could drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Headroom {
    /// What a core can drive over what the run's busiest one did.
    pub ratio: f64,
    /// When the self-benchmark was, in ns since 1970.
    pub measured_wall_ns: u64,
}

/// How loads follow each other in a self-benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Streams at a time, each with so many events a second.
    Streams {
        /// Events a second.
        rate_per_stream: f64,
    },
    /// Requests a second, answered by one token.
    Requests,
}

/// One step of a self-benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Streams, or requests a second.
    pub load: u32,
    /// The load of its busiest core.
    pub core: Option<CoreLoad>,
    /// Events a second of all cores.
    pub events_per_s: f64,
    /// Events of all cores.
    pub events_count: u64,
    /// Requests of all cores.
    pub requests_count: u64,
    /// What came over what was asked for, about 1; absent where the server's pace is not known.
    pub delivered_ratio: Option<f64>,
    /// Greatest resident memory of this process, where the kernel says it.
    pub memory_bytes_max: Option<u64>,
    /// Requests that failed.
    pub failed_count: u64,
    /// The client's own account.
    pub client: ClientReport,
}

/// Below this share of what was asked for the server, not the client, has met its limit.
const DELIVERED_RATIO_MIN: f64 = 0.97;

impl Step {
    /// From a run's summary.
    pub fn new(load: u32, asked: Option<f64>, tls: bool, summary: Summary) -> Step {
        let figure = |tag: &str| summary.metric(tag).map(|metric| metric.figure.clone());
        let client = &summary.client;
        let delivered_ratio = match (client.delivered_rate, client.scheduled_rate) {
            (Some(delivered), Some(scheduled)) => Some(delivered / scheduled),
            _ => match (figure("inter_token_latency"), asked) {
                (Some(Figure::Distribution(gap_ms)), Some(asked)) => Some(1e3 / gap_ms.avg / asked),
                _ => None,
            },
        };
        let per_s = |core: &CoreReport| Some(float(core.events_count) / core.elapsed_s()?);
        Step {
            load,
            core: CoreLoad::busiest(&client.cores, &summary.metrics, tls),
            events_per_s: client.cores.iter().filter_map(per_s).sum(),
            events_count: client.cores.iter().map(|core| core.events_count).sum(),
            requests_count: client.cores.iter().map(|core| core.requests_count).sum(),
            delivered_ratio: delivered_ratio.filter(|ratio| ratio.is_finite()),
            memory_bytes_max: None,
            failed_count: summary.errors.iter().map(|group| group.count).sum(),
            client: summary.client,
        }
    }

    /// True when the client drove it without showing in the numbers, and all of it came.
    pub fn is_valid(&self) -> bool {
        self.client.verdict == Verdict::Valid && self.failed_count == 0 && self.core.is_some()
    }

    /// True when the server has kept up too.
    pub fn is_delivered(&self) -> bool {
        self.delivered_ratio
            .is_none_or(|ratio| ratio >= DELIVERED_RATIO_MIN)
    }

    /// CPU of the workers for each event (each request where those are counted), user and system,
    /// ns.
    pub fn cpu_ns(&self) -> Option<(f64, f64)> {
        let count = match self.core?.shape.unit {
            Unit::Events => self.events_count,
            Unit::Requests => self.requests_count,
        };
        let cores = &self.client.cores;
        let each = |total: f64| total / float(count.max(1));
        Some((
            each(sum(cores, |core| core.user_ns)),
            each(sum(cores, |core| core.system_ns)),
        ))
    }

    /// Errors of event times, TTFT and ITL against the server's stamps, in this order.
    pub fn stamp_errors(&self) -> [Option<Spread>; 3] {
        let all = self.client.stamp_errors;
        let spreads = all.map(|errors| [errors.event_time, errors.ttft, errors.itl]);
        let some = |spread: Spread| (spread.count > 0).then_some(spread);
        spreads.map_or([None; 3], |spreads| spreads.map(some))
    }

    /// Why it is not VALID, worst first.
    pub fn reasons(&self) -> &[Reason] {
        &self.client.reasons
    }
}

/// A self-benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct SelfBench {
    /// Where.
    pub machine: Machine,
    /// When it began, in ns since 1970.
    pub measured_wall_ns: u64,
    /// What its loads are.
    pub mode: Mode,
    /// Least bytes of an event, as asked of the mock.
    pub chunk_bytes: u64,
    /// Over TLS.
    pub tls: bool,
    /// The server that was named, when it is not our own.
    pub against: Option<String>,
    /// CPUs of the client's workers.
    pub client_cpus: Vec<usize>,
    /// CPUs of the mock; empty when it shares the client's, or is not ours.
    pub mock_cpus: Vec<usize>,
    /// In the order that they were run in.
    pub steps: Vec<Step>,
    /// False when a signal has ended it early.
    pub is_complete: bool,
    /// What a reader must know, each a sentence.
    pub notes: Vec<String>,
}

impl SelfBench {
    /// The step with the largest load that the client drove VALID and the server delivered.
    pub fn largest_valid(&self) -> Option<&Step> {
        let per_s = |step: &&Step| step.core.map_or(0.0, |core| core.per_s);
        let held = |step: &&Step| step.is_valid() && step.is_delivered();
        let valid = self.steps.iter().filter(held);
        valid.max_by(|a, b| per_s(a).total_cmp(&per_s(b)))
    }

    /// What this says of one core of this machine.
    pub fn capacity(&self) -> Option<Capacity> {
        let core = self.largest_valid()?.core?;
        Some(Capacity {
            machine: self.machine.clone(),
            shape: core.shape,
            per_s: core.per_s,
            measured_wall_ns: self.measured_wall_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::summary::Distribution;

    /// A core that was half busy for 2 s.
    fn core(requests_count: u64, events_count: u64) -> CoreReport {
        CoreReport {
            busy_ratio: 0.5,
            user_ns: 400_000_000,
            system_ns: 600_000_000,
            requests_count,
            events_count,
            ..CoreReport::default()
        }
    }

    fn received(kib: f64) -> MetricResult {
        MetricResult {
            tag: "http_req_data_received",
            header: "",
            unit: "KB",
            figure: Figure::Distribution(Distribution {
                avg: kib,
                min: kib,
                max: kib,
                std: 0.0,
                sum: kib,
                count: 1,
                percentiles: [kib; 11],
                exact: true,
            }),
        }
    }

    #[test]
    fn the_busiest_core_says_what_sort_of_load_it_was_and_how_much() {
        for (cores, kib, tls, unit, bytes_max, per_s) in [
            (
                vec![core(10, 1_000), core(10, 3_000)],
                1_000.0,
                false,
                Unit::Events,
                1_024,
                1_500.0,
            ),
            (
                vec![core(100, 500)],
                130.0,
                true,
                Unit::Requests,
                4_096,
                50.0,
            ),
            (
                vec![core(100, 0)],
                100.0,
                false,
                Unit::Requests,
                1_024,
                50.0,
            ),
            (vec![core(1, 100)], 500.0, false, Unit::Events, 16_384, 50.0),
        ] {
            let shape = Shape {
                unit,
                bytes_max,
                tls,
            };
            let found = CoreLoad::busiest(&cores, &[received(kib)], tls);
            assert_eq!(found, Some(CoreLoad { shape, per_s }));
        }
        assert_eq!(CoreLoad::busiest(&[], &[received(0.0)], false), None);
        assert_eq!(CoreLoad::busiest(&[core(1, 9)], &[], false), None);
    }

    #[test]
    fn a_step_that_failed_or_was_not_valid_is_no_capacity() {
        let summary = |events, verdict| Summary {
            metrics: vec![received(1.0)],
            client: ClientReport {
                verdict,
                cores: vec![core(1, events)],
                ..ClientReport::default()
            },
            ..Summary::default()
        };
        let step = |load, events, verdict| Step::new(load, None, false, summary(events, verdict));
        let mut failed = step(3, 300, Verdict::Valid);
        failed.failed_count = 1;
        let machine = Machine {
            cpu: "c".into(),
            kernel: "k".into(),
            build: "b".into(),
        };
        let mut bench = SelfBench {
            machine,
            measured_wall_ns: 7,
            mode: Mode::Requests,
            chunk_bytes: 0,
            tls: false,
            against: None,
            client_cpus: vec![1],
            mock_cpus: vec![0],
            steps: vec![
                step(1, 100, Verdict::Valid),
                step(2, 200, Verdict::Valid),
                failed,
                step(4, 400, Verdict::Degraded),
            ],
            is_complete: true,
            notes: Vec::new(),
        };
        assert_eq!(bench.largest_valid().unwrap().load, 2);
        // One that the server did not keep up with is no load that was driven.
        let mut starved = step(8, 800, Verdict::Valid);
        starved.delivered_ratio = Some(0.8);
        bench.steps.push(starved);
        assert_eq!(bench.largest_valid().unwrap().load, 2);
        bench.steps.pop();
        assert_eq!(bench.capacity().unwrap().per_s, 100.0);
        assert_eq!(bench.steps[0].cpu_ns(), Some((4_000_000.0, 6_000_000.0)));
        bench.steps.retain(|step| !step.is_valid());
        assert_eq!(bench.capacity(), None);
    }
}
