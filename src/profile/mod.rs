//! One benchmark: build the plans, run the phases, sum up, judge, write.
//!
//! Knows nothing of flags. Start at [`run`].

mod demo;
mod early;
mod environment;
mod files;
mod method;
mod outcome;
mod payload;
mod plan_text;
mod preflight;
mod prepare;
mod probe;
mod records;
mod run;
mod setup;
mod signals;
mod steps;
mod verdict;
mod watch;

pub use run::{Launch, run};
