//! What a path of `report` means, and what is read of it.

use super::object_at;
use super::peer::{self, Counter};
use crate::archive::{PERF_EXPORT, PerfExport, RunError, RunFolder, RunRecords};
use crate::stats::Recorded;
use crate::stats::genai_perf::{PeerRun, is_level};
use crate::stats::recorded::peer_run;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Bytes of a summary that lies beside the requests.
pub(super) const BESIDE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Runs below a folder that are looked for, and how deep.
const DEPTH_MAX: usize = 3;

/// The requests that a path means.
pub(super) enum Source {
    /// perf_analyzer's export.
    Perf(PathBuf),
    /// A run's folder.
    Run(Box<RunFolder>),
    /// A run's file, and the run when it is known.
    File(PathBuf, Option<Box<RunFolder>>),
}

/// What was read.
pub(super) struct Read {
    /// The file of the requests.
    pub source: PathBuf,
    /// The run's `profile_export_aiperf.json`; empty where there is none.
    pub base: Map<String, Value>,
    /// Its `profile_export_genai_perf.json`; empty where there is none.
    pub beside: Map<String, Value>,
    /// Its requests as ours.
    pub recorded: Recorded,
    /// As GenAI-Perf sees them.
    pub peer: PeerRun,
    /// Answers came as streams.
    pub is_streaming: bool,
    /// Service levels that the run had.
    pub levels: Vec<(String, f64)>,
    /// What counted tokens, when this program did.
    pub counted_by: Option<String>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

impl Source {
    /// What a path means. A folder of ours that holds perf_analyzer's export too is read by the
    /// latter when GenAI-Perf's definitions are asked for (`wants_peer`).
    pub(super) fn find(path: &Path, wants_peer: bool) -> Result<Source, String> {
        if path.is_file() {
            let name = path.to_string_lossy();
            if PerfExport::is_at(path) {
                return Ok(Source::Perf(path.into()));
            }
            if name.ends_with(".bin") || name.ends_with(".jsonl") {
                let folder = path.parent().unwrap_or(Path::new(""));
                let run = RunFolder::open(folder).ok().map(Box::new);
                return Ok(Source::File(path.into(), run));
            }
            return opened(path);
        }
        let export = path.join(PERF_EXPORT);
        let has_export = PerfExport::is_at(&export);
        if has_export && wants_peer {
            return Ok(Source::Perf(export));
        }
        match opened(path) {
            Err(_) if has_export => Ok(Source::Perf(export)),
            result => result,
        }
    }

    pub(super) fn is_perf(&self) -> bool {
        matches!(self, Source::Perf(_))
    }

    /// Where the run lies.
    pub(super) fn folder(&self) -> PathBuf {
        let parent = |path: &Path| match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        match self {
            Source::Perf(path) | Source::File(path, _) => parent(path),
            Source::Run(run) => parent(&run.summary),
        }
    }

    /// Reads it. Errors name the file.
    pub(super) fn read(
        &self,
        counter: &mut Counter,
        is_peer: bool,
        goodput: &[(String, f64)],
    ) -> Result<Read, String> {
        match self {
            Source::Perf(path) => peer::read(path, counter, is_peer, goodput),
            Source::Run(run) => {
                let records = run.recorded().map_err(|error| error.to_string())?;
                let records = records.ok_or_else(|| {
                    format!(
                        "`{}`: no requests are recorded beside it; a run with --export-level \
                         records leaves them",
                        run.summary.display()
                    )
                })?;
                of_run(records, Some(run))
            }
            Source::File(path, run) => {
                let records = RunRecords::open(path).map_err(|error| error.to_string())?;
                of_run(records, run.as_deref())
            }
        }
    }
}

fn opened(path: &Path) -> Result<Source, String> {
    let text = |error: RunError| match error {
        RunError::Absent { .. } => format!("{error}; nor a {PERF_EXPORT} of perf_analyzer"),
        error => error.to_string(),
    };
    let run = RunFolder::open(path).map_err(text)?;
    Ok(Source::Run(Box::new(run)))
}

fn of_run(records: RunRecords, run: Option<&RunFolder>) -> Result<Read, String> {
    let (source, recorded) = (records.source, records.recorded);
    let columns = &recorded.columns;
    let has_figures = columns.metrics().any(|(tag, _)| columns.get(tag).is_some());
    let failed = columns.is_valid().iter().all(|is_valid| !is_valid);
    if columns.is_empty() || !has_figures && !failed {
        let path = source.display();
        return Err(format!(
            "`{path}`: no measured request with figures is in it"
        ));
    }
    let base = run.map(RunFolder::document).transpose();
    let base = base.map_err(|error| error.to_string())?.unwrap_or_default();
    let beside = run.map(|run| object_at(&beside(&run.summary)));
    let beside = beside.unwrap_or_default();
    Ok(Read {
        is_streaming: columns.get("time_to_first_token").is_some(),
        peer: peer_run(columns),
        levels: levels(&beside),
        counted_by: None,
        notes: records.notes,
        source,
        base,
        beside,
        recorded,
    })
}

/// GenAI-Perf's summary beside AIPerf's.
fn beside(summary: &Path) -> PathBuf {
    let name = summary.file_name().unwrap_or_default().to_string_lossy();
    match name.strip_suffix(".json") {
        Some(prefix) if prefix != "profile_export_aiperf" => {
            summary.with_file_name(format!("{prefix}_genai_perf.json"))
        }
        _ => summary.with_file_name("profile_export_genai_perf.json"),
    }
}

/// The service levels in the settings of a GenAI-Perf summary.
pub(super) fn levels(beside: &Map<String, Value>) -> Vec<(String, f64)> {
    let settings = beside.get("input_config").unwrap_or(&Value::Null);
    let levels = settings["input"]["goodput"].as_object();
    let level = |(tag, limit): (&String, &Value)| {
        let limit = limit.as_f64().filter(|_| is_level(tag))?;
        Some((tag.clone(), limit))
    };
    levels.into_iter().flatten().filter_map(level).collect()
}

/// Every perf_analyzer export below a folder, in order of their paths.
pub(super) fn below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut level = vec![folder.to_path_buf()];
    for _ in 0..DEPTH_MAX {
        let mut next = Vec::new();
        for folder in level {
            let export = folder.join(PERF_EXPORT);
            if PerfExport::is_at(&export) {
                found.push(export);
                continue;
            }
            let entries = std::fs::read_dir(&folder);
            let entries = entries.map_err(|error| format!("`{}`: {error}", folder.display()))?;
            // No link is followed: it may lead back.
            let folders = entries
                .flatten()
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
            next.extend(folders.map(|entry| entry.path()));
        }
        level = next;
    }
    found.sort();
    match found.is_empty() {
        true => Err(format!(
            "`{}`: no {PERF_EXPORT} of perf_analyzer below it",
            folder.display()
        )),
        false => Ok(found),
    }
}
