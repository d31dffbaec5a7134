//! The server's network work on the server's core.
//!
//! On loopback the kernel runs a packet's receiving side on the CPU that sent it: what the server's
//! socket does with a client's acknowledgement is then paid by the client, about half of all that
//! its core does. Between two machines it is not so. Receive packet steering (RPS,
//! Documentation/networking/scaling.rst of the kernel) puts that work on a CPU of choice.

use anyhow::Context;

const LOOPBACK: &str = "/sys/class/net/lo/queues/rx-0/rps_cpus";

/// Loopback packets are received on one CPU until this is dropped.
pub struct Steered {
    before: String,
}

impl Steered {
    /// Steers to `cpu`. The setting is the whole machine's and needs root.
    pub fn to(cpu: usize) -> anyhow::Result<Self> {
        let before = std::fs::read_to_string(LOOPBACK).context(LOOPBACK)?;
        let before = before.trim().to_string();
        let mask = 1u64
            .checked_shl(u32::try_from(cpu)?)
            .context("one of 64 CPUs")?;
        std::fs::write(LOOPBACK, format!("{mask:x}"))
            .with_context(|| format!("writing {LOOPBACK}; steering needs root"))?;
        eprintln!("{LOOPBACK} is {mask:x} for now; after a kill: echo {before} > {LOOPBACK}");
        Ok(Self { before })
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(LOOPBACK, &self.before) {
            eprintln!(
                "{LOOPBACK} could not be set back to {}: {error}",
                self.before
            );
        }
    }
}
