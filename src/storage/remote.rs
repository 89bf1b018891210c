//! A database that replicates, and that any number of servers have open: what all such engines have in common.
//!
//! **Keys.** There is one ordered map; the first byte of a key is its space.
//!
//! **Reading for a write.** The first key that a verb reads for its batch begins a transaction of the database; all that it reads is as of
//! that moment, and the batch depends on each of these keys. The database writes the batch only if no other transaction has written one of
//! its keys since, else it is [`Error::Raced`], and `transaction` runs the verb again. So what slot locks do between the threads of a server
//! is done here between servers.
//!
//! **An answer that is lost.** Whoever sends a commit and gets no answer does not know whether it was done, and the keys that it wrote
//! are no witness: two increments write the same bytes. So each commit also sets a row of its own (its receipt) to a number that nobody
//! else writes. Once the database has ended the lost commit, the receipt says whether it was done. If that cannot be learnt either, the
//! caller is told that the outcome is unknown: it is never taken for done or for failed. A row is used by one commit at a time, from before
//! the transaction begins, so it never makes two transactions race.
//!
//! **Scans** come in pages that grow, so that short lists are read in one request, and long ones in few.
//!
//! The methods of [`super::Store`] call those of the same name here, and say what they do.
//!
//! All of it blocks: whoever calls waits for the database on a thread that may wait. Under [`ReadTier::Memory`] everything is `WouldBlock`.

#[cfg(feature = "simulated")]
pub mod in_place;
#[cfg(feature = "postgres")]
pub mod postgres;
mod scan;
#[cfg(feature = "simulated")]
pub mod simulated;
#[cfg(feature = "tikv")]
pub mod tikv;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use uuid::Uuid;

use super::{Calls, Counters, Options, Pinned, RACED_WITHIN, ReadTier, Space, Striped, raced_too_often, read_only};
use crate::error::{Error, Result};
pub use scan::Scan;
use scan::{Page, Range};

/// A database, as seen by one server. Keys begin with the byte of their space.
trait Engine: Send + Sync {
    /// Returns its kind.
    fn name(&self) -> &'static str;

    /// Returns what it can take at once.
    fn limits(&self) -> Limits;

    /// Returns its time, in microseconds since 1970.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    fn clock(&self) -> Result<i64>;

    /// Ends the sessions of a server, and returns when they have ended.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    fn end_sessions_of(&self, server: &Uuid) -> Result<()>;

    /// Returns the latest value of a key.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Begins a transaction, or a snapshot, which does not write.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    fn begin(&self, writes: bool) -> Result<Box<dyn View>>;

    /// Writes without having read.
    fn write(&self, changes: &Changes) -> Outcome;

    /// Removes all keys with this prefix, regardless of snapshots and in any order.
    ///
    /// # Errors
    /// `Busy` if it does not answer; then some may be removed.
    fn destroy(&self, prefix: &[u8]) -> Result<()>;

    /// Returns a number that is at least the [sequence](View::sequence) of every snapshot that lacks a write that has ended by now.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    fn latest_sequence(&self) -> Result<u64>;

    /// Waits before the next attempt.
    fn pause(&self, time: Duration);

    /// Has the requests of this thread wait for no others of this server.
    fn come_first(&self) {}

    /// Refuses to work for this server once this key is gone, whatever it believes.
    fn set_fence(&self, _key: Vec<u8>) {}

    /// Returns whether adjacent ids would all be written to one of its machines.
    fn has_random_ids(&self) -> bool {
        false
    }

    /// Removes what nobody can read any more, if it does not do so itself.
    ///
    /// # Errors
    /// `Busy` if it does not answer.
    fn collect_garbage(&self) -> Result<()> {
        Ok(())
    }
}

/// The database at one moment.
trait View: Send + Sync {
    /// Returns a number such that each write with a smaller or the same one is seen.
    fn sequence(&self) -> u64;

    /// Returns the values of some keys, in their order.
    ///
    /// # Errors
    /// `Raced` if the moment can no longer be read.
    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Returns the first keys of a range, or of each of several that are read forwards, at most `rows` of each.
    ///
    /// # Errors
    /// `Raced` if the moment can no longer be read.
    fn pages(&self, ranges: &[Range], rows: usize) -> Result<Vec<Page>>;

    /// Writes, if no other transaction has written what is written or depended on since the view was begun.
    fn commit(self: Box<Self>, changes: &Changes) -> Outcome;
}

