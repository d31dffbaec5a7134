//! How a run went: what an open loop did with requests that could not go at their time, the
//! windows, the slowest requests; for the screen and under `client` in the JSON.

use super::jsonl;
use super::text::span;
use crate::base::Ns;
use crate::stats::course::{Course, Slow, Window};
use crate::stats::saturation::Saturation;
use crate::stats::stability::Stability;
use crate::stats::stages::Part;
use crate::stats::summary::{ClientReport, OpenLoop};
use serde_json::{Map, Value, json};

/// A replay whose requests are later than this (p99) is not the trace's any more: AIPerf's limit.
const REPLAY_LAG_MAX: Ns = Ns::from_ms(500);
/// A stage shorter than this is not on the screen, in ms.
const SHOWN_MS_MIN: f64 = 0.1;

/// What stands below the verdict of an open loop: its cap, what waited, what was skipped, how far
/// the client fell behind. Empty for a closed loop.
pub fn open_loop_lines(client: &ClientReport) -> Vec<String> {
    let waits = &client.course.slot_waits;
    let is_capped = client.open_loop.is_some_and(|open| open.cap.is_some());
    let mut lines = Vec::new();
    if !is_capped && waits.waited > 0 {
        lines.push(format!(
            "capped: {} of {} requests waited for a place (--prefill-concurrency or \
             --concurrency-per-url), {} on average, {} at the most",
            waits.waited,
            waits.requests,
            span(waits.mean().0),
            span(waits.max.0)
        ));
    }
    let Some(open) = &client.open_loop else {
        return lines;
    };
    if let (Some(sent), Some(due)) = (client.delivered_rate, client.scheduled_rate) {
        lines.push(format!(
            "open loop: {sent:.2} requests/s were sent, {due:.2} were due"
        ));
    }
    if let Some(cap) = open.cap {
        lines.push(capped(cap, open, &client.course));
    }
    if open.unsent > 0 {
        lines.push(format!(
            "{} requests were due and still unsent when the sending ended: the latencies from due \
             lack the longest waits",
            open.unsent
        ));
    }
    lines.extend(behind(client));
    if open.replays && Ns(client.send_lag.p99) > REPLAY_LAG_MAX {
        lines.push("the trace was replayed late: over 500 ms (p99) behind its times".into());
    }
    lines
}

fn capped(cap: u32, open: &OpenLoop, course: &Course) -> String {
    let waits = &course.slot_waits;
    let label = format!("open loop, capped at {cap} in flight");
    let scheduled = waits.requests + open.skipped_capped + open.skipped_late;
    match (open.skips_capped, open.skipped_capped, waits.waited) {
        (true, 0, _) => format!("{label}: no request was skipped for want of a slot"),
        (true, skipped, _) => format!(
            "{label}: {skipped} of {scheduled} requests found no slot and were skipped \
             (--when-capped skip)"
        ),
        (false, _, 0) => format!("{label}: no request waited for a slot"),
        (false, _, waited) => format!(
            "{label}: {waited} of {} requests waited for a slot, {:.1} ms on average, {:.1} ms at \
             most; latency from due has that wait, from start it has not",
            waits.requests,
            waits.mean().as_ms(),
            waits.max.as_ms()
        ),
    }
}

/// That the client itself was late, and what became of the requests that it was late for.
pub fn behind(client: &ClientReport) -> Option<String> {
    let open = client.open_loop.filter(|_| client.fell_behind())?;
    let became = match open.skips_late {
        true => format!(
            "{} requests were skipped (--when-late skip)",
            open.skipped_late
        ),
        false => "late requests were sent at once (--when-late send)".into(),
    };
    Some(format!(
        "the client fell behind its schedule by up to {:.1} ms: {became}",
        open.lag_max.as_ms()
    ))
}

