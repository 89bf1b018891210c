//! The current and earlier layouts of records, and checks that a change of attributes preserves their values.
//!
//! A layout is a list of attributes by number: an attribute that is dropped and added again under the same name is another one, for which
//! old records have no value. Layouts are never removed, since any record may use any of them; a schema that returns to an earlier form
//! returns to its layout.

use super::format::{Deadline, StoredAttribute, StoredLayout, StoredTable, type_of};
use super::{Migration, has_records};
use crate::encoding::record::layout::{is_kept, widens};
use crate::encoding::{NEVER, Record};
use crate::error::{Error, Result};
use crate::indexes;
use crate::schema::{Attribute, Earlier, Identity, Kind, Table};
use crate::storage::{ReadTier, Store};

/// Finds or adds the layout of the table's records, and adds the earlier layouts to the table. Returns what a migration deletes, a line each.
///
/// # Errors
/// `Invalid` if values would be lost or are missing, or if there would be too many layouts.
pub(super) fn lay_out(
    store: &Store,
    known: &mut StoredTable,
    table: &mut Table,
    migration: Migration,
    now: i64,
) -> Result<Vec<String>> {
    let (before, primary_key) = (known.current().clone(), &table.attributes[table.primary_key].name);
    if known.primary_key != *primary_key && has_records(store, table.id)? {
        let detail = format!(
            "the primary key of table {} is {} and cannot be changed while the table has records",
            table.name, known.primary_key
        );
        return Err(Error::invalid(detail));
    }
    known.primary_key.clone_from(primary_key);
    let attributes = number_attributes(store, known, table)?;
    let is_gone = |old: &StoredAttribute| attributes.iter().all(|attribute| attribute.id != old.id);
    let gone: Vec<usize> = (0..before.attributes.len()).filter(|old| is_gone(&before.attributes[*old])).collect();
    if let Some(gone) = gone.first()
        && migration != Migration::DropsData
        && has_records(store, table.id)?
    {
        return Err(Error::invalid(format!(
            "attribute {} of table {} is missing from the schema and its values would be lost: keep it, or pass \
             --migrate to delete them",
            before.attributes[*gone].name, table.name
        )));
    }
    let previous = as_of(known, table, known.layout)?;
    let deleted = gone.iter().map(|attribute| {
        let (name, values) = (&before.attributes[*attribute].name, count_values(store, &previous, *attribute)?);
        Ok(format!("attribute {name} of table {}: values of {values} records", table.name))
    });
    let deleted = deleted.collect::<Result<_>>()?;
    choose(known, table, StoredLayout { attributes, deadline: deadline_of(table) })?;
    if let (Some(seconds), false) = (table.expiration, before.deadline == Deadline::InRecord) {
        // The time of their last write is not known.
        let deadline = now.saturating_add_unsigned(seconds.saturating_mul(1_000_000));
        for layout in known.layouts.iter_mut().filter(|layout| layout.deadline != Deadline::InRecord) {
            layout.deadline = Deadline::At(deadline);
        }
    }
    table.layout = known.layout;
    table.earlier = earlier(known, table)?;
    check_records(store, &before, &previous, table, known.current())?;
    Ok(deleted)
}

/// Returns how many records have a value for an attribute.
fn count_values(store: &Store, table: &Table, attribute: usize) -> Result<u64> {
    let snapshot = store.snapshot(ReadTier::Disk)?;
    let (mut records, mut values) = (indexes::all_records(store, table.id, &snapshot), 0);
    while let Some((_, bytes)) = records.next()? {
        values += u64::from(Record::open(table, bytes)?.json_of(attribute)? != b"null");
    }
    Ok(values)
}

/// Returns how newly written records of a table expire.
pub(super) fn deadline_of(table: &Table) -> Deadline {
    if table.expiration.is_some() { Deadline::InRecord } else { Deadline::Never }
}

/// Returns the attributes of a table with their numbers; new attributes get new ones.
fn number_attributes(store: &Store, known: &mut StoredTable, table: &Table) -> Result<Vec<StoredAttribute>> {
    let before = known.current().clone();
    let numbered = table.attributes.iter().map(|attribute| {
        let old = before.attributes.iter().find(|old| old.name == attribute.name);
        let id = match old {
            Some(old) if is_readable_as(old, attribute)? => old.id,
            Some(old) if has_records(store, table.id)? => {
                return Err(Error::invalid(format!(
                    "attribute {} of table {} has type {}, and its values cannot be read as {}: keep the type, or use another name",
                    old.name,
                    table.name,
                    old.kind,
                    type_of(attribute)
                )));
            }
            _ => {
                known.next_attribute += 1;
                known.next_attribute - 1
            }
        };
        Ok(StoredAttribute::of(id, attribute))
    });
    numbered.collect()
}

/// Returns whether the type of an attribute is unchanged or wider.
fn is_readable_as(old: &StoredAttribute, attribute: &Attribute) -> Result<bool> {
    let old = old.to_attribute(&mut 0)?;
    Ok(old.list == attribute.list && widens(old.kind, attribute.kind))
}

