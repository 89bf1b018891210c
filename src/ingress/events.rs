//! A change feed as the body of a response: events as they come, without occupying a thread.
//!
//! What a subscriber missed is read in the pool for scans, one piece at a time when the client has taken the previous one: a client that
//! does not read occupies no thread, and no memory beyond its piece.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::limits::{Held, Holder, Limited};
use super::peer::Peer;
use super::pieces::Broken;
use super::scheduler::Scheduler;
use super::wake_ups;
use crate::feed::{Lagging, Next, Subscription};
use crate::handlers::Failure;
use crate::routing::Pool;

/// A place among the change feeds. For another client, the oldest feed is given up: it lags.
pub(super) struct FeedPlace {
    following: Arc<Following>,
    _held: Held,
}

#[derive(Default)]
struct Following(OnceLock<Lagging>);

impl Holder for Following {
    fn rank(&self, number: u64) -> Option<u64> {
        self.0.get().filter(|lagging| lagging.knows_position()).map(|_| number)
    }

    fn give_up(&self) {
        self.0.get().into_iter().for_each(Lagging::lag);
    }
}

impl FeedPlace {
    /// Returns `None` if there are as many feeds as there may be.
    pub(super) fn take(peer: &Peer) -> Option<Self> {
        let following = Arc::<Following>::default();
        let holder: Arc<dyn Holder> = following.clone();
        let held = peer.holdings().take(Limited::Feeds, 1, Some(&holder))?;
        Some(Self { following, _held: held })
    }
}

/// The events of a subscription, including those to come.
pub(super) struct Events {
    state: State,
    scheduler: Arc<Scheduler>,
    peer: Peer,
    _place: FeedPlace,
}

enum State {
    Subscribed(Subscription),
    CatchingUp(Pin<Box<dyn Future<Output = Result<Subscription, Failure>> + Send>>),
    Over,
}

impl Events {
    pub(super) fn new(subscription: Subscription, place: FeedPlace, scheduler: Arc<Scheduler>, peer: Peer) -> Self {
        let _ = place.following.0.set(subscription.lagging());
        Self { state: State::Subscribed(subscription), scheduler, peer, _place: place }
    }

    /// Starts reading the subscription in the pool.
    fn catch_up(&mut self) {
        if let State::Subscribed(mut subscription) = std::mem::replace(&mut self.state, State::Over) {
            let (scheduler, peer) = (Arc::clone(&self.scheduler), self.peer.clone());
            let job = move || {
                subscription.catch_up();
                subscription
            };
            let caught_up = async move { scheduler.in_pool(Pool::Scanning, &peer, job).await };
            self.state = State::CatchingUp(Box::pin(caught_up));
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
                State::CatchingUp(job) => match ready!(job.as_mut().poll(context)) {
                    Ok(subscription) => self.state = State::Subscribed(subscription),
                    Err(Failure::Panicked(_)) => return self.broken("reading the log panicked"),
                    // The server is stopping.
                    Err(_) => self.state = State::Over,
                },
                State::Subscribed(subscription) => {
                    match subscription.next(wake_ups::from_elsewhere(context.waker().clone())) {
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
