//! What one core notes about the client itself; merged at the end.

use super::histogram::Histogram;
use crate::base::Ns;

/// Per-core sink of client quantities, in ns. Plain fields; the hot path only adds.
#[derive(Clone, Debug, Default)]
pub struct CoreRecorder {
    /// User time minus kernel time of each stamped read.
    pub receive_lag: Histogram,
    /// Start minus max(due, slot).
    pub send_lag: Histogram,
    /// Slot minus due.
    pub slot_wait: Histogram,
    /// How late waits for a time have ended.
    pub timer_lateness: Histogram,
    /// Smoothed round-trip time of a connection at the end of each request.
    pub rtt: Histogram,
    /// Segments that we had to send again.
    pub retransmits: u64,
    /// Segments that came out of order: one before them was lost or late.
    pub reordered: u64,
    /// Bound on the error of the time of each content event.
    pub event_time_error: Histogram,
    /// What comes now belongs to the measurement: a warm-up is no part of the spreads. It is of the
    /// counts, since its work is in the CPU time.
    pub is_measured: bool,
    /// Reads with body bytes.
    pub reads: u64,
    /// Of them with a kernel time.
    pub reads_stamped: u64,
    /// Events of any kind.
    pub events: u64,
    /// First tokens.
    pub first_tokens: u64,
    /// Their times from due, summed.
    pub first_tokens_ns: u64,
    /// A bound on event times, and the events since another one that had it.
    same_errors: (u64, u64),
    /// Against the stamps of the mock, when that is asked for.
    pub stamp_errors: Option<Box<StampErrors>>,
}

/// How far our times are from the mock's own send times, in ns.
///
/// The mock reads its clock before it sends: a few us of each error are the path itself.
#[derive(Clone, Debug, Default)]
pub struct StampErrors {
    /// Of each content event.
    pub event_time: Histogram,
    /// Of the first one: the error of TTFT.
    pub ttft: Histogram,
    /// Difference between neighbours: the error of ITL.
    pub itl: Histogram,
}

impl StampErrors {
    /// Notes an event that is `error_ns` late; the one before it in its stream was `previous`.
    #[inline]
    pub fn note(&mut self, error_ns: u64, previous: Option<u64>) {
        self.event_time.record(error_ns);
        match previous {
            None => self.ttft.record(error_ns),
            Some(previous) => self.itl.record(error_ns.abs_diff(previous)),
        }
    }

    /// Adds another core's notes.
    pub fn merge(&mut self, other: &StampErrors) {
        self.event_time.merge(&other.event_time);
        self.ttft.merge(&other.ttft);
        self.itl.merge(&other.itl);
    }
}

impl CoreRecorder {
    /// An empty one.
    pub fn new(check_stamps: bool) -> CoreRecorder {
        CoreRecorder {
            stamp_errors: check_stamps.then(Box::default),
            ..CoreRecorder::default()
        }
    }

    /// Notes a read; `lag_ns` when the kernel stamped it.
    #[inline]
    pub fn read(&mut self, lag_ns: Option<u64>, events: u64) {
        self.reads += 1;
        self.events += events;
        if let Some(lag) = lag_ns {
            self.reads_stamped += 1;
            if self.is_measured {
                self.receive_lag.record(lag);
            }
        }
    }

    /// Notes the first token of a request, if it is there, so long after its due time.
    pub fn first_token(&mut self, after: Option<Ns>) {
        if let Some(after) = after {
            self.first_tokens += 1;
            self.first_tokens_ns += after.0;
        }
    }

    /// Notes `events` whose times are off by at most `error_ns`.
    #[inline]
    pub fn times(&mut self, error_ns: u64, events: u64) {
        if !self.is_measured {
            return;
        }
        // Nearly all events have the same bound, the stamp's own: they are counted, and written
        // down together.
        if error_ns != self.same_errors.0 {
            self.close();
            self.same_errors.0 = error_ns;
        }
        self.same_errors.1 += events;
    }

    /// Writes down what [`CoreRecorder::times`] has held back; the core is done.
    pub fn close(&mut self) {
        let (error_ns, events) = self.same_errors;
        self.event_time_error.record_n(error_ns, events);
        self.same_errors.1 = 0;
    }

    /// Notes a request that leaves, so late by the client's own doing.
    pub fn sends(&mut self, lag_ns: u64) {
        if self.is_measured {
            self.send_lag.record(lag_ns);
        }
    }

    /// Adds another core's notes, closed.
    pub fn merge(&mut self, other: &CoreRecorder) {
        self.receive_lag.merge(&other.receive_lag);
        self.send_lag.merge(&other.send_lag);
        self.slot_wait.merge(&other.slot_wait);
        self.timer_lateness.merge(&other.timer_lateness);
        self.rtt.merge(&other.rtt);
        self.retransmits += other.retransmits;
        self.reordered += other.reordered;
        self.event_time_error.merge(&other.event_time_error);
        self.reads += other.reads;
        self.reads_stamped += other.reads_stamped;
        self.events += other.events;
        self.first_tokens += other.first_tokens;
        self.first_tokens_ns += other.first_tokens_ns;
        if let Some(errors) = &other.stamp_errors {
            self.stamp_errors.get_or_insert_default().merge(errors);
        }
    }
}
