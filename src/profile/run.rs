//! The run from start to exit code.

use super::demo::Demo;
use super::files::{self, RecordFiles};
use super::outcome::{self, Measured};
use super::payload::Payloads;
use super::records::{self, RecordOutcome, RecordPlan};
use super::signals::Signals;
use super::{plan_text, preflight, setup};
use crate::archive::RunDir;
use crate::base::{Anchor, Exit, Ns, limits, now};
use crate::config::{Config, ExportLevel, Load};
use crate::engine::{self, CoreOutput, CorePlan, Pace, Requests, Stop, Target};
use crate::gpu;
use crate::report::RunInfo;
use crate::stats::{AccumulateOptions, Accumulator, Buffers, Record};
use crate::view::{Progress, Snapshot};
use crate::workload::{Tokenizer, TokenizerChoice};
use crossbeam_channel::{Sender, bounded};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longest wait for a batch of reads; what a stream's gaps and latencies allow may be less.
const BATCH: Ns = Ns(300_000);
/// Buffers on their way back to a core.
const BUFFERS_BACK: usize = 16_384;
/// How often the screen is told.
const TICK: Duration = Duration::from_millis(50);

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

/// An end before the measurement.
struct Early {
    exit: Exit,
    text: String,
}

impl Early {
    fn new(exit: Exit, text: impl Into<String>) -> Early {
        Early {
            exit,
            text: text.into(),
        }
    }
}

/// All that stands ready when the clock may start.
struct Prepared {
    config: Arc<Config>,
    targets: Arc<[Target]>,
    tokenizer: Arc<Tokenizer>,
    choice: TokenizerChoice,
    payloads: Arc<Payloads>,
    pace: Arc<Pace>,
    cores: Vec<usize>,
    dir: RunDir,
    signals: Signals,
    /// Ends the mock when dropped.
    _demo: Option<Demo>,
}

/// Runs a benchmark and says how it ended. Messages go to stderr, the report to stdout.
pub fn run(config: Config, launch: Launch) -> Exit {
    let secrets = outcome::secrets(&config);
    match measure(config, launch) {
        Ok(exit) => exit,
        Err(early) => {
            if !early.text.is_empty() {
                eprintln!("error: {}", secrets.shown(&early.text));
            }
            early.exit
        }
    }
}

fn measure(config: Config, launch: Launch) -> Result<Exit, Early> {
    let Some(prepared) = prepare(config, &launch)? else {
        return Ok(Exit::Ok);
    };
    let sampler = match prepared.config.gpu_telemetry {
        true => gpu::Sampler::start(Ns::from_ms(100)),
        false => Err(String::new()),
    };
    let info = outcome::run_info(&prepared.config, &prepared.dir, Anchor::take());
    let (outputs, records) = drive(&prepared, &info, launch.at)?;
    let startup = prepared
        .pace
        .started()
        .map(|start| start.saturating_since(launch.at));
    let run = outcome::Run {
        config: &prepared.config,
        choice: &prepared.choice,
        pace: &prepared.pace,
        payloads: &prepared.payloads,
        info: &info,
        signals: &prepared.signals,
        dir: &prepared.dir,
    };
    outcome::conclude(
        &run,
        Measured {
            outputs,
            records,
            sampler,
            startup,
        },
    )
    .map_err(|text| Early::new(Exit::Unexpected, text))
}

/// Everything up to the start. `None` after a dry run.
fn prepare(mut config: Config, launch: &Launch) -> Result<Option<Prepared>, Early> {
    let usage = |text: String| Early::new(Exit::Usage, text);
    for note in &launch.notes {
        eprintln!("note: {}", outcome::secrets(&config).shown(note));
    }
    setup::check_limits(&config).map_err(usage)?;
    let cores = setup::cores(&config).map_err(usage)?;
    let (tokenizer, choice) = Tokenizer::load(&config.tokenizer, config.model.as_deref())
        .map_err(|error| usage(error.to_string()))?;
    if choice.stands_in {
        eprintln!(
            "note: the builtin tokenizer (o200k) stands in for the model's own; give one \
                   with --tokenizer, or say `--tokenizer builtin`"
        );
    }
    let signals = Signals::listen()
        .map_err(|error| Early::new(Exit::Unexpected, format!("signals: {error}")))?;
    let demo = start_demo(&mut config, launch, &cores)?;
    let named = config.model.clone().unwrap_or_default();
    let first = setup::targets(&config, &named).map_err(usage)?;
    if !config.dry_run {
        preflight::reach(&config, &first).map_err(|t| Early::new(Exit::Unreachable, t))?;
    }
    let ask = config.preflight && !config.dry_run && setup::is_openai(config.api);
    let models = match ask || config.model.is_none() {
        true => preflight::models(&config, &first[0]),
        false => Vec::new(),
    };
    let model = preflight::model(&config, &models).map_err(usage)?;
    config.model = Some(model.clone());
    let targets: Arc<[Target]> = setup::targets(&config, &model).map_err(usage)?.into();
    let options = setup::pace(&config, cores.len()).map_err(usage)?;
    let config = Arc::new(config);
    let tokenizer = Arc::new(tokenizer);
    let payloads = setup::payloads(&config, &model, &tokenizer, &options);
    if config.dry_run {
        let text = plan_text::describe(&config, &targets[0], &payloads.get(0), &cores);
        print!("{}", outcome::secrets(&config).shown(&text));
        return Ok(None);
    }
    let path = outcome::artifact_path(&config);
    let names = files::names(&config);
    let dir = RunDir::open(&path, config.overwrite, &names);
    let dir = dir.map_err(|error| usage(error.to_string()))?;
    greet(&config, &targets, &payloads, &model, &models, &signals)?;
    Ok(Some(Prepared {
        config,
        targets,
        tokenizer,
        choice,
        payloads: Arc::new(payloads),
        pace: Arc::new(Pace::new(options)),
        cores,
        dir,
        signals,
        _demo: demo,
    }))
}

