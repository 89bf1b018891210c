//! The id of an event: its place in the log, as three numbers, `12-4096-771`.
//!
//! The file of the log, where in it the batch begins, the number of the operation. So resuming from an event looks nothing up; and an
//! id whose event the store has lost, because a power cut took the end of the log, is not mistaken for a later one.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::storage::LogPosition;

/// Which event it is; resuming goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId(LogPosition);

impl EventId {
    /// Of the operation before a position.
    pub(super) fn of(position: LogPosition) -> Self {
        Self(position)
    }

    /// Appends its text.
    pub fn write(self, out: &mut Vec<u8>) {
        let (LogPosition { file, offset, sequence }, mut digits) = (self.0, itoa::Buffer::new());
        out.extend_from_slice(digits.format(file).as_bytes());
        for number in [offset, sequence] {
            out.push(b'-');
            out.extend_from_slice(digits.format(number).as_bytes());
        }
    }

    /// Behind the event.
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
    /// `Invalid` if it is none that was given out.
    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |digits: Option<&str>| {
            // `+1` would be a number, too.
            let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
            digits.and_then(|digits| digits.parse().ok())
        };
        let mut parts = text.split('-');
        let parsed = (number(parts.next()), number(parts.next()), number(parts.next()));
        match (parsed, parts.next()) {
            ((Some(file), Some(offset), Some(sequence)), None) => Ok(Self(LogPosition { file, offset, sequence })),
            _ => Err(Error::invalid(format!(
                "{text:?} is no id of an event: those are three numbers, such as 12-4096-771"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_three_numbers() {
        let id: EventId = "12-4096-771".parse().unwrap();
        assert_eq!(id, EventId(LogPosition { file: 12, offset: 4096, sequence: 771 }));
        assert_eq!(id.to_string(), "12-4096-771");
        for wrong in ["", "1", "1-2", "1-2-3-4", "1--3", "+1-2-3", "1-2-x", " 1-2-3", "1-2-18446744073709551616"] {
            assert!(matches!(wrong.parse::<EventId>(), Err(Error::Invalid { .. })), "{wrong}");
        }
    }
}
