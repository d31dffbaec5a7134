//! One exchange before the run: is there a server, does it have the model, does it take the body?

use crate::base::{Ns, one_line};
use crate::endpoint::{self, Endpoint};
use crate::engine::Target;
use crate::http::fetch::{self, Answer, Limits, PROXY_HINT, Way};
use crate::runtime::Dial;
use crate::sse;

/// Bytes of an answer that a probe reads.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Limits of a probe.
pub fn limits(connect: Ns, whole: Ns) -> Limits {
    Limits {
        connect,
        whole,
        body: ANSWER_BYTES_MAX,
    }
}

/// Sends `request` to a target and waits for the answer.
pub fn exchange(
    target: &Target,
    dial: Dial,
    request: &[u8],
    limits: Limits,
) -> Result<Answer, String> {
    let way = Way {
        addr: target.addrs.first().copied(),
        tls: target.tls.clone(),
        via: target.via.clone(),
        dial,
    };
    fetch::exchange(&way, request, limits)
}

/// Model names in an answer of `/v1/models`, in order.
pub fn model_names(body: &str) -> Vec<String> {
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let list = value["data"].as_array().cloned().unwrap_or_default();
    list.iter()
        .filter_map(|model| model["id"].as_str().map(String::from))
        .collect()
}

/// True for answers that say "not now" and nothing about what was sent.
pub fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..)
}

/// Models for the eye: a server may have very many, and call them as it likes.
pub fn listed(models: &[String]) -> String {
    const SHOWN_MAX: usize = 20;
    let shown = models
        .iter()
        .take(SHOWN_MAX)
        .map(|name| one_line(name, 100));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if models.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", models.len() - SHOWN_MAX));
    }
    text
}

/// Says what a refused probe means and what to do; `None` when the answer is well.
pub fn explain(answer: &Answer, model: &str, models: &[String]) -> Option<String> {
    let excerpt = one_line(&answer.text(), 300);
    let hint = match answer.status {
        200..300 => return None,
        401 | 403 => "the server wants another key: give --api-key or OPENAI_API_KEY".to_string(),
        407 => PROXY_HINT.to_string(),
        404 if !models.is_empty() && !models.iter().any(|name| name == model) => {
            format!(
                "the server lists no model `{model}`; it has: {} (-m); or the path is not there \
                 (--endpoint)",
                listed(models)
            )
        }
        404 => "the path is not there: check --url, --endpoint and --endpoint-type".to_string(),
        400 | 422 if answer.text().contains("stream_options") => {
            "the server does not take `stream_options`: try --extra-inputs stream_options:null"
                .to_string()
        }
        400 | 422 if answer.text().contains("max_completion_tokens") => {
            "the server does not take `max_completion_tokens`: try --use-legacy-max-tokens".into()
        }
        status if is_passing(status) => "the run goes on, its failures are counted".to_string(),
        _ => "see the server's answer; --no-preflight goes on without this probe".to_string(),
    };
    Some(format!(
        "the server answered {} to a probe: {hint}\n  {excerpt}",
        answer.status
    ))
}

/// Says what is wrong with an answer that is well but for its content: it is another API's, or has
/// nothing where the user looks for the text. An answer that has just nothing may be a model's.
pub fn misread(endpoint: &Endpoint, answer: &Answer) -> Option<String> {
    let body = &answer.body;
    let is_stream = ["data:", "event:", "id:", ":"]
        .iter()
        .any(|start| body.trim_ascii_start().starts_with(start.as_bytes()));
    let mut found = false;
    let mut datas = Vec::new();
    if is_stream {
        let mut read = |event: sse::Event<'_>| {
            let part = endpoint.read_event(event.name, event.data);
            found |= part.has_content() || part.error.is_some();
            datas.extend_from_slice(event.data);
            datas.push(b'\n');
        };
        // One that is too long is no misreading.
        sse::Decoder::new().feed(body, &mut read).ok()?;
    } else {
        let part = endpoint.read_body(body).ok()?;
        found = part.has_content() || part.error.is_some();
        datas.extend_from_slice(body);
    }
    if found || !answer.is_whole {
        return None;
    }
    match endpoint.without_content(&datas, "") {
        ("no_content", _) => None,
        (_, text) => {
            let excerpt = one_line(&answer.text(), 300);
            Some(format!(
                "the server's answer to a probe: {text}\n  {excerpt}"
            ))
        }
    }
}

/// Where a server lists its models, for a base path.
pub fn models_path(base: &str) -> String {
    endpoint::join(base, "/v1/models")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_to_do() {
        let answer = |status, body: &str| Answer {
            status,
            body: body.into(),
            is_whole: true,
        };
        let models = vec!["a".to_string(), "b".to_string()];
        assert_eq!(explain(&answer(200, ""), "x", &models), None);
        assert!(
            explain(&answer(401, ""), "x", &models)
                .unwrap()
                .contains("--api-key")
        );
        assert!(
            explain(&answer(404, ""), "x", &models)
                .unwrap()
                .contains("it has: a, b")
        );
        assert!(
            explain(&answer(404, ""), "a", &models)
                .unwrap()
                .contains("--endpoint")
        );
        let told = explain(&answer(400, "bad stream_options"), "a", &models).unwrap();
        assert!(told.contains("stream_options:null"));
        let told = explain(&answer(503, "busy"), "a", &models).unwrap();
        assert!(told.contains("goes on") && is_passing(503) && is_passing(429));
        assert!(![400, 401, 404, 302].into_iter().any(is_passing));
    }

    #[test]
    fn what_a_server_says_stays_on_one_line_and_is_not_endless() {
        let answer = Answer {
            status: 500,
            body: "a\x1b[2J\r\nVerdict: VALID\n".repeat(1_000).into(),
            is_whole: true,
        };
        let models = vec!["m\x1b[31m\n".repeat(1_000); 1_000];
        for status in [404, 500] {
            let answer = Answer {
                status,
                ..answer.clone()
            };
            let told = explain(&answer, "x", &models).unwrap();
            assert!(told.len() < 4_000 && told.lines().count() == 2, "{told}");
            assert!(!told.contains(|c: char| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn models_are_listed_in_order() {
        assert_eq!(
            model_names(r#"{"data":[{"id":"m"},{"id":"n"}]}"#),
            ["m", "n"]
        );
        assert!(model_names("<html>").is_empty());
    }
}
