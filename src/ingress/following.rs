//! A subscriber of a stream: events as they come, as the body of a response, without occupying a thread.
//!
//! A piece is read when the client has taken the one before: a slow client costs one piece of memory and nobody's time, and loses nothing
//! that is kept.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, stream};
use http::request::Parts;
use http::{Method, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;
use tokio::sync::oneshot;

use super::blob::room;
use super::peer::Peer;
use super::pending_request::PendingRequest;
use super::pieces::{Broken, Piece};
use super::scheduler::{Scheduler, not_read};
use super::waiting::WaitingClient;
use super::{Body, Ingress};
use crate::error::{Error, OffsetFault, Result};
use crate::handlers::streams::{Followed, Message, write_message};
use crate::handlers::{self, Failure};
use crate::routing::Pool;
use crate::streams::{Page, Start};
use crate::transaction::Database;

/// Bytes of events after which a piece ends.
const PIECE_BYTES: usize = 64 << 10;

/// Answers with the events of a stream, given by its position in the schema.
pub(super) async fn respond_with_events(
    request: PendingRequest,
    parts: Parts,
    stream: usize,
    followed: Followed,
) -> Response<Body> {
    if parts.method == Method::HEAD {
        return request.finish(handlers::event_stream(Either::Left(Full::default())));
    }
    match Subscriber::begin(&request.ingress, &request.peer, stream, &followed) {
        Ok(subscriber) => {
            let pieces = stream::unfold(subscriber, |mut subscriber| async {
                let piece = subscriber.piece().await?;
                Some((piece, subscriber))
            });
            request.sent_in_pieces(handlers::event_stream(StreamBody::new(Box::pin(pieces))))
        }
        Err(error) => request.response_for(Err(error.into()), false, &parts.headers),
    }
}

struct Subscriber {
    scheduler: Arc<Scheduler>,
    peer: Peer,
    /// The position of the stream in the schema.
    stream: usize,
    /// The partitions, each with the offset of the next event.
    next: Box<[(u32, u64)]>,
    /// The index of the partition whose turn it is.
    turn: usize,
    keep_alive: Duration,
    place: WaitingClient,
    /// Whether its client knows where it begins.
    has_begun: bool,
    is_over: bool,
}

impl Subscriber {
    /// Finds where it begins.
    ///
    /// # Errors
    /// `Busy` if there are too many; `Offset` if a beginning is outside the watermarks.
    fn begin(ingress: &Ingress, peer: &Peer, stream: usize, followed: &Followed) -> Result<Self> {
        let scheduler = Arc::clone(&ingress.scheduler);
        let (database, of) = (scheduler.database(), &scheduler.database().schema().streams[stream]);
        let next = followed.iter().map(|&(partition, start)| {
            let (streams, from) = (scheduler.routes().streams(), start.unwrap_or_default());
            let page = streams.read(database, of, partition, from, (0, 0), &mut Vec::new())?;
            Ok((partition, if start.is_some() { page.next } else { page.watermarks.high }))
        });
        let next = next.collect::<Result<_>>()?;
        let (place, keep_alive) = (WaitingClient::take(peer)?, ingress.feed.keep_alive());
        let peer = peer.clone();
        Ok(Self { scheduler, peer, stream, next, turn: 0, keep_alive, place, has_begun: false, is_over: false })
    }

    /// Returns the next piece once there is one; `None` at the end.
    async fn piece(&mut self) -> Option<Piece> {
        if self.is_over {
            return None;
        }
        let next = match self.next().await {
            Ok(None) => return None,
            Ok(Some(text)) => {
                let held = room(&self.scheduler, &self.peer, text.len()).await;
                held.map(|held| Frame::data(held.with(text))).ok_or_else(|| Failure::from(not_read()))
            }
            Err(failure) => Err(failure),
        };
        Some(next.map_err(|failure| {
            self.is_over = true;
            if failure.is_internal() {
                tracing::error!("sending events of a stream was aborted: {failure}");
            }
            Broken
        }))
    }

    /// Returns the text of the next piece; `None` when the server stops.
    async fn next(&mut self) -> handlers::Result<Option<Vec<u8>>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Ok(Some(self.message(&Message::Progress)));
        }
        loop {
            if self.scheduler.routes().streams().is_stopped() {
                return Ok(None);
            }
            if self.place.given_up().now_or_never().is_some() {
                return Ok(Some(self.last(&Message::Lagged)));
            }
            for _ in 0..self.next.len() {
                let place = self.turn;
                self.turn = (place + 1) % self.next.len();
                if let Some(text) = self.read(place).await? {
                    return Ok(Some(text));
                }
            }
            let (call, called) = oneshot::channel::<()>();
            let streams = self.scheduler.routes().streams();
            let of = &self.scheduler.database().schema().streams[self.stream];
            let Some(_waiting) = streams.wait(of, &self.next, move || drop(call))? else { return Ok(None) };
            tokio::select! {
                biased;
                _ = called => {}
                () = self.place.given_up() => return Ok(Some(self.last(&Message::Lagged))),
                () = tokio::time::sleep(self.keep_alive) => return Ok(Some(self.message(&Message::Progress))),
            }
        }
    }

    /// Reads a piece of one of the partitions, inline or in the pool; `None` if nothing has come.
    async fn read(&mut self, place: usize) -> handlers::Result<Option<Vec<u8>>> {
        let (stream, (partition, from)) = (self.stream, self.next[place]);
        let of = &self.scheduler.database().schema().streams[stream];
        if self.scheduler.routes().streams().watermarks(of, partition)?.high <= from {
            return Ok(None);
        }
        let mut read = read(&self.scheduler, &self.scheduler.never_blocking, stream, partition, from);
        if let Err(Error::WouldBlock) = read {
            let scheduler = Arc::clone(&self.scheduler);
            let job = move || self::read(&scheduler, scheduler.database(), stream, partition, from);
            read = match self.scheduler.in_pool(Pool::Scanning, &self.peer, job).await {
                Ok(read) => read,
                // The server is stopping.
                Err(Failure::Overloaded) => return Ok(None),
                Err(failure) => return Err(failure),
            };
        }
        match read {
            Ok((page, json)) => {
                self.next[place].1 = page.next;
                self.scheduler.routes().streams().counts().delivered.add(page.events as u64);
                Ok(Some(self.message(&Message::Records(&json))))
            }
            Err(Error::Offset { fault: OffsetFault::Trimmed, low, .. }) => {
                Ok(Some(self.last(&Message::Gone { partition, low })))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn message(&self, message: &Message<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        write_message(&self.next, message, &mut text);
        text
    }

    fn last(&mut self, message: &Message<'_>) -> Vec<u8> {
        self.is_over = true;
        self.message(message)
    }
}

fn read(
    scheduler: &Scheduler,
    database: &Database,
    stream: usize,
    partition: u32,
    from: u64,
) -> Result<(Page, Vec<u8>)> {
    let (streams, of) = (scheduler.routes().streams(), &scheduler.database().schema().streams[stream]);
    let mut json = b"{\"records\":[".to_vec();
    let page = streams.read(database, of, partition, Start::Offset(from), (usize::MAX, PIECE_BYTES), &mut json)?;
    json.extend_from_slice(b"]}");
    Ok((page, json))
}
