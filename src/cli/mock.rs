//! `tokenring mock`: flags of the bundled server.

use crate::base::{Exit, Ns};
use crate::mock::{self, Cliff, Jitter, LineEnd, Options, UsageMode};
use crate::view::{show, tell};
use clap::{Arg, ArgAction, ArgMatches, Command};

#[rustfmt::skip]
const FLAGS: &[(&str, &str, &str)] = &[
    ("host", "127.0.0.1", "Address to listen on"),
    ("port", "8000", "Port; 0 takes a free one and prints it"),
    ("threads", "1", "Threads"),
    ("cores", "", "CPUs to pin them to, 0,1"),
    ("model", "any", "Model name; any takes every name"),
    ("ttft-ms", "20", "Time to the first token"),
    ("itl-ms", "10", "Time between tokens"),
    ("itl-per-stream-ms", "0", "Added to it for each request in flight, as batches grow"),
    ("cliff-at", "", "Requests in flight beyond which the first token is late"),
    ("cliff-factor", "10", "How many times --ttft-ms it then takes"),
    ("jitter", "none", "Law of both: none, uniform:R, normal:R, lognormal:R (R of the mean)"),
    ("seed", "0", "Seed of jitter, lengths and faults"),
    ("tokens", "64", "Tokens of an answer when the request does not say"),
    ("tokens-stddev", "0", "Its standard deviation"),
    ("tokens-per-chunk", "1", "Tokens per event"),
    ("chunk-bytes", "0", "Least bytes of an event"),
    ("reasoning-tokens", "0", "Of them, tokens of reasoning first"),
    ("usage", "on", "on, off or details"),
    ("prompt-tokens", "", "Prompt tokens to report [default: by the prompt's length]"),
    ("fragment", "", "Bytes per write"),
    ("line-end", "lf", "lf, crlf or cr"),
    ("keepalive-ms", "", "Comments while the first token is awaited"),
    ("batch", "1", "Events per write when unpaced"),
    ("error-rate", "0", "Share of requests answered by status 500"),
    ("concurrency-limit", "", "Requests served at a time; more queue"),
    ("requests", "", "End after so many requests"),
    ("seconds", "", "End after so many seconds"),
];

/// The subcommand.
pub fn command() -> Command {
    let mut command = Command::new("mock")
        .about("The bundled server: OpenAI chat and completions, Triton generate, timed tokens")
        .arg(
            Arg::new("unpaced")
                .long("unpaced")
                .action(ArgAction::SetTrue)
                .help("Send at once"),
        )
        .arg(
            Arg::new("tls")
                .long("tls")
                .action(ArgAction::SetTrue)
                .help("Speak TLS, with a certificate made at start (clients: --tls-insecure)"),
        )
        .arg(
            Arg::new("ignore-max-tokens")
                .long("ignore-max-tokens")
                .action(ArgAction::SetTrue)
                .help("Answer with --tokens whatever was asked"),
        )
        .arg(
            Arg::new("exit-with-stdin")
                .long("exit-with-stdin")
                .action(ArgAction::SetTrue)
                .help("End when stdin closes"),
        )
        .arg(
            Arg::new("fault")
                .long("fault")
                .action(ArgAction::Append)
                .value_name("KIND:SHARE")
                .help(
                    "status=CODE, reset, stall, error-in-stream, no-done, cut, empty, \
                     wrong-content-type, stale-close",
                ),
        );
    for (name, default, help) in FLAGS {
        let arg = Arg::new(*name).long(*name).value_name("VALUE").help(*help);
        command = command.arg(match *default {
            "" => arg,
            default => arg.default_value(default),
        });
    }
    command
}

/// Runs the subcommand until it is stopped.
pub fn run(matches: &ArgMatches) -> Exit {
    let options = match options(matches) {
        Ok(options) => options,
        Err(text) => {
            tell(&format!("error: {text}"));
            return Exit::Usage;
        }
    };
    let scheme = if options.tls { "https" } else { "http" };
    let served = mock::run(options, |addr| {
        // Whoever waits for the address must get it now; the server serves all the same.
        let _ = show(format!("listening on {scheme}://{addr}\n").as_bytes());
    });
    match served {
        Ok(()) => Exit::Ok,
        Err(error) => {
            tell(&format!("error: {error}"));
            Exit::Unexpected
        }
    }
}

/// A flag's value, parsed; absent when not given.
fn get<T: std::str::FromStr>(matches: &ArgMatches, name: &str) -> Result<Option<T>, String> {
    match matches.get_one::<String>(name) {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("--{name}: `{text}` is not a value it can have")),
        },
    }
}

fn need<T: std::str::FromStr + Default>(matches: &ArgMatches, name: &str) -> Result<T, String> {
    get(matches, name).map(Option::unwrap_or_default)
}

fn ms(matches: &ArgMatches, name: &str) -> Result<Ns, String> {
    let value: f64 = need(matches, name)?;
    match (0.0..=3_600_000.0).contains(&value) {
        true => Ok(Ns::from_secs_f64(value / 1e3)),
        false => Err(format!("--{name}: {value} is out of range; 0 to 3600000")),
    }
}

