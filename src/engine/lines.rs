//! A core's connections: connect, send, take in, close.

use super::core::Core;
use super::deadlines::Limit;
use super::faults::{self, Reached};
use super::flight::{Flight, Shared};
use super::health::Health;
use super::joins::{Joins, ReadEnd};
use crate::base::{Ns, limits, now};
use crate::http::{Conn, ConnError, Secured};
use crate::runtime::{Chunk, Event, Token};
use crate::stats::{FailureKind, Phase};
use std::io;

/// How far from the truth a kernel stamp may be between two comparisons of the clocks, of which one
/// is slewed; no answer crosses even loopback in so short a time.
const SLEW_NS: u64 = 50_000;

/// Reads whose state is asked for together.
const WARM_COUNT: usize = 32;

/// What a connection is doing.
pub(super) enum Doing {
    /// TCP or TLS.
    Connecting,
    /// Waiting for a request.
    Idle,
    /// A request is on it.
    Busy,
    /// Nothing; the slot is free.
    Closed,
}

/// A connection with what is on it.
pub(super) struct Line {
    pub(super) token: Token,
    target: usize,
    conn: Option<Conn>,
    pub(super) doing: Doing,
    pub(super) flight: Option<Box<Flight>>,
    connect_start: Ns,
    connect_done: Option<Ns>,
    tls_done: Option<Ns>,
    joins: Joins,
    health: Health,
    /// Receive time of the last read.
    pub(super) last_read: Ns,
    /// Counts the requests that the line has carried, so that an old deadline is known as old.
    pub(super) serial: u64,
}

impl Core {
    /// Sends on the connection that the session keeps, if that is still good, else on an idle one
    /// or a new one.
    pub(super) fn put_on_line(
        &mut self,
        target: usize,
        flight: Box<Flight>,
        mut kept: Option<Token>,
    ) {
        while let Some(token) = kept.take().or_else(|| self.idle_line(target)) {
            let plain = self.plan.targets[target].tls.is_none();
            let is_idle = |line: &mut Line| matches!(line.doing, Doing::Idle);
            if !self.line(token).is_some_and(is_idle) {
                continue;
            }
            // Bytes that wait on an idle connection answer nothing that was asked. Those of TLS
            // may be its own; they are looked at when they are read.
            if plain && !self.reactor.is_drained(token) {
                self.drop_idle(token);
                continue;
            }
            return self.send(token, flight);
        }
        self.connect(target, Some(flight));
    }

    /// The idle connection to try next: the one used last, which is in the cache; of those to
    /// several addresses the one idle longest, so that each address gets its share.
    fn idle_line(&mut self, target: usize) -> Option<Token> {
        let idle = &mut self.idle[target];
        match self.plan.targets[target].addrs.len() > 1 && !idle.is_empty() {
            true => Some(idle.remove(0)),
            false => idle.pop(),
        }
    }

    pub(super) fn connect(&mut self, target: usize, mut flight: Option<Box<Flight>>) {
        let at = now();
        let addrs = &self.plan.targets[target].addrs;
        if addrs.is_empty() {
            return self.on_unknown_host(flight, at);
        }
        let turn = self.turns[target];
        self.turns[target] = turn.wrapping_add(1);
        // Each address from each source in turn.
        let (addr, round) = (addrs[turn % addrs.len()], turn / addrs.len());
        let token = self.reactor.connect(addr, &self.plan.dial, round);
        let has_request = flight.is_some();
        if let Some(flight) = &mut flight {
            flight.record.start = at;
            flight.record.connect_start = Some(at);
            let late = at.saturating_since(flight.record.due.max(flight.record.slot));
            self.recorder.is_measured = flight.record.phase == Phase::Profiling;
            self.recorder.sends(late.0);
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
            joins: Joins::default(),
            health: Health::default(),
            last_read: at,
            serial: self.serial,
        };
        let slot = token.slot as usize;
        if slot < self.lines.len() {
            self.lines[slot] = line;
        } else {
            self.lines.push(line);
        }
        let limit = at + self.plan.limits.connect;
        self.deadlines
            .add(Limit::Connect, limit, token, self.serial);
        if has_request {
            self.bound_request(token, at);
        }
    }

