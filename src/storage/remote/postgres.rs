//! PostgreSQL, 14 or later: one table of keys and values.
//!
//! A verb is one transaction at REPEATABLE READ. Its first read begins it, in one round trip; its writes, and locks of what it depends on,
//! are sent together in the second; COMMIT is the third. PostgreSQL itself finds that a transaction has raced: whoever writes or locks a
//! row that was changed since the transaction began fails with 40001, and whoever inserts one that another has inserted with 23505. A key
//! that is depended on and absent is inserted and deleted again, which conflicts with whoever inserts it. A batch for which nothing was
//! read is written at READ COMMITTED, which waits for others and never fails for them.
//!
//! Each commit locks in the same order: keys that are there, ranges that it deletes, keys that must not be there, then all others, each in
//! the order of the keys. Else two would wait for each other until PostgreSQL ends one of them, a second later.
//!
//! A snapshot is a transaction that only reads, on a connection of its own. Its sequence number is the oldest transaction that it does not
//! see, less one: all with smaller numbers have ended, and are seen.
//!
//! **A lost COMMIT** may be under way for as long as its backend lives. So the backend is ended first (process id, time of its start and
//! application name are those of the connection), and only then the receipt is read.

mod connection;
mod encryption;
mod url;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio_postgres::Row;
use tokio_postgres::error::{DbError, Severity, SqlState};
use uuid::Uuid;

use self::connection::{ANSWERED_WITHIN, Backend, Connection, Lease, Pool};
pub(in crate::layers::storage) use self::url::Url;
use super::scan::{Page, Range};
use super::{Changes, Engine, Limits, Lost, Outcome, Store, Striped, View};
use crate::error::{Error, Result};

/// How often it is looked whether sessions have ended.
const ENDED_WITHIN: u32 = 100;

/// The time within which all records of a table are deleted.
const CLEARED_WITHIN: Duration = Duration::from_secs(600);

/// Rows that are removed at once, where order and snapshots do not matter.
const REMOVED_ROWS: i64 = 10_000;

/// A database, as seen by one server.
struct Postgres {
    pool: Arc<Pool>,
    round_trips: Arc<Striped>,
}

/// Connects to a database, and creates the table if there is none.
///
/// # Errors
/// `Invalid` if the URL is not valid, or the table is not one of ours; `Busy` if the database does not answer, or refuses.
pub fn connect(url: &Url, is_read_only: bool) -> Result<Store> {
    let round_trips = Arc::<Striped>::default();
    let server = Uuid::new_v4();
    let pool = Pool::of(url, &server);
    pool.prepare_table(is_read_only)?;
    let engine = Postgres { pool, round_trips: Arc::clone(&round_trips) };
    Ok(Store::of(Arc::new(engine), server, round_trips, is_read_only))
}

