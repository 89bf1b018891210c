//! The client of Redis: one connection for all requests, the commands of a registration, and the sweep of dead entries.
//!
//! ```text
//! strata:{T}:ID   the registration's JSON, with its time to live
//! strata:{T}      a sorted set: the ids, by their deadlines in milliseconds since 1970
//! ```
//! The braces keep all keys of a table in one slot of a cluster. Both keys are written by one step, so there is no registration without its
//! end. Entries of the set whose registration has ended lead to nothing, and are swept.
//!
//! Who asks is told at once if Redis is away: a task looks every second, so that no thread waits for a server that does not answer, and has
//! it connected again. What was sent and is not answered may have been carried out, and is not sent again.
//!
//! Non-goals: what a registration is (`registry`); TLS; a connection to several nodes of a cluster.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{IntoConnectionInfo, RedisError, RedisResult, Script};
use tokio::sync::Notify;

use super::Address;
use super::registration::{Registered, Stay};
use super::runtime::Runtime;
use crate::error::{Error, RemoteFault, Result};

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may take, and the answer by which it is seen that Redis is there.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause between two such looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The same while Redis is away.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// After which time without an acknowledgement the system gives the connection up.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// How often dead entries are swept.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Registers if there is no registration. Keys: the registration, the set. Arguments: JSON, time to live, deadline, id.
static REGISTER_ABSENT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
         redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
         redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
         return 1",
    )
});

/// Removes a registration; a script, because what stands in MULTI is refused while Redis is full. Keys: as above. Argument: the id.
static UNREGISTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('ZREM', KEYS[2], ARGV[1])
         return redis.call('DEL', KEYS[1])",
    )
});

/// Returns the registrations that end later. Key: the set. Arguments: the time, and how the keys of registrations begin. A call has at most
/// some thousand arguments.
static ENUMERATE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local ids, found = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf'), {}
         for first = 1, #ids, 1000 do
             local keys = {}
             for place = first, math.min(first + 999, #ids) do keys[#keys + 1] = ARGV[2] .. ids[place] end
             for _, json in ipairs(redis.call('MGET', unpack(keys))) do
                 if json then found[#found + 1] = json end
             end
         end
         return found",
    )
});

/// Removes entries that are past their time and lead to nothing, at most a thousand; returns how many it has seen, and how many of these
/// stay. Key: the set. Arguments: the time, how many to pass over, and how the keys of registrations begin.
static SWEEP: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', ARGV[2], 1000)
         local kept = 0
         for _, id in ipairs(ids) do
             if redis.call('EXISTS', ARGV[3] .. id) == 1 then kept = kept + 1 else redis.call('ZREM', KEYS[1], id) end
         end
         return {#ids, kept}",
    )
});

/// A client of one Redis.
pub(super) struct Client {
    address: String,
    connection: ConnectionManager,
    link: Arc<Link>,
    runtime: Runtime,
}

/// What is known of the connection.
struct Link {
    is_away: AtomicBool,
    look: Notify,
}

