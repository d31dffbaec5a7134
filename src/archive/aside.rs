//! Earlier runs: how they are known, and where they go.

use super::ArchiveError;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Bytes of a summary that is read for its start time: ours have some ten thousand.
const SUMMARY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Endings that only our files have, whatever their prefix.
const ENDINGS: [&str; 6] = [
    "_console.txt",
    ".hlog",
    "_genai_perf.json",
    "_genai_perf.csv",
    "_raw.jsonl",
    super::SHARD_ENDING,
];

/// True for a file that a run has written, whole or not, or that this run (`own`) would write over.
fn is_of_a_run(name: &str, own: &[String]) -> bool {
    let standard = name.starts_with("profile_export")
        && [".json", ".jsonl", ".csv", ".txt"]
            .iter()
            .any(|end| name.ends_with(end));
    standard
        || ENDINGS.iter().any(|end| name.ends_with(end))
        || writer(name).is_some()
        || own.iter().any(|own| own == name)
}

/// The process that has, or had, a file under its temporary name.
fn writer(name: &str) -> Option<u32> {
    name.rsplit_once(".tmp.")?.1.parse().ok()
}

/// True when that process is another one of this program, and still there.
fn is_writing(process: u32) -> bool {
    let program = |process: &str| {
        let link = std::fs::read_link(format!("/proc/{process}/exe")).ok()?;
        link.file_name().map(|name| name.to_os_string())
    };
    let ours = program("self");
    process != std::process::id() && ours.is_some() && program(&process.to_string()) == ours
}

/// Names of an earlier run's files in a folder. Errors: a run that is not over writes there.
pub(super) fn earlier(path: &Path, own: &[String]) -> Result<Vec<String>, ArchiveError> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return Ok(Vec::new());
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_of_a_run(name, own)).collect();
    names.retain(|name| path.join(name).is_file());
    names.sort();
    match names
        .iter()
        .filter_map(|name| writer(name))
        .find(|process| is_writing(*process))
    {
        Some(process) => {
            let text = format!("a run writes there (process {process})");
            let error = std::io::Error::other(text);
            Err(ArchiveError::new(path, "opening", error))
        }
        None => Ok(names),
    }
}

/// Moves an earlier run out of the way: the folder to `<name>.<start time>` beside it, and an empty
/// one in its place. Where the folder must stay (it is a mount, or somebody's current directory, or
/// the parent takes nothing new) the files go into a folder inside. A link stays a link.
pub(super) fn move_aside(path: &Path, names: &[String]) -> std::io::Result<()> {
    let real = path.canonicalize()?;
    let stamp = start_time(&real, names);
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    if !here.is_ok_and(|here| here.starts_with(&real)) {
        let mut base = real.as_os_str().to_os_string();
        base.push(format!(".{stamp}"));
        if std::fs::rename(&real, free(Path::new(&base))).is_ok() {
            return std::fs::create_dir(&real);
        }
    }
    move_inside(&real, &stamp, names)
}

/// Moves what stands at `path`, a file or a folder, to `<name>.<when it was last changed>`. Nothing
/// there is no error.
pub fn put_aside(path: &Path) -> Result<(), ArchiveError> {
    let fail = |error| ArchiveError::new(path, "moving an earlier one aside", error);
    let changed = match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        found => found.and_then(|found| found.modified()).map_err(fail)?,
    };
    let stamp = stamp(changed).unwrap_or_else(|| "earlier".into());
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".{stamp}"));
    std::fs::rename(path, free(Path::new(&name))).map_err(fail)
}

/// A time as part of a name.
fn stamp(at: SystemTime) -> Option<String> {
    let at = jiff::Timestamp::try_from(at).ok()?;
    Some(at.strftime("%Y-%m-%dT%H-%M-%S").to_string())
}

/// Moves files of a folder into one inside of it.
pub(super) fn move_inside(path: &Path, stamp: &str, names: &[String]) -> std::io::Result<()> {
    let inner = free(&path.join(stamp));
    std::fs::create_dir(&inner)?;
    for name in names {
        std::fs::rename(path.join(name), inner.join(name))?;
    }
    Ok(())
}

/// The path, or the first of `path.1`, `path.2` that is not taken.
fn free(path: &Path) -> PathBuf {
    let numbered = |n: u64| {
        let mut name = path.as_os_str().to_os_string();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    };
    let mut candidates = std::iter::once(path.to_path_buf()).chain((1..).map(numbered));
    let is_free = |candidate: &PathBuf| candidate.symlink_metadata().is_err();
    candidates
        .find(is_free)
        .unwrap_or_else(|| path.to_path_buf())
}

/// When the earlier run began: by its summary, else by the oldest of its files. Fit for a name.
fn start_time(path: &Path, names: &[String]) -> String {
    let said = names
        .iter()
        .filter(|name| name.ends_with(".json"))
        .find_map(|name| {
            let path = path.join(name);
            let size = path.metadata().ok()?.len();
            let text = (size <= SUMMARY_BYTES_MAX).then(|| std::fs::read(path).ok())??;
            let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
            value["start_time"].as_str().map(String::from)
        });
    let changed = |name: &String| path.join(name).metadata().ok()?.modified().ok();
    let oldest = || -> Option<String> { stamp(names.iter().filter_map(changed).min()?) };
    let time = said.or_else(oldest).unwrap_or_default().replace(':', "-");
    let is_fit = |c: &char| c.is_ascii_alphanumeric() || *c == '-' || *c == '.';
    let time: String = time.chars().filter(is_fit).take(40).collect();
    match time.trim_matches('.').is_empty() {
        true => "earlier".into(),
        false => time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_run_are_known_by_name() {
        let own = ["foo.json".to_string(), "inputs.json".into()];
        for name in [
            "profile_export_aiperf.json",
            "profile_export.jsonl",
            "bar_console.txt",
            "bar.hlog",
            "bar_records.bin",
            "profile_export_records.bin",
            "foo.json",
            "inputs.json",
            "x.jsonl.tmp.12",
        ] {
            assert!(is_of_a_run(name, &own), "{name}");
        }
        for name in [
            "notes.txt",
            "bar.json",
            "data.csv",
            "x.tmp",
            "x.tmp.old",
            "profile_export",
        ] {
            assert!(!is_of_a_run(name, &own), "{name}");
        }
    }

    #[test]
    fn a_start_time_is_fit_for_a_name_whatever_the_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["a.json".to_string()];
        let of = |text: &str| {
            std::fs::write(dir.path().join("a.json"), text).unwrap();
            start_time(dir.path(), &names)
        };
        assert_eq!(
            of(r#"{"start_time":"2026-11-30T01:56:20.4"}"#),
            "2026-11-30T01-56-20.4"
        );
        assert_eq!(of(r#"{"start_time":"../../x\u001b"}"#), "....x");
        assert_eq!(of(r#"{"start_time":"/"}"#), "earlier");
        assert_eq!(of("no json").len(), "2026-11-30T01-56-20".len());
    }
}
