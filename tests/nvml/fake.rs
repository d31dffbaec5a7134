//! An NVML without a GPU: `libnvidia-ml.so` as far as tokenring calls it, by a script.
//!
//! It is built by the tests that load it (`rustc --crate-type cdylib`), and stands on nothing. It
//! has no `nvmlShutdown`: a caller that relies on it fails.
//!
//! `FAKE_NVML` names the script; times are seconds since the library was started, GPUs an index or
//! `all`:
//!
//! ```text
//! gpus 8
//! watts all 300 500@1.5        # 300 W, from 1.5 s on 500 W; the energy counter follows
//! counter 0 9000000            # mJ at the start
//! reset 0 1.2                  # the counter begins again
//! value 0 Throttle 4           # what a query answers
//! refuse 0 TotalEnergyConsumption   # "not supported"; of a field: Field186
//! lose 3 1.0 2.0               # fallen off the bus, and back
//! mig 0 3 4 5                  # split into these GPU instances
//! init 9                       # what starting the library answers
//! log FILE                     # a line for each call: the query, the GPU
//! ```
#![allow(non_snake_case)]

use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::time::Instant;

const OK: u32 = 0;
const UNINITIALIZED: u32 = 1;
const INVALID: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
const LOST: u32 = 15;

/// Handles of a GPU and of its instances lie so far apart.
const HANDLES: usize = 64;

#[derive(Clone, Default)]
struct Gpu {
    /// Second from which on, and W.
    watts: Vec<(f64, f64)>,
    counter_mj: f64,
    resets: Vec<f64>,
    values: HashMap<String, u64>,
    refused: Vec<String>,
    lost: Option<(f64, f64)>,
    instances: Vec<u32>,
}

struct Script {
    started: Instant,
    gpus: Vec<Gpu>,
    log: Option<File>,
    init: u32,
}

static SCRIPT: OnceLock<Script> = OnceLock::new();

