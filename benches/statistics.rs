//! Question: how long does a comparison of a run's requests take? Unit: seconds, one metric of a
//! million requests, a thousand resamples on two threads; beside it the ratio to resampling in the
//! plain way, which copies and sorts every resample. Without `--bench` (`cargo test --benches`) it
//! runs small.
//!
//! `cargo bench --bench statistics`
#![expect(clippy::print_stdout, reason = "a bench prints")]

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Instant;
use tokenring::base::rng::{Rng, Stream};
use tokenring::stats::blocks::block_length;
use tokenring::stats::bootstrap::{Resampling, Statistic, resample, resample_pairs};
use tokenring::stats::distribution::percentile;
use tokenring::stats::ranks::mann_whitney;

const ASKED: [Statistic; 5] = [
    Statistic::Mean,
    Statistic::Percentile(50.0),
    Statistic::Percentile(90.0),
    Statistic::Percentile(95.0),
    Statistic::Percentile(99.0),
];

/// Latencies with a tail, each with something of the one before.
fn latencies(count: usize, rho: f64, index: u64) -> Vec<f64> {
    let mut rng = Rng::new(1, Stream::Test, index);
    let mut level = 0.0;
    let mut next = || {
        level = rho * level + rng.normal();
        100.0 * (level / 4.0).exp() + 5.0 * rng.exponential()
    };
    (0..count).map(|_| next()).collect()
}

/// CPU seconds of the process: what is left of a time on a busy machine.
fn cpu_s() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds of one process")]
    let s = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
    s
}

/// Seconds by the clock, and of CPU.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), cpu_s());
    black_box(work());
    (start.elapsed().as_secs_f64(), cpu_s() - cpu)
}

/// One resample after the other, each made of values and sorted.
fn plainly(values: &[f64], resamples: u64) -> f64 {
    let block = block_length(values);
    let count = values.len();
    let mut sum = 0.0;
    for index in 0..resamples {
        let mut rng = Rng::new(1, Stream::Test, index);
        let mut drawn = Vec::with_capacity(count + block);
        while drawn.len() < count {
            let start = usize::try_from(rng.below(count as u64)).unwrap_or(0);
            drawn.extend((start..start + block).map(|at| values[at % count]));
        }
        drawn.truncate(count);
        drawn.sort_unstable_by(f64::total_cmp);
        sum += percentile(&drawn, 99.0).unwrap_or(0.0);
    }
    sum
}

fn main() {
    let is_bench = std::env::args().any(|arg| arg == "--bench");
    let (count, resamples) = if is_bench {
        (1_000_000, 1_000)
    } else {
        (20_000, 20)
    };
    let by = Resampling {
        count: resamples,
        ..Resampling::default()
    };
    println!(
        "{count} requests, {resamples} resamples, avg p50 p90 p95 p99, {} threads",
        by.threads
    );
    for (name, rho) in [
        ("independent", 0.0),
        ("dependent (0.5)", 0.5),
        ("long rows (0.98)", 0.98),
    ] {
        let (a, b) = (latencies(count, rho, 0), latencies(count, rho, 1));
        let block = block_length(&a);
        let (one, cpu) = timed(|| resample(&a, &ASKED, &by));
        println!("{name}, blocks of {block}: one sample {one:.2} s, CPU {cpu:.2} s");
        let (pairs, cpu) = timed(|| resample_pairs(&a, &b, &ASKED, &by));
        println!("{name}, blocks of {block}: pairs {pairs:.2} s, CPU {cpu:.2} s");
        if rho == 0.5 {
            let few = 4;
            let (_, plain) = timed(|| plainly(&a, few));
            let plain = plain * f64::from(resamples) / 4.0;
            let (_, own) = timed(|| resample(&a, &ASKED, &by));
            println!(
                "{name}: plainly CPU {plain:.0} s (from {few}), {:.0} times",
                plain / own
            );
            let (_, cpu) = timed(|| block_length(&a));
            println!("{name}: block length CPU {cpu:.3} s");
            let (_, cpu) = timed(|| mann_whitney(&a, &b));
            println!("{name}: Mann and Whitney CPU {cpu:.3} s");
        }
    }
}
