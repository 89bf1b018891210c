//! Multicasts: a message to every record that matches a query, stored before it is sent, and counted where it is taken.
//!
//! ```text
//! conditions ─ at one snapshot ─ targets ─┐
//! key ─ known with the same digest? ──────┼─ one commit ── write-ahead log ── `feed`: queues of the targets' subscribers
//! body ───────────────────────────────────┘       │                           └ [`Receipt`]: taken, or nobody is left who could
//!                                                 └ [`nats`]: published to the targets' subjects
//! ```
//! The message is a record of the table of messages, which the same commit deletes: it stands in the log, for the live subscribers and for
//! those who resume, and takes no room in a table. What is kept of it is its idempotency key, if it has one. With JetStream the record is
//! kept, too, until the stream has it.
//!
//! Whoever sends waits for nothing here: [`Sending::when_done`] calls back once nobody is left who could still take the message.
//!
//! Registrations that are kept in Redis are found there ([`Registry`]); their messages stand here like all others.
//!
//! Non-goals: how a subscriber gets it (`feed`); the time for which the sender waits, and its answer (`ingress`, `handlers`).

mod address;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "redis")]
mod redis;
mod registration;
mod registry;
#[cfg(any(feature = "nats", feature = "redis"))]
mod runtime;
#[cfg(not(feature = "nats"))]
mod without_nats;
#[cfg(not(feature = "redis"))]
mod without_redis;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::encoding::body::parse_value;
use crate::encoding::{Fields, Record, Value};
use crate::error::{Error, Result};
use crate::feed::{Feed, Receipt, Standing};
use crate::query::Query;
use crate::schema::{MESSAGES, REPEATS, Table};
use crate::transaction::{Database, Precondition, Transaction, make_id};
pub use address::Address;
use nats::{Nats, Travel};
pub use registration::Registered;
pub use registry::{Registry, RegistryCounters};
#[cfg(not(feature = "nats"))]
use without_nats as nats;

/// Limits on multicasts, the transports on which they travel besides the feed, and where registrations are kept that are not kept here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The maximum size of a message.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub bytes: usize,
    /// How long an idempotency key is known, in seconds.
    pub keep_s: u64,
    /// Maximum number of multicasts without an answer.
    pub in_flight: usize,
    /// The servers of NATS, of one cluster, through which messages are published, too; none: they are not.
    pub nats_servers: Vec<Address>,
    /// What counts as delivered over NATS.
    pub nats_receipts: Receipts,
    /// Number of connections to NATS, over which a message to many is spread.
    pub nats_connections: usize,
    /// Whether messages are published to a stream of NATS, and kept until it has them.
    pub jetstream: bool,
    /// The maximum size of all messages that are kept for the stream.
    #[serde(deserialize_with = "crate::size::deserialize")]
    pub outbox_bytes: usize,
    /// The Redis of tables with `registry: "redis"`.
    pub redis_addr: Option<Address>,
}

/// What counts as delivered over NATS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Receipts {
    /// Somebody has subscribed to the subject.
    #[default]
    Interest,
    /// A subscriber has answered.
    Reply,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bytes: 64 << 10,
            keep_s: 3600,
            in_flight: 64,
            nats_servers: Vec::new(),
            nats_receipts: Receipts::default(),
            nats_connections: 10,
            jetstream: false,
            outbox_bytes: 1 << 30,
            redis_addr: None,
        }
    }
}

/// The maximum number of connections to a broker.
const CONNECTIONS: usize = 1000;

