//! A worker: one thread, one runtime, and the connections assigned to it.
//!
//! An idle worker has no timer of its own: the acceptor tells it when to check its connections. A single timer, however distant, makes the
//! runtime arm and disarm a kernel timer whenever it sleeps and wakes, which is 4 % of a bare request; a `LocalSet` is another 3 %, so
//! tasks are spawned on the runtime itself.

use std::collections::HashMap;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::connection::{Deadlines, Order, Serving, Watch};
use crate::ingress::Held;

/// A message to a worker.
enum Message {
    /// Serve this connection.
    Serve(Accepted),
    /// Check the deadlines of all connections.
    LookAfter,
    /// Have the clients of all connections go elsewhere.
    Drain,
}

/// A connection that was accepted.
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) peer: IpAddr,
    pub(super) watch: Arc<Watch>,
    /// Its part of the limit of connections.
    pub(super) held: Held,
}

/// The connections of a worker, by number.
type Open = Arc<Mutex<HashMap<u64, Arc<Watch>>>>;

/// The acceptor's handle of a worker. Dropping it stops the worker.
pub(super) struct Handle {
    messages: UnboundedSender<Message>,
    connections: Arc<AtomicUsize>,
}

impl Handle {
    /// Returns the number of its connections.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Assigns a connection.
    pub(super) fn send(&self, accepted: Accepted) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        // Fails only while the worker is ending; the socket is then closed.
        let _ = self.messages.send(Message::Serve(accepted));
    }

    /// Makes the worker check the deadlines of its connections.
    pub(super) fn look_after(&self) {
        let _ = self.messages.send(Message::LookAfter);
    }

    /// Makes it drain its connections, and those that it is still assigned.
    pub(super) fn drain(&self) {
        let _ = self.messages.send(Message::Drain);
    }
}

/// Starts a worker.
///
/// # Errors
/// If the thread or the runtime cannot be created.
pub(super) fn start(
    number: usize,
    serving: Serving,
    deadlines: Deadlines,
) -> std::io::Result<(Handle, JoinHandle<()>)> {
    let (messages, told) = unbounded_channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worker_connections = Arc::clone(&connections);
    let thread = std::thread::Builder::new().name(format!("strata-worker-{number}")).spawn(move || {
        let (open, connections) = (Open::default(), worker_connections);
        let worker = Worker { serving, deadlines, connections, open, next: 0, is_draining: false };
        runtime.block_on(worker.run(told));
    })?;
    Ok((Handle { messages, connections }, thread))
}

struct Worker {
    serving: Serving,
    deadlines: Deadlines,
    connections: Arc<AtomicUsize>,
    open: Open,
    next: u64,
    is_draining: bool,
}

impl Worker {
    async fn run(mut self, mut told: UnboundedReceiver<Message>) {
        while let Some(message) = told.recv().await {
            match message {
                Message::Serve(accepted) => self.adopt(accepted),
                Message::LookAfter => self.look_after(Instant::now()),
                Message::Drain => {
                    self.is_draining = true;
                    self.order_all(Order::Drain);
                }
            }
        }
        let deadline = *self.deadlines.stop.get_or_init(Instant::now);
        self.order_all(Order::Drain);
        while !self.open.lock().is_empty() && Instant::now() < deadline {
            // Connections are removed from the map as they end; a short tick, because the process is waiting.
            tokio::time::sleep(self.deadlines.tick().min(Duration::from_millis(20))).await;
            self.look_after(Instant::now());
        }
        self.order_all(Order::Leave);
        tokio::task::yield_now().await;
    }

    fn adopt(&mut self, Accepted { stream, peer, watch, held }: Accepted) {
        let number = self.next;
        self.next += 1;
        if self.is_draining {
            watch.order(Order::Drain);
        }
        self.open.lock().insert(number, Arc::clone(&watch));
        let removal = RemoveOnDrop {
            number,
            open: Arc::clone(&self.open),
            connections: Arc::clone(&self.connections),
            _held: held,
        };
        let serving = self.serving.clone();
        tokio::spawn(async move {
            let _removal = removal;
            serving.connection(stream, peer, watch).await;
        });
    }

    /// Ends connections whose deadlines have passed.
    fn look_after(&self, now: Instant) {
        for watch in self.open.lock().values() {
            watch.look_after(now, &self.deadlines);
        }
    }

    fn order_all(&self, order: Order) {
        for watch in self.open.lock().values() {
            watch.order(order);
        }
    }
}

/// Removes a connection from the map, however it ended.
struct RemoveOnDrop {
    number: u64,
    open: Open,
    connections: Arc<AtomicUsize>,
    _held: Held,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        self.open.lock().remove(&self.number);
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
