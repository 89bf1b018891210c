//! Reads of a partition: chunks are verified and written straight into the response.

use std::time::Duration;

use super::chunk::{Chunk, Stored};
use super::partition::Partition;
use super::{Streams, Watermarks, keys};
use crate::error::{Error, OffsetFault, Result};
use crate::schema::Stream;
use crate::storage::{ReadTier, Snapshot, Space, Store};
use crate::transaction::Database;

/// Where reading begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the first event that is kept.
    #[default]
    Beginning,
    /// At this offset.
    Offset(u64),
    /// At the first event that was ingested at this time or later: milliseconds since 1970.
    Since(u64),
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The number of events.
    pub events: usize,
    /// Where the following read goes on.
    pub next: u64,
    /// What the partition had when it was read.
    pub watermarks: Watermarks,
}

/// How often, and in what intervals, it is looked for events that are being trimmed.
const LOOKS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// A response from memory ends here: to read and copy more would keep others waiting.
const SHORT_BYTES: usize = 64 << 10;

impl Streams {
    /// Appends the events of a partition to `out`, as JSON objects with commas between them. `limits`: the maximum number of events, and the
    /// number of bytes after which there is no further one.
    ///
    /// # Errors
    /// `Offset` if it begins outside the watermarks; `Invalid` if the stream is of another database, or has no such partition; `Corrupt`;
    /// what the engine returns.
    pub fn read(
        &self,
        database: &Database,
        stream: &Stream,
        partition: u32,
        from: Start,
        limits: (usize, usize),
        out: &mut Vec<u8>,
    ) -> Result<Page> {
        let of = self.state(stream)?.partition(stream, partition)?;
        database.check_same(&self.0.database, "stream")?;
        for _ in 0..LOOKS {
            match read_once(database, stream, (partition, of), from, limits, out)? {
                Some(page) => return Ok(page),
                None if database.tier() == ReadTier::Memory => return Err(Error::WouldBlock),
                None => std::thread::sleep(PAUSE),
            }
        }
        Err(Error::corrupt(format!("partition {partition} of {} lacks the events at its watermarks", stream.name)))
    }
}

/// Reads, unless the events are being trimmed just now: they are gone before the watermarks say so.
fn read_once(
    database: &Database,
    stream: &Stream,
    (partition, of): (u32, &Partition),
    from: Start,
    (most_events, most_bytes): (usize, usize),
    out: &mut Vec<u8>,
) -> Result<Option<Page>> {
    let (store, tier, watermarks) = (database.store(), database.tier(), of.watermarks());
    let Watermarks { low, high } = watermarks;
    let from = match from {
        Start::Beginning => low,
        Start::Offset(offset) => offset,
        Start::Since(time_ms) => first_since(store, tier, stream, partition, watermarks, time_ms)?,
    };
    let outside = |fault| {
        let detail = match fault {
            OffsetFault::Trimmed => {
                format!("the events of partition {partition} of {} before {low} were trimmed", stream.name)
            }
            _ => format!("partition {partition} of {} ends at offset {high}", stream.name),
        };
        Error::Offset { detail, fault, pointer: String::new(), low, high }
    };
    if from > high {
        return Err(outside(OffsetFault::Ahead));
    }
    if from < low {
        return Err(outside(OffsetFault::Trimmed));
    }
    let mut page = Page { events: 0, next: from, watermarks };
    if most_events == 0 || from == high {
        return Ok(Some(page));
    }
    let snapshot = store.snapshot(ReadTier::Disk)?;
    let (lower, upper) = (keys::chunk(stream.id, partition, from), keys::end_of_partition(stream.id, partition + 1));
    let mut scan = store.scan(Space::Streams, &lower, &upper, &snapshot, tier);
    let begun = out.len();
    let is_enough = |page: &Page, out: &Vec<u8>| {
        page.events == most_events || page.events > 0 && out.len() - begun >= most_bytes || page.next >= high
    };
    // No chunk is looked at that is not asked for: it may be damaged, or long.
    while !is_enough(&page, out) {
        let Some((key, value)) = scan.next()? else { break };
        if tier == ReadTier::Memory && out.len() - begun + value.len() > 2 * SHORT_BYTES {
            return Err(Error::WouldBlock);
        }
        let chunk = match Chunk::open(key, value) {
            // What stands before it can be read.
            Err(_) if page.events > 0 => break,
            chunk => chunk?,
        };
        if page.next < chunk.first() {
            break;
        }
        let mut events = chunk.events();
        while let Some(event) = events.next()? {
            if event.offset < page.next {
                continue;
            }
            if is_enough(&page, out) {
                break;
            }
            if page.events > 0 {
                out.push(b',');
            }
            write(partition, &chunk, &event, out)?;
            (page.events, page.next) = (page.events + 1, page.next + 1);
        }
    }
    Ok((page.events > 0).then_some(page))
}

