//! The guarantees of the engine: atomicity, order, snapshots, and clear errors.

use super::*;
use tempfile::TempDir;

fn options() -> Options {
    Options { cache_bytes: 8 << 20, write_buffer_bytes: 8 << 20, ..Options::default() }
}

fn store_in(directory: &Path) -> Result<Store> {
    Store::open(directory, &options())
}

fn fresh() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(directory.path()).unwrap();
    (directory, store)
}

/// The descriptors of files in a directory.
fn open_in(directory: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter_map(|file| fs::read_link(file.path()).ok()).filter(|file| file.starts_with(directory)).count()
}

#[test]
fn files_that_are_open_have_a_bound() {
    const BLOBS: usize = 60;
    let directory = tempfile::tempdir().unwrap();
    let options = Options { open_files: Some(20), automatic_compactions: false, ..options() };
    let value = |number: usize| char::from(b'a' + (number % 26) as u8).to_string().repeat(8 << 10);
    // As it is after they were written, and as it is after a start that finds them.
    for written in [false, true] {
        let store = Store::open(directory.path(), &options).unwrap();
        for number in 0..BLOBS {
            if !written {
                put(&store, Space::Blobs, &format!("{number:03}"), &value(number));
                store.flush().unwrap();
            }
        }
        for number in 0..BLOBS {
            assert_eq!(get(&store, Space::Blobs, &format!("{number:03}")), Some(value(number)));
        }
        assert_eq!(scanned(&store, Space::Blobs, "", "").unwrap().len(), BLOBS);
        // The cache of open files, and what is always open.
        assert!(open_in(directory.path()) <= 10 + 16, "{}", open_in(directory.path()));
    }
    let store = Store::open(directory.path(), &Options { open_files: None, ..options }).unwrap();
    assert!(store.options().open_files.unwrap() > 20, "by default it depends on the limit of the process");
}

fn put(store: &Store, space: Space, key: &str, value: &str) {
    let mut batch = Batch::default();
    store.put(&mut batch, space, key.as_bytes(), value.as_bytes());
    store.write(&batch, Durability::Soft).unwrap();
}

fn get(store: &Store, space: Space, key: &str) -> Option<String> {
    let value = store.get(space, key.as_bytes(), ReadTier::Disk).unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn scanned(store: &Store, space: Space, lower: &str, upper: &str) -> Result<Vec<String>> {
    let snapshot = store.snapshot();
    let mut scan = store.scan(space, lower.as_bytes(), upper.as_bytes(), &snapshot, ReadTier::Disk);
    let mut keys = Vec::new();
    while let Some((key, value)) = scan.next()? {
        keys.push(format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value)));
    }
    Ok(keys)
}