fn read(text: &str) -> Script {
    let words = |line: &str| -> Vec<String> {
        let line = line.split('#').next().unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let mut script = Script {
        started: Instant::now(),
        gpus: vec![Gpu::default()],
        log: None,
        init: OK,
    };
    for line in text.lines().map(words) {
        let number = |at: usize| line.get(at).and_then(|word| word.parse::<f64>().ok());
        match line.first().map(String::as_str) {
            None => continue,
            Some("log") => {
                let file = OpenOptions::new().append(true).create(true).open(&line[1]);
                script.log = Some(file.expect("the log"));
            }
            Some("init") => script.init = line[1].parse().expect("a code"),
            Some("gpus") => {
                let count = line[1].parse().expect("a number of GPUs");
                script.gpus = vec![Gpu::default(); count];
            }
            Some(word) => {
                let of = &line[1];
                for (index, gpu) in script.gpus.iter_mut().enumerate() {
                    if of != "all" && *of != index.to_string() {
                        continue;
                    }
                    match word {
                        "watts" => gpu.watts = line[2..].iter().map(|word| watts(word)).collect(),
                        "counter" => gpu.counter_mj = number(2).expect("mJ"),
                        "reset" => gpu.resets.push(number(2).expect("a time")),
                        "value" => {
                            let value = line[3].parse().expect("a value");
                            gpu.values.insert(line[2].clone(), value);
                        }
                        "refuse" => gpu.refused.push(line[2].clone()),
                        "lose" => {
                            let until = number(3).unwrap_or(f64::INFINITY);
                            gpu.lost = Some((number(2).expect("a time"), until));
                        }
                        "mig" => {
                            let ids = line[2..].iter().map(|id| id.parse().expect("an id"));
                            gpu.instances = ids.collect();
                        }
                        other => panic!("FAKE_NVML: unknown word {other}"),
                    }
                }
            }
        }
    }
    script
}

/// `500@1.5`
fn watts(word: &str) -> (f64, f64) {
    let (value, from) = word.split_once('@').unwrap_or((word, "0"));
    let number = |text: &str| text.parse().expect("watts");
    (number(from), number(value))
}

impl Gpu {
    fn power_w(&self, at: f64) -> f64 {
        let past = self.watts.iter().rfind(|(from, _)| *from <= at);
        past.map_or(100.0, |(_, watts)| *watts)
    }

    /// Joules between two moments.
    fn joules(&self, from: f64, to: f64) -> f64 {
        let inner = self.watts.iter().map(|(at, _)| *at);
        let mut edges: Vec<f64> = inner.filter(|at| from < *at && *at < to).collect();
        edges.insert(0, from);
        edges.push(to);
        let parts = edges.windows(2);
        parts
            .map(|edge| self.power_w(edge[0]) * (edge[1] - edge[0]))
            .sum()
    }

    fn energy_mj(&self, at: f64) -> u64 {
        let reset = self.resets.iter().copied().filter(|reset| *reset <= at);
        let (start, from) = match reset.reduce(f64::max) {
            Some(reset) => (0.0, reset),
            None => (self.counter_mj, 0.0),
        };
        (start + self.joules(from, at) * 1e3) as u64
    }
}

/// The GPU of a handle and which of its instances, if it is of one.
fn find(handle: usize) -> Option<(usize, &'static Gpu, Option<usize>)> {
    let at = handle.checked_sub(1)?;
    let (index, part) = (at / HANDLES, at % HANDLES);
    let gpu = SCRIPT.get()?.gpus.get(index)?;
    Some((index, gpu, part.checked_sub(1)))
}

fn log(query: &str, index: usize) {
    if let Some(mut file) = SCRIPT.get().and_then(|script| script.log.as_ref()) {
        // One write for a line: threads may call at once.
        let line = format!("{query} {index}\n");
        file.write_all(line.as_bytes()).expect("the log");
    }
}

/// Answers a query of a GPU by `fill`, unless the script says otherwise.
fn answer(query: &str, handle: usize, fill: impl FnOnce(&Gpu, f64)) -> u32 {
    let Some(script) = SCRIPT.get() else {
        return UNINITIALIZED;
    };
    let Some((index, gpu, part)) = find(handle) else {
        return INVALID;
    };
    log(query, index);
    let at = script.started.elapsed().as_secs_f64();
    if gpu
        .lost
        .is_some_and(|(from, until)| from <= at && at < until)
    {
        return LOST;
    }
    let is_of_board = !["MemoryInfo", "UUID", "Name", "GpuInstanceId"].contains(&query);
    if gpu.refused.iter().any(|name| name == query) || (part.is_some() && is_of_board) {
        return NOT_SUPPORTED;
    }
    fill(gpu, at);
    OK
}

/// A query whose answer is a number that the script may give.
fn number(query: &str, handle: usize, usual: u64, put: impl FnOnce(u64)) -> u32 {
    answer(query, handle, |gpu, _| {
        put(*gpu.values.get(query).unwrap_or(&usual))
    })
}

unsafe fn put_text(text: &str, out: *mut c_char, length: u32) {
    let kept = text.len().min(length as usize - 1);
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, kept);
        *out.add(kept) = 0;
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> u32 {
    let script = SCRIPT.get_or_init(|| {
        let file = std::env::var("FAKE_NVML").expect("FAKE_NVML names a script");
        read(&std::fs::read_to_string(file).expect("the script of FAKE_NVML"))
    });
    script.init
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut u32) -> u32 {
    unsafe { *out = SCRIPT.get().map_or(0, |script| script.gpus.len() as u32) };
    OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut usize) -> u32 {
    let handle = index as usize * HANDLES + 1;
    if find(handle).is_none() {
        return INVALID;
    }
    log("HandleByIndex", index as usize);
    unsafe { *out = handle };
    OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(handle: usize, out: *mut c_char, length: u32) -> u32 {
    answer("UUID", handle, |_, _| {
        let (gpu, part) = ((handle - 1) / HANDLES, (handle - 1) % HANDLES);
        let text = match part {
            0 => format!("GPU-{gpu:08x}-aaaa-bbbb-cccc-000000000000"),
            part => format!("MIG-{gpu:08x}-aaaa-bbbb-cccc-{part:012x}"),
        };
        unsafe { put_text(&text, out, length) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(handle: usize, out: *mut c_char, length: u32) -> u32 {
    answer("Name", handle, |_, _| unsafe {
        put_text("NVIDIA Fake", out, length);
    })
}

#[repr(C)]
pub struct Pci {
    legacy: [c_char; 16],
    domain: u32,
    bus: u32,
    device: u32,
    id: u32,
    subsystem: u32,
    text: [c_char; 32],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(handle: usize, out: *mut Pci) -> u32 {
    answer("PciInfo", handle, |_, _| {
        let bus = (handle - 1) / HANDLES + 0x10;
        let text = format!("00000000:{bus:02X}:00.0");
        unsafe {
            put_text(&text, (&raw mut (*out).text).cast(), 32);
            (*out).bus = bus as u32;
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    handle: usize,
    current: *mut u32,
    pending: *mut u32,
) -> u32 {
    answer("MigMode", handle, |gpu, _| unsafe {
        *current = u32::from(!gpu.instances.is_empty());
        *pending = *current;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: usize, out: *mut u32) -> u32 {
    answer("MaxMigDeviceCount", handle, |_, _| unsafe { *out = 7 })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    handle: usize,
    index: u32,
    out: *mut usize,
) -> u32 {
    let is_there = find(handle).is_some_and(|(_, gpu, _)| gpu.instances.len() > index as usize);
    if !is_there {
        return NOT_FOUND;
    }
    unsafe { *out = handle + 1 + index as usize };
    OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(handle: usize, out: *mut u32) -> u32 {
    answer("GpuInstanceId", handle, |gpu, _| {
        let part = find(handle).and_then(|(_, _, part)| part).unwrap_or(0);
        unsafe { *out = gpu.instances[part] }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(handle: usize, out: *mut u32) -> u32 {
    answer("PowerUsage", handle, |gpu, at| unsafe {
        *out = (gpu.power_w(at) * 1e3) as u32;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(handle: usize, out: *mut u64) -> u32 {
    answer("TotalEnergyConsumption", handle, |gpu, at| unsafe {
        *out = gpu.energy_mj(at);
    })
}

#[repr(C)]
pub struct Field {
    id: u32,
    scope: u32,
    timestamp: i64,
    latency: i64,
    /// 3: an unsigned number of 64 bits.
    kind: u32,
    code: u32,
    value: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(
    handle: usize,
    count: c_int,
    fields: *mut Field,
) -> u32 {
    for at in 0..count as usize {
        let field = unsafe { &mut *fields.add(at) };
        // Of one link there is a quarter.
        let links = if field.scope == u32::MAX { 4 } else { 1 };
        let query = format!("Field{}", field.id);
        let mut value = 0;
        let code = answer(&query, handle, |gpu, at| {
            value = match field.id {
                186 => (gpu.power_w(at) * 1e3) as u64,
                82 => 60,
                138 | 139 => (at * 1e3) as u64 * links,
                _ => 0,
            };
        });
        (field.kind, field.code, field.value) = (3, code, value);
        if code == LOST {
            return LOST;
        }
    }
    OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(handle: usize, out: *mut [u32; 2]) -> u32 {
    if find(handle).is_some_and(|(_, gpu, _)| !gpu.instances.is_empty()) {
        return NOT_SUPPORTED;
    }
    number("UtilizationRates", handle, 50, |busy| unsafe {
        *out = [busy as u32, 25];
    })
}

#[repr(C)]
pub struct Memory {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: usize, out: *mut Memory) -> u32 {
    let parts = find(handle).map_or(1, |(_, gpu, part)| part.map_or(1, |_| gpu.instances.len()));
    answer("MemoryInfo", handle, |_, _| unsafe {
        (*out).total = 80_000_000_000 / parts as u64;
        (*out).used = 20_000_000_000 / parts as u64;
        (*out).free = (*out).total - (*out).used;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(
    handle: usize,
    _sensor: u32,
    out: *mut u32,
) -> u32 {
    number("Temperature", handle, 55, |heat| unsafe {
        *out = heat as u32
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(handle: usize, kind: u32, out: *mut u32) -> u32 {
    let (query, usual) = if kind == 1 {
        ("SmClock", 1980)
    } else {
        ("MemoryClock", 2619)
    };
    number(query, handle, usual, |clock| unsafe { *out = clock as u32 })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    handle: usize,
    out: *mut u64,
) -> u32 {
    number("Throttle", handle, 0, |reasons| unsafe { *out = reasons })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEnforcedPowerLimit(handle: usize, out: *mut u32) -> u32 {
    number("PowerLimit", handle, 700_000, |mw| unsafe {
        *out = mw as u32
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetDecoderUtilization(
    handle: usize,
    out: *mut u32,
    period: *mut u32,
) -> u32 {
    number("Decoder", handle, 0, |busy| unsafe {
        (*out, *period) = (busy as u32, 20_000);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEncoderUtilization(
    handle: usize,
    out: *mut u32,
    period: *mut u32,
) -> u32 {
    number("Encoder", handle, 0, |busy| unsafe {
        (*out, *period) = (busy as u32, 20_000);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPcieReplayCounter(handle: usize, out: *mut u32) -> u32 {
    number("PcieReplays", handle, 2, |count| unsafe {
        *out = count as u32
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetViolationStatus(
    handle: usize,
    policy: u32,
    out: *mut [u64; 2],
) -> u32 {
    // Half of the time by power, never by heat.
    answer("Violation", handle, |_, at| unsafe {
        let by_power = (at * 0.5e9) as u64;
        *out = [(at * 1e6) as u64, if policy == 0 { by_power } else { 0 }];
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    handle: usize,
    kind: u32,
    _counter: u32,
    out: *mut u64,
) -> u32 {
    let query = if kind == 0 {
        "EccCorrected"
    } else {
        "EccUncorrected"
    };
    number(query, handle, 0, |count| unsafe { *out = count })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: usize,
    count: *mut u32,
    _infos: *mut u8,
) -> u32 {
    match number("Processes", handle, 1, |there| unsafe {
        *count = there as u32
    }) {
        // Who asks with no room learns the count so.
        OK => INSUFFICIENT_SIZE,
        code => code,
    }
}
