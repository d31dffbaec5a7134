//! What the probes of a search showed, load by load, for one set of conditions.

use super::interval::{Point, interval};
use crate::stats::confidence::t_quantile;
use crate::stats::distribution::float_len;
use crate::stats::isotonic::{Curve, rising};
use crate::stats::search::LoadInterval;
use crate::stats::{Figures, Gate};

/// A margin of this share of the threshold is the smallest unit: AIPerf's floor of sigma.
const UNIT_RATIO: f64 = 0.01;
/// Least standard deviation between two runs, as a share of the threshold: nearer they never are.
const NOISE_RATIO_MIN: f64 = 1e-3;
/// Share of intervals that hold the boundary.
const CONFIDENCE: f64 = 0.95;
/// Loads within this factor of the boundary tell its noise.
const NEAR_FACTOR: f64 = 1.5;

/// What one trial showed.
#[derive(Clone, Debug, PartialEq)]
struct Trial {
    /// Margin of each condition, its threshold's sign adjusted: at most 0 where it holds.
    margins: Vec<Option<f64>>,
    /// The same as a share of the larger of value and threshold, -1 to 1. What is absent is 1.
    ///
    /// It has the margin's sign, and noise that grows with the value stays of one size; a value far
    /// off draws no mean.
    excess: Vec<f64>,
}

/// All trials of one load.
#[derive(Clone, Debug, PartialEq)]
struct Load {
    value: f64,
    trials: Vec<Trial>,
    visits: usize,
}

impl Load {
    /// Mean over the trials of the condition that is nearest to its limit or furthest beyond it.
    fn excess(&self) -> f64 {
        let worst = |trial: &Trial| trial.excess.iter().copied().fold(-1.0, f64::max);
        self.trials.iter().map(worst).sum::<f64>() / float_len(self.trials.len())
    }
}

/// All loads that were probed, by rising load.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    loads: Vec<Load>,
    thresholds: Vec<f64>,
}

impl Seen {
    /// Nothing yet.
    pub(super) fn new(gates: &[Gate]) -> Seen {
        Seen {
            loads: Vec::new(),
            thresholds: gates.iter().map(Gate::threshold).collect(),
        }
    }

    /// Adds one visit of a load: its successful trials, none when it failed as a whole.
    pub(super) fn add(&mut self, gates: &[Gate], value: f64, trials: &[Figures]) {
        let of = |figures: &Figures| {
            let values: Vec<Option<f64>> = gates.iter().map(|gate| judged(gate, figures)).collect();
            let both = || gates.iter().zip(&values);
            Trial {
                margins: both()
                    .map(|(gate, value)| value.map(|value| gate.margin(value)))
                    .collect(),
                excess: both().map(|(gate, value)| excess(gate, *value)).collect(),
            }
        };
        let mut trials: Vec<Trial> = trials.iter().map(of).collect();
        if trials.is_empty() {
            trials.push(Trial {
                margins: vec![None; gates.len()],
                excess: vec![1.0; gates.len().max(1)],
            });
        }
        let at = self.loads.partition_point(|load| load.value < value);
        match self.loads.get_mut(at).filter(|load| load.value == value) {
            Some(load) => {
                load.trials.extend(trials);
                load.visits += 1;
            }
            None => {
                let visits = 1;
                self.loads.insert(
                    at,
                    Load {
                        value,
                        trials,
                        visits,
                    },
                );
            }
        }
    }

    /// How often a load was visited.
    pub(super) fn visits(&self, value: f64) -> usize {
        let found = self.loads.iter().find(|load| load.value == value);
        found.map_or(0, |load| load.visits)
    }

    /// Mean excess at a load; `None` when it was not visited.
    pub(super) fn excess_at(&self, value: f64) -> Option<f64> {
        let found = self.loads.iter().find(|load| load.value == value);
        found.map(Load::excess)
    }

    /// A load that was visited within `ratio` of `wanted`, strictly between both.
    pub(super) fn near(&self, wanted: f64, ratio: f64, low: f64, high: f64) -> Option<f64> {
        let between = self.loads.iter().map(|load| load.value);
        let between = between.filter(|value| low < *value && *value < high);
        let near = between.filter(|value| (value - wanted).abs() <= ratio * wanted);
        near.min_by(|a, b| (a - wanted).abs().total_cmp(&(b - wanted).abs()))
    }

    /// The largest load that holds and the smallest that does not, by a rising fit of all.
    pub(super) fn bracket(&self) -> (Option<f64>, Option<f64>) {
        let means: Vec<f64> = self.loads.iter().map(Load::excess).collect();
        let weights = self.loads.iter().map(|load| float_len(load.trials.len()));
        let fit = rising(&means, &weights.collect::<Vec<_>>());
        let holding = fit.partition_point(|&excess| excess <= 0.0);
        let value = |at: usize| self.loads.get(at).map(|load| load.value);
        (holding.checked_sub(1).and_then(value), value(holding))
    }

