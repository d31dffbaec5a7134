//! Flags of the peers that are not served here, and where one that is served means something else.
//!
//! A row a name, sorted by name. A flag that comes to be served leaves this table.

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::{Map, Value};

/// What a flag of a peer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Nothing.
    Switch,
    /// A value.
    One,
    /// Values, and it may come again.
    Many,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is taken and changes nothing, for this reason.
    Ignored(&'static str),
    /// With one of these values it is taken, since that is so here; else this is the way.
    Only(&'static [&'static str], &'static str),
    /// It is refused: what to do instead.
    Refused(&'static str),
}

/// A flag of a peer.
pub(super) struct Peer {
    /// Without dashes.
    pub name: &'static str,
    pub takes: Takes,
    pub fate: Fate,
}

const fn peer(name: &'static str, takes: Takes, fate: Fate) -> Peer {
    Peer { name, takes, fate }
}

/// A flag that is served, and means something else than in a peer.
pub(super) struct Difference {
    /// Without dashes.
    pub name: &'static str,
    /// With which values that is said at run time, and `Some` of none with any; `None` where the
    /// peers differ among themselves, and only the docs say it.
    pub values: Option<&'static [&'static str]>,
    pub text: &'static str,
}

const fn differs(
    name: &'static str,
    values: Option<&'static [&'static str]>,
    text: &'static str,
) -> Difference {
    Difference { name, values, text }
}

use Fate::{Ignored, Only, Refused};
use Takes::{Many, One, Switch};

const AGENTIC: &str = "agentic traces are not replayed: --input-file reads mooncake_trace";
const API: &str = "there is no API while a run goes on: read its files and stderr";
const BLOCKS: &str = "the file's input_length and hash_ids say how long a block is";
const BUS: &str = "there is one process and no message bus";
const CORPUS: &str = "prompts have one corpus: put other texts in a file, and give --input-file";
const DATASET: &str = "nothing is fetched: put the prompts in a file, and give --input-file";
const GAPS: &str = "--trace-speedup shortens the times of a trace; or change its file";
const GRADING: &str = "answers are not graded: run a harness for accuracy beside it";
const LENGTHS: &str = "lengths are normal (--isl-stddev): put others in a file for --input-file";
const MEDIA: &str = "no small encoder makes WebM or MP4 here; images and audio are made";
const MODELS: &str = "a run measures one model: give each a run of its own";
const NETWORK: &str = "nothing is taken off: profile_export.jsonl has each connect's time";
const PREFIX: &str = "shared prefixes are not made: put whole prompts in a file, give --input-file";
const RECORDS: &str = "one thread keeps up with the records";
const SCENARIO: &str = "there are no named scenarios: give its flags one by one";
const SYNTHESIS: &str = "a trace is replayed as it is: change its file, and give --input-file";
const TRACKER: &str = "nothing is sent to trackers: upload the run's folder with their client";

