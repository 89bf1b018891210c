//! Random requests of three servers over few keys, and what must hold whatever goes wrong.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use strata::blobs::{self, Reader, Upload};
use strata::encoding::body::parse_object;
use strata::encoding::{Record, Value};
use strata::error::{Error, Result};
use strata::query::{Limits, Query};
use strata::schema::{Schema, Table};
use strata::storage::{Faults, Simulation};
use strata::transaction::{Database, Precondition, Transaction};

use super::Over;
use super::history::{During, History, Read, Write};
use super::turns::Turns;
use crate::engine::{Random, change};

const SDL: &str = r#"
type Item @table {
  id: ID @primaryKey
  tag: Int @indexed
  mail: String @unique
  group: String @indexed(type: "hash")
}
type Account @table { id: ID @primaryKey  balance: Int @indexed }
type Guard @table { id: ID @primaryKey  left: Int }
type Bulk @table { id: ID @primaryKey  code: Int @unique  words: [String] @indexed  lease: Int @indexed }
type Doc @table { id: ID @primaryKey  file: Blob }
"#;

const SERVERS: usize = 3;
const MOST_SERVERS: i64 = 100;
const ITEMS: usize = 6;
const ACCOUNTS: usize = 5;
const BULK: usize = 12;
const DOCS: usize = 2;

/// Two records of which a request reads both and changes one.
const GUARDS: [&str; 2] = ["x", "y"];

/// What all accounts have together.
const MONEY: i64 = 1000;

/// How the requests of a round ended.
#[derive(Default)]
pub struct Counts {
    pub acknowledged: u64,
    pub refused: u64,
    pub busy: u64,
    pub unknown: u64,
    pub raced: u64,
    pub lost: u64,
    pub turns: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.busy += other.busy;
        self.unknown += other.unknown;
        self.raced += other.raced;
        self.lost += other.lost;
        self.turns += other.turns;
    }

    fn count<T>(&mut self, outcome: &Result<T>) {
        *match outcome {
            Ok(_) => &mut self.acknowledged,
            Err(Error::Busy { .. }) => &mut self.busy,
            Err(Error::Unknown { .. }) => &mut self.unknown,
            Err(_) => &mut self.refused,
        } += 1;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, refused, busy, unknown, raced, lost, turns } = self;
        write!(
            f,
            "{acknowledged} requests acknowledged, {refused} refused, {busy} busy, {unknown} of unknown outcome; {raced} commits raced, {lost} \
             answers lost and settled; {turns} turns"
        )
    }
}

/// Runs so many requests from a seed on a simulated database; returns what was wrong.
pub fn round(seed: u64, requests: u64, faults: Faults) -> (Counts, Vec<String>) {
    let simulation = Simulation::new(seed);
    let open = |number: usize| Database::open_simulated(&simulation, schema(), &number.to_string()).expect("it opens");
    let databases: Vec<_> = (0..SERVERS).map(open).collect();
    prepare(&databases[0]);
    let turns = Arc::new(Turns::of(SERVERS, seed));
    let passing = Arc::clone(&turns);
    simulation.before_requests(Some(Arc::new(move || passing.pass())));
    simulation.set_faults(faults);
    let told = ask(&databases, seed, &|answered| answered >= requests / SERVERS as u64, Some(&turns));
    simulation.before_requests(None);
    simulation.set_faults(Faults::default());
    let (mut counts, wrong) = check(&databases, told);
    counts.raced = simulation.seen().raced.load(Relaxed);
    counts.lost = simulation.seen().lost.load(Relaxed);
    counts.turns = turns.now();
    (counts, wrong)
}

/// The schema of the databases.
pub fn schema() -> Schema {
    Schema::parse(SDL).expect("valid")
}

