//! Words that every room may use: units, the clock, the seeded generator, limits, exit codes,
//! what a header may hold, and what makes a text fit to be shown.
//!
//! Knows nothing of requests, sockets or metrics. Start at [`Ns`].

pub mod clock;
pub mod exit;
mod header;
pub mod limits;
mod mask;
pub mod rng;
mod text;
mod units;

pub use clock::{Anchor, now};
pub use exit::Exit;
pub use header::{is_header_name, is_header_value};
pub(crate) use mask::base64;
pub use mask::{REDACTED, SECRET_BYTES_MIN, Secrets};
pub use rng::Rng;
pub use text::{one_line, printable};
pub use units::Ns;
