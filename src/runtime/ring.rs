//! The private receive ring of a core: multishot recvmsg into provided buffers, reaped in batches.

use super::socket;
use crate::base::Ns;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU16, Ordering};

/// Provided buffers at most: what may arrive between two reaps; a power of two.
const BUFFERS_COUNT: u16 = 4096;
/// Buffers that the kernel holds at least. It uses them in turn, so that all that it holds pass
/// through the cache.
const BUFFERS_LENT_MIN: usize = 64;
/// Bytes of a buffer: a few events, and every head that is usual.
const BUFFER_BYTES: usize = 4096;
/// From one buffer to the next: a cache line more, or the fronts of all buffers, which is all that
/// most reads fill, would share a few sets of the cache.
const BUFFER_STRIDE: usize = BUFFER_BYTES + 64;
/// Submission entries: one per re-armed connection between two enters.
const ENTRIES: u32 = 1024;
/// Completion entries: one per read between two reaps.
const COMPLETIONS: u32 = 16_384;
/// Completions to wait for when batching: an enter with `want` 1 runs only about 20.
const WANT: usize = 256;
/// Deferred completions that an enter runs when fewer are wanted (IO_LOCAL_TW_DEFAULT_MAX).
const WORK_PER_ENTER: usize = 20;
/// Buffer group of this ring.
const GROUP: u16 = 0;

/// Anonymous memory, unmapped when dropped.
struct Map {
    at: *mut u8,
    len: usize,
}

