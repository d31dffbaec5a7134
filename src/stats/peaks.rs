//! The rule that flags slices: a latency far above that of the other slices, and what of the GPUs
//! and servers was as unusual while its requests were served.

use super::distribution::percentile;
use super::slices::Slice;
use super::summary::Figure;
use super::track::{Track, TrackKind};
use crate::base::Ns;
use std::borrow::Cow;

/// Slices with requests that a usual value needs.
pub const SLICES_MIN: usize = 5;
/// Standard deviations above the median that are no chance.
const DEVIATIONS: f64 = 3.0;
/// Standard deviations of a normal law in its median absolute deviation.
const PER_MAD: f64 = 1.4826;
/// What is not this many times the usual value is no peak, however even the others are.
const RATIO_MIN: f64 = 1.5;
/// A clock below this share of its usual one is held down.
const CLOCK_SHARE: f64 = 0.9;
/// Memory is full from this share on.
const FULL_SHARE: f64 = 0.95;
/// Where [`super::summary::PERCENTILES`] has the 99th.
const P99: usize = 8;

/// A latency of a slice that is far above the usual.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// `time_to_first_token`; its p99 is meant.
    pub metric: &'static str,
    /// What it was, ms.
    pub value: f64,
    /// The median over the slices, ms.
    pub usual: f64,
    /// What else was unusual then; empty where it is unexplained.
    pub causes: Vec<Cause>,
}

/// Of what kind a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseKind {
    /// Clocks were held down.
    Throttle,
    /// Memory was full, or requests were put off for want of it.
    Memory,
    /// Requests waited in the server.
    Queue,
}

impl CauseKind {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            CauseKind::Throttle => "throttle",
            CauseKind::Memory => "memory",
            CauseKind::Queue => "queue",
        }
    }
}

/// A quantity that was unusual from the slice's first moment until its requests had what was late.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Kind.
    pub kind: CauseKind,
    /// `gpu_0`, `127.0.0.1:8000`.
    pub source: String,
    /// `nvidia_throttle_thermal`.
    pub tag: Cow<'static, str>,
    /// Unit; of a counter, per second.
    pub unit: String,
    /// Its mean; of memory in use, the most.
    pub value: f64,
    /// The median of the same over the slices.
    pub usual: f64,
}

/// The middle of some values, and how far they lie from it.
#[derive(Clone, Copy, Debug)]
struct Usual {
    median: f64,
    deviation: f64,
}

impl Usual {
    /// Of finite values; `None` of too few.
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Usual> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let values: Vec<f64> = finite.collect();
        if values.len() < SLICES_MIN {
            return None;
        }
        let median = median(values.clone())?;
        let away = values.iter().map(|value| (value - median).abs());
        let deviation = PER_MAD * self::median(away.collect())?;
        Some(Usual { median, deviation })
    }

    /// Far above, and not only for the evenness of the others.
    fn is_peak(&self, value: f64) -> bool {
        let is_beyond = value > self.median + DEVIATIONS * self.deviation;
        value.is_finite() && is_beyond && value > RATIO_MIN * self.median
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    percentile(&values, 50.0)
}

/// Flags the slices of a run, and names what of these tracks was unusual in them.
pub fn flag(slices: &mut [Slice], tracks: &[Track]) {
    let Some(end) = slices.last().map(|slice| slice.to) else {
        return;
    };
    let watched: Vec<Watched<'_>> = tracks
        .iter()
        .filter_map(|track| Watched::of(track, tracks, slices))
        .collect();
    let is_streamed = slices.iter().any(|slice| p99(slice, TTFT).is_some());
    let metrics: &[&str] = if is_streamed {
        &[TTFT, ITL]
    } else {
        &[LATENCY]
    };
    for &metric in metrics {
        let values: Vec<Option<f64>> = slices.iter().map(|slice| p99(slice, metric)).collect();
        let Some(usual) = Usual::of(values.iter().copied().flatten()) else {
            continue;
        };
        for (slice, value) in slices.iter_mut().zip(values) {
            let Some(value) = value.filter(|value| usual.is_peak(*value)) else {
                continue;
            };
            // Requests that began in the slice may have met the cause only later.
            let late = if metric == TTFT {
                Some(value)
            } else {
                p99(slice, LATENCY)
            };
            let until = slice.to + Ns::from_secs_f64(late.unwrap_or(0.0) / 1e3);
            let cause = |watched: &Watched<'_>| watched.cause(slice.from, until.min(end));
            let mut causes: Vec<Cause> = watched.iter().filter_map(cause).collect();
            causes.sort_by_key(|cause| cause.kind);
            slice.flags.push(Flag {
                metric,
                value,
                usual: usual.median,
                causes,
            });
        }
    }
}

