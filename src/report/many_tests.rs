//! The formats of many runs, from runs written by hand.

use super::*;
use crate::stats::Figures;
use crate::stats::bootstrap::Interval;
use crate::stats::gate::Gate;
use crate::stats::many::{Redrawn, RunRecord, Runs, Varied};
use crate::stats::{MetricFigures, plateau::Rung};

fn metric(tag: &str, unit: &str, stats: &[(&str, f64)]) -> MetricFigures {
    MetricFigures {
        tag: tag.into(),
        unit: unit.into(),
        stats: stats
            .iter()
            .map(|(name, value)| ((*name).into(), *value))
            .collect(),
    }
}

fn run(concurrency: u32, trial: u32, ttft: f64, tokens: f64) -> RunRecord {
    let gpu = metric("nvidia_power_usage", "W", &[("p99", 302.0)]);
    let energy = metric("nvidia_energy_consumption", "MJ", &[("avg", 0.001)]);
    let limit = metric("nvidia_power_limit", "W", &[("avg", 700.0)]);
    RunRecord {
        label: format!("concurrency_{concurrency}"),
        values: vec![("concurrency".into(), f64::from(concurrency))],
        trial,
        seed: 7,
        folder: format!("c{concurrency}/{trial}"),
        concurrency: Some(concurrency),
        dataset_entries: Some(5),
        verdict: "VALID".into(),
        rung: Some(Rung {
            concurrency,
            batches: vec![tokens / 4.0; 3],
            latency_s: f64::from(concurrency) / (tokens / 4.0),
            requests: 20,
        }),
        figures: Figures(vec![
            metric(
                "time_to_first_token",
                "ms",
                &[("p99", ttft), ("avg", ttft - 1.0)],
            ),
            metric("request_latency", "ms", &[("p99", ttft + 20.0)]),
            metric("input_sequence_length", "tokens", &[("p99", 50.0)]),
            metric("output_token_throughput", "tokens/sec", &[("avg", tokens)]),
            metric(
                "request_throughput",
                "requests/sec",
                &[("avg", tokens / 4.0)],
            ),
        ]),
        gpus: vec![("0".into(), Figures(vec![gpu, energy, limit]))],
        ..RunRecord::default()
    }
}

/// The sweep of the knee's own example.
fn runs() -> Runs {
    let sweep = [
        (1, 45.2, 128.3),
        (4, 48.1, 510.7),
        (8, 61.3, 989.2),
        (16, 98.7, 1741.6),
        (32, 284.1, 2134.2),
        (64, 892.4, 2251.8),
    ];
    Runs {
        model: "mx".into(),
        axes: vec![Varied {
            key: "concurrency",
            header: "Concurrency",
            is_load: true,
            values: sweep.iter().map(|(load, ..)| f64::from(*load)).collect(),
        }],
        points: sweep
            .iter()
            .map(|(load, ..)| format!("concurrency_{load}"))
            .collect(),
        trials: 1,
        runs: sweep
            .iter()
            .map(|&(load, ttft, rate)| run(load, 0, ttft, rate))
            .collect(),
        is_complete: true,
        slos: vec![Gate::parse("p99(ttft)<500ms").unwrap()],
        price_per_hour: Some(3.6),
        level: 0.95,
        order: "repeated",
        ..Runs::default()
    }
}

#[test]
fn the_screen_marks_the_three_points() {
    insta::assert_snapshot!(many::text(&runs()));
}

#[test]
fn repeats_have_intervals_and_too_few_of_them_are_marked() {
    let mut two = runs();
    two.trials = 2;
    two.points.truncate(1);
    two.runs = vec![run(1, 0, 100.0, 50.0), run(1, 1, 110.0, 50.0)];
    let text = many::text(&two);
    assert!(text.contains("NOT TO BE QUOTED"), "{text}");
    two.runs.push(run(1, 2, 105.0, 50.0));
    two.trials = 3;
    let text = many::text(&two);
    assert!(!text.contains("NOT TO BE QUOTED"), "{text}");
    // AIPerf's golden values: 105, 5, [92.579311, 117.420689].
    assert!(
        text.contains("105 ms ± 12.42 (std 5.00, cv 4.8 %"),
        "{text}"
    );
    two.redrawn = vec![Redrawn {
        label: "concurrency_1".into(),
        tag: "time_to_first_token".into(),
        stat: "p99".into(),
        over: Interval {
            estimate: 105.0,
            low: 101.0,
            high: 109.0,
            std_error: 2.0,
        },
    }];
    let text = many::text(&two);
    assert!(
        text.contains("cv 4.8 %); by requests 101.00 to 109.00"),
        "{text}"
    );
    let points = two.by_point();
    let found = aggregate::json(&two, &points[0]);
    let by_blocks = &found["client"]["block_bootstrap"]["time_to_first_token_p99"];
    assert_eq!(by_blocks["ci_low"], 101.0);
    let ttft = &found["metrics"]["time_to_first_token_p99"];
    for (key, value) in [
        ("mean", 105.0),
        ("std", 5.0),
        ("cv", 0.047_619_047_619_047_616),
        ("se", 2.886_751_345_948_129),
        ("ci_low", 92.579_311_441_248_35),
        ("ci_high", 117.420_688_558_751_65),
        ("t_critical", 4.302_652_729_749_462),
    ] {
        let found = ttft[key].as_f64().unwrap();
        assert!((found / value - 1.0).abs() < 1e-9, "{key}: {found}");
    }
    fits("profile_export_aiperf_aggregate.schema.json", &found);
    let csv = String::from_utf8(aggregate::csv(&two, &points[0])).unwrap();
    let line = csv
        .lines()
        .find(|line| line.starts_with("time_to_first_token_p99"))
        .unwrap();
    let golden = "105.00,5.00,100.00,110.00,0.0476,2.8868,92.58,117.42,4.3027,ms";
    assert_eq!(line, format!("time_to_first_token_p99,{golden}"));
}

