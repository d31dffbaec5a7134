//! What servers of all kinds say, by common names. Names differ by engine and version, labels even
//! more: a quantity is looked for by its names, and its series are put together.

use super::history::{Column, History};
use super::window::{View, mean_and_max};
use crate::base::Ns;
use crate::stats::buckets::{Buckets, Learned};
use crate::stats::server::{Endpoint, Engine, FamilyKind, Quantity};
use crate::stats::{Series, Track, TrackKind};

/// Names of an engine's families without prefix and `_total`; of several the first that is there.
#[derive(Default)]
struct Names {
    engine: &'static str,
    prefixes: &'static [&'static str],
    running: &'static [&'static str],
    queued: &'static [&'static str],
    /// 0..1, however they call it.
    usage: &'static [&'static str],
    /// Tokens found in a cache, and looked for.
    hits: &'static [&'static str],
    queries: &'static [&'static str],
    /// The same as a ratio, 0..1.
    hit_ratio: &'static [&'static str],
    preempted: &'static [&'static str],
    /// The same as a level.
    retracted: &'static [&'static str],
    prompt: &'static [&'static str],
    generated: &'static [&'static str],
    finished: &'static [&'static str],
    /// Histograms in seconds.
    ttft: &'static [&'static str],
    queue_time: &'static [&'static str],
}

/// A share beyond, but for rounding, is none.
const PERCENT_MAX: f64 = 101.0;
const TTFT: &[&str] = &["time_to_first_token_seconds"];

const ENGINES: [Names; 6] = [
    Names {
        engine: "vLLM",
        prefixes: &["vllm:"],
        running: &["num_requests_running"],
        queued: &["num_requests_waiting"],
        usage: &["kv_cache_usage_perc", "gpu_cache_usage_perc"],
        hits: &["prefix_cache_hits", "gpu_prefix_cache_hits"],
        queries: &["prefix_cache_queries", "gpu_prefix_cache_queries"],
        hit_ratio: &["gpu_prefix_cache_hit_rate"],
        preempted: &["num_preemptions"],
        retracted: &[],
        prompt: &["prompt_tokens"],
        generated: &["generation_tokens"],
        finished: &["request_success"],
        ttft: TTFT,
        queue_time: &["request_queue_time_seconds"],
    },
    Names {
        engine: "SGLang",
        prefixes: &["sglang:", "sglang_"],
        running: &["num_running_reqs"],
        queued: &["num_queue_reqs"],
        usage: &["token_usage"],
        hits: &["cached_tokens"],
        queries: &["prompt_tokens"],
        hit_ratio: &["cache_hit_rate"],
        preempted: &[],
        retracted: &["num_retracted_reqs"],
        prompt: &["prompt_tokens"],
        generated: &["generation_tokens"],
        finished: &["num_requests"],
        ttft: TTFT,
        queue_time: &["queue_time_seconds"],
    },
    Names {
        engine: "TensorRT-LLM",
        prefixes: &["trtllm_", "trtllm:"],
        running: &["num_requests_running"],
        queued: &["num_requests_waiting"],
        usage: &["kv_cache_utilization"],
        hits: &[],
        queries: &[],
        hit_ratio: &["kv_cache_hit_rate"],
        preempted: &[],
        retracted: &["num_paused_requests"],
        prompt: &["prompt_tokens"],
        generated: &["generation_tokens"],
        finished: &["request_success"],
        ttft: TTFT,
        queue_time: &["request_queue_time_seconds"],
    },
    Names {
        engine: "Dynamo",
        prefixes: &["dynamo_frontend_"],
        running: &["inflight_requests"],
        queued: &["queued_requests"],
        usage: &[],
        hits: &[],
        queries: &[],
        hit_ratio: &["router_kv_hit_rate"],
        preempted: &[],
        retracted: &[],
        prompt: &[],
        generated: &["output_tokens"],
        finished: &["requests"],
        ttft: TTFT,
        queue_time: &[],
    },
    Names {
        engine: "Dynamo worker",
        prefixes: &["dynamo_component_"],
        running: &["inflight_requests"],
        queued: &[],
        usage: &["gpu_cache_usage_percent", "kvstats_gpu_cache_usage_percent"],
        hits: &[],
        queries: &[],
        hit_ratio: &[
            "gpu_prefix_cache_hit_rate",
            "kvstats_gpu_prefix_cache_hit_rate",
        ],
        preempted: &[],
        retracted: &[],
        prompt: &[],
        generated: &[],
        finished: &["requests"],
        ttft: &[],
        queue_time: &[],
    },
    Names {
        engine: "TGI",
        prefixes: &["tgi_"],
        running: &["batch_current_size"],
        queued: &["queue_size"],
        usage: &[],
        hits: &[],
        queries: &[],
        hit_ratio: &[],
        preempted: &[],
        retracted: &[],
        prompt: &["request_input_length"],
        generated: &["request_generated_tokens"],
        finished: &["request_success"],
        ttft: &[],
        queue_time: &["request_queue_duration"],
    },
];

