//! Streams whose process is killed, or whose power is cut: no acknowledged event is lost or stands twice, offsets have no gap, and what was
//! one request is there as a whole or not at all.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use strata::encoding::body::parse_object;
use strata::error::{Error, OffsetFault, Result};
use strata::schema::{Durability, Schema, Stream};
use strata::storage::Options;
use strata::streams::{self, Appended, Event, Start, Streams};
use strata::transaction::{Database, Precondition};

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use super::power::{Syncs, cut};
use super::{DIRECTORY, DURABILITY, ROUND, THREADS, Victim};
use crate::engine::{Random, ids};

const VICTIM: &str = "crash::streams::a_victim_that_appends";
const PARTITIONS: u32 = 3;
const BULK: usize = 20;

/// How many kinds of requests there are.
const KINDS: usize = 5;

struct Opened {
    database: Database,
    streams: Streams,
}

impl Opened {
    /// Small buffers, so that flushes and new logs fall into every round.
    fn at(directory: &Path, durability: &str) -> Self {
        let options = Options { cache_bytes: 4 << 20, write_buffer_bytes: 128 << 10, ..Options::default() };
        let sdl = format!(
            "type Click @stream(partitions: {PARTITIONS}, durability: {durability:?})
             type Item @table(durability: {durability:?}) {{ id: ID @primaryKey n: Int @indexed }}"
        );
        let database = Database::open(directory, Schema::parse(&sdl).expect("valid"), &options).expect("it opens");
        let streams = Streams::open(&database).expect("it opens");
        Self { database, streams }
    }

    fn stream(&self) -> &Stream {
        self.database.schema().stream("Click").expect("it exists")
    }

    /// The events from an offset of a partition, in pages: payloads, which are JSON texts, by offset.
    fn events(&self, partition: u32, mut from: u64) -> (Vec<(u64, String)>, u64) {
        let mut all = Vec::new();
        loop {
            let (mut out, limits) = (b"[".to_vec(), (1000, 1 << 20));
            let read =
                self.streams.read(&self.database, self.stream(), partition, Start::Offset(from), limits, &mut out);
            let page = match read {
                // Trimmed meanwhile.
                Err(Error::Offset { fault: OffsetFault::Trimmed, low, .. }) => {
                    from = low;
                    continue;
                }
                read => read.expect("readable"),
            };
            out.push(b']');
            let records: Vec<serde_json::Value> = serde_json::from_slice(&out).expect("JSON");
            for record in records {
                let payload = record["payload"].as_str().expect("a text").to_owned();
                all.push((record["offset"].as_u64().expect("a number"), payload));
            }
            from = page.next;
            if page.events == 0 {
                return (all, from);
            }
        }
    }

    /// Carries out a request that is named by its thread and number; returns the places of its events.
    fn request(&self, name: &str, number: usize) -> Vec<Appended> {
        self.try_request(name, number).expect("a healthy store")
    }

