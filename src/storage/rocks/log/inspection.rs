//! The log of a closed store: what the engine will not recover of it, and whether that was synced.
//!
//! The engine stops at the first invalid record of a file, whether its writer was interrupted there or the file is damaged. What is missing
//! there is told by the numbers of the operations, which have no gaps, and by what is known to be [synced](super::synced). Files that the
//! engine needs no more, by its [manifest](super::manifest), may be missing.
//!
//! It is asked before the engine opens the store, which would take the first invalid record for the end of the log, and a missing file for
//! one that it does not need. If anything that was synced is lost, the store is not opened; anything else that is missing is a torn end.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use super::file::{self, LogFile};
use super::{batch, manifest, numbers_in, synced};
use crate::error::{Error, Result};

/// The directory of what was damaged.
pub(super) const LOST: &str = "lost";

/// The end of a log file that the engine does not recover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::layers::storage) struct LostEnd {
    /// The name of the file.
    pub(in crate::layers::storage) file: String,
    /// Where it begins, in bytes.
    pub(in crate::layers::storage) offset: u64,
    /// Its length, in bytes.
    pub(in crate::layers::storage) bytes: u64,
}

/// Where the log ends, or goes on with later operations than the next.
#[derive(Clone, Copy)]
struct Break {
    /// The last operation before it.
    last: u64,
    /// The file in which it is; `None` if there is none.
    file: Option<u64>,
    /// Offset in the file.
    offset: u64,
    /// Bytes in the file that are not valid; 0 if the file ends there, or begins with later operations.
    bytes: u64,
    /// Whether it is before the file, of which nothing is wrong.
    is_before: bool,
}

/// What was found in a log.
#[derive(Default)]
struct Inspection {
    lost_ends: Vec<LostEnd>,
    /// In their order.
    breaks: Vec<Break>,
    /// What is damaged so far: a break, unless the next operations come next.
    damaged: Option<Break>,
    /// The last operation; `None` if nothing is known of it.
    last: Option<u64>,
    /// The operation up to which the log was synced.
    synced: u64,
    /// All files.
    files: Vec<u64>,
}

/// Checks the log of a closed store, and returns the ends that the engine will not recover, none of which was synced. With `accept`, what was
/// synced may be lost, too: its files are moved or copied to the directory `lost` first, and what stands before it stays.
///
/// # Errors
/// `Corrupt` if something that was synced is lost; `Storage` on an I/O error.
pub(in crate::layers::storage) fn check(directory: &Path, accept: bool) -> Result<Vec<LostEnd>> {
    let found = inspect(directory)?;
    let Some(damage) = found.breaks.iter().find(|damage| damage.last < found.synced) else {
        return Ok(found.lost_ends);
    };
    let what = damage.explain(found.synced);
    if !accept {
        return Err(Error::corrupt(format!(
            "{what}. Restore a copy, or go on with what stands before it by --accept-lost-log, which keeps the damaged files in {}",
            directory.join(LOST).display()
        )));
    }
    put_away(directory, damage, &found.files).map_err(|error| {
        Error::storage(format!("cannot put damaged files into {}", directory.join(LOST).display()), error)
    })?;
    // Nothing is claimed of what is left.
    synced::store(directory, synced::Claim::default(), true)?;
    tracing::warn!("accepted: {what}; the damaged files are in {}", directory.join(LOST).display());
    Ok(Vec::new())
}

impl Break {
    fn explain(&self, synced: u64) -> String {
        let Self { last, file, offset, bytes, is_before } = self;
        let place = match file {
            None => "the log has no file".to_owned(),
            Some(number) if *bytes > 0 => {
                format!("{} is damaged at byte {offset}; {bytes} bytes lie behind it", file::name(*number))
            }
            Some(number) if *is_before => format!("a file of the log before {} is missing", file::name(*number)),
            Some(number) => format!("{} ends at byte {offset}", file::name(*number)),
        };
        format!("{place}: of the operations up to {synced}, which were synced, those after {last} are lost")
    }
}

