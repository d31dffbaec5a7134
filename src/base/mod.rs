//! Words that every room may use: units, the clock, the seeded generator, limits, exit codes,
//! what a header may hold.
//!
//! Knows nothing of requests, sockets or metrics. Start at [`Ns`].

pub mod clock;
pub mod exit;
mod header;
pub mod limits;
pub mod rng;
mod units;

pub use clock::{Anchor, now};
pub use exit::Exit;
pub use header::{is_header_name, is_header_value};
pub use rng::Rng;
pub use units::Ns;
