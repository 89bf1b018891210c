//! The server of a run: started in a folder of its own and stopped again, or one that is there already.
//!
//! It is a process of its own, so that its CPU is its own, and it takes a free port, so that runs do not meet.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Uri;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::Value;
use tempfile::TempDir;

use crate::connection::Target;
use crate::interrupt;
use crate::pinning::{Pinned, started_on};
use crate::quota::{self, Quota};
use crate::scenario::{Data, Http};
use crate::tls::{Tls, Trust};

/// What a helper does when this program ends, however it does, and has not stopped the server.
const TAKE_ALONG: &str = r#"
trap '' INT TERM HUP
read -r _ && exit
kill -KILL "-$1"
rm -rf -- "$2"
"#;

/// A server that requests go to.
#[derive(Debug)]
pub struct Server {
    /// Its URL.
    pub url: String,
    /// Its process, where it was started here.
    pub process: Option<u32>,
    /// The configuration it says it has, where it was started here.
    pub configuration: Option<Value>,
    trust: Option<Trust>,
    /// The processors of both sides, where they have their own.
    pub pinned: Option<Pinned>,
    /// What limits its processors, where something does.
    pub quota: Option<Quota>,
    started: Option<Started>,
}

#[derive(Debug)]
struct Started {
    child: Child,
    /// Without it a server outlives a program that is killed, and nothing else changes.
    helper: Option<Child>,
    _directory: TempDir,
}

impl Server {
    /// One that is there. Unless it is on this machine the caller has to say that it is theirs; over HTTPS, whom they trust.
    pub fn at(url: &str, owned: bool, trust: Option<Trust>) -> Result<Self, String> {
        let url = url.trim_end_matches('/').to_owned();
        let server = Self { url, process: None, configuration: None, trust, pinned: None, quota: None, started: None };
        let url = &server.url;
        match server.target(Http::One)?.address.ip().is_loopback() || owned {
            true => Ok(server),
            false => Err(format!("{url} is another machine: --i-own-this-target says that it is yours")),
        }
    }

    /// Starts a binary in a temporary folder with a schema and static files, and waits until it is ready. It times its requests. Over TLS
    /// it shows a certificate that it makes itself, and nothing else is trusted.
    pub fn start(binary: &Path, served: &Data, tls: bool, pinned: Option<Pinned>) -> Result<Self, String> {
        let directory = TempDir::new().map_err(|error| format!("no temporary folder: {error}"))?;
        let [schema_file, data, files, ready] =
            ["schema.graphql", "data", "static", "ready"].map(|name| directory.path().join(name));
        write(&schema_file, &served.schema)?;
        // Their names were refused if they led out of the folder.
        served.files.iter().try_for_each(|(path, text)| write(&files.join(path), &text.of(0)))?;
        let command = || {
            let mut command = Command::new(binary);
            command.arg("serve").arg("--schema").arg(&schema_file).arg("--data-dir").arg(&data);
            command.args(["--listen", "127.0.0.1:0", "--timings"]).arg("--ready-file").arg(&ready).stdin(Stdio::null());
            command.args(tls.then_some(["--tls", "self-signed"]).into_iter().flatten());
            if !served.files.is_empty() {
                command.arg("--static").arg(&files);
            }
            command.args(&served.server_options);
            command
        };
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", binary.display());
        let processors = pinned.as_ref().map(|pinned| pinned.server.as_slice());
        let printed = started_on(processors, || command().arg("--print-config").output())?.map_err(failed)?;
        let configuration = serde_json::from_slice(&printed.stdout)
            .map_err(|_| format!("{}: {}", binary.display(), String::from_utf8_lossy(&printed.stderr).trim()))?;
        let trust = tls.then(|| Trust::Certificates(data.join("tls").join("certificate.pem")));
        Self::launch(command(), directory, &ready, configuration, trust, pinned)
    }

    /// Starts the null server, which is in the program `load` itself.
    pub fn start_null(tls: bool, pinned: Option<Pinned>) -> Result<Self, String> {
        let directory = TempDir::new().map_err(|error| format!("no temporary folder: {error}"))?;
        let [ready, certificate] = ["ready", "certificate.pem"].map(|name| directory.path().join(name));
        let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        command.arg("null-server").arg("--ready-file").arg(&ready);
        if tls {
            command.arg("--certificate").arg(&certificate);
        }
        let trust = tls.then_some(Trust::Certificates(certificate));
        Self::launch(command, directory, &ready, serde_json::json!({"server": "null"}), trust, pinned)
    }

    fn launch(
        mut command: Command,
        directory: TempDir,
        ready: &Path,
        configuration: Value,
        trust: Option<Trust>,
        pinned: Option<Pinned>,
    ) -> Result<Self, String> {
        // In a group of its own: Ctrl-C goes to the whole group of a terminal, and the server is to answer what is in flight.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let name = command.get_program().to_owned();
        let processors = pinned.as_ref().map(|pinned| pinned.server.as_slice());
        let child = started_on(processors, || command.spawn())?;
        let child = child.map_err(|error| format!("cannot start {}: {error}", name.display()))?;
        running().push((child.id(), directory.path().to_owned()));
        let mut helper = Command::new("sh");
        helper.arg("-c").arg(TAKE_ALONG).arg("sh").arg(child.id().to_string()).arg(directory.path());
        let process = Some(child.id());
        let helper = quota::spawn_helper(&mut helper);
        let started = Some(Started { child, helper: helper.ok(), _directory: directory });
        let configuration = Some(configuration);
        let mut server = Self { url: String::new(), process, configuration, trust, pinned, quota: None, started };
        server.url = server.wait_until_ready(ready)?;
        Ok(server)
    }

