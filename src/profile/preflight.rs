//! Before the run: does anybody answer, and does the server take what we are about to send?
//!
//! Nothing here waits longer than the run's own timeouts, or than `--wait-for-model-timeout`.

use super::early::Early;
use super::probe::{self, Answer, Limits};
use super::{outcome, setup};
use crate::base::{Exit, Ns, now};
use crate::config::{Config, Url};
use crate::engine::{Request, Target};
use crate::view::tell;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

/// How long a probe may take: a cold model may need minutes for its first token.
const PATIENCE: Ns = Ns(120_000_000_000);
/// How long a list of models may take.
const LIST_PATIENCE: Ns = Ns(10_000_000_000);
/// The least that a try is given, however little is left of a wait.
const TRY: Ns = Ns(1_000_000_000);
/// Between two tries of `--wait-for-model-timeout`.
const RETRY: Ns = Ns(500_000_000);

/// Where a url leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its address, the one that accepts a connection if any does; absent for an unknown host.
    pub addr: Option<SocketAddr>,
    /// Why no connection is accepted.
    pub fault: Option<String>,
}

/// Finds every url's address. Only when none accepts a connection it is an error: else the dead
/// ones' share of the requests become failures, and that is said. With `--wait-for-model-timeout`
/// the dead ones are tried again until `deadline`.
pub fn reach(config: &Config, deadline: Ns) -> Result<Vec<Place>, Early> {
    loop {
        let patience = config.connect_timeout.min(left(config, deadline));
        let places: Vec<Place> = each(&config.urls, |url| find(url, patience));
        let faults: Vec<String> = config
            .urls
            .iter()
            .zip(&places)
            .filter_map(|(url, place)| {
                let fault = place.fault.as_ref()?;
                Some(format!("--url {}: {fault}", url.origin_shown()))
            })
            .collect();
        if faults.is_empty() {
            return Ok(places);
        }
        if now() + RETRY < deadline {
            pause(deadline);
            continue;
        }
        if faults.len() < places.len() {
            let share = "its share of the requests will fail";
            faults
                .iter()
                .for_each(|fault| warn(config, &format!("{fault}; {share}")));
            return Ok(places);
        }
        let advice = "start the server, or give its address with --url";
        let text = format!("{}\n  {advice}", faults.join("\n  "));
        return Err(Early::new(Exit::Unreachable, text));
    }
}

/// A warning; what a server said may have our key in it.
fn warn(config: &Config, text: &str) {
    let text = outcome::secrets(config).shown(text);
    tell(&format!("warning: {text}"));
}

/// What a try may take: until the deadline where there is a wait, and a little in any case.
fn left(config: &Config, deadline: Ns) -> Ns {
    match config.wait_for_model > Ns::ZERO {
        true => deadline.saturating_since(now()).max(TRY),
        false => Ns::MAX,
    }
}

fn pause(deadline: Ns) {
    let rest = deadline.saturating_since(now()).min(RETRY);
    thread::sleep(Duration::from_nanos(rest.0));
}

/// Does the same for each item at the same time: one that hangs does not add up with the others.
fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = items
            .iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    })
}

fn find(url: &Url, patience: Ns) -> Place {
    let addrs = match setup::resolve(url) {
        Ok(addrs) => addrs,
        Err(fault) => {
            return Place {
                addr: None,
                fault: Some(fault),
            };
        }
    };
    let deadline = now() + patience;
    let mut fault = None;
    for addr in &addrs {
        let wait = deadline.saturating_since(now()).0.max(1_000_000);
        match TcpStream::connect_timeout(addr, Duration::from_nanos(wait)) {
            Ok(_) => {
                return Place {
                    addr: Some(*addr),
                    fault: None,
                };
            }
            Err(error) => fault = fault.or(Some(error.to_string())),
        }
    }
    Place {
        addr: addrs.first().copied(),
        fault,
    }
}

/// The urls that accept a connection, with their targets.
fn live<'a>(
    config: &'a Config,
    places: &[Place],
    targets: &'a [Target],
) -> Vec<(&'a Url, &'a Target)> {
    let all = config.urls.iter().zip(targets).zip(places);
    all.filter(|(_, place)| place.fault.is_none())
        .map(|(pair, _)| pair)
        .collect()
}

