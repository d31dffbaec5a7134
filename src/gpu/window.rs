//! Tracks over a window -> rows of the report. Pure.

use super::quantity::POWER_W_MAX;
use super::{Device, Further, Quantity};
use crate::base::Ns;
use crate::stats::summary::{Figure, GpuSummary, MetricResult};
use crate::stats::{Series, Track};

/// How much of a window may lie beyond the first and the last sample of a power that is integrated.
const UNSEEN_RATIO_MAX: f64 = 0.1;
/// Share of a window between a counter's first and last move in it from which on it is used.
const KNOWN_RATIO_MIN: f64 = 0.5;

/// A device's row over the window.
pub fn summarize(
    source: &str,
    device: &Device,
    tracks: &[Track],
    (from, to): (Ns, Ns),
) -> GpuSummary {
    let of = |quantity: Quantity| {
        let (tag, ..) = quantity.names_of(device.platform);
        tracks.iter().find(|track| track.tag == tag)
    };
    let mut row = GpuSummary {
        source: source.to_owned(),
        hostname: device.hostname.clone(),
        platform: device.platform,
        index: device.index,
        uuid: device.uuid.clone(),
        name: device.name.clone(),
        instance: device.instance.clone(),
        ..GpuSummary::default()
    };
    let series = |quantity| of(quantity).map(|track| &track.series);
    energy(
        &mut row,
        series(Quantity::Energy),
        series(Quantity::Power),
        (from, to),
    );
    let energy_j = row.energy_j;
    let metric = |quantity: Quantity| {
        let (tag, header, unit) = quantity.names_of(device.platform);
        let figure = match quantity {
            Quantity::Energy => Figure::Scalar(energy_j? / 1e6),
            // A code, and no number that has a mean.
            Quantity::XidErrors => Figure::Scalar(*of(quantity)?.series.window(from, to).last()?),
            _ => of(quantity)?.figure(from, to)?,
        };
        Some(MetricResult {
            tag,
            header,
            unit,
            figure,
        })
    };
    row.metrics = Quantity::ALL.into_iter().filter_map(metric).collect();
    if let Some(code) = series(Quantity::XidErrors).and_then(|codes| new_code(codes, from, to)) {
        let text = format!("{}: the driver reported XID {code:.0}", row.called());
        row.notes.push(text);
    }
    row
}

/// Adds what a source tells beyond the table.
pub fn add_further<'a>(
    row: &mut GpuSummary,
    tracks: &mut Vec<Track>,
    further: impl Iterator<Item = &'a Further>,
    (from, to): (Ns, Ns),
) {
    let source = tracks.first().map(|track| track.source.clone());
    for one in further {
        let mut track = one.track.clone();
        track.source = source.clone().unwrap_or_default();
        if let (std::borrow::Cow::Borrowed(tag), std::borrow::Cow::Borrowed(unit), Some(figure)) =
            (&track.tag, &track.unit, track.figure(from, to))
        {
            row.metrics.push(MetricResult {
                tag,
                header: one.header,
                unit,
                figure,
            });
        }
        tracks.push(track);
    }
}

/// The counter's growth with the integral of the power as a check, else the integral alone.
fn energy(
    row: &mut GpuSummary,
    counter: Option<&Series>,
    power: Option<&Series>,
    (from, to): (Ns, Ns),
) {
    let tells_power = power.is_some();
    let power = power.filter(|series| is_seen(series, from, to));
    let integral = power.and_then(|series| series.integral(from, to));
    let growth = match counter {
        Some(series) => growth(series, power, (from, to)),
        None => Err("is not there"),
    };
    let why = match growth {
        Ok(joules) => {
            (row.energy_j, row.energy_source) = (Some(joules), "counter");
            row.energy_check_j = integral;
            return;
        }
        Err(why) => why,
    };
    if let Some(joules) = integral {
        (row.energy_j, row.energy_source) = (Some(joules), "power_integration");
    }
    if counter.is_none() && !tells_power {
        return;
    }
    let then = match integral {
        Some(_) => "its energy is the integral of its power",
        None => "its energy is unknown",
    };
    let text = format!("{}: its energy counter {why}: {then}", row.called());
    row.notes.push(text);
}

/// What a counter has grown by over the window. It is known where the counter has moved; up to its
/// first move and from its last on the power tells, without which the counter goes on as it went.
/// Errors: why it cannot be used.
fn growth(
    counter: &Series,
    power: Option<&Series>,
    (from, to): (Ns, Ns),
) -> Result<f64, &'static str> {
    let Some(plain) = counter.counter_delta(from, to) else {
        return Err(match counter.window(from, to).is_sorted() {
            true => "does not reach over the whole measurement",
            false => "was set back in the measurement",
        });
    };
    // A GPU always takes some: a counter that stands still is one that is not updated.
    if plain <= 0.0 {
        return Err("did not move in the measurement");
    }
    let seconds = |a: Ns, b: Ns| b.saturating_since(a).as_secs();
    if plain > POWER_W_MAX * seconds(from, to) {
        return Err("says more than a GPU can take");
    }
    let steps = counter.steps();
    let known = steps.times.first().zip(steps.times.last());
    let (first, last) = known.map_or((to, to), |(a, b)| ((*a).max(from), (*b).min(to)));
    if seconds(first, last) < KNOWN_RATIO_MIN * seconds(from, to) {
        return match power {
            Some(_) => Err("moved too seldom in the measurement"),
            None => Ok(plain),
        };
    }
    let moved = steps.counter_delta(first, last);
    let moved = moved.ok_or("does not reach over the whole measurement")?;
    let rate = moved / seconds(first, last);
    let beside = |a: Ns, b: Ns| match power.and_then(|power| power.integral(a, b)) {
        _ if a >= b => 0.0,
        Some(joules) => joules,
        None => rate * seconds(a, b),
    };
    Ok(moved + beside(from, first) + beside(last, to))
}

