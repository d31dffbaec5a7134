//! Subcommands and flags of the peers that are known and not served: each is refused by a line of
//! its own, never taken for a typing error and never ignored. A few mean nothing here and do no
//! harm: they are accepted with a note.

use std::ffi::OsString;

/// Subcommands that a later version has, the peers' among them.
const SUBCOMMANDS_LATER: &[&str] = &["report", "plot", "trace", "config"];

/// Subcommands of the peers, with what takes their place.
const SUBCOMMANDS_NEVER: &[(&str, &str)] = &[
    (
        "analyze-trace",
        "`trace analyze` comes with a later version",
    ),
    (
        "synthesize",
        "`trace synthesize` comes with a later version",
    ),
    ("validate", "`trace validate` comes with a later version"),
    (
        "create-template",
        "`config init` comes with a later version",
    ),
    (
        "process-export-files",
        "`report` comes with a later version",
    ),
    ("chat", "profile --request-count 1 measures one request"),
    (
        "plugins",
        "there are none; profile --help lists what there is",
    ),
    ("kube", "run `profile` in a pod of your own"),
    ("service", "there is one process; run `profile`"),
    ("proxy", "there is one process; run `profile`"),
    (
        "speed-bench-report",
        "there is no such report; run `profile`",
    ),
];

/// Served by a later version.
const LATER: &str = "\
    accuracy-benchmark accuracy-enable-cot accuracy-grader accuracy-n-shots \
    accuracy-system-prompt accuracy-tasks accuracy-verbose agentic-cache-warmup-duration \
    agentic-warmup-grace-period allow-dataset-wrap api-host api-port apply-chat-template \
    auto-plot burst-phase-starts cache-bust dataset-filter dataset-sampling-strategy \
    download-video-content export-http-trace export-outputs-json force-min-tokens gen-ai-provider \
    hf-subset hf-weka-dataset ignore-trace-delays inter-turn-delay-cap-seconds isl-block-size \
    max-context-length max-idle-gap-cap-seconds mlflow-artifact-glob mlflow-experiment \
    mlflow-parent-run-id mlflow-run-name mlflow-tag mlflow-tracking-uri model-selection-strategy \
    network-latency-automatic network-latency-mean network-latency-ping-interval \
    num-prefix-prompts omit-kv-hints open-loop-replay open-loop-strict otel-resource-attributes \
    otel-url per-chunk-usage plot-required prefix-prompt-length prefix-prompt-pool-size \
    prompt-corpus prompt-input-tokens-block-size prompt-prefix-length prompt-prefix-pool-size \
    public-dataset random-corpus-style random-range-ratio request-content-type scenario seq-dist \
    sequence-distribution shared-system-prompt-length show-trace-timing stats-interval stream \
    synthesis-max-isl synthesis-max-osl synthesis-output-len-multiplier \
    synthesis-prefix-len-multiplier synthesis-prefix-root-multiplier \
    synthesis-prompt-len-multiplier synthetic-input-tokens-block-size system-idle-gap-cap-seconds \
    system-prompt system-prompt-file tokenizer-revision trace-idle-gap-cap-seconds \
    trace-session-sample-ratio trajectory-start-max-ratio trajectory-start-min-ratio \
    unsafe-override url-strategy use-think-time-only user-context-prompt-length uuid-and-strip \
    wandb-entity wandb-project wandb-run-name wandb-tag";

/// Of synthetic videos as input.
const VIDEOS: &str = "\
    batch-size-video video-audio-codec video-audio-depth video-audio-num-channels \
    video-audio-sample-rate video-batch-size video-codec video-duration video-format video-fps \
    video-height video-synth-type video-width";

