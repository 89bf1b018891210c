//! Random appends, bulks, batches, trims, truncations and restarts against a model: a list of events for each partition, and a map of keys.

use std::borrow::Cow;
use std::collections::HashMap;

use strata::error::{Error, OffsetFault};
use strata::streams::{Appended, Event, Start};

use super::{Opened, event};
use crate::engine::Random;

const PARTITIONS: u32 = 3;

const SDL: &str = "type Click @stream(partitions: 3)  type Audit @stream(durability: \"strong\")";

/// An event as it should be read: idempotency key and payload.
type Expected = (Option<String>, String);

#[derive(Default)]
struct Model {
    /// All events that were ever appended.
    partitions: HashMap<u32, Vec<Expected>>,
    low: HashMap<u32, u64>,
    keys: HashMap<String, (u32, u64)>,
}

impl Model {
    fn next(&self, partition: u32) -> u64 {
        self.partitions.get(&partition).map_or(0, Vec::len) as u64
    }

    fn low(&self, partition: u32) -> u64 {
        self.low.get(&partition).copied().unwrap_or(0)
    }

    fn append(&mut self, partition: u32, key: Option<&str>, payload: &str) -> Appended {
        if let Some(&(partition, offset)) = key.and_then(|key| self.keys.get(key)) {
            return Appended { partition, offset, duplicate: true };
        }
        let offset = self.next(partition);
        self.partitions.entry(partition).or_default().push((key.map(str::to_owned), payload.to_owned()));
        key.map(|key| self.keys.insert(key.to_owned(), (partition, offset)));
        Appended { partition, offset, duplicate: false }
    }

    fn check(&self, opened: &Opened, random: &mut Random) {
        let stream = opened.stream("Click");
        for partition in 0..PARTITIONS {
            let (low, next) = (self.low(partition), self.next(partition));
            let from = low + random.below((next - low + 1) as usize) as u64;
            let most = 1 + random.below(30);
            let (events, page) = opened.read_from(stream, partition, Start::Offset(from), most).unwrap();
            assert_eq!((page.watermarks.low, page.watermarks.high, page.next), (low, next, next));
            let expected = self.partitions.get(&partition).map_or(&[][..], |events| &events[from as usize..]);
            let read: Vec<_> = events.iter().map(|read| (read.idempotency_key.clone(), read.payload.clone())).collect();
            assert_eq!(read, expected);
            assert!(events.iter().map(|read| read.offset).eq(from..next));
            assert!(events.is_sorted_by_key(|read| read.ingested_ms));
        }
    }
}

/// Numbers, texts and, now and then, one longer than a chunk.
fn payload(random: &mut Random, number: usize) -> String {
    match random.below(200) {
        0 => format!("\"{number}{}\"", "x".repeat(80 << 10)),
        1..20 => format!("\"{number}{}\"", "y".repeat(random.below(9000))),
        _ => number.to_string(),
    }
}

/// All or nothing: the last event of a bulk, and a transaction, fail. `next`: the next offset of the first partition.
fn assert_refused_as_a_whole(opened: &Opened, next: u64) {
    let (stream, audit) = (opened.stream("Click"), opened.stream("Audit"));
    let wrong = Event { expected_offset: Some(next + 7), ..event("0", 0) };
    let sent = [event("1", 1), event("2", 0), wrong];
    let refused = opened.streams.append_all(&opened.database, stream, &sent).unwrap_err();
    let Error::Offset { fault: OffsetFault::NotNext, pointer, high, .. } = refused else { panic!("{refused}") };
    assert_eq!((&*pointer, high), ("/records/2/expectedOffset", next));
    assert!(
        opened
            .streams
            .transact(&opened.database, |transaction, appends| {
                appends.append(transaction, audit, &event("3", 0))?;
                appends.append(transaction, stream, &event("4", 2))?;
                Err::<(), _>(Error::Stale)
            })
            .is_err()
    );
    assert_eq!(opened.streams.watermarks(audit, 0).unwrap().high, 0);
}

