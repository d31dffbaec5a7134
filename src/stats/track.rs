//! What something other than the client says over time: a GPU, the server.

use super::distribution::float_len;
use super::series::{Deviation, Series};
use super::summary::Figure;
use crate::base::Ns;
use std::borrow::Cow;

/// How the values of a track go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackKind {
    /// A value at each moment: figures are of the samples in a window.
    Gauge,
    /// Grows: what counts is the growth over a window.
    Counter,
}

/// One quantity of one source, on the client's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// Key of who says it, as the exports have it: `gpu_0`, `127.0.0.1:8000`.
    pub source: String,
    /// Name in the exports: `nvidia_power_usage`, `requests_running`.
    pub tag: Cow<'static, str>,
    /// Unit, as exported; empty for counts.
    pub unit: Cow<'static, str>,
    /// How its values go together.
    pub kind: TrackKind,
    /// Values with their times.
    pub series: Series,
}

impl Track {
    /// Over the window: of a gauge the distribution with the sample deviation, as AIPerf has it for
    /// telemetry; of a counter its growth, interpolated at the edges. `None` without a sample in
    /// it, and for a counter that fell or does not reach both edges.
    pub fn figure(&self, from: Ns, to: Ns) -> Option<Figure> {
        match self.kind {
            TrackKind::Gauge => {
                let found = self.series.distribution(from, to, Deviation::Sample);
                found.map(Figure::Distribution)
            }
            TrackKind::Counter => self.series.counter_delta(from, to).map(Figure::Scalar),
        }
    }

    /// Mean of a gauge over the window, growth of a counter; for slices and rules.
    pub fn level(&self, from: Ns, to: Ns) -> Option<f64> {
        match self.kind {
            TrackKind::Gauge => {
                let values = self.series.window(from, to);
                let is_any = !values.is_empty();
                is_any.then(|| values.iter().sum::<f64>() / float_len(values.len()))
            }
            TrackKind::Counter => self.series.counter_delta(from, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_has_a_distribution_and_a_counter_its_growth() {
        let mut series = Series::default();
        for (second, value) in [(0, 10.0), (1, 20.0), (2, 40.0)] {
            series.push(Ns::from_ms(second * 1000), value);
        }
        let track = |kind| Track {
            source: "gpu_0".into(),
            tag: "x".into(),
            unit: "".into(),
            kind,
            series: series.clone(),
        };
        let (from, to) = (Ns::from_ms(500), Ns::from_ms(2000));
        let gauge = track(TrackKind::Gauge);
        let Some(Figure::Distribution(found)) = gauge.figure(from, to) else {
            panic!("no distribution");
        };
        assert_eq!((found.count, found.avg), (2, 30.0));
        assert_eq!(gauge.level(from, to), Some(30.0));
        let counter = track(TrackKind::Counter);
        assert_eq!(counter.figure(from, to), Some(Figure::Scalar(25.0)));
        assert_eq!(counter.level(from, Ns::from_ms(2001)), None);
    }
}
