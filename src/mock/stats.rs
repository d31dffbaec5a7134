//! The server's truth: counters and histograms, one set per thread, merged when asked.

use crate::base::Ns;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// 64 buckets per octave: at most 1.6 % wide.
const SUB_BITS: u32 = 6;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;
const CODES: usize = 600;
/// Bounds of vLLM's buckets, in s.
const TTFT_BOUNDS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const ITL_BOUNDS: [f64; 18] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0,
];
const E2E_BOUNDS: [f64; 19] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0,
];

fn bucket(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    let low = usize::try_from(value >> octave).unwrap_or(0);
    octave as usize * SUB + low
}

fn value_of(bucket: usize) -> u64 {
    if bucket < 2 * SUB {
        return bucket as u64;
    }
    let octave = bucket / SUB - 1;
    ((bucket - octave * SUB) as u64) << octave
}

/// Written by one thread only, read by any.
pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// A log-linear histogram of ns, and their sum.
pub(super) struct Histogram {
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self, span: Ns) {
        add(&self.counts[bucket(span.0)], 1);
        add(&self.sum, span.0);
    }
}

/// One thread's counters.
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) aborted: AtomicU64,
    pub(super) accepts: AtomicU64,
    pub(super) events: AtomicU64,
    /// Answers that came to their end, cut off by no fault: by their length, and of themselves.
    pub(super) finished: [AtomicU64; 2],
    pub(super) prompt_tokens: AtomicU64,
    pub(super) generated_tokens: AtomicU64,
    pub(super) sends: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) blocked: AtomicU64,
    pub(super) faults: AtomicU64,
    pub(super) request_ids: AtomicU64,
    pub(super) cache_resets: AtomicU64,
    pub(super) profile_starts: AtomicU64,
    pub(super) profile_stops: AtomicU64,
    pub(super) codes: Box<[AtomicU64]>,
    pub(super) send_lag: Histogram,
    pub(super) ttft: Histogram,
    pub(super) itl: Histogram,
    pub(super) e2e: Histogram,
}

type Named<'a, T> = [(&'static str, &'a T); 17];

impl Counters {
    pub(super) fn new() -> Counters {
        let zero = || AtomicU64::new(0);
        Counters {
            requests: zero(),
            completed: zero(),
            aborted: zero(),
            accepts: zero(),
            events: zero(),
            finished: [zero(), zero()],
            prompt_tokens: zero(),
            generated_tokens: zero(),
            sends: zero(),
            bytes: zero(),
            blocked: zero(),
            faults: zero(),
            request_ids: zero(),
            cache_resets: zero(),
            profile_starts: zero(),
            profile_stops: zero(),
            codes: (0..CODES).map(|_| zero()).collect(),
            send_lag: Histogram::new(),
            ttft: Histogram::new(),
            itl: Histogram::new(),
            e2e: Histogram::new(),
        }
    }

    pub(super) fn count_code(&self, code: u16) {
        if let Some(counter) = self.codes.get(usize::from(code)) {
            add(counter, 1);
        }
    }

    fn counters(&self) -> Named<'_, AtomicU64> {
        [
            ("requests", &self.requests),
            ("completed", &self.completed),
            ("aborted", &self.aborted),
            ("accepts", &self.accepts),
            ("events", &self.events),
            ("sends", &self.sends),
            ("bytes", &self.bytes),
            ("blocked_sends", &self.blocked),
            ("faults", &self.faults),
            ("request_ids", &self.request_ids),
            ("cache_resets", &self.cache_resets),
            ("profile_starts", &self.profile_starts),
            ("profile_stops", &self.profile_stops),
            ("finished_length", &self.finished[0]),
            ("finished_stop", &self.finished[1]),
            ("prompt_tokens", &self.prompt_tokens),
            ("generated_tokens", &self.generated_tokens),
        ]
    }

    fn histograms(&self) -> [(&'static str, &Histogram); 4] {
        [
            ("send_lag_ns", &self.send_lag),
            ("ttft_ns", &self.ttft),
            ("itl_ns", &self.itl),
            ("e2e_ns", &self.e2e),
        ]
    }
}

/// A level shared by all threads, and its peak.
#[derive(Default)]
pub(super) struct Level {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Level {
    pub(super) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    pub(super) fn rise(&self) {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(now, Relaxed);
    }

