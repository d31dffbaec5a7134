//! One exchange that is waited for: probes, hooks, pages with metrics. Not for what is measured.

use super::codec::Piece;
use super::{Conn, ConnError, Secured, TlsClient, TunnelError, Via};
use crate::base::{Ns, now};
use crate::runtime::Dial;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A limit was reached.
const LATE: &str = "no answer in time";

/// What to do about a proxy that says 407.
pub const PROXY_HINT: &str = "the proxy wants a user and a password: give \
                              --proxy http://user:password@host:port";

/// The way to a server.
#[derive(Clone, Debug)]
pub struct Way {
    /// The server's address, or its proxy's; absent for a host that nobody knows.
    pub addr: Option<SocketAddr>,
    /// TLS, for https.
    pub tls: Option<TlsClient>,
    /// Straight or through a proxy.
    pub via: Via,
    /// How its socket is made.
    pub dial: Dial,
}

/// How long an exchange may take, and how much may come back.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// TCP and TLS together.
    pub connect: Ns,
    /// All of it.
    pub whole: Ns,
    /// Bytes of the body that are read; more are not waited for.
    pub body: usize,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body, as far as it came and fits.
    pub body: Vec<u8>,
    /// All of it came.
    pub is_whole: bool,
}

impl Answer {
    /// The body as a text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A page that is asked for again and again.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// As reports show it, without secrets.
    pub url: String,
    /// Where it is.
    pub way: Way,
    /// Of the wire, head and all.
    pub request: Vec<u8>,
    /// Of each exchange.
    pub limits: Limits,
}

impl Fetch {
    /// Asks once. Errors: a fragment that says what went wrong on the way; a status that says no
    /// is an answer.
    pub fn get(&self) -> Result<Answer, String> {
        exchange(&self.way, &self.request, self.limits)
    }
}

/// A request without a body.
pub fn request(method: &str, path: &str, host: &str, headers: &[(String, String)]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

/// Sends `request` on a connection of its own and reads the answer; one that has begun well and
/// goes on past a limit is an answer too, and not whole.
pub fn exchange(way: &Way, request: &[u8], limits: Limits) -> Result<Answer, String> {
    let addr = way.addr.ok_or("the host is not found")?;
    let begun = now();
    let (connected_by, deadline) = (begun + limits.connect, begun + limits.whole);
    let socket = way.dial.connect(addr, 0, rest(connected_by));
    let mut socket = socket.map_err(|e| e.to_string())?;
    let mut conn = Conn::new(way.tls.as_ref(), &way.via).map_err(|e| e.to_string())?;
    let mut buffer = vec![0u8; 16 * 1024];
    secure(&mut conn, &mut socket, &mut buffer, connected_by)?;
    conn.begin();
    conn.queue(request).map_err(|e| e.to_string())?;
    flush(&mut conn, &mut socket, deadline)?;
    let mut answer = Answer {
        status: 0,
        body: Vec::new(),
        is_whole: false,
    };
    loop {
        let count = match read(&mut socket, &mut buffer, deadline) {
            Err(_) if (200..300).contains(&answer.status) && now() >= deadline => break,
            result => result?,
        };
        if count == 0 {
            conn.finish().map_err(|e| e.to_string())?;
            answer.is_whole = true;
            break;
        }
        let mut is_full = false;
        let fed = conn.receive(&buffer[..count], &mut |piece| match piece {
            Piece::Head(head) => answer.status = head.status,
            Piece::Body(bytes) => {
                let room = limits.body.saturating_sub(answer.body.len());
                is_full = bytes.len() > room;
                answer
                    .body
                    .extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        });
        answer.is_whole = fed.map_err(|e| e.to_string())?.done && !is_full;
        if answer.is_whole || is_full {
            break;
        }
    }
    Ok(answer)
}

/// TLS and tunnel, where the way has them.
fn secure(
    conn: &mut Conn,
    socket: &mut TcpStream,
    buffer: &mut [u8],
    deadline: Ns,
) -> Result<(), String> {
    while conn.secured() == Secured::Handshaking {
        flush(conn, socket, deadline)?;
        let count = read(socket, buffer, deadline)?;
        if count == 0 {
            return Err(match conn.is_opening() {
                true => "the proxy closed the connection without an answer to CONNECT".into(),
                false => "the server closed the connection during the TLS handshake".into(),
            });
        }
        conn.receive_idle(&buffer[..count])
            .map_err(|error| with_hint(&error))?;
    }
    Ok(())
}

/// An error, and what to do where it is a proxy's that wants a password.
fn with_hint(error: &ConnError) -> String {
    match error {
        ConnError::Tunnel(TunnelError::Refused { status: 407, .. }) => {
            format!("{error}: {PROXY_HINT}")
        }
        error => error.to_string(),
    }
}

/// What is left until a deadline; never nothing, which a socket takes for no limit.
fn rest(deadline: Ns) -> Duration {
    Duration::from_nanos(deadline.saturating_since(now()).0.max(1_000_000))
}

fn read(socket: &mut TcpStream, buffer: &mut [u8], deadline: Ns) -> Result<usize, String> {
    until(deadline, |rest| {
        socket.set_read_timeout(Some(rest))?;
        socket.read(buffer)
    })
}

fn flush(conn: &mut Conn, socket: &mut TcpStream, deadline: Ns) -> Result<(), String> {
    while !conn.outgoing().is_empty() {
        let count = until(deadline, |rest| {
            socket.set_write_timeout(Some(rest))?;
            socket.write(conn.outgoing())
        })?;
        conn.sent(count);
    }
    Ok(())
}

/// Does what a stop of the process may interrupt, again if need be.
fn until<T>(
    deadline: Ns,
    mut act: impl FnMut(Duration) -> std::io::Result<T>,
) -> Result<T, String> {
    while now() < deadline {
        match act(rest(deadline)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result.map_err(|error| told(&error)),
        }
    }
    Err(LATE.to_string())
}

fn told(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => LATE.to_string(),
        _ => error.to_string(),
    }
}
