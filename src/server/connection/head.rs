//! The memory of a head that is not complete: the HTTP library keeps it until it is, up to the length of its buffer.
//!
//! It counts as memory of bodies. Heads of usual length do not, since the number of connections bounds them. (Over HTTP/2 only what precedes
//! the first request is seen; the library bounds the rest for each connection.)

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::{BUFFER_BYTES, Order, Watch};
use crate::ingress::{Held, Holder, Limited, Peer, rate};

/// Longer heads are counted.
const USUAL_BYTES: usize = 8 << 10;

/// What was received since the last request began.
pub(super) struct Head {
    peer: Peer,
    watch: Arc<Watch>,
    /// The requests begun before it.
    requests: u64,
    bytes: usize,
    counted: Option<(Held, Arc<Counted>)>,
}

/// A head that counts. For another client, the one with the fewest bytes a second is given up, with its connection.
struct Counted {
    watch: Arc<Watch>,
    began: Instant,
    bytes: AtomicU64,
}

impl Holder for Counted {
    fn rank(&self, _number: u64) -> Option<u64> {
        Some(rate(&self.bytes, self.began))
    }

    fn give_up(&self) {
        self.watch.order(Order::Leave);
    }
}

impl Head {
    pub(super) fn of(peer: Peer, watch: &Arc<Watch>) -> Self {
        Self { peer, watch: Arc::clone(watch), requests: 0, bytes: 0, counted: None }
    }

    /// Notes received bytes.
    pub(super) fn note(&mut self, received: usize) {
        self.end();
        if self.watch.in_flight.load(Relaxed) == 0 && !self.watch.http2.load(Relaxed) {
            // Nothing is kept beyond the buffer.
            self.bytes = (self.bytes + received).min(BUFFER_BYTES);
        }
    }

    /// Counts what was received before and completed no head; returns false if there is no room for it.
    pub(super) fn count(&mut self) -> bool {
        self.end();
        match &mut self.counted {
            _ if self.bytes <= USUAL_BYTES => true,
            Some((held, counted)) => {
                let more = self.bytes as u64 - counted.bytes.swap(self.bytes as u64, Relaxed);
                more == 0 || held.grow(more as usize)
            }
            None => {
                let (watch, bytes) = (Arc::clone(&self.watch), AtomicU64::new(self.bytes as u64));
                let counted = Arc::new(Counted { watch, began: Instant::now(), bytes });
                let holder: Arc<dyn Holder> = counted.clone();
                self.counted = self.peer.take(Limited::BodyBytes, self.bytes, &holder).map(|held| (held, counted));
                self.counted.is_some()
            }
        }
    }

    /// Ends the head, if a request has begun since.
    pub(super) fn end(&mut self) {
        let requests = self.watch.requests.load(Relaxed);
        if requests != self.requests {
            (self.requests, self.bytes, self.counted) = (requests, 0, None);
        }
    }
}
