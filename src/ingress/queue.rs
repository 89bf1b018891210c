//! The waiting work of a pool: taken round robin by client, not first come first served, so that who has much to do delays mostly itself.
//!
//! Each job adds a token to the queue of the thread pool. A thread that takes a token runs the job whose turn it is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::client::Client;

type Job = Box<dyn FnOnce() + Send>;

/// The jobs of a pool that no thread has taken yet, and its threads.
pub(super) struct Queue {
    pool: Handle,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    jobs: HashMap<Client, VecDeque<Job>>,
    /// The clients with jobs, in the order of their turns.
    turns: VecDeque<Client>,
}

impl Queue {
    pub(super) fn of(pool: Handle) -> Self {
        Self { pool, waiting: Arc::default() }
    }

    /// Has a thread run a job of a client when it is its turn.
    pub(super) fn add(&self, client: Client, job: impl FnOnce() + Send + 'static) {
        self.waiting.lock().add(client, Box::new(job));
        let waiting = Arc::clone(&self.waiting);
        self.pool.spawn_blocking(move || {
            let job = waiting.lock().take();
            job.into_iter().for_each(|job| job());
        });
    }

    /// Returns its threads, for what belongs to no client.
    pub(super) fn pool(&self) -> &Handle {
        &self.pool
    }
}

impl Waiting {
    fn add(&mut self, client: Client, job: Job) {
        let jobs = self.jobs.entry(client).or_default();
        if jobs.is_empty() {
            self.turns.push_back(client);
        }
        jobs.push_back(job);
    }

    fn take(&mut self) -> Option<Job> {
        let client = self.turns.pop_front()?;
        let jobs = self.jobs.get_mut(&client)?;
        let job = jobs.pop_front();
        match jobs.is_empty() {
            true => drop(self.jobs.remove(&client)),
            false => self.turns.push_back(client),
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn clients_take_turns() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (queue, (said, heard)) = (Queue::of(runtime.handle().clone()), mpsc::channel());
        let ((go, gate), (begin, begun)) = (mpsc::channel(), mpsc::channel());
        let client = |number: u8| Client::at([127, 0, 0, number].into());
        queue.add(client(1), move || {
            begin.send(()).unwrap();
            gate.recv().unwrap()
        });
        begun.recv().unwrap();
        for (number, name) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")] {
            let said = said.clone();
            queue.add(client(number), move || said.send(name).unwrap());
        }
        go.send(()).unwrap();
        drop(said);
        assert_eq!(heard.iter().collect::<Vec<_>>(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        assert!(queue.waiting.lock().jobs.is_empty());
    }
}
