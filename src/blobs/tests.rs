//! Writing and reading blobs, and what is left behind when something else happens at the same time.

use std::path::Path;

use super::*;
use crate::encoding::url;
use crate::schema::Schema;
use crate::storage::{Batch, Options, ReadTier};

const SDL: &str = "type Photo @table { id: ID! @primaryKey title: String picture: Blob sound: Blob updated: Int @updatedTime } \
                   type Deed @table(durability: \"strong\") { id: ID! @primaryKey scan: Blob }";
const PICTURE: usize = 2;

fn open(folder: &Path) -> Database {
    Database::open(folder, Schema::parse(SDL).unwrap(), &Options::default()).unwrap()
}

/// A store with one record of each table.
fn filled() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = open(folder.path());
    for table in ["Photo", "Deed"] {
        database.create(database.table(table).unwrap(), br#"{"id":"a b"}"#).unwrap();
    }
    (folder, database)
}

/// Bytes that vary with the position and with `seed`.
fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|place| ((place ^ (place >> 8) ^ (place >> 16)) + seed) as u8).collect()
}

fn begin(database: &Database, expected: Precondition) -> Result<Upload> {
    Upload::begin(database, photo(database), "a b", PICTURE, "image/png", expected)
}

fn photo(database: &Database) -> &Table {
    database.table("Photo").unwrap()
}

/// Hands over bytes in parts of some length.
fn fill(upload: &mut Upload, bytes: &[u8], part: usize) {
    for mut part in bytes.chunks(part.max(1)) {
        loop {
            part = &part[upload.take(part)..];
            if part.is_empty() {
                break;
            }
            in_time(|| upload.write()).unwrap();
        }
    }
}

/// Retries while bytes arrive faster than the engine flushes them.
fn in_time<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match attempt() {
            Err(Error::Busy { .. }) => std::thread::sleep(std::time::Duration::from_millis(1)),
            outcome => return outcome,
        }
    }
}

fn finish(upload: &mut Upload, database: &Database) -> Result<Uploaded> {
    in_time(|| upload.finish(database))
}

fn put(database: &Database, bytes: &[u8]) -> Uploaded {
    let mut upload = begin(database, Precondition::None).unwrap();
    fill(&mut upload, bytes, 100_000);
    finish(&mut upload, database).unwrap()
}

fn reader(database: &Database) -> Result<Reader> {
    Ok(Reader::open(database, photo(database), "a b", PICTURE)?.expect("the record is there"))
}

/// The rest of what a reader returns, and the number of pieces.
fn rest(reader: &mut Reader, database: &Database) -> Result<(Vec<u8>, usize)> {
    let (mut bytes, mut pieces) = (Vec::new(), 0);
    while reader.left_bytes() > 0 {
        bytes.extend(reader.next(database)?);
        pieces += 1;
    }
    Ok((bytes, pieces))
}

fn read(database: &Database) -> Result<Vec<u8>> {
    Ok(rest(&mut reader(database)?, database)?.0)
}

fn text(database: &Database) -> String {
    let record = database.read(photo(database), "a b").unwrap().unwrap();
    String::from_utf8(record.json().to_vec()).unwrap()
}

/// Number of stored keys of blobs of a table.
fn stored(database: &Database) -> u64 {
    database.store().count_prefix(Space::Blobs, &photo(database).id.to_be_bytes()).unwrap().0
}

/// Panics if anything stored is orphaned, missing or damaged.
fn assert_consistent(database: &Database) {
    assert_eq!(database.disagreements().unwrap(), Vec::<String>::new());
    assert_eq!(disagreements(database).unwrap(), Vec::<String>::new());
}

#[test]
fn bytes_come_back_whatever_their_length_and_however_they_came() {
    let (_folder, database) = filled();
    let around = |length: usize| [length - 1, length, length + 1];
    let lengths = [around(CHUNK_BYTES), around(PIECE_BYTES), around(PIECE_BYTES + CHUNK_BYTES)];
    for (seed, length) in [0, 1, 150_000, 2_000_000].into_iter().chain(lengths.concat()).enumerate() {
        let bytes = bytes(length, seed);
        for part in [1000, CHUNK_BYTES, 3_000_000] {
            let mut upload = begin(&database, Precondition::None).unwrap();
            fill(&mut upload, &bytes, part);
            finish(&mut upload, &database).unwrap();
            let mut reader = reader(&database).unwrap();
            assert_eq!((reader.length_bytes(), reader.media_type()), (length as u64, "image/png"));
            let (back, pieces) = rest(&mut reader, &database).unwrap();
            assert!(back == bytes, "{length} bytes in parts of {part}");
            assert_eq!(pieces, length.div_ceil(PIECE_BYTES));
            assert!(reader.next(&database).unwrap().is_empty());
        }
        assert_consistent(&database);
    }
    assert_eq!(
        text(&database).split("\"updated\"").next().unwrap(),
        r#"{"id":"a b","title":null,"picture":"/Photo/a%20b/picture","sound":null,"#
    );
}

