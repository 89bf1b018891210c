//! A server that stands still for a second appears in the response times in closed form, and in the service times only for the
//! requests in flight.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use strata_load::run::run;
use strata_load::server::Server;

use crate::faulty_server::{self, Fault};

const ADDRESS_FILE: &str = "STRATA_LOAD_TEST_ADDRESS_FILE";

/// The server as a process: this test, run by the next one in another process, which ends it.
#[test]
#[ignore = "it is the other process of the next test"]
fn a_process_that_serves() {
    let file = std::env::var(ADDRESS_FILE).unwrap();
    std::fs::write(file, faulty_server::start(|_| Fault::None) + "\n").unwrap();
    std::thread::sleep(Duration::from_secs(120));
}

#[test]
fn a_client_that_stood_still_says_so() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let url = faulty_server::start(|number| {
        ASKED.store(number, Ordering::SeqCst);
        Fault::None
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.toml");
    let load = "connections = 4\nqueue = 4000\nwarm_up_requests = 10\nschedule = { shape = \"constant\", rate = 500.0, seconds = 4.0 }";
    let objectives = [0.5, 0.99].map(|quantile| {
        let bound = format!("response = {{ quantile = {quantile}, at_most_ms = 0.000001 }}");
        format!("[[objectives]]\noperation = \"row\"\nbound = {{ {bound} }}\n")
    });
    std::fs::write(&file, faulty_server::text(load) + &objectives.concat()).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["run", file.to_str().unwrap(), "--has-data", "--base-url", &url])
        .args(["--results", folder.path().to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while ASKED.load(Ordering::SeqCst) < 200 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let process = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    kill_process(process, Signal::CONT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let result = crate::strata::result(folder.path());
    // An eighth of the arrivals could not start while it stood still, and the server was as quick as ever.
    assert_eq!((&result["validity"], &result["broken"]), (&json!("client_bound"), &json!([])));
    // Half of the arrivals were before or long after it: what they say of the server counts, and the tail is the client's own.
    assert_eq!(
        result["objectives"].as_array().unwrap().iter().map(|judged| &judged["outcome"]).collect::<Vec<_>>(),
        ["fail", "blocked"]
    );
}

#[test]
fn a_second_of_standing_still_is_in_the_response_times_of_all_that_arrive_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("address");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pause::a_process_that_serves", "--ignored"])
        .env(ADDRESS_FILE, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let url = loop {
        match std::fs::read_to_string(&file) {
            Ok(url) if url.ends_with('\n') => break url.trim().to_owned(),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let process = Pid::from_raw(child.id() as i32).unwrap();
    let stop = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500));
        kill_process(process, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        kill_process(process, Signal::CONT).unwrap();
    });
    let (connections, rate) = (4, 200.0);
    let load = format!(
        "connections = {connections}\nqueue = 400\nwarm_up_requests = 10\nschedule = {{ shape = \"constant\", rate = {rate:?}, seconds = 4.0 }}"
    );
    let (run, accounts) = run(&faulty_server::scenario(&load), &Server::at(&url, false, None).unwrap(), true).unwrap();
    stop.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((run.total.scheduled, run.total.ok, run.total.dropped), (800, 800, 0), "{:?}", run.total);
    // Who arrives t seconds after the stop waits 1 - t: a wait of at least 0.3 s has who arrives in the first 0.7 s. The bound from
    // above is wide, because a machine may stand still for reasons of its own.
    let waited = accounts[0].response.count_between(300_000_000, u64::MAX);
    assert!(waited as f64 >= rate * 0.69, "{waited}");
    assert!(waited as f64 <= rate * 1.5, "{waited}");
    assert!(accounts[0].response.max() >= 990_000_000);
    let in_flight = accounts[0].service.count_between(300_000_000, u64::MAX);
    assert!((1..=connections).contains(&in_flight), "{in_flight}");
}
