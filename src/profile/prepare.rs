//! Everything up to the start: limits, tokenizer, server, model, bodies. Sends nothing but probes,
//! and touches no folder: an earlier run stays where it is until this one is sure to begin.

use super::demo::Demo;
use super::early::Early;
use super::replay::Replay;
use super::signals::Signals;
use super::steps::Steps;
use super::store::Payloads;
use super::{Launch, ends, files, gpus, hooks, outcome, plan_text, preflight, setup, telemetry};
use crate::archive::RunDir;
use crate::base::{Exit, Ns, now};
use crate::config::{Api, Config, Connections, ExportLevel, TokenizerSpec, Url, WaitMode};
use crate::endpoint::Endpoint;
use crate::engine::{Drawn, FailureLimit, Pace, Requests, Target};
use crate::runtime;
use crate::view::{show, tell};
use crate::workload::{Hub, Progress, PromptSource, Tokenizer, TokenizerChoice, unpack_corpus};
use crossbeam_channel::{RecvTimeoutError, bounded};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The request that a dry run shows.
const FIRST: Drawn = Drawn {
    measured: true,
    number: 0,
};

/// How soon a signal ends the preparations.
const LISTEN: Duration = Duration::from_millis(20);

/// All that stands ready when the connections may be opened.
pub struct Prepared {
    /// What was asked, with the model's name.
    pub config: Arc<Config>,
    /// In the order of the urls.
    pub targets: Arc<[Target]>,
    /// For prompts and counts.
    pub tokenizer: Arc<Tokenizer>,
    /// Which one that is.
    pub choice: TokenizerChoice,
    /// Bodies.
    pub payloads: Arc<Payloads>,
    /// When to send.
    pub pace: Arc<Pace>,
    /// Whom hooks are sent to.
    pub hosts: Vec<hooks::Host>,
    /// Ends the run when too many requests fail.
    pub failures: Option<Arc<FailureLimit>>,
    /// CPUs of the workers.
    pub cores: Vec<usize>,
    /// What speaks for these CPUs and what against, as a line.
    pub placement: String,
    /// What is watched beside the requests.
    pub watch: telemetry::Watch,
}

/// What the next run of a process finds ready.
#[derive(Default)]
pub struct Ready {
    /// The tokenizer of these settings and this model.
    tokenizer: Option<(
        TokenizerSpec,
        Option<String>,
        Arc<Tokenizer>,
        TokenizerChoice,
    )>,
    /// The servers of these settings, met and probed.
    server: Option<(Reaching, Server)>,
    /// The mock of `--demo`; ends when dropped.
    demo: Option<Demo>,
    /// Sentences that need not be said again.
    told: Vec<String>,
}

impl Ready {
    /// The model of the last run, as given or as the server says.
    pub fn model(&self) -> Option<&str> {
        self.server.as_ref()?.1.model.as_deref()
    }

    /// The next run meets its server anew.
    pub fn forget_server(&mut self) {
        self.server = None;
    }

    fn tell(&mut self, text: String) {
        if !self.told.contains(&text) {
            tell(&text);
            self.told.push(text);
        }
    }
}

/// Prepares on a thread of its own: whatever it waits for, a signal ends the program at once, with
/// nothing left behind. What is `ready` from the run before is used again, and lost by a signal.
/// `None` after a dry run.
pub fn prepare(
    config: Config,
    launch: &Launch,
    signals: &Signals,
    steps: &Steps,
    ready: &mut Ready,
) -> Result<Option<Prepared>, Early> {
    let (sender, receiver) = bounded(1);
    let (launch, told) = (launch.clone(), steps.clone());
    let mut own = std::mem::take(ready);
    thread::Builder::new()
        .name("prepare".into())
        .spawn(move || {
            let result = prepare_all(config, &launch, &told, &mut own);
            // Nobody takes it after a signal.
            let _ = sender.send((result, own));
        })
        .map_err(|error| Early::new(Exit::Unexpected, format!("thread: {error}")))?;
    loop {
        match receiver.recv_timeout(LISTEN) {
            Ok((result, own)) => {
                *ready = own;
                return result;
            }
            Err(RecvTimeoutError::Timeout) => steps.tick(),
            Err(RecvTimeoutError::Disconnected) => {
                let text = "the preparations ended by a panic: please report it";
                return Err(Early::new(Exit::Unexpected, text));
            }
        }
        if signals.count() > 0 {
            return Err(stopped(signals));
        }
    }
}

/// A signal came before the first request.
pub fn stopped(signals: &Signals) -> Early {
    let text = "stopped before the first request: there are no results, and no files";
    Early::new(signals.exit(), text)
}

