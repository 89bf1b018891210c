//! Locks on keys: taking and releasing slots, waiting for them, giving up, querying them; against one bare lock of `parking_lot`.
//!
//! A Strata lock hashes its key to a slot first; the floor indexes its lock directly. Many keys are sorted, and each slot is taken once. In
//! the contention rows, eight threads take one key, read a record of 1 KB under it and release it; the waits are counted beside the figure,
//! and a bench without waits fails, because it measured something else. In the spread rows they take one of several keys, and seldom meet.
//! Each has a row with one thread as a baseline. Giving up is measured
//! without waiting, with a wait that times out at once (joining the queue and leaving it), and with one that sleeps. Work of a few
//! nanoseconds is done 64 times per operation, and `driver` is the same loop without it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use strata::locking::{Locks, Wait};
use strata_harness::data::{self, Id, scatter};
use strata_harness::{Data, Facts, Scale, State, Suite, Unit, suite};

fn main() {
    suite("locking", |suite| {
        one(suite);
        many(suite, 100);
        many(suite, 1000);
        for waiters in [1, 10, 100] {
            called_back(suite, waiters);
        }
        for keys in [1, 10, 100] {
            for threads in [1, 8] {
                contention(suite, keys, threads);
            }
        }
        timeout(suite);
        asked(suite);
    });
}

fn keys(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|key| u128::from(key * 7919).to_be_bytes()).collect()
}

fn one(suite: &mut Suite) {
    let facts = |op| Facts::new(op).data("1000 keys").state("in memory, no waiters").allocations_at_most(0);
    let about = facts("takes the lock of one key and releases it").floor("floor", 0.5, 0.8);
    suite.row(
        "lock_unlock",
        "strata",
        "1_key",
        about,
        || Data(Locks::default()),
        |locks: Arc<Data<Locks>>| {
            let keys = keys(1000);
            move |index| {
                let slot = locks.slot(1, &keys[(index % 1000) as usize]);
                u64::from(black_box(locks.lock(slot, Wait::No)).is_some())
            }
        },
    );
    let about = facts("takes one parking_lot::Mutex and releases it");
    let mutexes = || Data((0..4096).map(|_| parking_lot::Mutex::new(())).collect::<Vec<_>>());
    suite.row("lock_unlock", "floor", "1_key", about, mutexes, |mutexes: Arc<Data<Vec<parking_lot::Mutex<()>>>>| {
        move |index| u64::from(black_box(mutexes[(index % 1000) as usize].try_lock()).is_some())
    });
}

fn many(suite: &mut Suite, count: u64) {
    let facts = Facts::new(format!("takes the locks of {count} keys and releases them")).unit(Unit::Elements, count);
    let facts = facts.data(format!("{count} keys, 4096 slots")).state("in memory, no waiters");
    suite.row(
        "acquire",
        "strata",
        &format!("{count}_keys"),
        facts,
        || Data(Locks::default()),
        |locks: Arc<Data<Locks>>| {
            let (keys, mut slots) = (keys(count), Vec::new());
            move |_| {
                slots.clear();
                slots.extend(keys.iter().map(|key| locks.slot(1, key)));
                let guards = locks.lock_all(&mut slots, Wait::No);
                if black_box(&guards).is_some() { count } else { 0 }
            }
        },
    );
}

/// Locks whose waits are counted beside the figures.
struct Counted {
    locks: Locks,
    workers: AtomicUsize,
    operations: AtomicU64,
    /// True if waits are required, provided that several workers did enough operations.
    contended: bool,
}

impl Counted {
    fn new(contended: bool) -> Self {
        Self { locks: Locks::default(), workers: AtomicUsize::new(0), operations: AtomicU64::new(0), contended }
    }
}

impl State for Counted {
    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("waits", self.locks.waits())]
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let (workers, operations) = (*self.workers.get_mut(), *self.operations.get_mut());
        let contended = self.contended && workers > 1 && operations >= 100_000 && !std::thread::panicking();
        assert!(
            !contended || self.locks.waits() > 0,
            "{workers} threads took locks {operations} times and never waited"
        );
    }
}

/// The operations of one worker, added to the state at the end.
struct Share {
    state: Arc<Counted>,
    operations: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.state.operations.fetch_add(self.operations, Ordering::Relaxed);
    }
}

/// Holds one key while callbacks wait, and releases it.
fn called_back(suite: &mut Suite, waiters: u64) {
    let facts = Facts::new(format!("holds one key while {waiters} wait to be called, releases it and calls all"))
        .unit(Unit::Elements, waiters)
        .data(format!("1 key, {waiters} waiters"))
        .state("in memory");
    suite.row(
        "waiters",
        "strata",
        &waiters.to_string(),
        facts,
        || Counted::new(false),
        |state: Arc<Counted>| {
            let calls = Arc::new(AtomicU64::new(0));
            move |_| {
                let slot = state.locks.slot(1, b"key");
                let before = calls.load(Ordering::Relaxed);
                let guard = state.locks.lock(slot, Wait::No).expect("nobody else takes it");
                for _ in 0..waiters {
                    let calls = Arc::clone(&calls);
                    state.locks.when_released(slot, move || {
                        calls.fetch_add(1, Ordering::Relaxed);
                    });
                }
                let early = calls.load(Ordering::Relaxed) - before;
                drop(guard);
                calls.load(Ordering::Relaxed) - before - early
            }
        },
    );
}

