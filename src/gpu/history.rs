//! What a source has shown so far, as series: only what devices tell takes room.

use super::{GpuSample, Quantity};
use crate::stats::{Series, Track};

/// Series of all devices of a source.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Per device, in the order of [`Quantity::ALL`].
    devices: Vec<Vec<Series>>,
    ticks: usize,
}

impl History {
    /// Adds the samples of one tick.
    pub fn push(&mut self, tick: &[GpuSample]) {
        self.ticks += 1;
        for sample in tick {
            while self.devices.len() <= sample.device {
                self.devices.push(vec![Series::default(); Quantity::COUNT]);
            }
            for (value, series) in sample.values.iter().zip(&mut self.devices[sample.device]) {
                if let Some(value) = value {
                    series.push(sample.at, *value);
                }
            }
        }
    }

    /// Ticks kept.
    pub fn ticks_count(&self) -> usize {
        self.ticks
    }

    /// Drops every other value of each series; the first and the last stay.
    pub fn thin(&mut self) {
        self.ticks = self.ticks.div_ceil(2);
        self.devices.iter_mut().flatten().for_each(thin);
    }

    /// What a device said over time, a track per quantity that it told at least once.
    pub fn tracks(&self, device: usize, source: &str, platform: &str) -> Vec<Track> {
        let all = self.devices.get(device).map_or(&[][..], Vec::as_slice);
        let told = Quantity::ALL.into_iter().zip(all);
        let track = |(quantity, series): (Quantity, &Series)| {
            let (tag, _, unit) = quantity.names_of(platform);
            let is_energy = quantity == Quantity::Energy;
            (!series.times.is_empty()).then(|| Track {
                source: source.to_owned(),
                tag: tag.into(),
                // Figures have it in MJ.
                unit: if is_energy { "J" } else { unit }.into(),
                kind: quantity.kind(),
                series: series.clone(),
            })
        };
        told.filter_map(track).collect()
    }
}

/// Drops every other value; the first and the last stay.
pub fn thin(series: &mut Series) {
    let last = series.times.len().saturating_sub(1);
    let is_kept = |at: usize| at.is_multiple_of(2) || at == last;
    let mut at = 0..;
    series.times.retain(|_| at.next().is_some_and(is_kept));
    let mut at = 0..;
    series.values.retain(|_| at.next().is_some_and(is_kept));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Ns;

    #[test]
    fn a_long_run_keeps_every_other_tick_and_both_ends() {
        let mut history = History::default();
        for at in 0..8u32 {
            let mut values = [None; Quantity::COUNT];
            values[Quantity::Power as usize] = Some(f64::from(at));
            // One that a device tells late.
            values[Quantity::Energy as usize] = (at > 4).then(|| f64::from(at));
            let at = Ns(u64::from(at));
            history.push(&[GpuSample {
                device: 0,
                at,
                values,
            }]);
        }
        history.thin();
        let tracks = history.tracks(0, "gpu_0", "nvidia");
        let values = |at: usize| tracks[at].series.values.clone();
        assert_eq!(tracks.len(), 2);
        assert_eq!(values(0), [0.0, 2.0, 4.0, 6.0, 7.0]);
        assert_eq!(values(1), [5.0, 7.0]);
        assert_eq!((history.ticks_count(), tracks[1].unit.as_ref()), (4, "J"));
        assert!(history.tracks(1, "gpu_1", "nvidia").is_empty());
    }
}
