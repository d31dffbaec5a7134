//! How much more than a run's load the client could drive, by the last self-benchmark.

use crate::archive::{Calibration, machine};
use crate::config::{Config, Url};
use crate::stats::capacity::{CoreLoad, Headroom};
use crate::stats::summary::{ClientReport, MetricResult, Verdict};
use crate::view::tell;
use std::path::Path;

/// The headroom of a run that has been judged; absent where nothing is kept for its shape. A file
/// that cannot be read is as good as none, and said.
pub fn headroom(
    config: &Config,
    client: &ClientReport,
    metrics: &[MetricResult],
    program: Option<&Path>,
) -> Option<Headroom> {
    let machine = machine(program?);
    let tls = config.urls.iter().any(|url: &Url| url.tls);
    let load = CoreLoad::busiest(&client.cores, metrics, tls)?;
    match Calibration::here()?.find(&machine, load.shape) {
        // A run that was VALID with more has found more than the self-benchmark.
        Ok(Some(known)) if client.verdict == Verdict::Valid && known.per_s < load.per_s => None,
        Ok(known) => known.map(|known| Headroom {
            ratio: known.per_s / load.per_s,
            measured_wall_ns: known.measured_wall_ns,
        }),
        Err(error) => {
            tell(&format!(
                "note: what self-bench has kept is not read: {error}; self-bench writes it anew"
            ));
            None
        }
    }
}
