//! The files of server metrics against AIPerf's recorded ones, and against their schema.

use super::fixture;
use super::server_console;
use super::server_metrics::{block, csv, json, jsonl};
use crate::base::{Anchor, Ns};
use crate::stats::Summary;
use crate::stats::server::{
    CounterStats, Endpoint, Engine, Family, FamilyKind, HistogramStats, Quantity, Sample, Scrape,
    Series, SeriesStats, ServerReport, Slice, SliceValue,
};
use crate::stats::summary::Distribution;
use serde_json::Value;

const GOLDEN: &str = include_str!("../../tests/data/golden/aiperf/server_metrics_export.json");
const GOLDEN_CSV: &str = include_str!("../../tests/data/golden/aiperf/server_metrics_export.csv");
const SCHEMA: &str = include_str!("../../schema/server_metrics_export.schema.json");

fn real(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap()
}

fn ns(value: &Value, key: &str) -> Ns {
    Ns(value[key].as_u64().unwrap())
}

fn reals<const N: usize>(value: &Value, keys: [&str; N]) -> [f64; N] {
    keys.map(|key| real(value, key))
}

fn pairs(value: &Value) -> impl Iterator<Item = (String, &Value)> {
    let map = value.as_object().unwrap();
    map.iter().map(|(name, value)| (name.clone(), value))
}

const PERCENTILES: [&str; 9] = ["p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99"];

fn stats(kind: FamilyKind, series: &Value) -> SeriesStats {
    let stats = &series["stats"];
    match kind {
        FamilyKind::Gauge => {
            let [avg, min, max, std] = reals(stats, ["avg", "min", "max", "std"]);
            let mut percentiles = [0.0; 11];
            percentiles[..9].copy_from_slice(&reals(stats, PERCENTILES));
            SeriesStats::Gauge(Distribution {
                avg,
                min,
                max,
                std,
                sum: 0.0,
                count: 1,
                percentiles,
                exact: true,
            })
        }
        FamilyKind::Counter => SeriesStats::Counter(CounterStats {
            total: real(stats, "total"),
            rate: real(stats, "rate"),
            rates: Some(reals(
                stats,
                ["rate_avg", "rate_min", "rate_max", "rate_std"],
            )),
        }),
        _ => {
            let estimates = PERCENTILES.map(|name| real(stats, &format!("{name}_estimate")));
            let buckets = pairs(&series["buckets"]);
            SeriesStats::Histogram(HistogramStats {
                count: real(stats, "count"),
                sum: real(stats, "sum"),
                count_rate: real(stats, "count_rate"),
                sum_rate: real(stats, "sum_rate"),
                percentiles: Some(estimates),
                buckets: buckets
                    .map(|(le, count)| (le, count.as_f64().unwrap()))
                    .collect(),
            })
        }
    }
}

fn slice(kind: FamilyKind, part: &Value) -> Slice {
    let value = match kind {
        FamilyKind::Gauge => SliceValue::Gauge(reals(part, ["avg", "min", "max"])),
        FamilyKind::Counter => SliceValue::Counter(reals(part, ["total", "rate"])),
        _ => SliceValue::Histogram {
            count: real(part, "count"),
            sum: real(part, "sum"),
            buckets: pairs(&part["buckets"])
                .map(|(_, n)| n.as_f64().unwrap())
                .collect(),
        },
    };
    Slice {
        start: ns(part, "start_ns"),
        end: ns(part, "end_ns"),
        is_complete: part.get("is_complete").is_none(),
        value,
    }
}