#[test]
fn genai_perf_s_table_is_best_first_and_its_gpus_in_the_units_of_their_heads() {
    let csv = String::from_utf8(analyze_csv::bytes(&runs())).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[1].starts_with("mx_run_config_5,64,50,5,892.40,0.00,912.40,"),
        "{csv}"
    );
    assert!(
        lines[6].starts_with("mx_run_config_0,1,50,5,45.20,"),
        "{csv}"
    );
    assert_eq!(lines[7], "");
    let head = "Config Name,GPU,p99 GPU Power Usage (W),p99 GPU Energy Consumption (MJ),p99 GPU \
                Utilization (%),p99 GPU Memory Used (GB),Avg. GPU Power Limit (W),Avg. GPU Total \
                Memory (GB)";
    assert_eq!(lines[8], head);
    assert_eq!(lines[9], "mx_run_config_5,0,302.00,0.001000,,,700.00,");
    let columns = |line: &&str| line.split(',').count();
    assert!(lines[..7].iter().all(|line| columns(line) == 10), "{csv}");
    assert!(lines[8..].iter().all(|line| columns(line) == 8), "{csv}");
}

#[test]
fn the_sweep_names_the_best_and_those_that_none_beats() {
    let mut all = runs();
    let found = sweep::json(&all);
    fits("profile_export_aiperf_sweep.schema.json", &found);
    assert_eq!(
        found["best_configurations"]["best_throughput"]["parameters"]["concurrency"],
        64
    );
    assert_eq!(
        found["best_configurations"]["best_latency_p99"]["parameters"]["concurrency"],
        1
    );
    assert_eq!(found["pareto_optimal"].as_array().unwrap().len(), 6);
    let knee = &found["client"]["knees"][0];
    assert_eq!(
        (&knee["ttft_doubled_at"], &knee["slos_met_up_to"]),
        (&16.0.into(), &32.0.into())
    );
    assert!(knee["saturated_at"].is_null() && knee["is_reached"] == false);
    // One that is slower and no faster is beaten; one that failed is in no list.
    all.runs[1] = run(4, 0, 99.0, 400.0);
    all.runs[5].fault = Some("no request succeeded".into());
    let found = sweep::json(&all);
    fits("profile_export_aiperf_sweep.schema.json", &found);
    assert_eq!(found["pareto_optimal"].as_array().unwrap().len(), 4);
    assert_eq!(found["num_successful_runs"], 5);
    assert_eq!(found["failed_runs"][0]["error"], "no request succeeded");
    assert_eq!(
        found["per_combination_metrics"].as_array().unwrap().len(),
        5
    );
}

#[test]
fn a_run_without_a_metric_leaves_its_cells_blank() {
    let mut all = runs();
    all.runs[0].figures.0.remove(0);
    let csv = String::from_utf8(sweep::csv(&all)).unwrap();
    let mut reader = ::csv::ReaderBuilder::new().from_reader(csv.as_bytes());
    let head = reader.headers().unwrap().clone();
    let at = head
        .iter()
        .position(|name| name == "time_to_first_token_p99")
        .unwrap();
    let rows: Vec<::csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!((&rows[0][at], &rows[1][at]), ("", "48.1000"));
}

fn fits(name: &str, document: &serde_json::Value) {
    let path = format!("{}/schema/{name}", env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read_to_string(path).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let faults: Vec<String> = schema
        .iter_errors(document)
        .map(|e| e.to_string())
        .collect();
    assert!(faults.is_empty(), "{:.3000}", faults.join("\n"));
}
