//! The command line: clap, one file per subcommand. stdout is for data, stderr for the rest.
//!
//! Start at [`main`].

mod doctor;
mod flags;
mod mock;
mod profile;
mod refused;

use crate::base::{Exit, Ns, Secrets};
use crate::config::hide_args;
use clap::Command;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::Write;

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
        eprintln!("error: {text}");
        return Exit::Usage;
    }
    let matches = match command().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) => {
            let text = error.to_string();
            let shown = secrets(&args).shown(&text);
            // A closed stdout is no reason to fail.
            let _ = match error.use_stderr() && shown != text {
                true => write!(std::io::stderr(), "{shown}"),
                false => error.print(),
            };
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Ok,
                _ => Exit::Usage,
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

/// The arguments as text.
fn texts(args: &[OsString]) -> Vec<String> {
    let text = |arg: &OsString| arg.to_string_lossy().into_owned();
    args.iter().map(text).collect()
}

/// Secrets of a command line and of the environment, known before anything is read.
fn secrets(args: &[OsString]) -> Secrets {
    let mut found: Vec<String> = std::env::var("OPENAI_API_KEY").into_iter().collect();
    hide_args(&texts(args), &mut found);
    Secrets::new(found)
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
        clap_complete::generate(shell, &mut command(), "tokenring", &mut std::io::stdout());
    }
    Exit::Ok
}

fn man() -> Exit {
    match clap_mangen::Man::new(command()).render(&mut std::io::stdout()) {
        Ok(()) => Exit::Ok,
        Err(_) => Exit::Unexpected,
    }
}
