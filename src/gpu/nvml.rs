//! NVIDIA's management library, loaded at run time: a machine without it runs as well.

use super::{Device, GpuSample, Quantity, Source};
use crate::base::now;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id::NVML_FI_DEV_POWER_INSTANT;
use std::ffi::OsStr;
use std::path::Path;

/// Names under which the library is installed; the one without a version comes with the toolkit.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// As reports call this source.
const NAME: &str = "nvml://localhost";

/// What can be asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Query {
    PowerInstant,
    PowerAverage,
    Energy,
    Utilization,
    Memory,
    Temperature,
    SmClock,
    MemoryClock,
}

const QUERY_COUNT: usize = 8;

/// The devices behind the library.
pub struct NvmlSource {
    nvml: Nvml,
    devices: Vec<Device>,
    /// Per device and query: answered "not supported", so it is not asked again.
    refused: Vec<[bool; QUERY_COUNT]>,
}

impl NvmlSource {
    /// Loads the library, the given one or the installed one, and lists the devices.
    ///
    /// Errors: a line that says what is missing.
    pub fn open(given: Option<&Path>) -> Result<NvmlSource, String> {
        let mut reason = String::new();
        let installed = LIBRARIES.map(OsStr::new);
        let given = given.map(|path| [path.as_os_str()]);
        for &library in given.as_ref().map_or(&installed[..], |given| &given[..]) {
            match Nvml::builder().lib_path(library).init() {
                Ok(nvml) => return NvmlSource::list(nvml),
                // The library is there and its driver is not: more telling than "not found".
                Err(error) if !matches!(error, NvmlError::LibloadingError(_)) => {
                    reason = format!("NVML does not start: {error}");
                }
                Err(_) if reason.is_empty() => {
                    reason = format!("no NVIDIA driver library ({})", library.display());
                }
                Err(_) => {}
            }
        }
        Err(reason)
    }

    fn list(nvml: Nvml) -> Result<NvmlSource, String> {
        let count = nvml
            .device_count()
            .map_err(|error| format!("NVML does not count its devices: {error}"))?;
        let mut devices = Vec::new();
        for index in 0..count {
            if let Ok(device) = nvml.device_by_index(index) {
                devices.push(Device {
                    index,
                    uuid: device.uuid().unwrap_or_default(),
                    name: device.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
                    platform: "nvidia",
                    ..Device::default()
                });
            }
        }
        if devices.is_empty() {
            return Err("NVML knows no GPU".to_owned());
        }
        Ok(NvmlSource {
            nvml,
            refused: vec![[false; QUERY_COUNT]; devices.len()],
            devices,
        })
    }
}

/// Asks unless the device refused before; remembers a refusal.
fn ask<T>(
    refused: &mut [bool; QUERY_COUNT],
    query: Query,
    read: impl FnOnce() -> Result<T, NvmlError>,
) -> Option<T> {
    if refused[query as usize] {
        return None;
    }
    match read() {
        Ok(value) => Some(value),
        Err(error) => {
            refused[query as usize] = is_final(&error);
            None
        }
    }
}

/// True when asking again cannot help.
fn is_final(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported
            | NvmlError::NoPermission
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::InvalidArg
            | NvmlError::UnexpectedVariant(_)
    )
}

/// Power now rather than over the last second: on recent devices `power_usage` is such an average.
fn power_instant(device: &nvml_wrapper::Device<'_>) -> Result<f64, NvmlError> {
    let field = device
        .field_values_for(&[FieldId(NVML_FI_DEV_POWER_INSTANT)])?
        .into_iter()
        .next()
        .ok_or(NvmlError::NotSupported)??;
    match field.value? {
        SampleValue::U32(milliwatts) => Ok(f64::from(milliwatts) / 1e3),
        _ => Err(NvmlError::NotSupported),
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 bytes are 9 petabytes")]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "2^53 mJ are 9 TJ")]
fn joules(millijoules: u64) -> f64 {
    millijoules as f64 / 1e3
}

fn read(
    device: &nvml_wrapper::Device<'_>,
    refused: &mut [bool; QUERY_COUNT],
) -> [Option<f64>; Quantity::COUNT] {
    let power = ask(refused, Query::PowerInstant, || power_instant(device)).or_else(|| {
        ask(refused, Query::PowerAverage, || device.power_usage()).map(|mw| f64::from(mw) / 1e3)
    });
    let energy = ask(refused, Query::Energy, || device.total_energy_consumption());
    let busy = ask(refused, Query::Utilization, || device.utilization_rates());
    let memory = ask(refused, Query::Memory, || device.memory_info());
    let temperature = ask(refused, Query::Temperature, || {
        device.temperature(TemperatureSensor::Gpu)
    });
    let sm_clock = ask(refused, Query::SmClock, || device.clock_info(Clock::SM));
    let memory_clock = ask(refused, Query::MemoryClock, || {
        device.clock_info(Clock::Memory)
    });
    let value = |quantity| match quantity {
        Quantity::Power => power,
        Quantity::Energy => energy.map(joules),
        Quantity::GpuUtilization => busy.as_ref().map(|busy| f64::from(busy.gpu)),
        Quantity::MemoryUtilization => busy.as_ref().map(|busy| f64::from(busy.memory)),
        Quantity::MemoryUsed => memory.as_ref().map(|memory| gigabytes(memory.used)),
        Quantity::MemoryTotal => memory.as_ref().map(|memory| gigabytes(memory.total)),
        Quantity::Temperature => temperature.map(f64::from),
        Quantity::SmClock => sm_clock.map(f64::from),
        Quantity::MemoryClock => memory_clock.map(f64::from),
        _ => None,
    };
    Quantity::ALL.map(value)
}

impl Source for NvmlSource {
    fn name(&self) -> &str {
        NAME
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn sample(&mut self) -> Vec<GpuSample> {
        let mut samples = Vec::with_capacity(self.devices.len());
        for (position, device) in self.devices.iter().enumerate() {
            let Ok(handle) = self.nvml.device_by_index(device.index) else {
                continue;
            };
            let at = now();
            let values = read(&handle, &mut self.refused[position]);
            samples.push(GpuSample {
                device: position,
                at,
                values,
            });
        }
        samples
    }

    fn notes(&self) -> Vec<String> {
        let is_average = |refused: &[bool; QUERY_COUNT]| refused[Query::PowerInstant as usize];
        if self.refused.iter().any(is_average) {
            vec!["GPU power is the driver's own average, not an instant reading.".to_owned()]
        } else {
            vec!["GPU power is read instantly.".to_owned()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_is_not_supported_is_asked_once() {
        let mut refused = [false; QUERY_COUNT];
        let mut asked = 0;
        for _ in 0..3 {
            let answer = ask(&mut refused, Query::Energy, || {
                asked += 1;
                Err::<u64, _>(NvmlError::NotSupported)
            });
            assert_eq!(answer, None);
        }
        assert_eq!(asked, 1);
        assert_eq!(ask(&mut refused, Query::Memory, || Ok(3)), Some(3));
    }

    #[test]
    fn a_passing_fault_is_asked_again() {
        let mut refused = [false; QUERY_COUNT];
        let first = ask(&mut refused, Query::Memory, || {
            Err::<u64, _>(NvmlError::Unknown)
        });
        assert_eq!(first, None);
        assert_eq!(ask(&mut refused, Query::Memory, || Ok(3)), Some(3));
    }

    #[test]
    fn a_machine_without_the_library_gets_one_line() {
        if let Err(reason) = NvmlSource::open(None) {
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}");
        }
    }
}
