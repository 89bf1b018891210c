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

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::schema::Schema;
    use crate::storage::Options;
    use crate::streams::{Event, Streams};
    use crate::transaction::Database;

    #[test]
    fn appends_are_refused_before_the_engine_delays_writes_to_tables() {
        let directory = tempfile::tempdir().unwrap();
        let schema = Schema::parse("type Click @stream type User @table { id: ID! @primaryKey }").unwrap();
        let options = Options { write_buffer_bytes: 256 << 10, refuse_stalls: true, ..Options::default() };
        let database = Database::open(directory.path(), schema, &options).unwrap();
        let streams = Streams::open(&database).unwrap();
        database.store().pause_compactions();
        // Each is one look at the engine or more.
        let payload = format!("\"{}\"", "x".repeat(40_000));
        let stream = database.schema().stream("Click").unwrap();
        let event = Event { payload: &payload, ..Event::default() };
        let mut files = 0;
        let refused = loop {
            match streams.append(&database, stream, &event) {
                Ok(_) => database.store().flush().unwrap(),
                Err(error) => break error,
            }
            files += 1;
            assert!(files < 20, "the engine delays all writes");
        };
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        assert!(files > 10, "{files}");
        database.create(database.table("User").unwrap(), br#"{"id":"1"}"#).unwrap();
        let end = streams.watermarks(stream, 0).unwrap().high;
        assert_eq!(end, files, "what was refused is not there");
        database.store().compact().unwrap();
        assert_eq!(streams.append(&database, stream, &event).unwrap().offset, end);
    }
}
