//! Thumbnails: made once, in the lane of pictures, and kept for whoever asks next.
//!
//! ```text
//! head ── inline or in the pool ──┬─ the client has it: 304
//!                                 ├─ kept ── answered
//!                                 ├─ being made for another ── waits for that one
//!                                 └─ else ── made in the lane of pictures, which has as many threads as that of lists
//! ```
//! One that is being made is finished though its client has disconnected: others may wait for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Response, StatusCode};
use lru::LruCache;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use super::crossing::{Crossing, caught};
use super::peer::Peer;
use super::permits::Permit;
use super::unanswered::Unanswered;
use super::{Answering, Body, Ingress};
use crate::error::Error;
use crate::handlers::thumbnails::{Begun, Key, Made, Maker, Wanted, answer, begin};
use crate::handlers::{Answer, Failure, Options, Result};
use crate::observability::{self, Span};
use crate::pictures::Fault;
use crate::routing::{Access, Blob, Lane};
use crate::schema::ThumbSize;
use crate::transaction::Database;

/// Bytes that keeping one takes beside its own.
const ENTRY_BYTES: usize = 256;

/// Thumbnails that are kept, and those that are being made.
pub(super) struct Thumbnails {
    maker: Maker,
    cache_bytes: usize,
    shared: Arc<Mutex<Shared>>,
    counted: Counted,
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
struct Counted {
    made: AtomicU64,
    cached: AtomicU64,
    refused: AtomicU64,
}

struct Shared {
    kept: LruCache<Key, Made>,
    kept_bytes: usize,
    /// Those that are being made, each with a [`Making`].
    making: HashMap<Key, watch::Receiver<Option<Outcome>>>,
}

/// What is shared by all who wait for one.
type Outcome = std::result::Result<Made, Fault>;

/// What a request finds.
enum Found {
    Kept(Made),
    BeingMade(watch::Receiver<Option<Outcome>>),
    /// It is to be made, for others who ask meanwhile, too, if any is kept.
    Missing(Option<Making>),
}

/// Tells the outcome to all requests that wait for a thumbnail. If it is dropped before, one of them makes it.
struct Making {
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

    fn find(&self, key: Key) -> Found {
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
    fn make(&self, database: &Database, wanted: Wanted, making: Option<Making>) -> Result<Made> {
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

/// What a request does next.
enum Next {
    Answer(Result<Answer>),
    Wait(watch::Receiver<Option<Outcome>>, HeaderValue),
    Make(Wanted, Option<Making>),
}

impl Thumbnails {
    /// Goes on with a request that has begun.
    fn next(&self, begun: Result<Begun>) -> Next {
        let cached = |answer| {
            self.counted.cached.fetch_add(1, Relaxed);
            Next::Answer(Ok(answer))
        };
        match begun {
            Err(failure) => Next::Answer(Err(failure)),
            Ok(Begun::Known(answer)) => cached(answer),
            Ok(Begun::Wanted(wanted)) => match self.find(wanted.key) {
                Found::Kept(made) => cached(answer(&made, wanted.etag)),
                Found::BeingMade(making) => Next::Wait(making, wanted.etag),
                Found::Missing(making) => Next::Make(wanted, making),
            },
        }
    }
}

impl Ingress {
    /// Answers with a thumbnail of a blob.
    pub(super) fn answer_with_thumbnail(
        self: &Arc<Self>,
        blob: &Blob<'_>,
        spec: ThumbSize,
        headers: &HeaderMap,
        context: observability::Context,
        peer: &Peer,
    ) -> Answering {
        let (mut request, head) = (Unanswered::new(self, context, peer), blob.access == Access::Describe);
        let begun =
            caught(|| begin(&self.crossing.never_blocking, blob.table, &blob.id, blob.attribute, spec, headers));
        let next = match self.crossing.thumbnails.next(begun) {
            Next::Answer(Err(Failure::Error(Error::WouldBlock))) => None,
            Next::Answer(outcome) => return Answering::Now(Some(answered(request, outcome, head, headers))),
            next => Some(next),
        };
        request.context().mark(Span::Handler);
        let (blob, headers) = ((blob.table.name.clone(), blob.id.to_string(), blob.attribute), headers.clone());
        Answering::later(async move {
            let (crossing, peer) = (Arc::clone(&request.ingress.crossing), request.peer.clone());
            let waited_ms = request.ingress.options.request_timeout_ms;
            let made = tokio::time::timeout(
                Duration::from_millis(waited_ms),
                thumbnail(&crossing, next, &blob, spec, &headers, &peer),
            );
            let made = made.await.unwrap_or(Err(Failure::TimedOut { waited_ms }));
            request.context().mark(Span::Pool);
            answered(request, made, head, &headers)
        })
    }
}

/// Answers, and counts what is refused.
fn answered(request: Unanswered, outcome: Result<Answer>, head: bool, headers: &HeaderMap) -> Response<Body> {
    let ingress = Arc::clone(&request.ingress);
    let answer = request.answer_for(outcome, head, headers);
    if [StatusCode::UNPROCESSABLE_ENTITY, StatusCode::SERVICE_UNAVAILABLE].contains(&answer.status()) {
        ingress.crossing.thumbnails.counted.refused.fetch_add(1, Relaxed);
    }
    answer
}

/// The answer to a request, which begins in the pool if it could not in memory. `blob`: table, id, position of the attribute.
async fn thumbnail(
    crossing: &Arc<Crossing>,
    mut next: Option<Next>,
    (table, id, attribute): &(String, String, usize),
    spec: ThumbSize,
    headers: &HeaderMap,
    peer: &Peer,
) -> Result<Answer> {
    let thumbnails = &crossing.thumbnails;
    loop {
        match next {
            Some(Next::Answer(outcome)) => return outcome,
            // No snapshot is held meanwhile.
            Some(Next::Wait(mut making, etag)) => {
                if let Ok(outcome) = making.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
                    let made = outcome.expect("it was waited for")?;
                    thumbnails.counted.cached.fetch_add(1, Relaxed);
                    return Ok(answer(&made, etag));
                }
            }
            Some(Next::Make(wanted, making)) => return make(crossing, wanted, making, peer).await,
            None => {}
        }
        let (table, id, attribute, wanted) = (table.clone(), id.clone(), *attribute, headers.clone());
        let job = move |database: &Database| begin(database, database.table(&table)?, &id, attribute, spec, &wanted);
        next = Some(thumbnails.next(crossing.read_in_pool(peer, job).await));
    }
}

/// Makes one in the lane of pictures.
async fn make(crossing: &Arc<Crossing>, wanted: Wanted, making: Option<Making>, peer: &Peer) -> Result<Answer> {
    let permit = Permit::take(crossing, peer, Lane::Picturing).ok_or(Failure::Overloaded)?;
    let etag = wanted.etag.clone();
    let work = Arc::new(Mutex::new(Some((wanted, making))));
    let in_lane = Arc::clone(&work);
    let job = move |crossing: &Crossing| {
        let (wanted, making) = in_lane.lock().take().ok_or(Failure::Overloaded)?;
        crossing.thumbnails.make(crossing.database(), wanted, making)
    };
    let made = permit.in_pool(job).await;
    // If its place was given up, it is still there: whoever waits for it makes it.
    drop(work.lock().take());
    Ok(answer(&made??, etag))
}
