//! A condition on a run's figures: `p99(time_to_first_token)<500ms`, and on what changed between
//! two runs: `p99(time_to_first_token)>+5%`.

use super::catalogue::{self, Form, Named};
use super::figures::{Figures, PERCENTILE_KEYS};
use super::metric::METRICS;
use std::fmt;

/// Bytes of a condition: the longest tag and number have some hundred.
const TEXT_BYTES_MAX: usize = 256;
/// Ends every message: how it is written.
const EXAMPLES: &str = "write it as `p99(time_to_first_token)<500ms`, `request_throughput>=10` or \
                        `p99(ttft)>+5%`";
/// Statistics beside the percentiles.
const STATS: [&str; 6] = ["avg", "min", "max", "std", "count", "sum"];

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Op {
    /// As written.
    pub fn sign(self) -> &'static str {
        match self {
            Op::Below => "<",
            Op::AtMost => "<=",
            Op::Above => ">",
            Op::AtLeast => ">=",
        }
    }

    /// AIPerf's word.
    fn of_word(word: &str) -> Option<Op> {
        match word {
            "lt" => Some(Op::Below),
            "le" => Some(Op::AtMost),
            "gt" => Some(Op::Above),
            "ge" => Some(Op::AtLeast),
            _ => None,
        }
    }

    fn is_from_above(self) -> bool {
        matches!(self, Op::Below | Op::AtMost)
    }
}

/// What a value is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// In the metric's display unit. Finite.
    Absolute(f64),
    /// A change against another run, 0.05 for 5 % more. Finite.
    Relative(f64),
}

/// A condition, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// As it was written.
    pub text: String,
    /// What the run has, in display units; absent where it has none.
    pub value: Option<f64>,
    /// Does it hold?
    pub holds: bool,
}

/// A condition on one statistic of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// `time_to_first_token`.
    pub tag: &'static str,
    /// `p99`, `avg`: a key of [`super::MetricFigures::stats`].
    pub stat: &'static str,
    /// How.
    pub op: Op,
    /// With what.
    pub limit: Limit,
    /// As it was written.
    pub text: String,
}

impl Gate {
    /// Reads a condition; a metric without a statistic means its `avg`.
    ///
    /// Units: a number without one is in the metric's display unit; `%` after a signed number is a
    /// change against another run. Errors: what is wrong, the nearest names, and an example.
    ///
    /// ```
    /// use tokenring::stats::gate::{Gate, Limit};
    /// let gate = Gate::parse("p99(ttft) < 0.5s").unwrap();
    /// assert_eq!(gate.to_string(), "p99(time_to_first_token) < 500 ms");
    /// assert!(gate.holds(499.0) && !gate.holds(500.0) && !gate.holds(f64::NAN));
    /// assert_eq!(Gate::parse("p99(ttft)>+5%").unwrap().limit, Limit::Relative(0.05));
    /// assert!(Gate::parse("p99(ttfx)<1").unwrap_err().contains("ttft"));
    /// ```
    pub fn parse(text: &str) -> Result<Gate, String> {
        let text = text.trim();
        let fail = |what: String| Err(format!("{what}; {EXAMPLES}"));
        if text.is_empty() {
            return fail("no condition".into());
        }
        if text.len() > TEXT_BYTES_MAX {
            return fail(format!("a condition has at most {TEXT_BYTES_MAX} bytes"));
        }
        let Some(at) = text.find(['<', '>']) else {
            return fail(format!("`{text}` has none of < <= > >="));
        };
        let (left, right) = text.split_at(at);
        let (op, right) = match (&right[..1], right[1..].strip_prefix('=')) {
            ("<", Some(rest)) => (Op::AtMost, rest),
            ("<", None) => (Op::Below, &right[1..]),
            (_, Some(rest)) => (Op::AtLeast, rest),
            (_, None) => (Op::Above, &right[1..]),
        };
        match subject(left).and_then(|subject| Gate::new(subject, op, right, text)) {
            Ok(gate) => Ok(gate),
            Err(what) => fail(what),
        }
    }

    /// Reads a condition as AIPerf writes it: `metric:stat:op:threshold`, with the ops `lt`, `le`,
    /// `gt`, `ge`. Errors as of [`Gate::parse`].
    ///
    /// ```
    /// let gate = tokenring::stats::Gate::of_sla("time_to_first_token:p95:lt:90").unwrap();
    /// assert_eq!(gate.to_string(), "p95(time_to_first_token) < 90 ms");
    /// ```
    pub fn of_sla(text: &str) -> Result<Gate, String> {
        let text = text.trim();
        let fail = |what: &str| {
            let example = "write it as `time_to_first_token:p95:lt:90`";
            Err(format!("{what}; {example}"))
        };
        if text.len() > TEXT_BYTES_MAX {
            return fail(&format!("a condition has at most {TEXT_BYTES_MAX} bytes"));
        }
        let parts: Vec<&str> = text.split(':').map(str::trim).collect();
        let [name, stat, op, threshold] = parts[..] else {
            return fail(&format!("`{text}` is not metric:stat:op:threshold"));
        };
        let Some(op) = Op::of_word(op) else {
            return fail(&format!("`{op}` is none of lt, le, gt, ge"));
        };
        match found(name, stat).and_then(|subject| Gate::new(subject, op, threshold, text)) {
            Ok(gate) => Ok(gate),
            Err(what) => fail(&what),
        }
    }

