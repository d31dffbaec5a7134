//! Sweeps that lie on disk, of ours or of AIPerf's.

use super::runs::{RunError, read_document};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// All points of a sweep, AIPerf's name.
pub const SWEEP: &str = "profile_export_aiperf_sweep.json";
/// Folders between a sweep's own and that file: of `analyze`, of lists on `profile`.
const PLACES: [&str; 3] = ["sweep_aggregate", "aggregate/sweep_aggregate", ""];

/// The document of a sweep, and the folder that those of its runs lie in: `path` is that folder or
/// the document itself. `None` when it is neither. Errors: the file is there and cannot be read.
pub fn read_sweep(path: &Path) -> Result<Option<(Value, PathBuf)>, RunError> {
    let mut files: Vec<PathBuf> = PLACES
        .iter()
        .map(|place| path.join(place).join(SWEEP))
        .collect();
    if path.file_name().is_some_and(|name| name == SWEEP) {
        files = vec![path.to_path_buf()];
    }
    let Some(file) = files.into_iter().find(|file| file.is_file()) else {
        return Ok(None);
    };
    let document = read_document(&file)?;
    let folders = ["sweep_aggregate", "aggregate"];
    let mut parent = file.parent().unwrap_or(Path::new(""));
    for name in folders {
        if parent.file_name().is_some_and(|own| own == name) {
            parent = parent.parent().unwrap_or(Path::new(""));
        }
    }
    Ok(Some((Value::Object(document), parent.to_path_buf())))
}
