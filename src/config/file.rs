//! Settings from a YAML or TOML file.

use super::{Draft, PhaseDraft, SearchDraft, SweepDraft, axis, secrets_of_file};
use crate::base::Secrets;
use serde_json::{Map, Value};
use std::path::Path;

/// Reads a file. `key` knows a setting by any of its names, or says why there is none; what comes
/// back has the keys of [`Draft`], [`SweepDraft`] and [`SearchDraft`]. Errors name the file, and
/// the line where it is known.
pub fn read(
    path: &Path,
    key: impl Fn(&str) -> Result<String, String>,
) -> Result<Map<String, Value>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--config {shown}: {error}; give a YAML or TOML file"))?;
    let toml = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    let parsed: Result<Map<String, Value>, String> = match toml {
        true => toml::from_str(&text).map_err(|error| {
            let at = error.span().map(|span| line_of(&text, span.start));
            format!("{}{}", at.unwrap_or_default(), error.message())
        }),
        // Else `model: n` would be a boolean.
        false => {
            let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
            serde_saphyr::from_str_with_options(&text, options).map_err(|error| error.to_string())
        }
    };
    // No parser shows the line that it stumbles over, nor a value of it: it may hold a key.
    let parsed = parsed.map_err(|error| Secrets::new(secrets_of_file(&text)).shown(&error));
    let mut all = Map::new();
    for (name, value) in parsed.map_err(|error| format!("--config {shown}: {error}"))? {
        let at = line(&text, &name).map_or(String::new(), |line| format!("line {line}: "));
        let bad = |reason: String| Err(format!("--config {shown}: {at}{name}: {reason}"));
        let key = match key(&name) {
            Ok(key) => key,
            Err(reason) => return bad(reason),
        };
        // Not a number is null here, and must not pass for a setting that was left out.
        if value.is_null() {
            return bad("it has no value; give one, or leave it out".into());
        }
        if !fits(&key, &value) {
            if key == "phases" {
                let fault = phases_fault(&value);
                return bad(fault.unwrap_or("give a list of phases".into()));
            }
            // Not echoed: it may be a secret.
            return bad("its value has the wrong kind; profile --help says what it takes".into());
        }
        if all.insert(key, value).is_some() {
            return bad("it is set twice, under two of its names".into());
        }
    }
    Ok(all)
}

/// Can the setting have this value? One that a sweep can vary may have a list of them.
fn fits(key: &str, value: &Value) -> bool {
    let alone = || Value::from(Map::from_iter([(key.to_string(), value.clone())]));
    let is_one = || {
        serde_json::from_value::<Draft>(alone()).is_ok()
            || serde_json::from_value::<SweepDraft>(alone()).is_ok()
            || serde_json::from_value::<SearchDraft>(alone()).is_ok()
    };
    match (axis(key), value) {
        (Some(_), Value::Array(values)) => values.iter().all(|value| fits(key, value)),
        _ => is_one(),
    }
}

/// Which phase cannot be read, and why.
fn phases_fault(value: &Value) -> Option<String> {
    let Value::Array(phases) = value else {
        return Some("give a list of phases".into());
    };
    let numbered = (1..).zip(phases);
    let fault = |(number, phase): (usize, &Value)| {
        let error = serde_json::from_value::<PhaseDraft>(phase.clone()).err()?;
        let name = phase["name"].as_str().map(|name| format!(" `{name}`"));
        Some(format!(
            "phase {number}{}: {error}",
            name.unwrap_or_default()
        ))
    };
    numbered.filter_map(fault).next()
}

/// Where a key of the outermost level stands, counted from 1.
fn line(text: &str, name: &str) -> Option<usize> {
    let is_it = |line: &str| {
        line.trim_start_matches(['"', '\'', '['])
            .strip_prefix(name)
            .is_some_and(|rest| {
                !rest.starts_with(|c: char| c.is_alphanumeric() || "_-".contains(c))
            })
    };
    text.lines().position(is_it).map(|index| index + 1)
}

fn line_of(text: &str, at: usize) -> String {
    let before = text.as_bytes().iter().take(at);
    format!(
        "line {}: ",
        before.filter(|byte| **byte == b'\n').count() + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(name: &str, text: &str) -> Result<Value, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let key = |name: &str| match name {
            "model-names" => Ok("model".into()),
            "typo" => Err("no such setting".into()),
            name => Ok(name.replace('-', "_")),
        };
        read(&path, key).map(Value::Object)
    }

    #[test]
    fn yaml_and_toml_say_the_same_under_any_name() {
        let expected = json!({
            "model": "m", "concurrency": 4, "url": ["a", "b"], "extra_inputs": {"x": null}
        });
        let yaml = "model-names: m\nconcurrency: 4\nurl: [a, b]\nextra-inputs: {x: null}\n";
        assert_eq!(of("a.yaml", yaml).unwrap(), expected);
        let toml = "model = 'm'\nconcurrency = 4\nurl = ['a', 'b']\ncores = 2\n";
        let expected = json!({"model": "m", "concurrency": 4, "url": ["a", "b"], "cores": 2});
        assert_eq!(of("a.toml", toml).unwrap(), expected);
    }

    #[test]
    fn what_is_wrong_names_file_line_and_key() {
        for (name, text, expected) in [
            (
                "a.yaml",
                "model: m\ntypo: 4\n",
                "a.yaml: line 2: typo: no such setting",
            ),
            (
                "a.toml",
                "extra_inputs = {x = 1}\n[typo]\n",
                "a.toml: line 2: typo: no such",
            ),
            (
                "a.toml",
                "concurrency = 'x'\n",
                "line 1: concurrency: its value",
            ),
            ("a.yaml", "request_rate: .nan\n", "at line 1"),
            (
                "a.toml",
                "request-rate = inf\n",
                "line 1: request-rate: it has no value",
            ),
            (
                "a.yaml",
                "model: m\nmodel-names: n\n",
                "line 2: model-names: it is set twice",
            ),
        ] {
            let error = of(name, text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_error_shows_no_line_of_the_file() {
        for (name, text) in [
            ("a.yaml", "api_key: [K9secret-value\n"),
            ("a.yaml", "api_key: {a: K9secret-value}\nmodel: m\n"),
            (
                "a.yaml",
                "concurrency: K9secret-value # api_key: K9secret-value\n",
            ),
            ("a.yaml", "api_key: K9secret-value\nbad_key: 1\n"),
            ("a.yaml", "api_key: 'K9secret-value\n"),
            ("a.yaml", "header: *K9secret-value\n"),
            ("a.toml", "model = 'm'\napi_key = K9secret-value\n"),
            ("a.toml", "api_key = {a = 'K9secret-value'}\n"),
            ("a.toml", "api_key = 'K9secret-value'\nbad_key = 1\n"),
        ] {
            let error = of(name, text).unwrap_err();
            assert!(!error.contains("secret-value"), "{error}");
            assert!(error.contains("line "), "{error}");
        }
    }
}
