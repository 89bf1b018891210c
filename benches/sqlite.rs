//! SQLite as a peer: the same records, the same indexes and the same verbs, each through a prepared statement. A module of the benches, not
//! a target.
//!
//! A record is stored as in Strata, as its JSON text, which a read returns unchanged; that is SQLite's fastest way from JSON to JSON. Its
//! id and each indexed attribute are also typed columns. serde_json parses a body into a struct, so that its types are checked as in Strata
//! and the columns have their values; a patch is merged by SQLite's own `json_patch`, and the columns of what it changes are set with it.
//! The table has row ids, as SQLite advises for rows of this size.
//!
//! SQLite gets the same conditions: one process with exclusive access to the file, a cache of the same size, a log of the size at which
//! Strata's memtable is flushed, no sync at commit (`WAL` with `synchronous = NORMAL` survives what `soft` survives: the end of the
//! process, not that of the machine). When the log is full, the writer syncs it and copies it into the file, and pays for that. All its
//! pages, including those of indexes, are in the cache when the clock starts. Statements come from rusqlite's cache, as its users take
//! them: a closure that may go to another thread cannot keep one. SQLite's memory statistics are on, the default; turning them off takes a
//! compile-time option or a call that is not safe Rust, and the facts of its rows state that they are on.
#![allow(dead_code, reason = "a target that measures no peer has none")]

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use serde::Deserialize;
use strata_harness::data::{self, Id, scatter};
use strata_harness::{OrRefused, State};
use tempfile::TempDir;
use uuid::Uuid;

use crate::floor::Promise;
use crate::prepared::{self, Numbered, POOL, bodies, options};
use crate::verbs::{CHANGE, MIX, STOCK, assert_patched, copied, looked_at};

/// A copy of the prepared file, which one worker opens.
pub struct Peer {
    file: PathBuf,
    indexes: u32,
    /// The promise of its worker, if it creates records, and the number of records before.
    promised: OnceLock<(Promise, i64)>,
    _directory: TempDir,
}

impl State for Peer {
    fn verify(&self, operations: u64) {
        let Some((promise, before)) = self.promised.get() else { return };
        // Nothing is deleted in these rows, so row ids have no gaps. The worker, which had exclusive access to the file, is gone.
        let last = "SELECT max(rowid), length(json) FROM product";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let connection = Connection::open(&self.file).expect("a file to open");
        let (stored, bytes) = connection.query_row(last, [], read).expect("a healthy file");
        assert_eq!(stored, before + (promise.records)(operations) as i64, "records stored, left, and promised, right");
        assert!(bytes > 900, "the last record is not whole");
    }
}

impl Peer {
    /// The file with this many records and indexes: the same as in [`crate::prepared::Ours::copy`].
    pub fn copy(indexes: u32, records: u64) -> Self {
        let template = prepared::made(&format!("sqlite-{records}-indexes-{indexes}"), |directory| {
            fill(&directory.join(FILE), indexes, records);
        });
        let directory = prepared::copy_of(&template);
        Self { file: directory.path().join(FILE), indexes, promised: OnceLock::new(), _directory: directory }
    }
}

const FILE: &str = "products.sqlite";
/// SQLite's default.
const PAGE_BYTES: usize = 4096;

/// The state of the file, in the facts.
pub fn state() -> String {
    format!(
        "SQLite {}, one file, all in the cache of {} MiB, WAL of {} MiB, synchronous NORMAL, locking EXCLUSIVE, memory statistics on",
        rusqlite::version(),
        options().cache_bytes >> 20,
        options().write_buffer_bytes >> 20
    )
}

/// Creates one record from a JSON body; the id is made by the program.
pub fn create(peer: Arc<Peer>) -> impl FnMut(u64) -> u64 + Send {
    let (mut client, bodies) = (Client::open(&peer), bodies());
    client.promise(&peer, Promise::CREATE);
    move |index| {
        let _alive = &peer;
        client.create(&bodies[(index % POOL) as usize])
    }
}

