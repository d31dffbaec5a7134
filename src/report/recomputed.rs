//! Reports of runs that lie on disk: the run's own document with its figures made anew, and what
//! could not be made anew named.

use super::json::figure;
use crate::stats::RecordedFigures;
use crate::stats::catalogue::{Form, find};
use crate::stats::figures::{PERCENTILE_KEYS, WEIGHTED_KEYS};
use crate::stats::summary::{Adjusted, Distribution, Figure, MetricResult, Weighted};
use serde_json::{Map, Value, json};

/// How a report came about; stands under `recomputed` in its JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Files that were read.
    pub from: Vec<String>,
    /// Whose definitions: `aiperf`, `genai-perf`.
    pub definitions: &'static str,
    /// Version of this program.
    pub version: String,
    /// What counted the tokens; absent where the counts are the run's own.
    pub tokenizer: Option<String>,
    /// Metrics that were taken over from the run: its requests do not have what they need.
    pub taken_over: Vec<String>,
    /// Sentences for a reader.
    pub notes: Vec<String>,
}

impl Account {
    /// As JSON.
    pub fn json(&self) -> Value {
        let mut out = Map::new();
        out.insert("from".into(), json!(self.from));
        out.insert("definitions".into(), self.definitions.into());
        out.insert("tokenring_version".into(), self.version.as_str().into());
        if let Some(tokenizer) = &self.tokenizer {
            out.insert("tokenizer".into(), tokenizer.as_str().into());
        }
        out.insert("taken_over".into(), json!(self.taken_over));
        out.insert("notes".into(), json!(self.notes));
        Value::Object(out)
    }
}

/// `profile_export_aiperf.json` with these figures in the place of the run's, everything else as it
/// was; `base` is empty for several runs together. Metrics of the base that are not among the
/// figures are added to both lists and to the account's `taken_over`.
pub fn aiperf(
    base: &Map<String, Value>,
    figures: &mut RecordedFigures,
    account: &mut Account,
) -> Value {
    let mut out = base.clone();
    if out.is_empty() {
        out.insert("schema_version".into(), super::json::SCHEMA_VERSION.into());
        out.insert("tokenring_version".into(), account.version.as_str().into());
    }
    put(&mut out, &mut figures.metrics, &mut account.taken_over);
    if let Some(client) = out.get_mut("client").and_then(Value::as_object_mut) {
        put(client, &mut figures.client, &mut account.taken_over);
    }
    out.insert("recomputed".into(), account.json());
    Value::Object(out)
}

fn put(members: &mut Map<String, Value>, metrics: &mut Vec<MetricResult>, kept: &mut Vec<String>) {
    for metric in metrics.iter() {
        members.insert(metric.tag.into(), figure(metric));
    }
    for (tag, value) in members.iter() {
        if metrics.iter().all(|metric| metric.tag != tag)
            && let Some(metric) = taken_over(tag, value)
        {
            kept.push(tag.clone());
            metrics.push(metric);
        }
    }
}

/// A metric as a document has it; `None` for other members.
fn taken_over(tag: &str, value: &Value) -> Option<MetricResult> {
    let named = find(tag).filter(|named| named.tag == tag)?;
    value.get("unit")?.as_str()?;
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    let or_nothing = |key: &str| number(key).unwrap_or(f64::NAN);
    let figure = match named.form {
        Form::Number => Figure::Scalar(number("avg")?),
        Form::Weighted => Figure::Weighted(Weighted {
            avg: number("avg")?,
            min: number("min")?,
            max: number("max")?,
            std: number("std")?,
            percentiles: WEIGHTED_KEYS.map(or_nothing),
        }),
        Form::Adjusted => {
            let mut percentiles = PERCENTILE_KEYS.iter().map(|key| number(key));
            Figure::Adjusted(Adjusted {
                min: number("min")?,
                count: value.get("count")?.as_u64()?,
                percentiles: std::array::from_fn(|_| percentiles.next().flatten()),
            })
        }
        Form::Distribution => Figure::Distribution(Distribution {
            avg: number("avg")?,
            min: number("min")?,
            max: number("max")?,
            std: number("std")?,
            sum: or_nothing("sum"),
            count: value.get("count").and_then(Value::as_u64).unwrap_or(0),
            percentiles: PERCENTILE_KEYS.map(or_nothing),
            exact: true,
        }),
    };
    Some(MetricResult {
        tag: named.tag,
        header: named.header,
        unit: named.unit,
        figure,
    })
}

/// The text on screen: where the figures are from, the verdict of the run, the table, what is to be
/// known.
pub fn text(account: &Account, verdict: Option<&str>, table: &str, width: usize) -> String {
    let mut lines = vec![format!("Recomputed from {}", account.from.join(", "))];
    lines.push(match verdict {
        Some(verdict) => format!("Verdict of the run: {verdict}"),
        None => "No verdict: what recorded this does not say what the client added".into(),
    });
    let mut out = lines.join("\n");
    out.push_str("\n\n");
    out.push_str(table);
    let mut notes = account.notes.clone();
    if let Some(tokenizer) = &account.tokenizer {
        notes.push(format!("tokens are counted by {tokenizer}"));
    }
    if !account.taken_over.is_empty() {
        let tags = account.taken_over.join(", ");
        notes.push(format!("taken over from the run, not recomputed: {tags}"));
    }
    if !notes.is_empty() {
        out.push_str("\nNotes\n");
        super::console::indented(notes, width, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn what_the_requests_do_not_have_is_taken_over_and_named() {
        let metrics = fixture::summary().metrics;
        let base: Map<String, Value> = metrics
            .iter()
            .map(|metric| (metric.tag.to_owned(), figure(metric)))
            .chain([("start_time".to_owned(), json!("x"))])
            .collect();
        let mut found = RecordedFigures {
            metrics: vec![metrics[1].clone()],
            client: Vec::new(),
        };
        found.metrics[0].figure = Figure::Scalar(7.0);
        let mut account = Account::default();
        let document = aiperf(&base, &mut found, &mut account);
        assert_eq!(document[metrics[1].tag]["avg"], 7.0);
        assert_eq!(document[metrics[0].tag], figure(&metrics[0]));
        assert_eq!(document["start_time"], "x");
        assert_eq!(account.taken_over.len(), metrics.len() - 1);
        assert_eq!(
            document["recomputed"]["taken_over"],
            json!(account.taken_over)
        );
        for metric in &found.metrics[1..] {
            let was = metrics.iter().find(|was| was.tag == metric.tag).unwrap();
            assert_eq!(figure(metric), figure(was));
        }
        let text = text(&account, None, "TABLE\n", 80);
        assert!(
            text.contains("TABLE") && text.contains("not recomputed: "),
            "{text}"
        );
    }
}
