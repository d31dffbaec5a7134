//! `tokenring report`: the reports of runs that lie on disk, made anew.

mod peer;
mod sources;

use crate::archive::RunDir;
use crate::base::Exit;
use crate::report::recomputed::{self, Account};
use crate::report::{console, csv, genai_perf, json};
use crate::stats::Recorded;
use crate::stats::genai_perf::{PeerRun, figures};
use crate::stats::summary::MetricResult;
use crate::view::{show, tell};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use peer::Counter;
use serde_json::{Map, Value};
use sources::{Read, Source};
use std::path::{Path, PathBuf};

/// Runs that are merged: each is held in memory.
const RUNS_MAX: usize = 100;
/// Columns of the text.
const WIDTH: usize = 140;
const AIPERF: &str = "aiperf";
const GENAI_PERF: &str = "genai-perf";

const AFTER_HELP: &str = "\
A PATH is the folder of a run, or one of its files: profile_export_records.bin, profile_export.jsonl
(of AIPerf too), a summary, or perf_analyzer's profile_export.json. Several are merged: requests
together, from the first start to the last end; in GenAI-Perf's definitions rates are added.

Examples:
  tokenring report artifacts/m-openai-chat-concurrency1
  tokenring report before/profile_export.json --as aiperf --tokenizer ./tokenizer
  tokenring report client1 client2 --artifact-dir both";