/// Creates what all requests find.
pub fn prepare(database: &Database) {
    let accounts = database.table("Account").expect("it exists");
    for number in 0..ACCOUNTS {
        let body = format!(r#"{{"id": "a{number}", "balance": {}}}"#, MONEY / ACCOUNTS as i64);
        database.create(accounts, body.as_bytes()).expect("it is new");
    }
    let guards = database.table("Guard").expect("it exists");
    for id in GUARDS {
        database.create(guards, format!(r#"{{"id": "{id}", "left": 10}}"#).as_bytes()).expect("it is new");
    }
}

/// What some servers have said: how requests ended, what they wrote and read, and what cannot be.
pub type Told = (Counts, History, Vec<String>);

/// Has each of some servers, which are given in the order of their numbers, answer requests until it has answered enough: each when it is its
/// turn, or all at the same time.
pub fn ask(databases: &[Database], seed: u64, is_enough: &(dyn Fn(u64) -> bool + Sync), turns: Option<&Turns>) -> Told {
    let begun = Instant::now();
    let shared = Mutex::new((Counts::default(), History::default(), Vec::new()));
    std::thread::scope(|scope| {
        for (number, database) in databases.iter().enumerate() {
            let (turns, shared) = (turns, &shared);
            scope.spawn(move || {
                let _part = turns.map(|turns| turns.begin(number));
                let random =
                    Random((seed * databases.len() as u64 + number as u64 + 1).wrapping_mul(0x2545_F491_4F6C_DD1D) | 1);
                let mut server = Server {
                    number,
                    database,
                    turns,
                    begun,
                    random: RefCell::new(random),
                    tags: Cell::new(0),
                    counts: Counts::default(),
                    history: History::default(),
                    wrong: Vec::new(),
                };
                let mut answered = 0;
                while !is_enough(answered) {
                    server.request();
                    answered += 1;
                }
                let mut shared = shared.lock().expect("no thread panics with it");
                shared.0.add(&server.counts);
                shared.1.writes.append(&mut server.history.writes);
                shared.1.reads.append(&mut server.history.reads);
                shared.2.append(&mut server.wrong);
            });
        }
    });
    shared.into_inner().expect("no thread has panicked")
}

/// Has all of them answer requests while something else happens.
pub fn ask_meanwhile(databases: &[Database], seed: u64, what: impl FnOnce()) -> Told {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(databases, seed, &|answered| answered >= 100 && is_over.load(Relaxed), None));
        let over = Over(&is_over);
        what();
        drop(over);
        asking.join().expect("no thread panics")
    })
}

/// Returns what was wrong with what they said, and with what they left.
pub fn check(databases: &[Database], (counts, history, mut wrong): Told) -> (Counts, Vec<String>) {
    let database = &databases[0];
    let mut last = BTreeMap::new();
    let item = database.table("Item").expect("it exists");
    let listed = Query::default().run(database, item, |record| {
        last.insert(record.id()?.into_owned(), tag_of(&record)?);
        Ok(())
    });
    wrong.extend(listed.err().map(|error| format!("the items cannot be listed: {error}")));
    wrong.extend(history.check(&last));
    for database in databases {
        wrong.extend(database.disagreements().unwrap_or_else(|error| vec![error.to_string()]));
    }
    wrong.extend(blobs::disagreements(database).unwrap_or_else(|error| vec![error.to_string()]));
    (counts, wrong)
}

fn tag_of(record: &Record<'_, &[u8]>) -> Result<i64> {
    match record.value(1)? {
        Value::Int(tag) => Ok(tag),
        other => Err(Error::corrupt(format!("{other:?} is no tag"))),
    }
}

/// One server, with one client.
struct Server<'d> {
    number: usize,
    database: &'d Database,
    turns: Option<&'d Turns>,
    begun: Instant,
    random: RefCell<Random>,
    tags: Cell<i64>,
    counts: Counts,
    history: History,
    wrong: Vec<String>,
}

/// The tags that a write has replaced, and that it has given, by id.
type Steps = Vec<(String, Option<i64>, Option<i64>)>;

impl<'d> Server<'d> {
    fn below(&self, bound: usize) -> usize {
        self.random.borrow_mut().below(bound)
    }

    /// The time: turns, or else nanoseconds.
    fn now(&self) -> u64 {
        self.turns.map_or_else(|| self.begun.elapsed().as_nanos() as u64, Turns::now)
    }

