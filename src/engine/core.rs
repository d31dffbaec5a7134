//! The loop of one core: wait, take in what came, send what is due.

use super::flight::Flight;
use super::pace::{Claim, Stop};
use super::plan::{CoreOutput, CorePlan};
use crate::base::{Ns, Rng, limits, now, rng::Stream};
use crate::http::{Conn, ConnError, Secured};
use crate::runtime::{
    self, Chunk, Driver, Event, Reactor, ReactorOptions, ThreadCpu, Token, thread_cpu,
};
use crate::stats::summary::CoreReport;
use crate::stats::{Buffers, CoreRecorder, FailureKind, Record};
use std::collections::VecDeque;
use std::io;

/// Finished requests per hand-over.
const BATCH_RECORDS: usize = 64;
/// A batch that is not full goes after this time all the same.
const BATCH_AGE: Ns = Ns(50_000_000);
/// How often an idle core asks for a slot that another core frees.
const SLOT_POLL: Ns = Ns(500_000);
/// What a kernel stamp itself may be off by: the comparison of the two clocks.
const STAMP_ERROR_NS: u64 = 1_000;

/// What a connection is doing.
enum Doing {
    /// TCP or TLS.
    Connecting,
    /// Waiting for a request.
    Idle,
    /// A request is on it.
    Busy,
    /// Nothing; the slot is free.
    Closed,
}

struct Line {
    token: Token,
    target: usize,
    conn: Option<Conn>,
    doing: Doing,
    flight: Option<Box<Flight>>,
    connect_start: Ns,
    connect_done: Option<Ns>,
    tls_done: Option<Ns>,
    /// Counts the requests that the line has carried, so that an old deadline is known as old.
    serial: u64,
}

struct Core {
    plan: CorePlan,
    reactor: Reactor,
    recorder: CoreRecorder,
    report: CoreReport,
    lines: Vec<Line>,
    idle: Vec<Vec<Token>>,
    /// Slots of a closed loop, each with the time it became free.
    free_slots: VecDeque<Ns>,
    in_flight: usize,
    opening: usize,
    deadlines: VecDeque<(Ns, Token, u64)>,
    spare: Vec<Box<Flight>>,
    batch: Vec<Record>,
    batch_since: Ns,
    waiting: VecDeque<Vec<Record>>,
    records_lost: u64,
    serial: u64,
    request: Vec<u8>,
    cpu_start: ThreadCpu,
    typical_latency: f64,
    typical_gap: f64,
    finished: bool,
}

/// Runs a core to its end on the calling thread.
pub fn run(plan: CorePlan) -> CoreOutput {
    let cpu = plan.cpu;
    let result = runtime::run_pinned(cpu, |driver, pinned| async move {
        let (mut core, path) = match Core::new(plan, &driver, pinned) {
            Ok(made) => made,
            Err(text) => return failed_output(text),
        };
        let fault = core.work().await.err();
        core.output(path, fault)
    });
    result.unwrap_or_else(|error| failed_output(format!("no I/O driver: {error}")))
}

fn failed_output(text: String) -> CoreOutput {
    CoreOutput {
        report: CoreReport::default(),
        recorder: CoreRecorder::default(),
        receive_path: String::new(),
        records_lost: 0,
        clock_steps_count: 0,
        fault: Some(text),
    }
}

