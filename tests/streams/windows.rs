//! Idempotency keys: known for a window, over restarts, trims and partitions, and not much longer.

use std::borrow::Cow;

use strata::streams::Event;
use strata::transaction::Clock;

use super::{Opened, event};

const SDL: &str = "type Click @stream(partitions: 2, idempotency: 100)";

/// Appends with a key at a time in seconds; returns partition, offset, and whether it was known.
fn send(opened: &Opened, key: &str, partition: u32, seconds: i64) -> (u32, u64, bool) {
    let database = opened.database.with_clock(&Clock::standing_at(seconds * 1_000_000));
    let sent = Event { idempotency_key: Some(Cow::Borrowed(key)), ..event("1", partition) };
    let appended = opened.streams.append(&database, opened.stream("Click"), &sent).unwrap();
    (appended.partition, appended.offset, appended.duplicate)
}

#[test]
fn a_key_is_known_for_its_window() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = Opened::at(directory.path(), SDL);
    for start in [1000, 1250, 1499, 5000] {
        let key = format!("at {start}");
        let (partition, offset, known) = send(&opened, &key, 0, start);
        assert!(!known);
        for later in [0, 1, 50, 99] {
            assert_eq!(send(&opened, &key, 1, start + later), (partition, offset, true), "{later} s later");
        }
        opened.streams.trim(&opened.database, opened.stream("Click"), 0, offset + 1).unwrap();
        drop(opened);
        opened = Opened::at(directory.path(), SDL);
        assert_eq!(send(&opened, &key, 1, start + 99), (partition, offset, true), "after a trim and a restart");
        assert!(!send(&opened, &key, 0, start + 200).2, "after twice its window");
    }
}

/// Keys of two windows in one file, so that no file has only those that are dropped.
#[test]
fn keys_that_are_no_longer_known_give_their_space_back() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), SDL);
    let store = opened.database.store();
    for (seconds, number) in [(1000, 5000), (1100, 50)] {
        (0..number).for_each(|key| assert!(!send(&opened, &format!("{seconds} {key}"), 0, seconds).2));
    }
    opened.streams.trim(&opened.database, opened.stream("Click"), 0, 5050).unwrap();
    store.compact().unwrap();
    let before = store.uncompressed_bytes().unwrap();
    assert!(before > 5000 * 32, "{before}");
    opened.streams.work(&opened.database.with_clock(&Clock::standing_at(1_199_000_000))).unwrap();
    assert_eq!(store.uncompressed_bytes().unwrap(), before, "both windows are known");
    opened.streams.work(&opened.database.with_clock(&Clock::standing_at(1_201_000_000))).unwrap();
    store.settle().unwrap();
    let after = store.uncompressed_bytes().unwrap();
    assert!(after < before / 10, "{before} bytes before, {after} after");
    assert_eq!(send(&opened, "1100 49", 0, 1199), (0, 5049, true), "the other window's stay");
}

#[test]
fn a_clock_that_goes_back_takes_nothing_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), SDL);
    for (number, seconds) in [(0, 5000), (1, 4000), (2, 1), (3, 5001)] {
        assert_eq!(send(&opened, &number.to_string(), 0, seconds), (0, number, false));
    }
    for number in 0..4 {
        assert_eq!(send(&opened, &number.to_string(), 1, 5002), (0, number, true));
    }
    let (events, _) = opened.read_from(opened.stream("Click"), 0, strata::streams::Start::Beginning, 10).unwrap();
    let times: Vec<_> = events.iter().map(|event| event.ingested_ms).collect();
    assert_eq!(times, [5_000_000, 5_000_000, 5_000_000, 5_001_000]);
}

