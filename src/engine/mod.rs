//! What a core does: takes requests at their due times, runs them, hands records on.
//!
//! Knows nothing of metrics, files or screens. Start at [`CorePlan`] and [`run`]; the pace of all
//! cores together is [`Pace`].

mod cap;
mod core;
mod flight;
mod handover;
mod health;
mod joins;
mod lines;
mod pace;
mod plan;
mod slots;

pub use core::run;
pub(crate) use handover::emptied;
pub use pace::{Claim, Pace, PaceOptions, Skipped, Stop};
pub use plan::{CoreOutput, CorePlan, Request, Requests, Target};
