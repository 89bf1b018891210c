//! TiKV: keys of one prefix, in optimistic transactions.
//!
//! A verb is one transaction. It begins with a timestamp of PD, which is also the sequence number of a snapshot: each write that was
//! committed at a smaller or the same one is seen. A commit locks what is written or depended on (prewrite), takes a timestamp, and commits
//! the primary key; TiKV refuses the first step if one of the keys was written since the transaction began. Two transactions that depend on
//! the same key race, too: TiKV has no shared locks. No async commit, and no commit in one phase.
//!
//! **A lost answer.** The client's error does not say in which step it was lost, so each that is not a refusal is of unknown outcome. Then
//! nothing is rolled back: that would undo the other keys of a transaction whose primary key is committed. The receipt is the primary key,
//! and reading it at a new timestamp settles the transaction: the client finds it committed, or waits for the lock to end and removes it.
//! After a refusal it is rolled back, or its locks would hold others up.
//!
//! There are no sessions to end, so a server that was stopped between its last look at its lease and the commit, and longer than the lease,
//! may write as the schema was before: `verify` finds that.

mod client;
mod regions;
mod runtime;
mod url;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tikv_client::{BoundRange, KvPair, Timestamp, TimestampExt, Transaction, TransactionClient, Value};
use uuid::Uuid;

use self::client::{ANSWERED_WITHIN, Client, busy, busy_because, is_refusal, is_too_large};
use self::regions::Regions;
pub(in crate::layers::storage) use self::url::Url;
use super::scan::{Page, Range};
use super::{Changes, Engine, Limits, Lost, Outcome, Store, Striped, View};
use crate::error::{Error, Result};

/// The value of the key that is the engine's own.
const FORMAT: &[u8] = b"strata 1";

/// The rows that are read together where the values of more exceed an answer: their values are the longest.
const FEW_ROWS: usize = 8;

/// How long a snapshot can be read. What is older than the next is collected after ten minutes.
const READ_WITHIN: Duration = Duration::from_secs(9 * 60);
const KEPT_FOR_MS: i64 = 10 * 60 * 1000;

/// How often garbage is collected, and how long that may take.
const COLLECTED_EVERY: Duration = Duration::from_secs(300);
const COLLECTED_WITHIN: Duration = Duration::from_secs(120);

/// A database, as seen by one server.
struct Tikv {
    shared: Arc<Shared>,
    collects_garbage: bool,
    has_random_ids: bool,
    collected: Mutex<Option<Instant>>,
}

/// What its views use, too.
struct Shared {
    client: Client,
    regions: Regions,
    prefix: Vec<u8>,
    round_trips: Arc<Striped>,
}

/// Connects to a database, and writes its format if it is empty.
///
/// # Errors
/// `Invalid` if what is there is not one of ours; `Busy` if the database does not answer.
pub fn connect(url: &Url, is_read_only: bool) -> Result<Store> {
    let round_trips = Arc::<Striped>::default();
    let shared = Arc::new(Shared {
        client: Client::connect(&url.endpoints)?,
        regions: Regions::new(&url.endpoints),
        prefix: url.prefix.clone(),
        round_trips: Arc::clone(&round_trips),
    });
    shared.check_format(is_read_only)?;
    let engine = Tikv {
        shared,
        collects_garbage: url.collects_garbage,
        has_random_ids: url.has_random_ids,
        collected: Mutex::default(),
    };
    Ok(Store::of(Arc::new(engine), Uuid::new_v4(), round_trips, is_read_only))
}

impl Shared {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    /// Takes a timestamp.
    fn timestamp(&self) -> Result<Timestamp> {
        self.round_trips.add(1);
        self.client.ask_pd(async |client| client.current_timestamp().await)
    }

    fn multi_get(&self, timestamp: &Timestamp, keys: &[Vec<u8>]) -> Result<Vec<Option<Value>>> {
        self.round_trips.add(1);
        let keys: Vec<_> = keys.iter().map(|key| self.key(key)).collect();
        self.client.ask(async |client| {
            let mut snapshot = client.snapshot(timestamp.clone(), client::options());
            if let [key] = &keys[..] {
                return Ok(vec![snapshot.get(key.clone()).await?.map(own)]);
            }
            // Grouped by region in the order in which they are asked for.
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let mut found: HashMap<Vec<u8>, Value> = HashMap::new();
            let entry = |pair: KvPair| (pair.0.into(), own(pair.1));
            match snapshot.batch_get(sorted.clone()).await {
                Err(error) if is_too_large(&error) => {
                    for few in sorted.chunks(FEW_ROWS) {
                        found.extend(snapshot.batch_get(few.to_vec()).await?.map(entry));
                    }
                }
                outcome => found.extend(outcome?.map(entry)),
            }
            Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
        })
    }

