//! `profile_export_aiperf.csv`: AIPerf's sections, columns and line ends; ours are further right.

use super::text::{csv_label, fixed, stat};
use super::{RunInfo, gpus};
use crate::stats::Summary;
use crate::stats::summary::{Figure, MetricResult};

/// AIPerf's columns, then ours.
pub(super) const COLUMNS: [&str; 16] = [
    "avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std",
    "p99_9", "p99_99",
];
/// How many of [`COLUMNS`] are AIPerf's.
const COLUMNS_AIPERF: usize = 14;

/// One file: distributions, then scalars, then GPUs; rows by tag, two decimals, blank where absent.
pub fn aiperf(summary: &Summary, run: &RunInfo) -> Vec<u8> {
    let mut out = of_metrics(&summary.metrics);
    gpu_rows(summary, run, &mut out);
    out
}

/// The rows of the metrics alone.
pub fn of_metrics(metrics: &[MetricResult]) -> Vec<u8> {
    let mut metrics: Vec<&MetricResult> = metrics.iter().collect();
    metrics.sort_by_key(|metric| metric.tag);
    let (scalars, spread): (Vec<_>, Vec<_>) = metrics
        .into_iter()
        .partition(|metric| matches!(metric.figure, Figure::Scalar(_)));
    let mut out = Vec::new();
    if !spread.is_empty() {
        line(&mut out, std::iter::once("Metric").chain(COLUMNS));
        for metric in spread {
            let label = csv_label(metric);
            line(
                &mut out,
                std::iter::once(label).chain(cells(metric, &COLUMNS)),
            );
        }
        out.extend_from_slice(b"\r\n");
    }
    line(&mut out, ["Metric", "Value"]);
    for metric in scalars {
        let value = stat(&metric.figure, "avg").map_or_else(String::new, fixed);
        line(&mut out, [csv_label(metric), value]);
    }
    out
}

fn cells<'a>(
    metric: &'a MetricResult,
    columns: &'a [&'a str],
) -> impl Iterator<Item = String> + 'a {
    columns
        .iter()
        .map(|key| stat(&metric.figure, key).map_or_else(String::new, fixed))
}

fn gpu_rows(summary: &Summary, run: &RunInfo, out: &mut Vec<u8>) {
    if summary.gpus.is_empty() {
        return;
    }
    out.extend_from_slice(b"\r\n\r\n");
    let columns = &COLUMNS[..COLUMNS_AIPERF];
    let head = [
        "Endpoint",
        "GPU_Index",
        "GPU_Name",
        "GPU_UUID",
        "Platform",
        "Metric",
    ];
    line(out, head.iter().chain(columns).chain(&["Hostname"]));
    for gpu in &summary.gpus {
        for metric in &gpu.metrics {
            let mut row = vec![
                gpus::endpoint(&gpu.source).to_owned(),
                gpus::number(gpu),
                gpu.name.clone(),
                gpu.uuid.clone(),
                gpus::platform(gpu).to_owned(),
                match metric.unit {
                    "" => metric.header.to_owned(),
                    unit => format!("{} ({unit})", metric.header),
                },
            ];
            row.extend(cells(metric, columns));
            row.push(gpus::host(gpu, run).to_owned());
            line(out, row);
        }
    }
}

/// One line with CRLF; a cell is quoted when it must be.
pub(super) fn line<S: AsRef<str>>(out: &mut Vec<u8>, cells: impl IntoIterator<Item = S>) {
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let cell = cell.as_ref();
        if cell.contains(['"', ',', '\r', '\n']) {
            out.push(b'"');
            out.extend_from_slice(cell.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        } else {
            out.extend_from_slice(cell.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    const GOLDEN: &str = include_str!("../../tests/data/golden/aiperf/profile_export_aiperf.csv");

    fn written() -> String {
        String::from_utf8(aiperf(&fixture::summary(), &fixture::run())).unwrap()
    }

    #[test]
    fn the_file_is_as_committed() {
        insta::assert_snapshot!(written().replace("\r\n", "\n"));
    }

    #[test]
    fn heads_begin_with_those_of_aiperf() {
        let ours = written();
        for head in ["Metric,avg", "Metric,Value", "Endpoint,"] {
            let find = |text: &str| {
                let line = text.lines().find(|line| line.starts_with(head));
                line.unwrap_or_default().to_owned()
            };
            let golden = find(GOLDEN);
            assert!(!golden.is_empty());
            assert!(find(&ours).starts_with(&golden), "{golden}");
        }
    }

    #[test]
    fn the_figures_of_aiperf_make_its_file_to_the_byte() {
        let mut run = fixture::run();
        run.hostname = "localhost".into();
        let ours = String::from_utf8(aiperf(&fixture::golden(), &run)).unwrap();
        // Up to the two columns that are ours.
        let mut text = String::new();
        for line in ours.split_inclusive("\r\n") {
            let cells = line.trim_end().split(',').collect::<Vec<_>>();
            let is_ours = cells.len() == COLUMNS.len() + 1;
            text.push_str(&cells[..cells.len() - if is_ours { 2 } else { 0 }].join(","));
            text.push_str("\r\n");
        }
        assert_eq!(text, GOLDEN);
    }

    #[test]
    fn every_line_ends_as_in_aiperf() {
        let ours = written();
        assert_eq!(ours.matches('\n').count(), ours.matches("\r\n").count());
        assert_eq!(GOLDEN.matches('\n').count(), GOLDEN.matches("\r\n").count());
    }

    #[test]
    fn cells_with_a_comma_or_a_quote_are_quoted() {
        let mut out = Vec::new();
        line(&mut out, ["a,b", "say \"x\"", "plain"]);
        assert_eq!(out, b"\"a,b\",\"say \"\"x\"\"\",plain\r\n");
    }
}
