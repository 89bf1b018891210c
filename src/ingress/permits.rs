//! Permits for bodies: what a request holds of the limits while its body arrives and is in memory, and how it gives that up for another
//! client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

use super::limits::{Held, Holder, Limited, rate};
use super::peer::Peer;
use crate::handlers::{Failure, Result};

/// A permit to receive a body, released on drop.
pub(super) struct BodyPermit {
    pub(super) arriving: Arc<Arriving>,
    _held: Held,
}

/// A body that is arriving. For another client, the one with the fewest bytes a second since its head is given up.
pub(super) struct Arriving {
    began: Instant,
    bytes: AtomicU64,
    is_over: AtomicBool,
    given_up: Notify,
}

impl Holder for Arriving {
    fn rank(&self, _number: u64) -> Option<u64> {
        (!self.is_over.load(Ordering::Relaxed)).then(|| rate(&self.bytes, self.began))
    }

    fn give_up(&self) {
        self.given_up.notify_one();
    }
}

impl Arriving {
    /// Notes that some of it has arrived.
    pub(super) fn note(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Awaits something that is done with the body, as long as it is not given up.
    ///
    /// # Errors
    /// `Overloaded` if it is given up.
    pub(super) async fn unless_given_up<T>(&self, reading: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            read = reading => read,
            () = self.given_up.notified() => Err(Failure::Overloaded),
        }
    }
}

/// A permit for some bytes of a body in memory, released on drop.
pub(super) struct BodyBytes {
    pub(super) peer: Peer,
    /// Present while the body is arriving.
    arriving: Option<Arc<dyn Holder>>,
    held: Option<Held>,
    bytes: usize,
    /// Whether it is given up for the sake of its bytes.
    is_long: bool,
    append: Option<AppendPermit>,
}

/// What an append to a stream holds from its head to its response, released on drop.
pub(super) struct AppendPermit {
    _place: Held,
    bytes: Held,
    /// How many.
    counted: usize,
}

impl BodyPermit {
    /// Returns `None` if the limit is reached.
    pub(super) fn take(peer: &Peer) -> Option<Self> {
        let (began, given_up) = (Instant::now(), Notify::new());
        let arriving =
            Arc::new(Arriving { began, bytes: AtomicU64::new(0), is_over: AtomicBool::new(false), given_up });
        let holder: Arc<dyn Holder> = arriving.clone();
        let held = peer.holdings().take(Limited::Bodies, 1, Some(&holder))?;
        Some(Self { arriving, _held: held })
    }

    /// Returns a permit for no bytes of the body yet.
    pub(super) fn bytes(&self, peer: &Peer) -> BodyBytes {
        let arriving: Arc<dyn Holder> = self.arriving.clone();
        BodyBytes { arriving: Some(arriving), ..BodyBytes::none(peer) }
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.arriving.is_over.store(true, Ordering::Relaxed);
    }
}

/// Bodies up to this length are not given up for the sake of their bytes: the limit of their number is enough.
const SHORT_BODY_BYTES: usize = 16 << 10;

impl BodyBytes {
    pub(super) fn none(peer: &Peer) -> Self {
        Self { peer: peer.clone(), arriving: None, held: None, bytes: 0, is_long: false, append: None }
    }

    /// Counts the request as an append with a body of at least so many bytes; returns false if there is no room for it.
    pub(super) fn begin_append(&mut self, bytes: usize) -> bool {
        let (holdings, holder) = (self.peer.holdings(), self.arriving.as_ref());
        let permit = holdings.take(Limited::Appends, 1, holder).and_then(|place| {
            let held = holdings.take(Limited::AppendBytes, bytes, holder)?;
            Some(AppendPermit { _place: place, bytes: held, counted: bytes })
        });
        self.append = permit;
        self.append.is_some()
    }

    /// Returns what it holds as an append, to be kept until the response.
    pub(super) fn take_append(&mut self) -> Option<AppendPermit> {
        self.append.take()
    }

    /// Sets what it holds as an append.
    pub(super) fn set_append(&mut self, append: Option<AppendPermit>) {
        self.append = append;
    }

    /// Acquires `more` further bytes; returns false if there is no room for them.
    pub(super) fn grow(&mut self, more: usize) -> bool {
        let all = self.bytes + more;
        if let Some(append) = self.append.as_mut().filter(|append| append.counted < all) {
            if !append.bytes.grow(all - append.counted) {
                return false;
            }
            append.counted = all;
        }
        let is_long = all > SHORT_BODY_BYTES && self.arriving.is_some();
        let fits = match &mut self.held {
            Some(held) if !is_long || self.is_long => held.grow(more),
            _ => {
                // Taken anew, now by its holder.
                let holder = self.arriving.as_ref().filter(|_| is_long);
                self.held = None;
                self.held = self.peer.holdings().take(Limited::BodyBytes, all, holder);
                self.held.is_some()
            }
        };
        if fits {
            (self.bytes, self.is_long) = (all, is_long);
        }
        fits
    }
}
