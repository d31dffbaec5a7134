//! The sink of one core: what the client itself did, per read and per send. No lock, no channel.

use super::histogram::Histogram;

/// Client quantities of one core.
#[derive(Clone, Debug, Default)]
pub struct CoreRecorder {
    /// User time minus kernel time of each read.
    pub receive_lag: Histogram,
    /// Start minus max(due, slot).
    pub send_lag: Histogram,
    /// Slot minus due.
    pub slot_wait: Histogram,
    /// Bound on the error of event times, per read that brought events.
    pub event_time_error: Histogram,
    /// Reads.
    pub reads_count: u64,
    /// Reads with a kernel time.
    pub stamped_reads_count: u64,
    /// Events.
    pub events_count: u64,
}

impl CoreRecorder {
    /// Adds another core's.
    pub fn merge(&mut self, other: &CoreRecorder) {
        self.receive_lag.merge(&other.receive_lag);
        self.send_lag.merge(&other.send_lag);
        self.slot_wait.merge(&other.slot_wait);
        self.event_time_error.merge(&other.event_time_error);
        self.reads_count += other.reads_count;
        self.stamped_reads_count += other.stamped_reads_count;
        self.events_count += other.events_count;
    }
}
