//! A prepared state with its workers, and the clock around them.
//!
//! Threads are spawned and meet at a barrier before the clock starts, so that only operations are timed. The clock of several
//! threads runs from the first start to the last end: a caller waits for the slowest.

use std::hint::black_box;
use std::ops::{Deref, Range};
use std::panic::resume_unwind;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use crate::facts::{Clock, Facts};
use crate::found::Found;

/// The subject of a row's measurement: an open store, a running server, or plain [`Data`].
pub trait State: Send + Sync {
    /// Waits until flushes and compactions are idle. Called outside every clock.
    fn settle(&self) {}

    /// Counters that only grow (flushes, compactions, bytes written); their growth within the timed part goes into the facts.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Counters of the work that the calling thread has done in the engine (keys compared, blocks read). They are read only around
    /// counted operations, which one thread does alone and nobody times.
    fn thread_counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// A workload is warm: what was noted so far does not count, and what goes on beside its operations begins.
    fn begin(&self) {}

    /// Returns the findings since [`State::begin`] beside the time. Called once, outside the clock, when the operations are over;
    /// what goes on beside them ends here.
    fn found(&self) -> Found {
        Found::default()
    }

    /// The life of this state ends after so many operations: panics if it does not hold what they must have left in it. Called once,
    /// outside every clock, when its workers are gone. It has to look at so much at most, whatever the operations: in a row that is
    /// counted, work that grows with them would count as theirs.
    fn verify(&self, _operations: u64) {}

    /// Sum of the CPU clocks of the server's threads; needed by rows whose clock is [`Clock::Cpu`].
    fn cpu(&self) -> Option<Duration> {
        None
    }
}

impl State for () {}

/// Plain data as a state: nothing runs in the background.
#[derive(Debug)]
pub struct Data<T>(pub T);

impl<T: Send + Sync> State for Data<T> {}

impl<T> Deref for Data<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// One state in its life: its workers, and how many operations it has served.
pub(crate) struct Live<S: State, W> {
    workers: Vec<W>,
    state: Arc<S>,
    /// The index of the next operation.
    served: u64,
    /// Operations that it has really served.
    done: u64,
}

impl<S: State, W> Drop for Live<S, W> {
    fn drop(&mut self) {
        // First the workers, which may look at what they did and hold what nobody else can open; the state is closed last.
        self.workers.clear();
        if !thread::panicking() {
            self.state.verify(self.done);
        }
    }
}

impl<S: State, W: FnMut(u64) -> u64 + Send> Live<S, W> {
    /// Takes a fresh state; makes one worker a thread.
    pub(crate) fn new(state: S, threads: usize, worker: impl Fn(Arc<S>) -> W) -> Self {
        let state = Arc::new(state);
        state.settle();
        Self { workers: (0..threads).map(|_| worker(state.clone())).collect(), state, served: 0, done: 0 }
    }

    /// Operations this state has served.
    pub(crate) fn served(&self) -> u64 {
        self.served
    }

    /// The next operation has this index.
    pub(crate) fn go_on_from(&mut self, index: u64) {
        self.served = index;
    }

    /// Leaves out so many operations: the next one has the index that it would have after them.
    pub(crate) fn pass_over(&mut self, operations: u64) {
        self.served += operations;
    }

    pub(crate) fn state(&self) -> &S {
        &self.state
    }

    /// Runs `operations` on all threads and returns what the row's clock says. Panics if they did not yield what they should.
    pub(crate) fn run(&mut self, operations: u64, facts: &Facts) -> Duration {
        let range = self.served..self.served + operations;
        let cpu_before = self.cpu(facts);
        let (wall, units) = match self.workers.as_mut_slice() {
            [only] => alone(only, range),
            several => together(several, range),
        };
        let cpu_after = self.cpu(facts);
        self.account(operations, units, facts);
        cpu_after.zip(cpu_before).map_or(wall, |(after, before)| after.saturating_sub(before))
    }

    /// The server's CPU clock, for rows that are timed by it.
    fn cpu(&self, facts: &Facts) -> Option<Duration> {
        let read = || self.state.cpu().expect("a row with Clock::Cpu needs a state that implements State::cpu");
        (facts.clock == Clock::Cpu).then(read)
    }

    /// Runs `operations` on the calling thread alone, but stops after `longest`. Returns how many it ran.
    pub(crate) fn run_alone(&mut self, operations: u64, longest: Duration, facts: &Facts) -> u64 {
        let (began, first) = (Instant::now(), self.served);
        while self.served - first < operations && began.elapsed() < longest {
            let units = (self.workers[0])(self.served);
            self.account(1, units, facts);
        }
        self.served - first
    }

    /// Faster must not mean found nothing.
    fn account(&mut self, operations: u64, units: u64, facts: &Facts) {
        let expected = operations * facts.units_per_operation;
        assert_eq!(units, expected, "units of {operations} operations ({}), left: found, right: expected", facts.op);
        self.served += operations;
        self.done += operations;
    }
}

