//! Plots of a sweep: latency against throughput, and its points below each other.

use crate::archive::RunFolder;
use crate::profile::{Drawing, Plotted, write_plots};
use crate::report::plot::{Drawn, PlotRun, RUNS_MAX, of_points, of_sweep};
use serde_json::Value;
use std::path::Path;

/// Draws a sweep: `document` is its `profile_export_aiperf_sweep.json`, `parent` the folder that
/// those of its runs lie in, `folder` the one for the plots.
pub fn plot_sweep(
    document: &Value,
    (parent, name): (&Path, &str),
    folder: &Path,
    drawing: Drawing,
) -> Plotted {
    let mut drawn = Drawn::default();
    match of_sweep(document, name, drawing.theme) {
        Ok(picture) => drawn.pictures.push(picture),
        Err(why) => drawn.notes.push(why),
    }
    let points = document["client"]["points"].as_array();
    let points = points.map(Vec::as_slice).unwrap_or_default();
    let mut runs = Vec::new();
    for point in points.iter().take(RUNS_MAX) {
        match of_point(point, parent) {
            Ok(run) => runs.extend(run),
            Err(why) => drawn.notes.push(why),
        }
    }
    if points.len() > RUNS_MAX {
        let count = points.len();
        let note = format!("of {count} points the first {RUNS_MAX} are drawn below each other");
        drawn.notes.push(note);
    }
    if !runs.is_empty() {
        let points = of_points(&runs, drawing.theme);
        drawn.pictures.extend(points.pictures);
        drawn.notes.extend(points.notes);
    }
    write_plots(drawn, folder, drawing)
}

/// The first run of a point; nothing where it left no records.
fn of_point(point: &Value, parent: &Path) -> Result<Option<PlotRun>, String> {
    let label = point["label"].as_str().unwrap_or_default();
    let Some(folder) = point["folders"][0].as_str() else {
        return Ok(None);
    };
    let opened = RunFolder::open(&parent.join(folder)).map_err(|error| error.to_string())?;
    // No gaps are drawn of points, and reading them takes longest.
    let read = opened.columns().map_err(|error| error.to_string())?;
    Ok(read.map(|read| PlotRun {
        name: label.to_string(),
        columns: read.columns,
        ..PlotRun::default()
    }))
}
