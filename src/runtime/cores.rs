//! Which CPUs to run on, pinning, and CPU time of a thread.

use crate::base::limits::STREAMS_PER_CORE;

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

/// CPU numbers that this process may use, ascending; at least `[0]`.
pub fn usable() -> Vec<usize> {
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

/// One CPU of each physical core among `cpus`: SMT siblings share what a worker needs whole.
fn physical(cpus: &[usize]) -> Vec<usize> {
    let mut seen = Vec::new();
    cpus.iter()
        .copied()
        .filter(|cpu| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let siblings = std::fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string());
            let fresh = !seen.contains(&siblings);
            seen.push(siblings);
            fresh
        })
        .collect()
}

/// The CPUs for `auto`: usable physical cores but one, the last ones first left to others, and no
/// more than one per [`STREAMS_PER_CORE`] streams; at least one.
pub fn choose(streams: usize, workers_max: Option<usize>) -> Vec<usize> {
    let mut cpus = physical(&usable());
    // The first core is where the system's own work and most interrupts land.
    let count = (cpus.len() - 1)
        .clamp(1, streams.div_ceil(STREAMS_PER_CORE).max(1))
        .min(workers_max.unwrap_or(usize::MAX))
        .max(1);
    if cpus.len() > count {
        cpus.drain(..cpus.len() - count);
    }
    cpus
}

/// The first `count` usable CPUs, or an error text that says how many there are.
pub fn cpu_list(count: usize) -> Result<Vec<usize>, String> {
    let cpus = usable();
    if count == 0 || count > cpus.len() {
        return Err(format!(
            "this process may use {} CPUs, {count} asked",
            cpus.len()
        ));
    }
    Ok(cpus[cpus.len() - count..].to_vec())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_takes_one_core_per_256_streams_and_at_least_one() {
        assert_eq!(choose(1, None).len(), 1);
        assert_eq!(choose(100_000, Some(1)).len(), 1);
        assert!(choose(100_000, None).len() <= usable().len());
    }

    #[test]
    fn more_cores_than_there_are_is_an_error() {
        assert!(cpu_list(usable().len() + 1).is_err());
        assert!(cpu_list(0).is_err());
        assert_eq!(cpu_list(1).unwrap().len(), 1);
    }
}
