//! `profile_export_aiperf.json`: AIPerf's keys in AIPerf's order, ours under `client`.

use super::text::wall;
use super::{RunInfo, course, gpus, input_config, server_metrics, support};
use crate::base::Ns;
use crate::config::Config;
use crate::stats::figures::named;
use crate::stats::gate::Assertion;
use crate::stats::summary::{ClientReport, CoreReport, MetricResult, PhaseResult, Reason, Spread};
use crate::stats::{Attainment, Environment, Phase, SteadyState, Summary};
use serde_json::{Map, Value, json};

/// Version of the file's schema, AIPerf's own.
pub const SCHEMA_VERSION: &str = "1.4";

/// Metrics that stand before the blocks, in this order; all others follow them.
const LEADING: [&str; 23] = [
    "request_throughput",
    "request_latency",
    "request_count",
    "time_to_first_token",
    "time_to_second_token",
    "inter_token_latency",
    "output_token_throughput",
    "output_token_throughput_per_user",
    "output_sequence_length",
    "input_sequence_length",
    "goodput",
    "good_request_count",
    "output_token_count",
    "reasoning_token_count",
    "inter_chunk_latency",
    "total_output_tokens",
    "total_reasoning_tokens",
    "benchmark_duration",
    "total_isl",
    "total_osl",
    "error_request_count",
    "error_isl",
    "total_error_isl",
];

/// What the accumulator has beside AIPerf's metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientExtras {
    /// Metrics of ours, such as `<tag>_from_due`.
    pub metrics: Vec<MetricResult>,
    /// Steady state of a closed loop, its times as wall ns.
    pub steady: Option<(u64, u64, SteadyState)>,
    /// Each service level.
    pub attainment: Vec<Attainment>,
    /// Output tokens of good requests per second.
    pub good_token_throughput: Option<f64>,
}

/// Adds what is ours under `client`.
pub fn add_client_extras(document: &mut Value, extras: &ClientExtras) {
    let Some(client) = document.get_mut("client").and_then(Value::as_object_mut) else {
        return;
    };
    for metric in &extras.metrics {
        client.insert(metric.tag.into(), figure(metric));
        if let Some(keys) = support::unsupported(metric) {
            client["percentile_support"]["unsupported"][metric.tag] = keys;
        }
    }
    if let Some((start_ns, end_ns, steady)) = &extras.steady {
        let mut out = Map::new();
        out.insert("start_ns".into(), json!(start_ns));
        out.insert("end_ns".into(), json!(end_ns));
        let rate = steady.request_throughput;
        out.insert("request_throughput_per_s".into(), json!(rate));
        if let Some(rate) = steady.output_token_throughput {
            out.insert("output_token_throughput_per_s".into(), json!(rate));
        }
        out.insert("concurrency_held".into(), json!(steady.concurrency_held));
        client.insert("steady_state".into(), Value::Object(out));
    }
    if !extras.attainment.is_empty() {
        let each =
            |a: &Attainment| json!({"tag": a.tag, "limit": a.limit, "met_ratio": a.met_ratio});
        let list: Vec<Value> = extras.attainment.iter().map(each).collect();
        client.insert("goodput_attainment".into(), list.into());
    }
    if let Some(rate) = extras.good_token_throughput {
        client.insert("good_output_token_throughput_per_s".into(), json!(rate));
    }
}

