//! The requests of a run, kept ready: built before the clock starts, or by a bounded builder ahead
//! of need.

use super::payload::Builder;
use crate::base::limits;
use crate::engine::{Drawn, Request, Requests};
use crate::runtime;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Bodies kept ready ahead of the run when it is too long to build whole.
const RING_SLOTS: u64 = 16_384;
/// And as few as this when each is large.
const RING_SLOTS_MIN: u64 = 64;
/// And of giant ones: what is built, sent and waited for.
const RING_SLOTS_LEAST: u64 = 4;
/// Requests built at once before the start.
const BUILD_AHEAD: u64 = 20_000;
/// Of a ring, those that are there before the start; of sessions there are fewer, of more prompts.
const FIRST_LAP: u64 = 2_048;
const FIRST_SESSIONS: u64 = 128;
/// Number of the probe's prompt: no warm-up is so long.
const PROBE: u64 = 1 << 60;

/// All requests of a run, as the cores ask for them.
pub struct Payloads {
    builder: Arc<Builder>,
    measured: Store,
    warmup: Option<Store>,
}

/// Those that are measured, or those that are not.
enum Store {
    /// Built whole; number n is the one at n modulo their count.
    Arena(Vec<Request>),
    /// Built ahead by a thread.
    Ring(Arc<RingState>),
}

/// A ring of requests; each slot holds one number at a time.
struct RingState {
    builder: Arc<Builder>,
    measured: bool,
    slots: Vec<Mutex<Option<(u64, Request)>>>,
    /// Numbers below this have been asked for; the builder stays within a ring of it.
    asked: AtomicU64,
    built_late: AtomicU64,
    wake: (Mutex<bool>, Condvar),
}

impl Payloads {
    /// Builds the requests of the warm-up, where there is one, and of the measurement, of so many
    /// each; or starts a builder where they are too many or without number. It keeps off the
    /// workers' CPUs.
    pub fn new(
        builder: Builder,
        warmup: Option<Option<u64>>,
        measured: Option<u64>,
        workers: &[usize],
    ) -> Payloads {
        let builder = Arc::new(builder);
        let store = |is_measured, total| Store::new(&builder, is_measured, total, workers);
        Payloads {
            measured: store(true, measured),
            warmup: warmup.map(|total| store(false, total)),
            builder,
        }
    }

    /// A request that is no other's: for the probe, which must warm nothing up.
    pub fn probe(&self) -> Request {
        let number = match self.builder.entries() {
            // As all are used, the first will do.
            Some(_) => 0,
            None => PROBE,
        };
        self.builder.build(Drawn {
            measured: false,
            number,
        })
    }

    /// Requests that a core had to build itself, because the builder was behind.
    pub fn built_late_count(&self) -> u64 {
        self.rings()
            .map(|ring| ring.built_late.load(Ordering::Relaxed))
            .sum()
    }

    /// Ends the builders.
    pub fn stop(&self) {
        for ring in self.rings() {
            if let Ok(mut stop) = ring.wake.0.lock() {
                *stop = true;
            }
            ring.wake.1.notify_all();
        }
    }

    fn rings(&self) -> impl Iterator<Item = &Arc<RingState>> {
        let stores = self.warmup.iter().chain([&self.measured]);
        stores.filter_map(|store| match store {
            Store::Arena(_) => None,
            Store::Ring(ring) => Some(ring),
        })
    }
}

impl Store {
    fn new(builder: &Arc<Builder>, measured: bool, total: Option<u64>, workers: &[usize]) -> Store {
        let size = size(&builder.build(Drawn {
            measured,
            number: 0,
        })) as u64;
        let fits = |n: u64| {
            n <= BUILD_AHEAD && n.saturating_mul(size) <= limits::PAYLOAD_ARENA_BYTES_MAX as u64
        };
        // Entries that are used again and again are built once. How many sessions the requests make
        // is not known, and the rows of a trace are not alike.
        let entries = builder.entries().filter(|_| !builder.is_replay());
        let asked = total;
        let total = total.filter(|_| !builder.is_heavy());
        match total.into_iter().chain(entries).min() {
            Some(total) if fits(total) => Store::Arena(build_all(builder, measured, total)),
            _ => {
                let needed = asked.into_iter().chain(builder.entries()).min();
                let ring = RingState::start(builder, measured, size, needed, workers.to_vec());
                Store::Ring(ring)
            }
        }
    }

    fn get(&self, number: u64) -> Request {
        match self {
            Store::Arena(all) => {
                let place = usize::try_from(number).unwrap_or(0);
                all[place % all.len()].clone()
            }
            Store::Ring(ring) => ring.get(number),
        }
    }
}

/// Bytes that a request takes, with the session that it opens.
fn size(request: &Request) -> usize {
    let turns = request.talk.iter().flat_map(|talk| &talk.turns);
    let turns = turns.map(|turn| turn.message.len() + turn.tail.len());
    request.body.len() + turns.sum::<usize>()
}

