//! Appends within a transaction: offsets are chosen as events come, chunks are staged at the end.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::chunk::{Builder, Stored};
use super::event::Event;
use super::group::Group;
use super::partition::{End, Partition, State};
use super::read::chunk_at;
use super::{Streams, Watermarks, keys, milliseconds};
use crate::error::{Error, OffsetFault, Result};
use crate::schema::{Durability, Stream};
use crate::storage::{ReadTier, Space, Store};
use crate::transaction::{Database, Follower, Transaction};

/// The place that an event got, or had already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// Whether an event with its idempotency key was there before.
    pub duplicate: bool,
}

/// The appends of one transaction.
pub struct Appends<'s> {
    pub(super) streams: &'s Streams,
    /// Mostly there is one.
    pending: SmallVec<[Pending; 1]>,
    /// The idempotency keys of this transaction, by stream and hash.
    keys: HashMap<(u32, u128), Known>,
    /// What consumer groups become, by key; `None` if one is deleted.
    pub(super) groups: HashMap<Vec<u8>, (Durability, Option<Group>)>,
    /// Whether there is a group among them that was not there, and that holds nothing back.
    pub(super) has_new_group: bool,
    /// What a duplicate has to wait for, even if nothing is written.
    durability: Durability,
    /// The events that were there before: position of the stream, partition and offset.
    duplicates: SmallVec<[(usize, u32, u64); 1]>,
}

/// The events of one partition that are not staged yet.
struct Pending {
    /// Position of the stream in the schema.
    stream: usize,
    id: u32,
    durability: Durability,
    partition: u32,
    next: u64,
    ingested_ms: u64,
    /// Full chunks, each with the offset of its last event.
    full: Vec<(u64, Builder)>,
    chunk: Builder,
}

/// An idempotency key that is not staged yet.
#[derive(Clone, Copy)]
struct Known {
    partition: u32,
    offset: u64,
    generation: u64,
    ingested_ms: u64,
}

impl<'s> Appends<'s> {
    pub(super) fn begin(streams: &'s Streams) -> Self {
        let (pending, keys, groups) = (SmallVec::new(), HashMap::new(), HashMap::new());
        let (has_new_group, duplicates) = (false, SmallVec::new());
        Self { streams, pending, keys, groups, has_new_group, durability: Durability::Soft, duplicates }
    }

    /// Appends an event.
    ///
    /// # Errors
    /// As [`Streams::append`].
    pub fn append(
        &mut self,
        transaction: &mut Transaction<'_>,
        stream: &Stream,
        event: &Event<'_>,
    ) -> Result<Appended> {
        let (state, position) = (self.streams.state(stream)?, self.streams.position(stream)?);
        self.streams.0.room.check(transaction.database().store())?;
        let now_ms = milliseconds(transaction.now());
        event.check_lengths()?;
        let key = event.idempotency_key.as_deref();
        if let Some(key) = key {
            transaction.hold(stream.id, key.as_bytes())?;
            if let Some((partition, offset)) = self.find(transaction.database(), state, stream, key, now_ms)? {
                self.durability = self.durability.max(stream.durability);
                self.duplicates.push((position, partition, offset));
                return Ok(Appended { partition, offset, duplicate: true });
            }
        }
        let partition = state.choose(event);
        let of = state.partition(stream, partition)?;
        if of.is_held() {
            let detail = format!(
                "partition {partition} of {} has more than maxBytes of events that {} did not commit",
                stream.name,
                stream.hold_for.join(", ")
            );
            return Err(Error::Held { detail });
        }
        transaction.hold(stream.id, &partition.to_be_bytes())?;
        let pending = self.pending(position, stream, partition, of.end(), now_ms);
        let offset = pending.next;
        if event.expected_offset.is_some_and(|expected| expected != offset) {
            let detail = format!("the next offset of partition {partition} of {} is {offset}", stream.name);
            let (Watermarks { low, high }, pointer) = (of.watermarks(), "/expectedOffset".to_owned());
            return Err(Error::Offset { detail, fault: OffsetFault::NotNext, pointer, low, high });
        }
        pending.add(event);
        let ingested_ms = pending.ingested_ms;
        if let Some(key) = key {
            let generation = state.generation_at(stream, ingested_ms);
            self.keys.insert((stream.id, keys::hash(key)), Known { partition, offset, generation, ingested_ms });
        }
        Ok(Appended { partition, offset, duplicate: false })
    }

