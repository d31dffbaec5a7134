//! What a page has said over time: a column per series, and a row in it only when it changes.

use crate::base::Ns;
use crate::scrape::{Family as PageFamily, Kind, Page, Sample};
use crate::stats::server::FamilyKind;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Series of one page; more are counted and left out. A histogram is one. A large server with
/// several models has some thousands.
const SERIES_MAX: usize = 20_000;
/// Values kept of one page, 64 MiB of them. Beyond it every other scrape goes.
const CELLS_MAX: usize = 1 << 23;
/// Scrapes kept of one page: over an hour at 333 ms. Beyond it every other one goes.
const TICKS_MAX: usize = 1 << 14;

/// A name, with what it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Without `_total`.
    pub name: String,
    /// What it counts.
    pub kind: FamilyKind,
    /// The server's own words.
    pub help: String,
}

/// One set of labels of a family.
///
/// A row is one value of a gauge; the growth of a counter since the page's first scrape; or of a
/// histogram: the growth of its sum, of each cumulative bucket and of its count. Growth of a series
/// that appears later counts from 0, and what a restart takes away is not lost.
#[derive(Clone, Debug)]
pub struct Column {
    /// Place in [`History::families`].
    pub family: usize,
    /// By name, without `le`.
    pub labels: Vec<(String, String)>,
    /// Finite upper bounds of a histogram's buckets, ascending.
    pub bounds: Vec<f64>,
    /// As the server writes them.
    pub les: Vec<String>,
    /// Ticks at which the row changed, ascending.
    ticks: Vec<u32>,
    /// The rows of those ticks, one after the other.
    rows: Vec<f64>,
    /// The row as the server has it, of what counts up.
    raw: Vec<f64>,
    /// Ticks at which it was first and last there.
    seen: (u32, u32),
}

/// A page over time.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// When each scrape was taken, ascending: a tick is a place in it.
    pub times: Vec<Ns>,
    /// In the order in which they first appeared.
    pub families: Vec<Family>,
    /// The same.
    pub columns: Vec<Column>,
    /// The scrape at the measurement's begin.
    pub mark: Option<usize>,
    /// Pages on which a counter had fallen.
    pub resets: u64,
    /// Values that are no numbers.
    pub invalid_values: u64,
    /// The most series that were beyond the cap on one page.
    pub left_out: u64,
    names: FxHashMap<String, usize>,
    places: FxHashMap<String, usize>,
    cells: usize,
    work: Work,
}

/// Buffers that are used again.
#[derive(Clone, Debug, Default)]
struct Work {
    key: String,
    groups: Vec<Group>,
    by_key: FxHashMap<String, usize>,
}

/// Samples of a histogram with the same labels.
#[derive(Clone, Debug, Default)]
struct Group {
    key: String,
    sample: usize,
    les: Vec<(f64, usize)>,
    counts: Vec<f64>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// What a page has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Something that counts up has grown or fallen.
    pub is_counting: bool,
    /// A counter has fallen.
    pub is_reset: bool,
}

impl Column {
    /// Values in a row.
    pub fn width(&self) -> usize {
        self.rows.len() / self.ticks.len().max(1)
    }

    /// The row at a tick: `None` for a gauge that is not there then, and before something that
    /// counts up has appeared, where all of it is 0.
    pub fn row(&self, tick: usize) -> Option<&[f64]> {
        let next = self.ticks.partition_point(|&at| at as usize <= tick);
        let at = next.checked_sub(1)?;
        let is_gone = self.raw.is_empty() && self.seen.1 < u32_of(tick);
        let width = self.width();
        (!is_gone).then(|| &self.rows[at * width..(at + 1) * width])
    }

    /// The last tick at which the row changed.
    pub fn last_change(&self) -> Option<usize> {
        self.ticks.last().map(|&tick| tick as usize)
    }

    /// The ticks in which a row changed, first to last excluded, with the rows.
    pub fn changes(&self, after: usize, last: usize) -> impl Iterator<Item = &[f64]> {
        let width = self.width().max(1);
        let rows = self.ticks.iter().zip(self.rows.chunks_exact(width));
        let is_in = move |at: u32| at as usize > after && at as usize <= last;
        rows.filter(move |(at, _)| is_in(**at)).map(|(_, row)| row)
    }

    /// The first value of each tick in `from..to`.
    pub fn values(&self, from: usize, to: usize) -> impl Iterator<Item = Option<f64>> {
        (from..to).map(|tick| self.row(tick).map(|row| row[0]))
    }

