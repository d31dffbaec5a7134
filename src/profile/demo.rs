//! `--demo`: the bundled mock as a process of its own, on a free port, for the length of the run.

use crate::config::Url;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The mock's process; ended when dropped.
pub struct Demo {
    child: Child,
    /// Where it listens.
    pub url: Url,
}

impl Demo {
    /// Starts `program mock` and waits for its address. Errors say what to do.
    pub fn start(program: &Path, cpu: Option<usize>) -> Result<Demo, String> {
        let mut command = Command::new(program);
        command.args(["mock", "--port", "0", "--ttft-ms", "20", "--itl-ms", "5"]);
        command.args(["--tokens", "64", "--exit-with-stdin"]);
        if let Some(cpu) = cpu {
            command.args(["--cores", &cpu.to_string()]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("--demo: the mock does not start: {error}"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| format!("--demo: the mock says nothing: {error}"))?;
        }
        let port = line
            .trim()
            .rsplit(':')
            .next()
            .and_then(|port| port.parse().ok());
        let Some(port) = port else {
            // The child has said something else than its address: it is of no use.
            let _ = child.kill();
            return Err(format!(
                "--demo: the mock gave no address: `{}`",
                line.trim()
            ));
        };
        let url = Url {
            tls: false,
            host: "127.0.0.1".into(),
            port,
            base: String::new(),
            query: String::new(),
        };
        Ok(Demo { child, url })
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
