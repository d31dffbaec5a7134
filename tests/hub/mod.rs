//! A hub of loopback that answers by a script, and remembers what it was asked.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The commit of everything that it has.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Where the wanted bytes begin; 0 for the first byte and for all.
    pub fn from(&self) -> usize {
        let range = self.header("range").trim_start_matches("bytes=");
        range.split('-').next().unwrap().parse().unwrap_or(0)
    }

    /// True for the question what a file is.
    pub fn is_probe(&self) -> bool {
        self.header("range") == "bytes=0-0"
    }
}

/// An answer; `body` may be shorter than what is announced.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Announced in place of the body's own.
    pub length: Option<usize>,
}

impl Reply {
    /// An answer without a file.
    pub fn error(status: u16, code: &str) -> Reply {
        Reply {
            status,
            headers: vec![("X-Error-Code", code.into())],
            ..Reply::default()
        }
    }

    /// The asked range of a file, as the place that stores it answers.
    pub fn range(asked: &Asked, file: &[u8]) -> Reply {
        let from = asked.from();
        let end = if asked.is_probe() { 1 } else { file.len() };
        if from >= file.len() {
            return Reply::error(416, "");
        }
        let range = format!("bytes {from}-{}/{}", end - 1, file.len());
        Reply {
            status: 206,
            headers: vec![("Content-Range", range)],
            body: file[from..end].to_vec(),
            length: None,
        }
    }

    /// What only the hub says of a file.
    pub fn told(mut self, etag: &str, size: usize) -> Reply {
        self.headers.push(("X-Repo-Commit", COMMIT.into()));
        self.headers.push(("X-Linked-Etag", format!("\"{etag}\"")));
        self.headers.push(("X-Linked-Size", size.to_string()));
        self
    }
}

/// It serves until the test's process ends.
pub struct FakeHub {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeHub {
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> FakeHub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                // One at a time is enough for one client.
                let _ = serve(&socket, &answer, &log);
            }
        });
        FakeHub { url, asked }
    }

    /// Everything so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    mut socket: &TcpStream,
    answer: &dyn Fn(&Asked) -> Reply,
    log: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(socket).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_string();
    let mut headers = HashMap::new();
    for line in lines {
        match line?.split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_string()),
            None => break,
        };
    }
    let asked = Asked { path, headers };
    log.lock().unwrap().push(asked.clone());
    let reply = answer(&asked);
    let length = reply.length.unwrap_or(reply.body.len());
    let mut head = format!(
        "HTTP/1.1 {} X\r\nContent-Length: {length}\r\n",
        reply.status
    );
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += "Connection: close\r\n\r\n";
    socket.write_all(head.as_bytes())?;
    socket.write_all(&reply.body)
}
