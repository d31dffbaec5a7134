//! Summary to bytes: console, json, csv, jsonl; and the same of many runs.
//!
//! Knows nothing of sockets or files: every function here is pure, so that each format has a
//! snapshot made from a summary written by hand. Start at [`json::aiperf`].

pub mod aggregate;
pub mod analyze_csv;
pub mod compare;
pub mod console;
pub mod course;
pub mod csv;
#[cfg(test)]
mod fixture;
pub mod genai_perf;
pub mod gpu_jsonl;
mod gpus;
mod input_config;
pub mod json;
pub mod jsonl;
pub mod many;
#[cfg(test)]
mod many_tests;
pub mod perf_analyzer;
mod phases;
pub mod plot;
pub mod recomputed;
pub mod search;
pub mod self_bench;
mod server_console;
pub mod server_metrics;
#[cfg(test)]
mod server_metrics_tests;
mod slices;
mod split;
mod support;
pub mod sweep;
mod text;
pub mod timeslices;

use crate::base::Anchor;
pub use crate::base::Secrets;
pub use gpus::labels as gpu_labels;

/// What a report says about a run beside its numbers.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// 12 hexadecimal digits.
    pub benchmark_id: String,
    /// Version of the program.
    pub version: String,
    /// Number of the trial, from 0.
    pub trial: u32,
    /// The command line as typed, secrets hidden.
    pub cli_command: String,
    /// Bridge from the monotonic clock to wall time.
    pub anchor: Anchor,
    /// Targets, as `scheme://host:port/base`, in the order of `Record::url`.
    pub urls: Vec<String>,
    /// Models: the one asked for or the one that the server named.
    pub models: Vec<String>,
    /// Where the artifacts lie, as printed.
    pub artifact_dir: String,
    /// Name of this machine.
    pub hostname: String,
    /// Names of the phases in their order, with whether each is measured.
    pub phases: Vec<(String, bool)>,
    /// Distinct prompts; absent means that each request has its own.
    pub dataset_entries: Option<u64>,
    /// What must never be printed.
    pub secrets: Secrets,
}
