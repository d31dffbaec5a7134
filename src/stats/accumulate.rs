//! Records in, figures out: exact columns up to a limit, histograms beyond.

use super::arrivals::Arrivals;
use super::column::{Column, whole};
use super::course;
use super::distribution::{adjusted, float};
use super::metric::{self, Kind, METRICS, Metric, Need};
use super::record::{Phase, Record};
use super::slices::Slices;
use super::summary::{ErrorGroup, Figure, MetricResult, PhaseResult, Weighted};
use super::sweep::{Curves, Span, Steps};
use super::totals::{Attainment, SteadyState, Totals};
use super::whole::Whole;
use crate::base::limits::{EXACT_REQUESTS_MAX, SLICE_GAPS_MAX};
use crate::base::{Anchor, Ns};
use rustc_hash::FxHashMap;

/// Kinds of errors kept apart; further ones share a group.
const ERROR_GROUPS_MAX: usize = 1000;

/// What to sum up.
#[derive(Clone, Debug)]
pub struct AccumulateOptions {
    /// A stream was asked for: only then TTFT, ITL and decode figures exist.
    pub streaming: bool,
    /// Service levels: tag and limit in display units.
    pub goodput: Vec<(String, f64)>,
    /// Wall time.
    pub anchor: Anchor,
    /// Slots of a closed loop, for the steady view; absent in an open loop.
    pub concurrency: Option<u32>,
    /// An open loop has a cap: only then a request waits for a slot.
    pub capped: bool,
    /// Phases to tell apart by their names, with whether each is measured; empty for one
    /// measurement with its warm-up.
    pub phases: Vec<(String, bool)>,
}

impl AccumulateOptions {
    /// Does a run of this kind have the metric of a request?
    fn has(&self, metric: &Metric) -> bool {
        match metric.need {
            Need::Streaming => self.streaming,
            Need::Capped => self.capped,
            _ => true,
        }
    }
}

/// A value of one record, for the records file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A measured number.
    Number(f64),
    /// A whole number.
    Integer(u64),
    /// Gaps.
    List(Vec<f64>),
}

/// The columns of one phase, or of one slice.
#[derive(Debug)]
pub(super) struct Part {
    /// What needs times is the whole run's.
    is_slice: bool,
    columns: Vec<Column>,
    gaps: Column,
    error_isl: Column,
    spans: Vec<Span>,
    /// Slot, done: all requests.
    held: Vec<(Ns, Ns)>,
    arrivals: Arrivals,
    chunks_kept: usize,
    valid: u64,
    failed: u64,
    /// Of the failed: those cancelled as asked for.
    cancelled: u64,
    first_start: Option<Ns>,
    last_content: Option<Ns>,
    last_done: Ns,
    any_start: Option<Ns>,
    good: u64,
    good_tokens: f64,
    met: Vec<u64>,
    mismatches: Option<u64>,
    discrepancies: Option<u64>,
    errors: FxHashMap<(u16, String, String), u64>,
}

impl Part {
    /// An empty one of a slice: there may be many.
    pub(super) fn of_slice(options: &AccumulateOptions) -> Part {
        Part {
            is_slice: true,
            gaps: Column::exact_up_to(SLICE_GAPS_MAX),
            ..Part::new(options.goodput.len())
        }
    }

    fn new(limits: usize) -> Part {
        Part {
            is_slice: false,
            columns: METRICS.iter().map(|m| Column::new(m.is_signed)).collect(),
            gaps: Column::new(false),
            error_isl: Column::new(false),
            spans: Vec::new(),
            held: Vec::new(),
            arrivals: Arrivals::default(),
            chunks_kept: 0,
            valid: 0,
            failed: 0,
            cancelled: 0,
            first_start: None,
            last_content: None,
            last_done: Ns::ZERO,
            any_start: None,
            good: 0,
            good_tokens: 0.0,
            met: vec![0; limits],
            mismatches: None,
            discrepancies: None,
            errors: FxHashMap::default(),
        }
    }

