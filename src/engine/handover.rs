//! A request's end on its core: its slot, its record, what it teaches about the load.

use super::claim::Stop;
use super::core::{Core, Kept};
use super::flight::Flight;
use super::plan::CoreOutput;
use crate::base::{Ns, limits, now};
use crate::stats::{Buffers, Failure, FailureKind, Phase, Record};

/// Finished requests per hand-over.
pub(super) const BATCH_RECORDS: usize = 64;
/// A batch that is not full goes after this time all the same.
const BATCH_AGE: Ns = Ns(50_000_000);

impl Core {
    /// A request whose connection is gone: ended by its `[DONE]` if that has come, else failed.
    pub(super) fn give_up(
        &mut self,
        mut flight: Box<Flight>,
        at: Ns,
        fail: impl FnOnce(&mut Flight),
    ) {
        if !flight.complete_by_mark() {
            fail(&mut flight);
            flight.record.done = at;
        }
        self.end(flight, at);
    }

    /// A request that has ended; its slot is free since `at`.
    pub(super) fn end(&mut self, mut flight: Box<Flight>, at: Ns) {
        self.in_flight -= 1;
        self.report.requests_count += 1;
        if std::mem::take(&mut flight.holds_prefill) {
            self.free_prefill(at);
        }
        let record = std::mem::take(&mut flight.record);
        let failed = record.failure.is_some() && !record.is_cancelled();
        // Of a stream it was noted when it came.
        let first = record.first_content.filter(|_| !record.streamed);
        let first = first.map(|first| first.saturating_since(record.due));
        self.recorder.first_token(first);
        let pace = &self.plan.pace;
        pace.ended(at, record.part, record.url, failed);
        if let Some(failures) = &self.plan.failures
            && record.phase == Phase::Profiling
            && failures.ended(failed)
        {
            pace.stop(Stop::Drain);
        }
        self.end_turn(&mut flight, &record, at);
        self.learn(&record);
        self.spare.push(flight);
        self.batch.push(record);
        if self.batch.len() >= BATCH_RECORDS {
            self.flush(true);
        }
    }

    /// The session of a request goes on, or ends and frees its slot.
    fn end_turn(&mut self, flight: &mut Flight, record: &Record, at: Ns) {
        let slot = flight.slot.take();
        if let Some(mut session) = flight.session.take() {
            session.slot = slot;
            if self.rest(session, record, at) {
                return;
            }
        }
        if let Some(slot) = slot {
            let has_server = has_met_server(record);
            self.slots.give_back(slot, at, has_server);
            self.report.rests_count += u64::from(!has_server);
        } else {
            // A request that waits for a slot may go.
            self.next_due = Some(Ns::ZERO);
        }
        self.plan.pace.session_ended(at, record.part);
    }

    /// A request that has its first content holds no prefill slot any longer.
    pub(super) fn free_prefill(&mut self, at: Ns) {
        self.plan.pace.prefilled(at);
        self.next_due = Some(Ns::ZERO);
    }

