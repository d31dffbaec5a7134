//! How a connection's socket is made: where it comes from, and what it is told before it connects.

use super::socket;
use crate::base::Ns;
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

/// `IP_LOCAL_PORT_RANGE` (Linux 6.3), not in libc: the first port in the low half, the last in the
/// high one. Works on sockets of both families.
const IP_LOCAL_PORT_RANGE: libc::c_int = 51;

/// Settings of all sockets of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dial {
    /// Addresses to connect from, in turn; empty leaves it to the kernel.
    pub sources: Vec<IpAddr>,
    /// First and last port to connect from; absent leaves it to the kernel.
    pub ports: Option<(u16, u16)>,
    /// Idle time before a keep-alive probe and between two; whole seconds.
    pub keepalive: Option<Ns>,
    /// `SO_RCVBUF`, in bytes.
    pub recv_buffer: Option<u32>,
    /// `SO_SNDBUF`, in bytes.
    pub send_buffer: Option<u32>,
    /// `TCP_USER_TIMEOUT`: how long what was sent may stay unacknowledged; whole milliseconds.
    pub user_timeout: Option<Ns>,
}

impl Dial {
    /// True when sockets are as the kernel makes them.
    pub fn is_plain(&self) -> bool {
        *self == Dial::default()
    }

    /// True when there is an address to connect from.
    pub fn reaches(&self, to: &SocketAddr) -> bool {
        self.sources.is_empty() || self.fitting(to).next().is_some()
    }

    fn fitting(&self, to: &SocketAddr) -> impl Iterator<Item = &IpAddr> {
        let is_v4 = to.is_ipv4();
        self.sources
            .iter()
            .filter(move |from| from.is_ipv4() == is_v4)
    }

    /// Begins to connect from the address whose turn it is, or from one after it that has a port
    /// left; the socket takes bytes when that is over.
    pub(super) fn begin(&self, to: SocketAddr, turn: usize) -> io::Result<Socket> {
        self.in_turn(to, turn, |socket| {
            socket.set_nonblocking(true)?;
            match socket.connect(&to.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
                _ => Ok(()),
            }
        })
    }

    /// Connects and waits for it; for the probes before a run.
    pub fn connect(&self, to: SocketAddr, turn: usize, most: Duration) -> io::Result<TcpStream> {
        let connect = |socket: &Socket| socket.connect_timeout(&to.into(), most);
        self.in_turn(to, turn, connect).map(TcpStream::from)
    }

    fn in_turn(
        &self,
        to: SocketAddr,
        turn: usize,
        connect: impl Fn(&Socket) -> io::Result<()>,
    ) -> io::Result<Socket> {
        let count = self.fitting(&to).count();
        let mut step = 0;
        loop {
            let from = self.fitting(&to).nth((turn + step) % count.max(1));
            let socket = self.socket(to, from)?;
            step += 1;
            match connect(&socket) {
                Ok(()) => return Ok(socket),
                Err(error) if is_used_up(&error) && step < count => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn socket(&self, to: SocketAddr, from: Option<&IpAddr>) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(idle) = self.keepalive {
            let span = Duration::from_nanos(idle.0);
            let wish = TcpKeepalive::new().with_time(span).with_interval(span);
            socket.set_tcp_keepalive(&wish)?;
        }
        if let Some(bytes) = self.recv_buffer {
            socket.set_recv_buffer_size(bytes as usize)?;
        }
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes as usize)?;
        }
        if let Some(most) = self.user_timeout {
            socket.set_tcp_user_timeout(Some(Duration::from_nanos(most.0)))?;
        }
        if let Some((first, last)) = self.ports {
            let range = (u32::from(last) << 16) | u32::from(first);
            let fd = socket.as_raw_fd();
            socket::set(fd, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, range)?;
        }
        if let Some(&from) = from {
            // The port is chosen when the other end is known: only the four of both ends together
            // must be unique, not the port.
            let fd = socket.as_raw_fd();
            socket::set(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            socket.bind(&SocketAddr::new(from, 0).into())?;
        }
        Ok(socket)
    }

    /// Tries the settings on sockets that connect nowhere. Gives sentences on what the kernel does
    /// otherwise than asked; errors say what it does not do at all, and name the flag.
    pub fn try_out(&self) -> Result<Vec<String>, String> {
        for from in &self.sources {
            let alone = Dial {
                sources: vec![*from],
                ..Dial::default()
            };
            alone
                .socket(SocketAddr::new(*from, 1), Some(from))
                .map_err(|error| {
                    format!(
                        "--source-ip {from}: {error}; give an address of this machine (ip address)"
                    )
                })?;
        }
        let any = SocketAddr::new([127, 0, 0, 1].into(), 1);
        if let Some((first, last)) = self.ports {
            let alone = Dial {
                ports: self.ports,
                ..Dial::default()
            };
            alone.socket(any, None).map_err(|error| {
                format!("--local-port-range {first}-{last}: {error}; it needs Linux 6.3")
            })?;
        }
        let socket = self.socket(any, None);
        let socket = socket.map_err(|error| format!("--tcp-* options: {error}"))?;
        let given = |asked: Option<u32>, has: io::Result<usize>, flag, limit| {
            let (asked, has) = (asked? as usize, has.ok()?);
            // The kernel doubles what was asked, for its own needs.
            let given = has / 2;
            (given < asked).then(|| {
                format!("--{flag} {asked}: the kernel gives {given} bytes (net.core.{limit})")
            })
        };
        let recv = socket.recv_buffer_size();
        let send = socket.send_buffer_size();
        Ok([
            given(self.recv_buffer, recv, "tcp-recv-buffer", "rmem_max"),
            given(self.send_buffer, send, "tcp-send-buffer", "wmem_max"),
        ]
        .into_iter()
        .flatten()
        .collect())
    }
}

/// No port is left between the two addresses.
fn is_used_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EADDRNOTAVAIL)
}

