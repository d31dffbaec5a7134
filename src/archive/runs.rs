//! Run folders, read: figures, verdict, workload and requests of a run that lies on disk, of ours
//! or of AIPerf's.

use super::lines;
use super::workload::Workload;
use crate::stats::catalogue::Form;
use crate::stats::summary::Verdict;
use crate::stats::wire::{self, WireError};
use crate::stats::{Columns, Figures, MetricFigures, Recorded};
use serde_json::{Map, Value};
use std::io::Read;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The summary of a run, AIPerf's name; a prefix takes the place of all but its ending.
const SUMMARY: &str = "profile_export_aiperf.json";
/// The requests of a run as columns.
pub const SHARD: &str = "profile_export_records.bin";
/// Its ending after a prefix.
pub const SHARD_ENDING: &str = "_records.bin";
/// The requests of a run as lines.
const LINES: &str = "profile_export.jsonl";

/// Bytes of a summary: ours have some ten thousand, AIPerf's with the telemetry of many GPUs more.
const SUMMARY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a shard: as many values as one may unfold to.
const SHARD_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Files of a folder that are looked at for a summary under a prefix.
const CANDIDATES_MAX: usize = 64;
/// Entries that a look for runs below a folder goes through, and how deep.
const ENTRIES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 3;
/// Runs that an error lists.
const LISTED_MAX: usize = 20;

/// Why a folder is no run that can be read.
#[derive(Debug, Error)]
pub enum RunError {
    /// No summary is there.
    #[error(
        "no run in `{path}`: it has no {SUMMARY}, and no <prefix>.json of a run{}",
        listed(.below)
    )]
    Absent {
        /// What was asked for.
        path: String,
        /// Run folders below it.
        below: Vec<String>,
    },
    /// Several summaries with prefixes.
    #[error("several runs in `{path}`: name one of {}", .names.join(", "))]
    Several {
        /// What was asked for.
        path: String,
        /// Their files.
        names: Vec<String>,
    },
    /// A file is there and cannot be read.
    #[error("`{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is there and says something else.
    #[error("`{path}`: {what}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong with it.
        what: String,
    },
}

impl RunError {
    pub(super) fn content(path: &Path, what: impl Into<String>) -> RunError {
        RunError::Content {
            path: path.display().to_string(),
            what: what.into(),
        }
    }

    pub(super) fn io(path: &Path, source: std::io::Error) -> RunError {
        RunError::Io {
            path: path.display().to_string(),
            source,
        }
    }
}

fn listed(below: &[String]) -> String {
    match below.is_empty() {
        true => String::new(),
        false => format!("; runs below it: {}", below.join(", ")),
    }
}

/// The program that made a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// This one.
    Tokenring,
    /// NVIDIA's.
    Aiperf,
}

/// A run that lies on disk.
#[derive(Clone, Debug)]
pub struct RunFolder {
    /// The folder.
    pub path: PathBuf,
    /// Its summary.
    pub summary: PathBuf,
    /// Who made it.
    pub maker: Maker,
    /// Version of the maker.
    pub version: String,
    /// Version of the summary's schema.
    pub schema_version: String,
    /// All figures, those of `client` last; to the digit those that were written.
    pub figures: Figures,
    /// Can the client be believed? AIPerf does not say.
    pub verdict: Option<Verdict>,
    /// Codes of the reasons, worst first.
    pub reasons: Vec<String>,
    /// Every planned request was sent and ended; false where nothing is said.
    pub is_complete: bool,
    /// Somebody ended it.
    pub was_cancelled: bool,
    /// When it began, as written.
    pub start_time: Option<String>,
    /// What was asked of the server.
    pub workload: Workload,
}

/// The requests of a run.
#[derive(Clone, Debug)]
pub struct RunColumns {
    /// Measured requests in the order of recording.
    pub columns: Columns,
    /// Where they were read.
    pub source: PathBuf,
    /// What a reader must know: each a sentence.
    pub notes: Vec<String>,
}

impl RunFolder {
    /// Reads the summary of a run: `path` is its folder, or the summary itself.
    ///
    /// Cost: a small file; a folder without AIPerf's name is searched for others. Errors: it is no
    /// run (runs below are listed, for a sweep's folder), or its summary cannot be read.
    pub fn open(path: &Path) -> Result<RunFolder, RunError> {
        let (summary, document) = find(path)?;
        let text = |key: &str| document.get(key).and_then(Value::as_str).map(String::from);
        let (maker, version) = match (text("tokenring_version"), text("aiperf_version")) {
            (Some(version), _) => (Maker::Tokenring, version),
            (None, Some(version)) => (Maker::Aiperf, version),
            (None, None) => {
                let what = "neither of this program nor of AIPerf: no tokenring_version";
                return Err(RunError::content(&summary, what));
            }
        };
        let client = document.get("client").and_then(Value::as_object);
        let mut figures = figures(&document);
        figures.extend(client.map(self::figures).into_iter().flatten());
        let is_set = |key: &str| document.get(key).and_then(Value::as_bool) == Some(true);
        let said = |key: &str| client.and_then(|client| client.get(key));
        let reasons = said("reasons").and_then(Value::as_array);
        let codes = reasons
            .into_iter()
            .flatten()
            .filter_map(|r| r["code"].as_str());
        Ok(RunFolder {
            path: summary.parent().unwrap_or(Path::new("")).to_path_buf(),
            maker,
            version,
            schema_version: text("schema_version").unwrap_or_default(),
            figures: Figures(figures),
            verdict: said("verdict")
                .and_then(Value::as_str)
                .and_then(Verdict::of_name),
            reasons: codes.map(String::from).collect(),
            is_complete: is_set("is_complete"),
            was_cancelled: is_set("was_cancelled"),
            start_time: text("start_time"),
            workload: Workload::of(&document),
            summary,
        })
    }

