//! Flags of the peers that are known and not served: each is refused by a line of its own, never
//! taken for a typing error and never ignored.

/// Served by a later version.
const LATER: &str = "\
    accuracy-benchmark accuracy-enable-cot accuracy-grader accuracy-n-shots \
    accuracy-system-prompt accuracy-tasks accuracy-verbose agentic-cache-warmup-duration \
    agentic-warmup-grace-period allow-dataset-wrap api-host api-port apply-chat-template \
    arrival-smoothness audio-batch-size audio-depths audio-format audio-length-mean \
    audio-length-stddev audio-num-channels audio-sample-rates auto-plot batch-size \
    batch-size-audio batch-size-image batch-size-text batch-size-video \
    bo-constraint-mode burst-phase-starts cache-bust checkpoint-dir concurrency-max \
    concurrency-min concurrency-ramp-duration concurrency-steps confidence-level \
    connection-reuse-strategy convergence-metric convergence-mode convergence-stat \
    convergence-threshold conversation-num conversation-turn-delay-mean \
    conversation-turn-delay-ratio conversation-turn-delay-stddev conversation-turn-mean \
    conversation-turn-stddev custom-dataset-type dataset-filter \
    dataset-sampling-strategy degradation-metric-tag degradation-stat \
    degradation-threshold download-video-content e2e-sla-ms enable-checkpointing \
    error-rate-sla export-http-trace export-outputs-json failed-request-threshold \
    fixed-schedule fixed-schedule-auto-offset fixed-schedule-end-offset \
    fixed-schedule-start-offset force-min-tokens gen-ai-provider  \
    hf-subset hf-weka-dataset ignore-trace-delays image-batch-size image-format \
    image-height-mean image-height-stddev image-source image-source-sampling \
    image-width-mean image-width-stddev input-file inter-turn-delay-cap-seconds \
    isl-block-size isl-max isl-min isl-osl-pairs isl-steps itl-sla-ms max-context-length \
    max-idle-gap-cap-seconds measurement-interval mlflow-artifact-glob mlflow-experiment \
    mlflow-parent-run-id mlflow-run-name mlflow-tag mlflow-tracking-uri \
    model-selection-strategy network-latency-automatic network-latency-mean \
    network-latency-ping-interval no-fixed-schedule no-sweep-table num-conversations \
    num-prefix-prompts num-profile-runs num-sessions num-users num-warmup-sessions \
    omit-kv-hints open-loop-replay open-loop-strict optuna-acquisition optuna-sampler \
    optuna-terminator osl-max osl-min osl-steps otel-resource-attributes otel-url \
    parameter-sweep-cooldown-seconds parameter-sweep-mode parameter-sweep-same-seed \
    per-chunk-usage plot-required prefill-concurrency prefill-concurrency-ramp-duration \
    prefix-prompt-length prefix-prompt-pool-size profile-run-cooldown-seconds \
    profile-run-disable-warmup-after-first prompt-batch-size prompt-corpus \
    prompt-input-tokens-block-size prompt-prefix-length prompt-prefix-pool-size \
    public-dataset random-corpus-style random-range-ratio rankings-passages-mean \
    rankings-passages-prompt-token-mean rankings-passages-prompt-token-stddev \
    rankings-passages-stddev rankings-query-prompt-token-mean \
    rankings-query-prompt-token-stddev replay-speedup request-cancellation-delay \
    request-cancellation-rate request-content-type request-rate-ramp-duration \
    request-rate-series reset-kv-cache reset-kv-cache-path \
    reset-kv-cache-timeout-seconds scenario search-direction search-initial-points \
    search-max-iterations search-metric search-percentile-pooling search-planner \
    search-random-seed search-recipe search-sla search-sla-tier search-space search-stat \
    search-style seq-dist sequence-distribution server-metrics server-metrics-formats \
    server-metrics-url server-metrics-urls server-profiler server-profiler-start-path \
    server-profiler-stop-path server-profiler-timeout-seconds session-concurrency \
    session-delay-ratio session-header session-turn-delay-mean session-turn-delay-stddev \
    session-turns-mean session-turns-stddev set-consistent-seed \
    shared-system-prompt-length show-trace-timing slice-duration slo-attainment-fraction \
    stability-percentage stats-interval stream sweep-list sweep-range sweep-type \
    sweep-variant synthesis-max-isl synthesis-max-osl synthesis-output-len-multiplier \
    synthesis-prefix-len-multiplier synthesis-prefix-root-multiplier \
    synthesis-prompt-len-multiplier synthesis-speedup-ratio \
    synthetic-input-tokens-block-size system-idle-gap-cap-seconds system-prompt \
    system-prompt-file tokenizer-revision tpot-sla-ms trace-idle-gap-cap-seconds \
    trace-session-sample-ratio trajectory-start-max-ratio trajectory-start-min-ratio \
    ttft-sla-ms unsafe-override url-strategy use-think-time-only user-centric-rate \
    user-context-prompt-length uuid-and-strip variant vary-seed-per-trial \
    video-audio-codec video-audio-depth video-audio-num-channels video-audio-sample-rate \
    video-batch-size video-codec video-duration video-format video-fps video-height \
    video-synth-type video-width vllm-burstiness wait-for-model-interval \
    wait-for-model-mode wandb-entity wandb-project wandb-run-name wandb-tag \
    warmup-arrival-pattern warmup-concurrency warmup-concurrency-ramp-duration \
    warmup-duration warmup-grace-period warmup-prefill-concurrency \
    warmup-prefill-concurrency-ramp-duration warmup-request-rate \
    warmup-request-rate-ramp-duration";

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
        "tokenizer-trust-remote-code",
        "no code of a tokenizer is run; leave it out",
    ),
];

/// Why a flag (without dashes) is refused; `None` when it is not a peer's.
pub fn reason(flag: &str) -> Option<&'static str> {
    if let Some((_, reason)) = NEVER.iter().find(|(name, _)| *name == flag) {
        return Some(reason);
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
        assert!(reason("input-file").unwrap().contains("later"));
        assert!(reason("zmq-host").unwrap().contains("one process"));
        assert_eq!(reason("concurency"), None);
        let served = crate::cli::flags::command();
        for arg in served.get_arguments() {
            for name in arg.get_long_and_visible_aliases().unwrap_or_default() {
                assert_eq!(reason(name), None, "--{name} is served and refused");
            }
        }
    }
}
