//! `tokenring self-bench`: what the client itself can drive.

use crate::analyze::{self, Options};
use crate::base::{Exit, Ns, limits};
use crate::config::{Config, Cores, Draft, parse_url};
use crate::stats::capacity::Mode;
use crate::view::tell;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;

/// Events per second of a stream: what a person reads at several times over.
const RATE_PER_STREAM: f64 = 40.0;
/// Requests per second beyond which it is a typing error.
const RATE_MAX: u32 = 1_000_000;
/// Steps that a list may have: at a minute each, an hour.
const LOADS_MAX: usize = 60;

const AFTER_HELP: &str = "\
Without --streams or --request-rate it searches for the largest load with a VALID verdict, under a
minute. The result is kept under XDG_CACHE_HOME or ~/.cache, and gives later reports of `profile`
their headroom.

Examples:
  tokenring self-bench
  tokenring self-bench --streams 1,100,1000 --rate-per-stream 50 --json self.json
  tokenring self-bench --request-rate 1000,5000,10000
  tokenring self-bench --against HOST:8000";

/// Flags with a value: name, its value, help.
#[rustfmt::skip]
const FLAGS: &[(&str, &str, &str)] = &[
    ("streams", "LIST", "Streams of each step, as in 1,100,1000 [default: a search]"),
    ("rate-per-stream", "N", "Events per second of each stream [default: 40]"),
    ("request-rate", "LIST", "In place of streams: requests per second, each answered by one \
        token; without a list it searches"),
    ("chunk-bytes", "N", "Least bytes of an event [default: its own, some 250]"),
    ("cores", "CPUS", "CPUs of the client: how many, or a list as in 2,4-7; the mock takes others \
        [default: 1]"),
    ("seconds", "SECONDS", "Length of a step [default: 3; with --quick 1]"),
    ("against", "URL", "A `tokenring mock` that runs already, in place of our own; of another \
        server less is known"),
    ("model", "NAME", "Its model [default: it is asked]"),
    ("json", "FILE", "Write the result as JSON; - shows it in place of the tables"),
];

/// Flags without.
const SWITCHES: &[(&str, &str)] = &[
    ("tls", "Over TLS"),
    ("tls-insecure", "Do not verify the certificate of --against"),
    ("quick", "Shorter steps, a coarser search: some seconds"),
];

/// The subcommand.
pub fn command() -> Command {
    let value = |&(name, value, help): &(&'static str, &'static str, &'static str)| {
        let arg = Arg::new(name).long(name).value_name(value).help(help);
        let arg = arg.allow_negative_numbers(true);
        match name {
            "request-rate" => arg
                .num_args(0..=1)
                .default_missing_value("")
                .conflicts_with_all(["streams", "rate-per-stream"]),
            "model" => arg.short('m').requires("against"),
            _ => arg,
        }
    };
    let switch = |&(name, help): &(&'static str, &'static str)| {
        let arg = Arg::new(name).long(name).help(help);
        let arg = arg.action(ArgAction::SetTrue);
        match name {
            "tls-insecure" => arg.requires("against"),
            _ => arg,
        }
    };
    Command::new("self-bench")
        .about("What this machine can drive: the client against the bundled mock, step by step")
        .after_help(AFTER_HELP)
        .args(FLAGS.iter().map(value))
        .args(SWITCHES.iter().map(switch))
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Exit {
    let options = match options(matches) {
        Ok(options) => options,
        Err(text) => {
            tell(&format!("error: {text}"));
            return Exit::Usage;
        }
    };
    match std::env::current_exe() {
        Ok(program) => analyze::self_bench(&options, &program),
        Err(error) => {
            tell(&format!(
                "error: this program is not found, to start the mock: {error}"
            ));
            Exit::Unexpected
        }
    }
}

/// A short self-bench of the sort of load that a run will have.
pub fn calibrate(config: &Config) -> Exit {
    let is_stream = config.streaming && config.osl.is_none_or(|osl| osl.mean > 1.0);
    let options = Options {
        mode: match is_stream {
            true => Mode::Streams {
                rate_per_stream: RATE_PER_STREAM,
            },
            false => Mode::Requests,
        },
        tls: config.urls.iter().any(|url| url.tls),
        ..quick()
    };
    match std::env::current_exe() {
        Ok(program) => analyze::calibrate(&options, &program),
        Err(_) => Exit::Ok,
    }
}

fn quick() -> Options {
    Options {
        mode: Mode::Requests,
        loads: Vec::new(),
        step: Ns::from_ms(1_000),
        quick: true,
        chunk_bytes: 0,
        tls: false,
        cores: Cores::Count(1),
        against: None,
        model: None,
        tls_insecure: false,
        json: None,
    }
}

fn options(matches: &ArgMatches) -> Result<Options, String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let rate_per_stream = number(text("rate-per-stream"), "rate-per-stream", 0.1..=10_000.0)?;
    let list = |name, most| {
        let given = text(name).filter(|list| !list.is_empty());
        given.map_or(Ok(Vec::new()), |given| loads(name, given, most))
    };
    let (mode, loads) = match text("request-rate") {
        Some(_) => (Mode::Requests, list("request-rate", RATE_MAX)?),
        None => {
            let rate_per_stream = rate_per_stream.unwrap_or(RATE_PER_STREAM);
            let mode = Mode::Streams { rate_per_stream };
            (mode, list("streams", limits::CONCURRENCY_MAX)?)
        }
    };
    let against = text("against").map(parse_url).transpose();
    let against = against.map_err(|error| format!("--against: {error}"))?;
    let chunk_bytes = number(text("chunk-bytes"), "chunk-bytes", 0.0..=1_048_576.0)?;
    let tls = matches.get_flag("tls");
    if against.is_some() && tls {
        return Err("--tls: --against has its own scheme; give https://HOST:PORT".into());
    }
    if against.is_some() && chunk_bytes.is_some() {
        return Err("--chunk-bytes: give it to the mock that --against names".into());
    }
    let is_quick = matches.get_flag("quick");
    let step_s = number(text("seconds"), "seconds", 0.2..=60.0)?;
    Ok(Options {
        mode,
        loads,
        step: Ns::from_secs_f64(step_s.unwrap_or(if is_quick { 1.0 } else { 3.0 })),
        quick: is_quick,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "in range"
        )]
        chunk_bytes: chunk_bytes.unwrap_or(0.0) as u64,
        tls,
        cores: cores(text("cores"))?,
        against,
        model: text("model").map(String::from),
        tls_insecure: matches.get_flag("tls-insecure"),
        json: text("json").map(PathBuf::from),
    })
}

