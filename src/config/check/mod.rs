//! From what was typed to what is run: ranges, contradictions, defaults. One file per section of
//! `profile --help`.

mod client;
mod connections;
mod limits;
mod load;
mod media;
mod output;
mod pairs;
mod rate;
mod requests;
mod server;
mod sessions;
mod stops;
mod target;
mod telemetry;
mod trace;

use super::{Api, Config, Cores, Draft, Reuse};
use crate::base::Ns;
use serde_json::Value;

/// A setting that cannot be: names the flag and what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("--{flag}: {text}")]
pub struct ConfigError {
    /// Flag without dashes.
    pub flag: &'static str,
    /// What is wrong and what to do.
    pub text: String,
}

/// A configuration, and sentences on how it was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The settings.
    pub config: Config,
    /// For the reader.
    pub notes: Vec<String>,
}

pub(super) fn no<T>(flag: &'static str, text: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        flag,
        text: text.into(),
    })
}

/// Largest count that a flag may give.
const COUNT_MAX: i64 = 1_000_000_000_000;
/// Longest time that a flag may give: ten years.
const SECONDS_MAX: f64 = 315_360_000.0;

pub(super) fn seconds(
    flag: &'static str,
    value: Option<f64>,
    default: f64,
    zero: bool,
) -> Result<Ns, ConfigError> {
    let value = value.unwrap_or(default);
    let low = if zero { value >= 0.0 } else { value > 0.0 };
    if !low || value.is_nan() || value > SECONDS_MAX {
        let least = if zero { "0 or more" } else { "more than 0" };
        return no(
            flag,
            format!("{value:?} is out of range; give {least} seconds, ten years at most"),
        );
    }
    Ok(Ns::from_secs_f64(value))
}

pub(super) fn count(
    flag: &'static str,
    value: Option<i64>,
    least: i64,
    most: i64,
) -> Result<Option<u64>, ConfigError> {
    match value {
        Some(n) if n < least || n > most => {
            no(flag, format!("{n} is out of range; give {least} to {most}"))
        }
        other => Ok(other.and_then(|n| u64::try_from(n).ok())),
    }
}

