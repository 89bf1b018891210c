//! Partitions of a stream in memory: where they begin and end, and what their next chunk continues.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::RwLock;
use twox_hash::XxHash3_64;

use super::chunk::Chunk;
use super::event::Event;
use super::{Watermarks, keys};
use crate::error::{Error, Result};
use crate::schema::Stream;
use crate::storage::{ReadTier, Space, Store};

/// A stream in memory.
pub(super) struct State {
    pub(super) partitions: Box<[Partition]>,
    /// The partition of the next event that names none and has no key.
    turn: AtomicU32,
    /// The generations of idempotency keys that there are, by their beginning: the end, after which no key was written. Both in milliseconds
    /// since 1970.
    pub(super) generations: RwLock<BTreeMap<u64, u64>>,
}

/// A partition in memory. What is not atomic together changes under its lock.
#[derive(Default)]
pub(super) struct Partition {
    /// The first event that is kept.
    low: AtomicU64,
    /// The low watermark that was written last, which in a strong stream nobody sees before it is synced.
    trimmed: AtomicU64,
    /// The next event that can be read.
    visible: AtomicU64,
    /// The offset of the next event.
    next: AtomicU64,
    /// Bytes of all chunks so far.
    bytes: AtomicU64,
    /// The time of the last ingestion.
    ingested_ms: AtomicU64,
    /// Whether consumer groups hold more bytes than it may have.
    is_held: AtomicBool,
}

/// The end of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct End {
    pub(super) next: u64,
    pub(super) bytes: u64,
    pub(super) ingested_ms: u64,
}

impl State {
    /// Finds the ends of all partitions.
    ///
    /// # Errors
    /// `Corrupt`; what the engine returns.
    pub(super) fn open(store: &Store, stream: &Stream) -> Result<Self> {
        let partitions = (0..stream.partitions).map(|partition| Partition::open(store, stream.id, partition));
        let partitions: Box<[_]> = partitions.collect::<Result<_>>()?;
        // How long they were to last, the schema of then has said.
        let end = partitions.iter().map(Partition::ingested_ms).max().unwrap_or(0);
        let generations = generations(store, stream.id)?.into_iter().map(|begin| (begin, end)).collect();
        Ok(Self { partitions, turn: AtomicU32::new(0), generations: RwLock::new(generations) })
    }

    /// Returns the partition for an event.
    pub(super) fn choose(&self, event: &Event<'_>) -> u32 {
        let number = self.partitions.len() as u32;
        let of_text = |text: &str| (XxHash3_64::oneshot(text.as_bytes()) % u64::from(number)) as u32;
        match (event.partition, event.key.as_deref().or(event.idempotency_key.as_deref())) {
            (Some(partition), _) => partition,
            (None, Some(text)) => of_text(text),
            (None, None) => self.turn.fetch_add(1, Ordering::Relaxed) % number,
        }
    }

    /// Returns a partition.
    ///
    /// # Errors
    /// `Invalid` if there is none with this number.
    pub(super) fn partition(&self, stream: &Stream, partition: u32) -> Result<&Partition> {
        self.partitions.get(partition as usize).ok_or_else(|| {
            let (name, number) = (&stream.name, self.partitions.len());
            Error::invalid(format!("stream {name} has {number} partitions, counted from 0: there is none {partition}"))
        })
    }
}

impl Partition {
    fn open(store: &Store, stream: u32, partition: u32) -> Result<Self> {
        let low = store.get(Space::Streams, &keys::low_watermark(stream, partition), ReadTier::Disk)?;
        let (low, ingested_ms) = low.map_or(Ok((0, 0)), |value| read_low_watermark(&value))?;
        let (lower, upper) = (keys::chunk(stream, partition, low), keys::end_of_partition(stream, partition + 1));
        let snapshot = store.snapshot(ReadTier::Disk)?;
        // From the low watermark on: before it there may be a million deleted keys.
        let mut scan = store.scan_backwards(Space::Streams, &lower, &upper, &snapshot, ReadTier::Disk);
        let end = match scan.next()? {
            Some((key, value)) => {
                let chunk = Chunk::open(key, value)?;
                End { next: chunk.last() + 1, bytes: chunk.bytes, ingested_ms: chunk.ingested_ms.max(ingested_ms) }
            }
            None => End { next: low, bytes: 0, ingested_ms },
        };
        let opened = Self { low: AtomicU64::new(low), trimmed: AtomicU64::new(low), ..Self::default() };
        opened.end_at(end);
        opened.publish(end.next);
        Ok(opened)
    }

