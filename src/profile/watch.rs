//! The main thread during a run: waits for the cores, shows progress, hears signals.

use super::early::Early;
use super::prepare::{Prepared, stopped};
use super::signals::Signals;
use super::steps::Steps;
use super::stops::Backlog;
use crate::base::{Exit, Ns, now};
use crate::engine::{Pace, Stop, Worker};
use crate::view::{Progress, Snapshot, tell};
use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

/// How often the screen is told.
const TICK: Duration = Duration::from_millis(50);
/// Ctrl-C means soon: a short drain, not the whole grace.
const DRAIN: Ns = Ns::from_ms(2_000);
/// Events are counted over so long for their rate.
const RATE_SPAN: Ns = Ns::from_ms(1_000);

/// Waits until every core has opened its connections. Errors: a signal, or a core that cannot.
pub fn await_cores(
    prepared: &Prepared,
    workers: &[Worker],
    signals: &Signals,
    steps: &Steps,
) -> Result<(), Early> {
    let cores = u32::try_from(workers.len()).unwrap_or(u32::MAX);
    while prepared.pace.ready_count() < cores {
        if signals.count() > 0 {
            return Err(stopped(signals));
        }
        // The others would wait for it for ever.
        if workers.iter().any(Worker::is_finished) {
            let text = "a worker ended before the first request";
            return Err(Early::new(Exit::Unexpected, text));
        }
        steps.tick();
        thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Shows progress, hears signals and follows the backlog of an open loop until every core has
/// ended; gives what was followed.
pub fn watch(prepared: &Prepared, workers: &[Worker], signals: &Signals) -> Backlog {
    let pace = &prepared.pace;
    let mut progress = Progress::new(prepared.config.ui, std::io::stderr().is_terminal());
    let mut rate = EventRate::default();
    let mut drained_since: Option<Ns> = None;
    let mut backlog = Backlog::new(&prepared.config);
    while !workers.iter().all(Worker::is_finished) {
        thread::sleep(TICK);
        let events = rate.per_s(now(), pace.events_count());
        progress.tick(snapshot(pace, events, now()));
        backlog.look(pace, now());
        let has_failed = prepared.failures.as_ref();
        let has_failed = has_failed.is_some_and(|failures| failures.is_crossed());
        let (why, more) = match signals.count() {
            0 if !has_failed => {
                // The run may have ended itself: what is in flight has the usual grace.
                let grace = pace.phases()[pace.part()].grace;
                let end = pace.stopped_at().zip(grace).map(|(at, grace)| at + grace);
                if end.is_some_and(|end| now() >= end) {
                    pace.stop(Stop::Cancel);
                }
                continue;
            }
            0 => ("too many requests failed", ""),
            1 => ("stopping", "; once more stops at once"),
            _ => {
                pace.stop(Stop::Cancel);
                continue;
            }
        };
        pace.stop(Stop::Drain);
        if drained_since.is_none() {
            tell(&format!(
                "{why}: up to {:.0} s for the {} requests in flight{more}",
                DRAIN.as_secs(),
                pace.in_flight()
            ));
        }
        let since = *drained_since.get_or_insert_with(now);
        if now().saturating_since(since) > DRAIN {
            pace.stop(Stop::Cancel);
        }
    }
    progress.finish();
    backlog
}

/// Warm-up and measurement are told apart: each has its own count.
fn snapshot(pace: &Pace, events_per_s: Option<f64>, at: Ns) -> Snapshot {
    let (warmup, count) = pace.planned();
    let measured = pace.measured_count();
    let (phase, since, done, failed, total) = match pace.measured_from() {
        None => {
            let all = pace.finished_count();
            ("warm-up", pace.started(), all, 0, warmup)
        }
        Some(from) => {
            let phase = match pace.stopping(at) {
                Stop::Run => "measuring",
                _ => "draining",
            };
            let failed = pace.failed_count();
            let done = measured.saturating_sub(failed);
            (phase, Some(from), done, failed, count)
        }
    };
    Snapshot {
        elapsed: at.saturating_since(since.unwrap_or(at)),
        phase,
        done,
        failed,
        skipped: pace.skipped().count(),
        total,
        in_flight: u64::from(pace.in_flight()),
        events_per_s,
    }
}

/// The rate of events over the last whole span.
#[derive(Default)]
struct EventRate {
    since: Option<(Ns, u64)>,
    last: Option<f64>,
}

impl EventRate {
    #[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
    fn per_s(&mut self, at: Ns, events: u64) -> Option<f64> {
        let (since, before) = *self.since.get_or_insert((at, events));
        let span = at.saturating_since(since);
        if span >= RATE_SPAN {
            self.last = Some(events.saturating_sub(before) as f64 / span.as_secs());
            self.since = Some((at, events));
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Cursor, PaceOptions, PhasePlan, Want};

    #[test]
    fn warm_up_requests_are_in_no_measured_count() {
        let phase = |measured, count| PhasePlan {
            measured,
            count: Some(count),
            ..PhasePlan::default()
        };
        let pace = Pace::new(PaceOptions {
            phases: vec![phase(false, 2), phase(true, 5)],
            cores: 1,
            ..Default::default()
        });
        let mut cursor = Cursor::default();
        let mut claim = |at| pace.claim(Ns(at), 0, &mut cursor, Want::Session);
        pace.begin(Ns(1_000));
        for _ in 0..2 {
            claim(1_000);
        }
        let seen = snapshot(&pace, None, Ns(2_000));
        assert_eq!((seen.phase, seen.done, seen.total), ("warm-up", 0, Some(2)));
        pace.ended(Ns(2_000), 0, 0, true);
        claim(3_000);
        pace.ended(Ns(4_000), 0, 0, false);
        pace.ended(Ns(5_000), 1, 0, false);
        let seen = snapshot(&pace, None, Ns(6_000));
        assert_eq!(
            (seen.phase, seen.done, seen.failed, seen.total),
            ("measuring", 1, 0, Some(5))
        );
        assert_eq!(seen.elapsed, Ns(3_000));
    }

    #[test]
    fn events_are_counted_over_the_last_second() {
        let mut rate = EventRate::default();
        assert_eq!(rate.per_s(Ns::from_ms(0), 10), None);
        assert_eq!(rate.per_s(Ns::from_ms(900), 500), None);
        assert_eq!(rate.per_s(Ns::from_ms(2_000), 2_010), Some(1_000.0));
        assert_eq!(rate.per_s(Ns::from_ms(2_500), 9_000), Some(1_000.0));
        assert_eq!(rate.per_s(Ns::from_ms(3_000), 2_010), Some(0.0));
    }
}
