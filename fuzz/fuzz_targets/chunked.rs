//! Any bytes as a chunked body: no panic, and a split changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring_fuzz::read;

/// What goes before the bytes.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fuzz_target!(|input: (Vec<u8>, usize)| {
    let (body, cut) = input;
    let bytes = [HEAD, &body[..]].concat();
    let (front, back) = bytes.split_at(cut % (bytes.len() + 1));
    assert_eq!(read(&[front, back]), read(&[&bytes]));
});
