//! Before the run: does anybody answer, and does the server take what we are about to send?
//!
//! Nothing here waits longer than the run's own timeouts, or than `--wait-for-model-timeout`.

use super::early::Early;
use super::outcome;
use super::probe;
use super::route::{self, Unresolved};
use crate::base::{Exit, Ns, now};
use crate::config::{Config, Url, WaitMode};
use crate::endpoint::Endpoint;
use crate::engine::{Request, Target};
use crate::http::fetch::{self, Answer, Limits};
use crate::view::tell;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// How long a probe may take: a cold model may need minutes for its first token.
const PATIENCE: Ns = Ns(120_000_000_000);
/// How long a list of models may take.
const LIST_PATIENCE: Ns = Ns(10_000_000_000);
/// The least that a try is given, however little is left of a wait.
const TRY: Ns = Ns(1_000_000_000);

/// Where a url leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its addresses that accept a connection, all of them if none does; none for an unknown host.
    pub addrs: Vec<SocketAddr>,
    /// Why no connection is accepted.
    pub fault: Option<String>,
}

/// Finds every url's address. Only when none accepts a connection it is an error: else the dead
/// ones' share of the requests become failures, and that is said. With `--wait-for-model-timeout`
/// the dead ones are tried again until `deadline`.
pub fn reach(config: &Config, deadline: Ns) -> Result<Vec<Place>, Early> {
    loop {
        let patience = config.connect_timeout.min(left(config, deadline));
        let places = each(&config.urls, |url| find(config, url, patience));
        let places: Result<Vec<Place>, Early> = places.into_iter().collect();
        let places = places?;
        let faults: Vec<String> = config
            .urls
            .iter()
            .zip(&places)
            .filter_map(|(url, place)| {
                let fault = place.fault.as_ref()?;
                Some(format!("{}: {fault}", route::named(config, url)))
            })
            .collect();
        if faults.is_empty() {
            return Ok(places);
        }
        if now() < deadline {
            pause(config, deadline);
            continue;
        }
        if faults.len() < places.len() {
            let share = "its share of the requests will fail";
            faults
                .iter()
                .for_each(|fault| warn(config, &format!("{fault}; {share}")));
            return Ok(places);
        }
        let advice = match route::uses_proxy(config) {
            true => "start the proxy or the server, or give their addresses with --proxy and --url",
            false => "start the server, or give its address with --url",
        };
        let text = format!("{}\n  {advice}", faults.join("\n  "));
        return Err(Early::new(Exit::Unreachable, text));
    }
}

/// A warning; what a server said may have our key in it.
pub(super) fn warn(config: &Config, text: &str) {
    let text = outcome::secrets(config).shown(text);
    tell(&format!("warning: {text}"));
}

/// What a try may take: until the deadline where there is a wait, and a little in any case.
fn left(config: &Config, deadline: Ns) -> Ns {
    match config.wait.timeout > Ns::ZERO {
        true => deadline.saturating_since(now()).max(TRY),
        false => Ns::MAX,
    }
}

/// Between two tries; the last one is at the deadline.
fn pause(config: &Config, deadline: Ns) {
    let rest = deadline.saturating_since(now()).min(config.wait.interval);
    thread::sleep(Duration::from_nanos(rest.0));
}

/// Does the same for each item at the same time: one that hangs does not add up with the others.
pub(super) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
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

fn find(config: &Config, url: &Url, patience: Ns) -> Result<Place, Early> {
    match route::resolve(config, url) {
        Ok(addrs) => Ok(try_all(config, url, addrs, patience)),
        Err(Unresolved::Misfit(text)) => Err(Early::usage(text)),
        Err(Unresolved::Unknown(fault)) => Ok(Place {
            addrs: Vec::new(),
            fault: Some(fault),
        }),
    }
}

/// Connects to all addresses of a url at the same time. Those that accept no connection are left
/// out where another does, and that is said.
fn try_all(config: &Config, url: &Url, addrs: Vec<SocketAddr>, patience: Ns) -> Place {
    let (dial, most) = (
        route::dial(config),
        Duration::from_nanos(patience.0.max(1_000_000)),
    );
    let tries = each(&addrs, |addr| {
        let end = dial.connect(*addr, 0, most);
        (*addr, end.err().map(|error| error.to_string()))
    });
    let (live, dead): (Vec<_>, Vec<_>) = tries.into_iter().partition(|(_, fault)| fault.is_none());
    if live.is_empty() {
        let fault = dead.into_iter().find_map(|(_, fault)| fault);
        return Place { addrs, fault };
    }
    for (addr, fault) in dead {
        let (name, fault) = (route::named(config, url), fault.unwrap_or_default());
        tell(&format!(
            "note: {name}: {addr} accepts no connection ({fault}) and is left out"
        ));
    }
    Place {
        addrs: live.into_iter().map(|(addr, _)| addr).collect(),
        fault: None,
    }
}

/// The urls that accept a connection, with their targets.
pub(super) fn live<'a>(
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
            match list(config, url, target, deadline) {
                Ok(names) if !names.is_empty() => return names,
                _ => {}
            }
        }
        if now() >= deadline {
            return Vec::new();
        }
        pause(config, deadline);
    }
}

