//! GPUs in the reports: what they are called, `telemetry_data`, the tables on screen.

use super::RunInfo;
use super::json::figures;
use super::text::{grouped, stat, wall};
use crate::stats::Summary;
use crate::stats::summary::{GpuSummary, MetricResult};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// GPUs that have a table of their own on screen; more share one.
const TABLES_MAX: usize = 2;

/// A source as AIPerf names it: without its scheme and `/metrics`; a driver has neither.
pub(super) fn endpoint(source: &str) -> &str {
    let schemes = ["http://", "https://"];
    let page = schemes
        .iter()
        .find_map(|scheme| source.strip_prefix(scheme));
    page.map_or(source, |page| page.strip_suffix("/metrics").unwrap_or(page))
}

/// The machine that a GPU is in.
pub(super) fn host<'a>(gpu: &'a GpuSummary, run: &'a RunInfo) -> &'a str {
    match gpu.hostname.as_str() {
        "" => &run.hostname,
        name => name,
    }
}

/// `nvidia` where nothing else is said.
pub(super) fn platform(gpu: &GpuSummary) -> &'static str {
    match gpu.platform {
        "" => "nvidia",
        platform => platform,
    }
}

/// `0`, and `0/3` for an instance on it.
pub(super) fn number(gpu: &GpuSummary) -> String {
    match gpu.instance.as_str() {
        "" => gpu.index.to_string(),
        instance => format!("{}/{instance}", gpu.index),
    }
}

/// Numbers that stand for one GPU each: with its machine where there are several, and with its
/// source where that does not tell them apart.
pub fn labels(gpus: &[GpuSummary]) -> Vec<String> {
    let first = gpus.first().map(|gpu| gpu.hostname.as_str());
    let is_one = gpus.iter().all(|gpu| Some(gpu.hostname.as_str()) == first);
    let plain = |gpu: &GpuSummary| match is_one || gpu.hostname.is_empty() {
        true => number(gpu),
        false => format!("{}:{}", gpu.hostname, number(gpu)),
    };
    let all: Vec<String> = gpus.iter().map(plain).collect();
    let label = |(gpu, label): (&GpuSummary, &String)| {
        let is_alone = all.iter().filter(|other| *other == label).count() == 1;
        match is_alone {
            true => label.clone(),
            false => format!("{}:{}", endpoint(&gpu.source), number(gpu)),
        }
    };
    gpus.iter().zip(&all).map(label).collect()
}

/// The block `telemetry_data`; AIPerf's members first.
pub(super) fn telemetry(summary: &Summary, run: &RunInfo) -> Value {
    let mut endpoints: Map<String, Value> = Map::new();
    for gpu in &summary.gpus {
        let all = endpoints.entry(endpoint(&gpu.source).to_owned());
        let all = all.or_insert_with(|| json!({"gpus": {}}));
        if let Some(gpus) = all["gpus"].as_object_mut() {
            gpus.insert(key(gpu, gpus), object(gpu, run));
        }
    }
    let told = &summary.telemetry;
    let error = |(text, count): &(String, u64)| {
        let details = json!({"type": "scrape", "message": text});
        json!({"error_details": details, "count": count})
    };
    json!({
        "summary": {
            "endpoints_configured": told.configured,
            "endpoints_successful": told.successful,
            "start_time": wall(summary.start_wall_ns),
            "end_time": wall(summary.end_wall_ns),
            "invalid_samples": told.invalid_samples,
        },
        "endpoints": endpoints,
        "error_summary": told.errors.iter().map(error).collect::<Vec<_>>(),
    })
}

/// `gpu_0`; what another GPU of the page has already is told apart by the machine, then by a count.
fn key(gpu: &GpuSummary, taken: &Map<String, Value>) -> String {
    let plain = match gpu.instance.as_str() {
        "" => format!("gpu_{}", gpu.index),
        instance => format!("gpu_{}_{instance}", gpu.index),
    };
    let placed = format!("{plain}@{}", gpu.hostname);
    let counted = (2..).map(|count| format!("{placed}#{count}"));
    let mut all = [plain, placed.clone()].into_iter().chain(counted);
    all.find(|key| !taken.contains_key(key)).unwrap_or_default()
}

