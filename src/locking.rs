//! Locks on keys: a fixed array of lock slots, indexed by the hash of (table, key).
//!
//! Taking a lock allocates nothing. Two keys may share a slot, so a lock may exclude more than its key, but never less. Readers take none.
//! Many locks are taken in slot order, each slot once (a thousand keys in 4096 slots collide about 110 times), so that no two transactions
//! deadlock.
//!
//! A slot is one byte with two bits: held, and wanted by a waiter. Releasing is one compare-exchange of the byte, which fails if the slot
//! is wanted, so no waiter can be missed and the uncontended case needs no extra check. A lock of `parking_lot` has the same two bits, but
//! the second covers only its own waiters: a separate flag for callbacks would have to be read after the release, behind a fence as
//! expensive as the lock. So the byte is managed here, and `parking_lot` protects the queues.
//!
//! Waiting threads are woken one per release, in arrival order. Callbacks only need to know of the release and do not take the lock, so all
//! of them are called.
//!
//! Each release wakes one thread and not all, since only one can take the slot; a thread that has waited for a millisecond is handed it
//! (`waiting`), so that none starves. A wait has one deadline for all its slots.
//!
//! Non-goals: storage, and the meaning of keys.

mod waiting;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use smallvec::SmallVec;
use twox_hash::XxHash3_64;

use waiting::{Queue, Waiter, Wakeup};

/// How long to wait for a lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Do not wait.
    No,
    /// At most this long, for all slots together.
    AtMost(Duration),
}

/// The lock slot of a key; different keys may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

impl Slot {
    fn word(self) -> usize {
        self.0 as usize / 64
    }

    fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

/// A held slot; dropping the guard releases it.
#[must_use = "a guard that is dropped holds nothing"]
pub struct Guard<'a> {
    locks: &'a Locks,
    slot: Slot,
}

/// Several held slots, each once.
#[derive(Default)]
#[must_use = "guards that are dropped hold nothing"]
pub struct Guards<'a> {
    all: SmallVec<[Guard<'a>; 4]>,
    /// A bit for each slot of the array; used with more than [`FEW`] guards.
    set: Vec<u64>,
}

/// Up to this number, guards are searched linearly.
const FEW: usize = 32;

/// The locks of a store.
pub struct Locks {
    /// `FREE`, or `HELD`, `WANTED` or both.
    slots: Box<[AtomicU8]>,
    /// The queues of the wanted slots only, partitioned by slot number.
    queues: [Mutex<HashMap<Slot, Queue>>; QUEUES],
    waits: AtomicU64,
}

const FREE: u8 = 0;
/// The slot is held.
const HELD: u8 = 1;
/// The queue of the slot is not empty. Set and cleared under the lock of the queue.
const WANTED: u8 = 2;

/// Number of queue partitions, so that waiters for different slots seldom contend.
const QUEUES: usize = 16;

impl Default for Locks {
    fn default() -> Self {
        Self::new(12)
    }
}

impl Locks {
    /// Creates 2^`bits` slots.
    ///
    /// # Panics
    /// If `bits` is above 31.
    pub fn new(bits: u32) -> Self {
        assert!(bits < 32, "slots are numbered in 32 bits");
        Self {
            slots: (0..1u32 << bits).map(|_| AtomicU8::new(FREE)).collect(),
            queues: Default::default(),
            waits: AtomicU64::new(0),
        }
    }

    /// Returns the slot of a key of a table.
    pub fn slot(&self, table: u32, key: &[u8]) -> Slot {
        let hash = XxHash3_64::oneshot_with_seed(u64::from(table), key);
        Slot(hash as u32 & (self.slots.len() as u32 - 1))
    }