const TTFT: &str = "time_to_first_token";
const ITL: &str = "inter_token_latency";
const LATENCY: &str = "request_latency";

fn p99(slice: &Slice, tag: &str) -> Option<f64> {
    match slice.metric(tag)? {
        Figure::Distribution(found) => Some(found.percentiles[P99]),
        _ => None,
    }
}

/// When a level is a cause.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sign {
    /// As a latency is a peak.
    Peak,
    /// It fell below a share of the usual.
    Fall,
    /// It reached this, and the usual one has not.
    Reaches(f64),
}

/// A track that may explain a peak.
struct Watched<'a> {
    track: &'a Track,
    kind: CauseKind,
    sign: Sign,
    usual: Usual,
}

impl<'a> Watched<'a> {
    /// What it is a sign of, if of anything. What is always so explains no peak.
    fn of(track: &'a Track, all: &[Track], slices: &[Slice]) -> Option<Watched<'a>> {
        let (kind, sign) = sign(track, all)?;
        let usual = Usual::of(
            slices
                .iter()
                .filter_map(|s| level(track, sign, s.from, s.to)),
        )?;
        Some(Watched {
            track,
            kind,
            sign,
            usual,
        })
    }

    fn cause(&self, from: Ns, to: Ns) -> Option<Cause> {
        let value = level(self.track, self.sign, from, to)?;
        let usual = self.usual.median;
        let is_cause = match self.sign {
            Sign::Peak => self.usual.is_peak(value),
            Sign::Fall => value < CLOCK_SHARE * usual,
            Sign::Reaches(limit) => value >= limit && usual < limit,
        };
        let per_s = match self.track.kind {
            TrackKind::Gauge => "",
            TrackKind::Counter => "/s",
        };
        is_cause.then(|| Cause {
            kind: self.kind,
            source: self.track.source.clone(),
            tag: self.track.tag.clone(),
            unit: format!("{}{per_s}", self.track.unit),
            value,
            usual,
        })
    }
}

/// Growth of a counter per second, mean of a gauge, its largest value where that has a limit.
fn level(track: &Track, sign: Sign, from: Ns, to: Ns) -> Option<f64> {
    if let Sign::Reaches(_) = sign {
        let values = track.series.window(from, to);
        return values.iter().copied().reduce(f64::max);
    }
    let level = track.level(from, to)?;
    let seconds = to.saturating_since(from).as_secs();
    Some(match track.kind {
        TrackKind::Gauge => level,
        TrackKind::Counter => level / seconds,
    })
}

/// What servers of all kinds say, by the names that it has in common.
const QUEUED: &str = "requests_queued";
const KV_USE: &str = "kv_cache_usage";
const PUT_OFF: [&str; 2] = ["preemptions", "requests_retracted"];

/// Is it the count of a server's waiting requests?
pub fn is_queue(tag: &str) -> bool {
    tag == QUEUED
}

/// Is it the use of a server's KV cache, in percent?
pub fn is_kv_use(tag: &str) -> bool {
    tag == KV_USE
}

/// What a track is a sign of. GPUs' tags begin with the vendor.
fn sign(track: &Track, all: &[Track]) -> Option<(CauseKind, Sign)> {
    let tag = track.tag.as_ref();
    if tag.contains("_throttle_") || tag.ends_with("_violation") {
        return Some((CauseKind::Throttle, Sign::Peak));
    }
    if tag.ends_with("_sm_clock") {
        return Some((CauseKind::Throttle, Sign::Fall));
    }
    if let Some(vendor) = tag.strip_suffix("_memory_used") {
        let total = format!("{vendor}_memory_total");
        let is_its = |other: &&Track| other.source == track.source && other.tag == total;
        let total = all.iter().find(is_its)?.series.values.last()?;
        return Some((CauseKind::Memory, Sign::Reaches(FULL_SHARE * total)));
    }
    match tag {
        _ if is_kv_use(tag) => Some((CauseKind::Memory, Sign::Reaches(FULL_SHARE * 100.0))),
        _ if PUT_OFF.contains(&tag) => Some((CauseKind::Memory, Sign::Peak)),
        _ if is_queue(tag) => Some((CauseKind::Queue, Sign::Peak)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "peaks_tests.rs"]
mod tests;
