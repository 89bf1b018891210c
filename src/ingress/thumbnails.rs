//! Requests for thumbnails, which are made once, in the pool of pictures, and kept for whoever asks next (`thumbnail_cache`).
//!
//! ```text
//! head ── inline or in the pool ──┬─ the client has it: 304
//!                                 ├─ kept ── answered
//!                                 ├─ being made for another ── waits for that one
//!                                 └─ else ── made in the pool of pictures, which has as many threads as that of lists
//! ```
//! One that is being made is finished though its client has disconnected: others may wait for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::panics::caught;
use super::peer::Peer;
use super::pending_request::PendingRequest;
use super::scheduler::{Permit, Scheduler};
use super::thumbnail_cache::{Found, Making, Outcome, Thumbnails};
use super::{Body, Ingress, ResponseFuture};
use crate::error::Error;
use crate::handlers::thumbnails::{Begun, Wanted, begin, respond};
use crate::handlers::{Failure, Response, Result};
use crate::observability::{self, Span};
use crate::routing::{Access, Blob, Pool};
use crate::schema::ThumbSize;
use crate::transaction::Database;

/// What a request does next.
enum Next {
    Response(Result<Response>),
    Wait(watch::Receiver<Option<Outcome>>, HeaderValue),
    Make(Wanted, Option<Making>),
}

impl Thumbnails {
    /// Goes on with a request that has begun.
    fn next(&self, begun: Result<Begun>) -> Next {
        let cached = |response| {
            self.counted.cached.fetch_add(1, Relaxed);
            Next::Response(Ok(response))
        };
        match begun {
            Err(failure) => Next::Response(Err(failure)),
            Ok(Begun::Known(response)) => cached(response),
            Ok(Begun::Wanted(wanted)) => match self.find(wanted.key) {
                Found::Kept(made) => cached(respond(&made, wanted.etag)),
                Found::BeingMade(making) => Next::Wait(making, wanted.etag),
                Found::Missing(making) => Next::Make(wanted, making),
            },
        }
    }
}

impl Ingress {
    /// Answers with a thumbnail of a blob.
    pub(super) fn respond_with_thumbnail(
        self: &Arc<Self>,
        blob: &Blob<'_>,
        spec: ThumbSize,
        headers: &HeaderMap,
        context: observability::Context,
        peer: &Peer,
    ) -> ResponseFuture {
        let (mut request, head) = (PendingRequest::new(self, context, peer), blob.access == Access::Describe);
        let begun =
            caught(|| begin(&self.scheduler.never_blocking, blob.table, &blob.id, blob.attribute, spec, headers));
        let next = match self.scheduler.thumbnails.next(begun) {
            Next::Response(Err(Failure::Error(Error::WouldBlock))) => None,
            Next::Response(outcome) => return ResponseFuture::Now(Some(answered(request, outcome, head, headers))),
            next => Some(next),
        };
        request.context().mark(Span::Handler);
        let (blob, headers) = ((blob.table.name.clone(), blob.id.to_string(), blob.attribute), headers.clone());
        ResponseFuture::later(async move {
            let (scheduler, peer) = (Arc::clone(&request.ingress.scheduler), request.peer.clone());
            let waited_ms = request.ingress.options.request_timeout_ms;
            let made = tokio::time::timeout(
                Duration::from_millis(waited_ms),
                thumbnail(&scheduler, next, &blob, spec, &headers, &peer),
            );
            let made = made.await.unwrap_or(Err(Failure::TimedOut { waited_ms }));
            request.context().mark(Span::Pool);
            answered(request, made, head, &headers)
        })
    }
}

/// Answers, and counts what is refused.
fn answered(request: PendingRequest, outcome: Result<Response>, head: bool, headers: &HeaderMap) -> Response<Body> {
    let ingress = Arc::clone(&request.ingress);
    let response = request.response_for(outcome, head, headers);
    if [StatusCode::UNPROCESSABLE_ENTITY, StatusCode::SERVICE_UNAVAILABLE].contains(&response.status()) {
        ingress.scheduler.thumbnails.counted.refused.fetch_add(1, Relaxed);
    }
    response
}

/// The response to a request, which begins in the pool if it could not in memory. `blob`: table, id, position of the attribute.
async fn thumbnail(
    scheduler: &Arc<Scheduler>,
    mut next: Option<Next>,
    (table, id, attribute): &(String, String, usize),
    spec: ThumbSize,
    headers: &HeaderMap,
    peer: &Peer,
) -> Result<Response> {
    let thumbnails = &scheduler.thumbnails;
    loop {
        match next {
            Some(Next::Response(outcome)) => return outcome,
            // No snapshot is held meanwhile.
            Some(Next::Wait(mut making, etag)) => {
                if let Ok(outcome) = making.wait_for(Option::is_some).await.map(|outcome| outcome.clone()) {
                    let made = outcome.expect("it was waited for")?;
                    thumbnails.counted.cached.fetch_add(1, Relaxed);
                    return Ok(respond(&made, etag));
                }
            }
            Some(Next::Make(wanted, making)) => return make(scheduler, wanted, making, peer).await,
            None => {}
        }
        let (table, id, attribute, wanted) = (table.clone(), id.clone(), *attribute, headers.clone());
        let job = move |database: &Database| begin(database, database.table(&table)?, &id, attribute, spec, &wanted);
        next = Some(thumbnails.next(scheduler.read_in_pool(peer, job).await));
    }
}

/// Makes one in the pool of pictures.
async fn make(scheduler: &Arc<Scheduler>, wanted: Wanted, making: Option<Making>, peer: &Peer) -> Result<Response> {
    let permit = Permit::take(scheduler, peer, Pool::Picturing).ok_or(Failure::Overloaded)?;
    let etag = wanted.etag.clone();
    let work = Arc::new(Mutex::new(Some((wanted, making))));
    let in_lane = Arc::clone(&work);
    let job = move |scheduler: &Scheduler| {
        let (wanted, making) = in_lane.lock().take().ok_or(Failure::Overloaded)?;
        scheduler.thumbnails.make(scheduler.database(), wanted, making)
    };
    let made = permit.in_pool(job).await;
    // If its place was given up, it is still there: whoever waits for it makes it.
    drop(work.lock().take());
    Ok(respond(&made??, etag))
}
