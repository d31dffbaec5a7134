//! What a core does: takes requests at their due times, runs them, hands records on.
//!
//! Knows nothing of metrics, files or screens. Start at [`CorePlan`] and [`Worker`]; the pace of
//! all cores together is [`Pace`].

mod claim;
mod core;
mod deadlines;
mod failures;
mod faults;
mod flight;
mod gate;
mod gates;
mod handover;
mod health;
mod joins;
mod launch;
mod lines;
mod pace;
mod phases;
mod place;
mod plan;
mod session;
mod slots;
mod told;
mod worker;

pub use claim::{Claim, PaceOptions, PhasePlan, Stop, Ticket, Want};
pub use deadlines::RequestLimits;
pub use failures::FailureLimit;
pub use gate::GatePlan;
pub(crate) use handover::emptied;
pub use pace::{Cursor, Pace};
pub use phases::Skipped;
pub use plan::{CoreOutput, CorePlan, Drawn, Request, Requests, Talk, Target, Turn};
pub use worker::Worker;
