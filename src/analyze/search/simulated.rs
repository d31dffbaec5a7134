//! The planners against simulated servers with seeded noise: no clock, no sleeping.

use super::{Probe, Prober, TierGates, search};
use crate::base::Rng;
use crate::base::rng::Stream;
use crate::config::{Objective, Planner, SearchAxis, SearchSpec};
use crate::stats::search::{Reason, Search};
use crate::stats::{Figures, Gate, MetricFigures};

/// The threshold of every simulated service level, ms.
const LIMIT_MS: f64 = 200.0;

/// How the TTFT of a simulated server grows with the load.
#[derive(Clone, Copy, Debug)]
enum Law {
    /// From `base` at rest, by a power, to the limit at the boundary.
    Knee { base: f64, power: f64 },
    /// `below` up to the boundary, `above` from the next load on.
    Cliff { below: f64, above: f64 },
}

struct Server {
    law: Law,
    boundary: f64,
    /// Standard deviation of the logarithm between runs.
    noise: f64,
    rng: Rng,
    probes: Vec<Probe>,
    /// The ITL reaches its limit of 50 ms at this many times the boundary; absent when never.
    second: Option<f64>,
    /// Probes after which somebody stops the search.
    stops_after: usize,
}

impl Server {
    fn new(law: Law, boundary: f64, noise: f64, seed: u64) -> Server {
        Server {
            law,
            boundary,
            noise,
            rng: Rng::new(seed, Stream::Test, 7),
            probes: Vec::new(),
            second: None,
            stops_after: usize::MAX,
        }
    }

    fn ttft(&self, load: f64) -> f64 {
        let ratio = match self.law {
            Law::Knee { base, power } => base + (1.0 - base) * (load / self.boundary).powf(power),
            Law::Cliff { below, above } => {
                if load <= self.boundary {
                    below
                } else {
                    above
                }
            }
        };
        LIMIT_MS * ratio
    }
}

fn metric(tag: &str, stat: &str, value: f64) -> MetricFigures {
    MetricFigures {
        tag: tag.into(),
        unit: String::new(),
        stats: vec![(stat.into(), value)],
    }
}

impl Prober for Server {
    type Stop = &'static str;

    fn probe(&mut self, probe: &Probe) -> Result<Vec<Figures>, &'static str> {
        if self.probes.len() >= self.stops_after {
            return Err("a signal");
        }
        self.probes.push(*probe);
        let ttft = self.ttft(probe.value) * (self.noise * self.rng.normal()).exp();
        let second = self.second.unwrap_or(f64::INFINITY);
        let itl = 50.0 * probe.value / (second * self.boundary);
        Ok(vec![Figures(vec![
            metric(
                "inter_token_latency",
                "p95",
                itl * (self.noise * self.rng.normal()).exp(),
            ),
            metric("time_to_first_token", "p95", ttft),
            metric("output_token_throughput", "avg", 100.0 * probe.value),
        ])])
    }
}

fn spec(planner: Planner, lo: f64, hi: f64) -> SearchSpec {
    SearchSpec {
        recipe: Some("max-concurrency-under-sla".into()),
        planner,
        axis: SearchAxis::Concurrency,
        lo,
        hi,
        slas: Vec::new(),
        goodput: Vec::new(),
        tiers: Vec::new(),
        objective: Objective {
            tag: "output_token_throughput".into(),
            stat: "avg".into(),
            is_maximized: true,
        },
        requests: Some(1_000),
        iterations_max: 40,
        replicates: None,
        seed: None,
    }
}

/// A search for tests of what belongs to one.
pub(super) fn spec_for_gates() -> SearchSpec {
    spec(Planner::SmoothIsotonic, 1.0, 64.0)
}

fn tiers(texts: &[&str]) -> Vec<TierGates> {
    let gate = |text: &&str| Gate::of_sla(text).unwrap();
    vec![(None, texts.iter().map(gate).collect())]
}

fn run(spec: &SearchSpec, server: &mut Server) -> Search {
    let both = [
        "time_to_first_token:p95:le:200",
        "inter_token_latency:p95:le:50",
    ];
    let gates = tiers(&both[..if server.second.is_some() { 2 } else { 1 }]);
    let (found, stop) = search(spec, &gates, server);
    assert_eq!(stop, None);
    found
}

/// What 100 seeded searches come to.
#[derive(Debug, Default)]
struct Tally {
    covered: usize,
    probes: usize,
    probes_max: usize,
    /// Of the intervals with both ends, upper over lower, less one.
    widths: Vec<f64>,
    missed: Vec<(u64, f64, Option<f64>, Option<f64>)>,
}

