//! One run of many: its settings, its folder, and what is kept of it.

use crate::archive::{self, RunFolder};
use crate::base::limits;
use crate::config::{Config, Convergence, ConvergenceMode, Layout, Order, Sweep, Variation};
use crate::profile::{Recorded, judge_asserts};
use crate::report::gpu_labels;
use crate::stats::convergence::Criterion;
use crate::stats::many::RunRecord;
use crate::stats::plateau::Rung;
use crate::stats::summary::GpuSummary;
use crate::stats::{Figures, MetricFigures};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// A run of which so many percent failed is no point of a sweep.
const HALF: f64 = 50.0;

/// A run to be.
pub struct Cell<'a> {
    /// Of which it is one.
    pub sweep: &'a Sweep,
    /// Its point.
    pub variation: &'a Variation,
    /// Which repeat, from 0.
    pub trial: u32,
    /// Runs before it.
    pub number: usize,
    /// Of the sweep.
    pub seed: u64,
    /// The sweep's folder.
    pub parent: &'a Path,
}

/// The folder that all runs of a sweep lie in.
pub fn parent(sweep: &Sweep) -> PathBuf {
    let first = &sweep.variations[0].config;
    match (&first.artifact_dir, sweep.layout) {
        (Some(path), _) => path.clone(),
        (None, Layout::Analyze) => PathBuf::from("artifacts"),
        (None, Layout::Profile) => {
            let keys: Vec<&str> = sweep.axes.iter().map(|(axis, _)| axis.key).collect();
            let end = match keys.as_slice() {
                [] => None,
                [key] if sweep.search.is_some() => Some(format!("{key}_search")),
                keys => Some(format!("{}_sweep", keys.join("-"))),
            };
            let named = Config {
                model: first.model.clone().or(first.demo.then(|| "demo".into())),
                place: end.map(|end| (PathBuf::new(), end)),
                ..first.clone()
            };
            PathBuf::from("artifacts").join(archive::run_name(&named))
        }
    }
}

impl Cell<'_> {
    /// Settings of the run.
    pub fn config(&self) -> Config {
        let mut config = self.variation.config.clone();
        config.trial = self.trial;
        config.seed = self.own_seed();
        let repeats = &self.sweep.repeats;
        if self.trial > 0 && repeats.warms_first_only {
            config.phases.retain(|phase| phase.measured);
        }
        match self.sweep.layout {
            Layout::Analyze => {
                let end = match (repeats.count, self.trial) {
                    (1, 0) => self.stimulus(),
                    (1, trial) => format!("{}-run_{:04}", self.stimulus(), trial + 1),
                    _ => format!("{}/run_{:04}", self.stimulus(), self.trial + 1),
                };
                config.artifact_dir = None;
                config.place = Some((self.parent.to_path_buf(), end));
            }
            Layout::Profile => config.artifact_dir = Some(self.parent.join(self.folder())),
        }
        config
    }

    /// As GenAI-Perf ends the name of a point's folder: `concurrency4`.
    fn stimulus(&self) -> String {
        let each = self.variation.values.iter();
        let parts: Vec<String> = each
            .map(|(axis, value)| format!("{}{value}", axis.name))
            .collect();
        match parts.as_slice() {
            [] if self.variation.label.is_empty() => "repeats".into(),
            [] => self.variation.label.clone(),
            parts => parts.join("-"),
        }
    }

    /// As AIPerf lays the runs out.
    fn folder(&self) -> String {
        let (label, number) = (&self.variation.label, self.trial + 1);
        if self.sweep.search.is_some() {
            return format!("search_iter_{:04}/profile_runs/run_0001", self.number);
        }
        match (self.sweep.repeats.count, self.sweep.order) {
            (1, _) => label.clone(),
            _ if label.is_empty() => format!("profile_runs/run_{number:04}"),
            (_, Order::Repeated) => format!("profile_runs/trial_{number:04}/{label}"),
            (_, Order::Independent) => format!("{label}/profile_runs/run_{number:04}"),
        }
    }

    /// The sweep's own for a single point's first run, else one that differs where prompts are to.
    fn own_seed(&self) -> u64 {
        let label = match self.sweep.same_seed {
            true => "",
            false => self.variation.label.as_str(),
        };
        let trial = match self.sweep.repeats.same_seed {
            true => 0,
            false => self.trial,
        };
        if label.is_empty() && trial == 0 {
            return self.seed;
        }
        let digest = Sha256::digest(format!("{}:{label}:{trial}", self.seed));
        let bytes: [u8; 8] = std::array::from_fn(|at| digest[at]);
        u64::from_le_bytes(bytes) & limits::RANDOM_SEED_MAX
    }
}

