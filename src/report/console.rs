//! The report on screen: verdict, AIPerf's table, errors, GPUs, method, verdict again.

use super::course;
use super::gpus;
use super::phases;
use super::server_console;
use super::slices;
use super::support;
use super::text::{fixed_in, grouped, span, stat, wall};
use crate::base::one_line;
use crate::stats::Summary;
use crate::stats::metric::{self, Group, METRICS, Need};
use crate::stats::summary::{MetricResult, Verdict};
use std::fmt::Write;

/// Columns of the table, most wanted first when there is little room.
const COLUMNS: [&str; 8] = ["avg", "min", "max", "p99_9", "p99", "p90", "p50", "std"];
/// Columns to drop, in this order, when a line would not fit.
const DROPPED_FIRST: [&str; 5] = ["std", "p99_9", "min", "p90", "max"];
/// Headers longer than this get their unit on a line of its own, as in AIPerf.
const HEADER_CHARS_MAX: usize = 30;

/// The whole report, at most `width` columns wide (at least 80), without colour.
///
/// Shape: `ours` are metrics that AIPerf lacks; they are shown beside its own, and only in open
/// loop: with a slot for every request they repeat what stands above them.
pub fn report(summary: &Summary, ours: &[MetricResult], width: usize) -> String {
    let width = width.max(80);
    let mut out = verdict(summary, width);
    out.push('\n');
    let is_closed = summary.client.concurrency_asked.is_some();
    let ours = if is_closed { &[] } else { ours };
    let mut rows = rows(&summary.metrics, ours, Group::Default);
    rows.extend(adjusted(&summary.metrics));
    out.push_str(&table("tokenring | LLM Metrics", &rows, &COLUMNS, width));
    for (platform, title) in [("nvidia_", "NVIDIA"), ("amd_", "AMD")] {
        let mut power = self::rows(&summary.metrics, &[], Group::Power);
        power.retain(|row| row.tag.starts_with(platform));
        if !power.is_empty() {
            let title = format!("GPU Power Efficiency ({title})");
            let _ = write!(out, "\n{}", table(&title, &power, &["avg"], width));
        }
    }
    for (title, rows) in gpus::tables(&summary.gpus) {
        let _ = write!(out, "\n{}", table(&title, &rows, &COLUMNS, width));
    }
    let shared = gpus::shared(&summary.gpus, width);
    if !shared.is_empty() {
        let _ = write!(out, "\n{shared}");
    }
    out.push_str(&server_console::tables(summary, width));
    out.push_str(&phases::table(&summary.client.phases));
    out.push_str(&slices::section(&summary.slices, width));
    errors(summary, width, &mut out);
    method(summary, &rows, width, &mut out);
    let _ = write!(out, "\n{}\n", verdict_line(summary));
    out
}

/// The table of AIPerf's rows alone, at most `width` columns wide.
pub fn metrics_table(metrics: &[MetricResult], width: usize) -> String {
    let mut shown = rows(metrics, &[], Group::Default);
    shown.extend(adjusted(metrics));
    table("tokenring | LLM Metrics", &shown, &COLUMNS, width.max(80))
}

/// Rows in GenAI-Perf's order, with its columns.
pub fn genai_perf_table(metrics: &[MetricResult], width: usize) -> String {
    let find = |tag: &str| metrics.iter().find(|metric| metric.tag == tag);
    let shown: Vec<&MetricResult> = super::genai_perf::rows().filter_map(find).collect();
    let columns = ["avg", "min", "max", "p99", "p90", "p75"];
    table(
        "tokenring | GenAI-Perf's definitions",
        &shown,
        &columns,
        width.max(80),
    )
}

/// A group's rows in AIPerf's order, ours among them. Counts of failures are left to the errors.
fn rows<'a>(
    metrics: &'a [MetricResult],
    ours: &'a [MetricResult],
    group: Group,
) -> Vec<&'a MetricResult> {
    let order = |row: &&MetricResult| {
        let metric = metric::find(row.tag)?;
        let is_shown = matches!(metric.group, Group::Client) || metric.group == group;
        let is_shown = is_shown && metric.need != Need::Errors;
        metric.display_order.filter(|_| is_shown)
    };
    let mut rows: Vec<_> = metrics.iter().chain(ours).collect();
    rows.retain(|row| order(row).is_some());
    rows.sort_by_key(order);
    rows
}

