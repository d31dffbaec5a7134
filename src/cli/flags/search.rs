//! The flags of a search for the load that a server bears.

use super::Kind::{Integer, Many, Number, Text};
use super::{Flag, flag};

const SEARCH: &str = "Search";
const RECIPES: &str = "Recipes";

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag(SEARCH, None, &["search"], Text("WHAT[:LO:HI]"),
        "Search for the largest concurrency or request_rate under which every condition holds, \
        with its 95 % interval [default range: 1:1000]"),
    flag(SEARCH, None, &["search-sla"], Many("CONDITION"),
        "A condition, as in `p95(ttft)<500ms` or time_to_first_token:p95:lt:500; several must all \
        hold"),
    flag(SEARCH, None, &["search-sla-tier"], Many("NAME:LIST"),
        "Conditions under a name, with commas between; each name has a boundary of its own, and \
        all share the runs"),
    flag(SEARCH, None, &["ttft-sla-ms"], Number("MS"), "p95 of time_to_first_token is below this"),
    flag(SEARCH, None, &["itl-sla-ms"], Number("MS"), "p95 of inter_token_latency is below this"),
    flag(SEARCH, None, &["tpot-sla-ms"], Number("MS"), "The same"),
    flag(SEARCH, None, &["e2e-sla-ms"], Number("MS"), "p99 of request_latency is below this"),
    flag(SEARCH, None, &["error-rate-sla"], Number("SHARE"),
        "Share of requests that fail is below this, 0.01 for 1 %"),
    flag(SEARCH, None, &["search-space"], Many("PATH:LO,HI"),
        "AIPerf's way to say --search: phases.profiling.concurrency:1,256:int"),
    flag(SEARCH, None, &["search-planner"], Text("NAME"),
        "smooth_isotonic, or monotonic_sla, which halves and repeats nothing; bayesian and optuna \
        are taken for the first [default: smooth_isotonic]"),
    flag(SEARCH, None, &["search-style"], Text("NAME"),
        "The same by AIPerf's other names: smooth_isotonic, monotonic, bo, optuna; or grid, a run \
        at each doubling"),
    flag(SEARCH, None, &["search-max-iterations"], Integer,
        "Runs at most, repeats included, 2 to 200 [default: 40]"),
    flag(SEARCH, None, &["sla-precision"], Text("LEVEL"),
        "Requests of each run: tight 10000, normal 1000, coarse 300; --request-count and \
        --benchmark-duration win [default: normal]"),
    flag(SEARCH, None, &["sla-replicates"], Integer,
        "Runs of each load beside the boundary, 1 to 20; 1 gives no interval [default: by the \
        noise, 3 to 20]"),
    flag(SEARCH, None, &["search-metric"], Text("TAG"),
        "What is best among the loads that hold [default: output_token_throughput]"),
    flag(SEARCH, None, &["search-stat"], Text("STAT"), "Which statistic of it [default: avg]"),
    flag(SEARCH, None, &["search-direction"], Text("WORD"),
        "maximize or minimize [default: maximize]"),
    flag(SEARCH, None, &["search-initial-points"], Integer,
        "Known to AIPerf's Bayesian planner; no points are drawn here"),
    flag(SEARCH, None, &["search-random-seed"], Integer, "Recorded: no planner here draws"),
    flag(RECIPES, None, &["search-recipe"], Text("NAME"),
        "A search: max-concurrency-under-sla, max-goodput-under-slo, max-throughput-ttft-sla, \
        max-throughput-itl-sla; or runs at many points: concurrency-ramp, prefill-ttft-curve, \
        decode-itl-curve, pareto-sweep"),
    flag(RECIPES, None, &["slo-attainment-fraction"], Number("SHARE"),
        "Good requests that max-goodput-under-slo asks for, of all [default: 0.95]"),
    flag(RECIPES, None, &["degradation-threshold"], Number("SHARE"),
        "concurrency-ramp: growth over the first point that is the knee [default: 0.2]"),
    flag(RECIPES, None, &["degradation-metric-tag"], Text("TAG"),
        "concurrency-ramp: of what [default: request_latency]"),
    flag(RECIPES, None, &["degradation-stat"], Text("STAT"),
        "concurrency-ramp: of which statistic [default: p99]"),
    flag(RECIPES, None, &["concurrency-min"], Integer,
        "Least concurrency of a recipe [default: 1]"),
    flag(RECIPES, None, &["concurrency-max"], Integer,
        "Largest [default: 1000; decode-itl-curve: 200]"),
    flag(RECIPES, None, &["concurrency-steps"], Integer,
        "How many, at equal ratios [default: 8; decode-itl-curve: 6]"),
    flag(RECIPES, None, &["isl-min"], Integer,
        "prefill-ttft-curve: least input length [default: 256]"),
    flag(RECIPES, None, &["isl-max"], Integer, "Largest [default: 32768]"),
    flag(RECIPES, None, &["isl-steps"], Integer, "How many, at equal ratios [default: 8]"),
    flag(RECIPES, None, &["osl-min"], Integer,
        "decode-itl-curve: least output length [default: 64]"),
    flag(RECIPES, None, &["osl-max"], Integer, "Largest [default: 1024]"),
    flag(RECIPES, None, &["osl-steps"], Integer, "How many, at equal ratios [default: 4]"),
    flag(RECIPES, None, &["isl-osl-pairs"], Text("PAIRS"),
        "pareto-sweep: input and output lengths, as in 128/128,1024/512 [default: the run's own]"),
];
