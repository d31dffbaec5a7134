//! After the run: sum up, judge, write, print, and say how it ended.

use super::asserts;
use super::ends;
use super::exports;
use super::files::RecordFiles;
use super::headroom::headroom;
use super::method;
use super::plots;
use super::records::{RecordOutcome, uncounted_note};
use super::servers;
use super::signals::Signals;
use super::stops::{self, Backlog};
use super::store::Payloads;
use super::telemetry::{Watch, Watched};
use super::verdict::{self, Scale};
use crate::archive::{self, RunDir};
use crate::base::{Anchor, Exit, Ns};
use crate::config::{Config, Url};
use crate::engine::{CoreOutput, FailureLimit, Pace};
use crate::gpu;
use crate::report::json::ClientExtras;
use crate::report::{self, RunInfo, Secrets};
use crate::server_metrics::Spool;
use crate::stats::energy::{energy, settle};
use crate::stats::peaks;
use crate::stats::slices::{Slice, Sliced};
use crate::stats::stability::Stability;
use crate::stats::summary::{
    ClientReport, ErrorGroup, Figure, GpuSummary, OpenLoop, StampSpreads, TelemetrySources, Verdict,
};
use crate::stats::{CoreRecorder, Environment, Figures, Summary, Totals};
use crate::view::{show, tell};
use crate::workload::TokenizerChoice;
use std::path::{Path, PathBuf};

/// Failures that say that this machine, not the server, had no more.
const OWN_FAULTS: [&str; 2] = ["too_many_open_files", "no_port_left"];

/// What the threads have left behind.
pub struct Measured {
    /// Of each core.
    pub outputs: Vec<CoreOutput>,
    /// Of the record thread.
    pub records: RecordOutcome,
    /// The machine during the run.
    pub environment: Environment,
    /// What was watched beside the requests.
    pub watch: Watch,
    /// From launch to the first request.
    pub startup: Option<Ns>,
    /// Of the open loops.
    pub backlog: Backlog,
}

/// A run that is over.
pub struct Run<'a> {
    /// What was asked.
    pub config: &'a Config,
    /// Tokenizer in use.
    pub choice: &'a TokenizerChoice,
    /// Counters.
    pub pace: &'a Pace,
    /// Whether too many have failed.
    pub failures: Option<&'a FailureLimit>,
    /// Bodies, for `inputs.json`.
    pub payloads: &'a Payloads,
    /// What reports say about the run.
    pub info: &'a RunInfo,
    /// Signals so far.
    pub signals: &'a Signals,
    /// The program, to know what is kept for it.
    pub program: Option<&'a Path>,
    /// Folder; absent for one run of many.
    pub dir: Option<&'a RunDir>,
}

/// What must never be written.
pub fn secrets(config: &Config) -> Secrets {
    Secrets::new(config.secrets())
}

/// Where the files go.
pub fn artifact_path(config: &Config) -> PathBuf {
    match (&config.artifact_dir, &config.place) {
        (Some(path), _) => path.clone(),
        (None, Some((parent, _))) => parent.join(archive::run_name(config)),
        (None, None) => PathBuf::from("artifacts").join(archive::run_name(config)),
    }
}

/// What reports say about a run.
pub fn run_info(config: &Config, dir: Option<&RunDir>, anchor: Anchor) -> RunInfo {
    let secrets = secrets(config);
    let id = uuid::Uuid::new_v4().simple().to_string();
    RunInfo {
        benchmark_id: id[..12].to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        trial: config.trial,
        cli_command: secrets.mask(&config.command_line).into_owned(),
        anchor,
        urls: config.urls.iter().map(Url::origin_shown).collect(),
        models: config.model.clone().into_iter().collect(),
        artifact_dir: dir.map_or(String::new(), |dir| dir.path().display().to_string()),
        hostname: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        phases: config
            .phases
            .iter()
            .map(|phase| (phase.name.clone(), phase.measured))
            .collect(),
        dataset_entries: config.dataset_entries,
        secrets,
    }
}

/// A run of many that is over.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its numbers and its verdict.
    pub summary: Summary,
    /// The statistics of all metrics, ours among them.
    pub figures: Figures,
    /// How it ended.
    pub exit: Exit,
    /// Where its files are; absent where it left none.
    pub folder: Option<PathBuf>,
}

