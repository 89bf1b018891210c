//! Subscribers of change feeds beside the load: connections that read what the server tells of changes, from before the warm-up to the end
//! of the last window.

use std::cell::RefCell;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

use crate::connection::{Connection, Target};
use crate::scenario::{Feed, Http};

/// The pause before a feed that has ended is subscribed to again.
const PAUSE: Duration = Duration::from_millis(100);

/// The deliveries to the subscribers of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Followed {
    /// Its path and query.
    pub path: String,
    /// The number of subscribers.
    pub subscribers: usize,
    /// The changes that were told, to all of them together.
    pub events: u64,
    /// The number of times that one was told that it is behind.
    pub lagged: u64,
    /// The number of times that the server ended one, or refused it.
    pub ended: u64,
}

/// Running subscribers.
#[derive(Debug)]
pub struct Followers {
    stop: watch::Sender<bool>,
    thread: JoinHandle<Vec<Followed>>,
}

impl Followers {
    /// Subscribes to the feeds, on a thread of its own.
    pub fn start(feeds: &[Feed], target: &Target) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (feeds, target) = (feeds.to_vec(), Target { http: Http::One, ..target.clone() });
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
            LocalSet::new().block_on(&runtime, follow_all(feeds, target, stopped))
        });
        Self { stop, thread }
    }

    /// Ends them all; what they were told.
    pub fn stop(self) -> Vec<Followed> {
        let _ = self.stop.send(true);
        self.thread.join().unwrap_or_default()
    }
}

async fn follow_all(feeds: Vec<Feed>, target: Target, stopped: watch::Receiver<bool>) -> Vec<Followed> {
    let mut subscribers = JoinSet::new();
    for (position, feed) in feeds.iter().enumerate() {
        for _ in 0..feed.subscribers {
            let (target, path, mut stopped) = (target.clone(), feed.path.clone(), stopped.clone());
            subscribers.spawn_local(async move {
                let told = RefCell::default();
                tokio::select! {
                    () = follow(&target, &path, &told) => {}
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                }
                (position, told.into_inner())
            });
        }
    }
    let followed =
        |feed: Feed| Followed { path: feed.path, subscribers: feed.subscribers, events: 0, lagged: 0, ended: 0 };
    let mut all: Vec<_> = feeds.into_iter().map(followed).collect();
    while let Some(done) = subscribers.join_next().await {
        let (position, told): (usize, Followed) = done.expect("no subscriber panics");
        let sum = &mut all[position];
        sum.events += told.events;
        sum.lagged += told.lagged;
        sum.ended += told.ended;
    }
    all
}

/// Subscribes again and again, on a new connection each time.
async fn follow(target: &Target, path: &str, told: &RefCell<Followed>) {
    let connection = Connection::slots(target, 1).remove(0);
    loop {
        let (mut line, mut request) = (Vec::new(), http::Request::new(Full::default()));
        *request.uri_mut() = path.parse().expect("it was checked");
        let take = |bytes: &[u8]| {
            for byte in bytes {
                match byte {
                    b'\n' => told.borrow_mut().note(&std::mem::take(&mut line)),
                    _ => line.push(*byte),
                }
            }
        };
        // However it ended, it has.
        let _ = connection.stream(request, take).await;
        told.borrow_mut().ended += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

impl Followed {
    /// Notes a line of the stream (`text/event-stream`).
    fn note(&mut self, line: &[u8]) {
        match line {
            b"event: lagged" => self.lagged += 1,
            _ if line.starts_with(b"data:") => self.events += 1,
            _ => {}
        }
    }
}
