//! What is secret in the settings: found by its place, and hidden there; the values are what
//! [`crate::base::Secrets`] then looks for in all that is printed or written.
//!
//! A header's value is secret unless the name is known to be harmless. Elsewhere (queries, extra
//! inputs, flags, keys of a file) it is secret under a telling name, or when it looks like a key.

use super::{Config, Proxy, Url};
use crate::base::REDACTED;
use serde_json::{Map, Value};

/// Headers that hold nothing of anybody.
const HARMLESS_HEADERS: [&str; 10] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-type",
    "host",
    "user-agent",
    "x-request-id",
];
/// Words of a name whose value is secret.
const TELLING: [&str; 20] = [
    "apikey",
    "apikeys",
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "credential",
    "credentials",
    "key",
    "keys",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "secrets",
    "sig",
    "signature",
    "jwt",
    "cookies",
];
/// Schemes that stand before what is secret in a header.
const SCHEMES: [&str; 7] = [
    "apikey",
    "aws4-hmac-sha256",
    "basic",
    "bearer",
    "digest",
    "key",
    "token",
];
/// How the keys of known services begin.
const KEY_BEGINS: [&str; 12] = [
    "sk-",
    "sk_",
    "pk-",
    "hf_",
    "nvapi-",
    "gsk_",
    "ghp_",
    "github_pat_",
    "xoxb-",
    "akia",
    "eyj",
    "xai-",
];

/// True when what stands under this name is secret: `X-Api-Key`, `access_token`, `accessKey`; not
/// `max_tokens`, `stop_token_ids`, `tokenizer`.
fn is_telling(name: &str) -> bool {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && was_lower {
            words.push(String::new());
        }
        was_lower = c.is_lowercase();
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    let special = ["eos", "bos", "pad", "unk", "stop", "sep", "cls", "mask"];
    let is_token = words
        .last()
        .is_some_and(|word| word == "token" || word.ends_with("apikey"));
    is_token && !words.iter().any(|word| special.contains(&word.as_str()))
        || words.iter().any(|word| TELLING.contains(&word.as_str()))
}

/// True for what begins as the keys of known services do.
fn is_key(text: &str) -> bool {
    let begins = |begin: &str| {
        text.get(..begin.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(begin))
    };
    text.len() >= 16 && KEY_BEGINS.iter().any(|begin| begins(begin))
}

/// A header's value as it may be shown; what it hides is added to `found`.
pub fn hide_header(name: &str, value: &str, found: &mut Vec<String>) -> String {
    if HARMLESS_HEADERS.contains(&name.trim().to_ascii_lowercase().as_str()) && !is_key(value) {
        return value.to_string();
    }
    let is_scheme = |word: &str| SCHEMES.contains(&word.to_ascii_lowercase().as_str());
    let is_random = |text: &str| {
        let has = |kind: fn(char) -> bool| text.contains(kind);
        text.len() >= 8 && has(|c| c.is_ascii_digit()) && has(|c| c.is_ascii_alphabetic())
    };
    // Under a name that tells nothing a plain word is hidden here, and not looked for elsewhere.
    let is_secret = |text: &str| is_telling(name) || is_random(text);
    let mut add = |text: &str| {
        if is_secret(text) && !is_scheme(text) {
            found.push(text.to_string());
        }
    };
    add(value);
    for part in value
        .split([' ', '\t', ';', ','])
        .filter(|part| !part.is_empty())
    {
        let named = part
            .split_once('=')
            .filter(|(name, value)| !value.trim_matches('=').is_empty() && name.len() <= 32);
        add(part.trim_matches('"'));
        if let Some((_, value)) = named {
            add(value.trim_matches('"'));
        }
    }
    // A name in a cookie is no secret: `session=...` would hide every session's number.
    let names = value
        .split([' ', ';', ','])
        .filter_map(|part| part.split_once('='));
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    found.retain(|text| !names.contains(&text.as_str()));
    match value.split_once(' ') {
        Some((scheme, _)) if is_scheme(scheme) => format!("{scheme} {REDACTED}"),
        _ => REDACTED.to_string(),
    }
}

