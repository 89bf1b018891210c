//! A message reaches who is meant, once each, in the order of the commits, and its receipt adds up.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::feed::{self, EventId, Message, Next, Subscription, Topic};
use crate::query::Limits;
use crate::schema::Schema;
use crate::storage;
use crate::transaction::Clock;

const SDL: &str = r#"
type Device @table @multicast @export { id: ID! @primaryKey, room: Int @indexed }
type Door @table(expiration: 60) @multicast @export { id: ID! @primaryKey }
type Plain @table @export { id: ID! @primaryKey }
"#;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A line for each message to a subscriber.
fn write(id: EventId, message: &Message<'_>, out: &mut Vec<u8>) {
    let text = match message {
        Message::Put { json, .. } => format!("put {}", String::from_utf8_lossy(json)),
        Message::Delete { id, .. } => format!("delete {id}"),
        Message::Truncate => "truncate".to_owned(),
        Message::Multicast { id, body } => format!("{id} {}", String::from_utf8_lossy(body)),
        Message::Progress => "progress".to_owned(),
        Message::Lagged => "lagged".to_owned(),
    };
    out.extend_from_slice(format!("{id} {text}\n").as_bytes());
}

fn open(directory: &Path) -> Database {
    let options = storage::Options { cache_bytes: 8 << 20, feed_log_bytes: 1 << 30, ..storage::Options::default() };
    Database::open(directory, Schema::parse(SDL).unwrap(), &options).unwrap()
}

struct World {
    directory: TempDir,
    database: Database,
    multicast: Multicast,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = open(directory.path());
        let multicast = multicast(&database, feed::Options::default());
        Self { directory, database, multicast }
    }

    fn table(&self, name: &str) -> &Table {
        self.database.table(name).unwrap()
    }

    fn put(&self, id: &str, room: i64) {
        let body = format!("{{\"room\":{room}}}");
        self.database.replace(self.table("Device"), id, body.as_bytes(), &Precondition::None).unwrap();
    }

    fn send(&self, table: &str, conditions: &str, body: &str, key: Option<&str>) -> Result<Outcome> {
        let (table, schema) = (self.table(table), self.database.schema());
        let conditions = Query::parse(schema, table, conditions, &Limits::in_url(100)).unwrap();
        self.multicast.send(&self.database, Asked { table, conditions, body: body.as_bytes(), key }, 100)
    }

    /// Sends to devices and waits until nobody is left who could take it; returns the id and the states of the targets.
    fn told(&self, conditions: &str, body: &str) -> (String, BTreeMap<String, Standing>) {
        let Outcome::Sent(mut sending) = self.send("Device", conditions, body, None).unwrap() else {
            panic!("it is no repeat")
        };
        wait_for(&sending);
        let standings = sending.standings().map(|(id, standing)| (id.to_owned(), standing)).collect();
        (sending.id().to_owned(), standings)
    }

    /// Waits until subscribers have taken so many events.
    fn wait_for_events(&self, events: u64) {
        let begun = std::time::Instant::now();
        while self.multicast.feed().counters().events < events {
            assert!(begun.elapsed() < TIMEOUT);
            std::thread::yield_now();
        }
    }

    fn subscribe(&self, id: &str) -> Subscriber {
        Subscriber::new(self.multicast.feed().subscribe(Topic::record(self.table("Device"), id)).unwrap())
    }

    fn resume(&self, id: &str, after: EventId) -> Subscriber {
        Subscriber::new(self.multicast.feed().resume(Topic::record(self.table("Device"), id), after).unwrap())
    }
}

fn multicast(database: &Database, options: feed::Options) -> Multicast {
    Multicast::new(Feed::new(database.clone(), options, write), Options::default())
}

fn wait_for(sending: &Sending) {
    let (done, waiting) = mpsc::channel();
    sending.when_done(move || done.send(()).unwrap_or_default());
    waiting.recv_timeout(TIMEOUT).expect("everybody has taken it");
}

/// A subscriber with a thread of its own, which takes whatever comes until it is told to stop once it has so many texts.
struct Subscriber {
    stop: mpsc::Sender<usize>,
    thread: std::thread::JoinHandle<Heard>,
}

/// What a subscriber has received.
#[derive(Default)]
struct Heard {
    /// Without progress.
    texts: Vec<String>,
    /// The id to resume from.
    id: Option<EventId>,
}

