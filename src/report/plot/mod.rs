//! Plots of recorded runs as SVG and PNG, without a browser: numbers in, bytes out.
//!
//! A chart (`boxes`, `histogram`, `heat`, `scatter`, `gaps`, `load`) puts shapes into a `frame` by
//! its `scale`s; the list of shapes, the `scene`, is then written as `svg` or `png`. Start at
//! [`of_runs`].

mod boxes;
mod data;
mod font;
mod frame;
mod gaps;
mod heat;
mod histogram;
mod load;
mod png;
mod scale;
mod scatter;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod well_formed;

pub use data::{Gaps, PlotRun};
pub use frame::{SERIES_MAX, Theme};
pub use load::of_sweep;

use crate::stats::distribution::{float, float_len};
use scene::Scene;

/// Runs that fit below each other.
pub const RUNS_MAX: usize = 12;

/// A plot under its file's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// Name of its file, without an ending.
    pub name: &'static str,
    scene: Scene,
}

impl Picture {
    /// As SVG.
    pub fn svg(&self) -> Vec<u8> {
        svg::text(&self.scene).into_bytes()
    }

    /// As PNG, 700 x 450 pixels. Errors: no memory for it.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        png::bytes(&self.scene)
    }
}

/// The plots of some runs, and of those that cannot be made why not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drawn {
    /// Those that can.
    pub pictures: Vec<Picture>,
    /// A sentence for each that cannot.
    pub notes: Vec<String>,
}

impl Drawn {
    fn add(&mut self, name: &'static str, drawn: Result<Scene, String>) {
        match drawn {
            Ok(scene) => self.pictures.push(Picture { name, scene }),
            Err(why) => self.notes.push(format!("no plot {name}: {why}")),
        }
    }
}

/// All plots of one run, or of several those that lay them over each other.
///
/// Range: 1 to [`RUNS_MAX`] runs; more are left out. Cost: some ms per plot, and a sort of what is
/// drawn.
pub fn of_runs(runs: &[PlotRun], theme: Theme) -> Drawn {
    let runs = &runs[..runs.len().min(RUNS_MAX)];
    let mut drawn = Drawn::default();
    let streams = runs.iter().any(PlotRun::has_first_tokens);
    if streams {
        drawn.add("time_to_first_token", boxes::first_token(runs, theme));
    }
    drawn.add("request_latency", boxes::latency(runs, theme));
    if let [run] = runs {
        drawn.add(
            "distribution_of_input_sequence_lengths_to_output_sequence_lengths",
            heat::lengths(run, theme),
        );
    }
    let few = &runs[..runs.len().min(SERIES_MAX)];
    if streams {
        drawn.add(
            "time_to_first_token_vs_input_sequence_lengths",
            scatter::first_token(few, theme),
        );
        drawn.add(
            "token-to-token_latency_vs_output_token_position",
            gaps::positions(few, theme),
        );
    } else {
        let note = "no plots of the first token and of gaps between tokens: no answer was streamed";
        drawn.notes.push(note.into());
    }
    drawn.add("input_sequence_lengths", histogram::inputs(few, theme));
    match runs {
        [run] if run.rate_per_s.is_some() => {
            drawn.add("dispatch_delay", scatter::dispatch_delay(run, theme));
        }
        [_] => {}
        _ if streams => drawn.add(
            "time_to_first_token_histograms",
            histogram::first_token(few, theme),
        ),
        _ => drawn.add("request_latency_histograms", histogram::latency(few, theme)),
    }
    drawn
}

/// The plots of a sweep's points below each other.
pub fn of_points(runs: &[PlotRun], theme: Theme) -> Drawn {
    let runs = &runs[..runs.len().min(RUNS_MAX)];
    let mut drawn = Drawn::default();
    if runs.iter().any(PlotRun::has_first_tokens) {
        drawn.add("time_to_first_token", boxes::first_token(runs, theme));
    }
    drawn.add("request_latency", boxes::latency(runs, theme));
    drawn
}