    fn wait_until_ready(&mut self, ready: &Path) -> Result<String, String> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            match std::fs::read_to_string(ready) {
                Ok(url) if url.ends_with('\n') => return Ok(url.trim().to_owned()),
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
            if interrupt::is_asked() {
                return Err("interrupted before the server was ready".to_owned());
            }
            let ended = self.started.as_mut().and_then(|started| started.child.try_wait().ok().flatten());
            if let Some(status) = ended {
                return Err(format!("the server ended before it was ready: {status}"));
            }
        }
        Err("the server was not ready within 60 s".to_owned())
    }

    /// Gives it so many processors, from now on.
    ///
    /// # Errors
    /// Why that cannot be done.
    pub fn limit(&mut self, cpus: f64) -> Result<(), String> {
        let process = self.process.ok_or("the server was not started here")?;
        self.quota = Some(Quota::set(process, cpus)?);
        Ok(())
    }

    /// Periods in which it had used up its processors, so far; none where nobody counts them.
    pub fn throttled_periods(&self) -> Option<u64> {
        self.quota.as_ref().and_then(Quota::throttled_periods)
    }

    /// Whether it is spoken to over TLS.
    pub fn has_tls(&self) -> bool {
        self.url.starts_with("https:")
    }

    /// Where requests go.
    pub fn target(&self, http: Http) -> Result<Target, String> {
        let url = &self.url;
        let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let authority = uri.authority().ok_or(format!("{url}: a URL with a host"))?.clone();
        let host = authority.host().trim_matches(['[', ']']);
        let (port, tls) = match (uri.scheme_str(), &self.trust) {
            (Some("http"), None) => (80, None),
            (Some("https"), Some(trust)) => (443, Some(Tls::new(trust, host, http)?)),
            (Some("https"), None) => {
                return Err(format!("{url}: whom to trust: --ca FILE, or --insecure for everyone"));
            }
            (Some("http"), Some(_)) => return Err(format!("{url}: plain HTTP has no certificate to trust")),
            _ => return Err(format!("{url}: http and https are spoken")),
        };
        if uri.path() != "/" || uri.query().is_some() {
            return Err(format!("{url}: a URL without a path: those of requests are the scenario's"));
        }
        let addresses = (host, authority.port_u16().unwrap_or(port)).to_socket_addrs();
        let address: Option<SocketAddr> = addresses.ok().and_then(|mut addresses| addresses.next());
        Ok(Target { address: address.ok_or(format!("{url}: no such host"))?, authority, http, tls })
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = self.process.and_then(|process| Pid::from_raw(process as i32)) {
            // It may have ended: then there is nothing to do.
            let _ = kill_process(process, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // With all processors it stops at once.
        self.quota = None;
        self.signal(Signal::TERM);
        if let Some(started) = &mut self.started {
            let begun = Instant::now();
            while matches!(started.child.try_wait(), Ok(None)) {
                if begun.elapsed() > Duration::from_secs(20) {
                    // What it holds is temporary.
                    let _ = started.child.kill();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            if let Some(helper) = &mut started.helper {
                // A line says that there is nothing left to do.
                let _ = helper.stdin.take().map(|mut pipe| pipe.write_all(b"stopped\n"));
                let _ = helper.wait();
            }
            running().retain(|(process, _)| Some(*process) != self.process);
        }
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| std::fs::write(file, text)).map_err(|error| format!("{}: {error}", file.display()))
}

/// The servers that were started here and not stopped yet, and their folders: what a process that ends at once has to take with it.
fn running() -> MutexGuard<'static, Vec<(u32, PathBuf)>> {
    static RUNNING: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills the servers that were started here, and removes what they wrote.
pub fn kill_started() {
    for (process, folder) in running().drain(..) {
        if let Some(process) = Pid::from_raw(process as i32) {
            // It may have ended, and been waited for.
            let _ = kill_process(process, Signal::KILL);
            let _ = waitpid(Some(process), WaitOptions::empty());
        }
        // What is left is in the folder for temporary things.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// The server's binary: the one that was named, else the optimised one that is built if this is a checkout, else the one beside this program.
pub fn binary(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut binary = own.with_file_name("strata");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().filter(|parent| parent.join("Cargo.toml").exists());
    if let Some(workspace) = workspace {
        eprintln!("building the server (cargo build --release --bin strata)");
        let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--release", "--quiet", "--bin", "strata"])
            .current_dir(workspace)
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return Err("the server could not be built; --server names a binary".to_owned());
        }
        // This program may be of another profile.
        let profiles = own.parent().and_then(Path::parent).unwrap_or(&own);
        binary = profiles.join("release").join("strata");
    }
    match binary.exists() {
        true => Ok(binary),
        false => Err(format!("there is no {}; --server names a binary", binary.display())),
    }
}