    /// Reads the first rows of a range, as far as they lie in its first region.
    async fn page(
        &self,
        client: &TransactionClient,
        timestamp: &Timestamp,
        range: &Range,
        mut rows: usize,
    ) -> tikv_client::Result<(Page, bool)> {
        if range.lower >= range.upper {
            return Ok((Page::default(), false));
        }
        let all = Range { lower: self.key(&range.lower), upper: self.key(&range.upper), backwards: range.backwards };
        let (cut, is_asked) = self.regions.cut(&all).await;
        let mut snapshot = client.snapshot(timestamp.clone(), client::options());
        let mut scan = async |rows: usize| -> tikv_client::Result<Vec<KvPair>> {
            let (bounds, limit) = (BoundRange::from(cut.lower.clone()..cut.upper.clone()), rows as u32);
            Ok(match range.backwards {
                true => snapshot.scan_reverse(bounds, limit).await?.collect(),
                false => snapshot.scan(bounds, limit).await?.collect(),
            })
        };
        let found = match scan(rows).await {
            Err(error) if is_too_large(&error) && rows > FEW_ROWS => {
                rows = FEW_ROWS;
                scan(rows).await?
            }
            outcome => outcome?,
        };
        let key_of = |key: &[u8]| key[self.prefix.len()..].to_vec();
        let entries: Vec<_> = found.into_iter().map(|pair| (key_of((&pair.0).into()), own(pair.1))).collect();
        let rest = match entries.last() {
            Some((last, _)) if entries.len() >= rows => Some(range.behind(last)),
            _ if cut.upper < all.upper => Some(Range { lower: key_of(&cut.upper), ..range.clone() }),
            _ if cut.lower > all.lower => Some(Range { upper: key_of(&cut.lower), ..range.clone() }),
            _ => None,
        };
        Ok((Page { entries, rest }, is_asked))
    }

    fn pages(&self, timestamp: &Timestamp, ranges: &[Range], rows: usize) -> Result<Vec<Page>> {
        let pages = self.client.ask(async |client| {
            try_join_all(ranges.iter().map(|range| self.page(&client, timestamp, range, rows))).await
        })?;
        let has_asked = pages.iter().any(|(_, is_asked)| *is_asked);
        self.round_trips.add(1 + u64::from(has_asked));
        Ok(pages.into_iter().map(|(page, _)| page).collect())
    }

    /// Creates the key that is the engine's own in an empty database.
    ///
    /// # Errors
    /// `Invalid` if what is there is not one of ours; `Busy` if the database does not answer.
    fn check_format(&self, is_read_only: bool) -> Result<()> {
        let (key, mut end) = (self.key(b"\0"), self.prefix.clone());
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        loop {
            let checked = self.client.ask_within(ANSWERED_WITHIN, async |client| {
                let mut transaction = client.begin_with_options(client::options()).await?;
                let format = transaction.get(key.clone()).await?;
                if format.is_some() || is_read_only {
                    return Ok(format);
                }
                if transaction.scan_keys(self.prefix.clone()..end.clone(), 1).await?.next().is_some() {
                    return Ok(Some(Vec::new()));
                }
                transaction.put(key.clone(), FORMAT).await?;
                transaction.commit().await?;
                Ok(Some(FORMAT.to_vec()))
            });
            return match checked? {
                Ok(Some(format)) if format == FORMAT => Ok(()),
                Ok(Some(format)) if format.starts_with(b"strata ") => {
                    let format = String::from_utf8_lossy(&format).into_owned();
                    Err(Error::invalid(format!("the database has the format {format:?}: use a newer program")))
                }
                Ok(Some(_)) => Err(Error::invalid(
                    "what the database has with this prefix is not one of Strata's: name another one by prefix= in the URL",
                )),
                Ok(None) => Err(Error::invalid("the database has no store with this prefix")),
                // Another server has just created it.
                Err(error) if is_refusal(&error) => continue,
                Err(error) => Err(busy(&error)),
            };
        }
    }
}

/// Returns a value without the byte behind it: clients of TiKV refuse empty ones, or lose them.
fn own(mut value: Value) -> Value {
    value.pop();
    value
}

/// Stages what a commit writes and depends on, the receipt first: it becomes the primary key.
async fn stage(shared: &Shared, transaction: &mut Transaction, changes: &Changes) -> tikv_client::Result<()> {
    let (receipts, others): (Vec<_>, Vec<_>) = changes.writes.iter().partition(|(key, _)| **key == changes.receipt);
    for (key, value) in receipts.into_iter().chain(others) {
        match value {
            Some(value) => transaction.put(shared.key(key), [value, &b"\0"[..]].concat()).await?,
            None => transaction.delete(shared.key(key)).await?,
        }
    }
    let depended = changes.depended.keys().filter(|key| !changes.writes.contains_key(*key));
    transaction.lock_keys(depended.map(|key| shared.key(key))).await
}

fn commit(shared: &Arc<Shared>, mut transaction: Transaction, changes: &Changes) -> Outcome {
    shared.round_trips.add(3);
    // Keys are sent 16 KiB at a time: a second more for each thousand, and for each MiB.
    let bytes: usize = changes.writes.values().flatten().map(Vec::len).sum();
    let more = (changes.writes.len() + changes.depended.len() + bytes / 1024) as u64;
    let limit = ANSWERED_WITHIN + Duration::from_millis(more);
    let outcome = shared.client.ask_within(limit, async |_| {
        stage(shared, &mut transaction, changes).await?;
        let outcome = transaction.commit().await;
        if outcome.as_ref().is_err_and(is_refusal) {
            let _ = transaction.rollback().await;
        }
        outcome
    });
    match outcome {
        Ok(Ok(_)) => Outcome::Done,
        Ok(Err(error)) if is_refusal(&error) => Outcome::Raced,
        Ok(Err(_)) | Err(_) => Outcome::Lost(Box::new(LostCommit { shared: Arc::clone(shared) })),
    }
}