/// The models that a server lists.
fn list(config: &Config, url: &Url, target: &Target, deadline: Ns) -> Result<Vec<String>, String> {
    let path = format!("{}{}", probe::models_path(&url.base), url.query);
    let path = route::request_target(config, url, &path);
    let headers = route::headers(config, url);
    let request = fetch::request("GET", &path, &url.authority(), &headers);
    let limits = limits(config, LIST_PATIENCE.min(left(config, deadline)));
    match probe::exchange(target, route::dial(config), &request, limits)? {
        answer if answer.status == 200 => Ok(probe::model_names(&answer.text())),
        answer => Err(format!("status {}", answer.status)),
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
    probe::limits(
        config.connect_timeout.min(patience),
        config.request_timeout.min(patience),
    )
}

fn ask(
    config: &Config,
    target: &Target,
    request: &Request,
    limits: Limits,
) -> Result<Answer, String> {
    let mut bytes = Vec::new();
    target.template.fill(0, 0, &request.body, &mut bytes);
    probe::exchange(target, route::dial(config), &bytes, limits)
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
        let name = match config.connections.proxy_for(url) {
            Some(proxy) => format!("--url {} by {}", url.origin_shown(), proxy.origin()),
            None => format!("--url {}", url.origin_shown()),
        };
        let answer = match ask(config, target, request, limits(config, PATIENCE)) {
            // Before it is cut, or half a key would stay.
            Ok(answer) => Answer {
                body: outcome::secrets(config)
                    .mask(&answer.text())
                    .as_bytes()
                    .to_vec(),
                ..answer
            },
            Err(text) => {
                faults.push(format!("{name}: a probe got no answer: {text}"));
                continue;
            }
        };
        for fault in &faults {
            warn(config, fault);
        }
        let models = match answer.status {
            404 if !config.api.is_triton() => self::models(config, places, targets, now()),
            _ => Vec::new(),
        };
        return match probe::explain(&answer, model, &models) {
            None => match probe::misread(&Endpoint::of(config), &answer) {
                Some(text) => Err(Early::usage(format!("{name}: {text}"))),
                None => Ok(()),
            },
            Some(text) if probe::is_passing(answer.status) => {
                warn(config, &format!("{name}: {text}"));
                Ok(())
            }
            Some(text) => Err(Early::usage(format!("{name}: {text}"))),
        };
    }
    faults.push("--wait-for-model-timeout waits for a model, --no-preflight sends no probe".into());
    Err(Early::new(Exit::Unreachable, faults.join("\n  ")))
}

/// Waits until every server lists the model, answers a request of the run's kind with 2xx, or both.
/// At the deadline it is an error when none has.
pub fn wait_for_model(
    config: &Config,
    targets: &[Target],
    request: &Request,
    deadline: Ns,
) -> Result<(), Early> {
    let pairs: Vec<(&Url, &Target)> = config.urls.iter().zip(targets).collect();
    let faults: Vec<String> = each(&pairs, |(url, target)| {
        wait_for_one(config, url, target, request, deadline)
            .map_err(|last| format!("--url {}: {last}", url.origin_shown()))
    })
    .into_iter()
    .filter_map(Result::err)
    .collect();
    let waited = config.wait.timeout.as_secs();
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
    url: &Url,
    target: &Target,
    request: &Request,
    deadline: Ns,
) -> Result<(), String> {
    loop {
        let listed = match config.wait.mode {
            WaitMode::Inference => Ok(()),
            WaitMode::Models | WaitMode::Both => lists(config, url, target, deadline),
        };
        let ready = listed.and_then(|()| match config.wait.mode {
            WaitMode::Models => Ok(()),
            WaitMode::Inference | WaitMode::Both => answers(config, target, request, deadline),
        });
        match ready {
            Err(last) if now() >= deadline => return Err(last),
            Err(_) => pause(config, deadline),
            Ok(()) => return Ok(()),
        }
    }
}

/// Does the server list the run's model?
fn lists(config: &Config, url: &Url, target: &Target, deadline: Ns) -> Result<(), String> {
    let wanted = config.model.as_deref().unwrap_or_default();
    let names =
        list(config, url, target, deadline).map_err(|text| format!("/v1/models: {text}"))?;
    match names.iter().any(|name| name == wanted) {
        true => Ok(()),
        false => Err(format!(
            "/v1/models lists no model `{wanted}`, but [{}]",
            probe::listed(&names)
        )),
    }
}

/// Does the model answer?
fn answers(
    config: &Config,
    target: &Target,
    request: &Request,
    deadline: Ns,
) -> Result<(), String> {
    let patience = PATIENCE.min(left(config, deadline));
    match ask(config, target, request, limits(config, patience))? {
        answer if (200..300).contains(&answer.status) => Ok(()),
        answer => Err(format!("status {}", answer.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_url;
    use std::net::TcpListener;

    #[test]
    fn an_address_that_accepts_nothing_is_left_out_where_another_does() {
        let (config, url) = (Config::default(), parse_url("h").unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let live = listener.local_addr().unwrap();
        let dead = SocketAddr::from(([127, 0, 0, 2], live.port()));
        let of = |addrs: &[SocketAddr]| try_all(&config, &url, addrs.to_vec(), Ns::MAX);
        let place = of(&[dead, live]);
        assert_eq!((place.addrs, place.fault), (vec![live], None));
        let place = of(&[dead]);
        assert!(place.addrs == [dead] && place.fault.unwrap().contains("refused"));
    }
}
