//! Multicasts whose process is killed, or whose power is cut: whoever is told of one has it once when it resumes, in the order of the
//! commits, and the same for all; a key that was told is known, and one that was not sends once.
//!
//! The victim sends and nobody listens: all that is received is read from the log.

use std::collections::{HashMap, HashSet};
use std::env;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use strata::feed::{self, EventId, Feed, Message, Next, Topic};
use strata::multicast::{self, Asked, Multicast, Outcome};
use strata::query::{Limits, Query};
use strata::schema::{Durability, Schema, Table};
use strata::storage::Options;
use strata::transaction::{Database, Precondition};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use super::power::{Syncs, cut};
use super::{DIRECTORY, DURABILITY, ROUND, THREADS, Victim};
use crate::engine::Random;

const VICTIM: &str = "crash::multicasts::a_victim_that_sends";

/// With this name a victim says where its log begins.
const BEGIN: &str = "begin";

/// These stay; one more comes and goes while messages are sent.
const TARGETS: [&str; 2] = ["a", "b"];

/// Longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(300);

struct Opened {
    database: Database,
    multicast: Multicast,
}

/// Messages as a subscriber has them, id and name, and the event from which it resumes.
type Received = (Vec<(String, String)>, EventId);

/// Writes a line for each message, and one for anything else.
fn write(event: EventId, message: &Message<'_>, out: &mut Vec<u8>) {
    let text = match message {
        Message::Multicast { id, body } => format!("{event} {id} {}\n", String::from_utf8_lossy(body)),
        Message::Lagged => panic!("nothing is missing"),
        _ => format!("{event}\n"),
    };
    out.extend_from_slice(text.as_bytes());
}

