//! The stamp that the mock writes into each event and the client's self-check reads back.
//!
//! `fp_<intended>_<actual>`: two points of `CLOCK_MONOTONIC` in ns, 16 decimal digits each. It is
//! the value of `system_fingerprint` in OpenAI's shapes and of `stamp` in Triton's.

use crate::base::Ns;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// What a stamp begins with.
pub const PREFIX: &str = "fp_";
/// Digits of each of the two points.
pub const DIGITS: usize = 16;
/// Bytes of a stamp after its prefix.
pub const BODY_BYTES: usize = 2 * DIGITS + 1;
/// Points are written modulo this: 115 days.
pub const MODULUS: u64 = 10_000_000_000_000_000;

/// The bytes after the prefix. Cost: about 30 ns.
pub fn encode(intended: Ns, actual: Ns) -> [u8; BODY_BYTES] {
    let mut body = [b'_'; BODY_BYTES];
    put_decimal(&mut body[..DIGITS], intended.0);
    put_decimal(&mut body[DIGITS + 1..], actual.0);
    body
}

/// The intended and the actual send time of the first stamp in `data`, modulo [`MODULUS`].
pub fn find(data: &[u8]) -> Option<(Ns, Ns)> {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(PREFIX));
    FINDER.find_iter(data).find_map(|at| {
        let body = data.get(at + PREFIX.len()..at + PREFIX.len() + BODY_BYTES)?;
        if body[DIGITS] != b'_' {
            return None;
        }
        Some((decimal(&body[..DIGITS])?, decimal(&body[DIGITS + 1..])?))
    })
}

/// The full point of a stamp's value, given any point within 57 days of it.
pub fn lift(value: Ns, near: Ns) -> Ns {
    let base = near.0 - near.0 % MODULUS;
    let at = base + value.0 % MODULUS;
    let half = MODULUS / 2;
    if at > near.0 + half && at >= MODULUS {
        Ns(at - MODULUS)
    } else if at + half < near.0 {
        Ns(at + MODULUS)
    } else {
        Ns(at)
    }
}

fn put_decimal(out: &mut [u8], mut value: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

fn decimal(digits: &[u8]) -> Option<Ns> {
    digits
        .iter()
        .try_fold(0u64, |value, digit| {
            digit
                .is_ascii_digit()
                .then(|| value * 10 + u64::from(digit - b'0'))
        })
        .map(Ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_found_behind_text_that_looks_like_one() {
        let mut data = br#"{"id":"fp_12","system_fingerprint":"fp_"#.to_vec();
        data.extend_from_slice(&encode(Ns(12_345), Ns(67_890)));
        data.push(b'"');
        assert_eq!(find(&data), Some((Ns(12_345), Ns(67_890))));
        assert_eq!(find(&data[..data.len() - 2]), None);
        assert_eq!(find(b"fp_"), None);
    }

    #[test]
    fn a_stamp_is_lifted_over_the_wrap() {
        let truth = Ns(3 * MODULUS + 5);
        for near in [truth, Ns(truth.0 - 100), Ns(truth.0 + 1_000)] {
            assert_eq!(lift(Ns(truth.0 % MODULUS), near), truth);
        }
        assert_eq!(lift(Ns(MODULUS - 3), Ns(MODULUS + 3)), Ns(MODULUS - 3));
        assert_eq!(lift(Ns(7), Ns(9)), Ns(7));
    }
}