    fn table(&self, name: &str) -> &'d Table {
        self.database.table(name).expect("it exists")
    }

    /// A tag that no other write has.
    fn new_tag(&self) -> i64 {
        self.tags.set(self.tags.get() + 1);
        self.tags.get() * MOST_SERVERS + self.number as i64
    }

    fn item(&self) -> String {
        format!("i{}", self.below(ITEMS))
    }

    /// An item as a body; one in three has no mail, and all share four of them.
    fn body(&self, id: &str, tag: i64) -> String {
        let mail = match self.below(6) {
            number @ 0..4 => format!("\"m{number}\""),
            _ => "null".to_owned(),
        };
        format!(r#"{{"id": "{id}", "tag": {tag}, "mail": {mail}, "group": "g{}"}}"#, self.below(3))
    }

    fn request(&mut self) {
        match self.below(100) {
            0..12 => self.create(),
            12..22 => self.replace(),
            22..34 => self.update(),
            34..42 => self.delete(),
            42..54 => self.change_two(),
            54..62 => self.read(),
            62..67 => self.list(),
            67..72 => self.find(),
            72..80 => self.transfer(),
            80..84 => self.guard(),
            84..87 => self.sum(),
            87..96 => self.bulk(),
            96..98 => self.upload(),
            98 => self.download(),
            _ => self.work(),
        }
    }

    /// Notes a write of items, and how it ended.
    fn wrote(&mut self, begin: u64, outcome: &Result<()>, steps: Steps) {
        let during = During { begin, end: self.now() };
        self.counts.count(outcome);
        let is_known = match outcome {
            Ok(()) => true,
            Err(Error::Unknown { .. }) => false,
            Err(Error::Conflict { .. } | Error::NotFound { .. } | Error::Stale | Error::Busy { .. }) => return,
            Err(other) => return self.wrong.push(format!("a write failed: {other}")),
        };
        let write = |(id, before, after)| Write { id, before, after, during, is_known };
        self.history.writes.extend(steps.into_iter().map(write));
    }

    fn create(&mut self) {
        let (id, tag, begin) = (self.item(), self.new_tag(), self.now());
        let outcome = self.database.create(self.table("Item"), self.body(&id, tag).as_bytes()).map(drop);
        self.wrote(begin, &outcome, vec![(id, None, Some(tag))]);
    }

    fn replace(&mut self) {
        let (id, tag, begin, table) = (self.item(), self.new_tag(), self.now(), self.table("Item"));
        let (before, body) = (Cell::new(None), self.body(&id, tag));
        let outcome = self.database.transact(|transaction| {
            before.set(transaction.read(table, &id)?.map(|record| tag_of(&record.view())).transpose()?);
            transaction.replace(&id, parse_object(table, body.as_bytes())?, &Precondition::None).map(drop)
        });
        self.wrote(begin, &outcome, vec![(id.clone(), before.get(), Some(tag))]);
    }

    fn update(&mut self) {
        let (id, tag, begin, table) = (self.item(), self.new_tag(), self.now(), self.table("Item"));
        let before = Cell::new(None);
        let outcome = self.database.update(table, &id, |record| {
            before.set(Some(tag_of(&record)?));
            Ok(change(table, "tag", Value::Int(tag)))
        });
        self.wrote(begin, &outcome.map(drop), vec![(id.clone(), before.get(), Some(tag))]);
    }

    fn delete(&mut self) {
        let (id, begin, table, before) = (self.item(), self.now(), self.table("Item"), Cell::new(None));
        let outcome = self.database.transact(|transaction| {
            before.set(transaction.read(table, &id)?.map(|record| tag_of(&record.view())).transpose()?);
            transaction.delete(table, &id, &Precondition::None)
        });
        self.wrote(begin, &outcome, vec![(id.clone(), before.get(), None)]);
    }

    /// Changes two items in one transaction; the first may only be read.
    fn change_two(&mut self) {
        let (one, other, tag) = (self.item(), self.item(), self.new_tag());
        let (begin, table, only_reads) = (self.now(), self.table("Item"), self.below(2) == 0);
        let (steps, was) = (RefCell::new(Steps::new()), Cell::new(None));
        let outcome = self.database.transact(|transaction| {
            let mut steps = steps.borrow_mut();
            steps.clear();
            was.set(None);
            let set = |transaction: &mut Transaction<'_>, id: &str, steps: &mut Steps| {
                let before = transaction.read(table, id)?.map(|record| tag_of(&record.view())).transpose()?;
                if before.is_some() {
                    transaction.merge(id, change(table, "tag", Value::Int(tag)), &Precondition::None)?;
                    steps.push((id.to_owned(), before, Some(tag)));
                }
                Ok::<_, Error>(())
            };
            match only_reads {
                true => was.set(Some(transaction.read(table, &one)?.map(|record| tag_of(&record.view())).transpose()?)),
                false => set(transaction, &one, &mut steps)?,
            }
            if one != other { set(transaction, &other, &mut steps) } else { Ok(()) }
        });
        let during = During { begin, end: self.now() };
        if let (Some(tag), Ok(())) = (was.get(), &outcome) {
            self.history.reads.push(Read { id: one, tag, during });
        }
        self.wrote(begin, &outcome, steps.take());
    }

    fn read(&mut self) {
        let (id, begin) = (self.item(), self.now());
        let outcome = self
            .database
            .read(self.table("Item"), &id)
            .and_then(|record| record.map(|record| tag_of(&record.view())).transpose());
        let during = During { begin, end: self.now() };
        self.counts.count(&outcome);
        match outcome {
            Ok(tag) => self.history.reads.push(Read { id, tag, during }),
            Err(Error::Busy { .. }) => {}
            Err(other) => self.wrong.push(format!("a read failed: {other}")),
        }
    }

    /// Lists all items at one snapshot: no two have the same mail.
    fn list(&mut self) {
        let (begin, mut found, mut mails) = (self.now(), BTreeMap::new(), HashSet::new());
        let mut twice = None;
        let outcome = Query::default().run(self.database, self.table("Item"), |record| {
            found.insert(record.id()?.into_owned(), tag_of(&record)?);
            if let Value::Text(mail) = record.value(2)?
                && !mails.insert(mail.clone().into_owned())
            {
                twice = Some(mail.into_owned());
            }
            Ok(())
        });
        let during = During { begin, end: self.now() };
        self.counts.count(&outcome);
        self.wrong.extend(twice.map(|mail| format!("two items have the mail {mail}")));
        match outcome {
            Ok(()) => {
                for number in 0..ITEMS {
                    let id = format!("i{number}");
                    self.history.reads.push(Read { tag: found.get(&id).copied(), id, during });
                }
            }
            Err(Error::Busy { .. }) => {}
            Err(other) => self.wrong.push(format!("a list failed: {other}")),
        }
    }

    /// Finds an item by its mail, in a transaction and by a query.
    fn find(&mut self) {
        let (table, mail) = (self.table("Item"), format!("m{}", self.below(4)));
        let value = Value::Text(mail.as_str().into());
        let outcome = self.database.transact(|transaction| {
            let found = transaction.find(table, 2, &value)?;
            found.map(|record| Ok::<_, Error>(record.value(2)? == value)).transpose()
        });
        self.counts.count(&outcome);
        if let Ok(Some(false)) = outcome {
            self.wrong.push(format!("an item found by {mail} has another mail"));
        }
        let text = format!("mail=={mail}");
        let query = Query::parse(self.database.schema(), table, &text, &Limits::in_body(1000)).expect("valid");
        let mut found = 0;
        let outcome = query.run(self.database, table, |record| {
            found += 1;
            match record.value(2)? == value {
                true => Ok(()),
                false => Err(Error::corrupt("it has another mail")),
            }
        });
        self.counts.count(&outcome);
        if found > 1 || matches!(outcome, Err(Error::Corrupt { .. })) {
            self.wrong.push(format!("{found} items have the mail {mail}"));
        }
    }

    /// Moves money between accounts.
    fn transfer(&mut self) {
        let (from, to) = (self.below(ACCOUNTS), self.below(ACCOUNTS));
        let (table, amount) = (self.table("Account"), self.below(20) as i64);
        let outcome = self.database.transact(|transaction| {
            let mut add = |number: usize, more: i64| {
                transaction.update(table, &format!("a{number}"), |record| match record.value(1)? {
                    Value::Int(balance) => Ok(change(table, "balance", Value::Int(balance + more))),
                    other => Err(Error::corrupt(format!("{other:?} is no balance"))),
                })
            };
            add(from, -amount)?;
            add(to, amount).map(drop)
        });
        self.counts.count(&outcome);
        self.expect_refusals_only("a transfer", outcome);
    }

    /// Takes from one of two records if both together have enough, and else gives: together they never have less than nothing.
    fn guard(&mut self) {
        let (table, changed, amount) = (self.table("Guard"), GUARDS[self.below(2)], 1 + self.below(15) as i64);
        let below = Cell::new(None);
        let outcome = self.database.transact(|transaction| {
            let mut left =
                |id: &str| match transaction.read(table, id)?.map(|record| record.value(1).map(Value::into_owned)) {
                    Some(Ok(Value::Int(left))) => Ok(left),
                    other => Err(Error::corrupt(format!("{other:?} is not what is left"))),
                };
            let (own, both) = (left(changed)?, left(GUARDS[0])? + left(GUARDS[1])?);
            below.set((both < 0).then_some(both));
            let own = if both >= amount { own - amount } else { own + amount };
            transaction.merge(changed, change(table, "left", Value::Int(own)), &Precondition::None).map(drop)
        });
        self.counts.count(&outcome);
        if let (Ok(()), Some(both)) = (&outcome, below.get()) {
            self.wrong.push(format!("both guards have {both} together"));
        }
        self.expect_refusals_only("a guarded change", outcome);
    }

    /// Adds up all accounts at one snapshot.
    fn sum(&mut self) {
        let (mut sum, mut accounts) = (0, 0);
        let outcome = Query::default().run(self.database, self.table("Account"), |record| {
            accounts += 1;
            if let Value::Int(balance) = record.value(1)? {
                sum += balance;
            }
            Ok(())
        });
        self.counts.count(&outcome);
        if outcome.is_ok() && (sum, accounts) != (MONEY, ACCOUNTS) {
            self.wrong.push(format!("{accounts} accounts have {sum}"));
        }
        self.expect_refusals_only("a sum", outcome);
    }

    /// Verbs on many records, of which only the indexes are checked.
    fn bulk(&mut self) {
        let (database, table) = (self.database, self.table("Bulk"));
        let row = |_| {
            let (id, code) = (self.below(BULK), self.below(2 * BULK));
            let words = format!(r#"["w{}", "w{}"]"#, self.below(4), self.below(4));
            format!(r#"{{"id": "b{id}", "code": {code}, "words": {words}, "lease": {}}}"#, self.below(5))
        };
        let many = 1 + self.below(4);
        let rows = format!("[{}]", (0..many).map(row).collect::<Vec<_>>().join(","));
        let text = format!("lease=={}", self.below(5));
        let query = || Query::parse(database.schema(), table, &text, &Limits::in_body(1000)).expect("valid");
        let outcome = match self.below(9) {
            0..3 => database.create_all(table, rows.as_bytes()).map(drop),
            3..6 => database.replace_all(table, rows.as_bytes()).map(drop),
            6 => query().delete(database, table, 100).map(drop),
            7 => query().update(database, &change(table, "lease", Value::Int(self.below(5) as i64)), 100).map(drop),
            _ => match database.truncate(table) {
                // Not every database can.
                Err(Error::Unsupported { .. }) => Ok(()),
                outcome => outcome,
            },
        };
        self.counts.count(&outcome);
        self.expect_refusals_only("a verb on many records", outcome);
    }

    /// Writes a blob whose bytes are all the same.
    fn upload(&mut self) {
        let (table, id) = (self.table("Doc"), format!("d{}", self.below(DOCS)));
        let (byte, length) = (self.below(256) as u8, if self.below(4) == 0 { 300_000 } else { 1000 });
        let _ = self.database.create(table, format!(r#"{{"id": "{id}"}}"#).as_bytes());
        let outcome =
            Upload::begin(self.database, table, &id, 1, "text/plain", Precondition::None).and_then(|mut upload| {
                let bytes = vec![byte; length];
                let mut left = &bytes[..];
                while !left.is_empty() {
                    let taken = upload.take(left);
                    left = &left[taken..];
                    upload.write()?;
                }
                upload.finish(self.database).map(drop)
            });
        self.counts.count(&outcome);
        self.expect_refusals_only("an upload", outcome);
    }

    /// Reads a blob: nothing of another one is mixed in.
    fn download(&mut self) {
        let (table, id) = (self.table("Doc"), format!("d{}", self.below(DOCS)));
        let outcome = Reader::open(self.database, table, &id, 1).and_then(|reader| {
            let (Some(mut reader), mut all) = (reader, Vec::new()) else { return Ok(()) };
            loop {
                let piece = reader.next(self.database)?;
                if piece.is_empty() {
                    break;
                }
                all.extend(piece);
            }
            match all.len() as u64 == reader.length_bytes() && all.iter().all(|byte| *byte == all[0]) {
                true => Ok(()),
                false => Err(Error::corrupt("a blob of two")),
            }
        });
        self.counts.count(&outcome);
        self.expect_refusals_only("a download", outcome);
    }

    fn work(&mut self) {
        let outcome = self.database.renew_lease().and_then(|()| self.database.work()).map(drop);
        self.counts.count(&outcome);
        self.expect_refusals_only("background work", outcome);
    }

    fn expect_refusals_only(&mut self, what: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) | Err(Error::Conflict { .. } | Error::NotFound { .. } | Error::Stale) => {}
            Err(Error::Invalid { .. } | Error::Busy { .. } | Error::Unknown { .. }) => {}
            Err(other) => self.wrong.push(format!("{what} failed: {other}")),
        }
    }
}