/// Reads the chunk that has an offset of a partition, or the one behind it.
pub(super) fn chunk_at<R>(
    store: &Store,
    snapshot: &Snapshot<'_>,
    tier: ReadTier,
    (stream, partition, offset): (u32, u32, u64),
    read: impl FnOnce(&Chunk<'_>) -> Result<R>,
) -> Result<Option<R>> {
    let (lower, upper) = (keys::chunk(stream, partition, offset), keys::end_of_partition(stream, partition + 1));
    let mut scan = store.scan(Space::Streams, &lower, &upper, snapshot, tier);
    let Some((key, value)) = scan.next()? else { return Ok(None) };
    read(&Chunk::open(key, value)?).map(Some)
}

/// Finds by bisection the first offset whose chunk is wanted, as all behind it are; the high watermark if none is.
pub(super) fn first_wanted(
    store: &Store,
    tier: ReadTier,
    stream: &Stream,
    partition: u32,
    Watermarks { low, high }: Watermarks,
    is_wanted: impl Fn(&Chunk<'_>) -> bool,
) -> Result<u64> {
    let snapshot = store.snapshot(ReadTier::Disk)?;
    let (mut from, mut to, mut middle) = (low, high, low);
    while from < to {
        let looked = |chunk: &Chunk<'_>| Ok((chunk.first(), chunk.last(), is_wanted(chunk)));
        let found = chunk_at(store, &snapshot, tier, (stream.id, partition, middle), looked)?;
        let Some((first, last, is_wanted)) = found else { break };
        match is_wanted {
            true => to = first.clamp(from, middle),
            false => from = last + 1,
        }
        middle = from + to.saturating_sub(from) / 2;
    }
    Ok(from.min(high))
}

/// Finds the offset of the first event that was ingested at a time or later.
pub(super) fn first_since(
    store: &Store,
    tier: ReadTier,
    stream: &Stream,
    partition: u32,
    watermarks: Watermarks,
    time_ms: u64,
) -> Result<u64> {
    first_wanted(store, tier, stream, partition, watermarks, |chunk| chunk.ingested_ms >= time_ms)
}

/// Writes an event as a JSON object.
fn write(partition: u32, chunk: &Chunk<'_>, event: &Stored<'_>, out: &mut Vec<u8>) -> Result<()> {
    let mut digits = itoa::Buffer::new();
    let mut number = |name: &str, number: u64, out: &mut Vec<u8>| {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(digits.format(number).as_bytes());
    };
    number("{\"partition\":", partition.into(), out);
    number(",\"offset\":", event.offset, out);
    number(",\"timestampMs\":", event.timestamp_ms.unwrap_or(chunk.ingested_ms), out);
    number(",\"ingestedMs\":", chunk.ingested_ms, out);
    for (name, text) in [(",\"key\":", event.key), (",\"idempotencyKey\":", event.idempotency_key)] {
        if let Some(text) = text {
            out.extend_from_slice(name.as_bytes());
            serde_json::to_writer(&mut *out, text).map_err(|error| Error::storage("cannot write an event", error))?;
        }
    }
    out.extend_from_slice(b",\"payload\":");
    out.extend_from_slice(event.payload);
    out.push(b'}');
    Ok(())
}
