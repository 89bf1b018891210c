//! The manifest of a blob: its metadata.
//!
//! ```text
//! 0   version u8 = 1, zero u8, bytes of the media type u16, zero u32
//! 8   length of the blob u64
//! 16  tag u64: changes whenever the bytes or the media type do
//! 24  media type
//! ..  checksum u64: XXH3-64 of everything before it
//! ```
//! All numbers are little-endian.
//!
//! History: 1, the first version.

use twox_hash::XxHash3_64;

use super::{CHUNK_BYTES, damaged};
use crate::error::Result;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;

/// The metadata of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) length_bytes: u64,
    pub(super) tag: u64,
    pub(super) media_type: String,
}

impl Manifest {
    /// Returns the stored form. The media type must be shorter than 64 KiB.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.media_type.len() + 8);
        bytes.extend_from_slice(&[VERSION, 0]);
        bytes.extend_from_slice(&(self.media_type.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.length_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.tag.to_le_bytes());
        bytes.extend_from_slice(self.media_type.as_bytes());
        let checksum = XxHash3_64::oneshot(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes the stored manifest of an upload that a record refers to.
    ///
    /// # Errors
    /// `Corrupt` if there is none, or it is damaged.
    pub(super) fn read(stored: Option<&[u8]>) -> Result<Self> {
        let stored = stored.ok_or_else(|| damaged("it has no manifest"))?;
        let parts = stored.split_last_chunk();
        let whole = parts.filter(|(bytes, sum)| u64::from_le_bytes(**sum) == XxHash3_64::oneshot(bytes));
        let header = whole.and_then(|(bytes, _)| bytes.split_first_chunk::<HEADER_BYTES>());
        let (header, media_type) = header.ok_or_else(|| damaged("the checksum of its manifest differs"))?;
        if header[0] != VERSION {
            return Err(damaged("its manifest has a version that this program does not know"));
        }
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let media_type = std::str::from_utf8(media_type).map_err(|_| damaged("its media type is not text"))?;
        Ok(Self { length_bytes: number(8), tag: number(16), media_type: media_type.to_owned() })
    }

    /// Returns the number of chunks.
    pub(super) fn chunks(&self) -> u64 {
        self.length_bytes.div_ceil(CHUNK_BYTES as u64)
    }

    /// Returns the length of a chunk, in bytes.
    pub(super) fn bytes_of(&self, chunk: u64) -> usize {
        (self.length_bytes - chunk * CHUNK_BYTES as u64).min(CHUNK_BYTES as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_manifest_is_read_back_and_any_changed_byte_is_seen() {
        let manifest = Manifest { length_bytes: 70_000, tag: 7, media_type: "image/png".to_owned() };
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::read(Some(&bytes)).unwrap(), manifest);
        assert_eq!((manifest.chunks(), manifest.bytes_of(0), manifest.bytes_of(1)), (2, 65_536, 4_464));
        for byte in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 0x10;
            assert!(matches!(Manifest::read(Some(&damaged)), Err(Error::Corrupt { .. })), "{byte}");
            assert!(matches!(Manifest::read(Some(&bytes[..byte])), Err(Error::Corrupt { .. })), "cut at {byte}");
        }
        assert!(matches!(Manifest::read(None), Err(Error::Corrupt { .. })));
    }
}
