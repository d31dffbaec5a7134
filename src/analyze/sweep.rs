//! A sweep: one run after the other, each kept as soon as it is over; then what they amount to.

use super::cell::{self, Cell};
use super::redraw::redraw;
use super::seek;
use super::summary;
use crate::archive::{Checkpoint, RunDir, put_aside};
use crate::base::{Exit, Ns, limits};
use crate::config::{Order, PostProcess, Sweep, Variation};
use crate::profile::{self, Bench, Early, Launch, Recorded, Signals};
use crate::report;
use crate::stats::convergence::{Criterion, RUNS_MIN};
use crate::stats::gate::{Gate, Limit, subject};
use crate::stats::many::{RunRecord, Runs, Varied};
use crate::view::tell;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Points that `--until-saturated` adds at the most: a load a million times the last one's.
const FURTHER_MAX: usize = 20;
/// How soon a signal ends a pause.
const LISTEN: Duration = Duration::from_millis(20);

/// A sweep that is over, and reported.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How.
    pub exit: Exit,
    /// The folder that those of its runs lie in.
    pub parent: PathBuf,
    /// Its runs.
    pub runs: Vec<RunRecord>,
}

/// Runs a sweep or repeats, reports, and says how all of it ended.
pub fn sweep(sweep: Sweep, launch: Launch) -> Exit {
    run_all(sweep, launch).map_or_else(|exit| exit, |ended| ended.exit)
}

/// The same, for whoever makes more of its runs. Errors: the exit of one that has none.
pub fn run_all(sweep: Sweep, launch: Launch) -> Result<Ended, Exit> {
    let secrets = profile::secrets(&sweep.variations[0].config);
    let told = |early: Early| {
        tell(&format!("error: {}", secrets.shown(&early.text)));
        early.exit
    };
    for note in &launch.notes {
        tell(&format!("note: {}", secrets.shown(note)));
    }
    if sweep.variations[0].config.dry_run {
        let checked = slos(&sweep).and_then(|_| settles(&sweep)).map(|_| ());
        return Err(match checked {
            Ok(()) => dry_run(&sweep, launch),
            Err(early) => told(early),
        });
    }
    let begun = Signals::heard()
        .and_then(|heard| Course::begin(sweep, Bench::new(launch, heard.clone()), heard));
    begun.and_then(Course::carry_out).map_err(told)
}

/// Shows what would be run, and the first run's plan.
fn dry_run(sweep: &Sweep, launch: Launch) -> Exit {
    let labels: Vec<&str> = sweep.variations.iter().map(|v| v.label.as_str()).collect();
    let count = labels.len() * sweep.repeats.count as usize;
    tell(&format!(
        "{count} runs; points: {}; the first of them:",
        labels.join(", ")
    ));
    profile::run(sweep.variations[0].config.clone(), launch)
}

/// How far a sweep is.
pub(super) struct Course {
    pub(super) sweep: Sweep,
    slos: Vec<Gate>,
    /// Metric and statistic by which repeats may end early.
    settles: Option<(&'static str, &'static str)>,
    bench: Bench,
    signals: Signals,
    parent: PathBuf,
    seed: u64,
    checkpoint: Checkpoint,
    /// Another sweep's checkpoint lies in its place.
    is_stale: bool,
    /// As given, or as the server says.
    model: Option<String>,
    pub(super) runs: Vec<RunRecord>,
    exit: Exit,
    /// Why it does not go on.
    pub(super) ended: Option<String>,
}

impl Course {
    /// Finds out what is over already. Errors: bad conditions, a checkpoint that does not fit.
    fn begin(sweep: Sweep, bench: Bench, signals: Signals) -> Result<Course, Early> {
        let slos = slos(&sweep)?;
        let settles = settles(&sweep)?;
        let parent = cell::parent(&sweep);
        let folder = sweep
            .checkpoint_dir
            .clone()
            .unwrap_or_else(|| parent.clone());
        if let (Err(error), true) = (RunDir::check(&folder, &[]), sweep.checkpoint_dir.is_some()) {
            let text = format!("--checkpoint-dir {}: {}", folder.display(), error.source);
            return Err(Early::usage(text));
        }
        let first = &sweep.variations[0].config;
        let seed = first.seed & limits::RANDOM_SEED_MAX;
        let mut is_stale = false;
        let new = || Checkpoint::new(&folder, sweep.fingerprint.clone(), seed);
        let checkpoint = match (Checkpoint::read(&folder), sweep.resumes) {
            (Ok(Some(found)), true) => {
                found.check(&sweep.fingerprint).map_err(Early::usage)?;
                let count = found.runs().len();
                tell(&format!(
                    "note: {count} runs are taken from {}",
                    found.path().display()
                ));
                found
            }
            (Err(text), true) => return Err(Early::usage(format!("--resume: {text}"))),
            (Ok(None), true) if sweep.keeps_checkpoint => new(),
            (Ok(None), true) => {
                let text = format!(
                    "--resume: no checkpoint in {}: the sweep begins at its first point",
                    folder.display()
                );
                tell(&format!("note: {text}"));
                new()
            }
            (Ok(None), false) => new(),
            (_, false) => {
                is_stale = true;
                let text = "a checkpoint of an earlier sweep is moved aside; --resume would go on \
                            where that has ended";
                tell(&format!("note: {text}"));
                new()
            }
        };
        Ok(Course {
            seed: checkpoint.seed(),
            is_stale,
            model: first.model.clone(),
            sweep,
            slos,
            settles,
            bench,
            signals,
            parent,
            checkpoint,
            runs: Vec::new(),
            exit: Exit::Ok,
            ended: None,
        })
    }