impl Subscriber {
    fn new(mut subscription: Subscription) -> Self {
        let (stop, stopping) = mpsc::channel::<usize>();
        let (ready, begun) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let (mut heard, mut enough) = (Heard::default(), None);
            loop {
                let (wake, woken) = mpsc::channel();
                match subscription.next(move || wake.send(()).unwrap_or_default()) {
                    Next::Text(text) => heard.hear(&text),
                    Next::Behind => subscription.catch_up(),
                    Next::Over => return heard,
                    Next::Broken(why) => panic!("{why}"),
                    // It stops with an empty queue.
                    Next::Pending => {
                        if heard.id.is_some() {
                            let _ = ready.send(());
                        }
                        while woken.try_recv().is_err() {
                            enough = enough.or_else(|| stopping.try_recv().ok());
                            if enough.is_some_and(|texts| heard.texts.len() >= texts) {
                                return heard;
                            }
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
            }
        });
        begun.recv_timeout(TIMEOUT).expect("it waits for something");
        Self { stop, thread }
    }

    fn stop(self) -> Heard {
        self.stop_after(0)
    }

    fn stop_after(self, texts: usize) -> Heard {
        self.stop.send(texts).unwrap();
        self.thread.join().unwrap()
    }
}

impl Heard {
    fn hear(&mut self, text: &[u8]) {
        for line in std::str::from_utf8(text).unwrap().lines() {
            let (id, text) = line.split_once(' ').unwrap();
            self.id = Some(id.parse().unwrap());
            if text != "progress" {
                self.texts.push(text.to_owned());
            }
        }
    }
}

fn standings(pairs: &[(&str, Standing)]) -> BTreeMap<String, Standing> {
    pairs.iter().map(|(id, standing)| ((*id).to_owned(), *standing)).collect()
}

#[test]
fn who_matches_is_meant_and_who_listens_has_it() {
    use Standing::{Absent, Delivered};
    let world = World::new();
    for (id, room) in [("a", 1), ("b", 1), ("c", 2), ("d", 1)] {
        world.put(id, room);
    }
    // Of one there are two subscribers, and one is no record.
    let listening = ["a", "a", "b", "c", "x"].map(|id| world.subscribe(id));
    let (first, told) = world.told("room=1", r#" {"text": "hi \u00e9", "n": [1, 2]} "#);
    assert_eq!(told, standings(&[("a", Delivered), ("b", Delivered), ("d", Absent)]));
    let (second, told) = world.told("", "null");
    assert_eq!(told, standings(&[("a", Delivered), ("b", Delivered), ("c", Delivered), ("d", Absent)]));
    let (_, none) = world.told("room=7", "1");
    assert!(none.is_empty());
    let texts: Vec<_> = listening.into_iter().map(|subscriber| subscriber.stop().texts).collect();
    let both = vec![format!("{first} {{\"text\":\"hi \\u00e9\",\"n\":[1,2]}}"), format!("{second} null")];
    assert_eq!(texts, [both.clone(), both.clone(), both.clone(), both[1..].to_vec(), vec![]]);
    let counted = Counters { messages: 3, targets: 7, delivered: 5, absent: 2, ..Counters::default() };
    assert_eq!(world.multicast.counters(), counted);
    let messages = world.database.table(MESSAGES).unwrap();
    Query::default().run(&world.database, messages, |_| panic!("it stands in the log alone")).unwrap();
}

#[test]
fn a_message_comes_among_the_changes_of_its_record() {
    let world = World::new();
    world.put("a", 1);
    let listening = world.subscribe("a");
    world.put("a", 2);
    let (first, _) = world.told("", "1");
    world.put("a", 3);
    world.database.delete(world.table("Device"), "a", &Precondition::None).unwrap();
    let (_, nobody) = world.told("", "2");
    assert!(nobody.is_empty());
    let put = |room: i64| format!("put {{\"id\":\"a\",\"room\":{room}}}");
    assert_eq!(listening.stop_after(4).texts, [put(2), format!("{first} 1"), put(3), "delete a".to_owned()]);
}

#[test]
fn who_was_away_resumes_also_after_a_restart() {
    let world = World::new();
    world.put("a", 1);
    let heard = world.subscribe("a").stop();
    let (first, told) = world.told("", "1");
    assert_eq!(told, standings(&[("a", Standing::Absent)]));
    let other = world.subscribe("other");
    let (second, told) = world.told("", "2");
    assert_eq!(told, standings(&[("a", Standing::Absent)]));
    other.stop();
    let World { directory, database, multicast } = world;
    drop((multicast, database));
    let database = open(directory.path());
    let multicast = self::multicast(&database, feed::Options::default());
    let world = World { directory, database, multicast };
    let (third, _) = world.told("", "3");
    let heard = world.resume("a", heard.id.unwrap()).stop();
    assert_eq!(heard.texts, [format!("{first} 1"), format!("{second} 2"), format!("{third} 3")]);
    let heard = world.resume("a", heard.id.unwrap()).stop();
    assert!(heard.texts.is_empty(), "each once");
}

#[test]
fn who_does_not_take_it_is_pending_and_delays_nobody() {
    let world = World::new();
    ["a", "b"].iter().for_each(|id| world.put(id, 1));
    let stalled = world.multicast.feed().subscribe(Topic::record(world.table("Device"), "a")).unwrap();
    let reading = world.subscribe("b");
    let Outcome::Sent(mut sending) = world.send("Device", "", "1", None).unwrap() else { panic!("it is sent") };
    // It is in both queues, and one has given it away.
    world.wait_for_events(1);
    let told: Vec<_> = sending.standings().map(|(_, standing)| standing).collect();
    assert_eq!(told, [Standing::Pending, Standing::Delivered]);
    drop(sending);
    let Outcome::Sent(sending) = world.send("Device", "", "2", None).unwrap() else { panic!("it is sent") };
    world.wait_for_events(2);
    drop(stalled);
    wait_for(&sending);
    reading.stop();
    drop(sending);
    let counted = Counters { messages: 2, targets: 4, delivered: 2, pending: 2, ..Counters::default() };
    assert_eq!(world.multicast.counters(), counted);
}

#[test]
fn who_lags_is_pending_and_resumes() {
    let mut world = World::new();
    let options = feed::Options { queued_bytes: 64 << 10, ..feed::Options::default() };
    world.multicast = multicast(&world.database, options);
    world.put("a", 1);
    let mut slow = world.multicast.feed().subscribe(Topic::record(world.table("Device"), "a")).unwrap();
    let body = format!("\"{}\"", "x".repeat(900));
    let mut sent = Vec::new();
    let mut sendings = Vec::new();
    for _ in 0..5 {
        let Outcome::Sent(sending) = world.send("Device", "", &body, None).unwrap() else { panic!("it is sent") };
        sent.push(sending.id().to_owned());
        sendings.push(sending);
    }
    // The queue has room for one; whoever lags has no delivery left.
    wait_for(&sendings[4]);
    let mut heard = Heard::default();
    loop {
        let (wake, woken) = mpsc::channel();
        match slow.next(move || wake.send(()).unwrap_or_default()) {
            Next::Text(text) => heard.hear(&text),
            Next::Over => break,
            Next::Pending => woken.recv_timeout(TIMEOUT).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard.texts.pop().as_deref(), Some("lagged"));
    heard.texts.extend(world.resume("a", heard.id.unwrap()).stop().texts);
    assert_eq!(heard.texts, sent.iter().map(|id| format!("{id} {body}")).collect::<Vec<_>>());
}

#[test]
fn a_key_sends_once() {
    let (mut world, clock) = (World::new(), Clock::standing_at(1_795_305_600_000_000));
    world.database = world.database.with_clock(&clock);
    world.put("a", 1);
    let sent = |world: &World, key: &str, conditions: &str, body: &str| match world.send(
        "Device",
        conditions,
        body,
        Some(key),
    ) {
        Ok(Outcome::Sent(sending)) => Ok((sending.id().to_owned(), sending.targets() as u64, false)),
        Ok(Outcome::Repeated { id, targets }) => Ok((id, targets, true)),
        Err(error) => Err(error),
    };
    let (id, ..) = sent(&world, "k", "room=1", r#"{"a": 1}"#).unwrap();
    world.put("b", 1);
    assert_eq!(sent(&world, "k", "room=1", r#"{"a":1}"#).unwrap(), (id.clone(), 1, true), "white space is none");
    for (conditions, body) in [("room=2", r#"{"a":1}"#), ("room=1", r#"{"a":2}"#)] {
        assert!(matches!(sent(&world, "k", conditions, body), Err(Error::Conflict { .. })));
    }
    let (other, targets, repeated) = sent(&world, "l", "room=1", r#"{"a":1}"#).unwrap();
    assert_eq!((targets, repeated, other == id), (2, false, false));
    // Of another table it is another key; without a target it is one, too.
    assert!(matches!(world.send("Door", "", "1", Some("k")).unwrap(), Outcome::Sent(_)));
    assert!(matches!(world.send("Door", "", "1", Some("k")).unwrap(), Outcome::Repeated { targets: 0, .. }));
    let World { directory, database, multicast } = world;
    drop((multicast, database));
    let database = open(directory.path()).with_clock(&clock);
    let multicast = self::multicast(&database, feed::Options::default());
    let world = World { directory, database, multicast };
    assert_eq!(sent(&world, "k", "room=1", r#"{"a":1}"#).unwrap(), (id, 1, true), "a restart forgets none");
    clock.set(clock.now() + 3_600_000_000);
    let (_, targets, repeated) = sent(&world, "k", "room=2", "3").unwrap();
    assert_eq!((targets, repeated), (0, false), "an hour later it is free");
    world.database.catch_up().unwrap();
    assert_eq!(world.multicast.counters().repeated, 1);
}

#[test]
fn of_several_with_one_key_at_once_one_sends() {
    let world = World::new();
    world.put("a", 1);
    let listening = world.subscribe("a");
    let ids: Vec<String> = std::thread::scope(|scope| {
        let send = || match world.send("Device", "", "1", Some("k")).unwrap() {
            Outcome::Sent(sending) => sending.id().to_owned(),
            Outcome::Repeated { id, targets: 1 } => id,
            Outcome::Repeated { targets, .. } => panic!("{targets}"),
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let (last, _) = world.told("", "2");
    assert_eq!(listening.stop().texts, [format!("{} 1", ids[0]), format!("{last} 2")]);
    assert_eq!((world.multicast.counters().messages, world.multicast.counters().repeated), (2, 7));
}

#[test]
fn what_is_refused_sends_nothing() {
    let world = World::new();
    (0..101).for_each(|number| world.put(&format!("{number:03}"), number));
    let listening = world.subscribe("000");
    for (table, conditions, body) in [
        ("Device", "", "1"),
        ("Device", "room=0", ""),
        ("Device", "room=0", "{"),
        ("Device", "room=0", r#"{"a":1,"a":2}"#),
        ("Plain", "", "1"),
    ] {
        let outcome = world.send(table, conditions, body, Some("k"));
        let refused = matches!(outcome, Err(Error::Invalid { .. })) || (table == "Plain" && outcome.is_ok());
        assert!(refused, "{table} {conditions} {body}");
    }
    let Outcome::Sent(sending) = world.send("Device", "room=lt=100", "1", Some("k")).unwrap() else {
        panic!("the key is free")
    };
    assert_eq!(sending.targets(), 100);
    wait_for(&sending);
    assert_eq!(listening.stop().texts, [format!("{} 1", sending.id())]);
}

#[test]
fn ids_may_have_any_characters() {
    let world = World::new();
    let ids = [",", "a,", ",b", "\"", "\\", "a\",\"b", "[", "]", "\u{e9}\n", "a", "b", " "];
    ids.iter().for_each(|id| world.put(id, 1));
    let begin = world.subscribe("nobody").stop().id.unwrap();
    for id in ids {
        let only = format!("id==={}", percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC));
        let (message, told) = world.told(&only, "1");
        assert_eq!(told, standings(&[(id, Standing::Absent)]));
        for other in ids {
            let heard = world.resume(other, begin).stop();
            let has_it = heard.texts.iter().any(|text| text.starts_with(&message));
            assert_eq!(has_it, other == id, "{other:?} of {id:?}");
        }
    }
    let (message, told) = world.told("", "2");
    assert_eq!(told.len(), ids.len());
    for id in ids {
        assert_eq!(world.resume(id, begin).stop().texts.last(), Some(&format!("{message} 2")));
    }
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Put(u8, i64),
    Delete(u8),
    Send(i64),
    Listen(u8),
    /// The subscriber goes away; later steps let it resume.
    Leave(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let record = 0..4u8;
    let step = prop_oneof![
        (record.clone(), 0..2i64).prop_map(|(record, room)| Step::Put(record, room)),
        record.clone().prop_map(Step::Delete),
        (0..2i64).prop_map(Step::Send),
        (0..2i64).prop_map(Step::Send),
        record.clone().prop_map(Step::Listen),
        record.prop_map(Step::Leave),
    ];
    vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_subscriber_gets_what_is_meant_for_it_once_in_order(steps in steps()) {
        let world = World::new();
        let begin = world.subscribe("nobody").stop().id.unwrap();
        // What a record was sent since its first subscriber began.
        let mut meant: HashMap<u8, Vec<String>> = HashMap::new();
        let (mut rooms, mut listening, mut heard) = (BTreeMap::new(), HashMap::new(), HashMap::<u8, Heard>::new());
        let leave = |record: u8, subscriber: Subscriber, heard: &mut HashMap<u8, Heard>| {
            let Heard { texts, id } = subscriber.stop();
            let all = heard.entry(record).or_default();
            all.texts.extend(texts);
            all.id = id.or(all.id);
        };
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(record, room) => {
                    world.put(&record.to_string(), room);
                    rooms.insert(record, room);
                    let text = format!("put {{\"id\":\"{record}\",\"room\":{room}}}");
                    meant.entry(record).or_default().push(text);
                }
                Step::Delete(record) => {
                    let deleted = world.database.delete(world.table("Device"), &record.to_string(), &Precondition::None);
                    if rooms.remove(&record).is_some() {
                        deleted.unwrap();
                        meant.entry(record).or_default().push(format!("delete {record}"));
                    }
                }
                Step::Send(room) => {
                    let (id, told) = world.told(&format!("room={room}"), &number.to_string());
                    let targets: Vec<_> = rooms.iter().filter(|(_, of)| **of == room).map(|(record, _)| *record).collect();
                    let expected: BTreeMap<_, _> = targets.iter().map(|record| {
                        let standing = if listening.contains_key(record) { Standing::Delivered } else { Standing::Absent };
                        (record.to_string(), standing)
                    }).collect();
                    prop_assert_eq!(told, expected);
                    targets.iter().for_each(|record| meant.entry(*record).or_default().push(format!("{id} {number}")));
                }
                Step::Listen(record) if !listening.contains_key(&record) => {
                    let after = heard.get(&record).and_then(|heard| heard.id).unwrap_or(begin);
                    listening.insert(record, world.resume(&record.to_string(), after));
                }
                Step::Leave(record) => {
                    if let Some(subscriber) = listening.remove(&record) {
                        leave(record, subscriber, &mut heard);
                    }
                }
                Step::Listen(_) => {}
            }
        }
        listening.drain().for_each(|(record, subscriber)| leave(record, subscriber, &mut heard));
        for record in 0..4u8 {
            let after = heard.get(&record).and_then(|heard| heard.id).unwrap_or(begin);
            leave(record, world.resume(&record.to_string(), after), &mut heard);
            prop_assert_eq!(&heard[&record].texts, &meant.remove(&record).unwrap_or_default());
        }
    }
}

/// Two senders, and a record that comes and goes: each message is for whoever its receipt names, in one order for all.
#[test]
fn senders_and_deletes_race() {
    const MESSAGES: usize = 150;
    let world = World::new();
    ["a", "b"].iter().for_each(|id| world.put(id, 1));
    let listening = ["a", "b"].map(|id| world.subscribe(id));
    let done = std::sync::atomic::AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let deleting = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                world.database.delete(world.table("Device"), "b", &Precondition::None).unwrap();
                world.put("b", 1);
            }
        });
        let senders = [0, 1].map(|sender| {
            let world = &world;
            scope.spawn(move || {
                let told = (0..MESSAGES).map(|number| world.told("room=1", &format!("\"{sender}-{number}\"")));
                told.collect::<Vec<_>>()
            })
        });
        let sent = senders.map(|sender| sender.join().unwrap());
        done.store(true, Ordering::Relaxed);
        deleting.join().unwrap();
        sent
    });
    let told: HashMap<String, BTreeMap<String, Standing>> = sent.iter().flatten().cloned().collect();
    let [a, b] = listening.map(|subscriber| {
        let is_message = |text: &String| !text.starts_with("put ") && !text.starts_with("delete ");
        subscriber.stop().texts.into_iter().filter(is_message).collect::<Vec<_>>()
    });
    let id = |text: &String| text.split(' ').next().unwrap().to_owned();
    for sender in 0..2 {
        let expected: Vec<_> = (0..MESSAGES).map(|number| format!("\"{sender}-{number}\"")).collect();
        let of_sender = a.iter().map(|text| text.split_once(' ').unwrap().1);
        let of_sender: Vec<_> = of_sender.filter(|body| body.starts_with(&format!("\"{sender}-"))).collect();
        assert_eq!(of_sender, expected, "each once, in the order of the answers");
    }
    let for_b = |text: &&String| told[&id(text)].contains_key("b");
    let meant: Vec<_> = a.iter().filter(for_b).cloned().collect();
    assert_eq!(b, meant, "who is named has it, once, in the same order");
    // Whoever listens has it when its sender is told: neither was cut off.
    assert!(told.values().flatten().all(|(_, standing)| *standing == Standing::Delivered));
}
