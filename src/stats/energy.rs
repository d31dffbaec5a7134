//! What the tokens cost in energy: AIPerf's power efficiency metrics, from the run's figures and
//! its GPUs.

use super::distribution::float_len;
use super::metric::{METRICS, Need};
use super::summary::{Figure, GpuSummary, MetricResult};
use super::{Series, Track};
use crate::base::Ns;

/// Seconds below which a measurement has no energy: drivers move their counters every 20 to 100 ms,
/// and some sensors see a quarter of the time only.
const WINDOW_S_MIN: f64 = 2.0;
/// Seconds from which on it is to be relied on.
const WINDOW_S_SURE: f64 = 10.0;
/// Share of the window that one update of a source may last.
const PERIOD_RATIO_MAX: f64 = 0.05;
/// How far the integral of the power may be from the counter.
const CHECK_RATIO_MAX: f64 = 0.2;
/// Samples that make an idle power.
const IDLE_SAMPLES_MIN: usize = 5;

/// The metrics of `Need::Energy`, in the table's order: of NVIDIA's GPUs, and of AMD's.
///
/// Energy is summed over all GPUs of a platform and absent when one of them does not tell it; a GPU
/// that several rows are of (its instances, two exporters) counts once. The mean power is
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
    let [nvidia, amd] = ["nvidia", "amd"].map(|platform| {
        let is_own = |gpu: &&GpuSummary| (gpu.platform == "amd") == (platform == "amd");
        let own: Vec<&GpuSummary> = gpus.iter().filter(is_own).collect();
        Fleet {
            joules: total(&own, |gpu| gpu.energy_j),
            power: total(&own, power),
            window_s,
            concurrency,
        }
    });
    let wanted = METRICS.iter().filter(|metric| metric.need == Need::Energy);
    wanted
        .filter_map(|metric| {
            let (platform, name) = metric.tag.split_once('_')?;
            let fleet = if platform == "amd" { &amd } else { &nvidia };
            Some(MetricResult {
                tag: metric.tag,
                header: metric.header,
                unit: metric.unit,
                figure: Figure::Scalar(fleet.value(name, metrics)?),
            })
        })
        .collect()
}

/// What GPUs have drawn.
struct Fleet {
    joules: Option<f64>,
    /// Mean of the samples, W.
    power: Option<f64>,
    window_s: f64,
    concurrency: Option<u32>,
}

impl Fleet {
    /// The metric of this name, without the platform.
    fn value(&self, name: &str, metrics: &[MetricResult]) -> Option<f64> {
        let of = |tag: &str| avg(metrics, tag);
        let (joules, power) = (self.joules, self.power);
        if self.window_s < WINDOW_S_MIN && joules.is_none() {
            return power.filter(|_| name == "total_gpu_power");
        }
        // Samples of a GPU whose energy is not known are not of the whole window either.
        let watts = ratio(joules, Some(self.window_s));
        let power = power.filter(|_| joules.is_some());
        let per_request = ratio(joules, of("request_count"));
        match name {
            "total_gpu_power" => power,
            "average_gpu_power" => watts,
            "total_gpu_energy" => joules,
            "output_tokens_per_joule" => ratio(of("total_osl"), joules),
            "energy_per_output_token" => ratio(joules.map(|j| 1e3 * j), of("total_osl")),
            "energy_per_total_token" => {
                let tokens = of("total_isl")? + of("total_osl")?;
                ratio(joules.map(|j| 1e3 * j), Some(tokens))
            }
            "energy_per_request" => per_request,
            "energy_per_user" => ratio(joules, self.concurrency.map(f64::from)),
            "energy_delay_product" => Some(per_request? * of("request_latency")? / 1e3),
            "performance_per_watt" => ratio(of("request_throughput"), watts),
            "output_tps_per_watt" => ratio(of("output_token_throughput"), watts),
            "goodput_per_watt" => ratio(of("goodput"), watts),
            _ => None,
        }
    }
}

