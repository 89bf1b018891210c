//! Subscribers over NATS, some to a connection, or over JetStream with a consumer for each connection.
//!
//! NATS keeps nothing: one that lost its connection, or was too slow for what came, has ended. A consumer goes on where it was, and resumes.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use async_nats::{Client, ConnectOptions, Event, Message, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::task::{JoinHandle, JoinSet};

use crate::jetstream::{self, Consumer, STREAM};
use crate::multicasts::deliveries::Received;
use crate::scenario::{Over, Subscribers};

use super::{Inbox, Opened, Shared, Stage, TO_OPEN};

/// The header with the id of a message: what comes without one is none.
const MESSAGE_ID: &str = "Strata-Message";

/// Messages that are kept for one that reads nothing.
const KEPT_FOR_STALLED: usize = 256;

/// Bytes that are read at once from a connection that one has to itself.
const READ_BYTES: u16 = 4096;

/// Starts all of a kind, a task for each of their connections.
pub(super) fn start(
    kind: Subscribers,
    shared: &Rc<Shared>,
    opened: &mpsc::Sender<Opened>,
) -> Vec<JoinHandle<Vec<Received>>> {
    let connections = kind.connections.unwrap_or(kind.count);
    let kind = Rc::new(kind);
    let first = |connection: usize| connection * kind.count / connections;
    let start = |connection: usize| {
        let numbers = first(connection)..first(connection + 1);
        tokio::task::spawn_local(listen(Rc::clone(&kind), numbers, Rc::clone(shared), opened.clone()))
    };
    (0..connections).map(start).collect()
}

/// The troubles of a connection.
#[derive(Debug, Default)]
struct Troubles {
    /// The number of times that it was lost.
    lost: AtomicU64,
    /// The number of times that messages were thrown away because nobody read them.
    slow: AtomicU64,
}

/// Those with these numbers, which share a connection.
struct Sharing {
    kind: Rc<Subscribers>,
    numbers: Range<usize>,
    inboxes: Vec<Rc<Inbox>>,
    shared: Rc<Shared>,
    troubles: Arc<Troubles>,
}

/// Listens until all is over.
async fn listen(
    kind: Rc<Subscribers>,
    numbers: Range<usize>,
    shared: Rc<Shared>,
    opened: mpsc::Sender<Opened>,
) -> Vec<Received> {
    let inboxes = numbers.clone().map(|number| Rc::new(Inbox::new(&kind, number, &shared))).collect();
    let mut stages = shared.stages.clone();
    let sharing = Sharing { kind, numbers, inboxes, shared, troubles: Arc::default() };
    let has_ended = tokio::select! {
        Err(reason) = sharing.listen(&opened) => Some(reason),
        _ = stages.wait_for(|stage| *stage == Stage::Over) => None,
    };
    if let Some(reason) = has_ended {
        // Nobody may wait for it any more.
        let _ = opened.send(Err(reason));
        sharing.inboxes.iter().for_each(|inbox| inbox.end());
        // What has ended has no more to come.
        let _ = stages.wait_for(|stage| *stage == Stage::Over).await;
    }
    let troubles = [&sharing.troubles.lost, &sharing.troubles.slow].map(|count| count.load(Ordering::Relaxed));
    let received = |inbox: &Rc<Inbox>| {
        match (sharing.kind.over, troubles) {
            (_, [0, 0]) => {}
            (Over::Jetstream, _) => inbox.lag(),
            (Over::Nats | Over::Sse, _) => inbox.end(),
        }
        inbox.received.take()
    };
    sharing.inboxes.iter().map(received).collect()
}

impl Sharing {
    /// Listens for as long as it is let.
    ///
    /// # Errors
    /// Why there is nothing to listen to.
    async fn listen(&self, opened: &mpsc::Sender<Opened>) -> Result<(), String> {
        let opening = self.shared.opening.acquire().await.map_err(|error| error.to_string())?;
        let client = tokio::time::timeout(TO_OPEN, self.connect()).await;
        let client = client.unwrap_or_else(|_| Err("no connection in time".to_owned()));
        let client = client.map_err(|reason| format!("a subscriber has no NATS: {reason}"))?;
        if self.kind.over == Over::Jetstream {
            jetstream::make(&client).await?;
            let consumer = Consumer::new(&client, self.subjects().collect()).await;
            let consumer = consumer.map_err(|reason| format!("the stream {STREAM} has no consumer: {reason}"))?;
            drop(opening);
            self.opened(opened).await;
            self.consume(consumer).await;
        }
        let subscriptions = self.subscribe(&client).await;
        let subscriptions = subscriptions.map_err(|reason| format!("no subscription to NATS: {reason}"))?;
        drop(opening);
        self.opened(opened).await;
        self.read(subscriptions, &client).await
    }

