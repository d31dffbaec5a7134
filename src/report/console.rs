//! The report on screen: verdict, AIPerf's table, errors, GPUs, method, verdict again.

use super::text::{grouped, span, stat};
use crate::stats::Summary;
use crate::stats::summary::{ClientReport, Figure, MetricResult};
use std::fmt::Write;

/// Columns of the table, most wanted first when there is little room.
const COLUMNS: [&str; 8] = ["avg", "min", "max", "p99_9", "p99", "p90", "p50", "std"];
/// Columns to drop, in this order, when a line would not fit.
const DROPPED_FIRST: [&str; 5] = ["std", "p99_9", "min", "p90", "max"];
/// Names longer than this get their unit on a line of its own.
const NAME_CHARS_MAX: usize = 30;
/// Tags of the table's rows, in AIPerf's display order.
const ROWS: [&str; 22] = [
    "time_to_first_token",
    "time_to_second_token",
    "time_to_first_output_token",
    "request_latency",
    "decode_duration",
    "inter_token_latency",
    "output_token_throughput_per_user",
    "e2e_output_token_throughput",
    "output_sequence_length",
    "input_sequence_length",
    "output_token_throughput",
    "input_token_throughput",
    "request_throughput",
    "goodput",
    "completed_request_count",
    "request_error_rate",
    "request_count",
    "adj_time_to_first_token",
    "adj_request_latency",
    "adj_inter_token_latency",
    "effective_concurrency",
    "credit_to_start_latency",
];

/// The whole report, at most `width` columns wide (at least 80), without colour.
pub fn report(summary: &Summary, extra: &[MetricResult], width: usize) -> String {
    let width = width.max(80);
    let mut out = verdict(&summary.client);
    out.push('\n');
    let rows: Vec<&MetricResult> = ROWS
        .iter()
        .filter_map(|tag| summary.metric(tag))
        .chain(extra.iter())
        .collect();
    out.push_str(&table("tokenring | LLM Metrics", &rows, width));
    for gpu in &summary.gpus {
        let rows: Vec<&MetricResult> = gpu.metrics.iter().collect();
        let title = format!("GPU {} | {}", gpu.index, gpu.name);
        let _ = write!(out, "\n{}", table(&title, &rows, width));
    }
    errors(summary, width, &mut out);
    method(summary, width, &mut out);
    let _ = write!(out, "\n{}\n", verdict_line(&summary.client));
    out
}

fn verdict_line(client: &ClientReport) -> String {
    format!("Verdict: {}", client.verdict.name())
}

fn verdict(client: &ClientReport) -> String {
    let mut out = verdict_line(client);
    out.push('\n');
    for reason in &client.reasons {
        // Writing to a String does not fail, here and below.
        let _ = writeln!(
            out,
            "  {} {}: {}, limit {}; {}",
            reason.level.name(),
            reason.code,
            reason.measured,
            reason.limit,
            reason.advice
        );
    }
    let _ = writeln!(
        out,
        "  the client: receive lag p99 {}, send lag p99 {}, event time error p99 {}, busiest \
         core {:.0} %",
        span(client.receive_lag.p99),
        span(client.send_lag.p99),
        span(client.event_time_error.p99),
        client
            .cores
            .iter()
            .map(|core| core.busy_ratio)
            .fold(0.0, f64::max)
            * 100.0
    );
    let _ = writeln!(out, "  received by {}", client.receive_path);
    out
}

/// A box table; columns are dropped until it fits.
fn table(title: &str, rows: &[&MetricResult], width: usize) -> String {
    let mut columns: Vec<&str> = COLUMNS.to_vec();
    let mut drop = DROPPED_FIRST.iter();
    loop {
        let drawn = draw(title, rows, &columns);
        let fits = drawn.lines().all(|line| line.chars().count() <= width);
        match drop.next() {
            Some(column) if !fits => columns.retain(|kept| kept != column),
            _ => return drawn,
        }
    }
}

fn cell(metric: &MetricResult, column: &str) -> String {
    stat(&metric.figure, column).map_or_else(|| "N/A".into(), grouped)
}

/// Lines of a row's name: the unit goes below when the name is long.
fn name_lines(metric: &MetricResult) -> Vec<String> {
    let unit = format!("({})", metric.unit);
    let whole = format!("{} {unit}", metric.header);
    let bare = matches!(metric.unit, "requests" | "count" | "");
    match whole.chars().count() > NAME_CHARS_MAX + 16 {
        _ if bare => vec![metric.header.to_string()],
        true => vec![metric.header.to_string(), unit],
        false => vec![whole],
    }
}

