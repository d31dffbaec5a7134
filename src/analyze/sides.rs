//! The runs of a comparison: what their folders hold, and what makes two of them hard to compare.

use crate::archive::{RunFolder, Workload};
use crate::stats::comparison::{Side, Source};
use crate::stats::many::means;
use crate::stats::summary::Verdict;
use crate::stats::{Columns, Figures};
use serde_json::{Map, Value};
use std::path::Path;

/// Requests of one number that may have other lengths in two runs of the same prompts: a tokenizer
/// of the server's may count some of them otherwise.
const OTHER_LENGTHS_MAX: f64 = 0.01;

/// A run, ready to be compared.
#[derive(Clone, Debug)]
pub struct Run {
    /// As the report names it.
    pub side: Side,
    /// Its statistics.
    pub figures: Figures,
    /// Its requests, where they are there.
    pub columns: Option<Columns>,
    /// What was asked of the server.
    pub workload: Workload,
    /// Who made it, and versions.
    pub made_by: [(&'static str, String); 3],
    /// What spoke against the client.
    pub reasons: Vec<String>,
    /// What its files lack, a sentence each.
    pub notes: Vec<String>,
}

impl Run {
    /// Reads a run folder. Errors: it is none, or a file of it cannot be read.
    pub fn open(path: &Path) -> Result<Run, String> {
        let folder = RunFolder::open(path).map_err(|error| error.to_string())?;
        let found = folder.columns().map_err(|error| error.to_string())?;
        let mut notes = Vec::new();
        let (columns, source) = match found {
            Some(found) => {
                notes.extend(found.notes);
                let is_lines = found
                    .source
                    .extension()
                    .is_some_and(|ending| ending == "jsonl");
                let source = if is_lines {
                    Source::Lines
                } else {
                    Source::Shard
                };
                (Some(found.columns), source)
            }
            None => {
                notes.push("its requests are not there: only figures, no intervals".into());
                (None, Source::None)
            }
        };
        let count = folder.figures.get("request_count", "avg");
        let made_by = [
            ("program", format!("{:?}", folder.maker).to_lowercase()),
            ("version", folder.version),
            ("definitions", folder.schema_version),
        ];
        Ok(Run {
            side: Side {
                path: path.display().to_string(),
                verdict: folder.verdict.map(|verdict| verdict.name().into()),
                requests: count.and_then(|count| format!("{count:.0}").parse().ok()),
                source,
            },
            figures: folder.figures,
            columns,
            workload: folder.workload,
            made_by,
            reasons: folder.reasons,
            notes,
        })
    }

    /// Several runs of one side as one: its requests one run after the other, its figures their
    /// means, the worst of its verdicts. `None` without a run.
    pub fn pooled(name: &str, runs: Vec<Run>) -> Option<Run> {
        let figures: Vec<&Figures> = runs.iter().map(|run| &run.figures).collect();
        let figures = means(&figures);
        let verdicts = || runs.iter().map(|run| run.side.verdict.clone());
        let is = |name: &str| verdicts().any(|verdict| verdict.as_deref() == Some(name));
        let worst = ["INVALID", "DEGRADED"].into_iter().find(|name| is(name));
        let requests = runs.iter().map(|run| run.side.requests).sum();
        let count = runs.len();
        let mut all = runs.into_iter().enumerate();
        let (_, mut pool) = all.next()?;
        let verdict = worst.map(String::from).or(pool.side.verdict.take());
        for (round, run) in all {
            pool.columns = match (pool.columns.take(), run.columns) {
                (Some(columns), Some(more)) => Some(columns.followed_by(&more, round as u64)),
                _ => None,
            };
            pool.notes.extend(run.notes);
            pool.reasons.extend(run.reasons);
        }
        pool.notes.dedup();
        pool.reasons.sort();
        pool.reasons.dedup();
        Some(Run {
            side: Side {
                path: format!("{name} ({count} runs)"),
                verdict,
                requests,
                ..pool.side
            },
            figures,
            ..pool
        })
    }

    /// Why the requests of another run are not those of this one; `None` when they are.
    pub fn why_unpaired(&self, other: &Run) -> Option<String> {
        let (Some(a), Some(b)) = (&self.columns, &other.columns) else {
            return Some("requests of one of the runs are not there".into());
        };
        // Where they went, how fast, and who counted, is what a comparison is about.
        let inputs = [
            "input tokens",
            "output tokens",
            "extra inputs",
            "dataset entries",
            "seed",
        ];
        let differences = self.workload.differences(&other.workload);
        let differing = differences.iter().find(|(name, ..)| inputs.contains(name));
        if let Some((name, a, b)) = differing {
            return Some(format!("another {name} ({}, {})", or_none(a), or_none(b)));
        }
        if self.workload.seed.is_none() {
            return Some("no seed is known".into());
        }
        let (same, all) = lengths(a, b);
        let odd = all - same;
        let is_odd = f64::from(odd) > OTHER_LENGTHS_MAX * f64::from(all);
        (all == 0 || is_odd).then(|| match all {
            0 => "no request has a number of the other run".into(),
            _ => format!("{odd} of {all} requests have prompts of another length"),
        })
    }

    /// What makes a comparison with another run doubtful.
    pub fn warnings(&self, other: &Run) -> Vec<String> {
        let mut out = Vec::new();
        for run in [self, other] {
            let path = &run.side.path;
            let whole = |verdict: &str| verdict == Verdict::Valid.name();
            if let Some(verdict) = run.side.verdict.as_deref().filter(|v| !whole(v)) {
                let why = match run.reasons.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", run.reasons.join(", ")),
                };
                out.push(format!(
                    "{path} is {verdict}{why}: the client is in its numbers"
                ));
            }
            out.extend(run.notes.iter().map(|note| format!("{path}: {note}")));
            let failed = run.figures.get("error_request_count", "avg");
            if let Some(failed) = failed.filter(|failed| *failed > 0.0) {
                out.push(format!(
                    "{path}: {failed} requests failed and have no latency"
                ));
            }
        }
        let made = self.made_by.iter().zip(&other.made_by);
        let made = made.filter(|(a, b)| a != b);
        let mut differing: Vec<(String, String, String)> = made
            .map(|((name, a), (_, b))| ((*name).into(), a.clone(), b.clone()))
            .collect();
        for (name, a, b) in self.workload.differences(&other.workload) {
            match name {
                // Two servers, or two draws of the same prompts, are what is compared.
                "urls" | "seed" => {}
                "load" => differing.extend(loads(&self.workload, &other.workload)),
                _ => differing.push((name.into(), a, b)),
            }
        }
        for (name, a, b) in differing {
            out.push(format!(
                "{name} differs: {}, and {}",
                or_none(&a),
                or_none(&b)
            ));
        }
        if is_same_place(&self.side.path, &other.side.path) {
            out.push("both are the same folder: every difference is 0".into());
        }
        out
    }
}

/// What differs between the measured phases of two runs, member by member.
fn loads(a: &Workload, b: &Workload) -> Vec<(String, String, String)> {
    if a.phases.len() != b.phases.len() {
        let count = |of: &Workload| format!("{} phases", of.phases.len());
        return vec![("load".into(), count(a), count(b))];
    }
    let mut out = Vec::new();
    for (a, b) in a.phases.iter().zip(&b.phases) {
        let members = |of: &Value| of.as_object().cloned().unwrap_or_default();
        let (a, b) = (members(a), members(b));
        let more = b.keys().filter(|key| !a.contains_key(*key));
        for key in a.keys().chain(more) {
            let text = |of: &Map<String, Value>| match of.get(key) {
                Some(Value::String(text)) => text.clone(),
                other => other.map(Value::to_string).unwrap_or_default(),
            };
            if a.get(key) != b.get(key) {
                out.push((format!("load ({key})"), text(&a), text(&b)));
            }
        }
    }
    out
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn is_same_place(a: &str, b: &str) -> bool {
    let real = |path: &str| std::fs::canonicalize(path).ok();
    real(a).is_some() && real(a) == real(b)
}

/// Places of the requests in the order of their numbers, which is that of their sending.
pub fn ordered(columns: &Columns) -> Vec<usize> {
    let mut places: Vec<usize> = (0..columns.len()).collect();
    places.sort_by_key(|at| (columns.index()[*at], columns.start_ns()[*at]));
    places
}

/// Of the requests of one number in both runs: how many have the same input length, and how many
/// there are.
fn lengths(a: &Columns, b: &Columns) -> (u32, u32) {
    let tag = "input_sequence_length";
    let known = |columns: &Columns| -> std::collections::HashMap<u64, f64> {
        let lengths = columns.get(tag).unwrap_or(&[]);
        let pairs = columns.index().iter().copied().zip(lengths.iter().copied());
        pairs.filter(|(_, length)| !length.is_nan()).collect()
    };
    let (a, b) = (known(a), known(b));
    let (mut same, mut all) = (0, 0);
    for (index, length) in &a {
        if let Some(other) = b.get(index) {
            all += 1;
            same += u32::from(length == other);
        }
    }
    (same, all)
}
