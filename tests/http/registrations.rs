//! Registrations that end all at once, beside one that is held: each ends once, and whoever follows them is told of each.

use std::collections::HashSet;

use serde_json::Value;

use super::client::{ask, start, wait_until};
use super::feed::Feed;

/// Far more than one commit deletes.
const REGISTRATIONS: usize = 5000;

#[test]
fn all_end_at_once_and_what_is_held_stays() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| {});
    let url = server.url();
    let mut all = Feed::open(url, "/Device", None);
    all.place();
    for id in ["held", "stays"] {
        let ttl = if id == "held" { 2 } else { 3600 };
        assert_eq!(ask(url, "PUT", &format!("/Device/{id}"), &format!("{{\"ttl\":{ttl}}}")).status, 201);
    }
    let held = Feed::open(url, "/Device/held?hold=true", None);
    for numbers in (0..REGISTRATIONS).collect::<Vec<_>>().chunks(1000) {
        let rows = numbers.iter().map(|number| format!("{{\"id\":\"d{number}\",\"ttl\":2}}"));
        let body = format!("[{}]", rows.collect::<Vec<_>>().join(","));
        assert_eq!(ask(url, "POST", "/Device", &body).status, 201);
    }
    let (mut registered, mut ended) = (HashSet::new(), HashSet::new());
    while ended.len() < REGISTRATIONS {
        let event = all.next().expect("it goes on");
        if event.name == "lagged" {
            all = Feed::open(url, "/Device", Some(&event.id));
            continue;
        }
        let id = serde_json::from_str::<Value>(&event.data).unwrap()["id"].as_str().unwrap().to_owned();
        match event.name.as_str() {
            "put" => assert!(registered.insert(id.clone()), "{id} is told once"),
            "delete" => assert!(registered.contains(&id) && ended.insert(id.clone()), "{id} ends once"),
            other => panic!("{other}"),
        }
    }
    assert_eq!(registered.len(), REGISTRATIONS + 2);
    assert!(!ended.contains("held") && !ended.contains("stays"));
    let counters =
        || serde_json::from_str::<Value>(&ask(url, "GET", "/_counters", "").body).unwrap()["registry"].clone();
    wait_until("all are counted", || counters()["expired"] == REGISTRATIONS);
    assert_eq!(counters()["held"], 1);
    let left = ask(url, "GET", "/Device?select=id&sort=id", "").body;
    assert_eq!(left, r#"[{"id":"held"},{"id":"stays"}]"#);
    drop(held);
    server.stop().unwrap();
}