impl Engine for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn clock(&self) -> Result<i64> {
        self.round_trips.add(1);
        let row =
            self.pool.ask(async |connection| connection.client.query_one(&connection.statements.clock, &[]).await);
        Ok(row?.get(0))
    }

    fn end_sessions_of(&self, server: &Uuid) -> Result<()> {
        let name = connection::name_of(server);
        for _ in 0..ENDED_WITHIN {
            self.round_trips.add(1);
            let left = self
                .pool
                .ask(async |connection| connection.client.query(&connection.statements.end_sessions, &[&name]).await)?;
            if left.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(busy_because("the sessions of a server that has ended are still there"))
    }

    fn limits(&self) -> Limits {
        // A row of an index has at most a third of a page.
        Limits {
            key_bytes: 2600,
            value_bytes: 64 << 20,
            commit_bytes: 256 << 20,
            commit_keys: 1_000_000,
            resent_bytes: usize::MAX,
            has_ranges: true,
            settled_within: Duration::from_secs(10),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.round_trips.add(1);
        let found = self.pool.ask(async |connection| values(connection, &[key.to_vec()]).await)?;
        Ok(found.into_iter().next().flatten())
    }

    fn begin(&self, writes: bool) -> Result<Box<dyn View>> {
        let (lease, sequence) = if writes { (self.pool.take()?, 0) } else { self.begin_snapshot()? };
        Ok(Box::new(Transaction {
            pool: Arc::clone(&self.pool),
            round_trips: Arc::clone(&self.round_trips),
            lease: Some(lease),
            is_begun: AtomicBool::new(!writes),
            sequence,
        }))
    }

    fn write(&self, changes: &Changes) -> Outcome {
        match self.pool.take() {
            Ok(lease) => {
                // Several ranges are deleted as of one moment.
                let begin = if changes.ranges.is_empty() { BEGIN_BLIND } else { BEGIN };
                commit(&self.pool, &self.round_trips, lease, begin, changes)
            }
            Err(error) => Outcome::Refused(error),
        }
    }

    fn destroy(&self, prefix: &[u8]) -> Result<()> {
        let mut upper = Vec::new();
        crate::encoding::key::successor(prefix, &mut upper);
        loop {
            self.round_trips.add(1);
            let removed = self.pool.ask(async |Connection { client, statements, .. }| {
                client.execute(&statements.remove, &[&prefix, &upper, &REMOVED_ROWS]).await
            })?;
            if removed < REMOVED_ROWS as u64 {
                return Ok(());
            }
        }
    }

    fn latest_sequence(&self) -> Result<u64> {
        self.round_trips.add(1);
        let row =
            self.pool.ask(async |connection| connection.client.query_one(&connection.statements.latest, &[]).await);
        Ok(row?.get::<_, i64>(0) as u64)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn come_first(&self) {
        connection::come_first();
    }

    fn set_fence(&self, key: Vec<u8>) {
        self.pool.set_fence(key);
    }
}

impl Postgres {
    fn begin_snapshot(&self) -> Result<(Lease, u64)> {
        self.round_trips.add(1);
        let (lease, row) = self.pool.begin(async |Connection { client, statements, .. }| {
            let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
            let (begun, row) = join(begin, client.query_one(&statements.sequence, &[])).await;
            begun.and(row)
        })?;
        Ok((lease, row.get::<_, i64>(0) as u64))
    }
}

/// A transaction of the database.
struct Transaction {
    pool: Arc<Pool>,
    round_trips: Arc<Striped>,
    /// Present until it is committed.
    lease: Option<Lease>,
    /// Whether BEGIN was sent: together with the first read.
    is_begun: AtomicBool,
    sequence: u64,
}

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const BEGIN_BLIND: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

impl Transaction {
    fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("it is not committed")
    }

    /// Sends a read, after BEGIN if it is the first.
    fn read<R>(&self, read: impl Future<Output = std::result::Result<R, tokio_postgres::Error>>) -> Result<R> {
        self.round_trips.add(1);
        let lease = self.lease();
        let is_first = !self.is_begun.swap(true, Ordering::Relaxed);
        let found = lease.wait_up_to(ANSWERED_WITHIN, async {
            if !is_first {
                return read.await;
            }
            let (begun, found) = join(lease.client.batch_execute(BEGIN), read).await;
            begun.and(found)
        });
        found.map_err(|failure| failure.or(lost))
    }
}

impl View for Transaction {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(values(self.lease(), keys))
    }

    fn pages(&self, ranges: &[Range], rows: usize) -> Result<Vec<Page>> {
        let Connection { client, statements, .. } = &**self.lease();
        let (mut pages, limit): (Vec<_>, _) = (ranges.iter().map(|_| Page::default()).collect(), rows as i64);
        if let [range] = ranges {
            let statement = if range.backwards { &statements.page_backwards } else { &statements.page };
            let found = self.read(async { client.query(statement, &[&range.lower, &range.upper, &limit]).await })?;
            pages[0].entries = found.iter().map(|row| (row.get(0), row.get(1))).collect();
        } else {
            assert!(ranges.iter().all(|range| !range.backwards), "several are read forwards");
            // Not for one range: the database would sort the rows, with their values.
            let bounds = ranges.iter().map(|range| (&range.lower[..], &range.upper[..]));
            let (lower, upper): (Vec<_>, Vec<_>) = bounds.unzip();
            let found = self.read(async { client.query(&statements.pages, &[&lower, &upper, &limit]).await })?;
            for row in &found {
                pages[row.get::<_, i64>(2) as usize - 1].entries.push((row.get(0), row.get(1)));
            }
        }
        for (page, range) in pages.iter_mut().zip(ranges) {
            page.rest = page.entries.last().filter(|_| page.entries.len() == rows).map(|(last, _)| range.behind(last));
        }
        Ok(pages)
    }

    fn commit(mut self: Box<Self>, changes: &Changes) -> Outcome {
        let lease = self.lease.take().expect("it is not committed");
        let begin = if self.is_begun.load(Ordering::Relaxed) { "" } else { BEGIN };
        commit(&self.pool, &self.round_trips, lease, begin, changes)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        match self.is_begun.load(Ordering::Relaxed) {
            true => lease.roll_back(),
            false => lease.give_back(),
        }
    }
}

