//! tokenring measures LLM inference servers over io_uring, one pinned thread per core, and says in
//! every report whether the client was the limit.
//!
//! Start reading at [`profile`], which runs one benchmark, and at [`stats::Record`], the narrow
//! waist between what measures and what reports. ARCHITECTURE.md has the map.
#![deny(unsafe_code)]
#![warn(missing_docs)]
// They panic on a closed or full output: view::tell and view::show do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod analyze;
pub mod archive;
pub mod base;
pub mod cli;
pub mod config;
pub mod endpoint;
pub mod engine;
pub mod gpu;
pub mod http;
pub mod mock;
pub mod profile;
pub mod report;
pub mod runtime;
pub mod schedule;
pub mod scrape;
pub mod server_metrics;
pub mod sse;
pub mod stats;
pub mod view;
pub mod workload;