/// The operations with the indexes of `range`, one after the other; returns the sum of their units.
///
/// Never inlined: by this frame a profiler tells the timed part from all around it. The call is one a turn.
#[inline(never)]
fn drive(worker: &mut impl FnMut(u64) -> u64, range: Range<u64>) -> u64 {
    let mut units = 0;
    for index in range {
        units += black_box(worker(black_box(index)));
    }
    units
}

fn alone(worker: &mut impl FnMut(u64) -> u64, range: Range<u64>) -> (Duration, u64) {
    let began = Instant::now();
    let units = drive(worker, range);
    (began.elapsed(), units)
}

fn together<W: FnMut(u64) -> u64 + Send>(workers: &mut [W], range: Range<u64>) -> (Duration, u64) {
    let barrier = Barrier::new(workers.len());
    let shares = shares(range, workers.len() as u64);
    let spans: Vec<(Instant, Instant, u64)> = thread::scope(|scope| {
        let start = |(worker, share)| {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                let began = Instant::now();
                let units = drive(worker, share);
                (began, Instant::now(), units)
            })
        };
        let threads: Vec<_> = workers.iter_mut().zip(shares).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let began = spans.iter().map(|span| span.0).min().expect("a row has at least one thread");
    let ended = spans.iter().map(|span| span.1).max().expect("a row has at least one thread");
    (ended - began, spans.iter().map(|span| span.2).sum())
}

/// Cuts `range` into `count` neighbouring parts that differ by at most one.
fn shares(range: Range<u64>, count: u64) -> impl Iterator<Item = Range<u64>> {
    let (least, rest) = ((range.end - range.start) / count, (range.end - range.start) % count);
    let start_of = move |part: u64| range.start + part * least + part.min(rest);
    (0..count).map(move |part| start_of(part)..start_of(part + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn threads_split_the_work_exactly() {
        for (operations, threads) in [(0, 3), (2, 8), (8, 8), (1000, 7), (5, 1)] {
            let facts = Facts::new("notes its index").threads(threads);
            let note = |state: Arc<Data<Mutex<Vec<u64>>>>| {
                move |index| {
                    state.lock().unwrap().push(index);
                    1
                }
            };
            let mut live = Live::new(Data(Mutex::new(Vec::new())), threads, note);
            live.run(operations, &facts);
            live.run(operations, &facts);
            let mut seen = live.state().lock().unwrap().clone();
            seen.sort_unstable();
            assert_eq!(seen, (0..2 * operations).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "left: found, right: expected")]
    fn a_worker_that_finds_nothing_is_caught() {
        let finds_little = |_| |index| u64::from(index != 77);
        Live::new((), 2, finds_little).run(100, &Facts::new("finds nearly all").threads(2));
    }

    #[test]
    #[should_panic(expected = "the engine said no")]
    fn the_panic_of_one_thread_ends_the_row() {
        let refuses = |_| |index| if index == 5 { panic!("the engine said no") } else { 1 };
        Live::new((), 4, refuses).run(16, &Facts::new("refuses one").threads(4));
    }

    #[test]
    fn a_state_is_looked_at_when_its_life_ends_after_its_workers() {
        struct Book {
            entries: Mutex<u64>,
            verified: Arc<Mutex<Vec<u64>>>,
        }
        impl State for Book {
            fn verify(&self, operations: u64) {
                assert_eq!(*self.entries.lock().unwrap(), operations, "entries, left, and operations, right");
                self.verified.lock().unwrap().push(operations);
            }
        }
        struct Writer(Arc<Book>, u64);
        impl Writer {
            fn note(&mut self, noted: bool) -> u64 {
                self.1 += u64::from(noted);
                1
            }
        }
        impl Drop for Writer {
            fn drop(&mut self) {
                *self.0.entries.lock().unwrap() += self.1;
            }
        }
        let run = |lost: u64, verified: &Arc<Mutex<Vec<u64>>>| {
            let book = Book { entries: Mutex::new(0), verified: Arc::clone(verified) };
            let mut live = Live::new(book, 2, |book| {
                let mut writer = Writer(book, 0);
                move |index| writer.note(index != lost)
            });
            live.run(10, &Facts::new("enters one").threads(2));
            live.go_on_from(1000);
            live.run(20, &Facts::new("enters one").threads(2));
        };
        let verified = Arc::default();
        run(u64::MAX, &verified);
        assert_eq!(*verified.lock().unwrap(), [30], "once, and what was done, not where the indexes stand");
        let loses_one = std::panic::AssertUnwindSafe(|| run(7, &verified));
        assert!(std::panic::catch_unwind(loses_one).is_err(), "an operation that has left nothing");
    }

    #[test]
    fn the_cpu_clock_is_the_states() {
        struct Server(Mutex<u64>);
        impl State for Server {
            fn cpu(&self) -> Option<Duration> {
                let mut millis = self.0.lock().unwrap();
                *millis += 7;
                Some(Duration::from_millis(*millis))
            }
        }
        let mut live = Live::new(Server(Mutex::new(0)), 1, |_| |_| 1);
        assert_eq!(live.run(10, &Facts::new("asks").cpu_clock()), Duration::from_millis(7));
    }
}
