//! A trace file as sessions to replay, and the times of their first turns.

use crate::base::Ns;
use crate::config::{Api, Config, Lengths, SessionSpec, TraceSpec};
use crate::schedule::{TraceTimes, trace_times};
use crate::workload::{TraceEntry, TraceInput, read_bodies, read_trace};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The largest trace file that is read.
const BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// What a trace has to say.
pub struct Replay {
    /// In the order of their first turns, at least one.
    pub sessions: Vec<Vec<ReplayTurn>>,
    /// When the first turn of each is due, from the start; absent where another load says when.
    pub times: Option<Arc<[Ns]>>,
}

/// One request of it.
pub struct ReplayTurn {
    /// Number of its entry in the file, from 0.
    pub entry: u64,
    /// What it asks.
    pub input: TraceInput,
    /// Equal ids stand for equal blocks of the prompt.
    pub hash_ids: Vec<u64>,
    /// `max_tokens`, when asked.
    pub output_tokens: Option<u32>,
    /// When it is due at the earliest, from the start.
    pub at: Option<Ns>,
    /// Rest after the answer before.
    pub delay: Ns,
}

impl Replay {
    /// Reads the trace of a run, if it has one, and sets the run's load and end by it. Gives what a
    /// reader must know beside it. Errors name file, line and flag.
    pub fn load(config: &mut Config) -> Result<Option<(Replay, Vec<String>)>, String> {
        let Some(spec) = config.trace.clone() else {
            return Ok(None);
        };
        let entries = read(&spec.path, config.api == Api::Raw)?;
        let has_times = entries.iter().any(|entry| entry.at.is_some());
        let shown = spec.path.display();
        if spec.scheduled == Some(true) && !has_times {
            return Err(format!(
                "--fixed-schedule: {shown} has no timestamp; leave it out, and give a load"
            ));
        }
        let mut notes = Vec::new();
        let scheduled = spec.scheduled.unwrap_or(has_times);
        if has_times && !scheduled {
            notes.push(format!(
                "the times of {shown} are left alone: another load says when"
            ));
        }
        if config.osl.is_some() && entries.iter().any(|entry| entry.output_tokens.is_some()) {
            notes.push("--osl is for lines without an output_length".into());
        }
        let due = match scheduled {
            true => Some(due_times(&spec, &entries, config.seed, &mut notes)?),
            false => None,
        };
        let (sessions, times) = sessions(entries, due.as_deref(), spec.speedup);
        let replay = Replay {
            sessions,
            times: times.map(Into::into),
        };
        replay.set_load(config, spec.capped)?;
        Ok(Some((replay, notes)))
    }

    /// True when some session has several turns.
    pub fn has_turns(&self) -> bool {
        self.sessions.iter().any(|turns| turns.len() > 1)
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean for the eye")]
    fn set_load(&self, config: &mut Config, capped: bool) -> Result<(), String> {
        if self.has_turns() {
            if config.api != Api::Chat {
                return Err("--input-file: turns of a session_id need --endpoint-type chat".into());
            }
            let turns: usize = self.sessions.iter().map(Vec::len).sum();
            let fixed = Lengths::fixed;
            config.session = Some(SessionSpec {
                turns: fixed(turns as f64 / self.sessions.len() as f64),
                think_ms: fixed(0.0),
                think_ratio: 1.0,
            });
        }
        let is_default = std::mem::take(&mut config.request_count_defaulted);
        let has_times = self.times.is_some();
        let main = config.main_mut();
        let all = self.sessions.len() as u64;
        if is_default {
            main.requests = None;
        }
        // Times are there once; else the sessions are taken again and again, as long as asked.
        if is_default || has_times {
            main.sessions = Some(main.sessions.map_or(all, |asked| asked.min(all)));
        }
        main.load.scheduled = has_times;
        if has_times && !capped {
            main.load.concurrency = None;
        }
        Ok(())
    }
}

fn read(path: &Path, has_bodies: bool) -> Result<Vec<TraceEntry>, String> {
    let shown = path.display();
    let told = |error: std::io::Error| format!("--input-file {shown}: {error}");
    let data = std::fs::metadata(path).map_err(told)?;
    if !data.is_file() || data.len() > BYTES_MAX {
        return Err(format!(
            "--input-file {shown}: give a plain file of at most 16 GiB"
        ));
    }
    let bytes = std::fs::read(path).map_err(told)?;
    let shown = shown.to_string();
    let entries = match has_bodies {
        true => read_bodies(&shown, &bytes),
        false => read_trace(&shown, &bytes),
    };
    entries.map_err(|error| format!("--input-file {error}"))
}

/// The offset of each entry that is sent at a time of its own; absent for one that is left out.
fn due_times(
    spec: &TraceSpec,
    entries: &[TraceEntry],
    seed: u64,
    notes: &mut Vec<String>,
) -> Result<Vec<Option<Ns>>, String> {
    let stamps: Vec<Option<Ns>> = entries.iter().map(|entry| entry.at).collect();
    let options = TraceTimes {
        auto_offset: spec.auto_offset,
        start: spec.start,
        end: spec.end,
        speedup: spec.speedup,
        jitter: spec.jitter.then_some(seed),
    };
    let made = trace_times(&stamps, options)
        .map_err(|error| format!("--input-file {}: {error}", spec.path.display()))?;
    notes.extend(made.warning);
    let mut due = vec![None; entries.len()];
    for (entry, at) in made.due {
        due[entry] = Some(at);
    }
    Ok(due)
}

/// Entries as sessions. With `due` times those that have none begin no session.
fn sessions(
    entries: Vec<TraceEntry>,
    due: Option<&[Option<Ns>]>,
    speedup: f64,
) -> (Vec<Vec<ReplayTurn>>, Option<Vec<Ns>>) {
    let mut sessions: Vec<Vec<ReplayTurn>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (number, entry) in entries.into_iter().enumerate() {
        let at = due.and_then(|due| due[number]);
        let before = entry
            .session
            .as_ref()
            .and_then(|name| known.get(name).copied());
        // A stamp outside of what is replayed, or a turn whose session is.
        if due.is_some() && at.is_none() && (entry.at.is_some() || before.is_none()) {
            continue;
        }
        let delay = entry.delay.unwrap_or_default();
        let turn = ReplayTurn {
            entry: number as u64,
            input: entry.input,
            hash_ids: entry.hash_ids,
            output_tokens: entry.output_tokens,
            at,
            delay: Ns::from_secs_f64(delay.as_secs() / speedup),
        };
        match before {
            Some(session) => sessions[session].push(turn),
            None => {
                if let Some(name) = entry.session {
                    known.insert(name, sessions.len());
                }
                sessions.push(vec![turn]);
            }
        }
    }
    if due.is_none() {
        return (sessions, None);
    }
    // Those of one time in the order of the file.
    sessions.sort_by_key(|turns| turns[0].at);
    let times = sessions.iter().map(|turns| turns[0].at.unwrap_or_default());
    let times = times.collect();
    (sessions, Some(times))
}
