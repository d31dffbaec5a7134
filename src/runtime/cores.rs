//! Which CPUs to run on, pinning, and CPU time of a thread.

use std::sync::OnceLock;

/// CPU time that a thread has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCpu {
    /// In user space, ns.
    pub user_ns: u64,
    /// In the kernel, ns.
    pub system_ns: u64,
    /// Times the scheduler took the core away.
    pub involuntary_switches: u64,
}

impl ThreadCpu {
    /// What was used since `earlier`, of the same thread.
    pub fn since(&self, earlier: &ThreadCpu) -> ThreadCpu {
        ThreadCpu {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }
}

/// CPU numbers that this process may use, ascending; at least `[0]`. As they are at the first call:
/// a thread that keeps off the workers' CPUs later has fewer.
pub fn usable() -> Vec<usize> {
    static USABLE: OnceLock<Vec<usize>> = OnceLock::new();
    USABLE.get_or_init(find_usable).clone()
}

fn find_usable() -> Vec<usize> {
    let mut cpus: Vec<usize> = core_affinity::get_core_ids()
        .unwrap_or_default()
        .into_iter()
        .map(|core| core.id)
        .collect();
    cpus.sort_unstable();
    if cpus.is_empty() {
        cpus.push(0);
    }
    cpus
}

/// Pins the calling thread; false when the kernel refuses.
pub fn pin(cpu: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
}

/// Keeps the calling thread off `cpus`, as far as there are others.
pub fn avoid(cpus: &[usize]) {
    let mut set = rustix::thread::CpuSet::new();
    let others: Vec<usize> = usable()
        .into_iter()
        .filter(|cpu| !cpus.contains(cpu))
        .collect();
    for &cpu in &others {
        set.set(cpu);
    }
    if !others.is_empty() {
        // A refusal leaves the thread where it may disturb a worker: the lags will tell.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

/// CPU time of the calling thread. Cost: about 0.3 us.
pub fn thread_cpu() -> ThreadCpu {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage for the kernel to fill.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return ThreadCpu::default();
    }
    let ns = |t: libc::timeval| {
        let secs = u64::try_from(t.tv_sec).unwrap_or(0);
        secs * 1_000_000_000 + u64::try_from(t.tv_usec).unwrap_or(0) * 1_000
    };
    ThreadCpu {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        involuntary_switches: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
    }
}
