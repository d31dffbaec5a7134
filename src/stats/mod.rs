//! Records, metrics, histograms, summaries. Knows nothing of sockets or files.
//!
//! Start at [`Record`]; each metric's definition stands once, in `metric`.

pub mod accumulate;
pub mod arrivals;
pub mod blocks;
pub mod bootstrap;
pub mod buckets;
pub mod capacity;
pub mod catalogue;
mod column;
pub mod columns;
pub mod comparison;
pub mod confidence;
pub mod convergence;
pub mod course;
pub mod distribution;
pub mod energy;
pub mod environment;
pub mod figures;
pub mod gate;
pub mod genai_perf;
pub mod histogram;
pub mod isotonic;
pub mod knee;
pub mod many;
pub mod metric;
pub mod peaks;
pub mod plateau;
pub mod power;
pub mod ranks;
pub mod record;
pub mod recorded;
pub mod recorder;
pub mod saturation;
pub mod search;
mod select;
pub mod series;
pub mod server;
pub mod slices;
pub mod stability;
pub mod stages;
pub mod summary;
pub mod sweep;
mod totals;
pub mod track;
mod whole;
pub mod wire;

pub use accumulate::{AccumulateOptions, Accumulator, Value};
pub use arrivals::ArrivalCv;
pub use columns::{Columns, Row};
pub use environment::Environment;
pub use figures::{Figures, MetricFigures};
pub use gate::{Gate, Limit, Op};
pub use histogram::{Histogram, Interval, IntervalLog};
pub use metric::Metric;
pub use record::{
    Buffers, Failure, FailureKind, Media, Phase, Record, Stage, TokenCounts, TokenSource, Usage,
};
pub use recorded::{Recorded, RecordedFigures};
pub use recorder::{CoreRecorder, StampErrors};
pub use series::{Deviation, Series};
pub use stages::Stages;
pub use summary::Summary;
pub use totals::{Attainment, SteadyState, Totals};
pub use track::{Track, TrackKind};
