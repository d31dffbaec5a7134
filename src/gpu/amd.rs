//! AMD's GPUs, by its program `amd-smi` and the JSON that it prints.

use super::{Device, GpuSample, Quantity, Source};
use crate::base::{Ns, now};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// As reports call this source.
const NAME: &str = "amdsmi://localhost";
/// How long one call may take: it is a script that loads a library.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often its end is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes that are read: 8 GPUs have some 60 kB.
const BYTES_MAX: u64 = 8 << 20;
/// Gigabytes of what the program calls MB: 2^20 bytes.
const GB_PER_MB: f64 = 1.048_576e-3;

/// The GPUs that `amd-smi` knows.
pub struct AmdSource {
    program: std::path::PathBuf,
    devices: Vec<Device>,
    invalid: u64,
    faults: BTreeMap<String, u64>,
}

impl AmdSource {
    /// Asks the program for its GPUs.
    ///
    /// Errors: a line that says what is missing.
    pub fn open(program: &Path) -> Result<AmdSource, String> {
        let list = ask(program, &["list", "--json"])?;
        // Names are worth a call, and no reason to do without.
        let names = ask(program, &["static", "--asic", "--json"]).unwrap_or_default();
        let devices = devices(&list, &names);
        if devices.is_empty() {
            return Err("amd-smi knows no GPU".into());
        }
        Ok(AmdSource {
            program: program.to_owned(),
            devices,
            invalid: 0,
            faults: BTreeMap::new(),
        })
    }
}

impl Source for AmdSource {
    fn name(&self) -> &str {
        NAME
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn sample(&mut self) -> Vec<GpuSample> {
        let asked = now();
        match ask(&self.program, &["metric", "--json"]) {
            Ok(said) => {
                let at = Ns(asked.0 + now().saturating_since(asked).0 / 2);
                samples(&said, &self.devices, at, &mut self.invalid)
            }
            Err(reason) => {
                *self.faults.entry(reason).or_default() += 1;
                Vec::new()
            }
        }
    }

    fn invalid_samples(&self) -> u64 {
        self.invalid
    }

    fn errors(&self) -> Vec<(String, u64)> {
        let shown = |(reason, count): (&String, &u64)| (format!("{NAME}: {reason}"), *count);
        self.faults.iter().map(shown).collect()
    }
}

/// What the program prints. Errors: it does not end in time, fails, or prints no JSON.
fn ask(program: &Path, arguments: &[&str]) -> Result<Value, String> {
    let shown = format!("{} {}", program.display(), arguments.join(" "));
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.map_err(|error| format!("{shown}: {error}"))?;
    let said = answer(&mut child);
    if said.is_err() {
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (text, is_well) = said.map_err(|reason| format!("{shown}: {reason}"))?;
    match serde_json::from_slice(&text) {
        Ok(value) => Ok(value),
        Err(_) if !is_well => Err(format!("{shown}: it failed")),
        Err(_) => Err(format!("{shown}: it prints no JSON")),
    }
}

/// What it prints until it ends, and whether it ends well.
fn answer(child: &mut Child) -> Result<(Vec<u8>, bool), &'static str> {
    let pipe = child.stdout.take().ok_or("no output")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // What came so far is judged as JSON.
        let _ = pipe.take(BYTES_MAX).read_to_end(&mut text);
        text
    });
    let begun = Instant::now();
    let status = loop {
        let ended = child.try_wait().map_err(|_| "its end cannot be seen")?;
        if let Some(status) = ended.filter(|_| reader.is_finished()) {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            return Err("no answer within 5 s");
        }
        std::thread::sleep(LOOK);
    };
    let text = reader.join().map_err(|_| "its output cannot be read")?;
    Ok((text, status.success()))
}

/// The list of GPUs, which newer versions wrap.
fn rows(said: &Value) -> &[Value] {
    let list = said.get("gpu_data").unwrap_or(said);
    list.as_array().map_or(&[], Vec::as_slice)
}

fn index(row: &Value) -> Option<u32> {
    row["gpu"]
        .as_u64()
        .and_then(|index| u32::try_from(index).ok())
}

fn devices(list: &Value, names: &Value) -> Vec<Device> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let device = |row: &Value| {
        let index = index(row)?;
        let mut named = rows(names).iter();
        let asic = named.find(|other| self::index(other) == Some(index));
        let name = asic.map(|asic| text(&asic["asic"]["market_name"]));
        Some(Device {
            index,
            uuid: text(&row["uuid"]),
            name: name
                .filter(|name| !name.is_empty())
                .unwrap_or("AMD GPU".into()),
            pci: text(&row["bdf"]),
            platform: "amd",
            ..Device::default()
        })
    };
    rows(list).iter().filter_map(device).collect()
}

