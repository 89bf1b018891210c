//! A search for the capacity of a server whose capacity is known.

use std::time::Duration;

use strata_load::capacity;
use strata_load::result::Loop;
use strata_load::run::run;
use strata_load::search::Bracket;
use strata_load::server::Server;

use crate::faulty_server::{self, Fault};

#[test]
fn no_rate_above_what_a_server_can_do_is_found_good() {
    // Four connections of 20 ms a request are 200 a second, and on a slow machine fewer. At 260 the request in the middle of a second
    // comes 0.5 s after the first, and waits for 30 of the 130 before it: 150 ms.
    let url = faulty_server::start(|_| Fault::Slow(Duration::from_millis(20)));
    let server = Server::at(&url, false, None).unwrap();
    let load = "connections = 4\nseconds = 1.0\nwarm_up_requests = 4";
    let mut scenario = faulty_server::scenario(load);
    let objective = "operation = \"row\"\nbound = { response = { quantile = 0.5, at_most_ms = 100.0 } }";
    scenario.objectives = vec![toml::from_str(objective).unwrap()];
    let found = capacity::search(&scenario, 60.0, |probe| Ok(run(probe, &server, true)?.0)).unwrap();
    let Bracket { good: Some(good), bad: Some(bad) } = found.bracket else { panic!("{}", found.text()) };
    assert!(good < bad && bad <= good * (1.0 + capacity::WIDTH) && good < 260.0, "{}", found.text());
    assert!(found.probes.iter().all(|run| run.r#loop == Loop::Open && run.broken.is_empty()));
    assert!(found.text().contains("capacity"));
}

#[test]
fn without_an_objective_there_is_no_capacity() {
    let scenario = faulty_server::scenario("connections = 1\nseconds = 1.0");
    let error = capacity::search(&scenario, 1.0, |_| unreachable!()).unwrap_err();
    assert!(error.contains("objectives"), "{error}");
}
