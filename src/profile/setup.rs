//! From a checked configuration to what the cores need: targets, tokenizer, bodies, pace.

use super::payload::Builder;
use super::replay::Replay;
use super::route;
use super::store::Payloads;
use crate::base::{Ns, limits};
use crate::config::{Config, Cores, Level, Load, Pattern, PhaseSpec, Reuse, Url};
use crate::endpoint::{self, Endpoint};
use crate::engine::{GatePlan, PaceOptions, PhasePlan, Target};
use crate::http::{Template, TlsClient, TlsOptions};
use crate::runtime;
use crate::schedule::{Arrivals, Curve, Gaps, Law, Users};
use crate::workload::{Media, PromptSource};
use std::net::SocketAddr;
use std::sync::Arc;

/// Headers of every request, in the order of the wire.
pub fn headers(config: &Config) -> Vec<(String, String)> {
    let accept = if config.streaming {
        "text/event-stream"
    } else {
        "application/json"
    };
    let given = |name: &str| {
        config
            .headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let mut all = Vec::new();
    let mut add = |name: &str, value: String| {
        if !given(name) {
            all.push((name.to_string(), value));
        }
    };
    add(
        "User-Agent",
        format!("tokenring/{}", env!("CARGO_PKG_VERSION")),
    );
    add("Accept", accept.to_string());
    add("Accept-Encoding", "identity".to_string());
    let endpoint = Endpoint::of(config);
    add("Content-Type", endpoint.content_type().to_string());
    for (name, value) in endpoint.headers(config.api_key.as_deref()) {
        add(name, value);
    }
    if config.connections.reuse == Reuse::Never {
        // The server closes first, so that the ports of this machine are free at once.
        add("Connection", "close".to_string());
    }
    all.extend(config.headers.iter().cloned());
    all
}

/// Headers that carry a session's id.
fn session_headers(config: &Config) -> Vec<&str> {
    let own = config.session_header.as_deref();
    let asked = config.session.is_some() || own.is_some();
    let usual = Some("X-Correlation-ID").filter(|_| asked);
    usual.into_iter().chain(own).collect()
}

/// Path and query of a url's requests.
pub fn path(config: &Config, url: &Url, model: &str) -> String {
    let path = match &config.path {
        Some(path) if path.is_empty() => String::new(),
        Some(path) => format!("/{}", path.trim_start_matches('/')),
        None => Endpoint::of(config).path(config.streaming, model),
    };
    let joined = endpoint::join(&url.base, &path);
    let joined = if joined.is_empty() {
        "/".to_string()
    } else {
        joined
    };
    format!("{joined}{}", url.query)
}

/// The targets, in the order of the urls and of their addresses.
pub fn targets(
    config: &Config,
    addrs: &[Vec<SocketAddr>],
    model: &str,
) -> Result<Vec<Target>, String> {
    let options = TlsOptions {
        ca: config.tls_ca.clone(),
        insecure: config.tls_insecure,
    };
    config
        .urls
        .iter()
        .zip(addrs)
        .map(|(url, addrs)| {
            let tls = match url.tls {
                true => Some(TlsClient::new(url.name(), &options).map_err(|e| e.to_string())?),
                false => None,
            };
            let path = route::request_target(config, url, &path(config, url, model));
            let template = Template::new(&path, &url.authority(), &route::headers(config, url))
                .map_err(|error| format!("--header: {error}"))?
                .with_session_headers(&session_headers(config));
            Ok(Target {
                addrs: addrs.clone(),
                via: route::via(config, url),
                tls,
                template,
            })
        })
        .collect()
}

/// Streams that the load can have in flight, as far as it says.
pub fn streams(config: &Config) -> u32 {
    let level = |load: &Load| load.concurrency.map(|level| level.most).or(load.users);
    let of = |load: &Load| level(load).unwrap_or(256);
    config
        .phases
        .iter()
        .map(|phase| of(&phase.load))
        .max()
        .unwrap_or(1)
}

/// CPUs of the workers, and what speaks for them and against them, in one line.
pub fn cores(config: &Config) -> Result<(Vec<usize>, String), String> {
    let topology = runtime::Topology::read(!config.urls.iter().all(Url::is_local));
    let usable = runtime::usable();
    let chosen = match &config.cores {
        Cores::Auto => {
            // One physical core is left to all else; a core can do with a few streams, too.
            let streams = streams(config) as usize;
            let useful = streams.div_ceil(limits::STREAMS_PER_CORE).max(1);
            let most = useful.min(config.workers_max.unwrap_or(usize::MAX)).max(1);
            topology.choose((topology.physical_count() - 1).clamp(1, most))
        }
        Cores::Count(count) if *count == 0 || *count > usable.len() => {
            let there = usable.len();
            return Err(format!(
                "--cores {count}: this process may use {there} CPUs"
            ));
        }
        Cores::Count(count) => topology.choose(*count),
        Cores::List(list) => match list.iter().find(|cpu| !usable.contains(cpu)) {
            Some(cpu) => {
                return Err(format!(
                    "--cores: CPU {cpu} is not usable; usable: {usable:?}"
                ));
            }
            None => list.clone(),
        },
    };
    let told = topology.describe(&chosen);
    Ok((chosen, told))
}

/// The pace: each phase with its law and its gates.
pub fn pace(config: &Config, replay: Option<&Replay>, cores: usize) -> Result<PaceOptions, String> {
    let times = replay.and_then(|replay| replay.times.clone());
    let phases: Result<Vec<PhasePlan>, String> = config
        .phases
        .iter()
        .map(|spec| {
            let times = times.clone().filter(|_| spec.load.scheduled);
            let phase = phase(config, spec, times);
            check_schedule(config, spec, &phase).map(|()| phase)
        })
        .collect();
    Ok(PaceOptions {
        phases: phases?,
        turns: config.session.is_some(),
        urls: config.urls.len(),
        skip_capped: config.skip_capped,
        skip_late: config.skip_late,
        cores: u32::try_from(cores).unwrap_or(1),
    })
}

fn phase(config: &Config, spec: &PhaseSpec, times: Option<Arc<[Ns]>>) -> PhasePlan {
    let law = times.map(Law::Times).or_else(|| law(config, spec));
    let gate = |level: Level| GatePlan {
        most: level.most,
        openings: level
            .ramp
            .map_or(Vec::new(), |ramp| ramp.openings(level.most, config.seed)),
    };
    let concurrency = spec.load.concurrency.map(gate);
    let (slots, cap) = match law {
        None => (concurrency, None),
        Some(_) => (None, concurrency),
    };
    PhasePlan {
        measured: spec.measured,
        law,
        slots,
        users: users(config, spec),
        cap,
        prefill: spec.load.prefill.map(gate),
        per_url: spec.load.per_url,
        count: spec.requests,
        sessions: spec.sessions,
        duration: spec.duration,
        grace: spec.grace,
        drains: spec.drains,
    }
}

/// The users of a phase, where it has some.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked"
)]
fn users(config: &Config, spec: &PhaseSpec) -> Option<Arc<Users>> {
    let (count, rate) = (spec.load.users?, spec.load.rate_per_s()?);
    let turns = config
        .session
        .map_or(1.0, |session| session.turns.mean.round());
    Some(Arc::new(Users::new(count, turns as u32, rate)))
}

