//! Settings as typed, by flag or in a file, before they are checked. Absent means not said.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// One value or several, as files and flags may have it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Many {
    /// Several.
    List(Vec<String>),
    /// One.
    One(String),
}

impl Many {
    /// As a list.
    pub fn list(&self) -> Vec<String> {
        match self {
            Many::List(list) => list.clone(),
            Many::One(one) => vec![one.clone()],
        }
    }
}

impl From<&str> for Many {
    fn from(one: &str) -> Many {
        Many::One(one.into())
    }
}

/// Every setting that a flag or a file can give; keys are the flags' first names with
/// underscores.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[expect(
    missing_docs,
    reason = "each is documented as its flag in `cli::flags`"
)]
pub struct Draft {
    pub model: Option<Many>,
    pub endpoint_type: Option<String>,
    pub endpoint: Option<String>,
    pub backend: Option<String>,
    pub url: Option<Many>,
    pub demo: Option<bool>,
    pub streaming: Option<bool>,
    pub concurrency: Option<i64>,
    #[serde(deserialize_with = "rate")]
    pub request_rate: Option<f64>,
    pub request_rate_ramp_duration: Option<f64>,
    pub request_rate_series: Option<String>,
    pub arrival_pattern: Option<String>,
    pub arrival_smoothness: Option<f64>,
    pub arrival_normalize: Option<bool>,
    pub concurrency_ramp_duration: Option<f64>,
    pub prefill_concurrency: Option<i64>,
    pub prefill_concurrency_ramp_duration: Option<f64>,
    pub concurrency_per_url: Option<i64>,
    pub ramp_shape: Option<String>,
    pub when_capped: Option<String>,
    pub when_late: Option<String>,
    pub request_count: Option<i64>,
    pub benchmark_duration: Option<f64>,
    pub benchmark_grace_period: Option<f64>,
    pub num_sessions: Option<i64>,
    pub user_centric_rate: Option<f64>,
    pub num_users: Option<i64>,
    pub input_file: Option<String>,
    pub custom_dataset_type: Option<String>,
    pub fixed_schedule: Option<bool>,
    pub fixed_schedule_auto_offset: Option<bool>,
    pub fixed_schedule_start_offset: Option<f64>,
    pub fixed_schedule_end_offset: Option<f64>,
    pub trace_speedup: Option<f64>,
    pub trace_jitter: Option<bool>,
    pub session_turns_mean: Option<f64>,
    pub session_turns_stddev: Option<f64>,
    pub session_turn_delay_mean: Option<f64>,
    pub session_turn_delay_stddev: Option<f64>,
    pub session_delay_ratio: Option<f64>,
    pub session_header: Option<String>,
    pub warmup_request_count: Option<i64>,
    pub num_warmup_sessions: Option<i64>,
    pub warmup_duration: Option<f64>,
    pub warmup_grace_period: Option<f64>,
    pub warmup_drain: Option<bool>,
    pub warmup_concurrency: Option<i64>,
    pub warmup_concurrency_ramp_duration: Option<f64>,
    pub warmup_prefill_concurrency: Option<i64>,
    pub warmup_prefill_concurrency_ramp_duration: Option<f64>,
    #[serde(deserialize_with = "rate")]
    pub warmup_request_rate: Option<f64>,
    pub warmup_request_rate_ramp_duration: Option<f64>,
    pub warmup_arrival_pattern: Option<String>,
    pub phases: Option<Vec<PhaseDraft>>,
    pub isl: Option<f64>,
    pub isl_stddev: Option<f64>,
    pub osl: Option<f64>,
    pub osl_stddev: Option<f64>,
    pub prompt_batch_size: Option<i64>,
    pub image_batch_size: Option<i64>,
    pub image_width_mean: Option<f64>,
    pub image_width_stddev: Option<f64>,
    pub image_height_mean: Option<f64>,
    pub image_height_stddev: Option<f64>,
    pub image_format: Option<String>,
    pub image_source: Option<String>,
    pub image_source_sampling: Option<String>,
    pub audio_batch_size: Option<i64>,
    pub audio_length_mean: Option<f64>,
    pub audio_length_stddev: Option<f64>,
    pub audio_format: Option<String>,
    pub audio_depths: Option<Value>,
    pub audio_sample_rates: Option<Value>,
    pub audio_num_channels: Option<i64>,
    pub rankings_passages_mean: Option<f64>,
    pub rankings_passages_stddev: Option<f64>,
    pub rankings_passages_prompt_token_mean: Option<f64>,
    pub rankings_passages_prompt_token_stddev: Option<f64>,
    pub rankings_query_prompt_token_mean: Option<f64>,
    pub rankings_query_prompt_token_stddev: Option<f64>,
    pub output_tokens_mean_deterministic: Option<bool>,
    pub use_legacy_max_tokens: Option<bool>,
    pub per_chunk_usage: Option<bool>,
    pub extra_inputs: Option<Value>,
    pub header: Option<Value>,
    pub api_key: Option<String>,
    pub tokenizer: Option<String>,
    pub tokenizer_revision: Option<String>,
    pub apply_chat_template: Option<bool>,
    pub hf_token: Option<String>,
    pub token_count: Option<String>,
    pub use_server_token_count: Option<bool>,
    pub num_dataset_entries: Option<i64>,
    pub random_seed: Option<u64>,
    pub measurement_interval: Option<i64>,
    pub stability_percentage: Option<f64>,
    pub stop_when_oversaturated: Option<bool>,
    pub request_timeout_seconds: Option<f64>,
    pub connect_timeout_seconds: Option<f64>,
    pub first_token_timeout_seconds: Option<f64>,
    pub idle_timeout_seconds: Option<f64>,
    pub request_cancellation_rate: Option<f64>,
    pub request_cancellation_delay: Option<f64>,
    pub failed_request_threshold: Option<f64>,
    pub wait_for_model_timeout: Option<f64>,
    pub wait_for_model_mode: Option<String>,
    pub wait_for_model_interval: Option<f64>,
    pub reset_kv_cache: Option<bool>,
    pub reset_kv_cache_path: Option<String>,
    pub reset_kv_cache_timeout_seconds: Option<f64>,
    pub server_profiler: Option<bool>,
    pub server_profiler_start_path: Option<String>,
    pub server_profiler_stop_path: Option<String>,
    pub server_profiler_timeout_seconds: Option<f64>,
    pub connection_reuse_strategy: Option<String>,
    pub source_ip: Option<Many>,
    pub local_port_range: Option<String>,
    pub tcp_keepalive: Option<f64>,
    pub tcp_user_timeout: Option<f64>,
    pub tcp_recv_buffer: Option<i64>,
    pub tcp_send_buffer: Option<i64>,
    pub proxy: Option<String>,
    pub no_proxy: Option<Many>,
    pub goodput: Option<Many>,
    pub assert: Option<Many>,
    pub artifact_dir: Option<String>,
    pub profile_export_prefix: Option<String>,
    pub export_level: Option<String>,
    pub artifact_format: Option<String>,
    pub overwrite: Option<bool>,
    pub ui: Option<String>,
    pub verbose: Option<bool>,
    #[serde(deserialize_with = "text_or_number")]
    pub cores: Option<String>,
    pub workers_max: Option<i64>,
    pub tls_ca: Option<String>,
    pub tls_insecure: Option<bool>,
    pub no_preflight: Option<bool>,
    pub dry_run: Option<bool>,
    pub allow_invalid: Option<bool>,
    pub gpu_telemetry: Option<Many>,
    pub no_gpu_telemetry: Option<bool>,
    pub gpu_interval: Option<f64>,
    pub gpu_idle_seconds: Option<f64>,
    pub gpu_processes: Option<bool>,
    pub nvml_library: Option<String>,
    pub server_metrics: Option<Many>,
    pub no_server_metrics: Option<bool>,
    pub server_metrics_formats: Option<Many>,
    pub slice_duration: Option<f64>,
    pub calibrate: Option<bool>,
    pub generate_plots: Option<bool>,
    pub no_batching: Option<bool>,
    /// See [`super::Config`].
    pub check_stamps: Option<bool>,
}

