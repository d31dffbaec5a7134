//! `gpu_telemetry_export.jsonl`: a line per GPU and look at it, AIPerf's members first.

use super::RunInfo;
use super::gpus;
use crate::stats::Track;
use crate::stats::summary::GpuSummary;
use serde_json::{Map, Value, json};

/// Appends the lines of all GPUs in the order of their times. `tracks` and `pcis` (addresses on the
/// bus, empty when unknown) are in the order of `gpus`.
///
/// Energy is in MJ, as AIPerf has it.
pub fn lines(
    gpus: &[GpuSummary],
    tracks: &[Vec<Track>],
    pcis: &[&str],
    run: &RunInfo,
    mut write: impl FnMut(&[u8]),
) {
    let mut next: Vec<Vec<usize>> = tracks.iter().map(|own| vec![0; own.len()]).collect();
    // The next time of each GPU; the earliest goes first.
    let time = |gpu: usize, next: &[Vec<usize>]| {
        let times = tracks[gpu].iter().zip(&next[gpu]);
        times
            .filter_map(|(track, &at)| track.series.times.get(at).copied())
            .min()
    };
    let earliest = |next: &[Vec<usize>]| {
        let all = (0..tracks.len().min(gpus.len())).filter_map(|gpu| Some((time(gpu, next)?, gpu)));
        all.min()
    };
    let mut line = Vec::new();
    while let Some((at, gpu)) = earliest(&next) {
        let mut values = Map::new();
        for (track, place) in tracks[gpu].iter().zip(&mut next[gpu]) {
            // Two looks may fall on one time: the later one stands.
            while track.series.times.get(*place) == Some(&at) {
                let value = track.series.values[*place];
                let value = if track.unit == "J" {
                    value / 1e6
                } else {
                    value
                };
                values.insert(track.tag.to_string(), value.into());
                *place += 1;
            }
        }
        let mut all = head(&gpus[gpu], pcis.get(gpu).copied().unwrap_or_default(), run);
        all.insert("timestamp_ns".into(), run.anchor.wall(at).into());
        all.insert(
            "telemetry_source_url".into(),
            gpus[gpu].source.as_str().into(),
        );
        all.insert("telemetry_data".into(), values.into());
        all.insert("monotonic_ns".into(), at.0.into());
        let mut all = Value::Object(all);
        run.secrets.mask_value(&mut all);
        line.clear();
        line.extend_from_slice(all.to_string().as_bytes());
        line.push(b'\n');
        write(&line);
    }
}

