//! The figures of requests that lie on disk, by the code that makes those of a run: the same
//! requests give the same digits.

use super::accumulate::is_ours;
use super::column::Column;
use super::columns::Columns;
use super::distribution::adjusted;
use super::metric::{Kind, METRICS, Need};
use super::summary::{Figure, MetricResult, Weighted};
use super::sweep::{Curves, Span};
use super::whole::Whole;
use crate::base::Ns;
use crate::base::limits::EXACT_REQUESTS_MAX;

/// The requests of one run or of several, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// What every request has.
    pub columns: Columns,
    /// Gaps between the content events of each request, ms; empty where they were not kept.
    pub gaps: Vec<Vec<f64>>,
    /// Failed requests that were cancelled as asked for.
    pub cancelled: u64,
}

/// Metrics of requests and of the whole.
pub struct RecordedFigures {
    /// AIPerf's, in its order.
    pub metrics: Vec<MetricResult>,
    /// Ours.
    pub client: Vec<MetricResult>,
}

impl Recorded {
    /// Adds the requests of another run at their own times. Gaps are lost unless both have them.
    pub fn add(&mut self, other: Recorded) {
        if self.columns.is_empty() {
            *self = other;
            return;
        }
        let (own, added) = (!self.gaps.is_empty(), !other.gaps.is_empty());
        self.columns.append(&other.columns);
        match own && added {
            true => self.gaps.extend(other.gaps),
            false => self.gaps.clear(),
        }
        self.cancelled += other.cancelled;
    }

    /// From the first start to the last end, wall time in ns; `None` without requests.
    pub fn window(&self) -> Option<(u64, u64)> {
        let start = self.columns.start_ns().iter().min()?;
        Some((*start, *self.columns.end_ns().iter().max()?))
    }

    /// All figures that these requests have. What needs every chunk's time is there only with
    /// [`Recorded::gaps`]; energy never is: it needs the GPUs. Cost: as at the end of a run.
    pub fn figures(&self) -> RecordedFigures {
        let valid = || self.columns.is_valid().iter();
        let ok = valid().filter(|is_valid| **is_valid).count() as u64;
        let failed = valid().count() as u64 - ok;
        let mut columns: Vec<Column> = METRICS.iter().map(|m| self.column(m.tag)).collect();
        let mut gaps = Column::new(false);
        self.gaps.iter().flatten().for_each(|gap| gaps.push(*gap));
        let whole = self.whole(ok, failed);
        let swept = self.swept(ok);
        let place = |tag: &str| METRICS.iter().position(|metric| metric.tag == tag);
        let mut all = Vec::new();
        for (at, metric) in METRICS.iter().enumerate() {
            if ok + failed == 0 || !self.has(metric.need, failed) {
                continue;
            }
            if metric.tag == "effective_concurrency" {
                all.extend(adjusted_rows(
                    &columns,
                    failed.saturating_sub(self.cancelled),
                ));
            }
            let swept = swept.iter().find(|(tag, _)| *tag == metric.tag);
            let figure = match (metric.kind, swept) {
                (Kind::Record(_), _) => columns[at].distribution().map(Figure::Distribution),
                (Kind::Events, _) => gaps.distribution().map(Figure::Distribution),
                (Kind::Run, _) if metric.tag == "error_isl" => {
                    columns[at].distribution().map(Figure::Distribution)
                }
                (Kind::Run, Some((_, figure))) => Some(Figure::Weighted(figure.clone())),
                (Kind::Run, None) => {
                    let mut sum = |tag: &str| Some(columns[place(tag)?].distribution()?.sum);
                    whole.value(metric.tag, &mut sum).map(Figure::Scalar)
                }
            };
            let result = |figure| MetricResult {
                tag: metric.tag,
                header: metric.header,
                unit: metric.unit,
                figure,
            };
            all.extend(figure.map(result));
        }
        let (client, metrics) = all.into_iter().partition(is_ours);
        RecordedFigures { metrics, client }
    }

    fn has(&self, need: Need, failed: u64) -> bool {
        match need {
            Need::Goodput => self.columns.get("good_request_count").is_some(),
            Need::Errors => failed > 0,
            Need::Energy => false,
            _ => true,
        }
    }

    fn column(&self, tag: &str) -> Column {
        let signed = super::metric::find(tag).is_some_and(|metric| metric.is_signed);
        let mut column = Column::new(signed);
        let values = self.columns.get(tag).unwrap_or_default();
        let there = values.iter().filter(|value| !value.is_nan());
        there.for_each(|value| column.push(*value));
        column
    }

