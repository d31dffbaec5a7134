//! What a search for a load found: every probe, the boundary, and how sure it is.

use super::gate::Gate;

/// Why a search ended, by AIPerf's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Both sides of the boundary are close, by the fit.
    SmoothPrecision,
    /// The same, where the fit found a cliff and halving went on.
    SmoothCliffPrecision,
    /// The same, where the fit did not get there and halving did.
    SmoothFallback,
    /// Every load held.
    SmoothNoFailure,
    /// No load held.
    SmoothNoPass,
    /// Both sides of the boundary are close, by halving.
    MonotonicPrecision,
    /// Every load held.
    MonotonicNoFailure,
    /// No load held.
    MonotonicNoPass,
    /// No probe was left.
    MaxIterations,
    /// Stopped from outside.
    Stopped,
}

impl Reason {
    /// AIPerf's name; `stopped` is ours.
    pub fn name(self) -> &'static str {
        match self {
            Reason::SmoothPrecision => "smooth_isotonic_precision_reached",
            Reason::SmoothCliffPrecision => "smooth_isotonic_cliff_precision_reached",
            Reason::SmoothFallback => "smooth_isotonic_pchip_fallback_bisection",
            Reason::SmoothNoFailure => "smooth_isotonic_no_failure_in_range",
            Reason::SmoothNoPass => "smooth_isotonic_no_pass_in_range",
            Reason::MonotonicPrecision => "monotonic_precision_reached",
            Reason::MonotonicNoFailure => "monotonic_no_failure_in_range",
            Reason::MonotonicNoPass => "monotonic_no_pass_in_range",
            Reason::MaxIterations => "max_iterations",
            Reason::Stopped => "stopped",
        }
    }
}

/// One probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Index of the tier that asked for it.
    pub tier: usize,
    /// The load.
    pub value: f64,
    /// How often this load was probed before.
    pub visit: u32,
    /// It was made to learn the noise.
    pub is_replicate: bool,
    /// What each condition of the tier looked at, in display units: the mean of the trials.
    pub observed: Vec<Option<f64>>,
    /// Value of the objective: the mean of the trials.
    pub objective: Option<f64>,
    /// At least one trial met every condition.
    pub is_feasible: bool,
    /// A higher load held though this one did not, or the reverse.
    pub is_non_monotonic: bool,
    /// Why it could not be judged: a metric that was absent or not finite.
    pub diagnosis: Option<String>,
}

/// A load beside the boundary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The load.
    pub value: f64,
    /// The first probe of it.
    pub iteration: usize,
    /// Its objective, the mean over its probes.
    pub objective: Option<f64>,
}

/// Where the largest load that holds lies, by all probes.
///
/// The interval is what a likelihood ratio test at its level does not exclude: for each place
/// between two loads, rising fits that change sign there against the best one (Banerjee and Wellner
/// 2005), with the noise that the repeats showed. It needs no form of the curve: a cliff is as good
/// as a knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadInterval {
    /// The largest load known to hold; `None` when the boundary may lie below the range.
    pub low: Option<f64>,
    /// The smallest load known not to hold; `None` when none failed for sure.
    pub high: Option<f64>,
    /// The most likely place, by a smooth rising curve; `None` at an open end.
    pub estimate: Option<f64>,
    /// Share of the times that such an interval holds the true boundary.
    pub confidence: f64,
    /// Standard deviation between probes of one load, as a share of the threshold; of several
    /// conditions the largest.
    pub noise_ratio: f64,
    /// Degrees of freedom of that.
    pub freedom: u32,
}

/// What was found for one set of conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// Its name; `None` for the conditions of the search itself.
    pub label: Option<String>,
    /// The conditions.
    pub gates: Vec<Gate>,
    /// The largest load that held.
    pub feasible_max: Option<Bound>,
    /// The smallest that did not.
    pub infeasible_min: Option<Bound>,
    /// How sure; `None` where no load was repeated.
    pub interval: Option<LoadInterval>,
    /// Why the search for it ended.
    pub reason: Reason,
}

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Every probe, in order.
    pub iterations: Vec<Iteration>,
    /// What was found, in the order of the sets of conditions; at least one.
    pub tiers: Vec<Tier>,
    /// The probe that is best by the objective, of those that are feasible.
    pub best: Option<usize>,
}

impl Search {
    /// Why it ended, by AIPerf's names.
    pub fn reason(&self) -> &'static str {
        match self.tiers.as_slice() {
            [only] => only.reason.name(),
            tiers => {
                let cut = [Reason::MaxIterations, Reason::Stopped];
                let ended = tiers.iter().find(|tier| cut.contains(&tier.reason));
                ended.map_or("multi_tier_all_converged", |tier| tier.reason.name())
            }
        }
    }

    /// Probes that held.
    pub fn feasible_count(&self) -> usize {
        self.iterations.iter().filter(|i| i.is_feasible).count()
    }
}