fn number(
    text: Option<&str>,
    name: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Result<Option<f64>, String> {
    let Some(text) = text else { return Ok(None) };
    match text.parse() {
        Ok(value) if range.contains(&value) => Ok(Some(value)),
        _ => {
            let (least, most) = range.into_inner();
            Err(format!(
                "--{name}: `{text}`; give a number from {least} to {most}"
            ))
        }
    }
}

/// The loads of a list, in its order.
fn loads(name: &str, list: &str, most: u32) -> Result<Vec<u32>, String> {
    let parse = |part: &str| match part.trim().parse() {
        Ok(load) if (1..=most).contains(&load) => Ok(load),
        _ => Err(format!(
            "--{name}: `{part}`; give whole numbers from 1 to {most}, as in 1,100,1000"
        )),
    };
    let loads: Vec<u32> = list.split(',').map(parse).collect::<Result<_, String>>()?;
    match loads.len() <= LOADS_MAX {
        true => Ok(loads),
        false => Err(format!(
            "--{name}: {} loads; give {LOADS_MAX} at most",
            loads.len()
        )),
    }
}

/// By the rules of `profile`; auto would differ from step to step.
fn cores(text: Option<&str>) -> Result<Cores, String> {
    let draft = Draft {
        cores: Some(text.unwrap_or("1").into()),
        demo: Some(true),
        ..Draft::default()
    };
    let checked = draft.check("").map_err(|error| error.to_string())?;
    match checked.config.cores {
        Cores::Auto => Err("--cores: auto goes by the load; give how many, or a list 2,4-7".into()),
        cores => Ok(cores),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(flags: &[&str]) -> Result<Options, String> {
        let args = ["self-bench"].iter().chain(flags);
        options(&command().get_matches_from(args))
    }

    #[test]
    fn loads_are_streams_or_requests_and_without_a_list_searched_for() {
        let streams = |rate_per_stream| Mode::Streams { rate_per_stream };
        for (flags, mode, loads) in [
            (&[][..], streams(40.0), vec![]),
            (
                &["--streams", "1,20", "--rate-per-stream", "5"],
                streams(5.0),
                vec![1, 20],
            ),
            (&["--request-rate"], Mode::Requests, vec![]),
            (
                &["--request-rate", "300", "--quick"],
                Mode::Requests,
                vec![300],
            ),
        ] {
            let found = typed(flags).unwrap();
            assert_eq!((found.mode, found.loads), (mode, loads), "{flags:?}");
        }
    }

    #[test]
    fn what_cannot_be_names_its_flag() {
        for (flags, told) in [
            (&["--streams", "1,x"][..], "--streams: `x`"),
            (&["--streams", "0"], "--streams: `0`"),
            (&["--request-rate", "1,,2"], "--request-rate: ``"),
            (&["--rate-per-stream", "0"], "--rate-per-stream: `0`"),
            (&["--seconds", "-1"], "--seconds: `-1`"),
            (&["--chunk-bytes", "x"], "--chunk-bytes: `x`"),
            (&["--cores", "auto"], "--cores: auto"),
            (&["--cores", "x"], "--cores: `x`"),
            (&["--against", "ftp://h"], "--against: "),
            (&["--against", "h", "--tls"], "--tls: "),
            (&["--against", "h", "--chunk-bytes", "9"], "--chunk-bytes: "),
        ] {
            let error = typed(flags).unwrap_err();
            assert!(error.starts_with(told), "{flags:?}: {error}");
        }
    }
}
