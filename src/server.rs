//! The server: starts the layers from bottom to top, accepts connections and assigns them to workers, and shuts down from top to bottom.
//!
//! One acceptor assigns each connection to the worker with the fewest; a worker is a thread with a runtime of its own, one per core, so
//! that a request is read, answered and written on the thread of its connection. Blocking work runs in thread pools. The accept loop is our
//! own, because `axum::serve` sets no deadlines: a slow header would hold a connection forever.

mod acceptor;
mod connection;
mod descriptors;
mod ready_file;
mod worker;

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use listenfd::ListenFd;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::ingress::{Ingress, Limited, Pools};
use crate::maintenance::background::{Background, NICE};
use crate::multicast::Registry;
use crate::observability::messages;
use crate::routing::Routes;
use crate::schema::Schema;
use crate::static_files::Site;
use crate::storage;
use crate::streams::Streams;
use crate::tls::Tls;
use crate::transaction::{Database, Migration};
use acceptor::Phase;
use connection::{Deadlines, Serving};
use descriptors::Division;

/// A running server. Dropping it stops it.
pub struct Server {
    url: String,
    database: Database,
    tls: Option<Tls>,
    running: Option<Running>,
}

/// The parts that end when the server stops.
struct Running {
    phase: watch::Sender<Phase>,
    acceptor: JoinHandle<()>,
    workers: Vec<JoinHandle<()>>,
    background: [Background; 2],
    pools: [Runtime; 7],
    ingress: Ingress,
    deadlines: Deadlines,
    drain: Duration,
    stop_timeout: Duration,
}

impl Server {
    /// Reads the schema, opens the data directory and answers requests.
    ///
    /// # Errors
    /// `Invalid` options or schema, or too few descriptors; `Busy` if the data directory is in use; `Storage` if the address is, or on an
    /// I/O error; `Corrupt` if the data directory is damaged.
    pub fn start(config: &Config) -> Result<Self> {
        Self::start_on(None, config)
    }

    /// The same on a socket that the process was handed, if it was.
    fn start_on(handed: Option<TcpListener>, config: &Config) -> Result<Self> {
        let schema = load_schema(config)?;
        let listener = listen(handed, config)?;
        let files = load_files(config)?;
        check_checkpoints(config)?;
        let division = Division::of(config)?;
        let storage = storage::Options { open_files: Some(division.open_files), ..config.storage.clone() };
        let registry = Registry::open(&config.multicast, &schema)?;
        // Last, because it has lasting effects.
        let migration = if config.migrate { Migration::DropsData } else { Migration::KeepsData };
        let database = match &storage.url {
            Some(location) => {
                let address =
                    listener.local_addr().map_or_else(|_| config.listen.to_string(), |address| address.to_string());
                Database::connect(location, storage.password()?.as_deref(), schema, migration, &address)?
            }
            None => Database::open_by(&config.data_dir, schema, &storage, migration)?,
        };
        warn_of_directories(config);
        Self::accept(config, listener, files, registry, database, &division)
    }

    /// Serves an open database; the options of schema and storage are ignored, and the data directory is used at most for a self-signed
    /// certificate.
    ///
    /// # Errors
    /// `Invalid` options, too few descriptors, or a database that was opened for reading; `Storage` if the address is in use, or on an I/O
    /// error.
    pub fn over(database: Database, config: &Config) -> Result<Self> {
        database.store().check_writable()?;
        check_checkpoints(config)?;
        let division = Division::of(&Config { storage: database.store().options().clone(), ..config.clone() })?;
        let registry = Registry::open(&config.multicast, database.schema())?;
        Self::accept(config, listen(None, config)?, load_files(config)?, registry, database, &division)
    }

