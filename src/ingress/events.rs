//! A change feed as the body of an answer: events as they come, without occupying a thread.
//!
//! What a subscriber missed is read in the pool for scans, one piece at a time when the client has taken the previous one: a client that
//! does not read occupies no thread, and no memory beyond its piece.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::task::JoinHandle;

use super::crossing::Crossing;
use super::pieces::Broken;
use crate::feed::{Next, Subscription};

/// The events of a subscription, including those to come.
pub(super) struct Events {
    state: State,
    crossing: Arc<Crossing>,
}

enum State {
    Subscribed(Subscription),
    CatchingUp(JoinHandle<Subscription>),
    Over,
}

impl Events {
    pub(super) fn new(subscription: Subscription, crossing: Arc<Crossing>) -> Self {
        Self { state: State::Subscribed(subscription), crossing }
    }

    /// Starts reading the subscription in the pool.
    fn catch_up(&mut self) {
        if let State::Subscribed(mut subscription) = std::mem::replace(&mut self.state, State::Over) {
            let job = self.crossing.scan(move || {
                subscription.catch_up();
                subscription
            });
            self.state = State::CatchingUp(job);
        }
    }

    fn broken(&mut self, why: &str) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        tracing::error!("sending a change feed was aborted: {why}");
        self.state = State::Over;
        Poll::Ready(Some(Err(Broken)))
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            match &mut self.state {
                State::Over => return Poll::Ready(None),
                State::CatchingUp(job) => match ready!(Pin::new(job).poll(context)) {
                    Ok(subscription) => self.state = State::Subscribed(subscription),
                    Err(error) if error.is_panic() => return self.broken("reading the log panicked"),
                    // The server is stopping.
                    Err(_) => self.state = State::Over,
                },
                State::Subscribed(subscription) => {
                    let waker = context.waker().clone();
                    match subscription.next(move || waker.wake()) {
                        Next::Text(text) => return Poll::Ready(Some(Ok(Frame::data(text)))),
                        Next::Pending => return Poll::Pending,
                        Next::Behind => self.catch_up(),
                        Next::Over => self.state = State::Over,
                        Next::Broken(why) => return self.broken(&why),
                    }
                }
            }
        }
    }
}
