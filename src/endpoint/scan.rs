//! Content of an event by one exact pass over its JSON, without building a value.
//!
//! It knows every value that it walks over; where it is not sure (escapes in keys, exponents, tool
//! calls, errors, broken syntax) it gives up, and serde_json reads the whole event instead. So what
//! it takes, serde_json takes too, and of a key that stands twice the last counts with both. Only
//! half a surrogate pair is taken here and refused there; see `text`.

use super::{Part, usage};
use crate::config::Api;
use std::borrow::Cow;
use std::ops::Range;

/// Nesting that is walked; deeper is left to serde_json.
const DEPTH_MAX: u32 = 32;

/// The part, or `None` when serde_json must look.
pub(super) fn scan(api: Api, data: &[u8]) -> Option<Part<'_>> {
    walk(api, data, &mut None)
}

/// Where the event has a string or a number, not inside another value, that says nothing: with any
/// other in its place the event says the same. A string is given without its quotes.
pub(super) fn free_values(api: Api, data: &[u8]) -> Option<Vec<(Range<usize>, Hole)>> {
    let mut free = Some(Vec::new());
    walk(api, data, &mut free)?;
    free
}

fn walk<'a>(
    api: Api,
    data: &'a [u8],
    free: &mut Option<Vec<(Range<usize>, Hole)>>,
) -> Option<Part<'a>> {
    let triton = api.is_triton();
    if !triton && !matches!(api, Api::Chat | Api::Completions) {
        return None;
    }
    std::str::from_utf8(data).ok()?;
    let mut cursor = Cursor {
        bytes: data,
        at: 0,
        free: free.take(),
    };
    let mut part = Part::default();
    cursor.object(&mut |cursor, key| match key {
        b"choices" if !triton => cursor.choices(&mut part),
        b"text_output" if triton => {
            part.answer = cursor.text()?.map(Cow::Borrowed);
            Some(())
        }
        b"usage" => {
            let slice = cursor.value(DEPTH_MAX)?;
            part.usage = match slice {
                b"null" => None,
                _ => usage::counts(&serde_json::from_slice(slice).ok()?),
            };
            Some(())
        }
        // Envelopes of usage, beside an error.
        b"error" | b"usageMetadata" | b"meta" | b"tokens" => cursor.null(),
        b"object" => (cursor.value(DEPTH_MAX)? != b"\"error\"").then_some(()),
        _ => cursor.skip(),
    })?;
    cursor.space();
    *free = cursor.free;
    (cursor.at == data.len()).then_some(part)
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// The inside of a string.
    String,
    /// A number.
    Number,
}

impl Hole {
    /// The value of this kind at the front of `bytes`; a string goes up to its closing quote.
    /// `None`: it is none, or one that serde_json must look at.
    #[inline]
    pub fn value(self, bytes: &[u8]) -> Option<&[u8]> {
        match self {
            Hole::String => bytes.get(..string_end(bytes)?),
            Hole::Number => {
                let is_of_number = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
                let len = bytes.iter().position(|byte| !is_of_number(byte))?;
                Some(&bytes[..len]).filter(|word| is_plain_number(word))
            }
        }
    }
}

/// Where a string, whose inside `bytes` begin with, has its closing quote.
#[inline]
fn string_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += string_stop(&bytes[at..])?;
        match bytes[at] {
            b'"' => return Some(at),
            b'\\' => at += escape_bytes(&bytes[at..])?,
            _ => return None,
        }
    }
}

/// Where the first quote, backslash or control byte stands. Strings of events are short: eight
/// bytes at a time in line cost less than a call of memchr per string.
#[inline]
fn string_stop(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = u64::from_le_bytes([0x80; 8]);
    // Marks each byte below the limit (a zero byte is below 1); marks above the lowest one may be
    // false, and only that one is used.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & TOPS;
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quote = below(word ^ u64::from_le_bytes([b'"'; 8]), 1);
        let escape = below(word ^ u64::from_le_bytes([b'\\'; 8]), 1);
        let marks = quote | escape | below(word, 0x20);
        if marks != 0 {
            return Some(index * 8 + (marks.trailing_zeros() / 8) as usize);
        }
    }
    let stops = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    Some(words.len() * 8 + tail.iter().position(stops)?)
}

