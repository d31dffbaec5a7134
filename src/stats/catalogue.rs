//! All metrics that a run's figures can have, by tag or by the short name that people say.

use super::figures::{PERCENTILE_KEYS, WEIGHTED_KEYS};
use super::metric::{Kind, METRICS};
use super::sweep;

/// What statistics a metric's figure has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One number for the run, its `avg`.
    Number,
    /// Over requests or events: all statistics.
    Distribution,
    /// Over time: [`WEIGHTED_KEYS`], `avg` and ends.
    Weighted,
    /// Error-adjusted: percentiles up to `p99`, `min` and `count`.
    Adjusted,
}

impl Form {
    /// Can a figure of this form have the statistic?
    pub fn has(self, stat: &str) -> bool {
        let ends = ["avg", "min", "max", "std"].contains(&stat);
        match self {
            Form::Number => stat == "avg",
            Form::Weighted => ends || WEIGHTED_KEYS.contains(&stat),
            Form::Distribution => {
                ends || ["count", "sum"].contains(&stat) || PERCENTILE_KEYS.contains(&stat)
            }
            Form::Adjusted => {
                ["min", "count"].contains(&stat) || PERCENTILE_KEYS[..9].contains(&stat)
            }
        }
    }
}

/// A metric that a run can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// `time_to_first_token`.
    pub tag: &'static str,
    /// `Time to First Token`.
    pub header: &'static str,
    /// Display unit.
    pub unit: &'static str,
    /// More is better.
    pub larger_is_better: bool,
    /// What statistics it has.
    pub form: Form,
}

/// What people say for a tag.
const SHORT: [(&str, &str); 27] = [
    ("ttft", "time_to_first_token"),
    ("ttst", "time_to_second_token"),
    ("ttfo", "time_to_first_output_token"),
    ("itl", "inter_token_latency"),
    ("tpot", "inter_token_latency"),
    ("icl", "inter_chunk_latency"),
    ("e2e", "request_latency"),
    ("e2e_latency", "request_latency"),
    ("latency", "request_latency"),
    ("isl", "input_sequence_length"),
    ("osl", "output_sequence_length"),
    ("throughput", "request_throughput"),
    ("rps", "request_throughput"),
    ("tps", "output_token_throughput"),
    ("tps_per_user", "output_token_throughput_per_user"),
    ("requests", "request_count"),
    ("duration", "benchmark_duration"),
    ("errors", "error_request_count"),
    ("error_count", "error_request_count"),
    ("error_rate", "request_error_rate"),
    ("good_fraction", "good_request_fraction"),
    ("concurrency", "effective_concurrency"),
    ("ttft_from_due", "time_to_first_token_from_due"),
    ("ttfo_from_due", "time_to_first_output_token_from_due"),
    ("e2e_from_due", "request_latency_from_due"),
    ("latency_from_due", "request_latency_from_due"),
    ("power", "nvidia_average_gpu_power"),
];
/// Names that a message lists.
const NEAREST_MAX: usize = 3;

/// Every metric that a run's figures can have, those of `client` too, in the order of the table;
/// not what a single GPU tells.
///
/// ```
/// let tags: Vec<&str> = tokenring::stats::catalogue::catalogue().map(|m| m.tag).collect();
/// assert!(tags.contains(&"adj_request_latency") && tags.contains(&"request_latency_from_due"));
/// ```
pub fn catalogue() -> impl Iterator<Item = Named> {
    METRICS.iter().flat_map(|metric| {
        let form = match metric.kind {
            Kind::Record(_) | Kind::Events => Form::Distribution,
            Kind::Run if metric.tag == "error_isl" => Form::Distribution,
            Kind::Run if sweep::TAGS.contains(&metric.tag) => Form::Weighted,
            Kind::Run => Form::Number,
        };
        let named = |tag, header, form| Named {
            tag,
            header,
            unit: metric.unit,
            larger_is_better: metric.larger_is_better,
            form,
        };
        let adjusted = metric.adjusted;
        let adjusted = adjusted.map(|(tag, header)| named(tag, header, Form::Adjusted));
        std::iter::once(named(metric.tag, metric.header, form)).chain(adjusted)
    })
}

/// The metric of a tag or a short name; case and dashes do not matter. Cost: a walk of the table.
///
/// ```
/// use tokenring::stats::catalogue::find;
/// assert_eq!(find("TTFT").unwrap().tag, "time_to_first_token");
/// assert_eq!(find("goodput").unwrap().unit, "requests/sec");
/// assert!(find("ttfx").is_none());
/// ```
pub fn find(name: &str) -> Option<Named> {
    let plain = plain(name);
    let short = SHORT.iter().find(|(short, _)| *short == plain);
    let tag = short.map_or(plain.as_str(), |(_, tag)| tag);
    catalogue().find(|metric| metric.tag == tag)
}

fn plain(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace('-', "_")
}

