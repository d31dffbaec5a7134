//! The self-benchmark: one load after the other, what came beside what the server's stamps say.

use super::memory;
use super::plan::Options;
use crate::archive::{Calibration, OutFile, machine};
use crate::base::{Exit, Ns, clock, now};
use crate::config::Url;
use crate::profile::{self, Bench, Demo, Early, Launch, Signals};
use crate::report;
use crate::stats::capacity::{Mode, SelfBench, Step};
use crate::stats::summary::Spread;
use crate::view::{show, tell};
use std::path::{Path, PathBuf};

/// A search that has taken so long has found what it can: all of it is to take under a minute.
const SEARCH_MAX: Ns = Ns::from_ms(45_000);
/// Threads of the mock for each worker: it has more to do than the client.
const MOCK_THREADS: usize = 2;

/// Runs a self-benchmark, shows it, keeps what it has found, and says how it ended.
pub fn self_bench(options: &Options, program: &Path) -> Exit {
    match run(options, program) {
        Ok(exit) => exit,
        Err(early) => {
            tell(&format!("error: {}", early.text));
            early.exit
        }
    }
}

fn run(options: &Options, program: &Path) -> Result<Exit, Early> {
    let path = options.json.as_deref().filter(|path| *path != "-");
    let path = path.map(regular).transpose()?;
    let path = path.as_deref();
    let opened = path.map(OutFile::open).transpose();
    let fail = |error: crate::archive::ArchiveError| {
        let path = path.unwrap_or(Path::new("")).display();
        format!("--json {path}: {}: {}", error.action, error.source)
    };
    let file = opened.map_err(|error| Early::usage(fail(error)))?;
    let signals = Signals::heard()?;
    let bench = measure(options, program, &signals)?;
    let mut exit = signals.exit();
    if bench.steps.iter().all(|step| step.core.is_none()) {
        exit = exit.worse(Exit::Unreachable);
    }
    keep(options, &bench);
    let json = report::json::bytes(&report::self_bench::json(&bench));
    let shown = match (&options.json, path) {
        (Some(_), None) => show(&json),
        _ => show(report::self_bench::text(&bench).as_bytes()),
    };
    if let Err(error) = shown {
        tell(&format!("error: stdout: {error}"));
        exit = exit.worse(Exit::Unexpected);
    }
    let Some(mut file) = file else {
        return Ok(exit);
    };
    if let Err(error) = file.write(&json).and_then(|()| file.finish()) {
        tell(&format!("error: {}", fail(error)));
        exit = exit.worse(Exit::Partial);
    }
    Ok(exit)
}

/// The file that `--json` names, a link followed. Errors: something stands there that a file would
/// replace, such as a device.
fn regular(path: &Path) -> Result<PathBuf, Early> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    match path.metadata() {
        Ok(found) if !found.is_file() => {
            let path = path.display();
            let text = format!("--json {path}: no regular file; `-` writes to stdout");
            Err(Early::usage(text))
        }
        _ => Ok(path),
    }
}

/// Measures for the headroom of the run to come, and shows one line. What goes wrong is told: the
/// run can do without.
pub fn calibrate(options: &Options, program: &Path) -> Exit {
    tell("calibrating: a short self-bench before the run");
    let signals = match Signals::heard() {
        Ok(signals) => signals,
        Err(early) => return early.exit,
    };
    match measure(options, program, &signals) {
        Ok(bench) => {
            keep(options, &bench);
            tell(&report::self_bench::largest(&bench));
        }
        Err(early) => tell(&format!("note: --calibrate: {}", early.text)),
    }
    signals.exit()
}

/// All steps. Errors: what ends the first of them.
fn measure(options: &Options, program: &Path, signals: &Signals) -> Result<SelfBench, Early> {
    let began = now();
    let measured_wall_ns = clock::wall_ns();
    let largest = options.loads.iter().max().copied().unwrap_or(1);
    let widest = options.config(largest, None);
    let (client_cpus, _) = profile::cores(&widest).map_err(Early::usage)?;
    profile::check_limits(&widest)
        .map_err(|text| Early::usage(text.replace("--concurrency", "--streams")))?;
    let mock = match options.against {
        Some(_) => None,
        None => {
            let threads = MOCK_THREADS * client_cpus.len();
            let mock = Demo::start(program, &client_cpus, threads, &options.mock_flags());
            Some(mock.map_err(|text| Early::new(Exit::Unexpected, text))?)
        }
    };
    let mut bench = SelfBench {
        machine: machine(program),
        measured_wall_ns,
        mode: options.mode,
        chunk_bytes: options.chunk_bytes,
        tls: options.is_tls(),
        against: options.against.as_ref().map(Url::origin_shown),
        client_cpus,
        mock_cpus: mock.as_ref().map_or(Vec::new(), |mock| mock.cpus.clone()),
        steps: Vec::new(),
        is_complete: false,
        notes: Vec::new(),
    };
    if is_shared(&bench) {
        let text = "client and mock share the CPUs that there are: errors and CPU are upper \
                    bounds, the largest load a lower one; nothing is kept";
        note(&mut bench, text);
    }
    let url = mock.as_ref().map(|mock| &mock.url);
    climb(options, url, signals, began, &mut bench)?;
    Ok(bench)
}

