//! GenAI-Perf's files, as its `create-template` writes them: every setting is there, most with its
//! default, which says nothing.

use super::paths::{ANALYZE, As, Given, Out, Row, To};
use super::tree::{Fault, Node, Tree};
use serde_json::Value;

use As::{It, Text};
use To::{Code, Flag, Ignored, Nothing, Refused};

#[rustfmt::skip]
const TABLE: &[Row] = &[
    ("analyze", Code(analyze)),
    ("endpoint.backend", Nothing),
    ("endpoint.custom", Flag("endpoint", Text, None)),
    ("endpoint.grpc_method", Flag("grpc-method", It, None)),
    ("endpoint.model_selection_strategy",
        Flag("model-selection-strategy", It, Some("round_robin"))),
    ("endpoint.server_metrics_url", Code(pages)),
    ("endpoint.server_metrics_urls", Code(pages)),
    ("endpoint.streaming", Flag("streaming", It, Some("false"))),
    ("endpoint.type", Nothing),
    ("endpoint.url", Code(url)),
    ("input.audio.batch_size", Flag("audio-batch-size", It, Some("1"))),
    ("input.audio.depths", Flag("audio-depths", It, Some("16"))),
    ("input.audio.format", Flag("audio-format", It, Some("wav"))),
    ("input.audio.length.mean", Flag("audio-length-mean", It, Some("0"))),
    ("input.audio.length.stddev", Flag("audio-length-stddev", It, Some("0"))),
    ("input.audio.num_channels", Flag("audio-num-channels", It, Some("1"))),
    ("input.audio.sample_rates", Flag("audio-sample-rates", It, Some("16"))),
    ("input.batch_size", Flag("prompt-batch-size", It, Some("1"))),
    ("input.extra", Flag("extra-inputs", It, None)),
    ("input.file", Flag("input-file", Text, None)),
    ("input.goodput", Code(goodput)),
    ("input.header", Flag("header", It, None)),
    ("input.image.batch_size", Flag("image-batch-size", It, Some("1"))),
    ("input.image.format", Flag("image-format", It, Some("png"))),
    ("input.image.height.mean", Flag("image-height-mean", It, Some("0"))),
    ("input.image.height.stddev", Flag("image-height-stddev", It, Some("0"))),
    ("input.image.width.mean", Flag("image-width-mean", It, Some("0"))),
    ("input.image.width.stddev", Flag("image-width-stddev", It, Some("0"))),
    ("input.num_dataset_entries", Flag("num-dataset-entries", It, None)),
    ("input.output_tokens.deterministic",
        Flag("output-tokens-mean-deterministic", It, Some("false"))),
    ("input.output_tokens.mean", Flag("osl", It, None)),
    ("input.output_tokens.stddev", Flag("osl-stddev", It, Some("0"))),
    ("input.prefix_prompt.length", Flag("prefix-prompt-length", It, Some("100"))),
    ("input.prefix_prompt.num", Flag("num-prefix-prompts", It, Some("0"))),
    ("input.random_seed", Flag("random-seed", It, None)),
    ("input.sessions.num", Flag("num-sessions", It, Some("0"))),
    ("input.sessions.turn_delay.mean", Flag("session-turn-delay-mean", It, Some("0"))),
    ("input.sessions.turn_delay.ratio", Flag("session-delay-ratio", It, Some("1"))),
    ("input.sessions.turn_delay.stddev", Flag("session-turn-delay-stddev", It, Some("0"))),
    ("input.sessions.turns.mean", Flag("session-turns-mean", It, Some("1"))),
    ("input.sessions.turns.stddev", Flag("session-turns-stddev", It, Some("0"))),
    ("input.synthetic_tokens.mean", Flag("isl", It, None)),
    ("input.synthetic_tokens.stddev", Flag("isl-stddev", It, Some("0"))),
    ("model_name", Flag("model", Text, None)),
    ("model_names", Flag("model", It, None)),
    ("output.artifact_directory", Flag("artifact-dir", Text, Some("artifacts"))),
    ("output.checkpoint_directory", Flag("checkpoint-dir", Text, Some("checkpoint"))),
    ("output.enable_checkpointing", Flag("enable-checkpointing", It, Some("false"))),
    ("output.generate_plots", Flag("generate-plots", It, Some("false"))),
    ("output.profile_export_file",
        Flag("profile-export-file", Text, Some("profile_export.json"))),
    ("perf_analyzer.measurement", Code(measurement)),
    ("perf_analyzer.path", Ignored("no perf_analyzer is run", Some("perf_analyzer"))),
    ("perf_analyzer.stability_percentage", Nothing),
    ("perf_analyzer.stimulus", Code(stimulus)),
    ("perf_analyzer.verbose", Flag("verbose", It, Some("false"))),
    ("perf_analyzer.warmup_request_count", Flag("warmup-request-count", It, Some("0"))),
    ("process", Refused("a run is measured here: leave input_path out", None)),
    ("subcommand", Nothing),
    ("template_filename", Nothing),
    ("tokenizer.name", Flag("tokenizer", Text, None)),
    ("tokenizer.revision", Flag("tokenizer-revision", Text, Some("main"))),
    ("tokenizer.trust_remote_code", Flag("tokenizer-trust-remote-code", It, Some("false"))),
    ("verbose", Nothing),
];

