//! Who tells of GPUs: this machine's driver, exporters that were given or are found beside the
//! targets, pages of servers.

use super::early::Early;
use super::route;
use crate::base::{Exit, Ns};
use crate::config::{Config, GpuSource, GpuTelemetry, Url};
use crate::gpu::{AmdSource, Fields, NvmlOptions, NvmlSource, PageSource, Sampler, Source};
use crate::http::fetch::Limits;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Where DCGM's exporter listens; AIPerf looks at both.
const PORTS: [u16; 2] = [9400, 9401];
/// Between two looks at a page, as AIPerf has it; and between two runs of a slow program.
const PAGE_INTERVAL: Ns = Ns::from_ms(333);
const PROGRAM_INTERVAL: Ns = Ns::from_ms(1_000);
/// Bytes of a page: an exporter of 16 GPUs with all fields has some 200 kB.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// How long first samples are waited for.
const SETTLE: Duration = Duration::from_secs(2);
/// AMD's program, to be found by the PATH.
const AMD_SMI: &str = "amd-smi";

/// Of the first look at a page: one that is given by name may take its time, one that is looked for
/// may not.
fn limits(is_named: bool) -> Limits {
    let (connect, whole) = match is_named {
        true => (2_000, 5_000),
        false => (500, 1_000),
    };
    Limits {
        connect: Ns::from_ms(connect),
        whole: Ns::from_ms(whole),
        body: PAGE_BYTES_MAX,
    }
}

type Opened<S> = JoinHandle<Result<S, String>>;

/// A page being opened.
struct Candidate {
    url: Url,
    page: Opened<PageSource>,
}

/// The search for pages and programs, on threads of its own: what does not answer costs no time
/// while there is something else to prepare.
#[derive(Default)]
pub struct Search {
    named: Vec<Candidate>,
    found: Vec<Candidate>,
    amd: Option<Opened<AmdSource>>,
}

impl Search {
    /// Begins to look, but for a dry run. Errors: the file of fields cannot be read.
    pub fn begin(config: &Arc<Config>) -> Result<Search, Early> {
        let asked = config.gpu_telemetry.as_ref();
        let Some(asked) = asked.filter(|_| !config.dry_run) else {
            return Ok(Search::default());
        };
        let fields = asked.fields.as_deref().map(Fields::read).transpose();
        let fields = fields.map_err(|text| Early::usage(format!("--gpu-telemetry {text}")))?;
        let fields = fields.unwrap_or_default();
        let open = |urls: Vec<Url>, is_named: bool| -> Vec<Candidate> {
            let each = |url: Url| {
                let (config, own, fields) = (config.clone(), url.clone(), fields.clone());
                let work = move || open_page(&config, &own, is_named, fields);
                let page = thread::Builder::new().name("gpu".into()).spawn(work).ok()?;
                Some(Candidate { url, page })
            };
            urls.into_iter().filter_map(each).collect()
        };
        let looks = matches!(asked.source, GpuSource::Auto | GpuSource::Dcgm);
        let wants_amd = match asked.source {
            GpuSource::AmdSmi => true,
            GpuSource::Auto => asked.urls.is_empty() && has_target_here(config),
            GpuSource::Nvml | GpuSource::Dcgm => false,
        };
        let amd = || AmdSource::open(Path::new(AMD_SMI));
        let spawn = || thread::Builder::new().name("gpu".into()).spawn(amd).ok();
        Ok(Search {
            found: match looks && asked.urls.is_empty() {
                true => open(beside_targets(config), false),
                false => Vec::new(),
            },
            named: open(asked.urls.clone(), true),
            amd: wants_amd.then(spawn).flatten(),
        })
    }
}

/// The usual ports of the targets' hosts, and the servers' own pages; each once.
fn beside_targets(config: &Config) -> Vec<Url> {
    let mut urls: Vec<Url> = Vec::new();
    let mut add = |url: Url| {
        if !urls.contains(&url) {
            urls.push(url);
        }
    };
    let pages = config.server_metrics.iter().flat_map(|asked| &asked.urls);
    pages.for_each(|url| add(url.clone()));
    for target in &config.urls {
        for port in PORTS {
            add(Url {
                tls: false,
                host: target.host.clone(),
                port,
                base: "/metrics".into(),
                query: String::new(),
            });
        }
    }
    urls
}

fn open_page(
    config: &Config,
    url: &Url,
    is_named: bool,
    fields: Fields,
) -> Result<PageSource, String> {
    let fetch = route::fetch(config, url, false)?;
    let hostname = match is_here(config, url) {
        true => String::new(),
        false => url.host.clone(),
    };
    PageSource::open(fetch, limits(is_named), hostname, fields)
}

