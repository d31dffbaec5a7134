//! The threads that ask their sources again and again until they are stopped.

use super::history::History;
use super::window::{add_further, summarize};
use super::{Device, Further, Source};
use crate::base::Ns;
use crate::runtime;
use crate::stats::Track;
use crate::stats::summary::GpuSummary;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Ticks kept: 27 minutes at 100 ms. Beyond it every other tick goes and the interval doubles, so
/// that a long run's memory stays flat: 3 MB for a GPU of 12 quantities.
const TICKS_MAX: usize = 1 << 14;

/// How long the last sample may take: a driver whose GPU is lost may hang for good, which must not
/// cost the run; a page is given up after 5 s.
const END: Duration = Duration::from_secs(5);

/// What a source has shown at the end.
struct Seen {
    cpu_ns: u64,
    lasted: Duration,
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
    /// CPU time that the sampling took, ns, from its start to its end.
    pub cpu_ns: u64,
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

impl Telemetry {
    /// All tracks, of a GPU that several sources tell of those of the first one that does; a
    /// counter of energy as it moves.
    pub fn tracks_once(&self) -> Vec<Track> {
        let mut all: Vec<Track> = Vec::new();
        for (at, (row, tracks)) in self.gpus.iter().zip(&self.tracks).enumerate() {
            let before = self.gpus[..at].iter().zip(&self.tracks);
            let same: Vec<&Vec<Track>> = before
                .filter(|(other, _)| other.is_of_same(row))
                .map(|(_, tracks)| tracks)
                .collect();
            let is_told = |track: &&Track| {
                let mut told = same.iter().flat_map(|tracks| tracks.iter());
                told.any(|other| other.tag == track.tag && row.instance.is_empty())
            };
            all.extend(tracks.iter().filter(|track| !is_told(track)).cloned());
        }
        for track in &mut all {
            if track.tag.ends_with("_energy_consumption") {
                track.series = track.series.steps();
            }
        }
        all
    }
}

#[derive(Clone, Copy, Debug)]
enum Command {
    Mark,
    Stop,
}

/// Running samplers, a thread per source. Dropping it ends them without a result.
#[derive(Default)]
pub struct Sampler {
    /// With the name of each one's source.
    threads: Vec<(String, JoinHandle<Seen>)>,
    marker: Marker,
    /// Told by each thread after its first sample.
    first: Option<Receiver<()>>,
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
    /// Starts sampling sources, each at its own interval; 100 ms is a good one for a driver. Their
    /// threads keep off `cores`, the workers' CPUs.
    ///
    /// Errors: one line when no thread can be had.
    pub fn start(sources: Vec<(Box<dyn Source>, Ns)>, cores: &[usize]) -> Result<Sampler, String> {
        let (told, first) = channel();
        let begin = |(source, interval): (Box<dyn Source>, Ns)| {
            let (command, commands) = channel();
            let told = told.clone();
            let interval = Duration::from_nanos(interval.0.max(1_000_000));
            let (name, cores) = (source.name().to_owned(), cores.to_vec());
            let work = move || {
                runtime::avoid(&cores);
                watch(source, interval, &commands, &told, TICKS_MAX)
            };
            let thread = std::thread::Builder::new()
                .name("gpu".to_owned())
                .spawn(work)
                .map_err(|error| format!("no thread for GPU samples: {error}"))?;
            Ok((command, (name, thread)))
        };
        let begun: Result<Vec<_>, String> = sources.into_iter().map(begin).collect();
        let (commands, threads) = begun?.into_iter().unzip();
        Ok(Sampler {
            threads,
            marker: Marker(commands),
            first: Some(first),
        })
    }

    /// Waits until each source has been sampled once, so that a window that begins now has a sample
    /// before it; a slow program is waited for `limit` at the most.
    pub fn settle(&self, limit: Duration) {
        let until = Instant::now() + limit;
        for _ in &self.threads {
            let left = until.saturating_duration_since(Instant::now());
            // One that hangs, or has died, is told of at the end.
            let _ = self.first.as_ref().map(|first| first.recv_timeout(left));
        }
    }

    /// To take samples at edges of the measurement from another thread.
    pub fn marker(&self) -> Marker {
        self.marker.clone()
    }

    /// Takes a last sample and sums up the window `from..=to`.
    ///
    /// Call it after the window's end, so that a sample lies on either side of each edge. A source
    /// that hangs is left out after 5 s, or as soon as `is_given_up`.
    pub fn stop(self, from: Ns, to: Ns, is_given_up: &dyn Fn() -> bool) -> Telemetry {
        self.stop_within(END, from, to, is_given_up)
    }

    /// Tells all to end, without waiting for them.
    pub fn end(&self) {
        self.marker.send(Command::Stop);
    }

