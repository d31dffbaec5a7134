//! One core's sockets: connect, send, and "these bytes, this connection, received at this time".

use super::clockwatch::ClockWatch;
use super::dial::{self, Dial};
use super::inbox::{Gate, Inbox, Note};
use super::ring::{Read, Ring};
use super::socket::{self, TcpInfo};
use super::timer::Timer;
use crate::base::{Ns, limits, now};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;

/// Longest wait without anything due: signals and stop flags are seen by then.
const WAIT_MAX: Ns = Ns(20_000_000);
/// Longest wait in the private ring while a task of monoio has something to finish.
const WAIT_TASKS: Ns = Ns(200_000);
/// Reads to wait for in a batch, by how far apart they have come: about as many again come while
/// these are taken in. What more reads touch is more than the cache holds, and each costs more.
const BATCH_READS: u64 = 10;
/// What the kernel needs for a read at most, as a rule.
const READ_COST_MAX: Ns = Ns(20_000);
/// How late a wait may end for it to count as a look at all that had come.
const LATE_MAX: Ns = Ns(1_000_000);
/// Bytes of one receive on the readiness path.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Names a connection; never reused within a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Index of the slot, reused.
    pub slot: u32,
    /// Counts the slot's uses.
    pub generation: u32,
}

impl Token {
    fn key(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.slot)
    }

    fn from_key(key: u64) -> Token {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        Token {
            slot: key as u32,
            generation: (key >> 32) as u32,
        }
    }
}

/// Bytes that one read brought; read them by [`Reactor::bytes`], then [`Reactor::release`].
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Connection.
    pub token: Token,
    /// Receive time: the kernel's, else the time in user space.
    pub at: Ns,
    /// When user space saw it.
    pub seen: Ns,
    /// True when `at` is the kernel's.
    pub stamped: bool,
    /// When this core last saw everything before: segments that came since may be joined in this
    /// read.
    pub looked_before: Ns,
    /// True when the read took as much as it could: more of the same segment may follow.
    pub fills_buffer: bool,
    buffer: Option<u16>,
    offset: usize,
    len: usize,
}

impl Chunk {
    /// Number of bytes, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a chunk is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A connect ended.
    Connected(Token, io::Result<()>),
    /// The socket takes bytes again.
    Writable(Token),
    /// Bytes came.
    Bytes(Chunk),
    /// The peer closed; with its error if it was not in order.
    Closed(Token, Option<io::Error>),
}

/// How to build a [`Reactor`].
#[derive(Clone, Copy, Debug)]
pub struct ReactorOptions {
    /// Use the private ring.
    pub ring: bool,
    /// Longest wait for a batch; zero wakes for every read.
    pub batch: Ns,
}

struct Conn {
    generation: u32,
    fd: Option<OwnedFd>,
    rearm: Option<Rc<Gate>>,
}

/// One core's sockets.
pub struct Reactor {
    ring: Option<Box<Ring>>,
    batch: Ns,
    inbox: Rc<Inbox>,
    timer: Option<Timer>,
    conns: Vec<Conn>,
    free: Vec<u32>,
    reads: Vec<Read>,
    next_read: usize,
    reading: Option<Token>,
    /// Reads of that connection in this turn.
    reads_in_turn: u32,
    /// Connections that had more to read than a turn allows: the others come first.
    unread: Vec<Token>,
    scratch: Box<[u8]>,
    clock: ClockWatch,
    /// When the last wait was over.
    seen: Ns,
    /// All that had come by then has been read, unless there is a backlog.
    looked: Ns,
    looked_before: Ns,
    /// The last look may have left something behind.
    backlog: bool,
    /// How late the last wait ended, when it was the deadline that ended it.
    overslept: Option<Ns>,
    /// How far apart reads have come of late.
    read_gap: Ns,
    stamps: bool,
}

impl Reactor {
    /// Builds it on the calling thread, which must run a monoio runtime. Errors name what the
    /// kernel lacks.
    pub fn new(options: ReactorOptions) -> Result<Reactor, String> {
        let stamps = socket::wake_stamping();
        let ring = if options.ring {
            Some(Box::new(Ring::new()?))
        } else {
            None
        };
        let inbox = Rc::new(Inbox::default());
        let timer = match ring {
            Some(_) => None,
            None => Some(Timer::new(&inbox).map_err(|error| format!("timerfd: {error}"))?),
        };
        Ok(Reactor {
            ring,
            batch: options.batch,
            inbox,
            timer,
            conns: Vec::new(),
            free: Vec::new(),
            reads: Vec::with_capacity(4096),
            next_read: 0,
            reading: None,
            reads_in_turn: 0,
            unread: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            clock: ClockWatch::new(),
            seen: now(),
            looked: now(),
            looked_before: now(),
            backlog: false,
            overslept: None,
            read_gap: WAIT_MAX,
            stamps,
        })
    }

