//! Trims by age, by size and by hand, and what consumer groups hold back.

use std::borrow::Cow;

use strata::error::Error;
use strata::streams::{Event, Start, Watermarks};
use strata::transaction::{Clock, Precondition};

use super::{Opened, event};

/// The bytes of one event with a payload of a hundred bytes, as it is stored.
const STORED_BYTES: u64 = 29 + 1 + 4 + 102;

fn payload() -> String {
    format!("\"{}\"", "x".repeat(100))
}

fn work_at(opened: &Opened, seconds: i64) {
    let database = opened.database.with_clock(&Clock::standing_at(seconds * 1_000_000));
    opened.streams.work(&database).unwrap();
}

fn low(opened: &Opened) -> u64 {
    opened.streams.watermarks(opened.stream("Click"), 0).unwrap().low
}

#[test]
fn events_are_trimmed_by_their_age() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), "type Click @stream(expiration: 100)");
    for second in 0..300 {
        let database = opened.database.with_clock(&Clock::standing_at((1000 + second) * 1_000_000));
        opened.streams.append(&database, opened.stream("Click"), &event("1", 0)).unwrap();
    }
    for (now, expected) in [(1050, 0), (1100, 0), (1101, 1), (1250, 150), (1249, 150), (5000, 300)] {
        work_at(&opened, now);
        assert_eq!(low(&opened), expected, "at {now}");
    }
    opened.streams.append(&opened.database, opened.stream("Click"), &event("1", 0)).unwrap();
    assert_eq!(opened.streams.watermarks(opened.stream("Click"), 0).unwrap().high, 301);
}

#[test]
fn events_are_trimmed_by_their_size() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), &format!("type Click @stream(maxBytes: {})", 100 * STORED_BYTES));
    let (stream, payload) = (opened.stream("Click"), payload());
    let append = |number| {
        for _ in 0..number {
            opened.streams.append(&opened.database, stream, &event(&payload, 0)).unwrap();
        }
    };
    append(110);
    work_at(&opened, 1);
    assert_eq!(low(&opened), 0, "a tenth more is kept");
    append(1);
    work_at(&opened, 1);
    assert_eq!(low(&opened), 11);
    append(500);
    work_at(&opened, 1);
    assert_eq!(low(&opened), 511);
    drop(opened);
    let opened = Opened::at(directory.path(), "type Click @stream");
    assert_eq!(
        (low(&opened), opened.read_from(opened.stream("Click"), 0, Start::Beginning, 7).unwrap().0.len()),
        (511, 100)
    );
}

#[test]
fn nothing_is_trimmed_that_a_consumer_has_not_committed() {
    let directory = tempfile::tempdir().unwrap();
    let sdl = "type Click @stream(expiration: 1, holdFor: [\"mail\", \"lake\"])";
    let opened = Opened::at(directory.path(), sdl);
    let stream = opened.stream("Click");
    for _ in 0..10 {
        opened.streams.append(&opened.database, stream, &event("1", 0)).unwrap();
    }
    let far = 4_000_000_000;
    let refused = |before| opened.streams.trim(&opened.database, stream, 0, before).unwrap_err();
    let commit = |group: &str, offset| {
        opened.streams.commit(&opened.database, stream, group, &[(0, offset)], &Precondition::None).unwrap();
    };
    work_at(&opened, far);
    assert!(low(&opened) == 0 && matches!(refused(1), Error::Conflict { .. }));
    commit("mail", 8);
    work_at(&opened, far);
    assert!(low(&opened) == 0 && matches!(refused(1), Error::Conflict { .. }), "lake has never committed");
    commit("lake", 5);
    assert!(matches!(refused(6), Error::Conflict { .. }));
    work_at(&opened, far);
    assert_eq!(low(&opened), 5);
    assert!(matches!(opened.streams.truncate(&opened.database, stream), Err(Error::Conflict { .. })));
    commit("lake", 10);
    commit("mail", 10);
    opened.streams.truncate(&opened.database, stream).unwrap();
    assert_eq!(low(&opened), 10);
}

/// A full partition takes no more, another one of the stream does.
#[test]
fn what_consumers_hold_beyond_the_size_refuses_more() {
    let directory = tempfile::tempdir().unwrap();
    let sdl = format!("type Click @stream(partitions: 2, maxBytes: {}, holdFor: [\"mail\"])", 100 * STORED_BYTES);
    let opened = Opened::at(directory.path(), &sdl);
    let (stream, payload) = (opened.stream("Click"), payload());
    let append = |partition| opened.streams.append(&opened.database, stream, &event(&payload, partition));
    for _ in 0..200 {
        append(0).unwrap();
    }
    work_at(&opened, 1);
    assert_eq!(low(&opened), 0);
    assert!(matches!(append(0), Err(Error::Held { detail }) if detail.contains("mail")));
    append(1).unwrap();
    opened.streams.commit(&opened.database, stream, "mail", &[(0, 150)], &Precondition::None).unwrap();
    work_at(&opened, 1);
    assert_eq!(low(&opened), 100, "to its size, and no further");
    assert_eq!(append(0).unwrap().offset, 200);
}

