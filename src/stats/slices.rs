//! A run cut into equal slices of its time: the requests that began in each, what happened in it,
//! and what the machine did meanwhile.

use super::accumulate::{AccumulateOptions, Part, is_ours};
use super::distribution::{float, float_len};
use super::peaks::Flag;
use super::record::Record;
use super::summary::{Figure, MetricResult};
use super::sweep::Curves;
use super::track::{Track, TrackKind};
use crate::base::Ns;
use crate::base::limits::{EXACT_REQUESTS_MAX, SLICES_MAX};
use std::borrow::Cow;

/// One slice of the measurement.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Slice {
    /// Its first moment.
    pub from: Ns,
    /// The first moment after it.
    pub to: Ns,
    /// False for the last one where the last request ended before it did.
    pub is_complete: bool,
    /// Metrics of the requests that began in it, in AIPerf's order of keys. Rates are over its
    /// length, step functions those of the run over its time. Empty where its requests are not all
    /// known.
    pub metrics: Vec<MetricResult>,
    /// Those that AIPerf lacks.
    pub client: Vec<MetricResult>,
    /// What happened in it, whenever the requests began.
    pub inside: Inside,
    /// What each GPU did in it.
    pub gpus: Vec<Level>,
    /// What each server said in it.
    pub servers: Vec<Level>,
    /// Latency peaks.
    pub flags: Vec<Flag>,
}

/// What happened within a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Inside {
    /// Valid requests whose last content came.
    pub ended: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Output tokens that came: those of a request are spread evenly over its content events.
    pub output_tokens: f64,
    /// Requests in flight, times ns: from start to last content or failure.
    in_flight_ns: f64,
}

/// A quantity of a GPU or a server over a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// `gpu_0`, `127.0.0.1:8000`.
    pub source: String,
    /// `nvidia_power_usage`.
    pub tag: Cow<'static, str>,
    /// Unit; empty for counts.
    pub unit: Cow<'static, str>,
    /// Its values.
    pub reading: Reading,
}

/// Values of a quantity over a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// Of the samples in it.
    Gauge {
        /// Mean.
        avg: f64,
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// What it grew by, interpolated at the edges.
    Counter {
        /// In its unit.
        growth: f64,
        /// The same per second.
        rate_per_s: f64,
    },
}

/// The slices of a run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sliced {
    /// In the order of time, without gaps.
    pub slices: Vec<Slice>,
    /// Sentences on what is in none of them.
    pub notes: Vec<String>,
}

impl Slice {
    /// The metric with this tag.
    pub fn metric(&self, tag: &str) -> Option<&Figure> {
        let found = self.metrics.iter().find(|metric| metric.tag == tag);
        found.map(|metric| &metric.figure)
    }

    /// Length in seconds.
    pub fn length_s(&self) -> f64 {
        self.to.saturating_since(self.from).as_secs()
    }

    /// Mean of the requests in flight in it.
    pub fn in_flight(&self) -> Option<f64> {
        self.per_s(self.inside.in_flight_ns / 1e9)
    }

    /// An amount of the slice, per second of it.
    pub fn per_s(&self, amount: f64) -> Option<f64> {
        let length = self.length_s();
        (length > 0.0).then(|| amount / length)
    }
}

impl Sliced {
    /// Adds what GPUs and servers did in each slice; quantities without a value in it are left out.
    pub fn add_telemetry(&mut self, gpus: &[Track], servers: &[Track]) {
        for slice in &mut self.slices {
            let levels = |tracks: &[Track]| -> Vec<Level> {
                let level = |track: &Track| Level::of(track, slice.from, slice.to);
                tracks.iter().filter_map(level).collect()
            };
            (slice.gpus, slice.servers) = (levels(gpus), levels(servers));
        }
    }
}

impl Level {
    /// Of a quantity over a window.
    fn of(track: &Track, from: Ns, to: Ns) -> Option<Level> {
        let reading = match track.kind {
            TrackKind::Gauge => {
                let values = track.series.window(from, to);
                let (min, max) = ends(values)?;
                let avg = values.iter().sum::<f64>() / float_len(values.len());
                Reading::Gauge { avg, min, max }
            }
            TrackKind::Counter => {
                let growth = track.level(from, to)?;
                let seconds = to.since(from).filter(|span| span.0 > 0)?.as_secs();
                let rate_per_s = growth / seconds;
                Reading::Counter { growth, rate_per_s }
            }
        };
        Some(Level {
            source: track.source.clone(),
            tag: track.tag.clone(),
            unit: track.unit.clone(),
            reading,
        })
    }
}

/// Smallest and largest; `None` when empty.
fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let min = values.iter().copied().reduce(f64::min)?;
    Some((min, values.iter().copied().fold(min, f64::max)))
}

/// A slice as it fills.
#[derive(Debug, Default)]
struct Bucket {
    /// Of the requests that began in it; absent while none has.
    part: Option<Part>,
    inside: Inside,
}

/// Fills slices from measured records, in any order.
#[derive(Debug)]
pub(super) struct Slices {
    length: Ns,
    from: Option<Ns>,
    buckets: Vec<Bucket>,
    /// Requests whose values are kept.
    kept: usize,
    /// First start of a request whose values are not.
    left_out_from: Option<Ns>,
    /// Latest start and end.
    last: Ns,
}

impl Slices {
    /// Slices of this length; at least 1 ns.
    pub(super) fn new(length: Ns) -> Slices {
        Slices {
            length: length.max(Ns(1)),
            from: None,
            buckets: Vec::new(),
            kept: 0,
            left_out_from: None,
            last: Ns::ZERO,
        }
    }

