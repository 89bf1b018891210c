//! A worker: one thread, one runtime, the connections that were handed to it.
//!
//! A worker has no timer of its own while nothing waits: the acceptor tells it when to look at its connections. One timer, however
//! far away, makes the runtime arm and disarm the kernel's on each way to sleep and back, which is 4 % of a bare request;
//! a `LocalSet` is another 3 %, so tasks are spawned on the runtime itself.

use std::collections::HashMap;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::clock::Clocks;
use super::connection::{Deadlines, Order, Serving, Watch};

/// What a worker is told.
enum Message {
    /// Serve this connection.
    Serve(TcpStream, IpAddr),
    /// See whose deadline is over.
    LookAfter,
}

/// The connections of a worker, by number.
type Open = Arc<Mutex<HashMap<u64, Arc<Watch>>>>;

/// The acceptor's end of a worker. When it is dropped, the worker stops.
pub(super) struct Handle {
    messages: UnboundedSender<Message>,
    connections: Arc<AtomicUsize>,
}

impl Handle {
    /// How many connections the worker has.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Hands a connection over.
    pub(super) fn send(&self, stream: TcpStream, peer: IpAddr) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        // It fails only while the worker ends, and then the socket is closed.
        let _ = self.messages.send(Message::Serve(stream, peer));
    }

    /// Lets the worker see whose deadline is over.
    pub(super) fn look_after(&self) {
        let _ = self.messages.send(Message::LookAfter);
    }
}

/// Starts a worker.
///
/// # Errors
/// If the machine has no thread or no runtime to give.
pub(super) fn start(
    number: usize,
    serving: Serving,
    deadlines: Deadlines,
    clocks: Arc<Clocks>,
) -> std::io::Result<(Handle, JoinHandle<()>)> {
    let (messages, told) = unbounded_channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worker_connections = Arc::clone(&connections);
    let thread = std::thread::Builder::new().name(format!("strata-worker-{number}")).spawn(move || {
        clocks.enter();
        let worker = Worker { serving, deadlines, connections: worker_connections, open: Open::default(), next: 0 };
        runtime.block_on(worker.run(told));
        drop(runtime);
        clocks.leave();
    })?;
    Ok((Handle { messages, connections }, thread))
}

struct Worker {
    serving: Serving,
    deadlines: Deadlines,
    connections: Arc<AtomicUsize>,
    open: Open,
    next: u64,
}

impl Worker {
    async fn run(mut self, mut told: UnboundedReceiver<Message>) {
        while let Some(message) = told.recv().await {
            match message {
                Message::Serve(stream, peer) => self.adopt(stream, peer),
                Message::LookAfter => self.look_after(Instant::now()),
            }
        }
        let deadline = *self.deadlines.stop.get_or_init(Instant::now);
        self.order_all(Order::Finish);
        while !self.open.lock().is_empty() && Instant::now() < deadline {
            // Connections leave the map as they end; a short tick, because the process waits for it.
            tokio::time::sleep(self.deadlines.tick().min(Duration::from_millis(20))).await;
        }
        self.order_all(Order::Leave);
        tokio::task::yield_now().await;
    }

    fn adopt(&mut self, stream: TcpStream, peer: IpAddr) {
        let watch = Arc::new(Watch::default());
        let number = self.next;
        self.next += 1;
        self.open.lock().insert(number, Arc::clone(&watch));
        let left = Left { number, open: Arc::clone(&self.open), connections: Arc::clone(&self.connections) };
        let serving = self.serving.clone();
        tokio::spawn(async move {
            let _left = left;
            serving.connection(stream, peer, watch).await;
        });
    }

    /// Ends connections whose deadlines are over.
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

/// Takes a connection off the books, however it ended.
struct Left {
    number: u64,
    open: Open,
    connections: Arc<AtomicUsize>,
}

impl Drop for Left {
    fn drop(&mut self) {
        self.open.lock().remove(&self.number);
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
