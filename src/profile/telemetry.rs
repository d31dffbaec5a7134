//! What is watched beside the requests. Its threads are started before the workers pin themselves,
//! and keep off their CPUs.

use super::early::Early;
use crate::base::{Exit, Ns};
use crate::config::{Config, GpuSource, GpuTelemetry, Url};
use crate::engine::Pace;
use crate::gpu::{self, NvmlOptions, NvmlSource, Sampler, Source};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often the start of the measurement is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// What is being watched.
#[derive(Default)]
pub struct Watch {
    gpus: Option<Sampler>,
}

/// What was seen over the measurement.
#[derive(Debug, Default)]
pub struct Watched {
    /// GPUs.
    pub gpus: gpu::Telemetry,
}

impl Watch {
    /// Starts to watch what is there, from threads that keep off `cores`, and gives sentences on
    /// what is not. What was asked for by name has to be there. Errors: it is not; before anything
    /// is sent.
    pub fn start(config: &Config, cores: &[usize]) -> Result<(Watch, Vec<String>), Early> {
        let mut notes = Vec::new();
        let asked = config.gpu_telemetry.as_ref();
        let asked = asked.filter(|asked| wants_driver(config, asked));
        let gpus = match asked.map(|asked| (asked, gpus(asked, cores))) {
            None => None,
            Some((_, Ok(sampler))) => Some(sampler),
            Some((asked, Err(reason))) if asked.library.is_some() => {
                let text = format!("--nvml-library: {reason}");
                return Err(Early::new(Exit::Unreachable, text));
            }
            Some((asked, Err(reason))) if asked.is_asked => {
                let text = format!("--gpu-telemetry: {reason}");
                return Err(Early::new(Exit::Unreachable, text));
            }
            Some((_, Err(reason))) => {
                notes.push(format!("no GPU telemetry: {reason}"));
                None
            }
        };
        Ok((Watch { gpus }, notes))
    }

    /// Has everything looked at as soon as the measurement begins: the baseline of what counts up,
    /// after the warm-up.
    pub fn mark_start(&self, pace: &Arc<Pace>, cores: &[usize]) {
        let Some(gpus) = self.gpus.as_ref().map(Sampler::marker) else {
            return;
        };
        let (pace, cores) = (Arc::downgrade(pace), cores.to_vec());
        let work = move || {
            crate::runtime::avoid(&cores);
            while let Some(pace) = pace.upgrade() {
                if pace.measured_from().is_some() {
                    return gpus.mark();
                }
                drop(pace);
                thread::sleep(LOOK);
            }
        };
        // Without a thread the baseline is the last sample before.
        let _ = thread::Builder::new().name("marker".into()).spawn(work);
    }

    /// Takes last samples and sums up the measurement, `None` where there was none.
    pub fn finish(self, window: Option<(Ns, Ns)>) -> Watched {
        let gpus = self.gpus.zip(window);
        Watched {
            gpus: gpus
                .map(|(sampler, (from, to))| sampler.stop(from, to))
                .unwrap_or_default(),
        }
    }
}

fn gpus(asked: &GpuTelemetry, cores: &[usize]) -> Result<Sampler, String> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let driver = NvmlSource::open(&NvmlOptions {
        library: asked.library.as_deref(),
        visible: visible.as_deref(),
        processes: asked.processes,
    })?;
    let driver: Box<dyn Source> = Box::new(driver);
    Sampler::start(vec![(driver, asked.interval)], cores)
}

/// True when this machine's driver is to be asked: its GPUs serve a target, or it was asked for.
fn wants_driver(config: &Config, asked: &GpuTelemetry) -> bool {
    match asked.source {
        _ if asked.library.is_some() => true,
        GpuSource::Nvml => true,
        GpuSource::Dcgm | GpuSource::AmdSmi => false,
        GpuSource::Auto => asked.is_asked || config.urls.iter().any(|url| is_here(config, url)),
    }
}

/// True when a target is this machine. A name that only a proxy may know is not looked up.
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
    use crate::config::parse_url;

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
