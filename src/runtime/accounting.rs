//! What the kernel has counted: a CPU's ticks, a thread's wait for its CPU, a group's throttling.

use super::cores::{ThreadCpu, thread_cpu};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A share of fewer ticks than this, a second's, would be chance.
const TICKS_MIN: u64 = 100;

/// Ticks of one CPU since boot (`/proc/stat`, 10 ms each as a rule).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuTicks {
    all: u64,
    softirq: u64,
    steal: u64,
}

/// The counters of a worker's thread and of its CPU. The files stay open: at the end of a run there
/// may be no descriptor left.
#[derive(Debug)]
pub struct Accountant {
    cpu: Option<usize>,
    stat: Option<File>,
    sched: Option<File>,
}

/// A worker's thread and its CPU, as counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    used: ThreadCpu,
    ticks: Option<CpuTicks>,
    run_queue_wait_ns: Option<u64>,
}

/// The difference between two accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accounted {
    /// CPU time of the thread.
    pub used: ThreadCpu,
    /// Time that the thread was ready to run and another ran, ns.
    pub run_queue_wait_ns: Option<u64>,
    /// Share of the CPU's time that its host gave to other machines, 0..1.
    pub steal_ratio: Option<f64>,
    /// Share of the CPU's time spent on the network's and other deferred work, 0..1.
    pub softirq_ratio: Option<f64>,
}

impl Accountant {
    /// Of the calling thread and of `cpu`, to which it is pinned.
    pub fn new(cpu: Option<usize>) -> Accountant {
        Accountant {
            cpu,
            stat: File::open("/proc/stat").ok(),
            sched: File::open("/proc/thread-self/schedstat").ok(),
        }
    }

    /// The counters now. Cost: about 50 us.
    pub fn take(&self) -> Account {
        let stat = self.stat.as_ref().map_or_else(String::new, whole);
        let sched = self.sched.as_ref().map_or_else(String::new, whole);
        Account {
            used: thread_cpu(),
            ticks: self.cpu.and_then(|cpu| ticks(&stat, cpu)),
            run_queue_wait_ns: field(&sched, 1),
        }
    }
}

