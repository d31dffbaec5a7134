//! How many in each cell, as colours.

use super::data::{Pairs, PlotRun, range};
use super::frame::{Frame, Labels, Theme};
use super::histogram::Bins;
use super::scale::Scale;
use super::scene::{Anchor, Scene, Shape};

/// Room at the right for what the colours mean, in pixels.
pub(super) const BAR_ROOM: f64 = 82.0;
/// From this count on colours go by the logarithm, so that rare cells can be seen.
const LOG_FROM: usize = 100;

/// Input lengths against output lengths.
pub fn lengths(run: &PlotRun, theme: Theme) -> Result<Scene, String> {
    let pairs = run.pairs("input_sequence_length", "output_sequence_length");
    let nothing = "no good request has both lengths";
    let (low, high) = range(pairs.iter().map(|pair| pair.0)).ok_or(nothing)?;
    let (columns, x) = Bins::lengths(low, high, 44);
    let (low, high) = range(pairs.iter().map(|pair| pair.1)).ok_or(nothing)?;
    let (rows, y) = Bins::lengths(low, high, 26);
    let labels = Labels {
        title: "Distribution of Input to Output Sequence Lengths".into(),
        subtitle: run.subtitle(pairs.len(), "requests"),
        x: "Input Sequence Length (tokens)".into(),
        y: "Output Sequence Length (tokens)".into(),
        ..Labels::default()
    };
    let mut frame = Frame::new(&labels, (x, y), theme, BAR_ROOM);
    cells(&mut frame, &pairs, (&columns, &rows));
    Ok(frame.finish())
}

/// Draws how many pairs are in each cell, and what the colours mean.
pub(super) fn cells(frame: &mut Frame, pairs: &Pairs, (columns, rows): (&Bins, &Bins)) {
    let mut counts = vec![0usize; columns.len() * rows.len()];
    for (x, y) in pairs {
        counts[rows.of(*y) * columns.len() + columns.of(*x)] += 1;
    }
    let most = counts.iter().max().copied().unwrap_or(0);
    for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (from, to) = columns.edges(at % columns.len());
        let (low, high) = rows.edges(at / columns.len());
        let (left, top) = frame.place((from, high));
        let (right, bottom) = frame.place((to, low));
        let fill = frame.theme().heat(share(*count, most));
        // On whole pixels cells have no seams.
        let [left, right, top, bottom] = [left, right, top, bottom].map(f64::round);
        let size = ((right - left).max(1.0), (bottom - top).max(1.0));
        frame.push(Shape::Rect((left, top), size, fill));
    }
    bar(frame, most);
}

fn is_log(most: usize) -> bool {
    most >= LOG_FROM
}

fn share(count: usize, most: usize) -> f64 {
    let (count, most) = (super::float_len(count), super::float_len(most.max(1)));
    match most >= super::float_len(LOG_FROM) {
        true => count.ln() / most.ln(),
        false if most <= 1.0 => 1.0,
        false => (count - 1.0) / (most - 1.0),
    }
}

/// The bar of colours from 1 to the largest count.
fn bar(frame: &mut Frame, most: usize) {
    let [_, right, top, bottom] = frame.sides();
    let (left, steps) = (right + 18.0, 64);
    let height = (bottom - top) / f64::from(steps);
    for step in 0..steps {
        let fill = frame.theme().heat(f64::from(step) / f64::from(steps - 1));
        let [high, low] = [step + 1, step].map(|n| (bottom - f64::from(n) * height).round());
        frame.push(Shape::Rect((left, high), (14.0, low - high), fill));
    }
    let last = super::float_len(most.max(1));
    let scale = match is_log(most) {
        true => Scale::log(1.0, last),
        false => Scale::linear(1.0, last, true),
    };
    let inner: Vec<(f64, String)> = scale.ticks().to_vec();
    let ends = [1.0, last].map(|v| (v, super::scale::grouped(&format!("{v}"))));
    // Both ends, and what is between them with room.
    let place = |value: f64| bottom - share(value.round() as usize, most) * (bottom - top);
    let is_apart = |value: f64| {
        ends.iter()
            .all(|(end, _)| (place(*end) - place(value)).abs() > 16.0)
    };
    let inner = inner
        .into_iter()
        .filter(|(value, _)| *value > 1.0 && *value < last && is_apart(*value));
    let ends = ends.iter().skip(usize::from(most <= 1)).cloned();
    for (value, text) in inner.chain(ends).collect::<Vec<_>>() {
        let y = place(value).clamp(top + 8.0, bottom) + if value >= last { 2.0 } else { 3.0 };
        frame.text((left + 20.0, y), &text, 11.0, Anchor::Start);
    }
    let of = if is_log(most) { "count (log)" } else { "count" };
    frame.text((left - 4.0, top - 8.0), of, 11.0, Anchor::Start);
}
