//! What is watched beside the requests: GPUs, and the servers' own metrics.

use super::Url;
use crate::base::Ns;
use std::path::PathBuf;

/// Who tells of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuSource {
    /// This machine's driver where a target is on this machine, and exporters where there are some.
    Auto,
    /// NVIDIA's library on this machine.
    Nvml,
    /// DCGM exporters, at the given urls or at the usual ports.
    Dcgm,
    /// AMD's `amd-smi` on this machine.
    AmdSmi,
}

/// GPU telemetry.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuTelemetry {
    /// Who tells.
    pub source: GpuSource,
    /// It was asked for by name: then it must be there.
    pub is_asked: bool,
    /// Pages to read, of DCGM exporters or Triton.
    pub urls: Vec<Url>,
    /// CSV of further DCGM fields to read, in the exporter's own format.
    pub fields: Option<PathBuf>,
    /// Time between two samples of a driver, 20 ms to 1 s.
    pub interval: Ns,
    /// How long the GPUs are watched before the first request, for what they take idle.
    pub idle: Ns,
    /// NVIDIA's library, where it is not installed.
    pub library: Option<PathBuf>,
    /// Count the processes on each GPU.
    pub processes: bool,
}

impl Default for GpuTelemetry {
    fn default() -> GpuTelemetry {
        GpuTelemetry {
            source: GpuSource::Auto,
            is_asked: false,
            urls: Vec::new(),
            fields: None,
            interval: Ns::from_ms(100),
            idle: Ns::ZERO,
            library: None,
            processes: false,
        }
    }
}

/// A file of server metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// `server_metrics_export.json`.
    Json,
    /// `server_metrics_export.csv`.
    Csv,
    /// `server_metrics_export.jsonl`: every scrape.
    Jsonl,
}

/// The servers' own metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerMetrics {
    /// Pages given by name, which must be there. Those of the targets are looked for beside them.
    pub urls: Vec<Url>,
    /// What is written.
    pub formats: Vec<MetricsFormat>,
}

impl Default for ServerMetrics {
    fn default() -> ServerMetrics {
        ServerMetrics {
            urls: Vec::new(),
            formats: vec![MetricsFormat::Json, MetricsFormat::Csv],
        }
    }
}
