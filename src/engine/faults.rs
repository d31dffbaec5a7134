//! Why a connection ended its request: whose fault it was, and by what name.

use super::flight::Flight;
use crate::http::{Conn, ConnError, TunnelError};
use crate::stats::FailureKind;
use std::io;

/// The status of a proxy that wants a user and a password.
const PROXY_AUTHENTICATION: u16 = 407;
/// What that is called.
const PROXY_WANTS_PASSWORD: &str = "proxy_authentication_required";

/// What became of a request: kind, status, name, message.
pub(super) type Fault = (FailureKind, u16, &'static str, String);

/// No connection came about; `proxied` when it was to a proxy.
pub(super) fn connect(error: &io::Error, proxied: bool) -> Fault {
    let text = error.to_string();
    let (kind, name) = match (error.raw_os_error(), proxied) {
        (Some(libc::EMFILE | libc::ENFILE), _) => (FailureKind::Client, "too_many_open_files"),
        (Some(libc::EADDRNOTAVAIL), _) => {
            let text = format!("{text}: no port is left; more --source-ip have more");
            return (FailureKind::Client, 0, "no_port_left", text);
        }
        (Some(libc::ECONNREFUSED), true) => (FailureKind::Proxy, "proxy_connection_refused"),
        (Some(libc::ECONNREFUSED), false) => (FailureKind::Network, "connection_refused"),
        (_, true) => (FailureKind::Proxy, "proxy_connect_failed"),
        (_, false) => (FailureKind::Network, "connect_failed"),
    };
    (kind, 0, name, text)
}

/// A connection broke by what came on it.
pub(super) fn broken(error: &ConnError) -> Fault {
    let (kind, code, name) = match error {
        ConnError::Codec(_) => (FailureKind::Network, 0, "invalid_http"),
        ConnError::Tls(_) => (FailureKind::Network, 0, "tls"),
        ConnError::Tunnel(TunnelError::Refused { status, .. }) => match *status {
            PROXY_AUTHENTICATION => (FailureKind::Proxy, *status, PROXY_WANTS_PASSWORD),
            status => (FailureKind::Proxy, status, "proxy_tunnel_refused"),
        },
        ConnError::Tunnel(TunnelError::Answer(_)) => (FailureKind::Proxy, 0, "proxy_invalid_http"),
    };
    (kind, code, name, error.to_string())
}

/// How far a connection was when it closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// The proxy has not opened its tunnel.
    Opening,
    /// Nothing of the answer has come.
    Nothing,
    /// The answer has begun.
    Answer,
}

impl Reached {
    /// Of a connection that has closed; none where TCP was not done.
    pub fn of(conn: Option<&Conn>) -> Reached {
        match conn {
            Some(conn) if conn.is_opening() => Reached::Opening,
            Some(conn) if conn.has_started() => Reached::Answer,
            _ => Reached::Nothing,
        }
    }
}

/// An answer that was the proxy's own, and no server's.
pub(super) fn refused(flight: &mut Flight, proxied: bool) {
    if proxied && flight.record.status == Some(PROXY_AUTHENTICATION) {
        let text = "the proxy wants a user and a password".to_string();
        let (code, name) = (PROXY_AUTHENTICATION, PROXY_WANTS_PASSWORD);
        flight.fail(FailureKind::Proxy, code, name, text);
    }
}

/// A connection has closed before the end of its request.
pub(super) fn closed(flight: &mut Flight, reached: Reached, error: Option<io::Error>) {
    let told = |plain: &str| match &error {
        None => plain.to_string(),
        Some(error) => error.to_string(),
    };
    let (kind, name, text) = match (reached, &error) {
        (Reached::Answer, None) => {
            let text = "the connection closed before the end of the response".into();
            (FailureKind::Stream, "incomplete_body", text)
        }
        (Reached::Answer, Some(error)) => {
            let text = format!("the response was cut: {error}");
            (FailureKind::Stream, "incomplete_body", text)
        }
        (Reached::Nothing, _) => {
            let text = told("the server closed the connection without an answer");
            (FailureKind::Network, "connection_closed", text)
        }
        (Reached::Opening, _) => {
            let text = told("the proxy closed the connection without an answer to CONNECT");
            (FailureKind::Proxy, "proxy_connection_closed", text)
        }
    };
    flight.fail(kind, 0, name, text);
}