fn start_demo(
    config: &mut Config,
    launch: &Launch,
    cores: &[usize],
) -> Result<Option<Demo>, Early> {
    if !config.demo {
        return Ok(None);
    }
    let unexpected = |text: String| Early::new(Exit::Unexpected, text);
    let program = launch
        .program
        .as_ref()
        .ok_or_else(|| unexpected("--demo: no program to start".into()))?;
    // Off the workers' cores where there is another.
    let other = crate::runtime::usable()
        .into_iter()
        .find(|cpu| !cores.contains(cpu));
    let demo = Demo::start(program, other).map_err(unexpected)?;
    config.urls = vec![demo.url.clone()];
    config.model.get_or_insert_with(|| "demo".into());
    Ok(Some(demo))
}

/// Waits for the model and sends the probe, as asked.
fn greet(
    config: &Config,
    targets: &[Target],
    payloads: &Payloads,
    model: &str,
    models: &[String],
    signals: &Signals,
) -> Result<(), Early> {
    let request = payloads.get(0);
    let result = if config.wait_for_model > Ns::ZERO {
        let stopped = || signals.count() > 0;
        preflight::wait_for_model(config, &targets[0], &request, stopped)
            .map_err(|text| Early::new(Exit::Unreachable, text))
    } else if config.preflight && !config.demo {
        preflight::check(config, &targets[0], &request, model, models)
            .map_err(|text| Early::new(Exit::Usage, text))
    } else {
        Ok(())
    };
    // A signal breaks a probe off: that is then no fault of the server.
    match signals.exit() {
        Exit::Ok => result,
        exit => Err(Early::new(exit, "")),
    }
}

/// Runs the cores, the record thread and the screen to their ends.
fn drive(
    prepared: &Prepared,
    info: &RunInfo,
    launched: Ns,
) -> Result<(Vec<CoreOutput>, RecordOutcome), Early> {
    let config = &prepared.config;
    let files = RecordFiles::open(&prepared.dir, config, info.clone())
        .map_err(|text| Early::new(Exit::Usage, text))?;
    let (sender, receiver) = bounded(limits::RECORD_BATCHES_MAX);
    let (plans, back) = core_plans(prepared, &sender);
    drop(sender);
    let plan = RecordPlan {
        records: receiver,
        buffers: back,
        tokenizer: prepared.tokenizer.clone(),
        token_count: config.token_count,
        accumulator: Accumulator::new(accumulate_options(config, info.anchor)),
        files,
    };
    let cores = prepared.cores.clone();
    let spawn = |error: std::io::Error| Early::new(Exit::Unexpected, format!("thread: {error}"));
    let recorder = thread::Builder::new()
        .name("records".into())
        .spawn(move || {
            crate::runtime::avoid(&cores);
            records::work(plan)
        })
        .map_err(spawn)?;
    let mut workers = Vec::new();
    for plan in plans {
        let name = format!("core-{}", plan.core);
        let worker = thread::Builder::new()
            .name(name)
            .spawn(move || engine::run(plan));
        workers.push(worker.map_err(spawn)?);
    }
    watch(prepared, launched, || {
        workers.iter().all(thread::JoinHandle::is_finished)
    });
    prepared.payloads.stop();
    let broken = |_| {
        Early::new(
            Exit::Unexpected,
            "a thread ended by a panic: please report it",
        )
    };
    let mut outputs = Vec::new();
    for worker in workers {
        outputs.push(worker.join().map_err(broken)?);
    }
    let records = recorder.join().map_err(broken)?;
    Ok((outputs, records))
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
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
fn snapshot(pace: &Pace) -> Snapshot {
    let elapsed = pace.elapsed();
    let (done, failed) = (pace.finished_count(), pace.failed_count());
    Snapshot {
        elapsed,
        phase: match (pace.measured_from(), pace.stopping(now())) {
            (None, _) => "warm-up",
            (_, Stop::Run) => "measuring",
            _ => "draining",
        },
        sent: pace.sent_count(),
        done: done.saturating_sub(failed),
        failed,
        in_flight: u64::from(pace.in_flight()),
        ttft_ms_p50: None,
        tokens_per_s: Some(pace.events_count() as f64 / elapsed.as_secs().max(1e-9)),
    }
}

/// Starts the clock when every core is ready, then shows progress and hears signals.
fn watch(prepared: &Prepared, launched: Ns, ended: impl Fn() -> bool) {
    let (pace, config) = (&prepared.pace, &prepared.config);
    let cores = u32::try_from(prepared.cores.len()).unwrap_or(1);
    let total = pace.total();
    let mut progress = Progress::new(config.ui, total, std::io::stderr().is_terminal());
    let mut drained_since: Option<Ns> = None;
    while !ended() {
        if pace.started().is_none() {
            if pace.ready_count() >= cores {
                pace.begin(now());
                if config.verbose {
                    let after = now().saturating_since(launched);
                    eprintln!("first request {:.0} ms after launch", after.as_ms());
                }
            }
            thread::sleep(Duration::from_micros(200));
        } else {
            thread::sleep(TICK);
            progress.tick(snapshot(pace));
        }
        match prepared.signals.count() {
            0 => {}
            1 => {
                pace.stop(Stop::Drain);
                let since = *drained_since.get_or_insert_with(now);
                // Ctrl-C means soon: a short drain, not the whole grace.
                if now().saturating_since(since) > Ns::from_ms(2_000) {
                    pace.stop(Stop::Cancel);
                }
            }
            _ => pace.stop(Stop::Cancel),
        }
    }
    progress.finish();
}