    /// There is nowhere to connect to: the request fails as one whose connection was refused.
    fn on_unknown_host(&mut self, flight: Option<Box<Flight>>, at: Ns) {
        if let Some(mut flight) = flight {
            flight.record.start = at;
            let text = "the host is not found".to_string();
            flight.fail(FailureKind::Network, 0, "host_not_found", text);
            self.end(flight, at);
        }
    }

    pub(super) fn line(&mut self, token: Token) -> Option<&mut Line> {
        self.lines
            .get_mut(token.slot as usize)
            .filter(|line| line.token == token)
    }

    pub(super) fn take_events(&mut self) {
        let mut warm_for = 0;
        while let Some(event) = self.reactor.next_event() {
            match event {
                Event::Bytes(chunk) => {
                    if warm_for == 0 {
                        self.warm_up();
                        warm_for = WARM_COUNT;
                    }
                    warm_for -= 1;
                    self.on_bytes(&chunk);
                    self.reactor.release(&chunk);
                    self.send_due();
                }
                Event::Connected(token, result) => self.on_connected(token, result),
                Event::Writable(token) => self.write(token),
                Event::Closed(token, error) => self.on_closed(token, error),
            }
        }
    }

    /// Reads a little of what the next reads will need. With thousands of streams none of it is in
    /// the cache; asked for together, the waits for memory overlap instead of following each other.
    fn warm_up(&self) {
        let lines = || {
            let tokens = self.reactor.upcoming(WARM_COUNT);
            tokens.filter_map(|token| self.lines.get(token.slot as usize))
        };
        let flights = || lines().filter_map(|line| line.flight.as_ref());
        let of_lines: u64 = lines()
            .map(|line| line.serial ^ line.joins.last_at().0)
            .sum();
        let of_flights: u64 = flights().map(|flight| flight.touch()).sum();
        let of_tails: usize = flights().map(|flight| flight.touch_tails()).sum();
        std::hint::black_box((of_lines, of_flights, of_tails));
    }

    pub(super) fn on_connected(&mut self, token: Token, result: io::Result<()>) {
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
        let target = &self.plan.targets[line.target];
        match Conn::new(target.tls.as_ref(), &target.via) {
            Ok(conn) => line.conn = Some(conn),
            Err(error) => return self.break_line(token, &error, at),
        }
        self.write(token);
        self.on_secured(token, at);
    }

    /// Goes on once TLS (if any) is done.
    pub(super) fn on_secured(&mut self, token: Token, at: Ns) {
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

    pub(super) fn on_connect_failed(&mut self, token: Token, error: &io::Error) {
        let at = now();
        let Some(line) = self.line(token) else { return };
        let target = line.target;
        let proxied = self.plan.targets[target].via.is_proxied();
        if let Some(flight) = self.drop_line(token) {
            let (kind, code, name, text) = faults::connect(error, proxied);
            self.give_up(flight, at, |flight| flight.fail(kind, code, name, text));
        }
    }

    pub(super) fn send(&mut self, token: Token, mut flight: Box<Flight>) {
        let Some(line) = self.lines.get_mut(token.slot as usize) else {
            return;
        };
        let Some(conn) = &mut line.conn else { return };
        self.request.clear();
        let template = &self.plan.targets[line.target].template;
        template.fill(
            flight.record.request_id,
            flight.record.correlation_id,
            flight.payload(),
            &mut self.request,
        );
        conn.begin();
        let queued = conn.queue(&self.request);
        let at = now();
        let record = &mut flight.record;
        self.recorder.is_measured = record.phase == Phase::Profiling;
        record.sent_bytes = self.request.len() as u64;
        record.sent = Some(at);
        if record.connect_start.is_some() {
            record.connect_done = line.connect_done;
            record.tls_done = line.tls_done;
        } else if record.attempt == 0 {
            record.start = at;
            let late = at.saturating_since(record.due.max(record.slot));
            self.recorder.sends(late.0);
        }
        if self.recorder.is_measured {
            let wait = record.slot.saturating_since(record.due);
            self.recorder.slot_wait.record(wait.0);
        }
        self.serial += 1;
        line.serial = self.serial;
        line.doing = Doing::Busy;
        let start = record.start;
        line.flight = Some(flight);
        self.bound_request(token, start);
        match queued {
            Ok(()) => self.write(token),
            Err(error) => self.break_line(token, &error, at),
        }
    }

    /// Sends what a connection has queued, as far as it goes.
    pub(super) fn write(&mut self, token: Token) {
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
            let written = now();
            flight.record.written = Some(written);
            self.bound_written(token, written);
        }
    }

