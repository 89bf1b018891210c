//! A database in memory for tests: an ordered map with versions, on which several stores run as servers would, and whose faults are drawn
//! from a seed. It is no part of a release (feature `simulated`).
//!
//! Transactions are isolated by snapshots, and a commit fails if a key that it writes or depends on has a newer version, as in the real
//! ones. A test may have each request call [`Simulation::before_requests`] first, and let one thread run at a time there: then a seed
//! determines what happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use super::scan::{Page, Range};
use super::{Changes, Engine, Limits, Lost, Outcome, Store, Striped, View};
use crate::error::{Error, Result};

/// How often what goes wrong, in each 10 000 requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A commit is refused as if it had raced.
    pub conflicts: u32,
    /// A commit gets no answer and was not done; what became of it can be found out.
    pub lost_before: u32,
    /// A commit gets no answer and was done; what became of it can be found out.
    pub lost_after: u32,
    /// A commit gets no answer, was done or not, and nobody ever says which.
    pub unanswered: u32,
    /// A transaction or a snapshot can no longer be read: the connection is lost, or it is too old.
    pub lost_views: u32,
    /// A request outside a transaction is not answered.
    pub unavailable: u32,
    /// A page ends before it is full.
    pub short_pages: u32,
    /// The time that each request takes.
    pub latency: Duration,
    /// A defect planted in the database, which a test of everything above it must find.
    pub defect: Option<Defect>,
}

/// A defect of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// What a commit depends on and does not write may have changed.
    NoDependencies,
    /// What a commit writes may have changed: as if a transaction that raced were written without being run again.
    NoConflicts,
    /// A commit that was done and whose answer is lost is said to have raced.
    LostMeansFailed,
    /// A commit that was not done and whose answer is lost is said to be done.
    LostMeansDone,
}

/// What has happened in a simulation.
#[derive(Debug, Default)]
pub struct Seen {
    /// Commits refused since others were faster.
    pub raced: AtomicU64,
    /// Commits whose answer was lost.
    pub lost: AtomicU64,
}

/// A database in memory; clones are the same one.
#[derive(Clone)]
pub struct Simulation(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    before: RwLock<Option<Before>>,
    seen: Seen,
}

type Before = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    keys: BTreeMap<Vec<u8>, Versions>,
    /// The version of the last commit.
    version: u64,
    /// The number of views by version.
    views: BTreeMap<u64, usize>,
    faults: Faults,
    random: u64,
}

/// The values of a key by the version from which on they hold, ascending; `None` where it is deleted.
type Versions = Vec<(u64, Option<Vec<u8>>)>;

impl Simulation {
    /// Creates an empty database without faults; `seed` determines those that it is given later.
    pub fn new(seed: u64) -> Self {
        let state = Mutex::new(State { random: seed, ..State::default() });
        Self(Arc::new(Shared { state, before: RwLock::default(), seen: Seen::default() }))
    }

    /// Has things go wrong from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.0.state.lock().faults = faults;
    }

    /// Has every request call this first, which may block.
    pub fn before_requests(&self, before: Option<Before>) {
        *self.0.before.write() = before;
    }

    /// Returns what has happened so far.
    pub fn seen(&self) -> &Seen {
        &self.0.seen
    }

    /// Connects a store.
    pub(in crate::layers::storage) fn connect(&self, is_read_only: bool) -> Store {
        let round_trips = Arc::<Striped>::default();
        let client = Client { shared: Arc::clone(&self.0), round_trips: Arc::clone(&round_trips) };
        Store::of(Arc::new(client), Uuid::new_v4(), round_trips, is_read_only)
    }
}

/// A server's connection to it.
struct Client {
    shared: Arc<Shared>,
    round_trips: Arc<Striped>,
}

impl Client {
    /// Begins a request that takes so many round trips.
    fn request(&self, round_trips: u64) {
        self.round_trips.add(round_trips);
        self.shared.request(round_trips);
    }

