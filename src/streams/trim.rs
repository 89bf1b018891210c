//! Trimming: by hand, by age, by size; never what a consumer group that holds events back has not committed.
//!
//! A trim is one batch: it deletes the range of chunks below the new low watermark and stores that. The chunk in which the watermark stands
//! is kept whole. Age and size are looked at in the background; a partition is trimmed by size once it exceeds its limit by a tenth, so that
//! not every look trims. One that cannot be trimmed by size, since consumer groups hold its events, takes no more until they have committed.

use super::chunk::Chunk;
use super::partition::{self, Partition, State};
use super::{Group, Streams, Watermarks, keys, milliseconds, read};
use crate::error::{Error, Result};
use crate::schema::{Durability, Stream};
use crate::storage::{Batch, ReadTier, Space, Store};
use crate::transaction::{Database, Follower, Transaction};

/// The part of its size limit by which a partition exceeds it before it is trimmed.
const SLACK: u64 = 10;

impl Streams {
    /// Trims the events before an offset; returns the low watermark.
    ///
    /// # Errors
    /// `Invalid` if it is above the high watermark; `Conflict` if a group in `holdFor` has not committed that far; as [`Streams::append`].
    pub fn trim(&self, database: &Database, stream: &Stream, partition: u32, before: u64) -> Result<u64> {
        let of = self.state(stream)?.partition(stream, partition)?;
        self.trimming(database, stream, |transaction, held| {
            transaction.hold(stream.id, &partition.to_be_bytes())?;
            let Watermarks { low, high } = of.watermarks();
            if before > high {
                let detail = format!("partition {partition} of {} ends at offset {high}", stream.name);
                return Err(Error::invalid(detail));
            }
            if before <= low {
                return Ok((Vec::new(), low));
            }
            check_held(stream, partition, before, held)?;
            // What was written and nobody sees yet is written again: its sync may have failed.
            let before = before.max(of.trimmed());
            Ok((vec![(partition, before)], before))
        })
    }

    /// Trims all events in one step; offsets go on.
    ///
    /// # Errors
    /// `Conflict` if a group in `holdFor` has not committed all of them; as [`Streams::append`].
    pub fn truncate(&self, database: &Database, stream: &Stream) -> Result<()> {
        let state = self.state(stream)?;
        self.trimming(database, stream, |transaction, held| {
            let mut low = Vec::new();
            for (partition, of) in (0..).zip(&state.partitions) {
                transaction.hold(stream.id, &u32::to_be_bytes(partition))?;
                let next = of.next();
                if of.watermarks().low < next {
                    check_held(stream, partition, next, held)?;
                    low.push((partition, next));
                }
            }
            Ok((low, ()))
        })
    }

    /// Trims what is too old or too much, drops idempotency keys that are no longer known, and notes the counters that rates need.
    ///
    /// # Errors
    /// The first of what went wrong, after everything else was done: `Corrupt`; what the engine returns; `Busy`.
    pub fn work(&self, database: &Database) -> Result<()> {
        self.look();
        let mut outcome = Ok(());
        // One sync for all partitions.
        let trimming = database.deferring_syncs();
        for (stream, state) in self.0.database.schema().streams.iter().zip(&self.0.states) {
            for (partition, of) in (0..).zip(&state.partitions) {
                outcome = outcome.and(self.trim_by_limits(&trimming, stream, partition, of));
            }
            outcome = outcome.and(drop_generations(database, stream, state));
        }
        outcome.and(trimming.sync_deferred())
    }

    /// Trims a partition by age and size.
    fn trim_by_limits(&self, database: &Database, stream: &Stream, partition: u32, of: &Partition) -> Result<()> {
        let watermarks = of.watermarks();
        let low = watermarks.low;
        let by_age = match stream.expiration {
            Some(seconds) => {
                let oldest_ms = milliseconds(database.now()).saturating_sub(1000 * seconds);
                read::first_since(database.store(), ReadTier::Disk, stream, partition, watermarks, oldest_ms)?
            }
            None => low,
        };
        let by_size = match stream.max_bytes {
            Some(most) => first_within(database.store(), stream, partition, watermarks, most)?,
            _ => low,
        };
        let wanted = by_age.max(by_size);
        if wanted <= low {
            of.set_held(false);
            return Ok(());
        }
        self.trimming(database, stream, |transaction, held| {
            transaction.hold(stream.id, &partition.to_be_bytes())?;
            let before = held.iter().map(|(_, group)| offset_of(group, partition)).fold(wanted, u64::min);
            of.set_held(by_size > low && before < by_size);
            let is_more = before > of.watermarks().low;
            Ok((if is_more { vec![(partition, before.max(of.trimmed()))] } else { Vec::new() }, ()))
        })
    }