/// What AIPerf has recorded, as our own types have it.
fn golden() -> Summary {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let window = &golden["summary"]["phase_time_ranges"]["profiling"];
    let (url, info) = pairs(&golden["summary"]["endpoint_info"]).next().unwrap();
    let times = |a: &str, b: &str| Some((ns(info, a), ns(info, b)));
    let ms = |key: &str| Ns::from_secs_f64(real(info, key) / 1e3);
    let endpoint = Endpoint {
        url,
        source: "127.0.0.1:18000".into(),
        fetches: 13,
        fetched: times("first_fetch_ns", "last_fetch_ns"),
        latency_mean: ms("avg_fetch_latency_ms"),
        updates: 13,
        updated: times("first_update_ns", "last_update_ns"),
        update_interval: Some((
            ms("avg_update_interval_ms"),
            ms("median_update_interval_ms"),
        )),
        is_settled: true,
        ..Endpoint::default()
    };
    let family = |(name, metric): (String, &Value)| {
        let kind = match metric["type"].as_str().unwrap() {
            "gauge" => FamilyKind::Gauge,
            "counter" => FamilyKind::Counter,
            _ => FamilyKind::Histogram,
        };
        let series = metric["series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|series| Series {
                endpoint: 0,
                labels: pairs(&series["labels"])
                    .map(|(name, value)| (name, value.as_str().unwrap().to_owned()))
                    .collect(),
                stats: stats(kind, series),
                slices: series["timeslices"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|part| slice(kind, part))
                    .collect(),
            });
        let unit = metric.get("unit").map(|unit| unit.as_str().unwrap());
        Family {
            name,
            kind,
            help: metric["description"].as_str().unwrap().into(),
            unit: unit.map(|unit| {
                if unit == "tokens" {
                    "tokens"
                } else {
                    unit_of(unit)
                }
            }),
            series: series.collect(),
        }
    };
    Summary {
        server: ServerReport {
            window: (ns(window, "start_ns"), ns(window, "end_ns")),
            endpoints: vec![endpoint],
            families: pairs(&golden["metrics"]).map(family).collect(),
            engines: Vec::new(),
        },
        ..fixture::golden()
    }
}

fn unit_of(unit: &str) -> &'static str {
    ["seconds", "requests"]
        .into_iter()
        .find(|known| *known == unit)
        .unwrap()
}

fn run() -> super::RunInfo {
    super::RunInfo {
        // Wall times and those of the client's clock are the same.
        anchor: Anchor::at(Ns::ZERO, 0),
        ..fixture::run()
    }
}