    fn try_request(&self, name: &str, number: usize) -> Result<Vec<Appended>> {
        let (database, stream) = (&self.database, self.stream());
        let payload = format!("{name:?}");
        let event = |payload| Event { payload, ..Event::default() };
        // In the last partition only single and keyed events stand, and it is trimmed.
        let at = |payload, partition| Event { partition: Some(partition), ..event(payload) };
        Ok(match number % KINDS {
            0 => vec![self.streams.append(database, stream, &event(&payload))?],
            1 => {
                let payloads: Vec<_> = (0..BULK).map(|at| format!("\"{name}/{at}\"")).collect();
                let events: Vec<_> = (0..).zip(&payloads).map(|(one, payload)| at(payload, one % 2)).collect();
                self.streams.append_all(database, stream, &events)?
            }
            2 => {
                let (first, again) = (self.keyed(name)?, self.keyed(name)?);
                assert_eq!((first.partition, first.offset, true), (again.partition, again.offset, again.duplicate));
                vec![first]
            }
            3 => {
                let of = self.streams.watermarks(stream, PARTITIONS - 1)?;
                let before = of.low + (of.high - of.low) / 4;
                self.streams.trim(database, stream, PARTITIONS - 1, before)?;
                Vec::new()
            }
            _ => {
                let table = database.table("Item").expect("it exists");
                let appended = self.streams.transact(database, |transaction, appends| {
                    let body = format!(r#"{{"id":{payload},"n":{number}}}"#);
                    transaction.create(parse_object(table, body.as_bytes())?)?;
                    let appended = appends.append(transaction, stream, &at(&payload, 1))?;
                    let offsets = [(appended.partition, self.streams.watermarks(stream, appended.partition)?.high)];
                    appends.commit(transaction, stream, "mail", &offsets, &Precondition::None)?;
                    Ok(appended)
                });
                vec![appended?]
            }
        })
    }

    fn keyed(&self, name: &str) -> Result<Appended> {
        let event = Event { payload: &format!("{name:?}"), idempotency_key: Some(name.into()), ..Event::default() };
        self.streams.append(&self.database, self.stream(), &event)
    }
}

/// Appends, and another thread reads at the ends, until it is killed. Each line is written after the call has returned.
#[test]
fn a_victim_that_appends() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let variable = |name| env::var(name).expect("the parent set all of them");
    let (durability, round) = (variable(DURABILITY), variable(ROUND));
    let opened = Opened::at(directory.as_ref(), &durability);
    let say = |name: &str, places: &str| {
        writeln!(std::io::stdout().lock(), "\nacknowledged {name} {places}").expect("the parent listens");
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (round, opened) = (&round, &opened);
            scope.spawn(move || {
                for number in 0.. {
                    let name = format!("{round}-{thread}-{number}");
                    let places = opened.request(&name, number);
                    let places: Vec<_> =
                        places.iter().map(|place| format!("{}:{}", place.partition, place.offset)).collect();
                    if !places.is_empty() {
                        say(&name, &places.join(","));
                    }
                }
            });
        }
        // Nobody may have read what is lost.
        let mut next = [0; PARTITIONS as usize].map(|_: u64| 0);
        for partition in (0..PARTITIONS).cycle() {
            let low = opened.streams.watermarks(opened.stream(), partition).expect("it exists").low;
            let (events, end) = opened.events(partition, low.max(next[partition as usize]));
            next[partition as usize] = end;
            if let Some((offset, payload)) = events.last() {
                say(&format!("read/{payload}"), &format!("{partition}:{offset}"));
            }
        }
    });
}

/// The kind of the request with this name.
fn kind(name: &str) -> Option<usize> {
    let (_, number) = name.rsplit_once('-')?;
    number.parse::<usize>().ok().map(|number| number % KINDS)
}

/// What is wrong with a store, whose victims have acknowledged so much.
fn wrong(opened: &Opened, acknowledged: &HashMap<String, String>) -> Vec<String> {
    let mut wrong = streams::disagreements(&opened.database).expect("readable");
    wrong.extend(opened.database.disagreements().expect("readable"));
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let low = |partition| opened.streams.watermarks(opened.stream(), partition).expect("it exists").low;
    for partition in 0..PARTITIONS {
        let (events, _) = opened.events(partition, low(partition));
        for (expected, (offset, payload)) in (low(partition)..).zip(events) {
            if offset != expected {
                wrong.push(format!("partition {partition}: {offset} stands where {expected} should"));
            }
            if let Some(before) = places.insert(payload.clone(), format!("{partition}:{offset}")) {
                wrong.push(format!("{payload} stands at {before} and at {partition}:{offset}"));
            }
        }
    }
    for (name, claimed) in acknowledged {
        let payloads: Vec<_> = match (name.strip_prefix("read/"), claimed.split(',').count()) {
            (Some(payload), _) => vec![payload.to_owned()],
            (None, 1) => vec![name.clone()],
            (None, several) => (0..several).map(|at| format!("{name}/{at}")).collect(),
        };
        let stand: Vec<_> =
            payloads.iter().map(|payload| places.get(payload).map_or("nowhere", String::as_str)).collect();
        let is_trimmed = |place: &str| {
            let (partition, offset) = place.split_once(':').expect("a place");
            offset.parse::<u64>().expect("a number") < low(partition.parse().expect("a number"))
        };
        if stand.join(",") != *claimed && !(payloads.len() == 1 && is_trimmed(claimed)) {
            wrong.push(format!("{name} was acknowledged at {claimed}, and stands at {}", stand.join(",")));
        }
    }
    // Requests without an acknowledgement, too.
    let mut of_bulks: BTreeMap<&str, usize> = BTreeMap::new();
    for (bulk, _) in places.keys().filter_map(|payload| payload.split_once('/')) {
        *of_bulks.entry(bulk).or_default() += 1;
    }
    wrong
        .extend(of_bulks.iter().filter(|(_, count)| **count != BULK).map(|(bulk, count)| format!("{count} of {bulk}")));
    let is_batch = |name: &&String| kind(name) == Some(4);
    let events: Vec<_> = places.keys().filter(is_batch).cloned().collect();
    let mut records = ids(&opened.database, "Item");
    records.sort_unstable();
    if events != records {
        wrong.push(format!("{} records, {} events of batches", records.len(), events.len()));
    }
    let group = opened.streams.group(&opened.database, opened.stream(), "mail").expect("readable");
    for (partition, offset) in group.unwrap_or_default().offsets {
        let high = opened.streams.watermarks(opened.stream(), partition).expect("it exists").high;
        if offset > high {
            wrong.push(format!("partition {partition} is committed to {offset}, and ends at {high}"));
        }
    }
    wrong
}

