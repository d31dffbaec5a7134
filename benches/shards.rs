//! Question: how long does it take to read 50 runs of 100,000 requests, with all figures of each?
//! Unit: seconds, by two threads, of the files in the page cache; beside it the same figures by
//! sorting every column. `cargo bench --bench shards`; without `--bench` a small one.

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokenring::archive::{RunFolder, SHARD};
use tokenring::base::{Anchor, Ns};
use tokenring::stats::columns::line_up;
use tokenring::stats::summary::Distribution;
use tokenring::stats::wire::Writer;
use tokenring::stats::{AccumulateOptions, Accumulator, Columns, Record, Row};

const SUMMARY: &str = r#"{"schema_version":"1.4","tokenring_version":"0","input_config":{}}"#;
const THREADS: usize = 2;

/// A generator of numbers below a bound, most of them small (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// A length of time with a long tail, in ns.
    fn time(&mut self, ns: u64) -> Ns {
        let tail = self.below(ns) * self.below(ns) / ns;
        Ns(ns / 2 + self.below(ns) / 2 + tail)
    }

    fn tokens(&mut self, least: u64, range: u64) -> Option<u32> {
        u32::try_from(least + self.below(range)).ok()
    }
}

/// A streamed chat request over a kept connection, with the server's usage.
fn record(index: u64, draw: &mut Draw) -> Record {
    let due = Ns(1_000_000_000 + index * 1_000_000);
    let start = due + draw.time(20_000);
    let sent = start + draw.time(10_000);
    let headers = sent + draw.time(2_000_000);
    let first = headers + draw.time(80_000_000);
    let second = first + draw.time(12_000_000);
    let last = second + draw.time(2_400_000_000);
    let mut record = Record {
        index,
        due,
        slot: due,
        start,
        sent: Some(sent),
        written: Some(sent + Ns(3_000)),
        headers: Some(headers),
        first_byte: Some(headers),
        streamed: true,
        first_content: Some(first),
        first_output: Some(first),
        second_content: Some(second),
        last_content: Some(last),
        done: last + draw.time(40_000),
        requested_output: Some(256),
        sent_bytes: 4_000 + draw.below(900),
        received_bytes: 40_000 + draw.below(9_000),
        ..Record::default()
    };
    record.tokens.input = draw.tokens(900, 250);
    record.tokens.output = draw.tokens(200, 57);
    record.usage.prompt = record.tokens.input;
    record.usage.completion = record.tokens.output;
    record.usage.total = draw.tokens(1_100, 307);
    record
}

fn write_run(folder: &Path, seed: u64, requests: u64) {
    let anchor = Anchor::at(Ns(0), 1_700_000_000_000_000_000);
    let accumulator = Accumulator::new(AccumulateOptions {
        streaming: true,
        goodput: Vec::new(),
        anchor,
        concurrency: None,
        capped: true,
        phases: Vec::new(),
    });
    let (mut bytes, mut values, mut draw) = (Vec::new(), Vec::new(), Draw(seed));
    let mut writer = Writer::new(Columns::of_requests(), &mut bytes);
    for index in 0..requests {
        let record = record(index, &mut draw);
        line_up(&accumulator.per_record(&record), &mut values);
        writer.push(Row::of(&record, anchor), &values, &mut bytes);
    }
    writer.finish(&mut bytes);
    std::fs::create_dir(folder).expect("a folder");
    std::fs::write(folder.join("profile_export_aiperf.json"), SUMMARY).expect("a summary");
    std::fs::write(folder.join(SHARD), bytes).expect("a shard");
}

fn read(folder: &Path) -> Columns {
    let run = RunFolder::open(folder).expect("a run");
    run.columns().expect("a shard").expect("a shard").columns
}

/// Does `work` for each run, by all threads.
fn for_each(runs: usize, work: impl Fn(usize) + Sync) -> Duration {
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    match next.fetch_add(1, Ordering::Relaxed) {
                        run if run < runs => work(run),
                        _ => break,
                    }
                }
            });
        }
    });
    began.elapsed()
}

fn by_sorting(columns: &Columns) {
    for (tag, _) in columns.metrics() {
        let values = columns.get(tag).unwrap_or(&[]);
        let mut present: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
        black_box(Distribution::from_values(&mut present));
    }
}

fn main() {
    let is_full = std::env::args().any(|arg| arg == "--bench");
    let (runs, requests) = if is_full { (50, 100_000) } else { (4, 2_000) };
    let parent = tempfile::tempdir().expect("a folder");
    let folder = |run: usize| parent.path().join(run.to_string());
    let took = for_each(runs, |run| write_run(&folder(run), run as u64, requests));
    let size = std::fs::metadata(folder(0).join(SHARD))
        .expect("a shard")
        .len();
    let first = read(&folder(0));
    let filled = first
        .metrics()
        .filter(|(tag, _)| first.get(tag).is_some())
        .count();
    println!(
        "{runs} shards of {requests} requests, {filled} columns, {:.1} MB each, written in {:.2} s",
        size as f64 / 1e6,
        took.as_secs_f64()
    );
    drop(first);
    for pass in 1..=if is_full { 3 } else { 1 } {
        let only = for_each(runs, |run| drop(black_box(read(&folder(run)))));
        let all = for_each(runs, |run| drop(black_box(read(&folder(run)).figures())));
        let sorted = for_each(runs, |run| by_sorting(&read(&folder(run))));
        let [only, all, sorted] = [only, all, sorted].map(|took| took.as_secs_f64());
        println!(
            "pass {pass}: read {only:.2} s, with all figures {all:.2} s; by sorting {sorted:.2} s, \
             {:.1} times as long",
            sorted / all
        );
    }
}
