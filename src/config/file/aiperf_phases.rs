//! Phases and sweeps of AIPerf's files.
//!
//! One measurement, and a warm-up that says all that it would take from it, become flags, so that
//! the command line can change them; anything else becomes `phases`.

use super::paths::{As, Out, Row, To, snake};
use super::tree::{Fault, Node};
use serde_json::{Map, Value};

use As::{It, Seconds, Text};
use To::{Code, Flag, Ignored, Nothing, Refused};

const ADAPTIVE: &str = "analyze --search finds the load";
const AGENTIC: &str = "agentic traces are not replayed; leave it out";

/// Of a phase; flags of a measurement.
#[rustfmt::skip]
const PHASE: &[Row] = &[
    ("adaptive_scale", Refused(ADAPTIVE, None)),
    ("auto_offset", Flag("fixed-schedule-auto-offset", It, None)),
    ("burst_phase_starts", Refused(AGENTIC, Some("false"))),
    ("cancellation.delay", Flag("request-cancellation-delay", Seconds, Some("0"))),
    ("cancellation.rate", Flag("request-cancellation-rate", It, None)),
    ("concurrency", Flag("concurrency", It, None)),
    ("concurrency_ramp", Code(concurrency_ramp)),
    ("duration", Flag("benchmark-duration", Seconds, None)),
    ("end_offset", Flag("fixed-schedule-end-offset", It, None)),
    ("exclude_from_results", Nothing),
    ("failed_request_threshold", Flag("failed-request-threshold", It, None)),
    ("grace_period", Flag("benchmark-grace-period", Seconds, None)),
    ("kind", Nothing),
    ("name", Nothing),
    ("prefill_concurrency", Flag("prefill-concurrency", It, None)),
    ("prefill_ramp", Code(prefill_ramp)),
    ("rate", Flag("request-rate", It, None)),
    ("rate_ramp", Code(rate_ramp)),
    ("rate_series", Flag("request-rate-series", Text, None)),
    ("rate_series.path", Flag("request-rate-series", Text, None)),
    ("rate_series.points", Refused("write the points into a file, and give its path", None)),
    ("requests", Flag("request-count", It, None)),
    ("seamless", Ignored("a measurement takes the slots of its warm-up over", Some("true"))),
    ("sessions", Flag("num-sessions", It, None)),
    ("sla", Refused(ADAPTIVE, None)),
    ("smoothness", Flag("arrival-smoothness", It, None)),
    ("start_offset", Flag("fixed-schedule-start-offset", It, None)),
    ("system_idle_gap_cap_seconds", Refused(AGENTIC, None)),
    ("timing_mode", Ignored("the phase's type says it", None)),
    ("trajectory_start_max_ratio", Refused(AGENTIC, Some("0.75"))),
    ("trajectory_start_min_ratio", Refused(AGENTIC, Some("0.25"))),
    ("type", Code(kind_of_load)),
    ("users", Flag("num-users", It, None)),
];

#[cfg(test)]
pub(super) const TABLES: &[&[Row]] = &[PHASE];

/// `phases`: a list or one. They are read together by [`arrange`].
pub(super) fn list(node: &Node, out: &mut Out) -> Result<(), Fault> {
    match node.items().iter().all(Node::is_map) {
        true => Ok(()),
        false => Err(out.fault(node, "give a list of phases")),
    }
}

/// `warmup` or `profiling`.
pub(super) fn one(node: &Node, out: &mut Out) -> Result<(), Fault> {
    match node.is_map() {
        true => Ok(()),
        false => Err(out.fault(node, "give a phase: type, and what it takes")),
    }
}

fn ramp(node: &Node, out: &mut Out, flag: &str) -> Result<(), Fault> {
    let Some(duration) = node.get("duration") else {
        return out.give_as(node, flag, Seconds);
    };
    let shape = node.get("strategy").or(node.get("type"));
    if let Some(shape) = shape.filter(|shape| shape.as_str() != Some("linear"))
        && !out.given.iter().any(|given| given.flag == "ramp-shape")
    {
        out.give_as(shape, "ramp-shape", It)?;
    }
    out.give_as(duration, flag, Seconds)
}

