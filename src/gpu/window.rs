//! Samples of a window -> rows of the report. Pure.

use super::{Device, Gauge, GpuSample};
use crate::base::Ns;
use crate::stats::summary::{Distribution, Figure, GpuSummary, MetricResult, PERCENTILES};

/// A value over time, ascending in time.
type Points = Vec<(Ns, f64)>;

/// One row per device, in the devices' order; a device that never answered keeps an empty row.
pub fn summarize(devices: &[Device], samples: &[GpuSample], from: Ns, to: Ns) -> Vec<GpuSummary> {
    let row = |(position, device): (usize, &Device)| {
        let own: Vec<&GpuSample> = samples.iter().filter(|s| s.device == position).collect();
        one(device, &own, from, to)
    };
    devices.iter().enumerate().map(row).collect()
}

fn one(device: &Device, samples: &[&GpuSample], from: Ns, to: Ns) -> GpuSummary {
    let points = |read: &dyn Fn(&GpuSample) -> Option<f64>| -> Points {
        let point = |sample: &&GpuSample| read(sample).map(|value| (sample.at, value));
        samples.iter().filter_map(point).collect()
    };
    let (energy_j, energy_source) = match counter_delta(&points(&|s| s.energy_j), from, to) {
        Some(joules) => (Some(joules), "counter"),
        None => (
            integral(&points(&|s| s.gauges[Gauge::Power as usize]), from, to),
            "power_integration",
        ),
    };
    let mut metrics = Vec::new();
    for gauge in Gauge::ALL {
        let values = points(&|s| s.gauges[gauge as usize]);
        let inside = |(at, value): &(Ns, f64)| (from <= *at && *at <= to).then_some(*value);
        if let Some(figure) = distribution(values.iter().filter_map(inside).collect()) {
            let (tag, header, unit) = gauge.names();
            let figure = Figure::Distribution(figure);
            metrics.push(MetricResult {
                tag,
                header,
                unit,
                figure,
            });
        }
        if gauge == Gauge::Power
            && let Some(joules) = energy_j
        {
            metrics.push(MetricResult {
                tag: "nvidia_energy_consumption",
                header: "NVIDIA Energy Consumption",
                unit: "MJ",
                figure: Figure::Scalar(joules / 1e6),
            });
        }
    }
    GpuSummary {
        index: device.index,
        uuid: device.uuid.clone(),
        name: device.name.clone(),
        metrics,
        energy_j,
        energy_source: if energy_j.is_some() {
            energy_source
        } else {
            ""
        },
    }
}

/// The value at a moment, on the line between the samples around it; `None` outside of them.
fn at(points: &[(Ns, f64)], moment: Ns) -> Option<f64> {
    let after = points.partition_point(|(at, _)| *at < moment);
    let (right_at, right) = *points.get(after)?;
    if right_at == moment {
        return Some(right);
    }
    let (left_at, left) = *points.get(after.checked_sub(1)?)?;
    let share =
        moment.saturating_since(left_at).as_secs() / right_at.saturating_since(left_at).as_secs();
    Some(left + (right - left) * share)
}

/// Growth of a counter over the window. The edges are interpolated: a counter read a sample before
/// and a sample after would cover more time than the window. `None` when no sample lies on either
/// side, or when the counter went back (the driver was reloaded).
fn counter_delta(points: &[(Ns, f64)], from: Ns, to: Ns) -> Option<f64> {
    let first = points.partition_point(|(at, _)| *at < from);
    let last = points.partition_point(|(at, _)| *at <= to);
    let around = &points[first.saturating_sub(1)..(last + 1).min(points.len())];
    if from >= to || around.windows(2).any(|pair| pair[1].1 < pair[0].1) {
        return None;
    }
    Some(at(points, to)? - at(points, from)?)
}

/// Area under the trapezoids between samples, in value-seconds; the first and last values hold to
/// the window's edges where no sample lies beyond them. `None` without samples.
fn integral(points: &[(Ns, f64)], from: Ns, to: Ns) -> Option<f64> {
    let (_, first) = *points.first()?;
    let (_, last) = *points.last()?;
    if from >= to {
        return None;
    }
    let mut corners = vec![(from, at(points, from).unwrap_or(first))];
    let inside = points.iter().filter(|(at, _)| from < *at && *at < to);
    corners.extend(inside);
    corners.push((to, at(points, to).unwrap_or(last)));
    let area = |pair: &[(Ns, f64)]| {
        pair[1].0.saturating_since(pair[0].0).as_secs() * (pair[0].1 + pair[1].1) / 2.0
    };
    Some(corners.windows(2).map(area).sum())
}

/// Plain statistics over samples, with the sample standard deviation as AIPerf has it here (0 for
/// one value). `None` without values.
#[expect(clippy::cast_precision_loss, reason = "counts are far under 2^53")]
fn distribution(mut values: Vec<f64>) -> Option<Distribution> {
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let count = values.len() as f64;
    let sum: f64 = values.iter().sum();
    let avg = sum / count;
    let squares: f64 = values.iter().map(|value| (value - avg).powi(2)).sum();
    let percentile = |percent: f64| {
        let rank = percent / 100.0 * (count - 1.0);
        let ranks = values.iter().enumerate();
        let below = ranks.take_while(|(i, _)| *i as f64 <= rank).last();
        let (low, left) = below.map_or((0, min), |(i, value)| (i, *value));
        let right = values.get(low + 1).copied().unwrap_or(left);
        left + (right - left) * (rank - low as f64)
    };
    Some(Distribution {
        avg,
        min,
        max,
        std: if values.len() > 1 {
            (squares / (count - 1.0)).sqrt()
        } else {
            0.0
        },
        sum,
        count: values.len() as u64,
        percentiles: PERCENTILES.map(percentile),
        exact: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn device() -> Device {
        Device {
            index: 3,
            uuid: "GPU-1".to_owned(),
            name: "NVIDIA H200".to_owned(),
        }
    }

    fn sample(at: u64, power: f64, energy_j: Option<f64>) -> GpuSample {
        let mut gauges = [None; Gauge::ALL.len()];
        gauges[Gauge::Power as usize] = Some(power);
        GpuSample {
            device: 0,
            at: Ns(at),
            gauges,
            energy_j,
        }
    }

    fn check(samples: &[GpuSample], from: u64, to: u64) -> GpuSummary {
        summarize(&[device()], samples, Ns(from), Ns(to)).remove(0)
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