/// A commit that was sent, and not answered.
struct LostCommit {
    shared: Arc<Shared>,
}

impl Lost for LostCommit {
    fn value_after(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let now = self.shared.timestamp()?;
        Ok(self.shared.multi_get(&now, &[key.to_vec()])?.pop().flatten())
    }
}

impl Engine for Tikv {
    fn name(&self) -> &'static str {
        "tikv"
    }

    fn limits(&self) -> Limits {
        // An entry of TiKV's log has at most 8 MiB, and a key 8 KiB after it was encoded.
        Limits {
            key_bytes: 4096,
            value_bytes: 6 << 20,
            commit_bytes: 16 << 20,
            commit_keys: 20_000,
            // The client names all keys in each request of a prewrite, and has all of these in memory at once.
            resent_bytes: 512 << 20,
            has_ranges: false,
            settled_within: Duration::from_secs(10),
        }
    }

    fn clock(&self) -> Result<i64> {
        Ok(self.shared.timestamp()?.physical * 1000)
    }

    /// It knows no sessions.
    fn end_sessions_of(&self, _server: &Uuid) -> Result<()> {
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let now = self.shared.timestamp()?;
        Ok(self.shared.multi_get(&now, &[key.to_vec()])?.pop().flatten())
    }

    fn begin(&self, writes: bool) -> Result<Box<dyn View>> {
        self.shared.round_trips.add(1);
        let begun = Instant::now();
        let (timestamp, transaction) = self.shared.client.ask_pd(async |client| {
            if !writes {
                return Ok((client.current_timestamp().await?, None));
            }
            let transaction = client.begin_with_options(client::options()).await?;
            Ok((transaction.start_timestamp(), Some(transaction)))
        })?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(AtTimestamp { shared, timestamp, begun, transaction: Mutex::new(transaction) }))
    }

    fn write(&self, changes: &Changes) -> Outcome {
        self.shared.round_trips.add(1);
        match self.shared.client.ask_pd(async |client| client.begin_with_options(client::options()).await) {
            Ok(transaction) => commit(&self.shared, transaction, changes),
            Err(error) => Outcome::Refused(error),
        }
    }

    fn destroy(&self, prefix: &[u8]) -> Result<()> {
        let (lower, mut upper) = (self.shared.key(prefix), Vec::new());
        crate::encoding::key::successor(&lower, &mut upper);
        self.shared.round_trips.add(1);
        self.shared.client.ask(async |client| client.unsafe_destroy_range(lower.clone()..upper.clone()).await)
    }

    fn latest_sequence(&self) -> Result<u64> {
        Ok(self.shared.timestamp()?.version())
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn has_random_ids(&self) -> bool {
        self.has_random_ids
    }

    fn collect_garbage(&self) -> Result<()> {
        let mut collected = self.collected.lock();
        if !self.collects_garbage || collected.is_some_and(|last| last.elapsed() < COLLECTED_EVERY) {
            return Ok(());
        }
        *collected = Some(Instant::now());
        let now = self.shared.timestamp()?;
        let safe = Timestamp { physical: now.physical - KEPT_FOR_MS, logical: 0, ..now };
        // It looks at all regions of the cluster.
        let collected = self.shared.client.ask_within(COLLECTED_WITHIN, async |client| client.gc(safe).await)?;
        collected.map(drop).map_err(|error| busy(&error))
    }
}

/// The database at the moment of a timestamp.
struct AtTimestamp {
    shared: Arc<Shared>,
    timestamp: Timestamp,
    begun: Instant,
    /// Present in one that writes until it is committed.
    transaction: Mutex<Option<Transaction>>,
}

impl AtTimestamp {
    fn check_age(&self) -> Result<()> {
        if self.begun.elapsed() < READ_WITHIN { Ok(()) } else { Err(Error::Raced) }
    }
}

impl View for AtTimestamp {
    fn sequence(&self) -> u64 {
        self.timestamp.version()
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.check_age()?;
        self.shared.multi_get(&self.timestamp, keys)
    }

    fn pages(&self, ranges: &[Range], rows: usize) -> Result<Vec<Page>> {
        self.check_age()?;
        self.shared.pages(&self.timestamp, ranges, rows)
    }

    fn commit(self: Box<Self>, changes: &Changes) -> Outcome {
        match (self.check_age(), self.transaction.lock().take()) {
            (Ok(()), Some(transaction)) => commit(&self.shared, transaction, changes),
            (Ok(()), None) => Outcome::Refused(busy_because("a snapshot writes nothing")),
            (Err(_), _) => Outcome::Raced,
        }
    }
}
