//! How far the figures of repeats can be off by which requests their runs had: blocks of the
//! requests of all runs of a point, drawn again.

use crate::archive::RunFolder;
use crate::stats::bootstrap::{Resampling, Statistic, resample};
use crate::stats::distribution::is_supported;
use crate::stats::many::{Point, Redrawn, Runs};
use std::path::Path;

/// Metrics of which that is told.
const METRICS: [&str; 3] = [
    "time_to_first_token",
    "inter_token_latency",
    "request_latency",
];
/// Statistics of them: name, percentile, what is drawn.
const STATS: [(&str, f64, Statistic); 4] = [
    ("avg", 50.0, Statistic::Mean),
    ("p50", 50.0, Statistic::Percentile(50.0)),
    ("p90", 90.0, Statistic::Percentile(90.0)),
    ("p99", 99.0, Statistic::Percentile(99.0)),
];

/// Of every point with more than one good run whose requests can be read.
pub fn redraw(runs: &Runs, parent: &Path) -> Vec<Redrawn> {
    let points = runs.by_point();
    points
        .iter()
        .flat_map(|point| of_point(point, parent, runs.level))
        .collect()
}

fn of_point(point: &Point<'_>, parent: &Path, level: f64) -> Vec<Redrawn> {
    if point.good.len() < 2 {
        return Vec::new();
    }
    let mut columns = Vec::new();
    for run in &point.good {
        let folder = RunFolder::open(&parent.join(&run.folder)).ok();
        let Some(Ok(Some(found))) = folder.map(|folder| folder.columns()) else {
            return Vec::new();
        };
        columns.push(found.columns);
    }
    let mut out = Vec::new();
    for tag in METRICS {
        let own = columns
            .iter()
            .filter_map(|run| run.get(tag))
            .flatten()
            .copied();
        let values: Vec<f64> = own.filter(|value| value.is_finite()).collect();
        let stats = STATS.map(|(_, _, statistic)| statistic);
        let Some(found) = resample(&values, &stats, &Resampling::default()) else {
            continue;
        };
        for (at, (stat, percent, _)) in STATS.into_iter().enumerate() {
            let carries = is_supported(values.len() as u64, percent);
            out.extend(
                found
                    .interval(at, level)
                    .filter(|_| carries)
                    .map(|over| Redrawn {
                        label: point.first.label.clone(),
                        tag: tag.into(),
                        stat: stat.into(),
                        over,
                    }),
            );
        }
    }
    out
}
