//! Checks that chunks follow each other without a gap, and that idempotency keys lead to their events, for tests and operators.

use super::chunk::Chunk;
use super::partition::Partition;
use super::{append, keys};
use crate::error::{Error, Result};
use crate::schema::Stream;
use crate::storage::{ReadTier, Snapshot, Space};
use crate::transaction::Database;

/// The most disagreements that are described.
const MOST: usize = 100;

/// Reads all chunks and all idempotency keys of all streams, and describes every disagreement, at most a hundred of them.
///
/// # Errors
/// What the engine returns. What is damaged is a disagreement, not an error.
pub fn disagreements(database: &Database) -> Result<Vec<String>> {
    let (snapshot, mut found) = (database.store().snapshot(ReadTier::Disk)?, Vec::new());
    for stream in &database.schema().streams {
        for partition in 0..stream.partitions {
            of_partition(database, stream, partition, &snapshot, &mut found)?;
        }
        of_keys(database, stream, &snapshot, &mut found)?;
    }
    found.truncate(MOST);
    Ok(found)
}

fn of_partition(
    database: &Database,
    stream: &Stream,
    partition: u32,
    snapshot: &Snapshot<'_>,
    found: &mut Vec<String>,
) -> Result<()> {
    let low = database.store().get(Space::Streams, &keys::low_watermark(stream.id, partition), ReadTier::Disk)?;
    let low = low.map_or(Ok(0), |value| Partition::read_low(&value));
    let mut expected = low.as_ref().ok().copied().unwrap_or(0);
    let name = format!("partition {partition} of {}", stream.name);
    found.extend(low.err().map(|error| format!("{name}: {error}")));
    let (lower, upper) = (keys::chunk(stream.id, partition, 0), keys::end_of_partition(stream.id, partition + 1));
    let mut scan = database.store().scan(Space::Streams, &lower, &upper, snapshot, ReadTier::Disk);
    let (mut is_first, mut ingested_ms, mut bytes) = (true, 0, 0);
    while let Some((key, value)) = scan.next()? {
        if found.len() >= MOST {
            break;
        }
        let chunk = match read_whole(key, value) {
            Ok(chunk) => chunk,
            Err(error) => {
                found.push(format!("{name}: {error}"));
                is_first = true;
                continue;
            }
        };
        let (first, last) = (chunk.first(), chunk.last());
        // The low watermark may stand inside the first chunk.
        if if is_first { first > expected || last < expected } else { first != expected } {
            found.push(format!("{name}: offset {expected} is followed by the chunk from {first} to {last}"));
        }
        if !is_first && chunk.bytes != bytes + value.len() as u64 {
            found.push(format!("{name}: the chunk to {last} does not count the bytes before it"));
        }
        if chunk.ingested_ms < ingested_ms {
            found.push(format!("{name}: the chunk to {last} is older than the one before it"));
        }
        (is_first, expected, ingested_ms, bytes) = (false, last + 1, chunk.ingested_ms, chunk.bytes);
    }
    Ok(())
}

/// Verifies a chunk and all its events.
fn read_whole<'a>(key: &[u8], value: &'a [u8]) -> Result<Chunk<'a>> {
    let chunk = Chunk::open(key, value)?;
    let mut events = chunk.events();
    while let Some(event) = events.next()? {
        if serde_json::from_slice::<serde::de::IgnoredAny>(event.payload).is_err() {
            return Err(Error::corrupt(format!("offset {}: the payload is not JSON", event.offset)));
        }
    }
    Ok(chunk)
}

/// Checks that the events at the places of idempotency keys have these keys, unless they were trimmed.
fn of_keys(database: &Database, stream: &Stream, snapshot: &Snapshot<'_>, found: &mut Vec<String>) -> Result<()> {
    let (lower, upper) = (keys::generation(stream.id, 0), keys::generation(stream.id, u64::MAX));
    let mut scan = database.store().scan(Space::Streams, &lower, &upper, snapshot, ReadTier::Disk);
    while let Some((key, value)) = scan.next()? {
        if found.len() >= MOST {
            break;
        }
        let wrong = match append::read_entry(value) {
            Err(error) => Some(error.to_string()),
            Ok((partition, offset, _)) => {
                let hash = |event: super::chunk::Stored<'_>| event.idempotency_key.map(keys::hash);
                let read =
                    match append::with_event(database.store(), ReadTier::Disk, stream.id, partition, offset, hash) {
                        // Already described.
                        Err(Error::Corrupt { .. }) => None,
                        read => read?,
                    };
                let is_it = |hash: u128| key.ends_with(&hash.to_be_bytes());
                match read {
                    None => None,
                    Some(Some(hash)) if is_it(hash) => None,
                    Some(_) => Some(format!("offset {offset} of partition {partition} has another idempotency key")),
                }
            }
        };
        found.extend(wrong.map(|wrong| format!("idempotency keys of {}: {wrong}", stream.name)));
    }
    Ok(())
}