/// Starts to sample all that is there; gives sentences on what is not. Errors: what was asked for
/// by name is not there.
pub fn start(
    config: &Config,
    search: Search,
    cores: &[usize],
) -> Result<(Option<Sampler>, Vec<String>), Early> {
    let Some(asked) = &config.gpu_telemetry else {
        return Ok((None, Vec::new()));
    };
    let unreachable = |text: String| Early::new(Exit::Unreachable, text);
    let mut sources: Vec<(Box<dyn Source>, Ns)> = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    match driver(config, asked) {
        Some(Ok(driver)) => {
            sources.push((Box::new(driver), asked.interval));
        }
        Some(Err(reason)) if asked.library.is_some() => {
            return Err(unreachable(format!("--nvml-library: {reason}")));
        }
        Some(Err(reason)) => reasons.push(reason),
        None if asked.source == GpuSource::Auto => {
            let text = "the servers are on other machines, whose drivers cannot be asked, and no \
                        exporter answers there; give one's url with --gpu-telemetry";
            reasons.push(text.into());
        }
        None => {}
    }
    let has_driver = !sources.is_empty();
    match search.amd.map(joined) {
        Some(Ok(amd)) => sources.push((Box::new(amd), PROGRAM_INTERVAL)),
        Some(Err(reason)) if asked.source == GpuSource::AmdSmi => reasons.push(reason),
        Some(Err(_)) | None => {}
    }
    let mut faults = Vec::new();
    for (candidate, is_named) in with(search.named, true).chain(with(search.found, false)) {
        let Candidate { url, page } = candidate;
        match joined(page) {
            // The driver has told of this machine's GPUs, and which of them are ours to use.
            Ok(_) if has_driver && !is_named && is_here(config, &url) => {}
            Ok(page) => sources.push((Box::new(page), PAGE_INTERVAL)),
            Err(reason) if is_named => {
                faults.push(format!("--gpu-telemetry {}: {reason}", url.origin_shown()));
            }
            Err(_) => {}
        }
    }
    if !faults.is_empty() {
        return Err(unreachable(faults.join("\n  ")));
    }
    if sources.is_empty() {
        let looked = matches!(asked.source, GpuSource::Dcgm | GpuSource::Auto);
        if looked && asked.is_asked && asked.urls.is_empty() {
            let text = "no exporter beside the servers at ports 9400 and 9401: give its url";
            reasons.push(text.into());
        }
        let reason = reasons.join("; ");
        return match asked.is_asked {
            true => Err(unreachable(format!("--gpu-telemetry: {reason}"))),
            false => Ok((None, vec![format!("no GPU telemetry: {reason}")])),
        };
    }
    let sampler = Sampler::start(sources, cores);
    let sampler = sampler.map_err(|text| Early::new(Exit::Unexpected, text))?;
    sampler.settle(SETTLE);
    Ok((Some(sampler), Vec::new()))
}

fn with(all: Vec<Candidate>, is_named: bool) -> impl Iterator<Item = (Candidate, bool)> {
    all.into_iter().map(move |candidate| (candidate, is_named))
}

fn joined<S>(thread: Opened<S>) -> Result<S, String> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err("a thread ended by a panic: please report it".into()))
}

/// This machine's driver, where it is to be asked.
fn driver(config: &Config, asked: &GpuTelemetry) -> Option<Result<NvmlSource, String>> {
    let open = || {
        let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        NvmlSource::open(&NvmlOptions {
            library: asked.library.as_deref(),
            visible: visible.as_deref(),
            processes: asked.processes,
        })
    };
    wants_driver(config, asked).then(open)
}

/// True when this machine's driver is to be asked: its GPUs serve a target, or it was asked for.
fn wants_driver(config: &Config, asked: &GpuTelemetry) -> bool {
    match asked.source {
        _ if asked.library.is_some() => true,
        GpuSource::Nvml => true,
        GpuSource::Dcgm | GpuSource::AmdSmi => false,
        GpuSource::Auto => asked.is_asked || has_target_here(config),
    }
}

fn has_target_here(config: &Config) -> bool {
    config.urls.iter().any(|url| is_here(config, url))
}

/// True when a url is of this machine. A name that only a proxy may know is not looked up.
fn is_here(config: &Config, url: &Url) -> bool {
    if url.is_local() {
        return true;
    }
    if config.connections.proxy_for(url).is_some() {
        return false;
    }
    let addresses = (url.host.as_str(), url.port).to_socket_addrs();
    // Only an address of this machine can be bound.
    let is_own = |address: SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    addresses.is_ok_and(|mut all| all.any(is_own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ServerMetrics, parse_url};

    #[test]
    fn exporters_are_looked_for_beside_the_targets_each_once() {
        let url = |text: &str| parse_url(text).unwrap();
        let config = Config {
            urls: vec![url("a:8000"), url("https://a/v1"), url("b:8000")],
            server_metrics: Some(ServerMetrics {
                urls: vec![url("http://a:8002/metrics")],
                ..ServerMetrics::default()
            }),
            ..Config::default()
        };
        let found: Vec<String> = beside_targets(&config)
            .iter()
            .map(Url::origin_shown)
            .collect();
        let want = [
            "http://a:8002/metrics",
            "http://a:9400/metrics",
            "http://a:9401/metrics",
            "http://b:9400/metrics",
            "http://b:9401/metrics",
        ];
        assert_eq!(found, want);
    }

    fn wants(url: &str, gpus: &GpuTelemetry) -> bool {
        let config = Config {
            urls: vec![parse_url(url).unwrap()],
            ..Config::default()
        };
        wants_driver(&config, gpus)
    }

    #[test]
    fn gpus_of_this_machine_are_watched_where_a_target_is_here_or_when_asked_for() {
        let auto = GpuTelemetry::default();
        for here in ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.0.0.9:1"] {
            assert!(wants(here, &auto), "{here}");
        }
        // TEST-NET-3: nobody's address.
        assert!(!wants("203.0.113.1:1", &auto));
        let asked = GpuTelemetry {
            is_asked: true,
            ..GpuTelemetry::default()
        };
        let library = GpuTelemetry {
            library: Some("x.so".into()),
            source: GpuSource::Dcgm,
            ..GpuTelemetry::default()
        };
        let dcgm = GpuTelemetry {
            source: GpuSource::Dcgm,
            ..asked.clone()
        };
        assert!(wants("203.0.113.1:1", &asked) && wants("203.0.113.1:1", &library));
        assert!(!wants("127.0.0.1:1", &dcgm));
    }
}
