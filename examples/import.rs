//! Imports JSON lines into a table, a thousand a transaction: `cargo run --release --example import -- DIRECTORY < lines`.
//!
//! Lines are given as text: they are checked against the schema, and not parsed into values first. A line that is refused is told by its
//! number, and the thousand that it is among are not stored.

use std::io::BufRead;
use std::path::Path;

use strata::{Database, Error, Json, Place, Result, Schema};

const SCHEMA: &str = "
    type Reading @table {
      id: ID! @primaryKey
      sensor: String! @indexed
      at: Date! @indexed
      celsius: Float!
    }
";

const TOGETHER: usize = 1000;

/// Imports lines into the database of a directory; returns their number.
pub fn run(directory: &Path, lines: impl BufRead) -> Result<usize> {
    let database = Database::open(directory, &Schema::parse(SCHEMA)?)?;
    let readings = database.table("Reading")?;
    let (mut batch, mut before) = (Vec::with_capacity(TOGETHER), 0);
    let store = |batch: &mut Vec<String>, before: &mut usize| {
        let rows = batch.iter().map(Json);
        database.create_all(&readings, rows).map_err(|error| in_line(error, *before))?;
        *before += batch.len();
        eprintln!("{before} lines");
        batch.clear();
        Ok::<_, Error>(())
    };
    for line in lines.lines() {
        batch.push(line.map_err(|error| Error::storage("cannot read the lines", error))?);
        if batch.len() == TOGETHER {
            store(&mut batch, &mut before)?;
        }
    }
    store(&mut batch, &mut before)?;
    database.close().map_err(|not_closed| not_closed.error)?;
    Ok(before)
}

/// Says in which line an error is: a pointer begins with the number of the row among those given.
fn in_line(error: Error, before: usize) -> Error {
    let (detail, pointer) = match error {
        Error::Invalid { detail, place: Place::Pointer(pointer) } | Error::Conflict { detail, pointer } => {
            (detail, pointer)
        }
        other => return other,
    };
    let row = pointer.split('/').nth(1).and_then(|row| row.parse::<usize>().ok());
    Error::Invalid { detail, place: Place::Line { line: row.map_or(0, |row| before + row + 1), column: 1 } }
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "readings".into());
    println!("{} lines imported", run(Path::new(&directory), std::io::stdin().lock())?);
    Ok(())
}