impl Options {
    /// Checks that this build has what they ask for, and that they fit each other.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check(&self) -> Result<()> {
        let (nats, refused) = (!self.nats_servers.is_empty(), |detail: String| Err(Error::invalid(detail)));
        // Each option that needs a feature of the build: whether it is set, and whether the feature is there.
        let (default, has_nats) = (Self::default(), cfg!(feature = "nats"));
        let features = [
            ("nats-servers", "nats", nats, has_nats),
            ("nats-receipts", "nats", self.nats_receipts != default.nats_receipts, has_nats),
            ("nats-connections", "nats", self.nats_connections != default.nats_connections, has_nats),
            ("jetstream", "nats", self.jetstream, has_nats),
            ("outbox-bytes", "nats", self.outbox_bytes != default.outbox_bytes, has_nats),
            ("redis-addr", "redis", self.redis_addr.is_some(), cfg!(feature = "redis")),
        ];
        if let Some((option, feature, ..)) = features.iter().find(|(.., is_set, is_there)| *is_set && !is_there) {
            return refused(format!(
                "--{option} needs a server with the feature {feature}: cargo build --release --features {feature}"
            ));
        }
        if self.nats_connections > CONNECTIONS {
            return refused(format!("--nats-connections: at most {CONNECTIONS}"));
        }
        if self.jetstream && !nats {
            return refused("--jetstream needs --nats-servers".to_owned());
        }
        let is_known = |address: &&Address| matches!(address.scheme(), None | Some("nats" | "tls"));
        if let Some(address) = self.nats_servers.iter().find(|address| !is_known(address)) {
            return refused(format!("--nats-servers: {address} is neither host:port nor a URL with nats:// or tls://"));
        }
        let credentials = |address: &Address| {
            address.credentials().map(|(user, password)| (user.to_owned(), password.map(str::to_owned)))
        };
        if self.nats_servers.windows(2).any(|pair| credentials(&pair[0]) != credentials(&pair[1])) {
            return refused("--nats-servers: all have the same credentials, or none".to_owned());
        }
        Ok(())
    }
}

/// Counters since the server was started. The states of targets are those of the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Number of messages sent.
    pub messages: u64,
    /// Number of requests that repeated one, and sent nothing.
    pub repeated: u64,
    /// Number of targets of these messages; the sum of the following, but for those whose answer is not decided yet.
    pub targets: u64,
    /// Number of those of whom a subscriber took the message.
    pub delivered: u64,
    /// Number of those without a subscriber.
    pub absent: u64,
    /// Number of those with a subscriber that had not taken it.
    pub pending: u64,
    /// Number of those to whom a transport failed to hand it.
    pub failed: u64,
}

/// The counters behind [`Counters`].
#[derive(Default)]
struct Counts {
    messages: AtomicU64,
    repeated: AtomicU64,
    targets: AtomicU64,
    /// By standing.
    standings: [AtomicU64; 4],
}

/// Numbers of targets of a message to whom a transport failed to hand it, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// There was no connection to the broker.
    pub unreachable: usize,
    /// The broker did not say in time what became of it; it may still arrive.
    pub timeout: usize,
    /// The broker does not take it: it is too long, or it is not allowed to publish it.
    pub refused: usize,
}

/// A message to be sent.
pub struct Asked<'a> {
    /// The table of its targets.
    pub table: &'a Table,
    /// The condition that its targets satisfy.
    pub conditions: Query<'a>,
    /// One JSON value.
    pub body: &'a [u8],
    /// The idempotency key.
    pub key: Option<&'a str>,
}

/// What became of a message.
pub enum Outcome {
    /// It is stored, and being handed out.
    Sent(Sending),
    /// The key was known: nothing was sent.
    Repeated {
        /// The id of the first message.
        id: String,
        /// The number of its targets.
        targets: u64,
    },
}

/// A message that is being handed out. Its targets are counted by their states when these are first asked for, or when it is dropped.
pub struct Sending {
    counts: Arc<Counts>,
    id: String,
    /// Ascending.
    targets: Vec<String>,
    /// `None` if there are no targets.
    receipt: Option<Arc<Receipt>>,
    travel: Option<Travel>,
    standings: Option<Vec<Standing>>,
    failures: Failures,
}

