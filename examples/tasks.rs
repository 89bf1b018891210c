//! An async program: verbs where blocking is allowed, changes without a thread that waits: `cargo run --release --example tasks -- DIRECTORY`.

use std::future::poll_fn;
use std::path::Path;

use strata::{Changed, Database, Json, Result, Schema};

const SCHEMA: &str = "type Note @table { id: ID! @primaryKey  text: String }";

/// Writes notes in one task and follows them in another; returns what the other has seen.
///
/// # Panics
/// If a task does.
pub async fn run(directory: &Path, number: usize) -> Result<Vec<String>> {
    let database = Database::open(directory, &Schema::parse(SCHEMA)?)?;
    let notes = database.table("Note")?;
    // From here on, so that none is missed.
    let mut changes = database.changes(&notes)?;
    let writing = tokio::task::spawn_blocking({
        let (database, notes) = (database.clone(), notes.clone());
        // A task that waits for it may be dropped: it ends by itself, and what it has written stays.
        move || (0..number).try_for_each(|id| database.create(&notes, Json(format!(r#"{{"id": "{id}"}}"#))).map(drop))
    });
    let mut seen = Vec::new();
    while seen.len() < number {
        let Some(change) = poll_fn(|context| changes.poll_next(context)).await else { break };
        if let Changed::Put(note) = change?.what {
            seen.push(note.id()?.into_owned());
        }
    }
    writing.await.expect("it does not panic")?;
    Ok(seen)
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1).unwrap_or_else(|| "notes".into());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    println!("{} notes seen", runtime.block_on(run(Path::new(&directory), 1000))?.len());
    Ok(())
}
