//! The log is read as the engine's own iterator reads it, from every position, across restarts; positions that are not kept are refused.

use super::inspection::LOST;
use super::*;
use crate::schema::Durability;
use crate::storage::ReadTier;
use crate::storage::rocks::{Batch, Options};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Small memtables, so that there are many files; a long archive.
fn open(directory: &Path, log_bytes: usize) -> Store {
    let options = Options {
        cache_bytes: 8 << 20,
        write_buffer_bytes: 256 << 10,
        feed_log_bytes: log_bytes,
        ..Options::default()
    };
    Store::open(directory, &options).unwrap()
}

fn fresh(log_bytes: usize) -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), log_bytes);
    (directory, store)
}

const LONG: usize = 1 << 30;

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Writes a batch of each shape: short, longer than a block, on several spaces, deletes.
fn write_some(store: &Store, random: &mut Random) {
    let mut batch = Batch::default();
    for _ in 0..=random.below(4) {
        let key = format!("key {}", random.below(50));
        let length = [10, 500, 33_000, 100_000][random.below(20).saturating_sub(16)] + random.below(100);
        match random.below(7) {
            0 => store.delete(&mut batch, Space::Records, key.as_bytes()),
            1 => store.delete_range(&mut batch, Space::Records, b"key 7", b"key 8"),
            2 => store.put(&mut batch, Space::Indexes, key.as_bytes(), b""),
            3 => store.put(&mut batch, Space::Meta, key.as_bytes(), b"meta"),
            _ => store.put(&mut batch, Space::Records, key.as_bytes(), &vec![b'x'; length]),
        }
    }
    store.write(&batch, Durability::Soft).unwrap();
}

/// Every batch that the engine's own iterator returns after an operation.
fn by_the_engine(store: &Store, mut behind: u64) -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    while behind < store.latest_sequence() {
        let before = batches.len();
        for batch in store.db().get_updates_since(behind).unwrap() {
            let (_, batch) = batch.unwrap();
            (_, behind) = batch::numbers(batch.data()).unwrap();
            batches.push(batch.data().to_vec());
        }
        assert!(batches.len() > before, "it ends where a file of the log ends, and goes on from there");
    }
    batches
}

/// The same through the reader, with the position after each.
fn by_the_reader(mut reader: LogReader<'_>) -> Result<Vec<(Vec<u8>, LogPosition)>> {
    let mut batches = Vec::new();
    while reader.next()?.is_some() {
        batches.push((reader.batch.clone(), reader.position));
    }
    Ok(batches)
}

/// The puts and deletes, with their sequence numbers.
fn operations(batch: &LoggedBatch<'_>) -> Vec<(u64, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let described = batch.operations().map(|operation| {
        let (sequence, operation) = operation.unwrap();
        let described = match operation {
            Operation::Put { key, value } => format!("put {} {}", text(key), value.len()),
            Operation::Delete { key } => format!("delete {}", text(key)),
            Operation::DeleteRange { lower, upper } => format!("delete {}..{}", text(lower), text(upper)),
        };
        (sequence, described)
    });
    described.collect()
}

fn begin(store: &Store) -> LogPosition {
    let first = *file_numbers(store.db().path()).unwrap().first().unwrap();
    LogPosition { opening: store.openings.of(first).unwrap(), file: first, offset: 0, sequence: 0 }
}

/// Everything that is kept of the log.
fn all(store: &Store) -> Vec<(Vec<u8>, LogPosition)> {
    by_the_reader(store.log_from(Space::Records, begin(store)).unwrap()).unwrap()
}

fn is_gone<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(Error::Gone { .. }))
}

