//! The run from start to exit code.

use super::early::Early;
use super::environment;
use super::files::{self, RecordFiles};
use super::outcome::{self, Measured};
use super::prepare::{self, Prepared};
use super::records::{self, RecordOutcome, RecordPlan};
use super::setup;
use super::signals::Signals;
use super::steps::Steps;
use super::watch::{self, Worker};
use crate::archive::RunDir;
use crate::base::{Anchor, Exit, Ns, limits, now};
use crate::config::{Config, ExportLevel, Load};
use crate::engine::{self, CoreOutput, CorePlan, Stop};
use crate::report::{RunInfo, Secrets};
use crate::stats::{AccumulateOptions, Accumulator, Buffers, Environment, Record};
use crate::view::tell;
use crossbeam_channel::{Sender, bounded};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

/// Longest wait for a batch of reads; what a stream's gaps and latencies allow may be less.
const BATCH: Ns = Ns(300_000);
/// Buffers on their way back to a core.
const BUFFERS_BACK: usize = 16_384;

/// What the binary knows and a configuration does not.
#[derive(Clone, Debug)]
pub struct Launch {
    /// When the process began.
    pub at: Ns,
    /// The program, to start the mock of `--demo` from.
    pub program: Option<PathBuf>,
    /// Sentences for the reader about how settings were understood.
    pub notes: Vec<String>,
}

/// Runs a benchmark and says how it ended. Messages go to stderr, the report to stdout.
pub fn run(config: Config, launch: Launch) -> Exit {
    let secrets = outcome::secrets(&config);
    match measure(config, &launch, &secrets) {
        Ok(exit) => exit,
        Err(early) => {
            if !early.text.is_empty() {
                tell(&format!("error: {}", secrets.shown(&early.text)));
            }
            early.exit
        }
    }
}

fn measure(config: Config, launch: &Launch, secrets: &Secrets) -> Result<Exit, Early> {
    let signals = Signals::listen()
        .map_err(|error| Early::new(Exit::Unexpected, format!("signals: {error}")))?;
    for note in &launch.notes {
        tell(&format!("note: {}", secrets.shown(note)));
    }
    let steps = Steps::new(config.verbose, launch.at);
    let Some(prepared) = prepare::prepare(config, launch, &signals, &steps)? else {
        return Ok(Exit::Ok);
    };
    let driven = drive(&prepared, &signals, &steps, launch.at)?;
    let startup = prepared
        .pace
        .started()
        .map(|start| start.saturating_since(launch.at));
    let run = outcome::Run {
        config: &prepared.config,
        choice: &prepared.choice,
        pace: &prepared.pace,
        payloads: &prepared.payloads,
        info: &driven.info,
        signals: &signals,
        dir: &driven.dir,
    };
    let measured = Measured {
        outputs: driven.outputs,
        records: driven.records,
        environment: driven.environment,
        sampler: prepared.sampler,
        startup,
    };
    Ok(outcome::conclude(&run, measured))
}

/// A run that is over.
struct Driven {
    dir: RunDir,
    info: RunInfo,
    outputs: Vec<CoreOutput>,
    records: RecordOutcome,
    environment: Environment,
}

