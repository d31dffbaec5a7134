//! What servers are told beside requests: to empty their caches, to profile themselves. As AIPerf
//! does it: one POST to each server, however many urls lead to it, with the run's own headers.

use super::early::Early;
use super::preflight::{self, Place};
use super::prepare::{Prepared, stopped};
use super::probe;
use super::signals::Signals;
use super::steps::Steps;
use super::{outcome, route};
use crate::base::{Exit, Ns, now, one_line};
use crate::config::{self, Config, Url};
use crate::engine::{Pace, Target};
use crate::http::fetch;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Answers that say "not now".
const BUSY: [u16; 4] = [409, 423, 429, 503];
/// The pause before the next try, doubled each time up to the most.
const PAUSE: Ns = Ns::from_ms(1_000);
const PAUSE_MAX: Ns = Ns::from_ms(8_000);
/// Tries of one hook may take so long in all.
const BUDGET: Ns = Ns::from_ms(60_000);
/// How often the start of the measurement is looked for, and the end of a wait.
const LOOK: Duration = Duration::from_millis(1);
/// How long the answer to a stop is waited for after one signal, and after more.
const AFTER_SIGNAL: Ns = Ns::from_ms(5_000);
const AFTER_SIGNALS: Ns = Ns::from_ms(500);

/// A server.
#[derive(Clone)]
pub struct Host {
    url: Url,
    target: Target,
}

/// The servers that accept connections, each once.
fn hosts(config: &Config, places: &[Place], targets: &[Target]) -> Vec<Host> {
    let mut hosts: Vec<Host> = Vec::new();
    let origin = |url: &Url| (url.tls, url.authority());
    for (url, target) in preflight::live(config, places, targets) {
        if !hosts.iter().any(|host| origin(&host.url) == origin(url)) {
            let (url, target) = (url.clone(), target.clone());
            hosts.push(Host { url, target });
        }
    }
    hosts
}

/// What to send, and the flags that it comes from.
struct Hook<'a> {
    flag: &'static str,
    path_flag: &'static str,
    path: &'a str,
    timeout: Ns,
}

impl Hook<'_> {
    /// Sends it to one server. Errors: a refusal is bad usage, no answer is an unreachable server.
    fn post(&self, config: &Config, host: &Host) -> Result<(), Early> {
        let url = &host.url;
        let (scheme, authority) = (if url.tls { "https" } else { "http" }, url.authority());
        let shown = format!("{}: POST {scheme}://{authority}{}", self.flag, self.path);
        let path = format!("{}{}", self.path, url.query);
        let path = route::request_target(config, url, &path);
        let mut headers = route::headers(config, url);
        headers.push(("Content-Length".into(), "0".into()));
        let request = fetch::request("POST", &path, &authority, &headers);
        let connect = config.connect_timeout.min(self.timeout);
        let limits = probe::limits(connect, self.timeout);
        let (deadline, mut pause) = (now() + BUDGET, PAUSE);
        loop {
            let answer = probe::exchange(&host.target, route::dial(config), &request, limits)
                .map_err(|text| Early::new(Exit::Unreachable, format!("{shown}: {text}")))?;
            if (200..300).contains(&answer.status) {
                return Ok(());
            }
            if !BUSY.contains(&answer.status) || now() + pause > deadline {
                // Before it is cut, or half a key would stay.
                let body = outcome::secrets(config).mask(&answer.text()).into_owned();
                let (status, said) = (answer.status, one_line(&body, 300));
                return Err(Early::usage(format!(
                    "{shown}: the server answered {status} {said}; give the right path by {}, or \
                     leave {} out",
                    self.path_flag, self.flag
                )));
            }
            thread::sleep(Duration::from_nanos(pause.0));
            pause = Ns(pause.0 * 2).min(PAUSE_MAX);
        }
    }

    /// Sends it to all at the same time.
    fn post_all(&self, config: &Config, hosts: &[Host]) -> Vec<Result<(), Early>> {
        preflight::each(hosts, |host| self.post(config, host))
    }
}

/// One error of several.
fn joined(results: Vec<Result<(), Early>>) -> Result<(), Early> {
    let faults = results.into_iter().filter_map(Result::err);
    let both = |a: Early, b: Early| Early {
        exit: a.exit.worse(b.exit),
        text: format!("{}\n  {}", a.text, b.text),
    };
    faults.reduce(both).map_or(Ok(()), Err)
}

/// Has every server empty its cache, if that was asked for; gives the servers.
pub fn reset(
    config: &Config,
    places: &[Place],
    targets: &[Target],
    steps: &Steps,
) -> Result<Vec<Host>, Early> {
    let hosts = hosts(config, places, targets);
    let Some(asked) = &config.reset_kv_cache else {
        return Ok(hosts);
    };
    steps.begin("having the caches of the servers emptied");
    let hook = Hook {
        flag: "--reset-kv-cache",
        path_flag: "--reset-kv-cache-path",
        path: &asked.path,
        timeout: asked.timeout,
    };
    joined(hook.post_all(config, &hosts)).map(|()| hosts)
}

