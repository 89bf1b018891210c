//! The servers that have a database open, if it is a remote one: who lives, with which catalogue, and who does the background work.
//!
//! ```text
//! member/[server]  -> address, and until when its lease lasts, by the clock of the database
//! members          -> a number that each one that joins increases, so that joining and changing the catalogue race
//! worker           -> the server that does the background work, or none, and an epoch
//! fence/[server]   -> nothing; without it the database opens no connection for the server
//! ```
//! **A lease** lasts ten seconds and is renewed every three. A server knows the end of its own by its monotonic clock, from before it asked
//! for the time of the database; without a lease it writes nothing (`storage`), so whoever sees a lease that has ended sees all that its
//! server has written, but for a commit that was under way, or by a machine that was stopped and does not know. So before the catalogue is
//! changed, the fences of such servers are removed, and then their sessions ended: what they read or write after that is refused.
//!
//! **The catalogue** is changed where it was read. A schema that changes it is refused while other servers live. At each renewal a server
//! takes over the states of indexes that the worker has set. One that has not heard of a change yet is no danger: it maintains an index
//! that it thinks is being built, does not read it, and refuses new unique values.
//!
//! **The worker** is the server that found no living one. Each piece of its work depends on its row, so one that was deposed cannot write.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::catalogue::format::{CATALOGUE, Catalogue, StoredState};
use super::uploads::Listed;
use super::{Database, Parts};
use crate::encoding::key;
use crate::error::{Error, Result};
use crate::schema::{Durability, IndexState};
use crate::storage::{Batch, ReadTier, Space, Store};

/// How long a server may write after it has read the clock of the database.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// How often a lease is renewed, and how soon after that has failed.
const RENEWED_EVERY: Duration = Duration::from_secs(3);
const RETRIED_AFTER: Duration = Duration::from_millis(500);

/// How long what a server has left is kept, in microseconds: one that only slept may still ask what became of a commit.
const KEPT_FOR: i64 = 10 * 60 * 1_000_000;

/// A larger difference to the clock of the database is said, in microseconds: records expire by each server's own.
const CLOCKS_APART: i64 = 1_000_000;

const MEMBER: &[u8] = b"member/";
const JOINED: &[u8] = b"members";
const WORKER: &[u8] = b"worker";
const FENCE: &[u8] = b"fence/";
const RECEIPT: &[u8] = b"receipt/";

/// How many receipts a server that joins looks at.
const REMOVED_RECEIPTS: usize = 5000;

/// The worker where there is none.
const NOBODY: ServerId = [0; 16];

/// The number of a server, which no other has.
type ServerId = [u8; 16];

/// A row of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Member {
    address: String,
    /// The end of its lease, in microseconds since 1970.
    until: i64,
}

/// The row of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Worker {
    server: ServerId,
    epoch: u64,
}

/// What this server knows of the others.
pub(super) struct Members {
    address: String,
    known: Mutex<Known>,
    /// Ends the thread that renews the lease.
    stop: Mutex<Option<Sender<()>>>,
}

#[derive(Default)]
struct Known {
    /// The catalogue without the states of indexes, with which this server works.
    shape: String,
    /// The addresses of all that lived at the last renewal.
    living: Vec<String>,
    worker: Option<Worker>,
    worker_address: Option<String>,
    /// Whether it was said that the clocks differ.
    said_clock: bool,
}

/// The servers of a database, as one of them has last seen them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cluster {
    /// The kind of database.
    pub engine: &'static str,
    /// The addresses of the servers that live.
    pub members: Vec<String>,
    /// The address of the one that does the background work.
    pub worker: Option<String>,
    /// How long this server may write without hearing of the database, in milliseconds; 0 if it may not.
    pub lease_ms: u64,
}

