//! Connections of one loop: accept, read, write, close, and the short answers.

use super::render::error_body;
use super::request::{BODY_BYTES_MAX, Hook, Parsed, Route, parse};
use super::server::Worker;
use super::stats::add;
use super::stream::Job;
use crate::http::Session;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};
use std::time::Duration;

const ACCEPTS_MAX: usize = 256;

/// One connection's state; the slot is used again after it closes.
#[derive(Default)]
pub(super) struct Conn {
    fd: Option<OwnedFd>,
    tls: Option<Session>,
    /// Rises whenever the connection closes or a request ends, so that old deadlines are void.
    pub(super) life: u32,
    input: Vec<u8>,
    /// Bytes of the request at the front of `input`, when known: no parsing before.
    wanted: usize,
    has_continued: bool,
    output: Vec<u8>,
    output_at: usize,
    /// Close as soon as the output is written.
    pub(super) closes: bool,
    pub(super) is_ready: bool,
    pub(super) job: Option<Job>,
}

impl Conn {
    pub(super) fn is_blocked(&self) -> bool {
        self.output_at < self.output.len()
    }
}

impl Worker {
    pub(super) fn is_alive(&self, index: u32, life: impl Into<Option<u32>>) -> bool {
        self.conns.get(index as usize).is_some_and(|conn| {
            conn.fd.is_some() && life.into().is_none_or(|life| life == conn.life)
        })
    }

