//! What one device says in one tick.
//!
//! Not asked for: PCIe traffic (the driver measures it for 20 ms in each call, and its byte
//! counters take some 0.3 ms), JPEG and multiprocessor utilisation (more calls for each).

use super::Quantity;
use super::asked::{Asked, Query};
use super::nvml::field_values;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PerformancePolicy, TemperatureSensor,
};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::sys_exports::field_id as id;

/// A device, or an instance on one.
pub struct Gpu {
    /// Got once: getting it takes milliseconds.
    pub handle: nvml_wrapper::Device<'static>,
    /// What it has answered.
    pub asked: Asked,
    /// A MIG instance, which has nothing of its own but memory.
    pub is_instance: bool,
}

/// Scope of a field: of all NVLinks together.
const ALL_LINKS: u32 = u32::MAX;

/// What is asked for by number, several in a call: id, scope, and the unit that it comes in.
#[rustfmt::skip]
const FIELDS: [(Query, Quantity, u32, u32, f64); 4] = [
    // Now rather than over the last second, which `power_usage` is on recent devices.
    (Query::PowerInstant, Quantity::Power, id::NVML_FI_DEV_POWER_INSTANT, 0, 1e-3),
    (Query::MemoryTemperature, Quantity::MemoryTemperature, id::NVML_FI_DEV_MEMORY_TEMP, 0, 1.0),
    (Query::NvlinkSent, Quantity::NvlinkSent, id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS,
        1024.0),
    (Query::NvlinkReceived, Quantity::NvlinkReceived, id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ALL_LINKS, 1024.0),
];

impl Gpu {
    /// Its values now, and how many more could not be. What changes slowly, processes too, is asked
    /// for only in full: half of the calls.
    pub fn read(
        &mut self,
        is_full: bool,
        processes: bool,
    ) -> ([Option<f64>; Quantity::COUNT], u64) {
        let mut values = Values([None; Quantity::COUNT]);
        if !self.is_instance {
            read_power(self, is_full, &mut values);
            read_activity(self, &mut values);
        }
        read_memory(self, &mut values);
        if is_full && !self.is_instance {
            read_slow(self, processes, &mut values);
        }
        let impossible = drop_impossible(&mut values.0);
        (values.0, impossible)
    }
}

/// Values of a tick, filled one by one.
struct Values([Option<f64>; Quantity::COUNT]);

impl Values {
    fn set(&mut self, quantity: Quantity, value: Option<f64>) {
        self.0[quantity as usize] = value;
    }
}

/// First, so that their time is the sample's: power, energy and what comes with them.
fn read_power(gpu: &mut Gpu, is_full: bool, values: &mut Values) {
    let (device, asked) = (&gpu.handle, &mut gpu.asked);
    let energy = asked.ask(Query::Energy, || device.total_energy_consumption());
    values.set(Quantity::Energy, energy.map(|mj| float(mj) / 1e3));
    let fields = FIELDS.iter().filter(|(query, _, _, scope, _)| {
        let is_slow = *scope == ALL_LINKS;
        (is_full || !is_slow) && asked.may(*query)
    });
    let fields: Vec<_> = fields.collect();
    let ids: Vec<(u32, u32)> = fields.iter().map(|field| (field.2, field.3)).collect();
    let answers = if ids.is_empty() {
        Ok(Vec::new())
    } else {
        field_values(device, &ids)
    };
    match answers {
        Ok(answers) => {
            for ((query, quantity, _, _, unit), answer) in fields.into_iter().zip(answers) {
                let value = asked.take(*query, answer.and_then(number));
                values.set(*quantity, value.map(|value| value * unit));
            }
        }
        Err(error) => fields
            .iter()
            .for_each(|(query, ..)| asked.fail(*query, &error)),
    }
    if asked.has_refused(Query::PowerInstant) {
        let average = asked.ask(Query::PowerAverage, || device.power_usage());
        values.set(Quantity::Power, average.map(|mw| f64::from(mw) / 1e3));
    }
}

/// A value that is finite and not negative.
fn number(value: SampleValue) -> Result<f64, NvmlError> {
    match value {
        SampleValue::F64(value) if value.is_finite() && value >= 0.0 => Ok(value),
        SampleValue::F64(_) => Err(NvmlError::NotSupported),
        SampleValue::U32(value) => Ok(f64::from(value)),
        SampleValue::U64(value) => Ok(float(value)),
        SampleValue::I64(value) => match u64::try_from(value) {
            Ok(value) => Ok(float(value)),
            Err(_) => Err(NvmlError::NotSupported),
        },
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 bytes are 9 petabytes, and mJ 9 TJ"
)]
fn float(value: u64) -> f64 {
    value as f64
}

fn read_memory(gpu: &mut Gpu, values: &mut Values) {
    let (device, asked) = (&gpu.handle, &mut gpu.asked);
    if let Some(memory) = asked.ask(Query::Memory, || device.memory_info()) {
        values.set(Quantity::MemoryUsed, Some(float(memory.used) / 1e9));
        values.set(Quantity::MemoryTotal, Some(float(memory.total) / 1e9));
        values.set(Quantity::MemoryFree, Some(float(memory.free) / 1e9));
    }
}

