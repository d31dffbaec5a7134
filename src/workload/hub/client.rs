//! One repository's files from the hub into the cache: what a file is, then its bytes, from where
//! an earlier try stopped.

use super::cache::{Cache, TEMPLATE_FILES, is_commit};
use super::{HubError, Listener, Progress, Repository, Snapshot};
use crate::base::limits;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;
use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};
use url::Url;

/// Tries that bring no byte, until a download is given up.
const TRIES_MAX: u32 = 3;
/// Between two of them.
const REST: Duration = Duration::from_millis(500);
/// Limit on connecting, and on any silence after it.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes between two words on the progress.
const PIECE: usize = 256 * 1024;

/// Asks for the files of one repository.
pub struct Client<'a> {
    endpoint: Url,
    token: Option<String>,
    cache: &'a Cache,
    repository: Repository<'a>,
    agent: Agent,
}

/// What the hub says of a file.
#[derive(Debug)]
struct Meta {
    commit: String,
    etag: String,
    size: u64,
}

/// The end of a way through redirects.
struct Answer {
    response: Response<Body>,
    /// Of the endpoint's own answers, the first that has each header.
    told: HeaderMap,
    host: String,
}

impl<'a> Client<'a> {
    /// A client that speaks to `endpoint`, and shows the token to nobody else.
    pub fn new(
        endpoint: Url,
        token: Option<String>,
        cache: &'a Cache,
        repository: Repository<'a>,
    ) -> Client<'a> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // As the load has it: no proxy of the environment.
            .proxy(None)
            .user_agent(concat!("tokenring/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_connect(Some(CONNECT_LIMIT))
            .timeout_recv_response(Some(SILENCE_LIMIT))
            .timeout_per_read(Some(SILENCE_LIMIT))
            .tls_config(TlsConfig::builder().root_certs(roots()).build())
            .build();
        Client {
            endpoint,
            token,
            cache,
            repository,
            agent: config.into(),
        }
    }

    /// The vocabulary, and the files with a chat template where one is wanted.
    pub fn fetch_all(&self, is_talk: bool, listener: &mut Listener) -> Result<Snapshot, HubError> {
        if self
            .fetch("tokenizer.json", limits::TOKENIZER_BYTES_MAX, listener)?
            .is_none()
        {
            let name = self.other_vocabulary()?;
            let most = limits::TOKENIZER_BYTES_MAX;
            if self.fetch(&name, most, listener)?.is_none() {
                return Err(self.no_file("the hub lists another file and does not have it"));
            }
        }
        for name in TEMPLATE_FILES.into_iter().filter(|_| is_talk) {
            self.fetch(name, limits::TEMPLATE_BYTES_MAX, listener)?;
        }
        let snapshot = self.cache.snapshot(self.repository);
        snapshot.ok_or(HubError::NoHome)
    }

    /// One file; `None` where the repository has none of the name.
    fn fetch(
        &self,
        file: &str,
        most: u64,
        listener: &mut Listener,
    ) -> Result<Option<()>, HubError> {
        let Some(meta) = self.meta(file)? else {
            return Ok(None);
        };
        if meta.size > most {
            return Err(HubError::TooLarge {
                file: file.into(),
                size: meta.size,
                most,
            });
        }
        let (blob, _lock) = self.cache.blob(self.repository, &meta.etag)?;
        if !fs::metadata(&blob).is_ok_and(|known| known.len() == meta.size) {
            self.download(file, &meta, &blob, listener)?;
        }
        self.cache
            .link(self.repository, &meta.commit, file, &meta.etag)?;
        Ok(Some(()))
    }

    /// A vocabulary of another form, or why there is none.
    fn other_vocabulary(&self) -> Result<String, HubError> {
        let mut url = self.endpoint.clone();
        self.extend(&mut url, &["api", "models"], &["revision"], &[]);
        let answer = self.get("the list of files", &url, None)?;
        if answer.response.status() == StatusCode::NOT_FOUND {
            return Err(HubError::NoRepository { page: self.page() });
        }
        let body = answer.response.into_body().into_with_config();
        let body = body.limit(limits::TEMPLATE_BYTES_MAX).read_to_vec();
        let listed: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
        let files = listed["siblings"].as_array().into_iter().flatten();
        let files: Vec<&str> = files
            .filter_map(|file| file["rfilename"].as_str())
            .collect();
        let is_own = |file: &&&str| file.ends_with(".tiktoken") && !file.contains('/');
        if let Some(file) = files.iter().find(is_own) {
            return Ok(file.to_string());
        }
        let is_pieces = |file: &&str| file.ends_with("tokenizer.model") || *file == "spiece.model";
        Err(
            self.no_file(match files.into_iter().any(|file| is_pieces(&file)) {
                true => {
                    "its SentencePiece model (tokenizer.model) is not read; name a repository of \
                     the same model that has a tokenizer.json"
                }
                false => "name a repository of the same model that has one",
            }),
        )
    }

    fn no_file(&self, instead: &str) -> HubError {
        HubError::NoFile {
            page: self.page(),
            instead: instead.into(),
        }
    }

    /// The repository's page, for a person.
    fn page(&self) -> String {
        let base = self.endpoint.as_str().trim_end_matches('/');
        format!("{base}/{}", self.repository.name)
    }

    fn extend(&self, url: &mut Url, before: &[&str], between: &[&str], after: &[&str]) {
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(before);
            path.extend(self.repository.name.split('/')).extend(between);
            // A slash within a revision becomes %2F.
            path.push(self.repository.revision).extend(after);
        }
    }

