//! Room for events and consumer groups: where the engine falls behind, appends are refused, and tables are still written.

use strata::error::Error;
use strata::schema::Schema;
use strata::storage::Options;
use strata::streams::Streams;
use strata::transaction::{Database, Precondition};

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

#[test]
fn a_stream_takes_a_thousand_groups_and_those_in_hold_for() {
    let directory = tempfile::tempdir().unwrap();
    let sdl = "type Click @stream(holdFor: [\"lake\", \"mail\"]) type Other @stream";
    let opened = Opened::at(directory.path(), sdl);
    let commit = |stream, group: &str| {
        opened.streams.commit(&opened.database, opened.stream(stream), group, &[(0, 0)], &Precondition::None).map(drop)
    };
    commit("Click", "lake").unwrap();
    // Those that race for the last places are counted one after the other.
    let refused: usize = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|thread| {
            let refused = move |n: usize| commit("Click", &format!("{thread}-{n}")).is_err();
            scope.spawn(move || (0..260).filter(|n| refused(*n)).count())
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(refused, 4 * 260 - 999);
    let groups = opened.streams.groups(&opened.database, opened.stream("Click")).unwrap();
    assert_eq!(groups.len(), 1000);
    let error = commit("Click", "one more").unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    commit("Click", "mail").unwrap();
    commit("Click", &groups[0].0).unwrap();
    commit("Other", "one more").unwrap();
    for group in &groups[..2] {
        opened.streams.remove_group(&opened.database, opened.stream("Click"), &group.0, &Precondition::None).unwrap();
    }
    commit("Click", "one more").unwrap();
    commit("Click", "and another").unwrap_err();
}
