//! What the tokens cost in energy: AIPerf's power efficiency metrics, from the run's figures and
//! its GPUs.

use super::distribution::float_len;
use super::metric::{METRICS, Need};
use super::summary::{Figure, GpuSummary, MetricResult};

/// The metrics of `Need::Energy`, in the table's order.
///
/// Energy is summed over all GPUs and absent when one of them does not tell it. The mean power is
/// that energy over `window_s`, the seconds in which it was read, and the throughputs per watt
/// divide by it. (In AIPerf the energy spans the scrapes around the window: its mean power can
/// exceed what the cards can draw.)
///
/// ```
/// use tokenring::stats::energy::energy;
/// use tokenring::stats::summary::{Figure, GpuSummary, MetricResult};
/// let scalar = |tag, unit, value| {
///     MetricResult { tag, header: "", unit, figure: Figure::Scalar(value) }
/// };
/// let run = [scalar("total_osl", "tokens", 2000.0), scalar("request_count", "requests", 10.0)];
/// let gpu = GpuSummary { energy_j: Some(1000.0), ..GpuSummary::default() };
/// let found = energy(&run, &[gpu], 5.0, Some(8));
/// let value = |tag: &str| found.iter().find(|m| m.tag == tag).map(|m| m.figure.clone());
/// assert_eq!(value("nvidia_average_gpu_power"), Some(Figure::Scalar(200.0)));
/// assert_eq!(value("nvidia_output_tokens_per_joule"), Some(Figure::Scalar(2.0)));
/// assert_eq!(value("nvidia_energy_per_user"), Some(Figure::Scalar(125.0)));
/// assert_eq!(value("nvidia_goodput_per_watt"), None);
/// ```
pub fn energy(
    metrics: &[MetricResult],
    gpus: &[GpuSummary],
    window_s: f64,
    concurrency: Option<u32>,
) -> Vec<MetricResult> {
    let of = |tag: &str| avg(metrics, tag);
    let joules = total(gpus, |gpu| gpu.energy_j);
    let power = total(gpus, |gpu| avg(&gpu.metrics, "nvidia_power_usage"));
    let watts = ratio(joules, Some(window_s)).or(power);
    let per_request = ratio(joules, of("request_count"));
    let value = |tag: &str| match tag {
        "nvidia_total_gpu_power" => power,
        "nvidia_average_gpu_power" => watts,
        "nvidia_total_gpu_energy" => joules,
        "nvidia_output_tokens_per_joule" => ratio(of("total_osl"), joules),
        "nvidia_energy_per_output_token" => ratio(joules.map(|j| 1e3 * j), of("total_osl")),
        "nvidia_energy_per_total_token" => {
            let tokens = of("total_isl")? + of("total_osl")?;
            ratio(joules.map(|j| 1e3 * j), Some(tokens))
        }
        "nvidia_energy_per_request" => per_request,
        "nvidia_energy_per_user" => ratio(joules, concurrency.map(f64::from)),
        "nvidia_energy_delay_product" => Some(per_request? * of("request_latency")? / 1e3),
        "nvidia_performance_per_watt" => ratio(of("request_throughput"), watts),
        "nvidia_output_tps_per_watt" => ratio(of("output_token_throughput"), watts),
        "nvidia_goodput_per_watt" => ratio(of("goodput"), watts),
        _ => None,
    };
    let wanted = METRICS.iter().filter(|metric| metric.need == Need::Energy);
    wanted
        .filter_map(|metric| {
            Some(MetricResult {
                tag: metric.tag,
                header: metric.header,
                unit: metric.unit,
                figure: Figure::Scalar(value(metric.tag)?),
            })
        })
        .collect()
}

/// Over all GPUs; `None` without one, or when one does not tell.
fn total(gpus: &[GpuSummary], read: impl Fn(&GpuSummary) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = gpus.iter().map(read).collect();
    let values = values.filter(|values| float_len(values.len()) > 0.0)?;
    Some(values.iter().sum())
}

fn ratio(value: Option<f64>, by: Option<f64>) -> Option<f64> {
    let by = by.filter(|by| *by > 0.0)?;
    value.map(|value| value / by)
}

fn avg(metrics: &[MetricResult], tag: &str) -> Option<f64> {
    match &metrics.iter().find(|metric| metric.tag == tag)?.figure {
        Figure::Scalar(value) => Some(*value),
        Figure::Distribution(d) => Some(d.avg),
        Figure::Weighted(w) => Some(w.avg),
        Figure::Adjusted(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Every number of AIPerf's own export: its energy, its window, its ratios.
    #[test]
    fn the_ratios_are_those_of_aiperf_to_the_digit() {
        let golden: Value = serde_json::from_str(include_str!(
            "../../tests/data/golden/aiperf/profile_export_aiperf.json"
        ))
        .unwrap();
        let avg = |tag: &str| golden[tag]["avg"].as_f64().unwrap();
        let run = METRICS.iter().filter(|m| m.need != Need::Energy);
        let run: Vec<MetricResult> = run
            .filter_map(|m| {
                Some(MetricResult {
                    tag: m.tag,
                    header: m.header,
                    unit: m.unit,
                    figure: Figure::Scalar(golden[m.tag]["avg"].as_f64()?),
                })
            })
            .collect();
        let gpu = |joules: f64, watts: f64| GpuSummary {
            energy_j: Some(joules),
            metrics: vec![MetricResult {
                tag: "nvidia_power_usage",
                header: "",
                unit: "W",
                figure: Figure::Scalar(watts),
            }],
            ..GpuSummary::default()
        };
        let (joules, watts) = (
            avg("nvidia_total_gpu_energy"),
            avg("nvidia_total_gpu_power"),
        );
        let gpus = [gpu(joules, watts), gpu(0.0, 0.0)];
        // `end_time` minus `start_time`, 20.483785 to 21.437895, which AIPerf has in more digits.
        let window_s = joules / avg("nvidia_average_gpu_power");
        assert!((window_s - 0.954_11).abs() < 1e-6);
        let found = energy(&run, &gpus, window_s, Some(4));
        assert_eq!(found.len(), 12);
        for metric in found {
            let Figure::Scalar(value) = metric.figure else {
                panic!("{}", metric.tag);
            };
            let want = avg(metric.tag);
            assert!(
                (value / want - 1.0).abs() < 1e-12,
                "{}: {value} {want}",
                metric.tag
            );
            assert_eq!(golden[metric.tag]["unit"], metric.unit);
        }
    }

    #[test]
    fn a_gpu_that_does_not_tell_leaves_no_total() {
        let told = GpuSummary {
            energy_j: Some(5.0),
            ..GpuSummary::default()
        };
        assert_eq!(
            energy(&[], std::slice::from_ref(&told), 1.0, Some(2)).len(),
            3
        );
        assert!(energy(&[], &[told, GpuSummary::default()], 1.0, Some(2)).is_empty());
        assert!(energy(&[], &[], 1.0, None).is_empty());
    }
}
