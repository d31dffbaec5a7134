//! The requests of a run as columns, in the order in which they were recorded.

use super::accumulate::Value;
use super::distribution::float;
use super::figures::{Figures, MetricFigures};
use super::metric::{Kind, METRICS, Metric, Need};
use super::record::Record;
use super::select::Select;
use super::summary::Figure;
use super::whole::Whole;
use crate::base::Anchor;

/// Where the round of a request of several runs stands in its number.
const ROUND_SHIFT: u32 = 40;

/// What every request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Row {
    /// Number of the request in its run, from 0.
    pub index: u64,
    /// Start, wall time in ns since 1970.
    pub start_ns: u64,
    /// Last content, else the end of a request that had none; wall time in ns.
    pub end_ns: u64,
    /// It did not fail.
    pub is_valid: bool,
}

impl Row {
    /// Of a finished request.
    pub fn of(record: &Record, anchor: Anchor) -> Row {
        Row {
            index: record.index,
            start_ns: anchor.wall(record.start),
            end_ns: anchor.wall(record.end().unwrap_or(record.done)),
            is_valid: record.is_valid(),
        }
    }
}

/// The values of one metric.
#[derive(Clone, Debug)]
struct Column {
    tag: String,
    unit: String,
    /// NaN where absent; empty while no request has one.
    values: Vec<f64>,
}

/// Requests as columns; NaN stands for a value that a request does not have.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    index: Vec<u64>,
    start_ns: Vec<u64>,
    end_ns: Vec<u64>,
    is_valid: Vec<bool>,
    metrics: Vec<Column>,
}

/// Is it a metric whose value of a request is a number?
pub fn is_numeric(metric: &Metric) -> bool {
    let by_request = ["error_isl", "good_request_count"];
    matches!(metric.kind, Kind::Record(_)) || by_request.contains(&metric.tag)
}

