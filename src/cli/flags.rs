//! The flags of `profile` as data: names of both peers, kind, help. A flag's names are also its
//! keys in a configuration file.

use super::refused;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};

/// What a flag takes, and its name in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Switch,
    Text(&'static str),
    Integer,
    Number(&'static str),
    /// Several values, several times.
    Many(&'static str),
}

struct Flag {
    short: Option<char>,
    /// First the key's name, then aliases.
    names: &'static [&'static str],
    kind: Kind,
    help: &'static str,
    section: &'static str,
}

const fn flag(
    section: &'static str,
    short: Option<char>,
    names: &'static [&'static str],
    kind: Kind,
    help: &'static str,
) -> Flag {
    Flag {
        short,
        names,
        kind,
        help,
        section,
    }
}

use Kind::{Integer, Many, Number, Switch, Text};

const TARGET: &str = "Target";
const LOAD: &str = "Load";
const TRACE: &str = "Trace";
const SESSIONS: &str = "Sessions";
const WARMUP: &str = "Warm-up";
const LIMITS: &str = "Limits";
const SERVER: &str = "Server";
const INPUT: &str = "Requests";
const CONNECTIONS: &str = "Connections";
const OUTPUT: &str = "Output";
const MACHINE: &str = "Client";

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag(TARGET, Some('m'), &["model",
        "model-names"], Many("NAME"), "Model, one a run; may be left out where the server has only \
        one"),
    flag(TARGET, Some('u'), &["url"], Many("URL"),
        "host:port, with or without scheme, path and query; several take turns \
        [default: localhost:8000]"),
    flag(TARGET, None, &["endpoint-type"], Text("TYPE"),
        "chat, completions, or generate (Triton) [default: chat]"),
    flag(TARGET, None, &["backend"], Text("NAME"),
        "tensorrtllm or vllm behind Triton; without --endpoint-type it means generate \
        [default: tensorrtllm]"),
    flag(TARGET, None, &["endpoint",
        "custom-endpoint"], Text("PATH"), "Path in place of the endpoint type's own"),
    flag(TARGET, None, &["streaming"], Switch,
        "Ask for a stream of events, and measure the time to the first token and between tokens"),
    flag(TARGET, Some('H'), &["header"], Many("HEADER"),
        "`Name: value`, one or several, or a JSON object; sent with every request"),
    flag(TARGET, None, &["api-key"], Text("KEY"),
        "Sent as bearer token, masked in every output [env: OPENAI_API_KEY]"),
    flag(TARGET, None, &["tls-ca"], Text("FILE"), "PEM file of further root certificates"),
    flag(TARGET, None, &["tls-insecure"], Switch, "Do not verify certificates"),
    flag(TARGET, None, &["demo"], Switch, "Start the bundled mock server and measure that"),
    flag(TARGET, None, &["no-preflight"], Switch, "Send no probe before the run"),
    flag(LOAD, None, &["concurrency",
        "session-concurrency"], Integer,
        "Requests in flight; with a rate, the most of them [default: 1; with a rate, no limit]"),
    flag(LOAD, None, &["request-rate"], Number("N"),
        "Requests per second, whether answers keep up or not; inf is all at once"),
    flag(LOAD, None, &["arrival-pattern",
        "request-rate-mode"], Text("LAW"), "Gaps of the rate: poisson, gamma or constant \
        [default: poisson, gamma with --arrival-smoothness]"),
    flag(LOAD, None, &["arrival-smoothness",
        "vllm-burstiness"], Number("SHAPE"), "Shape of gamma gaps: burstier than Poisson below 1, \
        smoother above [default: 1]"),
    flag(LOAD, None, &["arrival-normalize"], Switch,
        "Stretch the schedule to exactly count / rate, as vLLM does; no Poisson process any more"),
    flag(LOAD, None, &["request-rate-series"], Text("FILE"),
        "A rate over time: JSON with points of time_s and qps, and straight lines between"),
    flag(LOAD, None, &["prefill-concurrency"], Integer,
        "Most requests at a time that wait for their first token"),
    flag(LOAD, None, &["concurrency-per-url"], Integer,
        "Most requests in flight towards each --url"),
    flag(LOAD, None, &["concurrency-ramp-duration"], Number("SECONDS"),
        "Bring --concurrency up from one over this time"),
    flag(LOAD, None, &["prefill-concurrency-ramp-duration"], Number("SECONDS"),
        "Bring --prefill-concurrency up from one over this time"),
    flag(LOAD, None, &["request-rate-ramp-duration"], Number("SECONDS"),
        "Bring --request-rate up over this time"),
    flag(LOAD, None, &["ramp-shape"], Text("SHAPE"),
        "How ramps rise: linear, exponential (by the square of time) or poisson (by random steps) \
        [default: linear]"),
    flag(LOAD, None, &["when-capped"], Text("POLICY"),
        "A request of the rate that finds --concurrency used up: wait for a slot, or skip it, as \
        AIPerf does [default: wait]"),
    flag(LOAD, None, &["when-late"], Text("POLICY"),
        "Requests of the rate that the client comes to late: send them at once, or skip those over \
        10 ms late [default: send]"),
    flag(LOAD, None, &["request-count",
        "num-requests"], Integer, "Measured requests [default: max(10, 2 x concurrency); with a \
        duration, no limit]"),
    flag(LOAD, None, &["benchmark-duration"], Number("SECONDS"), "Stop sending after this time"),
    flag(LOAD, None, &["benchmark-grace-period"], Number("SECONDS"),
        "Then wait up to this long for what is in flight [default: 30]"),
    flag(SESSIONS, None, &["session-turns-mean",
        "conversation-turn-mean"], Number("N"),
        "Turns of a session, mean: each has the talk before it, with the real answers, in its body \
        [default: 1]"),
    flag(SESSIONS, None, &["session-turns-stddev",
        "conversation-turn-stddev"], Number("N"), "Turns, standard deviation [default: 0]"),
    flag(SESSIONS, None, &["session-turn-delay-mean",
        "conversation-turn-delay-mean"], Number("MS"), "Time to think between an answer and the \
        next turn, mean, in ms [default: 0]"),
    flag(SESSIONS, None, &["session-turn-delay-stddev",
        "conversation-turn-delay-stddev"], Number("MS"), "The same, standard deviation \
        [default: 0]"),
    flag(SESSIONS, None, &["session-delay-ratio",
        "conversation-turn-delay-ratio"], Number("FACTOR"), "Factor of all times to think \
        [default: 1]"),
    flag(SESSIONS, None, &["num-sessions", "num-conversations",
        "conversation-num"], Integer, "End after so many sessions"),
    flag(SESSIONS, None, &["user-centric-rate"], Number("N"),
        "Turns per second of --num-users users together, each with its turns at even times"),
    flag(SESSIONS, None, &["num-users"], Integer, "Users at a time"),
    flag(SESSIONS, None, &["session-header"], Text("NAME"),
        "Header that carries the session's id"),
    flag(WARMUP, None, &["num-warmup-sessions"], Integer, "Or so many sessions"),
    flag(WARMUP, None, &["warmup-request-count",
        "num-warmup-requests"], Integer, "Requests before the measurement [default: 0]"),
    flag(WARMUP, None, &["warmup-duration"], Number("SECONDS"), "Or warm up for this time"),
    flag(WARMUP, None, &["warmup-concurrency"], Integer, "In flight [default: --concurrency]"),
    flag(WARMUP, None, &["warmup-prefill-concurrency"], Integer,
        "Waiting for a first token [default: --prefill-concurrency]"),
    flag(WARMUP, None, &["warmup-request-rate"], Number("N"),
        "Requests per second [default: --request-rate]"),
    flag(WARMUP, None, &["warmup-arrival-pattern"], Text("LAW"),
        "Gaps [default: --arrival-pattern]"),
    flag(WARMUP, None, &["warmup-concurrency-ramp-duration"], Number("SECONDS"),
        "Ramp [default: --concurrency-ramp-duration]"),
    flag(WARMUP, None, &["warmup-prefill-concurrency-ramp-duration"], Number("SECONDS"),
        "Ramp [default: --prefill-concurrency-ramp-duration]"),
    flag(WARMUP, None, &["warmup-request-rate-ramp-duration"], Number("SECONDS"),
        "Ramp [default: --request-rate-ramp-duration]"),
    flag(WARMUP, None, &["warmup-drain"], Switch,
        "Begin the measurement when the warm-up has ended, instead of taking its slots over"),
    flag(WARMUP, None, &["warmup-grace-period"], Number("SECONDS"),
        "With --warmup-drain: wait this long at most [default: no limit]"),
    flag(LOAD, None, &["random-seed"], Integer,
        "Seed of lengths, prompts and arrivals [default: random, and recorded]"),
    flag(LOAD, Some('p'), &["measurement-interval"], Integer,
        "Measure in windows of so many ms until the last three agree, ten windows at the most"),
    flag(LOAD, Some('s'), &["stability-percentage"], Number("PERCENT"),
        "How far apart throughput and mean latency of those three may be [default: 10]"),
    flag(LOAD, None, &["stop-when-oversaturated"], Switch,
        "End the run once the server does not keep up with the rate"),
    flag(LIMITS, None, &["request-timeout-seconds"], Number("SECONDS"),
        "Limit on a whole request, from its start to its end [default: 21600]"),
    flag(LIMITS, None, &["connect-timeout-seconds"], Number("SECONDS"),
        "Limit on connecting, TLS included [default: 30]"),
    flag(LIMITS, None, &["first-token-timeout-seconds"], Number("SECONDS"),
        "Limit on the time to the first content, with --streaming [default: none]"),
    flag(LIMITS, None, &["idle-timeout-seconds"], Number("SECONDS"),
        "Limit on silence within an answer, once it has begun [default: none]"),
    flag(LIMITS, None, &["request-cancellation-rate"], Number("PERCENT"),
        "Measured requests to cancel on purpose, 0 to 100 [default: 0]"),
    flag(LIMITS, None, &["request-cancellation-delay"], Number("SECONDS"),
        "From the last byte sent to the cancellation [default: 0]"),
    flag(LIMITS, None, &["failed-request-threshold"], Number("SHARE"),
        "End the run when more than this share of its requests failed, 0 to 1, judged from \
        max(concurrency, 10) requests on [default: never]"),
    flag(SERVER, None, &["wait-for-model-timeout"], Number("SECONDS"),
        "Wait up to this long for the model before the run [default: 0]"),
    flag(SERVER, None, &["wait-for-model-mode"], Text("MODE"),
        "What to wait for: models (the server lists it), inference (it answers) or both \
        [default: inference]"),
    flag(SERVER, None, &["wait-for-model-interval"], Number("SECONDS"),
        "Time between two tries of the wait [default: 5]"),
    flag(SERVER, None, &["reset-kv-cache"], Switch,
        "Have each server empty its prefix cache before the run, by a POST"),
    flag(SERVER, None, &["reset-kv-cache-path"], Text("PATH"),
        "Where to [default: /reset_prefix_cache]"),
    flag(SERVER, None, &["reset-kv-cache-timeout-seconds"], Number("SECONDS"),
        "Limit on each try of it [default: 30]"),
    flag(SERVER, None, &["server-profiler"], Switch,
        "Have each server profile itself during the measurement, by a POST before and after"),
    flag(SERVER, None, &["server-profiler-start-path"], Text("PATH"),
        "Where to, to start it [default: /start_profile]"),
    flag(SERVER, None, &["server-profiler-stop-path"], Text("PATH"),
        "Where to, to stop it [default: /stop_profile]"),
    flag(SERVER, None, &["server-profiler-timeout-seconds"], Number("SECONDS"),
        "Limit on each try of either [default: 30]"),
    flag(INPUT, None, &["isl",
        "synthetic-input-tokens-mean", "prompt-input-tokens-mean"], Number("TOKENS"),
        "Length of prompts, mean [default: 550]"),
    flag(INPUT, None, &["isl-stddev",
        "synthetic-input-tokens-stddev", "prompt-input-tokens-stddev"], Number("TOKENS"),
        "Length of prompts, standard deviation [default: 0]"),
    flag(INPUT, None, &["osl",
        "output-tokens-mean", "prompt-output-tokens-mean"], Number("TOKENS"),
        "Most tokens of an answer, mean [default: the server decides]"),
    flag(INPUT, None, &["osl-stddev",
        "output-tokens-stddev", "prompt-output-tokens-stddev"], Number("TOKENS"),
        "Most tokens of an answer, standard deviation [default: 0]"),
    flag(INPUT, None, &["output-tokens-mean-deterministic"], Switch,
        "Have answers that long exactly (ignore_eos and min_tokens; min_length on Triton)"),
    flag(INPUT, None, &["use-legacy-max-tokens"], Switch,
        "Send max_tokens in place of max_completion_tokens"),
    flag(INPUT, None, &["extra-inputs"], Many("INPUT"),
        "`key:value`, one or several, or a JSON object, for the body of every request; null \
        leaves a key out"),
    flag(INPUT, None, &["num-dataset-entries",
        "num-prompts"], Integer, "Different prompts, reused in order [default: a new one for each \
        request]"),
    flag(TRACE, None, &["input-file"], Text("FILE"),
        "JSON lines: a request each, with input_length or text_input, output_length, timestamp in \
        ms, session_id, delay, hash_ids (Mooncake's rows), or text"),
    flag(TRACE, None, &["custom-dataset-type"], Text("TYPE"),
        "mooncake_trace or single_turn [default: mooncake_trace]"),
    flag(TRACE, None, &["fixed-schedule"], Switch, "Send each request at its time \
        [default: where the file has times and no rate is given]"),
    flag(TRACE, None, &["fixed-schedule-auto-offset"], Switch, "The first time is the start"),
    flag(TRACE, None, &["fixed-schedule-start-offset"], Number("MS"),
        "Leave out what is before, and start there"),
    flag(TRACE, None, &["fixed-schedule-end-offset"], Number("MS"), "Leave out what is after"),
    flag(TRACE, None, &["trace-speedup", "synthesis-speedup-ratio",
        "replay-speedup"], Number("FACTOR"), "So many times as fast [default: 1]"),
    flag(TRACE, None, &["trace-jitter"], Switch,
        "Spread requests of one time over the time to the next"),
    flag(INPUT, None, &["tokenizer"], Text("PATH"),
        "Folder or file with tokenizer.json, or builtin (o200k) [default: the model's own where \
        it is on this machine, else builtin]"),
    flag(INPUT, None, &["token-count"], Text("WHOSE"),
        "server (its usage), client (our tokenizer), or auto: server, else client [default: auto]"),
    flag(INPUT, None, &["use-server-token-count"], Switch, "The same as --token-count server"),
    flag(CONNECTIONS, None, &["connection-reuse-strategy"], Text("STRATEGY"),
        "pooled (any idle connection), never (a new one for each request) or sticky-user-sessions \
        [default: pooled]"),
    flag(CONNECTIONS, None, &["source-ip"], Many("ADDRESS"),
        "Addresses of this machine to connect from, in turn: each has ports of its own"),
    flag(CONNECTIONS, None, &["local-port-range"], Text("FIRST-LAST"),
        "Ports to connect from, of those that the kernel gives [default: all of them]"),
    flag(CONNECTIONS, None, &["proxy"], Text("URL"),
        "http://[user:password@]host:port to go through: in absolute form to http, by CONNECT to \
        https; the environment's proxies are never used"),
    flag(CONNECTIONS, None, &["no-proxy"], Many("LIST"),
        "What is reached without --proxy: hosts with what is below them, host:port, networks as in \
        10.0.0.0/8, or * [env: NO_PROXY]"),
    flag(CONNECTIONS, None, &["tcp-keepalive"], Number("SECONDS"),
        "Probe a connection that was idle for so long, and again as often [default: never]"),
    flag(CONNECTIONS, None, &["tcp-user-timeout"], Number("SECONDS"),
        "Give a connection up when what was sent is unacknowledged for so long [default: the \
        kernel's]"),
    flag(CONNECTIONS, None, &["tcp-recv-buffer"], Integer,
        "Bytes of each socket's receive buffer [default: the kernel's, which grows]"),
    flag(CONNECTIONS, None, &["tcp-send-buffer"], Integer,
        "Bytes of each socket's send buffer [default: the kernel's, which grows]"),
    flag(OUTPUT, Some('g'), &["goodput"], Many("TAG:LIMIT"),
        "Service levels, as in time_to_first_token:100, in the unit of the report"),
    flag(OUTPUT, None, &["artifact-dir",
        "output-artifact-dir"], Text("DIR"), "Folder of the run's files [default: artifacts/, and \
        a name by model and load]"),
    flag(OUTPUT, None, &["profile-export-prefix",
        "profile-export-file"], Text("NAME"), "Beginning of the files' names \
        [default: profile_export]"),
    flag(OUTPUT, None, &["export-level",
        "profile-export-level"], Text("LEVEL"), "summary, records (and a line per request) or raw \
        (and every event) [default: records]"),
    flag(OUTPUT, None, &["overwrite"], Switch,
        "Replace an earlier run instead of moving it aside"),
    flag(OUTPUT, None, &["ui",
        "ui-type"], Text("KIND"), "simple or none [default: simple in a terminal, else none]"),
    flag(OUTPUT, Some('v'), &["verbose",
        "extra-verbose"], Switch, "Say more on stderr"),
    flag(OUTPUT, None, &["dry-run"], Switch,
        "Print the plan, one exact request and its curl line; send nothing"),
    flag(OUTPUT, None, &["allow-invalid"], Switch, "Exit 0 although the verdict is INVALID"),
    flag(MACHINE, None, &["cores"], Text("CPUS"),
        "Where to send from: auto, how many, or a list as in 2,4-7 [default: auto]"),
    flag(MACHINE, None, &["workers-max",
        "max-workers"], Integer, "Most cores that auto takes"),
    flag(MACHINE, None, &["no-gpu-telemetry"], Switch, "Do not sample this machine's GPUs"),
    flag(MACHINE, None, &["calibrate"], Switch,
        "Before the run, measure for some seconds what this machine can drive (a short \
        self-bench), so that the report can say how much more that is"),
    flag(MACHINE, None, &["no-batching"], Switch, "Wake for every read instead of in batches"),
    flag(MACHINE, None, &["check-stamps"], Switch,
        "The server is `tokenring mock` on this machine: report how far event times are from \
         its own"),
];