/// The whole document. Absent things are left out; what is not finite is null.
pub fn aiperf(summary: &Summary, config: &Config, run: &RunInfo) -> Value {
    let mut out = Map::new();
    out.insert("schema_version".into(), SCHEMA_VERSION.into());
    out.insert("tokenring_version".into(), run.version.as_str().into());
    out.insert("benchmark_id".into(), run.benchmark_id.as_str().into());
    for tag in LEADING {
        if let Some(metric) = summary.metric(tag) {
            out.insert(tag.into(), figure(metric));
        }
    }
    if !summary.gpus.is_empty() {
        out.insert("telemetry_data".into(), gpus::telemetry(summary, run));
    }
    if let Some(block) = server_metrics::block(summary) {
        out.insert("server_metrics".into(), block);
    }
    out.insert(
        "input_config".into(),
        input_config::aiperf(summary, config, run),
    );
    out.insert("run_info".into(), run_info(config, run));
    out.insert("was_cancelled".into(), summary.was_cancelled.into());
    out.insert("is_complete".into(), summary.is_complete.into());
    out.insert("error_summary".into(), errors(summary));
    out.insert("start_time".into(), wall(summary.start_wall_ns).into());
    out.insert("end_time".into(), wall(summary.end_wall_ns).into());
    if !summary.warmup.is_empty() {
        out.insert("warmup_metrics".into(), figures(&summary.warmup).into());
    }
    for metric in &summary.metrics {
        if !LEADING.contains(&metric.tag) {
            out.insert(metric.tag.into(), figure(metric));
        }
    }
    let mut account = client(&summary.client);
    account["percentile_support"] = support::block(&summary.metrics);
    account["limits"] = limits(config);
    out.insert("client".into(), account);
    let mut value = Value::Object(out);
    run.secrets.mask_value(&mut value);
    value
}

/// A document as it is written: two spaces of indent, a line feed at the end.
pub fn bytes(value: &Value) -> Vec<u8> {
    let mut out = format!("{value:#}").into_bytes();
    out.push(b'\n');
    out
}

/// `{unit, avg, p1, ...}`: what a metric's figure has, in AIPerf's order, p99_9 and p99_99 after
/// p99.
pub(super) fn figure(metric: &MetricResult) -> Value {
    let mut out = Map::new();
    out.insert("unit".into(), metric.unit.into());
    for (name, value) in named(&metric.figure) {
        let value = match name {
            "count" => json!(whole(value)),
            _ => value.into(),
        };
        out.insert(name.into(), value);
    }
    Value::Object(out)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

pub(super) fn figures(metrics: &[MetricResult]) -> Map<String, Value> {
    metrics
        .iter()
        .map(|metric| (metric.tag.to_owned(), figure(metric)))
        .collect()
}

fn run_info(config: &Config, run: &RunInfo) -> Value {
    json!({
        "benchmark_id": run.benchmark_id,
        "random_seed": config.seed,
        "trial": run.trial,
        "cli_command": run.cli_command,
    })
}

fn errors(summary: &Summary) -> Value {
    let group = |error: &crate::stats::summary::ErrorGroup| {
        json!({
            "error_details": {
                "code": error.code,
                "type": error.name,
                "message": error.message,
            },
            "count": error.count,
        })
    };
    summary.errors.iter().map(group).collect()
}

/// The client's own account; the verdict stands first.
fn client(report: &ClientReport) -> Value {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            out.insert(key.to_owned(), value);
        }
    };
    put("verdict", report.verdict.name().into());
    put("reasons", reasons(&report.reasons));
    put("receive_path", report.receive_path.as_str().into());
    put("receive_lag_ns", spread(report.receive_lag));
    put("send_lag_ns", spread(report.send_lag));
    put("event_time_error_ns", spread(report.event_time_error));
    let stamps = report.stamp_errors.map(|errors| {
        json!({
            "event_time": spread(errors.event_time),
            "ttft": spread(errors.ttft),
            "itl": spread(errors.itl),
        })
    });
    put("stamp_error_ns", json!(stamps));
    put("slot_wait_ns", spread(report.slot_wait));
    put("timer_lateness_ns", spread(report.timer_lateness));
    put("rtt_ns", spread(report.rtt));
    put("retransmits_count", report.retransmits.into());
    put("reordered_count", report.reordered.into());
    put("arrival_cv", json!(report.arrivals.map(|cv| cv.delivered)));
    let scheduled = report.arrivals.map(|cv| cv.scheduled);
    put("scheduled_arrival_cv", json!(scheduled));
    put("delivered_rate_per_s", json!(report.delivered_rate));
    put("scheduled_rate_per_s", json!(report.scheduled_rate));
    put("concurrency_held", json!(report.concurrency_held));
    put("concurrency_asked", json!(report.concurrency_asked));
    put("events_per_read", json!(report.events_per_read));
    put("kernel_stamped_ratio", json!(report.kernel_stamped_ratio));
    put("cancelled_count", report.cancelled.into());
    let ended = report.failure_limit;
    let ended = ended.map(|limit| json!({"by": "failed_request_threshold", "limit": limit}));
    put("ended_early", json!(ended));
    put("resources_short_count", report.resources_short.into());
    put("records_lost_count", report.records_lost.into());
    put("warmup_in_flight_count", report.warmup_in_flight.into());
    put("record_thread_cpu_ns", report.record_thread_cpu_ns.into());
    put("tokenizer", report.tokenizer.as_str().into());
    put("tokenizer_stands_in", report.tokenizer_stands_in.into());
    let headroom = report.headroom;
    put("headroom_ratio", json!(headroom.map(|found| found.ratio)));
    let measured = headroom.map(|found| wall(found.measured_wall_ns));
    put("headroom_measured_at", json!(measured));
    put("seed", report.seed.into());
    put("startup_ns", report.startup_ns.into());
    put("environment", environment(&report.environment));
    put("cores", report.cores.iter().map(core).collect());
    if !report.assertions.is_empty() {
        put(
            "assertions",
            report.assertions.iter().map(assertion).collect(),
        );
    }
    put("notes", json!(report.notes));
    if !report.phases.is_empty() {
        put("phases", report.phases.iter().map(phase).collect());
    }
    course::add(report, &mut out);
    Value::Object(out)
}