fn tally(law: impl Fn(&mut Rng) -> Law, axis: SearchAxis, second: Option<f64>) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..100 {
        let mut rng = Rng::new(seed, Stream::Test, 1);
        let mut boundary = 10f64 * 70f64.powf(rng.unit());
        let noise = 0.02 + 0.13 * rng.unit();
        let law = law(&mut rng);
        let mut spec = spec(Planner::SmoothIsotonic, 1.0, 1_024.0);
        spec.axis = axis;
        if axis.is_whole() {
            boundary = boundary.floor();
        }
        let mut server = Server::new(law, boundary, noise, seed);
        server.second = second;
        let found = run(&spec, &mut server);
        let interval = found.tiers[0].interval.unwrap();
        let is_in = interval.low.is_none_or(|low| low <= boundary)
            && interval.high.is_none_or(|high| boundary < high);
        tally.covered += usize::from(is_in);
        if !is_in {
            tally
                .missed
                .push((seed, boundary, interval.low, interval.high));
        }
        tally.probes += server.probes.len();
        tally.probes_max = tally.probes_max.max(server.probes.len());
        if let (Some(low), Some(high)) = (interval.low, interval.high) {
            tally.widths.push(high / low - 1.0);
        }
    }
    tally.widths.sort_by(f64::total_cmp);
    tally
}

fn check(name: &str, tally: &Tally, width: f64) {
    let median = tally.widths[tally.widths.len() / 2];
    assert!(tally.covered >= 90, "{name}: {tally:?}");
    assert!(tally.probes_max <= 40, "{name}: {tally:?}");
    assert!(
        tally.widths.len() >= 95 && median < width,
        "{name}: {tally:?}"
    );
}

fn knee(rng: &mut Rng) -> Law {
    Law::Knee {
        base: 0.2 + 0.5 * rng.unit(),
        power: 1.0 + 3.0 * rng.unit(),
    }
}

fn cliff(rng: &mut Rng) -> Law {
    Law::Cliff {
        below: 0.3 + 0.4 * rng.unit(),
        above: 2.0 + 6.0 * rng.unit(),
    }
}

#[test]
fn the_interval_holds_the_boundary_of_a_knee() {
    check("knee", &tally(knee, SearchAxis::Concurrency, None), 0.2);
}

#[test]
fn the_interval_holds_the_boundary_of_a_cliff() {
    check("cliff", &tally(cliff, SearchAxis::Concurrency, None), 0.11);
}

#[test]
fn rates_are_searched_for_as_well() {
    check("rate", &tally(knee, SearchAxis::RequestRate, None), 0.2);
}

#[test]
fn of_two_conditions_the_smaller_boundary_is_found() {
    check(
        "both",
        &tally(knee, SearchAxis::Concurrency, Some(1.0)),
        0.2,
    );
    check(
        "second",
        &tally(knee, SearchAxis::Concurrency, Some(1.1)),
        0.2,
    );
}

#[test]
fn halving_reaches_a_boundary_in_the_middle_as_aiperfs_does() {
    for boundary in [2.0, 37.0, 300.0, 500.0, 513.0, 777.0, 999.0] {
        let law = Law::Cliff {
            below: 0.5,
            above: 2.0,
        };
        let mut server = Server::new(law, boundary, 0.0, 1);
        let found = run(&spec(Planner::MonotonicSla, 1.0, 1_000.0), &mut server);
        assert_eq!(found.reason(), "monotonic_precision_reached", "{boundary}");
        // AIPerf's own test has a boundary in the middle of the range.
        let most = if boundary == 500.0 { 15 } else { 17 };
        assert!(found.iterations.len() <= most, "{boundary}");
        let tier = &found.tiers[0];
        let (low, high) = (tier.feasible_max.unwrap(), tier.infeasible_min.unwrap());
        assert!(low.value <= boundary && boundary < high.value, "{boundary}");
        assert!(high.value - low.value <= 1.0 || high.value < 1.06 * low.value);
        assert_eq!(tier.interval, None);
    }
}

#[test]
fn a_range_without_a_failure_or_without_a_pass_is_told() {
    let all = [
        (Planner::MonotonicSla, 5_000.0, Reason::MonotonicNoFailure),
        (Planner::SmoothIsotonic, 5_000.0, Reason::SmoothNoFailure),
        (Planner::MonotonicSla, 0.5, Reason::MonotonicNoPass),
        (Planner::SmoothIsotonic, 0.5, Reason::SmoothNoPass),
    ];
    for (planner, boundary, reason) in all {
        let law = Law::Cliff {
            below: 0.5,
            above: 2.0,
        };
        let mut server = Server::new(law, boundary, 0.0, 1);
        let found = run(&spec(planner, 1.0, 1_000.0), &mut server);
        let tier = &found.tiers[0];
        assert_eq!(tier.reason, reason);
        let values = (
            tier.feasible_max.map(|bound| bound.value),
            tier.infeasible_min.map(|bound| bound.value),
        );
        match boundary > 1.0 {
            true => assert_eq!(values, (Some(1_000.0), None)),
            false => assert_eq!(values, (None, Some(1.0))),
        }
        assert_eq!(found.best.is_some(), boundary > 1.0);
        if let Some(interval) = tier.interval {
            assert_eq!((interval.low, interval.high), (None, Some(1.0)));
        }
    }
}

