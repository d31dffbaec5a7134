//! NVIDIA's management library, loaded at run time: a machine without it runs as well.
//!
//! With MIG a GPU has a row of its own, and one for each instance. Power, energy, clocks and all
//! else that the board has once are in the GPU's row only, so that a sum over rows counts them
//! once; an instance has its memory.
#![allow(unsafe_code)]

use super::asked::{Asked, Query};
use super::reading::Gpu;
use super::visible::{Named, choose};
use super::{Device, GpuSample, Source};
use crate::base::{Ns, now};
use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::struct_wrappers::device::FieldValueSample;
use nvml_wrapper_sys::bindings::nvmlFieldValue_t;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Names under which the library is installed; the one without a version comes with the toolkit.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// As reports call this source.
const NAME: &str = "nvml://localhost";

/// GPUs listed: a machine has 16 or so, and the count comes from a library that may be any.
const GPUS_MAX: u32 = 256;

/// MIG instances listed of one GPU: hardware has seven.
const INSTANCES_MAX: u32 = 32;

/// How often what changes slowly is asked for: half of the calls, and counters that can wait.
const SLOW: Ns = Ns::from_ms(1_000);

/// How the source is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct NvmlOptions<'a> {
    /// The library, where it is not installed.
    pub library: Option<&'a Path>,
    /// `CUDA_VISIBLE_DEVICES`; absent shows all GPUs.
    pub visible: Option<&'a str>,
    /// Count the compute processes on each GPU.
    pub processes: bool,
}

/// The devices behind the library.
pub struct NvmlSource {
    devices: Vec<Device>,
    /// In the same order.
    gpus: Vec<Gpu>,
    processes: bool,
    started: Ns,
    /// When what changes slowly was last asked for.
    slow_at: Option<Ns>,
    notes: Vec<String>,
    invalid_samples: u64,
}

/// The library of this name, loaded and started once for the process and never given back: devices
/// borrow from it, the runs of a sweep share it, and giving it back ends in a panic where it lacks
/// `nvmlShutdown`.
fn library(name: &OsStr) -> Result<&'static Nvml, NvmlError> {
    static LOADED: Mutex<Vec<(OsString, &'static Nvml)>> = Mutex::new(Vec::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, nvml)) = loaded.iter().find(|(known, _)| known == name) {
        return Ok(nvml);
    }
    let nvml: &'static Nvml = Box::leak(Box::new(Nvml::builder().lib_path(name).init()?));
    loaded.push((name.to_owned(), nvml));
    Ok(nvml)
}

impl NvmlSource {
    /// Loads the library, the given one or the installed one, and lists the devices.
    ///
    /// Errors: a line that says what is missing.
    pub fn open(options: &NvmlOptions<'_>) -> Result<NvmlSource, String> {
        let mut reason = String::new();
        let installed = LIBRARIES.map(OsStr::new);
        let given = options.library.map(|path| [path.as_os_str()]);
        // Loading from a pipe or a device would wait for ever.
        let is_strange = |path: &&Path| path.metadata().is_ok_and(|found| !found.is_file());
        if let Some(path) = options.library.filter(is_strange) {
            return Err(format!(
                "{} does not load: it is no regular file",
                path.display()
            ));
        }
        for &name in given.as_ref().map_or(&installed[..], |given| &given[..]) {
            match library(name) {
                Ok(nvml) => return NvmlSource::list(nvml, options),
                Err(NvmlError::LibloadingError(error)) if given.is_some() => {
                    let error = error.to_string();
                    let first = error.lines().next().unwrap_or_default();
                    reason = format!("{} does not load: {first}", name.display());
                }
                Err(NvmlError::LibloadingError(_)) if reason.is_empty() => {
                    reason = format!("no NVIDIA driver library ({})", name.display());
                }
                Err(NvmlError::LibloadingError(_)) => {}
                // The library is there and its driver is not: more telling than "not found".
                Err(error) => reason = format!("NVML does not start: {error}"),
            }
        }
        Err(reason)
    }

