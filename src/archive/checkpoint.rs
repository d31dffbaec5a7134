//! The checkpoint of a sweep: what is over, so that only the rest is run after a crash, a signal or
//! a lost server.
//!
//! One JSON document, a run to a line, whole by rename. Of one that was cut nevertheless (a copy, a
//! file system that lost its end) the whole lines count.

use super::ArchiveError;
use crate::stats::many::RunRecord;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Version of the format; 2 names GPUs where 1 had their index.
const FORMAT: u32 = 2;
/// The file's name.
pub const CHECKPOINT: &str = "checkpoint.json";
/// Bytes that are read at the most: a thousand runs have some 20 MB.
const BYTES_MAX: u64 = 256 << 20;
/// What stands between the head and the runs.
const RUNS: &str = ",\"runs\":[";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    format: u32,
    version: String,
    seed: u64,
    fingerprint: Map<String, Value>,
}

/// What is over of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    path: PathBuf,
    head: Head,
    runs: Vec<RunRecord>,
}

impl Checkpoint {
    /// Of a sweep with this fingerprint and seed of which nothing is over yet; writes nothing.
    pub fn new(folder: &Path, fingerprint: Map<String, Value>, seed: u64) -> Checkpoint {
        Checkpoint {
            path: folder.join(CHECKPOINT),
            head: Head {
                format: FORMAT,
                version: env!("CARGO_PKG_VERSION").into(),
                seed,
                fingerprint,
            },
            runs: Vec::new(),
        }
    }