/// A closed store of a thousand records in one sorted file.
fn settled() -> TempDir {
    let (directory, store) = fresh();
    let mut batch = Batch::default();
    for number in 0..1000u64 {
        // Multiples of an odd number look random, so that blocks stay long under compression.
        let value = (1..9).map(|step| format!("{:016x}", (number * 8 + step).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        store.put(&mut batch, Space::Records, &number.to_be_bytes(), value.collect::<String>().as_bytes());
    }
    store.write(&batch, Durability::Soft).unwrap();
    store.flush().unwrap();
    directory
}

/// Everything in a store, or the first error of opening and reading it.
fn contents(directory: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let store = store_in(directory)?;
    let (snapshot, mut all) = (store.snapshot(), Vec::new());
    let mut scan = store.scan(Space::Records, &[], &[], &snapshot, ReadTier::Disk);
    while let Some((key, value)) = scan.next()? {
        all.push((key.to_vec(), value.to_vec()));
    }
    for (key, value) in &all {
        assert_eq!(store.get(Space::Records, key, ReadTier::Disk)?.as_deref(), Some(value.as_slice()));
    }
    Ok(all)
}

fn copy(directory: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(directory).unwrap() {
        let file = file.unwrap();
        if file.path().is_file() {
            fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
        }
    }
    copy
}

fn file_named(directory: &Path, part: &str) -> std::path::PathBuf {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let named = files.filter(|path| path.file_name().unwrap().to_string_lossy().contains(part));
    named.max_by_key(|path| fs::metadata(path).unwrap().len()).expect("the file exists")
}

/// Asserts an error that says in one line what is wrong.
fn assert_refused<T>(outcome: Result<T>, words: &str) {
    let error = outcome.err().expect("it should have been refused");
    assert!(matches!(error, Error::Corrupt { .. } | Error::Storage { .. }), "{error:?}");
    assert!(error.to_string().contains(words) && !error.to_string().contains('\n'), "{error}");
}

#[test]
fn a_batch_is_written_whole_and_in_its_order() {
    let (_directory, store) = fresh();
    put(&store, Space::Records, "a", "old");
    let mut batch = Batch::default();
    assert!(batch.is_empty());
    store.put(&mut batch, Space::Records, b"a", b"new");
    store.put(&mut batch, Space::Indexes, b"i", b"");
    store.put(&mut batch, Space::Records, b"b", b"1");
    store.delete(&mut batch, Space::Records, b"b");
    store.put(&mut batch, Space::Indexes, b"r1", b"");
    store.delete_range(&mut batch, Space::Indexes, b"r", b"s");
    store.put(&mut batch, Space::Indexes, b"r2", b"");
    assert!(!batch.is_empty());
    assert_eq!(get(&store, Space::Records, "a").as_deref(), Some("old"), "nothing is visible before the write");
    store.write(&batch, Durability::Soft).unwrap();
    assert_eq!(scanned(&store, Space::Records, "", "").unwrap(), ["a=new"]);
    assert_eq!(scanned(&store, Space::Indexes, "", "").unwrap(), ["i=", "r2="]);
}

#[test]
fn a_batch_that_is_cleared_is_forgotten() {
    let (_directory, store) = fresh();
    for bytes in [10, 2 << 20] {
        let mut batch = Batch::default();
        store.put(&mut batch, Space::Records, b"a", &vec![b'x'; bytes]);
        batch.clear();
        assert!(batch.is_empty());
        store.write(&batch, Durability::Soft).unwrap();
        assert_eq!(get(&store, Space::Records, "a"), None);
    }
}

/// Writers put a pair of keys that must be equal; a reader must never see them differ.
#[test]
fn no_reader_sees_half_a_batch() {
    let (_directory, store) = fresh();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..2000u32 {
                let mut batch = Batch::default();
                store.put(&mut batch, Space::Records, b"one", &number.to_be_bytes());
                store.put(&mut batch, Space::Indexes, b"two", &number.to_be_bytes());
                store.write(&batch, Durability::Soft).unwrap();
            }
        });
        while !writer.is_finished() {
            let snapshot = store.snapshot();
            let read = |space, key: &str| {
                let values = store.multi_get(space, &[key], &snapshot, ReadTier::Disk).unwrap();
                values[0].as_ref().map(|value| value.to_vec())
            };
            assert_eq!(read(Space::Records, "one"), read(Space::Indexes, "two"));
        }
    });
}

#[test]
fn a_scan_keeps_to_its_bounds_and_its_space() {
    let (_directory, store) = fresh();
    for key in ["b", "a", "bb", "c", "d"] {
        put(&store, Space::Indexes, key, "");
    }
    put(&store, Space::Records, "bx", "");
    let keys = |lower: &str, upper: &str| {
        let snapshot = store.snapshot();
        let (from, to) = (lower.as_bytes(), upper.as_bytes());
        let mut scan = store.scan_backwards(Space::Indexes, from, to, &snapshot, ReadTier::Disk);
        let mut descending = Vec::new();
        while let Some((key, _)) = scan.next().unwrap() {
            descending.push(format!("{}=", String::from_utf8_lossy(key)));
        }
        assert!(scan.next().unwrap().is_none(), "the end stays the end");
        let ascending = scanned(&store, Space::Indexes, lower, upper).unwrap();
        assert!(descending.iter().rev().eq(&ascending), "{descending:?} {ascending:?}");
        ascending.concat()
    };
    assert_eq!(keys("b", "d"), "b=bb=c=");
    assert_eq!(keys("", "b"), "a=");
    assert_eq!(keys("c", ""), "c=d=");
    assert_eq!(keys("ba", "bb"), "");
    assert_eq!(keys("x", ""), "");
    assert_eq!(keys("", ""), "a=b=bb=c=d=");
    let snapshot = store.snapshot();
    let mut scan = store.scan(Space::Indexes, b"d", b"", &snapshot, ReadTier::Disk);
    assert!(scan.next().unwrap().is_some());
    assert!(scan.next().unwrap().is_none() && scan.next().unwrap().is_none(), "the end stays the end");
}

