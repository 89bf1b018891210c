//! A worker: one thread, one runtime, the connections that were handed to it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::clock::Clocks;
use super::connection::{self, Deadlines, Order, Watch};
use crate::ingress::Ingress;

/// The acceptor's end of a worker. When it is dropped, the worker stops.
pub(super) struct Handle {
    sockets: UnboundedSender<(TcpStream, IpAddr)>,
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
        let _ = self.sockets.send((stream, peer));
    }
}

/// Starts a worker.
///
/// # Errors
/// If the machine has no thread or no runtime to give.
pub(super) fn start(
    number: usize,
    ingress: Ingress,
    deadlines: Deadlines,
    clocks: Arc<Clocks>,
) -> std::io::Result<(Handle, JoinHandle<()>)> {
    let (sockets, handed_over) = unbounded_channel();
    let connections = Arc::new(AtomicUsize::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worker_connections = Arc::clone(&connections);
    let thread = std::thread::Builder::new().name(format!("strata-worker-{number}")).spawn(move || {
        clocks.enter();
        let worker = Worker {
            ingress: Rc::new(ingress),
            deadlines,
            connections: worker_connections,
            open: Rc::default(),
            next: 0,
        };
        LocalSet::new().block_on(&runtime, worker.run(handed_over));
        drop(runtime);
        clocks.leave();
    })?;
    Ok((Handle { sockets, connections }, thread))
}

struct Worker {
    ingress: Rc<Ingress>,
    deadlines: Deadlines,
    connections: Arc<AtomicUsize>,
    open: Rc<RefCell<HashMap<u64, Rc<Watch>>>>,
    next: u64,
}

impl Worker {
    async fn run(mut self, mut handed_over: UnboundedReceiver<(TcpStream, IpAddr)>) {
        let mut tick = tokio::time::interval(self.deadlines.tick());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                socket = handed_over.recv() => match socket {
                    Some((stream, peer)) => self.adopt(stream, peer),
                    None => break,
                },
                _ = tick.tick() => self.look_after(Instant::now()),
            }
        }
        let begun = Instant::now();
        self.order_all(Order::Finish);
        while !self.open.borrow().is_empty() && begun.elapsed() < self.deadlines.stop {
            // Connections leave the map as they end; a short tick, because the process waits for it.
            tokio::time::sleep(self.deadlines.tick().min(std::time::Duration::from_millis(20))).await;
        }
        self.order_all(Order::Leave);
        tokio::task::yield_now().await;
    }

    fn adopt(&mut self, stream: TcpStream, peer: IpAddr) {
        let watch = Rc::new(Watch::default());
        let number = self.next;
        self.next += 1;
        self.open.borrow_mut().insert(number, Rc::clone(&watch));
        let left = Left { number, open: Rc::clone(&self.open), connections: Arc::clone(&self.connections) };
        let ingress = Rc::clone(&self.ingress);
        tokio::task::spawn_local(async move {
            let _left = left;
            connection::serve(stream, peer, ingress, watch).await;
        });
    }

    /// Ends connections whose deadlines are over.
    fn look_after(&self, now: Instant) {
        for watch in self.open.borrow().values() {
            watch.look_after(now, &self.deadlines);
        }
    }

    fn order_all(&self, order: Order) {
        for watch in self.open.borrow().values() {
            watch.order(order);
        }
    }
}

/// Takes a connection off the books, however it ended.
struct Left {
    number: u64,
    open: Rc<RefCell<HashMap<u64, Rc<Watch>>>>,
    connections: Arc<AtomicUsize>,
}

impl Drop for Left {
    fn drop(&mut self) {
        self.open.borrow_mut().remove(&self.number);
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