/// How the requests of a phase arrive; absent in a closed loop.
fn law(config: &Config, spec: &PhaseSpec) -> Option<Law> {
    let rate = spec
        .load
        .rate
        .as_ref()
        .filter(|_| spec.load.users.is_none())?;
    let gaps = match rate.pattern {
        Pattern::Constant => Gaps::Constant,
        Pattern::Poisson => Gaps::Exponential,
        Pattern::Gamma(shape) => Gaps::Gamma { shape },
        Pattern::Burst => return Some(Law::Burst),
    };
    let curve = match &rate.ramp {
        _ if !rate.series.is_empty() => Curve::series(&rate.series),
        Some(ramp) => Curve::ramp(rate.per_s, ramp, config.seed),
        None => Curve::flat(rate.per_s),
    };
    let law = Law::Renewal {
        gaps,
        curve,
        seed: config.seed,
        stretch: 1.0,
    };
    Some(match spec.requests.filter(|_| rate.normalized) {
        Some(count) => law.normalized(count),
        None => law,
    })
}

/// A measured phase must have one request at the least.
fn check_schedule(config: &Config, spec: &PhaseSpec, phase: &PhasePlan) -> Result<(), String> {
    let Some(law) = phase.law.as_ref().filter(|_| spec.measured) else {
        return Ok(());
    };
    let first = Arrivals::new(law.clone(), 0, config.phases[0] != *spec).due(0);
    let flag = match spec.load.rate.as_ref() {
        None => "--input-file".to_string(),
        Some(rate) if !rate.series.is_empty() => "--request-rate-series".to_string(),
        rate => format!("--request-rate {:?}", rate.map_or(0.0, |rate| rate.per_s)),
    };
    match (first, spec.duration) {
        (None, _) => Err(format!("{flag}: no request is due")),
        (Some(first), Some(duration)) if first >= duration => Err(format!(
            "{flag}: no request is due within --benchmark-duration {} (--random-seed {}); give a \
             higher rate or a longer duration",
            duration.as_secs(),
            config.seed
        )),
        _ => Ok(()),
    }
}

/// The phases that a report tells apart: those of a file, or of several measurements.
pub fn told_apart(config: &Config) -> Vec<(String, bool)> {
    if config.has_one_load() {
        return Vec::new();
    }
    let phases = config.phases.iter();
    phases
        .map(|phase| (phase.name.clone(), phase.measured))
        .collect()
}

