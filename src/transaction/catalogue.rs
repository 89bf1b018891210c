//! The catalogue of a store: the numbers of tables, streams and indexes, the layouts of records, and the states of indexes.
//!
//! Numbers are never reused, and streams have numbers that no table has had. A table that the schema no longer names keeps its number and
//! its records, unless a migration drops it. A new index has to be built, and the entries of one that the schema no longer names have to be
//! removed; both are recorded here and done by `background`, also after a restart. Attributes may be added, removed (by a migration),
//! reordered and widened; records are not rewritten for that but read through their `layouts`. An attribute can become required only if
//! every record has a value for it.
//!
//! A schema is refused before anything is written.

pub(super) mod format;
mod layouts;

use self::format::{
    CATALOGUE, Catalogue, Deadline, StoredAttribute, StoredIndex, StoredLayout, StoredState, StoredStream, StoredTable,
    names_of, type_of,
};
use super::members::{self, Members};
use crate::encoding::record::layout::keeps_entries;
use crate::error::{Error, Result};
use crate::indexes;
use crate::schema::{Durability, IndexKind, IndexState, Kind, Schema, Stream, Table};
use crate::storage::{Batch, ReadTier, Space, Store};

/// What opening a store may do to data that its schema does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// Nothing: a schema that would change anything is refused.
    ChangesNothing,
    /// Tables keep their records, which are available again under a schema that names them. Removing attributes is refused.
    KeepsData,
    /// The records of tables and the values of attributes are deleted; their numbers are not reused.
    DropsData,
}

/// Assigns the stored numbers to the schema and records the work needed to bring the store in step. `now`: microseconds since 1970.
///
/// # Errors
/// Of a remote store, `Invalid` if it would change what other servers work with, and `Raced` if one of them was faster. `Invalid` if changed
/// attributes of a table with records would lose values, an attribute became required for which a record has no
/// value, a stream has fewer partitions than before, a table became a stream or the reverse, or one with records is to be kept in Redis.
pub(super) fn reconcile(
    store: &Store,
    members: &Members,
    mut schema: Schema,
    migration: Migration,
    now: i64,
) -> Result<(Schema, Catalogue)> {
    let mut batch = Batch::default();
    let stored = store.get_for(&mut batch, Space::Meta, CATALOGUE, ReadTier::Disk)?;
    let mut catalogue = match &stored {
        Some(bytes) => Catalogue::read(bytes)?,
        None => Catalogue::new(),
    };
    match migration {
        Migration::ChangesNothing => check_unchanged(&catalogue, &schema)?,
        // Before format 3 the catalogue was written when an index was complete, so an interrupted build has left entries.
        _ if store.is_remote() => {}
        _ => indexes::drop_from(store, catalogue.next_index)?,
    }
    if migration != Migration::DropsData {
        check_kinds(&catalogue, &schema)?;
    }
    schema.set_identities();
    // While others live, the schema is as it was for them.
    let retries_failed = migration != Migration::ChangesNothing && !(store.is_remote() && members::has_living(store)?);
    let mut deleted = Vec::new();
    for table in &mut schema.tables {
        let position = assign_number(&mut catalogue, table);
        if table.in_redis && has_records(store, table.id)? {
            return Err(moved_away(table));
        }
        let known = &mut catalogue.tables[position];
        let before = known.current().clone();
        deleted.extend(layouts::lay_out(store, known, table, migration, now)?);
        catalogue.dropped.extend(number_indexes(
            store,
            &mut catalogue.next_index,
            known,
            table,
            &before,
            retries_failed,
        )?);
    }
    for stream in &mut schema.streams {
        number_stream(&mut catalogue, stream)?;
    }
    let dropped = match migration {
        Migration::ChangesNothing | Migration::KeepsData => Vec::new(),
        Migration::DropsData => drop_unnamed(store, &mut batch, &mut catalogue, &schema, &mut deleted)?,
    };
    let after = catalogue.to_json()?;
    let is_changed = migration != Migration::ChangesNothing && stored.as_deref() != Some(&after[..]);
    if is_changed {
        store.put(&mut batch, Space::Meta, CATALOGUE, &after);
    }
    match (store.is_remote(), migration) {
        (true, Migration::ChangesNothing) => members::check_alone(store)?,
        (true, _) => {
            let begun = members.join(store, &mut batch, (&catalogue, stored.as_deref()), is_changed)?;
            store.write(&mut batch, Durability::Strong)?;
            store.set_lease(Some(begun + members::LEASE));
            members::set_fence(store);
        }
        (false, _) if is_changed => store.write(&mut batch, Durability::Strong)?,
        (false, _) => {}
    }
    for what in deleted {
        tracing::warn!("--migrate deletes what is not in the schema: {what}");
    }
    // These numbers are never read again, so their space can be reclaimed at once.
    for (space, number) in dropped {
        store.reclaim_space(space, number)?;
    }
    if migration == Migration::KeepsData {
        warn_of_unnamed(&catalogue, &schema);
    }
    Ok((schema, catalogue))
}