    fn commit(&self, since: Option<u64>, changes: &Changes) -> Outcome {
        self.request(2);
        let (mut state, seen) = (self.shared.state.lock(), &self.shared.seen);
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let faults = state.faults;
        let has_changed = |key: &Vec<u8>| {
            let latest = state.keys.get(key).and_then(|versions| versions.last());
            latest.is_some_and(|(version, _)| since.is_some_and(|since| *version > since))
        };
        let depends = changes.depended.keys().filter(|key| !changes.writes.contains_key(*key)).any(has_changed)
            && faults.defect != Some(Defect::NoDependencies);
        let mut written = changes.writes.keys();
        let writes = written.any(has_changed) && faults.defect != Some(Defect::NoConflicts);
        let in_ranges = changes.ranges.iter().any(|(lower, upper)| {
            let mut keys = state.keys.range(lower.clone()..upper.clone());
            keys.any(|(key, _)| has_changed(key))
        });
        let (is_conflict, is_before) = (state.draw(faults.conflicts), state.draw(faults.lost_before));
        if depends || writes || in_ranges || is_conflict {
            count(&seen.raced);
            return Outcome::Raced;
        }
        let (is_after, is_unanswered) = (state.draw(faults.lost_after), state.draw(faults.unanswered));
        if is_before || is_unanswered && state.draw(5000) {
            count(&seen.lost);
            return match faults.defect {
                Some(Defect::LostMeansDone) => Outcome::Done,
                _ => self.lost(is_unanswered),
            };
        }
        state.write(changes);
        if is_after || is_unanswered {
            count(&seen.lost);
            return match faults.defect {
                Some(Defect::LostMeansFailed) => Outcome::Raced,
                _ => self.lost(is_unanswered),
            };
        }
        Outcome::Done
    }

    fn lost(&self, is_unanswered: bool) -> Outcome {
        let client = Self { shared: Arc::clone(&self.shared), round_trips: Arc::clone(&self.round_trips) };
        Outcome::Lost(Box::new(LostCommit { client, is_unanswered }))
    }

    fn begin(&self, round_trips: u64) -> Moment {
        self.request(round_trips);
        let mut state = self.shared.state.lock();
        let version = state.version;
        *state.views.entry(version).or_default() += 1;
        let client = Self { shared: Arc::clone(&self.shared), round_trips: Arc::clone(&self.round_trips) };
        Moment { client, version }
    }
}

impl Shared {
    fn request(&self, round_trips: u64) {
        let before = self.before.read().clone();
        if let Some(before) = before {
            before();
        }
        let latency = self.state.lock().faults.latency;
        if !latency.is_zero() {
            std::thread::sleep(latency.saturating_mul(round_trips as u32));
        }
    }
}

impl State {
    /// Returns whether what happens so often in 10 000 times happens now (splitmix64).
    fn draw(&mut self, often: u32) -> bool {
        often > 0 && self.next() % 10_000 < u64::from(often)
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn write(&mut self, changes: &Changes) {
        self.version += 1;
        for (lower, upper) in &changes.ranges {
            let keys: Vec<_> = self.keys.range(lower.clone()..upper.clone()).map(|(key, _)| key.clone()).collect();
            keys.into_iter().for_each(|key| self.set(key, None));
        }
        for (key, value) in &changes.writes {
            self.set(key.clone(), value.clone());
        }
    }

    /// Sets a key, and forgets the versions of it that no view can see. What a deleted one leaves is kept while there are views from before
    /// it, which it makes race.
    fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let oldest = self.views.keys().next().copied().unwrap_or(self.version);
        let versions = self.keys.entry(key.clone()).or_default();
        versions.push((self.version, value));
        let seen = versions.partition_point(|(version, _)| *version <= oldest);
        versions.drain(..seen.saturating_sub(1));
        if matches!(versions[..], [(version, None)] if version <= oldest) {
            self.keys.remove(&key);
        }
    }

    fn value(&self, key: &[u8], version: u64) -> Option<Vec<u8>> {
        value_at(self.keys.get(key)?, version).cloned()
    }
}

fn value_at(versions: &Versions, version: u64) -> Option<&Vec<u8>> {
    versions.iter().rev().find(|(from, _)| *from <= version)?.1.as_ref()
}