    /// The requests of the run: from its shard, else from its lines; `None` when it has neither.
    ///
    /// A shard that is torn, or of another version, gives way to the lines, and a note says so.
    /// Cost: the whole file, in memory. Errors: the file that is left cannot be read.
    pub fn columns(&self) -> Result<Option<RunColumns>, RunError> {
        let mut notes = Vec::new();
        let (shard, lines) = self.records_paths();
        let has_lines = lines.is_file();
        if shard.is_file() {
            let why = match read_shard(&shard)? {
                Ok((columns, true)) => return Ok(Some(RunColumns::new(columns, shard, notes))),
                Ok((columns, false)) if !has_lines => {
                    let count = columns.len();
                    notes.push(format!(
                        "{} is torn: only its first {count} requests are here",
                        name_of(&shard)
                    ));
                    return Ok(Some(RunColumns::new(columns, shard, notes)));
                }
                Ok((_, false)) => "is torn".to_string(),
                Err(error) if has_lines => error.to_string(),
                Err(error) => return Err(RunError::content(&shard, error.to_string())),
            };
            let (shard, lines) = (name_of(&shard), name_of(&lines));
            notes.push(format!("{shard}: {why}; {lines} is read instead"));
        }
        if !has_lines {
            return Ok(None);
        }
        let (read, cut) = lines::read(&lines, false)?;
        notes.extend(cut);
        Ok(Some(RunColumns::new(read.columns, lines, notes)))
    }

    /// The requests with the times between their events, which only the lines have: from them,
    /// else from the shard; `None` when the run has neither. Cost and errors: as
    /// [`RunFolder::columns`].
    pub fn recorded(&self) -> Result<Option<RunRecords>, RunError> {
        let (shard, lines) = self.records_paths();
        match (lines.is_file(), shard.is_file()) {
            (true, _) => RunRecords::open(&lines).map(Some),
            (false, true) => RunRecords::open(&shard).map(Some),
            (false, false) => Ok(None),
        }
    }

    /// The summary as it was written. Errors: it cannot be read any more.
    pub fn document(&self) -> Result<Map<String, Value>, RunError> {
        read_document(&self.summary)
    }

    /// The values of a metric that is a list, such as the gaps between chunks, of each good
    /// request, and beside them the number that another metric has there. Nothing where the run
    /// has no lines: no other file has lists.
    ///
    /// Cost: the whole file, one line in memory. Errors: it cannot be read.
    pub fn lists(
        &self,
        list: &str,
        beside: &str,
        each: &mut dyn FnMut(&[f64], Option<f64>),
    ) -> Result<(), RunError> {
        let (_, lines) = self.records_paths();
        match lines.is_file() {
            true => lines::lists(&lines, (list, beside), each),
            false => Ok(()),
        }
    }

    /// Where the requests would be: the shard and the lines.
    fn records_paths(&self) -> (PathBuf, PathBuf) {
        let name = name_of(&self.summary);
        let prefix = name.strip_suffix(".json").filter(|_| name != SUMMARY);
        let (shard, lines) = match prefix {
            Some(prefix) => (format!("{prefix}{SHARD_ENDING}"), format!("{prefix}.jsonl")),
            None => (SHARD.into(), LINES.into()),
        };
        (self.path.join(shard), self.path.join(lines))
    }
}

/// The requests of a file.
#[derive(Clone, Debug)]
pub struct RunRecords {
    /// Measured requests in the order of recording.
    pub recorded: Recorded,
    /// Where they were read.
    pub source: PathBuf,
    /// What a reader must know: each a sentence.
    pub notes: Vec<String>,
}

impl RunRecords {
    /// Reads a file of requests: a shard by its ending, else lines. Cost: the whole file, in
    /// memory. Errors: it is neither, or a line in it is no request.
    pub fn open(path: &Path) -> Result<RunRecords, RunError> {
        let (recorded, notes) = if name_of(path).ends_with(".bin") {
            let read = read_shard(path)?;
            let (columns, is_whole) =
                read.map_err(|error| RunError::content(path, error.to_string()))?;
            let count = columns.len();
            let torn = format!("{} is torn: {count} requests are here", name_of(path));
            let recorded = Recorded {
                columns,
                ..Recorded::default()
            };
            (recorded, (!is_whole).then_some(torn))
        } else {
            lines::read(path, true)?
        };
        Ok(RunRecords {
            recorded,
            source: path.to_path_buf(),
            notes: notes.into_iter().collect(),
        })
    }
}

