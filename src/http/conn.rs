//! One connection: TLS where there is, the response decoder, and what is still to be sent.

use super::codec::{CodecError, Fed, Piece, ResponseDecoder};
use super::tls::{Session, TlsClient, TlsError};
use super::via::{Opening, TunnelError, Via};

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ConnError {
    /// The peer does not speak HTTP as it should.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The proxy.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
}

/// State of the security layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secured {
    /// Requests may go.
    Ready,
    /// The handshake goes on, or the proxy has not opened its tunnel yet.
    Handshaking,
}

/// One connection, without its socket.
pub struct Conn {
    /// Until the proxy's tunnel stands.
    opening: Option<Box<Opening>>,
    tls: Option<Session>,
    plain: Vec<u8>,
    decoder: ResponseDecoder,
    out: Vec<u8>,
    out_at: usize,
    used_count: u32,
}

impl Conn {
    /// A connection that has just connected; what opens a tunnel or TLS is in [`Conn::outgoing`].
    pub fn new(tls: Option<&TlsClient>, via: &Via) -> Result<Conn, ConnError> {
        let mut conn = Conn {
            opening: None,
            tls: tls.map(TlsClient::session).transpose()?,
            plain: Vec::new(),
            decoder: ResponseDecoder::new(),
            out: Vec::new(),
            out_at: 0,
            used_count: 0,
        };
        match via {
            Via::Tunnel(request) => {
                conn.out.extend_from_slice(request);
                conn.opening = Some(Box::default());
            }
            Via::Direct | Via::Proxy => conn.queue(&[])?,
        }
        Ok(conn)
    }

    /// Whether requests may go.
    pub fn secured(&self) -> Secured {
        match &self.tls {
            _ if self.is_opening() => Secured::Handshaking,
            Some(tls) if tls.is_handshaking() => Secured::Handshaking,
            _ => Secured::Ready,
        }
    }

    /// True while the proxy has not opened its tunnel yet.
    pub fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// True once a response has ended on it.
    pub fn is_reused(&self) -> bool {
        self.used_count > 0
    }

    /// Prepares for the next response.
    pub fn begin(&mut self) {
        self.decoder.reset();
    }

    /// Queues bytes to send (plain text; encrypted here).
    pub fn queue(&mut self, bytes: &[u8]) -> Result<(), ConnError> {
        if self.out_at == self.out.len() {
            self.out.clear();
            self.out_at = 0;
        }
        match &mut self.tls {
            Some(tls) => tls.encrypt(bytes, &mut self.out)?,
            None => self.out.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// What is to be sent next.
    pub fn outgoing(&self) -> &[u8] {
        &self.out[self.out_at..]
    }

    /// So many bytes of [`Conn::outgoing`] were sent.
    pub fn sent(&mut self, count: usize) {
        self.out_at = (self.out_at + count).min(self.out.len());
    }

    /// Takes received bytes during the handshake or between responses. Errors: TLS, the proxy, or
    /// bytes that no request asked for.
    pub fn receive_idle(&mut self, bytes: &[u8]) -> Result<bool, ConnError> {
        if let Some(opening) = &mut self.opening {
            let Some(rest) = opening.feed(bytes)? else {
                return Ok(true);
            };
            self.opening = None;
            self.queue(&[])?;
            return match rest.is_empty() {
                true => Ok(true),
                false => self.receive_idle(&rest),
            };
        }
        match &mut self.tls {
            Some(tls) => {
                self.plain.clear();
                tls.decrypt(bytes, &mut self.plain)?;
                tls.encrypt(&[], &mut self.out)?;
                Ok(self.plain.is_empty())
            }
            None => Ok(bytes.is_empty()),
        }
    }

    /// Takes received bytes of a response; `sink` gets its pieces. `done` at its end.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(Piece<'_>),
    ) -> Result<Fed, ConnError> {
        let fed = match &mut self.tls {
            Some(tls) => {
                self.plain.clear();
                tls.decrypt(bytes, &mut self.plain)?;
                tls.encrypt(&[], &mut self.out)?;
                let fed = self.decoder.feed(&self.plain, sink)?;
                Fed {
                    used: if fed.used == self.plain.len() {
                        bytes.len()
                    } else {
                        0
                    },
                    ..fed
                }
            }
            None => self.decoder.feed(bytes, sink)?,
        };
        if fed.done {
            self.used_count += 1;
        }
        Ok(fed)
    }

    /// The peer closed: an error when the response was not at its end.
    pub fn finish(&mut self) -> Result<(), ConnError> {
        Ok(self.decoder.finish()?)
    }

    /// True when a byte of the response has come.
    pub fn has_started(&self) -> bool {
        self.decoder.started()
    }

    /// True when the bytes received end with bytes of the body; of TLS it is not known.
    pub fn ends_in_body(&self) -> bool {
        self.tls.is_none() && self.decoder.ends_in_body()
    }

    /// True when the connection may carry another request.
    pub fn keeps_alive(&self) -> bool {
        self.decoder.keeps_alive()
    }
}