    /// Follows what answers look like, and sets the batch wait by it.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(super) fn learn(&mut self, record: &Record) {
        let (Some(first), Some(last)) = (record.first_content, record.last_content) else {
            return;
        };
        let blend = |old: f64, new: f64| {
            if old == 0.0 {
                new
            } else {
                old * 0.9 + new * 0.1
            }
        };
        let latency = last.saturating_since(record.start).0 as f64;
        self.typical_latency = blend(self.typical_latency, latency);
        if record.events_count > 1 {
            let gap = last.saturating_since(first).0 as f64 / f64::from(record.events_count - 1);
            self.typical_gap = blend(self.typical_gap, gap);
        }
        let mut batch = self.plan.batch.0 as f64;
        if self.typical_gap > 0.0 {
            batch = batch.min(self.typical_gap * 0.10);
        }
        if self.plan.pace.is_closed() {
            batch = batch.min(self.typical_latency * 0.0025);
        }
        self.reactor.set_batch(Ns::from_secs_f64(batch / 1e9));
    }

    /// Hands finished requests over; never waits.
    pub(super) fn flush(&mut self, all: bool) {
        let at = now();
        let old = at.saturating_since(self.batch_since) >= BATCH_AGE;
        if all || old {
            let events = self.recorder.events;
            self.plan.pace.add_events(events - self.events_told);
            self.events_told = events;
            let first = (self.recorder.first_tokens, self.recorder.first_tokens_ns);
            let (count, ns) = self.first_tokens_told;
            let pace = &self.plan.pace;
            pace.add_first_tokens(first.0 - count, Ns(first.1 - ns));
            self.first_tokens_told = first;
            self.batch_since = at;
        }
        if !self.batch.is_empty() && (all || old) {
            let empty = Vec::with_capacity(BATCH_RECORDS);
            self.waiting
                .push_back(std::mem::replace(&mut self.batch, empty));
        }
        while let Some(batch) = self.waiting.pop_front() {
            if let Err(error) = self.plan.records.try_send(batch) {
                self.waiting.push_front(error.into_inner());
                break;
            }
        }
        while self.waiting.len() > limits::RECORD_BATCHES_MAX {
            let lost = self.waiting.pop_front().map_or(0, |batch| batch.len());
            self.records_lost += lost as u64;
        }
    }

    /// Its account, and what it keeps for a next plan.
    pub(super) fn output(
        mut self,
        receive_path: String,
        fault: Option<String>,
    ) -> (CoreOutput, Kept) {
        let spent = self.accountant.take().since(&self.account);
        for batch in self.waiting.drain(..) {
            // The loop is over: waiting hurts nobody now. A closed channel means that the record
            // thread has failed, and says so itself.
            let count = batch.len() as u64;
            if self.plan.records.send(batch).is_err() {
                self.records_lost += count;
            }
        }
        self.report.user_ns = spent.used.user_ns;
        self.report.system_ns = spent.used.system_ns;
        self.report.involuntary_switches_count = spent.used.involuntary_switches;
        self.report.steal_ratio = spent.steal_ratio;
        self.report.softirq_ratio = spent.softirq_ratio;
        self.report.run_queue_wait_ns = spent.run_queue_wait_ns;
        self.recorder.close();
        self.report.reads_count = self.recorder.reads;
        self.report.events_count = self.recorder.events;
        let elapsed = self.plan.pace.elapsed().as_secs().max(1e-9);
        self.report.busy_ratio =
            Ns(self.report.user_ns + self.report.system_ns).as_secs() / elapsed;
        let ratio = |ns: u64| Ns(ns).as_secs() / elapsed;
        self.report.run_queue_wait_ratio = spent.run_queue_wait_ns.map(ratio);
        self.report.busy_ratio_1s_max = self.busy.max.unwrap_or(self.report.busy_ratio);
        let steps = self.reactor.clock_steps_count();
        let output = CoreOutput {
            report: std::mem::take(&mut self.report),
            recorder: std::mem::take(&mut self.recorder),
            receive_path: receive_path.clone(),
            records_lost: self.records_lost,
            clock_steps_count: steps.saturating_sub(self.clock_steps_before),
            fault,
        };
        (output, self.keep(receive_path))
    }
}

/// False when no answer began, and not because our own time was up.
fn has_met_server(record: &Record) -> bool {
    use FailureKind::{Cancelled, Timeout};
    let failed = |failure: &Failure| !matches!(failure.kind, Timeout | Cancelled);
    record.headers.is_some() || !record.failure.as_deref().is_some_and(failed)
}

/// Buffers on their way back are emptied, not freed.
pub(crate) fn emptied(mut buffers: Buffers) -> Buffers {
    buffers.content_times.clear();
    buffers.answer.clear();
    buffers.reasoning.clear();
    buffers.raw.clear();
    buffers.raw_marks.clear();
    buffers.asked.clear();
    buffers
}
