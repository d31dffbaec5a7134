//! One benchmark: build the plans, run the phases, sum up, judge, write.
//!
//! Knows nothing of flags. Start at [`run`].

mod demo;
mod files;
mod outcome;
mod payload;
mod plan_text;
mod preflight;
mod probe;
mod records;
mod run;
mod setup;
mod signals;
mod verdict;

pub use run::{Launch, run};
