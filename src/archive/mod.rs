//! Run folders: opened before anything is sent, files whole by rename, never over an earlier run.
//! And what self-benchmarks have found, kept from run to run.
//!
//! Start at [`RunDir`] for writing and at [`RunFolder`] for reading. Writing knows nothing of what
//! the files say.

mod aside;
mod calibration;
mod checkpoint;
mod file;
mod lines;
mod name;
mod perf_analyzer;
mod runs;
mod sweeps;
mod workload;

pub use aside::put_aside;
pub use calibration::{Calibration, machine};
pub use checkpoint::{CHECKPOINT, Checkpoint};
pub use file::OutFile;
pub use name::run_name;
pub use perf_analyzer::{PERF_EXPORT, PerfExport, PerfRequest};
pub use runs::{Maker, RunColumns, RunError, RunFolder, RunRecords, SHARD, SHARD_ENDING};
pub use sweeps::{SWEEP, read_sweep};
pub use workload::{Difference, Workload};

use std::path::{Path, PathBuf};

/// Room for the summaries: together they have some 60 kB.
const ROOM_BYTES: u64 = 96 * 1024;

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
    /// Checks before a run that [`RunDir::open`] will find a folder that can be written and that no
    /// other run writes to. Makes, moves and leaves nothing.
    pub fn check(path: &Path, own: &[String]) -> Result<(), ArchiveError> {
        aside::earlier(path, own)?;
        let mut place = path;
        while !place.as_os_str().is_empty() && place.symlink_metadata().is_err() {
            place = place.parent().unwrap_or(Path::new(""));
        }
        match place.as_os_str().is_empty() {
            true => try_in(Path::new(".")),
            false => try_in(place),
        }
    }

    /// Makes the folder and checks that it can be written. A folder that holds files of a run is
    /// moved aside to `<name>.<its start time>` first, unless `overwrite` says to write over them;
    /// `own` are the names of the files to come.
    pub fn open(path: &Path, overwrite: bool, own: &[String]) -> Result<RunDir, ArchiveError> {
        let earlier = aside::earlier(path, own)?;
        if !earlier.is_empty() && !overwrite {
            aside::move_aside(path, &earlier)
                .map_err(|error| ArchiveError::new(path, "moving an earlier run aside", error))?;
        }
        std::fs::create_dir_all(path)
            .map_err(|error| ArchiveError::new(path, "making the folder", error))?;
        try_in(path)?;
        Ok(RunDir {
            path: path.to_path_buf(),
        })
    }

    /// Holds room on the disk for the summaries, so that no other file takes it during the run.
    /// Less where there is less, none where the file system cannot.
    pub fn reserve(&self) -> Room {
        let path = self.path.join(format!(".room{}", temporary_ending()));
        if let Ok(file) = std::fs::File::create(&path) {
            let flags = rustix::fs::FallocateFlags::empty();
            let mut bytes = ROOM_BYTES;
            while bytes >= ROOM_BYTES / 16 && rustix::fs::fallocate(&file, flags, 0, bytes).is_err()
            {
                bytes /= 2;
            }
        }
        Room { path }
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

/// Writes a whole file, and makes its folder.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ArchiveError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|error| ArchiveError::new(path, "making the folder", error))?;
    }
    let mut file = OutFile::open(path)?;
    file.write(bytes)?;
    file.finish()
}

/// Tries whether a folder takes a file; leaves nothing.
fn try_in(folder: &Path) -> Result<(), ArchiveError> {
    let opened = OutFile::open(&folder.join(".probe")).map(drop);
    opened.map_err(|error| ArchiveError::new(folder, "writing", error.source))
}

/// Room that is held until this is dropped.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
}

impl Drop for Room {
    fn drop(&mut self) {
        // Nothing else uses the name.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The ending of a file that is not finished: names its process.
fn temporary_ending() -> String {
    format!(".tmp.{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "profile_export_aiperf.json";

    fn names(path: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_earlier_run_is_moved_aside_and_nothing_is_lost() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("run");
        for n in 0..3 {
            let dir = RunDir::open(&path, false, &[]).unwrap();
            let mark = format!(r#"{{"start_time":"2026-11-30T01:56:20.4","n":{n}}}"#);
            dir.write(MARK, mark.as_bytes()).unwrap();
        }
        let first = "run.2026-11-30T01-56-20.4";
        let all = ["run".to_string(), first.to_string(), format!("{first}.1")];
        assert_eq!(names(parent.path()), all);
        RunDir::open(&path, true, &[]).unwrap();
        assert!(path.join(MARK).exists(), "overwrite moves nothing");
    }

    #[test]
    fn a_run_is_known_by_any_of_its_files_and_others_stay() {
        let own = ["foo.json".to_string(), "inputs.json".into()];
        for file in [
            "foo.json",
            "inputs.json",
            "bar.hlog",
            "profile_export.jsonl",
            "a.tmp.999999999",
        ] {
            let parent = tempfile::tempdir().unwrap();
            let path = parent.path().join("run");
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("notes.txt"), "").unwrap();
            RunDir::open(&path, false, &own).unwrap();
            assert_eq!(names(parent.path()), ["run"], "nobody's run");
            std::fs::write(path.join(file), "x").unwrap();
            RunDir::open(&path, false, &own).unwrap();
            assert_eq!(names(parent.path()).len(), 2, "{file}");
            assert!(names(&path).is_empty());
        }
    }

    #[test]
    fn a_link_stays_and_its_folder_is_moved() {
        let parent = tempfile::tempdir().unwrap();
        let (real, link) = (parent.path().join("real"), parent.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for _ in 0..2 {
            let dir = RunDir::open(&link, false, &[]).unwrap();
            dir.write(MARK, br#"{"start_time":"2026"}"#).unwrap();
        }
        assert_eq!(names(parent.path()), ["link", "real", "real.2026"]);
        assert!(link.is_symlink() && real.join(MARK).is_file());
    }

    #[test]
    fn a_folder_that_must_stay_keeps_the_run_inside() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join(MARK), r#"{"start_time":"2026"}"#).unwrap();
        std::fs::write(parent.path().join("notes.txt"), "").unwrap();
        // Of two runs in one second the second has a number.
        std::fs::create_dir(parent.path().join("2026")).unwrap();
        aside::move_inside(parent.path(), "2026", &[MARK.to_string()]).unwrap();
        assert_eq!(names(parent.path()), ["2026", "2026.1", "notes.txt"]);
        assert_eq!(names(&parent.path().join("2026.1")), [MARK]);
    }

    #[test]
    fn room_is_held_and_given_back() {
        let parent = tempfile::tempdir().unwrap();
        let dir = RunDir::open(parent.path(), false, &[]).unwrap();
        let room = dir.reserve();
        assert_eq!(names(parent.path()).len(), 1);
        drop(room);
        assert!(names(parent.path()).is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("file"), "").unwrap();
        let path = parent.path().join("file/run");
        for error in [
            RunDir::open(&path, false, &[]).unwrap_err(),
            RunDir::check(&path, &[]).unwrap_err(),
        ] {
            assert!(error.to_string().contains("--artifact-dir"), "{error}");
        }
    }

    #[test]
    fn a_check_before_the_run_leaves_all_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        RunDir::check(&parent.path().join("a/b"), &[]).unwrap();
        RunDir::check(Path::new("no/such"), &[]).unwrap();
        assert!(names(parent.path()).is_empty());
        std::fs::write(parent.path().join(MARK), "{}").unwrap();
        RunDir::check(parent.path(), &[]).unwrap();
        assert_eq!(names(parent.path()), [MARK]);
    }
}
