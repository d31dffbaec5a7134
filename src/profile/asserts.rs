//! What must hold of a run's figures: `--assert`, read before anything is sent, judged at the end.

use crate::config::Config;
use crate::stats::gate::{Assertion, Gate, Limit, with_unit};
use crate::stats::{Figures, Summary};

/// Conditions of a run: more are a mistake.
const ASSERTS_MAX: usize = 100;

/// Can all conditions be read and judged? Errors name the flag and what is wrong.
pub fn check(config: &Config) -> Result<(), String> {
    let fail = |what: String| Err(format!("--assert: {what}"));
    if config.asserts.len() > ASSERTS_MAX {
        return fail(format!("at most {ASSERTS_MAX} conditions"));
    }
    for text in &config.asserts {
        match Gate::parse(text) {
            Err(what) => return fail(what),
            Ok(gate) if matches!(gate.limit, Limit::Relative(_)) => {
                return fail(format!(
                    "`{text}` compares with another run; a run alone takes a limit in {}",
                    match gate.unit() {
                        "" => "numbers",
                        unit => unit,
                    }
                ));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// Whether each condition holds; what the run lacks does not.
pub fn judge(config: &Config, figures: &Figures) -> Vec<Assertion> {
    let gates = config.asserts.iter().flat_map(|text| Gate::parse(text));
    gates.map(|gate| gate.judge(figures)).collect()
}

/// A line for each that does not hold.
pub(super) fn failures(summary: &Summary) -> impl Iterator<Item = String> {
    let failed = summary.client.assertions.iter().filter(|a| !a.holds);
    failed.filter_map(|assertion| {
        let gate = Gate::parse(&assertion.text).ok()?;
        let (subject, bound) = (gate.subject(), gate.bound());
        Some(match assertion.value {
            Some(value) => {
                let value = with_unit(rounded(value), gate.unit());
                format!("assertion failed: {subject} is {value}, not {bound}")
            }
            None => format!("assertion failed: the run has no {subject}; it is not {bound}"),
        })
    })
}

/// To four digits: all of them stand in the files.
fn rounded(value: f64) -> f64 {
    let text = format!("{value:.3e}");
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::summary::{Figure, MetricResult};

    fn config(asserts: &[&str]) -> Config {
        Config {
            asserts: asserts.iter().map(|text| (*text).into()).collect(),
            ..Config::default()
        }
    }

    #[test]
    fn what_cannot_be_judged_is_refused_by_the_flag_s_name() {
        assert_eq!(check(&config(&["rps>1", "p99(ttft)<5ms"])), Ok(()));
        for (text, part) in [
            ("p99(ttfx)<5", "`ttfx` is no metric"),
            ("p99(ttft)>+5%", "compares with another run"),
        ] {
            let error = check(&config(&["rps>1", text])).unwrap_err();
            assert!(
                error.starts_with("--assert: ") && error.contains(part),
                "{error}"
            );
        }
        let many = vec!["rps>1"; ASSERTS_MAX + 1];
        assert!(check(&config(&many)).is_err());
    }

    #[test]
    fn a_failed_or_missing_one_is_a_line() {
        let scalar = |tag, unit, value| MetricResult {
            tag,
            header: "",
            unit,
            figure: Figure::Scalar(value),
        };
        let run = [scalar("request_throughput", "requests/sec", 6.123_456)];
        let config = config(&["rps>=10", "rps<10", "p99(ttft)<5ms"]);
        let mut summary = Summary::default();
        summary.client.assertions = judge(&config, &Figures::of(&run));
        let holds: Vec<bool> = summary.client.assertions.iter().map(|a| a.holds).collect();
        assert_eq!(holds, [false, true, false]);
        let lines: Vec<String> = failures(&summary).collect();
        assert_eq!(
            lines,
            [
                "assertion failed: request_throughput is 6.123 requests/sec, \
                 not >= 10 requests/sec",
                "assertion failed: the run has no p99(time_to_first_token); it is not < 5 ms",
            ]
        );
    }
}
