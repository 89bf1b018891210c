//! The ids of the matching records from keys alone: where the entries of one index, or the keys of the table, lead to these records and to
//! no others, no record is read.
//!
//! Of a table whose records expire, those that have expired and are still there are found by the index of their deadlines, at the same
//! snapshot. They are deleted within seconds, so there are few. If there are many, or many were deleted and the engine still has to skip
//! them, the records are read instead.

use std::collections::HashSet;

use super::plan::{Access, AccessPaths};
use super::source::Source;
use super::tree::Query;
use crate::encoding::key;
use crate::error::{Error, Result};
use crate::indexes::{Direction, KeyRange, Keys, Matches};
use crate::schema::IndexKind;
use crate::storage::{ReadTier, Space};

/// The maximum number of expired records that are remembered.
const EXPIRED: usize = 1000;

/// The maximum number of deleted entries, and of their former versions, that are skipped at once.
const SKIPPED: u64 = 2000;

impl Query<'_> {
    /// Returns the ids of the matching records, at most one more than `most`; `None` if that takes reading records.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(super) fn ids_by_keys(&self, source: Source<'_>, most: usize) -> Result<Option<Vec<String>>> {
        let Some(access) = AccessPaths::of(self, source.indexes()).only() else { return Ok(None) };
        let Some(expired) = expired(source)? else { return Ok(None) };
        let mut ids = Vec::new();
        let mut add = |id: &[u8]| {
            source.budget.spend(1)?;
            if expired.is_empty() || !expired.contains(id) {
                let id = std::str::from_utf8(id).map_err(|_| Error::corrupt("the id of a key is not text"))?;
                ids.push(id.to_owned());
            }
            Ok(ids.len() <= most)
        };
        match access {
            Access::Entries { index, ranges, .. } => {
                let mut keys = Keys::default();
                for range in &ranges {
                    let scan = source.scan(Space::Indexes, range, Direction::Forwards)?;
                    let mut matches = Matches::of(scan, source.table, index, range);
                    while matches.append(&mut keys)? && add(&keys.key(0)[size_of::<u32>()..])? {
                        keys.clear();
                    }
                }
            }
            Access::Table(range) => {
                let mut scan = source.scan(Space::Records, &range, Direction::Forwards)?;
                while let Some((key, _)) = scan.next()?
                    && add(&key[size_of::<u32>()..])?
                {}
            }
            Access::Ids(_) | Access::Owners(..) | Access::Intersection(..) => return Ok(None),
        }
        Ok(Some(ids))
    }
}

