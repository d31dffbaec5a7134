//! Many runs of one command: which settings vary, how often each run is repeated, and what follows
//! from it for the settings of each run.

use super::axis::{self, Axis};
use super::check::{no, seconds};
use super::{Checked, Config, ConfigError, Draft, Many};
use crate::base::{Ns, limits};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Settings of a command that makes many runs; keys are the flags' first names with underscores.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[expect(
    missing_docs,
    reason = "each is documented as its flag in `cli::flags::sweep`"
)]
pub struct SweepDraft {
    pub sweep_type: Option<String>,
    pub sweep_range: Option<String>,
    pub sweep_list: Option<String>,
    pub variant: Option<Many>,
    pub parameter_sweep_mode: Option<String>,
    pub parameter_sweep_same_seed: Option<bool>,
    pub parameter_sweep_cooldown_seconds: Option<f64>,
    pub no_sweep_table: Option<bool>,
    pub num_profile_runs: Option<i64>,
    pub profile_run_cooldown_seconds: Option<f64>,
    pub profile_run_disable_warmup_after_first: Option<bool>,
    pub set_consistent_seed: Option<bool>,
    pub vary_seed_per_trial: Option<bool>,
    pub confidence_level: Option<f64>,
    pub convergence_metric: Option<String>,
    pub convergence_stat: Option<String>,
    pub convergence_threshold: Option<f64>,
    pub convergence_mode: Option<String>,
    pub slo: Option<Many>,
    pub until_saturated: Option<bool>,
    pub price_per_hour: Option<f64>,
    pub enable_checkpointing: Option<bool>,
    pub checkpoint_dir: Option<String>,
    pub resume: Option<bool>,
}

/// How the runs of a command are laid out in folders, and which summaries they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// GenAI-Perf's `analyze`: a folder per point beside its CSV.
    Analyze,
    /// AIPerf's: all below the run's own folder.
    Profile,
}

/// How the lists of several settings are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Each value of one with each of the others.
    Grid,
    /// The first of each, the second of each, ...
    Zip,
}

/// In which order points and repeats follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All points once, then all again.
    Repeated,
    /// All repeats of a point, then the next point.
    Independent,
}

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

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Variation {
    /// Names it among the others, fit for a folder: `concurrency_4__isl_128`.
    pub label: String,
    /// What varies, and its value here.
    pub values: Vec<(Axis, f64)>,
    /// All settings.
    pub config: Config,
}

/// Many runs, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Folders and summaries.
    pub layout: Layout,
    /// What varies, and its values in their order; empty for repeats of one point.
    pub axes: Vec<(Axis, Vec<f64>)>,
    /// The points in their order; at least one.
    pub variations: Vec<Variation>,
    /// Order of points and repeats.
    pub order: Order,
    /// Every point has the same prompts.
    pub same_seed: bool,
    /// Pause between two points.
    pub cooldown: Ns,
    /// A row on the screen after each run.
    pub shows_rows: bool,
    /// Repeats.
    pub repeats: Repeats,
    /// Conditions that a good point meets, as typed; empty means the default.
    pub slos: Vec<String>,
    /// Go on beyond the last point until the load saturates the server.
    pub until_saturated: bool,
    /// What the server costs an hour, in any currency.
    pub price_per_hour: Option<f64>,
    /// Where the checkpoint lies; absent means in the sweep's own folder.
    pub checkpoint_dir: Option<PathBuf>,
    /// A checkpoint stays after a complete report, and is used by the next such command.
    pub keeps_checkpoint: bool,
    /// Go on where a checkpoint ends.
    pub resumes: bool,
    /// Makes further points.
    pub template: Template,
    /// What the result depends on, setting by setting, as a checkpoint keeps it.
    pub fingerprint: Map<String, Value>,
    /// Sentences on how the settings were understood.
    pub notes: Vec<String>,
}

/// What a command asks for.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub enum Asked {
    /// One run.
    One(Checked),
    /// Many.
    Many(Sweep),
}

/// What all points have in common: makes a point of what varies.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Template {
    settings: Map<String, Value>,
    command_line: String,
}

impl Template {
    /// The point with these values, checked, and sentences on how it was understood. Errors name
    /// flag and point.
    pub fn at(&self, values: &[(Axis, f64)]) -> Result<(Variation, Vec<String>), String> {
        let number = |value: f64| match value.fract() == 0.0 && value.abs() < 1e15 {
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
            true => Value::from(value as i64),
            false if value.is_infinite() => "inf".into(),
            false => value.into(),
        };
        let with = |cell: Cell, (axis, value): &(Axis, f64)| cell.with(*axis, &number(*value));
        self.point(values.iter().fold(Cell::default(), with))
    }

