//! A dot for each request; where they would cover each other, colours say how many there are.

use super::data::{Pairs, PlotRun, at_percent, range, subtitle};
use super::frame::{Frame, Key, Labels, Mark, Theme};
use super::heat;
use super::histogram::Bins;
use super::scale::{Scale, TimeUnit, grouped};
use super::scene::Scene;

/// Dots of one run; more become cells.
const DOTS_MAX: usize = 4_000;

/// Time to the first token against the length of the prompt.
pub fn first_token(runs: &[PlotRun], theme: Theme) -> Result<Scene, String> {
    let pairs = |run: &PlotRun| run.pairs("input_sequence_length", "time_to_first_token");
    let mut series: Vec<Pairs> = runs.iter().map(pairs).collect();
    let all = || series.iter().flatten();
    let nothing = "no good request has both";
    let x = range(all().map(|pair| pair.0)).ok_or(nothing)?;
    let (low, high) = range(all().map(|pair| pair.1)).ok_or(nothing)?;
    let unit = TimeUnit::of(high);
    let count = all().count();
    series
        .iter_mut()
        .flatten()
        .for_each(|pair| pair.1 *= unit.0);
    let (_, x) = Bins::lengths(x.0, x.1, 44);
    let y = Scale::fitting(low * unit.0, high * unit.0);
    let labels = Labels {
        title: "Time to First Token vs Input Sequence Lengths".into(),
        subtitle: subtitle(runs, count, "requests"),
        x: "Input Sequence Length (tokens)".into(),
        y: format!("Time to First Token ({})", unit.1),
        ..Labels::default()
    };
    Ok(draw(runs, &series, labels, (x, y), theme).finish())
}

fn draw(
    runs: &[PlotRun],
    series: &[Pairs],
    mut labels: Labels,
    (x, y): (Scale, Scale),
    theme: Theme,
) -> Frame {
    let count = series.iter().map(Vec::len).sum::<usize>();
    if let ([pairs], true) = (series, count > DOTS_MAX) {
        labels.foot = format!(
            "{} requests: colours count those of a cell.",
            grouped(&count.to_string())
        );
        let cells = (Bins::of_scale(&x, 80), Bins::of_scale(&y, 48));
        let mut frame = Frame::new(&labels, (x, y), theme, heat::BAR_ROOM);
        heat::cells(&mut frame, pairs, (&cells.0, &cells.1));
        return frame;
    }
    let each = DOTS_MAX / series.len().max(1);
    if runs.len() > 1 {
        labels.legend = keys(runs, theme);
    }
    if series.iter().any(|pairs| pairs.len() > each) {
        labels.foot = format!(
            "{} requests of each run at most are shown.",
            grouped(&each.to_string())
        );
    }
    let mut frame = Frame::new(&labels, (x, y), theme, 0.0);
    for (at, pairs) in series.iter().enumerate() {
        let every = pairs.len().div_ceil(each.max(1)).max(1);
        let some: Pairs = pairs.iter().copied().step_by(every).collect();
        let alpha = if some.len() > 400 { 90 } else { 160 };
        frame.dots(&some, 2.6, theme.series(at).with_alpha(alpha));
    }
    frame
}

/// The runs' names with their colours.
pub(super) fn keys(runs: &[PlotRun], theme: Theme) -> Vec<Key> {
    let key = |(at, run): (usize, &PlotRun)| Key {
        mark: Mark::Dot,
        color: theme.series(at),
        text: run.name.clone(),
    };
    runs.iter().enumerate().map(key).collect()
}

/// How late requests began after they were due, over the run.
pub fn dispatch_delay(run: &PlotRun, theme: Theme) -> Result<Scene, String> {
    let mut pairs = run.delays();
    let nothing = "the run has no due times";
    let (_, last) = range(pairs.iter().map(|pair| pair.0)).ok_or(nothing)?;
    let (low, high) = range(pairs.iter().map(|pair| pair.1)).ok_or(nothing)?;
    let unit = TimeUnit::of(high);
    let mut delays: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    delays.sort_by(f64::total_cmp);
    let levels = [50.0, 99.0].map(|percent| at_percent(&delays, percent));
    let key = |(at, name): (usize, &str)| Key {
        mark: Mark::Dashed,
        color: if at == 0 {
            theme.ink()
        } else {
            theme.series(1)
        },
        text: format!("{name} {}", TimeUnit::of(levels[at]).text(levels[at])),
    };
    let rate = run.rate_per_s.map_or(String::new(), |rate| {
        format!(
            " against {} Requests per Second",
            grouped(&rate.to_string())
        )
    });
    let labels = Labels {
        title: format!("Dispatch Delay{rate}"),
        subtitle: run.subtitle(pairs.len(), "requests"),
        x: "Due after the first request (s)".into(),
        y: format!("Start after due ({})", unit.1),
        legend: [(0, "p50"), (1, "p99")].map(key).into(),
        ..Labels::default()
    };
    pairs.iter_mut().for_each(|pair| pair.1 *= unit.0);
    let x = Scale::linear(0.0, last, false);
    let y = Scale::fitting(low * unit.0, high * unit.0);
    let lines = labels.legend.clone();
    let mut frame = draw(std::slice::from_ref(run), &[pairs], labels, (x, y), theme);
    for (level, key) in levels.iter().zip(lines) {
        let level = level * unit.0;
        frame.line(&[(0.0, level), (f64::MAX, level)], key.color, 1.5, true);
    }
    Ok(frame.finish())
}
