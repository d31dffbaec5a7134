//! The bundled mock as a process of its own, on a free port: for `--demo`, and for runs whose
//! server must be known.

use crate::config::{Url, parse_url};
use crate::runtime;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The mock's process; ended when dropped.
pub struct Demo {
    child: Child,
    /// Where it listens.
    pub url: Url,
    /// Its CPUs; empty where the workers leave none free.
    pub cpus: Vec<usize>,
}

impl Demo {
    /// Starts `program mock` with `flags` and waits for its address. It has a thread on each CPU
    /// that `workers` leave free, up to `threads`. Errors say what went wrong.
    pub fn start(
        program: &Path,
        workers: &[usize],
        threads: usize,
        flags: &[String],
    ) -> Result<Demo, String> {
        let mut cpus = runtime::usable();
        cpus.retain(|cpu| !workers.contains(cpu));
        cpus.truncate(threads);
        let mut command = Command::new(program);
        command.args(["mock", "--port", "0", "--exit-with-stdin"]);
        command.args(flags);
        if !cpus.is_empty() {
            let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
            command.args(["--threads", &list.len().to_string()]);
            command.args(["--cores", &list.join(",")]);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("the mock does not start: {error}"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| format!("the mock says nothing: {error}"))?;
        }
        let said = line.trim();
        match said.strip_prefix("listening on ").map(parse_url) {
            Some(Ok(url)) => Ok(Demo { child, url, cpus }),
            // The child has said something else than its address: it is of no use.
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("the mock gave no address: `{said}`"))
            }
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