/// Without a counterpart here, with what to do instead.
const NEVER: &[(&str, &str)] = &[
    (
        "zmq-host",
        "there is one process and no message bus; leave it out",
    ),
    (
        "zmq-ipc-path",
        "there is one process and no message bus; leave it out",
    ),
    (
        "zmq-dual-bind",
        "there is one process and no message bus; leave it out",
    ),
    (
        "record-processors",
        "one thread keeps up with the records; leave it out",
    ),
    (
        "record-processor-service-count",
        "one thread keeps up with the records; leave it out",
    ),
    ("transport", "HTTP/1.1 is the only one; leave it out"),
    ("transport-type", "HTTP/1.1 is the only one; leave it out"),
    ("log-level", "messages go to stderr; --verbose says more"),
    (
        "grpc-method",
        "gRPC is not spoken; --backend uses Triton's HTTP generate extension",
    ),
    (
        "tokenizer-verbosity",
        "the tokenizer says nothing; leave it out",
    ),
    (
        "output-format",
        "--endpoint-type names the API (chat, completions, generate)",
    ),
    ("artifact-directory", "it is called --artifact-dir here"),
    (
        "service-kind",
        "only openai is spoken so; --backend tensorrtllm or vllm speaks to Triton",
    ),
    (
        "optuna-sampler",
        "no sampler draws loads: --search-planner smooth_isotonic fits them",
    ),
    (
        "optuna-acquisition",
        "no sampler draws loads: --search-planner smooth_isotonic fits them",
    ),
    (
        "optuna-terminator",
        "a search ends by its interval; --search-max-iterations ends it sooner",
    ),
    (
        "bo-constraint-mode",
        "conditions are never traded: --search-sla says what must hold",
    ),
    (
        "search-percentile-pooling",
        "each run's own percentile is compared; --sla-precision gives it more requests",
    ),
    (
        "tokenizer-trust-remote-code",
        "no code of a tokenizer is run; leave it out",
    ),
];

/// The line for a subcommand that is known and not served.
pub fn subcommand(name: &str) -> Option<String> {
    if SUBCOMMANDS_LATER.contains(&name) {
        return Some(format!(
            "{name}: it comes with a later version; today: profile, analyze"
        ));
    }
    let (_, reason) = SUBCOMMANDS_NEVER.iter().find(|(known, _)| *known == name)?;
    Some(format!("{name}: {reason}; today: profile, analyze"))
}

/// The line for the first argument of `profile` that is known and not served.
pub fn flag(args: &[&str]) -> Option<String> {
    for (at, arg) in args.iter().enumerate() {
        if *arg == "--" {
            let rest = "arguments after it are perf_analyzer's, which is not run here";
            return Some(format!("--: {rest}; leave them out"));
        }
        let long = arg
            .strip_prefix("--")
            .and_then(|rest| rest.split('=').next());
        let Some(name) = long else {
            continue;
        };
        if is_accepted(args, at).is_some() {
            continue;
        }
        if let Some(reason) = reason(name) {
            return Some(format!("--{name}: {reason}"));
        }
    }
    None
}

/// How many arguments at `at` are a flag that means nothing here.
fn is_accepted(args: &[&str], at: usize) -> Option<usize> {
    match (args.get(at)?, args.get(at + 1)) {
        (&"--service-kind=openai", _) => Some(1),
        (&"--service-kind", Some(&"openai")) => Some(2),
        _ => None,
    }
}

/// The command line of `profile` without accepted flags that mean nothing here, and notes on them.
pub fn without_accepted(args: &[OsString]) -> (Vec<OsString>, Vec<String>) {
    if args
        .get(1)
        .is_none_or(|name| name != "profile" && name != "analyze")
    {
        return (args.to_vec(), Vec::new());
    }
    // What is no text is no such flag.
    let texts: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap_or("")).collect();
    let (mut kept, mut notes, mut at) = (Vec::new(), Vec::new(), 0);
    while at < args.len() {
        match is_accepted(&texts, at) {
            Some(count) => {
                notes.push("--service-kind openai says nothing more than --endpoint-type".into());
                at += count;
            }
            None => {
                kept.push(args[at].clone());
                at += 1;
            }
        }
    }
    (kept, notes)
}

