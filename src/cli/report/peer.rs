//! perf_analyzer's exports as runs: tokens counted, requests in both views.

use super::object_at;
use super::sources::{Read, levels};
use crate::archive::{PerfExport, PerfRequest};
use crate::base::{Anchor, Ns};
use crate::config::TokenizerSpec;
use crate::stats::columns::line_up;
use crate::stats::genai_perf::{PeerRequest, PeerRun};
use crate::stats::{
    AccumulateOptions, Accumulator, Columns, Failure, FailureKind, Record, Recorded, Row, Stage,
    Value,
};
use crate::view::tell;
use crate::workload::{Hub, Tokenizer, TokenizerChoice};
use serde_json::Map;
use std::path::Path;

/// What counts tokens, loaded when it is first needed.
pub(super) struct Counter {
    spec: TokenizerSpec,
    loaded: Option<(Tokenizer, TokenizerChoice)>,
}

/// Tokens of each side of a request; absent where nobody can say.
type Counts = (Option<u64>, Option<u64>);

impl Counter {
    /// Of `--tokenizer`.
    pub(super) fn new(asked: Option<&str>) -> Counter {
        Counter {
            spec: match asked {
                None => TokenizerSpec::default(),
                Some("builtin") => TokenizerSpec::builtin(),
                Some(name) => TokenizerSpec::named(name),
            },
            loaded: None,
        }
    }

    fn load(&mut self, model: &str) -> Result<&(Tokenizer, TokenizerChoice), String> {
        let loaded = match self.loaded.take() {
            Some(loaded) => loaded,
            None => {
                let model = Some(model).filter(|model| !model.is_empty());
                let hub = Hub::from_env(self.spec.token.as_deref());
                Tokenizer::load(&self.spec, model, &hub, &mut |_| {})
                    .map_err(|error| error.to_string())?
            }
        };
        Ok(self.loaded.insert(loaded))
    }

    /// Counts of every request, and what they are by. Unless a tokenizer was asked for, counts
    /// that the run's own summary says to be all the same are taken from it: they are exact, and
    /// the tokenizer that made them may not be here.
    fn counts(
        &mut self,
        export: &PerfExport,
        beside: &Map<String, serde_json::Value>,
    ) -> Result<(Vec<Counts>, String), String> {
        let is_asked = self.spec != TokenizerSpec::default();
        let own = |key: &str| same(beside, key).filter(|_| !is_asked);
        let (input, output) = (own("input_sequence_length"), own("output_sequence_length"));
        if let (Some(input), Some(output)) = (input, output) {
            let counts = vec![(Some(input), Some(output)); export.requests.len()];
            return Ok((
                counts,
                "the run's own summary, where all are the same".into(),
            ));
        }
        let (tokenizer, choice) = self.load(&export.model)?;
        let count = |text: &str| (!text.is_empty()).then(|| tokenizer.count(text) as u64);
        let counts = |request: &PerfRequest| {
            let input = input.or_else(|| count(&request.input));
            (input, output.or_else(|| count(&request.output)))
        };
        let mut by = choice.name.clone();
        if choice.stands_in {
            tell(&format!(
                "warning: the tokenizer of {} is not here: {by} counts instead of it; \
                 --tokenizer names another",
                if export.model.is_empty() {
                    "the run"
                } else {
                    &export.model
                },
            ));
            by.push_str(" in the place of the model's own");
        }
        for (side, own) in [("input", input), ("output", output)] {
            if own.is_some() {
                by.push_str(&format!(
                    "; {side}: the run's own summary, where all are the same"
                ));
            }
        }
        Ok((export.requests.iter().map(counts).collect(), by))
    }
}

/// A count that a summary has for every request alike.
fn same(beside: &Map<String, serde_json::Value>, key: &str) -> Option<u64> {
    let metric = beside.get(key)?;
    let (min, max) = (metric["min"].as_f64()?, metric["max"].as_f64()?);
    let is_count = min == max && (0.0..1e9).contains(&min) && min.fract() == 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number below 1e9"
    )]
    is_count.then_some(min as u64)
}