    fn list(nvml: &'static Nvml, options: &NvmlOptions<'_>) -> Result<NvmlSource, String> {
        let count = nvml
            .device_count()
            .map_err(|error| format!("NVML does not count its devices: {error}"))?;
        let mut notes = Vec::new();
        let (mut rows, mut gpus) = (Vec::new(), Vec::new());
        for index in 0..count.min(GPUS_MAX) {
            match nvml.device_by_index(index) {
                Ok(handle) => describe(nvml, index, handle, &mut rows, &mut gpus),
                Err(error) => notes.push(format!("GPU {index} cannot be watched: {error}.")),
            }
        }
        if rows.is_empty() {
            return Err(notes
                .pop()
                .unwrap_or_else(|| "NVML knows no GPU".to_owned()));
        }
        let mut devices: Vec<Device> = rows.iter().map(|row: &Named| row.device.clone()).collect();
        if let Some(list) = options.visible {
            let (chosen, unknown) = choose(list, &rows);
            if chosen.is_empty() {
                let why = unknown.map(|text| format!(": {text}")).unwrap_or_default();
                return Err(format!("CUDA_VISIBLE_DEVICES leaves no GPU{why}"));
            }
            notes.extend(unknown);
            keep(&mut devices, &chosen);
            keep(&mut gpus, &chosen);
            if devices.len() < rows.len() {
                let left = named(devices.iter());
                notes.push(format!("CUDA_VISIBLE_DEVICES leaves {left} of {count}."));
            }
        }
        Ok(NvmlSource {
            devices,
            gpus,
            processes: options.processes,
            started: now(),
            slow_at: None,
            notes,
            invalid_samples: 0,
        })
    }

    fn take(&mut self, is_full: bool) -> Vec<GpuSample> {
        let begun = now();
        let is_due = |at: Ns| begun.saturating_since(at) >= SLOW;
        let is_full = is_full || self.slow_at.is_none_or(is_due);
        if is_full {
            self.slow_at = Some(begun);
        }
        let mut samples = Vec::with_capacity(self.gpus.len());
        for (device, gpu) in self.gpus.iter_mut().enumerate() {
            let at = now();
            let (values, impossible) = gpu.read(is_full, self.processes);
            self.invalid_samples += impossible;
            if gpu.asked.end_tick(at) {
                samples.push(GpuSample { device, at, values });
            }
        }
        samples
    }

    /// The whole GPUs of which this holds.
    fn those(&self, is_so: impl Fn(&Asked) -> bool) -> Option<String> {
        let all = self.devices.iter().zip(&self.gpus);
        let these = all.filter(|(_, gpu)| !gpu.is_instance && is_so(&gpu.asked));
        let mut these = these.map(|(device, _)| device).peekable();
        these.peek()?;
        Some(named(these))
    }
}

/// Adds the rows of a GPU: its own and those of its MIG instances.
fn describe(
    nvml: &'static Nvml,
    index: u32,
    handle: nvml_wrapper::Device<'static>,
    rows: &mut Vec<Named>,
    gpus: &mut Vec<Gpu>,
) {
    let whole = Device {
        index,
        uuid: handle.uuid().unwrap_or_default(),
        name: handle.name().unwrap_or_else(|_| "NVIDIA GPU".to_owned()),
        pci: handle.pci_info().map(|pci| pci.bus_id).unwrap_or_default(),
        platform: "nvidia",
        ..Device::default()
    };
    let is_split = handle.mig_mode().is_ok_and(|mode| mode.current == 1);
    let most = if is_split {
        handle.mig_device_count().unwrap_or(0)
    } else {
        0
    };
    let names = vec![whole.uuid.clone()];
    let parts: Vec<_> = (0..most.min(INSTANCES_MAX))
        .filter_map(|at| handle.mig_device_by_index(at).ok())
        .collect();
    let gpu = |handle, is_instance| Gpu {
        handle,
        asked: Asked::default(),
        is_instance,
    };
    rows.push(Named {
        device: whole.clone(),
        names,
    });
    gpus.push(gpu(handle, false));
    let own = rows.len();
    for part in parts {
        let uuid = part.uuid().unwrap_or_default();
        let instance = instance_id(nvml, &part).map_or(uuid.clone(), |id| id.to_string());
        // Compute instances on one GPU instance share its memory: one row.
        if let Some(row) = rows[own..]
            .iter_mut()
            .find(|row| row.device.instance == instance)
        {
            row.names.push(uuid);
            continue;
        }
        let names = vec![uuid, format!("MIG-{}/{instance}", whole.uuid)];
        let device = Device {
            name: part.name().unwrap_or_else(|_| whole.name.clone()),
            instance,
            ..whole.clone()
        };
        rows.push(Named { device, names });
        gpus.push(gpu(part, true));
    }
}

