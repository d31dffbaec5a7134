//! What a request holds: lengths, tokens, further members.

use super::{COUNT_MAX, ConfigError, count, no};
use crate::config::{Config, Draft, Lengths, TokenCount, TokenizerSpec};
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