impl Members {
    pub(super) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), known: Mutex::default(), stop: Mutex::default() }
    }

    /// Stages that this server is one of them, in the batch that read the catalogue, and perhaps writes it; returns from when on its lease
    /// is reckoned.
    ///
    /// # Errors
    /// `Invalid` if the catalogue, of which `stored` was read, is changed while others live; `Raced` if another one was faster; what the engine
    /// returns.
    pub(super) fn join(
        &self,
        store: &Store,
        batch: &mut Batch,
        (catalogue, stored): (&Catalogue, Option<&[u8]>),
        is_changed: bool,
    ) -> Result<Instant> {
        let (begun, now) = (Instant::now(), store.clock()?);
        self.bump(store, batch)?;
        let rows = rows(store)?;
        let living: Vec<_> = rows.values().filter(|row| row.until > now).map(|row| &row.address[..]).collect();
        if is_changed && !living.is_empty() {
            // Servers that are started together find an empty database, and one of them is the first.
            if store.get(Space::Meta, CATALOGUE, ReadTier::Disk)?.as_deref() != stored {
                return Err(Error::Raced);
            }
            return Err(others(&living, ["runs with another schema", "run with another schema"]));
        }
        if is_changed && !rows.is_empty() {
            // What they wrote until then counts for what is changed, so all is read again.
            rows.iter().try_for_each(|(server, row)| expel(store, server, row))?;
            return Err(Error::Raced);
        }
        if is_changed {
            depose(store, batch)?;
        }
        remove_receipts(store, batch, &rows)?;
        self.put(store, batch, now)?;
        store.put(batch, Space::Meta, &[FENCE, &own(store)].concat(), b"");
        self.known.lock().shape = catalogue.shape()?;
        Ok(begun)
    }

    fn bump(&self, store: &Store, batch: &mut Batch) -> Result<()> {
        let joined = store.get_for(batch, Space::Meta, JOINED, ReadTier::Disk)?;
        let joined = joined.and_then(|bytes| Some(u64::from_le_bytes((*bytes).try_into().ok()?))).unwrap_or_default();
        store.put(batch, Space::Meta, JOINED, &(joined + 1).to_le_bytes());
        Ok(())
    }

    fn put(&self, store: &Store, batch: &mut Batch, now: i64) -> Result<()> {
        let row = Member { address: self.address.clone(), until: now + LEASE.as_micros() as i64 };
        store.put(batch, Space::Meta, &key_of(&own(store)), &json(&row)?);
        batch.set_needs_no_lease();
        Ok(())
    }

    /// Starts the thread that renews the lease.
    ///
    /// # Errors
    /// `Storage` if it cannot be started.
    pub(super) fn start(parts: &Arc<Parts>) -> Result<()> {
        let ((stop, stopped), weak) = (channel(), Arc::downgrade(parts));
        let thread = std::thread::Builder::new().name("strata-members".to_owned());
        let started = thread.spawn(move || renew_until(&stopped, &weak));
        started.map_err(|error| Error::storage("cannot start a thread for the database", error))?;
        *parts.members.stop.lock() = Some(stop);
        Ok(())
    }

    /// Removes the row of this server, and what it does for all: another one does it then.
    pub(super) fn leave(&self, store: &Store) {
        drop(self.stop.lock().take());
        let own = own(store);
        let left = store.atomically(Durability::Strong, |batch| {
            batch.set_needs_no_lease();
            store.delete(batch, Space::Meta, &key_of(&own));
            store.delete(batch, Space::Meta, &[FENCE, &own].concat());
            if worker(store, batch)?.is_some_and(|worker| worker.server == own) {
                depose(store, batch)?;
            }
            Ok(())
        });
        if let Err(error) = left {
            tracing::warn!("this server could not leave the others, who wait {} s for it: {error}", LEASE.as_secs());
        }
    }
}

fn renew_until(stopped: &Receiver<()>, parts: &Weak<Parts>) {
    let (mut wait, mut has_failed) = (RENEWED_EVERY, false);
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
        let Some(parts) = parts.upgrade() else { return };
        parts.store.come_first();
        let outcome = Database::of(parts).renew_lease();
        match &outcome {
            Err(error) if !has_failed => tracing::error!("the lease of this server cannot be renewed: {error}"),
            Ok(()) if has_failed => tracing::info!("the lease of this server is renewed again"),
            _ => {}
        }
        has_failed = outcome.is_err();
        wait = if has_failed { RETRIED_AFTER } else { RENEWED_EVERY };
    }
}

