//! Run folders: opened before anything is sent, files whole by rename, never over an earlier run.
//!
//! Start at [`RunDir`]. It knows nothing of what the files say.

mod file;
mod name;

pub use file::OutFile;
pub use name::run_name;

use std::path::{Path, PathBuf};

/// The file that makes a folder an earlier run's.
const MARK: &str = "profile_export_aiperf.json";

/// Why a folder or file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("--artifact-dir: {path}: {action}: {source}; give a folder that can be written")]
pub struct ArchiveError {
    /// What was touched.
    pub path: String,
    /// What was tried.
    pub action: &'static str,
    /// What the system said.
    pub source: std::io::Error,
}

impl ArchiveError {
    fn new(path: &Path, action: &'static str, source: std::io::Error) -> ArchiveError {
        ArchiveError {
            path: path.display().to_string(),
            action,
            source,
        }
    }
}

/// The folder of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes the folder and checks that it can be written. A folder that holds a run is moved
    /// aside to `<name>.<its start time>` first, or emptied of the marks of that run by writing
    /// over them with `overwrite`.
    pub fn open(path: &Path, overwrite: bool) -> Result<RunDir, ArchiveError> {
        if path.join(MARK).is_file() && !overwrite {
            let aside = aside(path);
            std::fs::rename(path, &aside)
                .map_err(|error| ArchiveError::new(path, "moving an earlier run aside", error))?;
        }
        std::fs::create_dir_all(path)
            .map_err(|error| ArchiveError::new(path, "making the folder", error))?;
        let dir = RunDir {
            path: path.to_path_buf(),
        };
        // Opened and dropped: leaves nothing.
        dir.file(".probe")?;
        Ok(dir)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file that appears under its name when it is finished.
    pub fn file(&self, name: &str) -> Result<OutFile, ArchiveError> {
        OutFile::open(&self.path.join(name))
    }

    /// Writes a whole file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ArchiveError> {
        let mut file = self.file(name)?;
        file.write(bytes)?;
        file.finish()
    }
}

/// The name that an earlier run is moved to: by its start time, else by its file's time.
fn aside(path: &Path) -> PathBuf {
    let text = std::fs::read(path.join(MARK)).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let start = value["start_time"]
        .as_str()
        .unwrap_or("earlier")
        .replace(':', "-");
    let base = format!(
        "{}.{start}",
        path.display().to_string().trim_end_matches('/')
    );
    (0..)
        .map(|n| {
            PathBuf::from(if n == 0 {
                base.clone()
            } else {
                format!("{base}.{n}")
            })
        })
        .find(|candidate| !candidate.exists())
        .unwrap_or_else(|| PathBuf::from(base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_run_is_moved_aside_and_nothing_is_lost() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        for n in 0..3 {
            let dir = RunDir::open(&path, false).unwrap();
            let mark = format!(r#"{{"start_time":"2026-11-30T01:56:20.4","n":{n}}}"#);
            dir.write(MARK, mark.as_bytes()).unwrap();
        }
        let mut names: Vec<String> = std::fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let first = "run.2026-11-30T01-56-20.4";
        assert_eq!(
            names,
            ["run".to_string(), first.to_string(), format!("{first}.1")]
        );
        RunDir::open(&path, true).unwrap();
        assert!(path.join(MARK).exists(), "overwrite moves nothing");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("file"), "").unwrap();
        let error = RunDir::open(&parent.path().join("file/run"), false).unwrap_err();
        assert!(error.to_string().contains("--artifact-dir"), "{error}");
    }
}
