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

/// Where DCGM's exporter listens; AIPerf looks at both.
const PORTS: [u16; 2] = [9400, 9401];
/// Between two looks at a page, as AIPerf has it; and between two runs of a slow program.
const PAGE_INTERVAL: Ns = Ns::from_ms(333);
const PROGRAM_INTERVAL: Ns = Ns::from_ms(1_000);
/// Bytes of a page: an exporter of 16 GPUs with all fields has some 200 kB.
const PAGE_BYTES_MAX: usize = 8 << 20;
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

/// True for a url of this machine. A name that only a proxy may know is not looked up.
fn is_here(config: &Config, url: &Url) -> bool {
    if url.is_local() {
        return true;
    }
    if config.connections.proxy_for(url).is_some() {
        return false;
    }
    let found = (url.host.as_str(), url.port).to_socket_addrs();
    // Only an address of this machine can be bound.
    let is_own = |addr: SocketAddr| UdpSocket::bind((addr.ip(), 0)).is_ok();
    found.is_ok_and(|mut all| all.any(is_own))
}

fn has_target_here(config: &Config) -> bool {
    config.urls.iter().any(|url| is_here(config, url))
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
    let mut sources: Vec<(Box<dyn Source>, Ns)> = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    match driver(config, asked) {
        Some(Ok(driver)) => {
            known = driver
                .devices()
                .iter()
                .map(|device| device.uuid.clone())
                .collect();
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
    match search.amd.map(joined) {
        Some(Ok(amd)) => sources.push((Box::new(amd), PROGRAM_INTERVAL)),
        Some(Err(reason)) if asked.source == GpuSource::AmdSmi => reasons.push(reason),
        Some(Err(_)) | None => {}
    }
    sources.extend(pages(config, search.named, search.found, &known)?);
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
    Ok((Some(sampler), Vec::new()))
}

/// The pages with GPUs, but for GPUs that are `known` by their UUIDs. Errors: one that was named
/// has none.
fn pages(
    config: &Config,
    named: Vec<Candidate>,
    found: Vec<Candidate>,
    known: &[String],
) -> Result<Vec<(Box<dyn Source>, Ns)>, Early> {
    let mut sources: Vec<(Box<dyn Source>, Ns)> = Vec::new();
    let mut faults = Vec::new();
    for (candidate, is_named) in with(named, true).chain(with(found, false)) {
        let Candidate { url, page } = candidate;
        match joined(page) {
            Ok(mut page) => {
                if is_here(config, &url) {
                    page.skip(known);
                }
                if !page.devices().is_empty() {
                    sources.push((Box::new(page), PAGE_INTERVAL));
                }
            }
            Err(reason) if is_named => {
                faults.push(format!("--gpu-telemetry {}: {reason}", url.origin_shown()));
            }
            Err(_) => {}
        }
    }
    if !faults.is_empty() {
        return Err(unreachable(faults.join("\n  ")));
    }
    Ok(sources)
}

fn unreachable(text: String) -> Early {
    Early::new(Exit::Unreachable, text)
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
    let is_wanted = match asked.source {
        _ if asked.library.is_some() => true,
        GpuSource::Nvml => true,
        GpuSource::Auto => asked.is_asked || has_target_here(config),
        GpuSource::Dcgm | GpuSource::AmdSmi => false,
    };
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let options = NvmlOptions {
        library: asked.library.as_deref(),
        visible: visible.as_deref(),
        processes: asked.processes,
    };
    is_wanted.then(|| NvmlSource::open(&options))
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

    #[test]
    fn a_loopback_address_is_of_this_machine_and_a_documentation_s_is_not() {
        let is_here = |text: &str| is_here(&Config::default(), &parse_url(text).unwrap());
        for here in ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.0.0.9:1"] {
            assert!(is_here(here), "{here}");
        }
        assert!(!is_here("192.0.2.7:1") && !is_here("no.such.host.invalid:1"));
    }
}