    fn accept(
        config: &Config,
        listener: TcpListener,
        files: Option<Site>,
        registry: Option<Registry>,
        database: Database,
        division: &Division,
    ) -> Result<Self> {
        let cannot = |error| Error::storage("cannot start the server's threads", error);
        let address = listener.local_addr().map_err(cannot)?;
        let reading = pool("reading", config.pool_threads).map_err(cannot)?;
        let writing = pool("writing", config.pool_threads).map_err(cannot)?;
        let scanning = pool(SCANNING, config.scan_threads).map_err(cannot)?;
        let dumping = pool("dumping", config.dump_threads).map_err(cannot)?;
        let uploading = pool("uploading", UPLOADING_THREADS).map_err(cannot)?;
        let picturing = pool(PICTURING, config.scan_threads).map_err(cannot)?;
        let syncing = pool("syncing", 1).map_err(cannot)?;
        let pools = [reading, writing, scanning, dumping, uploading, picturing, syncing];
        let tls = Tls::new(&config.tls, &config.data_dir)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let ingress = ingress(config, &database, registry, files, &pools)?;
        let deadlines = Deadlines::new(config);
        let (mut handles, mut workers) = (Vec::new(), Vec::new());
        for number in 0..config.workers {
            let serving = Serving { ingress: Arc::new(ingress.for_thread()), tls: tls.clone() };
            let (handle, thread) = worker::start(number, serving, deadlines.clone()).map_err(cannot)?;
            handles.push(handle);
            workers.push(thread);
        }
        let interval = (config.sync_every_ms > 0).then(|| Duration::from_millis(config.sync_every_ms));
        let streams = Streams::open(&database)?;
        let background = [Background::work(&database, &streams), Background::sync(&database, interval)];
        let [working, syncing] = background;
        let background = [working.map_err(cannot)?, syncing.map_err(cannot)?];
        let (phase, phases) = watch::channel(Phase::Serve);
        let limits = Arc::clone(ingress.limits());
        let acceptor = acceptor::start(listener, handles, limits, division, tls.is_some(), deadlines.tick(), phases);
        let acceptor = acceptor.map_err(cannot)?;
        ingress.set_ready(true);
        let running = Running {
            phase,
            acceptor,
            workers,
            background,
            pools,
            ingress,
            deadlines,
            drain: Duration::from_millis(config.drain_ms),
            stop_timeout: Duration::from_millis(config.stop_timeout_ms),
        };
        Ok(Self { url: format!("{scheme}://{address}"), database, tls, running: Some(running) })
    }

    /// Returns its base URL: `http://` or `https://`, address and port.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Reads the certificate and its key again, and opens the access log again: one may have been renewed, the other moved away.
    ///
    /// # Errors
    /// `Invalid` or `Storage` if one of them cannot be; it then stays as it was.
    pub fn reload(&self) -> Result<()> {
        let certificate = self.tls.as_ref().map_or(Ok(()), Tls::reload);
        self.running.as_ref().map_or(Ok(()), |running| running.ingress.reopen_log()).and(certificate)
    }

    /// Stops gracefully: reports that it is not ready, has clients go elsewhere and yet accepts for the drain time, completes requests in
    /// flight before a deadline, and syncs the log.
    ///
    /// # Errors
    /// `Storage` if the log cannot be synced.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        running.ingress.set_ready(false);
        let _ = running.phase.send(Phase::Drain);
        std::thread::sleep(running.drain);
        running.ingress.end_feeds();
        let deadline = *running.deadlines.stop.get_or_init(|| Instant::now() + running.stop_timeout);
        // The acceptor owns the senders of connections; when they are dropped, each worker stops.
        let _ = running.phase.send(Phase::Stop);
        let _ = running.acceptor.join();
        for worker in running.workers {
            let _ = worker.join();
        }
        drop(running.background);
        for pool in running.pools {
            pool.shutdown_timeout(deadline.saturating_duration_since(Instant::now()));
        }
        running.ingress.close(deadline.saturating_duration_since(Instant::now()).max(LAST_WORDS));
        self.database.store().sync()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!("{error}");
        }
    }
}

/// Threads of a server beside its workers: the acceptor, background work, the sync of the log, messages, the access log, the watcher of the
/// log, the feed, the clients of brokers and what they read, and the first of each pool.
const OTHER_THREADS: usize = 15;

/// How long the process waits at exit for its last messages to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Writes pending messages on drop.
struct FlushMessages;

impl Drop for FlushMessages {
    fn drop(&mut self) {
        messages::close(LAST_WORDS);
    }
}

