//! Due times of a trace: its stamps as offsets, cut, sped up, spread.

use crate::base::{Ns, Rng, rng::Stream};

/// Stamps from here on are times of day (ms since 1970, this is 1973): as an offset it would be
/// three years.
const EPOCH_MIN: Ns = Ns::from_ms(100_000_000_000);
/// No run lasts longer than ten years.
const LAST_MAX: Ns = Ns::from_ms(315_360_000_000);

/// How stamps become due times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceTimes {
    /// The first stamp that is left is the start of the run; else `start` is, or zero.
    pub auto_offset: bool,
    /// Leave out what is before.
    pub start: Option<Ns>,
    /// Leave out what is after.
    pub end: Option<Ns>,
    /// So many times as fast, above zero.
    pub speedup: f64,
    /// Spread requests of one stamp over the time to the next, by this seed.
    pub jitter: Option<u64>,
}

impl Default for TraceTimes {
    /// As the file has it.
    fn default() -> TraceTimes {
        TraceTimes {
            auto_offset: false,
            start: None,
            end: None,
            speedup: 1.0,
            jitter: None,
        }
    }
}

/// A trace that no schedule can be made of.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceTimesError {
    /// No stamp is left.
    #[error("no request lies between the start and the end offset")]
    Empty,
    /// Not above zero.
    #[error("the speed-up must be above 0")]
    Speedup,
    /// The last stamp is too far from the start.
    #[error("the last request would be due after over ten years; are the stamps milliseconds?")]
    TooLong,
}

/// When each entry of a trace is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSchedule {
    /// Number of the entry in the file, from 0, and its offset from the start, ascending; equal
    /// ones in the order of the file.
    pub due: Vec<(usize, Ns)>,
    /// What a reader must know.
    pub warning: Option<String>,
}

/// Due times of the entries that have a stamp; the others follow those before them.
///
/// Stamps that are times of day count from the first. `start` and `end` are stamps, of a file with
/// times of day offsets from its first one; both ends are in.
pub fn trace_times(
    stamps: &[Option<Ns>],
    options: TraceTimes,
) -> Result<TraceSchedule, TraceTimesError> {
    if !(options.speedup > 0.0 && options.speedup.is_finite()) {
        return Err(TraceTimesError::Speedup);
    }
    let (mut at, warning) = in_order(stamps);
    if let Some(&(_, first)) = at.first().filter(|(_, first)| *first >= EPOCH_MIN) {
        for (_, stamp) in &mut at {
            *stamp = stamp.saturating_since(first);
        }
    }
    let spreads = options.jitter.map(|seed| spreads(&at, seed));
    let (low, high) = (options.start.unwrap_or(Ns::ZERO), options.end);
    let is_kept = |stamp: Ns| stamp >= low && high.is_none_or(|high| stamp <= high);
    let kept = || (0..).zip(&at).filter(|(_, (_, stamp))| is_kept(*stamp));
    let zero = match (options.auto_offset, kept().next()) {
        (_, None) => return Err(TraceTimesError::Empty),
        (true, Some((_, (_, first)))) => *first,
        (false, _) => low,
    };
    let place = |(place, &(entry, stamp)): (usize, &(usize, Ns))| {
        let spread = spreads.as_ref().map_or(Ns::ZERO, |spreads| spreads[place]);
        let offset = stamp.saturating_since(zero) + spread;
        (entry, faster(offset, options.speedup))
    };
    let due: Vec<(usize, Ns)> = kept().map(place).collect();
    match due.last() {
        Some((_, last)) if *last > LAST_MAX => Err(TraceTimesError::TooLong),
        _ => Ok(TraceSchedule { due, warning }),
    }
}

/// Entries with their stamps by time, those of one time in the order of the file.
fn in_order(stamps: &[Option<Ns>]) -> (Vec<(usize, Ns)>, Option<String>) {
    let stamped = (0..).zip(stamps);
    let mut at: Vec<(usize, Ns)> = stamped.filter_map(|(n, at)| Some((n, (*at)?))).collect();
    let back = at.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
    at.sort_by_key(|&(_, stamp)| stamp);
    let warning = (back > 0).then(|| {
        format!(
            "the trace goes back in time {back} times: requests go in the order of their stamps"
        )
    });
    (at, warning)
}

fn faster(offset: Ns, speedup: f64) -> Ns {
    if speedup == 1.0 {
        return offset;
    }
    Ns::from_secs_f64(offset.as_secs() / speedup)
}

