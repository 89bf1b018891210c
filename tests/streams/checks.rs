//! What operators are told of streams: damage is found where it is, and statistics count what is there.

use std::borrow::Cow;

use strata::error::Error;
use strata::schema::Durability;
use strata::storage::{Batch, Space};
use strata::streams::{Event, Start, disagreements};
use strata::transaction::Precondition;

use super::{Opened, event};

/// The key of the chunk that ends at an offset of partition 0.
fn chunk(opened: &Opened, offset: u64) -> Vec<u8> {
    [&opened.stream("Click").id.to_be_bytes()[..], &0_u32.to_be_bytes(), &offset.to_be_bytes()].concat()
}

fn five_events() -> (tempfile::TempDir, Opened) {
    let directory = tempfile::tempdir().unwrap();
    let opened = Opened::at(directory.path(), "type Click @stream(partitions: 2)");
    for payload in ["0", "1", "2", "3", "4"] {
        opened.streams.append(&opened.database, opened.stream("Click"), &event(payload, 0)).unwrap();
    }
    assert_eq!(disagreements(&opened.database).unwrap(), Vec::<String>::new());
    (directory, opened)
}

#[test]
fn damaged_and_missing_chunks_are_found() {
    let (_directory, opened) = five_events();
    let (store, mut batch) = (opened.database.store(), Batch::default());
    store.put(&mut batch, Space::Streams, &chunk(&opened, 1), b"damaged");
    store.delete(&mut batch, Space::Streams, &chunk(&opened, 3));
    store.write(&mut batch, Durability::Soft).unwrap();
    let found = disagreements(&opened.database).unwrap();
    assert!(
        found.iter().any(|line| line.contains("offset 1 of partition 0") && line.contains("too short")),
        "{found:?}"
    );
    assert!(found.iter().any(|line| line.contains("offset 3 is followed by the chunk from 4")), "{found:?}");
}

#[test]
fn events_before_a_damaged_chunk_can_be_read() {
    let (_directory, opened) = five_events();
    let (store, mut batch) = (opened.database.store(), Batch::default());
    store.put(&mut batch, Space::Streams, &chunk(&opened, 3), b"damaged");
    store.write(&mut batch, Durability::Soft).unwrap();
    for most in [1, 100] {
        let (events, page) = opened.page(opened.stream("Click"), 0, Start::Offset(2), most).unwrap();
        assert_eq!((events.len(), page.next), (1, 3));
    }
    assert!(matches!(opened.page(opened.stream("Click"), 0, Start::Offset(3), 100), Err(Error::Corrupt { .. })));
    assert_eq!(opened.page(opened.stream("Click"), 0, Start::Offset(4), 100).unwrap().1.events, 1);
}

#[test]
fn a_chunk_in_the_place_of_another_is_found() {
    let (_directory, opened) = five_events();
    let stream = opened.stream("Click");
    let keyed = Event { idempotency_key: Some(Cow::Borrowed("once")), ..event("5", 0) };
    opened.streams.append(&opened.database, stream, &keyed).unwrap();
    opened.streams.append(&opened.database, stream, &event("6", 0)).unwrap();
    let store = opened.database.store();
    let plain =
        store.get(Space::Streams, &chunk(&opened, 6), strata::storage::ReadTier::Disk).unwrap().unwrap().to_vec();
    let mut batch = Batch::default();
    store.put(&mut batch, Space::Streams, &chunk(&opened, 5), &plain);
    store.write(&mut batch, Durability::Soft).unwrap();
    let found = disagreements(&opened.database).unwrap();
    assert!(found.iter().any(|line| line.contains("checksum mismatch")), "a chunk is bound to its key: {found:?}");
}

#[test]
fn statistics_count_what_is_kept() {
    let (_directory, opened) = five_events();
    let stream = opened.stream("Click");
    let keyed = Event { idempotency_key: Some(Cow::Borrowed("once")), ..event("5", 1) };
    opened.streams.append(&opened.database, stream, &keyed).unwrap();
    opened.streams.commit(&opened.database, stream, "mail", &[(0, 2)], &Precondition::None).unwrap();
    let all = opened.streams.statistics(stream).unwrap();
    assert_eq!((all.name.as_str(), all.idempotency_keys, all.groups), ("Click", 1, 1));
    opened.streams.trim(&opened.database, stream, 0, 3).unwrap();
    let trimmed = opened.streams.statistics(stream).unwrap();
    let of = |statistics: &strata::streams::Statistics, partition: usize| {
        let found = &statistics.partitions[partition];
        (found.low_watermark, found.high_watermark, found.bytes)
    };
    let (low, high, bytes) = of(&all, 0);
    assert_eq!((low, high, bytes % 5), (0, 5, 0), "five chunks of one length");
    assert_eq!(of(&trimmed, 0), (3, 5, bytes / 5 * 2));
    assert_eq!(of(&trimmed, 1), of(&all, 1));
}
