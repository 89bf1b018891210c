//! Wake-ups of the tasks of one worker, together.
//!
//! One change may reach thousands of subscribers, and the thread that reads the log wakes the task of each. From another thread, that is a
//! system call each time; so they are collected for each worker, and a task of the worker, which is woken once, wakes them all.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::Notify;

thread_local! {
    static OF_THIS_WORKER: RefCell<Weak<WakeUps>> = const { RefCell::new(Weak::new()) };
}

#[derive(Default)]
struct WakeUps {
    collected: Mutex<Vec<Waker>>,
    first: Notify,
}

impl WakeUps {
    /// Returns those of the worker that this thread is, whose task runs until its runtime ends.
    fn of_this_worker() -> Weak<Self> {
        OF_THIS_WORKER.with_borrow_mut(|known| {
            if known.strong_count() == 0 {
                let wake_ups = Arc::<Self>::default();
                *known = Arc::downgrade(&wake_ups);
                tokio::spawn(async move { wake_ups.run().await });
            }
            Weak::clone(known)
        })
    }

    async fn run(&self) {
        loop {
            self.first.notified().await;
            let collected = std::mem::take(&mut *self.collected.lock());
            collected.into_iter().for_each(Waker::wake);
        }
    }

    fn add(&self, waker: Waker) {
        let mut collected = self.collected.lock();
        collected.push(waker);
        if collected.len() == 1 {
            drop(collected);
            self.first.notify_one();
        }
    }
}

/// Returns a callback for any thread that wakes a task of this one.
///
/// # Panics
/// Outside of a runtime.
pub(super) fn from_elsewhere(waker: Waker) -> impl FnOnce() + Send + 'static {
    let wake_ups = WakeUps::of_this_worker();
    move || {
        // Where its runtime has ended, so has the task.
        if let Some(wake_ups) = wake_ups.upgrade() {
            wake_ups.add(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Poll;

    use super::*;

    /// Starts a runtime on this thread with so many tasks that wait for another thread; each must be woken by it.
    fn woken_from_another_thread(tasks: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, callbacks) = channel::<Box<dyn FnOnce() + Send>>();
        let other = std::thread::spawn(move || callbacks.into_iter().for_each(|wake| wake()));
        runtime.block_on(async move {
            let waiting: Vec<_> = (0..tasks).map(|_| tokio::spawn(wait(sender.clone()))).collect();
            drop(sender);
            for task in waiting {
                task.await.unwrap();
            }
        });
        other.join().unwrap();
    }

    /// Waits a hundred times for a callback of its own to be called.
    async fn wait(callbacks: Sender<Box<dyn FnOnce() + Send>>) {
        for _ in 0..100 {
            let mut is_woken = false;
            poll_fn(|context| {
                if std::mem::replace(&mut is_woken, true) {
                    return Poll::Ready(());
                }
                callbacks.send(Box::new(from_elsewhere(context.waker().clone()))).unwrap();
                Poll::Pending
            })
            .await;
        }
    }

    #[test]
    fn every_task_is_woken() {
        woken_from_another_thread(1);
        woken_from_another_thread(50);
    }

    #[test]
    fn a_runtime_that_has_ended_is_not_woken() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let callback = runtime.block_on(async { from_elsewhere(Waker::noop().clone()) });
        drop(runtime);
        callback();
    }
}
