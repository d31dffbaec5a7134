//! Threads, listeners, signals, and the loop of one thread.

use super::conn::Conn;
use super::options::Options;
use super::render::Shapes;
use super::stats::{Counters, Stats};
use super::wheel::{Entry, Wheel};
use crate::base::{Ns, clock, now};
use crate::config::Api;
use crate::http::{TlsError, TlsServer};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::event::epoll::{CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const EVENTS_MAX: usize = 512;
/// How often an idle loop looks at the stop flag.
const IDLE: Ns = Ns::from_ms(20);
/// How often a loop asks again for a place below the concurrency limit that other loops share.
const RETRY: Ns = Ns(500_000);
/// Read size: a whole prompt of 16 thousand tokens.
const READ_BYTES: usize = 64 * 1024;

/// Why the mock could not run.
#[derive(Debug, thiserror::Error)]
pub enum MockError {
    /// A value that cannot be served.
    #[error("mock option {name} is out of range: {need}")]
    Option {
        /// Which.
        name: &'static str,
        /// What it must be.
        need: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {host}:{port}: {source}")]
    Listen {
        /// Host asked for.
        host: String,
        /// Port asked for.
        port: u16,
        /// Why.
        source: std::io::Error,
    },
    /// No certificate could be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The kernel refused something else.
    #[error("mock server failed: {0}")]
    Io(#[from] std::io::Error),
    /// A thread panicked: a bug.
    #[error("a thread of the mock server panicked")]
    Panicked,
}

/// What all threads share.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) stats: Stats,
    /// Number of the next request, in order of arrival.
    pub(super) next_id: AtomicU64,
    /// Seconds since 1970 at start: `created` of every answer.
    pub(super) created: u64,
    pub(super) tls: Option<TlsServer>,
}

impl Shared {
    /// The model that it says to serve.
    pub(super) fn model(&self) -> &str {
        match self.options.model.as_str() {
            "any" => "mock-model",
            name => name,
        }
    }
}

fn check(options: &Options) -> Result<(), MockError> {
    let rule = |ok: bool, name, need| {
        if ok {
            Ok(())
        } else {
            Err(MockError::Option { name, need })
        }
    };
    rule(options.threads >= 1, "threads", "at least 1")?;
    rule(
        options.tokens_per_chunk >= 1,
        "tokens_per_chunk",
        "at least 1",
    )?;
    rule(options.batch >= 1, "batch", "at least 1")?;
    rule(options.fragment != Some(0), "fragment", "at least 1")?;
    rule(
        options.concurrency_limit != Some(0),
        "concurrency_limit",
        "at least 1",
    )?;
    rule(
        options.keepalive.is_none_or(|k| k.0 >= 1_000_000),
        "keepalive",
        "at least 1 ms",
    )?;
    rule(
        options
            .cliff
            .is_none_or(|cliff| (0.0..=1_000.0).contains(&cliff.factor)),
        "cliff",
        "a factor of 0 to 1000",
    )?;
    rule(
        options.faults.are_shares(),
        "faults",
        "shares in 0..=1 with a sum of at most 1, and a status code in 100..=599",
    )
}

fn listen(address: SocketAddr, is_shared: bool) -> std::io::Result<(OwnedFd, SocketAddr)> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    // Some machines' default paces what is sent: it would leave after the time of its stamp. This
    // one does not, and every kernel has it.
    let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "reno");
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((socket.into(), bound))
}

fn listen_all(options: &Options) -> Result<(Vec<OwnedFd>, SocketAddr), MockError> {
    let failed = |source| MockError::Listen {
        host: options.host.clone(),
        port: options.port,
        source,
    };
    let mut address = (options.host.as_str(), options.port)
        .to_socket_addrs()
        .map_err(failed)?
        .next()
        .ok_or_else(|| failed(std::io::ErrorKind::AddrNotAvailable.into()))?;
    // The threads share the port, and so would another mock of the same user: its share of the
    // requests would be answered at its own pace. Nobody else may listen here.
    drop(listen(address, false).map_err(failed)?);
    let mut listeners = Vec::new();
    for _ in 0..options.threads {
        let (listener, bound) = listen(address, true).map_err(failed)?;
        address = bound;
        listeners.push(listener);
    }
    Ok((listeners, address))
}

/// Serves until a signal, a limit, `options.stop`, or the end of standard input.
///
/// `on_ready` hears the address once connections are accepted.
///
/// Errors: an option out of range, an address in use, a refusal of the kernel.
pub fn run(options: Options, on_ready: impl FnOnce(SocketAddr)) -> Result<(), MockError> {
    check(&options)?;
    raise_file_limit();
    let stop = Arc::clone(&options.stop);
    let mut signals = Vec::new();
    if options.handles_signals {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signals.push(signal_hook::flag::register(signal, Arc::clone(&stop))?);
        }
    }
    if options.exits_with_stdin {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            stop.store(true, Relaxed);
        });
    }
    let (listeners, address) = listen_all(&options)?;
    let tls = match options.tls {
        true => Some(TlsServer::self_signed(&options.host)?),
        false => None,
    };
    let shared = Arc::new(Shared {
        stats: Stats::new(options.threads),
        next_id: AtomicU64::new(0),
        created: clock::wall_ns() / 1_000_000_000,
        tls,
        options,
    });
    let mut threads = Vec::new();
    for (index, listener) in listeners.into_iter().enumerate() {
        let shared = Arc::clone(&shared);
        threads.push(
            std::thread::Builder::new()
                .name(format!("mock-{index}"))
                .spawn(move || {
                    pin(&shared.options, index);
                    Worker::new(shared, index, listener)?.run()
                })?,
        );
    }
    on_ready(address);
    watch(&shared, &stop, || {
        threads.iter().any(|thread| thread.is_finished())
    });
    stop.store(true, Relaxed);
    signals.into_iter().for_each(|id| {
        signal_hook::low_level::unregister(id);
    });
    for thread in threads {
        thread.join().map_err(|_| MockError::Panicked)??;
    }
    Ok(())
}