impl Database {
    /// Renews the lease of this server at a remote store, takes over what the worker has done, and the work itself if nobody lives who does
    /// it. A thread of the database does that every few seconds.
    ///
    /// # Errors
    /// `Invalid` if the schema was changed since the lease has ended: the server has to be started again; what the engine returns.
    pub fn renew_lease(&self) -> Result<()> {
        let (store, members) = (self.store(), &self.shared.members);
        let (mut begun, mut seen) = (Instant::now(), None);
        store.atomically(Durability::Strong, |batch| {
            begun = Instant::now();
            let now = store.clock()?;
            let own_row = key_of(&own(store));
            let keys = [CATALOGUE, WORKER, JOINED, &own_row].map(|key| (Space::Meta, key.to_vec()));
            store.read_ahead(batch, &keys, ReadTier::Disk)?;
            let catalogue = Catalogue::stored(store, batch)?;
            if catalogue.shape()? != members.known.lock().shape {
                store.set_outdated();
                return Err(Error::invalid(
                    "another server has changed the schema since this one had a lease: start it again",
                ));
            }
            let (rows, own) = (rows(store)?, own(store));
            // Who ends this server changes its row, too.
            store.get_for(batch, Space::Meta, &key_of(&own), ReadTier::Disk)?;
            let living: BTreeMap<_, _> = rows.iter().filter(|(id, row)| row.until > now || **id == own).collect();
            let found = worker(store, batch)?;
            let lives = found.as_ref().is_some_and(|worker| living.contains_key(&worker.server));
            let worker = match found {
                Some(worker) if lives => worker,
                found => {
                    let epoch = found.map_or(0, |worker| worker.epoch) + 1;
                    let own = Worker { server: own, epoch };
                    store.put(batch, Space::Meta, WORKER, &json(&own)?);
                    own
                }
            };
            if !rows.contains_key(&own) {
                members.bump(store, batch)?;
            }
            members.put(store, batch, now)?;
            let is_own = worker.server == own;
            let address = if is_own {
                Some(members.address.clone())
            } else {
                living.get(&worker.server).map(|row| row.address.clone())
            };
            let mut addresses: Vec<_> =
                living.iter().filter(|(id, _)| **id != &own).map(|(_, row)| row.address.clone()).collect();
            addresses.push(members.address.clone());
            addresses.sort_unstable();
            seen = Some((catalogue, addresses, worker, address, now));
            Ok(())
        })?;
        store.set_lease(Some(begun + LEASE));
        let Some((catalogue, living, worker, worker_address, now)) = seen else { return Ok(()) };
        let is_worker = worker.server == own(store);
        let is_new = members.known.lock().worker.as_ref() != Some(&worker);
        if is_worker && is_new {
            // As its last worker has left it.
            self.shared.background.lock().replace(catalogue.clone());
        }
        if is_new || !is_worker {
            self.take_over(&catalogue)?;
        }
        let apart = self.now() - now;
        let mut known = members.known.lock();
        if apart.abs() > CLOCKS_APART && !known.said_clock {
            tracing::warn!("the clock of this server and that of the database are {} ms apart", apart / 1000);
        }
        known.said_clock = apart.abs() > CLOCKS_APART;
        (known.living, known.worker, known.worker_address) = (living, Some(worker), worker_address);
        Ok(())
    }

