//! `tokenring profile`: flags, file and environment become one configuration, and run.

use super::{flags, self_bench};
use crate::base::{Exit, Ns, REDACTED, limits, now};
use crate::config::{self, Checked, Draft, hide_args};
use crate::profile::{self, Launch};
use crate::stats::metric;
use crate::view::tell;
use clap::ArgMatches;
use serde_json::Map;
use std::ffi::OsString;
use std::path::Path;

/// Runs the subcommand.
///
/// `accepted` are notes on flags of the peers that mean nothing here.
pub fn run(matches: &ArgMatches, args: &[OsString], launched: Ns, accepted: Vec<String>) -> Exit {
    match checked(matches, args) {
        Err(text) => {
            tell(&format!("error: {}", super::secrets(args).shown(&text)));
            Exit::Usage
        }
        Ok(Checked {
            mut config,
            mut notes,
        }) => {
            notes.extend(accepted);
            notes.extend(unused_proxies(&config));
            if !config.seed_given {
                config.seed &= limits::RANDOM_SEED_MAX;
            }
            if matches.get_flag("generate-plots") {
                notes.push("--generate-plots comes with a later version: no plots are made".into());
            }
            let sources = matches.get_many::<String>("gpu-telemetry");
            if sources.is_some_and(|sources| sources.len() > 0) {
                let text = "--gpu-telemetry: this machine's GPUs are sampled; other sources and \
                            displays come with a later version";
                notes.push(text.into());
            }
            let mut at = launched;
            if config.calibrate && !config.dry_run {
                let exit = self_bench::calibrate(&config);
                if exit != Exit::Ok {
                    return exit;
                }
                // The run begins here.
                at = now();
            }
            let program = std::env::current_exe().ok();
            profile::run(config, Launch { at, program, notes })
        }
    }
}

fn checked(matches: &ArgMatches, args: &[OsString]) -> Result<Checked, String> {
    let mut settings = match matches.get_one::<String>("config") {
        Some(path) => config::read(Path::new(path), flags::key)?,
        None => Map::new(),
    };
    settings.extend(flags::settings(matches)?);
    let mut draft: Draft =
        serde_json::from_value(settings.into()).map_err(|error| format!("settings: {error}"))?;
    if draft.api_key.is_none() {
        draft.api_key = std::env::var("OPENAI_API_KEY").ok();
    }
    if draft.proxy.is_some() && draft.no_proxy.is_none() {
        let list = variable("no_proxy").filter(|list| !list.is_empty());
        draft.no_proxy = list.map(config::Many::One);
    }
    let checked = draft
        .check(&command_line(args))
        .map_err(|error| error.to_string())?;
    let unknown = |slo: &&config::Slo| metric::find(&slo.tag).is_none();
    match checked.config.goodput.iter().find(unknown) {
        Some(slo) => Err(format!("--goodput: `{}` is no metric's tag", slo.tag)),
        None => Ok(checked),
    }
}

/// A variable of the environment, in either case.
fn variable(name: &str) -> Option<String> {
    let of = |name: &str| std::env::var(name).ok();
    of(name).or_else(|| of(&name.to_ascii_uppercase()))
}

/// Says that proxies of the environment are not used, where there are some. Their values may hold
/// a password.
fn unused_proxies(config: &config::Config) -> Option<String> {
    let names = ["http_proxy", "https_proxy", "all_proxy"].into_iter();
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    let set: Vec<String> = names.filter(is_set).map(str::to_uppercase).collect();
    (config.connections.proxy.is_none() && !set.is_empty()).then(|| {
        format!(
            "{} of the environment is not used; --proxy URL goes through one",
            set.join(", ")
        )
    })
}

/// The command as it could be typed again, but for its secrets.
fn command_line(args: &[OsString]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quote =
        |text: String| match !text.is_empty() && text.replace(REDACTED, "").chars().all(plain) {
            true => text,
            false => format!("'{}'", text.replace('\'', r"'\''")),
        };
    let rest = hide_args(&super::texts(args), &mut Vec::new());
    std::iter::once("tokenring".to_string())
        .chain(rest.into_iter().skip(1).map(quote))
        .collect::<Vec<_>>()
        .join(" ")
}