    /// The one in `folder`, if there is one. Errors: it cannot be read, or is of another version.
    pub fn read(folder: &Path) -> Result<Option<Checkpoint>, String> {
        let path = folder.join(CHECKPOINT);
        let shown = path.display().to_string();
        let mut text = Vec::new();
        match path.metadata() {
            Ok(found) if !found.is_file() => {
                return Err(format!("{shown}: no regular file; move it away"));
            }
            Ok(found) if found.len() > BYTES_MAX => {
                return Err(format!("{shown}: too large for a checkpoint; move it away"));
            }
            _ => {}
        }
        match std::fs::File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{shown}: {error}")),
            Ok(file) => file
                .take(BYTES_MAX)
                .read_to_end(&mut text)
                .map_err(|error| format!("{shown}: {error}"))?,
        };
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let head = head.strip_suffix(RUNS).map(|head| format!("{head}}}"));
        let head: Option<Value> = head.and_then(|head| serde_json::from_str(&head).ok());
        let Some(head) = head else {
            let text = "no checkpoint of ours; give another --checkpoint-dir, or move it away";
            return Err(format!("{shown}: {text}"));
        };
        let (format, version) = (&head["format"], &head["version"]);
        let ours = env!("CARGO_PKG_VERSION");
        if *format != FORMAT || *version != ours {
            return Err(format!(
                "{shown}: it is of version {} (format {format}), this is {ours} (format {FORMAT}): \
                 figures of two versions are not mixed; run without --resume to start anew",
                version.as_str().unwrap_or("?")
            ));
        }
        let head: Head = serde_json::from_value(head).map_err(|e| format!("{shown}: {e}"))?;
        let run = |line: &str| serde_json::from_str(line.trim_end_matches(',')).ok();
        Ok(Some(Checkpoint {
            runs: lines.map_while(run).collect(),
            path,
            head,
        }))
    }

    /// Is it one of a sweep with this fingerprint? Errors name the settings that differ.
    pub fn check(&self, fingerprint: &Map<String, Value>) -> Result<(), String> {
        let kept = &self.head.fingerprint;
        let mut names: Vec<&String> = kept.keys().chain(fingerprint.keys()).collect();
        names.sort();
        names.dedup();
        let shown = |value: Option<&Value>| match value.map(|value| (value, value.as_f64())) {
            None => "not given".into(),
            // 4.0 is what was typed as 4.
            Some((_, Some(number))) => number.to_string(),
            Some((value, None)) => value.to_string(),
        };
        let differs = |name: &&String| kept.get(*name) != fingerprint.get(*name);
        let told: Vec<String> = names
            .into_iter()
            .filter(differs)
            .map(|name| {
                let (then, now) = (shown(kept.get(name)), shown(fingerprint.get(name)));
                format!("{name}: {then} then, {now} now")
            })
            .collect();
        match told.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "--resume: {} is of other settings: {}; give the same, or run without --resume to \
                 start anew",
                self.path.display(),
                told.join("; ")
            )),
        }
    }

    /// Seed of the sweep.
    pub fn seed(&self) -> u64 {
        self.head.seed
    }

    /// Runs that are over, in their order.
    pub fn runs(&self) -> &[RunRecord] {
        &self.runs
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a run that is over, and writes. Errors: it could not be written; the run is held all
    /// the same.
    pub fn add(&mut self, run: RunRecord) -> Result<(), ArchiveError> {
        self.runs.push(run);
        self.write()
    }

    fn write(&self) -> Result<(), ArchiveError> {
        let fail = |error| ArchiveError::new(&self.path, "writing", error);
        let json = |error: serde_json::Error| fail(error.into());
        let head = serde_json::to_string(&self.head).map_err(json)?;
        let mut text = head.strip_suffix('}').unwrap_or(&head).to_string();
        text.push_str(RUNS);
        for (number, run) in self.runs.iter().enumerate() {
            text.push_str(if number == 0 { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(run).map_err(json)?);
        }
        text.push_str("\n]}\n");
        super::write_whole(&self.path, text.as_bytes())
    }

    /// Takes it away, since all is reported. One that was never written is no error.
    pub fn remove(&self) -> Result<(), ArchiveError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ArchiveError::new(&self.path, "removing", error))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Figures, MetricFigures};
    use serde_json::json;

    fn fingerprint(isl: u32) -> Map<String, Value> {
        Map::from_iter([
            ("isl".to_string(), isl.into()),
            ("model".into(), "m".into()),
        ])
    }

    fn run(label: &str) -> RunRecord {
        RunRecord {
            label: label.into(),
            values: vec![("concurrency".into(), 4.0)],
            figures: Figures(vec![MetricFigures {
                tag: "inter_token_latency".into(),
                unit: "ms".into(),
                stats: vec![("avg".into(), 20.202_020_202_020_204)],
            }]),
            ..RunRecord::default()
        }
    }

    #[test]
    fn what_is_over_is_read_back_to_the_last_digit() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Checkpoint::read(dir.path()), Ok(None));
        let mut made = Checkpoint::new(dir.path(), fingerprint(128), 7);
        made.add(run("a")).unwrap();
        made.add(run("b")).unwrap();
        // A stray file of a process that died is not looked at.
        std::fs::write(dir.path().join("checkpoint.json.tmp.1"), "{").unwrap();
        let read = Checkpoint::read(dir.path()).unwrap().unwrap();
        assert_eq!(read, made);
        assert_eq!((read.runs().len(), read.seed()), (2, 7));
        let text = std::fs::read_to_string(made.path()).unwrap();
        let whole: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(whole["runs"][1]["label"], json!("b"));
        read.remove().unwrap();
        read.remove().unwrap();
        assert_eq!(Checkpoint::read(dir.path()), Ok(None));
    }

    #[test]
    fn of_one_that_was_cut_the_whole_lines_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut made = Checkpoint::new(dir.path(), fingerprint(128), 7);
        for label in ["a", "b", "c"] {
            made.add(run(label)).unwrap();
        }
        let text = std::fs::read_to_string(made.path()).unwrap();
        let third = text.find("\"c\"").unwrap();
        std::fs::write(made.path(), &text[..third + 20]).unwrap();
        assert_eq!(
            Checkpoint::read(dir.path()).unwrap().unwrap().runs().len(),
            2
        );
        for cut in 0..text.find(RUNS).unwrap() {
            std::fs::write(made.path(), &text[..cut]).unwrap();
            let error = Checkpoint::read(dir.path()).unwrap_err();
            assert!(error.contains("no checkpoint of ours"), "{error}");
        }
    }

    #[test]
    fn another_version_and_other_settings_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut made = Checkpoint::new(dir.path(), fingerprint(128), 7);
        made.add(run("a")).unwrap();
        assert_eq!(made.check(&fingerprint(128)), Ok(()));
        let error = made.check(&fingerprint(256)).unwrap_err();
        assert!(error.contains("isl: 128 then, 256 now"), "{error}");
        let text = std::fs::read_to_string(made.path()).unwrap();
        let ours = env!("CARGO_PKG_VERSION");
        std::fs::write(made.path(), text.replacen(ours, "9.9.9", 1)).unwrap();
        let error = Checkpoint::read(dir.path()).unwrap_err();
        assert!(error.contains("version 9.9.9"), "{error}");
    }
}