    async fn connect(&self) -> Result<Client, String> {
        let nats = self.shared.nats.as_ref().ok_or("nobody said where it is")?;
        let troubles = Arc::clone(&self.troubles);
        let note = move |event| {
            match event {
                Event::Disconnected | Event::Closed => drop(troubles.lost.fetch_add(1, Ordering::Relaxed)),
                Event::SlowConsumer(_) => drop(troubles.slow.fetch_add(1, Ordering::Relaxed)),
                _ => {}
            }
            std::future::ready(())
        };
        let mut options = ConnectOptions::new().name("strata-load").event_callback(note);
        if self.numbers.len() == 1 {
            options = options.read_buffer_capacity(READ_BYTES);
        }
        // A stream keeps the rest, and is asked for it.
        if self.is_stalled() && self.kind.over == Over::Nats {
            options = options.subscription_capacity(KEPT_FOR_STALLED);
        }
        let servers: Vec<_> = nats.servers.split(',').collect();
        options.connect(servers).await.map_err(|error| format!("{}: {error}", nats.servers))
    }

    /// Returns true if it is one that reads nothing until requests end; it has a connection of its own.
    fn is_stalled(&self) -> bool {
        self.numbers.clone().any(|number| self.kind.is_stalled(number))
    }

    /// All of them are open; returns when they are to read.
    async fn opened(&self, opened: &mpsc::Sender<Opened>) {
        // Nobody may wait for it any more.
        self.inboxes.iter().for_each(|_| drop(opened.send(Ok(()))));
        if self.is_stalled() {
            let _ = self.shared.stages.clone().wait_for(|stage| *stage != Stage::Loading).await;
        }
    }

    fn subjects(&self) -> impl Iterator<Item = String> {
        let subject = self.kind.subject.clone().unwrap_or_default();
        self.numbers.clone().map(move |number| subject.of(number as u64))
    }

    /// Subscribes all of them. The server carries out what comes over a connection in its order: once it has given back a message that was sent
    /// behind all of this, all of this is done.
    async fn subscribe(&self, client: &Client) -> Result<Vec<Subscriber>, String> {
        let mut subscriptions = Vec::with_capacity(self.numbers.len());
        for subject in self.subjects() {
            subscriptions.push(client.subscribe(subject).await.map_err(|error| error.to_string())?);
        }
        let back = client.new_inbox();
        let mut own = client.subscribe(back.clone()).await.map_err(|error| error.to_string())?;
        client.publish(back, Bytes::new()).await.map_err(|error| error.to_string())?;
        let came = tokio::time::timeout(TO_OPEN, own.next()).await.ok().flatten();
        came.map(|_| subscriptions).ok_or_else(|| "its server does not answer".to_owned())
    }

    /// Reads what comes to each of them, in a task for each: they wait for nobody.
    async fn read(&self, subscriptions: Vec<Subscriber>, client: &Client) -> Result<(), String> {
        let replies = self.shared.nats.as_ref().is_some_and(|nats| nats.replies);
        let mut reading = JoinSet::new();
        for (inbox, mut subscription) in self.inboxes.iter().zip(subscriptions) {
            let (inbox, client) = (Rc::clone(inbox), client.clone());
            reading.spawn_local(async move {
                while let Some(message) = subscription.next().await {
                    note(&inbox, &message);
                    if let Some(reply) = message.reply.filter(|_| replies) {
                        // Without a connection nobody waits for it either.
                        let _ = client.publish(reply, Bytes::new()).await;
                    }
                }
            });
        }
        while reading.join_next().await.is_some() {}
        Err("the connection to NATS has ended".to_owned())
    }

    /// Reads what comes to a consumer of theirs.
    async fn consume(&self, mut consumer: Consumer) -> ! {
        let by_subject: HashMap<_, _> = self.subjects().zip(&self.inboxes).collect();
        loop {
            let message = consumer.next().await;
            if let Some(inbox) = by_subject.get(message.subject.as_str()) {
                note(inbox, &message);
            }
        }
    }
}

/// Notes a message. What has no id is none that the server has sent.
fn note(inbox: &Inbox, message: &Message) {
    let has_id = message.headers.as_ref().is_some_and(|headers| headers.get(MESSAGE_ID).is_some());
    inbox.note(if has_id { &message.payload } else { b"" });
}
