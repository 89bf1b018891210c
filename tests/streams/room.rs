//! Room for events: where the engine falls behind, appends are refused, and tables are still written.

use strata::error::Error;
use strata::schema::Schema;
use strata::storage::Options;
use strata::streams::Streams;
use strata::transaction::Database;

use super::{Opened, event};

const SDL: &str = "type Click @stream type User @table { id: ID! @primaryKey }";

#[test]
fn appends_are_refused_before_the_engine_delays_writes_to_tables() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        write_buffer_bytes: 256 << 10,
        automatic_compactions: false,
        refuse_stalls: true,
        ..Options::default()
    };
    let database = Database::open(directory.path(), Schema::parse(SDL).unwrap(), &options).unwrap();
    let opened = Opened { streams: Streams::open(&database).unwrap(), database };
    let (database, stream) = (&opened.database, opened.stream("Click"));
    // Each is one look at the engine or more.
    let payload = format!("\"{}\"", "x".repeat(40_000));
    let append = || opened.streams.append(database, stream, &event(&payload, 0));
    let mut files = 0;
    let refused = loop {
        match append() {
            Ok(_) => database.store().flush().unwrap(),
            Err(error) => break error,
        }
        files += 1;
        assert!(files < 20, "the engine delays all writes");
    };
    assert!(matches!(refused, Error::Busy { .. }), "{refused}");
    assert!(files > 10, "{files}");
    let user = database.table("User").unwrap();
    database.create(user, br#"{"id":"1"}"#).unwrap();
    let end = opened.streams.watermarks(stream, 0).unwrap().high;
    assert_eq!(end, files, "what was refused is not there");
    database.store().compact().unwrap();
    assert_eq!(append().unwrap().offset, end);
}