#[test]
fn a_time_is_found_by_bisection() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), SDL);
    for second in 0..300 {
        let database = opened.database.with_clock(&Clock::standing_at(1_000_000 * (1000 + second / 3 * 2)));
        opened.streams.append(&database, opened.stream("Click"), &event("1", 0)).unwrap();
    }
    let first = |milliseconds| {
        let (_, page) = opened.page(opened.stream("Click"), 0, strata::streams::Start::Since(milliseconds), 1).unwrap();
        page.next - page.events as u64
    };
    for second in 0..300 {
        let time = 1000 * (1000 + second / 3 * 2);
        assert_eq!(first(time), second / 3 * 3);
        assert_eq!(first(time - 1), second / 3 * 3);
        assert_eq!(first(time + 1), second / 3 * 3 + 3);
    }
    assert_eq!((first(0), first(u64::MAX)), (0, 300));
    opened.streams.trim(&opened.database, opened.stream("Click"), 0, 100).unwrap();
    assert_eq!((first(0), first(1_000_000), first(1_000_000 + 99_000)), (100, 100, 150));
}

/// A key of the last seconds of a day is known for the new window, though its generation began long before.
#[test]
fn a_shorter_window_forgets_no_younger_key() {
    let directory = tempfile::tempdir().unwrap();
    let of = |window| format!("type Click @stream(partitions: 2, idempotency: {window})");
    let opened = Opened::at(directory.path(), &of(86_400));
    assert_eq!(send(&opened, "early", 0, 200_000), (0, 0, false));
    assert_eq!(send(&opened, "late", 0, 215_990), (0, 1, false));
    drop(opened);
    let opened = Opened::at(directory.path(), &of(3600));
    for (now, known) in [(216_010, true), (219_589, true), (219_590, false)] {
        opened.streams.work(&opened.database.with_clock(&Clock::standing_at(now * 1_000_000))).unwrap();
        assert_eq!(send(&opened, "late", 1, now).2, known, "at {now}");
    }
    assert!(!send(&opened, "early", 1, 216_010).2, "it is older than the new window");
    drop(opened);
    // And a longer one is kept from then on.
    let opened = Opened::at(directory.path(), &of(86_400));
    assert!(send(&opened, "late", 0, 219_590 + 86_399).2);
    assert!(!send(&opened, "late", 0, 219_590 + 86_400).2);
}

/// Many keys of a list, each with a lock, beside others that hold some of them.
#[test]
fn lists_of_many_keys_end_beside_others() {
    const KEYS: usize = 2000;
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), SDL);
    let names: Vec<_> = (0..KEYS).map(|key| format!("key {key}")).collect();
    let appended = std::thread::scope(|scope| {
        let threads = [0, 1, 0, 1].map(|partition| {
            let (opened, names) = (&opened, &names);
            scope.spawn(move || {
                let of = |key| Event { idempotency_key: Some(Cow::Borrowed(key)), ..event("1", partition) };
                let list: Vec<_> = names.iter().map(|name| of(name.as_str())).collect();
                let appended = opened.streams.append_all(&opened.database, opened.stream("Click"), &list).unwrap();
                appended.iter().filter(|appended| !appended.duplicate).count()
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    // One of them has appended all, since it holds all of their locks at once.
    assert_eq!((appended.iter().sum::<usize>(), appended.contains(&KEYS)), (KEYS, true), "{appended:?}");
}

#[test]
fn an_event_that_cannot_be_stored_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), SDL);
    let long = |length: usize| Some(Cow::Owned("k".repeat(length)));
    let none = Event { key: None, ..event("1", 0) };
    for (wrong, fits) in [
        (Event { key: long(1025), ..none.clone() }, Event { key: long(1024), ..none.clone() }),
        (Event { idempotency_key: long(256), ..none.clone() }, Event { idempotency_key: long(255), ..none.clone() }),
        (Event { key: long(0), ..none.clone() }, none.clone()),
    ] {
        let refused = opened.streams.append(&opened.database, opened.stream("Click"), &wrong);
        assert!(matches!(refused, Err(strata::error::Error::Invalid { .. })), "{refused:?}");
        opened.streams.append(&opened.database, opened.stream("Click"), &fits).unwrap();
    }
}
