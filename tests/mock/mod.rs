//! The bundled mock as a process of its own, for tests of the built binary.

use assert_cmd::cargo::cargo_bin;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A mock of its own process, ended with the test.
pub struct Mock {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub url: String,
}

impl Mock {
    pub fn start(flags: &[&str]) -> Mock {
        let mut child = Command::new(cargo_bin("tokenring"))
            .args(["mock", "--port", "0", "--seconds", "600"])
            .arg("--exit-with-stdin")
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.trim().rsplit("//").next().unwrap().to_string();
        Mock { child, url }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
