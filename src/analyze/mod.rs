//! Many runs: sweeps and repeats, the self-benchmark, which measures the client itself, and
//! comparisons of runs that are over.
//!
//! Makes runs by a [`crate::profile::Bench`] and knows nothing of how one works. Start at
//! [`sweep`], [`self_bench`] or [`compare`].

mod cell;
mod compare;
mod ladder;
mod memory;
mod plan;
mod plots;
mod redraw;
pub mod search;
mod seek;
mod self_bench;
mod sides;
mod summary;
mod sweep;

pub use compare::{Asked, compare};
pub use plan::Options;
pub use plots::plot_sweep;
pub use self_bench::{calibrate, self_bench};
pub use sides::Run;
pub use sweep::{Ended, run_all, sweep};