/// The slowest requests, a line each: the id, the time from due to done, its stages.
pub fn slowest_lines(course: &Course) -> Vec<String> {
    let title = "slowest requests (x_request_id, ms from due to done):".to_string();
    let title = (!course.slowest.is_empty()).then_some(title);
    title
        .into_iter()
        .chain(course.slowest.iter().map(slow_line))
        .collect()
}

fn slow_line(slow: &Slow) -> String {
    let parts = slow.stages.iter();
    let shown = parts.filter(|(_, length)| length.as_ms() >= SHOWN_MS_MIN);
    let shown = shown.map(|(part, length)| format!("{} {:.1}", word(part), length.as_ms()));
    let shown: Vec<String> = shown.collect();
    format!(
        "{} {:.1} = {}",
        jsonl::uuid(slow.request_id),
        slow.stages.total().as_ms(),
        shown.join(" + ")
    )
}

fn word(part: Part) -> &'static str {
    match part {
        Part::SlotWait => "slot",
        Part::SendLag => "lag",
        other => other.name(),
    }
}

/// Adds `open_loop`, `windows`, `stability` and `slowest_requests`, each where there is one.
pub(super) fn add(client: &ClientReport, out: &mut Map<String, Value>) {
    let course = &client.course;
    if let Some(open) = &client.open_loop {
        let mut told = open_loop(open, course);
        if open.replays {
            told["replay"] = replay(client);
        }
        out.insert("open_loop".into(), told);
    }
    if let Some(windows) = &course.windows {
        let windows = windows.iter().map(window).collect();
        out.insert("windows".into(), windows);
    }
    if let Some(stability) = &client.stability {
        out.insert("stability".into(), self::stability(stability));
    }
    if !course.slowest.is_empty() {
        let slowest = course.slowest.iter().map(slow).collect();
        out.insert("slowest_requests".into(), slowest);
    }
}

/// AIPerf's figures of a replay, in ms.
fn replay(client: &ClientReport) -> Value {
    let lag = client.send_lag;
    let ms = |ns: u64| Ns(ns).as_ms();
    json!({
        "replay_sched_lag_p50": ms(lag.p50),
        "replay_sched_lag_p90": ms(lag.p90),
        "replay_sched_lag_p99": ms(lag.p99),
        "replay_sched_degraded": u8::from(Ns(lag.p99) > REPLAY_LAG_MAX),
    })
}

fn open_loop(open: &OpenLoop, course: &Course) -> Value {
    let policy = |skips, other: &'static str| if skips { "skip" } else { other };
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.insert(key.into(), value);
    if let Some(cap) = open.cap {
        let waits = &course.slot_waits;
        put("cap", cap.into());
        put("when_capped", policy(open.skips_capped, "wait").into());
        put("requests_count", waits.requests.into());
        put("waited_count", waits.waited.into());
        put("wait_ns_avg", waits.mean().0.into());
        put("wait_ns_max", waits.max.0.into());
        put("skipped_capped_count", open.skipped_capped.into());
    }
    put("when_late", policy(open.skips_late, "send").into());
    put("skipped_late_count", open.skipped_late.into());
    put("unsent_count", open.unsent.into());
    put("lag_ns_max", open.lag_max.0.into());
    if let Some(growth) = course.growth {
        put("backlog_growth_ratio", growth.into());
    }
    if let Some(found) = &open.saturation {
        let stopped = open.stopped_oversaturated;
        put("oversaturation", oversaturation(found, stopped));
    }
    Value::Object(out)
}

fn oversaturation(found: &Saturation, stopped: bool) -> Value {
    json!({
        "after_ns": found.after.0,
        "window_ns": found.window.0,
        "arrived_per_s": found.arrived_per_s,
        "done_per_s": found.done_per_s,
        "not_done_count_first": found.in_flight_first,
        "not_done_count_last": found.in_flight_last,
        "ttft_from_due_ns_early": found.ttft_early.0,
        "ttft_from_due_ns_late": found.ttft_late.0,
        "stopped": stopped,
    })
}