#[rustfmt::skip]
pub(super) const PEERS: &[Peer] = &[
    peer("accuracy-benchmark", One, Refused(GRADING)),
    peer("accuracy-enable-cot", Switch, Refused(GRADING)),
    peer("accuracy-grader", One, Refused(GRADING)),
    peer("accuracy-n-shots", One, Refused(GRADING)),
    peer("accuracy-system-prompt", One, Refused(GRADING)),
    peer("accuracy-tasks", Many, Refused(GRADING)),
    peer("accuracy-verbose", Switch, Refused(GRADING)),
    peer("agentic-cache-warmup-duration", One, Refused(AGENTIC)),
    peer("agentic-warmup-grace-period", One, Refused(AGENTIC)),
    peer("allow-dataset-wrap", Switch, Refused(AGENTIC)),
    peer("api-host", One, Refused(API)),
    peer("api-port", One, Refused(API)),
    peer("artifact-directory", One, Refused("it is called --artifact-dir")),
    peer("batch-size-video", One, Refused(MEDIA)),
    peer("bo-constraint-mode", One, Ignored("what --search-sla says must hold")),
    peer("burst-phase-starts", Switch, Refused(AGENTIC)),
    peer("cache-bust", One,
        Only(&["none"], "every prompt is another one: leave --num-dataset-entries out")),
    peer("dataset-filter", Many, Refused(DATASET)),
    peer("dataset-sampling-strategy", One,
        Only(&["sequential"], "the order is the file's: shuffle its lines")),
    peer("download-video-content", Switch,
        Refused("video_generation is not spoken yet: leave it out")),
    peer("export-http-trace", Switch,
        Ignored("profile_export.jsonl has these times always, as `timeline`")),
    peer("export-outputs-json", Switch,
        Refused("--export-level raw keeps every event of every answer")),
    peer("force-min-tokens", Switch,
        Refused("--extra-inputs ignore_eos:true has answers end at their length")),
    peer("gen-ai-provider", One, Refused(TRACKER)),
    peer("grpc-method", One, Refused("gRPC is not spoken: --backend asks Triton over HTTP")),
    peer("hf-subset", One, Refused(DATASET)),
    peer("hf-weka-dataset", One, Refused(AGENTIC)),
    peer("ignore-trace-delays", Switch,
        Refused("take delay out of the lines, and give --no-fixed-schedule")),
    peer("inter-turn-delay-cap-seconds", One, Refused(GAPS)),
    peer("isl-block-size", One, Refused(BLOCKS)),
    peer("log-level", One, Ignored("messages go to stderr; DEBUG and TRACE are --verbose")),
    peer("max-context-length", One, Refused(AGENTIC)),
    peer("max-idle-gap-cap-seconds", One, Refused(GAPS)),
    peer("mlflow-artifact-glob", Many, Refused(TRACKER)),
    peer("mlflow-experiment", One, Refused(TRACKER)),
    peer("mlflow-parent-run-id", One, Refused(TRACKER)),
    peer("mlflow-run-name", One, Refused(TRACKER)),
    peer("mlflow-tag", Many, Refused(TRACKER)),
    peer("mlflow-tracking-uri", One, Refused(TRACKER)),
    peer("model-selection-strategy", One, Refused(MODELS)),
    peer("network-latency-automatic", Switch, Refused(NETWORK)),
    peer("network-latency-mean", One, Refused(NETWORK)),
    peer("network-latency-ping-interval", One, Refused(NETWORK)),
    peer("no-force-min-tokens", Switch,
        Ignored("answers of a trace end by themselves")),
    peer("no-open-loop-replay", Switch,
        Refused("--no-fixed-schedule with --concurrency is a closed loop")),
    peer("num-prefix-prompts", One, Refused(PREFIX)),
    peer("omit-kv-hints", Switch, Ignored("no request has the hints of a trace")),
    peer("open-loop-replay", Switch, Ignored("times of a trace are kept so in any case")),
    peer("open-loop-strict", Switch,
        Refused("leave session_id out of the file: each line then stands alone")),
    peer("optuna-acquisition", One, Ignored("no sampler draws loads: smooth_isotonic fits them")),
    peer("optuna-sampler", One, Ignored("no sampler draws loads: smooth_isotonic fits them")),
    peer("optuna-terminator", One,
        Ignored("a search ends by its interval, or by --search-max-iterations")),
    peer("otel-resource-attributes", Many, Refused(TRACKER)),
    peer("otel-url", One, Refused(TRACKER)),
    peer("output-format", One, Refused("--endpoint-type names the API")),
    peer("override-config", Switch, Ignored("flags win over a file in any case")),
    peer("plot-required", Switch, Ignored("a plot that is lost ends with exit code 6 in any case")),
    peer("prefix-prompt-length", One, Refused(PREFIX)),
    peer("prefix-prompt-pool-size", One, Refused(PREFIX)),
    peer("prompt-corpus", One, Refused(CORPUS)),
    peer("prompt-input-tokens-block-size", One, Refused(BLOCKS)),
    peer("prompt-prefix-length", One, Refused(PREFIX)),
    peer("prompt-prefix-pool-size", One, Refused(PREFIX)),
    peer("public-dataset", One, Refused(DATASET)),
    peer("random-corpus-style", One, Refused(CORPUS)),
    peer("random-range-ratio", One, Refused(LENGTHS)),
    peer("record-processor-service-count", One, Ignored(RECORDS)),
    peer("record-processors", One, Ignored(RECORDS)),
    peer("request-content-type", One, Refused("an endpoint type has its own form: leave it out")),
    peer("scenario", One, Refused(SCENARIO)),
    peer("search-percentile-pooling", One,
        Only(&["mean"], "each run has its own percentile: --sla-precision gives it more requests")),
    peer("seq-dist", One, Refused(LENGTHS)),
    peer("sequence-distribution", One, Refused(LENGTHS)),
    peer("service-kind", One,
        Only(&["openai"], "--backend tensorrtllm or vllm asks Triton over HTTP")),
    peer("shared-system-prompt-length", One, Refused(PREFIX)),
    peer("show-trace-timing", Switch,
        Ignored("profile_export.jsonl has these times always, as `timeline`")),
    peer("stats-interval", One, Ignored("progress has its own pace")),
    peer("stream", Many, Refused(TRACKER)),
    peer("synthesis-max-isl", One, Refused(SYNTHESIS)),
    peer("synthesis-max-osl", One, Refused(SYNTHESIS)),
    peer("synthesis-output-len-multiplier", One, Refused(SYNTHESIS)),
    peer("synthesis-prefix-len-multiplier", One, Refused(SYNTHESIS)),
    peer("synthesis-prefix-root-multiplier", One, Refused(SYNTHESIS)),
    peer("synthesis-prompt-len-multiplier", One, Refused(SYNTHESIS)),
    peer("synthetic-input-tokens-block-size", One, Refused(BLOCKS)),
    peer("system-idle-gap-cap-seconds", One, Refused(AGENTIC)),
    peer("system-prompt", One, Refused(PREFIX)),
    peer("system-prompt-file", One, Refused(PREFIX)),
    peer("tokenizer-trust-remote-code", Switch, Ignored("no code of a tokenizer is run")),
    peer("tokenizer-verbosity", One, Ignored("the tokenizer says nothing")),
    peer("trace-idle-gap-cap-seconds", One, Refused(AGENTIC)),
    peer("trace-session-sample-ratio", One, Refused(SYNTHESIS)),
    peer("trajectory-start-max-ratio", One, Refused(AGENTIC)),
    peer("trajectory-start-min-ratio", One, Refused(AGENTIC)),
    peer("transport", One, Only(&["http"], "HTTP/1.1 is the only one: ask the server's HTTP port")),
    peer("transport-type", One,
        Only(&["http"], "HTTP/1.1 is the only one: ask the server's HTTP port")),
    peer("unsafe-override", Switch, Refused(SCENARIO)),
    peer("url-strategy", One, Only(&["round_robin"], "several --url take turns")),
    peer("use-think-time-only", Switch, Refused(AGENTIC)),
    peer("user-context-prompt-length", One, Refused(PREFIX)),
    peer("uuid-and-strip", Switch, Refused("every request has its images whole: leave it out")),
    peer("video-audio-codec", One, Refused(MEDIA)),
    peer("video-audio-depth", One, Refused(MEDIA)),
    peer("video-audio-num-channels", One, Refused(MEDIA)),
    peer("video-audio-sample-rate", One, Refused(MEDIA)),
    peer("video-batch-size", One, Refused(MEDIA)),
    peer("video-codec", One, Refused(MEDIA)),
    peer("video-duration", One, Refused(MEDIA)),
    peer("video-format", One, Refused(MEDIA)),
    peer("video-fps", One, Refused(MEDIA)),
    peer("video-height", One, Refused(MEDIA)),
    peer("video-synth-type", One, Refused(MEDIA)),
    peer("video-width", One, Refused(MEDIA)),
    peer("wandb-entity", One, Refused(TRACKER)),
    peer("wandb-project", One, Refused(TRACKER)),
    peer("wandb-run-name", One, Refused(TRACKER)),
    peer("wandb-tag", Many, Refused(TRACKER)),
    peer("zmq-dual-bind", Switch, Ignored(BUS)),
    peer("zmq-host", One, Ignored(BUS)),
    peer("zmq-ipc-path", One, Ignored(BUS)),
];

