//! Prometheus and OpenMetrics text: a page becomes families of samples. No I/O, no meaning.
//!
//! Start at [`parse`]. What a name means is for the rooms that read pages: `gpu`, `server_metrics`.

mod page;

pub use page::{Family, Kind, Page, Sample, parse};