impl Client {
    /// Connects; Redis need not be there.
    ///
    /// # Errors
    /// `Invalid` address; `Storage` if no thread can be started.
    pub(super) fn open(address: &Address, tables: Vec<String>) -> Result<Self> {
        let refused = |error: RedisError| Error::invalid(format!("--redis-addr {address}: {error}"));
        let url = match address.scheme() {
            None => format!("redis://{}", address.as_str()),
            Some("redis") => address.as_str().to_owned(),
            Some(_) => {
                return Err(Error::invalid(format!(
                    "--redis-addr: {address} is neither host:port nor a URL with redis://"
                )));
            }
        };
        let settings = TcpSettings::default().set_nodelay(true).set_user_timeout(LOST_AFTER);
        let info = url.into_connection_info().map_err(refused)?.set_tcp_settings(settings);
        let client = redis::Client::open(info).map_err(refused)?;
        let cannot = |error| Error::storage("cannot start the thread of the client of Redis", error);
        let runtime = Runtime::start("strata-redis").map_err(cannot)?;
        // Whoever asks waits no longer than it may, and no attempt is repeated but by the next look.
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(LOOK_TIMEOUT))
            .set_response_timeout(None)
            .set_number_of_retries(0);
        let connected = async move { ConnectionManager::new_lazy_with_config(client, config) };
        let connection =
            runtime.wait(REQUEST_TIMEOUT, connected).ok_or_else(|| Error::invalid("the client of Redis ended"))?;
        let (connection, address) = (connection.map_err(refused)?, address.to_string());
        let link = Arc::new(Link { is_away: AtomicBool::new(true), look: Notify::new() });
        let first = runtime.wait(2 * LOOK_TIMEOUT, look(connection.clone()));
        let first = first.unwrap_or_else(|| Some("its thread has ended".to_owned()));
        link.is_away.store(first.is_some(), Ordering::Relaxed);
        if let Some(reason) = first {
            tracing::warn!("{} ({reason})", away(&address));
        }
        runtime.spawn(tend(address.clone(), connection.clone(), Arc::clone(&link), tables));
        Ok(Self { address, connection, link, runtime })
    }

    /// Returns the JSON of a registration, and the rest of its time to live in milliseconds; negative if it has none.
    ///
    /// # Errors
    /// `Busy` if Redis is away; `Remote`; `Storage` if it refuses the command.
    pub(super) fn get(&self, table: &str, id: &str) -> Result<Option<(Vec<u8>, i64)>> {
        let mut both = redis::pipe();
        both.cmd("GET").arg(key_of(table, id)).cmd("PTTL").arg(key_of(table, id));
        let (json, left_ms): (Option<Vec<u8>>, i64) =
            self.ask(|mut redis| async move { both.query_async(&mut redis).await })?;
        Ok(json.map(|json| (json, left_ms)))
    }

    /// Registers, or replaces the registration that is there.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) fn set(&self, table: &str, id: &str, json: &[u8], stay: Stay) -> Result<Registered> {
        let mut step = redis::pipe();
        step.atomic().cmd("EXISTS").arg(key_of(table, id));
        step.cmd("SET").arg(key_of(table, id)).arg(json).arg("PX").arg(stay.left_ms).ignore();
        step.cmd("ZADD").arg(set_of(table)).arg(stay.until_ms).arg(id).ignore();
        let (existed,): (u8,) = self.ask(|mut redis| async move { step.query_async(&mut redis).await })?;
        Ok(if existed == 1 { Registered::Replaced } else { Registered::Created })
    }

    /// Registers if there is no registration; returns whether there was none.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) fn set_absent(&self, table: &str, id: &str, json: &[u8], stay: Stay) -> Result<bool> {
        let mut call = REGISTER_ABSENT.key(key_of(table, id));
        call.key(set_of(table)).arg(json).arg(stay.left_ms).arg(stay.until_ms).arg(id);
        self.ask(|mut redis| async move { call.invoke_async(&mut redis).await })
    }

    /// Removes a registration; returns whether there was one.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) fn delete(&self, table: &str, id: &str) -> Result<bool> {
        let mut call = UNREGISTER.key(key_of(table, id));
        call.key(set_of(table)).arg(id);
        self.ask(|mut redis| async move { call.invoke_async(&mut redis).await })
    }

    /// Returns the JSON of all registrations of a table that end after a time in milliseconds since 1970.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(super) fn all(&self, table: &str, after_ms: i64) -> Result<Vec<Vec<u8>>> {
        let mut call = ENUMERATE.key(set_of(table));
        call.arg(after_ms).arg(key_of(table, ""));
        self.ask(|mut redis| async move { call.invoke_async(&mut redis).await })
    }

    /// Has the thread of the client carry a request out, and waits for it.
    fn ask<T, F>(&self, request: impl FnOnce(ConnectionManager) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = RedisResult<T>> + Send + 'static,
    {
        if self.link.is_away.load(Ordering::Relaxed) {
            return Err(Error::Busy { detail: away(&self.address) });
        }
        match self.runtime.wait(REQUEST_TIMEOUT, request(self.connection.clone())) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(error)) => Err(self.failed(error)),
            None => Err(self.unanswered(&not_within(REQUEST_TIMEOUT))),
        }
    }

    fn failed(&self, error: RedisError) -> Error {
        /// What passes by itself.
        const PASSING: [&str; 7] = ["LOADING", "BUSY", "MISCONF", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"];
        let address = &self.address;
        let refusals = error.clone().into_server_errors();
        let is_any_of = |codes: &[&str]| {
            refusals.iter().flat_map(|all| all.iter()).any(|(_, refusal)| codes.contains(&refusal.code()))
        };
        if is_any_of(&["OOM"]) {
            let detail = format!("Redis at {address} has no room for more: unregister, or raise its maxmemory");
            return Error::Remote { detail, fault: RemoteFault::Full };
        }
        if is_any_of(&PASSING) {
            return Error::Busy { detail: format!("Redis at {address} cannot do it now: {error}") };
        }
        if refusals.is_some() {
            return Error::storage(format!("Redis at {address} refuses a command"), error);
        }
        if error.is_connection_refusal() {
            self.look();
            return Error::Busy { detail: away(address) };
        }
        self.unanswered(&error.to_string())
    }

    fn unanswered(&self, why: &str) -> Error {
        self.look();
        let detail = format!("no response of Redis at {}: {why}; a write may have been applied", self.address);
        Error::Remote { detail, fault: RemoteFault::Unanswered }
    }

    /// Takes Redis for away until it is seen to answer.
    fn look(&self) {
        self.link.is_away.store(true, Ordering::Relaxed);
        self.link.look.notify_one();
    }
}

