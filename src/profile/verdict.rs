//! Can the numbers be believed? The limits of docs/verdict.md, in one table.

use crate::config::{Config, Load};
use crate::stats::summary::{ClientReport, Reason, Verdict};

/// What a check looks at, beside its figure.
struct Check {
    code: &'static str,
    /// The figure, in the unit of the limits.
    value: f64,
    degraded: f64,
    invalid: f64,
    unit: &'static str,
    advice: &'static str,
}

/// Figures that the limits are relative to; absent where a run has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scale {
    /// Median gap between events of a stream, ns.
    pub gap_ns: Option<f64>,
    /// Median request latency, ns.
    pub latency_ns: Option<f64>,
    /// Mean gap between due times, ns.
    pub arrival_gap_ns: Option<f64>,
}

/// Judges a run; reasons come worst first.
pub fn judge(config: &Config, client: &ClientReport, scale: Scale) -> (Verdict, Vec<Reason>) {
    let mut checks = Vec::new();
    timing_checks(config, client, scale, &mut checks);
    load_checks(client, &mut checks);
    core_checks(client, &mut checks);
    let mut reasons: Vec<Reason> = checks.iter().filter_map(Check::reason).collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.level));
    let verdict = reasons
        .first()
        .map_or(Verdict::Valid, |reason| reason.level);
    (verdict, reasons)
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn timing_checks(config: &Config, client: &ClientReport, scale: Scale, out: &mut Vec<Check>) {
    // Both limits must be crossed: the relative one and the absolute one.
    let mut relative =
        |code, p99: u64, base: Option<f64>, shares: (f64, f64), floors: (f64, f64), advice| {
            let Some(base) = base else { return };
            out.push(Check {
                code,
                value: p99 as f64 / 1e3,
                degraded: (base * shares.0).max(floors.0) / 1e3,
                invalid: (base * shares.1).max(floors.1) / 1e3,
                unit: "us (p99)",
                advice,
            });
        };
    relative(
        "event_time_error",
        client.event_time_error.p99,
        scale.gap_ns,
        (0.05, 0.10),
        (100e3, 200e3),
        "fewer streams per core, or more cores (--cores)",
    );
    if matches!(config.load, Load::Concurrency(_)) {
        relative(
            "receive_lag",
            client.receive_lag.p99,
            scale.latency_ns,
            (0.01, 0.02),
            (500e3, 1e6),
            "more cores (--cores), or keep other work off them",
        );
    } else {
        relative(
            "send_lag",
            client.send_lag.p99,
            scale.arrival_gap_ns,
            (0.25, 1.0),
            (1e6, 5e6),
            "a lower --request-rate, or more cores (--cores)",
        );
    }
}

fn load_checks(client: &ClientReport, out: &mut Vec<Check>) {
    if let (Some(delivered), Some(asked)) = (client.delivered_rate, client.scheduled_rate)
        && asked > 0.0
    {
        out.push(Check {
            code: "delivered_rate",
            value: (delivered / asked - 1.0).abs() * 100.0,
            degraded: 1.0,
            invalid: 2.0,
            unit: "% off the schedule",
            advice: "a lower --request-rate, or a higher --concurrency cap",
        });
    }
    if let (Some(held), Some(asked)) = (client.concurrency_held, client.concurrency_asked) {
        out.push(Check {
            code: "concurrency_held",
            value: (1.0 - held / f64::from(asked)) * 100.0,
            degraded: 1.0,
            invalid: 2.0,
            unit: "% below what was asked",
            advice: "more cores (--cores), or longer answers",
        });
    }
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    out.push(Check {
        code: "records_lost",
        value: client.records_lost as f64,
        degraded: 0.0,
        invalid: 0.0,
        unit: "records",
        advice: "a lower load, or --export-level summary",
    });
}

fn core_checks(client: &ClientReport, out: &mut Vec<Check>) {
    let busiest = client
        .cores
        .iter()
        .map(|core| core.busy_ratio)
        .fold(0.0, f64::max)
        * 100.0;
    let stamped = client.kernel_stamped_ratio.unwrap_or(0.0) > 0.99;
    out.push(Check {
        code: "core_busy",
        value: busiest,
        degraded: if stamped { 95.0 } else { 90.0 },
        // With the kernel's times a busy core harms nothing by itself.
        invalid: if stamped { f64::INFINITY } else { 95.0 },
        unit: "% of a core",
        advice: "more cores (--cores)",
    });
}

impl Check {
    fn reason(&self) -> Option<Reason> {
        let (level, limit) = if self.value > self.invalid {
            (Verdict::Invalid, self.invalid)
        } else if self.value > self.degraded {
            (Verdict::Degraded, self.degraded)
        } else {
            return None;
        };
        Some(Reason {
            code: self.code,
            level,
            measured: format!("{:.1} {}", self.value, self.unit),
            limit: format!("{limit:.1}"),
            advice: self.advice,
        })
    }
}
