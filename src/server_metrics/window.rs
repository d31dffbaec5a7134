//! From what pages said over time to the figures of the measured window.

use super::collector::Seen;
use super::engines;
use super::history::{Column, History};
use super::units;
use crate::base::Ns;
use crate::stats::buckets::{Buckets, Learned};
use crate::stats::distribution::float_len;
use crate::stats::server::{
    CounterStats, Family, FamilyKind, HistogramStats, Series, SeriesStats, ServerReport, Slice,
    SliceValue,
};
use crate::stats::summary::Distribution;
use crate::stats::{Deviation, Track, series};
use std::collections::BTreeMap;

/// Slices of a series; a longer window has longer ones.
const SLICES_MAX: u64 = 600;

/// The measurement.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its first request was sent.
    pub from: Ns,
    /// Its last request ended.
    pub to: Ns,
    /// A warm-up went before: what was counted until the marked scrape is its.
    pub has_warmup: bool,
    /// Length of a slice, 1 s where nobody asks for another.
    pub slice: Option<Ns>,
}

/// A page over the window.
pub(super) struct View<'a> {
    pub(super) history: &'a History,
    pub(super) window: Window,
    /// Tick that counts begin at.
    pub(super) base: usize,
    /// The last tick.
    last: usize,
    /// The first tick after the window.
    after: usize,
    /// Ticks inside, the last excluded.
    pub(super) inside: (usize, usize),
}

/// Sums up what the pages said, and gives what the servers said over time by common names.
pub fn sum_up(seen: &[Seen], window: Window) -> (ServerReport, Vec<Track>) {
    let mut report = ServerReport {
        window: (window.from, window.to),
        ..ServerReport::default()
    };
    let mut tracks = Vec::new();
    let mut families: BTreeMap<(String, FamilyKind), Family> = BTreeMap::new();
    for (place, seen) in seen.iter().enumerate() {
        report.endpoints.push(seen.endpoint.clone());
        let Some(view) = View::new(&seen.history, window) else {
            continue;
        };
        for column in &seen.history.columns {
            let of = &seen.history.families[column.family];
            let Some((stats, slices)) = view.series(column, of.kind) else {
                continue;
            };
            let family = families
                .entry((of.name.clone(), of.kind))
                .or_insert_with(|| Family {
                    name: of.name.clone(),
                    kind: of.kind,
                    help: of.help.clone(),
                    unit: units::of(&of.name, &of.help),
                    series: Vec::new(),
                });
            family.series.push(Series {
                endpoint: place,
                labels: column.labels.clone(),
                stats,
                slices,
            });
        }
        let (rows, over_time) = engines::read(&view, &seen.endpoint);
        report.engines.extend(rows);
        tracks.extend(over_time);
    }
    report.families = families.into_values().collect();
    for family in &mut report.families {
        let order = |series: &Series| (series.endpoint, series.labels.clone());
        family.series.sort_by_cached_key(order);
    }
    (report, tracks)
}