/// Runs a server until SIGTERM or SIGINT; a second signal ends the process immediately.
///
/// # Errors
/// As [`Server::start`] and [`Server::stop`]; `Storage` if the ready file cannot be written.
pub fn run(config: &Config) -> Result<()> {
    storage::check_threads(config.workers + OTHER_THREADS)?;
    messages::start();
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    let _flush_messages = FlushMessages;
    descriptors::raise();
    let cannot = |error| Error::storage("cannot wait for signals", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    let entered = runtime.enter();
    let mut signals = Signals::new().map_err(cannot)?;
    // Leaves the runtime again: a server that fails to start drops a runtime, which must not happen inside another.
    drop(entered);
    let ready_file = config.ready_file.as_deref();
    if let Some(path) = ready_file {
        ready_file::withdraw(path, &config.data_dir);
    }
    let server = Server::start_on(handed()?, config)?;
    if let Some(path) = ready_file {
        ready_file::write(path, server.url())?;
    }
    let schema = server.database().schema();
    if !schema.tables.iter().any(|table| table.exported) && !schema.streams.iter().any(|stream| stream.exported) {
        tracing::warn!("no table and no stream is served: add @export to a type of the schema");
    }
    tracing::info!("listening on {}", server.url());
    runtime.block_on(async {
        let name = signals
            .until_stopped(|| match server.reload() {
                Ok(()) => tracing::info!("SIGHUP: read the certificate and opened the access log again"),
                Err(error) => tracing::error!("SIGHUP: {error}"),
            })
            .await;
        tracing::info!("{name}: stopping");
        if let Some(path) = ready_file {
            ready_file::remove(path);
        }
        let (done, mut stopped) = oneshot::channel();
        std::thread::spawn(move || done.send(server.stop()));
        tokio::select! {
            outcome = &mut stopped => outcome.unwrap_or(Ok(())),
            name = signals.until_stopped(|| {}) => {
                tracing::info!("second {name}: exiting at once");
                messages::close(LAST_WORDS);
                std::process::exit(1);
            }
        }
    })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let [terminate, interrupt, hangup] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        Ok(Self { terminate: terminate?, interrupt: interrupt?, hangup: hangup? })
    }

    /// Awaits a signal to stop, and returns its name; calls back at each SIGHUP before.
    async fn until_stopped(&mut self, reload: impl Fn()) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => reload(),
            }
        }
    }
}

/// Reads and parses the schema given in the options.
///
/// # Errors
/// `Storage` if the file cannot be read; `Invalid`, with file, line and column.
pub fn load_schema(config: &Config) -> Result<Schema> {
    let (path, text) = config.read_schema()?;
    parse_schema(path, &text)
}

/// Parses the text of a schema file.
///
/// # Errors
/// `Invalid`, with file, line and column.
pub fn parse_schema(path: &Path, text: &str) -> Result<Schema> {
    Schema::parse(text).map_err(|error| Error::invalid(format!("{}:{error}", path.display())))
}

/// Reads and parses a schema file.
///
/// # Errors
/// As [`load_schema`].
pub fn check_schema(path: &Path) -> Result<Schema> {
    parse_schema(path, &config::read(path, "the schema")?)
}

/// Returns the socket that the process was handed by systemd, or by whoever else speaks its protocol (`LISTEN_FDS`, `LISTEN_PID`): clients
/// wait in it while the server is started again.
///
/// # Errors
/// `Invalid` if it is no listening TCP socket, or there are several.
fn handed() -> Result<Option<TcpListener>> {
    let mut sockets = ListenFd::from_env();
    let refused = |why: String| Error::invalid(format!("LISTEN_FDS hands over no socket to listen on: {why}"));
    match sockets.len() {
        0 => Ok(None),
        1 => sockets.take_tcp_listener(0).map_err(|error| refused(error.to_string())),
        several => Err(refused(format!("it names {several} sockets, and there can be one"))),
    }
}

