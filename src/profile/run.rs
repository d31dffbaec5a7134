//! The run from start to exit code, alone or one of many.

use super::early::Early;
use super::environment;
use super::files::{self, RecordFiles};
use super::hooks::Profiler;
use super::outcome::{self, Measured, Recorded};
use super::prepare::{self, Prepared, Ready};
use super::records::{self, RecordOutcome, RecordPlan};
use super::route;
use super::setup;
use super::signals::Signals;
use super::steps::Steps;
use super::stops::{Backlog, Windows};
use super::watch;
use crate::archive::RunDir;
use crate::base::{Anchor, Exit, Ns, limits, now};
use crate::config::{Config, ExportLevel, Reuse};
use crate::endpoint::Endpoint;
use crate::engine::{CoreOutput, CorePlan, RequestLimits, Stop, Worker};
use crate::report::RunInfo;
use crate::stats::{AccumulateOptions, Accumulator, Buffers, Environment, Record, Summary};
use crate::view::tell;
use crossbeam_channel::{Sender, bounded};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

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

/// A run that is over.
struct Driven {
    /// Absent for one run of many.
    dir: Option<RunDir>,
    info: RunInfo,
    outputs: Vec<CoreOutput>,
    records: RecordOutcome,
    environment: Environment,
    backlog: Backlog,
}

/// Runs a benchmark and says how it ended. Messages go to stderr, the report to stdout.
pub fn run(config: Config, launch: Launch) -> Exit {
    let secrets = outcome::secrets(&config);
    let measured = Signals::heard().and_then(|signals| {
        for note in &launch.notes {
            tell(&format!("note: {}", secrets.shown(note)));
        }
        let mut bench = Bench::new(launch, signals);
        bench.carry_out(config, outcome::conclude)
    });
    match measured {
        Ok(exit) => exit.unwrap_or(Exit::Ok),
        Err(early) => {
            if !early.text.is_empty() {
                tell(&format!("error: {}", secrets.shown(&early.text)));
            }
            early.exit
        }
    }
}

/// Runs one benchmark after the other: tokenizer, servers met, workers and their connections stay
/// from run to run.
pub struct Bench {
    launch: Launch,
    signals: Signals,
    ready: Ready,
    has_run: bool,
    /// With the CPUs that they are pinned to.
    crew: (Vec<usize>, Vec<Worker>),
}

impl Bench {
    /// Before the first run.
    pub fn new(launch: Launch, signals: Signals) -> Bench {
        Bench {
            launch,
            signals,
            ready: Ready::default(),
            has_run: false,
            crew: (Vec::new(), Vec::new()),
        }
    }

    /// The model of the runs so far, as given or as the server says.
    pub fn model(&self) -> Option<&str> {
        self.ready.model()
    }

    /// Meets the server anew before the next run.
    pub fn forget_server(&mut self) {
        self.ready.forget_server();
    }

    /// One run of many: gives its summary, prints no report and leaves no file. A signal ends it,
    /// and the caller hears of that too. Errors: what ends a run before its first request.
    pub fn summarize(&mut self, config: Config) -> Result<Summary, Early> {
        let config = Config {
            export_level: ExportLevel::Nothing,
            ..config
        };
        Ok(self.record(config)?.summary)
    }

    /// One run of many: writes its files, as far as the configuration asks for some, and prints no
    /// report. Errors: what ends a run before its first request.
    pub fn record(&mut self, config: Config) -> Result<Recorded, Early> {
        let secrets = outcome::secrets(&config);
        match self.carry_out(config, outcome::record) {
            Ok(Some(recorded)) => Ok(recorded),
            Ok(None) => Err(Early::usage("a dry run has no result")),
            Err(early) => Err(Early::new(early.exit, secrets.shown(&early.text))),
        }
    }

