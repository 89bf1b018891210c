//! The budget of memory for one response: its producer waits for room for the next piece until the client took enough of what was sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

/// The interval at which a producer waiting for room checks whether it is still needed.
const LOOK: Duration = Duration::from_millis(100);

/// A budget of bytes. Clones share it.
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

/// Room for some bytes, returned on drop.
pub(super) struct Room {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    pub(super) fn of(bytes: usize) -> Self {
        Self(Arc::new(Shared { all: bytes, left: Mutex::new(bytes), freed: Condvar::new() }))
    }

    /// Counts the bytes once there is room; `None` after the deadline, or if nobody waits any more. Bytes in excess of the whole budget
    /// take all of it, since they would wait forever otherwise.
    pub(super) fn count_when_room(
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

    /// Returns the remaining room in bytes.
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
    /// Holds the room until these bytes, which fill at most all of it, are dropped.
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
    fn who_waits_for_room_gets_it_or_is_told() {
        let budget = Budget::of(4);
        let far = Instant::now() + Duration::from_secs(3600);
        let held = budget.count_when_room(Bytes::from_static(b"four"), far, || false).unwrap();
        assert!(budget.count_when_room(Bytes::from_static(b"one"), Instant::now(), || false).is_none(), "the deadline");
        assert!(budget.count_when_room(Bytes::from_static(b"one"), far, || true).is_none(), "nobody waits");
        std::thread::scope(|scope| {
            let waiting = scope
                .spawn(|| budget.count_when_room(Bytes::from_static(b"one"), far, || false).map(|bytes| bytes.len()));
            drop(held);
            assert_eq!(waiting.join().unwrap(), Some(3));
        });
        let long = budget.count_when_room(Bytes::from_static(b"longer than the budget"), far, || false).unwrap();
        assert_eq!((long.len(), budget.left()), (22, 0));
        drop(long);
        assert_eq!(budget.left(), 4);
    }
}
