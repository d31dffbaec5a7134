//! `tokenring config` and `create-template`: files of settings, written, checked and shown.

use super::{flags, profile};
use crate::base::{Exit, Secrets};
use crate::config::{Asked, Config, Layout, hide_args, hide_header, hide_members};
use crate::view::tell;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

/// What `config init` writes without `--template full`.
const MINIMAL: &str = "\
# Settings of tokenring: the keys are the flags' names, and `tokenring profile -f FILE` runs them.
# Flags on the command line win. ${NAME} and ${NAME:default} are filled in from the environment.

# The model's name; left out, the server is asked for its only one.
# model: NAME
url: localhost:8000
endpoint-type: chat
streaming: true
# api-key: ${OPENAI_API_KEY}

# The load: so many requests in flight ...
concurrency: 8
# ... or so many per second, whether answers keep up or not.
# request-rate: 5
request-count: 200
warmup-request-count: 20

# Lengths of prompts and answers, in tokens.
isl: 512
osl: 128
output-tokens-mean-deterministic: true

# What a good request meets, and where the files go.
# goodput: [\"time_to_first_token:500\", \"inter_token_latency:50\"]
# artifact-dir: artifacts/mine
";

/// GenAI-Perf's sections and defaults; behind a line the flag whose help `-v` puts above it.
const GENAI_PERF: &str = "\
model_names: #model

analyze:

endpoint:
  model_selection_strategy: round_robin
  backend: tensorrtllm #backend
  custom: #endpoint
  type: kserve #endpoint-type
  streaming: False #streaming
  server_metrics_urls: http://localhost:9400/metrics #server-metrics
  url: localhost:8001 #url
  grpc_method:

perf_analyzer:
  path: perf_analyzer
  verbose: False #verbose
  stimulus: {'concurrency': 1} #concurrency
  stability_percentage: 999 #stability-percentage
  warmup_request_count: 0 #warmup-request-count

  measurement:
    mode: request_count
    num: #request-count

input:
  batch_size: 1
  extra: #extra-inputs
  goodput: #goodput
  header: #header
  file: #input-file
  num_dataset_entries: 100 #num-dataset-entries
  random_seed: 0 #random-seed

  audio:
    batch_size: 1
    format: wav
    depths: 16
    sample_rates: 16
    num_channels: 1

    length:
      mean: 0
      stddev: 0

  image:
    batch_size: 1
    format: png

    width:
      mean: 0
      stddev: 0

    height:
      mean: 0
      stddev: 0

  output_tokens:
    mean: #osl
    deterministic: False #output-tokens-mean-deterministic
    stddev: 0 #osl-stddev

  synthetic_tokens:
    mean: 550 #isl
    stddev: 0 #isl-stddev

  prefix_prompt:
    num: 0
    length: 100

  sessions:
    num: 0 #num-sessions

    turns:
      mean: 1 #session-turns-mean
      stddev: 0 #session-turns-stddev

    turn_delay:
      mean: 0 #session-turn-delay-mean
      ratio: 1.0 #session-delay-ratio
      stddev: 0 #session-turn-delay-stddev

output:
  artifact_directory: artifacts #artifact-dir
  checkpoint_directory: checkpoint #checkpoint-dir
  profile_export_file: profile_export.json #profile-export-prefix
  generate_plots: False
  enable_checkpointing: False #enable-checkpointing

tokenizer:
  name: #tokenizer
  revision: main
  trust_remote_code: False

process:
";

const AFTER_HELP: &str = "\
`config -f FILE` runs a file: `analyze` when it has GenAI-Perf's section of that name, else
`profile`. Files of ours, of AIPerf and of GenAI-Perf are told apart by their keys.

Examples:
  tokenring config init bench.yaml
  tokenring config validate bench.yaml
  tokenring config show bench.yaml --concurrency 16";

