//! What ends a run before its count or its time does.

use super::{ConfigError, count, no};
use crate::base::{Ns, limits};
use crate::config::{Draft, StableWindows};

/// Longest window, ms: ten of them are ten years.
const WINDOW_MS_MAX: i64 = 31_536_000_000;
/// Largest tolerance that GenAI-Perf knows, percent.
const TOLERANCE_MAX: f64 = 999.0;

impl Draft {
    pub(super) fn stop_oversaturated(&self, is_open: bool) -> Result<bool, ConfigError> {
        match self.may_stop() {
            true if !is_open => no(
                "stop-when-oversaturated",
                "it needs --request-rate: a closed loop sends no more than is answered",
            ),
            stops => Ok(stops),
        }
    }

    /// True when the run may end at any time.
    pub(super) fn may_stop(&self) -> bool {
        self.stop_when_oversaturated.unwrap_or(false)
    }

    pub(super) fn stable_windows(&self) -> Result<Option<StableWindows>, ConfigError> {
        let flag = "measurement-interval";
        let ms = count(flag, self.measurement_interval, 1, WINDOW_MS_MAX)?;
        let percent = self.stability_percentage;
        match (ms, percent) {
            (None, Some(_)) => no("stability-percentage", "it needs --measurement-interval"),
            (_, Some(given)) if !(given > 0.0 && given <= TOLERANCE_MAX) => no(
                "stability-percentage",
                format!("{given:?} is out of range; give more than 0, {TOLERANCE_MAX} at most"),
            ),
            _ => Ok(ms.map(|ms| StableWindows {
                length: Ns::from_ms(ms),
                tolerance: percent.unwrap_or(10.0) / 100.0,
            })),
        }
    }

    /// Seconds of the measurement: windows limit them, since there are ten at the most.
    #[expect(clippy::cast_precision_loss, reason = "ten")]
    pub(super) fn longest(&self, windows: Option<StableWindows>) -> Option<f64> {
        let most =
            windows.map(|windows| windows.length.as_secs() * limits::STABLE_WINDOWS_MAX as f64);
        match (self.benchmark_duration, most) {
            (Some(given), Some(most)) if given > most => Some(most),
            (given, most) => given.or(most),
        }
    }
}
