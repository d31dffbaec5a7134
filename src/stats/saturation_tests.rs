use super::*;
use crate::base::{Rng, rng::Stream};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[test]
fn student_s_law_is_that_of_the_tables() {
    for (t, freedom, within) in [
        (12.706, 1.0, 0.95),
        (4.303, 2.0, 0.95),
        (3.182, 3.0, 0.95),
        (5.841, 3.0, 0.99),
        (2.571, 5.0, 0.95),
        (3.169, 10.0, 0.99),
        (2.045, 29.0, 0.95),
        (2.576, 100_000.0, 0.99),
    ] {
        let found = student(t, freedom);
        assert!((found - within).abs() < 2e-4, "{t} {freedom}: {found}");
    }
}

/// A queue: `servers` take a request each, in order.
#[derive(Clone, Copy, Debug)]
struct Queue {
    servers: usize,
    /// Mean time that one takes, s.
    service: f64,
    is_random: bool,
    /// Of what the servers take.
    utilisation: f64,
    /// Equal gaps between arrivals, else Poisson.
    is_even: bool,
}

const SMALL: Queue = Queue {
    servers: 1,
    service: 0.05,
    is_random: true,
    utilisation: 0.8,
    is_even: false,
};
const MIDDLE: Queue = Queue {
    servers: 8,
    service: 0.4,
    is_random: false,
    ..SMALL
};
const LARGE: Queue = Queue {
    servers: 64,
    service: 2.0,
    ..SMALL
};

/// Arrival, first token, end of each request.
type Request = (f64, f64, f64);

impl Queue {
    fn rate(&self) -> f64 {
        self.utilisation * self.servers as f64 / self.service
    }

    fn run(&self, seed: u64, seconds: f64) -> Vec<Request> {
        let mut rng = Rng::new(seed, Stream::Test, 0);
        let mut free: BinaryHeap<Reverse<u64>> = (0..self.servers).map(|_| Reverse(0)).collect();
        let (mut at, mut out) = (0.0, Vec::new());
        loop {
            let gap = if self.is_even { 1.0 } else { rng.exponential() };
            at += gap / self.rate();
            if at > seconds {
                return out;
            }
            let law = if self.is_random {
                rng.exponential()
            } else {
                1.0
            };
            let service = law * self.service;
            let Reverse(server) = free.pop().unwrap();
            let begin = at.max(server as f64 / 1e9);
            let end = begin + service;
            free.push(Reverse((end * 1e9) as u64));
            out.push((at, begin + 0.1 * service, end));
        }
    }
}

/// When the run is labelled first, asked once a second, and whether it is at its end.
fn judged(requests: &[Request], seconds: f64) -> (Option<f64>, bool) {
    let mut watch = SaturationWatch::new();
    let mut ends: Vec<f64> = requests.iter().map(|r| r.2).collect();
    ends.sort_by(f64::total_cmp);
    let mut firsts: Vec<(f64, f64)> = requests.iter().map(|r| (r.1, r.1 - r.0)).collect();
    firsts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sums = vec![0.0];
    for (_, ttft) in &firsts {
        sums.push(sums.last().unwrap() + ttft);
    }
    let mut labelled = None;
    for step in 0..=(seconds * 5.0) as u64 {
        let at = step as f64 / 5.0;
        let arrived = requests.partition_point(|r| r.0 <= at);
        let done = ends.partition_point(|end| *end <= at);
        let tokens = firsts.partition_point(|first| first.0 <= at);
        watch.push(
            Ns::from_ms(200 * step),
            (arrived - done) as u64,
            arrived as u64,
            done as u64,
            Ns::from_secs_f64(sums[tokens]),
            tokens as u64,
        );
        if step % 5 == 0 && labelled.is_none() {
            labelled = watch.verdict().map(|found| found.after.as_secs());
        }
    }
    (labelled, watch.verdict().is_some())
}

fn tried(queue: Queue, seconds: f64) -> (Vec<f64>, usize) {
    let mut labelled = Vec::new();
    let mut at_end = 0;
    for seed in 0..100 {
        let (first, end) = judged(&queue.run(seed, seconds), seconds);
        labelled.extend(first);
        at_end += usize::from(end);
    }
    labelled.sort_by(f64::total_cmp);
    (labelled, at_end)
}

/// A queue of random times (M/M/c) and one of equal ones (M/D/c).
fn both(queue: Queue, utilisation: f64) -> [Queue; 2] {
    [true, false].map(|is_random| Queue {
        utilisation,
        is_random,
        ..queue
    })
}

#[test]
fn a_queue_that_keeps_up_is_not_labelled() {
    for (utilisation, most) in [(0.5, 1), (0.8, 1), (0.95, 5)] {
        for queue in [SMALL, LARGE]
            .map(|queue| both(queue, utilisation))
            .concat()
        {
            let (labelled, _) = tried(queue, 60.0);
            assert!(labelled.len() <= most, "{queue:?}: {labelled:?}");
        }
    }
}

#[test]
fn a_queue_above_its_capacity_is_labelled_the_sooner_the_further() {
    // 20 and 32 requests/s are taken: it is evidence, not time, that decides.
    for (utilisation, within) in [(1.3, 40.0), (2.0, 20.0)] {
        for queue in [SMALL, LARGE]
            .map(|queue| both(queue, utilisation))
            .concat()
        {
            let (labelled, at_end) = tried(queue, within);
            assert!(labelled.len() >= 95, "{queue:?}: {labelled:?}");
            assert!(at_end >= 85, "{queue:?}: {at_end}");
        }
    }
}

