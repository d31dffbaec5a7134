//! How a target is reached: straight, or through a proxy that speaks HTTP.

use super::codec::{CodecError, Head};
use crate::base::limits;
use std::sync::Arc;

/// How a target is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// Straight.
    #[default]
    Direct,
    /// Through a proxy, which is asked in absolute form.
    Proxy,
    /// Through a tunnel that a proxy is asked for by this `CONNECT` request.
    Tunnel(Arc<[u8]>),
}

impl Via {
    /// A tunnel to `authority` (`host:port`, brackets around IPv6), with the value of
    /// `Proxy-Authorization` where the proxy wants one.
    pub fn tunnel(authority: &str, authorization: Option<&str>) -> Via {
        let mut text = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
        if let Some(value) = authorization {
            text.push_str(&format!("Proxy-Authorization: {value}\r\n"));
        }
        text.push_str("\r\n");
        Via::Tunnel(text.into_bytes().into())
    }

    /// True when a proxy stands between.
    pub fn is_proxied(&self) -> bool {
        *self != Via::Direct
    }
}

/// Why a proxy gave no tunnel.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TunnelError {
    /// It said no.
    #[error("the proxy answered {status} {reason} to CONNECT")]
    Refused {
        /// Its status.
        status: u16,
        /// Its reason phrase.
        reason: String,
    },
    /// It does not speak HTTP as it should.
    #[error("the proxy's answer to CONNECT: {0}")]
    Answer(#[from] CodecError),
}

/// The wait for a proxy's answer to `CONNECT`.
#[derive(Debug, Default)]
pub(super) struct Opening {
    held: Vec<u8>,
    head: Head,
}

impl Opening {
    /// Takes bytes of the answer; `Some` when the tunnel stands, with what came after the head.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, TunnelError> {
        self.held.extend_from_slice(bytes);
        while let Some(length) = self.head.parse(&self.held)? {
            let rest = self.held.split_off(length);
            match self.head.status {
                100..200 => self.held = rest,
                // Whatever its head says, such an answer has no body (RFC 9110 section 9.3.6).
                200..300 => return Ok(Some(rest)),
                status => {
                    let reason = self.head.reason.clone();
                    return Err(TunnelError::Refused { status, reason });
                }
            }
        }
        match self.held.len() > limits::HEAD_BYTES_MAX {
            true => Err(CodecError::HeadTooLong.into()),
            false => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_asked_for_with_brackets_and_authorization() {
        let Via::Tunnel(bytes) = Via::tunnel("[::1]:8443", Some("Basic eA==")) else {
            panic!("no tunnel");
        };
        assert_eq!(
            std::str::from_utf8(&bytes).unwrap(),
            "CONNECT [::1]:8443 HTTP/1.1\r\nHost: [::1]:8443\r\n\
             Proxy-Authorization: Basic eA==\r\n\r\n"
        );
    }

    #[test]
    fn an_answer_opens_the_tunnel_however_it_is_split() {
        let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxy";
        for at in 0..answer.len() {
            let (mut opening, mut rest) = (Opening::default(), None);
            for part in [&answer[..at], &answer[at..]] {
                match &mut rest {
                    None => rest = opening.feed(part).unwrap(),
                    Some(rest) => rest.extend_from_slice(part),
                }
            }
            assert_eq!(rest.as_deref(), Some(&b"xy"[..]), "{at}");
        }
    }

    #[test]
    fn a_refusal_is_told_by_its_status_and_endless_heads_end() {
        let answer = b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n";
        let error = Opening::default().feed(answer).unwrap_err().to_string();
        assert_eq!(error, "the proxy answered 407 Who are you to CONNECT");
        let mut opening = Opening::default();
        opening.feed(b"HTTP/1.1 200 OK\r\n").unwrap();
        let endless = std::iter::repeat_with(|| opening.feed(&[b'a'; 4096]));
        assert!(endless.take(20).any(|fed| fed.is_err()));
        assert!(Opening::default().feed(b"SSH-2.0-x\r\n\r\n").is_err());
    }
}
