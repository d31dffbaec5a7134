//! What is watched beside the requests. Its threads are started before the workers pin themselves,
//! and keep off their CPUs.

use super::early::Early;
use crate::base::{Exit, Ns};
use crate::config::{Config, GpuTelemetry};
use crate::engine::Pace;
use crate::gpu::{self, NvmlSource, Sampler, Source};
use crate::stats::Track;
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
    /// What the servers said of themselves over time.
    pub tracks: Vec<Track>,
}

impl Watch {
    /// Starts to watch what is there, and gives sentences on what is not. What was asked for by
    /// name has to be there. Errors: it is not; before anything is sent.
    pub fn start(config: &Config) -> Result<(Watch, Vec<String>), Early> {
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
            tracks: Vec::new(),
        }
    }
}

fn gpus(asked: &GpuTelemetry) -> Result<Sampler, String> {
    let driver = NvmlSource::open(asked.library.as_deref())?;
    let driver: Box<dyn Source> = Box::new(driver);
    Sampler::start(vec![(driver, asked.interval)])
}