    fn push(&mut self, tick: u32, row: &[f64]) -> usize {
        self.seen.1 = tick;
        let width = row.len();
        if self.rows.len() >= width && self.rows[self.rows.len() - width..] == *row {
            return 0;
        }
        self.ticks.push(tick);
        self.rows.extend_from_slice(row);
        width
    }

    /// Takes a row of what counts up; `base` says that what it has already is from before us.
    fn grow(&mut self, tick: u32, raw: &[f64], base: bool) -> (usize, Change) {
        let mut row = vec![0.0; raw.len()];
        let mut change = Change::default();
        if self.raw.is_empty() {
            if !base {
                row.copy_from_slice(raw);
            }
        } else {
            // A sum may fall, of values below 0; counts may not.
            let counts = if raw.len() > 1 { 1.. } else { 0.. };
            let mut pairs = raw[counts.clone()].iter().zip(&self.raw[counts]);
            change.is_reset = pairs.any(|(new, old)| new < old);
            let last = self.rows.len() - raw.len();
            for (at, grown) in row.iter_mut().enumerate() {
                let old = if change.is_reset { 0.0 } else { self.raw[at] };
                *grown = self.rows[last + at] + (raw[at] - old);
            }
        }
        self.raw.clear();
        self.raw.extend_from_slice(raw);
        let cells = self.push(tick, &row);
        change.is_counting = cells > 0 || change.is_reset;
        (cells, change)
    }
}

impl History {
    /// Takes a page that was there at `at`, later than the one before.
    pub fn push(&mut self, at: Ns, page: &Page<'_>) -> Change {
        let tick = u32_of(self.times.len());
        self.times.push(at);
        let mut change = Change::default();
        let mut left_out = 0;
        for family in &page.families {
            if is_of_origin(family.name) {
                continue;
            }
            let kind = kind(family);
            let place = self.family(family, kind);
            if self.families[place].kind != kind {
                continue; // one name, two kinds: the first counts
            }
            let of = match kind {
                FamilyKind::Gauge | FamilyKind::Counter => self.scalars(tick, place, family),
                _ => self.histograms(tick, place, family),
            };
            left_out += of.1;
            change.is_counting |= of.0.is_counting;
            change.is_reset |= of.0.is_reset;
        }
        self.resets += u64::from(change.is_reset);
        self.left_out = self.left_out.max(left_out);
        change
    }

    /// True when there is more than is to be kept, and [`History::thin`] is due.
    pub fn is_full(&self) -> bool {
        self.cells > CELLS_MAX || self.times.len() > TICKS_MAX
    }

    /// Removes every other scrape, but neither the first nor the marked nor the last.
    pub fn thin(&mut self) {
        let last = self.times.len().saturating_sub(1);
        let is_kept = |tick: usize| {
            tick.is_multiple_of(2) || tick == last || self.mark.is_some_and(|mark| tick == mark)
        };
        let mut place = 0;
        // What changed at a tick that goes has changed by the next that stays.
        let places: Vec<u32> = (0..=last)
            .map(|tick| {
                let own = place;
                place += u32::from(is_kept(tick));
                own
            })
            .collect();
        let mut ticks = 0..;
        let kept: Vec<bool> = (0..=last).map(is_kept).collect();
        self.times
            .retain(|_| ticks.next().is_some_and(|tick: usize| kept[tick]));
        self.mark = self.mark.map(|mark| places[mark] as usize);
        self.cells = 0;
        for column in &mut self.columns {
            let width = column.width();
            let (mut at, mut rows): (Vec<u32>, Vec<f64>) = (Vec::new(), Vec::new());
            for (tick, row) in column.ticks.iter().zip(column.rows.chunks_exact(width)) {
                let tick = places[*tick as usize];
                if at.last() == Some(&tick) {
                    rows.truncate(rows.len() - width);
                } else {
                    at.push(tick);
                }
                rows.extend_from_slice(row);
            }
            (column.ticks, column.rows) = (at, rows);
            let place = |tick: u32| places[tick as usize];
            column.seen = (place(column.seen.0), place(column.seen.1));
            self.cells += column.rows.len();
        }
    }