/// Flags whose comma list means a sweep with AIPerf.
const SWEEPS: &[&str] = &["concurrency", "request-rate", "isl", "osl", "request-count"];

const AFTER_HELP: &str = "\
A switch is taken back by --no- before its name, as in --no-streaming. The later of two words wins,
and both win over --config.

Exit codes: 0 good, 2 bad usage, 3 nobody answers, 4 not stable, 5 INVALID (--allow-invalid makes it
0), 6 partial results, 130 and 143 stopped by a signal, 1 anything else.

Examples:
  tokenring profile --demo --streaming --concurrency 16
  tokenring profile -m NAME -u HOST:8000 --streaming --request-rate 5 --benchmark-duration 60";

/// The `profile` subcommand.
pub fn command() -> Command {
    let mut command = Command::new("profile")
        .about("One run: warm-up, measurement, verdict, report, files")
        .after_help(AFTER_HELP)
        .arg(
            Arg::new("config")
                .long("config")
                .short('f')
                .value_name("FILE")
                .help("YAML or TOML file; its keys are the flags' names, and flags win"),
        )
        // Known to the peers, and already so here.
        .arg(
            negative("gpu-telemetry")
                .num_args(0..)
                .action(ArgAction::Set),
        )
        .arg(
            Arg::new("no-server-metrics")
                .long("no-server-metrics")
                .action(ArgAction::SetTrue)
                .hide(true),
        )
        .arg(
            Arg::new("generate-plots")
                .long("generate-plots")
                .action(ArgAction::SetTrue)
                .hide(true),
        );
    for flag in FLAGS {
        let mut arg = Arg::new(flag.names[0])
            .long(flag.names[0])
            .visible_aliases(flag.names[1..].iter().copied())
            .help(flag.help)
            .help_heading(flag.section);
        if let Some(short) = flag.short {
            arg = arg.short(short);
        }
        arg = match flag.kind {
            Switch => {
                let negative = negative(&opposite(flag.names[0]));
                if negative.get_id() != "gpu-telemetry" {
                    command = command.arg(negative);
                }
                switch(arg)
            }
            Many(value) => arg
                .action(ArgAction::Append)
                .num_args(1..)
                .value_name(value),
            Text(value) => arg.value_name(value),
            Integer => arg.value_name("N").allow_negative_numbers(true),
            Number(value) => arg.value_name(value).allow_negative_numbers(true),
        };
        command = command.arg(arg);
    }
    command
}