    /// Takes one slot; `None` on timeout.
    pub fn lock(&self, slot: Slot, wait: Wait) -> Option<Guard<'_>> {
        match wait {
            _ if self.take(slot) => Some(Guard { locks: self, slot }),
            Wait::No => None,
            Wait::AtMost(time) => self.wait_for(slot, time),
        }
    }

    /// Takes many slots in order, each once; `None`, holding nothing, on timeout.
    pub fn lock_all(&self, slots: &mut Vec<Slot>, wait: Wait) -> Option<Guards<'_>> {
        slots.sort_unstable();
        slots.dedup();
        self.lock_in_order(slots.iter().copied(), wait)
    }

    /// Takes all slots: no other guard exists until these are dropped.
    pub fn lock_every(&self, wait: Wait) -> Option<Guards<'_>> {
        self.lock_in_order((0..self.slots.len() as u32).map(Slot), wait)
    }

    fn lock_in_order(&self, slots: impl Iterator<Item = Slot>, wait: Wait) -> Option<Guards<'_>> {
        let (mut guards, mut waiting_since) = (Guards::default(), None);
        for slot in slots {
            let guard = match (self.lock(slot, Wait::No), wait) {
                (None, Wait::AtMost(time)) => {
                    let since = *waiting_since.get_or_insert_with(Instant::now);
                    self.lock(slot, Wait::AtMost(time.saturating_sub(since.elapsed())))
                }
                (guard, _) => guard,
            };
            guards.push(guard?);
        }
        Some(guards)
    }

    /// Calls back once the slot has been released: immediately if it is free, otherwise on the thread that releases it, after the release.
    /// The slot may be held again by then. The callback must neither block nor panic.
    pub fn when_released(&self, slot: Slot, callback: impl FnOnce() + Send + 'static) {
        match self.queue_of_held(slot) {
            Some(mut queue) => queue.callbacks.push(Box::new(callback)),
            None => callback(),
        }
    }

    /// Returns whether the slot is currently held.
    pub fn is_locked(&self, slot: Slot) -> bool {
        self.word(slot).load(Ordering::Relaxed) & HELD != 0
    }

    /// Returns the number of slots currently held.
    pub fn held(&self) -> usize {
        self.slots.iter().filter(|word| word.load(Ordering::Relaxed) & HELD != 0).count()
    }

    /// Returns the current number of waiters, threads and callbacks.
    pub fn waiting(&self) -> usize {
        self.queues.iter().map(|queues| queues.lock().values().map(Queue::len).sum::<usize>()).sum()
    }

    /// Returns how many times a waiter was queued.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    #[inline]
    fn word(&self, slot: Slot) -> &AtomicU8 {
        &self.slots[slot.0 as usize]
    }

    fn queues(&self, slot: Slot) -> MutexGuard<'_, HashMap<Slot, Queue>> {
        self.queues[slot.0 as usize % QUEUES].lock()
    }

    /// Takes a slot if it is free, wanted or not.
    fn take(&self, slot: Slot) -> bool {
        let held = |word| (word & HELD == 0).then_some(word | HELD);
        self.word(slot).fetch_update(Ordering::Acquire, Ordering::Relaxed, held).is_ok()
    }

    /// Returns the queue of a slot, for a new waiter; `None` if the slot is free.
    ///
    /// The slot is checked to be held and marked as wanted in one step, so its holder cannot release it without looking at the queue.
    fn queue_of_held(&self, slot: Slot) -> Option<MappedMutexGuard<'_, Queue>> {
        let queues = self.queues(slot);
        let wanted = |word| (word & HELD != 0).then_some(word | WANTED);
        self.word(slot).fetch_update(Ordering::Relaxed, Ordering::Acquire, wanted).ok()?;
        self.waits.fetch_add(1, Ordering::Relaxed);
        Some(MutexGuard::map(queues, |queues| queues.entry(slot).or_default()))
    }

    #[cold]
    fn wait_for(&self, slot: Slot, time: Duration) -> Option<Guard<'_>> {
        let (waiter, mut was_called) = (Arc::new(Waiter::new(time)), false);
        loop {
            let call = match self.queue_of_held(slot) {
                None => Some(Wakeup::Free),
                Some(mut queue) => {
                    // A waiter that was woken but lost the race for the slot goes back to the front.
                    match was_called {
                        true => queue.waiters.push_front(Arc::clone(&waiter)),
                        false => queue.waiters.push_back(Arc::clone(&waiter)),
                    }
                    drop(queue);
                    was_called = true;
                    waiter.wait().or_else(|| self.leave(slot, &waiter))
                }
            };
            match call? {
                Wakeup::Yours => return Some(Guard { locks: self, slot }),
                Wakeup::Free if self.take(slot) => return Some(Guard { locks: self, slot }),
                Wakeup::Free if waiter.is_over() => return None,
                Wakeup::Free => {}
            }
        }
    }

    /// Ends a wait on timeout. If the waiter was called meanwhile, no other was, so it must handle the call.
    fn leave(&self, slot: Slot, waiter: &Arc<Waiter>) -> Option<Wakeup> {
        let mut queues = self.queues(slot);
        if let Some(call) = waiter.take_wakeup() {
            return Some(call);
        }
        let queue = queues.get_mut(&slot).expect("who was not called is still in the queue");
        queue.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        if queue.len() == 0 {
            queues.remove(&slot);
            self.word(slot).fetch_and(!WANTED, Ordering::Relaxed);
        }
        None
    }

    #[inline]
    fn release(&self, slot: Slot) {
        if self.word(slot).compare_exchange(HELD, FREE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_and_call(slot);
        }
    }

    /// Releases a wanted slot, or hands it to the first waiter.
    #[cold]
    fn release_and_call(&self, slot: Slot) {
        let mut queues = self.queues(slot);
        // The last waiter may have left since.
        let mut queue = queues.remove(&slot).unwrap_or_default();
        let callbacks = std::mem::take(&mut queue.callbacks);
        let next = queue.waiters.pop_front();
        let call = if next.as_ref().is_some_and(|waiter| waiter.is_overdue()) { Wakeup::Yours } else { Wakeup::Free };
        let mut word = if call == Wakeup::Yours { HELD } else { FREE };
        if !queue.waiters.is_empty() {
            word |= WANTED;
            queues.insert(slot, queue);
        }
        // Nothing else changes the byte now: takers need it to be free, and waiters need the lock of the queues.
        self.word(slot).store(word, Ordering::Release);
        if let Some(waiter) = &next {
            waiter.call(call);
        }
        drop(queues);
        if let Some(waiter) = next {
            waiter.wake();
        }
        for callback in callbacks {
            callback();
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.locks.release(self.slot);
    }
}