/// Bytes of the escape sequence at the front of `bytes`.
fn escape_bytes(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => {
            let digits = bytes.get(2..6)?;
            digits.iter().all(u8::is_ascii_hexdigit).then_some(6)
        }
        _ => None,
    }
}

/// A number as JSON writes it, short enough that none of its size can be refused.
fn is_plain_number(word: &[u8]) -> bool {
    const BYTES_MAX: usize = 32;
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let mut halves = digits.splitn(2, |&byte| byte == b'.');
    let whole = halves.next().unwrap_or_default();
    let is_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    word.len() <= BYTES_MAX
        && is_digits(whole)
        && (whole.len() == 1 || whole[0] != b'0')
        && halves.next().is_none_or(is_digits)
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The values that say nothing, when they are asked for.
    free: Option<Vec<(Range<usize>, Hole)>>,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Takes one byte after white space.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// The inside of a string, escapes and all.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let bytes: &'a [u8] = self.bytes;
        let rest = bytes.get(self.at..)?;
        let end = string_end(rest)?;
        self.at += end + 1;
        Some(&rest[..end])
    }

    /// A key: a string without escapes.
    fn key(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let start = self.at;
        self.at += string_stop(self.bytes.get(start..)?)?;
        let end = self.at;
        self.take(b'"')?;
        Some(&self.bytes[start..end])
    }

    /// Walks an object; `each` must take the value of the key it is given.
    fn object(
        &mut self,
        each: &mut impl FnMut(&mut Cursor<'a>, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.take(b'{')?;
        self.space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.key()?;
            self.take(b':')?;
            self.space();
            each(self, key)?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Any value that says nothing.
    fn skip(&mut self) -> Option<()> {
        let value = self.value(DEPTH_MAX)?;
        if let Some(free) = &mut self.free {
            let span = self.at - value.len()..self.at;
            match value[0] {
                b'"' => free.push((span.start + 1..span.end - 1, Hole::String)),
                b'-' | b'0'..=b'9' => free.push((span, Hole::Number)),
                _ => {}
            }
        }
        Some(())
    }

    /// Any value, as it stands.
    fn value(&mut self, depth: u32) -> Option<&'a [u8]> {
        self.space();
        let start = self.at;
        match self.peek()? {
            b'"' => {
                self.string()?;
            }
            b'{' => {
                let depth = depth.checked_sub(1)?;
                self.object(&mut |cursor, _| cursor.value(depth).map(drop))?;
            }
            b'[' => {
                let depth = depth.checked_sub(1)?;
                self.array(&mut |cursor| cursor.value(depth).map(drop))?;
            }
            _ => self.word()?,
        }
        Some(&self.bytes[start..self.at])
    }

    /// Walks an array; `each` must take one value.
    fn array(&mut self, each: &mut impl FnMut(&mut Cursor<'a>) -> Option<()>) -> Option<()> {
        self.take(b'[')?;
        self.space();
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            each(self)?;
            self.space();
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// A number or a literal.
    fn word(&mut self) -> Option<()> {
        if self.bytes[self.at..].starts_with(b"null,") {
            self.at += 4;
            return Some(());
        }
        let start = self.at;
        while let Some(byte) = self.peek()
            && (byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
        {
            self.at += 1;
        }
        let word = &self.bytes[start..self.at];
        let literal = matches!(word, b"null" | b"true" | b"false");
        (literal || is_plain_number(word)).then_some(())
    }

    fn null(&mut self) -> Option<()> {
        (self.value(DEPTH_MAX)? == b"null").then_some(())
    }

    /// A string or null; an empty string is nothing.
    fn text(&mut self) -> Option<Option<&'a [u8]>> {
        self.space();
        if self.peek()? != b'"' {
            self.null()?;
            return Some(None);
        }
        let text = self.string()?;
        Some((!text.is_empty()).then_some(text))
    }

    fn choices(&mut self, part: &mut Part<'a>) -> Option<()> {
        (part.answer, part.reasoning, part.finished) = (None, None, false);
        self.space();
        if self.peek()? != b'[' {
            return self.null();
        }
        self.array(&mut |cursor| cursor.choice(part))
    }

    /// One choice, joined to those before it.
    fn choice(&mut self, part: &mut Part<'a>) -> Option<()> {
        let (mut text, mut is_finished) = (None, false);
        let (mut delta, mut message) = (Delta::default(), Delta::default());
        self.object(&mut |cursor, key| {
            match key {
                b"text" => text = cursor.text()?,
                b"delta" => delta = cursor.delta()?,
                b"message" => message = cursor.delta()?,
                b"finish_reason" => is_finished = cursor.value(DEPTH_MAX)? != b"null",
                _ => cursor.skip()?,
            }
            Some(())
        })?;
        part.finished |= is_finished;
        join(&mut part.answer, message.content.or(delta.content).or(text));
        join(&mut part.reasoning, message.reasoning.or(delta.reasoning));
        Some(())
    }

    fn delta(&mut self) -> Option<Delta<'a>> {
        self.space();
        if self.peek()? != b'{' {
            self.null()?;
            return Some(Delta::default());
        }
        let mut delta = Delta::default();
        let mut second_reasoning = None;
        self.object(&mut |cursor, key| {
            match key {
                b"content" => delta.content = cursor.text()?,
                b"reasoning_content" => delta.reasoning = cursor.text()?,
                b"reasoning" => second_reasoning = cursor.text()?,
                b"tool_calls" => match cursor.value(DEPTH_MAX)? {
                    b"null" | b"[]" => {}
                    _ => return None,
                },
                _ => cursor.skip()?,
            }
            Some(())
        })?;
        delta.reasoning = delta.reasoning.or(second_reasoning);
        Some(delta)
    }
}

/// The texts of a `delta` or a `message`.
#[derive(Default)]
struct Delta<'a> {
    content: Option<&'a [u8]>,
    reasoning: Option<&'a [u8]>,
}

fn join<'a>(all: &mut Option<Cow<'a, [u8]>>, more: Option<&'a [u8]>) {
    match (all, more) {
        (_, None) => {}
        (Some(all), Some(more)) => all.to_mut().extend_from_slice(more),
        (all, Some(more)) => *all = Some(Cow::Borrowed(more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_stops_at_its_first_quote_backslash_or_control_byte() {
        for length in 0..40 {
            for fill in [b'a', b'!', b'#', b'[', b']', b' ', 0x80, 0xa2, 0xdc, 0xff] {
                let mut bytes = vec![fill; length];
                assert_eq!(string_stop(&bytes), None);
                for at in (0..length).rev() {
                    bytes[at] = [b'"', b'\\', 0, 0x1f][at % 4];
                    assert_eq!(string_stop(&bytes), Some(at), "{fill} {length}");
                }
            }
        }
    }

    #[test]
    fn what_serde_json_refuses_the_scan_does_not_take() {
        for (word, is_number) in [
            ("0", true),
            ("-0", true),
            ("17.25", true),
            ("-1", true),
            ("01", false),
            ("1.", false),
            (".5", false),
            ("-", false),
            ("1-2", false),
            ("1.2.3", false),
            ("1e5", false),
            ("nul", false),
            ("+1", false),
        ] {
            let event = format!(r#"{{"created":{word},"choices":[]}}"#);
            let taken = scan(Api::Chat, event.as_bytes());
            assert_eq!(taken.is_some(), is_number, "{word}");
        }
        for text in ["\\x", "\\u12", "\\u12g4", "\\", "\u{1}", "\n"] {
            let event = format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#);
            assert_eq!(scan(Api::Chat, event.as_bytes()), None, "{text:?}");
        }
        assert_eq!(scan(Api::Chat, b"{\"id\":\"\xff\"}"), None);
    }
}
