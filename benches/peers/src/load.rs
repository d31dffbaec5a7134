//! The load that every client makes, and what it measures.

use anyhow::Context;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A closed loop of streams.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Address of the mock.
    #[arg(long, default_value = "127.0.0.1:18200")]
    pub addr: SocketAddr,
    /// Requests in flight.
    #[arg(long, default_value_t = 3_000)]
    pub streams: usize,
    /// Requests in all.
    #[arg(long, default_value_t = 6_000)]
    pub requests: usize,
    /// Tokens of an answer, each an event.
    #[arg(long, default_value_t = 200)]
    pub tokens: usize,
    /// CPU of the client.
    #[arg(long, default_value_t = 1)]
    pub client_core: usize,
}

impl Load {
    /// Pins the calling thread and raises the limit of open files.
    pub fn pin(&self) -> anyhow::Result<()> {
        let pinned = core_affinity::set_for_current(core_affinity::CoreId {
            id: self.client_core,
        });
        anyhow::ensure!(pinned, "CPU {} cannot be used", self.client_core);
        let mut files = getrlimit(Resource::Nofile);
        files.current = files.maximum;
        setrlimit(Resource::Nofile, files).context("raising the limit of open files")
    }

    /// One request's body: about 32 tokens in, [`Load::tokens`] out.
    pub fn body(&self) -> String {
        let prompt = "the quick brown fox jumps over it ".repeat(4);
        format!(
            "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}],\
             \"stream\":true,\"stream_options\":{{\"include_usage\":true}},\
             \"max_completion_tokens\":{}}}",
            self.tokens
        )
    }
}

/// What a client has measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Events of any kind.
    pub events: u64,
    /// CPU of the client's worker, ns.
    pub user_ns: u64,
    /// The same in the kernel.
    pub system_ns: u64,
    /// From the first request to the last byte, ns.
    pub elapsed_ns: u64,
    /// Error of each event's time against the mock's stamp, ns.
    pub event_time: Spread,
    /// Error of TTFT, ns.
    pub ttft: Spread,
    /// Error of ITL, ns.
    pub itl: Spread,
}

/// Percentiles in ns.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    pub p50: u64,
    pub p99: u64,
    pub p99_9: u64,
    pub max: u64,
}

impl Measured {
    /// CPU per event, ns.
    pub fn cpu_per_event(&self) -> f64 {
        (self.user_ns + self.system_ns) as f64 / self.events.max(1) as f64
    }

    /// User CPU per event, ns.
    pub fn user_per_event(&self) -> f64 {
        self.user_ns as f64 / self.events.max(1) as f64
    }

    /// Share of its core that the client used.
    pub fn busy_ratio(&self) -> f64 {
        (self.user_ns + self.system_ns) as f64 / self.elapsed_ns.max(1) as f64
    }
}
