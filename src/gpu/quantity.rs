//! What is known of a GPU over time: names, units, and how values go together.

use crate::stats::TrackKind;

/// A quantity of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Watts.
    Power,
    /// Energy since the driver was loaded, or the exporter began, J. A counter.
    Energy,
    /// Share of the driver's last period in which a kernel ran, percent.
    GpuUtilization,
    /// Share of that period in which device memory was read or written, percent.
    MemoryUtilization,
    /// Gigabytes (10^9 bytes) in use.
    MemoryUsed,
    /// Degrees Celsius.
    Temperature,
    /// Share of the multiprocessors' time with a warp on them, percent.
    SmUtilization,
    /// Percent.
    DecoderUtilization,
    /// Percent.
    EncoderUtilization,
    /// Percent.
    JpegUtilization,
    /// The last XID, 0 for none: what changes is a new error.
    XidErrors,
    /// Time for which the clocks were held down by the power limit, microseconds. A counter.
    PowerViolation,
    /// Time for which they were held down by heat, microseconds. A counter.
    ThermalViolation,
    /// The enforced limit, W.
    PowerLimit,
    /// Gigabytes there are.
    MemoryTotal,
    /// Gigabytes free.
    MemoryFree,
    /// Degrees Celsius.
    MemoryTemperature,
    /// Clock of the streaming multiprocessors, MHz.
    SmClock,
    /// Clock of the memory, MHz.
    MemoryClock,
    /// 1 while the clocks are held down by the power limit, else 0.
    ThrottlePower,
    /// 1 while they are held down by heat, else 0.
    ThrottleThermal,
    /// 1 while they are held down by something else that hurts: a hardware slowdown, the board's
    /// power supply.
    ThrottleOther,
    /// Bytes per second that the GPU sends.
    PcieSent,
    /// Bytes per second that it receives.
    PcieReceived,
    /// Retries. A counter.
    PcieReplays,
    /// Bytes sent over NVLink. A counter.
    NvlinkSent,
    /// Bytes received. A counter.
    NvlinkReceived,
    /// Errors of memory that were corrected. A counter.
    EccCorrected,
    /// Errors that were not. A counter.
    EccUncorrected,
    /// Processes with memory on the GPU.
    Processes,
}

use Quantity as Q;