#[test]
fn many_values_come_in_the_order_of_their_keys_with_gaps() {
    let (_directory, store) = fresh();
    for key in ["a", "c", "e"] {
        put(&store, Space::Records, key, key);
    }
    for flushed in [false, true] {
        if flushed {
            store.flush().unwrap();
        }
        let snapshot = store.snapshot();
        let read = |keys: &[&str]| {
            let values = store.multi_get(Space::Records, keys, &snapshot, ReadTier::Disk).unwrap();
            let text = |value: Option<crate::storage::Pinned<'_>>| {
                value.map_or("-".to_owned(), |v| String::from_utf8(v.to_vec()).unwrap())
            };
            values.into_iter().map(text).collect::<String>()
        };
        assert_eq!(read(&["a", "b", "c", "d", "e", "f"]), "a-c-e-");
        assert_eq!(read(&["c"]), "c");
        assert_eq!(read(&["d"]), "-");
        assert_eq!(read(&["a", "a", "c"]), "aac");
        assert_eq!(read(&[]), "");
    }
}

#[test]
fn a_snapshot_does_not_change() {
    let (_directory, store) = fresh();
    put(&store, Space::Records, "a", "1");
    put(&store, Space::Records, "b", "1");
    let snapshot = store.snapshot();
    put(&store, Space::Records, "a", "2");
    put(&store, Space::Records, "c", "2");
    let mut batch = Batch::default();
    store.delete_range(&mut batch, Space::Records, b"b", b"c");
    store.write(&batch, Durability::Soft).unwrap();
    store.compact().unwrap();
    let values = store.multi_get(Space::Records, &["a", "b", "c"], &snapshot, ReadTier::Disk).unwrap();
    let values: Vec<_> = values.iter().map(|value| value.as_deref()).collect();
    assert_eq!(values, [Some(b"1".as_slice()), Some(b"1"), None]);
    let mut scan = store.scan(Space::Records, b"", b"", &snapshot, ReadTier::Disk);
    assert_eq!(scan.next().unwrap(), Some((b"a".as_slice(), b"1".as_slice())));
    assert_eq!(scan.next().unwrap(), Some((b"b".as_slice(), b"1".as_slice())));
    assert_eq!(scan.next().unwrap(), None);
    assert_eq!(scanned(&store, Space::Records, "", "").unwrap(), ["a=2", "c=2"]);
}

#[test]
fn calls_and_background_work_are_counted() {
    let (_directory, store) = fresh();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..100 {
                    put(store, Space::Records, &format!("{thread} {number}"), "value");
                    get(store, Space::Records, "x");
                }
            });
        }
    });
    let snapshot = store.snapshot();
    store.multi_get(Space::Records, &["a", "b"], &snapshot, ReadTier::Disk).unwrap();
    scanned(&store, Space::Records, "", "").unwrap();
    let counters = store.counters();
    assert_eq!((counters.gets, counters.writes, counters.multi_gets, counters.scans), (800, 800, 1, 1));
    assert_eq!((counters.syncs, counters.flushes, counters.compactions), (0, 0, 0));
    assert!(counters.batch_bytes >= 800 * 8);
    store.compact().unwrap();
    let counters = store.counters();
    assert!(counters.flushes > 0 && counters.flushed_bytes > 0, "{counters:?}");
}

