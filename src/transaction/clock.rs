//! The current time: from the system, or set by hand, so that a test need not wait for a record to expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock. Clones of a manual clock are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// Returns a clock that stands still until it is set: microseconds since 1970 UTC.
    pub fn standing_at(microseconds: i64) -> Self {
        Self(Some(Arc::new(AtomicI64::new(microseconds))))
    }

    /// Sets a manual clock; has no effect on the system clock.
    pub fn set(&self, microseconds: i64) {
        if let Some(clock) = &self.0 {
            clock.store(microseconds, Ordering::Relaxed);
        }
    }

    /// Returns the time in microseconds since 1970 UTC.
    pub fn now(&self) -> i64 {
        match &self.0 {
            Some(clock) => clock.load(Ordering::Relaxed),
            None => jiff::Timestamp::now().as_microsecond(),
        }
    }
}
