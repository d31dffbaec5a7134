//! What a sweep leaves beside its runs: GenAI-Perf's and AIPerf's files, and the screen.

use super::plots::plot_sweep;
use super::search::post::process;
use crate::archive::{ArchiveError, put_aside, write_whole};
use crate::base::Exit;
use crate::config::{Layout, Sweep};
use crate::profile::{Drawing, PLOTS};
use crate::report::{self, many};
use crate::stats::many::{Point, Runs};
use crate::stats::search::Search;
use crate::view::{show, tell};
use std::path::{Path, PathBuf};

/// Writes all files and shows the table. Gives how bad what is lost is.
pub fn publish(runs: &Runs, sweep: &Sweep, found: Option<&Search>, parent: &Path) -> Exit {
    let mut exit = Exit::Ok;
    if runs.runs.iter().any(|run| run.fault.is_some()) {
        exit = exit.worse(Exit::Partial);
    }
    let post = sweep.post.as_ref().and_then(|(recipe, post)| {
        let points = runs.by_point();
        let points: Vec<_> = points
            .iter()
            .filter(|point| !point.good.is_empty())
            .map(|point| (point.first.values.clone(), point.figures.clone()))
            .collect();
        Some((recipe, process(post, &points).ok()?))
    });
    let found = found.zip(sweep.search.as_ref());
    let mut more = Vec::new();
    if let Some((search, spec)) = found {
        let json = report::json::bytes(&report::search::json(search, spec));
        more.push((parent.join("search_history.json"), json));
    }
    if let Some((recipe, value)) = &post {
        let name = format!("{}.json", recipe.replace('-', "_"));
        more.push((parent.join(name), report::json::bytes(value)));
    }
    for written in write(runs, sweep, parent, more) {
        if let Err(error) = written {
            tell(&format!("error: {error}"));
            exit = exit.worse(Exit::Partial);
        }
    }
    exit = exit.worse(plots(runs, sweep, parent));
    let mut text = many::text(runs);
    if let Some((search, spec)) = found {
        text.push_str(&format!("\n{}", report::search::text(search, spec)));
    }
    if let Some((recipe, value)) = &post {
        text.push_str(&format!("{recipe}: {value:#}\n"));
    }
    text.push_str(&format!("Artifacts: {}\n", parent.display()));
    if let Err(error) = show(text.as_bytes()) {
        tell(&format!("error: stdout: {error}"));
        exit = exit.worse(Exit::Unexpected);
    }
    exit
}

/// The plots, where they are asked for; gives how bad what is lost is.
fn plots(runs: &Runs, sweep: &Sweep, parent: &Path) -> Exit {
    if !sweep.variations[0].config.generate_plots {
        return Exit::Ok;
    }
    let name = parent
        .file_name()
        .unwrap_or(parent.as_os_str())
        .to_string_lossy();
    let document = report::sweep::json(runs);
    let folder = parent.join(PLOTS);
    let plotted = plot_sweep(&document, (parent, &name), &folder, Drawing::default());
    plotted
        .notes
        .iter()
        .for_each(|note| tell(&format!("note: {note}")));
    plotted
        .lost
        .iter()
        .for_each(|lost| tell(&format!("error: {lost}")));
    match plotted.lost.is_empty() {
        true => Exit::Ok,
        false => Exit::Partial,
    }
}

fn write(
    runs: &Runs,
    sweep: &Sweep,
    parent: &Path,
    more: Vec<(PathBuf, Vec<u8>)>,
) -> Vec<Result<(), ArchiveError>> {
    let mut ours: Vec<PathBuf> = more.iter().map(|(path, _)| path.clone()).collect();
    let mut files = more;
    let top = match sweep.layout {
        Layout::Analyze => parent.to_path_buf(),
        Layout::Profile => parent.join("aggregate"),
    };
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
    // What an earlier sweep has left there is moved out of the way, each by its first name.
    let moved = ours.iter().map(|path| match sweep.layout {
        // A folder of repeats alone is the aggregate's own; its runs lie elsewhere.
        Layout::Profile if *path == top => Ok(()),
        // What it goes on with is its own.
        _ if sweep.resumes => Ok(()),
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