/// Reads one record by id and copies its JSON out.
pub fn read(peer: Arc<Peer>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (mut client, ids) = (Client::open(&peer), ids(records));
    move |index| {
        let _alive = &peer;
        client.read(&ids[scatter(index, records) as usize])
    }
}

/// Patches both attributes that may have an index.
pub fn update_indexed(peer: Arc<Peer>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (client, ids) = (Client::open(&peer), ids(records));
    let mut patch = Numbered::new(CHANGE.as_bytes());
    let update = move |client: &mut Client, index| {
        let _alive = &peer;
        client.update_indexed(&ids[scatter(index, records) as usize], patch.with(index))
    };
    looked_at(client, update, move |client, index, own| {
        let number = (client.price(&data::id(scatter(index, records))) - 100_000_000.5) as i64;
        assert_patched(number, index, own, |other| scatter(other, records) == scatter(index, records));
    })
}

/// Patches an attribute that has no index.
pub fn update_unindexed(peer: Arc<Peer>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (client, ids) = (Client::open(&peer), ids(records));
    let mut patch = Numbered::new(STOCK.as_bytes());
    let update = move |client: &mut Client, index| {
        let _alive = &peer;
        client.update(&ids[scatter(index, records) as usize], patch.with(index))
    };
    looked_at(client, update, move |client, index, own| {
        let number = client.stock(&data::id(scatter(index, records))) - 100_000_000;
        assert_patched(number, index, own, |other| scatter(other, records) == scatter(index, records));
    })
}

/// Deletes one record.
pub fn delete(peer: Arc<Peer>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (client, ids) = (Client::open(&peer), ids(records));
    let delete = move |client: &mut Client, index| {
        let _alive = &peer;
        client.delete(&ids[scatter(index, records) as usize])
    };
    looked_at(client, delete, move |client, index, _| {
        assert_eq!(client.read(&data::id(scatter(index, records))), 0, "operation {index} has deleted nothing");
    })
}

/// Seven reads by id, then three creates.
pub fn mixed(peer: Arc<Peer>, records: u64) -> impl FnMut(u64) -> u64 + Send {
    let (mut client, ids, bodies) = (Client::open(&peer), ids(records), bodies());
    client.promise(&peer, MIX);
    move |index| {
        let _alive = &peer;
        match index % 10 {
            0..7 => client.read(&ids[scatter(index, records) as usize]),
            _ => client.create(&bodies[(index % POOL) as usize]),
        }
    }
}

fn ids(records: u64) -> Vec<String> {
    (0..records).map(data::id).collect()
}

/// A connection, with the text of the insert, which depends on the indexes, and reused buffers.
struct Client {
    connection: Connection,
    insert: &'static str,
    indexes: u32,
    json: String,
    answer: Vec<u8>,
}

/// The attributes of a body, with the types of the schema. Those without an index are only checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "to be of its type is all that is asked of an attribute without a column")]
struct Product<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    category: Option<Cow<'a, str>>,
    price: Option<f64>,
    stock: Option<i64>,
    in_stock: Option<bool>,
    rating: Option<f64>,
    description: Option<Cow<'a, str>>,
}

/// A patch of both attributes that may have an index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Change<'a> {
    #[serde(borrow)]
    category: Cow<'a, str>,
    price: f64,
}

/// A patch that affects no index.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(dead_code, reason = "to be of its type is all that is asked of it")]
struct Patch {
    stock: i64,
}

impl Client {
    /// With every page of the table and its indexes in its cache, like Strata's stores.
    fn open(peer: &Peer) -> Self {
        let (insert, connection) = (insert(peer.indexes), connect(&peer.file));
        let read = |sql: &str| connection.query_row(sql, [], |row| row.get(0));
        let records: i64 = read("SELECT count(length(json)) FROM product").expect("a healthy file");
        assert!(records > 0, "a file without records");
        for indexed in &["id", "category", "price"][..=peer.indexes as usize] {
            // The shortest way to all values of an indexed column is the whole index.
            let all = format!("SELECT count({indexed}) FROM product");
            let way = connection.query_row(&format!("EXPLAIN QUERY PLAN {all}"), [], |row| row.get::<_, String>(3));
            assert!(way.is_ok_and(|way| way.contains("COVERING INDEX")), "{all} reads no index");
            assert_eq!(read(&all), Ok(records), "{all}");
        }
        Self { connection, insert, indexes: peer.indexes, json: String::new(), answer: Vec::new() }
    }

