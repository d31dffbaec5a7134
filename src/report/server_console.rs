//! What the servers say of themselves, on screen: a small table each.

use super::server_metrics::ttft;
use super::text::grouped;
use crate::base::one_line;
use crate::stats::Summary;
use crate::stats::server::{Engine, Quantity};
use std::fmt::Write;

/// Statistics shown, with the heads of their columns.
const COLUMNS: [&str; 5] = ["avg", "max", "p50", "p99", "total"];

/// A table of each server, after an empty line; nothing without a page that tells.
pub(super) fn tables(summary: &Summary, width: usize) -> String {
    let mut out = String::new();
    for (at, engine) in summary.server.engines.iter().enumerate() {
        let mut rows: Vec<(String, Vec<String>)> = engine.quantities.iter().map(row).collect();
        // Once: it is about all servers of the first one's kind.
        if let Some((ours, difference)) = ttft(summary).filter(|_| at == 0) {
            let place = rows
                .iter()
                .position(|(name, _)| name.starts_with("Time to First Token"));
            let place = place.map_or(rows.len(), |place| place + 1);
            let only = |value: f64| {
                let mut cells = vec![String::new(); COLUMNS.len()];
                cells[0] = grouped(value);
                cells
            };
            rows.insert(place, ("  the client's (ms)".into(), only(ours)));
            let engines = summary.server.engines.iter();
            let kind = engine.name;
            let label = match engines.filter(|other| other.name == kind).count() {
                1 => "  the client's above it (ms)",
                _ => "  the client's above all servers' (ms)",
            };
            rows.insert(place + 1, (label.into(), only(difference)));
        }
        let _ = write!(out, "\n{}", draw(engine, &rows, width));
    }
    out
}

fn row(quantity: &Quantity) -> (String, Vec<String>) {
    let name = match quantity.unit {
        "" => quantity.header.to_owned(),
        unit => format!("{} ({unit})", quantity.header),
    };
    let cell = |column: &&str| quantity.stat(column).map_or_else(String::new, grouped);
    (name, COLUMNS.iter().map(cell).collect())
}

fn draw(engine: &Engine, rows: &[(String, Vec<String>)], width: usize) -> String {
    let title = format!("Server | {} at {}", engine.name, engine.source);
    let name_width = rows
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0)
        .max(6);
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| {
            rows.iter()
                .map(|(_, cells)| cells[at].len())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let shown: Vec<usize> = (0..COLUMNS.len()).filter(|&at| widths[at] > 0).collect();
    let wide = |at: usize| widths[at].max(COLUMNS[at].len());
    let rule = |left: char, fill: char, middle: char, right: char| {
        let mut text = String::from(left);
        text.extend(std::iter::repeat_n(fill, name_width + 2));
        for &at in &shown {
            text.push(middle);
            text.extend(std::iter::repeat_n(fill, wide(at) + 2));
        }
        text.push(right);
        text.push('\n');
        text
    };
    let total = name_width + 4 + shown.iter().map(|&at| wide(at) + 3).sum::<usize>();
    let title = format!("{:^total$}", one_line(&title, width));
    let mut out = format!("{}\n", title.trim_end());
    out.push_str(&rule('┏', '━', '┳', '┓'));
    let _ = write!(out, "┃ {:>name_width$} ┃", "Metric");
    for &at in &shown {
        let _ = write!(out, " {:>wide$} ┃", COLUMNS[at], wide = wide(at));
    }
    out.push('\n');
    out.push_str(&rule('┡', '━', '╇', '┩'));
    for (name, cells) in rows {
        let _ = write!(out, "│ {name:>name_width$} │");
        for &at in &shown {
            let _ = write!(out, " {:>wide$} │", cells[at], wide = wide(at));
        }
        out.push('\n');
    }
    out.push_str(&rule('└', '─', '┴', '┘'));
    out
}