/// What stands before the time.
fn head(gpu: &GpuSummary, pci: &str, run: &RunInfo) -> Map<String, Value> {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    put("gpu_index", gpu.index.into());
    put("gpu_uuid", gpu.uuid.as_str().into());
    put("gpu_model_name", gpu.name.as_str().into());
    if !pci.is_empty() {
        put("pci_bus_id", pci.into());
    }
    if gpus::platform(gpu) == "nvidia" {
        put("device", format!("nvidia{}", gpu.index).into());
    }
    put("hostname", gpus::host(gpu, run).into());
    put("platform", gpus::platform(gpu).into());
    if !gpu.instance.is_empty() {
        put("instance", json!(gpu.instance));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::base::{Anchor, Ns};
    use crate::stats::{Series, TrackKind};

    const GOLDEN: &str =
        include_str!("../../tests/data/golden/aiperf/gpu_telemetry_export.head4.jsonl");

    fn golden() -> Vec<Value> {
        let lines = GOLDEN
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    fn text(gpus: &[GpuSummary], tracks: &[Vec<Track>], pcis: &[&str]) -> String {
        let mut out = Vec::new();
        let write = |line: &[u8]| out.extend_from_slice(line);
        lines(gpus, tracks, pcis, &run(), write);
        String::from_utf8(out).unwrap()
    }

    /// One that began after the machine.
    fn run() -> RunInfo {
        RunInfo {
            anchor: Anchor::at(Ns::from_ms(60_000), 1_796_003_780_000_000_000),
            ..fixture::run()
        }
    }

    /// AIPerf's own samples as tracks of ours make its file again, and one member more.
    #[test]
    fn the_lines_are_those_of_aiperf() {
        let golden = golden();
        let run = run();
        let text_of = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
        let gpu = |line: &Value| GpuSummary {
            source: text_of(line, "telemetry_source_url"),
            hostname: text_of(line, "hostname"),
            platform: "nvidia",
            index: u32::try_from(line["gpu_index"].as_u64().unwrap()).unwrap(),
            uuid: text_of(line, "gpu_uuid"),
            name: text_of(line, "gpu_model_name"),
            ..GpuSummary::default()
        };
        let tracks = |first: usize| -> Vec<Track> {
            let tags = golden[first]["telemetry_data"].as_object().unwrap().keys();
            let track = |tag: &String| {
                let mut series = Series::default();
                let is_energy = tag == "nvidia_energy_consumption";
                for line in golden.iter().skip(first).step_by(2) {
                    let at = run.anchor.mono(line["timestamp_ns"].as_u64().unwrap());
                    let value = line["telemetry_data"][tag].as_f64().unwrap();
                    series.push(at, if is_energy { value * 1e6 } else { value });
                }
                Track {
                    source: String::new(),
                    tag: tag.clone().into(),
                    unit: if is_energy { "J" } else { "" }.into(),
                    kind: TrackKind::Gauge,
                    series,
                }
            };
            tags.map(track).collect()
        };
        let gpus = [gpu(&golden[0]), gpu(&golden[1])];
        let pcis = [
            text_of(&golden[0], "pci_bus_id"),
            text_of(&golden[1], "pci_bus_id"),
        ];
        let ours = text(&gpus, &[tracks(0), tracks(1)], &[&pcis[0], &pcis[1]]);
        assert_eq!(ours.lines().count(), golden.len());
        for (ours, golden) in ours.lines().zip(&golden) {
            let mut ours: Value = serde_json::from_str(ours).unwrap();
            let all = ours.as_object_mut().unwrap();
            assert!(all.remove("monotonic_ns").unwrap().is_u64());
            let keys: Vec<&String> = all.keys().collect();
            assert_eq!(keys, golden.as_object().unwrap().keys().collect::<Vec<_>>());
            for (tag, value) in golden["telemetry_data"].as_object().unwrap() {
                let own = all["telemetry_data"][tag].as_f64().unwrap();
                assert!((own - value.as_f64().unwrap()).abs() < 1e-12, "{tag}");
            }
            all.insert("telemetry_data".into(), golden["telemetry_data"].clone());
            assert_eq!(&ours, golden);
        }
    }

    #[test]
    fn a_value_that_is_not_told_at_a_time_is_not_in_its_line() {
        let series = |points: &[(u64, f64)]| {
            let mut series = Series::default();
            points
                .iter()
                .for_each(|&(at, value)| assert!(series.push(Ns(at), value)));
            series
        };
        let track = |tag: &'static str, points: &[(u64, f64)]| Track {
            source: String::new(),
            tag: tag.into(),
            unit: "W".into(),
            kind: TrackKind::Gauge,
            series: series(points),
        };
        let tracks = [
            track("a", &[(1, 1.0), (3, 2.0)]),
            track("b", &[(2, 5.0), (3, 6.0)]),
        ];
        let gpu = fixture::summary().gpus[0].clone();
        let found = text(&[gpu], &[tracks.into()], &[]);
        let data = |line: &str| {
            let value: Value = serde_json::from_str(line).unwrap();
            value["telemetry_data"].to_string()
        };
        let found: Vec<String> = found.lines().map(data).collect();
        assert_eq!(
            found,
            [r#"{"a":1.0}"#, r#"{"b":5.0}"#, r#"{"a":2.0,"b":6.0}"#]
        );
    }
}