/// The subcommand.
pub fn command() -> Command {
    let file = || Arg::new("FILE").help("YAML or TOML file");
    Command::new("config")
        .about("Write, check and show a file of settings")
        .after_help(AFTER_HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("init")
                .about("Write a file of settings to begin with")
                .arg(
                    file()
                        .default_value("tokenring.yaml")
                        .help("Where to; - shows it instead"),
                )
                .arg(
                    Arg::new("template")
                        .long("template")
                        .value_parser(["minimal", "full"])
                        .default_value("minimal")
                        .help("What is usual, or every setting with its help"),
                ),
        )
        .subcommand(
            Command::new("validate")
                .about("Read a file, and say what it asks for or what is wrong")
                .arg(file().required(true)),
        )
        .subcommand(
            Command::new("show")
                .about("Show the settings of a file and of flags as a file of ours, secrets hidden")
                .arg(
                    Arg::new("WORDS")
                        .value_name("FILE|FLAGS")
                        .help("A file, flags of profile, or both")
                        .num_args(1..)
                        .required(true)
                        .trailing_var_arg(true)
                        .allow_hyphen_values(true),
                ),
        )
}

/// The subcommand by GenAI-Perf's name.
pub fn template_command() -> Command {
    Command::new("create-template")
        .about("Write a file of settings in GenAI-Perf's form")
        .arg(
            Arg::new("file")
                .long("file")
                .short('f')
                .value_name("FILE")
                .default_value("genai_perf_config.yaml")
                .help("Where to; - shows it instead"),
        )
        .arg(
            Arg::new("verbose")
                .long("verbose")
                .short('v')
                .action(ArgAction::SetTrue)
                .help("With a comment above each setting"),
        )
}

/// `config -f FILE FLAGS`, as GenAI-Perf runs a file, is `profile` of it.
pub fn as_profile(mut args: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| args.get(at).and_then(|arg| arg.to_str());
    let is_flag = word(2).is_some_and(|word| word.starts_with('-'));
    if word(1) == Some("config") && is_flag && !matches!(word(2), Some("-h" | "--help")) {
        args[1] = "profile".into();
    }
    args
}

/// Runs `config`.
pub fn run(matches: &ArgMatches) -> Exit {
    let text =
        |matches: &ArgMatches, name| matches.get_one::<String>(name).cloned().unwrap_or_default();
    match matches.subcommand() {
        Some(("init", matches)) => {
            let full = text(matches, "template") == "full";
            let content = if full {
                flags::commented()
            } else {
                MINIMAL.to_string()
            };
            write(&text(matches, "FILE"), &content)
        }
        Some(("validate", matches)) => validate(&text(matches, "FILE")),
        Some(("show", matches)) => {
            let words = matches.get_many::<String>("WORDS").unwrap_or_default();
            show(words.cloned().collect())
        }
        _ => Exit::Usage,
    }
}

/// Runs `create-template`.
pub fn create_template(matches: &ArgMatches) -> Exit {
    let verbose = matches.get_flag("verbose");
    let mut content = String::new();
    for line in GENAI_PERF.lines() {
        let (setting, flag) = line.split_once('#').unwrap_or((line, ""));
        let indent = &setting[..setting.len() - setting.trim_start().len()];
        if let Some(help) = flags::help(flag).filter(|_| verbose) {
            content.push_str(&format!("{indent}# --{flag}: {help}\n"));
        }
        content.push_str(setting.trim_end());
        content.push('\n');
    }
    let file = matches
        .get_one::<String>("file")
        .cloned()
        .unwrap_or_default();
    write(&file, &content)
}

/// Writes a new file; what is there already is not touched.
fn write(name: &str, content: &str) -> Exit {
    if name == "-" {
        return super::show(content.as_bytes());
    }
    let file = std::fs::File::create_new(Path::new(name));
    match file.and_then(|mut file| file.write_all(content.as_bytes())) {
        Ok(()) => {
            tell(&format!(
                "{name} is written; tokenring profile -f {name} runs it"
            ));
            Exit::Ok
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            tell(&format!(
                "error: {name} is there already; give another name"
            ));
            Exit::Usage
        }
        Err(error) => {
            tell(&format!("error: {name}: {error}"));
            Exit::Unexpected
        }
    }
}