/// Keys without values, like index entries: much of such a file is filter and index.
#[test]
fn the_whole_of_a_file_counts_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &Options { automatic_compactions: false, ..Options::default() }).unwrap();
    // Two files of the same keys; otherwise there would be nothing to rewrite.
    for number in (0..50_000).chain(0..50_000) {
        put(&store, Space::Indexes, &format!("{number:08}"), "");
        if number == 49_999 {
            store.flush().unwrap();
        }
    }
    assert_eq!(store.counters().flushed_bytes, store.gauges().unwrap().sorted_bytes);
    store.compact().unwrap();
    assert_eq!(store.counters().compacted_bytes, store.gauges().unwrap().sorted_bytes);
}

#[test]
fn only_a_strong_write_waits_for_a_sync() {
    let (directory, store) = fresh();
    put(&store, Space::Records, "soft", "");
    assert_eq!(store.counters().syncs, 0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..25 {
                    let mut batch = Batch::default();
                    let bytes = if number == 24 { 2 * super::MERGED_BYTES } else { number };
                    let value = "v".repeat(bytes);
                    let key = format!("strong {thread} {number}");
                    store.put(&mut batch, Space::Records, key.as_bytes(), value.as_bytes());
                    store.write(&batch, Durability::Strong).unwrap();
                }
            });
        }
    });
    assert!(store.counters().syncs >= 25, "each thread has waited for so many, one after the other");
    drop(store);
    let store = store_in(directory.path()).unwrap();
    let found = scanned(&store, Space::Records, "", "").unwrap();
    let values: usize = found.iter().filter_map(|entry| entry.split_once('=')).map(|(_, value)| value.len()).sum();
    assert_eq!((found.len(), values), (201, 8 * ((0..24).sum::<usize>() + 2 * super::MERGED_BYTES)));
}

#[test]
fn what_takes_long_is_not_read_where_others_wait() {
    let (_directory, store) = fresh();
    put(&store, Space::Records, "long", &"v".repeat(super::LONG_VALUE_BYTES + 1));
    assert!(matches!(store.get(Space::Records, b"long", ReadTier::Memory), Err(Error::WouldBlock)));
    assert_eq!(store.get(Space::Records, b"long", ReadTier::Disk).unwrap().unwrap().len(), super::LONG_VALUE_BYTES + 1);

    let mut batch = Batch::default();
    (0..=super::SKIPPED_KEYS).for_each(|key| store.put(&mut batch, Space::Indexes, &key.to_be_bytes(), b""));
    store.write(&batch, Durability::Soft).unwrap();
    batch.clear();
    (0..=super::SKIPPED_KEYS).for_each(|key| store.delete(&mut batch, Space::Indexes, &key.to_be_bytes()));
    store.write(&batch, Durability::Soft).unwrap();
    let snapshot = store.snapshot();
    let first = |tier| store.scan(Space::Indexes, b"", b"", &snapshot, tier).next().map(|entry| entry.is_some());
    assert!(matches!(first(ReadTier::Memory), Err(Error::WouldBlock)));
    assert!(!first(ReadTier::Disk).unwrap());
}

#[test]
fn calls_are_counted_whatever_threads_come_and_go() {
    let (_directory, store) = fresh();
    for _ in 0..3 {
        std::thread::scope(|scope| {
            for _ in 0..2 * crate::storage::striped::STRIPES {
                scope.spawn(|| assert!(store.get(Space::Records, b"none", ReadTier::Disk).unwrap().is_none()));
            }
        });
    }
    assert_eq!(store.counters().gets, 3 * 2 * crate::storage::striped::STRIPES as u64);
}

