//! The steps of each verb on one record: lock, read, check, encode, stage the record and its index entries.

use std::borrow::Cow;

use super::bodies::{
    New, Whole, check_id, check_not_null, check_required, check_same_id, encode_body, encode_new, keep_blobs, stamp,
    time_to_live,
};
use super::{
    BATCH, Database, Follower, HELD_BY_THREAD, KEY, Owned, Precondition, Read, Renewal, Replaced, Transaction, below,
    uploads,
};
use crate::encoding::record::Current;
use crate::encoding::value::{Blob, Value};
use crate::encoding::{Fields, Record, key, patch, record, url};
use crate::error::{Error, Result};
use crate::indexes;
use crate::locking::Wait;
use crate::schema::{Durability, Kind, Stamp, Table};
use crate::storage::{Pinned, Space};

/// Maximum number of staged bytes of a transaction at which it accepts another change.
const CHANGED_BYTES: usize = 128 << 20;

impl<'d> Transaction<'d> {
    /// Creates a record; an id is generated if there is none.
    ///
    /// # Errors
    /// `Invalid`; `Conflict` if the id or a unique value exists; what the engine returns.
    pub fn create<'t>(&mut self, fields: Fields<'t, '_>) -> Result<Owned<'t>> {
        self.database.check_issued(fields.table())?;
        let (after, made) = encode_new(fields, self.now())?;
        self.insert(&after, made)?;
        self.remember(after.table(), &after.id()?, Some(after.bytes()));
        Ok(after)
    }

