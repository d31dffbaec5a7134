//! A file that is there whole or not at all; a file of lines, as many whole lines as there was room
//! for.

use super::ArchiveError;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How much is read at a time on the way back to the last line end.
const STEP_BYTES: u64 = 64 * 1024;

/// An open file under a temporary name in its folder.
#[derive(Debug)]
pub struct OutFile {
    writer: Option<BufWriter<File>>,
    path: PathBuf,
    temporary: PathBuf,
}

impl OutFile {
    /// Opens the file that will be at `path`.
    pub fn open(path: &Path) -> Result<OutFile, ArchiveError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(super::temporary_ending());
        let temporary = path.with_file_name(name);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(|error| ArchiveError::new(path, "opening", error))?;
        let writer = Some(BufWriter::with_capacity(256 * 1024, file));
        Ok(OutFile {
            writer,
            path: path.to_path_buf(),
            temporary,
        })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ArchiveError> {
        let written = self
            .writer
            .as_mut()
            .map_or(Ok(()), |writer| writer.write_all(bytes));
        written.map_err(|error| ArchiveError::new(&self.path, "writing", error))
    }

    /// Flushes, checks, and gives the file its name. A full disk shows itself here at the latest:
    /// a dropped buffer would hide it.
    pub fn finish(mut self) -> Result<(), ArchiveError> {
        let fail = |error| ArchiveError::new(&self.path, "writing", error);
        if let Some(mut writer) = self.writer.take() {
            writer.flush().map_err(fail)?;
            writer.get_ref().sync_data().map_err(fail)?;
        }
        std::fs::rename(&self.temporary, &self.path).map_err(fail)
    }

    /// As [`OutFile::finish`], for lines: where there is no room for all of them, or there was none
    /// at an earlier write (`was_full`), the whole ones get the name. The error says that some are
    /// missing.
    pub fn finish_lines(mut self, was_full: bool) -> Result<(), ArchiveError> {
        let fail = |error| ArchiveError::new(&self.path, "writing", error);
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        // In parts, so that dropping tries no further write.
        let (mut file, rest) = writer.into_parts();
        let written = match (was_full, rest) {
            (false, Ok(rest)) => file.write_all(&rest).and_then(|()| file.sync_data()),
            _ => Ok(()),
        };
        if was_full || written.is_err() {
            let kept = keep_lines(&mut file).map_err(fail)?;
            if kept == 0 {
                return written.map_err(fail);
            }
        }
        std::fs::rename(&self.temporary, &self.path).map_err(fail)?;
        written.map_err(fail)
    }
}

/// Cuts a file after its last line end; gives its length.
fn keep_lines(file: &mut File) -> std::io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut step = Vec::new();
    while end > 0 {
        let from = end.saturating_sub(STEP_BYTES);
        file.seek(SeekFrom::Start(from))?;
        step.clear();
        file.take(end - from).read_to_end(&mut step)?;
        match step.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => {
                end = from + at as u64 + 1;
                break;
            }
            None => end = from,
        }
    }
    file.set_len(end)?;
    Ok(end)
}

impl Drop for OutFile {
    fn drop(&mut self) {
        // Already renamed, or never wanted: either way it is not there after.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_finished_and_leaves_nothing_when_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let mut file = OutFile::open(&path).unwrap();
        file.write(b"{}").unwrap();
        assert!(!path.exists());
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        drop(OutFile::open(&dir.path().join("b.json")).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_path() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let mut file = OutFile::open(&path).unwrap();
        file.writer = Some(BufWriter::new(full));
        file.write(b"x").unwrap();
        let error = file.finish().unwrap_err().to_string();
        assert!(
            error.contains("a.json") && error.contains("space"),
            "{error}"
        );
        assert!(!path.exists());
    }

    #[test]
    fn whole_lines_stay_when_the_disk_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(200_000);
        for (written, kept) in [
            ("one\ntwo\nthr".to_string(), Some("one\ntwo\n")),
            (format!("one\n{long}"), Some("one\n")),
            ("one\n".into(), Some("one\n")),
            ("thr".into(), None),
            (String::new(), None),
        ] {
            let path = dir.path().join("a.jsonl");
            let mut file = OutFile::open(&path).unwrap();
            file.write(written.as_bytes()).unwrap();
            file.writer.as_mut().unwrap().flush().unwrap();
            file.finish_lines(true).unwrap();
            let found = std::fs::read_to_string(&path).ok();
            assert_eq!(found.as_deref(), kept);
            let _ = std::fs::remove_file(&path);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
        let mut file = OutFile::open(&dir.path().join("b.jsonl")).unwrap();
        file.write(b"one\ntwo").unwrap();
        file.finish_lines(false).unwrap();
        let text = std::fs::read_to_string(dir.path().join("b.jsonl")).unwrap();
        assert_eq!(text, "one\ntwo");
    }
}
