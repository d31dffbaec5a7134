//! The bytes of a shard: [`Columns`] as a file that grows block by block.
//!
//! All numbers are little-endian. A header: 8 bytes of magic, then version, length and checksum
//! (`u32` each), then the metrics: their number (`u16`), and of each the lengths (`u8`) and bytes
//! of tag and unit. Then blocks: requests, length and checksum (`u32` each), then by column:
//! numbers, starts and ends of the requests (`u64`), a bit for each that did not fail, and per
//! metric a byte for its kind with the values. The last block has no requests, but says how many
//! there were. A checksum is CRC-32, of a block with the two numbers before it.

use super::columns::{Columns, Row};
use thiserror::Error;

/// Not text, and broken by a transfer that takes it for text.
const MAGIC: [u8; 8] = *b"\x89TRREC\r\n";
/// Version of the format; another one's is not read.
pub const VERSION: u32 = 1;
/// Requests of a block: its buffer takes some 1.5 MB.
pub const BLOCK_ROWS: usize = 4_096;
/// Metrics: ours are some fifty.
pub const METRICS_MAX: usize = 256;
/// Values that a shard may unfold to: 4 GiB, some ten million requests.
const VALUES_MAX: usize = 1 << 29;
/// Bytes before a block's content.
const FRAME_BYTES: usize = 12;

/// Kinds of a metric's values in a block.
const ABSENT: u8 = 0;
const CONSTANT: u8 = 1;
const WHOLE: u8 = 2;
const FLOAT: u8 = 3;

/// Why bytes are no shard that can be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Something else.
    #[error("no shard of records")]
    Foreign,
    /// Of another version of this program.
    #[error("a shard of version {0}, not {VERSION}")]
    Version(u32),
    /// The header is cut off or broken.
    #[error("a shard with a broken header")]
    Header,
    /// A block whose checksum is right says what cannot be.
    #[error("a shard with a block that cannot be")]
    Block,
    /// More than this program holds in memory.
    #[error("a shard of more than {VALUES_MAX} values")]
    Size,
}

/// Turns requests into the bytes of a shard; holds one block.
#[derive(Debug)]
pub struct Writer {
    block: Columns,
    written: u64,
}

impl Writer {
    /// Appends the header. `columns` says the metrics and has no requests; of their tags and units
    /// the first 255 bytes count, of them the first [`METRICS_MAX`].
    pub fn new(columns: Columns, out: &mut Vec<u8>) -> Writer {
        let mut header = Vec::new();
        let count = columns.metrics().count().min(METRICS_MAX);
        header.extend_from_slice(&u16::try_from(count).unwrap_or(0).to_le_bytes());
        for (tag, unit) in columns.metrics().take(count) {
            for text in [tag, unit] {
                let end = text.floor_char_boundary(usize::from(u8::MAX));
                header.push(u8::try_from(end).unwrap_or(0));
                header.extend_from_slice(&text.as_bytes()[..end]);
            }
        }
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&length(&header));
        out.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        out.extend_from_slice(&header);
        Writer {
            block: columns,
            written: 0,
        }
    }

    /// Takes a request, as [`Columns::push`] does; appends a block when one is full.
    pub fn push(&mut self, row: Row, values: &[f64], out: &mut Vec<u8>) {
        self.block.push(row, values);
        if self.block.len() == BLOCK_ROWS {
            self.flush(out);
        }
    }

    /// Appends what is left, and the end.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.flush(out);
        frame(0, out, |out| {
            out.extend_from_slice(&self.written.to_le_bytes());
        });
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        let block = &self.block;
        if block.is_empty() {
            return;
        }
        frame(block.len(), out, |out| {
            for column in [block.index(), block.start_ns(), block.end_ns()] {
                column
                    .iter()
                    .for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
            }
            for eight in block.is_valid().chunks(8) {
                let bits = eight.iter().enumerate();
                out.push(bits.map(|(at, bit)| u8::from(*bit) << at).sum());
            }
            let metrics = block.metrics().count().min(METRICS_MAX);
            (0..metrics).for_each(|at| put_values(block.values(at), out));
        });
        self.written += block.len() as u64;
        self.block.clear();
    }
}

fn length(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes()
}

/// Appends a block with this content.
fn frame(rows: usize, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[0; FRAME_BYTES]);
    content(out);
    let length = length(&out[begin + FRAME_BYTES..]);
    let rows = u32::try_from(rows).unwrap_or(u32::MAX).to_le_bytes();
    out[begin..begin + 4].copy_from_slice(&rows);
    out[begin + 4..begin + 8].copy_from_slice(&length);
    let sum = checksum(&out[begin..begin + 8], &out[begin + FRAME_BYTES..]);
    out[begin + 8..begin + FRAME_BYTES].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(head: &[u8], content: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(content);
    sum.finalize()
}

/// A value that a `u32` holds to the bit.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and what it changes is no such value"
)]
fn whole(value: f64) -> Option<u32> {
    let whole = value as u32;
    (f64::from(whole).to_bits() == value.to_bits()).then_some(whole)
}

fn put_values(values: &[f64], out: &mut Vec<u8>) {
    let Some(first) = values.first() else {
        return out.push(ABSENT);
    };
    if values.iter().all(|value| value.is_nan()) {
        out.push(ABSENT);
    } else if values
        .iter()
        .all(|value| value.to_bits() == first.to_bits())
    {
        out.push(CONSTANT);
        out.extend_from_slice(&first.to_le_bytes());
    } else if values.iter().all(|value| whole(*value).is_some()) {
        out.push(WHOLE);
        let wholes = values.iter().filter_map(|value| whole(*value));
        wholes.for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    } else {
        out.push(FLOAT);
        values
            .iter()
            .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
    }
}