/// The switch that takes back `name`, as AIPerf has them.
fn opposite(name: &str) -> String {
    name.strip_prefix("no-")
        .map_or_else(|| format!("no-{name}"), String::from)
}

/// A hidden switch: the one that takes a listed one back.
fn negative(name: &str) -> Arg {
    switch(Arg::new(name.to_string()).long(name.to_string()).hide(true))
}

/// Of a switch and its opposite the last counts; `-vv` is no error.
fn switch(arg: Arg) -> Arg {
    let name = arg.get_id().to_string();
    arg.action(ArgAction::SetTrue)
        .overrides_with_all([opposite(&name), name])
}

/// The key of a setting in a file, by any of its flag's names, with dashes or underscores. Errors
/// say why there is none.
pub fn key(name: &str) -> Result<String, String> {
    let dashed = name.replace('_', "-");
    // A list of loads has no flag.
    if dashed == "phases" {
        return Ok(dashed);
    }
    let names = || FLAGS.iter().flat_map(|flag| flag.names);
    if let Some(flag) = FLAGS.iter().find(|flag| flag.names.contains(&&*dashed)) {
        return Ok(flag.names[0].replace('-', "_"));
    }
    if let Some(reason) = refused::reason(&dashed) {
        return Err(reason.into());
    }
    let likeness = |name: &&&str| strsim::jaro(&dashed, name);
    let nearest = names().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    Err(match nearest.filter(|name| likeness(name) > 0.7) {
        Some(name) => format!("no such setting; `{}` is one", name.replace('-', "_")),
        None => "no such setting; keys are the flags' names".into(),
    })
}