/// What one commit writes, and what it depends on.
#[derive(Default)]
struct Changes {
    /// New values; `None` deletes the key.
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Keys to delete before that: from the first up to but not including the second.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Keys that were read, which must not have changed, and whether they are there. Some of them are written.
    depended: BTreeMap<Vec<u8>, bool>,
    /// The key of `writes` that tells whether they were done.
    receipt: Vec<u8>,
}

/// The outcome of a commit.
enum Outcome {
    Done,
    /// Not done: another transaction was faster, or the transaction was lost before the commit was sent.
    Raced,
    /// Not done, and it would not be if it were tried again at once.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "tikv")),
        expect(dead_code, reason = "a simulated one refuses none")
    )]
    Refused(Error),
    /// Sent, and not answered.
    Lost(Box<dyn Lost>),
}

/// A commit that was sent, and not answered.
trait Lost {
    /// Returns the value of a key as it is once the commit has been done, or never will be.
    ///
    /// # Errors
    /// `Busy` if that is not known yet.
    fn value_after(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;
}

/// What a database takes at once.
#[derive(Clone, Copy)]
struct Limits {
    /// Bytes of a key, with that of its space.
    key_bytes: usize,
    /// Bytes of a value.
    value_bytes: usize,
    /// Bytes of the keys and values of a commit.
    commit_bytes: usize,
    /// Keys of a commit.
    commit_keys: usize,
    /// Bytes of keys that a commit sends again with each 16 KiB, all of them together.
    resent_bytes: usize,
    /// Whether a commit may delete ranges.
    has_ranges: bool,
    /// For how long the outcome of a lost commit is asked for.
    settled_within: Duration,
}

/// How often the outcome of a lost commit is asked for at least.
const ASKED: u32 = 3;

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A store in a database.
pub struct Store {
    engine: Arc<dyn Engine>,
    receipts: Arc<Receipts>,
    calls: Calls,
    batch_bytes: Striped,
    round_trips: Arc<Striped>,
    is_read_only: bool,
    options: Options,
    opened: Instant,
    /// Until when it may be written to, in nanoseconds since it was opened; without end, until it is told otherwise.
    lease: AtomicU64,
    is_outdated: AtomicBool,
}

/// A snapshot, which the database keeps.
pub struct Snapshot(Box<dyn View>);

/// A batch of writes, and the transaction in which keys were read for it.
#[derive(Default)]
pub struct Batch {
    changes: Changes,
    /// Bytes of the keys and values staged.
    bytes: usize,
    /// Prefixes to remove after the commit.
    destroyed: Vec<Vec<u8>>,
    transaction: Option<(Box<dyn View>, Receipt)>,
    /// What was read ahead.
    ahead: HashMap<Vec<u8>, Option<Vec<u8>>>,
    has_raced: bool,
    needs_no_lease: bool,
}

/// The rows of the receipts of one server: as many as it has had commits at the same time.
struct Receipts {
    server: Uuid,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    free: Vec<u32>,
    made: u32,
}

/// The row of a commit, which is its own until it is dropped.
struct Receipt {
    receipts: Arc<Receipts>,
    row: u32,
    /// Whether another commit may use it.
    is_free: bool,
}

impl Receipts {
    fn take(self: &Arc<Self>) -> Receipt {
        let mut rows = self.rows.lock();
        let row = rows.free.pop().unwrap_or_else(|| {
            rows.made += 1;
            rows.made
        });
        Receipt { receipts: Arc::clone(self), row, is_free: true }
    }
}

impl Receipt {
    fn key(&self) -> Vec<u8> {
        key_of(Space::Meta, &[b"receipt/", &self.receipts.server.as_bytes()[..], &self.row.to_be_bytes()].concat())
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if self.is_free {
            self.receipts.rows.lock().free.push(self.row);
        }
    }
}

impl Store {
    fn of(engine: Arc<dyn Engine>, server: Uuid, round_trips: Arc<Striped>, is_read_only: bool) -> Self {
        Self {
            engine,
            receipts: Arc::new(Receipts { server, rows: Mutex::default() }),
            calls: Calls::default(),
            batch_bytes: Striped::default(),
            round_trips,
            is_read_only,
            options: Options::default(),
            opened: Instant::now(),
            lease: AtomicU64::new(u64::MAX),
            is_outdated: AtomicBool::new(false),
        }
    }

    pub fn name(&self) -> &'static str {
        self.engine.name()
    }

    pub fn come_first(&self) {
        self.engine.come_first();
    }

    pub fn set_fence(&self, space: Space, key: &[u8]) {
        self.engine.set_fence(key_of(space, key));
    }