/// Sends keyed requests again, as clients without an answer do; returns the names.
fn again(opened: &Opened, round: usize, acknowledged: &HashMap<String, String>) -> Vec<(String, String)> {
    let of_thread = |thread: usize| {
        let number =
            |name: &String| name.strip_prefix(&format!("{round}-{thread}-")).and_then(|number| number.parse().ok());
        let last: usize = acknowledged.keys().filter_map(number).max().unwrap_or(0);
        // The last that was acknowledged, and the next, which may have been carried out.
        (last.saturating_sub(KINDS)..last + KINDS + 1)
            .filter(|number| number % KINDS == 2)
            .map(move |number| format!("{round}-{thread}-{number}"))
    };
    let sent = (0..THREADS).flat_map(of_thread).map(|name| {
        let place = opened.keyed(&name).expect("a healthy store");
        (name, format!("{}:{}", place.partition, place.offset))
    });
    sent.collect()
}

/// How often a store is killed.
const ROUNDS: usize = 20;

/// Kills writers after at most `most` acknowledgements of a round, which `seed` decides.
fn rounds(durability: Durability, seed: u64, most: usize) {
    let directory = tempfile::tempdir().expect("there is a temporary directory");
    let (mut random, mut all) = (Random(seed), HashMap::new());
    for round in 0..ROUNDS {
        let program = Command::new(env::current_exe().expect("this program has a path"));
        let mut victim = Victim::run(program, VICTIM, directory.path(), durability, round);
        assert!(victim.read(1 + random.below(most)), "the victim ended by itself");
        let acknowledged = victim.kill();
        let opened = Opened::at(directory.path(), durability.name());
        all.extend(acknowledged.clone());
        assert_eq!(wrong(&opened, &all), Vec::<String>::new(), "round {round}");
        all.extend(again(&opened, round, &acknowledged));
        assert_eq!(wrong(&opened, &all), Vec::<String>::new(), "round {round}, sent again");
    }
    println!(
        "kill -9 at {}: {ROUNDS} rounds, {} acknowledged, none missing, halved or doubled",
        durability.name(),
        all.len()
    );
}

#[test]
fn soft_events_survive_kill_9() {
    rounds(Durability::Soft, 0x5EED, 2000);
}

#[test]
fn strong_events_survive_kill_9() {
    rounds(Durability::Strong, 0x5EED, 300);
}

#[test]
#[ignore = "it takes a minute"]
fn events_survive_many_kills() {
    // Each round checks all that its store holds, so that rounds of one store take longer and longer.
    for seed in 1..=5 {
        rounds(Durability::Soft, seed, 2000);
        rounds(Durability::Strong, seed, 300);
    }
}

/// How a disk fails; see disk.cc.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FAULTS: [&str; 2] = ["full", "lying"];

/// Carries out requests of all kinds until it is killed; the disk fails for each seventh.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_victim_on_a_disk_that_fails_at_times() {
    let Some(directory) = env::var_os(DIRECTORY) else {
        return;
    };
    let variable = |name| env::var(name).expect("the parent set all of them");
    let (durability, round) = (variable(DURABILITY), variable(ROUND));
    let disk = variable(super::power::DISK);
    let mut opened = Opened::at(directory.as_ref(), &durability);
    let say = |line: String| writeln!(std::io::stdout().lock(), "\n{line}").expect("the parent listens");
    for number in 0.. {
        let name = format!("{round}-0-{number}");
        let fault = (number % 7 == 6).then(|| FAULTS[number / 7 % FAULTS.len()]);
        let fault = fault.map(|fault| (fault, Path::new(&disk).join(fault)));
        if let Some((_, file)) = &fault {
            fs::write(file, "").expect("the real disk has room");
        }
        let outcome = opened.try_request(&name, number);
        if let Some((_, file)) = &fault {
            fs::remove_file(file).expect("it was made");
        }
        match outcome {
            // A trim may have nothing to write.
            Ok(places) if places.is_empty() => {}
            Ok(places) => {
                assert!(fault.is_none(), "the disk fails");
                let places: Vec<_> =
                    places.iter().map(|place| format!("{}:{}", place.partition, place.offset)).collect();
                say(format!("acknowledged {name} {}", places.join(",")));
            }
            Err(_) => {
                // The engine recovers by itself from a full disk; or the store is opened again. Until then it may refuse what follows, too.
                let is_awaited = number / 14 % 2 == 0;
                let recovers = |_| {
                    std::thread::sleep(Duration::from_millis(5));
                    opened.keyed(&format!("{name}-again")).is_ok()
                };
                let has_recovered = is_awaited && (0..10_000).any(recovers);
                if !has_recovered {
                    drop(opened);
                    opened = Opened::at(directory.as_ref(), &durability);
                }
                let how = if has_recovered { "recovered" } else { "opened again" };
                say(format!("refused {name} {} {how}", fault.map_or("after", |(fault, _)| fault)));
            }
        }
    }
}

