//! Histograms: lengths of one run as bars, those of several over each other.

use super::data::{PlotRun, at_percent, range, subtitle};
use super::font::Font;
use super::frame::{Frame, Key, Labels, Mark, Theme};
use super::scale::{DECADES_FROM, Scale, TimeUnit, VALUE_MAX, grouped};
use super::scene::{Point, Scene};

/// Bars.
const BINS: usize = 40;

/// Edges of bins.
pub(super) struct Bins(Vec<f64>);

impl Bins {
    /// Of whole numbers from `low` to `high`, each bin as many of them; an edge lies between two.
    pub(super) fn whole(low: f64, high: f64, most: usize) -> Bins {
        let count = (high.floor() - low.floor() + 1.0).max(1.0);
        let width = (count / super::float_len(most)).ceil().max(1.0);
        let bins = (count / width).ceil().min(super::float_len(most)) as usize;
        let edge = |at| low.floor() - 0.5 + super::float_len(at) * width;
        Bins((0..=bins).map(edge).collect())
    }

    /// Equally wide on an axis.
    pub(super) fn of_scale(scale: &Scale, count: usize) -> Bins {
        let edge = |at| scale.value(super::float_len(at) / super::float_len(count));
        Bins((0..=count).map(edge).collect())
    }

    /// Lengths: whole numbers, by decades where they spread over some.
    pub(super) fn lengths(low: f64, high: f64, most: usize) -> (Bins, Scale) {
        if low >= 1.0 && high / low >= DECADES_FROM {
            let scale = Scale::log(low, high);
            return (Bins::of_scale(&scale, most), scale);
        }
        let bins = Bins::whole(low, high, most);
        let (from, to) = bins.ends();
        let scale = match bins.0.len() {
            // One value: some room on both sides.
            2 => Scale::linear((low - 4.0).max(0.0), high + 4.0, true),
            _ => Scale::linear(from.max(0.0), to, true),
        };
        (bins, scale)
    }

    fn ends(&self) -> (f64, f64) {
        let end = |edge: Option<&f64>| edge.copied().unwrap_or(0.0);
        (end(self.0.first()), end(self.0.last()))
    }

    /// Number of bins.
    pub(super) fn len(&self) -> usize {
        self.0.len().saturating_sub(1)
    }

    /// The bin of a value; the nearest for one beyond.
    pub(super) fn of(&self, value: f64) -> usize {
        let at = self.0.partition_point(|edge| *edge <= value);
        at.saturating_sub(1).min(self.len().saturating_sub(1))
    }

    /// Both edges of a bin.
    pub(super) fn edges(&self, at: usize) -> (f64, f64) {
        (self.0[at], self.0[at + 1])
    }

    fn count(&self, values: impl Iterator<Item = f64>) -> Vec<usize> {
        let mut counts = vec![0; self.len()];
        values.for_each(|value| counts[self.of(value)] += 1);
        counts
    }
}

/// Lengths of the prompts.
pub fn inputs(runs: &[PlotRun], theme: Theme) -> Result<Scene, String> {
    let values: Vec<Vec<f64>> = runs
        .iter()
        .map(|run| run.values("input_sequence_length"))
        .collect();
    let (low, high) = ends(&values).ok_or("no good request has an input length")?;
    let (bins, x) = Bins::lengths(low, high, BINS);
    let labels = Labels {
        title: "Input Sequence Lengths".into(),
        x: "Input Sequence Length (tokens)".into(),
        foot: "Broken line: mean.".into(),
        ..Labels::default()
    };
    let told = |own: &[f64]| {
        let mean = own.iter().sum::<f64>() / super::float_len(own.len().max(1));
        (mean, format!("mean {}", grouped(&format!("{mean:.1}"))))
    };
    of(runs, &values, labels, (&bins, x), theme, &told)
}

/// Time to the first token.
pub fn first_token(runs: &[PlotRun], theme: Theme) -> Result<Scene, String> {
    times(runs, ("Time to First Token", "time_to_first_token"), theme)
}

/// Latency of whole answers.
pub fn latency(runs: &[PlotRun], theme: Theme) -> Result<Scene, String> {
    times(runs, ("Request Latency", "request_latency"), theme)
}

fn times(runs: &[PlotRun], (title, tag): (&str, &str), theme: Theme) -> Result<Scene, String> {
    let mut values: Vec<Vec<f64>> = runs.iter().map(|run| run.values(tag)).collect();
    let (_, high) = ends(&values).ok_or("no good request has one")?;
    let unit = TimeUnit::of(high);
    values
        .iter_mut()
        .flatten()
        .for_each(|value| *value *= unit.0);
    let (low, high) = ends(&values).unwrap_or((0.0, VALUE_MAX));
    let x = Scale::fitting(low, high);
    let bins = Bins::of_scale(&x, 60);
    let labels = Labels {
        title: format!("{title} of {} Runs", runs.len()),
        x: format!("{title} ({})", unit.1),
        foot: "Broken lines: medians.".into(),
        ..Labels::default()
    };
    let told = |own: &[f64]| {
        let median = at_percent(own, 50.0);
        let shown = TimeUnit(1.0, unit.1).text(median);
        (median, format!("p50 {shown}"))
    };
    of(runs, &values, labels, (&bins, x), theme, &told)
}