fn concurrency_ramp(node: &Node, out: &mut Out) -> Result<(), Fault> {
    ramp(node, out, "concurrency-ramp-duration")
}

fn prefill_ramp(node: &Node, out: &mut Out) -> Result<(), Fault> {
    ramp(node, out, "prefill-concurrency-ramp-duration")
}

fn rate_ramp(node: &Node, out: &mut Out) -> Result<(), Fault> {
    ramp(node, out, "request-rate-ramp-duration")
}

fn kind_of_load(node: &Node, out: &mut Out) -> Result<(), Fault> {
    match node.as_str() {
        Some("concurrency" | "user_centric") => Ok(()),
        Some(law @ ("poisson" | "gamma" | "constant")) => {
            out.give(node, "arrival-pattern", law);
            Ok(())
        }
        Some("fixed_schedule") => {
            out.give(node, "fixed-schedule", true);
            Ok(())
        }
        _ => Err(out.fault(
            node,
            "give concurrency, poisson, gamma, constant, user_centric or fixed_schedule",
        )),
    }
}

/// A phase as flags of a measurement.
struct Phase<'a> {
    node: &'a Node,
    name: String,
    is_warmup: bool,
    out: Out,
}

/// Flags of a measurement that a warm-up takes over where it has none of its own.
const INHERITED: [&str; 7] = [
    "arrival-pattern",
    "concurrency",
    "concurrency-ramp-duration",
    "prefill-concurrency",
    "prefill-concurrency-ramp-duration",
    "request-rate",
    "request-rate-ramp-duration",
];

/// The same of a warm-up, where that has a flag.
fn of_warmup(flag: &str) -> Option<String> {
    match flag {
        "request-count" => Some("warmup-request-count".into()),
        "num-sessions" => Some("num-warmup-sessions".into()),
        "benchmark-duration" => Some("warmup-duration".into()),
        flag if INHERITED.contains(&flag) => Some(format!("warmup-{flag}")),
        _ => None,
    }
}

/// Flags that are the run's, whichever phase says them.
const OF_THE_RUN: [&str; 8] = [
    "failed-request-threshold",
    "fixed-schedule",
    "fixed-schedule-auto-offset",
    "fixed-schedule-end-offset",
    "fixed-schedule-start-offset",
    "ramp-shape",
    "request-cancellation-delay",
    "request-cancellation-rate",
];

/// Puts the phases of a file into its settings.
pub(super) fn arrange(root: &Node, out: &mut Out) -> Result<(), Fault> {
    let mut phases = Vec::new();
    for (place, is_list) in [("warmup", false), ("profiling", false), ("phases", true)] {
        let Some(node) = root.get(place) else {
            continue;
        };
        for (index, node) in node.items().iter().enumerate() {
            let path = if is_list {
                format!("phases[{index}]")
            } else {
                place.to_string()
            };
            phases.push(phase(node, place, path)?);
        }
    }
    let is_simple = match &phases[..] {
        [] => return Ok(()),
        [one] => !one.is_warmup,
        [warmup, main] => warmup.is_warmup && !main.is_warmup && can_be_flags(warmup, main),
        _ => false,
    };
    match is_simple {
        true => as_flags(phases, out),
        false => as_phases(phases, out),
    }
    Ok(())
}

