//! The pace of all cores together: one ticket for the whole run, exact over any number of cores.

use super::cap::Cap;
use crate::base::{Ns, limits, now};
use crate::stats::Phase;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A slot that the kernel knows to be free may lie in a read that its core has not come to.
const READING: Ns = Ns(1_000_000);

/// What to do about requests not sent, and those in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Go on.
    Run,
    /// Send no more; let what is in flight end.
    Drain,
    /// Send no more; cancel what is in flight.
    Cancel,
}

/// Answer to "may I send?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Send this one.
    Take {
        /// Number of the request.
        index: u64,
        /// Planned time; `None` in a closed loop, where the slot knows.
        due: Option<Ns>,
        /// Warm-up or measured.
        phase: Phase,
        /// When a slot was granted, if it had to be waited for.
        granted: Option<Ns>,
    },
    /// Not before this time.
    NotBefore(Ns),
    /// No slot: ask again when one frees.
    Full,
    /// Nothing more to send.
    Finished,
}

/// How to build a [`Pace`].
#[derive(Clone, Debug, Default)]
pub struct PaceOptions {
    /// Warm-up requests.
    pub warmup: u64,
    /// Measured requests; absent means until the time is up.
    pub count: Option<u64>,
    /// Due times as offsets from the start, warm-up included; absent in a closed loop.
    pub due: Option<Vec<Ns>>,
    /// Cap on requests in flight over all cores, in an open loop.
    pub cap: Option<u32>,
    /// Skip what no slot is free for when it is due, instead of waiting for one.
    pub skip_capped: bool,
    /// Skip what the client comes to too late, instead of sending it at once.
    pub skip_late: bool,
    /// Stop sending so long after the measurement began.
    pub duration: Option<Ns>,
    /// Then cancel what is in flight after so long.
    pub grace: Ns,
    /// Workers.
    pub cores: u32,
}

/// Why a measured request of the schedule is not sent. A warm-up is sent whole: it stands for
/// nothing but itself, and the measurement waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    /// No slot was free when it was due.
    Capped,
    /// The client came so long after.
    Late(Ns),
}

/// A slot that the next request may have.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Of the request among those sent, from 0; it tells only under a cap.
    number: u64,
    /// When it became free, if it had to be waited for.
    granted: Option<Ns>,
}

/// Measured requests of the schedule that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// No slot was free.
    pub capped: u64,
    /// The client was late.
    pub late: u64,
    /// By how much at the most.
    pub late_max: Ns,
}

impl Skipped {
    /// For either reason.
    pub fn count(&self) -> u64 {
        self.capped + self.late
    }
}

/// Shared by all cores; atomics only, one or two per request.
#[derive(Debug)]
pub struct Pace {
    options: PaceOptions,
    start: AtomicU64,
    ready: AtomicU32,
    next: AtomicU64,
    in_flight: AtomicU32,
    finished: AtomicU64,
    measured: AtomicU64,
    failed: AtomicU64,
    events: AtomicU64,
    stop: AtomicU8,
    measured_from: AtomicU64,
    warmup_in_flight: AtomicU64,
    first_freed: AtomicU64,
    last_sent: AtomicU64,
    /// Of the measured requests that were sent.
    first_due: AtomicU64,
    last_due: AtomicU64,
    cap: Option<Cap>,
    skipped_capped: AtomicU64,
    skipped_late: AtomicU64,
    skipped_late_max: AtomicU64,
}

impl Pace {
    /// A pace that has not started.
    pub fn new(options: PaceOptions) -> Pace {
        Pace {
            cap: options.cap.filter(|_| options.due.is_some()).map(Cap::new),
            options,
            start: AtomicU64::new(0),
            ready: AtomicU32::new(0),
            next: AtomicU64::new(0),
            in_flight: AtomicU32::new(0),
            finished: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            events: AtomicU64::new(0),
            stop: AtomicU8::new(0),
            measured_from: AtomicU64::new(0),
            warmup_in_flight: AtomicU64::new(0),
            first_freed: AtomicU64::new(0),
            last_sent: AtomicU64::new(0),
            first_due: AtomicU64::new(u64::MAX),
            last_due: AtomicU64::new(0),
            skipped_capped: AtomicU64::new(0),
            skipped_late: AtomicU64::new(0),
            skipped_late_max: AtomicU64::new(0),
        }
    }

