//! The closed loop: users who ask again when they have their answer. When the server stops, they stop asking, so what this measures
//! is service times, never how long arrivals would have waited.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::interrupt;
use crate::ledger::Ledger;

use super::Worker;

/// When users stop asking: whichever comes first, or a signal.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub deadline: Option<Instant>,
    pub requests: Option<u64>,
}

/// Starts a user on each slot. What they spent between answers and requests adds up in the cell.
pub(super) fn start(worker: &Rc<Worker>, ledger: &Rc<Ledger>, end: End, tasks: &mut JoinSet<()>) -> Rc<Cell<Duration>> {
    let think = Rc::new(Cell::new(Duration::ZERO));
    let left = Rc::new(Cell::new(end.requests));
    for slot in &worker.slots {
        let (worker, ledger, slot) = (Rc::clone(worker), Rc::clone(ledger), Rc::clone(slot));
        let (think, left) = (Rc::clone(&think), Rc::clone(&left));
        tasks.spawn_local(async move {
            let mut free = Instant::now();
            loop {
                let now = Instant::now();
                let over = left.get() == Some(0) || end.deadline.is_some_and(|deadline| now >= deadline);
                if over || interrupt::is_asked() {
                    return;
                }
                left.set(left.get().map(|left| left - 1));
                let arrival = ledger.schedule(worker.operation(), now);
                match worker.carry_out(&slot, arrival, now).await {
                    Some((started, ended)) => {
                        think.set(think.get() + started.duration_since(free));
                        free = ended;
                    }
                    // A user without a row to ask about asks nothing, and the others must come to their answers.
                    None => tokio::task::yield_now().await,
                }
            }
        });
    }
    think
}
