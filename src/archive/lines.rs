//! The requests of a run from its lines, `profile_export.jsonl`, ours and AIPerf's.

use super::runs::RunError;
use crate::stats::wire::METRICS_MAX;
use crate::stats::{Columns, Recorded, Row};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a line: 100,000 gaps between chunks have 2 MB.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The metric that is a list: what lies between the events of an answer.
const GAPS: &str = "inter_chunk_latency";
/// Values that are held: 4 GiB.
const VALUES_MAX: usize = 1 << 29;

#[derive(Deserialize)]
struct Line<'a> {
    metadata: Metadata,
    #[serde(borrow, default)]
    metrics: Members<'a>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    session_num: u64,
    request_start_ns: u64,
    request_end_ns: u64,
    #[serde(default)]
    benchmark_phase: Option<String>,
    #[serde(default)]
    was_cancelled: bool,
}

#[derive(Deserialize)]
struct Metric<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(default)]
    unit: std::borrow::Cow<'a, str>,
}

/// The metrics of a line in their order.
#[derive(Default)]
struct Members<'a>(Vec<(String, Metric<'a>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metrics")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(Members(all))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// Columns as lines fill them.
#[derive(Default)]
struct Gather {
    columns: Columns,
    places: HashMap<String, usize>,
    values: Vec<f64>,
    /// The gaps of each request, when they are asked for; and how many in all.
    gaps: Option<Vec<Vec<f64>>>,
    gaps_count: usize,
    cancelled: u64,
}

impl Gather {
    /// Adds a line's request, unless it warmed up.
    fn push(&mut self, line: &Line<'_>) {
        if line.metadata.benchmark_phase.as_deref() == Some("warmup") {
            return;
        }
        self.values.fill(f64::NAN);
        self.keep_gaps(line);
        self.cancelled += u64::from(line.metadata.was_cancelled);
        for (tag, metric) in &line.metrics.0 {
            // Lists have no column.
            let number = metric.value.get().parse::<f64>();
            let Some(number) = number.ok().filter(|number| number.is_finite()) else {
                continue;
            };
            let place = match self.places.get(tag) {
                Some(place) => *place,
                None if self.places.len() == METRICS_MAX => continue,
                None => {
                    let place = self.columns.add_metric(tag, &metric.unit);
                    self.places.insert(tag.clone(), place);
                    self.values.push(f64::NAN);
                    place
                }
            };
            self.values[place] = number;
        }
        let row = Row {
            index: line.metadata.session_num,
            start_ns: line.metadata.request_start_ns,
            end_ns: line.metadata.request_end_ns,
            is_valid: line.error.is_none(),
        };
        self.columns.push(row, &self.values);
    }

    fn done(self) -> Recorded {
        Recorded {
            columns: self.columns,
            gaps: self.gaps.unwrap_or_default(),
            cancelled: self.cancelled,
        }
    }

    fn keep_gaps(&mut self, line: &Line<'_>) {
        let Some(all) = &mut self.gaps else {
            return;
        };
        let found = line.metrics.0.iter().find(|(tag, _)| tag == GAPS);
        let read = |(_, metric): &(String, Metric<'_>)| serde_json::from_str(metric.value.get());
        let gaps: Vec<f64> = found.and_then(|f| read(f).ok()).unwrap_or_default();
        self.gaps_count += gaps.len();
        all.push(gaps);
    }

    fn is_full(&self) -> bool {
        self.columns.len() * (self.places.len() + 4) + self.gaps_count > VALUES_MAX
    }
}

/// All measured requests, numbered by their sessions, and what is to be said of the file;
/// `with_gaps` keeps the times between events too. Errors: a line that is none of a request; the
/// last one may be cut off.
pub(super) fn read(path: &Path, with_gaps: bool) -> Result<(Recorded, Option<String>), RunError> {
    let file = File::open(path).map_err(|error| RunError::io(path, error))?;
    let gather = Gather {
        gaps: with_gaps.then(Vec::new),
        ..Gather::default()
    };
    read_lines(BufReader::with_capacity(1 << 20, file), path, gather)
}

fn read_lines(
    file: impl BufRead,
    path: &Path,
    mut gather: Gather,
) -> Result<(Recorded, Option<String>), RunError> {
    let cut = each_line(file, path, &mut |line| {
        gather.push(line);
        !gather.is_full()
    })?;
    Ok((gather.done(), cut))
}

/// What a metric that is a list has in each good request, with the number that another has there.
/// Errors: as [`read`].
pub(super) fn lists(
    path: &Path,
    (list, beside): (&str, &str),
    each: &mut dyn FnMut(&[f64], Option<f64>),
) -> Result<(), RunError> {
    let file = File::open(path).map_err(|error| RunError::io(path, error))?;
    let file = BufReader::with_capacity(1 << 20, file);
    each_line(file, path, &mut |line| {
        let is_measured = line.metadata.benchmark_phase.as_deref() != Some("warmup");
        let find = |tag: &str| line.metrics.0.iter().find(|(name, _)| name == tag);
        if let (Some((_, metric)), true) = (find(list), is_measured && line.error.is_none())
            && let Ok(values) = serde_json::from_str::<Vec<f64>>(metric.value.get())
        {
            let number = find(beside).and_then(|(_, metric)| metric.value.get().parse().ok());
            each(&values, number);
        }
        true
    })?;
    Ok(())
}

/// Gives each line to `take`, which says whether there is room for more. Gives a sentence when the
/// last line is cut off.
fn each_line(
    mut file: impl BufRead,
    path: &Path,
    take: &mut dyn FnMut(&Line<'_>) -> bool,
) -> Result<Option<String>, RunError> {
    let (mut line, mut number) = (Vec::new(), 0u64);
    loop {
        line.clear();
        number += 1;
        let read = (&mut file)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if read.map_err(|error| RunError::io(path, error))? == 0 {
            return Ok(None);
        }
        let is_cut = line.last() != Some(&b'\n');
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Line<'_>>(&line) {
            Ok(line) if take(&line) => {}
            Ok(_) => {
                let what = format!("more than {VALUES_MAX} values");
                return Err(RunError::content(path, what));
            }
            Err(_) if is_cut && (line.len() as u64) < LINE_BYTES_MAX => {
                let note = format!("line {number} is cut off: the requests before it are here");
                return Ok(Some(note));
            }
            Err(error) => {
                let what = format!("line {number} is no request: {error}");
                return Err(RunError::content(path, what));
            }
        }
    }
}
