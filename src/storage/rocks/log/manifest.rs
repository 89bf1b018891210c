//! Which files of the log the engine needs, from its manifest (`db/version_edit.cc`): the records of a log, each an edit.
//!
//! ```text
//! tag varint, value      for each field; files come last
//! ```
//! Only the fields before the files are read: numbers are varints (LEB128), names are preceded by their length.

use std::fs::{self, File};
use std::path::Path;

use super::batch::Bytes;
use super::file::LogFile;

const COMPARATOR: u64 = 1;
const LOG_NUMBER: u64 = 2;
const NEXT_FILE_NUMBER: u64 = 3;
const LAST_SEQUENCE: u64 = 4;
const PREVIOUS_LOG_NUMBER: u64 = 9;
const OLDEST_LOG_TO_KEEP: u64 = 10;
const HIGHEST_COLUMN_FAMILY: u64 = 203;
const DATABASE_ID: u64 = (1 << 13) + 1;

/// Returns the number of the oldest log file that the engine needs; `None` if the manifest cannot be read to its end, which is said when it is
/// opened.
pub(super) fn oldest_log(directory: &Path) -> Option<u64> {
    let current = fs::read_to_string(directory.join("CURRENT")).ok()?;
    let mut file = LogFile::of(File::open(directory.join(current.trim_end())).ok()?, 0);
    let (mut edit, mut oldest) = (Vec::new(), 0);
    while file.next(&mut edit).ok()?.is_some() {
        oldest = oldest.max(oldest_of(&edit).unwrap_or_default());
    }
    (file.unread_bytes().ok()? == 0).then_some(oldest)
}

/// Reads the number in an edit, if it has one.
fn oldest_of(edit: &[u8]) -> Option<u64> {
    let mut rest = Bytes(edit);
    loop {
        match rest.varint()? {
            OLDEST_LOG_TO_KEEP => return rest.varint(),
            LOG_NUMBER | PREVIOUS_LOG_NUMBER | NEXT_FILE_NUMBER | LAST_SEQUENCE | HIGHEST_COLUMN_FAMILY => {
                rest.varint()?;
            }
            COMPARATOR | DATABASE_ID => {
                rest.text()?;
            }
            _ => return None,
        }
    }
}