/// Why a flag (without dashes) is refused; `None` when it is not a peer's.
pub fn reason(flag: &str) -> Option<&'static str> {
    if let Some((_, reason)) = NEVER.iter().find(|(name, _)| *name == flag) {
        return Some(reason);
    }
    if flag.starts_with("video-") || flag == "batch-size-video" {
        return VIDEOS
            .split_whitespace()
            .any(|name| name == flag)
            .then_some("no small encoder makes WebM or MP4 here; images and audio are made");
    }
    LATER
        .split_whitespace()
        .any(|name| name == flag)
        .then_some("it comes with a later version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_s_flag_is_known_and_a_typing_error_is_not() {
        assert!(reason("public-dataset").unwrap().contains("later"));
        assert!(reason("zmq-host").unwrap().contains("one process"));
        assert_eq!(reason("concurency"), None);
        let served = crate::cli::flags::command();
        for arg in served.get_arguments() {
            for name in arg.get_long_and_visible_aliases().unwrap_or_default() {
                assert_eq!(reason(name), None, "--{name} is served and refused");
            }
        }
    }

    /// Every flag of the peers, from the references of the project.
    const PEERS: &str = "\
    accuracy-benchmark accuracy-enable-cot accuracy-grader accuracy-n-shots \
    accuracy-system-prompt accuracy-tasks accuracy-verbose agentic-cache-warmup-duration \
    agentic-warmup-grace-period allow-dataset-wrap api-host api-key api-port \
    apply-chat-template arrival-pattern arrival-smoothness artifact-dir artifact-directory \
    audio-batch-size audio-depths audio-format audio-length-mean audio-length-stddev \
    audio-num-channels audio-sample-rates auto-plot backend batch-size batch-size-audio \
    batch-size-image batch-size-text batch-size-video benchmark-duration \
    benchmark-grace-period bo-constraint-mode burst-phase-starts cache-bust checkpoint-dir \
    concurrency concurrency-max concurrency-min concurrency-ramp-duration concurrency-steps \
    confidence-level config connection-reuse-strategy convergence-metric convergence-mode \
    convergence-stat convergence-threshold conversation-num conversation-turn-delay-mean \
    conversation-turn-delay-ratio conversation-turn-delay-stddev conversation-turn-mean \
    conversation-turn-stddev custom-dataset-type custom-endpoint dataset-filter \
    dataset-sampling-strategy degradation-metric-tag degradation-stat degradation-threshold \
    download-video-content e2e-sla-ms enable-checkpointing endpoint endpoint-type \
    error-rate-sla export-http-trace export-level export-outputs-json extra-inputs \
    extra-verbose failed-request-threshold fixed-schedule fixed-schedule-auto-offset \
    fixed-schedule-end-offset fixed-schedule-start-offset force-min-tokens gen-ai-provider \
    generate-plots goodput gpu-telemetry grpc-method header hf-subset hf-weka-dataset \
    ignore-trace-delays image-batch-size image-format image-height-mean image-height-stddev \
    image-source image-source-sampling image-width-mean image-width-stddev input-file \
    inter-turn-delay-cap-seconds isl isl-block-size isl-max isl-min isl-osl-pairs isl-stddev \
    isl-steps itl-sla-ms log-level max-context-length max-idle-gap-cap-seconds max-workers \
    measurement-interval mlflow-artifact-glob mlflow-experiment mlflow-parent-run-id \
    mlflow-run-name mlflow-tag mlflow-tracking-uri model model-names model-selection-strategy \
    network-latency-automatic network-latency-mean network-latency-ping-interval \
    no-fixed-schedule no-gpu-telemetry no-server-metrics no-sweep-table num-conversations \
    num-dataset-entries num-prefix-prompts num-profile-runs num-prompts num-requests \
    num-sessions num-users num-warmup-requests num-warmup-sessions omit-kv-hints \
    open-loop-replay open-loop-strict optuna-acquisition optuna-sampler optuna-terminator osl \
    osl-max osl-min osl-stddev osl-steps otel-resource-attributes otel-url \
    output-artifact-dir output-format output-tokens-mean output-tokens-mean-deterministic \
    output-tokens-stddev parameter-sweep-cooldown-seconds parameter-sweep-mode \
    parameter-sweep-same-seed per-chunk-usage plot-required prefill-concurrency \
    prefill-concurrency-ramp-duration prefix-prompt-length prefix-prompt-pool-size \
    profile-export-file profile-export-level profile-export-prefix \
    profile-run-cooldown-seconds profile-run-disable-warmup-after-first prompt-batch-size \
    prompt-corpus prompt-input-tokens-block-size prompt-input-tokens-mean \
    prompt-input-tokens-stddev prompt-output-tokens-mean prompt-output-tokens-stddev \
    prompt-prefix-length prompt-prefix-pool-size public-dataset random-corpus-style \
    random-range-ratio random-seed rankings-passages-mean rankings-passages-prompt-token-mean \
    rankings-passages-prompt-token-stddev rankings-passages-stddev \
    rankings-query-prompt-token-mean rankings-query-prompt-token-stddev \
    record-processor-service-count record-processors replay-speedup \
    request-cancellation-delay request-cancellation-rate request-content-type request-count \
    request-rate request-rate-mode request-rate-ramp-duration request-rate-series \
    request-timeout-seconds reset-kv-cache reset-kv-cache-path reset-kv-cache-timeout-seconds \
    scenario search-direction search-initial-points search-max-iterations search-metric \
    search-percentile-pooling search-planner search-random-seed search-recipe search-sla \
    search-sla-tier search-space search-stat search-style seq-dist sequence-distribution \
    server-metrics server-metrics-formats server-metrics-url server-metrics-urls \
    server-profiler server-profiler-start-path server-profiler-stop-path \
    server-profiler-timeout-seconds service-kind session-concurrency session-delay-ratio \
    session-header session-turn-delay-mean session-turn-delay-stddev session-turns-mean \
    session-turns-stddev set-consistent-seed shared-system-prompt-length show-trace-timing \
    slice-duration slo-attainment-fraction stability-percentage stats-interval stream \
    streaming sweep-list sweep-range sweep-type sweep-variant synthesis-max-isl \
    synthesis-max-osl synthesis-output-len-multiplier synthesis-prefix-len-multiplier \
    synthesis-prefix-root-multiplier synthesis-prompt-len-multiplier synthesis-speedup-ratio \
    synthetic-input-tokens-block-size synthetic-input-tokens-mean \
    synthetic-input-tokens-stddev system-idle-gap-cap-seconds system-prompt \
    system-prompt-file tokenizer tokenizer-revision tokenizer-trust-remote-code \
    tokenizer-verbosity tpot-sla-ms trace-idle-gap-cap-seconds trace-session-sample-ratio \
    trajectory-start-max-ratio trajectory-start-min-ratio transport transport-type \
    ttft-sla-ms ui ui-type unsafe-override url url-strategy use-legacy-max-tokens \
    use-server-token-count use-think-time-only user-centric-rate user-context-prompt-length \
    uuid-and-strip variant vary-seed-per-trial verbose video-audio-codec video-audio-depth \
    video-audio-num-channels video-audio-sample-rate video-batch-size video-codec \
    video-duration video-format video-fps video-height video-synth-type video-width \
    vllm-burstiness wait-for-model-interval wait-for-model-mode wait-for-model-timeout \
    wandb-entity wandb-project wandb-run-name wandb-tag warmup-arrival-pattern \
    warmup-concurrency warmup-concurrency-ramp-duration warmup-duration warmup-grace-period \
    warmup-prefill-concurrency warmup-prefill-concurrency-ramp-duration warmup-request-count \
    warmup-request-rate warmup-request-rate-ramp-duration workers-max zmq-dual-bind zmq-host \
    zmq-ipc-path";

    #[test]
    fn every_flag_of_both_peers_is_served_or_refused_by_a_line_of_its_own() {
        let served = crate::cli::flags::command();
        let names: Vec<String> = served
            .get_arguments()
            .flat_map(|arg| arg.get_long_and_visible_aliases().unwrap_or_default())
            .map(str::to_string)
            .collect();
        let unknown: Vec<&str> = PEERS
            .split_whitespace()
            .filter(|name| !names.iter().any(|served| served == name) && reason(name).is_none())
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        for short in ["-m", "-u", "-H", "-f", "-g", "-v", "-p", "-s", "-b"] {
            let letter = short.chars().nth(1);
            let has = served.get_arguments().any(|arg| arg.get_short() == letter);
            assert!(has || flag(&[short, "9"]).is_some(), "{short}");
        }
    }

    #[test]
    fn a_line_says_what_to_do_instead() {
        for (args, told) in [
            (&["--service-kind", "triton"][..], "--backend"),
            (&["--service-kind=triton"], "--backend"),
            (&["--output-format", "x"], "--endpoint-type"),
            (&["--artifact-directory", "x"], "--artifact-dir"),
            (&["--tokenizer-verbosity", "1"], "leave it out"),
            (&["--isl", "5", "--", "--async"], "perf_analyzer"),
        ] {
            let line = flag(args).unwrap_or_default();
            assert!(
                line.contains(told) && !line.contains('\n'),
                "{args:?}: {line}"
            );
        }
        assert_eq!(flag(&["--service-kind", "openai", "--isl", "5"]), None);
        let all: Vec<OsString> = ["t", "profile", "--service-kind", "openai", "--isl", "5"]
            .map(OsString::from)
            .to_vec();
        let (kept, notes) = without_accepted(&all);
        assert_eq!(kept, ["t", "profile", "--isl", "5"]);
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn a_subcommand_of_a_later_version_is_no_typing_error() {
        for name in SUBCOMMANDS_LATER {
            assert!(
                subcommand(name)
                    .unwrap()
                    .contains("later version; today: profile, analyze")
            );
        }
        for name in [
            "profile",
            "self-bench",
            "compare",
            "mock",
            "doctor",
            "man",
            "completions",
            "pofile",
        ] {
            assert_eq!(subcommand(name), None, "{name}");
        }
    }
}
