use super::super::grids::pairs;
use super::*;
use serde_json::{Value, json};

fn draft(settings: Value) -> SearchDraft {
    serde_json::from_value(settings).unwrap()
}

fn of(settings: Value) -> Result<Option<Expanded>, ConfigError> {
    draft(settings).check(RunGiven::default())
}

fn spec(settings: Value) -> (SearchSpec, Vec<String>) {
    let found = of(settings.clone()).unwrap().unwrap();
    match found.expansion {
        Expansion::Search(spec) => (spec, found.notes),
        Expansion::Grid { .. } => panic!("{settings} is a grid"),
    }
}

fn grid(settings: Value) -> (Vec<(&'static str, Vec<f64>)>, bool, PostProcess) {
    match of(settings.clone()).unwrap().unwrap().expansion {
        Expansion::Grid {
            axes, zip, post, ..
        } => (axes, zip, post),
        Expansion::Search(_) => panic!("{settings} is a search"),
    }
}

#[test]
fn the_recipe_of_aiperfs_golden_file_is_its_search() {
    let (spec, notes) = spec(json!({
        "search_recipe": "max-concurrency-under-sla", "ttft_sla_ms": 90, "concurrency_max": 16,
        "search_max_iterations": 6, "tpot_sla_ms": 30, "e2e_sla_ms": 900, "error_rate_sla": 0.05
    }));
    assert_eq!(
        spec.slas,
        [
            "time_to_first_token:p95:lt:90",
            "inter_token_latency:p95:lt:30",
            "request_latency:p99:lt:900",
            "request_error_rate:avg:lt:5",
        ]
    );
    assert_eq!((spec.lo, spec.hi, spec.iterations_max), (1.0, 16.0, 6));
    assert_eq!(
        (spec.objective.tag.as_str(), spec.requests),
        ("output_token_throughput", Some(1_000))
    );
    assert_eq!(spec.planner, Planner::SmoothIsotonic);
    assert!(notes.is_empty());
}

#[test]
fn a_search_of_ours_has_a_setting_a_range_and_conditions() {
    let (spec, _) =
        spec(json!({"search": "request_rate:2:64.5", "search_sla": ["p99(ttft)<500ms"]}));
    assert_eq!(
        (spec.axis, spec.lo, spec.hi),
        (SearchAxis::RequestRate, 2.0, 64.5)
    );
    assert_eq!(spec.slas, ["p99(ttft)<500ms"]);
    let (spec, _) = self::spec(json!({
        "search_space": "phases.profiling.concurrency:4,32:int", "ttft_sla_ms": 1,
        "sla_precision": "coarse", "search_planner": "monotonic_sla", "sla_replicates": 5
    }));
    assert_eq!((spec.lo, spec.hi, spec.requests), (4.0, 32.0, Some(300)));
    assert_eq!(
        (spec.planner, spec.replicates),
        (Planner::MonotonicSla, Some(5))
    );
}

#[test]
fn what_ends_a_run_ends_a_probe() {
    let settings = draft(json!({"search": "concurrency", "ttft_sla_ms": 5}));
    for (request_count, duration, requests) in [
        (false, false, Some(1_000)),
        (true, false, None),
        (false, true, None),
    ] {
        let given = RunGiven {
            request_count,
            duration,
            ..RunGiven::default()
        };
        let found = settings.check(given).unwrap().unwrap();
        let Expansion::Search(spec) = found.expansion else {
            panic!("no search");
        };
        assert_eq!(spec.requests, requests);
    }
}

#[test]
fn other_planners_are_run_by_ours_and_told() {
    for (key, name) in [
        ("search_planner", "bayesian"),
        ("search_planner", "optuna"),
        ("search_style", "bo"),
    ] {
        let (spec, notes) = spec(json!({"search": "concurrency", "ttft_sla_ms": 5, key: name}));
        assert_eq!(spec.planner, Planner::SmoothIsotonic);
        assert!(notes[0].contains("smooth_isotonic"), "{notes:?}");
    }
    let (axes, _, post) = grid(json!({
        "search_recipe": "max-concurrency-under-sla", "search_style": "grid", "ttft_sla_ms": 5,
        "concurrency_max": 10
    }));
    assert_eq!(axes, [("concurrency", vec![1.0, 2.0, 4.0, 8.0, 10.0])]);
    assert_eq!(
        post,
        PostProcess::Feasible(vec!["time_to_first_token:p95:lt:5".into()])
    );
}

#[test]
fn goodput_makes_its_limits_those_of_each_request() {
    let (spec, _) = spec(json!({"search_recipe": "max-goodput-under-slo", "ttft_sla_ms": 200}));
    assert_eq!(spec.slas, ["good_request_fraction:avg:ge:0.95"]);
    assert_eq!(spec.goodput[0].tag, "time_to_first_token");
    assert_eq!(spec.objective.tag, "goodput");
}

#[test]
fn grids_have_aiperfs_steps() {
    let (axes, zip, post) = grid(json!({"search_recipe": "concurrency-ramp"}));
    let loads = vec![1.0, 3.0, 7.0, 19.0, 52.0, 139.0, 373.0, 1_000.0];
    assert_eq!((axes, zip), (vec![("concurrency", loads)], false));
    let (tag, stat) = ("request_latency".into(), "p99".into());
    assert_eq!(
        post,
        PostProcess::Knee {
            tag,
            stat,
            threshold: 0.2
        }
    );
    let (axes, ..) =
        grid(json!({"search_recipe": "prefill-ttft-curve", "isl_max": 1024, "isl_steps": 3}));
    assert_eq!(axes, [("isl", vec![256.0, 512.0, 1_024.0])]);
    let (axes, ..) = grid(json!({"search_recipe": "decode-itl-curve"}));
    assert_eq!((axes[0].1.len(), axes[1].1.len()), (4, 6));
    let (axes, zip, _) = grid(json!({"search_recipe": "pareto-sweep", "isl_osl_pairs": "8/4,9/5"}));
    assert!(zip && axes.iter().all(|axis| axis.1.len() == 10));
    assert_eq!((axes[0].1[5], axes[1].1[5], axes[2].1[5]), (9.0, 5.0, 1.0));
    for text in ["8:4 9:5", "8,4;9,5", "8x4, 9x5"] {
        assert_eq!(pairs(text).unwrap(), [(8.0, 4.0), (9.0, 5.0)], "{text}");
    }
}

/// Each of these settings is refused by a line with this text.
fn refused(all: &[(Value, &str)]) {
    for (settings, told) in all {
        let error = of(settings.clone()).unwrap_err().to_string();
        assert!(error.contains(told), "{settings}: {error}");
    }
}

#[test]
fn a_search_that_cannot_be_is_told_by_its_flag() {
    refused(&[
        (
            json!({"search": "concurrency"}),
            "--search-sla: a search needs",
        ),
        (
            json!({"search": "isl", "ttft_sla_ms": 5}),
            "--search: `isl`",
        ),
        (
            json!({"search": "concurrency:8:2", "ttft_sla_ms": 5}),
            "--search: from 8 to 2",
        ),
        (
            json!({"search": "concurrency:0.5:2", "ttft_sla_ms": 5}),
            "--search: from",
        ),
        (
            json!({"search": "concurrency:x:2", "ttft_sla_ms": 5}),
            "--search: `concurrency:x:2`",
        ),
        (json!({"ttft_sla_ms": 5}), "--search: settings of a search"),
        (json!({"search_recipe": "best"}), "--search-recipe: `best`"),
        (
            json!({"search_recipe": "max-throughput-ttft-sla"}),
            "needs --ttft-sla-ms",
        ),
        (
            json!({"search_recipe": "max-throughput-itl-sla", "ttft_sla_ms": 1}),
            "--itl-sla-ms",
        ),
        (
            json!({"search_recipe": "max-goodput-under-slo"}),
            "what makes a request good",
        ),
        (
            json!({"search": "concurrency", "search_recipe": "pareto-sweep"}),
            "one of both",
        ),
        (
            json!({"search_space": ["concurrency:1,2", "isl:1,2"]}),
            "one setting",
        ),
    ]);
    assert_eq!(of(json!({})), Ok(None));
}

#[test]
fn a_value_that_cannot_be_is_told_by_its_flag() {
    refused(&[
        (
            json!({"search": "concurrency", "ttft_sla_ms": 0}),
            "--ttft-sla-ms",
        ),
        (
            json!({"search": "concurrency", "error_rate_sla": 1}),
            "--error-rate-sla",
        ),
        (
            json!({"search": "concurrency", "search_max_iterations": 1}),
            "--search-max-iterations",
        ),
        (
            json!({"search": "concurrency", "ttft_sla_ms": 1, "search_planner": "x"}),
            "planner: `x`",
        ),
        (
            json!({"search": "concurrency", "ttft_sla_ms": 1, "sla_precision": "x"}),
            "precision",
        ),
        (
            json!({"search": "concurrency", "search_sla_tier": "gold"}),
            "--search-sla-tier",
        ),
        (
            json!({"search_recipe": "concurrency-ramp", "concurrency_max": 1}),
            "--concurrency-max",
        ),
        (
            json!({"search_recipe": "concurrency-ramp", "search_planner": "optuna"}),
            "is a grid",
        ),
        (
            json!({"search_recipe": "pareto-sweep", "isl_osl_pairs": "8"}),
            "--isl-osl-pairs",
        ),
    ]);
}

#[test]
fn tiers_have_names_and_conditions() {
    let (spec, _) = spec(json!({
        "search": "concurrency",
        "search_sla_tier": ["gold:ttft:p95:lt:100, itl:p95:lt:5", "bronze:ttft:p95:lt:500"]
    }));
    assert_eq!(spec.tiers[0].label, "gold");
    assert_eq!(spec.tiers[0].slas, ["ttft:p95:lt:100", "itl:p95:lt:5"]);
    assert_eq!(spec.tiers.len(), 2);
}

#[test]
fn a_load_between_two_is_whole_or_has_few_digits() {
    let (mut spec, _) = spec(json!({"search": "concurrency", "ttft_sla_ms": 5}));
    assert_eq!(spec.between(8.0, 16.0, 13.17), Some(13.0));
    assert_eq!(spec.between(8.0, 16.0, 8.1), Some(9.0));
    assert_eq!(spec.between(8.0, 16.0, 99.0), Some(15.0));
    assert_eq!(spec.between(1.0, 2.0, 1.5), None);
    assert!(spec.is_close(100.0, 101.0, 0.001) && !spec.is_close(8.0, 16.0, 0.05));
    spec.axis = SearchAxis::RequestRate;
    assert_eq!(spec.between(8.0, 16.0, 13.173_345), Some(13.17));
    assert!(!spec.is_close(1.0, 2.0, 0.05) && spec.is_close(0.98, 1.0, 0.05));
}
