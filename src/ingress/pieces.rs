//! A list as the body of an answer: pieces that the pool makes, sent as they come.
//!
//! What goes wrong after the first piece breaks the connection (over HTTP/2 the stream) off: a list that ends as it should is whole.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::transaction::Interrupt;

/// The pieces of a list, those to come included. While it lives, its query goes on.
pub(super) struct Pieces {
    pub(super) receiver: UnboundedReceiver<Piece>,
    pub(super) _waiting: Waiting,
}

/// A piece, the trailers behind the last one, or that there are no more although the list has not ended.
pub(super) type Piece = Result<Frame<Bytes>, Broken>;

/// Raises its interrupt when it is dropped.
pub(super) struct Waiting(pub(super) Interrupt);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// The end of an answer that cannot be made to its end.
#[derive(Debug)]
pub(super) struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the answer could not be made to its end")
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
