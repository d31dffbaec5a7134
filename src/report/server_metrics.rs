//! `server_metrics_export.{json,csv,jsonl}`: AIPerf's keys, sections and columns; and the servers'
//! own figures by common names, for the run's own document.

use super::text::wall;
use super::{RunInfo, input_config};
use crate::base::{Ns, printable};
use crate::config::Config;
use crate::stats::Summary;
use crate::stats::buckets::ESTIMATED;
use crate::stats::server::{
    Endpoint, Engine, Family, FamilyKind, Sample, Scrape, Series, SeriesStats, Slice, SliceValue,
};
use crate::stats::summary::{Distribution, Figure};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the JSON file's schema, AIPerf's own.
pub const SCHEMA_VERSION: &str = "1.1";
/// The same of the CSV file.
const CSV_SCHEMA_VERSION: &str = "1.0";
/// Statistics of each kind, in AIPerf's order.
const GAUGE: [&str; 13] = [
    "avg", "min", "max", "std", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99",
];
const COUNTER: [&str; 6] = [
    "total", "rate", "rate_avg", "rate_min", "rate_max", "rate_std",
];
const HISTOGRAM: [&str; 5] = ["count", "count_rate", "sum", "sum_rate", "avg"];

/// `server_metrics_export.json`; `schema/server_metrics_export.schema.json` is its schema. Absent
/// things are left out.
pub fn json(summary: &Summary, config: &Config, run: &RunInfo) -> Value {
    let server = &summary.server;
    let urls = |pages: &mut dyn Iterator<Item = &Endpoint>| -> Vec<Value> {
        pages.map(|page| page.url.as_str().into()).collect()
    };
    let successful = server.endpoints.iter().filter(|page| page.fetches > 0);
    let info = server.endpoints.iter();
    let info: Map<String, Value> = info
        .map(|page| (page.url.clone(), endpoint(page, run)))
        .collect();
    let at = |time: Ns| run.anchor.wall(time);
    let (from, to) = (at(server.window.0), at(server.window.1));
    let mut metrics = Map::new();
    for family in &server.families {
        // Pages may differ on what a name counts.
        let name = match metrics.contains_key(&family.name) {
            true => format!("{} ({})", family.name, family.kind.name()),
            false => family.name.clone(),
        };
        metrics.insert(name, metric(family, &server.endpoints, run));
    }
    let mut document = json!({
        "schema_version": SCHEMA_VERSION,
        "tokenring_version": run.version,
        "benchmark_id": run.benchmark_id,
        "summary": {
            "endpoints_configured": urls(&mut server.endpoints.iter()),
            "endpoints_successful": urls(&mut successful.into_iter()),
            "start_time": wall(from),
            "end_time": wall(to),
            "endpoint_info": info,
            "phase_time_ranges": {"profiling": {"start_ns": from, "end_ns": to}},
        },
        "metrics_phase": "profiling",
        "metrics": metrics,
        "input_config": input_config::aiperf(summary, config, run),
    });
    run.secrets.mask_value(&mut document);
    document
}

fn endpoint(page: &Endpoint, run: &RunInfo) -> Value {
    let mut out = Map::new();
    out.insert("total_fetches".into(), page.fetches.into());
    if let Some((first, last)) = page.fetched {
        out.insert("first_fetch_ns".into(), run.anchor.wall(first).into());
        out.insert("last_fetch_ns".into(), run.anchor.wall(last).into());
    }
    let latency = page.latency_mean.as_ms();
    out.insert("avg_fetch_latency_ms".into(), latency.into());
    out.insert("unique_updates".into(), page.updates.into());
    if let Some((first, last)) = page.updated {
        out.insert("first_update_ns".into(), run.anchor.wall(first).into());
        out.insert("last_update_ns".into(), run.anchor.wall(last).into());
        let length = last.saturating_since(first).as_secs();
        out.insert("duration_seconds".into(), length.into());
    }
    if let Some((mean, median)) = page.update_interval {
        out.insert("avg_update_interval_ms".into(), mean.as_ms().into());
        out.insert("median_update_interval_ms".into(), median.as_ms().into());
    }
    out.insert("failed_fetches".into(), page.failures.into());
    if let Some(first) = &page.first_failure {
        out.insert("first_failure".into(), first.as_str().into());
    }
    out.insert("counter_resets".into(), page.resets.into());
    out.insert("invalid_values".into(), page.invalid_values.into());
    out.insert("bad_lines".into(), page.bad_lines.into());
    out.insert("series_left_out".into(), page.series_left_out.into());
    out.insert("is_settled".into(), page.is_settled.into());
    Value::Object(out)
}

