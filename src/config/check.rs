//! From what was typed to what is run: ranges, contradictions, defaults.

use super::draft::{Draft, Many};
use super::{
    Api, Config, Cores, ExportLevel, Lengths, Load, Slo, TokenCount, TokenizerSpec, Ui, parse_url,
};
use crate::base::{Ns, limits};
use serde_json::{Map, Value};
use std::hash::{BuildHasher, Hasher, RandomState};

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

fn no<T>(flag: &'static str, text: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        flag,
        text: text.into(),
    })
}

/// Largest count that a flag may give.
const COUNT_MAX: i64 = i64::MAX / 4;
/// Longest time that a flag may give: ten years.
const SECONDS_MAX: f64 = 315_360_000.0;

fn seconds(
    flag: &'static str,
    value: Option<f64>,
    default: f64,
    zero: bool,
) -> Result<Ns, ConfigError> {
    let value = value.unwrap_or(default);
    let low = if zero { value >= 0.0 } else { value > 0.0 };
    if !low || value.is_nan() || value > SECONDS_MAX {
        let least = if zero { "0 or more" } else { "more than 0" };
        return no(flag, format!("{value} is no time in seconds; give {least}"));
    }
    Ok(Ns::from_secs_f64(value))
}

fn count(
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

impl Draft {
    /// Checks everything; `command_line` is kept with secrets masked.
    pub fn check(self, command_line: &str) -> Result<Checked, ConfigError> {
        let mut notes = Vec::new();
        let mut config = Config::default();
        self.target(&mut config)?;
        self.load(&mut config, &mut notes)?;
        self.requests(&mut config, &mut notes)?;
        self.output(&mut config, &mut notes)?;
        self.client(&mut config)?;
        contradictions(&config)?;
        let secrets = super::secrets(config.api_key.as_deref(), &config.headers);
        config.command_line = super::mask(command_line, &secrets);
        if config.tls_insecure {
            notes.push("--tls-insecure: certificates are not verified".into());
        }
        Ok(Checked { config, notes })
    }

    fn target(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.model = self.model.clone().filter(|model| !model.is_empty());
        config.api = api(self)?;
        config.path = self.endpoint.clone();
        config.streaming = self.streaming.unwrap_or(false);
        config.urls = urls(self)?;
        config.demo = self.demo.unwrap_or(false);
        config.headers = headers(self)?;
        config.api_key = self.api_key.clone().filter(|key| !key.is_empty());
        if config
            .api_key
            .as_ref()
            .is_some_and(|key| key.chars().any(char::is_control))
        {
            return no(
                "api-key",
                "it has a line end or control character; remove it",
            );
        }
        config.tls_ca = self.tls_ca.clone().map(Into::into);
        config.tls_insecure = self.tls_insecure.unwrap_or(false);
        let wait = self.wait_for_model_timeout;
        config.wait_for_model = seconds("wait-for-model-timeout", wait, 0.0, true)?;
        config.preflight = !self.no_preflight.unwrap_or(false);
        Ok(())
    }

    fn load(&self, config: &mut Config, notes: &mut Vec<String>) -> Result<(), ConfigError> {
        config.load = load(self)?;
        config.duration = match self.benchmark_duration {
            None => None,
            given => Some(seconds("benchmark-duration", given, 0.0, false)?),
        };
        let timed = config.duration.is_some();
        if !timed && self.benchmark_grace_period.is_some() {
            return no("benchmark-grace-period", "it needs --benchmark-duration");
        }
        let grace = self.benchmark_grace_period;
        config.grace = seconds("benchmark-grace-period", grace, 30.0, true)?;
        let asked = count("request-count", self.request_count, 1, COUNT_MAX)?;
        let streams = match config.load {
            Load::Concurrency(n) => u64::from(n),
            Load::Constant { cap, .. } | Load::Poisson { cap, .. } => u64::from(cap.unwrap_or(0)),
        };
        config.request_count_defaulted = asked.is_none() && !timed;
        config.request_count = match config.request_count_defaulted {
            true => Some((2 * streams).max(10)),
            false => asked,
        };
        if let Some(n) = config.request_count {
            if config.request_count_defaulted {
                notes.push(format!(
                    "no stop condition: {n} requests (max(10, 2 x concurrency))"
                ));
            }
            if n < streams {
                notes.push(format!(
                    "--request-count {n} is below --concurrency {streams}: at most {n} in flight"
                ));
            }
        }
        let warmup = count(
            "warmup-request-count",
            self.warmup_request_count,
            0,
            COUNT_MAX,
        )?;
        config.warmup_count = warmup.unwrap_or(0);
        let limit = self.request_timeout_seconds;
        config.request_timeout = seconds("request-timeout-seconds", limit, 21_600.0, false)?;
        let limit = self.connect_timeout_seconds;
        config.connect_timeout = seconds("connect-timeout-seconds", limit, 30.0, false)?;
        config.seed_given = self.random_seed.is_some();
        config.seed = match self.random_seed {
            Some(seed) => seed,
            None => RandomState::new().build_hasher().finish(),
        };
        Ok(())
    }

    fn requests(&self, config: &mut Config, notes: &mut Vec<String>) -> Result<(), ConfigError> {
        config.isl = lengths(
            "isl",
            "isl-stddev",
            self.isl.unwrap_or(550.0),
            self.isl_stddev,
        )?;
        config.osl = osl(self)?;
        config.osl_deterministic = self.output_tokens_mean_deterministic.unwrap_or(false);
        config.legacy_max_tokens = self.use_legacy_max_tokens.unwrap_or(false);
        config.extra_inputs = extra_inputs(self.extra_inputs.as_ref())?;
        config.tokenizer = match self.tokenizer.as_deref() {
            None => TokenizerSpec::ModelOrBuiltin,
            Some("builtin") => TokenizerSpec::Builtin,
            Some(path) => TokenizerSpec::Path(path.into()),
        };
        config.token_count = token_count(self)?;
        let entries = self.num_dataset_entries;
        config.dataset_entries = count("num-dataset-entries", entries, 1, COUNT_MAX)?;
        if entries.is_none() {
            notes.push(
                "every request has a prompt of its own (--num-dataset-entries reuses)".into(),
            );
        }
        let fixed = config.osl_deterministic || config.extra_inputs.contains_key("ignore_eos");
        if config.osl.is_some() && !fixed {
            notes.push(
                "--osl without --output-tokens-mean-deterministic: answers may be shorter".into(),
            );
        }
        Ok(())
    }

    fn output(&self, config: &mut Config, notes: &mut Vec<String>) -> Result<(), ConfigError> {
        config.goodput = goodput(self.goodput.as_ref())?;
        config.artifact_dir = self.artifact_dir.clone().map(Into::into);
        config.export_prefix = prefix(self)?;
        config.export_level = export_level(self)?;
        config.overwrite = self.overwrite.unwrap_or(false);
        config.ui = ui(self, notes)?;
        config.verbose = self.verbose.unwrap_or(false);
        config.dry_run = self.dry_run.unwrap_or(false);
        config.allow_invalid = self.allow_invalid.unwrap_or(false);
        Ok(())
    }

    fn client(&self, config: &mut Config) -> Result<(), ConfigError> {
        config.cores = cores(self)?;
        let most = count("workers-max", self.workers_max, 1, 4096)?;
        config.workers_max = most.and_then(|n| usize::try_from(n).ok());
        config.gpu_telemetry = !self.no_gpu_telemetry.unwrap_or(false);
        config.batching = !self.no_batching.unwrap_or(false);
        config.check_stamps = self.check_stamps.unwrap_or(false);
        Ok(())
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
    if config.demo && config.api != Api::Chat && config.api != Api::Completions {
        return no(
            "demo",
            "the demo speaks chat and completions; leave --backend out",
        );
    }
    let triton = matches!(config.api, Api::TritonTensorrtllm | Api::TritonVllm);
    if triton && config.model.is_none() {
        return no("model", "Triton has the model in its path; give -m");
    }
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
        _ => Ok(()),
    }
}

fn api(draft: &Draft) -> Result<Api, ConfigError> {
    let triton = || match draft.backend.as_deref() {
        None | Some("tensorrtllm") => Ok(Api::TritonTensorrtllm),
        Some("vllm") => Ok(Api::TritonVllm),
        Some(other) => no(
            "backend",
            format!("`{other}` is unknown; give tensorrtllm or vllm"),
        ),
    };
    match (draft.endpoint_type.as_deref(), &draft.backend) {
        (None, Some(_)) | (Some("generate" | "kserve" | "triton_generate"), _) => triton(),
        (Some(kind), Some(_)) => no(
            "backend",
            format!("it is for Triton; leave it out with --endpoint-type {kind}"),
        ),
        (None | Some("chat"), None) => Ok(Api::Chat),
        (Some("completions"), None) => Ok(Api::Completions),
        (Some(other), None) => no(
            "endpoint-type",
            format!("`{other}` is not spoken yet; give chat, completions or generate"),
        ),
    }
}

fn load(draft: &Draft) -> Result<Load, ConfigError> {
    let most = i64::from(limits::CONCURRENCY_MAX);
    let cap = count("concurrency", draft.concurrency, 1, most)?;
    let cap = cap.and_then(|n| u32::try_from(n).ok());
    let Some(rate_per_s) = draft.request_rate else {
        if let Some(pattern) = &draft.arrival_pattern {
            return no(
                "arrival-pattern",
                format!("`{pattern}` needs --request-rate"),
            );
        }
        return Ok(Load::Concurrency(cap.unwrap_or(1)));
    };
    if !(rate_per_s > 0.0 && rate_per_s <= 1e7) {
        return no(
            "request-rate",
            format!("{rate_per_s} is out of range; more than 0 to 10000000"),
        );
    }
    match draft.arrival_pattern.as_deref() {
        None | Some("poisson") => Ok(Load::Poisson { rate_per_s, cap }),
        Some("constant") => Ok(Load::Constant { rate_per_s, cap }),
        Some("gamma") => no(
            "arrival-pattern",
            "gamma comes with a later version; poisson or constant",
        ),
        Some(other) => no(
            "arrival-pattern",
            format!("`{other}` is unknown; poisson or constant"),
        ),
    }
}

fn lengths(
    flag: &'static str,
    stddev_flag: &'static str,
    mean: f64,
    stddev: Option<f64>,
) -> Result<Lengths, ConfigError> {
    let stddev = stddev.unwrap_or(0.0);
    if !(1.0..=10_000_000.0).contains(&mean) {
        return no(
            flag,
            format!("{mean} is out of range; give 1 to 10000000 tokens"),
        );
    }
    if !(0.0..=10_000_000.0).contains(&stddev) {
        return no(
            stddev_flag,
            format!("{stddev} is out of range; give 0 or more"),
        );
    }
    Ok(Lengths { mean, stddev })
}

fn osl(draft: &Draft) -> Result<Option<Lengths>, ConfigError> {
    match (draft.osl, draft.osl_stddev) {
        (None, Some(stddev)) if stddev != 0.0 => no("osl-stddev", "it needs --osl"),
        (None, _) => Ok(None),
        (Some(mean), stddev) => lengths("osl", "osl-stddev", mean, stddev).map(Some),
    }
}

fn urls(draft: &Draft) -> Result<Vec<super::Url>, ConfigError> {
    if draft.demo.unwrap_or(false) {
        return match draft.url {
            Some(_) => no("demo", "it brings its own server; leave --url out"),
            None => Ok(Vec::new()),
        };
    }
    let given = draft
        .url
        .as_ref()
        .map_or_else(|| vec!["localhost:8000".into()], Many::list);
    let parse = |text: &String| match parse_url(text) {
        Ok(url) => Ok(url),
        Err(reason) => no("url", format!("`{text}`: {reason}")),
    };
    given.iter().map(parse).collect()
}

fn headers(draft: &Draft) -> Result<Vec<(String, String)>, ConfigError> {
    let given = draft.header.as_ref().map(Many::list).unwrap_or_default();
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let split = |text: &String| match text.split_once(':') {
        _ if text.chars().any(|c| c.is_control() && c != '\t') => no(
            "header",
            "a line end or control character cannot be sent; remove it",
        ),
        Some((name, value)) if !name.trim().is_empty() && name.trim().bytes().all(token) => {
            let own = [
                "content-length",
                "host",
                "transfer-encoding",
                "x-request-id",
            ];
            let name = name.trim();
            if own.contains(&name.to_ascii_lowercase().as_str()) {
                return no(
                    "header",
                    format!("`{name}` is set by the program; leave it out"),
                );
            }
            Ok((name.to_string(), value.trim().to_string()))
        }
        _ => no("header", "a header has the form `Name: value`"),
    };
    given.iter().map(split).collect()
}

/// `key:value` (several in one text by spaces are several flags already), or a JSON object.
fn extra_inputs(given: Option<&Value>) -> Result<Map<String, Value>, ConfigError> {
    let mut all = Map::new();
    let texts: Vec<&Value> = match given {
        None => Vec::new(),
        Some(Value::Object(map)) => return Ok(map.clone()),
        Some(Value::Array(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    for text in texts {
        let text = text.as_str().unwrap_or_default().trim();
        if text.starts_with('{') {
            match serde_json::from_str::<Map<String, Value>>(text) {
                Ok(map) => all.extend(map),
                Err(error) => return no("extra-inputs", format!("no JSON object: {error}")),
            }
            continue;
        }
        match text.split_once(':') {
            Some(("", _)) => return no("extra-inputs", "give key:value or a JSON object"),
            Some((key, value)) => {
                let value = match value {
                    // Python's words are in use with the peers.
                    "True" => Value::Bool(true),
                    "False" => Value::Bool(false),
                    "None" => Value::Null,
                    text => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
                };
                all.insert(key.to_string(), value);
            }
            // GenAI-Perf reads a bare key as true.
            _ if !text.is_empty() => {
                all.insert(text.trim_end_matches(':').to_string(), Value::Bool(true));
            }
            _ => return no("extra-inputs", "give key:value or a JSON object"),
        }
    }
    Ok(all)
}

fn token_count(draft: &Draft) -> Result<TokenCount, ConfigError> {
    let server = draft.use_server_token_count.unwrap_or(false);
    match (draft.token_count.as_deref(), server) {
        (None | Some("server"), true) | (Some("server"), false) => Ok(TokenCount::Server),
        (None | Some("auto"), false) => Ok(TokenCount::Auto),
        (Some("client"), false) => Ok(TokenCount::Client),
        (Some(_), true) => no("token-count", "it contradicts --use-server-token-count"),
        (Some(other), _) => no(
            "token-count",
            format!("`{other}`; give auto, server or client"),
        ),
    }
}

fn goodput(given: Option<&Many>) -> Result<Vec<Slo>, ConfigError> {
    let texts = given.map(Many::list).unwrap_or_default();
    let parts = texts.iter().flat_map(|text| text.split_whitespace());
    let parse = |part: &str| {
        let pair = part
            .split_once(':')
            .and_then(|(tag, limit)| Some((tag, limit.parse().ok()?)));
        match pair {
            Some((tag, limit)) if limit > 0.0 && f64::is_finite(limit) => Ok(Slo {
                tag: tag.to_string(),
                limit,
            }),
            _ => no(
                "goodput",
                format!("`{part}` has not the form tag:limit, limit above 0"),
            ),
        }
    };
    parts.map(parse).collect()
}

fn prefix(draft: &Draft) -> Result<Option<String>, ConfigError> {
    match draft.profile_export_prefix.as_deref() {
        Some(text) if text.contains('/') || text.is_empty() => no(
            "profile-export-prefix",
            "a file name without folder; --artifact-dir has the folder",
        ),
        // Both peers take a file name too; its ending is ours to choose.
        Some(text) => Ok(Some(text.trim_end_matches(".json").to_string())),
        None => Ok(None),
    }
}

fn export_level(draft: &Draft) -> Result<ExportLevel, ConfigError> {
    match draft.export_level.as_deref() {
        None | Some("records") => Ok(ExportLevel::Records),
        Some("summary") => Ok(ExportLevel::Summary),
        Some("raw") => Ok(ExportLevel::Raw),
        Some(other) => no(
            "export-level",
            format!("`{other}`; give summary, records or raw"),
        ),
    }
}

fn ui(draft: &Draft, notes: &mut Vec<String>) -> Result<Ui, ConfigError> {
    match draft.ui.as_deref() {
        None => Ok(Ui::Auto),
        Some("simple") => Ok(Ui::Simple),
        Some("none") => Ok(Ui::None),
        Some("dashboard") => {
            notes.push("--ui dashboard comes with a later version: simple is shown".into());
            Ok(Ui::Simple)
        }
        Some(other) => no("ui", format!("`{other}`; give simple or none")),
    }
}

fn cores(draft: &Draft) -> Result<Cores, ConfigError> {
    let bad = |text: &str| {
        no(
            "cores",
            format!("`{text}`; give auto, a number, or a list 2,4-7"),
        )
    };
    match draft.cores.as_deref() {
        None | Some("auto") => Ok(Cores::Auto),
        Some(text) if !text.contains([',', '-']) => match text.parse() {
            Ok(n) if n > 0 => Ok(Cores::Count(n)),
            _ => bad(text),
        },
        Some(text) => {
            let mut list = Vec::new();
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
                    (Ok(a), Ok(b)) if a <= b && b < 65_536 => list.extend(a..=b),
                    _ => return bad(text),
                }
            }
            list.sort_unstable();
            list.dedup();
            if list.is_empty() {
                bad(text)
            } else {
                Ok(Cores::List(list))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn draft(value: Value) -> Draft {
        serde_json::from_value(value).unwrap()
    }

    fn refusal(value: Value) -> String {
        draft(value).check("").unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_said_has_the_peers_defaults() {
        let checked = draft(json!({})).check("tokenring profile").unwrap();
        let config = checked.config;
        assert_eq!(config.urls[0].origin(), "http://localhost:8000");
        assert_eq!(config.load, Load::Concurrency(1));
        assert_eq!(config.request_count, Some(10));
        assert_eq!(
            config.isl,
            Lengths {
                mean: 550.0,
                stddev: 0.0
            }
        );
        assert_eq!(config.request_timeout, Ns::from_ms(21_600_000));
        let config = draft(json!({"concurrency": 64})).check("").unwrap().config;
        assert_eq!(config.request_count, Some(128));
        let config = draft(json!({"request_rate": 5.0}))
            .check("")
            .unwrap()
            .config;
        assert_eq!(
            config.load,
            Load::Poisson {
                rate_per_s: 5.0,
                cap: None
            }
        );
    }

    #[test]
    fn each_setting_out_of_range_names_its_flag() {
        for (value, flag) in [
            (json!({"concurrency": 0}), "--concurrency"),
            (json!({"request_rate": -1.0}), "--request-rate"),
            (json!({"request_count": 0}), "--request-count"),
            (json!({"isl": 0.0}), "--isl"),
            (json!({"isl_stddev": -1.0}), "--isl-stddev"),
            (json!({"osl": 0.5}), "--osl"),
            (json!({"benchmark_duration": 0.0}), "--benchmark-duration"),
            (
                json!({"benchmark_grace_period": 1.0}),
                "--benchmark-grace-period",
            ),
            (
                json!({"warmup_request_count": -1}),
                "--warmup-request-count",
            ),
            (
                json!({"request_timeout_seconds": 0.0}),
                "--request-timeout-seconds",
            ),
            (json!({"endpoint_type": "embeddings"}), "--endpoint-type"),
            (
                json!({"endpoint_type": "chat", "backend": "vllm"}),
                "--backend",
            ),
            (json!({"arrival_pattern": "poisson"}), "--arrival-pattern"),
            (json!({"url": "http://"}), "--url"),
            (json!({"goodput": "time_to_first_token"}), "--goodput"),
            (json!({"goodput": "time_to_first_token:100"}), "--goodput"),
            (json!({"header": "novalue"}), "--header"),
            (json!({"cores": "x"}), "--cores"),
            (json!({"export_level": "x"}), "--export-level"),
            (
                json!({"output_tokens_mean_deterministic": true}),
                "--output-tokens-mean",
            ),
            (json!({"demo": true, "url": "h"}), "--demo"),
            (
                json!({"profile_export_prefix": "a/b"}),
                "--profile-export-prefix",
            ),
        ] {
            let text = refusal(value.clone());
            assert!(text.starts_with(flag), "{value}: {text}");
        }
    }

    #[test]
    fn extra_inputs_come_as_pairs_or_as_json() {
        let of = |value| {
            draft(json!({ "extra_inputs": value }))
                .check("")
                .unwrap()
                .config
        };
        let pairs = of(json!([
            "min_tokens:128",
            "ignore_eos:true",
            "stop:x",
            "flag"
        ]));
        let object = of(json!({"min_tokens": 128, "ignore_eos": true, "stop": "x", "flag": true}));
        let text = of(json!([
            r#"{"min_tokens":128,"ignore_eos":true}"#,
            "stop:x",
            "flag:True"
        ]));
        assert_eq!(pairs.extra_inputs, object.extra_inputs);
        assert_eq!(text.extra_inputs, object.extra_inputs);
    }

    #[test]
    fn secrets_are_masked_in_the_command_line() {
        let value = json!({"api_key": "sk-secret", "header": "Authorization: Bearer tok-en"});
        let line = "tokenring profile --api-key sk-secret -H 'Authorization: Bearer tok-en'";
        let config = draft(value).check(line).unwrap().config;
        assert!(!config.command_line.contains("sk-secret"));
        assert!(
            !config.command_line.contains("tok-en"),
            "{}",
            config.command_line
        );
    }
}