/// The items at these positions, which ascend.
fn keep<T>(items: &mut Vec<T>, positions: &[usize]) {
    let mut at = 0..;
    items.retain(|_| {
        at.next()
            .is_some_and(|at| positions.binary_search(&at).is_ok())
    });
}

/// `GPU 3`, or `GPUs 0, 1`: each once.
fn named<'a>(devices: impl Iterator<Item = &'a Device>) -> String {
    let mut all: Vec<u32> = devices.map(|device| device.index).collect();
    all.dedup();
    let word = if all.len() == 1 { "GPU" } else { "GPUs" };
    let all: Vec<String> = all.iter().map(u32::to_string).collect();
    format!("{word} {}", all.join(", "))
}

/// The GPU instance that a MIG device lies on.
fn instance_id(nvml: &Nvml, part: &nvml_wrapper::Device<'_>) -> Result<u32, NvmlError> {
    let ask = nvml_sym(nvml.lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
    let mut id = 0;
    // SAFETY: the handle is of this library, which is never unloaded, and `id` is there to fill.
    nvml_try(unsafe { ask(part.handle(), &raw mut id) })?;
    Ok(id)
}

/// What the fields of these ids and scopes say, in their order.
pub(super) fn field_values(
    device: &nvml_wrapper::Device<'_>,
    fields: &[(u32, u32)],
) -> Result<Vec<Result<SampleValue, NvmlError>>, NvmlError> {
    let ask = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    let empty = |&(id, scope): &(u32, u32)| {
        // SAFETY: numbers and a union of numbers, for all of which zeros are a value.
        let mut raw: nvmlFieldValue_t = unsafe { std::mem::zeroed() };
        (raw.fieldId, raw.scopeId) = (id, scope);
        raw
    };
    let mut raw: Vec<nvmlFieldValue_t> = fields.iter().map(empty).collect();
    let count = i32::try_from(raw.len()).map_err(|_| NvmlError::InvalidArg)?;
    // SAFETY: the handle is of this library, which is never unloaded, and `raw` has `count` places.
    nvml_try(unsafe { ask(device.handle(), count, raw.as_mut_ptr()) })?;
    let value = |raw| FieldValueSample::try_from(raw)?.value;
    Ok(raw.into_iter().map(value).collect())
}

impl Source for NvmlSource {
    fn name(&self) -> &str {
        NAME
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn sample(&mut self) -> Vec<GpuSample> {
        self.take(false)
    }

    fn sample_all(&mut self) -> Vec<GpuSample> {
        self.take(true)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        let tells_power = |asked: &Asked| !asked.has_refused(Query::PowerAverage);
        let is_instant = |asked: &Asked| !asked.has_refused(Query::PowerInstant);
        let is_average = |asked: &Asked| !is_instant(asked) && tells_power(asked);
        if let Some(these) = self.those(is_instant) {
            notes.push(format!(
                "Power of {these} is the driver's instant reading, not its average."
            ));
        }
        if let Some(these) = self.those(is_average) {
            notes.push(format!(
                "Power of {these} is the driver's own average, over up to a second, not an instant \
                 reading."
            ));
        }
        if let Some(these) = self.those(|asked| !tells_power(asked)) {
            notes.push(format!("Power of {these} is not told."));
        }
        let instances = self
            .devices
            .iter()
            .filter(|device| !device.instance.is_empty());
        if instances.clone().next().is_some() {
            notes.push(format!(
                "MIG on {}: power, energy and clocks are of the whole GPU, memory is of each \
                 instance, the driver tells no utilisation.",
                named(instances)
            ));
        }
        for (device, gpu) in self.devices.iter().zip(&self.gpus) {
            let name = match device.instance.as_str() {
                "" => format!("GPU {}", device.index),
                instance => format!("GPU {}, instance {instance},", device.index),
            };
            notes.extend(gpu.asked.loss(&name, self.started));
        }
        notes
    }

    fn invalid_samples(&self) -> u64 {
        self.invalid_samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_library_gets_one_line() {
        if let Err(reason) = NvmlSource::open(&NvmlOptions::default()) {
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}");
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_named() {
        let options = NvmlOptions {
            library: Some(Path::new("/dev/null")),
            ..NvmlOptions::default()
        };
        let reason = NvmlSource::open(&options).err().unwrap();
        assert!(reason.starts_with("/dev/null does not load: "), "{reason}");
    }
}
