//! How many bytes of answers there may be in memory that were not sent yet.
//!
//! A client that asks and does not read makes no more memory than its share of the budget: a short answer that finds no room is
//! refused, and who makes a long one waits for room with the next piece.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

/// How often who waits for room looks whether it is still waited for.
const LOOK: Duration = Duration::from_millis(100);

/// Bytes that may be taken. Clones are the same budget.
#[derive(Clone)]
pub(super) struct Budget(Arc<Shared>);

struct Shared {
    all: usize,
    left: Mutex<usize>,
    freed: Condvar,
}

/// Bytes that count until they are dropped.
struct Counted<B: AsRef<[u8]>> {
    bytes: B,
    _room: Room,
}

/// Room for bytes, given back when it is dropped.
pub(super) struct Room {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(super) fn of(bytes: usize) -> Self {
        Self(Arc::new(Shared { all: bytes, left: Mutex::new(bytes), freed: Condvar::new() }))
    }

    /// The same bytes, which count until they are dropped; `None` if there is no room for them.
    pub(super) fn count(&self, bytes: Bytes) -> Option<Bytes> {
        self.room(bytes.len()).map(|room| room.hold(bytes))
    }

    /// Room for `bytes` bytes, if there is.
    pub(super) fn room(&self, bytes: usize) -> Option<Room> {
        self.take(&mut self.0.left.lock(), bytes).then(|| Room { budget: self.clone(), bytes })
    }

    /// The same, once there is room; `None` if there was none until the deadline, or nobody waits any more. Bytes that are more than the
    /// whole budget take all of it: they would wait for ever.
    pub(super) fn count_at_last(
        &self,
        bytes: Bytes,
        deadline: Instant,
        is_abandoned: impl Fn() -> bool,
    ) -> Option<Bytes> {
        let taken = bytes.len().min(self.0.all);
        let mut left = self.0.left.lock();
        while !self.take(&mut left, taken) {
            if is_abandoned() || Instant::now() >= deadline {
                return None;
            }
            self.0.freed.wait_for(&mut left, LOOK);
        }
        drop(left);
        Some(Room { budget: self.clone(), bytes: taken }.hold(bytes))
    }

    /// How many bytes there is room for.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        *self.0.left.lock()
    }

    fn take(&self, left: &mut usize, bytes: usize) -> bool {
        let rest = left.checked_sub(bytes);
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }
}

impl Room {
    /// Bytes that take all of it or less; it is given back when they are dropped.
    pub(super) fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Counted { bytes, _room: self })
    }
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Counted<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.budget.0.left.lock() += self.bytes;
        self.budget.0.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_their_last_copy_is_dropped() {
        let budget = Budget::of(10);
        let six = budget.count(Bytes::from_static(b"sixsix")).unwrap();
        assert_eq!((&six[..], budget.left()), (&b"sixsix"[..], 4));
        assert!(budget.count(Bytes::from_static(b"five5")).is_none());
        let part = six.slice(2..3);
        drop(six);
        assert_eq!(budget.left(), 4);
        drop(part);
        assert_eq!(budget.left(), 10);
    }

    #[test]
    fn who_waits_for_room_gets_it_or_is_told() {
        let budget = Budget::of(4);
        let far = Instant::now() + Duration::from_secs(3600);
        let held = budget.count_at_last(Bytes::from_static(b"four"), far, || false).unwrap();
        assert!(budget.count_at_last(Bytes::from_static(b"one"), Instant::now(), || false).is_none(), "the deadline");
        assert!(budget.count_at_last(Bytes::from_static(b"one"), far, || true).is_none(), "nobody waits");
        std::thread::scope(|scope| {
            let waiting = scope
                .spawn(|| budget.count_at_last(Bytes::from_static(b"one"), far, || false).map(|bytes| bytes.len()));
            drop(held);
            assert_eq!(waiting.join().unwrap(), Some(3));
        });
        let long = budget.count_at_last(Bytes::from_static(b"longer than the budget"), far, || false).unwrap();
        assert_eq!((long.len(), budget.left()), (22, 0));
        drop(long);
        assert_eq!(budget.left(), 4);
    }
}