    pub(super) fn on_bytes(&mut self, chunk: &Chunk) {
        let token = chunk.token;
        let Some(line) = self.lines.get_mut(token.slot as usize) else {
            return;
        };
        let (Some(conn), true) = (&mut line.conn, line.token == token) else {
            return;
        };
        line.last_read = chunk.at;
        let before_read = line.joins.count(chunk);
        let bytes = self.reactor.bytes(chunk);
        let Some(flight) = &mut line.flight.as_mut().filter(|flight| {
            let is_answer = conn.has_started() || !came_before(chunk, flight.record.sent);
            matches!(line.doing, Doing::Busy) && is_answer
        }) else {
            let quiet = conn.receive_idle(bytes);
            return self.on_quiet(token, quiet, chunk.at);
        };
        flight.begin_read();
        self.recorder.is_measured = flight.record.phase == Phase::Profiling;
        let has_head = flight.record.headers.is_none();
        let before = flight.record.received_bytes;
        let mut shared = Shared {
            reader: &mut self.reader,
            stamp_errors: &mut self.recorder.stamp_errors,
        };
        let fed = conn.receive(bytes, &mut |piece| {
            flight.on_piece(piece, chunk.at, &mut shared);
        });
        flight.record.reads_count += u32::from(flight.record.received_bytes > before);
        let begins = before == 0 && flight.record.received_bytes > 0;
        let is_prefilled = flight.is_prefilled();
        let in_read = flight.in_read();
        self.recorder.first_token(flight.first_token());
        let lag = Some(chunk.seen.saturating_since(chunk.at).0).filter(|_| chunk.stamped);
        self.recorder.read(lag, u64::from(in_read.events));
        let read = ReadEnd {
            in_read,
            has_head,
            ends_with_content: flight.ends_with_content() && conn.ends_in_body(),
        };
        line.joins
            .note(chunk, read, before_read, &self.reactor, &mut self.recorder);
        let serial = line.serial;
        let is_done = flight.done_at() == Some(chunk.at);
        let must_write = !conn.outgoing().is_empty();
        if is_prefilled {
            self.free_prefill(chunk.at);
        }
        match fed {
            Ok(fed) if fed.done => {
                let clean = fed.used == chunk.len();
                self.complete(token, chunk.at, clean);
            }
            Ok(_) => {
                if is_done {
                    let end = chunk.at + limits::BODY_END_WAIT;
                    self.deadlines.add(Limit::BodyEnd, end, token, serial);
                }
                if let Some(idle) = self.plan.limits.idle.filter(|_| begins) {
                    let end = chunk.at + idle;
                    self.deadlines.add(Limit::Idle, end, token, serial);
                }
                if must_write {
                    self.write(token);
                }
            }
            Err(error) => self.break_line(token, &error, chunk.at),
        }
    }

    /// After bytes that are no part of an answer: of the handshake, of TLS itself (`quiet` is true
    /// then), or such that nobody asked for.
    fn on_quiet(&mut self, token: Token, quiet: Result<bool, ConnError>, at: Ns) {
        match quiet {
            Ok(true) => {
                self.write(token);
                if matches!(self.lines[token.slot as usize].doing, Doing::Connecting) {
                    self.on_secured(token, at);
                }
            }
            // The connection cannot be trusted: it may answer the next request with the last.
            Ok(false) => {
                if let Some(flight) = self.drop_line(token) {
                    let text = "an answer came before the request was sent".to_string();
                    // Its own time lies before the request.
                    self.give_up(flight, now(), |flight| {
                        flight.fail(FailureKind::Network, 0, "unsolicited_response", text);
                    });
                }
            }
            Err(error) => self.break_line(token, &error, at),
        }
    }

    /// Notes how a connection fares, at the end of its request.
    fn note_health(&mut self, token: Token) {
        if let Some(line) = self.lines.get_mut(token.slot as usize)
            && line.flight.is_some()
            && let Some(info) = self.reactor.tcp_info(token)
        {
            line.health.note(info, &mut self.recorder);
        }
    }

