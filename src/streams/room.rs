//! Room for more events: where stalls are refused, appends are before the engine would stall all writers, those of tables too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::storage::{Space, Store};

/// The part of a memtable that is appended between two looks.
const LOOKS: u64 = 16;

/// Whether the engine keeps up with appends.
#[derive(Default)]
pub(super) struct Room {
    appended_bytes: AtomicU64,
    is_behind: AtomicBool,
}

impl Room {
    /// Checks that there is room.
    ///
    /// # Errors
    /// `Busy`; what the engine returns.
    pub(super) fn check(&self, store: &Store) -> Result<()> {
        if !self.is_behind.load(Ordering::Relaxed) || self.look(store)? {
            return Ok(());
        }
        Err(Error::Busy { detail: "the engine is behind with flushing or compacting events".to_owned() })
    }

    /// Notes that bytes were appended, and looks now and then whether there is room for more.
    pub(super) fn note(&self, bytes: u64, store: &Store) {
        if !store.options().refuse_stalls {
            return;
        }
        let before = self.appended_bytes.fetch_add(bytes, Ordering::Relaxed);
        let looked_bytes = (store.options().write_buffer_bytes as u64 / LOOKS).max(1);
        if before / looked_bytes != (before + bytes) / looked_bytes {
            // A store that cannot be asked says so when it is written.
            let _ = self.look(store);
        }
    }

    fn look(&self, store: &Store) -> Result<bool> {
        let has_room = store.has_room_for(Space::Streams)?;
        self.is_behind.store(!has_room, Ordering::Relaxed);
        Ok(has_room)
    }
}
