//! The stream `strata` in a JetStream, to which the server writes messages: made before subscribers look for it, because the server makes it with
//! its first message; and in a JetStream that was there before a run, afterwards it has what it had.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;
use tokio::runtime::Builder;

use crate::output::remark;

/// The name of the stream that the server writes messages to.
pub const STREAM: &str = "strata";

/// How long messages stay, and are known, in the stream that the server makes.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
const DUPLICATE_WINDOW: Duration = Duration::from_secs(3600);

/// How long all of it may take.
const TO_ASK: Duration = Duration::from_secs(10);

/// The stream, which is made as the server makes it if there is none.
///
/// # Errors
/// Why there is none.
pub async fn made(client: &async_nats::Client) -> Result<Stream, String> {
    let config = jetstream::stream::Config {
        name: STREAM.to_owned(),
        subjects: vec![format!("{STREAM}.>")],
        max_age: MAX_AGE,
        duplicate_window: DUPLICATE_WINDOW,
        ..jetstream::stream::Config::default()
    };
    let made = jetstream::new(client.clone()).get_or_create_stream(config).await;
    made.map_err(|error| format!("NATS has no stream {STREAM}: {error}"))
}

/// A stream, and what is to be removed from it when this is dropped, or it itself.
#[derive(Debug)]
pub struct KeptStream {
    nats: String,
    /// The subjects of what a run writes.
    subjects: String,
    was_there: bool,
}

impl KeptStream {
    /// That of a NATS, for the messages of a table.
    ///
    /// # Errors
    /// It cannot be asked, or the stream has messages of the table: they may be somebody's.
    pub fn of(nats: &str, table: &str) -> Result<Self, String> {
        let subjects = format!("{STREAM}.{table}.>");
        let found = asked(nats, async |context| {
            let Ok(stream) = context.get_stream(STREAM).await else { return Ok(None) };
            let mut info = stream.info_with_subjects(&subjects).await.map_err(|error| error.to_string())?;
            Ok(Some(info.next().await.is_some()))
        });
        match found.map_err(|reason| format!("{nats}: {reason}"))? {
            Some(true) => Err(format!("{nats}: the stream {STREAM} has messages to {subjects} already")),
            found => Ok(Self { nats: nats.to_owned(), subjects, was_there: found.is_some() }),
        }
    }
}

impl Drop for KeptStream {
    fn drop(&mut self) {
        let removed = asked(&self.nats, async |context| {
            let stream = context.get_stream(STREAM).await.map_err(|error| error.to_string())?;
            match self.was_there {
                true => stream.purge().filter(&self.subjects).await.map(drop).map_err(|error| error.to_string()),
                false => context.delete_stream(STREAM).await.map(drop).map_err(|error| error.to_string()),
            }
        });
        if let Err(reason) = removed {
            remark(format_args!("load: the messages of the run are still in the stream {STREAM}: {reason}"));
        }
    }
}

/// What a JetStream answers, over a connection of its own: between two questions nobody would answer the server's own.
fn asked<T>(nats: &str, ask: impl AsyncFnOnce(jetstream::Context) -> Result<T, String>) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let answer = async {
            let servers: Vec<_> = nats.split(',').collect();
            let client = async_nats::connect(servers).await.map_err(|error| error.to_string())?;
            ask(jetstream::new(client)).await
        };
        tokio::time::timeout(TO_ASK, answer).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    })
}