    /// Returns the place of the event with an idempotency key, if the key is known.
    fn find(
        &self,
        database: &Database,
        state: &State,
        stream: &Stream,
        key: &str,
        now_ms: u64,
    ) -> Result<Option<(u32, u64)>> {
        let hash = keys::hash(key);
        if let Some(known) = self.keys.get(&(stream.id, hash)) {
            return Ok(Some((known.partition, known.offset)));
        }
        for generation in state.generations(stream, now_ms, true) {
            let entry = keys::idempotency(stream.id, generation, hash);
            let Some(value) = database.store().get(Space::Streams, &entry, database.tier())? else { continue };
            let (partition, offset, ingested_ms) = read_entry(&value)?;
            let is_known = now_ms.saturating_sub(ingested_ms) < 1000 * stream.idempotency;
            let of = state.partition(stream, partition)?;
            if is_known && is_of(database, stream, of, (partition, offset), key)? {
                return Ok(Some((partition, offset)));
            }
        }
        Ok(None)
    }

    /// Returns what is pending for a partition, whose lock is held.
    fn pending(&mut self, stream: usize, of: &Stream, partition: u32, end: End, now_ms: u64) -> &mut Pending {
        let found = self.pending.iter().rposition(|known| known.stream == stream && known.partition == partition);
        let found = found.unwrap_or_else(|| {
            self.pending.push(Pending {
                stream,
                id: of.id,
                durability: of.durability,
                partition,
                next: end.next,
                // A clock that goes back does not take the partition with it.
                ingested_ms: end.ingested_ms.max(now_ms),
                full: Vec::new(),
                chunk: Builder::default(),
            });
            self.pending.len() - 1
        });
        &mut self.pending[found]
    }

    /// Stages all of it.
    pub(super) fn stage(self, transaction: &mut Transaction<'_>) {
        let (mut ends, mut durability, is_alone) = (SmallVec::new(), self.durability, transaction.is_empty());
        // Of one whose event was refused nothing is pending.
        for pending in self.pending.into_iter().filter(|pending| pending.chunk.has_events()) {
            durability = durability.max(pending.durability);
            let of = &self.streams.0.states[pending.stream].partitions[pending.partition as usize];
            ends.push(pending.stage(transaction, of.end()));
        }
        for ((stream, hash), known) in self.keys {
            let mut value = [0; 20];
            value[..4].copy_from_slice(&known.partition.to_le_bytes());
            value[4..12].copy_from_slice(&known.offset.to_le_bytes());
            value[12..].copy_from_slice(&known.ingested_ms.to_le_bytes());
            transaction.put(Space::Streams, &keys::idempotency(stream, known.generation, hash), &value);
        }
        for (key, (of_stream, group)) in self.groups {
            durability = durability.max(of_stream);
            match group {
                Some(group) => transaction.put(Space::Streams, &key, &group.to_bytes()),
                None => transaction.delete_key(Space::Streams, &key),
            }
        }
        if is_alone && ends.is_empty() && !self.has_new_group {
            // Offsets of consumers, without which nothing might be trimmed.
            transaction.give_back();
        }
        transaction.require(durability);
        if !ends.is_empty() || durability == Durability::Strong || !self.duplicates.is_empty() {
            transaction.follow_by(Box::new(Written {
                streams: self.streams.clone(),
                ends,
                duplicates: self.duplicates,
            }));
        }
    }
}

impl Pending {
    fn add(&mut self, event: &Event<'_>) {
        if self.chunk.is_full() {
            self.full.push((self.next - 1, std::mem::take(&mut self.chunk)));
        }
        self.chunk.add(event);
        self.next += 1;
    }

    /// Stages the chunks behind the end of the partition; returns its end with them.
    fn stage(self, transaction: &mut Transaction<'_>, end: End) -> WrittenEnd {
        let mut bytes = end.bytes;
        for (last, chunk) in self.full.into_iter().chain([(self.next - 1, self.chunk)]) {
            let key = keys::chunk(self.id, self.partition, last);
            let (value, with_it) = chunk.finish(&key, self.ingested_ms, bytes);
            bytes = with_it;
            transaction.put(Space::Streams, &key, &value);
        }
        let (events, event_bytes) = (self.next - end.next, bytes - end.bytes);
        let end = End { next: self.next, bytes, ingested_ms: self.ingested_ms };
        WrittenEnd {
            stream: self.stream,
            partition: self.partition,
            durability: self.durability,
            end,
            events,
            event_bytes,
        }
    }
}