fn stability(found: &Stability) -> Value {
    json!({
        "is_stable": found.is_stable,
        "interval_ns": found.length.0,
        "tolerance_ratio": found.tolerance,
        "windows": found.windows.iter().map(window).collect::<Value>(),
    })
}

fn window(window: &Window) -> Value {
    let mut out = Map::new();
    let rate = window.throughput_per_s;
    out.insert("ended_count".into(), window.ended.into());
    out.insert("request_throughput_per_s".into(), rate.into());
    if let Some(latency) = window.latency_ms {
        out.insert("request_latency_ms_avg".into(), latency.into());
    }
    Value::Object(out)
}

fn slow(slow: &Slow) -> Value {
    json!({
        "session_num": slow.index,
        "x_request_id": jsonl::uuid(slow.request_id),
        "stages": jsonl::stages(&slow.stages),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Ns;
    use crate::stats::course::SlotWaits;
    use crate::stats::{Record, Stages};

    /// Field case SC-1 as a report has it: 10/s, 8 requests, one slot, 500 ms each.
    fn capped() -> ClientReport {
        let record = |n: u64| Record {
            due: Ns::from_ms(100 * n),
            slot: Ns::from_ms(500 * n),
            start: Ns::from_ms(500 * n),
            written: Some(Ns::from_ms(500 * n)),
            first_byte: Some(Ns::from_ms(500 * n + 495)),
            done: Ns::from_ms(500 * n + 500),
            ..Record::default()
        };
        let slow = |n: u64| Slow {
            index: n,
            request_id: u128::from(n),
            stages: Stages::of(&record(n)),
        };
        ClientReport {
            scheduled_rate: Some(10.0),
            open_loop: Some(OpenLoop {
                cap: Some(1),
                lag_max: Ns(90_000),
                ..OpenLoop::default()
            }),
            course: Course {
                slot_waits: SlotWaits {
                    requests: 8,
                    waited: 7,
                    sum: Ns::from_ms(11_200),
                    max: Ns::from_ms(2_800),
                },
                slowest: vec![slow(7), slow(0)],
                ..Course::default()
            },
            ..ClientReport::default()
        }
    }

    #[test]
    fn a_capped_run_says_who_waited_and_how_long_on_screen_and_in_json() {
        let report = capped();
        let mut json = Map::new();
        add(&report, &mut json);
        let lines = [open_loop_lines(&report), slowest_lines(&report.course)].concat();
        insta::assert_snapshot!(format!("{}\n{:#}", lines.join("\n"), Value::Object(json)));
    }

    #[test]
    fn what_applies_to_the_open_loop_is_said_and_nothing_else() {
        let begins = |change: fn(&mut OpenLoop)| {
            let mut report = capped();
            report.course.slot_waits = SlotWaits {
                requests: 8,
                ..SlotWaits::default()
            };
            change(report.open_loop.as_mut().unwrap());
            open_loop_lines(&report).join("|")
        };
        assert_eq!(begins(|open| open.cap = None), "");
        assert_eq!(
            begins(|_| ()),
            "open loop, capped at 1 in flight: no request waited for a slot"
        );
        let skips = begins(|open| (open.skips_capped, open.skipped_capped) = (true, 12));
        assert!(skips.contains("12 of 20 requests found no slot"), "{skips}");
        // A gap of 100 ms and 10 ms both.
        assert_eq!(
            begins(|open| (open.cap, open.lag_max) = (None, Ns::from_ms(100))),
            ""
        );
        assert_eq!(
            begins(|open| (open.cap, open.lag_max) = (None, Ns::from_ms(2_000))),
            "the client fell behind its schedule by up to 2000.0 ms: late requests were sent at \
             once (--when-late send)"
        );
        let skips = begins(|open| {
            (open.cap, open.lag_max) = (None, Ns::from_ms(2_000));
            (open.skips_late, open.skipped_late) = (true, 199);
        });
        assert!(skips.ends_with("199 requests were skipped (--when-late skip)"));
        assert!(open_loop_lines(&ClientReport::default()).is_empty());
    }
}
