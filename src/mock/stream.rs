//! Requests for tokens: begin, fire one event when it is due, pour when unpaced, end.

use super::fault::Fault;
use super::options::UsageMode;
use super::render::{Cut, End, Patch, STREAM_HEAD, Shapes, usage};
use super::request::Ask;
use super::server::Worker;
use super::stats::add;
use super::wheel::Entry;
use crate::base::rng::Stream;
use crate::base::{Ns, Rng, now};
use crate::config::Api;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// Models whose events are kept; a client that invents names must not fill the memory.
const SHAPES_MAX: usize = 64;
/// Bytes that one unpaced stream writes before the next has its turn.
const POUR_BYTES: usize = 256 * 1024;
/// Tokens of an answer: a typing error beyond.
const TOKENS_MAX: u32 = 16_000_000;

/// One request in flight.
pub(super) struct Job {
    shapes: Rc<Shapes>,
    id: u64,
    streams: bool,
    usage: Option<String>,
    is_length: bool,
    fault: Fault,
    rng: Rng,
    sent: u32,
    total: u32,
    /// Tokens after which a fault breaks off; `total` without one.
    end: u32,
    reasoning: u32,
    prompt: u32,
    /// Texts, images or passages that were sent.
    inputs: usize,
    start: Ns,
    /// Intended time of the next event.
    next: Ns,
    last_send: Ns,
    is_admitted: bool,
}

impl Job {
    /// The tokens of the next event.
    fn cut(&self, per_chunk: u32) -> Cut {
        let is_reasoning = self.sent < self.reasoning;
        let border = if is_reasoning {
            self.reasoning.min(self.end)
        } else {
            self.end
        };
        let count = per_chunk.min(border - self.sent);
        Cut {
            start: self.sent,
            count,
            is_reasoning,
            is_whole: count == per_chunk,
        }
    }

    fn closing(&self) -> End {
        End {
            is_length: self.is_length,
            says_done: self.fault != Fault::NoDone,
            usage: self.usage.clone(),
        }
    }
}

impl Worker {
    /// Takes a request: refuses it, queues it, or starts it.
    pub(super) fn begin(&mut self, index: u32, ask: Ask) {
        let shared = std::sync::Arc::clone(&self.shared);
        let options = &shared.options;
        add(&self.counters.requests, 1);
        if options.model != "any" && options.model != ask.model {
            add(&self.counters.completed, 1);
            let message = format!("The model `{}` does not exist.", ask.model);
            self.refuse(index, 404, &message);
            return;
        }
        let id = shared.next_id.fetch_add(1, Relaxed);
        let mut rng = Rng::new(options.seed, Stream::Mock, id);
        let fault = options.faults.draw(&mut rng);
        if fault != Fault::None {
            add(&self.counters.faults, 1);
        }
        match fault {
            Fault::Status(code) => {
                add(&self.counters.completed, 1);
                self.refuse(index, code, "mock fault");
                return;
            }
            Fault::WrongContentType => {
                add(&self.counters.completed, 1);
                self.answer(
                    index,
                    200,
                    "text/html",
                    "<html><body>mock fault</body></html>",
                );
                return;
            }
            Fault::StaleClose | Fault::Cut => self.conn(index).closes = true,
            _ => {}
        }
        let job = self.new_job(&ask, id, fault, rng);
        self.conn(index).job = Some(job);
        if shared.options.concurrency_limit.is_some() {
            let life = self.conn(index).life;
            self.waiting.push_back((index, life));
            self.admit();
        } else {
            shared.stats.in_flight.rise();
            self.start(index);
        }
    }

