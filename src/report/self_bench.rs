//! A self-benchmark on screen and as JSON.

use super::json::spread;
use super::text::{span, wall};
use crate::stats::capacity::{Mode, SelfBench, Step, Unit};
use crate::stats::summary::Spread;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Version of the document's schema.
pub const SCHEMA_VERSION: &str = "1.0";

/// What stands where nothing was measured.
const ABSENT: &str = "-";

/// Both tables, what they mean, and the largest VALID load; without colour, 100 columns at most but
/// for what the machine is called.
pub fn text(bench: &SelfBench) -> String {
    let mut out = format!("tokenring self-bench | {}\n", shape(bench));
    let machine = &bench.machine;
    // Writing to a String does not fail, here and below.
    let _ = writeln!(out, "{}, kernel {}", machine.cpu, machine.kernel);
    let _ = writeln!(out, "{}\n", places(bench));
    out.push_str(&columns(&load_rows(bench)));
    if bench.steps.iter().any(|s| s.stamp_errors()[0].is_some()) {
        out.push_str("\nErrors against the stamps in the events\n");
        out.push_str(&columns(&error_rows(bench)));
    }
    let reasons: Vec<String> = bench.steps.iter().filter_map(|s| why(bench, s)).collect();
    if !reasons.is_empty() {
        let _ = write!(out, "\nWhy\n{}", reasons.concat());
    }
    if !bench.notes.is_empty() {
        out.push('\n');
    }
    for note in &bench.notes {
        let _ = writeln!(out, "note: {note}");
    }
    let _ = writeln!(out, "\n{}", largest(bench));
    out
}

/// What the loads are, in words.
fn shape(bench: &SelfBench) -> String {
    let mut text = match bench.mode {
        // Another server has a pace of its own.
        Mode::Streams { .. } if bench.against.is_some() => "streams".into(),
        Mode::Streams { rate_per_stream } => {
            format!("streams of {rate_per_stream} events/s each")
        }
        Mode::Requests => "requests a second, answered by one token".into(),
    };
    if bench.chunk_bytes > 0 {
        let _ = write!(text, ", events of {} bytes", bench.chunk_bytes);
    }
    if bench.tls {
        text.push_str(", TLS");
    }
    text
}

/// Where client and server were.
fn places(bench: &SelfBench) -> String {
    let cpus = |cpus: &[usize]| {
        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
        list.join(",")
    };
    let client = format!("client on CPU {}", cpus(&bench.client_cpus));
    match (&bench.against, bench.mock_cpus.is_empty()) {
        (Some(url), _) => format!("{client}, server {url}"),
        (None, true) => format!("{client}, the mock on the same"),
        (None, false) => format!("{client}, the mock on CPU {}", cpus(&bench.mock_cpus)),
    }
}

fn load_name(bench: &SelfBench) -> &'static str {
    match bench.mode {
        Mode::Streams { .. } => "streams",
        Mode::Requests => "requests/s",
    }
}

/// What each step carried and what it cost.
fn load_rows(bench: &SelfBench) -> Vec<Vec<String>> {
    let each = match bench.mode {
        Mode::Streams { .. } => "event",
        Mode::Requests => "request",
    };
    let head = [
        load_name(bench),
        "events/s",
        "delivered",
        &format!("user ns/{each}"),
        &format!("system ns/{each}"),
        "busy",
        "receive lag p99",
        "MiB",
        "verdict",
    ]
    .map(String::from);
    let row = |step: &Step| {
        let cpu = step.cpu_ns();
        let busy = step.client.cores.iter().map(|core| core.busy_ratio);
        vec![
            step.load.to_string(),
            format!("{:.0}", step.events_per_s),
            percent(step.delivered_ratio),
            cpu.map_or(ABSENT.into(), |(user, _)| format!("{user:.0}")),
            cpu.map_or(ABSENT.into(), |(_, system)| format!("{system:.0}")),
            percent(Some(busy.fold(0.0, f64::max))),
            span(step.client.receive_lag.p99),
            step.memory_bytes_max
                .map_or(ABSENT.into(), |bytes| (bytes >> 20).to_string()),
            step.client.verdict.name().into(),
        ]
    };
    let rows = bench.steps.iter().map(row);
    [head.to_vec()].into_iter().chain(rows).collect()
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or(ABSENT.into(), |ratio| format!("{:.1} %", ratio * 100.0))
}

