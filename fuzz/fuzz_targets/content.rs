//! Any bytes as an event: no panic, and for every API what the scan takes is what serde_json takes,
//! with the same said of it, and what a reader remembers of the lines before changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring::config::Api;
use tokenring::endpoint::{Endpoint, EventReader, Part, unescape};

fuzz_target!(|data: &[u8]| {
    for api in Api::all() {
        let _ = Endpoint::from(api).read_event(b"", data);
        let _ = Endpoint::from(api).read_event(b"error", data);
        let _ = Endpoint::from(api).read_event(b"ping", data);
        let mut reader = EventReader::new(api.into());
        for event in data.split(|&byte| byte == b'\n') {
            assert_eq!(reader.read(b"", event), Endpoint::from(api).read_event(b"", event));
        }
        let fast = Endpoint::from(api).read_body(data).ok().map(said);
        let slow = Endpoint::from(api).read_by_value(data).ok().map(said);
        assert_eq!(fast, slow);
    }
});

/// All that a part says, its texts as a user reads them.
fn said(part: Part<'_>) -> ([String; 3], Part<'static>) {
    let texts = [&part.answer, &part.reasoning, &part.tool_call];
    let texts = texts.map(|text| unescape(text.as_deref().unwrap_or_default()));
    let rest = Part {
        answer: None,
        reasoning: None,
        tool_call: None,
        ..part
    };
    (texts, rest)
}