/// Judges the energy of each GPU by the window, `window_s` seconds long: refuses it where that is
/// too short, else says how far it may be relied on, and adds the run's figures per GPU. Gives
/// sentences for the method block.
pub fn settle(gpus: &mut [GpuSummary], metrics: &[MetricResult], window_s: f64) -> Vec<String> {
    let mut notes: Vec<String> = gpus
        .iter_mut()
        .flat_map(|gpu| std::mem::take(&mut gpu.notes))
        .collect();
    let had_energy = gpus.iter().any(|gpu| gpu.energy_j.is_some());
    for gpu in &mut *gpus {
        let Some(joules) = gpu.energy_j else {
            continue;
        };
        if window_s < WINDOW_S_MIN {
            (gpu.energy_j, gpu.energy_check_j, gpu.energy_source) = (None, None, "");
            gpu.metrics
                .retain(|metric| !metric.tag.ends_with("_energy_consumption"));
            continue;
        }
        let off = gpu.energy_check_j.map(|check| (check / joules - 1.0).abs());
        let is_off = off.is_some_and(|off| off > CHECK_RATIO_MAX);
        let period = gpu.update_period.map_or(0.0, Ns::as_secs);
        let is_sure = window_s >= WINDOW_S_SURE && period <= PERIOD_RATIO_MAX * window_s;
        gpu.energy_confidence = if is_sure && !is_off { "high" } else { "low" };
        gpu.energy_ratios = ratios(gpu, joules, metrics, window_s);
        if let Some(check) = gpu.energy_check_j.filter(|_| is_off) {
            notes.push(format!(
                "{}: its energy counter says {joules:.0} J, the integral of its power {check:.0} \
                 J: rely on neither",
                gpu.called()
            ));
        }
    }
    if had_energy && window_s < WINDOW_S_MIN {
        notes.push(format!(
            "energy: the measurement took {window_s:.1} s, too short for a driver's counters; \
             measure for 2 s at least (--benchmark-duration), better for 10 s"
        ));
    } else if had_energy && window_s < WINDOW_S_SURE {
        notes.push(format!(
            "energy: low confidence, since the measurement took {window_s:.1} s; measure for 10 s \
             or longer (--benchmark-duration)"
        ));
    }
    let slow = gpus.iter().filter(|gpu| gpu.energy_confidence == "low");
    let slow = slow.filter_map(|gpu| gpu.update_period).max();
    if let Some(period) = slow.filter(|_| window_s >= WINDOW_S_SURE)
        && period.as_secs() > PERIOD_RATIO_MAX * window_s
    {
        notes.push(format!(
            "energy: low confidence, since a source tells it only every {:.1} s",
            period.as_secs()
        ));
    }
    if gpus.iter().any(|gpu| !gpu.instance.is_empty()) {
        notes.push(
            "MIG: power and energy of an instance are those of the whole GPU and count once; a \
             GPU's utilisation is not told for its instances"
                .into(),
        );
    }
    notes
}

/// The run's figures for one GPU, as far as there are any.
fn ratios(
    gpu: &GpuSummary,
    joules: f64,
    metrics: &[MetricResult],
    window_s: f64,
) -> Vec<(&'static str, f64)> {
    let alone = Fleet {
        joules: Some(joules),
        power: power(gpu),
        window_s,
        concurrency: None,
    };
    let of = |name: &str| alone.value(name, metrics);
    let above = gpu.idle_power_w.map(|idle| joules - idle * window_s);
    let all = [
        ("energy_above_idle_j", above),
        ("energy_per_request_j", of("energy_per_request")),
        ("energy_per_output_token_mj", of("energy_per_output_token")),
        ("output_tokens_per_joule", of("output_tokens_per_joule")),
        ("output_tps_per_watt", of("output_tps_per_watt")),
        ("energy_delay_product_js", of("energy_delay_product")),
    ];
    let told = all
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    told.collect()
}

/// Mean power of a GPU before `until`, from the tracks that it told; `None` for too few samples.
pub fn idle_power(tracks: &[Track], until: Ns) -> Option<f64> {
    let is_power = |track: &&Track| POWER_TAGS.contains(&track.tag.as_ref());
    let power: &Series = &tracks.iter().find(is_power)?.series;
    let count = power.times.partition_point(|&at| at < until);
    let before = power.values.get(..count)?;
    let is_enough = count >= IDLE_SAMPLES_MIN;
    is_enough.then(|| before.iter().sum::<f64>() / float_len(count))
}

/// Power of a GPU, of either platform.
const POWER_TAGS: [&str; 2] = ["nvidia_power_usage", "amd_power"];

fn power(gpu: &GpuSummary) -> Option<f64> {
    POWER_TAGS.iter().find_map(|tag| avg(&gpu.metrics, tag))
}

