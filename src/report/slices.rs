//! The time slices on screen: a line for each, and one for each latency peak.

use super::console::indented;
use super::text::{fixed, grouped, stat};
use crate::base::{Ns, one_line};
use crate::stats::peaks::{Cause, Flag, is_kv_use, is_queue};
use crate::stats::slices::{Level, Reading, Slice};
use std::fmt::Write;

/// Lines of the table; of a longer run the first, the flagged and the last.
const ROWS_MAX: usize = 20;
/// Lines on peaks.
const FLAGS_MAX: usize = 5;
/// Columns to drop, in this order, when a line would not fit.
const DROPPED_FIRST: [&str; 4] = ["in flight", "p50", "requests", "KV %"];
/// Table and peaks; empty without slices.
pub(super) fn section(slices: &[Slice], width: usize) -> String {
    let Some(first) = slices.first() else {
        return String::new();
    };
    let shown = shown(slices);
    let latency = match slices.iter().any(is_streamed) {
        true => ("time_to_first_token", "TTFT"),
        false => ("request_latency", "latency"),
    };
    let columns = columns(slices, &shown, latency, width);
    let mut out = format!(
        "\nTime slices of {} s; {} in ms, of the requests that began in each slice\n",
        short(first.length_s()),
        latency.1
    );
    let lines = shown.len() + 1;
    for at in 0..lines {
        let cells = columns.iter().map(|column| {
            let width = column.width();
            format!("{:>width$}", column.cells[at])
        });
        let cells: Vec<String> = cells.collect();
        let flagged = at.checked_sub(1).map(|row| kinds(&slices[shown[row]]));
        let line = format!("  {}  {}", cells.join("  "), flagged.unwrap_or_default());
        // Writing to a String does not fail, here and below.
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let mut said = Vec::new();
    if shown.len() < slices.len() {
        let more = slices.len() - shown.len();
        said.push(format!(
            "{more} more slices are in the files of time slices"
        ));
    }
    said.extend(peaks(slices, latency.1));
    indented(said, width, &mut out);
    out
}

fn is_streamed(slice: &Slice) -> bool {
    slice.metric("time_to_first_token").is_some()
}

/// Which slices have a line.
fn shown(slices: &[Slice]) -> Vec<usize> {
    if slices.len() <= ROWS_MAX {
        return (0..slices.len()).collect();
    }
    let ends = ROWS_MAX / 4;
    let inner = ends..slices.len() - ends;
    let flagged = inner.clone().filter(|at| !slices[*at].flags.is_empty());
    let flagged = flagged.take(ROWS_MAX - 2 * ends);
    (0..inner.start)
        .chain(flagged)
        .chain(inner.end..slices.len())
        .collect()
}

/// A column: its name, then a cell for each line.
struct Column {
    name: &'static str,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells
            .iter()
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    }
}

/// A cell of the slice with this number, absent where nobody tells.
type Cell<'a> = Box<dyn Fn(usize, &Slice) -> Option<String> + 'a>;

/// The columns that somebody tells and that fit.
fn columns(
    slices: &[Slice],
    shown: &[usize],
    (tag, head): (&'static str, &'static str),
    width: usize,
) -> Vec<Column> {
    let start = slices[0].from;
    let since = move |at: Ns| short(at.saturating_since(start).as_secs());
    let span = move |slice: &Slice| format!("{}-{}", since(slice.from), since(slice.to));
    let latency = |key: &'static str| -> Cell<'_> {
        Box::new(move |_, slice| stat(slice.metric(tag)?, key).map(grouped))
    };
    let powers = slices
        .iter()
        .map(|slice| gauges(&slice.gpus, is_power).count());
    let powers = powers.max().unwrap_or(0);
    let (p50, p99) = (format!("{head} p50"), format!("{head} p99"));
    let plain =
        |cell: fn(&Slice) -> Option<String>| -> Cell<'_> { Box::new(move |_, slice| cell(slice)) };
    let all: [(&'static str, &str, Cell<'_>); 10] = [
        ("slice", "slice", Box::new(|at, _| Some(at.to_string()))),
        (
            "s",
            "from-to s",
            Box::new(move |_, slice| Some(span(slice))),
        ),
        ("requests", "requests", plain(requests)),
        ("p50", &p50, latency("p50")),
        ("p99", &p99, latency("p99")),
        ("tokens", "tokens/s", plain(tokens)),
        (
            "in flight",
            "in flight",
            plain(|slice| slice.in_flight().map(fixed)),
        ),
        (
            "W",
            "power W",
            Box::new(move |_, slice| power(slice, powers)),
        ),
        ("KV %", "KV %", plain(kv_use)),
        ("queued", "queued", plain(queued)),
    ];
    let mut columns: Vec<Column> = Vec::new();
    for (name, head, cell) in all {
        let found: Vec<_> = shown.iter().map(|&at| cell(at, &slices[at])).collect();
        if found.iter().any(Option::is_some) {
            let cells = found
                .into_iter()
                .map(|cell| cell.unwrap_or_else(|| "-".into()));
            let cells = std::iter::once(head.to_owned()).chain(cells).collect();
            columns.push(Column { name, cells });
        }
    }
    let flags = shown.iter().map(|&at| kinds(&slices[at]).chars().count());
    let flags = flags.max().unwrap_or(0);
    for dropped in DROPPED_FIRST {
        let total: usize = columns.iter().map(|column| column.width() + 2).sum();
        if total + 2 + flags > width {
            columns.retain(|column| column.name != dropped);
        }
    }
    columns
}