/// Returns for how long an idempotency key is known, in milliseconds.
fn window_ms(stream: &Stream) -> u64 {
    1000 * stream.idempotency.max(1)
}

impl State {
    /// Returns the generation of the idempotency keys of a moment, which is known from then on.
    fn generation_at(&self, stream: &Stream, now_ms: u64) -> u64 {
        let begin = now_ms / window_ms(stream) * window_ms(stream);
        let end = begin + window_ms(stream);
        if self.generations.read().get(&begin).is_none_or(|known| *known < end) {
            let mut generations = self.generations.write();
            let known = generations.entry(begin).or_default();
            *known = end.max(*known);
        }
        begin
    }

    /// Returns the generations of which keys may still be known, or the others, newest first.
    pub(super) fn generations(&self, stream: &Stream, now_ms: u64, are_known: bool) -> SmallVec<[u64; 4]> {
        let is_known = |end: u64| end.saturating_add(window_ms(stream)) > now_ms;
        let generations = self.generations.read();
        let found = generations.iter().rev().filter(|(_, end)| is_known(**end) == are_known);
        found.map(|(begin, _)| *begin).collect()
    }
}

/// Returns partition, offset and time of an entry of idempotency keys.
pub(super) fn read_entry(value: &[u8]) -> Result<(u32, u64, u64)> {
    let value: &[u8; 20] = value.try_into().map_err(|_| Error::corrupt("an idempotency key of a stream"))?;
    let number = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    Ok((u32::from_le_bytes(value[..4].try_into().expect("four bytes")), number(4), number(12)))
}

/// Returns whether the event at a place has this idempotency key, or was trimmed: a write that failed may have left an entry.
fn is_of(database: &Database, stream: &Stream, of: &Partition, place: (u32, u64), key: &str) -> Result<bool> {
    let (partition, offset) = place;
    if offset >= of.next() {
        return Ok(false);
    }
    if offset < of.watermarks().low {
        return Ok(true);
    }
    let is_it = |event: Stored<'_>| event.idempotency_key == Some(key);
    with_event(database.store(), database.tier(), stream.id, partition, offset, is_it)
        .map(|found| found.unwrap_or(true))
}

/// Reads one event; `None` if it was trimmed.
pub(super) fn with_event<R>(
    store: &Store,
    tier: ReadTier,
    stream: u32,
    partition: u32,
    offset: u64,
    read: impl FnOnce(Stored<'_>) -> R,
) -> Result<Option<R>> {
    let found = chunk_at(store, &store.snapshot(ReadTier::Disk)?, tier, (stream, partition, offset), |chunk| {
        if offset < chunk.first() { Ok(None) } else { chunk.event(offset).map(|event| Some(read(event))) }
    });
    found.map(Option::flatten)
}

/// What a transaction has appended.
struct Written {
    streams: Streams,
    ends: SmallVec<[WrittenEnd; 1]>,
    duplicates: SmallVec<[(usize, u32, u64); 1]>,
}

struct WrittenEnd {
    stream: usize,
    partition: u32,
    durability: Durability,
    end: End,
    events: u64,
    event_bytes: u64,
}

impl Written {
    fn each(&self, publish: impl Fn(&Partition, &WrittenEnd)) {
        for end in &self.ends {
            publish(&self.streams.0.states[end.stream].partitions[end.partition as usize], end);
        }
    }
}

impl Follower for Written {
    fn written(&self) {
        let counts = self.streams.counts();
        if !self.duplicates.is_empty() {
            counts.duplicates.add(self.duplicates.len() as u64);
        }
        self.each(|partition, written| {
            counts.events.add(written.events);
            counts.event_bytes.add(written.event_bytes);
            self.streams.0.room.note(written.event_bytes, self.streams.0.database.store());
            partition.end_at(written.end);
            if written.durability == Durability::Soft {
                partition.publish(written.end.next);
            }
        });
        if self.ends.iter().any(|end| end.durability == Durability::Soft) {
            self.streams.0.waiting.wake();
        }
    }

    /// A restart has all of the batch or nothing of it.
    fn failed(&self) {}

    fn synced(&self) {
        self.each(|partition, written| partition.publish(written.end.next));
        // The sync for which they have waited before may have failed.
        for (stream, partition, offset) in &self.duplicates {
            self.streams.0.states[*stream].partitions[*partition as usize].publish(offset + 1);
        }
        self.streams.0.waiting.wake();
    }
}
