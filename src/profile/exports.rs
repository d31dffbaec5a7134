//! The files that are made when a run is over: summaries, and the requests that were sent.

use super::files::{GPU_SAMPLES, INPUTS, SERVER_CSV, SERVER_JSON, SERVER_JSONL, file_name};
use super::outcome::{Run, RunResult};
use super::plan_text;
use crate::base::{Ns, limits};
use crate::config::{ArtifactFormat, ExportLevel, MetricsFormat};
use crate::engine::{Request, Requests, Turn};
use crate::report;
use crate::server_metrics::Spool;
use crate::stats::{IntervalLog, Totals};
use sha2::{Digest, Sha256};

/// The histograms as HdrHistogram's log.
pub(super) fn interval_log(totals: &Totals) -> Vec<u8> {
    // Writing to memory does not fail; were it to, an empty log is the honest one.
    let fill = || -> std::io::Result<Vec<u8>> {
        let mut log = IntervalLog::new(totals.start_wall_ns)?;
        let length = totals.end_wall_ns.saturating_sub(totals.start_wall_ns);
        for (tag, histogram) in &totals.histograms {
            log.push(tag, Ns::ZERO, Ns(length), histogram)?;
        }
        Ok(log.into_bytes())
    };
    fill().unwrap_or_default()
}

/// The summaries, the most precious first; gives what could not be written.
pub(super) fn write_files(run: &Run<'_>, result: &RunResult, text: &str) -> Vec<String> {
    let summary = &result.summary;
    let mut json = report::json::aiperf(summary, run.config, run.info);
    report::json::add_client_extras(&mut json, &result.extras);
    let genai_perf = report::genai_perf::json(summary, run.config, run.info);
    let files = [
        (
            "profile_export_aiperf.json",
            ".json",
            report::json::bytes(&json),
        ),
        (
            "profile_export_aiperf.csv",
            ".csv",
            report::csv::aiperf(summary, run.info),
        ),
        ("profile_export_console.txt", "_console.txt", text.into()),
        ("profile_export.hlog", ".hlog", result.histograms.clone()),
        (
            "profile_export_genai_perf.json",
            "_genai_perf.json",
            report::json::bytes(&genai_perf),
        ),
        (
            "profile_export_genai_perf.csv",
            "_genai_perf.csv",
            report::genai_perf::csv(summary),
        ),
    ];
    let slices = (!summary.slices.is_empty()).then(|| {
        [
            (
                "profile_export_aiperf_timeslices.json",
                "_timeslices.json",
                report::timeslices::json(summary, run.config, run.info),
            ),
            (
                "profile_export_aiperf_timeslices.csv",
                "_timeslices.csv",
                report::timeslices::csv(summary, run.info),
            ),
        ]
    });
    let write = |(standard, ending, bytes): (&str, &str, Vec<u8>)| {
        let name = file_name(run.config, standard, ending);
        let written = run.dir?.write(&name, &bytes);
        written.err().map(|error| error.to_string())
    };
    let files = files.into_iter().chain(slices.into_iter().flatten());
    let files = files.chain(server_metrics(run, result));
    files.filter_map(write).collect()
}

/// The GPUs' samples, a line each; no file without one.
pub(super) fn write_gpus(run: &Run<'_>, result: &RunResult) -> Result<(), String> {
    let (told, rows) = (&result.gpus, &result.summary.gpus);
    let wants = run.config.export_level >= ExportLevel::Records;
    let Some(dir) = run.dir.filter(|_| wants && !rows.is_empty()) else {
        return Ok(());
    };
    let (standard, ending) = GPU_SAMPLES;
    let file = dir.file(&file_name(run.config, standard, ending));
    let mut file = file.map_err(|error| error.to_string())?;
    let mut written = Ok(());
    let pcis: Vec<&str> = told
        .devices
        .iter()
        .map(|device| device.pci.as_str())
        .collect();
    report::gpu_jsonl::lines(rows, &told.tracks, &pcis, run.info, |line| {
        if written.is_ok() {
            written = file.write(line);
        }
    });
    let finished = file.finish_lines(written.is_err());
    written.and(finished).map_err(|error| error.to_string())
}

