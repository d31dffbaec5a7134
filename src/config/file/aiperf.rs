//! AIPerf's files: its Config 2.0, under `benchmark:` or flat, in camel case or not, and the
//! `input_config` of its reports.

use super::aiperf_phases as phases;
use super::paths::{As, Given, Out, Row, To, snake};
use super::tree::{Fault, Node, Tree};
use serde_json::Value;

use As::{It, Not, Seconds, Text};
use To::{Code, Flag, Ignored, Nothing, Refused};

const PLOTS: &str = "--generate-plots makes plots; leave it out";
const FILES: &str = "only the files of a run are written; leave it out";
const PROCESSES: &str = "there is one process";

/// What takes part in a file of AIPerf's; paths without `benchmark`.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("accuracy.benchmark", Flag("accuracy-benchmark", Text, None)),
    ("artifacts.auto_plot", Flag("auto-plot", It, Some("false"))),
    ("artifacts.dir", Flag("artifact-dir", Text, None)),
    ("artifacts.export_outputs_json", Flag("export-outputs-json", It, Some("false"))),
    ("artifacts.plot_required", Flag("plot-required", It, Some("false"))),
    ("artifacts.prefix", Flag("profile-export-prefix", Text, None)),
    ("artifacts.raw", Code(raw)),
    ("artifacts.records", Code(records)),
    ("artifacts.show_trace_timing", Flag("show-trace-timing", It, Some("false"))),
    ("artifacts.slice_duration", Flag("slice-duration", Seconds, None)),
    ("artifacts.summary", Nothing),
    ("artifacts.trace", Flag("export-http-trace", It, Some("false"))),
    ("artifacts.user_files", Refused(FILES, None)),
    ("dataset", Code(datasets)),
    ("datasets", Code(datasets)),
    ("endpoint.api_key", Flag("api-key", Text, None)),
    ("endpoint.connection_reuse", Flag("connection-reuse-strategy", It, None)),
    ("endpoint.download_video_content", Flag("download-video-content", It, Some("false"))),
    ("endpoint.extra", Code(extra)),
    ("endpoint.headers", Flag("header", It, None)),
    ("endpoint.path", Flag("endpoint", Text, None)),
    ("endpoint.per_chunk_usage", Flag("per-chunk-usage", It, Some("false"))),
    ("endpoint.request_content_type", Flag("request-content-type", It, None)),
    ("endpoint.reset_kv_cache", Code(reset_kv_cache)),
    ("endpoint.server_profiler", Code(server_profiler)),
    ("endpoint.session_header", Flag("session-header", Text, None)),
    ("endpoint.streaming", Flag("streaming", It, None)),
    ("endpoint.template", Code(template)),
    ("endpoint.timeout", Flag("request-timeout-seconds", Seconds, None)),
    ("endpoint.transport", Flag("transport", It, Some("http"))),
    ("endpoint.type", Flag("endpoint-type", It, None)),
    ("endpoint.url", Flag("url", It, None)),
    ("endpoint.url_strategy", Flag("url-strategy", It, Some("round_robin"))),
    ("endpoint.urls", Flag("url", It, None)),
    ("endpoint.use_legacy_max_tokens", Flag("use-legacy-max-tokens", It, None)),
    ("endpoint.use_server_token_count", Flag("use-server-token-count", It, None)),
    ("endpoint.uuid_and_strip", Flag("uuid-and-strip", It, Some("false"))),
    ("endpoint.wait_for_model_interval", Flag("wait-for-model-interval", Seconds, Some("5"))),
    ("endpoint.wait_for_model_mode", Flag("wait-for-model-mode", It, Some("inference"))),
    ("endpoint.wait_for_model_timeout", Flag("wait-for-model-timeout", Seconds, Some("0"))),
    ("gpu_telemetry", Code(gpu_telemetry)),
    ("logging.level", Flag("log-level", It, Some("INFO"))),
    ("metrics", Refused("every metric is reported; leave it out", None)),
    ("mlflow", Refused("nothing is sent to MLflow: upload the run's folder", None)),
    ("model", Flag("model", It, None)),
    ("models", Code(models)),
    ("multi_run.confidence_level", Flag("confidence-level", It, None)),
    ("multi_run.convergence.metric", Flag("convergence-metric", Text, None)),
    ("multi_run.convergence.min_runs", Ignored("three runs are made at the least", Some("2"))),
    ("multi_run.convergence.mode", Flag("convergence-mode", It, None)),
    ("multi_run.convergence.stat", Flag("convergence-stat", It, None)),
    ("multi_run.convergence.threshold", Flag("convergence-threshold", It, None)),
    ("multi_run.cooldown_seconds", Flag("profile-run-cooldown-seconds", It, Some("0"))),
    ("multi_run.disable_warmup_after_first",
        Flag("profile-run-disable-warmup-after-first", It, None)),
    ("multi_run.num_runs", Flag("num-profile-runs", It, None)),
    ("multi_run.set_consistent_seed", Flag("set-consistent-seed", It, None)),
    ("multi_run.vary_seed_per_trial", Flag("vary-seed-per-trial", It, Some("false"))),
    ("network_latency.enabled", Flag("network-latency-automatic", It, Some("false"))),
    ("network_latency.mean_ms", Flag("network-latency-mean", It, None)),
    ("network_latency.ping_interval", Flag("network-latency-ping-interval", It, None)),
    ("no_sweep_table", Flag("no-sweep-table", It, None)),
    ("otel", Refused("nothing is sent to OpenTelemetry: upload the run's folder", None)),
    ("phases", Code(phases::list)),
    ("plot", Refused(PLOTS, None)),
    ("profiling", Code(phases::one)),
    ("random_seed", Flag("random-seed", It, None)),
    ("runtime.api_host", Flag("api-host", It, None)),
    ("runtime.api_port", Flag("api-port", It, None)),
    ("runtime.communication", Ignored(PROCESSES, None)),
    ("runtime.record_processors", Flag("record-processors", It, None)),
    ("runtime.record_processors_per_pod", Ignored(PROCESSES, None)),
    ("runtime.service_run_type", Ignored(PROCESSES, Some("multiprocessing"))),
    ("runtime.stats_interval", Flag("stats-interval", It, None)),
    ("runtime.ui", Flag("ui", It, Some("auto"))),
    ("runtime.workers", Flag("workers-max", It, None)),
    ("runtime.workers_min", Ignored(PROCESSES, None)),
    ("runtime.workers_per_pod", Ignored(PROCESSES, None)),
    ("scenario", Flag("scenario", It, None)),
    ("schema_version", Code(schema_version)),
    ("server_metrics.discovery", Refused("--server-metrics names the pages", None)),
    ("server_metrics.enabled", Flag("", Not("no-server-metrics"), Some("true"))),
    ("server_metrics.formats", Flag("server-metrics-formats", It, None)),
    ("server_metrics.urls", Flag("server-metrics", It, None)),
    ("slos", Code(slos)),
    // Read last: what it varies wins over what stands elsewhere.
    ("sweep", Nothing),
    ("tokenizer.apply_chat_template", Flag("apply-chat-template", It, Some("false"))),
    ("tokenizer.name", Code(tokenizer)),
    ("tokenizer.revision", Flag("tokenizer-revision", Text, Some("main"))),
    ("tokenizer.trust_remote_code", Flag("tokenizer-trust-remote-code", It, Some("false"))),
    ("unsafe_override", Flag("unsafe-override", It, Some("false"))),
    ("variables", Refused("no templates are filled in: write the values, or ${NAME}", None)),
    ("wandb", Refused("nothing is sent to W&B: upload the run's folder", None)),
    ("warmup", Code(phases::one)),
];

