//! Checks a blob file of the engine (`db/blob/blob_log_format.h`), of which the engine checks only what it reads.
//!
//! ```text
//! header   magic u32, version u32, column family u32, flags u8, compression u8, first and last expiration u64
//! record   bytes of the key u64, of the value u64, expiration u64, checksum of these u32, checksum of both u32, key, value
//! footer   magic u32, number of records u64, first and last expiration u64, checksum of these u32
//! ```
//! All numbers are little-endian; checksums are CRC-32C, masked as in the log. Nothing expires, and nothing is compressed.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use super::log::masked_crc;
use crate::error::{Error, Result};

const MAGIC: u32 = 0x0024_8F37;
const VERSION: u32 = 1;
const RECORD_BYTES: usize = 32;

/// A longer record is none of this store's.
const LONGEST_BYTES: u64 = 16 << 20;

/// Checks every byte of a blob file of a column family.
///
/// # Errors
/// `Corrupt`, with the place; `Storage` if it cannot be read.
pub(super) fn check(path: &Path, family: u32) -> Result<()> {
    let cannot = |error| Error::storage(format!("cannot read {}", path.display()), error);
    let file = File::open(path).map_err(cannot)?;
    let end = file.metadata().map_err(cannot)?.len();
    let (mut file, mut at, mut records) = (BufReader::with_capacity(1 << 20, file), 0, 0_u64);
    let damaged = |at: u64| Error::corrupt(format!("{} is damaged at byte {at}", path.display()));
    let mut read = |buffer: &mut [u8], at: &mut u64| {
        file.read_exact(buffer).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => damaged(*at),
            _ => cannot(error),
        })?;
        *at += buffer.len() as u64;
        Ok(())
    };
    let [mut header, nothing] = [[0; 30]; 2];
    read(&mut header, &mut at)?;
    let begin = [MAGIC.to_le_bytes(), VERSION.to_le_bytes(), family.to_le_bytes()].concat();
    if header[..12] != begin || header[12..] != nothing[12..] {
        return Err(damaged(0));
    }
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let is_checked = |bytes: &[u8], checksum: &[u8]| masked_crc(bytes).to_le_bytes() == checksum;
    let mut content = Vec::new();
    loop {
        let (begins, mut head) = (at, [0; RECORD_BYTES]);
        read(&mut head, &mut at)?;
        if at == end {
            let is_footer = head[..4] == MAGIC.to_le_bytes() && number(&head[4..12]) == records;
            return if is_footer && is_checked(&head[..28], &head[28..]) { Ok(()) } else { Err(damaged(begins)) };
        }
        let length = number(&head[..8]).saturating_add(number(&head[8..16]));
        if !is_checked(&head[..24], &head[24..28]) || length > LONGEST_BYTES {
            return Err(damaged(begins));
        }
        content.resize(length as usize, 0);
        read(&mut content, &mut at)?;
        if !is_checked(&content, &head[28..]) {
            return Err(damaged(begins));
        }
        records += 1;
    }
}
