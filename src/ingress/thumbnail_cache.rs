//! Thumbnails that are kept, and those that are being made, of which each is made once for all who ask meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lru::LruCache;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use super::panics::caught;
use crate::handlers::thumbnails::{Key, Made, Maker, Wanted};
use crate::handlers::{Failure, Options, Result};
use crate::pictures::Fault;
use crate::transaction::Database;

/// Bytes that keeping one takes beside its own.
const ENTRY_BYTES: usize = 256;

/// Thumbnails that are kept, and those that are being made.
pub(super) struct Thumbnails {
    maker: Maker,
    cache_bytes: usize,
    shared: Arc<Mutex<Shared>>,
    pub(super) counted: Counted,
}

/// What became of requests for thumbnails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counters {
    /// Thumbnails that were made, also if the client had gone by then.
    made: u64,
    /// Requests answered without making one: kept, made for another, or known to the client.
    cached: u64,
    /// Requests that were refused (422, 503).
    refused: u64,
}

/// The counters behind [`Counters`].
#[derive(Debug, Default)]
pub(super) struct Counted {
    made: AtomicU64,
    pub(super) cached: AtomicU64,
    pub(super) refused: AtomicU64,
}

struct Shared {
    kept: LruCache<Key, Made>,
    kept_bytes: usize,
    /// Those that are being made, each with a [`Making`].
    making: HashMap<Key, watch::Receiver<Option<Outcome>>>,
}

/// What is shared by all who wait for one.
pub(super) type Outcome = std::result::Result<Made, Fault>;

/// What a request finds.
pub(super) enum Found {
    Kept(Made),
    BeingMade(watch::Receiver<Option<Outcome>>),
    /// It is to be made, for others who ask meanwhile, too, if any is kept.
    Missing(Option<Making>),
}

/// Tells the outcome to all requests that wait for a thumbnail. If it is dropped before, one of them makes it.
pub(super) struct Making {
    shared: Arc<Mutex<Shared>>,
    key: Key,
    outcome: watch::Sender<Option<Outcome>>,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.shared.lock().making.remove(&self.key);
    }
}

impl Thumbnails {
    pub(super) fn new(options: &Options) -> Self {
        let shared = Shared { kept: LruCache::unbounded(), kept_bytes: 0, making: HashMap::new() };
        Self {
            maker: Maker::new(options),
            cache_bytes: options.thumb_cache_bytes,
            shared: Arc::new(Mutex::new(shared)),
            counted: Counted::default(),
        }
    }

    /// Returns the current counters.
    pub(super) fn counters(&self) -> Counters {
        let Counted { made, cached, refused } = &self.counted;
        Counters { made: made.load(Relaxed), cached: cached.load(Relaxed), refused: refused.load(Relaxed) }
    }

    pub(super) fn find(&self, key: Key) -> Found {
        if self.cache_bytes == 0 {
            return Found::Missing(None);
        }
        let shared = &mut *self.shared.lock();
        if let Some(made) = shared.kept.get(&key) {
            return Found::Kept(made.clone());
        }
        if let Some(making) = shared.making.get(&key) {
            return Found::BeingMade(making.clone());
        }
        let (outcome, receiver) = watch::channel(None);
        shared.making.insert(key, receiver);
        Found::Missing(Some(Making { shared: Arc::clone(&self.shared), key, outcome }))
    }

    /// Makes one, keeps it, and says it to those who wait for it.
    pub(super) fn make(&self, database: &Database, wanted: Wanted, making: Option<Making>) -> Result<Made> {
        let made = caught(|| self.maker.make(database, wanted));
        self.counted.made.fetch_add(u64::from(made.is_ok()), Relaxed);
        if let Some(making) = making {
            let outcome = match &made {
                Ok(made) => {
                    making.shared.lock().keep(making.key, made, self.cache_bytes);
                    Some(Ok(made.clone()))
                }
                Err(Failure::Picture(fault)) => Some(Err(fault.clone())),
                // No fault of the picture: others may have more luck.
                Err(_) => None,
            };
            making.outcome.send_replace(outcome);
        }
        made
    }
}

impl Shared {
    fn keep(&mut self, key: Key, made: &Made, most_bytes: usize) {
        let bytes = |made: &Made| made.bytes.len() + ENTRY_BYTES;
        if bytes(made) > most_bytes {
            return;
        }
        self.kept_bytes += bytes(made);
        let before = self.kept.put(key, made.clone());
        self.kept_bytes -= before.as_ref().map_or(0, bytes);
        while self.kept_bytes > most_bytes {
            let Some((_, oldest)) = self.kept.pop_lru() else { break };
            self.kept_bytes -= bytes(&oldest);
        }
    }
}