    pub(super) fn complete(&mut self, token: Token, at: Ns, clean: bool) {
        self.note_health(token);
        let (keeps, sticky) = (self.plan.keeps_connections, self.plan.sticky);
        let Some(line) = self.line(token) else { return };
        let Some(mut flight) = line.flight.take() else {
            return;
        };
        let reusable = keeps && clean && line.conn.as_ref().is_some_and(Conn::keeps_alive);
        let target = line.target;
        // With sticky sessions a connection that was one's is no other's.
        let session = flight.session.as_mut().filter(|_| sticky && reusable);
        let is_kept = session.is_some();
        if let Some(session) = session {
            session.line = Some((token, target));
        }
        let reusable = reusable && (is_kept || !sticky);
        line.doing = if reusable { Doing::Idle } else { Doing::Closed };
        match reusable {
            true if is_kept => {}
            true => self.idle[target].push(token),
            false => self.reactor.close(token),
        }
        faults::refused(&mut flight, self.plan.targets[target].via.is_proxied());
        flight.complete(at);
        self.end(flight, at);
    }

    pub(super) fn on_closed(&mut self, token: Token, error: Option<io::Error>) {
        let at = now();
        let Some(line) = self.line(token) else { return };
        let started = line.conn.as_ref().is_some_and(Conn::has_started);
        let reused = line.conn.as_ref().is_some_and(Conn::is_reused);
        let reached = Reached::of(line.conn.as_ref());
        let whole = error.is_none() && line.conn.as_mut().is_some_and(|c| c.finish().is_ok());
        let busy = matches!(line.doing, Doing::Busy);
        let target = line.target;
        let Some(mut flight) = self.drop_line(token) else {
            return;
        };
        if flight.done_at().is_none() && busy && whole && started {
            flight.complete(at);
            self.end(flight, at);
        } else if busy && !started && reused && flight.record.attempt == 0 {
            // A kept-alive connection that the server had given up: once more on a fresh one,
            // timed from the first attempt.
            flight.record.attempt = 1;
            let start = flight.record.start;
            self.retry(target, flight, start);
        } else {
            self.give_up(flight, at, |flight| faults::closed(flight, reached, error));
        }
    }

    pub(super) fn retry(&mut self, target: usize, flight: Box<Flight>, start: Ns) {
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
                // Of the first attempt; nobody got it.
                (flight.record.sent, flight.record.written) = (None, None);
            }
            let token = line.token;
            self.bound_request(token, start);
        }
    }

    /// Frees a line whose connection is gone; gives back the flight that was on it.
    pub(super) fn drop_line(&mut self, token: Token) -> Option<Box<Flight>> {
        self.note_health(token);
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

    pub(super) fn drop_idle(&mut self, token: Token) {
        if self.drop_line(token).is_some() {
            debug_assert!(false, "an idle line has no flight");
        }
    }

    pub(super) fn break_line(&mut self, token: Token, error: &ConnError, at: Ns) {
        if let Some(flight) = self.drop_line(token) {
            let (kind, code, name, text) = faults::broken(error);
            self.give_up(flight, at, |flight| flight.fail(kind, code, name, text));
        }
    }

    pub(super) fn cancel_all(&mut self, at: Ns) {
        self.cancel(at, "cancelled at the end of the run", |_| true);
    }

    /// Cancels the requests of these phases.
    pub(super) fn cancel(&mut self, at: Ns, why: &str, of: impl Fn(u8) -> bool) {
        let is_meant = |line: &&Line| {
            let flight = line.flight.as_ref();
            flight.is_some_and(|flight| of(flight.record.part))
        };
        let all = self.lines.iter().filter(is_meant);
        let tokens: Vec<Token> = all.map(|line| line.token).collect();
        for token in tokens {
            if let Some(flight) = self.drop_line(token) {
                self.give_up(flight, at, |flight| {
                    flight.fail(FailureKind::Client, 499, "cancelled", why.to_string());
                });
            }
        }
    }
}

/// True when the kernel had these bytes before the request was sent.
fn came_before(chunk: &Chunk, sent: Option<Ns>) -> bool {
    chunk.stamped && sent.is_some_and(|sent| chunk.at + Ns(SLEW_NS) < sent)
}
