//! Responses: bytes in, parts out, no I/O. Every split of the input gives the same parts.
//!
//! Start at [`ResponseDecoder`].

mod chunked;
mod head;

pub use head::{ContentType, Head};

use crate::base::limits;
use chunked::Chunked;

/// Why a response cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CodecError {
    /// The head is no HTTP/1.x head.
    #[error("invalid response head: {0}")]
    Head(String),
    /// The head is too long.
    #[error("the response head is over {} bytes", limits::HEAD_BYTES_MAX)]
    HeadTooLong,
    /// `Content-Length` is no number, or there are two that differ, or it stands beside chunks.
    #[error("invalid or contradictory content-length")]
    Length,
    /// A chunk's framing is broken.
    #[error("invalid chunk: {0}")]
    Chunk(&'static str),
    /// The body is too long.
    #[error("the response body is over {} bytes", limits::BODY_BYTES_MAX)]
    BodyTooLong,
    /// The connection ended in the middle.
    #[error("the connection closed before the end of the response")]
    Incomplete,
}

/// A part of a response.
#[derive(Debug)]
pub enum Piece<'a> {
    /// The head, once.
    Head(&'a Head),
    /// Bytes of the body, unframed; never empty.
    Body(&'a [u8]),
}

/// How far [`ResponseDecoder::feed`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes taken.
    pub used: usize,
    /// The response is at its end; what was not taken belongs to nobody.
    pub done: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunked),
    ToEnd,
    Done,
}

/// Decodes the responses of one connection, one after the other.
#[derive(Debug)]
pub struct ResponseDecoder {
    state: State,
    /// Bytes of a head that is not whole yet.
    held: Vec<u8>,
    head: Head,
    body_bytes: u64,
    started: bool,
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl ResponseDecoder {
    /// A decoder that waits for a head.
    pub fn new() -> ResponseDecoder {
        ResponseDecoder {
            state: State::Head,
            held: Vec::new(),
            head: Head::default(),
            body_bytes: 0,
            started: false,
        }
    }

    /// Waits for the next head.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.held.clear();
        self.body_bytes = 0;
        self.started = false;
    }

    /// True when a byte of the response has come.
    pub fn started(&self) -> bool {
        self.started
    }

    /// True when the bytes taken end with bytes of the body, or with the end of their chunk.
    pub fn ends_in_body(&self) -> bool {
        match &self.state {
            State::Head | State::Done => false,
            State::Length(_) | State::ToEnd => true,
            State::Chunked(chunked) => chunked.ends_in_body(),
        }
    }

    /// True when the connection may carry another response after this one.
    pub fn keeps_alive(&self) -> bool {
        self.state == State::Done && self.head.keeps_alive
    }

    /// Takes bytes; `sink` gets the parts in order. Stops at the end of the response.
    pub fn feed(
        &mut self,
        input: &[u8],
        sink: &mut impl FnMut(Piece<'_>),
    ) -> Result<Fed, CodecError> {
        self.started |= !input.is_empty();
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match &mut self.state {
                State::Done => return Ok(Fed { used, done: true }),
                _ if rest.is_empty() => return Ok(Fed { used, done: false }),
                State::Head => used += self.feed_head(rest, sink)?,
                State::Length(left) => {
                    let count = rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= count as u64;
                    let ended = *left == 0;
                    sink(Piece::Body(&rest[..count]));
                    used += count;
                    if ended {
                        self.state = State::Done;
                    }
                }
                State::Chunked(chunked) => {
                    let bytes = &mut self.body_bytes;
                    let (count, ended) = chunked.feed(rest, &mut |part: &[u8]| {
                        *bytes += part.len() as u64;
                        sink(Piece::Body(part));
                    })?;
                    used += count;
                    self.check_length()?;
                    if ended {
                        self.state = State::Done;
                    }
                }
                State::ToEnd => {
                    self.body_bytes += rest.len() as u64;
                    sink(Piece::Body(rest));
                    used += rest.len();
                    self.check_length()?;
                }
            }
        }
    }

    fn check_length(&self) -> Result<(), CodecError> {
        match self.body_bytes > limits::BODY_BYTES_MAX as u64 {
            true => Err(CodecError::BodyTooLong),
            false => Ok(()),
        }
    }