fn metric(family: &Family, pages: &[Endpoint], run: &RunInfo) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), family.kind.name().into());
    out.insert("description".into(), family.help.as_str().into());
    if let Some(unit) = family.unit {
        out.insert("unit".into(), unit.into());
    }
    let series = family.series.iter().map(|series| one(series, pages, run));
    out.insert("series".into(), series.collect());
    Value::Object(out)
}

fn one(series: &Series, pages: &[Endpoint], run: &RunInfo) -> Value {
    let mut out = Map::new();
    let url = pages.get(series.endpoint).map(|page| page.url.as_str());
    out.insert("endpoint_url".into(), url.into());
    if !series.labels.is_empty() {
        out.insert("labels".into(), labels(&series.labels));
    }
    let stats = stats(&series.stats);
    let stats: Map<String, Value> = stats
        .into_iter()
        .map(|(name, value)| (name, number(value)))
        .collect();
    out.insert("stats".into(), stats.into());
    let les: Vec<&str> = match &series.stats {
        SeriesStats::Histogram(histogram) if !histogram.buckets.is_empty() => {
            let counts = histogram.buckets.iter();
            let counts = counts.map(|(le, count)| (le.clone(), whole(*count)));
            out.insert("buckets".into(), counts.collect::<Map<_, _>>().into());
            histogram
                .buckets
                .iter()
                .map(|(le, _)| le.as_str())
                .collect()
        }
        _ => Vec::new(),
    };
    if !series.slices.is_empty() {
        let slices = series.slices.iter().map(|part| slice(part, &les, run));
        out.insert("timeslices".into(), slices.collect());
    }
    Value::Object(out)
}

fn labels(labels: &[(String, String)]) -> Value {
    let pairs = labels.iter();
    let pairs = pairs.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    pairs.collect::<Map<_, _>>().into()
}

/// A statistic: counts of values are whole, all else is not.
enum Number {
    Whole(f64),
    Real(f64),
}

fn number(value: Number) -> Value {
    match value {
        Number::Whole(count) => whole(count),
        Number::Real(value) => value.into(),
    }
}

/// A count of JSON; one with a fraction, which a server may make up, stays what it is.
#[expect(clippy::cast_possible_truncation, reason = "checked to be a count")]
fn whole(count: f64) -> Value {
    match count.fract() == 0.0 && count.abs() < 9e15 {
        true => (count as i64).into(),
        false => count.into(),
    }
}

/// Statistics by name, in the order of the JSON file.
fn stats(stats: &SeriesStats) -> Vec<(String, Number)> {
    let real = |(name, value): (&str, f64)| (name.to_owned(), Number::Real(value));
    match stats {
        SeriesStats::Gauge(d) => GAUGE.map(|name| real((name, of(d, name)))).into(),
        SeriesStats::Counter(counter) => {
            let [avg, min, max, std] = counter.rates.unwrap_or_default();
            let all = [counter.total, counter.rate, avg, min, max, std];
            let known = if counter.rates.is_some() { 6 } else { 2 };
            COUNTER.into_iter().zip(all).take(known).map(real).collect()
        }
        SeriesStats::Histogram(histogram) => {
            let mut out = vec![("count".to_owned(), Number::Whole(histogram.count))];
            if histogram.count > 0.0 {
                let all = [
                    ("sum", histogram.sum),
                    ("avg", histogram.sum / histogram.count),
                    ("count_rate", histogram.count_rate),
                    ("sum_rate", histogram.sum_rate),
                ];
                out.extend(all.map(real));
                let names = ESTIMATED.map(|percent| format!("p{percent}_estimate"));
                let known = names
                    .into_iter()
                    .zip(histogram.percentiles.into_iter().flatten());
                out.extend(known.map(|(name, value)| (name, Number::Real(value))));
            }
            out
        }
    }
}

