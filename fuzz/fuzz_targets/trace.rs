//! Any bytes as a trace file: no panic, an error shows nothing of a line, other line ends change
//! nothing, and the schedule is in order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring::schedule::{TraceTimes, trace_times};
use tokenring::workload::read_trace;

fuzz_target!(|data: &[u8]| {
    let read = read_trace("f", data);
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    let other = lines.join(&b"\r\n"[..]);
    assert_eq!(read_trace("f", &other).ok(), read.as_ref().ok().cloned());
    match read {
        Err(error) => assert!(error.to_string().len() < 120),
        Ok(entries) => {
            assert!(entries.is_sorted_by(|a, b| a.line < b.line));
            let stamps: Vec<_> = entries.iter().map(|entry| entry.at).collect();
            let options = TraceTimes {
                auto_offset: true,
                jitter: Some(1),
                ..TraceTimes::default()
            };
            if let Ok(schedule) = trace_times(&stamps, options) {
                assert!(schedule.due.is_sorted_by_key(|(_, at)| *at));
            }
        }
    }
});