/// The subcommand.
pub fn command() -> Command {
    Command::new("report")
        .about("Recompute the reports of recorded runs, also in a peer's definitions")
        .after_help(AFTER_HELP)
        .arg(
            Arg::new("PATH")
                .help("Folders of runs, or their files; several are merged")
                .num_args(1..)
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(Arg::new("as").long("as").value_name("PEER").help(
            "Whose definitions and files: aiperf or genai-perf [default: aiperf; of \
                     perf_analyzer's files genai-perf]",
        ))
        .args(output_args())
        .arg(
            Arg::new("tokenizer")
                .long("tokenizer")
                .value_name("NAME")
                .help(
                    "What counts the tokens of perf_analyzer's texts: a folder, a tokenizer.json, \
                     or builtin [default: the run's counts where they are all the same, else the \
                     model's own, else builtin]",
                ),
        )
        .arg(
            Arg::new("goodput")
                .long("goodput")
                .short('g')
                .value_name("TAG:LIMIT")
                .num_args(1..)
                .action(ArgAction::Append)
                .help("Service levels in GenAI-Perf's definitions [default: the run's]"),
        )
}

fn output_args() -> [Arg; 2] {
    [
        Arg::new("artifact-dir")
            .long("artifact-dir")
            .value_name("DIR")
            .value_parser(value_parser!(PathBuf))
            .help(
                "Where the files go; never the run's own folder [default: `report` in the run's \
                 folder; of several runs artifacts/report]",
            ),
        Arg::new("overwrite")
            .long("overwrite")
            .action(ArgAction::SetTrue)
            .help("Replace what lies in --artifact-dir instead of moving it aside"),
    ]
}

/// GenAI-Perf's name for merging what several of its clients have left.
pub fn peers_command() -> Command {
    Command::new("process-export-files")
        .about("GenAI-Perf's name of `report --as genai-perf` on every run below a folder")
        .hide(true)
        .arg(
            Arg::new("input-directory")
                .short('d')
                .long("input-directory")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .args(output_args())
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Exit {
    let texts = |name: &str| matches.get_many::<String>(name).into_iter().flatten();
    let paths = matches.get_many::<PathBuf>("PATH").into_iter().flatten();
    ended(levels(texts("goodput")).and_then(|goodput| {
        reported(&Asked {
            paths: paths.cloned().collect(),
            definitions: matches.get_one::<String>("as").cloned(),
            dir: matches.get_one("artifact-dir").cloned(),
            overwrite: matches.get_flag("overwrite"),
            tokenizer: matches.get_one::<String>("tokenizer").cloned(),
            goodput,
        })
    }))
}

/// Runs it under GenAI-Perf's name.
pub fn run_peers(matches: &ArgMatches) -> Exit {
    let folder = matches.get_one::<PathBuf>("input-directory").cloned();
    let folder = folder.unwrap_or_default();
    tell("note: process-export-files is `report --as genai-perf` on the runs below the folder");
    ended(sources::below(&folder).and_then(|paths| {
        reported(&Asked {
            paths,
            definitions: Some(GENAI_PERF.into()),
            dir: matches.get_one("artifact-dir").cloned(),
            overwrite: matches.get_flag("overwrite"),
            ..Asked::default()
        })
    }))
}

fn ended(result: Result<Exit, String>) -> Exit {
    result.unwrap_or_else(|text| {
        tell(&format!("error: {text}"));
        Exit::Usage
    })
}

#[derive(Default)]
struct Asked {
    paths: Vec<PathBuf>,
    definitions: Option<String>,
    dir: Option<PathBuf>,
    overwrite: bool,
    tokenizer: Option<String>,
    goodput: Vec<(String, f64)>,
}

/// What a report amounts to.
struct Made {
    files: Vec<(&'static str, Vec<u8>)>,
    text: String,
}

fn reported(asked: &Asked) -> Result<Exit, String> {
    if asked.paths.len() > RUNS_MAX {
        let count = asked.paths.len();
        return Err(format!("{count} runs; report {RUNS_MAX} at most"));
    }
    let wants_peer = match asked.definitions.as_deref() {
        None => None,
        Some(AIPERF) => Some(false),
        Some(GENAI_PERF) => Some(true),
        Some("vllm") => {
            return Err(
                "--as vllm: its figures come with a later version, and the gaps of a run \
                        are in its profile_export.jsonl; give aiperf or genai-perf"
                    .into(),
            );
        }
        Some(other) => return Err(format!("--as {other}: give aiperf or genai-perf")),
    };
    let find = |path: &PathBuf| Source::find(path, wants_peer == Some(true));
    let found = asked
        .paths
        .iter()
        .map(find)
        .collect::<Result<Vec<_>, _>>()?;
    let is_peer = wants_peer.unwrap_or_else(|| found.iter().all(Source::is_perf));
    let (dir, overwrite) = place(asked, &found)?;
    if !asked.goodput.is_empty() && !is_peer && !found.iter().all(Source::is_perf) {
        return Err(
            "--goodput: the levels of a recorded run are its own; --as genai-perf takes \
                    others"
                .into(),
        );
    }
    let mut counter = Counter::new(asked.tokenizer.as_deref());
    let read = |source: &Source| source.read(&mut counter, is_peer, &asked.goodput);
    let runs = found.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let made = match is_peer {
        true => as_peer(&runs, &asked.goodput),
        false => as_ours(runs),
    };
    let own: Vec<String> = made.files.iter().map(|(name, _)| (*name).into()).collect();
    let written = RunDir::open(&dir, overwrite, &own).and_then(|dir| {
        let write = |(name, bytes): &(&str, Vec<u8>)| dir.write(name, bytes);
        made.files.iter().try_for_each(write)
    });
    let text = format!("{}\nArtifacts: {}\n", made.text, dir.display());
    let mut exit = Exit::Ok;
    if let Err(error) = show(text.as_bytes()) {
        tell(&format!("error: stdout: {error}"));
        exit = exit.worse(Exit::Unexpected);
    }
    if let Err(error) = written {
        tell(&format!("error: {error}"));
        exit = exit.worse(Exit::Partial);
    }
    Ok(exit)
}

/// Where the files go, and whether what lies there is written over.
fn place(asked: &Asked, found: &[Source]) -> Result<(PathBuf, bool), String> {
    let Some(dir) = &asked.dir else {
        // Nothing but earlier reports of the same requests is there.
        return Ok(match found {
            [one] => (one.folder().join("report"), true),
            _ => (PathBuf::from("artifacts/report"), asked.overwrite),
        });
    };
    let is_own = |source: &Source| {
        let folder = source.folder().canonicalize().ok();
        folder.is_some() && folder == dir.canonicalize().ok()
    };
    match found.iter().any(is_own) {
        true => Err(format!(
            "--artifact-dir {}: the run itself is there; give another folder",
            dir.display()
        )),
        false => Ok((dir.clone(), asked.overwrite)),
    }
}

/// In GenAI-Perf's definitions.
fn as_peer(runs: &[Read], goodput: &[(String, f64)]) -> Made {
    let peers: Vec<PeerRun> = runs.iter().map(|run| run.peer.clone()).collect();
    let levels = match (goodput, runs) {
        ([], [one]) => one.levels.clone(),
        _ => goodput.to_vec(),
    };
    let metrics = figures(&peers, &levels);
    let mut account = account(runs, GENAI_PERF);
    let kept: usize = peers.iter().map(|run| run.kept.len()).sum();
    let all: u64 = peers.iter().map(|run| run.count).sum();
    if (kept as u64) < all {
        let lacking = all - kept as u64;
        account.notes.push(format!(
            "{lacking} of {all} requests had no content: in the request throughput alone"
        ));
    }
    let beside = match runs {
        [one] => one.beside.clone(),
        _ => Map::new(),
    };
    if runs.len() > 1 {
        let note = "rates are the sums of the runs': of clients that ran at the same time";
        account.notes.push(note.into());
    }
    let telemetry = beside.get("telemetry_stats").and_then(Value::as_object);
    let telemetry = telemetry.cloned().unwrap_or_default();
    let settings = beside.get("input_config").cloned().unwrap_or_default();
    let mut document = genai_perf::json_of(&metrics, &telemetry, settings);
    document["recomputed"] = account.json();
    // Without a stream it has the latency as TTFT too: in the JSON alone.
    let is_shown = |m: &MetricResult| {
        m.tag != "time_to_first_token" || runs.iter().any(|run| run.is_streaming)
    };
    let shown: Vec<MetricResult> = metrics.into_iter().filter(is_shown).collect();
    let table = console::genai_perf_table(&shown, WIDTH);
    let text = recomputed::text(&account, verdict(runs), &table, WIDTH);
    let files = vec![
        ("profile_export_genai_perf.json", json::bytes(&document)),
        (
            "profile_export_genai_perf.csv",
            genai_perf::csv_of(&shown, &telemetry),
        ),
        ("profile_export_console.txt", text.clone().into_bytes()),
    ];
    Made { files, text }
}

/// In our definitions, which are AIPerf's.
fn as_ours(runs: Vec<Read>) -> Made {
    let mut account = account(&runs, AIPERF);
    let verdict = verdict(&runs).map(String::from);
    let (base, beside) = match runs.as_slice() {
        [one] => (one.base.clone(), one.beside.clone()),
        _ => (together(&runs), Map::new()),
    };
    if base.contains_key("telemetry_data") {
        account
            .notes
            .push("the GPUs' rows of the CSV and the table are the run's own".into());
    }
    account.notes.extend(apart(&runs));
    let mut all = Recorded::default();
    runs.into_iter().for_each(|run| all.add(run.recorded));
    let mut found = all.figures();
    let document = recomputed::aiperf(&base, &mut found, &mut account);
    let telemetry = beside.get("telemetry_stats").and_then(Value::as_object);
    let telemetry = telemetry.cloned().unwrap_or_default();
    let settings = beside.get("input_config").cloned().unwrap_or_default();
    let mut genai = genai_perf::json_of(&found.metrics, &telemetry, settings);
    genai["recomputed"] = account.json();
    let table = console::metrics_table(&found.metrics, WIDTH);
    let text = recomputed::text(&account, verdict.as_deref(), &table, WIDTH);
    let files = vec![
        ("profile_export_aiperf.json", json::bytes(&document)),
        ("profile_export_aiperf.csv", csv::of_metrics(&found.metrics)),
        ("profile_export_genai_perf.json", json::bytes(&genai)),
        (
            "profile_export_genai_perf.csv",
            genai_perf::csv_of(&found.metrics, &telemetry),
        ),
        ("profile_export_console.txt", text.clone().into_bytes()),
    ];
    Made { files, text }
}

fn account(runs: &[Read], definitions: &'static str) -> Account {
    let mut counters: Vec<String> = runs
        .iter()
        .filter_map(|run| run.counted_by.clone())
        .collect();
    counters.dedup();
    Account {
        from: runs
            .iter()
            .map(|run| run.source.display().to_string())
            .collect(),
        definitions,
        version: env!("CARGO_PKG_VERSION").into(),
        tokenizer: (!counters.is_empty()).then(|| counters.join("; ")),
        notes: runs.iter().flat_map(|run| run.notes.clone()).collect(),
        ..Account::default()
    }
}

/// The verdict of a single run.
fn verdict(runs: &[Read]) -> Option<&str> {
    match runs {
        [one] => one.base.get("client")?.get("verdict")?.as_str(),
        _ => None,
    }
}

/// What several documents say that is of all of them: the failures.
fn together(runs: &[Read]) -> Map<String, Value> {
    let mut groups: Vec<(Value, u64)> = Vec::new();
    let lists = runs
        .iter()
        .filter_map(|run| run.base.get("error_summary")?.as_array());
    for group in lists.flatten() {
        let count = group["count"].as_u64().unwrap_or(0);
        match groups
            .iter_mut()
            .find(|(known, _)| *known == group["error_details"])
        {
            Some((_, sum)) => *sum += count,
            None => groups.push((group["error_details"].clone(), count)),
        }
    }
    let group = |(details, count)| serde_json::json!({"error_details": details, "count": count});
    let groups: Vec<Value> = groups.into_iter().map(group).collect();
    let version = env!("CARGO_PKG_VERSION");
    let members = [
        ("schema_version", json::SCHEMA_VERSION.into()),
        ("tokenring_version", version.into()),
        ("error_summary", groups.into()),
    ];
    members
        .map(|(key, value): (&str, Value)| (key.into(), value))
        .into_iter()
        .collect()
}

/// That runs were not at the same time: the pauses between them are in the rates.
fn apart(runs: &[Read]) -> Option<String> {
    let mut windows: Vec<(u64, u64)> = runs
        .iter()
        .filter_map(|run| run.recorded.window())
        .collect();
    windows.sort_unstable();
    let is_apart = windows.windows(2).any(|pair| pair[1].0 > pair[0].1);
    is_apart.then(|| {
        "the runs were not at the same time: rates are over the pauses between them too; \
         `compare` takes them one by one"
            .into()
    })
}

/// Service levels of GenAI-Perf.
fn levels<'a>(texts: impl Iterator<Item = &'a String>) -> Result<Vec<(String, f64)>, String> {
    let level = |text: &str| {
        let pair = text.split_once(':');
        let pair = pair.and_then(|(tag, limit)| Some((tag, limit.parse::<f64>().ok()?)));
        match pair {
            Some((tag, limit)) if crate::stats::genai_perf::is_level(tag) && limit > 0.0 => {
                Ok((tag.to_string(), limit))
            }
            _ => Err(format!(
                "--goodput {text}: give tag:limit, as in time_to_first_token:100; the tags are \
                 request_latency, time_to_first_token, time_to_second_token, inter_token_latency \
                 and output_token_throughput_per_user"
            )),
        }
    };
    texts
        .flat_map(|text| text.split_whitespace())
        .map(level)
        .collect()
}

/// A file beside another, as a JSON object; empty where there is none that can be read.
fn object_at(path: &Path) -> Map<String, Value> {
    let bytes = match path.metadata() {
        Ok(found) if found.is_file() && found.len() < sources::BESIDE_BYTES_MAX => {
            std::fs::read(path).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    serde_json::from_slice(&bytes).unwrap_or_default()
}
