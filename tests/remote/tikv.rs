//! Servers over the double of TiKV: what its client does not tell, and what goes wrong between the two.

use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use strata::encoding::Value;
use strata::error::{Error, Result};
use strata::query::{Limits, Query};
use strata::schema::{Durability, IndexState, Schema};
use strata::storage::{Batch, ReadTier, Space};
use strata::transaction::Database;

use super::databases::{connect, schema, store, url_of};
use super::model;
use crate::brokers::{Broker, or_skipped};
use crate::engine::change;

fn administer(broker: &Broker, path: &str) -> String {
    broker.administer(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns how often each call was made since this was last asked.
fn counts(broker: &Broker) -> impl Fn(&str) -> u64 + use<> {
    let counts: Json = serde_json::from_str(&administer(broker, "/counts")).expect("it is JSON");
    move |name| counts[name].as_u64().unwrap_or(0)
}

/// Increments a record and moves a unique value, and returns how often that was acknowledged.
fn increment(database: &Database, times: usize) -> (i64, i64) {
    let (table, mut done, mut unknown) = (database.table("T").expect("it exists"), 0, 0);
    for _ in 0..times {
        let outcome = database.update(table, "a", |record| match record.value(1)? {
            Value::Int(n) => change(table, "n", Value::Int(n + 1)).with("mail", format!("m{}", n + 1)),
            other => Err(Error::corrupt(format!("{other:?} is no number"))),
        });
        match outcome {
            Ok(_) => done += 1,
            Err(Error::Busy { .. }) => {}
            Err(Error::Unknown { .. }) => unknown += 1,
            Err(other) => panic!("{other}"),
        }
    }
    (done, unknown)
}

fn stored(database: &Database) -> Result<i64> {
    let record = database.read(database.table("T")?, "a")?.expect("it is there");
    match record.value(1)? {
        Value::Int(stored) => Ok(stored),
        other => Err(Error::corrupt(format!("{other:?} is no number"))),
    }
}

/// What the client says of a commit whose answers are all lost is said of one that was not done, too. And whoever rolls such a commit back
/// undoes half of it.
#[test]
fn each_call_may_go_wrong_in_each_way() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let database = connect(&url_of(&broker, "faults"), schema())?;
    database.create(database.table("T")?, br#"{"id": "a", "n": 0}"#)?;
    administer(&broker, "/split?parts=8");
    let calls = [
        "KvPrewrite",
        "KvCommit",
        "KvGet",
        "KvBatchGet",
        "KvCheckTxnStatus",
        "KvResolveLock",
        "KvBatchRollback",
        "Tso",
        "GetRegion",
        "GetStore",
        "GetMembers",
    ];
    let (mut before, mut met) = (stored(&database)?, 0);
    for call in calls {
        // The client tries up to eleven times.
        for (kind, times) in
            [("refused", 1), ("refused", 15), ("lost", 1), ("lost", 15), ("silent", 1), ("late", 1), ("late", 4)]
        {
            administer(&broker, &format!("/fault?rpc={call}&kind={kind}&times={times}"));
            let (done, unknown) = increment(&database, 3);
            let left = administer(&broker, &format!("/fault?rpc={call}&times=0"));
            met += usize::from(left.trim() != times.to_string());
            let after = until_read(&database);
            println!("{call} {kind} {times} times: {done} acknowledged, {unknown} unknown, {} stored", after - before);
            assert!((done..=done + unknown).contains(&(after - before)), "{call} {kind} {times}: {done}, {unknown}");
            before = after;
        }
    }
    // Some calls are made only where another server has left something.
    assert!(met >= 20, "only {met} of the faults were met");
    assert_eq!(database.disagreements()?, [""; 0]);
    Ok(())
}

/// A server has acknowledged a write, and ends before it has told all of its keys. What says that it is done must last.
#[test]
fn what_a_server_has_acknowledged_survives_its_end() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let (soft, url) = (Durability::Soft, url_of(&broker, "ended"));
    let (one, other) = (store(&url)?, store(&url)?);
    // The second call is of all keys but the primary one.
    administer(&broker, "/fault?rpc=KvCommit&kind=refused&after=1&times=1000");
    let mut batch = Batch::default();
    [b"a", b"b"].iter().for_each(|key| one.put(&mut batch, Space::Records, *key, b"1"));
    one.write(&mut batch, soft)?;
    // Longer than it is tried for, and than locks last.
    std::thread::sleep(Duration::from_secs(5));
    let left = administer(&broker, "/fault?rpc=KvCommit&times=0");
    assert_ne!(left.trim(), "1000", "the second call went well");
    drop(one);
    // One that joins removes what the other one has left.
    drop(connect(&url, schema())?);
    for key in [b"a", b"b"] {
        assert_eq!(other.get(Space::Records, key, ReadTier::Disk)?.as_deref(), Some(&b"1"[..]));
    }
    Ok(())
}

/// Reads as soon as it can be.
fn until_read(database: &Database) -> i64 {
    let begun = Instant::now();
    loop {
        match stored(database) {
            Ok(stored) => return stored,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "it cannot be read any more: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_cluster_that_is_disturbed_loses_nothing_and_doubles_nothing() {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return };
    let sleep = |ms: u64| std::thread::sleep(Duration::from_millis(ms));
    let away = |store: &str, ms: u64| {
        administer(&broker, &format!("/stop?store={store}"));
        sleep(ms);
        administer(&broker, &format!("/start?store={store}"));
    };
    let disturb: [(&str, &dyn Fn()); 5] = [
        ("stores are away in turn", &|| ["1", "2", "3"].iter().for_each(|store| away(store, 1000))),
        ("PD is away for 5 s", &|| away("pd", 5000)),
        ("regions split and move", &|| {
            for parts in [4, 16, 64] {
                administer(&broker, &format!("/split?parts={parts}"));
                sleep(500);
                administer(&broker, "/move");
                sleep(500);
            }
        }),
        ("all is frozen for 5 s", &|| drop(administer(&broker, "/freeze?ms=5000"))),
        ("answers of each call are lost", &|| {
            for call in ["KvPrewrite", "KvCommit", "KvBatchGet", "KvScan", "KvCheckTxnStatus", "KvResolveLock"] {
                administer(&broker, &format!("/fault?rpc={call}&kind=lost&times=20"));
                sleep(500);
            }
        }),
    ];
    for (seed, (what, disturb)) in disturb.into_iter().enumerate() {
        let url = url_of(&broker, &format!("model{seed}"));
        let databases: Vec<_> = (0..6).map(|_| connect(&url, model::schema()).expect("it is there")).collect();
        model::prepare(&databases[0]);
        let told = model::ask_meanwhile(&databases, seed as u64, || {
            sleep(200);
            disturb();
        });
        let (counts, wrong) = model::check(&databases, told);
        println!("{what}: {counts}");
        assert!(wrong.is_empty(), "{what}: {}", wrong.join("\n"));
        assert!(counts.acknowledged > 100, "{what}: {counts}");
    }
}

/// The client sends a scan with its whole limit to each region of its range at once.
#[test]
fn a_scan_asks_the_regions_that_it_needs() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let database = connect(&url_of(&broker, "regions"), schema())?;
    let table = database.table("T")?;
    let rows: Vec<_> = (0..2000).map(|number| format!(r#"{{"id": "{number:04}", "n": {number}}}"#)).collect();
    database.create_all(table, format!("[{}]", rows.join(",")).as_bytes())?;
    assert_eq!(administer(&broker, "/split?parts=63").trim(), "63");
    // One that knows nothing of regions yet.
    let database = connect(&url_of(&broker, "regions"), schema())?;
    let table = database.table("T")?;
    let list = |text: &str| -> Result<Vec<String>> {
        let query = Query::parse(database.schema(), table, text, &Limits::in_url(3000))?;
        let mut ids = Vec::new();
        query.run(&database, table, |record| {
            ids.push(record.id()?.into_owned());
            Ok(())
        })?;
        Ok(ids)
    };
    let expected = |numbers: std::ops::Range<usize>| numbers.map(|number| format!("{number:04}")).collect::<Vec<_>>();
    // The first time, the client learns of the regions, too.
    for has_learnt in [false, true] {
        for (text, numbers, scans) in [
            ("sort(id)&limit(20)", 0..20, 1),
            ("n=ge=500&sort(n)&limit(20)", 500..520, 1),
            ("sort(id)&limit(2000)", 0..2000, 40),
        ] {
            drop(counts(&broker));
            assert_eq!(list(text)?, expected(numbers), "{text}");
            let counts = counts(&broker);
            let (scanned, asked) = (counts("KvScan"), counts("GetRegion"));
            println!("{text}: {scanned} scans, {} reads, PD asked {asked} times", counts("KvBatchGet"));
            assert!(!has_learnt || scanned <= scans + 1 && asked == 0, "{text}: {scanned} scans, {asked} regions");
        }
        let mut last = expected(1980..2000);
        last.reverse();
        drop(counts(&broker));
        assert_eq!(list("sort(-id)&limit(20)")?, last);
        assert!(!has_learnt || counts(&broker)("KvScan") <= 2);
        let mut all = expected(0..2000);
        all.reverse();
        assert_eq!(list("sort(-id)&limit(2000)")?, all);
    }
    // What is known of regions is wrong now, and costs no answer.
    administer(&broker, "/split?parts=150");
    administer(&broker, "/move");
    assert_eq!(list("sort(id)&limit(2000)")?, expected(0..2000));
    assert_eq!(list("n=ge=500&sort(n)&limit(20)")?, expected(500..520));
    Ok(())
}

#[test]
fn what_is_too_large_or_not_there_is_refused_by_name() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let url = url_of(&broker, "limits");
    let one = store(&url)?;
    let refused = |bytes: usize, keys: usize, key_bytes: usize| {
        let mut batch = Batch::default();
        for number in 0..keys {
            let key = [vec![b'k'; key_bytes], number.to_be_bytes().to_vec()].concat();
            one.put(&mut batch, Space::Records, &key, &vec![7; bytes]);
        }
        one.write(&mut batch, Durability::Soft)
    };
    for (bytes, keys, key_bytes, said) in [
        ((6 << 20) + 1, 1, 10, "a value of 6291457 bytes: tikv takes 6291456"),
        (5 << 20, 4, 10, "tikv takes 16777216; split it"),
        (1, 20_001, 10, "a transaction of 20001 keys: tikv takes 20000; split it"),
        (1, 1, 4100, "tikv takes 4096"),
    ] {
        let why = refused(bytes, keys, key_bytes).expect_err(said).to_string();
        assert!(why.contains(said), "{why}");
    }
    refused(6 << 20, 1, 10)?;
    refused(1, 19_999, 10)?;
    let database = connect(&url_of(&broker, "truncated"), schema())?;
    assert!(matches!(database.truncate(database.table("T")?), Err(Error::Unsupported { .. })));
    // Nobody is there, or the parameter is of another database.
    let why_not = |url: &str| store(url).err().expect(url).to_string();
    for (name, key, value) in [("theirs", "x", "1"), ("newer", "%00", "strata%209")] {
        administer(&broker, &format!("/put?key=strata_{name}%00{key}&value={value}"));
    }
    for (url, said) in [
        ("tikv://127.0.0.1:1?prefix=x".to_owned(), "the database"),
        (format!("{}&table=x", url_of(&broker, "a")), "prefix, gc and ids are known"),
        (url_of(&broker, "theirs"), "is not one of Strata's"),
        (url_of(&broker, "newer"), "the format \"strata 9\": use a newer program"),
    ] {
        let why = why_not(&url);
        assert!(why.contains(said), "{url}: {why}");
    }
    Ok(())
}

/// The client takes 64 MiB an answer.
#[test]
fn long_values_are_read_a_few_at_a_time() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let store = store(&url_of(&broker, "long"))?;
    let keys: Vec<_> = (0..13).map(|number: u8| vec![number]).collect();
    for key in &keys {
        let mut batch = Batch::default();
        store.put(&mut batch, Space::Records, key, &vec![key[0]; 6 << 20]);
        store.write(&mut batch, Durability::Soft)?;
    }
    let snapshot = store.snapshot(ReadTier::Disk)?;
    until_answered(|| {
        let found = store.multi_get(Space::Records, &keys, &snapshot, ReadTier::Disk)?;
        assert!(found.iter().zip(&keys).all(|(value, key)| value.as_deref().is_some_and(|value| value[0] == key[0])));
        Ok(())
    })?;
    until_answered(|| {
        let mut scan = store.scan(Space::Records, b"", b"", &snapshot, ReadTier::Disk);
        let mut scanned = Vec::new();
        while let Some((key, value)) = scan.next()? {
            assert_eq!((value.len(), value[0]), (6 << 20, key[0]));
            scanned.push(key.to_vec());
        }
        assert_eq!(scanned, keys);
        Ok(())
    })
}

/// Asks again, some times, where a busy machine did not answer within the time of a request.
fn until_answered(ask: impl Fn() -> Result<()>) -> Result<()> {
    for _ in 0..20 {
        match ask() {
            Err(Error::Busy { .. }) => {}
            outcome => return outcome,
        }
    }
    ask()
}

/// A transaction takes 20 000 keys, and a piece of a build has the entries of 64 records.
#[test]
fn an_index_with_many_entries_a_record_is_built() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let (url, sdl) = (url_of(&broker, "entries"), "type T @table { id: ID @primaryKey  tags: [String] }");
    let database = connect(&url, Schema::parse(sdl)?)?;
    for number in 0..60 {
        let tags: Vec<_> = (0..400).map(|tag| format!("{number} {tag}")).collect();
        database.create(database.table("T")?, json!({ "tags": tags }).to_string().as_bytes())?;
    }
    drop(database);
    let database = connect(&url, Schema::parse(&sdl.replace("[String]", "[String] @indexed"))?)?;
    database.catch_up()?;
    assert_eq!(database.disagreements()?, [""; 0]);
    assert!(database.table("T")?.indexes.iter().all(|index| matches!(index.state(), IndexState::Ready { .. })));
    Ok(())
}

#[test]
fn ids_are_random_unless_the_url_says_otherwise() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let version_of = |url: &str| -> Result<char> {
        let database = connect(url, schema())?;
        let record = database.create(database.table("T")?, b"{}")?;
        Ok(record.id()?.chars().nth(14).expect("it is a UUID"))
    };
    let url = url_of(&broker, "ids");
    assert_eq!((version_of(&url)?, version_of(&format!("{url}&ids=v7"))?), ('4', '7'));
    Ok(())
}