    /// A core has opened its connections.
    pub fn core_is_ready(&self) {
        self.ready.fetch_add(1, Ordering::AcqRel);
    }

    /// Cores that are ready.
    pub fn ready_count(&self) -> u32 {
        self.ready.load(Ordering::Acquire)
    }

    /// Starts the clock.
    pub fn begin(&self, at: Ns) {
        self.start.store(at.0.max(1), Ordering::Release);
    }

    /// The start, once there is one.
    pub fn started(&self) -> Option<Ns> {
        let at = self.start.load(Ordering::Acquire);
        (at > 0).then_some(Ns(at))
    }

    /// Since when a slot that stands free may take request `index`: a warm-up holds the measured
    /// ones back until its own first one has ended.
    pub fn open_since(&self, index: u64) -> Ns {
        match index >= self.options.warmup && self.options.warmup > 0 {
            true => Ns(self.first_freed.load(Ordering::Acquire)),
            false => Ns::ZERO,
        }
    }

    /// When the measurement began.
    pub fn measured_from(&self) -> Option<Ns> {
        let at = self.measured_from.load(Ordering::Acquire);
        (at > 0).then_some(Ns(at))
    }

    /// Warm-up requests in flight when the measurement began.
    pub fn warmup_in_flight(&self) -> u64 {
        self.warmup_in_flight.load(Ordering::Acquire)
    }

    /// Asks every core to stop; never weakens an earlier stop.
    pub fn stop(&self, stop: Stop) {
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
    }

