//! The closed loop: users who ask again when they have their answer. When the server stops, they stop asking, so what this measures
//! is service times, never how long arrivals would have waited.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::ledger::Ledger;

use super::{CarriedOut, Slot, Worker};

/// The requests that no user has started yet, of all threads together: so all threads end together. Without a number there is no end.
#[derive(Clone, Debug)]
pub(super) struct Left(Option<Arc<AtomicU64>>);

impl Left {
    pub fn new(requests: Option<u64>) -> Self {
        Self(requests.map(|requests| Arc::new(AtomicU64::new(requests))))
    }

    /// Takes one of them; false if none is left.
    fn take(&self) -> bool {
        let take =
            |left: &AtomicU64| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        self.0.as_deref().is_none_or(|left| take(left).is_ok())
    }

    /// Leaves none.
    fn clear(&self) {
        self.0.iter().for_each(|left| left.store(0, Ordering::Relaxed));
    }
}

/// When users stop asking: whichever comes first, or a signal, or the end of the server.
#[derive(Clone)]
pub(super) struct End {
    pub deadline: Option<Instant>,
    pub left: Left,
    /// True if all users stop when one request has failed.
    pub at_failure: bool,
}

/// Starts a user on each of these slots. What they spent between answers and requests adds up in the cell, and so does how long they waited
/// after a refusal.
pub(super) fn start(
    worker: &Rc<Worker>,
    ledger: &Rc<Ledger>,
    end: &End,
    slots: &[Rc<Slot>],
    tasks: &mut JoinSet<()>,
) -> Rc<Cell<Duration>> {
    let think = Rc::new(Cell::new(Duration::ZERO));
    for slot in slots {
        let (worker, ledger, slot) = (Rc::clone(worker), Rc::clone(ledger), Rc::clone(slot));
        let (think, end) = (Rc::clone(&think), end.clone());
        tasks.spawn_local(async move {
            let (mut free, mut again) = (Instant::now(), None);
            loop {
                let reach = &worker.plan.target.reach;
                if reach.is_down() {
                    tokio::select! { () = reach.until_up() => {}, () = worker.to_end() => {} }
                }
                let now = Instant::now();
                let is_over = || end.deadline.is_some_and(|deadline| now >= deadline) || !end.left.take();
                // What is sent again has been started.
                if worker.is_to_end() || again.is_none() && is_over() {
                    return;
                }
                let (operation, row) = again.take().map_or_else(|| (worker.operation(), None), |(operation, row)| (operation, Some(row)));
                let arrival = ledger.schedule(operation, now);
                match worker.carry_out(&slot, arrival, now, row).await {
                    Some(carried_out) => {
                        let CarriedOut { started, ended, wait, .. } = carried_out;
                        think.set(think.get() + started.duration_since(free));
                        free = ended;
                        again = carried_out.again.map(|row| (operation, row));
                        if let Some(wait) = wait {
                            let until = end.deadline.map_or(ended + wait, |deadline| deadline.min(ended + wait));
                            tokio::select! { () = tokio::time::sleep_until(until.into()) => {}, () = worker.to_end() => {} }
                            free = Instant::now();
                            think.set(think.get() + free.duration_since(ended));
                        }
                    }
                    // A user without a row to ask about asks nothing, and the others must come to their answers.
                    None => tokio::task::yield_now().await,
                }
                if end.at_failure && ledger.has_failures() {
                    end.left.clear();
                }
            }
        });
    }
    think
}
