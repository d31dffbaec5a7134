//! What ends a run before its count or its time: windows that agree, an open loop that is
//! over-saturated. Both only stop the sending; what is in flight has the usual grace.

use super::ends;
use super::signals::Signals;
use crate::base::{Exit, Ns, now};
use crate::config::Config;
use crate::engine::{FailureLimit, Pace, Stop};
use crate::schedule::{Arrivals, Law};
use crate::stats::saturation::{Saturation, SaturationWatch};
use crate::stats::stability::{Stability, StabilityWatch};
use crate::stats::summary::{ClientReport, OpenLoop};
use crate::stats::{Phase, Record};
use std::sync::Arc;

/// How often an open loop is looked at, and how often it is judged.
const LOOK: Ns = Ns::from_ms(200);
const JUDGE: Ns = Ns::from_ms(1_000);
/// A request that has ended may take so long to the record thread.
const HAND_OVER: Ns = Ns::from_ms(250);

/// The windows of `--measurement-interval`, on the record thread.
pub struct Windows {
    pace: Arc<Pace>,
    config: Arc<Config>,
    watch: Option<StabilityWatch>,
    /// When requests were last seen to be sent: a window that only drains says nothing.
    sending: Ns,
}

impl Windows {
    /// Windows over the run of `pace`, where they are asked for.
    pub fn new(config: &Arc<Config>, pace: &Arc<Pace>) -> Option<Windows> {
        config.stable_windows.map(|_| Windows {
            pace: pace.clone(),
            config: config.clone(),
            watch: None,
            sending: Ns::ZERO,
        })
    }

    /// When the measurement began.
    fn from(&self) -> Option<Ns> {
        let part = self.pace.phases().iter().position(|phase| phase.measured)?;
        self.pace.phase_start(part)
    }

    fn watch(&mut self) -> Option<&mut StabilityWatch> {
        let (asked, from) = (self.config.stable_windows?, self.from()?);
        let begin = || StabilityWatch::new(from, asked.length, asked.tolerance);
        Some(self.watch.get_or_insert_with(begin))
    }

    /// Takes a finished request.
    pub fn push(&mut self, record: &Record) {
        let end = record.end().filter(|_| record.is_valid());
        if let Some(end) = end.filter(|_| record.phase == Phase::Profiling)
            && let Some(watch) = self.watch()
        {
            watch.push(end, end.saturating_since(record.start));
        }
    }

    /// Looks at the clock; stops the sending when the last three windows agree.
    pub fn look(&mut self) {
        let at = now();
        if !self.pace.is_sending(at) {
            return;
        }
        self.sending = at;
        let over = Ns(at.0.saturating_sub(HAND_OVER.0));
        if self.watch().is_some_and(|watch| watch.settle(over)) {
            self.pace.stop(Stop::Drain);
        }
    }

    /// What the windows came to; `None` when nothing was measured.
    pub fn finish(mut self) -> Option<Stability> {
        let from = self.from()?;
        let time_is_up = !self.pace.has_sent_all() && self.pace.stopped_at().is_none();
        let end = match self.config.main().duration.filter(|_| time_is_up) {
            Some(duration) => from + duration,
            None => self.sending,
        };
        self.watch()?.settle(end);
        self.watch.map(StabilityWatch::finish)
    }
}

/// Follows the open loops of a run, on the main thread.
pub struct Backlog {
    /// Of the phase that sends: a step of the rate is no backlog.
    watch: SaturationWatch,
    part: usize,
    /// Due times of the phase, where requests may have to wait for a place, and how many have come.
    arrivals: Option<Arrivals>,
    due: u64,
    stops: bool,
    next_look: Ns,
    next_judgement: Ns,
    /// Of an earlier phase.
    found: Option<Saturation>,
    stopped: bool,
}

impl Backlog {
    /// A watch over a run.
    pub fn new(config: &Config) -> Backlog {
        Backlog {
            watch: SaturationWatch::new(),
            part: 0,
            arrivals: None,
            due: 0,
            stops: config.stop_oversaturated,
            next_look: Ns::ZERO,
            next_judgement: Ns::ZERO,
            found: None,
            stopped: false,
        }
    }

    /// Looks at the run, and stops the sending where that is asked for. Once sending is over a
    /// backlog only shrinks.
    pub fn look(&mut self, pace: &Pace, at: Ns) {
        let part = pace.part();
        let plan = &pace.phases()[part];
        let is_due = at >= self.next_look && plan.measured && plan.law.is_some();
        if !is_due || !pace.is_sending(at) {
            return;
        }
        self.next_look = at + LOOK;
        if part != self.part {
            self.found = self.found.or(self.watch.verdict());
            (self.watch, self.part) = (SaturationWatch::new(), part);
            (self.arrivals, self.due) = (None, 0);
        }
        let unclaimed = self.unclaimed(pace, at);
        let waiting = u64::from(pace.in_flight()) + unclaimed;
        let come = pace.sent_count() + unclaimed;
        let (count, sum) = pace.first_tokens();
        let done = come.saturating_sub(waiting);
        self.watch.push(at, waiting, come, done, sum, count);
        if self.stops && at >= self.next_judgement {
            self.next_judgement = at + JUDGE;
            self.stopped = self.watch.verdict().is_some();
            if self.stopped {
                pace.stop(Stop::Drain);
            }
        }
    }

    /// Requests of the phase that are due and wait for a place: they have come, too.
    fn unclaimed(&mut self, pace: &Pace, at: Ns) -> u64 {
        let plan = &pace.phases()[self.part];
        let may_wait = plan.cap.is_some() || plan.prefill.is_some() || plan.per_url.is_some();
        if self.arrivals.is_none() && may_wait {
            self.arrivals = pace.arrivals(self.part);
        }
        let start = pace.phase_start(self.part).unwrap_or(at);
        // As in the pace: times are those of sessions, a rate is that of requests.
        let (taken, most) = match plan.law {
            Some(Law::Renewal { .. }) => (pace.claimed_in(self.part), plan.count),
            Some(Law::Times(_)) => (pace.sessions_in(self.part), plan.sessions),
            // All come at once, and then no more.
            Some(Law::Burst) | None => return 0,
        };
        let most = most.unwrap_or(u64::MAX);
        if let Some(arrivals) = &mut self.arrivals {
            let mut has_come = |n| arrivals.due(n).is_some_and(|due| start + due <= at);
            while self.due < most && has_come(self.due) {
                self.due += 1;
            }
        }
        self.due.saturating_sub(taken)
    }

    /// Notes whether the run is over-saturated, and whether that has stopped it.
    pub fn finish(self, open: &mut OpenLoop) {
        open.saturation = self.found.or(self.watch.verdict());
        open.stopped_oversaturated = self.stopped;
    }
}

/// What a signal, `--stop-when-oversaturated` or too many failures have left undone.
pub fn cut_short(
    signals: &Signals,
    pace: &Pace,
    failures: Option<&FailureLimit>,
    client: &ClientReport,
) -> Option<String> {
    let stopped = |open: OpenLoop| open.stopped_oversaturated;
    let by = match signals.exit() {
        Exit::Interrupted => "INTERRUPTED by Ctrl-C",
        Exit::Terminated => "INTERRUPTED by SIGTERM",
        _ if client.open_loop.is_some_and(stopped) => "STOPPED by --stop-when-oversaturated",
        _ => return ends::ended_by_failures(pace, failures),
    };
    Some(format!(
        "{by}: {} measured requests have ended; the numbers are of those, and those cancelled in \
         flight are errors",
        ends::done(pace)
    ))
}
