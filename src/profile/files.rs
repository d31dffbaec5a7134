//! The files of records: opened before the run, fed by the record thread.

use crate::archive::{ArchiveError, OutFile, PERF_EXPORT, Room, RunDir, SHARD, SHARD_ENDING};
use crate::config::{Config, ExportLevel};
use crate::endpoint::Endpoint;
use crate::report::RunInfo;
use crate::report::jsonl::{self, MetricOf, MetricValue};
use crate::report::perf_analyzer;
use crate::stats::columns::line_up;
use crate::stats::wire::Writer;
use crate::stats::{Accumulator, Columns, Metric, Phase, Record, Row, Value};

/// The files that grow with the run.
pub struct RecordFiles {
    records: Option<OutFile>,
    shard: Option<Shard>,
    raw: Option<OutFile>,
    perf: Option<PerfFile>,
    /// For the summaries, until they are written.
    room: Option<Room>,
    faults: Vec<String>,
    run: RunInfo,
    line: Vec<u8>,
}

/// perf_analyzer's export, until its end.
struct PerfFile {
    file: OutFile,
    tail: perf_analyzer::Tail,
    has_requests: bool,
}

/// The measured requests as columns, for sweeps and comparisons: they read it in an instant.
struct Shard {
    file: OutFile,
    writer: Writer,
    values: Vec<f64>,
    bytes: Vec<u8>,
}

/// Files of a run: AIPerf's names, and their endings after a prefix.
const NAMES: [(&str, &str); 16] = [
    ("profile_export_aiperf.json", ".json"),
    ("profile_export_aiperf.csv", ".csv"),
    ("profile_export_console.txt", "_console.txt"),
    ("profile_export.hlog", ".hlog"),
    ("profile_export_genai_perf.json", "_genai_perf.json"),
    ("profile_export_genai_perf.csv", "_genai_perf.csv"),
    ("profile_export_aiperf_timeslices.json", "_timeslices.json"),
    ("profile_export_aiperf_timeslices.csv", "_timeslices.csv"),
    ("profile_export.jsonl", ".jsonl"),
    ("profile_export_raw.jsonl", "_raw.jsonl"),
    (SHARD, SHARD_ENDING),
    (PERF_EXPORT, "_perf_analyzer.json"),
    GPU_SAMPLES,
    (SERVER_JSON, "_server_metrics.json"),
    (SERVER_CSV, "_server_metrics.csv"),
    (SERVER_JSONL, "_server_metrics.jsonl"),
];

/// The file of the GPUs' samples.
pub const GPU_SAMPLES: (&str, &str) = ("gpu_telemetry_export.jsonl", "_gpu_telemetry.jsonl");
/// What the servers say of themselves.
pub const SERVER_JSON: &str = "server_metrics_export.json";
/// The same as tables.
pub const SERVER_CSV: &str = "server_metrics_export.csv";
/// Every scrape of their pages.
pub const SERVER_JSONL: &str = "server_metrics_export.jsonl";

/// The names of all files that a run may write.
pub fn names(config: &Config) -> Vec<String> {
    let exported = NAMES
        .iter()
        .map(|(standard, ending)| file_name(config, standard, ending));
    exported.chain([INPUTS.to_string()]).collect()
}

/// The file of request bodies; no prefix changes its name.
pub const INPUTS: &str = "inputs.json";

/// The name of an exported file: with a prefix, the prefix takes the place of AIPerf's own name.
pub fn file_name(config: &Config, standard: &str, ending: &str) -> String {
    match &config.export_prefix {
        Some(prefix) => format!("{prefix}{ending}"),
        None => standard.to_string(),
    }
}

impl RecordFiles {
    /// Opens what the export level asks for; nothing without a folder.
    pub fn open(
        dir: Option<&RunDir>,
        config: &Config,
        run: RunInfo,
    ) -> Result<RecordFiles, String> {
        let open = |level, standard: &str, ending: &str| {
            let dir = dir.filter(|_| config.export_level >= level);
            dir.map(|dir| dir.file(&file_name(config, standard, ending)))
                .transpose()
                .map_err(|error| error.to_string())
        };
        Ok(RecordFiles {
            records: open(ExportLevel::Records, "profile_export.jsonl", ".jsonl")?,
            shard: open(ExportLevel::Records, SHARD, SHARD_ENDING)?.map(Shard::new),
            raw: open(ExportLevel::Raw, "profile_export_raw.jsonl", "_raw.jsonl")?,
            perf: PerfFile::open(dir, config).map_err(|error| error.to_string())?,
            room: dir.map(RunDir::reserve),
            faults: Vec::new(),
            run,
            line: Vec::new(),
        })
    }