    pub(super) fn conn(&mut self, index: u32) -> &mut Conn {
        &mut self.conns[index as usize]
    }

    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let Ok(fd) = accept_with(&self.listener, flags) else {
                return;
            };
            let _ = sockopt::set_tcp_nodelay(&fd, true);
            let index = self.free.pop().unwrap_or_else(|| {
                self.conns.push(Conn::default());
                u32::try_from(self.conns.len() - 1).unwrap_or(u32::MAX)
            });
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            if epoll::add(
                &self.epoll,
                &fd,
                EventData::new_u64(u64::from(index)),
                flags,
            )
            .is_err()
            {
                self.free.push(index);
                continue;
            }
            // Without a session the first bytes are no request, and the connection ends by them.
            let tls = self.shared.tls.as_ref();
            self.conn(index).tls = tls.and_then(|tls| tls.session().ok());
            self.conn(index).fd = Some(fd);
            add(&self.counters.accepts, 1);
            self.shared.stats.open.rise();
        }
    }

    /// Closes now; a request in flight counts as aborted.
    pub(super) fn close(&mut self, index: u32) {
        if self.conn(index).job.is_some() {
            add(&self.counters.aborted, 1);
            self.end_job(index);
        }
        let conn = self.conn(index);
        if conn.fd.take().is_none() {
            return;
        }
        *conn = Conn {
            life: conn.life.wrapping_add(1),
            is_ready: conn.is_ready,
            ..Conn::default()
        };
        self.free.push(index);
        self.shared.stats.open.fall();
    }

    /// Closes with a reset.
    pub(super) fn reset(&mut self, index: u32) {
        if let Some(fd) = &self.conn(index).fd {
            let _ = sockopt::set_socket_linger(fd, Some(Duration::ZERO));
        }
        self.close(index);
    }

    pub(super) fn readable(&mut self, index: u32) {
        loop {
            let conn = &mut self.conns[index as usize];
            let Some(fd) = &conn.fd else { return };
            match recv(fd, &mut self.read[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return self.close(index),
                Ok((count, _)) => {
                    if conn.input.len() + count > 2 * BODY_BYTES_MAX {
                        return self.close(index);
                    }
                    match &mut conn.tls {
                        None => conn.input.extend_from_slice(&self.read[..count]),
                        Some(tls) => {
                            if tls.decrypt(&self.read[..count], &mut conn.input).is_err() {
                                return self.close(index);
                            }
                        }
                    }
                    if count < self.read.len() {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return self.close(index),
            }
        }
        // The next part of a handshake, if it is time for one.
        if self.conn(index).tls.is_some() && !self.send(index, &[]) {
            return;
        }
        self.take_requests(index);
    }

    /// Sends what the socket takes and keeps the rest. False: the connection is gone.
    pub(super) fn send(&mut self, index: u32, data: &[u8]) -> bool {
        let Some(mut tls) = self.conn(index).tls.take() else {
            return self.send_bytes(index, data);
        };
        let mut sealed = std::mem::take(&mut self.sealed);
        sealed.clear();
        let is_sealed = tls.encrypt(data, &mut sealed).is_ok();
        self.conn(index).tls = Some(tls);
        if !is_sealed {
            self.close(index);
        }
        let is_alive = is_sealed && self.send_bytes(index, &sealed);
        self.sealed = sealed;
        is_alive
    }

    fn send_bytes(&mut self, index: u32, data: &[u8]) -> bool {
        let piece = self.shared.options.fragment.unwrap_or(usize::MAX);
        let conn = &mut self.conns[index as usize];
        let Some(fd) = &conn.fd else { return false };
        let mut sent = 0;
        while sent < data.len() && !conn.is_blocked() {
            let end = sent.saturating_add(piece).min(data.len());
            match send(
                fd,
                &data[sent..end],
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(count) => {
                    sent += count;
                    add(&self.counters.sends, 1);
                    add(&self.counters.bytes, count as u64);
                    if sent < end {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.close(index);
                    return false;
                }
            }
        }
        if sent < data.len() {
            if !conn.is_blocked() {
                add(&self.counters.blocked, 1);
                conn.output.clear();
                conn.output_at = 0;
            }
            conn.output.extend_from_slice(&data[sent..]);
        }
        true
    }

    pub(super) fn writable(&mut self, index: u32) {
        let conn = &mut self.conns[index as usize];
        while conn.is_blocked() {
            let Some(fd) = &conn.fd else { return };
            let rest = &conn.output[conn.output_at..];
            match send(fd, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => {
                    conn.output_at += count;
                    add(&self.counters.sends, 1);
                    add(&self.counters.bytes, count as u64);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.close(index),
            }
        }
        if self.settle(index) {
            self.make_ready(index);
        }
    }

    /// Closes if that waited for the output. False: the connection is gone.
    pub(super) fn settle(&mut self, index: u32) -> bool {
        let conn = self.conn(index);
        if conn.closes && conn.job.is_none() && !conn.is_blocked() {
            self.close(index);
            return false;
        }
        true
    }

    /// Answers with a whole body.
    pub(super) fn answer(&mut self, index: u32, code: u16, kind: &str, body: &str) -> bool {
        let reason = match code {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            429 => "Too Many Requests",
            500 => "Internal Server Error",
            503 => "Service Unavailable",
            _ => "Status",
        };
        let retry = match self.shared.options.faults.retry_after_s {
            Some(secs) if matches!(code, 429 | 503) => format!("retry-after: {secs}\r\n"),
            _ => String::new(),
        };
        let close = if self.conn(index).closes {
            "connection: close\r\n"
        } else {
            ""
        };
        self.counters.count_code(code);
        let text = format!(
            "HTTP/1.1 {code} {reason}\r\nserver: tokenring-mock\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n{retry}{close}\r\n{body}",
            body.len()
        );
        self.send(index, text.as_bytes())
    }

    /// Answers with an error object.
    pub(super) fn refuse(&mut self, index: u32, code: u16, message: &str) -> bool {
        self.answer(index, code, "application/json", &error_body(code, message))
    }

    /// Serves the requests that have arrived, one after the other.
    pub(super) fn take_requests(&mut self, index: u32) {
        loop {
            let conn = &mut self.conns[index as usize];
            let is_busy = conn.fd.is_none() || conn.job.is_some() || conn.closes;
            if is_busy || conn.input.is_empty() || conn.input.len() < conn.wanted {
                return;
            }
            let request = match parse(&conn.input) {
                Parsed::Whole(request) => request,
                Parsed::Partial { total, waits } => {
                    conn.wanted = total;
                    if waits && !conn.has_continued {
                        conn.has_continued = true;
                        self.send(index, b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    return;
                }
                Parsed::Bad => {
                    conn.closes = true;
                    self.refuse(index, 400, "not a request that this server understands");
                    self.settle(index);
                    return;
                }
            };
            if request.consumed == conn.input.len() {
                conn.input.clear();
            } else {
                conn.input.drain(..request.consumed);
            }
            (conn.wanted, conn.has_continued) = (0, false);
            conn.closes = request.closes;
            if request.has_id {
                add(&self.counters.request_ids, 1);
            }
            self.dispatch(index, request.route);
            if self.is_alive(index, None) && !self.settle(index) {
                return;
            }
        }
    }

    fn dispatch(&mut self, index: u32, route: Route) {
        let json = "application/json";
        match route {
            Route::Generate(ask) => self.begin(index, ask),
            Route::Models => {
                let name = self.shared.model();
                let model = serde_json::json!({
                    "id": name, "object": "model", "created": self.shared.created,
                    "owned_by": "tokenring", "root": name, "parent": null,
                    "max_model_len": 131_072,
                });
                let body = serde_json::json!({"object": "list", "data": [model]});
                self.answer(index, 200, json, &body.to_string());
            }
            Route::Health => {
                self.answer(index, 200, "text/plain", "");
            }
            Route::Stats => {
                let body = self.shared.stats.json();
                self.answer(index, 200, json, &body);
            }
            Route::Reset => {
                self.shared.stats.reset();
                self.answer(index, 200, json, "{}");
            }
            Route::Metrics => {
                let body = self.shared.stats.prometheus(self.shared.model());
                self.answer(index, 200, "text/plain; version=0.0.4", &body);
            }
            Route::Hook(hook) => {
                let counters = &self.counters;
                let counter = match hook {
                    Hook::ResetCache => &counters.cache_resets,
                    Hook::StartProfile => &counters.profile_starts,
                    Hook::StopProfile => &counters.profile_stops,
                };
                add(counter, 1);
                self.answer(index, 200, "text/plain", "");
            }
            Route::NotFound => {
                self.refuse(index, 404, "not found");
            }
            Route::BadBody(message) => {
                self.refuse(index, 400, &message);
            }
        }
    }
}