/// Returns when it is time to end.
fn watch(shared: &Shared, stop: &AtomicBool, has_died: impl Fn() -> bool) {
    let options = &shared.options;
    let end = options
        .seconds_limit
        .map_or(Ns::MAX, |secs| now() + Ns::from_secs_f64(secs));
    let limit = options.requests_limit.unwrap_or(u64::MAX);
    while !stop.load(Relaxed) && now() < end && !has_died() {
        if shared.stats.answered() >= limit {
            // The last answer may still be on its way out of a full socket buffer.
            std::thread::sleep(Duration::from_millis(20));
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal only means fewer connections.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn pin(options: &Options, index: usize) {
    let Some(cores) = options.cores.as_deref().filter(|cores| !cores.is_empty()) else {
        return;
    };
    let mut set = rustix::thread::CpuSet::new();
    let core = cores[index % cores.len()];
    if core < rustix::thread::CpuSet::MAX_CPU {
        set.set(core);
        // A core outside of the container's set leaves the thread where it is.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

/// One thread's loop.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) counters: Arc<Counters>,
    pub(super) epoll: OwnedFd,
    pub(super) listener: OwnedFd,
    timer: OwnedFd,
    armed: Ns,
    pub(super) conns: Vec<Conn>,
    pub(super) free: Vec<u32>,
    pub(super) wheel: Wheel,
    pub(super) shapes: HashMap<(Api, String), Rc<Shapes>>,
    /// Unpaced streams that can go on.
    pub(super) ready: Vec<u32>,
    /// Requests that wait for a place below the concurrency limit, with their lives.
    pub(super) waiting: VecDeque<(u32, u32)>,
    pub(super) scratch: Vec<u8>,
    /// What TLS makes of it.
    pub(super) sealed: Vec<u8>,
    pub(super) read: Vec<u8>,
}

impl Worker {
    fn new(shared: Arc<Shared>, index: usize, listener: OwnedFd) -> std::io::Result<Worker> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), edge)?;
        Ok(Worker {
            counters: Arc::clone(&shared.stats.threads[index]),
            shared,
            epoll,
            listener,
            timer,
            armed: Ns::MAX,
            conns: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(now()),
            shapes: HashMap::new(),
            ready: Vec::new(),
            waiting: VecDeque::new(),
            scratch: Vec::new(),
            sealed: Vec::new(),
            read: vec![0; READ_BYTES],
        })
    }

    fn run(&mut self) -> Result<(), MockError> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut due = Vec::new();
        let mut turn = Vec::new();
        let stop = Arc::clone(&self.shared.options.stop);
        while !stop.load(Relaxed) {
            let timeout = self.timeout()?;
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(MockError::Io(error.into())),
            }
            for event in &events {
                self.on_event(event.flags, event.data.u64());
            }
            std::mem::swap(&mut turn, &mut self.ready);
            for conn in turn.drain(..) {
                self.pour(conn);
            }
            self.fire_due(&mut due);
            if !self.waiting.is_empty() {
                self.admit();
            }
        }
        Ok(())
    }

    /// How long to wait. Sets the timer, which is exact where the timeout is whole milliseconds.
    fn timeout(&mut self) -> std::io::Result<Timespec> {
        let wait = |ns: Ns| Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(ns.0).unwrap_or(0),
        };
        if !self.ready.is_empty() {
            return Ok(wait(Ns::ZERO));
        }
        let mut next = self.wheel.next().unwrap_or(Ns::MAX);
        if !self.waiting.is_empty() {
            next = next.min(now() + RETRY);
        }
        if next == Ns::MAX {
            return Ok(wait(IDLE));
        }
        if next <= now() {
            return Ok(wait(Ns::ZERO));
        }
        if next != self.armed {
            let spec = Itimerspec {
                it_interval: wait(Ns::ZERO),
                it_value: Timespec {
                    tv_sec: i64::try_from(next.0 / 1_000_000_000).unwrap_or(i64::MAX),
                    tv_nsec: i64::try_from(next.0 % 1_000_000_000).unwrap_or(0),
                },
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)?;
            self.armed = next;
        }
        Ok(wait(IDLE))
    }

    fn on_event(&mut self, flags: EventFlags, data: u64) {
        if data == LISTENER {
            self.accept();
            return;
        }
        if data == TIMER {
            self.armed = Ns::MAX;
            return;
        }
        // An event of a slot's earlier connection in the same batch finds nothing to read.
        let index = u32::try_from(data).unwrap_or(u32::MAX);
        if !self.is_alive(index, None) {
            return;
        }
        let input = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(input) {
            self.readable(index);
        }
        if flags.contains(EventFlags::OUT) && self.is_alive(index, None) {
            self.writable(index);
        }
    }

    fn fire_due(&mut self, due: &mut Vec<Entry>) {
        self.wheel.due(now(), due);
        for entry in due.drain(..) {
            if self.is_alive(entry.conn, entry.life) {
                self.fire(entry.conn, entry.at);
            }
        }
    }
}
