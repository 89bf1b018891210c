//! Generated ids: UUIDv7, so that new records are adjacent; UUIDv4 where that is a disadvantage.
//!
//! RFC 9562, 6.2, method 3: the millisecond is followed by twelve bits of its fraction, then 62 random bits. An id is greater than all that
//! this process has generated before, even if the clock stands still or goes back: an atomic holds the time of the last one. The clock is
//! read once for all ids of a verb.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::fmt::Hyphenated;
use uuid::{Builder, Uuid, Variant, Version};

use crate::schema::Table;

/// The time of the last id, in 4096ths of a millisecond since 1970.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Generates the ids of one verb.
pub(super) struct Maker {
    now: u64,
    is_random: bool,
}

impl Maker {
    pub(super) fn new() -> Self {
        // A clock before 1970 does not break the order.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanoseconds = u64::from(since.subsec_nanos());
        let milliseconds = since.as_secs() * 1000 + nanoseconds / 1_000_000;
        let fraction = (nanoseconds % 1_000_000) * 4096 / 1_000_000;
        Self { now: (milliseconds << 12) | fraction, is_random: false }
    }

    /// Generates ids for a table.
    pub(super) fn of(table: &Table) -> Self {
        Self { is_random: table.has_random_ids, ..Self::new() }
    }

    pub(super) fn make(&self) -> Hyphenated {
        if self.is_random {
            return Uuid::new_v4().hyphenated();
        }
        let after = |last: u64| Some(self.now.max(last + 1));
        let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).expect("it always has a successor");
        let time = self.now.max(last + 1);
        let (_, random) = Uuid::new_v4().as_u64_pair();
        let bits = (u128::from(time >> 12) << 80) | (u128::from(time & 0xFFF) << 64) | u128::from(random);
        let built = Builder::from_u128(bits).with_version(Version::SortRand).with_variant(Variant::RFC4122);
        built.into_uuid().hyphenated()
    }

    /// Generates an id and appends its text.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.make().encode_lower(&mut [0; Hyphenated::LENGTH]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_ascend_whatever_the_clock_says() {
        let mut last = Uuid::nil();
        for maker in [Maker::new(), Maker { now: 1, is_random: false }, Maker::new()] {
            for _ in 0..5000 {
                let id = *maker.make().as_uuid();
                assert!(id > last && id.get_version() == Some(Version::SortRand), "{id} after {last}");
                assert_eq!(id.get_variant(), Variant::RFC4122);
                last = id;
            }
        }
    }

    #[test]
    fn they_hold_the_time_and_read_as_uuids() {
        let mut text = Vec::new();
        Maker::new().write(&mut text);
        let id = Uuid::try_parse_ascii(&text).unwrap();
        let (seconds, _) = id.get_timestamp().unwrap().to_unix();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(seconds) <= 60, "{seconds} is not {now}");
    }

    #[test]
    fn threads_never_make_the_same() {
        let made = |_| std::thread::spawn(|| (0..2000).map(|_| *Maker::new().make().as_uuid()).collect::<Vec<_>>());
        let threads: Vec<_> = (0..4).map(made).collect();
        let mut all: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        // The time alone makes them distinct, without the random bits.
        all.sort_unstable();
        all.dedup_by_key(|id| id.as_u128() >> 64);
        assert_eq!(all.len(), 8000);
    }
}
