//! Plots of runs that lie on disk: what is read for them, and their files.

use super::files::file_name;
use super::outcome::Run;
use crate::archive::{RunFolder, Workload, write_whole};
use crate::report::plot::{Drawn, Gaps, PlotRun, Theme, of_runs};
use crate::view::tell;
use std::path::{Path, PathBuf};

/// The folder of plots in that of their run.
pub const PLOTS: &str = "plots";

/// How plots are drawn and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawing {
    /// Light or dark.
    pub theme: Theme,
    /// As SVG.
    pub svg: bool,
    /// As PNG.
    pub png: bool,
}

impl Default for Drawing {
    fn default() -> Drawing {
        Drawing {
            theme: Theme::Light,
            svg: true,
            png: true,
        }
    }
}

/// Files of plots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plotted {
    /// Those that are there.
    pub files: Vec<PathBuf>,
    /// What a reader must know, such as why a plot is not there.
    pub notes: Vec<String>,
    /// What could not be written.
    pub lost: Vec<String>,
}

/// What is drawn of a run, under this name, and what is to be said of it; `None` when its requests
/// are not on disk. Cost: its records' files are read whole. Errors: one of them cannot be read.
pub fn plot_run(folder: &RunFolder, name: &str) -> Result<(Option<PlotRun>, Vec<String>), String> {
    let read = folder.columns().map_err(|error| error.to_string())?;
    let Some(read) = read else {
        return Ok((None, Vec::new()));
    };
    let mut gaps = Gaps::default();
    let beside = "output_sequence_length";
    folder
        .lists("inter_chunk_latency", beside, &mut |list, tokens| {
            gaps.push(list, tokens)
        })
        .map_err(|error| error.to_string())?;
    let run = PlotRun {
        name: name.to_string(),
        detail: detail(&folder.workload),
        rate_per_s: folder.workload.request_rate_per_s,
        columns: read.columns,
        gaps,
    };
    Ok((Some(run), read.notes))
}

/// The name of a run by its folder.
pub fn name_of(folder: &RunFolder) -> String {
    let path = folder.path.canonicalize();
    let path = path.as_deref().unwrap_or(&folder.path);
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Model and load.
fn detail(workload: &Workload) -> String {
    let load = match (workload.request_rate_per_s, workload.concurrency) {
        (Some(rate), _) => Some(format!("{rate} requests/s")),
        (None, Some(concurrency)) => Some(format!("concurrency {concurrency}")),
        (None, None) => None,
    };
    let parts = workload.models.first().cloned().into_iter().chain(load);
    parts.collect::<Vec<_>>().join(" · ")
}

/// Writes plots into a folder, which is made where it is lacking.
pub fn write_plots(drawn: Drawn, folder: &Path, drawing: Drawing) -> Plotted {
    let mut plotted = Plotted {
        notes: drawn.notes,
        ..Plotted::default()
    };
    for picture in &drawn.pictures {
        let svg = drawing.svg.then(|| ("svg", Ok(picture.svg())));
        let png = drawing.png.then(|| ("png", picture.png()));
        for (ending, bytes) in svg.into_iter().chain(png) {
            let path = folder.join(format!("{}.{ending}", picture.name));
            let written = bytes.and_then(|bytes| {
                let written = write_whole(&path, &bytes);
                written.map_err(|error| format!("{}: {}", error.action, error.source))
            });
            match written {
                Ok(()) => plotted.files.push(path),
                Err(why) => plotted.lost.push(format!("{}: {why}", path.display())),
            }
        }
    }
    plotted
}

/// The plots of a run that is just over, in its folder; gives what was lost.
pub(super) fn generate(run: &Run<'_>) -> Vec<String> {
    let Some(dir) = run.dir.filter(|_| run.config.generate_plots) else {
        return Vec::new();
    };
    let summary = file_name(run.config, "profile_export_aiperf.json", ".json");
    let opened = RunFolder::open(&dir.path().join(summary)).map_err(|error| error.to_string());
    let read = opened.and_then(|folder| plot_run(&folder, &name_of(&folder)));
    let (read, notes) = match read {
        Ok((Some(read), notes)) => (read, notes),
        Ok((None, _)) => return vec!["no plots: the run has no records".into()],
        Err(error) => return vec![format!("no plots: {error}")],
    };
    let drawing = Drawing::default();
    let drawn = of_runs(&[read], drawing.theme);
    let plotted = write_plots(drawn, &dir.path().join(PLOTS), drawing);
    for note in notes.iter().chain(&plotted.notes) {
        tell(&format!("note: {}", run.info.secrets.shown(note)));
    }
    plotted.lost
}
