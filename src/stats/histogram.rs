//! Histograms of 3 significant digits with an exact minimum, maximum, sum and count beside them.
//! The only file that names hdrhistogram.

use super::summary::{Distribution, PERCENTILES, Spread};
use crate::base::Ns;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use std::io;
use std::time::{Duration, UNIX_EPOCH};

/// Values up to here are recorded without growing: one hour in ns.
const PREPARED_MAX: u64 = 3_600_000_000_000;
/// Significant digits.
const DIGITS: u8 = 3;

/// A histogram of `u64` values, ns as a rule.
///
/// Range: 0 counts as 1 in the percentiles (the minimum stays 0); beyond one hour it grows.
/// Cost: about 300 KB; a record costs some 10 ns and allocates nothing below one hour.
#[derive(Clone, Debug)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.min, self.max, self.sum) == (other.min, other.max, other.sum)
            && self.inner == other.inner
    }
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Histogram {
        // The bounds are constants that the crate accepts: low 1, high at least 2, digits up to 5.
        let mut inner = hdrhistogram::Histogram::new_with_bounds(1, PREPARED_MAX, DIGITS)
            .expect("the bounds are constant and right");
        inner.auto(true);
        Histogram {
            inner,
            min: u64::MAX,
            max: 0,
            sum: 0,
        }
    }

    /// From buckets alone, as a log has them: minimum, maximum and sum have 3 digits then.
    fn from_buckets(mut inner: hdrhistogram::Histogram<u64>) -> Histogram {
        inner.auto(true);
        let sum = inner
            .iter_recorded()
            .map(|b| u128::from(b.value_iterated_to()) * u128::from(b.count_at_value()))
            .sum();
        Histogram {
            min: if inner.is_empty() {
                u64::MAX
            } else {
                inner.min()
            },
            max: inner.max(),
            sum,
            inner,
        }
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Adds one value `count` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        if self.inner.record_n(value.max(1), count).is_err() {
            // Only when growth fails: the top bucket takes it; the exact maximum still tells.
            self.inner.saturating_record_n(value, count);
        }
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value) * u128::from(count);
    }

    /// Adds another's values. The order of merges does not matter.
    pub fn merge(&mut self, other: &Histogram) {
        if other.is_empty() {
            return;
        }
        if self.inner.add(&other.inner).is_err() {
            for bucket in other.inner.iter_recorded() {
                let (value, count) = (bucket.value_iterated_to(), bucket.count_at_value());
                self.inner.saturating_record_n(value, count);
            }
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.inner.reset();
        (self.min, self.max, self.sum) = (u64::MAX, 0, 0);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// True without a value.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Smallest value, exact.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.min)
    }

    /// Largest value, exact.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max)
    }

    /// Sum, exact.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The value at a quantile, to 3 digits, within minimum and maximum; `None` when empty.
    ///
    /// Range: 0 to 1, clamped.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        let found = self.inner.value_at_quantile(quantile.clamp(0.0, 1.0));
        Some(found.clamp(self.min, self.max))
    }

    /// How many values are at most so large, to 3 digits.
    pub fn count_up_to(&self, value: u64) -> u64 {
        self.inner.count_between(0, value)
    }

    /// Spread for the client's report; all 0 when empty.
    pub fn spread(&self) -> Spread {
        let at = |q| self.quantile(q).unwrap_or(0);
        Spread {
            count: self.count(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.max,
        }
    }

    /// As a distribution in other units: ns with 1e6 per ms give ms.
    pub fn distribution(&self, per_unit: f64) -> Option<Distribution> {
        if self.is_empty() {
            return None;
        }
        let unit = |value: u64| super::distribution::float(value) / per_unit;
        let sum = float_wide(self.sum) / per_unit;
        Some(Distribution {
            avg: sum / super::distribution::float(self.count()),
            min: unit(self.min),
            max: unit(self.max),
            std: self.inner.stdev() / per_unit,
            sum,
            count: self.count(),
            percentiles: PERCENTILES.map(|p| unit(self.quantile(p / 100.0).unwrap_or(0))),
            exact: false,
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sum needs no more than 53 bits"
)]
fn float_wide(value: u128) -> f64 {
    value as f64
}

/// One histogram of an interval log.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Metric; empty when the log names none.
    pub tag: String,
    /// Since the start of the run, to the millisecond.
    pub start: Duration,
    /// To the millisecond.
    pub length: Duration,
    /// Values in ns.
    pub histogram: Histogram,
}

/// `None` for what is not base64 with padding.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let (mut out, mut held, mut bits) = (Vec::with_capacity(text.len()), 0u32, 0u32);
    for byte in digits.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = held << 6 & 0xffff | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    Some(out)
}

/// Text of HdrHistogram's interval log (version 2, deflated), as its tools and plotters read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntervalLog {
    bytes: Vec<u8>,
}