/// Over all GPUs, each once; `None` without one, or when one does not tell.
fn total(gpus: &[&GpuSummary], read: impl Fn(&GpuSummary) -> Option<f64>) -> Option<f64> {
    // Each by its first row.
    let mut seen: Vec<&GpuSummary> = Vec::new();
    let mut sum = None;
    for (at, gpu) in gpus.iter().enumerate() {
        if seen.iter().any(|first| first.is_of_same(gpu)) {
            continue;
        }
        let others = gpus[at + 1..].iter().filter(|row| row.is_of_same(gpu));
        let mut rows = std::iter::once(gpu).chain(others);
        let value = rows.find_map(|row| read(row))?;
        sum = Some(sum.unwrap_or(0.0) + value);
        seen.push(gpu);
    }
    sum
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

    fn gpu(uuid: &str, hostname: &str, joules: Option<f64>) -> GpuSummary {
        GpuSummary {
            uuid: uuid.into(),
            hostname: hostname.into(),
            energy_j: joules,
            ..GpuSummary::default()
        }
    }

    fn found(gpus: &[GpuSummary], tag: &str) -> Option<f64> {
        avg(&energy(&[], gpus, 4.0, None), tag)
    }

    #[test]
    fn a_gpu_counts_once_however_many_rows_are_of_it() {
        let tag = "nvidia_total_gpu_energy";
        // Four instances, of which one tells; the same by an exporter that names no machine.
        let mut rows = vec![gpu("a", "n1", None), gpu("a", "n1", Some(126.0))];
        rows.extend([gpu("a", "n1", Some(126.0)), gpu("a", "", Some(126.0))]);
        assert_eq!(found(&rows, tag), Some(126.0));
        // Another machine is another GPU, and rows without a name are what they are.
        rows.push(gpu("a", "n2", Some(4.0)));
        rows.extend([gpu("", "", Some(1.0)), gpu("", "", Some(1.0))]);
        assert_eq!(found(&rows, tag), Some(132.0));
        rows.push(gpu("b", "n2", None));
        assert_eq!(found(&rows, tag), None);
    }

    #[test]
    fn platforms_are_summed_up_apart() {
        let amd = GpuSummary {
            platform: "amd",
            ..gpu("c", "", Some(8.0))
        };
        let rows = [gpu("a", "", Some(4.0)), amd];
        assert_eq!(found(&rows, "nvidia_total_gpu_energy"), Some(4.0));
        assert_eq!(found(&rows, "amd_total_gpu_energy"), Some(8.0));
        assert_eq!(found(&rows, "amd_average_gpu_power"), Some(2.0));
    }

    #[test]
    fn the_length_of_the_window_says_what_energy_is_worth() {
        let run = [MetricResult {
            tag: "request_count",
            header: "",
            unit: "requests",
            figure: Figure::Scalar(10.0),
        }];
        let settled = |window_s: f64, change: fn(&mut GpuSummary)| {
            let mut gpus = [gpu("a", "", Some(1000.0))];
            gpus[0].idle_power_w = Some(50.0);
            gpus[0].energy_check_j = Some(1100.0);
            change(&mut gpus[0]);
            let notes = settle(&mut gpus, &run, window_s);
            let [gpu] = gpus;
            (gpu, notes.join("; "))
        };
        let (short, told) = settled(1.9, |_| {});
        assert_eq!((short.energy_j, short.energy_confidence), (None, ""));
        assert!(told.contains("1.9 s, too short") && told.contains("--benchmark-duration"));
        let (low, told) = settled(5.0, |_| {});
        assert_eq!((low.energy_j, low.energy_confidence), (Some(1000.0), "low"));
        assert!(told.contains("low confidence"), "{told}");
        let value = |key: &str| low.energy_ratios.iter().find(|own| own.0 == key).unwrap().1;
        assert_eq!(value("energy_above_idle_j"), 750.0);
        assert_eq!(value("energy_per_request_j"), 100.0);
        let (high, told) = settled(10.0, |_| {});
        assert_eq!((high.energy_confidence, told.as_str()), ("high", ""));
        let slow = |gpu: &mut GpuSummary| gpu.update_period = Some(Ns::from_ms(30_000));
        assert_eq!(settled(60.0, slow).0.energy_confidence, "low");
        let (off, told) = settled(60.0, |gpu| gpu.energy_check_j = Some(500.0));
        assert_eq!(off.energy_confidence, "low");
        assert!(told.contains("1000 J") && told.contains("500 J"), "{told}");
    }

    #[test]
    fn an_idle_power_needs_samples_before_the_first_request() {
        let mut series = Series::default();
        for at in 0..10u32 {
            series.push(Ns::from_ms(u64::from(at) * 100), 60.0 + f64::from(at));
        }
        let track = Track {
            source: "gpu_0".into(),
            tag: "nvidia_power_usage".into(),
            unit: "W".into(),
            kind: crate::stats::TrackKind::Gauge,
            series,
        };
        let tracks = [track];
        assert_eq!(idle_power(&tracks, Ns::from_ms(500)), Some(62.0));
        assert_eq!(idle_power(&tracks, Ns::from_ms(400)), None);
        assert_eq!(idle_power(&[], Ns::MAX), None);
    }
}