#[cfg(test)]
pub(super) const TABLES: &[&[Row]] = &[TABLE];

/// True for a file of GenAI-Perf's: it has sections that no other file has.
pub(super) fn is(root: &Node) -> bool {
    let has = |names: &[&str]| {
        root.members()
            .iter()
            .any(|(name, _)| names.contains(&&**name))
    };
    let is_map = |name: &str| root.get(name).is_some_and(Node::is_map);
    has(&["perf_analyzer"])
        || has(&["model_name", "model_names"])
            && (has(&["input", "output", "analyze", "process"])
                || is_map("endpoint")
                || is_map("tokenizer"))
}

/// What such a file asks for, or its first fault.
pub(super) fn given(root: &Node) -> Result<Vec<Given>, Fault> {
    let mut out = Out::default();
    out.walk(root, TABLE, "")?;
    if let Some(endpoint) = root.get("endpoint") {
        out.below("endpoint", |out| api(endpoint, out))?;
    }
    Ok(out.given)
}

/// The kind of the endpoint, Triton by default, and another backend than the default.
fn api(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let kind = node.get("type");
    out.give(
        kind.unwrap_or(node),
        "endpoint-type",
        kind.and_then(Node::typed)
            .unwrap_or_else(|| "kserve".into()),
    );
    match node
        .get("backend")
        .filter(|name| name.as_str() != Some("tensorrtllm"))
    {
        Some(backend) => out.give_as(backend, "backend", Text),
        None => Ok(()),
    }
}

/// The default is the port of Triton's gRPC, which is not spoken.
fn url(node: &Node, out: &mut Out) -> Result<(), Fault> {
    if node.as_str() == Some("localhost:8001") {
        out.note(node, "that is the port of gRPC: localhost:8000 is asked");
        return Ok(());
    }
    out.give_as(node, "url", Text)
}

/// The default page need not be there.
fn pages(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let pages: Option<Vec<String>> = node.items().iter().map(Node::typed).collect();
    match pages {
        Some(pages) if pages == ["http://localhost:9400/metrics"] => Ok(()),
        Some(pages) => {
            out.give(node, "server-metrics-urls", pages);
            Ok(())
        }
        None => Err(out.fault(node, "give urls")),
    }
}

fn goodput(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let pair = |(tag, limit): &(String, Node)| Some(format!("{tag}:{}", limit.typed()?));
    let pairs: Option<Vec<String>> = match &node.value {
        Tree::Map(members) => members.iter().map(pair).collect(),
        _ => node.items().iter().map(Node::typed).collect(),
    };
    match pairs {
        Some(pairs) => {
            out.give(node, "goodput", pairs);
            Ok(())
        }
        None => Err(out.fault(node, "give a limit to each metric")),
    }
}

fn stimulus(node: &Node, out: &mut Out) -> Result<(), Fault> {
    for (name, value) in node.members() {
        let flag = match name.as_str() {
            "concurrency" | "session_concurrency" => "concurrency",
            "request_rate" => "request-rate",
            "fixed_schedule" => "fixed-schedule",
            _ => {
                let text = "give concurrency, session_concurrency, request_rate or fixed_schedule";
                return Err(out.fault(value, text));
            }
        };
        let value_given = match flag {
            "fixed-schedule" => value.as_bool().unwrap_or(true).into(),
            _ => value.to_value(),
        };
        out.give(value, flag, value_given);
        if flag == "request-rate" {
            // GenAI-Perf's gaps are constant.
            out.give(value, "arrival-pattern", "constant");
        }
    }
    Ok(())
}

fn measurement(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let number = node.get("num");
    match node.get("mode").and_then(Node::as_str) {
        Some("interval") => {
            let value = number.map_or(Value::from(10_000), Node::to_value);
            out.give(number.unwrap_or(node), "measurement-interval", value);
        }
        None | Some("request_count") => {
            if let Some(number) = number {
                out.give(number, "request-count", number.to_value());
            }
        }
        Some(_) => return Err(out.fault(node, "mode is request_count or interval")),
    }
    Ok(())
}

/// A section that is not empty asks for a sweep of what it names.
fn analyze(node: &Node, out: &mut Out) -> Result<(), Fault> {
    let Some((name, values)) = node.members().first() else {
        return Ok(());
    };
    if let Some((_, second)) = node.members().get(1) {
        return Err(out.fault(second, "one is swept; give lists by flags for a grid"));
    }
    out.give(node, ANALYZE, Value::Null);
    out.give(node, "sweep-type", name.as_str());
    let part = |name: &str| values.get(name).and_then(Node::typed);
    match (part("start"), part("stop"), part("step")) {
        (Some(start), Some(stop), step) => {
            let step = step.map_or(String::new(), |step| format!(":{step}"));
            out.give(values, "sweep-range", format!("{start}:{stop}{step}"));
        }
        _ if values.is_map() => return Err(out.fault(values, "give start and stop, or a list")),
        _ => {
            let list: Option<Vec<String>> = values.items().iter().map(Node::typed).collect();
            let list = list.ok_or_else(|| out.fault(values, "give numbers"))?;
            out.give(values, "sweep-list", list.join(","));
        }
    }
    Ok(())
}