/// What the servers say of themselves, in the forms that are asked for.
fn server_metrics<'a>(run: &Run<'_>, result: &RunResult) -> Vec<(&'a str, &'a str, Vec<u8>)> {
    let summary = &result.summary;
    let asked = run.config.server_metrics.as_ref();
    let asked = asked.filter(|_| summary.server.is_there());
    let has = |format| asked.is_some_and(|asked| asked.formats.contains(&format));
    let mut files = Vec::new();
    if has(MetricsFormat::Json) {
        let json = report::server_metrics::json(summary, run.config, run.info);
        files.push((
            SERVER_JSON,
            "_server_metrics.json",
            report::json::bytes(&json),
        ));
    }
    if has(MetricsFormat::Csv) {
        let csv = report::server_metrics::csv(summary, run.info);
        files.push((SERVER_CSV, "_server_metrics.csv", csv));
    }
    files
}

/// Every scrape of the servers' pages; gives what was lost.
pub(super) fn write_scrapes(run: &Run<'_>, spools: Vec<Spool>) -> Vec<String> {
    let Some(dir) = run.dir.filter(|_| !spools.is_empty()) else {
        return Vec::new();
    };
    let name = file_name(run.config, SERVER_JSONL, "_server_metrics.jsonl");
    let mut lost = Vec::new();
    let mut file = match dir.file(&name) {
        Ok(file) => file,
        Err(error) => return vec![error.to_string()],
    };
    let mut fault = None;
    for spool in spools {
        let missing = spool.left_out();
        if missing > 0 {
            lost.push(format!(
                "{name}: the last {missing} scrapes are more than are kept"
            ));
        }
        spool.replay(|scrape| {
            if fault.is_none() {
                let line = report::server_metrics::jsonl(scrape, run.info);
                fault = file.write(&line).err();
            }
        });
    }
    let is_full = fault.is_some();
    let finished = file.finish_lines(is_full).err();
    lost.extend(fault.or(finished).map(|error| error.to_string()));
    lost
}

/// `inputs.json` in the form that is asked for, up to a cap; then the seed and a hash of the
/// sequence.
pub(super) fn write_inputs(run: &Run<'_>) -> Result<(), String> {
    if run.config.export_level < ExportLevel::Records {
        return Ok(());
    }
    let mut hash = Sha256::new();
    let mut out = br#"{"data":["#.to_vec();
    let hides = plan_text::hides_inputs(run.config);
    let mut written = 0;
    for (index, drawn) in run.pace.all_drawn().enumerate() {
        let bodies = bodies(&run.payloads.get(drawn));
        bodies.iter().for_each(|body| hash.update(body));
        let length: usize = bodies.iter().map(Vec::len).sum();
        if written == limits::INPUTS_SESSIONS_MAX || out.len() + length > limits::INPUTS_BYTES_MAX {
            break;
        }
        if index > 0 {
            out.push(b',');
        }
        let shown = |body: &Vec<u8>| {
            let body = plan_text::shown_body(body, hides);
            run.info.secrets.mask(&body).into_owned()
        };
        let bodies: Vec<String> = bodies.iter().map(shown).collect();
        out.extend_from_slice(session(run.config.artifact_format, index, &bodies).as_bytes());
        written += 1;
    }
    let digest: String = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tail = format!(
        r#"],"random_seed":{},"requests_count":{},"written_count":{written},{}}}"#,
        run.config.seed,
        run.pace.claimed_count(),
        format_args!(r#""sha256":"{digest}""#)
    );
    out.extend_from_slice(tail.as_bytes());
    let written = run.dir.map_or(Ok(()), |dir| dir.write(INPUTS, &out));
    written.map_err(|error| error.to_string())
}

/// A session of `inputs.json`: in AIPerf's form one object, in GenAI-Perf's a row per turn.
fn session(format: ArtifactFormat, index: usize, bodies: &[String]) -> String {
    let id = format!("session_{index:06}");
    match (format, bodies) {
        (ArtifactFormat::Aiperf, bodies) => {
            let bodies = bodies.join(",");
            format!(r#"{{"session_id":"{id}","payloads":[{bodies}]}}"#)
        }
        (ArtifactFormat::GenaiPerf, [body]) => format!(r#"{{"payload":[{body}]}}"#),
        (ArtifactFormat::GenaiPerf, bodies) => {
            let row = |body| format!(r#"{{"payload":[{body}],"session_id":["{id}"]}}"#);
            bodies.iter().map(row).collect::<Vec<_>>().join(",")
        }
    }
}

/// The bodies of a session, without the answers, which nobody knows before.
fn bodies(request: &Request) -> Vec<Vec<u8>> {
    let Some(talk) = &request.talk else {
        return vec![request.body.to_vec()];
    };
    let mut said = Vec::new();
    let body = |turn: &Turn| {
        let body = talk.body(&said, turn);
        said.extend_from_slice(&turn.message);
        said.push(b',');
        body
    };
    talk.turns.iter().map(body).collect()
}
