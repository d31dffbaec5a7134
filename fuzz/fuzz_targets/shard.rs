//! Any bytes as a shard of records: no panic, and what is read is written and read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokenring::stats::Columns;
use tokenring::stats::wire::{Writer, parse};

fuzz_target!(|data: &[u8]| {
    let Ok((columns, _)) = parse(data) else {
        return;
    };
    let metrics = columns.metrics();
    let metrics = Columns::new(metrics.map(|(tag, unit)| (tag.into(), unit.into())));
    let tags: Vec<String> = metrics.metrics().map(|(tag, _)| tag.into()).collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::new(metrics, &mut bytes);
    for at in 0..columns.len() {
        let value = |tag: &String| columns.get(tag).map_or(f64::NAN, |values| values[at]);
        let values: Vec<f64> = tags.iter().map(value).collect();
        writer.push(columns.row(at).unwrap(), &values, &mut bytes);
    }
    writer.finish(&mut bytes);
    let (again, is_whole) = parse(&bytes).unwrap();
    assert!(is_whole && again.len() == columns.len());
    for tag in &tags {
        let bits = |columns: &Columns| -> Vec<u64> {
            let values = columns.get(tag).unwrap_or(&[]);
            // A NaN is absent, whatever its bits.
            values.iter().filter(|v| !v.is_nan()).map(|v| v.to_bits()).collect()
        };
        assert_eq!(bits(&again), bits(&columns));
    }
    let _ = columns.figures();
});