/// Sums up, writes, prints. What is lost is told and makes the run no success; the other outputs
/// are there all the same.
pub fn conclude(run: &Run<'_>, measured: Measured) -> Exit {
    let mut result = sum_up(run, measured);
    warn(&result.summary.client);
    let exit = exit(run, &result);
    let mut lost = write(run, &mut result);
    let printed = print(run, &result);
    lost.extend(plots::generate(run));
    result.cut_short.iter().for_each(|text| tell(text));
    asserts::failures(&result.summary).for_each(|text| tell(&text));
    tell_faults(run, exit, lost, printed.err())
}

/// The same of one run of many, which prints nothing.
pub fn record(run: &Run<'_>, measured: Measured) -> Recorded {
    let mut result = sum_up(run, measured);
    if run.dir.is_some() {
        warn(&result.summary.client);
        asserts::failures(&result.summary).for_each(|text| tell(&text));
    }
    let exit = exit(run, &result);
    let lost = write(run, &mut result);
    let exit = tell_faults(run, exit, lost, None);
    // In their files; many runs are held at a time.
    result.summary.slices.clear();
    Recorded {
        figures: result.figures,
        summary: result.summary,
        exit,
        folder: run.dir.map(|dir| dir.path().to_path_buf()),
    }
}

fn warn(client: &ClientReport) {
    if let Some(text) = report::course::behind(client) {
        tell(&format!("warning: {text}"));
    }
    let unstable = client.stability.as_ref();
    if let Some(windows) = unstable.filter(|windows| windows.is_used_up()) {
        tell(&format!("warning: {}", method::stability(windows)));
    }
}

/// Tells what was lost on the way; gives how the run ended with all of it.
fn tell_faults(run: &Run<'_>, exit: Exit, lost: Vec<String>, unprinted: Option<String>) -> Exit {
    let files = lost.into_iter().map(|fault| (Exit::Partial, fault));
    let screen = unprinted.map(|fault| (Exit::Unexpected, fault));
    files.chain(screen).fold(exit, |exit, (worse, fault)| {
        tell(&format!("error: {}", run.info.secrets.shown(&fault)));
        exit.worse(worse)
    })
}

/// All that a run amounts to.
pub struct RunResult {
    /// Its numbers and its verdict.
    pub summary: Summary,
    /// The statistics of all metrics, ours among them.
    figures: Figures,
    pub(super) extras: ClientExtras,
    pub(super) histograms: Vec<u8>,
    /// What GPUs said over time.
    pub(super) gpus: gpu::Telemetry,
    /// What a signal or a stop has left undone.
    cut_short: Option<String>,
    /// True when a worker did not see the end.
    ended_early: bool,
    /// Until they are finished.
    files: Option<RecordFiles>,
    /// Scrapes of the servers' pages.
    pub(super) spools: Vec<Spool>,
}

/// Sums up and judges; writes and prints nothing.
pub fn sum_up(run: &Run<'_>, measured: Measured) -> RunResult {
    let Measured {
        outputs,
        records,
        environment,
        watch,
        startup,
        backlog,
    } = measured;
    let RecordOutcome {
        mut totals,
        files,
        cpu_ns,
        uncounted,
        stability,
    } = records;
    let ended_early = outputs.iter().any(|output| output.fault.is_some());
    let mut client = client_report(run, outputs, &totals, environment);
    client.record_thread_cpu_ns = cpu_ns;
    client.startup_ns = startup.unwrap_or(Ns::ZERO).0;
    client.notes.extend(uncounted_note(uncounted));
    client.phases = std::mem::take(&mut totals.phases);
    client.course = std::mem::take(&mut totals.course);
    client.stability = stability;
    if let Some(open) = &mut client.open_loop {
        backlog.finish(open);
    }
    let method = method::lines(run.config, &totals.metrics, &client);
    let cut_short = stops::cut_short(run.signals, run.pace, run.failures, &client);
    client.notes.extend(method);
    client.notes.extend(cut_short.clone());
    let watched = watched(run, watch, &totals, &mut client);
    let slices = slices(std::mem::take(&mut totals.sliced), &watched, &mut client);
    let (gpus, telemetry) = gpus(&watched.gpus, &mut totals, &mut client);
    (client.verdict, client.reasons) = verdict::judge(run.config, &client, scale(run, &totals));
    client.headroom = headroom(run.config, &client, &totals.metrics, run.program);
    let histograms = exports::interval_log(&totals);
    let extras = extras(run, &mut totals);
    let figures = Figures::of(&[totals.metrics.as_slice(), &extras.metrics].concat());
    client.assertions = asserts::judge(run.config, &figures);
    let summary = Summary {
        metrics: totals.metrics,
        warmup: totals.warmup,
        errors: masked(totals.errors, &run.info.secrets),
        start_wall_ns: totals.start_wall_ns,
        end_wall_ns: totals.end_wall_ns,
        was_cancelled: run.signals.count() > 0,
        is_complete: run.pace.is_complete() && cut_short.is_none(),
        client,
        gpus,
        telemetry,
        slices,
        server: watched.servers,
    };
    RunResult {
        summary,
        spools: watched.spools,
        figures,
        extras,
        histograms,
        gpus: watched.gpus,
        cut_short,
        ended_early,
        files: Some(files),
    }
}

