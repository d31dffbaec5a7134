//! The server's own counts of tokens, under all the names that vendors have for them.

use super::shapes::count;
use crate::stats::Usage;
use serde_json::Value;

const PROMPT: [&str; 5] = [
    "prompt_tokens",
    "input_tokens",
    "promptTokenCount",
    "inputTokens",
    "input_token_count",
];
/// Those that can be without what a cache has served, which is then counted apart.
const PROMPT_APART: [&str; 2] = ["input_tokens", "inputTokens"];
const COMPLETION: [&str; 5] = [
    "completion_tokens",
    "output_tokens",
    "candidatesTokenCount",
    "outputTokens",
    "generated_token_count",
];
const TOTAL: [&str; 3] = ["total_tokens", "totalTokenCount", "totalTokens"];
/// Of the cache, counted apart from the prompt: Anthropic's and Bedrock's.
const READ_APART: [&str; 2] = ["cache_read_input_tokens", "cacheReadInputTokens"];
const WRITTEN_APART: [&str; 2] = ["cache_creation_input_tokens", "cacheWriteInputTokens"];
/// Of the cache, a part of the prompt.
const READ: [&str; 3] = [
    "prompt_cache_hit_tokens",
    "cachedContentTokenCount",
    "cached_tokens",
];
const PROMPT_DETAILS: [&str; 2] = ["prompt_tokens_details", "input_tokens_details"];
const COMPLETION_DETAILS: [&str; 2] = ["completion_tokens_details", "output_tokens_details"];

/// The usage in an event or a whole answer: its own member, Gemini's or Cohere's envelope.
pub(super) fn read(value: &Value) -> Option<Usage> {
    let envelopes = [
        &value["usage"],
        &value["usageMetadata"],
        &value["meta"]["tokens"],
        &value["tokens"],
    ];
    envelopes.into_iter().find_map(counts)
}

/// Usage from the object that has its counts; absent when it says nothing.
pub(super) fn counts(value: &Value) -> Option<Usage> {
    let first = |keys: &[&str]| keys.iter().find_map(|key| count(&value[*key]));
    let detail =
        |groups: [&str; 2], key: &str| groups.iter().find_map(|group| count(&value[*group][key]));
    let (read_apart, cache_write) = (first(&READ_APART), first(&WRITTEN_APART));
    let cache_read = detail(PROMPT_DETAILS, "cached_tokens")
        .or(read_apart)
        .or_else(|| first(&READ));
    let named = |key: &&&str| count(&value[**key]).is_some();
    let key = PROMPT.iter().find(named);
    let may_be_apart = key.is_none_or(|key| PROMPT_APART.contains(key));
    let is_apart = may_be_apart && (read_apart.is_some() || cache_write.is_some());
    let mut usage = Usage {
        prompt: first(&PROMPT),
        completion: first(&COMPLETION),
        total: first(&TOTAL),
        reasoning: detail(COMPLETION_DETAILS, "reasoning_tokens")
            .or_else(|| first(&["thoughtsTokenCount"])),
        cache_read,
        cache_write,
        accepted_prediction: detail(COMPLETION_DETAILS, "accepted_prediction_tokens"),
        rejected_prediction: detail(COMPLETION_DETAILS, "rejected_prediction_tokens"),
        ..Usage::default()
    };
    if is_apart {
        usage.add_cache();
    }
    (usage != Usage::default()).then_some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_vendor_s_names_are_read_and_a_cache_apart_is_added_once() {
        let of = |value: Value| read(&value).map(|usage| (usage.prompt, usage.completion));
        let both = Some((Some(9), Some(4)));
        for value in [
            json!({"usage": {"prompt_tokens": 9, "completion_tokens": 4}}),
            json!({"usage": {"inputTokens": 9, "outputTokens": 4}}),
            json!({"usage": {"input_token_count": 9, "generated_token_count": 4}}),
            json!({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4}}),
            json!({"meta": {"tokens": {"input_tokens": 9, "output_tokens": 4}}}),
            json!({"usage": null, "tokens": {"input_tokens": 9, "output_tokens": 4}}),
            json!({"usage": {"input_tokens": 2, "output_tokens": 4,
                "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3}}),
            json!({"usage": {"inputTokens": 2, "outputTokens": 4, "cacheReadInputTokens": 7}}),
            json!({"usage": {"prompt_tokens": 9, "completion_tokens": 4,
                "cache_read_input_tokens": 7}}),
        ] {
            assert_eq!(of(value.clone()), both, "{value}");
        }
        // The later event of a stream has the input again, without the cache.
        let mut usage = counts(&json!({"input_tokens": 2, "cache_read_input_tokens": 7})).unwrap();
        usage.take(&counts(&json!({"input_tokens": 2, "output_tokens": 4})).unwrap());
        assert_eq!((usage.prompt, usage.completion), (Some(9), Some(4)));
        assert_eq!(counts(&json!({"other": 1})), None);
    }
}
