//! The machine as a run found it: what may stand between a server's times and ours.

/// What the kernel says of the machine, exported under `client.environment`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Environment {
    /// CPUs of the workers, what speaks for them and what against, as a line.
    pub placement: String,
    /// Kernel release.
    pub kernel: String,
    /// Clock behind all times: `tsc` as a rule.
    pub clock_source: Option<String>,
    /// Frequency governor of the workers' CPUs, when they all have the same.
    pub governor: Option<String>,
    /// CPUs' worth of time that this process's cgroup may use; absent without a limit.
    pub quota_cpus: Option<f64>,
    /// Times that the cgroup was stopped during the run.
    pub throttled_count: u64,
    /// Share of the run that it was stopped, 0..1.
    pub throttled_ratio: f64,
    /// Steps of the realtime clock during the run.
    pub clock_steps_count: u32,
    /// Limit of open files in force.
    pub open_files_max: u64,
    /// Ports towards one target address, over all addresses that connections come from.
    pub ports_count: u32,
    /// A request went through a proxy.
    pub uses_proxy: bool,
}

impl Environment {
    /// Sentences on what is unusual and may widen latencies; none when nothing is.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(clock) = self.clock_source.as_deref().filter(|&clock| clock != "tsc") {
            notes.push(format!(
                "the clock source is {clock}, not tsc: reading the time costs more"
            ));
        }
        let slow = |governor: &&str| !matches!(*governor, "performance" | "schedutil");
        if let Some(governor) = self.governor.as_deref().filter(slow) {
            notes.push(format!(
                "the frequency governor of the workers' CPUs is {governor}; `performance` answers \
                 sooner"
            ));
        }
        if let Some(cpus) = self.quota_cpus {
            notes.push(format!("this process may use {cpus:.2} CPUs (cgroup)"));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_unusual_is_noted() {
        let mut found = Environment {
            clock_source: Some("tsc".into()),
            governor: Some("performance".into()),
            ..Environment::default()
        };
        assert!(found.notes().is_empty());
        found.clock_source = Some("hpet".into());
        found.governor = Some("powersave".into());
        found.quota_cpus = Some(1.5);
        let notes = found.notes();
        assert_eq!(notes.len(), 3);
        assert!(notes[0].contains("hpet"));
        assert!(notes[1].contains("powersave"));
        assert!(notes[2].contains("1.50 CPUs"));
    }
}