/// What is kept of a run that is over.
pub fn record(
    config: &Config,
    recorded: &Recorded,
    variation: &Variation,
    parent: &Path,
) -> RunRecord {
    let summary = &recorded.summary;
    let folder = recorded.folder.as_deref().unwrap_or(Path::new(""));
    let folder = folder.strip_prefix(parent).unwrap_or(folder);
    let failed = recorded
        .figures
        .get("request_error_rate", "avg")
        .unwrap_or(0.0)
        / 100.0;
    let load = config.load();
    RunRecord {
        label: variation.label.clone(),
        values: variation
            .values
            .iter()
            .map(|(axis, value)| (axis.key.to_string(), *value))
            .collect(),
        trial: config.trial,
        seed: config.seed,
        folder: folder.display().to_string(),
        concurrency: load.slots(),
        request_rate: load.rate_per_s().filter(|rate| rate.is_finite()),
        dataset_entries: config.dataset_entries,
        verdict: summary.client.verdict.name().into(),
        reasons: summary
            .client
            .reasons
            .iter()
            .map(|reason| reason.code.into())
            .collect(),
        failed_share: failed,
        fault: fault(recorded),
        is_short: is_short(config),
        // Judged when it is taken in.
        failed_asserts: Vec::new(),
        rung: load.slots().and_then(|slots| Rung::of(summary, slots)),
        figures: recorded.figures.clone(),
        gpus: gpu_labels(&summary.gpus)
            .into_iter()
            .zip(summary.gpus.iter().map(gpu_figures))
            .collect(),
    }
}

/// Conditions of `--assert` that do not hold of a run's figures.
pub fn failed_asserts(config: &Config, figures: &Figures) -> Vec<String> {
    let judged = judge_asserts(config, figures).into_iter();
    let failed = judged.filter(|assertion| !assertion.holds);
    failed.map(|assertion| assertion.text).collect()
}

/// A closed loop of fewer requests than slots.
fn is_short(config: &Config) -> bool {
    let (slots, requests) = (config.load().slots(), config.main().requests);
    slots
        .zip(requests)
        .is_some_and(|(slots, requests)| requests < u64::from(slots))
}

/// Of a GPU, its energy among them.
fn gpu_figures(gpu: &GpuSummary) -> Figures {
    let mut figures = Figures::of(&gpu.metrics);
    let tag = "nvidia_energy_consumption";
    if let (Some(joules), None) = (gpu.energy_j, figures.metric(tag)) {
        figures.0.push(MetricFigures {
            tag: tag.into(),
            unit: "MJ".into(),
            stats: vec![("avg".into(), joules / 1e6)],
        });
    }
    figures
}

/// The criterion of a setting.
pub fn criterion(wanted: &Convergence, level: f64) -> Criterion {
    let threshold = wanted.threshold;
    match wanted.mode {
        ConvergenceMode::CiWidth => Criterion::CiWidth { level, threshold },
        ConvergenceMode::Cv => Criterion::Cv { threshold },
        ConvergenceMode::Distribution => Criterion::Distribution { threshold },
    }
}

/// A metric of each request of the last two runs, in their order; empty where it cannot be read.
pub fn last_two(runs: &[&RunRecord], tag: &str, parent: &Path) -> [Vec<f64>; 2] {
    let values = |run: &&RunRecord| -> Option<Vec<f64>> {
        let folder = RunFolder::open(&parent.join(&run.folder)).ok()?;
        let columns = folder.columns().ok()??.columns;
        let values = columns.get(tag)?.iter().copied();
        Some(values.filter(|value| value.is_finite()).collect())
    };
    let last = runs
        .iter()
        .rev()
        .take(2)
        .map(|run| values(run).unwrap_or_default());
    let mut last: Vec<Vec<f64>> = last.collect();
    last.resize(2, Vec::new());
    [last.swap_remove(1), last.swap_remove(0)]
}

/// Why a run is no good, whatever it measured.
fn fault(recorded: &Recorded) -> Option<String> {
    let summary = &recorded.summary;
    let count = recorded.figures.get("request_count", "avg").unwrap_or(0.0);
    if summary.was_cancelled {
        return Some("stopped by a signal".into());
    }
    let failed = recorded
        .figures
        .get("request_error_rate", "avg")
        .unwrap_or(0.0);
    if count == 0.0 || failed >= HALF {
        let most = summary
            .errors
            .first()
            .map(|error| format!(": {}", error.name));
        let how_many = match count == 0.0 {
            true => "no request succeeded".to_string(),
            false => format!("{failed:.0} % of its requests failed"),
        };
        return Some(format!("{how_many}{}", most.unwrap_or_default()));
    }
    let crossed = summary.client.failure_limit;
    crossed.map(|share| format!("more than {:.0} % of its requests failed", 100.0 * share))
}