fn inspect(directory: &Path) -> Result<Inspection> {
    let mut found = Inspection::default();
    // What is wrong with the directory itself is said when it is opened.
    let Ok(mut files) = numbers_in(directory) else { return Ok(found) };
    let oldest = manifest::oldest_log(directory);
    let claim = synced::stored(directory).filter(|_| oldest.is_some());
    let oldest = oldest.unwrap_or_default();
    files.retain(|number| *number >= oldest);
    match claim {
        // Nothing of that opening has been flushed since.
        Some(claim) if oldest <= claim.oldest => (found.last, found.synced) = (Some(claim.behind), claim.synced),
        // Something has: operations may be missing before that file, but not the file.
        Some(claim) if oldest <= claim.newest => {
            found.synced = claim.synced;
            if !files.contains(&oldest) {
                found.breaks.push(Break {
                    last: 0,
                    file: files.first().copied(),
                    offset: 0,
                    bytes: 0,
                    is_before: true,
                });
            }
        }
        // Everything that is claimed is flushed, or there is no claim: the log may begin anywhere.
        _ => {}
    }
    found.files = files;
    let mut end = Break { last: 0, file: None, offset: 0, bytes: 0, is_before: false };
    for number in found.files.clone() {
        let Some(mut file) = LogFile::open(directory, number, 0)? else { continue };
        let mut record = Vec::new();
        while let Ok(Some(offset)) = file.next(&mut record) {
            found.note(&record, number, offset)?;
        }
        let (offset, bytes) = (file.at(), file.unread_bytes()?);
        end = Break { file: Some(number), offset, bytes, ..end };
        if bytes > 0 {
            let last = found.last.unwrap_or_default();
            found.damaged.get_or_insert(Break { last, ..end });
            found.lost_ends.push(LostEnd { file: file::name(number), offset, bytes });
            while file.skip_damage()? {
                while let Ok(Some(_)) = file.next(&mut record) {
                    found.note_claims(&record);
                }
            }
        }
    }
    let last = found.last.unwrap_or_default();
    let end = found.damaged.take().unwrap_or(Break { last, ..end });
    found.breaks.push(end);
    Ok(found)
}

impl Inspection {
    /// Notes a batch, which is at an offset of a file.
    fn note(&mut self, batch: &[u8], number: u64, offset: u64) -> Result<()> {
        let (first, last) = batch::numbers(batch)?;
        let damaged = if last < first { None } else { self.damaged.take() };
        if let Some(known) = self.last
            && known + 1 < first
            && first <= last
        {
            let before = Break { last: known, file: Some(number), offset, bytes: 0, is_before: true };
            self.breaks.push(damaged.unwrap_or(before));
        }
        if !self.breaks.is_empty() {
            self.note_claims(batch);
        }
        self.last = self.last.max(Some(last));
        Ok(())
    }

    fn note_claims(&mut self, batch: &[u8]) {
        self.synced = batch::claims(batch).into_iter().fold(self.synced, u64::max);
    }
}

/// Notes in a copy of a store that its log is synced as far as it goes, so that it is missed if it is lost from the copy.
///
/// # Errors
/// `Storage` on an I/O error.
pub fn vouch(directory: &Path) -> Result<()> {
    let (oldest, mut record, mut claim) =
        (manifest::oldest_log(directory).unwrap_or_default(), Vec::new(), None::<synced::Claim>);
    for number in numbers_in(directory)?.into_iter().filter(|number| *number >= oldest) {
        let Some(mut file) = LogFile::open(directory, number, 0)? else { continue };
        while let Ok(Some(_)) = file.next(&mut record) {
            let (first, last) = batch::numbers(&record)?;
            let behind = synced::Claim { behind: first.saturating_sub(1), oldest: number, synced: 0, newest: 0 };
            let claim = claim.get_or_insert(behind);
            (claim.synced, claim.newest) = (claim.synced.max(last), number);
        }
    }
    claim.map_or(Ok(()), |claim| synced::store(directory, claim, true))
}

/// Copies the file with the damage, cuts it there, and moves the later ones away.
fn put_away(directory: &Path, damage: &Break, files: &[u64]) -> std::io::Result<()> {
    let lost = directory.join(LOST);
    let Some(first) = damage.file else { return Ok(()) };
    fs::create_dir_all(&lost)?;
    for number in files.iter().filter(|number| **number >= first) {
        let (name, is_damaged) = (file::name(*number), damage.file == Some(*number) && damage.offset > 0);
        let (path, kept) = (directory.join(&name), lost.join(&name));
        if is_damaged {
            fs::copy(&path, &kept)?;
            File::open(&kept)?.sync_all()?;
            let cut = OpenOptions::new().write(true).open(&path)?;
            cut.set_len(damage.offset)?;
            cut.sync_all()?;
        } else {
            fs::rename(&path, &kept)?;
        }
    }
    File::open(&lost)?.sync_all()
}