impl IntervalLog {
    /// A log of an empty run that starts at this wall time, ns since 1970.
    ///
    /// # Errors
    /// Never for memory; the signature is that of the writer below it.
    pub fn new(start_wall_ns: u64) -> io::Result<IntervalLog> {
        let mut bytes = b"#[Histogram log format version 1.3]\n".to_vec();
        let start = UNIX_EPOCH + Duration::from_nanos(start_wall_ns);
        IntervalLogWriterBuilder::new()
            .add_comment("[values in ns]")
            .with_base_time(start)
            .with_start_time(start)
            .begin_log_with(&mut bytes, &mut V2DeflateSerializer::new())?;
        bytes.extend_from_slice(
            b"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
              \"Interval_Compressed_Histogram\"\n",
        );
        Ok(IntervalLog { bytes })
    }

    /// Adds a histogram: `start` and `length` as spans since the start of the run.
    ///
    /// # Errors
    /// A tag with a comma, a space or a line end; a histogram that does not serialize.
    pub fn push(
        &mut self,
        tag: &str,
        start: Ns,
        length: Ns,
        histogram: &Histogram,
    ) -> io::Result<()> {
        let tag = Tag::new(tag).ok_or_else(|| io::Error::other("no comma or space in a tag"))?;
        let mut serializer = V2DeflateSerializer::new();
        IntervalLogWriterBuilder::new()
            .begin_log_with(&mut self.bytes, &mut serializer)?
            .write_histogram(
                &histogram.inner,
                Duration::from_nanos(start.0),
                Duration::from_nanos(length.0),
                Some(tag),
            )
            .map_err(|e| io::Error::other(e.to_string()))
    }

    /// The histograms of a log, as any reader of the format finds them.
    ///
    /// # Errors
    /// Text that is no log, or a histogram that does not decode.
    pub fn read(log: &[u8]) -> io::Result<Vec<Interval>> {
        let broken = |what: String| io::Error::other(format!("not a histogram log: {what}"));
        let mut intervals = Vec::new();
        for entry in IntervalLogIterator::new(log) {
            let LogEntry::Interval(found) = entry.map_err(|error| broken(format!("{error:?}")))?
            else {
                continue;
            };
            let bytes = from_base64(found.encoded_histogram())
                .ok_or_else(|| broken("base64".to_owned()))?;
            let inner = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .map_err(|error| broken(error.to_string()))?;
            intervals.push(Interval {
                tag: found.tag().map_or_else(String::new, |tag| tag.to_string()),
                start: found.start_timestamp(),
                length: found.duration(),
                histogram: Histogram::from_buckets(inner),
            });
        }
        Ok(intervals)
    }

    /// The text so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::new();
        values.iter().for_each(|&v| h.record(v));
        h
    }

    #[test]
    fn zero_and_a_day_are_kept() {
        let h = of(&[0, 86_400_000_000_000]);
        assert_eq!((h.min(), h.max()), (Some(0), Some(86_400_000_000_000)));
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    #[test]
    fn an_interval_log_has_a_line_per_histogram() {
        let mut log = IntervalLog::new(1_000_000_000).unwrap();
        log.push("ttft", Ns::ZERO, Ns::from_ms(1000), &of(&[5, 6]))
            .unwrap();
        let text = String::from_utf8(log.into_bytes()).unwrap();
        assert!(
            text.lines()
                .last()
                .unwrap()
                .starts_with("Tag=ttft,0.000,1.000,"),
            "{text}"
        );
    }

    #[test]
    fn a_log_reads_back_as_it_was_written() {
        let histograms = [
            ("time_to_first_token", of(&[5, 6_000, 7_000_000])),
            ("request_latency", of(&[86_400_000_000_000])),
            ("empty", Histogram::new()),
        ];
        let mut log = IntervalLog::new(1_796_003_780_483_785_999).unwrap();
        for (tag, histogram) in &histograms {
            log.push(tag, Ns::from_ms(3), Ns::from_ms(1500), histogram)
                .unwrap();
        }
        let read = IntervalLog::read(log.as_bytes()).unwrap();
        assert_eq!(read.len(), histograms.len());
        for (found, (tag, histogram)) in read.iter().zip(&histograms) {
            assert_eq!(found.tag, *tag);
            assert_eq!(found.start, Duration::from_millis(3));
            assert_eq!(found.length, Duration::from_millis(1500));
            assert!(found.histogram.inner == histogram.inner, "{tag}");
            assert_eq!(found.histogram.count(), histogram.count());
        }
    }

    #[test]
    fn what_is_no_log_is_an_error() {
        for text in ["Tag=a,0.1,1.0,2.0,!", "Tag=a,0.1,1.0,2.0,QUJD", "x"] {
            assert!(IntervalLog::read(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(from_base64("QUJDRA=="), Some(b"ABCD".to_vec()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn merge_order_does_not_matter(
            a in prop::collection::vec(0..1u64 << 42, 0..50),
            b in prop::collection::vec(0..1u64 << 42, 1..50),
        ) {
            let (mut ab, mut ba) = (of(&a), of(&b));
            ab.merge(&of(&b));
            ba.merge(&of(&a));
            prop_assert!(ab == ba);
            prop_assert_eq!(ab.distribution(1e6), ba.distribution(1e6));
        }
    }
}
