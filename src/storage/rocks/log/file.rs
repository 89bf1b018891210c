//! One log file in the engine's format (`db/log_format.h`): records in blocks of 32 KiB, split at block boundaries.
//!
//! ```text
//! checksum u32, bytes u16, type u8, bytes      all little-endian; the rest of a block too short for a header is zeros
//! type       1 a whole record; 2, 3, 4 its first, middle and last part
//! checksum   CRC-32C of type and bytes, rotated right by 15, plus 0xa282ead8
//! ```
//! An invalid record is the end of the file, as it is for the engine in recovery: the writer was interrupted there, or has not got further
//! yet. Missing operations are detected by the sequence numbers of what follows.

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

/// A reader may skip a record of an unknown type with this bit.
const OPTIONAL: u8 = 1 << 7;

/// Bytes per read.
const READ_BYTES: usize = 128 << 10;

/// A log file, read from an offset on.
pub(super) struct LogFile {
    file: File,
    number: u64,
    /// Offset of the next record.
    at: u64,
    /// A part of the file, which begins at `buffered_at`.
    buffer: Vec<u8>,
    buffered_at: u64,
    /// Whether parts of records without their first one are skipped: they belong to what is damaged.
    is_behind_damage: bool,
}

/// Returns the name of the file with a number.
pub(super) fn name(number: u64) -> String {
    format!("{number:06}.log")
}

/// Returns the number of the file with a name; `None` if it is not a log file.
pub(super) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Returns the checksum of bytes as the engine stores it.
pub(in crate::layers::storage) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

impl LogFile {
    /// Opens the file with a number, in the directory of the store or in the archive; `None` if it no longer exists or is shorter than
    /// `offset`.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub(super) fn open(directory: &Path, number: u64, offset: u64) -> Result<Option<Self>> {
        let cannot = |error| Error::storage("cannot open a file of the log", error);
        // In this order: files only move from the first to the second.
        for folder in [directory, &archive(directory)] {
            match File::open(folder.join(name(number))) {
                Ok(file) => {
                    let length = file.metadata().map_err(cannot)?.len();
                    return Ok((offset <= length).then(|| Self { at: offset, ..Self::of(file, number) }));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(cannot(error)),
            }
        }
        Ok(None)
    }

    /// Reads a file in this format from its beginning.
    pub(super) fn of(file: File, number: u64) -> Self {
        Self { file, number, at: 0, buffer: Vec::new(), buffered_at: 0, is_behind_damage: false }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Continues at the beginning of the file.
    pub(super) fn rewind(&mut self) {
        self.at = 0;
    }

    /// Reads the next record and returns its offset; `None` if there is no complete record yet. A later call tries again.
    ///
    /// # Errors
    /// `Corrupt` if the record is of a type that this engine does not write; `Storage` on an I/O error.
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
            // Zeros: nothing was written here yet.
            if kind == 0 || HEADER_BYTES + length > rest {
                return Ok(None);
            }
            let Some(checked) = self.bytes(at + 6, 1 + length)? else { return Ok(None) };
            if masked_crc(checked) != checksum {
                return Ok(None);
            }
            match (kind, begins) {
                (WHOLE | FIRST, None) => begins = Some(at),
                (MIDDLE | LAST, Some(_)) => {}
                (MIDDLE | LAST, None) if self.is_behind_damage => {
                    at += HEADER_BYTES + length;
                    continue;
                }
                // A part without its first one, or a record without its last part.
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

    /// Returns the number of bytes after the last record that was read, without zeros at the end: those were never written.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub(super) fn unread_bytes(&self) -> Result<u64> {
        let (mut piece, mut at, mut end) = (vec![0; READ_BYTES], self.at, self.at);
        loop {
            let read =
                self.file.read_at(&mut piece, at).map_err(|error| Error::storage("cannot read the log", error))?;
            if read == 0 {
                return Ok(end - self.at);
            }
            if let Some(last) = piece[..read].iter().rposition(|byte| *byte != 0) {
                end = at + last as u64 + 1;
            }
            at += read as u64;
        }
    }

    /// Continues behind a record that is damaged, at the next block; returns whether there is one.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub(super) fn skip_damage(&mut self) -> Result<bool> {
        self.is_behind_damage = true;
        self.at += BLOCK_BYTES - self.at % BLOCK_BYTES;
        let length = self.file.metadata().map_err(|error| Error::storage("cannot read the log", error))?.len();
        Ok(self.at < length)
    }

    /// Returns the offset of the next record.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Returns a part of the file, if all of it exists.
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
