//! A request that waits for its body or for the pool, whose client may disconnect meanwhile.
//!
//! The connection then ends and drops the pending response at whatever point it was. The request is recorded nevertheless, as abandoned:
//! operators have to see clients that give up under load.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::Either;
use hyper::body::{Frame, SizeHint};

use super::peer::Peer;
use super::pieces::Broken;
use super::{Body, Ingress};
use crate::handlers::{Response, Result};
use crate::observability::{Context, Span};
use crate::streams::Unfinished;

/// A request without a response yet. It is recorded with its response, or when it is dropped without one.
pub(super) struct PendingRequest {
    pub(super) ingress: Arc<Ingress>,
    pub(super) peer: Peer,
    /// Set if it is an append to a stream, or a read of one.
    pub(super) of_stream: Option<Unfinished>,
    /// Taken with the response.
    context: Option<Context>,
}

impl PendingRequest {
    pub(super) fn new(ingress: &Arc<Ingress>, context: Context, peer: &Peer) -> Self {
        Self { ingress: Arc::clone(ingress), peer: peer.clone(), of_stream: None, context: Some(context) }
    }

    pub(super) fn context(&mut self) -> &mut Context {
        self.context.as_mut().expect("it is taken only with the response, which consumes the request")
    }

    /// Returns the response for an outcome: [`Ingress::response_for`].
    pub(super) fn response_for(mut self, outcome: Result<Response>, head: bool, headers: &HeaderMap) -> Response<Body> {
        self.ingress.count_of_stream(self.of_stream, &outcome);
        let context = self.taken();
        self.ingress.response_for(outcome, head, context, headers, &self.peer)
    }

    /// Records a response that was made elsewhere.
    pub(super) fn finish(mut self, response: Response<Body>) -> Response<Body> {
        let context = self.taken();
        self.ingress.finish(&response, context);
        response
    }

    /// Returns a response in pieces, which is recorded when it ends.
    pub(super) fn sent_in_pieces<B>(self, response: Response<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes, Error = Broken> + Send + Unpin + 'static,
    {
        let status = response.status();
        response.map(|pieces| Either::Right(axum::body::Body::new(Sending { pieces, request: self, status, bytes: 0 })))
    }

    /// Takes it apart, if nothing has to be awaited any more.
    pub(super) fn into_parts(mut self) -> (Arc<Ingress>, Context) {
        let context = self.taken();
        (Arc::clone(&self.ingress), context)
    }

    fn taken(&mut self) -> Context {
        self.context.take().expect("it is taken only with the response, which consumes the request")
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            self.ingress.recorder.abandon(context);
        }
    }
}

/// The body of a response in pieces; its request is recorded when it ends, complete or aborted.
struct Sending<B> {
    pieces: B,
    request: PendingRequest,
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
