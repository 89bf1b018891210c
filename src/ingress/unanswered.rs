//! A request that waits for its body or for the pool, whose client may disconnect meanwhile.
//!
//! The connection then ends and drops the pending answer at whatever point it was. The request is recorded nevertheless, as abandoned:
//! operators have to see clients that give up under load.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Either;
use hyper::body::{Frame, SizeHint};

use super::peer::Peer;
use super::pieces::Broken;
use super::{Body, Ingress};
use crate::handlers::{Answer, Result};
use crate::observability::{Context, Span};
use crate::streams::Unfinished;

/// A request without an answer yet. It is recorded with its answer, or when it is dropped without one.
pub(super) struct Unanswered {
    pub(super) ingress: Arc<Ingress>,
    pub(super) peer: Peer,
    /// Set if it is an append to a stream, or a read of one.
    pub(super) of_stream: Option<Unfinished>,
    /// Taken with the answer.
    context: Option<Context>,
}

impl Unanswered {
    pub(super) fn new(ingress: &Arc<Ingress>, context: Context, peer: &Peer) -> Self {
        Self { ingress: Arc::clone(ingress), peer: peer.clone(), of_stream: None, context: Some(context) }
    }

    pub(super) fn context(&mut self) -> &mut Context {
        self.context.as_mut().expect("it is taken only with the answer, which consumes the request")
    }

    /// Returns the answer for an outcome: [`Ingress::answer_for`].
    pub(super) fn answer_for(mut self, outcome: Result<Answer>, head: bool, headers: &HeaderMap) -> Response<Body> {
        self.ingress.count_of_stream(self.of_stream, &outcome);
        let context = self.taken();
        self.ingress.answer_for(outcome, head, context, headers, &self.peer)
    }

    /// Records an answer that was made elsewhere.
    pub(super) fn finish(mut self, answer: Response<Body>) -> Response<Body> {
        let context = self.taken();
        self.ingress.finish(&answer, context);
        answer
    }

    /// Returns an answer in pieces, which is recorded when it ends.
    pub(super) fn sent_in_pieces<B>(self, answer: Response<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes, Error = Broken> + Send + Unpin + 'static,
    {
        let status = answer.status();
        answer.map(|pieces| Either::Right(axum::body::Body::new(Sending { pieces, request: self, status, bytes: 0 })))
    }

    /// Takes it apart, if nothing has to be awaited any more.
    pub(super) fn into_parts(mut self) -> (Arc<Ingress>, Context) {
        let context = self.taken();
        (Arc::clone(&self.ingress), context)
    }

    fn taken(&mut self) -> Context {
        self.context.take().expect("it is taken only with the answer, which consumes the request")
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            self.ingress.recorder.abandon(context);
        }
    }
}

/// The body of an answer in pieces; its request is recorded when it ends, complete or aborted.
struct Sending<B> {
    pieces: B,
    request: Unanswered,
    status: StatusCode,
    /// The bytes handed to the connection so far.
    bytes: u64,
}

impl<B: hyper::body::Body<Data = Bytes, Error = Broken> + Unpin> hyper::body::Body for Sending<B> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Broken>>> {
        let frame = Pin::new(&mut self.pieces).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.pieces.size_hint()
    }
}

impl<B> Drop for Sending<B> {
    fn drop(&mut self) {
        let mut context = self.request.taken();
        context.mark(Span::Handler);
        self.request.ingress.recorder.finish(context, self.status, self.bytes);
    }
}