    fn point(&self, cell: Cell) -> Result<(Variation, Vec<String>), String> {
        let mut settings = self.settings.clone();
        settings.extend(cell.settings);
        let checked = self
            .check(settings)
            .map_err(|error| format!("{error} (in the point {})", cell.label))?;
        let variation = Variation {
            label: cell.label,
            values: cell.values,
            config: checked.config,
        };
        Ok((variation, checked.notes))
    }

    fn check(&self, settings: Map<String, Value>) -> Result<Checked, String> {
        let draft = serde_json::from_value::<Draft>(settings.into());
        let draft = draft.map_err(|error| format!("settings: {error}"))?;
        draft.check(&self.command_line).map_err(text)
    }
}

/// Settings as typed, before they are checked, and how to understand their names.
pub struct Typed<'a> {
    /// Of a run; a list where a setting varies.
    pub run: Map<String, Value>,
    /// Of many.
    pub sweep: SweepDraft,
    /// Folders and summaries.
    pub layout: Layout,
    /// The key of a setting by any of its names, or why there is none.
    pub key: &'a dyn Fn(&str) -> Result<String, String>,
    /// The command as typed.
    pub command_line: &'a str,
}

impl Typed<'_> {
    /// Checks everything. Errors name the flag, and the point of the sweep where it is one's.
    pub fn check(mut self) -> Result<Asked, String> {
        let mut notes = Vec::new();
        self.take_sweep_type(&mut notes).map_err(text)?;
        let axes = axis::take(&mut self.run)?;
        let variants = self.sweep.variant.take().map(|given| given.list());
        let repeats = self.sweep.repeats().map_err(text)?;
        let template = Template {
            settings: std::mem::take(&mut self.run),
            command_line: self.command_line.into(),
        };
        let is_one = axes.is_empty() && variants.is_none() && repeats.count == 1;
        if is_one && self.layout == Layout::Profile {
            self.sweep.unused()?;
            return Ok(Asked::One(template.check(template.settings.clone())?));
        }
        if is_one {
            let text = "analyze: nothing varies; give --sweep-type with --sweep-range A:B or \
                        --sweep-list A,B,C, a list as in --concurrency 1,2,4, or \
                        --num-profile-runs N";
            return Err(text.into());
        }
        let cells = match &variants {
            Some(list) if axes.is_empty() => self.variants(list)?,
            Some(_) => {
                let text = "--variant: it stands for lists of settings; leave the lists out";
                return Err(text.into());
            }
            None => cells(&axes, self.topology())?,
        };
        self.many(axes, cells, repeats, template, notes)
    }

    fn many(
        self,
        axes: Vec<(Axis, Vec<Value>)>,
        cells: Vec<Cell>,
        repeats: Repeats,
        template: Template,
        mut notes: Vec<String>,
    ) -> Result<Asked, String> {
        let runs = cells.len().saturating_mul(repeats.count as usize);
        if runs > limits::RUNS_MAX {
            let most = limits::RUNS_MAX;
            return Err(format!(
                "{runs} runs are asked for; {most} at most, give fewer values"
            ));
        }
        let mut variations = Vec::with_capacity(cells.len());
        for cell in cells {
            let (variation, more) = template.point(cell)?;
            for note in more {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
            variations.push(variation);
        }
        let draft = self.sweep;
        let settings = &template.settings;
        let fingerprint = super::fingerprint::of(settings, &repeats, &draft, &variations[0])?;
        let slos = draft.slo.as_ref().map(Many::list).unwrap_or_default();
        let numbers = |values: Vec<Value>| values.iter().map(axis::number).collect();
        Ok(Asked::Many(Sweep {
            layout: self.layout,
            axes: axes
                .into_iter()
                .map(|(axis, values)| (axis, numbers(values)))
                .collect(),
            variations,
            order: draft.order().map_err(text)?,
            same_seed: draft.parameter_sweep_same_seed.unwrap_or(false),
            cooldown: seconds(
                "parameter-sweep-cooldown-seconds",
                draft.parameter_sweep_cooldown_seconds,
                0.0,
                true,
            )
            .map_err(text)?,
            shows_rows: draft.no_sweep_table != Some(true),
            repeats,
            slos,
            until_saturated: draft.until_saturated.unwrap_or(false),
            price_per_hour: draft.price().map_err(text)?,
            checkpoint_dir: draft.checkpoint_dir.clone().map(PathBuf::from),
            keeps_checkpoint: draft.enable_checkpointing.unwrap_or(false),
            resumes: draft.resume.or(draft.enable_checkpointing).unwrap_or(false),
            template,
            fingerprint,
            notes,
        }))
    }

    /// Makes a list of the setting that GenAI-Perf's `--sweep-type` names; AIPerf's stays.
    fn take_sweep_type(&mut self, notes: &mut Vec<String>) -> Result<(), ConfigError> {
        let (range, list) = (self.sweep.sweep_range.take(), self.sweep.sweep_list.take());
        let given = self.sweep.sweep_type.clone();
        let Some(name) = given.filter(|name| axis::topology(name).is_none()) else {
            let flag = match (range, list) {
                (None, None) => return Ok(()),
                (Some(_), _) => "sweep-range",
                (None, Some(_)) => "sweep-list",
            };
            return no(flag, "it needs --sweep-type, such as concurrency");
        };
        self.sweep.sweep_type = None;
        let axis = axis::of_sweep_type(&name)?;
        if self.run.contains_key(axis.key) {
            return no(
                axis.flag,
                format!("--sweep-type {name} gives it its values; leave it out"),
            );
        }
        let values = axis::values(axis, range.as_deref(), list.as_deref(), notes)?;
        self.run.insert(axis.key.into(), Value::Array(values));
        Ok(())
    }

    fn topology(&self) -> Topology {
        let given = self.sweep.sweep_type.as_deref();
        given.and_then(axis::topology).unwrap_or(Topology::Grid)
    }

    /// The points that `--variant` names one by one.
    fn variants(&self, list: &[String]) -> Result<Vec<Cell>, String> {
        let mut cells: Vec<Cell> = Vec::new();
        for given in list {
            let cell = axis::variant(given, self.key)?;
            if cells.iter().any(|other| other.label == cell.label) {
                return Err(format!("--variant: `{}` is there twice", cell.label));
            }
            cells.push(cell);
        }
        Ok(cells)
    }
}

