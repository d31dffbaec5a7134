//! Any bytes as a stream of events: no panic, and a split changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring::sse::{Decoder, Event};

/// Names and data of the events; `None` when the stream is refused.
fn read(reads: &[&[u8]]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut decoder = Decoder::new();
    let mut events = Vec::new();
    for bytes in reads {
        let fed = decoder.feed(bytes, &mut |event: Event<'_>| {
            events.push((event.name.to_vec(), event.data.to_vec()));
        });
        fed.ok()?;
    }
    Some(events)
}

fuzz_target!(|input: (Vec<u8>, usize)| {
    let (bytes, cut) = input;
    let (front, back) = bytes.split_at(cut % (bytes.len() + 1));
    assert_eq!(read(&[front, back]), read(&[&bytes]));
});
