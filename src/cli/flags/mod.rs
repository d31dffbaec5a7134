//! The flags of `profile` and `analyze` as data: names of both peers, kind, help. A flag's names
//! are also its keys in a configuration file.

mod media;
mod page;
mod passthrough;
mod peers;
mod run;
mod search;
mod sweep;

pub(super) use page::{commented, help, page};
pub(super) use passthrough::translated;

use crate::config::axis;
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
    /// The same, and its name alone says something too.
    Any(&'static str),
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

use Kind::{Any, Integer, Many, Number, Switch, Text};

/// All of them.
fn flags() -> impl Iterator<Item = &'static Flag> {
    [run::FLAGS, media::FLAGS, sweep::FLAGS, search::FLAGS]
        .into_iter()
        .flatten()
}

const AFTER_HELP: &str = "\
A switch is taken back by --no- before its name, as in --no-streaming. The later of two words wins,
and both win over --config.

Exit codes: 0 good, 2 bad usage, 3 nobody answers, 4 not stable, 5 INVALID (--allow-invalid makes it
0), 6 partial results, 130 and 143 stopped by a signal, 1 anything else.

Examples:
  tokenring profile --demo --streaming --concurrency 16
  tokenring profile -m NAME -u HOST:8000 --streaming --request-rate 5 --benchmark-duration 60";

const ANALYZE_AFTER_HELP: &str = "\
Each point is a run of `profile` with files of its own; analyze_export_genai_perf.csv beside them
has a line for each, and the screen says where the load begins to hurt.

Examples:
  tokenring analyze --demo --streaming --sweep-type concurrency --sweep-range 1:16
  tokenring analyze -m NAME -u HOST:8000 --streaming --sweep-type request_rate --sweep-list 2,4,8";

/// The `profile` subcommand.
pub fn command() -> Command {
    with_flags(Command::new("profile"))
        .about("One run: warm-up, measurement, verdict, report, files; with lists a run per point")
        .after_help(AFTER_HELP)
}

/// The `analyze` subcommand.
pub fn analyze_command() -> Command {
    with_flags(Command::new("analyze"))
        .about("Many runs: where the load begins to hurt, and how much meets your limits")
        .after_help(ANALYZE_AFTER_HELP)
}

fn with_flags(command: Command) -> Command {
    let mut command = command.arg(
        Arg::new("config")
            .long("config")
            .short('f')
            .value_name("FILE")
            .help("YAML or TOML file; its keys are the flags' names, and flags win"),
    );
    let is_served = |name: &str| flags().any(|flag| flag.names.contains(&name));
    command = command.args(peers::args(is_served));
    for flag in flags() {
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
                let opposite = opposite(flag.names[0]);
                // Some have a flag for the contrary that says more.
                if flags().all(|other| other.names[0] != opposite) {
                    command = command.arg(negative(&opposite));
                }
                switch(arg)
            }
            Many(value) => arg
                .action(ArgAction::Append)
                .num_args(1..)
                .value_name(value),
            Any(value) => arg
                .action(ArgAction::Append)
                .num_args(0..)
                .value_name(value)
                .overrides_with(opposite(flag.names[0])),
            Text(value) => arg.value_name(value),
            Integer => arg.value_name("N").allow_negative_numbers(true),
            Number(value) => arg.value_name(value).allow_negative_numbers(true),
        };
        // The later of two words wins, as in the peers.
        if matches!(flag.kind, Text(_) | Integer | Number(_)) {
            arg = arg.overrides_with(flag.names[0]);
        }
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

/// What a setting is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A run.
    Run,
    /// Many runs.
    Sweep,
    /// A search.
    Search,
}

/// What the setting with this key is of.
pub fn part(key: &str) -> Part {
    let dashed = key.replace('_', "-");
    let has = |table: &[Flag]| table.iter().any(|flag| flag.names[0] == dashed);
    match () {
        () if has(sweep::FLAGS) => Part::Sweep,
        () if has(search::FLAGS) => Part::Search,
        () => Part::Run,
    }
}