/// What was typed, as a configuration file would say it. Errors name the flag.
pub fn settings(matches: &ArgMatches) -> Result<Map<String, Value>, String> {
    let typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let mut all = Map::new();
    for flag in FLAGS {
        let name = flag.names[0];
        let value = match flag.kind {
            Switch if typed(name) => Some(Value::Bool(true)),
            Switch if typed(&opposite(name)) => Some(Value::Bool(false)),
            Switch => None,
            Many(_) => matches
                .get_many::<String>(name)
                .map(|values| values.cloned().collect()),
            kind => match matches.get_one::<String>(name) {
                Some(text) => Some(scalar(name, kind, text)?),
                None => None,
            },
        };
        if let Some(value) = value {
            all.insert(name.replace('-', "_"), value);
        }
    }
    Ok(all)
}

fn scalar(name: &str, kind: Kind, text: &str) -> Result<Value, String> {
    if text.contains(',') && SWEEPS.contains(&name) {
        return Err(format!(
            "--{name} {text}: lists (sweeps) come with a later version; give one"
        ));
    }
    let bad = |what: &str| format!("--{name}: `{text}` is no {what}");
    match kind {
        Integer if name == "random-seed" => text
            .parse::<u64>()
            .map(Value::from)
            .map_err(|_| bad("whole number from 0 in range")),
        Integer => text
            .parse::<i64>()
            .map(Value::from)
            .map_err(|_| bad("whole number in range")),
        Number(_) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::from(number)),
            Ok(f64::INFINITY) if name.ends_with("request-rate") => Ok("inf".into()),
            _ => Err(bad("number")),
        },
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn typed(flags: &[&str]) -> Value {
        let args = ["profile"].iter().chain(flags);
        settings(&command().get_matches_from(args)).unwrap().into()
    }

    #[test]
    fn every_flag_is_a_key_of_the_draft() {
        for flag in FLAGS {
            let value = match flag.kind {
                Switch => json!(true),
                Text(_) | Many(_) => json!("x"),
                Integer | Number(_) => json!(1),
            };
            let key = key(flag.names[0]).unwrap();
            let draft = serde_json::from_value::<crate::config::Draft>(json!({ key: value }));
            assert!(draft.is_ok(), "{}: {draft:?}", flag.names[0]);
        }
    }

    #[test]
    fn a_switch_can_be_taken_back_and_the_last_counts() {
        assert_eq!(
            typed(&["-vv", "--streaming"]),
            json!({"streaming": true, "verbose": true})
        );
        assert_eq!(
            typed(&["--streaming", "--no-streaming"]),
            json!({"streaming": false})
        );
        assert_eq!(
            typed(&["--no-streaming", "--streaming"]),
            json!({"streaming": true})
        );
        assert_eq!(typed(&["--batching"]), json!({"no_batching": false}));
        assert_eq!(
            typed(&["--no-gpu-telemetry"]),
            json!({"no_gpu_telemetry": true})
        );
        for values in [
            &["--gpu-telemetry"][..],
            &["--gpu-telemetry", "h:9400", "i:9400"],
        ] {
            assert_eq!(typed(values), json!({"no_gpu_telemetry": false}));
        }
    }

    #[test]
    fn a_setting_has_a_key_under_each_of_its_names() {
        for name in [
            "synthetic_input_tokens_mean",
            "synthetic-input-tokens-mean",
            "isl",
        ] {
            assert_eq!(key(name), Ok("isl".into()));
        }
        assert!(key("concurency").unwrap_err().contains("`concurrency`"));
        assert!(key("public_dataset").unwrap_err().contains("later version"));
        assert!(key("zzz").unwrap_err().contains("no such setting"));
    }
}
