//! Settings of the engine for benches. Tested here, because a bench target has no test harness.

#[path = "../benches/prepared/settings.rs"]
mod prepared;

use prepared::over;
use strata::storage::Options;

#[test]
fn settings_lie_over_the_options() {
    let usual = Options { automatic_compactions: false, ..Options::default() };
    assert_eq!(over(&usual, "").unwrap(), usual);
    let set = over(&usual, "cache=32M,write-buffer-bytes=4096,automatic_compactions=true").unwrap();
    let expected =
        Options { cache_bytes: 32 << 20, write_buffer_bytes: 4096, automatic_compactions: true, ..Options::default() };
    assert_eq!(set, expected);
    assert_eq!(over(&usual, "cache=1G,cache=2K").unwrap().cache_bytes, 2 << 10, "the last one counts");
}

#[test]
fn what_is_not_understood_is_said_in_one_line() {
    for (settings, expected) in [
        ("cash=32M", "there is no option \"cash\"; the options are "),
        ("cash=32M", "cache_bytes"),
        ("cache", "\"cache\" is not name=value"),
        ("cache=32X", "cache does not take \"32X\""),
        ("cache=-1", "cache does not take \"-1\""),
        ("cache=99999999999G", "cache does not take"),
        ("refuse_stalls=2", "refuse_stalls does not take \"2\""),
    ] {
        let complaint = over(&Options::default(), settings).unwrap_err();
        assert!(complaint.contains(expected) && !complaint.contains('\n'), "{settings}: {complaint}");
    }
}