/// What stands behind a write that has failed goes on where it would have stood, and of that there is all or nothing.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_write_that_fails_between_others_leaves_neither_a_part_nor_a_gap() {
    for durability in [Durability::Soft, Durability::Strong] {
        let (directory, disk) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let (mut random, mut all) = (Random(0xF011), HashMap::new());
        for round in 0..3 {
            let program = super::power::on_disk(disk.path(), directory.path());
            let test = "crash::streams::a_victim_on_a_disk_that_fails_at_times";
            let mut victim = Victim::run(program, test, directory.path(), durability, round);
            assert!(victim.read(60 + random.below(60)), "the victim ended by itself");
            let refused = victim.refusals.clone();
            for expected in
                FAULTS.iter().flat_map(|fault| [format!("{fault} recovered"), format!("{fault} opened again")])
            {
                assert!(refused.iter().any(|refusal| refusal.ends_with(&expected)), "{expected}: {refused:?}");
            }
            FAULTS.iter().for_each(|fault| drop(fs::remove_file(disk.path().join(fault))));
            all.extend(victim.kill());
            let opened = Opened::at(directory.path(), durability.name());
            assert_eq!(wrong(&opened, &all), Vec::<String>::new(), "{} round {round}", durability.name());
            // Of what the log took half of, nothing is there, not even the key.
            let halved = refused.iter().filter_map(|refusal| refusal.split_once(' '));
            for (name, _) in halved.filter(|(name, how)| how.starts_with(FAULTS[0]) && kind(name) == Some(2)) {
                let sent = opened.keyed(name).expect("a healthy store");
                assert!(!sent.duplicate, "{name} was refused, and stands at {}:{}", sent.partition, sent.offset);
            }
        }
    }
}

/// What was read in a strong stream counts as acknowledged. While the syncs are slow, most of what is published before them is read too.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn strong_events_survive_a_power_cut() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    let (mut random, mut all, mut read) = (Random(0xCAFE), HashMap::new(), 0);
    for round in 0..10 {
        let cut = cut(VICTIM, data.path(), Durability::Strong, round, 1 + random.below(100), Syncs::Slow);
        let opened = Opened::at(data.path(), "strong");
        read += cut.acknowledged.keys().filter(|name| name.starts_with("read/")).count();
        all.extend(cut.acknowledged.clone());
        assert_eq!(wrong(&opened, &all), Vec::<String>::new(), "round {round}");
        all.extend(again(&opened, round, &cut.acknowledged));
        opened.database.store().sync().expect("a healthy disk");
    }
    assert!(read > 0);
}

/// A test that finds nothing without the syncs would prove nothing with them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn events_that_are_not_synced_are_missed() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    let cut = cut(VICTIM, data.path(), Durability::Strong, 0, 100, Syncs::Ignored);
    assert!(!wrong(&Opened::at(data.path(), "strong"), &cut.acknowledged).is_empty());
}

/// Of soft streams each partition may lose its end; the lost offsets are given again.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn of_soft_events_a_power_cut_leaves_the_beginning() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    let (mut random, mut lost) = (Random(0xD15C), 0);
    for round in 0..6 {
        let cut = cut(VICTIM, data.path(), Durability::Soft, round, 1 + random.below(2000), Syncs::Kept);
        let opened = Opened::at(data.path(), "soft");
        // Nothing else is wrong.
        assert_eq!(wrong(&opened, &HashMap::new()), Vec::<String>::new(), "round {round}");
        let missing = wrong(&opened, &cut.acknowledged);
        assert!(missing.iter().all(|line| line.contains("nowhere")), "{missing:?}");
        lost += missing.len();
    }
    assert!(lost > 0, "the disk forgets");
}
