//! What is drawn of a run: its requests as columns, and the gaps of its answers by their places.

use super::font::Font;
use super::scale::{VALUE_MAX, grouped};
use crate::stats::Columns;
use crate::stats::distribution::percentile;

/// Gaps that are held; of more, every second answer is left out again and again.
const GAPS_MAX: usize = 4_000_000;

/// A run to be drawn.
#[derive(Clone, Debug, Default)]
pub struct PlotRun {
    /// What it is called.
    pub name: String,
    /// Model and load, in short.
    pub detail: String,
    /// Requests per second that were asked for; of an open loop.
    pub rate_per_s: Option<f64>,
    /// Its requests.
    pub columns: Columns,
    /// Gaps between the tokens of its answers.
    pub gaps: Gaps,
}

/// Values of two metrics of the same request.
pub(super) type Pairs = Vec<(f64, f64)>;

fn is_usable(value: f64) -> bool {
    (0.0..=VALUE_MAX).contains(&value)
}

impl PlotRun {
    /// Does any request have a first token?
    pub(super) fn has_first_tokens(&self) -> bool {
        !self.values("time_to_first_token").is_empty()
    }

    /// The values of a metric of good requests, rising.
    pub(super) fn values(&self, tag: &str) -> Vec<f64> {
        let column = self.columns.get(tag).unwrap_or_default();
        let good = column.iter().zip(self.columns.is_valid());
        let good = good.filter(|(_, is_valid)| **is_valid);
        let mut values: Vec<f64> = good.map(|(v, _)| *v).filter(|v| is_usable(*v)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The values of two metrics of good requests that have both, in the order of recording.
    pub(super) fn pairs(&self, x: &str, y: &str) -> Pairs {
        let [x, y] = [x, y].map(|tag| self.columns.get(tag).unwrap_or_default());
        let both = x.iter().copied().zip(y.iter().copied());
        both.zip(self.columns.is_valid())
            .filter(|((x, y), is_valid)| **is_valid && is_usable(*x) && is_usable(*y))
            .map(|(pair, _)| pair)
            .collect()
    }

    /// When requests were due, in seconds after the first was, and how many ms after that each
    /// began.
    pub(super) fn delays(&self) -> Pairs {
        let delays = self.columns.get("credit_to_start_latency");
        let starts = self.columns.start_ns();
        // Of a run of any length a second is far below what f64 holds.
        let ms = |ns: u64| super::float(ns) / 1e6;
        let first = starts.iter().copied().min().unwrap_or(0);
        let both = starts.iter().zip(delays.unwrap_or_default());
        let due = both.filter(|(_, delay)| is_usable(**delay));
        let due = due.map(|(start, delay)| (ms(start - first) - delay, *delay));
        let due: Pairs = due.collect();
        let begin = due.iter().map(|(at, _)| *at).fold(f64::MAX, f64::min);
        due.iter()
            .map(|(at, delay)| ((at - begin) / 1e3, *delay))
            .collect()
    }

    /// The line under the title: name, detail, how many.
    pub(super) fn subtitle(&self, count: usize, of: &str) -> String {
        // The count is last and never cut off: both names have their room.
        let font = Font::new(false);
        let parts = [(&self.name, 240.0), (&self.detail, 290.0)];
        let parts = parts.into_iter().filter(|(part, _)| !part.is_empty());
        let parts = parts.map(|(part, room)| font.fitted(part, 12.0, room));
        parts
            .chain([counted(count, of)])
            .collect::<Vec<_>>()
            .join(" · ")
    }
}

/// The line under the title of several runs.
pub(super) fn subtitle(runs: &[PlotRun], count: usize, of: &str) -> String {
    match runs {
        [run] => run.subtitle(count, of),
        _ => format!("{} runs · {}", runs.len(), counted(count, of)),
    }
}

/// `n = 1,000 requests`.
fn counted(count: usize, of: &str) -> String {
    let of = if count == 1 {
        of.trim_end_matches('s')
    } else {
        of
    };
    format!("n = {} {of}", grouped(&count.to_string()))
}

/// The percentile of rising values; 0 without any.
pub(super) fn at_percent(sorted: &[f64], percent: f64) -> f64 {
    percentile(sorted, percent).unwrap_or(0.0)
}

/// Least and largest of all; `None` without any.
pub(super) fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let wider = |range: Option<(f64, f64)>, value: f64| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    };
    values.fold(None, wider)
}

