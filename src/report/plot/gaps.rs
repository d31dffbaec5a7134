//! The gap before each token against its place in the answer: dots of a few answers, of many the
//! band that most lie in.

use super::data::{Gaps, PlotRun, at_percent, range};
use super::frame::{Frame, Key, Labels, Mark, Theme};
use super::histogram::Bins;
use super::scale::{Scale, TimeUnit, grouped};
use super::scatter::keys;
use super::scene::{Point, Scene};

/// Gaps of one run that are drawn as dots.
const DOTS_MAX: usize = 1_500;
/// Places of tokens that are told apart, and gaps that one has on the mean.
const PLACES_MAX: usize = 80;
const GAPS_OF_PLACE: usize = 100;
/// A band of fewer gaps says nothing, nor a p99 of fewer.
const BAND_MIN: usize = 10;
const P99_MIN: usize = 50;
/// Percentiles of a band: its edges, the inner ones, the middle, and far above.
const PERCENTS: [f64; 6] = [5.0, 25.0, 50.0, 75.0, 95.0, 99.0];

/// Token-to-token latency against the place of the token.
pub fn positions(runs: &[PlotRun], theme: Theme) -> Result<Scene, String> {
    let all = || runs.iter().flat_map(|run| run.gaps.points());
    let nothing = "no gaps between tokens were recorded (they are in profile_export.jsonl)";
    let sparse = "too few gaps at each position";
    let (_, last) = range(all().map(|point| f64::from(point.0))).ok_or(nothing)?;
    let count = all().count();
    let places = (count / GAPS_OF_PLACE).clamp(8, PLACES_MAX);
    let bins = Bins::whole(2.0, last.ceil(), places);
    let bands: Vec<Vec<Band>> = runs.iter().map(|run| Band::all(&run.gaps, &bins)).collect();
    let is_alone = runs.len() == 1;
    let is_few = is_alone && count <= DOTS_MAX;
    let is_short = |band: &Band| !is_few && band.count < BAND_MIN;
    let has_short = bands.iter().flatten().any(is_short);
    let shown = |band: &Band| match (is_few, is_alone) {
        (true, _) => [band.least, band.most],
        (false, true) => [band.percents[0], band.percents[5]],
        (false, false) => [band.percents[0], band.percents[4]],
    };
    let ends = bands
        .iter()
        .flatten()
        .filter(|band| !is_short(band))
        .flat_map(shown);
    let (low, high) = range(ends).ok_or(sparse)?;
    let unit = TimeUnit::of(high);
    let y = Scale::fitting(low * unit.0, high * unit.0);
    let (from, to) = (bins.edges(0).0, bins.edges(bins.len() - 1).1);
    let x = match bins.len() {
        1 => Scale::linear(2.0, last.max(3.0), true),
        _ => Scale::linear(from.max(0.0), to, true),
    };
    let largest = bands
        .iter()
        .flatten()
        .map(|band| band.most)
        .fold(0.0, f64::max);
    let labels = Labels {
        title: "Token-to-Token Latency vs Output Token Position".into(),
        subtitle: super::data::subtitle(runs, count, "gaps"),
        x: "Output Token Position".into(),
        y: format!("Token-to-Token Latency ({})", unit.1),
        foot: foot(runs, (&bins, is_few, has_short), unit.text(largest)),
        legend: legend(runs, is_few, theme),
    };
    let mut frame = Frame::new(&labels, (x, y), theme, 0.0);
    for (at, own) in bands.iter().enumerate() {
        match is_few {
            true => dots(&mut frame, &runs[at].gaps, unit),
            false => band(&mut frame, own, (at, is_alone), unit),
        }
    }
    Ok(frame.finish())
}

fn legend(runs: &[PlotRun], is_few: bool, theme: Theme) -> Vec<Key> {
    let color = theme.series(0);
    let key = |mark, color, text: &str| Key {
        mark,
        color,
        text: text.into(),
    };
    match runs {
        [_] if is_few => vec![key(Mark::Dot, color, "a gap")],
        [_] => vec![
            key(Mark::Line, color, "median"),
            key(Mark::Field, color.with_alpha(120), "p25 to p75"),
            key(Mark::Field, color.with_alpha(50), "p5 to p95"),
            key(Mark::Dashed, theme.series(1), "p99"),
        ],
        _ => keys(runs, theme),
    }
}

