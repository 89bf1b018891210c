//! Requests go to the server that was meant, or to none: what a URL cannot mean, and what is about another server, is refused by name.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, ToSocketAddrs};
use std::process::{Command, Stdio};

use strata_load::command::scenario;
use strata_load::run::run;
use strata_load::server::Server;

use crate::faulty_server::{self, Fault};
use crate::strata::binary;

/// Exit code 2, and each of these words.
fn assert_refused(program: &str, arguments: &[&str], words: &[&str]) {
    let mut command = Command::new(program);
    let output =
        command.args(arguments).env_remove("BASE_URL").env_remove("STRATA_BINARY").stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{word} in {arguments:?}: {said}");
    }
}

const LOAD: &str = env!("CARGO_BIN_EXE_load");

#[test]
fn a_url_that_means_no_server_is_refused_before_anything_runs() {
    for (url, word) in [
        ("http://127.0.0.1:99999", "65535"),
        ("http://127.0.0.1:0", "port"),
        ("http://u:p@127.0.0.1:9996", "password"),
        ("http://127.0.0.1:9996/Product", "path"),
        ("http://127.0.0.1:9996/?a=1", "query"),
        ("http://127.0.0.1:9996/#a", "fragment"),
        ("ftp://127.0.0.1:9996", "ftp"),
        ("127.0.0.1:9996", "scheme"),
        ("http://127.0.0.1:9996 ", "blanks"),
        ("", "empty"),
    ] {
        assert_refused(LOAD, &["run", "throughput-read", "--plan", "--base-url", url], &["--base-url", word]);
        assert_refused(env!("CARGO_BIN_EXE_load-graphql"), &["--plan", "--base-url", url], &["--base-url", word]);
        assert!(Server::at(url, false, None).is_err());
    }
}

/// The second server does not answer rightly, and half of the connections are its own.
#[test]
fn connections_are_spread_over_servers() {
    let mut scenario = faulty_server::scenario("connections = 4\nrequests = 400\nwarm_up_requests = 0");
    scenario.effects.clear();
    let at = |url: &str| Server::at(url, false, None).unwrap();
    let mut server = at(&faulty_server::start(|_| Fault::None));
    server.beside(vec![at(&faulty_server::start(|_| Fault::WrongBody))]);
    let (run, _) = run(&scenario, &server, true).unwrap();
    let wrong: u64 = run.total.failed.values().sum();
    assert!(run.total.ok >= 50 && wrong >= 50 && run.total.ok + wrong == 400, "{:?}", run.total);
    assert_refused(LOAD, &["run", "servers", "--plan", "--base-url", "http://127.0.0.1:1,ftp://x:1"], &["ftp"]);
}

#[test]
fn flags_about_another_server_are_refused_by_name() {
    let url = ["--base-url", "http://127.0.0.1:1"];
    let with = [
        &["--server", "/bin/true"][..],
        &["--no-tls"],
        &["--server-cpus", "0.5"],
        &["--pin", "none"],
        &["--pin", "apart"],
    ];
    let without = [&["--has-data"][..], &["--ca", "file"], &["--insecure"], &["--i-own-this-target"]];
    let programs = [
        (LOAD, &["run", "throughput-read"][..]),
        (LOAD, &["capacity", "rest-crud"]),
        (env!("CARGO_BIN_EXE_throughput"), &[]),
        (env!("CARGO_BIN_EXE_load-rest-crud"), &[]),
        (env!("CARGO_BIN_EXE_load-rest-relationships"), &[]),
        (env!("CARGO_BIN_EXE_load-graphql"), &[]),
        (env!("CARGO_BIN_EXE_load-blob-storage"), &[]),
        (env!("CARGO_BIN_EXE_load-registry"), &[]),
    ];
    for (program, words) in programs {
        for flags in with {
            assert_refused(program, &[words, &url, flags].concat(), &["--base-url", flags[0]]);
        }
        for flags in without {
            assert_refused(program, &[words, flags].concat(), &["--base-url", flags[0]]);
            // Not even beside what could not stand beside --base-url.
            assert_refused(program, &[words, flags, &["--server", "/bin/true"]].concat(), &["--base-url", flags[0]]);
        }
    }
    let pair = ["pair", "throughput-read"];
    let versus = ["--", "throughput-read"];
    for flags in [&url[..], without[0], without[1], without[2], &["--plan"], &["--repeats", "2"]] {
        assert_refused(LOAD, &[&pair, flags, &versus].concat(), &[flags[0]]);
        assert_refused(LOAD, &[&pair[..], &versus, flags].concat(), &[flags[0]]);
    }
    assert_refused(LOAD, &[&pair[..], &versus, &["--plain"]].concat(), &["--plain"]);
    let server = ["--server", "/bin/true"];
    for flags in
        [&url[..], &server, without[0], without[1], &["--plan"], &["--apart"], &["--mix", "80/20"], &["--rate", "9"]]
    {
        assert_refused(LOAD, &[&["calibrate"], flags].concat(), &[flags[0]]);
    }
    for flags in [
        &["--plan"][..],
        &["--apart"],
        &["--repeats", "2"],
        &["--rate", "9"],
        &["--closed"],
        &["--concurrent-tasks", "1,2"],
    ] {
        assert_refused(LOAD, &[&["capacity", "rest-crud"], flags].concat(), &[flags[0]]);
    }
}

