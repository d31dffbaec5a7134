//! Raw socket calls: options, non-blocking send, recvmsg with the kernel's receive time.

use crate::base::{Ns, now};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Space for one timestamp control message, aligned as the kernel wants it.
#[repr(C, align(8))]
pub(super) struct Control(pub [u8; 64]);

/// Bytes of control space in use.
pub(super) const CONTROL_BYTES: usize = 64;

/// Sets what every connection has: no Nagle, kernel receive times.
pub(super) fn prepare(fd: RawFd) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// Sets an option of 32 bits.
pub(super) fn set(fd: RawFd, level: i32, name: i32, value: u32) -> io::Result<()> {
    // SAFETY: `value` outlives the call and its length is given.
    let rc = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            (&raw const value).cast(),
            size_of::<u32>() as u32,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sends what fits without waiting.
pub(super) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a live slice.
    let n = unsafe {
        libc::send(
            fd,
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Receives once without waiting; returns the length and the kernel's time in ns since 1970.
pub(super) fn recvmsg(fd: RawFd, into: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut iov = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: all-zero is a valid msghdr.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = CONTROL_BYTES;
    // SAFETY: every pointer in `msg` is to a live local of the length given.
    let n = unsafe { libc::recvmsg(fd, &raw mut msg, libc::MSG_DONTWAIT) };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let used = msg.msg_controllen.min(CONTROL_BYTES);
    Ok((n, stamp(&control.0[..used])))
}

/// What the kernel knows of a connection (`struct tcp_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time.
    pub rtt: Ns,
    /// Segments sent again.
    pub retransmits: u32,
    /// Segments with data that have come (kernel 4.6).
    pub data_segments_in: Option<u32>,
    /// Segments that came out of order (kernel 5.4).
    pub reordered: Option<u32>,
}

/// Bytes of `struct tcp_info` up to the last field that is read, and where the fields lie.
const TCP_INFO_BYTES: usize = 228;
const RTT_US_AT: usize = 68;
const TOTAL_RETRANS_AT: usize = 100;
const DATA_SEGS_IN_AT: usize = 152;
const RCV_OOOPACK_AT: usize = 224;

/// Asks for a connection's state. Cost: about 0.5 us.
pub(super) fn tcp_info(fd: RawFd) -> Option<TcpInfo> {
    let mut info = [0u8; TCP_INFO_BYTES];
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    // SAFETY: `info` is live and `length` is its size; the kernel writes no more.
    let rc = unsafe {
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // An older kernel knows fewer fields, and says how many bytes it has written.
    let known = info.get(..length as usize).filter(|_| rc == 0)?;
    let field = |at: usize| {
        let bytes = known.get(at..at + 4)?;
        bytes.try_into().ok().map(u32::from_ne_bytes)
    };
    Some(TcpInfo {
        rtt: Ns(u64::from(field(RTT_US_AT)?) * 1_000),
        retransmits: field(TOTAL_RETRANS_AT)?,
        data_segments_in: field(DATA_SEGS_IN_AT),
        reordered: field(RCV_OOOPACK_AT),
    })
}

/// The kernel's time in a control message block: one `cmsghdr` (length u64, level i32, type i32),
/// then a timespec.
pub(super) fn stamp(control: &[u8]) -> Option<u64> {
    let word = |at: usize| {
        Some(u64::from_ne_bytes(
            control.get(at..at + 8)?.try_into().ok()?,
        ))
    };
    let kind = i32::from_ne_bytes(control.get(12..16)?.try_into().ok()?);
    if kind != libc::SO_TIMESTAMPNS {
        return None;
    }
    let ns = word(16)?
        .checked_mul(1_000_000_000)?
        .checked_add(word(24)?)?;
    (ns > 0).then_some(ns)
}

/// Switches receive times on in the kernel: the first packets after the first socket asks may lack
/// one, so a loopback pair is used until the first stamp comes. True when stamps work.
pub(super) fn wake_stamping() -> bool {
    let attempt = || -> io::Result<bool> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        let client = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        prepare(client.as_raw_fd())?;
        let began = now();
        let mut buffer = [0u8; 16];
        while now().saturating_since(began) < Ns::from_ms(200) {
            send(server.as_raw_fd(), b"x")?;
            std::thread::sleep(std::time::Duration::from_micros(50));
            if let Ok((_, Some(_))) = recvmsg(client.as_raw_fd(), &mut buffer) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    attempt().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_block_without_a_stamp_gives_none() {
        assert_eq!(stamp(&[]), None);
        assert_eq!(stamp(&[0; 32]), None);
        let mut block = [0u8; 32];
        block[12..16].copy_from_slice(&libc::SO_TIMESTAMPNS.to_ne_bytes());
        block[16..24].copy_from_slice(&2u64.to_ne_bytes());
        block[24..32].copy_from_slice(&5u64.to_ne_bytes());
        assert_eq!(stamp(&block), Some(2_000_000_005));
        assert_eq!(stamp(&block[..30]), None);
    }

    #[test]
    fn the_kernel_tells_of_a_connection() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut server, b"x").unwrap();
        let mut buffer = [0u8; 4];
        assert_eq!(std::io::Read::read(&mut &client, &mut buffer).unwrap(), 1);
        let info = tcp_info(client.as_raw_fd()).unwrap();
        assert!(
            info.rtt > Ns::ZERO && info.rtt < Ns::from_ms(1_000),
            "{info:?}"
        );
        assert_eq!((info.retransmits, info.data_segments_in), (0, Some(1)));
        assert!(tcp_info(-1).is_none());
    }

    #[test]
    fn the_kernel_stamps_what_arrives_on_loopback() {
        assert!(wake_stamping());
    }
}