    /// Creates a record from a JSON object, as the only verb of a transaction.
    ///
    /// # Errors
    /// As [`Transaction::create`].
    pub(super) fn create_from<'t>(&mut self, table: &'t Table, body: &[u8]) -> Result<Owned<'t>> {
        self.database.check_issued(table)?;
        let (after, made) = encode_body(table, body, || self.now())?;
        self.insert(&after, made)?;
        Ok(after)
    }

    /// Creates encoded records, as the only verb of a transaction.
    ///
    /// # Errors
    /// As [`Transaction::create`], with the index of the element at the start of pointers.
    pub(super) fn create_encoded(&mut self, records: &[New<'_>]) -> Result<()> {
        for (position, record) in records.iter().enumerate() {
            self.insert_new(record).map_err(|error| below(position, error))?;
        }
        Ok(())
    }

    /// Creates an encoded record.
    ///
    /// # Errors
    /// As [`Transaction::create`]; a refused record leaves nothing behind.
    pub(super) fn insert_new(&mut self, New { record, made }: &New<'_>) -> Result<()> {
        self.insert(record, *made)?;
        // No other verb of this transaction can know a generated id.
        if !made {
            self.remember(record.table(), &record.id()?, Some(record.bytes()));
        }
        Ok(())
    }

    /// Stages a new record with its index entries. A generated id is unknown to others, so it needs neither lock nor existence check.
    fn insert<B: AsRef<[u8]>>(&mut self, after: &Record<'_, B>, made: bool) -> Result<()> {
        let (table, id) = (after.table(), after.id()?);
        check_id(table, &id)?;
        self.check_room()?;
        if !made {
            self.hold(table.id, id.as_bytes())?;
            if self.open(table, &id)?.is_some() {
                let detail = format!("a record with id {id:?} exists in {}", table.name);
                return Err(Error::Conflict { detail, pointer: table.pointer(table.primary_key) });
            }
        }
        self.claim_uniques(&id, None::<&Owned<'_>>, after)?;
        indexes::add(self.database.store(), &mut self.batch, &id, after)?;
        self.stage(table, &id, after.bytes());
        Ok(())
    }

    /// Replaces a record or creates it; the flag is true if it was created.
    ///
    /// # Errors
    /// `Invalid`; `Stale` or `NotFound` if the precondition fails; `Conflict`; what the engine returns.
    pub fn replace<'t, 'f>(
        &mut self,
        id: &'f str,
        mut fields: Fields<'t, 'f>,
        expected: &Precondition,
    ) -> Result<(Owned<'t>, bool)> {
        let table = fields.table();
        self.database.check_issued(table)?;
        check_id(table, id)?;
        check_same_id(id, &fields)?;
        fields.values_mut()[table.primary_key] = Some(Value::Text(Cow::Borrowed(id)));
        self.hold(table.id, id.as_bytes())?;
        let before = self.open(table, id)?;
        check_precondition(table, id, before.as_ref(), expected)?;
        keep_blobs(&mut fields, before.as_ref())?;
        // Omitted attributes become null, except those that the server maintains, and blobs, which a body cannot contain.
        for (position, field) in fields.values_mut().iter_mut().enumerate() {
            let attribute = &table.attributes[position];
            let kept = attribute.stamp == Some(Stamp::Created) || attribute.kind == Kind::Blob;
            if field.is_none() && !(kept && before.is_some()) {
                *field = Some(Value::Null);
            }
        }
        stamp(&mut fields, before.as_ref(), self.now())?;
        check_required(&fields)?;
        let created = before.is_none();
        self.write(id, &fields, before.as_ref()).map(|after| (after, created))
    }

    /// Replaces or creates records, as the only verb of a transaction.
    ///
    /// # Errors
    /// As [`Transaction::replace`], with the index of the element at the start of pointers.
    pub(super) fn replace_each(&mut self, records: &[Whole<'_, '_>]) -> Result<Replaced> {
        let mut all = Replaced::default();
        for (position, Whole { id, fields }) in records.iter().enumerate() {
            let created = match id {
                Some(id) => self.replace(id, fields.clone(), &Precondition::None).map(|(_, created)| created),
                None => self.create(fields.clone()).map(|_| true),
            };
            match created.map_err(|error| below(position, error))? {
                true => all.created += 1,
                false => all.replaced += 1,
            }
        }
        Ok(all)
    }

    /// Merges `fields` into a record; objects in `Any` attributes are merged member by member.
    ///
    /// # Errors
    /// `NotFound`; `Invalid`; `Stale` if the precondition fails; `Conflict`; what the engine returns.
    pub fn merge<'t>(&mut self, id: &str, fields: Fields<'t, '_>, expected: &Precondition) -> Result<Owned<'t>> {
        let table = fields.table();
        self.database.check_issued(table)?;
        self.hold(table.id, id.as_bytes())?;
        let before = self.open(table, id)?;
        check_precondition(table, id, before.as_ref(), expected)?;
        let before = before.ok_or_else(|| not_found(table, id))?;
        self.merge_into(id, fields, &before)
    }

    /// Reads a record and merges the patch that `change` computes.
    ///
    /// # Errors
    /// `NotFound`; what `change` returns; `Invalid` if the patch is for another table; as [`Transaction::merge`].
    pub fn update<'t>(
        &mut self,
        table: &'t Table,
        id: &str,
        change: impl Fn(Record<'t, &[u8]>) -> Result<Fields<'t, 'static>>,
    ) -> Result<Owned<'t>> {
        self.database.check_issued(table)?;
        self.hold(table.id, id.as_bytes())?;
        let before = self.open(table, id)?.ok_or_else(|| not_found(table, id))?;
        let fields = change(before.view())?;
        if !std::ptr::eq(fields.table(), table) {
            return Err(Error::invalid(format!(
                "a change of {} cannot be merged into {}",
                fields.table().name,
                table.name
            )));
        }
        self.merge_into(id, fields, &before)
    }

    /// Deletes a record.
    ///
    /// # Errors
    /// `NotFound`; `Stale` if the precondition fails; what the engine returns.
    pub fn delete(&mut self, table: &Table, id: &str, expected: &Precondition) -> Result<()> {
        self.database.check_issued(table)?;
        self.hold(table.id, id.as_bytes())?;
        let before = self.open(table, id)?;
        check_precondition(table, id, before.as_ref(), expected)?;
        let before = before.ok_or_else(|| not_found(table, id))?;
        self.remove(table, id, &before)
    }

    /// Deletes a record if it exists and `accept` accepts it; returns whether it did.
    ///
    /// # Errors
    /// What `accept` returns; what the engine returns.
    pub(super) fn delete_if(
        &mut self,
        table: &Table,
        id: &str,
        accept: impl Fn(&Record<'_, &[u8]>) -> Result<bool>,
    ) -> Result<bool> {
        self.hold(table.id, id.as_bytes())?;
        match self.open(table, id)? {
            Some(before) if accept(&before.view())? => self.remove(table, id, &before).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Merges a patch into a record if it exists and `accept` accepts it; returns whether it did.
    ///
    /// # Errors
    /// What `accept` returns; as [`Transaction::merge`].
    pub(super) fn merge_if(
        &mut self,
        id: &str,
        patch: &Fields<'_, '_>,
        accept: impl Fn(&Record<'_, &[u8]>) -> Result<bool>,
    ) -> Result<bool> {
        let table = patch.table();
        self.hold(table.id, id.as_bytes())?;
        match self.open(table, id)? {
            Some(before) if accept(&before.view())? => self.merge_into(id, patch.clone(), &before).map(|_| true),
            _ => Ok(false),
        }
    }

    /// Merges a patch into a record if it exists, `accept` accepts it, and nobody else has it locked; returns it then.
    ///
    /// # Errors
    /// What `accept` returns; as [`Transaction::merge`].
    pub(crate) fn claim<'t>(
        &mut self,
        id: &str,
        patch: &Fields<'t, '_>,
        accept: impl Fn(&Record<'_, &[u8]>) -> Result<bool>,
    ) -> Result<Option<Owned<'t>>> {
        let table = patch.table();
        if !self.hold_if_free(table.id, id.as_bytes()) {
            return Ok(None);
        }
        match self.open(table, id)? {
            Some(before) if accept(&before.view())? => self.merge_into(id, patch.clone(), &before).map(Some),
            _ => Ok(None),
        }
    }

    /// Makes a Blob refer to an upload, or to none.
    ///
    /// # Errors
    /// As [`Database::set_blob`](super::Database::set_blob).
    pub(super) fn set_blob(
        &mut self,
        table: &Table,
        id: &str,
        attribute: usize,
        upload: Option<u64>,
        accept: impl Fn(&mut Self, Option<u64>) -> Result<()>,
    ) -> Result<()> {
        self.database.check_issued(table)?;
        if !table.blobs.contains(&attribute) {
            return Err(Error::invalid(format!("the attribute of table {} is not a Blob", table.name)));
        }
        self.hold(table.id, id.as_bytes())?;
        let before = self.open(table, id)?.ok_or_else(|| not_found(table, id))?;
        accept(self, before.upload(attribute))?;
        if upload.is_some_and(|upload| self.database.shared.uploads.is_retired(table.id, upload)) {
            let detail = format!("all records of {} were deleted while the blob was uploaded", table.name);
            return Err(Error::NotFound { detail });
        }
        let mut fields = Fields::of(table);
        fields.values_mut()[attribute] = Some(upload.map_or(Value::Null, |upload| {
            let path = url::blob(&table.name, id, &table.attributes[attribute].name);
            Value::Blob(Blob { path: Cow::Owned(path), upload })
        }));
        stamp(&mut fields, Some(&before), self.now())?;
        self.write(id, &fields, Some(&before)).map(drop)
    }

    /// Deletes a record if it exists and has expired; returns whether it did.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged, in which case nothing is staged; what the engine returns.
    pub(super) fn reclaim(&mut self, table: &Table, id: &str) -> Result<bool> {
        self.hold(table.id, id.as_bytes())?;
        match self.stored(table, id)? {
            Some(record) if record.has_expired(self.now())? => self.remove(table, id, &record).map(|()| true),
            _ => Ok(false),
        }
    }

    /// Renews a record if that is due.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged, in which case nothing is staged; what the engine returns.
    pub(super) fn renew(&mut self, table: &Table, id: &str) -> Result<Renewal> {
        self.hold(table.id, id.as_bytes())?;
        let now = self.now();
        let Some(before) = self.stored(table, id)? else { return Ok(Renewal::NotNeeded) };
        if before.has_expired(now)? {
            return Ok(Renewal::NotNeeded);
        }
        let (Some(time_to_live), Some(deadline)) = (time_to_live(&before)?, before.deadline()) else {
            return Ok(Renewal::NotNeeded);
        };
        let due = deadline.saturating_sub(time_to_live / 3 * 2);
        if now < due {
            return Ok(Renewal::DueAt(due));
        }
        // Long records take several transactions.
        if self.check_room().is_err() {
            return Ok(Renewal::DueAt(now));
        }
        let after = before.renewed(now.saturating_add(time_to_live))?;
        indexes::change(self.database.store(), self.database.tier, &mut self.batch, id, &before, &after)?;
        KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            self.database.store().put(&mut self.batch, Space::Records, key, after.bytes());
        });
        Ok(Renewal::Renewed { due: now.saturating_add(time_to_live / 3) })
    }

    /// Stages the deletion of a record.
    fn remove<B: AsRef<[u8]>>(&mut self, table: &Table, id: &str, before: &Record<'_, B>) -> Result<()> {
        self.check_room()?;
        indexes::remove(self.database.store(), self.database.tier, &mut self.batch, id, before)?;
        self.release_uniques(before)?;
        self.remove_blobs(before, None::<&Owned<'_>>);
        KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            self.database.store().delete(&mut self.batch, Space::Records, key);
        });
        self.remember(table, id, None);
        self.durability = self.durability.max(table.durability);
        Ok(())
    }

    /// Reads a record, including this transaction's own writes, and keeps it locked until the end.
    ///
    /// # Errors
    /// `Corrupt`; what the engine returns.
    pub fn read<'t>(&mut self, table: &'t Table, id: &str) -> Result<Option<Owned<'t>>> {
        self.database.check_issued(table)?;
        self.hold(table.id, id.as_bytes())?;
        self.open(table, id)?.map(|record| Record::trusted(table, record.bytes().to_vec())).transpose()
    }

    /// Stages a record that is written to stand in the log: the same batch deletes it, unless it is kept until [`Transaction::let_go`].
    ///
    /// # Errors
    /// As [`record::encode`].
    pub(crate) fn pass_through(&mut self, id: &str, fields: &Fields<'_, '_>, is_kept: bool) -> Result<()> {
        let (table, mut out) = (fields.table(), Vec::new());
        let record = record::encode(fields, None::<&Owned<'_>>, &mut out)?;
        self.stage(table, id, record.bytes());
        if !is_kept {
            KEY.with_borrow(|key| self.database.store().delete(&mut self.batch, Space::Records, key));
        }
        Ok(())
    }

    /// Stages the delete of a record that was kept. Nobody else has its id.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "without it none is kept"))]
    pub(crate) fn let_go(&mut self, table: &Table, id: &str) {
        KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            self.database.store().delete(&mut self.batch, Space::Records, key);
        });
    }

    /// Stages a put.
    pub(crate) fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.database.store().put(&mut self.batch, space, key, value);
    }

    /// Stages the delete of a key.
    pub(crate) fn delete_key(&mut self, space: Space, key: &[u8]) {
        self.database.store().delete(&mut self.batch, space, key);
    }

    /// Stages a delete of the keys from `lower` up to but not including `upper`.
    pub(crate) fn delete_range(&mut self, space: Space, lower: &[u8], upper: &[u8]) {
        self.database.store().delete_range(&mut self.batch, space, lower, upper);
    }

    /// Returns whether it would write nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Says that it gives back more space than it takes.
    pub(crate) fn give_back(&mut self) {
        self.batch.set_gives_back();
    }

    /// Makes the transaction at least this durable.
    pub(crate) fn require(&mut self, durability: Durability) {
        self.durability = self.durability.max(durability);
    }

    /// Has something follow the batch: one for all of it.
    pub(crate) fn follow_by(&mut self, follower: Box<dyn Follower>) {
        self.follower = Some(follower);
    }

    /// Returns the database.
    pub(crate) fn database(&self) -> &'d Database {
        self.database
    }

    /// Writes the batch.
    pub(super) fn commit(mut self) -> Result<()> {
        let Some(follower) = self.follower.take() else {
            return match self.batch.is_empty() {
                true => Ok(()),
                false => self.database.write(&mut self.batch, self.durability),
            };
        };
        let outcome = match self.batch.is_empty() {
            true => Ok(()),
            false => self.database.write(&mut self.batch, Durability::Soft),
        };
        match &outcome {
            Ok(()) => follower.written(),
            // Refused before it was begun.
            Err(Error::Busy { .. } | Error::WouldBlock | Error::Invalid { .. } | Error::Raced) => {}
            Err(_) => follower.failed(),
        }
        outcome?;
        let (database, durability) = (self.database, self.durability);
        // Nobody else waits for the sync.
        drop(self);
        if durability == Durability::Strong { database.sync_for(follower) } else { Ok(()) }
    }

    fn merge_into<'t, B: AsRef<[u8]>>(
        &mut self,
        id: &str,
        mut fields: Fields<'t, '_>,
        before: &Record<'t, B>,
    ) -> Result<Owned<'t>> {
        check_same_id(id, &fields)?;
        let table = fields.table();
        let values = fields.values_mut();
        values[table.primary_key] = None; // It stays as it is.
        for (position, attribute) in table.attributes.iter().enumerate() {
            if attribute.kind == Kind::Any
                && let Some(change) = values[position].take()
            {
                values[position] = Some(patch::merge(&before.value(position)?, change));
            }
        }
        stamp(&mut fields, Some(before), self.now())?;
        keep_blobs(&mut fields, Some(before))?;
        check_not_null(&fields)?;
        self.write(id, &fields, Some(before))
    }

    /// Encodes a new version of a record and stages it with its index entries.
    fn write<'t, B: AsRef<[u8]>>(
        &mut self,
        id: &str,
        fields: &Fields<'t, '_>,
        before: Option<&Record<'t, B>>,
    ) -> Result<Owned<'t>> {
        self.check_room()?;
        let (table, mut out) =
            (fields.table(), Vec::with_capacity(before.map_or(1280, |before| before.bytes().len() + 64)));
        let after = record::encode(fields, before, &mut out)?;
        self.claim_uniques(id, before, &after)?;
        let (store, tier) = (self.database.store(), self.database.tier);
        match before {
            Some(before) => {
                indexes::change(store, tier, &mut self.batch, id, before, &after)?;
                self.remove_blobs(before, Some(&after));
            }
            None => indexes::add(store, &mut self.batch, id, &after)?,
        }
        self.stage(table, id, after.bytes());
        self.remember(table, id, Some(after.bytes()));
        Record::trusted(table, out)
    }

    /// Refuses another change once the limit of staged bytes is reached: a short patch may extend a long record, a short record may have
    /// thousands of index entries, and there may be thousands of records.
    fn check_room(&self) -> Result<()> {
        if self.batch.bytes() >= CHANGED_BYTES {
            let detail = format!("a transaction is limited to {} MiB of changes: split it", CHANGED_BYTES >> 20);
            return Err(Error::invalid(detail));
        }
        Ok(())
    }

    /// Stages the deletion of the uploads to which only the previous version refers.
    fn remove_blobs<B: AsRef<[u8]>, A: AsRef<[u8]>>(&mut self, before: &Record<'_, B>, after: Option<&Record<'_, A>>) {
        let table = before.table();
        for &attribute in &table.blobs {
            let (was, is) = (before.upload(attribute), after.and_then(|after| after.upload(attribute)));
            if let Some(upload) = was.filter(|_| was != is) {
                let now = self.now();
                uploads::remove_bytes(self.database.store(), &mut self.batch, table.id, upload, now);
            }
        }
    }

    fn stage(&mut self, table: &Table, id: &str, bytes: &[u8]) {
        KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            self.database.store().put(&mut self.batch, Space::Records, key, bytes);
        });
        self.durability = self.durability.max(table.durability);
    }

    /// Records a write for later reads in the same transaction.
    fn remember(&mut self, table: &Table, id: &str, bytes: Option<&[u8]>) {
        if let Some(written) = &mut self.written {
            let mut key = Vec::with_capacity(4 + id.len());
            key::record(table.id, id, &mut key);
            written.records.insert(key, bytes.map(<[u8]>::to_vec));
        }
    }

    /// Takes the lock of a key if it is free; otherwise records which one is wanted.
    pub(crate) fn hold(&mut self, space: u32, key: &[u8]) -> Result<()> {
        if self.hold_if_free(space, key) {
            return Ok(());
        }
        self.wanted = Some(self.database.shared.locks.slot(space, key));
        Err(Error::WouldBlock)
    }

    /// Takes the lock of a key if it is free; returns whether this transaction has it.
    fn hold_if_free(&mut self, space: u32, key: &[u8]) -> bool {
        let locks = &self.database.shared.locks;
        let slot = locks.slot(space, key);
        match locks.lock(slot, Wait::No) {
            Some(guard) => {
                self.guards.push(guard);
                HELD_BY_THREAD.with_borrow_mut(|held| held.push((&raw const *locks, slot)));
                true
            }
            // Checked only now: a transaction of many keys has many locks.
            None => self.guards.contains(slot),
        }
    }

    /// Returns a record as this transaction sees it. An expired one does not exist: it is deleted together with the other changes.
    pub(super) fn open<'t>(&mut self, table: &'t Table, id: &str) -> Result<Option<Read<'t, 'd>>> {
        let Some(record) = self.stored(table, id)? else { return Ok(None) };
        if table.expires() && record.has_expired(self.now())? {
            if !self.database.store().is_read_only() {
                self.remove(table, id, &record)?;
            }
            return Ok(None);
        }
        Ok(Some(record))
    }

    /// Reads what will be needed, if the store is remote: all of it in one request.
    pub(super) fn read_ahead(&mut self, keys: &[(Space, Vec<u8>)]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        self.database.store().read_ahead(&mut self.batch, keys, self.database.tier)
    }

    /// Reads a value on which this transaction depends.
    ///
    /// # Errors
    /// As [`Store::get_for`](crate::storage::Store::get_for).
    pub(crate) fn get(&mut self, space: Space, key: &[u8]) -> Result<Option<Pinned<'d>>> {
        self.database.store().get_for(&mut self.batch, space, key, self.database.tier)
    }

    /// Returns a record as stored, or as written by this transaction.
    fn stored<'t>(&mut self, table: &'t Table, id: &str) -> Result<Option<Read<'t, 'd>>> {
        KEY.with_borrow_mut(|key| {
            key::record(table.id, id, key);
            if let Some(bytes) = self.written.as_ref().and_then(|written| written.records.get(key)) {
                return bytes.clone().map(|bytes| Record::trusted(table, Current::Rewritten(bytes))).transpose();
            }
            let database = self.database;
            let stored = database.store().get_for(&mut self.batch, Space::Records, key, database.tier)?;
            stored.map(|bytes| Record::open(table, bytes)).transpose()
        })
    }

    /// Returns the time of this transaction, in microseconds since 1970. It is read when it is first needed.
    pub(crate) fn now(&self) -> i64 {
        *self.now.get_or_init(|| self.database.now())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.batch.clear();
        BATCH.set(std::mem::take(&mut self.batch));
        HELD_BY_THREAD.with_borrow_mut(|held| held.truncate(self.held_before));
    }
}

fn not_found(table: &Table, id: &str) -> Error {
    Error::NotFound { detail: format!("there is no record {id:?} in {}", table.name) }
}

fn check_precondition<B: AsRef<[u8]>>(
    table: &Table,
    id: &str,
    before: Option<&Record<'_, B>>,
    expected: &Precondition,
) -> Result<()> {
    match (expected, before) {
        (Precondition::None, _) | (Precondition::Exists, Some(_)) | (Precondition::Absent, None) => Ok(()),
        (Precondition::OneOf(checksums), Some(before)) if checksums.contains(&before.checksum()) => Ok(()),
        (Precondition::OneOf(_) | Precondition::Absent, Some(_)) => Err(Error::Stale),
        (Precondition::OneOf(_) | Precondition::Exists, None) => Err(not_found(table, id)),
    }
}