#[test]
fn what_is_not_in_memory_would_block() {
    let directory = settled();
    let store = store_in(directory.path()).unwrap();
    let (key, other) = (500u64.to_be_bytes(), 501u64.to_be_bytes());
    let snapshot = store.snapshot();
    let get = |tier| store.get(Space::Records, &key, tier).map(|value| value.map(|value| value.to_vec()));
    let many = |tier| store.multi_get(Space::Records, &[key, other], &snapshot, tier).map(|values| values.len());
    let one_of_many = |tier| store.multi_get(Space::Records, &[key], &snapshot, tier).map(|values| values.len());
    let scan = |tier| {
        let mut scan = store.scan(Space::Records, &key, &[], &snapshot, tier);
        scan.next().map(|entry| entry.map(|(key, _)| key.to_vec()))
    };
    assert!(matches!(get(ReadTier::Memory), Err(Error::WouldBlock)));
    assert!(matches!(many(ReadTier::Memory), Err(Error::WouldBlock)));
    assert!(matches!(one_of_many(ReadTier::Memory), Err(Error::WouldBlock)));
    assert!(matches!(scan(ReadTier::Memory), Err(Error::WouldBlock)));
    let from_disk = get(ReadTier::Disk).unwrap();
    assert!(from_disk.is_some());
    assert_eq!(get(ReadTier::Memory).unwrap(), from_disk, "the block is in the cache now");
    assert_eq!(many(ReadTier::Memory).unwrap(), 2);
    assert_eq!(scan(ReadTier::Memory).unwrap().as_deref(), Some(key.as_slice()));
    put(&store, Space::Records, "new", "written just now");
    assert!(store.get(Space::Records, b"new", ReadTier::Memory).unwrap().is_some());
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    let ((_directory, store), place) = (fresh(), tempfile::tempdir().unwrap());
    put(&store, Space::Records, "a", "1");
    let copy = place.path().join("copy");
    store.checkpoint(&copy).unwrap();
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o700, "whatever the mask of the process");
    assert!(matches!(store.checkpoint(&copy), Err(Error::Invalid { .. })), "it exists");
    fs::create_dir(place.path().join("other.partial")).unwrap();
    assert!(matches!(store.checkpoint(&place.path().join("other")), Err(Error::Invalid { .. })), "it is being made");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2, "nothing else is left there");
    put(&store, Space::Records, "b", "2");
    let other = store_in(&copy).unwrap();
    assert_eq!(scanned(&other, Space::Records, "", "").unwrap(), ["a=1"]);
}

#[test]
fn a_directory_has_one_owner() {
    let (directory, store) = fresh();
    let second = store_in(directory.path()).err();
    assert!(matches!(second, Some(Error::Busy { .. })), "{second:?}");
    drop(store);
    assert!(store_in(directory.path()).is_ok());
}

#[test]
fn a_directory_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    assert_refused(store_in(&file.join("data")), "cannot create the data directory");
    assert_refused(store_in(&file), "cannot create the data directory");
}

#[test]
fn a_damaged_data_block_is_corrupt_and_never_another_value() {
    let (directory, mut refused) = (settled(), 0);
    let right = contents(directory.path()).unwrap();
    assert_eq!(right.len(), 1000);
    let sorted = file_named(directory.path(), ".sst");
    let bytes = fs::metadata(&sorted).unwrap().len() as usize;
    for at in (0..bytes).step_by(bytes / 40) {
        let copy = copy(directory.path());
        let path = copy.path().join(sorted.file_name().unwrap());
        let mut content = fs::read(&path).unwrap();
        content[at] ^= 0x10;
        fs::write(&path, content).unwrap();
        match contents(copy.path()) {
            Ok(read) => assert_eq!(read, right, "byte {at}"),
            Err(error) => {
                refused += 1;
                assert!(matches!(error, Error::Corrupt { .. }), "byte {at}: {error:?}");
                assert_refused::<()>(Err(error), "");
            }
        }
    }
    assert!(refused >= 35, "of 40 places nearly all are data: {refused}");
}

#[test]
fn a_sorted_file_cut_short_or_lost_is_refused() {
    let directory = settled();
    let sorted = file_named(directory.path(), ".sst");
    let bytes = fs::metadata(&sorted).unwrap().len();
    for length in [0, 10, bytes / 2, bytes - 1] {
        let copy = copy(directory.path());
        let file = fs::OpenOptions::new().write(true).open(copy.path().join(sorted.file_name().unwrap())).unwrap();
        file.set_len(length).unwrap();
        assert_refused(contents(copy.path()), "");
    }
    fs::remove_file(&sorted).unwrap();
    assert_refused(contents(directory.path()), "");
}

