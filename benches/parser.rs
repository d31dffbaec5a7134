//! Question: what does one chat event cost, from the bytes of the stream to its content and finish
//! reason? Unit: ns per event of 250 bytes. Baselines of the same run: serde_json into a `Value`,
//! and serde into types that hold nothing else.

use criterion::Criterion;
use serde::Deserialize;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokenring::config::Api;
use tokenring::endpoint::read_event;
use tokenring::sse::{Decoder, Event};

/// An event as vLLM sends it, with its framing.
const EVENT: &[u8] = b"data: {\"id\":\"chatcmpl-9ef774848662071d9ef774848662071d\",\
\"object\":\"chat.completion.chunk\",\"created\":1796008359,\"model\":\"llama-3.1-8b-instruct\",\
\"choices\":[{\"index\":0,\"delta\":{\"content\":\" vast\"},\"logprobs\":null,\
\"finish_reason\":null,\"token_ids\":null}]}\n\n";

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
    content: Option<&'a str>,
}

/// What each way must find: bytes of content, and whether the answer is finished.
type Found = (usize, bool);

/// One way to read an event's data.
type Read = fn(&[u8]) -> Found;

fn by_scan(data: &[u8]) -> Found {
    let part = read_event(Api::Chat, b"", data);
    (part.answer.map_or(0, |text| text.len()), part.finished)
}

fn by_value(data: &[u8]) -> Found {
    let value: serde_json::Value = serde_json::from_slice(data).expect("the event is JSON");
    let choice = &value["choices"][0];
    let content = choice["delta"]["content"].as_str().map_or(0, str::len);
    (content, !choice["finish_reason"].is_null())
}

fn by_types(data: &[u8]) -> Found {
    let chunk: Chunk<'_> = serde_json::from_slice(data).expect("the event is JSON");
    let choice = &chunk.choices[0];
    let content = choice.delta.content.map_or(0, str::len);
    (content, choice.finish_reason.is_some())
}

/// One event through the decoder of streams and one reader.
fn pass(decoder: &mut Decoder, read: Read) -> Found {
    let mut found = (0, false);
    let fed = decoder.feed(black_box(EVENT), &mut |event: Event<'_>| {
        found = read(event.data);
    });
    fed.expect("the event is short");
    black_box(found)
}

fn main() {
    let ways: [(&str, Read); 3] = [
        ("tokenring", by_scan),
        ("serde_json value", by_value),
        ("serde types", by_types),
    ];
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    // Without `--bench`, as under `cargo test --benches`, few passes are enough.
    let is_measured = std::env::args().any(|word| word == "--bench");
    let rounds: u32 = if is_measured { 500_000 } else { 100 };
    let mut costs = Vec::new();
    for (name, read) in ways {
        let mut decoder = Decoder::new();
        assert_eq!(pass(&mut decoder, read), (5, false), "{name}");
        criterion.bench_function(name, |bencher| bencher.iter(|| pass(&mut decoder, read)));
        costs.push(cost_ns(rounds, || pass(&mut decoder, read)));
    }
    println!("{} bytes per event, best of 5 times {rounds}", EVENT.len());
    for ((name, _), cost) in ways.iter().zip(&costs) {
        println!("{name}: {cost:.0} ns, {:.2} x tokenring", cost / costs[0]);
    }
    criterion.final_summary();
}

/// Nanoseconds of one call: the best of five rounds, for the least noise of neighbours.
fn cost_ns(rounds: u32, mut call: impl FnMut() -> Found) -> f64 {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        for _ in 0..rounds {
            call();
        }
        start.elapsed()
    });
    best.min().unwrap_or_default().as_secs_f64() * 1e9 / f64::from(rounds)
}
