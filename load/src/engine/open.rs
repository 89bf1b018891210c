//! The open loop: arrivals at their intended times, and slots that take them from a bounded queue.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::interrupt;
use crate::ledger::{Arrival, Ledger};
use crate::schedule::Schedule;

use super::Worker;
use super::timer::Timer;

/// From this on the client is behind its schedule.
const BEHIND: Duration = Duration::from_millis(1);

/// Arrivals that wait for a connection.
struct Queue {
    waiting: RefCell<VecDeque<Arrival>>,
    idle: Cell<usize>,
    bound: usize,
    closed: Cell<bool>,
    changed: Notify,
}

impl Queue {
    /// Returns true if an arrival can wait here. Those that idle slots are about to take do not count as waiting.
    fn has_room(&self) -> bool {
        self.waiting.borrow().len() < self.bound + self.idle.get()
    }

    /// Takes an arrival in, or lets it go: then it is dropped.
    fn push(&self, arrival: Arrival) {
        if self.has_room() {
            self.waiting.borrow_mut().push_back(arrival);
            self.changed.notify_one();
        }
    }

    fn close(&self) {
        self.closed.set(true);
        self.changed.notify_waiters();
    }

    /// The next arrival; none after the last, or after a signal, which drops those that wait.
    async fn next(&self) -> Option<Arrival> {
        loop {
            if interrupt::is_asked() {
                return None;
            }
            if let Some(arrival) = self.waiting.borrow_mut().pop_front() {
                return Some(arrival);
            }
            if self.closed.get() {
                return None;
            }
            self.idle.set(self.idle.get() + 1);
            self.changed.notified().await;
            self.idle.set(self.idle.get() - 1);
        }
    }
}

/// Lets all arrivals of this thread come, at their times. Returns when the last has come, or a signal; the tasks carry on. If the client is
/// behind its schedule when this ends, what it has not come to waits as far as there is room, and the rest is dropped.
pub(super) async fn arrive(
    worker: &Rc<Worker>,
    ledger: &Rc<Ledger>,
    schedule: &Schedule,
    start: Instant,
    tasks: &mut JoinSet<()>,
) {
    let load = &worker.plan.scenario.load;
    let queue = Rc::new(Queue {
        waiting: RefCell::default(),
        idle: Cell::new(0),
        bound: worker.share(load.queue as u64) as usize,
        closed: Cell::new(false),
        changed: Notify::new(),
    });
    for slot in &worker.slots {
        let (worker, queue, slot) = (Rc::clone(worker), Rc::clone(&queue), Rc::clone(slot));
        tasks.spawn_local(async move {
            let mut free = start;
            while let Some(arrival) = queue.next().await {
                let carried_out = worker.carry_out(&slot, arrival, free, None).await;
                // What follows the answer, the check of its body, is the client's own time.
                free = carried_out.map_or_else(Instant::now, |carried_out| carried_out.ended);
            }
        });
    }
    // So that the slots are known to be idle when the first arrivals come.
    tokio::task::yield_now().await;
    let (timer, mut asked) = (Timer::new(), pin!(worker.to_end()));
    let mut times = schedule.times(load.poisson.then_some(load.seed));
    let end = start + Duration::from_secs_f64(schedule.seconds());
    let mut next = times.nth(worker.number);
    while let Some(time) = next {
        let intended = start + time;
        tokio::select! {
            biased;
            () = &mut asked => break,
            () = timer.until(intended) => {}
        }
        let now = Instant::now();
        let is_behind = now.saturating_duration_since(intended) > BEHIND;
        if now >= end && is_behind && !queue.has_room() {
            let mut left = times.by_second(load.threads as u64);
            let second = (time.as_secs() as usize).min(left.len() - 1);
            left[second] += 1;
            worker.miss(ledger, &left);
            break;
        }
        // Where the client itself is behind, connections take what waits before more comes: else it would be dropped on their account.
        if now < end && is_behind {
            tokio::task::yield_now().await;
        }
        queue.push(ledger.schedule(worker.operation(), intended));
        next = times.nth(load.threads - 1);
    }
    queue.close();
}