/// What AIPerf lacks.
fn extras(run: &Run<'_>, totals: &mut Totals) -> ClientExtras {
    ClientExtras {
        metrics: std::mem::take(&mut totals.client),
        steady: totals.steady.map(|steady| {
            let wall = |at| run.info.anchor.wall(at);
            (wall(steady.start), wall(steady.end), steady)
        }),
        attainment: std::mem::take(&mut totals.attainment),
        good_token_throughput: totals.good_token_throughput,
    }
}

/// The slices with what was watched in them, and their peaks; notes go to the method block.
fn slices(mut sliced: Sliced, watched: &Watched, client: &mut ClientReport) -> Vec<Slice> {
    client.notes.append(&mut sliced.notes);
    let gpus = watched.gpus.tracks_once();
    sliced.add_telemetry(&gpus, &watched.tracks);
    peaks::flag(
        &mut sliced.slices,
        &[gpus.as_slice(), &watched.tracks].concat(),
    );
    sliced.slices
}

/// Writes the files; gives what could not be written.
fn write(run: &Run<'_>, result: &mut RunResult) -> Vec<String> {
    // The most precious first: a disk that is nearly full takes what it can.
    let mut files = result.files.take();
    files.iter_mut().for_each(RecordFiles::free_room);
    let text = screen(run, result, 140);
    let mut lost = exports::write_files(run, result, &text);
    lost.extend(files.into_iter().flat_map(RecordFiles::finish));
    lost.extend(exports::write_gpus(run, result).err());
    let spools = std::mem::take(&mut result.spools);
    lost.extend(exports::write_scrapes(run, spools));
    lost.extend(exports::write_inputs(run).err());
    lost
}

/// The report as it is shown: the verdict, and right below it that the run is a part only.
fn screen(run: &Run<'_>, result: &RunResult, width: usize) -> String {
    let extra = &result.extras.metrics;
    let mut text = report::console::report(&result.summary, extra, width);
    let failed = asserts::failures(&result.summary);
    let said: Vec<String> = result.cut_short.iter().cloned().chain(failed).collect();
    for said in said.iter().rev() {
        let place = text.find('\n').map_or(text.len(), |end| end + 1);
        text.insert_str(place, &format!("  {said}\n"));
    }
    run.info.secrets.shown(&text)
}

/// What was seen beside the requests; a signal ends the wait for servers that count late.
fn watched(run: &Run<'_>, watch: Watch, totals: &Totals, client: &mut ClientReport) -> Watched {
    let signals = || run.signals.count();
    let watched = watch.finish(totals.window, &signals);
    let others = run.pace.failed_count() + client.cancelled + client.warmup_in_flight;
    client.notes.extend(servers::notes(&watched.servers));
    client.notes.extend(servers::foreign_requests(
        &watched.servers,
        figure(totals, "request_count"),
        others,
    ));
    watched
}

