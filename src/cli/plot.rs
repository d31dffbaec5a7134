//! `tokenring plot`: pictures from recorded runs.

use crate::analyze::plot_sweep;
use crate::archive::{RunError, RunFolder, read_sweep};
use crate::base::Exit;
use crate::profile::{Drawing, PLOTS, Plotted, name_of, plot_run, write_plots};
use crate::report::plot::{PlotRun, RUNS_MAX, Theme, of_runs};
use crate::view::{show, tell};
use clap::{Arg, ArgMatches, Command, value_parser};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Of one run: time to first token, latency, lengths, gaps between tokens; of several those that can be
laid over each other; of a sweep's folder its latency against its throughput.

Examples:
  tokenring plot artifacts/run
  tokenring plot before after --output diff --format svg
  tokenring plot artifacts --theme dark";

/// Flags of AIPerf's `plot` without a counterpart here.
const OF_PLOT: &[(&str, &str)] = &[
    ("dashboard", "plots are files; open the SVG in a browser"),
    ("host", "plots are files, nothing listens; leave it out"),
    ("port", "plots are files, nothing listens; leave it out"),
    (
        "config",
        "which plots there are follows from the runs; leave it out",
    ),
    ("mlflow-upload", "plots are files; upload the folder"),
    ("mlflow-tracking-uri", "plots are files; upload the folder"),
    ("mlflow-run-id", "plots are files; upload the folder"),
];

/// The line for the first flag of AIPerf's `plot` that has no counterpart here.
pub fn refusal(args: &[&str]) -> Option<String> {
    let names = args.iter().filter_map(|arg| arg.strip_prefix("--"));
    let mut names = names.filter_map(|rest| rest.split('=').next());
    let of = |name| OF_PLOT.iter().find(|(known, _)| *known == name);
    let (name, reason) = names.find_map(of)?;
    Some(format!("--{name}: {reason}"))
}

/// The subcommand.
pub fn command() -> Command {
    Command::new("plot")
        .about("Draw recorded runs: SVG and PNG, without a browser")
        .after_help(AFTER_HELP)
        .arg(
            Arg::new("RUN")
                .help("Folders of runs or of a sweep, of AIPerf too [default: artifacts]")
                .num_args(0..)
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .visible_alias("output-dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Where the plots go [default: plots/ in the run's folder; here, of several]"),
        )
        .arg(
            Arg::new("theme")
                .long("theme")
                .value_name("THEME")
                .value_parser(["light", "dark"])
                .default_value("light")
                .help("light for paper, dark for slides"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("LIST")
                .value_delimiter(',')
                .value_parser(["svg", "png"])
                .default_value("svg,png")
                .help("svg, png or both"),
        )
}

/// Runs the subcommand. The files' names go to stdout.
pub fn run(matches: &ArgMatches) -> Exit {
    let plotted = match plotted(matches) {
        Ok(plotted) => plotted,
        Err(text) => {
            tell(&format!("error: {text}"));
            return Exit::Usage;
        }
    };
    plotted
        .notes
        .iter()
        .for_each(|note| tell(&format!("note: {note}")));
    plotted
        .lost
        .iter()
        .for_each(|lost| tell(&format!("error: {lost}")));
    let mut exit = Exit::Ok;
    if plotted.files.is_empty() {
        tell("error: no plot could be made");
    }
    if plotted.files.is_empty() || !plotted.lost.is_empty() {
        exit = Exit::Partial;
    }
    let names = plotted
        .files
        .iter()
        .map(|path| format!("{}\n", path.display()));
    if let Err(error) = show(names.collect::<String>().as_bytes()) {
        tell(&format!("error: stdout: {error}"));
        exit = exit.worse(Exit::Unexpected);
    }
    exit
}

fn plotted(matches: &ArgMatches) -> Result<Plotted, String> {
    let given = matches.get_many::<PathBuf>("RUN").into_iter().flatten();
    let mut paths: Vec<PathBuf> = given.cloned().collect();
    if paths.is_empty() {
        paths.push("artifacts".into());
    }
    let has = |format: &str| {
        let mut formats = matches.get_many::<String>("format").into_iter().flatten();
        formats.any(|own| own == format)
    };
    let theme = matches.get_one::<String>("theme");
    let drawing = Drawing {
        theme: match theme.map(String::as_str) {
            Some("dark") => Theme::Dark,
            _ => Theme::Light,
        },
        svg: has("svg"),
        png: has("png"),
    };
    let output = matches.get_one::<PathBuf>("output");
    if let [path] = &paths[..]
        && let Some((document, parent)) = read_sweep(path).map_err(|error| error.to_string())?
    {
        let folder = output.cloned().unwrap_or_else(|| parent.join(PLOTS));
        let name = last_name(&parent);
        return Ok(plot_sweep(&document, (&parent, &name), &folder, drawing));
    }
    let folders = folders(&paths)?;
    let folder = match (output, &folders[..]) {
        (Some(output), _) => output.clone(),
        (None, [one]) => one.path.join(PLOTS),
        (None, _) => PLOTS.into(),
    };
    let mut notes = Vec::new();
    let mut runs: Vec<PlotRun> = Vec::new();
    for (folder, name) in folders.iter().zip(names(&folders)).take(RUNS_MAX) {
        match plot_run(folder, &name)? {
            (Some(run), said) => {
                runs.push(run);
                notes.extend(said);
            }
            (None, _) => notes.push(format!("{name}: no records were kept of its requests")),
        }
    }
    if folders.len() > RUNS_MAX {
        notes.push(format!(
            "of {} runs the first {RUNS_MAX} are drawn",
            folders.len()
        ));
    }
    if runs.is_empty() {
        return Err(format!("{}; nothing can be drawn", notes.join("; ")));
    }
    let mut plotted = write_plots(of_runs(&runs, drawing.theme), &folder, drawing);
    notes.append(&mut plotted.notes);
    Ok(Plotted { notes, ..plotted })
}

/// The runs at these paths; of a folder that is none those below it.
fn folders(paths: &[PathBuf]) -> Result<Vec<RunFolder>, String> {
    let mut found = Vec::new();
    for path in paths {
        match RunFolder::open(path) {
            Ok(folder) => found.push(folder),
            Err(RunError::Absent { below, .. }) if !below.is_empty() => {
                for path in below {
                    found.push(RunFolder::open(Path::new(&path)).map_err(|e| e.to_string())?);
                }
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(found)
}

/// The runs' names: of their folders, with the one above where two are alike.
fn names(folders: &[RunFolder]) -> Vec<String> {
    let names: Vec<String> = folders.iter().map(name_of).collect();
    let is_double = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let name = |(name, folder): (&String, &RunFolder)| match is_double(name) {
        true => folder.path.display().to_string(),
        false => name.clone(),
    };
    names.iter().zip(folders).map(name).collect()
}

fn last_name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    whole
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
