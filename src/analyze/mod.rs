//! Many runs: the self-benchmark, which measures the client itself.
//!
//! Makes runs by a [`crate::profile::Bench`] and knows nothing of how one works. Start at
//! [`self_bench`].

mod ladder;
mod memory;
mod plan;
mod self_bench;

pub use plan::Options;
pub use self_bench::{calibrate, self_bench};