    pub fn has_random_ids(&self) -> bool {
        self.engine.has_random_ids()
    }

    pub fn collect_garbage(&self) -> Result<()> {
        self.engine.collect_garbage()
    }

    pub fn set_outdated(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
        self.set_lease(None);
    }

    /// Refuses what may not wait, since every request does, and a server that does not know the schema any more.
    fn check(&self, tier: ReadTier) -> Result<()> {
        match tier {
            ReadTier::Memory => Err(Error::WouldBlock),
            ReadTier::Disk if self.is_outdated.load(Ordering::Relaxed) => {
                Err(Error::Busy { detail: "another server has changed the schema: start this one again".to_owned() })
            }
            ReadTier::Disk => Ok(()),
        }
    }

    pub fn server(&self) -> &[u8] {
        self.receipts.server.as_bytes()
    }

    pub fn clock(&self) -> Result<i64> {
        self.engine.clock()
    }

    pub fn end_sessions_of(&self, server: &[u8; 16]) -> Result<()> {
        self.engine.end_sessions_of(&Uuid::from_bytes(*server))
    }

    pub fn set_lease(&self, until: Option<Instant>) {
        let until = until.map_or(0, |until| until.saturating_duration_since(self.opened).as_nanos() as u64);
        self.lease.store(until, Ordering::Relaxed);
    }