/// Waits until a socket that has begun to connect is connected; it blocks from then on, as sockets
/// of the ring must.
pub(super) async fn established(socket: Socket) -> io::Result<OwnedFd> {
    let stream = monoio::net::TcpStream::from_std(socket.into())?;
    // What went wrong stands in the socket.
    let _ = stream.writable(false).await;
    // SAFETY: `into_raw_fd` gives up the descriptor, so that it has one owner.
    let socket = unsafe { Socket::from_raw_fd(stream.into_raw_fd()) };
    match socket.take_error()? {
        Some(error) => Err(error),
        None => {
            socket.set_nonblocking(false)?;
            Ok(socket.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn from(sources: &[&str], ports: Option<(u16, u16)>) -> Dial {
        Dial {
            sources: sources.iter().map(|text| text.parse().unwrap()).collect(),
            ports,
            ..Dial::default()
        }
    }

    #[test]
    fn connections_come_from_the_addresses_in_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let dial = from(&["127.0.0.2", "::1", "127.0.0.3"], None);
        for (turn, source) in [(0, "127.0.0.2"), (1, "127.0.0.3"), (2, "127.0.0.2")] {
            let stream = dial.connect(to, turn, Duration::from_secs(5)).unwrap();
            assert_eq!(stream.local_addr().unwrap().ip().to_string(), source);
        }
        assert!(dial.reaches(&to) && !from(&["::1"], None).reaches(&to));
    }

    #[test]
    fn an_address_without_a_port_left_passes_its_turn_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let first = super::super::port_range().0;
        let ports = Some((first, first + 3));
        let patience = Duration::from_secs(5);
        let two = from(&["127.0.0.2", "127.0.0.3"], ports);
        if two.try_out().is_err() {
            return; // Older than Linux 6.3.
        }
        let held: Vec<_> = (0..8)
            .map(|_| two.connect(to, 0, patience).unwrap())
            .collect();
        let from_first = |stream: &&TcpStream| stream.local_addr().unwrap().ip() == two.sources[0];
        assert_eq!(held.iter().filter(from_first).count(), 4);
        let error = two.connect(to, 0, patience).unwrap_err();
        assert!(is_used_up(&error), "{error}");
    }

    #[test]
    fn ports_of_the_range_are_taken_by_both_families() {
        let (_, last) = super::super::port_range();
        for address in ["127.0.0.1", "::1"] {
            let listener = TcpListener::bind((address, 0)).unwrap();
            let to = listener.local_addr().unwrap();
            for sources in [&[][..], &[address]] {
                let dial = from(sources, Some((last - 9, last)));
                if dial.try_out().is_err() {
                    return; // Older than Linux 6.3.
                }
                let stream = dial.connect(to, 0, Duration::from_secs(5)).unwrap();
                let from = stream.local_addr().unwrap();
                assert!(from.port() >= last - 9 && from.ip() == to.ip(), "{from}");
            }
        }
    }

    #[test]
    fn what_the_kernel_does_not_do_is_told_by_flag() {
        let error = from(&["192.0.2.77"], None).try_out().unwrap_err();
        assert!(error.starts_with("--source-ip 192.0.2.77: "), "{error}");
        let dial = Dial {
            keepalive: Some(Ns::from_ms(60_000)),
            recv_buffer: Some(1 << 30),
            send_buffer: Some(16 * 1024),
            user_timeout: Some(Ns::from_ms(30_000)),
            ..from(&["127.0.0.1", "::1"], None)
        };
        let notes = dial.try_out().unwrap();
        assert!(
            notes.len() == 1 && notes[0].contains("rmem_max"),
            "{notes:?}"
        );
        let socket = dial.socket("127.0.0.1:1".parse().unwrap(), None).unwrap();
        let span = Duration::from_secs(60);
        assert_eq!(socket.tcp_keepalive_time().unwrap(), span);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), span);
        let most = socket.tcp_user_timeout().unwrap();
        assert_eq!(most, Some(Duration::from_secs(30)));
        assert_eq!(socket.send_buffer_size().unwrap(), 32 * 1024);
    }
}