#[test]
fn what_nobody_can_read_any_more_is_collected_unless_the_url_says_otherwise() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    for (more, expected) in [("", 1), ("&gc=off", 0)] {
        let url = format!("{}{more}", url_of(&broker, if more.is_empty() { "gc" } else { "no_gc" }));
        let database = connect(&url, schema())?;
        drop(counts(&broker));
        database.catch_up()?;
        database.catch_up()?;
        assert_eq!(counts(&broker)("UpdateGCSafePoint"), expected, "{more}");
    }
    Ok(())
}

/// A server that ends in the middle of a commit leaves locks, which whoever comes next removes.
#[test]
fn locks_of_a_server_that_has_ended_hold_nobody_up_for_long() -> Result<()> {
    let Some(broker) = or_skipped(Broker::tikv_double()) else { return Ok(()) };
    let (soft, url) = (Durability::Soft, url_of(&broker, "locks"));
    let (one, other) = (store(&url)?, store(&url)?);
    // All answers of its commit are lost before it is done, and of the reads that would settle it.
    administer(&broker, "/fault?rpc=KvCommit&kind=refused&times=1000");
    administer(&broker, "/fault?rpc=KvCheckTxnStatus&kind=refused&times=1000");
    let mut batch = Batch::default();
    one.put(&mut batch, Space::Records, b"key", b"1");
    assert!(matches!(one.write(&mut batch, soft), Err(Error::Unknown { .. })));
    administer(&broker, "/fault?rpc=KvCommit&times=0");
    administer(&broker, "/fault?rpc=KvCheckTxnStatus&times=0");
    assert!(other.get(Space::Records, b"key", ReadTier::Disk)?.is_none());
    let mut batch = Batch::default();
    other.put(&mut batch, Space::Records, b"key", b"2");
    other.write(&mut batch, soft)?;
    assert_eq!(one.get(Space::Records, b"key", ReadTier::Disk)?.as_deref(), Some(&b"2"[..]));
    Ok(())
}
