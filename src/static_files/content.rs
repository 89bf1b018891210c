//! The contents of files: read into memory at startup up to a budget, the others from disk on request.

use std::collections::HashMap;
use std::fs;
use std::hash::Hasher;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderValue;
use twox_hash::XxHash3_64;

use super::Representation;
use crate::error::{Error, Result};

/// The body of a response.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// On disk.
    Disk(Extent),
}

impl Content {
    /// The empty body.
    pub const EMPTY: Self = Self::Memory(Bytes::new());

    /// Returns its length in bytes.
    pub fn length_bytes(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk(extent) => extent.range.end - extent.range.start,
        }
    }
}

/// The location of the bytes of a file.
#[derive(Clone)]
pub(super) enum Stored {
    Memory { bytes: Bytes, is_text: bool },
    Disk(Arc<Known>),
}

/// A file as it was at startup.
#[derive(Debug)]
pub(super) struct Known {
    path: PathBuf,
    length_bytes: u64,
    changed: Option<SystemTime>,
}

impl Stored {
    pub(super) fn length_bytes(&self) -> u64 {
        match self {
            Self::Memory { bytes, .. } => bytes.len() as u64,
            Self::Disk(known) => known.length_bytes,
        }
    }

    /// Returns whether it is known to be UTF-8 text.
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Memory { is_text: true, .. })
    }

    /// Returns a part of it; the range must lie within.
    pub(super) fn part(&self, range: Range<u64>) -> Content {
        match self {
            Self::Memory { bytes, .. } if range.end - range.start == bytes.len() as u64 => {
                Content::Memory(bytes.clone())
            }
            Self::Memory { bytes, .. } => {
                let place = |byte| usize::try_from(byte).expect("a place in memory");
                Content::Memory(bytes.slice(place(range.start)..place(range.end)))
            }
            Self::Disk(known) => Content::Disk(Extent { known: Arc::clone(known), range }),
        }
    }
}

/// A part of a file on disk.
#[derive(Clone, Debug)]
pub struct Extent {
    known: Arc<Known>,
    range: Range<u64>,
}

impl Extent {
    /// Returns its byte range in the file.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Reads a range of the file; may block on the disk. The file is opened for each: a descriptor that waits for a slow client is one that
    /// others lack.
    ///
    /// # Errors
    /// `Storage` if it cannot be read, or has changed since its validator was made.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let path = &self.known.path;
        let cannot = |error| cannot_read(path, error);
        let file = fs::File::open(path).map_err(cannot)?;
        let now = file.metadata().map_err(cannot)?;
        if now.len() != self.known.length_bytes || now.modified().ok() != self.known.changed {
            let detail = format!("{} cannot be served", path.display());
            return Err(Error::storage(detail, "it has changed since the server started"));
        }
        let length = usize::try_from(range.end - range.start).map_err(|error| cannot(std::io::Error::other(error)))?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, range.start).map_err(cannot)?;
        Ok(Bytes::from(bytes))
    }
}

/// Reads the files of a folder by path, with `/` between its segments. The shortest files are kept in memory, as many as fit.
///
/// # Errors
/// `Storage` if something cannot be read.
pub(super) fn read_folder(root: &Path, memory_bytes: usize) -> Result<HashMap<String, Representation>> {
    let root = root.canonicalize().map_err(|error| cannot_read(root, error))?;
    let mut files = Vec::new();
    let entries = fs::read_dir(&root).map_err(|error| cannot_read(&root, error))?;
    collect(&root, entries, "", &mut files)?;
    files.sort_by(|one, other| (one.1.length_bytes, &one.0).cmp(&(other.1.length_bytes, &other.0)));
    let mut left_bytes = memory_bytes as u64;
    let read = files.into_iter().map(|(name, known)| {
        let fits = known.length_bytes <= left_bytes;
        let representation = if fits { read_whole(&known) } else { on_disk(known) }?;
        left_bytes -= if fits { representation.stored.length_bytes().min(left_bytes) } else { 0 };
        Ok((name, representation))
    });
    read.collect()
}

/// Traverses a folder recursively.
///
/// # Errors
/// `Invalid` if a folder is a store: a backup, or the data directory of another server.
fn collect(root: &Path, entries: fs::ReadDir, prefix: &str, files: &mut Vec<(String, Known)>) -> Result<()> {
    for entry in entries {
        let path = entry.map_err(|error| cannot_read(root, error))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let name = format!("{prefix}{name}");
        if path.file_name().is_some_and(|name| name == "CURRENT")
            && fs::read(&path).is_ok_and(|text| text.starts_with(b"MANIFEST-"))
        {
            let folder = path.parent().unwrap_or(root).display();
            return Err(Error::invalid(format!(
                "{folder} is a store, which is not served as static files: keep it elsewhere"
            )));
        }
        let kind = path.symlink_metadata().map_err(|error| cannot_read(&path, error))?.file_type();
        if kind.is_dir() {
            let entries = fs::read_dir(&path).map_err(|error| cannot_read(&path, error))?;
            collect(root, entries, &format!("{name}/"), files)?;
            continue;
        }
        // A dangling link is ignored.
        let Some(target) = path.canonicalize().ok().filter(|target| stays_inside(root, target)) else {
            continue;
        };
        let metadata = target.metadata().map_err(|error| cannot_read(&target, error))?;
        if metadata.is_file() {
            let changed = metadata.modified().ok();
            files.push((name, Known { path: target, length_bytes: metadata.len(), changed }));
        }
    }
    Ok(())
}

/// Returns whether the target of a link could be served under its own name.
fn stays_inside(root: &Path, target: &Path) -> bool {
    let hidden = |part: std::path::Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    target.strip_prefix(root).is_ok_and(|inside| !inside.components().any(hidden))
}

fn read_whole(known: &Known) -> Result<Representation> {
    let bytes = fs::read(&known.path).map_err(|error| cannot_read(&known.path, error))?;
    Ok(in_memory(Bytes::from(bytes)))
}

/// Returns the representation with these bytes.
pub(super) fn in_memory(bytes: Bytes) -> Representation {
    let is_text = std::str::from_utf8(&bytes).is_ok();
    let etag = etag(XxHash3_64::oneshot(&bytes));
    Representation { stored: Stored::Memory { bytes, is_text }, etag }
}

fn on_disk(known: Known) -> Result<Representation> {
    let cannot = |error| cannot_read(&known.path, error);
    let mut file = fs::File::open(&known.path).map_err(cannot)?;
    let (mut hasher, mut piece) = (XxHash3_64::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece).map_err(cannot)? {
            0 => break,
            bytes => hasher.write(&piece[..bytes]),
        }
    }
    let etag = etag(hasher.finish());
    Ok(Representation { stored: Stored::Disk(Arc::new(known)), etag })
}

/// Returns the strong validator of bytes with this hash.
fn etag(hash: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{hash:016x}\"")).expect("digits and quotation marks")
}

fn cannot_read(path: &Path, error: std::io::Error) -> Error {
    Error::storage(format!("cannot read the static file {}", path.display()), error)
}
