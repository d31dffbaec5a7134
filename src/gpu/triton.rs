//! GPUs on the page of a Triton server, which names them by their UUID only.

use super::Device;
use super::Quantity as Q;
use super::dcgm::LABEL_CHARS_MAX;
use crate::base::one_line;
use crate::scrape::Sample;

/// Name, quantity, and what makes its unit ours.
pub const FIELDS: [(&str, Q, f64); 6] = [
    ("nv_gpu_power_usage", Q::Power, 1.0),
    ("nv_gpu_power_limit", Q::PowerLimit, 1.0),
    // J since the server began.
    ("nv_energy_consumption", Q::Energy, 1.0),
    // 0..1
    ("nv_gpu_utilization", Q::GpuUtilization, 100.0),
    ("nv_gpu_memory_total_bytes", Q::MemoryTotal, 1e-9),
    ("nv_gpu_memory_used_bytes", Q::MemoryUsed, 1e-9),
];

/// The device that a sample is of. The page has no index: it is the `index` that comes next.
pub fn device(sample: &Sample<'_>, index: usize) -> Device {
    Device {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        uuid: one_line(
            sample.label("gpu_uuid").unwrap_or_default(),
            LABEL_CHARS_MAX,
        ),
        name: "NVIDIA GPU".to_owned(),
        platform: "nvidia",
        ..Device::default()
    }
}
