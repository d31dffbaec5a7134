//! The façade over monoio and io_uring: pinned cores, sockets, receive times, timers. No other
//! room names monoio or io_uring.
//!
//! Start at [`Reactor`]: "these bytes, this connection, received at this time". It knows nothing
//! of HTTP. Two receive paths stand behind it: a private ring with multishot recvmsg, and
//! readiness with recvmsg, which also works without io_uring.
#![allow(unsafe_code)]

mod accounting;
mod clockwatch;
mod cores;
mod diagnose;
mod dial;
mod inbox;
mod limits;
mod reactor;
mod ring;
mod socket;
mod timer;
mod topology;
mod worker;

pub use accounting::{Account, Accountant, Accounted, Throttling};
pub use clockwatch::ClockWatch;
pub use cores::{ThreadCpu, avoid, pin, thread_cpu, usable};
pub use diagnose::{Diagnosis, clock_source, diagnose, governor, kernel_release};
pub use dial::Dial;
pub use limits::{FdLimits, fd_limits, port_range, raise_fds};
pub use reactor::{Chunk, Event, Reactor, ReactorOptions, Token};
pub use socket::TcpInfo;
pub use topology::Topology;
pub use worker::{Driver, run_pinned};