fn of(d: &Distribution, name: &str) -> f64 {
    match name {
        "avg" => d.avg,
        "min" => d.min,
        "max" => d.max,
        "std" => d.std,
        _ => {
            let place = GAUGE[4..].iter().position(|key| *key == name);
            d.percentiles[place.unwrap_or_default()]
        }
    }
}

fn slice(part: &Slice, les: &[&str], run: &RunInfo) -> Value {
    let mut out = Map::new();
    out.insert("start_ns".into(), run.anchor.wall(part.start).into());
    out.insert("end_ns".into(), run.anchor.wall(part.end).into());
    if !part.is_complete {
        out.insert("is_complete".into(), false.into());
    }
    match &part.value {
        SliceValue::Gauge([avg, min, max]) => {
            out.extend([("avg", avg), ("min", min), ("max", max)].map(pair));
        }
        SliceValue::Counter([total, rate]) => {
            out.extend([("total", total), ("rate", rate)].map(pair));
        }
        SliceValue::Histogram {
            count,
            sum,
            buckets,
        } => {
            let avg = if *count > 0.0 { sum / count } else { 0.0 };
            out.insert("count".into(), whole(*count));
            out.extend([("sum", sum), ("avg", &avg)].map(pair));
            if !les.is_empty() {
                let counts = les.iter().zip(buckets);
                let counts = counts.map(|(le, count)| ((*le).to_owned(), whole(*count)));
                out.insert("buckets".into(), counts.collect::<Map<_, _>>().into());
            }
        }
    }
    Value::Object(out)
}

fn pair((name, value): (&str, &f64)) -> (String, Value) {
    (name.to_owned(), (*value).into())
}

/// `server_metrics_export.csv`: a section for gauges, counters, histograms, and one for what is no
/// figure but words (`_info`).
pub fn csv(summary: &Summary, run: &RunInfo) -> Vec<u8> {
    let mut out = format!(
        "# tokenring Server Metrics Export (CSV)\n# tokenring_version: {}\n\
         # schema_version: {CSV_SCHEMA_VERSION}\n# benchmark_id: {}\n\
         # Note: the JSON export has the same benchmark_id and version\n#\n",
        run.version, run.benchmark_id
    )
    .into_bytes();
    let is_info =
        |family: &Family| family.kind == FamilyKind::Gauge && family.name.ends_with("_info");
    let families = || summary.server.families.iter();
    let kinds: [&[FamilyKind]; 3] = [
        &[FamilyKind::Gauge],
        &[FamilyKind::Counter],
        &[FamilyKind::Histogram, FamilyKind::Summary],
    ];
    let mut sections: Vec<Vec<u8>> = Vec::new();
    for kinds in kinds {
        let own = families().filter(|family| kinds.contains(&family.kind) && !is_info(family));
        sections.extend(section(own, &summary.server.endpoints));
    }
    sections.extend(info(
        families().filter(|f| is_info(f)),
        &summary.server.endpoints,
    ));
    out.extend(sections.join(&b"\r\n"[..]));
    match String::from_utf8(out) {
        Ok(text) => run.secrets.mask(&text).into_owned().into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

/// A row of a section.
struct Row<'a> {
    family: &'a Family,
    series: &'a Series,
    source: &'a str,
    labels: BTreeMap<&'a str, &'a str>,
}

fn section<'a>(
    families: impl Iterator<Item = &'a Family>,
    pages: &'a [Endpoint],
) -> Option<Vec<u8>> {
    let row = |family: &'a Family, series: &'a Series| Row {
        family,
        series,
        source: source(series, pages),
        labels: series
            .labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
    };
    let mut rows: Vec<Row<'_>> = families
        .flat_map(|family| family.series.iter().map(move |series| row(family, series)))
        .collect();
    let estimates = ESTIMATED.map(|percent| format!("p{percent}_estimate"));
    let (mut keys, mut tail) = match rows.first()?.family.kind {
        FamilyKind::Gauge => (GAUGE.to_vec(), vec!["Description"]),
        FamilyKind::Counter => (COUNTER.to_vec(), vec!["Description"]),
        _ => (HISTOGRAM.to_vec(), vec!["Description", "buckets"]),
    };
    if tail.len() > 1 {
        keys.extend(estimates.iter().map(String::as_str));
    }
    let columns = label_columns(&rows);
    // Rows that fill the same columns stand together.
    let pattern = |row: &Row<'a>| -> Vec<bool> {
        let is_filled = |column: &&str| row.labels.contains_key(column);
        columns.iter().map(is_filled).collect()
    };
    let order = |row: &Row<'a>| {
        (
            pattern(row),
            &row.family.name,
            row.source,
            row.labels.clone(),
        )
    };
    rows.sort_by_cached_key(order);
    let mut head = vec!["Endpoint", "Type", "Metric", "Unit"];
    head.extend(keys.iter().chain(&columns));
    head.append(&mut tail);
    let mut out = Vec::new();
    line(&mut out, head);
    for row in &rows {
        line(&mut out, cells(row, &keys, &columns));
    }
    Some(out)
}

