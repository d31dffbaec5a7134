//! `tokenring compare`: runs against the first of them.

use super::interleave;
use crate::analyze::{Asked, Run, compare};
use crate::archive::OutFile;
use crate::base::{Exit, Ns, limits};
use crate::report;
use crate::stats::Gate;
use crate::stats::bootstrap::Resampling;
use crate::stats::gate::subject;
use crate::view::{show, tell};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::path::{Path, PathBuf};

/// Threads beyond which the draws wait for memory.
const THREADS_MAX: usize = 8;

const AFTER_HELP: &str = "\
The first run is the baseline. Exit code 4 when a --fail-if is so.

Examples:
  tokenring compare before after
  tokenring compare before after --metric 'p95(ttft)' --metric request_latency
  tokenring compare before after --fail-if 'p99(ttft)>+5%' --json diff.json
  tokenring compare --interleave=5 HOST:8000 HOST:8001 -- --streaming --concurrency 16";

/// The subcommand.
pub fn command() -> Command {
    Command::new("compare")
        .about("Compare runs: what has changed, and whether that can be chance")
        .after_help(AFTER_HELP)
        .arg(
            Arg::new("RUN")
                .help("Folders of runs, or their summaries; the first is the baseline")
                .num_args(2..)
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("metric")
                .long("metric")
                .value_name("METRIC")
                .action(ArgAction::Append)
                .help("Compare this in place of the usual: ttft, or p95(ttft); repeatable"),
        )
        .arg(
            Arg::new("fail-if")
                .long("fail-if")
                .value_name("CONDITION")
                .action(ArgAction::Append)
                .help("Exit with 4 when it is so: p99(ttft)>+5%, ttft>500ms; repeatable"),
        )
        .arg(
            Arg::new("interleave")
                .long("interleave")
                .value_name("ROUNDS")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("3")
                .value_parser(value_parser!(u32).range(1..=100))
                .help(
                    "Make the runs first, in turn: each RUN is then a url, and the flags of \
                     `profile` follow after --; so many rounds [default: 3]",
                ),
        )
        .arg(
            Arg::new("PROFILE")
                .help("Flags of `profile`, with --interleave")
                .last(true)
                .num_args(0..)
                .allow_hyphen_values(true)
                .requires("interleave"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write the result as JSON; - shows it in place of the table"),
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches, launched: Ns) -> Exit {
    match compared(matches, launched) {
        Ok(exit) => exit,
        Err(text) => {
            tell(&format!("error: {text}"));
            Exit::Usage
        }
    }
}

fn compared(matches: &ArgMatches, launched: Ns) -> Result<Exit, String> {
    let texts = |name: &str| matches.get_many::<String>(name).into_iter().flatten();
    let gate = |text: &String| Gate::parse(text).map_err(|error| format!("--fail-if: {error}"));
    let gates = texts("fail-if").map(gate).collect::<Result<Vec<_>, _>>()?;
    let asked = asked(texts("metric"))?;
    let paths: Vec<&PathBuf> = matches.get_many("RUN").into_iter().flatten().collect();
    if paths.len() > limits::COMPARED_RUNS_MAX {
        let most = limits::COMPARED_RUNS_MAX;
        return Err(format!("{} runs; compare {most} at most", paths.len()));
    }
    let json: Option<&PathBuf> = matches.get_one("json");
    let path = json.filter(|path| path.as_path() != "-");
    if let Some(path) = path.filter(|path| is_of(path, &paths)) {
        let path = path.display();
        return Err(format!(
            "--json {path}: a file of a run that is compared; give another"
        ));
    }
    let mut file = path.map(|path| open(path)).transpose()?;
    let mut exit = Exit::Ok;
    let runs = match matches.get_one::<u32>("interleave") {
        None => paths
            .into_iter()
            .map(|path| Run::open(path))
            .collect::<Result<Vec<_>, _>>()?,
        Some(rounds) => {
            let urls: Vec<String> = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let flags: Vec<String> = texts("PROFILE").cloned().collect();
            match interleave::runs(&urls, *rounds, &flags, launched) {
                Ok((runs, ended)) => {
                    exit = ended;
                    runs
                }
                Err(ended) => return Ok(ended),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let by = Resampling {
        threads: threads.min(THREADS_MAX),
        ..Resampling::default()
    };
    let found = compare(&runs, &asked, &gates, &by)?;
    let document = report::json::bytes(&report::compare::json(&found));
    let shown = match (json, path) {
        (Some(_), None) => show(&document),
        _ => show(report::compare::text(&found).as_bytes()),
    };
    if found.is_failed() {
        exit = exit.worse(Exit::Threshold);
    }
    if let Err(error) = shown {
        tell(&format!("error: stdout: {error}"));
        exit = exit.worse(Exit::Unexpected);
    }
    if let (Some(mut file), Some(path)) = (file.take(), path)
        && let Err(error) = file.write(&document).and_then(|()| file.finish())
    {
        tell(&format!("error: {}", fault(path, &error)));
        exit = exit.worse(Exit::Partial);
    }
    Ok(exit)
}

/// Does that file stand in one of these runs?
fn is_of(path: &Path, runs: &[&PathBuf]) -> bool {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let is_in = |run: &&PathBuf| run.canonicalize().ok() == folder || run.as_path() == path;
    path.is_file() && runs.iter().any(is_in)
}

/// What is compared: the usual, or what is named.
fn asked<'a>(names: impl Iterator<Item = &'a String>) -> Result<Vec<Asked>, String> {
    let mut list = Vec::new();
    for name in names {
        let (metric, stat) = subject(name).map_err(|error| format!("--metric: {error}"))?;
        let one = match name.contains('(') {
            true => Asked {
                metric,
                stats: vec![stat],
                is_named: true,
            },
            false => Asked::usual(metric),
        };
        Asked::join(&mut list, one);
    }
    Ok(match list.is_empty() {
        true => Asked::default_list(),
        false => list,
    })
}

/// Opened before the work; what stands there and is no file stays.
fn open(path: &Path) -> Result<OutFile, String> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let path = path.display();
        return Err(format!(
            "--json {path}: no regular file; `-` writes to stdout"
        ));
    }
    OutFile::open(path).map_err(|error| fault(path, &error))
}

fn fault(path: &Path, error: &crate::archive::ArchiveError) -> String {
    let path = path.display();
    format!("--json {path}: {}: {}", error.action, error.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Result<Vec<(&'static str, Vec<&'static str>)>, String> {
        let list: Vec<String> = list.iter().map(|name| (*name).to_string()).collect();
        let found = asked(list.iter())?;
        Ok(found.into_iter().map(|a| (a.metric.tag, a.stats)).collect())
    }

    #[test]
    fn a_metric_alone_means_its_usual_statistics_and_the_same_one_twice_is_one() {
        let usual = vec!["avg", "p50", "p90", "p99"];
        assert_eq!(names(&["ttft"]).unwrap(), [("time_to_first_token", usual)]);
        assert_eq!(
            names(&["p95(ttft)", "rps", "p99.9(ttft)", "p95(ttft)"]).unwrap(),
            [
                ("time_to_first_token", vec!["p95", "p99_9"]),
                ("request_throughput", vec!["avg"])
            ]
        );
        assert_eq!(names(&[]).unwrap().len(), 6);
        let error = names(&["tftt"]).unwrap_err();
        assert!(error.starts_with("--metric: `tftt` is no metric; the nearest are "));
        assert!(names(&["p98(ttft)"]).unwrap_err().contains("no statistic"));
    }
}