fn prepare_all(
    mut config: Config,
    launch: &Launch,
    steps: &Steps,
    ready: &mut Ready,
) -> Result<Option<Prepared>, Early> {
    Endpoint::check(&config).map_err(Early::usage)?;
    let replay = load_replay(&mut config, ready)?;
    for text in setup::check_limits(&config).map_err(Early::usage)? {
        ready.tell(format!("note: {text}"));
    }
    let (cores, placement) = setup::cores(&config).map_err(Early::usage)?;
    let leaves_files = config.export_level > ExportLevel::Nothing;
    if leaves_files {
        // Without files it is a run of many, whose caller says that once.
        ready.tell(format!("note: {placement}"));
    }
    steps.begin("working out the schedule");
    let options = setup::pace(&config, replay.as_deref(), cores.len()).map_err(Early::usage)?;
    if !config.dry_run && leaves_files {
        RunDir::check(&outcome::artifact_path(&config), &files::names(&config))
            .map_err(|error| Early::usage(error.to_string()))?;
    }
    let media = setup::media(&config, &options).map_err(Early::usage)?;
    let (tokenizer, choice) = load_tokenizer(&config, steps, ready)?;
    start_demo(&mut config, launch, &cores, ready)?;
    let (reaching, server, is_new) = meet(&mut config, steps, ready)?;
    let model = config.model.clone().unwrap_or_default();
    let config = Arc::new(config);
    let gpus = gpus::Search::begin(&config)?;
    let total = setup::total(&options);
    let bodies = total.map_or("the first requests".into(), |n| format!("{n} requests"));
    steps.begin(format!("preparing {bodies}"));
    let sources = (PromptSource::new(tokenizer.clone(), config.seed), media);
    let payloads = setup::payloads(&config, &model, sources, replay, &options, &cores);
    steps.end();
    if config.dry_run {
        return show_plan(&config, &server.targets[0], &payloads, &cores);
    }
    if is_new {
        greet(&config, &server, &payloads, &model, steps)?;
    }
    let hosts = hooks::reset(&config, &server.places, &server.targets, steps)?;
    let targets = server.targets.clone();
    ready.server = Some((reaching, server));
    steps.begin("looking for telemetry");
    let (watch, notes) = telemetry::Watch::start(&config, gpus, &cores)?;
    for text in notes {
        ready.tell(format!("note: {text}"));
    }
    watch.rest(&config, steps);
    steps.end();
    if config.verbose {
        let path = runtime::diagnose().receive_path;
        steps.mention(&format!("receive path: {path}"));
    }
    Ok(Some(Prepared {
        failures: ends::failures(&config).map(Arc::new),
        config,
        targets,
        tokenizer,
        choice,
        payloads: Arc::new(payloads),
        pace: Arc::new(Pace::new(options)),
        hosts,
        cores,
        placement,
        watch,
    }))
}

/// The server that the run before has met, else a new one, which is told by `true`.
fn meet(
    config: &mut Config,
    steps: &Steps,
    ready: &mut Ready,
) -> Result<(Reaching, Server, bool), Early> {
    let reaching = Reaching::of(config);
    match ready.server.take().filter(|(known, _)| *known == reaching) {
        Some((_, server)) => {
            config.model.clone_from(&server.model);
            Ok((reaching, server, false))
        }
        None => Ok((reaching, find_server(config, steps)?, true)),
    }
}

/// The plan of a dry run, and nothing more.
fn show_plan(
    config: &Config,
    target: &Target,
    payloads: &Payloads,
    cores: &[usize],
) -> Result<Option<Prepared>, Early> {
    let text = plan_text::describe(config, target, &payloads.get(FIRST), cores);
    let text = outcome::secrets(config).shown(&text);
    match show(text.as_bytes()) {
        Ok(()) => Ok(None),
        Err(error) => Err(Early::new(Exit::Unexpected, format!("stdout: {error}"))),
    }
}

/// The tokenizer that the run before has left, else a new one.
fn load_tokenizer(
    config: &Config,
    steps: &Steps,
    ready: &mut Ready,
) -> Result<(Arc<Tokenizer>, TokenizerChoice), Early> {
    let (spec, model) = (&config.tokenizer, &config.model);
    if let Some((known, of, tokenizer, choice)) = &ready.tokenizer
        && (known, of) == (spec, model)
    {
        return Ok((tokenizer.clone(), choice.clone()));
    }
    steps.begin("loading the tokenizer");
    unpack_corpus();
    let hub = Hub::from_env(spec.token.as_deref());
    let mut listener = |progress: &Progress| tell_download(progress, steps);
    let loaded = Tokenizer::load(spec, model.as_deref(), &hub, &mut listener);
    let (tokenizer, choice) = loaded.map_err(|error| Early::usage(error.to_string()))?;
    if choice.stands_in {
        let text = "note: the builtin tokenizer (o200k) stands in for the model's own; give one \
                    with --tokenizer, or say `--tokenizer builtin`";
        ready.tell(text.into());
    }
    let tokenizer = Arc::new(tokenizer);
    let known = (
        spec.clone(),
        model.clone(),
        tokenizer.clone(),
        choice.clone(),
    );
    ready.tokenizer = Some(known);
    Ok((tokenizer, choice))
}

