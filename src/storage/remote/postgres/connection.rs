//! Connections to PostgreSQL, each with its prepared statements, and the pool of those that nobody uses.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Statement};
use uuid::Uuid;

use super::encryption::Tls;
use super::{Failure, Url, busy, busy_because, is_gone, unanswered};
use crate::error::{Error, Result};

/// Returns the name by which the sessions of a server are known in the database.
pub fn name_of(server: &Uuid) -> String {
    format!("strata {}", server.simple())
}

/// The time within which each request is answered; later its connection is given up.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// The time within which a host takes a connection; later the next one is tried.
const CONNECTED_WITHIN: Duration = Duration::from_secs(3);

/// The value of the key that is the engine's own.
const FORMAT: &[u8] = b"strata 1";

/// Its process in the database, and when that was started: no other has both.
#[derive(Clone)]
pub struct Backend {
    pub process: i32,
    /// In microseconds since 1970.
    pub started: i64,
}

/// A connection. The thread that waits for an answer reads from the socket itself: with a thread that reads for others, each request would
/// also take the time in which one thread wakes another, a good part of a short one.
pub struct Connection {
    pub client: Client,
    pub backend: Backend,
    pub statements: Statements,
    runtime: Runtime,
}

/// The runtime of one connection, which runs while a thread waits for an answer.
struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    fn new() -> Result<Self> {
        Self::of(tokio::runtime::Builder::new_current_thread().enable_all())
    }

    fn of(builder: &mut tokio::runtime::Builder) -> Result<Self> {
        let runtime =
            builder.build().map_err(|error| busy_because(&format!("no connection can be opened: {error}")))?;
        Ok(Self(Some(runtime)))
    }

    fn run<R>(&self, what: impl Future<Output = R>) -> R {
        self.0.as_ref().expect("it runs until it is dropped").block_on(what)
    }

    fn wait_for<R>(&self, limit: Duration, answer: impl Future<Output = Result<R>>) -> Result<R> {
        let answered = self.run(async { tokio::time::timeout(limit, answer).await });
        answered.unwrap_or_else(|_| Err(unanswered()))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Also where it must not be waited for: the last one to use a store may be a task.
        self.0.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

/// Lists statements: the name, the types of the parameters, and the text of each.
macro_rules! statements {
    ($table:ident: $($name:ident($($kind:ident),*) = $text:expr;)*) => {
        /// What is asked on every connection.
        pub struct Statements { $(pub $name: Statement,)* }

        impl Statements {
            /// Prepares all of them, in one round trip.
            async fn prepare(client: &Client, $table: &str) -> std::result::Result<Self, tokio_postgres::Error> {
                $(let $name = String::from($text);)*
                let prepared = [$(client.prepare_typed(&$name, &[$(Type::$kind),*])),*];
                let mut prepared = try_join_all(prepared).await?.into_iter();
                Ok(Self { $($name: prepared.next().expect("each was prepared"),)* })
            }
        }
    };
}

statements! { table:
    get(BYTEA) = format!("SELECT v FROM {table} WHERE k = $1");
    multi_get(BYTEA_ARRAY) = format!("SELECT k, v FROM {table} WHERE k = ANY($1)");
    page(BYTEA, BYTEA, INT8) = format!("SELECT k, v FROM {table} WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3");
    page_backwards(BYTEA, BYTEA, INT8) = format!("SELECT k, v FROM {table} WHERE k >= $1 AND k < $2 ORDER BY k DESC LIMIT $3");
    pages(BYTEA_ARRAY, BYTEA_ARRAY, INT8) = format!(
        "SELECT p.k, p.v, r.number FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS r(lower, upper, number), \
         LATERAL (SELECT k, v FROM {table} WHERE k >= r.lower AND k < r.upper ORDER BY k LIMIT $3) AS p ORDER BY r.number, p.k"
    );
    // A row by itself is written without arrays: their join is planned each time.
    put(BYTEA, BYTEA) = format!("INSERT INTO {table} VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v");
    put_many(BYTEA_ARRAY, BYTEA_ARRAY) = format!(
        "INSERT INTO {table} SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v"
    );
    update(BYTEA, BYTEA) = format!("UPDATE {table} SET v = $2 WHERE k = $1");
    update_many(BYTEA_ARRAY, BYTEA_ARRAY) = format!(
        "UPDATE {table} AS t SET v = u.v FROM unnest($1::bytea[], $2::bytea[]) AS u(k, v) WHERE t.k = u.k"
    );
    insert(BYTEA, BYTEA) = format!("INSERT INTO {table} VALUES ($1, $2)");
    insert_many(BYTEA_ARRAY, BYTEA_ARRAY) = format!("INSERT INTO {table} SELECT * FROM unnest($1::bytea[], $2::bytea[])");
    touch(BYTEA) = format!("UPDATE {table} SET v = v WHERE k = $1");
    delete(BYTEA_ARRAY) = format!("DELETE FROM {table} WHERE k = ANY($1)");
    delete_range(BYTEA, BYTEA) = format!(
        "DELETE FROM {table} WHERE k IN (SELECT k FROM {table} WHERE k >= $1 AND k < $2 ORDER BY k FOR UPDATE)"
    );
    lock(BYTEA_ARRAY, BOOL_ARRAY) = format!(
        "SELECT CASE WHEN u.written THEN (SELECT 1 FROM {table} WHERE k = u.k FOR UPDATE) \
         ELSE (SELECT 1 FROM {table} WHERE k = u.k FOR SHARE) END FROM unnest($1::bytea[], $2::bool[]) AS u(k, written)"
    );
    remove(BYTEA, BYTEA, INT8) = format!(
        "DELETE FROM {table} WHERE k IN (SELECT k FROM {table} WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3)"
    );
    sequence() = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1";
    latest() = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1";
    clock() = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    end_sessions(TEXT) = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
    end_backend(INT4, INT8, TEXT) = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::bigint = $2 AND application_name = $3";
}

/// The connections of one server.
pub struct Pool {
    config: Config,
    tls: Tls,
    table: String,
    pub name: String,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    fence: OnceLock<Vec<u8>>,
}

/// A connection in use. It is closed unless it is given back.
pub struct Lease {
    connection: Option<Connection>,
    /// Set by an answer that did not come, or said that there will be no other.
    is_lost: AtomicBool,
    pool: Arc<Pool>,
    _permit: Option<OwnedSemaphorePermit>,
    _held: Held,
}

/// How many connections a thread has in use; the one that renews the lease of the server begins with one.
type Held = Arc<()>;

thread_local! {
    static HELD: Held = Arc::default();
    static COMES_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Has the requests of this thread wait for no connection.
pub fn come_first() {
    COMES_FIRST.set(true);
}

impl Pool {
    /// Describes the connections; none is opened.
    pub fn of(url: &Url, server: &Uuid) -> Arc<Self> {
        let mut config = url.config.clone();
        config.application_name(name_of(server)).connect_timeout(CONNECTED_WITHIN);
        config.tcp_user_timeout(2 * ANSWERED_WITHIN).keepalives_idle(2 * ANSWERED_WITHIN);
        Arc::new(Self {
            config,
            tls: url.tls.clone(),
            table: format!("\"strata_{}\"", url.table),
            name: name_of(server),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(url.connections)),
            fence: OnceLock::new(),
        })
    }

    /// Sends a request that changes nothing if it is sent twice, on any connection.
    ///
    /// # Errors
    /// `Busy` if the database refuses, or does not answer; as [`Pool::take`].
    pub fn ask<R>(
        self: &Arc<Self>,
        request: impl AsyncFn(&Connection) -> std::result::Result<R, tokio_postgres::Error>,
    ) -> Result<R> {
        let (lease, answer) = self.begin(request)?;
        lease.give_back();
        Ok(answer)
    }

    /// Does the same, and returns the connection, too.
    ///
    /// # Errors
    /// As [`Pool::ask`].
    pub fn begin<R>(
        self: &Arc<Self>,
        request: impl AsyncFn(&Connection) -> std::result::Result<R, tokio_postgres::Error>,
    ) -> Result<(Lease, R)> {
        let mut is_again = false;
        loop {
            let lease = self.take()?;
            match lease.wait_up_to(ANSWERED_WITHIN, request(&lease)) {
                Ok(answer) => return Ok((lease, answer)),
                // The database may have closed it while nobody used it.
                Err(Failure::Database(error)) if is_gone(&error) && !is_again => is_again = true,
                Err(failure) => return Err(failure.or(busy)),
            }
        }
    }

    /// Takes a connection. A thread that has one waits for no other: those that have the others might wait for it.
    ///
    /// # Errors
    /// `Busy` if all are in use for long, or none can be made.
    pub fn take(self: &Arc<Self>) -> Result<Lease> {
        let held = HELD.with(Arc::clone);
        // Those of the thread itself and of this call.
        let comes_first = COMES_FIRST.get() || Arc::strong_count(&held) > 2;
        let permit = if comes_first { None } else { Some(self.permit()?) };
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let limit = ANSWERED_WITHIN + CONNECTED_WITHIN * self.config.get_hosts().len() as u32;
                let runtime = Runtime::new()?;
                let (client, backend, statements) = runtime.wait_for(limit, self.connect())?;
                Connection { client, backend, statements, runtime }
            }
        };
        let (connection, pool) = (Some(connection), Arc::clone(self));
        Ok(Lease { connection, is_lost: AtomicBool::new(false), pool, _permit: permit, _held: held })
    }

    /// Waits for a permit, after those who waited before.
    fn permit(&self) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let timer = Runtime::of(tokio::runtime::Builder::new_current_thread().enable_time())?;
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = timer.run(async { tokio::time::timeout(ANSWERED_WITHIN, permit).await });
        permit
            .ok()
            .and_then(std::result::Result::ok)
            .ok_or_else(|| busy_because("all connections of this server are in use (connections in its URL)"))
    }

    /// Opens a connection, which the runtime of the caller drives.
    async fn open_client(&self) -> Result<Client> {
        let (client, connection) = self.config.connect(self.tls.clone()).await.map_err(busy)?;
        tokio::spawn(async move {
            // Its clients are told.
            let _ = connection.await;
        });
        Ok(client)
    }

    async fn connect(&self) -> Result<(Client, Backend, Statements)> {
        let client = self.open_client().await?;
        let own = "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let own = client.query_one(own, &[]).await.map_err(busy)?;
        let backend = Backend { process: own.get(0), started: own.get(1) };
        // What is acknowledged is synced, and replicated if there are synchronous standbys.
        let synced = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')";
        client.query(synced, &[]).await.map_err(busy)?;
        // Keys are read by the index and in its order. For a small table, or a large part of one, the planner would choose to read and sort
        // all of it, and may keep such a plan while the table grows.
        client.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.map_err(busy)?;
        let statements = Statements::prepare(&client, &self.table).await.map_err(busy)?;
        if let Some(fence) = self.fence.get() {
            let found = client.query_opt(&statements.get, &[fence]).await.map_err(busy)?;
            found.ok_or_else(|| {
                busy_because("its schema was changed while this server had no lease: start the server again")
            })?;
        }
        Ok((client, backend, statements))
    }

    /// Opens no connection from now on once this key is gone.
    pub fn set_fence(&self, key: Vec<u8>) {
        let _ = self.fence.set(key);
    }

    /// Creates the table if there is none; checks that it is one of ours.
    ///
    /// # Errors
    /// `Invalid` if it is not; `Busy` if the database does not answer, or refuses.
    pub fn prepare_table(&self, is_read_only: bool) -> Result<()> {
        Runtime::new()?.wait_for(2 * ANSWERED_WITHIN, self.prepare(is_read_only))
    }

    async fn prepare(&self, is_read_only: bool) -> Result<()> {
        let client = self.open_client().await?;
        let table = &self.table;
        let exists = async || {
            let found = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[table]).await.map_err(busy)?;
            Ok::<bool, Error>(found.get(0))
        };
        if !exists().await? {
            if is_read_only {
                return Err(Error::invalid(format!("there is no table {table} in the database")));
            }
            // Two servers that start together would both create it, and the second would wait for those who work with it already. The lock
            // is of the session: a transaction that has begun before another ends need not see the table.
            client.batch_execute("SELECT pg_advisory_lock(7233187341)").await.map_err(busy)?;
            if !exists().await? {
                let create = format!(
                    "CREATE TABLE {table} (k bytea PRIMARY KEY, v bytea NOT NULL);
                     ALTER TABLE {table} ALTER k SET STORAGE PLAIN, ALTER v SET STORAGE EXTERNAL;
                     INSERT INTO {table} VALUES ('\\x00', '\\x{}')",
                    FORMAT.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
                );
                client.batch_execute(&create).await.map_err(busy)?;
            }
            client.batch_execute("SELECT pg_advisory_unlock(7233187341)").await.map_err(busy)?;
        }
        let format = client.query_opt(&format!("SELECT v FROM {table} WHERE k = '\\x00'::bytea"), &[]).await;
        match format.ok().flatten().map(|row| row.try_get::<_, Vec<u8>>(0)) {
            Some(Ok(format)) if format == FORMAT => {}
            Some(Ok(format)) if format.starts_with(b"strata ") => {
                let format = String::from_utf8_lossy(&format).into_owned();
                return Err(Error::invalid(format!("table {table} has the format {format:?}: use a newer program")));
            }
            _ => {
                return Err(Error::invalid(format!(
                    "table {table} of the database is not one of Strata's: name another one by table= in the URL"
                )));
            }
        }
        let standbys =
            client.query_one("SELECT current_setting('synchronous_standby_names')", &[]).await.map_err(busy)?;
        if standbys.get::<_, &str>(0).is_empty() {
            tracing::info!(
                "the database has no synchronous standby (synchronous_standby_names): what is acknowledged survives this server, not the \
                 loss of the database"
            );
        }
        Ok(())
    }
}