#[test]
fn a_boundary_near_an_end_is_not_taken_for_certain() {
    // The last load holds, by no more than the noise.
    let law = Law::Knee {
        base: 0.3,
        power: 1.0,
    };
    let mut covered = 0;
    for seed in 0..20 {
        let mut server = Server::new(law, 66.0, 0.08, seed);
        let found = run(&spec(Planner::SmoothIsotonic, 1.0, 64.0), &mut server);
        let interval = found.tiers[0].interval.unwrap();
        covered += usize::from(interval.high.is_none() && interval.low.unwrap() <= 64.0);
    }
    assert!(covered >= 18, "{covered}");
}

#[test]
fn probes_without_noise_are_few_and_a_cliff_is_found_by_halving() {
    let law = Law::Knee {
        base: 0.4,
        power: 2.0,
    };
    let mut server = Server::new(law, 100.0, 0.001, 1);
    let found = run(&spec(Planner::SmoothIsotonic, 1.0, 1_000.0), &mut server);
    assert_eq!(found.reason(), "smooth_isotonic_precision_reached");
    assert!(found.iterations.len() <= 20, "{}", found.iterations.len());
    let law = Law::Cliff {
        below: 0.3,
        above: 50.0,
    };
    let mut server = Server::new(law, 300.0, 0.01, 1);
    let found = run(&spec(Planner::SmoothIsotonic, 1.0, 1_000.0), &mut server);
    assert_eq!(found.reason(), "smooth_isotonic_cliff_precision_reached");
    assert!(found.iterations.len() <= 30, "{}", found.iterations.len());
}

#[test]
fn a_metric_that_varies_by_many_limits_beyond_a_cliff_needs_no_more_repeats() {
    let law = Law::Cliff {
        below: 0.3,
        above: 50.0,
    };
    let mut server = Server::new(law, 40.0, 0.2, 5);
    let found = run(&spec(Planner::SmoothIsotonic, 1.0, 256.0), &mut server);
    assert!(found.iterations.len() <= 22, "{}", found.iterations.len());
    let interval = found.tiers[0].interval.unwrap();
    assert!(interval.low.unwrap() <= 40.0 && interval.high.unwrap() > 40.0);
}

#[test]
fn a_stopped_search_keeps_what_it_found() {
    let law = Law::Cliff {
        below: 0.5,
        above: 2.0,
    };
    let mut server = Server::new(law, 30.0, 0.01, 1);
    server.stops_after = 5;
    let gates = tiers(&["time_to_first_token:p95:le:200"]);
    let (found, stop) = search(
        &spec(Planner::SmoothIsotonic, 1.0, 100.0),
        &gates,
        &mut server,
    );
    assert_eq!(stop, Some("a signal"));
    assert_eq!((found.iterations.len(), found.reason()), (5, "stopped"));
    assert_eq!(found.tiers[0].feasible_max.unwrap().value, 16.0);
    let mut few = spec(Planner::SmoothIsotonic, 1.0, 100.0);
    few.iterations_max = 3;
    let found = run(&few, &mut Server::new(law, 30.0, 0.01, 1));
    assert_eq!(
        (found.iterations.len(), found.reason()),
        (3, "max_iterations")
    );
}

#[test]
fn tiers_share_the_probes_and_a_missing_metric_does_not_hold() {
    let law = Law::Knee {
        base: 0.1,
        power: 1.0,
    };
    let gate = |text| vec![Gate::of_sla(text).unwrap()];
    let all = [
        (Some("gold".into()), gate("time_to_first_token:p95:lt:100")),
        (
            Some("bronze".into()),
            gate("time_to_first_token:p95:lt:200"),
        ),
    ];
    let mut server = Server::new(law, 80.0, 0.01, 1);
    let (found, _) = search(
        &spec(Planner::SmoothIsotonic, 1.0, 512.0),
        &all,
        &mut server,
    );
    assert_eq!(found.reason(), "multi_tier_all_converged");
    let at = |tier: usize| found.tiers[tier].feasible_max.unwrap().value;
    assert!(
        (30.0..38.0).contains(&at(0)) && (74.0..83.0).contains(&at(1)),
        "{found:?}"
    );
    let lo = found.iterations.iter().filter(|i| i.value == 1.0).count();
    assert_eq!(lo, 1);
    let missing = [(None, gate("goodput:avg:lt:100"))];
    let mut server = Server::new(law, 80.0, 0.01, 1);
    let (found, _) = search(
        &spec(Planner::MonotonicSla, 1.0, 512.0),
        &missing,
        &mut server,
    );
    assert_eq!(found.reason(), "monotonic_no_pass_in_range");
    let why = found.iterations[0].diagnosis.as_deref();
    assert_eq!(why, Some("goodput is absent or not finite"));
}