fn key_of(table: &str, id: &str) -> String {
    format!("strata:{{{table}}}:{id}")
}

fn set_of(table: &str) -> String {
    format!("strata:{{{table}}}")
}

fn away(address: &str) -> String {
    format!("Redis at {address} does not answer: what is kept in it is not available until it does")
}

fn not_within(time: Duration) -> String {
    format!("not within {} s", time.as_secs())
}

/// Asks Redis whether it is there; returns why not.
async fn look(mut redis: ConnectionManager) -> Option<String> {
    let ping = redis::cmd("PING");
    match tokio::time::timeout(LOOK_TIMEOUT, ping.query_async::<()>(&mut redis)).await {
        Ok(answer) => answer.err().map(|error| error.to_string()),
        Err(_) => Some(not_within(LOOK_TIMEOUT)),
    }
}

/// Looks whether Redis is there, and sweeps its dead entries, until it is dropped.
async fn tend(address: String, redis: ConnectionManager, link: Arc<Link>, tables: Vec<String>) {
    let (mut was_away, mut swept) = (link.is_away.load(Ordering::Relaxed), Instant::now());
    loop {
        let pause = if link.is_away.load(Ordering::Relaxed) { LOOK_AGAIN } else { LOOK_EVERY };
        let _ = tokio::time::timeout(pause, link.look.notified()).await;
        let reason = look(redis.clone()).await;
        link.is_away.store(reason.is_some(), Ordering::Relaxed);
        match reason {
            Some(reason) if !was_away => tracing::warn!("{} ({reason})", away(&address)),
            None if was_away => tracing::info!("Redis at {address} answers"),
            _ => {}
        }
        was_away = link.is_away.load(Ordering::Relaxed);
        if !was_away && swept.elapsed() >= SWEEP_EVERY {
            swept = Instant::now();
            for table in &tables {
                // What it leaves is swept the next time.
                if let Err(error) = sweep(redis.clone(), table).await {
                    tracing::warn!("Redis at {address}: dead entries of {table} stay for now: {error}");
                }
            }
        }
    }
}

/// Removes the dead entries of a table.
async fn sweep(mut redis: ConnectionManager, table: &str) -> RedisResult<()> {
    let (now_ms, mut passed) = (jiff::Timestamp::now().as_millisecond(), 0);
    loop {
        let mut call = SWEEP.key(set_of(table));
        call.arg(now_ms).arg(passed).arg(key_of(table, ""));
        let (seen, kept): (u64, u64) = call.invoke_async(&mut redis).await?;
        if seen < 1000 {
            return Ok(());
        }
        passed += kept;
    }
}