    /// What was asked, or what the time says.
    pub fn stopping(&self, at: Ns) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => match self.send_until() {
                Some(end) if at >= end + self.options.grace => Stop::Cancel,
                Some(end) if at >= end => Stop::Drain,
                _ => Stop::Run,
            },
            1 => Stop::Drain,
            _ => Stop::Cancel,
        }
    }

    fn send_until(&self) -> Option<Ns> {
        // The schedule's own time, where there is one: its first request may have left late.
        let from = self.measured_from()?;
        let from = from.min(Ns(self.first_due.load(Ordering::Acquire)));
        self.options.duration.map(|duration| from + duration)
    }

    /// Requests of the schedule that were due within the duration and have not had their turn.
    pub fn unsent_count(&self) -> u64 {
        let (Some(due), Some(start), Some(end)) =
            (&self.options.due, self.started(), self.send_until())
        else {
            return 0;
        };
        let first = self.claimed_count();
        let rest = due
            .iter()
            .skip(usize::try_from(first).unwrap_or(usize::MAX));
        let is_due =
            |&(index, offset): &(u64, &Ns)| start + *offset + self.shift(start, due, index) < end;
        (first..).zip(rest).take_while(is_due).count() as u64
    }

    /// All requests, warm-up included; `None` when only time ends the run.
    pub fn total(&self) -> Option<u64> {
        self.options.count.map(|count| count + self.options.warmup)
    }

    /// Requests whose turn has come so far, skipped ones included.
    pub fn claimed_count(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Sent so far.
    pub fn sent_count(&self) -> u64 {
        self.claimed_count().saturating_sub(self.skipped().count())
    }

    /// Skipped so far.
    pub fn skipped(&self) -> Skipped {
        Skipped {
            capped: self.skipped_capped.load(Ordering::Relaxed),
            late: self.skipped_late.load(Ordering::Relaxed),
            late_max: Ns(self.skipped_late_max.load(Ordering::Relaxed)),
        }
    }

    /// Ended so far.
    pub fn finished_count(&self) -> u64 {
        self.finished.load(Ordering::Relaxed)
    }

    /// Requests that are over so far: ended, or skipped.
    pub fn ended_count(&self) -> u64 {
        self.finished_count() + self.skipped().count()
    }

    /// Measured requests that have ended so far.
    pub fn measured_count(&self) -> u64 {
        self.measured.load(Ordering::Relaxed)
    }

    /// Measured requests that have failed so far.
    pub fn failed_count(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// A core has read so many content events more.
    pub fn add_events(&self, count: u64) {
        self.events.fetch_add(count, Ordering::Relaxed);
    }

    /// Content events so far, of all requests; a core's own come a moment late.
    pub fn events_count(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// The plan: warm-up requests, measured requests if they are counted.
    pub fn planned(&self) -> (u64, Option<u64>) {
        (self.options.warmup, self.options.count)
    }

    /// In flight now.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// True when nothing more is to be sent.
    pub fn is_over(&self, at: Ns) -> bool {
        let index = self.next.load(Ordering::Acquire);
        self.total().is_some_and(|total| index >= total) || self.stopping(at) != Stop::Run
    }

    /// Claims the next request for a core that has a slot of its own (closed loop) or asks for a
    /// global one (open loop).
    pub fn claim(&self, at: Ns, core: u16) -> Claim {
        let Some(start) = self.started() else {
            return Claim::Full;
        };
        loop {
            let index = self.next.load(Ordering::Acquire);
            if self.is_over(at) {
                return Claim::Finished;
            }
            let measured = index >= self.options.warmup;
            // The warm-up hands its slots over: the measurement opens with the first that frees.
            if measured && self.options.warmup > 0 && self.finished.load(Ordering::Acquire) == 0 {
                return Claim::Full;
            }
            let due = match &self.options.due {
                None => None,
                Some(due) => {
                    let Some(&offset) = usize::try_from(index).ok().and_then(|i| due.get(i)) else {
                        return Claim::Finished;
                    };
                    Some(start + offset + self.shift(start, due, index))
                }
            };
            if let Some(due) = due {
                let due_here = due + self.patience(index, core);
                if at < due_here && at < due + Ns(1_000_000) {
                    return Claim::NotBefore(due_here);
                }
            }
            let slot = self.take_slot(due);
            let skip = match due.filter(|_| measured) {
                Some(due) => self.reason_to_skip(slot, due, at),
                None => None,
            };
            if slot.is_none() && skip.is_none() {
                return Claim::Full;
            }
            let won = self.advance(index);
            if slot.is_some() && (!won || skip.is_some()) {
                self.in_flight.fetch_sub(1, Ordering::AcqRel);
            }
            if !won {
                continue;
            }
            if let Some(reason) = skip {
                self.skip(reason);
                continue;
            }
            let granted = slot.and_then(|slot| slot.granted);
            if let (Some(cap), Some(slot)) = (&self.cap, slot) {
                cap.taken(slot.number);
            }
            self.last_sent.fetch_max(at.0, Ordering::AcqRel);
            if measured {
                self.note_measurement(at, due);
            }
            let phase = if measured {
                Phase::Profiling
            } else {
                Phase::Warmup
            };
            return Claim::Take {
                index,
                due,
                phase,
                granted,
            };
        }
    }

    /// Takes request `index` off the schedule; false when another core has done so.
    fn advance(&self, index: u64) -> bool {
        let next = index + 1;
        self.next
            .compare_exchange(index, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// By how much the measured part of a schedule is put off, since the warm-up holds it back: it
    /// opens when the first answer is there, and goes on from its own first due time.
    fn shift(&self, start: Ns, due: &[Ns], index: u64) -> Ns {
        let first = usize::try_from(self.options.warmup).unwrap_or(usize::MAX);
        due.get(first).map_or(Ns::ZERO, |&first| {
            self.open_since(index).saturating_since(start + first)
        })
    }

    /// Which core wakes for a due time: one at the time itself, the others as its stand-ins.
    fn patience(&self, index: u64, core: u16) -> Ns {
        let cores = u64::from(self.options.cores.max(1));
        if index % cores == u64::from(core) % cores {
            Ns::ZERO
        } else {
            Ns(300_000)
        }
    }

    /// A slot for the next request; `None` when the cap leaves none.
    fn take_slot(&self, due: Option<Ns>) -> Option<Taken> {
        let Some(cap) = &self.cap else {
            self.in_flight.fetch_add(1, Ordering::AcqRel);
            return Some(Taken::default());
        };
        let count = |n: u32| (n < cap.most()).then_some(n + 1);
        let counted = self
            .in_flight
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, count);
        counted.ok()?;
        let number = self.sent_count();
        let was_taken = |free: &Ns| due.is_some_and(|due| *free > due);
        Some(Taken {
            number,
            granted: cap.free_since(number).filter(was_taken),
        })
    }

    fn reason_to_skip(&self, slot: Option<Taken>, due: Ns, at: Ns) -> Option<Skip> {
        let granted = slot.and_then(|slot| slot.granted);
        let had_none = match slot {
            Some(_) => granted.is_some(),
            None => at > due + READING,
        };
        if self.options.skip_capped && had_none {
            return Some(Skip::Capped);
        }
        let late = at.saturating_since(granted.unwrap_or(due));
        let is_late = slot.is_some() && late > limits::LATE_MAX;
        (self.options.skip_late && is_late).then_some(Skip::Late(late))
    }

    fn skip(&self, reason: Skip) {
        match reason {
            Skip::Capped => {
                self.skipped_capped.fetch_add(1, Ordering::AcqRel);
            }
            Skip::Late(late) => {
                self.skipped_late.fetch_add(1, Ordering::AcqRel);
                self.skipped_late_max.fetch_max(late.0, Ordering::AcqRel);
            }
        }
    }

    fn note_measurement(&self, at: Ns, due: Option<Ns>) {
        if let Some(due) = due {
            self.first_due.fetch_min(due.0, Ordering::AcqRel);
            self.last_due.fetch_max(due.0, Ordering::AcqRel);
        }
        let first = self.measured_from.compare_exchange(
            0,
            at.0.max(1),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if first.is_ok() {
            let warm = u64::from(self.in_flight.load(Ordering::Acquire)).saturating_sub(1);
            self.warmup_in_flight.store(warm, Ordering::Release);
        }
    }

    /// A request has ended at `at` (kernel time of its last byte).
    pub fn ended(&self, at: Ns, phase: Phase, failed: bool) {
        if let Some(cap) = &self.cap {
            cap.ended(at);
        }
        let at = at.0.max(1);
        // Only the first one may set it; that another was first is no error.
        let _ = self
            .first_freed
            .compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire);
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        let measured = phase == Phase::Profiling;
        if measured && failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        self.measured
            .fetch_add(u64::from(measured), Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::AcqRel);
    }

    /// Measured requests sent per second, from the first to the last; absent for fewer than two.
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    pub fn delivered_rate(&self) -> Option<f64> {
        let gaps = self
            .sent_count()
            .checked_sub(self.options.warmup + 1)
            .filter(|&n| n > 0)?;
        let last = Ns(self.last_sent.load(Ordering::Acquire));
        let span = last.since(self.measured_from()?)?.as_secs();
        (span > 0.0).then(|| gaps as f64 / span)
    }

    /// What [`Pace::delivered_rate`] would be if every request had left at its due time. Those that
    /// a full cap has skipped were not meant to leave; those that a late client has were.
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    pub fn scheduled_rate(&self) -> Option<f64> {
        let meant = self.sent_count() + self.skipped().late;
        let gaps = meant.checked_sub(self.options.warmup + 1);
        let first = Ns(self.first_due.load(Ordering::Acquire));
        let last = Ns(self.last_due.load(Ordering::Acquire));
        let span = last.since(first)?.as_secs();
        (span > 0.0 && !self.is_closed()).then_some(gaps? as f64 / span)
    }

    /// True in a closed loop.
    pub fn is_closed(&self) -> bool {
        self.options.due.is_none()
    }

    /// Milliseconds since the start, for messages.
    pub fn elapsed(&self) -> Ns {
        self.started()
            .map_or(Ns::ZERO, |start| now().saturating_since(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(options: PaceOptions) -> Pace {
        let pace = Pace::new(options);
        pace.begin(Ns(1_000));
        pace
    }

    fn index(claim: Claim) -> Option<u64> {
        match claim {
            Claim::Take { index, .. } => Some(index),
            _ => None,
        }
    }

    #[test]
    fn the_budget_is_exact_over_cores_that_race() {
        let pace = pace(PaceOptions {
            count: Some(10_000),
            cores: 4,
            ..Default::default()
        });
        let taken: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4u16)
                .map(|core| {
                    let pace = &pace;
                    scope.spawn(move || {
                        let mut mine = Vec::new();
                        while let Some(index) = index(pace.claim(Ns(2_000), core)) {
                            mine.push(index);
                            pace.ended(Ns(2_000), Phase::Profiling, false);
                        }
                        mine
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .collect()
        });
        let mut all: Vec<u64> = taken.concat();
        all.sort_unstable();
        assert_eq!(all, (0..10_000).collect::<Vec<_>>());
        assert_eq!(pace.in_flight(), 0);
    }

    #[test]
    fn a_due_time_is_not_claimed_early_and_a_cap_holds() {
        let due = vec![Ns(0), Ns(100), Ns(5_000_000)];
        let pace = pace(PaceOptions {
            count: Some(3),
            due: Some(due),
            cap: Some(1),
            cores: 1,
            ..Default::default()
        });
        assert_eq!(index(pace.claim(Ns(1_000), 0)), Some(0));
        assert_eq!(pace.claim(Ns(1_200), 0), Claim::Full);
        pace.ended(Ns(9_000), Phase::Profiling, false);
        let Claim::Take {
            index,
            due,
            granted,
            ..
        } = pace.claim(Ns(10_000), 0)
        else {
            panic!()
        };
        assert_eq!((index, due, granted), (1, Some(Ns(1_100)), Some(Ns(9_000))));
        assert_eq!(pace.claim(Ns(20_000), 0), Claim::NotBefore(Ns(5_001_000)));
    }

    fn open(cap: Option<u32>, due_ms: impl IntoIterator<Item = u64>) -> PaceOptions {
        let due: Vec<Ns> = due_ms.into_iter().map(Ns::from_ms).collect();
        PaceOptions {
            count: Some(due.len() as u64),
            due: Some(due),
            cap,
            cores: 1,
            ..Default::default()
        }
    }

    fn started(options: PaceOptions) -> Pace {
        let pace = Pace::new(options);
        pace.begin(Ns(1));
        pace
    }

    fn at(ms: u64) -> Ns {
        Ns(1) + Ns::from_ms(ms)
    }

    #[test]
    fn a_slot_that_was_free_when_due_was_not_waited_for_however_late_the_client_comes() {
        let pace = started(open(Some(2), [0, 10, 20]));
        let _ = pace.claim(at(0), 0);
        pace.ended(at(5), Phase::Profiling, false);
        let _ = pace.claim(at(10), 0);
        // It ends after the third is due, whose slot has stood free all the time.
        pace.ended(at(25), Phase::Profiling, false);
        let Claim::Take { granted, .. } = pace.claim(at(30), 0) else {
            panic!()
        };
        assert_eq!(granted, None);
    }

    #[test]
    fn wakes_that_come_late_put_off_no_later_send() {
        // Field case RA-1: 200/s; each wait ends 0.4 ms late.
        let pace = started(open(None, (0..10_000).map(|n| 5 * n)));
        let (mut clock, mut sent) = (at(0), Vec::new());
        loop {
            match pace.claim(clock, 0) {
                Claim::Take { .. } => sent.push(clock),
                Claim::NotBefore(time) => clock = time + Ns(400_000),
                _ => break,
            }
        }
        assert_eq!(sent.len(), 10_000);
        assert_eq!(sent[9_999], at(49_995) + Ns(400_000));
    }

    #[test]
    fn what_a_frozen_client_comes_to_too_late_is_sent_at_once_or_skipped() {
        // Field case RA-2 B: 100/s, frozen from 1.0 to 3.0 s.
        for (skip_late, sent_at_wake) in [(false, 200), (true, 1)] {
            let mut options = open(None, (0..400).map(|n| 10 * n));
            options.skip_late = skip_late;
            let pace = started(options);
            let mut sent = Vec::new();
            let mut clock = at(0);
            loop {
                match pace.claim(clock, 0) {
                    Claim::Take { index, due, .. } => sent.push((index, due.unwrap(), clock)),
                    Claim::NotBefore(time) if time == at(1_000) => clock = at(3_000),
                    Claim::NotBefore(time) => clock = time,
                    _ => break,
                }
            }
            let late: Vec<_> = sent.iter().filter(|(_, due, at)| at > due).collect();
            let skipped = pace.skipped();
            assert_eq!(late.len(), sent_at_wake);
            assert_eq!(skipped.late + late.len() as u64, 200);
            let lag = |(_, due, at): &&(u64, Ns, Ns)| at.saturating_since(*due);
            let most = late.iter().map(lag).max().unwrap().max(skipped.late_max);
            assert_eq!(most, Ns::from_ms(2_000));
            assert_eq!(pace.sent_count() + skipped.late, 400);
            // Before the freeze and after it each request has its own time.
            assert_eq!(sent.iter().filter(|(_, due, at)| at == due).count(), 200);
            for (from, _, begin) in sent.iter().filter(|(.., time)| *time < at(1_000)) {
                let end = *begin + Ns::from_ms(1_000);
                let inside = sent
                    .iter()
                    .filter(|(index, _, at)| index >= from && *at < end);
                assert!(inside.count() <= 101);
            }
        }
    }

    #[test]
    fn a_full_cap_skips_what_is_due_when_that_is_asked_but_never_the_warm_up() {
        let mut options = open(Some(1), [0, 10, 20, 30, 40]);
        (options.warmup, options.count) = (2, Some(3));
        options.skip_capped = true;
        let pace = started(options);
        assert_eq!(index(pace.claim(at(0), 0)), Some(0));
        assert_eq!(pace.claim(at(10), 0), Claim::Full);
        pace.ended(at(19), Phase::Warmup, false);
        assert_eq!(index(pace.claim(at(19), 0)), Some(1));
        // The schedule goes on from here; the warm-up still has the slot.
        assert_eq!(pace.claim(at(20), 0), Claim::Full);
        assert_eq!(pace.claim(at(22), 0), Claim::NotBefore(at(30)));
        pace.ended(at(29), Phase::Warmup, false);
        // Its slot has been free before it was due.
        assert_eq!(index(pace.claim(at(30), 0)), Some(3));
        // This one was due at 40, and the slot came at 41.
        pace.ended(at(41), Phase::Profiling, false);
        assert_eq!(pace.claim(at(42), 0), Claim::Finished);
        assert_eq!((pace.skipped().capped, pace.skipped().late), (2, 0));
        assert_eq!((pace.sent_count(), pace.claimed_count()), (3, 5));
        assert_eq!(pace.in_flight(), 0);
    }

    #[test]
    fn what_a_cap_skips_as_told_is_not_lacking_from_the_rate_and_what_comes_late_is() {
        let mut options = open(Some(1), [0, 10, 20, 30, 40]);
        (options.skip_capped, options.skip_late) = (true, true);
        let pace = started(options);
        let _ = pace.claim(at(0), 0);
        pace.ended(at(15), Phase::Profiling, false);
        // The one due at 10 had no slot; then each goes at its time.
        assert_eq!(index(pace.claim(at(20), 0)), Some(2));
        assert_eq!(pace.scheduled_rate(), Some(50.0));
        assert_eq!(pace.delivered_rate(), Some(50.0));
        pace.ended(at(21), Phase::Profiling, false);
        assert_eq!(index(pace.claim(at(41), 0)), Some(4));
        let skipped = pace.skipped();
        assert_eq!((skipped.capped, skipped.late), (1, 1));
        assert_eq!(pace.scheduled_rate(), Some(75.0));
        assert!(pace.delivered_rate().unwrap() < 50.0);
    }

    #[test]
    fn warm_up_hands_over_with_the_first_slot_that_frees() {
        let pace = pace(PaceOptions {
            warmup: 2,
            count: Some(2),
            cores: 1,
            ..Default::default()
        });
        let phase = |claim| match claim {
            Claim::Take { phase, .. } => Some(phase),
            _ => None,
        };
        assert_eq!(phase(pace.claim(Ns(1_000), 0)), Some(Phase::Warmup));
        assert_eq!(phase(pace.claim(Ns(1_000), 0)), Some(Phase::Warmup));
        assert_eq!(pace.claim(Ns(1_000), 0), Claim::Full);
        pace.ended(Ns(2_000), Phase::Warmup, true);
        assert_eq!((pace.measured_count(), pace.failed_count()), (0, 0));
        assert_eq!(phase(pace.claim(Ns(2_000), 0)), Some(Phase::Profiling));
        assert_eq!(pace.warmup_in_flight(), 1);
        // A slot that has stood free since the start could go only then.
        assert_eq!(
            (pace.open_since(1), pace.open_since(2)),
            (Ns::ZERO, Ns(2_000))
        );
        assert_eq!(pace.measured_from(), Some(Ns(2_000)));
    }

    #[test]
    fn a_schedule_that_the_warm_up_held_back_goes_on_from_its_first_answer() {
        let due: Vec<Ns> = (0..5).map(|index| Ns(100 * index)).collect();
        let pace = pace(PaceOptions {
            warmup: 2,
            count: Some(3),
            due: Some(due),
            duration: Some(Ns(1_000)),
            cores: 1,
            ..Default::default()
        });
        let due = |claim| match claim {
            Claim::Take { due, .. } => due,
            _ => None,
        };
        assert_eq!(due(pace.claim(Ns(1_000), 0)), Some(Ns(1_000)));
        assert_eq!(due(pace.claim(Ns(1_100), 0)), Some(Ns(1_100)));
        assert_eq!(pace.claim(Ns(1_900), 0), Claim::Full);
        pace.ended(Ns(2_000), Phase::Warmup, false);
        pace.ended(Ns(2_050), Phase::Warmup, false);
        assert_eq!(due(pace.claim(Ns(2_060), 0)), Some(Ns(2_000)));
        assert_eq!(pace.claim(Ns(2_060), 0), Claim::NotBefore(Ns(2_100)));
        assert_eq!(due(pace.claim(Ns(2_100), 0)), Some(Ns(2_100)));
        assert_eq!(due(pace.claim(Ns(2_200), 0)), Some(Ns(2_200)));
        // An answer that is there before its time puts nothing off.
        assert_eq!(pace.measured_from(), Some(Ns(2_060)));
    }

    #[test]
    fn what_was_due_within_the_time_and_never_sent_is_counted() {
        // 100 ns of one a 10 ns, and one in flight at a time.
        let pace = pace(PaceOptions {
            due: Some((0..20).map(|n| Ns(10 * n)).collect()),
            duration: Some(Ns(100)),
            cap: Some(1),
            cores: 1,
            ..Default::default()
        });
        assert_eq!(pace.unsent_count(), 0);
        // It leaves a little late, which makes the time no longer.
        assert_eq!(index(pace.claim(Ns(1_004), 0)), Some(0));
        assert_eq!(pace.claim(Ns(1_050), 0), Claim::Full);
        pace.ended(Ns(1_090), Phase::Profiling, false);
        assert_eq!(index(pace.claim(Ns(1_095), 0)), Some(1));
        assert_eq!(pace.claim(Ns(1_100), 0), Claim::Finished);
        // Due at 20 to 90.
        assert_eq!(pace.unsent_count(), 8);
    }

    #[test]
    fn time_ends_sending_and_then_what_is_in_flight() {
        let pace = pace(PaceOptions {
            duration: Some(Ns(100)),
            grace: Ns(50),
            cores: 1,
            ..Default::default()
        });
        assert_eq!(index(pace.claim(Ns(1_000), 0)), Some(0));
        assert_eq!(pace.stopping(Ns(1_099)), Stop::Run);
        assert_eq!(pace.claim(Ns(1_100), 0), Claim::Finished);
        assert_eq!(pace.stopping(Ns(1_149)), Stop::Drain);
        assert_eq!(pace.stopping(Ns(1_150)), Stop::Cancel);
    }
}