/// How long after its stamp each request goes: those that share a stamp are spread at random over
/// the time to the next one, in their order; those of the last over the time since the one before.
/// A request alone at its stamp stays there.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of the gap, rounded down"
)]
fn spreads(at: &[(usize, Ns)], seed: u64) -> Vec<Ns> {
    let mut out = Vec::with_capacity(at.len());
    let mut before = None;
    for group in at.chunk_by(|a, b| a.1 == b.1) {
        let stamp = group[0].1;
        let next = at.get(out.len() + group.len()).map(|(_, next)| *next);
        let gap = match (next, before) {
            (Some(next), _) => next.saturating_since(stamp),
            (None, Some(before)) => stamp.saturating_since(before),
            (None, None) => Ns::ZERO,
        };
        let draw = |&(entry, _): &(usize, Ns)| {
            let part = Rng::new(seed, Stream::Arrival, entry as u64).unit();
            Ns((gap.0 as f64 * part) as u64).min(Ns(gap.0.saturating_sub(1)))
        };
        let mut drawn: Vec<Ns> = match group.len() {
            1 => vec![Ns::ZERO],
            _ => group.iter().map(draw).collect(),
        };
        drawn.sort_unstable();
        out.append(&mut drawn);
        before = Some(stamp);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(ms: &[f64]) -> Vec<Option<Ns>> {
        ms.iter()
            .map(|ms| Some(Ns::from_secs_f64(ms / 1e3)))
            .collect()
    }

    /// Entry and offset in ms.
    fn due(ms: &[f64], options: TraceTimes) -> Vec<(usize, f64)> {
        let made = trace_times(&stamps(ms), options).unwrap();
        made.due.iter().map(|&(n, at)| (n, at.as_ms())).collect()
    }

    const PLAIN: TraceTimes = TraceTimes {
        auto_offset: false,
        start: None,
        end: None,
        speedup: 1.0,
        jitter: None,
    };

    #[test]
    fn times_of_day_become_offsets_by_a_stable_sort_with_one_warning() {
        // Field case DT-3.
        let epoch = Ns::from_ms(1_787_000_000_000);
        let stamps = [0, 250, 250, 100].map(|ms| Some(epoch + Ns::from_ms(ms)));
        let made = trace_times(&stamps, PLAIN).unwrap();
        let ms: Vec<(usize, f64)> = made.due.iter().map(|&(n, at)| (n, at.as_ms())).collect();
        assert_eq!(ms, [(0, 0.0), (3, 100.0), (1, 250.0), (2, 250.0)]);
        let warning = made.warning.unwrap();
        assert!(warning.starts_with("the trace goes back in time 1 times"));
        let sorted = trace_times(&[Some(Ns(5)), None, Some(Ns(5))], PLAIN).unwrap();
        assert_eq!(sorted.due, [(0, Ns(5)), (2, Ns(5))]);
        assert_eq!(sorted.warning, None);
    }

    #[test]
    fn offsets_cut_both_ends_in_and_the_start_or_the_first_left_is_zero() {
        let ms = [1_000.0, 1_500.0, 2_000.0, 2_500.0, 3_000.0];
        assert_eq!(due(&[12.5], PLAIN), [(0, 12.5)]);
        let cut = TraceTimes {
            start: Some(Ns::from_ms(1_200)),
            end: Some(Ns::from_ms(2_500)),
            ..PLAIN
        };
        assert_eq!(due(&ms, cut), [(1, 300.0), (2, 800.0), (3, 1_300.0)]);
        let auto = TraceTimes {
            auto_offset: true,
            ..cut
        };
        assert_eq!(due(&ms, auto), [(1, 0.0), (2, 500.0), (3, 1_000.0)]);
        let edge = TraceTimes {
            start: Some(Ns::from_ms(1_500)),
            ..cut
        };
        assert_eq!(due(&ms, edge)[0], (1, 0.0));
        let none = TraceTimes {
            start: Some(Ns::from_ms(9_000)),
            end: None,
            ..cut
        };
        let made = trace_times(&stamps(&ms), none);
        assert_eq!(made, Err(TraceTimesError::Empty));
        assert_eq!(trace_times(&[None], PLAIN), Err(TraceTimesError::Empty));
    }

    #[test]
    fn a_speed_up_divides_and_must_be_above_zero() {
        let twice = TraceTimes {
            speedup: 2.0,
            ..PLAIN
        };
        assert_eq!(
            due(&[0.0, 5.0, 1_000.0], twice)[1..],
            [(1, 2.5), (2, 500.0)]
        );
        for speedup in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let made = trace_times(&stamps(&[1.0]), TraceTimes { speedup, ..PLAIN });
            assert_eq!(made, Err(TraceTimesError::Speedup));
        }
        let slow = TraceTimes {
            speedup: 1e-9,
            ..PLAIN
        };
        let made = trace_times(&stamps(&[1e6]), slow);
        assert_eq!(made, Err(TraceTimesError::TooLong));
    }

    #[test]
    fn jitter_spreads_a_shared_stamp_up_to_the_next_in_the_order_of_the_file() {
        // As Mooncake's traces have them: many at one stamp, a stamp each 3 s.
        let ms: Vec<f64> = (0..100).map(|n| f64::from(n / 10) * 3_000.0).collect();
        let jitter = TraceTimes {
            jitter: Some(7),
            ..PLAIN
        };
        let spread = due(&ms, jitter);
        assert_eq!(spread, due(&ms, jitter));
        assert!(spread.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        for (entry, at) in &spread {
            let stamp = ms[*entry];
            assert!((stamp..stamp + 3_000.0).contains(at), "{entry}: {at}");
        }
        let within = spread.iter().map(|(entry, at)| at - ms[*entry]);
        let mean = within.sum::<f64>() / 100.0;
        assert!((1_200.0..1_800.0).contains(&mean), "{mean}");
        // What is cut off changes nothing in what is left.
        let cut = TraceTimes {
            end: Some(Ns::from_ms(6_000)),
            ..jitter
        };
        assert_eq!(due(&ms, cut), spread[..30]);
        let faster = TraceTimes {
            speedup: 3.0,
            ..jitter
        };
        assert!((due(&ms, faster)[99].1 - spread[99].1 / 3.0).abs() < 1e-5);
        // Alone at a stamp, or at the only one there is.
        assert_eq!(due(&[5.0, 9.0], jitter), [(0, 5.0), (1, 9.0)]);
        assert_eq!(due(&[5.0, 5.0], jitter), [(0, 5.0), (1, 5.0)]);
        // No room between two stamps.
        let tight = [Some(Ns(1)), Some(Ns(1)), Some(Ns(2))];
        let made = trace_times(&tight, jitter).unwrap();
        assert_eq!(made.due, [(0, Ns(1)), (1, Ns(1)), (2, Ns(2))]);
    }
}