/// Reads some values, in the order of their keys.
async fn values(
    connection: &Connection,
    keys: &[Vec<u8>],
) -> std::result::Result<Vec<Option<Vec<u8>>>, tokio_postgres::Error> {
    if let [key] = keys {
        let row = connection.client.query_opt(&connection.statements.get, &[key]).await?;
        return Ok(vec![row.map(|row| row.get(0))]);
    }
    let rows = connection.client.query(&connection.statements.multi_get, &[&keys]).await?;
    let of_row = |row: &Row| (row.get::<_, &[u8]>(0).to_vec(), row.get::<_, Vec<u8>>(1));
    let found: HashMap<Vec<u8>, Vec<u8>> = rows.iter().map(of_row).collect();
    // A key may be asked for twice.
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

/// Writes and commits, after `begin` if it is not empty.
fn commit(pool: &Arc<Pool>, round_trips: &Striped, lease: Lease, begin: &str, changes: &Changes) -> Outcome {
    round_trips.add(1);
    // A second more for each ten thousand keys.
    let more = Duration::from_millis((changes.writes.len() + changes.depended.len()) as u64 / 10);
    let limit = if changes.ranges.is_empty() { ANSWERED_WITHIN + more } else { CLEARED_WITHIN };
    match lease.wait_up_to(limit, stage(&lease, begin, changes)) {
        Ok(()) => {}
        Err(Failure::Database(error)) => {
            lease.roll_back();
            return refused(&error);
        }
        Err(Failure::Unanswered) => return Outcome::Refused(unanswered()),
    }
    round_trips.add(1);
    match lease.wait_up_to(ANSWERED_WITHIN, lease.client.batch_execute("COMMIT")) {
        Ok(()) => {
            lease.give_back();
            Outcome::Done
        }
        Err(Failure::Database(error)) if is_race(&error) => {
            lease.roll_back();
            Outcome::Raced
        }
        // Also where the server said why it ended: it may have committed before.
        Err(_) => Outcome::Lost(Box::new(LostCommit { pool: Arc::clone(pool), backend: lease.backend.clone() })),
    }
}

/// Why a request has failed.
pub(super) enum Failure {
    /// The connection is lost, or the database has refused it.
    Database(tokio_postgres::Error),
    /// It was not answered in time.
    Unanswered,
}

impl Failure {
    /// Returns the error that is `known` for what the database has said.
    fn or(self, known: impl FnOnce(tokio_postgres::Error) -> Error) -> Error {
        match self {
            Self::Database(error) => known(error),
            Self::Unanswered => unanswered(),
        }
    }
}

/// Sends everything that a commit writes and depends on, all at once.
async fn stage(lease: &Lease, begin: &str, changes: &Changes) -> std::result::Result<(), tokio_postgres::Error> {
    let Connection { client, statements, .. } = &**lease;
    let mut written: BTreeMap<&[u8], _> = changes.depended.keys().map(|key| (&key[..], None)).collect();
    written.extend(changes.writes.iter().map(|(key, value)| (&key[..], Some(value.as_deref()))));
    // Keys, and whether they are written.
    let mut locked = (Vec::new(), Vec::new());
    // What was read and has gone since must not come again, so what was there is updated, and only what was not is inserted.
    let [mut updated, mut inserted, mut put] = [const { (Vec::new(), Vec::new()) }; 3];
    let mut deleted = Vec::new();
    for (key, value) in written {
        let is_there = changes.depended.get(key).copied();
        match (is_there, value) {
            (Some(false), Some(Some(value))) => push(&mut inserted, key, value),
            (Some(false), _) => {
                push(&mut inserted, key, b"");
                deleted.push(key);
            }
            (Some(true), Some(Some(value))) => push(&mut updated, key, value),
            (None, Some(Some(value))) => push(&mut put, key, value),
            (_, Some(None)) => deleted.push(key),
            (_, None) => {}
        }
        // The receipt is nobody else's.
        if is_there != Some(false) && key != changes.receipt {
            push(&mut locked, key, value.is_some());
        }
    }
    let mut sent: Vec<Sent<'_>> = Vec::new();
    if !begin.is_empty() {
        sent.push(Box::pin(async move { client.batch_execute(begin).await.map(|()| 0) }));
    }
    // One that is written is locked by that, if it is the first to be locked.
    let is_first = inserted.0.is_empty() && changes.ranges.is_empty();
    if !(locked.0.is_empty() || locked.1 == [true] && is_first) {
        sent.push(Box::pin(async { client.execute(&statements.lock, &[&locked.0, &locked.1]).await }));
    }
    for (lower, upper) in BTreeSet::from_iter(&changes.ranges) {
        sent.push(Box::pin(async move { client.execute(&statements.delete_range, &[lower, upper]).await }));
    }
    let written = [
        (&statements.insert, &statements.insert_many, &inserted),
        (&statements.update, &statements.update_many, &updated),
        (&statements.put, &statements.put_many, &put),
    ];
    for (one, many, (keys, values)) in written {
        match (&keys[..], &values[..]) {
            ([], []) => {}
            ([key], [value]) => sent.push(Box::pin(async move { client.execute(one, &[key, value]).await })),
            _ => sent.push(Box::pin(async move { client.execute(many, &[keys, values]).await })),
        }
    }
    if !deleted.is_empty() {
        sent.push(Box::pin(async { client.execute(&statements.delete, &[&deleted]).await }));
    }
    // After one that fails all others do, without a reason of their own.
    join_all(sent).await.into_iter().try_for_each(|outcome| outcome.map(drop))
}

fn push<'c, T>(columns: &mut (Vec<&'c [u8]>, Vec<T>), key: &'c [u8], value: T) {
    columns.0.push(key);
    columns.1.push(value);
}

