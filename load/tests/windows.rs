//! The meaning of a rate: throughput is over the scheduled time, arrivals end when they were told to, and a signal ends them at once.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use strata_load::result::{Run, Validity};
use strata_load::rules;
use strata_load::run::run;
use strata_load::scenario::Scenario;
use strata_load::server::Server;

use crate::faulty_server::{self, Fault};

fn measure(schedule: &str, poisson: bool) -> Run {
    let server = Server::at(&faulty_server::start(|_| Fault::None), false, None).unwrap();
    let load = format!("connections = 4\nwarm_up_requests = 4\npoisson = {poisson}\nschedule = {{ {schedule} }}");
    // One in a thousand is another operation, so that shares can be wrong.
    let rare =
        "weight = 0.001, method = \"GET\", path = \"/row/{n}\", expect = { status = 200, body = \"row-{n}\" } }]";
    let text = faulty_server::text(&load)
        .replace("\"row-{n}\" } }]", &format!("\"row-{{n}}\" }} }}, {{ name = \"rare\", {rare}"));
    let text = text.replace("[\"row\"]", "[\"row\", \"rare\"]");
    run(&Scenario::parse("rows.toml", &text).unwrap(), &server, true).unwrap().0
}

#[test]
fn throughput_is_over_the_scheduled_time() {
    for (schedule, seconds, ok) in [
        ("shape = \"constant\", rate = 1.0, seconds = 1.0", 1.0, 1),
        ("shape = \"constant\", rate = 0.5, seconds = 4.0", 4.0, 2),
        ("shape = \"sustained\", rate = 100.0, seconds = 1.0", 1.0, 100),
        ("shape = \"ramp\", rates = [50.0, 0.0], seconds = 2.0", 2.0, 50),
        ("shape = \"step\", rates = [100.0, 0.0], seconds = 1.0", 1.0, 50),
        (
            "shape = \"burst\", rate = 100.0, base = 0.0, burst_seconds = 0.2, period_seconds = 1.0, seconds = 2.0",
            2.0,
            40,
        ),
    ] {
        let run = measure(schedule, false);
        assert_eq!((run.total.ok, run.window.arrivals_seconds), (ok, Some(seconds)), "{schedule}");
        let scheduled = ok as f64 / seconds;
        assert!((scheduled * 0.5..=scheduled * 1.000_001).contains(&run.throughput), "{schedule}: {}", run.throughput);
        assert_eq!(rules::check(&run), [], "{schedule}");
    }
}

#[test]
fn arrivals_end_with_their_schedule_however_far_behind_it_the_client_is() {
    for (rate, poisson) in [("1e7", false), ("1e9", false), ("1e9", true)] {
        let run = measure(&format!("shape = \"constant\", rate = {rate}, seconds = 1.5"), poisson);
        let planned = rate.parse::<f64>().unwrap() * 1.5;
        assert!(
            (run.total.scheduled as f64 - planned).abs() <= if poisson { planned * 0.001 } else { 0.0 },
            "{:?}",
            run.total
        );
        assert!(run.processes.missed_arrivals > 0 && run.total.ok > 0, "{:?}", run.total);
        // Before, what was late was sent for as long as it took.
        assert!(run.window.seconds < 1.5 * 3.0, "{}", run.window.seconds);
        assert_eq!((run.validity, rules::check(&run)), (Validity::ClientBound, vec![]));
    }
}

#[test]
fn after_a_signal_nothing_is_sent() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let url = faulty_server::start(|number| {
        ASKED.store(number, Ordering::SeqCst);
        Fault::Slow(Duration::from_millis(if number < 20 { 1 } else { 500 }))
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.toml");
    let schedule = "schedule = { shape = \"constant\", rate = 1e9, seconds = 3600.0 }";
    std::fs::write(&file, faulty_server::text(&format!("connections = 2\nwarm_up_requests = 2\n{schedule}"))).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_load"))
        .args(["run", file.to_str().unwrap(), "--has-data", "--base-url", &url])
        .args(["--results", folder.path().to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while ASKED.load(Ordering::SeqCst) < 22 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let asked = ASKED.load(Ordering::SeqCst);
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    // Those in flight, and one each that began while the signal came.
    assert!(ASKED.load(Ordering::SeqCst) <= asked + 4, "a thousand waited in the queue");
    let result = crate::strata::result(folder.path());
    assert_eq!((&result["aborted"], &result["broken"]), (&json!(true), &json!([])));
    assert!(result["total"]["dropped"].as_u64().unwrap() > 0, "what waited is dropped");
}
