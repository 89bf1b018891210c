//! Free space. Below a reserve, writes that add are refused, so that there is room for those that give space back, for flushes and for
//! compactions: a full disk would stop them all.
//!
//! Free space is looked at after each mebibyte that was written, when somebody [asks](Store::look_at_room), and while it is short, before
//! each write that adds.
//!
//! A write that is refused is `Full`. Batches of deletes alone are not refused, so that room can be made.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::statvfs;

use super::{Store, gauges};
use crate::error::{Error, Result};

/// The interval between two looks, in bytes written.
pub(super) const LOOKED_BYTES: u64 = 1 << 20;

/// Whether there is room.
#[derive(Default)]
pub(super) struct Room {
    is_short: AtomicBool,
}

impl Store {
    /// Checks that there is room for a write that adds.
    ///
    /// # Errors
    /// `Full`.
    pub(super) fn check_room(&self) -> Result<()> {
        if self.room.is_short.load(Relaxed) && !self.look_at_room() {
            return Err(full());
        }
        Ok(())
    }

    /// Looks at the free space; returns whether there is room for writes that add. What waits in memtables will be written a second time.
    pub fn look_at_room(&self) -> bool {
        let reserve = self.options.reserve_bytes as u64;
        let Ok(space) = statvfs(self.db().path()) else { return true };
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        let waiting = gauges::memtable_bytes(self).unwrap_or_default();
        let is_short = reserve > 0 && free < reserve.saturating_add(waiting);
        if self.room.is_short.swap(is_short, Relaxed) != is_short {
            match is_short {
                true => tracing::error!("the disk is nearly full: writes that add are refused ({free} bytes are free)"),
                false => tracing::info!("there is room again: writes that add are taken"),
            }
        }
        !is_short
    }
}

/// Returns whether the text of an engine's error says that the disk is full.
pub(super) fn is_full(text: &str) -> bool {
    text.contains("No space left on device")
}

/// Returns the error of a write that adds.
pub(super) fn full() -> Error {
    Error::Full { detail: "the disk is nearly full: delete something, or make room otherwise".to_owned() }
}
