//! Numbers, times and labels as text: the few rules that all formats share.

use crate::stats::figures::named;
use crate::stats::summary::{Figure, MetricResult};

/// `1234.5` as `1234.50`.
pub(super) fn fixed(value: f64) -> String {
    format!("{value:.2}")
}

/// The same; of megajoules six decimals, which are whole joules: a run takes few megajoules.
pub(super) fn fixed_in(unit: &str, value: f64) -> String {
    match unit {
        "MJ" => format!("{value:.6}"),
        _ => fixed(value),
    }
}

/// Beyond it nobody counts digits.
const GROUPED_MAX: f64 = 1e15;

/// `1234.5` as `1,234.50`.
pub(super) fn grouped(value: f64) -> String {
    if value.abs() >= GROUPED_MAX {
        return format!("{value:.3e}");
    }
    let plain = fixed(value);
    if !value.is_finite() {
        return plain;
    }
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", plain.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "00"));
    let mut out = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out.push('.');
    out.push_str(fraction);
    out
}

/// Wall time in UTC, to the microsecond and without a zone: `2026-11-30T01:56:20.483785`.
pub(super) fn wall(ns: u64) -> String {
    let Ok(at) = jiff::Timestamp::from_nanosecond(i128::from(ns)) else {
        return String::new();
    };
    let at = jiff::tz::Offset::UTC.to_datetime(at);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}",
        at.year(),
        at.month(),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.subsec_nanosecond() / 1_000
    )
}

/// A span in the unit that reads best: `850 ns`, `12.4 us`, `3.20 ms`, `1.50 s`.
pub(super) fn span(ns: u64) -> String {
    let ms = crate::base::Ns(ns).as_ms();
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ms * 1e3),
        1_000_000..1_000_000_000 => format!("{ms:.2} ms"),
        _ => format!("{:.2} s", ms / 1e3),
    }
}

/// `Time to First Token (ms)`; counts carry no unit.
pub(super) fn csv_label(metric: &MetricResult) -> String {
    match metric.unit {
        "requests" | "count" | "" => metric.header.to_owned(),
        unit => format!("{} ({unit})", metric.header),
    }
}

/// One statistic of a figure, by its key; absent where the figure has none.
pub(super) fn stat(figure: &Figure, key: &str) -> Option<f64> {
    let found = named(figure).into_iter().find(|(name, _)| *name == key);
    found.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped_and_small_numbers_are_not() {
        for (value, want) in [
            (0.0, "0.00"),
            (999.994, "999.99"),
            (999.995, "1,000.00"),
            (1_525.0, "1,525.00"),
            (-1_234_567.891, "-1,234,567.89"),
            (43_405.18, "43,405.18"),
            (f64::INFINITY, "inf"),
        ] {
            // 999.995 lies just above its decimal in binary.
            assert_eq!(grouped(value), want, "{value}");
        }
    }

    #[test]
    fn wall_time_is_utc_without_a_zone() {
        assert_eq!(
            wall(1_796_003_780_483_785_999),
            "2026-11-30T01:56:20.483785"
        );
        assert_eq!(wall(0), "1970-01-01T00:00:00.000000");
    }

    #[test]
    fn spans_pick_their_unit() {
        assert_eq!(span(850), "850 ns");
        assert_eq!(span(12_400), "12.4 us");
        assert_eq!(span(3_200_000), "3.20 ms");
        assert_eq!(span(1_500_000_000), "1.50 s");
    }
}
