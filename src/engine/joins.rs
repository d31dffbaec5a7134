//! What reads have joined, and so how far the times of their events may be off.

use super::flight::InRead;
use crate::base::Ns;
use crate::runtime::{Chunk, Reactor};
use crate::stats::CoreRecorder;

/// What a kernel stamp itself may be off by: the comparison of the two clocks.
const STAMP_ERROR_NS: u64 = 1_000;

/// The reads of one connection, beside the segments that the kernel has counted on it.
#[derive(Debug, Default)]
pub(super) struct Joins {
    /// Reads; one that fills its buffer leaves the rest of its segment to the next, and is not
    /// counted.
    reads_count: u32,
    /// Segments beyond the reads, when last looked at.
    excess: i64,
    /// Receive time of the last read that left nothing.
    last_at: Ns,
    /// The last read left bytes to the next.
    left: bool,
}

/// A read, as its events' times depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadEnd {
    pub in_read: InRead,
    /// The head of the answer was in it.
    pub has_head: bool,
    /// Nothing stands in it behind the end of its last event, which has content.
    pub ends_with_content: bool,
}

impl Joins {
    /// Receive time of the last read that left nothing.
    pub fn last_at(&self) -> Ns {
        self.last_at
    }

    /// Counts a read; gives a time after which all of it has come, and whether it is one of several
    /// reads of what lay there together.
    pub fn count(&mut self, chunk: &Chunk) -> (Ns, bool) {
        let leaves = chunk.fills_buffer;
        let before = (self.last_at, self.left || leaves);
        self.left = leaves;
        if !leaves {
            self.reads_count += 1;
            self.last_at = chunk.at;
        }
        before
    }

    /// Notes what the times of a read's content events may be off by; `before` is what
    /// [`Joins::count`] gave.
    pub fn note(
        &mut self,
        chunk: &Chunk,
        read: ReadEnd,
        before: (Ns, bool),
        reactor: &Reactor,
        recorder: &mut CoreRecorder,
    ) {
        let ReadEnd { in_read, .. } = read;
        let content = u64::from(in_read.content);
        if content == 0 {
            return;
        }
        if !chunk.stamped {
            let error = chunk.seen.saturating_since(chunk.looked_before);
            return recorder.times(error.0, content);
        }
        let (after, is_part) = before;
        // All that joined has come since the last look, and since this connection's last read.
        let since = chunk.looked_before.max(after);
        let error = chunk.at.saturating_since(since).0.max(STAMP_ERROR_NS);
        if is_part {
            // The kernel keeps what waits under the time of the last segment, which may be one that
            // a later read brings.
            if !self.left {
                self.segments(chunk, reactor);
            }
            return recorder.times(error, content);
        }
        // A stamp is that of the read's last segment. An event that stands alone in a read and ends
        // it has ended that segment.
        if in_read.events == 1 && read.ends_with_content {
            return recorder.times(STAMP_ERROR_NS, 1);
        }
        let segments = self.segments(chunk, reactor);
        if segments <= 1 {
            return recorder.times(STAMP_ERROR_NS, content);
        }
        // With a segment for each, the last event has the last segment.
        let parts = i64::from(in_read.events) + i64::from(read.has_head);
        let exact = u64::from(read.ends_with_content && segments <= parts);
        recorder.times(error, content - exact);
        recorder.times(STAMP_ERROR_NS, exact);
    }

    /// Segments that the last read has joined, those that came since included; very many where the
    /// kernel does not tell.
    fn segments(&mut self, chunk: &Chunk, reactor: &Reactor) -> i64 {
        let Some(segments) = reactor.segments_in(chunk.token) else {
            return i64::MAX;
        };
        let excess = i64::from(segments) - i64::from(self.reads_count);
        let more = excess - self.excess;
        // Segments of reads to come count as joined now, and must not hide a join later.
        if reactor.is_drained(chunk.token) && !reactor.has_more(chunk) {
            self.excess = excess;
        }
        1 + more
    }
}