/// What a page's engines say, and the same over time.
pub(super) fn read(view: &View<'_>, endpoint: &Endpoint) -> (Vec<Engine>, Vec<Track>) {
    let (mut engines, mut tracks) = (Vec::new(), Vec::new());
    for names in &ENGINES {
        let has_prefix = |name: &str| names.prefixes.iter().any(|p| name.starts_with(p));
        let mut families = view.history.families.iter();
        if !families.any(|family| has_prefix(&family.name)) {
            continue;
        }
        let reading = Reading { view, names };
        let mut quantities = Vec::new();
        for level in LEVELS {
            let Some(values) = reading.level(&level) else {
                continue;
            };
            quantities.extend(reading.mean_and_max(&level, &values));
            let (tag, unit) = (level.tag, level.unit);
            tracks.push(reading.track(endpoint, tag, unit, TrackKind::Gauge, values));
        }
        quantities.extend(reading.prefix_hits());
        for (tag, header, unit, of) in [
            ("preemptions", "Preemptions", "", names.preempted),
            ("prompt_tokens", "Prompt Tokens", "tokens", names.prompt),
            (
                "generation_tokens",
                "Generated Tokens",
                "tokens",
                names.generated,
            ),
        ] {
            let Some(total) = reading.growth(of) else {
                continue;
            };
            quantities.push(Quantity {
                tag,
                header,
                unit,
                stats: vec![("total", total), ("rate", total / view.seconds())],
            });
            if tag == "preemptions" {
                let values = reading.sums(&reading.columns(of));
                tracks.push(reading.track(endpoint, tag, unit, TrackKind::Counter, values));
            }
        }
        for (tag, header, of) in [
            ("time_to_first_token", "Time to First Token", names.ttft),
            ("queue_time", "Queue Time", names.queue_time),
        ] {
            quantities.extend(reading.latency(tag, header, of));
        }
        engines.push(Engine {
            name: names.engine,
            url: endpoint.url.clone(),
            source: endpoint.source.clone(),
            quantities,
            finished: reading.growth(names.finished),
        });
    }
    (engines, tracks)
}

/// A gauge by its common name.
struct Level {
    tag: &'static str,
    header: &'static str,
    unit: &'static str,
    names: fn(&Names) -> &'static [&'static str],
    /// Percent of what the page has as a ratio, and of several the largest; else they add up.
    is_ratio: bool,
}

const LEVELS: [Level; 4] = [
    Level {
        tag: "requests_running",
        header: "Requests Running",
        unit: "",
        names: |names| names.running,
        is_ratio: false,
    },
    Level {
        tag: "requests_queued",
        header: "Requests Queued",
        unit: "",
        names: |names| names.queued,
        is_ratio: false,
    },
    Level {
        tag: "kv_cache_usage",
        header: "KV Cache Usage",
        unit: "%",
        names: |names| names.usage,
        is_ratio: true,
    },
    Level {
        tag: "requests_retracted",
        header: "Requests Retracted",
        unit: "",
        names: |names| names.retracted,
        is_ratio: false,
    },
];

/// One engine on one page.
struct Reading<'a> {
    view: &'a View<'a>,
    names: &'a Names,
}

