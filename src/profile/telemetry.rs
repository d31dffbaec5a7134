//! What is watched beside the requests. Its threads are started before the workers pin themselves,
//! and keep off their CPUs.

use super::early::Early;
use super::servers;
use crate::base::{Exit, Ns};
use crate::config::{Config, GpuTelemetry};
use crate::engine::Pace;
use crate::gpu::{self, NvmlSource, Sampler, Source};
use crate::server_metrics::{self, Collector, Spool, Window};
use crate::stats::Track;
use crate::stats::server::ServerReport;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// How often the start of the measurement is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// What is being watched.
#[derive(Default)]
pub struct Watch {
    gpus: Option<Sampler>,
    servers: Option<Collector>,
    slice: Option<Ns>,
    has_warmup: bool,
}

/// What was seen over the measurement.
#[derive(Default)]
pub struct Watched {
    /// GPUs.
    pub gpus: gpu::Telemetry,
    /// What the servers said of themselves.
    pub servers: ServerReport,
    /// Every scrape of their pages, where that was asked for.
    pub spools: Vec<Spool>,
    /// What was seen over time, on the client's clock.
    pub tracks: Vec<Track>,
}

impl Watch {
    /// Starts to watch what is there, and gives sentences on what is not. What was asked for by
    /// name has to be there. Errors: it is not; before anything is sent.
    pub fn start(config: &Config, cores: &[usize]) -> Result<(Watch, Vec<String>), Early> {
        let mut notes = Vec::new();
        let gpus = match config
            .gpu_telemetry
            .as_ref()
            .map(|asked| (asked, gpus(asked)))
        {
            None => None,
            Some((_, Ok(sampler))) => Some(sampler),
            Some((asked, Err(reason))) if asked.is_asked => {
                let text = format!("--gpu-telemetry: {reason}");
                return Err(Early::new(Exit::Unreachable, text));
            }
            Some((_, Err(reason))) => {
                notes.push(format!("no GPU telemetry: {reason}"));
                None
            }
        };
        let watch = Watch {
            gpus,
            servers: servers::start(config, cores)?,
            slice: config.slice_duration,
            has_warmup: config.warmups().next().is_some(),
        };
        Ok((watch, notes))
    }

    /// Has everything looked at as soon as the measurement begins: the baseline of what counts up,
    /// after the warm-up.
    pub fn mark_start(&self, pace: &Arc<Pace>, cores: &[usize]) {
        let gpus = self.gpus.as_ref().map(Sampler::marker);
        let servers = self.servers.as_ref().map(Collector::marker);
        if gpus.is_none() && servers.is_none() {
            return;
        }
        let (pace, cores) = (Arc::downgrade(pace), cores.to_vec());
        let work = move || {
            crate::runtime::avoid(&cores);
            while let Some(pace) = pace.upgrade() {
                if pace.measured_from().is_some() {
                    gpus.iter().for_each(gpu::Marker::mark);
                    servers.iter().for_each(server_metrics::Marker::mark);
                    return;
                }
                drop(pace);
                thread::sleep(LOOK);
            }
        };
        // Without a thread the baseline is the last sample before.
        let _ = thread::Builder::new().name("marker".into()).spawn(work);
    }

    /// Takes last samples and sums up the measurement, `None` where there was none. Servers count
    /// late, and are waited for until `is_hurried`.
    pub fn finish(self, window: Option<(Ns, Ns)>, is_hurried: &dyn Fn() -> bool) -> Watched {
        let gpus = self.gpus.zip(window);
        let mut watched = Watched {
            gpus: gpus
                .map(|(sampler, (from, to))| sampler.stop(from, to))
                .unwrap_or_default(),
            ..Watched::default()
        };
        if let (Some(servers), Some((from, to))) = (self.servers, window) {
            let seen = servers.finish(is_hurried);
            let window = Window {
                from,
                to,
                has_warmup: self.has_warmup,
                slice: self.slice,
            };
            (watched.servers, watched.tracks) = server_metrics::sum_up(&seen, window);
            watched.spools = seen.into_iter().filter_map(|seen| seen.spool).collect();
        }
        watched
    }
}

fn gpus(asked: &GpuTelemetry) -> Result<Sampler, String> {
    let driver = NvmlSource::open(asked.library.as_deref())?;
    let driver: Box<dyn Source> = Box::new(driver);
    Sampler::start(vec![(driver, asked.interval)])
}