#[rustfmt::skip]
pub(super) const DIFFERENCES: &[Difference] = &[
    differs("artifact-dir", None,
        "GenAI-Perf puts a folder by model and load into it; here that is only without the flag, \
        and in analyze"),
    differs("concurrency", None,
        "beside a rate, AIPerf sends less once it is used up (--when-capped skip); here what is \
        due waits for a slot"),
    differs("endpoint-type", Some(&["kserve"]),
        "Triton is asked over HTTP (its generate extension), not over gRPC: give its HTTP port"),
    differs("gpu-telemetry", Some(&["dashboard"]), "the report has the figures; nothing is live"),
    differs("header", None, "AIPerf ends a header at a comma; here a comma is part of its value"),
    differs("osl", None, "GenAI-Perf sends max_tokens (--use-legacy-max-tokens)"),
    differs("random-seed", None, "GenAI-Perf's is 0 by default; here it is random and recorded"),
    differs("request-rate", None,
        "GenAI-Perf's gaps are constant (--arrival-pattern constant); here they are Poisson's"),
    differs("search-initial-points", Some(&[]), "no points are drawn; it is only recorded"),
    differs("stability-percentage", None, "GenAI-Perf's is 999 by default, which is no limit"),
    differs("sweep-range", None, "100:1000 is 128, 256, 512; GenAI-Perf's is 64 to 512"),
    differs("ui", Some(&["dashboard"]), "simple is shown"),
    differs("workers-max", None, "it counts cores, and one carries hundreds of streams"),
];