fn assertion(found: &Assertion) -> Value {
    json!({"text": found.text, "value": found.value, "holds": found.holds})
}

fn phase(phase: &PhaseResult) -> Value {
    let kind = match phase.measured {
        true => Phase::Profiling,
        false => Phase::Warmup,
    };
    json!({"name": phase.name, "kind": kind.name(), "metrics": figures(&phase.metrics)})
}

/// What may end requests and the run before their time; seconds.
fn limits(config: &Config) -> Value {
    let mut out = Map::new();
    let seconds = |limit: Ns| Some(limit.as_secs());
    let cancellation = config.cancellation;
    for (key, value) in [
        ("request_timeout_s", seconds(config.request_timeout)),
        ("connect_timeout_s", seconds(config.connect_timeout)),
        (
            "first_token_timeout_s",
            config.first_token_timeout.and_then(seconds),
        ),
        ("idle_timeout_s", config.idle_timeout.and_then(seconds)),
        (
            "cancellation_rate_percent",
            cancellation.map(|asked| asked.percent),
        ),
        (
            "cancellation_delay_s",
            cancellation.and_then(|asked| seconds(asked.delay)),
        ),
        ("failed_request_threshold", config.failed_share_max),
    ] {
        out.extend(value.map(|value| (key.to_owned(), value.into())));
    }
    Value::Object(out)
}

/// Reasons for a verdict.
pub(super) fn reasons(reasons: &[Reason]) -> Value {
    let object = |reason: &Reason| {
        json!({
            "code": reason.code,
            "level": reason.level.name(),
            "measured": reason.measured,
            "limit": reason.limit,
            "unit": reason.unit,
            "advice": reason.advice,
        })
    };
    reasons.iter().map(object).collect()
}

/// A spread, in ns.
pub(super) fn spread(spread: Spread) -> Value {
    json!({
        "count": spread.count,
        "p50": spread.p50,
        "p90": spread.p90,
        "p99": spread.p99,
        "p99_9": spread.p99_9,
        "max": spread.max,
    })
}

fn environment(found: &Environment) -> Value {
    json!({
        "placement": found.placement,
        "kernel": found.kernel,
        "clock_source": found.clock_source,
        "governor": found.governor,
        "quota_cpus": found.quota_cpus,
        "throttled_count": found.throttled_count,
        "throttled_ratio": found.throttled_ratio,
        "clock_steps_count": found.clock_steps_count,
        "open_files_max": found.open_files_max,
        "ports_count": found.ports_count,
        "proxy": if found.uses_proxy { "used" } else { "none" },
    })
}