    fn url(&self, file: &str) -> Url {
        let mut url = self.endpoint.clone();
        self.extend(&mut url, &[], &["resolve"], &[file]);
        url
    }

    /// What the hub has of a file, by its first byte: `None` where it has none.
    fn meta(&self, file: &str) -> Result<Option<Meta>, HubError> {
        let answer = self.get(file, &self.url(file), Some("bytes=0-0".into()))?;
        let status = answer.response.status();
        if !status.is_success() {
            return match self.refusal(file, status, &answer.told) {
                None => Ok(None),
                Some(error) => Err(error),
            };
        }
        let told = |name: &str| text(&answer.told, name);
        let odd = |reason: &str| HubError::Answer {
            file: file.into(),
            host: self.endpoint.host_str().unwrap_or_default().into(),
            reason: reason.into(),
        };
        let commit = told("x-repo-commit").filter(|text| is_commit(text));
        let etag = told("x-linked-etag").or_else(|| told("etag"));
        let etag = etag.map(|etag| etag.trim_start_matches("W/").trim_matches('"').to_string());
        let is_name = |text: &String| {
            (1..=128).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        let headers = answer.response.headers();
        let of_range = text(headers, "content-range")
            .and_then(|range| range.rsplit('/').next().map(String::from));
        let of_whole = text(headers, "content-length").filter(|_| status == StatusCode::OK);
        let linked = told("x-linked-size");
        let size = of_range.or(of_whole).or(linked.clone());
        if linked.is_some() && linked != size {
            return Err(odd("it tells two sizes"));
        }
        Ok(Some(Meta {
            commit: commit.ok_or_else(|| odd("X-Repo-Commit is no commit"))?,
            etag: etag
                .filter(is_name)
                .ok_or_else(|| odd("it names no ETag"))?,
            size: size
                .and_then(|size| size.parse().ok())
                .ok_or_else(|| odd("it tells no size"))?,
        }))
    }

    /// Why an answer is no file; `None` where the repository has no such file.
    fn refusal(&self, file: &str, status: StatusCode, told: &HeaderMap) -> Option<HubError> {
        let code = text(told, "x-error-code").unwrap_or_default();
        let (file, page) = (file.to_string(), self.page());
        let token = match self.token {
            Some(_) => "see that the token (HF_TOKEN) is of that account and valid",
            None => "set HF_TOKEN to a token of an account that may read it",
        };
        let number = status.as_u16();
        Some(match (number, code.as_str()) {
            (404, "RepoNotFound") => HubError::NoRepository { page },
            (404, "RevisionNotFound") => HubError::NoRevision {
                revision: self.repository.revision.into(),
                page,
            },
            (404, _) => return None,
            (401 | 403, "GatedRepo") | (403, _) => HubError::Gated {
                file,
                status: number,
                page,
                token,
            },
            (401, _) => HubError::Unauthorized {
                file,
                status: number,
                page,
                token,
            },
            _ => HubError::Network {
                file,
                host: self.endpoint.host_str().unwrap_or_default().into(),
                reason: format!("status {status}"),
            },
        })
    }

    /// Follows redirects by hand. Once the way has left the endpoint, the token stays behind.
    fn get(&self, file: &str, url: &Url, range: Option<String>) -> Result<Answer, HubError> {
        let (mut url, mut is_home) = (url.clone(), true);
        let mut told = HeaderMap::new();
        for _ in 0..=limits::REDIRECTS_MAX {
            let host = url.host_str().unwrap_or_default().to_string();
            let broken = |reason: String| HubError::Network {
                file: file.into(),
                host: host.clone(),
                reason,
            };
            is_home &= url.origin() == self.endpoint.origin();
            let mut request = self.agent.get(url.as_str());
            if let Some(range) = &range {
                request = request.header("Range", range);
            }
            if let (Some(token), true) = (&self.token, is_home) {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            let response = request.call().map_err(|error| broken(error.to_string()))?;
            if is_home {
                for (name, value) in response.headers() {
                    told.entry(name).or_insert_with(|| value.clone());
                }
            }
            let place = text(response.headers(), "location");
            let (true, Some(place)) = (response.status().is_redirection(), place) else {
                return Ok(Answer {
                    response,
                    told,
                    host,
                });
            };
            let next = url
                .join(&place)
                .map_err(|error| broken(error.to_string()))?;
            let is_weaker = url.scheme() == "https" && next.scheme() != "https";
            if is_weaker || !["http", "https"].contains(&next.scheme()) {
                return Err(broken(format!("it passes on to {}:", next.scheme())));
            }
            url = next;
        }
        Err(HubError::Network {
            file: file.into(),
            host: url.host_str().unwrap_or_default().into(),
            reason: format!("more than {} redirects", limits::REDIRECTS_MAX),
        })
    }

    /// The bytes of a file, checked, at their place.
    fn download(
        &self,
        file: &str,
        meta: &Meta,
        blob: &Path,
        listener: &mut Listener,
    ) -> Result<(), HubError> {
        let part = blob.with_extension("incomplete");
        let disk = |error: std::io::Error| HubError::Disk {
            path: part.display().to_string(),
            reason: error.to_string(),
        };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut out = options.open(&part).map_err(disk)?;
        let mut done = out.seek(SeekFrom::End(0)).map_err(disk)?;
        let mut tries = 0;
        let mut last = None;
        while done != meta.size && tries < TRIES_MAX {
            if tries > 0 {
                std::thread::sleep(REST);
            }
            let before = done;
            last = self
                .read_on(file, meta, &mut out, &mut done, listener)
                .err();
            match last {
                Some(HubError::Network { .. }) | None => {}
                Some(error) => return Err(error),
            }
            tries = if done > before { 1 } else { tries + 1 };
        }
        if done != meta.size {
            return Err(last.filter(|_| done == 0).unwrap_or(HubError::Truncated {
                file: file.into(),
                done,
                total: meta.size,
            }));
        }
        out.sync_all().map_err(disk)?;
        if let Err(error) = check(file, meta, &mut out).map_err(disk)? {
            fs::remove_file(&part).map_err(disk)?;
            return Err(error);
        }
        fs::rename(&part, blob).map_err(disk)
    }

    /// Goes on at `done`, until the file or the answer ends.
    fn read_on(
        &self,
        file: &str,
        meta: &Meta,
        out: &mut File,
        done: &mut u64,
        listener: &mut Listener,
    ) -> Result<(), HubError> {
        // More than there can be is of another file.
        let from = if *done > meta.size { 0 } else { *done };
        let answer = self.get(file, &self.url(file), Some(format!("bytes={from}-")))?;
        let status = answer.response.status();
        let broken = |reason: String| HubError::Network {
            file: file.into(),
            host: answer.host.clone(),
            reason,
        };
        let range = text(answer.response.headers(), "content-range").unwrap_or_default();
        *done = match status {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT if range.starts_with(&format!("bytes {from}-")) => from,
            _ => return Err(broken(format!("status {status}, range `{range}`"))),
        };
        let disk = |error: std::io::Error| HubError::Disk {
            path: file.into(),
            reason: error.to_string(),
        };
        out.set_len(*done).map_err(disk)?;
        out.seek(SeekFrom::Start(*done)).map_err(disk)?;
        let mut body = answer.response.into_body().into_reader();
        let mut piece = vec![0; PIECE];
        while *done < meta.size {
            let room = usize::try_from(meta.size - *done)
                .unwrap_or(PIECE)
                .min(PIECE);
            let count = match body.read(&mut piece[..room]) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(broken(error.to_string())),
            };
            out.write_all(&piece[..count]).map_err(disk)?;
            *done += count as u64;
            listener(&Progress {
                file: format!("{file} of {}", self.repository.name),
                done: *done,
                total: meta.size,
            });
        }
        Ok(())
    }
}

/// True to the hash that the hub has named: files in large storage are named by their SHA-256.
fn check(file: &str, meta: &Meta, out: &mut File) -> std::io::Result<Result<(), HubError>> {
    if meta.etag.len() != 64 {
        return Ok(Ok(()));
    }
    out.seek(SeekFrom::Start(0))?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    loop {
        match out.read(&mut piece)? {
            0 => break,
            count => hash.update(&piece[..count]),
        }
    }
    let hex = |byte: &u8| format!("{byte:02x}");
    let has: String = hash.finalize().iter().map(hex).collect();
    let is_same = has.eq_ignore_ascii_case(&meta.etag);
    Ok(if is_same {
        Ok(())
    } else {
        Err(HubError::Hash {
            file: file.into(),
            has,
            says: meta.etag.clone(),
        })
    })
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then(|| value.to_string())
}

/// The machine's certificates, which may have a company's own; the bundled ones where it has none.
fn roots() -> RootCerts {
    let own = rustls_native_certs::load_native_certs().certs;
    match own.is_empty() {
        true => RootCerts::WebPki,
        false => {
            let own = own.iter().map(|one| Certificate::from_der(one).to_owned());
            RootCerts::from(own.collect::<Vec<_>>())
        }
    }
}