/// Builds on as many threads as there are cores: the clock has not started.
fn build_all(builder: &Builder, measured: bool, total: u64) -> Vec<Request> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = total.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|part| {
                let range = (part * share).min(total)..((part + 1) * share).min(total);
                let build = move |number| builder.build(Drawn { measured, number });
                scope.spawn(move || range.map(build).collect::<Vec<_>>())
            })
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_default())
            .collect()
    })
}

impl RingState {
    fn start(
        builder: &Arc<Builder>,
        measured: bool,
        size: u64,
        needed: Option<u64>,
        workers: Vec<usize>,
    ) -> Arc<RingState> {
        let fit = limits::PAYLOAD_ARENA_BYTES_MAX as u64 / size.max(1);
        // Where bodies hold images, even the least number of places would fill the memory.
        let least = limits::PAYLOAD_RING_BYTES_MAX as u64 / size.max(1);
        let least = least.clamp(RING_SLOTS_LEAST, RING_SLOTS_MIN);
        let slots = fit.clamp(least, RING_SLOTS);
        let first = match builder.is_heavy() {
            true => FIRST_SESSIONS,
            false => FIRST_LAP,
        };
        let first = first.min(slots / 2).min(needed.unwrap_or(u64::MAX));
        let ring = Arc::new(RingState {
            builder: builder.clone(),
            measured,
            slots: (0..slots).map(|_| Mutex::new(None)).collect(),
            asked: AtomicU64::new(0),
            built_late: AtomicU64::new(0),
            wake: (Mutex::new(false), Condvar::new()),
        });
        // The first lap is there before the clock starts.
        let requests = build_all(builder, measured, first);
        for (slot, (number, request)) in ring.slots.iter().zip((0..).zip(requests)) {
            if let Ok(mut slot) = slot.lock() {
                *slot = Some((number, request));
            }
        }
        let worker = ring.clone();
        let spawned = std::thread::Builder::new()
            .name("payloads".into())
            .spawn(move || {
                runtime::avoid(&workers);
                worker.work(first);
            });
        // Without a builder the cores build their own, and that is counted.
        drop(spawned);
        ring
    }

    fn work(&self, first: u64) {
        let mut next = first;
        let ahead = self.slots.len() as u64 * 3 / 4;
        loop {
            while next < self.asked.load(Ordering::Acquire) + ahead {
                self.fill(next);
                next += 1;
            }
            let Ok(stop) = self.wake.0.lock() else { return };
            let pause = std::time::Duration::from_millis(2);
            match self.wake.1.wait_timeout(stop, pause) {
                Ok((stop, _)) if !*stop => {}
                _ => return,
            }
        }
    }

    fn slot(&self, index: u64) -> &Mutex<Option<(u64, Request)>> {
        &self.slots[usize::try_from(index % self.slots.len() as u64).unwrap_or(0)]
    }

    fn build(&self, number: u64) -> Request {
        let measured = self.measured;
        self.builder.build(Drawn { measured, number })
    }

    fn fill(&self, index: u64) {
        let request = self.build(index);
        if let Ok(mut slot) = self.slot(index).lock() {
            *slot = Some((index, request));
        }
    }

    fn get(&self, index: u64) -> Request {
        self.asked.fetch_max(index, Ordering::AcqRel);
        if let Ok(slot) = self.slot(index).lock()
            && let Some((number, request)) = &*slot
            && *number == index
        {
            return request.clone();
        }
        self.built_late.fetch_add(1, Ordering::Relaxed);
        self.build(index)
    }
}

impl Requests for Payloads {
    fn get(&self, drawn: Drawn) -> Request {
        match &self.warmup {
            Some(warmup) if !drawn.measured => warmup.get(drawn.number),
            _ => self.measured.get(drawn.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Lengths};
    use crate::workload::{Media, PromptSource, Tokenizer};

    #[test]
    fn entries_are_built_once_and_used_in_turn_however_long_the_run() {
        let tokenizer = Tokenizer::builtin();
        let config = Arc::new(Config {
            dataset_entries: Some(3),
            isl: Lengths {
                mean: 8.0,
                stddev: 2.0,
            },
            ..Config::default()
        });
        let tokenizer = Arc::new(tokenizer);
        let prompts = || PromptSource::new(tokenizer.clone(), config.seed);
        let build = || {
            Builder::new(
                config.clone(),
                "m".into(),
                prompts(),
                None,
                Media::default(),
            )
        };
        for total in [None, Some(2), Some(1_000_000)] {
            let payloads = Payloads::new(build(), Some(Some(2)), total, &[]);
            assert!(matches!(payloads.measured, Store::Arena(_)), "{total:?}");
            let count = total.unwrap_or(10).min(10);
            for index in 0..count {
                let drawn = |measured| Drawn {
                    measured,
                    number: index,
                };
                let request = payloads.get(drawn(true));
                assert_eq!(request, build().build(drawn(true)), "{total:?}");
                // What warms up is nothing that is measured, however few the entries are.
                assert_ne!(payloads.get(drawn(false)).body, request.body);
                assert_ne!(payloads.probe().body, request.body);
            }
        }
    }
}