    fn family(&mut self, family: &PageFamily<'_>, kind: FamilyKind) -> usize {
        let name = match kind {
            FamilyKind::Counter => family.name.strip_suffix("_total").unwrap_or(family.name),
            _ => family.name,
        };
        if let Some(&place) = self.names.get(name) {
            return place;
        }
        self.families.push(Family {
            name: name.to_owned(),
            kind,
            help: family.help.to_string(),
        });
        self.names.insert(name.to_owned(), self.families.len() - 1);
        self.families.len() - 1
    }

    fn scalars(&mut self, tick: u32, family: usize, from: &PageFamily<'_>) -> (Change, u64) {
        let counts = self.families[family].kind == FamilyKind::Counter;
        let (mut change, mut left_out) = (Change::default(), 0);
        for sample in &from.samples {
            if sample.name.ends_with("_created") {
                continue;
            }
            if !is_usable(sample.value) {
                self.invalid_values += 1;
                continue;
            }
            let mut key = std::mem::take(&mut self.work.key);
            write_key(&mut key, family, sample);
            let place = self.column(tick, family, &key, sample, &[]);
            self.work.key = key;
            let Some(place) = place else {
                left_out += 1;
                continue;
            };
            let column = &mut self.columns[place];
            if counts {
                let (cells, of) = column.grow(tick, &[sample.value], tick == 0);
                self.cells += cells;
                change.is_counting |= of.is_counting && !is_of_itself(&self.families[family].name);
                change.is_reset |= of.is_reset;
            } else {
                self.cells += column.push(tick, &[sample.value]);
            }
        }
        (change, left_out)
    }

    fn histograms(&mut self, tick: u32, family: usize, from: &PageFamily<'_>) -> (Change, u64) {
        let mut work = std::mem::take(&mut self.work);
        self.invalid_values += group(&mut work, family, from);
        let (mut change, mut left_out) = (Change::default(), 0);
        for group in &work.groups {
            let Some(row) = group.row() else {
                self.invalid_values += 1;
                continue;
            };
            let label = |at: usize| from.samples[at].label("le").unwrap_or_default().to_owned();
            let les: Vec<(f64, String)> = match self.places.contains_key(&group.key) {
                true => Vec::new(),
                false => group.les.iter().map(|&(le, at)| (le, label(at))).collect(),
            };
            let sample = &from.samples[group.sample];
            let Some(place) = self.column(tick, family, &group.key, sample, &les) else {
                left_out += 1;
                continue;
            };
            let column = &mut self.columns[place];
            let bounds = group.les.iter().map(|(le, _)| *le);
            if !bounds
                .filter(|le| le.is_finite())
                .eq(column.bounds.iter().copied())
            {
                self.invalid_values += 1;
                continue;
            }
            let (cells, of) = column.grow(tick, &row, tick == 0);
            self.cells += cells;
            change.is_counting |= of.is_counting && !is_of_itself(&self.families[family].name);
            change.is_reset |= of.is_reset;
        }
        self.work = work;
        (change, left_out)
    }

    /// The column of a key, a new one where there is none yet; `None` beyond the cap.
    fn column(
        &mut self,
        tick: u32,
        family: usize,
        key: &str,
        sample: &Sample<'_>,
        les: &[(f64, String)],
    ) -> Option<usize> {
        if let Some(&place) = self.places.get(key) {
            return Some(place);
        }
        if self.columns.len() == SERIES_MAX {
            return None;
        }
        let labels = sample
            .labels
            .iter()
            .filter(|(name, _)| !is_part(family_kind(self, family), name));
        let mut labels: Vec<(String, String)> = labels
            .map(|(name, value)| ((*name).to_owned(), value.to_string()))
            .collect();
        labels.sort();
        let finite = les.iter().filter(|(le, _)| le.is_finite());
        let (bounds, les) = finite.cloned().unzip();
        self.columns.push(Column {
            family,
            labels,
            bounds,
            les,
            ticks: Vec::new(),
            rows: Vec::new(),
            raw: Vec::new(),
            seen: (tick, tick),
        });
        self.places.insert(key.to_owned(), self.columns.len() - 1);
        Some(self.columns.len() - 1)
    }
}

/// Largest value that is kept: no server counts further, and sums of it are numbers.
const VALUE_MAX: f64 = 1e30;

fn is_usable(value: f64) -> bool {
    value.abs() <= VALUE_MAX
}

/// Counters of the process and of its pages, which never stand still.
fn is_of_itself(name: &str) -> bool {
    let own = ["process_", "python_", "go_", "promhttp_", "http_request"];
    own.iter().any(|prefix| name.starts_with(prefix))
}

