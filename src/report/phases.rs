//! The phases of a run that has several, side by side.

use super::text::{grouped, stat};
use crate::base::one_line;
use crate::stats::summary::PhaseResult;
use std::fmt::Write;

/// Head, tag and statistic of each column; 80 columns in all.
const COLUMNS: [(&str, &str, &str); 6] = [
    ("requests", "request_count", "avg"),
    ("errors", "error_request_count", "avg"),
    ("req/s", "request_throughput", "avg"),
    ("TTFT p50", "time_to_first_token", "p50"),
    ("TTFT p99", "time_to_first_token", "p99"),
    ("latency p99", "request_latency", "p99"),
];
const NAME_CHARS: usize = 18;

/// A line for each phase, times in ms; empty where phases are not told apart.
pub(super) fn table(phases: &[PhaseResult]) -> String {
    if phases.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{:<NAME_CHARS$}", "Phase");
    let widths = COLUMNS.map(|(head, ..)| head.len().max(8));
    for ((head, ..), width) in COLUMNS.iter().zip(widths) {
        // Writing to a String does not fail.
        let _ = write!(out, "  {head:>width$}");
    }
    out.push('\n');
    for phase in phases {
        let name = match phase.measured {
            true => phase.name.clone(),
            false => format!("{} *", phase.name),
        };
        let name = one_line(&name, NAME_CHARS - 3);
        let _ = write!(out, "{name:<NAME_CHARS$}");
        for ((_, tag, key), width) in COLUMNS.iter().zip(widths) {
            let metric = phase.metrics.iter().find(|metric| metric.tag == *tag);
            let value = metric.and_then(|metric| stat(&metric.figure, key));
            let is_count = tag.ends_with("count");
            let text = match value {
                Some(value) if is_count => format!("{value:.0}"),
                Some(value) => grouped(value),
                None => "-".into(),
            };
            let _ = write!(out, "  {text:>width$}");
        }
        out.push('\n');
    }
    out.push_str("times in ms; a phase with * is in no figure above\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::summary::{Figure, MetricResult};

    #[test]
    fn each_phase_has_its_line_within_80_columns() {
        let metric = |tag, value| MetricResult {
            tag,
            header: tag,
            unit: "",
            figure: Figure::Scalar(value),
        };
        let phase = |name: &str, measured, count| PhaseResult {
            name: name.into(),
            measured,
            metrics: vec![
                metric("request_count", count),
                metric("request_throughput", 12.5),
            ],
        };
        let phases = [
            phase("warmup", false, 20.0),
            phase("a very long name of a phase\u{1b}[2J", true, 1_000.0),
        ];
        let text = table(&phases);
        assert!(
            text.lines().all(|line| line.chars().count() <= 82),
            "{text}"
        );
        assert!(
            text.contains("warmup *") && text.contains("12.50"),
            "{text}"
        );
        assert!(text.contains("1000") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(table(&[]), "");
    }
}