/// Of a data set.
#[rustfmt::skip]
const DATASET: &[Row] = &[
    ("audio.batch_size", Flag("audio-batch-size", It, Some("0"))),
    ("audio.channels", Flag("audio-num-channels", It, Some("1"))),
    ("audio.depths", Flag("audio-depths", It, None)),
    ("audio.format", Flag("audio-format", It, None)),
    ("audio.length", Flag("audio-length-mean", As::Normal("audio-length-stddev"), None)),
    ("audio.sample_rates", Flag("audio-sample-rates", It, None)),
    ("cache_bust.target", Flag("cache-bust", It, Some("none"))),
    ("dataset", Flag("public-dataset", It, None)),
    ("entries", Flag("num-dataset-entries", It, None)),
    ("filters", Flag("dataset-filter", It, None)),
    ("force_min_tokens", Flag("force-min-tokens", It, Some("true"))),
    ("format", Flag("custom-dataset-type", It, None)),
    ("hf_subset", Flag("hf-subset", It, None)),
    ("hf_weka_dataset", Flag("hf-weka-dataset", It, None)),
    ("ignore_trace_delays", Flag("ignore-trace-delays", It, Some("false"))),
    ("images.batch_size", Flag("image-batch-size", It, Some("0"))),
    ("images.format", Flag("image-format", It, None)),
    ("images.height", Flag("image-height-mean", As::Normal("image-height-stddev"), None)),
    ("images.source", Flag("image-source", It, Some("noise"))),
    ("images.source_sampling", Flag("image-source-sampling", It, None)),
    ("images.width", Flag("image-width-mean", As::Normal("image-width-stddev"), None)),
    ("inter_turn_delay_cap_seconds", Flag("inter-turn-delay-cap-seconds", It, None)),
    ("isl", Flag("isl", As::Normal("isl-stddev"), None)),
    ("max_context_length", Flag("max-context-length", It, None)),
    ("max_idle_gap_cap_seconds", Flag("max-idle-gap-cap-seconds", It, None)),
    ("name", Nothing),
    ("omit_kv_hints", Flag("omit-kv-hints", It, Some("false"))),
    ("open_loop_replay", Flag("open-loop-replay", It, Some("true"))),
    ("open_loop_strict", Flag("open-loop-strict", It, Some("false"))),
    ("osl", Flag("osl", As::Normal("osl-stddev"), None)),
    ("path", Flag("input-file", Text, None)),
    ("prefix_prompts.length", Flag("prefix-prompt-length", It, Some("0"))),
    ("prefix_prompts.pool_size", Flag("num-prefix-prompts", It, Some("0"))),
    ("prefix_prompts.shared_system_length", Flag("shared-system-prompt-length", It, None)),
    ("prefix_prompts.user_context_length", Flag("user-context-prompt-length", It, None)),
    ("prompts.batch_size", Flag("prompt-batch-size", It, Some("1"))),
    ("prompts.block_size", Flag("isl-block-size", It, None)),
    ("prompts.cache_bust.target", Flag("cache-bust", It, Some("none"))),
    ("prompts.corpus", Flag("prompt-corpus", It, None)),
    ("prompts.isl", Flag("isl", As::Normal("isl-stddev"), None)),
    ("prompts.osl", Flag("osl", As::Normal("osl-stddev"), None)),
    ("prompts.random_corpus_style", Flag("random-corpus-style", It, Some("vllm"))),
    ("prompts.random_range_ratio", Flag("random-range-ratio", It, None)),
    ("prompts.sequence_distribution", Flag("sequence-distribution", It, None)),
    ("random_seed", Flag("random-seed", It, None)),
    ("rankings.passage_tokens", Flag("rankings-passages-prompt-token-mean",
        As::Normal("rankings-passages-prompt-token-stddev"), None)),
    ("rankings.passages",
        Flag("rankings-passages-mean", As::Normal("rankings-passages-stddev"), None)),
    ("rankings.query_tokens", Flag("rankings-query-prompt-token-mean",
        As::Normal("rankings-query-prompt-token-stddev"), None)),
    ("records", Refused("write them into a file, and give its path", None)),
    ("replay_speedup", Flag("replay-speedup", It, None)),
    ("sampling", Flag("dataset-sampling-strategy", It, Some("sequential"))),
    ("synthesis.speedup_ratio", Flag("synthesis-speedup-ratio", It, Some("1"))),
    ("synthesis.max_isl", Flag("synthesis-max-isl", It, None)),
    ("synthesis.max_osl", Flag("synthesis-max-osl", It, None)),
    ("synthesis.output_len_multiplier", Flag("synthesis-output-len-multiplier", It, Some("1"))),
    ("synthesis.prefix_len_multiplier", Flag("synthesis-prefix-len-multiplier", It, Some("1"))),
    ("synthesis.prefix_root_multiplier", Flag("synthesis-prefix-root-multiplier", It, Some("1"))),
    ("synthesis.prompt_len_multiplier", Flag("synthesis-prompt-len-multiplier", It, Some("1"))),
    ("system_prompt", Flag("system-prompt", It, None)),
    ("system_prompt_file", Flag("system-prompt-file", It, None)),
    ("trace_session_sample_ratio", Flag("trace-session-sample-ratio", It, None)),
    ("turn_delay", Flag("session-turn-delay-mean", As::Normal("session-turn-delay-stddev"), None)),
    ("turn_delay_ratio", Flag("session-delay-ratio", It, Some("1"))),
    ("turns", Flag("session-turns-mean", As::Normal("session-turns-stddev"), None)),
    ("type", Nothing),
    ("use_think_time_only", Flag("use-think-time-only", It, Some("false"))),
    ("video.batch_size", Flag("video-batch-size", It, Some("0"))),
    ("video.duration", Flag("video-duration", It, None)),
    ("video.format", Flag("video-format", It, None)),
    ("video.fps", Flag("video-fps", It, None)),
    ("video.height", Flag("video-height", It, None)),
    ("video.synth_type", Flag("video-synth-type", It, None)),
    ("video.width", Flag("video-width", It, None)),
];