#[test]
fn every_address_of_a_name_is_tried() {
    let addresses: Vec<_> = ("localhost", 0).to_socket_addrs().unwrap().collect();
    for address in &addresses {
        // Where a machine has no such address, nothing listens on it.
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let url = format!("HTTP://LocalHost:{}/", listener.local_addr().unwrap().port());
        let server = Server::at(&url, false, None).unwrap();
        let target = server.target(strata_load::scenario::Http::One).unwrap();
        assert_eq!(target.address, listener.local_addr().unwrap());
        assert!(target.authority.as_str().starts_with("localhost:"));
    }
    assert!(!addresses.is_empty());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let reason = Server::at(&format!("http://localhost:{}", nobody.port()), false, None).unwrap_err();
    assert!(reason.contains("127.0.0.1") && reason.contains("refused"), "{reason}");
}

/// Names that are used are those that requests carry.
#[test]
fn requests_name_the_host_and_the_port_of_the_url() {
    for (host, named) in
        [("127.0.0.1", "127.0.0.1"), ("LOCALHOST", "localhost"), ("[::1]", "[::1]"), ("[0:0::1]", "[::1]")]
    {
        let Ok(listener) = TcpListener::bind((named.trim_matches(['[', ']']), 0)) else { continue };
        let port = listener.local_addr().unwrap().port();
        let heard = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                if let Some(line) = lines.find(|line| line.to_ascii_lowercase().starts_with("host:")) {
                    let _ = (&stream).write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone");
                    return line[5..].trim().to_owned();
                }
            }
            String::new()
        });
        let server = Server::at(&format!("http://{host}:{port}"), false, None).unwrap();
        let mut scenario = faulty_server::scenario("connections = 1\nrequests = 1");
        // The server takes one connection, and nothing is asked before the data is.
        scenario.effects.clear();
        let error = run(&scenario, &server, false).unwrap_err();
        assert!(error.contains("404") && error.contains("none"), "what the server said is quoted: {error}");
        assert_eq!(heard.join().unwrap(), format!("{named}:{port}"));
    }
}

#[test]
fn a_url_with_an_address_of_version_6_is_used() {
    let mut scenario = scenario("throughput-read").unwrap();
    scenario.data.server_options = ["--listen", "[::1]:0"].map(str::to_owned).to_vec();
    (scenario.load.seconds, scenario.load.requests, scenario.data.rows, scenario.tls) = (None, Some(100), 100, false);
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    // An option that is given twice is refused: so the server of this test is started by hand.
    let folder = tempfile::tempdir().unwrap();
    let [schema, ready, data] = ["schema.graphql", "ready", "data"].map(|name| folder.path().join(name));
    std::fs::write(&schema, &scenario.data.schema).unwrap();
    let mut started = Command::new(binary());
    started.args(["serve", "--listen", "[::1]:0", "--schema"]).arg(schema).arg("--ready-file").arg(&ready);
    let mut started = started.arg("--data-dir").arg(data).stderr(Stdio::null()).spawn().unwrap();
    while !ready.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let server = Server::at(std::fs::read_to_string(&ready).unwrap().trim(), false, None).unwrap();
    let run = run(&scenario, &server, false).map(|(run, _)| run);
    started.kill().unwrap();
    started.wait().unwrap();
    assert_eq!(run.unwrap().total.ok, 100);
}
