//! What self-benchmarks have found on this machine, kept for the reports of later runs.
//!
//! One small file for all machines that share a home; what a new build or kernel makes void stays
//! until newer findings push it out.

use super::OutFile;
use crate::stats::capacity::{Capacity, Machine, Shape};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Findings that are kept, the newest: some machines and builds with every shape.
const CAPACITIES_MAX: usize = 128;
/// Bytes of the file: more than that many findings need; a longer one is none of ours.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Version of the file; another one's is not read.
const SCHEMA_VERSION: &str = "1";

#[derive(Serialize, Deserialize)]
struct Document {
    schema_version: String,
    capacities: Vec<Capacity>,
}

/// The file of findings.
#[derive(Clone, Debug)]
pub struct Calibration {
    path: PathBuf,
}

impl Calibration {
    /// Under `XDG_CACHE_HOME`, else under `~/.cache`; absent where neither is an absolute path.
    pub fn here() -> Option<Calibration> {
        let folder = |name, below| {
            let path = PathBuf::from(std::env::var_os(name)?).join(below);
            path.is_absolute().then_some(path)
        };
        let cache = folder("XDG_CACHE_HOME", "").or_else(|| folder("HOME", ".cache"))?;
        Some(Calibration {
            path: cache.join("tokenring").join("self-bench.json"),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest finding for a shape of load on a machine. Errors: the file is there and cannot
    /// be read.
    pub fn find(&self, machine: &Machine, shape: Shape) -> Result<Option<Capacity>, String> {
        let mut all = self.read()?;
        all.retain(|known| known.machine == *machine && known.shape == shape);
        Ok(all.pop())
    }

    /// Adds a finding in the place of an older one for the same; one that did not look for the
    /// limit (`has_searched` is false) only in the place of a lower one. Errors: it cannot be
    /// written.
    pub fn keep(&self, capacity: Capacity, has_searched: bool) -> Result<(), String> {
        // A file that cannot be read is worth no more than none.
        let mut all = self.read().unwrap_or_default();
        let is_same =
            |known: &Capacity| known.machine == capacity.machine && known.shape == capacity.shape;
        let is_better = |known: &Capacity| is_same(known) && known.per_s >= capacity.per_s;
        if !has_searched && all.iter().any(is_better) {
            return Ok(());
        }
        all.retain(|known| !is_same(known));
        all.push(capacity);
        all.drain(..all.len().saturating_sub(CAPACITIES_MAX));
        let document = Document {
            schema_version: SCHEMA_VERSION.into(),
            capacities: all,
        };
        let fail = |error: std::io::Error| format!("{}: {error}", self.path.display());
        let bytes = serde_json::to_vec_pretty(&document).map_err(|error| fail(error.into()))?;
        let folder = self.path.parent().unwrap_or(Path::new(""));
        std::fs::create_dir_all(folder).map_err(fail)?;
        let mut file = OutFile::open(&self.path).map_err(|error| fail(error.source))?;
        file.write(&bytes).map_err(|error| fail(error.source))?;
        file.finish().map_err(|error| fail(error.source))
    }

    /// All findings, the oldest first.
    fn read(&self) -> Result<Vec<Capacity>, String> {
        let fail = |what: String| format!("{}: {what}", self.path.display());
        // Opening a pipe would wait for ever.
        if std::fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            return Err(fail("no regular file".into()));
        }
        let file = match std::fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(fail(error.to_string())),
        };
        let mut bytes = Vec::new();
        let read = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|error| fail(error.to_string()))?;
        let document: Document =
            serde_json::from_slice(&bytes).map_err(|error| fail(error.to_string()))?;
        match document.schema_version == SCHEMA_VERSION {
            true => Ok(document.capacities),
            false => Err(fail(format!("version {}", document.schema_version))),
        }
    }
}

/// This machine and this program, as findings are kept for them. What cannot be read is empty.
///
/// A version is built many times while it is worked on, so the build is told by the program's size
/// and time too.
pub fn machine(program: &Path) -> Machine {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        // ARM has no name, but numbers.
        matches!(key.trim(), "model name" | "CPU part").then(|| value.trim().to_string())
    });
    let built = program.metadata().ok().map(|file| {
        use std::os::unix::fs::MetadataExt;
        format!("{}-{}", file.len(), file.mtime())
    });
    Machine {
        cpu: model.unwrap_or_default(),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        build: format!(
            "{} {}",
            env!("CARGO_PKG_VERSION"),
            built.unwrap_or_default()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::capacity::Unit;

    fn capacity(build: &str, bytes_max: u64, per_s: f64) -> Capacity {
        Capacity {
            machine: Machine {
                build: build.into(),
                ..machine(Path::new("/"))
            },
            shape: Shape {
                unit: Unit::Events,
                bytes_max,
                tls: false,
            },
            per_s,
            measured_wall_ns: 1,
        }
    }

    #[test]
    fn the_newest_finding_for_a_machine_and_shape_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = Calibration {
            path: dir.path().join("a/self-bench.json"),
        };
        let find = |c: &Capacity| file.find(&c.machine, c.shape).unwrap().map(|c| c.per_s);
        let first = capacity("1", 1_024, 10.0);
        assert_eq!(find(&first), None);
        for kept in [
            first.clone(),
            capacity("1", 4_096, 20.0),
            capacity("2", 1_024, 30.0),
            capacity("1", 1_024, 40.0),
        ] {
            file.keep(kept, true).unwrap();
        }
        assert_eq!(find(&first), Some(40.0));
        assert_eq!(find(&capacity("2", 1_024, 0.0)), Some(30.0));
        assert_eq!(find(&capacity("2", 4_096, 0.0)), None);
        assert_eq!(file.read().unwrap().len(), 3);
    }

    #[test]
    fn what_has_not_looked_for_the_limit_raises_it_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = Calibration {
            path: dir.path().join("self-bench.json"),
        };
        for (per_s, has_searched, kept) in [
            (20.0, false, 20.0),
            (10.0, false, 20.0),
            (30.0, false, 30.0),
            (25.0, true, 25.0),
        ] {
            let found = capacity("1", 1_024, per_s);
            file.keep(found.clone(), has_searched).unwrap();
            let known = file.find(&found.machine, found.shape).unwrap();
            assert_eq!(known.unwrap().per_s, kept);
        }
    }

    #[test]
    fn the_file_stays_small_and_a_broken_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = Calibration {
            path: dir.path().join("self-bench.json"),
        };
        for broken in ["{", "[]", r#"{"schema_version":"9","capacities":[]}"#] {
            std::fs::write(file.path(), broken).unwrap();
            let one = capacity("1", 1_024, 10.0);
            let error = file.find(&one.machine, one.shape).unwrap_err();
            assert!(error.contains("self-bench.json"), "{error}");
        }
        for build in 0..CAPACITIES_MAX + 9 {
            file.keep(capacity(&build.to_string(), 1_024, 10.0), true)
                .unwrap();
        }
        let all = file.read().unwrap();
        assert_eq!(
            (all.len(), all[0].machine.build.as_str()),
            (CAPACITIES_MAX, "9")
        );
        assert!(file.path().metadata().unwrap().len() < FILE_BYTES_MAX);
    }
}