fn object(gpu: &GpuSummary, run: &RunInfo) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            out.insert(key.to_owned(), value);
        }
    };
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    put("gpu_index", gpu.index.into());
    put("gpu_name", gpu.name.as_str().into());
    put("gpu_uuid", gpu.uuid.as_str().into());
    put("platform", platform(gpu).into());
    put("hostname", host(gpu, run).into());
    put("metrics", figures(&gpu.metrics).into());
    put("instance", json!(some(&gpu.instance)));
    if !gpu.instance.is_empty() {
        // So are its power and its energy.
        put("power_scope", "whole_gpu".into());
    }
    put("energy_j", json!(gpu.energy_j));
    put("energy_source", json!(some(gpu.energy_source)));
    put("energy_check_j", json!(gpu.energy_check_j));
    put("energy_confidence", json!(some(gpu.energy_confidence)));
    put("idle_power_w", json!(gpu.idle_power_w));
    for (name, value) in &gpu.energy_ratios {
        put(name, json!(value));
    }
    put(
        "update_period_s",
        json!(gpu.update_period.map(|period| period.as_secs())),
    );
    Value::Object(out)
}

/// Main rows of a GPU: AIPerf's.
const MAIN: [&str; 8] = [
    "power_usage",
    "energy_consumption",
    "gpu_utilization",
    "memory_utilization",
    "memory_used",
    "temperature",
    "xid_errors",
    "power_violation",
];
/// The same where AMD's are called otherwise.
const MAIN_AMD: [&str; 5] = [
    "power",
    "gfx_activity",
    "umc_activity",
    "ecc_uncorrectable",
    "throttle_status",
];

/// The rows of a GPU that are for the screen, and the others that say that something held it up.
fn main_rows(gpu: &GpuSummary) -> Vec<&MetricResult> {
    let is_main = |metric: &&MetricResult| {
        let name = metric.tag.split_once('_').map_or("", |(_, name)| name);
        let is_told = stat(&metric.figure, "max").is_some_and(|max| max > 0.0);
        MAIN.contains(&name)
            || MAIN_AMD.contains(&name)
            || name == "sm_clock"
            || (name.starts_with("throttle_") && is_told)
    };
    gpu.metrics.iter().filter(is_main).collect()
}

/// Title and rows of each GPU's table; none where there are many.
pub(super) fn tables(gpus: &[GpuSummary]) -> Vec<(String, Vec<&MetricResult>)> {
    let own = if gpus.len() > TABLES_MAX { &[] } else { gpus };
    own.iter()
        .map(|gpu| {
            let source = endpoint(&gpu.source);
            let title = format!("{source} | GPU {} | {}", number(gpu), gpu.name);
            (title, main_rows(gpu))
        })
        .collect()
}

/// Columns of the table that many GPUs share: head, tag without its platform, statistic.
const SHARED: [(&str, [&str; 2], &str); 7] = [
    ("Power avg (W)", ["power_usage", "power"], "avg"),
    ("max (W)", ["power_usage", "power"], "max"),
    ("Busy (%)", ["gpu_utilization", "gfx_activity"], "avg"),
    ("Memory max (GB)", ["memory_used", "memory_used"], "max"),
    ("Temp max (°C)", ["temperature", "temperature"], "max"),
    ("SM clock (MHz)", ["sm_clock", "gfx_clock"], "avg"),
    ("Energy (J)", ["", ""], ""),
];

/// Columns to drop, in this order, when a line would not fit.
const DROPPED_FIRST: [&str; 3] = ["SM clock (MHz)", "max (W)", "Temp max (°C)"];
/// What a GPU's name has in any case.
const NAME_WIDTH_MIN: usize = 8;

fn column_width(head: &str) -> usize {
    head.chars().count().max(10)
}

