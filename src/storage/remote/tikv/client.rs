//! The client of TiKV, with a limit to each request, and a new one where it has not been answered for long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use tikv_client::transaction::HeartbeatOption;
use tikv_client::{
    Backoff, CheckLevel, Config, Error as ClientError, ProtoKeyError, RetryOptions, TransactionClient,
    TransactionOptions,
};

use super::regions::Pd;
use super::runtime::Runtime;
use crate::error::{Error, Result};

/// The time within which each request is answered, with all that the client does for it.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(6);

/// The time within which PD is found at the start.
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// A client without an answer for so long is replaced: what it knows of regions may be wrong for good.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// The largest answer.
const ANSWER_BYTES: usize = 64 << 20;

/// How long the client waits for a region that has moved (2.5 s), and for a lock (4.5 s).
const RETRIES: RetryOptions = RetryOptions {
    region_backoff: Backoff::no_jitter_backoff(2, 500, 10),
    lock_backoff: Backoff::no_jitter_backoff(2, 100, 50),
};

/// A client.
pub struct Client {
    current: RwLock<TransactionClient>,
    endpoints: Vec<String>,
    /// When a region last answered.
    answered: Mutex<Instant>,
    /// Held by the thread that replaces the client.
    renewing: Mutex<()>,
    /// Last, since it runs the tasks of the client.
    runtime: Runtime,
}

/// Returns the options of a transaction.
pub fn options() -> TransactionOptions {
    let options = TransactionOptions::new_optimistic().retry_options(RETRIES).drop_check(CheckLevel::None);
    // Locks last three seconds, those of a large transaction up to twenty, and are not renewed: what became of a commit is known after that.
    options.heartbeat_option(HeartbeatOption::NoHeartbeat)
}

