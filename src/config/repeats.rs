//! How often each run of a command is repeated, and when that is enough.

use super::ConfigError;
use super::check::{given_of, no, seconds};
use super::sweep::SweepDraft;
use crate::base::Ns;

/// By what repeats are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvergenceMode {
    /// The confidence interval is narrow beside the mean.
    CiWidth,
    /// The coefficient of variation is small.
    Cv,
    /// The last two runs have the same distribution.
    Distribution,
}

/// When to end repeats before their number.
#[derive(Clone, Debug, PartialEq)]
pub struct Convergence {
    /// Tag of the metric, not yet known to be one.
    pub metric: String,
    /// Statistic of it.
    pub stat: String,
    /// Criterion.
    pub mode: ConvergenceMode,
    /// Its limit, 0 to 1.
    pub threshold: f64,
}

/// Repeats of each point.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeats {
    /// Runs of each point, at least 1; with a convergence criterion the most of them.
    pub count: u32,
    /// Pause between them.
    pub cooldown: Ns,
    /// Only the first has a warm-up.
    pub warms_first_only: bool,
    /// Each has the same prompts.
    pub same_seed: bool,
    /// Level of confidence, between 0 and 1.
    pub level: f64,
    /// Ends them early.
    pub convergence: Option<Convergence>,
}

impl SweepDraft {
    /// Checks what is said of repeats.
    pub(super) fn repeats(&self) -> Result<Repeats, ConfigError> {
        let count = self.num_profile_runs.unwrap_or(1);
        let Some(count) = u32::try_from(count).ok().filter(|n| (1..=100).contains(n)) else {
            return no(
                "num-profile-runs",
                format!("{count} is out of range; give 1 to 100"),
            );
        };
        let level = self.confidence_level.unwrap_or(0.95);
        if !(level > 0.0 && level < 1.0) {
            let text = format!("{level:?}; give more than 0 and less than 1, such as 0.95");
            return no("confidence-level", text);
        }
        if self.set_consistent_seed == Some(true) && self.vary_seed_per_trial == Some(true) {
            return no(
                "vary-seed-per-trial",
                "--set-consistent-seed says otherwise; give one",
            );
        }
        Ok(Repeats {
            count,
            cooldown: seconds(
                "profile-run-cooldown-seconds",
                self.profile_run_cooldown_seconds,
                0.0,
                true,
            )?,
            warms_first_only: self.profile_run_disable_warmup_after_first.unwrap_or(true),
            same_seed: self.set_consistent_seed == Some(true),
            level,
            convergence: self.convergence(count)?,
        })
    }

    fn convergence(&self, count: u32) -> Result<Option<Convergence>, ConfigError> {
        let Some(metric) = self.convergence_metric.clone() else {
            let given = given_of(&[
                ("convergence-stat", self.convergence_stat.is_some()),
                (
                    "convergence-threshold",
                    self.convergence_threshold.is_some(),
                ),
                ("convergence-mode", self.convergence_mode.is_some()),
            ]);
            return given.map_or(Ok(None), |flag| {
                no(
                    flag,
                    "it needs --convergence-metric, such as time_to_first_token",
                )
            });
        };
        if count < 3 {
            let text = "it needs --num-profile-runs of 3 or more, which is then the most";
            return no("convergence-metric", text);
        }
        let (mode, usual) = match self.convergence_mode.as_deref() {
            None | Some("ci_width") => (ConvergenceMode::CiWidth, 0.10),
            Some("cv") => (ConvergenceMode::Cv, 0.05),
            Some("distribution") => (ConvergenceMode::Distribution, 0.05),
            Some(other) => {
                let text = format!("`{other}`; give ci_width, cv or distribution");
                return no("convergence-mode", text);
            }
        };
        let threshold = self.convergence_threshold.unwrap_or(usual);
        if !(threshold > 0.0 && threshold < 1.0) {
            let text = format!("{threshold:?}; give more than 0 and less than 1");
            return no("convergence-threshold", text);
        }
        let stat = self.convergence_stat.clone().unwrap_or("avg".into());
        Ok(Some(Convergence {
            metric,
            stat,
            mode,
            threshold,
        }))
    }
}