fn engine() -> Engine {
    let quantity = |tag, header, unit, stats: &[(&'static str, f64)]| Quantity {
        tag,
        header,
        unit,
        stats: stats.to_vec(),
    };
    let ttft = [
        ("count", 10.0),
        ("avg", 40.0),
        ("p50", 39.5),
        ("p99", 61.25),
    ];
    Engine {
        name: "vLLM",
        url: "http://127.0.0.1:18000/metrics".into(),
        source: "127.0.0.1:18000".into(),
        quantities: vec![
            quantity(
                "requests_running",
                "Requests Running",
                "",
                &[("avg", 3.5), ("max", 8.0)],
            ),
            quantity(
                "kv_cache_usage",
                "KV Cache Usage",
                "%",
                &[("avg", 12.0), ("max", 30.5)],
            ),
            quantity(
                "prefix_cache_hits",
                "Prefix Cache Hits",
                "%",
                &[("avg", 71.0)],
            ),
            quantity(
                "preemptions",
                "Preemptions",
                "",
                &[("total", 2.0), ("rate", 0.5)],
            ),
            quantity("time_to_first_token", "Time to First Token", "ms", &ttft),
        ],
        finished: Some(10.0),
    }
}

#[test]
fn the_metrics_are_those_of_aiperf_key_by_key() {
    let ours = json(&golden(), &fixture::config(), &run());
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let (ours_text, golden_text) = (
        format!("{:#}", ours["metrics"]),
        format!("{:#}", golden["metrics"]),
    );
    assert_eq!(ours_text, golden_text);
    for key in ["endpoints_configured", "phase_time_ranges"] {
        assert_eq!(ours["summary"][key], golden["summary"][key], "{key}");
    }
    let (ours_info, info) = (
        &ours["summary"]["endpoint_info"],
        &golden["summary"]["endpoint_info"],
    );
    for (url, info) in pairs(info) {
        for (key, value) in pairs(info) {
            let (own, value) = (real(&ours_info[&url], &key), value.as_f64().unwrap());
            assert!((own - value).abs() <= 1e-6 * value.abs(), "{key}");
        }
    }
    let keys = |value: &Value| -> Vec<String> { pairs(value).map(|(key, _)| key).collect() };
    let mut expected = keys(&golden);
    expected[1] = "tokenring_version".into();
    assert_eq!(keys(&ours), expected);
}

#[test]
fn the_tables_are_those_of_aiperf_byte_by_byte() {
    let ours = String::from_utf8(csv(&golden(), &run())).unwrap();
    let body = |text: &str| text.split_once("#\n").unwrap().1.to_owned();
    assert_eq!(body(&ours), body(GOLDEN_CSV));
    assert_eq!(
        ours.lines()
            .take_while(|line| line.starts_with('#'))
            .count(),
        6
    );
}

#[test]
fn labels_stand_with_their_neighbours_and_words_have_a_section() {
    let series = |labels: &[(&str, &str)]| Series {
        endpoint: 0,
        labels: labels
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
        stats: SeriesStats::Counter(CounterStats {
            total: 1.0,
            rate: 2.0,
            rates: None,
        }),
        slices: Vec::new(),
    };
    let family = |name: &str, kind, series| Family {
        name: name.into(),
        kind,
        help: "a \"b\", c".into(),
        unit: None,
        series,
    };
    let mut summary = golden();
    let mut build = series(&[("version", "1")]);
    build.stats = summary
        .server
        .families
        .iter()
        .find_map(|f| match &f.series[0].stats {
            gauge @ SeriesStats::Gauge(_) => Some(gauge.clone()),
            _ => None,
        })
        .unwrap();
    summary.server.families = vec![
        family("b_info", FamilyKind::Gauge, vec![build]),
        family(
            "c",
            FamilyKind::Counter,
            vec![
                series(&[("m", "1"), ("b", "1")]),
                series(&[("m", "1"), ("a", "1")]),
                series(&[("z", "2")]),
            ],
        ),
    ];
    let text = String::from_utf8(csv(&summary, &run())).unwrap();
    insta::assert_snapshot!(text.split_once("#\n").unwrap().1.replace('\r', ""));
}

#[test]
fn the_document_is_that_of_its_schema() {
    let schema = jsonschema::validator_for(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
    let faults = |document: &Value| -> Vec<String> {
        let faults = schema.iter_errors(document);
        faults
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect()
    };
    let mut summary = golden();
    let document = json(&summary, &fixture::config(), &run());
    assert_eq!(faults(&document), Vec::<String>::new());
    summary.server.endpoints[0] = Endpoint {
        url: "http://h:1/metrics".into(),
        failures: 3,
        first_failure: Some("no answer in time".into()),
        ..Endpoint::default()
    };
    summary.server.families.truncate(1);
    assert_eq!(
        faults(&json(&summary, &fixture::config(), &run())),
        Vec::<String>::new()
    );
    let mut broken = document;
    broken["metrics"]["aiperf_mock_requests"]["type"] = "number".into();
    assert!(!schema.is_valid(&broken));
}

#[test]
fn a_scrape_is_a_line_of_aiperfs_shape() {
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let scrape = Scrape {
        url: "http://h:1/metrics".into(),
        at: Ns(7),
        latency: Ns(3),
        families: vec![
            ("build_info".into(), vec![Sample::default()]),
            (
                "a".into(),
                vec![Sample {
                    labels: vec![pair("m", "x")],
                    value: Some(2.0),
                    ..Sample::default()
                }],
            ),
            (
                "h".into(),
                vec![Sample {
                    buckets: vec![("+Inf".into(), 3.0)],
                    sum: Some(0.5),
                    count: Some(3.0),
                    ..Sample::default()
                }],
            ),
        ],
    };
    let line = String::from_utf8(jsonl(&scrape, &run())).unwrap();
    let want = "{\"endpoint_url\":\"http://h:1/metrics\",\"timestamp_ns\":7,\"metrics\":\
                {\"a\":[{\"labels\":{\"m\":\"x\"},\"value\":2.0}],\
                \"h\":[{\"buckets\":{\"+Inf\":3.0},\"sum\":0.5,\"count\":3.0}]},\
                \"endpoint_latency_ns\":3}\n";
    assert_eq!(line, want);
}

#[test]
fn the_servers_ttft_stands_beside_the_clients() {
    let mut summary = golden();
    assert_eq!(block(&summary), None);
    summary.server.engines = vec![engine()];
    let ours = match &summary.metric("time_to_first_token").unwrap().figure {
        crate::stats::summary::Figure::Distribution(ours) => ours.avg,
        other => panic!("{other:?}"),
    };
    let block = block(&summary).unwrap();
    let difference = real(&block["client_minus_server_ttft_ms"], "avg");
    assert!((difference - (ours - 40.0)).abs() < 1e-9);
    assert_eq!(block["servers"][0]["kv_cache_usage"]["max"], 30.5);
    assert_eq!(block["finished_request_count"], 10);
    insta::assert_snapshot!(server_console::tables(&summary, 80));
}