#[test]
fn a_part_is_read_alone() {
    let (_folder, database) = filled();
    let bytes = bytes(3 * CHUNK_BYTES + 10, 0);
    put(&database, &bytes);
    let chunk = CHUNK_BYTES as u64;
    for part in [0..1, 5..chunk, chunk..chunk, chunk - 1..chunk + 1, 3 * chunk..3 * chunk + 10, 7..3 * chunk + 3] {
        let mut reader = reader(&database).unwrap();
        reader.select(part.clone());
        assert_eq!(reader.left_bytes(), part.end - part.start);
        let before = database.counters().looked_up;
        let (back, _) = rest(&mut reader, &database).unwrap();
        assert!(back == bytes[part.start as usize..part.end as usize], "{part:?}");
        let chunks = if part.is_empty() { 0 } else { part.end.div_ceil(chunk) - part.start / chunk };
        assert_eq!(database.counters().looked_up - before, chunks, "no chunk that is not wanted: {part:?}");
    }
}

#[test]
fn a_picture_is_one_write() {
    let (_folder, database) = filled();
    put(&database, &bytes(1, 0));
    let before = database.counters().writes;
    assert!(!put(&database, &bytes(PIECE_BYTES, 0)).created);
    assert_eq!(database.counters().writes - before, 1);
    put(&database, &bytes(PIECE_BYTES + CHUNK_BYTES + 1, 0));
    assert_eq!(
        database.counters().writes - before,
        1 + 3,
        "a longer one has one for each piece, and one for the record"
    );
}

#[test]
fn a_tag_tells_bytes_and_types_apart_and_nothing_else() {
    let (_folder, database) = filled();
    let first = put(&database, &bytes(100_000, 0));
    assert!(first.created);
    assert_eq!(put(&database, &bytes(100_000, 0)), Uploaded { created: false, ..first });
    assert_eq!(reader(&database).unwrap().tag(), first.tag);
    assert_ne!(put(&database, &bytes(100_000, 1)).tag, first.tag);
    let mut other =
        Upload::begin(&database, photo(&database), "a b", PICTURE, "image/gif", Precondition::None).unwrap();
    fill(&mut other, &bytes(100_000, 0), 1000);
    assert_ne!(finish(&mut other, &database).unwrap().tag, first.tag);
}

/// The validator of the record changes although its text does not.
#[test]
fn writing_a_blob_writes_its_record() {
    let (_folder, database) = filled();
    let checksum = |database: &Database| database.read(photo(database), "a b").unwrap().unwrap().checksum();
    let (before, before_text) = (checksum(&database), text(&database));
    put(&database, b"one");
    let (one, one_text) = (checksum(&database), text(&database));
    assert!(one != before && one_text != before_text);
    std::thread::sleep(std::time::Duration::from_millis(2));
    put(&database, b"two");
    let updated = |text: &str| text.split("\"updated\":").nth(1).unwrap().to_owned();
    assert!(checksum(&database) != one && updated(&text(&database)) > updated(&one_text));
    let deed = database.table("Deed").unwrap();
    let of_deed = |upload: &[u8]| {
        let mut one = Upload::begin(&database, deed, "a b", 1, "text/plain", Precondition::None).unwrap();
        fill(&mut one, upload, 10);
        finish(&mut one, &database).unwrap();
        database.read(deed, "a b").unwrap().unwrap().checksum()
    };
    assert_ne!(of_deed(b"same"), of_deed(b"same"), "another upload is another version, although no time is kept");
}