/// A copy of an open store, as a kill would leave it.
fn killed(directory: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (from, to) in [(directory.to_owned(), copy.path().to_owned()), (archive(directory), archive(copy.path()))] {
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
    copy
}

#[test]
fn the_reader_sees_what_the_engine_sees() {
    let (directory, mut store) = fresh(LONG);
    let mut random = Random(1);
    for round in 0..6 {
        for _ in 0..150 {
            write_some(&store, &mut random);
        }
        match round % 3 {
            0 => store.flush().unwrap(),
            1 => {
                drop(store);
                store = open(directory.path(), LONG);
            }
            _ => {}
        }
    }
    assert!(file_numbers(directory.path()).unwrap().len() > 5, "there are several files");
    let ours = all(&store);
    assert_eq!(
        ours.iter().map(|(batch, _)| batch).collect::<Vec<_>>(),
        by_the_engine(&store, 0).iter().collect::<Vec<_>>()
    );
    assert!(
        ours.len() >= 900 && ours.iter().any(|(batch, _)| batch.len() > 3 * (32 << 10)),
        "some span several blocks"
    );
    assert_eq!(ours.last().unwrap().1.sequence, store.latest_sequence());
}

#[test]
fn reading_goes_on_behind_every_operation() {
    let (directory, store) = fresh(LONG);
    let mut random = Random(2);
    for number in 0..120 {
        write_some(&store, &mut random);
        if number % 40 == 20 {
            store.flush().unwrap();
        }
    }
    let mut reader = store.log_from(Space::Records, begin(&store)).unwrap();
    let (mut all, mut positions) = (Vec::new(), Vec::new());
    while let Some(batch) = reader.next().unwrap() {
        let of_batch = operations(&batch);
        positions.extend(of_batch.iter().map(|(sequence, _)| batch.position(*sequence)));
        positions.push(batch.position(batch.last()));
        all.extend(of_batch);
    }
    let copy = killed(directory.path());
    drop(store);
    for directory in [directory.path(), copy.path()] {
        let store = open(directory, LONG);
        write_some(&store, &mut Random(3));
        for position in &positions {
            let mut reader = store.log_from(Space::Records, *position).unwrap();
            assert_eq!(reader.position(), *position);
            let mut rest = Vec::new();
            while let Some(batch) = reader.next().unwrap() {
                rest.extend(operations(&batch));
            }
            let expected: Vec<_> = all.iter().filter(|(sequence, _)| *sequence > position.sequence).cloned().collect();
            assert_eq!(rest[..expected.len()], expected, "{position:?}");
        }
    }
}

#[test]
fn the_end_of_the_log_is_found() {
    let (directory, store) = fresh(LONG);
    let mut random = Random(4);
    for number in 0..100 {
        write_some(&store, &mut random);
        let mut reader = store.log_behind(Space::Records, store.latest_sequence()).unwrap();
        assert!(reader.next().unwrap().is_none());
        let end = reader.position();
        assert_eq!(end.sequence, store.latest_sequence());
        assert!(store.log_from(Space::Records, end).unwrap().next().unwrap().is_none(), "it is a position like others");
        let earlier = store.latest_sequence() - random.below(2) as u64;
        let mut reader = store.log_behind(Space::Records, earlier).unwrap();
        write_some(&store, &mut random);
        assert_eq!(reader.next().unwrap().unwrap().position(0).sequence, 0);
        assert!(reader.position().sequence > earlier);
        if number % 30 == 0 {
            store.flush().unwrap();
        }
    }
    // The newest file is empty now, and the ones before it are gone.
    store.flush().unwrap();
    let sequence = store.latest_sequence();
    drop(store);
    let store = open(directory.path(), LONG);
    fs::remove_dir_all(archive(directory.path())).unwrap();
    let mut reader = store.log_behind(Space::Records, sequence).unwrap();
    let end = reader.position();
    assert!(reader.next().unwrap().is_none());
    write_some(&store, &mut random);
    assert!(reader.next().unwrap().is_some());
    assert!(store.log_from(Space::Records, end).unwrap().next().unwrap().is_some());
}

#[test]
fn positions_that_are_not_there_are_gone() {
    let (_directory, store) = fresh(LONG);
    let mut random = Random(5);
    for _ in 0..20 {
        write_some(&store, &mut random);
    }
    let ours = all(&store);
    let (_, good) = ours[10];
    for wrong in [
        LogPosition { opening: !good.opening, ..good },
        LogPosition { file: good.file + 1, ..good },
        LogPosition { file: u64::MAX, ..good },
        LogPosition { offset: good.offset + 1, ..good },
        LogPosition { offset: good.offset + (32 << 10), ..good },
        LogPosition { offset: u64::MAX, ..good },
        LogPosition { sequence: good.sequence + 1, ..good },
        LogPosition { sequence: store.latest_sequence() + 1, ..ours[19].1 },
        LogPosition { sequence: u64::MAX, ..good },
        LogPosition { sequence: 0, ..good },
        LogPosition { offset: 0, ..good },
    ] {
        assert!(is_gone(store.log_from(Space::Records, wrong)), "{wrong:?}");
    }
}

#[test]
fn only_so_much_is_archived() {
    let most = 1 << 20;
    let (directory, store) = fresh(most);
    let mut random = Random(6);
    write_some(&store, &mut random);
    let first = all(&store)[0].1;
    let archived = || {
        let mut numbers = Vec::new();
        add_numbers(&archive(directory.path()), &mut numbers).unwrap();
        numbers
            .iter()
            .map(|number| fs::metadata(archive(directory.path()).join(file::name(*number))).unwrap().len())
            .sum::<u64>()
    };
    for _ in 0..30 {
        for _ in 0..20 {
            write_some(&store, &mut random);
        }
        store.flush().unwrap();
    }
    assert!(archived() > 0, "something is kept");
    assert!(is_gone(store.log_from(Space::Records, first)), "and the rest is gone");
    trim(directory.path(), most as u64);
    assert!(archived() <= most as u64);
    assert!(is_gone(store.log_from(Space::Records, begin(&store))), "nor does it begin with what is left");
    drop(store);
    drop(open(directory.path(), 0));
    assert_eq!(archived(), 0);
}

/// A copy has the part of the log that the engine needs, and starts its own.
#[test]
fn a_checkpoint_is_a_store_without_the_archive() {
    let (directory, store) = fresh(LONG);
    let mut random = Random(9);
    for _ in 0..3 {
        write_some(&store, &mut random);
        store.flush().unwrap();
    }
    write_some(&store, &mut random);
    let first = all(&store)[0].1;
    let copy = directory.path().join("copy");
    store.checkpoint(&copy).unwrap();
    let copied = open(&copy, LONG);
    assert_eq!(copied.latest_sequence(), store.latest_sequence());
    assert!(is_gone(copied.log_from(Space::Records, first)));
    write_some(&copied, &mut random);
    assert!(copied.log_behind(Space::Records, store.latest_sequence()).unwrap().next().unwrap().is_some());
}

/// A reader slower than the trimming of the archive gets an error, however far it had come.
#[test]
fn what_is_removed_before_it_was_read_is_noticed() {
    let (_directory, store) = fresh(0);
    let mut random = Random(7);
    write_some(&store, &mut random);
    let mut reader = store.log_from(Space::Records, begin(&store)).unwrap();
    assert!(reader.next().unwrap().is_some());
    for _ in 0..3 {
        write_some(&store, &mut random);
        store.flush().unwrap();
    }
    write_some(&store, &mut random);
    assert!(reader.next().unwrap().is_some(), "the file that it reads is still open");
    assert!(is_gone(reader.next().map(drop)));
}

/// A power cut takes the end of the log, and its sequence numbers are assigned again.
#[test]
fn a_log_that_has_lost_its_end_is_not_mistaken_for_another() {
    let (directory, store) = fresh(LONG);
    let mut random = Random(8);
    for _ in 0..40 {
        write_some(&store, &mut random);
    }
    let ours = all(&store);
    let copy = killed(directory.path());
    let (_, kept) = ours[20];
    let lost = &ours[21..];
    let file = copy.path().join(file::name(kept.file));
    let file = fs::File::options().write(true).open(file).unwrap();
    // In the middle of the next batch, the rest of which was not written out.
    file.set_len(lost[0].1.offset + 20).unwrap();
    let store = open(copy.path(), LONG);
    assert_eq!(store.latest_sequence(), kept.sequence);
    for (_, lost) in lost {
        assert!(is_gone(store.log_from(Space::Records, *lost)), "not there, and later than all there is");
    }
    for _ in 0..60 {
        write_some(&store, &mut random);
    }
    assert!(store.latest_sequence() > lost.last().unwrap().1.sequence);
    for (_, lost) in lost {
        assert!(is_gone(store.log_from(Space::Records, *lost)), "not there, though there are as many again");
    }
    let since = by_the_reader(store.log_from(Space::Records, kept).unwrap()).unwrap();
    assert_eq!(since.len(), 60, "the batch of no operations with which the engine marks the cut is none of them");
}

/// Batches without operations take no sequence number: the position after one is the position after the batch before it.
#[test]
fn batches_of_no_operations_are_passed_over() {
    let (_directory, store) = fresh(LONG);
    let mut random = Random(10);
    let mut empty = Batch::default();
    store.put(&mut empty, Space::Records, b"key", b"");
    empty.clear();
    for _ in 0..10 {
        write_some(&store, &mut random);
        store.write(&empty, Durability::Soft).unwrap();
    }
    write_some(&store, &mut random);
    let all = all(&store);
    assert_eq!(all.len(), 11);
    for (before, (_, position)) in all.iter().enumerate() {
        let rest = by_the_reader(store.log_from(Space::Records, *position).unwrap()).unwrap();
        assert_eq!(rest, all[before + 1..], "{position:?}");
    }
}

/// Two copies that both continue write files with the same names, with the same sequence numbers at the same offsets.
#[test]
fn positions_of_a_copy_that_went_its_own_way_are_gone() {
    let (directory, store) = fresh(LONG);
    write_some(&store, &mut Random(11));
    let common = store.log_behind(Space::Records, store.latest_sequence()).unwrap().position();
    drop(store);
    let copy = killed(directory.path());
    let (one, other) = (open(directory.path(), LONG), open(copy.path(), LONG));
    let write = |store: &Store, value: &[u8]| {
        let mut batch = Batch::default();
        store.put(&mut batch, Space::Records, b"key", value);
        store.write(&batch, Durability::Soft).unwrap();
        store.log_behind(Space::Records, store.latest_sequence()).unwrap().position()
    };
    for number in 0..10 {
        let (of_one, of_other) = (write(&one, &[number, 1]), write(&other, &[number, 2]));
        assert_eq!(of_one, LogPosition { opening: of_one.opening, ..of_other }, "they differ in nothing else");
        for (store, own, foreign) in [(&one, of_one, of_other), (&other, of_other, of_one)] {
            assert!(store.log_from(Space::Records, own).unwrap().next().unwrap().is_none());
            assert!(is_gone(store.log_from(Space::Records, foreign)));
            let since = by_the_reader(store.log_from(Space::Records, common).unwrap()).unwrap();
            assert_eq!(since.len(), usize::from(number) + 1, "what both have had is good for both");
        }
    }
}

#[test]
fn the_end_is_followed_while_it_is_written() {
    let (_directory, store) = fresh(LONG);
    let (writers, each) = (3, 400);
    let mut seen = vec![Vec::new(); writers];
    std::thread::scope(|scope| {
        let mut reader = store.log_behind(Space::Records, store.latest_sequence()).unwrap();
        store.wake_after_writes(Some(std::thread::current()));
        for writer in 0..writers {
            let store = &store;
            scope.spawn(move || {
                for number in 0..each {
                    let mut batch = Batch::default();
                    let value = vec![b'v'; if number % 50 == 0 { 70_000 } else { 100 }];
                    store.put(&mut batch, Space::Records, format!("{writer} {number}").as_bytes(), &value);
                    let durability = if writer == 0 { Durability::Strong } else { Durability::Soft };
                    store.write(&batch, durability).unwrap();
                }
            });
        }
        loop {
            while let Some(batch) = reader.next().unwrap() {
                for (_, described) in operations(&batch) {
                    let mut words = described.split(' ').skip(1);
                    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
                    let (writer, number) = (number(), number());
                    seen[writer].push(number);
                }
            }
            if seen.iter().map(Vec::len).sum::<usize>() == writers * each {
                break;
            }
            let (begun, longest) = (Instant::now(), Duration::from_secs(30));
            std::thread::park_timeout(longest);
            assert!(begun.elapsed() < longest, "nobody has woken it");
        }
    });
    assert!(seen.iter().all(|seen| seen.iter().copied().eq(0..each)), "each writer's, in its order, once");
}

/// A closed store after so many writes of 1000 bytes, and the path of its log.
fn closed(durability: Durability) -> (tempfile::TempDir, PathBuf) {
    let (directory, store) = fresh(LONG);
    for number in 0..100 {
        let mut batch = Batch::default();
        store.put(&mut batch, Space::Records, format!("key {number}").as_bytes(), &[b'x'; 1000]);
        store.write(&batch, durability).unwrap();
    }
    drop(store);
    let number = *file_numbers(directory.path()).unwrap().last().unwrap();
    let path = directory.path().join(file::name(number));
    (directory, path)
}

fn flip(path: &Path, position: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 1;
    fs::write(path, &bytes).unwrap();
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

fn kept(directory: &Path) -> usize {
    let store = open(directory, LONG);
    let has = |number: &usize| {
        store.get(Space::Records, format!("key {number}").as_bytes(), ReadTier::Disk).unwrap().is_some()
    };
    (0..100).take_while(has).count()
}

#[test]
fn a_torn_end_that_was_not_synced_is_known() {
    let (directory, path) = closed(Durability::Soft);
    assert!(check(&directory.path().join("none"), false).unwrap().is_empty());
    assert!(check(directory.path(), false).unwrap().is_empty(), "it was closed in order");
    let (whole, damaged) = (length(&path), length(&path) / 2);
    flip(&path, damaged as usize);
    let lost = check(directory.path(), false).unwrap();
    assert_eq!((lost.len(), path.ends_with(&lost[0].file)), (1, true));
    assert!((damaged - 1100..=damaged).contains(&lost[0].offset), "{lost:?} of {whole}");
    assert_eq!(lost[0].offset + lost[0].bytes, whole);
    let kept = kept(directory.path());
    assert!((30..70).contains(&kept), "the engine stops there, too: {kept} records");
}

/// What is done to the log, words of the error, and how many records are left.
type Loss = (fn(&Path), [&'static str; 2], std::ops::Range<usize>);

#[test]
fn what_was_synced_and_is_lost_is_refused_until_it_is_accepted() {
    let losses: [Loss; 5] = [
        (|path| flip(path, length(path) as usize / 2), ["is damaged at byte", "bytes lie behind it"], 30..70),
        (
            |path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(60_000).unwrap(),
            ["is damaged at byte", "lost"],
            30..70,
        ),
        (|path| fs::write(path, "").unwrap(), ["ends at byte 0", "those after 0"], 0..1),
        (|path| fs::remove_file(path).unwrap(), ["the log has no file:", "those after 0"], 0..1),
        (|path| flip(path, 100), ["is damaged at byte 0", "lost"], 0..1),
    ];
    for (lose, words, left) in losses {
        let (directory, path) = closed(Durability::Strong);
        lose(&path);
        for _ in 0..2 {
            let refused = check(directory.path(), false).unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, Error::Corrupt { .. }) && words.iter().all(|word| text.contains(word)), "{text}");
        }
        let damaged = fs::read(&path).ok();
        assert!(check(directory.path(), true).unwrap().is_empty());
        let kept_file = directory.path().join(LOST).join(path.file_name().unwrap());
        assert_eq!(fs::read(kept_file).ok(), damaged, "{words:?}");
        assert!(check(directory.path(), false).unwrap().is_empty(), "the next start needs no flag");
        let kept = kept(directory.path());
        assert!(left.contains(&kept), "{words:?}: {kept}");
    }
}

#[test]
fn the_log_itself_says_what_was_synced() {
    let (directory, path) = closed(Durability::Strong);
    fs::remove_file(directory.path().join("SYNCED")).unwrap();
    let (middle, end) = (length(&path) as usize / 2, length(&path) as usize - 500);
    flip(&path, end);
    assert_eq!(check(directory.path(), false).unwrap().len(), 1, "nobody has noted the last one");
    flip(&path, middle);
    assert!(check(directory.path(), false).unwrap_err().to_string().contains("is damaged"));
}

#[test]
fn a_file_that_is_missing_is_missed() {
    for position in 0..2 {
        let (directory, store) = fresh(LONG);
        let live = || {
            let mut numbers = Vec::new();
            add_numbers(directory.path(), &mut numbers).unwrap();
            numbers.sort_unstable();
            numbers
        };
        // One that is flushed late keeps all files of the log.
        let (mut batch, mut number) = (Batch::default(), 0);
        store.put(&mut batch, Space::Meta, b"key", b"value");
        while live().len() < 3 {
            store.put(&mut batch, Space::Records, format!("key {number}").as_bytes(), &[b'x'; 10_000]);
            store.write(&batch, Durability::Soft).unwrap();
            (batch, number) = (Batch::default(), number + 1);
        }
        store.sync().unwrap();
        drop(store);
        assert!(check(directory.path(), false).unwrap().is_empty());
        fs::remove_file(directory.path().join(file::name(live()[position]))).unwrap();
        let refused = check(directory.path(), false).unwrap_err().to_string();
        assert!(refused.contains("is missing"), "{refused}");
    }
}

#[test]
fn behind_a_flush_a_new_file_is_needed_and_the_old_ones_are_not() {
    for (log_bytes, is_written) in [(0, true), (0, false), (LONG, true), (LONG, false)] {
        let (directory, store) = fresh(log_bytes);
        let write = || {
            let mut batch = Batch::default();
            store.put(&mut batch, Space::Records, b"key", b"value");
            store.write(&batch, Durability::Strong).unwrap();
        };
        write();
        store.flush().unwrap();
        if is_written {
            write();
        }
        drop(store);
        assert!(check(directory.path(), false).unwrap().is_empty());
        // Change feeds alone need it.
        let _ = fs::remove_dir_all(archive(directory.path()));
        assert!(check(directory.path(), false).unwrap().is_empty());
        let oldest = manifest::oldest_log(directory.path()).unwrap();
        for number in numbers_in(directory.path()).unwrap().into_iter().filter(|number| *number >= oldest) {
            fs::remove_file(directory.path().join(file::name(number))).unwrap();
        }
        assert_eq!(check(directory.path(), false).is_err(), is_written);
    }
}
