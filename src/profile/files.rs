//! The files of records: opened before the run, fed by the record thread.

use crate::archive::{OutFile, RunDir};
use crate::config::{Config, ExportLevel};
use crate::report::RunInfo;
use crate::report::jsonl::{self, MetricOf, MetricValue};
use crate::stats::{Accumulator, Record, Value};

/// The files that grow with the run.
pub struct RecordFiles {
    records: Option<OutFile>,
    raw: Option<OutFile>,
    run: RunInfo,
    line: Vec<u8>,
}

/// The name of an exported file: with a prefix, the prefix takes the place of AIPerf's own name.
pub fn file_name(config: &Config, standard: &str, ending: &str) -> String {
    match &config.export_prefix {
        Some(prefix) => format!("{prefix}{ending}"),
        None => standard.to_string(),
    }
}

impl RecordFiles {
    /// Opens what the export level asks for.
    pub fn open(dir: &RunDir, config: &Config, run: RunInfo) -> Result<RecordFiles, String> {
        let open = |level, standard: &str, ending: &str| match config.export_level >= level {
            true => dir
                .file(&file_name(config, standard, ending))
                .map(Some)
                .map_err(|error| error.to_string()),
            false => Ok(None),
        };
        Ok(RecordFiles {
            records: open(ExportLevel::Records, "profile_export.jsonl", ".jsonl")?,
            raw: open(ExportLevel::Raw, "profile_export_raw.jsonl", "_raw.jsonl")?,
            run,
            line: Vec::new(),
        })
    }

    /// Writes one request. After an error the file is given up.
    pub fn write(&mut self, record: &Record, metrics: &Accumulator) -> Result<(), String> {
        if self.records.is_none() && self.raw.is_none() {
            return Ok(());
        }
        let mut result = Ok(());
        if let Some(file) = &mut self.records {
            let metrics: Vec<MetricOf<'_>> = metrics
                .per_record(record)
                .into_iter()
                .map(|(metric, value)| (metric.tag, metric.unit, value_of(value)))
                .collect();
            self.line.clear();
            jsonl::record_line(record, &metrics, &self.run, &mut self.line);
            result = file.write(&self.line);
        }
        if let (Ok(()), Some(file)) = (&result, &mut self.raw) {
            self.line.clear();
            jsonl::raw_line(record, &self.run, &mut self.line);
            result = file.write(&self.line);
        }
        result.map_err(|error| {
            self.records = None;
            self.raw = None;
            error.to_string()
        })
    }

    /// Gives the files their names.
    pub fn finish(self) -> Result<(), String> {
        for file in [self.records, self.raw].into_iter().flatten() {
            file.finish().map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn value_of(value: Value) -> MetricValue {
    match value {
        Value::Number(number) => MetricValue::Number(number),
        Value::Integer(count) => MetricValue::Integer(count),
        Value::List(list) => MetricValue::List(list),
    }
}
