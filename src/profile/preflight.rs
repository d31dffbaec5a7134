//! Before the run: does anybody answer, and does the server take what we are about to send?

use super::probe::{self, Answer};
use super::setup;
use crate::base::{Ns, now};
use crate::config::Config;
use crate::engine::{Request, Target};
use crate::http::Template;
use std::net::TcpStream;
use std::time::Duration;

/// How long a probe may take: a cold model may need minutes for its first token.
const PATIENCE: Ns = Ns(120_000_000_000);
/// Between two tries of `--wait-for-model-timeout`.
const RETRY: Duration = Duration::from_millis(500);

/// True when at least one target accepts a connection; else what each said.
pub fn reach(config: &Config, targets: &[Target]) -> Result<(), String> {
    let mut said = Vec::new();
    for (url, target) in config.urls.iter().zip(targets) {
        match TcpStream::connect_timeout(&target.addr, Duration::from_secs(10)) {
            Ok(_) => return Ok(()),
            Err(error) => said.push(format!("--url {}: {error}", url.origin())),
        }
    }
    said.push("start the server, or give its address with --url".into());
    Err(said.join("\n  "))
}

/// The models that the first target lists; empty where it does not say.
pub fn models(config: &Config, target: &Target) -> Vec<String> {
    let Some(url) = config.urls.first() else {
        return Vec::new();
    };
    let path = format!("{}{}", probe::models_path(&url.base), url.query);
    let request = probe::get_request(&path, &url.authority(), &setup::headers(config));
    match probe::exchange(
        target.addr,
        target.tls.as_ref(),
        &request,
        Ns::from_ms(10_000),
    ) {
        Ok(answer) if answer.status == 200 => probe::model_names(&answer.body),
        _ => Vec::new(),
    }
}

/// The model of the run: the given one, or the only one that the server has.
pub fn model(config: &Config, models: &[String]) -> Result<String, String> {
    match (&config.model, models) {
        (Some(model), _) => Ok(model.clone()),
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err("-m is missing, and the server does not list its models".into()),
        (None, several) => Err(format!(
            "-m is missing; the server has: {}",
            probe::listed(several)
        )),
    }
}

fn ask(target: &Target, template: &Template, request: &Request) -> Result<Answer, String> {
    let mut bytes = Vec::new();
    template.fill(0, &request.body, &mut bytes);
    probe::exchange(target.addr, target.tls.as_ref(), &bytes, PATIENCE)
}

/// Sends one request of the run's kind; an error says what the server did not like.
pub fn check(
    config: &Config,
    target: &Target,
    request: &Request,
    model: &str,
    models: &[String],
) -> Result<(), String> {
    let origin = config
        .urls
        .first()
        .map(crate::config::Url::origin)
        .unwrap_or_default();
    let answer = ask(target, &target.template, request)
        .map_err(|text| format!("--url {origin}: a probe failed: {text} (--no-preflight)"))?;
    match probe::explain(&answer, model, models) {
        None => Ok(()),
        Some(text) => Err(format!("--url {origin}: {text}")),
    }
}

/// Waits until the server answers a request of the run's kind with 200.
pub fn wait_for_model(
    config: &Config,
    target: &Target,
    request: &Request,
    stopped: impl Fn() -> bool,
) -> Result<(), String> {
    let deadline = now() + config.wait_for_model;
    loop {
        let last = match ask(target, &target.template, request) {
            Ok(answer) if (200..300).contains(&answer.status) => return Ok(()),
            Ok(answer) => format!("status {}", answer.status),
            Err(text) => text,
        };
        if now() >= deadline || stopped() {
            let waited = config.wait_for_model.as_secs();
            return Err(format!(
                "--wait-for-model-timeout {waited}: the model did not answer in time; last: {last}"
            ));
        }
        std::thread::sleep(RETRY);
    }
}