    /// Writes one request. A file that takes no more ends there; the others go on.
    pub fn write(&mut self, record: &Record, metrics: &Accumulator) {
        if self.records.is_some() || self.shard.is_some() {
            let values = metrics.per_record(record);
            self.write_shard(record, &values);
            if let Some(file) = self.records.take() {
                let each = |(metric, value): (&'static Metric, Value)| -> MetricOf<'_> {
                    (metric.tag, metric.unit, value_of(value))
                };
                let metrics: Vec<MetricOf<'_>> = values.into_iter().map(each).collect();
                self.line.clear();
                jsonl::record_line(record, &metrics, &self.run, &mut self.line);
                self.records = append(file, &self.line, &mut self.faults);
            }
        }
        if let Some(file) = self.raw.take() {
            self.line.clear();
            jsonl::raw_line(record, &self.run, &mut self.line);
            self.raw = append(file, &self.line, &mut self.faults);
        }
        self.write_perf(record);
    }

    /// A part of a JSON document is none: it is lost, and told.
    fn write_perf(&mut self, record: &Record) {
        let Some(perf) = self
            .perf
            .as_mut()
            .filter(|_| record.phase == Phase::Profiling)
        else {
            return;
        };
        self.line.clear();
        if perf.has_requests {
            self.line.push(b',');
        }
        perf.has_requests = true;
        perf.tail.add(record, &self.run);
        perf_analyzer::request(record, &self.run, &mut self.line);
        if let Err(error) = perf.file.write(&self.line) {
            self.faults.push(error.to_string());
            self.perf = None;
        }
    }

    /// What a full disk leaves of a shard is of no use beside the lines: it is lost, and told.
    fn write_shard(&mut self, record: &Record, values: &[(&'static Metric, Value)]) {
        let Some(shard) = self
            .shard
            .as_mut()
            .filter(|_| record.phase == Phase::Profiling)
        else {
            return;
        };
        if let Err(error) = shard.push(Row::of(record, self.run.anchor), values) {
            self.faults.push(error.to_string());
            self.shard = None;
        }
    }

    /// Gives the room of the summaries free.
    pub fn free_room(&mut self) {
        self.room = None;
    }

    /// Gives the files their names; says what is missing, file by file.
    pub fn finish(mut self) -> Vec<String> {
        for file in [self.records, self.raw].into_iter().flatten() {
            let result = file.finish_lines(false);
            self.faults
                .extend(result.err().map(|error| error.to_string()));
        }
        let shard = self.shard.map_or(Ok(()), Shard::finish);
        let perf = self.perf.map_or(Ok(()), PerfFile::finish);
        let lost = shard.err().into_iter().chain(perf.err());
        self.faults.extend(lost.map(|error| error.to_string()));
        self.faults
    }
}

impl PerfFile {
    fn open(dir: Option<&RunDir>, config: &Config) -> Result<Option<PerfFile>, ArchiveError> {
        let Some(dir) = dir.filter(|_| config.keeps_events()) else {
            return Ok(None);
        };
        let mut file = dir.file(&file_name(config, PERF_EXPORT, "_perf_analyzer.json"))?;
        file.write(&perf_analyzer::head(config))?;
        let model = config.model.as_deref().unwrap_or_default();
        let own = || Endpoint::of(config).path(config.streaming, model);
        let path = config.path.clone().unwrap_or_else(own);
        Ok(Some(PerfFile {
            file,
            tail: perf_analyzer::Tail::new(path.trim_start_matches('/')),
            has_requests: false,
        }))
    }

    fn finish(mut self) -> Result<(), ArchiveError> {
        self.file.write(&self.tail.bytes())?;
        self.file.finish()
    }
}

impl Shard {
    fn new(file: OutFile) -> Shard {
        let mut bytes = Vec::new();
        Shard {
            file,
            writer: Writer::new(Columns::of_requests(), &mut bytes),
            values: Vec::new(),
            bytes,
        }
    }

    fn push(&mut self, row: Row, values: &[(&'static Metric, Value)]) -> Result<(), ArchiveError> {
        line_up(values, &mut self.values);
        self.writer.push(row, &self.values, &mut self.bytes);
        let written = self.file.write(&self.bytes);
        self.bytes.clear();
        written
    }

    fn finish(mut self) -> Result<(), ArchiveError> {
        self.writer.finish(&mut self.bytes);
        self.file.write(&self.bytes)?;
        self.file.finish()
    }
}

/// Appends a line; after an error the file ends with its last whole one.
fn append(mut file: OutFile, line: &[u8], faults: &mut Vec<String>) -> Option<OutFile> {
    let Err(error) = file.write(line) else {
        return Some(file);
    };
    faults.push(error.to_string());
    let kept = file.finish_lines(true);
    faults.extend(kept.err().map(|error| error.to_string()));
    None
}

fn value_of(value: Value) -> MetricValue {
    match value {
        Value::Number(number) => MetricValue::Number(number),
        Value::Integer(count) => MetricValue::Integer(count),
        Value::List(list) => MetricValue::List(list),
    }
}
