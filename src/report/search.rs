//! A search on screen and as `search_history.json`: AIPerf's keys, ours under `client`.

use crate::config::SearchSpec;
use crate::stats::gate::{Gate, Op, with_unit};
use crate::stats::search::{Bound, Iteration, LoadInterval, Reason, Search, Tier};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Version of what stands under `client`.
pub const SCHEMA_VERSION: &str = "1.0";
/// Name of the file.
pub const FILE: &str = "search_history.json";

/// The document; `schema/search_history.schema.json` is its schema.
pub fn json(search: &Search, spec: &SearchSpec) -> Value {
    let first = search.tiers.first();
    let indexed = search.iterations.iter().enumerate();
    json!({
        "config": config(search, spec),
        "iterations": indexed.clone().map(|(at, i)| iteration(at, i, spec)).collect::<Vec<_>>(),
        "best_trials": best(search, spec),
        "boundary_summary": {
            "swept_dim_path": spec.axis.path(),
            "feasible_max": bound(first.and_then(|tier| tier.feasible_max), spec),
            "infeasible_min": bound(first.and_then(|tier| tier.infeasible_min), spec),
        },
        "recipe": spec.recipe,
        "convergence_reason": search.reason(),
        "client": {
            "schema_version": SCHEMA_VERSION,
            "tokenring_version": env!("CARGO_PKG_VERSION"),
            "parameter": spec.axis.name(),
            "requests_per_run": spec.requests,
            "tiers": search.tiers.iter().map(|one| tier(one, spec)).collect::<Vec<_>>(),
            "runs": indexed.map(|(at, i)| run(at, i, search, spec)).collect::<Vec<_>>(),
        },
    })
}

fn config(search: &Search, spec: &SearchSpec) -> Value {
    let gates = search.tiers.first().map_or(&[][..], |tier| &tier.gates);
    let direction = if spec.objective.is_maximized {
        "MAXIMIZE"
    } else {
        "MINIMIZE"
    };
    let kind = if spec.axis.is_whole() { "int" } else { "float" };
    json!({
        "planner": spec.planner.name(),
        "objectives": [{
            "metric": spec.objective.tag,
            "stat": spec.objective.stat,
            "direction": direction,
            "threshold": null,
        }],
        "outcome_constraints": [],
        "max_iterations": spec.iterations_max,
        // Of AIPerf's Bayesian planner; no planner here reads them.
        "n_initial_points": 1,
        "random_seed": spec.seed,
        "improvement_patience": 10,
        "plateau_window": 8,
        "plateau_threshold": 0.01,
        "search_space": [{
            "path": spec.axis.path(),
            "lo": spec.lo,
            "hi": spec.hi,
            "kind": kind,
        }],
        "sla_filters": gates.iter().map(filter).collect::<Vec<_>>(),
    })
}

fn filter(gate: &Gate) -> Value {
    let op = match gate.op {
        Op::Below => "lt",
        Op::AtMost => "le",
        Op::Above => "gt",
        Op::AtLeast => "ge",
    };
    json!({
        "metric_tag": gate.tag,
        "stat": gate.stat,
        "op": op,
        "threshold": gate.threshold(),
    })
}

/// A load; a whole one has no point.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole, and no larger than a million"
)]
fn load(value: f64, spec: &SearchSpec) -> Value {
    match spec.axis.is_whole() && value.fract() == 0.0 {
        true => json!(value as u64),
        false => json!(value),
    }
}

fn values(value: f64, spec: &SearchSpec) -> Value {
    Value::Object(Map::from_iter([(
        spec.axis.path().to_string(),
        load(value, spec),
    )]))
}

fn iteration(index: usize, iteration: &Iteration, spec: &SearchSpec) -> Value {
    json!({
        "iteration_idx": index,
        "variation_values": values(iteration.value, spec),
        "objective_values": [iteration.objective],
        "feasible": iteration.is_feasible,
        "non_monotonic_warning": iteration.is_non_monotonic,
    })
}

fn best(search: &Search, spec: &SearchSpec) -> Vec<Value> {
    let Some((index, iteration)) = search
        .best
        .and_then(|at| Some((at, search.iterations.get(at)?)))
    else {
        return Vec::new();
    };
    vec![json!({
        "iteration_idx": index,
        "objective_values": [iteration.objective],
        "variation_values": values(iteration.value, spec),
        "feasible": iteration.is_feasible,
        "feasible_count": search.feasible_count(),
        "pareto_rank": 0,
    })]
}

fn bound(bound: Option<Bound>, spec: &SearchSpec) -> Value {
    let Some(bound) = bound else {
        return Value::Null;
    };
    json!({
        "value": load(bound.value, spec),
        "iteration_idx": bound.iteration,
        "objective_value": bound.objective,
    })
}

fn tier(tier: &Tier, spec: &SearchSpec) -> Value {
    json!({
        "label": tier.label,
        "conditions": tier.gates.iter().map(Gate::to_string).collect::<Vec<_>>(),
        "feasible_max": bound(tier.feasible_max, spec),
        "infeasible_min": bound(tier.infeasible_min, spec),
        "convergence_reason": tier.reason.name(),
        "interval": tier.interval.as_ref().map(|found| interval(found, spec)),
    })
}

fn interval(found: &LoadInterval, spec: &SearchSpec) -> Value {
    json!({
        "low": found.low.map(|value| load(value, spec)),
        "high": found.high.map(|value| load(value, spec)),
        "estimate": found.estimate,
        "confidence": found.confidence,
        "method": "likelihood ratio of isotonic fits",
        "noise_ratio": found.noise_ratio,
        "degrees_of_freedom": found.freedom,
    })
}

