//! perf_analyzer's `profile_export.json`: when each request went, what came back and when, made
//! into contents by GenAI-Perf's own rules.

use super::runs::{RunError, read_file};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::path::Path;

/// The file's name.
pub const PERF_EXPORT: &str = "profile_export.json";
/// Bytes of one: some 3 kB per request, more of long answers; it is held in memory.
const BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// Lines of a stream of events that are no data.
const NOISE: [&str; 4] = [":", "event:", "id:", "retry:"];

/// A run as perf_analyzer has recorded it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PerfExport {
    /// Requests in the file's order.
    pub requests: Vec<PerfRequest>,
    /// What the load was: `concurrency` or `request_rate`.
    pub mode: String,
    /// How much of it.
    pub value: f64,
    /// `openai`, `triton`.
    pub service_kind: String,
    /// `v1/chat/completions`.
    pub endpoint: String,
    /// Answers came as streams.
    pub is_streaming: bool,
    /// The model that was asked; empty where the file does not say.
    pub model: String,
}

/// A request; times are wall time in ns.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PerfRequest {
    /// When it went.
    pub start_ns: u64,
    /// When each response with content came; empty when none did.
    pub content_ns: Vec<u64>,
    /// All contents together.
    pub output: String,
    /// What was asked: the texts of the prompt, joined by spaces; empty where the file has none.
    pub input: String,
    /// The stream said that it failed.
    pub has_failed: bool,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    experiments: Vec<Experiment<'a>>,
    #[serde(default)]
    service_kind: String,
    #[serde(default)]
    endpoint: String,
}

#[derive(Deserialize)]
struct Experiment<'a> {
    experiment: Load,
    /// One at a time: unfolded all together they would be several times the file.
    #[serde(borrow)]
    requests: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Load {
    mode: String,
    value: f64,
}

#[derive(Deserialize)]
struct Request<'a> {
    timestamp: u64,
    #[serde(default)]
    request_inputs: Value,
    response_timestamps: Vec<u64>,
    #[serde(default, borrow)]
    response_outputs: Vec<Output<'a>>,
}

#[derive(Deserialize)]
struct Output<'a> {
    #[serde(default, borrow)]
    response: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    text_output: Option<Cow<'a, str>>,
}

impl PerfExport {
    /// Reads the file. Contents are those of the answer; `with_reasoning` adds the reasoning, which
    /// GenAI-Perf does not see.
    ///
    /// Cost: the file in memory, and its texts again. Errors name the file: it is larger than 2
    /// GiB, it is cut short or no such file, it holds no request or several loads, a request ended
    /// before it began.
    pub fn open(path: &Path, with_reasoning: bool) -> Result<PerfExport, RunError> {
        let bytes = read_file(path, BYTES_MAX)?;
        parse(&bytes, with_reasoning).map_err(|what| RunError::content(path, what))
    }

    /// Does the file at `path` look like one? By its first member.
    pub fn is_at(path: &Path) -> bool {
        use std::io::Read;
        let mut head = [0; 256];
        let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut head));
        let head = &head[..read.unwrap_or(0)];
        let text = String::from_utf8_lossy(head);
        let inside = text.trim_start().strip_prefix('{').unwrap_or_default();
        inside.trim_start().starts_with("\"experiments\"")
    }
}

fn parse(bytes: &[u8], with_reasoning: bool) -> Result<PerfExport, String> {
    let document: Document<'_> = serde_json::from_slice(bytes)
        .map_err(|error| format!("no profile_export.json of perf_analyzer: {error}"))?;
    let [experiment] = document.experiments.as_slice() else {
        let count = document.experiments.len();
        return Err(format!("{count} experiments; one load per file is read"));
    };
    let is_textless = ["embedding", "rank"]
        .iter()
        .any(|kind| document.endpoint.contains(kind));
    let mut export = PerfExport {
        mode: experiment.experiment.mode.clone(),
        value: experiment.experiment.value,
        service_kind: document.service_kind,
        endpoint: document.endpoint,
        ..PerfExport::default()
    };
    for (at, raw) in experiment.requests.iter().enumerate() {
        let number = at + 1;
        let request: Request<'_> = serde_json::from_str(raw.get())
            .map_err(|error| format!("request {number} cannot be read: {error}"))?;
        let count = request.response_timestamps.len();
        if request.response_outputs.len() != count {
            let outputs = request.response_outputs.len();
            return Err(format!(
                "request {number} has {count} response_timestamps and {outputs} response_outputs"
            ));
        }
        let times = request.response_timestamps.iter();
        let mut since = request.timestamp;
        for time in times {
            if *time < since {
                return Err(format!(
                    "request {number}: a response at {time} comes before {since}"
                ));
            }
            since = *time;
        }
        let asked = asked(&request.request_inputs);
        if let Some(model) = asked["model"].as_str().filter(|_| export.model.is_empty()) {
            export.model = model.to_string();
        }
        let is_stream = asked.get("stream") == Some(&Value::Bool(true));
        export.is_streaming |= is_stream || count > 1 && asked.is_null();
        let mut found = read(&request, &asked, with_reasoning);
        if is_textless {
            // Its answers are numbers: each is content.
            found.content_ns.clone_from(&request.response_timestamps);
            found.output.clear();
        }
        export.requests.push(found);
    }
    match export.requests.is_empty() {
        true => Err("no request is in it".into()),
        false => Ok(export),
    }
}

