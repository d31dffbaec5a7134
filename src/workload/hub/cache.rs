//! The cache of Hugging Face: `blobs/` by hash, `snapshots/<commit>/` of links to them, `refs/`
//! from branches to commits. Whatever appears in it appears whole, by a rename.

use super::{HubError, Repository};
use crate::base::limits;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Files that can hold a chat template, the one that wins first.
pub const TEMPLATE_FILES: [&str; 2] = ["chat_template.jinja", "tokenizer_config.json"];

/// A folder with all repositories.
#[derive(Clone, Debug)]
pub struct Cache(PathBuf);

/// A repository at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its files.
    pub folder: PathBuf,
    /// Its commit.
    pub commit: String,
}

impl Snapshot {
    /// The file with the vocabulary.
    pub fn tokenizer(&self) -> Option<PathBuf> {
        vocabulary(&self.folder)
    }

    /// True when a chat template is here.
    pub fn has_template(&self) -> bool {
        let [own, config] = TEMPLATE_FILES.map(|name| self.folder.join(name));
        let config = || fs::read_to_string(config).unwrap_or_default();
        own.is_file() || config().contains("\"chat_template\"")
    }
}

/// The file with the vocabulary in a folder: `tokenizer.json`, else the first `*.tiktoken`.
pub fn vocabulary(folder: &Path) -> Option<PathBuf> {
    let file = folder.join("tokenizer.json");
    if file.is_file() {
        return Some(file);
    }
    let entries = fs::read_dir(folder).ok()?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "tiktoken") && path.is_file())
        .collect();
    files.sort();
    files.into_iter().next()
}

/// True for the whole name of a commit.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn disk<'a>(path: &'a Path) -> impl Fn(std::io::Error) -> HubError + 'a {
    move |error| HubError::Disk {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}

impl Cache {
    /// The cache in a folder, which need not be there.
    pub fn new(folder: PathBuf) -> Cache {
        Cache(folder)
    }

    /// A repository's folder.
    pub fn of(&self, repository: Repository) -> PathBuf {
        let name = repository.name.replace('/', "--");
        self.0.join(format!("models--{name}"))
    }

    /// What is here of a repository at its revision.
    pub fn snapshot(&self, repository: Repository) -> Option<Snapshot> {
        let folder = self.of(repository);
        let commit = match is_commit(repository.revision) {
            true => repository.revision.to_string(),
            false => {
                let file = folder.join("refs").join(repository.revision);
                let text = read_short(&file)?;
                text.trim().to_string()
            }
        };
        // The name of a folder, and no way out of it.
        let is_plain = !commit.is_empty() && commit.bytes().all(|b| b.is_ascii_alphanumeric());
        let folder = folder.join("snapshots").join(&commit);
        (is_plain && folder.is_dir()).then_some(Snapshot { folder, commit })
    }

    /// Where a file with this hash is, or will be; and holds other processes off until the lock is
    /// dropped.
    pub fn blob(&self, repository: Repository, etag: &str) -> Result<(PathBuf, File), HubError> {
        let folder = self.of(repository).join("blobs");
        fs::create_dir_all(&folder).map_err(disk(&folder))?;
        let name = repository.name.replace('/', "--");
        let locks = self.0.join(".locks").join(format!("models--{name}"));
        fs::create_dir_all(&locks).map_err(disk(&locks))?;
        let path = locks.join(format!("{etag}.lock"));
        let lock = File::create(&path).map_err(disk(&path))?;
        lock.lock().map_err(disk(&path))?;
        Ok((folder.join(etag), lock))
    }

    /// Has a file of a commit lead to its blob, and a branch or tag to the commit.
    pub fn link(
        &self,
        repository: Repository,
        commit: &str,
        file: &str,
        etag: &str,
    ) -> Result<(), HubError> {
        let folder = self.of(repository);
        let snapshot = folder.join("snapshots").join(commit);
        fs::create_dir_all(&snapshot).map_err(disk(&snapshot))?;
        let target = Path::new("../../blobs").join(etag);
        let place = snapshot.join(file);
        let link = |path: &Path| std::os::unix::fs::symlink(&target, path);
        by_rename(&place, link).map_err(disk(&place))?;
        if !is_commit(repository.revision) {
            let place = folder.join("refs").join(repository.revision);
            let parent = place.parent().unwrap_or(&folder);
            fs::create_dir_all(parent).map_err(disk(parent))?;
            by_rename(&place, |path| fs::write(path, commit)).map_err(disk(&place))?;
        }
        Ok(())
    }
}

/// Makes something beside its place, then moves it there.
fn by_rename(place: &Path, make: impl Fn(&Path) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut name = place.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let beside = place.with_file_name(name);
    // Of a process of this number that was killed.
    let _ = fs::remove_file(&beside);
    make(&beside)?;
    fs::rename(&beside, place)
}

/// The text of a file that holds a name.
fn read_short(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    let is_short = size <= limits::NAME_BYTES_MAX as u64;
    is_short.then(|| fs::read_to_string(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_branch_and_by_commit() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().to_path_buf());
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let at = |revision| Repository {
            name: "org/name",
            revision,
        };
        assert_eq!(cache.snapshot(at("main")), None);
        let (blob, _lock) = cache.blob(at("main"), "abc").unwrap();
        fs::write(&blob, "{}").unwrap();
        for _ in 0..2 {
            cache
                .link(at("refs/pr/1"), commit, "tokenizer.json", "abc")
                .unwrap();
        }
        let found = cache.snapshot(at("refs/pr/1")).unwrap();
        assert_eq!(
            fs::read_to_string(found.tokenizer().unwrap()).unwrap(),
            "{}"
        );
        assert_eq!(cache.snapshot(at(commit)), Some(found));
        assert_eq!(cache.snapshot(at("main")), None);
    }

    #[test]
    fn a_ref_leads_out_of_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().to_path_buf());
        let refs = dir.path().join("models--a/refs");
        fs::create_dir_all(&refs).unwrap();
        fs::write(refs.join("main"), "../../..").unwrap();
        let repository = Repository {
            name: "a",
            revision: "main",
        };
        assert_eq!(cache.snapshot(repository), None);
    }
}
