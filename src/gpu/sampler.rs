//! The threads that ask their sources again and again until they are stopped.

use super::history::History;
use super::window::{add_further, summarize};
use super::{Device, Further, Source};
use crate::base::Ns;
use crate::stats::Track;
use crate::stats::summary::GpuSummary;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Ticks kept: 27 minutes at 100 ms. Beyond it every other tick goes and the interval doubles, so
/// that a long run's memory stays flat: 3 MB for a GPU of 12 quantities.
const TICKS_MAX: usize = 1 << 14;

/// What a source has shown at the end.
struct Seen {
    source: String,
    devices: Vec<Device>,
    history: History,
    notes: Vec<String>,
    invalid_samples: u64,
    further: Vec<Further>,
    errors: Vec<(String, u64)>,
    period: Option<Ns>,
}

/// GPU rows of a run, and how they were taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// One row per device, source by source.
    pub gpus: Vec<GpuSummary>,
    /// What each said over time, in the same order.
    pub tracks: Vec<Vec<Track>>,
    /// Names of the sources.
    pub sources: Vec<String>,
    /// Sentences for the method block.
    pub notes: Vec<String>,
    /// Values that could not be, and were dropped.
    pub invalid_samples: u64,
    /// Why sources did not answer, and how often.
    pub errors: Vec<(String, u64)>,
    /// What each device is called, in the order of `gpus`.
    pub devices: Vec<Device>,
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Mark,
    Stop,
}

/// Running samplers, a thread per source. Dropping it ends them without a result.
#[derive(Default)]
pub struct Sampler {
    threads: Vec<JoinHandle<Seen>>,
    marker: Marker,
}

/// Has samples taken beside those of the interval: at an edge of the measurement.
#[derive(Clone, Default)]
pub struct Marker(Vec<Sender<Command>>);

impl Marker {
    /// Takes a sample of each source now.
    pub fn mark(&self) {
        self.send(Command::Mark);
    }

    fn send(&self, command: Command) {
        for thread in &self.0 {
            // One that died is told of at the end.
            let _ = thread.send(command);
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.marker.send(Command::Stop);
    }
}

impl Sampler {
    /// Starts sampling sources, each at its own interval; 100 ms is a good one for a driver.
    ///
    /// The threads inherit the caller's CPU affinity: start them before the caller pins itself.
    ///
    /// Errors: one line when no thread can be had.
    pub fn start(sources: Vec<(Box<dyn Source>, Ns)>) -> Result<Sampler, String> {
        let begin = |(source, interval): (Box<dyn Source>, Ns)| {
            let (command, commands) = channel();
            let interval = Duration::from_nanos(interval.0.max(1_000_000));
            let thread = std::thread::Builder::new()
                .name("gpu".to_owned())
                .spawn(move || watch(source, interval, &commands, TICKS_MAX))
                .map_err(|error| format!("no thread for GPU samples: {error}"))?;
            Ok((command, thread))
        };
        let begun: Result<Vec<_>, String> = sources.into_iter().map(begin).collect();
        let (commands, threads) = begun?.into_iter().unzip();
        Ok(Sampler {
            threads,
            marker: Marker(commands),
        })
    }

    /// To take samples at edges of the measurement from another thread.
    pub fn marker(&self) -> Marker {
        self.marker.clone()
    }

    /// Takes a last sample and sums up the window `from..=to`.
    ///
    /// Call it after the window's end, so that a sample lies on either side of each edge.
    pub fn stop(mut self, from: Ns, to: Ns) -> Telemetry {
        let mut told = Telemetry::default();
        // All end at the same time.
        self.marker.send(Command::Stop);
        for thread in std::mem::take(&mut self.threads) {
            let Ok(seen) = thread.join() else {
                told.notes.push("GPU sampling failed midway.".to_owned());
                continue;
            };
            for (at, device) in seen.devices.iter().enumerate() {
                let name = format!("gpu_{}", told.gpus.len());
                let mut tracks = seen.history.tracks(at, &name, device.platform);
                let mut row = summarize(&seen.source, device, &tracks, (from, to));
                row.update_period = seen.period;
                let further = seen.further.iter().filter(|own| own.device == at);
                add_further(&mut row, &mut tracks, further, (from, to));
                told.gpus.push(row);
                told.tracks.push(tracks);
                told.devices.push(device.clone());
            }
            told.sources.push(seen.source);
            told.notes.extend(seen.notes);
            told.invalid_samples += seen.invalid_samples;
            told.errors.extend(seen.errors);
        }
        told
    }
}

/// Samples at once, then each interval on an absolute grid and whenever it is told to, then once
/// more at the end.
fn watch(
    mut source: Box<dyn Source>,
    mut interval: Duration,
    commands: &Receiver<Command>,
    ticks_max: usize,
) -> Seen {
    let mut history = History::default();
    history.push(&source.sample());
    let mut due = Instant::now() + interval;
    loop {
        match commands.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Command::Mark) => history.push(&source.sample()),
            Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                history.push(&source.sample());
                if history.ticks_count() >= ticks_max {
                    history.thin();
                    interval *= 2;
                }
                // A slow driver costs ticks, never a burst of late ones.
                due = (due + interval).max(Instant::now());
            }
        }
    }
    history.push(&source.sample());
    Seen {
        source: source.name().to_owned(),
        devices: source.devices().to_vec(),
        history,
        notes: source.notes(),
        invalid_samples: source.invalid_samples(),
        further: source.further(),
        errors: source.errors(),
        period: source.period(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::now;
    use crate::gpu::{GpuSample, Quantity};

    /// Counts its samples and tells the test of each.
    struct Fake {
        devices: Vec<Device>,
        sampled: Sender<u32>,
        count: u32,
    }

    impl Source for Fake {
        fn name(&self) -> &str {
            "fake://"
        }

        fn devices(&self) -> &[Device] {
            &self.devices
        }

        fn sample(&mut self) -> Vec<GpuSample> {
            self.count += 1;
            let _ = self.sampled.send(self.count);
            let mut values = [None; Quantity::COUNT];
            values[Quantity::Power as usize] = Some(300.0);
            vec![GpuSample {
                device: 0,
                at: now(),
                values,
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
            ..Device::default()
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
        let sampler = Sampler::start(vec![(Box::new(source), Ns::from_ms(1))]).unwrap();
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
        let sampler = Sampler::start(vec![(Box::new(source), Ns::from_ms(3_600_000))]).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        sampler.stop(Ns(0), Ns::MAX);
        assert_eq!(seen.iter().last(), Some(2));
    }

    #[test]
    fn a_mark_is_a_sample_at_once() {
        let (source, seen) = fake();
        let sampler = Sampler::start(vec![(Box::new(source), Ns::from_ms(3_600_000))]).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        sampler.marker().mark();
        assert_eq!(seen.recv(), Ok(2));
        let told = sampler.stop(Ns(0), Ns::MAX);
        assert_eq!(told.tracks[0][0].series.times.len(), 3);
        assert_eq!(
            (told.sources[0].as_str(), &*told.tracks[0][0].source),
            ("fake://", "gpu_0")
        );
    }
}
