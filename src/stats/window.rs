//! A snapshot for the live view.

use crate::base::Ns;

/// Where a run stands. Counts are since the start of the phase.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Window {
    /// When it was taken.
    pub at: Ns,
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests sent.
    pub sent: u64,
    /// Requests that ended well.
    pub done: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Output tokens, or content events where nobody counted yet.
    pub tokens: u64,
    /// Time to first token so far, median.
    pub ttft_p50: Option<Ns>,
    /// Time to first token so far, 99th percentile.
    pub ttft_p99: Option<Ns>,
}