impl<'a> View<'a> {
    /// `None` when nothing was read.
    pub(super) fn new(history: &'a History, window: Window) -> Option<View<'a>> {
        let last = history.times.len().checked_sub(1)?;
        let before = history.times.partition_point(|&at| at <= window.from);
        let before = before.checked_sub(1);
        let base = match history.mark {
            Some(mark) if window.has_warmup => Some(mark),
            mark => before.or(mark),
        };
        let inside = (
            history.times.partition_point(|&at| at < window.from),
            history.times.partition_point(|&at| at <= window.to),
        );
        Some(View {
            history,
            window,
            base: base.unwrap_or(0),
            last,
            after: history
                .times
                .partition_point(|&at| at < window.to)
                .min(last),
            inside,
        })
    }

    /// Seconds of the window, more than none.
    pub(super) fn seconds(&self) -> f64 {
        let length = self.window.to.saturating_since(self.window.from);
        length.as_secs().max(1e-9)
    }

    /// The row of what counts up at a tick, 0 before it has appeared.
    fn row(&self, column: &Column, tick: usize) -> Vec<f64> {
        let zero = || vec![0.0; column.width()];
        column.row(tick).map_or_else(zero, <[f64]>::to_vec)
    }

    /// Growth between two ticks.
    fn between(&self, column: &Column, from: usize, to: usize) -> Vec<f64> {
        let mut row = self.row(column, to);
        for (new, old) in row.iter_mut().zip(self.row(column, from)) {
            *new -= old;
        }
        row
    }

    /// The tick that ends the counting. Servers count late, and are read until they stand still;
    /// what does not stand still counts something else, and ends with the measurement.
    fn end(&self, column: &Column) -> usize {
        match column.last_change() {
            Some(tick) if tick == self.last => self.after,
            _ => self.last,
        }
    }

    /// Growth over the measurement; `None` when there is one page only.
    pub(super) fn growth(&self, column: &Column) -> Option<Vec<f64>> {
        let end = self.end(column);
        (self.base < end).then(|| self.between(column, self.base, end))
    }

    fn series(&self, column: &Column, kind: FamilyKind) -> Option<(SeriesStats, Vec<Slice>)> {
        if kind == FamilyKind::Gauge {
            return self.gauge(column);
        }
        let growth = self.growth(column)?;
        let slices = match growth.iter().any(|grown| *grown != 0.0) {
            true => self.slices(self.end(column), |ticks, (start, end)| {
                let grown = self.between(column, ticks.0, ticks.1);
                let seconds = end.saturating_since(start).as_secs();
                match (kind, grown.as_slice()) {
                    (FamilyKind::Counter, &[total, ..]) => {
                        Some(SliceValue::Counter([total, total / seconds]))
                    }
                    (_, [sum, counts @ .., count]) => Some(SliceValue::Histogram {
                        count: *count,
                        sum: *sum,
                        buckets: match counts.is_empty() {
                            true => Vec::new(),
                            false => grown[1..].to_vec(),
                        },
                    }),
                    _ => None,
                }
            }),
            false => Vec::new(),
        };
        let stats = match kind {
            FamilyKind::Counter => SeriesStats::Counter(self.counter(growth[0], &slices)),
            _ => SeriesStats::Histogram(self.histogram(column, &growth)?),
        };
        Some((stats, slices))
    }

    fn counter(&self, total: f64, slices: &[Slice]) -> CounterStats {
        let whole = slices.iter().filter(|slice| slice.is_complete);
        let rates: Vec<f64> = whole
            .filter_map(|slice| match slice.value {
                SliceValue::Counter([_, rate]) => Some(rate),
                _ => None,
            })
            .collect();
        // One that never moved has no slices, and the same rate in each.
        let rates = if total == 0.0 { vec![0.0] } else { rates };
        CounterStats {
            total,
            rate: total / self.seconds(),
            rates: spread(rates).map(|d| [d.avg, d.min, d.max, d.std]),
        }
    }

    pub(super) fn histogram(&self, column: &Column, growth: &[f64]) -> Option<HistogramStats> {
        let (&sum, counts) = growth.split_first()?;
        let count = *counts.last()?;
        let les = column.les.iter().cloned().chain(["+Inf".to_owned()]);
        let has_buckets = !column.les.is_empty();
        let percentiles = || {
            let mut learned = Learned::new(column.bounds.len());
            let mut before = self.row(column, self.base);
            for row in column.changes(self.base, self.end(column)) {
                let grown: Vec<f64> = row.iter().zip(&before).map(|(a, b)| a - b).collect();
                learned.push(&grown[1..], grown[0]);
                before = row.to_vec();
            }
            Buckets::new(&column.bounds, counts)?.estimated(sum, &learned)
        };
        Some(HistogramStats {
            count,
            sum,
            count_rate: count / self.seconds(),
            sum_rate: sum / self.seconds(),
            percentiles: percentiles(),
            buckets: match has_buckets {
                true => les.zip(counts.iter().copied()).collect(),
                false => Vec::new(),
            },
        })
    }

    fn gauge(&self, column: &Column) -> Option<(SeriesStats, Vec<Slice>)> {
        let (from, to) = self.inside;
        let values: Vec<f64> = column.values(from, to).flatten().collect();
        let stats = spread(values)?;
        let slices = match stats.min < stats.max {
            true => self.slices(self.last, |_, (start, end)| {
                // A value is of the slice that it was read in; the last has its own end too.
                let times = &self.history.times[..to];
                let first = times.partition_point(|&at| at < start);
                let next = times.partition_point(|&at| at < end || end == self.window.to);
                let d = spread(column.values(first, next).flatten().collect())?;
                Some(SliceValue::Gauge([d.avg, d.min, d.max]))
            }),
            false => Vec::new(),
        };
        Some((SeriesStats::Gauge(stats), slices))
    }

    /// Asks slice by slice for what lies between two ticks, or two times; the first begins at the
    /// base, the last goes to the `last` tick, so that together they have all that was counted.
    fn slices(
        &self,
        last: usize,
        value: impl Fn((usize, usize), (Ns, Ns)) -> Option<SliceValue>,
    ) -> Vec<Slice> {
        let Window { from, to, .. } = self.window;
        let length = to.saturating_since(from);
        let mut slice = self.window.slice.unwrap_or(Ns::from_ms(1_000)).0.max(1);
        while length.0 / slice > SLICES_MAX {
            slice *= 2;
        }
        let mut slices = Vec::new();
        let (mut start, mut tick) = (from, self.base);
        while start < to {
            let end = Ns(start.0 + slice);
            let next = match end < to {
                true => self.history.times.partition_point(|&at| at <= end),
                false => last + 1,
            };
            let next = next.saturating_sub(1).clamp(tick, last.max(tick));
            let cut = end.min(to);
            if let Some(value) = value((tick, next), (start, cut)) {
                slices.push(Slice {
                    start,
                    end: cut,
                    is_complete: end <= to,
                    value,
                });
            }
            (start, tick) = (cut, next);
        }
        slices
    }
}

/// With the sample deviation.
fn spread(mut values: Vec<f64>) -> Option<Distribution> {
    series::distribution_of(&mut values, Deviation::Sample)
}

/// Mean and largest of the values at the ticks inside.
pub(super) fn mean_and_max(values: &[f64]) -> Option<(f64, f64)> {
    let max = values.iter().copied().reduce(f64::max)?;
    Some((values.iter().sum::<f64>() / float_len(values.len()), max))
}
