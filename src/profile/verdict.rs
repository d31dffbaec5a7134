//! Can the numbers be believed? The limits of docs/verdict.md, in one table.

use crate::config::Config;
use crate::stats::summary::{ClientReport, CoreReport, Reason, Verdict};

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

/// A run counts as stamped by the kernel when more of its reads than this are.
const STAMPED_RATIO_MIN: f64 = 0.99;

/// A core that is busier than this in some second may be too loaded.
const IDLE_RATIO_MAX: f64 = 0.5;

/// A worker that waits for its CPU longer than this, of the run, shares it with another thread.
const RUN_QUEUE_WAIT_RATIO_MAX: f64 = 0.05;

/// Judges a run; reasons come worst first.
pub fn judge(config: &Config, client: &ClientReport, scale: Scale) -> (Verdict, Vec<Reason>) {
    let mut checks = Vec::new();
    timing_checks(config, client, scale, &mut checks);
    load_checks(config, client, &mut checks);
    machine_checks(client, &mut checks);
    let all_else_holds = checks.iter().all(|check| check.reason().is_none());
    checks.push(core_check(client, all_else_holds));
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
        unless_shared(client, "fewer streams per core, or more cores (--cores)"),
    );
    if config.load().is_closed() {
        relative(
            "receive_lag",
            client.receive_lag.p99,
            scale.latency_ns,
            (0.01, 0.02),
            (500e3, 1e6),
            unless_shared(client, "more cores (--cores), or keep other work off them"),
        );
    } else {
        relative(
            "send_lag",
            client.send_lag.p99,
            scale.arrival_gap_ns,
            (0.25, 1.0),
            (1e6, 5e6),
            unless_shared(client, "a lower --request-rate, or more cores (--cores)"),
        );
    }
}

/// Advice against a load that is too high, unless a core waited for another thread, or no core was
/// half busy in any second: then the time went to something else on the same CPU, and less load
/// would not help.
fn unless_shared(client: &ClientReport, advice: &'static str) -> &'static str {
    let waits = |core: &CoreReport| core.run_queue_wait_ratio > Some(RUN_QUEUE_WAIT_RATIO_MAX);
    let is_idle = |core: &CoreReport| core.busy_ratio_1s_max < IDLE_RATIO_MAX;
    match client.cores.iter().any(waits) || client.cores.iter().all(is_idle) {
        true => "something else uses this CPU: keep other work off it, or choose others (--cores)",
        false => advice,
    }
}

/// What is to be done about a rate that was not delivered.
fn delivery_advice(config: &Config, client: &ClientReport) -> &'static str {
    // Which made the requests late: the server, which frees no slot, or the client?
    match config.load().is_capped() && client.slot_wait.p99 > client.send_lag.p99 {
        true => {
            "a cap held them back: a higher --concurrency (or --prefill-concurrency, \
                 --concurrency-per-url), or none"
        }
        false => unless_shared(client, "a lower --request-rate, or more cores (--cores)"),
    }
}

fn load_checks(config: &Config, client: &ClientReport, out: &mut Vec<Check>) {
    if let (Some(delivered), Some(asked)) = (client.delivered_rate, client.scheduled_rate)
        && asked > 0.0
    {
        out.push(Check {
            code: "delivered_rate",
            // Multiplied first, so that a whole percent is one: 1 - 0.99 is more than 0.01.
            value: (delivered - asked).abs() * 100.0 / asked,
            degraded: 1.0,
            invalid: 2.0,
            unit: "% off the schedule",
            advice: delivery_advice(config, client),
        });
    }
    // A slot that rests, since its server is gone, is not the client's to hold.
    let held = client
        .concurrency_held
        .filter(|_| client.rests_count() == 0);
    if let (Some(held), Some(asked)) = (held, client.concurrency_asked) {
        let asked = f64::from(asked);
        out.push(Check {
            code: "concurrency_held",
            value: (asked - held) * 100.0 / asked,
            degraded: 1.0,
            invalid: 2.0,
            unit: "% below what was asked",
            advice: unless_shared(client, "more cores (--cores), or longer answers"),
        });
    }
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let mut none_may = |code, count: u64, unit, advice| {
        out.push(Check {
            code,
            value: count as f64,
            degraded: 0.0,
            invalid: 0.0,
            unit,
            advice,
        });
    };
    none_may(
        "records_lost",
        client.records_lost,
        "records",
        "a lower load, or --export-level summary",
    );
    none_may(
        "resources_short",
        client.resources_short,
        "requests without a descriptor or port",
        "more open files (ulimit -n), more --source-ip, or a cap on requests in flight \
         (--concurrency)",
    );
}

