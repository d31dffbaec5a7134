//! Server-sent events by the WHATWG rules: bytes to events, no I/O.
//!
//! Start at [`Decoder`]. It knows nothing of what the data says.

use crate::base::limits;
use memchr::{memchr, memchr2};

/// An event with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Value of the last `event` field; empty is `message`.
    pub name: &'a [u8],
    /// Values of the `data` fields, joined by LF; never empty.
    pub data: &'a [u8],
}

/// Why a stream cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SseError {
    /// One event is over the cap.
    #[error("an event is over {} bytes", limits::EVENT_BYTES_MAX)]
    EventTooLong,
}

/// Decodes a stream of events, split anywhere.
#[derive(Debug, Default)]
pub struct Decoder {
    /// A line that is not whole yet.
    line: Vec<u8>,
    data: Vec<u8>,
    /// True when `data` has had a field, even an empty one.
    has_data: bool,
    name: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    /// The first bytes of the stream have been looked at for a BOM.
    past_bom: bool,
    /// The last byte taken ended an event.
    at_event_end: bool,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Starts a new stream, keeping allocations.
    pub fn reset(&mut self) {
        self.line.clear();
        self.clear_event();
        self.after_cr = false;
        self.past_bom = false;
        self.at_event_end = false;
    }

    fn clear_event(&mut self) {
        self.data.clear();
        self.has_data = false;
        self.name.clear();
    }

    /// True when bytes of an event have come that no blank line has ended; the standard says to
    /// drop them at the end of the stream.
    pub fn is_pending(&self) -> bool {
        self.has_data || !self.line.is_empty()
    }

    /// True when nothing has come behind the end of the last event.
    pub fn is_at_event_end(&self) -> bool {
        self.at_event_end
    }

    /// Takes bytes; `sink` gets each event that they complete.
    pub fn feed(
        &mut self,
        mut input: &[u8],
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<(), SseError> {
        if !self.past_bom {
            input = self.skip_bom(input);
        }
        while !input.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                if input[0] == b'\n' {
                    input = &input[1..];
                    continue;
                }
            }
            // Nothing pending and a whole one-line event in view: no copy at all.
            if self.line.is_empty()
                && !self.has_data
                && self.name.is_empty()
                && let Some((data, used)) = whole_event(input)
            {
                sink(Event { name: b"", data });
                self.at_event_end = true;
                input = &input[used..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', input) else {
                self.hold(input)?;
                return Ok(());
            };
            self.after_cr = input[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&input[..end], sink)?;
            } else {
                self.hold(&input[..end])?;
                let line = std::mem::take(&mut self.line);
                let result = self.take_line(&line, sink);
                self.line = line;
                self.line.clear();
                result?;
            }
            input = &input[end + 1..];
        }
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        self.at_event_end = false;
        if self.line.len() + self.data.len() + bytes.len() > limits::EVENT_BYTES_MAX {
            return Err(SseError::EventTooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Drops one leading BOM, which may come in three reads.
    fn skip_bom<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        const BOM: &[u8] = b"\xef\xbb\xbf";
        let held = self.line.len();
        let wanted = &BOM[held..];
        let common = wanted.iter().zip(input).take_while(|(a, b)| a == b).count();
        if held + common == BOM.len() {
            self.line.clear();
            self.past_bom = true;
            return &input[common..];
        }
        if common == input.len() {
            self.line.extend_from_slice(input);
            return &[];
        }
        // No BOM: what was held is the start of a line.
        self.past_bom = true;
        input
    }

    fn take_line(&mut self, line: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), SseError> {
        self.at_event_end = false;
        if line.is_empty() {
            if self.has_data && !self.data.is_empty() {
                self.at_event_end = true;
                sink(Event {
                    name: &self.name,
                    data: &self.data,
                });
            }
            self.clear_event();
            return Ok(());
        }
        let (field, value) = match memchr(b':', line) {
            None => (line, &[][..]),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
        };
        // The standard compares fields exactly; servers have been seen with other cases.
        if field.eq_ignore_ascii_case(b"data") {
            if self.data.len() + value.len() > limits::EVENT_BYTES_MAX {
                return Err(SseError::EventTooLong);
            }
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            self.data.extend_from_slice(value);
        } else if field.eq_ignore_ascii_case(b"event") {
            self.name.clear();
            self.name.extend_from_slice(&value[..value.len().min(256)]);
        }
        Ok(())
    }
}

/// `data:VALUE LF LF` (or with CR LF) at the front of `input`: the value, and the bytes taken.
/// Anything else, also an end that is not in view, is left to the general way.
fn whole_event(input: &[u8]) -> Option<(&[u8], usize)> {
    let rest = input.strip_prefix(b"data:")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let start = input.len() - rest.len();
    let end = memchr(b'\n', rest)?;
    let (value, tail) = (&rest[..end], &rest[end + 1..]);
    let (value, blank) = match value.strip_suffix(b"\r") {
        Some(value) => (value, &b"\r\n"[..]),
        None => (value, &b"\n"[..]),
    };
    if value.is_empty() || memchr(b'\r', value).is_some() || !tail.starts_with(blank) {
        return None;
    }
    Some((value, start + end + 1 + blank.len()))
}

/// Appends an event as it goes on the wire, for the mock and for tests.
pub fn encode(name: &[u8], data: &[u8], line_end: &[u8], out: &mut Vec<u8>) {
    if !name.is_empty() {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name);
        out.extend_from_slice(line_end);
    }
    for line in data.split(|&byte| byte == b'\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.extend_from_slice(line_end);
    }
    out.extend_from_slice(line_end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(parts: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = Decoder::new();
        let mut events = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for part in parts {
            let fed = decoder.feed(part, &mut |event: Event<'_>| {
                events.push((text(event.name), text(event.data)));
            });
            fed.unwrap();
        }
        events
    }

