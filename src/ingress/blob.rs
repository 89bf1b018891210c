//! A blob as the body of a response: read in the pool piece by piece, the next once the last is sent.
//!
//! A slow client thus costs one piece of memory, which counts as memory of responses, and no thread. A failure after the first piece aborts
//! the connection (over HTTP/2, the stream), and the client sees that the length is not the announced one.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::limits::Held;
use super::panics::caught;
use super::peer::Peer;
use super::pending_request::PendingRequest;
use super::pieces::Broken;
use super::scheduler::Scheduler;
use super::{Ingress, ResponseFuture};
use crate::blobs::{PIECE_BYTES, Reader};
use crate::error::Error;
use crate::handlers::blobs::{Content, read};
use crate::handlers::{Failure, Result};
use crate::observability::{self, Span};
use crate::routing::{Access, Blob, Pool};
use crate::transaction::Database;

/// The interval at which a waiting piece checks for room.
const LOOK: Duration = Duration::from_millis(10);

impl Ingress {
    /// Answers with the bytes of a blob, or with its metadata; inline if the beginning is in memory.
    pub(super) fn respond_with_blob(
        self: &Arc<Self>,
        blob: &Blob<'_>,
        headers: &HeaderMap,
        context: observability::Context,
        peer: &Peer,
    ) -> ResponseFuture {
        let (mut request, head) = (PendingRequest::new(self, context, peer), blob.access == Access::Describe);
        let memory = &self.scheduler.never_blocking;
        match caught(|| read(memory, blob.table, &blob.id, blob.attribute, headers, head)) {
            Err(Failure::Error(Error::WouldBlock)) => {
                request.context().mark(Span::Handler);
                let blob = (blob.table.name.clone(), blob.id.to_string(), blob.attribute);
                ResponseFuture::later(from_disk(request, blob, headers.clone(), head))
            }
            outcome => ResponseFuture::Now(Some(sent(request, outcome, headers))),
        }
    }
}

/// Answers after reading the beginning in the pool. `blob`: table, id, position of the attribute.
async fn from_disk(
    mut request: PendingRequest,
    blob: (String, String, usize),
    headers: HeaderMap,
    head: bool,
) -> Response<super::Body> {
    let (scheduler, wanted, (table, id, attribute)) = (Arc::clone(&request.ingress.scheduler), headers.clone(), blob);
    let job = move |database: &Database| read(database, database.table(&table)?, &id, attribute, &wanted, head);
    let outcome = scheduler.read_in_pool(&request.peer, job).await;
    request.context().mark(Span::Pool);
    sent(request, outcome, &headers)
}

fn sent(request: PendingRequest, outcome: Result<Response<Content>>, headers: &HeaderMap) -> Response<super::Body> {
    let (head, content) = match outcome.map(Response::into_parts) {
        Ok(parts) => parts,
        Err(failure) => return request.response_for(Err(failure), false, headers),
    };
    let Some(rest) = content.rest else {
        return request.response_for(Ok(Response::from_parts(head, content.first)), false, headers);
    };
    let (scheduler, peer) = (Arc::clone(&request.ingress.scheduler), request.peer.clone());
    match peer.count(content.first) {
        Some(first) => {
            let left_bytes = first.len() as u64 + rest.left_bytes();
            let state = State::There(first, Some(rest));
            request.sent_in_pieces(Response::from_parts(head, BlobBody { scheduler, peer, state, left_bytes }))
        }
        None => request.response_for(Err(Failure::Overloaded), false, headers),
    }
}

/// A blob being sent.
struct BlobBody {
    scheduler: Arc<Scheduler>,
    peer: Peer,
    state: State,
    /// The bytes not handed to the connection yet.
    left_bytes: u64,
}

enum State {
    /// A piece, and the reader of the next.
    There(Bytes, Option<Reader>),
    /// The next piece is not requested yet.
    Idle(Reader),
    Reading(Reading),
    Over,
}

type Reading = Pin<Box<dyn Future<Output = std::result::Result<(Bytes, Reader), Broken>> + Send>>;

impl Body for BlobBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Broken>>> {
        let mut reading = match std::mem::replace(&mut self.state, State::Over) {
            State::Over => return Poll::Ready(None),
            State::There(piece, rest) => return self.send_chunk(piece, rest),
            State::Idle(reader) => Box::pin(piece(Arc::clone(&self.scheduler), self.peer.clone(), reader)),
            State::Reading(reading) => reading,
        };
        match reading.as_mut().poll(context) {
            Poll::Pending => {
                self.state = State::Reading(reading);
                Poll::Pending
            }
            Poll::Ready(Ok((piece, reader))) => self.send_chunk(piece, Some(reader)),
            Poll::Ready(Err(broken)) => Poll::Ready(Some(Err(broken))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Over)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left_bytes)
    }
}

impl BlobBody {
    fn send_chunk(
        &mut self,
        piece: Bytes,
        rest: Option<Reader>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Broken>>> {
        self.left_bytes -= piece.len() as u64;
        if let Some(reader) = rest.filter(|reader| reader.left_bytes() > 0) {
            self.state = State::Idle(reader);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

/// Reads the next piece once there is room for it.
async fn piece(
    scheduler: Arc<Scheduler>,
    peer: Peer,
    mut reader: Reader,
) -> std::result::Result<(Bytes, Reader), Broken> {
    let bytes = reader.left_bytes().min(PIECE_BYTES as u64) as usize;
    let room = room(&scheduler, &peer, bytes).await.ok_or(Broken)?;
    let database = scheduler.database().clone();
    let job = move || (reader.next(&database), reader);
    let (piece, reader) = scheduler.in_pool(Pool::Reading, &peer, job).await.map_err(|_| Broken)?;
    match piece {
        Ok(piece) => Ok((room.with(piece), reader)),
        Err(error) => {
            tracing::error!("sending a blob was aborted: {error}");
            Err(Broken)
        }
    }
}

/// Waits for room for `bytes` bytes; `None` after the timeout.
pub(super) async fn room(scheduler: &Scheduler, peer: &Peer, bytes: usize) -> Option<Held> {
    let deadline = Instant::now() + scheduler.longest_wait;
    loop {
        let room = peer.room(bytes);
        if room.is_some() || Instant::now() >= deadline {
            return room;
        }
        tokio::time::sleep(LOOK).await;
    }
}