impl<'a> Guards<'a> {
    /// Returns whether the slot is among them.
    pub fn contains(&self, slot: Slot) -> bool {
        match self.set.is_empty() {
            true => self.all.iter().any(|guard| guard.slot == slot),
            false => self.set[slot.word()] & slot.bit() != 0,
        }
    }

    /// Adds a guard taken without waiting, which cannot deadlock in any order.
    pub fn push(&mut self, guard: Guard<'a>) {
        if self.all.len() >= FEW {
            self.note(&guard);
        }
        self.all.push(guard);
    }

    /// Adds a guard to the bit set.
    #[cold]
    fn note(&mut self, guard: &Guard<'_>) {
        if self.set.is_empty() {
            self.set.resize(guard.locks.slots.len().div_ceil(64), 0);
            self.all.iter().for_each(|guard| self.set[guard.slot.word()] |= guard.slot.bit());
        }
        self.set[guard.slot.word()] |= guard.slot.bit();
    }

    /// Returns the held slots.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.all.iter().map(|guard| guard.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    const LONG: Wait = Wait::AtMost(Duration::from_secs(60));

    fn until(mut true_at_last: impl FnMut() -> bool) {
        while !true_at_last() {
            thread::yield_now();
        }
    }

    /// No slot is held or wanted.
    fn all_quiet(locks: &Locks) -> bool {
        locks.slots.iter().all(|word| word.load(Ordering::SeqCst) == FREE)
            && locks.queues.iter().all(|queues| queues.lock().is_empty())
    }

    #[test]
    fn a_slot_is_held_until_its_guard_is_dropped() {
        let locks = Locks::default();
        let slot = locks.slot(1, b"a");
        let guard = locks.lock(slot, Wait::No).unwrap();
        assert!(locks.is_locked(slot) && locks.held() == 1);
        assert!(locks.lock(slot, Wait::No).is_none());
        assert!(locks.lock(slot, Wait::AtMost(Duration::from_millis(1))).is_none());
        drop(guard);
        assert!(!locks.is_locked(slot) && locks.lock(slot, Wait::No).is_some());
    }

    #[test]
    fn a_thousand_keys_are_taken_each_slot_once() {
        let locks = Locks::default();
        let mut slots: Vec<_> = (0..1000u32).map(|key| locks.slot(1, &key.to_be_bytes())).collect();
        let guards = locks.lock_all(&mut slots, Wait::No).unwrap();
        assert!(slots.len() < 1000 && locks.held() == slots.len());
        drop(guards);
        assert_eq!(locks.held(), 0);
    }

