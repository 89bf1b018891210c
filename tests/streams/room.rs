//! Room for consumer groups.

use strata::error::Error;
use strata::transaction::Precondition;

use super::Opened;

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