#[test]
fn who_reads_what_is_replaced_reads_it_to_its_end() {
    let (_folder, database) = filled();
    let (old, new) = (bytes(2_000_000, 0), bytes(1_500_000, 1));
    type Change = fn(&Database, &[u8]);
    let changes: [Change; 5] = [
        |database, new| assert!(!put(database, new).created),
        |database, _| remove(database, photo(database), "a b", PICTURE, &Precondition::None).unwrap(),
        |database, _| {
            drop(database.merge(photo(database), "a b", br#"{"picture":null}"#, &Precondition::None).unwrap())
        },
        |database, _| database.delete(photo(database), "a b", &Precondition::None).unwrap(),
        |database, _| database.truncate(photo(database)).unwrap(),
    ];
    for change in changes {
        put(&database, &old);
        let (mut slow, mut unbegun) = (reader(&database).unwrap(), reader(&database).unwrap());
        let mut back = slow.next(&database).unwrap();
        change(&database, &new);
        back.extend(slow.next(&database).unwrap());
        // Whatever the engine does in the background.
        database.store().compact().unwrap();
        back.extend(rest(&mut slow, &database).unwrap().0);
        assert!(back == old && rest(&mut unbegun, &database).unwrap().0 == old);
        drop((slow, unbegun));
        let now = Reader::open(&database, photo(&database), "a b", PICTURE);
        match now {
            Ok(Some(mut reader)) => assert!(rest(&mut reader, &database).unwrap().0 == new),
            Ok(None) => drop(database.create(photo(&database), br#"{"id":"a b"}"#).unwrap()),
            Err(error) => assert!(matches!(error, Error::NotFound { .. })),
        }
        assert_consistent(&database);
    }
}

#[test]
fn a_slow_reader_keeps_nothing_that_is_not_its_own() {
    let (_folder, database) = filled();
    put(&database, &bytes(2_000_000, 0));
    let mut slow = reader(&database).unwrap();
    slow.next(&database).unwrap();
    let mut random = 1u64;
    let title: String = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'a' + (random >> 59) as u8 % 26)
    })
    .take(1_000_000)
    .collect();
    database.create(photo(&database), format!(r#"{{"id":"long","title":"{title}"}}"#).as_bytes()).unwrap();
    slow.next(&database).unwrap();
    database.delete(photo(&database), "long", &Precondition::None).unwrap();
    database.store().compact().unwrap();
    assert!(database.store().gauges().unwrap().sorted_bytes > 500_000, "it was there when the last piece was read");
    slow.next(&database).unwrap();
    database.store().flush().unwrap();
    // Data already in the last level is only rewritten together with something new.
    database.create(photo(&database), br#"{"id":"longer"}"#).unwrap();
    database.create(photo(&database), br#"{"id":"lon"}"#).unwrap();
    database.store().compact().unwrap();
    assert!(database.store().gauges().unwrap().sorted_bytes < 500_000);
    assert!(rest(&mut slow, &database).is_ok());
}

#[test]
fn a_compaction_gives_back_what_was_deleted_of_every_file() {
    let (_folder, database) = filled();
    let table = photo(&database);
    let kept = |number: usize| number.is_multiple_of(10);
    for number in 0..100 {
        let id = number.to_string();
        database.create(table, format!(r#"{{"id":"{id}"}}"#).as_bytes()).unwrap();
        let mut upload = Upload::begin(&database, table, &id, PICTURE, "image/png", Precondition::None).unwrap();
        fill(&mut upload, &bytes(150_000, number), 150_000);
        finish(&mut upload, &database).unwrap();
    }
    database.store().flush().unwrap();
    let full = database.store().gauges().unwrap().blob_file_bytes;
    assert!(full > 14_000_000, "{full}");
    for number in (0..100).filter(|number| !kept(*number)) {
        database.delete(table, &number.to_string(), &Precondition::None).unwrap();
    }
    database.store().compact().unwrap();
    let left = database.store().gauges().unwrap().blob_file_bytes;
    assert!((1_400_000..2_500_000).contains(&left), "{left} of {full}");
    for number in (0..100).filter(|number| kept(*number)) {
        let reader = Reader::open(&database, table, &number.to_string(), PICTURE);
        assert!(rest(&mut reader.unwrap().unwrap(), &database).unwrap().0 == bytes(150_000, number));
    }
    assert_consistent(&database);
}

#[test]
fn with_the_record_or_its_value_the_bytes_are_gone() {
    let (_folder, database) = filled();
    let table = photo(&database);
    let (id, none) = ("a b", Precondition::None);
    type Change = fn(&Database, &Table);
    let changes: [Change; 5] = [
        |database, table| remove(database, table, "a b", PICTURE, &Precondition::Exists).unwrap(),
        |database, table| drop(database.replace(table, "a b", br#"{"picture":null}"#, &Precondition::None).unwrap()),
        |database, table| database.delete(table, "a b", &Precondition::None).unwrap(),
        |database, table| assert_eq!(database.delete_where(table, &["a b".to_owned()], |_| Ok(true)).unwrap(), 1),
        |database, table| database.truncate(table).unwrap(),
    ];
    for change in changes {
        database.replace(table, id, b"{}", &none).unwrap();
        put(&database, &bytes(300_000, 0));
        assert_eq!(stored(&database), 1 + 5);
        change(&database, table);
        assert_eq!(stored(&database), 0);
        assert_consistent(&database);
    }
    let outcome = remove(&database, table, id, PICTURE, &none);
    assert!(matches!(outcome, Err(Error::NotFound { .. })), "there is no record");
    database.replace(table, id, b"{}", &none).unwrap();
    assert!(matches!(remove(&database, table, id, PICTURE, &none), Err(Error::NotFound { .. })), "there is no blob");
    assert!(matches!(reader(&database), Err(Error::NotFound { .. })));
    assert!(Reader::open(&database, table, "nobody", PICTURE).unwrap().is_none());
}

#[test]
fn bodies_keep_blobs_or_take_them_away() {
    let (_folder, database) = filled();
    let (table, none) = (photo(&database), Precondition::None);
    let picture = bytes(300_000, 0);
    put(&database, &picture);
    let own = br#"{"title":"t","picture":"/Photo/a%20b/picture"}"#;
    let replace = |body: &[u8]| database.replace(table, "a b", body, &none).map(drop);
    let merge = |body: &[u8]| database.merge(table, "a b", body, &none).map(drop);
    for kept in [replace(own), replace(br#"{"title":"u"}"#), merge(own), merge(br#"{"title":"v"}"#), merge(b"{}")] {
        kept.unwrap();
        assert!(read(&database).unwrap() == picture);
    }
    for body in [
        &br#"{"picture":"/Photo/other/picture"}"#[..],
        br#"{"picture":""}"#,
        br#"{"picture":7}"#,
        br#"{"sound":"/Photo/a%20b/sound"}"#,
    ] {
        for refused in [replace(body), merge(body), database.create(table, body).map(drop)] {
            let Err(Error::Invalid { place: crate::error::Place::Pointer(pointer), .. }) = refused else {
                panic!("{refused:?}")
            };
            assert!(pointer == "/picture" || pointer == "/sound", "{pointer}");
        }
    }
    let refused = database.create_all(table, br#"[{"id":"1"},{"id":"2","picture":"/Photo/2/picture"}]"#).map(drop);
    let Err(Error::Invalid { place: crate::error::Place::Pointer(pointer), .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(pointer, "/1/picture");
    assert!(read(&database).unwrap() == picture);
    merge(br#"{"picture":null}"#).unwrap();
    let refused = merge(own);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "it is not there any more: {refused:?}");
    assert_consistent(&database);
}

#[test]
fn preconditions_are_of_the_blob_and_hold_to_the_end() {
    let (_folder, database) = filled();
    let stale = |outcome: Result<Upload>| matches!(outcome, Err(Error::Stale));
    assert!(stale(begin(&database, Precondition::Exists)) && stale(begin(&database, Precondition::OneOf(vec![1]))));
    let mut first = begin(&database, Precondition::Absent).unwrap();
    let mut second = begin(&database, Precondition::Absent).unwrap();
    fill(&mut first, b"first", 2);
    fill(&mut second, &bytes(300_000, 0), 1000);
    let ended = finish(&mut first, &database).unwrap();
    assert!(matches!(finish(&mut second, &database), Err(Error::Stale)), "another was faster");
    drop(second);
    assert!(stale(begin(&database, Precondition::Absent)) && stale(begin(&database, Precondition::OneOf(vec![1]))));
    let remove = |expected| remove(&database, photo(&database), "a b", PICTURE, &expected);
    assert!(matches!(remove(Precondition::OneOf(vec![1])), Err(Error::Stale)));
    assert_eq!(read(&database).unwrap(), b"first");
    let mut next = begin(&database, Precondition::OneOf(vec![1, ended.tag])).unwrap();
    fill(&mut next, b"next", 2);
    let ended = finish(&mut next, &database).unwrap();
    remove(Precondition::OneOf(vec![ended.tag])).unwrap();
    assert_consistent(&database);
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing() {
    let (_folder, database) = filled();
    put(&database, b"before");
    let mut upload = begin(&database, Precondition::None).unwrap();
    fill(&mut upload, &bytes(1_000_000, 0), 1000);
    assert!(upload.is_open() && stored(&database) > 10);
    assert_consistent(&database);
    drop(upload);
    assert_eq!((stored(&database), read(&database).unwrap()), (2, b"before".to_vec()));
    let mut upload = begin(&database, Precondition::None).unwrap();
    fill(&mut upload, &bytes(1_000_000, 0), 1000);
    database.delete(photo(&database), "a b", &Precondition::None).unwrap();
    assert!(matches!(finish(&mut upload, &database), Err(Error::NotFound { .. })));
    drop(upload);
    assert_eq!(stored(&database), 0);
    assert!(matches!(begin(&database, Precondition::None), Err(Error::NotFound { .. })));
    assert_consistent(&database);
}

/// A copy of the store stands for what a killed process leaves.
#[test]
fn what_was_killed_is_removed_when_the_store_is_opened() {
    let (folder, database) = filled();
    let kept = bytes(400_000, 7);
    put(&database, &kept);
    let uploads: Vec<_> = (0..20)
        .map(|seed| {
            let mut upload = begin(&database, Precondition::None).unwrap();
            fill(&mut upload, &bytes(600_000, seed), 10_000);
            upload
        })
        .collect();
    let last = database.begin_upload(photo(&database), "a b").unwrap();
    assert!(stored(&database) > 20 * 8);
    let copy = folder.path().join("copy");
    database.store().checkpoint(&copy).unwrap();
    let survivor = open(&copy);
    assert_eq!(stored(&survivor), 1 + 7);
    assert!(read(&survivor).unwrap() == kept);
    assert!(survivor.begin_upload(photo(&survivor), "a b").unwrap() > last, "no number is used twice");
    assert_consistent(&survivor);
    // The process that was not killed continues.
    let mut uploads = uploads.into_iter();
    finish(&mut uploads.next().unwrap(), &database).unwrap();
    drop(uploads);
    assert!(read(&database).unwrap() == bytes(600_000, 0));
    assert_consistent(&database);
}

#[test]
fn a_truncation_ends_uploads_that_are_under_way() {
    let (_folder, database) = filled();
    let upload = |length| {
        let mut upload = begin(&database, Precondition::None).unwrap();
        fill(&mut upload, &bytes(length, 0), 1000);
        upload
    };
    let uploads = [upload(10), upload(1_000_000)];
    let deed = database.table("Deed").unwrap();
    let mut other = Upload::begin(&database, deed, "a b", 1, "text/plain", Precondition::None).unwrap();
    database.truncate(photo(&database)).unwrap();
    database.create(photo(&database), br#"{"id":"a b"}"#).unwrap();
    for mut upload in uploads {
        fill(&mut upload, &bytes(1_000_000, 0), 1000);
        assert!(matches!(finish(&mut upload, &database), Err(Error::NotFound { .. })), "its first chunks are gone");
    }
    finish(&mut other, &database).unwrap();
    assert_eq!(stored(&database), 0);
    put(&database, b"after");
    assert_consistent(&database);
}

/// Replaces the bytes of a chunk and keeps the old checksum.
fn damage(database: &Database, chunk: u32) {
    let upload = database.read(photo(database), "a b").unwrap().unwrap().upload(PICTURE).unwrap();
    let key = key::chunk(photo(database).id, upload, chunk);
    let mut stored = database.store().get(Space::Blobs, &key, ReadTier::Disk).unwrap().unwrap().to_vec();
    stored[1000] ^= 1;
    let mut batch = Batch::default();
    database.store().put(&mut batch, Space::Blobs, &key, &stored);
    database.store().write(&mut batch, crate::schema::Durability::Soft).unwrap();
}

#[test]
fn damage_is_found_before_a_byte_is_used() {
    let (_folder, database) = filled();
    let whole = bytes(PIECE_BYTES + CHUNK_BYTES + 5, 0);
    put(&database, &whole);
    damage(&database, 4);
    let mut reader = reader(&database).unwrap();
    assert!(reader.next(&database).unwrap() == whole[..PIECE_BYTES]);
    assert!(matches!(reader.next(&database), Err(Error::Corrupt { .. })));
    reader.select(PIECE_BYTES as u64 + CHUNK_BYTES as u64..whole.len() as u64);
    assert!(reader.next(&database).unwrap() == whole[PIECE_BYTES + CHUNK_BYTES..], "the others are whole");
    let found = disagreements(&database).unwrap();
    assert!(
        found.len() == 1 && found[0].contains("/Photo/a%20b/picture") && found[0].contains("checksum"),
        "{found:?}"
    );
    put(&database, &whole);
    assert_consistent(&database);
}

#[test]
fn what_does_not_agree_is_told() {
    let (_folder, database) = filled();
    let table = photo(&database).id;
    let write = |stage: &dyn Fn(&mut Batch)| {
        let mut batch = Batch::default();
        stage(&mut batch);
        database.store().write(&mut batch, crate::schema::Durability::Soft).unwrap();
    };
    let found = |expected: &str| {
        let found = disagreements(&database).unwrap();
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    };
    let store = database.store();
    write(&|batch| store.put(batch, Space::Blobs, &key::chunk(table, 999, 0), b"12345678x"));
    found("upload 999: not referenced by any record");
    write(&|batch| store.put(batch, Space::Blobs, &key::under_way(table, 999), b""));
    assert_consistent(&database);
    put(&database, &bytes(300_000, 0));
    let upload = database.read(photo(&database), "a b").unwrap().unwrap().upload(PICTURE).unwrap();
    write(&|batch| store.delete(batch, Space::Blobs, &key::chunk(table, upload, 3)));
    found("/Photo/a%20b/picture: it has 4 of 5 chunks");
    write(&|batch| store.delete(batch, Space::Blobs, &key::upload(table, upload)));
    found("/Photo/a%20b/picture: it has no manifest");
    assert!(matches!(read(&database), Err(Error::Corrupt { .. })));
    write(&|batch| {
        store.delete_range(batch, Space::Blobs, &key::upload(table, upload), &key::upload(table, upload + 1))
    });
    found("/Photo/a%20b/picture: its bytes are missing");
    put(&database, b"new");
    assert_consistent(&database);
}

#[test]
fn what_is_not_in_memory_is_not_read_where_nobody_may_wait() {
    let (folder, database) = filled();
    put(&database, &bytes(300_000, 0));
    database.store().flush().unwrap();
    drop(database);
    let database = open(folder.path());
    assert!(matches!(reader(&database.never_blocking()), Err(Error::WouldBlock)));
    let warm = reader(&database).unwrap();
    assert_eq!(warm.length_bytes(), 300_000);
    let mut cold = reader(&database.never_blocking()).expect("record and manifest are in the cache now");
    assert!(matches!(cold.next(&database.never_blocking()), Err(Error::WouldBlock)));
    assert!(read(&database).unwrap() == bytes(300_000, 0));
    let mut warm = reader(&database.never_blocking()).unwrap();
    assert!(warm.next(&database.never_blocking()).is_ok(), "the cache of blobs has it now");
}

#[test]
fn attributes_that_are_no_blobs_are_refused() {
    let (_folder, database) = filled();
    let (table, long) = (photo(&database), "x".repeat(MEDIA_TYPE_BYTES + 1));
    for (attribute, media_type) in [(1, "text/plain"), (9, "text/plain"), (PICTURE, &long[..])] {
        let outcome = Upload::begin(&database, table, "a b", attribute, media_type, Precondition::None);
        assert!(matches!(outcome, Err(Error::Invalid { .. })));
    }
    assert!(matches!(remove(&database, table, "a b", 1, &Precondition::None), Err(Error::Invalid { .. })));
    assert_eq!(url::blob("Photo", "a b", "picture"), begin(&database, Precondition::None).unwrap().path());
}

#[test]
fn a_strong_table_has_its_blob_synced() {
    let (_folder, database) = filled();
    let deed = database.table("Deed").unwrap();
    for length in [10, 1_000_000] {
        let mut upload = Upload::begin(&database, deed, "a b", 1, "text/plain", Precondition::None).unwrap();
        fill(&mut upload, &bytes(length, 0), 10_000);
        let before = database.counters().syncs;
        finish(&mut upload, &database).unwrap();
        assert_eq!(database.counters().syncs, before + 1);
        let leaving = database.deferring_syncs();
        let mut upload = Upload::begin(&database, deed, "a b", 1, "text/plain", Precondition::None).unwrap();
        fill(&mut upload, &bytes(length, 1), 10_000);
        finish(&mut upload, &leaving).unwrap();
        assert!(leaving.has_deferred_sync() && database.counters().syncs == before + 1);
    }
}