fn requests(slice: &Slice) -> Option<String> {
    let count = stat(slice.metric("completed_request_count")?, "avg")?;
    Some(format!("{count:.0}"))
}

fn tokens(slice: &Slice) -> Option<String> {
    slice.per_s(slice.inside.output_tokens).map(grouped)
}

fn is_power(tag: &str) -> bool {
    tag.ends_with("_power_usage") || tag == "amd_power"
}

/// Of all GPUs that tell of theirs in some slice; absent where one of them does not.
fn power(slice: &Slice, count: usize) -> Option<String> {
    let is_whole = gauges(&slice.gpus, is_power).count() == count;
    sum(&slice.gpus, is_power).filter(|_| is_whole).map(fixed)
}

/// Of the fullest server.
fn kv_use(slice: &Slice) -> Option<String> {
    let most = gauges(&slice.servers, is_kv_use).reduce(f64::max)?;
    Some(format!("{most:.0}"))
}

/// In all servers.
fn queued(slice: &Slice) -> Option<String> {
    sum(&slice.servers, is_queue).map(fixed)
}

/// Means of the gauges with such a tag.
fn gauges(levels: &[Level], is_one: fn(&str) -> bool) -> impl Iterator<Item = f64> {
    let found = levels.iter().filter(move |level| is_one(&level.tag));
    found.filter_map(|level| match level.reading {
        Reading::Gauge { avg, .. } => Some(avg),
        Reading::Counter { .. } => None,
    })
}

fn sum(levels: &[Level], is_one: fn(&str) -> bool) -> Option<f64> {
    gauges(levels, is_one).reduce(|sum, mean| sum + mean)
}