impl Core {
    fn new(plan: CorePlan, driver: &Driver, pinned: bool) -> Result<(Core, String), String> {
        let wish = plan.ring && *driver == Driver::Uring;
        let options = |ring| ReactorOptions {
            ring,
            batch: plan.batch,
        };
        let (reactor, why) = match Reactor::new(options(wish)) {
            Ok(reactor) => (reactor, None),
            Err(reason) if wish => (Reactor::new(options(false))?, Some(reason)),
            Err(reason) => return Err(reason),
        };
        let mut path = reactor.describe();
        let reason = match driver {
            Driver::Legacy(reason) => Some(reason.clone()),
            Driver::Uring => why,
        };
        if let Some(reason) = reason {
            path = format!("{path} ({reason})");
        }
        let report = CoreReport {
            cpu: plan.cpu.filter(|_| pinned),
            ..CoreReport::default()
        };
        let idle = vec![Vec::new(); plan.targets.len()];
        let core = Core {
            plan,
            reactor,
            recorder: CoreRecorder::default(),
            report,
            lines: Vec::new(),
            idle,
            free_slots: VecDeque::new(),
            in_flight: 0,
            opening: 0,
            deadlines: VecDeque::new(),
            spare: Vec::new(),
            batch: Vec::with_capacity(BATCH_RECORDS),
            batch_since: now(),
            waiting: VecDeque::new(),
            records_lost: 0,
            serial: 0,
            request: Vec::new(),
            cpu_start: ThreadCpu::default(),
            typical_latency: 0.0,
            typical_gap: 0.0,
            finished: false,
        };
        Ok((core, path))
    }

    async fn work(&mut self) -> Result<(), String> {
        self.open_connections().await?;
        self.plan.pace.core_is_ready();
        let start = self.await_start().await?;
        self.cpu_start = thread_cpu();
        for _ in 0..self.plan.slots {
            self.free_slots.push_back(start);
        }
        let mut looked = now();
        loop {
            let next = self.dispatch();
            self.check_deadlines(now());
            self.flush(false);
            if self.finished && self.in_flight == 0 {
                break;
            }
            let before_wait = now();
            let stall = before_wait.saturating_since(looked).0;
            self.report.loop_stall_ns_max = self.report.loop_stall_ns_max.max(stall);
            self.wait(next).await?;
            looked = now();
            self.take_events();
        }
        self.flush(true);
        Ok(())
    }

    async fn wait(&mut self, next: Option<Ns>) -> Result<(), String> {
        let deadline = match (next, self.deadlines.front()) {
            (Some(next), Some(&(at, ..))) => Some(next.min(at)),
            (next, front) => next.or(front.map(|&(at, ..)| at)),
        };
        let result = self.reactor.wait(deadline).await;
        result.map_err(|error| format!("waiting for events: {error}"))
    }

    /// Opens the connections that the start needs, a bounded number at a time.
    async fn open_connections(&mut self) -> Result<(), String> {
        let mut asked = 0;
        let mut target = usize::from(self.plan.core);
        while asked < self.plan.connections || self.opening > 0 {
            while asked < self.plan.connections && self.opening < limits::CONNECTS_IN_FLIGHT_MAX {
                self.connect(target % self.plan.targets.len(), None);
                target += 1;
                asked += 1;
            }
            let patience = now() + Ns::from_ms(5);
            self.check_deadlines(now());
            self.wait(Some(patience)).await?;
            self.take_events();
            if self.plan.pace.stopping(now()) == Stop::Cancel {
                break;
            }
        }
        Ok(())
    }

    async fn await_start(&mut self) -> Result<Ns, String> {
        loop {
            if let Some(start) = self.plan.pace.started() {
                return Ok(start);
            }
            if self.plan.pace.stopping(now()) != Stop::Run {
                return Ok(now());
            }
            self.wait(Some(now() + Ns(200_000))).await?;
            self.take_events();
        }
    }

    /// Sends all that may go; returns when to come back for the next.
    fn dispatch(&mut self) -> Option<Ns> {
        let at = now();
        if self.plan.pace.stopping(at) == Stop::Cancel {
            self.cancel_all(at);
            self.finished = true;
            return None;
        }
        let closed = self.plan.pace.is_closed();
        while !self.finished {
            if closed && self.free_slots.is_empty() {
                return None;
            }
            let at = now();
            match self.plan.pace.claim(at, self.plan.core) {
                Claim::Take {
                    index,
                    due,
                    phase,
                    granted,
                } => {
                    let due = match due {
                        Some(due) => due,
                        None => self.free_slots.pop_front().unwrap_or(at),
                    };
                    let slot = granted.unwrap_or(due);
                    self.start(Record {
                        index,
                        due,
                        slot,
                        phase,
                        ..Record::default()
                    });
                }
                Claim::NotBefore(time) => return Some(time),
                Claim::Full => return Some(at + SLOT_POLL),
                Claim::Finished => self.finished = true,
            }
        }
        None
    }

