//! The stream `strata` in a JetStream, to which the server writes messages. It is made before subscribers look for it, because the server makes
//! it with its first message; and in a JetStream that was there before a run, it has afterwards what it had.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::output::remark;

/// The name of the stream that the server writes messages to.
pub const STREAM: &str = "strata";

/// The times for which messages stay, and are known, in the stream that the server makes.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
const DUPLICATE_WINDOW: Duration = Duration::from_secs(3600);

/// The error code of a response (`err_code`) if there is no such stream.
const STREAM_NOT_FOUND: u64 = 10_059;

/// The timeout of a connection with all that is said over it.
const TO_ASK: Duration = Duration::from_secs(10);

/// The number of messages that a consumer asks for at a time; once half of them have come, it asks for as many again.
const BATCH: usize = 500;

/// The lifetime of a request for messages, the interval of heartbeats while there are none, and the silence after which a consumer is lost.
const EXPIRES: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_secs(3);
const SILENCE: Duration = Duration::from_secs(10);

/// The lifetime of a consumer of which nothing is asked.
const INACTIVE: Duration = Duration::from_secs(300);

/// The pause before a lost consumer is made once more.
const PAUSE: Duration = Duration::from_millis(250);

/// The stream, which is made as the server makes it if there is none.
///
/// # Errors
/// Why there is none.
pub async fn make(client: &Client) -> Result<(), String> {
    let reason = |error: String| format!("NATS has no stream {STREAM}: {error}");
    if find(client, &Value::Null).await.map_err(reason)?.is_some() {
        return Ok(());
    }
    let config = json!({
        "name": STREAM,
        "subjects": [format!("{STREAM}.>")],
        "storage": "file",
        "max_age": nanoseconds(MAX_AGE),
        "duplicate_window": nanoseconds(DUPLICATE_WINDOW),
    });
    ask(client, "STREAM.CREATE", &config).await.and_then(accepted).map(drop).map_err(reason)
}

/// Returns the information about the stream; none if there is no such stream.
async fn find(client: &Client, request: &Value) -> Result<Option<Value>, String> {
    let found = ask(client, "STREAM.INFO", request).await?;
    if found["error"]["err_code"] == STREAM_NOT_FOUND { Ok(None) } else { accepted(found).map(Some) }
}

/// Asks JetStream about the stream.
async fn ask(client: &Client, question: &str, request: &Value) -> Result<Value, String> {
    let request = if request.is_null() { Bytes::new() } else { request.to_string().into() };
    let answer = client.request(format!("$JS.API.{question}.{STREAM}"), request).await;
    let answer = answer.map_err(|error| format!("{question}: {error}"))?;
    serde_json::from_slice(&answer.payload).map_err(|error| format!("{question}: {error}"))
}

/// An answer that is no refusal.
fn accepted(answer: Value) -> Result<Value, String> {
    match &answer["error"] {
        Value::Null => Ok(answer),
        error => Err(error["description"].as_str().map_or_else(|| error.to_string(), str::to_owned)),
    }
}

/// A duration as the protocol has it.
fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// A consumer of some subjects: each of their messages once and in the order of the stream, also behind a lost connection or broker.
#[derive(Debug)]
pub struct Consumer {
    client: Client,
    subjects: Vec<String>,
    /// The number in the stream of the last message that has come, or that was there before.
    last: u64,
    /// None if it was lost.
    open: Option<OpenConsumer>,
}

/// A consumer as JetStream has it.
#[derive(Debug)]
struct OpenConsumer {
    name: String,
    inbox: String,
    messages: Subscriber,
    /// The number of messages that have come from it, and the number that it was asked for and that have not come yet.
    came: u64,
    asked: usize,
}

impl Consumer {
    /// One of what comes into the stream from now on.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn new(client: &Client, subjects: Vec<String>) -> Result<Self, String> {
        let mut consumer = Self { client: client.clone(), subjects, last: 0, open: None };
        let first = consumer.open(json!({"deliver_policy": "new"})).await?;
        // Of it and all before it, none was delivered.
        consumer.last = first["delivered"]["stream_seq"].as_u64().ok_or("JetStream says nothing of a consumer")?;
        Ok(consumer)
    }

    /// Makes a consumer that JetStream deletes by itself once nobody asks it.
    async fn open(&mut self, from: Value) -> Result<Value, String> {
        let mut config = json!({
            "filter_subjects": self.subjects,
            "ack_policy": "none",
            "replay_policy": "instant",
            "mem_storage": true,
            "inactive_threshold": nanoseconds(INACTIVE),
        });
        if let (Value::Object(config), Value::Object(from)) = (&mut config, from) {
            config.extend(from);
        }
        let request = json!({"stream_name": STREAM, "config": config});
        let made = ask(&self.client, "CONSUMER.CREATE", &request).await.and_then(accepted)?;
        let name = made["name"].as_str().ok_or("JetStream made a consumer without a name")?.to_owned();
        let inbox = self.client.new_inbox();
        let messages = self.client.subscribe(inbox.clone()).await.map_err(|error| error.to_string())?;
        self.open = Some(OpenConsumer { name, inbox, messages, came: 0, asked: 0 });
        Ok(made)
    }

    /// The next message. It waits for as long as there is none, and makes the consumer again if it is lost.
    pub async fn next(&mut self) -> Message {
        loop {
            let Some(open) = &mut self.open else {
                let from = json!({"deliver_policy": "by_start_sequence", "opt_start_seq": self.last + 1});
                if self.open(from).await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
                continue;
            };
            match open.next(&self.client).await {
                Some((number, message)) => {
                    self.last = number;
                    return message;
                }
                None => self.open = None,
            }
        }
    }
}

