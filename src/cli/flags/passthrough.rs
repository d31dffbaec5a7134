//! A command line as the peers' programs read it, put into words of ours: switches with a value,
//! and what stands after ` -- `, which is for GenAI-Perf's perf_analyzer.

use super::{Kind, flags, opposite, peers};
use std::ffi::OsString;

/// What becomes of a flag of perf_analyzer.
#[derive(Clone, Copy)]
enum Becomes {
    /// This flag with the same value, or without one.
    Flag(&'static str),
    /// This flag, when the range has one value.
    Range(&'static str),
    /// `--tls-insecure` with 0, nothing with 1.
    Verify,
    /// Nothing, for this reason.
    Ignored(&'static str),
    /// It is refused: what to do instead.
    Refused(&'static str),
}

use Becomes::{Flag, Ignored, Range, Refused, Verify};

/// Names, does it take a value, and what becomes of it.
type Row = (&'static [&'static str], bool, Becomes);

const LIBRARY: &str = "servers are asked over HTTP only: leave it out and give --url";
const GRPC: &str = "gRPC is not spoken: --backend asks Triton over HTTP";
const INPUTS: &str = "--input-file reads a file of prompts";
const SEQUENCES: &str = "--num-sessions and --session-turns-mean make sessions";
const SHARED: &str = "bodies go over the socket: leave it out";
const TRACING: &str = "ask the server itself for its trace; --server-profiler starts its profiler";

#[rustfmt::skip]
const PERF_ANALYZER: &[Row] = &[
    (&["--async", "-a"], false, Ignored("every request is asynchronous")),
    (&["--bls-composing-models"], true, Refused("--server-metrics reads what the server says")),
    (&["--binary-search"], false, Refused("analyze --search finds the load")),
    (&["--collect-metrics"], false, Ignored("servers' metrics are read in any case")),
    (&["--concurrency-range"], true, Range("--concurrency")),
    (&["--endpoint"], true, Flag("--endpoint")),
    (&["--fixed-schedule"], false, Flag("--fixed-schedule")),
    (&["--grpc-compression-algorithm"], true, Refused(GRPC)),
    (&["--grpc-method"], true, Refused(GRPC)),
    (&["--header", "-H"], true, Flag("--header")),
    (&["--input-data"], true, Refused(INPUTS)),
    (&["--input-tensor-format"], true, Refused(LIBRARY)),
    (&["--latency-report-file", "-f"], true, Refused("profile_export_aiperf.csv has the figures")),
    (&["--latency-threshold", "-l"], true, Refused("--assert 'p99(request_latency)<500ms'")),
    (&["--log-frequency"], true, Refused(TRACING)),
    (&["--max-threads"], true, Ignored("a core carries many streams; --cores says how many")),
    (&["--max-trials", "-r"], true, Ignored("there are ten windows at the most")),
    (&["--measurement-interval", "-p"], true, Flag("--measurement-interval")),
    (&["--measurement-mode"], true, Ignored("--measurement-interval and --request-count say it")),
    (&["--measurement-request-count"], true, Flag("--request-count")),
    (&["--metrics-interval"], true, Ignored("pages of metrics have their own interval")),
    (&["--metrics-url"], true, Flag("--server-metrics")),
    (&["--model-name", "-m"], true, Flag("--model")),
    (&["--model-repository"], true, Refused(LIBRARY)),
    (&["--model-signature-name"], true, Refused(LIBRARY)),
    (&["--model-version", "-x"], true, Refused("--endpoint names the path, a version in it too")),
    (&["--enable-mpi"], false, Refused("run `profile` on each machine")),
    (&["--num-of-sequences"], true, Refused(SEQUENCES)),
    (&["--output-shared-memory-size"], true, Refused(SHARED)),
    (&["--output-tensor-format"], true, Refused(LIBRARY)),
    (&["--percentile"], true, Ignored("every percentile is reported")),
    (&["--periodic-concurrency-range"], true, Refused("analyze --sweep-type concurrency")),
    (&["--profile-export-file"], true, Flag("--profile-export-file")),
    (&["--protocol", "-i"], true, Refused(GRPC)),
    (&["--random-seed"], true, Flag("--random-seed")),
    (&["--request-count"], true, Flag("--request-count")),
    (&["--request-distribution", "--request-rate-distribution"], true, Flag("--arrival-pattern")),
    (&["--request-intervals"], true, Refused("--input-file with timestamps says when")),
    (&["--request-period"], true, Refused("analyze --sweep-type concurrency")),
    (&["--request-rate-range"], true, Range("--request-rate")),
    (&["--sequence-id-range"], true, Refused(SEQUENCES)),
    (&["--sequence-length"], true, Refused(SEQUENCES)),
    (&["--sequence-length-variation"], true, Refused(SEQUENCES)),
    (&["--serial-sequences"], false, Ignored("turns of a session wait for each other")),
    (&["--service-kind"], true, Flag("--service-kind")),
    (&["--session-concurrency"], true, Flag("--concurrency")),
    (&["--shape"], true, Refused(INPUTS)),
    (&["--shared-memory"], true, Refused(SHARED)),
    (&["--ssl-grpc-certificate-chain-file"], true, Refused(GRPC)),
    (&["--ssl-grpc-private-key-file"], true, Refused(GRPC)),
    (&["--ssl-grpc-root-certifications-file"], true, Refused(GRPC)),
    (&["--ssl-grpc-use-ssl"], false, Refused(GRPC)),
    (&["--ssl-https-ca-certificates-file"], true, Flag("--tls-ca")),
    (&["--ssl-https-client-certificate-file"], true, Refused("no certificate of a client is sent")),
    (&["--ssl-https-client-certificate-type"], true, Refused("no certificate of a client is sent")),
    (&["--ssl-https-private-key-file"], true, Refused("no certificate of a client is sent")),
    (&["--ssl-https-private-key-type"], true, Refused("no certificate of a client is sent")),
    (&["--ssl-https-verify-host"], true, Verify),
    (&["--ssl-https-verify-peer"], true, Verify),
    (&["--stability-percentage", "-s"], true, Flag("--stability-percentage")),
    (&["--streaming"], false, Flag("--streaming")),
    (&["--string-data"], true, Refused(INPUTS)),
    (&["--string-length"], true, Refused(INPUTS)),
    (&["--sync"], false, Ignored("every request is asynchronous")),
    (&["--trace-count"], true, Refused(TRACING)),
    (&["--trace-level"], true, Refused(TRACING)),
    (&["--trace-rate"], true, Refused(TRACING)),
    (&["--tritonserver-directory"], true, Refused(LIBRARY)),
    (&["--url", "-u"], true, Flag("--url")),
    (&["--verbose", "-v"], false, Flag("--verbose")),
    (&["--verbose-csv"], false, Ignored("profile_export_aiperf.csv has every figure")),
    (&["--warmup-request-count"], true, Flag("--warmup-request-count")),
    (&["--zero-input", "-z"], false, Refused(INPUTS)),
    (&["-b"], true, Flag("--batch-size")),
];

/// Flags of perf_analyzer for the docs: names, and what becomes of them.
pub(super) fn rows() -> impl Iterator<Item = (String, String)> {
    PERF_ANALYZER.iter().map(|(names, _, becomes)| {
        let text = match becomes {
            Flag(flag) => format!("`{flag}`"),
            Range(flag) => format!("`{flag}`, when the range has one value; else `analyze`"),
            Verify => "with 0 `--tls-insecure`".into(),
            Ignored(reason) => format!("taken, and changes nothing: {reason}"),
            Refused(other) => format!("refused: {other}"),
        };
        (format!("`{}`", names.join("`, `")), text)
    })
}

/// The command line of `profile` or `analyze` in words of ours, and notes on what was put into
/// them. Errors name the word that has no counterpart, and what to do instead.
pub(in crate::cli) fn translated(
    args: &[OsString],
) -> Result<(Vec<OsString>, Vec<String>), String> {
    let is_run = |name: &OsString| name == "profile" || name == "analyze";
    if !args.get(1).is_some_and(is_run) {
        return Ok((args.to_vec(), Vec::new()));
    }
    let end = args.iter().position(|arg| arg == "--");
    let (own, rest) = args.split_at(end.unwrap_or(args.len()));
    let mut out = Vec::new();
    let mut words = own.iter().peekable();
    while let Some(word) = words.next() {
        // GenAI-Perf's has a value.
        let value = words.peek().and_then(|next| next.to_str());
        match (word.to_str(), value) {
            (Some("--fixed-schedule"), Some(value @ ("true" | "True" | "false" | "False"))) => {
                let name = if value.eq_ignore_ascii_case("true") {
                    ""
                } else {
                    "no-"
                };
                out.push(format!("--{name}fixed-schedule").into());
                words.next();
            }
            (Some(text), _) => out.push(switch(text).map_or_else(|| word.clone(), Into::into)),
            (None, _) => out.push(word.clone()),
        }
    }
    let mut notes = Vec::new();
    let texts = rest.iter().skip(1).map(|word| word.to_string_lossy());
    let mut texts = texts.map(String::from);
    while let Some(word) = texts.next() {
        let became = counterpart(&word, &mut texts)?;
        match became {
            Ok(words) => {
                let name = word.split('=').next().unwrap_or_default();
                notes.push(format!("-- {name}: taken as {}", words[0]));
                out.extend(words.into_iter().map(OsString::from));
            }
            Err(note) => notes.push(note),
        }
    }
    Ok((out, notes))
}

/// `--streaming=true` and its like, which AIPerf takes, as a switch.
fn switch(word: &str) -> Option<String> {
    let (name, value) = word.strip_prefix("--")?.split_once('=')?;
    let is_switch = flags().any(|flag| flag.kind == Kind::Switch && flag.names.contains(&name))
        || peers::PEERS
            .iter()
            .any(|peer| peer.name == name && peer.takes == peers::Takes::Switch);
    match value.to_ascii_lowercase().as_str() {
        "true" if is_switch => Some(format!("--{name}")),
        "false" if is_switch => Some(format!("--{}", opposite(name))),
        _ => None,
    }
}

/// Words of ours for a flag of perf_analyzer, or a note that there are none to give.
fn counterpart(
    word: &str,
    rest: &mut impl Iterator<Item = String>,
) -> Result<Result<Vec<String>, String>, String> {
    let (name, own) = match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value.to_string())),
        _ => (word, None),
    };
    let Some(&(_, has_value, becomes)) = PERF_ANALYZER
        .iter()
        .find(|(names, ..)| names.contains(&name))
    else {
        return Err(format!(
            "-- {name}: it is no flag of perf_analyzer that is known; put flags before the --"
        ));
    };
    let value = match has_value {
        false => None,
        true => Some(
            own.or_else(|| rest.next())
                .ok_or_else(|| format!("-- {name}: no value"))?,
        ),
    };
    let given = value.as_deref().unwrap_or_default();
    let same = |flag: &str| {
        Ok(std::iter::once(flag.to_string())
            .chain(value.clone())
            .collect())
    };
    let ignored = |reason: &str| Ok(Err(format!("-- {name} changes nothing: {reason}")));
    match becomes {
        Flag(flag) => Ok(same(flag)),
        Range(flag) => match given.split(':').collect::<Vec<_>>()[..] {
            [one] => Ok(Ok(vec![flag.into(), one.into()])),
            [from, to, ..] if from == to => Ok(Ok(vec![flag.into(), from.into()])),
            _ => Err(format!(
                "-- {name}: it makes several runs: analyze --sweep-type {} --sweep-range A:B:STEP",
                flag.trim_start_matches('-').replace('-', "_")
            )),
        },
        Verify if given == "0" => Ok(Ok(vec!["--tls-insecure".into()])),
        Verify => ignored("certificates are verified"),
        Ignored(reason) => ignored(reason),
        Refused(_) if given == "http" || given == "none" => ignored("it is so here"),
        Refused(other) => Err(format!("-- {name}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(String, Vec<String>), String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let (out, notes) = translated(&args)?;
        let texts: Vec<_> = out.iter().map(|word| word.to_string_lossy()).collect();
        Ok((texts.join(" "), notes))
    }

    #[test]
    fn switches_with_a_value_are_switches() {
        for (theirs, ours) in [
            ("t profile --streaming=true", "t profile --streaming"),
            ("t profile --streaming=False", "t profile --no-streaming"),
            (
                "t profile --fixed-schedule true --isl 5",
                "t profile --fixed-schedule --isl 5",
            ),
            (
                "t profile --fixed-schedule false",
                "t profile --no-fixed-schedule",
            ),
            (
                "t profile --fixed-schedule --isl 5",
                "t profile --fixed-schedule --isl 5",
            ),
            ("t profile --model=true", "t profile --model=true"),
            ("t mock --x=true -- --y", "t mock --x=true -- --y"),
        ] {
            assert_eq!(of(theirs), Ok((ours.into(), Vec::new())), "{theirs}");
        }
    }

    #[test]
    fn perf_analyzer_s_flags_become_ours_or_are_named() {
        let (line, notes) = of(
            "t profile --request-rate 5 -- --request-distribution poisson -v \
            --max-threads=64 -p 2000 --concurrency-range 4:4 -H A:b --ssl-https-verify-peer 0 -i \
            http",
        )
        .unwrap();
        assert_eq!(
            line,
            "t profile --request-rate 5 --arrival-pattern poisson --verbose \
             --measurement-interval 2000 --concurrency 4 --header A:b --tls-insecure"
        );
        assert_eq!(notes.len(), 8, "{notes:?}");
        assert!(
            notes[2].contains("--max-threads changes nothing"),
            "{notes:?}"
        );
        for (line, told) in [
            (
                "t profile -- --concurrency-range 1:8:2",
                "--sweep-type concurrency",
            ),
            ("t profile -- --binary-search", "analyze --search"),
            ("t profile -- -i grpc", "gRPC is not spoken"),
            ("t profile -- --request-count", "no value"),
            ("t profile -- --unheard-of", "before the --"),
            ("t profile -- stray", "stray"),
        ] {
            let error = of(line).unwrap_err();
            assert!(error.contains(told), "{line}: {error}");
        }
    }

    #[test]
    fn what_a_flag_becomes_is_a_flag() {
        let command = super::super::command();
        for (names, _, becomes) in PERF_ANALYZER {
            if let Flag(flag) | Range(flag) = becomes {
                let long = flag.trim_start_matches('-');
                let has = command.get_arguments().any(|arg| {
                    arg.get_long_and_visible_aliases()
                        .unwrap_or_default()
                        .contains(&long)
                });
                assert!(has, "{names:?} {flag}");
            }
        }
    }
}