    /// Runs all, reports, and says how it ended. Errors: what ends the very first run.
    fn carry_out(mut self) -> Result<Ended, Early> {
        let found = match self.sweep.search.clone() {
            Some(spec) => Some(seek::seek(&mut self, &spec)?),
            None => {
                self.run_all()?;
                None
            }
        };
        if self.sweep.until_saturated {
            self.go_on()?;
        }
        if let (Some(text), true) = (&self.ended, self.runs.is_empty()) {
            return Err(Early::new(
                self.exit,
                format!("{text}: there are no results"),
            ));
        }
        let has_failed = self.runs.iter().any(|run| run.fault.is_some());
        let mut runs = self.summed_up(self.ended.is_none() && !has_failed);
        if runs.trials > 1 {
            runs.redrawn = redraw(&runs, &self.parent);
        }
        let published = summary::publish(&runs, &self.sweep, found.as_ref(), &self.parent);
        let mut exit = self.exit.worse(published);
        let is_lost = published != Exit::Ok && !has_failed;
        if let Some(text) = &self.ended {
            tell(&format!("{text}; --resume goes on from here"));
        } else if has_failed {
            tell("some runs have failed; --resume runs them again");
        } else if is_lost {
            tell("the report could not be written: --resume writes it again, and runs nothing");
        } else if !self.sweep.keeps_checkpoint
            && let Err(error) = self.checkpoint.remove()
        {
            tell(&format!("error: {error}"));
            exit = exit.worse(Exit::Partial);
        }
        Ok(Ended {
            exit,
            parent: self.parent,
            runs: self.runs,
        })
    }