/// Reads an export. Reasoning is content in our definitions and none in GenAI-Perf's.
pub(super) fn read(
    path: &Path,
    counter: &mut Counter,
    is_peer: bool,
    goodput: &[(String, f64)],
) -> Result<Read, String> {
    let export = PerfExport::open(path, !is_peer).map_err(|error| error.to_string())?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let beside = object_at(&path.with_file_name(format!("{name}_genai_perf.json")));
    let (counts, by) = counter.counts(&export, &beside)?;
    let levels = levels(&beside);
    let failed = export
        .requests
        .iter()
        .filter(|request| request.has_failed)
        .count();
    let mut notes = Vec::new();
    if failed > 0 {
        notes.push(format!("{failed} streams said that they failed"));
    }
    let goodput = if goodput.is_empty() { &levels } else { goodput };
    Ok(Read {
        source: path.into(),
        base: Map::new(),
        recorded: match is_peer {
            true => Recorded::default(),
            false => recorded(&export, &counts, goodput),
        },
        peer: peer_run(&export, &counts),
        is_streaming: export.is_streaming,
        levels,
        counted_by: Some(by),
        notes,
        beside,
    })
}

fn peer_run(export: &PerfExport, counts: &[Counts]) -> PeerRun {
    let request = |(request, (input, output)): (&PerfRequest, &Counts)| {
        let times = &request.content_ns;
        Some(PeerRequest {
            start_ns: request.start_ns,
            first_ns: *times.first()?,
            second_ns: times.get(1).copied(),
            end_ns: *times.last()?,
            input: *input,
            output: *output,
        })
    };
    PeerRun {
        kept: export
            .requests
            .iter()
            .zip(counts)
            .filter_map(request)
            .collect(),
        count: export.requests.len() as u64,
    }
}

/// The requests as records of ours, so that all of our definitions hold for them.
fn recorded(export: &PerfExport, counts: &[Counts], goodput: &[(String, f64)]) -> Recorded {
    let anchor = Anchor::at(Ns::ZERO, 0);
    let definitions = Accumulator::new(AccumulateOptions {
        streaming: export.is_streaming,
        goodput: goodput.to_vec(),
        anchor,
        concurrency: None,
        capped: false,
        phases: Vec::new(),
    });
    let mut out = Recorded {
        columns: Columns::of_requests(),
        ..Recorded::default()
    };
    let mut line = Vec::new();
    for (index, (request, counts)) in export.requests.iter().zip(counts).enumerate() {
        let record = record(index as u64, export.is_streaming, request, *counts);
        let values = definitions.per_record(&record);
        line_up(&values, &mut line);
        out.columns.push(Row::of(&record, anchor), &line);
        let gaps = values.into_iter().find_map(|(_, value)| match value {
            Value::List(gaps) => Some(gaps),
            _ => None,
        });
        out.gaps.push(gaps.unwrap_or_default());
    }
    out
}

fn record(index: u64, streamed: bool, request: &PerfRequest, (input, output): Counts) -> Record {
    let times: Vec<Ns> = request.content_ns.iter().map(|at| Ns(*at)).collect();
    let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    let start = Ns(request.start_ns);
    let mut record = Record {
        index,
        due: start,
        slot: start,
        start,
        first_content: times.first().copied(),
        first_output: times.first().copied(),
        second_content: times.get(1).copied(),
        last_content: times.last().copied(),
        done: times.last().copied().unwrap_or(start),
        streamed,
        ..Record::default()
    };
    record.tokens.input = input.map(count);
    record.tokens.output = output.map(count);
    if times.is_empty() || request.has_failed {
        let name = if request.has_failed {
            "stream_error"
        } else {
            "no_content"
        };
        record.failure = Some(Box::new(Failure {
            kind: FailureKind::Stream,
            stage: Stage::Stream,
            code: 0,
            name: name.into(),
            message: name.into(),
            after: None,
        }));
    }
    record.buffers.content_times = times;
    record
}