    pub fn lease(&self) -> Duration {
        let until = Duration::from_nanos(self.lease.load(Ordering::Relaxed));
        until.saturating_sub(self.opened.elapsed())
    }

    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn get(&self, space: Space, key: &[u8], tier: ReadTier) -> Result<Option<Pinned<'_>>> {
        self.check(tier)?;
        self.calls.gets.add(1);
        Ok(self.engine.get(&key_of(space, key))?.map(Pinned::Remote))
    }

    pub fn get_for(&self, batch: &mut Batch, space: Space, key: &[u8], tier: ReadTier) -> Result<Option<Pinned<'_>>> {
        self.check(tier)?;
        self.calls.gets.add(1);
        let key = key_of(space, key);
        let value = match batch.ahead.get(&key) {
            Some(value) => value.clone(),
            None => self.read_for(batch, std::slice::from_ref(&key))?.pop().flatten(),
        };
        batch.changes.depended.insert(key, value.is_some());
        Ok(value.map(Pinned::Remote))
    }

    pub fn read_ahead(&self, batch: &mut Batch, keys: &[(Space, Vec<u8>)], tier: ReadTier) -> Result<()> {
        self.check(tier)?;
        let mut keys: Vec<_> = keys.iter().map(|(space, key)| key_of(*space, key)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| !batch.ahead.contains_key(key));
        if !keys.is_empty() {
            let values = self.read_for(batch, &keys)?;
            batch.ahead.extend(keys.into_iter().zip(values));
        }
        Ok(())
    }

    /// Reads in the transaction of a batch.
    fn read_for(&self, batch: &mut Batch, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        if batch.transaction.is_none() {
            let receipt = self.receipts.take();
            batch.transaction = Some((self.engine.begin(true)?, receipt));
        }
        let (view, _) = batch.transaction.as_ref().expect("it was begun");
        view.multi_get(keys).inspect_err(|error| batch.has_raced |= matches!(error, Error::Raced))
    }

    pub fn multi_get(
        &self,
        space: Space,
        keys: &[impl AsRef<[u8]>],
        snapshot: &Snapshot,
        tier: ReadTier,
    ) -> Result<Vec<Option<Pinned<'_>>>> {
        self.check(tier)?;
        self.calls.multi_gets.add(1);
        self.calls.looked_up.add(keys.len() as u64);
        let keys: Vec<_> = keys.iter().map(|key| key_of(space, key.as_ref())).collect();
        let values = if keys.is_empty() { Vec::new() } else { snapshot.0.multi_get(&keys).map_err(ended)? };
        Ok(values.into_iter().map(|value| value.map(Pinned::Remote)).collect())
    }

    pub fn scan<'s>(
        &'s self,
        space: Space,
        (lower, upper): (&[u8], &[u8]),
        backwards: bool,
        snapshot: &'s Snapshot,
        tier: ReadTier,
    ) -> Scan<'s> {
        self.calls.scans.add(1);
        Scan::new(&*snapshot.0, Range::new(space, lower, upper, backwards), tier)
    }

    pub fn scan_many<'s>(
        &'s self,
        space: Space,
        ranges: &[(&[u8], &[u8])],
        snapshot: &'s Snapshot,
        tier: ReadTier,
    ) -> Scan<'s> {
        self.calls.scans.add(1);
        Scan::of_many(
            &*snapshot.0,
            ranges.iter().map(|(lower, upper)| Range::new(space, lower, upper, false)).collect(),
            tier,
        )
    }

    pub fn snapshot(&self, tier: ReadTier) -> Result<Snapshot> {
        self.check(tier)?;
        self.engine.begin(false).map(Snapshot)
    }

    pub fn latest_sequence(&self) -> Result<u64> {
        self.engine.latest_sequence()
    }

    /// Waits before a transaction that has raced so many times is run again: the longer, the more often it has.
    pub fn pause(&self, raced: u32) {
        let longest = Duration::from_millis(1).saturating_mul(1 << raced.min(10)).min(LONGEST_PAUSE);
        let (random, _) = Uuid::new_v4().as_u64_pair();
        self.engine.pause(longest.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64));
    }

    pub fn write(&self, batch: &mut Batch) -> Result<()> {
        if self.is_read_only {
            return Err(read_only());
        }
        if batch.has_raced {
            return Err(Error::Raced);
        }
        self.calls.writes.add(1);
        self.check_lease(batch)?;
        if !batch.changes.is_empty() {
            self.check_limits(batch)?;
            match batch.transaction.take() {
                Some((view, receipt)) => self.commit(batch, receipt, |changes| view.commit(changes))?,
                None => self.write_blindly(batch)?,
            }
            self.batch_bytes.add(batch.bytes as u64);
        }
        let is_committed = !batch.changes.is_empty();
        for prefix in &batch.destroyed {
            match self.engine.destroy(prefix) {
                // The commit is done whatever becomes of them; they are never read again.
                Err(error) if is_committed => tracing::warn!("keys that are not used any more are left: {error}"),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn check_lease(&self, batch: &Batch) -> Result<()> {
        if batch.needs_no_lease || !self.lease().is_zero() {
            return Ok(());
        }
        Err(Error::Busy { detail: "this server has not heard of the database for too long".to_owned() })
    }

    /// Writes a batch for which nothing was read: if it races, it is written again.
    fn write_blindly(&self, batch: &mut Batch) -> Result<()> {
        let (begun, mut raced) = (Instant::now(), 0);
        loop {
            self.check_lease(batch)?;
            match self.commit(batch, self.receipts.take(), |changes| self.engine.write(changes)) {
                Err(Error::Raced) if begun.elapsed() < RACED_WITHIN => raced += 1,
                Err(Error::Raced) => return Err(raced_too_often(raced)),
                outcome => return outcome,
            }
            self.pause(raced);
        }
    }

    fn commit(&self, batch: &mut Batch, mut receipt: Receipt, commit: impl FnOnce(&Changes) -> Outcome) -> Result<()> {
        let (key, number) = (receipt.key(), Uuid::new_v4().as_bytes().to_vec());
        let changes = &mut batch.changes;
        changes.writes.insert(key.clone(), Some(number.clone()));
        changes.receipt.clone_from(&key);
        let outcome = commit(changes);
        changes.writes.remove(&key);
        match outcome {
            Outcome::Done => Ok(()),
            Outcome::Raced => Err(Error::Raced),
            Outcome::Refused(error) => Err(error),
            Outcome::Lost(lost) => self.settle(lost, &mut receipt, &number),
        }
    }

    /// Finds out whether a commit was done whose answer is lost.
    fn settle(&self, mut lost: Box<dyn Lost>, receipt: &mut Receipt, number: &[u8]) -> Result<()> {
        let (key, begun) = (receipt.key(), Instant::now());
        let mut asked = 0;
        while asked < ASKED || begun.elapsed() < self.engine.limits().settled_within {
            match lost.value_after(&key) {
                Ok(value) if value.as_deref() == Some(number) => return Ok(()),
                Ok(_) => return Err(Error::Raced),
                Err(_) => asked += 1,
            }
            self.pause(asked + 4);
        }
        // It may still be done, and must not overwrite the receipt of another commit.
        receipt.is_free = false;
        Err(Error::Unknown {
            detail: "the database has not answered a commit, and does not say whether it was done: read, then decide"
                .to_owned(),
            record: None,
        })
    }

    fn check_limits(&self, batch: &Batch) -> Result<()> {
        let (limits, changes) = (self.engine.limits(), &batch.changes);
        let longest = changes.writes.values().flatten().map(Vec::len).max().unwrap_or_default();
        let longest_key = changes.writes.keys().map(Vec::len).max().unwrap_or_default();
        let refused = if longest_key > limits.key_bytes {
            format!("an index entry or an id of {longest_key} bytes: {} takes {}", self.name(), limits.key_bytes)
        } else if longest > limits.value_bytes {
            format!("a value of {longest} bytes: {} takes {}", self.name(), limits.value_bytes)
        } else if batch.bytes > limits.commit_bytes {
            format!("a transaction of {} bytes: {} takes {}; split it", batch.bytes, self.name(), limits.commit_bytes)
        } else if changes.writes.len() > limits.commit_keys {
            format!(
                "a transaction of {} keys: {} takes {}; split it",
                changes.writes.len(),
                self.name(),
                limits.commit_keys
            )
        } else if changes.writes.keys().map(Vec::len).sum::<usize>() * (batch.bytes >> 14) > limits.resent_bytes {
            let (keys, name) = (changes.writes.len(), self.name());
            format!(
                "a transaction of {keys} keys and {} bytes: {name} takes fewer keys with so many bytes; split it",
                batch.bytes
            )
        } else if !changes.ranges.is_empty() && !limits.has_ranges {
            return Err(super::unsupported("deleting all records of a table at once"));
        } else {
            return Ok(());
        };
        Err(Error::invalid(refused))
    }

    pub fn counters(&self) -> Counters {
        Counters {
            gets: self.calls.gets.sum(),
            multi_gets: self.calls.multi_gets.sum(),
            looked_up: self.calls.looked_up.sum(),
            scans: self.calls.scans.sum(),
            writes: self.calls.writes.sum(),
            round_trips: self.round_trips.sum(),
            batch_bytes: self.batch_bytes.sum(),
            ..Counters::default()
        }
    }
}

impl Snapshot {
    pub fn sequence(&self) -> u64 {
        self.0.sequence()
    }
}

impl Batch {
    pub fn put(&mut self, space: Space, key: &[u8], value: &[u8]) {
        self.stage(key_of(space, key), Some(value.to_vec()));
    }

    pub fn delete(&mut self, space: Space, key: &[u8]) {
        self.stage(key_of(space, key), None);
    }

    fn stage(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.changes.writes.insert(key, value);
    }

    pub fn delete_range(&mut self, space: Space, lower: &[u8], upper: &[u8]) {
        let (lower, upper) = (key_of(space, lower), key_of(space, upper));
        self.changes.writes.retain(|key, _| *key < lower || *key >= upper);
        self.bytes += lower.len() + upper.len();
        self.changes.ranges.push((lower, upper));
    }

    pub fn destroy(&mut self, space: Space, prefix: &[u8]) {
        self.destroyed.push(key_of(space, prefix));
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn keys(&self) -> usize {
        self.changes.writes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.destroyed.is_empty()
    }

    pub fn set_needs_no_lease(&mut self) {
        self.needs_no_lease = true;
    }

    pub fn has_raced(&self) -> bool {
        self.has_raced
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.ranges.is_empty()
    }
}

/// Opens a store in a database.
///
/// # Errors
/// As [`super::Store::connect`].
#[cfg(any(feature = "postgres", feature = "tikv"))]
pub fn connect(location: &super::Location, password: Option<&str>, is_read_only: bool) -> Result<Store> {
    match location.scheme() {
        #[cfg(feature = "tikv")]
        "tikv" if password.is_some() => Err(Error::invalid("storage: TiKV has no passwords")),
        #[cfg(feature = "tikv")]
        "tikv" => tikv::connect(&tikv::Url::parse(location.as_str())?, is_read_only),
        #[cfg(feature = "postgres")]
        _ => postgres::connect(&postgres::Url::parse(location.as_str(), password)?, is_read_only),
        #[cfg(not(feature = "postgres"))]
        other => Err(Error::invalid(format!("storage: {other} is not built in"))),
    }
}

/// Returns a key of the map.
fn key_of(space: Space, key: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(1 + key.len());
    all.push(byte_of(space));
    all.extend_from_slice(key);
    all
}

/// Returns the first byte of the keys of a space. A key of the byte 0 alone is the engine's own.
fn byte_of(space: Space) -> u8 {
    match space {
        Space::Meta => 1,
        Space::Records => 2,
        Space::Indexes => 3,
        Space::Blobs => 4,
        Space::Streams => 5,
    }
}

/// Returns the error of a snapshot that has ended, which no transaction depends on.
fn ended(error: Error) -> Error {
    match error {
        Error::Raced => Error::Busy { detail: "the database has ended the snapshot".to_owned() },
        error => error,
    }
}