    fn fail(&mut self, record: &Record) {
        self.failed += 1;
        self.cancelled += u64::from(record.is_cancelled());
        if let Some(isl) = record.tokens.input {
            self.error_isl.push(f64::from(isl));
        }
        let Some(failure) = &record.failure else {
            return;
        };
        let mut key = (failure.code, failure.name.clone(), failure.message.clone());
        if self.errors.len() >= ERROR_GROUPS_MAX && !self.errors.contains_key(&key) {
            key = (
                failure.code,
                failure.name.clone(),
                "further messages".to_owned(),
            );
        }
        *self.errors.entry(key).or_default() += 1;
    }

    /// Adds a request with its values in the order of [`METRICS`].
    pub(super) fn push(
        &mut self,
        record: &Record,
        values: &[Option<f64>],
        options: &AccumulateOptions,
    ) {
        self.any_start = Some(self.any_start.map_or(record.start, |t| t.min(record.start)));
        self.last_done = self.last_done.max(record.done);
        if self.held.len() < EXACT_REQUESTS_MAX && !self.is_slice {
            let since = record.turn_since.unwrap_or(record.slot);
            self.held.push((since, record.done));
        }
        if options.concurrency.is_none() && !self.is_slice {
            self.arrivals.push(record);
        }
        if !record.is_valid() {
            return self.fail(record);
        }
        self.valid += 1;
        self.first_start = Some(
            self.first_start
                .map_or(record.start, |t| t.min(record.start)),
        );
        self.last_content = self.last_content.max(record.last_content);
        for (column, value) in self.columns.iter_mut().zip(values) {
            value.iter().for_each(|value| column.push(*value));
        }
        if options.streaming && record.streamed {
            for pair in record.buffers.content_times.windows(2) {
                self.gaps.push(pair[1].saturating_since(pair[0]).as_ms());
            }
        }
        for (sum, found) in [
            (&mut self.mismatches, metric::is_osl_mismatch(record)),
            (
                &mut self.discrepancies,
                metric::is_usage_discrepancy(record),
            ),
        ] {
            *sum = found.map(|f| sum.unwrap_or(0) + u64::from(f)).or(*sum);
        }
        let met = meets(record, &options.goodput);
        met.iter()
            .zip(&mut self.met)
            .for_each(|(ok, sum)| *sum += u64::from(*ok));
        if !met.is_empty() && met.iter().all(|ok| *ok) {
            self.good += 1;
            self.good_tokens += metric::output_sequence_length(record).unwrap_or(0.0);
        }
        self.keep_span(record, options);
    }

    fn keep_span(&mut self, record: &Record, options: &AccumulateOptions) {
        let Some(end) = record
            .last_content
            .filter(|_| self.spans.len() < EXACT_REQUESTS_MAX && !self.is_slice)
        else {
            return;
        };
        let first = record
            .first_content
            .filter(|_| options.streaming && record.streamed);
        let times = &record.buffers.content_times;
        let fits = first.is_some() && self.chunks_kept + times.len() <= EXACT_REQUESTS_MAX;
        self.chunks_kept += if fits { times.len() } else { 0 };
        let output = record.tokens.output.unwrap_or(0) + record.tokens.reasoning.unwrap_or(0);
        self.spans.push(Span {
            start: record.start,
            first,
            end,
            input: record.tokens.input.unwrap_or(0),
            output,
            chunks: if fits { times.clone() } else { Vec::new() },
        });
    }

    fn sum(&mut self, tag: &str) -> Option<f64> {
        if tag == "error_isl" {
            return self.error_isl.distribution().map(|d| d.sum);
        }
        let index = METRICS.iter().position(|m| m.tag == tag)?;
        self.columns[index].distribution().map(|d| d.sum)
    }

    fn duration_s(&self) -> Option<f64> {
        let span = self.last_content?.since(self.first_start?)?.as_secs();
        (span > 0.0).then_some(span)
    }

    /// The number of a metric of the whole run; rates are over `window_s`.
    fn run_value(&mut self, tag: &str, window_s: Option<f64>) -> Option<f64> {
        let whole = Whole {
            valid: self.valid,
            failed: self.failed,
            duration_s: self.duration_s(),
            window_s,
            good: self.good,
            mismatches: self.mismatches,
            discrepancies: self.discrepancies,
        };
        whole.value(tag, |tag| self.sum(tag))
    }