    /// Rises unless the level is at `limit`.
    pub(super) fn try_rise(&self, limit: u64) -> bool {
        let risen = self
            .now
            .fetch_update(Relaxed, Relaxed, |now| (now < limit).then_some(now + 1));
        if let Ok(before) = risen {
            self.peak.fetch_max(before + 1, Relaxed);
        }
        risen.is_ok()
    }

    pub(super) fn fall(&self) {
        self.now.fetch_sub(1, Relaxed);
    }

    fn reset_peak(&self) {
        self.peak.store(self.now.load(Relaxed), Relaxed);
    }
}

/// All threads' counters and the shared levels.
pub(super) struct Stats {
    pub(super) threads: Vec<Arc<Counters>>,
    pub(super) open: Level,
    pub(super) in_flight: Level,
}

impl Stats {
    pub(super) fn new(threads: usize) -> Stats {
        Stats {
            threads: (0..threads).map(|_| Arc::new(Counters::new())).collect(),
            open: Level::default(),
            in_flight: Level::default(),
        }
    }

    /// Requests answered so far, well or badly.
    pub(super) fn answered(&self) -> u64 {
        self.threads
            .iter()
            .map(|t| t.completed.load(Relaxed) + t.aborted.load(Relaxed))
            .sum()
    }

    fn totals(&self) -> Vec<(&'static str, u64)> {
        let mut totals: Vec<(&'static str, u64)> = Vec::new();
        for thread in &self.threads {
            for (i, (name, counter)) in thread.counters().into_iter().enumerate() {
                match totals.get_mut(i) {
                    Some((_, total)) => *total += counter.load(Relaxed),
                    None => totals.push((name, counter.load(Relaxed))),
                }
            }
        }
        for (name, level) in [("connections", &self.open), ("in_flight", &self.in_flight)] {
            let peak = if name == "connections" {
                "connections_peak"
            } else {
                "in_flight_peak"
            };
            totals.push((name, level.now.load(Relaxed)));
            totals.push((peak, level.peak.load(Relaxed)));
        }
        totals
    }

    /// The body of `GET /stats`.
    pub(super) fn json(&self) -> String {
        let mut out = Map::new();
        for (name, total) in self.totals() {
            out.insert(name.to_owned(), total.into());
        }
        let mut codes = Map::new();
        for code in 0..CODES {
            let sum: u64 = self
                .threads
                .iter()
                .map(|t| t.codes[code].load(Relaxed))
                .sum();
            if sum > 0 {
                codes.insert(code.to_string(), sum.into());
            }
        }
        out.insert("status".to_owned(), Value::Object(codes));
        for k in 0..4 {
            let (name, merged, _) = self.merged(k);
            out.insert(name.to_owned(), distribution(&merged));
        }
        Value::Object(out).to_string()
    }

    /// One of the histograms, of all threads: name, counts, sum in ns.
    fn merged(&self, k: usize) -> (&'static str, Vec<u64>, u64) {
        let mut merged = ("", vec![0u64; BUCKETS], 0);
        for thread in &self.threads {
            let (name, histogram) = thread.histograms()[k];
            merged.0 = name;
            for (sum, count) in merged.1.iter_mut().zip(&histogram.counts) {
                *sum += count.load(Relaxed);
            }
            merged.2 += histogram.sum.load(Relaxed);
        }
        merged
    }

    /// The body of `GET /metrics`, in the format of Prometheus: names of vLLM, where it has any for
    /// what the mock counts.
    pub(super) fn prometheus(&self, model: &str) -> String {
        let totals = self.totals();
        let total = |name: &str| {
            let found = totals.iter().find(|(own, _)| *own == name);
            found.map_or(0, |(_, total)| *total)
        };
        let model = model
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        let labels = format!("engine=\"0\",model_name=\"{model}\"");
        let mut out = String::new();
        let done = total("completed") + total("aborted") + total("in_flight");
        let waiting = total("requests").saturating_sub(done);
        for (name, kind, value) in [
            ("num_requests_running", "gauge", total("in_flight")),
            ("num_requests_waiting", "gauge", waiting),
            ("num_preemptions_total", "counter", 0),
            ("prompt_tokens_total", "counter", total("prompt_tokens")),
            (
                "generation_tokens_total",
                "counter",
                total("generated_tokens"),
            ),
        ] {
            out.push_str(&format!(
                "# TYPE vllm:{name} {kind}\nvllm:{name}{{{labels}}} {value}\n"
            ));
        }
        out.push_str("# TYPE vllm:request_success_total counter\n");
        for (reason, name) in [("length", "finished_length"), ("stop", "finished_stop")] {
            let value = total(name);
            out.push_str(&format!(
                "vllm:request_success_total{{{labels},finished_reason=\"{reason}\"}} {value}\n"
            ));
        }
        for (k, name, bounds) in [
            (1, "time_to_first_token_seconds", &TTFT_BOUNDS[..]),
            (2, "inter_token_latency_seconds", &ITL_BOUNDS[..]),
            (3, "e2e_request_latency_seconds", &E2E_BOUNDS[..]),
        ] {
            let (_, counts, sum) = self.merged(k);
            out.push_str(&histogram(name, &labels, bounds, &counts, Ns(sum)));
        }
        for (name, total) in totals {
            let name = format!("tokenring_mock_{name}");
            out.push_str(&format!("# TYPE {name} gauge\n{name} {total}\n"));
        }
        out
    }

    /// Zero, except for what is open and in flight now.
    pub(super) fn reset(&self) {
        for thread in &self.threads {
            let counters = thread.counters().into_iter().map(|(_, counter)| counter);
            counters
                .chain(&thread.codes)
                .for_each(|counter| counter.store(0, Relaxed));
            for (_, histogram) in thread.histograms() {
                let counts = histogram.counts.iter().chain([&histogram.sum]);
                counts.for_each(|count| count.store(0, Relaxed));
            }
        }
        self.open.reset_peak();
        self.in_flight.reset_peak();
    }
}

/// A histogram in the format of Prometheus. What is counted finely is put into the bucket that most
/// of its 1.6 % lies in.
fn histogram(name: &str, labels: &str, bounds: &[f64], counts: &[u64], sum: Ns) -> String {
    let mut out = format!("# TYPE vllm:{name} histogram\n");
    let (mut at, mut seen) = (0, 0);
    for bound in bounds {
        while at < counts.len() && Ns(value_of(at)).as_secs() < *bound {
            seen += counts[at];
            at += 1;
        }
        out.push_str(&format!(
            "vllm:{name}_bucket{{{labels},le=\"{bound:?}\"}} {seen}\n"
        ));
    }
    let count: u64 = counts.iter().sum();
    out.push_str(&format!(
        "vllm:{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n"
    ));
    out.push_str(&format!("vllm:{name}_sum{{{labels}}} {}\n", sum.as_secs()));
    out.push_str(&format!("vllm:{name}_count{{{labels}}} {count}\n"));
    out
}

fn distribution(counts: &[u64]) -> Value {
    let count: u64 = counts.iter().sum();
    if count == 0 {
        return json!({"count": 0});
    }
    let at = |per_mille: u64| {
        let rank = (count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = counts.iter().position(|n| {
            seen += n;
            seen >= rank
        });
        value_of(found.unwrap_or(0))
    };
    let sum: u128 = (0u128..)
        .zip(counts)
        .map(|(i, n)| u128::from(value_of(usize::try_from(i).unwrap_or(0))) * u128::from(*n))
        .sum();
    json!({
        "count": count,
        "mean": u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX),
        "p50": at(500), "p90": at(900), "p99": at(990), "p999": at(999), "max": at(1000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_two_percent_of_its_values() {
        for value in [0, 1, 63, 64, 127, 128, 1_000, 123_456_789, u64::MAX] {
            let low = value_of(bucket(value));
            assert!(low <= value && value - low <= value / 64, "{value} {low}");
        }
    }

    #[test]
    fn threads_are_merged_and_reset() {
        let stats = Stats::new(2);
        for thread in &stats.threads {
            add(&thread.requests, 3);
            thread.count_code(200);
            thread.ttft.record(Ns(100));
        }
        stats.open.rise();
        let value: Value = serde_json::from_str(&stats.json()).unwrap();
        assert_eq!(value["requests"], 6);
        assert_eq!(value["status"]["200"], 2);
        assert_eq!(value["ttft_ns"]["p50"], 100);
        stats.reset();
        let value: Value = serde_json::from_str(&stats.json()).unwrap();
        assert_eq!(value["requests"], 0);
        assert_eq!(value["connections_peak"], 1);
    }
}