/// The values of a request, as [`super::Accumulator::per_record`] gives them, in the order of
/// [`Columns::of_requests`]: NaN where absent. `out` is used again.
pub fn line_up(values: &[(&'static Metric, Value)], out: &mut Vec<f64>) {
    out.clear();
    let mut numbers = values.iter().filter_map(|(metric, value)| match value {
        Value::Number(number) => Some((metric.tag, *number)),
        Value::Integer(count) => Some((metric.tag, float(*count))),
        Value::List(_) => None,
    });
    // Both are in the table's order.
    let mut next = numbers.next();
    for metric in METRICS.iter().filter(|metric| is_numeric(metric)) {
        match next.filter(|(tag, _)| *tag == metric.tag) {
            Some((_, number)) => {
                out.push(number);
                next = numbers.next();
            }
            None => out.push(f64::NAN),
        }
    }
}

impl Columns {
    /// No requests yet, of these metrics: tag and display unit, each tag once.
    pub fn new(metrics: impl IntoIterator<Item = (String, String)>) -> Columns {
        let column = |(tag, unit)| Column {
            tag,
            unit,
            values: Vec::new(),
        };
        Columns {
            metrics: metrics.into_iter().map(column).collect(),
            ..Columns::default()
        }
    }

    /// Of all metrics that a request of ours can have as a number.
    pub fn of_requests() -> Columns {
        let numeric = METRICS.iter().filter(|metric| is_numeric(metric));
        Columns::new(numeric.map(|m| (m.tag.into(), m.unit.into())))
    }

    /// Adds a request and its values, NaN where absent: one per metric, in the order of
    /// [`Columns::metrics`]; those that are lacking are absent.
    pub fn push(&mut self, row: Row, values: &[f64]) {
        let before = self.len();
        self.push_row(row);
        for (at, column) in self.metrics.iter_mut().enumerate() {
            match values.get(at).copied().unwrap_or(f64::NAN) {
                value if value.is_nan() && column.values.is_empty() => {}
                value => {
                    column.values.resize(before, f64::NAN);
                    column.values.push(value);
                }
            }
        }
    }

    /// These requests, then at once those of another run of the same metrics, whose numbers are
    /// those of its `round`: the same request of two runs of one round has the same.
    #[must_use]
    pub fn followed_by(mut self, other: &Columns, round: u64) -> Columns {
        let tags: Vec<String> = self
            .metrics
            .iter()
            .map(|column| column.tag.clone())
            .collect();
        let columns: Vec<&[f64]> = tags
            .iter()
            .map(|tag| other.get(tag).unwrap_or_default())
            .collect();
        let mut values = Vec::with_capacity(tags.len());
        // The pause between the runs is nobody's: the second begins when the first has ended.
        let end = self.end_ns.iter().max().copied().unwrap_or(0);
        let begin = other.start_ns.iter().min().copied().unwrap_or(0);
        let moved = |ns: u64| ns.saturating_sub(begin).saturating_add(end);
        for at in 0..other.len() {
            let Some(row) = other.row(at) else { continue };
            values.clear();
            values.extend(
                columns
                    .iter()
                    .map(|own| own.get(at).copied().unwrap_or(f64::NAN)),
            );
            let index = row.index + (round << ROUND_SHIFT);
            let row = Row {
                index,
                start_ns: moved(row.start_ns),
                end_ns: moved(row.end_ns),
                ..row
            };
            self.push(row, &values);
        }
        self
    }

    /// Adds the requests of another run behind these, as they are: own numbers, own times, metrics
    /// of either.
    pub fn append(&mut self, other: &Columns) {
        let own = |columns: &Columns, tag: &str| columns.metrics.iter().any(|c| c.tag == tag);
        for column in &other.metrics {
            if !own(self, &column.tag) {
                self.add_metric(&column.tag, &column.unit);
            }
        }
        let tags: Vec<String> = self
            .metrics
            .iter()
            .map(|column| column.tag.clone())
            .collect();
        let lists: Vec<Option<&[f64]>> = tags.iter().map(|tag| other.get(tag)).collect();
        for at in 0..other.len() {
            let Some(row) = other.row(at) else { continue };
            let value = |list: &Option<&[f64]>| list.map_or(f64::NAN, |values| values[at]);
            let values: Vec<f64> = lists.iter().map(value).collect();
            self.push(row, &values);
        }
    }

    /// Adds a metric that no request so far has; gives its place.
    pub fn add_metric(&mut self, tag: &str, unit: &str) -> usize {
        self.metrics.push(Column {
            tag: tag.into(),
            unit: unit.into(),
            values: Vec::new(),
        });
        self.metrics.len() - 1
    }

    pub(super) fn push_row(&mut self, row: Row) {
        self.index.push(row.index);
        self.start_ns.push(row.start_ns);
        self.end_ns.push(row.end_ns);
        self.is_valid.push(row.is_valid);
    }

    /// The values of a metric by its place: none, or one per request.
    pub(super) fn values(&self, metric: usize) -> &[f64] {
        &self.metrics[metric].values
    }

    /// The same, to be added to.
    pub(super) fn values_mut(&mut self, metric: usize) -> &mut Vec<f64> {
        &mut self.metrics[metric].values
    }

    /// Drops the requests and keeps the metrics and the room.
    pub fn clear(&mut self) {
        self.index.clear();
        self.start_ns.clear();
        self.end_ns.clear();
        self.is_valid.clear();
        self.metrics.iter_mut().for_each(|m| m.values.clear());
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True without requests.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// What every request has, by its place in the order of recording.
    pub fn row(&self, at: usize) -> Option<Row> {
        Some(Row {
            index: *self.index.get(at)?,
            start_ns: *self.start_ns.get(at)?,
            end_ns: *self.end_ns.get(at)?,
            is_valid: *self.is_valid.get(at)?,
        })
    }

    /// Numbers of the requests.
    pub fn index(&self) -> &[u64] {
        &self.index
    }

    /// Starts, wall time in ns.
    pub fn start_ns(&self) -> &[u64] {
        &self.start_ns
    }

    /// Ends, wall time in ns.
    pub fn end_ns(&self) -> &[u64] {
        &self.end_ns
    }

    /// Which did not fail.
    pub fn is_valid(&self) -> &[bool] {
        &self.is_valid
    }

    /// Tags and display units, also of metrics that no request has.
    pub fn metrics(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metrics
            .iter()
            .map(|m| (m.tag.as_str(), m.unit.as_str()))
    }

    /// The values of a metric in display units, one per request, NaN where absent; `None` when no
    /// request has it.
    pub fn get(&self, tag: &str) -> Option<&[f64]> {
        let column = self.metrics.iter().find(|column| column.tag == tag)?;
        (!column.values.is_empty()).then_some(&*column.values)
    }

    /// The display unit of a metric.
    pub fn unit(&self, tag: &str) -> Option<&str> {
        let column = self.metrics.iter().find(|column| column.tag == tag)?;
        Some(&column.unit)
    }

    /// The figures of these requests: every metric of a request as an exact distribution, and the
    /// run's counts, totals and rates.
    ///
    /// Definitions are those of a run ([`super::Accumulator`]). Not there: what needs more than one
    /// number per request (step functions, gaps between chunks), the error-adjusted view, energy.
    /// Cost: some ns per value.
    pub fn figures(&self) -> Figures {
        let mut select = Select::default();
        let of_column = |column: &Column| {
            let distribution = select.distribution(&column.values)?;
            Some(MetricFigures::of(
                &column.tag,
                &column.unit,
                &Figure::Distribution(distribution),
            ))
        };
        let requests: Vec<MetricFigures> = self.metrics.iter().filter_map(of_column).collect();
        let find = |tag: &str| requests.iter().find(|metric| metric.tag == tag);
        let sum = |tag: &str| find(tag)?.get("sum");
        let whole = self.whole(sum("good_request_count"));
        let mut all = Vec::new();
        for metric in METRICS {
            let exists = match metric.need {
                Need::Goodput => find("good_request_count").is_some(),
                Need::Errors => whole.failed > 0,
                _ => true,
            };
            let is_of_run = matches!(metric.kind, Kind::Run) && metric.tag != "error_isl";
            if is_of_run && exists && !self.is_empty() {
                let value = whole.value(metric.tag, sum).map(Figure::Scalar);
                all.extend(value.map(|v| MetricFigures::of(metric.tag, metric.unit, &v)));
            } else if !is_of_run {
                all.extend(find(metric.tag).cloned());
            }
        }
        // What another version has and this one does not know.
        let is_known = |tag: &str| METRICS.iter().any(|metric| metric.tag == tag);
        all.extend(requests.iter().filter(|m| !is_known(&m.tag)).cloned());
        Figures(all)
    }

    fn whole(&self, good: Option<f64>) -> Whole {
        let valid = self.is_valid.iter().filter(|is_valid| **is_valid).count();
        let ended = self
            .is_valid
            .iter()
            .zip(self.start_ns.iter().zip(&self.end_ns));
        let ended = ended.filter(|(is_valid, _)| **is_valid);
        let ends =
            |(low, high): (u64, u64), (start, end): (&u64, &u64)| (low.min(*start), high.max(*end));
        let (start, end) = ended.map(|(_, both)| both).fold((u64::MAX, 0), ends);
        let duration_s = (end > start).then(|| float(end - start) / 1e9);
        Whole {
            valid: valid as u64,
            failed: (self.len() - valid) as u64,
            duration_s,
            window_s: duration_s,
            good: super::column::whole(good.unwrap_or(0.0)),
            mismatches: None,
            discrepancies: None,
        }
    }
}

/// Equal to the bit, absent values too.
impl PartialEq for Columns {
    fn eq(&self, other: &Columns) -> bool {
        let rows = |c: &Columns| (0..c.len()).map(|at| c.row(at)).collect::<Vec<_>>();
        let same = |a: &Column, b: &Column| {
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            (&a.tag, &a.unit) == (&b.tag, &b.unit) && bits(&a.values) == bits(&b.values)
        };
        rows(self) == rows(other)
            && self.metrics.len() == other.metrics.len()
            && self
                .metrics
                .iter()
                .zip(&other.metrics)
                .all(|(a, b)| same(a, b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Ns;
    use crate::stats::{AccumulateOptions, Accumulator, Failure, FailureKind, Stage};

    fn record(n: u64) -> Record {
        let at = |ms| Ns::from_ms(100 + 10 * n + ms);
        let count = u32::try_from(n).unwrap();
        let mut r = Record {
            index: n,
            due: at(0),
            start: at(2),
            sent: Some(at(3)),
            streamed: true,
            first_content: Some(at(10 + n % 13)),
            last_content: Some(at(60 + n * n % 101)),
            done: at(400),
            ..Record::default()
        };
        r.tokens.input = Some(5 + count % 9);
        r.tokens.output = (!n.is_multiple_of(4)).then_some(4 + count % 17);
        r.usage.cache_read = Some(7);
        r.usage.prompt = Some(9);
        if n % 10 == 3 {
            r.failure = Some(Box::new(Failure {
                kind: FailureKind::Server,
                stage: Stage::FirstToken,
                code: 500,
                name: "no".into(),
                message: "no".into(),
                after: None,
            }));
        }
        r
    }

    #[test]
    fn a_run_that_follows_another_does_so_at_once_and_keeps_its_numbers() {
        let of = |start: u64| {
            let mut columns = Columns::new([("ttft".to_string(), "ms".to_string())]);
            for index in 0..2 {
                let row = Row {
                    index,
                    start_ns: start + 10 * index,
                    end_ns: start + 10 * index + 5,
                    is_valid: true,
                };
                columns.push(row, &[1.0]);
            }
            columns
        };
        let both = of(1_000).followed_by(&of(9_000_000), 1);
        assert_eq!(both.end_ns(), [1_005, 1_015, 1_020, 1_030]);
        assert_eq!(
            both.index(),
            [0, 1, 1 << ROUND_SHIFT, (1 << ROUND_SHIFT) + 1]
        );
        assert_eq!(both.get("ttft"), Some(&[1.0; 4][..]));
    }

    #[test]
    fn the_figures_of_columns_are_those_of_the_run() {
        let anchor = Anchor::at(Ns::ZERO, 1_700_000_000_000_000_000);
        let mut sum = Accumulator::new(AccumulateOptions {
            streaming: true,
            goodput: vec![("request_latency".into(), 120.0)],
            anchor,
            concurrency: None,
            capped: false,
            phases: Vec::new(),
        });
        let (mut columns, mut values) = (Columns::of_requests(), Vec::new());
        for n in 0..3_000 {
            let record = record(n);
            sum.push(&record);
            line_up(&sum.per_record(&record), &mut values);
            columns.push(Row::of(&record, anchor), &values);
        }
        let mut totals = sum.finish();
        totals.metrics.append(&mut totals.client);
        let run = Figures::of(&totals.metrics);
        let found = columns.figures();
        let lacking: Vec<&str> = run
            .0
            .iter()
            .filter(|metric| found.metric(&metric.tag).is_none())
            .map(|metric| metric.tag.as_str())
            .filter(|tag| !super::super::sweep::TAGS.contains(tag) && !tag.starts_with("adj_"))
            .collect();
        assert!(lacking.is_empty(), "{lacking:?}");
        for metric in &found.0 {
            let of_run = run.metric(&metric.tag);
            let of_run = of_run.unwrap_or_else(|| panic!("{} is no run's", metric.tag));
            assert_eq!(metric.unit, of_run.unit);
            for ((stat, value), (name, want)) in metric.stats.iter().zip(&of_run.stats) {
                let is_equal = match stat.as_str() {
                    "std" => (value - want).abs() <= 1e-12 * want.abs().max(1.0),
                    _ => value == want,
                };
                assert!(stat == name && is_equal, "{} {stat}", metric.tag);
            }
            assert_eq!(metric.stats.len(), of_run.stats.len());
        }
        assert_eq!(columns.get("inter_chunk_latency"), None);
        assert_eq!(columns.get("request_latency").unwrap().len(), 3_000);
        assert!(columns.get("request_latency").unwrap()[3].is_nan());
        assert_eq!(columns.row(3).unwrap().index, 3);
        assert_eq!(columns.unit("request_latency"), Some("ms"));
    }

    #[test]
    fn no_requests_have_no_figures() {
        assert_eq!(Columns::of_requests().figures(), Figures::default());
    }
}
