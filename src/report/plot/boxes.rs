//! Box plots, lying: one run with all its requests below the box, or several below each other.

use super::data::{PlotRun, at_percent, range, subtitle};
use super::frame::{Frame, Key, Labels, Mark, Rows, Theme};
use super::scale::{Scale, TimeUnit, grouped};
use super::scene::{Anchor, Point, Scene};

/// Requests that are shown as dots.
const DOTS_MAX: usize = 3_000;
/// Those of each of several runs.
const OUTLIERS_MAX: usize = 100;

/// Time to the first token.
pub fn first_token(runs: &[PlotRun], theme: Theme) -> Result<Scene, String> {
    let what = ("Time to First Token", "time_to_first_token");
    of(runs, what, theme)
}

/// Latency of whole answers.
pub fn latency(runs: &[PlotRun], theme: Theme) -> Result<Scene, String> {
    let what = ("Request Latency", "request_latency");
    of(runs, what, theme)
}

fn of(runs: &[PlotRun], (title, tag): (&str, &str), theme: Theme) -> Result<Scene, String> {
    let values: Vec<Vec<f64>> = runs.iter().map(|run| run.values(tag)).collect();
    let ends = values
        .iter()
        .flat_map(|own| own.first().into_iter().chain(own.last()));
    let (low, high) = range(ends.copied()).ok_or("no good request has one")?;
    let unit = TimeUnit::of(high);
    let count: usize = values.iter().map(Vec::len).sum();
    let is_alone = runs.len() == 1;
    let shown = if is_alone { DOTS_MAX } else { OUTLIERS_MAX };
    let foot = match (is_alone, count > shown) {
        (true, true) => format!(
            "Whiskers: furthest request within 1.5 boxes. {} of {} requests are shown as dots.",
            grouped(&shown.to_string()),
            grouped(&count.to_string()),
        ),
        (true, false) => "Whiskers: furthest request within 1.5 boxes.".into(),
        (false, _) => format!(
            "Whiskers: furthest request within 1.5 boxes; beyond them {shown} dots a run at most."
        ),
    };
    let color = theme.series(0);
    let key = |mark, color, text: &str| Key {
        mark,
        color,
        text: text.into(),
    };
    let labels = Labels {
        title: title.into(),
        subtitle: subtitle(runs, count, "requests"),
        x: format!("{title} ({})", unit.1),
        foot,
        legend: vec![
            key(Mark::Field, color.with_alpha(110), "p25 to p75"),
            key(Mark::Line, theme.ink(), "median"),
            key(Mark::Diamond, theme.series(1), "p99"),
            key(Mark::Dot, color, "a request"),
        ],
        ..Labels::default()
    };
    let x = Scale::fitting(low * unit.0, high * unit.0);
    let names = runs.iter().map(|run| match is_alone {
        true => String::new(),
        false => run.name.clone(),
    });
    let right = if is_alone { 0.0 } else { 150.0 };
    let mut frame = Frame::with_rows(&labels, x, &Rows(names.collect()), theme, right);
    for (at, own) in values.iter().enumerate() {
        let at = super::float_len(at);
        if own.is_empty() {
            beside(&mut frame, at, "no request has one");
        } else if is_alone {
            alone(&mut frame, own, unit);
        } else {
            let fence = draw(&mut frame, own, unit, (at + 0.5, 0.28));
            let out: Vec<f64> = own
                .iter()
                .copied()
                .filter(|v| *v < fence.0 || *v > fence.1)
                .collect();
            dots(&mut frame, &out, unit, OUTLIERS_MAX, (at + 0.5, 0.0));
            let [p50, p99] = [50.0, 99.0].map(|p| unit.number(at_percent(own, p)));
            beside(&mut frame, at, &format!("p50 {p50} · p99 {p99} {}", unit.1));
        }
    }
    Ok(frame.finish())
}

fn beside(frame: &mut Frame, row: f64, text: &str) {
    let at = (frame.sides()[1] + 10.0, frame.row(row + 0.5) + 4.0);
    frame.text(at, text, 12.0, Anchor::Start);
}

/// The box above, a strip of requests below, figures between title and box.
fn alone(frame: &mut Frame, own: &[f64], unit: TimeUnit) {
    draw(frame, own, unit, (0.34, 0.12));
    dots(frame, own, unit, DOTS_MAX, (0.74, 0.2));
    let figures = [0.0, 50.0, 90.0, 95.0, 99.0, 100.0];
    let names = ["min", "p50", "p90", "p95", "p99", "max"];
    let figures = names.iter().zip(figures);
    let text = |(name, p): (&&str, f64)| {
        let ms = at_percent(own, p);
        // Over decades one unit would leave 0.000 of the least.
        let unit = if frame.x().is_log() {
            TimeUnit::of(ms)
        } else {
            unit
        };
        format!("{name} {}", unit.text(ms))
    };
    let text = figures.map(text).collect::<Vec<_>>().join("  ·  ");
    let [left, right, top, _] = frame.sides();
    let at = ((left + right) / 2.0, top + 22.0);
    frame.text(at, &text, 12.0, Anchor::Middle);
}

/// A box around a row; gives the ends of its whiskers.
fn draw(frame: &mut Frame, own: &[f64], unit: TimeUnit, (row, half): Point) -> (f64, f64) {
    let [p25, p50, p75, p99] = [25.0, 50.0, 75.0, 99.0].map(|p| at_percent(own, p));
    let reach = 1.5 * (p75 - p25);
    let low = own
        .iter()
        .find(|v| **v >= p25 - reach)
        .copied()
        .unwrap_or(p25);
    let high = own
        .iter()
        .rfind(|v| **v <= p75 + reach)
        .copied()
        .unwrap_or(p75);
    let (theme, x) = (frame.theme(), |ms: f64| ms * unit.0);
    let color = theme.series(0);
    for (from, to) in [(low, p25), (p75, high)] {
        frame.line(&[(x(from), row), (x(to), row)], color, 1.5, false);
    }
    for end in [low, high] {
        let ends = [(x(end), row - half / 2.0), (x(end), row + half / 2.0)];
        frame.line(&ends, color, 1.5, false);
    }
    let corners = |from: f64, to: f64| {
        let (above, below) = (row - half, row + half);
        [
            (x(from), above),
            (x(to), above),
            (x(to), below),
            (x(from), below),
            (x(from), above),
        ]
    };
    frame.area(&corners(p25, p75), color.with_alpha(110));
    frame.line(&corners(p25, p75), color, 1.5, false);
    frame.line(
        &[(x(p50), row - half), (x(p50), row + half)],
        theme.ink(),
        2.5,
        false,
    );
    let place = frame.place((x(p99), row));
    frame.mark(place, Mark::Diamond, theme.series(1));
    (low, high)
}

/// Requests as dots about a row: of rising values so many, from the least to the largest.
fn dots(frame: &mut Frame, own: &[f64], unit: TimeUnit, most: usize, (row, spread): Point) {
    let Some(last) = own.len().checked_sub(1) else {
        return;
    };
    let count = own.len().min(most);
    let dot = |at: usize| {
        let value = own[at * last / (count - 1).max(1)];
        // Steps of the golden ratio fill a strip evenly, and the same each time.
        let share = (super::float_len(at) * 0.618_033_988_75).fract();
        (value * unit.0, row + spread * (2.0 * share - 1.0))
    };
    let dots: Vec<Point> = (0..count).map(dot).collect();
    let alpha = match count {
        0..200 => 170,
        200..1_000 => 130,
        _ => 90,
    };
    let color = frame.theme().series(0).with_alpha(alpha);
    frame.dots(&dots, 2.2, color);
}
