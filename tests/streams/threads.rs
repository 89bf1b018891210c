//! Appends and reads at the tail by many threads: a read that returns an event has seen all below it, and an append that was acknowledged
//! before a read began is seen by it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use strata::streams::Start;
use strata::transaction::Database;

use super::{Opened, event};

const WRITERS: usize = 4;
const EVENTS: usize = 400;

fn race(durability: &str) {
    let directory = tempfile::tempdir().unwrap();
    let opened =
        Opened::at(directory.path(), &format!("type Click @stream(partitions: 2, durability: {durability:?})"));
    let stream = opened.stream("Click");
    // One more than the highest offset that was acknowledged in partition 0.
    let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (opened, acknowledged) = (&opened, &acknowledged);
                scope.spawn(move || {
                    let mut last = None;
                    for number in 0..EVENTS {
                        let payload = format!("[{writer},{number}]");
                        let sent = [event(&payload, 0), event(&payload, 1)];
                        let appended = opened.streams.append_all(&opened.database, stream, &sent).unwrap();
                        assert!(last < Some(appended[0].offset), "offsets of one client rise");
                        last = Some(appended[0].offset);
                        acknowledged.fetch_max(appended[0].offset + 1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut next = 0;
                while !done.load(Ordering::SeqCst) {
                    let at_least = acknowledged.load(Ordering::SeqCst);
                    let (events, page) = opened.page(stream, 0, Start::Offset(next), 10_000).unwrap();
                    assert!(page.watermarks.high >= at_least, "what was acknowledged is seen");
                    assert!(events.iter().map(|event| event.offset).eq(next..page.watermarks.high));
                    next = page.next;
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    let all = |partition| {
        let (events, _) = opened.read_from(stream, partition, Start::Beginning, 97).unwrap();
        assert!(events.iter().map(|event| event.offset).eq(0..(WRITERS * EVENTS) as u64));
        events.into_iter().map(|event| event.payload).collect::<Vec<_>>()
    };
    assert_eq!(all(0), all(1), "a request is one step, in all its partitions");
}

#[test]
fn readers_see_every_event_in_order_soft() {
    race("soft");
}

#[test]
fn readers_see_every_event_in_order_strong() {
    race("strong");
}

/// A database that leaves the sync to its caller, as the server does.
#[test]
fn nobody_reads_what_is_not_synced() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), "type Click @stream(durability: \"strong\")");
    let (stream, high) =
        (opened.stream("Click"), || opened.streams.watermarks(opened.stream("Click"), 0).unwrap().high);
    let deferring: Vec<Database> = (0..3).map(|_| opened.database.deferring_syncs()).collect();
    for (offset, database) in (0..).zip(&deferring) {
        assert_eq!(opened.streams.append(database, stream, &event("1", 0)).unwrap().offset, offset);
        assert!(database.has_deferred_sync() && high() == 0);
    }
    let sync = |database: &Database| {
        let (done, outcome) = std::sync::mpsc::channel();
        database.when_synced(|lead| lead(), move |outcome| done.send(outcome).unwrap());
        outcome.recv().unwrap().unwrap();
    };
    sync(&deferring[1]);
    assert_eq!(high(), 2, "a sync covers what was written before, and the largest offset wins");
    sync(&deferring[0]);
    assert_eq!(high(), 2);
    sync(&deferring[2]);
    assert_eq!(high(), 3);
}

#[test]
fn who_waits_is_called_once_there_is_something() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), "type Click @stream(partitions: 2)");
    let stream = opened.stream("Click");
    let wait = |offsets: &[(u32, u64)]| {
        let (called, calls) = std::sync::mpsc::channel();
        (opened.streams.wait(stream, offsets, move || called.send(()).unwrap()).unwrap().unwrap(), calls)
    };
    let (_place, calls) = wait(&[(0, 0)]);
    let (_other, of_other) = wait(&[(1, 0)]);
    let (both, of_both) = wait(&[(0, 1), (1, 0)]);
    let (_late, of_late) = wait(&[(0, 300)]);
    drop(both);
    for number in 0..300 {
        opened.streams.append(&opened.database, stream, &event("1", 0)).unwrap();
        if number == 0 {
            calls.recv().unwrap();
            // What is there already is called back, too.
            wait(&[(0, 0)]).1.recv().unwrap();
        }
    }
    assert!(of_other.try_recv().is_err() && of_late.try_recv().is_err());
    assert!(of_both.recv().is_err(), "who has given up is never called");
    opened.streams.append(&opened.database, stream, &event("1", 0)).unwrap();
    of_late.recv().unwrap();
    opened.streams.stop();
    of_other.recv().unwrap();
    assert!(opened.streams.wait(stream, &[(0, 0)], || ()).unwrap().is_none());
}

/// Readers that follow the tail by waiting, while writers append: none misses a wake-up.
#[test]
fn the_tail_is_followed_by_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), "type Click @stream");
    let stream = opened.stream("Click");
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut next = 0;
                while next < 2 * EVENTS as u64 {
                    let (called, call) = std::sync::mpsc::channel();
                    let _place = opened.streams.wait(stream, &[(0, next)], move || called.send(()).unwrap()).unwrap();
                    call.recv().unwrap();
                    let (events, page) = opened.page(stream, 0, Start::Offset(next), 1000).unwrap();
                    assert!(!events.is_empty());
                    next = page.next;
                }
            });
            scope.spawn(|| {
                for number in 0..EVENTS {
                    opened.streams.append(&opened.database, stream, &event("1", 0)).unwrap();
                    if number % 10 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
}
