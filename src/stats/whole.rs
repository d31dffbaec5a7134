//! The numbers that a run has as a whole: counts, totals, rates over its duration.

use super::distribution::float;

/// What those numbers come from.
#[derive(Clone, Debug, Default)]
pub(super) struct Whole {
    /// Requests that did not fail.
    pub(super) valid: u64,
    /// Those that did.
    pub(super) failed: u64,
    /// First start to last content of valid requests; above 0.
    pub(super) duration_s: Option<f64>,
    /// What rates are over: of a run the same, of a slice its length; above 0.
    pub(super) window_s: Option<f64>,
    /// Requests within every service level.
    pub(super) good: u64,
    /// Outputs that missed the asked length; absent when none was asked.
    pub(super) mismatches: Option<u64>,
    /// Counts of the server that differ from ours; absent when it told none.
    pub(super) discrepancies: Option<u64>,
}

impl Whole {
    /// The number of a metric; `sum` gives those over requests.
    pub(super) fn value(&self, tag: &str, mut sum: impl FnMut(&str) -> Option<f64>) -> Option<f64> {
        let (ok, failed) = (float(self.valid), float(self.failed));
        let all = ok + failed;
        let per_s = |value: Option<f64>| Some(value? / self.window_s?);
        match tag {
            "request_throughput" => per_s((ok > 0.0).then_some(ok)),
            "request_count" => Some(ok),
            "benchmark_duration" => self.duration_s,
            "output_token_throughput" => per_s(sum("output_sequence_length")),
            "input_token_throughput" => per_s(sum("input_sequence_length")),
            "total_token_throughput" => {
                let input = sum("input_sequence_length")?;
                per_s(Some(input + sum("output_sequence_length")?))
            }
            "goodput" => per_s(Some(float(self.good))),
            "good_request_count" => Some(float(self.good)),
            "good_request_fraction" => (all > 0.0).then(|| float(self.good) / all),
            "error_request_count" => Some(failed),
            "completed_request_count" => Some(all),
            "request_error_rate" => (all > 0.0).then(|| 100.0 * failed / all),
            "osl_mismatch_count" => self.mismatches.map(float),
            "usage_discrepancy_count" => self.discrepancies.map(float),
            "total_isl" => sum("input_sequence_length"),
            "total_osl" => sum("output_sequence_length"),
            "total_output_tokens" => sum("output_token_count"),
            "total_reasoning_tokens" => sum("reasoning_token_count"),
            "overall_thinking_efficiency" => {
                let output = sum("output_token_count")?;
                Some(sum("reasoning_token_count")? / output)
            }
            "total_error_isl" => sum("error_isl"),
            "overall_usage_prompt_cache_read_pct" => {
                let prompt = sum("usage_prompt_tokens").filter(|sum| *sum > 0.0)?;
                Some(100.0 * sum("usage_prompt_cache_read_tokens")? / prompt)
            }
            _ => sum(tag
                .strip_prefix("total_")
                .filter(|t| t.starts_with("usage_"))?),
        }
    }
}
