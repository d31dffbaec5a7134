//! A file that is there whole or not at all.

use super::ArchiveError;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// An open file under a temporary name in its folder.
#[derive(Debug)]
pub struct OutFile {
    writer: Option<BufWriter<File>>,
    path: PathBuf,
    temporary: PathBuf,
}

impl OutFile {
    pub(super) fn open(path: &Path) -> Result<OutFile, ArchiveError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".tmp.{}", std::process::id()));
        let temporary = path.with_file_name(name);
        let file =
            File::create(&temporary).map_err(|error| ArchiveError::new(path, "opening", error))?;
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
}