/// GPUs over the measured window, and what the tokens cost in energy; the notes go to the method
/// block.
fn gpus(
    told: &gpu::Telemetry,
    totals: &mut Totals,
    client: &mut ClientReport,
) -> (Vec<GpuSummary>, TelemetrySources) {
    let seconds = |(from, to): (Ns, Ns)| to.saturating_since(from).as_secs();
    let window_s = totals.window.map_or(0.0, seconds);
    let mut gpus = told.gpus.clone();
    client.notes.extend(told.notes.iter().cloned());
    client
        .notes
        .extend(settle(&mut gpus, &totals.metrics, window_s));
    let per_joule = energy(&totals.metrics, &gpus, window_s, client.concurrency_asked);
    totals.metrics.extend(per_joule);
    let has_told = |source: &&String| {
        let mut own = gpus.iter().filter(|gpu| gpu.source == **source);
        own.any(|gpu| !gpu.metrics.is_empty())
    };
    let sources = TelemetrySources {
        configured: told.sources.clone(),
        successful: told.sources.iter().filter(has_told).cloned().collect(),
        errors: told.errors.clone(),
        invalid_samples: told.invalid_samples,
    };
    (gpus, sources)
}

fn masked(
    mut errors: Vec<crate::stats::summary::ErrorGroup>,
    secrets: &Secrets,
) -> Vec<crate::stats::summary::ErrorGroup> {
    for error in &mut errors {
        error.name = secrets.mask(&error.name).into_owned();
        error.message = secrets.mask(&error.message).into_owned();
    }
    errors
}

fn figure(totals: &Totals, tag: &str) -> Option<f64> {
    totals
        .metrics
        .iter()
        .find(|metric| metric.tag == tag)
        .map(|metric| match &metric.figure {
            Figure::Scalar(value) => *value,
            Figure::Distribution(d) => d.percentiles[4],
            Figure::Weighted(w) => w.avg,
            Figure::Adjusted(a) => a.min,
        })
}

fn scale(run: &Run<'_>, totals: &Totals) -> Scale {
    let ms = |tag: &str| figure(totals, tag).map(|value| value * 1e6);
    Scale {
        // 0 when most events came joined: then the absolute limit judges alone.
        gap_ns: ms("inter_chunk_latency"),
        latency_ns: ms("request_latency"),
        arrival_gap_ns: run.pace.scheduled_rate().map(|rate| 1e9 / rate),
    }
}

