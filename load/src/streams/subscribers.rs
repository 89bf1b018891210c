//! Subscribers of a stream beside the load: Server-Sent Events, and reads that wait and are asked again from where the last one ended. They
//! follow from before the warm-up until everything acknowledged has come, or the drain is over, and note when each event came.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::task::LocalSet;

use crate::connection::{Connection, Target};
use crate::event::Event;
use crate::scenario::{Http, Subscribers};

use super::appends::nanoseconds;
use super::deliveries::Taken;

/// The timeout for all of them to be open.
const TO_OPEN: Duration = Duration::from_secs(30);

/// Until where they follow: the offset behind the last of each partition; none as long as the load goes on.
type Until = Option<Vec<u64>>;

/// The number of requests that they have sent, and of those that were answered to the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// Sent.
    pub sent: u64,
    /// Answered.
    pub answered: u64,
}

/// The same, as they are counted.
#[derive(Debug, Default)]
struct Counted {
    sent: AtomicU64,
    answered: AtomicU64,
}

/// Running subscribers.
#[derive(Debug)]
pub struct Running {
    until: watch::Sender<Until>,
    thread: JoinHandle<Vec<Vec<Taken>>>,
    counted: Arc<Counted>,
}

/// Events of one partition, or of several one after the other.
#[derive(Deserialize)]
struct Records<'a> {
    #[serde(borrow)]
    records: Vec<Event<'a>>,
}

impl Running {
    /// Opens all of them, on a thread of their own, at these offsets, which are where the partitions end.
    ///
    /// # Errors
    /// They are not open in time.
    pub fn start(all: &[Subscribers], target: &Target, from: &[u64]) -> Result<Self, String> {
        let (until, ends) = watch::channel(None);
        let counted = Arc::<Counted>::default();
        let (opened, open) = mpsc::channel();
        let (target, from, own) = (Target { http: Http::One, ..target.clone() }, from.to_vec(), Arc::clone(&counted));
        let followed = all.to_vec();
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
            LocalSet::new().block_on(&runtime, follow_all(followed, target, from, ends, own, opened))
        });
        let end = Instant::now() + TO_OPEN;
        for _ in 0..all.iter().map(|one| one.count).sum() {
            let left = end.saturating_duration_since(Instant::now());
            open.recv_timeout(left).map_err(|_| "the subscribers of the stream are not open in time".to_owned())?;
        }
        Ok(Self { until, thread, counted })
    }

    /// Their requests so far.
    pub fn requests(&self) -> Requests {
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        // First those that were answered: each of them was sent.
        let answered = count(&self.counted.answered);
        Requests { sent: count(&self.counted.sent), answered }
    }

    /// Ends them when each has come to these offsets, or after this time; what each has taken, and all their requests.
    pub fn end(self, until: Vec<u64>, at_most: Duration) -> (Vec<Vec<Taken>>, Requests) {
        let _ = self.until.send(Some(until));
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < at_most {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Whoever has no end by now has none: nobody is there to tell them to go on.
        let counted = Arc::clone(&self.counted);
        drop(self.until);
        let taken = self.thread.join().expect("no subscriber panics");
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        (taken, Requests { sent: count(&counted.sent), answered: count(&counted.answered) })
    }
}

/// One of them, as it goes.
struct Follower {
    taken: RefCell<Taken>,
    changed: Notify,
    counted: Arc<Counted>,
}

