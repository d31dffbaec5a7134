//! perf_analyzer's `profile_export.json`: when each measured request went, and every event that
//! came back, as GenAI-Perf's tools read them.

use super::{RunInfo, split};
use crate::config::Config;
use crate::stats::Record;
use serde_json::{Value, json};

/// What stands before the requests.
pub fn head(config: &Config) -> Vec<u8> {
    let load = &config.main().load;
    let experiment = match load.rate_per_s() {
        None => json!({"mode": "concurrency", "value": load.slots()}),
        Some(rate) => json!({"mode": "request_rate", "value": rate}),
    };
    format!(r#"{{"experiments":[{{"experiment":{experiment},"requests":["#).into_bytes()
}

/// Appends a measured request: an object, without a comma. One that failed has no responses: what
/// came of a broken answer is none, and GenAI-Perf would take it for one.
pub fn request(record: &Record, run: &RunInfo, out: &mut Vec<u8>) {
    let (mut times, mut events, mut from) = (Vec::new(), Vec::new(), 0);
    let marks = record.buffers.raw_marks.iter();
    for &(at, end) in marks.filter(|_| record.is_valid()) {
        let data = record.buffers.raw.get(from..end).unwrap_or_default();
        events.push(String::from_utf8_lossy(data).into_owned());
        times.push(run.anchor.wall(at));
        from = end;
    }
    split::hide(&mut events, &run.secrets);
    let response = |data: String| match record.streamed {
        true => json!({"response": format!("data: {data}\n\n")}),
        false => json!({"response": data}),
    };
    let payload = String::from_utf8_lossy(&record.buffers.asked);
    let mut value = json!({
        "timestamp": run.anchor.wall(record.start),
        "request_inputs": {"payload": payload},
        "response_timestamps": times,
        "response_outputs": events.into_iter().map(response).collect::<Vec<Value>>(),
    });
    run.secrets.mask_value(&mut value);
    out.extend_from_slice(value.to_string().as_bytes());
}

/// What stands behind them.
#[derive(Clone, Debug)]
pub struct Tail {
    endpoint: String,
    /// First start and last end, wall time in ns.
    window: Option<(u64, u64)>,
}

impl Tail {
    /// Of a run without requests so far, and its path without the leading slash.
    pub fn new(endpoint: &str) -> Tail {
        Tail {
            endpoint: endpoint.into(),
            window: None,
        }
    }

    /// Takes notice of a request.
    pub fn add(&mut self, record: &Record, run: &RunInfo) {
        let (start, end) = (run.anchor.wall(record.start), run.anchor.wall(record.done));
        let (first, last) = self.window.unwrap_or((start, end));
        self.window = Some((first.min(start), last.max(end)));
    }

    /// The end of the document.
    pub fn bytes(&self) -> Vec<u8> {
        let bounds: Vec<u64> = self.window.into_iter().flat_map(<[u64; 2]>::from).collect();
        let version = concat!("tokenring ", env!("CARGO_PKG_VERSION"));
        format!(
            r#"],"window_boundaries":{}}}],"version":{},"service_kind":"openai","endpoint":{}}}"#,
            json!(bounds),
            json!(version),
            json!(self.endpoint)
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::base::Ns;
    use crate::stats::{Failure, FailureKind, Stage};

    #[test]
    fn a_document_has_each_event_as_it_came_and_no_part_of_a_failed_answer() {
        let run = fixture::run();
        let mut record = Record {
            start: Ns(1_000),
            done: Ns(9_000),
            streamed: true,
            ..Record::default()
        };
        record.buffers.asked = b"{\"model\":\"m\"}".to_vec();
        record.buffers.raw = b"{}[DONE]".to_vec();
        record.buffers.raw_marks = vec![(Ns(2_000), 2), (Ns(3_000), 8)];
        let config = Config::default();
        let (mut tail, mut out) = (Tail::new("v1/chat/completions"), head(&config));
        tail.add(&record, &run);
        request(&record, &run, &mut out);
        out.push(b',');
        record.failure = Some(Box::new(Failure {
            kind: FailureKind::Stream,
            stage: Stage::Stream,
            code: 0,
            name: "stream_truncated".into(),
            message: "cut".into(),
            after: None,
        }));
        request(&record, &run, &mut out);
        out.extend(tail.bytes());
        let found: Value = serde_json::from_slice(&out).unwrap();
        let requests = &found["experiments"][0]["requests"];
        assert_eq!(
            requests[0]["request_inputs"]["payload"],
            "{\"model\":\"m\"}"
        );
        let said = requests[0]["response_outputs"].to_string();
        assert_eq!(
            said,
            r#"[{"response":"data: {}\n\n"},{"response":"data: [DONE]\n\n"}]"#
        );
        assert_eq!(requests[1]["response_timestamps"], json!([]));
        let wall = |ns| run.anchor.wall(Ns(ns));
        assert_eq!(
            requests[0]["response_timestamps"],
            json!([wall(2_000), wall(3_000)])
        );
        let window = &found["experiments"][0]["window_boundaries"];
        assert_eq!(*window, json!([wall(1_000), wall(9_000)]));
        assert_eq!(found["endpoint"], "v1/chat/completions");
    }
}
