//! The keys of streams, all in one space.
//!
//! ```text
//! chunk           [stream u32][partition u32][offset of its last event u64]    -> see `chunk`
//! idempotency key [stream u32][FFFFFFFE][generation u64][XXH3-128 of the key]  -> partition u32, offset u64, ingested u64
//! low watermark   [stream u32][FFFFFFFF][0][partition u32]                     -> offset u64, ingested u64
//! consumer group  [stream u32][FFFFFFFF][1][name]                              -> see `groups`
//! ```
//! Numbers in keys are big-endian, so that keys sort as numbers do. A seek to an offset finds the chunk that has it.

use std::fmt;

use twox_hash::XxHash3_128;

/// Bytes of the key of a chunk.
pub(super) const CHUNK: usize = 16;

/// Stands where the partition of a chunk does; there are no such partitions.
const IDEMPOTENCY: u32 = u32::MAX - 1;
const BOOKKEEPING: u32 = u32::MAX;

const LOW_WATERMARK: u8 = 0;
const GROUP: u8 = 1;

/// The place of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) stream: u32,
    pub(super) partition: u32,
    pub(super) offset: u64,
}

impl Place {
    /// Returns the last event of the chunk with this key.
    pub(super) fn of_chunk(key: &[u8]) -> Option<Self> {
        let key: &[u8; CHUNK] = key.try_into().ok()?;
        let number = |at: usize| u32::from_be_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
        let offset = u64::from(number(8)) << 32 | u64::from(number(12));
        Some(Self { stream: number(0), partition: number(4), offset })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} of partition {} of stream {}", self.offset, self.partition, self.stream)
    }
}

/// Returns the key of the chunk whose last event has this offset.
pub(super) fn chunk(stream: u32, partition: u32, last: u64) -> [u8; CHUNK] {
    let mut key = [0; CHUNK];
    key[..8].copy_from_slice(&end_of_partition(stream, partition));
    key[8..].copy_from_slice(&last.to_be_bytes());
    key
}

/// Returns the key before which all chunks of the partitions below this one stand, and behind which all of its own do.
pub(super) fn end_of_partition(stream: u32, partition: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&stream.to_be_bytes());
    key[4..].copy_from_slice(&partition.to_be_bytes());
    key
}

/// Returns the prefix of all entries of one generation of idempotency keys.
pub(super) fn generation(stream: u32, generation: u64) -> [u8; 16] {
    chunk(stream, IDEMPOTENCY, generation)
}

/// Returns the generation of an entry of idempotency keys.
pub(super) fn generation_of(entry: &[u8]) -> Option<u64> {
    let place = entry.get(..16).and_then(Place::of_chunk)?;
    (place.partition == IDEMPOTENCY).then_some(place.offset)
}

/// Returns the key of an entry of idempotency keys.
pub(super) fn idempotency(stream: u32, generation: u64, hash: u128) -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&self::generation(stream, generation));
    key[16..].copy_from_slice(&hash.to_be_bytes());
    key
}

/// Returns the hash of an idempotency key.
pub(super) fn hash(idempotency_key: &str) -> u128 {
    XxHash3_128::oneshot(idempotency_key.as_bytes())
}

/// Returns the key of the low watermark of a partition.
pub(super) fn low_watermark(stream: u32, partition: u32) -> [u8; 13] {
    let mut key = [0; 13];
    key[..8].copy_from_slice(&end_of_partition(stream, BOOKKEEPING));
    key[8] = LOW_WATERMARK;
    key[9..].copy_from_slice(&partition.to_be_bytes());
    key
}

/// Returns the key of a consumer group.
pub(super) fn group(stream: u32, name: &str) -> Vec<u8> {
    [&groups(stream).0[..], name.as_bytes()].concat()
}

/// Returns the prefix of the keys of all consumer groups, and the key before which they stand.
pub(super) fn groups(stream: u32) -> ([u8; 9], [u8; 9]) {
    let mut prefix = [0; 9];
    prefix[..8].copy_from_slice(&end_of_partition(stream, BOOKKEEPING));
    prefix[8] = GROUP;
    let mut end = prefix;
    end[8] += 1;
    (prefix, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 9 and 10, 99 and 100, 255 and 256, and each power of 256: places where text, or another order of bytes, would sort otherwise.
    #[test]
    fn keys_sort_as_numbers_do() {
        let offsets: Vec<u64> =
            (0..8).flat_map(|power| [(1 << (8 * power)) - 1, 1 << (8 * power), (1 << (8 * power)) + 1]).collect();
        let numbers = [0, 9, 10, 99, 100, 254, 255, 256, 257, 1023];
        let mut places = Vec::new();
        for stream in numbers.map(|number| number + 1) {
            for partition in numbers {
                places.extend(offsets.iter().map(|offset| Place { stream, partition, offset: *offset }));
            }
        }
        places.sort_unstable();
        places.dedup();
        let key = |place: &Place| chunk(place.stream, place.partition, place.offset);
        assert!(places.is_sorted_by(|one, other| key(one) < key(other)));
        for place in &places {
            assert_eq!(Place::of_chunk(&key(place)), Some(*place));
            assert!(end_of_partition(place.stream, place.partition)[..] <= key(place)[..]);
            assert!(key(place)[..] < end_of_partition(place.stream, place.partition + 1)[..]);
            assert!(key(place)[..] < generation(place.stream, 0)[..]);
        }
        assert_eq!(generation_of(&idempotency(7, 255, u128::MAX)), Some(255));
        assert!(idempotency(7, 255, u128::MAX)[..] < generation(7, 256)[..]);
        assert!(generation(7, u64::MAX)[..] < low_watermark(7, 0)[..] && low_watermark(7, 255) < low_watermark(7, 256));
    }
}
