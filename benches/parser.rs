//! Question: what does one chat event cost, from the bytes of the stream to its content and finish
//! reason? Unit: ns per event of 250 bytes, over a stream of events with texts of their own.
//! `tokenring` reads them as a run does; `tokenring, no memory` as if no event were like the one
//! before. Baselines of the same run: serde_json into a `Value`, and serde into types that hold
//! nothing else.

use criterion::{Criterion, Throughput};
use serde::Deserialize;
use std::borrow::Cow;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokenring::config::Api;
use tokenring::endpoint::{Endpoint, EventReader, Part};
use tokenring::sse::{Decoder, Event};

/// Texts of the stream's events.
const TEXTS: [&str; 8] = [
    " vast",
    " the",
    ".",
    "\\n\\n",
    " of",
    " caf\u{e9}",
    " internationally",
    " \\\"so",
];

/// An event as vLLM sends it, with its framing.
fn event(text: &str) -> Vec<u8> {
    let data = format!(
        concat!(
            "data: {{\"id\":\"chatcmpl-9ef774848662071d9ef774848662071d\",",
            "\"object\":\"chat.completion.chunk\",\"created\":1796008359,",
            "\"model\":\"llama-3.1-8b-instruct\",\"choices\":[{{\"index\":0,",
            "\"delta\":{{\"content\":\"{}\"}},\"logprobs\":null,",
            "\"finish_reason\":null,\"token_ids\":null}}]}}\n\n"
        ),
        text
    );
    data.into_bytes()
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    #[serde(borrow)]
    finish_reason: Option<&'a str>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
}

/// What each way must find: whether there is content, and whether the answer is finished.
type Found = (bool, bool);

fn found(part: &Part<'_>) -> Found {
    (part.answer.is_some(), part.finished)
}

fn by_value(data: &[u8]) -> Found {
    let value: serde_json::Value = serde_json::from_slice(data).expect("the event is JSON");
    let choice = &value["choices"][0];
    let content = choice["delta"]["content"].as_str().unwrap_or_default();
    (!content.is_empty(), !choice["finish_reason"].is_null())
}

fn by_types(data: &[u8]) -> Found {
    let chunk: Chunk<'_> = serde_json::from_slice(data).expect("the event is JSON");
    let choice = &chunk.choices[0];
    let content = choice.delta.content.as_deref().unwrap_or_default();
    (!content.is_empty(), choice.finish_reason.is_some())
}

/// One way to read an event's data.
type Read = Box<dyn FnMut(&[u8]) -> Found>;

/// The stream's events through the decoder and one reader.
fn pass(decoder: &mut Decoder, events: &[Vec<u8>], read: &mut Read) {
    for event in events {
        let mut found = (false, false);
        let fed = decoder.feed(black_box(event), &mut |event: Event<'_>| {
            found = read(event.data);
        });
        fed.expect("the event is short");
        assert!(black_box(found) == (true, false));
    }
}

fn main() {
    let mut reader = EventReader::new(Api::Chat.into());
    let ways: [(&str, Read); 4] = [
        (
            "tokenring",
            Box::new(move |data| found(&reader.read(b"", data))),
        ),
        (
            "tokenring, no memory",
            Box::new(|data| found(&Endpoint::from(Api::Chat).read_event(b"", data))),
        ),
        ("serde_json value", Box::new(by_value)),
        ("serde types", Box::new(by_types)),
    ];
    let events = TEXTS.map(event);
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    // Without `--bench`, as under `cargo test --benches`, few passes are enough.
    let is_measured = std::env::args().any(|word| word == "--bench");
    let rounds: u32 = if is_measured { 100_000 } else { 20 };
    let mut costs = Vec::new();
    for (name, mut read) in ways {
        let mut decoder = Decoder::new();
        let mut group = criterion.benchmark_group("chat event");
        group.throughput(Throughput::Elements(events.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| pass(&mut decoder, &events, &mut read));
        });
        group.finish();
        let all = cost_ns(rounds, || pass(&mut decoder, &events, &mut read));
        costs.push((name, all / events.len() as f64));
    }
    let bytes: usize = events.iter().map(Vec::len).sum();
    println!(
        "{} bytes per event, best of 5 times {rounds}",
        bytes / events.len()
    );
    for (name, cost) in &costs {
        println!("{name}: {cost:.0} ns, {:.2} x tokenring", cost / costs[0].1);
    }
    criterion.final_summary();
}

/// Nanoseconds of one call: the best of five rounds, for the least noise of neighbours.
fn cost_ns(rounds: u32, mut call: impl FnMut()) -> f64 {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        for _ in 0..rounds {
            call();
        }
        start.elapsed()
    });
    best.min().unwrap_or_default().as_secs_f64() * 1e9 / f64::from(rounds)
}
