//! A list as the body of a response: pieces that are made in the pool and sent as they come.
//!
//! A failure after the first piece aborts the connection (over HTTP/2, the stream), so a list that ends normally is complete.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::transaction::Interrupt;

/// The pieces of a list, including those to come. Dropping it cancels the query.
pub(super) struct Pieces {
    pub(super) receiver: UnboundedReceiver<Piece>,
    pub(super) _waiting: Waiting,
}

/// A piece, the trailers after the last one, or the abort of an incomplete list.
pub(super) type Piece = Result<Frame<Bytes>, Broken>;

/// Raises its interrupt when it is dropped.
pub(super) struct Waiting(pub(super) Interrupt);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// The abort of a response that cannot be completed.
#[derive(Debug)]
pub(super) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the answer could not be completed")
    }
}

impl std::error::Error for Broken {}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.receiver.poll_recv(context)
    }
}