#[test]
fn ten_seconds_tell_twice_the_capacity_and_minutes_a_tenth_above() {
    let twice = Queue {
        utilisation: 2.0,
        ..MIDDLE
    };
    let (labelled, _) = tried(twice, 10.0);
    assert!(labelled.len() >= 95, "{labelled:?}");
    // 80 requests/s: more samples than are kept, too.
    let tenth = Queue {
        utilisation: 1.1,
        service: 0.1,
        ..MIDDLE
    };
    let found = (0..20).filter(|&seed| judged(&tenth.run(seed, 240.0), 240.0).1);
    assert!(found.count() >= 19);
}

/// Nobody waits, but the first token takes the longer the more are in flight.
fn slowed_by_company(mut requests: Vec<Request>) -> Vec<Request> {
    let mut ends: Vec<f64> = requests.iter().map(|r| r.2).collect();
    ends.sort_by(f64::total_cmp);
    for (index, request) in requests.iter_mut().enumerate() {
        let ended = ends.partition_point(|end| *end <= request.0);
        let rising = 0.002 * (index - ended) as f64;
        request.1 = request.0 + rising.min(request.2 - request.0);
    }
    requests
}

/// 40 requests/s, and a server for each.
fn free(service: f64, is_random: bool) -> Queue {
    Queue {
        servers: 10_000,
        service,
        is_random,
        utilisation: 40.0 * service / 10_000.0,
        is_even: false,
    }
}

#[test]
fn a_start_from_empty_that_levels_off_is_not_labelled() {
    for (service, is_random) in [(3.0, false), (3.0, true), (12.0, true)] {
        for seed in 0..30 {
            let requests = slowed_by_company(free(service, is_random).run(seed, 60.0));
            let (labelled, _) = judged(&requests, 60.0);
            assert_eq!(labelled, None, "{service} {is_random} {seed}");
        }
    }
}

#[test]
fn a_rate_that_comes_up_below_the_capacity_is_not_labelled() {
    for (service, is_random) in [(0.3, false), (3.0, false), (3.0, true)] {
        for seed in 0..30 {
            let mut requests = free(service, is_random).run(seed, 60.0);
            for request in &mut requests {
                // From nothing to twice the rate, in a straight line.
                let late = (60.0 * request.0).sqrt() - request.0;
                *request = (request.0 + late, request.1 + late, request.2 + late);
            }
            let (labelled, _) = judged(&slowed_by_company(requests), 60.0);
            assert_eq!(labelled, None, "{service} {is_random} {seed}");
        }
    }
}

#[test]
fn a_pause_of_the_server_that_it_makes_up_for_is_not_labelled() {
    for seed in 0..30 {
        let queue = Queue {
            utilisation: 0.5,
            ..MIDDLE
        };
        let mut requests = queue.run(seed, 60.0);
        for request in &mut requests {
            for time in [&mut request.1, &mut request.2] {
                if (30.0..33.0).contains(time) {
                    // What came in the pause is done at twice the speed after it.
                    *time = 33.0 + (*time - 30.0) / 2.0;
                }
            }
        }
        assert_eq!(judged(&requests, 60.0), (None, false), "{seed}");
    }
}

#[test]
fn a_closed_loop_is_not_labelled_even_where_it_slows_down() {
    let mut watch = SaturationWatch::new();
    let mut done = 0;
    for step in 0..300u64 {
        done += 40 - step / 10;
        let ttft = Ns::from_ms(done * (10 + step));
        watch.push(Ns::from_ms(200 * step), 64, done + 64, done, ttft, done);
        assert_eq!(watch.verdict(), None);
    }
}

#[test]
fn a_load_so_slow_or_short_that_nothing_is_known_is_not_judged() {
    assert_eq!(SaturationWatch::new().verdict(), None);
    let mut watch = SaturationWatch::new();
    for step in 0..100u64 {
        watch.push(Ns::from_ms(200 * step), step, step, 0, Ns::ZERO, 0);
        // Again, and back in time.
        watch.push(Ns::from_ms(200 * step), 9, 9, 9, Ns::ZERO, 9);
        watch.push(Ns::from_ms(step), 9, 9, 9, Ns::ZERO, 9);
        assert_eq!(watch.verdict(), None);
    }
}

#[test]
fn memory_stays_bounded_and_the_figures_are_those_of_the_window() {
    let mut watch = SaturationWatch::new();
    // 20 come a second and 10 are done; the wait for the first token grows by half a second each.
    let mut ttft = Ns::ZERO;
    for step in 0..40_000u64 {
        let (came, done) = (4 * step, 2 * step);
        ttft = ttft + Ns::from_ms(2 * 100 * step);
        watch.push(Ns::from_ms(200 * step), came - done, came, done, ttft, done);
        assert!(watch.samples.len() <= SAMPLES_MAX);
    }
    let found = watch.verdict().unwrap();
    assert_eq!(found.after, Ns::from_ms(39_999 * 200));
    assert!((found.window.as_secs() - 6_000.0).abs() < 60.0);
    assert!((found.arrived_per_s - 20.0).abs() < 0.1);
    assert!((found.done_per_s - 10.0).abs() < 0.1);
    assert_eq!(found.in_flight_last, 2 * 39_999);
    let ratio = found.ttft_late.as_secs() / found.ttft_early.as_secs();
    assert!((1.7..2.0).contains(&ratio), "{ratio}");
}