    fn new_job(&mut self, ask: &Ask, id: u64, fault: Fault, mut rng: Rng) -> Job {
        let shapes = self.shapes_for(ask.api, &ask.model);
        let options = &self.shared.options;
        let asked = ask.max_tokens.filter(|_| options.honors_max_tokens);
        let law = f64::from(options.tokens) + options.tokens_stddev * rng.normal();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates"
        )]
        let law = match (ask.api.has_tokens(), ask.streams) {
            (true, _) => law.round() as u32,
            // An answer that is no text is there at once; of images some are seen before the last.
            (false, streams) => 1 + u32::from(streams),
        };
        let total = asked.unwrap_or(law).clamp(1, TOKENS_MAX);
        let total = if fault == Fault::Empty { 0 } else { total };
        let reasoning = options.reasoning.min(total);
        let prompt = options
            .prompt_tokens
            .unwrap_or_else(|| u32::try_from(ask.prompt_bytes.div_ceil(4)).unwrap_or(u32::MAX));
        let wants = options.usage != UsageMode::Off && (ask.wants_usage || !ask.streams);
        Job {
            shapes,
            id,
            streams: ask.streams,
            usage: wants.then(|| {
                let said = if ask.api.has_tokens() { total } else { 0 };
                usage(options.usage, prompt, said, reasoning.min(said))
            }),
            is_length: asked.is_some(),
            end: if fault.breaks_off() { total / 2 } else { total },
            fault,
            rng,
            sent: 0,
            total,
            reasoning,
            prompt,
            inputs: ask.inputs,
            start: now(),
            next: Ns::MAX,
            last_send: Ns::ZERO,
            is_admitted: false,
        }
    }

    fn shapes_for(&mut self, api: Api, model: &str) -> Rc<Shapes> {
        let key = (api, model.to_owned());
        if let Some(shapes) = self.shapes.get(&key) {
            return Rc::clone(shapes);
        }
        if self.shapes.len() >= SHAPES_MAX {
            self.shapes.clear();
        }
        let shapes = Shapes::new(&self.shared.options, api, model, self.shared.created);
        let shapes = Rc::new(shapes);
        self.shapes.insert(key, Rc::clone(&shapes));
        shapes
    }

    /// Starts requests that wait, as far as the concurrency limit lets them.
    pub(super) fn admit(&mut self) {
        let shared = std::sync::Arc::clone(&self.shared);
        let limit = shared.options.concurrency_limit.map_or(u64::MAX, u64::from);
        while let Some(&(index, life)) = self.waiting.front() {
            if self.is_alive(index, life) {
                if !shared.stats.in_flight.try_rise(limit) {
                    return;
                }
                self.waiting.pop_front();
                self.start(index);
            } else {
                self.waiting.pop_front();
            }
        }
    }

    fn start(&mut self, index: u32) {
        let options = &self.shared.options;
        let (is_unpaced, per_chunk) = (options.unpaced, options.tokens_per_chunk);
        let in_flight = || self.shared.stats.in_flight.now();
        let (ttft, ttft_jitter) = (options.first(in_flight), options.ttft_jitter);
        let itl_jitter = options.itl_jitter;
        let Some(job) = &mut self.conns[index as usize].job else {
            return;
        };
        job.is_admitted = true;
        job.next = now();
        if !is_unpaced {
            job.next = job.next + ttft_jitter.apply(ttft, &mut job.rng);
            if !job.streams {
                let itl = options.gap(in_flight);
                for _ in 1..job.total.div_ceil(per_chunk) {
                    job.next = job.next + itl_jitter.apply(itl, &mut job.rng);
                }
            }
        }
        if !job.streams {
            return self.schedule(index);
        }
        self.counters.count_code(200);
        if !self.send(index, STREAM_HEAD) {
            return;
        }
        if is_unpaced {
            self.make_ready(index);
        } else {
            self.schedule(index);
        }
    }

    /// Sets the deadline of the next event, or of a comment before it.
    fn schedule(&mut self, index: u32) {
        let keepalive = self.shared.options.keepalive;
        let conn = self.conn(index);
        let life = conn.life;
        let Some(job) = &conn.job else { return };
        let mut at = job.next;
        if let Some(keepalive) = keepalive.filter(|_| job.streams) {
            at = at.min(now() + keepalive);
        }
        if at < Ns::MAX {
            self.wheel.add(Entry {
                at,
                conn: index,
                life,
            });
        }
    }

    pub(super) fn make_ready(&mut self, index: u32) {
        let can_pour = self.can_pour(index);
        let conn = self.conn(index);
        if can_pour && !conn.is_ready {
            conn.is_ready = true;
            self.ready.push(index);
        }
    }

    /// True when the slot has an unpaced stream under way that is not held up.
    fn can_pour(&self, index: u32) -> bool {
        let conn = &self.conns[index as usize];
        let goes_on = |job: &Job| job.streams && job.is_admitted && job.next < Ns::MAX;
        self.shared.options.unpaced && !conn.is_blocked() && conn.job.as_ref().is_some_and(goes_on)
    }

    /// A deadline has come: an event, a whole answer, or a comment.
    pub(super) fn fire(&mut self, index: u32, at: Ns) {
        let Some(job) = &self.conn(index).job else {
            return;
        };
        if !job.streams {
            return self.answer_whole(index);
        }
        if at < job.next {
            let shapes = Rc::clone(&job.shapes);
            if self.send(index, &shapes.comment) {
                self.schedule(index);
            }
            return;
        }
        if self.step(index, 1).is_some() {
            self.schedule(index);
        }
    }

    /// Writes as fast as the client takes, up to one turn's bytes.
    pub(super) fn pour(&mut self, index: u32) {
        self.conn(index).is_ready = false;
        let batch = self.shared.options.batch;
        let mut poured = 0;
        // A blocked one is made ready again by the socket's next edge. The slot may have closed.
        while poured < POUR_BYTES && self.can_pour(index) {
            match self.step(index, batch) {
                Some(bytes) => poured += bytes,
                None => return,
            }
        }
        self.make_ready(index);
    }

    /// Sends the next `count` events in one write. `None`: the stream has ended, or hangs.
    fn step(&mut self, index: u32, count: u32) -> Option<usize> {
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        let actual = now();
        let is_over = self.render(index, count, actual, &mut out);
        let is_alive = self.send(index, &out);
        let bytes = out.len();
        self.scratch = out;
        if !is_alive {
            return None;
        }
        if is_over {
            self.finish(index, actual);
            return None;
        }
        Some(bytes)
    }

    /// Appends the next events and, after the last token, the end. True: nothing comes after.
    fn render(&mut self, index: u32, count: u32, actual: Ns, out: &mut Vec<u8>) -> bool {
        let options = &self.shared.options;
        let Some(job) = &mut self.conns[index as usize].job else {
            return false;
        };
        let intended = if options.unpaced { actual } else { job.next };
        let patch = Patch::new(job.id, intended, actual);
        if job.sent == 0 {
            job.shapes.open(&patch, out);
            self.counters
                .ttft
                .record(actual.saturating_since(job.start));
            add(&self.counters.prompt_tokens, u64::from(job.prompt));
        } else {
            let gap = actual.saturating_since(job.last_send);
            self.counters.itl.record(gap);
        }
        self.counters
            .send_lag
            .record(actual.saturating_since(intended));
        job.last_send = actual;
        let (mut events, before) = (0, job.sent);
        while events < count && job.sent < job.end {
            let cut = job.cut(options.tokens_per_chunk);
            job.shapes.tokens(&cut, &patch, out);
            job.sent += cut.count;
            events += 1;
        }
        add(&self.counters.events, u64::from(events));
        let generated = u64::from(job.sent - before);
        add(&self.counters.generated_tokens, generated);
        if job.sent < job.end {
            if !options.unpaced {
                let itl = options.gap(|| self.shared.stats.in_flight.now());
                job.next = job.next + options.itl_jitter.apply(itl, &mut job.rng);
            }
            return false;
        }
        match job.fault {
            Fault::Stall | Fault::Reset | Fault::Cut => {}
            Fault::ErrorInStream => job.shapes.fail(out),
            _ => job.shapes.close(&job.closing(), &patch, out),
        }
        true
    }

    /// The last byte is on its way: what the fault asks, then the next request.
    fn finish(&mut self, index: u32, at: Ns) {
        let Some(job) = &mut self.conn(index).job else {
            return;
        };
        match job.fault {
            Fault::Stall => {
                job.next = Ns::MAX;
                return;
            }
            Fault::Reset => return self.reset(index),
            _ => {}
        }
        let e2e = at.saturating_since(job.start);
        let reason = usize::from(!job.is_length);
        let is_whole = !job.fault.breaks_off();
        self.counters.e2e.record(e2e);
        if is_whole {
            add(&self.counters.finished[reason], 1);
        }
        add(&self.counters.completed, 1);
        self.end_job(index);
        if self.settle(index) {
            self.take_requests(index);
        }
    }

    /// Frees the request's place.
    pub(super) fn end_job(&mut self, index: u32) {
        let conn = self.conn(index);
        conn.life = conn.life.wrapping_add(1);
        if conn.job.take().is_some_and(|job| job.is_admitted) {
            self.shared.stats.in_flight.fall();
        }
    }

    fn answer_whole(&mut self, index: u32) {
        let actual = now();
        let Some(job) = &self.conns[index as usize].job else {
            return;
        };
        let patch = Patch::new(job.id, job.next, actual);
        let end = job.closing();
        let body = job
            .shapes
            .body(job.total, job.reasoning, job.inputs, &end, &patch);
        self.counters
            .send_lag
            .record(actual.saturating_since(job.next));
        add(&self.counters.events, 1);
        add(&self.counters.prompt_tokens, u64::from(job.prompt));
        add(&self.counters.generated_tokens, u64::from(job.total));
        let is_alive = match job.fault {
            Fault::Stall | Fault::Reset => true,
            Fault::Cut => {
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\n\r\n{}",
                    body.len(),
                    &body[..body.len() / 2]
                );
                self.send(index, head.as_bytes())
            }
            Fault::ErrorInStream => self.refuse(index, 500, "mock fault"),
            _ => self.answer(index, 200, "application/json", &body),
        };
        if is_alive {
            self.finish(index, actual);
        }
    }
}