/// Gaps between the tokens of answers, with the places of the tokens that end them.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// Place of the token, from 1 for the first of an answer, and ms since the one before.
    points: Vec<(f32, f32)>,
    /// Answers so far, and the share of them that is kept: every n-th.
    answers: usize,
    every: usize,
    limit: usize,
    tokens: u64,
    chunks: u64,
}

impl Default for Gaps {
    fn default() -> Gaps {
        Gaps::with_limit(GAPS_MAX)
    }
}

impl Gaps {
    fn with_limit(limit: usize) -> Gaps {
        Gaps {
            points: Vec::new(),
            answers: 0,
            every: 1,
            limit,
            tokens: 0,
            chunks: 0,
        }
    }

    /// Adds the gaps between an answer's chunks, in ms, and its tokens where they are counted. A
    /// chunk of several tokens counts as the mean of its answer: so many steps of a share of the
    /// gap.
    pub fn push(&mut self, gaps_ms: &[f64], tokens: Option<f64>) {
        let number = self.answers;
        self.answers += 1;
        if gaps_ms.is_empty() || !number.is_multiple_of(self.every) {
            return;
        }
        let chunks = super::float_len(gaps_ms.len() + 1);
        let counted = tokens.filter(|tokens| (1.0..=VALUE_MAX).contains(tokens));
        // Fewer tokens than chunks: some chunk held a part of one.
        let per_chunk = counted.map_or(1.0, |tokens| (tokens / chunks).max(1.0));
        self.tokens += (per_chunk * chunks).round() as u64;
        self.chunks += gaps_ms.len() as u64 + 1;
        for (at, gap) in gaps_ms
            .iter()
            .enumerate()
            .filter(|(_, gap)| is_usable(**gap))
        {
            let place = 1.0 + super::float_len(at + 1) * per_chunk;
            // A plot has three digits.
            self.points.push((place as f32, (gap / per_chunk) as f32));
        }
        while self.points.len() > self.limit && self.every < 1 << 20 {
            self.thin();
        }
    }

    /// Leaves out every second answer: those begin where the place does not rise.
    fn thin(&mut self) {
        self.every *= 2;
        let (mut answer, mut last) = (0usize, f32::MAX);
        self.points.retain(|(place, _)| {
            answer += usize::from(*place <= last);
            last = *place;
            answer % 2 == 1
        });
    }

    /// Place and ms of each gap that is kept.
    pub(super) fn points(&self) -> &[(f32, f32)] {
        &self.points
    }

    /// Of how many answers one is kept.
    pub(super) fn every(&self) -> usize {
        self.every
    }

    /// Tokens per chunk, 1 or more.
    pub(super) fn tokens_per_chunk(&self) -> f64 {
        super::float(self.tokens) / super::float(self.chunks.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_several_tokens_are_spread_over_their_places() {
        let mut gaps = Gaps::default();
        gaps.push(&[10.0, 20.0], Some(3.0));
        gaps.push(&[10.0, f64::NAN, -1.0, 1e300], Some(10.0));
        gaps.push(&[], Some(5.0));
        assert_eq!(gaps.points(), [(2.0, 10.0), (3.0, 20.0), (3.0, 5.0)]);
        assert!((gaps.tokens_per_chunk() - 13.0 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn of_too_many_gaps_every_second_answer_is_left_out() {
        let mut gaps = Gaps::with_limit(40);
        for answer in 0..64 {
            gaps.push(&[f64::from(answer); 4], None);
        }
        assert_eq!(gaps.every(), 8);
        let first: Vec<f32> = gaps.points().iter().step_by(4).map(|p| p.1).collect();
        assert_eq!(first, [0.0, 8.0, 16.0, 24.0, 32.0, 40.0, 48.0, 56.0]);
    }

    #[test]
    fn no_values_have_no_range() {
        assert_eq!(range([].into_iter()), None);
        assert_eq!(range([3.0, 1.0].into_iter()), Some((1.0, 3.0)));
    }
}
