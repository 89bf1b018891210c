//! The receipt of a multicast: which of its targets have a subscriber that has taken the message.
//!
//! Each queue that gets the message has a [`Delivery`] beside its text. The subscriber's connection takes both, or the queue ends and drops
//! them; the last one wakes whoever waits for the receipt. So a receipt costs no thread and no search. A transport on which the message
//! travels besides is a [`Way`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// What is known of a target. A later one replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// No subscriber was live when the message was handed out.
    Absent,
    /// A transport failed to hand it to any.
    Failed,
    /// There was one, and none has taken all of the message.
    Pending,
    /// The connection of at least one has taken all of it.
    Delivered,
}

impl Standing {
    const ALL: [Self; 4] = [Self::Absent, Self::Failed, Self::Pending, Self::Delivered];
}

/// A receipt.
pub struct Receipt {
    /// By target, in the order of the message.
    standings: Box<[AtomicU8]>,
    /// Number of deliveries and ways that are not over, and one more before the message is handed out.
    open: AtomicUsize,
    wake: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Receipt {
    /// Returns the receipt of a message that is not handed out yet.
    pub(super) fn new(targets: usize) -> Arc<Self> {
        let standings = (0..targets).map(|_| AtomicU8::new(Standing::Absent as u8)).collect();
        Arc::new(Self { standings, open: AtomicUsize::new(1), wake: Mutex::default() })
    }

    /// Calls back once nobody is left who could still take the message, perhaps at once. The callback must neither block nor panic.
    pub fn when_done(&self, wake: impl FnOnce() + Send + 'static) {
        let mut waiting = self.wake.lock();
        match self.open.load(Ordering::Acquire) {
            0 => {
                drop(waiting);
                wake();
            }
            _ => *waiting = Some(Box::new(wake)),
        }
    }

    /// Returns what is known of each target.
    pub fn standings(&self) -> impl Iterator<Item = Standing> {
        self.standings.iter().map(|standing| Standing::ALL[usize::from(standing.load(Ordering::Acquire))])
    }

    /// Says that a delivery begins to a subscriber of each of these targets.
    pub(super) fn begin(&self, targets: impl ExactSizeIterator<Item = usize>) {
        self.open.fetch_add(targets.len(), Ordering::AcqRel);
        targets.for_each(|target| self.raise(target, Standing::Pending));
    }

    /// Returns one of the deliveries that have begun.
    pub(super) fn delivery(self: &Arc<Self>, target: usize) -> Delivery {
        Delivery { receipt: Arc::clone(self), target: target as u32 }
    }

    /// Begins a way besides the feed.
    pub fn way(self: &Arc<Self>) -> Way {
        self.open.fetch_add(1, Ordering::AcqRel);
        Way(Arc::clone(self))
    }

    /// Says that all deliveries have begun.
    pub(super) fn handed_out(&self) {
        self.close();
    }

    fn raise(&self, target: usize, standing: Standing) {
        self.standings[target].fetch_max(standing as u8, Ordering::AcqRel);
    }

    fn close(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let wake = self.wake.lock().take();
            wake.into_iter().for_each(|wake| wake());
        }
    }
}

/// A way of a message besides the feed. Dropped, it is over.
pub struct Way(Arc<Receipt>);

impl Way {
    /// Says what is known of a target on this way.
    pub fn say(&self, target: usize, standing: Standing) {
        self.0.raise(target, standing);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A message in the queue of one subscriber. Dropped without having been taken, it is pending.
pub(super) struct Delivery {
    receipt: Arc<Receipt>,
    target: u32,
}

impl Delivery {
    /// Says that the connection of the subscriber has taken all of it.
    pub(super) fn taken(self) {
        // No later one replaces it.
        self.receipt.standings[self.target as usize].store(Standing::Delivered as u8, Ordering::Release);
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.receipt.close();
    }
}
