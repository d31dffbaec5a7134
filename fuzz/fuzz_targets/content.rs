//! Any bytes as an event: no panic, and Triton's shape gives the text that serde_json reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tokenring::config::Api;
use tokenring::endpoint::{read_body, read_event};

fuzz_target!(|data: &[u8]| {
    for api in [
        Api::Chat,
        Api::Completions,
        Api::TritonTensorrtllm,
        Api::TritonVllm,
    ] {
        let _ = read_event(api, b"", data);
        let _ = read_event(api, b"error", data);
        let _ = read_body(api, data);
    }
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    let Ok(part) = read_body(Api::TritonVllm, data) else {
        panic!("serde_json reads it");
    };
    // An event with one key twice, an error, or escapes is left to the property tests.
    let is_rare = count(data, b"text_output") > 1 || count(data, b"error") > 0;
    if is_rare || data.contains(&b'\\') {
        return;
    }
    let text = value["text_output"].as_str().unwrap_or_default();
    assert_eq!(part.answer.as_deref().unwrap_or_default(), text.as_bytes());
});

fn count(data: &[u8], word: &[u8]) -> usize {
    data.windows(word.len())
        .filter(|window| *window == word)
        .count()
}