/// Seconds without needless digits.
fn short(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `peak: queue`, empty for a slice without a flag.
fn kinds(slice: &Slice) -> String {
    if slice.flags.is_empty() {
        return String::new();
    }
    let causes = slice.flags.iter().flat_map(|flag| &flag.causes);
    let mut kinds: Vec<_> = causes.map(|cause| cause.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let names: Vec<&str> = kinds.into_iter().map(|kind| kind.name()).collect();
    match names.is_empty() {
        true => "peak: unexplained".into(),
        false => format!("peak: {}", names.join(", ")),
    }
}

/// A sentence for each of the first peaks.
fn peaks(slices: &[Slice], latency: &str) -> Vec<String> {
    let each = slices.iter().enumerate();
    let all = each.flat_map(|(at, slice)| slice.flags.iter().map(move |flag| (at, flag)));
    let count = all.clone().count();
    let mut said: Vec<String> = all
        .take(FLAGS_MAX)
        .map(|(at, flag)| peak(at, flag, latency))
        .collect();
    if count > FLAGS_MAX {
        let more = count - FLAGS_MAX;
        said.push(format!(
            "and {more} more peaks, in the files of time slices"
        ));
    }
    said
}

fn peak(at: usize, flag: &Flag, latency: &str) -> String {
    let name = match flag.metric {
        "inter_token_latency" => "ITL",
        _ => latency,
    };
    let mut causes: Vec<&Cause> = flag.causes.iter().collect();
    let count = causes.len();
    // One of each kind.
    causes.dedup_by_key(|cause| cause.kind);
    let told: Vec<String> = causes
        .iter()
        .map(|cause| {
            let name = one_line(&format!("{} {}", cause.source, cause.tag), 80);
            let unit = one_line(&cause.unit, 20);
            let (value, usual) = (grouped(cause.value), grouped(cause.usual));
            let text = format!("{name} {value} {unit}");
            format!(
                "{} ({}, usually {usual})",
                cause.kind.name(),
                text.trim_end()
            )
        })
        .collect();
    let why = match told.is_empty() {
        true => "unexplained: nothing that is watched was unusual".into(),
        false => told.join(", "),
    };
    let more = match count - causes.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(
        "slice {at}: {name} p99 {} ms, usually {}: {why}{more}",
        grouped(flag.value),
        grouped(flag.usual)
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::stats::peaks::CauseKind;
    use crate::stats::summary::{Figure, MetricResult};

    fn slices(count: u64) -> Vec<Slice> {
        let figure = |tag: &str| {
            let summary = fixture::golden();
            summary.metric(tag).unwrap().clone()
        };
        let (ttft, latency) = (figure("time_to_first_token"), figure("request_latency"));
        let slice = |at: u64| Slice {
            from: Ns::from_ms(1_000 * at + 90),
            to: Ns::from_ms(1_000 * (at + 1) + 90),
            is_complete: true,
            metrics: vec![
                MetricResult {
                    tag: "completed_request_count",
                    header: "",
                    unit: "",
                    figure: Figure::Scalar(20.0),
                },
                ttft.clone(),
                latency.clone(),
            ],
            ..Slice::default()
        };
        (0..count).map(slice).collect()
    }

    fn flag(metric: &'static str, kinds: &[CauseKind]) -> Flag {
        let cause = |kind: &CauseKind| Cause {
            kind: *kind,
            source: "127.0.0.1:8000".into(),
            tag: "requests_queued".into(),
            unit: String::new(),
            value: 12.0,
            usual: 0.5,
        };
        Flag {
            metric,
            value: 812.5,
            usual: 95.0,
            causes: kinds.iter().map(cause).collect(),
        }
    }

    fn level(source: &str, tag: &'static str, avg: f64) -> Level {
        Level {
            source: source.into(),
            tag: tag.into(),
            unit: "".into(),
            reading: Reading::Gauge {
                avg,
                min: avg,
                max: avg,
            },
        }
    }

    #[test]
    fn the_section_is_as_committed() {
        let mut all = slices(4);
        all[2].metrics.truncate(1);
        all[1].flags = vec![
            flag(
                "time_to_first_token",
                &[CauseKind::Throttle, CauseKind::Queue, CauseKind::Queue],
            ),
            flag("inter_token_latency", &[]),
        ];
        insta::assert_snapshot!("plain", section(&all, 100));
        for slice in &mut all {
            slice.gpus = vec![
                level("gpu_0", "nvidia_power_usage", 400.0),
                level("gpu_1", "nvidia_power_usage", 300.5),
            ];
            slice.servers = vec![
                level("a:8000", "kv_cache_usage", 50.0),
                level("b:8000", "kv_cache_usage", 75.0),
                level("a:8000", "requests_queued", 2.0),
            ];
        }
        insta::assert_snapshot!("telemetry", section(&all, 140));
        let narrow = section(&all, 80);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
        assert!(
            narrow.contains("power W") && narrow.contains("queued"),
            "{narrow}"
        );
    }

    #[test]
    fn of_many_slices_the_ends_and_the_flagged_are_shown() {
        let mut all = slices(100);
        for at in [30, 40, 50, 60, 70, 98] {
            all[at].flags = vec![flag("time_to_first_token", &[])];
        }
        let text = section(&all, 100);
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("20.00")).collect();
        assert_eq!(
            shown(&all),
            [0, 1, 2, 3, 4, 30, 40, 50, 60, 70, 95, 96, 97, 98, 99],
            "{rows:?}"
        );
        assert!(
            text.contains("85 more slices") && text.contains("and 1 more peaks"),
            "{text}"
        );
        all.iter_mut()
            .for_each(|slice| slice.flags = vec![flag("time_to_first_token", &[])]);
        assert_eq!(shown(&all).len(), ROWS_MAX);
        assert_eq!(section(&[], 100), "");
    }
}
