//! One benchmark: build the plans, run the phases, sum up, judge, write.
//!
//! Knows nothing of flags. Start at [`run`]; runs of many go by a [`Bench`].

mod asserts;
mod demo;
mod early;
mod ends;
mod environment;
mod exports;
mod files;
mod gpus;
mod headroom;
mod hooks;
mod method;
mod outcome;
mod payload;
mod plan_text;
mod plots;
mod preflight;
mod prepare;
mod probe;
mod records;
mod replay;
mod route;
mod run;
mod servers;
mod setup;
mod signals;
mod steps;
mod stops;
mod store;
mod telemetry;
mod verdict;
mod watch;

pub use asserts::{check as check_asserts, judge as judge_asserts};
pub use demo::Demo;
pub use early::Early;
pub use outcome::{Recorded, secrets};
pub use plots::{Drawing, PLOTS, Plotted, name_of, plot_run, write_plots};
pub use run::{Bench, Launch, run};
pub use setup::{check_limits, cores};
pub use signals::Signals;