/// The servers' own profilers, on during the measurement. Dropped, it has them stopped, and waits
/// for their answers.
pub struct Profiler {
    /// Nothing is sent through it: its end says that the measurement is over.
    end: Option<Sender<()>>,
    thread: JoinHandle<()>,
    signals: Signals,
}

impl Profiler {
    /// Starts the profilers, if that was asked for: at once, or by a thread of its own as soon as
    /// the warm-up is over. Errors: a server refuses to, before the run; a signal.
    pub fn begin(
        prepared: &Prepared,
        signals: &Signals,
        steps: &Steps,
    ) -> Result<Option<Profiler>, Early> {
        let config = &prepared.config;
        let Some(asked) = config.server_profiler.clone() else {
            return Ok(None);
        };
        let task = Task {
            config: config.clone(),
            hosts: prepared.hosts.clone(),
            pace: prepared.pace.clone(),
            asked,
        };
        let cores = prepared.cores.clone();
        let (end, ended) = bounded(0);
        let (tell, started) = bounded(1);
        let thread = thread::Builder::new()
            .name("profiler".into())
            .spawn(move || {
                crate::runtime::avoid(&cores);
                task.work(&ended, &tell);
            })
            .map_err(|error| Early::new(Exit::Unexpected, format!("thread: {error}")))?;
        let profiler = Profiler {
            end: Some(end),
            thread,
            signals: signals.clone(),
        };
        if config.warmups().next().is_none() {
            steps.begin("starting the profilers of the servers");
            profiler.await_start(&started, steps)?;
            steps.end();
        }
        Ok(Some(profiler))
    }

    fn await_start(
        &self,
        started: &Receiver<Result<(), Early>>,
        steps: &Steps,
    ) -> Result<(), Early> {
        loop {
            match started.recv_timeout(LOOK * 20) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => steps.tick(),
                Err(RecvTimeoutError::Disconnected) => {
                    let text = "the profiler's thread ended by a panic: please report it";
                    return Err(Early::new(Exit::Unexpected, text));
                }
            }
            if self.signals.count() > 0 {
                return Err(stopped(&self.signals));
            }
        }
    }

    /// The measurement is over: they are stopped now.
    pub fn end(&mut self) {
        self.end = None;
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.end();
        let since = now();
        while !self.thread.is_finished() {
            let patience = match self.signals.count() {
                0 => Ns::MAX,
                1 => AFTER_SIGNAL,
                _ => AFTER_SIGNALS,
            };
            if now().saturating_since(since) > patience {
                let text = "--server-profiler: no answer to the stop is waited for";
                crate::view::tell(&format!("warning: {text}"));
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// What the profiler's thread has to do.
struct Task {
    config: Arc<Config>,
    hosts: Vec<Host>,
    pace: Arc<Pace>,
    asked: config::Profiler,
}

impl Task {
    fn work(&self, ended: &Receiver<()>, tell: &Sender<Result<(), Early>>) {
        let waits = self.config.warmups().next().is_some();
        while waits && self.pace.measured_from().is_none() {
            match ended.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                // There was no measurement.
                _ => return,
            }
        }
        let started = self.start();
        if let (Err(early), true) = (&started, waits) {
            self.warn(early, "there is no profile");
        }
        let is_on = started.is_ok();
        // Nobody listens once the run has begun.
        let _ = tell.send(started);
        if is_on {
            // It ends by the other end's drop.
            let _ = ended.recv();
            if let Err(early) = joined(self.stop(&self.hosts)) {
                self.warn(&early, "the results are not touched by it");
            }
        }
    }

    fn warn(&self, early: &Early, text: &str) {
        preflight::warn(&self.config, &format!("{}; {text}", early.text));
    }

    fn hook<'a>(&self, path: &'a str, path_flag: &'static str) -> Hook<'a> {
        Hook {
            flag: "--server-profiler",
            path_flag,
            path,
            timeout: self.asked.timeout,
        }
    }

    /// Starts all or none, as far as that is known.
    fn start(&self) -> Result<(), Early> {
        let hook = self.hook(&self.asked.start, "--server-profiler-start-path");
        let results = hook.post_all(&self.config, &self.hosts);
        if results.iter().any(Result::is_err) {
            let refused = |result: &Result<(), Early>| {
                let exit = result.as_ref().err().map(|early| early.exit);
                exit == Some(Exit::Usage)
            };
            let begun = self.hosts.iter().zip(&results);
            let begun = begun.filter(|(_, result)| !refused(result));
            let begun: Vec<Host> = begun.map(|(host, _)| host.clone()).collect();
            // The error that is told is the one of the start.
            let _ = self.stop(&begun);
        }
        joined(results)
    }

    fn stop(&self, hosts: &[Host]) -> Vec<Result<(), Early>> {
        let hook = self.hook(&self.asked.stop, "--server-profiler-stop-path");
        hook.post_all(&self.config, hosts)
    }
}