/// How far each step's times were from the server's own, in us.
fn error_rows(bench: &SelfBench) -> Vec<Vec<String>> {
    let mut of = vec!["us".to_string()];
    let mut at = vec![load_name(bench).to_string()];
    for words in [
        ["event", "time", "", ""],
        ["TTFT", "", "", ""],
        ["ITL", "", "", ""],
    ] {
        of.extend(words.map(String::from));
        at.extend(["p50", "p99", "p99.9", "max"].map(String::from));
    }
    let row = |step: &Step| {
        let figures = step.stamp_errors().into_iter().flat_map(|spread| {
            let of = |value: fn(&Spread) -> u64| spread.as_ref().map(value);
            [of(|s| s.p50), of(|s| s.p99), of(|s| s.p99_9), of(|s| s.max)]
        });
        let us = |ns: Option<u64>| ns.map_or(ABSENT.into(), micros);
        let load = std::iter::once(step.load.to_string());
        load.chain(figures.map(us)).collect()
    };
    let rows = bench.steps.iter().map(row);
    [of, at].into_iter().chain(rows).collect()
}

/// Three digits or more, as in `4.31`, `43.1`, `4312`.
fn micros(ns: u64) -> String {
    let us = crate::base::Ns(ns).as_ms() * 1e3;
    match us {
        us if us < 10.0 => format!("{us:.2}"),
        us if us < 100.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

/// What spoke against a step, a line each.
fn why(bench: &SelfBench, step: &Step) -> Option<String> {
    let mut lines = Vec::new();
    for reason in step.reasons() {
        lines.push(format!(
            "{} {}: {:.1} {}, limit {:.1}",
            reason.level.name(),
            reason.code,
            reason.measured,
            reason.unit,
            reason.limit,
        ));
    }
    if step.failed_count > 0 {
        lines.push(format!("{} requests failed", step.failed_count));
    }
    if !step.is_delivered() {
        lines.push("less came than was asked for: the server, not the client, was full".into());
    }
    let at = format!("  {} {}: ", step.load, load_name(bench));
    let lines: String = lines.iter().map(|line| format!("{at}{line}\n")).collect();
    (!lines.is_empty()).then_some(lines)
}

/// A step that is done, in one line.
pub fn progress(bench: &SelfBench, step: &Step) -> String {
    format!(
        "{} {}: {:.0} events/s, {}",
        step.load,
        load_name(bench),
        step.events_per_s,
        step.client.verdict.name()
    )
}

/// The last line: what the client can drive.
pub fn largest(bench: &SelfBench) -> String {
    let Some((step, core)) = bench.largest_valid().and_then(|s| Some((s, s.core?))) else {
        return "Largest VALID load: none; keep other work off this machine and try again".into();
    };
    let load = match bench.mode {
        Mode::Streams { rate_per_stream } => {
            let plural = if step.load == 1 { "" } else { "s" };
            match bench.against {
                Some(_) => format!("{} stream{plural}", step.load),
                None => format!("{} stream{plural} of {rate_per_stream} events/s", step.load),
            }
        }
        Mode::Requests => format!("{} requests/s", step.load),
    };
    let unit = core.shape.unit.per_s();
    format!(
        "Largest VALID load: {load}, {:.0} {unit} on one core",
        core.per_s
    )
}

/// Columns as wide as what is in them, numbers on the right.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:>width$}"))
            .collect();
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    }
    out
}

/// The document; `schema/self_bench.schema.json` is its schema. Absent things are left out.
pub fn json(bench: &SelfBench) -> Value {
    let mut out = Map::new();
    out.insert("schema_version".into(), SCHEMA_VERSION.into());
    out.insert("tokenring_version".into(), env!("CARGO_PKG_VERSION").into());
    out.insert("measured_at".into(), wall(bench.measured_wall_ns).into());
    let machine = &bench.machine;
    out.insert(
        "machine".into(),
        json!({"cpu": machine.cpu, "kernel": machine.kernel, "build": machine.build}),
    );
    let mut shape = Map::new();
    let (mode, rate) = match bench.mode {
        Mode::Streams { rate_per_stream } => ("streams", Some(rate_per_stream)),
        Mode::Requests => ("requests", None),
    };
    shape.insert("mode".into(), mode.into());
    if let Some(rate) = rate {
        shape.insert("rate_per_stream_per_s".into(), rate.into());
    }
    shape.insert("chunk_bytes".into(), bench.chunk_bytes.into());
    shape.insert("tls".into(), bench.tls.into());
    out.insert("shape".into(), shape.into());
    if let Some(url) = &bench.against {
        out.insert("against".into(), url.as_str().into());
    }
    out.insert("client_cpus".into(), json!(bench.client_cpus));
    out.insert("mock_cpus".into(), json!(bench.mock_cpus));
    out.insert("is_complete".into(), bench.is_complete.into());
    out.insert("steps".into(), bench.steps.iter().map(step).collect());
    if let Some((step, core)) = bench.largest_valid().and_then(|s| Some((s, s.core?))) {
        let unit = match core.shape.unit {
            Unit::Events => "events",
            Unit::Requests => "requests",
        };
        let largest = json!({"load": step.load, "unit": unit, "per_core_per_s": core.per_s});
        out.insert("largest_valid".into(), largest);
    }
    out.insert("notes".into(), json!(bench.notes));
    Value::Object(out)
}

