use super::*;
use crate::config::{Objective, Planner, SearchAxis};

fn spec() -> SearchSpec {
    SearchSpec {
        recipe: Some("max-concurrency-under-sla".into()),
        planner: Planner::SmoothIsotonic,
        axis: SearchAxis::Concurrency,
        lo: 1.0,
        hi: 16.0,
        slas: vec!["time_to_first_token:p95:lt:90".into()],
        goodput: Vec::new(),
        tiers: Vec::new(),
        objective: Objective {
            tag: "output_token_throughput".into(),
            stat: "avg".into(),
            is_maximized: true,
        },
        requests: Some(1_000),
        iterations_max: 6,
        replicates: None,
        seed: None,
    }
}

/// AIPerf's own search of the golden file.
fn golden() -> Search {
    let objectives = [
        72.463_467_556_350_76,
        205.825_361_202_530_56,
        420.002_097_018_689_3,
        789.903_430_768_707_4,
        587.904_427_434_334_9,
    ];
    let loads = [1.0, 2.0, 4.0, 8.0, 16.0];
    let iteration = |(value, objective): (f64, f64)| Iteration {
        tier: 0,
        value,
        visit: 0,
        is_replicate: false,
        observed: vec![Some(40.0 + value)],
        objective: Some(objective),
        is_feasible: true,
        is_non_monotonic: false,
        diagnosis: None,
    };
    Search {
        iterations: loads.into_iter().zip(objectives).map(iteration).collect(),
        tiers: vec![Tier {
            label: None,
            gates: vec![Gate::of_sla("time_to_first_token:p95:lt:90").unwrap()],
            feasible_max: Some(Bound {
                value: 16.0,
                iteration: 4,
                objective: Some(587.904_427_434_334_9),
            }),
            infeasible_min: None,
            interval: None,
            reason: Reason::SmoothNoFailure,
        }],
        best: Some(3),
    }
}

/// One with a boundary and its interval.
fn bounded() -> Search {
    let mut search = golden();
    for at in [3, 4, 4] {
        let mut again = search.iterations[at].clone();
        again.visit += 1;
        again.is_replicate = true;
        search.iterations.push(again);
    }
    search.iterations[4].is_feasible = false;
    search.iterations[5].is_non_monotonic = true;
    search.iterations[6].observed = vec![None];
    search.iterations[6].diagnosis = Some("the run failed".into());
    let tier = &mut search.tiers[0];
    tier.infeasible_min = tier.feasible_max;
    tier.feasible_max = Some(Bound {
        value: 8.0,
        iteration: 3,
        objective: None,
    });
    tier.interval = Some(LoadInterval {
        low: Some(8.0),
        high: Some(16.0),
        estimate: Some(13.17),
        confidence: 0.95,
        noise_ratio: 0.034,
        freedom: 3,
    });
    tier.reason = Reason::SmoothPrecision;
    search
}

#[test]
fn the_history_of_aiperfs_search_is_aiperfs_file() {
    let mut found = json(&golden(), &spec());
    found.as_object_mut().unwrap().shift_remove("client");
    // AIPerf's own file: data/golden/aiperf/search_history.json of the references.
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/search_history.json"
    );
    let golden = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        serde_json::to_string_pretty(&found).unwrap(),
        golden.trim_end()
    );
}

#[test]
fn the_history_fits_its_schema() {
    let schema = include_str!("../../schema/search_history.schema.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut rate = spec();
    rate.axis = SearchAxis::RequestRate;
    rate.recipe = None;
    rate.seed = Some(7);
    let empty = Search {
        iterations: Vec::new(),
        tiers: Vec::new(),
        best: None,
    };
    for (search, spec) in [
        (golden(), spec()),
        (bounded(), spec()),
        (bounded(), rate.clone()),
        (empty, rate),
    ] {
        let document = json(&search, &spec);
        let faults: Vec<String> = validator
            .iter_errors(&document)
            .map(|e| e.to_string())
            .collect();
        assert!(faults.is_empty(), "{faults:?}");
    }
}

#[test]
fn the_screen_says_where_the_boundary_lies_and_how_sure() {
    insta::assert_snapshot!("search_bounded", text(&bounded(), &spec()));
    insta::assert_snapshot!("search_golden", text(&golden(), &spec()));
}

#[test]
fn an_open_end_is_told() {
    let mut search = bounded();
    let shown = |search: &Search| text(search, &spec());
    search.tiers[0].interval.as_mut().unwrap().high = None;
    assert!(shown(&search).contains("at 8 or above; no load failed for sure"));
    search.tiers[0].interval.as_mut().unwrap().low = None;
    assert!(shown(&search).contains("anywhere"));
    search.tiers[0].interval.as_mut().unwrap().high = Some(2.0);
    search.tiers[0].reason = Reason::MaxIterations;
    assert!(shown(&search).contains("below 2; no load held for sure"));
    assert!(shown(&search).contains("--search-max-iterations"));
}