/// A url or path as it may be shown: without user, fragment, and secrets of path and query.
pub fn hide_target(text: &str, found: &mut Vec<String>) -> String {
    let (rest, fragment) = text
        .split_once('#')
        .map_or((text, None), |(a, b)| (a, Some(b)));
    let (rest, query) = rest
        .split_once('?')
        .map_or((rest, None), |(a, b)| (a, Some(b)));
    let (scheme, rest) = match rest.find("://") {
        Some(at) => rest.split_at(at + 3),
        None => ("", rest),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut out = scheme.to_string();
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            both(if password.is_empty() { name } else { password }, found);
            out.push_str(&format!("{REDACTED}@{host}"));
        }
        None => out.push_str(authority),
    }
    for (at, part) in path.split('/').enumerate() {
        out.push_str(if at > 0 { "/" } else { "" });
        out.push_str(if is_key(part) { REDACTED } else { part });
        if is_key(part) {
            both(part, found);
        }
    }
    for (at, pair) in query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .enumerate()
    {
        out.push(if at > 0 { '&' } else { '?' });
        match pair.split_once('=') {
            // `code` is how functions of Azure name their key.
            Some((name, value)) if is_telling(name) || name == "code" || is_key(value) => {
                both(value, found);
                out.push_str(&format!("{name}={REDACTED}"));
            }
            _ if is_key(pair) => {
                both(pair, found);
                out.push_str(REDACTED);
            }
            _ => out.push_str(pair),
        }
    }
    if let Some(fragment) = fragment {
        both(fragment.rsplit('=').next().unwrap_or_default(), found);
        out.push_str(&format!("#{REDACTED}"));
    }
    out
}

/// As it stands in a url, and as it is meant.
fn both(text: &str, found: &mut Vec<String>) {
    found.push(text.to_string());
    // Names and values share the rules of forms; a plus may be meant as one.
    let plain = url::form_urlencoded::parse(text.replace('+', "%2B").as_bytes())
        .map(|(name, _)| name.into_owned())
        .next();
    found.extend(plain.filter(|plain| plain != text));
}

/// Hides what stands under telling names in a JSON value.
pub fn hide_members(value: &mut Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match is_telling(name) {
                    true => hide_leaves(value, found),
                    false => hide_members(value, found),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide_members(item, found)),
        Value::String(text) if is_key(text) => hide_leaves(value, found),
        _ => {}
    }
}

fn hide_leaves(value: &mut Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|value| hide_leaves(value, found)),
        Value::Array(items) => items.iter_mut().for_each(|item| hide_leaves(item, found)),
        Value::Null | Value::Bool(_) => {}
        leaf => {
            found.push(leaf.as_str().map_or_else(|| leaf.to_string(), String::from));
            *leaf = REDACTED.into();
        }
    }
}