    /// One line on the path in use.
    pub fn describe(&self) -> String {
        let stamps = if self.stamps {
            "kernel receive times"
        } else {
            "user-space receive times"
        };
        match &self.ring {
            Some(ring) if ring.has_min_wait() && self.batch > Ns::ZERO => {
                format!("io_uring, multishot recvmsg in batches, {stamps}")
            }
            Some(_) => format!("io_uring, multishot recvmsg, {stamps}"),
            None => format!("readiness and recvmsg, {stamps}"),
        }
    }

    /// Steps of the realtime clock seen so far.
    pub fn clock_steps_count(&self) -> u32 {
        self.clock.steps_count()
    }

    /// Changes the longest wait for a batch.
    pub fn set_batch(&mut self, batch: Ns) {
        self.batch = batch;
    }

    /// Begins to connect, from the source address whose `turn` it is; the end comes as
    /// [`Event::Connected`].
    pub fn connect(&mut self, addr: SocketAddr, dial: &Dial, turn: usize) -> Token {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Conn {
                generation: 0,
                fd: None,
                rearm: None,
            });
            u32::try_from(self.conns.len() - 1).unwrap_or(u32::MAX)
        });
        let conn = &mut self.conns[slot as usize];
        conn.generation = conn.generation.wrapping_add(1);
        let token = Token {
            slot,
            generation: conn.generation,
        };
        let inbox = self.inbox.clone();
        inbox.expect_one();
        let begun = (!dial.is_plain()).then(|| dial.begin(addr, turn));
        monoio::spawn(async move {
            let result = match begun {
                Some(Ok(socket)) => dial::established(socket).await,
                Some(Err(error)) => Err(error),
                None => monoio::net::TcpStream::connect_addr(addr)
                    .await
                    .map(|stream| {
                        // SAFETY: `into_raw_fd` gives up the descriptor, so that it has one owner.
                        unsafe { OwnedFd::from_raw_fd(stream.into_raw_fd()) }
                    }),
            };
            inbox.expected_one_came();
            inbox.push(Note::Connected(token, result));
        });
        token
    }

    /// Sends what fits now; asks for [`Event::Writable`] by [`Reactor::await_writable`].
    pub fn send(&self, token: Token, bytes: &[u8]) -> io::Result<usize> {
        match self.fd(token) {
            Some(fd) => socket::send(fd.as_raw_fd(), bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Asks for one [`Event::Writable`].
    pub fn await_writable(&mut self, token: Token) {
        let Some(copy) = self.fd(token).and_then(|fd| fd.try_clone().ok()) else {
            return;
        };
        let inbox = self.inbox.clone();
        inbox.expect_one();
        monoio::spawn(async move {
            if let Ok(stream) = monoio::net::TcpStream::from_std(copy.into()) {
                // An error shows itself at the next send.
                let _ = stream.writable(false).await;
            }
            inbox.expected_one_came();
            inbox.push(Note::Writable(token));
        });
    }

    /// What the kernel knows of a connection; absent where it does not tell. Cost: about 0.5 us.
    pub fn tcp_info(&self, token: Token) -> Option<TcpInfo> {
        socket::tcp_info(self.fd(token)?.as_raw_fd())
    }

    /// Segments with data that have come on a connection so far. Equal to the number of reads, it
    /// proves that no read joined two.
    pub fn segments_in(&self, token: Token) -> Option<u32> {
        self.tcp_info(token)?.data_segments_in
    }

    /// How late the last wait ended, when it was the deadline that ended it.
    pub fn overslept(&self) -> Option<Ns> {
        self.overslept
    }

    /// True when nothing lies unread in the kernel. Cost: about 0.3 us.
    pub fn is_drained(&self, token: Token) -> bool {
        self.fd(token)
            .is_some_and(|fd| matches!(rustix::io::ioctl_fionread(fd), Ok(0)))
    }

    /// True when another read of the connection of `chunk` waits to be taken in.
    pub fn has_more(&self, chunk: &Chunk) -> bool {
        let key = chunk.token.key();
        let reads = self.reads.get(self.next_read..).unwrap_or_default();
        reads.iter().any(|read| read.key == key)
    }

    /// Closes a connection; nothing of it is heard after.
    pub fn close(&mut self, token: Token) {
        if !self.is_open(token) {
            return;
        }
        let conn = &mut self.conns[token.slot as usize];
        conn.generation = conn.generation.wrapping_add(1);
        if let Some(fd) = conn.fd.take() {
            // Ends the armed receive, which holds the socket open otherwise. An error means that
            // the peer was first.
            let _ = rustix::net::shutdown(&fd, rustix::net::Shutdown::Both);
        }
        if let Some(gate) = conn.rearm.take() {
            gate.open();
        }
        self.free.push(token.slot);
    }

    fn is_open(&self, token: Token) -> bool {
        self.conns
            .get(token.slot as usize)
            .is_some_and(|conn| conn.generation == token.generation)
    }

    fn fd(&self, token: Token) -> Option<&OwnedFd> {
        self.conns
            .get(token.slot as usize)
            .filter(|conn| conn.generation == token.generation)
            .and_then(|conn| conn.fd.as_ref())
    }

    /// Waits for events, at most until `deadline`.
    pub async fn wait(&mut self, deadline: Option<Ns>) -> io::Result<()> {
        let at = now();
        // A look that came back full has not seen everything: it does not count as one.
        if !self.backlog {
            self.looked_before = self.looked;
        }
        self.backlog = false;
        self.clock.refresh(at);
        let limit = deadline.map_or(WAIT_MAX, |due| due.saturating_since(at).min(WAIT_MAX));
        match &mut self.ring {
            Some(ring) => {
                ring.lend();
                let busy = !self.inbox.is_empty() || self.inbox.expected_count() > 0;
                let limit = if busy { limit.min(WAIT_TASKS) } else { limit };
                let batch = match busy {
                    true => Ns::ZERO,
                    false => self.batch.min(Ns(self.read_gap.0 * BATCH_READS)),
                };
                let most = ring.wait(limit, batch)?;
                self.reads.clear();
                self.next_read = 0;
                let left = ring.reap(&mut self.reads);
                self.backlog = left || self.reads.len() >= most;
                if busy {
                    // A turn for monoio. Not a self-waking yield: 0.2.4 puts such a task at the
                    // front of its queue and starves the rest (monoio issue 322).
                    monoio::spawn(async {}).await;
                }
            }
            None => {
                for token in self.unread.drain(..) {
                    self.inbox.push(Note::Readable(token));
                }
                if self.reading.is_none() && self.inbox.is_empty() && limit > Ns::ZERO {
                    if let Some(timer) = &mut self.timer {
                        timer.arm(at + limit)?;
                    }
                    self.inbox.wait().await;
                } else {
                    monoio::spawn(async {}).await;
                }
            }
        }
        let since = std::mem::replace(&mut self.seen, now());
        self.overslept = deadline
            .filter(|&due| due > at && due <= self.seen)
            .map(|due| self.seen.saturating_since(due));
        let reads = self.reads.len() as u64;
        let gap = self.seen.saturating_since(since).0 / reads.max(1);
        self.read_gap = Ns((self.read_gap.0 * 7 + gap) / 8);
        // The kernel has read one connection after the other, the first long before the last.
        let work = Ns(reads * READ_COST_MAX.0);
        self.looked = Ns(self.seen.0.saturating_sub(work.0)).max(at);
        // Stopped in between, perhaps after the reads: what came then has not been seen.
        self.backlog |= self.seen.saturating_since(at) > limit + work + LATE_MAX;
        Ok(())
    }

    /// The next event of those that [`Reactor::wait`] found.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.next_read() {
                return Some(event);
            }
            match self.inbox.pop()? {
                Note::Connected(token, result) => {
                    if !self.is_open(token) {
                        continue;
                    }
                    let result = result.and_then(|fd| self.attach(token, fd));
                    return Some(Event::Connected(token, result));
                }
                Note::Writable(token) if self.is_open(token) => {
                    return Some(Event::Writable(token));
                }
                Note::Readable(token) if self.is_open(token) => {
                    (self.reading, self.reads_in_turn) = (Some(token), 0);
                }
                Note::Timer => self.timer_fired(),
                Note::Writable(_) | Note::Readable(_) => {}
            }
        }
    }

    /// Connections of the next reads that have come, in order; nothing on the readiness path.
    pub fn upcoming(&self, count: usize) -> impl Iterator<Item = Token> {
        let reads = self.reads.iter().skip(self.next_read.saturating_sub(1));
        reads.take(count).map(|read| Token::from_key(read.key))
    }

    fn timer_fired(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.fired();
        }
    }

    fn attach(&mut self, token: Token, fd: OwnedFd) -> io::Result<()> {
        socket::prepare(fd.as_raw_fd())?;
        let conn = &mut self.conns[token.slot as usize];
        if let Some(ring) = &mut self.ring {
            ring.arm(fd.as_raw_fd(), token.key())?;
        } else {
            let gate = Rc::new(Gate::default());
            conn.rearm = Some(gate.clone());
            let stream = monoio::net::TcpStream::from_std(fd.try_clone()?.into())?;
            let inbox = self.inbox.clone();
            monoio::spawn(async move {
                // Ends when the connection is closed: its gate is opened and its token is stale.
                while stream.readable(false).await.is_ok() && Rc::strong_count(&gate) > 1 {
                    inbox.push(Note::Readable(token));
                    gate.pass().await;
                }
            });
        }
        conn.fd = Some(fd);
        Ok(())
    }

    fn next_read(&mut self) -> Option<Event> {
        if self.ring.is_none() {
            return self.next_recvmsg();
        }
        while let Some(&read) = self.reads.get(self.next_read) {
            self.next_read += 1;
            let token = Token::from_key(read.key);
            if !self.is_open(token) {
                self.give_back(read.buffer);
                continue;
            }
            if read.len > 0 {
                if !read.armed {
                    self.rearm(token);
                }
                return Some(Event::Bytes(self.chunk(token, &read)));
            }
            self.give_back(read.buffer);
            match read.errno {
                0 => return Some(Event::Closed(token, None)),
                libc::ENOBUFS | libc::EAGAIN | libc::EINTR => self.rearm(token),
                code => {
                    return Some(Event::Closed(
                        token,
                        Some(io::Error::from_raw_os_error(code)),
                    ));
                }
            }
        }
        None
    }

    fn give_back(&mut self, buffer: Option<u16>) {
        if let (Some(ring), Some(buffer)) = (&mut self.ring, buffer) {
            ring.give_back(buffer);
        }
    }

    fn rearm(&mut self, token: Token) {
        let fd = self.fd(token).map(AsRawFd::as_raw_fd);
        if let (Some(ring), Some(fd)) = (&mut self.ring, fd) {
            // A refusal would be a broken ring: the next wait says so.
            let _ = ring.arm(fd, token.key());
        }
    }

    fn chunk(&self, token: Token, read: &Read) -> Chunk {
        let seen = self.seen;
        Chunk {
            token,
            at: read
                .wall_ns
                .map_or(seen, |wall| self.clock.mono(wall, seen)),
            seen,
            stamped: read.wall_ns.is_some(),
            looked_before: self.looked_before,
            fills_buffer: read.fills_buffer(),
            buffer: read.buffer,
            offset: read.offset,
            len: read.len,
        }
    }

    fn next_recvmsg(&mut self) -> Option<Event> {
        let token = self.reading?;
        let Some(fd) = self.fd(token).map(AsRawFd::as_raw_fd) else {
            self.reading = None;
            return None;
        };
        if self.reads_in_turn >= limits::READS_PER_TURN_MAX {
            self.reading = None;
            self.unread.push(token);
            // This look has not seen everything.
            self.backlog = true;
            return None;
        }
        self.reads_in_turn += 1;
        let result = socket::recvmsg(fd, &mut self.scratch);
        let seen = now();
        match result {
            Ok((0, _)) => {
                self.reading = None;
                Some(Event::Closed(token, None))
            }
            Ok((len, wall_ns)) => Some(Event::Bytes(Chunk {
                token,
                at: wall_ns.map_or(seen, |wall| self.clock.mono(wall, seen)),
                seen,
                stamped: wall_ns.is_some(),
                looked_before: self.looked_before,
                fills_buffer: len >= SCRATCH_BYTES,
                buffer: None,
                offset: 0,
                len,
            })),
            Err(error) => {
                self.reading = None;
                if error.kind() == io::ErrorKind::WouldBlock {
                    if let Some(gate) = &self.conns[token.slot as usize].rearm {
                        gate.open();
                    }
                    return None;
                }
                Some(Event::Closed(token, Some(error)))
            }
        }
    }

    /// The bytes of a chunk.
    pub fn bytes(&self, chunk: &Chunk) -> &[u8] {
        match (&self.ring, chunk.buffer) {
            (Some(ring), Some(buffer)) => ring.bytes(buffer, chunk.offset, chunk.len),
            _ => &self.scratch[..chunk.len],
        }
    }

    /// Gives a chunk's buffer back.
    pub fn release(&mut self, chunk: &Chunk) {
        self.give_back(chunk.buffer);
    }
}