    /// Returns the offset in a stored low watermark.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn read_low(value: &[u8]) -> Result<u64> {
        read_low_watermark(value).map(|(low, _)| low)
    }

    /// Returns the watermarks, the low one never above the high one.
    pub(super) fn watermarks(&self) -> Watermarks {
        let low = self.low.load(Ordering::Acquire);
        Watermarks { low, high: self.visible.load(Ordering::SeqCst) }
    }

    /// Returns the low watermark that was written last; its lock is held.
    pub(super) fn trimmed(&self) -> u64 {
        self.trimmed.load(Ordering::Relaxed)
    }

    /// Records that a low watermark was written; its lock is held.
    pub(super) fn trimmed_to(&self, low: u64) {
        self.trimmed.store(low, Ordering::Relaxed);
    }

    /// Returns the offset of the next event; where that must not change, its lock is held.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Returns the time of the last ingestion.
    pub(super) fn ingested_ms(&self) -> u64 {
        self.ingested_ms.load(Ordering::Relaxed)
    }

    /// Returns its end; its lock is held.
    pub(super) fn end(&self) -> End {
        let value = |of: &AtomicU64| of.load(Ordering::Relaxed);
        End { next: self.next(), bytes: value(&self.bytes), ingested_ms: value(&self.ingested_ms) }
    }

    /// Continues at another end; its lock is held.
    pub(super) fn end_at(&self, end: End) {
        self.bytes.store(end.bytes, Ordering::Relaxed);
        self.ingested_ms.store(end.ingested_ms, Ordering::Relaxed);
        self.next.store(end.next, Ordering::Release);
    }

    /// Lets events below an offset be read.
    pub(super) fn publish(&self, next: u64) {
        // In one order with the looks of those who wait: see `waiting`.
        self.visible.fetch_max(next, Ordering::SeqCst);
    }

    /// Raises the low watermark.
    pub(super) fn trim(&self, low: u64) {
        self.publish(low);
        self.low.fetch_max(low, Ordering::AcqRel);
    }

    /// Sets whether consumer groups hold more bytes than it may have.
    pub(super) fn set_held(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    /// Returns whether it takes no more events until consumer groups have committed more.
    pub(super) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }
}

/// Returns the stored form of a low watermark, which also keeps the time of the last ingestion, for when no chunk is left.
pub(super) fn low_watermark(offset: u64, ingested_ms: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&offset.to_le_bytes());
    value[8..].copy_from_slice(&ingested_ms.to_le_bytes());
    value
}

fn read_low_watermark(value: &[u8]) -> Result<(u64, u64)> {
    let parts = value.split_first_chunk::<8>();
    let parts = parts.and_then(|(offset, rest)| Some((*offset, <[u8; 8]>::try_from(rest).ok()?)));
    let (offset, ingested_ms) = parts.ok_or_else(|| Error::corrupt("the low watermark of a stream"))?;
    Ok((u64::from_le_bytes(offset), u64::from_le_bytes(ingested_ms)))
}

/// Returns the generations of idempotency keys of a stream.
fn generations(store: &Store, stream: u32) -> Result<Vec<u64>> {
    let (lower, upper) = (keys::generation(stream, 0), keys::generation(stream, u64::MAX));
    let (snapshot, mut found) = (store.snapshot(ReadTier::Disk)?, Vec::new());
    let mut scan = store.scan(Space::Streams, &lower, &upper, &snapshot, ReadTier::Disk);
    while let Some((entry, _)) = scan.next()? {
        let generation = keys::generation_of(entry);
        let generation = generation.ok_or_else(|| Error::corrupt("an idempotency key of a stream"))?;
        found.push(generation);
        scan.seek(&keys::generation(stream, generation + 1));
    }
    Ok(found)
}