    fn new(
        (metric, stat): (Named, &'static str),
        op: Op,
        threshold: &str,
        text: &str,
    ) -> Result<Gate, String> {
        Ok(Gate {
            tag: metric.tag,
            stat,
            op,
            limit: limit(threshold, unit(metric.unit, stat))?,
            text: text.to_string(),
        })
    }

    /// The statistic in these figures; `None` when the run does not have it.
    ///
    /// A run in which nothing failed has no errors to count: 0. Its error-adjusted figures are the
    /// plain ones.
    pub fn value(&self, figures: &Figures) -> Option<f64> {
        let value = figures.get(self.tag, self.stat);
        if value.is_some() || figures.metric(self.tag).is_some() {
            return value;
        }
        if self.tag == "error_request_count" {
            return figures.metric("request_count").map(|_| 0.0);
        }
        let adjusted = |m: &&super::Metric| m.adjusted.is_some_and(|(tag, _)| tag == self.tag);
        figures.get(METRICS.iter().find(adjusted)?.tag, self.stat)
    }

    /// How the statistic changed from `base` to `other`: 0.05 for 5 % more. `None` when one of them
    /// lacks it, or `base` has 0 of it.
    pub fn change(&self, base: &Figures, other: &Figures) -> Option<f64> {
        let base = self.value(base).filter(|base| *base != 0.0)?;
        Some((self.value(other)? - base) / base.abs())
    }

    /// Does a value meet the condition? A relative limit takes a [`Gate::change`]. What is not
    /// finite does not.
    pub fn holds(&self, value: f64) -> bool {
        let limit = self.threshold();
        value.is_finite()
            && match self.op {
                Op::Below => value < limit,
                Op::AtMost => value <= limit,
                Op::Above => value > limit,
                Op::AtLeast => value >= limit,
            }
    }

    /// The condition on a run's figures; one that the run does not have does not hold.
    pub fn judge(&self, figures: &Figures) -> Assertion {
        let value = self.value(figures);
        Assertion {
            text: self.text.clone(),
            value,
            holds: value.is_some_and(|value| self.holds(value)),
        }
    }

    /// How far a value is beyond the limit, in its unit: 0 or less is on the right side of it.
    pub fn margin(&self, value: f64) -> f64 {
        match self.op.is_from_above() {
            true => value - self.threshold(),
            false => self.threshold() - value,
        }
    }

    /// The limit's number: display units, or a ratio.
    pub fn threshold(&self) -> f64 {
        match self.limit {
            Limit::Absolute(number) | Limit::Relative(number) => number,
        }
    }

    /// Display unit of the statistic; empty for a count.
    pub fn unit(&self) -> &'static str {
        catalogue::find(self.tag).map_or("", |metric| unit(metric.unit, self.stat))
    }

    /// `p99(time_to_first_token)`; a number for the run has its tag alone.
    pub fn subject(&self) -> String {
        let is_number = catalogue::find(self.tag).is_some_and(|m| m.form == Form::Number);
        match is_number {
            true => self.tag.into(),
            false => format!("{}({})", self.stat, self.tag),
        }
    }

    /// `< 500 ms`.
    pub fn bound(&self) -> String {
        let sign = self.op.sign();
        match self.limit {
            Limit::Absolute(number) => format!("{sign} {}", with_unit(number, self.unit())),
            Limit::Relative(ratio) => {
                let plus = if ratio.is_sign_negative() { "" } else { "+" };
                format!("{sign} {plus}{} %", plain(percent(ratio)))
            }
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject(), self.bound())
    }
}

/// A number with its unit, as it is read again: a count and a ratio have none.
pub fn with_unit(number: f64, unit: &str) -> String {
    match unit {
        "" | "ratio" | "count" => plain(number),
        unit => format!("{} {unit}", plain(number)),
    }
}

/// All digits that a number has, without rows of zeros.
fn plain(number: f64) -> String {
    match number == 0.0 || (1e-6..1e15).contains(&number.abs()) {
        true => number.to_string(),
        false => format!("{number:e}"),
    }
}

/// The metric and the statistic of `p99(ttft)`; `ttft` alone means its `avg`.
///
/// Errors: what is wrong, and the nearest names.
pub fn subject(text: &str) -> Result<(Named, &'static str), String> {
    let text = text.trim();
    match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((stat, name)) => found(name, stat),
        None => found(text, "avg"),
    }
}

