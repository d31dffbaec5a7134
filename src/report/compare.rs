//! A comparison of runs: text of at most 100 columns, and JSON.

use super::text::grouped;
use crate::base::one_line;
use crate::stats::bootstrap::Interval;
use crate::stats::comparison::{
    Comparison, Judged, MetricChange, Side, StatChange, Versus, better,
};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Version of the document.
const SCHEMA_VERSION: &str = "1.0";
/// Of a warning: names of models and the like come from the files of the runs.
const WARNING_CHARS_MAX: usize = 400;
/// What no interval of one run can hold.
const FOOT: &str = "\
Intervals hold the chance of which requests a run had, not what changes from run to run: repeat
runs for that. sees: the smallest change found four times out of five. more: requests more, in
each run, by which a change of this size would be found. p: by Mann and Whitney, who take requests
as independent; where they are not, p is too small, and the interval is what to believe.
";

/// A comparison for people.
pub fn text(comparison: &Comparison) -> String {
    let mut out = String::new();
    for versus in &comparison.others {
        let _ = writeln!(out, "A  {}", side(&comparison.base));
        let _ = writeln!(out, "B  {}", side(&versus.side));
        match &versus.unpaired {
            None => out.push_str("Requests are compared one by one: same prompts, same order.\n"),
            Some(why) => {
                let why = one_line(why, WARNING_CHARS_MAX);
                let _ = writeln!(out, "Requests are compared as two samples: {why}.");
            }
        }
        for warning in &versus.warnings {
            let _ = writeln!(out, "Warning: {}", one_line(warning, WARNING_CHARS_MAX));
        }
        out.push('\n');
        table(versus, comparison.level, &mut out);
        for judged in &versus.judged {
            let _ = writeln!(out, "{}", verdict(judged));
        }
        if !versus.judged.is_empty() {
            out.push('\n');
        }
    }
    out.push_str(FOOT);
    out
}

fn side(side: &Side) -> String {
    let mut out = one_line(&side.path, WARNING_CHARS_MAX);
    for part in [
        side.verdict.clone(),
        side.requests
            .map(|count| format!("{} requests", whole(count))),
    ] {
        out.extend(part.map(|part| format!(", {part}")));
    }
    out
}

fn table(versus: &Versus, level: f64, out: &mut String) {
    let interval = format!("{:.0} % interval", level * 100.0);
    let head = ["", "A", "B", "change", &interval, "sees", "more", ""];
    row(&head.map(String::from), out);
    for metric in &versus.metrics {
        let _ = writeln!(out, "{}", heading(metric));
        for stat in &metric.stats {
            row(&cells(stat), out);
        }
    }
    out.push('\n');
}

/// `Time to First Token (ms)`, and how its values are ranked.
fn heading(metric: &MetricChange) -> String {
    let mut out = match metric.metric.unit {
        "" => metric.metric.header.to_string(),
        unit => format!("{} ({unit})", metric.metric.header),
    };
    if let Some(ranks) = metric.ranks {
        let p = match ranks.p {
            p if p < 0.001 => "under 0.001".into(),
            p => format!("{p:.3}"),
        };
        let above = 100.0 * ranks.below_ratio;
        let _ = write!(out, "; B above A in {above:.0} % of pairs, p {p}");
    }
    out
}

fn cells(stat: &StatChange) -> [String; 8] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    [
        stat.stat.to_string(),
        or_dash(stat.base.map(grouped)),
        or_dash(stat.other.map(grouped)),
        or_dash(stat.change.map(|change| format!("{} %", signed(change)))),
        or_dash(stat.interval.map(|i| span(&i))),
        or_dash(stat.detectable.map(|d| format!("{:.1} %", 100.0 * d))),
        or_dash(stat.more_requests.map(whole)),
        stat.finding.text(),
    ]
}

/// Two columns of text around numbers.
fn row(cells: &[String; 8], out: &mut String) {
    let [stat, a, b, change, interval, sees, more, finding] = cells;
    let line = format!(
        "  {stat:<6} {a:>11} {b:>11} {change:>9} {interval:>19} {sees:>7} {more:>9}  {finding}"
    );
    out.push_str(line.trim_end());
    out.push('\n');
}