/// Makes a layout the one in which records are written.
fn choose(known: &mut StoredTable, table: &Table, wanted: StoredLayout) -> Result<()> {
    let same = known.layouts.iter().position(|layout| layout.is_like(&wanted));
    let position = same.unwrap_or(known.layouts.len());
    known.layout = u8::try_from(position).map_err(|_| {
        let detail =
            format!("the attributes of table {} have changed {position} times: use a new data directory", table.name);
        Error::invalid(detail)
    })?;
    match known.layouts.get_mut(position) {
        // Which attributes are required may have changed.
        Some(layout) => layout.attributes = wanted.attributes,
        None => known.layouts.push(wanted),
    }
    Ok(())
}

/// Returns the table with one of its layouts as the current one and all others as earlier ones.
fn as_of(known: &StoredTable, table: &Table, number: u8) -> Result<Table> {
    let mut as_it_was = laid_out(known, table, number)?;
    as_it_was.earlier = earlier(known, &as_it_was)?;
    Ok(as_it_was)
}

/// Returns the table with one of its layouts and no earlier ones.
fn laid_out(known: &StoredTable, table: &Table, number: u8) -> Result<Table> {
    let layout = &known.layouts[usize::from(number)];
    let mut fixed_widths = 0;
    let attributes = layout.attributes.iter().map(|attribute| attribute.to_attribute(&mut fixed_widths));
    let attributes = attributes.collect::<Result<Vec<_>>>()?;
    let has_deadline = layout.deadline == Deadline::InRecord;
    Ok(Table {
        identity: Identity::default(),
        id: table.id,
        name: table.name.clone(),
        exported: false,
        durability: table.durability,
        primary_key: attributes.iter().position(|attribute| attribute.name == known.primary_key).unwrap_or_default(),
        attributes,
        fixed_widths: fixed_widths + usize::from(has_deadline),
        // Only its existence matters; the deadlines are in the records.
        expiration: has_deadline.then_some(0),
        ttl: None,
        expires_at: None,
        multicast: None,
        in_redis: false,
        has_random_ids: false,
        indexes: Vec::new(),
        layout: number,
        earlier: Vec::new(),
        blobs: Vec::new(),
        relationships: Vec::new(),
    })
}

/// Returns the layouts of a table other than its current one.
fn earlier(known: &StoredTable, table: &Table) -> Result<Vec<Earlier>> {
    let current = &known.layouts[usize::from(table.layout)];
    let others = (0..).zip(&known.layouts).filter(|(number, _)| *number != table.layout);
    let others = others.map(|(number, layout)| {
        let source = |attribute: &StoredAttribute| layout.attributes.iter().position(|old| old.id == attribute.id);
        Ok(Earlier {
            table: laid_out(known, table, number)?,
            sources: current.attributes.iter().map(source).collect(),
            deadline: if let Deadline::At(deadline) = layout.deadline { deadline } else { NEVER },
        })
    });
    others.collect()
}

/// Checks that widened types represent the values of all records exactly, that newly required attributes have values, and that no blob is
/// lost.
fn check_records(
    store: &Store,
    before: &StoredLayout,
    previous: &Table,
    table: &Table,
    current: &StoredLayout,
) -> Result<()> {
    let mut rounded = Vec::new();
    let mut required = Vec::new();
    for (position, (attribute, stored)) in table.attributes.iter().zip(&current.attributes).enumerate() {
        let old = before.attributes.iter().position(|old| old.id == stored.id);
        let was_required = old.is_some_and(|old| before.attributes[old].required);
        required.extend((attribute.required && !was_required).then_some(position));
        rounded.extend(old.filter(|old| before.attributes[*old].kind != stored.kind).map(|old| (old, attribute.kind)));
    }
    let is_gone = |old: &StoredAttribute| current.attributes.iter().all(|attribute| attribute.id != old.id);
    let gone = before.attributes.iter().enumerate().filter(|(_, old)| old.kind == Kind::Blob.name() && is_gone(old));
    let blobs: Vec<usize> = gone.map(|(position, _)| position).collect();
    if rounded.is_empty() && required.is_empty() && blobs.is_empty() {
        return Ok(());
    }
    let snapshot = store.snapshot(ReadTier::Disk)?;
    let mut records = indexes::all_records(store, table.id, &snapshot);
    while let Some((_, bytes)) = records.next()? {
        let (was, is) = (Record::open(previous, bytes)?, Record::open(table, bytes)?);
        for (position, kind) in &rounded {
            if !is_kept(&was.value(*position)?, *kind) {
                let (id, name) = (was.id()?, &previous.attributes[*position].name);
                return Err(Error::invalid(format!(
                    "attribute {name} of table {} becomes {}, and that of record {id:?} would be rounded: give it another value \
                     under the schema as it was, or leave the type as it was",
                    table.name,
                    kind.name()
                )));
            }
        }
        if let Some(position) = blobs.iter().find(|position| was.upload(**position).is_some()) {
            let (id, name) = (was.id()?, &previous.attributes[*position].name);
            return Err(Error::invalid(format!(
                "attribute {name} of table {} is missing from the schema, but record {id:?} still has a blob in it: \
                 delete that blob first, under the schema as it was",
                table.name
            )));
        }
        for position in &required {
            if is.json_of(*position)? == b"null" {
                let (id, name) = (is.id()?, &table.attributes[*position].name);
                return Err(Error::invalid(format!(
                    "attribute {name} of table {} is required now, and record {id:?} has no value for it: give it one \
                     under the schema as it was, or leave the attribute as it was",
                    table.name
                )));
            }
        }
    }
    Ok(())
}