fn run(index: usize, iteration: &Iteration, search: &Search, spec: &SearchSpec) -> Value {
    let gates = search
        .tiers
        .get(iteration.tier)
        .map_or(&[][..], |tier| &tier.gates);
    let seen = gates.iter().zip(&iteration.observed);
    let seen: Map<String, Value> = seen
        .map(|(gate, value)| (gate.subject(), json!(value)))
        .collect();
    json!({
        "iteration_idx": index,
        "value": load(iteration.value, spec),
        "tier": iteration.tier,
        "visit": iteration.visit,
        "is_replicate": iteration.is_replicate,
        "observed": seen,
        "diagnosis": iteration.diagnosis,
    })
}

/// What was found, in words and a line for each load; without colour, 100 columns at most but for
/// long conditions.
pub fn text(search: &Search, spec: &SearchSpec) -> String {
    let number = |value: f64| with_unit(value, "");
    let runs = search.iterations.len();
    let mut out = format!(
        "Search | {} {} to {} | {} | {runs} runs\n",
        spec.axis.name(),
        number(spec.lo),
        number(spec.hi),
        spec.planner.name(),
    );
    for (index, tier) in search.tiers.iter().enumerate() {
        out.push('\n');
        if let Some(label) = &tier.label {
            let _ = writeln!(out, "{label}");
        }
        for gate in &tier.gates {
            let _ = writeln!(out, "  {gate}");
        }
        out.push_str(&rows(search, index, tier));
        out.push_str(&boundary(tier, spec));
    }
    if let Some((at, best)) = search
        .best
        .and_then(|at| Some((at, search.iterations.get(at)?)))
    {
        let objective = &spec.objective;
        let value = best
            .objective
            .map_or("-".into(), |value| format!("{value:.2}"));
        let _ = writeln!(
            out,
            "\nBest by {}({}): {value} at {} (run {})",
            objective.stat,
            objective.tag,
            number(best.value),
            at + 1,
        );
    }
    let _ = writeln!(out, "Ended: {}", search.reason());
    out
}

/// A line for each load that the tier asked for, by rising load.
fn rows(search: &Search, index: usize, tier: &Tier) -> String {
    let mut loads: Vec<f64> = search.iterations.iter().map(|i| i.value).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let subjects: Vec<String> = tier.gates.iter().map(Gate::subject).collect();
    let mut out = format!("{:>10} {:>5} {:>6}", "load", "runs", "held");
    for subject in &subjects {
        let _ = write!(out, "  {subject:>14}");
    }
    out.push('\n');
    for value in loads {
        let of = |i: &&Iteration| i.value == value && i.tier == index;
        let all: Vec<&Iteration> = search.iterations.iter().filter(of).collect();
        if all.is_empty() {
            continue;
        }
        let held = all.iter().filter(|i| i.is_feasible).count();
        let _ = write!(
            out,
            "{:>10} {:>5} {held:>6}",
            with_unit(value, ""),
            all.len()
        );
        for (at, subject) in subjects.iter().enumerate() {
            let seen = all
                .iter()
                .filter_map(|i| i.observed.get(at).copied().flatten());
            let (sum, count) = seen.fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
            let mean = if count > 0.0 {
                format!("{:.2}", sum / count)
            } else {
                "-".into()
            };
            let width = subject.len().max(14);
            let _ = write!(out, "  {mean:>width$}");
        }
        if let Some(why) = all.iter().find_map(|i| i.diagnosis.as_deref()) {
            let _ = write!(out, "  {why}");
        }
        out.push('\n');
    }
    out
}

/// The boundary and how sure it is, in sentences.
fn boundary(tier: &Tier, spec: &SearchSpec) -> String {
    let unit = match spec.axis.is_whole() {
        true => "",
        false => "requests/sec",
    };
    let shown = |value: f64| with_unit(value, unit);
    let mut out = match (tier.feasible_max, tier.infeasible_min) {
        (Some(low), Some(high)) => format!(
            "A run held at {}, none at {}\n",
            shown(low.value),
            shown(high.value)
        ),
        (Some(low), None) => format!("A run held at every load up to {}\n", shown(low.value)),
        (None, Some(high)) => format!("No run held, from {} on\n", shown(high.value)),
        (None, None) => "No load was tried\n".into(),
    };
    let Some(found) = &tier.interval else {
        if tier.feasible_max.is_some() || tier.infeasible_min.is_some() {
            out.push_str("No load was repeated: how sure that is, is not known\n");
        }
        return out;
    };
    let percent = 100.0 * found.confidence;
    let place = match (found.low, found.high) {
        (Some(low), Some(high)) => format!("between {} and {}", shown(low), shown(high)),
        (Some(low), None) => format!("at {} or above; no load failed for sure", shown(low)),
        (None, Some(high)) => format!("below {}; no load held for sure", shown(high)),
        (None, None) => "anywhere: the noise hides it".into(),
    };
    let _ = write!(
        out,
        "The boundary lies, with {percent:.0} % confidence, {place}"
    );
    if let Some(estimate) = found.estimate {
        let _ = write!(out, "; most likely at {estimate:.1}");
    }
    let _ = writeln!(
        out,
        "\nRuns of one load differ by {:.1} % of the limit (standard deviation, {} repeats)",
        100.0 * found.noise_ratio,
        found.freedom
    );
    if tier.reason == Reason::MaxIterations {
        out.push_str("No run was left: --search-max-iterations allows more\n");
    }
    out
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