impl OpenConsumer {
    /// The next message and its number in the stream; none if the consumer is lost, or has lost one.
    async fn next(&mut self, client: &Client) -> Option<(u64, Message)> {
        loop {
            if self.asked <= BATCH / 2 {
                let request = json!({
                    "batch": BATCH, "expires": nanoseconds(EXPIRES), "idle_heartbeat": nanoseconds(HEARTBEAT),
                });
                let next = format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{}", self.name);
                client.publish_with_reply(next, self.inbox.clone(), request.to_string().into()).await.ok()?;
                self.asked += BATCH;
            }
            let message = tokio::time::timeout(SILENCE, self.messages.next()).await.ok()??;
            match message.status {
                None | Some(StatusCode::OK) => {
                    let (in_stream, from_consumer) = numbers(message.reply.as_deref()?)?;
                    self.came += 1;
                    self.asked = self.asked.saturating_sub(1);
                    return (from_consumer == self.came).then_some((in_stream, message));
                }
                Some(StatusCode::IDLE_HEARTBEAT) => {}
                // What it was asked for has expired, and it says how much of it was left.
                Some(StatusCode::TIMEOUT) => {
                    let left = message.headers.as_ref()?.get("Nats-Pending-Messages")?.as_str().parse().ok()?;
                    self.asked = self.asked.saturating_sub(left);
                }
                Some(_) => return None,
            }
        }
    }
}

/// The numbers of a message in the stream and from its consumer, by its reply subject: `$JS.ACK`, stream, consumer, deliveries, number in the
/// stream, number from the consumer, time, pending. Some servers put a domain and an account before the stream.
fn numbers(reply: &str) -> Option<(u64, u64)> {
    let words: Vec<_> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
    let first = if words.len() > 7 { 5 } else { 3 };
    Some((words.get(first)?.parse().ok()?, words.get(first + 1)?.parse().ok()?))
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
        let found = connected(nats, async |client| find(&client, &json!({"subjects_filter": subjects})).await);
        let found = found.map_err(|reason| format!("{nats}: {reason}"))?;
        let is_empty = |info: &Value| info["state"]["subjects"].as_object().is_none_or(serde_json::Map::is_empty);
        if found.as_ref().is_some_and(|info| !is_empty(info)) {
            return Err(format!("{nats}: the stream {STREAM} has messages to {subjects} already"));
        }
        Ok(Self { nats: nats.to_owned(), subjects, was_there: found.is_some() })
    }
}

impl Drop for KeptStream {
    fn drop(&mut self) {
        let (question, request) = match self.was_there {
            true => ("STREAM.PURGE", json!({"filter": self.subjects})),
            false => ("STREAM.DELETE", Value::Null),
        };
        let removed = connected(&self.nats, async |client| ask(&client, question, &request).await.and_then(accepted));
        if let Err(reason) = removed {
            remark(format_args!("load: the messages of the run are still in the stream {STREAM}: {reason}"));
        }
    }
}

/// Talks over a connection of its own: between two questions nobody would answer those of the server.
fn connected<T>(nats: &str, say: impl AsyncFnOnce(Client) -> Result<T, String>) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let answer = async {
            let servers: Vec<_> = nats.split(',').collect();
            say(async_nats::connect(servers).await.map_err(|error| error.to_string())?).await
        };
        tokio::time::timeout(TO_ASK, answer).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_of_a_message_are_found_in_both_forms() {
        assert_eq!(numbers("$JS.ACK.strata.c1.1.105.7.1700000000000000000.3"), Some((105, 7)));
        assert_eq!(numbers("$JS.ACK._.hash.strata.c1.1.105.7.1700000000000000000.3.token"), Some((105, 7)));
        for other in ["_INBOX.a", "$JS.ACK.strata.c1.1", "$JS.ACK.strata.c1.1.a.7.1.3"] {
            assert_eq!(numbers(other), None, "{other}");
        }
    }
}