impl Lease {
    /// Waits for an answer of the database.
    pub fn wait_up_to<R>(
        &self,
        limit: Duration,
        answer: impl Future<Output = std::result::Result<R, tokio_postgres::Error>>,
    ) -> std::result::Result<R, Failure> {
        let failure = match self.runtime.run(async { tokio::time::timeout(limit, answer).await }) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) if !is_gone(&error) => return Err(Failure::Database(error)),
            Ok(Err(error)) => Failure::Database(error),
            Err(_) => Failure::Unanswered,
        };
        // Those that nobody uses are of the same database.
        self.pool.idle.lock().clear();
        self.is_lost.store(true, Ordering::Relaxed);
        Err(failure)
    }

    /// Sends ROLLBACK, for whose answer nobody waits, and gives the connection back.
    pub fn roll_back(self) {
        if !self.is_lost.load(Ordering::Relaxed) {
            let sent = self.client.batch_execute("ROLLBACK");
            // Queued, then written by the task of the connection.
            self.runtime.run(async { tokio::select!(biased; _ = sent => {}, () = tokio::task::yield_now() => {}) });
        }
        self.give_back();
    }

    /// Gives the connection back, on which nothing is under way but a ROLLBACK, unless it is lost.
    pub fn give_back(mut self) {
        let is_lost = self.is_lost.load(Ordering::Relaxed) || self.client.is_closed();
        if let Some(connection) = self.connection.take().filter(|_| !is_lost) {
            self.pool.idle.lock().push(connection);
        }
    }
}

impl Deref for Lease {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("it is not given back")
    }
}