    /// The step functions over time. Beyond the exact limit they would be of a part of the run
    /// only: absent then.
    fn curves(&self) -> Option<Curves> {
        let is_whole = self.spans.len() as u64 == self.valid;
        is_whole.then(|| Curves::of(&self.spans))
    }

    fn figures(
        &mut self,
        options: &AccumulateOptions,
        curves: Option<&Curves>,
    ) -> Vec<MetricResult> {
        if self.valid + self.failed == 0 {
            return Vec::new();
        }
        let swept = curves.map(Curves::figures).unwrap_or_default();
        self.figures_over(options, &swept, self.duration_s())
    }

    /// The figures with those over time as given, and rates over a window in seconds.
    pub(super) fn figures_over(
        &mut self,
        options: &AccumulateOptions,
        swept: &[(&'static str, Weighted)],
        window_s: Option<f64>,
    ) -> Vec<MetricResult> {
        let mut results = Vec::with_capacity(METRICS.len());
        for (index, metric) in METRICS.iter().enumerate() {
            let exists = match metric.need {
                Need::Nothing | Need::Streaming | Need::Capped => options.has(metric),
                Need::Goodput => !options.goodput.is_empty(),
                Need::Errors => self.failed > 0,
                // They need the GPUs, which the records do not know: `energy`.
                Need::Energy => false,
            };
            if !exists {
                continue;
            }
            if metric.tag == "effective_concurrency" {
                results.extend(self.adjusted());
            }
            let swept = swept.iter().find(|(tag, _)| *tag == metric.tag);
            let figure = match metric.kind {
                Kind::Record(_) => self.columns[index].distribution().map(Figure::Distribution),
                Kind::Events => self.gaps.distribution().map(Figure::Distribution),
                Kind::Run if metric.tag == "error_isl" => {
                    self.error_isl.distribution().map(Figure::Distribution)
                }
                Kind::Run => match swept {
                    Some((_, figure)) => Some(Figure::Weighted(figure.clone())),
                    None => self.run_value(metric.tag, window_s).map(Figure::Scalar),
                },
            };
            results.extend(figure.map(|f| result(metric.tag, metric.header, metric.unit, f)));
        }
        results
    }

    fn adjusted(&self) -> Vec<MetricResult> {
        let mut results = Vec::new();
        // What was cancelled on purpose was not slow.
        let failed = self.failed - self.cancelled;
        for (metric, column) in METRICS.iter().zip(&self.columns) {
            let Some((tag, header)) = metric.adjusted.filter(|_| failed > 0) else {
                continue;
            };
            let figure = adjusted(column.count(), failed, |rank| column.at(rank));
            let figure = figure.map(Figure::Adjusted);
            results.extend(figure.map(|f| result(tag, header, metric.unit, f)));
        }
        results
    }

    fn steady(&self, slots: u32) -> Option<SteadyState> {
        let mut steps = Steps::default();
        for &(slot, done) in &self.held {
            steps.add(slot, done, 1.0);
        }
        let curve = steps.curve();
        let is_full = |v: f64| v >= f64::from(slots) - 0.5;
        let start = curve.iter().find(|s| is_full(s.1))?.0;
        let last = curve.iter().rposition(|s| is_full(s.1))?;
        let end = curve.get(last + 1)?.0;
        let span = end.since(start).filter(|s| s.0 > 0)?.as_secs();
        let inside = curve.windows(2).filter(|w| w[0].0 >= start && w[0].0 < end);
        let area: f64 = inside
            .map(|w| w[0].1 * w[1].0.saturating_since(w[0].0).as_secs())
            .sum();
        let (mut ended, mut tokens) = (0.0, 0.0);
        for s in &self.spans {
            let is_inside = s.end > start && s.end <= end;
            ended += if is_inside { 1.0 } else { 0.0 };
            let first = s.first.unwrap_or(s.end);
            let length = s.end.saturating_since(first).as_secs();
            let overlap = s.end.min(end).saturating_since(first.max(start)).as_secs();
            tokens += match length > 0.0 {
                true => f64::from(s.output) * overlap / length,
                false if is_inside => f64::from(s.output),
                false => 0.0,
            };
        }
        Some(SteadyState {
            start,
            end,
            request_throughput: ended / span,
            output_token_throughput: (tokens > 0.0).then_some(tokens / span),
            concurrency_held: area / span,
        })
    }
}

fn result(
    tag: &'static str,
    header: &'static str,
    unit: &'static str,
    figure: Figure,
) -> MetricResult {
    MetricResult {
        tag,
        header,
        unit,
        figure,
    }
}

/// Is the metric for `client`?
pub(super) fn is_ours(result: &MetricResult) -> bool {
    metric::find(result.tag).is_some_and(|metric| metric.group == metric::Group::Client)
}

/// For each service level: has the record the metric, and within its limit?
fn meets(record: &Record, goodput: &[(String, f64)]) -> Vec<bool> {
    let check = |(tag, limit): &(String, f64)| {
        let metric = metric::find(tag).filter(|_| record.is_valid())?;
        let value = metric.value(record)?;
        Some(if metric.larger_is_better {
            value >= *limit
        } else {
            value <= *limit
        })
    };
    goodput
        .iter()
        .map(|slo| check(slo).unwrap_or(false))
        .collect()
}

/// Sums records up. One thread feeds it; push order changes no figure but the last digit of sums.
#[derive(Debug)]
pub struct Accumulator {
    options: AccumulateOptions,
    warmup: Part,
    profiling: Part,
    phases: Vec<Part>,
    course: course::Gather,
    slices: Option<Slices>,
    /// Of the request at hand.
    values: Vec<Option<f64>>,
}

impl Accumulator {
    /// An empty one.
    pub fn new(options: AccumulateOptions) -> Accumulator {
        let limits = options.goodput.len();
        Accumulator {
            phases: options.phases.iter().map(|_| Part::new(limits)).collect(),
            options,
            warmup: Part::new(limits),
            profiling: Part::new(limits),
            course: course::Gather::default(),
            slices: None,
            values: Vec::new(),
        }
    }

    /// Cuts the measurement into slices of this length.
    pub fn sliced(self, length: Option<Ns>) -> Accumulator {
        let slices = length.map(Slices::new);
        Accumulator { slices, ..self }
    }

    /// Says when the first measured request was sent: there the slices begin, else at the start of
    /// the first that is over.
    pub fn begin(&mut self, at: Ns) {
        self.slices.iter_mut().for_each(|slices| slices.begin(at));
    }

    /// Adds a finished request whose `tokens` are set.
    pub fn push(&mut self, record: &Record) {
        let (options, values) = (&self.options, &mut self.values);
        values.clear();
        if record.is_valid() {
            let value = |metric: &Metric| metric.value(record).filter(|_| options.has(metric));
            values.extend(METRICS.iter().map(value));
        }
        if let Some(phase) = self.phases.get_mut(usize::from(record.part)) {
            phase.push(record, values, options);
        }
        match record.phase {
            Phase::Warmup => self.warmup.push(record, values, options),
            Phase::Profiling => {
                self.profiling.push(record, values, options);
                self.course.push(record);
                if let Some(slices) = &mut self.slices {
                    slices.push(record, values, options);
                }
            }
        }
    }

    /// The metrics of one record, for the records file; a failed one has only `error_isl`.
    pub fn per_record(&self, record: &Record) -> Vec<(&'static Metric, Value)> {
        let mut values = Vec::new();
        for metric in METRICS {
            let value = match (metric.kind, metric.tag) {
                (_, "error_isl") if !record.is_valid() => record.tokens.input.map(f64::from),
                _ if !record.is_valid() => None,
                _ if !self.options.has(metric) => None,
                (_, "good_request_count") if !self.options.goodput.is_empty() => {
                    let met = meets(record, &self.options.goodput);
                    Some(if met.iter().all(|ok| *ok) { 1.0 } else { 0.0 })
                }
                (Kind::Events, _) => {
                    let times = record.buffers.content_times.windows(2);
                    let gaps = times.map(|w| w[1].saturating_since(w[0]).as_ms());
                    let gaps: Vec<f64> = gaps.collect();
                    if !gaps.is_empty() && record.streamed {
                        values.push((metric, Value::List(gaps)));
                    }
                    None
                }
                _ => metric.value(record),
            };
            values.extend(value.map(|v| match metric.is_integer {
                true => (metric, Value::Integer(whole(v))),
                false => (metric, Value::Number(v)),
            }));
        }
        values
    }

    /// The figures.
    pub fn finish(mut self) -> Totals {
        let options = &self.options;
        let part = &mut self.profiling;
        let histograms = METRICS
            .iter()
            .zip(&part.columns)
            .filter_map(|(metric, column)| {
                let is_wanted = metric.adjusted.is_some();
                Some((metric.tag, column.histogram().filter(|_| is_wanted)?))
            });
        let mut histograms: Vec<_> = histograms.collect();
        histograms.extend(part.gaps.histogram().map(|h| ("inter_chunk_latency", h)));
        let curves = part.curves();
        let figures = part.figures(options, curves.as_ref()).into_iter();
        let (client, metrics): (Vec<_>, Vec<_>) = figures.partition(is_ours);
        let sliced = self.slices.take();
        let sliced = sliced.map(|slices| slices.finish(options, curves.as_ref()));
        let all = float(part.valid + part.failed);
        let attained = options
            .goodput
            .iter()
            .zip(&part.met)
            .map(|((tag, limit), met)| {
                let met_ratio = if all > 0.0 { float(*met) / all } else { 0.0 };
                Attainment {
                    tag: tag.clone(),
                    limit: *limit,
                    met_ratio,
                }
            });
        let arrivals = part.arrivals.cv();
        let warmup = whole_figures(&mut self.warmup, options).into_iter();
        let phases = phase_results(options, &mut self.phases);
        let window = part.any_start.map(|start| (start, part.last_done));
        let groups = part
            .errors
            .iter()
            .map(|((code, name, message), count)| ErrorGroup {
                code: *code,
                name: name.clone(),
                message: message.clone(),
                count: *count,
            });
        let mut errors: Vec<ErrorGroup> = groups.collect();
        errors.sort_by(|a, b| {
            let key = |e: &ErrorGroup| (e.code, e.name.clone(), e.message.clone());
            b.count.cmp(&a.count).then_with(|| key(a).cmp(&key(b)))
        });
        Totals {
            warmup: warmup.filter(|m| !is_ours(m)).collect(),
            phases,
            start_wall_ns: window.map_or(0, |w| options.anchor.wall(w.0)),
            end_wall_ns: window.map_or(0, |w| options.anchor.wall(w.1)),
            steady: options.concurrency.and_then(|slots| part.steady(slots)),
            attainment: attained.collect(),
            good_token_throughput: part
                .duration_s()
                .filter(|_| !options.goodput.is_empty())
                .map(|s| part.good_tokens / s),
            arrivals,
            metrics,
            client,
            errors,
            cancelled: part.cancelled,
            window,
            histograms,
            course: self.course.finish(),
            sliced: sliced.unwrap_or_default(),
        }
    }
}

fn whole_figures(part: &mut Part, options: &AccumulateOptions) -> Vec<MetricResult> {
    let curves = part.curves();
    part.figures(options, curves.as_ref())
}

fn phase_results(options: &AccumulateOptions, parts: &mut [Part]) -> Vec<PhaseResult> {
    let named = options.phases.iter().zip(parts);
    let result = |((name, measured), part): (&(String, bool), &mut Part)| PhaseResult {
        name: name.clone(),
        measured: *measured,
        metrics: whole_figures(part, options)
            .into_iter()
            .filter(|metric| !is_ours(metric))
            .collect(),
    };
    named.map(result).collect()
}

#[cfg(test)]
#[path = "accumulate_tests.rs"]
mod tests;
