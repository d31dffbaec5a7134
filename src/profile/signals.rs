//! Ctrl-C and SIGTERM: once drains, twice stops at once. A file that grows too large kills nothing.

use super::early::Early;
use crate::base::Exit;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// What has come so far.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    count: Arc<AtomicUsize>,
    /// The first one's number; zero before.
    first: Arc<AtomicI32>,
}

impl Signals {
    /// Takes over these signals for the rest of the process. Errors: the kernel refuses.
    pub fn listen() -> std::io::Result<Signals> {
        let signals = Signals::default();
        let mut arriving = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
        let heard = signals.clone();
        // A thread of its own, since counting in a handler would need unsafe code.
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || arriving.forever().for_each(|signal| heard.add(signal)))?;
        // A limit on the size of files (ulimit -f) is then an error of the write, named and
        // counted, and no sudden death.
        signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(signals)
    }

    /// The same, for whoever ends with it.
    pub fn heard() -> Result<Signals, Early> {
        Signals::listen().map_err(|error| Early::new(Exit::Unexpected, format!("signals: {error}")))
    }

    fn add(&self, signal: i32) {
        // Only the first one may set it; that another was first is no error.
        let _ = self
            .first
            .compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    /// How often.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The exit that the first of them asks for.
    pub fn exit(&self) -> Exit {
        match self.first.load(Ordering::Acquire) {
            SIGTERM => Exit::Terminated,
            SIGINT => Exit::Interrupted,
            _ => Exit::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_names_the_exit() {
        let signals = Signals::default();
        assert_eq!((signals.count(), signals.exit()), (0, Exit::Ok));
        signals.add(SIGINT);
        signals.add(SIGTERM);
        assert_eq!((signals.count(), signals.exit()), (2, Exit::Interrupted));
    }
}