/// Quantity, tag, header, unit and kind; AIPerf's names and order as far as it has the quantity.
type Row = (Q, &'static str, &'static str, &'static str, TrackKind);

const GAUGE: TrackKind = TrackKind::Gauge;
const COUNTER: TrackKind = TrackKind::Counter;

#[rustfmt::skip]
const ROWS: [Row; Quantity::COUNT] = [
    (Q::Power, "nvidia_power_usage", "NVIDIA GPU Power Usage", "W", GAUGE),
    // In figures MJ, as AIPerf has it; series are in J.
    (Q::Energy, "nvidia_energy_consumption", "NVIDIA Energy Consumption", "MJ", COUNTER),
    (Q::GpuUtilization, "nvidia_gpu_utilization", "NVIDIA GPU Utilization", "%", GAUGE),
    (Q::MemoryUtilization, "nvidia_memory_utilization", "NVIDIA Memory Utilization", "%", GAUGE),
    (Q::MemoryUsed, "nvidia_memory_used", "NVIDIA GPU Memory Used", "GB", GAUGE),
    (Q::Temperature, "nvidia_temperature", "NVIDIA GPU Temperature", "°C", GAUGE),
    (Q::SmUtilization, "nvidia_sm_utilization", "NVIDIA SM Utilization", "%", GAUGE),
    (Q::DecoderUtilization, "nvidia_decoder_utilization", "NVIDIA Decoder Utilization", "%", GAUGE),
    (Q::EncoderUtilization, "nvidia_encoder_utilization", "NVIDIA Encoder Utilization", "%", GAUGE),
    (Q::JpegUtilization, "nvidia_jpeg_utilization", "NVIDIA JPEG Utilization", "%", GAUGE),
    (Q::XidErrors, "nvidia_xid_errors", "NVIDIA XID Errors", "count", GAUGE),
    (Q::PowerViolation, "nvidia_power_violation", "NVIDIA Power Violation", "us", COUNTER),
    (Q::ThermalViolation, "nvidia_thermal_violation", "NVIDIA Thermal Violation", "us", COUNTER),
    (Q::PowerLimit, "nvidia_power_limit", "NVIDIA GPU Power Limit", "W", GAUGE),
    (Q::MemoryTotal, "nvidia_memory_total", "NVIDIA GPU Memory Total", "GB", GAUGE),
    (Q::MemoryFree, "nvidia_memory_free", "NVIDIA GPU Memory Free", "GB", GAUGE),
    (Q::MemoryTemperature, "nvidia_memory_temperature", "NVIDIA Memory Temperature", "°C", GAUGE),
    (Q::SmClock, "nvidia_sm_clock", "NVIDIA SM Clock", "MHz", GAUGE),
    (Q::MemoryClock, "nvidia_memory_clock", "NVIDIA Memory Clock", "MHz", GAUGE),
    (Q::ThrottlePower, "nvidia_throttle_power", "NVIDIA Throttled by Power", "ratio", GAUGE),
    (Q::ThrottleThermal, "nvidia_throttle_thermal", "NVIDIA Throttled by Heat", "ratio", GAUGE),
    (Q::ThrottleOther, "nvidia_throttle_other", "NVIDIA Throttled Otherwise", "ratio", GAUGE),
    (Q::PcieSent, "nvidia_pcie_sent", "NVIDIA PCIe Sent", "B/s", GAUGE),
    (Q::PcieReceived, "nvidia_pcie_received", "NVIDIA PCIe Received", "B/s", GAUGE),
    (Q::PcieReplays, "nvidia_pcie_replays", "NVIDIA PCIe Replays", "count", COUNTER),
    (Q::NvlinkSent, "nvidia_nvlink_sent", "NVIDIA NVLink Sent", "B", COUNTER),
    (Q::NvlinkReceived, "nvidia_nvlink_received", "NVIDIA NVLink Received", "B", COUNTER),
    (Q::EccCorrected, "nvidia_ecc_corrected", "NVIDIA ECC Errors Corrected", "count", COUNTER),
    (Q::EccUncorrected, "nvidia_ecc_uncorrected", "NVIDIA ECC Errors Uncorrected", "count",
        COUNTER),
    (Q::Processes, "nvidia_processes", "NVIDIA Processes", "count", GAUGE),
];

/// More than any board takes, less than a blank of the driver's in mW or in W.
pub const POWER_W_MAX: f64 = 100_000.0;

/// The same of its memory and its clocks.
const MEMORY_GB_MAX: f64 = 100_000.0;
const CLOCK_MHZ_MAX: f64 = 100_000.0;
/// No counter gets there.
const VALUE_MAX: f64 = 1e18;

/// AIPerf's names where the device is AMD's; the units are the same.
#[rustfmt::skip]
const AMD_ROWS: [(Q, &str, &str); 14] = [
    (Q::Power, "amd_power", "AMD GPU Power"),
    (Q::Energy, "amd_energy_consumption", "AMD Energy Consumption"),
    (Q::GpuUtilization, "amd_gfx_activity", "AMD GFX Activity"),
    (Q::MemoryUtilization, "amd_umc_activity", "AMD UMC Activity"),
    (Q::DecoderUtilization, "amd_mm_activity", "AMD MM Activity"),
    (Q::MemoryUsed, "amd_memory_used", "AMD GPU Memory Used"),
    (Q::MemoryTotal, "amd_memory_total", "AMD GPU Memory Total"),
    (Q::MemoryFree, "amd_memory_free", "AMD GPU Memory Free"),
    (Q::Temperature, "amd_temperature", "AMD GPU Temperature"),
    (Q::MemoryTemperature, "amd_memory_temperature", "AMD Memory Temperature"),
    (Q::SmClock, "amd_gfx_clock", "AMD GFX Clock"),
    (Q::MemoryClock, "amd_memory_clock", "AMD Memory Clock"),
    (Q::EccUncorrected, "amd_ecc_uncorrectable", "AMD ECC Uncorrectable"),
    (Q::ThrottleOther, "amd_throttle_status", "AMD Throttle Status"),
];

impl Quantity {
    /// How many there are.
    pub const COUNT: usize = Q::Processes as usize + 1;

    /// All, in the order of samples and reports.
    pub const ALL: [Quantity; Quantity::COUNT] = {
        let mut all = [Q::Power; Quantity::COUNT];
        let mut at = 0;
        while at < all.len() {
            all[at] = ROWS[at].0;
            at += 1;
        }
        all
    };

    /// Tag, header and unit of its figure.
    pub fn names(self) -> (&'static str, &'static str, &'static str) {
        let (_, tag, header, unit, _) = ROWS[self as usize];
        (tag, header, unit)
    }

    /// The same for a platform: `nvidia` or `amd`. AIPerf keeps them apart, since what goes by one
    /// name is not measured alike.
    pub fn names_of(self, platform: &str) -> (&'static str, &'static str, &'static str) {
        let (tag, header, unit) = self.names();
        let amd = AMD_ROWS.iter().find(|(quantity, ..)| *quantity == self);
        match amd.filter(|_| platform == "amd") {
            Some((_, tag, header)) => (tag, header, unit),
            None => (tag, header, unit),
        }
    }

    /// How its values go together.
    pub fn kind(self) -> TrackKind {
        ROWS[self as usize].4
    }

    /// Can it have this value? What cannot be is a blank of the driver or a slip of its counter.
    pub fn is_possible(self, value: f64) -> bool {
        match self {
            Q::Temperature | Q::MemoryTemperature => (-100.0..=300.0).contains(&value),
            Q::Power | Q::PowerLimit => (0.0..=POWER_W_MAX).contains(&value),
            _ if self.names().2 == "%" => (0.0..=100.0).contains(&value),
            Q::MemoryUsed | Q::MemoryTotal | Q::MemoryFree => {
                (0.0..=MEMORY_GB_MAX).contains(&value)
            }
            Q::SmClock | Q::MemoryClock => (0.0..=CLOCK_MHZ_MAX).contains(&value),
            _ => (0.0..=VALUE_MAX).contains(&value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_quantities() {
        for (at, quantity) in Quantity::ALL.into_iter().enumerate() {
            assert_eq!(quantity as usize, at);
        }
    }

    #[test]
    fn blanks_and_slips_are_no_values() {
        for (quantity, value, is_possible) in [
            (Q::GpuUtilization, 100.0, true),
            (Q::GpuUtilization, 4_294_967_295.0, false),
            (Q::SmUtilization, -1.0, false),
            (Q::Power, 700.0, true),
            (Q::Power, 4_294_967.295, false),
            (Q::Temperature, -20.0, true),
            (Q::MemoryUsed, f64::INFINITY, false),
            (Q::Energy, f64::NAN, false),
            (Q::Energy, 1e300, false),
            (Q::MemoryUsed, 1e14, false),
            (Q::SmClock, 4_294_967_295.0, false),
        ] {
            assert_eq!(
                quantity.is_possible(value),
                is_possible,
                "{quantity:?} {value}"
            );
        }
    }

    #[test]
    fn amd_has_names_of_its_own_and_the_same_units() {
        assert_eq!(
            Q::Power.names_of("amd"),
            ("amd_power", "AMD GPU Power", "W")
        );
        assert_eq!(Q::Power.names_of("nvidia"), Q::Power.names());
    }
}
