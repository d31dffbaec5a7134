//! Pages of NVIDIA's DCGM exporter: fields, their units, how a device is named.

use super::Device;
use super::Quantity as Q;
use crate::base::one_line;
use crate::scrape::Sample;

/// Characters of a label that are kept: it stands in every report.
pub(super) const LABEL_CHARS_MAX: usize = 100;

/// Bytes of a mebibyte in gigabytes.
const GB_PER_MIB: f64 = 1.048_576e-3;

/// Field, quantity, and what makes the field's unit ours. Of two fields of a quantity the first
/// that is told counts.
#[rustfmt::skip]
pub const FIELDS: [(&str, Q, f64); 27] = [
    ("DCGM_FI_DEV_POWER_USAGE_INSTANT", Q::Power, 1.0),
    ("DCGM_FI_DEV_POWER_USAGE", Q::Power, 1.0),
    // mJ
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Q::Energy, 1e-3),
    ("DCGM_FI_DEV_GPU_UTIL", Q::GpuUtilization, 1.0),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", Q::MemoryUtilization, 1.0),
    // MiB
    ("DCGM_FI_DEV_FB_USED", Q::MemoryUsed, GB_PER_MIB),
    ("DCGM_FI_DEV_GPU_TEMP", Q::Temperature, 1.0),
    // 0..1
    ("DCGM_FI_PROF_SM_ACTIVE", Q::SmUtilization, 100.0),
    ("DCGM_FI_DEV_DEC_UTIL", Q::DecoderUtilization, 1.0),
    ("DCGM_FI_DEV_ENC_UTIL", Q::EncoderUtilization, 1.0),
    ("DCGM_FI_DEV_XID_ERRORS", Q::XidErrors, 1.0),
    // ns, whatever some help texts say
    ("DCGM_FI_DEV_POWER_VIOLATION", Q::PowerViolation, 1e-3),
    ("DCGM_FI_DEV_THERMAL_VIOLATION", Q::ThermalViolation, 1e-3),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", Q::PowerLimit, 1.0),
    ("DCGM_FI_DEV_POWER_MGMT_LIMIT", Q::PowerLimit, 1.0),
    ("DCGM_FI_DEV_FB_TOTAL", Q::MemoryTotal, GB_PER_MIB),
    ("DCGM_FI_DEV_FB_FREE", Q::MemoryFree, GB_PER_MIB),
    ("DCGM_FI_DEV_MEMORY_TEMP", Q::MemoryTemperature, 1.0),
    ("DCGM_FI_DEV_SM_CLOCK", Q::SmClock, 1.0),
    ("DCGM_FI_DEV_MEM_CLOCK", Q::MemoryClock, 1.0),
    ("DCGM_FI_PROF_PCIE_TX_BYTES", Q::PcieSent, 1.0),
    ("DCGM_FI_PROF_PCIE_RX_BYTES", Q::PcieReceived, 1.0),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", Q::PcieReplays, 1.0),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", Q::EccCorrected, 1.0),
    ("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", Q::EccCorrected, 1.0),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", Q::EccUncorrected, 1.0),
    ("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", Q::EccUncorrected, 1.0),
];

/// Fields that are a mask of reasons for lower clocks, the new name first.
pub const REASONS: [&str; 2] = [
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
];

/// Bits of NVML's reasons that hurt: the power limit; heat, in software and in hardware; a slowdown
/// by the hardware and the power brake.
const THROTTLES: [(Q, u64); 3] = [
    (Q::ThrottlePower, 0x4),
    (Q::ThrottleThermal, 0x20 | 0x40),
    (Q::ThrottleOther, 0x8 | 0x80),
];

/// The name of a field as the table has it: some exporters end a counter's with `_total`.
pub fn field(name: &str) -> Option<&str> {
    let is_field = name.starts_with("DCGM_FI_");
    is_field.then(|| name.strip_suffix("_total").unwrap_or(name))
}

/// What DCGM says where it has no value: 2^63 - 16 and on, 2^47 and on, 2^31 - 16 and on.
pub fn is_blank(value: f64) -> bool {
    let blank = |first: f64| (first..first + 16.0).contains(&value);
    value >= 9.2e18 || blank(140_737_488_355_328.0) || blank(2_147_483_632.0)
}

/// What a mask says of each throttle, 1 or 0.
pub fn throttles(mask: f64) -> Option<[(Q, f64); 3]> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number in range"
    )]
    let bits = (0.0..9.0e15).contains(&mask).then_some(mask as u64)?;
    Some(THROTTLES.map(|(quantity, mask)| (quantity, f64::from(u8::from(bits & mask != 0)))))
}

/// The device that a sample is of.
pub fn device(sample: &Sample<'_>) -> Device {
    let label = |name: &str| one_line(sample.label(name).unwrap_or_default(), LABEL_CHARS_MAX);
    Device {
        index: label("gpu").parse().unwrap_or(0),
        uuid: label("UUID"),
        name: label("modelName"),
        instance: label("GPU_I_ID"),
        hostname: label("Hostname"),
        pci: label("pci_bus_id"),
        platform: "nvidia",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_known_and_a_large_counter_is_none() {
        for blank in [
            9_223_372_036_854_775_792.0,
            9_223_372_036_854_775_794.0,
            140_737_488_355_328.0,
            2_147_483_632.0,
        ] {
            assert!(is_blank(blank), "{blank}");
        }
        assert!(!is_blank(126_272_101_025.0) && !is_blank(0.0));
    }

    #[test]
    fn a_mask_is_told_apart() {
        assert_eq!(
            throttles(f64::from(0x4 | 0x1)),
            Some([
                (Q::ThrottlePower, 1.0),
                (Q::ThrottleThermal, 0.0),
                (Q::ThrottleOther, 0.0)
            ])
        );
        assert_eq!(throttles(-1.0), None);
    }
}