    /// All points and repeats, in their order.
    fn run_all(&mut self) -> Result<(), Early> {
        for (index, trial) in order(&self.sweep) {
            let variation = self.sweep.variations[index].clone();
            self.step(&variation, trial)?;
            if self.ended.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Doubles the load beyond the last point until the knee is there. The settings have but one
    /// list, of a load.
    fn go_on(&mut self) -> Result<(), Early> {
        let Some((axis, _)) = self.sweep.axes.first().cloned() else {
            return Ok(());
        };
        for _ in 0..FURTHER_MAX {
            let knees = self.summed_up(true).knees();
            if self.ended.is_some() || knees.iter().any(|(_, knee)| knee.is_reached()) {
                return Ok(());
            }
            let loads = self.runs.iter().filter_map(|run| run.value(axis.key));
            let last = loads.fold(0.0, f64::max);
            if let Some(why) = self.limit(axis.key, last) {
                tell(&format!("note: --until-saturated ends: {why}"));
                return Ok(());
            }
            let next = 2.0 * last;
            if next > f64::from(limits::CONCURRENCY_MAX) {
                return Ok(());
            }
            let (variation, _) = self
                .sweep
                .template
                .at(&[(axis, next)])
                .map_err(Early::usage)?;
            self.sweep.axes[0].1.push(next);
            self.sweep.variations.push(variation.clone());
            for trial in 0..self.sweep.repeats.count {
                self.step(&variation, trial)?;
                if self.ended.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Why more load than the last would tell nothing of the server.
    fn limit(&self, key: &str, last: f64) -> Option<&'static str> {
        let mut of_last = self.runs.iter().filter(|run| run.value(key) == Some(last));
        let allows_invalid = self.sweep.variations[0].config.allow_invalid;
        if !allows_invalid && of_last.any(RunRecord::is_invalid) {
            return Some(
                "the last point is INVALID, the client or its machine had its limit there; \
                 --allow-invalid goes on",
            );
        }
        self.runs.iter().any(|run| run.is_short).then_some(
            "the last point has fewer requests than it was to have in flight; give a higher \
             --request-count, or a duration",
        )
    }

    /// One run, unless it is over already or its point has converged. Errors: what ends the first.
    pub(super) fn step(&mut self, variation: &Variation, trial: u32) -> Result<(), Early> {
        let of = |run: &RunRecord| run.label == variation.label;
        let is_it = |run: &&RunRecord| of(run) && run.trial == trial;
        // Each is made once: what is there is an earlier command's.
        if let Some(run) = self.checkpoint.runs().iter().find(is_it).cloned() {
            self.keep(run, false);
            return Ok(());
        }
        if self.has_converged(&variation.label) {
            return Ok(());
        }
        if !self.runs.is_empty() {
            let is_new_point = !self.runs.iter().any(of);
            self.pause(match is_new_point {
                true => self.sweep.cooldown.max(self.sweep.repeats.cooldown),
                false => self.sweep.repeats.cooldown,
            });
            if self.signals.count() > 0 {
                self.stop(self.signals.exit(), "stopped");
                return Ok(());
            }
        }
        let cell = Cell {
            sweep: &self.sweep,
            variation,
            trial,
            number: self.runs.len(),
            seed: self.seed,
            parent: &self.parent,
        };
        let config = cell.config();
        match self.bench.record(config.clone()) {
            Ok(recorded) => self.take(
                cell::record(&config, &recorded, variation, &self.parent),
                &recorded,
            ),
            Err(early) if self.runs.is_empty() => return Err(early),
            Err(early) => {
                tell(&format!("error: {}", early.text));
                self.stop(early.exit, &format!("{} could not be run", variation.label));
            }
        }
        Ok(())
    }

    /// Takes what a run has left; a signal has made it worthless for the sweep.
    fn take(&mut self, run: RunRecord, recorded: &Recorded) {
        if recorded.summary.was_cancelled {
            return self.stop(self.signals.exit(), "stopped");
        }
        self.exit = self.exit.worse(recorded.exit);
        self.model = self.bench.model().map(String::from).or(self.model.take());
        if recorded.exit == Exit::Unreachable {
            // The server may be gone: the next run looks for it anew, and ends the sweep if so.
            self.bench.forget_server();
        }
        self.keep(run, true);
    }

    /// Takes a run in, of this command or of its checkpoint: it is judged by what is asked now.
    fn keep(&mut self, mut run: RunRecord, is_new: bool) {
        let config = &self.sweep.variations[0].config;
        run.failed_asserts = cell::failed_asserts(config, &run.figures);
        if run.is_invalid() && !config.allow_invalid {
            self.exit = self.exit.worse(Exit::Invalid);
        }
        if !run.failed_asserts.is_empty() {
            self.exit = self.exit.worse(Exit::Threshold);
        }
        if self.sweep.shows_rows {
            let number = self.runs.len() + 1;
            let of = self
                .planned()
                .map_or(String::new(), |planned| format!("/{planned}"));
            tell(&format!("[{number}{of}] {}", report::many::row(&run)));
        }
        // One that failed is tried again by --resume.
        if is_new && run.fault.is_none() {
            let moved = match std::mem::take(&mut self.is_stale) {
                true => put_aside(self.checkpoint.path()),
                false => Ok(()),
            };
            if let Err(error) = moved.and_then(|()| self.checkpoint.add(run.clone())) {
                tell(&format!("error: {error}"));
                self.exit = self.exit.worse(Exit::Partial);
            }
        }
        self.runs.push(run);
    }

    fn stop(&mut self, exit: Exit, why: &str) {
        self.exit = self.exit.worse(exit);
        let count = self.runs.len();
        let of = self
            .planned()
            .map_or(String::new(), |planned| format!(" of {planned}"));
        self.ended = Some(format!("{why}: {count}{of} runs are over"));
    }

    /// Runs in all, where that is known before.
    fn planned(&self) -> Option<usize> {
        let count = self.sweep.variations.len() * self.sweep.repeats.count as usize;
        self.sweep.search.is_none().then_some(count)
    }

    fn pause(&self, length: Ns) {
        let end = crate::base::now() + length;
        while crate::base::now() < end && self.signals.count() == 0 {
            thread::sleep(LISTEN.min(Duration::from_nanos(end.0)));
        }
    }

    /// Are the repeats of a point enough?
    fn has_converged(&self, label: &str) -> bool {
        let Some(wanted) = &self.sweep.repeats.convergence else {
            return false;
        };
        let own: Vec<&RunRecord> = self.runs.iter().filter(|run| run.label == label).collect();
        let Some((tag, stat)) = &self.settles else {
            return false;
        };
        let values: Vec<f64> = own
            .iter()
            .filter_map(|run| run.figures.get(tag, stat))
            .collect();
        let criterion = cell::criterion(wanted, self.sweep.repeats.level);
        let needs_requests = matches!(criterion, Criterion::Distribution { .. });
        let [before, last] = match needs_requests && values.len() >= RUNS_MIN {
            true => cell::last_two(&own, tag, &self.parent),
            false => Default::default(),
        };
        criterion.is_met(&values, [&before, &last])
    }

    fn summed_up(&self, is_complete: bool) -> Runs {
        let sweep = &self.sweep;
        let varied = |(axis, values): &(crate::config::Axis, Vec<f64>)| Varied {
            key: axis.key,
            header: axis.header,
            is_load: axis.is_load,
            values: values.clone(),
        };
        Runs {
            model: self.model.clone().unwrap_or("model".into()),
            axes: sweep.axes.iter().map(varied).collect(),
            points: points(sweep),
            is_search: sweep.search.is_some(),
            redrawn: Vec::new(),
            allows_invalid: sweep.variations[0].config.allow_invalid,
            trials: sweep.repeats.count,
            runs: self.runs.clone(),
            is_complete,
            slos: self.slos.clone(),
            price_per_hour: sweep.price_per_hour,
            level: sweep.repeats.level,
            cooldown_s: sweep.repeats.cooldown.as_secs(),
            order: match sweep.order {
                Order::Repeated => "repeated",
                Order::Independent => "independent",
            },
        }
    }
}

/// The labels of the points: as planned, of a search by their load.
fn points(sweep: &Sweep) -> Vec<String> {
    let mut points: Vec<&Variation> = sweep.variations.iter().collect();
    if sweep.search.is_some() {
        let load = |point: &Variation| point.values.first().map_or(0.0, |(_, load)| *load);
        points.sort_by(|a, b| load(a).total_cmp(&load(b)));
    }
    points.iter().map(|point| point.label.clone()).collect()
}

/// Points and repeats in their order: the point's number and the repeat's.
fn order(sweep: &Sweep) -> Vec<(usize, u32)> {
    let points = 0..sweep.variations.len();
    let trials = 0..sweep.repeats.count;
    match sweep.order {
        Order::Repeated => trials
            .flat_map(|trial| points.clone().map(move |point| (point, trial)))
            .collect(),
        Order::Independent => points
            .flat_map(|point| trials.clone().map(move |trial| (point, trial)))
            .collect(),
    }
}

/// The service levels of a good point; TTFT p99 below 500 ms where none is given and there is one.
fn slos(sweep: &Sweep) -> Result<Vec<Gate>, Early> {
    if let Some((_, PostProcess::Knee { tag, stat, .. })) = &sweep.post {
        known(tag, stat).map_err(|error| {
            Early::usage(format!(
                "--degradation-metric-tag, --degradation-stat: {error}"
            ))
        })?;
    }
    if let Some(spec) = &sweep.search {
        known(&spec.objective.tag, &spec.objective.stat)
            .map_err(|error| Early::usage(format!("--search-metric, --search-stat: {error}")))?;
        return seek::slos(spec);
    }
    if sweep.slos.is_empty() {
        let streams = sweep.variations[0].config.streaming;
        let usual = streams.then(|| Gate::parse("p99(time_to_first_token)<500ms"));
        let usual: Result<Option<Gate>, String> = usual.transpose();
        return usual
            .map(|gate| gate.into_iter().collect())
            .map_err(Early::usage);
    }
    let parse = |text: &String| match Gate::parse(text) {
        Ok(gate) if matches!(gate.limit, Limit::Absolute(_)) => Ok(gate),
        Ok(_) => Err(Early::usage(format!(
            "--slo {text}: give a limit with no sign, as in <500ms"
        ))),
        Err(error) => Err(Early::usage(format!("--slo: {error}"))),
    };
    sweep.slos.iter().map(parse).collect()
}

/// Metric and statistic of `--convergence-metric`, under any of its names.
fn settles(sweep: &Sweep) -> Result<Option<(&'static str, &'static str)>, Early> {
    let Some(wanted) = &sweep.repeats.convergence else {
        return Ok(None);
    };
    match known(&wanted.metric, &wanted.stat) {
        Ok(found) => Ok(Some(found)),
        Err(error) => Err(Early::usage(format!("--convergence-metric: {error}"))),
    }
}

/// A metric and a statistic under any of their names. Errors: there is none such.
fn known(metric: &str, stat: &str) -> Result<(&'static str, &'static str), String> {
    let (metric, stat) = subject(&format!("{stat}({metric})"))?;
    Ok((metric.tag, stat))
}
