//! A connection to the broker: made again whenever it breaks, with an inbox to which everything that is said of its messages comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ClientError, ConnectOptions, Event, ServerAddr, ServerError, Subscriber};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::{Error, Result};
use crate::multicast::Address;

/// The longest pause before a connection is tried again, shared by the servers, which are tried in turns.
const PAUSE: Duration = Duration::from_secs(4);

/// The first pause.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// How long a server may take to greet.
const GREETING: Duration = Duration::from_secs(4);

/// How often the broker is asked whether it is there.
const PING: Duration = Duration::from_secs(10);

/// How many publications wait for the client to write them: those of most multicasts go out in one piece.
const QUEUED: usize = 1 << 12;

/// How many bytes of messages may wait for room among these.
const QUEUED_BYTES: usize = 64 << 20;

/// What a publication takes beside the body, about.
pub(super) const PUBLICATION_BYTES: usize = 256;

/// How many words of the broker wait to be read; more are lost.
const UNREAD: usize = 1 << 20;

/// What is seen of a connection besides its inbox.
pub(super) enum Seen {
    /// It is there, perhaps again.
    Connected,
    /// The broker does not allow to publish to a subject.
    Refused(String),
}

/// A connection.
pub(super) struct Connection {
    pub(super) client: Client,
    /// What the subjects of its inbox begin with.
    pub(super) inbox: String,
    queued_bytes: AtomicUsize,
}

/// A message that waits until the client has all of it.
pub(super) struct Queued<'c> {
    connection: &'c Connection,
    bytes: usize,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.connection.queued_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What comes in on a connection.
pub(super) struct Incoming {
    pub(super) inbox: Subscriber,
    pub(super) seen: UnboundedReceiver<Seen>,
}

impl Connection {
    /// Begins to connect; that goes on in the background.
    ///
    /// # Errors
    /// `Invalid` if an address is none.
    pub(super) async fn begin(addresses: &[Address], says_so: bool) -> Result<(Self, Incoming)> {
        let servers = servers(addresses)?;
        let (seeing, seen) = unbounded_channel();
        let told = Arc::new(Told { says_so, is_away: AtomicBool::new(false), seeing });
        let longest = PAUSE / u32::try_from(servers.len()).unwrap_or(u32::MAX);
        let pause = move |attempts: usize| match attempts {
            0 | 1 => Duration::ZERO,
            _ => FIRST_PAUSE.saturating_mul(1 << attempts.min(16)).min(longest),
        };
        let options = ConnectOptions::new()
            .name("strata")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .reconnect_delay_callback(pause)
            .connection_timeout(GREETING)
            .ping_interval(PING)
            .client_capacity(QUEUED)
            .subscription_capacity(UNREAD)
            .skip_subject_validation(true)
            .event_callback(move |event| {
                told.notice(event);
                std::future::ready(())
            });
        let credentials = addresses.first().and_then(Address::credentials);
        let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let options = match credentials {
            None => options,
            Some((user, Some(password))) => options.user_and_password(plain(user), plain(password)),
            Some((token, None)) => options.token(plain(token)),
        };
        let cannot = |error: &dyn std::fmt::Display| Error::invalid(format!("--nats-servers: {error}"));
        let client = options.connect(&servers[..]).await.map_err(|error| cannot(&error))?;
        let inbox = client.new_inbox();
        let subscriber = client.subscribe(format!("{inbox}.>")).await.map_err(|error| cannot(&error))?;
        Ok((Self { client, inbox, queued_bytes: AtomicUsize::new(0) }, Incoming { inbox: subscriber, seen }))
    }

    /// Returns whether it is there, as far as is known, and takes messages.
    pub(super) fn is_there(&self) -> bool {
        self.client.connection_state() == State::Connected && self.queued_bytes.load(Ordering::Relaxed) < QUEUED_BYTES
    }

    /// Returns how often it was made: what was published before it broke may be lost, and what comes behind it is not.
    pub(super) fn connects(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
    }

    /// Counts a message for as long as it waits.
    pub(super) fn queue(&self, publications: usize, body: &Bytes) -> Queued<'_> {
        let bytes = body.len() + publications * PUBLICATION_BYTES;
        self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        Queued { connection: self, bytes }
    }
}

/// Returns the addresses as the client takes them.
fn servers(addresses: &[Address]) -> Result<Vec<ServerAddr>> {
    let server = |address: &Address| {
        let parsed = address.as_str().parse::<ServerAddr>();
        parsed.map_err(|error| Error::invalid(format!("--nats-servers: {address}: {error}")))
    };
    addresses.iter().map(server).collect()
}

/// Tells what happens to a connection.
struct Told {
    /// Whether the operator is told: of one connection of several.
    says_so: bool,
    is_away: AtomicBool,
    seeing: UnboundedSender<Seen>,
}

impl Told {
    fn notice(&self, event: Event) {
        match event {
            Event::Connected => {
                if self.is_away.swap(false, Ordering::Relaxed) && self.says_so {
                    tracing::info!("NATS is there again");
                }
                let _ = self.seeing.send(Seen::Connected);
            }
            Event::Disconnected => self.is_lost("the connection has broken"),
            Event::ClientError(ClientError::Other(reason)) => self.is_lost(&reason),
            Event::ServerError(ServerError::Other(error)) => {
                // Permissions Violation for Publish to "strata.Device.d1"
                let mut quoted = error.split('"').skip(1);
                match quoted.next().filter(|_| error.contains("Publish")) {
                    Some(subject) => drop(self.seeing.send(Seen::Refused(subject.to_owned()))),
                    None => tracing::error!("NATS says: {error}"),
                }
            }
            Event::ServerError(error) => tracing::error!("NATS says: {error}"),
            _ => {}
        }
    }

    fn is_lost(&self, reason: &str) {
        if !self.is_away.swap(true, Ordering::Relaxed) && self.says_so {
            tracing::warn!("NATS cannot be reached, and will be tried again: {reason}");
        }
    }
}