    fn start(&mut self, mut record: Record) {
        let request = self.plan.requests.get(record.index);
        let target = usize::try_from(record.index).unwrap_or(0) % self.plan.targets.len();
        let mut rng = Rng::new(self.plan.seed, Stream::RequestId, record.index);
        record.request_id = (u128::from(rng.bits()) << 64) | u128::from(rng.bits());
        record.core = self.plan.core;
        record.url = u16::try_from(target).unwrap_or(u16::MAX);
        record.requested_input = Some(request.input_tokens);
        record.requested_output = request.output_tokens;
        record.buffers = self.plan.buffers.try_recv().unwrap_or_default();
        let plan = &self.plan;
        let flight = match self.spare.pop() {
            Some(mut flight) => {
                flight.renew(record);
                flight
            }
            None => Box::new(Flight::new(record, plan.api, plan.streaming, plan.raw)),
        };
        self.in_flight += 1;
        self.put_on_line(target, flight);
    }

    fn put_on_line(&mut self, target: usize, flight: Box<Flight>) {
        while let Some(token) = self.idle[target].pop() {
            if self
                .line(token)
                .is_some_and(|line| matches!(line.doing, Doing::Idle))
            {
                return self.send(token, flight);
            }
        }
        self.connect(target, Some(flight));
    }

    fn connect(&mut self, target: usize, mut flight: Option<Box<Flight>>) {
        let token = self.reactor.connect(self.plan.targets[target].addr);
        let at = now();
        if let Some(flight) = &mut flight {
            flight.record.start = at;
            flight.record.connect_start = Some(at);
            let late = at.saturating_since(flight.record.due.max(flight.record.slot));
            self.recorder.send_lag.record(late.0);
        } else {
            self.opening += 1;
        }
        self.serial += 1;
        let line = Line {
            token,
            target,
            conn: None,
            doing: Doing::Connecting,
            flight,
            connect_start: at,
            connect_done: None,
            tls_done: None,
            serial: self.serial,
        };
        let slot = token.slot as usize;
        if slot < self.lines.len() {
            self.lines[slot] = line;
        } else {
            self.lines.push(line);
        }
        self.add_deadline(at + self.plan.connect_timeout, token, self.serial);
    }

    /// Deadlines come nearly in order, since each kind has one length: an insertion near the end.
    fn add_deadline(&mut self, at: Ns, token: Token, serial: u64) {
        let place = self.deadlines.iter().rposition(|&(other, ..)| other <= at);
        self.deadlines
            .insert(place.map_or(0, |place| place + 1), (at, token, serial));
    }

    fn line(&mut self, token: Token) -> Option<&mut Line> {
        self.lines
            .get_mut(token.slot as usize)
            .filter(|line| line.token == token)
    }

    fn take_events(&mut self) {
        while let Some(event) = self.reactor.next() {
            match event {
                Event::Bytes(chunk) => {
                    self.on_bytes(&chunk);
                    self.reactor.release(&chunk);
                }
                Event::Connected(token, result) => self.on_connected(token, result),
                Event::Writable(token) => self.write(token),
                Event::Closed(token, error) => self.on_closed(token, error),
            }
        }
    }

    fn on_connected(&mut self, token: Token, result: io::Result<()>) {
        let at = now();
        let Some(line) = self.lines.get_mut(token.slot as usize) else {
            return;
        };
        if line.token != token {
            return;
        }
        if let Err(error) = result {
            return self.on_connect_failed(token, &error);
        }
        line.connect_done = Some(at);
        match Conn::new(self.plan.targets[line.target].tls.as_ref()) {
            Ok(conn) => line.conn = Some(conn),
            Err(error) => return self.break_line(token, &error, at),
        }
        self.write(token);
        self.on_secured(token, at);
    }

