//! Any bytes as a response: no panic, and a split changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring_fuzz::read;

fuzz_target!(|input: (Vec<u8>, usize)| {
    let (bytes, cut) = input;
    let (front, back) = bytes.split_at(cut % (bytes.len() + 1));
    assert_eq!(read(&[front, back]), read(&[&bytes]));
});
