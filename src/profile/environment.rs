//! What the machine did to a run, from before its first request to after its last.

use super::route;
use crate::base::{Ns, now};
use crate::config::Config;
use crate::runtime::{self, Throttling};
use crate::stats::Environment;

/// Taken before the first request.
pub struct Watch {
    throttling: Throttling,
    since: Ns,
}

impl Watch {
    /// Begins to watch.
    pub fn start() -> Watch {
        Watch {
            throttling: Throttling::take(),
            since: now(),
        }
    }

    /// What has been, for workers on `cpus`.
    pub fn finish(&self, config: &Config, cpus: &[usize], placement: &str) -> Environment {
        let stopped = Throttling::take().since(&self.throttling);
        let length = now().saturating_since(self.since).as_secs().max(1e-9);
        Environment {
            placement: placement.into(),
            kernel: runtime::kernel_release(),
            clock_source: runtime::clock_source(),
            governor: runtime::governor(cpus),
            quota_cpus: stopped.quota_cpus,
            throttled_count: stopped.stops_count,
            throttled_ratio: Ns(stopped.stopped_ns).as_secs() / length,
            clock_steps_count: 0,
            open_files_max: runtime::fd_limits().soft,
            ports_count: u32::try_from(route::ports_count(config)).unwrap_or(u32::MAX),
            uses_proxy: route::uses_proxy(config),
        }
    }
}
