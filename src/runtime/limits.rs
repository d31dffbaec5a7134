//! Limits that the kernel sets: file descriptors and ports.

/// Soft and hard limit of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdLimits {
    /// In force.
    pub soft: u64,
    /// As far as it can be raised.
    pub hard: u64,
}

/// The limits in force.
pub fn fd_limits() -> FdLimits {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    FdLimits {
        soft: limit.current.unwrap_or(u64::MAX),
        hard: limit.maximum.unwrap_or(u64::MAX),
    }
}

/// Raises the soft limit to the hard one; returns what is in force then.
pub fn raise_fds() -> FdLimits {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves the old limit in force, and that is what the caller is told.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
    fd_limits()
}

/// First and last ephemeral port.
pub fn port_range() -> (u16, u16) {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let mut numbers = text.as_deref().unwrap_or("32768 60999").split_whitespace();
    let mut next = |default| {
        numbers
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(default)
    };
    (next(32_768), next(60_999))
}