    /// Runs a transaction that finds the new low watermarks of partitions, and trims to them. It receives the groups that hold events back.
    fn trimming<R>(
        &self,
        database: &Database,
        stream: &Stream,
        find: impl Fn(&mut Transaction<'_>, &[(String, Group)]) -> Result<(Vec<(u32, u64)>, R)>,
    ) -> Result<R> {
        let place = self.position(stream)?;
        self.transact(database, |transaction, appends| {
            let mut held = Vec::new();
            for name in &stream.hold_for {
                // Locked: a commit may go back.
                held.push((name.clone(), appends.group(transaction, stream, name)?.unwrap_or_default()));
            }
            let (low, found) = find(transaction, &held)?;
            let trimmed = Trimmed { streams: self.clone(), place, durability: stream.durability, low };
            trimmed.stage(transaction, stream);
            Ok(found)
        })
    }
}

/// Returns the offset up to which a group has committed a partition.
fn offset_of(group: &Group, partition: u32) -> u64 {
    group.offsets.get(&partition).copied().unwrap_or(0)
}

fn check_held(stream: &Stream, partition: u32, before: u64, held: &[(String, Group)]) -> Result<()> {
    match held.iter().find(|(_, group)| offset_of(group, partition) < before) {
        None => Ok(()),
        Some((name, group)) => Err(Error::Conflict {
            detail: format!(
                "consumer group {name:?} of {} has committed partition {partition} up to offset {} only",
                stream.name,
                offset_of(group, partition)
            ),
            pointer: String::new(),
        }),
    }
}

/// Returns the first offset from which on a partition has at most `most` bytes, if it has a tenth more than that; otherwise its low
/// watermark.
fn first_within(store: &Store, stream: &Stream, partition: u32, watermarks: Watermarks, most: u64) -> Result<u64> {
    let Some((before, all)) = bytes(store, stream, partition, watermarks)? else { return Ok(watermarks.low) };
    if all - before <= most + most / SLACK {
        return Ok(watermarks.low);
    }
    let is_within = |chunk: &Chunk<'_>| all - chunk.bytes_before() <= most;
    read::first_wanted(store, ReadTier::Disk, stream, partition, watermarks, is_within)
}

/// Returns the bytes of the chunks that a partition keeps.
pub(super) fn kept_bytes(store: &Store, stream: &Stream, partition: u32, watermarks: Watermarks) -> Result<u64> {
    Ok(bytes(store, stream, partition, watermarks)?.map_or(0, |(before, all)| all - before))
}

/// Returns the bytes of all chunks before those that a partition keeps, and with them; `None` if it keeps none.
fn bytes(
    store: &Store,
    stream: &Stream,
    partition: u32,
    Watermarks { low, high }: Watermarks,
) -> Result<Option<(u64, u64)>> {
    if low >= high {
        return Ok(None);
    }
    let (snapshot, place) = (store.snapshot(ReadTier::Disk)?, |offset| (stream.id, partition, offset));
    let before = read::chunk_at(store, &snapshot, ReadTier::Disk, place(low), |chunk| Ok(chunk.bytes_before()))?;
    let all = read::chunk_at(store, &snapshot, ReadTier::Disk, place(high - 1), |chunk| Ok(chunk.bytes))?;
    Ok(before.zip(all))
}

/// Drops the generations of idempotency keys of which none is known any more.
fn drop_generations(database: &Database, stream: &Stream, state: &State) -> Result<()> {
    for generation in state.generations(stream, milliseconds(database.now()), false) {
        let (lower, upper) = (keys::generation(stream.id, generation), keys::generation(stream.id, generation + 1));
        let mut batch = Batch::default();
        batch.set_gives_back();
        database.store().delete_range(&mut batch, Space::Streams, &lower, &upper);
        database.store().write(&mut batch, Durability::Soft)?;
        database.store().remove_files_between(Space::Streams, &lower, &upper)?;
        // Of the others, which hold keys of the next generation, too, the rest.
        database.store().compact_between(Space::Streams, &lower, &upper)?;
        state.generations.write().remove(&generation);
    }
    Ok(())
}

/// A trim that is staged: the new low watermarks of partitions of a stream.
struct Trimmed {
    streams: Streams,
    place: usize,
    durability: Durability,
    low: Vec<(u32, u64)>,
}

impl Trimmed {
    /// Stages it; the locks of the partitions are held.
    fn stage(self, transaction: &mut Transaction<'_>, stream: &Stream) {
        let state = &self.streams.0.states[self.place];
        for &(partition, low) in &self.low {
            let of = &state.partitions[partition as usize];
            let (lower, upper) = (of.trimmed(), low);
            let (lower, upper) = (keys::chunk(stream.id, partition, lower), keys::chunk(stream.id, partition, upper));
            transaction.delete_range(Space::Streams, &lower, &upper);
            let value = partition::low_watermark(low, of.ingested_ms());
            transaction.put(Space::Streams, &keys::low_watermark(stream.id, partition), &value);
        }
        transaction.require(stream.durability);
        transaction.give_back();
        if !self.low.is_empty() {
            transaction.follow_by(Box::new(self));
        }
    }

    fn each(&self, publish: impl Fn(&Partition, u64)) {
        let partitions = &self.streams.0.states[self.place].partitions;
        self.low.iter().for_each(|(partition, low)| publish(&partitions[*partition as usize], *low));
        self.streams.0.waiting.wake();
    }
}

impl Follower for Trimmed {
    fn written(&self) {
        self.each(Partition::trimmed_to);
        match self.durability {
            Durability::Soft => self.each(Partition::trim),
            // Of what could be read, nothing is there any more; beyond that nobody may see anything yet.
            Durability::Strong => self.each(|partition, low| partition.trim(low.min(partition.watermarks().high))),
        }
    }

    /// Perhaps they are gone: nobody reads them any more.
    fn failed(&self) {
        self.each(Partition::trim);
    }

    fn synced(&self) {
        self.each(Partition::trim);
    }
}