    /// The grid begins here, unless it has begun.
    pub(super) fn begin(&mut self, at: Ns) {
        self.from.get_or_insert(at);
    }

    /// The slice of a moment, as far as there may be one.
    fn bucket(&mut self, at: Ns) -> Option<&mut Bucket> {
        let past = at.saturating_since(self.from?).0 / self.length.0;
        let index = usize::try_from(past).ok().filter(|&n| n < SLICES_MAX)?;
        if self.buckets.len() <= index {
            self.buckets.resize_with(index + 1, Bucket::default);
        }
        self.buckets.get_mut(index)
    }

    /// Adds a request with its values in the order of the metrics.
    pub(super) fn push(
        &mut self,
        record: &Record,
        values: &[Option<f64>],
        options: &AccumulateOptions,
    ) {
        self.begin(record.start);
        let end = record.end().filter(|_| record.is_valid());
        let end = end.unwrap_or(record.done).max(record.start);
        self.last = self.last.max(end);
        if self.kept < EXACT_REQUESTS_MAX {
            if let Some(bucket) = self.bucket(record.start) {
                let part = bucket.part.get_or_insert_with(|| Part::of_slice(options));
                part.push(record, values, options);
                self.kept += 1;
            }
        } else {
            let first = self.left_out_from.unwrap_or(Ns::MAX);
            self.left_out_from = Some(first.min(record.start));
        }
        self.note_inside(record, end);
    }

    /// What came at a moment. On an edge it ended the slice before: the last is in the last one.
    fn inside(&mut self, at: Ns) -> Option<&mut Inside> {
        let before = Ns(at.0.saturating_sub(1));
        self.bucket(before).map(|bucket| &mut bucket.inside)
    }

    fn note_inside(&mut self, record: &Record, end: Ns) {
        if let Some(inside) = self.inside(end) {
            inside.ended += u64::from(record.is_valid());
            inside.failed += u64::from(!record.is_valid());
        }
        self.add_in_flight(record.start, end);
        let tokens = &record.tokens;
        let output = tokens.output.unwrap_or(0) + tokens.reasoning.unwrap_or(0);
        if output == 0 || !record.is_valid() {
            return;
        }
        let times = &record.buffers.content_times;
        let times = if times.is_empty() { &[end][..] } else { times };
        let each = f64::from(output) / float_len(times.len());
        for &at in times {
            if let Some(inside) = self.inside(at) {
                inside.output_tokens += each;
            }
        }
    }

    /// Adds a request in flight to every slice that it touches.
    fn add_in_flight(&mut self, start: Ns, end: Ns) {
        let Some(from) = self.from else {
            return;
        };
        let mut since = start.max(from);
        while since < end {
            let past = since.saturating_since(from).0 / self.length.0;
            let edge = Ns(from
                .0
                .saturating_add((past + 1).saturating_mul(self.length.0)));
            let until = edge.min(end);
            let Some(Bucket { inside, .. }) = self.bucket(since) else {
                return;
            };
            inside.in_flight_ns += float(until.saturating_since(since).0);
            since = until;
        }
    }

    /// The slices with their figures; `curves` are the step functions of the run.
    pub(super) fn finish(self, options: &AccumulateOptions, curves: Option<&Curves>) -> Sliced {
        let Some(from) = self.from else {
            return Sliced::default();
        };
        let notes = self.notes(from);
        let (length, last, known) = (self.length, self.last, self.left_out_from);
        let edge = |n: usize| Ns((n as u64).saturating_mul(length.0).saturating_add(from.0));
        let figures = |bucket: Bucket, from: Ns, to: Ns| {
            // Only the last can be without length, when all that ended in it ended as it began.
            let length = Some(to.saturating_since(from).as_secs()).filter(|length| *length > 0.0);
            let swept = curves.map(|curves| curves.figures_over(from, to));
            let swept = swept.unwrap_or_default();
            // Made only now for slices in which nothing began, freed at once: there may be many.
            let mut part = bucket.part.unwrap_or_else(|| Part::of_slice(options));
            part.figures_over(options, &swept, length)
        };
        let slice = |(index, bucket): (usize, Bucket)| {
            let (from, full) = (edge(index), edge(index + 1));
            let (inside, to) = (bucket.inside, full.min(last.max(from)));
            let is_known = known.is_none_or(|left_out| to <= left_out);
            let metrics = is_known.then(|| figures(bucket, from, to));
            let (client, metrics) = metrics.into_iter().flatten().partition(is_ours);
            Slice {
                from,
                to,
                is_complete: full <= last,
                metrics,
                client,
                inside,
                ..Slice::default()
            }
        };
        let slices = self.buckets.into_iter().enumerate().map(slice).collect();
        Sliced { slices, notes }
    }

    fn notes(&self, from: Ns) -> Vec<String> {
        let seconds = |at: Ns| at.saturating_since(from).as_secs();
        let whole = self.length.as_secs() * float_len(SLICES_MAX);
        let beyond = (seconds(self.last) > whole).then(|| {
            format!(
                "--slice-duration: there are {SLICES_MAX} slices at the most; what came after \
                 {whole} s is in none, give a longer duration"
            )
        });
        let left_out = self.left_out_from.map(|at| {
            format!(
                "--slice-duration: slices hold {EXACT_REQUESTS_MAX} requests; those that reach \
                 beyond {:.1} s have no metrics of requests",
                seconds(at)
            )
        });
        beyond.into_iter().chain(left_out).collect()
    }
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