#[cfg(test)]
pub(super) const TABLES: &[&[Row]] = &[TABLE, DATASET];

/// True for a file of AIPerf's: keys that no file of ours has, or a map where ours has a word.
pub(super) fn is(root: &Node) -> bool {
    const THEIRS: [&str; 17] = [
        "artifacts",
        "benchmark",
        "dataset",
        "datasets",
        "logging",
        "mlflow",
        "models",
        "multi_run",
        "network_latency",
        "otel",
        "profiling",
        "runtime",
        "schema_version",
        "slos",
        "sweep",
        "variables",
        "wandb",
    ];
    root.members().iter().any(|(name, node)| {
        let name = snake(name);
        THEIRS.contains(&&*name)
            || node.is_map() && matches!(&*name, "endpoint" | "tokenizer" | "warmup" | "phases")
    })
}

/// What such a file asks for, or its first fault.
pub(super) fn given(root: &Node) -> Result<Vec<Given>, Fault> {
    no_templates(root, "")?;
    let mut members = Vec::new();
    for (name, node) in root.members() {
        match name == "benchmark" {
            true => members.extend(node.members().iter().cloned()),
            false => members.push((name.clone(), node.clone())),
        }
    }
    let flat = Node {
        line: root.line,
        value: Tree::Map(members),
    };
    let mut out = Out::default();
    out.walk(&flat, TABLE, "")?;
    phases::arrange(&flat, &mut out)?;
    let sweep = flat.members().iter().find(|(name, _)| name == "sweep");
    if let Some((name, sweep)) = sweep {
        out.below(name, |out| phases::sweep(sweep, out))?;
    }
    Ok(out.given)
}