/// The key of a setting in a file, by any of its flag's names, with dashes or underscores. Errors
/// say why there is none.
pub fn key(name: &str) -> Result<String, String> {
    let dashed = name.replace('_', "-");
    // A list of loads has no flag.
    if dashed == "phases" {
        return Ok(dashed);
    }
    let names = || flags().flat_map(|flag| flag.names);
    if let Some(flag) = flags().find(|flag| flag.names.contains(&&*dashed)) {
        return Ok(flag.names[0].replace('-', "_"));
    }
    if let Some(reason) = peers::reason(&dashed) {
        return Err(reason);
    }
    let likeness = |name: &&&str| strsim::jaro(&dashed, name);
    let nearest = names().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    Err(match nearest.filter(|name| likeness(name) > 0.7) {
        Some(name) => format!("no such setting; `{}` is one", name.replace('-', "_")),
        None => "no such setting; keys are the flags' names".into(),
    })
}

/// Notes on flags of the peers that were typed and change nothing. Errors: one that is refused.
pub fn notes(matches: &ArgMatches) -> Result<Vec<String>, String> {
    peers::judge(matches)
}

/// What becomes of a peer's setting that is none here, with this value in a file of the peer: a
/// note, or an error. `None` when its flag is not known to be refused or to change nothing.
pub fn of_peer(flag: &str, value: &Value) -> Option<Result<String, String>> {
    peers::judge_value(flag, value)
}

/// Where these settings mean something else than in a peer, a line each.
pub fn differences(settings: &Map<String, Value>) -> Vec<String> {
    peers::differences(settings)
}

/// What was typed, as a configuration file would say it. Errors name the flag.
pub fn settings(matches: &ArgMatches) -> Result<Map<String, Value>, String> {
    let typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let has = |name: &str| flags().any(|flag| flag.names[0] == name);
    let mut all = Map::new();
    for flag in flags() {
        let name = flag.names[0];
        let value = match flag.kind {
            Switch if typed(name) => Some(Value::Bool(true)),
            Switch if !has(&opposite(name)) && typed(&opposite(name)) => Some(Value::Bool(false)),
            Switch => None,
            Many(_) => matches
                .get_many::<String>(name)
                .map(|values| values.cloned().collect()),
            Any(_) => typed(name).then(|| {
                let values = matches.get_many::<String>(name);
                values.unwrap_or_default().cloned().collect()
            }),
            kind => match matches.get_one::<String>(name) {
                Some(text) => Some(scalar(name, kind, text)?),
                None => None,
            },
        };
        if let Some(value) = value {
            all.insert(name.replace('-', "_"), value);
        }
    }
    let level = matches.try_get_one::<String>("log-level").ok().flatten();
    if level.is_some_and(|level| level == "DEBUG" || level == "TRACE") {
        all.entry("verbose").or_insert(true.into());
    }
    Ok(all)
}

fn scalar(name: &str, kind: Kind, text: &str) -> Result<Value, String> {
    let varies = matches!(kind, Integer | Number(_)) && axis(&name.replace('-', "_")).is_some();
    if text.contains(',') && varies {
        let each = text.split(',').map(|part| match part.trim() {
            "" => Err(format!("--{name} {text}: the list has an empty place")),
            part => scalar(name, kind, part),
        });
        return each.collect();
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
    use crate::config::{Draft, SearchDraft, SweepDraft};
    use serde_json::json;

    fn typed(flags: &[&str]) -> Value {
        let args = ["profile"].iter().chain(flags);
        settings(&command().get_matches_from(args)).unwrap().into()
    }

    #[test]
    fn every_flag_is_a_key_of_the_draft() {
        for flag in flags() {
            let value = match flag.kind {
                Switch => json!(true),
                Text(_) | Many(_) | Any(_) => json!("x"),
                Integer | Number(_) => json!(1),
            };
            let key = key(flag.names[0]).unwrap();
            let part = part(&key);
            let alone = json!({ key: value });
            let fault = match part {
                Part::Run => serde_json::from_value::<Draft>(alone).err(),
                Part::Sweep => serde_json::from_value::<SweepDraft>(alone).err(),
                Part::Search => serde_json::from_value::<SearchDraft>(alone).err(),
            };
            assert!(fault.is_none(), "{}: {fault:?}", flag.names[0]);
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
        assert_eq!(typed(&["--gpu-telemetry"]), json!({"gpu_telemetry": []}));
        assert_eq!(
            typed(&["--no-gpu-telemetry", "--gpu-telemetry", "h:9400", "i:9400"]),
            json!({"gpu_telemetry": ["h:9400", "i:9400"]})
        );
        assert_eq!(
            typed(&["--server-metrics", "h:1", "--no-server-metrics"]),
            json!({"no_server_metrics": true})
        );
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
        assert!(key("public_dataset").unwrap_err().contains("--input-file"));
        assert!(key("zzz").unwrap_err().contains("no such setting"));
    }
}