/// What a reader must know: what is drawn, what is beyond, what is left out.
fn foot(
    runs: &[PlotRun],
    (bins, is_few, has_short): (&Bins, bool, bool),
    largest: String,
) -> String {
    let mut parts = vec![format!("Largest gap {largest}.")];
    let (from, to) = bins.edges(0);
    if to - from > 1.0 && !is_few {
        parts.push(format!(
            "{} positions a step.",
            grouped(&(to - from).to_string())
        ));
    }
    if has_short {
        parts.push(format!("Steps of fewer than {BAND_MIN} gaps are left out."));
    }
    if runs.len() > 1 {
        parts.push("Lines: medians; bands: p5 to p95.".into());
    }
    let every = runs.iter().map(|run| run.gaps.every()).max().unwrap_or(1);
    if every > 1 {
        parts.push(format!("1 answer in {every} is drawn."));
    }
    let tokens = runs
        .iter()
        .map(|run| run.gaps.tokens_per_chunk())
        .fold(1.0, f64::max);
    if tokens > 1.005 {
        parts.push(format!(
            "{tokens:.2} tokens came at a time: gaps are shared among them."
        ));
    }
    parts.join(" ")
}

fn dots(frame: &mut Frame, gaps: &Gaps, unit: TimeUnit) {
    let place = |(place, ms): &(f32, f32)| (f64::from(*place), f64::from(*ms) * unit.0);
    let points: Vec<Point> = gaps.points().iter().map(place).collect();
    let color = frame.theme().series(0).with_alpha(120);
    frame.dots(&points, 2.4, color);
}

/// The gaps before tokens of some places.
struct Band {
    /// First and last of the places, half a place beyond.
    ends: (f64, f64),
    percents: [f64; 6],
    count: usize,
    least: f64,
    most: f64,
}

impl Band {
    fn all(gaps: &Gaps, bins: &Bins) -> Vec<Band> {
        let mut values: Vec<Vec<f64>> = vec![Vec::new(); bins.len()];
        for (place, ms) in gaps.points() {
            values[bins.of(f64::from(*place))].push(f64::from(*ms));
        }
        let band = |(at, mut own): (usize, Vec<f64>)| {
            own.sort_by(f64::total_cmp);
            Some(Band {
                ends: bins.edges(at),
                count: own.len(),
                percents: PERCENTS.map(|percent| at_percent(&own, percent)),
                least: *own.first()?,
                most: *own.last()?,
            })
        };
        values.into_iter().enumerate().filter_map(band).collect()
    }
}

fn band(frame: &mut Frame, bands: &[Band], (at, is_alone): (usize, bool), unit: TimeUnit) {
    let (theme, color) = (frame.theme(), frame.theme().series(at));
    let line = |which: usize| -> Vec<Point> {
        let least = if which == 5 { P99_MIN } else { BAND_MIN };
        let bands: Vec<&Band> = bands.iter().filter(|band| band.count >= least).collect();
        let middle = |band: &&Band| (band.ends.0 + band.ends.1) / 2.0;
        let inner = bands
            .iter()
            .map(|band| (middle(band), band.percents[which] * unit.0));
        // To the outer edges, so that one place alone has a width.
        let (first, last) = (bands.first(), bands.last());
        let first = first.map(|band| (band.ends.0, band.percents[which] * unit.0));
        let last = last.map(|band| (band.ends.1, band.percents[which] * unit.0));
        first.into_iter().chain(inner).chain(last).collect()
    };
    let mut field = |low: usize, high: usize, alpha: u8| {
        let mut around = line(low);
        around.extend(line(high).into_iter().rev());
        frame.area(&around, color.with_alpha(alpha));
    };
    field(0, 4, 50);
    if is_alone {
        field(1, 3, 90);
        frame.line(&line(5), theme.series(1), 1.5, true);
    }
    frame.line(&line(2), color, 2.0, false);
}