/// The error-adjusted rows, in the order of what they adjust.
fn adjusted(metrics: &[MetricResult]) -> Vec<&MetricResult> {
    let order = |row: &&MetricResult| {
        let mut all = METRICS.iter();
        let of = all.find(|metric| metric.adjusted.is_some_and(|(tag, _)| tag == row.tag))?;
        of.display_order
    };
    let mut rows: Vec<_> = metrics.iter().collect();
    rows.retain(|row| order(row).is_some());
    rows.sort_by_key(order);
    rows
}

/// The verdict is on the client alone, so failures of the server stand beside it.
fn verdict_line(summary: &Summary) -> String {
    let verdict = summary.client.verdict;
    let means = match verdict {
        Verdict::Valid => "the client was not the limit",
        Verdict::Degraded => "the client or its machine may show in the numbers",
        Verdict::Invalid => "the numbers are not to be trusted",
    };
    let errors: u64 = summary.errors.iter().map(|group| group.count).sum();
    let cancelled = summary.client.cancelled;
    let mut failed = match errors.saturating_sub(cancelled) {
        0 => String::new(),
        1 => "; 1 request failed".to_string(),
        count => format!("; {count} requests failed"),
    };
    if cancelled > 0 {
        // Writing to a String does not fail, here and below.
        let _ = write!(failed, "; {cancelled} cancelled as asked");
    }
    let means = match summary.metrics.is_empty() && summary.errors.is_empty() {
        true => "nothing was measured",
        false => means,
    };
    format!("Verdict: {} ({means}{failed})", verdict.name())
}

fn verdict(summary: &Summary, width: usize) -> String {
    let client = &summary.client;
    let mut out = verdict_line(summary);
    out.push('\n');
    for reason in &client.reasons {
        let text = |digits: usize| {
            let text = |value: f64| format!("{value:.digits$}");
            (text(reason.measured), text(reason.limit))
        };
        // What crossed a limit by little must not look as if it had not.
        let (measured, limit) = match text(1) {
            (measured, limit) if measured == limit => text(3),
            texts => texts,
        };
        let _ = writeln!(
            out,
            "  {} {}: {measured} {}, limit {limit}; {}",
            reason.level.name(),
            reason.code,
            reason.unit,
            reason.advice,
        );
    }
    indented(course::open_loop_lines(client), width, &mut out);
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
    if let Some(errors) = &client.stamp_errors {
        let _ = writeln!(
            out,
            "  the client against the mock's stamps: event time p50 {}, p99 {}; TTFT p99 {}; ITL \
             p99 {}",
            span(errors.event_time.p50),
            span(errors.event_time.p99),
            span(errors.ttft.p99),
            span(errors.itl.p99)
        );
    }
    if let Some(headroom) = &client.headroom {
        let day = wall(headroom.measured_wall_ns);
        let _ = writeln!(
            out,
            "  the client could drive {:.1} x this load (self-bench of {})",
            headroom.ratio,
            day.get(..10).unwrap_or(&day)
        );
    }
    let _ = writeln!(out, "  received by {}", client.receive_path);
    out
}

