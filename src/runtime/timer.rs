//! One timerfd per core, for the readiness path: monoio's own timers are a millisecond late. The
//! ring needs none, its waits have a time of their own.

use super::inbox::{Inbox, Note};
use crate::base::Ns;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;

/// A timer that tells an inbox.
pub(super) struct Timer {
    fd: OwnedFd,
    armed: Option<Ns>,
}

impl Timer {
    /// On the calling thread, whose monoio runtime reads it; each expiry goes to `inbox`.
    pub fn new(inbox: &Rc<Inbox>) -> io::Result<Timer> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // monoio has no type for a bare descriptor; a stream's readiness is all that is used.
        // SAFETY: the clone is a fresh descriptor with this one owner.
        let stream = unsafe { std::net::TcpStream::from_raw_fd(fd.try_clone()?.into_raw_fd()) };
        let stream = monoio::net::TcpStream::from_std(stream)?;
        let inbox = inbox.clone();
        let reader = fd.try_clone()?;
        monoio::spawn(async move {
            while stream.readable(false).await.is_ok() {
                // Nothing to read means that the timer was set again in between.
                let _ = rustix::io::read(&reader, &mut [0u8; 8]);
                inbox.push(Note::Timer);
            }
        });
        Ok(Timer { fd, armed: None })
    }

    /// Sets the time of the next expiry.
    pub fn arm(&mut self, at: Ns) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        if self.armed == Some(at) {
            return Ok(());
        }
        let spec = |ns: u64| Timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
        };
        let value = Itimerspec {
            it_interval: spec(0),
            it_value: spec(at.0),
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &value)?;
        self.armed = Some(at);
        Ok(())
    }

    /// The expiry has been heard.
    pub fn fired(&mut self) {
        self.armed = None;
    }
}
