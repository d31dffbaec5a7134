//! Axes: from values to a place between 0 and 1, and round ticks with their labels.

/// Beyond this a value is taken for broken and is not drawn.
pub const VALUE_MAX: f64 = 1e12;
/// Ticks that a linear axis aims at.
const TICKS: f64 = 6.0;
/// From this ratio of the largest value to the smallest an axis may count decades.
pub const DECADES_FROM: f64 = 100.0;
/// Ticks of a logarithmic axis.
const LOG_TICKS_MAX: usize = 9;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    /// Linear, from a round value below `low` to one above `high`; from 0 where that is near, whole
    /// steps where values are whole. Range: both finite; equal ones get room around them.
    pub fn linear(low: f64, high: f64, is_whole: bool) -> Scale {
        let [low, high] = [low, high].map(|v| v.clamp(-VALUE_MAX, VALUE_MAX));
        let (low, high) = (low.min(high), low.max(high));
        let (mut low, mut high) = match high - low <= 1e-9 * high.abs().max(low.abs()) {
            true if low == 0.0 => (0.0, 1.0),
            true => {
                let room = (0.5 * high.abs()).max(if is_whole { 2.0 } else { 0.0 });
                (low - room, high + room)
            }
            false if low > 0.0 && low < 0.6 * high => (0.0, high),
            false => (low, high),
        };
        let mut step = round_step((high - low) / TICKS);
        if is_whole {
            step = step.max(1.0);
        }
        (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        let count = ((high - low) / step).round().clamp(1.0, 24.0) as usize;
        let suffix = Suffix::of(low.abs().max(high.abs()));
        let tick = |at: usize| {
            let value = low + super::float_len(at) * step;
            (value, suffix.label(value, step))
        };
        Scale {
            low,
            high,
            is_log: false,
            ticks: (0..=count).map(tick).collect(),
        }
    }

    /// By decades, from a round value to a round value. Range: above 0; anything else is linear.
    pub fn log(low: f64, high: f64) -> Scale {
        let is_wide = low > 0.0 && high <= VALUE_MAX && high > 2.0 * low;
        if !is_wide {
            return Scale::linear(low, high, false);
        }
        let low = low.max(1e-9);
        let (from, to) = (round_below(low), round_above(high));
        let decades = (to / from).log10();
        let leads: &[f64] = match decades {
            d if d <= 3.1 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let exponents = from.log10().floor() as i32..=to.log10().ceil() as i32;
        let every = (decades / super::float_len(LOG_TICKS_MAX)).ceil().max(1.0) as i32;
        let tick = |exponent: i32, lead: f64| {
            let value = lead * 10f64.powi(exponent);
            let is_in = value >= from * 0.999 && value <= to * 1.001;
            let label = || Suffix::of(value).label(value, value);
            is_in.then(|| (value, label()))
        };
        let ticks = exponents
            .filter(|exponent| exponent % every == 0)
            .flat_map(|exponent| leads.iter().filter_map(move |lead| tick(exponent, *lead)));
        Scale {
            low: from,
            high: to,
            is_log: true,
            ticks: ticks.collect(),
        }
    }

    /// Linear from `low` to `high`, without ticks.
    pub fn exactly(low: f64, high: f64) -> Scale {
        Scale {
            low,
            high,
            is_log: false,
            ticks: Vec::new(),
        }
    }

    /// Linear, or by decades where the values spread over some and none is 0 or less.
    pub fn fitting(low: f64, high: f64) -> Scale {
        match low > 0.0 && high / low >= DECADES_FROM {
            true => Scale::log(low, high),
            false => Scale::linear(low, high, false),
        }
    }

    /// Where a value is: 0 at the lower end, 1 at the upper; beyond them at the nearer end.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        share.clamp(0.0, 1.0)
    }

    /// The value at a place between 0 and 1.
    pub fn value(&self, at: f64) -> f64 {
        match self.is_log {
            true => self.low * (self.high / self.low).powf(at),
            false => self.low + at * (self.high - self.low),
        }
    }

    /// Round values with their labels, rising.
    pub fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// Counts decades.
    pub fn is_log(&self) -> bool {
        self.is_log
    }
}

/// 1, 2 or 5 times a power of ten, at least so large.
fn round_step(least: f64) -> f64 {
    round_above(least.max(1e-12))
}

const LEADS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

fn round_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let lead = LEADS
        .iter()
        .find(|lead| **lead * decade >= value * 0.999_999);
    lead.unwrap_or(&10.0) * decade
}

fn round_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let lead = LEADS
        .iter()
        .rfind(|lead| **lead * decade <= value * 1.000_001);
    lead.unwrap_or(&1.0) * decade
}