    fn whole(&self, valid: u64, failed: u64) -> Whole {
        let is_valid = self.columns.is_valid().iter();
        let times = self.columns.start_ns().iter().zip(self.columns.end_ns());
        let valid_times = is_valid.zip(times).filter(|(is_valid, _)| **is_valid);
        let ends = |(low, high): (u64, u64), (_, (start, end)): (_, (&u64, &u64))| {
            (low.min(*start), high.max(*end))
        };
        let (start, end) = valid_times.fold((u64::MAX, 0), ends);
        let duration_s = (end > start).then(|| Ns(end - start).as_secs());
        let good = self.columns.get("good_request_count").unwrap_or_default();
        Whole {
            valid,
            failed,
            duration_s,
            window_s: duration_s,
            good: good.iter().filter(|value| **value > 0.0).count() as u64,
            mismatches: self.mismatches(),
            discrepancies: self.discrepancies(),
        }
    }

    /// Outputs that missed the asked length, by the rule of
    /// [`super::metric::is_osl_mismatch`]; the asked length is in the difference.
    fn mismatches(&self) -> Option<u64> {
        let outputs = self.columns.get("output_sequence_length")?.iter();
        let differences = self.columns.get("osl_mismatch_diff_pct")?.iter();
        let is_missed = |(output, percent): (&f64, &f64)| {
            let asked = (output / (1.0 + percent / 100.0)).round();
            (output - asked).abs() > (asked * 0.05).min(50.0)
        };
        Some(
            outputs
                .zip(differences)
                .filter(|pair| is_missed(*pair))
                .count() as u64,
        )
    }

    fn discrepancies(&self) -> Option<u64> {
        let tags = [
            "usage_prompt_tokens_diff_pct",
            "usage_completion_tokens_diff_pct",
        ];
        let found: Vec<&[f64]> = tags
            .iter()
            .filter_map(|tag| self.columns.get(tag))
            .collect();
        if found.is_empty() {
            return None;
        }
        let is_off = |at: &usize| found.iter().any(|values| values[*at] > 10.0);
        Some((0..self.columns.len()).filter(is_off).count() as u64)
    }

    /// The step functions over time; of streams they need every chunk's time.
    fn swept(&self, valid: u64) -> Vec<(&'static str, Weighted)> {
        let count = self.columns.len();
        if self.gaps.is_empty() && self.columns.get("time_to_first_token").is_some() {
            return Vec::new();
        }
        let value = |tag: &str, at: usize| {
            let value = self.columns.get(tag)?.get(at)?;
            (!value.is_nan()).then_some(*value)
        };
        let tokens = |tag: &str, at: usize| match value(tag, at) {
            Some(count) => u32::try_from(super::column::whole(count)).unwrap_or(u32::MAX),
            None => 0,
        };
        let ns = |ms: f64| Ns(super::column::whole(ms * 1e6));
        let (mut spans, mut kept) = (Vec::new(), 0);
        for at in (0..count).filter(|at| self.columns.is_valid()[*at]) {
            let (start, end) = (self.columns.start_ns()[at], self.columns.end_ns()[at]);
            let first = value("time_to_first_token", at);
            let first = first.map(|ms| Ns(start) + ns(ms));
            let gaps = self.gaps.get(at).map(Vec::as_slice).unwrap_or_default();
            let fits = first.is_some() && kept + gaps.len() < EXACT_REQUESTS_MAX;
            kept += if fits { gaps.len() + 1 } else { 0 };
            let mut chunks: Vec<Ns> = first.into_iter().filter(|_| fits).collect();
            for gap in gaps.iter().filter(|_| fits) {
                chunks.extend(chunks.last().map(|last| *last + ns(*gap)));
            }
            spans.push(Span {
                start: Ns(start),
                first,
                end: Ns(end),
                input: tokens("input_sequence_length", at),
                output: tokens("output_sequence_length", at),
                chunks,
            });
            if spans.len() > EXACT_REQUESTS_MAX {
                return Vec::new();
            }
        }
        match spans.len() as u64 == valid {
            true => Curves::of(&spans).figures(),
            false => Vec::new(),
        }
    }
}

fn adjusted_rows(columns: &[Column], failed: u64) -> Vec<MetricResult> {
    let row = |(metric, column): (&super::Metric, &Column)| {
        let (tag, header) = metric.adjusted.filter(|_| failed > 0)?;
        let figure = adjusted(column.count(), failed, |rank| column.at(rank))?;
        Some(MetricResult {
            tag,
            header,
            unit: metric.unit,
            figure: Figure::Adjusted(figure),
        })
    };
    METRICS.iter().zip(columns).filter_map(row).collect()
}

