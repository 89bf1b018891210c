//! A registry of devices, Strata's and raw: rows of about 200 bytes, a third of them in each room.

use std::collections::BTreeMap;

use strata::encoding::key;
use strata::encoding::value::Value;
use strata::multicast::{Asked, Multicast, Outcome, Sending};
use strata::query::{Limits, Query};
use strata::schema::{IndexKind, MESSAGES, Schema, Table};
use strata::transaction::Database;
use strata_harness::{OrRefused, Scale};

use crate::floor::Raw;
use crate::prepared::{self, Ours, copy_of, encode, options, template};

/// The maximum number of targets.
pub const MOST: usize = 10_000;

const ROOMS: u64 = 3;

/// With a time to live that no run outlasts.
const SDL: &str = "type Device @table(expiration: 31536000) @multicast @export {
    id: ID! @primaryKey
    room: String @indexed
    status: String
    rank: Int @indexed
    text: String
}";

/// The number of registered devices, and the part of a fan-out that a run of this scale reaches.
#[derive(Clone, Copy)]
pub struct Devices {
    pub registered: u64,
    part: u64,
}

pub fn id(rank: u64) -> String {
    format!("d{rank}")
}

/// The body of a message.
pub fn message(number: u64) -> String {
    format!(r#"{{"call":{number},"text":"{}"}}"#, "message ".repeat(12))
}

/// A query of the devices of one room.
pub fn query_of_room(number: u64) -> String {
    format!("room==r{}", number % ROOMS)
}

/// Sends a message to the devices that satisfy a condition.
pub fn send(multicast: &Multicast, database: &Database, conditions: &str, number: u64) -> Sending {
    let table = database.table("Device").expect("the table of the schema");
    let conditions = Query::parse(database.schema(), table, conditions, &Limits::in_url(MOST));
    let (conditions, body) = (conditions.expect("a query of the grammar"), message(number));
    let asked = Asked { table, conditions, body: body.as_bytes(), key: None };
    match multicast.send(database, asked, MOST).or_refused() {
        Outcome::Sent(sending) => sending,
        Outcome::Repeated { .. } => unreachable!("it has no idempotency key"),
    }
}

impl Devices {
    pub fn of(scale: Scale) -> Self {
        let part = if scale == Scale::Full { 1 } else { 25 };
        Self { registered: 3000 / part, part }
    }

    /// The targets of a message that are there at this scale.
    pub fn reached(self, targets: u64) -> u64 {
        targets / self.part
    }

    /// Devices of one room.
    pub fn room(self) -> u64 {
        self.registered / ROOMS
    }

    /// A condition that so many satisfy.
    pub fn up_to(self, number: u64) -> String {
        format!("rank=lt={number}")
    }

    pub fn described(self) -> String {
        format!("{} registrations of about 200 bytes, 5 attributes, with a time to live", self.registered)
    }

    /// The ranks in the order of ids.
    pub fn by_id(self) -> Vec<u64> {
        (0..self.registered).map(|rank| (id(rank), rank)).collect::<BTreeMap<_, _>>().into_values().collect()
    }

    pub fn table(self) -> Table {
        schema().tables.swap_remove(0)
    }

    /// Each registered, in sorted files and in the cache.
    pub fn registry(self) -> Ours {
        Ours::open(copy_of(&self.template()), schema()).warmed()
    }

    /// The same, opened raw.
    pub fn raw(self) -> Raw {
        Raw::open(copy_of(&self.template()), options().cache_bytes).warmed()
    }

    fn template(self) -> std::path::PathBuf {
        let body = |rank: u64| {
            let (id, room, text) = (id(rank), rank % ROOMS, "registered ".repeat(12));
            let body = format!(r#"{{"id":"{id}","room":"r{room}","status":"online","rank":{rank},"text":"{text}"}}"#);
            body.into_bytes()
        };
        template(&format!("devices-{}", self.registered), schema, &options(), |database| {
            prepared::create_all(database, (0..self.registered).map(body));
        })
    }

    /// The stored bytes of a message to these targets.
    pub fn stored_message(self, targets: &[String]) -> Vec<u8> {
        let (schema, mut stored) = (schema(), Vec::new());
        let messages = schema.table(MESSAGES).expect("the schema has multicasts");
        let ids = serde_json::to_string(targets).expect("texts are JSON");
        let (id, table, body) = ("01890000-0000-7000-8000-000000000000", schema.tables[0].id, message(1000));
        let record = format!(r#"{{"id":"{id}","target":{table},"ids":{ids},"body":{body}}}"#);
        encode(messages, record.as_bytes(), &mut stored);
        stored
    }

    /// The range of the entries of each room.
    pub fn entries_of_rooms(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let range = |room: u64| {
            let (prefix, mut end) = (self.entry("room", &Value::Text(format!("r{room}").into())), Vec::new());
            key::successor(&prefix, &mut end);
            (prefix, end)
        };
        (0..ROOMS).map(range).collect()
    }

    /// The range of the entries of the targets of a message. All begin as long as the first does.
    pub fn entries_up_to(self, reached: u64) -> (Vec<u8>, Vec<u8>) {
        (self.entry("rank", &Value::Int(0)), self.entry("rank", &Value::Int(reached as i64)))
    }

    /// The bytes with which the entries of a value begin.
    fn entry(self, attribute: &str, value: &Value<'_>) -> Vec<u8> {
        let (table, mut prefix) = (self.table(), Vec::new());
        let attribute = table.attribute(attribute).expect("an attribute of the schema");
        let index = table.index(attribute, IndexKind::Ordered).expect("an index of the schema").id;
        key::ordered_prefix(index, value, &mut prefix);
        prefix
    }
}

fn schema() -> Schema {
    Schema::parse(SDL).expect("the schema of the data set")
}
