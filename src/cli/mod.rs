//! The command line: clap, one file per subcommand. stdout is for data, stderr for the rest.
//!
//! Start at [`main`].

mod compare;
mod config;
mod doctor;
mod flags;
mod interleave;
mod mock;
mod plot;
mod profile;
mod report;
mod self_bench;
mod subcommands;

use crate::base::{Exit, Ns, Secrets};
use crate::config::{Layout, hide_args};
use crate::view::{self, tell};
use crate::workload::hub_token_of_env;
use clap::Command;
use clap::error::ErrorKind;
use std::ffi::OsString;

/// The whole command line.
fn command() -> Command {
    Command::new("tokenring")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures LLM inference servers, and proves that the client was not the limit")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(flags::command())
        .subcommand(flags::analyze_command())
        .subcommand(self_bench::command())
        .subcommand(compare::command())
        .subcommand(report::command())
        .subcommand(report::peers_command())
        .subcommand(config::command())
        .subcommand(config::template_command())
        .subcommand(plot::command())
        .subcommand(mock::command())
        .subcommand(
            Command::new("flags")
                .hide(true)
                .about("Print docs/flags.md"),
        )
        .subcommand(Command::new("doctor").about("Say what this machine offers to a run"))
        .subcommand(
            Command::new("completions")
                .about("Print a completion script")
                .arg(clap::arg!(<SHELL>).value_parser(clap::value_parser!(clap_complete::Shell))),
        )
        .subcommand(
            Command::new("man")
                .about("Print the manual page of the program or of one subcommand")
                .arg(clap::arg!([COMMAND] "Subcommand, such as profile")),
        )
}

/// Runs a command line; `launched` is when the process began.
pub fn main(args: impl IntoIterator<Item = OsString>, launched: Ns) -> Exit {
    let args = config::as_profile(args.into_iter().collect());
    let name = args.get(1).and_then(|arg| arg.to_str());
    let of_plot = || {
        let rest: Vec<&str> = args.iter().skip(2).filter_map(|arg| arg.to_str()).collect();
        plot::refusal(&rest).filter(|_| name == Some("plot"))
    };
    let read = match name.and_then(subcommands::refusal).or_else(of_plot) {
        Some(text) => Err(text),
        None => flags::translated(&args),
    };
    let (words, notes) = match read {
        Ok(read) => read,
        Err(text) => {
            tell(&format!("error: {}", secrets(&args).shown(&text)));
            return Exit::Usage;
        }
    };
    let matches = match command().try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => printed(error.print()),
                _ => unread(&error, &args),
            };
        }
    };
    match matches.subcommand() {
        Some(("profile", matches)) => {
            profile::run(matches, &args, Layout::Profile, launched, notes)
        }
        Some(("analyze", matches)) => {
            profile::run(matches, &args, Layout::Analyze, launched, notes)
        }
        Some(("self-bench", matches)) => self_bench::run(matches),
        Some(("compare", matches)) => compare::run(matches, launched),
        Some(("report", matches)) => report::run(matches),
        Some(("process-export-files", matches)) => report::run_peers(matches),
        Some(("plot", matches)) => plot::run(matches),
        Some(("mock", matches)) => mock::run(matches),
        Some(("doctor", _)) => doctor::run(),
        Some(("config", matches)) => config::run(matches),
        Some(("create-template", matches)) => config::create_template(matches),
        Some(("flags", _)) => show(flags::page().as_bytes()),
        Some(("completions", matches)) => completions(matches),
        Some(("man", matches)) => man(matches),
        _ => Exit::Usage,
    }
}

/// Says why a command line cannot be read.
fn unread(error: &clap::Error, args: &[OsString]) -> Exit {
    let text = error.to_string();
    let shown = secrets(args).shown(&text);
    match shown == text {
        // In colour on a terminal; whether it can be written or not, the exit code says it too.
        true => drop(error.print()),
        false => tell(shown.trim_end()),
    }
    Exit::Usage
}

/// The arguments as text.
fn texts(args: &[OsString]) -> Vec<String> {
    let text = |arg: &OsString| arg.to_string_lossy().into_owned();
    args.iter().map(text).collect()
}

/// Secrets of a command line and of the environment, known before anything is read.
fn secrets(args: &[OsString]) -> Secrets {
    let mut found: Vec<String> = std::env::var("OPENAI_API_KEY").into_iter().collect();
    found.extend(hub_token_of_env());
    hide_args(&texts(args), &mut found);
    Secrets::new(found)
}

fn completions(matches: &clap::ArgMatches) -> Exit {
    if let Some(&shell) = matches.get_one::<clap_complete::Shell>("SHELL") {
        // Into memory first: the generator panics where a write fails.
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command(), "tokenring", &mut script);
        return show(&script);
    }
    Exit::Ok
}

fn man(matches: &clap::ArgMatches) -> Exit {
    let mut whole = command();
    // Makes the subcommands know their full names.
    whole.build();
    let page = match matches.get_one::<String>("COMMAND") {
        None => whole,
        Some(name) => match whole.find_subcommand(name) {
            Some(found) => found.clone(),
            None => {
                tell(&format!("error: man {name}: there is no such subcommand"));
                return Exit::Usage;
            }
        },
    };
    let mut text = Vec::new();
    match clap_mangen::Man::new(page).render(&mut text) {
        Ok(()) => show(&text),
        Err(_) => Exit::Unexpected,
    }
}

/// Data on stdout; when it is lost, that is said and is a failure.
fn show(data: &[u8]) -> Exit {
    printed(view::show(data))
}

fn printed(result: std::io::Result<()>) -> Exit {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            tell(&format!("error: stdout: {error}"));
            Exit::Unexpected
        }
        _ => Exit::Ok,
    }
}