impl<'a> Reading<'a> {
    fn history(&self) -> &'a History {
        self.view.history
    }

    /// The series of the first of these names that is on the page.
    fn columns(&self, names: &[&str]) -> Vec<&'a Column> {
        let is = |name: &str, full: &str| {
            let stem = |prefix: &&str| full.strip_prefix(prefix) == Some(name);
            self.names.prefixes.iter().any(stem)
        };
        let mut places = names.iter().filter_map(|name| {
            let families = &self.history().families;
            families.iter().position(|family| is(name, &family.name))
        });
        let Some(place) = places.next() else {
            return Vec::new();
        };
        let columns = &self.history().columns;
        let mut columns: Vec<&Column> = columns.iter().filter(|c| c.family == place).collect();
        one_rank(&mut columns);
        columns
    }

    fn is_histogram(&self, column: &Column) -> bool {
        self.history().families[column.family].kind == FamilyKind::Histogram
    }

    /// What a counter has grown by, all its series together; of a histogram its sum.
    fn growth(&self, names: &[&str]) -> Option<f64> {
        let columns = self.columns(names);
        let grown = columns.into_iter().map(|column| {
            let row = self.view.growth(column)?;
            row.first().copied()
        });
        grown.reduce(|a, b| Some(a? + b?)).flatten()
    }

    /// Values at all ticks, with their times.
    fn level(&self, level: &Level) -> Option<Vec<(Ns, f64)>> {
        let columns = self.columns((level.names)(self.names));
        let values: Vec<(Ns, f64)> = match level.is_ratio {
            true => {
                let largest = self.over_time(&columns, f64::max);
                largest
                    .into_iter()
                    .map(|(at, ratio)| (at, ratio * 100.0))
                    .collect()
            }
            false => self.sums(&columns),
        };
        let most = if level.is_ratio {
            PERCENT_MAX
        } else {
            f64::MAX
        };
        let is_possible = |(_, value): &(Ns, f64)| (0.0..=most).contains(value);
        let values: Vec<(Ns, f64)> = values.into_iter().filter(is_possible).collect();
        (!values.is_empty()).then_some(values)
    }

    fn sums(&self, columns: &[&Column]) -> Vec<(Ns, f64)> {
        self.over_time(columns, |a, b| a + b)
    }

    /// One value of each tick at which some column has one.
    fn over_time(&self, columns: &[&Column], both: fn(f64, f64) -> f64) -> Vec<(Ns, f64)> {
        let times = &self.history().times;
        let mut all: Vec<Option<f64>> = vec![None; times.len()];
        for column in columns {
            for (sum, value) in all.iter_mut().zip(column.values(0, times.len())) {
                *sum = match (*sum, value) {
                    (Some(a), Some(b)) => Some(both(a, b)),
                    (one, other) => one.or(other),
                };
            }
        }
        let pairs = times.iter().zip(all);
        pairs
            .filter_map(|(at, value)| Some((*at, value?)))
            .collect()
    }

    fn inside(&self, values: &[(Ns, f64)]) -> Vec<f64> {
        let window = self.view.window;
        let is_in = |at: Ns| window.from <= at && at <= window.to;
        let values = values.iter().filter(|(at, _)| is_in(*at));
        values.map(|(_, value)| *value).collect()
    }

    fn mean_and_max(&self, level: &Level, values: &[(Ns, f64)]) -> Option<Quantity> {
        let (avg, max) = mean_and_max(&self.inside(values))?;
        Some(Quantity {
            tag: level.tag,
            header: level.header,
            unit: level.unit,
            stats: vec![("avg", avg), ("max", max)],
        })
    }

    fn track(
        &self,
        endpoint: &Endpoint,
        tag: &'static str,
        unit: &'static str,
        kind: TrackKind,
        values: Vec<(Ns, f64)>,
    ) -> Track {
        let (times, values) = values.into_iter().unzip();
        Track {
            source: endpoint.source.clone(),
            tag: tag.into(),
            unit: unit.into(),
            kind,
            series: Series { times, values },
        }
    }

    /// By what was counted, else by the server's own ratio.
    fn prefix_hits(&self) -> Option<Quantity> {
        let hits = self.growth(self.names.hits);
        let queries = self
            .growth(self.names.queries)
            .filter(|queries| *queries > 0.0);
        let counted = hits.zip(queries).map(|(hits, queries)| hits / queries);
        let told = || {
            let columns = self.columns(self.names.hit_ratio);
            let values = self.over_time(&columns, f64::max);
            mean_and_max(&self.inside(&values)).map(|(avg, _)| avg)
        };
        let share = counted.or_else(told)? * 100.0;
        Some(Quantity {
            tag: "prefix_cache_hits",
            header: "Prefix Cache Hits",
            unit: "%",
            stats: vec![("avg", Some(share).filter(|share| *share <= PERCENT_MAX)?)],
        })
    }

    /// A histogram in seconds, all its series together.
    fn latency(&self, tag: &'static str, header: &'static str, names: &[&str]) -> Option<Quantity> {
        let mut columns = self.columns(names);
        columns.retain(|column| self.is_histogram(column));
        let first = *columns.first()?;
        columns.retain(|column| column.bounds == first.bounds);
        let mut whole = vec![0.0; first.width()];
        for column in &columns {
            let grown = self.view.growth(column)?;
            whole
                .iter_mut()
                .zip(grown)
                .for_each(|(sum, grown)| *sum += grown);
        }
        let (&sum, counts) = whole.split_first()?;
        let count = *counts.last()?;
        if count <= 0.0 || sum < 0.0 {
            return None;
        }
        let percentiles = match columns.as_slice() {
            [one] => self.view.histogram(one, &whole)?.percentiles,
            _ => {
                let learned = Learned::new(first.bounds.len());
                Buckets::new(&first.bounds, counts)?.estimated(sum, &learned)
            }
        };
        let mut stats = vec![("count", count), ("avg", sum / count * 1e3)];
        if let Some(percentiles) = percentiles {
            stats.extend([("p50", percentiles[4] * 1e3), ("p99", percentiles[8] * 1e3)]);
        }
        Some(Quantity {
            tag,
            header,
            unit: "ms",
            stats,
        })
    }
}

/// Leaves the series of one rank, where every rank repeats what all have in common, and those of
/// all priorities together, where each has one of its own beside them.
fn one_rank(columns: &mut Vec<&Column>) {
    for label in ["tp_rank", "pp_rank"] {
        let of = |column: &Column| label_of(column, label).map(str::to_owned);
        let Some(least) = columns.iter().filter_map(|column| of(column)).min() else {
            continue;
        };
        columns.retain(|column| label_of(column, label).is_none_or(|rank| rank == least));
    }
    let is_all = |column: &Column| label_of(column, "priority") == Some("");
    if columns.iter().any(|column| is_all(column)) {
        columns.retain(|column| label_of(column, "priority").is_none_or(str::is_empty));
    }
}

fn label_of<'a>(column: &'a Column, name: &str) -> Option<&'a str> {
    let found = column.labels.iter().find(|(own, _)| own == name);
    found.map(|(_, value)| value.as_str())
}
