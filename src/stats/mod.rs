//! Records, metrics, histograms, summaries. Knows nothing of sockets or files.
//!
//! Start at [`Record`]; each metric's definition stands once, in `metric`.

mod histogram;
pub mod record;
mod recorder;
pub mod summary;

pub use histogram::Histogram;
pub use record::{
    Buffers, Failure, FailureKind, Phase, Record, Stage, TokenCounts, TokenSource, Usage,
};
pub use recorder::CoreRecorder;
pub use summary::Summary;
