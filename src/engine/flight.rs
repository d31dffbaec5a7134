//! One request's life: from its claim to its record. No sockets here; times come with the bytes.

use super::plan::CorePlan;
use super::session::Session;
use super::slots::Slot;
use crate::base::{Ns, limits};
use crate::endpoint::{Endpoint, EventReader, Part, stamp};
use crate::http::codec::{ContentType, Head, Piece};
use crate::sse;
use crate::stats::{Failure, FailureKind, Record, Stage, StampErrors};
use std::sync::Arc;

/// Bytes of events before any content that are kept, to tell whose they are.
const OTHERS_BYTES_MAX: usize = 4096;

/// A request in progress.
pub(super) struct Flight {
    pub record: Record,
    /// The slot that it holds in a closed loop.
    pub slot: Option<Slot>,
    /// The session that it is a turn of, where that has several.
    pub session: Option<Box<Session>>,
    /// It holds a prefill slot.
    pub holds_prefill: bool,
    payload: Arc<[u8]>,
    endpoint: Endpoint,
    streaming: bool,
    raw: bool,
    sse: sse::Decoder,
    body: Vec<u8>,
    reason: String,
    content_type: ContentType,
    /// When `[DONE]` came: the end of what counts.
    done_at: Option<Ns>,
    finish_seen: bool,
    in_read: InRead,
    /// By how much the last event was later than the mock's stamp in it.
    stamp_error: Option<u64>,
}

/// What all flights of a core use.
pub(super) struct Shared<'a> {
    pub reader: &'a mut EventReader,
    /// Where errors against the mock's stamps go, when they are asked for.
    pub stamp_errors: &'a mut Option<Box<StampErrors>>,
}

/// The events of one read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InRead {
    /// Of any kind.
    pub events: u32,
    /// With content: those whose times count.
    pub content: u32,
    /// The last event has content.
    pub ends_with_content: bool,
}

impl Flight {
    pub fn new(record: Record, slot: Option<Slot>, payload: Arc<[u8]>, plan: &CorePlan) -> Flight {
        Flight {
            record,
            slot,
            session: None,
            holds_prefill: false,
            payload,
            endpoint: plan.endpoint.clone(),
            streaming: plan.streaming,
            raw: plan.raw,
            sse: sse::Decoder::new(),
            body: Vec::new(),
            reason: String::new(),
            content_type: ContentType::None,
            done_at: None,
            finish_seen: false,
            in_read: InRead::default(),
            stamp_error: None,
        }
    }

    /// Prepares for the next request, keeping allocations.
    pub fn renew(&mut self, record: Record, slot: Option<Slot>, payload: Arc<[u8]>) {
        self.record = record;
        self.slot = slot;
        self.payload = payload;
        self.sse.reset();
        self.body.clear();
        self.reason.clear();
        self.stamp_error = None;
        self.done_at = None;
        self.finish_seen = false;
    }

    /// Reads a word of each part that an event needs; see `Core::warm_up`.
    pub fn touch(&self) -> u64 {
        let record = &self.record;
        let early = record.first_byte.map_or(0, |at| at.0) ^ record.received_bytes;
        let counts = record.events_count ^ self.in_read.events;
        let room = record.buffers.content_times.len() ^ record.buffers.answer.len();
        let own = u64::from(self.sse.is_pending()) ^ u64::from(self.finish_seen);
        early ^ u64::from(counts) ^ room as u64 ^ own
    }

    /// The same of the buffers' ends.
    pub fn touch_tails(&self) -> usize {
        let buffers = &self.record.buffers;
        let time = buffers.content_times.last().map_or(0, |at| at.0 & 1);
        let text = buffers.answer.last().copied().unwrap_or(0);
        usize::from(text) + usize::from(time == 1)
    }

    /// The request's body.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// A piece of the response, of a read at `at`.
    pub fn on_piece(&mut self, piece: Piece<'_>, at: Ns, shared: &mut Shared<'_>) {
        match piece {
            Piece::Head(head) => self.on_head(head, at),
            Piece::Body(bytes) => self.on_body(bytes, at, shared),
        }
    }

