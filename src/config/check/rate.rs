//! The rate of an open loop: its law, and how it moves.

use super::{ConfigError, SECONDS_MAX, no};
use crate::config::{Pattern, PhaseDraft, Ramp, Rate};
use std::ops::RangeInclusive;
use std::path::Path;

/// Requests per second: from one in eleven days to more than any machine sends.
pub(super) const RATES: RangeInclusive<f64> = 1e-6..=1e7;
/// Shapes of gamma gaps: beyond them all is one burst, or a clock.
const SHAPES: RangeInclusive<f64> = 1e-3..=1e6;
/// Points of a rate series, and bytes of its file.
const POINTS_MAX: usize = 1_000_000;
const SERIES_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The rate of an open loop; absent in a closed one.
pub(super) fn rate(draft: &PhaseDraft, ramp: Option<Ramp>) -> Result<Option<Rate>, ConfigError> {
    let series = match &draft.request_rate_series {
        Some(_) if draft.request_rate.is_some() => {
            return no(
                "request-rate-series",
                "it contradicts --request-rate; give one",
            );
        }
        Some(_) if ramp.is_some() => {
            return no(
                "request-rate-series",
                "it contradicts --request-rate-ramp-duration",
            );
        }
        Some(path) => series(Path::new(path))?,
        None => Vec::new(),
    };
    let last = series.last().map(|point| point.1);
    let Some(per_s) = draft.request_rate.or(last) else {
        let given = [
            ("arrival-pattern", draft.arrival_pattern.is_some()),
            ("arrival-smoothness", draft.arrival_smoothness.is_some()),
            ("arrival-normalize", draft.arrival_normalize == Some(true)),
        ];
        return match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => no(flag, "it needs --request-rate"),
            None => Ok(None),
        };
    };
    if series.is_empty() && per_s != f64::INFINITY && !RATES.contains(&per_s) {
        return no(
            "request-rate",
            format!("{per_s:?} is out of range; give 0.000001 to 10000000, or inf"),
        );
    }
    let normalized = draft.arrival_normalize.unwrap_or(false);
    if normalized && (draft.request_count.is_none() || !series.is_empty() || ramp.is_some()) {
        return no(
            "arrival-normalize",
            "it stretches to --request-count / --request-rate; give both, and no ramp or series",
        );
    }
    let pattern = pattern(draft, per_s)?;
    if pattern == Pattern::Burst && draft.request_count.is_none() && draft.duration.is_some() {
        return no(
            "request-rate",
            "inf sends all at once: give --request-count",
        );
    }
    if pattern == Pattern::Burst && (ramp.is_some() || normalized) {
        return no(
            "request-rate",
            "inf sends all at once: no ramp, and nothing to normalize",
        );
    }
    Ok(Some(Rate {
        pattern,
        per_s,
        ramp,
        series,
        normalized,
    }))
}

fn pattern(draft: &PhaseDraft, per_s: f64) -> Result<Pattern, ConfigError> {
    let shape = match draft.arrival_smoothness {
        Some(shape) if !SHAPES.contains(&shape) => {
            let text = format!("{shape:?} is out of range; give 0.001 to 1000000");
            return no("arrival-smoothness", text);
        }
        given => given,
    };
    let given = draft.arrival_pattern.as_deref();
    if per_s == f64::INFINITY {
        return match (given, shape) {
            (None | Some("concurrency_burst"), None) => Ok(Pattern::Burst),
            _ => no(
                "request-rate",
                "inf sends all at once, and has no other pattern",
            ),
        };
    }
    match (given, shape) {
        (None | Some("poisson"), None) => Ok(Pattern::Poisson),
        (Some("constant"), None) => Ok(Pattern::Constant),
        (None | Some("gamma"), shape) => Ok(Pattern::Gamma(shape.unwrap_or(1.0))),
        (Some("constant" | "poisson"), Some(_)) => no(
            "arrival-smoothness",
            "it is the shape of gamma gaps: give --arrival-pattern gamma, or leave it out",
        ),
        (Some("concurrency_burst"), _) => no(
            "arrival-pattern",
            "all at once has no rate; give --request-rate inf",
        ),
        (Some(other), _) => no(
            "arrival-pattern",
            format!("`{other}` is unknown; poisson, gamma or constant"),
        ),
    }
}

/// Reads `{"points": [{"time_s": .., "qps": ..}, ..]}`.
fn series(path: &Path) -> Result<Vec<(f64, f64)>, ConfigError> {
    #[derive(serde::Deserialize)]
    struct Series {
        points: Vec<Point>,
    }
    #[derive(serde::Deserialize)]
    struct Point {
        time_s: f64,
        qps: f64,
    }
    let bad = |text: String| no("request-rate-series", format!("{}: {text}", path.display()));
    let wanted = "give {\"points\": [{\"time_s\": 0, \"qps\": 5}, ..]}";
    let length = std::fs::metadata(path).map(|data| data.len());
    let text = match length {
        Ok(length) if length > SERIES_BYTES_MAX => {
            return bad(format!("{length} bytes; at most {SERIES_BYTES_MAX}"));
        }
        _ => std::fs::read_to_string(path),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return bad(error.to_string()),
    };
    let Series { points } = match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(series) => series,
        Err(error) => return bad(format!("{error}; {wanted}")),
    };
    if points.is_empty() || points.len() > POINTS_MAX {
        return bad(format!("{} points; give 1 to {POINTS_MAX}", points.len()));
    }
    let mut before = 0.0;
    for (index, point) in points.iter().enumerate() {
        let at = |text: String| bad(format!("point {}: {text}", index + 1));
        if !(0.0..=SECONDS_MAX).contains(&point.time_s) || index > 0 && point.time_s <= before {
            return at(format!("time_s {:?} does not ascend from 0", point.time_s));
        }
        if point.qps != 0.0 && !RATES.contains(&point.qps) {
            return at(format!(
                "qps {:?}; give 0, or 0.000001 to 10000000",
                point.qps
            ));
        }
        before = point.time_s;
    }
    match points.iter().all(|point| point.qps == 0.0) {
        true => bad("no point has a rate".into()),
        false => Ok(points
            .iter()
            .map(|point| (point.time_s, point.qps))
            .collect()),
    }
}