#[test]
fn streams_do_what_lists_do() {
    for seed in 1..9 {
        let (directory, mut random) = (tempfile::tempdir().unwrap(), Random(seed));
        let (mut opened, mut model) = (Opened::at(directory.path(), SDL), Model::default());
        for number in 0..400 {
            let stream = opened.stream("Click");
            let key = |random: &mut Random| (random.below(2) == 0).then(|| format!("key {}", random.below(120)));
            match random.below(100) {
                0..45 => {
                    let (payload, key) = (payload(&mut random, number), key(&mut random));
                    let partition = random.below(PARTITIONS as usize) as u32;
                    let sent =
                        Event { idempotency_key: key.as_deref().map(Cow::Borrowed), ..event(&payload, partition) };
                    let appended = opened.streams.append(&opened.database, stream, &sent).unwrap();
                    assert_eq!(appended, model.append(partition, key.as_deref(), &payload));
                }
                45..80 => {
                    let all: Vec<_> = (0..random.below(60))
                        .map(|one| {
                            let partition = random.below(PARTITIONS as usize) as u32;
                            (partition, key(&mut random), payload(&mut random, 1000 * number + one))
                        })
                        .collect();
                    let sent = all.iter().map(|(partition, key, payload)| Event {
                        idempotency_key: key.as_deref().map(Cow::Borrowed),
                        ..event(payload, *partition)
                    });
                    let sent: Vec<_> = sent.collect();
                    let appended = opened.streams.append_all(&opened.database, stream, &sent).unwrap();
                    let expected =
                        all.iter().map(|(partition, key, payload)| model.append(*partition, key.as_deref(), payload));
                    assert_eq!(appended, expected.collect::<Vec<_>>());
                }
                80..85 => {
                    assert_refused_as_a_whole(&opened, model.next(0));
                }
                85..92 => {
                    let partition = random.below(PARTITIONS as usize) as u32;
                    let before = model.low(partition)
                        + random.below((model.next(partition) - model.low(partition) + 1) as usize) as u64;
                    assert_eq!(opened.streams.trim(&opened.database, stream, partition, before).unwrap(), before);
                    model.low.insert(partition, before);
                    if before > 0 {
                        let trimmed = opened.page(stream, partition, Start::Offset(before - 1), 1).unwrap_err();
                        assert!(matches!(trimmed, Error::Offset { fault: OffsetFault::Trimmed, .. }), "{trimmed}");
                    }
                    let beyond = model.next(partition) + 1;
                    assert!(opened.streams.trim(&opened.database, stream, partition, beyond).is_err());
                }
                92..94 => {
                    opened.streams.truncate(&opened.database, stream).unwrap();
                    for partition in 0..PARTITIONS {
                        let next = model.next(partition);
                        model.low.insert(partition, next);
                    }
                }
                94..96 => {
                    drop(opened);
                    opened = Opened::at(directory.path(), SDL);
                }
                _ => model.check(&opened, &mut random),
            }
        }
        drop(opened);
        model.check(&Opened::at(directory.path(), SDL), &mut random);
    }
}

#[test]
fn what_is_not_there_is_refused_with_both_watermarks() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), SDL);
    let stream = opened.stream("Click");
    for payload in ["1", "2", "3"] {
        opened.streams.append(&opened.database, stream, &event(payload, 1)).unwrap();
    }
    opened.streams.trim(&opened.database, stream, 1, 2).unwrap();
    let fault = |from| match opened.page(stream, 1, Start::Offset(from), 10).unwrap_err() {
        Error::Offset { fault, low, high, .. } => (fault, low, high),
        other => panic!("{other}"),
    };
    assert_eq!(fault(4), (OffsetFault::Ahead, 2, 3));
    assert_eq!(fault(1), (OffsetFault::Trimmed, 2, 3));
    assert_eq!(opened.page(stream, 1, Start::Offset(3), 10).unwrap().1.events, 0);
    assert!(matches!(opened.page(stream, 3, Start::Beginning, 10), Err(Error::Invalid { .. })));
    assert!(matches!(opened.streams.append(&opened.database, stream, &event("1", 3)), Err(Error::Invalid { .. })));
    let other = tempfile::tempdir().unwrap();
    let other = Opened::at(other.path(), SDL);
    assert!(matches!(
        other.streams.append(&opened.database, other.stream("Click"), &event("1", 0)),
        Err(Error::Invalid { .. })
    ));
    assert!(matches!(
        opened.streams.append(&opened.database, other.stream("Click"), &event("1", 0)),
        Err(Error::Invalid { .. })
    ));
}

#[test]
fn partitions_are_added_and_never_taken_away() {
    let directory = tempfile::tempdir().unwrap();
    drop(Opened::at(directory.path(), "type Click @stream(partitions: 2)"));
    let opened = Opened::at(directory.path(), "type Click @stream(partitions: 255)");
    opened.streams.append(&opened.database, opened.stream("Click"), &event("1", 254)).unwrap();
    drop(opened);
    for refused in ["type Click @stream(partitions: 254)", "type Click @table { id: ID @primaryKey }"] {
        assert!(matches!(Opened::try_at(directory.path(), refused), Err(Error::Invalid { .. })), "{refused}");
    }
    // A stream that is not named is kept.
    drop(Opened::at(directory.path(), "type Item @table { id: ID @primaryKey }"));
    let opened =
        Opened::at(directory.path(), "type Item @table { id: ID @primaryKey } type Click @stream(partitions: 256)");
    assert_eq!(opened.streams.watermarks(opened.stream("Click"), 254).unwrap().high, 1);
}
