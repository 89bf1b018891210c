//! A server that is ended by SIGKILL and started again: what was in flight is censored, users send it again, and what is lost is found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use strata_load::command::scenario;
use strata_load::neighbours::Neighbours;
use strata_load::result::{Run, Validity};
use strata_load::rules;
use strata_load::run::run;
use strata_load::scenario::{Restarts, Scenario};
use strata_load::server::Server;

use crate::faulty_stream::{self, Fault};
use crate::strata::binary;

/// The scenario `consistency`, with so many kills in a short time.
fn consistency(kills: u32) -> Scenario {
    let mut scenario = scenario("consistency").unwrap();
    scenario.tls = false;
    scenario.load.warm_up_requests = 60;
    // Long enough for the restarts, too.
    scenario.load.seconds = Some(3.0 * f64::from(kills));
    scenario.restarts = Some(Restarts { kills, every_seconds: 0.5 });
    scenario
}

fn measure(binary: &Path, scenario: &Scenario) -> Run {
    let server = Server::start(binary, scenario, None, Neighbours::default()).unwrap();
    run(scenario, &server, false).unwrap().0
}

/// A server's binary that forgets what it had, with the real one in the place of its name.
const FORGETFUL: &str = r#"#!/bin/sh
case "$*" in *--print-config*) exec STRATA "$@";; esac
for word in "$@"; do [ "$before" = --data-dir ] && rm -rf "$word"; before=$word; done
exec STRATA "$@"
"#;

/// Such a server, which is started again with nothing of what it had.
fn forgetful(folder: &Path) -> PathBuf {
    let (file, strata) = (folder.join("server"), binary());
    let text = FORGETFUL.replace("STRATA", strata.to_str().unwrap());
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn promises_are_kept_over_kills_that_meet_requests_in_flight() {
    let run = measure(&binary(), &consistency(2));
    assert_eq!(run.broken, [""; 0]);
    let kills = run.kills.clone().unwrap();
    assert!(kills.len() == 2 && kills.iter().all(|met| *met > 0), "{kills:?}");
    assert_eq!(run.total.censored, kills.iter().sum::<u64>());
    let text = strata_load::table::text(&run);
    assert!(text.contains("server ended 2 times"), "{text}");
    for change in [
        |run: &mut Run| run.kills = None,
        |run: &mut Run| run.kills = Some(vec![3]),
        |run: &mut Run| run.kills = Some(vec![3, 0]),
        |run: &mut Run| run.promises.as_mut().unwrap().keys_once.checked = 0,
        |run: &mut Run| run.scenario.restarts = None,
    ] {
        let mut wrong = run.clone();
        change(&mut wrong);
        assert!(rules::broken(&wrong).iter().any(|broken| broken.rule == "T14"), "{:?}", rules::broken(&wrong));
    }
}

#[test]
fn a_lost_append_is_found_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let run = measure(&forgetful(folder.path()), &consistency(1));
    assert_eq!(run.validity, Validity::Invalid);
    assert!(run.broken.iter().any(|broken| broken.starts_with("S2: ")), "{:?}", run.broken);
}

#[test]
fn a_server_that_does_not_start_again_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = forgetful(folder.path());
    let refuses = fs::read_to_string(&file).unwrap().replace(r#"rm -rf "$word""#, r#"[ -e "$word" ] && exit 7"#);
    fs::write(&file, refuses).unwrap();
    let scenario = consistency(1);
    let server = Server::start(&file, &scenario, None, Neighbours::default()).unwrap();
    let error = run(&scenario, &server, false).unwrap_err();
    assert!(error.contains("exit code 7"), "{error}");
}

#[test]
fn a_server_that_was_there_is_not_ended() {
    let server = Server::at(&faulty_stream::start(Fault::None, 4), false, None).unwrap();
    let error = run(&consistency(1), &server, false).unwrap_err();
    assert!(error.contains("restarts") && error.contains("not started here"), "{error}");
}

#[test]
fn mistakes_are_refused_by_their_key() {
    let text = include_str!("../scenarios/consistency.toml");
    let effects = "effects = [{ counter = \"writes\", operations = [\"bulk\"], each = 1.0 }]\n\n[data]";
    let schedule = "schedule = { shape = \"constant\", rate = 10.0, seconds = 40.0 }";
    let subscribers = "[[subscribers]]\ncount = 1\npath = \"/Click?stream=sse\"\n[restarts]";
    for (from, to, key) in [
        ("kills = 5", "kills = 0", "restarts"),
        ("every_seconds = 5.0", "every_seconds = 0.0", "restarts"),
        ("every_seconds = 5.0", "every_seconds = 6.0", "restarts"),
        ("seconds = 30.0", "requests = 100", "restarts"),
        ("[data]", effects, "restarts"),
        ("[load]", "[load]\nserver_cpus = 0.5", "restarts"),
        ("[restarts]", subscribers, "restarts"),
        ("[restarts]\nkills = 5\nevery_seconds = 5.0", "", "effects"),
        ("seconds = 30.0", schedule, "operations[2].retry"),
    ] {
        assert!(text.contains(from), "{from}");
        let refusal = Scenario::parse("file.toml", &text.replacen(from, to, 1)).unwrap_err();
        assert_eq!(refusal.key, key, "{to}: {}", refusal.reason);
    }
}