fn read_activity(gpu: &mut Gpu, values: &mut Values) {
    let (device, asked) = (&gpu.handle, &mut gpu.asked);
    if let Some(busy) = asked.ask(Query::Utilization, || device.utilization_rates()) {
        values.set(Quantity::GpuUtilization, Some(f64::from(busy.gpu)));
        values.set(Quantity::MemoryUtilization, Some(f64::from(busy.memory)));
    }
    let heat = asked.ask(Query::Temperature, || {
        device.temperature(TemperatureSensor::Gpu)
    });
    values.set(Quantity::Temperature, heat.map(f64::from));
    let clock = asked.ask(Query::SmClock, || device.clock_info(Clock::SM));
    values.set(Quantity::SmClock, clock.map(f64::from));
    let clock = asked.ask(Query::MemoryClock, || device.clock_info(Clock::Memory));
    values.set(Quantity::MemoryClock, clock.map(f64::from));
    // All at once are the driver's blank.
    let reasons = asked.ask(Query::Throttle, || device.current_throttle_reasons());
    if let Some(reasons) = reasons.filter(|reasons| !reasons.is_all()) {
        let [power, thermal, other] = throttles(reasons).map(|is_on| Some(f64::from(is_on)));
        values.set(Quantity::ThrottlePower, power);
        values.set(Quantity::ThrottleThermal, thermal);
        values.set(Quantity::ThrottleOther, other);
    }
}

/// Whether the clocks are held down by power, by heat, by something else. An idle GPU and clocks
/// that somebody has set are no throttling.
fn throttles(reasons: ThrottleReasons) -> [bool; 3] {
    use ThrottleReasons as R;
    let thermal = reasons.intersects(R::SW_THERMAL_SLOWDOWN | R::HW_THERMAL_SLOWDOWN);
    let is_braked = reasons.intersects(R::HW_POWER_BRAKE_SLOWDOWN | R::SYNC_BOOST);
    // A slowdown of the hardware is said along with its reason where that is known.
    let is_unexplained = reasons.contains(R::HW_SLOWDOWN) && !thermal;
    [
        reasons.contains(R::SW_POWER_CAP),
        thermal,
        is_braked || is_unexplained,
    ]
}

fn read_slow(gpu: &mut Gpu, processes: bool, values: &mut Values) {
    let (device, asked) = (&gpu.handle, &mut gpu.asked);
    let limit = asked.ask(Query::PowerLimit, || device.enforced_power_limit());
    values.set(Quantity::PowerLimit, limit.map(|mw| f64::from(mw) / 1e3));
    let busy = asked.ask(Query::Decoder, || device.decoder_utilization());
    values.set(
        Quantity::DecoderUtilization,
        busy.map(|busy| f64::from(busy.utilization)),
    );
    let busy = asked.ask(Query::Encoder, || device.encoder_utilization());
    values.set(
        Quantity::EncoderUtilization,
        busy.map(|busy| f64::from(busy.utilization)),
    );
    let replays = asked.ask(Query::PcieReplays, || device.pcie_replay_counter());
    values.set(Quantity::PcieReplays, replays.map(f64::from));
    for (query, quantity, policy) in [
        (
            Query::PowerViolation,
            Quantity::PowerViolation,
            PerformancePolicy::Power,
        ),
        (
            Query::ThermalViolation,
            Quantity::ThermalViolation,
            PerformancePolicy::Thermal,
        ),
    ] {
        let time = asked.ask(query, || device.violation_status(policy));
        values.set(quantity, time.map(|time| float(time.violation_time) / 1e3));
    }
    for (query, quantity, kind) in [
        (
            Query::EccCorrected,
            Quantity::EccCorrected,
            MemoryError::Corrected,
        ),
        (
            Query::EccUncorrected,
            Quantity::EccUncorrected,
            MemoryError::Uncorrected,
        ),
    ] {
        let count = asked.ask(query, || {
            device.total_ecc_errors(kind, EccCounter::Volatile)
        });
        values.set(quantity, count.map(float));
    }
    if processes {
        let count = asked.ask(Query::Processes, || {
            device.running_compute_processes_count()
        });
        values.set(Quantity::Processes, count.map(f64::from));
    }
}

/// Takes out shares above the whole; gives how many.
fn drop_impossible(values: &mut [Option<f64>; Quantity::COUNT]) -> u64 {
    let mut count = 0;
    for quantity in Quantity::ALL {
        let value = &mut values[quantity as usize];
        count += u64::from(
            value
                .take_if(|value| !quantity.is_possible(*value))
                .is_some(),
        );
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_gpu_and_set_clocks_are_no_throttling() {
        use ThrottleReasons as R;
        let check = |reasons, want| assert_eq!(throttles(reasons), want);
        check(R::NONE, [false; 3]);
        check(R::GPU_IDLE | R::APPLICATIONS_CLOCKS_SETTING, [false; 3]);
        check(R::SW_POWER_CAP | R::GPU_IDLE, [true, false, false]);
        check(
            R::HW_SLOWDOWN | R::HW_THERMAL_SLOWDOWN,
            [false, true, false],
        );
        check(
            R::HW_SLOWDOWN | R::HW_POWER_BRAKE_SLOWDOWN,
            [false, false, true],
        );
        check(R::HW_SLOWDOWN, [false, false, true]);
        check(R::SYNC_BOOST | R::SW_THERMAL_SLOWDOWN, [false, true, true]);
    }

    #[test]
    fn shares_above_the_whole_are_dropped_and_counted() {
        let mut values = [None; Quantity::COUNT];
        values[Quantity::GpuUtilization as usize] = Some(100.0);
        values[Quantity::MemoryUtilization as usize] = Some(4_294_967_295.0);
        values[Quantity::Power as usize] = Some(700.0);
        assert_eq!(drop_impossible(&mut values), 1);
        assert_eq!(values[Quantity::GpuUtilization as usize], Some(100.0));
        assert_eq!(values[Quantity::MemoryUtilization as usize], None);
        assert_eq!(values[Quantity::Power as usize], Some(700.0));
    }
}