#[test]
fn a_damaged_manifest_is_refused_and_never_another_content() {
    let (directory, mut refused) = (settled(), 0);
    let right = contents(directory.path()).unwrap();
    let manifest = file_named(directory.path(), "MANIFEST");
    let bytes = fs::metadata(&manifest).unwrap().len() as usize;
    for at in (0..bytes).step_by(bytes / 20) {
        let copy = copy(directory.path());
        let path = copy.path().join(manifest.file_name().unwrap());
        let mut content = fs::read(&path).unwrap();
        content[at] ^= 0x10;
        fs::write(&path, content).unwrap();
        match contents(copy.path()) {
            Ok(read) => assert_eq!(read, right, "byte {at}"),
            Err(error) => {
                refused += 1;
                assert_refused::<()>(Err(error), "data directory");
            }
        }
    }
    assert!(refused >= 15, "{refused}");
}

#[test]
fn a_store_without_its_current_file_is_refused_and_left_alone() {
    let directory = settled();
    let cut = copy(directory.path());
    fs::write(cut.path().join("CURRENT"), "").unwrap();
    assert_refused(contents(cut.path()), "data directory");
    // RocksDB itself refuses if there is a log; without one it would remove the sorted files.
    for lost in [["CURRENT", "CURRENT"], ["CURRENT", ".log"]] {
        let (copy, elsewhere) = (copy(directory.path()), tempfile::tempdir().unwrap());
        let files: Vec<_> = fs::read_dir(copy.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        let lost: Vec<_> =
            files.iter().filter(|name| lost.iter().any(|end| name.to_str().unwrap().ends_with(end))).collect();
        for name in &lost {
            fs::rename(copy.path().join(name), elsewhere.path().join(name)).unwrap();
        }
        assert_refused(contents(copy.path()), "data directory");
        for name in &lost {
            fs::rename(elsewhere.path().join(name), copy.path().join(name)).unwrap();
        }
        assert_eq!(contents(copy.path()).unwrap().len(), 1000, "nothing was cleared away");
    }
}

#[test]
fn a_directory_of_other_files_is_no_store_and_left_alone() {
    for name in ["notes.txt", "photo.sst", "access.log", "LOG.txt", "OPTIONS-old"] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), "mine").unwrap();
        for outcome in [store_in(directory.path()), Store::open_read_only(directory.path(), &options())] {
            let error = outcome.err().unwrap();
            assert!(matches!(error, Error::Invalid { .. }) && error.to_string().contains(name), "{error:?}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was added");
    }
    // What is left of a store is none of the rest of it.
    for name in ["000012.sst", "000012.blob", "000012.log", "OPTIONS-000012"] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(name), "").unwrap();
        assert_refused(store_in(directory.path()), "CURRENT");
    }
}

/// At each of these points it may have been interrupted.
#[test]
fn a_first_opening_that_was_interrupted_is_begun_again() {
    let names = ["LOG", "archive", "LOCK", "000000.dbtmp", "IDENTITY", "MANIFEST-000001", "000001.dbtmp"];
    for made in 0..=names.len() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("lost+found")).unwrap();
        for name in &names[..made] {
            let path = directory.path().join(name);
            if *name == "archive" { fs::create_dir(path).unwrap() } else { fs::write(path, "").unwrap() }
        }
        for _ in 0..2 {
            put(&store_in(directory.path()).unwrap(), Space::Records, "a", "1");
        }
    }
}

#[test]
fn the_engine_says_what_it_holds() {
    let (_directory, store) = fresh();
    for number in 0..1000 {
        put(&store, Space::Records, &format!("{number:04}"), &"x".repeat(500));
    }
    let before = store.gauges().unwrap();
    assert!(before.memtable_bytes > 500_000 && before.sorted_bytes == 0, "{before:?}");
    store.compact().unwrap();
    let after = store.gauges().unwrap();
    assert!(after.memtable_bytes < 500_000 && after.sorted_bytes > 0, "{after:?}");
    assert_eq!((after.compaction_debt_bytes, after.stalled_ms), (0, 0));
}

