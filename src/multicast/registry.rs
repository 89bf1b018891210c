//! Registries in Redis: the registrations of tables with `registry: "redis"`, as records.
//!
//! A registration is kept as the JSON text that it is answered with. Read back, it becomes a record again, so that filters, sorts,
//! selections, media types and ETags are those of every other table. What another schema wrote is read under this one: attributes that it
//! does not name are passed over. A text that does not fit it is no registration: it is in no answer and gets no message, until it ends or
//! is replaced.
//!
//! Non-goals: how Redis is spoken to (`redis`); which of the registrations are wanted (`query`).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use super::Options;
#[cfg(feature = "redis")]
use super::redis::Client;
use super::registration::{Registered, Stay};
#[cfg(not(feature = "redis"))]
use super::without_redis::Client;
use crate::encoding::body::parse_object;
use crate::encoding::{Fields, NEVER, Record, Value, record};
use crate::error::{Error, Result};
use crate::schema::{Schema, Table};
use crate::transaction::{Database, Owned};

/// The tables that are kept in Redis. Clones share a connection and their counters.
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    client: Client,
    calls: AtomicU64,
    failed: AtomicU64,
    /// The tables of which it was said that there is a text that does not fit.
    unfit: Mutex<HashSet<u32>>,
}

/// Counters of a registry since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegistryCounters {
    /// Number of requests to it.
    pub calls: u64,
    /// Number of those that failed: it was away, full, or refused a command.
    pub failed: u64,
}

impl Registry {
    /// Connects to where the tables of a schema are kept; `None` if all are kept here. Redis need not be there yet.
    ///
    /// # Errors
    /// As [`Options::check`]; `Invalid` if a table is kept in Redis and this build has no client of it, or there is no address;
    /// `Storage` if no thread can be started.
    pub fn open(options: &Options, schema: &Schema) -> Result<Option<Self>> {
        options.check()?;
        let tables: Vec<_> =
            schema.tables.iter().filter(|table| table.in_redis).map(|table| table.name.clone()).collect();
        let Some(first) = tables.first() else { return Ok(None) };
        if !cfg!(feature = "redis") {
            return Err(Error::invalid(format!(
                "table {first} has registry: \"redis\", which needs a server with the feature redis: cargo build --release \
                 --features redis"
            )));
        }
        let Some(address) = &options.redis_addr else {
            return Err(Error::invalid(format!(
                "table {first} has registry: \"redis\", which needs --redis-addr HOST:PORT"
            )));
        };
        let client = Client::open(address, tables)?;
        Ok(Some(Self(Arc::new(Shared {
            client,
            calls: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unfit: Mutex::default(),
        }))))
    }