/// The errors against the mock's stamps; absent when no event had one.
fn stamp_errors(recorder: &CoreRecorder) -> Option<StampSpreads> {
    let errors = recorder.stamp_errors.as_ref()?;
    (!errors.event_time.is_empty()).then(|| StampSpreads {
        event_time: errors.event_time.spread(),
        ttft: errors.ttft.spread(),
        itl: errors.itl.spread(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts")]
fn client_report(
    run: &Run<'_>,
    outputs: Vec<CoreOutput>,
    totals: &Totals,
    environment: Environment,
) -> ClientReport {
    let mut recorder = CoreRecorder::default();
    let crossed = run.failures.filter(|limit| limit.is_crossed());
    let mut client = ClientReport {
        tokenizer: run.choice.name.clone(),
        tokenizer_stands_in: run.choice.stands_in,
        seed: run.config.seed,
        warmup_in_flight: run.pace.warmup_in_flight(),
        scheduled_rate: run.pace.scheduled_rate(),
        arrivals: totals.arrivals,
        cancelled: totals.cancelled,
        failure_limit: crossed.map(FailureLimit::share_max),
        resources_short: resources_short(totals),
        environment,
        ..ClientReport::default()
    };
    for output in outputs {
        recorder.merge(&output.recorder);
        client.records_lost += output.records_lost;
        // Each core sees every step.
        let steps = &mut client.environment.clock_steps_count;
        *steps = output.clock_steps_count.max(*steps);
        client.receive_path = output.receive_path;
        client.cores.push(output.report);
        if let Some(fault) = output.fault {
            client.notes.push(format!("a worker ended early: {fault}"));
        }
    }
    client.receive_lag = recorder.receive_lag.spread();
    client.send_lag = recorder.send_lag.spread();
    client.slot_wait = recorder.slot_wait.spread();
    client.timer_lateness = recorder.timer_lateness.spread();
    client.rtt = recorder.rtt.spread();
    client.retransmits = recorder.retransmits;
    client.reordered = recorder.reordered;
    client.event_time_error = recorder.event_time_error.spread();
    client.stamp_errors = stamp_errors(&recorder);
    if run.config.check_stamps && client.stamp_errors.is_none() {
        let text = "--check-stamps: no event had a stamp; only `tokenring mock` writes them";
        client.notes.push(text.into());
    }
    let reads = recorder.reads as f64;
    if reads > 0.0 {
        client.events_per_read = Some(recorder.events as f64 / reads);
        client.kernel_stamped_ratio = Some(recorder.reads_stamped as f64 / reads);
    }
    if let Some(asked) = run.config.load().slots() {
        client.concurrency_asked = Some(asked);
        // What another cap or another phase keeps free is nobody's fault.
        let is_meant = !run.config.load().is_capped() && run.config.has_one_load();
        let steady = totals.steady.as_ref().filter(|_| is_meant);
        client.concurrency_held = steady.map(|steady| steady.concurrency_held);
    } else {
        client.delivered_rate = run.pace.delivered_rate();
        client.open_loop = Some(open_loop(run, client.send_lag.max));
    }
    let notes = notes(run, &client);
    client.notes.extend(notes);
    client
}

/// Requests that failed for want of something of ours.
fn resources_short(totals: &Totals) -> u64 {
    let short = |error: &&ErrorGroup| OWN_FAULTS.contains(&error.name.as_str());
    totals.errors.iter().filter(short).map(|e| e.count).sum()
}

/// What a reader must know of the client and the machine.
fn notes(run: &Run<'_>, client: &ClientReport) -> Vec<String> {
    let mut notes = client.environment.notes();
    let lost = client.retransmits + client.reordered;
    if lost > 0 {
        notes.push(format!(
            "the network lost or reordered about {lost} segments: such stalls are not the server's"
        ));
    }
    let late = run.payloads.built_late_count();
    if late > 0 {
        notes.push(format!(
            "{late} request bodies were built late, on a worker's core"
        ));
    }
    let rests = client.rests_count();
    if rests > 0 {
        notes.push(format!(
            "{rests} times a connection failed and its slot rested: so much less concurrency \
             was held"
        ));
    }
    notes.push(format!("limits on a request: {}", ends::told(run.config)));
    notes.extend(ends::cancelled(run.config));
    notes
}

/// `sent_lag` is how late the latest of those sent went.
fn open_loop(run: &Run<'_>, sent_lag: u64) -> OpenLoop {
    let skipped = run.pace.skipped();
    OpenLoop {
        cap: run.config.load().cap(),
        skips_capped: run.config.skip_capped,
        skips_late: run.config.skip_late,
        skipped_capped: skipped.capped,
        skipped_late: skipped.late,
        unsent: run.pace.unsent_count(),
        lag_max: skipped.late_max.max(Ns(sent_lag)),
        replays: run.config.load().scheduled,
        ..OpenLoop::default()
    }
}

fn print(run: &Run<'_>, result: &RunResult) -> Result<(), String> {
    let screen = screen(run, result, terminal_width().unwrap_or(140));
    let dir = run.info.secrets.shown(&run.info.artifact_dir);
    let text = format!("{screen}Artifacts: {dir}\n");
    show(text.as_bytes()).map_err(|error| {
        format!("stdout: {error}: the report is lost here, the files in {dir} have it")
    })
}

fn terminal_width() -> Option<usize> {
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|&columns| columns > 0)
        .or_else(columns)
}

/// How the run ended, the worst of all. An over-saturated run that was to stop there did as it was
/// asked; one that was to go on until it is stable, and is not, missed a threshold.
fn exit(run: &Run<'_>, result: &RunResult) -> Exit {
    let client = &result.summary.client;
    let mut exit = run.signals.exit();
    let measured = run.pace.measured_count();
    if measured == 0 {
        exit = exit.worse(Exit::Partial);
    } else if run.pace.failed_count() >= measured {
        exit = exit.worse(Exit::Unreachable);
    }
    let is_missed = client.assertions.iter().any(|assertion| !assertion.holds);
    if is_missed || client.stability.as_ref().is_some_and(Stability::is_used_up) {
        exit = exit.worse(Exit::Threshold);
    }
    if client.verdict == Verdict::Invalid && !run.config.allow_invalid {
        exit = exit.worse(Exit::Invalid);
    }
    if result.ended_early || run.failures.is_some_and(FailureLimit::is_crossed) {
        exit = exit.worse(Exit::Partial);
    }
    exit
}