/// What a transport has to know of a message.
#[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "without it there is no transport"))]
struct Travelling<'a> {
    id: &'a str,
    /// Ascending.
    targets: &'a [String],
    /// The topic of each target; empty if the table has none.
    topics: &'a [Option<String>],
    body: Bytes,
}

/// Sends messages. Clones share their counters.
#[derive(Clone)]
pub struct Multicast {
    feed: Feed,
    options: Options,
    counts: Arc<Counts>,
    nats: Option<Arc<Nats>>,
    /// Of the tables that are kept in Redis.
    registry: Option<Registry>,
}

impl Multicast {
    /// Creates one over the feed of a database, without a transport besides.
    pub fn new(feed: Feed, options: Options) -> Self {
        Self { feed, options, counts: Arc::default(), nats: None, registry: None }
    }

    /// Creates one, and starts the transports of its options. Brokers need not be there yet.
    ///
    /// # Errors
    /// As [`Options::check`]; `Storage` if no thread can be started; `Corrupt` or `Storage` if the kept messages cannot be read.
    pub fn start(feed: Feed, options: Options) -> Result<Self> {
        options.check()?;
        let nats = Nats::start(&options, feed.database())?.map(Arc::new);
        Ok(Self { nats, ..Self::new(feed, options) })
    }

    /// Finds the targets of tables that are kept in Redis there.
    #[must_use]
    pub fn with_registry(self, registry: Option<Registry>) -> Self {
        Self { registry, ..self }
    }

    /// Returns the feed that hands messages out.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Returns its limits.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Stores a message to every record that matches, at most `most`, and has the feed hand it out. It has the durability of the table.
    ///
    /// # Errors
    /// `Invalid` if the body is not JSON, or more records match; `Conflict` if the key is known with another query or body; `Busy`; what the
    /// engine returns. In each case nothing is sent, and the key is not taken.
    pub fn send(&self, database: &Database, asked: Asked<'_>, most: usize) -> Result<Outcome> {
        let Asked { table, conditions, body, key } = asked;
        let schema = database.schema();
        let (Some(messages), Some(repeats)) = (schema.table(MESSAGES), schema.table(REPEATS)) else {
            return Err(Error::invalid(format!("table {} takes no multicasts: it has no @multicast", table.name)));
        };
        let attribute = messages.attribute("body").expect("the schema gives it this attribute");
        let body = parse_value(&messages.attributes[attribute], body)?;
        let repeat = key.map(|key| Repeat::new(table, key, &conditions, &body));
        if let Some(repeat) = &repeat
            && let Some(known) = database.transact(|transaction| repeat.find(transaction, repeats))?
        {
            return Ok(self.repeated(known));
        }
        let (targets, topics) = self.targets(database, table, conditions, most)?;
        let id = make_id();
        let ids = targets.iter().map(|id| Value::from(id.as_str())).collect();
        let travelling = self.nats.as_ref().filter(|_| !targets.is_empty()).map(|nats| {
            let body = Bytes::copy_from_slice(text_of(&body).as_bytes());
            (nats, Travelling { id: &id, targets: &targets, topics: &topics, body })
        });
        let room = travelling.as_ref().map(|(nats, travelling)| nats.room(travelling)).transpose()?.flatten();
        let mut message = fields(
            messages,
            [
                ("id", Value::from(id.as_str())),
                ("target", Value::Int(i64::from(table.id))),
                ("ids", Value::List(ids)),
                ("body", body),
            ],
        );
        if room.is_some() && !topics.is_empty() {
            let topics = topics.iter().map(|topic| Value::from(topic.as_deref().unwrap_or_default())).collect();
            let position = messages.attribute("topics").expect("the schema gives it this attribute");
            message.values_mut()[position] = Some(Value::List(topics));
        }
        let kept_ms = i64::try_from(self.options.keep_s).map_or(i64::MAX, |keep_s| keep_s.saturating_mul(1000));
        let until = (database.now() / 1000).saturating_add(kept_ms);
        let expected = (!targets.is_empty()).then(|| self.feed.expect(&id, targets.len()));
        let known = database.transact(|transaction| {
            if let Some(repeat) = &repeat {
                if let Some(known) = repeat.find(transaction, repeats)? {
                    return Ok(Some(known));
                }
                repeat.remember(transaction, repeats, &id, targets.len(), until)?;
            }
            if !targets.is_empty() {
                transaction.pass_through(&id, &message, room.is_some())?;
            }
            transaction.require(table.durability);
            Ok(None)
        })?;
        if let Some(known) = known {
            return Ok(self.repeated(known));
        }
        self.counts.messages.fetch_add(1, Ordering::Relaxed);
        self.counts.targets.fetch_add(targets.len() as u64, Ordering::Relaxed);
        drop(message);
        let receipt = expected.map(|expected| expected.committed());
        let travel = match (travelling, &receipt) {
            (Some((nats, travelling)), Some(receipt)) => Some(nats.send(table, travelling, room, receipt)),
            _ => None,
        };
        let counts = Arc::clone(&self.counts);
        let failures = Failures::default();
        Ok(Outcome::Sent(Sending { counts, id, targets, receipt, travel, standings: None, failures }))
    }