/// A phase of a run as a file says it; keys are the flags' names, and AIPerf's for a phase.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
#[expect(
    missing_docs,
    reason = "each is documented as its flag in `cli::flags`"
)]
pub struct PhaseDraft {
    /// Its name; `warmup` and `profiling` say their kind, too.
    pub name: Option<String>,
    /// `warmup` or `profiling`.
    pub kind: Option<String>,
    #[serde(alias = "requests")]
    pub request_count: Option<i64>,
    #[serde(alias = "sessions")]
    pub num_sessions: Option<i64>,
    #[serde(alias = "benchmark_duration")]
    pub duration: Option<f64>,
    #[serde(alias = "benchmark_grace_period")]
    pub grace_period: Option<f64>,
    /// What follows waits until nothing of this phase is in flight.
    pub drain: Option<bool>,
    pub concurrency: Option<i64>,
    pub concurrency_ramp_duration: Option<f64>,
    pub prefill_concurrency: Option<i64>,
    pub prefill_concurrency_ramp_duration: Option<f64>,
    pub concurrency_per_url: Option<i64>,
    #[serde(alias = "rate", deserialize_with = "rate")]
    pub request_rate: Option<f64>,
    pub user_centric_rate: Option<f64>,
    pub num_users: Option<i64>,
    pub request_rate_ramp_duration: Option<f64>,
    pub request_rate_series: Option<String>,
    pub arrival_pattern: Option<String>,
    #[serde(alias = "smoothness")]
    pub arrival_smoothness: Option<f64>,
    pub arrival_normalize: Option<bool>,
    pub ramp_shape: Option<String>,
}

/// A number, or `inf`.
fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    match Value::deserialize(from)? {
        Value::Number(number) => Ok(number.as_f64()),
        Value::String(text) if text == "inf" => Ok(Some(f64::INFINITY)),
        _ => Err(D::Error::custom("neither a number nor `inf`")),
    }
}

/// `cores: 4` needs no quotes.
fn text_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(Some(text)),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(D::Error::custom("neither a text nor a number")),
    }
}