impl Client {
    /// Connects to PD.
    ///
    /// # Errors
    /// `Busy` if none of the endpoints answers.
    pub fn connect(endpoints: &[String]) -> Result<Self> {
        let runtime = Runtime::start("strata-tikv")?;
        let current = connect_within(&runtime, CONNECTED_WITHIN, endpoints)?;
        let endpoints = endpoints.to_vec();
        Ok(Self {
            current: RwLock::new(current),
            endpoints,
            answered: Mutex::new(Instant::now()),
            renewing: Mutex::default(),
            runtime,
        })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// `Busy` if it does not answer, or refuses.
    pub fn ask<R>(&self, what: impl AsyncFnOnce(TransactionClient) -> tikv_client::Result<R>) -> Result<R> {
        self.ask_within(ANSWERED_WITHIN, what)?.map_err(|error| busy(&error))
    }

    /// Asks PD alone, which may answer while no region can be reached.
    ///
    /// # Errors
    /// `Busy` if it does not answer, or refuses.
    pub fn ask_pd<R>(&self, what: impl AsyncFnOnce(TransactionClient) -> tikv_client::Result<R>) -> Result<R> {
        self.attempt(ANSWERED_WITHIN, what)?.map_err(|error| busy(&error))
    }

    /// Asks, and waits for the answer no longer than that. Then the request is given up: what was prewritten is not committed any more.
    ///
    /// # Errors
    /// `Busy` if there is no answer.
    pub fn ask_within<R>(
        &self,
        limit: Duration,
        what: impl AsyncFnOnce(TransactionClient) -> tikv_client::Result<R>,
    ) -> Result<tikv_client::Result<R>> {
        let outcome = self.attempt(limit, what);
        if let Ok(answer) = &outcome
            && answer.as_ref().err().is_none_or(is_refusal)
        {
            *self.answered.lock() = Instant::now();
        }
        outcome
    }

    fn attempt<R>(
        &self,
        limit: Duration,
        what: impl AsyncFnOnce(TransactionClient) -> tikv_client::Result<R>,
    ) -> Result<tikv_client::Result<R>> {
        let client = self.current.read().clone();
        // The client panics where an answer is not what it expects.
        let asked =
            AssertUnwindSafe(|| self.runtime.wait_for(async { tokio::time::timeout(limit, what(client)).await }));
        match catch_unwind(asked) {
            Ok(Ok(outcome)) => {
                if outcome.as_ref().is_err_and(|error| !is_refusal(error)) {
                    self.renew();
                }
                Ok(outcome)
            }
            Ok(Err(_)) | Err(_) => {
                self.renew();
                Err(busy_because("it does not answer"))
            }
        }
    }

    /// Replaces the client if it was not answered for long.
    fn renew(&self) {
        let Some(_renewing) = self.renewing.try_lock() else { return };
        if self.answered.lock().elapsed() < SILENT_FOR {
            return;
        }
        if let Ok(client) = connect_within(&self.runtime, ANSWERED_WITHIN, &self.endpoints) {
            *self.current.write() = client;
        }
        *self.answered.lock() = Instant::now();
    }
}

fn connect_within(runtime: &Runtime, limit: Duration, endpoints: &[String]) -> Result<TransactionClient> {
    let config = Config::default().with_grpc_max_decoding_message_size(ANSWER_BYTES);
    let connect = async {
        // The client would wait for each that is silent.
        let all = join_all(endpoints.iter().map(|endpoint| Pd::connect(endpoint))).await;
        let answered = endpoints.iter().zip(all).filter(|(_, found)| found.is_ok()).map(|(endpoint, _)| endpoint);
        let answered: Vec<_> = answered.cloned().collect();
        let answered = if answered.is_empty() { endpoints.to_vec() } else { answered };
        TransactionClient::new_with_config(answered, config).await
    };
    let connected = runtime.wait_for(async { tokio::time::timeout(limit, connect).await });
    connected.map_err(|_| busy_because("PD does not answer"))?.map_err(|error| busy(&error))
}

/// Returns whether an error says that a transaction is not committed, and will not be: another was faster.
pub fn is_refusal(error: &ClientError) -> bool {
    let are_refusals = |errors: &[ClientError]| !errors.is_empty() && errors.iter().all(is_refusal);
    match error {
        ClientError::KeyError(error) => is_refusal_of_key(error),
        ClientError::MultipleKeyErrors(errors) | ClientError::ExtractedErrors(errors) => are_refusals(errors),
        ClientError::ResolveLockError(_) => true,
        _ => false,
    }
}

/// Returns whether it is a conflict, a key that exists or is locked, or a lock that is gone: what TiKV calls retryable. It says `abort` also
/// where it does not know what became of a request.
fn is_refusal_of_key(error: &ProtoKeyError) -> bool {
    error.conflict.is_some() || error.already_exist.is_some() || error.locked.is_some() || !error.retryable.is_empty()
}

/// Returns whether an answer has more bytes than an answer may have. The client has asked for it ten times then (2.5 s).
pub fn is_too_large(error: &ClientError) -> bool {
    match error {
        ClientError::GrpcAPI(status) => status.code() == tonic::Code::OutOfRange,
        ClientError::MultipleKeyErrors(errors) | ClientError::ExtractedErrors(errors) => {
            errors.iter().any(is_too_large)
        }
        _ => false,
    }
}

/// Returns the error of a request that was not done, or not answered.
pub fn busy(error: &ClientError) -> Error {
    // What it says of locks and regions is many lines, and names keys.
    match error {
        ClientError::ResolveLockError(_) => busy_because("keys are locked by another transaction"),
        ClientError::RegionError(error) => busy_because(&format!("a region cannot be reached: {}", error.message)),
        ClientError::MultipleKeyErrors(_) | ClientError::ExtractedErrors(_) | ClientError::KeyError(_) => {
            busy_because("it refuses keys")
        }
        // Behind a file of the client and a line.
        ClientError::InternalError { message } => {
            busy_because(message.split_once("]: ").map_or(message, |(_, why)| why))
        }
        other => busy_because(&other.to_string()),
    }
}

pub fn busy_because(why: &str) -> Error {
    Error::Busy { detail: format!("the database: {why}") }
}