    /// True once, when the first content has come: the prefill slot is free.
    pub fn is_prefilled(&mut self) -> bool {
        let is_it = self.holds_prefill && self.record.first_content.is_some();
        self.holds_prefill &= !is_it;
        is_it
    }

    /// A read begins.
    pub fn begin_read(&mut self) {
        self.in_read = InRead::default();
    }

    /// What the last read brought.
    pub fn in_read(&self) -> InRead {
        self.in_read
    }

    /// From due to the first content, when that came with the last read.
    pub fn first_token(&self) -> Option<Ns> {
        let count = self.in_read.content;
        let first = self.record.first_content?;
        let is_new = count > 0 && count == self.record.events_count;
        is_new.then(|| first.saturating_since(self.record.due))
    }

    /// True when the body bytes of the last read ended where a content event did.
    pub fn ends_with_content(&self) -> bool {
        self.in_read.ends_with_content && self.sse.is_at_event_end()
    }

    fn on_head(&mut self, head: &Head, at: Ns) {
        self.record.headers = Some(at);
        // What is answered has been written, however late that was seen.
        self.record.written = self.record.written.map(|written| written.min(at));
        self.record.status = Some(head.status);
        self.reason.push_str(&head.reason);
        self.content_type = head.content_type;
        if let Some(coding) = &head.content_encoding
            && !coding.eq_ignore_ascii_case("identity")
        {
            let text = format!("content-encoding `{coding}` although identity was asked for");
            self.fail(FailureKind::Stream, 0, "content_encoding", text);
        }
    }

    fn is_success(&self) -> bool {
        matches!(self.record.status, Some(200..300))
    }

    fn is_stream(&self) -> bool {
        self.is_success() && self.content_type == ContentType::EventStream
    }

