//! Many runs of one command: which settings vary, how often each run is repeated, and what follows
//! from it for the settings of each run.

use super::axis::{self, Axis};
use super::check::{given_of, no, seconds};
use super::recipe::{Expansion, PostProcess, RunGiven, SearchDraft};
use super::repeats::Repeats;
use super::search::SearchSpec;
use super::{Checked, Config, ConfigError, Draft, Many};
use crate::base::{Ns, limits};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// Begins the note on a number of requests that nobody gave: one is enough for all points.
const NO_STOP: &str = "no stop condition";

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
    #[serde(deserialize_with = "joined")]
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

/// A list as it is typed, or as a file has it.
fn joined<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let value = Value::deserialize(deserializer)?;
    let found = match &value {
        Value::Array(values) => {
            let each: Option<Vec<String>> = values.iter().map(text).collect();
            each.map(|each| each.join(","))
        }
        value => text(value),
    };
    found
        .map(Some)
        .ok_or_else(|| D::Error::custom("give numbers"))
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
    /// It picks the points; then there is only the first of them.
    pub search: Option<SearchSpec>,
    /// A recipe, and what is made of the points in the end.
    pub post: Option<(String, PostProcess)>,
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
        let with = |cell: Cell, (axis, value): &(Axis, f64)| cell.with(*axis, &axis::value(*value));
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
    /// Of a search, or of a recipe.
    pub search: SearchDraft,
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
        let (search, post) = self.take_search(&mut notes).map_err(text)?;
        self.take_sweep_type(&mut notes).map_err(text)?;
        let topology = self.topology();
        let axes = axis::take(&mut self.run, topology)?;
        let variants = self.sweep.variant.take().map(|given| given.list());
        let repeats = self.sweep.repeats().map_err(text)?;
        let template = Template {
            settings: std::mem::take(&mut self.run),
            command_line: self.command_line.into(),
        };
        if let Some(spec) = search {
            if !axes.is_empty() || variants.is_some() || repeats.count > 1 {
                let text = "--search: it picks the points and repeats them itself; leave lists, \
                            --variant and --num-profile-runs out";
                return Err(text.into());
            }
            return self.searched(spec, repeats, template, notes);
        }
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
            None => cells(&axes, topology)?,
        };
        let asked = self.many(axes, cells, repeats, template, notes)?;
        Ok(Asked::Many(Sweep { post, ..asked }))
    }

    /// A search begins with its lowest load as its only point.
    fn searched(
        self,
        spec: SearchSpec,
        repeats: Repeats,
        mut template: Template,
        notes: Vec<String>,
    ) -> Result<Asked, String> {
        let axis = axis::find(spec.axis.name()).ok_or("--search: no such axis")?;
        if template.settings.contains_key(axis.key) {
            let text = "--search gives it its values; leave it out";
            return Err(format!("--{}: {text}", axis.flag));
        }
        if let Some(requests) = spec.requests {
            template
                .settings
                .insert("request_count".into(), requests.into());
        }
        let first = Cell::default().with(axis, &axis::value(spec.lo));
        let sweep = self.many(Vec::new(), vec![first], repeats, template, notes)?;
        Ok(Asked::Many(Sweep {
            axes: vec![(axis, Vec::new())],
            repeats: Repeats {
                // Each probe stands for itself.
                warms_first_only: false,
                ..sweep.repeats
            },
            search: Some(spec),
            ..sweep
        }))
    }

    /// A search, or the lists and the evaluation of a recipe, where one is asked for.
    #[expect(clippy::type_complexity, reason = "two of them, told apart")]
    fn take_search(
        &mut self,
        notes: &mut Vec<String>,
    ) -> Result<(Option<SearchSpec>, Option<(String, PostProcess)>), ConfigError> {
        let has = |key| self.run.contains_key(key);
        let given = RunGiven {
            request_count: has("request_count"),
            duration: has("benchmark_duration"),
            goodput: has("goodput"),
            streaming: self.run.get("streaming") == Some(&Value::Bool(true)),
        };
        let Some(expanded) = self.search.check(given)? else {
            return Ok((None, None));
        };
        notes.extend(expanded.notes);
        match expanded.expansion {
            Expansion::Search(spec) => Ok((Some(spec), None)),
            Expansion::Grid {
                axes,
                zip,
                post,
                recipe,
            } => {
                for (key, values) in axes {
                    if self.run.contains_key(key) {
                        let text = format!("it gives {key} its values; leave that out");
                        return no("search-recipe", text);
                    }
                    let values = values.into_iter().map(axis::value).collect();
                    self.run.insert(key.into(), Value::Array(values));
                }
                if zip {
                    self.sweep.sweep_type = Some("zip".into());
                }
                Ok((None, Some((recipe, post))))
            }
        }
    }

    fn many(
        self,
        axes: Vec<(Axis, Vec<Value>)>,
        cells: Vec<Cell>,
        repeats: Repeats,
        template: Template,
        mut notes: Vec<String>,
    ) -> Result<Sweep, String> {
        if self.sweep.until_saturated == Some(true)
            && !matches!(&axes[..], [(only, _)] if only.is_load)
        {
            return Err(
                "--until-saturated: it goes with one list, of a load: --sweep-type \
                        concurrency or request_rate, or as in --concurrency 1,2,4"
                    .into(),
            );
        }
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
            add_new(&mut notes, more);
            variations.push(variation);
        }
        let draft = self.sweep;
        let settings = &template.settings;
        let fingerprint = super::fingerprint::of(settings, &repeats, &draft, &variations[0])?;
        let slos = draft.slo.as_ref().map(Many::list).unwrap_or_default();
        let numbers = |values: Vec<Value>| values.iter().map(axis::number).collect();
        Ok(Sweep {
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
            search: None,
            post: None,
        })
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
        if let Some(given) = self.run.get(axis.key) {
            notes.push(format!(
                "--{} {given}: --sweep-type {name} gives it its values",
                axis.flag
            ));
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

/// Notes of a further point, those left out that all points have.
fn add_new(notes: &mut Vec<String>, more: Vec<String>) {
    let is_count = |note: &String| note.starts_with(NO_STOP);
    for note in more {
        let is_known = notes.contains(&note) || is_count(&note) && notes.iter().any(is_count);
        if !is_known {
            notes.push(note);
        }
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
        let given = given_of(&[
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(run: Value, sweep: Value, layout: Layout) -> Result<Asked, String> {
        let Value::Object(mut run) = run else {
            panic!("no object")
        };
        run.insert("model".into(), "m".into());
        Typed {
            run,
            sweep: serde_json::from_value(sweep).unwrap(),
            search: SearchDraft::default(),
            layout,
            key: &|name| Ok(name.replace('-', "_")),
            command_line: "tokenring",
        }
        .check()
    }

    fn sweep(run: Value, sweep: Value) -> Sweep {
        match asked(run, sweep, Layout::Profile).unwrap() {
            Asked::Many(sweep) => sweep,
            Asked::One(_) => panic!("one run"),
        }
    }

    fn labels(sweep: &Sweep) -> Vec<&str> {
        sweep
            .variations
            .iter()
            .map(|point| point.label.as_str())
            .collect()
    }

    #[test]
    fn lists_are_a_grid_or_pairs_and_every_point_is_checked_for_itself() {
        let lists = || json!({"concurrency": [1, 4], "isl": [8, 16]});
        let grid = sweep(lists(), json!({}));
        assert_eq!(
            labels(&grid),
            [
                "isl_8__concurrency_1",
                "isl_8__concurrency_4",
                "isl_16__concurrency_1",
                "isl_16__concurrency_4"
            ]
        );
        let last = &grid.variations[3].config;
        assert_eq!((last.isl.mean, last.load().slots()), (16.0, Some(4)));
        let zip = sweep(lists(), json!({"sweep_type": "zip"}));
        assert_eq!(
            labels(&zip),
            ["isl_8__concurrency_1", "isl_16__concurrency_4"]
        );
        let error = asked(json!({"concurrency": [1, 0]}), json!({}), Layout::Profile).unwrap_err();
        assert!(
            error.contains("--concurrency") && error.contains("concurrency_0"),
            "{error}"
        );
    }

    #[test]
    fn a_single_value_is_one_run_and_a_list_of_one_too() {
        for run in [json!({"concurrency": 2}), json!({"concurrency": [2]})] {
            let found = asked(run, json!({}), Layout::Profile).unwrap();
            let Asked::One(checked) = found else {
                panic!("many")
            };
            assert_eq!(checked.config.load().slots(), Some(2));
        }
        assert!(
            asked(json!({}), json!({}), Layout::Analyze)
                .unwrap_err()
                .contains("nothing varies")
        );
        let repeats = sweep(json!({}), json!({"num_profile_runs": 2}));
        assert_eq!((labels(&repeats), repeats.repeats.count), (vec![""], 2));
    }

    #[test]
    fn a_fingerprint_holds_what_changes_the_result_and_no_secret() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            r#"{"points":[{"time_s":0,"qps":5},{"time_s":9,"qps":5}]}"#,
        )
        .unwrap();
        let of = |key: &str, ui: &str| {
            let run = json!({
                "num_users": null, "api_key": key, "ui": ui, "isl": [8, 16],
                "request_rate_series": file.path().display().to_string(),
                "header": ["Authorization: Bearer sk-header-secret"],
            });
            let Value::Object(mut run) = run else {
                panic!()
            };
            run.shift_remove("num_users");
            sweep(run.into(), json!({})).fingerprint
        };
        let one = of("sk-0123456789", "none");
        assert_eq!(one, of("sk-9876543210", "simple"));
        let text = serde_json::to_string(&one).unwrap();
        assert!(!text.contains("sk-"), "{text}");
        let content = "request_rate_series (its content)";
        let before = one[content].clone();
        std::fs::write(
            file.path(),
            r#"{"points":[{"time_s":0,"qps":6},{"time_s":9,"qps":5}]}"#,
        )
        .unwrap();
        assert_ne!(of("sk-0123456789", "none")[content], before);
        assert!(!one.contains_key("isl"), "what varies is in each run");
    }
}
