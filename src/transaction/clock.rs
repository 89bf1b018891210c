//! What time it is: by the machine, or as somebody says, so that a test need not wait for a record to expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock. Clones of one that is set by hand are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// A clock that stands still until it is set: microseconds since 1970 UTC.
    pub fn standing_at(microseconds: i64) -> Self {
        Self(Some(Arc::new(AtomicI64::new(microseconds))))
    }

    /// Sets a clock that stands still; the machine's goes on as it does.
    pub fn set(&self, microseconds: i64) {
        if let Some(clock) = &self.0 {
            clock.store(microseconds, Ordering::Relaxed);
        }
    }

    /// Microseconds since 1970 UTC.
    pub fn now(&self) -> i64 {
        match &self.0 {
            Some(clock) => clock.load(Ordering::Relaxed),
            None => jiff::Timestamp::now().as_microsecond(),
        }
    }
}