/// Bytes that are taken from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// `count` numbers of `N` bytes.
    fn numbers<const N: usize>(
        &mut self,
        count: usize,
    ) -> Option<impl ExactSizeIterator<Item = [u8; N]> + use<'a, N>> {
        let bytes = self.take(count.checked_mul(N)?)?;
        // The chunks have N bytes each: the other branch is never taken.
        Some(
            bytes
                .chunks_exact(N)
                .map(|chunk| chunk.try_into().unwrap_or([0; N])),
        )
    }
}

/// Reads a shard into `columns`, whose room is used again and whose content is lost.
///
/// True when it is whole. False when it ends early or a block is broken: then what stood before is
/// in `columns`. Cost: about 1 GB/s. Errors: the bytes are no shard of this version, or too many;
/// `columns` is in no particular state.
pub fn parse_into(bytes: &[u8], columns: &mut Columns) -> Result<bool, WireError> {
    let mut bytes = Bytes(bytes);
    header(&mut bytes, columns)?;
    let metrics = columns.metrics().count();
    loop {
        let Some((rows, content)) = block(&mut bytes) else {
            return Ok(false);
        };
        if rows == 0 {
            let said = Bytes(content).array().map(u64::from_le_bytes);
            return Ok(said == Some(columns.len() as u64));
        }
        if rows > BLOCK_ROWS {
            return Err(WireError::Block);
        }
        if (columns.len() + rows) * (metrics + 4) > VALUES_MAX {
            return Err(WireError::Size);
        }
        let mut content = Bytes(content);
        take_block(&mut content, rows, metrics, columns).ok_or(WireError::Block)?;
        if !content.0.is_empty() {
            return Err(WireError::Block);
        }
    }
}

/// Reads a shard; see [`parse_into`].
pub fn parse(bytes: &[u8]) -> Result<(Columns, bool), WireError> {
    let mut columns = Columns::default();
    let is_whole = parse_into(bytes, &mut columns)?;
    Ok((columns, is_whole))
}

fn header(bytes: &mut Bytes<'_>, columns: &mut Columns) -> Result<(), WireError> {
    if bytes.array() != Some(MAGIC) {
        return Err(WireError::Foreign);
    }
    let version = bytes.u32().ok_or(WireError::Header)?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let list = metrics(bytes).ok_or(WireError::Header)?;
    if columns.metrics().eq(list.iter().copied()) {
        columns.clear();
        return Ok(());
    }
    let owned = list
        .iter()
        .map(|(tag, unit)| ((*tag).into(), (*unit).into()));
    *columns = Columns::new(owned);
    Ok(())
}

fn metrics<'a>(bytes: &mut Bytes<'a>) -> Option<Vec<(&'a str, &'a str)>> {
    let (length, sum) = (bytes.u32()?, bytes.u32()?);
    let list = bytes.take(usize::try_from(length).ok()?)?;
    if crc32fast::hash(list) != sum {
        return None;
    }
    let mut list = Bytes(list);
    let count = usize::from(list.array().map(u16::from_le_bytes)?);
    let mut text = || {
        let [length] = list.array()?;
        std::str::from_utf8(list.take(usize::from(length))?).ok()
    };
    if count > METRICS_MAX {
        return None;
    }
    let mut all: Vec<(&str, &str)> = Vec::new();
    for _ in 0..count {
        let (tag, unit) = (text()?, text()?);
        if all.iter().any(|(known, _)| *known == tag) {
            return None;
        }
        all.push((tag, unit));
    }
    list.0.is_empty().then_some(all)
}

/// The next block: its requests and content; `None` when it is cut off or broken.
fn block<'a>(bytes: &mut Bytes<'a>) -> Option<(usize, &'a [u8])> {
    let head = bytes.0.get(..8)?;
    let (rows, length, sum) = (bytes.u32()?, bytes.u32()?, bytes.u32()?);
    let content = bytes.take(usize::try_from(length).ok()?)?;
    let is_right = checksum(head, content) == sum;
    is_right.then_some((usize::try_from(rows).ok()?, content))
}

fn take_block(
    content: &mut Bytes<'_>,
    rows: usize,
    metrics: usize,
    columns: &mut Columns,
) -> Option<()> {
    let before = columns.len();
    let index = content.numbers(rows)?.map(u64::from_le_bytes);
    let start = content.numbers(rows)?.map(u64::from_le_bytes);
    let end = content.numbers(rows)?.map(u64::from_le_bytes);
    let bits = content.take(rows.div_ceil(8))?;
    for (at, (index, (start_ns, end_ns))) in index.zip(start.zip(end)).enumerate() {
        columns.push_row(Row {
            index,
            start_ns,
            end_ns,
            is_valid: bits[at / 8] >> (at % 8) & 1 == 1,
        });
    }
    for at in 0..metrics {
        let values = columns.values_mut(at);
        let [kind] = content.array()?;
        if kind == ABSENT && values.is_empty() {
            continue;
        }
        values.resize(before, f64::NAN);
        match kind {
            ABSENT => values.resize(before + rows, f64::NAN),
            CONSTANT => values.resize(before + rows, f64::from_le_bytes(content.array()?)),
            WHOLE => values.extend(
                content
                    .numbers(rows)?
                    .map(u32::from_le_bytes)
                    .map(f64::from),
            ),
            FLOAT => values.extend(content.numbers(rows)?.map(f64::from_le_bytes)),
            _ => return None,
        }
    }
    Some(())
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