/// Threads take the same key (`contention`), or one of several (`spread`): then they seldom meet, and most operations wait for nobody.
fn contention(suite: &mut Suite, count: u64, threads: usize) {
    let plural = |count: u64, word: &str| format!("{count}_{word}{}", if count == 1 { "" } else { "s" });
    let case = format!("{}_{}", plural(count, "key"), plural(threads as u64, "thread"));
    let (operation, what) =
        if count == 1 { ("contention", "takes a key") } else { ("spread", "takes one of the keys") };
    let facts = Facts::new(format!("{what}, waiting for it, reads a record of 1 KB under it and releases it"))
        .threads(threads)
        .data(plural(count, "key").replace('_', " "))
        .state("in memory; waits are counted");
    let contended = suite.scale() == Scale::Full && count == 1;
    suite.row(
        operation,
        "strata",
        &case,
        facts,
        || Counted::new(contended),
        |state: Arc<Counted>| {
            state.workers.fetch_add(1, Ordering::Relaxed);
            let (keys, record) = (keys(count), data::product(7, Id::Given));
            let sum = |record: &[u8]| record.iter().copied().map(u64::from).sum::<u64>();
            let expected = sum(&record);
            let mut share = Share { state, operations: 0 };
            move |index| {
                share.operations += 1;
                let locks = &share.state.locks;
                let slot = locks.slot(1, &keys[scatter(index, count) as usize]);
                let _guard = locks.lock(slot, Wait::AtMost(Duration::from_secs(10))).expect("nobody keeps it");
                u64::from(sum(black_box(&record)) == expected)
            }
        },
    );
}

/// Gives up waiting for a held key.
fn timeout(suite: &mut Suite) {
    for (case, what, wait) in [
        ("not_waiting", "fails to take a held key", Wait::No),
        ("at_once", "joins the queue of a held key and times out at once", Wait::AtMost(Duration::ZERO)),
        ("after_100_us", "waits 100 us for a held key and gives up", Wait::AtMost(Duration::from_micros(100))),
    ] {
        let at_once = if wait == Wait::No { AT_ONCE } else { 1 };
        let op = if at_once > 1 { format!("{at_once} times: {what}") } else { what.to_owned() };
        let facts = Facts::new(op).unit(Unit::Operations, at_once).data("1 key, held").state("in memory");
        let facts = if wait == Wait::No { facts.against("timeout/driver/not_waiting") } else { facts };
        let setup = || Counted::new(false);
        suite.row("timeout", "strata", case, facts, setup, move |state: Arc<Counted>| {
            let slot = state.locks.slot(1, b"key");
            state.locks.lock(slot, Wait::No).map(std::mem::forget).expect("nobody else takes it");
            let refused = move || black_box(state.locks.lock(black_box(slot), wait)).is_none();
            move |_| (0..at_once).map(|_| u64::from(refused())).sum()
        });
    }
    let facts = Facts::new(format!("{AT_ONCE} times: does nothing: the cost of the loop"));
    let facts = facts.unit(Unit::Operations, AT_ONCE).data("no key").state("in memory");
    suite.row(
        "timeout",
        "driver",
        "not_waiting",
        facts,
        || (),
        |_: Arc<()>| move |_| (0..AT_ONCE).map(|number| u64::from(black_box(number) < AT_ONCE)).sum(),
    );
}

/// The number of times that an operation repeats work so short that the loop around it would dominate.
const AT_ONCE: u64 = 64;

/// Measures the questions whether a key is held, and how many are.
fn asked(suite: &mut Suite) {
    let facts = |op: &str| Facts::new(op).state("in memory, every second of 1000 keys held").allocations_at_most(0);
    let keep_half = |locks: &Locks| {
        let mut slots: Vec<_> = keys(1000).iter().step_by(2).map(|key| locks.slot(1, key)).collect();
        std::mem::forget(locks.lock_all(&mut slots, Wait::No).expect("nobody else takes them"));
        slots
    };
    let places = |index: u64| (index * AT_ONCE..(index + 1) * AT_ONCE).map(|number| (number % 1000) as usize);
    let often = |op: &str| facts(&format!("{AT_ONCE} times: {op}")).unit(Unit::Operations, AT_ONCE);
    let about = often("checks whether one key is held").data("1000 keys, 4096 slots");
    let about = about.against("is_locked/driver/1_key");
    suite.row(
        "is_locked",
        "strata",
        "1_key",
        about,
        || Data(Locks::default()),
        |locks: Arc<Data<Locks>>| {
            let held = keep_half(&locks);
            let asked: Vec<_> = keys(1000).iter().map(|key| locks.slot(1, key)).collect();
            let answers: Vec<_> = asked.iter().map(|slot| held.contains(slot)).collect();
            move |index| places(index).map(|place| u64::from(locks.is_locked(asked[place]) == answers[place])).sum()
        },
    );
    let about = often("compares a precomputed answer: the cost of the loop").data("1000 keys, 4096 slots");
    suite.row(
        "is_locked",
        "driver",
        "1_key",
        about,
        || Data(Locks::default()),
        |locks: Arc<Data<Locks>>| {
            let held = keep_half(&locks);
            let asked: Vec<_> = keys(1000).iter().map(|key| locks.slot(1, key)).collect();
            let answers: Vec<_> = asked.iter().map(|slot| held.contains(slot)).collect();
            let same = move |place: usize| {
                black_box(asked[place]) == asked[place] && black_box(answers[place]) == answers[place]
            };
            move |index| places(index).map(|place| u64::from(same(place))).sum()
        },
    );
    let about = facts("counts the held slots").data("4096 slots").unit(Unit::Elements, 4096);
    suite.row(
        "held",
        "strata",
        "4096_slots",
        about,
        || Data(Locks::default()),
        |locks: Arc<Data<Locks>>| {
            let held = keep_half(&locks).len();
            move |_| if locks.held() == held { 4096 } else { 0 }
        },
    );
}