    /// Promises what its operations leave in the file from now on.
    fn promise(&self, peer: &Peer, promise: Promise) {
        let before = || self.connection.query_row("SELECT max(rowid) FROM product", [], |row| row.get(0));
        peer.promised.get_or_init(|| (promise, before().expect("a file with records")));
    }

    fn create(&mut self, body: &[u8]) -> u64 {
        let (text, mut buffer) = (std::str::from_utf8(body).expect("JSON is UTF-8"), Uuid::encode_buffer());
        let product: Product<'_> = serde_json::from_str(text).expect("a body of the data set");
        let id: &str = Uuid::now_v7().hyphenated().encode_lower(&mut buffer);
        self.json.clear();
        for part in ["{\"id\":\"", id, "\",", &text[1..]] {
            self.json.push_str(part);
        }
        let mut statement = self.connection.prepare_cached(self.insert).expect("a statement that was prepared before");
        let inserted = match self.indexes {
            0 => statement.execute((id, &self.json)),
            1 => statement.execute((id, &self.json, &product.category)),
            _ => statement.execute((id, &self.json, &product.category, product.price)),
        };
        u64::from(inserted.or_refused() == 1 && self.json.len() > 900)
    }

    fn read(&mut self, id: &str) -> u64 {
        const READ: &str = "SELECT json FROM product WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(READ).expect("a statement that was prepared before");
        let mut found = statement.query([id]).expect("a healthy file");
        let record = found.next().expect("a healthy file");
        record.map_or(0, |record| copied(json(record), &mut self.answer))
    }

    /// Merges a patch that affects no index: only the text column changes.
    fn update(&mut self, id: &str, patch: &[u8]) -> u64 {
        const UPDATE: &str = "UPDATE product SET json = json_patch(json, ?2) WHERE id = ?1 RETURNING json";
        let text = std::str::from_utf8(patch).expect("JSON is UTF-8");
        let _: Patch = serde_json::from_str(text).expect("a patch of the right type");
        let mut statement = self.connection.prepare_cached(UPDATE).expect("a statement that was prepared before");
        merged(statement.query((id, text)), &mut self.answer)
    }

    /// Merges a patch of both attributes that may have an index; their columns, if any, change with the text.
    fn update_indexed(&mut self, id: &str, patch: &[u8]) -> u64 {
        let text = std::str::from_utf8(patch).expect("JSON is UTF-8");
        let change: Change<'_> = serde_json::from_str(text).expect("a patch of the right types");
        const UPDATES: [&str; 3] = [
            "UPDATE product SET json = json_patch(json, ?2) WHERE id = ?1 RETURNING json",
            "UPDATE product SET json = json_patch(json, ?2), category = ?3 WHERE id = ?1 RETURNING json",
            "UPDATE product SET json = json_patch(json, ?2), category = ?3, price = ?4 WHERE id = ?1 RETURNING json",
        ];
        let sql = UPDATES[self.indexes as usize];
        let mut statement = self.connection.prepare_cached(sql).expect("a statement that was prepared before");
        let changed = match self.indexes {
            0 => statement.query((id, text)),
            1 => statement.query((id, text, &change.category)),
            _ => statement.query((id, text, &change.category, change.price)),
        };
        merged(changed, &mut self.answer)
    }

    /// The price of a record.
    fn price(&self, id: &str) -> f64 {
        const PRICE: &str = "SELECT json ->> 'price' FROM product WHERE id = ?1";
        self.connection.query_row(PRICE, [id], |row| row.get(0)).expect("a record of the data set")
    }