/// A box table; columns are dropped until it fits.
fn table(title: &str, rows: &[&MetricResult], columns: &[&str], width: usize) -> String {
    let mut columns: Vec<&str> = columns.to_vec();
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

/// A number, marked when its samples do not carry it. `is_marked` is the column's: with a mark in
/// it the others leave its place free.
fn cell(metric: &MetricResult, column: &str, is_marked: bool) -> String {
    let text = |value: f64| match metric.unit {
        "MJ" => fixed_in(metric.unit, value),
        _ => grouped(value),
    };
    let mut text = stat(&metric.figure, column).map_or_else(|| "N/A".into(), text);
    match has_mark(metric, column) {
        true => text.push(support::MARK),
        false if is_marked => text.push(' '),
        false => {}
    }
    text
}

/// Values over time, as a GPU's, are no samples in this sense.
fn has_mark(metric: &MetricResult, column: &str) -> bool {
    let is_there = stat(&metric.figure, column).is_some();
    is_there
        && !["nvidia_", "amd_"]
            .iter()
            .any(|own| metric.tag.starts_with(own))
        && support::is_unsupported(&metric.figure, column)
}

/// Lines of a row's name: the unit goes below when the header is long.
fn name_lines(metric: &MetricResult) -> Vec<String> {
    let header = metric.header;
    match metric.unit {
        "" => vec![header.to_string()],
        unit if header.chars().count() > HEADER_CHARS_MAX => {
            vec![header.to_string(), format!("({unit})")]
        }
        unit => vec![format!("{header} ({unit})")],
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
    let is_marked = |column: &str| rows.iter().any(|row| has_mark(row, column));
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let is_marked = is_marked(column);
            let cells = rows.iter().map(|row| cell(row, column, is_marked).len());
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
                    cell(row, column, is_marked(column))
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

fn method(summary: &Summary, rows: &[&MetricResult], width: usize, out: &mut String) {
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
    let marked = COLUMNS
        .iter()
        .filter(|column| rows.iter().any(|row| has_mark(row, column)));
    lines.extend(marked.filter_map(|column| support::note(column)));
    lines.push(
        "one run: three or more make a number to quote; p99 varies by 5 to 10 % between runs"
            .into(),
    );
    out.push_str("\nMethod\n");
    lines.extend(course::slowest_lines(&client.course));
    indented(lines, width, out);
}

pub(super) fn indented(lines: Vec<String>, width: usize, out: &mut String) {
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
    use crate::stats::summary::Figure;

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let summary = fixture::golden();
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
            let last = text.trim_end().lines().last().unwrap();
            assert!(last.starts_with("Verdict: "));
        }
    }

    /// Cells of each table line by line, without p99.9 and marks.
    fn cells(text: &str) -> Vec<Vec<String>> {
        let mut ours = None;
        let mut out = Vec::new();
        for line in text.lines().filter(|line| line.starts_with(['┃', '│'])) {
            let inner = line.trim_matches(['┃', '│']).split(['┃', '│']);
            let plain = |cell: &str| cell.trim().trim_end_matches('*').to_owned();
            let mut cells: Vec<String> = inner.map(plain).collect();
            if line.starts_with('┃') {
                ours = cells.iter().position(|cell| cell == "p99.9");
            }
            if let Some(at) = ours {
                cells.remove(at);
            }
            out.push(cells);
        }
        out
    }

    #[test]
    fn the_tables_are_those_of_aiperf_and_a_p99_9() {
        let golden =
            include_str!("../../tests/data/golden/aiperf/profile_export_console.tables.txt");
        let text = report(&fixture::golden(), &[], 140);
        let text: Vec<&str> = text.split("127.0.0.1:18000/dcgm1 | GPU 0 |").collect();
        assert_eq!(cells(text[0]), cells(golden));
    }

    #[test]
    fn failures_bring_the_adjusted_rows_and_no_count_of_errors() {
        let text = report(&fixture::golden_with_errors(), &[], 140);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_whole_report_is_as_committed() {
        insta::assert_snapshot!("report_80", report(&fixture::golden(), &[], 80));
        insta::assert_snapshot!("report_140", report(&fixture::golden(), &[], 140));
    }

    #[test]
    fn latency_from_due_stands_beside_its_own_in_open_loop_only() {
        let mut summary = fixture::golden();
        let ours = [MetricResult {
            tag: "request_latency_from_due",
            header: "Request Latency (from due)",
            unit: "ms",
            figure: Figure::Scalar(5.0),
        }];
        let text = report(&summary, &ours, 140);
        let names: Vec<_> = cells(&text)
            .into_iter()
            .map(|cells| cells[0].clone())
            .collect();
        let at = names
            .iter()
            .position(|n| n == "Request Latency (from due) (ms)");
        assert_eq!(names[at.unwrap() - 1], "Request Latency (ms)");
        summary.client.concurrency_asked = Some(4);
        assert!(!report(&summary, &ours, 140).contains("from due"));
    }
}
