//! What a sweep leaves beside its runs: GenAI-Perf's and AIPerf's files, and the screen.

use crate::archive::{ArchiveError, put_aside, write_whole};
use crate::base::Exit;
use crate::config::{Layout, Sweep};
use crate::report::{self, many};
use crate::stats::many::{Point, Runs};
use crate::view::{show, tell};
use std::path::{Path, PathBuf};

/// Writes all files and shows the table. Gives how bad what is lost is.
pub fn publish(runs: &Runs, sweep: &Sweep, parent: &Path) -> Exit {
    let mut exit = Exit::Ok;
    if runs.runs.iter().any(|run| run.fault.is_some()) {
        exit = exit.worse(Exit::Partial);
    }
    for written in write(runs, sweep, parent) {
        if let Err(error) = written {
            tell(&format!("error: {error}"));
            exit = exit.worse(Exit::Partial);
        }
    }
    let text = format!("{}Artifacts: {}\n", many::text(runs), parent.display());
    if let Err(error) = show(text.as_bytes()) {
        tell(&format!("error: stdout: {error}"));
        exit = exit.worse(Exit::Unexpected);
    }
    exit
}

fn write(runs: &Runs, sweep: &Sweep, parent: &Path) -> Vec<Result<(), ArchiveError>> {
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let top = match sweep.layout {
        Layout::Analyze => parent.to_path_buf(),
        Layout::Profile => parent.join("aggregate"),
    };
    // What an earlier sweep has left there is moved out of the way, each by its first name.
    let mut ours: Vec<PathBuf> = Vec::new();
    if sweep.layout == Layout::Analyze {
        let path = parent.join("analyze_export_genai_perf.csv");
        ours.push(path.clone());
        files.push((path, report::analyze_csv::bytes(runs)));
    }
    if !runs.axes.is_empty() || runs.points.len() > 1 {
        let folder = top.join("sweep_aggregate");
        ours.push(folder.clone());
        let json = report::json::bytes(&report::sweep::json(runs));
        files.push((folder.join("profile_export_aiperf_sweep.json"), json));
        let csv = report::sweep::csv(runs);
        files.push((folder.join("profile_export_aiperf_sweep.csv"), csv));
    }
    if runs.trials > 1 {
        for point in runs.by_point() {
            let folder = aggregate_folder(&top, &point, sweep.layout);
            ours.push(folder.clone());
            let json = report::json::bytes(&report::aggregate::json(runs, &point));
            files.push((folder.join("profile_export_aiperf_aggregate.json"), json));
            let csv = report::aggregate::csv(runs, &point);
            files.push((folder.join("profile_export_aiperf_aggregate.csv"), csv));
        }
    }
    let moved = ours.iter().map(|path| match sweep.layout {
        // A folder of repeats alone is the aggregate's own; its runs lie elsewhere.
        Layout::Profile if *path == top => Ok(()),
        _ => put_aside(path),
    });
    let mut results: Vec<Result<(), ArchiveError>> = moved.collect();
    results.extend(files.iter().map(|(path, bytes)| write_whole(path, bytes)));
    results
}

fn aggregate_folder(top: &Path, point: &Point<'_>, layout: Layout) -> PathBuf {
    match (point.first.label.as_str(), layout) {
        ("", Layout::Profile) => top.to_path_buf(),
        ("", Layout::Analyze) => top.join("aggregate"),
        (label, Layout::Profile) => top.join(label),
        (label, Layout::Analyze) => top.join("aggregate").join(label),
    }
}
