//! `compare --interleave`: runs of several servers in turn, so that what changes over time changes
//! for all of them.

use super::{flags, profile};
use crate::analyze::{self, Run};
use crate::base::{Exit, Ns};
use crate::config::{Asked, Layout, hide_target};
use crate::profile::Launch;
use crate::view::tell;
use std::ffi::OsString;

/// Servers that take turns at the most.
const URLS_MAX: usize = 8;

/// Makes `rounds` runs of each url in turn, by the flags of `profile`; all runs of a round have the
/// same prompts. Gives the runs of each url as one, and how they ended.
///
/// Errors: what cannot be run, already told.
pub fn runs(
    urls: &[String],
    rounds: u32,
    given: &[String],
    launched: Ns,
) -> Result<(Vec<Run>, Exit), Exit> {
    let usage = |text: String| {
        tell(&format!("error: {text}"));
        Exit::Usage
    };
    let args = command(urls, rounds, given).map_err(usage)?;
    let hidden = super::secrets(&args);
    let matches = match flags::command().try_get_matches_from(&args[1..]) {
        Ok(matches) => matches,
        Err(error) => return Err(super::unread(&error, &args)),
    };
    let asked = profile::asked(&matches, &args, Layout::Profile);
    let (sweep, more) = match asked.map_err(|text| usage(hidden.shown(&text)))? {
        (Asked::Many(sweep), notes) => (sweep, notes),
        (Asked::One(_), _) => return Err(usage("--interleave: it takes two urls".into())),
    };
    let launch = Launch {
        at: launched,
        program: std::env::current_exe().ok(),
        notes: sweep.notes.iter().cloned().chain(more).collect(),
    };
    let ended = analyze::run_all(sweep, launch)?;
    let mut sides = Vec::new();
    for (number, url) in urls.iter().enumerate() {
        let label = label(number);
        let own = ended
            .runs
            .iter()
            .filter(|run| run.label == label && run.fault.is_none());
        let own: Result<Vec<Run>, String> = own
            .map(|run| Run::open(&ended.parent.join(&run.folder)))
            .collect();
        let name = hidden.shown(&hide_target(url, &mut Vec::new()));
        match Run::pooled(&name, own.map_err(usage)?) {
            Some(run) => sides.push(run),
            None => {
                tell(&format!("error: {name}: no run of it ended well"));
                return Err(ended.exit.worse(Exit::Partial));
            }
        }
    }
    Ok((sides, ended.exit))
}

fn label(number: usize) -> String {
    format!("side_{}", number + 1)
}

/// The command of `profile` that makes the runs, program first.
fn command(urls: &[String], rounds: u32, given: &[String]) -> Result<Vec<OsString>, String> {
    if !(2..=URLS_MAX).contains(&urls.len()) {
        let text = format!("--interleave: {} urls; give 2 to {URLS_MAX}", urls.len());
        return Err(text);
    }
    let is_url = |flag: &&String| {
        let name = flag.split('=').next().unwrap_or_default();
        matches!(name, "-u" | "--url") || flag.starts_with("-u")
    };
    if given.iter().any(|flag| is_url(&flag)) {
        return Err("--url: --interleave takes the urls before the --; leave it out there".into());
    }
    let mut args: Vec<OsString> = ["tokenring", "profile"].map(OsString::from).to_vec();
    args.extend(given.iter().map(OsString::from));
    for (number, url) in urls.iter().enumerate() {
        args.push("--variant".into());
        args.push(format!("{}: url={url}", label(number)).into());
    }
    args.push("--num-profile-runs".into());
    args.push(rounds.to_string().into());
    args.push("--parameter-sweep-same-seed".into());
    Ok(args)
}