/// One table of all GPUs, a line each, at most `width` columns wide; empty where each has its own.
pub(super) fn shared(gpus: &[GpuSummary], width: usize) -> String {
    if gpus.len() <= TABLES_MAX {
        return String::new();
    }
    let value = |gpu: &GpuSummary, tags: &[&str; 2], key: &str| {
        let is_own = |metric: &&MetricResult| {
            let name = metric.tag.split_once('_').map_or("", |(_, name)| name);
            tags.contains(&name)
        };
        stat(&gpu.metrics.iter().find(is_own)?.figure, key)
    };
    let cell = |gpu: &GpuSummary, (_, tags, key): &(&str, [&str; 2], &str)| {
        let found = match *key {
            "" => gpu.energy_j,
            key => value(gpu, tags, key),
        };
        found.map_or_else(|| "N/A".into(), grouped)
    };
    let mut shown: Vec<&(&str, [&str; 2], &str)> = SHARED.iter().collect();
    let room = |shown: &[&(&str, [&str; 2], &str)]| -> usize {
        let each = shown.iter().map(|(head, ..)| 2 + column_width(head));
        each.sum()
    };
    for dropped in DROPPED_FIRST {
        if room(&shown) + NAME_WIDTH_MIN > width {
            shown.retain(|(head, ..)| *head != dropped);
        }
    }
    let names = labels(gpus);
    let longest = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    // A name that is too long gives way.
    let left = width.saturating_sub(room(&shown));
    let name_width = longest.max(3).min(left.max(NAME_WIDTH_MIN));
    let mut out = format!("{:<name_width$}", "GPU");
    for (head, ..) in &shown {
        // Writing to a String does not fail, here and below.
        let _ = write!(out, "  {head:>0$}", column_width(head));
    }
    out.push('\n');
    for (gpu, name) in gpus.iter().zip(names) {
        let name: String = name.chars().take(name_width).collect();
        let _ = write!(out, "{name:<name_width$}");
        for which in &shown {
            let _ = write!(out, "  {:>1$}", cell(gpu, which), column_width(which.0));
        }
        out.push('\n');
    }
    format!("GPUs; all their figures are in the files\n{out}")
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn gpu(source: &str, hostname: &str, index: u32, instance: &str) -> GpuSummary {
        GpuSummary {
            source: source.into(),
            hostname: hostname.into(),
            index,
            instance: instance.into(),
            ..fixture::summary().gpus[0].clone()
        }
    }

    #[test]
    fn sources_are_named_as_aiperf_names_them() {
        for (source, want) in [
            (
                "http://127.0.0.1:18000/dcgm1/metrics",
                "127.0.0.1:18000/dcgm1",
            ),
            ("https://n1:9400/metrics", "n1:9400"),
            ("http://n1:8002/stats", "n1:8002/stats"),
            ("nvml://localhost", "nvml://localhost"),
        ] {
            assert_eq!(endpoint(source), want);
        }
    }

    #[test]
    fn gpus_of_several_nodes_never_share_a_name() {
        let (one, two) = ("http://n1:9400/metrics", "http://n2:9400/metrics");
        let here = [gpu(one, "n1", 0, ""), gpu(one, "n1", 1, "")];
        assert_eq!(labels(&here), ["0", "1"]);
        let nodes = [
            gpu(one, "n1", 0, ""),
            gpu(two, "n2", 0, ""),
            gpu(two, "n2", 0, "3"),
        ];
        assert_eq!(labels(&nodes), ["n1:0", "n2:0", "n2:0/3"]);
        let nameless = [gpu(one, "", 0, ""), gpu(two, "", 0, "")];
        assert_eq!(labels(&nameless), ["n1:9400:0", "n2:9400:0"]);
        // One page may tell of several machines.
        let all = [
            gpu(one, "a", 0, ""),
            gpu(one, "b", 0, ""),
            gpu(one, "b", 0, ""),
            gpu(one, "a", 0, "7"),
        ];
        let summary = Summary {
            gpus: all.into(),
            ..Summary::default()
        };
        let block = telemetry(&summary, &fixture::run());
        let keys = block["endpoints"]["n1:9400"]["gpus"]
            .as_object()
            .unwrap()
            .keys();
        assert_eq!(
            keys.collect::<Vec<_>>(),
            ["gpu_0", "gpu_0@b", "gpu_0@b#2", "gpu_0_7"]
        );
    }

    #[test]
    fn many_gpus_share_a_table() {
        let source = "http://n1:9400/metrics";
        let mut gpus: Vec<GpuSummary> = (0..4).map(|at| gpu(source, "n1", at, "")).collect();
        gpus[1].energy_j = Some(12_345.6);
        assert!(tables(&gpus).is_empty() && shared(&gpus[..2], 140).is_empty());
        insta::assert_snapshot!(shared(&gpus, 140));
        let narrow = shared(&gpus, 80);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
        assert!(narrow.contains("Energy (J)"), "{narrow}");
    }
}
