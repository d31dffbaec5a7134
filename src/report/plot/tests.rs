use super::well_formed::xml_fault;
use super::*;
use crate::stats::{Columns, Row};
use serde_json::json;

const TAGS: [&str; 5] = [
    "input_sequence_length",
    "output_sequence_length",
    "time_to_first_token",
    "request_latency",
    "credit_to_start_latency",
];

/// A run whose requests have these values, in the order of the tags, and these gaps each.
fn run(name: &str, requests: &[[f64; 5]], gaps_ms: &[f64]) -> PlotRun {
    let mut columns = Columns::new(TAGS.map(|tag| (tag.to_string(), "ms".to_string())));
    let mut gaps = Gaps::default();
    for (index, values) in (0u64..).zip(requests) {
        let row = Row {
            index,
            start_ns: 1_700_000_000_000_000_000 + index * 20_000_000,
            end_ns: 1_700_000_001_000_000_000,
            is_valid: true,
        };
        columns.push(row, values);
        gaps.push(gaps_ms, Some(values[1]));
    }
    PlotRun {
        name: name.into(),
        detail: "a model · 50 requests/s".into(),
        rate_per_s: Some(50.0),
        columns,
        gaps,
    }
}

/// So many requests that are all different.
fn spread(name: &str, count: u32) -> PlotRun {
    let values = |n: u32| {
        let n = f64::from(n);
        let wave = 1.0 + (n * 0.7).sin();
        [
            200.0 + (n * 7.0) % 300.0,
            20.0 + n % 30.0,
            50.0 + 20.0 * wave,
            400.0 + 90.0 * wave,
            0.02,
        ]
    };
    let all: Vec<[f64; 5]> = (0..count).map(values).collect();
    run(name, &all, &[10.0, 12.0, 11.0])
}

/// Every plot is XML of a bounded length and a PNG of the right size.
fn check(drawn: &Drawn) {
    for picture in &drawn.pictures {
        let svg = String::from_utf8(picture.svg()).unwrap();
        assert_eq!(xml_fault(&svg), None, "{}", picture.name);
        assert!(
            svg.len() < 400_000,
            "{} has {} bytes",
            picture.name,
            svg.len()
        );
        assert!(
            !svg.contains("NaN") && !svg.contains("inf\""),
            "{}",
            picture.name
        );
        let png = picture.png().unwrap();
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        let size = [&png[16..20], &png[20..24]];
        assert_eq!(size, [&700u32.to_be_bytes()[..], &450u32.to_be_bytes()[..]]);
    }
}

fn names(drawn: &Drawn) -> Vec<&str> {
    drawn.pictures.iter().map(|picture| picture.name).collect()
}

const OF_ONE: [&str; 7] = [
    "time_to_first_token",
    "request_latency",
    "distribution_of_input_sequence_lengths_to_output_sequence_lengths",
    "time_to_first_token_vs_input_sequence_lengths",
    "token-to-token_latency_vs_output_token_position",
    "input_sequence_lengths",
    "dispatch_delay",
];

#[test]
fn one_value_equal_ones_and_decades_are_drawn() {
    let one = [64.0, 16.0, 50.0, 200.0, 0.01];
    let decades = [
        [1.0, 1.0, 0.001, 0.01, 0.0],
        [100_000.0, 9_000.0, 9e6, 9e7, 1e5],
    ];
    for theme in [Theme::Light, Theme::Dark] {
        for requests in [&[one][..], &[one; 30], &decades] {
            let drawn = of_runs(&[run("r", requests, &[10.0, 0.001, 5_000.0])], theme);
            assert_eq!(names(&drawn), OF_ONE);
            check(&drawn);
        }
    }
}

#[test]
fn hostile_values_and_names_are_no_plot_or_a_sound_one() {
    let huge = [f64::INFINITY, f64::NAN, -1.0, 1e300, f64::MAX];
    let edge = [1e12, 0.0, 1e12, f64::MIN_POSITIVE, 5e-324];
    let name = "a<b>&\"c\"\u{0}\u{7}\n".repeat(40);
    for requests in [&[huge][..], &[edge], &[huge, edge], &[edge, [1.0; 5]]] {
        let mut own = run(&name, requests, &[f64::NAN, -5.0, 1e300, 0.0, 1e12]);
        own.detail = name.clone();
        own.rate_per_s = Some(f64::MAX);
        check(&of_runs(&[own.clone()], Theme::Light));
        check(&of_runs(
            &[own.clone(), own.clone(), spread(&name, 3)],
            Theme::Light,
        ));
        check(&of_points(&[own.clone(), own], Theme::Light));
    }
}