/// A file of /proc from its beginning, which is made anew; as far as the CPUs' lines may go.
fn whole(file: &File) -> String {
    let mut bytes = vec![0; 256 * 1024];
    let count = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

impl Account {
    /// What was counted since `earlier`, of the same thread.
    pub fn since(&self, earlier: &Account) -> Accounted {
        let ticks = self.ticks.zip(earlier.ticks);
        let share = |of: fn(&CpuTicks) -> u64| {
            let (now, then) = ticks?;
            let all = now.all.saturating_sub(then.all);
            let part = of(&now).saturating_sub(of(&then));
            ratio(part, all).filter(|_| all >= TICKS_MIN)
        };
        let waits = self.run_queue_wait_ns.zip(earlier.run_queue_wait_ns);
        Accounted {
            used: self.used.since(&earlier.used),
            run_queue_wait_ns: waits.map(|(now, then)| now.saturating_sub(then)),
            steal_ratio: share(|ticks| ticks.steal),
            softirq_ratio: share(|ticks| ticks.softirq),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share")]
fn ratio(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}

fn field(line: &str, index: usize) -> Option<u64> {
    line.split_whitespace().nth(index)?.parse().ok()
}

/// The line `cpuN user nice system idle iowait irq softirq steal guest guest_nice`; guest time is
/// in user time already.
fn ticks(stat: &str, cpu: usize) -> Option<CpuTicks> {
    let name = format!("cpu{cpu}");
    let mut lines = stat.lines();
    let line = lines.find(|line| line.split_whitespace().next() == Some(&name))?;
    let parts = line.split_whitespace().skip(1).take(8);
    let counts: Vec<u64> = parts.map_while(|part| part.parse().ok()).collect();
    (counts.len() == 8).then(|| CpuTicks {
        all: counts.iter().sum(),
        softirq: counts[6],
        steal: counts[7],
    })
}

/// A cgroup's CPU limit and what it has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttling {
    /// CPUs' worth of time that the group may use.
    pub quota_cpus: Option<f64>,
    /// Times that it was stopped.
    pub stops_count: u64,
    /// Time that it was stopped, ns.
    pub stopped_ns: u64,
}

impl Throttling {
    /// Of this process's group, of either version; nothing where there is no such group.
    pub fn take() -> Throttling {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        of_group(&groups, Path::new("/sys/fs/cgroup"))
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Throttling) -> Throttling {
        Throttling {
            quota_cpus: self.quota_cpus,
            stops_count: self.stops_count.saturating_sub(earlier.stops_count),
            stopped_ns: self.stopped_ns.saturating_sub(earlier.stopped_ns),
        }
    }
}

/// The group's folders in `root` by `/proc/self/cgroup`: version 2 has the line `0::/path`, version
/// 1 a line with the controller `cpu`. Within a container the path may be the host's: then the root
/// of the mount is the group.
fn of_group(groups: &str, root: &Path) -> Throttling {
    let mut folders: Vec<PathBuf> = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let mounts: &[&str] = match controllers {
            "" => &["", "unified"],
            list if list.split(',').any(|name| name == "cpu") => &["cpu", "cpu,cpuacct"],
            _ => continue,
        };
        for mount in mounts {
            let mount = root.join(mount);
            folders.push(mount.join(path.trim_start_matches('/')));
            folders.push(mount);
        }
    }
    let found = folders.iter().find_map(|folder| {
        let stat = std::fs::read_to_string(folder.join("cpu.stat")).ok()?;
        stat.contains("nr_throttled").then_some((folder, stat))
    });
    let Some((folder, stat)) = found else {
        return Throttling::default();
    };
    let value = |key: &str| {
        let line = stat.lines().find(|line| line.starts_with(key))?;
        field(line, 1)
    };
    // Version 2 counts microseconds, version 1 nanoseconds.
    let stopped = value("throttled_usec ").map(|us| us.saturating_mul(1_000));
    Throttling {
        quota_cpus: quota(folder),
        stops_count: value("nr_throttled ").unwrap_or(0),
        stopped_ns: stopped.or_else(|| value("throttled_time ")).unwrap_or(0),
    }
}

fn quota(folder: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let (quota, period) = match read("cpu.max") {
        // `max 100000` has no limit, and no first number.
        Some(text) => (field(&text, 0)?, field(&text, 1)?),
        None => {
            let quota = read("cpu.cfs_quota_us")?;
            (field(&quota, 0)?, field(&read("cpu.cfs_period_us")?, 0)?)
        }
    };
    ratio(quota, period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_s_line_is_its_own() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 1 2 3 4 5 6 7 8 9 9\ncpu11 2 2 2 2 2 2 2 2\n";
        let one = ticks(stat, 1).unwrap();
        assert_eq!((one.all, one.softirq, one.steal), (36, 7, 8));
        assert_eq!(ticks(stat, 11).unwrap().all, 16);
        assert_eq!(ticks(stat, 2), None);
    }

    #[test]
    fn shares_are_of_the_ticks_in_between() {
        let account = |all, steal| Account {
            ticks: Some(CpuTicks {
                all,
                softirq: 0,
                steal,
            }),
            run_queue_wait_ns: Some(all * 10),
            ..Account::default()
        };
        let between = account(300, 25).since(&account(100, 5));
        assert_eq!(between.steal_ratio, Some(0.1));
        assert_eq!(between.run_queue_wait_ns, Some(2_000));
        // A few ticks in between say nothing.
        assert_eq!(account(199, 6).since(&account(100, 5)).steal_ratio, None);
    }

    #[test]
    fn this_thread_has_an_account() {
        let accountant = Accountant::new(Some(super::super::cores::usable()[0]));
        let before = accountant.take();
        assert!(before.ticks.is_some());
        assert!(before.run_queue_wait_ns.is_some());
        std::thread::yield_now();
        let after = accountant.take();
        assert!(after.ticks.unwrap().all >= before.ticks.unwrap().all);
    }

    #[test]
    fn both_versions_of_cgroups_tell_quota_and_stops() {
        let check = |files: &[(&str, &str)], groups: &str| {
            let root = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = root.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            let found = of_group(groups, root.path());
            (found.quota_cpus, found.stops_count, found.stopped_ns)
        };
        let two = "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 250\n";
        let one = "nr_periods 9\nnr_throttled 4\nthrottled_time 7000\n";
        for (files, groups, want) in [
            (
                &[("a/b/cpu.stat", two), ("a/b/cpu.max", "150000 100000\n")][..],
                "0::/a/b\n",
                (Some(1.5), 3, 250_000),
            ),
            // In a container: the path is the host's, the mount is the group.
            (
                &[("cpu.stat", two), ("cpu.max", "max 100000\n")],
                "0::/host/path\n",
                (None, 3, 250_000),
            ),
            (
                &[
                    ("cpu/x/cpu.stat", one),
                    ("cpu/x/cpu.cfs_quota_us", "50000\n"),
                    ("cpu/x/cpu.cfs_period_us", "100000\n"),
                ],
                "4:memory:/x\n1:cpu:/x\n0::/\n",
                (Some(0.5), 4, 7_000),
            ),
            (
                &[
                    ("cpu,cpuacct/cpu.stat", one),
                    ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ],
                "1:cpu,cpuacct:/\n",
                (None, 4, 7_000),
            ),
            (&[], "0::/\n", (None, 0, 0)),
        ] {
            assert_eq!(check(files, groups), want, "{groups}");
        }
    }
}
