//! Records which opening of the store wrote a log file.
//!
//! Two copies of a store that both continue assign the same sequence numbers to different operations, in files with the same names. So each
//! opening has a random number, which is part of every position, and a file beside those of the engine records the openings. A position
//! belongs to this log only if the opening that it names wrote its file.
//!
//! The file, `OPENINGS`, is JSON. It is replaced by rename and synced: a position of what a power cut has left is good.
//!
//! History of the format: 1, the first.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::file_numbers;
use crate::error::{Error, Result};

const NAME: &str = "OPENINGS";
const FORMAT: u32 = 1;

/// Number of openings kept, the latest ones.
const KEPT: usize = 1000;

/// The openings of a store, oldest first.
#[derive(Default, Serialize, Deserialize)]
pub(in crate::layers::storage) struct Openings {
    format: u32,
    openings: Vec<Opening>,
}

#[derive(Serialize, Deserialize)]
struct Opening {
    number: u32,
    /// The first log file that it wrote.
    first_file: u64,
}

impl Openings {
    /// Records a new opening of the store in a directory, which the engine has just opened.
    ///
    /// # Errors
    /// `Storage` on an I/O error.
    pub(in crate::layers::storage) fn begin(directory: &Path) -> Result<Self> {
        let cannot = |error| Error::storage(format!("cannot replace the file {NAME}"), error);
        let (path, written) = (directory.join(NAME), directory.join(format!("{NAME}.new")));
        let mut openings: Vec<Opening> = match fs::read(&path) {
            Ok(bytes) => {
                let stored = serde_json::from_slice::<Self>(&bytes).ok().filter(|stored| stored.format == FORMAT);
                stored.map(|stored| stored.openings).unwrap_or_default()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(cannot(error)),
        };
        let first_file = file_numbers(directory)?.last().copied().unwrap_or_default();
        openings.push(Opening { number: Uuid::new_v4().as_fields().0, first_file });
        openings.drain(..openings.len().saturating_sub(KEPT));
        let openings = Self { format: FORMAT, openings };
        let json = serde_json::to_vec(&openings).map_err(|error| Error::storage("cannot write the openings", error))?;
        let replace = || {
            let mut file = File::create(&written)?;
            file.write_all(&json)?;
            file.sync_all()?;
            fs::rename(&written, &path)?;
            File::open(directory)?.sync_all()
        };
        replace().map_err(cannot)?;
        Ok(openings)
    }

    /// Returns the number of the opening that wrote a log file; `None` if it is not recorded.
    pub(super) fn of(&self, file: u64) -> Option<u32> {
        let opening = self.openings.iter().rev().find(|opening| opening.first_file <= file);
        opening.map(|opening| opening.number)
    }
}
