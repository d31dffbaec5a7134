//! A server's capacity on screen and as a JSON block.

use crate::stats::plateau::{Plateau, Rung};
use serde_json::{Value, json};
use std::fmt::Write;

/// The block: the estimate, its error, the knee, and every rung.
pub fn json(found: &Plateau) -> Value {
    json!({
        "estimated_capacity": found.estimated_capacity,
        "unit": "requests/sec",
        "std_error": found.std_error_per_s,
        "is_saturated": found.is_saturated,
        "knee_concurrency": found.knee,
        "rungs": found.rungs.iter().map(rung).collect::<Vec<_>>(),
    })
}

fn rung(rung: &Rung) -> Value {
    json!({
        "concurrency": rung.concurrency,
        "requests": rung.requests,
        "throughput_per_s": rung.throughput_per_s(),
        "std_error_per_s": rung.std_error_per_s(),
        "latency_s": rung.latency_s,
        "little_ratio": rung.little_ratio(),
        "is_consistent": rung.is_consistent(),
    })
}

/// A line for each rung, and the estimate in a sentence; without colour.
pub fn text(found: &Plateau) -> String {
    let mut out = format!(
        "{:>10} {:>14} {:>10} {:>12} {:>8}\n",
        "in flight", "requests/s", "+-", "latency ms", "N=X*R"
    );
    let shown = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    for rung in &found.rungs {
        let _ = writeln!(
            out,
            "{:>10} {:>14} {:>10} {:>12.2} {:>8}{}",
            rung.concurrency,
            shown(rung.throughput_per_s()),
            shown(rung.std_error_per_s()),
            1e3 * rung.latency_s,
            shown(rung.little_ratio()),
            if rung.is_consistent() {
                ""
            } else {
                "  not used: Little's law does not hold"
            },
        );
    }
    let error = found
        .std_error_per_s
        .map_or(String::new(), |error| format!(" +- {error:.2}"));
    let _ = match (found.estimated_capacity, found.knee) {
        (Some(most), Some(knee)) => writeln!(
            out,
            "The server does {most:.2}{error} requests/s; {knee} in flight reach 95 % of it"
        ),
        (Some(most), None) => writeln!(
            out,
            "The server does at least {most:.2}{error} requests/s: it still gained with the last rung"
        ),
        (None, _) => writeln!(out, "No rung tells what the server can do"),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(throughputs: &[f64]) -> Plateau {
        let rung = |(step, throughput): (u32, &f64)| Rung {
            concurrency: 1 << step,
            batches: vec![throughput * 0.999, *throughput, throughput * 1.001],
            latency_s: f64::from(1u32 << step) / throughput,
            requests: 100,
        };
        Plateau::of((0..).zip(throughputs).map(rung).collect())
    }

    #[test]
    fn a_ladder_is_told_with_its_law_and_its_end() {
        let mut found = ladder(&[10.0, 20.0, 39.0, 50.0, 50.4]);
        insta::assert_snapshot!("plateau", text(&found));
        let block = json(&found);
        assert_eq!(block["knee_concurrency"], 8);
        assert_eq!(block["rungs"][4]["is_consistent"], true);
        found.rungs[0].latency_s *= 2.0;
        assert!(text(&found).contains("Little's law"));
        assert!(text(&ladder(&[10.0, 20.0])).contains("at least 20.00"));
        assert!(text(&ladder(&[])).contains("No rung"));
    }
}