fn family_kind(history: &History, family: usize) -> FamilyKind {
    history.families[family].kind
}

impl Group {
    /// Sum, cumulative buckets, count; `None` when it has no sum or count, or no order.
    fn row(&self) -> Option<Vec<f64>> {
        let ascends = self.les.windows(2).all(|two| two[0].0 < two[1].0);
        let finite = self.les.iter().take_while(|(le, _)| le.is_finite()).count();
        let all = self.counts.get(finite).copied();
        let count = self.count.or(all).filter(|_| ascends)?;
        let mut row = vec![self.sum?];
        row.extend_from_slice(&self.counts[..finite]);
        row.push(count);
        Some(row)
    }
}

/// Sorts a family's samples by their labels; gives how many values are no numbers.
fn group(work: &mut Work, family: usize, from: &PageFamily<'_>) -> u64 {
    work.groups.clear();
    work.by_key.clear();
    let mut invalid = 0;
    let mut place = None;
    for (at, sample) in from.samples.iter().enumerate() {
        let suffix = sample.name.strip_prefix(from.name).unwrap_or_default();
        if !matches!(suffix, "_bucket" | "_sum" | "_count") {
            continue;
        }
        if !is_usable(sample.value) {
            invalid += 1;
            continue;
        }
        write_key(&mut work.key, family, sample);
        let is_same = |place: &usize| work.groups[*place].key == work.key;
        let found = place.filter(is_same);
        let own = found.unwrap_or_else(|| match work.by_key.entry(work.key.clone()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                work.groups.push(Group {
                    key: work.key.clone(),
                    sample: at,
                    ..Group::default()
                });
                *free.insert(work.groups.len() - 1)
            }
        });
        place = Some(own);
        let group = &mut work.groups[own];
        match suffix {
            "_sum" => group.sum = Some(sample.value),
            "_count" => group.count = Some(sample.value),
            _ => match sample.label("le").and_then(bound) {
                Some(le) => {
                    group.les.push((le, at));
                    group.counts.push(sample.value);
                }
                None => invalid += 1,
            },
        }
    }
    invalid
}

fn bound(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        _ => text.parse().ok().filter(|le: &f64| le.is_finite()),
    }
}

/// Labels that tell parts of one series apart.
fn is_part(kind: FamilyKind, label: &str) -> bool {
    match kind {
        FamilyKind::Histogram => label == "le",
        FamilyKind::Summary => label == "quantile",
        FamilyKind::Gauge | FamilyKind::Counter => false,
    }
}

/// What no other series has: its family's place and its labels in the page's order.
fn write_key(key: &mut String, family: usize, sample: &Sample<'_>) {
    use std::fmt::Write;
    key.clear();
    // Writing to a String does not fail.
    let _ = write!(key, "{family}");
    let is_histogram = sample.name.ends_with("_bucket");
    for (name, value) in &sample.labels {
        if is_histogram && *name == "le" {
            continue;
        }
        key.push('\0');
        key.push_str(name);
        key.push('\0');
        key.push_str(value);
    }
}

/// Times at which something began to count: no metric.
pub(super) fn is_of_origin(name: &str) -> bool {
    name.ends_with("_created")
}

/// What a family counts here.
pub(super) fn kind(family: &PageFamily<'_>) -> FamilyKind {
    match family.kind {
        Kind::Counter => FamilyKind::Counter,
        Kind::Histogram => FamilyKind::Histogram,
        Kind::Summary => FamilyKind::Summary,
        Kind::Untyped if family.name.ends_with("_total") => FamilyKind::Counter,
        Kind::Gauge | Kind::Untyped => FamilyKind::Gauge,
    }
}