fn read(request: &Request<'_>, asked: &Value, with_reasoning: bool) -> PerfRequest {
    let times = request.response_timestamps.iter().copied();
    let text = |output: &Output<'_>| -> (String, bool) {
        match (&output.response, &output.text_output) {
            (Some(text), _) => (text.to_string(), true),
            (None, Some(text)) => (text.to_string(), false),
            (None, None) => (String::new(), false),
        }
    };
    let outputs = request.response_outputs.iter().map(text);
    let mut entries: Vec<(u64, String, bool)> = times
        .zip(outputs)
        .map(|(at, (text, is_raw))| (at, text, is_raw))
        .collect();
    join_splinters(&mut entries);
    let mut out = PerfRequest {
        start_ns: request.timestamp,
        input: input(asked),
        ..PerfRequest::default()
    };
    for (at, entry, is_raw) in entries {
        let found = match is_raw {
            true => contents(&entry, with_reasoning),
            false => Some(entry),
        };
        match found {
            None => out.has_failed = true,
            Some(text) if text.is_empty() => {}
            Some(text) => {
                out.content_ns.push(at);
                out.output.push_str(&text);
            }
        }
    }
    out
}

/// A read may begin inside an event: what is left of it belongs to the read before.
fn join_splinters(entries: &mut Vec<(u64, String, bool)>) {
    for at in (1..entries.len()).rev() {
        let (_, text, is_raw) = &entries[at];
        let is_whole = text.starts_with("data: ") || NOISE.iter().any(|n| text.starts_with(n));
        if is_whole || !is_raw {
            continue;
        }
        let length = text.find("data: ").unwrap_or(text.len());
        let rest = entries[at].1.split_off(length);
        let splinter = std::mem::replace(&mut entries[at].1, rest);
        entries[at - 1].1.push_str(&splinter);
        if entries[at].1.is_empty() {
            entries.remove(at);
        }
    }
}

/// The contents of a read with one or more events, or with a whole answer; `None` when an event
/// says that the request failed.
fn contents(entry: &str, with_reasoning: bool) -> Option<String> {
    let mut text = String::new();
    let is_stream = entry.starts_with("data:") || NOISE.iter().any(|n| entry.starts_with(n));
    if !is_stream {
        return Some(content(entry, with_reasoning));
    }
    for event in entry.split("\n\n") {
        let mut lines = event.lines();
        if lines.any(|line| line.starts_with("event:") && line.contains("error")) {
            return None;
        }
        for line in event.lines() {
            let data = line.strip_prefix("data:").unwrap_or_default();
            text.push_str(&content(data.trim_start(), with_reasoning));
        }
    }
    Some(text)
}

/// The content of an object of an answer; empty for what has none.
fn content(data: &str, with_reasoning: bool) -> String {
    let Ok(object) = serde_json::from_str::<Value>(data) else {
        return String::new();
    };
    let choice = &object["choices"][0];
    let mut text = String::new();
    for message in [&choice["delta"], &choice["message"]] {
        let reasoning = [&message["reasoning_content"], &message["reasoning"]];
        let reasoning = reasoning.iter().find_map(|value| value.as_str());
        text.push_str(reasoning.filter(|_| with_reasoning).unwrap_or_default());
        text.push_str(message["content"].as_str().unwrap_or_default());
    }
    for plain in [
        &choice["text"],
        &object["text_output"],
        &object["generated_text"],
    ] {
        text.push_str(plain.as_str().unwrap_or_default());
    }
    text
}

/// The body of a request; null where the file has none that can be read.
fn asked(inputs: &Value) -> Value {
    let payload = inputs.get("payload").and_then(Value::as_str);
    let read = payload.map(|text| serde_json::from_str(text).unwrap_or(Value::Null));
    read.unwrap_or_else(|| match inputs.get("text_input") {
        Some(_) => inputs.clone(),
        None => Value::Null,
    })
}

