//! The thread that asks a source again and again until it is stopped.

use super::nvml::NvmlSource;
use super::window::summarize;
use super::{Device, GpuSample, Source};
use crate::base::Ns;
use crate::stats::summary::GpuSummary;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Ticks kept: 1.8 hours at 100 ms. Beyond it every other tick goes and the interval doubles, so
/// that a long run's memory stays flat.
const TICKS_MAX: usize = 1 << 16;

/// All that the thread saw.
struct Seen {
    devices: Vec<Device>,
    ticks: Vec<Vec<GpuSample>>,
    notes: Vec<String>,
}

/// GPU rows of a run, and how they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// One row per device.
    pub gpus: Vec<GpuSummary>,
    /// Sentences for the method block.
    pub notes: Vec<String>,
}

/// A running sampler. Dropping it ends its thread without a result.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Sampler {
    /// Starts sampling the machine's GPUs; 100 ms is a good interval.
    ///
    /// The thread inherits the caller's CPU affinity: start it before the caller pins itself.
    /// Cost: loading the driver's library, which takes the longer the more GPUs there are.
    ///
    /// Errors: one line that says why there is nothing to sample.
    pub fn start(interval: Ns) -> Result<Sampler, String> {
        Sampler::start_with(NvmlSource::open()?, interval)
    }

    /// Starts sampling any source.
    ///
    /// Errors: one line when no thread can be had.
    pub fn start_with(source: impl Source + 'static, interval: Ns) -> Result<Sampler, String> {
        let (stop, stopped) = channel();
        let interval = Duration::from_nanos(interval.0.max(1_000_000));
        let thread = std::thread::Builder::new()
            .name("gpu".to_owned())
            .spawn(move || watch(source, interval, &stopped, TICKS_MAX))
            .map_err(|error| format!("no thread for GPU samples: {error}"))?;
        Ok(Sampler { stop, thread })
    }

    /// Takes a last sample and sums up the window `from..=to`.
    ///
    /// Call it after the window's end, so that a sample lies on either side of each edge. Shape:
    /// one row per device; none when the thread died.
    pub fn stop(self, from: Ns, to: Ns) -> Telemetry {
        drop(self.stop);
        let Ok(seen) = self.thread.join() else {
            return Telemetry {
                gpus: Vec::new(),
                notes: vec!["GPU sampling failed midway.".to_owned()],
            };
        };
        let samples: Vec<GpuSample> = seen.ticks.into_iter().flatten().collect();
        Telemetry {
            gpus: summarize(&seen.devices, &samples, from, to),
            notes: seen.notes,
        }
    }
}

/// Samples at once, then each interval on an absolute grid, then once more at the end.
fn watch(
    mut source: impl Source,
    mut interval: Duration,
    stopped: &Receiver<()>,
    ticks_max: usize,
) -> Seen {
    let mut ticks = vec![source.sample()];
    let mut due = Instant::now() + interval;
    while let Err(RecvTimeoutError::Timeout) =
        stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
    {
        ticks.push(source.sample());
        if ticks.len() >= ticks_max {
            thin(&mut ticks);
            interval *= 2;
        }
        // A slow driver costs ticks, never a burst of late ones.
        due = (due + interval).max(Instant::now());
    }
    ticks.push(source.sample());
    Seen {
        devices: source.devices().to_vec(),
        ticks,
        notes: source.notes(),
    }
}

/// Keeps every other tick, the first among them.
fn thin<T>(ticks: &mut Vec<T>) {
    let mut index = 0;
    ticks.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::now;
    use crate::gpu::Gauge;

    /// Counts its samples and tells the test of each.
    struct Fake {
        devices: Vec<Device>,
        sampled: Sender<u32>,
        count: u32,
    }

    impl Source for Fake {
        fn devices(&self) -> &[Device] {
            &self.devices
        }

        fn sample(&mut self) -> Vec<GpuSample> {
            self.count += 1;
            let _ = self.sampled.send(self.count);
            let mut gauges = [None; Gauge::ALL.len()];
            gauges[Gauge::Power as usize] = Some(300.0);
            vec![GpuSample {
                device: 0,
                at: now(),
                gauges,
                energy_j: None,
            }]
        }

        fn notes(&self) -> Vec<String> {
            vec!["A fake.".to_owned()]
        }
    }

    fn fake() -> (Fake, Receiver<u32>) {
        let (sampled, seen) = channel();
        let device = Device {
            index: 0,
            uuid: "GPU-0".to_owned(),
            name: "Fake".to_owned(),
        };
        let fake = Fake {
            devices: vec![device],
            sampled,
            count: 0,
        };
        (fake, seen)
    }

    #[test]
    fn the_window_between_start_and_stop_is_summed_up() {
        let (source, seen) = fake();
        let sampler = Sampler::start_with(source, Ns::from_ms(1)).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        let from = now();
        // Of what is told from here on only the first may have been sampled before.
        while seen.try_recv().is_ok() {}
        for _ in 0..3 {
            seen.recv().unwrap();
        }
        let to = now();
        let telemetry = sampler.stop(from, to);
        let row = &telemetry.gpus[0];
        let energy = to.saturating_since(from).as_secs() * 300.0;
        assert!((row.energy_j.unwrap() - energy).abs() < 1e-9 * energy.max(1.0));
        assert_eq!(row.metrics[0].tag, "nvidia_power_usage");
        assert_eq!(telemetry.notes, ["A fake."]);
    }

    #[test]
    fn a_run_shorter_than_the_interval_still_has_two_samples() {
        let (source, seen) = fake();
        let sampler = Sampler::start_with(source, Ns::from_ms(3_600_000)).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        sampler.stop(Ns(0), Ns::MAX);
        assert_eq!(seen.iter().last(), Some(2));
    }

    #[test]
    fn a_long_run_keeps_every_other_tick() {
        let mut ticks: Vec<u32> = (0..7).collect();
        thin(&mut ticks);
        assert_eq!(ticks, [0, 2, 4, 6]);
    }
}