/// What large numbers are counted in.
#[derive(Clone, Copy, Debug)]
struct Suffix(f64, &'static str);

impl Suffix {
    fn of(largest: f64) -> Suffix {
        match largest {
            v if v >= 1e12 => Suffix(1e12, "T"),
            v if v >= 1e9 => Suffix(1e9, "G"),
            v if v >= 1e6 => Suffix(1e6, "M"),
            v if v >= 2e4 => Suffix(1e3, "k"),
            _ => Suffix(1.0, ""),
        }
    }

    /// With as many decimals as tell a step from the next.
    fn label(self, value: f64, step: f64) -> String {
        let (value, step) = (value / self.0, step / self.0);
        let decimals = (-(step.abs() * 1.000_001).log10().floor()).clamp(0.0, 9.0) as usize;
        let text = grouped(&format!("{value:.decimals$}"));
        let text = if value == 0.0 { "0" } else { &text };
        format!(
            "{}{}",
            text.replace('-', "−"),
            if value == 0.0 { "" } else { self.1 }
        )
    }
}

/// Thousands apart: `12,500`.
pub fn grouped(digits: &str) -> String {
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let (sign, whole) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut out = sign.to_string();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// What times are counted in: how many of it make a millisecond, and its sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnit(pub f64, pub &'static str);

impl TimeUnit {
    /// Of the largest value in ms: microseconds, milliseconds, seconds or hours.
    pub fn of(largest_ms: f64) -> TimeUnit {
        match largest_ms {
            v if v < 1.0 => TimeUnit(1e3, "µs"),
            v if v < 10_000.0 => TimeUnit(1.0, "ms"),
            v if v < 3.6e7 => TimeUnit(1e-3, "s"),
            _ => TimeUnit(1.0 / 3.6e6, "h"),
        }
    }

    /// A time in ms to three digits, with its unit.
    pub fn text(self, ms: f64) -> String {
        format!("{} {}", self.number(ms), self.1)
    }

    /// The same without the unit.
    pub fn number(self, ms: f64) -> String {
        let value = ms * self.0;
        let decimals = match value.abs() {
            v if v >= 99.95 => 0,
            v if v >= 9.995 => 1,
            v if v >= 0.9995 || v == 0.0 => 2,
            _ => 3,
        };
        grouped(&format!("{value:.decimals$}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale
            .ticks()
            .iter()
            .map(|(_, label)| label.as_str())
            .collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let scale = Scale::linear(3.0, 97.0, false);
        assert_eq!(labels(&scale), ["0", "20", "40", "60", "80", "100"]);
        let scale = Scale::linear(100.2, 101.3, false);
        assert_eq!(
            labels(&scale),
            [
                "100.2", "100.4", "100.6", "100.8", "101.0", "101.2", "101.4"
            ]
        );
        assert_eq!(labels(&Scale::linear(0.0, 2.0, true)), ["0", "1", "2"]);
        assert_eq!(labels(&Scale::linear(-5.0, 5.0, false))[0], "−6");
        let large = Scale::linear(0.0, 180_000.0, true);
        assert_eq!(labels(&large), ["0", "50k", "100k", "150k", "200k"]);
        let middle = Scale::linear(0.0, 12_000.0, true);
        assert_eq!(labels(&middle)[1], "2,000");
    }

    #[test]
    fn equal_values_are_in_the_middle() {
        for value in [1e-7, 1.0, 42.0, 1e9, -3.0] {
            let scale = Scale::linear(value, value, false);
            let at = scale.at(value);
            assert!((0.3..=0.7).contains(&at), "{value}: {at}");
            assert!(scale.ticks().len() > 1);
        }
        let whole = Scale::linear(64.0, 64.0, true);
        assert!((0.3..=0.7).contains(&whole.at(64.0)));
        assert_eq!(labels(&Scale::linear(0.0, 0.0, false))[0], "0");
    }

    #[test]
    fn decades_have_decades_as_ticks() {
        let scale = Scale::fitting(0.3, 7_000.0);
        assert_eq!(
            labels(&scale),
            ["1", "10", "100", "1,000", "10,000"][..].to_vec()
        );
        let narrow = Scale::log(12.0, 90.0);
        assert_eq!(labels(&narrow), ["10", "20", "50", "100"]);
        assert!((narrow.value(narrow.at(33.0)) - 33.0).abs() < 1e-9);
        assert!(!Scale::fitting(0.0, 1e6).is_log());
        assert!(!Scale::log(5.0, 5.0).is_log());
        assert!(Scale::log(1e-300, 1e12).ticks().len() <= 24);
    }

    #[test]
    fn whatever_comes_there_are_few_ticks() {
        for (low, high) in [
            (f64::MIN_POSITIVE, f64::MIN_POSITIVE),
            (-1e300, 1e300),
            (1e12, 1e12),
            (0.0, 5e-324),
            (1.0, 1.0 + f64::EPSILON),
        ] {
            for scale in [Scale::linear(low, high, false), Scale::fitting(low, high)] {
                let ticks = scale.ticks();
                assert!((2..=26).contains(&ticks.len()), "{low} {high}: {ticks:?}");
                assert!(ticks.iter().all(|(v, l)| v.is_finite() && l.len() < 24));
                assert!(scale.at(low).is_finite() && scale.at(high).is_finite());
            }
        }
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!(TimeUnit::of(0.5).text(0.1234), "123 µs");
        assert_eq!(TimeUnit::of(500.0).text(42.123), "42.1 ms");
        assert_eq!(TimeUnit::of(65_000.0).text(1_234.0), "1.23 s");
        assert_eq!(TimeUnit::of(5.0).text(0.0), "0.00 ms");
        assert_eq!(grouped("1234567.5"), "1,234,567.5");
    }
}