fn text(error: ConfigError) -> String {
    error.to_string()
}

/// A point before it is checked.
#[derive(Clone, Debug, PartialEq, Default)]
pub(super) struct Cell {
    pub label: String,
    pub values: Vec<(Axis, f64)>,
    pub settings: Map<String, Value>,
}

/// The points of the lists, the last list varying fastest.
fn cells(axes: &[(Axis, Vec<Value>)], topology: Topology) -> Result<Vec<Cell>, String> {
    let empty = Cell::default();
    let cells = match topology {
        Topology::Zip => {
            let length = axes.first().map_or(0, |(_, values)| values.len());
            if let Some((axis, values)) = axes.iter().find(|(_, values)| values.len() != length) {
                let count = values.len();
                return Err(format!(
                    "--{}: {count} values; with --sweep-type zip all lists have as many as \
                     --{}, {length}",
                    axis.flag, axes[0].0.flag
                ));
            }
            let at = |index: usize| {
                let each = axes.iter();
                each.fold(empty.clone(), |cell, (axis, all)| {
                    cell.with(*axis, &all[index])
                })
            };
            (0..length).map(at).collect()
        }
        Topology::Grid => axes.iter().fold(vec![empty], |cells, (axis, values)| {
            let with = |cell: &Cell| values.iter().map(|v| cell.with(*axis, v)).collect();
            cells.iter().flat_map::<Vec<Cell>, _>(with).collect()
        }),
    };
    if let Some(twice) = axis::first_twice(cells.iter().map(|cell| &cell.label)) {
        return Err(format!(
            "--sweep-type zip: the point {twice} is there twice"
        ));
    }
    Ok(cells)
}

impl Cell {
    fn with(&self, axis: Axis, value: &Value) -> Cell {
        let mut cell = self.clone();
        if !cell.label.is_empty() {
            cell.label.push_str("__");
        }
        let number = axis::number(value);
        cell.label.push_str(&format!("{}_{number}", axis.key));
        cell.values.push((axis, number));
        cell.settings.insert(axis.key.into(), value.clone());
        cell
    }
}

impl SweepDraft {
    /// One run has no use for these. Errors name the first that is given.
    fn unused(&self) -> Result<(), String> {
        let given = super::check::given_of(&[
            ("until-saturated", self.until_saturated == Some(true)),
            ("resume", self.resume == Some(true)),
            (
                "enable-checkpointing",
                self.enable_checkpointing == Some(true),
            ),
            ("convergence-metric", self.convergence_metric.is_some()),
            ("slo", self.slo.is_some()),
            ("sweep-type", self.sweep_type.is_some()),
        ]);
        given.map_or(Ok(()), |flag| {
            Err(format!(
                "--{flag}: it is for many runs; give a list as in --concurrency 1,2,4 or \
                 --num-profile-runs N, or leave it out"
            ))
        })
    }

    fn order(&self) -> Result<Order, ConfigError> {
        match self.parameter_sweep_mode.as_deref() {
            None | Some("repeated") => Ok(Order::Repeated),
            Some("independent") => Ok(Order::Independent),
            Some(other) => no(
                "parameter-sweep-mode",
                format!("`{other}`; give repeated or independent"),
            ),
        }
    }

    fn price(&self) -> Result<Option<f64>, ConfigError> {
        match self.price_per_hour {
            Some(price) if !(price.is_finite() && price >= 0.0) => {
                no("price-per-hour", format!("{price:?}; give 0 or more"))
            }
            price => Ok(price),
        }
    }

    fn repeats(&self) -> Result<Repeats, ConfigError> {
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
            let given = super::check::given_of(&[
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
