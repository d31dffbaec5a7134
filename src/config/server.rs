//! What a run asks of its servers beside requests.

use crate::base::Ns;

/// What shows that a model is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// The server lists it.
    Models,
    /// It answers a request of the run's kind.
    Inference,
    /// The first, then the second.
    Both,
}

/// How a model is waited for before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long; zero is not at all.
    pub timeout: Ns,
    /// What shows that it is ready.
    pub mode: WaitMode,
    /// Between two looks.
    pub interval: Ns,
}

impl Default for Wait {
    fn default() -> Wait {
        Wait {
            timeout: Ns::ZERO,
            mode: WaitMode::Inference,
            interval: Ns::from_ms(5_000),
        }
    }
}

/// Emptying a server's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetCache {
    /// Path below the origin.
    pub path: String,
    /// Limit on each try.
    pub timeout: Ns,
}

/// A server's own profiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiler {
    /// Path below the origin that starts it.
    pub start: String,
    /// Path that stops it.
    pub stop: String,
    /// Limit on each try.
    pub timeout: Ns,
}
