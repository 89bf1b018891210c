//! A request that waits for its body or for the pool, and its client may leave meanwhile.
//!
//! Then the connection ends and drops the answer to be, at whatever point it was. The request is recorded all the same, as one
//! that was left: who gives up under load is what an operator has to see.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Either;
use hyper::body::{Frame, SizeHint};

use super::pieces::Broken;
use super::{Body, Ingress};
use crate::handlers::{Answer, Result};
use crate::observability::{Context, Span};

/// A request without an answer yet. It is recorded with its answer, or when it is dropped without one.
pub(super) struct Unanswered {
    pub(super) ingress: Arc<Ingress>,
    /// Gone with the answer.
    context: Option<Context>,
}

impl Unanswered {
    pub(super) fn new(ingress: &Arc<Ingress>, context: Context) -> Self {
        Self { ingress: Arc::clone(ingress), context: Some(context) }
    }

    pub(super) fn context(&mut self) -> &mut Context {
        self.context.as_mut().expect("it goes with the answer, which takes the request")
    }

    /// The answer to an outcome: [`Ingress::whole`].
    pub(super) fn whole(mut self, outcome: Result<Answer>, head: bool, headers: &HeaderMap) -> Response<Body> {
        let context = self.taken();
        self.ingress.whole(outcome, head, context, headers)
    }

    /// Records an answer that was made elsewhere.
    pub(super) fn finish(mut self, answer: Response<Body>) -> Response<Body> {
        let context = self.taken();
        self.ingress.finish(&answer, context);
        answer
    }

    /// An answer in pieces, which is recorded when it ends.
    pub(super) fn sent_in_pieces<B>(self, answer: Response<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes, Error = Broken> + Send + Unpin + 'static,
    {
        let status = answer.status();
        answer.map(|pieces| Either::Right(axum::body::Body::new(Sending { pieces, request: self, status, bytes: 0 })))
    }

    /// For who goes on without waiting.
    pub(super) fn into_parts(mut self) -> (Arc<Ingress>, Context) {
        let context = self.taken();
        (Arc::clone(&self.ingress), context)
    }

    fn taken(&mut self) -> Context {
        self.context.take().expect("it goes with the answer, which takes the request")
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            self.ingress.recorder.abandon(context);
        }
    }
}

/// The body of an answer in pieces; its request is recorded with it, whole or broken off.
struct Sending<B> {
    pieces: B,
    request: Unanswered,
    status: StatusCode,
    /// Handed to the connection so far.
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