    /// The updated attribute of a record.
    fn stock(&self, id: &str) -> i64 {
        const STOCK: &str = "SELECT json ->> 'stock' FROM product WHERE id = ?1";
        self.connection.query_row(STOCK, [id], |row| row.get(0)).expect("a record of the data set")
    }

    fn delete(&self, id: &str) -> u64 {
        const DELETE: &str = "DELETE FROM product WHERE id = ?1";
        let mut statement = self.connection.prepare_cached(DELETE).expect("a statement that was prepared before");
        statement.execute([id]).or_refused() as u64
    }
}

/// Reads the new text of one record to the end, which commits.
fn merged(changed: rusqlite::Result<rusqlite::Rows<'_>>, answer: &mut Vec<u8>) -> u64 {
    let mut changed = changed.or_refused();
    let merged = changed.next().or_refused().map_or(0, |record| copied(json(record), answer));
    if changed.next().or_refused().is_none() { merged } else { 0 }
}

fn json<'r>(record: &'r rusqlite::Row<'_>) -> &'r [u8] {
    record.get_ref(0).and_then(|value| Ok(value.as_bytes()?)).expect("the text of a record")
}

/// Opens the file with the settings in the facts.
fn connect(file: &Path) -> Connection {
    let connection = Connection::open(file).expect("a file to open");
    // Exclusive before WAL: the index of the log is then kept in the process, and no lock is requested again.
    for (setting, value, becomes) in [
        ("locking_mode", "EXCLUSIVE".to_owned(), "exclusive"),
        ("journal_mode", "WAL".to_owned(), "wal"),
        ("synchronous", "NORMAL".to_owned(), "1"),
        ("cache_size", format!("-{}", options().cache_bytes >> 10), ""),
        ("wal_autocheckpoint", (options().write_buffer_bytes / PAGE_BYTES).to_string(), ""),
        ("page_size", PAGE_BYTES.to_string(), ""),
        // Written so that the log is not empty, which saves each read a check of the file size.
        ("user_version", "1".to_owned(), ""),
    ] {
        connection.pragma_update(None, setting, &value).expect("a setting that SQLite knows");
        let is = connection.pragma_query_value(None, setting, |row| {
            Ok(match row.get_ref(0)? {
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                text => text.as_str()?.to_owned(),
            })
        });
        let becomes = if becomes.is_empty() { &value } else { becomes };
        assert_eq!(is.expect("a setting that can be read"), becomes, "{setting}");
    }
    connection
}

fn insert(indexes: u32) -> &'static str {
    match indexes {
        0 => "INSERT INTO product (id, json) VALUES (?1, ?2)",
        1 => "INSERT INTO product (id, json, category) VALUES (?1, ?2, ?3)",
        2 => "INSERT INTO product (id, json, category, price) VALUES (?1, ?2, ?3, ?4)",
        other => panic!("no table with {other} indexes"),
    }
}

/// Creates the table with its indexes and records, and closes the file, which leaves no log.
fn fill(file: &Path, indexes: u32, records: u64) {
    let mut connection = connect(file);
    let columns = ["", ", category TEXT", ", category TEXT, price REAL"][indexes as usize];
    let table = format!("CREATE TABLE product (id TEXT PRIMARY KEY, json TEXT NOT NULL{columns});");
    let all = ["CREATE INDEX by_category ON product (category);", "CREATE INDEX by_price ON product (price);"];
    connection.execute_batch(&(table + &all[..indexes as usize].concat())).expect("a new table");
    let filling = connection.transaction().expect("a healthy file");
    for index in 0..records {
        let body = String::from_utf8(data::product(index, Id::Given)).expect("JSON is UTF-8");
        let (id, mut statement) = (data::id(index), filling.prepare_cached(insert(indexes)).expect("a statement"));
        let (category, price) = (data::category(index), data::price(index));
        let inserted = match indexes {
            0 => statement.execute((id, body)),
            1 => statement.execute((id, body, category)),
            _ => statement.execute((id, body, category, price)),
        };
        assert_eq!(inserted, Ok(1), "a record of the data set");
    }
    filling.commit().or_refused();
    connection.close().expect("a file that can be closed");
}
