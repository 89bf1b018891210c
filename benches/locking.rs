//! Who holds which key: taking and releasing slots, against one bare lock of the same library.
//!
//! A lock of ours hashes its key to a slot first; the floor has its lock at hand. Many keys are sorted and taken each slot once.

use std::hint::black_box;
use std::sync::Arc;

use strata::locking::{Locks, Wait};
use strata_harness::{Data, Facts, Suite, Unit, suite};

fn main() {
    suite("locking", |suite| {
        one(suite);
        many(suite, 100);
        many(suite, 1000);
    });
}

fn keys(count: u64) -> Vec<[u8; 16]> {
    (0..count).map(|key| u128::from(key * 7919).to_be_bytes()).collect()
}

fn one(suite: &mut Suite) {
    let facts = |op| Facts::new(op).data("1000 keys").state("in memory, nobody waits").allocations_at_most(0);
    let about = facts("takes the lock of one key and lets it go").floor("floor", 0.5, 0.8);
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
    let about = facts("takes one parking_lot::Mutex and lets it go");
    let mutexes = || Data((0..4096).map(|_| parking_lot::Mutex::new(())).collect::<Vec<_>>());
    suite.row("lock_unlock", "floor", "1_key", about, mutexes, |mutexes: Arc<Data<Vec<parking_lot::Mutex<()>>>>| {
        move |index| u64::from(black_box(mutexes[(index % 1000) as usize].try_lock()).is_some())
    });
}

fn many(suite: &mut Suite, count: u64) {
    let facts = Facts::new(format!("takes the locks of {count} keys and lets them go")).unit(Unit::Elements, count);
    let facts = facts.data(format!("{count} keys, 4096 slots")).state("in memory, nobody waits");
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
