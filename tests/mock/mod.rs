//! The bundled mock as a process of its own, for tests of the built binary.
#![allow(dead_code)]

use assert_cmd::cargo::cargo_bin;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
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

    /// Sends it a signal, such as `-STOP`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Events that it has sent so far.
    pub fn events_count(&self) -> u64 {
        self.stat("events")
    }

    /// A counter of its own account.
    pub fn stat(&self, name: &str) -> u64 {
        let mut socket = TcpStream::connect(&self.url).unwrap();
        let request = b"GET /stats HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n";
        socket.write_all(request).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let stats: serde_json::Value = serde_json::from_str(body).unwrap();
        stats[name].as_u64().unwrap()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
