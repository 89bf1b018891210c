//! Who holds which key: a fixed array of locks over the hashes of (table, key).
//!
//! Taking a lock allocates nothing and forgets nothing: two keys may share a slot, so a lock may be held for a neighbour, never
//! the other way round. Readers take none. Many keys are taken in the order of their slots, each slot once (a thousand keys in
//! 4096 slots meet each other about 110 times), so that no two transactions wait for each other.
//!
//! Non-goals: storage, and what a key means.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use twox_hash::XxHash3_64;

/// How long to wait for a lock that another holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// At most so long for each slot.
    AtMost(Duration),
}

/// The place of a key among the locks; unlike keys may have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u32);

/// One slot held; dropping it releases the slot.
#[must_use = "a guard that is dropped holds nothing"]
pub struct Guard<'a> {
    slot: Slot,
    _held: MutexGuard<'a, ()>,
}

/// Slots held together, each once.
#[derive(Default)]
#[must_use = "guards that are dropped hold nothing"]
pub struct Guards<'a>(SmallVec<[Guard<'a>; 4]>);

/// All locks of a store.
pub struct Locks {
    slots: Box<[Mutex<()>]>,
}

impl Default for Locks {
    fn default() -> Self {
        Self::new(12)
    }
}

impl Locks {
    /// 2^`bits` slots.
    ///
    /// # Panics
    /// If `bits` is above 31.
    pub fn new(bits: u32) -> Self {
        assert!(bits < 32, "slots are numbered in 32 bits");
        Self { slots: (0..1u32 << bits).map(|_| Mutex::new(())).collect() }
    }

    /// The slot of a key of a table.
    pub fn slot(&self, table: u32, key: &[u8]) -> Slot {
        let hash = XxHash3_64::oneshot_with_seed(u64::from(table), key);
        Slot(hash as u32 & (self.slots.len() as u32 - 1))
    }

    /// Takes one slot; `None` if the wait is over first.
    pub fn lock(&self, slot: Slot, wait: Wait) -> Option<Guard<'_>> {
        let mutex = &self.slots[slot.0 as usize];
        let held = match wait {
            Wait::No => mutex.try_lock(),
            Wait::AtMost(time) => mutex.try_lock_for(time),
        };
        held.map(|held| Guard { slot, _held: held })
    }

    /// Takes many slots in their order, each once; `None`, holding nothing, if a wait is over first.
    pub fn lock_all(&self, slots: &mut Vec<Slot>, wait: Wait) -> Option<Guards<'_>> {
        slots.sort_unstable();
        slots.dedup();
        slots.iter().map(|slot| self.lock(*slot, wait)).collect::<Option<_>>().map(Guards)
    }

    /// Whether somebody holds the slot just now.
    pub fn is_locked(&self, slot: Slot) -> bool {
        self.slots[slot.0 as usize].is_locked()
    }

    /// How many slots are held just now.
    pub fn held(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_locked()).count()
    }
}

impl<'a> Guards<'a> {
    /// Whether the slot is among them.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0.iter().any(|guard| guard.slot == slot)
    }

    /// Adds one that was taken without waiting, which cannot dead-lock in any order.
    pub fn push(&mut self, guard: Guard<'a>) {
        self.0.push(guard);
    }

    /// Which slots they are.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.0.iter().map(|guard| guard.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
