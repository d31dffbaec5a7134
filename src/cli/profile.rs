//! `tokenring profile` and `analyze`: flags, file and environment become one configuration or
//! several, and run.

use super::flags::{self, Part};
use super::self_bench;
use crate::analyze;
use crate::base::{Exit, Ns, REDACTED, limits, now};
use crate::config::{self, Asked, Checked, Config, FromFile, Layout, Names, Typed, hide_args};
use crate::profile::{self, Launch};
use crate::stats::metric;
use crate::view::tell;
use crate::workload::hub_token_of_env;
use clap::ArgMatches;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::path::Path;

/// What a file of settings is read with.
pub(super) const NAMES: Names = Names {
    key: &flags::key,
    of_peer: &flags::of_peer,
};

/// Runs `profile`, or with [`Layout::Analyze`] `analyze`.
///
/// `accepted` are notes on what was put into words of ours.
pub fn run(
    matches: &ArgMatches,
    args: &[OsString],
    layout: Layout,
    launched: Ns,
    accepted: Vec<String>,
) -> Exit {
    match asked(matches, args, layout) {
        Err(text) => {
            tell(&format!("error: {}", super::secrets(args).shown(&text)));
            Exit::Usage
        }
        Ok((asked, notes)) => {
            let notes = accepted.into_iter().chain(notes).collect();
            carry_out(asked, launched, notes)
        }
    }
}

fn carry_out(asked: Asked, launched: Ns, accepted: Vec<String>) -> Exit {
    let first = match &asked {
        Asked::One(Checked { config, .. }) => config,
        Asked::Many(sweep) => &sweep.variations[0].config,
    };
    let mut notes = accepted;
    notes.extend(unused_proxies(first));
    let mut at = launched;
    if first.calibrate && !first.dry_run {
        let exit = self_bench::calibrate(first);
        if exit != Exit::Ok {
            return exit;
        }
        // The run begins here.
        at = now();
    }
    let program = std::env::current_exe().ok();
    let launch = |own: Vec<String>| {
        let notes = own.into_iter().chain(notes).collect();
        Launch { at, program, notes }
    };
    match asked {
        Asked::One(Checked { mut config, notes }) => {
            if !config.seed_given {
                config.seed &= limits::RANDOM_SEED_MAX;
            }
            profile::run(config, launch(notes))
        }
        Asked::Many(mut sweep) => {
            let notes = std::mem::take(&mut sweep.notes);
            analyze::sweep(sweep, launch(notes))
        }
    }
}

/// What the flags and the file give, unchecked, and notes on what of it changes nothing.
pub(super) fn settings(matches: &ArgMatches) -> Result<FromFile, String> {
    let mut notes = flags::notes(matches)?;
    let mut file = match matches.get_one::<String>("config") {
        Some(path) => config::read(Path::new(path), &NAMES)?,
        None => FromFile::default(),
    };
    notes.append(&mut file.notes);
    file.notes = notes;
    file.settings.extend(flags::settings(matches)?);
    Ok(file)
}

/// What the flags, the file and the environment ask for, and notes on how the peers' were taken.
pub(super) fn asked(
    matches: &ArgMatches,
    args: &[OsString],
    layout: Layout,
) -> Result<(Asked, Vec<String>), String> {
    let FromFile {
        settings,
        mut notes,
        analyze,
    } = settings(matches)?;
    notes.extend(flags::differences(&settings));
    let layout = match analyze {
        true => Layout::Analyze,
        false => layout,
    };
    let of = |part: Part| -> Map<String, Value> {
        let own = settings.iter().filter(|(key, _)| flags::part(key) == part);
        own.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let bad = |error: serde_json::Error| format!("settings: {error}");
    let typed = Typed {
        run: with_environment(of(Part::Run)),
        sweep: serde_json::from_value(of(Part::Sweep).into()).map_err(bad)?,
        search: serde_json::from_value(of(Part::Search).into()).map_err(bad)?,
        layout,
        key: &flags::key,
        command_line: &command_line(args),
    };
    let asked = typed.check()?;
    let configs: Vec<&Config> = match &asked {
        Asked::One(checked) => vec![&checked.config],
        Asked::Many(sweep) => sweep.variations.iter().map(|point| &point.config).collect(),
    };
    for config in &configs {
        profile::check_asserts(config)?;
    }
    let mut slos = configs.iter().flat_map(|config| &config.goodput);
    match slos.find(|slo| metric::find(&slo.tag).is_none()) {
        Some(slo) => Err(format!("--goodput: `{}` is no metric's tag", slo.tag)),
        None => Ok((asked, notes)),
    }
}

/// Settings with what the environment has for them.
fn with_environment(mut settings: Map<String, Value>) -> Map<String, Value> {
    if !settings.contains_key("api_key")
        && let Ok(key) = std::env::var("OPENAI_API_KEY")
    {
        settings.insert("api_key".into(), key.into());
    }
    let token = hub_token_of_env().filter(|_| !settings.contains_key("hf_token"));
    settings.extend(token.map(|token| ("hf_token".into(), token.into())));
    if settings.contains_key("proxy") && !settings.contains_key("no_proxy") {
        let list = variable("no_proxy").filter(|list| !list.is_empty());
        settings.extend(list.map(|list| ("no_proxy".into(), list.into())));
    }
    settings
}

/// A variable of the environment, in either case.
fn variable(name: &str) -> Option<String> {
    let of = |name: &str| std::env::var(name).ok();
    of(name).or_else(|| of(&name.to_ascii_uppercase()))
}

/// Says that proxies of the environment are not used, where there are some. Their values may hold
/// a password.
fn unused_proxies(config: &Config) -> Option<String> {
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
