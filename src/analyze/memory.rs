//! Resident memory of this process, as the kernel counts it.

use std::fs;

/// Forgets the greatest so far, where the kernel lets a process do that; else it goes on counting
/// from its start, which is more and never less.
pub fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The greatest since then, in bytes; absent where the kernel does not say it.
pub fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_known_and_counts_what_was_touched() {
        forget_peak();
        let block = vec![1u8; 64 << 20];
        assert!(peak_bytes().unwrap() > block.len() as u64);
    }
}
