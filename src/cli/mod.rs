//! The command line: clap, one file per subcommand. stdout is for data, stderr for the rest.
//!
//! Start at [`main`].

mod doctor;
mod flags;
mod mock;
mod profile;
mod refused;

use crate::base::{Exit, Ns};
use crate::view::{self, tell};
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
        .subcommand(mock::command())
        .subcommand(Command::new("doctor").about("Say what this machine offers to a run"))
        .subcommand(
            Command::new("completions")
                .about("Print a completion script")
                .arg(clap::arg!(<SHELL>).value_parser(clap::value_parser!(clap_complete::Shell))),
        )
        .subcommand(Command::new("man").about("Print the manual page"))
}

/// Runs a command line; `launched` is when the process began.
pub fn main(args: impl IntoIterator<Item = OsString>, launched: Ns) -> Exit {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(text) = refusal(&args) {
        tell(&format!("error: {text}"));
        return Exit::Usage;
    }
    let matches = match command().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => printed(error.print()),
                _ => {
                    // The exit code says it too.
                    let _ = error.print();
                    Exit::Usage
                }
            };
        }
    };
    match matches.subcommand() {
        Some(("profile", matches)) => profile::run(matches, &args, launched),
        Some(("mock", matches)) => mock::run(matches),
        Some(("doctor", _)) => doctor::run(),
        Some(("completions", matches)) => completions(matches),
        Some(("man", _)) => man(),
        _ => Exit::Usage,
    }
}

/// The line for a peer's flag that is not served.
fn refusal(args: &[OsString]) -> Option<String> {
    if args.get(1).is_none_or(|name| name != "profile") {
        return None;
    }
    let short = |text: &str| match text {
        "-p" => Some("measurement-interval"),
        "-s" => Some("stability-percentage"),
        "-b" => Some("batch-size"),
        _ => None,
    };
    args.iter()
        .skip(2)
        .take_while(|arg| *arg != "--")
        .find_map(|arg| {
            let text = arg.to_str()?;
            let name = text
                .strip_prefix("--")
                .or_else(|| short(text))?
                .split('=')
                .next()?;
            refused::reason(name).map(|reason| format!("--{name}: {reason}"))
        })
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

fn man() -> Exit {
    let mut page = Vec::new();
    match clap_mangen::Man::new(command()).render(&mut page) {
        Ok(()) => show(&page),
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
