//! Many runs: sweeps and repeats, and the self-benchmark, which measures the client itself.
//!
//! Makes runs by a [`crate::profile::Bench`] and knows nothing of how one works. Start at
//! [`sweep`] or [`self_bench`].

mod cell;
mod ladder;
mod memory;
mod plan;
pub mod search;
mod seek;
mod self_bench;
mod summary;
mod sweep;

pub use plan::Options;
pub use self_bench::{calibrate, self_bench};
pub use sweep::sweep;