fn options(matches: &ArgMatches) -> Result<Options, String> {
    let jitter = jitter(&need::<String>(matches, "jitter")?)?;
    let mut options = Options {
        host: need(matches, "host")?,
        port: need(matches, "port")?,
        threads: need(matches, "threads")?,
        cores: cores(matches)?,
        tls: matches.get_flag("tls"),
        model: need(matches, "model")?,
        ttft: ms(matches, "ttft-ms")?,
        itl: ms(matches, "itl-ms")?,
        itl_per_stream: ms(matches, "itl-per-stream-ms")?,
        cliff: cliff(matches)?,
        ttft_jitter: jitter,
        itl_jitter: jitter,
        seed: need(matches, "seed")?,
        tokens: need(matches, "tokens")?,
        tokens_stddev: need(matches, "tokens-stddev")?,
        honors_max_tokens: !matches.get_flag("ignore-max-tokens"),
        tokens_per_chunk: need(matches, "tokens-per-chunk")?,
        chunk_bytes: need(matches, "chunk-bytes")?,
        reasoning: need(matches, "reasoning-tokens")?,
        usage: match need::<String>(matches, "usage")?.as_str() {
            "on" => UsageMode::On,
            "off" => UsageMode::Off,
            "details" => UsageMode::Details,
            other => return Err(format!("--usage: `{other}`; give on, off or details")),
        },
        prompt_tokens: get(matches, "prompt-tokens")?,
        fragment: get(matches, "fragment")?,
        line_end: match need::<String>(matches, "line-end")?.as_str() {
            "lf" => LineEnd::Lf,
            "crlf" => LineEnd::CrLf,
            "cr" => LineEnd::Cr,
            other => return Err(format!("--line-end: `{other}`; give lf, crlf or cr")),
        },
        keepalive: get::<u64>(matches, "keepalive-ms")?.map(Ns::from_ms),
        unpaced: matches.get_flag("unpaced"),
        batch: need(matches, "batch")?,
        concurrency_limit: get(matches, "concurrency-limit")?,
        requests_limit: get(matches, "requests")?,
        seconds_limit: get(matches, "seconds")?,
        exits_with_stdin: matches.get_flag("exit-with-stdin"),
        ..Options::default()
    };
    options.faults.error_rate = need(matches, "error-rate")?;
    for text in matches.get_many::<String>("fault").into_iter().flatten() {
        add_fault(&mut options, text)?;
    }
    Ok(options)
}

fn cliff(matches: &ArgMatches) -> Result<Option<Cliff>, String> {
    let factor: f64 = need(matches, "cliff-factor")?;
    if !(0.0..=1_000.0).contains(&factor) {
        return Err(format!(
            "--cliff-factor: {factor} is out of range; 0 to 1000"
        ));
    }
    Ok(get(matches, "cliff-at")?.map(|at| Cliff { at, factor }))
}

fn cores(matches: &ArgMatches) -> Result<Option<Vec<usize>>, String> {
    let Some(text) = matches.get_one::<String>("cores") else {
        return Ok(None);
    };
    let parse = |part: &str| part.trim().parse();
    let list: Result<Vec<usize>, _> = text.split(',').map(parse).collect();
    list.map(Some)
        .map_err(|_| format!("--cores: `{text}`; give CPU numbers 0,1"))
}

fn jitter(text: &str) -> Result<Jitter, String> {
    let bad = || format!("--jitter: `{text}`; give none, uniform:R, normal:R or lognormal:R");
    if text == "none" {
        return Ok(Jitter::None);
    }
    let (law, ratio) = text.split_once(':').ok_or_else(bad)?;
    let ratio: f64 = ratio.parse().map_err(|_| bad())?;
    match law {
        _ if !(0.0..=10.0).contains(&ratio) => Err(bad()),
        "uniform" => Ok(Jitter::Uniform(ratio)),
        "normal" => Ok(Jitter::Normal(ratio)),
        "lognormal" => Ok(Jitter::LogNormal(ratio)),
        _ => Err(bad()),
    }
}

fn add_fault(options: &mut Options, text: &str) -> Result<(), String> {
    let bad = || format!("--fault: `{text}`; give KIND:SHARE, share 0 to 1 (see --help)");
    let (kind, share) = text.rsplit_once(':').ok_or_else(bad)?;
    let share: f64 = share.parse().map_err(|_| bad())?;
    if !(0.0..=1.0).contains(&share) {
        return Err(bad());
    }
    let faults = &mut options.faults;
    match kind.split_once('=') {
        Some(("status", code)) => {
            faults.status = share;
            faults.status_code = code.parse().map_err(|_| bad())?;
        }
        Some(_) => return Err(bad()),
        None => match kind {
            "reset" => faults.reset = share,
            "stall" => faults.stall = share,
            "error-in-stream" => faults.error_in_stream = share,
            "no-done" => faults.no_done = share,
            "cut" => faults.cut = share,
            "empty" => faults.empty = share,
            "wrong-content-type" => faults.wrong_content_type = share,
            "stale-close" => faults.stale_close = share,
            _ => return Err(bad()),
        },
    }
    Ok(())
}
