//! Cursors: what a client sends to get the records that follow those it has.
//!
//! A cursor holds the sort key of the last record, and the access path with the key at which the scan stopped: never a count of records. So
//! under concurrent writes, a record that does not change appears on exactly one page. A list without `sort` has the order of its access
//! path, so only that path can continue it; a list with `sort` can be continued by any.
//!
//! Its text is the base64url (RFC 4648, section 5, without padding) of: the version (u8, 1) | the query it belongs to (u64: XXH3-64 of the
//! table's id and of the text with no clause but `sort`) | the number of the access path (u8) | its number of steps (u8), the index of
//! each (u32, `plan::signature`) | the step at which it stopped (u8) | length of the sort key (u32), sort key | the key; big-endian.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use smallvec::SmallVec;

const VERSION: u8 = 1;

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The identity of its query.
    pub(super) query: u64,
    /// The access path, by its number and the indexes that its steps read.
    pub(super) path: u8,
    pub(super) indexes: SmallVec<[u32; 2]>,
    /// The step at which the scan stopped, and its key: of a record, of an entry, or an id. Empty if the list was sorted in memory.
    pub(super) step: u8,
    pub(super) key: Vec<u8>,
    /// The sort key of the last record; empty if no order was requested.
    pub(super) sort_key: Vec<u8>,
}

impl Cursor {
    /// Parses the text of a cursor.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (version, rest) = bytes.split_first()?;
        let (query, rest) = rest.split_first_chunk()?;
        let ([path, steps], mut rest) = rest.split_first_chunk()?;
        let mut indexes = SmallVec::new();
        for _ in 0..*steps {
            let (index, after) = rest.split_first_chunk()?;
            indexes.push(u32::from_be_bytes(*index));
            rest = after;
        }
        let (step, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (sort_key, key) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        (*version == VERSION).then(|| Self {
            query: u64::from_be_bytes(*query),
            path: *path,
            indexes,
            step: *step,
            key: key.to_vec(),
            sort_key: sort_key.to_vec(),
        })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut bytes = Vec::with_capacity(64 + self.sort_key.len() + self.key.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.query.to_be_bytes());
        bytes.extend_from_slice(&[self.path, self.indexes.len() as u8]);
        self.indexes.iter().for_each(|index| bytes.extend_from_slice(&index.to_be_bytes()));
        bytes.push(self.step);
        bytes.extend_from_slice(&(self.sort_key.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&self.sort_key);
        bytes.extend_from_slice(&self.key);
        formatter.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let indexes = smallvec![7, 0];
        let cursor = Cursor { query: 1 << 63, path: 2, indexes, step: 1, key: vec![0, 255], sort_key: vec![1; 300] };
        let text = cursor.to_string();
        assert_eq!(Cursor::parse(&text), Some(cursor));
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
        // A truncated cursor is invalid or a different one, but parsing it never panics.
        for length in 0..text.len() {
            let _ = Cursor::parse(&text[..length]);
        }
        assert!(Cursor::parse("").is_none() && Cursor::parse("AgAA").is_none() && Cursor::parse("no cursor").is_none());
    }
}
