//! The `input_config` block: AIPerf's shape for what a run has here.

use super::RunInfo;
use crate::base::Ns;
use crate::config::{
    Config, ExportLevel, GpuSource, GpuTelemetry, Lengths, Level, MetricsFormat, Pattern,
    PhaseSpec, Ramp, RampKind, ServerMetrics, TokenizerSource, Ui, Url, hide_target,
};
use crate::stats::Summary;
use serde_json::{Map, Value, json};

/// The tokenizer's name as the run gave it, or the file that was asked for.
pub(super) fn tokenizer(summary: &Summary, config: &Config) -> String {
    match &config.tokenizer.source {
        TokenizerSource::Named(name) => name.clone(),
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
        gpu_telemetry(config.gpu_telemetry.as_ref()),
    );
    out.insert(
        "server_metrics".into(),
        server_metrics(config.server_metrics.as_ref()),
    );
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

fn gpu_telemetry(gpus: Option<&GpuTelemetry>) -> Value {
    let Some(gpus) = gpus else {
        return json!({"enabled": false});
    };
    let collector = match gpus.source {
        GpuSource::Auto => "auto",
        GpuSource::Nvml => "pynvml",
        GpuSource::Dcgm => "dcgm",
        GpuSource::AmdSmi => "amdsmi",
    };
    json!({
        "enabled": true,
        "urls": shown(&gpus.urls),
        "collector": collector,
        "mode": "summary",
    })
}

fn server_metrics(metrics: Option<&ServerMetrics>) -> Value {
    let Some(metrics) = metrics else {
        return json!({"enabled": false});
    };
    let format = |format: &MetricsFormat| match format {
        MetricsFormat::Json => "json",
        MetricsFormat::Csv => "csv",
        MetricsFormat::Jsonl => "jsonl",
    };
    let formats: Vec<&str> = metrics.formats.iter().map(format).collect();
    json!({"enabled": true, "urls": shown(&metrics.urls), "formats": formats})
}

fn shown(urls: &[Url]) -> Vec<String> {
    urls.iter().map(Url::origin_shown).collect()
}

fn endpoint(config: &Config, run: &RunInfo) -> Value {
    let mut out = json!({
        "urls": run.urls,
        "type": config.api.name(),
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
    if config.contents.texts != 1 {
        prompts["batch_size"] = config.contents.texts.into();
    }
    out.insert("prompts".into(), prompts);
    if let Some(images) = &config.contents.images {
        let mut shown = json!({"batch_size": images.count});
        if let Some((width, height)) = images.size {
            shown["width"] = lengths(width);
            shown["height"] = lengths(height);
        }
        out.insert("images".into(), shown);
    }
    if let Some(audio) = &config.contents.audios {
        let khz = audio.rates_hz.iter().map(|&hz| f64::from(hz) / 1e3);
        let khz: Vec<f64> = khz.collect();
        let shown = json!({
            "batch_size": audio.count,
            "length": lengths(audio.seconds),
            "format": "wav",
            "depths": audio.depths,
            "sample_rates": khz,
            "channels": audio.channels,
        });
        out.insert("audio".into(), shown);
    }
    if let Some(ranking) = &config.contents.ranking {
        let shown = json!({
            "passages": lengths(ranking.passages),
            "passage_tokens": lengths(ranking.passage),
            "query_tokens": lengths(ranking.query),
        });
        out.insert("rankings".into(), shown);
    }
    Value::Object(out)
}

fn phases(config: &Config) -> Value {
    config.phases.iter().map(phase).collect()
}

/// A phase with AIPerf's keys, and those of ours in its manner.
fn phase(phase: &PhaseSpec) -> Value {
    let kind = if phase.measured {
        "profiling"
    } else {
        "warmup"
    };
    let load = &phase.load;
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| {
        if !value.is_null() {
            out.insert(name.into(), value);
        }
    };
    set("name", phase.name.as_str().into());
    set("kind", kind.into());
    let law = load.rate.as_ref().map(|rate| rate.pattern);
    set("type", law.map_or("concurrency", Pattern::name).into());
    set("requests", phase.requests.into());
    set("sessions", phase.sessions.into());
    if let Some(duration) = phase.duration {
        set("duration", duration.as_secs().into());
        set("grace_period", phase.grace.map(Ns::as_secs).into());
    }
    // An endless rate is no number of JSON's.
    set("rate", load.rate_per_s().into());
    if let Some(Pattern::Gamma(shape)) = law {
        set("smoothness", shape.into());
    }
    let ramp = |ramp: Option<Ramp>| {
        ramp.map(|ramp| json!({"type": name(ramp.kind), "duration": ramp.over.as_secs()}))
    };
    set(
        "rate_ramp",
        load.rate.as_ref().and_then(|rate| ramp(rate.ramp)).into(),
    );
    let most = |level: Option<Level>| Value::from(level.map(|level| level.most));
    let up = |level: Option<Level>| Value::from(level.and_then(|level| ramp(level.ramp)));
    set("concurrency", most(load.concurrency));
    set("concurrency_ramp", up(load.concurrency));
    set("prefill_concurrency", most(load.prefill));
    set("prefill_ramp", up(load.prefill));
    set("concurrency_per_url", load.per_url.into());
    if !phase.measured {
        set("exclude_from_results", true.into());
    }
    out.into()
}

fn name(kind: RampKind) -> &'static str {
    match kind {
        RampKind::Linear => "linear",
        RampKind::Exponential => "exponential",
        RampKind::Poisson => "poisson",
    }
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
    if let Some(length) = config.slice_duration {
        out["slice_duration"] = length.as_secs().into();
    }
    out["auto_plot"] = config.generate_plots.into();
    out["plot_required"] = false.into();
    out
}