#[test]
fn what_was_overwritten_counts_until_it_is_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { automatic_compactions: false, ..Options::default() };
    let store = Store::open(directory.path(), &options).unwrap();
    let filled = || {
        (0..1000).for_each(|number| put(&store, Space::Records, &format!("{number:04}"), &"x".repeat(500)));
        store.flush().unwrap();
        store.uncompressed_bytes().unwrap()
    };
    let once = filled();
    assert!((504_000..530_000).contains(&once), "{once} bytes, though the engine compresses them");
    assert_eq!(filled(), 2 * once);
    store.compact().unwrap();
    assert_eq!(store.uncompressed_bytes().unwrap(), once);
}

/// Memtables of the minimum size fill faster than a flush ends.
impl Store {
    /// Lets files pile up in level 0, as where compactions do not keep up.
    pub(crate) fn pause_compactions(&self) {
        for space in Space::ALL {
            self.db().set_options_cf(&self.family(space), &[("disable_auto_compactions", "true")]).unwrap();
        }
    }
}

#[test]
fn nobody_waits_for_files_that_are_not_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), &Options { automatic_compactions: false, ..options() }).unwrap();
    for number in 0..30 {
        put(&store, Space::Blobs, &number.to_string(), "value");
        store.flush().unwrap();
        assert!(store.has_room_for(Space::Blobs).unwrap(), "{number}");
    }
}

#[test]
fn writers_that_outrun_the_flushes_are_stalled_and_it_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { write_buffer_bytes: 64 << 10, ..Options::default() };
    let store = Store::open(directory.path(), &options).unwrap();
    let value = "x".repeat(16 << 10);
    let stalled = (0..20_000).any(|number| {
        put(&store, Space::Records, &format!("{number:06}"), &value);
        number % 100 == 0 && store.gauges().unwrap().stalled_ms > 0
    });
    assert!(stalled, "320 MB through memtables of 64 KiB");
}

#[test]
fn a_store_of_before_there_were_blobs_gets_their_space() {
    let directory = tempfile::tempdir().unwrap();
    {
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let families = ["records", "indexes"];
        let before = rocksdb::DB::open_cf(&options, directory.path(), families).unwrap();
        before.put_cf(&before.cf_handle("records").unwrap(), "key", "value").unwrap();
    }
    for _ in 0..2 {
        let store = Store::open(directory.path(), &Options::default()).unwrap();
        assert_eq!(&*store.get(Space::Records, b"key", ReadTier::Disk).unwrap().unwrap(), b"value");
        put(&store, Space::Blobs, "key", &"b".repeat(100_000));
        assert_eq!(store.get(Space::Blobs, b"key", ReadTier::Disk).unwrap().unwrap().len(), 100_000);
        store.flush().unwrap();
        assert!(store.gauges().unwrap().blob_file_bytes > 100_000);
    }
}

#[test]
fn a_store_without_streams_gets_them_when_it_is_opened_for_writing() {
    let (directory, store) = fresh();
    put(&store, Space::Records, "key", "value");
    drop(store);
    let names = rocksdb::DB::list_cf(&rocksdb::Options::default(), directory.path()).unwrap();
    let mut raw = rocksdb::DB::open_cf(&rocksdb::Options::default(), directory.path(), names).unwrap();
    raw.drop_cf("streams").unwrap();
    drop(raw);
    let refused = Store::open_read_only(directory.path(), &options()).err().unwrap().to_string();
    assert!(refused.contains("earlier version") && refused.contains("serve it once"), "{refused}");
    drop(store_in(directory.path()).unwrap());
    let store = Store::open_read_only(directory.path(), &options()).unwrap();
    assert_eq!(store.get(Space::Records, b"key", ReadTier::Disk).unwrap().unwrap()[..], b"value"[..]);
}
