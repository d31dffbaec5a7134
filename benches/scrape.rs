//! Question: how long does a page of metrics take to become families of samples? Unit: ms for 1 MB,
//! and MB/s; beside it the ratio to only looking at each line's bytes. Without `--bench`
//! (`cargo test --benches`) it runs small.
//!
//! `cargo bench --bench scrape`
#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;
use tokenring::scrape::parse;

/// A page as vLLM's: histograms with labels of some length, counters, gauges, help.
fn page(bytes: usize) -> String {
    let mut text = String::new();
    let mut family = 0;
    while text.len() < bytes {
        let name = format!("vllm:request_stage_{family}_time_seconds");
        let _ = write!(
            text,
            "# HELP {name} Histogram of time in a stage.\n# TYPE {name} histogram\n"
        );
        for engine in 0..4 {
            let labels = format!("engine=\"{engine}\",model_name=\"meta-llama/Llama-3.1-8B\"");
            for le in [
                "0.001", "0.01", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf",
            ] {
                let _ = writeln!(
                    text,
                    "{name}_bucket{{le=\"{le}\",{labels}}} {}.0",
                    family * 7
                );
            }
            let _ = writeln!(text, "{name}_count{{{labels}}} {}.0", family * 7);
            let _ = writeln!(text, "{name}_sum{{{labels}}} 5.6419435{family}e+02");
        }
        family += 1;
    }
    text
}

/// The least of several runs, in ms.
fn least_ms(runs: usize, mut work: impl FnMut()) -> f64 {
    let one = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..runs).map(one).fold(f64::INFINITY, f64::min)
}

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (bytes, runs) = if is_bench {
        (1_000_000, 50)
    } else {
        (20_000, 2)
    };
    let text = page(bytes);
    let samples = parse(&text).samples_count();
    let ms = least_ms(runs, || {
        black_box(parse(black_box(&text)));
    });
    let lines_ms = least_ms(runs, || {
        black_box(black_box(&text).lines().map(str::len).sum::<usize>());
    });
    #[expect(clippy::cast_precision_loss, reason = "bytes of a page")]
    let mb = text.len() as f64 / 1e6;
    println!(
        "{mb:.2} MB, {samples} samples: {ms:.2} ms, {:.0} MB/s, {:.1} x of only finding its lines",
        mb / ms * 1e3,
        ms / lines_ms
    );
}
