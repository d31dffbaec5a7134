//! Server metrics: what the servers say of themselves on their pages of metrics, over the run.
//!
//! A [`Collector`] reads each page from a thread of its own and keeps what it said; after the run
//! it sums up the measured window. This room gets ways to pages and knows nothing of requests.
//! Start at [`Collector::start`].

mod collector;
mod engines;
mod history;
mod spool;
#[cfg(test)]
mod tests;
mod units;
mod window;

pub use collector::{Collector, Marker, Place, Seen};
pub use spool::Spool;
pub use window::{Window, sum_up};
