//! The screen of many runs: a line after each, a table of the points, where the load begins to
//! hurt, and what repeats say.

use super::text::grouped;
use crate::stats::confidence::Confidence;
use crate::stats::gate::with_unit;
use crate::stats::knee::{GROWTH_MIN, Knee};
use crate::stats::many::{Point, RunRecord, Runs, first_latency};
use crate::stats::plateau::Plateau;

/// Fewer repeats than this are not to be quoted.
const TRIALS_MIN: usize = 3;
/// Metrics of which repeats are told on the screen: tag, statistic.
const REPEATED: [(&str, &str); 6] = [
    ("time_to_first_token", "avg"),
    ("time_to_first_token", "p99"),
    ("inter_token_latency", "p99"),
    ("request_latency", "p99"),
    ("request_throughput", "avg"),
    ("output_token_throughput", "avg"),
];

/// Enough good runs, and none of them INVALID.
pub(super) fn is_quotable(point: &Point<'_>) -> bool {
    point.good.len() >= TRIALS_MIN && !point.good.iter().any(|run| run.is_invalid())
}

/// One run in a line: `concurrency_4: TTFT p99 21.30 ms, 382.10 tok/s, 12.10 req/s, VALID`.
pub fn row(run: &RunRecord) -> String {
    let label = name(run);
    if let Some(fault) = &run.fault {
        return format!("{label}: {fault}");
    }
    let of = |tag: &str, stat: &str, name: &str, unit: &str| {
        let value = run.figures.get(tag, stat)?;
        Some(format!("{name}{} {unit}", grouped(value)))
    };
    let parts = [
        of("time_to_first_token", "p99", "TTFT p99 ", "ms"),
        of("inter_token_latency", "p99", "ITL p99 ", "ms"),
        of("output_token_throughput", "avg", "", "tok/s"),
        of("request_throughput", "avg", "", "req/s"),
        failed(run.failed_share).map(|share| format!("{share} failed")),
        Some(match run.reasons.is_empty() {
            true => run.verdict.clone(),
            false => format!("{} ({})", run.verdict, run.reasons.join(", ")),
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{label}: {}", parts.join(", "))
}

/// `concurrency_4, run 2`.
fn name(run: &RunRecord) -> String {
    match (run.label.as_str(), run.trial) {
        ("", trial) => format!("run {}", trial + 1),
        (label, 0) => label.to_string(),
        (label, trial) => format!("{label}, run {}", trial + 1),
    }
}

fn failed(share: f64) -> Option<String> {
    (share > 0.0).then(|| format!("{:.1} %", 100.0 * share))
}

/// The whole screen.
pub fn text(runs: &Runs) -> String {
    let points = runs.by_point();
    let mut out = String::new();
    if points.len() > 1 || !runs.axes.is_empty() {
        out.push_str(&table(runs, &points));
        if !runs.is_search {
            out.push_str(&limits(runs));
            out.push_str(
                &runs
                    .capacity()
                    .map_or(String::new(), |found| capacity(&found)),
            );
        }
    }
    if runs.trials > 1 {
        out.push_str(&repeats(runs, &points));
    }
    let invalid = runs.runs.iter().filter(|run| run.is_invalid()).count();
    if invalid > 0 {
        out.push_str(&format!(
            "INVALID: {invalid} of {} runs: the client or its machine is in their numbers; {}\n",
            runs.runs.len(),
            match runs.allows_invalid {
                true => "they count all the same",
                false => "such points are no knee, and the command exits 5 (--allow-invalid)",
            }
        ));
    }
    for run in runs
        .runs
        .iter()
        .filter(|run| !run.failed_asserts.is_empty())
    {
        let conditions = run.failed_asserts.join(", ");
        out.push_str(&format!("assertion failed: {}: {conditions}\n", name(run)));
    }
    if !runs.is_complete {
        let good = points.iter().filter(|point| !point.good.is_empty()).count();
        let planned = match runs.is_search {
            true => String::new(),
            false => format!(" of {}", runs.points.len()),
        };
        out.push_str(&format!(
            "INCOMPLETE: {good}{planned} points have good runs\n"
        ));
    }
    out
}

/// A column: its head of two lines, and a cell of each point.
struct Column {
    head: [String; 2],
    cells: Vec<String>,
}

fn table(runs: &Runs, points: &[Point<'_>]) -> String {
    let mut columns = labels(runs, points);
    let figure = |head: [&str; 2], of: &dyn Fn(&Point<'_>) -> Option<f64>| Column {
        head: head.map(String::from),
        cells: points
            .iter()
            .map(|point| of(point).map_or("-".into(), grouped))
            .collect(),
    };
    let of = |tag: &'static str, stat: &'static str| {
        move |point: &Point<'_>| point.figures.get(tag, stat)
    };
    columns.extend([
        figure(["TTFT", "p99 ms"], &of("time_to_first_token", "p99")),
        figure(["ITL", "p99 ms"], &of("inter_token_latency", "p99")),
        figure(["latency", "p99 ms"], &of("request_latency", "p99")),
        figure(["output", "tok/s"], &of("output_token_throughput", "avg")),
        figure(["requests", "/s"], &of("request_throughput", "avg")),
        figure(["price/1M", "tokens"], &|point| {
            runs.price_per_million(&point.figures)
        }),
        figure(["energy", "J/token"], &|point| {
            let of = |tag| point.figures.get(tag, "avg");
            let nvidia = of("nvidia_energy_per_output_token");
            let mj = nvidia.or_else(|| of("amd_energy_per_output_token"));
            mj.map(|mj| mj / 1e3)
        }),
    ]);
    columns.retain(|column| column.cells.iter().any(|cell| cell != "-"));
    columns.push(Column {
        head: ["failed".into(), String::new()],
        cells: points
            .iter()
            .map(|point| failed(mean_share(point)).unwrap_or_default())
            .collect(),
    });
    columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    columns.push(Column {
        head: ["verdict".into(), String::new()],
        cells: points.iter().map(verdict).collect(),
    });
    let marks = match runs.is_search {
        true => Vec::new(),
        false => marks(runs, points),
    };
    if marks.iter().any(|mark| !mark.is_empty()) {
        columns.push(Column {
            head: [String::new(), String::new()],
            cells: marks,
        });
    }
    aligned(&columns)
}

#[expect(clippy::cast_precision_loss, reason = "a few runs")]
pub(super) fn mean_share(point: &Point<'_>) -> f64 {
    let sum: f64 = point.runs.iter().map(|run| run.failed_share).sum();
    sum / point.runs.len().max(1) as f64
}

/// The worst verdict of a point's runs, or that none ended well.
pub(super) fn verdict(point: &Point<'_>) -> String {
    if point.good.is_empty() {
        return "failed".into();
    }
    let has = |name: &str| point.good.iter().any(|run| run.verdict == name);
    let worst = ["INVALID", "DEGRADED"].into_iter().find(|name| has(name));
    worst.unwrap_or("VALID").into()
}

/// What names a point: a column of each setting that varies, else the label.
fn labels(runs: &Runs, points: &[Point<'_>]) -> Vec<Column> {
    if runs.axes.is_empty() {
        return vec![Column {
            head: ["point".into(), String::new()],
            cells: points
                .iter()
                .map(|point| point.first.label.clone())
                .collect(),
        }];
    }
    let column = |axis: &crate::stats::many::Varied| {
        let value = |point: &Point<'_>| {
            let own = point.first.value(axis.key);
            own.map_or("-".into(), |value| value.to_string())
        };
        let (first, second) = axis.header.split_once(' ').unwrap_or((axis.header, ""));
        Column {
            head: [first.into(), second.into()],
            cells: points.iter().map(value).collect(),
        }
    };
    runs.axes.iter().map(column).collect()
}

/// The three points of each series, beside the rows that they are.
fn marks(runs: &Runs, points: &[Point<'_>]) -> Vec<String> {
    let knees = runs.knees();
    let Some(axis) = runs.load_axis() else {
        return vec![String::new(); points.len()];
    };
    let mark = |point: &Point<'_>| {
        let (load, others) = point.split(axis.key);
        let knee = knees.iter().find(|(common, _)| *common == others);
        let Some((_, knee)) = knee else {
            return String::new();
        };
        let is = |at: Option<f64>| at.is_some() && at == load;
        let marks = [
            (is(knee.doubled), "TTFT doubled"),
            (is(knee.meets), "last within SLO"),
            (is(knee.saturated), "saturated"),
            (point.first.is_short, "fewer requests than concurrency"),
        ];
        let marks: Vec<&str> = marks
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, name)| *name)
            .collect();
        match marks.is_empty() {
            true => String::new(),
            false => format!("<- {}", marks.join(", ")),
        }
    };
    points.iter().map(mark).collect()
}

/// What the sweep says of the load, in sentences.
fn limits(runs: &Runs) -> String {
    let Some(axis) = runs.load_axis() else {
        return String::new();
    };
    let slos: Vec<String> = runs.slos.iter().map(ToString::to_string).collect();
    let mut out = String::new();
    for (common, knee) in runs.knees() {
        // Of one point there is nothing to say.
        if knee.growth_last.is_none() && knee.meets.is_none() {
            continue;
        }
        let of: Vec<String> = common
            .iter()
            .map(|(key, value)| format!("{key} {value}"))
            .collect();
        if !of.is_empty() {
            out.push_str(&format!("{}:\n", of.join(", ")));
        }
        for line in knee_lines(runs, &knee, axis.header, &slos.join(", ")) {
            out.push_str(&format!("  {line}\n"));
        }
    }
    out
}

fn knee_lines(runs: &Runs, knee: &Knee, load: &str, slos: &str) -> Vec<String> {
    let load = load.to_lowercase();
    let first = runs.runs.iter().find_map(|run| first_latency(&run.figures));
    let latency = match first {
        Some(("request_latency", _)) => "request latency p99",
        _ => "TTFT p99",
    };
    let doubled = match knee.doubled {
        Some(at) => format!("{latency} has doubled over the lowest load at {load} {at}"),
        None => format!("{latency} has not doubled over the lowest load"),
    };
    let growth = |ratio: f64| format!("{:.1} %", 100.0 * ratio);
    let saturated = match (knee.saturated, knee.growth_last) {
        (Some(at), _) => format!(
            "throughput is saturated at {load} {at}: beyond it grows by less than {} per doubling \
             of the load",
            growth(GROWTH_MIN)
        ),
        (None, Some(last)) => format!(
            "throughput is not saturated yet: its last step grew by {} per doubling of the load",
            growth(last)
        ),
        (None, None) => "saturation is not known: two points with a throughput are needed".into(),
    };
    let meets = match knee.meets {
        _ if slos.is_empty() => None,
        Some(at) => Some(format!("service levels ({slos}) are met up to {load} {at}")),
        None => Some(format!(
            "service levels ({slos}) are met nowhere from the lowest load on"
        )),
    };
    let again = knee.meets_again.then(|| {
        "  a higher load met them too, after one that did not: repeat (--num-profile-runs) to know"
            .to_string()
    });
    let missing = match (knee.doubled, knee.saturated) {
        (None, None) => Some(format!(
            "{latency} has not doubled and throughput is not saturated"
        )),
        (None, _) => Some(format!("{latency} has not doubled")),
        (_, None) => Some("throughput is not saturated".to_string()),
        _ => None,
    };
    let reached = missing.map(|missing| {
        format!("knee not reached: {missing}; --until-saturated goes on until both are there")
    });
    [Some(doubled), meets, again, Some(saturated), reached]
        .into_iter()
        .flatten()
        .collect()
}

/// What the server can do at most, in a sentence.
fn capacity(found: &Plateau) -> String {
    let error = found.std_error_per_s;
    let error = error.map_or(String::new(), |error| format!(" ± {}", grouped(error)));
    let unused = found
        .rungs
        .iter()
        .filter(|rung| !rung.is_consistent())
        .count();
    let unused = match unused {
        0 => String::new(),
        count => format!("; {count} points contradict Little's law and are not used"),
    };
    let line = match (found.estimated_capacity, found.knee) {
        (Some(most), Some(knee)) => format!(
            "estimated capacity: {}{error} requests/s, 95 % of it at concurrency {knee}{unused}",
            grouped(most)
        ),
        (Some(most), None) => {
            let used = found.rungs.iter().rev().find(|rung| rung.is_consistent());
            let used = used.map_or(0, |rung| rung.concurrency);
            format!(
                "estimated capacity: at least {}{error} requests/s, by the points up to \
                 concurrency {used}{unused}",
                grouped(most)
            )
        }
        (None, _) => format!("estimated capacity: not known{unused}"),
    };
    format!("  {line}\n")
}

/// Mean and interval of each point's repeats.
fn repeats(runs: &Runs, points: &[Point<'_>]) -> String {
    let mut out = String::new();
    out.push_str(&format!(
        "repeats: mean over runs ± half of its {:.0} % interval (Student's t); by requests: that \
         of all their requests, in blocks drawn again\n",
        100.0 * runs.level
    ));
    for point in points {
        let label = match point.first.label.as_str() {
            "" => "repeats".into(),
            label => format!("{label}, repeats"),
        };
        let (good, all) = (point.good.len(), point.runs.len());
        out.push_str(&format!("{label}: {good} good of {all}\n"));
        if point.good.iter().any(|run| run.is_invalid()) {
            out.push_str("  NOT TO BE QUOTED: the client or its machine is in the numbers\n");
        }
        if good < TRIALS_MIN {
            out.push_str(&format!(
                "  NOT TO BE QUOTED: fewer than {TRIALS_MIN} good runs do not say how they vary\n"
            ));
        }
        for (tag, stat) in REPEATED {
            let each: Vec<f64> = point
                .good
                .iter()
                .filter_map(|run| run.figures.get(tag, stat))
                .collect();
            let unit = point
                .figures
                .metric(tag)
                .map_or("", |metric| metric.unit.as_str());
            let Some(found) = Confidence::of(&each, runs.level) else {
                continue;
            };
            let redrawn = runs.redrawn(&point.first.label, tag, stat);
            let redrawn = redrawn.map_or(String::new(), |over| {
                format!(
                    "; by requests {} to {}",
                    grouped(over.low),
                    grouped(over.high)
                )
            });
            out.push_str(&format!(
                "  {:<28} {:>14} ± {} (std {}, cv {:.1} %){redrawn}\n",
                format!("{stat}({tag})"),
                with_unit(rounded(found.mean), unit),
                grouped((found.high - found.low) / 2.0),
                grouped(found.std),
                100.0 * found.cv,
            ));
        }
    }
    out
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn aligned(columns: &[Column]) -> String {
    let width = |column: &Column| {
        let cells = column.head.iter().chain(&column.cells);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let line = |cell: &dyn Fn(&Column) -> String| {
        let mut text = String::new();
        for column in columns {
            let cell = cell(column);
            // Words to the left, numbers to the right.
            let padded = match cell.starts_with("<-") || column.head[0] == "verdict" {
                true => format!("{cell:<width$}", width = width(column)),
                false => format!("{cell:>width$}", width = width(column)),
            };
            text.push_str(&format!("  {padded}"));
        }
        format!("{}\n", text.trim_end())
    };
    let heads = (0..2).map(|n| line(&|column: &Column| column.head[n].clone()));
    let cells = (0..rows).map(|n| line(&|column: &Column| column.cells[n].clone()));
    heads.chain(cells).collect()
}
