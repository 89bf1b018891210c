//! What was acknowledged as `strong` survives a power cut; of what is `soft`, the beginning does, and indexes agree with records.
//!
//! The victim writes to a disk that forgets what was not synced (disk.cc). After the kill the data directory is made anew of what
//! that disk still has, and opened.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs};

use strata::schema::Durability;

use super::{THREADS, Victim, WRITER, missing, open};
use crate::engine::{Random, ids, json};

/// The folder of the modelled disk.
pub(super) const DISK: &str = "POWER_CUT_DISK";

/// The library, compiled.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (library, beside) = (folder.join("disk.so"), folder.join(format!("disk.so.{}", std::process::id())));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash/disk.cc");
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let compiled =
        Command::new(compiler).args(["-shared", "-fPIC", "-O1", "-o"]).arg(&beside).arg(source).arg("-ldl").status();
    assert!(compiled.expect("RocksDB was compiled by it").success());
    fs::rename(&beside, &library).expect("a folder of our own");
    library
});

/// What a sync of a log does.
#[derive(Clone, Copy)]
pub(super) enum Syncs {
    Kept,
    /// They take long, so that what is told before their end is told while they last.
    Slow,
    Ignored,
}

/// What came of a power cut.
pub(super) struct Cut {
    pub(super) acknowledged: HashMap<String, String>,
    /// Syncs of logs.
    syncs: usize,
}

/// Returns a command that runs this program with its data on a modelled disk.
pub(super) fn on_disk(disk: &Path, data: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.env("LD_PRELOAD", &*LIBRARY).env("POWER_CUT_ROOT", data).env(DISK, disk);
    command
}

/// Lets a victim write on `data` until so many are acknowledged, cuts the power, and puts what is left in its place.
pub(super) fn cut(test: &str, data: &Path, durability: Durability, round: usize, count: usize, syncs: Syncs) -> Cut {
    let disk = tempfile::tempdir().expect("there is a temporary directory");
    let mut command = on_disk(disk.path(), data);
    match syncs {
        Syncs::Kept => &mut command,
        Syncs::Slow => command.env("POWER_CUT_SYNCS", "slow"),
        Syncs::Ignored => command.env("POWER_CUT_SYNCS", "ignored"),
    };
    let mut victim = Victim::run(command, test, data, durability, round);
    assert!(victim.read(count), "the victim ended by itself: {:?}", victim.refusals);
    let acknowledged = victim.kill();
    fs::remove_dir_all(data).expect("nobody has it open");
    fs::create_dir(data).expect("it was removed");
    let listing = fs::read_to_string(disk.path().join("listing")).expect("its names were synced");
    for (name, number) in listing.lines().filter_map(|line| line.split_once('\t')) {
        // One that was never synced is there, and empty.
        let bytes = fs::read(disk.path().join(number)).unwrap_or_default();
        fs::write(data.join(name), bytes).expect("there is room");
    }
    let syncs = fs::read_to_string(disk.path().join("syncs")).map_or(0, |text| text.parse().expect("a number"));
    Cut { acknowledged, syncs }
}

#[test]
fn strong_writes_survive_a_power_cut() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    let (mut random, mut all) = (Random(0xCAFE), HashMap::new());
    for round in 0..10 {
        let Cut { acknowledged, syncs } =
            cut(WRITER, data.path(), Durability::Strong, round, 1 + random.below(600), Syncs::Kept);
        assert!(acknowledged.len() <= (syncs + 1) * THREADS, "{} by {syncs} syncs", acknowledged.len());
        all.extend(acknowledged);
        let database = open(data.path(), "strong").expect("what a power cut leaves opens");
        assert_eq!(missing(&database, &all), 0, "of {} acknowledged", all.len());
        assert_eq!(database.disagreements().expect("readable"), Vec::<String>::new());
        let unacknowledged = ids(&database, "Item").len() - all.len();
        assert!(unacknowledged <= (round + 1) * THREADS, "each thread writes one record at a time: {unacknowledged}");
        all.extend(stored(&database));
    }
}

/// The mails and ids of all records.
fn stored(database: &strata::transaction::Database) -> HashMap<String, String> {
    let mail = |id: &String| json(database, "Item", id)["mail"].as_str().expect("each has one").to_owned();
    ids(database, "Item").into_iter().map(|id| (mail(&id), id)).collect()
}

#[test]
fn of_soft_writes_a_power_cut_leaves_the_beginning() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    let (mut random, mut lost, mut kept) = (Random(0xD15C), 0, 0);
    for round in 0..10 {
        let Cut { acknowledged, syncs } =
            cut(WRITER, data.path(), Durability::Soft, round, 1 + random.below(4000), Syncs::Kept);
        assert!(syncs < 10 + acknowledged.len() / 10, "{} by {syncs} syncs", acknowledged.len());
        let database = open(data.path(), "soft").expect("what a power cut leaves opens");
        assert_eq!(database.disagreements().expect("readable"), Vec::<String>::new());
        let stored = stored(&database);
        let mut numbers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for mail in stored.keys() {
            let (thread, number) = mail.rsplit_once('-').expect("round-thread-number");
            numbers.entry(thread.to_owned()).or_default().push(number.parse().expect("a number"));
        }
        for (thread, mut numbers) in numbers {
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..numbers.len()), "of {thread} the beginning is left: {numbers:?}");
        }
        let left = acknowledged.keys().filter(|mail| stored.contains_key(*mail)).count();
        (kept, lost) = (kept + left, lost + acknowledged.len() - left);
        let left = acknowledged.into_iter().filter(|(mail, _)| stored.contains_key(mail)).collect();
        assert_eq!(missing(&database, &left), 0, "what is left is whole");
    }
    assert!(lost > 0 && kept > 0, "the disk forgets, and not all: {lost} lost, {kept} kept");
}

/// A test that finds nothing without the syncs would prove nothing with them.
#[test]
fn a_log_that_is_not_synced_is_found() {
    let data = tempfile::tempdir().expect("there is a temporary directory");
    let Cut { acknowledged, syncs } = cut(WRITER, data.path(), Durability::Strong, 0, 100, Syncs::Ignored);
    let database = open(data.path(), "strong").expect("what a power cut leaves opens");
    assert!(missing(&database, &acknowledged) > 0);
    assert_eq!(syncs, 0);
}