/// The slots of each core in a closed loop: they differ by one at most and add up exactly.
pub fn shares(total: usize, cores: usize) -> Vec<usize> {
    (0..cores)
        .map(|core| total / cores + usize::from(core < total % cores))
        .collect()
}

/// Checks that files and ports suffice, and raises the soft limit of files. Gives sentences for the
/// reader.
pub fn check_limits(config: &Config) -> Result<Vec<String>, String> {
    let streams = u64::from(streams(config));
    let limits = runtime::raise_fds();
    // Two per connection while a wait for writability holds a copy, and the program's own.
    let needed = streams + 128;
    if limits.soft < needed {
        return Err(format!(
            "--concurrency {streams}: {needed} open files needed, the limit is {} (ulimit -n)",
            limits.soft
        ));
    }
    route::check(config, streams)
}

/// The images and recordings of a run. Errors: they cannot be made.
pub fn media(config: &Config, pace: &PaceOptions) -> Result<Media, String> {
    let wanted = [total(pace), config.dataset_entries];
    let wanted = wanted.into_iter().flatten().min();
    Media::make(&config.contents, config.seed, wanted)
}

/// The request bodies of a run.
pub fn payloads(
    config: &Arc<Config>,
    model: &str,
    sources: (PromptSource, Media),
    replay: Option<Arc<Replay>>,
    pace: &PaceOptions,
    workers: &[usize],
) -> Payloads {
    let (prompts, media) = sources;
    let builder = Builder::new(config.clone(), model.to_string(), prompts, replay, media);
    let count = |measured: bool| -> Option<u64> {
        let own = pace
            .phases
            .iter()
            .filter(|phase| phase.measured == measured);
        own.map(|phase| phase.count).sum()
    };
    let has_warmup = pace.phases.iter().any(|phase| !phase.measured);
    Payloads::new(
        builder,
        has_warmup.then(|| count(false)),
        count(true),
        workers,
    )
}

/// Requests of a run, warm-up included, as far as they are known before.
pub fn total(pace: &PaceOptions) -> Option<u64> {
    pace.phases.iter().map(|phase| phase.count).sum()
}

/// Connections to open before the start.
pub fn connections(config: &Config) -> usize {
    if config.connections.reuse == Reuse::Never {
        return 0;
    }
    let counts = config.phases.iter().map(|phase| phase.requests);
    let requests: Option<u64> = counts.sum();
    let requests = requests.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let wanted = |phase: &PhaseSpec| {
        let level = phase.load.concurrency.map(|level| level.most as usize);
        match phase.load.is_closed() {
            true => level.unwrap_or(1),
            // An open loop opens as it goes; a few are ready.
            false => level.unwrap_or(usize::MAX).min(64),
        }
    };
    let most = config.phases.iter().map(wanted).max().unwrap_or(1);
    most.min(requests).min(limits::CONCURRENCY_MAX as usize)
}

/// How long the server may take its connections in before the first request.
pub fn settle(connections: usize) -> Ns {
    let each = limits::SETTLE_PER_CONNECTION.0;
    Ns(each.saturating_mul(connections as u64)).min(limits::SETTLE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_authorization_goes_out_and_the_explicit_one_wins() {
        let config = Config {
            api_key: Some("key".into()),
            headers: vec![("authorization".into(), "Basic x".into())],
            ..Config::default()
        };
        let sent = |config: &Config| {
            let mut all = headers(config);
            all.retain(|(name, _)| name.eq_ignore_ascii_case("authorization"));
            all.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(sent(&config), ["Basic x"]);
        let headers = Vec::new();
        assert_eq!(sent(&Config { headers, ..config }), ["Bearer key"]);
    }

    #[test]
    fn a_schedule_without_a_measured_request_names_its_flags() {
        let check = |pattern, rate_per_s, duration_ms: Option<u64>| {
            let spec = PhaseSpec {
                load: Load::open(pattern, rate_per_s, None),
                duration: duration_ms.map(Ns::from_ms),
                requests: Some(3),
                ..PhaseSpec::default()
            };
            let config = Config {
                phases: vec![spec],
                ..Config::default()
            };
            pace(&config, None, 1).map(|options| options.phases.len())
        };
        assert_eq!(check(Pattern::Constant, 1e-300, Some(10)), Ok(1));
        for (rate, duration) in [(1e-300, None), (1e-3, Some(1))] {
            let error = check(Pattern::Poisson, rate, duration).unwrap_err();
            assert!(error.contains("--request-rate"), "{error}");
        }
    }

    #[test]
    fn shares_add_up_and_differ_by_one_at_most() {
        for (total, cores) in [(100, 3), (1, 4), (0, 2), (64, 1)] {
            let shares = shares(total, cores);
            assert_eq!(shares.iter().sum::<usize>(), total);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