/// The first of these flags that is given.
pub(super) fn given_of(settings: &[(&'static str, bool)]) -> Option<&'static str> {
    let given = settings.iter().find(|(_, given)| *given);
    given.map(|(flag, _)| *flag)
}

/// A text that is not empty, when given.
fn filled(flag: &'static str, text: Option<&String>) -> Result<Option<String>, ConfigError> {
    match text {
        Some(text) if text.trim().is_empty() => no(flag, "it is empty; give one or leave it out"),
        other => Ok(other.cloned()),
    }
}

impl Draft {
    /// Checks everything; `command_line` is kept as it is.
    pub fn check(self, command_line: &str) -> Result<Checked, ConfigError> {
        let mut notes = Vec::new();
        let mut config = Config::default();
        self.target(&mut config, &mut notes)?;
        self.load(&mut config, &mut notes)?;
        self.limits(&mut config)?;
        self.server(&mut config)?;
        self.requests(&mut config, &mut notes)?;
        self.media(&mut config, &mut notes)?;
        self.sessions(&mut config)?;
        self.trace(&mut config)?;
        self.output(&mut config)?;
        self.connections(&mut config)?;
        self.client(&mut config)?;
        self.telemetry(&mut config)?;
        contradictions(&config)?;
        config.command_line = command_line.into();
        if config.tls_insecure {
            notes.push("--tls-insecure: certificates are not verified".into());
        }
        Ok(Checked { config, notes })
    }
}

fn contradictions(config: &Config) -> Result<(), ConfigError> {
    let needs_osl = config.osl_deterministic && config.osl.is_none();
    if needs_osl {
        return no(
            "output-tokens-mean-deterministic",
            "it needs --output-tokens-mean (--osl)",
        );
    }
    if !config.demo && config.urls.is_empty() {
        return no("url", "no target; give host:port");
    }
    caps(config)?;
    if config.tls_insecure && config.tls_ca.is_some() {
        return no(
            "tls-ca",
            "--tls-insecure verifies nothing; leave one of them out",
        );
    }
    let asked = match &config.cores {
        Cores::Auto => 0,
        Cores::Count(count) => *count,
        Cores::List(list) => list.len(),
    };
    if let Some(most) = config.workers_max.filter(|&most| most < asked) {
        return no(
            "workers-max",
            format!("{most} is less than the {asked} of --cores; leave one of them out"),
        );
    }
    if config.api.is_triton() && config.model.is_none() {
        return no("model", "Triton has the model in its path; give -m");
    }
    lengths_of(config)?;
    let tagged = [
        "time_to_first_token",
        "inter_token_latency",
        "time_to_second_token",
    ];
    let slo = config
        .goodput
        .iter()
        .find(|slo| tagged.contains(&slo.tag.as_str()));
    if config.streaming && config.extra_inputs.get("stream") == Some(&Value::Bool(false)) {
        return no("extra-inputs", "stream:false contradicts --streaming");
    }
    match slo {
        Some(slo) if !config.streaming => no(
            "goodput",
            format!("{} exists with --streaming only", slo.tag),
        ),
        Some(slo) if !config.api.has_tokens() => no(
            "goodput",
            format!(
                "{} is of tokens; an answer of {} has none",
                slo.tag,
                config.api.name()
            ),
        ),
        _ => Ok(()),
    }
}

/// What fixes lengths must have a member, and what is sent as it is must be there.
fn lengths_of(config: &Config) -> Result<(), ConfigError> {
    let name = config.api.name();
    if config.osl_deterministic && !config.api.fixes_length() {
        return no(
            "output-tokens-mean-deterministic",
            format!("--endpoint-type {name} has no member that fixes lengths; leave it out"),
        );
    }
    if config.api == Api::Raw && config.trace.is_none() {
        return no(
            "endpoint-type",
            "raw sends the lines of a file as bodies: give it with --input-file",
        );
    }
    Ok(())
}

/// Caps that could hold nothing back.
fn caps(config: &Config) -> Result<(), ConfigError> {
    let caps_urls = config
        .phases
        .iter()
        .any(|phase| phase.load.per_url.is_some());
    if caps_urls && config.connections.reuse == Reuse::Sticky {
        return no(
            "concurrency-per-url",
            "sessions keep to their url with sticky-user-sessions: there is nothing to deal",
        );
    }
    let caps_prefill = config
        .phases
        .iter()
        .any(|phase| phase.load.prefill.is_some());
    if caps_prefill && !config.streaming {
        return no(
            "prefill-concurrency",
            "it needs --streaming, which tells the first token",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Lengths, Level, Load, Pattern, Ramp, RampKind};
    use serde_json::json;

    fn draft(value: Value) -> Draft {
        serde_json::from_value(value).unwrap()
    }

    fn are_refused<const N: usize>(settings: [(Value, &str); N]) {
        for (value, message) in settings {
            let text = draft(value.clone()).check("").unwrap_err().to_string();
            assert!(text.starts_with(message), "{value}: {text}");
        }
    }

    #[test]
    fn what_is_not_said_has_the_peers_defaults() {
        let checked = draft(json!({})).check("").unwrap();
        let config = checked.config;
        assert_eq!(config.urls[0].origin(), "http://localhost:8000");
        assert_eq!(config.load(), &Load::closed(1));
        assert_eq!(config.main().requests, Some(10));
        assert_eq!(
            config.isl,
            Lengths {
                mean: 550.0,
                stddev: 0.0
            }
        );
        assert_eq!(config.request_timeout, Ns::from_ms(21_600_000));
        let config = draft(json!({"concurrency": 64})).check("").unwrap().config;
        assert_eq!(config.main().requests, Some(128));
        let config = draft(json!({"request_rate": 5.0}))
            .check("")
            .unwrap()
            .config;
        assert_eq!(config.load(), &Load::open(Pattern::Poisson, 5.0, None));
    }

    #[test]
    fn what_is_out_of_range_is_refused_as_it_was_typed() {
        are_refused([
            (json!({"concurrency": 0}), "--concurrency"),
            (json!({"concurrency": 1_000_001}), "--concurrency"),
            (json!({"request_rate": -1.0}), "--request-rate: -1.0 is"),
            (json!({"request_rate": 1e-300}), "--request-rate: 1e-300 is"),
            (json!({"request_rate": 1e300}), "--request-rate: 1e300 is"),
            (json!({"request_count": 0}), "--request-count"),
            (json!({"request_count": i64::MAX}), "--request-count"),
            (json!({"isl": 0.0}), "--isl"),
            (json!({"isl": 1e300}), "--isl: 1e300 is"),
            (json!({"isl_stddev": -1.0}), "--isl-stddev"),
            (json!({"osl": 0.5}), "--osl"),
            (json!({"osl": 9.0, "osl_stddev": -1.0}), "--osl-stddev"),
            (json!({"benchmark_duration": 0.0}), "--benchmark-duration"),
            (json!({"benchmark_duration": -1.0}), "--benchmark-duration"),
            (
                json!({"benchmark_duration": 1e300}),
                "--benchmark-duration: 1e300 is",
            ),
            (
                json!({"warmup_request_count": -1}),
                "--warmup-request-count",
            ),
            (
                json!({"request_timeout_seconds": 0.0}),
                "--request-timeout-seconds",
            ),
        ]);
    }

    #[test]
    fn what_ends_a_run_early_is_refused_where_it_cannot() {
        let (window, percent) = ("--measurement-interval", "--stability-percentage");
        are_refused([
            (json!({"measurement_interval": 0}), window),
            (json!({"measurement_interval": -5}), window),
            (json!({"measurement_interval": i64::MAX}), window),
            (
                json!({"stability_percentage": 10.0}),
                "--stability-percentage: it needs --measurement-interval",
            ),
            (
                json!({"measurement_interval": 5, "stability_percentage": 0.0}),
                "--stability-percentage: 0.0 is out of range",
            ),
            (
                json!({"measurement_interval": 5, "stability_percentage": -1.0}),
                percent,
            ),
            (
                json!({"measurement_interval": 5, "stability_percentage": 1e300}),
                percent,
            ),
            (
                json!({"stop_when_oversaturated": true, "concurrency": 4}),
                "--stop-when-oversaturated: it needs --request-rate",
            ),
        ]);
        let of = |value| draft(value).check("").unwrap().config;
        let config = of(json!({"measurement_interval": 500, "benchmark_grace_period": 1.0}));
        let windows = config.stable_windows.unwrap();
        assert_eq!(windows.length, Ns::from_ms(500));
        assert_eq!(windows.tolerance, 0.1);
        // Ten windows are the time, and then no count is needed.
        let limits = (config.main().duration, config.main().requests);
        assert_eq!(limits, (Some(Ns::from_ms(5_000)), None));
        let config = of(json!({"measurement_interval": 500, "benchmark_duration": 2.0}));
        assert_eq!(config.main().duration, Some(Ns::from_ms(2_000)));
        let grace = json!({
            "stop_when_oversaturated": true, "request_rate": 5.0, "benchmark_grace_period": 1.5
        });
        let config = of(grace);
        assert!(config.stop_oversaturated);
        assert_eq!(config.main().grace, Some(Ns::from_ms(1_500)));
    }

    #[test]
    fn limits_out_of_range_or_without_what_they_need_are_refused() {
        let (rate, delay) = (
            "--request-cancellation-rate",
            "--request-cancellation-delay",
        );
        are_refused([
            (json!({"request_cancellation_rate": -1.0}), rate),
            (json!({"request_cancellation_rate": 100.5}), rate),
            (json!({"request_cancellation_delay": 1.0}), delay),
            (
                json!({"request_cancellation_rate": 5.0, "request_cancellation_delay": -1.0}),
                delay,
            ),
            (
                json!({"first_token_timeout_seconds": 0.0, "streaming": true}),
                "--first-token-timeout-seconds: 0.0",
            ),
            (
                json!({"first_token_timeout_seconds": 1.0}),
                "--first-token-timeout-seconds: it needs --streaming",
            ),
            (
                json!({"idle_timeout_seconds": -1.0}),
                "--idle-timeout-seconds",
            ),
            (
                json!({"failed_request_threshold": 1.1}),
                "--failed-request-threshold: 1.1 is",
            ),
            (
                json!({"failed_request_threshold": -0.1}),
                "--failed-request-threshold: -0.1 is",
            ),
        ]);
        let none = json!({"request_cancellation_rate": 0.0});
        assert_eq!(draft(none).check("").unwrap().config.cancellation, None);
    }

    #[test]
    fn what_is_asked_of_the_server_is_asked_for_by_its_switch() {
        let (start, stop) = ("server-profiler-start-path", "server-profiler-stop-path");
        let limit = "server-profiler-timeout-seconds";
        for flag in [
            "wait-for-model-interval",
            "wait-for-model-mode",
            "reset-kv-cache-path",
            "reset-kv-cache-timeout-seconds",
            start,
            stop,
            limit,
        ] {
            let value = match flag.ends_with("seconds") || flag.ends_with("interval") {
                true => json!(1.0),
                false if flag.ends_with("mode") => json!("both"),
                false => json!("/x"),
            };
            are_refused([(
                json!({ flag.replace('-', "_"): value }),
                &format!("--{flag}: it needs"),
            )]);
        }
        let wait = |mode: &str, interval: f64| {
            json!({
                "wait_for_model_timeout": 1.0,
                "wait_for_model_mode": mode,
                "wait_for_model_interval": interval,
            })
        };
        let hook = |path: &str, seconds: f64| {
            json!({
                "reset_kv_cache": true,
                "reset_kv_cache_path": path,
                "reset_kv_cache_timeout_seconds": seconds,
            })
        };
        are_refused([
            (wait("ready", 1.0), "--wait-for-model-mode: `ready`"),
            (wait("both", 0.0), "--wait-for-model-interval: 0.0"),
            (hook("", 1.0), "--reset-kv-cache-path: give"),
            (hook("http://h/x", 1.0), "--reset-kv-cache-path: give"),
            (hook("/a b", 1.0), "--reset-kv-cache-path: a path has"),
            (hook("/a", 0.0), "--reset-kv-cache-timeout-seconds: 0.0"),
            (
                json!({
                    "backend": "vllm", "model": "m",
                    "wait_for_model_timeout": 1.0, "wait_for_model_mode": "models",
                }),
                "--wait-for-model-mode: Triton",
            ),
        ]);
        let config = draft(hook("a", 2.0)).check("").unwrap().config;
        let reset = config.reset_kv_cache.unwrap();
        assert_eq!(
            (reset.path.as_str(), reset.timeout),
            ("/a", Ns::from_ms(2_000))
        );
    }

    #[test]
    fn a_plan_that_nobody_lives_to_see_is_refused() {
        let long = "--request-rate: the run would last";
        are_refused([
            (json!({"request_rate": 1e-6, "request_count": 1_000}), long),
            (
                json!({"request_rate": 1e-6, "benchmark_duration": 1, "warmup_request_count": 900}),
                "--warmup-request-rate: the run would last",
            ),
        ]);
        // What a schedule needs is computed as it goes: a long one costs nothing.
        for given in [
            json!({"request_rate": 1e6, "benchmark_duration": 60}),
            json!({"request_rate": 1e3, "request_count": 60_000_000}),
        ] {
            assert!(draft(given).check("").is_ok());
        }
    }

    /// An open loop, and more.
    fn rate(more: Value) -> Value {
        let mut all = json!({"request_rate": 5.0, "request_count": 10});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        all
    }

    #[test]
    fn a_shape_that_contradicts_itself_names_its_flag() {
        are_refused([
            (
                json!({"arrival_smoothness": 2.0}),
                "--arrival-smoothness: it needs",
            ),
            (
                rate(json!({"arrival_smoothness": 0.0})),
                "--arrival-smoothness: 0.0 is",
            ),
            (
                rate(json!({"arrival_smoothness": 2.0, "arrival_pattern": "poisson"})),
                "--arrival-smoothness: it is the shape of gamma",
            ),
            (
                json!({"arrival_normalize": true}),
                "--arrival-normalize: it needs",
            ),
            (
                json!({"request_rate": 5.0, "benchmark_duration": 9, "arrival_normalize": true}),
                "--arrival-normalize: it stretches",
            ),
            (
                json!({"request_rate": "inf", "arrival_pattern": "constant"}),
                "--request-rate: inf",
            ),
            (
                rate(json!({"request_rate_series": "x.json"})),
                "--request-rate-series: it contradicts",
            ),
            (
                json!({"request_rate_series": "/none.json"}),
                "--request-rate-series: /none.json",
            ),
            (
                json!({"request_rate": "inf", "benchmark_duration": 1}),
                "--request-rate: inf sends all at once",
            ),
        ]);
    }

    #[test]
    fn a_ramp_or_a_cap_that_cannot_be_names_its_flag() {
        are_refused([
            (
                json!({"request_rate_ramp_duration": 5.0}),
                "--request-rate-ramp-duration: it needs",
            ),
            (
                rate(json!({"request_rate_ramp_duration": 0.0})),
                "--request-rate-ramp-duration: 0.0",
            ),
            (
                rate(json!({"concurrency_ramp_duration": 5.0})),
                "--concurrency-ramp-duration: it",
            ),
            (
                json!({"concurrency": 4, "ramp_shape": "linear"}),
                "--ramp-shape: it needs",
            ),
            (
                json!({"concurrency": 4, "concurrency_ramp_duration": 1, "ramp_shape": "steep"}),
                "--ramp-shape: `steep` is unknown",
            ),
            (
                json!({"prefill_concurrency": 2}),
                "--prefill-concurrency: it needs --streaming",
            ),
            (
                json!({"concurrency": 4, "prefill_concurrency": 5, "streaming": true}),
                "--prefill-concurrency: it is above",
            ),
            (
                json!({"prefill_concurrency": 0}),
                "--prefill-concurrency: 0 is",
            ),
            (
                json!({"concurrency_per_url": 0}),
                "--concurrency-per-url: 0 is",
            ),
            (
                json!({"warmup_concurrency": 4}),
                "--warmup-concurrency: it needs a warm-up",
            ),
            (
                json!({"warmup_drain": true}),
                "--warmup-drain: it needs a warm-up",
            ),
            (json!({"warmup_duration": 0}), "--warmup-duration: 0.0 is"),
            (
                json!({"warmup_duration": 1, "warmup_concurrency": -1}),
                "--warmup-concurrency: -1 is",
            ),
            (
                json!({"warmup_duration": 1, "warmup_request_rate": -1}),
                "--warmup-request-rate: -1.0 is",
            ),
        ]);
    }

    #[test]
    fn the_phases_of_a_file_have_the_whole_load() {
        let phases = |phases: Value| json!({ "phases": phases });
        are_refused([
            (
                json!({"phases": [{"name": "a", "requests": 4}], "concurrency": 4}),
                "--concurrency: `phases`",
            ),
            (phases(json!([])), "--phases: none of them is measured"),
            (
                phases(json!([{"name": "warmup", "requests": 4}])),
                "--phases: none of them",
            ),
            (
                phases(json!([{"name": "a"}])),
                "--phases: `a`: it has no end",
            ),
            (
                phases(json!([{"name": "a", "requests": 0}])),
                "--phases: `a`: request-count: 0 is",
            ),
            (
                phases(json!([{"name": "a", "kind": "cooldown", "requests": 4}])),
                "--phases: `a`: kind: `cooldown`",
            ),
            (
                phases(json!([{"name": "a", "requests": 4}, {"name": "a", "requests": 4}])),
                "--phases: `a`: the name is there twice",
            ),
        ]);
        let checked = draft(phases(json!([
            {"name": "warmup", "concurrency": 2, "duration": 1.5},
            {"name": "steady", "rate": 5, "smoothness": 2, "requests": 9},
        ])));
        let config = checked.check("").unwrap().config;
        let names: Vec<_> = config
            .phases
            .iter()
            .map(|p| (p.name.as_str(), p.measured))
            .collect();
        assert_eq!(names, [("warmup", false), ("steady", true)]);
        assert_eq!(config.load(), &Load::open(Pattern::Gamma(2.0), 5.0, None));
    }

    #[test]
    fn a_warm_up_has_from_the_measurement_what_it_does_not_say_itself() {
        let of = |given: Value| draft(given).check("").unwrap().config.phases;
        let ramp = |over_ms| {
            let kind = RampKind::Linear;
            Some(Ramp {
                kind,
                over: Ns::from_ms(over_ms),
            })
        };
        let phases = of(json!({
            "request_rate": 5.0, "arrival_pattern": "constant", "request_rate_ramp_duration": 3,
            "warmup_request_count": 4, "request_count": 9
        }));
        let rate = |phase: usize| phases[phase].load.rate.clone().unwrap();
        // It has come up once, and the measurement takes over at its height.
        assert_eq!((rate(0).ramp, rate(1).ramp), (ramp(3_000), None));
        assert_eq!((rate(0).per_s, rate(0).pattern), (5.0, Pattern::Constant));
        assert_eq!((phases[0].requests, phases[0].grace), (Some(4), None));
        let phases = of(json!({
            "concurrency": 8, "concurrency_ramp_duration": 3, "request_count": 9,
            "warmup_duration": 2, "warmup_concurrency": 2, "warmup_concurrency_ramp_duration": 1
        }));
        let slots = |phase: usize| phases[phase].load.concurrency.unwrap();
        assert_eq!(
            slots(0),
            Level {
                most: 2,
                ramp: ramp(1_000)
            }
        );
        assert_eq!(
            slots(1),
            Level {
                most: 8,
                ramp: ramp(3_000)
            }
        );
        // A closed warm-up before an open loop.
        let phases = of(json!({
            "request_rate": 5.0, "request_count": 9,
            "warmup_request_count": 4, "warmup_concurrency": 2
        }));
        assert_eq!(phases[0].load, Load::closed(2));
    }

    #[test]
    fn what_is_empty_unknown_or_contradicts_names_its_flag() {
        are_refused([
            (json!({"artifact_dir": ""}), "--artifact-dir"),
            (json!({"tls_ca": "x", "tls_insecure": true}), "--tls-ca"),
            (json!({"tls_ca": ""}), "--tls-ca"),
            (json!({"tokenizer": ""}), "--tokenizer"),
            (json!({"cores": "2,4-7", "workers_max": 4}), "--workers-max"),
            (json!({"cores": "5", "workers_max": 4}), "--workers-max"),
            (
                json!({"benchmark_grace_period": 1.0}),
                "--benchmark-grace-period",
            ),
            (json!({"endpoint_type": "embedings"}), "--endpoint-type"),
            (
                json!({"endpoint_type": "chat", "backend": "vllm"}),
                "--backend",
            ),
            (json!({"arrival_pattern": "poisson"}), "--arrival-pattern"),
            (json!({"when_late": "skip"}), "--when-late: it needs"),
            (
                json!({"when_late": "drop", "request_rate": 1.0}),
                "--when-late: `drop` is unknown; send or skip",
            ),
            (
                json!({"when_capped": "wait", "request_rate": 1.0}),
                "--when-capped: it needs --request-rate with --concurrency",
            ),
            (json!({"model": "a,b"}), "--model: a run measures one"),
            (json!({"model": ["a", "b"]}), "--model: a run measures one"),
            (json!({"model": ""}), "--model: a name"),
            (json!({"url": "http://"}), "--url"),
            (json!({"endpoint": "v1/a b"}), "--endpoint: a path"),
            (
                json!({"endpoint": "http://h/v1"}),
                "--endpoint: give a path",
            ),
            (json!({"goodput": "time_to_first_token"}), "--goodput"),
            (json!({"goodput": "time_to_first_token:100"}), "--goodput"),
            (json!({"header": "novalue"}), "--header"),
            (json!({"cores": "x"}), "--cores"),
            (json!({"export_level": "x"}), "--export-level"),
            (json!({"artifact_format": "x"}), "--artifact-format"),
            (
                json!({"artifact_format": "genai-perf", "export_level": "summary"}),
                "--artifact-format",
            ),
            (
                json!({"output_tokens_mean_deterministic": true}),
                "--output-tokens-mean",
            ),
            (json!({"demo": true, "url": "h"}), "--demo"),
            (
                json!({"profile_export_prefix": "a/b"}),
                "--profile-export-prefix",
            ),
        ]);
    }

    #[test]
    fn what_connections_cannot_be_names_its_flag() {
        are_refused([
            (
                json!({"connection_reuse_strategy": "x"}),
                "--connection-reuse-strategy: `x`",
            ),
            (json!({"source_ip": "h"}), "--source-ip: `h` is no IP"),
            (json!({"source_ip": ""}), "--source-ip: it is empty"),
            (json!({"source_ip": "::"}), "--source-ip: `::` is no single"),
            (
                json!({"source_ip": ["10.0.0.1", "10.0.0.2,10.0.0.1"]}),
                "--source-ip: `10.0.0.1` is given twice",
            ),
            (json!({"local_port_range": "9"}), "--local-port-range"),
            (json!({"local_port_range": "9-8"}), "--local-port-range"),
            (json!({"local_port_range": "0-8"}), "--local-port-range"),
            (json!({"tcp_keepalive": 0.5}), "--tcp-keepalive: 0.5 is out"),
            (json!({"tcp_keepalive": 1.5}), "--tcp-keepalive: 1.5 is no"),
            (json!({"tcp_user_timeout": 0.0}), "--tcp-user-timeout"),
            (json!({"tcp_recv_buffer": 0}), "--tcp-recv-buffer"),
            (json!({"tcp_send_buffer": 1 << 31_i64}), "--tcp-send-buffer"),
            (json!({"proxy": "h:1"}), "--proxy: `h:1`"),
            (
                json!({"proxy": "https://u:p@h:1"}),
                "--proxy: `https://<redacted>@h:1`: `https` is not",
            ),
            (
                json!({"proxy": "http://h:1", "no_proxy": "a,10.0.0.0/99"}),
                "--no-proxy: `10.0.0.0/99`",
            ),
            (json!({"demo": true, "proxy": "http://h:1"}), "--demo"),
            (json!({"no_proxy": "h"}), "--no-proxy: it needs --proxy"),
        ]);
    }

    #[test]
    fn workers_max_caps_auto_and_agrees_with_enough_cores() {
        for cores in ["auto", "4", "2,4-6"] {
            let checked = draft(json!({"cores": cores, "workers_max": 4})).check("");
            assert_eq!(checked.unwrap().config.workers_max, Some(4));
        }
    }

    fn extra(value: Value) -> Value {
        let checked = draft(json!({ "extra_inputs": value })).check("").unwrap();
        Value::Object(checked.config.extra_inputs)
    }

    #[test]
    fn extra_inputs_have_the_peers_types() {
        let typed = [
            ("128", json!(128)),
            ("-1", json!(-1)),
            ("0.5", json!(0.5)),
            (".5", json!(0.5)),
            ("1e-3", json!(0.001)),
            ("007", json!("007")),
            ("1.2.3", json!("1.2.3")),
            ("x,y", json!("x,y")),
            ("True", json!(true)),
            ("None", Value::Null),
            (r#"["a","b:c"]"#, json!(["a", "b:c"])),
            (r#"{"type":"json_object"}"#, json!({"type": "json_object"})),
            ("\"7\"", json!("7")),
            ("", json!("")),
        ];
        for (text, value) in typed {
            assert_eq!(extra(json!(format!("k:{text}"))), json!({ "k": value }));
        }
        assert_eq!(
            extra(json!(["bare", "a:1,b:x", r#"{"a": "2"}"#])),
            json!({"bare": null, "a": "2", "b": "x"})
        );
    }

    #[test]
    fn headers_come_in_every_form_and_the_last_of_a_name_wins() {
        let of = |value| {
            let draft = draft(json!({ "header": value }));
            draft.check("").map(|checked| checked.config.headers)
        };
        let expected = Ok(vec![
            ("A".to_string(), "b".to_string()),
            ("C".into(), "1".into()),
        ]);
        for given in [
            json!(["A:b", "C: 1"]),
            json!(r#"{"A":"b","C":1}"#),
            json!({"A": "b", "C": 1}),
            json!(["a:x", "A: b", "C:1"]),
        ] {
            assert_eq!(of(given.clone()), expected, "{given}");
        }
        let whole = of(json!("X-Ctx: user=1,ts:5"));
        assert_eq!(whole, Ok(vec![("X-Ctx".into(), "user=1,ts:5".into())]));
        for given in [
            "novalue",
            "a b: c",
            "a: b\r\nc: d",
            r#"{"a": []}"#,
            "Host: h",
        ] {
            assert!(of(json!(given)).is_err(), "{given}");
        }
    }
}