    fn stop_within(
        mut self,
        limit: Duration,
        from: Ns,
        to: Ns,
        is_given_up: &dyn Fn() -> bool,
    ) -> Telemetry {
        let mut told = Telemetry::default();
        let mut lasted = Duration::ZERO;
        // All end at the same time.
        self.marker.send(Command::Stop);
        let until = Instant::now() + limit;
        for (name, thread) in std::mem::take(&mut self.threads) {
            let Some(seen) = end(thread, until, is_given_up) else {
                let text = format!("GPU telemetry of {name} is lost: it hangs or has failed.");
                told.notes.push(text);
                continue;
            };
            for (at, device) in seen.devices.iter().enumerate() {
                let name = device.key();
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
            told.cpu_ns += seen.cpu_ns;
            lasted = lasted.max(seen.lasted);
            told.notes.extend(seen.notes);
            told.invalid_samples += seen.invalid_samples;
            told.errors.extend(seen.errors);
        }
        if !lasted.is_zero() {
            let share = Duration::from_nanos(told.cpu_ns).div_duration_f64(lasted);
            told.notes.push(format!(
                "Sampling GPUs took {:.2} % of one core.",
                share * 100.0
            ));
        }
        told
    }
}

/// What a thread has seen; `None` when it hangs or has panicked.
fn end(thread: JoinHandle<Seen>, until: Instant, is_given_up: &dyn Fn() -> bool) -> Option<Seen> {
    while !thread.is_finished() && Instant::now() < until && !is_given_up() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Joining one that hangs would hang as well.
    thread.is_finished().then(|| thread.join().ok()).flatten()
}

/// Samples at once, then each interval on an absolute grid and whenever it is told to, then once
/// more at the end.
fn watch(
    mut source: Box<dyn Source>,
    mut interval: Duration,
    commands: &Receiver<Command>,
    first: &Sender<()>,
    ticks_max: usize,
) -> Seen {
    let mut history = History::default();
    let (begun, cpu) = (Instant::now(), runtime::thread_cpu());
    history.push(&source.sample_all());
    // Nobody may wait for it.
    let _ = first.send(());
    let mut due = begun + interval;
    loop {
        match commands.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Command::Mark) => history.push(&source.sample_all()),
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
    history.push(&source.sample_all());
    let cpu = runtime::thread_cpu().since(&cpu);
    Seen {
        cpu_ns: cpu.user_ns + cpu.system_ns,
        lasted: begun.elapsed(),
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
        let sampler = Sampler::start(vec![(Box::new(source), Ns::from_ms(1))], &[]).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        let from = now();
        // Of what is told from here on only the first may have been sampled before.
        while seen.try_recv().is_ok() {}
        for _ in 0..3 {
            seen.recv().unwrap();
        }
        let to = now();
        let telemetry = sampler.stop(from, to, &|| false);
        let row = &telemetry.gpus[0];
        let energy = to.saturating_since(from).as_secs() * 300.0;
        assert!((row.energy_j.unwrap() - energy).abs() < 1e-9 * energy.max(1.0));
        assert_eq!(row.metrics[0].tag, "nvidia_power_usage");
        assert_eq!(telemetry.notes[0], "A fake.");
        assert!(telemetry.notes[1].starts_with("Sampling GPUs took "));
        assert_eq!(telemetry.notes.len(), 2);
    }

    #[test]
    fn a_run_shorter_than_the_interval_still_has_two_samples() {
        let (source, seen) = fake();
        let sampler =
            Sampler::start(vec![(Box::new(source), Ns::from_ms(3_600_000))], &[]).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        sampler.stop(Ns(0), Ns::MAX, &|| false);
        assert_eq!(seen.iter().last(), Some(2));
    }

    #[test]
    fn a_mark_is_a_sample_at_once() {
        let (source, seen) = fake();
        let sampler =
            Sampler::start(vec![(Box::new(source), Ns::from_ms(3_600_000))], &[]).unwrap();
        assert_eq!(seen.recv(), Ok(1));
        sampler.marker().mark();
        assert_eq!(seen.recv(), Ok(2));
        let told = sampler.stop(Ns(0), Ns::MAX, &|| false);
        assert_eq!(told.tracks[0][0].series.times.len(), 3);
        assert_eq!(
            (told.sources[0].as_str(), &*told.tracks[0][0].source),
            ("fake://", "gpu_0")
        );
    }

    #[test]
    fn a_source_that_hangs_costs_its_rows_and_not_the_run() {
        struct Hung(Receiver<()>);

        impl Source for Hung {
            fn name(&self) -> &str {
                "hung://"
            }

            fn devices(&self) -> &[Device] {
                &[]
            }

            fn sample(&mut self) -> Vec<GpuSample> {
                let _ = self.0.recv();
                Vec::new()
            }
        }

        let (held, hangs) = channel();
        let (source, _seen) = fake();
        let interval = Ns::from_ms(1);
        let sources: Vec<(Box<dyn Source>, Ns)> = vec![
            (Box::new(source), interval),
            (Box::new(Hung(hangs)), interval),
        ];
        let sampler = Sampler::start(sources, &[]).unwrap();
        // For the other one it is time enough, or it is lost as well.
        let told = sampler.stop_within(Duration::from_millis(500), Ns(0), Ns::MAX, &|| false);
        let lost = "GPU telemetry of hung:// is lost: it hangs or has failed.";
        assert!(
            told.notes.iter().any(|note| note == lost),
            "{:?}",
            told.notes
        );
        drop(held);
    }

    /// Tells whether its thread may run on a CPU.
    struct Place(usize, Sender<bool>);

    impl Source for Place {
        fn name(&self) -> &str {
            "place://"
        }

        fn devices(&self) -> &[Device] {
            &[]
        }

        fn sample(&mut self) -> Vec<GpuSample> {
            let may = rustix::thread::sched_getaffinity(None).unwrap();
            let _ = self.1.send(may.is_set(self.0));
            Vec::new()
        }
    }

    #[test]
    fn samples_are_taken_off_the_workers_cpus() {
        let usable = runtime::usable();
        let (told, seen) = channel();
        let source: Box<dyn Source> = Box::new(Place(usable[0], told));
        let worker = usable[0];
        let sampler = Sampler::start(vec![(source, Ns::from_ms(3_600_000))], &[worker]).unwrap();
        // With a single CPU there is no other.
        assert_eq!(seen.recv(), Ok(usable.len() == 1));
        assert!(sampler.stop(Ns(0), Ns::MAX, &|| false).gpus.is_empty());
    }
}
