//! `profile_export.jsonl` and `profile_export_raw.jsonl`: a line per request, AIPerf's members
//! first, ours under `timeline`, `stages` and `failure`.

use super::{RunInfo, split};
use crate::base::Ns;
use crate::stats::{Failure, FailureKind, Phase, Record, Stage, Stages};
use serde_json::{Map, Value, json};

/// Value of a metric of one request.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A measured number.
    Number(f64),
    /// A count.
    Integer(u64),
    /// Several, as gaps between events.
    List(Vec<f64>),
}

/// A metric of one request: tag, unit, value.
pub type MetricOf<'a> = (&'a str, &'a str, MetricValue);

/// Appends the line of a request. Cost: about 10 us.
pub fn record_line(record: &Record, metrics: &[MetricOf<'_>], run: &RunInfo, out: &mut Vec<u8>) {
    let mut line = Map::new();
    line.insert("metadata".into(), metadata(record, run));
    line.insert(
        "metrics".into(),
        Value::Object(metrics.iter().map(metric).collect()),
    );
    if let Some(failure) = &record.failure {
        line.insert("error".into(), error(failure));
        line.insert("failure".into(), failure_details(failure));
    }
    line.insert("timeline".into(), timeline(record, run));
    line.insert("stages".into(), stages(&Stages::of(record)));
    push(line, run, out);
}

/// Every line goes through here: whatever a server says is masked.
fn push(line: Map<String, Value>, run: &RunInfo, out: &mut Vec<u8>) {
    let mut line = Value::Object(line);
    run.secrets.mask_value(&mut line);
    out.extend_from_slice(line.to_string().as_bytes());
    out.push(b'\n');
}

fn metric((tag, unit, value): &MetricOf<'_>) -> (String, Value) {
    let value = match value {
        MetricValue::Number(number) => json!(number),
        MetricValue::Integer(count) => json!(count),
        MetricValue::List(list) => json!(list),
    };
    ((*tag).to_string(), json!({ "value": value, "unit": unit }))
}

/// A UUID's text.
pub(super) fn uuid(id: u128) -> String {
    uuid::Uuid::from_u128(id).to_string()
}

fn metadata(record: &Record, run: &RunInfo) -> Value {
    let wall = |at: Ns| run.anchor.wall(at);
    use FailureKind::{Cancelled, Client};
    // On purpose or at the end of the run; a server may answer by 499 too.
    let is_ours = |failure: &Failure| matches!(failure.kind, Cancelled | Client);
    let cancelled = record.failure.as_deref();
    let cancelled = cancelled.is_some_and(|failure| failure.code == 499 && is_ours(failure));
    let mut out = Map::new();
    let mut add = |key: &str, value: Value| out.insert(key.into(), value);
    add("session_num", record.session.into());
    add("x_request_id", uuid(record.request_id).into());
    add("x_correlation_id", uuid(record.correlation_id).into());
    add(
        "conversation_id",
        format!("session_{:06}", record.session).into(),
    );
    add("turn_index", record.turn.into());
    add("credit_issued_ns", wall(record.due).into());
    add("request_start_ns", wall(record.start).into());
    if let Some(at) = record.headers {
        add("request_ack_ns", wall(at).into());
    }
    // The end that the metrics see: last content, so that end - start is the latency.
    add(
        "request_end_ns",
        wall(record.end().unwrap_or(record.done)).into(),
    );
    add("worker_id", format!("core_{}", record.core).into());
    add("record_processor_id", "records".into());
    add("benchmark_phase", record.phase.name().into());
    add("phase_index", record.part.into());
    let part = usize::from(record.part);
    let before = run.phases.iter().take(part);
    if record.phase == Phase::Profiling {
        let measured = before.filter(|(_, measured)| *measured).count();
        add("profiling_index", measured.into());
    }
    let name = run.phases.get(part).map(|(name, _)| name.as_str());
    add("phase_name", name.unwrap_or(record.phase.name()).into());
    add("phase_kind", record.phase.name().into());
    add("was_cancelled", cancelled.into());
    if cancelled {
        add("cancellation_time_ns", wall(record.done).into());
    }
    // AIPerf's readers require them; no conversation here has branches.
    add("context_overflow_skip", false.into());
    add("agent_depth", 0.into());
    add("root_correlation_id", uuid(record.correlation_id).into());
    Value::Object(out)
}

fn error(failure: &Failure) -> Value {
    json!({
        "code": failure.code,
        "type": failure.name,
        "message": failure.message,
    })
}

fn failure_details(failure: &Failure) -> Value {
    let kind = match failure.kind {
        FailureKind::Server => "server",
        FailureKind::Network => "network",
        FailureKind::Timeout => "timeout",
        FailureKind::Stream => "stream",
        FailureKind::Proxy => "proxy",
        FailureKind::Client => "client",
        FailureKind::Cancelled => "cancelled",
    };
    let phase = match failure.stage {
        Stage::Connect => "connect",
        Stage::Send => "send",
        Stage::FirstToken => "first_token",
        Stage::Stream => "stream",
    };
    let mut out = Map::new();
    out.insert("kind".into(), kind.into());
    out.insert("phase".into(), phase.into());
    if let Some(after) = failure.after {
        out.insert("after_ms".into(), json!(after.as_ms()));
    }
    Value::Object(out)
}

/// Every moment of a request, as wall time in ns.
fn timeline(record: &Record, run: &RunInfo) -> Value {
    let moments = [
        ("due_ns", Some(record.due)),
        ("slot_ns", Some(record.slot)),
        ("start_ns", Some(record.start)),
        ("connect_start_ns", record.connect_start),
        ("connect_done_ns", record.connect_done),
        ("tls_done_ns", record.tls_done),
        ("sent_ns", record.sent),
        ("written_ns", record.written),
        ("headers_ns", record.headers),
        ("first_byte_ns", record.first_byte),
        ("first_content_ns", record.first_content),
        ("first_output_ns", record.first_output),
        ("second_content_ns", record.second_content),
        ("last_content_ns", record.last_content),
        ("done_ns", Some(record.done)),
    ];
    let mut out: Map<String, Value> = moments
        .into_iter()
        .filter_map(|(key, at)| Some((key.to_string(), run.anchor.wall(at?).into())))
        .collect();
    let url = run
        .urls
        .get(usize::from(record.url))
        .cloned()
        .unwrap_or_default();
    out.insert("url".into(), url.into());
    out.insert("attempt".into(), record.attempt.into());
    out.insert("events_count".into(), record.events_count.into());
    out.insert("reads_count".into(), record.reads_count.into());
    if let Some(status) = record.status {
        out.insert("status".into(), status.into());
    }
    for (key, flag) in [
        ("done_missing", record.done_missing),
        ("finish_reason_missing", record.finish_reason_missing),
    ] {
        if flag {
            out.insert(key.into(), true.into());
        }
    }
    Value::Object(out)
}

/// Where the time from due to done went; the parts add up to `total_ns` exactly.
pub(super) fn stages(stages: &Stages) -> Value {
    let parts = stages.iter().map(|(part, length)| (part.name(), length));
    let all = parts.chain([("total", stages.total())]);
    let members = all.map(|(name, length)| (format!("{name}_ns"), length.0.into()));
    Value::Object(members.collect())
}

/// Appends the raw line of a request: every event as it came.
pub fn raw_line(record: &Record, run: &RunInfo, out: &mut Vec<u8>) {
    let mut from = 0;
    let mut events: Vec<String> = Vec::new();
    for &(_, end) in &record.buffers.raw_marks {
        let data = String::from_utf8_lossy(&record.buffers.raw[from..end]);
        events.push(data.into_owned());
        from = end;
    }
    split::hide(&mut events, &run.secrets);
    let responses: Vec<Value> = events
        .into_iter()
        .zip(&record.buffers.raw_marks)
        .map(|(data, (at, _))| {
            json!({ "perf_ns": at.0, "packets": [{ "name": "data", "value": data }] })
        })
        .collect();
    let mut line = Map::new();
    line.insert("metadata".into(), metadata(record, run));
    line.insert("start_perf_ns".into(), record.start.0.into());
    line.insert("status".into(), record.status.into());
    line.insert("responses".into(), responses.into());
    if let Some(failure) = &record.failure {
        line.insert("error".into(), error(failure));
    }
    push(line, run, out);
}