fn core(core: &CoreReport) -> Value {
    json!({
        "cpu": core.cpu,
        "busy_ratio": core.busy_ratio,
        "busy_ratio_1s_max": core.busy_ratio_1s_max,
        "user_ns": core.user_ns,
        "system_ns": core.system_ns,
        "steal_ratio": core.steal_ratio,
        "softirq_ratio": core.softirq_ratio,
        "run_queue_wait_ns": core.run_queue_wait_ns,
        "run_queue_wait_ratio": core.run_queue_wait_ratio,
        "involuntary_switches_count": core.involuntary_switches_count,
        "loop_stall_ns_max": core.loop_stall_ns_max,
        "rests_count": core.rests_count,
        "requests_count": core.requests_count,
        "reads_count": core.reads_count,
        "events_count": core.events_count,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn a_distribution_has_the_keys_of_aiperf_in_its_order() {
        let golden: Value = serde_json::from_str(include_str!(
            "../../tests/data/golden/aiperf/profile_export_aiperf.json"
        ))
        .unwrap();
        let ours = figure(fixture::summary().metric("request_latency").unwrap());
        let keys = |value: &Value| -> Vec<String> {
            let all = value.as_object().unwrap().keys().cloned();
            all.filter(|key| !key.starts_with("p99_")).collect()
        };
        assert_eq!(keys(&ours), keys(&golden["request_latency"]));
    }

    /// The members of `ours` that `golden` has are its own, and none of its is lacking.
    fn assert_within(ours: &Value, golden: &Value, path: &str) {
        let Some(map) = golden.as_object() else {
            return assert_eq!(ours, golden, "{path}");
        };
        for (key, value) in map {
            let own = ours
                .get(key)
                .unwrap_or_else(|| panic!("{path}.{key} is absent"));
            assert_within(own, value, &format!("{path}.{key}"));
        }
    }

    #[test]
    fn the_figures_of_aiperf_come_out_as_they_went_in() {
        for (summary, text) in [
            (
                fixture::golden(),
                include_str!("../../tests/data/golden/aiperf/profile_export_aiperf.json"),
            ),
            (
                fixture::golden_with_errors(),
                include_str!(
                    "../../tests/data/golden/aiperf/\
                     profile_export_aiperf.with_errors_and_warmup.json"
                ),
            ),
        ] {
            let golden: Value = serde_json::from_str(text).unwrap();
            let ours = aiperf(&summary, &fixture::config(), &fixture::run());
            for (tag, figure) in golden.as_object().unwrap() {
                // The one that agentic replay counts.
                let is_figure = figure.get("unit").is_some() && tag != "context_overflow_count";
                if is_figure || matches!(tag.as_str(), "error_summary") {
                    assert_within(&ours[tag], figure, tag);
                }
            }
            let telemetry = golden["telemetry_data"]["endpoints"].as_object();
            for (name, source) in telemetry.into_iter().flatten() {
                let own = &ours["telemetry_data"]["endpoints"][name];
                assert_within(own, source, "telemetry_data.endpoints");
            }
        }
    }

    #[test]
    fn the_client_block_opens_with_the_verdict() {
        let block = client(&fixture::summary().client);
        assert_eq!(block.as_object().unwrap().keys().next().unwrap(), "verdict");
        assert_eq!(block["verdict"], "VALID");
    }

    /// A run with every metric, a failure, a reason and a core.
    fn full() -> Summary {
        let mut summary = fixture::summary();
        let figure = summary.metric("request_latency").unwrap().figure.clone();
        let results = crate::stats::metric::METRICS.iter();
        summary.metrics = results
            .map(|metric| MetricResult {
                tag: metric.tag,
                header: metric.header,
                unit: metric.unit,
                figure: figure.clone(),
            })
            .collect();
        summary.warmup = summary.metrics[..2].to_vec();
        summary.errors.push(crate::stats::summary::ErrorGroup {
            code: 500,
            name: "Internal Server Error".into(),
            message: "no".into(),
            count: 2,
        });
        summary.client.cores.push(CoreReport::default());
        summary.client.open_loop = Some(crate::stats::summary::OpenLoop {
            saturation: Some(Default::default()),
            ..Default::default()
        });
        summary.client.stability = Some(crate::stats::stability::Stability {
            length: crate::base::Ns::from_ms(500),
            tolerance: 0.1,
            windows: vec![Default::default(); 3],
            is_stable: true,
        });
        summary.client.failure_limit = Some(0.5);
        summary.client.course.windows = Some(Default::default());
        summary.client.course.slowest = vec![crate::stats::course::Slow {
            index: 0,
            request_id: 1,
            stages: crate::stats::Stages::default(),
        }];
        summary.client.headroom = Some(crate::stats::capacity::Headroom {
            ratio: 3.5,
            measured_wall_ns: 1_796_003_780_483_785_999,
        });
        summary.client.reasons.push(crate::stats::summary::Reason {
            code: "send_lag",
            level: crate::stats::summary::Verdict::Degraded,
            measured: 2.0,
            limit: 1.0,
            unit: "us (p99)",
            advice: "give it more cores",
        });
        let gpu = &mut summary.gpus[0];
        (gpu.energy_j, gpu.energy_source) = (Some(1.5), "counter");
        (gpu.energy_check_j, gpu.energy_confidence) = (Some(1.4), "low");
        (gpu.idle_power_w, gpu.instance) = (Some(60.0), "3".into());
        gpu.energy_ratios = vec![("energy_per_request_j", 0.5)];
        gpu.update_period = Some(crate::base::Ns::from_ms(333));
        summary.telemetry.errors = vec![("http://n1:9400/metrics: no answer in time".into(), 3)];
        summary
    }

    fn exported(summary: &Summary) -> Value {
        let mut out = aiperf(summary, &fixture::config(), &fixture::run());
        let extras = ClientExtras {
            metrics: fixture::summary().metrics[..1].to_vec(),
            ..ClientExtras::default()
        };
        add_client_extras(&mut out, &extras);
        out
    }

    #[test]
    fn the_export_fits_its_schema() {
        let schema = include_str!("../../schema/profile_export_aiperf.schema.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for summary in [fixture::summary(), full(), Summary::default()] {
            let faults: Vec<String> = validator
                .iter_errors(&exported(&summary))
                .map(|fault| format!("{}: {fault}", fault.instance_path()))
                .collect();
            assert_eq!(faults, Vec::<String>::new());
        }
        let mut broken = exported(&full());
        broken["client"]["verdict"] = "FINE".into();
        assert!(!validator.is_valid(&broken));
    }

    #[test]
    fn keys_follow_the_order_of_aiperf() {
        let golden: Value = serde_json::from_str(include_str!(
            "../../tests/data/golden/aiperf/profile_export_aiperf.json"
        ))
        .unwrap();
        let ours = exported(&full());
        let keys = |value: &Value| -> Vec<String> {
            let map = value.as_object().unwrap();
            map.keys().cloned().collect()
        };
        let shared = |a: &Value, b: &Value| -> Vec<String> {
            let both = keys(a).into_iter().filter(|key| b.get(key).is_some());
            // What follows `end_time` has no order of its own in AIPerf.
            let is_last = |key: &String| *key == "end_time";
            let both: Vec<String> = both.collect();
            let end = both
                .iter()
                .position(is_last)
                .map_or(both.len(), |at| at + 1);
            both[..end].to_vec()
        };
        assert_eq!(shared(&ours, &golden), shared(&golden, &ours));
        for block in ["input_config", "run_info", "telemetry_data"] {
            let (ours, golden) = (&ours[block], &golden[block]);
            assert_eq!(shared(ours, golden), shared(golden, ours), "{block}");
        }
    }
}