/// Says which tables and streams are kept and not served.
fn warn_of_unnamed(catalogue: &Catalogue, schema: &Schema) {
    for StoredTable { name, .. } in catalogue.tables.iter().filter(|known| schema.table(&known.name).is_none()) {
        tracing::warn!(
            "table {name} is in the data directory but not in the schema: its records are kept and not served; \
             --migrate deletes them"
        );
    }
    for StoredStream { name, .. } in catalogue.streams.iter().filter(|known| schema.stream(&known.name).is_none()) {
        tracing::warn!(
            "stream {name} is in the data directory but not in the schema: its events are kept and not served; \
             --migrate deletes them"
        );
    }
}

/// Checks that no table of the schema has the name of a stored stream, and the reverse.
fn check_kinds(catalogue: &Catalogue, schema: &Schema) -> Result<()> {
    let table = schema.tables.iter().find(|table| catalogue.streams.iter().any(|known| known.name == table.name));
    let stream = schema.streams.iter().find(|stream| catalogue.tables.iter().any(|known| known.name == stream.name));
    let (name, is, was) = match (table, stream) {
        (None, None) => return Ok(()),
        (Some(table), _) => (&table.name, "table", "stream"),
        (None, Some(stream)) => (&stream.name, "stream", "table"),
    };
    Err(Error::invalid(format!(
        "{is} {name} is a {was} in the data directory: use another name, or --migrate deletes it"
    )))
}

/// Assigns a stream its number.
fn number_stream(catalogue: &mut Catalogue, stream: &mut Stream) -> Result<()> {
    let Some(known) = catalogue.streams.iter_mut().find(|known| known.name == stream.name) else {
        stream.id = catalogue.next_table;
        catalogue.next_table += 1;
        let (name, id, partitions) = (stream.name.clone(), stream.id, stream.partitions);
        catalogue.streams.push(StoredStream { name, id, partitions });
        return Ok(());
    };
    if stream.partitions < known.partitions {
        return Err(Error::invalid(format!(
            "stream {} has {} partitions in the data directory: there may be more, but not only {}",
            stream.name, known.partitions, stream.partitions
        )));
    }
    (stream.id, known.partitions) = (known.id, stream.partitions);
    Ok(())
}

/// Checks that each table and each stream of the schema equals the stored one.
fn check_unchanged(catalogue: &Catalogue, schema: &Schema) -> Result<()> {
    let is_known = |table: &&Table| {
        catalogue.tables.iter().any(|known| {
            let attribute = |attribute: &StoredAttribute| (attribute.name.clone(), attribute.kind.clone());
            let now = table.attributes.iter().map(|attribute| (attribute.name.clone(), type_of(attribute)));
            let indexes = table.indexes.iter().map(|index| (names_of(table, index.attributes()), index.kind.name()));
            known.name == table.name
                && known.current().attributes.iter().map(attribute).eq(now)
                && (known.current().deadline == Deadline::InRecord) == table.expiration.is_some()
                && known.primary_key == table.attributes[table.primary_key].name
                && known.indexes.iter().map(|index| (index.attributes.clone(), &index.kind[..])).eq(indexes)
        })
    };
    let is_stream = |stream: &&Stream| {
        let known = catalogue.streams.iter().find(|known| known.name == stream.name);
        known.is_some_and(|known| known.partitions == stream.partitions)
    };
    let table = schema.tables.iter().find(|table| !is_known(table)).map(|table| ("table", &table.name));
    let stream = || schema.streams.iter().find(|stream| !is_stream(stream)).map(|stream| ("stream", &stream.name));
    match table.or_else(stream) {
        None => Ok(()),
        Some((what, name)) => Err(Error::invalid(format!(
            "{what} {name} differs from the stored schema: use the schema that the store was last opened with"
        ))),
    }
}

/// Stages the removal of all tables and streams that the schema does not name; returns the spaces and numbers of their data, and adds a line
/// for each to `deleted`.
fn drop_unnamed(
    store: &Store,
    batch: &mut Batch,
    catalogue: &mut Catalogue,
    schema: &Schema,
    deleted: &mut Vec<String>,
) -> Result<Vec<(Space, u32)>> {
    let mut dropped = Vec::new();
    for known in catalogue.tables.extract_if(.., |known| schema.table(&known.name).is_none()) {
        let (records, _) = store.count_prefix(Space::Records, &known.id.to_be_bytes())?;
        deleted.push(format!("table {}: {records} records", known.name));
        indexes::drop_table(store, batch, known.id, known.indexes.iter().map(|index| index.id));
        dropped.extend([(Space::Records, known.id), (Space::Blobs, known.id)]);
        dropped.extend(known.indexes.iter().map(|index| (Space::Indexes, index.id)));
    }
    for known in catalogue.streams.extract_if(.., |known| schema.stream(&known.name).is_none()) {
        let (chunks, _) = store.count_prefix(Space::Streams, &known.id.to_be_bytes())?;
        deleted.push(format!("stream {}: {chunks} stored values", known.name));
        let (lower, upper) = (known.id.to_be_bytes(), (known.id + 1).to_be_bytes());
        store.delete_range(batch, Space::Streams, &lower, &upper);
        dropped.push((Space::Streams, known.id));
    }
    Ok(dropped)
}

