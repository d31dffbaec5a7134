//! What a result depends on: the settings of a command, files by their content, no secrets. A
//! checkpoint is used again only by a command that has the same.

use super::repeats::Repeats;
use super::sweep::{SweepDraft, Variation};
use super::{Config, hide_header, hide_members};
use crate::base::Secrets;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Settings that change no figure: where files go, what is shown, how a secret is told.
const NEUTRAL: &[&str] = &[
    "api_key",
    "artifact_dir",
    "artifact_format",
    "assert",
    "calibrate",
    "dry_run",
    "allow_invalid",
    "export_level",
    "generate_plots",
    "gpu_idle_seconds",
    "gpu_interval",
    "gpu_processes",
    "gpu_telemetry",
    "hf_token",
    "no_gpu_telemetry",
    "no_preflight",
    "no_server_metrics",
    "nvml_library",
    "overwrite",
    "profile_export_prefix",
    "server_metrics",
    "server_metrics_formats",
    "slice_duration",
    "ui",
    "verbose",
    "wait_for_model_interval",
    "wait_for_model_mode",
    "wait_for_model_timeout",
];
/// Settings that name a file or a folder.
const FILES: &[&str] = &["input_file", "request_rate_series", "tokenizer"];

/// Of the settings that all points have in common, and of what makes their prompts alike. Errors: a
/// file cannot be read.
pub(super) fn of(
    run: &Map<String, Value>,
    repeats: &Repeats,
    sweep: &SweepDraft,
    first: &Variation,
) -> Result<Map<String, Value>, String> {
    let mut all = Map::new();
    for (key, value) in run {
        if NEUTRAL.contains(&key.as_str()) {
            continue;
        }
        all.insert(key.clone(), shown(key, value, &first.config));
        if FILES.contains(&key.as_str())
            && let Some(digest) = content(value.as_str().unwrap_or_default())
        {
            all.insert(format!("{key} (its content)"), digest?.into());
        }
    }
    let template = &first.config.by_template.source;
    if !template.is_empty() {
        all.insert(
            "payload_template (its content)".into(),
            template.as_str().into(),
        );
    }
    all.insert("set_consistent_seed".into(), repeats.same_seed.into());
    let same = sweep.parameter_sweep_same_seed.unwrap_or(false);
    all.insert("parameter_sweep_same_seed".into(), same.into());
    let first_only = repeats.warms_first_only;
    all.insert(
        "profile_run_disable_warmup_after_first".into(),
        first_only.into(),
    );
    let mut shown = Value::Object(all);
    Secrets::new(first.config.secrets()).mask_value(&mut shown);
    match shown {
        Value::Object(all) => Ok(all),
        _ => Ok(Map::new()),
    }
}

/// A setting as it may lie in a file: a header by its name, by its value where that is harmless.
fn shown(key: &str, value: &Value, config: &Config) -> Value {
    let mut hidden = Vec::new();
    if key == "header" {
        let each = config.headers.iter();
        return each
            .map(|(name, value)| format!("{name}: {}", hide_header(name, value, &mut hidden)))
            .collect();
    }
    let mut value = value.clone();
    hide_members(&mut value, &mut hidden);
    value
}

/// SHA-256 of a file, or of the `tokenizer.json` in a folder; `None` where there is neither.
fn content(path: &str) -> Option<Result<String, String>> {
    let path = Path::new(path);
    let path = match path.is_dir() {
        true => path.join("tokenizer.json"),
        false => path.to_path_buf(),
    };
    let mut file = File::open(&path).ok()?;
    Some(digest(&mut file).map_err(|error| format!("{}: {error}", path.display())))
}

fn digest(file: &mut File) -> std::io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 256 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    let hex = |byte: &u8| format!("{byte:02x}");
    Ok(hash.finalize().iter().map(hex).collect())
}