fn u32_of(tick: usize) -> u32 {
    u32::try_from(tick).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrape::parse;

    fn of(pages: &[&str]) -> History {
        let mut history = History::default();
        for (at, page) in (0u64..).zip(pages) {
            history.push(Ns::from_ms(at * 1_000), &parse(page));
        }
        history
    }

    fn column<'a>(history: &'a History, name: &str) -> &'a Column {
        let is = |column: &&Column| history.families[column.family].name == name;
        history.columns.iter().find(is).unwrap()
    }

    fn values(history: &History, name: &str) -> Vec<Option<f64>> {
        let column = column(history, name);
        column.values(0, history.times.len()).collect()
    }

    #[test]
    fn a_counter_grows_from_the_first_page_and_over_a_restart() {
        let head = "# TYPE a_total counter\na_total{x=\"1\"}";
        let pages: Vec<String> = [100, 130, 130, 20, 25]
            .map(|value| format!("{head} {value}\n"))
            .into();
        let history = of(&pages.iter().map(String::as_str).collect::<Vec<_>>());
        let grown = [0.0, 30.0, 30.0, 50.0, 55.0].map(Some);
        assert_eq!(values(&history, "a"), grown);
        assert_eq!(history.resets, 1);
        assert_eq!(column(&history, "a").ticks, [0, 1, 3, 4]);
    }

    #[test]
    fn what_appears_in_mid_run_counts_from_nothing() {
        let history = of(&[
            "# TYPE g gauge\ng 1\n",
            "# TYPE g gauge\n# TYPE a counter\na{m=\"x\"} 64\n",
            "# TYPE g gauge\ng 3\n# TYPE a counter\na{m=\"x\"} 320\n",
        ]);
        assert_eq!(values(&history, "a"), [None, Some(64.0), Some(320.0)]);
        // A gauge that is away for a page is as it was; one that is gone for good is absent.
        assert_eq!(values(&history, "g"), [Some(1.0), Some(1.0), Some(3.0)]);
        let gone = of(&["# TYPE g gauge\ng 1\n", "# TYPE a counter\na 1\n"]);
        assert_eq!(values(&gone, "g"), [Some(1.0), None]);
    }

    #[test]
    fn histograms_are_rows_whatever_the_order_of_their_lines() {
        let lines = "# TYPE h histogram\nh_bucket{m=\"a\",le=\"0.5\"} 1\n\
                     h_bucket{m=\"b\",le=\"0.5\"} 2\nh_bucket{m=\"a\",le=\"+Inf\"} 3\n\
                     h_bucket{m=\"b\",le=\"+Inf\"} 4\nh_count{m=\"b\"} 4\n\
                     h_sum{m=\"b\"} 5\nh_count{m=\"a\"} 3\nh_sum{m=\"a\"} 6\nh_created{m=\"a\"} 9\n\
                     # TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 2\ns_count 1\n";
        let history = of(&["# TYPE g gauge\ng 1\n", lines]);
        let rows: Vec<_> = history.columns[1..]
            .iter()
            .map(|column| column.row(1).unwrap())
            .collect();
        assert_eq!(rows[0], [6.0, 1.0, 3.0]);
        assert_eq!(rows[1], [5.0, 2.0, 4.0]);
        assert_eq!(rows[2], [2.0, 1.0]);
        assert_eq!(
            history.columns[1].labels,
            [("m".to_owned(), "a".to_owned())]
        );
        assert_eq!(
            (history.columns[1].bounds[0], history.invalid_values),
            (0.5, 0)
        );
    }

    #[test]
    fn what_cannot_be_is_left_out_and_counted() {
        let history = of(&[
            "# TYPE g gauge\ng NaN\ng{a=\"1\"} +Inf\n# TYPE h histogram\nh_bucket{le=\"x\"} 1\n\
             h_bucket{le=\"2\"} 1\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n\
             # TYPE x_created gauge\nx_created 1.7e9\n",
        ]);
        assert_eq!((history.columns.len(), history.invalid_values), (0, 4));
        let more = (0..=SERIES_MAX).map(|at| format!("g{{a=\"{at}\"}} 1\n"));
        let history = of(&[&more.collect::<String>()]);
        assert_eq!((history.columns.len(), history.left_out), (SERIES_MAX, 1));
    }

    #[test]
    fn thinning_keeps_the_ends_the_mark_and_all_growth() {
        let pages: Vec<String> = (0..10)
            .map(|at| format!("# TYPE c counter\nc {}\n# TYPE g gauge\ng {at}\n", at * at))
            .collect();
        let mut history = of(&pages.iter().map(String::as_str).collect::<Vec<_>>());
        history.mark = Some(3);
        history.thin();
        let seconds: Vec<u64> = history
            .times
            .iter()
            .map(|at| at.0 / 1_000_000_000)
            .collect();
        assert_eq!(seconds, [0, 2, 3, 4, 6, 8, 9]);
        assert_eq!(history.mark, Some(2));
        let grown = [0.0, 4.0, 9.0, 16.0, 36.0, 64.0, 81.0].map(Some);
        assert_eq!(values(&history, "c"), grown);
        assert_eq!(values(&history, "g")[6], Some(9.0));
    }
}