fn phase<'a>(node: &'a Node, place: &str, path: String) -> Result<Phase<'a>, Fault> {
    let name = node.get("name").and_then(Node::typed);
    let word = |name: &str| {
        let member = node.members().iter().find(|(key, _)| snake(key) == name);
        member.map(|(_, node)| node)
    };
    let kind = node.get("kind").and_then(Node::typed);
    let kind = kind
        .or_else(|| name.clone())
        .unwrap_or_else(|| place.to_string());
    let is_left_out = word("exclude_from_results").and_then(Node::as_bool) == Some(true);
    let mut out = Out {
        path,
        ..Out::default()
    };
    out.walk(node, PHASE, "")?;
    // Of users, the rate is theirs together.
    if node.get("type").and_then(Node::as_str) == Some("user_centric") {
        let rates = out
            .given
            .iter_mut()
            .filter(|given| given.flag == "request-rate");
        rates.for_each(|given| given.flag = "user-centric-rate".into());
    }
    let is_warmup = kind == "warmup" || is_left_out;
    let usual = if is_warmup { "warmup" } else { "profiling" };
    Ok(Phase {
        node,
        name: name.unwrap_or_else(|| usual.into()),
        is_warmup,
        out,
    })
}

fn can_be_flags(warmup: &Phase, main: &Phase) -> bool {
    let has = |phase: &Phase, flag: &str| phase.out.given.iter().any(|given| given.flag == flag);
    let is_own = |flag: &&str| has(warmup, flag) || !has(main, flag) || **flag == *"concurrency";
    let mut flags = warmup.out.given.iter().map(|given| &*given.flag);
    flags.all(|flag| of_warmup(flag).is_some()) && INHERITED.iter().all(is_own)
}

fn as_flags(phases: Vec<Phase>, out: &mut Out) {
    for phase in phases {
        let has = |flag: &str| phase.out.given.iter().any(|given| given.flag == flag);
        // AIPerf's default, which a flag would take from the measurement.
        if phase.is_warmup && !has("concurrency") && !has("request-rate") {
            out.give(phase.node, "warmup-concurrency", 1);
        }
        for mut given in phase.out.given {
            if let Some(flag) = of_warmup(&given.flag).filter(|_| phase.is_warmup) {
                given.flag = flag;
            }
            out.given.push(given);
        }
    }
}

fn as_phases(phases: Vec<Phase>, out: &mut Out) {
    let mut list = Vec::new();
    let first = phases[0].node;
    for phase in phases {
        let kind = if phase.is_warmup {
            "warmup"
        } else {
            "profiling"
        };
        let mut made: Map<String, Value> = Map::new();
        made.insert("name".into(), phase.name.into());
        made.insert("kind".into(), kind.into());
        for given in phase.out.given {
            let is_run = OF_THE_RUN.contains(&&*given.flag) && given.flag != "ramp-shape";
            match is_run || given.flag.starts_with(super::paths::NOTE) {
                true => out.given.push(given),
                false => {
                    made.insert(given.flag.replace('-', "_"), given.value);
                }
            }
        }
        list.push(Value::Object(made));
    }
    out.path = "phases".into();
    out.give(first, "phases", list);
    out.path.clear();
}

/// `sweep`: lists become lists of flags, a search becomes one.
pub(super) fn sweep(node: &Node, out: &mut Out) -> Result<(), Fault> {
    #[rustfmt::skip]
    const SWEEP: &[Row] = &[
        ("cooldown_seconds", Flag("parameter-sweep-cooldown-seconds", It, Some("0"))),
        ("improvement_patience", Ignored("a search ends by its interval", Some("10"))),
        ("iteration_order", Flag("parameter-sweep-mode", It, None)),
        ("max_iterations", Flag("search-max-iterations", It, None)),
        ("objectives", Code(objectives)),
        ("parameters", Code(parameters)),
        ("planner", Flag("search-planner", It, None)),
        ("post_process", Refused("--search-recipe names what is made of the points", None)),
        ("random_seed", Flag("search-random-seed", It, None)),
        ("recipe_name", Ignored("the sweep is as it stands", None)),
        ("runs", Refused("--variant 'NAME: key=value' makes a point by itself", None)),
        ("same_seed", Flag("parameter-sweep-same-seed", It, Some("false"))),
        ("search_space", Code(search_space)),
        ("sla_filters", Code(sla_filters)),
        ("sla_precision", Flag("sla-precision", It, Some("normal"))),
        ("sla_replicates", Flag("sla-replicates", It, Some("0"))),
        ("type", Code(type_of_sweep)),
    ];
    out.walk(node, SWEEP, "")
}

