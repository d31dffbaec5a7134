//! The bundled mock server: timed SSE tokens, faults and delays from a seeded law.
//!
//! For tests, demos and the self-benchmark. One epoll loop per thread on a shared port, one
//! timing wheel per loop, and events that are rendered once and stamped as they leave. Knows
//! nothing of the client that measures it. Start at [`Options`], then [`run`].

mod conn;
mod fault;
mod options;
mod render;
mod request;
mod server;
mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod wheel;

pub use fault::Faults;
pub use options::{Cliff, Jitter, LineEnd, Options, UsageMode};
pub use server::{MockError, run};