/// Jinja2 is not filled in; a template of a payload is.
fn no_templates(node: &Node, name: &str) -> Result<(), Fault> {
    if matches!(name, "template" | "extra") {
        return Ok(());
    }
    if node
        .as_str()
        .is_some_and(|text| text.contains("{{") || text.contains("{%"))
    {
        return Err(node.fault("no template is filled in: write the value, or ${NAME:default}"));
    }
    let of_members = |(name, node): &(String, Node)| no_templates(node, name);
    node.members().iter().try_for_each(of_members)?;
    match &node.value {
        Tree::List(items) => items.iter().try_for_each(|item| no_templates(item, "")),
        _ => Ok(()),
    }
}

fn schema_version(node: &Node, out: &mut Out) -> Result<(), Fault> {
    match node.typed().is_some_and(|version| version.starts_with('2')) {
        true => Ok(()),
        false => Err(out.fault(node, "only 2.0 is read: have AIPerf rewrite the file")),
    }
}

fn models(node: &Node, out: &mut Out) -> Result<(), Fault> {
    if let Some(strategy) = node
        .get("strategy")
        .filter(|one| one.as_str() != Some("round_robin"))
    {
        out.below("strategy", |out| {
            out.give_as(strategy, "model-selection-strategy", It)
        })?;
    }
    let items = node.get("items").unwrap_or(node);
    let name = |item: &Node| item.typed().or(item.get("name").and_then(Node::typed));
    let names: Option<Vec<String>> = items.items().iter().map(name).collect();
    match names {
        Some(names) => {
            out.give(items, "model", names);
            Ok(())
        }
        None => Err(out.fault(node, "give a name, or items with a name each")),
    }
}

fn datasets(node: &Node, out: &mut Out) -> Result<(), Fault> {
    match node.items() {
        [one] => out.walk(one, DATASET, ""),
        _ => Err(out.fault(
            node,
            "a run has one data set; give the others runs of their own",
        )),
    }
}