fn type_of_sweep(node: &Node, out: &mut Out) -> Result<(), Fault> {
    match node.as_str() {
        Some("adaptive_search") => Ok(()),
        Some(kind @ ("grid" | "zip")) => {
            out.give(node, "sweep-type", kind);
            Ok(())
        }
        _ => Err(out.fault(
            node,
            "give grid, zip or adaptive_search; --variant makes any point",
        )),
    }
}

/// The flag of a path, as `phases.profiling.rate`.
fn flag_of_path(path: &str) -> Option<&'static str> {
    let last = snake(path.rsplit('.').next().unwrap_or(path));
    let path = match &*last {
        "isl" => return Some("isl"),
        "osl" => return Some("osl"),
        "entries" => return Some("num-dataset-entries"),
        "mean" if path.contains("isl") => return Some("isl"),
        "mean" if path.contains("osl") => return Some("osl"),
        last => last,
    };
    let (_, to) = PHASE.iter().find(|(known, _)| *known == path)?;
    match to {
        Flag(flag, ..) => Some(flag),
        _ => None,
    }
}

fn parameters(node: &Node, out: &mut Out) -> Result<(), Fault> {
    for (path, values) in node.members() {
        out.below(path, |out| match flag_of_path(path) {
            Some(flag) => {
                out.given.retain(|given| given.flag != flag);
                out.give_as(values, flag, It)
            }
            None => Err(out.fault(values, "no sweep varies it; --variant makes points of it")),
        })?;
    }
    Ok(())
}

/// Members of a map in snake case.
fn word(node: &Node, name: &str) -> Option<String> {
    let member = node.members().iter().find(|(key, _)| snake(key) == name);
    member.and_then(|(_, node)| node.typed())
}

/// Gives a flag a text of each entry. Errors: `wanted`, where an entry makes none.
fn give_each(
    node: &Node,
    out: &mut Out,
    flag: &'static str,
    text: impl Fn(&Node) -> Option<String>,
    wanted: &'static str,
) -> Result<(), Fault> {
    let texts: Option<Vec<String>> = node.items().iter().map(text).collect();
    let texts = texts.ok_or_else(|| out.fault(node, wanted))?;
    out.give(node, flag, texts);
    Ok(())
}

fn search_space(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let text = |item: &Node| {
        let whole = word(item, "kind")
            .filter(|kind| kind == "int")
            .map(|_| ":int");
        let (path, lo, hi) = (word(item, "path")?, word(item, "lo")?, word(item, "hi")?);
        Some(format!("{path}:{lo},{hi}{}", whole.unwrap_or_default()))
    };
    give_each(node, out, "search-space", text, "each has path, lo and hi")
}

fn sla_filters(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let text = |item: &Node| {
        let stat = word(item, "stat").unwrap_or_else(|| "p95".into());
        let (tag, op) = (word(item, "metric_tag")?, word(item, "op")?);
        Some(format!("{tag}:{stat}:{op}:{}", word(item, "threshold")?))
    };
    give_each(
        node,
        out,
        "search-sla",
        text,
        "each has metric_tag, stat, op and threshold",
    )
}

fn objectives(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let [one] = node.items() else {
        return Err(out.fault(node, "a search has one objective"));
    };
    for (name, flag) in [
        ("metric", "search-metric"),
        ("stat", "search-stat"),
        ("direction", "search-direction"),
    ] {
        if let Some(text) = word(one, name) {
            out.give(one, flag, text.to_ascii_lowercase());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_sweep_is_a_flag() {
        for (path, flag) in [
            ("concurrency", Some("concurrency")),
            ("phases.profiling.rate", Some("request-rate")),
            (
                "phases.profiling.prefillConcurrency",
                Some("prefill-concurrency"),
            ),
            ("datasets.default.prompts.isl", Some("isl")),
            ("datasets.main.prompts.osl.mean", Some("osl")),
            ("endpoint.streaming", None),
        ] {
            assert_eq!(flag_of_path(path), flag, "{path}");
        }
    }
}