/// The models that the first server lists that lists any; empty where none does.
pub fn models(config: &Config, places: &[Place], targets: &[Target], deadline: Ns) -> Vec<String> {
    loop {
        for (url, target) in live(config, places, targets) {
            let path = format!("{}{}", probe::models_path(&url.base), url.query);
            let request = probe::get_request(&path, &url.authority(), &setup::headers(config));
            let limits = limits(config, LIST_PATIENCE.min(left(config, deadline)));
            if let Ok(answer) = probe::exchange(target, &request, limits)
                && answer.status == 200
            {
                let names = probe::model_names(&answer.body);
                if !names.is_empty() {
                    return names;
                }
            }
        }
        if now() + RETRY >= deadline {
            return Vec::new();
        }
        pause(deadline);
    }
}

/// The model of the run: the given one, or the only one that the server has.
pub fn model(config: &Config, models: &[String]) -> Result<String, String> {
    match (&config.model, models) {
        (Some(model), _) => Ok(model.clone()),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err("-m is missing, and the server does not list its models".into()),
        (None, several) => Err(format!(
            "-m is missing; the server has: {}",
            probe::listed(several)
        )),
    }
}

fn limits(config: &Config, patience: Ns) -> Limits {
    Limits {
        connect: config.connect_timeout.min(patience),
        whole: config.request_timeout.min(patience),
    }
}

fn ask(target: &Target, request: &Request, limits: Limits) -> Result<Answer, String> {
    let mut bytes = Vec::new();
    target.template.fill(0, 0, &request.body, &mut bytes);
    probe::exchange(target, &bytes, limits)
}

/// Sends one request of the run's kind to the first server that answers. A refusal of what we
/// send ends the run, since all would be refused; an overloaded server does not.
pub fn check(
    config: &Config,
    places: &[Place],
    targets: &[Target],
    request: &Request,
    model: &str,
) -> Result<(), Early> {
    let mut faults = Vec::new();
    for (url, target) in live(config, places, targets) {
        let origin = url.origin_shown();
        let answer = match ask(target, request, limits(config, PATIENCE)) {
            // Before it is cut, or half a key would stay.
            Ok(answer) => Answer {
                body: outcome::secrets(config).mask(&answer.body).into_owned(),
                ..answer
            },
            Err(text) => {
                faults.push(format!("--url {origin}: a probe got no answer: {text}"));
                continue;
            }
        };
        for fault in &faults {
            warn(config, fault);
        }
        let models = match answer.status {
            404 if setup::is_openai(config.api) => self::models(config, places, targets, now()),
            _ => Vec::new(),
        };
        return match probe::explain(&answer, model, &models) {
            None => Ok(()),
            Some(text) if probe::is_passing(answer.status) => {
                warn(config, &format!("--url {origin}: {text}"));
                Ok(())
            }
            Some(text) => Err(Early::usage(format!("--url {origin}: {text}"))),
        };
    }
    faults.push("--wait-for-model-timeout waits for a model, --no-preflight sends no probe".into());
    Err(Early::new(Exit::Unreachable, faults.join("\n  ")))
}

/// Waits until every server answers a request of the run's kind with 2xx. At the deadline it is
/// an error when none has.
pub fn wait_for_model(
    config: &Config,
    targets: &[Target],
    request: &Request,
    deadline: Ns,
) -> Result<(), Early> {
    let pairs: Vec<(&Url, &Target)> = config.urls.iter().zip(targets).collect();
    let faults: Vec<String> = each(&pairs, |(url, target)| {
        wait_for_one(config, target, request, deadline)
            .map_err(|last| format!("--url {}: {last}", url.origin_shown()))
    })
    .into_iter()
    .filter_map(Result::err)
    .collect();
    let waited = config.wait_for_model.as_secs();
    let head = format!("--wait-for-model-timeout {waited}: the model did not answer in time");
    if faults.len() == pairs.len() {
        let text = format!("{head}\n  {}", faults.join("\n  "));
        return Err(Early::new(Exit::Unreachable, text));
    }
    for fault in faults {
        warn(config, &format!("{head}; {fault}"));
    }
    Ok(())
}

fn wait_for_one(
    config: &Config,
    target: &Target,
    request: &Request,
    deadline: Ns,
) -> Result<(), String> {
    loop {
        let patience = PATIENCE.min(left(config, deadline));
        let last = match ask(target, request, limits(config, patience)) {
            Ok(answer) if (200..300).contains(&answer.status) => return Ok(()),
            Ok(answer) => format!("status {}", answer.status),
            Err(text) => text,
        };
        if now() + RETRY >= deadline {
            return Err(last);
        }
        pause(deadline);
    }
}