impl Map {
    fn new(len: usize) -> io::Result<Map> {
        // SAFETY: a fresh anonymous mapping; nothing else refers to it.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Map { at: at.cast(), len })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: `at` and `len` are those of our own mapping, and no slice into it is left.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

/// A read that the ring has done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Number given when the connection was armed.
    pub key: u64,
    /// Buffer with the bytes; absent at an end or an error.
    pub buffer: Option<u16>,
    /// Where the payload lies in the buffer.
    pub offset: usize,
    /// Payload bytes; 0 is the end of the stream.
    pub len: usize,
    /// The kernel's receive time, ns since 1970.
    pub wall_ns: Option<u64>,
    /// The error, as errno; 0 when there is none.
    pub errno: i32,
    /// False when the connection must be armed again to hear more.
    pub armed: bool,
}

impl Read {
    /// True when the read took as much as it could.
    pub fn fills_buffer(&self) -> bool {
        self.offset + self.len >= BUFFER_BYTES
    }
}

/// The ring.
pub(super) struct Ring {
    // Dropped before the maps that the kernel reads.
    ring: IoUring,
    entries: Map,
    memory: Map,
    tail: u16,
    /// Buffers that the kernel does not hold; the last used comes first.
    spare: Vec<u16>,
    /// Buffers that it may hold: more after a burst, down again by and by.
    lent_max: usize,
    header: Box<libc::msghdr>,
    min_wait: bool,
}

impl Ring {
    /// Builds the ring and registers its buffers. Errors name the feature that is missing.
    pub fn new() -> Result<Ring, String> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .setup_clamp()
            .build(ENTRIES)
            .map_err(|error| format!("io_uring with DEFER_TASKRUN: {error}"))?;
        let len = usize::from(BUFFERS_COUNT) * size_of::<types::BufRingEntry>();
        let map = |len| Map::new(len).map_err(|error| format!("buffer memory: {error}"));
        let (entries, memory) = (map(len)?, map(usize::from(BUFFERS_COUNT) * BUFFER_STRIDE)?);
        // SAFETY: the mapping is page aligned, of the right size, and lives as long as the ring.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(entries.at as u64, BUFFERS_COUNT, GROUP, 0)
                .map_err(|error| format!("provided buffer rings: {error}"))?;
        }
        // SAFETY: all-zero is a valid msghdr.
        let mut header: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        header.msg_controllen = socket::CONTROL_BYTES;
        let min_wait = ring.params().is_feature_min_timeout();
        let mut ring = Ring {
            ring,
            entries,
            memory,
            tail: 0,
            spare: (0..BUFFERS_COUNT).collect(),
            lent_max: BUFFERS_LENT_MIN,
            header,
            min_wait,
        };
        ring.lend();
        Ok(ring)
    }

    /// True when the kernel can wait for a batch with a lower bound (6.12).
    pub fn has_min_wait(&self) -> bool {
        self.min_wait
    }

    /// Takes a buffer back whose bytes have been read.
    pub fn give_back(&mut self, buffer: u16) {
        self.spare.push(buffer);
    }

    /// Hands the kernel the buffers that it may hold; those not given back count as held.
    pub fn lend(&mut self) {
        let spare_min = usize::from(BUFFERS_COUNT) - self.lent_max;
        while self.spare.len() > spare_min
            && let Some(buffer) = self.spare.pop()
        {
            let slot = usize::from(self.tail & (BUFFERS_COUNT - 1));
            // SAFETY: slot < BUFFERS_COUNT entries of the mapping; the kernel reads an entry only
            // after the tail has passed it; `buffer` < BUFFERS_COUNT keeps the address in `memory`.
            unsafe {
                let entry = &mut *self.entries.at.cast::<types::BufRingEntry>().add(slot);
                let at = self.memory.at.add(usize::from(buffer) * BUFFER_STRIDE);
                entry.set_addr(at as u64);
                entry.set_len(BUFFER_BYTES as u32);
                entry.set_bid(buffer);
            }
            self.tail = self.tail.wrapping_add(1);
        }
        // SAFETY: the tail lies in the first entry of our mapping and is a u16 that both sides
        // access atomically.
        unsafe {
            let tail = types::BufRingEntry::tail(self.entries.at.cast::<types::BufRingEntry>());
            (*tail.cast::<AtomicU16>()).store(self.tail, Ordering::Release);
        }
    }

    /// Starts (or restarts) receiving on a socket under `key`.
    pub fn arm(&mut self, fd: RawFd, key: u64) -> io::Result<()> {
        let header: *const libc::msghdr = &raw const *self.header;
        let entry = opcode::RecvMsgMulti::new(types::Fd(fd), header, GROUP)
            .build()
            .user_data(key);
        self.push(&entry)
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry's msghdr is boxed and lives as long as the ring.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Waits up to `limit`, at least `batch` once something came, and submits what is armed.
    /// Returns how many completions one wait can bring: as many mean that more may be pending. One
    /// that was cut short need not have looked at all: zero.
    pub fn wait(&mut self, limit: Ns, batch: Ns) -> io::Result<usize> {
        let spec = types::Timespec::new()
            .sec(limit.0 / 1_000_000_000)
            .nsec(u32::try_from(limit.0 % 1_000_000_000).unwrap_or(0));
        let mut args = types::SubmitArgs::new().timespec(&spec);
        let batch_us = u32::try_from(batch.min(limit).0 / 1_000).unwrap_or(u32::MAX);
        let mut want = 1;
        if batch_us > 0 && self.min_wait {
            args = args.min_wait_usec(batch_us);
            want = WANT;
        } else if limit == Ns::ZERO {
            // No wait at all: all that is there may come.
            want = WANT;
        }
        match self.ring.submitter().submit_with_args(want, &args) {
            Ok(_) => Ok(want.max(WORK_PER_ENTER)),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME) => Ok(want.max(WORK_PER_ENTER)),
                Some(libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(0),
                _ => Err(error),
            },
        }
    }

    /// Moves the completions into `reads`, in order; true when bytes were left behind: a buffer was
    /// too small, or there were too few.
    pub fn reap(&mut self, reads: &mut Vec<Read>) -> bool {
        let (header, memory) = (&*self.header, self.memory.at);
        let (mut ran_out, mut left) = (false, false);
        for entry in self.ring.completion() {
            let read = parse(header, memory, &entry);
            ran_out |= read.errno == libc::ENOBUFS;
            left |= read.fills_buffer();
            reads.push(read);
        }
        let needed = if ran_out {
            usize::from(BUFFERS_COUNT)
        } else {
            (2 * reads.len()).max(self.lent_max - self.lent_max / 16)
        };
        self.lent_max = needed.clamp(BUFFERS_LENT_MIN, usize::from(BUFFERS_COUNT));
        ran_out || left
    }

    /// The bytes of a read.
    pub fn bytes(&self, buffer: u16, offset: usize, len: usize) -> &[u8] {
        assert!(
            buffer < BUFFERS_COUNT && offset + len <= BUFFER_BYTES,
            "buffer out of range"
        );
        // SAFETY: in range as asserted; the kernel does not write a buffer between its completion
        // and its return, and the caller returns it only through `&mut self`.
        unsafe {
            let at = self
                .memory
                .at
                .add(usize::from(buffer) * BUFFER_STRIDE + offset);
            std::slice::from_raw_parts(at, len)
        }
    }
}

fn parse(header: &libc::msghdr, memory: *const u8, entry: &cqueue::Entry) -> Read {
    let (key, result, flags) = (entry.user_data(), entry.result(), entry.flags());
    let buffer = cqueue::buffer_select(flags);
    let mut read = Read {
        key,
        buffer,
        offset: 0,
        len: 0,
        wall_ns: None,
        errno: if result < 0 { -result } else { 0 },
        armed: cqueue::more(flags),
    };
    let (Some(buffer), Ok(len)) = (buffer, usize::try_from(result)) else {
        return read;
    };
    // SAFETY: the kernel filled `len` <= BUFFER_BYTES bytes of this buffer, which is ours now.
    let bytes =
        unsafe { std::slice::from_raw_parts(memory.add(usize::from(buffer) * BUFFER_STRIDE), len) };
    if let Ok(out) = types::RecvMsgOut::parse(bytes, header) {
        let payload = out.payload_data();
        read.offset = payload.as_ptr() as usize - bytes.as_ptr() as usize;
        read.len = payload.len();
        read.wall_ns = socket::stamp(out.control_data());
    }
    read
}