    /// Returns the ids of the records that match, ascending, and their topics, if a transport asks for them and the table has them.
    fn targets(
        &self,
        database: &Database,
        table: &Table,
        conditions: Query<'_>,
        most: usize,
    ) -> Result<(Vec<String>, Vec<Option<String>>)> {
        let topic = self.nats.as_ref().and(table.multicast).and_then(|multicast| multicast.topic);
        if topic.is_none() && !table.in_redis {
            let mut ids = conditions.ids(database, table, most)?;
            ids.sort_unstable();
            return Ok((ids, Vec::new()));
        }
        let mut found = Vec::new();
        self.each_target(database, table, conditions, most, |record| {
            let topic = match topic.map(|position| record.value(position)).transpose()? {
                Some(Value::Text(text)) if !text.is_empty() => Some(text.into_owned()),
                _ => None,
            };
            found.push((record.id()?.into_owned(), topic));
            Ok(())
        })?;
        found.sort_unstable();
        let (targets, topics) = found.into_iter().unzip();
        Ok((targets, if topic.is_some() { topics } else { Vec::new() }))
    }

    /// Visits the records that satisfy the condition, at most `most`, wherever they are kept.
    fn each_target(
        &self,
        database: &Database,
        table: &Table,
        conditions: Query<'_>,
        most: usize,
        visit: impl FnMut(Record<'_, &[u8]>) -> Result<()>,
    ) -> Result<()> {
        match self.registry.as_ref().filter(|_| table.in_redis) {
            None => conditions.each(database, table, most, visit).map(drop),
            Some(registry) => {
                let now = database.now();
                conditions.each_given(database, table, now, registry.enumerate(table, now)?, most, visit)
            }
        }
    }

    fn repeated(&self, (id, targets): (String, u64)) -> Outcome {
        self.counts.repeated.fetch_add(1, Ordering::Relaxed);
        Outcome::Repeated { id, targets }
    }

    /// Returns the current counters.
    pub fn counters(&self) -> Counters {
        let Counts { messages, repeated, targets, standings } = &*self.counts;
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of = |standing: Standing| number(&standings[standing as usize]);
        Counters {
            messages: number(messages),
            repeated: number(repeated),
            targets: number(targets),
            delivered: of(Standing::Delivered),
            absent: of(Standing::Absent),
            pending: of(Standing::Pending),
            failed: of(Standing::Failed),
        }
    }
}

impl Sending {
    /// Returns the id of the message.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the number of its targets.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Calls back once nobody is left who could still take it, perhaps at once. The callback must neither block nor panic.
    pub fn when_done(&self, wake: impl FnOnce() + Send + 'static) {
        match &self.receipt {
            Some(receipt) => receipt.when_done(wake),
            None => wake(),
        }
    }

