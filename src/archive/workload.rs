//! What a run asked of its server, as its summary says it: by this two runs are comparable or not.

use serde_json::{Map, Value};

/// The load and the inputs of a run. Absent is what the summary does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// Models, usually one.
    pub models: Vec<String>,
    /// `chat`.
    pub endpoint_type: Option<String>,
    /// Answers were streamed.
    pub streaming: Option<bool>,
    /// Where the requests went.
    pub urls: Vec<String>,
    /// Requests in flight, of the first measured phase.
    pub concurrency: Option<u64>,
    /// Requests per second, of the same.
    pub request_rate_per_s: Option<f64>,
    /// Requests, of the same.
    pub request_count: Option<u64>,
    /// Length in seconds, of the same.
    pub duration_s: Option<f64>,
    /// All measured phases as the summary has them.
    pub phases: Vec<Value>,
    /// Asked input tokens: mean, standard deviation.
    pub isl: Option<(f64, f64)>,
    /// Asked output tokens: mean, standard deviation.
    pub osl: Option<(f64, f64)>,
    /// Members of the endpoint's requests that were asked for.
    pub extra_inputs: Option<Value>,
    /// Seed.
    pub seed: Option<u64>,
    /// Different prompts; absent when each request has its own.
    pub dataset_entries: Option<u64>,
    /// Tokenizer.
    pub tokenizer: Option<String>,
}

/// A field that two workloads differ in: its name, and how each says it, empty when absent.
pub type Difference = (&'static str, String, String);

impl Workload {
    /// Of a summary's `input_config` and `run_info`.
    pub(super) fn of(document: &Map<String, Value>) -> Workload {
        let nothing = Value::Null;
        let config = document.get("input_config").unwrap_or(&nothing);
        let endpoint = &config["endpoint"];
        let dataset = &config["datasets"][0];
        let texts = |list: &Value| -> Vec<String> {
            let all = list.as_array().into_iter().flatten();
            all.filter_map(|item| item.as_str().map(String::from))
                .collect()
        };
        let models = config["models"]["items"].as_array().into_iter().flatten();
        let names = models.filter_map(|model| model["name"].as_str().map(String::from));
        let phases = config["phases"].as_array().into_iter().flatten();
        let measured = phases.filter(|phase| phase["kind"] == "profiling");
        let phases: Vec<Value> = measured.cloned().collect();
        let first = phases.first().unwrap_or(&nothing).clone();
        let seed = &document.get("run_info").unwrap_or(&nothing)["random_seed"];
        Workload {
            models: names.collect(),
            endpoint_type: endpoint["type"].as_str().map(String::from),
            streaming: endpoint["streaming"].as_bool(),
            urls: texts(&endpoint["urls"]),
            concurrency: first["concurrency"].as_u64(),
            request_rate_per_s: first["rate"].as_f64(),
            request_count: first["requests"].as_u64(),
            duration_s: first["duration"].as_f64(),
            phases,
            isl: lengths(&dataset["prompts"]["isl"]),
            osl: lengths(&dataset["prompts"]["osl"]),
            extra_inputs: endpoint.get("extra").cloned(),
            seed: seed.as_u64().or(dataset["random_seed"].as_u64()),
            dataset_entries: dataset["entries"].as_u64(),
            tokenizer: config["tokenizer"]["name"].as_str().map(String::from),
        }
    }

    /// Every field by its name, as text; empty when absent.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        fn text<T: ToString>(value: Option<T>) -> String {
            value.map_or(String::new(), |value| value.to_string())
        }
        let lengths = |lengths: Option<(f64, f64)>| match lengths {
            Some((mean, stddev)) if stddev > 0.0 => format!("{mean} +- {stddev}"),
            other => text(other.map(|(mean, _)| mean)),
        };
        let phases: Vec<String> = self.phases.iter().map(Value::to_string).collect();
        vec![
            ("model", self.models.join(", ")),
            ("endpoint type", text(self.endpoint_type.as_ref())),
            ("streaming", text(self.streaming)),
            ("urls", self.urls.join(", ")),
            ("load", phases.join(", ")),
            ("input tokens", lengths(self.isl)),
            ("output tokens", lengths(self.osl)),
            ("extra inputs", text(self.extra_inputs.as_ref())),
            ("seed", text(self.seed)),
            ("dataset entries", text(self.dataset_entries)),
            ("tokenizer", text(self.tokenizer.as_ref())),
        ]
    }

    /// What differs from another workload.
    pub fn differences(&self, other: &Workload) -> Vec<Difference> {
        let both = self.fields().into_iter().zip(other.fields());
        let differing = both.filter(|((_, a), (_, b))| a != b);
        differing.map(|((name, a), (_, b))| (name, a, b)).collect()
    }
}

fn lengths(value: &Value) -> Option<(f64, f64)> {
    let mean = value["mean"].as_f64()?;
    Some((mean, value["stddev"].as_f64().unwrap_or(0.0)))
}
