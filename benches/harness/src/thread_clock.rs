//! CPU time of the threads of this process that have certain names, from Linux's account of each (proc(5)).

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a thread's name that the kernel keeps.
const KEPT_BYTES: usize = 15;

/// A clock that goes while threads with certain names work: the sum of what each has used from one reading to the next.
///
/// A thread that is new since the last reading counts from its beginning. One that has ended keeps what was read of it, and what it did
/// after that is lost. A pool ends a thread that had nothing to do for seconds (tokio: 10 s), and a turn is shorter: such a thread has
/// done nothing in the turn in which it ends.
#[derive(Debug)]
pub struct ThreadClock {
    names: &'static [&'static str],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    was_read: bool,
    sum: Duration,
    /// What was last read of each thread, by its id.
    threads: HashMap<OsString, Duration>,
}

impl ThreadClock {
    /// A clock of the threads whose names begin with one of these; the first 15 bytes decide.
    pub fn of(names: &'static [&'static str]) -> Self {
        Self { names, state: Mutex::default() }
    }

    /// The time until now, of which differences count: exact for threads that sleep, up to a tick (4 ms) behind for those that run.
    ///
    /// # Panics
    /// If no thread has such a name: what is never found must not pass for idle. The first reading may come too early, since a thread has
    /// its name only once it runs.
    pub fn read(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.threads();
        assert!(!state.was_read || !now.is_empty(), "no thread has a name that begins with one of {:?}", self.names);
        for (id, used) in &now {
            let before = state.threads.get(id).copied().unwrap_or_default();
            state.sum += used.saturating_sub(before);
        }
        (state.was_read, state.threads) = (true, now);
        state.sum
    }

    /// The CPU time of each of the threads that live. One that ends meanwhile is left out.
    fn threads(&self) -> HashMap<OsString, Duration> {
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let named = threads.filter(|thread| self.counts(&thread.path()));
        named.filter_map(|thread| Some((thread.file_name(), used(&thread.path())?))).collect()
    }

    fn counts(&self, thread: &Path) -> bool {
        let name = fs::read(thread.join("comm")).unwrap_or_default();
        self.names.iter().any(|wanted| name.starts_with(&wanted.as_bytes()[..wanted.len().min(KEPT_BYTES)]))
    }
}

/// The CPU time of a thread: the first field of its `schedstat`, in nanoseconds.
fn used(thread: &Path) -> Option<Duration> {
    let account = fs::read_to_string(thread.join("schedstat")).ok()?;
    account.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread::{Builder, JoinHandle};

    /// A thread that has used so much CPU time, and ends when it is told.
    struct Worked {
        end: mpsc::Sender<()>,
        thread: JoinHandle<()>,
    }

    impl Worked {
        fn start(name: &str, millis: u64) -> Self {
            let (end, ended) = mpsc::channel();
            let (done, worked) = mpsc::channel();
            let work = move || {
                while used(Path::new("/proc/thread-self")).unwrap() < Duration::from_millis(millis) {}
                done.send(()).unwrap();
                let _ = ended.recv();
            };
            let thread = Builder::new().name(name.to_owned()).spawn(work).unwrap();
            worked.recv().unwrap();
            Self { end, thread }
        }

        fn end(self) {
            drop(self.end);
            self.thread.join().unwrap();
        }
    }

    #[test]
    fn threads_count_by_their_names() {
        let clock = ThreadClock::of(&["counted-by-its-name", "known-"]);
        let threads = [("counted-by-its-name-1", 20), ("known-1", 20), ("unknown-1", 200), ("counted-by-it", 200)];
        let threads = threads.map(|(name, millis)| Worked::start(name, millis));
        let used = clock.read();
        assert!((40..200).contains(&used.as_millis()), "{used:?}");
        threads.into_iter().for_each(Worked::end);
    }

    #[test]
    fn threads_come_and_go_between_readings() {
        let clock = ThreadClock::of(&["passing-"]);
        let first = Worked::start("passing-1", 200);
        let before = clock.read();
        let second = Worked::start("passing-2", 20);
        let used_by_second = clock.read() - before;
        first.end();
        for used in [used_by_second, clock.read() - before] {
            assert!((20..200).contains(&used.as_millis()), "{used:?}");
        }
        second.end();
    }

    #[test]
    #[should_panic(expected = "no thread has a name that begins with one of [\"nobody\"]")]
    fn a_name_that_nobody_has_is_caught() {
        let clock = ThreadClock::of(&["nobody"]);
        assert_eq!(clock.read(), Duration::ZERO, "somebody may be about to begin");
        clock.read();
    }
}