/// What the machine did to the client, whatever the load.
fn machine_checks(client: &ClientReport, out: &mut Vec<Check>) {
    let steals = client.cores.iter().filter_map(|core| core.steal_ratio);
    let found = &client.environment;
    out.push(Check {
        code: "steal",
        value: steals.fold(0.0, f64::max) * 100.0,
        degraded: 2.0,
        invalid: 10.0,
        unit: "% of a worker's CPU",
        advice: "the host gave this CPU to other machines: a dedicated one, or a quieter hour",
    });
    out.push(Check {
        code: "cgroup_throttled",
        value: found.throttled_ratio * 100.0,
        degraded: 0.0,
        invalid: 5.0,
        unit: "% of the run",
        advice: "a higher CPU limit of this container or service, or fewer cores (--cores)",
    });
    out.push(Check {
        code: "clock_step",
        value: f64::from(found.clock_steps_count),
        degraded: 0.0,
        invalid: 0.0,
        unit: "steps",
        advice: "the realtime clock was set: let no time service step it during a run",
    });
}

/// With the kernel's times a busy core harms nothing by itself: it is invalid only when something
/// else is wrong too.
fn core_check(client: &ClientReport, all_else_holds: bool) -> Check {
    let busy = client.cores.iter().map(|core| core.busy_ratio_1s_max);
    let is_stamped = client.kernel_stamped_ratio.unwrap_or(0.0) > STAMPED_RATIO_MIN;
    Check {
        code: "core_busy",
        value: busy.fold(0.0, f64::max) * 100.0,
        degraded: if is_stamped { 95.0 } else { 90.0 },
        invalid: if is_stamped && all_else_holds {
            f64::INFINITY
        } else {
            95.0
        },
        unit: "% of a core",
        advice: "more cores (--cores)",
    }
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
            measured: self.value,
            limit,
            unit: self.unit,
            advice: self.advice,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Draft;
    use crate::stats::summary::Spread;
    use Verdict::{Degraded, Invalid, Valid};

    fn config(is_open: bool) -> Config {
        let draft = Draft {
            model: Some("m".into()),
            concurrency: (!is_open).then_some(8),
            request_rate: is_open.then_some(10.0),
            ..Draft::default()
        };
        draft.check("tokenring profile").unwrap().config
    }

    fn p99(ns: u64) -> Spread {
        Spread {
            p99: ns,
            ..Spread::default()
        }
    }

    /// The verdict, and the code and level of its only reason.
    fn verdict(is_open: bool, scale: Scale, client: &ClientReport) -> Verdict {
        let (verdict, reasons) = judge(&config(is_open), client, scale);
        assert!(reasons.len() <= 1, "{reasons:?}");
        assert_eq!(reasons.first().map_or(Valid, |r| r.level), verdict);
        verdict
    }

    #[test]
    fn lags_are_judged_by_the_table_on_both_sides_of_each_limit() {
        // Base in ns and the two limits in us: where the share is the higher, then where the floor.
        for (code, is_open, base, degraded, invalid) in [
            ("event_time_error", false, 10e6, 500, 1_000),
            ("event_time_error", true, 1e6, 100, 200),
            ("send_lag", true, 20e6, 5_000, 20_000),
            ("send_lag", true, 1e6, 1_000, 5_000),
            ("receive_lag", false, 100e6, 1_000, 2_000),
            ("receive_lag", false, 10e6, 500, 1_000),
        ] {
            for (us, want) in [
                (degraded, Valid),
                (degraded + 1, Degraded),
                (invalid, Degraded),
                (invalid + 1, Invalid),
            ] {
                let mut client = ClientReport::default();
                let mut scale = Scale::default();
                let (figure, of) = match code {
                    "event_time_error" => (&mut client.event_time_error, &mut scale.gap_ns),
                    "send_lag" => (&mut client.send_lag, &mut scale.arrival_gap_ns),
                    _ => (&mut client.receive_lag, &mut scale.latency_ns),
                };
                (*figure, *of) = (p99(us * 1_000), Some(base));
                let found = verdict(is_open, scale, &client);
                assert_eq!(found, want, "{code}: {us} us of {base} ns");
            }
        }
    }

    #[test]
    fn lags_of_the_other_loop_do_not_count() {
        let scale = Scale {
            gap_ns: Some(1e6),
            latency_ns: Some(1e6),
            arrival_gap_ns: Some(1e6),
        };
        let client = ClientReport {
            receive_lag: p99(1_000_000_000),
            ..ClientReport::default()
        };
        assert_eq!(verdict(true, scale, &client), Valid);
        let client = ClientReport {
            send_lag: p99(1_000_000_000),
            ..ClientReport::default()
        };
        assert_eq!(verdict(false, scale, &client), Valid);
    }

    #[test]
    fn the_load_is_judged_by_the_table_on_both_sides_of_each_limit() {
        for (delivered, want) in [
            (100.0, Valid),
            (99.0, Valid),
            (98.9, Degraded),
            (98.0, Degraded),
            (97.9, Invalid),
            (101.0, Valid),
            (101.1, Degraded),
            (102.0, Degraded),
            (102.1, Invalid),
        ] {
            let client = ClientReport {
                delivered_rate: Some(delivered),
                scheduled_rate: Some(100.0),
                ..ClientReport::default()
            };
            assert_eq!(
                verdict(true, Scale::default(), &client),
                want,
                "{delivered}"
            );
        }
        for (held, want) in [
            (200.0, Valid),
            (198.0, Valid),
            (197.9, Degraded),
            (196.0, Degraded),
            (195.9, Invalid),
        ] {
            let client = ClientReport {
                concurrency_held: Some(held),
                concurrency_asked: Some(200),
                ..ClientReport::default()
            };
            assert_eq!(verdict(false, Scale::default(), &client), want, "{held}");
        }
        for (lost, short, want) in [(0, 0, Valid), (1, 0, Invalid), (0, 1, Invalid)] {
            let client = ClientReport {
                records_lost: lost,
                resources_short: short,
                ..ClientReport::default()
            };
            assert_eq!(verdict(false, Scale::default(), &client), want);
        }
    }

    fn busy(ratio: f64, stamped_ratio: Option<f64>) -> ClientReport {
        let core = |busy_ratio_1s_max| CoreReport {
            busy_ratio_1s_max,
            ..CoreReport::default()
        };
        ClientReport {
            cores: vec![core(0.1), core(ratio)],
            kernel_stamped_ratio: stamped_ratio,
            ..ClientReport::default()
        }
    }

    #[test]
    fn a_busy_core_is_judged_by_who_stamps_the_reads() {
        let user = [
            (0.9, Valid),
            (0.901, Degraded),
            (0.95, Degraded),
            (0.951, Invalid),
        ];
        let kernel = [
            (0.901, Valid),
            (0.95, Valid),
            (0.951, Degraded),
            (1.0, Degraded),
        ];
        for (steps, stamped) in [(user, None), (user, Some(0.99)), (kernel, Some(0.991))] {
            for (ratio, want) in steps {
                let client = busy(ratio, stamped);
                assert_eq!(
                    verdict(false, Scale::default(), &client),
                    want,
                    "{ratio} {stamped:?}"
                );
            }
        }
        // With the kernel's times it is invalid when something else does not hold.
        let mut client = busy(0.96, Some(1.0));
        client.concurrency_held = Some(98.5);
        client.concurrency_asked = Some(100);
        let (verdict, reasons) = judge(&config(false), &client, Scale::default());
        assert_eq!((verdict, reasons.len()), (Invalid, 2));
        assert_eq!(
            (reasons[0].code, reasons[1].code),
            ("core_busy", "concurrency_held")
        );
    }

    #[test]
    fn reasons_come_worst_first_with_what_was_measured() {
        let mut client = busy(0.92, None);
        client.records_lost = 3;
        let (verdict, reasons) = judge(&config(false), &client, Scale::default());
        assert_eq!(verdict, Invalid);
        assert_eq!(
            (reasons[0].code, reasons[1].code),
            ("records_lost", "core_busy")
        );
        assert_eq!((reasons[0].measured, reasons[0].unit), (3.0, "records"));
        assert_eq!((reasons[1].measured, reasons[1].limit), (92.0, 90.0));
    }

    #[test]
    fn the_machine_is_judged_by_the_table_on_both_sides_of_each_limit() {
        for (steal, want) in [
            (0.02, Valid),
            (0.021, Degraded),
            (0.1, Degraded),
            (0.101, Invalid),
        ] {
            let core = CoreReport {
                steal_ratio: Some(steal),
                ..CoreReport::default()
            };
            let client = ClientReport {
                cores: vec![CoreReport::default(), core],
                ..ClientReport::default()
            };
            assert_eq!(verdict(false, Scale::default(), &client), want, "{steal}");
        }
        for (ratio, steps, want) in [
            (0.0, 0, Valid),
            (0.001, 0, Degraded),
            (0.05, 0, Degraded),
            (0.051, 0, Invalid),
            (0.0, 1, Invalid),
        ] {
            let mut client = ClientReport::default();
            client.environment.throttled_ratio = ratio;
            client.environment.clock_steps_count = steps;
            assert_eq!(
                verdict(true, Scale::default(), &client),
                want,
                "{ratio} {steps}"
            );
        }
    }

    #[test]
    fn a_rate_that_a_cap_holds_back_is_told_apart_from_a_slow_client() {
        let advice = |cap, slot_wait| {
            let draft = Draft {
                model: Some("m".into()),
                request_rate: Some(10.0),
                concurrency: cap,
                ..Draft::default()
            };
            let config = draft.check("tokenring profile").unwrap().config;
            let client = ClientReport {
                delivered_rate: Some(50.0),
                scheduled_rate: Some(100.0),
                slot_wait: p99(slot_wait),
                send_lag: p99(1_000_000),
                cores: vec![CoreReport {
                    busy_ratio_1s_max: 0.9,
                    ..CoreReport::default()
                }],
                ..ClientReport::default()
            };
            judge(&config, &client, Scale::default()).1[0].advice
        };
        assert!(advice(Some(2), 5_000_000).contains("--concurrency"));
        assert!(advice(Some(2), 0).contains("--request-rate"));
        assert!(advice(None, 0).contains("--request-rate"));
    }

    #[test]
    fn an_idle_core_s_late_events_are_something_else_s_doing() {
        let advice = |busy_ratio_1s_max, waits| {
            let client = ClientReport {
                event_time_error: p99(5_000_000),
                cores: vec![CoreReport {
                    busy_ratio_1s_max,
                    run_queue_wait_ratio: waits,
                    ..CoreReport::default()
                }],
                ..ClientReport::default()
            };
            let scale = Scale {
                gap_ns: Some(5e6),
                ..Scale::default()
            };
            judge(&config(false), &client, scale).1[0].advice
        };
        assert!(advice(0.04, None).contains("something else uses this CPU"));
        assert!(advice(0.80, Some(0.06)).contains("something else uses this CPU"));
        assert!(advice(0.80, Some(0.04)).contains("fewer streams per core"));
    }
}