fn extra(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let given = out
        .given
        .iter_mut()
        .find(|given| given.flag == "extra-inputs");
    match (given, node.to_value()) {
        (
            Some(Given {
                value: Value::Object(all),
                ..
            }),
            Value::Object(more),
        ) => all.extend(more),
        (_, value) => out.give(node, "extra-inputs", value),
    }
    Ok(())
}

/// The template of a payload goes with the extra inputs, as on AIPerf's command line.
fn template(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let mut members = Vec::new();
    for (name, child) in node.members() {
        let name = match &*snake(name) {
            "body" => "payload_template",
            "response_field" => "response_field",
            _ => return Err(out.fault(child, "a template has body and response_field")),
        };
        members.push((name.to_string(), child.clone()));
    }
    extra(
        &Node {
            line: node.line,
            value: Tree::Map(members),
        },
        out,
    )
}

fn reset_kv_cache(node: &Node, out: &mut Out) -> Result<(), Fault> {
    #[rustfmt::skip]
    const ROWS: &[Row] = &[
        ("max_retry_seconds", Ignored("it is tried as often as other requests", None)),
        ("path", Flag("reset-kv-cache-path", Text, None)),
        ("timeout_seconds", Flag("reset-kv-cache-timeout-seconds", It, None)),
    ];
    out.give(node, "reset-kv-cache", node.as_bool().unwrap_or(true));
    out.walk(node, ROWS, "")
}

fn server_profiler(node: &Node, out: &mut Out) -> Result<(), Fault> {
    #[rustfmt::skip]
    const ROWS: &[Row] = &[
        ("start_path", Flag("server-profiler-start-path", Text, None)),
        ("stop_path", Flag("server-profiler-stop-path", Text, None)),
        ("timeout_seconds", Flag("server-profiler-timeout-seconds", It, None)),
    ];
    out.give(node, "server-profiler", node.as_bool().unwrap_or(true));
    out.walk(node, ROWS, "")
}

fn raw(node: &Node, out: &mut Out) -> Result<(), Fault> {
    if node.as_bool() == Some(true) {
        out.given.retain(|given| given.flag != "export-level");
        out.give(node, "export-level", "raw");
    }
    Ok(())
}

/// Without records only summaries are written, but for `raw`, which has them.
fn records(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let is_off = node.as_bool() == Some(false) || node.items().is_empty();
    if is_off && !out.given.iter().any(|given| given.flag == "export-level") {
        out.give(node, "export-level", "summary");
    }
    Ok(())
}

/// A report of ours says which one the builtin is.
fn tokenizer(node: &Node, out: &mut Out) -> Result<(), Fault> {
    match node.as_str() {
        Some(name) if name.starts_with("builtin (") => {
            out.give(node, "tokenizer", "builtin");
            Ok(())
        }
        _ => out.give_as(node, "tokenizer", Text),
    }
}

fn slos(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let pair = |(tag, limit): &(String, Node)| Some(format!("{tag}:{}", limit.typed()?));
    let pairs: Option<Vec<String>> = node.members().iter().map(pair).collect();
    match pairs {
        Some(pairs) if pairs.is_empty() => Ok(()),
        Some(pairs) => {
            out.give(node, "goodput", pairs);
            Ok(())
        }
        None => Err(out.fault(node, "give a limit to each metric's tag")),
    }
}

fn gpu_telemetry(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let known = ["enabled", "urls", "collector", "mode", "metrics_file"];
    let other = node
        .members()
        .iter()
        .find(|(name, _)| !known.contains(&&*snake(name)));
    if let Some((name, child)) = other {
        let text = format!("{name}: --gpu-telemetry takes sources only");
        return Err(out.fault(child, &text));
    }
    if node
        .as_bool()
        .or(node.get("enabled").and_then(Node::as_bool))
        == Some(false)
    {
        out.give(node, "no-gpu-telemetry", true);
        return Ok(());
    }
    let urls = node.get("urls").map(Node::items).unwrap_or_default();
    let mut sources: Vec<String> = urls.iter().filter_map(Node::typed).collect();
    // DCGM's pages are AIPerf's default, and need not be there.
    let library = node.get("collector").and_then(Node::as_str);
    sources.extend(
        library
            .filter(|name| !matches!(*name, "dcgm" | "auto"))
            .map(String::from),
    );
    let fields = node.get("metrics_file").or(node.get("metricsFile"));
    sources.extend(fields.and_then(Node::typed));
    if !sources.is_empty() {
        out.give(node, "gpu-telemetry", sources);
    }
    Ok(())
}