/// Returns the ids of the records that have expired and are not deleted yet; `None` if they are not known, or too many.
fn expired(source: Source<'_>) -> Result<Option<HashSet<Vec<u8>>>> {
    let Source { store, table, snapshot, tier, now, .. } = source;
    let mut ids = HashSet::new();
    if !table.expires() {
        return Ok(Some(ids));
    }
    let index = table.indexes.iter().find(|index| index.kind == IndexKind::Expiry);
    let Some(index) = index.filter(|index| index.is_ready_at(snapshot.sequence())) else { return Ok(None) };
    let range = KeyRange::expired(index, now);
    source.budget.seek()?;
    let mut scan = store.scan_skipping(Space::Indexes, &range.lower, &range.upper, snapshot, tier, SKIPPED);
    loop {
        let entry = match scan.next() {
            Ok(None) => return Ok(Some(ids)),
            Ok(Some((entry, _))) => entry,
            Err(Error::WouldBlock) if tier == ReadTier::Disk => return Ok(None),
            Err(error) => return Err(error),
        };
        source.budget.spend(1)?;
        if ids.len() == EXPIRED {
            return Ok(None);
        }
        let before_id = key::bytes_before_id(entry, index.values());
        let id = before_id.and_then(|bytes| entry.get(bytes..));
        ids.insert(id.ok_or_else(|| Error::corrupt("an index entry has no id"))?.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Limits;
    use crate::query::budget::StepBudget;
    use crate::schema::Schema;
    use crate::storage::Options;
    use crate::transaction::{Clock, Database};

    const SDL: &str = "type Device @table(expiration: 60) {
        id: ID! @primaryKey
        room: Int @indexed
        name: String @indexed
        hashed: String @indexed(type: \"hash\")
        tags: [String] @indexed
        plain: Int
    }";

    /// A second, in microseconds.
    const SECOND: i64 = 1_000_000;

    fn put(database: &Database, numbers: std::ops::Range<u32>) {
        let body = |number: u32| {
            let (room, name) = (number % 7, "n".repeat(1 + (number % 3) as usize * 1000));
            format!(
                r#"{{"id":"{number}","room":{room},"name":"{name}","hashed":"{room}","tags":["a","b"],"plain":{room}}}"#
            )
        };
        let bodies: Vec<_> = numbers.map(body).collect();
        let table = database.table("Device").unwrap();
        database.create_all(table, format!("[{}]", bodies.join(",")).as_bytes()).unwrap();
    }

    /// Returns the ids by keys, if that is possible, after holding them against those of the records.
    fn ids(database: &Database, conditions: &str) -> Option<usize> {
        let table = database.table("Device").unwrap();
        let query = Query::parse(database.schema(), table, conditions, &Limits::in_url(10_000)).unwrap();
        let mut read = Vec::new();
        let visited = query.run(database, table, |record| {
            read.push(record.id()?.into_owned());
            Ok(())
        });
        visited.unwrap();
        read.sort_unstable();
        let (snapshot, budget) = (database.store().snapshot(ReadTier::Disk).unwrap(), StepBudget::of(database));
        let source = Source::of(database, table, &snapshot, &budget);
        let found = query.ids_by_keys(source, 10_000).unwrap().map(|mut ids| {
            ids.sort_unstable();
            assert_eq!(ids, read, "{conditions}");
            ids.len()
        });
        assert_eq!(query.clone().ids(database, table, read.len()).unwrap().len(), read.len());
        if !read.is_empty() {
            assert!(matches!(query.ids(database, table, read.len() - 1), Err(Error::Invalid { .. })));
        }
        found
    }

    fn opened() -> (tempfile::TempDir, Database, Clock) {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::open(directory.path(), Schema::parse(SDL).unwrap(), &Options::default()).unwrap();
        let clock = Clock::standing_at(4_000_000_000 * SECOND);
        let database = database.with_clock(&clock);
        (directory, database, clock)
    }

    #[test]
    fn keys_lead_to_the_same_records_as_reading_them() {
        let (_directory, database, clock) = opened();
        let advance = |seconds: i64| clock.set(clock.now() + seconds * SECOND);
        assert_eq!((ids(&database, ""), ids(&database, "room==1")), (Some(0), Some(0)));
        put(&database, 0..700);
        advance(40);
        put(&database, 700..1400);
        assert_eq!(
            (ids(&database, ""), ids(&database, "room==1"), ids(&database, "room=lt=3")),
            (Some(1400), Some(200), Some(600))
        );
        for read in ["plain==1", "room==1&plain==1", "hashed==1", "tags==a|tags==b", "room==1|name==n", "id==3"] {
            assert_eq!(ids(&database, read), None, "{read}");
        }
        advance(20);
        assert_eq!(
            (ids(&database, ""), ids(&database, "room==1")),
            (Some(700), Some(100)),
            "half of them have expired"
        );
        advance(40);
        assert_eq!((ids(&database, ""), ids(&database, "room==1")), (None, None), "too many have");
        put(&database, 0..500);
        database.catch_up().unwrap();
        database.store().compact().unwrap();
        assert_eq!((ids(&database, ""), ids(&database, "room==2")), (Some(500), Some(72)), "they are deleted");
    }

    /// Nothing is flushed meanwhile, so each record that was deleted leaves two entries to skip.
    #[test]
    fn many_deleted_records_are_not_skipped() {
        let (_directory, database, clock) = opened();
        let advance = |seconds: i64| clock.set(clock.now() + seconds * SECOND);
        put(&database, 0..500);
        advance(60);
        put(&database, 2000..3000);
        database.catch_up().unwrap();
        assert_eq!(ids(&database, "room==1"), Some(143));
        advance(60);
        put(&database, 0..10);
        database.catch_up().unwrap();
        assert_eq!(ids(&database, "room==1"), None, "more were deleted than are skipped");
    }
}
