//! Deduplication of records within a step, where a record may have several entries.
//!
//! A list has an entry for each of its elements, but its record must be returned once. Checking at every entry whether it is the first of
//! its record would read a list once per element. So keys are remembered, and entries that lead to them again are skipped without reading
//! the record; up to a memory bound, beyond which the record has to be checked.

use std::collections::HashSet;

/// The maximum memory for keys, in bytes.
pub(super) const SEEN_BYTES: usize = 4 << 20;

/// The approximate overhead of a key, in bytes.
const KEY_BYTES: usize = 48;

/// The keys of the records seen so far.
pub(super) struct Seen {
    keys: HashSet<Box<[u8]>>,
    /// The remaining memory in bytes.
    left: usize,
}

/// Whether a record is seen for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sighting {
    First,
    Again,
    /// The record has to be checked: there was no memory left to remember every key.
    Unknown,
}

impl Seen {
    /// Returns an empty set with this memory bound.
    pub fn within(bytes: usize) -> Self {
        Self { keys: HashSet::new(), left: bytes }
    }

    /// Records a key. After one `Unknown`, it never returns `First`.
    pub fn meet(&mut self, key: &[u8]) -> Sighting {
        if self.keys.contains(key) {
            return Sighting::Again;
        }
        match self.left.checked_sub(KEY_BYTES + key.len()) {
            Some(left) => {
                self.left = left;
                self.keys.insert(key.into());
                Sighting::First
            }
            None => {
                self.left = 0;
                Sighting::Unknown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_remembered_is_not_known() {
        let mut seen = Seen::within(2 * KEY_BYTES + 10);
        let sightings = ["a", "b", "a", "a key too long", "c", "b"].map(|key| seen.meet(key.as_bytes()));
        use Sighting::{Again, First, Unknown};
        assert_eq!(
            sightings,
            [First, First, Again, Unknown, Unknown, Again],
            "nothing is the first once memory has run out"
        );
    }
}
