//! The consumer groups of a stream, by name: commits within a transaction, reading and deleting them. They assign no partitions to members.

use std::collections::HashSet;

use super::append::Appends;
use super::group::{Group, damaged};
use super::{Streams, keys};
use crate::error::{Error, Result};
use crate::schema::{Stream, check_group_name};
use crate::storage::{ReadTier, Space, Store};
use crate::transaction::{Database, Precondition, Transaction};

/// The number of groups that a stream may have, those in `holdFor` apart: they are listed in one response.
const MAX_GROUPS: usize = 1000;

impl Streams {
    /// Commits offsets of a group, all or none; returns the group.
    ///
    /// # Errors
    /// `Invalid` if the name or an offset is none that a group can have; `Stale` if the precondition fails; as [`Streams::append`].
    pub fn commit(
        &self,
        database: &Database,
        stream: &Stream,
        group: &str,
        offsets: &[(u32, u64)],
        expected: &Precondition,
    ) -> Result<Group> {
        self.transact(database, |transaction, appends| appends.commit(transaction, stream, group, offsets, expected))
    }

    /// Returns a group; `None` if it never committed.
    ///
    /// # Errors
    /// `Invalid` if the name is none that a group can have; `Corrupt`; what the engine returns.
    pub fn group(&self, database: &Database, stream: &Stream, group: &str) -> Result<Option<Group>> {
        self.state(stream)?;
        check_name(group)?;
        stored(database.store(), database.tier(), stream, group)
    }

    /// Returns all groups by name.
    ///
    /// # Errors
    /// As [`Streams::group`].
    pub fn groups(&self, database: &Database, stream: &Stream) -> Result<Vec<(String, Group)>> {
        self.state(stream)?;
        let (lower, upper) = keys::groups(stream.id);
        let (store, mut groups) = (database.store(), Vec::new());
        let snapshot = store.snapshot(ReadTier::Disk)?;
        let mut scan = store.scan(Space::Streams, &lower, &upper, &snapshot, database.tier());
        while let Some((key, value)) = scan.next()? {
            let name = key.get(lower.len()..).and_then(|name| std::str::from_utf8(name).ok()).ok_or_else(damaged)?;
            groups.push((name.to_owned(), Group::read(value)?));
        }
        Ok(groups)
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// `Invalid` if the name is none that a group can have; `NotFound` if it never committed; `Stale` if the precondition fails; as [`Streams::append`].
    pub fn remove_group(
        &self,
        database: &Database,
        stream: &Stream,
        group: &str,
        expected: &Precondition,
    ) -> Result<()> {
        check_name(group)?;
        self.transact(database, |transaction, appends| {
            let before = appends.group(transaction, stream, group)?;
            let before = before.ok_or_else(|| no_group(stream, group))?;
            check(Some(&before), expected)?;
            appends.set_group(stream, group, None);
            Ok(())
        })
    }
}

impl Appends<'_> {
    /// Commits offsets of a group.
    ///
    /// # Errors
    /// As [`Streams::commit`].
    pub fn commit(
        &mut self,
        transaction: &mut Transaction<'_>,
        stream: &Stream,
        group: &str,
        offsets: &[(u32, u64)],
        expected: &Precondition,
    ) -> Result<Group> {
        check_name(group)?;
        let state = self.streams.state(stream)?;
        let before = self.group(transaction, stream, group)?;
        check(before.as_ref(), expected)?;
        if before.is_none() && !stream.hold_for.iter().any(|holding| holding == group) {
            self.check_room_for_group(transaction, stream)?;
            self.has_new_group = true;
        }
        let mut after = before.unwrap_or_default();
        for (position, &(partition, offset)) in offsets.iter().enumerate() {
            let refused =
                |member: &str, detail: String| Err(Error::invalid_at(format!("/offsets/{position}/{member}"), detail));
            let Some(of) = state.partitions.get(partition as usize) else {
                return refused("partition", format!("stream {} has {} partitions", stream.name, stream.partitions));
            };
            if offsets[..position].iter().any(|(earlier, _)| *earlier == partition) {
                return refused("partition", format!("partition {partition} is given twice"));
            }
            let high = of.watermarks().high;
            if offset > high {
                return refused("offset", format!("partition {partition} ends at offset {high}"));
            }
            after.offsets.insert(partition, offset);
        }
        self.set_group(stream, group, Some(after.clone()));
        Ok(after)
    }

    /// Returns a group as this transaction sees it, and keeps it locked.
    pub(super) fn group(
        &mut self,
        transaction: &mut Transaction<'_>,
        stream: &Stream,
        group: &str,
    ) -> Result<Option<Group>> {
        self.streams.state(stream)?;
        let key = keys::group(stream.id, group);
        transaction.hold(stream.id, &key)?;
        match self.groups.get(&key) {
            Some((_, changed)) => Ok(changed.clone()),
            None => stored(transaction.database().store(), transaction.database().tier(), stream, group),
        }
    }

    /// Checks that the stream has room for one group more; other transactions that look for it wait until this one has ended.
    ///
    /// # Errors
    /// `Full`; what the engine returns.
    fn check_room_for_group(&self, transaction: &mut Transaction<'_>, stream: &Stream) -> Result<()> {
        let (lower, upper) = keys::groups(stream.id);
        transaction.hold(stream.id, &lower)?;
        let (store, tier) = (transaction.database().store(), transaction.database().tier());
        let (snapshot, mut present) = (store.snapshot(ReadTier::Disk)?, HashSet::new());
        let mut scan = store.scan(Space::Streams, &lower, &upper, &snapshot, tier);
        while let Some((key, _)) = scan.next()? {
            present.insert(key.to_vec());
        }
        for (key, (_, group)) in self.groups.iter().filter(|(key, _)| key.starts_with(&lower)) {
            if group.is_some() {
                present.insert(key.clone())
            } else {
                present.remove(key)
            };
        }
        if present.len() < MAX_GROUPS {
            return Ok(());
        }
        Err(Error::Full {
            detail: format!("stream {} has {MAX_GROUPS} consumer groups: delete one first", stream.name),
        })
    }

    fn set_group(&mut self, stream: &Stream, group: &str, after: Option<Group>) {
        self.groups.insert(keys::group(stream.id, group), (stream.durability, after));
    }
}

fn stored(store: &Store, tier: ReadTier, stream: &Stream, group: &str) -> Result<Option<Group>> {
    let value = store.get(Space::Streams, &keys::group(stream.id, group), tier)?;
    value.map(|value| Group::read(&value)).transpose()
}

/// Returns the error for a group that never committed.
pub fn no_group(stream: &Stream, group: &str) -> Error {
    Error::NotFound { detail: format!("no consumer group {group:?} of {} has committed an offset", stream.name) }
}

fn check_name(group: &str) -> Result<()> {
    check_group_name(group).map_err(Error::invalid)
}

fn check(before: Option<&Group>, expected: &Precondition) -> Result<()> {
    match (expected, before) {
        (Precondition::None, _) | (Precondition::Exists, Some(_)) | (Precondition::Absent, None) => Ok(()),
        (Precondition::OneOf(checksums), Some(before)) if checksums.contains(&before.checksum()) => Ok(()),
        _ => Err(Error::Stale),
    }
}
