//! `analyze_export_genai_perf.csv`: GenAI-Perf's columns, order and second table, with the values
//! and units that it meant.

use super::csv::line;
use super::text::fixed_in;
use crate::stats::Figures;
use crate::stats::many::{Point, Runs};

/// Tag, statistic, column.
const METRICS: [(&str, &str, &str); 6] = [
    ("time_to_first_token", "p99", "p99 Time To First Token (ms)"),
    ("inter_token_latency", "p99", "p99 Inter Token Latency (ms)"),
    ("request_latency", "p99", "p99 Request Latency (ms)"),
    (
        "output_sequence_length",
        "p99",
        "p99 Output Sequence Length (tokens)",
    ),
    (
        "output_token_throughput",
        "avg",
        "Avg. Output Token Throughput (tokens/sec)",
    ),
    (
        "request_throughput",
        "avg",
        "Request Throughput (requests/sec)",
    ),
];
/// The same of the GPUs: tags of ours.
const GPU_METRICS: [(&str, &str, &str); 6] = [
    ("nvidia_power_usage", "p99", "p99 GPU Power Usage (W)"),
    (
        "nvidia_energy_consumption",
        "avg",
        "p99 GPU Energy Consumption (MJ)",
    ),
    ("nvidia_gpu_utilization", "p99", "p99 GPU Utilization (%)"),
    ("nvidia_memory_used", "p99", "p99 GPU Memory Used (GB)"),
    ("nvidia_power_limit", "avg", "Avg. GPU Power Limit (W)"),
    ("nvidia_memory_total", "avg", "Avg. GPU Total Memory (GB)"),
];

/// The file: the points, most requests per second first; then the GPUs, one after the other.
pub fn bytes(runs: &Runs) -> Vec<u8> {
    let mut points: Vec<(usize, Point<'_>)> = runs.by_point().into_iter().enumerate().collect();
    points.retain(|(_, point)| !point.good.is_empty());
    let rate = |point: &Point<'_>| {
        point
            .figures
            .get("request_throughput", "avg")
            .unwrap_or(0.0)
    };
    points.sort_by(|(_, a), (_, b)| rate(b).total_cmp(&rate(a)));
    let is_open = points
        .iter()
        .any(|(_, point)| point.first.request_rate.is_some());
    let further = further(runs);
    let mut out = Vec::new();
    let load = if is_open {
        "Request Rate"
    } else {
        "Concurrency"
    };
    let head = ["Config Name", load, "ISL", "Num Dataset Entries"];
    let head = head
        .iter()
        .copied()
        .chain(METRICS.map(|(_, _, column)| column));
    line(
        &mut out,
        head.chain(further.iter().map(|(_, header)| *header)),
    );
    for (number, point) in &points {
        let first = point.first;
        let load = match (is_open, first.request_rate, first.concurrency) {
            (true, Some(rate), _) => rate.to_string(),
            (false, _, Some(concurrency)) => concurrency.to_string(),
            _ => String::new(),
        };
        let isl = point.figures.get("input_sequence_length", "p99");
        let names = [
            name(runs, *number),
            load,
            isl.map_or(String::new(), |isl| format!("{:.0}", isl.trunc())),
            first
                .dataset_entries
                .map_or(String::new(), |count| count.to_string()),
        ];
        let own = |(key, _): &(&str, &str)| {
            let value = first.value(key);
            value.map_or(String::new(), |value| value.to_string())
        };
        let figures = cells(&point.figures, &METRICS, "0.00");
        line(
            &mut out,
            names
                .into_iter()
                .chain(figures)
                .chain(further.iter().map(own)),
        );
    }
    gpus(runs, &points, &mut out);
    out
}

/// Settings that vary and have no column there.
fn further(runs: &Runs) -> Vec<(&'static str, &'static str)> {
    let known = ["concurrency", "request_rate", "isl", "num_dataset_entries"];
    let others = runs.axes.iter().filter(|axis| !known.contains(&axis.key));
    others.map(|axis| (axis.key, axis.header)).collect()
}

fn gpus(runs: &Runs, points: &[(usize, Point<'_>)], out: &mut Vec<u8>) {
    let mut names: Vec<&str> = Vec::new();
    let all = points.iter().flat_map(|(_, point)| &point.first.gpus);
    for (name, _) in all {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return;
    }
    line(out, [""]);
    let head = ["Config Name", "GPU"].into_iter();
    line(out, head.chain(GPU_METRICS.map(|(_, _, column)| column)));
    for gpu in names {
        for (number, point) in points {
            let Some((_, figures)) = point.first.gpus.iter().find(|(own, _)| own == gpu) else {
                continue;
            };
            let names = [name(runs, *number), gpu.to_owned()];
            line(
                out,
                names.into_iter().chain(cells(figures, &GPU_METRICS, "")),
            );
        }
    }
}

fn name(runs: &Runs, number: usize) -> String {
    format!("{}_run_config_{number}", runs.model)
}

fn cells<'a>(
    figures: &'a Figures,
    metrics: &'a [(&'a str, &'a str, &'a str)],
    absent: &'a str,
) -> impl Iterator<Item = String> + 'a {
    metrics.iter().map(move |(tag, stat, column)| {
        let unit = if column.ends_with("(MJ)") { "MJ" } else { "" };
        let value = figures.get(tag, stat);
        value.map_or(absent.to_string(), |value| fixed_in(unit, value))
    })
}
