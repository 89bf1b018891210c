//! The id of an event: its position in the log as four numbers, `3735928559-12-4096-771`.
//!
//! They are the random number of the opening of the store, the number of the log file, the offset of the batch in it and the sequence
//! number of the operation. So resuming needs no look-up, and an id is not mistaken for that of another event if the store has lost its
//! event (a power cut took the end of the log) or never had it (the store was restored from a copy).

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::storage::LogPosition;

/// The id of an event; resuming from it continues with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId(LogPosition);

impl EventId {
    /// Returns the id of the operation before a position.
    pub(super) fn of(position: LogPosition) -> Self {
        Self(position)
    }

    /// Appends the text of the id.
    pub fn write(self, out: &mut Vec<u8>) {
        let (LogPosition { opening, file, offset, sequence }, mut digits) = (self.0, itoa::Buffer::new());
        out.extend_from_slice(digits.format(opening).as_bytes());
        for number in [file, offset, sequence] {
            out.push(b'-');
            out.extend_from_slice(digits.format(number).as_bytes());
        }
    }

    /// Returns the id as bytes, as [`EventId::from_bytes`] reads them.
    pub(crate) fn to_bytes(self) -> [u8; 28] {
        let LogPosition { opening, file, offset, sequence } = self.0;
        let mut bytes = [0; 28];
        bytes[..4].copy_from_slice(&opening.to_le_bytes());
        for (place, number) in bytes[4..].chunks_exact_mut(8).zip([file, offset, sequence]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads the id at the beginning of `bytes`; returns the rest, too.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (opening, mut rest) = bytes.split_first_chunk()?;
        let mut next = || {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let (file, offset, sequence) = (next()?, next()?, next()?);
        Some((Self(LogPosition { opening: u32::from_le_bytes(*opening), file, offset, sequence }), rest))
    }

    /// Returns the position after the event.
    pub(super) fn position(self) -> LogPosition {
        self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.write_str(std::str::from_utf8(&text).expect("digits"))
    }
}

impl FromStr for EventId {
    type Err = Error;

    /// # Errors
    /// `Invalid` if the text is not an event id.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            let example = "3735928559-12-4096-771";
            Error::invalid(format!("{text:?} is not an event id: expected four numbers, such as {example}"))
        };
        // `parse` would accept `+1` as well.
        let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
        let numbers = text.split('-').map(|part| Some(part).filter(is_number)?.parse::<u64>().ok());
        let numbers = numbers.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let [opening, file, offset, sequence] = numbers[..] else { return Err(wrong()) };
        let opening = u32::try_from(opening).map_err(|_| wrong())?;
        Ok(Self(LogPosition { opening, file, offset, sequence }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_four_numbers() {
        let id: EventId = "3735928559-12-4096-771".parse().unwrap();
        assert_eq!(id, EventId(LogPosition { opening: 0xDEAD_BEEF, file: 12, offset: 4096, sequence: 771 }));
        assert_eq!(id.to_string(), "3735928559-12-4096-771");
        let too_great = ["4294967296-2-3-4", "1-2-3-18446744073709551616"];
        for wrong in
            ["", "1", "1-2-3", "1-2-3-4-5", "1-2--4", "1-+2-3-4", "1-2-3-x", " 1-2-3-4"].iter().chain(&too_great)
        {
            assert!(matches!(wrong.parse::<EventId>(), Err(Error::Invalid { .. })), "{wrong}");
        }
    }
}