#[test]
fn keys_that_are_no_longer_known_are_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let sdl = "type Click @stream(idempotency: 100)";
    let opened = Opened::at(directory.path(), sdl);
    let send = |seconds: i64| {
        let database = opened.database.with_clock(&Clock::standing_at(seconds * 1_000_000));
        let key = format!("at {seconds}");
        let sent = Event { idempotency_key: Some(Cow::Borrowed(&key)), ..event("1", 0) };
        opened.streams.append(&database, opened.stream("Click"), &sent).unwrap();
    };
    let stored = || {
        let id = opened.stream("Click").id;
        opened.database.store().count_prefix(strata::storage::Space::Streams, &id.to_be_bytes()).unwrap().0
    };
    for seconds in 0..500 {
        send(1000 + seconds);
    }
    assert_eq!(stored(), 1000);
    work_at(&opened, 1499);
    // Each event, and the keys of the two last windows.
    assert_eq!(stored(), 500 + 200);
    work_at(&opened, 9999);
    assert_eq!(stored(), 500);
}

/// The chunks are gone when the batch is written, the watermark is told when it is synced: nobody may find a gap between.
#[test]
fn what_is_trimmed_is_gone_before_the_sync() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), "type Click @stream(durability: \"strong\")");
    let stream = opened.stream("Click");
    for _ in 0..10 {
        opened.streams.append(&opened.database, stream, &event("1", 0)).unwrap();
    }
    let unsynced = opened.database.deferring_syncs();
    assert_eq!(opened.streams.trim(&unsynced, stream, 0, 4).unwrap(), 4);
    assert!(unsynced.has_deferred_sync());
    let (events, page) = opened.page(stream, 0, Start::Beginning, 100).unwrap();
    assert_eq!((events.len(), page.watermarks), (6, Watermarks { low: 4, high: 10 }));
}

/// A trim to a smaller offset must not take back one that nobody sees yet.
#[test]
fn a_trim_beside_a_truncation_that_is_not_synced_takes_nothing_back() {
    let directory = tempfile::tempdir().unwrap();
    let sdl = "type Click @stream(durability: \"strong\")";
    let opened = Opened::at(directory.path(), sdl);
    let stream = opened.stream("Click");
    let (appending, truncating) = (opened.database.deferring_syncs(), opened.database.deferring_syncs());
    for _ in 0..2 {
        opened.streams.append(&appending, stream, &event("1", 0)).unwrap();
    }
    opened.streams.truncate(&truncating, stream).unwrap();
    // Only the events are synced: they can be seen, and so be trimmed.
    let (done, synced) = std::sync::mpsc::channel();
    appending.when_synced(|lead| lead(), move |outcome| done.send(outcome).unwrap());
    synced.recv().unwrap().unwrap();
    assert_eq!(opened.streams.watermarks(stream, 0).unwrap(), Watermarks { low: 0, high: 2 });
    assert_eq!(opened.streams.trim(&opened.database, stream, 0, 1).unwrap(), 2);
    // It has seen to the sync that the truncation still waits for, and that may fail.
    assert_eq!(opened.streams.watermarks(stream, 0).unwrap(), Watermarks { low: 2, high: 2 });
    drop((appending, truncating, opened));
    let opened = Opened::at(directory.path(), sdl);
    let (stream, none) = (opened.stream("Click"), Vec::<String>::new());
    assert_eq!(opened.streams.watermarks(stream, 0).unwrap(), Watermarks { low: 2, high: 2 });
    assert_eq!(strata::streams::disagreements(&opened.database).unwrap(), none);
    assert_eq!(opened.streams.append(&opened.database, stream, &event("1", 0)).unwrap().offset, 2);
}

#[test]
fn what_grows_old_together_is_trimmed_by_one_sync() {
    let directory = tempfile::tempdir().unwrap();
    let opened =
        Opened::at(directory.path(), "type Click @stream(partitions: 16, expiration: 100, durability: \"strong\")");
    let stream = opened.stream("Click");
    let database = opened.database.with_clock(&Clock::standing_at(1_000_000_000));
    for partition in 0..16 {
        opened.streams.append(&database, stream, &event("1", partition)).unwrap();
    }
    let before = opened.database.counters().syncs;
    work_at(&opened, 2000);
    assert_eq!(opened.database.counters().syncs - before, 1);
    for partition in 0..16 {
        assert_eq!(opened.streams.watermarks(stream, partition).unwrap(), Watermarks { low: 1, high: 1 });
    }
}

#[test]
fn what_is_held_for_is_a_group_that_can_commit() {
    for wrong in [r#"["."]"#, r#"[".."]"#, r#"[""]"#, r#"["a\u0007"]"#, r#""mail""#, "[1]"] {
        let refused = strata::schema::Schema::parse(&format!("type Click @stream(holdFor: {wrong})")).unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }) && refused.to_string().contains("holdFor"), "{refused}");
    }
    let stream = |bytes: &str| strata::schema::Schema::parse(&format!("type Click @stream(maxBytes: {bytes})"));
    assert_eq!(stream("\"64K\"").unwrap().streams[0].max_bytes, Some(65536));
    for wrong in ["\"64X\"", "\"0\"", "0", "[]"] {
        assert!(stream(wrong).unwrap_err().to_string().contains("maxBytes"), "{wrong}");
    }
}