/// True when the samples leave no more than a little of the window to guess.
fn is_seen(series: &Series, from: Ns, to: Ns) -> bool {
    let (Some(&first), Some(&last)) = (series.times.first(), series.times.last()) else {
        return false;
    };
    let unseen = first.saturating_since(from).as_secs() + to.saturating_since(last).as_secs();
    unseen <= UNSEEN_RATIO_MAX * to.saturating_since(from).as_secs()
}

/// The last XID, when it is not the one from before the window.
fn new_code(codes: &Series, from: Ns, to: Ns) -> Option<f64> {
    let last = *codes.window(from, to).last()?;
    let before = codes.times.partition_point(|&at| at < from).checked_sub(1);
    let before = before.and_then(|at| codes.values.get(at)).copied();
    Some(last).filter(|last| *last > 0.0 && before != Some(*last))
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
        let tracks = history.tracks(0, "gpu_3", "nvidia");
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
        // 200..300 W over half a second, then 300 W for one and a little beyond the last sample.
        let row = check(&samples, S / 2, 2 * S + S / 10);
        assert_eq!(row.energy_j, Some(125.0 + 330.0));
        assert_eq!(
            (row.energy_source, row.energy_check_j),
            ("power_integration", None)
        );
        assert!(row.notes[0].contains("GPU 3: its energy counter is not there"));
        // What is not known is not made up.
        let row = check(&samples, S / 2, 4 * S);
        assert_eq!((row.energy_j, row.energy_source), (None, ""));
        assert!(
            row.notes[0].ends_with("its energy is unknown"),
            "{:?}",
            row.notes
        );
    }

    #[test]
    fn a_counter_that_goes_back_or_ends_early_is_not_used() {
        for (after, why) in [(1.0, "was set back"), (900.0, "did not move")] {
            let samples = [sample(0, 50.0, Some(900.0)), sample(S, 50.0, Some(after))];
            let row = check(&samples, 0, S);
            assert_eq!(
                (row.energy_j, row.energy_source),
                (Some(50.0), "power_integration")
            );
            assert!(row.notes[0].contains(why), "{:?}", row.notes);
        }
        let early = [sample(0, 50.0, Some(1.0)), sample(S, 50.0, Some(51.0))];
        let row = check(&early, 0, S + S / 20);
        assert_eq!(row.energy_j, Some(52.5));
        assert!(row.notes[0].contains("over the whole"), "{:?}", row.notes);
    }

    #[test]
    fn a_counter_is_checked_by_the_power() {
        let samples = [(0, 900.0), (1, 950.0), (2, 1000.0), (3, 1050.0)];
        let samples = samples.map(|(at, joules)| sample(at * S, 40.0, Some(joules)));
        let row = check(&samples, S, 3 * S);
        assert_eq!(
            (row.energy_j, row.energy_check_j),
            (Some(100.0), Some(80.0))
        );
        assert!(row.notes.is_empty());
    }

    #[test]
    fn a_counter_that_moves_seldom_is_known_from_move_to_move() {
        // 300 W; the counter moves every 2.5 s, and is read every 0.5 s.
        let slow = |end: u64, power: f64| {
            let at = move |tick: u64| {
                let moved = f64::from(u32::try_from(tick / 5).unwrap());
                sample(tick * S / 2, power, Some(750.0 * moved))
            };
            let samples: Vec<GpuSample> = (0..=2 * end + 2).map(at).collect();
            check(&samples, S / 2, end * S + S / 2)
        };
        let row = slow(11, 300.0);
        assert_eq!((row.energy_source, row.energy_j), ("counter", Some(3300.0)));
        // The edges by the power, the rest by the counter.
        let row = slow(11, 400.0);
        assert_eq!(row.energy_j, Some(2250.0 + 400.0 * (2.0 + 1.5)));
        let row = slow(3, 300.0);
        assert_eq!(row.energy_source, "power_integration");
        assert!(row.notes[0].contains("moved too seldom"), "{:?}", row.notes);
    }

    #[test]
    fn an_xid_is_the_last_one_and_a_new_one_is_told() {
        let xid = |at: u64, code: f64| {
            let mut sample = sample(at, 1.0, None);
            sample.values[Quantity::XidErrors as usize] = Some(code);
            sample
        };
        let found = |codes: [f64; 3]| {
            let samples = [xid(0, codes[0]), xid(S, codes[1]), xid(2 * S, codes[2])];
            let row = check(&samples, S, 2 * S);
            let mut metrics = row.metrics.iter();
            let metric = metrics
                .find(|metric| metric.tag == "nvidia_xid_errors")
                .unwrap();
            let Figure::Scalar(code) = metric.figure else {
                panic!("no number");
            };
            (code, row.notes.iter().any(|note| note.contains("XID 79")))
        };
        assert_eq!(found([0.0, 0.0, 79.0]), (79.0, true));
        assert_eq!(found([79.0, 79.0, 79.0]), (79.0, false));
        assert_eq!(found([0.0, 0.0, 0.0]), (0.0, false));
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