/// Extra inputs as typed: `key:value`, several by commas, or a JSON object.
fn hide_pairs(text: &str, found: &mut Vec<String>) -> String {
    if let Ok(mut value @ Value::Object(_)) = serde_json::from_str(text) {
        let before = found.len();
        hide_members(&mut value, found);
        return if found.len() > before {
            value.to_string()
        } else {
            text.to_string()
        };
    }
    let parts = text.split(',').map(|part| match part.split_once(':') {
        Some((name, value)) if is_telling(name) => {
            let json = serde_json::from_str(value).unwrap_or(Value::from(value));
            hide_leaves(&mut json.clone(), found);
            found.push(value.to_string());
            format!("{name}:{REDACTED}")
        }
        Some((name, value)) => {
            let mut json = serde_json::from_str(value).unwrap_or(Value::from(value));
            let before = found.len();
            hide_members(&mut json, found);
            match found.len() > before {
                true => format!(
                    "{name}:{}",
                    json.as_str().map_or(json.to_string(), String::from)
                ),
                false => part.to_string(),
            }
        }
        None => part.to_string(),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// A command line as it may be shown; what it hides is added to `found`. Knows the places even
/// where the settings cannot be read.
pub fn hide_args(args: &[String], found: &mut Vec<String>) -> Vec<String> {
    let mut flag = String::new();
    let mut shown = Vec::new();
    for arg in args {
        let (begin, value) = match arg.strip_prefix("--") {
            Some(long) => match long.split_once('=') {
                Some((name, value)) => {
                    flag = name.to_string();
                    (format!("--{name}="), value)
                }
                None => {
                    flag = long.to_string();
                    shown.push(arg.clone());
                    continue;
                }
            },
            None if arg.starts_with('-') && arg.len() > 1 => {
                let (short, value) =
                    arg.split_at(arg.char_indices().nth(2).map_or(arg.len(), |(at, _)| at));
                flag = match short {
                    "-H" => "header".to_string(),
                    "-u" => "url".to_string(),
                    _ => String::new(),
                };
                (short.to_string(), value)
            }
            None => (String::new(), arg.as_str()),
        };
        let value = hide_value(&flag, value, found);
        shown.push(format!("{begin}{value}"));
    }
    shown
}

fn hide_value(flag: &str, value: &str, found: &mut Vec<String>) -> String {
    match flag {
        _ if value.is_empty() => String::new(),
        "header" => match value.split_once(':') {
            Some((name, value)) => {
                let hidden = hide_header(name, value.trim(), found);
                format!("{name}: {hidden}")
            }
            None => {
                found.push(value.to_string());
                REDACTED.to_string()
            }
        },
        "url"
        | "endpoint"
        | "custom-endpoint"
        | "proxy"
        | "gpu-telemetry"
        | "server-metrics"
        | "server-metrics-url"
        | "server-metrics-urls" => hide_target(value, found),
        "extra-inputs" => hide_pairs(value, found),
        "variant" | "sweep-variant" => hide_variant(value, found),
        flag if is_telling(flag) || is_key(value) => {
            found.push(value.to_string());
            REDACTED.to_string()
        }
        _ => value.to_string(),
    }
}

/// `NAME: key=value, key=value`: each value as that of its flag.
fn hide_variant(text: &str, found: &mut Vec<String>) -> String {
    let Some((label, settings)) = text.split_once(':') else {
        return text.to_string();
    };
    let pairs = settings.split(',').map(|pair| match pair.split_once('=') {
        Some((name, value)) => {
            let flag = name.trim().replace('_', "-");
            let hidden = hide_value(&flag, value.trim(), found);
            match hidden == value.trim() {
                true => pair.to_string(),
                false => format!("{name}={hidden}"),
            }
        }
        None => pair.to_string(),
    });
    format!("{label}:{}", pairs.collect::<Vec<_>>().join(","))
}

/// Values under telling names in the text of a settings file, whether or not it can be read.
pub fn secrets_of_file(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let quotes = ['"', '\'', ' ', '\t', ',', '[', ']', '{', '}', '-'];
    for line in text.lines() {
        let mut words = line.split([':', '=']).map(|word| word.trim_matches(quotes));
        let is_telling_line = words.clone().any(is_telling);
        let after = line
            .split_once([':', '='])
            .map_or("", |(_, after)| after)
            .trim();
        if is_telling_line {
            found.push(after.trim_matches(quotes).to_string());
            found.extend(
                after
                    .split([' ', ':', '=', ','])
                    .map(|word| word.trim_matches(quotes).into()),
            );
            words.next();
        }
        for word in line
            .split_whitespace()
            .map(|word| word.trim_matches(quotes))
        {
            if is_key(word) || word.contains("://") {
                hide_target(word, &mut found);
            }
        }
    }
    found
}

impl Url {
    /// Origin and base path as they may be shown.
    pub fn origin_shown(&self) -> String {
        hide_target(&self.origin(), &mut Vec::new())
    }
}

impl Config {
    /// Values that must not be written anywhere in clear: of key, headers, urls, extra inputs.
    pub fn secrets(&self) -> Vec<String> {
        let mut found: Vec<String> = self.api_key.clone().into_iter().collect();
        found.extend(self.tokenizer.token.clone());
        for (name, value) in &self.headers {
            hide_header(name, value, &mut found);
        }
        let gpus = self.gpu_telemetry.iter().flat_map(|gpus| &gpus.urls);
        let pages = self.server_metrics.iter().flat_map(|pages| &pages.urls);
        for url in self.urls.iter().chain(gpus).chain(pages) {
            hide_target(&format!("{}{}", url.base, url.query), &mut found);
        }
        hide_target(self.path.as_deref().unwrap_or_default(), &mut found);
        found.extend(self.connections.proxy.iter().flat_map(Proxy::secrets));
        hide_members(&mut self.extra_inputs.clone().into(), &mut found);
        // A model's name in a header is no secret, and stands all over the report.
        found.retain(|text| Some(text) != self.model.as_ref());
        found
    }

    /// The extra inputs as they may be shown.
    pub fn extra_inputs_shown(&self) -> Map<String, Value> {
        let mut value = Value::Object(self.extra_inputs.clone());
        hide_members(&mut value, &mut Vec::new());
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const K: &str = "K9secret-value";

    #[test]
    fn names_tell_by_their_words() {
        for name in [
            "X-Api-Key",
            "apikey",
            "access_token",
            "accessKey",
            "Authorization",
            "token",
            "X-Auth",
            "Set-Cookie",
            "x-goog-api-key",
            "client_secret",
            "AZUREAPIKEY",
        ] {
            assert!(is_telling(name), "{name}");
        }
        for name in [
            "max_tokens",
            "stop_token_ids",
            "tokenizer",
            "token-count",
            "eos_token",
            "keyword",
            "model",
            "use-server-token-count",
            "monkey",
            "",
        ] {
            assert!(!is_telling(name), "{name}");
        }
    }

    #[test]
    fn a_header_is_hidden_unless_its_name_is_harmless() {
        let of = |name: &str, value: &str| {
            let mut found = Vec::new();
            (hide_header(name, value, &mut found), found)
        };
        assert_eq!(
            of("accept", "text/event-stream"),
            ("text/event-stream".into(), vec![])
        );
        for (name, value) in [
            ("Authorization", format!("Bearer {K}")),
            ("Cookie", format!("session={K}; theme=dark")),
            ("X-Api-Key", K.to_string()),
            ("X-Tenant", K.to_string()),
            (
                "Proxy-Authorization",
                format!("Digest user=\"a\", response=\"{K}\""),
            ),
        ] {
            let (shown, found) = of(name, &value);
            assert!(
                !shown.contains(K) && found.contains(&K.to_string()),
                "{name}: {found:?}"
            );
            assert!(
                !found
                    .iter()
                    .any(|text| text == "session" || text == "Bearer")
            );
        }
        assert_eq!(of("X-Mode", "concurrency"), (REDACTED.into(), vec![]));
        assert_eq!(
            of("X-Key", "a"),
            (REDACTED.into(), vec!["a".into(), "a".into()])
        );
    }

    #[test]
    fn a_target_shows_neither_user_nor_key_nor_fragment() {
        for (text, want) in [
            ("h:1/v1?a=b&stream=1", "h:1/v1?a=b&stream=1"),
            ("http://u:K9secret-value@h:1/p", "http://<redacted>@h:1/p"),
            ("K9secret-value@h", "<redacted>@h"),
            ("h?x=1&api_key=K9secret-value", "h?x=1&api_key=<redacted>"),
            ("h/#token=K9secret-value", "h/#<redacted>"),
            (
                "ftp://u:K9secret%2Dvalue@h:99999",
                "ftp://<redacted>@h:99999",
            ),
        ] {
            let mut found = Vec::new();
            assert_eq!(hide_target(text, &mut found), want);
            assert_eq!(found.contains(&K.to_string()), text != want, "{text}");
        }
        let key = "sk-aaaaaaaaaaaaaaaaaaa";
        assert_eq!(
            hide_target(&format!("h/{key}/v1?{key}"), &mut vec![]),
            "h/<redacted>/v1?<redacted>"
        );
    }

    #[test]
    fn a_command_line_is_hidden_by_place_even_when_it_cannot_be_read() {
        for (args, want) in [
            (&["--api-key", "abc"][..], "--api-key <redacted>"),
            (&["--api-key=abc"], "--api-key=<redacted>"),
            (&["--apikey", "abc", "-m", "x"], "--apikey <redacted> -m x"),
            (
                &["-H", "X-A: b", "C: d"],
                "-H X-A: <redacted> C: <redacted>",
            ),
            (
                &["-HAuthorization: Bearer b"],
                "-HAuthorization: Bearer <redacted>",
            ),
            (&["--header=Accept: b"], "--header=Accept: b"),
            (&["--url", "http://u:p@h"], "--url http://<redacted>@h"),
            (&["-uhttp://u:p@h"], "-uhttp://<redacted>@h"),
            (
                &["--proxy", "http://u:p@h:1"],
                "--proxy http://<redacted>@h:1",
            ),
            (
                &["--extra-inputs", "api_key:1", "n:2"],
                "--extra-inputs api_key:<redacted> n:2",
            ),
            (
                &["--extra-inputs", "n:2,token:x"],
                "--extra-inputs n:2,token:<redacted>",
            ),
            (
                &["--extra-inputs", r#"{"n":2,"auth":{"x":"y"}}"#],
                r#"--extra-inputs {"n":2,"auth":{"x":"<redacted>"}}"#,
            ),
            (&["--max-tokens", "5"], "--max-tokens 5"),
        ] {
            let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
            assert_eq!(hide_args(&args, &mut vec![]).join(" "), want);
        }
    }

    #[test]
    fn a_file_s_secrets_are_known_before_it_can_be_read() {
        for text in [
            "api_key: [K9secret-value\n",
            "api_key = K9secret-value\n",
            "a: 1\nheader: ['Authorization: Bearer K9secret-value']\n",
            "extra_inputs: {token: K9secret-value}\n",
            "url: http://u:K9secret-value@h\n",
            "apikey: \"K9secret-value\" # it\n",
        ] {
            assert!(secrets_of_file(text).contains(&K.to_string()), "{text}");
        }
        assert!(secrets_of_file("model: m\nmax_tokens: 500000\n").is_empty());
    }

    #[test]
    fn extra_inputs_are_shown_without_their_secrets() {
        let config = Config {
            extra_inputs: serde_json::from_value(json!({"n": 1, "api_key": 12345678})).unwrap(),
            ..Config::default()
        };
        assert_eq!(
            json!(config.extra_inputs_shown()),
            json!({"n": 1, "api_key": REDACTED})
        );
        assert_eq!(config.secrets(), ["", "12345678"][1..]);
    }
}
