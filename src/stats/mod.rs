//! Records, metrics, histograms, summaries. Knows nothing of sockets or files.
//!
//! Start at [`Record`]; each metric's definition stands once, in `metric`.

pub mod record;
pub mod summary;

pub use record::{
    Buffers, Failure, FailureKind, Phase, Record, Stage, TokenCounts, TokenSource, Usage,
};
pub use summary::Summary;
