//! What one core notes about the client itself; merged at the end.

use super::histogram::Histogram;

/// Per-core sink of client quantities, in ns. Plain fields; the hot path only adds.
#[derive(Clone, Debug, Default)]
pub struct CoreRecorder {
    /// User time minus kernel time of each stamped read.
    pub receive_lag: Histogram,
    /// Start minus max(due, slot).
    pub send_lag: Histogram,
    /// Slot minus due.
    pub slot_wait: Histogram,
    /// Bound on the error of event times.
    pub event_time_error: Histogram,
    /// Reads with body bytes.
    pub reads: u64,
    /// Of them with a kernel time.
    pub reads_stamped: u64,
    /// Events of any kind.
    pub events: u64,
}

impl CoreRecorder {
    /// Notes a read; `lag_ns` when the kernel stamped it, `error_ns` bounds its event times.
    #[inline]
    pub fn read(&mut self, lag_ns: Option<u64>, error_ns: u64, events: u64) {
        self.reads += 1;
        self.events += events;
        if let Some(lag) = lag_ns {
            self.reads_stamped += 1;
            self.receive_lag.record(lag);
        }
        self.event_time_error.record_n(error_ns, events);
    }

    /// Adds another core's notes.
    pub fn merge(&mut self, other: &CoreRecorder) {
        self.receive_lag.merge(&other.receive_lag);
        self.send_lag.merge(&other.send_lag);
        self.slot_wait.merge(&other.slot_wait);
        self.event_time_error.merge(&other.event_time_error);
        self.reads += other.reads;
        self.reads_stamped += other.reads_stamped;
        self.events += other.events;
    }
}