/// Listens on the address of the options, or on a socket that was handed over: then the options must name the same address, or none.
fn listen(handed: Option<TcpListener>, config: &Config) -> Result<TcpListener> {
    let cannot = |error| Error::storage("cannot listen on the socket of LISTEN_FDS", error);
    let address = match &handed {
        None => config.listen,
        Some(socket) => socket.local_addr().map_err(cannot)?,
    };
    if address != config.listen && config.listen != Config::default().listen {
        return Err(Error::invalid(format!("LISTEN_FDS hands over {address}: leave out --listen {}", config.listen)));
    }
    if !address.ip().is_loopback() && !config.insecure {
        let detail = format!(
            "{address} is not a loopback address, and clients are not authenticated: use another, or --insecure"
        );
        return Err(Error::invalid(detail));
    }
    let refused = |error| {
        let detail =
            format!("cannot listen on {address} (choose another address with --listen; port 0 takes a free one)");
        Error::storage(detail, error)
    };
    let listener = handed.map_or_else(|| TcpListener::bind(address), Ok).map_err(refused)?;
    // The backlog is the maximum number of connections; the system has a limit of its own (net.core.somaxconn).
    let backlog = i32::try_from(config.connections).unwrap_or(i32::MAX);
    socket2::SockRef::from(&listener).listen(backlog).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

/// Checks that nothing private would be served as a static file: the data directory, or what is in it, checkpoints, the key, the access
/// log.
fn check_private(directory: &Path, config: &Config) -> Result<()> {
    let served = resolved(directory);
    let private = [
        ("the data directory", Some(&config.data_dir)),
        ("the checkpoints", config.checkpoint_dir.as_ref()),
        ("the key of the certificate", config.tls.key.as_ref()),
        // `-` is standard error.
        ("the access log", config.observability.access_log.as_ref().filter(|path| path.as_os_str() != "-")),
    ];
    for (what, path) in private {
        let Some(path) = path else { continue };
        // Names that begin with a dot are not served.
        let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
        if resolved(path).strip_prefix(&served).is_ok_and(|inside| !inside.components().any(is_hidden)) {
            let (served, path) = (directory.display(), path.display());
            return Err(Error::invalid(format!("--static {served} would serve {what}, {path}: keep it elsewhere")));
        }
    }
    match served.starts_with(resolved(&config.data_dir)) {
        true => Err(Error::invalid(format!("--static {} is inside the data directory", directory.display()))),
        false => Ok(()),
    }
}

/// Checks that checkpoints can be made: in a directory that is not the engine's.
fn check_checkpoints(config: &Config) -> Result<()> {
    let Some(directory) = config.checkpoint_dir.as_deref() else { return Ok(()) };
    let path = directory.display();
    let found = directory.metadata();
    let found = found.map_err(|error| Error::storage(format!("cannot find --checkpoint-dir {path}"), error))?;
    if !found.is_dir() {
        return Err(Error::invalid(format!("--checkpoint-dir {path} is not a directory")));
    }
    match resolved(directory).starts_with(resolved(&config.data_dir)) {
        true => {
            Err(Error::invalid(format!("--checkpoint-dir {path} is inside the data directory: keep copies elsewhere")))
        }
        false => Ok(()),
    }
}

/// Warns if others may enter the data directory, and if checkpoints lie elsewhere than the data.
fn warn_of_directories(config: &Config) {
    let Ok(data) = config.data_dir.metadata() else { return };
    if data.mode() & OTHERS_MAY_ENTER != 0 {
        let path = config.data_dir.display();
        tracing::warn!("other users may enter the data directory {path}: chmod 700 {path}");
    }
    let checkpoints = config.checkpoint_dir.as_deref().and_then(|directory| directory.metadata().ok());
    if checkpoints.is_some_and(|found| found.dev() != data.dev()) {
        tracing::warn!(
            "--checkpoint-dir is not on the file system of the data: a checkpoint copies all of it, instead of linking files"
        );
    }
}

/// The bits of a mode that let the group and all others enter a directory.
const OTHERS_MAY_ENTER: u32 = 0o011;

/// Returns the path without links and relative parts, also if its end does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = path.ancestors().find_map(|parent| parent.canonicalize().ok().map(|found| (parent, found)));
    let Some((parent, found)) = existing else { return path };
    path.strip_prefix(parent).map_or_else(|_| found.clone(), |rest| found.join(rest))
}

/// Loads the static files, if configured.
fn load_files(config: &Config) -> Result<Option<Site>> {
    let Some(directory) = config.static_files.directory.as_deref() else { return Ok(None) };
    check_private(directory, config)?;
    Site::load(directory, &config.static_files).map(Some)
}

/// Creates the ingress with everything that the options configure.
fn ingress(
    config: &Config,
    database: &Database,
    registry: Option<Registry>,
    files: Option<Site>,
    pools: &[Runtime; 7],
) -> Result<Ingress> {
    let [reading, writing, scanning, dumping, uploading, picturing, syncing] =
        pools.each_ref().map(|pool| pool.handle().clone());
    let pools = Pools { reading, writing, scanning, dumping, uploading, picturing, syncing };
    let (handlers, options) = (config.handlers.clone(), config.ingress.clone());
    let routes = Routes::new(database.clone(), handlers)?.with_registry(registry);
    let ingress = Ingress::over(routes, database.clone(), options, pools);
    let ingress = ingress.with_feed(config.feed.clone(), config.multicast.clone())?;
    let ingress = ingress.with_observability(&config.observability)?;
    ingress.limits().set(Limited::DumpThreads, config.dump_threads);
    let ingress = match &config.checkpoint_dir {
        Some(directory) => ingress.with_checkpoints(directory),
        None => ingress,
    };
    Ok(match files {
        Some(files) => ingress.with_files(files),
        None => ingress,
    })
}

/// More concurrent uploads would only wait for each other in the engine.
const UPLOADING_THREADS: usize = 2;

/// The pools for CPU-bound work.
const SCANNING: &str = "scanning";
const PICTURING: &str = "picturing";

/// Creates a pool for blocking work. The runtime itself runs no tasks. Benches know its threads by their names (`benches/served.rs`).
fn pool(name: &'static str, threads: usize) -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(threads)
        .thread_name(format!("strata-{name}"))
        .on_thread_start(move || {
            if [SCANNING, PICTURING].contains(&name) {
                // Affects only the calling thread on Linux: workers take priority. If it fails, scans merely compete with them.
                let _ = rustix::process::setpriority_process(None, NICE);
            }
        })
        .build()
}
