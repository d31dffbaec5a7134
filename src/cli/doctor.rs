//! `tokenring doctor`: kernel features, limits and the receive path, in a second.

use crate::base::Exit;
use crate::runtime::{self, Diagnosis};

/// Runs the subcommand.
pub fn run() -> Exit {
    super::show(describe(&runtime::diagnose()).as_bytes())
}

fn describe(found: &Diagnosis) -> String {
    let yes_no = |result: &Result<(), String>| match result {
        Ok(()) => "yes".to_string(),
        Err(reason) => format!("no: {reason}"),
    };
    let flag = |yes: bool, no: &str| {
        if yes {
            "yes".to_string()
        } else {
            format!("no: {no}")
        }
    };
    let rows = [
        ("kernel", found.kernel.clone()),
        ("io_uring", yes_no(&found.io_uring)),
        ("receive ring", yes_no(&found.receive_ring)),
        (
            "batched waits",
            flag(found.min_wait, "kernel 6.12 or newer has them"),
        ),
        (
            "kernel receive times",
            flag(found.timestamps, "user-space times are used and marked"),
        ),
        (
            "open files",
            format!("{} (can be raised to {})", found.fd_soft, found.fd_hard),
        ),
        (
            "ports per target",
            format!("{} to {}", found.ports.0, found.ports.1),
        ),
        (
            "locked memory",
            found
                .memlock
                .map_or("unlimited".into(), |bytes| format!("{} KiB", bytes / 1024)),
        ),
        ("CPUs", format!("{:?}", found.cpus)),
        (
            "CPU limit (cgroup)",
            found
                .quota_cpus
                .map_or("none".into(), |cpus| format!("{cpus:.2} CPUs")),
        ),
        (
            "clock source",
            found.clock_source.clone().unwrap_or("unknown".into()),
        ),
        (
            "frequency governor",
            found
                .governor
                .clone()
                .unwrap_or("none, or not the same for all".into()),
        ),
        ("receive path", found.receive_path.clone()),
    ];
    rows.iter()
        .map(|(name, value)| format!("{name:<22} {value}\n"))
        .collect()
}