/// How far a download is, as often as a person reads it.
fn tell_download(progress: &Progress, steps: &Steps) {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    steps.again(&format!(
        "fetching {}: {:.1} of {:.1} MB",
        progress.file,
        megabytes(progress.done),
        megabytes(progress.total)
    ));
}

/// The trace of a run that has one, and what is to be said of it.
fn load_replay(config: &mut Config, ready: &mut Ready) -> Result<Option<Arc<Replay>>, Early> {
    let Some((replay, notes)) = Replay::load(config).map_err(Early::usage)? else {
        return Ok(None);
    };
    for note in notes {
        ready.tell(format!("note: {note}"));
    }
    Ok(Some(Arc::new(replay)))
}

/// Has the mock of `--demo` run, and the configuration lead to it.
fn start_demo(
    config: &mut Config,
    launch: &Launch,
    cores: &[usize],
    ready: &mut Ready,
) -> Result<(), Early> {
    if !config.demo {
        return Ok(());
    }
    let unexpected = |text: String| Early::new(Exit::Unexpected, text);
    let demo = match ready.demo.take() {
        Some(demo) => demo,
        None => {
            let program = launch.program.as_ref();
            let program =
                program.ok_or_else(|| unexpected("--demo: no program to start".into()))?;
            let pace = ["--ttft-ms", "20", "--itl-ms", "5", "--tokens", "64"];
            Demo::start(program, cores, 1, &pace.map(String::from))
                .map_err(|text| unexpected(format!("--demo: {text}")))?
        }
    };
    config.urls = vec![demo.url.clone()];
    config.model.get_or_insert_with(|| "demo".into());
    ready.demo = Some(demo);
    Ok(())
}

/// Settings that the way to a server depends on: runs that share them share its connections.
#[derive(Clone, PartialEq)]
struct Reaching {
    urls: Vec<Url>,
    model: Option<String>,
    api: Api,
    path: Option<String>,
    streaming: bool,
    headers: Vec<(String, String)>,
    has_sessions: bool,
    tls: (Option<PathBuf>, bool),
    connections: Connections,
}

impl Reaching {
    fn of(config: &Config) -> Reaching {
        let mut headers = setup::headers(config);
        headers.extend(
            config
                .session_header
                .clone()
                .map(|name| (name, String::new())),
        );
        Reaching {
            urls: config.urls.clone(),
            model: config.model.clone(),
            api: config.api,
            path: config.path.clone(),
            streaming: config.streaming,
            headers,
            has_sessions: config.session.is_some(),
            tls: (config.tls_ca.clone(), config.tls_insecure),
            connections: config.connections.clone(),
        }
    }
}

/// Where the requests go.
struct Server {
    targets: Arc<[Target]>,
    model: Option<String>,
    places: Vec<preflight::Place>,
    /// When `--wait-for-model-timeout` is over.
    deadline: Ns,
}

/// Finds the server, and the model where it was not named. A dry run connects only for that.
fn find_server(config: &mut Config, steps: &Steps) -> Result<Server, Early> {
    let deadline = now() + config.wait.timeout;
    let ask = config.model.is_none();
    let places = if config.dry_run && !ask {
        vec![preflight::Place::default(); config.urls.len()]
    } else {
        steps.begin("connecting to the server");
        preflight::reach(config, deadline)?
    };
    let addrs: Vec<Vec<SocketAddr>> = places.iter().map(|place| place.addrs.clone()).collect();
    if ask {
        steps.begin("asking the server for its models");
        let nameless = setup::targets(config, &addrs, "").map_err(Early::usage)?;
        let models = preflight::models(config, &places, &nameless, deadline);
        config.model = Some(preflight::model(config, &models).map_err(Early::usage)?);
    }
    let model = config.model.clone().unwrap_or_default();
    let targets = setup::targets(config, &addrs, &model).map_err(Early::usage)?;
    Ok(Server {
        targets: targets.into(),
        model: config.model.clone(),
        places,
        deadline,
    })
}

/// Waits for the model or sends the probe, as asked.
fn greet(
    config: &Config,
    server: &Server,
    payloads: &Payloads,
    model: &str,
    steps: &Steps,
) -> Result<(), Early> {
    let request = payloads.probe();
    let (places, targets) = (&server.places, &server.targets);
    let waits = config.wait.timeout > Ns::ZERO;
    if waits {
        steps.begin("waiting for the model to be ready");
        preflight::wait_for_model(config, targets, &request, server.deadline)?;
    }
    // The wait for an answer is a probe.
    let has_answered = waits && config.wait.mode != WaitMode::Models;
    if has_answered || !config.preflight || config.demo {
        return Ok(());
    }
    steps.begin("sending a probe");
    preflight::check(config, places, targets, &request, model)
}
