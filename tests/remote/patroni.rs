//! Servers over a PostgreSQL that fails over: three nodes under Patroni with a synchronous standby, whose primary is killed again and again.
//!
//! It takes minutes, Debian's `patroni` and `etcd-server`, and root: a node is a PID namespace, so that all of it ends at once, as a machine
//! does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::databases::{connect, schema};
use super::model;
use crate::brokers::postgres_program;

const NODES: usize = 3;

const KILLS: usize = 10;

/// Nobody, whom PostgreSQL accepts.
const USER: &str = "65534";

/// How long a failover, and the start of a cluster, may take.
const TO_CHANGE: Duration = Duration::from_secs(180);

struct Cluster {
    folder: tempfile::TempDir,
    _etcd: Ended,
    nodes: Vec<Option<Ended>>,
    /// Of PostgreSQL, and of Patroni's own interface.
    ports: Vec<(u16, u16)>,
}

/// A process that is killed when this is dropped, or when the thread that started it ends.
struct Ended(Child);

impl Ended {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("there is one").port()
}

/// A command that ends with this thread.
fn leading(more: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).args(more);
    command
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("there is a temporary directory");
        std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).expect("it is root");
        let (client, peer) = (free_port(), free_port());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut etcd = leading(&["etcd", "--data-dir"]);
        etcd.arg(folder.path().join("etcd")).args(["--listen-client-urls", &url(client), "--advertise-client-urls"]);
        etcd.args([&url(client), "--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)]);
        etcd.args(["--initial-cluster", &format!("default={}", url(peer))]);
        let etcd = Ended::start(&mut etcd);
        let ports: Vec<_> = (0..NODES).map(|_| (free_port(), free_port())).collect();
        for (number, (own, interface)) in ports.iter().enumerate() {
            let text = configuration(folder.path(), number, (*own, *interface, client));
            std::fs::write(folder.path().join(format!("node{number}.yml")), text).expect("it can be written");
        }
        let mut cluster = Self { folder, _etcd: etcd, nodes: (0..NODES).map(|_| None).collect(), ports };
        (0..NODES).for_each(|number| cluster.start_node(number));
        cluster
    }

    fn start_node(&mut self, number: usize) {
        let mut command = leading(&["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"]);
        // Whoever becomes another user has to ask for the end with its parent anew.
        command.args(["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", "KILL", "--"]);
        command.arg("patroni");
        command.arg(self.folder.path().join(format!("node{number}.yml")));
        self.nodes[number] = Some(Ended::start(command.current_dir(self.folder.path())));
    }

    /// Kills a node, and waits until nothing of it takes connections: its last processes outlive it by milliseconds.
    fn kill_node(&mut self, number: usize) {
        let killed = Instant::now();
        self.nodes[number] = None;
        while TcpStream::connect(("127.0.0.1", self.ports[number].0)).is_ok() {
            assert!(killed.elapsed() < TO_CHANGE, "a node has survived");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The URL of the database, with all hosts.
    fn url(&self) -> String {
        let hosts: Vec<_> = self.ports.iter().map(|(port, _)| format!("127.0.0.1:{port}")).collect();
        format!("postgres://strata@{}/postgres?connections=8", hosts.join(","))
    }

    /// The members as one of the nodes sees them: `(name, role, state)`.
    fn members(&self) -> Vec<(String, String, String)> {
        let told = self.ports.iter().find_map(|(_, interface)| get(*interface, "/cluster"));
        let text = |member: &Json, key: &str| member[key].as_str().unwrap_or_default().to_owned();
        let members = told.map_or_else(Vec::new, |told| told["members"].as_array().cloned().unwrap_or_default());
        members.iter().map(|member| (text(member, "name"), text(member, "role"), text(member, "state"))).collect()
    }

    /// Waits until there are a primary and a synchronous standby, and as many replicas as there can be; returns the primary.
    fn until_whole(&self) -> usize {
        let begun = Instant::now();
        loop {
            let members = self.members();
            let is = |role: &str| members.iter().filter(|member| member.1 == role).count();
            let runs = members.iter().filter(|member| ["running", "streaming"].contains(&&*member.2)).count();
            // What one says of the others may be old; what it says of itself is not.
            let own = |port: u16| get(port, "/patroni").is_some_and(|told| told["role"] == "master");
            let leads: Vec<_> = (0..NODES).filter(|number| own(self.ports[*number].1)).collect();
            if let [leader] = leads[..]
                && is("leader") == 1
                && is("sync_standby") == 1
                && runs == NODES
            {
                return leader;
            }
            assert!(begun.elapsed() < TO_CHANGE, "the cluster is not whole: {members:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn configuration(folder: &Path, number: usize, (own, interface, etcd): (u16, u16, u16)) -> String {
    let bin = postgres_program().expect("it is there").parent().expect("it is in a folder").display().to_string();
    let folder = folder.display();
    format!(
        "scope: strata
name: node{number}
restapi: {{listen: '127.0.0.1:{interface}', connect_address: '127.0.0.1:{interface}'}}
etcd3: {{hosts: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql: {{parameters: {{max_connections: 200, fsync: 'off'}}}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, no-sync]
postgresql:
  listen: '127.0.0.1:{own}'
  connect_address: '127.0.0.1:{own}'
  data_dir: {folder}/data{number}
  bin_dir: {bin}
  pgpass: {folder}/pgpass{number}
  remove_data_directory_on_diverged_timelines: true
  remove_data_directory_on_rewind_failure: true
  parameters: {{unix_socket_directories: ''}}
  authentication:
    superuser: {{username: strata, password: strata}}
    replication: {{username: replicator, password: replicator}}
  pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
"
    )
}

fn get(port: u16, path: &str) -> Option<Json> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    serde_json::from_str(response.split_once("\r\n\r\n")?.1).ok()
}

/// Why it cannot be run here.
fn lacking() -> Option<&'static str> {
    let runs = |program: &str, more: &[&str]| {
        let status = Command::new(program).args(more).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !runs("patroni", &["--version"]) || !runs("etcd", &["--version"]) || postgres_program().is_err() {
        return Some("apt install patroni etcd-server postgresql");
    }
    (!runs("unshare", &["--pid", "--fork", "--mount-proc", "true"])).then_some("it needs root")
}

#[test]
#[ignore = "it takes minutes, and Patroni"]
fn a_cluster_whose_primary_is_killed_again_and_again_loses_nothing() {
    if let Some(reason) = lacking() {
        assert!(std::env::var_os("STRATA_REQUIRE_BROKERS").is_none(), "{reason}");
        eprintln!("skipped remote::patroni: {reason}");
        return;
    }
    let mut cluster = Cluster::start();
    cluster.until_whole();
    let url = cluster.url();
    let databases: Vec<_> =
        (0..6).map(|_| connect(&format!("{url}&table=model"), model::schema()).expect("it is there")).collect();
    model::prepare(&databases[0]);
    let beside = connect(&format!("{url}&table=beside"), schema()).expect("it is there");
    let table = beside.table("T").expect("it exists");
    let mut gaps = Vec::new();
    let told = model::ask_meanwhile(&databases, 3, || {
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_secs(3));
            let primary = cluster.until_whole();
            let killed = Instant::now();
            cluster.kill_node(primary);
            while beside.create(table, b"{}").is_err() {
                assert!(killed.elapsed() < TO_CHANGE, "nothing takes writes any more");
            }
            gaps.push(killed.elapsed().as_secs_f64());
            cluster.start_node(primary);
        }
        cluster.until_whole();
    });
    let (counts, wrong) = model::check(&databases, told);
    println!("{counts}; from each kill to the first write, in seconds: {gaps:.1?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(counts.acknowledged > 1000, "{counts}");
    // Until the lease of a primary that has ended is over, there is no other.
    assert!(gaps.iter().all(|gap| *gap > 1.0), "a primary has survived: {gaps:?}");
}
