//! GPU telemetry: power, energy, utilisation, memory, temperature and clocks over a run's window.
//!
//! A [`Source`] reads the devices; the [`Sampler`] asks it from a thread of its own, so that no
//! worker ever waits for a driver. This room knows nothing of requests: it gets a window and gives
//! rows for the report. Start at [`Sampler::start`].

mod nvml;
mod sampler;
mod window;

pub use sampler::Sampler;

use crate::base::Ns;

/// What a GPU is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Index as the driver counts.
    pub index: u32,
    /// UUID, empty when the driver does not tell.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
}

/// A quantity that has a value at each moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Watts.
    Power,
    /// Share of the driver's last period in which a kernel ran, percent.
    GpuUtilization,
    /// Share of that period in which device memory was read or written, percent.
    MemoryUtilization,
    /// Gigabytes (10^9 bytes) in use.
    MemoryUsed,
    /// Gigabytes there are.
    MemoryTotal,
    /// Degrees Celsius.
    Temperature,
    /// Clock of the streaming multiprocessors, MHz.
    SmClock,
    /// Clock of the memory, MHz.
    MemoryClock,
}

impl Gauge {
    /// All, in the order of a [`GpuSample`] and of the report.
    pub const ALL: [Gauge; 8] = [
        Gauge::Power,
        Gauge::GpuUtilization,
        Gauge::MemoryUtilization,
        Gauge::MemoryUsed,
        Gauge::MemoryTotal,
        Gauge::Temperature,
        Gauge::SmClock,
        Gauge::MemoryClock,
    ];

    /// Tag, header and unit: AIPerf's where it has the quantity (the last three are ours).
    pub fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Gauge::Power => ("nvidia_power_usage", "NVIDIA GPU Power Usage", "W"),
            Gauge::GpuUtilization => ("nvidia_gpu_utilization", "NVIDIA GPU Utilization", "%"),
            Gauge::MemoryUtilization => (
                "nvidia_memory_utilization",
                "NVIDIA Memory Utilization",
                "%",
            ),
            Gauge::MemoryUsed => ("nvidia_memory_used", "NVIDIA GPU Memory Used", "GB"),
            Gauge::MemoryTotal => ("nvidia_memory_total", "NVIDIA GPU Memory Total", "GB"),
            Gauge::Temperature => ("nvidia_temperature", "NVIDIA GPU Temperature", "°C"),
            Gauge::SmClock => ("nvidia_sm_clock", "NVIDIA SM Clock", "MHz"),
            Gauge::MemoryClock => ("nvidia_memory_clock", "NVIDIA Memory Clock", "MHz"),
        }
    }
}

/// One GPU at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuSample {
    /// Position in [`Source::devices`].
    pub device: usize,
    /// When it was read.
    pub at: Ns,
    /// In the order of [`Gauge::ALL`]; absent where the device does not tell.
    pub gauges: [Option<f64>; Gauge::ALL.len()],
    /// Energy counter since the driver was loaded, J.
    pub energy_j: Option<f64>,
}

/// Where samples come from.
pub trait Source: Send {
    /// The devices, in a fixed order.
    fn devices(&self) -> &[Device];

    /// One sample of each device that answers.
    fn sample(&mut self) -> Vec<GpuSample>;

    /// Sentences on the method, known after the first sample.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