/// Runs step after step, until the loads are through, the search is, or a signal comes. Errors:
/// what ends the first of them.
fn climb(
    options: &Options,
    mock: Option<&Url>,
    signals: &Signals,
    began: Ns,
    bench: &mut SelfBench,
) -> Result<(), Early> {
    while let Some(load) = next(options, bench, began) {
        let mut step = match run_step(options, mock, load, signals) {
            Ok(step) => step,
            Err(early) if bench.steps.is_empty() => return Err(early),
            Err(_) if signals.count() > 0 => return Ok(()),
            Err(early) => {
                note(bench, &format!("{load} was not tried: {}", early.text));
                break;
            }
        };
        // What a signal has cut short says nothing of the load.
        if signals.count() > 0 {
            let text = "stopped before the first step was done: there is no result";
            let is_none = bench.steps.is_empty();
            return if is_none {
                Err(Early::new(signals.exit(), text))
            } else {
                Ok(())
            };
        }
        believe_stamps(options, &mut step, bench);
        tell(&report::self_bench::progress(bench, &step));
        bench.steps.push(step);
    }
    bench.is_complete = true;
    Ok(())
}

/// The next load: of the list, or of the search.
fn next(options: &Options, bench: &SelfBench, began: Ns) -> Option<u32> {
    if !options.loads.is_empty() {
        return options.loads.get(bench.steps.len()).copied();
    }
    let done = bench.steps.iter();
    let done: Vec<(u32, bool)> = done
        .map(|step| (step.load, step.is_valid() && step.is_delivered()))
        .collect();
    let has_time = now().saturating_since(began) < SEARCH_MAX;
    options.ladder().next(&done).filter(|_| has_time)
}

fn run_step(
    options: &Options,
    mock: Option<&Url>,
    load: u32,
    signals: &Signals,
) -> Result<Step, Early> {
    let launch = Launch {
        at: now(),
        program: None,
        notes: Vec::new(),
    };
    memory::forget_peak();
    // Alone: what a step needs is not to be what the one before has left.
    let mut bench = Bench::new(launch, signals.clone());
    let summary = bench.summarize(options.config(load, mock))?;
    // Another server has a pace of its own.
    let asked = match options.mode {
        Mode::Streams { rate_per_stream } => mock.map(|_| rate_per_stream),
        Mode::Requests => None,
    };
    let mut step = Step::new(load, asked, options.is_tls(), summary);
    step.memory_bytes_max = memory::peak_bytes();
    Ok(step)
}

/// Takes out what another machine's clock makes of the errors, and says what is missing.
fn believe_stamps(options: &Options, step: &mut Step, bench: &mut SelfBench) {
    let Some(url) = bench.against.clone() else {
        return;
    };
    let Some(errors) = &mut step.client.stamp_errors else {
        let text = format!(
            "{url} writes no stamps into its events, as `tokenring mock` does: how far event \
             times, TTFT and ITL are off is not known; rate, CPU, receive lag and verdict are"
        );
        return note(bench, &text);
    };
    // The mock stamps before it sends, so no event is seen at once, and none later than the step
    // lasts: such a clock is not ours.
    let median = errors.event_time.p50;
    if median == 0 {
        step.client.stamp_errors = None;
    } else if Ns(median) > Ns(options.step.0.saturating_mul(4)) {
        (errors.event_time, errors.ttft) = (Spread::default(), Spread::default());
    } else {
        return;
    }
    let text = format!(
        "{url} has another clock than this machine: what needs both, such as the error of TTFT, \
         is left out"
    );
    note(bench, &text);
}

/// Notes a sentence once.
fn note(bench: &mut SelfBench, text: &str) {
    if !bench.notes.iter().any(|known| known == text) {
        bench.notes.push(text.into());
        tell(&format!("note: {text}"));
    }
}

/// True when our own mock had to run on the client's CPUs.
fn is_shared(bench: &SelfBench) -> bool {
    bench.against.is_none() && bench.mock_cpus.is_empty()
}

/// Keeps what was found for the headroom of later runs: only what a client with its CPUs for itself
/// has driven, against a server known to be ours. A list of loads, or a coarse search, has not
/// looked for the limit: it may raise what is kept and not lower it.
fn keep(options: &Options, bench: &SelfBench) {
    let is_ours = |step: &Step| step.client.stamp_errors.is_some();
    let has_stamps = bench.largest_valid().is_some_and(is_ours);
    let Some(capacity) = bench.capacity() else {
        return;
    };
    if is_shared(bench) || !bench.is_complete || !has_stamps {
        return;
    }
    let has_searched = options.loads.is_empty() && !options.quick;
    let kept = match Calibration::here() {
        Some(file) => file.keep(capacity, has_searched),
        None => Err("neither XDG_CACHE_HOME nor HOME is set".into()),
    };
    if let Err(error) = kept {
        tell(&format!(
            "note: the result is not kept for later runs: {error}"
        ));
    }
}