/// Runs the cores, the record thread and the screen to their ends.
fn drive(
    prepared: &Prepared,
    signals: &Signals,
    steps: &Steps,
    launched: Ns,
) -> Result<Driven, Early> {
    let (config, pace) = (&prepared.config, &prepared.pace);
    let (sender, receiver) = bounded(limits::RECORD_BATCHES_MAX);
    let (plans, buffers) = core_plans(prepared, &sender);
    drop(sender);
    steps.begin(format!(
        "opening {} connections",
        setup::connections(config)
    ));
    let workers = spawn_workers(plans)?;
    // Only now is it sure that there will be a run: an earlier one moves aside no sooner.
    let opened = watch::await_cores(prepared, &workers, signals, steps).and_then(|()| {
        let path = outcome::artifact_path(config);
        let dir = RunDir::open(&path, config.overwrite, &files::names(config))
            .map_err(|error| Early::usage(error.to_string()))?;
        let info = outcome::run_info(config, &dir, Anchor::take());
        let files = RecordFiles::open(&dir, config, info.clone()).map_err(Early::usage)?;
        Ok((dir, info, files))
    });
    let (dir, info, files) = match opened {
        Ok(opened) => opened,
        Err(early) => {
            pace.stop(Stop::Cancel);
            prepared.payloads.stop();
            let faults = join(workers)?.into_iter().filter_map(|output| output.fault);
            let text = faults.fold(early.text, |text, fault| format!("{text}\n  {fault}"));
            return Err(Early::new(early.exit, text));
        }
    };
    let plan = RecordPlan {
        records: receiver,
        buffers,
        tokenizer: prepared.tokenizer.clone(),
        token_count: config.token_count,
        accumulator: Accumulator::new(accumulate_options(config, info.anchor)),
        files,
    };
    let recorder = spawn_recorder(plan, prepared.cores.clone())?;
    let watched = environment::Watch::start();
    pace.begin(now());
    steps.end();
    let after = now().saturating_since(launched);
    steps.mention(&format!(
        "first request {:.0} ms after launch",
        after.as_ms()
    ));
    watch::watch(prepared, &workers, signals);
    prepared.payloads.stop();
    let outputs = join(workers)?;
    let environment = watched.finish(&prepared.cores, &prepared.placement);
    let records = recorder.join().map_err(|_| panicked())?;
    Ok(Driven {
        dir,
        info,
        outputs,
        records,
        environment,
    })
}

/// The record thread, off the workers' cores.
fn spawn_recorder(plan: RecordPlan, cores: Vec<usize>) -> Result<JoinHandle<RecordOutcome>, Early> {
    let recorder = thread::Builder::new().name("records".into());
    let work = move || {
        crate::runtime::avoid(&cores);
        records::work(plan)
    };
    recorder.spawn(work).map_err(no_thread)
}

fn no_thread(error: std::io::Error) -> Early {
    Early::new(Exit::Unexpected, format!("thread: {error}"))
}

fn panicked() -> Early {
    let text = "a thread ended by a panic: please report it";
    Early::new(Exit::Unexpected, text)
}

fn spawn_workers(plans: Vec<CorePlan>) -> Result<Vec<Worker>, Early> {
    let spawn = |plan: CorePlan| {
        thread::Builder::new()
            .name(format!("core-{}", plan.core))
            .spawn(move || engine::run(plan))
            .map_err(no_thread)
    };
    plans.into_iter().map(spawn).collect()
}

fn join(workers: Vec<Worker>) -> Result<Vec<CoreOutput>, Early> {
    let join = |worker: Worker| worker.join().map_err(|_| panicked());
    workers.into_iter().map(join).collect()
}

/// The plan of each core, and the ways back for its buffers.
fn core_plans(
    prepared: &Prepared,
    records: &Sender<Vec<Record>>,
) -> (Vec<CorePlan>, Vec<Sender<Buffers>>) {
    let config = &prepared.config;
    let count = prepared.cores.len();
    let slots = match config.load {
        Load::Concurrency(total) => setup::shares(total as usize, count),
        _ => vec![0; count],
    };
    let connections = setup::shares(setup::connections(config), count);
    let plan = |(core, &cpu): (usize, &usize)| {
        let (to_core, buffers) = bounded::<Buffers>(BUFFERS_BACK);
        let plan = CorePlan {
            core: u16::try_from(core).unwrap_or(u16::MAX),
            cpu: Some(cpu),
            targets: prepared.targets.clone(),
            api: config.api,
            streaming: config.streaming,
            raw: config.export_level == ExportLevel::Raw,
            check_stamps: config.check_stamps,
            requests: prepared.payloads.clone(),
            pace: prepared.pace.clone(),
            seed: config.seed,
            request_timeout: config.request_timeout,
            connect_timeout: config.connect_timeout,
            connections: connections[core],
            slots: slots[core],
            batch: if config.batching { BATCH } else { Ns::ZERO },
            ring: true,
            records: records.clone(),
            buffers,
        };
        (plan, to_core)
    };
    prepared.cores.iter().enumerate().map(plan).unzip()
}

fn accumulate_options(config: &Config, anchor: Anchor) -> AccumulateOptions {
    AccumulateOptions {
        streaming: config.streaming,
        goodput: config
            .goodput
            .iter()
            .map(|slo| (slo.tag.clone(), slo.limit))
            .collect(),
        anchor,
        concurrency: match config.load {
            Load::Concurrency(count) => Some(count),
            _ => None,
        },
        capped: config.load.cap().is_some(),
    }
}