    /// Goes on once TLS (if any) is done.
    fn on_secured(&mut self, token: Token, at: Ns) {
        let Some(line) = self.line(token) else { return };
        let Some(conn) = &line.conn else { return };
        if conn.secured() == Secured::Handshaking {
            return;
        }
        line.tls_done = Some(at);
        match line.flight.take() {
            Some(flight) => self.send(token, flight),
            None => {
                line.doing = Doing::Idle;
                let target = line.target;
                self.opening -= 1;
                self.idle[target].push(token);
            }
        }
    }

    fn on_connect_failed(&mut self, token: Token, error: &io::Error) {
        let (kind, name) = match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => (FailureKind::Client, "too_many_open_files"),
            Some(libc::EADDRNOTAVAIL) => (FailureKind::Client, "no_port_left"),
            Some(libc::ECONNREFUSED) => (FailureKind::Network, "connection_refused"),
            _ => (FailureKind::Network, "connect_failed"),
        };
        let at = now();
        if let Some(mut flight) = self.drop_line(token) {
            flight.fail(kind, 0, name, error.to_string());
            self.end(flight, at);
        }
    }

    fn send(&mut self, token: Token, mut flight: Box<Flight>) {
        let Some(line) = self.lines.get_mut(token.slot as usize) else {
            return;
        };
        let Some(conn) = &mut line.conn else { return };
        let request = self.plan.requests.get(flight.record.index);
        self.request.clear();
        let template = &self.plan.targets[line.target].template;
        template.fill(flight.record.request_id, &request.body, &mut self.request);
        conn.begin();
        let queued = conn.queue(&self.request);
        let at = now();
        let record = &mut flight.record;
        record.sent_bytes = self.request.len() as u64;
        record.sent = Some(at);
        if record.connect_start.is_some() {
            record.connect_done = line.connect_done;
            record.tls_done = line.tls_done;
        } else if record.attempt == 0 {
            record.start = at;
            let late = at.saturating_since(record.due.max(record.slot));
            self.recorder.send_lag.record(late.0);
        }
        let wait = record.slot.saturating_since(record.due);
        self.recorder.slot_wait.record(wait.0);
        self.serial += 1;
        line.serial = self.serial;
        line.doing = Doing::Busy;
        let deadline = record.start + self.plan.request_timeout;
        line.flight = Some(flight);
        self.add_deadline(deadline, token, self.serial);
        match queued {
            Ok(()) => self.write(token),
            Err(error) => self.break_line(token, &error, at),
        }
    }

    /// Sends what a connection has queued, as far as it goes.
    fn write(&mut self, token: Token) {
        let Some(line) = self.lines.get_mut(token.slot as usize) else {
            return;
        };
        let (Some(conn), true) = (&mut line.conn, line.token == token) else {
            return;
        };
        while !conn.outgoing().is_empty() {
            match self.reactor.send(token, conn.outgoing()) {
                Ok(count) => conn.sent(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.reactor.await_writable(token);
                }
                // The end of the stream comes as an event, with what the peer said before it.
                Err(_) => return,
            }
        }
        if let Some(flight) = &mut line.flight
            && flight.record.sent.is_some()
            && flight.record.written.is_none()
        {
            flight.record.written = Some(now());
        }
    }

    fn on_bytes(&mut self, chunk: &Chunk) {
        let token = chunk.token;
        let Some(line) = self.lines.get_mut(token.slot as usize) else {
            return;
        };
        let (Some(conn), true) = (&mut line.conn, line.token == token) else {
            return;
        };
        let bytes = self.reactor.bytes(chunk);
        let Some(flight) = &mut line
            .flight
            .as_mut()
            .filter(|_| matches!(line.doing, Doing::Busy))
        else {
            let quiet = conn.receive_idle(bytes);
            return match quiet {
                Ok(true) => {
                    self.write(token);
                    if matches!(self.lines[token.slot as usize].doing, Doing::Connecting) {
                        self.on_secured(token, chunk.at);
                    }
                }
                // Bytes that nobody asked for: the connection cannot be trusted.
                Ok(false) => self.drop_idle(token),
                Err(error) => self.break_line(token, &error, chunk.at),
            };
        };
        flight.begin_read();
        let before = flight.record.received_bytes;
        let fed = conn.receive(bytes, &mut |piece| flight.on_piece(piece, chunk.at));
        flight.record.reads_count += u32::from(flight.record.received_bytes > before);
        let events = flight.events_in_read();
        // A stamp is that of the read's last segment: with one event it is that event's own.
        let error = match (chunk.stamped, events) {
            (true, 0 | 1) => STAMP_ERROR_NS,
            (true, _) => chunk.at.saturating_since(chunk.looked_before).0.max(STAMP_ERROR_NS),
            (false, _) => chunk.seen.saturating_since(chunk.looked_before).0,
        };
        let lag = chunk.stamped.then(|| chunk.seen.saturating_since(chunk.at).0);
        self.recorder.read(lag, error, u64::from(events));
        match fed {
            Ok(fed) if fed.done => {
                let clean = fed.used == chunk.len();
                self.complete(token, chunk.at, clean);
            }
            Ok(_) if !conn.outgoing().is_empty() => self.write(token),
            Ok(_) => {}
            Err(error) => self.break_line(token, &error, chunk.at),
        }
    }

    fn complete(&mut self, token: Token, at: Ns, clean: bool) {
        let Some(line) = self.line(token) else { return };
        let Some(mut flight) = line.flight.take() else {
            return;
        };
        let reusable = clean && line.conn.as_ref().is_some_and(Conn::keeps_alive);
        let target = line.target;
        line.doing = if reusable { Doing::Idle } else { Doing::Closed };
        if reusable {
            self.idle[target].push(token);
        } else {
            self.reactor.close(token);
        }
        flight.complete(at);
        self.end(flight, at);
    }

    fn on_closed(&mut self, token: Token, error: Option<io::Error>) {
        let at = now();
        let Some(line) = self.line(token) else { return };
        let started = line.conn.as_ref().is_some_and(Conn::has_started);
        let reused = line.conn.as_ref().is_some_and(Conn::is_reused);
        let whole = error.is_none() && line.conn.as_mut().is_some_and(|c| c.finish().is_ok());
        let busy = matches!(line.doing, Doing::Busy);
        let target = line.target;
        let Some(mut flight) = self.drop_line(token) else {
            return;
        };
        if busy && (whole && started || flight.is_complete()) {
            flight.complete(at);
        } else if busy && !started && reused && flight.record.attempt == 0 {
            // A kept-alive connection that the server had given up: once more on a fresh one,
            // timed from the first attempt.
            flight.record.attempt = 1;
            let start = flight.record.start;
            self.retry(target, flight, start);
            return;
        } else if started {
            let text = match error {
                None => "the connection closed before the end of the response".into(),
                Some(error) => format!("the response was cut: {error}"),
            };
            flight.fail(FailureKind::Stream, 0, "incomplete_body", text);
        } else {
            let text = match error {
                None => "the server closed the connection without an answer".to_string(),
                Some(error) => error.to_string(),
            };
            flight.fail(FailureKind::Network, 0, "connection_closed", text);
        }
        self.end(flight, at);
    }

    fn retry(&mut self, target: usize, flight: Box<Flight>, start: Ns) {
        self.connect(target, None);
        self.opening -= 1;
        let line = self
            .lines
            .iter_mut()
            .rev()
            .find(|line| line.serial == self.serial);
        if let Some(line) = line {
            line.flight = Some(flight);
            if let Some(flight) = &mut line.flight {
                flight.record.start = start;
                flight.record.connect_start = Some(line.connect_start);
            }
        }
    }

    /// Frees a line whose connection is gone; gives back the flight that was on it.
    fn drop_line(&mut self, token: Token) -> Option<Box<Flight>> {
        let line = self.line(token)?;
        let opening = matches!(line.doing, Doing::Connecting) && line.flight.is_none();
        line.doing = Doing::Closed;
        line.conn = None;
        let flight = line.flight.take();
        if opening {
            self.opening -= 1;
        }
        self.reactor.close(token);
        flight
    }

    fn drop_idle(&mut self, token: Token) {
        if self.drop_line(token).is_some() {
            debug_assert!(false, "an idle line has no flight");
        }
    }

    fn break_line(&mut self, token: Token, error: &ConnError, at: Ns) {
        let name = match error {
            ConnError::Codec(_) => "invalid_http",
            ConnError::Tls(_) => "tls",
        };
        let text = error.to_string();
        if let Some(mut flight) = self.drop_line(token) {
            flight.fail(FailureKind::Network, 0, name, text);
            self.end(flight, at);
        }
    }

    fn check_deadlines(&mut self, at: Ns) {
        while let Some(&(deadline, token, serial)) = self.deadlines.front() {
            let live = self
                .lines
                .get(token.slot as usize)
                .is_some_and(|line| line.token == token && line.serial == serial)
                && !matches!(
                    self.lines[token.slot as usize].doing,
                    Doing::Idle | Doing::Closed
                );
            if live && deadline > at {
                return;
            }
            self.deadlines.pop_front();
            if !live {
                continue;
            }
            if let Some(mut flight) = self.drop_line(token) {
                let after = at.saturating_since(flight.record.start);
                let text = format!("no end of the answer after {:.0} ms", after.as_ms());
                flight.fail_after(FailureKind::Timeout, 0, "timeout", text, Some(after));
                self.end(flight, at);
            }
        }
    }

    fn cancel_all(&mut self, at: Ns) {
        let tokens: Vec<Token> = self
            .lines
            .iter()
            .filter(|line| line.flight.is_some())
            .map(|line| line.token)
            .collect();
        for token in tokens {
            if let Some(mut flight) = self.drop_line(token) {
                let text = "cancelled at the end of the run".to_string();
                flight.fail(FailureKind::Client, 499, "cancelled", text);
                self.end(flight, at);
            }
        }
    }

    fn end(&mut self, mut flight: Box<Flight>, at: Ns) {
        flight.record.done = at;
        self.in_flight -= 1;
        self.report.requests_count += 1;
        if self.plan.pace.is_closed() {
            self.free_slots.push_back(at);
        }
        let record = std::mem::take(&mut flight.record);
        self.plan
            .pace
            .ended(at, record.failure.is_some(), u64::from(record.events_count));
        self.learn(&record);
        self.spare.push(flight);
        self.batch.push(record);
        if self.batch.len() >= BATCH_RECORDS {
            self.flush(true);
        }
    }

    /// Follows what answers look like, and sets the batch wait by it.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn learn(&mut self, record: &Record) {
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
    fn flush(&mut self, all: bool) {
        let at = now();
        let old = at.saturating_since(self.batch_since) >= BATCH_AGE;
        if !self.batch.is_empty() && (all || old) {
            let empty = Vec::with_capacity(BATCH_RECORDS);
            self.waiting
                .push_back(std::mem::replace(&mut self.batch, empty));
            self.batch_since = at;
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

    fn output(mut self, receive_path: String, fault: Option<String>) -> CoreOutput {
        let used = thread_cpu();
        for batch in self.waiting.drain(..) {
            // The loop is over: waiting hurts nobody now. A closed channel means that the record
            // thread has failed, and says so itself.
            let count = batch.len() as u64;
            if self.plan.records.send(batch).is_err() {
                self.records_lost += count;
            }
        }
        self.report.user_ns = used.user_ns - self.cpu_start.user_ns;
        self.report.system_ns = used.system_ns - self.cpu_start.system_ns;
        self.report.reads_count = self.recorder.reads;
        self.report.events_count = self.recorder.events;
        let elapsed = self.plan.pace.elapsed().as_secs().max(1e-9);
        self.report.busy_ratio =
            Ns(self.report.user_ns + self.report.system_ns).as_secs() / elapsed;
        CoreOutput {
            report: self.report,
            recorder: self.recorder,
            receive_path,
            records_lost: self.records_lost,
            clock_steps_count: self.reactor.clock_steps_count(),
            fault,
        }
    }
}

/// Buffers on their way back are emptied, not freed.
pub(crate) fn emptied(mut buffers: Buffers) -> Buffers {
    buffers.content_times.clear();
    buffers.answer.clear();
    buffers.reasoning.clear();
    buffers.raw.clear();
    buffers.raw_marks.clear();
    buffers
}