impl Opened {
    /// Small buffers, so that flushes and new logs fall into every round.
    fn at(directory: &Path, durability: &str) -> Self {
        let options = Options {
            cache_bytes: 4 << 20,
            write_buffer_bytes: 1 << 20,
            feed_log_bytes: 1 << 30,
            ..Options::default()
        };
        let sdl = format!(
            "type Device @table(expiration: 3600, durability: {durability:?}) @multicast {{
                id: ID @primaryKey room: Int @indexed
            }}"
        );
        let database = Database::open(directory, Schema::parse(&sdl).expect("valid"), &options).expect("it opens");
        let feed = Feed::new(database.clone(), feed::Options::default(), write);
        Self { database, multicast: Multicast::new(feed, multicast::Options::default()) }
    }

    fn table(&self) -> &Table {
        self.database.table("Device").expect("it exists")
    }

    fn register(&self, id: &str) {
        self.database.replace(self.table(), id, br#"{"room":1}"#, &Precondition::None).expect("a healthy store");
    }

    /// Sends a message, whose body and key are its name; returns its id, and the number of its targets.
    fn send(&self, name: &str) -> (String, u64) {
        let (table, limits) = (self.table(), Limits::in_url(100));
        let conditions = Query::parse(self.database.schema(), table, "room==1", &limits).expect("valid");
        let body = format!("{name:?}");
        let asked = Asked { table, conditions, body: body.as_bytes(), key: Some(name) };
        match self.multicast.send(&self.database, asked, 100).expect("a healthy store") {
            Outcome::Sent(sending) => (sending.id().to_owned(), sending.targets() as u64),
            Outcome::Repeated { id, targets } => (id, targets),
        }
    }

    /// Returns the position of the end of the log.
    fn end(&self) -> EventId {
        let mut subscription =
            self.multicast.feed().subscribe(Topic::record(self.table(), "a")).expect("there is room");
        loop {
            let (wake, woken) = mpsc::channel();
            match subscription.next(move || wake.send(()).unwrap_or_default()) {
                Next::Text(text) => return place(std::str::from_utf8(&text).expect("text").trim_end()),
                Next::Pending => woken.recv_timeout(TIMEOUT).expect("a position"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Reads what a subscriber of a record has missed.
    fn resume(&self, id: &str, after: EventId) -> Received {
        let topic = Topic::record(self.table(), id);
        let mut subscription = self.multicast.feed().resume(topic, after).expect("the log is kept");
        let (mut messages, mut last) = (Vec::new(), after);
        loop {
            match subscription.next(|| {}) {
                Next::Text(text) => {
                    for line in std::str::from_utf8(&text).expect("text").lines() {
                        last = place(line);
                        let mut parts = line.splitn(3, ' ').skip(1);
                        if let (Some(id), Some(body)) = (parts.next(), parts.next()) {
                            messages.push((id.to_owned(), body.trim_matches('"').to_owned()));
                        }
                    }
                }
                Next::Behind => subscription.catch_up(),
                // Nobody writes meanwhile.
                Next::Pending => return (messages, last),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn place(line: &str) -> EventId {
    line.split(' ').next().expect("a line has an event").parse().expect("an id of an event")
}

/// Sends until it is killed, while a target comes and goes. Each line is written after the call has returned.
#[test]
fn a_victim_that_sends() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let variable = |name| env::var(name).expect("the parent set all of them");
    let (durability, round) = (variable(DURABILITY), variable(ROUND));
    let opened = Opened::at(directory.as_ref(), &durability);
    let say = |name: &str, told: &str| {
        writeln!(std::io::stdout().lock(), "\nacknowledged {name} {told}").expect("the parent listens");
    };
    // A write, so that the position is one of its own log.
    opened.register("a");
    say(BEGIN, &opened.end().to_string());
    std::thread::scope(|scope| {
        for thread in 1..THREADS {
            let (round, opened) = (&round, &opened);
            scope.spawn(move || {
                for number in 0.. {
                    let name = format!("{round}-{thread}-{number}");
                    let (id, targets) = opened.send(&name);
                    say(&name, &format!("{id}:{targets}"));
                }
            });
        }
        loop {
            opened.register("c");
            opened.database.delete(opened.table(), "c", &Precondition::None).expect("a healthy store");
        }
    });
}

/// The thread and the number of a message.
fn numbered(name: &str) -> (String, usize) {
    let (thread, number) = name.rsplit_once('-').expect("round-thread-number");
    (thread.to_owned(), number.parse().expect("a number"))
}

/// What the subscribers of each target have received over all rounds.
struct Subscribers {
    received: HashMap<&'static str, Received>,
}

impl Subscribers {
    /// Registers the targets in a new store.
    fn begin(directory: &Path, durability: Durability) -> Self {
        let opened = Opened::at(directory, durability.name());
        TARGETS.iter().for_each(|id| opened.register(id));
        opened.database.store().sync().expect("a healthy disk");
        Self::from(opened.end())
    }

    /// Subscribers that have what came before an event.
    fn from(event: EventId) -> Self {
        let of = |id| (id, (Vec::new(), event));
        Self { received: TARGETS.into_iter().chain(["c"]).map(of).collect() }
    }

    /// Subscribers that have what came before a victim began.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn of(acknowledged: &mut HashMap<String, String>) -> Self {
        Self::from(place(&acknowledged.remove(BEGIN).expect("it comes first")))
    }

    /// All of them resume.
    fn resume(&mut self, opened: &Opened) {
        for (id, (messages, last)) in &mut self.received {
            let (more, place) = opened.resume(id, *last);
            messages.extend(more);
            *last = place;
        }
    }

    /// What is wrong with what they have, if so much was acknowledged.
    fn wrong(&self, acknowledged: &HashMap<String, String>) -> Vec<String> {
        let mut wrong = Vec::new();
        let all = &self.received["a"].0;
        if *all != self.received["b"].0 {
            wrong.push("two that are always meant have not the same".to_owned());
        }
        let mut ids = HashMap::new();
        let mut last: HashMap<String, usize> = HashMap::new();
        for (id, name) in all {
            if ids.insert(name.as_str(), id.as_str()).is_some() {
                wrong.push(format!("{name} came twice"));
            }
            let (thread, number) = numbered(name);
            if last.insert(thread, number).is_some_and(|before| before >= number) {
                wrong.push(format!("{name} came after a later one"));
            }
        }
        // Who comes and goes has a part of it, in the same order.
        let of_c = &self.received["c"].0;
        let mut rest = all.iter();
        if !of_c.iter().all(|message| rest.any(|other| other == message)) {
            wrong.push("who is meant at times has another order".to_owned());
        }
        let has_c: HashSet<_> = of_c.iter().map(|(id, _)| id.as_str()).collect();
        for (name, told) in acknowledged {
            let (id, targets) = told.split_once(':').expect("an id and a number");
            if ids.get(name.as_str()) != Some(&id) {
                wrong.push(format!("{name} was acknowledged as {id}, and is {:?}", ids.get(name.as_str())));
            } else if has_c.contains(id) != (targets == "3") {
                wrong.push(format!("{name} had {targets} targets"));
            }
        }
        wrong
    }
}

/// Sends again what was acknowledged last and what may have been carried out, as clients without an answer do.
fn again(opened: &Opened, round: usize, acknowledged: &HashMap<String, String>) -> Vec<(String, String)> {
    let mut sent = Vec::new();
    for thread in 1..THREADS {
        let of_thread =
            acknowledged.keys().map(|name| numbered(name)).filter(|(of, _)| *of == format!("{round}-{thread}"));
        let last = of_thread.map(|(_, number)| number).max();
        for number in last.into_iter().chain([last.map_or(0, |last| last + 1)]) {
            let name = format!("{round}-{thread}-{number}");
            let (id, targets) = opened.send(&name);
            let told = format!("{id}:{targets}");
            if let Some(first) = acknowledged.get(&name) {
                assert_eq!(told, *first, "{name} is known");
            }
            sent.push((name, told));
        }
    }
    sent
}

/// Kills senders after at most `most` acknowledgements of a round.
fn rounds(durability: Durability, rounds: usize, most: usize) {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (mut random, mut all) = (Random(0x5EED), HashMap::new());
    let mut subscribers = Subscribers::begin(directory.path(), durability);
    for round in 0..rounds {
        let program = Command::new(env::current_exe().expect("this program has a path"));
        let mut victim = Victim::run(program, VICTIM, directory.path(), durability, round);
        assert!(victim.read(1 + random.below(most)), "the victim ended by itself");
        let mut acknowledged = victim.kill();
        acknowledged.remove(BEGIN);
        let opened = Opened::at(directory.path(), durability.name());
        subscribers.resume(&opened);
        all.extend(acknowledged.clone());
        assert_eq!(subscribers.wrong(&all), Vec::<String>::new(), "round {round}");
        let unacknowledged = subscribers.received["a"].0.len() - all.len();
        assert!(unacknowledged < THREADS, "each thread sends one at a time: {unacknowledged}");
        all.extend(again(&opened, round, &acknowledged));
        subscribers.resume(&opened);
        assert_eq!(subscribers.wrong(&all), Vec::<String>::new(), "round {round}, sent again");
        assert_eq!(subscribers.received["a"].0.len(), all.len(), "what was not acknowledged has its answer now");
        assert_eq!(opened.database.disagreements().expect("readable"), Vec::<String>::new());
    }
    let name = durability.name();
    println!("kill -9 at {name}: {rounds} rounds, {} messages, none missing or doubled", all.len());
}

#[test]
fn soft_messages_survive_kill_9() {
    rounds(Durability::Soft, 20, 2000);
}

#[test]
fn strong_messages_survive_kill_9() {
    rounds(Durability::Strong, 20, 300);
}

/// The modelled disk forgets logs that are kept for subscribers, so that each round is read from where its victim began.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn strong_messages_survive_a_power_cut() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    Subscribers::begin(data.path(), Durability::Strong);
    let mut random = Random(0xCAFE);
    for round in 0..8 {
        let mut cut = cut(VICTIM, data.path(), Durability::Strong, round, 2 + random.below(200), Syncs::Kept);
        let mut subscribers = Subscribers::of(&mut cut.acknowledged);
        let opened = Opened::at(data.path(), "strong");
        subscribers.resume(&opened);
        assert_eq!(subscribers.wrong(&cut.acknowledged), Vec::<String>::new(), "round {round}");
        cut.acknowledged.extend(again(&opened, round, &cut.acknowledged));
        subscribers.resume(&opened);
        assert_eq!(subscribers.wrong(&cut.acknowledged), Vec::<String>::new(), "round {round}, sent again");
        opened.database.store().sync().expect("a healthy disk");
    }
}

/// A test that finds nothing without the syncs would prove nothing with them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn messages_that_are_not_synced_are_missed() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    Subscribers::begin(data.path(), Durability::Strong);
    let mut cut = cut(VICTIM, data.path(), Durability::Strong, 0, 100, Syncs::Ignored);
    cut.acknowledged.remove(BEGIN);
    let opened = Opened::at(data.path(), "strong");
    let forgotten = cut.acknowledged.iter().filter(|(name, told)| {
        let (id, targets) = opened.send(name);
        format!("{id}:{targets}") != **told
    });
    assert!(forgotten.count() > 0);
}
