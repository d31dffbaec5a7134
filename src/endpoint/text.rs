//! Text as the inside of a JSON string, and the halves of surrogate pairs in it.
//!
//! A server that cuts its answer by UTF-16 units puts the halves of one character into two events.
//! Each alone is no text, and `serde_json` refuses it; joined they are the character. So texts stay
//! escaped, halves and all, until they are whole; only a half that stays alone becomes U+FFFD.

use super::Part;
use memchr::memchr;
use std::ops::RangeInclusive;

/// What a half without its other half becomes.
const REPLACEMENT: char = '\u{fffd}';
/// A half, marked, is the private-use character at this plus its value.
const MARK: u32 = 0xF0000;
/// All marks.
const MARKS: RangeInclusive<char> = '\u{fd800}'..='\u{fdfff}';

/// The text of the inside of a JSON string. Half a surrogate pair becomes U+FFFD, as what is no
/// UTF-8 does; what is no escape of JSON is taken as it is.
pub fn unescape(escaped: &[u8]) -> String {
    let mut out = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (text, used) = escape(&rest[at..]);
        out.extend_from_slice(text.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[at + used..];
    }
    out.extend_from_slice(rest);
    String::from_utf8(out)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Appends a text that is the inside of a JSON string as a whole one, with what [`unescape`] mends
/// mended: it goes out again.
pub fn quote(escaped: &[u8], out: &mut Vec<u8>) {
    // Writing a text to a buffer does not fail.
    let _ = serde_json::to_writer(out, &unescape(escaped));
}

/// The character of the escape at the front of `bytes`, and the bytes that it takes.
fn escape(bytes: &[u8]) -> (char, usize) {
    let simple = match bytes.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
        _ => {
            return match (unit(bytes), unit(bytes.get(6..).unwrap_or_default())) {
                (Some(high @ 0xD800..0xDC00), Some(low @ 0xDC00..0xE000)) => {
                    let code = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                    (char::from_u32(code).unwrap_or(REPLACEMENT), 12)
                }
                (Some(code), _) => (char::from_u32(code).unwrap_or(REPLACEMENT), 6),
                (None, _) => ('\\', 1),
            };
        }
    };
    (simple, 2)
}

/// The UTF-16 unit of a `\uXXXX` at the front of `bytes`.
fn unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |value, &digit| {
        Some(value * 16 + char::from(digit).to_digit(16)?)
    })
}

/// `data` with a character in place of each half that stands alone, so that `serde_json` takes it;
/// `None` when there is none. True when that character is a mark, to be undone by [`unmark`]: data
/// that has such characters of its own (nobody does) gets U+FFFD at once.
pub(super) fn mark(data: &[u8]) -> Option<(Vec<u8>, bool)> {
    let is_free = !unescape(data).chars().any(|one| MARKS.contains(&one));
    let mut out = Vec::with_capacity(data.len());
    let (mut rest, mut found) = (data, false);
    while let Some(at) = memchr(b'\\', rest) {
        let (before, from) = rest.split_at(at);
        out.extend_from_slice(before);
        let (_, used) = escape(from);
        let alone = unit(from).filter(|unit| used == 6 && (0xD800..0xE000).contains(unit));
        match alone.and_then(|half| char::from_u32(MARK + half)) {
            Some(mark) => {
                let text = if is_free { mark } else { REPLACEMENT };
                out.extend_from_slice(text.encode_utf8(&mut [0; 4]).as_bytes());
                found = true;
            }
            None => out.extend_from_slice(&from[..used]),
        }
        rest = &from[used..];
    }
    out.extend_from_slice(rest);
    found.then_some((out, is_free))
}

/// Undoes [`mark`]: halves in texts, which may meet their other half, are escapes again; in an
/// error's words they are U+FFFD.
pub(super) fn unmark(part: &mut Part<'_>) {
    let texts = [&mut part.answer, &mut part.reasoning, &mut part.tool_call];
    for text in texts.into_iter().flatten() {
        let marked = String::from_utf8_lossy(text).into_owned();
        let plain = replace_marks(&marked, |half| format!("\\u{half:04x}"));
        *text = plain.into_bytes().into();
    }
    if let Some(error) = &mut part.error {
        for text in std::iter::once(&mut error.message).chain(&mut error.name) {
            *text = replace_marks(text, |_| REPLACEMENT.into());
        }
    }
}

fn replace_marks(text: &str, by: impl Fn(u32) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        match MARKS.contains(&one) {
            true => out.push_str(&by(u32::from(one) - MARK)),
            false => out.push(one),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_pair_alone_is_replaced_and_nothing_beside_it() {
        let check = |escaped: &[u8], text: &str| assert_eq!(unescape(escaped), text);
        check(br#"\u00e9 \"hello\"\n\ud83d!"#, "é \"hello\"\n\u{fffd}!");
        check(br"\ude00\ud83d", "\u{fffd}\u{fffd}");
        check(br"\ud83d\ud83d\uDE00\/", "\u{fffd}😀/");
        check(br"\ufffd\b\f\r\t\\u0041", "\u{fffd}\u{8}\u{c}\r\t\\u0041");
        check(b"plain \xff", "plain \u{fffd}");
        check(br"\", r"\");
        check(br"\ud83", r"\ud83");
        check(br"\x\u12g4", r"\x\u12g4");
    }

    #[test]
    fn only_halves_that_stand_alone_are_marked() {
        assert_eq!(mark(br"\ud83d\ude00\ufffd\\ud83d\n"), None);
        let (marked, is_free) = mark(br"a\ud83d\n").unwrap();
        assert_eq!((&marked[..], is_free), ("a\u{fd83d}\\n".as_bytes(), true));
        let (marked, is_free) = mark(br"\ud83d\udbb6\udc00").unwrap();
        let plain = [REPLACEMENT.to_string().as_bytes(), br"\udbb6\udc00"].concat();
        assert_eq!((marked, is_free), (plain, false));
    }
}
