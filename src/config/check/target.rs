//! Where requests go: API, urls, headers.

use super::pairs::{Commas, pairs};
use super::{ConfigError, filled, no};
use crate::base::{is_header_name, is_header_value};
use crate::config::draft::{Draft, Many};
use crate::config::{Api, Config, Url, hide_target, parse_url};
use serde_json::Value;

impl Draft {
    pub(super) fn target(
        &self,
        config: &mut Config,
        notes: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        config.model = model(self)?;
        config.api = api(self)?;
        config.path = path(self)?;
        config.streaming = self.streaming.unwrap_or(false);
        if config.streaming && !config.api.streams() {
            config.streaming = false;
            notes.push(format!(
                "--streaming: answers of {} are whole; it is off",
                config.api.name()
            ));
        }
        config.urls = urls(self)?;
        config.demo = self.demo.unwrap_or(false);
        config.headers = headers(self)?;
        config.api_key = self.api_key.clone().filter(|key| !key.is_empty());
        if !is_header_value(self.api_key.as_deref().unwrap_or_default()) {
            return no(
                "api-key",
                "it has a line end or control character; remove it",
            );
        }
        let authorized = |(name, _): &(String, String)| name.eq_ignore_ascii_case("authorization");
        if config.api_key.is_some() && config.headers.iter().any(authorized) {
            notes.push("--header has an Authorization: that is sent, not the API key".into());
        }
        config.tls_ca = filled("tls-ca", self.tls_ca.as_ref())?.map(Into::into);
        config.tls_insecure = self.tls_insecure.unwrap_or(false);
        config.preflight = !self.no_preflight.unwrap_or(false);
        Ok(())
    }
}

fn model(draft: &Draft) -> Result<Option<String>, ConfigError> {
    let given = draft.model.as_ref().map(Many::list).unwrap_or_default();
    let mut names = given.iter().flat_map(|text| text.split(',')).map(str::trim);
    match (names.next(), names.next()) {
        (None, _) => Ok(None),
        (Some(""), _) => no(
            "model",
            "a name is missing; leave the flag out to ask the server",
        ),
        (Some(name), None) => Ok(Some(name.to_string())),
        (Some(name), Some(_)) => no(
            "model",
            format!("a run measures one model; give `{name}` alone, and the next in its own run"),
        ),
    }
}

fn api(draft: &Draft) -> Result<Api, ConfigError> {
    let kind = draft
        .endpoint_type
        .as_deref()
        .unwrap_or(match draft.backend {
            Some(_) => Api::TritonTensorrtllm.name(),
            None => Api::Chat.name(),
        });
    if let "dynamic_grpc" | "tensorrtllm_engine" = kind {
        return no(
            "endpoint-type",
            format!(
                "`{kind}` is not HTTP; give triton-tensorrtllm or triton-vllm for Triton's \
                 generate extension"
            ),
        );
    }
    if kind == "video_generation" {
        let text = "video_generation is a job that is asked after until it is done, which comes \
                    with a later version";
        return no("endpoint-type", text);
    }
    let Some(api) = Api::named(kind) else {
        let names: Vec<&str> = Api::all().map(Api::name).collect();
        return no(
            "endpoint-type",
            format!("`{kind}` is unknown; give one of {}", names.join(", ")),
        );
    };
    match draft.backend.as_deref() {
        None => Ok(api),
        Some(_) if !api.is_triton() => no(
            "backend",
            format!("it is for Triton; leave it out with --endpoint-type {kind}"),
        ),
        Some("tensorrtllm") => Ok(Api::TritonTensorrtllm),
        Some("vllm") => Ok(Api::TritonVllm),
        Some(other) => no(
            "backend",
            format!("`{other}` is unknown; give tensorrtllm or vllm"),
        ),
    }
}

fn path(draft: &Draft) -> Result<Option<String>, ConfigError> {
    let Some(path) = draft.endpoint.as_deref().map(str::trim) else {
        return Ok(None);
    };
    if path.contains("://") {
        return no("endpoint", "give a path only; --url has the host");
    }
    if path.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return no("endpoint", "a path has no spaces; write %20");
    }
    // GenAI-Perf's `.` is the base url itself.
    let path = if path == "." { "" } else { path };
    Ok(Some(path.to_string()))
}

fn urls(draft: &Draft) -> Result<Vec<Url>, ConfigError> {
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
        Err(reason) => {
            let shown = hide_target(text, &mut Vec::new());
            no("url", format!("`{shown}`: {reason}"))
        }
    };
    given.iter().map(parse).collect()
}

fn headers(draft: &Draft) -> Result<Vec<(String, String)>, ConfigError> {
    let own = [
        "content-length",
        "host",
        "transfer-encoding",
        "x-request-id",
    ];
    let mut all: Vec<(String, String)> = Vec::new();
    let given = draft.header.as_ref().unwrap_or(&Value::Null);
    for (name, value) in pairs("header", given, Commas::Stay, |text| text.into())? {
        let value = match value {
            Value::String(text) => text.trim().to_string(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => return no("header", "a header has the form `Name: value`"),
        };
        if !is_header_name(&name) || !is_header_value(&value) {
            return no(
                "header",
                "its name is one word, and no line end or control character can be sent",
            );
        }
        if own.contains(&name.to_ascii_lowercase().as_str()) {
            return no(
                "header",
                format!("`{name}` is set by the program; leave it out"),
            );
        }
        // The last of a name wins, as with AIPerf.
        all.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        all.push((name, value));
    }
    Ok(all)
}
