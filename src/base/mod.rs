//! Words that every room may use: units, the clock, the seeded generator, limits, exit codes.
//!
//! Knows nothing of requests, sockets or metrics. Start at [`Ns`].

pub mod clock;
pub mod exit;
pub mod limits;
pub mod rng;
mod units;

pub use clock::{Anchor, now};
pub use exit::Exit;
pub use rng::Rng;
pub use units::Ns;
