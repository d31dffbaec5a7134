//! The `input_config` block: AIPerf's shape for what a run has here.

use super::RunInfo;
use crate::base::Ns;
use crate::config::{Api, Config, ExportLevel, Lengths, Load, TokenizerSpec, Ui, hide_target};
use crate::stats::Summary;
use serde_json::{Map, Value, json};

/// `chat`, `completions` or `triton-<backend>`.
pub(super) fn endpoint_type(api: Api) -> &'static str {
    match api {
        Api::Chat => "chat",
        Api::Completions => "completions",
        Api::TritonTensorrtllm => "triton-tensorrtllm",
        Api::TritonVllm => "triton-vllm",
    }
}

/// The tokenizer's name as the run gave it, or the file that was asked for.
pub(super) fn tokenizer(summary: &Summary, config: &Config) -> String {
    match &config.tokenizer {
        TokenizerSpec::Path(path) => path.display().to_string(),
        _ if summary.client.tokenizer.is_empty() => "builtin".to_owned(),
        _ => summary.client.tokenizer.clone(),
    }
}

pub(super) fn aiperf(summary: &Summary, config: &Config, run: &RunInfo) -> Value {
    let mut out = Map::new();
    let models: Value = run
        .models
        .iter()
        .map(|name| json!({"name": name}))
        .collect();
    out.insert("models".into(), json!({"items": models}));
    out.insert("endpoint".into(), endpoint(config, run));
    out.insert("datasets".into(), json!([dataset(config)]));
    out.insert("phases".into(), phases(config));
    out.insert("artifacts".into(), artifacts(config, run));
    if !config.goodput.is_empty() {
        let slos: Map<String, Value> = config
            .goodput
            .iter()
            .map(|slo| (slo.tag.clone(), slo.limit.into()))
            .collect();
        out.insert("slos".into(), slos.into());
    }
    let name = tokenizer(summary, config);
    out.insert("tokenizer".into(), json!({"name": name}));
    out.insert(
        "gpu_telemetry".into(),
        json!({"enabled": config.gpu_telemetry}),
    );
    out.insert("server_metrics".into(), json!({"enabled": false}));
    out.insert("network_latency".into(), json!({"enabled": false}));
    for empty in ["otel", "mlflow", "wandb"] {
        out.insert(empty.into(), json!({}));
    }
    let ui = match config.ui {
        Ui::Auto => "auto",
        Ui::Simple => "simple",
        Ui::None => "none",
    };
    out.insert("runtime".into(), json!({"ui": ui}));
    Value::Object(out)
}

fn endpoint(config: &Config, run: &RunInfo) -> Value {
    let mut out = json!({
        "urls": run.urls,
        "type": endpoint_type(config.api),
        "streaming": config.streaming,
    });
    if let Some(path) = &config.path {
        out["path"] = hide_target(path, &mut Vec::new()).into();
    }
    if !config.extra_inputs.is_empty() {
        out["extra"] = config.extra_inputs_shown().into();
    }
    out
}

fn lengths(lengths: Lengths) -> Value {
    if lengths.stddev > 0.0 {
        json!({"mean": lengths.mean, "stddev": lengths.stddev})
    } else {
        json!({"mean": lengths.mean})
    }
}

fn dataset(config: &Config) -> Value {
    let mut out = Map::new();
    out.insert("name".into(), "main".into());
    out.insert("type".into(), "synthetic".into());
    if let Some(entries) = config.dataset_entries {
        out.insert("entries".into(), entries.into());
    }
    out.insert("random_seed".into(), config.seed.into());
    let mut prompts = json!({"isl": lengths(config.isl)});
    if let Some(osl) = config.osl {
        prompts["osl"] = lengths(osl);
    }
    out.insert("prompts".into(), prompts);
    Value::Object(out)
}

fn phases(config: &Config) -> Value {
    let mut out = Vec::new();
    if config.warmup_count > 0 {
        let requests = Some(config.warmup_count);
        let mut warmup = phase("warmup", requests, None, config);
        warmup["exclude_from_results"] = true.into();
        out.push(warmup);
    }
    out.push(phase(
        "profiling",
        config.request_count,
        config.duration,
        config,
    ));
    out.into()
}

fn phase(name: &str, requests: Option<u64>, duration: Option<Ns>, config: &Config) -> Value {
    let mut out = json!({"name": name, "kind": name});
    let (law, rate, concurrency) = match config.load {
        Load::Concurrency(count) => ("concurrency", None, Some(count)),
        Load::Constant { rate_per_s, cap } => ("constant", Some(rate_per_s), cap),
        Load::Poisson { rate_per_s, cap } => ("poisson", Some(rate_per_s), cap),
    };
    out["type"] = law.into();
    if let Some(requests) = requests {
        out["requests"] = requests.into();
    }
    if let Some(duration) = duration {
        out["duration"] = duration.as_secs().into();
        out["grace_period"] = config.grace.as_secs().into();
    }
    if let Some(rate) = rate {
        out["rate"] = rate.into();
    }
    if let Some(concurrency) = concurrency {
        out["concurrency"] = concurrency.into();
    }
    out
}

fn artifacts(config: &Config, run: &RunInfo) -> Value {
    let mut out = json!({"dir": run.artifact_dir});
    if let Some(prefix) = &config.export_prefix {
        out["prefix"] = prefix.as_str().into();
    }
    // Records alone are the default, which AIPerf leaves out.
    if config.export_level == ExportLevel::Raw {
        out["records"] = json!(["jsonl"]);
        out["raw"] = true.into();
    }
    out["auto_plot"] = false.into();
    out["plot_required"] = false.into();
    out
}
