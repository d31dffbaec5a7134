//! Question: what does one due time cost a core? Unit: ns per due time, a million in a row, as a
//! run asks for them; `claim` is a whole turn of the ticket for a request that is due.

use criterion::{Criterion, Throughput};
use std::hint::black_box;
use std::time::Duration;
use tokenring::base::Ns;
use tokenring::config::{Ramp, RampKind};
use tokenring::engine::{Claim, Cursor, Pace, PaceOptions, PhasePlan, Want};
use tokenring::schedule::{Arrivals, Curve, Gaps, Law};

const COUNT: u64 = 1_000_000;

fn law(gaps: Gaps, curve: Curve) -> Law {
    Law::Renewal {
        gaps,
        curve,
        seed: 42,
        stretch: 1.0,
    }
}

fn due_times(law: &Law) -> Ns {
    let mut arrivals = Arrivals::new(law.clone(), 0, false);
    let last = (0..COUNT).filter_map(|index| arrivals.due(index)).last();
    last.unwrap_or_default()
}

fn claims(law: &Law) -> u64 {
    let pace = Pace::new(PaceOptions {
        phases: vec![PhasePlan {
            measured: true,
            law: Some(law.clone()),
            count: Some(COUNT),
            ..PhasePlan::default()
        }],
        urls: 1,
        cores: 1,
        ..PaceOptions::default()
    });
    pace.begin(Ns(1));
    let (mut cursor, mut clock) = (Cursor::default(), Ns(1));
    loop {
        match pace.claim(clock, 0, &mut cursor, Want::Session) {
            Claim::Take(_) => {
                pace.ended(clock, 0, 0, false);
                pace.session_ended(clock, 0);
            }
            Claim::NotBefore(time) => clock = time,
            Claim::Full | Claim::Finished => return pace.claimed_count(),
        }
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .measurement_time(Duration::from_secs(3))
        .warm_up_time(Duration::from_millis(500))
        .sample_size(10);
    let rate = 10_000.0;
    let over = Ns::from_ms(100_000);
    let ramp = |kind| Curve::ramp(rate, &Ramp { kind, over }, 42);
    let laws = [
        ("constant", law(Gaps::Constant, Curve::flat(rate))),
        ("poisson", law(Gaps::Exponential, Curve::flat(rate))),
        (
            "gamma 0.5",
            law(Gaps::Gamma { shape: 0.5 }, Curve::flat(rate)),
        ),
        (
            "gamma 4",
            law(Gaps::Gamma { shape: 4.0 }, Curve::flat(rate)),
        ),
        (
            "poisson, linear ramp",
            law(Gaps::Exponential, ramp(RampKind::Linear)),
        ),
        (
            "poisson, exponential ramp",
            law(Gaps::Exponential, ramp(RampKind::Exponential)),
        ),
    ];
    let mut group = criterion.benchmark_group("due time");
    group.throughput(Throughput::Elements(COUNT));
    for (name, law) in &laws {
        group.bench_function(*name, |bencher| bencher.iter(|| black_box(due_times(law))));
    }
    group.bench_function("poisson, claim", |bencher| {
        bencher.iter(|| black_box(claims(&laws[1].1)));
    });
    group.finish();
    criterion.final_summary();
}