    /// Fixes the states of its targets, and counts them. Those of whom a transport has not said anything are `Failed` if the sender has
    /// waited for it, else `Pending`.
    pub fn decide(&mut self, has_waited: bool) {
        if self.standings.is_some() {
            return;
        }
        self.travel.iter().for_each(|travel| travel.end(has_waited));
        let standings: Vec<_> = self.receipt.iter().flat_map(|receipt| receipt.standings()).collect();
        for standing in &standings {
            self.counts.standings[*standing as usize].fetch_add(1, Ordering::Relaxed);
        }
        self.failures = self.travel.as_ref().map_or_else(Failures::default, |travel| travel.failures(&standings));
        self.standings = Some(standings);
    }

    /// Returns each target with its state, which is fixed the first time if it was not before; ascending by id.
    pub fn standings(&mut self) -> impl Iterator<Item = (&str, Standing)> {
        self.decide(false);
        self.targets.iter().map(String::as_str).zip(self.standings.iter().flatten().copied())
    }

    /// Returns why targets are `Failed`, once that is fixed.
    pub fn failures(&self) -> Failures {
        self.failures
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.decide(false);
    }
}

/// Returns the JSON text of a body.
fn text_of<'b>(body: &'b Value<'_>) -> &'b str {
    if let Value::Json(json) = body { json } else { "null" }
}

/// An idempotency key with what was asked for.
struct Repeat {
    /// The table by its number, and the key.
    id: String,
    digest: i64,
}

impl Repeat {
    fn new(table: &Table, key: &str, conditions: &Query<'_>, body: &Value<'_>) -> Self {
        let asked = [conditions.text.as_bytes(), b"\0", text_of(body).as_bytes()].concat();
        Self { id: format!("{}/{key}", table.id), digest: XxHash3_64::oneshot(&asked).cast_signed() }
    }

    /// Returns the id of the first message with this key, and the number of its targets.
    ///
    /// # Errors
    /// `Conflict` if something else was asked for.
    fn find(&self, transaction: &mut Transaction<'_>, repeats: &Table) -> Result<Option<(String, u64)>> {
        let Some(known) = transaction.read(repeats, &self.id)? else { return Ok(None) };
        let value = |name| known.value(repeats.attribute(name).expect("the schema gives it this attribute"));
        match (value("message")?, value("targets")?, value("digest")?) {
            (Value::Text(id), Value::Int(targets), Value::Int(digest)) if digest == self.digest => {
                Ok(Some((id.into_owned(), targets.cast_unsigned())))
            }
            (Value::Text(_), Value::Int(_), Value::Int(_)) => Err(Error::Conflict {
                detail: "the Idempotency-Key is known with another query or body".to_owned(),
                pointer: String::new(),
            }),
            _ => Err(Error::corrupt("an idempotency key has no message")),
        }
    }

    fn remember(
        &self,
        transaction: &mut Transaction<'_>,
        repeats: &Table,
        message: &str,
        targets: usize,
        until: i64,
    ) -> Result<()> {
        let fields = fields(
            repeats,
            [
                ("message", Value::from(message)),
                ("targets", Value::Int(targets as i64)),
                ("digest", Value::Int(self.digest)),
                ("until", Value::Int(until)),
            ],
        );
        transaction.replace(&self.id, fields, &Precondition::None).map(drop)
    }
}

/// Returns fields of a table of multicasts, which fit their attributes.
fn fields<'t, 'v, const N: usize>(table: &'t Table, values: [(&str, Value<'v>); N]) -> Fields<'t, 'v> {
    let mut fields = Fields::of(table);
    for (name, value) in values {
        let position = table.attribute(name).expect("the schema gives it this attribute");
        fields.values_mut()[position] = Some(value);
    }
    fields
}

#[cfg(test)]
mod tests;