    fn on_body(&mut self, bytes: &[u8], at: Ns, shared: &mut Shared<'_>) {
        if bytes.is_empty() {
            return;
        }
        if self.record.first_byte.is_none() {
            self.record.first_byte = Some(at);
        }
        self.record.received_bytes += bytes.len() as u64;
        if !self.is_stream() {
            let cap = match self.is_success() {
                true => limits::BODY_BYTES_MAX,
                false => limits::ERROR_BODY_BYTES_MAX,
            };
            let room = cap.saturating_sub(self.body.len());
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            return;
        }
        self.record.streamed = true;
        let mut sse = std::mem::take(&mut self.sse);
        let result = sse.feed(bytes, &mut |event: sse::Event<'_>| {
            self.in_read.events += 1;
            self.in_read.ends_with_content = false;
            if self.raw {
                self.record.buffers.raw.extend_from_slice(event.data);
                let end = self.record.buffers.raw.len();
                self.record.buffers.raw_marks.push((at, end));
            }
            if self.done_at.is_some() {
                return;
            }
            let part = shared.reader.read(event.name, event.data);
            if self.brings_content(&part) {
                self.in_read.content += 1;
                self.in_read.ends_with_content = true;
                if let Some(errors) = shared.stamp_errors
                    && let Some((_, actual)) = stamp::find(event.data)
                {
                    let error = at.saturating_since(stamp::lift(actual, at)).0;
                    errors.note(error, self.stamp_error);
                    self.stamp_error = Some(error);
                }
            }
            self.on_part(&part, at);
            if self.record.events_count == 0 && self.body.len() < OTHERS_BYTES_MAX {
                // Should no content come, it tells whose answer it is.
                self.body.extend_from_slice(event.data);
                self.body.push(b'\n');
            }
        });
        self.sse = sse;
        if let Err(error) = result
            && self.done_at.is_none()
        {
            self.fail(FailureKind::Stream, 0, "event_too_long", error.to_string());
        }
    }

    /// A text that is all of the answer so far brings content where it has grown.
    fn brings_content(&self, part: &Part<'_>) -> bool {
        let known = self.record.buffers.answer.len();
        let has_grown = || part.answer.as_ref().is_some_and(|text| text.len() > known);
        part.has_content() && (!part.is_whole_text || has_grown())
    }

    fn on_part(&mut self, part: &Part<'_>, at: Ns) {
        let has_content = self.brings_content(part);
        if part.done {
            self.done_at = Some(at);
        }
        self.finish_seen |= part.finished;
        if let Some(usage) = &part.usage {
            self.record.usage.take(usage);
            if self.record.events_count == 0 && has_content {
                self.record.first_content_tokens = usage.completion;
            }
        }
        if let Some(error) = &part.error {
            let name = error.name.clone().unwrap_or_else(|| "stream_error".into());
            let code = error.code.unwrap_or(502);
            self.fail(FailureKind::Stream, code, &name, error.message.clone());
            return;
        }
        if has_content {
            self.on_content(part, at);
        }
    }

    fn on_content(&mut self, part: &Part<'_>, at: Ns) {
        let record = &mut self.record;
        match record.events_count {
            0 => record.first_content = Some(at),
            1 => record.second_content = Some(at),
            _ => {}
        }
        record.events_count += 1;
        record.last_content = Some(at);
        if record.first_output.is_none() && (part.answer.is_some() || part.tool_call.is_some()) {
            record.first_output = Some(at);
        }
        let buffers = &mut record.buffers;
        if buffers.content_times.len() < limits::EVENT_TIMES_MAX {
            buffers.content_times.push(at);
        }
        if part.is_whole_text {
            buffers.answer.clear();
        }
        for text in [&part.answer, &part.tool_call].into_iter().flatten() {
            buffers.answer.extend_from_slice(text);
        }
        if let Some(text) = &part.reasoning {
            buffers.reasoning.extend_from_slice(text);
        }
    }

    /// Marks the failure; the first one stands.
    pub fn fail(&mut self, kind: FailureKind, code: u16, name: &str, message: String) {
        self.fail_after(kind, code, name, message, None);
    }

    /// The same with the time of a timeout.
    pub fn fail_after(
        &mut self,
        kind: FailureKind,
        code: u16,
        name: &str,
        mut message: String,
        after: Option<Ns>,
    ) {
        if self.record.failure.is_some() {
            return;
        }
        if message.is_empty() {
            message.push_str(name);
        }
        if message.len() > limits::ERROR_BODY_BYTES_MAX {
            let end = (0..=limits::ERROR_BODY_BYTES_MAX)
                .rev()
                .find(|&end| message.is_char_boundary(end))
                .unwrap_or(0);
            message.truncate(end);
        }
        let stage = self.stage();
        let name = name.to_string();
        self.record.failure = Some(Box::new(Failure {
            kind,
            stage,
            code,
            name,
            message,
            after,
        }));
    }

    fn stage(&self) -> Stage {
        if self.record.first_content.is_some() {
            Stage::Stream
        } else if self.record.written.is_some() {
            Stage::FirstToken
        } else if self.record.sent.is_some() {
            Stage::Send
        } else {
            Stage::Connect
        }
    }

    /// When `[DONE]` came: what the connection does after it loses nothing.
    pub fn done_at(&self) -> Option<Ns> {
        self.done_at
    }

    /// The connection has ended or must. With `[DONE]` seen that is the end of the answer, at the
    /// time of the mark; without, false: it is a failure that the caller knows.
    pub fn complete_by_mark(&mut self) -> bool {
        if let Some(at) = self.done_at {
            self.complete(at);
        }
        self.done_at.is_some()
    }

    /// The response has ended in order at `at`.
    pub fn complete(&mut self, at: Ns) {
        self.record.done = at;
        let status = self.record.status.unwrap_or(0);
        if !self.is_success() {
            let body = String::from_utf8_lossy(&self.body).into_owned();
            let reason = match self.reason.is_empty() {
                true => format!("status {status}"),
                false => self.reason.clone(),
            };
            self.fail(FailureKind::Server, status, &reason, body);
        } else if self.is_stream() {
            self.complete_stream();
        } else {
            self.complete_whole(status, at);
        }
    }

    /// The rules of field case SP-5.
    fn complete_stream(&mut self) {
        let marks = self.endpoint.api().marks_end();
        if marks {
            self.record.done_missing = self.done_at.is_none();
            self.record.finish_reason_missing = !self.finish_seen;
        }
        if self.record.events_count == 0 {
            let nothing = "the stream ended without any content";
            let (name, text) = self.endpoint.without_content(&self.body, nothing);
            self.fail(FailureKind::Stream, 0, name, text);
        } else if marks && self.done_at.is_none() && !self.finish_seen {
            let text = "the stream ended with neither a finish reason nor [DONE]".to_string();
            self.fail(FailureKind::Stream, 0, "stream_truncated", text);
        }
    }

    fn complete_whole(&mut self, status: u16, at: Ns) {
        if self.body.is_empty() {
            let text = format!("status {status} with an empty body");
            return self.fail(FailureKind::Stream, 0, "no_content", text);
        }
        let body = std::mem::take(&mut self.body);
        if self.raw {
            self.record.buffers.raw.extend_from_slice(&body);
            self.record.buffers.raw_marks.push((at, body.len()));
        }
        match self.endpoint.read_body(&body) {
            Err(text) => {
                let name = if self.streaming {
                    "content_type"
                } else {
                    "invalid_body"
                };
                self.fail(FailureKind::Stream, 0, name, text);
            }
            Ok(part) if self.streaming && part.error.is_none() => {
                let text = "a stream was asked for, one whole answer came".to_string();
                self.fail(FailureKind::Stream, 0, "content_type", text);
            }
            Ok(part) => {
                self.on_part(&part, at);
                if !part.has_content() {
                    let nothing = "the answer has no content";
                    let (name, text) = self.endpoint.without_content(&body, nothing);
                    self.fail(FailureKind::Stream, 0, name, text);
                }
            }
        }
        self.body = body;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;

    fn streaming() -> Flight {
        let record = Record {
            status: Some(200),
            ..Record::default()
        };
        Flight {
            record,
            slot: None,
            session: None,
            holds_prefill: false,
            payload: Arc::from([]),
            endpoint: Api::Chat.into(),
            streaming: true,
            raw: false,
            sse: sse::Decoder::new(),
            body: Vec::new(),
            reason: String::new(),
            content_type: ContentType::EventStream,
            done_at: None,
            finish_seen: false,
            in_read: InRead::default(),
            stamp_error: None,
        }
    }

    #[test]
    fn only_a_read_that_ends_with_a_content_event_has_that_events_time() {
        const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n";
        const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        for (read, content, ends_right) in [
            (TEXT.to_string(), 1, true),
            ([ROLE, TEXT].concat(), 1, true),
            ([TEXT, ROLE].concat(), 1, false),
            ([TEXT, TEXT, "data: [DONE]\n\n"].concat(), 2, false),
            ([TEXT, TEXT, "data: {\"cho"].concat(), 2, false),
            ([TEXT, ": keep-alive\n\n"].concat(), 1, false),
            ([TEXT, ":\n"].concat(), 1, false),
            ([TEXT, "\n"].concat(), 1, false),
            (TEXT.replace('\n', "\r\n"), 1, true),
            (TEXT.replace('\n', "\r"), 1, true),
            (TEXT.trim_end().to_string(), 0, false),
        ] {
            let mut flight = streaming();
            let mut shared = Shared {
                reader: &mut EventReader::new(Api::Chat.into()),
                stamp_errors: &mut None,
            };
            flight.begin_read();
            flight.on_piece(Piece::Body(read.as_bytes()), Ns(1), &mut shared);
            assert_eq!(flight.in_read().content, content, "{read}");
            assert_eq!(flight.ends_with_content(), ends_right, "{read}");
        }
    }
}
