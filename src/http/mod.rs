//! HTTP/1.1: the codec (bytes in, parts out, no I/O), one connection, requests as templates,
//! exchanges that are waited for.
//!
//! Knows nothing of what a body means. Start at [`Conn`].

pub mod codec;
mod conn;
pub mod fetch;
mod request;
mod tls;
mod via;

pub use conn::{Conn, ConnError, Secured};
pub use request::{HeaderError, Template};
pub use tls::{Session, TlsClient, TlsError, TlsOptions, TlsServer};
pub use via::{TunnelError, Via};
