//! The guarantees of the feed: every change in log order, exactly once, whenever a subscriber joins and however slow it is.

use super::*;
use crate::schema::Schema;
use crate::storage;
use crate::transaction::{Clock, Precondition};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

const SDL: &str = r#"
type Item @table @export { id: ID! @primaryKey, number: Int @indexed, filler: String @unique }
type Other @table(durability: "strong") @export { sku: ID! @primaryKey }
type Lease @table(expiration: 60) @export { id: ID! @primaryKey }
"#;

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A line for each message.
fn write(id: EventId, message: &Message<'_>, out: &mut Vec<u8>) {
    let text = match message {
        Message::Put { json, .. } => format!("put {}", String::from_utf8_lossy(json)),
        Message::Delete { primary_key, id } => format!("delete {primary_key}={id}"),
        Message::Truncate => "truncate".to_owned(),
        Message::Multicast { id, body } => format!("message {id} {}", String::from_utf8_lossy(body)),
        Message::Progress => "progress".to_owned(),
        Message::Lagged => "lagged".to_owned(),
    };
    out.extend_from_slice(format!("{id} {text}\n").as_bytes());
}

fn open(directory: &Path, log_bytes: usize) -> Database {
    open_under(SDL, directory, log_bytes)
}

fn open_under(sdl: &str, directory: &Path, log_bytes: usize) -> Database {
    let options = storage::Options {
        cache_bytes: 8 << 20,
        write_buffer_bytes: 256 << 10,
        feed_log_bytes: log_bytes,
        ..storage::Options::default()
    };
    Database::migrate(directory, Schema::parse(sdl).unwrap(), &options).unwrap()
}

/// A store that keeps its log, and its feed.
fn fresh(options: Options) -> (TempDir, Database, Feed) {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path(), 1 << 30);
    let feed = Feed::new(database.clone(), options, write);
    (directory, database, feed)
}

fn items(database: &Database) -> Topic {
    Topic::table(database.table("Item").unwrap())
}

fn put(database: &Database, id: &str, number: usize) {
    let table = database.table("Item").unwrap();
    database.replace(table, id, format!("{{\"number\":{number}}}").as_bytes(), &Precondition::None).unwrap();
}

/// The message that a subscriber receives for it.
fn told(id: &str, number: usize) -> String {
    format!("put {{\"id\":\"{id}\",\"number\":{number},\"filler\":null}}")
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT);
        std::thread::yield_now();
    }
}

/// A test client that takes messages.
struct Subscriber {
    subscription: Subscription,
    /// The events it has received, with ids, without progress messages.
    told: Vec<(EventId, String)>,
    /// The id to resume from.
    id: Option<EventId>,
    is_over: bool,
}

impl Subscriber {
    fn new(subscription: Subscription) -> Self {
        Self { subscription, told: Vec::new(), id: None, is_over: false }
    }

    /// Takes one text, or waits for one.
    fn step(&mut self) {
        let (wake, woken) = mpsc::channel();
        match self.subscription.next(move || wake.send(()).unwrap_or_default()) {
            Next::Text(text) => {
                for line in std::str::from_utf8(&text).unwrap().lines() {
                    let (id, text) = line.split_once(' ').unwrap();
                    let id = id.parse().unwrap();
                    self.id = Some(id);
                    if text != "progress" {
                        self.told.push((id, text.to_owned()));
                    }
                }
            }
            Next::Pending => woken.recv_timeout(TIMEOUT).expect("nothing more came"),
            Next::Behind => self.subscription.catch_up(),
            Next::Over => self.is_over = true,
            Next::Broken(why) => panic!("{why}"),
        }
    }

    /// Takes until it has received `count` events.
    fn take(&mut self, count: usize) -> Vec<&str> {
        while self.told.len() < count && !self.is_over {
            self.step();
        }
        self.texts()
    }