    #[test]
    fn many_guards_know_which_slots_they_are() {
        let locks = Locks::default();
        let mut guards = Guards::default();
        for number in (0..200).rev() {
            assert!(!guards.contains(Slot(number)));
            guards.push(locks.lock(Slot(number), Wait::No).unwrap());
            assert!(guards.contains(Slot(number)) && !guards.contains(Slot(200)));
        }
        assert!((0..200).all(|number| guards.contains(Slot(number))));
        assert_eq!(guards.slots().count(), 200);
    }

    #[test]
    fn every_slot_is_held_at_once() {
        let locks = Locks::new(8);
        let one = locks.lock(Slot(77), Wait::No).unwrap();
        assert!(locks.lock_every(Wait::No).is_none());
        assert_eq!(locks.held(), 1);
        drop(one);
        let all = locks.lock_every(Wait::No).unwrap();
        assert_eq!(locks.held(), 256);
        drop(all);
        assert!(all_quiet(&locks));
    }

    /// Each slot is released half a timeout after it is waited for: with one deadline per slot, all would be taken.
    #[test]
    fn many_slots_have_one_deadline() {
        let locks = Locks::default();
        let held: Vec<_> = (0..20).map(|number| locks.lock(Slot(number), Wait::No).unwrap()).collect();
        let (timeout, is_over) = (Duration::from_millis(60), AtomicU8::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                for guard in held {
                    until(|| locks.waiting() == 1 || is_over.load(Ordering::SeqCst) == 1);
                    thread::sleep(timeout / 2);
                    drop(guard);
                }
            });
            let mut slots = (0..20).map(Slot).collect();
            assert!(locks.lock_all(&mut slots, Wait::AtMost(timeout)).is_none());
            is_over.store(1, Ordering::SeqCst);
        });
        assert!(all_quiet(&locks));
    }

    #[test]
    fn nothing_is_held_after_a_refusal() {
        let locks = Locks::default();
        let taken = locks.lock(locks.slot(1, b"b"), Wait::No).unwrap();
        let mut slots = vec![locks.slot(1, b"a"), locks.slot(1, b"b"), locks.slot(1, b"c")];
        assert!(locks.lock_all(&mut slots, Wait::No).is_none());
        drop(taken);
        assert_eq!(locks.held(), 0);
    }

    #[test]
    fn opposite_orders_do_not_dead_lock() {
        let locks = Locks::new(2);
        std::thread::scope(|scope| {
            for forward in [true, false] {
                let locks = &locks;
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let mut slots: Vec<_> = (0..8u32).map(|key| locks.slot(1, &key.to_be_bytes())).collect();
                        if !forward {
                            slots.reverse();
                        }
                        assert!(locks.lock_all(&mut slots, Wait::AtMost(Duration::from_secs(60))).is_some());
                    }
                });
            }
        });
    }

    #[test]
    fn callbacks_come_when_the_slot_is_released() {
        let locks = Locks::default();
        let slot = locks.slot(1, b"a");
        let (called, calls) = mpsc::channel();
        let call = |number| {
            let called = called.clone();
            move || called.send(number).unwrap()
        };
        locks.when_released(slot, call(1));
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), [1], "it was free");
        let guard = locks.lock(slot, Wait::No).unwrap();
        locks.when_released(slot, call(2));
        locks.when_released(slot, call(3));
        assert_eq!((calls.try_iter().count(), locks.waiting(), locks.waits()), (0, 2, 2));
        drop(guard);
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), [2, 3]);
        drop(locks.lock(slot, Wait::No));
        assert!(calls.try_iter().next().is_none() && all_quiet(&locks), "called once");
    }

    #[test]
    fn a_callback_may_take_the_slot() {
        let locks = Arc::new(Locks::default());
        let slot = locks.slot(1, b"a");
        let guard = locks.lock(slot, Wait::No).unwrap();
        let (taken, outcome) = mpsc::channel();
        let again = Arc::clone(&locks);
        locks.when_released(slot, move || taken.send(again.lock(slot, Wait::No).is_some()).unwrap());
        drop(guard);
        assert!(outcome.recv().unwrap() && all_quiet(&locks));
    }

    #[test]
    fn a_wait_that_is_over_leaves_nothing_behind() {
        let locks = Locks::default();
        let slot = locks.slot(1, b"a");
        let guard = locks.lock(slot, Wait::No).unwrap();
        for time in [Duration::ZERO, Duration::from_micros(100)] {
            assert!(locks.lock(slot, Wait::AtMost(time)).is_none());
            assert_eq!(locks.waiting(), 0);
        }
        assert_eq!((locks.waits(), locks.word(slot).load(Ordering::SeqCst)), (2, HELD));
        drop(guard);
        assert!(locks.lock(slot, Wait::AtMost(Duration::ZERO)).is_some());
        assert!(all_quiet(&locks));
    }

    #[test]
    fn who_is_called_as_the_wait_ends_hears_it() {
        let locks = Locks::default();
        let slot = locks.slot(1, b"a");
        let wait = || {
            let waiter = Arc::new(Waiter::new(Duration::ZERO));
            locks.queue_of_held(slot).unwrap().waiters.push_back(Arc::clone(&waiter));
            waiter
        };
        let guard = locks.lock(slot, Wait::No).unwrap();
        let (called, left) = (wait(), wait());
        drop(guard);
        assert_eq!(locks.leave(slot, &called), Some(Wakeup::Free), "nobody else was called");
        assert_eq!(locks.leave(slot, &left), None);
        assert!(all_quiet(&locks));
    }

    #[test]
    fn a_wait_without_end_ends_with_the_lock() {
        let locks = Arc::new(Locks::default());
        let slot = locks.slot(1, b"a");
        let guard = locks.lock(slot, Wait::No).unwrap();
        let (waiting, (taken, outcome)) = (Arc::clone(&locks), mpsc::channel());
        thread::spawn(move || taken.send(waiting.lock(slot, Wait::AtMost(Duration::MAX)).is_some()).unwrap());
        until(|| locks.waiting() == 1);
        drop(guard);
        assert!(outcome.recv_timeout(Duration::from_secs(60)).unwrap());
    }

    #[test]
    fn who_has_waited_for_long_is_handed_the_slot() {
        let locks = Locks::default();
        let slot = locks.slot(1, b"a");
        let guard = locks.lock(slot, Wait::No).unwrap();
        let (enough, wait) = mpsc::channel();
        thread::scope(|scope| {
            let locks = &locks;
            let waiter = scope.spawn(move || {
                let _guard = locks.lock(slot, LONG).unwrap();
                wait.recv().unwrap();
            });
            until(|| locks.waiting() == 1);
            thread::sleep(Duration::from_millis(2));
            drop(guard);
            assert!(locks.is_locked(slot) && locks.lock(slot, Wait::No).is_none());
            enough.send(()).unwrap();
            waiter.join().unwrap();
        });
        assert!(all_quiet(&locks));
    }

    /// Eight threads contend for two slots. Some have short timeouts, so that waits end just as they are woken. All others must succeed: a
    /// lost wake-up would leave one of them waiting for a minute.
    #[test]
    fn no_wake_up_is_lost_and_no_slot_is_held_twice() {
        let locks = Locks::new(1);
        let inside = [const { AtomicU64::new(0) }; 2];
        let entered = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..8u64 {
                let (locks, inside, entered) = (&locks, &inside, &entered);
                scope.spawn(move || {
                    for round in 0..3000 {
                        let slot = Slot((round % 2) as u32);
                        let hasty = number % 2 == 0 && round % 3 > 0;
                        let wait = if hasty { Wait::AtMost(Duration::from_micros(round % 50)) } else { LONG };
                        let Some(_guard) = locks.lock(slot, wait) else {
                            assert!(hasty, "a wake-up was lost");
                            continue;
                        };
                        assert_eq!(inside[slot.0 as usize].fetch_add(1, Ordering::Relaxed), 0, "held twice");
                        if round % 5 == 0 {
                            thread::yield_now();
                        }
                        inside[slot.0 as usize].fetch_sub(1, Ordering::Relaxed);
                        entered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(entered.into_inner() >= 4 * 3000 && locks.waits() > 0);
        assert!(all_quiet(&locks));
    }

    #[test]
    fn each_callback_is_called_once_whoever_comes_between() {
        let locks = Locks::new(0);
        let (slot, calls) = (Slot(0), Arc::new(AtomicU64::new(0)));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        drop(locks.lock(slot, LONG));
                    }
                });
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let calls = Arc::clone(&calls);
                        locks.when_released(slot, move || {
                            calls.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(calls.load(Ordering::Relaxed), 40_000);
        assert!(all_quiet(&locks));
    }
}