/// `+3.10`, `+310.5`, `+3105`: in hundredths, four digits or more.
fn signed(ratio: f64) -> String {
    let percent = 100.0 * ratio;
    match percent.abs() {
        // Never -0.00.
        size if size < 99.995 => format!("{:+.2}", (percent * 100.0).round() / 100.0 + 0.0),
        size if size < 999.95 => format!("{percent:+.1}"),
        _ => format!("{percent:+.0}"),
    }
}

fn span(interval: &Interval) -> String {
    format!("{} to {} %", signed(interval.low), signed(interval.high))
}

fn whole(count: u64) -> String {
    let text = count.to_string();
    let mut out = String::new();
    for (at, digit) in text.chars().enumerate() {
        if at > 0 && (text.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A condition and what was found; on a second line whether that is sure.
fn verdict(judged: &Judged) -> String {
    let word = if judged.is_so { "FAILED" } else { "ok" };
    let found = match judged.is_relative {
        true => format!("{} %", signed(judged.found)),
        false => grouped(judged.found),
    };
    let ends = judged.interval.map(|interval| match judged.is_relative {
        true => span(&interval),
        false => format!("{} to {}", grouped(interval.low), grouped(interval.high)),
    });
    let sure = match (ends, judged.is_sure()) {
        (Some(ends), Some(true)) => format!("sure: the interval, {ends}, excludes the limit"),
        (Some(ends), _) => {
            let more = judged.more_requests.filter(|more| *more > 0);
            let more = more.map(|more| format!("; {} requests more would tell", whole(more)));
            let more = more.unwrap_or_default();
            format!("not sure: the interval, {ends}, holds the limit{more}")
        }
        (None, _) => "not sure: there is no interval".into(),
    };
    format!("{word}: fail if {}: {found}\n  {sure}", judged.text)
}

/// The document; `schema/compare.schema.json` is its schema. Absent things are left out.
pub fn json(comparison: &Comparison) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "tokenring_version": env!("CARGO_PKG_VERSION"),
        "level": comparison.level,
        "resamples": comparison.resamples,
        "baseline": side_json(&comparison.base),
        "is_failed": comparison.is_failed(),
        "comparisons": comparison.others.iter().map(versus).collect::<Vec<_>>(),
    })
}

/// A member that is left out where it is absent, or no number.
fn put(out: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let value = value.into();
    if !value.is_null() {
        out.insert(key.into(), value);
    }
}

fn side_json(side: &Side) -> Value {
    let mut out = Map::new();
    put(&mut out, "path", side.path.as_str());
    put(&mut out, "verdict", side.verdict.as_deref());
    put(&mut out, "request_count", side.requests);
    put(&mut out, "requests_from", side.source.name());
    out.into()
}

fn versus(versus: &Versus) -> Value {
    let mut out = Map::new();
    put(&mut out, "run", side_json(&versus.side));
    put(&mut out, "is_paired", versus.unpaired.is_none());
    put(&mut out, "why_unpaired", versus.unpaired.as_deref());
    put(&mut out, "warnings", versus.warnings.clone());
    let metrics: Vec<Value> = versus.metrics.iter().map(metric).collect();
    put(&mut out, "metrics", metrics);
    let conditions: Vec<Value> = versus.judged.iter().map(condition).collect();
    put(&mut out, "fail_if", conditions);
    out.into()
}

fn metric(metric: &MetricChange) -> Value {
    let mut out = Map::new();
    put(&mut out, "tag", metric.metric.tag);
    put(&mut out, "unit", metric.metric.unit);
    put(&mut out, "larger_is_better", better(&metric.metric));
    if let Some(ranks) = metric.ranks {
        let ranks = json!({
            "u": ranks.u,
            "z": ranks.z,
            "p": ranks.p,
            "baseline_below_ratio": ranks.below_ratio,
        });
        put(&mut out, "mann_whitney", ranks);
    }
    let stats: Vec<Value> = metric.stats.iter().map(stat).collect();
    put(&mut out, "stats", stats);
    out.into()
}

fn stat(stat: &StatChange) -> Value {
    let mut out = Map::new();
    put(&mut out, "stat", stat.stat);
    put(&mut out, "baseline", stat.base);
    put(&mut out, "value", stat.other);
    put(&mut out, "change_ratio", stat.change);
    if let Some(interval) = stat.interval {
        let ends = json!({"low": interval.low, "high": interval.high});
        put(&mut out, "change_interval", ends);
        put(&mut out, "change_std_error", interval.std_error);
    }
    put(&mut out, "detectable_ratio", stat.detectable);
    put(&mut out, "more_requests", stat.more_requests);
    put(&mut out, "finding", stat.finding.name());
    out.into()
}