/// The names most like one that is none: tags and short names, the most alike first.
pub fn nearest(name: &str) -> Vec<&'static str> {
    let plain = plain(name);
    let shorts = SHORT.iter().map(|(short, _)| *short);
    let mut names: Vec<&str> = catalogue().map(|m| m.tag).chain(shorts).collect();
    let likeness = |name: &&str| strsim::jaro_winkler(&plain, name);
    names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    names.truncate(NEAREST_MAX);
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Anchor, Ns};
    use crate::stats::energy::energy;
    use crate::stats::figures::named;
    use crate::stats::summary::{Figure, GpuSummary};
    use crate::stats::{
        AccumulateOptions, Accumulator, Failure, FailureKind, Media, Record, Stage, TokenCounts,
        Usage,
    };

    /// A streamed request with all that a record can have.
    fn record(n: u64, is_failed: bool) -> Record {
        let at = |ms| Ns::from_ms(100 * n + ms);
        let mut r = Record {
            index: n,
            due: at(0),
            slot: at(1),
            start: at(2),
            sent: Some(at(4)),
            written: Some(at(4)),
            headers: Some(at(5)),
            first_byte: Some(at(5)),
            connect_start: Some(at(2)),
            connect_done: Some(at(3)),
            streamed: true,
            first_content: Some(at(10)),
            first_output: Some(at(12)),
            second_content: Some(at(20)),
            last_content: Some(at(40 + n)),
            done: at(50),
            requested_output: Some(8),
            requested_input: Some(12),
            media: Media {
                images: 2,
                audio: at(10),
            },
            tokens: TokenCounts {
                input: Some(12),
                output: Some(6),
                reasoning: Some(2),
                client_input: Some(12),
                client_output: Some(8),
                client_reasoning: Some(2),
                ..TokenCounts::default()
            },
            usage: Usage {
                prompt: Some(12),
                completion: Some(8),
                reasoning: Some(2),
                total: Some(20),
                cache_read: Some(4),
                accepted_prediction: Some(1),
                rejected_prediction: Some(1),
                cache_write: Some(2),
                ..Usage::default()
            },
            ..Record::default()
        };
        r.buffers.content_times = vec![at(10), at(20), at(40 + n)];
        r.failure = is_failed.then(|| {
            Box::new(Failure {
                kind: FailureKind::Server,
                stage: Stage::FirstToken,
                code: 500,
                name: "no".into(),
                message: "no".into(),
                after: None,
            })
        });
        r
    }

    #[test]
    fn a_run_has_no_metric_that_the_catalogue_lacks_and_each_as_it_says() {
        let mut sum = Accumulator::new(AccumulateOptions {
            streaming: true,
            goodput: vec![("request_latency".into(), 1_000.0)],
            anchor: Anchor::at(Ns::ZERO, 0),
            concurrency: None,
            capped: true,
            phases: Vec::new(),
        });
        (0..20).for_each(|n| sum.push(&record(n, n == 7)));
        let mut totals = sum.finish();
        let gpu = GpuSummary {
            energy_j: Some(1000.0),
            ..GpuSummary::default()
        };
        let amd = GpuSummary {
            platform: "amd",
            ..gpu.clone()
        };
        let per_joule = energy(&totals.metrics, &[gpu, amd], 2.0, Some(4));
        totals.metrics.append(&mut totals.client);
        totals.metrics.extend(per_joule);
        for metric in &totals.metrics {
            let known = find(metric.tag).unwrap_or_else(|| panic!("{}", metric.tag));
            let form = match metric.figure {
                Figure::Scalar(_) => Form::Number,
                Figure::Distribution(_) => Form::Distribution,
                Figure::Weighted(_) => Form::Weighted,
                Figure::Adjusted(_) => Form::Adjusted,
            };
            let found = (known.header, known.unit, known.form);
            assert_eq!(found, (metric.header, metric.unit, form), "{}", metric.tag);
            for (stat, _) in named(&metric.figure) {
                assert!(known.form.has(stat), "{} {stat}", metric.tag);
            }
        }
        let count = catalogue().count();
        assert!(
            totals.metrics.len() + 10 > count,
            "{} of {count}",
            totals.metrics.len()
        );
    }

    #[test]
    fn every_tag_stands_once_and_every_short_name_means_one() {
        let mut tags: Vec<&str> = catalogue().map(|metric| metric.tag).collect();
        for (short, tag) in SHORT {
            assert!(tags.contains(&tag) && !tags.contains(&short), "{short}");
            assert_eq!(find(short).unwrap().tag, tag);
        }
        tags.sort_unstable();
        assert!(tags.is_sorted_by(|a, b| a < b));
        for tag in sweep::TAGS {
            assert!(tags.contains(&tag), "{tag}");
        }
        assert_eq!(nearest("time_to_frist_token")[0], "time_to_first_token");
    }
}