    /// Takes over the states of indexes.
    fn take_over(&self, catalogue: &Catalogue) -> Result<()> {
        for index in self.schema().tables.iter().flat_map(|table| &table.indexes) {
            match catalogue.state_of(index.id) {
                Some(StoredState::Ready) if !matches!(index.state(), IndexState::Ready { .. }) => {
                    index.set_state(IndexState::Ready { since: self.store().latest_sequence()? });
                }
                Some(StoredState::Building { records, .. }) => index.set_built_records(*records),
                Some(StoredState::Failed { .. }) => index.set_state(IndexState::Failed),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether this server does the background work: of an embedded store, always.
    pub(super) fn is_worker(&self) -> bool {
        let own = || own(self.store());
        !self.store().is_remote()
            || self.shared.members.known.lock().worker.as_ref().is_some_and(|worker| worker.server == own())
    }

    /// Makes a batch depend on this server's doing the background work.
    ///
    /// # Errors
    /// `Busy` if it does not any more.
    pub(super) fn depend_on_worker(&self, batch: &mut Batch) -> Result<()> {
        if !self.store().is_remote() {
            return Ok(());
        }
        let known = self.shared.members.known.lock().worker.clone();
        if worker(self.store(), batch)? == known {
            return Ok(());
        }
        self.shared.members.known.lock().worker = None;
        Err(Error::Busy { detail: "another server does the background work now".to_owned() })
    }

    /// Removes what servers have left that do not live: their uploads, the bytes of blobs that were replaced, and in time all that speaks of
    /// them.
    ///
    /// # Errors
    /// What the engine returns.
    pub(super) fn remove_left(&self) -> Result<()> {
        let store = self.store();
        let listed = super::uploads::listed(store)?;
        // After the list: whoever has put something on it has joined before.
        let (rows, now) = (rows(store)?, store.clock()?);
        let lives = |server: &ServerId| rows.get(server).is_some_and(|row| row.until > now);
        for upload in &listed {
            if upload.is_left(self.now(), lives) && self.claims(upload)? {
                super::uploads::remove(store, upload.table, upload.number)?;
            }
        }
        let dead = rows.iter().filter(|(_, row)| row.until + KEPT_FOR < now);
        for (server, row) in dead {
            match expel(store, server, row) {
                Ok(()) | Err(Error::Raced) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes an upload from the server that has it under way, if that does not live: it can not be finished any more. Returns whether it can
    /// be removed.
    fn claims(&self, upload: &Listed) -> Result<bool> {
        let Some(server) = upload.server() else { return Ok(true) };
        let (store, listed) = (self.store(), key::under_way(upload.table, upload.number));
        store.atomically(Durability::Soft, |batch| {
            self.depend_on_worker(batch)?;
            let row = store.get_for(batch, Space::Meta, &key_of(server), ReadTier::Disk)?;
            let row: Option<Member> = row.map(|bytes| serde_json::from_slice(&bytes).map_err(damaged)).transpose()?;
            let stored = store.get_for(batch, Space::Blobs, &listed, ReadTier::Disk)?;
            let is_left = row.is_none_or(|row| row.until < store.clock().unwrap_or_default());
            if !is_left || stored.as_deref() != Some(&server[..]) {
                return Ok(false);
            }
            store.put(batch, Space::Blobs, &listed, &0i64.to_le_bytes());
            Ok(true)
        })
    }

    /// Ends the lease of this server, for tests.
    #[cfg(feature = "simulated")]
    pub fn end_lease(&self) {
        self.store().set_lease(None);
    }

    /// Removes the row of this server without its knowing, as if its lease had ended, for tests.
    ///
    /// # Errors
    /// What the engine returns.
    #[cfg(feature = "simulated")]
    pub fn forget_member_row(&self) -> Result<()> {
        let mut batch = Batch::default();
        self.store().delete(&mut batch, Space::Meta, &key_of(&own(self.store())));
        self.store().write(&mut batch, Durability::Soft)
    }

    /// Returns the servers that have the database open, if it is a remote one.
    pub fn cluster(&self) -> Option<Cluster> {
        let lease = self.store().lease()?;
        let known = self.shared.members.known.lock();
        Some(Cluster {
            engine: self.store().engine(),
            members: known.living.clone(),
            worker: known.worker_address.clone(),
            lease_ms: lease.as_millis() as u64,
        })
    }
}

/// Ends a server that does not live, for good.
///
/// # Errors
/// `Raced` if it lives after all; what the engine returns.
fn expel(store: &Store, server: &ServerId, row: &Member) -> Result<()> {
    let is_ended = store.atomically(Durability::Strong, |batch| {
        batch.set_needs_no_lease();
        let stored = store.get_for(batch, Space::Meta, &key_of(server), ReadTier::Disk)?;
        if stored.as_deref() != Some(&json(row)?[..]) {
            return Ok(false);
        }
        store.delete(batch, Space::Meta, &key_of(server));
        store.delete(batch, Space::Meta, &[FENCE, &server[..]].concat());
        Ok(true)
    })?;
    if !is_ended {
        return Err(Error::Raced);
    }
    store.end_sessions_of(server)
}

/// Stages the removal of receipts of servers that have no row any more. They are deleted as any other key: what they say of transactions that
/// are done and not finished yet has to last (TiKV).
fn remove_receipts(store: &Store, batch: &mut Batch, rows: &BTreeMap<ServerId, Member>) -> Result<()> {
    let (own, snapshot) = (own(store), store.snapshot(ReadTier::Disk)?);
    let mut scan = store.scan(Space::Meta, RECEIPT, b"receipt0", &snapshot, ReadTier::Disk);
    for _ in 0..REMOVED_RECEIPTS {
        let Some((key, _)) = scan.next()? else { break };
        let server = key.get(RECEIPT.len()..RECEIPT.len() + own.len()).and_then(|id| ServerId::try_from(id).ok());
        if server.is_some_and(|server| server != own && !rows.contains_key(&server)) {
            store.delete(batch, Space::Meta, key);
        }
    }
    Ok(())
}

/// Stages that nobody does the background work. The epoch goes on, so that no server takes its own old row for a new one.
fn depose(store: &Store, batch: &mut Batch) -> Result<()> {
    let epoch = worker(store, batch)?.map_or(0, |worker| worker.epoch);
    store.put(batch, Space::Meta, WORKER, &json(&Worker { server: NOBODY, epoch })?);
    Ok(())
}

/// Has the database work for this server only as long as nobody has ended it.
pub(super) fn set_fence(store: &Store) {
    store.set_fence(Space::Meta, &[FENCE, &own(store)].concat());
}

/// Returns whether any server has a remote store open.
///
/// # Errors
/// What the engine returns.
pub(super) fn has_living(store: &Store) -> Result<bool> {
    let (now, rows) = (store.clock()?, rows(store)?);
    Ok(rows.values().any(|row| row.until > now))
}

/// Checks that no server has a remote store open, before something reads all of it as if it stood still.
///
/// # Errors
/// `Invalid` if one has; what the engine returns.
pub(super) fn check_alone(store: &Store) -> Result<()> {
    let (now, rows) = (store.clock()?, rows(store)?);
    let living: Vec<_> = rows.values().filter(|row| row.until > now).map(|row| &row.address[..]).collect();
    if living.is_empty() { Ok(()) } else { Err(others(&living, ["has the store open", "have the store open"])) }
}

/// Returns the error of what cannot be done while servers live; `what` they do, one or several.
fn others(living: &[&str], [one, several]: [&str; 2]) -> Error {
    let named = living.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    let more = if living.len() > 3 { ", .." } else { "" };
    Error::invalid(match living.len() {
        1 => format!("1 server {one} ({named}): stop it first"),
        count => format!("{count} servers {several} ({named}{more}): stop them first"),
    })
}

/// Returns the rows of all servers.
fn rows(store: &Store) -> Result<BTreeMap<ServerId, Member>> {
    let snapshot = store.snapshot(ReadTier::Disk)?;
    // `/` is followed by `0`.
    let mut scan = store.scan(Space::Meta, MEMBER, b"member0", &snapshot, ReadTier::Disk);
    let mut rows = BTreeMap::new();
    while let Some((key, value)) = scan.next()? {
        let server = key[MEMBER.len()..].try_into().map_err(|_| Error::corrupt("the key of a server"))?;
        rows.insert(server, serde_json::from_slice(value).map_err(damaged)?);
    }
    Ok(rows)
}

fn worker(store: &Store, batch: &mut Batch) -> Result<Option<Worker>> {
    let stored = store.get_for(batch, Space::Meta, WORKER, ReadTier::Disk)?;
    stored.map(|bytes| serde_json::from_slice(&bytes).map_err(damaged)).transpose()
}

fn own(store: &Store) -> ServerId {
    store.server().try_into().unwrap_or_default()
}

fn key_of(server: &ServerId) -> Vec<u8> {
    [MEMBER, server].concat()
}

fn json(row: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(row).map_err(|error| Error::storage("cannot encode the row of a server", error))
}

fn damaged(error: serde_json::Error) -> Error {
    Error::corrupt(format!("the row of a server: {error}"))
}