fn source<'a>(series: &Series, pages: &'a [Endpoint]) -> &'a str {
    let page = pages.get(series.endpoint);
    page.map_or("", |page| &page.source)
}

fn cells(row: &Row<'_>, keys: &[&str], columns: &[&str]) -> Vec<String> {
    let Row { family, series, .. } = row;
    let found: BTreeMap<String, Number> = stats(&series.stats).into_iter().collect();
    let mut cells = vec![
        row.source.to_owned(),
        family.kind.name().to_owned(),
        family.name.clone(),
        family.unit.unwrap_or_default().to_owned(),
    ];
    let stat = |key: &&str| found.get(*key).map_or_else(String::new, cell);
    let label = |column: &&str| (*row.labels.get(column).unwrap_or(&"")).to_owned();
    cells.extend(keys.iter().map(stat));
    cells.extend(columns.iter().map(label));
    cells.push(family.help.clone());
    if let SeriesStats::Histogram(histogram) = &series.stats {
        let buckets = histogram.buckets.iter();
        let buckets = buckets.map(|(le, count)| format!("{le}={}", whole(*count)));
        cells.push(buckets.collect::<Vec<_>>().join(";"));
    }
    cells
}

fn cell(value: &Number) -> String {
    match value {
        Number::Whole(count) => whole(*count).to_string(),
        Number::Real(value) => format!("{value:.4}"),
    }
}

/// Names of labels: those that stand together are neighbours, and within such a family those that
/// one series only has come first.
fn label_columns<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut families: Vec<BTreeSet<&str>> = Vec::new();
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows {
        let own: BTreeSet<&str> = row.labels.keys().copied().collect();
        for name in &own {
            *counts.entry(name).or_default() += 1;
        }
        if own.is_empty() || families.iter().any(|family| own.is_subset(family)) {
            continue;
        }
        let (near, far) = families
            .into_iter()
            .partition(|family: &BTreeSet<&str>| !family.is_disjoint(&own));
        families = far;
        families.push(Vec::into_iter(near).fold(own, |a, b| &a | &b));
    }
    families.sort();
    let is_shared = |name: &&str| counts[name] > 1;
    let order = |family: BTreeSet<&'a str>| {
        let (shared, own): (Vec<&str>, Vec<&str>) = family.into_iter().partition(is_shared);
        own.into_iter().chain(shared)
    };
    families.into_iter().flat_map(order).collect()
}

