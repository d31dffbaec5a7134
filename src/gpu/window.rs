//! Tracks over a window -> rows of the report. Pure.

use super::{Device, Quantity};
use crate::base::Ns;
use crate::stats::Track;
use crate::stats::summary::{Figure, GpuSummary, MetricResult};

/// A device's row over the window.
pub fn summarize(
    source: &str,
    device: &Device,
    tracks: &[Track],
    (from, to): (Ns, Ns),
) -> GpuSummary {
    let of = |quantity: Quantity| {
        let (tag, ..) = quantity.names();
        tracks.iter().find(|track| track.tag == tag)
    };
    let growth = |quantity| of(quantity)?.series.counter_delta(from, to);
    let (energy_j, energy_source) = match growth(Quantity::Energy) {
        Some(joules) => (Some(joules), "counter"),
        None => match of(Quantity::Power).and_then(|power| power.series.integral(from, to)) {
            Some(joules) => (Some(joules), "power_integration"),
            None => (None, ""),
        },
    };
    let metric = |quantity: Quantity| {
        let (tag, header, unit) = quantity.names();
        let figure = match quantity {
            Quantity::Energy => Figure::Scalar(energy_j? / 1e6),
            _ => of(quantity)?.figure(from, to)?,
        };
        Some(MetricResult {
            tag,
            header,
            unit,
            figure,
        })
    };
    GpuSummary {
        source: source.to_owned(),
        hostname: device.hostname.clone(),
        platform: device.platform,
        index: device.index,
        uuid: device.uuid.clone(),
        name: device.name.clone(),
        instance: device.instance.clone(),
        metrics: Quantity::ALL.into_iter().filter_map(metric).collect(),
        energy_j,
        energy_source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuSample;
    use crate::gpu::history::History;

    const S: u64 = 1_000_000_000;

    fn device() -> Device {
        Device {
            index: 3,
            uuid: "GPU-1".to_owned(),
            name: "NVIDIA H200".to_owned(),
            ..Device::default()
        }
    }

    fn sample(at: u64, power: f64, energy_j: Option<f64>) -> GpuSample {
        let mut values = [None; Quantity::COUNT];
        values[Quantity::Power as usize] = Some(power);
        values[Quantity::Energy as usize] = energy_j;
        GpuSample {
            device: 0,
            at: Ns(at),
            values,
        }
    }

    fn check(samples: &[GpuSample], from: u64, to: u64) -> GpuSummary {
        let mut history = History::default();
        samples.iter().for_each(|sample| history.push(&[*sample]));
        let tracks = history.tracks(0, "gpu_3");
        summarize("nvml://localhost", &device(), &tracks, (Ns(from), Ns(to)))
    }

    #[test]
    fn energy_is_the_counter_between_the_windows_edges() {
        // 100 J per second; the window begins and ends between samples.
        let samples: Vec<GpuSample> = (0u32..5)
            .map(|i| sample(u64::from(i) * S, 100.0, Some(f64::from(i) * 100.0)))
            .collect();
        let row = check(&samples, S / 2, 3 * S + S / 4);
        assert_eq!(row.energy_j, Some(275.0));
        assert_eq!(row.energy_source, "counter");
        assert_eq!(row.index, 3);
    }

    #[test]
    fn without_a_counter_power_is_integrated() {
        let samples = [
            sample(0, 100.0, None),
            sample(S, 300.0, None),
            sample(2 * S, 300.0, None),
        ];
        let row = check(&samples, S / 2, 3 * S);
        // 200..300 W over half a second, then 300 W for two.
        assert_eq!(row.energy_j, Some(125.0 + 600.0));
        assert_eq!(row.energy_source, "power_integration");
    }

    #[test]
    fn a_counter_that_goes_back_or_ends_early_is_not_used() {
        let back = [sample(0, 50.0, Some(900.0)), sample(S, 50.0, Some(1.0))];
        assert_eq!(check(&back, 0, S).energy_source, "power_integration");
        let early = [sample(0, 50.0, Some(1.0)), sample(S, 50.0, Some(51.0))];
        assert_eq!(check(&early, 0, 2 * S).energy_j, Some(100.0));
    }

    #[test]
    fn only_samples_of_the_window_count_and_std_is_the_samples() {
        let samples = [
            sample(0, 9_000.0, None),
            sample(S, 1.0, None),
            sample(2 * S, 2.0, None),
            sample(3 * S, 4.0, None),
            sample(4 * S, 9_000.0, None),
        ];
        let row = check(&samples, S, 3 * S);
        let Figure::Distribution(power) = &row.metrics[0].figure else {
            panic!("not a distribution");
        };
        assert_eq!(row.metrics[0].tag, "nvidia_power_usage");
        assert_eq!((power.min, power.max, power.count), (1.0, 4.0, 3));
        assert!((power.std - (7.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(power.percentiles[4], 2.0);
        assert_eq!(power.percentiles[5], 3.0);
        assert_eq!(row.metrics[1].tag, "nvidia_energy_consumption");
        assert_eq!(row.metrics.len(), 2);
    }

    #[test]
    fn a_device_that_never_answers_has_an_empty_row() {
        let row = check(&[], 0, S);
        assert_eq!((row.metrics.len(), row.energy_j), (0, None));
        assert_eq!((row.name.as_str(), row.energy_source), ("NVIDIA H200", ""));
    }
}
