//! CPU time of a set of threads, from Linux's account of each (`/proc/self/task/ID/schedstat`, first field: ns on a CPU).

use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;

/// The threads whose CPU time is counted.
#[derive(Default)]
pub(super) struct Clocks(Mutex<State>);

#[derive(Default)]
struct State {
    /// The account of each live thread.
    accounts: Vec<PathBuf>,
    /// The CPU time of threads that have ended.
    ended: Duration,
}

impl Clocks {
    /// Counts the calling thread from now on.
    pub(super) fn enter(&self) {
        self.0.lock().accounts.extend(own_account());
    }

    /// Adds the CPU time of the calling thread, which is about to end.
    pub(super) fn leave(&self) {
        let Some(own) = own_account() else { return };
        let mut state = self.0.lock();
        state.ended += read(&own);
        state.accounts.retain(|account| *account != own);
    }

    pub(super) fn sum(&self) -> Duration {
        let state = self.0.lock();
        state.accounts.iter().map(read).sum::<Duration>() + state.ended
    }
}

fn own_account() -> Option<PathBuf> {
    let task = std::fs::read_link("/proc/thread-self").ok()?;
    Some(PathBuf::from("/proc").join(task).join("schedstat"))
}

fn read(account: &PathBuf) -> Duration {
    let text = std::fs::read_to_string(account).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    #[cfg(target_os = "linux")]
    fn work_is_counted_and_kept_after_the_end() {
        let clocks = Arc::new(Clocks::default());
        let counted = Arc::clone(&clocks);
        let thread = std::thread::spawn(move || {
            counted.enter();
            let begun = std::time::Instant::now();
            let mut sum = 0u64;
            while counted.sum() < Duration::from_millis(20) && begun.elapsed() < Duration::from_secs(60) {
                sum = std::hint::black_box(sum + 1);
            }
            counted.leave();
        });
        thread.join().unwrap();
        assert!(clocks.sum() >= Duration::from_millis(20), "{:?}", clocks.sum());
    }
}
