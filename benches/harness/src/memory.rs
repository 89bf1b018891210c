//! The most memory that this process has held, from Linux's account of it (proc(5)).

use std::fs;

/// A stretch of time whose peak is looked for.
#[derive(Debug)]
pub struct PeakMemory;

impl PeakMemory {
    /// Forgets the peaks before; `None` where the kernel cannot or may not do that, so that no peak is told.
    pub fn begin() -> Option<Self> {
        fs::write("/proc/self/clear_refs", "5").is_ok().then_some(Self)
    }

    /// Bytes of the whole process, with what it has kept of rows before, resident at once at the most.
    pub fn bytes(&self) -> Option<u64> {
        in_status(&fs::read_to_string("/proc/self/status").ok()?)
    }
}

fn in_status(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_in_bytes() {
        assert_eq!(in_status("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(in_status("Name:\tx\n"), None);
    }

    #[test]
    fn what_was_held_and_given_back_counts() {
        let Some(peak) = PeakMemory::begin() else { return };
        let held = vec![1u8; 64 << 20];
        assert!(std::hint::black_box(&held).iter().all(|byte| *byte == 1));
        drop(held);
        assert!(peak.bytes().is_some_and(|bytes| bytes > 64 << 20));
    }
}