async fn follow_all(
    all: Vec<Subscribers>,
    target: Target,
    from: Vec<u64>,
    ends: watch::Receiver<Until>,
    counted: Arc<Counted>,
    opened: mpsc::Sender<()>,
) -> Vec<Vec<Taken>> {
    let mut tasks = Vec::new();
    for one in &all {
        let start = |number: usize| {
            let path = one.path.of(number as u64);
            let taken = RefCell::new(Taken::new(partition_of(&path), &from));
            let follower = Follower { taken, changed: Notify::new(), counted: Arc::clone(&counted) };
            let (target, mut ends, opened) = (target.clone(), ends.clone(), opened.clone());
            tokio::task::spawn_local(async move {
                tokio::select! {
                    () = follower.follow(&target, &path, opened) => {}
                    () = follower.has_come_to(&mut ends) => {}
                }
                follower.taken.into_inner()
            })
        };
        tasks.push((0..one.count).map(start).collect::<Vec<_>>());
    }
    let mut taken = Vec::new();
    for tasks in tasks {
        let mut own = Vec::new();
        for task in tasks {
            own.push(task.await.expect("no subscriber panics"));
        }
        taken.push(own);
    }
    taken
}

/// The partition that a path names; none where it names all.
fn partition_of(path: &str) -> Option<usize> {
    let (_, query) = path.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix("partition=")).and_then(|number| number.parse().ok())
}

fn request(path: &str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    // The scenario was refused if its paths were none.
    *request.uri_mut() = path.parse().unwrap_or_default();
    request
}

impl Follower {
    /// Follows as long as the server lets it; that it has ended is noted.
    async fn follow(&self, target: &Target, path: &str, opened: mpsc::Sender<()>) {
        let connection = Connection::slots(target, 1).remove(0);
        if path.contains("stream=sse") {
            self.listen(&connection, path, opened).await;
        } else {
            let _ = opened.send(());
            while self.wait(&connection, path).await {}
        }
        self.taken.borrow_mut().ended = true;
        // What has ended has no more to come to.
        std::future::pending::<()>().await;
    }

    /// Takes what Server-Sent Events tell, until they end.
    async fn listen(&self, connection: &Connection, path: &str, opened: mpsc::Sender<()>) {
        let (mut line, mut opened) = (Vec::new(), Some(opened));
        let take = |bytes: &[u8]| {
            // Nobody may wait for it any more.
            let _ = opened.take().is_some_and(|opened| opened.send(()).is_ok());
            for byte in bytes {
                match byte {
                    b'\n' => {
                        let line = std::mem::take(&mut line);
                        line.strip_prefix(b"data:").into_iter().for_each(|data| self.note(data));
                    }
                    _ => line.push(*byte),
                }
            }
        };
        self.counted.sent.fetch_add(1, Ordering::SeqCst);
        // However it ended, it has.
        let _ = connection.stream(request(path), take).await;
        self.counted.answered.fetch_add(1, Ordering::SeqCst);
    }

    /// Reads from where the last read ended. False if it was not answered as a read is.
    async fn wait(&self, connection: &Connection, path: &str) -> bool {
        let from = self.taken.borrow().next();
        self.counted.sent.fetch_add(1, Ordering::SeqCst);
        let Ok(answer) = connection.exchange(request(&format!("{path}&from={from}"))).await else { return false };
        self.counted.answered.fetch_add(1, Ordering::SeqCst);
        self.note(&answer.body);
        answer.status == http::StatusCode::OK
    }

    fn note(&self, data: &[u8]) {
        let now = nanoseconds(Instant::now());
        let Ok(Records { records }) = serde_json::from_slice(data) else { return };
        let mut taken = self.taken.borrow_mut();
        for event in records {
            if let (Some(partition), Some(offset)) = (event.partition, event.offset) {
                taken.note(partition, offset, now);
            }
        }
        self.changed.notify_one();
    }

    /// Until it has come to the offsets that it is to follow to, or nobody is there any more to say so.
    async fn has_come_to(&self, ends: &mut watch::Receiver<Until>) {
        let Ok(until) = ends.wait_for(Option::is_some).await.map(|until| until.clone().unwrap_or_default()) else {
            return;
        };
        while !self.taken.borrow().has_come_to(&until) {
            tokio::select! {
                () = self.changed.notified() => {}
                gone = ends.changed() => if gone.is_err() { return },
            }
        }
    }
}