/// A number as the program has it: plain or `{value, unit}`; absent for `N/A`.
fn number(row: &Value, path: &[&str]) -> Option<f64> {
    let found = path.iter().try_fold(row, |value, key| value.get(key))?;
    found.get("value").unwrap_or(found).as_f64()
}

/// Quantity, where it stands, and what makes its unit ours. The first place that tells counts.
#[rustfmt::skip]
const PLACES: [(Quantity, &[&str], f64); 15] = [
    (Quantity::Power, &["power", "socket_power"], 1.0),
    (Quantity::Power, &["power", "average_socket_power"], 1.0),
    (Quantity::Energy, &["energy", "total_energy_consumption"], 1.0),
    (Quantity::GpuUtilization, &["usage", "gfx_activity"], 1.0),
    (Quantity::MemoryUtilization, &["usage", "umc_activity"], 1.0),
    (Quantity::DecoderUtilization, &["usage", "mm_activity"], 1.0),
    (Quantity::MemoryUsed, &["mem_usage", "used_vram"], GB_PER_MB),
    (Quantity::MemoryTotal, &["mem_usage", "total_vram"], GB_PER_MB),
    (Quantity::MemoryFree, &["mem_usage", "free_vram"], GB_PER_MB),
    (Quantity::Temperature, &["temperature", "hotspot"], 1.0),
    (Quantity::Temperature, &["temperature", "edge"], 1.0),
    (Quantity::MemoryTemperature, &["temperature", "mem"], 1.0),
    (Quantity::SmClock, &["clock", "gfx_0", "clk"], 1.0),
    (Quantity::MemoryClock, &["clock", "mem_0", "clk"], 1.0),
    (Quantity::EccUncorrected, &["ecc", "total_uncorrectable_count"], 1.0),
];

fn samples(said: &Value, devices: &[Device], at: Ns, invalid: &mut u64) -> Vec<GpuSample> {
    let mut all = Vec::new();
    for row in rows(said) {
        let own = index(row).and_then(|own| devices.iter().position(|known| known.index == own));
        let Some(device) = own else {
            continue;
        };
        let mut values = [None; Quantity::COUNT];
        for (quantity, path, factor) in PLACES {
            let value = number(row, path).map(|value| value * factor);
            match value {
                Some(value) if !quantity.is_possible(value) => *invalid += 1,
                Some(_) if values[quantity as usize].is_none() => {
                    values[quantity as usize] = value;
                }
                _ => {}
            }
        }
        let throttled = row["power"]["throttle_status"].as_str();
        values[Quantity::ThrottleOther as usize] = match throttled {
            Some("THROTTLED") => Some(1.0),
            Some("UNTHROTTLED") => Some(0.0),
            _ => None,
        };
        all.push(GpuSample { device, at, values });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRIC: &str = include_str!("../../tests/data/pages/amd_smi_metric.json");
    const LIST: &str = include_str!("../../tests/data/pages/amd_smi_list.json");
    const STATIC: &str = include_str!("../../tests/data/pages/amd_smi_static.json");

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_the_program_prints_is_read_in_our_units() {
        let devices = devices(&value(LIST), &value(STATIC));
        assert_eq!(
            (devices.len(), devices[0].name.as_str()),
            (2, "AMD Instinct MI300X")
        );
        assert_eq!(
            (devices[1].index, devices[1].pci.as_str()),
            (1, "0000:26:00.0")
        );
        let mut invalid = 0;
        let found = samples(&value(METRIC), &devices, Ns(7), &mut invalid);
        let of = |at: usize, quantity| found[at].get(quantity);
        assert_eq!(of(0, Quantity::Power), Some(613.0));
        assert_eq!(of(0, Quantity::Energy), Some(1_234_567.891));
        assert_eq!(of(0, Quantity::GpuUtilization), Some(97.0));
        assert_eq!(of(0, Quantity::DecoderUtilization), None);
        assert_eq!(of(0, Quantity::MemoryTotal), Some(196_592.0 * GB_PER_MB));
        assert_eq!(of(0, Quantity::ThrottleOther), Some(1.0));
        // The second says little, and one thing that cannot be.
        assert_eq!(of(1, Quantity::Power), Some(140.0));
        assert_eq!((of(1, Quantity::GpuUtilization), invalid), (None, 1));
        let wrapped = serde_json::json!({"gpu_data": value(METRIC)});
        assert_eq!(samples(&wrapped, &devices, Ns(7), &mut invalid).len(), 2);
    }

    #[test]
    fn a_program_that_is_missing_or_prints_something_else_is_named() {
        let error = ask(Path::new("/no/such/amd-smi"), &["list"]).unwrap_err();
        assert!(error.starts_with("/no/such/amd-smi list: "), "{error}");
        let error = ask(Path::new("echo"), &["hello"]).unwrap_err();
        assert!(error.ends_with("it prints no JSON"), "{error}");
        let error = ask(Path::new("false"), &[]).unwrap_err();
        assert!(error.ends_with("it failed"), "{error}");
    }
}
