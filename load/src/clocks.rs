//! The clocks of processes: CPU of client and server, how long threads of the client waited for a processor, and what the server holds.
//!
//! Read from `/proc` before and after a window, so that a share of CPU is a difference of clocks over that window and nothing else.
//! Ticks are hundredths of a second: a window of seconds is known to a percent.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
    /// Returns the CPU time that a process has used since it began; none if there is no such process.
    pub fn of(process: u32) -> Option<Self> {
        Self::read(&format!("/proc/{process}/stat"), [14, 15])
    }

    /// Returns the CPU time of a process and its children since they began, also of those that have ended; none where it is not there.
    pub fn of_family(process: u32) -> Option<Self> {
        let parent = |folder: &fs::DirEntry| {
            let text = fs::read_to_string(folder.path().join("stat")).ok()?;
            text[text.rfind(')')? + 1..].split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let folders = fs::read_dir("/proc").ok()?.flatten();
        let children = folders.filter(|folder| parent(folder) == Some(process));
        let used = children.filter_map(|child| child.file_name().to_str()?.parse().ok().and_then(Self::of));
        let own = Self::of(process)?.plus(&Self::read(&format!("/proc/{process}/stat"), [16, 17])?);
        Some(used.fold(own, |sum, one| sum.plus(&one)))
    }

    /// Reads two fields of `stat` (proc(5)): 14 and 15 are of the process, 16 and 17 of its children that have ended.
    fn read(path: &str, fields: [usize; 2]) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        // The name, in brackets, may hold anything.
        let all: Vec<_> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let ticks = |field: usize| all.get(field - 3)?.parse::<f64>().ok();
        let second = rustix::param::clock_ticks_per_second() as f64;
        Some(Self { user_seconds: ticks(fields[0])? / second, system_seconds: ticks(fields[1])? / second })
    }

    /// User and system.
    pub fn seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Returns the sum of both times.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            user_seconds: self.user_seconds + other.user_seconds,
            system_seconds: self.system_seconds + other.system_seconds,
        }
    }

    /// Returns the CPU time used since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_seconds: self.user_seconds - earlier.user_seconds,
            system_seconds: self.system_seconds - earlier.system_seconds,
        }
    }
}

/// Returns the time in which the calling thread was ready and had no processor so far; seconds. 0 where the kernel does not say.
pub fn own_run_queue_wait_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Returns the time in which threads of this process, in all, were ready and had no processor; seconds (`/proc/PID/schedstat`).
pub fn run_queue_wait_seconds() -> Option<f64> {
    let waited = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse::<f64>().ok()
    };
    let threads: Vec<_> = fs::read_dir("/proc/self/task").ok()?.flatten().filter_map(waited).collect();
    (!threads.is_empty()).then(|| threads.iter().sum::<f64>() / 1e9)
}

/// The resources that a process holds at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// Since the start of the window.
    pub seconds: f64,
    /// Memory that it has in RAM.
    pub resident_bytes: u64,
    /// File descriptors.
    pub descriptors: u64,
    /// Threads; 0 in results of before.
    #[serde(default)]
    pub threads: u64,
}

impl Held {
    /// Returns the resources that a process holds now; none if it is not there, or is not ours to look at.
    pub fn by(process: u32, seconds: f64) -> Option<Self> {
        let pages = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
        let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
        let entries = |folder: &str| Some(fs::read_dir(format!("/proc/{process}/{folder}")).ok()?.count() as u64);
        let resident_bytes = pages * rustix::param::page_size() as u64;
        Some(Self { seconds, resident_bytes, descriptors: entries("fd")?, threads: entries("task")? })
    }
}

/// Looks at what a process holds, again and again, until it is told to stop.
#[derive(Debug)]
pub struct Watch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Held>>,
}

impl Watch {
    /// Looks once in each piece of time, from now on, which is at `from` seconds. What it sees is also kept at once, for a run that is cut off.
    pub fn start(process: u32, each: Duration, from: f64, mut keep: impl FnMut(&Held) + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let look = move || {
            let (begun, mut held) = (Instant::now(), Vec::new());
            while stopped.recv_timeout(each) == Err(RecvTimeoutError::Timeout) {
                let now = Held::by(process, from + begun.elapsed().as_secs_f64());
                now.iter().for_each(&mut keep);
                held.extend(now);
            }
            held
        };
        Self { stop, thread: std::thread::spawn(look) }
    }

    /// Stops, and returns the samples.
    pub fn stop(self) -> Vec<Held> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
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

    #[test]
    fn what_this_process_holds_is_seen() {
        let own = std::process::id();
        let before = Held::by(own, 0.0).unwrap();
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(Held::by(own, 0.0).unwrap().descriptors >= before.descriptors + 25, "others may close some meanwhile");
        assert!(before.resident_bytes > 100_000 && before.threads >= 1);
        let watch = Watch::start(own, Duration::from_millis(1), 0.0, |_| {});
        std::thread::sleep(Duration::from_millis(100));
        let seen = watch.stop();
        assert!(!seen.is_empty() && seen.is_sorted_by(|a, b| a.seconds < b.seconds));
        drop(files);
        assert_eq!(Held::by(u32::MAX, 0.0), None);
    }
}
