//! What is watched beside the requests. Its threads are started before the workers pin themselves,
//! and keep off their CPUs.

use super::early::Early;
use super::gpus::{self, Search};
use super::servers;
use super::steps::Steps;
use crate::base::{Ns, now};
use crate::config::Config;
use crate::engine::Pace;
use crate::gpu::{self, Sampler};
use crate::server_metrics::{self, Collector, Spool, Window};
use crate::stats::Track;
use crate::stats::energy::idle_power;
use crate::stats::server::ServerReport;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

/// How often the start of the measurement is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// What is being watched.
#[derive(Default)]
pub struct Watch {
    gpus: Option<Sampler>,
    /// When the first request was about to be sent.
    began: OnceLock<Ns>,
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
    /// Starts to watch what is there, from threads that keep off `cores`, and gives sentences on
    /// what is not. What was asked for by name has to be there. Errors: it is not; before anything
    /// is sent.
    pub fn start(
        config: &Config,
        gpus: Search,
        cores: &[usize],
    ) -> Result<(Watch, Vec<String>), Early> {
        let (gpus, notes) = gpus::start(config, gpus, cores)?;
        let watch = Watch {
            gpus,
            servers: servers::start(config, cores)?,
            slice: config.slice_duration,
            has_warmup: config.warmups().next().is_some(),
            ..Watch::default()
        };
        Ok((watch, notes))
    }

    /// Watches the GPUs for as long as was asked for, while nothing is sent.
    pub fn rest(&self, config: &Config, steps: &Steps) {
        let asked = config.gpu_telemetry.as_ref().map(|asked| asked.idle);
        let Some(idle) = asked.filter(|idle| *idle > Ns::ZERO && self.gpus.is_some()) else {
            return;
        };
        steps.begin(format!("watching the idle GPUs for {} s", idle.as_secs()));
        // A signal ends the preparations, and this thread with them.
        thread::sleep(Duration::from_nanos(idle.0));
    }

    /// Has everything looked at as soon as the measurement begins: the baseline of what counts up,
    /// after the warm-up.
    pub fn mark_start(&self, pace: &Arc<Pace>, cores: &[usize]) {
        // Only the first one counts.
        let _ = self.began.set(now());
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
    /// late, and are waited for until the first of `signals`, what hangs until the second.
    pub fn finish(self, window: Option<(Ns, Ns)>, signals: &dyn Fn() -> usize) -> Watched {
        let is_hurried: &dyn Fn() -> bool = &|| signals() > 0;
        let is_given_up: &dyn Fn() -> bool = &|| signals() > 1;
        self.gpus.iter().for_each(Sampler::end);
        let servers = self.servers.zip(window);
        let servers = servers.map(|(servers, window)| (servers.finish(is_hurried), window));
        let gpus = self.gpus.zip(window);
        let gpus = gpus.map(|(sampler, (from, to))| sampler.stop(from, to, is_given_up));
        let mut gpus = gpus.unwrap_or_default();
        let began = self.began.get().copied().unwrap_or(Ns::ZERO);
        for (gpu, tracks) in gpus.gpus.iter_mut().zip(&gpus.tracks) {
            gpu.idle_power_w = idle_power(tracks, began);
        }
        let mut watched = Watched {
            gpus,
            ..Watched::default()
        };
        if let Some((seen, (from, to))) = servers {
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