    /// Returns a registration, with its deadline.
    ///
    /// # Errors
    /// `Busy` if Redis is away; `Remote` if it has not answered; `Storage` if it refuses the command.
    pub fn read<'t>(&self, database: &Database, table: &'t Table, id: &str) -> Result<Option<Owned<'t>>> {
        let found = self.counted(self.0.client.get(&table.name, id))?;
        let now = database.now();
        let record = found.and_then(|(json, left_ms)| {
            let deadline = if left_ms < 0 { NEVER } else { now.saturating_add(left_ms.saturating_mul(1000)) };
            self.record(table, &json, deadline)
        });
        match record {
            Some(record) if record.has_expired(now)? => Ok(None),
            record => Ok(record),
        }
    }

    /// Registers by a JSON object, or replaces the registration with this id. Text and time to live are one step.
    ///
    /// # Errors
    /// `Invalid` id or body; as [`Registry::read`]; `Remote` if Redis is full.
    pub fn register<'t>(
        &self,
        database: &Database,
        table: &'t Table,
        id: &str,
        body: &[u8],
    ) -> Result<(Owned<'t>, Registered)> {
        let record = database.encoded(table, id, body)?;
        let registered = match stay(database, &record)? {
            Some(stay) => self.0.client.set(&table.name, id, record.json(), stay),
            // It has ended before it began.
            None => self.0.client.delete(&table.name, id).map(|existed| match existed {
                true => Registered::Replaced,
                false => Registered::Created,
            }),
        };
        self.counted(registered).map(|registered| (record, registered))
    }

    /// Registers by a JSON object if there is no registration with this id.
    ///
    /// # Errors
    /// As [`Registry::register`]; `Stale` if there is one.
    pub fn register_absent<'t>(
        &self,
        database: &Database,
        table: &'t Table,
        id: &str,
        body: &[u8],
    ) -> Result<Owned<'t>> {
        let record = database.encoded(table, id, body)?;
        let was_absent = match stay(database, &record)? {
            Some(stay) => self.0.client.set_absent(&table.name, id, record.json(), stay),
            None => self.0.client.get(&table.name, id).map(|known| known.is_none()),
        };
        match self.counted(was_absent)? {
            true => Ok(record),
            false => Err(Error::Stale),
        }
    }

    /// Removes a registration; returns whether there was one. It is carried out while Redis is full, too.
    ///
    /// # Errors
    /// As [`Registry::read`].
    pub fn unregister(&self, table: &Table, id: &str) -> Result<bool> {
        self.counted(self.0.client.delete(&table.name, id))
    }

    /// Returns all registrations of a table that end after `now`, in one round trip, without their deadlines.
    ///
    /// # Errors
    /// As [`Registry::read`].
    pub fn enumerate<'t>(&self, table: &'t Table, now: i64) -> Result<impl Iterator<Item = Owned<'t>>> {
        let texts = self.counted(self.0.client.all(&table.name, now.div_euclid(1000)))?;
        Ok(texts.into_iter().filter_map(|json| self.record(table, &json, NEVER)))
    }

    /// Returns the current counters.
    pub fn counters(&self) -> RegistryCounters {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RegistryCounters { calls: number(&self.0.calls), failed: number(&self.0.failed) }
    }

    fn counted<T>(&self, outcome: Result<T>) -> Result<T> {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        self.0.failed.fetch_add(u64::from(outcome.is_err()), Ordering::Relaxed);
        outcome
    }

    /// Returns the record with this text and deadline, if it fits the table.
    fn record<'t>(&self, table: &'t Table, json: &[u8], deadline: i64) -> Option<Owned<'t>> {
        let record = parse_object(table, json).ok().and_then(|fields| encoded(fields, deadline)).or_else(|| {
            let known = known_members(table, json)?;
            encoded(parse_object(table, &known).ok()?, deadline)
        });
        if record.is_none() && self.0.unfit.lock().insert(table.id) {
            tracing::warn!("table {}: Redis has texts that do not fit the schema, which are passed over", table.name);
        }
        record
    }
}

/// Returns how long a registration stays; `None` if it has ended.
fn stay(database: &Database, record: &Owned<'_>) -> Result<Option<Stay>> {
    let until = record.expires_at()?.unwrap_or(i64::MAX);
    let left = until.saturating_sub(database.now());
    // An expiry is given in whole milliseconds at best, and what is left of one is one.
    Ok((left > 0).then(|| Stay { left_ms: 1.max(left / 1000), until_ms: until / 1000 }))
}

/// Returns a record that has all required values.
fn encoded<'t>(mut fields: Fields<'t, '_>, deadline: i64) -> Option<Owned<'t>> {
    let is_missing = |value: &Option<Value<'_>>| matches!(value, None | Some(Value::Null));
    let table = fields.table();
    let id = &fields.values()[table.primary_key];
    if is_missing(id)
        || table.attributes.iter().zip(fields.values()).any(|(of, value)| of.required && is_missing(value))
    {
        return None;
    }
    let mut out = Vec::with_capacity(512);
    fields.set_deadline(deadline);
    record::encode(&fields, None::<&Owned<'_>>, &mut out).ok()?;
    Record::trusted(table, out).ok()
}

/// Returns a JSON object without the members that a table does not have.
fn known_members(table: &Table, json: &[u8]) -> Option<Vec<u8>> {
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(json).ok()?;
    members.retain(|name, _| table.attribute(name).is_some());
    serde_json::to_vec(&members).ok()
}
