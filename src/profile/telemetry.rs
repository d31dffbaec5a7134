//! What is watched beside the requests. Its threads are started before the workers pin themselves,
//! and keep off their CPUs.

use super::early::Early;
use super::gpus::{self, Search};
use super::steps::Steps;
use crate::base::{Ns, now};
use crate::config::Config;
use crate::engine::Pace;
use crate::gpu::{self, Sampler};
use crate::stats::Track;
use crate::stats::energy::idle_power;
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
}

/// What was seen over the measurement.
#[derive(Debug, Default)]
pub struct Watched {
    /// GPUs.
    pub gpus: gpu::Telemetry,
    /// What the servers said of themselves over time.
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
        let gpus = gpus.map(|(sampler, (from, to))| sampler.stop(from, to));
        let mut gpus = gpus.unwrap_or_default();
        let began = self.began.get().copied().unwrap_or(Ns::ZERO);
        for (gpu, tracks) in gpus.gpus.iter_mut().zip(&gpus.tracks) {
            gpu.idle_power_w = idle_power(tracks, began);
        }
        Watched {
            gpus,
            tracks: Vec::new(),
        }
    }
}
