//! Units that names and help texts tell, as AIPerf reads them.

/// Endings of names, the longest of several that fit first.
const ENDINGS: [(&str, &str); 24] = [
    ("_milliseconds", "ms"),
    ("_nanoseconds", "ns"),
    ("request_success", "requests"),
    ("_error_count", "errors"),
    ("_block_count", "blocks"),
    ("_kilobytes", "KB"),
    ("_megabytes", "MB"),
    ("_gigabytes", "GB"),
    ("_requests", "requests"),
    ("_seconds", "seconds"),
    ("_percent", "%"),
    ("_celsius", "°C"),
    ("_tokens", "tokens"),
    ("_errors", "errors"),
    ("_blocks", "blocks"),
    ("_joules", "J"),
    ("_bytes", "bytes"),
    ("_ratio", "ratio"),
    ("_watts", "W"),
    ("_count", "count"),
    ("_perc", "%"),
    ("_reqs", "requests"),
    ("_ms", "ms"),
    ("_ns", "ns"),
];

/// Words of a help text that say more than a name: `kv_cache_usage_perc` is a ratio.
const WORDS: [(&str, &str); 14] = [
    ("(0-1)", "ratio"),
    ("0.0-1.0", "ratio"),
    ("0 to 1)", "ratio"),
    ("1 means 100", "ratio"),
    ("1 = 100", "ratio"),
    ("(0-100)", "%"),
    ("0-100%", "%"),
    ("in seconds", "seconds"),
    ("(seconds)", "seconds"),
    ("in milliseconds", "ms"),
    ("(ms)", "ms"),
    ("in bytes", "bytes"),
    ("tokens/s)", "tokens/s"),
    ("(token/s)", "tokens/s"),
];

/// The unit of a family, its name without `_total`; `None` where nothing tells.
pub fn of(name: &str, help: &str) -> Option<&'static str> {
    let help = help.to_ascii_lowercase();
    let told = WORDS.iter().find(|(word, _)| help.contains(word));
    let name = name.to_ascii_lowercase();
    let ending = || ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
    let found = told.or_else(ending).map(|(_, unit)| *unit);
    found.or_else(|| name.contains("num_requests_").then_some("requests"))
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn names_tell_their_unit_and_help_texts_know_better() {
        for (name, help, unit) in [
            (
                "vllm:prompt_tokens",
                "Number of prefill tokens processed.",
                Some("tokens"),
            ),
            ("vllm:num_requests_running", "", Some("requests")),
            ("vllm:request_success", "", Some("requests")),
            ("x_latency_milliseconds", "", Some("ms")),
            ("x_seconds", "", Some("seconds")),
            (
                "vllm:kv_cache_usage_perc",
                "KV-cache usage. 1 means 100 percent usage.",
                Some("ratio"),
            ),
            (
                "sglang:gen_throughput",
                "The generation throughput (token/s).",
                Some("tokens/s"),
            ),
            ("latency", "Latency in milliseconds.", Some("ms")),
            (
                "aiperf_mock_requests_by_model",
                "Total requests by model",
                None,
            ),
            (
                "aiperf_mock_tokens_streamed",
                "Total number of tokens streamed",
                None,
            ),
        ] {
            assert_eq!(of(name, help), unit, "{name}");
        }
    }
}
