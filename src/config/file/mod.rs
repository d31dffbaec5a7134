//! Settings from a YAML or TOML file: ours, AIPerf's or GenAI-Perf's.

mod aiperf;
mod aiperf_phases;
mod genai_perf;
mod paths;
mod tree;

use super::{Draft, PhaseDraft, SearchDraft, SweepDraft, axis, secrets_of_file};
use crate::base::Secrets;
use paths::Given;
use serde_json::{Map, Value};
use std::path::Path;
use tree::{Fault, Node};

/// What stands in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FromFile {
    /// Settings, with the keys of [`Draft`], [`SweepDraft`] and [`SearchDraft`].
    pub settings: Map<String, Value>,
    /// Sentences on what a peer's file has and changes nothing here, with file and line.
    pub notes: Vec<String>,
    /// It asks for many runs, as GenAI-Perf's `analyze` does.
    pub analyze: bool,
}

/// A note that it changes nothing, or an error; `None` when it is not known.
pub type OfPeer = Option<Result<String, String>>;

/// What the reader is told of names.
pub struct Names<'a> {
    /// The key of a setting by any of its names, or why there is none.
    pub key: &'a dyn Fn(&str) -> Result<String, String>,
    /// What becomes of a peer's setting that is none here, by the name of its flag and its value.
    pub of_peer: &'a dyn Fn(&str, &Value) -> OfPeer,
}

/// Reads a file, with `${NAME}` of the environment filled in. Errors name the file, and the line
/// where it is known.
pub fn read(path: &Path, names: &Names) -> Result<FromFile, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--config {shown}: {error}; give a YAML or TOML file"))?;
    let mut root = parsed(path, &text).map_err(|error| format!("--config {shown}: {error}"))?;
    let at = |fault: Fault| match fault.line {
        0 => format!("--config {shown}: {}", fault.text),
        line => format!("--config {shown}: line {line}: {}", fault.text),
    };
    root.fill_in(&|name| std::env::var(name).ok()).map_err(at)?;
    let given = match () {
        () if genai_perf::is(&root) => genai_perf::given(&root),
        () if aiperf::is(&root) => aiperf::given(&root),
        () => Ok(ours(&root)),
    };
    let mut file = FromFile::default();
    for one in given.map_err(at)? {
        take(&mut file, one, names).map_err(at)?;
    }
    for note in &mut file.notes {
        *note = format!("{shown}: {note}");
    }
    Ok(file)
}

/// The tree of a text. Errors show no line of it, nor a value: it may hold a key.
fn parsed(path: &Path, text: &str) -> Result<Node, String> {
    let toml = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    let parsed: Result<Node, String> = match toml {
        true => toml::from_str(text)
            .map(tree::without_lines)
            .map_err(|error| {
                let at = error.span().map(|span| line_of(text, span.start));
                format!("{}{}", at.unwrap_or_default(), error.message())
            }),
        // Else `model: n` would be a boolean.
        false => {
            let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
            serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
        }
    };
    let mut root = parsed.map_err(|error| Secrets::new(secrets_of_file(text)).shown(&error))?;
    if let tree::Tree::Map(members) = &mut root.value {
        for (name, node) in members.iter_mut().filter(|(_, node)| node.line == 0) {
            node.line = line(text, name)
                .and_then(|line| line.try_into().ok())
                .unwrap_or(0);
        }
        return Ok(root);
    }
    match text.trim().is_empty() || root.is_null() {
        true => Ok(tree::without_lines(Map::new())),
        false => Err("no settings: a file has a line `key: value` for each".into()),
    }
}

/// Settings of a file of ours.
fn ours(root: &Node) -> Vec<Given> {
    let of = |(name, node): &(String, Node)| Given {
        path: name.clone(),
        line: node.line,
        flag: name.clone(),
        value: node.to_value(),
        is_peer: false,
    };
    root.members().iter().map(of).collect()
}

fn take(file: &mut FromFile, given: Given, names: &Names) -> Result<(), Fault> {
    let Given {
        path,
        line,
        flag,
        value,
        is_peer,
    } = given;
    let bad = |reason: String| {
        Err(Fault {
            line,
            text: format!("{path}: {reason}"),
        })
    };
    if flag == paths::ANALYZE {
        file.analyze = true;
        return Ok(());
    }
    if let Some(text) = flag.strip_prefix(paths::NOTE) {
        file.notes.push(format!("line {line}: {path}: {text}"));
        return Ok(());
    }
    let key = match (names.key)(&flag) {
        Ok(key) => key,
        Err(reason) => match (names.of_peer)(&flag, &value).filter(|_| is_peer) {
            Some(Ok(note)) => {
                file.notes.push(format!("line {line}: {path}: {note}"));
                return Ok(());
            }
            Some(Err(reason)) => return bad(reason),
            None => return bad(reason),
        },
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
    match file.settings.insert(key, value) {
        Some(_) => bad("it is set twice, under two of its names".into()),
        None => Ok(()),
    }
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

/// Every flag that a table for a file of a peer names.
#[cfg(test)]
pub(crate) fn flags_of_peers() -> Vec<&'static str> {
    let tables = [aiperf::TABLES, aiperf_phases::TABLES, genai_perf::TABLES].concat();
    let rows = tables.into_iter().flatten();
    let flag = |(_, to): &paths::Row| match to {
        paths::To::Flag(flag, ..) => Some(*flag),
        _ => None,
    };
    rows.filter_map(flag)
        .filter(|flag| !flag.is_empty())
        .collect()
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
        let names = Names {
            key: &key,
            of_peer: &|_, _| None,
        };
        read(&path, &names).map(|file| Value::Object(file.settings))
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
