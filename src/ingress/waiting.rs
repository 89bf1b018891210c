//! Reads that wait at the end of a partition for an event: no thread is held, only a place among the change feeds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::limits::{Held, Holder, Limited};
use super::peer::Peer;
use super::pending_request::PendingRequest;
use super::permits::BodyBytes;
use super::scheduler::{Attempt, Reply};
use super::{Body, Ingress};
use crate::error::Error;
use crate::handlers::streams::AtEnd;
use crate::handlers::{Failure, Response, Result};
use crate::streams::Unfinished;

/// A client that waits: for events, in a place among the change feeds, or for subscribers to take its message. For another client, the one
/// that has waited for longest is given up.
pub(super) struct WaitingClient {
    place: Arc<Place>,
    _held: Held,
}

#[derive(Default)]
struct Place(Notify);

impl Holder for Place {
    fn rank(&self, number: u64) -> Option<u64> {
        Some(number)
    }

    fn give_up(&self) {
        self.0.notify_one();
    }
}

impl WaitingClient {
    /// # Errors
    /// `Busy` if there are as many as there may be.
    pub(super) fn take(peer: &Peer) -> crate::error::Result<Self> {
        let detail = || "there are as many clients waiting for events as there may be (--feed-subscribers)".to_owned();
        Self::within(peer, Limited::Feeds).ok_or_else(|| Error::Busy { detail: detail() })
    }

    /// Returns `None` if the limit is reached.
    pub(super) fn within(peer: &Peer, limited: Limited) -> Option<Self> {
        let place = Arc::<Place>::default();
        let holder: Arc<dyn Holder> = place.clone();
        let held = peer.holdings().take(limited, 1, Some(&holder))?;
        Some(Self { place, _held: held })
    }

    /// Returns once its place is given up.
    pub(super) async fn given_up(&self) {
        self.place.0.notified().await;
    }
}

/// Answers a read once it has an event, or the time is over.
pub(super) async fn respond_at_end(mut request: PendingRequest, parts: Parts, wait: Duration) -> Response<Body> {
    let head = parts.method == Method::HEAD;
    let outcome = read(&mut request, &parts, wait).await;
    request.response_for(outcome, head, &parts.headers)
}

async fn read(request: &mut PendingRequest, parts: &Parts, wait: Duration) -> Result<Response> {
    let (ingress, deadline) = (Arc::clone(&request.ingress), Instant::now() + wait);
    let mut place = None;
    loop {
        let response = read_now(&ingress, request, parts).await?;
        let Some(AtEnd { stream, partition, offset }) = response.extensions().get::<AtEnd>().copied() else {
            return Ok(response);
        };
        let place = match &mut place {
            Some(place) => place,
            None => place.insert(WaitingClient::take(&request.peer)?),
        };
        let (call, called) = oneshot::channel::<()>();
        let streams = ingress.scheduler.routes().streams();
        let stream = &ingress.scheduler.database().schema().streams[stream];
        let Some(_place) = streams.wait(stream, &[(partition, offset)], move || drop(call))? else {
            return Ok(response);
        };
        tokio::select! {
            biased;
            _ = called => {}
            () = place.given_up() => return Ok(response),
            () = tokio::time::sleep_until(deadline) => return Ok(response),
        }
        // Its client has waited for the event, not for the server.
        request.of_stream.iter_mut().for_each(Unfinished::begin_again);
    }
}

/// Reads once, inline or in the pool.
async fn read_now(ingress: &Arc<Ingress>, request: &PendingRequest, parts: &Parts) -> Result<Response> {
    let attempt = {
        let route = ingress.scheduler.routes().resolve(&parts.method, &parts.uri, &parts.headers);
        let route = route.ok_or_else(|| Failure::nothing_at(parts.uri.path()))??;
        ingress.scheduler.attempt(&route, &parts.headers, b"")
    };
    if let Attempt::Done(outcome) = attempt {
        return outcome;
    }
    let held = BodyBytes::none(&request.peer);
    let waited_ms = ingress.options.request_timeout_ms;
    let completed = ingress.scheduler.complete(parts.clone(), Bytes::new(), held, attempt, &request.peer);
    let completed = tokio::time::timeout(Duration::from_millis(waited_ms), completed).await;
    let completed = completed.map_err(|_| Failure::TimedOut { waited_ms })?;
    match completed.outcome? {
        Reply::Whole(response) => Ok(response),
        Reply::InPieces(_) => Err(Failure::Panicked("a read of a stream is one piece".to_owned())),
    }
}
