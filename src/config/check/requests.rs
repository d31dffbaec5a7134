//! What a request holds: lengths, tokens, further members.

use super::pairs::{Commas, pairs};
use super::{COUNT_MAX, ConfigError, count, filled, no};
use crate::base::is_header_value;
use crate::config::{
    Api, ByTemplate, Config, Draft, Lengths, TokenCount, TokenizerSource, TokenizerSpec,
};
use serde_json::{Map, Value};

impl Draft {
    pub(super) fn requests(
        &self,
        config: &mut Config,
        notes: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        config.isl = lengths(
            "isl",
            "isl-stddev",
            self.isl.unwrap_or(550.0),
            self.isl_stddev,
        )?;
        config.osl = osl(self)?;
        config.osl_deterministic = self.output_tokens_mean_deterministic.unwrap_or(false);
        config.legacy_max_tokens = self.use_legacy_max_tokens.unwrap_or(false);
        config.per_chunk_usage = self.per_chunk_usage.unwrap_or(false);
        config.extra_inputs = extra_inputs(self)?;
        config.by_template = by_template(config)?;
        self.tokenizer(config)?;
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

    fn tokenizer(&self, config: &mut Config) -> Result<(), ConfigError> {
        let source = match filled("tokenizer", self.tokenizer.as_ref())?.as_deref() {
            None => TokenizerSource::ModelOrBuiltin,
            Some("builtin") => TokenizerSource::Builtin,
            Some(name) => TokenizerSource::Named(name.into()),
        };
        let is_builtin = source == TokenizerSource::Builtin;
        let revision = filled("tokenizer-revision", self.tokenizer_revision.as_ref())?;
        if is_builtin && revision.is_some() {
            return no("tokenizer-revision", "the builtin tokenizer has none");
        }
        let has_template = self.apply_chat_template.unwrap_or(false);
        if has_template && is_builtin {
            return no(
                "apply-chat-template",
                "the builtin tokenizer has none; name another",
            );
        }
        if has_template && config.api != Api::Chat {
            return no(
                "apply-chat-template",
                "only --endpoint-type chat has messages",
            );
        }
        let token = self.hf_token.as_deref().map(str::trim);
        let token = token.filter(|token| !token.is_empty());
        if !token.is_none_or(is_header_value) {
            return no("tokenizer", "HF_TOKEN has characters that no token has");
        }
        config.tokenizer = TokenizerSpec {
            source,
            revision,
            has_template,
            token: token.map(String::from),
        };
        Ok(())
    }
}

pub(super) fn lengths(
    flag: &'static str,
    stddev_flag: &'static str,
    mean: f64,
    stddev: Option<f64>,
) -> Result<Lengths, ConfigError> {
    let stddev = stddev.unwrap_or(0.0);
    if !(1.0..=10_000_000.0).contains(&mean) {
        return no(
            flag,
            format!("{mean:?} is out of range; give 1 to 10000000 tokens"),
        );
    }
    if !(0.0..=10_000_000.0).contains(&stddev) {
        return no(
            stddev_flag,
            format!("{stddev:?} is out of range; give 0 to 10000000"),
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

fn extra_inputs(draft: &Draft) -> Result<Map<String, Value>, ConfigError> {
    let given = draft.extra_inputs.as_ref().unwrap_or(&Value::Null);
    Ok(pairs("extra-inputs", given, Commas::Part, value)?
        .into_iter()
        .collect())
}

/// Takes the user's own body and place of the answer out of the extra members.
fn by_template(config: &mut Config) -> Result<ByTemplate, ConfigError> {
    let is_template = config.api == Api::Template;
    if !is_template && config.api != Api::Raw {
        return Ok(ByTemplate::default());
    }
    let extra = &mut config.extra_inputs;
    let mut take = |key: &str| {
        let value = extra.shift_remove(key);
        value.map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), String::from)
        })
    };
    let response_field = take("response_field");
    let Some(given) = take("payload_template") else {
        return match config.api {
            Api::Template => no(
                "extra-inputs",
                "--endpoint-type template needs payload_template:FILE (Jinja), or the template \
                 itself",
            ),
            _ if !config.extra_inputs.is_empty() => no(
                "extra-inputs",
                "--endpoint-type raw sends its lines as they are; it takes response_field only",
            ),
            _ => Ok(ByTemplate {
                response_field,
                ..ByTemplate::default()
            }),
        };
    };
    let (name, source) = match given.as_str() {
        "nv-embedqa" => (given, r#"{"text": {{ texts|tojson }}}"#.to_string()),
        inline if inline.contains('{') => ("the template".to_string(), given),
        path => match std::fs::read_to_string(path) {
            Ok(source) => (given, source),
            Err(error) => {
                return no(
                    "extra-inputs",
                    format!("payload_template: {given}: {error}"),
                );
            }
        },
    };
    Ok(ByTemplate {
        name,
        source,
        response_field,
    })
}

/// A value as typed. As with AIPerf `.5` is a number and `007` a text; JSON of any kind is itself.
fn value(text: &str) -> Value {
    match text.to_ascii_lowercase().as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "none" | "null" => return Value::Null,
        _ => {}
    }
    let plain = text.contains('.') && text.bytes().all(|b| b"-.0123456789".contains(&b));
    let decimal = || text.parse::<f64>().ok().filter(|_| plain);
    serde_json::from_str(text)
        .ok()
        .or_else(|| decimal().map(Value::from))
        .unwrap_or_else(|| text.into())
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