    /// Prepares and runs; `finish` makes what it is to give of what is over. `None` after a dry
    /// run.
    fn carry_out<T>(
        &mut self,
        config: Config,
        finish: impl FnOnce(&outcome::Run<'_>, Measured) -> T,
    ) -> Result<Option<T>, Early> {
        let (mut launch, signals) = (self.launch.clone(), self.signals.clone());
        // Only the first run has the launch behind it.
        if std::mem::replace(&mut self.has_run, true) {
            launch.at = now();
        }
        let steps = Steps::new(config.verbose, launch.at);
        let prepared = prepare::prepare(config, &launch, &signals, &steps, &mut self.ready)?;
        let Some(prepared) = prepared else {
            return Ok(None);
        };
        let mut profiler = Profiler::begin(&prepared, &signals, &steps)?;
        let driven = self.drive(&prepared, &steps, launch.at)?;
        profiler.iter_mut().for_each(Profiler::end);
        let startup = prepared
            .pace
            .started()
            .map(|start| start.saturating_since(launch.at));
        let run = outcome::Run {
            config: &prepared.config,
            choice: &prepared.choice,
            pace: &prepared.pace,
            failures: prepared.failures.as_deref(),
            payloads: &prepared.payloads,
            info: &driven.info,
            signals: &signals,
            program: launch.program.as_deref(),
            dir: driven.dir.as_ref(),
        };
        let measured = Measured {
            outputs: driven.outputs,
            records: driven.records,
            environment: driven.environment,
            backlog: driven.backlog,
            watch: prepared.watch,
            startup,
        };
        Ok(Some(finish(&run, measured)))
    }
    /// Runs the cores, the record thread and the screen to their ends.
    fn drive(&mut self, prepared: &Prepared, steps: &Steps, launched: Ns) -> Result<Driven, Early> {
        let signals = self.signals.clone();
        let signals = &signals;
        let (config, pace) = (&prepared.config, &prepared.pace);
        let (sender, receiver) = bounded(limits::RECORD_BATCHES_MAX);
        let (plans, buffers) = core_plans(prepared, &sender);
        drop(sender);
        steps.begin(format!(
            "opening {} connections",
            setup::connections(config)
        ));
        let workers = self.begin(&prepared.cores, plans)?;
        // Only now is it sure that there will be a run: an earlier one moves aside no sooner.
        let opened = watch::await_cores(prepared, workers, signals, steps).and_then(|()| {
            let settled = now() + setup::settle(setup::connections(config));
            Ok((settled, open_files(config)?))
        });
        let (settled, (dir, info, files)) = match opened {
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
            turns: config.session.is_some(),
            has_tokens: config.api.has_tokens(),
            token_count: config.token_count,
            pace: pace.clone(),
            accumulator: Accumulator::new(accumulate_options(config, info.anchor))
                .sliced(slice_length(config)),
            files,
            windows: Windows::new(config, pace),
        };
        let recorder = spawn_recorder(plan, prepared.cores.clone())
            // The workers wait for a start that does not come.
            .inspect_err(|_| pace.stop(Stop::Cancel))?;
        let watched = environment::Watch::start();
        thread::sleep(Duration::from_nanos(settled.saturating_since(now()).0));
        prepared.watch.mark_start(pace, &prepared.cores);
        pace.begin(now());
        steps.end();
        let after = now().saturating_since(launched);
        steps.mention(&format!(
            "first request {:.0} ms after launch",
            after.as_ms()
        ));
        crate::runtime::avoid(&prepared.cores);
        let backlog = watch::watch(prepared, workers, signals);
        prepared.payloads.stop();
        let outputs = join(workers)?;
        let environment = watched.finish(config, &prepared.cores, &prepared.placement);
        let records = recorder.join().map_err(|_| panicked())?;
        Ok(Driven {
            dir,
            info,
            outputs,
            records,
            environment,
            backlog,
        })
    }

    /// Gives each core its plan, to the workers of the run before where they have the same CPUs.
    fn begin(&mut self, cores: &[usize], plans: Vec<CorePlan>) -> Result<&[Worker], Early> {
        if self.crew.0 != cores {
            self.crew = (Vec::new(), Vec::new());
            let spawn = |(core, &cpu)| Worker::spawn(core, Some(cpu)).map_err(no_thread);
            let workers: Result<Vec<Worker>, Early> = cores.iter().enumerate().map(spawn).collect();
            self.crew = (cores.to_vec(), workers?);
        }
        let workers = &self.crew.1;
        workers
            .iter()
            .zip(plans)
            .for_each(|(worker, plan)| worker.begin(plan));
        Ok(workers)
    }
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

/// The folder with its files, unless the run is to leave none.
fn open_files(config: &Config) -> Result<(Option<RunDir>, RunInfo, RecordFiles), Early> {
    let wants_files = config.export_level > ExportLevel::Nothing;
    let path = wants_files.then(|| outcome::artifact_path(config));
    let open = |path| RunDir::open(path, config.overwrite, &files::names(config));
    let dir = path.as_deref().map(open).transpose();
    let dir = dir.map_err(|error| Early::usage(error.to_string()))?;
    let info = outcome::run_info(config, dir.as_ref(), Anchor::take());
    let files = RecordFiles::open(dir.as_ref(), config, info.clone());
    Ok((dir, info, files.map_err(Early::usage)?))
}

fn no_thread(error: std::io::Error) -> Early {
    Early::new(Exit::Unexpected, format!("thread: {error}"))
}

fn panicked() -> Early {
    let text = "a thread ended by a panic: please report it";
    Early::new(Exit::Unexpected, text)
}

fn join(workers: &[Worker]) -> Result<Vec<CoreOutput>, Early> {
    let output = |worker: &Worker| worker.finish().ok_or_else(panicked);
    workers.iter().map(output).collect()
}

/// The plan of each core, and the ways back for its buffers.
fn core_plans(
    prepared: &Prepared,
    records: &Sender<Vec<Record>>,
) -> (Vec<CorePlan>, Vec<Sender<Buffers>>) {
    let config = &prepared.config;
    let count = prepared.cores.len();
    let connections = setup::shares(setup::connections(config), count);
    let plan = |(core, &cpu): (usize, &usize)| {
        let (to_core, buffers) = bounded::<Buffers>(BUFFERS_BACK);
        let plan = CorePlan {
            core: u16::try_from(core).unwrap_or(u16::MAX),
            cpu: Some(cpu),
            targets: prepared.targets.clone(),
            endpoint: Endpoint::of(config),
            streaming: config.streaming,
            raw: config.keeps_events(),
            check_stamps: config.check_stamps,
            requests: prepared.payloads.clone(),
            pace: prepared.pace.clone(),
            seed: config.seed,
            limits: request_limits(config),
            failures: prepared.failures.clone(),
            dial: route::dial(config),
            keeps_connections: config.connections.reuse != Reuse::Never,
            sticky: config.connections.reuse == Reuse::Sticky,
            connections: connections[core],
            cores: count,
            batch: if config.batching { BATCH } else { Ns::ZERO },
            ring: true,
            records: records.clone(),
            buffers,
        };
        (plan, to_core)
    };
    prepared.cores.iter().enumerate().map(plan).unzip()
}

/// What may end a request before its answer does.
fn request_limits(config: &Config) -> RequestLimits {
    RequestLimits {
        connect: config.connect_timeout,
        total: config.request_timeout,
        first_token: config.first_token_timeout,
        idle: config.idle_timeout,
        cancellation: config.cancellation,
    }
}

/// Length of the time slices, where somebody reads them.
fn slice_length(config: &Config) -> Option<Ns> {
    let is_read = config.export_level > ExportLevel::Nothing;
    config.slice_duration.filter(|_| is_read)
}

fn accumulate_options(config: &Config, anchor: Anchor) -> AccumulateOptions {
    AccumulateOptions {
        streaming: config.streaming && config.api.has_tokens(),
        goodput: config
            .goodput
            .iter()
            .map(|slo| (slo.tag.clone(), slo.limit))
            .collect(),
        anchor,
        concurrency: config.load().slots(),
        capped: config.load().is_capped(),
        phases: setup::told_apart(config),
    }
}