    /// Where a smooth rising curve through the excess is zero, between both.
    pub(super) fn estimate(&self, low: f64, high: f64) -> f64 {
        let xs: Vec<f64> = self.loads.iter().map(|load| load.value).collect();
        let ys: Vec<f64> = self.loads.iter().map(Load::excess).collect();
        let root = Curve::fit(&xs, &ys).and_then(|curve| curve.root_in(low, high));
        root.unwrap_or((low * high).sqrt())
    }

    /// AIPerf's curve: through the mean of each load's binding margin, in units of its noise.
    pub(super) fn curve(&self) -> Option<Curve> {
        let sigmas = self.sigmas(None);
        let xs: Vec<f64> = self.loads.iter().map(|load| load.value).collect();
        let mean = |load: &Load| {
            let all = load.trials.iter().map(|trial| self.binding(trial, &sigmas));
            all.sum::<f64>() / float_len(load.trials.len())
        };
        let ys: Vec<f64> = self.loads.iter().map(mean).collect();
        Curve::fit(&xs, &ys)
    }

    /// Mean binding margin at a load.
    pub(super) fn margin_at(&self, value: f64) -> Option<f64> {
        let sigmas = self.sigmas(None);
        let load = self.loads.iter().find(|load| load.value == value)?;
        let all = load.trials.iter().map(|trial| self.binding(trial, &sigmas));
        Some(all.sum::<f64>() / float_len(load.trials.len()))
    }

    fn binding(&self, trial: &Trial, sigmas: &[f64]) -> f64 {
        // What is absent is as bad as twice the threshold.
        let margins = trial.margins.iter().zip(&self.thresholds);
        let margins = margins.map(|(margin, limit)| margin.unwrap_or(limit.abs()));
        let normalized = normalized(&margins.collect::<Vec<_>>(), sigmas, &self.thresholds);
        normalized.map_or(-1.0, |(margin, _)| margin)
    }

    /// Standard deviation of each condition's margin between visits of one load, in its unit; 0
    /// where nothing was repeated. `around`: of loads near these only.
    fn sigmas(&self, around: Option<(f64, f64)>) -> Vec<f64> {
        let of = |at: usize| self.spread(around, |trial| trial.margins[at]).0;
        (0..self.thresholds.len()).map(of).collect()
    }

    /// Pooled standard deviation within loads, and its degrees of freedom.
    fn spread(
        &self,
        around: Option<(f64, f64)>,
        of: impl Fn(&Trial) -> Option<f64>,
    ) -> (f64, usize) {
        let (mut squares, mut freedom) = (0.0, 0);
        let is_near = |load: &&Load| {
            around.is_none_or(|(low, high)| {
                low / NEAR_FACTOR <= load.value && load.value <= high * NEAR_FACTOR
            })
        };
        for load in self.loads.iter().filter(is_near) {
            let values: Vec<f64> = load.trials.iter().filter_map(&of).collect();
            let mean = values.iter().sum::<f64>() / float_len(values.len().max(1));
            squares += values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
            freedom += values.len().saturating_sub(1);
        }
        match freedom {
            0 => (0.0, 0),
            _ => ((squares / float_len(freedom)).sqrt(), freedom),
        }
    }

    /// Visits of a load at the boundary that the noise asks for: that of the excess, since far
    /// beyond a cliff a metric may vary by many limits and leaves no doubt.
    pub(super) fn replicates(&self) -> usize {
        let noise = |at: usize| self.spread(None, |trial| Some(trial.excess[at])).0;
        (0..self.thresholds.len())
            .map(|at| replicate_count(noise(at), 1.0))
            .max()
            .unwrap_or(REPLICATES_MIN)
    }

    /// The 95 % interval of the boundary: of all conditions, the smallest ends. `None` where no
    /// load near it was repeated.
    pub(super) fn interval(&self) -> Option<LoadInterval> {
        let bracket = self.bracket();
        let (low, high) = (bracket.0.or(bracket.1)?, bracket.1.or(bracket.0)?);
        let mut found: Option<LoadInterval> = None;
        // Each may miss on a share of the whole's account (Bonferroni).
        let level = 1.0 - (1.0 - CONFIDENCE) / float_len(self.thresholds.len().max(1));
        for at in 0..self.thresholds.len() {
            let excess = |trial: &Trial| Some(trial.excess[at]);
            let near = self.spread(Some((low, high)), excess);
            let (noise_ratio, freedom) = match near.1 {
                0 | 1 => self.spread(None, excess),
                _ => near,
            };
            if freedom == 0 {
                return None;
            }
            let point = |load: &Load| Point {
                value: load.value,
                excess: load.trials.iter().map(|t| t.excess[at]).sum::<f64>()
                    / float_len(load.trials.len()),
                visits: load.trials.len(),
            };
            let points: Vec<Point> = self.loads.iter().map(point).collect();
            let noise = noise_ratio.max(NOISE_RATIO_MIN);
            let (low, high) = interval(
                &points,
                noise * noise,
                t_quantile(level, float_len(freedom)).powi(2),
            );
            let this = LoadInterval {
                low,
                high,
                estimate: None,
                confidence: CONFIDENCE,
                noise_ratio,
                freedom: u32::try_from(freedom).unwrap_or(u32::MAX),
            };
            found = Some(found.map_or(this, |other| narrower(other, this)));
        }
        let mut found = found?;
        found.estimate = bracket.0.zip(bracket.1).map(|(l, h)| self.estimate(l, h));
        Some(found)
    }
}

