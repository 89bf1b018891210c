//! One file of the log, in the engine's format (`db/log_format.h`): records in blocks of 32 KiB, cut where a block ends.
//!
//! ```text
//! checksum u32, bytes u16, type u8, bytes      all little-endian; a rest of a block too short for that is zeros
//! type       1 a whole record; 2, 3, 4 its first, middle and last part
//! checksum   CRC-32C of type and bytes, rotated right by 15 and with 0xa282ead8 added
//! ```
//! What cannot be what was written is the end of the file, as it is for the engine when it recovers: the writer was cut off there, or
//! has not come further yet. Whether something is missing is seen by the numbers of what follows.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::archive;
use crate::error::{Error, Result};

const BLOCK_BYTES: u64 = 32 << 10;
const HEADER_BYTES: u64 = 7;

const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// A record of a type with this bit may be passed over by a reader that does not know it.
const OPTIONAL: u8 = 1 << 7;

/// How much is read at once.
const READ_BYTES: usize = 128 << 10;

/// A file, read from some offset on.
pub(super) struct LogFile {
    file: File,
    number: u64,
    /// Where the next record begins.
    at: u64,
    /// A part of the file, and where it begins.
    buffer: Vec<u8>,
    buffered_at: u64,
}

/// The name of the file with a number.
pub(super) fn name(number: u64) -> String {
    format!("{number:06}.log")
}

/// The number of the file with a name, if it is one of the log.
pub(super) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl LogFile {
    /// Opens the file with a number, where it is or where the engine has archived it; `None` if there is none any more, or it is not
    /// so long.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub(super) fn open(directory: &Path, number: u64, offset: u64) -> Result<Option<Self>> {
        let cannot = |error| Error::storage("cannot open a file of the log", error);
        // In this order: files are moved one way.
        for folder in [directory, &archive(directory)] {
            match File::open(folder.join(name(number))) {
                Ok(file) => {
                    let length = file.metadata().map_err(cannot)?.len();
                    let file = Self { file, number, at: offset, buffer: Vec::new(), buffered_at: 0 };
                    return Ok((offset <= length).then_some(file));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(cannot(error)),
            }
        }
        Ok(None)
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Reads it from its beginning again.
    pub(super) fn rewind(&mut self) {
        self.at = 0;
    }

    /// Reads the next record; where it begins. `None` where there is no whole one; asked again, it looks again.
    ///
    /// # Errors
    /// `Corrupt` if there is something of a kind that this engine does not write; `Storage` on an I/O error.
    pub(super) fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<u64>> {
        record.clear();
        let (mut at, mut begins) = (self.at, None);
        loop {
            let rest = BLOCK_BYTES - at % BLOCK_BYTES;
            if rest < HEADER_BYTES {
                at += rest;
                continue;
            }
            let Some(header) = self.bytes(at, HEADER_BYTES)? else { return Ok(None) };
            let (head, kind) = (header.first_chunk::<6>().expect("seven bytes"), header[6]);
            let checksum = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            let length = u64::from(u16::from_le_bytes([head[4], head[5]]));
            // Zeros are where nothing was written yet.
            if kind == 0 || HEADER_BYTES + length > rest {
                return Ok(None);
            }
            let Some(checked) = self.bytes(at + 6, 1 + length)? else { return Ok(None) };
            if crc32c::crc32c(checked).rotate_right(15).wrapping_add(0xa282_ead8) != checksum {
                return Ok(None);
            }
            match (kind, begins) {
                (WHOLE | FIRST, None) => begins = Some(at),
                (MIDDLE | LAST, Some(_)) => {}
                // A part without its beginning, or a beginning without its end.
                (WHOLE | FIRST | MIDDLE | LAST, _) => return Ok(None),
                (kind, _) if kind & OPTIONAL != 0 => {
                    at += HEADER_BYTES + length;
                    continue;
                }
                _ => {
                    return Err(Error::corrupt(format!(
                        "the log has a record of type {kind} in {}",
                        name(self.number)
                    )));
                }
            }
            record.extend_from_slice(&checked[1..]);
            at += HEADER_BYTES + length;
            if matches!(kind, WHOLE | LAST) {
                self.at = at;
                return Ok(begins);
            }
        }
    }

    /// A part of the file, if all of it is there.
    fn bytes(&mut self, at: u64, length: u64) -> Result<Option<&[u8]>> {
        let length = length as usize;
        if self.buffered(at, length).is_none() {
            self.fill(at, READ_BYTES.max(length))?;
        }
        Ok(self.buffered(at, length))
    }

    fn buffered(&self, at: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.buffered_at)?).ok()?;
        self.buffer.get(start..)?.get(..length)
    }

    fn fill(&mut self, at: u64, most: usize) -> Result<()> {
        self.buffer.resize(most, 0);
        let mut filled = 0;
        while filled < most {
            match self.file.read_at(&mut self.buffer[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::storage("cannot read the log", error)),
            }
        }
        self.buffer.truncate(filled);
        self.buffered_at = at;
        Ok(())
    }
}
