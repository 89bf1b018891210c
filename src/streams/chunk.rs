//! A chunk: consecutive events of one partition in one stored value.
//!
//! ```text
//! version u8 = 1 | checksum u64 | count u32 | ingested u64, ms since 1970 | bytes u64 of all chunks of the partition up to this one
//! then each event: flags u8 | [time u64, ms] | [length u16, key] | [length u8, idempotency key] | length u32, payload
//! ```
//! All numbers are little-endian. The checksum is the XXH3-64 of what follows it, with a seed from the key, so that a chunk under another
//! key is noticed, too. A length of the whole partition in each chunk makes the bytes between two offsets a difference of two reads.
//!
//! A chunk is written once and never changed.

use twox_hash::XxHash3_64;

use super::event::Event;
use super::keys::{self, Place};
use crate::error::{Error, Result};

/// Bytes of events after which the next one begins a new chunk.
const EVENT_BYTES: usize = 64 << 10;

const VERSION: u8 = 1;
const CHECKED_FROM: usize = 9;
const HEAD_BYTES: usize = 29;

const HAS_TIME: u8 = 1;
const HAS_KEY: u8 = 2;
const HAS_IDEMPOTENCY_KEY: u8 = 4;

/// Bytes of the members of an event that are no text, at most.
const EVENT_HEAD_BYTES: usize = 16;

/// A chunk that is being made.
#[derive(Default)]
pub(super) struct Builder {
    /// Empty without an event.
    bytes: Vec<u8>,
    count: u32,
}

impl Builder {
    /// Returns whether another event belongs into the next chunk.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= HEAD_BYTES + EVENT_BYTES
    }

    pub(super) fn has_events(&self) -> bool {
        self.count > 0
    }

    pub(super) fn add(&mut self, event: &Event<'_>) {
        let (key, idempotency_key) = (event.key.as_deref(), event.idempotency_key.as_deref());
        let flags = [(event.timestamp_ms.is_some(), HAS_TIME), (key.is_some(), HAS_KEY)];
        let flags = flags.into_iter().chain([(idempotency_key.is_some(), HAS_IDEMPOTENCY_KEY)]);
        let out = &mut self.bytes;
        let texts = [key, idempotency_key, Some(event.payload)].into_iter().flatten().map(str::len).sum::<usize>();
        if out.is_empty() {
            out.reserve(HEAD_BYTES + EVENT_HEAD_BYTES + texts);
            out.resize(HEAD_BYTES, 0);
        }
        out.push(flags.fold(0, |all, (is_set, flag)| if is_set { all | flag } else { all }));
        if let Some(time) = event.timestamp_ms {
            out.extend_from_slice(&time.to_le_bytes());
        }
        // The lengths are those that an event may have.
        if let Some(key) = key {
            out.extend_from_slice(&(key.len() as u16).to_le_bytes());
            out.extend_from_slice(key.as_bytes());
        }
        if let Some(key) = idempotency_key {
            out.push(key.len() as u8);
            out.extend_from_slice(key.as_bytes());
        }
        out.extend_from_slice(&(event.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(event.payload.as_bytes());
        self.count += 1;
    }

    /// Completes the chunk under its key; `bytes_before`: those of the partition without it. Returns its value, and the bytes with it.
    pub(super) fn finish(mut self, key: &[u8; keys::CHUNK], ingested_ms: u64, bytes_before: u64) -> (Vec<u8>, u64) {
        let bytes = bytes_before + self.bytes.len() as u64;
        self.bytes[CHECKED_FROM..13].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[13..21].copy_from_slice(&ingested_ms.to_le_bytes());
        self.bytes[21..HEAD_BYTES].copy_from_slice(&bytes.to_le_bytes());
        self.bytes[0] = VERSION;
        let checksum = checksum(key, &self.bytes[CHECKED_FROM..]);
        self.bytes[1..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
        (self.bytes, bytes)
    }
}

fn checksum(key: &[u8], checked: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(key), checked)
}

/// A verified chunk.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    place: Place,
    count: u32,
    pub(super) ingested_ms: u64,
    /// Bytes of all chunks of the partition up to this one.
    pub(super) bytes: u64,
    events: &'a [u8],
}

/// An event as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored<'a> {
    pub(super) offset: u64,
    pub(super) timestamp_ms: Option<u64>,
    pub(super) key: Option<&'a str>,
    pub(super) idempotency_key: Option<&'a str>,
    /// JSON.
    pub(super) payload: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Verifies a chunk.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn open(key: &[u8], value: &'a [u8]) -> Result<Self> {
        let place = Place::of_chunk(key).ok_or_else(|| Error::corrupt("the key of a chunk of events"))?;
        let damaged = |what| Error::corrupt(format!("the chunk of events that ends at {place}: {what}"));
        let Some((head, events)) = value.split_first_chunk::<HEAD_BYTES>() else { return Err(damaged("too short")) };
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes of the head"));
        if head[0] != VERSION {
            return Err(damaged("unknown version"));
        }
        if number(1) != checksum(key, &value[CHECKED_FROM..]) {
            return Err(damaged("checksum mismatch"));
        }
        let count = u32::from_le_bytes(head[CHECKED_FROM..13].try_into().expect("four bytes of the head"));
        if count == 0 || u64::from(count) > place.offset + 1 {
            return Err(damaged("impossible number of events"));
        }
        Ok(Self { place, count, ingested_ms: number(13), bytes: number(21), events })
    }

    /// Returns the offset of its first event.
    pub(super) fn first(&self) -> u64 {
        self.place.offset + 1 - u64::from(self.count)
    }

    /// Returns the offset of its last event.
    pub(super) fn last(&self) -> u64 {
        self.place.offset
    }

    /// Returns the bytes of all chunks of the partition before this one.
    pub(super) fn bytes_before(&self) -> u64 {
        self.bytes.saturating_sub((HEAD_BYTES + self.events.len()) as u64)
    }

    /// Returns its events in order.
    pub(super) fn events(&self) -> Events<'a> {
        Events { place: self.place, offset: self.first(), rest: self.events }
    }

    /// Returns the event at an offset that it has.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(super) fn event(&self, offset: u64) -> Result<Stored<'a>> {
        let mut events = self.events();
        while let Some(event) = events.next()? {
            if event.offset == offset {
                return Ok(event);
            }
        }
        Err(Error::corrupt(format!("the chunk of events that ends at {} lacks offset {offset}", self.place)))
    }
}