/// A hidden argument for each flag that is not served, so that its value is read as the peer reads
/// it; `is_served` knows the others.
pub(super) fn args(is_served: impl Fn(&str) -> bool) -> impl Iterator<Item = Arg> {
    let own = PEERS.iter().filter(move |peer| !is_served(peer.name));
    own.flat_map(|peer| {
        let opposite = format!("no-{}", peer.name);
        // AIPerf's switches can be taken back; what is not done anyway needs no word.
        let is_listed = PEERS.iter().any(|other| other.name == opposite);
        let negative = (peer.takes == Switch && !is_listed && !peer.name.starts_with("no-"))
            .then(|| Arg::new(opposite.clone()).long(opposite).hide(true))
            .map(|arg| arg.action(ArgAction::Count));
        let mut arg = Arg::new(peer.name).long(peer.name).hide(true);
        if peer.name == "batch-size" {
            arg = arg.short('b');
        }
        let arg = match peer.takes {
            Switch => arg.action(ArgAction::Count),
            One => arg
                .allow_negative_numbers(true)
                .overrides_with(peer.name)
                .value_name("VALUE"),
            Many => arg
                .allow_negative_numbers(true)
                .action(ArgAction::Append)
                .num_args(1..)
                .value_name("VALUE"),
        };
        negative.into_iter().chain([arg])
    })
}

/// What was typed of them: notes on those that are taken. Errors: the first that is refused.
pub(super) fn judge(matches: &ArgMatches) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    for peer in PEERS {
        let name = peer.name;
        // `Err` where it is served by now, under this name or as an alias.
        let Ok(Some(mut raw)) = matches.try_get_raw(name) else {
            continue;
        };
        let is_typed = matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
        if !is_typed {
            continue;
        }
        match peer.fate {
            Ignored(reason) => notes.push(format!("--{name} changes nothing: {reason}")),
            Only(values, other) => match raw.find(|value| !values.iter().any(|v| value == v)) {
                None => notes.push(format!("--{name} changes nothing: it is so here")),
                Some(_) => return Err(format!("--{name}: {other}, or leave it out")),
            },
            Refused(other) => return Err(format!("--{name}: {other}")),
        }
    }
    Ok(notes)
}

/// Why a flag (without dashes) is no setting of a file; `None` when it is not a peer's.
pub(super) fn reason(flag: &str) -> Option<String> {
    let peer = PEERS.iter().find(|peer| peer.name == flag)?;
    Some(match peer.fate {
        Ignored(reason) => format!("it changes nothing, so leave it out: {reason}"),
        Only(_, other) => format!("{other}, or leave it out"),
        Refused(other) => other.to_string(),
    })
}

/// What becomes of a peer's setting with this value in a file of the peer: a note, or an error.
/// `None` when the flag (without dashes) is not in the table.
pub(super) fn judge_value(flag: &str, value: &Value) -> Option<Result<String, String>> {
    let peer = PEERS.iter().find(|peer| peer.name == flag)?;
    Some(match peer.fate {
        Ignored(reason) => Ok(format!("it changes nothing: {reason}")),
        Only(values, _) if value.as_str().is_some_and(|text| values.contains(&text)) => {
            Ok("it changes nothing: it is so here".into())
        }
        Only(_, other) => Err(format!("{other}, or leave it out")),
        Refused(other) => Err(other.into()),
    })
}