type Sent<'s> = std::pin::Pin<Box<dyn Future<Output = std::result::Result<u64, tokio_postgres::Error>> + Send + 's>>;

/// Returns whether another transaction was faster.
fn is_race(error: &tokio_postgres::Error) -> bool {
    let races = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::UNIQUE_VIOLATION];
    error.code().is_some_and(|code| races.contains(code))
}

/// Returns whether the connection is lost: it says nothing, or FATAL.
fn is_gone(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().map(DbError::parsed_severity);
    severity.is_none_or(|severity| matches!(severity, Some(Severity::Fatal | Severity::Panic)))
}

/// Returns the error of a read in a transaction: nothing was written, so one that has lost its connection, or raced, is run again.
fn lost(error: tokio_postgres::Error) -> Error {
    if is_gone(&error) || is_race(&error) { Error::Raced } else { busy(error) }
}

/// Returns the outcome of a commit that failed before COMMIT was sent.
fn refused(error: &tokio_postgres::Error) -> Outcome {
    match error.code() {
        // If the connection is lost, nothing was written.
        _ if is_race(error) || is_gone(error) => Outcome::Raced,
        Some(code) if *code == SqlState::DISK_FULL => {
            Outcome::Refused(Error::Full { detail: "the disk of the database is full".to_owned() })
        }
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            Outcome::Refused(busy_because("it takes no writes"))
        }
        _ => Outcome::Refused(busy(error)),
    }
}

/// Returns the error of a request that the database has refused, or not answered.
fn busy(error: impl std::borrow::Borrow<tokio_postgres::Error>) -> Error {
    let error = error.borrow();
    match error.as_db_error() {
        Some(told) => busy_because(told.message()),
        None => {
            let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
            busy_because(&format!("{error}{cause}"))
        }
    }
}

fn busy_because(why: &str) -> Error {
    Error::Busy { detail: format!("the database: {why}") }
}

fn unanswered() -> Error {
    busy_because("it does not answer")
}

/// A commit that was sent, and not answered.
struct LostCommit {
    pool: Arc<Pool>,
    backend: Backend,
}

impl Lost for LostCommit {
    fn value_after(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Backend { process, started } = &self.backend;
        let value = self.pool.ask(async |connection| {
            let Connection { client, statements, .. } = connection;
            if !client.query(&statements.end_backend, &[process, started, &self.pool.name]).await?.is_empty() {
                return Ok(None);
            }
            let value = values(connection, &[key.to_vec()]).await?.pop().flatten();
            if value.is_some() {
                // Its backend may have waited for a standby until it was ended. This one waits for all that was committed before.
                client.execute(&statements.touch, &[&key]).await?;
            }
            Ok(Some(value))
        });
        value?.ok_or_else(|| busy_because("a lost commit has not ended"))
    }
}