/// The words of `profile` that a file and flags are.
fn words(given: Vec<String>) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["tokenring", "profile"].map(OsString::from).to_vec();
    if given.first().is_some_and(|first| !first.starts_with('-')) {
        words.push("-f".into());
    }
    words.extend(given.into_iter().map(OsString::from));
    words
}

/// Parsed as `profile` would parse it. Errors: already told.
fn parsed(args: &[OsString]) -> Result<(ArgMatches, Vec<String>), Exit> {
    let (typed, notes) = flags::translated(args).map_err(|text| usage(args, &text))?;
    match flags::command().try_get_matches_from(&typed[1..]) {
        Ok(matches) => Ok((matches, notes)),
        Err(error) => Err(super::unread(&error, args)),
    }
}

fn usage(args: &[OsString], text: &str) -> Exit {
    tell(&format!("error: {}", super::secrets(args).shown(text)));
    Exit::Usage
}

fn configs(asked: &Asked) -> Vec<&Config> {
    match asked {
        Asked::One(checked) => vec![&checked.config],
        Asked::Many(sweep) => sweep.variations.iter().map(|point| &point.config).collect(),
    }
}

fn validate(file: &str) -> Exit {
    let args = words(vec![file.to_string()]);
    let matches = match parsed(&args) {
        Ok((matches, _)) => matches,
        Err(exit) => return exit,
    };
    match profile::asked(&matches, &args, Layout::Profile) {
        Err(text) => usage(&args, &text),
        Ok((asked, notes)) => {
            notes.iter().for_each(|note| tell(&format!("note: {note}")));
            let points = configs(&asked).len();
            let what = match &asked {
                Asked::One(_) => "one run".to_string(),
                Asked::Many(sweep) if sweep.search.is_some() => "a search".to_string(),
                Asked::Many(sweep) => {
                    format!("{points} points, {} runs of each", sweep.repeats.count)
                }
            };
            super::show(format!("{file}: good: {what}\n").as_bytes())
        }
    }
}

fn show(given: Vec<String>) -> Exit {
    let args = words(given);
    let (matches, mut notes) = match parsed(&args) {
        Ok(parsed) => parsed,
        Err(exit) => return exit,
    };
    let settled = profile::settings(&matches).and_then(|read| {
        profile::asked(&matches, &args, Layout::Profile).map(|asked| (read, asked))
    });
    let (read, (asked, more)) = match settled {
        Ok(settled) => settled,
        Err(text) => return usage(&args, &text),
    };
    notes.extend(more);
    let mut found: Vec<String> = configs(&asked)
        .iter()
        .flat_map(|one| one.secrets())
        .collect();
    let mut shown = hidden(read.settings, &mut found);
    let secrets = Secrets::new(found);
    secrets.mask_value(&mut shown);
    notes
        .iter()
        .for_each(|note| tell(&format!("note: {}", secrets.shown(note))));
    match serde_saphyr::to_string(&shown) {
        Ok(text) => super::show(text.as_bytes()),
        Err(error) => {
            tell(&format!("error: settings: {error}"));
            Exit::Unexpected
        }
    }
}

/// Settings without their secrets, which are added to `found`; keys as flags have them.
fn hidden(settings: Map<String, Value>, found: &mut Vec<String>) -> Value {
    let hide = |(key, mut value): (String, Value)| {
        let flag = key.replace('_', "-");
        let mut text = |value: &mut Value| {
            if let Value::String(text) = value {
                let typed = [format!("--{flag}={text}")];
                let shown = hide_args(&typed, found).remove(0);
                *text = shown
                    .split_once('=')
                    .map_or(String::new(), |(_, text)| text.to_string());
            }
        };
        match &mut value {
            Value::String(_) => text(&mut value),
            Value::Array(items) if items.iter().all(Value::is_string) => {
                items.iter_mut().for_each(text);
            }
            Value::Object(headers) if flag == "header" => {
                for (name, value) in headers {
                    let typed = value
                        .as_str()
                        .map_or_else(|| value.to_string(), String::from);
                    *value = hide_header(name, &typed, found).into();
                }
            }
            other => hide_members(other, found),
        }
        (flag, value)
    };
    Value::Object(settings.into_iter().map(hide).collect())
}