fn condition(judged: &Judged) -> Value {
    let mut out = Map::new();
    put(&mut out, "condition", judged.text.as_str());
    put(&mut out, "is_so", judged.is_so);
    put(&mut out, "limit", judged.limit);
    put(&mut out, "is_change", judged.is_relative);
    put(&mut out, "found", judged.found);
    if let Some(interval) = judged.interval {
        let ends = json!({"low": interval.low, "high": interval.high});
        put(&mut out, "interval", ends);
    }
    put(&mut out, "excludes_limit", judged.is_sure());
    put(&mut out, "more_requests", judged.more_requests);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::catalogue::find;
    use crate::stats::comparison::{Finding, Source};
    use crate::stats::ranks::MannWhitney;

    fn interval(low: f64, high: f64) -> Interval {
        Interval {
            estimate: (low + high) / 2.0,
            low,
            high,
            std_error: (high - low) / 3.92,
        }
    }

    fn change(stat: &'static str, ends: (f64, f64), finding: Finding) -> StatChange {
        let interval = interval(ends.0, ends.1);
        StatChange {
            stat,
            base: Some(12_345.678),
            other: Some(12_345.678 * (1.0 + interval.estimate)),
            change: Some(interval.estimate),
            interval: Some(interval),
            detectable: Some(interval.std_error * 2.8),
            more_requests: (finding == Finding::NotSeen).then_some(1_234_567),
            finding,
        }
    }

    fn comparison() -> Comparison {
        let side = |path: &str, source| Side {
            path: path.into(),
            verdict: Some("VALID".into()),
            requests: Some(10_000),
            source,
        };
        let bare = |stat, finding| StatChange {
            interval: None,
            detectable: None,
            ..change(stat, (0.2, 0.3), finding)
        };
        let latency = MetricChange {
            metric: find("ttft").unwrap(),
            ranks: Some(MannWhitney {
                u: 1_234.5,
                z: -9.5,
                p: 1e-9,
                below_ratio: 0.617,
            }),
            stats: vec![
                change("avg", (0.051, 0.0702), Finding::Worse),
                change("p50", (-0.3, -0.1), Finding::Better),
                change("p90", (-0.9999, 9.9999), Finding::NotSeen),
                bare("p99", Finding::TooFew(662)),
            ],
        };
        let absent = StatChange {
            other: None,
            change: None,
            ..bare("avg", Finding::Absent)
        };
        let rate = MetricChange {
            metric: find("request_throughput").unwrap(),
            ranks: None,
            stats: vec![absent],
        };
        let judged = |is_relative, found, limit, interval| Judged {
            text: "p99(time_to_first_token) > +5 %".into(),
            limit,
            is_relative,
            found,
            is_so: found > limit,
            interval,
            more_requests: Some(1_200),
        };
        Comparison {
            base: side("runs/before", Source::Shard),
            others: vec![Versus {
                side: side("runs/after", Source::Lines),
                unpaired: Some("another seed (7, 8)".into()),
                warnings: vec!["model differs: m, and n".into()],
                metrics: vec![rate, latency],
                judged: vec![
                    judged(true, 0.07, 0.05, Some(interval(0.06, 0.08))),
                    judged(true, 0.04, 0.05, Some(interval(0.02, 0.06))),
                    judged(false, 40.0, 50.0, None),
                ],
            }],
            level: 0.95,
            resamples: 1_000,
        }
    }

    #[test]
    fn the_text_is_as_committed_and_fits_a_hundred_columns() {
        let text = text(&comparison());
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{text}");
        insta::assert_snapshot!("compare", text);
    }

    #[test]
    fn the_document_is_that_of_its_schema() {
        let schema = include_str!("../../schema/compare.schema.json");
        let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
        let document = json(&comparison());
        let faults: Vec<String> = schema
            .iter_errors(&document)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{faults:?}");
        let versus = &document["comparisons"][0];
        assert_eq!(versus["metrics"][0]["stats"][0].get("value"), None);
        assert_eq!(versus["fail_if"][0]["is_so"], true);
        assert_eq!(versus["fail_if"][2].get("excludes_limit"), None);
        assert_eq!(document["is_failed"], true);
        let mut broken = document.clone();
        broken["comparisons"][0]["metrics"][1]["stats"][0]["finding"] = "fine".into();
        assert!(!schema.is_valid(&broken));
    }
}