fn step(step: &Step) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            out.insert(key.into(), value);
        }
    };
    let client = &step.client;
    put("load", step.load.into());
    put("verdict", client.verdict.name().into());
    put("reasons", super::json::reasons(step.reasons()));
    put("events_per_s", step.events_per_s.into());
    put("events_count", step.events_count.into());
    put("requests_count", step.requests_count.into());
    put("failed_count", step.failed_count.into());
    put("delivered_ratio", json!(step.delivered_ratio));
    let cpu = step.cpu_ns();
    put("user_ns_each", json!(cpu.map(|(user, _)| user)));
    put("system_ns_each", json!(cpu.map(|(_, system)| system)));
    let busy: Vec<f64> = client.cores.iter().map(|core| core.busy_ratio).collect();
    put("core_busy_ratio", json!(busy));
    put("memory_bytes_max", json!(step.memory_bytes_max));
    put("receive_lag_ns", spread(client.receive_lag));
    put("send_lag_ns", spread(client.send_lag));
    let names = ["event_time_error_ns", "ttft_error_ns", "itl_error_ns"];
    for (name, errors) in names.into_iter().zip(step.stamp_errors()) {
        put(name, errors.map_or(Value::Null, spread));
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::stats::capacity::Machine;
    use crate::stats::summary::{CoreReport, MetricResult, Reason, StampSpreads, Verdict};

    fn step(load: u32, verdict: Verdict) -> Step {
        let mut summary = fixture::summary();
        let errors = |us: u64| Spread {
            count: 100,
            p50: us * 1_000,
            p90: us * 2_000,
            p99: us * 12_345,
            p99_9: us * 20_000,
            max: us * 400_000,
        };
        summary.metrics.push(MetricResult {
            tag: "http_req_data_received",
            ..summary.metric("request_latency").unwrap().clone()
        });
        summary.client.verdict = verdict;
        summary.client.stamp_errors = Some(StampSpreads {
            event_time: errors(5),
            ttft: errors(8),
            itl: errors(2),
        });
        summary.client.cores = vec![CoreReport {
            cpu: Some(1),
            busy_ratio: 0.5,
            user_ns: 400_000_000,
            system_ns: 600_000_000,
            requests_count: u64::from(load),
            events_count: 80 * u64::from(load),
            ..CoreReport::default()
        }];
        if verdict != Verdict::Valid {
            summary.client.reasons = vec![Reason {
                code: "receive_lag",
                level: verdict,
                measured: 20.5,
                limit: 10.0,
                unit: "us (p99)",
                advice: "more cores",
            }];
        }
        Step {
            memory_bytes_max: Some(100 << 20),
            delivered_ratio: Some(0.5 + f64::from(u8::from(verdict == Verdict::Valid)) / 2.0),
            ..Step::new(load, None, false, summary)
        }
    }

    fn bench() -> SelfBench {
        SelfBench {
            machine: Machine {
                cpu: "A CPU".into(),
                kernel: "6.1".into(),
                build: "0.1.0 1-2".into(),
            },
            measured_wall_ns: 1_796_003_780_483_785_999,
            mode: Mode::Streams {
                rate_per_stream: 40.0,
            },
            chunk_bytes: 900,
            tls: true,
            against: None,
            client_cpus: vec![1],
            mock_cpus: vec![0, 2],
            steps: vec![step(100, Verdict::Valid), step(2_000, Verdict::Invalid)],
            is_complete: true,
            notes: vec!["a sentence".into()],
        }
    }

    /// Another server without stamps, interrupted before anything held.
    fn bare() -> SelfBench {
        let mut bench = SelfBench {
            mode: Mode::Requests,
            against: Some("http://h:8000".into()),
            mock_cpus: Vec::new(),
            steps: vec![step(7, Verdict::Degraded)],
            is_complete: false,
            ..bench()
        };
        let step = &mut bench.steps[0];
        step.client.stamp_errors = None;
        (step.memory_bytes_max, step.delivered_ratio, step.core) = (None, None, None);
        step.failed_count = 3;
        bench
    }

    #[test]
    fn the_tables_are_as_committed() {
        insta::assert_snapshot!("self_bench", text(&bench()));
        insta::assert_snapshot!("self_bench_bare", text(&bare()));
    }

    #[test]
    fn the_document_fits_its_schema() {
        let schema = include_str!("../../schema/self_bench.schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for bench in [bench(), bare()] {
            let document = json(&bench);
            let faults: Vec<String> = validator
                .iter_errors(&document)
                .map(|fault| format!("{}: {fault}", fault.instance_path()))
                .collect();
            assert_eq!(faults, Vec::<String>::new());
        }
        let mut broken = json(&bench());
        broken["steps"][0]["verdict"] = "FINE".into();
        assert!(!validator.is_valid(&broken));
    }
}