/// Requests of a peer's definitions from what every request has: answers without their reasoning,
/// as GenAI-Perf sees them.
pub fn peer_run(columns: &Columns) -> super::genai_perf::PeerRun {
    use super::genai_perf::{PeerRequest, PeerRun};
    let value = |tag: &str, at: usize| {
        let value = columns.get(tag)?.get(at)?;
        (!value.is_nan()).then_some(*value)
    };
    let count = |tag: &str, at: usize| value(tag, at).map(super::column::whole);
    let request = |at: usize| {
        let row = columns.row(at).filter(|row| row.is_valid)?;
        let latency = value("request_latency", at)?;
        let ns = |ms: f64| super::column::whole(ms * 1e6);
        let end_ns = row.start_ns + ns(latency);
        let first = value("time_to_first_output_token", at);
        let first = first.or_else(|| value("time_to_first_token", at));
        let first_ns = first.map_or(end_ns, |ms| row.start_ns + ns(ms));
        let second = value("time_to_second_token", at).filter(|_| first.is_some());
        let output = count("output_token_count", at);
        Some(PeerRequest {
            start_ns: row.start_ns,
            first_ns,
            second_ns: second.map(|ms| first_ns + ns(ms)),
            end_ns,
            input: count("input_sequence_length", at),
            output: output.or_else(|| count("output_sequence_length", at)),
        })
    };
    PeerRun {
        kept: (0..columns.len()).filter_map(request).collect(),
        count: columns.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::{Row, line_up};
    use super::super::{
        AccumulateOptions, Accumulator, Failure, FailureKind, Record, Stage, Value,
    };
    use super::*;
    use crate::base::Anchor;

    fn record(n: u64) -> Record {
        let at = |ms| Ns::from_ms(100 + 10 * n + ms);
        let mut r = Record {
            index: n,
            due: at(0),
            start: at(2),
            sent: Some(at(3)),
            streamed: true,
            first_content: Some(Ns(at(10 + n % 13).0 + 7 * n)),
            last_content: Some(at(60 + n * n % 101)),
            done: at(400),
            requested_output: Some(9),
            ..Record::default()
        };
        let count = u32::try_from(n).unwrap();
        r.tokens.input = Some(5 + count % 9);
        r.tokens.output = Some(4 + count % 17);
        r.tokens.client_input = r.tokens.input;
        r.usage.prompt = Some(6);
        r.buffers.content_times = vec![r.first_content.unwrap(), r.last_content.unwrap()];
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
    fn requests_that_were_recorded_have_the_figures_of_their_run_to_the_digit() {
        let anchor = Anchor::at(Ns::ZERO, 1_700_000_000_000_000_000);
        let mut sum = Accumulator::new(AccumulateOptions {
            streaming: true,
            goodput: vec![("request_latency".into(), 120.0)],
            anchor,
            concurrency: None,
            capped: false,
            phases: Vec::new(),
        });
        let mut recorded = Recorded {
            columns: Columns::of_requests(),
            ..Recorded::default()
        };
        let mut line = Vec::new();
        for n in 0..500 {
            let record = record(n);
            sum.push(&record);
            let values = sum.per_record(&record);
            line_up(&values, &mut line);
            recorded.columns.push(Row::of(&record, anchor), &line);
            let gaps = values.iter().find_map(|(_, value)| match value {
                Value::List(gaps) => Some(gaps.clone()),
                _ => None,
            });
            recorded.gaps.push(gaps.unwrap_or_default());
        }
        let totals = sum.finish();
        let found = recorded.figures();
        let tags = |list: &[MetricResult]| list.iter().map(|m| m.tag).collect::<Vec<_>>();
        assert_eq!(tags(&found.metrics), tags(&totals.metrics));
        assert_eq!(found.metrics, totals.metrics);
        assert_eq!(found.client, totals.client);
        let peer = peer_run(&recorded.columns);
        assert_eq!((peer.count, peer.kept.len()), (500, 450));
        recorded.gaps.clear();
        let without = recorded.figures().metrics;
        assert!(without.len() < found.metrics.len());
        assert!(without.iter().all(|metric| found.metrics.contains(metric)));
    }

    #[test]
    fn two_runs_together_last_from_the_first_start_to_the_last_end() {
        let run = |start_ns: u64| {
            let mut columns = Columns::new([("request_latency".to_string(), "ms".to_string())]);
            let row = Row {
                index: 0,
                start_ns,
                end_ns: start_ns + 500_000_000,
                is_valid: true,
            };
            columns.push(row, &[500.0]);
            Recorded {
                columns,
                ..Recorded::default()
            }
        };
        let mut both = run(1_000_000_000);
        both.add(run(2_500_000_000));
        assert_eq!(both.window(), Some((1_000_000_000, 3_000_000_000)));
        let rate = both.figures().metrics;
        let rate = rate.iter().find(|m| m.tag == "request_throughput").unwrap();
        assert_eq!(rate.figure, Figure::Scalar(1.0));
    }
}