impl RunColumns {
    fn new(columns: Columns, source: PathBuf, notes: Vec<String>) -> RunColumns {
        RunColumns {
            columns,
            source,
            notes,
        }
    }
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The bytes of a regular file of at most so many.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, RunError> {
    let fail = |error| RunError::io(path, error);
    // Opening a pipe would wait for ever.
    let found = std::fs::metadata(path).map_err(fail)?;
    if !found.is_file() {
        return Err(RunError::content(path, "no regular file"));
    }
    let too_large = || RunError::content(path, format!("more than {bytes_max} bytes"));
    let mut bytes = Vec::new();
    let size = usize::try_from(found.len()).unwrap_or(usize::MAX);
    if found.len() > bytes_max || bytes.try_reserve_exact(size).is_err() {
        return Err(too_large());
    }
    let file = std::fs::File::open(path).map_err(fail)?;
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(too_large()),
        false => Ok(bytes),
    }
}

fn read_shard(path: &Path) -> Result<Result<(Columns, bool), WireError>, RunError> {
    Ok(wire::parse(&read_file(path, SHARD_BYTES_MAX)?))
}

pub(super) type Document = Map<String, Value>;

pub(super) fn read_document(path: &Path) -> Result<Document, RunError> {
    let bytes = read_file(path, SUMMARY_BYTES_MAX)?;
    serde_json::from_slice(&bytes).map_err(|error| RunError::content(path, format!("{error}")))
}

/// The summary that a path means.
fn find(path: &Path) -> Result<(PathBuf, Document), RunError> {
    if path.is_file() {
        return Ok((path.to_path_buf(), read_document(path)?));
    }
    let standard = path.join(SUMMARY);
    if standard.is_file() {
        let document = read_document(&standard)?;
        return Ok((standard, document));
    }
    let is_run = |name: &String| -> Option<(PathBuf, Document)> {
        let path = path.join(name);
        let document = read_document(&path).ok()?;
        let marks = ["tokenring_version", "schema_version", "input_config"];
        marks
            .iter()
            .all(|mark| document.contains_key(*mark))
            .then_some((path, document))
    };
    let names = prefixed(path);
    let mut found: Vec<(PathBuf, Document)> = names.iter().filter_map(is_run).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(RunError::Absent {
            path: path.display().to_string(),
            below: below(path),
        }),
        _ => Err(RunError::Several {
            path: path.display().to_string(),
            names: found
                .iter()
                .map(|(path, _)| path.display().to_string())
                .collect(),
        }),
    }
}

/// Names of files that may be summaries under a prefix.
fn prefixed(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.take(ENTRIES_MAX);
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_other = |name: &str| {
        name == "inputs.json" || name.ends_with("_genai_perf.json") || name == "profile_export.json"
    };
    let mut names: Vec<String> = names
        .filter(|name| name.ends_with(".json") && !is_other(name))
        .collect();
    names.sort();
    names.truncate(CANDIDATES_MAX);
    names
}

/// Run folders below one, in order, the first of them.
fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = ENTRIES_MAX;
    walk(folder, DEPTH_MAX, &mut left, &mut found);
    found
}

fn walk(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut folders = Vec::new();
    for entry in entries.flatten() {
        if *left == 0 {
            break;
        }
        *left -= 1;
        // No link is followed: it may lead back.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folders.push(entry.path());
        }
    }
    folders.sort();
    for folder in folders {
        if found.len() == LISTED_MAX {
            return;
        }
        if is_run(&folder) {
            found.push(folder.display().to_string());
        } else if depth > 1 {
            walk(&folder, depth - 1, left, found);
        }
    }
}

/// Has a folder a summary? By names only: a prefix is known by the log beside it.
fn is_run(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).is_file();
    let has_log = |name: &String| {
        let prefix = name.trim_end_matches(".json");
        has(&format!("{prefix}.hlog")) || has(&format!("{prefix}_console.txt"))
    };
    has(SUMMARY) || prefixed(folder).iter().any(has_log)
}

/// The members that are metrics: an object with a unit and statistics.
fn figures(document: &Document) -> Vec<MetricFigures> {
    let metric = |(tag, value): (&String, &Value)| {
        let members = value.as_object()?;
        let unit = members.get("unit")?.as_str()?.to_string();
        // A distribution has all statistics that there are.
        let stats = members
            .iter()
            .filter(|(name, _)| Form::Distribution.has(name));
        let stats: Vec<(String, f64)> = stats
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
            .collect();
        let tag = tag.clone();
        (!stats.is_empty()).then_some(MetricFigures { tag, unit, stats })
    };
    document.iter().filter_map(metric).collect()
}

#[cfg(test)]
#[path = "runs_tests.rs"]
mod tests;