/// The texts that a model is asked with.
fn input(asked: &Value) -> String {
    let mut texts: Vec<&str> = Vec::new();
    for message in asked["messages"].as_array().into_iter().flatten() {
        add_texts(&message["content"], &mut texts);
    }
    for key in ["prompt", "text_input", "input", "inputs"] {
        add_texts(&asked[key], &mut texts);
    }
    texts.join(" ")
}

fn add_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(parts) => {
            for part in parts {
                let text = part.as_str().or_else(|| part["text"].as_str());
                texts.extend(text);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chunk(text: &str) -> String {
        format!(
            "data: {}\n\n",
            json!({"choices": [{"delta": {"content": text}}]})
        )
    }

    fn document(requests: Value) -> Vec<u8> {
        let experiment = json!({"experiment": {"mode": "concurrency", "value": 1},
            "requests": requests, "window_boundaries": []});
        json!({"experiments": [experiment], "service_kind": "openai"})
            .to_string()
            .into_bytes()
    }

    fn one(outputs: &[(u64, String)]) -> PerfRequest {
        let request = json!({
            "timestamp": 1,
            "request_inputs": {"payload": "{\"stream\":true,\"prompt\":[\"a\",\"b\"]}"},
            "response_timestamps": outputs.iter().map(|o| o.0).collect::<Vec<_>>(),
            "response_outputs":
                outputs.iter().map(|o| json!({"response": o.1})).collect::<Vec<_>>(),
        });
        let export = parse(&document(json!([request])), false).unwrap();
        assert!(export.is_streaming);
        export.requests[0].clone()
    }

    #[test]
    fn what_has_no_content_is_left_out_with_its_time() {
        let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n".to_string();
        let usage = "data: {\"choices\":[],\"usage\":{}}\n\n".to_string();
        let done = "data: [DONE]\n\n".to_string();
        let noise = ": ping\n\n".to_string();
        let outputs = [
            (3, role),
            (5, chunk("a")),
            (6, noise),
            (8, chunk("b")),
            (9, usage),
            (9, done),
        ];
        let found = one(&outputs);
        assert_eq!((found.content_ns, &*found.output), (vec![5, 8], "ab"));
        assert_eq!(found.input, "a b");
    }

    #[test]
    fn a_splinter_belongs_to_the_read_before_it_and_events_of_one_read_are_one() {
        let (whole, three) = (chunk("abc"), chunk("x") + &chunk("y") + &chunk("z"));
        let (head, tail) = whole.split_at(20);
        let outputs = [
            (3, head.into()),
            (4, format!("{tail}{}", chunk("d"))),
            (9, three),
        ];
        let found = one(&outputs);
        assert_eq!(
            (found.content_ns, &*found.output),
            (vec![3, 4, 9], "abcdxyz")
        );
        let bare = chunk("q").replace("data: ", "");
        let found = one(&[(3, "data:".into()), (4, bare)]);
        assert_eq!((found.content_ns, &*found.output), (vec![3], "q"));
        let reasoned = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"r\"}}]}\n\n";
        let found = one(&[(3, reasoned.into()), (4, chunk("q"))]);
        assert_eq!(found.content_ns, [4]);
        assert_eq!(contents(reasoned, true).as_deref(), Some("r"));
        assert!(one(&[(3, chunk("a")), (4, "event: error\ndata: {}\n\n".into())]).has_failed);
    }

    #[test]
    fn what_is_no_such_file_is_refused_by_what_is_wrong() {
        let whole = document(json!([{"timestamp": 5, "response_timestamps": [7],
            "response_outputs": [{"response": "{}"}]}]));
        assert!(parse(&whole, false).is_ok());
        let text = String::from_utf8(whole.clone()).unwrap();
        for (bytes, told) in [
            (whole[..whole.len() - 9].to_vec(), "EOF"),
            (text.replace("[7]", "[4]").into_bytes(), "comes before 5"),
            (
                text.replace("[7]", "[]").into_bytes(),
                "0 response_timestamps",
            ),
            (
                text.replace(":5,", ":-5,").into_bytes(),
                "request 1 cannot be read",
            ),
            (text.replace(":5,", ":NaN,").into_bytes(), "perf_analyzer"),
            (
                text.replace(":5,", ":\"5\",").into_bytes(),
                "request 1 cannot be read",
            ),
            (document(json!([])), "no request"),
            (b"{\"experiments\":[]}".to_vec(), "0 experiments"),
            (vec![0; 100], "no profile_export.json"),
        ] {
            let error = parse(&bytes, false).unwrap_err();
            assert!(error.contains(told), "{error}: {told}");
        }
    }
}