#[test]
fn what_is_not_there_is_a_note_and_no_file() {
    let nothing = of_runs(&[PlotRun::default()], Theme::Light);
    assert_eq!(names(&nothing), [""; 0]);
    assert!(
        nothing
            .notes
            .iter()
            .any(|note| note.contains("no good request"))
    );
    let mut plain = spread("plain", 9);
    plain.columns = Columns::default();
    assert!(of_runs(&[plain], Theme::Light).pictures.len() < 2);
    // No stream: no first token in any request.
    let silent = [64.0, 16.0, f64::NAN, 200.0, f64::NAN];
    let mut own = run("r", &[silent; 5], &[]);
    own.rate_per_s = None;
    let drawn = of_runs(&[own], Theme::Light);
    assert_eq!(names(&drawn), [OF_ONE[1], OF_ONE[2], OF_ONE[5]]);
    let told: Vec<_> = drawn
        .notes
        .iter()
        .filter(|note| note.contains("streamed"))
        .collect();
    assert_eq!((told.len(), drawn.notes.len()), (1, 1));
}

#[test]
fn many_requests_become_cells_and_a_bounded_file() {
    let drawn = of_runs(&[spread("many", 30_000)], Theme::Light);
    check(&drawn);
    let svg = String::from_utf8(drawn.pictures[3].svg()).unwrap();
    assert!(
        svg.contains("30,000 requests: colours count"),
        "said on the plot"
    );
    assert_eq!(
        drawn,
        of_runs(&[spread("many", 30_000)], Theme::Light),
        "the same each time"
    );
}

#[test]
fn runs_are_laid_over_each_other() {
    let drawn = of_runs(&[spread("before", 90), spread("after", 40)], Theme::Light);
    let both = [OF_ONE[0], OF_ONE[1], OF_ONE[3], OF_ONE[4], OF_ONE[5]];
    assert_eq!(
        names(&drawn),
        [&both[..], &["time_to_first_token_histograms"]].concat()
    );
    check(&drawn);
    for picture in &drawn.pictures {
        let svg = String::from_utf8(picture.svg()).unwrap();
        assert!(
            svg.contains("before") && svg.contains("after"),
            "{}",
            picture.name
        );
    }
    let many: Vec<PlotRun> = (0..20).map(|n| spread(&format!("run {n}"), 5)).collect();
    check(&of_runs(&many, Theme::Light));
    assert_eq!(of_points(&many, Theme::Light).pictures.len(), 2);
}

fn sweep() -> serde_json::Value {
    let point = |(load, rate, ms): (f64, f64, f64)| {
        let metrics = json!({
            "output_token_throughput_avg": {"mean": rate},
            "time_to_first_token_p99": {"mean": ms},
        });
        json!({"parameters": {"concurrency": load}, "metrics": metrics})
    };
    let points = [(1.0, 100.0, 40.0), (4.0, 380.0, 50.0), (16.0, 700.0, 150.0)];
    let points: Vec<_> = points.into_iter().map(point).collect();
    json!({
        "metadata": {"sweep_parameters": [{"name": "concurrency"}], "model": "m<&\">"},
        "per_combination_metrics": points,
        "client": {
            "slos": ["p99(time_to_first_token)<100ms"],
            "points": [{"parameters": {"concurrency": 16.0}, "verdicts": ["INVALID"]}],
            "knees": [{"parameters": {}, "ttft_doubled_at": 16.0, "slos_met_up_to": 4.0}],
        },
    })
}

fn svg(picture: &Picture) -> String {
    String::from_utf8(picture.svg()).unwrap()
}

#[test]
fn a_sweep_has_its_three_points() {
    let picture = of_sweep(&sweep(), "sweep", Theme::Light).unwrap();
    let text = svg(&picture);
    for told in [
        "TTFT doubled: 16",
        "last within SLO: 4",
        "saturated: not reached",
        "INVALID",
        "m&lt;&amp;&quot;&gt;",
    ] {
        assert!(text.contains(told), "{told}");
    }
    check(&Drawn {
        pictures: vec![picture],
        notes: Vec::new(),
    });
    insta::assert_snapshot!(text);
}

#[test]
fn what_is_no_sweep_says_why() {
    let mut other = sweep();
    other["metadata"]["sweep_parameters"] = json!([{"name": "isl"}]);
    let why = of_sweep(&other, "sweep", Theme::Light).unwrap_err();
    assert!(why.contains("no load varies"), "{why}");
    for broken in [
        json!(null),
        json!({"per_combination_metrics": [7, {"metrics": []}]}),
    ] {
        of_sweep(&broken, "sweep", Theme::Light).unwrap_err();
    }
    let mut huge = sweep();
    huge["per_combination_metrics"][0]["metrics"]["time_to_first_token_p99"]["mean"] = 1e300.into();
    let picture = of_sweep(&huge, "sweep", Theme::Light).unwrap();
    assert_eq!(xml_fault(&svg(&picture)), None);
}

#[test]
fn a_box_plot_is_what_it_was() {
    let drawn = of_runs(&[spread("a<b", 4)], Theme::Light);
    insta::assert_snapshot!(svg(&drawn.pictures[0]));
}

#[test]
fn a_heat_map_is_what_it_was() {
    let drawn = of_runs(&[spread("heat", 6)], Theme::Dark);
    let text = svg(&drawn.pictures[2]);
    // The bar of colours is the same in each.
    let shown = text.lines().filter(|line| !line.contains("width=\"14\""));
    insta::assert_snapshot!(shown.collect::<Vec<_>>().join("\n"));
}
