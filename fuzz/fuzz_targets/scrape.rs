//! Any text as a page of metrics: no panic, and every line is a sample, a comment or counted bad.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring::scrape::parse;

fuzz_target!(|text: &str| {
    let page = parse(text);
    let lines = text.lines().count() as u64;
    assert!(page.samples_count() as u64 + page.bad_lines <= lines);
    for family in &page.families {
        assert!(!family.samples.is_empty());
        for sample in &family.samples {
            assert!(text.contains(sample.name));
        }
    }
});