fn draw(title: &str, rows: &[&MetricResult], columns: &[&str]) -> String {
    let head = |column: &&str| column.replace("p99_9", "p99.9");
    let names: Vec<Vec<String>> = rows.iter().map(|row| name_lines(row)).collect();
    let name_width = names
        .iter()
        .flatten()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(6);
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let cells = rows.iter().map(|row| cell(row, column).len());
            cells.max().unwrap_or(0).max(head(column).len())
        })
        .collect();
    let line = |left: char, fill: char, middle: char, right: char| {
        let mut text = String::from(left);
        text.extend(std::iter::repeat_n(fill, name_width + 2));
        for width in &widths {
            text.push(middle);
            text.extend(std::iter::repeat_n(fill, width + 2));
        }
        text.push(right);
        text.push('\n');
        text
    };
    let total = name_width + 4 + widths.iter().map(|width| width + 3).sum::<usize>();
    let mut out = format!("{title:^total$}").trim_end().to_string();
    out.push('\n');
    out.push_str(&line('┏', '━', '┳', '┓'));
    let _ = write!(out, "┃ {:>name_width$} ┃", "Metric");
    for (column, width) in columns.iter().zip(&widths) {
        let _ = write!(out, " {:>width$} ┃", head(column));
    }
    out.push('\n');
    out.push_str(&line('┡', '━', '╇', '┩'));
    for (row, names) in rows.iter().zip(&names) {
        for (at, name) in names.iter().enumerate() {
            let _ = write!(out, "│ {name:>name_width$} │");
            for (column, width) in columns.iter().zip(&widths) {
                let text = if at == 0 {
                    cell(row, column)
                } else {
                    String::new()
                };
                let _ = write!(out, " {text:>width$} │");
            }
            out.push('\n');
        }
    }
    out.push_str(&line('└', '─', '┴', '┘'));
    out
}

/// One line of at most `width` columns, without line ends.
fn one_line(text: &str, width: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.chars().count() > width {
        true => flat
            .chars()
            .take(width.saturating_sub(3))
            .chain("...".chars())
            .collect(),
        false => flat,
    }
}

fn errors(summary: &Summary, width: usize, out: &mut String) {
    if summary.errors.is_empty() {
        return;
    }
    out.push_str("\nErrors (count, code, type, message)\n");
    for group in &summary.errors {
        let line = format!(
            "{:>8}  {}  {}  {}",
            group.count, group.code, group.name, group.message
        );
        let _ = writeln!(out, "{}", one_line_kept(&line, width));
    }
}

/// As [`one_line`], keeping the indentation.
fn one_line_kept(text: &str, width: usize) -> String {
    let indent = text.len() - text.trim_start().len();
    format!(
        "{}{}",
        " ".repeat(indent),
        one_line(text, width.saturating_sub(indent))
    )
}

fn method(summary: &Summary, width: usize, out: &mut String) {
    let client = &summary.client;
    let mut lines = client.notes.clone();
    lines.push(format!(
        "seed {}, tokenizer {}",
        client.seed, client.tokenizer
    ));
    if client.tokenizer_stands_in {
        lines.push(
            "the tokenizer is not the model's own: token counts of ours are estimates".into(),
        );
    }
    for metric in &summary.metrics {
        if let Figure::Distribution(d) = &metric.figure
            && matches!(metric.tag, "time_to_first_token" | "request_latency")
            && d.count < 662
        {
            let note = "p99 needs 662 requests to be carried at 99 % confidence, p99.9 6,636";
            lines.push(format!("{} of {} requests: {note}", metric.header, d.count));
            break;
        }
    }
    lines.push("one run: three or more make a number to quote".into());
    out.push_str("\nMethod\n");
    for line in lines {
        for part in wrap(&line, width.saturating_sub(4)) {
            let _ = writeln!(out, "  {part}");
        }
    }
}

/// Breaks a sentence between words.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(format!("  {word}"));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let summary = fixture::summary();
        for width in [80, 100, 140] {
            let text = report(&summary, &[], width);
            for line in text.lines() {
                let chars = line.chars().count();
                let prose = line.starts_with("  the client")
                    || line.starts_with("  DEGRADED")
                    || line.starts_with("  INVALID")
                    || line.starts_with("  received");
                assert!(chars <= width || prose, "{chars} columns: {line}");
            }
            assert!(text.starts_with("Verdict: "));
            assert!(
                text.trim_end()
                    .lines()
                    .last()
                    .unwrap()
                    .starts_with("Verdict: ")
            );
        }
    }
}
