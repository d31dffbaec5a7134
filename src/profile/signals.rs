//! Ctrl-C and SIGTERM: once drains, twice stops at once. A file that grows too large kills nothing.

use crate::base::Exit;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What has come so far.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    interrupts: Arc<AtomicUsize>,
    terminations: Arc<AtomicUsize>,
}

impl Signals {
    /// Takes over these signals for the rest of the process. Errors: the kernel refuses.
    pub fn listen() -> std::io::Result<Signals> {
        let signals = Signals::default();
        for (signal, count) in [
            (SIGINT, &signals.interrupts),
            (SIGTERM, &signals.terminations),
        ] {
            let count = count.clone();
            count_signal(signal, count)?;
        }
        // A limit on the size of files (ulimit -f) is then an error of the write, named and
        // counted, and no sudden death.
        signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
        Ok(signals)
    }

    /// How often.
    pub fn count(&self) -> usize {
        self.interrupts.load(Ordering::Relaxed) + self.terminations.load(Ordering::Relaxed)
    }

    /// The exit that the first of them asks for.
    pub fn exit(&self) -> Exit {
        if self.terminations.load(Ordering::Relaxed) > 0 {
            Exit::Terminated
        } else if self.interrupts.load(Ordering::Relaxed) > 0 {
            Exit::Interrupted
        } else {
            Exit::Ok
        }
    }
}

/// A thread of its own, since counting in a handler would need unsafe code.
fn count_signal(signal: i32, count: Arc<AtomicUsize>) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([signal])?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        })?;
    Ok(())
}