    fn check(input: &[u8], expected: &[(&str, &str)]) {
        let whole = decode(&[input]);
        let pairs: Vec<(&str, &str)> = whole
            .iter()
            .map(|(name, data)| (name.as_str(), data.as_str()))
            .collect();
        assert_eq!(pairs, expected, "{:?}", String::from_utf8_lossy(input));
        for cut in 0..=input.len() {
            let (a, b) = input.split_at(cut);
            assert_eq!(decode(&[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(decode(&bytes), whole);
    }

    #[test]
    fn data_with_no_space_one_space_or_two() {
        check(
            b"data:a\n\ndata: b\n\ndata:  c\n\n",
            &[("", "a"), ("", "b"), ("", " c")],
        );
    }

    #[test]
    fn all_line_ends_mixed() {
        check(b"data: a\r\n\r\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check(b"data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check(b"data: a\r\n\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
        check(
            "data: \u{2028}\u{2029}\u{85}\n\n".as_bytes(),
            &[("", "\u{2028}\u{2029}\u{85}")],
        );
    }

    #[test]
    fn comments_keep_alives_and_empty_events_are_nothing() {
        check(
            b": OPENROUTER PROCESSING\n\n:\n\nid: 7\n: ping\n\nevent: keepalive\n\ndata: hi\n\n",
            &[("", "hi")],
        );
        check(b"data\n\ndata:\n\n", &[]);
    }

    #[test]
    fn several_data_lines_join_and_a_bom_is_dropped() {
        check(
            b"\xef\xbb\xbfdata: {\"a\":\ndata: 1}\n\n",
            &[("", "{\"a\":\n1}")],
        );
        check(
            b"event: error\ndata: x\n\ndata: y\n\n",
            &[("error", "x"), ("", "y")],
        );
        check(b"DATA: x\n\n", &[("", "x")]);
    }

    #[test]
    fn an_event_without_its_blank_line_is_pending_and_not_given() {
        let mut decoder = Decoder::new();
        decoder
            .feed(b"data: a\n", &mut |_| panic!("not yet"))
            .unwrap();
        assert!(decoder.is_pending());
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut decoder = Decoder::new();
        let block = vec![b'x'; 1 << 20];
        let mut result = decoder.feed(b"data: ", &mut |_| {});
        for _ in 0..17 {
            if result.is_ok() {
                result = decoder.feed(&block, &mut |_| {});
            }
        }
        assert_eq!(result, Err(SseError::EventTooLong));
    }
}