/// A metric and its statistic, by name.
fn found(name: &str, stat: &str) -> Result<(Named, &'static str), String> {
    let name = name.trim();
    if name.is_empty() {
        return Err("no metric is named".into());
    }
    let Some(metric) = catalogue::find(name) else {
        let near = catalogue::nearest(name).join(", ");
        return Err(format!("`{name}` is no metric; the nearest are {near}"));
    };
    let known = known_stat(stat.trim()).ok_or_else(|| {
        let all = PERCENTILE_KEYS.iter().chain(&STATS).copied();
        let all: Vec<&str> = all.collect();
        format!("`{}` is no statistic; these are: {}", stat, all.join(", "))
    })?;
    if metric.form.has(known) {
        return Ok((metric, known));
    }
    Err(match metric.form {
        Form::Number => format!("{} is one number for the run: no {known}", metric.tag),
        _ => format!("{} has no {known}", metric.tag),
    })
}

/// `p99.9`, `median` and `mean` have other keys in the figures.
fn known_stat(stat: &str) -> Option<&'static str> {
    let plain = stat.to_ascii_lowercase().replace('.', "_");
    let key = match plain.as_str() {
        "median" => "p50",
        "mean" => "avg",
        other => other,
    };
    let mut all = PERCENTILE_KEYS.into_iter().chain(STATS);
    all.find(|known| *known == key)
}

fn unit(unit: &'static str, stat: &str) -> &'static str {
    if stat == "count" { "" } else { unit }
}

/// A number with its unit, in the unit `to`.
fn limit(text: &str, to: &str) -> Result<Limit, String> {
    let text = text.trim();
    let is_numeric = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let end = text.find(|c| !is_numeric(c)).unwrap_or(text.len());
    // `5e` may be a number with a unit that begins with e.
    let parsed = (1..=end).rev().find_map(|end| {
        let number: f64 = text.get(..end)?.parse().ok()?;
        Some((number, text[end..].trim()))
    });
    let Some((number, from)) = parsed else {
        return Err(match text.is_empty() {
            true => "no number to compare with".into(),
            false => format!("`{text}` is no number"),
        });
    };
    let is_signed = text.starts_with(['+', '-']);
    let limit = match from {
        "" => Limit::Absolute(number),
        "%" if is_signed => Limit::Relative(number / 100.0),
        from => Limit::Absolute(converted(number, from, to).ok_or_else(|| wrong_unit(from, to))?),
    };
    match limit {
        Limit::Absolute(n) | Limit::Relative(n) if n.is_finite() => Ok(limit),
        _ => Err(format!("`{text}` is too large")),
    }
}

fn wrong_unit(from: &str, to: &str) -> String {
    let is_in = match to {
        "" | "ratio" | "count" => "has no unit",
        to => &format!("is in {to}"),
    };
    match from {
        "%" => format!(
            "`%` does not fit: the metric {is_in}; a change against another run has a sign, as +5%"
        ),
        from => format!("`{from}` does not fit: the metric {is_in}"),
    }
}

/// Units of one kind: names and how many of the smallest each is. Others, such as `J*s`, stand
/// alone.
const KINDS: &[&[(&str, f64)]] = &[
    &[
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("sec", 1e9),
        ("min", 60e9),
        ("h", 3600e9),
    ],
    &[
        ("requests/sec", 1.0),
        ("requests/s", 1.0),
        ("req/sec", 1.0),
        ("req/s", 1.0),
        ("/s", 1.0),
    ],
    &[("tokens/sec", 1.0), ("tokens/s", 1.0), ("tok/s", 1.0)],
    // A user's tokens are said without the user.
    &[
        ("tokens/sec/user", 1.0),
        ("tokens/s/user", 1.0),
        ("tok/s/user", 1.0),
        ("tokens/sec", 1.0),
        ("tokens/s", 1.0),
        ("tok/s", 1.0),
    ],
    &[("tokens", 1.0), ("token", 1.0), ("tok", 1.0)],
    &[("requests", 1.0), ("request", 1.0), ("req", 1.0)],
    // As a share of one: in hundredths.
    &[("%", 1.0), ("ratio", 100.0)],
    &[
        ("B", 1.0),
        ("KB", 1024.0),
        ("MB", 1_048_576.0),
        ("GB", 1_073_741_824.0),
    ],
    &[("W", 1.0), ("kW", 1e3)],
    &[("J", 1.0), ("kJ", 1e3)],
];

/// A number in `from`, in `to`; `None` for units of two kinds.
fn converted(number: f64, from: &str, to: &str) -> Option<f64> {
    if from.eq_ignore_ascii_case(to) {
        return Some(number);
    }
    KINDS.iter().find_map(|kind| {
        let of = |name: &str| {
            let found = kind
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|(_, size)| *size)
        };
        // Multiplied first: 95 % are 0.95 to the digit.
        Some(number * of(from)? / of(to)?)
    })
}

/// The shortest percentage that is read as this ratio.
fn percent(ratio: f64) -> f64 {
    let near = ratio * 100.0;
    let candidates = [near, near.next_up(), near.next_down()];
    let reads = |percent: &f64| *percent / 100.0 == ratio;
    let found = candidates.into_iter().find(reads);
    found.unwrap_or(near)
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