fn ends(values: &[Vec<f64>]) -> Option<(f64, f64)> {
    range(
        values
            .iter()
            .flat_map(|own| own.first().into_iter().chain(own.last()))
            .copied(),
    )
}

/// What is said of a run's values: where its broken line stands, and the words in the legend.
type Told<'a> = &'a dyn Fn(&[f64]) -> (f64, String);

fn of(
    runs: &[PlotRun],
    values: &[Vec<f64>],
    labels: Labels,
    (bins, x): (&Bins, Scale),
    theme: Theme,
    told: Told<'_>,
) -> Result<Scene, String> {
    let is_alone = runs.len() == 1;
    let total = values.iter().map(Vec::len).sum();
    let heights = heights(values, bins);
    let highest = heights.iter().flatten().copied().fold(0.0, f64::max);
    let labels = Labels {
        subtitle: subtitle(runs, total, "requests"),
        y: if is_alone {
            "Requests"
        } else {
            "Share of a run's requests (%)"
        }
        .into(),
        legend: legend(runs, values, theme, told),
        ..labels
    };
    let y = Scale::linear(0.0, highest, is_alone);
    let mut frame = Frame::new(&labels, (x, y), theme, 0.0);
    for (at, heights) in heights
        .iter()
        .enumerate()
        .filter(|(at, _)| !values[*at].is_empty())
    {
        let color = theme.series(at);
        match is_alone {
            true => bars(&mut frame, bins, heights),
            false => {
                let outline = outline(bins, heights);
                frame.area(&outline, color.with_alpha(70));
                frame.line(&outline[1..outline.len() - 1], color, 1.5, false);
            }
        }
        let (value, _) = told(&values[at]);
        let line = if is_alone { theme.ink() } else { color };
        frame.line(&[(value, 0.0), (value, highest)], line, 1.5, true);
    }
    Ok(frame.finish())
}

/// How many values each bin has; of several runs the share of each in percent, for runs of
/// different lengths are laid over each other.
fn heights(values: &[Vec<f64>], bins: &Bins) -> Vec<Vec<f64>> {
    let own = |own: &Vec<f64>| {
        let each = match values.len() {
            1 => 1.0,
            _ => 100.0 / super::float_len(own.len().max(1)),
        };
        let counts = bins.count(own.iter().copied());
        counts
            .iter()
            .map(|count| super::float_len(*count) * each)
            .collect()
    };
    values.iter().map(own).collect()
}

fn legend(runs: &[PlotRun], values: &[Vec<f64>], theme: Theme, told: Told<'_>) -> Vec<Key> {
    let font = Font::new(false);
    let is_alone = runs.len() == 1;
    // Three of them share a line; the name is cut rather than what is said.
    let room = 660.0 / super::float_len(runs.len().min(3)) - 46.0;
    let key = |(at, own): (usize, &Vec<f64>)| {
        let said = format!(", {}", told(own).1);
        let name = match is_alone {
            true => "requests".into(),
            false => font.fitted(&runs[at].name, 12.0, room - font.width(&said, 12.0)),
        };
        Key {
            mark: Mark::Field,
            color: theme
                .series(at)
                .with_alpha(if is_alone { 200 } else { 150 }),
            text: name + &said,
        }
    };
    values.iter().enumerate().map(key).collect()
}

fn bars(frame: &mut Frame, bins: &Bins, heights: &[f64]) {
    let color = frame.theme().series(0).with_alpha(200);
    for (at, height) in heights
        .iter()
        .enumerate()
        .filter(|(_, height)| **height > 0.0)
    {
        let (from, to) = bins.edges(at);
        let (left, top) = frame.place((from, *height));
        let (right, bottom) = frame.place((to, 0.0));
        let width = (right - left - 1.0).max(1.0);
        let shape = super::scene::Shape::Rect((left, top), (width, bottom - top), color);
        frame.push(shape);
    }
}

/// Steps over the bins that have something, down to 0 at both ends.
fn outline(bins: &Bins, heights: &[f64]) -> Vec<Point> {
    let has = |height: &f64| *height > 0.0;
    let first = heights.iter().position(has).unwrap_or(0);
    let last = heights.iter().rposition(has).unwrap_or(0);
    let mut points = vec![(bins.edges(first).0, 0.0)];
    for (at, height) in heights.iter().enumerate().take(last + 1).skip(first) {
        let (from, to) = bins.edges(at);
        points.extend([(from, *height), (to, *height)]);
    }
    points.push((bins.edges(last).1, 0.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_bin() {
        for (low, high) in [(1.0, 1.0), (0.0, 39.0), (3.0, 1_000.0), (0.0, 1e12)] {
            let bins = Bins::whole(low, high, 40);
            assert!(bins.len() <= 40 && bins.edges(0).0 <= low);
            assert!(bins.edges(bins.of(low)).0 <= low && bins.edges(bins.of(high)).1 >= high);
        }
        let (bins, scale) = Bins::lengths(1.0, 100_000.0, 40);
        assert!(scale.is_log());
        assert_eq!((bins.of(1.0), bins.of(100_000.0), bins.len()), (0, 39, 40));
        assert_eq!(
            Bins::whole(4.0, 9.0, 3).count([4.0, 5.0, 6.0, 9.0].into_iter()),
            [2, 1, 1]
        );
    }
}
