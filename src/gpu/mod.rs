//! GPU telemetry: power, energy, utilisation, memory, temperature and clocks over a run's window.
//!
//! A [`Source`] reads the devices; the [`Sampler`] asks each source from a thread of its own, so
//! that no worker ever waits for a driver. This room knows nothing of requests: it gets a window
//! and gives rows for the report. Start at [`Sampler::start`].

mod amd;
mod asked;
mod dcgm;
mod fields;
mod fresh;
mod history;
mod nvml;
mod page;
mod quantity;
mod reading;
mod sampler;
mod triton;
mod visible;
mod window;

pub use amd::AmdSource;
pub use fields::Fields;
pub use nvml::{NvmlOptions, NvmlSource};
pub use page::PageSource;
pub use quantity::Quantity;
pub use sampler::{Marker, Sampler, Telemetry};

use crate::base::Ns;
use crate::stats::Track;

/// What a GPU, or an instance on one, is called.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Device {
    /// Index as the driver counts.
    pub index: u32,
    /// UUID, empty when the source does not tell. Instances on one GPU share it.
    pub uuid: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// Id of the MIG instance; empty for a whole GPU.
    pub instance: String,
    /// The machine that it is in; empty for this one.
    pub hostname: String,
    /// `00000000:02:00.0`, empty when unknown.
    pub pci: String,
    /// `nvidia` or `amd`.
    pub platform: &'static str,
}

impl Device {
    /// Names it in the files of slices: `gpu_0`, `node1:gpu_0`, `gpu_0/3` for an instance.
    pub fn key(&self) -> String {
        let host = match self.hostname.as_str() {
            "" => String::new(),
            name => format!("{name}:"),
        };
        let instance = match self.instance.as_str() {
            "" => String::new(),
            id => format!("/{id}"),
        };
        format!("{host}gpu_{}{instance}", self.index)
    }
}

/// One GPU at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuSample {
    /// Position in [`Source::devices`].
    pub device: usize,
    /// When it was read.
    pub at: Ns,
    /// In the order of [`Quantity::ALL`]; absent where the device does not tell.
    pub values: [Option<f64>; Quantity::COUNT],
}

impl GpuSample {
    /// One of its values.
    pub fn get(&self, quantity: Quantity) -> Option<f64> {
        self.values[quantity as usize]
    }
}

/// What a device tells beyond [`Quantity::ALL`].
#[derive(Clone, Debug, PartialEq)]
pub struct Further {
    /// Position in [`Source::devices`].
    pub device: usize,
    /// `NVLink Bandwidth Total`.
    pub header: &'static str,
    /// Its values; the tag is one that stays.
    pub track: Track,
}

/// Where samples come from.
pub trait Source: Send {
    /// `nvml://localhost`, or the url of the page that is read.
    fn name(&self) -> &str;

    /// The devices seen so far; their order stays, new ones are added at the end.
    fn devices(&self) -> &[Device];

    /// One sample of each device that answers.
    fn sample(&mut self) -> Vec<GpuSample>;

    /// The same at an edge of the measurement: with what is else left out of most samples.
    fn sample_all(&mut self) -> Vec<GpuSample> {
        self.sample()
    }

    /// Sentences on the method, known after the last sample.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Values that could not be, and were dropped.
    fn invalid_samples(&self) -> u64 {
        0
    }

    /// What it tells beyond the table, known after the last sample.
    fn further(&mut self) -> Vec<Further> {
        Vec::new()
    }

    /// Why it did not answer, and how often.
    fn errors(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    /// Mean time between two updates of its values, where it is the source that is slow.
    fn period(&self) -> Option<Ns> {
        None
    }
}
