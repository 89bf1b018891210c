//! Which records a step has met already, where a record may have several entries.
//!
//! A list has an entry for each of its elements, and its record is to be met once. If the record were asked at each of them whether it
//! is the first, a list would be read as often as it has elements. So keys are remembered, and entries that lead to them again are
//! passed over unread; up to a bound of memory, beyond which the record decides.

use std::collections::HashSet;

/// How many bytes of memory the keys may take.
pub(super) const SEEN_BYTES: usize = 4 << 20;

/// What a key takes beside its own bytes, about.
const KEY_BYTES: usize = 48;

/// The keys of records that were met.
pub(super) struct Seen {
    keys: HashSet<Box<[u8]>>,
    /// How many bytes of memory are left.
    left: usize,
}

/// Whether a record is met for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    First,
    Again,
    /// The record knows: there was no memory left to remember all.
    Unknown,
}

impl Seen {
    /// None yet.
    pub fn within(bytes: usize) -> Self {
        Self { keys: HashSet::new(), left: bytes }
    }

    /// Meets a record. After one `Unknown` there is no `First`.
    pub fn meet(&mut self, key: &[u8]) -> Met {
        if self.keys.contains(key) {
            return Met::Again;
        }
        match self.left.checked_sub(KEY_BYTES + key.len()) {
            Some(left) => {
                self.left = left;
                self.keys.insert(key.into());
                Met::First
            }
            None => {
                self.left = 0;
                Met::Unknown
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
        let met = ["a", "b", "a", "a key too long", "c", "b"].map(|key| seen.meet(key.as_bytes()));
        use Met::{Again, First, Unknown};
        assert_eq!(met, [First, First, Again, Unknown, Unknown, Again], "nothing is the first once memory has run out");
    }
}
