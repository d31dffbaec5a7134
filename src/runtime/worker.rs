//! A worker: a thread, pinned, with its own monoio runtime.

use super::cores;
use std::future::Future;
use std::io;

/// Which driver carries monoio on a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// io_uring.
    Uring,
    /// epoll, with the reason why.
    Legacy(String),
}

/// Entries of monoio's own ring: it carries connects and waits for writability only.
const ENTRIES: u32 = 1024;

/// Runs a future to its end on the calling thread, pinned to `cpu`, on the best driver there is.
///
/// `make` gets the driver and whether pinning worked. Errors: no driver could be built.
pub fn run_pinned<F, T>(cpu: Option<usize>, make: impl FnOnce(Driver, bool) -> F) -> io::Result<T>
where
    F: Future<Output = T>,
{
    let pinned = cpu.is_some_and(cores::pin);
    tighten_timers();
    match build_uring() {
        Ok(mut runtime) => Ok(runtime.block_on(make(Driver::Uring, pinned))),
        Err(reason) => {
            let mut runtime = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new()
                .enable_timer()
                .build()?;
            Ok(runtime.block_on(make(Driver::Legacy(reason), pinned)))
        }
    }
}

type UringRuntime = monoio::Runtime<monoio::time::TimeDriver<monoio::IoUringDriver>>;

fn build_uring() -> Result<UringRuntime, String> {
    if std::env::var_os("TOKENRING_NO_URING").is_some() {
        return Err("switched off by TOKENRING_NO_URING".into());
    }
    // COOP, not DEFER: with DEFER_TASKRUN an always-ready task starves monoio's I/O.
    let mut builder = io_uring_06::IoUring::builder();
    builder.setup_coop_taskrun();
    monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
        .uring_builder(builder)
        .with_entries(ENTRIES)
        .enable_timer()
        .build()
        .map_err(|error| super::diagnose::explain(&error))
}

/// Timers of this thread to the nanosecond: the default slack is 50 us.
fn tighten_timers() {
    // SAFETY: the call only sets a number of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize, 0, 0, 0) };
}
