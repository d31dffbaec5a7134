//! The chunked coding of RFC 9112 section 7.1: sizes, extensions, trailers, split anywhere.

use super::CodecError;
use crate::base::limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum At {
    /// Before the first digit of a size.
    #[default]
    SizeStart,
    /// In the digits.
    Size,
    /// In an extension.
    Extension,
    /// After the CR of a size line.
    SizeEnd,
    /// In the data.
    Data,
    /// After the data, before its CR.
    DataEnd,
    /// After that CR.
    DataEndLf,
    /// At the start of a trailer line.
    TrailerStart,
    /// In a trailer line.
    Trailer,
    /// After the CR of the empty line.
    LastLf,
}

/// Where a chunked body stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Chunked {
    at: At,
    left: u64,
    /// Bytes of the current line of framing.
    line: usize,
}

impl Chunked {
    /// True when no framing of what comes next has been taken.
    pub fn ends_in_body(&self) -> bool {
        matches!(
            self.at,
            At::SizeStart | At::Data | At::DataEnd | At::DataEndLf
        )
    }

    /// Takes framing and data; returns bytes taken and whether the body is at its end.
    pub fn feed(
        &mut self,
        input: &[u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(usize, bool), CodecError> {
        let mut used = 0;
        while used < input.len() {
            if self.at == At::Data {
                let rest = &input[used..];
                let count = rest
                    .len()
                    .min(usize::try_from(self.left).unwrap_or(usize::MAX));
                sink(&rest[..count]);
                used += count;
                self.left -= count as u64;
                if self.left == 0 {
                    self.at = At::DataEnd;
                }
                continue;
            }
            let byte = input[used];
            used += 1;
            if self.step(byte)? {
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    /// One byte of framing; true at the end of the body.
    fn step(&mut self, byte: u8) -> Result<bool, CodecError> {
        self.line += 1;
        if self.line > limits::CHUNK_LINE_BYTES_MAX {
            return Err(CodecError::Chunk("a line of framing is too long"));
        }
        match (self.at, byte) {
            (At::SizeStart | At::Size, _) if byte.is_ascii_hexdigit() => {
                let digit = u64::from((byte as char).to_digit(16).unwrap_or(0));
                if self.left >> 60 != 0 {
                    return Err(CodecError::Chunk("the size is too large"));
                }
                self.left = self.left << 4 | digit;
                self.at = At::Size;
            }
            (At::Size, b';' | b' ' | b'\t') => self.at = At::Extension,
            (At::Size | At::Extension, b'\r') => self.at = At::SizeEnd,
            // A bare LF ends a line for lenient recipients (RFC 9112 section 2.2).
            (At::Size | At::Extension | At::SizeEnd, b'\n') => self.end_size(),
            (At::Extension, _) => {}
            (At::DataEnd, b'\r') => self.at = At::DataEndLf,
            (At::DataEnd | At::DataEndLf, b'\n') => self.next(At::SizeStart),
            (At::TrailerStart, b'\r') => self.at = At::LastLf,
            (At::TrailerStart | At::LastLf, b'\n') => return Ok(true),
            (At::Trailer, b'\n') => self.next(At::TrailerStart),
            (At::TrailerStart | At::Trailer, _) => self.at = At::Trailer,
            (At::SizeStart | At::Size, _) => {
                return Err(CodecError::Chunk("the size is no hexadecimal number"));
            }
            (At::SizeEnd | At::DataEndLf | At::LastLf, _) => {
                return Err(CodecError::Chunk("CR without LF"));
            }
            (At::DataEnd, _) => return Err(CodecError::Chunk("data longer than its size")),
            (At::Data, _) => {}
        }
        Ok(false)
    }

    fn next(&mut self, at: At) {
        self.at = at;
        self.line = 0;
        self.left = 0;
    }

    fn end_size(&mut self) {
        self.line = 0;
        self.at = if self.left == 0 {
            At::TrailerStart
        } else {
            At::Data
        };
    }
}