fn info<'a>(families: impl Iterator<Item = &'a Family>, pages: &[Endpoint]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for family in families {
        for series in &family.series {
            let source = source(series, pages);
            for (key, value) in &series.labels {
                if out.is_empty() {
                    let head = ["Endpoint", "Metric", "Key", "Value", "Description"];
                    line(&mut out, head);
                }
                let cells = [source, &family.name, key, value, &family.help];
                line(&mut out, cells);
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

fn line<T: AsRef<str>>(out: &mut Vec<u8>, cells: impl IntoIterator<Item = T>) {
    let cells = cells.into_iter();
    let cells = cells.map(|cell| printable(cell.as_ref()).into_owned());
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(out);
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    let _ = writer.flush();
}

/// A line of `server_metrics_export.jsonl`.
pub fn jsonl(scrape: &Scrape, run: &RunInfo) -> Vec<u8> {
    let families = scrape.families.iter();
    // What they are, not what they count: they never change.
    let families =
        families.filter(|(name, samples)| !name.ends_with("_info") && !samples.is_empty());
    let metrics: Map<String, Value> = families
        .map(|(name, samples)| (name.clone(), samples.iter().map(sample).collect()))
        .collect();
    let mut document = json!({
        "endpoint_url": scrape.url,
        "timestamp_ns": run.anchor.wall(scrape.at),
        "metrics": metrics,
        "endpoint_latency_ns": scrape.latency.0,
    });
    run.secrets.mask_value(&mut document);
    let mut out = document.to_string().into_bytes();
    out.push(b'\n');
    out
}

fn sample(sample: &Sample) -> Value {
    let mut out = Map::new();
    if !sample.labels.is_empty() {
        out.insert("labels".into(), labels(&sample.labels));
    }
    if let Some(value) = sample.value {
        out.insert("value".into(), value.into());
    }
    if !sample.buckets.is_empty() {
        let buckets = sample.buckets.iter();
        let buckets = buckets.map(|(le, count)| (le.clone(), Value::from(*count)));
        out.insert("buckets".into(), buckets.collect::<Map<_, _>>().into());
    }
    for (name, value) in [("sum", sample.sum), ("count", sample.count)] {
        if let Some(value) = value {
            out.insert(name.into(), value.into());
        }
    }
    Value::Object(out)
}

/// What the servers say by common names, for the run's own document; absent without a page that
/// tells.
pub fn block(summary: &Summary) -> Option<Value> {
    let server = &summary.server;
    if server.engines.is_empty() {
        return None;
    }
    let mut out = Map::new();
    out.insert(
        "servers".into(),
        server.engines.iter().map(engine).collect(),
    );
    if let Some((_, difference)) = ttft(summary) {
        out.insert(
            "client_minus_server_ttft_ms".into(),
            json!({"unit": "ms", "avg": difference}),
        );
    }
    if let Some(finished) = server.finished() {
        out.insert("finished_request_count".into(), whole(finished));
    }
    Some(Value::Object(out))
}

/// The client's mean TTFT in ms, and how much more it is than the servers' own.
pub(super) fn ttft(summary: &Summary) -> Option<(f64, f64)> {
    match &summary.metric("time_to_first_token")?.figure {
        Figure::Distribution(ours) => Some((ours.avg, ours.avg - summary.server.ttft_ms()?)),
        _ => None,
    }
}

fn engine(engine: &Engine) -> Value {
    let mut out = Map::new();
    out.insert("engine".into(), engine.name.into());
    out.insert("endpoint".into(), engine.source.as_str().into());
    out.insert("url".into(), engine.url.as_str().into());
    for quantity in &engine.quantities {
        let mut row = Map::new();
        if !quantity.unit.is_empty() {
            row.insert("unit".into(), quantity.unit.into());
        }
        for (name, value) in &quantity.stats {
            let value = match *name {
                "count" => whole(*value),
                _ => (*value).into(),
            };
            row.insert((*name).into(), value);
        }
        out.insert(quantity.tag.into(), row.into());
    }
    Value::Object(out)
}
