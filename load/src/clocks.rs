//! The clocks of processes: CPU of client and server, and how long threads of the client waited for a processor.
//!
//! Read from `/proc` before and after a window, so that a share of CPU is a difference of clocks over that window and nothing else.
//! Ticks are hundredths of a second: a window of seconds is known to a percent.

use std::fs;

use serde::{Deserialize, Serialize};

/// CPU that a process used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Seconds in its own code.
    pub user_seconds: f64,
    /// Seconds in the kernel.
    pub system_seconds: f64,
}

impl Cpu {
    /// What a process has used since it began; none where it is not there.
    pub fn of(process: u32) -> Option<Self> {
        Self::read(&format!("/proc/{process}/stat"))
    }

    fn read(path: &str) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        // The name, in brackets, may hold anything; utime and stime are fields 14 and 15 (proc(5)).
        let fields: Vec<_> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let ticks = |field: usize| fields.get(field - 3)?.parse::<f64>().ok();
        let second = rustix::param::clock_ticks_per_second() as f64;
        Some(Self { user_seconds: ticks(14)? / second, system_seconds: ticks(15)? / second })
    }

    /// User and system.
    pub fn seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// What was used since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
        }
    }
}

/// How long threads of this process, in all, were ready and had no processor; seconds (`/proc/PID/schedstat`).
pub fn run_queue_wait_seconds() -> Option<f64> {
    let waited = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    let threads: Vec<_> = fs::read_dir("/proc/self/task").ok()?.flatten().filter_map(waited).collect();
    (!threads.is_empty()).then(|| threads.iter().sum::<f64>() / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_clocks() {
        let before = Cpu::of(std::process::id()).unwrap();
        let mut sum = 0u64;
        while Cpu::of(std::process::id()).unwrap().since(&before).seconds() < 0.02 {
            sum = std::hint::black_box(sum + 1);
        }
        assert_eq!(Cpu::of(u32::MAX), None);
    }
}
