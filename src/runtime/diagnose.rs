//! What this machine offers: kernel features, limits, and the receive path that follows.

use super::limits::{fd_limits, port_range};
use super::ring::Ring;
use super::{cores, socket};
use std::io;

/// What was found; plain data for `doctor` and for the start of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Kernel release.
    pub kernel: String,
    /// io_uring, or why not.
    pub io_uring: Result<(), String>,
    /// The private receive ring with provided buffers, or what it lacks.
    pub receive_ring: Result<(), String>,
    /// Waiting for a batch with a lower bound (kernel 6.12).
    pub min_wait: bool,
    /// Kernel receive times on TCP.
    pub timestamps: bool,
    /// Soft limit of open files.
    pub fd_soft: u64,
    /// Hard limit of open files.
    pub fd_hard: u64,
    /// First and last ephemeral port.
    pub ports: (u16, u16),
    /// Locked memory in bytes; absent means unlimited.
    pub memlock: Option<u64>,
    /// CPUs that this process may use.
    pub cpus: Vec<usize>,
    /// Clock behind all times.
    pub clock_source: Option<String>,
    /// Frequency governor of those CPUs.
    pub governor: Option<String>,
    /// CPUs' worth of time that the cgroup may use; absent without a limit.
    pub quota_cpus: Option<f64>,
    /// One line: the path that a run takes.
    pub receive_path: String,
}

/// Kernel release.
pub fn kernel_release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// Clock behind the kernel's times: `tsc` as a rule.
pub fn clock_source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_string())
}

/// Frequency governor of these CPUs; absent where there is none, or not the same for all.
pub fn governor(cpus: &[usize]) -> Option<String> {
    let of = |cpu: &usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        let text = std::fs::read_to_string(path).ok()?;
        Some(text.trim().to_string())
    };
    let first = of(cpus.first()?)?;
    let same = cpus.iter().all(|cpu| of(cpu).as_ref() == Some(&first));
    same.then_some(first)
}

/// Says which cause stands behind an io_uring error, and what to do.
pub(super) fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "io_uring: this kernel has none (5.1 or newer needed)".into(),
        Some(libc::EPERM) => {
            "io_uring: not permitted (seccomp of a container, or kernel.io_uring_disabled)".into()
        }
        Some(libc::ENOMEM) => {
            "io_uring: locked memory is too small (raise ulimit -l; a core needs about 1 MiB)"
                .into()
        }
        _ => format!("io_uring: {error}"),
    }
}

/// Tries everything out. Cost: a few ms.
pub fn diagnose() -> Diagnosis {
    let io_uring = io_uring::IoUring::new(8)
        .map(|_| ())
        .map_err(|error| explain(&error));
    let ring = io_uring.clone().and_then(|()| Ring::new());
    let min_wait = ring.as_ref().is_ok_and(Ring::has_min_wait);
    let timestamps = socket::wake_stamping();
    let fds = fd_limits();
    let receive_ring = ring.map(|_| ());
    let times = if timestamps {
        "kernel receive times"
    } else {
        "user-space receive times"
    };
    let receive_path = match (&io_uring, &receive_ring) {
        (Ok(()), Ok(())) => format!("io_uring, multishot recvmsg, {times}"),
        (Ok(()), Err(reason)) => format!("io_uring readiness and recvmsg, {times} ({reason})"),
        (Err(reason), _) => format!("epoll readiness and recvmsg, {times} ({reason})"),
    };
    Diagnosis {
        kernel: kernel_release(),
        io_uring,
        receive_ring,
        min_wait,
        timestamps,
        fd_soft: fds.soft,
        fd_hard: fds.hard,
        ports: port_range(),
        memlock: rustix::process::getrlimit(rustix::process::Resource::Memlock).current,
        cpus: cores::usable(),
        clock_source: clock_source(),
        governor: governor(&cores::usable()),
        quota_cpus: super::accounting::Throttling::take().quota_cpus,
        receive_path,
    }
}