/// Assigns a table its number; returns its position in the catalogue.
fn assign_number(catalogue: &mut Catalogue, table: &mut Table) -> usize {
    if let Some(position) = catalogue.tables.iter().position(|known| known.name == table.name) {
        table.id = catalogue.tables[position].id;
        return position;
    }
    table.id = catalogue.next_table;
    catalogue.next_table += 1;
    let attributes = (0..).zip(&table.attributes).map(|(id, attribute)| StoredAttribute::of(id, attribute));
    let deadline = layouts::deadline_of(table);
    catalogue.tables.push(StoredTable {
        name: table.name.clone(),
        id: table.id,
        primary_key: table.attributes[table.primary_key].name.clone(),
        next_attribute: table.attributes.len() as u32,
        layout: 0,
        layouts: vec![StoredLayout { attributes: attributes.collect(), deadline }],
        indexes: Vec::new(),
    });
    catalogue.tables.len() - 1
}

/// Assigns the indexes of a table their numbers and states; returns the numbers of those whose entries have to be removed.
fn number_indexes(
    store: &Store,
    next_index: &mut u32,
    known: &mut StoredTable,
    table: &mut Table,
    before: &StoredLayout,
    retries_failed: bool,
) -> Result<Vec<u32>> {
    let old = std::mem::take(&mut known.indexes);
    for position in 0..table.indexes.len() {
        let index = &table.indexes[position];
        let (attributes, kind) = (names_of(table, index.attributes()), index.kind);
        let is_same = |stored: &&StoredIndex| {
            stored.attributes == attributes
                && stored.kind == kind.name()
                // A failed index is tried again under another number: writers may have left entries.
                && !(retries_failed && matches!(stored.state, StoredState::Failed { .. }))
                && has_same_entries(before, known.current(), kind, &attributes)
        };
        let stored = match old.iter().find(is_same) {
            Some(stored) => stored.clone(),
            None => {
                *next_index += 1;
                let state = match has_records(store, table.id)? {
                    true => StoredState::Building { after: None, records: 0 },
                    false => StoredState::Ready,
                };
                StoredIndex { id: *next_index - 1, attributes, kind: kind.name().to_owned(), state }
            }
        };
        let index = &mut table.indexes[position];
        index.id = stored.id;
        index.set_state(match stored.state {
            StoredState::Ready => IndexState::Ready { since: 0 },
            StoredState::Building { .. } => IndexState::Building,
            StoredState::Failed { .. } => IndexState::Failed,
        });
        if let StoredState::Building { records, .. } = stored.state {
            index.set_built_records(records);
        }
        known.indexes.push(stored);
    }
    let is_gone = |stored: &StoredIndex| known.indexes.iter().all(|kept| kept.id != stored.id);
    Ok(old.into_iter().filter(is_gone).map(|stored| stored.id).collect())
}

/// Returns whether records have the same entries in an index over these attributes under both layouts.
fn has_same_entries(before: &StoredLayout, after: &StoredLayout, kind: IndexKind, attributes: &[String]) -> bool {
    let is_same = |name: &String| {
        let of = |layout: &StoredLayout| layout.attributes.iter().find(|attribute| attribute.name == *name).cloned();
        match (of(before), of(after)) {
            (Some(before), Some(after)) => before.id == after.id && is_same_order(&before.kind, &after.kind),
            _ => false,
        }
    };
    let expires = |layout: &StoredLayout| layout.deadline == Deadline::InRecord;
    attributes.iter().all(is_same) && (kind != IndexKind::Expiry || expires(before) == expires(after))
}

/// Returns whether both types encode values as the same bytes in keys.
fn is_same_order(before: &str, after: &str) -> bool {
    let element = |kind: &str| Kind::named(kind.trim_start_matches('[').trim_end_matches(']'));
    before == after || element(before).zip(element(after)).is_some_and(|(before, after)| keeps_entries(before, after))
}

/// Its records would be neither served nor deleted, and would be back under the schema as it was.
fn moved_away(table: &Table) -> Error {
    Error::invalid(format!(
        "table {} has records in the data directory and cannot be kept in Redis: delete them first, under the schema as it was",
        table.name
    ))
}

fn has_records(store: &Store, table: u32) -> Result<bool> {
    let snapshot = store.snapshot(ReadTier::Disk)?;
    let mut records = indexes::all_records(store, table, &snapshot);
    records.next().map(|first| first.is_some())
}