/// The events of a chunk that are still to be read.
pub(super) struct Events<'a> {
    place: Place,
    offset: u64,
    rest: &'a [u8],
}

impl<'a> Events<'a> {
    /// Returns the next event; `None` behind the last one.
    ///
    /// # Errors
    /// `Corrupt` if the chunk has less than an event, or more than its events, which would be a defect.
    pub(super) fn next(&mut self) -> Result<Option<Stored<'a>>> {
        let is_end = self.offset > self.place.offset;
        if is_end && self.rest.is_empty() {
            return Ok(None);
        }
        let event = if is_end { None } else { self.read() };
        match event {
            Some(event) => {
                self.offset += 1;
                Ok(Some(event))
            }
            None => Err(Error::corrupt(format!("the chunk of events that ends at {} has no event here", self.place))),
        }
    }

    fn read(&mut self) -> Option<Stored<'a>> {
        let [flags] = self.take()?;
        if flags & !(HAS_TIME | HAS_KEY | HAS_IDEMPOTENCY_KEY) != 0 {
            return None;
        }
        let has = |flag: u8| flags & flag != 0;
        let timestamp_ms = if has(HAS_TIME) { Some(u64::from_le_bytes(self.take()?)) } else { None };
        let key = match has(HAS_KEY) {
            true => {
                let length = u16::from_le_bytes(self.take()?);
                Some(self.text(length.into())?)
            }
            false => None,
        };
        let idempotency_key = match has(HAS_IDEMPOTENCY_KEY) {
            true => {
                let [length] = self.take()?;
                Some(self.text(length.into())?)
            }
            false => None,
        };
        let length = u32::from_le_bytes(self.take()?);
        let payload = self.bytes(length as usize)?;
        Some(Stored { offset: self.offset, timestamp_ms, key, idempotency_key, payload })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn text(&mut self, length: usize) -> Option<&'a str> {
        self.bytes(length).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const KEYED: Event<'_> = Event {
        payload: "{\"a\":[1,2]}",
        partition: None,
        key: Some(Cow::Borrowed("key")),
        timestamp_ms: Some(7),
        idempotency_key: Some(Cow::Borrowed("once")),
        expected_offset: None,
    };

    fn chunk(events: &[Event<'_>], last: u64) -> ([u8; keys::CHUNK], Vec<u8>) {
        let (mut builder, key) = (Builder::default(), keys::chunk(3, 9, last));
        events.iter().for_each(|event| builder.add(event));
        let (value, bytes) = builder.finish(&key, 1234, 1000);
        assert_eq!(bytes, 1000 + value.len() as u64);
        (key, value)
    }

    fn read(key: &[u8], value: &[u8]) -> Result<Vec<(u64, String)>> {
        let (chunk, mut all) = (Chunk::open(key, value)?, Vec::new());
        let mut events = chunk.events();
        while let Some(event) = events.next()? {
            all.push((event.offset, String::from_utf8_lossy(event.payload).into_owned()));
        }
        Ok(all)
    }

    #[test]
    fn events_come_back_as_they_were() {
        let plain = Event { payload: "null", ..Event::default() };
        let (key, value) = chunk(&[plain, KEYED], 41);
        let chunk = Chunk::open(&key, &value).unwrap();
        assert_eq!((chunk.first(), chunk.last(), chunk.ingested_ms), (40, 41, 1234));
        assert_eq!(read(&key, &value).unwrap(), [(40, "null".to_owned()), (41, KEYED.payload.to_owned())]);
        let stored = chunk.event(41).unwrap();
        assert_eq!((stored.key, stored.idempotency_key, stored.timestamp_ms), (Some("key"), Some("once"), Some(7)));
        assert!(chunk.event(42).is_err());
    }

    #[test]
    fn a_flipped_bit_a_cut_end_or_another_key_is_corrupt() {
        let (key, value) = chunk(&[KEYED, KEYED], 1);
        for at in 0..value.len() {
            for bit in 0..8 {
                let mut flipped = value.clone();
                flipped[at] ^= 1 << bit;
                assert!(matches!(read(&key, &flipped), Err(Error::Corrupt { .. })), "bit {bit} of byte {at}");
            }
            assert!(matches!(read(&key, &value[..at]), Err(Error::Corrupt { .. })), "cut at {at}");
        }
        for other in [keys::chunk(3, 9, 2), keys::chunk(3, 8, 1), keys::chunk(4, 9, 1)] {
            assert!(matches!(read(&other, &value), Err(Error::Corrupt { .. })));
        }
    }

    /// With a right checksum, as a defect would write it.
    #[test]
    fn whatever_is_sealed_is_never_a_panic() {
        let (key, value) = chunk(&[KEYED, KEYED], 1);
        for at in 0..value.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut sealed = value.clone();
                sealed[at] = byte;
                let checksum = checksum(&key, &sealed[CHECKED_FROM..]);
                sealed[1..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
                if let Ok(events) = read(&key, &sealed) {
                    assert!(events.len() <= 2);
                }
            }
        }
    }
}
