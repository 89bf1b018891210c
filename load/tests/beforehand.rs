//! A fault that can be known before a run is refused before it, and what was measured is seen even if it cannot be stored.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use strata_load::run::run;
use strata_load::scenario::Scenario;
use strata_load::server::Server;
use strata_load::stored;

use crate::faulty_server::{self, Fault};

const LOAD: &str = "connections = 2\nwarm_up_requests = 10\nseconds = 1.0";

fn load(url: &str, text: &str, results: &Path) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.toml");
    std::fs::write(&file, text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["run", file.to_str().unwrap(), "--has-data", "--base-url", url])
        .arg("--results")
        .arg(results)
        .output()
        .unwrap()
}

#[test]
fn results_that_cannot_be_stored_are_refused_at_once() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let url = faulty_server::start(|_| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        Fault::None
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "of another").unwrap();
    // What is no folder, what is below no folder, and where nobody may write.
    for results in [file.clone(), file.join("below"), "/proc/self/results".into(), "/proc/self".into()] {
        let done = load(&url, &faulty_server::text(LOAD), &results);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), ASKED.load(Ordering::SeqCst)), (Some(2), 0), "{said}");
        assert!(said.contains(results.to_str().unwrap()), "{said}");
    }
    for words in [&["capacity", "rest-crud"][..], &["pair", "throughput-read", "--", "throughput-read"]] {
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
        command.args(&words[..at]).args(["--server", "/nowhere", "--results"]).arg(&file).args(&words[at..]);
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(said.contains(file.to_str().unwrap()) && !said.contains("nowhere"), "{said}");
    }
    let done = Command::new(env!("CARGO_BIN_EXE_load")).arg("calibrate").arg("--calibration").arg(&file).output();
    assert_eq!(done.unwrap().status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "of another");
}

#[test]
fn what_cannot_be_stored_after_all_is_printed() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let url = faulty_server::start(|_| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        Fault::None
    });
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let gone = results.clone();
    let taken_away = std::thread::spawn(move || {
        while ASKED.load(Ordering::SeqCst) < 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::remove_dir(&gone).unwrap();
        std::fs::write(&gone, "").unwrap();
    });
    let done = load(&url, &faulty_server::text(LOAD), &results);
    taken_away.join().unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(2), "{printed}");
    assert!(printed.contains("ok/s") && !printed.contains("stored as"), "{printed}");
}

#[test]
fn half_a_result_is_not_there() {
    let server = Server::at(&faulty_server::start(|_| Fault::None), false, None).unwrap();
    let (run, accounts) = run(&faulty_server::scenario(LOAD), &server, true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // What stands in the way of the second file.
    std::fs::create_dir(folder.path().join(format!("{}.hlog", run.id))).unwrap();
    stored::store(&run, folder.path(), &accounts).unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_counter_that_the_server_has_not_is_refused_with_those_that_it_has() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let url = faulty_server::start(|_| {
        ASKED.fetch_add(1, Ordering::SeqCst);
        Fault::None
    });
    let folder = tempfile::tempdir().unwrap();
    let with = |counter: &str, load_table: &str| {
        let text = faulty_server::text(load_table).replace("\"right\"", &format!("\"{counter}\""));
        ASKED.store(0, Ordering::SeqCst);
        let done = load(&url, &text, folder.path());
        (done.status.code(), ASKED.load(Ordering::SeqCst), String::from_utf8(done.stderr).unwrap())
    };
    for misspelt in ["rihgt", "", "Right", "right "] {
        let (code, asked, said) = with(misspelt, LOAD);
        assert_eq!((code, asked), (Some(2), 0), "{misspelt}: {said}");
        assert!(said.contains("effects[0].counter") && said.contains("it has right"), "{said}");
    }
    // Those of a route are there once it has answered: known after the warm-up, or else only in the end.
    let (code, asked, said) = with("requests /row/{id} 2xx", LOAD);
    assert_eq!((code, asked, said.contains("effects[0].counter")), (Some(2), 10, true), "{said}");
    let without = LOAD.replace("warm_up_requests = 10", "warm_up_requests = 0");
    assert_eq!(with("requests /row/{id} 2xx", &without).0, Some(1));
}

#[test]
fn each_operation_has_its_own_tag() {
    let names = ["get one", "get_one", "get,one", "get%20one", "gét one", "get one.response"];
    let operation = |name: &&str| {
        format!(
            "{{ name = {name:?}, weight = 1.0, method = \"GET\", path = \"/row/{{n}}\", expect = {{ status = 200, body = \"row-{{n}}\" }} }}"
        )
    };
    let all = names.iter().map(operation).collect::<Vec<_>>().join(",\n");
    let text = faulty_server::text("connections = 2\nwarm_up_requests = 0\nrequests = 600");
    let before = text.split("operations = [{").next().unwrap();
    let after = text.split("} }]\n").nth(1).unwrap();
    let effect = "effects = [{ counter = \"right\", operations = [\"get one\"], each = 1.0, at_least = true }]\n";
    let head: String =
        before.lines().filter(|line| !line.starts_with("effects")).map(|line| line.to_owned() + "\n").collect();
    let scenario = Scenario::parse("rows.toml", &format!("{head}{effect}operations = [{all}]\n{after}")).unwrap();
    let server = Server::at(&faulty_server::start(|_| Fault::None), false, None).unwrap();
    let (run, accounts) = run(&scenario, &server, true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    stored::store(&run, folder.path(), &accounts).unwrap();
    let log = std::fs::read_to_string(folder.path().join(format!("{}.hlog", run.id))).unwrap();
    let tags: BTreeSet<_> = log.lines().filter_map(|line| line.strip_prefix("Tag=")?.split(',').next()).collect();
    assert_eq!((tags.len(), log.is_ascii()), (names.len() * 3, true), "{tags:?}");
    assert_eq!(stored::differences(&run, log.as_bytes()), Ok(vec![]));
}