/// The boundary of both conditions together: the smaller one's.
fn narrower(a: LoadInterval, b: LoadInterval) -> LoadInterval {
    let noisier = if a.noise_ratio >= b.noise_ratio { a } else { b };
    LoadInterval {
        low: a.low.zip(b.low).map(|(a, b)| a.min(b)),
        high: match (a.high, b.high) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        ..noisier
    }
}

/// A condition's value where it is there and finite.
pub(super) fn judged(gate: &Gate, figures: &Figures) -> Option<f64> {
    gate.value(figures).filter(|value| value.is_finite())
}

fn excess(gate: &Gate, value: Option<f64>) -> f64 {
    let Some(value) = value else { return 1.0 };
    let scale = value.abs().max(gate.threshold().abs());
    match scale > 0.0 {
        true => (gate.margin(value) / scale).clamp(-1.0, 1.0),
        // A value of 0 at a limit of 0: it holds or not.
        false if gate.holds(value) => -1.0,
        false => 1.0,
    }
}

const REPLICATES_MIN: usize = 3;
const REPLICATES_MAX: usize = 20;

/// Visits of a boundary load that its noise asks for.
///
/// Source: AIPerf, `min(20, max(3, ceil(4 (sigma / |threshold|)^2)))`.
pub(super) fn replicate_count(sigma: f64, threshold: f64) -> usize {
    if sigma <= 0.0 {
        return REPLICATES_MIN;
    }
    let wanted = (4.0 * (sigma / threshold.abs()).powi(2)).ceil();
    (REPLICATES_MIN..REPLICATES_MAX)
        .find(|&count| float_len(count) >= wanted)
        .unwrap_or(REPLICATES_MAX)
}

/// The binding condition: the largest margin in units of its noise, at least a hundredth of its
/// threshold, and its index. Without any noise known, AIPerf takes the largest plain margin; here
/// the hundredth stands for it, since margins of several metrics have several units.
pub(super) fn normalized(
    margins: &[f64],
    sigmas: &[f64],
    thresholds: &[f64],
) -> Option<(f64, usize)> {
    let unit = |at: usize| {
        let least = UNIT_RATIO * thresholds[at].abs();
        let unit = sigmas.get(at).copied().unwrap_or(0.0).max(least);
        if unit > 0.0 { unit } else { 1.0 }
    };
    let all = margins.iter().enumerate();
    all.map(|(at, margin)| (margin / unit(at), at))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicates_and_margins_are_aiperfs() {
        for (sigma, threshold, expected) in [
            (0.0, 100.0, 3),
            (50.0, 100.0, 3),
            (100.0, 100.0, 4),
            (150.0, 100.0, 9),
            (300.0, 100.0, 20),
            (1.0, 0.0, 20),
        ] {
            assert_eq!(replicate_count(sigma, threshold), expected, "{sigma}");
        }
        let found = normalized(&[-20.0, -1.0], &[10.0, 0.0], &[200.0, 20.0]);
        assert_eq!(found, Some((-2.0, 0)));
        assert_eq!(normalized(&[], &[], &[]), None);
    }

    #[test]
    fn an_excess_has_the_sign_of_the_margin_and_an_end() {
        let gate = Gate::parse("p99(ttft)<100").unwrap();
        assert_eq!(excess(&gate, Some(50.0)), -0.5);
        assert_eq!(excess(&gate, Some(100.0)), 0.0);
        assert_eq!(excess(&gate, Some(200.0)), 0.5);
        assert_eq!(excess(&gate, None), 1.0);
        let gate = Gate::parse("good_request_fraction>=0.95").unwrap();
        assert!(excess(&gate, Some(0.9)) > 0.0 && excess(&gate, Some(1.0)) < 0.0);
        assert_eq!(
            excess(&Gate::parse("request_error_rate<=0").unwrap(), Some(0.0)),
            -1.0
        );
    }

    #[test]
    fn a_single_failure_far_below_is_outvoted() {
        let gates = [Gate::parse("request_throughput<100").unwrap()];
        let mut seen = Seen::new(&gates);
        let figures = |value: f64| {
            let text =
                format!(r#"[{{"tag":"request_throughput","unit":"x","stats":[["avg",{value}]]}}]"#);
            serde_json::from_str::<Figures>(&text).unwrap()
        };
        for (load, value) in [(1.0, 110.0), (2.0, 40.0), (4.0, 60.0), (8.0, 150.0)] {
            seen.add(&gates, load, &[figures(value)]);
        }
        assert_eq!(seen.bracket(), (Some(4.0), Some(8.0)));
        seen.add(&gates, 8.0, &[]);
        assert_eq!((seen.visits(8.0), seen.bracket().1), (2, Some(8.0)));
    }
}