    /// Takes bytes of the head; returns how many of `rest` it took.
    fn feed_head(
        &mut self,
        rest: &[u8],
        sink: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, CodecError> {
        let held = self.held.len();
        let length = if held == 0 {
            self.head.parse(rest)?
        } else {
            self.held.extend_from_slice(rest);
            self.head.parse(&self.held)?
        };
        let Some(length) = length else {
            if held == 0 {
                self.held.extend_from_slice(rest);
            }
            return match self.held.len() > limits::HEAD_BYTES_MAX {
                true => Err(CodecError::HeadTooLong),
                false => Ok(rest.len()),
            };
        };
        if length > limits::HEAD_BYTES_MAX {
            return Err(CodecError::HeadTooLong);
        }
        self.held.clear();
        let used = length - held;
        // 1xx heads announce another head (RFC 9110 section 15.2); 101 was not asked for.
        if (100..200).contains(&self.head.status) {
            return Ok(used);
        }
        self.state = match (
            &self.head.status,
            self.head.chunked,
            self.head.content_length,
        ) {
            (204 | 304, ..) => State::Done,
            (_, true, None) => State::Chunked(Chunked::default()),
            (_, true, Some(_)) => return Err(CodecError::Length),
            (_, false, Some(0)) => State::Done,
            (_, false, Some(length)) if length > limits::BODY_BYTES_MAX as u64 => {
                return Err(CodecError::BodyTooLong);
            }
            (_, false, Some(length)) => State::Length(length),
            (_, false, None) => {
                self.head.keeps_alive = false;
                State::ToEnd
            }
        };
        sink(Piece::Head(&self.head));
        Ok(used)
    }

    /// The connection has closed: an error unless the response was at its end or ends by that.
    pub fn finish(&mut self) -> Result<(), CodecError> {
        match self.state {
            State::Done | State::ToEnd => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(CodecError::Incomplete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that a response says: status, body, whether it ended, whether it keeps alive.
    fn decode(parts: &[&[u8]]) -> Result<(u16, Vec<u8>, bool, bool), CodecError> {
        let mut decoder = ResponseDecoder::new();
        let (mut status, mut body, mut done) = (0, Vec::new(), false);
        for part in parts {
            let fed = decoder.feed(part, &mut |piece| match piece {
                Piece::Head(head) => status = head.status,
                Piece::Body(bytes) => body.extend_from_slice(bytes),
            })?;
            done = fed.done;
        }
        Ok((status, body, done, decoder.keeps_alive()))
    }

    fn check(text: &[u8], expected: (u16, &[u8], bool, bool)) {
        let whole = decode(&[text]).unwrap();
        assert_eq!((whole.0, &whole.1[..], whole.2, whole.3), expected);
        for cut in 0..text.len() {
            let (a, b) = text.split_at(cut);
            assert_eq!(decode(&[a, b]).unwrap(), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(decode(&bytes).unwrap(), whole);
    }

    #[test]
    fn chunked_body_split_at_every_byte_decodes_the_same() {
        check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
              5;name=\"v\"\r\nhello\r\n00A\r\n, chunks!!\r\n0\r\nTrailer: x\r\n\r\n",
            (200, b"hello, chunks!!", true, true),
        );
    }

    #[test]
    fn length_close_and_informational_heads_decode() {
        check(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            (200, b"abc", true, true),
        );
        check(
            b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
            (404, b"no", true, false),
        );
        check(b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", true, true));
        check(
            b"HTTP/1.0 200 OK\r\n\r\nall of it",
            (200, b"all of it", false, false),
        );
    }

    #[test]
    fn folded_header_lines_are_one_value() {
        check(
            b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc\r\nTransfer-Encoding: gzip,\r\n chunked\r\n\
              Connection:\r\n close\r\n\r\n2\r\nab\r\n0\r\n\r\n",
            (200, b"ab", true, false),
        );
        check(
            b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nab",
            (200, b"ab", true, true),
        );
    }

    #[test]
    fn broken_framing_is_an_error() {
        let refuse = |text: &[u8]| decode(&[text]).unwrap_err();
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for bad in [
            "x\r\n",
            "-1\r\n",
            "3\r\nabcd\r\n",
            "fffffffffffffffff\r\n",
            "\r\n",
        ] {
            let text = [&chunked[..], bad.as_bytes()].concat();
            assert!(matches!(refuse(&text), CodecError::Chunk(_)), "{bad:?}");
        }
        assert_eq!(
            refuse(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
            CodecError::Length
        );
        assert_eq!(
            refuse(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            CodecError::Length
        );
        assert!(matches!(
            refuse(b"\x16\x03\x01 nonsense\r\n\r\n"),
            CodecError::Head(_)
        ));
    }

    #[test]
    fn an_endless_head_is_refused_and_an_early_end_is_incomplete() {
        let mut decoder = ResponseDecoder::new();
        let line = [b"HTTP/1.1 200 OK\r\nA: ", &[b'x'; 1000][..]].concat();
        let mut result = decoder.feed(&line, &mut |_| {});
        for _ in 0..100 {
            if result.is_err() {
                break;
            }
            result = decoder.feed(&[b'y'; 1000], &mut |_| {});
        }
        assert_eq!(result, Err(CodecError::HeadTooLong));
        let mut decoder = ResponseDecoder::new();
        decoder
            .feed(
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
                &mut |_| {},
            )
            .unwrap();
        assert_eq!(decoder.finish(), Err(CodecError::Incomplete));
    }
}