/// Where these settings, by their keys, mean something else than in a peer.
pub(super) fn differences(settings: &Map<String, Value>) -> Vec<String> {
    let has = |value: &Value, text: &str| match value {
        Value::Array(items) => items.iter().any(|item| item == text),
        value => value == text,
    };
    let said = |difference: &&Difference| {
        let value = settings.get(&difference.name.replace('-', "_"));
        match (difference.values, value) {
            (Some([]), Some(_)) => true,
            (Some(values), Some(value)) => values.iter().any(|text| has(value, text)),
            _ => false,
        }
    };
    let line = |difference: &Difference| format!("--{}: {}", difference.name, difference.text);
    DIFFERENCES.iter().filter(said).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::flags::{command, flags};
    use serde_json::json;

    const AIPERF: &str = include_str!("../../../tests/data/peers/aiperf-0.13.0.txt");
    const GENAI_PERF: &str = include_str!("../../../tests/data/peers/genai-perf-0.0.16.txt");

    /// Kind and name of each flag of a peer, dashes and all.
    fn listed(list: &str) -> Vec<(&str, &str)> {
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let names = lines.flat_map(|line| {
            let (kind, names) = line.split_once(' ').unwrap();
            names.split(' ').map(move |name| (kind, name))
        });
        names.collect()
    }

    #[test]
    fn every_flag_of_both_peers_takes_what_the_peer_s_takes() {
        let all: Vec<_> = listed(AIPERF)
            .into_iter()
            .chain(listed(GENAI_PERF))
            .collect();
        assert!(all.len() >= 390, "only {} names", all.len());
        let parses = |words: &[&str]| {
            let words = ["tokenring", "profile"].iter().chain(words).map(Into::into);
            let (words, _) = crate::cli::flags::translated(&words.collect::<Vec<_>>()).unwrap();
            command()
                .try_get_matches_from(&words[1..])
                .map_err(|error| error.to_string())
        };
        for (kind, name) in all {
            let good: &[&[&str]] = match kind {
                "switch" => &[&[name], &[name, "--isl", "5"]],
                "one" if name == "--fixed-schedule" => &[&[name], &[name, "true"]],
                "one" => &[&[name, "7"]],
                "list" => &[&[name, "7", "8"]],
                _ => &[&[name, "7"], &[name, "7", name, "8"]],
            };
            for words in good {
                let read = parses(words);
                assert!(read.is_ok(), "{words:?}: {}", read.unwrap_err());
            }
            if kind == "one" && name != "--fixed-schedule" {
                assert!(parses(&[name]).is_err(), "{name} takes a value");
            }
            if kind == "switch" {
                assert!(parses(&[name, "7"]).is_err(), "{name} takes none");
            }
        }
    }

    #[test]
    fn a_flag_that_is_served_is_not_in_the_table_of_those_that_are_not() {
        let served: Vec<&str> = flags().flat_map(|flag| flag.names).copied().collect();
        for peer in PEERS {
            assert!(
                !served.contains(&peer.name),
                "--{} is served: drop its row",
                peer.name
            );
        }
        for difference in DIFFERENCES {
            assert!(served.contains(&difference.name), "--{}", difference.name);
        }
        let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "rows are sorted by name");
    }

    #[test]
    fn what_a_file_of_a_peer_names_is_a_flag_of_ours_or_of_the_table() {
        let flags = crate::config::flags_of_peers();
        assert!(flags.len() > 150, "only {}", flags.len());
        for flag in flags {
            let is_known = crate::cli::flags::key(flag).is_ok() || reason(flag).is_some();
            assert!(is_known, "{flag}");
        }
    }

    #[test]
    fn a_line_says_what_becomes_of_a_flag() {
        let told =
            |words: &[&str]| judge(&command().get_matches_from(["profile"].iter().chain(words)));
        for (words, line) in [
            (&["--service-kind", "triton"][..], "--backend"),
            (&["--service-kind=triton"], "--backend"),
            (&["--output-format", "x"], "--endpoint-type"),
            (&["--artifact-directory", "x"], "--artifact-dir"),
            (&["--transport", "grpc"], "HTTP/1.1"),
            (&["--public-dataset", "sharegpt"], "--input-file"),
            (&["--no-open-loop-replay"], "closed loop"),
            (&["--video-fps", "4"], "images and audio are made"),
        ] {
            let error = told(words).unwrap_err();
            assert!(
                error.contains(line) && !error.contains('\n'),
                "{words:?}: {error}"
            );
        }
        let harmless = [
            "--service-kind",
            "openai",
            "--transport",
            "http",
            "--zmq-dual-bind",
            "--log-level",
            "DEBUG",
            "--record-processors",
            "4",
            "--no-zmq-dual-bind",
            "--isl",
            "5",
        ];
        let notes = told(&harmless).unwrap();
        assert_eq!(notes.len(), 5, "{notes:?}");
        assert!(
            notes.iter().all(|note| note.contains("changes nothing")),
            "{notes:?}"
        );
    }

    #[test]
    fn another_meaning_is_told_where_its_value_is_given() {
        let of = |settings: Value| differences(settings.as_object().unwrap());
        assert_eq!(of(json!({"ui": "dashboard"})), ["--ui: simple is shown"]);
        assert!(of(json!({"ui": "simple", "concurrency": 4})).is_empty());
        assert_eq!(of(json!({"gpu_telemetry": ["dashboard"]})).len(), 1);
        assert_eq!(of(json!({"search_initial_points": 5})).len(), 1);
    }
}