impl Engine for Client {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn clock(&self) -> Result<i64> {
        self.request(1);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(since.as_micros() as i64)
    }

    fn end_sessions_of(&self, _server: &Uuid) -> Result<()> {
        // A commit is done in a moment.
        self.request(1);
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits {
            key_bytes: 64 << 10,
            value_bytes: 256 << 20,
            commit_bytes: 256 << 20,
            commit_keys: usize::MAX,
            resent_bytes: usize::MAX,
            has_ranges: true,
            settled_within: Duration::ZERO,
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.request(1);
        let mut state = self.shared.state.lock();
        let unavailable = state.faults.unavailable;
        if state.draw(unavailable) {
            return Err(Error::Busy { detail: "the simulated database does not answer".to_owned() });
        }
        let version = state.version;
        Ok(state.value(key, version))
    }

    fn begin(&self, writes: bool) -> Result<Box<dyn View>> {
        // The first read of a transaction begins it; a snapshot is asked for its sequence number.
        Ok(Box::new(self.begin(u64::from(!writes))))
    }

    fn write(&self, changes: &Changes) -> Outcome {
        self.commit(None, changes)
    }

    fn destroy(&self, prefix: &[u8]) -> Result<()> {
        self.request(1);
        self.shared.state.lock().keys.retain(|key, _| !key.starts_with(prefix));
        Ok(())
    }

    fn latest_sequence(&self) -> Result<u64> {
        self.request(1);
        Ok(self.shared.state.lock().version)
    }

    fn pause(&self, time: Duration) {
        if self.shared.before.read().is_some() {
            self.request(0);
        } else {
            std::thread::sleep(time);
        }
    }
}

/// The database at a version.
struct Moment {
    client: Client,
    version: u64,
}

impl Moment {
    fn read<R>(&self, read: impl FnOnce(&mut State) -> R) -> Result<R> {
        self.client.request(1);
        let mut state = self.client.shared.state.lock();
        let lost = state.faults.lost_views;
        if state.draw(lost) {
            return Err(Error::Raced);
        }
        Ok(read(&mut state))
    }
}

impl View for Moment {
    fn sequence(&self) -> u64 {
        self.version
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.read(|state| keys.iter().map(|key| state.value(key, self.version)).collect())
    }

    fn pages(&self, ranges: &[Range], rows: usize) -> Result<Vec<Page>> {
        self.read(|state| {
            let short = state.faults.short_pages;
            let page = |range: &Range| {
                let rows = if state.draw(short) { (state.next() % 3) as usize } else { rows };
                page_of(state, range, rows, self.version)
            };
            ranges.iter().map(page).collect()
        })
    }

    fn commit(self: Box<Self>, changes: &Changes) -> Outcome {
        self.client.commit(Some(self.version), changes)
    }
}

/// Returns at most so many keys of a range. A page without any may still have a rest.
fn page_of(state: &State, range: &Range, rows: usize, version: u64) -> Page {
    if range.lower >= range.upper {
        return Page::default();
    }
    let keys = state.keys.range(range.lower.clone()..range.upper.clone());
    let keys: Box<dyn Iterator<Item = _>> = if range.backwards { Box::new(keys.rev()) } else { Box::new(keys) };
    let mut keys = keys.filter_map(|(key, versions)| Some((key.clone(), value_at(versions, version)?.clone())));
    let entries: Vec<_> = keys.by_ref().take(rows).collect();
    let rest = match entries.last() {
        Some((last, _)) if entries.len() == rows => Some(range.behind(last)),
        None if rows == 0 => Some(range.clone()),
        _ => None,
    };
    Page { entries, rest }
}

impl Drop for Moment {
    fn drop(&mut self) {
        let mut state = self.client.shared.state.lock();
        if let Some(count) = state.views.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                state.views.remove(&self.version);
            }
        }
    }
}

/// A commit whose answer was lost.
struct LostCommit {
    client: Client,
    is_unanswered: bool,
}

impl Lost for LostCommit {
    fn value_after(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.is_unanswered {
            true => Err(Error::Busy { detail: "the simulated database does not answer".to_owned() }),
            false => self.client.get(key),
        }
    }
}