    fn texts(&self) -> Vec<&str> {
        self.told.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Takes until it knows its position.
    fn positioned(mut self) -> Self {
        while self.id.is_none() {
            self.step();
        }
        self
    }
}

#[test]
fn an_expired_record_is_deleted_for_its_subscribers_when_it_is_reclaimed() {
    let (_directory, database, feed) = fresh(Options::default());
    let clock = Clock::standing_at(0);
    let (database, lease) = (database.with_clock(&clock), database.table("Lease").unwrap());
    let mut all = Subscriber::new(feed.subscribe(Topic::table(lease)).unwrap());
    for id in ["a", "b", "c"] {
        database.create(lease, format!("{{\"id\":\"{id}\"}}").as_bytes()).unwrap();
    }
    clock.set(60_000_000);
    database.create(lease, br#"{"id":"a"}"#).expect("its id is free");
    database.catch_up().unwrap();
    let put = |id: &str| format!("put {{\"id\":\"{id}\"}}");
    let expected = [put("a"), put("b"), put("c"), put("a"), "delete id=b".to_owned(), "delete id=c".to_owned()];
    assert_eq!(all.take(6), expected);
}

#[test]
fn changes_are_told_in_their_order_to_those_whom_they_concern() {
    let (_directory, database, feed) = fresh(Options::default());
    let (item, other) = (database.table("Item").unwrap(), database.table("Other").unwrap());
    let mut all = Subscriber::new(feed.subscribe(Topic::table(item)).unwrap());
    let mut one = Subscriber::new(feed.subscribe(Topic::record(item, "a")).unwrap());
    let mut others = Subscriber::new(feed.subscribe(Topic::table(other)).unwrap());
    put(&database, "a", 1);
    put(&database, "b", 2);
    database.merge(item, "a", br#"{"number":3}"#, &Precondition::None).unwrap();
    assert!(database.create(item, br#"{"id":"a"}"#).is_err(), "nothing comes of it");
    database.create(other, br#"{"sku":"x"}"#).unwrap();
    database.delete(item, "b", &Precondition::None).unwrap();
    database.truncate(item).unwrap();
    database.delete(other, "x", &Precondition::None).unwrap();
    let (a1, b2, a3) = (told("a", 1), told("b", 2), told("a", 3));
    assert_eq!(all.take(5), [&a1, &b2, &a3, "delete id=b", "truncate"]);
    assert_eq!(one.take(3), [&a1, &a3, "truncate"]);
    assert_eq!(others.take(2), ["put {\"sku\":\"x\"}", "delete sku=x"]);
    assert!(all.told.is_sorted_by_key(|(id, _)| id.position().sequence));
    let counters = feed.counters();
    assert_eq!((counters.subscribers, counters.events, counters.lagged), (3, 10, 0));
}

#[test]
fn of_a_transaction_the_last_state_of_each_record_is_told() {
    let (_directory, database, feed) = fresh(Options::default());
    let table = database.table("Item").unwrap();
    let mut subscriber = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    let number =
        |number: i64| crate::encoding::Fields::of(table).with("number", crate::encoding::Value::Int(number)).unwrap();
    put(&database, "gone", 0);
    let outcome = database.transact(|transaction| {
        transaction.replace("twice", number(1), &Precondition::None)?;
        transaction.replace("once", number(2), &Precondition::None)?;
        transaction.replace("twice", number(3), &Precondition::None)?;
        transaction.delete(table, "gone", &Precondition::None)?;
        transaction.replace("never", number(4), &Precondition::None)?;
        transaction.delete(table, "never", &Precondition::None)
    });
    outcome.unwrap();
    let expected = [&told("gone", 0), &told("once", 2), &told("twice", 3), "delete id=gone", "delete id=never"];
    assert_eq!(subscriber.take(5), expected);
    // A subscriber that resumes in the middle of the batch sees the same.
    let mut resumed = Subscriber::new(feed.resume(items(&database), subscriber.told[1].0).unwrap());
    assert_eq!(resumed.take(3), expected[2..]);
}

#[test]
fn who_resumes_gets_what_came_since_also_after_a_restart() {
    let (directory, database, feed) = fresh(Options::default());
    let mut subscriber = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    let before = subscriber.id.unwrap();
    let numbers: Vec<_> = (0..60).collect();
    for number in &numbers {
        put(&database, &format!("{}", number % 7), *number);
        if number % 20 == 5 {
            database.store().flush().unwrap();
        }
    }
    let all: Vec<_> = numbers.iter().map(|number| told(&format!("{}", number % 7), *number)).collect();
    assert_eq!(subscriber.take(60), all);
    let ids: Vec<_> = [before].into_iter().chain(subscriber.told.iter().map(|(id, _)| *id)).collect();
    let resume_everywhere = |database: &Database, feed: &Feed, expected: &[String]| {
        for (taken, id) in ids.iter().enumerate() {
            let mut resumed = Subscriber::new(feed.resume(items(database), *id).unwrap());
            assert_eq!(resumed.take(expected.len() - taken), expected[taken..], "behind {id}");
        }
    };
    resume_everywhere(&database, &feed, &all);
    drop(subscriber);
    feed.stop();
    drop((feed, database));
    let database = open(directory.path(), 1 << 30);
    let feed = Feed::new(database.clone(), Options::default(), write);
    put(&database, "after", 60);
    let all = [all, vec![told("after", 60)]].concat();
    resume_everywhere(&database, &feed, &all);
}

/// As for a reader of the record: removed attributes are not shown, new ones are null.
#[test]
fn events_have_the_attributes_of_the_schema_as_it_is() {
    let (directory, database, feed) = fresh(Options::default());
    let before = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned().id.unwrap();
    put(&database, "a", 1);
    feed.stop();
    drop((feed, database));
    let sdl = SDL.replace("number: Int @indexed, filler: String @unique", "filler: String, added: Int");
    let database = open_under(&sdl, directory.path(), 1 << 30);
    let feed = Feed::new(database.clone(), Options::default(), write);
    let mut resumed = Subscriber::new(feed.resume(items(&database), before).unwrap());
    assert_eq!(resumed.take(1), [r#"put {"id":"a","filler":null,"added":null}"#]);
}

#[test]
fn what_is_not_kept_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path(), 0);
    let feed = Feed::new(database.clone(), Options::default(), write);
    let mut subscriber = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    put(&database, "a", 0);
    subscriber.take(1);
    let id = subscriber.id.unwrap();
    drop(subscriber);
    let mut behind = far_behind(&database, &feed, id);
    for number in 0..3 {
        put(&database, "a", number);
        database.store().flush().unwrap();
    }
    assert!(matches!(feed.resume(items(&database), id), Err(Error::Gone { .. })));
    behind.take(usize::MAX);
    let (told, last) = (behind.told.len(), behind.texts().pop());
    assert!(
        last == Some("lagged") && told > 100,
        "and so it is told while it catches up, behind what it had read: {told}"
    );
    assert_eq!((behind.told[told - 1].0, feed.counters().lagged), (behind.told[told - 2].0, 1));
    let later = EventId::of(LogPosition { sequence: 1 << 40, ..id.position() });
    assert!(matches!(feed.resume(items(&database), later), Err(Error::Gone { .. })));
}

/// A subscriber that is more than one piece behind and does not read.
fn far_behind(database: &Database, feed: &Feed, after: EventId) -> Subscriber {
    for number in 0..2000 {
        put(database, "a", number);
    }
    let mut behind = Subscriber::new(feed.resume(items(database), after).unwrap());
    behind.step();
    assert!(matches!(behind.subscription.next(|| {}), Next::Behind));
    behind
}

#[test]
fn changes_that_wait_are_taken_together() {
    let (_directory, database, feed) = fresh(Options::default());
    let [mut live, mut waiting] =
        [(); 2].map(|()| Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned());
    let all: Vec<_> = (0..=1000).map(|number| told("a", number)).collect();
    (0..=1000).for_each(|number| put(&database, "a", number));
    assert_eq!(live.take(1001), all);
    // The last one came to the first of them, so all before it have come to both.
    let mut texts = 0;
    while waiting.told.len() < 1000 {
        waiting.step();
        texts += 1;
    }
    assert_eq!(waiting.take(1001), all);
    let bytes: usize = all.iter().map(String::len).sum();
    assert!(bytes > 40_000 && texts < 20, "{texts} texts of {bytes} bytes");
}

#[test]
fn who_does_not_read_lags_and_resumes() {
    let (_directory, database, feed) = fresh(Options { queued_bytes: 64 << 10, ..Options::default() });
    let mut slow = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    let mut fast = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    let all: Vec<_> = (0..1000).map(|number| told("a", number)).collect();
    for number in 0..1000 {
        put(&database, "a", number);
        fast.take(number + 1);
    }
    assert_eq!(fast.texts(), all);
    slow.take(usize::MAX);
    let (last, taken) = (slow.texts().pop(), slow.told.len() - 1);
    assert!(last == Some("lagged") && (1..100).contains(&taken), "a 64th of the bytes: {taken}");
    assert_eq!(slow.texts()[..taken], all[..taken]);
    assert_eq!(slow.told[taken].0, slow.told[taken - 1].0, "it says from where to resume");
    assert_eq!(feed.counters().lagged, 1);
    let mut resumed = Subscriber::new(feed.resume(items(&database), slow.id.unwrap()).unwrap());
    assert_eq!(resumed.take(1000 - taken), all[taken..]);
    drop((slow, fast, resumed));
    assert_eq!(feed.counters().subscribers, 0);
    wait_until(|| feed.counters().queued_bytes == 0);
}

#[test]
fn all_queues_together_have_a_bound() {
    let (_directory, database, feed) = fresh(Options { queued_bytes: 1000, ..Options::default() });
    let table = database.table("Item").unwrap();
    let topics = (0..8).map(|number| Topic::record(table, &format!("{number}")));
    let mut subscribers: Vec<_> =
        topics.map(|topic| Subscriber::new(feed.subscribe(topic).unwrap()).positioned()).collect();
    let filler = "f".repeat(300);
    for number in 0..8 {
        let body = format!("{{\"id\":\"{number}\",\"filler\":\"{filler}{number}\"}}");
        database.create(table, body.as_bytes()).unwrap();
    }
    wait_until(|| feed.counters().lagged == 6);
    assert!(feed.counters().queued_bytes <= 1000);
    let told: Vec<_> = subscribers.iter_mut().map(|subscriber| subscriber.take(1)[0].starts_with("put")).collect();
    assert_eq!(told, [true, true, false, false, false, false, false, false], "there was room for two");
    // A longer event is admitted if nothing else waits.
    drop(subscribers);
    let mut alone = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    let body = format!("{{\"id\":\"long\",\"filler\":\"{}\"}}", "f".repeat(5000));
    database.create(table, body.as_bytes()).unwrap();
    assert!(alone.take(1)[0].starts_with("put"));
}

/// Several writers, and subscribers that disconnect and resume at any moment, some of them far behind.
#[test]
fn nothing_is_lost_or_doubled_under_load() {
    let (_directory, database, feed) = fresh(Options { queued_bytes: 256 << 10, ..Options::default() });
    let (writers, each) = (3, 2000);
    let first = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned().id.unwrap();
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let database = &database;
            scope.spawn(move || {
                for number in 0..each {
                    put(database, &format!("{writer}"), number);
                    if number % 500 == 250 {
                        database.store().flush().unwrap();
                    }
                }
            });
        }
        for reader in 0..4 {
            let (database, feed) = (&database, &feed);
            scope.spawn(move || {
                let (mut told, mut id, mut lives) = (Vec::new(), first, 0);
                while told.len() < writers * each {
                    let mut subscriber = Subscriber::new(feed.resume(items(database), id).unwrap());
                    // One of them reads to its end, the others a part that differs each time.
                    lives += 1;
                    let most = if reader == 0 { usize::MAX } else { 1 + (lives * reader * 197) % 700 };
                    subscriber.take(most.min(writers * each - told.len()));
                    told.extend(subscriber.told.iter().filter(|(_, text)| text != "lagged").cloned());
                    id = told.last().map_or(id, |(id, _)| *id);
                }
                for writer in 0..writers {
                    let of_writer = format!("put {{\"id\":\"{writer}\"");
                    let texts = told.iter().map(|(_, text)| text).filter(|text| text.starts_with(&of_writer));
                    assert!(texts.eq(
                        &(0..each).map(|number| super::tests::told(&format!("{writer}"), number)).collect::<Vec<_>>()
                    ));
                }
                assert_eq!(told.len(), writers * each);
            });
        }
    });
}

#[test]
fn who_is_behind_the_reader_does_not_join_it() {
    let (_directory, database, feed) = fresh(Options::default());
    let mut live = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    put(&database, "a", 0);
    put(&database, "a", 1);
    live.take(2);
    let join = |id: EventId| {
        let queue = Queue::new(&feed.0.shared, items(&database), None);
        let joined = feed.0.shared.join(&database, &queue, Some(id.position())).unwrap();
        feed.0.shared.leave(&queue);
        joined
    };
    assert_eq!((join(live.told[0].0), join(live.told[1].0)), (false, true));
}

#[test]
fn a_long_batch_is_read_in_pieces() {
    let (_directory, database, feed) = fresh(Options::default());
    let table = database.table("Item").unwrap();
    let mut subscriber = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    let before = subscriber.id.unwrap();
    let body = |number| format!("{{\"id\":\"{number}\",\"filler\":\"{number}{}\"}}", "f".repeat(400));
    let bodies: Vec<_> = (0..3000).map(body).collect();
    database.create_all(table, format!("[{}]", bodies.join(",")).as_bytes()).unwrap();
    assert_eq!(subscriber.take(3000).len(), 3000, "more than its share, but nobody could have been faster");
    let mut resumed = feed.resume(items(&database), before).unwrap();
    let mut longest = 0;
    let mut records = 0;
    while records < 3000 {
        match resumed.next(|| {}) {
            Next::Text(text) => {
                longest = longest.max(text.len());
                records += text.windows(5).filter(|window| window == b" put ").count();
            }
            Next::Behind => resumed.catch_up(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(records, 3000);
    assert!((64 << 10..256 << 10).contains(&longest), "{longest}");
}

#[test]
fn over_the_limit_nobody_is_let_in() {
    let (_directory, database, feed) = fresh(Options { subscribers: 1, ..Options::default() });
    let first = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    let id = first.id.unwrap();
    assert!(matches!(feed.subscribe(items(&database)), Err(Error::Busy { .. })));
    assert!(matches!(feed.resume(items(&database), id), Err(Error::Busy { .. })));
    drop(first);
    assert!(feed.subscribe(items(&database)).is_ok());
}

#[test]
fn who_is_told_nothing_learns_how_far_the_log_was_read() {
    let (_directory, database, feed) = fresh(Options { keep_alive_ms: 10, ..Options::default() });
    let mut idle = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    database.create(database.table("Other").unwrap(), b"{}").unwrap();
    let latest = database.store().latest_sequence().unwrap();
    while idle.id.unwrap().position().sequence < latest {
        idle.step();
    }
    assert!(idle.told.is_empty());
    put(&database, "a", 0);
    let mut resumed = Subscriber::new(feed.resume(items(&database), idle.id.unwrap()).unwrap());
    assert_eq!(resumed.take(1), [told("a", 0)]);
}

#[test]
fn a_feed_need_not_say_where_it_is() {
    let (_directory, database, feed) = fresh(Options { keep_alive_ms: u64::MAX, ..Options::default() });
    let mut subscriber = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    put(&database, "a", 0);
    assert_eq!(subscriber.take(1), [told("a", 0)]);
}

#[test]
fn a_stop_ends_all_and_the_reader_ends_without_subscribers() {
    let (_directory, database, feed) = fresh(Options::default());
    let is_idle = || matches!(feed.0.shared.hub().tail, Tail::Idle);
    assert!(is_idle());
    let subscriber = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    assert!(!is_idle());
    drop(subscriber);
    wait_until(is_idle);
    let mut live = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    put(&database, "a", 0);
    live.take(1);
    let mut behind = far_behind(&database, &feed, live.id.unwrap());
    live.take(2001);
    feed.stop();
    assert_eq!((live.take(usize::MAX).len(), live.is_over), (2001, true));
    assert!(behind.take(usize::MAX).len() < 2000 && behind.is_over);
    assert!(is_idle());
    for outcome in [feed.subscribe(items(&database)), feed.resume(items(&database), live.id.unwrap())] {
        assert!(matches!(outcome, Err(Error::Busy { .. })));
    }
}

#[test]
fn it_ends_with_its_last_clone_and_keeps_no_database_open() {
    let (directory, database, feed) = fresh(Options::default());
    let mut live = Subscriber::new(feed.subscribe(items(&database)).unwrap()).positioned();
    drop(feed.clone());
    put(&database, "a", 0);
    live.take(1);
    drop(feed);
    live.take(usize::MAX);
    assert!(live.is_over);
    drop((live, database));
    open(directory.path(), 1 << 30);
}

/// 2026-11-22T00:00:00Z, in microseconds.
const START: i64 = 1_795_305_600_000_000;
const SECOND: i64 = 1_000_000;

/// A store under a clock that a test sets, its feed, and the table with an expiration of 60 s.
fn leasing() -> (TempDir, Database, Feed, Clock) {
    let (directory, database, _) = fresh(Options::default());
    let clock = Clock::standing_at(START);
    let database = database.with_clock(&clock);
    let feed = Feed::new(database.clone(), Options::default(), write);
    (directory, database, feed, clock)
}

fn lease(database: &Database, id: &str) -> Topic {
    Topic::record(database.table("Lease").unwrap(), id)
}

fn register(database: &Database, id: &str) {
    database.replace(database.table("Lease").unwrap(), id, b"{}", &Precondition::None).unwrap();
}

fn is_there(database: &Database, id: &str) -> bool {
    database.read(database.table("Lease").unwrap(), id).unwrap().is_some()
}

#[test]
fn a_held_record_does_not_expire_and_that_is_no_event() {
    let (_directory, database, feed, clock) = leasing();
    register(&database, "a");
    let mut all = Subscriber::new(feed.subscribe(Topic::table(database.table("Lease").unwrap())).unwrap());
    let mut held = Subscriber::new(feed.hold(lease(&database, "a"), None).unwrap());
    let another = feed.hold(lease(&database, "a"), None).unwrap();
    assert_eq!(feed.held(), 1, "a record");
    for round in 1..=5 {
        clock.set(START + round * 21 * SECOND);
        wait_until(|| database.registrations().renewed == round as u64);
    }
    drop(another);
    clock.set(START + 6 * 21 * SECOND);
    wait_until(|| database.registrations().renewed == 6);
    register(&database, "b");
    register(&database, "a");
    assert_eq!(all.take(2), ["put {\"id\":\"b\"}", "put {\"id\":\"a\"}"]);
    assert_eq!(held.take(1), ["put {\"id\":\"a\"}"]);
    let id = held.id.unwrap();
    drop(held);
    assert_eq!(feed.held(), 0);
    clock.set(START + (6 * 21 + 59) * SECOND);
    assert!(is_there(&database, "a"), "it keeps its deadline");
    let held = feed.hold(lease(&database, "a"), Some(id)).unwrap();
    wait_until(|| database.registrations().renewed == 7);
    clock.set(START + (6 * 21 + 61) * SECOND);
    assert!(is_there(&database, "a"), "it came back in time");
    drop(held);
}

#[test]
fn a_held_record_that_is_deleted_is_held_again_once_it_is_written() {
    let (_directory, database, feed, clock) = leasing();
    register(&database, "a");
    let mut held = Subscriber::new(feed.hold(lease(&database, "a"), None).unwrap());
    database.delete(database.table("Lease").unwrap(), "a", &Precondition::None).unwrap();
    assert_eq!(held.take(1), ["delete id=a"]);
    clock.set(START + 100 * SECOND);
    register(&database, "a");
    assert_eq!(held.take(2)[1], "put {\"id\":\"a\"}");
    clock.set(START + 121 * SECOND);
    wait_until(|| database.registrations().renewed == 1);
    clock.set(START + 180 * SECOND);
    assert!(is_there(&database, "a"));
}

#[test]
fn only_a_record_that_is_there_and_expires_can_be_held() {
    let (_directory, database, feed, _) = leasing();
    put(&database, "a", 1);
    let item = Topic::record(database.table("Item").unwrap(), "a");
    let outcome = |topic| feed.hold(topic, None).map(drop).unwrap_err();
    assert!(matches!(outcome(lease(&database, "a")), Error::NotFound { .. }));
    assert!(matches!(outcome(item), Error::Invalid { .. }));
    assert!(matches!(outcome(Topic::table(database.table("Lease").unwrap())), Error::Invalid { .. }));
    assert_eq!((feed.held(), feed.counters().subscribers), (0, 0));
    register(&database, "a");
    let _held = feed.hold(lease(&database, "a"), None).unwrap();
    feed.stop();
    assert!(matches!(outcome(lease(&database, "a")), Error::Busy { .. }));
}

#[test]
fn what_holds_a_record_does_not_keep_the_database_open() {
    let (directory, database, feed, _) = leasing();
    register(&database, "a");
    let held = feed.hold(lease(&database, "a"), None).unwrap();
    drop((feed, database));
    drop(held);
    open(directory.path(), 1 << 30);
}
